"""Validation: losses, errors and shares by brute force on rows with the model's own predictions, for all libraries."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.stats

import treeanova
from tests.support.library_models import LIBRARY_MODELS
from tests.support.simulated import boosted, dependent_rows, interacting
from tests.support.training import fit
from treeanova.decomposition.validation import holm


def library(name):
    made = LIBRARY_MODELS[name]
    for needed in made.libraries:
        pytest.importorskip(needed)
    return made.make()


def own_score(fx, rows):
    """What the library itself predicts, with an axis of outputs."""
    score = fx.model.predict(rows, output_margin=True) if "xgboost" in type(fx.model).__module__ else None
    if score is None and hasattr(fx.model, "predict_proba"):
        score = fx.model.decision_function(rows)
    return np.asarray(fx.model.predict(rows) if score is None else score, dtype=np.float64).reshape(len(rows), -1)


def by_term(table, name):
    return {row["term"]: row[name] for row in table.to_dict("records")}


REGRESSIONS = sorted(name for name in LIBRARY_MODELS if name not in {"multiclass", "two targets"})


@pytest.mark.parametrize("name", REGRESSIONS)
def test_losses_are_those_of_predictions(name):
    """Exact for the score of the trees that were read, and within float32 for the library's own predictions."""
    fx, rows = library(name)
    score = fx.decision_function(rows)
    y = score + np.random.default_rng(0).normal(size=len(rows))
    validation = fx.validate(rows, y)
    assert validation.model_loss == pytest.approx(np.mean((y - own_score(fx, rows)[:, 0]) ** 2), rel=1e-6)
    assert validation.model_loss == pytest.approx(np.mean((y - score) ** 2), rel=1e-10)
    assert validation.constant_loss == pytest.approx(np.var(y))
    explained = fx.explain(rows)
    tables = {column: by_term(validation.table, column) for column in ("loss_change", "error", "share", "model_share")}
    for label, term in explained.parts.items():
        change = (y - score + term) ** 2 - (y - score) ** 2
        assert tables["loss_change"][label] == pytest.approx(change.mean(), abs=1e-10)
        assert tables["error"][label] == pytest.approx(scipy.stats.sem(change), abs=1e-10)
        assert tables["share"][label] == pytest.approx(np.cov(term, y)[0, 1] / np.var(y, ddof=1), abs=1e-10)
        assert tables["model_share"][label] == pytest.approx(
            np.cov(term, score)[0, 1] / np.var(score, ddof=1), abs=1e-10
        )
    assert sum(tables["model_share"].values()) == pytest.approx(1, abs=1e-10)


def test_terms_at_rows_rests_and_remainders_are_rows_too():
    pytest.importorskip("xgboost")
    from tests.support.simulated import deep_decomposition, high_order_rows

    fx = deep_decomposition()
    x, y = high_order_rows(n_rows=300, seed=9)
    table = fx.validate(x, y + np.random.default_rng(0).normal(size=300)).table
    assert len(table) == len(fx.terms) + len(fx._function.unlisted_orders)
    shares = table["model_share"].sum()
    assert shares == pytest.approx(1, abs=1e-6)
    short = fx.truncate(2).validate(x, y).table
    score = fx.model.predict(x).astype(np.float64)
    rest = fx.truncate(2).remainder(x)
    change = (y - score + rest) ** 2 - (y - score) ** 2
    assert by_term(short, "loss_change")["remainder"] == pytest.approx(change.mean(), rel=1e-5)
    assert by_term(short, "order")["remainder"] == 3


def test_a_classifier_has_log_loss():
    ensemble, metrics = pytest.importorskip("sklearn.ensemble"), pytest.importorskip("sklearn.metrics")
    rows, more = dependent_rows(), dependent_rows(500, seed=1)
    labels = np.where(interacting(rows) > 0, "yes", "no")
    model = fit(ensemble.GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0), rows, labels)
    fx = treeanova.decompose(model, rows, density="empirical")
    y = np.where(interacting(more) + np.random.default_rng(1).normal(size=500) > 0, "yes", "no")
    validation = fx.validate(more, y)
    assert validation.loss == "log loss"
    assert validation.model_loss == pytest.approx(metrics.log_loss(y, model.predict_proba(more)))
    constant = np.tile([np.mean(y == "no"), np.mean(y == "yes")], (500, 1))
    assert validation.constant_loss == pytest.approx(metrics.log_loss(y, constant))
    without = 1 / (1 + np.exp(-model.decision_function(more) + fx.term_values(more, "x0")))
    change = metrics.log_loss(y, without) - validation.model_loss
    assert by_term(validation.table, "loss_change")["x0"] == pytest.approx(change)
    line = scipy.stats.linregress(model.decision_function(more), y == "yes")
    assert validation.table["share"].sum() == pytest.approx(line.rvalue**2)


