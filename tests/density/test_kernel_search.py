"""The kernels chosen for the joint density: dependence is found, independence is kept."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

from tests.support.densities import bind_columns, normals
from treeanova.density import costs
from treeanova.density.smooth.kernel import rows_to_search, spaced_triples


def test_independent_features_have_an_independent_joint_density():
    density = bind_columns("auto", normals(0.0, 2000))
    assert density.is_product
    masses = [density.table((j,)) for j in range(3)]
    np.testing.assert_allclose(density.table((0, 1, 2)), functools.reduce(np.multiply.outer, masses), rtol=1e-12)


def test_a_dependence_of_three_features_beyond_pairs_is_found():
    """Signs of two features are those of the third, multiplied: every pair is independent, the three are not."""
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], (4000, 2))
    columns = [*(signs * np.abs(rng.normal(size=(4000, 2))) ** 0.5).T, signs.prod(axis=1) * rng.exponential(size=4000)]
    density = bind_columns("auto", columns, (8, 8, 8))
    table = density.table((0, 1, 2))
    halves = [np.add.reduceat(np.eye(8), [0, 4], axis=0)] * 3
    octants = np.einsum("abc,ia,jb,kc->ijk", table, *halves)
    odd = sum(octants[i, j, k] for i, j, k in np.ndindex(2, 2, 2) if (i + j + k) % 2 == 0)  # - x - = +, and so on
    assert odd < 0.1
    assert not density.is_product


def test_independent_features_stay_independent_in_triples():
    found = [bind_columns("auto", normals(0.0, 1000, seed, order=5), (6, 6, 6, 6, 6)).is_product for seed in range(10)]
    assert sum(found) >= 8


def test_rows_beyond_fifty_thousand_are_sampled(monkeypatch):
    columns = normals(0.5, 900, order=2)
    statistics = bind_columns("auto", columns, (6, 6)).statistics
    monkeypatch.setattr(costs, "MAX_SEARCH_ROWS", 400)
    rows = rows_to_search(statistics)
    chosen = set(map(tuple, rows.sample.values.tolist()))
    assert len(chosen) == rows.n_rows == 300  # every third of 900, the most that are at most 400
    assert chosen < set(zip(*(column.tolist() for column in columns), strict=True))
    monkeypatch.setattr(costs, "MAX_SEARCH_ROWS", 900)
    assert rows_to_search(statistics) is statistics


def test_many_features_are_compared_with_their_most_correlated_partners(monkeypatch):
    columns = [*normals(0.8, 1500, order=2), *normals(0.0, 1500, seed=1, order=4)]
    monkeypatch.setattr(costs, "MAX_COMPARED_FEATURES", 3)
    monkeypatch.setattr(costs, "N_PARTNERS", 1)
    density = bind_columns("auto", columns, (6,) * 6)
    has_kernel = [kernel is not None for kernel in density.joint.kernels]
    assert has_kernel[:2] == [True, True]
    assert sum(has_kernel[2:]) <= 1


@pytest.mark.parametrize(("n_features", "n_alone"), [(2, 2), (3, 1), (6, 0), (6, 1), (7, 3), (8, 8)])
@pytest.mark.parametrize("n_triples", [1, 4, 10, 1000])
def test_spaced_triples_are_taken_from_the_list_of_all(n_features, n_alone, n_triples):
    rng = np.random.default_rng(n_features)
    features = sorted(rng.choice(50, n_features, replace=False).tolist())
    alone = rng.choice(features, n_alone, replace=False).tolist()
    every = [key for key in itertools.combinations(features, 3) if set(key) & set(alone)]
    step = max(1, -(-len(every) // n_triples))
    assert spaced_triples(features, alone, n_triples) == every[::step]
