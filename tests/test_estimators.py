"""Estimators against their own members: what they predict is the mean of the members, or of its part up to an order."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("pandas")


import pandas as pd
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import treeanova
from tests.support.training import fit, shifted, shifted_seed
from treeanova import AdditiveClassifier, AdditiveRegressor, _members
from treeanova._members import features_of, folds_of, mean_of_outputs, side_by_side
from treeanova.data.features import Labels
from treeanova.errors import ScoreWarning, UnsupportedModelError
from treeanova.model.rows import Rows

CLOSE = {"rtol": 0, "atol": 1e-12}


def rows_and_outcome(n_rows=240, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, (n_rows, 3)).astype(float)
    return X, X[:, 0] + X[:, 1] * X[:, 2] / 3 + rng.normal(size=n_rows)


def table_and_outcome(n_rows=240):
    rng = np.random.default_rng(1)
    X, y = rows_and_outcome(n_rows)
    place = np.array(["north", "south", None, "west"], dtype=object)[rng.integers(0, 4, n_rows)]
    number = np.where(rng.random(n_rows) < 0.1, np.nan, X[:, 0])
    return pd.DataFrame({"number": number, "place": place, "other": X[:, 1]}), y + (place == "west")


def of_pairs(kind=HistGradientBoostingRegressor):
    """Boosting without terms of higher orders, so that members are their terms up to order 2."""
    return kind(max_iter=30, min_samples_leaf=10, interaction_cst="pairwise", early_stopping=True)


def few(**options):
    defaults = {"recalibrate": False, "simplify": False, "estimator": of_pairs()}
    return AdditiveRegressor(**{"n_bags": 3, "density": "empirical"} | defaults | options)


@pytest.fixture(scope="module")
def regressor():
    return fit(few(), *rows_and_outcome())


@pytest.fixture(scope="module")
def with_places():
    return fit(few(estimator=None), *table_and_outcome())


@pytest.fixture(scope="module")
def classifier():
    X, y = rows_and_outcome()
    return fit(
        AdditiveClassifier(
            of_pairs(HistGradientBoostingClassifier), n_bags=3, density="empirical", recalibrate=False, simplify=False
        ),
        X,
        np.where(y > y.mean(), "yes", "no"),
    )


def test_the_score_is_the_mean_of_the_members(regressor):
    X, _ = rows_and_outcome()
    members = [member.score(X)[:, 0] for member in regressor._members]
    assert len(members) == 3
    assert np.ptp(members, axis=0).max() > 0
    np.testing.assert_allclose(regressor.predict(X), np.mean(members, axis=0), **CLOSE)


def test_the_explanation_adds_up(regressor, classifier):
    X, _ = rows_and_outcome()
    for model, score in ((regressor, regressor.predict(X)), (classifier, classifier.decision_function(X))):
        explanation = model.explain(X)
        np.testing.assert_allclose(explanation.intercept + explanation.values.sum(axis=1), score, **CLOSE)
        assert max(map(len, explanation.terms)) == 2


def test_of_deeper_members_the_orders_up_to_two_are_kept():
    X, y = rows_and_outcome()
    deep = HistGradientBoostingRegressor(max_iter=10, min_samples_leaf=2, early_stopping=False)
    model = fit(few(estimator=deep), X, y + X.prod(axis=1))
    rows = shifted(X)
    each = [treeanova.decompose(m, rows, density="empirical").select(order=[1, 2]) for m in model._members]
    low_orders = np.mean([fx.decision_function(X) for fx in each], axis=0)
    np.testing.assert_allclose(model.predict(X), low_orders, rtol=0, atol=1e-9)
    whole = np.mean([member.score(X)[:, 0] for member in model._members], axis=0)
    assert np.abs(whole - low_orders).max() > 0.1


def test_a_member_stops_at_the_best_round_of_its_fold():
    X, y = rows_and_outcome()
    model = fit(few(estimator=None, max_order=1), X, y)
    rows, outcome = shifted(X), shifted(y)
    folds = folds_of(None, len(y), 3, np.random.RandomState(shifted_seed(0)))
    member = model._members[0]
    held_out = folds == 0
    losses = []
    for n_trees in range(1, member.n_trees + 1):
        leaves = member.leaves(rows[held_out])[:, :n_trees]
        score = member.intercept + member.values[leaves].sum(axis=1)
        losses.append(np.mean((outcome[held_out] - score[:, 0]) ** 2))
    if "X_val" in inspect.signature(HistGradientBoostingRegressor.fit).parameters:  # since scikit-learn 1.7
        assert np.argmin(losses) == member.n_trees - 1


@pytest.mark.parametrize(("n_rows", "n_bags"), [(10, 3), (11, 4), (7, 5)])
def test_folds_are_even_in_every_class(n_rows, n_bags):
    classes = np.arange(n_rows) % 3
    classes[-1] = 3  # alone
    folds = folds_of(classes, n_rows, n_bags, np.random.RandomState(0))
    assert folds[-1] == -1
    assert np.ptp(np.bincount(folds[folds >= 0])) <= 1
    for one in range(3):
        counts = np.bincount(folds[(classes == one) & (folds >= 0)], minlength=n_bags)
        assert np.ptp(counts) <= 1


def test_categories_are_those_of_boosting_on_their_codes(with_places):
    """Members were trained on codes: what they say of labels, unseen ones and gaps follows from codes and NaN."""
    X = pd.DataFrame({"number": [1.0, np.nan], "place": ["west", None], "other": [2.0, 3.0]})
    new = X.assign(place=["elsewhere", np.nan])
    score = with_places.predict(pd.concat([X, new]))
    assert score[1] == score[3]  # None and NaN
    gap = with_places.predict(X.assign(place=None))
    np.testing.assert_array_equal(with_places.predict(X.assign(place="elsewhere")), gap)
    effect = with_places.decomposition_.table("place")
    assert {"north", "south", "west"} <= set(effect["place"])


def test_one_of_many_categories_that_a_member_never_saw_acts_as_missing(monkeypatch):
    monkeypatch.setattr(_members, "_FEW_CATEGORIES", 0)
    X, y = table_and_outcome()
    X.loc[0, "place"] = "once"
    y[X["place"] == "north"] += 3
    model = fit(few(estimator=None), X, y)
    once, gap = X.head(1), X.head(1).assign(place=None)
    differences = [abs((m.score(once) - m.score(gap)).item()) for m in model._members]
    assert min(differences) == 0  # of the member that was trained without this row


def indicators(X):
    """Number, other, and a column for each place and for missing ones: all that few categories are to boosting."""
    places = [(X["place"] == place).to_numpy(float) for place in ("north", "south", "west")]
    return np.column_stack([X["number"], *places, X["place"].isna(), X["other"]]).astype(float)


def test_few_categories_are_split_one_against_the_rest():
    """A member on the columns of the table against histogram boosting on one column per category."""
    X, y = table_and_outcome()
    features = features_of(X)
    matrix = _members._matrix(features, X, named=True)
    columns = _members.columns_of(features, matrix)
    codes = np.column_stack([column.codes(matrix[:, column.feature]) for column in columns])
    np.testing.assert_array_equal(codes[:, 1:5], indicators(X)[:, 1:5])
    boosting = fit(HistGradientBoostingRegressor(max_iter=20, early_stopping=False), codes, y)
    member = _members._with_features(treeanova.read_model(boosting), features, columns, named=True)
    np.testing.assert_allclose(member.score(X)[:, 0], boosting.predict(codes), rtol=0, atol=1e-12)
    for place in ("elsewhere", None):
        other = X.assign(place=place)
        codes[:, 1:5] = indicators(X.assign(place=None))[:, 1:5]
        np.testing.assert_allclose(member.score(other)[:, 0], boosting.predict(codes), rtol=0, atol=1e-12)


def test_main_effects_of_categories_need_no_constraint_but_their_own():
    X, y = table_and_outcome()
    model = fit(few(estimator=None, max_order=1), X, y)
    assert max(map(len, model.decomposition_)) == 1
    members = np.mean([m.score(shifted(X))[:, 0] for m in model._members], axis=0)
    np.testing.assert_allclose(model.predict(shifted(X)), members, rtol=0, atol=1e-9)


@pytest.mark.parametrize("n_values", [5, 1000])
def test_members_share_cuts_between_values(n_values):
    rng = np.random.default_rng(0)
    values = rng.normal(size=n_values)[rng.integers(0, n_values, 3000)]
    cuts = _members._cuts(np.append(values, np.nan))
    counts = np.bincount(np.searchsorted(cuts, values), minlength=len(cuts) + 1)
    assert (counts > 0).all()
    assert len(counts) == min(n_values, len(counts), _members._BINS)
    assert len(_members._cuts(np.array([1.0, np.nextafter(1.0, 2)]))) == 1


def test_tables_of_all_libraries_are_read_alike(with_places):
    polars = pytest.importorskip("polars")
    X, y = table_and_outcome()
    same = polars.DataFrame({name: [None if pd.isna(value) else value for value in X[name]] for name in X.columns})
    np.testing.assert_array_equal(with_places.predict(same), with_places.predict(X))
    categories = X.astype({"place": "category"})
    np.testing.assert_array_equal(with_places.predict(categories), with_places.predict(X))
    assert fit(few(estimator=None), categories, y).decomposition_ == with_places.decomposition_


def test_rare_categories_beyond_the_limit_are_missing():
    labels = [f"c{i:03}" for i in range(300)] + [f"c{i:03}" for i in range(10, 264)]
    (feature,) = features_of(pd.DataFrame({"label": labels}))
    assert isinstance(feature.encoder, Labels)
    assert feature.encoder.labels == tuple(f"c{i:03}" for i in range(10, 264))


def test_probabilities_follow_from_the_score_by_the_link(classifier):
    X, _ = rows_and_outcome()
    p = expit(classifier.decision_function(X))
    np.testing.assert_allclose(classifier.predict_proba(X), np.column_stack([1 - p, p]), **CLOSE)
    assert classifier.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(classifier.predict(X), np.where(p > 0.5, "yes", "no"))


def test_three_classes():
    X, y = rows_and_outcome()
    kinds = np.digitize(y, np.quantile(y, [0.3, 0.7])) * 10
    model = fit(
        AdditiveClassifier(
            of_pairs(HistGradientBoostingClassifier), n_bags=3, density="empirical", recalibrate=False, simplify=False
        ),
        X,
        kinds,
    )
    scores = model.decision_function(X)
    assert scores.shape == (len(X), 3)
    np.testing.assert_allclose(model.predict_proba(X), softmax(scores, axis=1), **CLOSE)
    np.testing.assert_array_equal(model.predict(X), np.array([0, 10, 20])[scores.argmax(axis=1)])
    np.testing.assert_allclose(scores, np.mean([m.score(X) for m in model._members], axis=0), **CLOSE)


def test_losses_of_the_regression():
    X, y = rows_and_outcome()
    counts = fit(few(estimator=None, n_bags=2, max_order=1, loss="poisson"), X, np.round(np.exp(y / 4)))
    np.testing.assert_allclose(
        counts.predict(X), np.exp(np.mean([m.score(X)[:, 0] for m in counts._members], axis=0)), rtol=1e-12
    )
    assert counts.decomposition_.schema.link == "log"
    high = fit(few(estimator=None, n_bags=2, loss="quantile", quantile=0.9), X, y)
    assert np.mean(shifted(y) <= high.predict(shifted(X))) > 0.6  # of a mean it would be about a half


@pytest.mark.parametrize("order", [1, 3])
def test_orders_are_limited(order):
    X, y = rows_and_outcome()
    boosting = HistGradientBoostingRegressor(max_iter=10, early_stopping=False) if order == 3 else None
    model = fit(few(estimator=boosting, max_order=order), X, y + X.prod(axis=1))
    assert max(map(len, model.decomposition_)) == order
    np.testing.assert_allclose(
        model.predict(X), np.mean([m.score(X)[:, 0] for m in model._members], axis=0), rtol=0, atol=1e-10
    )


def test_weights_enter_the_density_as_repetitions():
    X, y = rows_and_outcome()
    weights = np.random.default_rng(2).integers(0, 4, len(y))
    model = fit(few(), X, y, sample_weight=weights)
    rows = np.repeat(shifted(X), weights, axis=0)
    fx = treeanova.mean([treeanova.decompose(m, rows, density="empirical") for m in model._members])
    assert model.decomposition_.intercept == pytest.approx(fx.intercept, abs=1e-10)
    for names, term in model.decomposition_.terms.items():
        np.testing.assert_allclose(term.values, fx.terms[names].values, rtol=0, atol=1e-9)


def test_rows_without_weight_are_left_out():
    X, y = rows_and_outcome()
    weights = (shifted(np.arange(len(y))) < 200).astype(float)
    others = np.arange(len(y)) >= 200
    one = fit(few(), X, y, sample_weight=weights)
    other = fit(few(), X + 100 * others[:, None], y - 50 * others, sample_weight=weights)
    assert one.decomposition_ == other.decomposition_


def test_standard_errors_are_those_of_the_jackknife(regressor):
    tables = [fx.terms for fx in regressor.bag_.members]
    errors = regressor.standard_errors()
    effect = regressor.bag_.values("x0")
    expected = np.sqrt(2 / 3 * ((effect - effect.mean(axis=0)) ** 2).sum(axis=0))
    np.testing.assert_allclose(errors["x0",], expected, rtol=1e-12)
    assert len(tables) == 3
    mean = np.mean(effect, axis=0)
    np.testing.assert_allclose(mean, regressor.decomposition_.terms["x0"].values, rtol=0, atol=1e-9)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost", "sklearn"])
def test_other_estimators(library):
    X, y = rows_and_outcome()
    if library == "sklearn":
        estimator = RandomForestRegressor(5, max_depth=2)
    else:
        module = pytest.importorskip(library)
        options = {
            "lightgbm": lambda: module.LGBMRegressor(n_estimators=40, max_depth=2, verbose=-1, n_jobs=1),
            "xgboost": lambda: module.XGBRegressor(n_estimators=40, max_depth=2, n_jobs=1),
            "catboost": lambda: module.CatBoostRegressor(
                iterations=40, depth=2, verbose=0, thread_count=1, allow_writing_files=False
            ),
        }
        estimator = options[library]()
    model = fit(few(estimator=estimator), X, y)
    members = [member.score(X)[:, 0] for member in model._members]
    np.testing.assert_allclose(model.predict(X), np.mean(members, axis=0), rtol=0, atol=1e-9)
    assert estimator.get_params() == clone(estimator).get_params()


def test_catboost_with_categories_is_refused():
    """Its estimators change their parameter `cat_features`, and scikit-learn does not clone such ones."""
    catboost = pytest.importorskip("catboost")
    X, y = rows_and_outcome()
    estimator = catboost.CatBoostRegressor(iterations=5, cat_features=[0], verbose=0, allow_writing_files=False)
    with pytest.raises(TypeError, match="scikit-learn can clone, got CatBoostRegressor; with CatBoost, leave out"):
        fit(few(estimator=estimator), X, y)


def test_copies_and_pickles(regressor, with_places):
    X, _ = rows_and_outcome()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(regressor)).predict(X), regressor.predict(X))
    table, _ = table_and_outcome()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(with_places)).predict(table), with_places.predict(table))
    with pytest.raises(NotFittedError):
        clone(regressor).predict(X)


def test_pipelines_and_searches():
    X, y = rows_and_outcome(120)
    pipeline = make_pipeline(StandardScaler(), AdditiveRegressor(n_bags=2, density="independent"))
    search = fit(GridSearchCV(pipeline, {"additiveregressor__max_order": [1, 2]}, cv=2), X, y)
    assert search.best_params_["additiveregressor__max_order"] in (1, 2)
    assert search.predict(X).shape == (120,)


def test_from_decomposition(regressor, classifier):
    X, y = rows_and_outcome()
    fx = regressor.decomposition_.select(order=1)
    again = AdditiveRegressor.from_decomposition(fx)
    np.testing.assert_array_equal(again.predict(X), fx.predict(X))
    assert again.score(X, y) < regressor.score(X, y)
    with pytest.raises(ValueError, match="take AdditiveClassifier"):
        AdditiveRegressor.from_decomposition(classifier.decomposition_)
    labels = AdditiveClassifier.from_decomposition(classifier.decomposition_)
    np.testing.assert_array_equal(labels.predict(X), classifier.predict(X))
    with pytest.raises(ValueError, match="take AdditiveRegressor"):
        AdditiveClassifier.from_decomposition(fx)


def test_refusals():
    X, y = rows_and_outcome()
    with pytest.raises(ValueError, match="at least two classes, got one"):
        fit(AdditiveClassifier(), X, np.ones(len(y)))
    with pytest.raises(ValueError, match="`X` must have a column at least, got a table of none"):
        fit(AdditiveRegressor(), pd.DataFrame(X)[[]], y)
    with pytest.raises(ValueError, match="`X` must have each column once, got 'a' twice"):
        fit(AdditiveRegressor(), pd.DataFrame(X[:, [0, 0]], columns=["a", "a"]), y)
    with pytest.raises(ValueError, match="`n_bags` must be"):
        fit(AdditiveRegressor(n_bags=1), X, y)
    for kind in (AdditiveRegressor, AdditiveClassifier):
        with pytest.raises(ValueError, match="`max_terms` must come with simplify=True, got 2; pass both"):
            fit(kind(max_terms=2), X, np.round(y) > 3 if kind is AdditiveClassifier else y)
        with pytest.raises(ValueError, match="`max_terms` must be a whole number from 0 on, got -1"):
            fit(kind(simplify=True, max_terms=-1), X, np.round(y) > 3 if kind is AdditiveClassifier else y)
    with pytest.raises(
        ValueError, match="`loss` must be left out with an `estimator`, which has its own, got 'poisson'"
    ):
        fit(few(loss="poisson"), X, np.abs(y))
    with pytest.raises(ValueError, match="AdditiveClassifier must have a model of its kind, got the link 'identity'"):
        fit(AdditiveClassifier(of_pairs(), n_bags=2), X, y > 3)
    with pytest.raises(ValueError, match="AdditiveRegressor must have a model of its kind, got the link 'logit'"):
        fit(AdditiveRegressor(of_pairs(HistGradientBoostingClassifier), n_bags=2), X, (y > 3).astype(float))
    dates = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=len(y))})
    with pytest.raises(TypeError, match="column 'day' must hold numbers or categories"):
        fit(AdditiveRegressor(), dates, y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers_of_forests_give_probabilities(n_classes):
    """Their terms add up to probabilities: without some, sums below 0 and above 1 are limited."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, (400, 4)).astype(float)
    strength = (X[:, 0] > 1) * 2 + (X[:, 1] > 1) * 2 + (X[:, 2] > 2) * (X[:, 3] > 2) * 3 - 3.5
    y = np.digitize(strength, [0, 2.5][: n_classes - 1])
    estimator = RandomForestClassifier(n_estimators=20, random_state=0)
    options = {"n_bags": 2, "max_order": 1, "density": "empirical", "recalibrate": False}
    with pytest.warns(ScoreWarning, match="`estimator` should be a model of log-odds, .* got probabilities"):
        model = fit(AdditiveClassifier(estimator, **options), X, y)
    score = model.decision_function(X)
    sums = np.column_stack([1 - score, score]) if n_classes == 2 else score
    assert sums.min() < 0
    found, is_inside = model.predict_proba(X), (sums >= 0).all(axis=1)
    assert found.min() >= 0
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_array_equal(found[is_inside], sums[is_inside])
    positive = np.maximum(sums, 0)
    np.testing.assert_allclose(found, positive / positive.sum(axis=1, keepdims=True), atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.classes_[sums.argmax(axis=1)])
    fx = model.decomposition_
    with pytest.warns(ScoreWarning, match=r"\d+ of 400 rows have sums of terms outside 0 to 1, from -"):
        np.testing.assert_allclose(fx.predict_proba(X), sums, atol=1e-12)  # exact, not limited
    assert fx.simplify(X, y, cv=2).notes == (
        "the score is a probability, not log-odds: sums of fewer terms may be below 0 or above 1",
    )


