"""Explanations: sums, tables in the library of the data, values per feature."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import itertools
import pickle
import sys
import types

import numpy as np
import pytest

import treeanova
from tests.support.simulated import boosted, dependent_rows, named_rows
from tests.support.training import fit
from treeanova import compare
from treeanova.data.columns import Table, backend_of, columns_of

tree = pytest.importorskip("sklearn.tree")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

NAMES = ("x0", "x1", "x2")
DATA, HELD_OUT = dependent_rows(), dependent_rows(200, seed=1)
decompose = functools.partial(treeanova.decompose, density="empirical")


@pytest.mark.parametrize("kind", ["single", "several"])
def test_values_of_an_explanation_add_up_to_the_score(kind, model, classifier, fx, several):
    found, score = {"single": (fx, model.predict), "several": (several, classifier.decision_function)}[kind]
    explanation = found.explain(HELD_OUT)
    assert explanation.terms == tuple(found.terms)
    assert explanation.features == NAMES
    assert explanation.outputs == found.schema.outputs
    np.testing.assert_allclose(explanation.values.sum(axis=1) + explanation.intercept, score(HELD_OUT), atol=1e-12)
    np.testing.assert_allclose(explanation.scores, score(HELD_OUT), atol=1e-12)
    for i, names in enumerate(explanation.terms):
        np.testing.assert_array_equal(explanation.values[:, i], found.term_values(HELD_OUT, names))


@pytest.mark.parametrize(
    ("wrap", "kind"),
    [
        (lambda data: pd.DataFrame(data, columns=NAMES), pd.DataFrame),
        (lambda data: pl.DataFrame(data, schema=list(NAMES)), pl.DataFrame),
        (lambda data: pa.table(list(data.T), names=list(NAMES)), pa.Table),
        (lambda data: data, pd.DataFrame),
    ],
    ids=["pandas", "polars", "pyarrow", "numpy"],
)
def test_tables_come_back_in_the_library_of_the_data(model, wrap, kind):
    found = decompose(model, wrap(DATA), n_jobs=1)
    explanation = found.explain(wrap(HELD_OUT))
    frame = explanation.to_frame()
    assert isinstance(frame, kind)
    expected = {" × ".join(names): found.term_values(HELD_OUT, names).tolist() for names in found.terms}
    assert columns_of(frame) == expected
    for table in (found.importance(), found.importance(by="feature"), found.table("x0"), found.table(("x0", "x1"))):
        assert isinstance(table, kind)
    comparison = compare({"pure": found, "raw": found.raw})
    assert {type(t) for t in (comparison.distance, comparison.signs, comparison.ranks)} == {kind}


def test_tables_without_a_data_frame_library(fx, monkeypatch):
    assert isinstance(dataclasses.replace(fx.explain(HELD_OUT), backend=None).to_frame(), pd.DataFrame)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert backend_of(DATA) is None
    assert backend_of(pl.DataFrame({"a": [1]})) == "polars"
    plain = fx.explain(HELD_OUT).to_frame()
    assert isinstance(plain, Table)
    np.testing.assert_array_equal(plain["x0 × x1"], fx.term_values(HELD_OUT, ("x0", "x1")))
    assert list(fx.table("x0")) == ["x0", "x0_low", "x0_high", "value", "weight"]
    ranked = fx.importance()
    assert len(ranked) == len(fx.terms)
    assert str(ranked.head(1)).splitlines()[1].startswith(ranked["term"][0])
    assert ranked["term"][0] in str(compare({"pure": fx, "raw": fx.raw}))


def test_frames_of_several_outputs_have_a_column_per_term_and_output(several):
    frame = several.explain(HELD_OUT).to_frame()
    assert list(frame.columns[:3]) == ["x0 [u]", "x0 [v]", "x0 [w]"]
    np.testing.assert_array_equal(frame["x0 × x1 [w]"], several.term_values(HELD_OUT, ("x0", "x1"))[:, 2])


def test_shap_values_share_each_term_equally(model, fx):
    shap_values = fx.explain(HELD_OUT).shap_values()
    for j, name in enumerate(NAMES):
        expected = sum(fx.term_values(HELD_OUT, names) / len(names) for names in fx.terms if name in names)
        np.testing.assert_allclose(shap_values[:, j], expected, atol=1e-14)
    np.testing.assert_allclose(shap_values.sum(axis=1), model.predict(HELD_OUT) - fx.intercept, atol=1e-12)


def test_shap_values_of_one_tree_are_shapley_values_under_the_product_density():
    """Shapley's own formula over all subsets of features, with v(S) the mean over features outside S."""
    data = np.random.default_rng(0).integers(0, 2, (50, 3)).astype(float)
    model = fit(tree.DecisionTreeRegressor(random_state=0), data, data @ [1.0, 2, 4] + data[:, 0] * data[:, 1])
    found = decompose(model, data, density="independent", n_jobs=1)
    shares = data.mean(axis=0)

    def worth(row, known):
        total = 0.0
        for corner in itertools.product((0.0, 1.0), repeat=3):
            if all(corner[j] == row[j] for j in known):
                free = [j for j in range(3) if j not in known]
                weight = np.prod([shares[j] if corner[j] else 1 - shares[j] for j in free])
                total += weight * model.predict([corner])[0]
        return total

    row = np.array([1.0, 0.0, 1.0])
    expected = np.zeros(3)
    for order in itertools.permutations(range(3)):
        for position, j in enumerate(order):
            expected[j] += (worth(row, order[: position + 1]) - worth(row, order[:position])) / 6
    np.testing.assert_allclose(found.explain(row[None]).shap_values()[0], expected, atol=1e-12)


