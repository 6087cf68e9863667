"""Outcomes: which loss judges a model, and `y` as numbers, good and bad."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from treeanova.decomposition.held_out import outcome_of, questions_of
from treeanova.model import Feature, Schema

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
        (BINARY, ["yes", "no", "maybe"], "`y` must hold the classes of the model, 'no', 'yes', got maybe"),
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
