"""Tables of many pairs at once against those of each pair alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.support.densities import bind_columns, quantile_axes
from tests.support.dependence import pair_of
from treeanova.density.smooth import estimate_pairs
from treeanova.density.smooth.choice import all_candidates, choose, full_table, kernel_candidates


def columns_and_axes(n_rows=500):
    """Features of many numbers of bins: some with missing values, some dependent."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=n_rows)
    columns = []
    for i in range(9):
        strength = (0.0, 0.1, 1.0, 4.0)[i % 4]
        column = strength * (base**2 if i % 2 else base) + rng.normal(size=n_rows)
        if i % 3 == 1:
            column[rng.random(n_rows) < 0.1] = np.nan
        columns.append(column)
    sizes = [2, 5, 13, 15, 21, 23, 30, 60, 150]
    return columns, quantile_axes(columns, sizes, [1, 4, 7])


def estimate_alone(density, key, make_candidates):
    """The table and the name of the estimate of one pair, without other pairs and without padding."""
    statistics = density.statistics
    margins = [density._margin(j, None) for j in key]
    pair = pair_of(*margins, statistics.counts(key))
    [choice], [ratio] = choose(pair.alone, make_candidates(pair.alone))
    return statistics.counts(key) if choice.name == "empirical" else full_table(*margins, ratio), choice


@pytest.mark.parametrize(("name", "make_candidates"), [("auto", all_candidates), ("kernel", kernel_candidates)])
def test_tables_of_many_pairs_are_those_of_each_pair_alone(name, make_candidates):
    columns, axes = columns_and_axes()
    densities = [bind_columns(name, columns, axes=axes) for _ in range(2)]
    keys = list(itertools.combinations(range(len(columns)), 2))
    for n_jobs, density in enumerate(densities, 1):
        density.prepare_tables(keys, n_jobs=n_jobs)
    names = densities[0].grid.schema.names
    for key in keys:
        table, choice = estimate_alone(densities[0], key, make_candidates)
        for density in densities:
            found = density.choices[names[key[0]], names[key[1]]]
            assert found.name == choice.name
            assert found.likelihood == pytest.approx(choice.likelihood, abs=1e-10)
            np.testing.assert_allclose(density.table(key), table, rtol=1e-9, atol=1e-15)
    assert len({choice.name for choice in densities[0].choices.values()}) > 3


def test_no_pairs_have_no_tables():
    density = bind_columns("auto", columns_and_axes()[0][2:4], (3, 3))
    assert estimate_pairs([], [], density.statistics, all_candidates) == []