@pytest.fixture(scope="module")
def simplified():
    return fit(few(simplify=True), *rows_and_outcome())


def test_members_side_by_side_have_the_terms_that_each_has(regressor, simplified):
    """One decomposition of all members, an output each, against one decomposition per member."""
    forest = side_by_side(regressor._members)
    X = shifted(rows_and_outcome()[0])
    fx = treeanova.decompose(forest, X, density="empirical")
    whole, tables = mean_of_outputs(fx, regressor._members[0].schema)
    assert whole.intercept == pytest.approx(regressor.decomposition_.intercept, abs=1e-12)
    for names, term in regressor.decomposition_.terms.items():
        np.testing.assert_allclose(whole.terms[names].values, term.values, rtol=0, atol=1e-10)
        key = tuple(int(name[1:]) for name in names)
        np.testing.assert_allclose(tables[key][..., 0], regressor.bag_.values(names), rtol=0, atol=1e-9)


def test_a_simplified_model_is_judged_by_members_that_did_not_see_the_row(simplified):
    """The loss of the whole model, as the simplification states it, is that of the members on their held-out folds."""
    X, y = (shifted(one) for one in rows_and_outcome())
    folds = folds_of(None, len(y), 3, np.random.RandomState(shifted_seed(0)))
    each = [treeanova.decompose(member, X, density="empirical") for member in simplified._members]
    intercept = np.mean([fx.intercept for fx in each])
    terms = np.array([fx.explain(X).values.sum(axis=1) for fx in each])
    score = intercept + terms[folds, np.arange(len(y))]
    assert simplified.simplification_.model_loss == pytest.approx(np.mean((y - score) ** 2), rel=1e-9)
    assert simplified.decomposition_ == simplified.simplification_.chosen