def test_classes_are_judged_together(several, classifier):
    metrics = pytest.importorskip("sklearn.metrics")
    rows = dependent_rows(200, seed=3)
    y = np.array(list("uvw"))[np.digitize(interacting(rows) + np.random.default_rng(0).normal(size=200), [-0.5, 0.5])]
    validation = several.validate(rows, y)
    assert validation.model_loss == pytest.approx(metrics.log_loss(y, classifier.predict_proba(rows)))
    assert "output" not in validation.table
    scores = several.decision_function(rows) - several.term_values(rows, "x0")
    without = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    change = metrics.log_loss(y, without) - validation.model_loss
    assert by_term(validation.table, "loss_change")["x0"] == pytest.approx(change)


def test_a_forest_of_classes_has_the_brier_score():
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows = dependent_rows()
    y = np.digitize(interacting(rows), [-0.5, 0.5])
    model = fit(ensemble.RandomForestClassifier(5, max_depth=2, random_state=0), rows, y)
    validation = treeanova.decompose(model, rows, density="empirical").validate(rows, y)
    brier = ((model.predict_proba(rows) - np.eye(3)[y]) ** 2).sum(axis=1).mean()
    assert (validation.loss, validation.model_loss) == ("Brier score", pytest.approx(brier))


def test_counts_have_the_poisson_loss():
    ensemble, metrics = pytest.importorskip("sklearn.ensemble"), pytest.importorskip("sklearn.metrics")
    rows = dependent_rows(400)
    y = np.random.default_rng(0).poisson(np.exp(0.5 * rows[:, 0]))
    model = fit(ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=10, max_depth=2), rows, y)
    fx = treeanova.decompose(model, rows, density="empirical")
    validation = fx.validate(rows, y)
    without = np.exp(fx.decision_function(rows) - fx.term_values(rows, "x0"))
    deviances = [metrics.mean_poisson_deviance(y, mean) for mean in (without, model.predict(rows))]
    assert validation.model_loss == pytest.approx(deviances[1] / 2, rel=1e-5)
    change = (deviances[0] - deviances[1]) / 2
    assert by_term(validation.table, "loss_change")["x0"] == pytest.approx(change, rel=1e-5)


def test_several_targets_have_rows_of_their_own():
    fx, rows = library("two targets")
    y = rows[:, :2] ** 2
    validation = fx.validate(rows, y)
    assert np.allclose(validation.model_loss, ((fx.model.predict(rows) - y) ** 2).mean(axis=0))
    assert set(validation.table["output"]) == set(fx.outputs)
    assert len(validation.table) == 2 * len(fx.terms)


def test_whole_weights_are_repeated_rows(fx):
    rng = np.random.default_rng(0)
    rows = dependent_rows(200, seed=5)
    y = interacting(rows) + rng.normal(size=200)
    weights = rng.integers(1, 4, 200)
    weighted = fx.validate(rows, y, sample_weight=weights).table.set_index("term")
    repeated = fx.validate(np.repeat(rows, weights, axis=0), np.repeat(y, weights)).table.set_index("term")
    for column in ("loss_change", "slope", "share", "model_share"):
        assert weighted[column].to_dict() == pytest.approx(repeated[column].to_dict(), rel=1e-6)


def padded(rows, y, group=None):
    """Rows of weight zero before, between and after others, with outcomes that would be refused; and the weights."""
    n_rows = len(y)
    places, weights = 3 * np.arange(n_rows) + 1, np.zeros(3 * n_rows)
    weights[places] = np.random.default_rng(0).uniform(0.5, 2, n_rows) if group is None else 2.0
    more = np.full((3 * n_rows, rows.shape[1]), 0.5), np.full(3 * n_rows, np.nan)
    more[0][places], more[1][places] = rows, y
    groups = None if group is None else np.repeat(group, 3)
    return more[0], more[1], weights, weights[places], groups


