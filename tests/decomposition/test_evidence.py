"""Evidence for terms: the regression against one written out by hand, slopes against a minimiser, curves."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from treeanova import Feature, Schema
from treeanova.decomposition.evidence import HeldOut, curve_columns, p_values, slope_of
from treeanova.decomposition.losses import LogLoss, MulticlassLogLoss, PoissonLoss, SquaredLoss

SCHEMA = Schema((Feature("a"), Feature("b")))
KEYS = [(0,), (1,), (0, 1)]
N_ROWS = 600


def case(loss, seed=0):
    """Rows, and a model whose terms have the coefficients 1, 0.5 and 0.3 in truth."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N_ROWS, 2))
    x[:, 1] += 0.5 * x[:, 0]
    terms = np.stack([np.sign(x[:, 0]), np.round(x[:, 1]), np.sign(x[:, 0] * (x[:, 1] - 0.5))])[..., None]
    truth = 0.5 * terms[0] + 0.25 * terms[1] + 0.2 * terms[2]
    score = terms.sum(axis=0) / 2
    if isinstance(loss, LogLoss):
        outcome = (rng.random((N_ROWS, 1)) < 1 / (1 + np.exp(-truth))).astype(float)
    elif isinstance(loss, PoissonLoss):
        outcome = rng.poisson(np.exp(truth)).astype(float)
    else:
        outcome = truth + rng.normal(size=(N_ROWS, 1)) * (1 + np.abs(x[:, :1]))
    weights = rng.uniform(0.5, 1.5, N_ROWS)
    return HeldOut(loss, score, outcome, weights / weights.mean()), terms / 2, x


def by_hand(rows, terms, x, tested, *, without=None):
    """One-sided p-value from a fit by scipy and its HC3 covariance, both written out."""
    curves = [curve_columns(x[:, j], 16, is_category=False).T for j in range(2)]
    whole = np.column_stack([terms[..., 0].T, np.ones(N_ROWS), *curves])
    kept = [curve for j, curve in enumerate(curves) if j != without]
    design = np.column_stack([terms[..., 0].T, np.ones(N_ROWS), *kept])
    y, w, loss = rows.outcome[:, 0], rows.weights, rows.loss

    def total(theta):
        return w @ loss.at((design @ theta)[:, None], rows.outcome)

    def gradient(theta):
        factor = 2 if isinstance(loss, SquaredLoss) else 1
        return factor * design.T @ (w * (loss.mean((design @ theta)[:, None])[:, 0] - y))

    start = np.zeros(design.shape[1])
    theta = scipy.optimize.minimize(total, start, jac=gradient, method="BFGS", options={"gtol": 1e-7}).x
    score = design @ theta
    variance = w * loss.curved(score[:, None], np.ones((N_ROWS, 1)))[:, 0]
    inverse = np.linalg.inv(design.T @ (variance[:, None] * design))
    hat = np.linalg.inv(whole.T @ (variance[:, None] * whole))
    leverage = variance * np.einsum("ij,jk,ik->i", whole, hat, whole)
    residual = w * (y - loss.mean(score[:, None])[:, 0]) / (1 - leverage)
    error = np.sqrt((((design @ inverse[:, tested]) * residual) ** 2).sum())
    return scipy.stats.t.sf(theta[tested] / error, N_ROWS - whole.shape[1])


@pytest.mark.parametrize("loss", [SquaredLoss(), LogLoss(), PoissonLoss()], ids=lambda loss: loss.name)
def test_an_interaction_is_tested_with_all_terms_and_curves_fitted_again(loss):
    rows, terms, x = case(loss)
    assert p_values(rows, terms, KEYS, x, SCHEMA)[2] == pytest.approx(by_hand(rows, terms, x, 2), rel=1e-3)


def test_a_main_effect_is_tested_without_the_curve_of_its_own_feature():
    rows, terms, x = case(SquaredLoss())
    found = p_values(rows, terms, KEYS, x, SCHEMA)
    for j in (0, 1):
        assert found[j] == pytest.approx(by_hand(rows, terms, x, j, without=j), rel=1e-3)


def test_main_effects_on_other_scales_take_one_step_from_the_common_fit():
    rows, terms, x = case(LogLoss())
    found = p_values(rows, terms, KEYS, x, SCHEMA)
    for j in (0, 1):
        expected = by_hand(rows, terms, x, j, without=j)
        assert scipy.stats.norm.isf(found[j]) == pytest.approx(scipy.stats.norm.isf(expected), rel=0.25)


