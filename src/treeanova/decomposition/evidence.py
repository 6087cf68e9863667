"""Evidence for terms on held-out rows: a regression of the outcome on all terms and smooth functions of all features.

A term that fits noise still correlates with the errors of the other terms where features are dependent: with errors of
main effects, and with the noise in other interactions, which such terms cancel out. A test of the term alone then finds
"evidence" for interactions that do not exist. So the null hypothesis is that the outcome does not follow the term once
all else in the model has been fitted again: every other term has a coefficient of its own, and every feature a smooth
curve of its own (piecewise linear), the term's own feature excepted for a main effect. Purity helps: an interaction has
nothing in common with curves of its own features, so that these cost it no power.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.special

from treeanova.core.arrays import Floats, Ints, Key
from treeanova.data.features import Schema
from treeanova.decomposition.losses import Loss

_MOST_KNOTS = 16
_ROWS_PER_COLUMN = 5
_ROWS_PER_PIECE = 20
_MOST_NUMBERS = 40_000_000
_STEPS = 25
_RIDGE = 1e-9
_HIGHEST_LEVERAGE = 0.9
_MOST_INFLATION = 1e6  # of the variance of a coefficient by other columns, beyond which the data cannot tell


class HeldOut(NamedTuple):
    """Held-out rows of one outcome: its loss, the model's score, the outcome and weights of sum n_rows."""

    loss: Loss
    score: Floats
    outcome: Floats
    weights: Floats

    def mean(self, numbers: Floats) -> float:
        """Weighted mean over the rows."""
        return float(np.average(numbers, weights=self.weights))

    def error(self, numbers: Floats) -> float:
        """Standard error of the weighted mean over the rows."""
        n_rows = len(numbers)
        deviations = self.weights * (numbers - self.mean(numbers))
        return float(np.sqrt((deviations**2).sum() / (n_rows * max(n_rows - 1, 1))))


def slope_of(rows: HeldOut, values: Floats) -> float:
    """The multiple of a term, all others staying as they are, with the smallest loss; NaN where the term is zero."""
    if not np.abs(values).max(initial=0.0) > 0:
        return np.nan
    fitted = _fitted(rows, values[None], rows.score - values, np.ones(1))
    return float(fitted[0])


def _fitted(rows: HeldOut, columns: Floats, offset: Floats, start: Floats) -> Floats:
    """Coefficients of columns with the smallest loss, by Newton's method; steps are halved until they help."""
    coefficients, score = start, offset + np.tensordot(start, columns, axes=1)
    loss = rows.mean(rows.loss.at(score, rows.outcome))
    for _ in range(_STEPS):
        gradient, matrix = _normal_equations(rows, columns, score)
        step = np.linalg.solve(matrix, gradient)
        for _ in range(_STEPS):
            changed = score + np.tensordot(step, columns, axes=1)
            new_loss = rows.mean(rows.loss.at(changed, rows.outcome))
            if new_loss <= loss:
                break
            step = step / 2
        else:
            break
        coefficients, score, gain, loss = coefficients + step, changed, loss - new_loss, new_loss
        if gain <= 1e-12 * max(abs(loss), 1e-300):
            break
    return coefficients


def _normal_equations(rows: HeldOut, columns: Floats, score: Floats) -> tuple[Floats, Floats]:
    """Gradient and second derivative of the loss, for least squares in one step."""
    residual = rows.weights[:, None] * (rows.outcome - rows.loss.mean(score))
    curved = rows.weights[:, None] * rows.loss.curved(score, columns)
    flat, n = columns.reshape(len(columns), -1), len(columns)
    matrix = flat @ curved.reshape(n, -1).T
    scale = np.diag(matrix)
    return flat @ residual.ravel(), matrix + np.diag(_RIDGE * scale + np.finfo(np.float64).tiny)


# The regression.


@dataclasses.dataclass(frozen=True, eq=False)
class _Design:
    """Columns of the regression: terms that have coefficients of their own, intercepts, and curves of features.

    Attributes
    ----------
    columns
        Shape (n_columns, n_rows, n_outputs).
    terms
        Positions of the terms, in the order of their columns, which come first.
    feature
        The feature of each column that is part of a curve; -1 for all others.
    """

    columns: Floats
    terms: tuple[int, ...]
    feature: Ints

    def without_curve(self, feature: int) -> Ints:
        """Positions of all columns except the curve of a feature."""
        return np.flatnonzero(self.feature != feature)


