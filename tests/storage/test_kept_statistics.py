"""Statistics in a file: the same answers without X, and refusals where rows are gone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import treeanova
from tests.support.archives import saved_and_loaded
from tests.support.densities import MIXED_GRID
from tests.support.training import fit
from treeanova.decomposition import importance
from treeanova.density import costs
from treeanova.density.statistics import statistics_of
from treeanova.storage import statistics as kept_statistics
from treeanova.storage.statistics import pack_statistics, unpack_statistics

trees = pytest.importorskip("sklearn.ensemble")
DENSITIES = ("auto", "empirical", "laplace", "shrinkage", "independent", "uniform")


def dependent_rows(n_rows, seed=0, n_features=4):
    data = np.random.default_rng(seed).normal(size=(n_rows, n_features))
    data[:, 1:] += 0.7 * data[:, :-1]
    return data


def boosted(data, depth=2):
    target = data[:, 0] * data[:, 1] + np.sin(2 * data[:, 2]) * (data[:, 3] > 0)
    return fit(trees.GradientBoostingRegressor(max_depth=depth, n_estimators=12, random_state=0), data, target)


@pytest.fixture(scope="module")
def shallow():
    data = dependent_rows(600)
    return treeanova.decompose(boosted(data), data, density="empirical")


@pytest.fixture(scope="module")
def deep():
    data = dependent_rows(600)
    return treeanova.decompose(boosted(data, 4), data, density="empirical", tensor_order=2)


@pytest.mark.parametrize("kind", ["shallow", "deep"])
@pytest.mark.parametrize("density", DENSITIES)
def test_other_densities_from_the_file_are_those_from_the_rows(kind, density, request, tmp_path):
    fx = request.getfixturevalue(kind)
    again = saved_and_loaded(fx, tmp_path).with_density(density)
    expected = fx.with_density(density)
    assert again == expected
    np.testing.assert_array_equal(again._moments.covariance, expected._moments.covariance)


@pytest.mark.parametrize("kind", ["shallow", "deep"])
def test_standard_errors_from_the_file_are_those_from_the_rows(kind, request, tmp_path):
    fx = request.getfixturevalue(kind)
    again, expected = saved_and_loaded(fx, tmp_path).standard_errors(4), fx.standard_errors(4)
    for names, errors in expected.items():
        np.testing.assert_allclose(again[names], errors, atol=1e-9 * max(e.max() for e in expected.values()))


def test_standard_errors_from_an_eighth_of_the_rows_are_near_those_of_all(monkeypatch, tmp_path):
    """Root mean squares over the cells of all terms; each of both bootstraps has a noise of some per cent."""
    monkeypatch.setattr(kept_statistics, "_MAX_ROWS", 2_000)
    data = dependent_rows(16_000, n_features=4)
    model = trees.GradientBoostingRegressor(max_depth=2, n_estimators=5, max_leaf_nodes=3, random_state=0)
    fx = treeanova.decompose(fit(model, data, data[:, 0] * data[:, 1] + data[:, 2]), data, density="empirical")
    again = saved_and_loaded(fx, tmp_path)
    assert len(again.statistics.sample) == 2_000
    whole, sampled = fx.standard_errors(100), again.standard_errors(100)

    def size(errors):
        return np.sqrt(sum(float((fx.terms[names].weights * errors[names] ** 2).sum()) for names in errors))

    assert size(sampled) == pytest.approx(size(whole), rel=0.25)  # those of 2,000 rows would be 2.8 times as large


def test_tables_are_kept_where_rows_are_not(shallow, monkeypatch, tmp_path):
    monkeypatch.setattr(kept_statistics, "_MAX_ROWS", 100)
    again = saved_and_loaded(shallow, tmp_path)
    assert repr(again.statistics) == "Statistics of 600 rows of 4 features, 100 of them sampled"
    for names in shallow.terms:
        key = tuple(shallow.schema.names.index(name) for name in names)
        np.testing.assert_array_equal(again.statistics.counts(key), shallow.statistics.counts(key))
    for density in ("auto", "laplace", "independent"):
        assert again.with_density(density) == shallow.with_density(density)


def test_without_rows_terms_at_rows_need_them(deep, tmp_path):
    deep.save(tmp_path / "fx.tav", rows=False)
    again = treeanova.load(tmp_path / "fx.tav")
    assert len(again.statistics.sample) == 0
    assert again.with_density("independent") == deep.with_density("independent")
    with pytest.raises(ValueError, match="rows must be known for this, got none"):
        again.with_density("laplace")


def test_months_are_merged_from_files(tmp_path):
    """Merged statistics against those of all rows together."""
    data = dependent_rows(500)
    model = boosted(data)
    months = [data[:300], data[300:]]
    saved = []
    for number, month in enumerate(months):
        treeanova.decompose(model, month).save(tmp_path / f"{number}.tav")
        saved.append(treeanova.load(tmp_path / f"{number}.tav"))
    merged = saved[0].statistics + saved[1].statistics
    whole = treeanova.decompose(model, data)
    assert merged.n_rows == 500
    again = saved[0].with_density("auto", merged)
    for names, term in whole.terms.items():
        np.testing.assert_allclose(again.terms[names].values, term.values, atol=1e-12)
    np.testing.assert_allclose(again._moments.variance, whole._moments.variance, atol=1e-12)


@pytest.mark.parametrize("size", [1 << 18, 100])
def test_months_in_memory_are_merged(size, monkeypatch):
    monkeypatch.setattr(costs, "MAX_SAMPLE_ROWS", size)
    data = dependent_rows(500)
    model = boosted(data)
    first, second, whole = (
        treeanova.decompose(model, rows, density="empirical") for rows in (data[:300], data[300:], data)
    )
    merged = first.statistics.merge(second.statistics)
    again = first.with_density("empirical", merged)
    assert again.statistics.n_rows == 500
    for names, term in whole.terms.items():
        np.testing.assert_allclose(again.terms[names].values, term.values, atol=1e-12)
    assert merged.value_range(0) == whole.statistics.value_range(0)


@pytest.mark.parametrize("size", [1 << 18, 100])
@pytest.mark.parametrize("factor", [1.0, 1e300, 1e-300])
@pytest.mark.parametrize("is_loaded", [False, True])
def test_lots_of_different_weights_are_merged(size, factor, is_loaded, monkeypatch, tmp_path):
    """The intercept under merged rows is the mean of the model's predictions by the weights that were given."""
    monkeypatch.setattr(costs, "MAX_SAMPLE_ROWS", size)
    data = dependent_rows(500)
    data[300:] += 0.5
    model = boosted(data)
    weights = np.r_[np.full(300, 1.0), np.full(200, 3.0)]
    lots = []
    for rows in (slice(0, 300), slice(300, 500)):
        fx = treeanova.decompose(model, data[rows], density="empirical", sample_weight=weights[rows] * factor)
        lots.append(saved_and_loaded(fx, tmp_path) if is_loaded else fx)
    merged = lots[0].with_density("empirical", lots[0].statistics + lots[1].statistics)
    assert merged.intercept == pytest.approx(np.average(model.predict(data), weights=weights), rel=1e-6)
    whole = treeanova.decompose(model, data, density="empirical", sample_weight=weights)
    assert merged.statistics.effective_rows == pytest.approx(whole.statistics.effective_rows)
    np.testing.assert_allclose(merged.statistics.bin_means(0), whole.statistics.bin_means(0), rtol=1e-12)
    for names, term in whole.terms.items():
        np.testing.assert_allclose(merged.terms[names].values, term.values, atol=1e-12)


