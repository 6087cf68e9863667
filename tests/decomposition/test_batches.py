"""decompose() of rows in batches against the same rows in memory."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treeanova
from tests.support.forests import chains, rows_on_bounds
from tests.support.training import fit
from treeanova.density import costs

pd = pytest.importorskip("pandas")
trees = pytest.importorskip("sklearn.ensemble")
DENSITIES = ("auto", "empirical", "laplace", "shrinkage", "independent")
NAMES = ["a", "b", "c", "d"]


def dependent_rows(n_rows=900):
    data = np.random.default_rng(0).normal(size=(n_rows, 4))
    data[:, 1:] += 0.7 * data[:, :-1]
    return data


DATA = dependent_rows()
TARGET = DATA[:, 0] * DATA[:, 1] * (DATA[:, 2] > 0) + DATA[:, 3]
WEIGHTS = np.random.default_rng(1).exponential(size=len(DATA)) + 0.01
MODELS = {
    depth: fit(trees.GradientBoostingRegressor(max_depth=depth, n_estimators=8, random_state=0), DATA, TARGET)
    for depth in (2, 4)
}
HOW = {2: {}, 4: {"tensor_order": 2}}


def pieces(cuts, weights=None):
    table = pd.DataFrame(DATA, columns=NAMES)
    if weights is not None:
        table["weight"] = weights
    ends = [0, *sorted(cuts), len(table)]
    return [table[start:end] for start, end in itertools.pairwise(ends)]


def assert_same(fx, other, tolerance):
    assert fx._function.terms.keys == other._function.terms.keys
    np.testing.assert_allclose(other.intercept, fx.intercept, rtol=tolerance)
    largest = np.abs(fx.decision_function(DATA)).max()
    np.testing.assert_allclose(other.explain(DATA[:60]).values, fx.explain(DATA[:60]).values, atol=tolerance * largest)
    for names, term in fx.terms.items():
        if term.has_table:
            np.testing.assert_allclose(other.terms[names].values, term.values, atol=tolerance * largest)
    np.testing.assert_allclose(other._moments.covariance, fx._moments.covariance, atol=1e-9)


@pytest.mark.thorough
@given(st.lists(st.integers(0, 900), max_size=6), st.sampled_from(DENSITIES), st.booleans())
@settings(max_examples=5, deadline=None)
@pytest.mark.parametrize("depth", [2, 4])
@pytest.mark.parametrize("size", [1 << 18, 300])
def test_batches_of_any_size_give_the_decomposition_in_memory(size, depth, cuts, density, weighted):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(costs, "MAX_SAMPLE_ROWS", size)
        weights = WEIGHTS if weighted else None
        fx = treeanova.decompose(MODELS[depth], DATA, density=density, sample_weight=weights, n_jobs=1, **HOW[depth])
        batches = pieces(cuts, weights)
        column = "weight" if weighted else None
        other = treeanova.decompose(
            MODELS[depth], batches, density=density, sample_weight=column, n_jobs=1, **HOW[depth]
        )
        assert other.statistics.is_complete == (size > 900)
        assert_same(fx, other, 1e-10 if weighted else 1e-12)


@pytest.mark.parametrize("depth", [2, 4])
@pytest.mark.parametrize(
    ("density", "weighted"),
    [
        pytest.param(density, weighted, marks=[] if i % 2 == weighted else pytest.mark.thorough)
        for i, density in enumerate(DENSITIES)
        for weighted in (False, True)
    ],
)
def test_rows_in_another_order_give_the_same_decomposition(depth, density, weighted):
    weights, order = WEIGHTS if weighted else None, np.random.default_rng(2).permutation(len(DATA))
    how = {"density": density, "n_jobs": 1, **HOW[depth]}
    fx = treeanova.decompose(MODELS[depth], DATA, sample_weight=weights, **how)
    shuffled = None if weights is None else weights[order]
    assert_same(fx, treeanova.decompose(MODELS[depth], DATA[order], sample_weight=shuffled, **how), 1e-12)
    batches, column = pieces([200, 500], weights)[::-1], "weight" if weighted else None
    assert_same(fx, treeanova.decompose(MODELS[depth], batches, sample_weight=column, **how), 1e-10)


@pytest.mark.parametrize("depth", [2, 4])
def test_more_rows_than_the_sample_give_the_terms_and_covariances_of_all(depth, monkeypatch):
    """Under the empirical density all that matters is counted from all rows."""
    fx = treeanova.decompose(MODELS[depth], DATA, density="empirical", **HOW[depth])
    monkeypatch.setattr(costs, "MAX_SAMPLE_ROWS", 700)
    for rows in (pieces([100]), DATA):
        other = treeanova.decompose(MODELS[depth], rows, density="empirical", **HOW[depth])
        assert len(other.statistics.sample) == 700
        for names, term in fx.terms.items():
            if term.has_table:
                np.testing.assert_allclose(other.terms[names].values, term.values, atol=1e-12)
        if depth == 2:
            np.testing.assert_allclose(other._moments.covariance, fx._moments.covariance, atol=1e-12)
        assert other.certificate.sampled_rows is None


def test_rows_that_are_read_once_say_what_was_estimated(monkeypatch):
    monkeypatch.setattr(costs, "MAX_SAMPLE_ROWS", 700)
    shallow = treeanova.decompose(MODELS[2], iter(pieces([300])), density="empirical")
    assert shallow.certificate.sampled_rows is None
    deep = treeanova.decompose(MODELS[4], iter(pieces([300])), density="empirical", tensor_order=2)
    assert deep.certificate.sampled_rows == 700
    assert "is that of a sample of 700 rows, since rows could be read once only" in str(deep.certificate)
    assert deep.certificate.reconstruction_error < 1e-12


@pytest.mark.usefixtures("_budget_of_tables")
def test_merged_bins_need_rows_that_can_be_read_again():
    with pytest.raises(
        ValueError, match="`X` must be readable more than once where bins have to be merged, got a stream"
    ):
        treeanova.decompose(MODELS[4], iter(pieces([300])), budget=4e4)
    fx = treeanova.decompose(MODELS[4], DATA, density="empirical", budget=4e4)
    other = treeanova.decompose(MODELS[4], pieces([300]), density="empirical", budget=4e4)
    assert other.has_remainder
    assert_same(fx, other, 1e-12)


def test_empty_and_missing_batches_and_other_types_of_numbers():
    hist = trees.HistGradientBoostingRegressor(max_iter=5, max_depth=2, early_stopping=False)
    data = np.round(DATA, 0)
    data[300:400] = np.nan
    model = fit(hist, data, TARGET)
    table = pd.DataFrame(data)
    parts = [table[:0], table[:300].astype(np.int32), table[300:400], table[400:].astype(np.float32)]
    fx, other = (treeanova.decompose(model, rows, density="empirical") for rows in (data, parts))
    for names, term in fx.terms.items():
        np.testing.assert_allclose(other.terms[names].values, term.values, atol=1e-12)
    with pytest.raises((TypeError, ValueError), match="batch 2: "):
        treeanova.decompose(model, [table[:300], table[300:].astype(str)])


def test_a_decomposition_under_given_statistics():
    fx = treeanova.decompose(MODELS[2], DATA)
    again = treeanova.decompose(MODELS[2], fx.statistics)
    assert again == fx
    assert fx.statistics is fx.density.statistics


def test_tables_of_rows_from_a_file_are_data_frames_that_print_as_text(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    forest = chains([(0, 0.0), (1, 1.0)], n_features=2)
    rows = rows_on_bounds(forest, np.random.default_rng(0), 50)
    pq.write_table(pa.table({"x0": rows[:, 0], "x1": rows[:, 1]}), tmp_path / "rows.parquet")
    fx = treeanova.decompose(forest, str(tmp_path / "rows.parquet"), density="empirical")
    assert isinstance(fx.importance().head(), pd.DataFrame)
    assert isinstance(fx.table("x0"), pd.DataFrame)
    given = treeanova.decompose(forest, pa.table({"x0": rows[:, 0], "x1": rows[:, 1]}), density="empirical")
    assert isinstance(given.importance(), pa.Table)  # the library that the rows came in
    for found in (fx, given):
        change = treeanova.change(found, found, X_new=rows[:10])
        assert "chunk" not in str(change)
        assert str(change).splitlines()[3].split() == ["term", "population", "model", "total"]
