"""Decomposition against brute force, the models' own predictions, and sums over rows by hand."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import itertools
import sys
import types

import numpy as np
import pytest

import treeanova
from treeanova import compare, mean
from treeanova.data.features import Feature, Schema
from treeanova.data.frames import backend_of
from treeanova.decomposition.decomposition import decomposed
from treeanova.decomposition.explanation import Explanation
from treeanova.density.kinds import Empirical, Laplace, Shrinkage, Uniform
from treeanova.model.axes import IntervalAxis
from treeanova.model.effects import Effects
from treeanova.model.grid import Grid
from treeanova.terms.additive import AdditiveModel
from treeanova.terms.source import Settings
from treeanova.terms.termset import Tensors
from treeanova.testing import brute_force
from treeanova.views.summary import adding_up

ensemble = pytest.importorskip("sklearn.ensemble")
tree = pytest.importorskip("sklearn.tree")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

NAMES = ("x0", "x1", "x2")
decompose = functools.partial(treeanova.decompose, density="empirical")
PAIRS = list(itertools.combinations(NAMES, 2))


def correlated(n_rows=300, seed=0):
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(n_rows, 3))
    data[:, 1] = 0.7 * data[:, 0] + 0.5 * data[:, 1]
    return data


def target(data):
    return data[:, 0] * data[:, 1] + data[:, 2] * (data[:, 0] > 0) + 0.5 * data[:, 1]


def boosted(data, response, n_trees=8, **options):
    return ensemble.GradientBoostingRegressor(n_estimators=n_trees, max_depth=2, **options, random_state=0).fit(
        data, response
    )


DATA = correlated()
HELD_OUT = correlated(200, seed=1)


@pytest.fixture(scope="module")
def model():
    return boosted(DATA, target(DATA))


@pytest.fixture(scope="module")
def other_model():
    return boosted(DATA, np.sin(target(DATA)) + DATA[:, 1] * DATA[:, 2], n_trees=6)


@pytest.fixture(scope="module")
def fx(model):
    return decompose(model, DATA, n_jobs=1)


@pytest.fixture(scope="module")
def classifier():
    classes = np.digitize(target(DATA), [-0.5, 0.5])
    return ensemble.GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0).fit(
        DATA, np.array(list("uvw"))[classes]
    )


@pytest.fixture(scope="module")
def several(classifier):
    return decompose(classifier, DATA, n_jobs=1)


@pytest.fixture(scope="module")
def mixed():
    """A model of a number with missing values and a category, its data, and its decomposition."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.normal(size=400), "kind": rng.choice(["u", "v", "w"], 400)})
    table["kind"] = table["kind"].astype("category")
    table.loc[::5, "age"] = np.nan
    response = table.age.fillna(0) * (table.kind == "u") + (table.kind == "v") - 9 * table.age.isna()
    model = ensemble.HistGradientBoostingRegressor(
        max_iter=6, max_depth=2, categorical_features="from_dtype", min_samples_leaf=5, random_state=0
    ).fit(table, response)
    return model, table, decompose(model, table, n_jobs=1)


def inside(axis):
    """A value in each bin of an axis of intervals, NaN for a bin of missing values."""
    numbers = [*axis.bounds, axis.bounds[-1] + 1 if len(axis.bounds) else 0.0]
    return numbers + [np.nan] * (axis.size - len(numbers))


def tensor_of(predict, grid):
    """A model's prediction in every cell of a grid."""
    points = np.array(list(itertools.product(*(inside(axis) for axis in grid.axes))))
    return predict(points).reshape(grid.sizes)


def joint_of(data, grid):
    """Shares of rows in the cells of all features, by histogram."""
    edges = [np.concatenate([[-1e9], axis.bounds, [1e9]]) for axis in grid.axes]
    # np.histogramdd closes intervals on the left; mirrored, they are closed on the right as ours.
    mirrored = np.histogramdd(-data, [-own[::-1] for own in edges])[0]
    return mirrored[tuple([slice(None, None, -1)] * data.shape[1])] / len(data)


def purified(effects, density):
    """The decomposition of an additive model under a density."""
    return decomposed(AdditiveModel(Tensors(effects)), density, Settings())


def assert_terms(found, expected, names=NAMES, tolerance=1e-9):
    """Terms equal those of brute force; those that are not there are zero."""
    assert found.intercept == pytest.approx(float(expected[()]), abs=tolerance)
    for key, values in expected.items():
        own = tuple(names[j] for j in key)
        if own in found.terms:
            np.testing.assert_allclose(found.terms[own].values, values, atol=tolerance)
        elif key:
            np.testing.assert_allclose(values, 0, atol=tolerance)


def columns(table):
    """Columns of a table of any library as lists."""
    if isinstance(table, dict):
        return {name: list(values) for name, values in table.items()}
    if isinstance(table, pa.Table):
        return table.to_pydict()
    return {name: table[name].to_list() for name in table.columns}


# The whole


def test_terms_are_those_of_brute_force(model):
    small = boosted(DATA, target(DATA), n_trees=4)
    found = decompose(small, DATA, density="laplace", n_jobs=1)
    joint = joint_of(DATA, found.grid)
    weights = joint / 2 + 0.5 / joint.size
    assert_terms(found, brute_force(tensor_of(small.predict, found.grid), weights))
    for names, key in ((names, tuple(map(NAMES.index, names))) for names in found.terms):
        expected = weights.sum(axis=tuple(set(range(3)) - set(key)))
        np.testing.assert_allclose(found.terms[names].weights, expected, atol=1e-14)


@pytest.mark.parametrize("density", ["empirical", "laplace", "independent", "shrinkage", "uniform"])
def test_scores_are_the_models_own(model, density):
    found = decompose(model, DATA, density=density, n_jobs=1)
    np.testing.assert_allclose(found.decision_function(HELD_OUT), model.predict(HELD_OUT), atol=1e-12)
    np.testing.assert_allclose(found.predict(HELD_OUT), model.predict(HELD_OUT), atol=1e-12)


