"""Tables over coarse bins: of every kind of density, against sums of fine tables and against a grid that is coarse."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.strategies import seeds
from treeanova.data.features import Feature, Labels, Schema
from treeanova.density import Auto, Empirical, Independent, Kernel, Laplace, Shrinkage, Table, Uniform
from treeanova.density.statistics import statistics_of
from treeanova.model.axes import CategoryAxis, IntervalAxis
from treeanova.model.grid import Grid, binning_by, unmerged

LABELS = ("s", "t", "u", "v", "w")
GRID = Grid(
    Schema((Feature("a"), Feature("b"), Feature("k", Labels(LABELS)), Feature("c"))),
    (
        IntervalAxis("a", 9, np.linspace(-2, 2, 8)),  # the last bin holds missing values
        IntervalAxis("b", 0, np.linspace(-1, 1, 5)),  # missing values share the first
        CategoryAxis("k", 5, LABELS, 5),
        IntervalAxis("c", -1, np.linspace(-1, 1, 3)),
    ),
)
KEYS = [key for order in (1, 2, 3, 4) for key in itertools.combinations(range(4), order)]
SMOOTH = (Auto(), Kernel(), Kernel(bandwidth=0.5))


def rows(seed, n_rows=80):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=n_rows)
    table = np.empty((n_rows, 4), dtype=object)
    table[:, 0] = np.where(rng.random(n_rows) < 0.2, np.nan, common)
    table[:, 1] = np.where(rng.random(n_rows) < 0.1, np.nan, common + 0.5 * rng.normal(size=n_rows))
    table[:, 2] = np.array(LABELS)[np.digitize(common + rng.normal(size=n_rows), [-1, 0, 1, 2])]
    table[:, 3] = rng.normal(size=n_rows) - common
    return table


def rows_on(seed, grid=GRID, *, weighted=False, n_rows=80):
    weights = np.random.default_rng(seed).exponential(size=n_rows) if weighted else None
    return statistics_of(rows(seed, n_rows), grid, weights)


def random_binnings(seed, key):
    """Neighbours merged at random; the bin of missing values of "a" stays apart, categories merge in any way."""
    rng = np.random.default_rng(seed)
    binnings = {
        0: binning_by(np.concatenate([np.cumsum(rng.integers(0, 2, 9)), [99]])),
        1: binning_by(np.cumsum(rng.integers(0, 2, 6))),
        2: binning_by(rng.integers(0, 3, 6)),
        3: binning_by(np.cumsum(rng.integers(0, 2, 4))),
    }
    return [binnings[j] for j in key]


def summed(table, binnings):
    """Sums over the fine bins of each coarse bin, cell by cell."""
    coarse = np.zeros([binning.size for binning in binnings])
    for cell in np.ndindex(table.shape):
        coarse[tuple(binning.bins[b] for binning, b in zip(binnings, cell, strict=True))] += table[cell]
    return coarse


def kinds(seed):
    joint = np.random.default_rng(seed).random(GRID.sizes)

    def marginal(names, axes):
        assert len(names) == len(axes)
        return joint.sum(axis=tuple(j for j in range(4) if GRID.schema.names[j] not in names))

    pairs = {("a", "k"): joint.sum(axis=(1, 3)), ("b", "a"): joint.sum(axis=(2, 3)).T, "c": joint.sum(axis=(0, 1, 2))}
    return [
        Uniform(), Uniform(measure="length"), Empirical(), Laplace(mix=0.2), Independent(), Shrinkage(),
        Shrinkage(intensity=0.4), Table(joint), Table(pairs), Table(marginal), Empirical(rows(seed + 1)), *SMOOTH,
    ]  # fmt: skip


@given(st.integers(0, 2**16), st.booleans())
@settings(max_examples=4)
def test_coarse_tables_of_every_kind_have_the_coarse_marginals(seed, weighted):
    for kind in kinds(seed):
        weigh = weighted and getattr(kind, "X", None) is None
        density = kind.bind(GRID, rows_on(seed, weighted=weigh))
        for key in KEYS:
            binnings = random_binnings(seed, key)
            table = density.table(key, binnings)
            assert table.shape == tuple(binning.size for binning in binnings)
            assert table.min() >= 0
            assert table.sum() == pytest.approx(1.0, abs=1e-12)
            for position, j in enumerate(key):
                single = summed(density.table((j,)), binnings[position : position + 1])
                found = table.sum(axis=tuple(i for i in range(len(key)) if i != position))
                np.testing.assert_allclose(found, single, rtol=0, atol=1e-12)


@given(st.integers(0, 2**16), st.booleans())
@settings(max_examples=3)
def test_coarse_tables_are_sums_of_fine_ones_except_pairs_that_are_estimated_again(seed, weighted):
    for kind in kinds(seed):
        weigh = weighted and getattr(kind, "X", None) is None
        density = kind.bind(GRID, rows_on(seed, weighted=weigh))
        for key in KEYS:
            binnings = random_binnings(seed, key)
            if len(key) != 2 or kind not in SMOOTH:
                expected = summed(density.table(key), binnings)
                np.testing.assert_allclose(density.table(key, binnings), expected, rtol=0, atol=1e-14)
            expected = summed(density.joint.table(key), binnings)
            np.testing.assert_allclose(density.joint.table(key, binnings), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", SMOOTH, ids=["auto", "kernel", "kernel 0.5"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", seeds(3, quick=1))
def test_smooth_pairs_of_coarse_bins_are_those_of_a_grid_with_these_bins(kind, weighted, seed):
    binnings = random_binnings(seed, range(4))
    binnings[2] = unmerged(6)
    axes = tuple(binning.axis(axis) for binning, axis in zip(binnings, GRID.axes, strict=True))
    grid = Grid(GRID.schema, axes)
    coarse = kind.bind(grid, rows_on(seed, grid, weighted=weighted))
    fine = kind.bind(GRID, rows_on(seed, weighted=weighted))
    for key in itertools.combinations(range(4), 2):
        chosen = [binnings[j] for j in key]
        np.testing.assert_allclose(fine.table(key, chosen), coarse.table(key), rtol=1e-12, atol=1e-15)
    assert {key: choice.name for key, choice in fine.choices.items()} == {
        key: choice.name for key, choice in coarse.choices.items()
    }
    for key, choice in fine.choices.items():
        assert choice[1:] == pytest.approx(coarse.choices[key][1:], rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("kind", range(len(kinds(0))))
def test_binnings_that_merge_nothing_change_nothing(kind):
    densities = [kinds(0)[kind].bind(GRID, rows_on(0, weighted=kind < 10)) for _ in range(2)]
    for key in KEYS:
        identity = [unmerged(GRID.sizes[j]) for j in key]
        assert np.array_equal(densities[0].table(key, identity), densities[1].table(key))
        assert densities[0].gap(key, identity) == densities[1].gap(key)


def test_the_gap_of_coarse_tables_is_that_of_their_difference():
    density = Auto().bind(GRID, rows_on(3))
    binnings = random_binnings(3, (0, 1))
    difference = density.table((0, 1), binnings) - summed(density.joint.table((0, 1)), binnings)
    np.testing.assert_allclose(density.difference((0, 1), binnings), difference, atol=1e-14)
    assert density.gap((0, 1), binnings) == pytest.approx(np.abs(difference).sum() / 2)
    assert Empirical().bind(GRID, rows_on(3)).difference((0, 1), binnings) is None


def test_choices_are_those_on_the_finest_bins_asked_for():
    density, fine = (Auto().bind(GRID, rows_on(3)) for _ in range(2))
    density.table((0, 1), random_binnings(3, (0, 1)))
    coarse = density.choices["a", "b"]
    fine.table((0, 1))
    density.table((0, 1))
    density.table((0, 1), random_binnings(4, (0, 1)))
    assert density.choices == fine.choices
    assert coarse.likelihood != fine.choices["a", "b"].likelihood


@pytest.mark.parametrize("kind", [Empirical(), Laplace(), Shrinkage(), Auto()])
def test_coarse_tables_never_make_the_fine_ones(kind, monkeypatch):
    bounds = np.linspace(-3, 3, 1_499)
    names = "abcd"
    grid = Grid(Schema(tuple(Feature(n) for n in names)), tuple(IntervalAxis(n, -1, bounds) for n in names))
    data = np.random.default_rng(0).normal(size=(500, 4))
    density = kind.bind(grid, statistics_of(data, grid))
    if isinstance(kind, Shrinkage):
        assert density.used_intensity == 1.0
    counted = []
    plain = np.bincount

    def bincount(x, weights=None, minlength=0):
        counted.append(minlength)
        return plain(x, weights, minlength)

    monkeypatch.setattr(np, "bincount", bincount)
    halves = binning_by(np.repeat([0, 1], 750))
    assert density.table((0, 1), [halves] * 2).shape == (2, 2)
    assert density.table((0, 1, 2, 3), [halves] * 4).shape == (2, 2, 2, 2)
    assert max(counted) <= 32**4