def test_terms_without_a_column_of_their_own_are_tested_too():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(N_ROWS, 2))
    n_terms = 200  # more than one for five rows
    terms = rng.normal(size=(n_terms, N_ROWS, 1)) * np.linspace(2, 1, n_terms)[:, None, None]
    truth = terms[:3].sum(axis=0) + 0.5 * terms[-1]
    rows = HeldOut(SquaredLoss(), terms.sum(axis=0), truth + rng.normal(size=(N_ROWS, 1)), np.ones(N_ROWS))
    found = p_values(rows, terms, [(0,), (1,), *[(0, 1)] * (n_terms - 2)], x, SCHEMA)
    assert found[2] < 1e-3
    noise = found[3:-1]
    assert scipy.stats.kstest(noise, "uniform").pvalue > 0.001
    assert np.median(noise) > 0.2


def test_levels_hold_for_noise_that_follows_errors_of_other_terms():
    """The model misses a slope of b; a noise interaction of correlated features would be credited with it."""
    rejected, naive = [], []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(400, 1)) + 0.4 * rng.normal(size=(400, 3))
        noise = np.sin(3 * x[:, 0]) * np.sign(x[:, 1]) + 0.3 * x[:, 2]  # leans to the third feature
        y = np.sin(2 * x[:, 2]) + 0.5 * rng.normal(size=400)
        terms = np.stack([0.5 * np.sin(2 * x[:, 2]), 0.3 * noise])[..., None]
        rows = HeldOut(SquaredLoss(), terms.sum(axis=0), y[:, None], np.ones(400))
        schema = Schema((Feature("a"), Feature("b"), Feature("c")))
        rejected.append(p_values(rows, terms, [(2,), (0, 1)], x, schema)[1] < 0.05)
        alone = terms[1, :, 0] * (y - terms[0, :, 0])
        naive.append(alone.sum() > 1.645 * np.sqrt((alone**2).sum()))
    assert np.mean(naive) > 0.3
    assert np.mean(rejected) < 0.12


def test_zero_terms_and_terms_that_follow_from_others_are_no_evidence():
    rows, terms, x = case(SquaredLoss())
    doubled = np.concatenate([terms, terms[2:], np.zeros_like(terms[:1])])
    rows = rows._replace(score=rows.score + terms[2])
    found = p_values(rows, doubled, [*KEYS, (0, 1), (0, 1)], x, SCHEMA)
    assert found[2] > 0.2
    assert found[3] > 0.2
    assert found[4] == 1.0
    assert np.isnan(slope_of(rows, np.zeros((N_ROWS, 1))))


@pytest.mark.parametrize("loss", [SquaredLoss(), LogLoss(), PoissonLoss()], ids=lambda loss: loss.name)
def test_slopes_have_the_smallest_loss(loss):
    rows, terms, _ = case(loss)
    for term in terms:
        total = lambda t, term=term: rows.mean(loss.at(rows.score + (t - 1) * term, rows.outcome))  # noqa: E731
        best = scipy.optimize.minimize_scalar(total, bounds=(-3, 5), method="bounded", options={"xatol": 1e-9})
        assert slope_of(rows, term) == pytest.approx(best.x, abs=1e-5)


def test_classes_are_tested_together():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N_ROWS, 2))
    real, noise = np.outer(x[:, 0] * x[:, 1], [1, 0, -1]), rng.normal(size=(N_ROWS, 3))
    odds = np.exp(real)
    outcome = np.eye(3)[[rng.choice(3, p=row / row.sum()) for row in odds]]
    terms = np.stack([real + 5, 0.2 * noise])  # five more for all classes mean nothing
    rows = HeldOut(MulticlassLogLoss(), terms.sum(axis=0), outcome, np.ones(N_ROWS))
    found = p_values(rows, terms, [(0, 1), None], x, SCHEMA)
    assert found[0] < 1e-6
    assert found[1] > 0.001


def test_curves_hold_straight_lines_categories_and_missing_values():
    column = np.array([3.0, 1.0, np.nan, 2.0, 5.0, 4.0])
    columns = curve_columns(column, 3, is_category=False)
    known = ~np.isnan(column)
    left = np.linalg.lstsq(np.vstack([np.ones(6), columns]).T, np.nan_to_num(column, nan=-7.0), rcond=None)[1]
    assert columns[0].tolist() == [0, 0, 1, 0, 0, 0]
    assert (columns[1:, ~known] == 0).all()
    assert left.sum() == pytest.approx(0, abs=1e-12)
    codes = np.array([0.0, 1.0, 1.0, 2.0, 2.0, 2.0])
    assert curve_columns(codes, 2, is_category=True).tolist() == [[0, 1, 1, 0, 0, 0]]
    assert curve_columns(np.full(4, np.nan), 5, is_category=False).shape == (0, 4)


def test_errors_of_means_are_those_of_the_paired_differences():
    rows = HeldOut(SquaredLoss(), np.zeros((5, 1)), np.zeros((5, 1)), np.ones(5))
    numbers = np.array([1.0, 4.0, 2.0, 8.0, 5.0])
    assert rows.error(numbers) == pytest.approx(scipy.stats.sem(numbers))