@pytest.mark.parametrize("density", ["empirical", "laplace", "shrinkage", "uniform"])
def test_threads_change_nothing(model, classifier, density):
    for own in (model, classifier):
        one, two = (decompose(own, DATA, density=density, n_jobs=n_jobs) for n_jobs in (1, 2))
        assert one == two
        assert list(one.terms) == list(two.terms)
        assert dict(one.certificate.terms) == dict(two.certificate.terms)
        for names in one.terms:
            assert one.terms[names].values.tobytes() == two.terms[names].values.tobytes()


def test_a_constant_model_has_an_intercept_only():
    constant = tree.DecisionTreeRegressor(random_state=0).fit(DATA, np.full(300, 2.5))
    found = decompose(constant, DATA, n_jobs=1)
    assert (found.intercept, len(found.terms)) == (2.5, 0)
    assert found.decision_function(HELD_OUT).tolist() == [2.5] * 200
    assert found.explain(HELD_OUT).values.shape == (200, 0)
    assert repr(found).startswith("Decomposition of 0 terms: none")


# Terms


def test_terms_are_found_by_names_in_any_order(fx):
    assert fx.terms["x1", "x0"].features == ("x0", "x1")
    assert fx.terms["x0"].features == fx.terms["x0",].features == fx.terms[["x0"]].features == ("x0",)
    np.testing.assert_array_equal(fx.terms["x1", "x0"].values, fx.terms["x0", "x1"].values)
    assert fx.terms["x1", "x0"].order == 2
    assert "x0" in fx.terms
    assert ("x2", "x0") in fx.terms
    assert ("x0", "x0") not in fx.terms


@pytest.mark.parametrize("key", ["x9", ("x0", "x9"), (), ("x0", "x1", "x2")])
def test_a_term_that_is_not_there_is_a_key_error(fx, key):
    assert key not in fx.terms
    with pytest.raises(KeyError, match=r"no term .* among 6; an interaction is"):
        fx.terms[key]


def test_terms_come_by_order_then_by_position_with_keys_for_dicts(fx):
    assert list(fx.terms) == [("x0",), ("x1",), ("x2",), *PAIRS]
    assert len(fx.terms) == 6
    assert {key: term.order for key, term in fx.terms.items()}["x0", "x2"] == 2
    assert repr(fx.terms) == "<6 terms: x0, x1, x2, x0 × x1, x0 × x2, x1 × x2>"
    low, high = fx.terms["x0"].values.min(), fx.terms["x0"].values.max()
    assert repr(fx.terms["x0"]) == f"Term(x0: {fx.grid.sizes[0]} bins, values {low:.4g} to {high:.4g})"


def test_a_term_at_rows(fx):
    for names in fx.terms:
        key = [NAMES.index(name) for name in names]
        own = HELD_OUT[:, key]
        bins = [np.sum(own[:, [i]] > axis.bounds, axis=1) for i, axis in enumerate(fx.terms[names].axes)]
        expected = [fx.terms[names].values[cell] for cell in zip(*bins, strict=True)]
        np.testing.assert_array_equal(fx.terms[names](own), expected)
        np.testing.assert_array_equal(fx.term_values(HELD_OUT, names), expected)
        np.testing.assert_array_equal(fx.term_values(HELD_OUT, names[::-1]), expected)


def test_a_term_finds_its_columns_in_a_table(mixed):
    _, table, found = mixed
    for names in found.terms:
        np.testing.assert_array_equal(found.terms[names](table[table.columns[::-1]]), found.term_values(table, names))


def test_terms_of_several_outputs_end_in_the_outputs(several):
    assert several.intercept.shape == (3,)
    for names, term in several.terms.items():
        assert term.values.shape == (*term.weights.shape, 3)
        assert several.term_values(HELD_OUT, names).shape == (200, 3)
        assert term(HELD_OUT[:, [NAMES.index(name) for name in names]]).shape == (200, 3)


# Responses


def test_responses_are_the_librarys_own(classifier, several, mixed):
    np.testing.assert_allclose(several.decision_function(HELD_OUT), classifier.decision_function(HELD_OUT), atol=1e-12)
    np.testing.assert_array_equal(several.predict(HELD_OUT), classifier.predict(HELD_OUT))
    np.testing.assert_allclose(several.predict_response(HELD_OUT), classifier.predict_proba(HELD_OUT), atol=1e-12)
    np.testing.assert_allclose(several.predict_proba(HELD_OUT), classifier.predict_proba(HELD_OUT), atol=1e-12)
    model, table, found = mixed
    np.testing.assert_allclose(found.predict(table), model.predict(table), atol=1e-12)


def test_the_response_of_two_classes_is_the_probability_of_the_second():
    model = ensemble.GradientBoostingClassifier(n_estimators=3, max_depth=2, random_state=0).fit(DATA, target(DATA) > 0)
    found = decompose(model, DATA, n_jobs=1)
    assert isinstance(found.intercept, float)
    np.testing.assert_array_equal(found.predict(HELD_OUT), model.predict(HELD_OUT))
    np.testing.assert_allclose(found.predict_response(HELD_OUT), model.predict_proba(HELD_OUT)[:, 1], atol=1e-12)
    np.testing.assert_allclose(found.predict_proba(HELD_OUT), model.predict_proba(HELD_OUT), atol=1e-12)


def test_responses_under_a_log_link_and_of_probabilities():
    counts = np.random.default_rng(0).poisson(np.exp(DATA[:, 0] / 2))
    model = ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=4, max_depth=2, random_state=0).fit(
        DATA, counts
    )
    np.testing.assert_allclose(decompose(model, DATA, n_jobs=1).predict(HELD_OUT), model.predict(HELD_OUT), rtol=1e-12)
    forest = ensemble.RandomForestClassifier(4, max_depth=2, random_state=0, n_jobs=1).fit(DATA, target(DATA) > 0)
    found = decompose(forest, DATA, n_jobs=1)
    np.testing.assert_allclose(found.predict_proba(HELD_OUT), forest.predict_proba(HELD_OUT), atol=1e-12)