@pytest.mark.parametrize("loss", ["squared", "cox", "pairwise", lambda score, y: (score - y) ** 2])
@pytest.mark.parametrize("n_rows", [60, 500])
def test_rows_of_weight_zero_are_left_out(fx, loss, n_rows):
    rows = dependent_rows(n_rows, seed=5)
    y = interacting(rows) + np.random.default_rng(1).normal(size=n_rows)
    y = np.abs(y) + 0.1 if loss == "cox" else y
    group = np.arange(n_rows) // 2 if loss == "pairwise" else None
    everywhere, outcome, weights, own, groups = padded(rows, y, group)
    padded_answer = fx.validate(everywhere, outcome, loss=loss, sample_weight=weights, group=groups)
    alone = fx.validate(rows, y, loss=loss, sample_weight=own, group=group)
    assert str(padded_answer) == str(alone)
    assert padded_answer.table.equals(alone.table)
    assert padded_answer.n_rows == n_rows


def test_rows_of_weight_zero_do_not_make_enough_rows(fx):
    rows = dependent_rows()
    for negligible in (0.0, 1e-13):
        weights = np.where(np.arange(300) < 5, 1.0, negligible)
        with pytest.raises(ValueError, match="`X` must have at least 30 rows for standard errors, got 5"):
            fx.validate(rows, interacting(rows), sample_weight=weights)


def test_noise_is_named_and_truth_is_significant():
    pytest.importorskip("sklearn")
    rows, more = dependent_rows(1000, seed=2), dependent_rows(2000, seed=3)
    rng = np.random.default_rng(4)

    def truth(x):
        return 2 * x[:, 2] + 1.5 * x[:, 0] * x[:, 1]

    fx = treeanova.decompose(boosted(rows, truth(rows) + rng.normal(size=1000) * 2, n_trees=60), rows)
    validation = fx.validate(more, truth(more) + rng.normal(size=2000) * 2)
    assert {"x2", "x0 × x1"} <= set(validation.significant)
    assert "x0 × x1" not in validation.dispensable
    assert set(validation.dispensable) <= {"x0 × x2", "x1 × x2"}
    words = str(validation)
    assert words.index("How much worse is the loss without the term?") < words.index("Does the outcome follow the term")
    assert "(Holm)" in words
    table = validation.table
    assert list(table["loss_change"]) == sorted(table["loss_change"], reverse=True)


def test_holm_is_the_textbooks():
    p = np.array([0.01, 0.04, 0.03, 0.005, 0.8])
    for level in (0.02, 0.03, 0.05, 0.09, 0.2):
        rejected = set()
        for step, i in enumerate(np.argsort(p)):
            if p[i] > level / (len(p) - step):
                break
            rejected.add(int(i))
        assert set(np.flatnonzero(holm(p) <= level)) == rejected
    assert holm([]).tolist() == []
    assert holm([0.01, np.nan, 0.03]) == pytest.approx([0.02, np.nan, 0.03], nan_ok=True)


def test_tables_are_in_the_library_of_the_data():
    polars = pytest.importorskip("polars")
    rows = dependent_rows()
    frame = polars.DataFrame(rows, schema=["x0", "x1", "x2"])
    fx = treeanova.decompose(boosted(rows, interacting(rows)), frame, density="empirical")
    assert isinstance(fx.validate(frame, polars.Series(interacting(rows))).table, polars.DataFrame)


def test_bad_input_is_refused(fx):
    rows = dependent_rows()
    y = interacting(rows)
    with pytest.raises(ValueError, match="`y` must have one entry per row of `X`, 300, got 299"):
        fx.validate(rows, y[1:])
    with pytest.raises(ValueError, match="`X` must have at least 30 rows for standard errors, got 29"):
        fx.validate(rows[:29], y[:29])
    with pytest.raises(ValueError, match="`sample_weight` must have one entry per row, 300"):
        fx.validate(rows, y, sample_weight=np.ones(3))
    with pytest.raises(ValueError, match="`group` must have one entry per row of `X`, 300, got 3; pass the group of"):
        fx.validate(rows, y, loss="pairwise", group=[5, 5, 7])
    with pytest.raises(
        TypeError, match=r"`group` must have one entry per row of `X`, got 'q'; pass the column, as X\['q'"
    ):
        fx.validate(rows, y, loss="pairwise", group="q")
    with pytest.raises(TypeError, match="`sample_weight` must hold numbers here, got 'w'; pass the column itself"):
        fx.validate(rows, y, sample_weight="w")
    with pytest.raises(ValueError, match="`y` must be finite, got 1"):
        fx.validate(rows, np.where(np.arange(300) == 7, np.nan, y))


