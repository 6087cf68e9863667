"""Elimination over the heaviest cells: any order, any weights, exact."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.oracles import exact_interaction
from treeanova.anova.solvers.base import Options
from treeanova.anova.solvers.direct import Elimination, eliminated_projections, graded_weights, is_affordable
from treeanova.anova.support import take_out


@pytest.mark.parametrize("shape", [(2, 3), (2, 2, 3), (3, 3, 2), (2, 2, 2, 2)])
@pytest.mark.parametrize("span", [1, 30, 140])
def test_tensors_are_exact_over_many_decades(shape, span):
    rng = np.random.default_rng([*shape, span])
    weights, values = 10.0 ** rng.uniform(-span, span, shape), rng.normal(size=(1, *shape))
    left = values.copy()
    take_out(left, eliminated_projections(values, weights))
    np.testing.assert_allclose(left[0], exact_interaction(values[0], weights, digits=2 * span + 30), atol=1e-12)


def test_ranks_count_unseen_bins():
    weights = np.array([[2.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    ranks, logs = graded_weights(weights / 4)
    assert ranks.reshape(3, 3).tolist() == [[0, 0, 2], [0, 1, 2], [2, 2, 3]]
    expected = [[2 / 4, 1 / 4, 3 / 4 / 3], [1 / 4, 1 / 16, 1 / 4 / 3], [3 / 4 / 3, 1 / 4 / 3, 1 / 9]]
    np.testing.assert_allclose(np.exp(logs.reshape(3, 3)), expected)


def test_it_is_for_small_tensors_of_order_three_and_more():
    solver = Elimination()
    assert solver.can_solve(np.ones((8, 8, 4)))
    assert not solver.can_solve(np.ones((20, 20, 20)))
    assert not solver.can_solve(np.ones((3, 3)))
    assert is_affordable((8, 8, 8))
    assert solver.reason((8, 8, 4), None) == "order 3 with at most 256 cells"
    assert solver.reason((8, 8, 5), None) is None
    assert solver.reason((2, 2), None) is None


def test_the_solution_states_its_name_and_its_error():
    weights = np.random.default_rng(0).random((3, 3, 2))
    solution = Elimination().solve(np.ones((1, 3, 3, 2)), weights, Options())
    assert (solution.method, solution.iterations) == ("elimination", 1)
    assert 8 * 18 * np.finfo(float).eps <= solution.error < 1e-12
