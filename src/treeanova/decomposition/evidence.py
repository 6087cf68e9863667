"""Evidence of held-out rows: whether the outcome follows a term, given all the others.

If features are dependent, a term that fits noise correlates with the errors of main effects and with the noise in other
interactions, which such terms cancel. A test of the term alone then finds interactions that do not exist. So under the
null hypothesis the outcome does not follow the term once all else has been fitted again: every other term has its own
coefficient, and every feature a piecewise linear curve, except the term's own feature for a main effect. An interaction
is pure, so curves of its own features cost it no power.

If the rows cannot distinguish a term from others, for example because a feature is a copy, such a regression says
nothing about it. Variance inflation of the coefficient finds these terms. They are tested as one sum, without the
curves of their features.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
import scipy.special

from treeanova.core.arrays import Bools, Floats, Ints, Key
from treeanova.data.features import Schema
from treeanova.decomposition.held_out import HeldOut, LossRows

_MOST_KNOTS = 16
_UNITS_PER_COLUMN = 5
_INFORMATIVE_PER_COLUMN = 2.5  # at the fit; with fewer, a regression nearly separates the classes by chance
_FEWEST_COLUMNS = 8
_ROWS_PER_PIECE = 20
_MOST_NUMBERS = 40_000_000
_STEPS = 25
_RIDGE = 1e-9
_CONVERGED = 0.01  # gain of the last step, relative to what a column of noise gains: the mean loss of one unit
_MOST_INFLATION = 10.0  # of the variance of a coefficient by other columns: a correlation of 0.95 with one of them
_SAFE_INFLATION = 1e4  # up to which a column can be taken out of an inverse without a loss of digits
_MOST_OF_ONE_ROW = 0.5  # share of what tells a term from all others, beyond which one row decides about it
_ROUNDING = 1e-12  # size of a term relative to the score, below which it is zero
_MOST_RATIO = 2.0  # of the loss that a term saves to what the curvature says; beyond it, the loss is fitted without it
_MISSED_GAIN = 0.25  # after one step, in mean losses of one unit
_SMALL_GAIN = 1.0  # in mean losses of one unit, below which that does not matter
_CLEARLY = 0.001  # p-value below which a term counts, though a single outcome makes up most of its error
_CONSTANT = "it does not vary at these rows"
_ONE_ROW = "a single row distinguishes it from all other terms"
_ONE_OUTCOME = "a single outcome, which the regression without it makes nearly impossible, decides about it"
_SEPARATED = "the regression without it has no finite solution at these rows"


def slope_of(held: HeldOut, values: Floats) -> float:
    """Return the factor of a term with the smallest loss, given its values (n_rows, n_outputs); NaN if it is zero."""
    if not np.abs(values).max(initial=0.0) > _ROUNDING * np.abs(held.score).max(initial=0.0):
        return np.nan
    offset = held.score - values
    if held.is_differentiable and not (isinstance(held, LossRows) and held.is_kinked):
        return float(_fit_coefficients(held, values[None], offset, np.ones(1))[0][0])
    best = scipy.optimize.minimize_scalar(lambda slope: held.mean_loss(offset + slope * values), bracket=(0, 1))
    return float(best.x)


def _fit_coefficients(held: HeldOut, columns: Floats, offset: Floats, start: Floats) -> tuple[Floats, bool]:
    """Return coefficients of columns, added to scores `offset`, with the smallest loss, and whether the fit converged.

    Columns have shape (n_columns, n_rows, n_outputs). Newton's method with step halving begins at `start`.

    If a curve has rows of some classes only at its end, its coefficient grows without bound, but the loss soon gains
    nothing by it: that counts as converged.
    """
    coefficients, score = start, offset + np.tensordot(start, columns, axes=1)
    loss, gain = held.mean_loss(score), np.inf
    for _ in range(_STEPS):
        step, hoped_gain = _newton_step(held, columns, score)
        for _ in range(_STEPS):
            changed = score + np.tensordot(step, columns, axes=1)
            new_loss = held.mean_loss(changed)
            if new_loss <= loss:  # not if it overflows
                break
            step = step / 2
        else:
            gain = hoped_gain
            break
        coefficients, score, gain, loss = coefficients + step, changed, loss - new_loss, new_loss
        if gain <= 1e-12 * max(abs(loss), 1e-300):
            break
    return coefficients, gain * held.n_units <= _CONVERGED * max(abs(loss), 1e-300)


def _newton_step(held: HeldOut, columns: Floats, score: Floats) -> tuple[Floats, float]:
    """Return Newton's step of the columns' coefficients, and the mean loss that it gains if the loss is quadratic."""
    n_columns = len(columns)
    flat = columns.reshape(n_columns, -1)
    curved = held.second_derivative_times(score, columns).reshape(n_columns, -1)
    slopes = flat @ held.gradient(score).ravel()
    step = -_inverse(flat @ curved.T) @ slopes
    return step, -float(slopes @ step) / (2 * held.n_units)


def _inverse(matrix: Floats) -> Floats:
    """Invert a matrix of normal equations with a tiny ridge: columns that follow from others get a huge error."""
    sizes = np.diag(matrix)
    scale = 1 / np.sqrt(np.where(sizes > 0, sizes, 1.0))
    scaled = scale[:, None] * matrix * scale + _RIDGE * np.eye(len(matrix))
    return np.asarray(scale[:, None] * np.linalg.inv(scaled) * scale)


class Evidence(NamedTuple):
    """One-sided p-values of terms, what each is tested with, and why there is none for a term, or for all."""

    p_values: Floats
    terms: list[tuple[int, ...]]  # per term, positions of the terms that it is tested with
    features: list[tuple[int, ...]]  # per term, positions of the features whose curves it is tested with
    reasons: list[str]  # per term, why it has no p-value
    reason: str = ""  # why no term has one


def evidence_of(held: HeldOut, values: Floats, keys: Sequence[Key | None], encoded: Floats, schema: Schema) -> Evidence:
    """Test whether the outcome follows each term, (n_terms, n_rows, n_outputs); keys are None for sums of terms."""
    # Standard errors are robust (HC3; HC2 for hazards and quantiles): they hold for any variance of the outcome.
    if not held.is_differentiable:
        return _no_evidence(len(values), f"{held.loss.name} has no derivatives, by which the regression is fitted")
    rows = held.smooth() if isinstance(held, LossRows) else held
    values = rows.loss.without_invariant_part(values)
    max_columns = int(min(rows.n_units, rows.n_informative(rows.score)) / _UNITS_PER_COLUMN)
    regression = _Regression(rows, _design(rows, values, keys, encoded, schema, max_columns=max_columns), values)
    while not regression.is_determined and max_columns > _FEWEST_COLUMNS:
        max_columns = max(max_columns // 2, _FEWEST_COLUMNS)
        regression = _Regression(rows, _design(rows, values, keys, encoded, schema, max_columns=max_columns), values)
    if not regression.has_converged:
        reason = "the regression on all terms and curves has no finite solution at these rows, which are too few for it"
        return _no_evidence(len(values), reason)
    tests = [_test_term(regression, position, key) for position, key in enumerate(keys)]
    return Evidence(
        np.array([p for p, _, _ in tests]),
        [hypothesis.partners for _, _, hypothesis in tests],
        [hypothesis.features for _, _, hypothesis in tests],
        [reason for _, reason, _ in tests],
    )


def _no_evidence(n_terms: int, reason: str) -> Evidence:
    """Return no p-value for any term, with the reason."""
    tested_alone: list[tuple[int, ...]] = [()] * n_terms
    return Evidence(np.full(n_terms, np.nan), tested_alone, tested_alone, [""] * n_terms, reason)


class _Hypothesis(NamedTuple):
    """That the outcome does not follow a term, nor partners of it, nor curves of features; all are positions."""

    term: int
    partners: tuple[int, ...]
    features: tuple[int, ...]


def _test_term(regression: _Regression, term: int, key: Key | None) -> tuple[float, str, _Hypothesis]:
    """Return the p-value of a term (its position), why there is none, and what was tested."""
    # A term that the rows hardly distinguish from others is tested together with these, its partners.
    main_key = key if key is not None and len(key) == 1 else ()
    if regression.is_constant(term):
        return np.nan, _CONSTANT, _Hypothesis(term, (), ())
    if not regression.size_of_term(term) > 0:
        return 1.0, "", _Hypothesis(term, (), ())
    hypothesis = _Hypothesis(term, (), tuple(main_key))
    while regression.inflation(hypothesis) > _MOST_INFLATION:
        wider = regression.with_partner(hypothesis)
        if wider == hypothesis:
            break
        hypothesis = wider
    curves = tuple(j for j in hypothesis.features if j not in main_key)
    return *regression.p_value(hypothesis), hypothesis._replace(features=curves)


@dataclasses.dataclass(frozen=True, eq=False)
class _Design:
    """Columns of the regression, (n_columns, n_rows, n_outputs): terms first, intercepts, curves of features."""

    columns: Floats
    term: Ints  # position of the term of each column; -1 for others
    feature: Ints  # of columns of curves and main effects; -1 for others
    is_curve: Bools

    def is_in_null(self, hypothesis: _Hypothesis) -> Bools:
        """Return which columns stay in the regression under a null hypothesis."""
        terms = (hypothesis.term, *hypothesis.partners)
        return ~(np.isin(self.term, terms) | (self.is_curve & np.isin(self.feature, hypothesis.features)))

    @property
    def is_intercept(self) -> Bools:
        """Whether a column is that of an output's intercept."""
        return (self.term < 0) & ~self.is_curve