def test_shap_values_of_several_outputs(classifier, several):
    values = several.explain(HELD_OUT).shap_values()
    assert values.shape == (200, 3, 3)
    expected = classifier.decision_function(HELD_OUT) - several.intercept
    np.testing.assert_allclose(values.sum(axis=1), expected, atol=1e-12)


@pytest.mark.parametrize("kind", ["single", "several"])
def test_an_explanation_for_shap(kind, fx, several, monkeypatch):
    found = {"single": fx, "several": several}[kind]
    monkeypatch.setitem(sys.modules, "shap", types.SimpleNamespace(Explanation=lambda **given: given))
    explanation = found.explain(HELD_OUT)
    handed = explanation.to_shap()
    np.testing.assert_array_equal(handed["values"], explanation.shap_values())
    np.testing.assert_allclose(
        handed["values"].sum(axis=1) + handed["base_values"], found.decision_function(HELD_OUT), atol=1e-12
    )
    assert handed["data"] is HELD_OUT
    assert handed["feature_names"] == list(NAMES)


def test_the_real_shap_takes_an_explanation(fx):
    shap = pytest.importorskip("shap")
    explanation = fx.explain(HELD_OUT).to_shap()
    assert isinstance(explanation, shap.Explanation)
    assert explanation.shape == (200, 3)


def test_without_shap_the_message_says_so(fx, monkeypatch):
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(ImportError, match=r"to_shap\(\) needs the package shap.*pip install shap"):
        fx.explain(HELD_OUT).to_shap()


def test_explanations_keep_the_index_of_a_pandas_table():
    x, response = named_rows()
    fx = decompose(boosted(x, response, n_trees=10), x)
    some = x[x["a"] > 0]
    assert fx.explain(some).to_frame().index.equals(some.index)


@pytest.mark.parametrize("kind", [list, tuple])
def test_rows_of_lists_have_no_index(kind):
    """The method `index` of lists is not an index."""
    x, response = named_rows()
    fx = decompose(boosted(x, response, n_trees=10), x)
    plain = kind(x.to_numpy()[:5].tolist())
    np.testing.assert_array_equal(fx.explain(plain).to_frame(), fx.explain(x[:5]).to_frame())


