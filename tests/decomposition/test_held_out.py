"""Held-out rows: Cox and ranking by explicit loops; standard errors against the jackknife; derivatives."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from tests.support.training import train
from treeanova.decomposition.held_out import CoxRows, Question, RankedRows, held_out, mean_and_error
from treeanova.decomposition.losses import UserLoss, named_losses


def rows_of(text, score, outcome, weights=None, group=None):
    loss = named_losses(text, 1)[0]
    weights = np.ones(len(score)) if weights is None else weights
    return held_out(Question([0], loss, ""), score, np.reshape(outcome, (len(score), -1)), weights, group)


def cox_case(n_rows=200, seed=0, *, ties=False):
    rng = np.random.default_rng(seed)
    score = rng.normal(size=(n_rows, 1))
    time = rng.exponential(size=n_rows) * np.exp(-score[:, 0]) + 0.01
    if ties:
        time = np.ceil(4 * time) / 4
    return score, np.where(rng.random(n_rows) < 0.7, time, -time)


def cox_by_loops(score, times, weights):
    """Breslow's partial likelihood, divided by the weight of all events."""
    total = events = 0.0
    for i, time in enumerate(times):
        if time > 0:
            at_risk = sum(w * np.exp(s) for s, t, w in zip(score[:, 0], times, weights, strict=True) if abs(t) >= time)
            total += weights[i] * (np.log(at_risk) - score[i, 0])
            events += weights[i]
    return total / events


@pytest.mark.parametrize("ties", [False, True])
def test_the_partial_likelihood_is_that_of_loops(ties):
    score, times = cox_case(ties=ties)
    weights = np.random.default_rng(1).uniform(0.5, 1.5, len(times))
    rows = rows_of("cox", score, times, weights)
    assert isinstance(rows, CoxRows)
    assert rows.mean_loss(score) == pytest.approx(cox_by_loops(score, times, weights))
    assert rows.mean_loss(score + 3) == pytest.approx(rows.mean_loss(score))
    assert rows.constant_loss() == pytest.approx(cox_by_loops(np.zeros_like(score), times, weights))
    assert rows.n_units == (times > 0).sum()


def test_the_partial_likelihood_is_that_of_xgboost():
    xgboost = pytest.importorskip("xgboost")
    score, times = cox_case(ties=True)
    rows = xgboost.DMatrix(np.zeros((len(times), 1)), times)
    rows.set_base_margin(score[:, 0])
    booster = train(xgboost, {"objective": "survival:cox", "eta": 0, "base_score": 1.0}, rows, 1)
    found = float(booster.eval(rows).partition("cox-nloglik:")[2])
    assert rows_of("cox", score, times).mean_loss(score) == pytest.approx(found, rel=1e-5)


def ranking_case(n_groups=40, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 9, n_groups)
    group = rng.permutation(np.repeat(np.arange(n_groups), sizes))
    score = rng.normal(size=(len(group), 1))
    grades = np.round(score[:, 0] + rng.normal(size=len(group)))
    weights = rng.uniform(0.5, 1.5, n_groups)[group]
    return score, grades, group, weights / weights.mean()


def ranking_by_loops(score, grades, group):
    """The mean loss of the pairs of each group that has any."""
    losses = {}
    for name in np.unique(group):
        rows = np.flatnonzero(group == name)
        pairs = [np.log1p(np.exp(score[j, 0] - score[i, 0])) for i in rows for j in rows if grades[i] > grades[j]]
        if pairs:
            losses[name] = np.mean(pairs)
    return losses


def test_the_loss_of_a_ranking_is_that_of_loops():
    score, grades, group, weights = ranking_case()
    rows = rows_of("pairwise", score, grades, weights, group)
    assert isinstance(rows, RankedRows)
    losses = ranking_by_loops(score, grades, group)
    of_group = [weights[group == name][0] for name in losses]
    assert rows.mean_loss(score) == pytest.approx(np.average(list(losses.values()), weights=of_group))
    assert rows.n_units == len(losses)
    assert rows.constant_loss() == pytest.approx(rows.mean_loss(np.zeros_like(score)))
    named = rows_of("pairwise", score, grades, weights, np.array([f"query {name}" for name in group], dtype=object))
    assert named.mean_loss(score) == pytest.approx(rows.mean_loss(score))


def cases():
    score, times = cox_case(80, ties=True)
    yield rows_of("cox", score, times, np.random.default_rng(1).uniform(0.5, 1.5, 80))
    score, grades, group, weights = ranking_case(20)
    yield rows_of("pairwise", score, grades, weights, group)
    yield rows_of("poisson", score, np.abs(grades), weights)


@pytest.mark.parametrize("rows", list(cases()), ids=lambda rows: rows.loss.name)
def test_derivatives_are_those_of_the_sum_of_all_losses(rows):
    rng = np.random.default_rng(2)
    directions, step = rng.normal(size=(3, *rows.score.shape)), 1e-5
    slopes = [
        (rows.mean_loss(rows.score + step * d) - rows.mean_loss(rows.score - step * d)) / (2 * step) for d in directions
    ]
    found = (rows.gradient(rows.score) * directions).sum(axis=(1, 2))
    assert found / found[0] == pytest.approx(np.array(slopes) / slopes[0], rel=1e-5)
    bends = [
        (rows.gradient(rows.score + step * d) - rows.gradient(rows.score - step * d)) / (2 * step) for d in directions
    ]
    assert rows.second_derivative_times(rows.score, directions) == pytest.approx(np.array(bends), abs=1e-5)
    shrinkage = (
        [np.eye(len(one)) for one in rows._rows_by_group] if isinstance(rows, RankedRows) else np.ones(len(rows.score))
    )
    parts = rows.derivative_by_unit(rows.score, directions[0], shrinkage)
    assert parts.sum() == pytest.approx((rows.gradient(rows.score) * directions[0]).sum())