def p_values(rows: HeldOut, values: Floats, keys: Sequence[Key | None], encoded: Floats, schema: Schema) -> Floats:
    """One-sided p-values of terms of shape (n_terms, n_rows, n_outputs); `keys` are None for sums of terms.

    Standard errors are robust (HC3): they hold for any variance of the outcome.
    """
    values = rows.loss.invariant(values)
    design = _design(rows, values, keys, encoded, schema)
    regression = _Regression(rows, design)
    return np.array([_p_value(regression, design, u, keys[u], values[u]) for u in range(len(values))])


def _p_value(regression: _Regression, design: _Design, u: int, key: Key | None, values: Floats) -> float:
    if not np.abs(values).max(initial=0.0) > 0:
        return 1.0
    if u not in design.terms:
        ratio = regression.ratio_of_new(values)
    elif key is not None and len(key) == 1:
        ratio = regression.ratio_within(design.terms.index(u), design.without_curve(key[0]))
    else:
        ratio = regression.ratio_of(design.terms.index(u))
    return float(scipy.special.stdtr(regression.degrees, -ratio))


class _Regression:
    """The regression at its fit; the terms' coefficients are those by which the model's own exceed 1."""

    def __init__(self, rows: HeldOut, design: _Design) -> None:
        columns = design.columns
        n = len(columns)
        self.coefficients = _fitted(rows, columns, rows.score, np.zeros(n))
        self.flat = columns.reshape(n, -1)
        score = rows.score + np.tensordot(self.coefficients, columns, axes=1)
        self.rows, self.score = rows, score
        self.curved = self._curved(columns)
        self.matrix = self.flat @ self.curved.T
        self.residual = (rows.weights[:, None] * (rows.outcome - rows.loss.mean(score))).ravel()
        self.inverse = _inverse(self.matrix)
        self.degrees = max(len(score) - n / self._n_free, 1)
        self.shrunk = self._shrunk()

    @property
    def _n_free(self) -> int:
        """Number of free scores of a row: one less than the number of classes."""
        return max(int(self.score.shape[1]) - 1, 1)

    def _curved(self, columns: Floats) -> Floats:
        weighted = self.rows.weights[:, None] * self.rows.loss.curved(self.score, columns)
        return weighted.reshape(len(columns), -1)

    def _shrunk(self) -> Floats:
        """By how much less than 1 the fit shrinks the residual of each row."""
        leverage = ((self.inverse @ self.flat) * self.curved).sum(axis=0).reshape(self.score.shape).sum(axis=1)
        shrunk: Floats = 1 - np.minimum(leverage / self._n_free, _HIGHEST_LEVERAGE)
        return shrunk

    def _ratio(self, excess: float, influence: Floats, residual: Floats) -> float:
        """A coefficient divided by its standard error."""
        by_row = (influence * residual).reshape(self.score.shape).sum(axis=1) / self.shrunk
        error = np.sqrt((by_row**2).sum())
        return float((1 + excess) / error) if error > 0 else np.inf * np.sign(1 + excess)

    def ratio_of(self, place: int) -> float:
        """The coefficient of a column divided by its error; zero where the column follows from others."""
        if self.inverse[place, place] * self.matrix[place, place] > _MOST_INFLATION:
            return 0.0
        return self._ratio(self.coefficients[place], self.inverse[place] @ self.flat, self.residual)

    def ratio_within(self, place: int, chosen: Ints) -> float:
        """The same in the regression on some of the columns, by one step from the fit of all."""
        inverse, own = _inverse(self.matrix[np.ix_(chosen, chosen)]), self.flat[chosen]
        i = int(np.flatnonzero(chosen == place)[0])
        if inverse[i, i] * self.matrix[place, place] > _MOST_INFLATION:
            return 0.0
        coefficients = inverse @ (self.matrix[chosen] @ self.coefficients + own @ self.residual)
        change = -self.coefficients
        change[chosen] += coefficients
        return self._ratio(coefficients[i], inverse[i] @ own, self.residual - change @ self.curved)

    def ratio_of_new(self, values: Floats) -> float:
        """The same for a term without a column, with all columns there are."""
        curved = self._curved(values[None])[0]
        rest = values.ravel() - (self.inverse @ (self.flat @ curved)) @ self.flat
        size = rest @ self._curved(rest.reshape(values.shape)[None])[0]
        if not size * _MOST_INFLATION > values.ravel() @ curved:
            return 0.0
        return self._ratio(float(rest @ self.residual) / size, rest / size, self.residual)