def test_the_most_terms_and_the_explanation_of_a_simplified_model():
    X, y = rows_and_outcome()
    kinds = np.where(y > y.mean(), "yes", "no")
    model = fit(AdditiveClassifier(n_bags=3, density="empirical", simplify=True, max_terms=2), X, kinds)
    assert len(model.decomposition_) <= 2
    explanation = model.explain(X)
    total = explanation.intercept + explanation.values.sum(axis=1)
    np.testing.assert_allclose(total, model.decision_function(X), **CLOSE)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert fit(few(simplify=True), X[:60], y[:60]).simplification_ is None


_REASON = "folds are of rows: rows that are repeated come into different ones"


def _expected_failures(estimator):
    return {"check_sample_weight_equivalence_on_dense_data": _REASON}


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [AdditiveRegressor(n_bags=2), AdditiveClassifier(n_bags=2)], expected_failed_checks=_expected_failures
)
def test_the_conventions_of_scikit_learn(estimator, check):
    check(estimator)


def plain_rows(n_rows=200):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 2))
    return X, X[:, 0] + 0.3 * rng.normal(size=n_rows)


def small():
    return AdditiveRegressor(n_bags=2, simplify=False)


@pytest.mark.parametrize("factor", [5.0, 1e-5, 1 / 200])
def test_weights_have_no_scale(factor):
    X, y = plain_rows()
    ones, others = (fit(small(), X, y, sample_weight=np.full(len(y), weight)) for weight in (1.0, factor))
    assert len(others.decomposition_) > 0
    np.testing.assert_allclose(others.predict(X), ones.predict(X), rtol=0, atol=1e-12)