def test_lots_in_memory_and_in_batches_are_merged():
    """Weights of rows in batches are as given; those of rows in memory count alike, however large they are."""
    rows = dependent_rows(4)
    grid = treeanova.decompose(boosted(dependent_rows(500)), dependent_rows(50)).grid
    batches = statistics_of([pd.DataFrame(rows, columns=grid.schema.names).assign(w=2.0**50)], grid, "w")
    memory = statistics_of(rows, grid, np.full(4, 3 * 2.0**50))
    for both in (batches + memory, memory + batches):
        assert both.totals.weight * both.totals.unit == 4 * 2.0**52
    with pytest.raises(ValueError, match="must have weights of similar size to be merged"):
        memory.merge(statistics_of(rows, grid, np.full(4, 1e-300)))


def test_statistics_of_other_bins_or_weights_are_not_merged(shallow):
    other = statistics_of(np.array([[0.5, 1, 0]], dtype=object), MIXED_GRID)
    with pytest.raises(ValueError, match="statistics must have the same bins to be merged"):
        shallow.statistics.merge(other)
    weighted = statistics_of(dependent_rows(50), shallow.grid, np.ones(50))
    with pytest.raises(ValueError, match="must both have weights of rows to be merged, or none"):
        shallow.statistics.merge(weighted)