class _Metric:
    """Columns of a regression and their inner products, weighted by the second derivative of the loss at a score."""

    def __init__(self, held: HeldOut, columns: Floats, score: Floats) -> None:
        self._held, self._columns, self.score = held, columns, score
        self.flat = columns.reshape(len(columns), -1)  # (n_columns, n_rows * n_outputs)
        self.curved = held.second_derivative_times(score, columns).reshape(len(columns), -1)  # the same, weighted
        self._matrix = self.flat @ self.curved.T
        self.inverse = _inverse(self._matrix)

    @functools.cached_property
    def shrinkage(self) -> Any:
        """How much the regression shrinks the residual of each row or group; see `HeldOut.shrinkage`."""
        curved = self.curved.reshape(self._columns.shape)
        return self._held.shrinkage(self.score, self._columns, curved, self.inverse)

    def weighted(self, column: Floats) -> Floats:
        """Return the second derivative times a flat column."""
        return self._held.second_derivative_times(self.score, column.reshape(1, *self.score.shape)).ravel()

    def residual_size(self, column: Floats, is_fitted: Bools) -> tuple[float, Floats]:
        """Regress a flat column on the fitted columns: return the squared norm of its residual, and coefficients."""
        weighted = self.weighted(column)
        products = self.flat[is_fitted] @ weighted
        coefficients = self.inverse_of(is_fitted) @ products
        return float(column @ weighted - products @ coefficients), coefficients

    def inverse_of(self, is_fitted: Bools) -> Floats:
        """Return the inverse of the normal equations of fitted columns, by an update if that keeps its digits."""
        dropped = np.flatnonzero(~is_fitted)
        if len(dropped) == 1 and self.inverse[dropped, dropped] * self._matrix[dropped, dropped] < _SAFE_INFLATION:
            cross = self.inverse[is_fitted, dropped]
            correction = np.outer(cross, cross) / self.inverse[dropped, dropped]
            return np.asarray(self.inverse[np.ix_(is_fitted, is_fitted)] - correction)
        return _inverse(self._matrix[np.ix_(is_fitted, is_fitted)])


