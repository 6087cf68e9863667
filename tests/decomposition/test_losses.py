"""Losses: against scikit-learn, and gradients and curvatures against finite differences; outcomes, good and bad."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from treeanova import Feature, Schema
from treeanova.decomposition.losses import (
    LogLoss,
    MulticlassLogLoss,
    PoissonLoss,
    SquaredLoss,
    groups_of_outputs,
    loss_of,
    outcome_of,
)

REGRESSION = Schema((Feature("a"),))
BINARY = dataclasses.replace(REGRESSION, link="logit", classes=("no", "yes"))
CLASSES = dataclasses.replace(REGRESSION, link="softmax", outputs=("x", "y", "z"), classes=("x", "y", "z"))
COUNTS = dataclasses.replace(REGRESSION, link="log")
TARGETS = dataclasses.replace(REGRESSION, outputs=("first", "second"))


def case(loss):
    rng = np.random.default_rng(0)
    n_outputs = 3 if isinstance(loss, MulticlassLogLoss) else 1
    score = rng.normal(size=(40, n_outputs))
    if isinstance(loss, MulticlassLogLoss):
        return score, np.eye(3)[rng.integers(0, 3, 40)]
    if isinstance(loss, LogLoss):
        return score, rng.integers(0, 2, size=(40, 1)).astype(float)
    return score, rng.poisson(2, size=(40, 1)).astype(float)


LOSSES = [SquaredLoss(), LogLoss(), MulticlassLogLoss(), PoissonLoss()]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_gradients_and_curvatures_are_those_of_the_loss(loss):
    score, outcome = case(loss)
    rng = np.random.default_rng(1)
    direction, step = rng.normal(size=score.shape), 1e-5
    low, middle, high = (loss.at(score + t * direction, outcome) for t in (-step, 0, step))
    factor = 2 if isinstance(loss, SquaredLoss) else 1
    gradient = factor * ((loss.mean(score) - outcome) * direction).sum(axis=1)
    assert (high - low) / (2 * step) == pytest.approx(gradient, abs=1e-7)
    curvature = factor * (loss.curved(score, direction) * direction).sum(axis=1)
    assert (high - 2 * middle + low) / step**2 == pytest.approx(curvature, abs=1e-4)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_no_constant_is_better_than_the_score_of_the_mean(loss):
    _, outcome = case(loss)
    score = loss.score_of(outcome.mean(axis=0))
    best = loss.at(np.broadcast_to(score, outcome.shape), outcome).mean()
    for change in np.random.default_rng(2).normal(size=(20, outcome.shape[1])) / 10:
        assert loss.at(np.broadcast_to(score + change, outcome.shape), outcome).mean() >= best - 1e-12


def test_losses_are_those_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    score, outcome = case(LogLoss())
    found = LogLoss().at(score, outcome).mean()
    assert found == pytest.approx(metrics.log_loss(outcome.ravel(), LogLoss().mean(score).ravel()))
    score, outcome = case(MulticlassLogLoss())
    found = MulticlassLogLoss().at(score, outcome).mean()
    assert found == pytest.approx(metrics.log_loss(outcome.argmax(axis=1), MulticlassLogLoss().mean(score)))
    score, outcome = case(PoissonLoss())
    change = PoissonLoss().at(score, outcome).mean() - PoissonLoss().at(score + 0.5, outcome).mean()
    deviances = [metrics.mean_poisson_deviance(outcome, np.exp(score + t)) for t in (0, 0.5)]
    assert 2 * change == pytest.approx(deviances[0] - deviances[1])


def test_class_scores_that_are_shifted_together_change_nothing():
    loss = MulticlassLogLoss()
    score, outcome = case(loss)
    assert loss.at(loss.invariant(score), outcome) == pytest.approx(loss.at(score, outcome))
    assert loss.invariant(score).sum(axis=1) == pytest.approx(np.zeros(40))


def test_links_have_their_losses():
    names = {link: loss_of(dataclasses.replace(REGRESSION, link=link)).name for link in ("identity", "probability")}
    assert names == {"identity": "squared error", "probability": "Brier score"}
    with pytest.raises(ValueError, match=r"must know the loss of the model's link .* got the link 'cloglog'"):
        loss_of(dataclasses.replace(REGRESSION, link="cloglog"))


def test_classes_are_judged_together_and_targets_one_by_one():
    assert groups_of_outputs(CLASSES) == [[0, 1, 2]]
    assert groups_of_outputs(TARGETS) == [[0], [1]]
    assert groups_of_outputs(dataclasses.replace(TARGETS, link="logit")) == [[0], [1]]
    assert groups_of_outputs(BINARY) == [[0]]


def test_labels_become_indicators():
    assert outcome_of(BINARY, ["no", "yes", "no"], 3).tolist() == [[0], [1], [0]]
    assert outcome_of(CLASSES, np.array(["z", "x"]), 2).tolist() == [[0, 0, 1], [1, 0, 0]]
    numbered = dataclasses.replace(CLASSES, classes=())
    assert outcome_of(numbered, np.array([2.0, 0.0]), 2).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert outcome_of(dataclasses.replace(BINARY, classes=()), [True, False], 2).tolist() == [[1], [0]]


def test_outcomes_may_come_as_columns_of_any_library():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for column in (pandas.Series([1.5, 2.0]), polars.Series([1.5, 2.0]), [1.5, 2], np.array([[1.5], [2.0]])):
        assert outcome_of(REGRESSION, column, 2).tolist() == [[1.5], [2.0]]


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
        (COUNTS, [1.0, -2.0, 3.0], "`y` must not be negative .* got -2"),
        (dataclasses.replace(BINARY, predicts_share=True, classes=()), [0.5, 2.0, 0.1], "between 0 and 1 .* got 2"),
    ],
)
def test_bad_outcomes_are_refused(schema, y, message):
    with pytest.raises(ValueError, match=message):
        outcome_of(schema, y, 3)


def test_text_is_no_number():
    with pytest.raises(TypeError, match="`y` must hold numbers, got 'a'"):
        outcome_of(REGRESSION, ["a", "b"], 2)