# The loss is that of the model's objective.


def written_down(objective, link="identity", *, copies=False):
    """A decomposition of sign(a) + sign(b) / 10 with an objective; with copies, of twice sign(a), by two features."""
    effects = {"a": [-1.0, 1.0], "b": [-0.1, 0.1]} | ({"copy of a": [-1.0, 1.0]} if copies else {})
    model = treeanova.model.Effects.from_tables(effects, thresholds={name: [0.0] for name in effects}, link=link)
    model = model.with_schema(dataclasses.replace(model.schema, objective=objective))
    x = np.random.default_rng(0).normal(size=(2000, 2))
    x = np.column_stack([x, x[:, 0]]) if copies else x
    return treeanova.decompose(model, x, density="empirical"), x


def outcome_of(objective, x, rng):
    """Outcomes that follow the sign of a only, by the distribution of the objective."""
    score = np.where(x[:, 0] > 0, 1.0, -1.0)
    if objective == "cox":
        time = rng.exponential(size=len(x)) * np.exp(-score)
        return np.where(rng.random(len(x)) < 0.6, time, -time)
    if objective.startswith("aft"):
        time = np.exp(score + rng.normal(size=len(x)))
        return np.column_stack([time, np.where(rng.random(len(x)) < 0.6, time, np.inf)])
    if objective in {"poisson", "gamma", "tweedie:1.5"}:
        return rng.gamma(2, np.exp(score) / 2)
    if objective == "squared of log":
        return np.exp(score + rng.normal(size=len(x)))
    if objective == "pinball:0.9":
        return score + rng.exponential(size=len(x)) - np.log(10)  # the quantile is the score
    return score + rng.normal(size=len(x))


OBJECTIVES = [
    ("cox", "log"),
    ("aft:normal:1", "log"),
    ("poisson", "log"),
    ("gamma", "log"),
    ("tweedie:1.5", "log"),
    ("squared of log", "log"),
    ("pinball:0.9", "identity"),
    ("absolute", "identity"),
    ("huber:1", "identity"),
    ("squared", "identity"),
    ("pairwise", "identity"),
]


@pytest.mark.parametrize(("objective", "link"), OBJECTIVES)
def test_a_term_that_is_real_is_significant_under_its_own_objective(objective, link):
    """Also for hazards and quantiles, which the loss of the link would judge as means."""
    fx, x = written_down(objective, link)
    y = outcome_of(objective, x, np.random.default_rng(1))
    group = np.arange(2000) // 10 if objective == "pairwise" else None
    validation = fx.validate(x, y, group=group)
    table = validation.table.set_index("term")
    assert validation.significant[0] == "a"
    assert table["loss_change"]["a"] > 5 * table["error"]["a"]
    assert table["slope"]["a"] == pytest.approx(1, abs=0.25)
    assert table["p_value"]["b"] > 1e-4
    assert validation.model_loss < validation.constant_loss


def test_prices_are_judged_on_the_scale_of_their_logarithm():
    fx, x = written_down("squared of log", "log")
    y = outcome_of("squared of log", x, np.random.default_rng(1))
    validation = fx.validate(x, y)
    assert validation.loss == "squared error of log(y)"
    assert validation.model_loss == pytest.approx(np.mean((np.log(y) - fx.decision_function(x)) ** 2))
    assert validation.constant_loss == pytest.approx(np.var(np.log(y)))


def test_a_saved_decomposition_keeps_the_objective(tmp_path):
    fx, x = written_down("pinball:0.9")
    y = outcome_of("pinball:0.9", x, np.random.default_rng(1))
    fx.save(tmp_path / "fx.tav")
    loaded = treeanova.load(tmp_path / "fx.tav")
    assert loaded.schema.objective == "pinball:0.9"
    assert loaded.validate(x, y).table.equals(fx.validate(x, y).table)