def test_contributions_to_the_partial_likelihood_are_what_a_row_changes():
    """The derivative of the gradient by the weight of a row, which Lin and Wei (1989) call a score residual."""
    score, times = cox_case(60)
    direction = np.random.default_rng(3).normal(size=(60, 1))
    found = rows_of("cox", score, times).derivative_by_unit(score, direction, np.ones(60))
    step = 1e-5
    expected = []
    for i in np.argsort(np.abs(times), kind="stable"):
        sides = []
        for change in (-step, step):
            weights = np.ones(60)
            weights[i] += change
            sides.append((rows_of("cox", score, times, weights).gradient(score) * direction).sum())
        expected.append((sides[1] - sides[0]) / (2 * step))
    assert found == pytest.approx(np.array(expected), abs=1e-6)


def jackknife(changes):
    n = len(changes)
    return np.sqrt((n - 1) / n * ((changes - changes.mean()) ** 2).sum())


def test_errors_of_the_partial_likelihood_are_those_of_the_jackknife():
    score, times = cox_case(800)
    without = score + 0.5 * np.random.default_rng(4).normal(size=score.shape)
    _, error = rows_of("cox", score, times).loss_change(without)
    changes = []
    for i in range(800):
        kept = np.arange(800) != i
        rows = rows_of("cox", score[kept], times[kept])
        changes.append(rows.mean_loss(without[kept]) - rows.mean_loss(score[kept]))
    assert error == pytest.approx(jackknife(np.array(changes)), rel=0.03)


def test_errors_of_rankings_are_those_of_the_jackknife_over_groups():
    score, grades, group, _ = ranking_case(60)
    without = score + 0.5 * np.random.default_rng(4).normal(size=score.shape)
    mean, error = rows_of("pairwise", score, grades, group=group).loss_change(without)
    old, new = (ranking_by_loops(one, grades, group) for one in (score, without))
    changes = np.array([new[name] - old[name] for name in old])
    left_out = np.array([np.delete(changes, i).mean() for i in range(len(changes))])
    assert (mean, error) == pytest.approx((changes.mean(), jackknife(left_out)))


def test_errors_are_the_deviations_over_repeated_samples():
    """Scores that do not depend on the sample: the error is the deviation of the change over 300 samples."""
    found = {"cox": [], "pairwise": []}
    for seed in range(300):
        score, times = cox_case(200, seed)
        found["cox"].append(rows_of("cox", score, times).loss_change(0.5 * score))
        score, grades, group, _ = ranking_case(40, seed)
        found["pairwise"].append(rows_of("pairwise", score, grades, group=group).loss_change(0.5 * score))
    for changes, errors in (np.transpose(one) for one in found.values()):
        assert errors.mean() == pytest.approx(changes.std(ddof=1), rel=0.12)


def test_leaving_out_a_group_is_what_shrinkage_stands_for():
    """Newton's step of a regression on a quadratic loss without one group is exact."""
    score, grades, group, weights = ranking_case(20)
    rows = rows_of("pairwise", score, grades, weights, group)
    columns = np.random.default_rng(5).normal(size=(4, *score.shape))
    flat, curved = columns.reshape(4, -1), rows.second_derivative_times(score, columns)
    matrix = flat @ curved.reshape(4, -1).T
    inverse = np.linalg.inv(matrix)
    direction = np.tensordot(inverse[2], columns, axes=1)
    found = rows.derivative_by_unit(score, direction, rows.shrinkage(score, columns, curved, inverse))
    slopes = rows.gradient(score)[:, 0]
    for place, own in enumerate(rows._rows_by_group):
        block = flat[:, own] @ rows._laplacian(score)[own][:, own] @ flat[:, own].T
        expected = np.linalg.solve(matrix - block, flat[:, own] @ slopes[own])[2]
        assert found[place] == pytest.approx(expected)


def test_errors_of_means_are_those_of_the_paired_differences():
    numbers = np.array([1.0, 4.0, 2.0, 8.0, 5.0])
    assert mean_and_error(numbers, np.ones(5)) == pytest.approx((4.0, scipy.stats.sem(numbers)))


def test_functions_have_no_best_constant():
    question = Question([0], UserLoss(lambda s, y: np.abs(s - y)), "")
    rows = held_out(question, np.zeros((4, 1)), np.arange(4.0), np.ones(4), None)
    assert not rows.is_differentiable
    assert rows.mean_loss(rows.score) == 1.5
    assert np.isnan(rows.constant_loss())


def test_rankings_need_groups():
    score, grades, group, weights = ranking_case()
    with pytest.raises(ValueError, match=r"`group` must name the group of each row .* got none"):
        rows_of("pairwise", score, grades)
    uneven = np.linspace(0.5, 1.5, len(weights))
    with pytest.raises(ValueError, match="`sample_weight` must be the same for all rows of a group"):
        rows_of("pairwise", score, grades, uneven, group)
