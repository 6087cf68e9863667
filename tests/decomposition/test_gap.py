"""Gaps between groups: every number against means and variances of terms at the rows, computed by pandas or numpy."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeRegressor

import treeanova
from tests.support.library_models import DEEP_MODELS, LIBRARY_MODELS
from tests.support.simulated import dependent_rows
from tests.support.training import fit
from treeanova.decomposition.gap import two_groups
from treeanova.testing import example

EVERY_LIBRARY = LIBRARY_MODELS | DEEP_MODELS
ROWS = dependent_rows(seed=1)
IS_SECOND = ROWS[:, 1] > 0.2


def gap_by_hand(values, is_second):
    """Difference of means, and its standard error by the textbook."""
    first, second = values[~is_second], values[is_second]
    error = np.sqrt(first.var(axis=0, ddof=1) / len(first) + second.var(axis=0, ddof=1) / len(second))
    return second.mean(axis=0) - first.mean(axis=0), error


def assert_gap(gap, fx, X, is_second):
    """Total, error and sums over terms are those of the scores, to 1e-10."""
    score = fx.decision_function(X).reshape(len(is_second), -1)
    expected, error = gap_by_hand(score, is_second)
    assert np.allclose(gap.total, expected, rtol=0, atol=1e-10)
    assert np.allclose(gap.error, error, rtol=1e-9, atol=1e-12)
    for table in (gap.table, gap.routes):
        if table is not None:
            column = np.asarray(table["gap"], dtype=float)
            assert np.allclose(column.reshape(len(expected), -1).sum(axis=1), expected, rtol=0, atol=1e-10)
    means = [score[~is_second].mean(axis=0), score[is_second].mean(axis=0)]
    assert np.allclose(np.stack([np.atleast_1d(mean) for mean in gap.means]), means, rtol=0, atol=1e-10)
    assert gap.sizes == ((~is_second).sum(), is_second.sum())


@pytest.mark.parametrize("name", EVERY_LIBRARY)
def test_terms_add_up_to_the_difference_of_mean_predictions(name):
    entry = EVERY_LIBRARY[name]
    for library in entry.libraries:
        pytest.importorskip(library)
    fx, X = entry.make()
    is_second = np.arange(len(X)) % 3 == 0
    assert_gap(fx.gap(X, is_second), fx, X, is_second)


def test_each_row_of_the_table_is_that_of_a_term(fx):
    gap = fx.gap(ROWS, IS_SECOND)
    table = gap.table.set_index("term")
    explained = fx.explain(ROWS)
    for label, values in explained.parts.items():
        assert table.loc[label].tolist() == pytest.approx(list(gap_by_hand(values, IS_SECOND)), abs=1e-12)
    assert len(table) == len(explained.parts)
    assert gap.table["gap"].abs().round(10).is_monotonic_decreasing
    assert gap.groups == ("all others", "the group")
    assert gap.routes is None


def weighted_by_hand(values, weights, is_second):
    """Difference of weighted means, and its standard error: Σ w² (x - m)² / (Σ w)² times n / (n - 1)."""
    means, squares = [], []
    for side in (False, True):
        x, w = values[is_second == side], weights[is_second == side]
        mean, n = np.average(x, weights=w, axis=0), np.count_nonzero(w)
        means.append(mean)
        squares.append((w**2 * (x - mean) ** 2).sum() / w.sum() ** 2 * n / (n - 1))
    return means[1] - means[0], np.sqrt(sum(squares))


def test_weights_of_rows(fx, monkeypatch):
    monkeypatch.setattr("treeanova.decomposition.function._NUMBERS_AT_ONCE", 2000)  # several blocks of rows
    weights = np.random.default_rng(3).gamma(0.5, size=len(ROWS)) * (np.arange(len(ROWS)) % 7 > 0)
    gap = fx.gap(ROWS, IS_SECOND, sample_weight=weights)
    table = gap.table.set_index("term")
    for label, values in fx.explain(ROWS).parts.items():
        expected = weighted_by_hand(values, weights, IS_SECOND)
        assert table.loc[label].tolist() == pytest.approx(list(expected), abs=1e-12)
    score = fx.decision_function(ROWS)
    assert [gap.total, gap.error] == pytest.approx(list(weighted_by_hand(score, weights, IS_SECOND)), abs=1e-12)
    assert gap.table["gap"].sum() == pytest.approx(gap.total, abs=1e-12)
    assert gap.means[1] == pytest.approx(np.average(score[IS_SECOND], weights=weights[IS_SECOND]), abs=1e-12)
    assert f"({(weights[IS_SECOND] > 0).sum():,} weighted rows)" in repr(gap)
    for scale in (1e6, 1e-200, 1e200):
        scaled = fx.gap(ROWS, IS_SECOND, sample_weight=scale * weights)
        assert np.allclose(scaled.table[["gap", "error"]], gap.table[["gap", "error"]], rtol=1e-9, atol=1e-14)


def test_rows_of_weight_zero_are_left_out(fx):
    counts = np.arange(len(ROWS)) % 3 > 0
    everywhere = fx.gap(ROWS, IS_SECOND, sample_weight=counts.astype(float))
    alone = fx.gap(ROWS[counts], IS_SECOND[counts], sample_weight=np.ones(counts.sum()))
    assert repr(everywhere) == repr(alone)
    assert everywhere.sizes == ((~IS_SECOND & counts).sum(), (IS_SECOND & counts).sum())
    assert [rows.n_rows for rows in everywhere.rows] == list(everywhere.sizes)


def test_whole_weights_are_copies_of_rows_and_equal_ones_change_nothing(fx):
    copies = np.random.default_rng(4).integers(0, 4, size=len(ROWS))
    weighted = fx.gap(ROWS, IS_SECOND, sample_weight=copies)
    repeated = fx.gap(np.repeat(ROWS, copies, axis=0), np.repeat(IS_SECOND, copies))
    by_term = repeated.table.set_index("term")["gap"]
    assert weighted.table.set_index("term")["gap"].to_dict() == pytest.approx(by_term.to_dict(), abs=1e-12)
    plain, equal = fx.gap(ROWS, IS_SECOND), fx.gap(ROWS, IS_SECOND, sample_weight=np.full(len(ROWS), 3.0))
    assert np.allclose(plain.table[["gap", "error"]], equal.table[["gap", "error"]], rtol=1e-12, atol=1e-15)


def test_weights_that_are_refused(fx):
    with pytest.raises(ValueError, match="`sample_weight` must be positive for rows of both groups, got zeros only in"):
        fx.gap(ROWS, IS_SECOND, sample_weight=(~IS_SECOND).astype(float))
    with pytest.raises(ValueError, match="`sample_weight` must have one entry per row"):
        fx.gap(ROWS, IS_SECOND, sample_weight=[1.0])
    with pytest.raises(ValueError, match=r"`sample_weight` must be finite, not negative .* got -1 at row 0"):
        fx.gap(ROWS, IS_SECOND, sample_weight=np.full(len(ROWS), -1.0))


@pytest.mark.parametrize("order", [2, 6])
def test_deep_models(deep_fx, deep, order, monkeypatch):
    X = deep[1][:300]
    monkeypatch.setattr("treeanova.decomposition.function._NUMBERS_AT_ONCE", 2000)  # several blocks of rows
    fx = deep_fx.truncate(order)
    gap = fx.gap(X, X[:, 0] > 0, feature="x0")
    assert_gap(gap, fx, X, X[:, 0] > 0)
    assert ("remainder" in gap.routes["route"].tolist()) == (order == 2)


def test_terms_that_are_not_listed_have_a_route_of_their_own(deep, monkeypatch):
    monkeypatch.setattr("treeanova.terms.costs.LISTED_TERMS", 3)
    model, X = deep
    fx = treeanova.decompose(model, X, density="independent", n_jobs=1)
    gap = fx.gap(X[:200], X[:200, 0] > 0, feature="x0")
    assert_gap(gap, fx, X[:200], X[:200, 0] > 0)
    rests = [f"other terms of order {order}" for order in fx._function.unlisted_orders]
    assert gap.routes["route"].tolist() == ["x0 by itself", "interactions of x0", "other features", *rests]


def test_routes_are_sums_of_terms(mixed):
    _, X, fx = mixed
    pd = pytest.importorskip("pandas")
    X = X[X["kind"] != "w"]
    gap = fx.gap(X, "kind")
    is_second = (X["kind"] == "v").to_numpy()
    assert gap.groups == ("u", "v")
    assert gap.feature == "kind"
    assert_gap(gap, fx, X, is_second)
    values = fx.explain(X).to_frame()
    expected = {
        "kind by itself": values["kind"],
        "interactions of kind": values["age × kind"],
        "other features": values["age"],
    }
    for route, column in expected.items():
        found = gap.routes.set_index("route").loc[route].tolist()
        total, error = gap_by_hand(column.to_numpy(), is_second)
        # by itself, the feature that makes the groups has one value in each: rows leave nothing to estimate
        by_hand = [total, np.nan if route == "kind by itself" else error]
        assert found == pytest.approx(by_hand, abs=1e-12, nan_ok=True)
    assert isinstance(gap.table, pd.DataFrame)
    assert "kind = " not in repr(gap)


def test_several_outputs_have_a_column(several):
    gap = several.gap(ROWS, IS_SECOND, feature="x1")
    assert_gap(gap, several, ROWS, IS_SECOND)
    assert list(gap.table.columns) == ["term", "output", "gap", "error"]
    assert list(gap.routes.columns) == ["route", "output", "gap", "error"]
    assert repr(gap).count(": mean class score ") == 3


def test_families(fx):
    groups = {"pair": ["x0", "x1"]}
    gap = fx.gap(ROWS, IS_SECOND, groups=groups, feature="pair")
    assert_gap(gap, fx, ROWS, IS_SECOND)
    explained = fx.explain(ROWS).by_family(groups)
    table = gap.table.set_index("term")
    assert sorted(table.index) == ["pair", "pair × x2", "x2"]
    for label, values in explained.parts.items():
        assert table.loc[label].tolist() == pytest.approx(list(gap_by_hand(values, IS_SECOND)), abs=1e-12)
    assert fx.gap(ROWS, IS_SECOND, groups=groups, feature="x0").feature == "pair"


@given(st.lists(st.booleans(), min_size=4, max_size=4).filter(lambda group: len(set(group)) == 2))
def test_any_two_groups_of_the_logical_and(group):
    fx, X = cached_example()
    is_second = np.array(group)
    gap = fx.gap(X, is_second)
    score = np.array([0.0, 0.0, 0.0, 1.0])
    assert gap.total == pytest.approx(score[is_second].mean() - score[~is_second].mean(), abs=1e-14)
    assert np.isnan(gap.error) == (is_second.sum() in {1, 3})  # one row has no spread


@functools.cache
def cached_example():
    pytest.importorskip("sklearn")
    return example()


def names_of(group, n_rows=4):
    fx, X = cached_example()
    return two_groups(X, group, fx.schema, n_rows)


def test_groups_are_in_sorted_order():
    assert names_of(["b", "a", "b", "a"])[0] == ("a", "b")
    assert names_of(["b", "a", "b", "a"])[1].tolist() == [True, False, True, False]
    assert names_of([10, 9, 10, 9])[0] == ("9", "10")
    assert names_of("x1")[0] == ("x1 = 0", "x1 = 1")
    pd = pytest.importorskip("pandas")
    assert names_of(pd.Series([True, False, True, True]))[1].tolist() == [True, False, True, True]


def test_groups_may_be_an_array_of_arrow():
    pa = pytest.importorskip("pyarrow")
    for group in (pa.array(["b", "a", "b", "a"]), pa.chunked_array([["b"], ["a", "b", "a"]])):
        assert names_of(group)[0] == ("a", "b")
        assert names_of(group)[1].tolist() == [True, False, True, False]


def test_a_group_may_be_a_column_that_is_no_feature(mixed):
    _, X, fx = mixed
    labels = np.where(np.arange(len(X)) % 2, "odd", "even")
    gap = fx.gap(X.assign(parity=labels), "parity")
    assert gap.groups == ("even", "odd")
    assert gap.feature is None
    assert gap.total == fx.gap(X, labels).total


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (["a", "b", "c", "a"], r"two groups of rows, got 3 \(a, b, c\); compare one with all others by a boolean"),
        ([True] * 4, "two groups of rows, got True in all rows; pass rows of both groups"),
        (["a", "b", "a"], "one entry per row, 4, got 3"),
        (["a", None, "b", "a"], "known for all rows, got 1 of 4 missing"),
        ([0.0, np.nan, 1.0, np.nan], "known for all rows, got 2 of 4 missing"),
        ([[True, False]] * 4, "one entry per row, got 2 axes"),
        ("sex", "a column of X, two labels or a boolean for each row, got 'sex', which X does not have"),
    ],
)
def test_groups_that_are_not_two_are_refused(group, message):
    with pytest.raises(ValueError, match=message):
        names_of(group)


def test_features_that_are_not_there_are_refused(fx):
    with pytest.raises(ValueError, match="`feature` must be a feature of the model or a family, got 'sex'"):
        fx.gap(ROWS, IS_SECOND, feature="sex")
    with pytest.raises(ValueError, match="`groups` must hold features of the model, got 'sex' in 'who'"):
        fx.gap(ROWS, IS_SECOND, groups={"who": ["sex"]})


@pytest.mark.parametrize("weights", [None, np.array([0.1, 0.7, 1.3, 0.4])])
def test_what_is_known_without_error_has_none(weights):
    fx, X = example()
    gap = fx.gap(X, "x0", sample_weight=weights)
    errors = dict(zip(gap.table["term"], gap.table["error"], strict=True))
    assert np.isnan(errors["x0"])
    assert errors["x1"] > 0
    lines = str(gap).splitlines()
    assert next(line for line in lines if line.startswith("x0 ") and "×" not in line).endswith(" –")
    assert "error –: one value in each group, known without error given the model" in lines
    assert "nan" not in str(gap).lower()


def test_values_that_differ_by_rounding_only_have_no_error():
    fx, _ = example()
    X = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], 1001, axis=0)  # sums over many rows round
    shifted = fx.gap(X, "x0")
    assert np.isnan(shifted.routes.set_index("route").loc["x0 by itself", "error"])


def test_one_row_has_no_spread_and_no_claim():
    fx, X = example()
    assert "known without error" not in str(fx.gap(X[:3], np.array([False, False, True])))


@pytest.mark.parametrize(
    ("weight_of_s", "n_alike", "is_said"),
    [(1.0, 70, True), (0.0, 70, False), (1.0, 50, False)],  # of 100 rows in each group, t equals s in `n_alike`
)
def test_others_carry_a_feature_only_if_the_model_has_it_and_they_differ(weight_of_s, n_alike, is_said):
    s = np.repeat([0.0, 1.0], 100)
    t = np.where(np.arange(200) % 100 < n_alike, s, 1.0 - s)
    X = np.column_stack([s, t])
    model = fit(DecisionTreeRegressor(), X, 3.0 * t + weight_of_s * s)
    gap = treeanova.decompose(model, X, feature_names=["s", "t"], density="independent").gap(X, "s")
    assert ("Dropping the terms of s would not remove its influence" in repr(gap)) == is_said
