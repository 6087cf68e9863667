"""Copies of rows are no new evidence; repeated rows of discrete features are."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support.densities import grid_of_axes, normals, quantile_axes
from tests.support.training import fit
from treeanova.density import costs
from treeanova.density.counting import sample_of, without_copies
from treeanova.density.statistics import statistics_of
from treeanova.model.axes import IntervalAxis

RNG = np.random.default_rng(0)
NORMAL = np.stack(normals(0.6, 1000), axis=1)
CLASSES = RNG.integers(0, 4, (3000, 6))


def resampled(rows, seed=1):
    return rows[np.random.default_rng(seed).integers(0, len(rows), len(rows))]


def oversampled(rows):
    rare = rows[rows[:, 0] > np.quantile(rows[:, 0], 0.9)]
    return np.concatenate([rows, np.repeat(rare, 5, axis=0)])


def effective(rows, weights=None):
    """Kish's number of rows of the distinct rows found."""
    shares = np.full(len(rows), 1 / len(rows)) if weights is None else weights / weights.sum()
    sample = sample_of(np.asfortranarray(rows, dtype=float), shares, 0, np.arange(len(rows)))
    _, distinct_shares = sample.distinct
    assert distinct_shares.sum() == pytest.approx(1.0)
    assert 1 / (distinct_shares**2).sum() == pytest.approx(1 / ((shares**2).sum() + sample.copied_excess))
    return 1 / (distinct_shares**2).sum()


def of_distinct_rows(rows):
    """The same by counting equal rows one by one."""
    counts = np.unique(rows, axis=0, return_counts=True)[1]
    return len(rows) ** 2 / (counts**2).sum()


COPIED = {
    "bootstrap": resampled(NORMAL),
    "oversampled": oversampled(NORMAL),
    "doubled": np.repeat(NORMAL, 2, axis=0),
    "rounded": resampled(np.round(NORMAL, 1)),
    "a number and classes": resampled(np.column_stack([NORMAL[:, 0], NORMAL[:, 1:] > 0])),
    "missing values": resampled(np.where(NORMAL > 1.5, np.nan, NORMAL)),
    "two columns": resampled(NORMAL[:, :2]),
}
GENUINE = {
    "numbers": NORMAL,
    "classes": CLASSES,
    "few classes": CLASSES[:, :3],
    "one-hot": np.concatenate([np.eye(4)[column] for column in CLASSES.T], axis=1),
    "coarsely rounded": np.round(np.stack(normals(0.6, 5000), axis=1), 0),
    "rounded": np.round(np.stack(normals(0.6, 5000), axis=1), 1),
    "nearly equal columns": np.round(5 * (RNG.normal(size=(3000, 1)) + 0.1 * RNG.normal(size=(3000, 4)))),
    "rare words": RNG.random((2000, 40)) < 0.02,
    "zero in all columns": RNG.normal(size=(1000, 5)) * (RNG.random((1000, 1)) < 0.4),
    "keys and classes": np.column_stack([RNG.integers(0, 3000, 3000), RNG.integers(0, 2, 3000)]),
    "one column": resampled(NORMAL[:, :1]),
    "equal classes": np.repeat(RNG.integers(0, 12, (800, 1)), 2, axis=1),
}


@pytest.mark.parametrize("name", COPIED)
def test_copies_count_as_one_row(name):
    rows = COPIED[name]
    assert effective(rows) == pytest.approx(of_distinct_rows(np.nan_to_num(rows, nan=-99.0)))
    assert effective(rows) < 0.8 * len(rows)


@pytest.mark.parametrize("name", GENUINE)
def test_rows_of_discrete_features_are_evidence_each(name):
    assert effective(GENUINE[name]) == pytest.approx(len(GENUINE[name]))


@pytest.mark.parametrize("rows", [COPIED["bootstrap"], COPIED["rounded"], GENUINE["classes"]])
def test_the_order_of_rows_does_not_matter(rows):
    assert effective(np.random.default_rng(5).permutation(rows)) == pytest.approx(effective(rows), rel=1e-12)


