"""Accuracy beside other models: losses and measures of scikit-learn, errors by the jackknife, refused responses."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import treeanova
from tests.support.cards import REGIONS, people, tables_of_people
from tests.support.training import shifted
from treeanova.decomposition.held_out import held_out, outcome_of, questions_of
from treeanova.report.accuracy import accuracy_of, measure_of

metrics = pytest.importorskip("sklearn.metrics")
linear_model = pytest.importorskip("sklearn.linear_model")
ensemble = pytest.importorskip("sklearn.ensemble")
selection = pytest.importorskip("sklearn.model_selection")
pd = pytest.importorskip("pandas")

X = people(300)
RNG = np.random.default_rng(1)
CLASSES = ("no", "yes")


def judged(fx, y, rows=X, **options):
    given = {"beside": {}, "baselines": None, "loss": None, "group": None, "sample_weight": None}
    return accuracy_of(fx, rows, y, **given | options)


def by_name(accuracy):
    return {entry.model: entry for entry in accuracy.entries}


@pytest.fixture(scope="module")
def credit():
    """A model of log-odds, and outcomes drawn from it."""
    fx = treeanova.decompose(tables_of_people("logit", "log", CLASSES), people(500, seed=2))
    return fx, np.where(RNG.random(300) < fx.predict_response(X), "yes", "no")


@pytest.fixture(scope="module")
def prices():
    """A regression, and outcomes with noise."""
    fx = treeanova.decompose(tables_of_people("identity", "squared"), people(500, seed=2))
    return fx, fx.predict(X) + RNG.normal(size=300)


@pytest.mark.parametrize("weights", [None, RNG.integers(0, 4, 300).astype(float)])
def test_losses_and_areas_under_curves_are_those_of_scikit_learn(credit, weights):
    fx, y = credit
    share = RNG.uniform(0.01, 0.99, 300).round(2)  # with ties
    found = by_name(judged(fx, y, beside={"other": share}, sample_weight=weights))
    for name, response in {"this model": fx.predict_response(X), "other": share}.items():
        assert found[name].loss == pytest.approx(metrics.log_loss(y, response, sample_weight=weights))
        assert found[name].measure == pytest.approx(metrics.roc_auc_score(y, response, sample_weight=weights))
    difference = found["other"].loss - found["this model"].loss
    assert found["other"].loss_difference.value == pytest.approx(difference)
    rate = np.average(y == "yes", weights=weights)
    constant = metrics.log_loss(y, np.full(300, rate), sample_weight=weights)
    assert found["best constant here"].loss == pytest.approx(constant)


def test_squares_are_those_of_scikit_learn(prices):
    fx, y = prices
    other = y + RNG.normal(size=300)
    accuracy = judged(fx, y, beside={"other": other})
    found = by_name(accuracy)
    assert (accuracy.loss, accuracy.measure, accuracy.n_rows) == ("squared error", "R²", 300)
    assert found["other"].loss == pytest.approx(metrics.mean_squared_error(y, other))
    assert found["other"].measure == pytest.approx(metrics.r2_score(y, other))
    gaps = (y - other) ** 2 - (y - fx.predict(X)) ** 2
    assert found["other"].loss_difference == pytest.approx((gaps.mean(), gaps.std(ddof=1) / np.sqrt(300)))


def test_several_classes_are_judged_together():
    fx = treeanova.decompose(tables_of_people("softmax", "multiclass", ("u", "v", "w")), people(500, seed=2))
    response = fx.predict_proba(X)
    y = np.array(["u", "v", "w"])[(response.cumsum(axis=1) < RNG.random((300, 1))).sum(axis=1)]
    other = RNG.dirichlet(np.ones(3), 300)
    found = by_name(judged(fx, y, beside={"other": other}))
    assert found["other"].loss == pytest.approx(metrics.log_loss(y, other))
    assert found["other"].measure == pytest.approx(np.mean(np.array(["u", "v", "w"])[other.argmax(axis=1)] == y))
    assert found["this model"].measure == pytest.approx(metrics.accuracy_score(y, fx.predict(X)))


def test_means_of_counts_are_judged_on_their_own_scale():
    fx = treeanova.decompose(tables_of_people("log", "poisson"), people(500, seed=2))
    y = RNG.poisson(fx.predict(X))
    other = RNG.uniform(0.5, 2, 300)
    found = by_name(judged(fx, y, beside={"other": other}))
    assert 2 * found["other"].loss == pytest.approx(metrics.mean_poisson_deviance(y, other))
    assert found["this model"].measure == pytest.approx(metrics.r2_score(y, fx.predict(X)))


def test_quantiles_are_judged_by_the_outcomes_below():
    fx = treeanova.decompose(tables_of_people("identity", "pinball:0.9"), people(500, seed=2))
    y = fx.predict(X) + RNG.normal(size=300)
    accuracy = judged(fx, y)
    assert accuracy.measure == "outcomes below"
    assert accuracy.entries[0].measure == np.mean(y <= fx.predict(X))
    assert accuracy.entries[0].loss == pytest.approx(metrics.mean_pinball_loss(y, fx.predict(X), alpha=0.9))


@pytest.mark.parametrize("link", ["logit", "identity", "softmax"])
def test_errors_of_measures_are_those_of_the_jackknife(link):
    objective = {"logit": "log", "identity": "squared", "softmax": "multiclass"}[link]
    classes = {"logit": CLASSES, "identity": (), "softmax": ("u", "v", "w")}[link]
    fx = treeanova.decompose(tables_of_people(link, objective, classes), people(500, seed=2))
    n_outputs = len(fx.outputs)
    y = RNG.choice(classes, 300) if classes else fx.predict(X) + 0.3 * RNG.normal(size=300)
    (question,) = questions_of(fx.schema, None)
    outcome = outcome_of(fx.schema, question, y, 300)
    scores = [
        np.asarray(fx.decision_function(X)).reshape(300, -1),
        RNG.normal(size=(300, n_outputs)) if classes else np.zeros((300, 1)),
    ]

    def difference(rows):
        held = [held_out(question, score[rows], outcome[rows], np.ones(len(rows)), None) for score in scores]
        first, second = (measure_of(fx.schema, one)[1] for one in held)
        return second - first

    everyone = np.arange(300)
    left_out = np.array([difference(np.delete(everyone, i)).value for i in everyone])
    jackknife = np.sqrt(299 / 300 * ((left_out - left_out.mean()) ** 2).sum())
    assert difference(everyone).error == pytest.approx(jackknife, rel=0.02)


def test_fitted_models_are_asked_for_probabilities_in_the_order_of_their_classes(credit):
    fx, y = credit
    numbers = X[["age"]].fillna(0)

    class OfAge:
        classes_ = np.array(["yes", "no"])

        def predict_proba(self, rows):
            share = scipy.special.expit(rows["age"].fillna(0).to_numpy() / 60)
            return np.column_stack([share, 1 - share])

    share = scipy.special.expit(numbers["age"].to_numpy() / 60)
    found = by_name(judged(fx, y, beside={"of age": OfAge(), "itself": fx}))
    assert found["of age"].loss == pytest.approx(metrics.log_loss(y, share))
    assert found["itself"].loss_difference == (0, 0)


def test_certain_probabilities_are_moved_inwards_and_said(credit):
    fx, y = credit
    share = np.where(np.arange(300) < 3, np.arange(300) % 2, 0.5).astype(float)
    accuracy = judged(fx, y, beside={"forest": share})
    assert by_name(accuracy)["forest"].loss == pytest.approx(metrics.log_loss(y, share))
    assert accuracy.notes == ("forest: probabilities of 0 or 1, at 3 rows, count as 2e-16 away from these.",)


def test_edits_are_judged_against_what_was_before_them(prices):
    fx, y = prices
    edited = fx.scale("age", 0.5).cap("region", high=0.3)
    accuracy = judged(edited, y, beside={"original": fx})
    assert [entry.model for entry in accuracy.entries][:2] == ["this model", "original (before the edits)"]
    gaps = edited.predict(X) - fx.predict(X)
    expected = np.sqrt(np.mean(gaps**2)), np.abs(gaps).max(), metrics.r2_score(fx.predict(X), edited.predict(X))
    assert accuracy.distance[1:] == pytest.approx(expected)
    assert "before the edits" in by_name(judged(edited, y))
    moved = edited.with_density("uniform")  # which cannot be undone
    assert judged(moved, y).distance is None
    again = judged(moved.scale("age", 0.5), y)
    assert again.entries[1].model == again.distance.before == "before the last edit"
    assert again.entries[1].loss == pytest.approx(metrics.mean_squared_error(y, moved.predict(X)))
    assert "before the edits" not in by_name(judged(moved, y))


class Labelled:
    """A classifier without probabilities."""

    classes_ = np.array(CLASSES)

    def predict(self, rows):
        return np.zeros(len(rows))


class Strange(Labelled):
    """One of other classes."""

    classes_ = np.array(["a", "b"])

    def predict_proba(self, rows):
        return np.full((len(rows), 2), 0.5)


REFUSED = {
    "shape": (
        "logit",
        np.full(299, 0.5),
        ValueError,
        r"1 outputs for each of the 300 rows, got \(299, 1\) from 'other'",
    ),
    "finite": ("identity", np.full(300, np.nan), ValueError, "must have finite responses"),
    "share": ("logit", np.full(300, 1.2), ValueError, "responses from 0 to 1, as this model's loss needs, got 1.2"),
    "mean": ("log", np.zeros(300), ValueError, "responses above zero, as this model's loss needs, got 0 to 0"),
    "labels": ("logit", Labelled(), TypeError, "Labelled without predict_proba for 'other'; wrap it"),
    "classes": ("logit", Strange(), ValueError, "classes of this model, 'no', 'yes', got 'a', 'b' from 'other'"),
    "unfitted": ("identity", linear_model.LinearRegression, TypeError, "fit it first"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_responses_that_cannot_be_judged_are_refused(case):
    link, other, kind, words = REFUSED[case]
    objective = {"logit": "log", "identity": "squared", "log": "poisson"}[link]
    fx = treeanova.decompose(tables_of_people(link, objective, CLASSES if link == "logit" else ()), people(500, seed=2))
    y = np.array(CLASSES * 150) if link == "logit" else np.arange(300.0)
    with pytest.raises(kind, match=words):
        judged(fx, y, beside={"other": other})


# Baselines


def with_columns(rows, mean, spread):
    """Missing ages, ages of mean 0 and variance 1, and a column per region, as scikit-learn transforms them."""
    age = ((rows["age"] - mean) / spread).fillna(0.0)
    regions = [(rows["region"] == name).astype(float) for name in REGIONS]
    return np.column_stack([rows["age"].isna(), age, *regions])


LINEAR = {
    "identity": ("linear regression", linear_model.LinearRegression(), "neg_mean_squared_error"),
    "logit": ("logistic regression", linear_model.LogisticRegression(max_iter=1000), "neg_log_loss"),
    "log": (
        "Poisson regression",
        linear_model.PoissonRegressor(alpha=1e-6, max_iter=1000),
        "neg_mean_poisson_deviance",
    ),
}
OBJECTIVES = {"identity": "squared", "logit": "log", "log": "poisson"}


def boosting(link):
    kind = ensemble.HistGradientBoostingClassifier if link == "logit" else ensemble.HistGradientBoostingRegressor
    options = {"max_depth": 2, "max_iter": 3000, "early_stopping": True, "n_iter_no_change": 40, "random_state": 0}
    return kind(categorical_features="from_dtype", **options, **({"loss": "poisson"} if link == "log" else {}))


@pytest.mark.parametrize("link", [pytest.param("identity", marks=pytest.mark.thorough), "logit", "log"])
def test_baselines_are_those_that_scikit_learn_fits(link):
    fx = treeanova.decompose(
        tables_of_people(link, OBJECTIVES[link], CLASSES if link == "logit" else ()), people(500, seed=2)
    )
    train = shifted(people(400, seed=3))
    rows, mean = pd.concat([train, X], ignore_index=True), fx.predict_response(train)
    y = {"identity": mean, "logit": np.where(mean > 0.5, "yes", "no"), "log": np.arange(400) % 5}[link]
    y_test = {"identity": X["age"].fillna(0), "logit": np.array(CLASSES * 150), "log": np.arange(300) % 4}[link]
    accuracy = judged(fx, np.asarray(y_test), baselines=(train, y))
    name, linear, score = LINEAR[link]
    designs = {
        name: (linear, with_columns(rows, train["age"].mean(), train["age"].std(ddof=0))),
        "boosted trees of depth 2": (
            boosting(link),
            rows.assign(region=pd.Categorical(rows["region"], sorted(REGIONS))),
        ),
    }
    split, outcomes = [(np.arange(400), np.arange(400, 700))], np.concatenate([y, y_test])
    for label, (model, columns) in designs.items():
        found = selection.cross_validate(
            model, columns, outcomes, cv=split, scoring=score, return_estimator=True, error_score="raise"
        )
        expected = -found["test_score"][0] / (2 if link == "log" else 1)  # half the deviance
        assert by_name(accuracy)[label].loss == pytest.approx(expected, rel=1e-4), label
    assert f"{found['estimator'][0].n_iter_:,} boosted trees of depth 2" in accuracy.notes[-1]
    assert "to 400 rows" in accuracy.notes[-1]


def test_baselines_take_weights_and_classes_without_rows():
    fx = treeanova.decompose(tables_of_people("softmax", "multiclass", ("u", "v", "w")), people(500, seed=2))
    y_test, y = np.array(["u", "v", "w"] * 100), np.array(["u", "w"] * 200)
    weights = np.where(y == "u", 3.0, 1.0)
    found = by_name(judged(fx, y_test, baselines=(people(400, seed=3), y, weights)))
    loss = found["logistic regression"].loss  # rows of v count as 2e-16 away from 0
    assert loss == pytest.approx(-np.log(2.2e-16) / 3, rel=0.1)


@pytest.mark.parametrize(
    ("objective", "training", "kind", "words"),
    [
        ("pinball:0.9", (X, np.arange(300.0)), ValueError, "got pinball loss at 0.9; fit models to compare with"),
        ("squared", X, TypeError, r"\(X, y\) or \(X, y, sample_weight\) of training, got DataFrame"),
        ("squared", (X,), TypeError, "got 1 entries"),
    ],
)
def test_baselines_that_cannot_be_fitted_are_refused(objective, training, kind, words):
    fx = treeanova.decompose(tables_of_people("identity", objective), people(500, seed=2))
    with pytest.raises(kind, match=words):
        judged(fx, np.arange(300.0), baselines=training)