def test_a_constant_outcome_has_no_terms():
    X, _ = plain_rows()
    model = fit(AdditiveRegressor(n_bags=2), X, np.full(len(X), 3.0))
    assert len(model.decomposition_) == 0
    np.testing.assert_array_equal(model.predict(X), 3.0)


def test_a_limit_of_terms_is_not_broken_without_a_word():
    X, y = plain_rows()
    model = AdditiveRegressor(of_pairs(), n_bags=2, simplify=True, max_terms=0)
    with pytest.warns(ScoreWarning, match="simplify=True must have 100 rows or more, .*, got 60 rows: .* max_terms=0"):
        fit(model, X[:60], y[:60])
    assert len(model.decomposition_.terms) > 0


def test_a_decomposed_estimator_is_not_read(regressor):
    with pytest.raises(UnsupportedModelError, match="has a decomposition already; take its `decomposition_`"):
        treeanova.decompose(regressor, density="uniform")


@pytest.mark.parametrize("n_rows", [2, 3])
def test_too_few_rows_are_counted(n_rows):
    X, y = plain_rows()
    with pytest.raises(ValueError, match=f"at least 4 rows with weight, got {n_rows}; add rows"):
        fit(AdditiveRegressor(n_bags=2), X[:n_rows], y[:n_rows])
    fit(AdditiveRegressor(n_bags=2), X[:4], y[:4])


