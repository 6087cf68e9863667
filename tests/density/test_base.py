"""What all densities share: likelihoods of held-out rows, points, and errors where they are not bound."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tests.support.densities import (
    MIXED_GRID,
    MIXED_KEYS,
    MIXED_SIZES,
    bind_mixed,
    marginal,
    mixed_cell,
    mixed_kinds,
    mixed_rows,
    mixed_shares,
)
from treeanova.data.features import Feature, Schema
from treeanova.density import Empirical, Table, Uniform, density_of
from treeanova.density.kinds import KINDS
from treeanova.density.statistics import statistics_of
from treeanova.model.axes import IntervalAxis
from treeanova.model.grid import Grid


@pytest.mark.parametrize("kind", range(10))
def test_points_have_the_tables_of_the_density(kind):
    density = bind_mixed(mixed_kinds(0)[kind], mixed_rows(seed=5, n_rows=60))
    codes, weights = density.points(20_000, np.random.default_rng(0))
    assert weights.sum() == pytest.approx(1.0)
    for key in MIXED_KEYS:
        cells = np.ravel_multi_index(tuple(codes[:, j] for j in key), [MIXED_SIZES[j] for j in key])
        found = np.bincount(cells, weights=weights, minlength=int(np.prod([MIXED_SIZES[j] for j in key])))
        np.testing.assert_allclose(found, density.table(key).ravel(), atol=0.015)


# Likelihood


def test_log_likelihood_of_held_out_rows():
    table, held_out = mixed_rows(n_rows=400), mixed_rows(seed=9, n_rows=50)
    density = bind_mixed("laplace", table)
    mixed = mixed_shares(table) / 2 + 1 / 48
    pairs = list(itertools.combinations(range(3), 2))
    logs = [
        [math.log(marginal(mixed, key)[tuple(mixed_cell(row)[j] for j in key)]) for row in held_out] for key in pairs
    ]
    assert density.log_likelihood(held_out) == pytest.approx(np.mean(logs))
    assert density.log_likelihood(held_out, features=["k", "a"]) == pytest.approx(np.mean(logs[1]))
    everything = [math.log(mixed[mixed_cell(row)]) for row in held_out]
    assert density.log_likelihood(held_out, features=["a", "b", "k"]) == pytest.approx(np.mean(everything))


def test_log_likelihood_of_a_cell_without_mass_is_minus_infinity():
    table = mixed_rows(n_rows=400)
    inside = np.array([row for row in table if row[2] == "u"], dtype=object)
    assert bind_mixed("empirical", inside).log_likelihood(table) == -math.inf
    assert math.isfinite(bind_mixed("empirical", table).log_likelihood(inside))


def test_log_likelihood_of_a_single_feature():
    grid = Grid(Schema((Feature("a"),)), (IntervalAxis("a", 0, np.array([0.0])),))
    density = Empirical().bind(grid, statistics_of([[-1.0], [1.0], [2.0], [3.0]], grid))
    assert density.log_likelihood([[-5.0], [5.0]]) == pytest.approx((math.log(0.25) + math.log(0.75)) / 2)


def test_the_true_dependence_is_likelier_than_none():
    table = mixed_rows(n_rows=2000)
    held_out = mixed_rows(seed=11, n_rows=500)
    likelihoods = [
        bind_mixed(kind, table).log_likelihood(held_out, ["a", "b"]) for kind in ("shrinkage", "independent")
    ]
    assert likelihoods[0] > likelihoods[1] + 0.05


# Errors


@pytest.mark.parametrize("kind", ["empirical", "laplace", "independent", "shrinkage"])
def test_densities_of_rows_need_rows(kind):
    with pytest.raises(ValueError, match=f"`X` must be given for the density '{kind}', got None"):
        density_of(kind).bind(MIXED_GRID, None)
    with pytest.raises(ValueError, match=f"'{kind}' must be bound to rows first"):
        KINDS[kind](grid=MIXED_GRID).table((0, 1))


@pytest.mark.parametrize("density", [Uniform(), Table({"a": [1.0, 1, 1, 1]})])
def test_densities_need_a_grid(density):
    with pytest.raises(ValueError, match="must be bound to a grid first"):
        density.table((0,))


def test_likelihood_needs_a_grid():
    with pytest.raises(ValueError, match="'empirical' must be bound to a grid first"):
        Empirical().log_likelihood(mixed_rows())
