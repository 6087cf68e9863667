"""Evidence for terms: the regression against one written out by hand, slopes against a minimiser, curves."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from treeanova.decomposition.evidence import curve_columns, evidence_of, slope_of
from treeanova.decomposition.held_out import LossRows, Question, held_out
from treeanova.decomposition.losses import (
    LogLoss,
    MulticlassLogLoss,
    PinballLoss,
    TweedieLoss,
    UserLoss,
    named_losses,
    pseudo_huber_loss,
    squared_loss,
)
from treeanova.model import Feature, Schema

SCHEMA = Schema((Feature("a"), Feature("b")))
KEYS = [(0,), (1,), (0, 1)]
N_ROWS = 600


def rows_of(loss, score, outcome, weights=None):
    return LossRows(loss, score, outcome, np.ones(len(score)) if weights is None else weights)


def p_values(rows, terms, keys, x, schema):
    return evidence_of(rows, terms, keys, x, schema).p_values


def case(loss, seed=0):
    """Rows, and a model whose terms have the coefficients 1, 0.5 and 0.4 in truth."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N_ROWS, 2))
    x[:, 1] += 0.5 * x[:, 0]
    terms = np.stack([np.sign(x[:, 0]), np.round(x[:, 1]), np.sign(x[:, 0] * (x[:, 1] - 0.5))])[..., None]
    truth = 0.5 * terms[0] + 0.25 * terms[1] + 0.2 * terms[2]
    score = terms.sum(axis=0) / 2
    if isinstance(loss, LogLoss):
        outcome = (rng.random((N_ROWS, 1)) < 1 / (1 + np.exp(-truth))).astype(float)
    elif isinstance(loss, TweedieLoss):
        outcome = rng.poisson(np.exp(truth)) + float(loss.power == 2)
    else:
        outcome = truth + rng.normal(size=(N_ROWS, 1)) * (1 + np.abs(x[:, :1]))
    weights = rng.uniform(0.5, 1.5, N_ROWS)
    return rows_of(loss, score, outcome, weights / weights.mean()), terms / 2, x


def by_hand(rows, terms, x, tested, *, without=None):
    """One-sided p-value from a fit by scipy, its HC3 covariance and its effective number of rows, written out."""
    curves = [curve_columns(x[:, j], 16, is_category=False).T for j in range(2)]
    whole = np.column_stack([terms[..., 0].T, np.ones(N_ROWS), *curves])
    kept = [curve for j, curve in enumerate(curves) if j != without]
    design = np.column_stack([terms[..., 0].T, np.ones(N_ROWS), *kept])
    w, loss = rows.row_weights, rows.loss

    def total(theta):
        return w @ loss.per_row((design @ theta)[:, None], rows.outcome)

    def gradient(theta):
        return design.T @ (w * loss.gradient((design @ theta)[:, None], rows.outcome)[:, 0])

    start = np.zeros(design.shape[1])
    theta = scipy.optimize.minimize(total, start, jac=gradient, method="BFGS", options={"gtol": 1e-7}).x
    score = design @ theta
    bend = w * loss.second_derivative_times(score[:, None], rows.outcome, np.ones((N_ROWS, 1)))[:, 0]
    inverse = np.linalg.inv(design.T @ (bend[:, None] * design))
    hat = np.linalg.inv(whole.T @ (bend[:, None] * whole))
    leverage = bend * np.einsum("ij,jk,ik->i", whole, hat, whole)
    residual = w * loss.gradient(score[:, None], rows.outcome)[:, 0] / (1 - leverage)
    direction = design @ inverse[:, tested]
    error = np.sqrt(((direction * residual) ** 2).sum())
    sizes = bend * direction**2
    n_effective = sizes.sum() ** 2 / (sizes**2).sum()
    return scipy.stats.t.sf(theta[tested] / error, min(N_ROWS - whole.shape[1], n_effective - 1))


LOSSES = [squared_loss(), LogLoss(), TweedieLoss(1.0), TweedieLoss(2.0), pseudo_huber_loss(1.0)]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_an_interaction_is_tested_with_all_terms_and_curves_fitted_again(loss):
    rows, terms, x = case(loss)
    assert p_values(rows, terms, KEYS, x, SCHEMA)[2] == pytest.approx(by_hand(rows, terms, x, 2), rel=1e-3)