def test_finer_bins_need_values(shallow, tmp_path):
    data = dependent_rows(600)
    other = treeanova.decompose(boosted(data + 0.01), data)
    again = saved_and_loaded(shallow, tmp_path)
    with pytest.raises(ValueError, match="rows must be known by their values for other bins of 'x0'"):
        _ = again - other


def test_a_report_from_the_file_has_histograms(shallow, tmp_path):
    pytest.importorskip("vl_convert")
    again = saved_and_loaded(shallow, tmp_path)
    low, high = again.statistics.value_range(0)
    assert (low, high) == shallow.statistics.value_range(0)
    whole = shallow.statistics.histogram(0, low, high, 8)
    np.testing.assert_allclose(again.statistics.histogram(0, low, high, 8), whole, atol=0.03)
    treeanova.write_report(again, tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_tables_are_one_array_of_each_order(shallow):
    wanted = shallow._function.source.needed_tables()
    header, arrays = pack_statistics(shallow.statistics, shallow._function.terms.grid, wanted, rows=False)
    n_tables = {order: len(arrays[f"keys/{order}"]) for order in (1, 2)}
    assert n_tables == {1: 4, 2: sum(len(key) == 2 for key in shallow._function.terms.keys)}
    grids = shallow.statistics.grid, shallow._function.terms.grid
    for key, table in unpack_statistics(header, arrays, *grids, wanted).tables.items():
        np.testing.assert_array_equal(table.sums / shallow.statistics.n_rows, shallow.statistics.counts(key))
    with pytest.raises(ValueError, match="tables of rows must fit the bins"):
        unpack_statistics(header, arrays | {"tables/2": arrays["tables/2"][:-1]}, *grids, wanted)


def test_importances_that_take_long_are_kept_if_they_are_known(deep, monkeypatch, tmp_path):
    monkeypatch.setattr(importance, "_MANY_TERMS", 1)
    fresh = deep.with_density("auto")
    assert saved_and_loaded(fresh, tmp_path)._saved_moments is None
    expected = fresh.importance()
    again = saved_and_loaded(fresh, tmp_path)
    assert again._saved_moments is not None
    assert again.importance().equals(expected)


def test_loading_does_not_look_for_leaves(deep, monkeypatch, tmp_path):
    """Nor where tables are kept, which are those that the trees would ask for."""
    for most in (1 << 16, 100):
        monkeypatch.setattr(kept_statistics, "_MAX_ROWS", most)
        again = saved_and_loaded(deep, tmp_path)
        assert "_keys_groups_sets" not in again._function.source.trees.leaf_sets.__dict__
        asked = {request.key for request in again.statistics.required}
        assert asked == {request.key for request in deep._function.source.needed_tables()}
        assert again.statistics.is_complete == (most > 600)