class _Regression:
    """The regression at its fit; coefficients of terms add to the model's own, which are 1.

    Copies of terms are found among all rows alike: rows of which a fit is certain say nothing about a coefficient, but
    they do distinguish terms.
    """

    def __init__(self, held: HeldOut, design: _Design, values: Floats) -> None:
        columns = design.columns
        self._held, self._design, self._values = held, design, values
        self._coefficients, self.has_converged = _fit_coefficients(held, columns, held.score, np.zeros(len(columns)))
        score = held.score + np.tensordot(self._coefficients, columns, axes=1)
        self._fit = _Metric(held, columns, score)
        # at score 0, all rows count, even those whose class is certain
        self._all_rows = _Metric(held, columns, np.zeros_like(score)) if held.can_be_certain else self._fit
        self._residual = -held.gradient(score).ravel()
        self._n_columns = len(columns) / max(score.shape[1] - 1, 1)  # of each class but one
        self._n_degrees_of_freedom = max(held.n_units - self._n_columns, 1)

    @property
    def is_determined(self) -> bool:
        """Whether the fit has converged, and the rows still say more than the columns can absorb."""
        n_informative = self._held.n_informative(self._fit.score) if self._held.can_be_certain else np.inf
        return self.has_converged and n_informative >= _INFORMATIVE_PER_COLUMN * self._n_columns

    def size_of_term(self, term: int) -> float:
        """Return the squared norm of a term's deviations from its mean, given its position; 0 if they are rounding."""
        column = self._values[term].ravel()
        if not np.abs(column).max(initial=0.0) > _ROUNDING * np.abs(self._held.score).max(initial=0.0):
            return 0.0
        size, _ = self._all_rows.residual_size(column, self._design.is_intercept)
        return size if size > 1e-12 * float(column @ self._all_rows.weighted(column)) else 0.0

    def is_constant(self, term: int) -> bool:
        """Whether a term that is not zero has the same value at all rows."""
        values, score = self._values[term], self._held.score
        largest = np.abs(values).max(initial=0.0)
        return bool(largest > _ROUNDING * np.abs(score).max(initial=0.0) >= np.ptp(values, axis=0).max())

    def inflation(self, hypothesis: _Hypothesis) -> float:
        """Return the variance inflation factor: how much columns of the null raise that of the coefficient."""
        column = self._values[hypothesis.term].ravel()
        unexplained_size, _ = self._all_rows.residual_size(column, self._design.is_in_null(hypothesis))
        size = self.size_of_term(hypothesis.term)
        return size / unexplained_size if unexplained_size > 0 else np.inf

    def with_partner(self, hypothesis: _Hypothesis) -> _Hypothesis:
        """Add to a hypothesis the term or curve, of those that it still fits, that best explains its term."""
        # Rows that hardly distinguish two terms say only whether the outcome follows one of them.
        design, in_null = self._design, self._design.is_in_null(hypothesis)
        blocks = [block & in_null for block in self._blocks() if (block & in_null).any()]
        if not blocks:
            return hypothesis
        column = self._values[hypothesis.term].ravel()
        block = min(blocks, key=lambda other: self._all_rows.residual_size(column, design.is_intercept | other)[0])
        terms = {*hypothesis.partners, *design.term[block & (design.term >= 0)].tolist()}
        features = {*hypothesis.features, *design.feature[block & (design.feature >= 0)].tolist()}
        return hypothesis._replace(partners=tuple(sorted(terms)), features=tuple(sorted(features)))

    def _blocks(self) -> list[Bools]:
        """Return masks of columns that are left out together: a main effect with its curve, or another term."""
        design = self._design
        features = [design.feature == j for j in np.unique(design.feature[design.feature >= 0])]
        interactions = np.flatnonzero((design.term >= 0) & (design.feature < 0))
        return [*features, *(np.arange(len(design.term)) == index for index in interactions)]

    def p_value(self, hypothesis: _Hypothesis) -> tuple[float, str]:
        """Return the one-sided p-value of the sum of a hypothesis' terms, or NaN and why there is none."""
        # The coefficient of that sum, in a regression without their own columns, is estimated by one Newton step from
        # the full fit. Where that step does not get there, or the loss without the terms is far from what the curvature
        # says, as for a strong term of a classifier, the test is done at the fit without them.
        fit, in_null = self._fit, self._design.is_in_null(hypothesis)
        column = self._values[[hypothesis.term, *hypothesis.partners]].sum(axis=0).ravel()
        size, coefficients = fit.residual_size(column, in_null)
        if not size > 1e-9 * float(column @ fit.weighted(column)):
            return 1.0, ""  # the terms cancel each other
        unexplained = column - coefficients @ fit.flat[in_null]
        left_out = self._coefficients[~in_null]
        pull = left_out @ fit.curved[~in_null] + self._residual  # minus the gradient without the columns left out
        excess = float(unexplained @ pull) / size  # of the coefficient, over the model's own, which is 1
        null_step = fit.inverse_of(in_null) @ (fit.flat[in_null] @ pull) - excess * coefficients
        step = excess * column + null_step @ fit.flat[in_null] - left_out @ fit.flat[~in_null]
        score = fit.score + step.reshape(fit.score.shape)
        if not self._is_quadratic(score, in_null, unexplained * (1 + excess)):
            p_value, reason = self._p_value_at_null(column, in_null)
            if reason != _SEPARATED or not self._held.loss.is_on_scale:  # scores on the outcome's scale stay finite
                return p_value, reason
        return self._p_value_of(score, unexplained, fit.weighted(unexplained), 1 + excess, fit.shrinkage)

    def _is_quadratic(self, score: Floats, in_null: Bools, effect: Floats) -> bool:
        """Whether the curvature at the fit predicts what an effect saves of the loss at a score."""
        held, fit = self._held, self._fit
        loss, loss_without = held.mean_loss(score), held.mean_loss(score - effect.reshape(score.shape))
        gain, expected_gain = held.n_units * (loss_without - loss), float(effect @ fit.weighted(effect)) / 2
        is_small = max(gain, expected_gain) < _SMALL_GAIN * abs(loss)
        slopes = fit.flat[in_null] @ held.gradient(score).ravel()
        missed_gain = float(slopes @ fit.inverse_of(in_null) @ slopes) / 2
        is_as_expected = expected_gain / _MOST_RATIO < gain < expected_gain * _MOST_RATIO
        return missed_gain <= _MISSED_GAIN * abs(loss) and (is_small or is_as_expected)

    def _p_value_at_null(self, column: Floats, in_null: Bools) -> tuple[float, str]:
        """Test a flat column by the derivative of the loss at the fit of the null's columns, with errors HC2."""
        held, columns = self._held, self._design.columns[in_null]
        offset = held.score - column.reshape(held.score.shape)
        fitted, has_converged = _fit_coefficients(held, columns, offset, np.zeros(len(columns)))
        if not has_converged:
            return np.nan, _SEPARATED
        null = _Metric(held, columns, offset + np.tensordot(fitted, columns, axes=1))
        size, coefficients = null.residual_size(column, np.ones(len(columns), dtype=bool))
        if not size > 0:
            return 1.0, ""
        unexplained = column - coefficients @ null.flat
        estimate = -float(unexplained @ held.gradient(null.score).ravel()) / size
        shrinkage = np.sqrt(null.shrinkage) if isinstance(held, LossRows) else null.shrinkage
        p_value, reason = self._p_value_of(null.score, unexplained, null.weighted(unexplained), estimate, shrinkage)
        influence = held.derivative_by_unit(null.score, unexplained.reshape(held.score.shape), shrinkage) ** 2
        if p_value > _CLEARLY and influence.max() > _MOST_OF_ONE_ROW * influence.sum():
            return np.nan, _ONE_OUTCOME
        return p_value, reason

    def _p_value_of(
        self, score: Floats, unexplained: Floats, curve: Floats, estimate: float, shrinkage: Any
    ) -> tuple[float, str]:
        """Return the p-value of an estimate by its robust error at a score, or NaN and why there is none."""
        # `unexplained` is the residual of its column on all others, `curve` the second derivative times that.
        size, shape = float(unexplained @ curve), score.shape
        sizes = np.maximum((unexplained * curve).reshape(shape).sum(axis=1), 0.0)
        if sizes.max() > _MOST_OF_ONE_ROW * sizes.sum():
            return np.nan, _ONE_ROW  # its residual is zero: no robust error says how much it varies
        influence = self._held.derivative_by_unit(score, (unexplained / size).reshape(shape), shrinkage)
        error = np.sqrt((influence**2).sum())
        ratio = estimate / error if error > 0 else np.inf * np.sign(estimate)
        n_effective = sizes.sum() ** 2 / (sizes**2).sum()  # rows that tell this term from all others
        return float(scipy.special.stdtr(min(self._n_degrees_of_freedom, max(n_effective - 1, 1)), -ratio)), ""