def test_outcomes_of_rows_without_weight_do_not_matter():
    X, y = plain_rows()
    has_weight = np.arange(len(y)) >= 5
    weights = shifted(has_weight.astype(float))
    model, other = (
        fit(small(), X, np.where(has_weight, y, of_none), sample_weight=weights) for of_none in (np.nan, 0.0)
    )
    assert np.isfinite(model.predict(X)).all()
    np.testing.assert_array_equal(model.predict(X), other.predict(X))


def test_a_column_without_values_is_like_a_constant_one():
    """Also one that has its only value in a fold that a member was not trained on."""
    X, y = rows_and_outcome(120)
    options = {"n_bags": 2, "density": "empirical"}
    with_zeros = np.column_stack([X, np.zeros(len(X))])
    expected = fit(AdditiveRegressor(**options), with_zeros, y).predict(with_zeros)
    for n_values in (0, 1):
        column = np.full(len(X), np.nan)
        column[:n_values] = 3.0
        model = fit(AdditiveRegressor(**options), np.column_stack([X, column]), y)
        np.testing.assert_allclose(model.predict(np.column_stack([X, column])), expected, atol=1e-9)
        np.testing.assert_allclose(model.predict(np.column_stack([X, np.ones(len(X))])), expected, atol=1e-9)
    nothing = fit(AdditiveRegressor(n_bags=2), np.full((120, 1), np.nan), y)
    assert not nothing.decomposition_.terms


