"""Losses: against scikit-learn, scipy and XGBoost; derivatives against finite differences; names, good and bad."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats

from tests.support.training import train
from treeanova.data.features import Feature, Schema
from treeanova.decomposition.held_out import notes_on_scale, questions_of
from treeanova.decomposition.losses import MulticlassLogLoss, PinballLoss, UserLoss, named_losses

SMOOTH = [
    "squared",
    "expectile:0.3",
    "huber:0.7",
    "pseudo_huber:0.7",
    "fair:2",
    "log_cosh",
    "log",
    "exponential",
    "multiclass",
    "poisson",
    "gamma",
    "tweedie:1.4",
    "aft:normal:0.7",
    "aft:logistic:1.3",
    "aft:extreme:1.1",
]
KINKED = ["absolute", "mape", "pinball:0.9"]


def named(text):
    return named_losses(text, 1)[0]


def case(loss):
    """Scores and an outcome of 60 rows; survival times are known, or censored on the right, the left, or both sides."""
    rng = np.random.default_rng(0)
    score = rng.normal(size=(60, 3 if isinstance(loss, MulticlassLogLoss) else 1))
    if isinstance(loss, MulticlassLogLoss):
        return score, np.eye(3)[rng.integers(0, 3, 60)]
    if loss.outcome == "labels":
        return score, rng.integers(0, 2, size=(60, 1)).astype(float)
    if loss.outcome == "intervals":
        low, length = rng.gamma(2, size=(2, 60))
        kind = np.arange(60) % 4
        high = np.select([kind == 0, kind == 1], [low, np.inf], low + length)
        return score, np.stack([np.where(kind == 2, 0, low), high], axis=1)
    return score, rng.gamma(2, size=(60, 1))


@pytest.mark.parametrize("text", SMOOTH)
def test_derivatives_are_those_of_the_loss(text):
    loss = named(text)
    score, outcome = case(loss)
    direction, step = np.random.default_rng(1).normal(size=score.shape), 1e-5
    low, high = (loss.per_row(score + t * direction, outcome) for t in (-step, step))
    slope = (loss.gradient(score, outcome) * direction).sum(axis=1)
    assert (high - low) / (2 * step) == pytest.approx(slope, abs=1e-6)
    low, high = (loss.gradient(score + t * direction, outcome) for t in (-step, step))
    assert (high - low) / (2 * step) == pytest.approx(loss.second_derivative_times(score, outcome, direction), abs=1e-6)


@pytest.mark.parametrize("text", [*SMOOTH, *KINKED])
def test_no_constant_is_better_than_the_best(text):
    loss = named(text)
    score, outcome = case(loss)
    weights = np.random.default_rng(2).uniform(0.5, 2, 60)
    best = loss.best_constant(outcome, weights)
    lowest = weights @ loss.per_row(np.broadcast_to(best, score.shape), outcome)
    for change in np.random.default_rng(3).normal(size=(30, score.shape[1])) / 5:
        assert weights @ loss.per_row(np.broadcast_to(best + change, score.shape), outcome) >= lowest - 1e-9


@pytest.mark.parametrize("text", ["absolute", "pinball:0.2"])
def test_smooth_losses_come_close_to_the_loss_and_have_derivatives(text):
    loss = named(text)
    rng = np.random.default_rng(0)
    score, outcome = np.zeros((100_000, 1)), rng.normal(size=(100_000, 1))
    smooth = loss.smooth(score, outcome)
    assert smooth.per_row(score, outcome).mean() == pytest.approx(loss.per_row(score, outcome).mean(), rel=0.01)
    few, y, step = rng.normal(size=(50, 1)), rng.normal(size=(50, 1)), 1e-5
    slopes = (smooth.per_row(few + step, y) - smooth.per_row(few - step, y)) / (2 * step)
    assert slopes == pytest.approx(smooth.gradient(few, y)[:, 0], abs=1e-6)
    bends = (smooth.gradient(few + step, y) - smooth.gradient(few - step, y)) / (2 * step)
    assert bends == pytest.approx(smooth.second_derivative_times(few, y, np.ones((50, 1))), abs=1e-5)


def test_losses_are_those_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    score, outcome = case(named("log"))
    found = named("log").per_row(score, outcome).mean()
    assert found == pytest.approx(metrics.log_loss(outcome.ravel(), scipy.special.expit(score).ravel()))
    score, outcome = case(named("multiclass"))
    found = named("multiclass").per_row(score, outcome).mean()
    assert found == pytest.approx(metrics.log_loss(outcome.argmax(axis=1), scipy.special.softmax(score, axis=1)))
    score, outcome = case(named("squared"))
    expected = metrics.mean_pinball_loss(outcome, score, alpha=0.9)
    assert named("pinball:0.9").per_row(score, outcome).mean() == pytest.approx(expected)
    assert named("absolute").per_row(score, outcome).mean() == pytest.approx(
        metrics.mean_absolute_error(outcome, score)
    )
    larger = 1 + outcome  # below 1, libraries divide by 1
    expected = metrics.mean_absolute_percentage_error(larger, score)
    assert named("mape").per_row(score, larger).mean() == pytest.approx(expected)


@pytest.mark.parametrize(("text", "power"), [("poisson", 1), ("gamma", 2), ("tweedie:1.4", 1.4)])
def test_losses_of_logarithms_of_means_are_half_the_deviance(text, power):
    metrics = pytest.importorskip("sklearn.metrics")
    score, outcome = case(named(text))
    if power < 2:
        outcome[:5] = 0
    deviance = metrics.mean_tweedie_deviance(outcome, np.exp(score), power=power)
    assert 2 * named(text).per_row(score, outcome).mean() == pytest.approx(deviance)
    positive = outcome[outcome > 0][:, None]
    assert named(text).per_row(np.log(positive), positive) == pytest.approx(np.zeros(len(positive)), abs=1e-12)


def test_robust_losses_are_those_of_scipy():
    score, outcome = case(named("squared"))
    gap = (score - outcome)[:, 0]
    assert named("huber:0.7").per_row(score, outcome) == pytest.approx(scipy.special.huber(0.7, gap))
    assert named("pseudo_huber:0.7").per_row(score, outcome) == pytest.approx(scipy.special.pseudo_huber(0.7, gap))
    assert named("log_cosh").per_row(score, outcome) == pytest.approx(np.log(np.cosh(gap)))


DISTRIBUTIONS = {"normal": scipy.stats.norm, "logistic": scipy.stats.logistic, "extreme": scipy.stats.gumbel_l}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_failure_times_have_the_likelihood_of_their_distribution(name):
    loss = named(f"aft:{name}:0.8")
    score, outcome = case(loss)
    expected = []
    for s, (low, high) in zip(score[:, 0], outcome, strict=True):
        of_log = DISTRIBUTIONS[name](loc=s, scale=0.8)
        if low == high:
            expected.append(-np.log(of_log.pdf(np.log(low)) / low))
        else:
            below = of_log.cdf(np.log(low)) if low > 0 else 0.0
            expected.append(-np.log((of_log.cdf(np.log(high)) if np.isfinite(high) else 1.0) - below))
    assert loss.per_row(score, outcome) == pytest.approx(expected)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_failure_times_have_the_metric_of_xgboost(name):
    xgboost = pytest.importorskip("xgboost")
    loss = named(f"aft:{name}:1")
    score, outcome = case(loss)
    rows = xgboost.DMatrix(np.zeros((60, 1)))
    rows.set_float_info("label_lower_bound", outcome[:, 0])
    rows.set_float_info("label_upper_bound", outcome[:, 1])
    rows.set_base_margin(score[:, 0])
    options = {"objective": "survival:aft", "aft_loss_distribution": name, "aft_loss_distribution_scale": 1.0}
    booster = train(xgboost, {**options, "eta": 0, "base_score": 1.0}, rows, 1)
    found = float(booster.eval(rows).partition("aft-nloglik:")[2])
    assert loss.per_row(score, outcome).mean() == pytest.approx(found, rel=1e-5)


def test_likelihoods_far_out_stay_finite():
    outcome = np.array([[1.0, np.inf], [1.0, 2.0], [0.0, 1.0]])
    for text in SMOOTH[-3:]:
        for shift in (-15.0, 15.0):
            score = np.full((3, 1), shift)
            loss = named(text)
            assert np.isfinite(loss.per_row(score, outcome)).all()
            assert np.isfinite(loss.gradient(score, outcome)).all()
            assert np.isfinite(loss.second_derivative_times(score, outcome, np.ones((3, 1)))).all()


def test_class_scores_that_are_shifted_together_change_nothing():
    loss = MulticlassLogLoss()
    score, outcome = case(loss)
    assert loss.per_row(loss.without_invariant_part(score), outcome) == pytest.approx(loss.per_row(score, outcome))
    assert loss.without_invariant_part(score).sum(axis=1) == pytest.approx(np.zeros(60))


def test_quantiles_are_weighted():
    outcome, weights = np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([1.0, 1.0, 1.0, 9.0])
    assert PinballLoss(0.5).best_constant(outcome, weights).tolist() == [4.0]
    assert PinballLoss(0.5).best_constant(outcome, np.ones(4)).tolist() == [2.0]


def test_several_outputs_may_have_levels_of_their_own():
    assert [loss.level for loss in named_losses("pinball:0.1:0.9", 2)] == [0.1, 0.9]
    assert [loss.name for loss in named_losses("squared", 2)] == ["squared error"] * 2
    assert named_losses("pinball:0.1:0.9", 3) is None
    assert named_losses("pinball", 1) is None
    assert named_losses("squared:1", 1) is None
    assert named_losses("rank:ndcg", 1) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pinball:1.5", "level of the loss 'pinball' must be between 0 and 1, got 1.5"),
        ("huber:0", "parameter of the loss 'huber' must be positive, got 0"),
        ("tweedie:3", "power of a Tweedie loss must be between 1 and 2, got 3"),
        ("aft:cauchy:1", "distribution of an AFT loss must be one of 'normal', .* got 'cauchy'"),
        ("huber:wide", "`loss` must have a number in place of 'wide', got 'huber:wide'"),
    ],
)
def test_bad_parameters_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        named_losses(text, 1)


def test_functions_must_return_a_loss_per_row():
    score, y = np.zeros((4, 1)), np.ones(4)
    assert UserLoss(lambda s, y: (s - y) ** 2).per_row(score, y).tolist() == [1, 1, 1, 1]
    with pytest.raises(ValueError, match=r"`loss` must return one finite loss per row, shape \(4,\), got shape \(\)"):
        UserLoss(lambda s, y: ((s - y) ** 2).mean()).per_row(score, y)
    with pytest.raises(ValueError, match="got losses that are not finite"):
        UserLoss(lambda s, y: s + y + np.inf).per_row(score, y)


@pytest.mark.parametrize(
    ("link", "right", "wrong"),
    [
        ("logit", "log", ["brier", "squared", "multiclass", "poisson"]),
        ("softmax", "multiclass", ["log", "brier"]),
        ("probability", "brier", ["log", "multiclass", "exponential", "poisson"]),
        ("log", "poisson", ["squared", "absolute", "log", "pinball:0.9"]),
    ],
)
def test_losses_of_another_scale_are_refused(link, right, wrong):
    schema = Schema((Feature("a"),), ("score",) * (2 if link == "softmax" else 1), link=link, objective="unknown")
    assert questions_of(schema, right)
    for loss in wrong:
        with pytest.raises(ValueError, match=r"`loss` must be a loss of scores that are .* got '"):
            questions_of(schema, loss)
    assert questions_of(dataclasses.replace(schema, link="identity"), right)
    assert questions_of(schema, lambda score, y: (score - y) ** 2)


@pytest.mark.parametrize(
    ("link", "loss"), [("logit", "squared of log1p"), ("probability", "squared of log"), ("log", "poisson of log")]
)
def test_losses_of_a_transformed_outcome_are_refused_for_other_links(link, loss):
    schema = Schema((Feature("a"),), ("score",), link=link, objective="unknown")
    with pytest.raises(ValueError, match=r"`loss` must be a loss of scores that are .* got '"):
        questions_of(schema, loss)
    assert questions_of(dataclasses.replace(schema, link="log"), "absolute of log")


def test_a_multiclass_loss_takes_several_scores():
    with pytest.raises(ValueError, match="got 'multiclass' for one output; 'log' takes log-odds"):
        questions_of(Schema((Feature("a"),), ("score",)), "multiclass")


def test_a_note_says_that_a_loss_takes_scores_for_logarithms():
    schema = Schema((Feature("a"),), ("score",), link="identity", objective="squared")
    [note] = notes_on_scale(schema, "poisson")
    assert note.startswith("the model states squared error")
    assert note.endswith("Poisson loss takes them for log-odds or logarithms")
    for loss in (None, "absolute", "brier", "pairwise", "squared of log", max):
        assert notes_on_scale(schema, loss) == []
    assert notes_on_scale(dataclasses.replace(schema, objective=""), "poisson") == []


@pytest.mark.parametrize("name", ["exponential", "tweedie:1.5", "poisson"])
def test_losses_that_overflow_are_infinite_without_a_warning(name):
    [loss] = named_losses(name, 1)
    score, outcome = np.array([[-2000.0], [2000.0], [2000.0]]), np.array([[0.0], [1.0], [0.0]])
    per_row = loss.per_row(score, outcome)
    assert per_row[0] == 0
    assert per_row[1] == (0 if name == "exponential" else np.inf)
    assert per_row[2] == np.inf
    assert np.isfinite(loss.gradient(score, outcome)[:1]).all()
    assert np.isfinite(loss.second_derivative_times(score, outcome, score)[:1]).all()