def test_a_loss_of_the_user_takes_the_place_of_the_objective():
    metrics = pytest.importorskip("sklearn.metrics")
    fx, x = written_down("")
    y = outcome_of("squared", x, np.random.default_rng(1))
    with pytest.raises(ValueError, match=r"got a model that does not state its objective; pass `loss`"):
        fx.validate(x, y)
    score = fx.decision_function(x)
    assert fx.validate(x, y, loss="absolute").model_loss == pytest.approx(metrics.mean_absolute_error(y, score))
    named = fx.validate(x, y, loss="squared")
    own = fx.validate(x, y, loss=lambda score, y: (score - y) ** 2)
    assert own.model_loss == pytest.approx(named.model_loss)
    for column in ("loss_change", "error", "slope"):
        assert own.table[column].to_list() == pytest.approx(named.table[column].to_list(), rel=1e-5)
    assert own.table["p_value"].isna().all()
    assert own.table["p_holm"].isna().all()
    assert own.significant == ()
    assert "no p-values: " in own.notes[0]
    assert own.notes[0] in str(own)


def test_sums_keep_an_objective_only_if_they_are_means():
    fx, _ = written_down("absolute")
    other, _ = written_down("squared")
    assert treeanova.mean([fx, fx]).schema.objective == "absolute"
    assert treeanova.mean([fx, other]).schema.objective == ""
    assert (fx - fx).schema.objective == ""


def test_a_copy_hides_no_term():
    """Alone, the half of the effect that each copy has can be moved to the other."""
    with pytest.warns(treeanova.errors.AliasWarning, match="a and copy of a determine each other"):
        fx, x = written_down("squared", copies=True)
    y = 2 * np.where(x[:, 0] > 0, 1.0, -1.0) + np.random.default_rng(1).normal(size=2000)
    validation = fx.validate(x, y)
    table = validation.table.set_index("term")
    assert table["aliases"].to_dict() == {"a": "copy of a", "copy of a": "a", "b": ""}
    assert table["p_value"]["a"] == table["p_value"]["copy of a"] < 1e-10
    assert set(validation.significant) >= {"a", "copy of a"}
    assert validation.groups == (("a", "copy of a"),)
    assert "Tested together, since these rows cannot distinguish them: a or copy of a" in str(validation)


def test_rows_that_are_too_few_are_counted_in_units_of_the_loss():
    fx, x = written_down("cox", "log")
    times = np.where(np.arange(2000) < 20, 1.0, -2.0) + np.random.default_rng(0).random(2000)
    with pytest.raises(ValueError, match="`y` must have at least 30 events for standard errors, got 20"):
        fx.validate(x, times)
    fx, x = written_down("pairwise")
    with pytest.raises(ValueError, match="at least 30 groups with different grades for standard errors, got 20"):
        fx.validate(x, x[:, 0], group=np.arange(2000) // 100)


@pytest.mark.parametrize("unit", [1e-85, 1e85])
def test_outcomes_too_large_or_too_small_for_squares_are_refused(unit):
    rng = np.random.default_rng(0)
    rows, table = rng.integers(0, 3, size=(300, 2)), rng.normal(size=(3, 3))
    y = table[rows[:, 0], rows[:, 1]] + rng.normal(size=300)

    def validation(factor):
        effects = treeanova.model.Effects.from_tables({("a", "b"): table * factor})
        return treeanova.decompose(effects, rows, density="empirical").validate(rows, y * factor, loss="squared")

    with pytest.raises(ValueError, match=r"must have sizes between 1e-70 and 1e\+70 for errors of losses, got"):
        validation(unit)
    assert validation(1e-60).significant == validation(1.0).significant != ()


def test_the_text_counts_the_p_values_that_holm_corrects_for():
    fx, x = written_down("squared")
    y = outcome_of("squared", x, np.random.default_rng(1))
    validation = fx.validate(x, y)
    table = validation.table.copy()
    table.loc[0, ["p_value", "p_holm"]] = np.nan
    for tested, n_tests in ((validation.table, len(table)), (table, len(table) - 1)):
        text = str(dataclasses.replace(validation, table=tested))
        assert f"corrected for all {n_tests} p-values (Holm)" in text