def test_probabilities_of_a_regression_are_refused(fx):
    with pytest.raises(
        ValueError, match=r"predict_proba\(\) must have a classifier, got a model with the link 'identity'"
    ):
        fx.predict_proba(DATA)


def test_a_response_without_a_known_link_is_refused():
    schema = Schema((Feature("a"),), link="other")
    grid = Grid(schema, (IntervalAxis("a", 0, np.array([0.0])),))
    effects = Effects(grid, np.array([1.0]), {(0,): np.array([[2.0], [4.0]])})
    found = purified(effects, Uniform().bind(grid, None))
    assert found.decision_function([[-1.0], [1.0]]).tolist() == [3.0, 5.0]
    with pytest.raises(ValueError, match=r"use decision_function\(\), which gives the score"):
        found.predict([[0.0]])


# Explanations


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
    assert columns(frame) == expected
    for table in (found.importance(), found.importance(by="feature"), found.table("x0"), found.table(("x0", "x1"))):
        assert isinstance(table, kind)
    comparison = compare({"pure": found, "raw": found.raw})
    assert {type(t) for t in (comparison.distance, comparison.signs, comparison.ranks)} == {kind}


def test_tables_without_a_data_frame_library_are_dicts_of_arrays(fx, monkeypatch):
    plain = dataclasses.replace(fx.explain(HELD_OUT), backend=None).to_frame()
    assert isinstance(plain, dict)
    np.testing.assert_array_equal(plain["x0 × x1"], fx.term_values(HELD_OUT, ("x0", "x1")))
    bare = dataclasses.replace(fx, settings=Settings(backend=None))
    assert isinstance(bare.importance(), dict)
    assert bare.table("x0").keys() == {"x0", "x0_low", "x0_high", "value", "weight"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert backend_of(DATA) is None
    assert backend_of(pl.DataFrame({"a": [1]})) == "polars"


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
    model = tree.DecisionTreeRegressor(random_state=0).fit(data, data @ [1.0, 2, 4] + data[:, 0] * data[:, 1])
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


# Importance


def test_importance_of_two_correlated_features_by_hand():
    """f = x0 + x1 on four cells with 3, 1, 1, 3 rows: variances 1/4 each, covariance 1/8, so the score's is 3/4."""
    data = np.array([[0.0, 0]] * 3 + [[0, 1]] + [[1, 0]] + [[1, 1]] * 3)
    model = tree.DecisionTreeRegressor(random_state=0).fit(data, data.sum(axis=1))
    table = decompose(model, data, n_jobs=1).importance().set_index("term")
    for name in ("x0", "x1"):
        found = table.loc[name, ["share", "variance", "covariance", "mean_abs"]].to_list()
        np.testing.assert_allclose(found, [1 / 2, 1 / 3, 1 / 6, 1 / 2], atol=1e-12)
    np.testing.assert_allclose(table.loc["x0 × x1", ["share", "mean_abs"]].to_list(), 0, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_shares_are_those_of_values_at_rows(model, weighted):
    weights = np.random.default_rng(0).exponential(size=300) if weighted else np.ones(300)
    found = decompose(model, DATA, sample_weight=weights if weighted else None, n_jobs=1)
    values = np.stack([found.term_values(DATA, names) for names in found.terms])
    covariances = np.cov(values, aweights=weights, ddof=0)
    total = covariances.sum()
    table = found.importance()
    assert table["variance"].is_monotonic_decreasing
    assert table["share"].sum() == pytest.approx(1.0, abs=1e-12)
    assert (table["variance"] + table["covariance"]).sum() == pytest.approx(1.0, abs=1e-12)
    by_term = table.set_index("term")
    for i, names in enumerate(found.terms):
        row = by_term.loc[" × ".join(names)]
        assert row["order"] == len(names)
        assert row["variance"] == pytest.approx(covariances[i, i] / total, abs=1e-12)
        assert row["covariance"] == pytest.approx((covariances[i].sum() - covariances[i, i]) / total, abs=1e-12)
        assert row["share"] == pytest.approx(row["variance"] + row["covariance"], abs=1e-14)
        assert row["mean_abs"] == pytest.approx(np.average(np.abs(values[i]), weights=weights), abs=1e-12)


def test_shares_of_raw_terms_are_those_of_values_at_rows(fx):
    """Raw terms have means, which count for nothing."""
    raw = fx.raw
    values = np.stack([raw.term_values(DATA, names) for names in raw.terms])
    assert np.abs(values.mean(axis=1)).max() > 1e-3
    covariances = np.cov(values, ddof=0)
    np.testing.assert_allclose(raw.moments.variance[:, 0], np.diag(covariances), atol=1e-12)
    expected = covariances.sum(axis=1) - np.diag(covariances)
    np.testing.assert_allclose(raw.moments.covariance[:, 0], expected, atol=1e-12)


@pytest.mark.parametrize("density", ["independent", "uniform"])
def test_terms_under_a_product_are_uncorrelated(model, density):
    """Variances over all cells of the joint table, which the product allows to write down."""
    found = decompose(model, DATA, density=density, n_jobs=1)
    singles = [found.terms[name].weights for name in NAMES]
    joint = np.einsum("a,b,c->abc", *singles)
    scores = tensor_of(model.predict, found.grid)
    total = (joint * scores**2).sum() - (joint * scores).sum() ** 2
    table = found.importance().set_index("term")
    assert (table["covariance"] == 0).all()
    for names, term in found.terms.items():
        share = (term.weights * term.values**2).sum() / total
        assert table.loc[" × ".join(names), "share"] == pytest.approx(share, abs=1e-12)
    assert table["share"].sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("density", ["independent", "uniform"])
def test_raw_terms_under_a_product_are_correlated(model, density):
    found = decompose(model, DATA, density=density, n_jobs=1)
    joint = np.einsum("a,b,c->abc", *(found.terms[name].weights for name in NAMES))
    scores = tensor_of(model.predict, found.grid)
    total = (joint * scores**2).sum() - (joint * scores).sum() ** 2
    moments = found.raw.moments
    # Draws may stand for the density, so the tolerance is theirs.
    assert (moments.variance + moments.covariance).sum() == pytest.approx(total, rel=0.05)


def test_importance_by_feature_shares_terms_equally(fx, several):
    by_term = fx.importance().set_index("term")
    by_feature = fx.importance(by="feature").set_index("feature")
    for measure in ("share", "variance", "covariance", "mean_abs"):
        for name in NAMES:
            expected = sum(by_term.loc[" × ".join(n), measure] / len(n) for n in fx.terms if name in n)
            assert by_feature.loc[name, measure] == pytest.approx(expected, abs=1e-12)
    assert "order" not in by_feature.columns
    for _, own in several.importance(by="feature").groupby("output"):
        assert own["share"].sum() == pytest.approx(1.0, abs=1e-12)
        assert sorted(own["feature"]) == list(NAMES)


def test_importance_of_several_outputs_is_that_of_each(several):
    table = several.importance()
    assert table["output"].drop_duplicates().to_list() == ["u", "v", "w"]
    for k, output in enumerate("uvw"):
        own = table[table["output"] == output].set_index("term")
        values = np.stack([several.term_values(DATA, names)[:, k] for names in several.terms])
        covariances = np.cov(values, ddof=0)
        expected = covariances.sum(axis=1) / covariances.sum()
        np.testing.assert_allclose([own.loc[" × ".join(n), "share"] for n in several.terms], expected, atol=1e-12)
        assert own["variance"].is_monotonic_decreasing


@pytest.mark.parametrize("make", [Laplace, Shrinkage])
def test_shares_under_a_mixture_add_up(model, make):
    found = decompose(model, DATA, density=make(), n_jobs=1)
    assert found.importance()["share"].sum() == pytest.approx(1.0, abs=1e-12)
    assert found.importance().equals(decompose(model, DATA, density=make(), n_jobs=1).importance())


def test_importance_by_something_else_is_refused(fx):
    with pytest.raises(ValueError, match="`by` must be 'term' or 'feature', got 'order'"):
        fx.importance(by="order")


def test_importance_of_no_terms_is_an_empty_table(fx):
    assert len(fx.select(order=3).importance()) == 0


# Tables


def test_a_table_of_intervals(fx):
    for names in (("x0",), ("x0", "x2")):
        table = fx.table(names)
        assert list(table.columns) == [c for n in names for c in (n, f"{n}_low", f"{n}_high")] + ["value", "weight"]
        assert len(table) == np.prod([fx.grid.sizes[NAMES.index(name)] for name in names])
        assert table["weight"].sum() == pytest.approx(1.0)
        for _, row in table.iterrows():
            held, point = np.ones(300, dtype=bool), np.zeros((1, 3))
            for name in names:
                column = DATA[:, NAMES.index(name)]
                low, high = row[f"{name}_low"], row[f"{name}_high"]
                held &= (column > low) & (column <= high)
                point[0, NAMES.index(name)] = high if np.isfinite(high) else low + 1
                assert str(row[name]).startswith({-np.inf: "≤"}.get(low, {np.inf: ">"}.get(high, "(")))
            assert row["weight"] == pytest.approx(held.mean())
            assert row["value"] == fx.term_values(point, names)[0]


def test_a_table_of_categories_and_missing_values(mixed):
    _, data, found = mixed
    kinds = found.table("kind")
    assert list(kinds.columns) == ["kind", "value", "weight"]
    kinds["letter"] = kinds["kind"].str.split(" or ").str[0]
    assert set(kinds["letter"]) >= set("uvw")
    for _, row in kinds[kinds["letter"].isin(list("uvw"))].iterrows():
        letter = row["letter"]
        point = data.head(1).assign(kind=pd.Categorical([letter], categories=["u", "v", "w"]))
        assert row["value"] == found.term_values(point, "kind")[0]
        assert row["weight"] == pytest.approx((data["kind"] == letter).mean())
    ages = found.table("age")
    missing = ages[ages["age"].str.endswith("missing")]
    assert len(missing) == 1
    assert missing["value"].item() == found.term_values(data.head(1).assign(age=np.nan), "age")[0]
    assert missing["age"].item() == "missing"
    assert missing["weight"].item() == pytest.approx(data["age"].isna().mean())
    assert np.isnan(missing[["age_low", "age_high"]].to_numpy(dtype=float)).all()
    assert not ages[ages["age"] != "missing"][["age_low", "age_high"]].isna().to_numpy().any()


def test_a_table_of_several_outputs_has_a_value_each(several):
    table = several.table(("x1", "x0"))
    for k, output in enumerate("uvw"):
        np.testing.assert_array_equal(table[f"value_{output}"], several.terms["x0", "x1"].values[..., k].ravel())


@pytest.mark.parametrize("name", ["value", "weight"])
def test_features_may_be_called_as_columns_of_a_table_are(model, name):
    found = decompose(model, DATA, feature_names=[name, "b", "c"], n_jobs=1)
    text = [values for values in columns(found.table(name)).values() if isinstance(values[0], str)]
    assert text == [list(found.terms[name].axes[0].labels)]


# Certificate and raw form


def test_the_certificate_has_all_terms_by_name(fx):
    assert set(fx.certificate.terms) == set(fx.terms)
    assert fx.certificate.met
    assert fx.certificate.impurity <= 1e-10
    assert fx.certificate.reconstruction_error <= 1e-12
    printed = str(fx.certificate)
    assert "orders 1 and 2 pure to" in printed
    assert all(" × ".join(names) in printed for names in fx.terms)
    for names, term in fx.terms.items():
        assert fx.certificate.terms[names].empty_share == pytest.approx((term.weights == 0).mean())


def test_the_maximal_correlation_is_the_second_singular_value(fx):
    for names in PAIRS:
        weights = fx.terms[names].weights
        rows, cols = weights.sum(axis=1), weights.sum(axis=0)
        kept = weights[np.ix_(rows > 0, cols > 0)] / np.sqrt(np.outer(rows[rows > 0], cols[cols > 0]))
        second = np.linalg.svd(kept, compute_uv=False)[1]
        assert fx.certificate.terms[names].max_correlation == pytest.approx(second, abs=1e-6)


def slice_means(term):
    """Largest absolute weighted mean of the slices that have mass."""
    worst = 0.0
    for axis in range(term.order):
        mass = term.weights.sum(axis=axis)
        means = np.divide((term.weights * term.values).sum(axis=axis), mass, out=np.zeros_like(mass), where=mass > 0)
        worst = max(worst, np.abs(means).max())
    return worst


def test_the_raw_form_has_the_same_scores_and_is_not_pure(model, fx):
    raw = fx.raw
    np.testing.assert_allclose(raw.decision_function(HELD_OUT), model.predict(HELD_OUT), atol=1e-12)
    assert max(slice_means(term) for term in fx.terms.values()) < 1e-10
    assert max(slice_means(term) for term in raw.terms.values()) > 1e-2
    assert raw.certificate.impurity > 1e-2
    assert not raw.certificate.met
    assert fx.raw is fx.raw
    assert raw != fx


def test_the_raw_form_of_one_tree_is_the_tree():
    single = tree.DecisionTreeRegressor(max_depth=2, random_state=0).fit(DATA[:, :2], target(DATA))
    found = decompose(single, DATA[:, :2], n_jobs=1).raw
    total = np.zeros(found.grid.sizes)
    for names, term in found.terms.items():
        key = ["x0", "x1"]
        total += term.values.reshape([s if n in names else 1 for n, s in zip(key, found.grid.sizes, strict=True)])
    np.testing.assert_allclose(total + found.intercept, tensor_of(single.predict, found.grid), atol=1e-12)


# Parts


def test_a_selection_holds_its_terms_and_their_sum(fx):
    for kept, names in [
        (fx.select(order=1), [("x0",), ("x1",), ("x2",)]),
        (fx.select(order=[2]), PAIRS),
        (fx.select(features=["x0", "x2"]), [("x0",), ("x2",), ("x0", "x2")]),
        (fx.select(order={1, 2}, features=["x1"]), [("x1",)]),
        (fx.select(features="x1"), [("x1",)]),
        (fx.drop("x0"), [("x1",), ("x2",), ("x1", "x2")]),
        (fx.drop("x0", "x1"), [("x2",)]),
        (fx.drop("x0").drop("x1"), [("x2",)]),
        (fx.select(order=3), []),
    ]:
        assert list(kept.terms) == names
        assert set(kept.certificate.terms) == set(names)
        expected = fx.intercept + sum((fx.term_values(HELD_OUT, own) for own in names), np.zeros(200))
        np.testing.assert_allclose(kept.decision_function(HELD_OUT), expected, atol=1e-12)
        assert f"of {len(names)} terms (of 6)" in repr(kept)
    assert list(fx.terms) == [("x0",), ("x1",), ("x2",), *PAIRS]


def test_importance_of_a_selection_is_of_its_own_score(fx):
    kept = fx.select(order=1)
    values = np.stack([fx.term_values(DATA, name) for name in NAMES])
    covariances = np.cov(values, ddof=0)
    table = kept.importance().set_index("term")
    np.testing.assert_allclose(table.loc[list(NAMES), "share"], covariances.sum(axis=1) / covariances.sum(), atol=1e-12)


def test_a_dropped_feature_has_no_say(fx):
    changed = HELD_OUT.copy()
    changed[:, 0] = 9
    dropped = fx.drop("x0")
    np.testing.assert_array_equal(dropped.decision_function(changed), dropped.decision_function(HELD_OUT))
    assert np.abs(fx.decision_function(changed) - fx.decision_function(HELD_OUT)).max() > 0.1


@pytest.mark.parametrize("act", [lambda fx: fx.drop("x9"), lambda fx: fx.select(features=["x0", "x9"])])
def test_unknown_features_are_refused(fx, act):
    with pytest.raises(ValueError, match="`features` must be the model's, got 'x9'; see"):
        act(fx)


@pytest.mark.parametrize("act", [lambda fx: fx.select(order=1), lambda fx: fx.drop("x0")])
def test_a_selection_under_another_density_is_the_same_function(fx, act):
    kept = act(fx)
    expected = kept.decision_function(HELD_OUT)
    np.testing.assert_allclose(kept.with_density("uniform").decision_function(HELD_OUT), expected, atol=1e-12)


def test_selections_add_up(fx):
    kept = fx.select(order=1)
    expected = 2 * kept.decision_function(HELD_OUT)
    np.testing.assert_allclose((kept + kept).decision_function(HELD_OUT), expected, atol=1e-12)


# Other densities


@pytest.mark.parametrize(
    "density",
    ["uniform", "laplace", "independent", "shrinkage", Laplace(mix=0.1), Empirical(X=HELD_OUT), lambda names, axes:
     np.ones([axis.size for axis in axes])],
)  # fmt: skip
def test_another_density_is_as_good_as_decomposing_anew(model, fx, density):
    again = fx.with_density(density)
    anew = decompose(model, DATA, density=density, n_jobs=1)
    assert again == anew
    assert again != fx
    assert again.density.name == anew.density.name
    assert dict(again.certificate.terms) == dict(anew.certificate.terms)
    assert again.importance().equals(anew.importance())


def test_the_same_density_with_other_rows(model, fx):
    weights = np.random.default_rng(0).random(200)
    assert fx.with_density("empirical", HELD_OUT) == decompose(model, HELD_OUT, n_jobs=1)
    weighted = fx.with_density("empirical", HELD_OUT, sample_weight=weights)
    assert weighted == decompose(model, HELD_OUT, sample_weight=weights, n_jobs=1)
    assert weighted != fx.with_density("empirical", HELD_OUT)


# Sums and means


def test_the_mean_of_two_models_is_the_mean_of_their_predictions(model, other_model, fx):
    both = mean([fx, decompose(other_model, HELD_OUT, n_jobs=1)])
    expected = (model.predict(HELD_OUT) + other_model.predict(HELD_OUT)) / 2
    np.testing.assert_allclose(both.decision_function(HELD_OUT), expected, atol=1e-12)
    assert max(slice_means(term) for term in both.terms.values()) < 1e-10
    for j, axis in enumerate(both.grid.axes):
        separate = [own.grid.axes[j].bounds for own in (fx, decompose(other_model, HELD_OUT, n_jobs=1))]
        np.testing.assert_array_equal(axis.bounds, np.unique(np.concatenate(separate)))


def test_sums_and_differences_are_of_predictions(model, other_model, fx):
    other = decompose(other_model, DATA, n_jobs=1)
    mine, its = model.predict(HELD_OUT), other_model.predict(HELD_OUT)
    np.testing.assert_allclose((fx + other).decision_function(HELD_OUT), mine + its, atol=1e-12)
    np.testing.assert_allclose((fx - other).decision_function(HELD_OUT), mine - its, atol=1e-12)
    nothing = fx - fx
    assert nothing.intercept == pytest.approx(0, abs=1e-14)
    assert all(np.abs(term.values).max() < 1e-14 for term in nothing.terms.values())
    assert mean([fx]) == fx


def test_terms_of_a_mean_are_those_of_the_mean_tensor():
    first = boosted(DATA, target(DATA), n_trees=3)
    second = boosted(DATA, np.sin(target(DATA)), n_trees=3)
    both = mean([decompose(own, DATA, density="laplace", n_jobs=1) for own in (first, second)])
    joint = joint_of(DATA, both.grid)
    scores = tensor_of(lambda rows: (first.predict(rows) + second.predict(rows)) / 2, both.grid)
    assert_terms(both, brute_force(scores, joint / 2 + 0.5 / joint.size))


def test_terms_of_a_mean_are_means_of_terms_on_one_grid():
    """On the same bins and rows, purification is linear."""
    data = np.random.default_rng(0).integers(0, 3, (200, 3)).astype(float)
    data[:, 1] = np.where(np.arange(200) % 3 > 0, data[:, 0], data[:, 1])
    models = [boosted(data, np.random.default_rng(seed).normal(size=200), n_trees=30) for seed in (1, 2)]
    parts = [decompose(own, data, n_jobs=1) for own in models]
    assert all(part.grid.sizes == (3, 3, 3) for part in parts)
    both = mean(parts)
    for names in both.terms:
        expected = (parts[0].term_values(data, names) + parts[1].term_values(data, names)) / 2
        np.testing.assert_allclose(both.term_values(data, names), expected, atol=1e-10)


def test_terms_of_a_mean_are_means_of_terms_under_a_product(model, other_model):
    """Under the product of the same marginals, finer bins change no term."""
    parts = [decompose(own, DATA, density="independent", n_jobs=1) for own in (model, other_model)]
    both = mean(parts)
    assert both.grid.sizes != parts[0].grid.sizes
    for names in both.terms:
        expected = sum(part.term_values(DATA, names) for part in parts if names in part.terms) / 2
        np.testing.assert_allclose(both.term_values(DATA, names), expected, atol=1e-12)


def test_means_with_missing_values_and_categories(mixed):
    model, table, found = mixed
    second = ensemble.HistGradientBoostingRegressor(
        max_iter=4, max_depth=2, categorical_features="from_dtype", min_samples_leaf=5, random_state=0
    ).fit(table, np.where(table.kind == "w", table.age.fillna(-2), 1.0))
    both = mean([found, decompose(second, table, n_jobs=1)])
    expected = (model.predict(table) + second.predict(table)) / 2
    np.testing.assert_allclose(both.decision_function(table), expected, atol=1e-12)


def test_means_of_several_outputs(classifier, several):
    classes = np.array(list("uvw"))[np.digitize(HELD_OUT[:, 1], [-0.3, 0.3])]
    second = ensemble.GradientBoostingClassifier(n_estimators=2, max_depth=2, random_state=0).fit(HELD_OUT, classes)
    both = mean([several, decompose(second, HELD_OUT, n_jobs=1)])
    expected = (classifier.decision_function(DATA) + second.decision_function(DATA)) / 2
    np.testing.assert_allclose(both.decision_function(DATA), expected, atol=1e-12)


def test_nothing_has_no_mean():
    with pytest.raises(ValueError, match=r"`parts` must be a list of at least one decomposition, got \[\]; pass"):
        mean([])


def test_decompositions_of_other_outputs_or_links_are_not_added(fx, several):
    binary = ensemble.GradientBoostingClassifier(n_estimators=2, max_depth=2, random_state=0).fit(
        DATA, target(DATA) > 0
    )
    for other in (several, decompose(binary, DATA, n_jobs=1)):
        with pytest.raises(ValueError, match="must have the same"):
            _ = fx + other


def test_models_that_read_missing_values_in_other_ways_are_not_added():
    xgboost = pytest.importorskip("xgboost")
    rows = np.full((1, 3), -999.0)
    models = [
        xgboost.XGBRegressor(n_estimators=3, max_depth=2, n_jobs=1, missing=missing).fit(DATA, target(DATA))
        for missing in (-999, np.nan)
    ]
    parts = [decompose(own, DATA, n_jobs=1) for own in models]
    try:
        found = (parts[0] + parts[1]).decision_function(rows)
    except ValueError:
        return
    np.testing.assert_allclose(found, sum(own.predict(rows) for own in models), rtol=1e-5)


def test_a_sum_with_a_model_that_refuses_missing_values_refuses_them(model, fx):
    accepts = ensemble.HistGradientBoostingRegressor(max_iter=2, max_depth=2, random_state=0).fit(DATA, target(DATA))
    with pytest.raises(ValueError, match="must have no missing values"):
        (decompose(accepts, DATA, n_jobs=1) + fx).decision_function(np.full((1, 3), np.nan))


# Equality and repr


def test_equality_is_of_terms_and_bins(model, other_model, fx, several):
    assert fx == decompose(model, DATA, n_jobs=1)
    assert fx != decompose(other_model, DATA, n_jobs=1)
    assert fx != several
    assert fx != fx.select(order=1)
    assert fx != decompose(model, DATA, feature_names=["a", "b", "c"], n_jobs=1)
    assert fx != "fx"
    with pytest.raises(TypeError, match="unhashable"):
        hash(fx)


def on_axis(axis):
    """Values 1 and -1 on the two bins of an axis."""
    grid = Grid(Schema((Feature("a"),)), (axis,))
    effects = Effects(grid, np.zeros(1), {(0,): np.array([[1.0], [-1.0]])})
    return purified(effects, Uniform().bind(grid, None))


def test_equality_is_of_bounds_and_bins_of_missing_values():
    axes = [(0, 0.0), (1, 0.0), (0, 0.5)]
    parts = [on_axis(IntervalAxis("a", missing_bin, np.array([bound]))) for missing_bin, bound in axes]
    assert parts[0] == on_axis(IntervalAxis("a", 0, np.array([0.0])))
    assert parts[0] != parts[1]
    assert parts[0] != parts[2]
    assert parts[1] != parts[2]


def test_a_repr_tells_the_truth(fx, several):
    found = fx.certificate
    assert repr(fx).splitlines() == [
        "Decomposition of 6 terms: 3 of order 1, 3 of order 2",
        "  density empirical, link identity, outputs score",
        f"  orders 1 and 2 pure to {found.impurity:.1e}; {adding_up(fx)}",
    ]
    assert adding_up(fx) == f"sum of terms within {found.reconstruction_error:.1e} of the model"
    assert "link softmax, outputs u, v, w" in repr(several)
    assert "density laplace" in repr(fx.with_density("laplace"))


# Comparison


def test_distances_signs_and_ranks_by_hand(fx):
    other = fx.with_density("uniform")
    found = compare({"empirical": fx, "uniform": other, "raw": fx.raw})
    assert found.names == ("empirical", "uniform", "raw")
    spread = np.std(fx.decision_function(DATA))
    distance = found.distance.set_index(["decomposition", "term"])
    signs = found.signs.set_index("term")
    for name, own in (("uniform", other), ("raw", fx.raw)):
        for names, term in fx.terms.items():
            values = own.terms[names].values if names in own.terms else np.zeros_like(term.values)
            gap = np.sqrt((term.weights * (values - term.values) ** 2).sum())
            row = distance.loc[(name, " × ".join(names))]
            assert row["distance"] == pytest.approx(gap, abs=1e-12)
            assert row["relative"] == pytest.approx(gap / spread, abs=1e-12)
            if len(names) == 1:
                changed = term.weights[values * term.values < 0].sum()
                assert signs.loc[names[0], name] == pytest.approx(changed, abs=1e-12)
    for name, own in (("empirical", fx), ("uniform", other), ("raw", fx.raw)):
        expected = {term: rank for rank, term in enumerate(own.importance()["term"], start=1)}
        shown = dict(zip(found.ranks["term"], found.ranks[name], strict=True))
        assert shown == {" × ".join(names): expected.get(" × ".join(names), 0) for names in fx.terms}


def test_signs_change_where_values_do():
    """Stumps at 0 and at 1 on four rows: on (0, 1] the first is high and the second low, a quarter of the rows."""
    data = np.array([[-1.0], [0.5], [2.0], [3.0]])
    first = tree.DecisionTreeRegressor(max_depth=1, random_state=0).fit(data, [0, 1, 1, 1])
    second = tree.DecisionTreeRegressor(max_depth=1, random_state=0).fit(data, [0, 0, 1, 1])
    parts = {"first": decompose(first, data, n_jobs=1), "second": decompose(second, data, n_jobs=1)}
    found = compare(parts)
    assert found.signs["second"].to_list() == [pytest.approx(0.75 / 2)]
    # Pure values: -3/4 and 1/4 against -1/2 and 1/2. The first's upper bin of weight 3/4 is cut in two equal parts.
    squares = 0.25 * 0.25**2 + 0.375 * 0.75**2 + 0.375 * 0.25**2
    assert found.distance["distance"].to_list() == [pytest.approx(np.sqrt(squares))]


def test_a_comparison_of_several_outputs(several):
    found = compare({"pure": several, "raw": several.raw})
    assert len(found.distance) == 3 * len(several.terms)
    assert sorted(found.signs["output"].unique()) == ["u", "v", "w"]
    same = compare({"a": several, "b": several})
    assert (same.distance["distance"] == 0).all()
    assert (same.signs["b"] == 0).all()
    assert (same.ranks["a"] == same.ranks["b"]).all()


def test_a_comparison_prints_all_tables(fx):
    printed = str(compare({"pure": fx, "raw": fx.raw}))
    for text in ("compared with pure", "distances", "changed signs of main effects", "ranks", "x0 × x1"):
        assert text in printed


def test_what_cannot_be_compared_is_refused(fx, several):
    with pytest.raises(ValueError, match="must hold at least two, got 1; add"):
        compare({"only": fx})
    with pytest.raises(ValueError, match=r"got score \(identity\) and u, v, w \(softmax\)"):
        compare({"one": fx, "three": several})


def test_public_types(fx):
    assert isinstance(fx, treeanova.Decomposition)
    assert isinstance(fx.terms["x0"], treeanova.Term)
    assert isinstance(fx.explain(DATA), Explanation)
    assert isinstance(fx.certificate, treeanova.Certificate)


def small_model(seed=0, columns=("a", "b", "c")):
    from sklearn.ensemble import GradientBoostingRegressor

    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    x = pandas.DataFrame(rng.normal(size=(300, len(columns))), columns=list(columns))
    target = x.iloc[:, 0] * x.iloc[:, 1] + x.iloc[:, -1]
    return GradientBoostingRegressor(n_estimators=10, max_depth=2, random_state=0), x, target


def test_a_pipeline_that_changes_its_columns_is_refused():
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model, x, target = small_model()
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), model).fit(x * 10 + 5, target)
    with pytest.raises(treeanova.UnsupportedModelError, match=r"decompose\(pipeline\[-1\], pipeline\[:-1\]\.transform"):
        decompose(pipeline, x * 10 + 5)
    seen = pipeline[:-1].transform(x * 10 + 5)
    fx = decompose(pipeline[-1], seen, feature_names=pipeline[:-1].get_feature_names_out())
    np.testing.assert_allclose(fx.decision_function(seen), pipeline.predict(x * 10 + 5), rtol=1e-9)