def test_a_main_effect_is_tested_without_the_curve_of_its_own_feature():
    rows, terms, x = case(squared_loss())
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
    rows = rows_of(squared_loss(), terms.sum(axis=0), truth + rng.normal(size=(N_ROWS, 1)))
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
        rows = rows_of(squared_loss(), terms.sum(axis=0), y[:, None])
        schema = Schema((Feature("a"), Feature("b"), Feature("c")))
        rejected.append(p_values(rows, terms, [(2,), (0, 1)], x, schema)[1] < 0.05)
        alone = terms[1, :, 0] * (y - terms[0, :, 0])
        naive.append(alone.sum() > 1.645 * np.sqrt((alone**2).sum()))
    assert np.mean(naive) > 0.3
    assert np.mean(rejected) < 0.12


def test_copies_of_a_term_are_tested_together():
    """The sum of both is the term itself, whose test is written out by hand."""
    rows, terms, x = case(squared_loss())
    halves = np.concatenate([terms[:2], terms[2:] / 2, terms[2:] / 2, np.zeros_like(terms[:1])])
    found = evidence_of(rows, halves, [*KEYS, (0, 1), (0, 1)], x, SCHEMA)
    assert found.p_values[2:4] == pytest.approx([by_hand(rows, terms, x, 2)] * 2, rel=1e-3)
    assert found.terms == [(), (), (3,), (2,), ()]
    assert found.p_values[4] == 1.0
    assert np.isnan(slope_of(rows, np.zeros((N_ROWS, 1))))


@pytest.mark.parametrize("copies", [2, 3])
def test_copies_of_a_feature_are_tested_without_the_curves_of_all(copies):
    """Copies with halves of a main effect have the p-value of the main effect of a single feature."""
    rows, terms, x = case(squared_loss())
    alone = evidence_of(rows, terms, KEYS, x, SCHEMA)
    features = tuple(Feature(name) for name in "ab") + tuple(Feature(f"a{k}") for k in range(1, copies))
    many = np.column_stack([x, *[x[:, 0]] * (copies - 1)])
    parts = np.concatenate([terms[:1] / copies, terms[1:], *[terms[:1] / copies] * (copies - 1)])
    keys = [*KEYS, *[(k,) for k in range(2, copies + 1)]]
    found = evidence_of(rows, parts, keys, many, Schema(features))
    group = [0, *range(3, copies + 2)]
    ratios, expected = (scipy.stats.norm.isf(one.p_values) for one in (found, alone))  # curves may have a knot less
    assert ratios[group] == pytest.approx([expected[0]] * copies, rel=0.05)
    assert ratios[1:3] == pytest.approx(expected[1:3], rel=0.2)
    for u in group:
        assert found.terms[u] == tuple(v for v in group if v != u)
    assert found.terms[1] == ()


def test_copies_of_a_noise_term_are_no_evidence():
    rejected = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(200, 1))
        terms = np.stack([np.sign(x), np.sign(x)])
        rows = rows_of(squared_loss(), terms.sum(axis=0), rng.normal(size=(200, 1)))
        found = evidence_of(rows, terms, [(0,), (1,)], np.column_stack([x, x]), SCHEMA)
        assert found.terms == [(1,), (0,)]
        rejected.append(found.p_values[0] < 0.05)
    assert np.mean(rejected) < 0.12


def test_terms_that_cancel_each_other_are_no_evidence():
    rows, terms, x = case(squared_loss())
    found = evidence_of(rows, np.concatenate([terms, -terms[2:]]), [*KEYS, (0, 1)], x, SCHEMA)
    assert found.p_values[2:].tolist() == [1.0, 1.0]


def test_quantiles_are_tested_by_a_smooth_loss():
    """At the median of symmetric noise, absolute errors find what squared errors find; noise terms are not found."""
    p, real = [], []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(400, 2))
        noise, term = np.sign(rng.normal(size=(400, 1))), np.sign(x[:, :1] * x[:, 1:])
        terms = np.stack([0.3 * term, 0.3 * noise])
        rows = rows_of(PinballLoss(0.5), terms.sum(axis=0), 0.3 * term + rng.normal(size=(400, 1)))
        found = p_values(rows, terms, [(0, 1), None], x, SCHEMA)
        real.append(found[0])
        p.append(found[1])
    assert np.mean(np.array(p) < 0.05) < 0.12
    assert scipy.stats.kstest(p, "uniform").pvalue > 0.001
    assert np.mean(np.array(real) < 0.05) > 0.9