def test_masked_values_are_missing_in_rows_and_refused_in_outcomes():
    X, y = plain_rows()
    mask = np.zeros(X.shape, dtype=bool)
    mask[:20, 0] = True
    masked, missing = np.ma.array(np.where(mask, 999.0, X), mask=mask), np.where(mask, np.nan, X)
    models = [fit(small(), rows, y) for rows in (masked, missing)]
    np.testing.assert_array_equal(models[0].predict(masked), models[1].predict(missing))
    for estimator, outcome in ((AdditiveRegressor(), y), (AdditiveClassifier(), y > 0)):
        with pytest.raises(ValueError, match=r"`y` must have no masked values, got \d+ of 200"):
            fit(estimator, X, np.ma.array(outcome, mask=mask[:, 0]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "quantile"}, "`quantile` must be from 0 to 1 for the loss 'quantile', got None"),
        ({"loss": "quantile", "quantile": 2.0}, "`quantile` must be from 0 to 1 for the loss 'quantile', got 2.0"),
        ({"quantile": 0.3}, "`quantile` must be left out for the loss 'squared_error', got 0.3"),
    ],
)
def test_a_quantile_goes_with_its_loss(options, message):
    with pytest.raises(ValueError, match=message):
        fit(AdditiveRegressor(**options), *plain_rows())