def test_given_names_are_matched_by_name():
    model, x, target = small_model()
    model.fit(x.to_numpy(), target)
    fx = decompose(model, x, feature_names=["a", "b", "c"])
    np.testing.assert_array_equal(fx.decision_function(x[["c", "a", "b"]]), fx.decision_function(x.to_numpy()))
    renamed = x.rename(columns={"a": "p", "b": "q", "c": "r"})
    np.testing.assert_array_equal(fx.decision_function(renamed), fx.decision_function(x))
    with pytest.raises(ValueError, match="all of the names 'a', 'b', 'c' or none, got a, q, c"):
        fx.decision_function(x.rename(columns={"b": "q"}))


def test_a_selection_stays_a_selection():
    model, x, target = small_model()
    fx = decompose(model.fit(x, target), x)
    part = fx.select(order=1)
    for some in (part, part.with_density("uniform"), part.raw):
        assert f"(of {len(fx.terms)})" in repr(some)
        assert "of the model" not in repr(some)
    with pytest.raises(ValueError, match=r"needs all terms, got a selection from 5 terms; call it before select\(\)"):
        part.standard_errors()


def test_rows_are_called_x_wherever_they_are_given():
    """By name as by position; the model itself is the oracle of the scores."""
    model, x, target = small_model()
    fx = decompose(model.fit(x, target), x)
    some = x.iloc[:50]
    np.testing.assert_allclose(fx.decision_function(X=some), model.predict(some), atol=1e-12)
    np.testing.assert_allclose(fx.predict(X=some), model.predict(some), atol=1e-12)
    np.testing.assert_allclose(fx.explain(X=some).scores, model.predict(some), atol=1e-12)
    np.testing.assert_array_equal(fx.remainder(X=some), np.zeros(50))
    np.testing.assert_array_equal(fx.term_values(X=some, key="a"), fx.terms["a"](X=some[["a"]]))
    assert fx.with_density("empirical", X=some) == decompose(model, some)
    shares = fx.with_density("empirical", X=some).density
    expected = np.log(shares.table((0,)))[fx.grid.axes[0].index(some["a"].to_numpy())].mean()
    assert shares.log_likelihood(X=some, features=["a"]) == pytest.approx(expected)
    with pytest.raises(ValueError, match="class"):
        fx.predict_proba(X=some)


