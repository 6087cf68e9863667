"""Star-mesh elimination: pairs under weights of hundreds of decades."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.oracles import exact_pair
from treeanova.anova.solvers import direct, solve
from treeanova.anova.solvers.base import Options
from treeanova.anova.solvers.direct import star_mesh_projections
from treeanova.anova.support import take_out


@pytest.mark.parametrize("shape", [(4, 5), (6, 3), (5, 5), (1, 4), (4, 1)])
@pytest.mark.parametrize("span", [1, 30, 140])
def test_pairs_are_exact_over_many_decades(shape, span):
    rng = np.random.default_rng([*shape, span])
    weights, values = 10.0 ** rng.uniform(-span, span, shape), rng.normal(size=(2, *shape))
    weights /= weights.sum()
    left = values.copy()
    take_out(left, star_mesh_projections(values, weights))
    for output in range(2):
        np.testing.assert_allclose(left[output], exact_pair(values[output], weights), atol=1e-13)


def test_a_bin_of_each_component_stays_at_zero():
    weights = np.array([[1.0, 2, 0, 0], [3, 1, 0, 0], [0, 0, 1, 5], [0, 0, 2, 1]])
    values = np.random.default_rng(0).normal(size=(1, 4, 4))
    columns, rows = star_mesh_projections(values, weights)
    assert (rows[0, [0, 2]] == 0).all()
    left = values.copy()
    take_out(left, [columns, rows])
    np.testing.assert_allclose(left[0, :2, :2], exact_pair(values[0, :2, :2], weights[:2, :2]), atol=1e-14)
    np.testing.assert_allclose(left[0, 2:, 2:], exact_pair(values[0, 2:, 2:], weights[2:, 2:]), atol=1e-14)


def test_the_solution_states_its_name_and_its_error(monkeypatch):
    monkeypatch.setattr(direct, "_MAX_STAR_BINS", 2)  # with one less, another solver takes over
    weights = np.array([[0.4, 1e-14], [2e-14, 0.6]])
    solution = solve(np.ones((1, 2, 2)), weights, Options())
    assert solution.method == "star-mesh"
    assert 0 < solution.error < 1e-14
    scaled = weights / np.sqrt(np.outer(weights.sum(axis=1), weights.sum(axis=0)))
    assert solution.correlation == pytest.approx(np.linalg.svd(scaled, compute_uv=False)[1])
