"""Outcomes: which loss judges a model, and `y` as numbers, good and bad."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from treeanova.decomposition.held_out import outcome_of, questions_of
from treeanova.model import Feature, Schema
from treeanova.testing import example

REGRESSION = Schema((Feature("a"),), objective="squared")
BINARY = dataclasses.replace(REGRESSION, link="logit", classes=("no", "yes"), objective="log")
CLASSES = dataclasses.replace(
    REGRESSION, link="softmax", outputs=("x", "y", "z"), classes=("x", "y", "z"), objective="multiclass"
)
COUNTS = dataclasses.replace(REGRESSION, link="log", objective="poisson")
TARGETS = dataclasses.replace(REGRESSION, outputs=("first", "second"))
PRICES = dataclasses.replace(REGRESSION, link="log", objective="squared of log")


def outcome(schema, y, n_rows):
    return outcome_of(schema, questions_of(schema, None)[0], y, n_rows)


def test_the_objective_decides_and_not_the_link():
    for link in ("identity", "log", "other"):
        for objective, name in {
            "squared": "squared error",
            "pinball:0.9": "pinball loss at 0.9",
            "gamma": "gamma loss",
            "cox": "Cox partial likelihood",
            "squared of log": "squared error of log(y)",
            "brier": "Brier score",
        }.items():
            schema = dataclasses.replace(REGRESSION, link=link, objective=objective)
            assert questions_of(schema, None)[0].name == name


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        ("", "a model that does not state its objective"),
        ("binary:hinge", "the objective 'binary:hinge'"),
        ("quantile", "the objective 'quantile'"),
        ("squared of cbrt", "the objective 'squared of cbrt'"),
    ],
)
def test_unknown_objectives_are_refused(objective, words):
    schema = dataclasses.replace(REGRESSION, objective=objective)
    with pytest.raises(ValueError, match=f"must know the loss that the model was trained .* got {words}; pass `loss`"):
        questions_of(schema, None)
    assert questions_of(schema, "absolute")[0].name == "absolute error"


def test_bad_losses_are_refused():
    with pytest.raises(ValueError, match=r"`loss` must be one of squared, .* got 'mse'"):
        questions_of(REGRESSION, "mse")
    with pytest.raises(TypeError, match="`loss` must be a name or a function of scores and outcomes, got int"):
        questions_of(REGRESSION, 3)


def test_classes_are_judged_together_and_targets_one_by_one():
    assert [question.outputs for question in questions_of(CLASSES, None)] == [[0, 1, 2]]
    assert [question.outputs for question in questions_of(TARGETS, None)] == [[0], [1]]
    labels = dataclasses.replace(TARGETS, link="logit", objective="log")
    assert [question.outputs for question in questions_of(labels, None)] == [[0], [1]]
    assert [question.outputs for question in questions_of(BINARY, None)] == [[0]]
    several = dataclasses.replace(TARGETS, objective="pinball:0.1:0.9")
    assert [question.name for question in questions_of(several, None)] == ["pinball loss at 0.1", "pinball loss at 0.9"]
    assert outcome(several, [1.0, 2.0], 2).tolist() == [[1.0], [2.0]]


def test_labels_become_indicators():
    assert outcome(BINARY, ["no", "yes", "no"], 3).tolist() == [[0], [1], [0]]
    assert outcome(CLASSES, np.array(["z", "x"]), 2).tolist() == [[0, 0, 1], [1, 0, 0]]
    numbered = dataclasses.replace(CLASSES, classes=())
    assert outcome(numbered, np.array([2.0, 0.0]), 2).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert outcome(dataclasses.replace(BINARY, classes=()), [True, False], 2).tolist() == [[1], [0]]
    assert outcome(dataclasses.replace(BINARY, classes=()), [0.25, 1.0], 2).tolist() == [[0.25], [1.0]]


def test_outcomes_may_come_as_columns_of_any_library():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for column in (pandas.Series([1.5, 2.0]), polars.Series([1.5, 2.0]), [1.5, 2], np.array([[1.5], [2.0]])):
        assert outcome(REGRESSION, column, 2).tolist() == [[1.5], [2.0]]


def test_outcomes_are_transformed_as_the_model_does():
    assert outcome(PRICES, [1.0, np.e], 2).ravel() == pytest.approx([0, 1])
    more = dataclasses.replace(PRICES, objective="squared of log1p")
    assert outcome(more, [0.0, np.e - 1], 2).ravel() == pytest.approx([0, 1])
    root = dataclasses.replace(PRICES, objective="squared of sqrt")
    assert outcome(root, [-4.0, 9.0], 2).ravel() == pytest.approx([-2, 3])


def test_survival_times_have_two_ends():
    aft = dataclasses.replace(REGRESSION, link="log", objective="aft:normal:1")
    found = outcome(aft, [[1.0, 1.0], [2.0, np.inf], [0.0, 3.0], [4.0, -1.0]], 4)
    assert found.tolist() == [[1, 1], [2, np.inf], [0, 3], [4, np.inf]]
    assert outcome(aft, [1.0, 2.0], 2).tolist() == [[1, 1], [2, 2]]
    with pytest.raises(ValueError, match=r"`y` must have a lower end of each time, .* got 3 and 2"):
        outcome(aft, [[3.0, 2.0]], 1)
    with pytest.raises(ValueError, match="`y` must have two columns, lower and upper ends of times, got 3"):
        outcome(aft, [[1.0, 2.0, 3.0]], 1)


COX = dataclasses.replace(REGRESSION, link="log", objective="cox")


@pytest.mark.parametrize(
    ("schema", "y", "message"),
    [
        (REGRESSION, [1.0, 2.0], "`y` must have one entry per row of `X`, 3, got 2"),
        (REGRESSION, [1.0, np.nan, 2.0], "`y` must be finite, got 1 missing"),
        (REGRESSION, [1.0, 1.0, 1.0], "`y` must vary, got 1 in all 3 rows"),
        (REGRESSION, np.zeros((3, 1, 1)), "`y` must have one or two axes, got 3"),
        (TARGETS, [1.0, 2.0, 3.0], "`y` must have 2 columns, .* got 1"),
        (BINARY, ["yes", "yes", "yes"], "`y` must hold at least two classes, got 'yes' in all 3 rows"),
        (BINARY, ["yes", "no", "maybe"], "`y` must hold the classes of the model, 'no', 'yes', got 'maybe'"),
        (BINARY, ["yes", None, "no"], "`y` must have no missing values, got 1 in 3 rows"),
        (BINARY, [["yes", "no"]] * 3, "`y` must be one column of labels, got 2 columns"),
        (COUNTS, [1.0, -2.0, 3.0], "`y` must not be negative for Poisson loss, got -2"),
        (dataclasses.replace(COUNTS, objective="gamma"), [1.0, 0.0, 3.0], "`y` must be positive for gamma loss, got 0"),
        (dataclasses.replace(BINARY, predicts_share=True, classes=()), [0.5, 2.0, 0.1], "between 0 and 1 .* got 2"),
        (PRICES, [1.0, 0.0, 2.0], r"`y` must be above 0 for a model that was trained on log\(y\), got 0"),
        (COX, [-1.0, -2.0, -3.0], "`y` must have events, times above zero, got censored times only"),
        (COX, [-1.0, 0.0, 3.0], "`y` must have times above zero, or below if they are censored, got 0"),
    ],
)
def test_bad_outcomes_are_refused(schema, y, message):
    with pytest.raises(ValueError, match=message):
        outcome(schema, y, 3)


def test_text_is_no_number():
    with pytest.raises(TypeError, match="`y` must hold numbers, got 'a'"):
        outcome(REGRESSION, ["a", "b"], 2)


def regression():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, size=(200, 2))
    fx, _ = example()
    return fx, rows, rows[:, 0] + rng.normal(size=200)


@pytest.mark.parametrize("answer", ["validate", "simplify"])
def test_masked_values_are_refused_where_missing_ones_are(answer):
    fx, rows, y = regression()
    is_masked = np.arange(200) < 30
    masked = np.ma.array(np.where(is_masked, -9999.0, y), mask=is_masked)
    ask = getattr(fx, answer)
    with pytest.raises(ValueError, match="`y` must have no masked values, got 30 of 200; leave these rows out"):
        ask(rows, masked)
    with pytest.raises(ValueError, match="`sample_weight` must have no masked values, got 30 of 200"):
        ask(rows, y, sample_weight=np.ma.array(np.ones(200), mask=is_masked))
    assert ask(rows, masked, sample_weight=~is_masked).model_loss == pytest.approx(ask(rows[30:], y[30:]).model_loss)
    assert ask(rows, np.ma.array(y)).model_loss == ask(rows, y).model_loss


def test_masked_weights_and_groups_are_refused_by_all_answers():
    fx, rows, _ = regression()
    weights, group = (np.ma.array(column, mask=np.arange(200) < 30) for column in (np.ones(200), rows[:, 1] == 0))
    with pytest.raises(ValueError, match="`sample_weight` must have no masked values"):
        fx.gap(rows, rows[:, 0] == 0, sample_weight=weights)
    with pytest.raises(ValueError, match="`group` must have no masked values"):
        fx.gap(rows, group)
    with pytest.raises(ValueError, match="`sample_weight` must have no masked values"):
        fx.with_density("empirical", rows, sample_weight=weights)


def test_masked_cells_of_a_density_are_refused():
    fx, _, _ = regression()
    table = np.ma.array(np.full((2, 2), 0.25), mask=[[True, False], [False, False]])
    with pytest.raises(ValueError, match="`density` must have no masked values, got 1 of 4"):
        fx.with_density({("x0", "x1"): table})


def test_masked_rows_are_refused_because_libraries_ignore_masks():
    fx, X = example()
    rows = np.ma.array(X.astype(float), mask=np.zeros(X.shape, dtype=bool))
    np.testing.assert_array_equal(fx.decision_function(rows), fx.decision_function(X))
    rows.mask[0, 0] = True
    with pytest.raises(ValueError, match=r"`X` must have no masked values, got 1 of 8, .*filled\(numpy.nan\)"):
        fx.decision_function(rows)
    missing = np.where(np.ma.getmaskarray(rows), np.nan, X)
    np.testing.assert_array_equal(
        fx.decision_function(rows.astype(float).filled(np.nan)), fx.decision_function(missing)
    )


def test_a_loss_of_the_user_may_work_in_place():
    fx, rows, y = regression()

    def in_place(score, outcome):
        score -= outcome
        outcome[:] = 0
        score **= 2
        return score

    before = y.copy()
    by_hand = np.mean((fx.decision_function(rows) - y) ** 2)
    assert fx.validate(rows, y, loss=in_place).model_loss == pytest.approx(by_hand)
    np.testing.assert_array_equal(y, before)
    changes = [fx.validate(rows, y, loss=loss).table["loss_change"] for loss in (in_place, "squared")]
    np.testing.assert_allclose(*changes)


@pytest.mark.parametrize("kind", ["datetime64", "timedelta64", "complex128"])
def test_dates_and_complex_numbers_are_no_outcomes_of_a_regression(kind):
    fx, rows, y = regression()
    outcome = y + 1j if kind == "complex128" else np.arange(200).astype(f"{kind}[D]")
    with pytest.raises(TypeError, match=f"`y` must hold real numbers, got {kind}"):
        fx.validate(rows, outcome)


def test_groups_are_for_rankings():
    fx, rows, y = regression()
    with pytest.raises(ValueError, match="`group` must be left out for squared error, got groups"):
        fx.validate(rows, y, group=np.arange(200) // 10)


def test_labels_of_another_type_are_told_from_those_of_the_model():
    schema = dataclasses.replace(REGRESSION, link="logit", objective="log", classes=(False, True))
    [question] = questions_of(schema, None)
    with pytest.raises(ValueError, match="classes of the model, False, True, got 'False', 'True'"):
        outcome_of(schema, question, np.array(["False", "True"]), 2)


def test_one_column_is_one():
    [question] = questions_of(REGRESSION, "squared")
    with pytest.raises(ValueError, match="`y` must have 1 column, one for each output of the model, got 2"):
        outcome_of(REGRESSION, question, np.arange(6.0).reshape(3, 2), 3)


def test_labels_may_be_an_array_of_arrow():
    pa = pytest.importorskip("pyarrow")
    for labels in (["no", "yes", "no"], [0.5, 1.5, 2.5]):
        schema = BINARY if labels[0] == "no" else REGRESSION
        np.testing.assert_array_equal(outcome(schema, pa.array(labels), 3), outcome(schema, np.array(labels), 3))


def test_the_brier_score_is_of_classes_or_shares():
    [question] = questions_of(REGRESSION, "brier")
    assert outcome_of(REGRESSION, question, np.array([0.0, 0.3, 1.0]), 3).tolist() == [[0.0], [0.3], [1.0]]
    with pytest.raises(ValueError, match=r"`y` must be between 0 and 1 for Brier score, got 2\.5; check the outcome"):
        outcome_of(REGRESSION, question, np.array([0.0, 2.5]), 2)