def test_outcomes_of_other_kinds_are_named():
    X, y = plain_rows()
    with pytest.raises(TypeError, match="`y` must hold real numbers, got datetime64"):
        fit(AdditiveRegressor(), X, np.datetime64("2020-01-01", "D") + np.arange(200))
    with pytest.raises(ValueError, match="Complex data not supported"):  # by scikit-learn
        fit(AdditiveRegressor(), X, y + 1j)
    with pytest.raises(TypeError, match="`y` must hold labels of one type, got int and str"):
        fit(AdditiveClassifier(), X, np.array([1, "a"] * 100, dtype=object))
    with pytest.raises(ValueError, match="got one class, 'common'; add rows"):
        fit(AdditiveClassifier(), X, np.array(["common"] * 200))


def test_standard_errors_need_the_members_of_a_bag():
    model = fit(AdditiveRegressor(n_bags=2), *plain_rows())
    of_tables = AdditiveRegressor.from_decomposition(model.decomposition_)
    with pytest.raises(NotFittedError, match="got an estimator that was made from a decomposition; call fit"):
        of_tables.standard_errors()
    with pytest.raises(NotFittedError, match="not fitted yet"):
        AdditiveRegressor().standard_errors()


@pytest.mark.parametrize("kind", ["squared_error", "log_loss", "multiclass"])
def test_the_loss_of_truncated_members_is_that_which_stops_boosting(kind):
    """Against the validation loss of histogram boosting, at the scores of a whole member."""
    X, y = rows_and_outcome()
    classes = {
        "squared_error": y,
        "log_loss": (y > y.mean()) * 1,
        "multiclass": np.digitize(y, np.quantile(y, [0.3, 0.6])),
    }
    target, is_number = classes[kind], kind == "squared_error"
    boosting = HistGradientBoostingRegressor if is_number else HistGradientBoostingClassifier
    options = {"early_stopping": True, "scoring": "loss", "max_iter": 7, "n_iter_no_change": 7}
    folds = np.arange(len(target)) % 4
    rows = _members.Outcomes(shifted(X), shifted(target), None)
    member = _members._fitted(boosting(**options), rows, folds, 0, 0)
    score = member.predict(rows.X[::4]) if is_number else member.decision_function(rows.X[::4])
    loss = _members._loss_of(member, score, rows.at(np.flatnonzero(folds == 0)))
    assert loss == pytest.approx(_members.Trained(member, ()).best_loss, rel=1e-9)