def test_weights_of_copies_add_up():
    weights = RNG.exponential(size=1000)
    shares = np.repeat(weights, 2) / (2 * weights.sum())
    places, distinct_shares = without_copies(np.asfortranarray(np.repeat(NORMAL, 2, axis=0)), shares)
    originals = places // 2
    np.testing.assert_array_equal(np.sort(originals), np.arange(1000))
    np.testing.assert_allclose(distinct_shares, weights[originals] / weights.sum(), rtol=1e-12)


def grid_of(rows):
    return grid_of_axes(quantile_axes(list(rows.T), (8, 6, 5)))


def test_statistics_merge_copies_in_batches_and_in_samples(monkeypatch):
    rows = COPIED["bootstrap"]
    statistics = statistics_of(rows, grid_of(NORMAL))
    assert statistics.n_rows == 1000
    assert statistics.effective_rows == pytest.approx(of_distinct_rows(rows))
    assert len(statistics.points().codes) == len(np.unique(rows, axis=0))
    np.testing.assert_allclose(
        np.bincount(statistics.points().codes[:, 0], statistics.points().weights), statistics.counts((0,)), rtol=1e-12
    )
    pieces = statistics_of(rows[:400], grid_of(NORMAL)) + statistics_of(rows[400:], grid_of(NORMAL))
    assert pieces.effective_rows == pytest.approx(statistics.effective_rows)
    many = resampled(np.random.default_rng(7).normal(size=(20_000, 3)))
    monkeypatch.setattr(costs, "MAX_SAMPLE_ROWS", 5_000)
    sampled = statistics_of(many, grid_of(NORMAL))
    assert not sampled.is_complete
    assert sampled.effective_rows == pytest.approx(of_distinct_rows(many), rel=0.1)


def test_resamples_draw_copies_together():
    """The share of a bin varies as it does over sets of copies: by the sum of their squared weights."""
    rows = np.repeat(NORMAL, 4, axis=0)
    grid = grid_of_axes([IntervalAxis(name, -1, np.array([0.0])) for name in "abc"])
    statistics = statistics_of(rows, grid)
    found = [statistics.resampled(np.random.default_rng(seed)).counts((0,))[1] for seed in range(600)]
    share = (NORMAL[:, 0] > 0).mean()
    assert np.std(found) == pytest.approx(np.sqrt(share * (1 - share) / 1000), rel=0.1)
    assert statistics.resampling_factor == 1.0


@pytest.fixture(scope="module")
def model():
    ensemble = pytest.importorskip("sklearn.ensemble")
    y = NORMAL[:, 0] * NORMAL[:, 1] + np.sin(NORMAL[:, 2])
    return fit(ensemble.GradientBoostingRegressor(n_estimators=30, max_depth=2, random_state=0), NORMAL, y)


@pytest.mark.parametrize("density", ["auto", "kernel", "shrinkage"])
def test_effects_are_those_of_weighted_rows(model, density):
    times = np.random.default_rng(3).multinomial(1000, np.full(1000, 1e-3))
    repeated = treeanova.decompose(model, np.repeat(NORMAL, times, axis=0), density=density, n_jobs=1)
    weighted = treeanova.decompose(model, NORMAL, sample_weight=times, density=density, n_jobs=1)
    assert repeated.terms.keys() == weighted.terms.keys()
    for names, term in weighted.terms.items():
        np.testing.assert_allclose(repeated.terms[names].values, term.values, rtol=1e-7, atol=1e-9)


def test_the_result_says_that_copies_were_merged(model, tmp_path):
    fx = treeanova.decompose(model, COPIED["doubled"], n_jobs=1)
    said = "rows repeat: copies of a row count as one, so that 2,000 are worth 1,000"
    assert said in str(fx)
    assert "rows repeat" not in str(treeanova.decompose(model, NORMAL, n_jobs=1))
    fx.save(tmp_path / "fx.tav")
    loaded = treeanova.load(tmp_path / "fx.tav")
    assert said in str(loaded)
    assert loaded.statistics.effective_rows == pytest.approx(1000)
    assert loaded.statistics.resampling_factor == pytest.approx(np.sqrt(2))