def test_a_feature_called_remainder(deep):
    model, x = deep
    names = ["remainder", "b", "c", "d", "e", "f"]
    fx = treeanova.decompose(model, x, density="empirical", feature_names=names, max_order=1)
    table = fx.explain(x[:20]).to_frame()
    assert {"remainder", "(remainder)"} <= set(table.columns)
    np.testing.assert_allclose(table.sum(axis=1) + fx.intercept, fx.decision_function(x[:20]), atol=1e-12)
    assert set(fx.importance("feature")["feature"]) == {*names, "(remainder)"}


# Values per feature where some terms are not listed


@pytest.fixture(scope="module")
def factorial():
    """All combinations of some values, whose features are therefore independent, and a forest of them."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    x = np.array(list(itertools.product(range(4), range(3), range(3), range(2), range(3))), dtype=float)
    response = x[:, 0] * x[:, 1] * x[:, 2] + x[:, 3] * (x[:, 4] > 1) + np.sin(x @ [1.0, 2, 3, 4, 5])
    targets = np.column_stack([response, np.cos(response)])
    return fit(ensemble.RandomForestRegressor(5, max_depth=7, random_state=0), x, targets), x


@pytest.fixture
def few_listed(monkeypatch):
    """Most terms are too many to list: the three largest are listed, even if others are large."""
    monkeypatch.setattr("treeanova.terms.costs.LISTED_TERMS", 3)
    monkeypatch.setattr("treeanova.terms.costs.MAX_REPORTED", 3)


def shapley_values(predict, x, row):
    """Shapley's formula, with v(S) the mean over all rows with the features of S as in one row."""
    n_features = x.shape[1]
    worth = {}
    for size in range(n_features + 1):
        for known in itertools.combinations(range(n_features), size):
            changed = x.copy()
            changed[:, list(known)] = row[list(known)]
            worth[known] = predict(changed).mean(axis=0)
    values = 0
    for order in itertools.permutations(range(n_features)):
        steps = [worth[tuple(sorted(order[:n]))] for n in range(n_features + 1)]
        values = values + np.diff(steps, axis=0)[np.argsort(order)]
    return values / len(list(itertools.permutations(range(n_features))))


def test_shap_values_without_listing_all_terms_are_shapley_values(few_listed, factorial):
    model, x = factorial
    explained = treeanova.decompose(model, x, density="independent", tensor_order=2).explain(x[::40])
    assert explained.others
    assert explained.remainder is None
    expected = [shapley_values(model.predict, x, row) for row in x[::40]]
    np.testing.assert_allclose(explained.shap_values(), expected, atol=1e-12)


def test_shap_values_without_listing_all_terms_are_those_of_shap(few_listed, factorial):
    shap = pytest.importorskip("shap")
    model, x = factorial
    explained = treeanova.decompose(model, x, density="independent", tensor_order=2).explain(x)
    assert explained.others
    background = shap.maskers.Independent(x, max_samples=len(x))  # an array would be cut to 100 rows
    explainer = shap.TreeExplainer(model, data=background, feature_perturbation="interventional")
    np.testing.assert_allclose(explained.shap_values(), explainer.shap_values(x), atol=1e-6)