def _inverse(matrix: Floats) -> Floats:
    """The inverse of a matrix of normal equations; columns that follow from others get a huge error."""
    sizes = np.diag(matrix)
    scale = 1 / np.sqrt(np.where(sizes > 0, sizes, 1.0))
    scaled = scale[:, None] * matrix * scale + _RIDGE * np.eye(len(matrix))
    inverse: Floats = scale[:, None] * np.linalg.inv(scaled) * scale
    return inverse


# Columns.


def _design(rows: HeldOut, values: Floats, keys: Sequence[Key | None], encoded: Floats, schema: Schema) -> _Design:
    """As many columns as the rows allow: main effects first, then the strongest terms, and curves of all features."""
    n_rows, n_outputs = rows.score.shape
    n_free = max(n_outputs - 1, 1)
    most = max(int(min(n_rows / _ROWS_PER_COLUMN, _MOST_NUMBERS / (n_rows * n_outputs))) - n_free, 2)
    used = sorted({j for key in keys if key is not None for j in key})
    n_knots = min(_MOST_KNOTS, 1 + most // (2 * n_free * max(len(used), 1)))
    curves = {j: curve_columns(encoded[:, j], n_knots, is_category=schema.features[j].is_category) for j in used}
    n_curves = n_free * sum(len(columns) for columns in curves.values())
    terms = _kept_terms(rows, values, keys, max(most - n_curves, 1))
    plain = [np.ones((1, n_rows)), *curves.values()]
    feature = [-1, *(j for j, columns in curves.items() for _ in columns)]
    by_class = np.eye(n_outputs)[:n_free]
    spread = (np.concatenate(plain)[:, None, :, None] * by_class[:, None]).reshape(-1, n_rows, n_outputs)
    columns = np.concatenate([values[list(terms)], spread])
    return _Design(columns, terms, np.concatenate([np.full(len(terms), -1), np.repeat(feature, n_free)]))


def _kept_terms(rows: HeldOut, values: Floats, keys: Sequence[Key | None], most: int) -> tuple[int, ...]:
    """Terms with a column of their own: main effects, then those of the largest variance; none that is zero."""
    variances = np.array([np.average((one**2).sum(axis=1), weights=rows.weights) for one in values])
    is_main = np.array([key is not None and len(key) == 1 for key in keys], dtype=bool)
    ranked = np.lexsort((-variances, ~is_main))
    return tuple(int(u) for u in ranked[:most] if variances[u] > 0)


def curve_columns(column: Floats, n_knots: int, *, is_category: bool) -> Floats:
    """Columns, shape (n_columns, n_rows), that span smooth functions of an encoded feature, without the constant.

    Piecewise linear for numbers, between quantiles that are denser towards both ends: equally spaced ones leave a long
    piece in each tail, where what a straight line misses looks like an interaction of correlated features. Indicators
    of the most frequent categories; one for missing values.
    """
    missing = np.isnan(column)
    known = np.where(missing, np.inf if is_category else 0.0, column)
    found = [missing.astype(np.float64)] if 0 < missing.sum() < len(column) else []
    if is_category:
        codes, counts = np.unique(column[~missing], return_counts=True)
        frequent = codes[np.argsort(-counts, kind="stable")][1:n_knots]
        found += [(known == code).astype(np.float64) for code in frequent]
    else:
        finite = column[np.isfinite(column)]
        knots = _knots(finite, n_knots) if len(finite) else np.empty(0)
        found += [np.interp(known, knots, bump) * ~missing for bump in np.eye(len(knots))[1:]]
    return np.array(found).reshape(len(found), len(column))


def _knots(values: Floats, n_knots: int) -> Floats:
    """Smallest and largest value, and quantiles between them with some rows at least on both sides."""
    levels = (1 - np.cos(np.linspace(0, np.pi, n_knots))) / 2
    inner = levels[np.minimum(levels, 1 - levels) * len(values) >= _ROWS_PER_PIECE]
    return np.unique(np.quantile(values, [0.0, *inner, 1.0], method="inverted_cdf"))