def test_explanations_keep_the_index_of_a_pandas_table():
    model, x, target = small_model()
    fx = decompose(model.fit(x, target), x)
    some = x[x["a"] > 0]
    assert fx.explain(some).to_frame().index.equals(some.index)


def test_helpful_refusals():
    model, x, target = small_model()
    fx = decompose(model.fit(x, target), x)
    assert fx.drop(["a", "b"]).terms.keys() == fx.drop("a", "b").terms.keys()
    with pytest.raises(TypeError, match="must map names to decompositions, got list"):
        treeanova.compare([fx, fx.raw])
    with pytest.raises(TypeError, match="unsupported operand"):
        fx - 1
    with pytest.raises(ValueError, match="must be a list of at least one decomposition"):
        treeanova.mean(fx)
    with pytest.raises(KeyError, match="terms go by names of features, got 0"):
        fx.terms[0]
    with pytest.raises(ValueError, match="`n_resamples` must be at least 2"):
        fx.standard_errors(1)


@pytest.mark.parametrize("density", ["empirical", "auto"])
def test_decompositions_can_be_pickled(density):
    import pickle

    from sklearn.ensemble import GradientBoostingRegressor

    rows = np.random.default_rng(0).normal(size=(300, 4))
    for depth, tensor_order in ((2, None), (4, 2)):
        model = GradientBoostingRegressor(max_depth=depth, n_estimators=10).fit(
            rows, rows[:, 0] * rows[:, 1] + rows[:, 2]
        )
        fx = treeanova.decompose(model, rows, density=density, tensor_order=tensor_order)
        fx.importance()
        again = pickle.loads(pickle.dumps(fx))
        np.testing.assert_array_equal(again.explain(rows).values, fx.explain(rows).values)
        assert str(again.certificate) == str(fx.certificate)