def _design(
    held: HeldOut, values: Floats, keys: Sequence[Key | None], encoded: Floats, schema: Schema, *, max_columns: int
) -> _Design:
    """Build as many columns as the rows allow: main effects, the strongest terms, curves of all features."""
    n_rows, n_outputs = held.score.shape
    n_free = max(n_outputs - 1, 1)  # outputs with curves: scores of classes are known up to a constant
    max_columns = max(min(max_columns, _MOST_NUMBERS // (n_rows * n_outputs)) - n_free, 2)
    used = sorted({j for key in keys if key is not None for j in key})
    n_knots = min(_MOST_KNOTS, 1 + max_columns // (2 * n_free * max(len(used), 1)))
    curves = {j: curve_columns(encoded[:, j], n_knots, is_category=schema.features[j].is_category) for j in used}
    n_curves = n_free * sum(len(columns) for columns in curves.values())
    rounding = _ROUNDING * np.abs(held.score).max(initial=0.0)
    terms = _terms_with_columns(values, keys, max(max_columns - n_curves, 1), rounding)
    constant = [np.ones((1, n_rows))] if held.has_constant else []
    feature = [*[-1] * len(constant), *(j for j, columns in curves.items() for _ in columns)]
    by_output = np.eye(n_outputs)[:n_free]
    of_rows = np.concatenate([*constant, *curves.values()])
    per_output = (of_rows[:, None, :, None] * by_output[:, None]).reshape(-1, n_rows, n_outputs)
    mains = [_feature_of_main_effect(keys[position]) for position in terms]
    return _Design(
        np.concatenate([values[list(terms)], per_output]),
        np.array([*terms, *[-1] * len(per_output)]),
        np.array([*mains, *np.repeat(feature, n_free).tolist()]),
        np.array([*[False] * len(terms), *(np.repeat(feature, n_free) >= 0).tolist()], dtype=bool),
    )


def _feature_of_main_effect(key: Key | None) -> int:
    """Return the position of the feature; -1 if the key is not that of a main effect."""
    return key[0] if key is not None and len(key) == 1 else -1


def _terms_with_columns(values: Floats, keys: Sequence[Key | None], max_terms: int, rounding: float) -> tuple[int, ...]:
    """Return positions of terms, (n_terms, n_rows, n_outputs), that get a column: main effects, then the largest."""
    variances = np.array([(values_of_term**2).sum() for values_of_term in values])
    is_main = np.array([_feature_of_main_effect(key) >= 0 for key in keys], dtype=bool)
    ranked = np.lexsort((-variances, ~is_main))
    return tuple(int(term) for term in ranked[:max_terms] if np.abs(values[term]).max() > rounding)


def curve_columns(column: Floats, n_knots: int, *, is_category: bool) -> Floats:
    """Return columns (n_columns, n_rows) that span smooth functions of an encoded feature, without the constant."""
    # Numbers: piecewise linear between quantiles, denser towards both ends; a long piece in a tail would make
    # deviations from a straight line look like an interaction of correlated features. Categories: indicators of the
    # most frequent, and of missing values.
    missing = np.isnan(column)
    filled = np.where(missing, np.inf if is_category else 0.0, column)
    columns = [missing.astype(np.float64)] if 0 < missing.sum() < len(column) else []
    if is_category:
        codes, counts = np.unique(column[~missing], return_counts=True)
        frequent = codes[np.argsort(-counts, kind="stable")][1:n_knots]
        columns += [(filled == code).astype(np.float64) for code in frequent]
    else:
        finite = column[np.isfinite(column)]
        knots = _knots(finite, n_knots) if len(finite) else np.empty(0)
        columns += [np.interp(filled, knots, at_knots) * ~missing for at_knots in np.eye(len(knots))[1:]]  # hats
    return np.array(columns).reshape(len(columns), len(column))


def _knots(values: Floats, n_knots: int) -> Floats:
    """Return the extremes, and quantiles between them, denser towards both ends, with some rows on either side."""
    levels = (1 - np.cos(np.linspace(0, np.pi, n_knots))) / 2
    inner = levels[np.minimum(levels, 1 - levels) * len(values) >= _ROWS_PER_PIECE]
    return np.unique(np.quantile(values, [0.0, *inner, 1.0], method="inverted_cdf"))