def test_hazards_are_tested_by_the_partial_likelihood():
    p, real = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(400, 2))
        noise, term = np.sign(rng.normal(size=(400, 1))), np.sign(x[:, :1] * x[:, 1:])
        time = rng.exponential(size=(400, 1)) * np.exp(-0.5 * term)
        times = np.where(rng.random((400, 1)) < 0.7, time, -time)
        terms = np.stack([0.5 * term, 0.3 * noise])
        rows = held_out(Question([0], named_losses("cox", 1)[0], ""), terms.sum(axis=0), times, np.ones(400), None)
        found = p_values(rows, terms, [(0, 1), None], x, SCHEMA)
        real.append(found[0])
        p.append(found[1])
    assert np.mean(np.array(p) < 0.05) < 0.15
    assert np.mean(np.array(real) < 0.05) > 0.9


def test_functions_have_no_p_values():
    question = Question([0], UserLoss(lambda s, y: np.abs(s - y[:, 0])), "")
    rows, terms, x = case(squared_loss())
    function = held_out(question, rows.score, rows.outcome, rows.row_weights, None)
    found = evidence_of(function, terms, KEYS, x, SCHEMA)
    assert np.isnan(found.p_values).all()
    assert "has no derivatives" in found.reason


def test_a_regression_without_a_finite_solution_has_no_p_values():
    """Labels that the term separates: the coefficient would be infinite."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N_ROWS, 2))
    terms = x.T[..., None]
    rows = rows_of(LogLoss(), terms.sum(axis=0), (x[:, :1] > 0).astype(float))
    found = evidence_of(rows, terms, [(0,), (1,)], x, SCHEMA)
    assert np.isnan(found.p_values).all()
    assert "no finite solution" in found.reason


def test_ends_of_curves_without_rows_of_a_class_cost_no_p_values():
    """The end of a curve has rows of two classes only in many of these samples: its coefficient grows for ever."""
    schema = Schema(tuple(Feature(f"x{j}") for j in range(4)))
    keys, p = [(0,), (2,), (0, 1), (3,), (0, 2), (1, 3)], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(400, 4))
        x[:, 1] = 0.6 * x[:, 0] + 0.8 * x[:, 1]
        real = [np.outer(3 * x[:, 0], [1, 0, 0]), np.outer(-3 * x[:, 2], [0, 1, 0])]
        real.append(np.outer(2 * x[:, 0] * x[:, 1], [1, 0, 0]))
        outcome = np.eye(3)[np.argmax(sum(real) + rng.gumbel(size=(400, 3)), axis=1)]
        noise = [0.2 * np.outer(np.sin(2 * x[:, 3]), rng.normal(size=3))]
        noise += [0.3 * rng.choice([-1, 1], size=(400, 3)) for _ in range(2)]
        terms = 0.8 * np.stack([*real, *noise])
        p.append(p_values(rows_of(MulticlassLogLoss(), terms.sum(axis=0), outcome), terms, keys, x, schema))
    found = np.array(p)
    assert not np.isnan(found).any()
    assert (found[:, :3] < 0.05).mean() > 0.95
    assert (found[:, 3:] < 0.05).mean() < 0.12


@pytest.mark.parametrize("noise", [0.5, 0.2, 0.05])
def test_strong_terms_count_where_they_nearly_separate_the_classes(noise):
    """Rows near the boundary alone could not distinguish them: there, one real feature follows from the other."""
    schema = Schema(tuple(Feature(f"x{j}") for j in range(4)))
    keys, p = [(0,), (1,), (2,), (0, 1)], []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(400, 4))
        outcome = (2 * x[:, 0] + x[:, 1] + noise * rng.logistic(size=400) > 0).astype(float)
        steps = np.sign(x[:, :2]) * np.minimum(np.abs(x[:, :2]), 1.5)
        terms = np.stack([2 * steps[:, 0], steps[:, 1], 0.2 * np.sin(3 * x[:, 2]), 0.3 * steps.prod(axis=1)])[..., None]
        rows = rows_of(LogLoss(), terms.sum(axis=0), outcome[:, None])
        found = evidence_of(rows, terms, keys, x, schema)
        assert not any(found.terms)
        p.append(found.p_values)
    real, noise_terms = np.array(p)[:, :2], np.array(p)[:, 2:]
    assert np.isnan(real).mean() < 0.4
    assert (real[~np.isnan(real)] < 0.05).all()
    assert (real[~np.isnan(real)] < 0.001).mean() > 0.8
    assert (noise_terms < 0.05).mean() < 0.15


@pytest.mark.parametrize("loss", [*LOSSES, PinballLoss(0.7)], ids=lambda loss: loss.name)
def test_slopes_have_the_smallest_loss(loss):
    rows, terms, _ = case(loss)
    for term in terms:
        total = lambda t, term=term: rows.mean_loss(rows.score + (t - 1) * term)  # noqa: E731
        best = scipy.optimize.minimize_scalar(total, bounds=(-3, 5), method="bounded", options={"xatol": 1e-9})
        assert slope_of(rows, term) == pytest.approx(best.x, abs=1e-5)


def test_classes_are_tested_together():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N_ROWS, 2))
    real, noise = np.outer(x[:, 0] * x[:, 1], [1, 0, -1]), rng.normal(size=(N_ROWS, 3))
    odds = np.exp(real)
    outcome = np.eye(3)[[rng.choice(3, p=row / row.sum()) for row in odds]]
    terms = np.stack([real + 5, 0.2 * noise])  # five more for all classes mean nothing
    rows = rows_of(MulticlassLogLoss(), terms.sum(axis=0), outcome)
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


def test_one_row_of_enormous_influence_is_no_evidence():
    """A term that only one row tells from all others fits that row, whose residual then says nothing of its error."""
    rng = np.random.default_rng(0)
    encoded = rng.normal(size=(400, 2))
    main = np.tanh(encoded)
    pair = 1e-3 * encoded[:, 0] * encoded[:, 1]
    pair[17] = 1.0
    values = np.stack([main[:, 0], main[:, 1], pair])[..., None]
    outcome = main.sum(axis=1, keepdims=True) + rng.normal(size=(400, 1))
    outcome[17] += 30.0
    held = held_out(Question([0], squared_loss(), ""), values.sum(axis=0), outcome, np.ones(400), None)
    evidence = evidence_of(held, values, KEYS, encoded, SCHEMA)
    assert np.isnan(evidence.p_values[2])
    assert evidence.p_values[:2].max() < 1e-6
    few = pair.copy()
    few[17:20] = 1.0
    values[2, :, 0], outcome[18:20] = few, outcome[17]
    held = held_out(Question([0], squared_loss(), ""), values.sum(axis=0), outcome, np.ones(400), None)
    assert 1e-4 < evidence_of(held, values, KEYS, encoded, SCHEMA).p_values[2] < 0.05  # three rows are few


def test_a_term_that_is_constant_at_the_rows_has_no_p_value():
    rows, terms, x = case(squared_loss())
    terms = np.concatenate([terms, np.full((1, N_ROWS, 1), 0.3)])
    x = np.column_stack([x, np.zeros(N_ROWS)])
    schema = Schema((Feature("a"), Feature("b"), Feature("c")))
    shifted_rows = rows_of(rows.loss, rows.score + 0.3, rows.outcome + 0.3, rows.row_weights)
    found = evidence_of(shifted_rows, terms, [*KEYS, (2,)], x, schema)
    assert np.isnan(found.p_values[3])
    assert not np.isnan(found.p_values[:3]).any()
    assert found.reasons[3] == "it does not vary at these rows"


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9, 0.95])
@pytest.mark.parametrize("seed", range(3))
def test_strong_terms_of_quantiles_have_p_values(level, seed):
    """A regression of quantiles has a finite solution at any rows."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N_ROWS, 2))
    pair = 2 * x[:, 0] * x[:, 1]
    outcome = (pair + rng.normal(size=N_ROWS))[:, None]
    terms = np.stack([0.2 * np.sign(x[:, 0]), 0.2 * np.sign(x[:, 1]), pair])[..., None]
    rows = rows_of(PinballLoss(level), terms.sum(axis=0) + np.quantile(rng.normal(size=N_ROWS), level), outcome)
    assert evidence_of(rows, terms, KEYS, x, SCHEMA).p_values[2] < 1e-6