def test_shap_values_are_the_same_whether_terms_are_listed_or_not(few_listed, deep):
    model, x = deep
    rows = np.vstack([x[:50], 10 * x[:50], np.full((1, 6), np.nan)])
    some, every = (
        treeanova.decompose(model, x, density="independent", tensor_order=2, terms=terms).explain(rows)
        for terms in ("auto", "all")
    )
    assert some.others
    assert not every.others
    assert len(some.terms) < len(every.terms)
    np.testing.assert_allclose(some.shap_values(), every.shap_values(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("density", ["empirical", pytest.param("auto", marks=pytest.mark.thorough)])
def test_shap_values_add_up_to_the_score_under_dependence(few_listed, deep, density):
    model, x = deep
    fx = treeanova.decompose(model, x, density=density, tensor_order=2)
    rows = np.vstack([x[:50], 10 * x[:50], np.full((1, 6), np.nan)])
    explained = fx.explain(rows)
    assert explained.others
    values = explained.shap_values()
    assert values.shape == (101, 6)
    np.testing.assert_allclose(values.sum(axis=1) + fx.intercept, fx.decision_function(rows), rtol=0, atol=1e-10)
    with pytest.raises(ValueError, match=r"got a remainder that belongs to no feature.*no `max_order`"):
        fx.explain(rows, max_order=3).shap_values()
    with pytest.raises(ValueError, match=r"got no `other_shares`; use the Explanation that explain\(\) returns"):
        dataclasses.replace(explained, other_shares=None).shap_values()


def test_unlisted_terms_are_shared_on_the_first_call_only(few_listed, factorial, monkeypatch):
    model, x = factorial
    fx = treeanova.decompose(model, x, density="independent", tensor_order=2)
    share = type(fx._function).unlisted_shares_at
    calls = []
    monkeypatch.setattr(type(fx._function), "unlisted_shares_at", lambda *given: calls.append(1) or share(*given))
    explained = fx.explain(x[:5])
    assert not calls
    expected = explained.shap_values()
    np.testing.assert_array_equal(explained.shap_values(), expected)
    again = pickle.loads(pickle.dumps(explained))
    np.testing.assert_array_equal(again.shap_values(), expected)
    assert calls == [1]
    fresh = pickle.loads(pickle.dumps(fx.explain(x[:5])))
    np.testing.assert_array_equal(dataclasses.replace(fresh, backend=None).shap_values(), expected)
    assert calls == [1, 1]


def test_families_add_up_terms(fx, several):
    rows = dependent_rows(seed=1)
    for one in (fx, several):
        explained = one.explain(rows)
        found = explained.by_family({"pair": ["x0", "x1"]})
        assert found.terms == (("pair",), ("x2",), ("pair", "x2"))
        assert found.features == ("pair", "x2")
        sums = np.zeros(found.values.shape)
        for term, values in zip(explained.terms, np.moveaxis(explained.values, 1, 0), strict=True):
            is_mixed = "x2" in term and len(term) > 1
            sums[:, 2 if is_mixed else 1 if term == ("x2",) else 0] += values
        assert np.allclose(found.values, sums, rtol=0, atol=1e-13)
        assert np.allclose(found.scores, one.decision_function(rows), rtol=0, atol=1e-12)
        half = sums[:, 2] / 2
        assert np.allclose(found.shap_values(), np.stack([sums[:, 0] + half, sums[:, 1] + half], axis=1))


def test_families_keep_what_is_not_listed(deep_fx, deep):
    explained = deep_fx.explain(deep[1][:5], max_order=2).by_family({"all": [f"x{j}" for j in range(6)]})
    assert list(explained.parts) == ["all", "remainder"]
    assert np.allclose(explained.scores, deep_fx.decision_function(deep[1][:5]))


def test_families_share_terms_that_are_not_listed(few_listed, deep):
    model, x = deep
    fx = treeanova.decompose(model, x, density="independent", tensor_order=2)
    explained = fx.explain(x[:20])
    assert explained.others
    families = {"front": ["x0", "x1", "x2"], "back": ["x3", "x4", "x5"]}
    values = explained.by_family(families).shap_values()
    assert values.shape == (20, 2)
    np.testing.assert_allclose(values.sum(axis=1) + fx.intercept, fx.decision_function(x[:20]), rtol=0, atol=1e-10)
    alone = explained.by_family({name: [name] for name in explained.features})
    np.testing.assert_allclose(alone.shap_values(), explained.shap_values(), rtol=0, atol=1e-12)