@pytest.mark.parametrize(("lost", "is_of_pairs"), [(0.0, False), (1e9, True)])
def test_trees_of_pairs_train_the_members_where_others_lose_much_above_order_two(monkeypatch, lost, is_of_pairs):
    """Free trees fit a product of three numbers that trees of pairs cannot; what they lose is prescribed."""
    rng = np.random.default_rng(3)
    X = shifted(np.sign(rng.normal(size=(400, 3))))
    y = X.prod(axis=1)
    monkeypatch.setattr(_members, "_LEAST_ROWS_OF_PAIRS", 0)
    monkeypatch.setattr(_members, "_loss_of", lambda *_: lost)
    model = fit(AdditiveRegressor(n_bags=2, recalibrate=False, density="empirical"), X, y)
    depths = [len(np.unique(leaf[leaf >= 0])) for member in model._members for leaf in features_on_paths(member)]
    assert (max(depths) <= 2) is is_of_pairs


def features_on_paths(forest):
    """The features on the path to each leaf, -1 elsewhere."""
    paths, stack = [], [(root, ()) for root in forest.roots]
    while stack:
        node, path = stack.pop()
        if forest.feature[node] < 0:
            paths.append(np.array([*path, -1]))
        else:
            stack += [(child, (*path, forest.feature[node])) for child in (forest.left[node], forest.right[node])]
    return paths


def test_members_of_few_random_cuts_predict_as_histogram_boosting_does(monkeypatch):
    """Against the predictions of the members that scikit-learn trained, at rows on their cuts and next to them."""
    monkeypatch.setattr(_members, "CONTENDERS", _members.CONTENDERS[-1:])
    trained = []
    train = _members._Race.members
    monkeypatch.setattr(_members._Race, "members", lambda race: trained.append(train(race)) or trained[-1])
    X = np.random.default_rng(0).normal(size=(240, 3))
    model = fit(AdditiveRegressor(n_bags=2, random_state=0), X, X[:, 0] + X[:, 1])
    (members,) = trained
    for member, forest in zip(members, model._members, strict=True):
        cuts = [column.cuts for column in member.columns]
        assert max(map(len, cuts)) <= 12
        at_cuts = np.column_stack([np.resize(np.concatenate([some, np.nextafter(some, np.inf)]), 30) for some in cuts])
        codes = np.column_stack([np.searchsorted(some, at_cuts[:, j]) for j, some in enumerate(cuts)])
        np.testing.assert_allclose(
            forest.score(Rows.of(at_cuts, forest.schema))[:, 0], member.model.predict(codes), rtol=1e-12
        )


def test_coarser_columns_keep_some_cuts():
    column = _members.Column(0, np.arange(20.0))
    coarse = column.coarser(5, np.random.RandomState(0))
    assert len(coarse.cuts) == 5
    assert set(coarse.cuts) < set(column.cuts)
    assert column.coarser(20, np.random.RandomState(0)) is column
