"""Evidence for terms on held-out rows: a regression of the outcome on all terms and smooth functions of all features.

A term that fits noise still correlates with the errors of the other terms where features are dependent: with errors of
main effects, and with the noise in other interactions, which such terms cancel out. A test of the term alone then finds
"evidence" for interactions that do not exist. So the null hypothesis is that the outcome does not follow the term once
all else in the model has been fitted again: every other term has a coefficient of its own, and every feature a smooth
curve of its own (piecewise linear), the term's own feature excepted for a main effect. Purity helps: an interaction has
nothing in common with curves of its own features, so that these cost it no power.

Where the rows cannot distinguish a term from others, for example because a feature is a copy of another one, such a
regression says nothing about it. These terms are found by the inflation of the variance of a coefficient by the other
columns, and are tested together: their sum takes the place of the term, and the curves of their features are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.optimize
import scipy.special

from treeanova.core.arrays import Bools, Floats, Ints, Key
from treeanova.data.features import Schema
from treeanova.decomposition.held_out import Differentiable, HeldOut, Rows

_MOST_KNOTS = 16
_UNITS_PER_COLUMN = 5
_ROWS_PER_PIECE = 20
_MOST_NUMBERS = 40_000_000
_STEPS = 25
_RIDGE = 1e-9
_CONVERGED = 0.01  # gain of the last step, relative to what a column of noise gains: the mean loss of one unit
_MOST_INFLATION = 10.0  # of the variance of a coefficient by other columns: a correlation of 0.95 with one of them
_SAFE_INFLATION = 1e4  # up to which a column can be taken out of an inverse without a loss of digits
_ROUNDING = 1e-12  # size of a term relative to the score, below which it is zero


def slope_of(held: HeldOut, values: Floats) -> float:
    """The multiple of a term, all others staying as they are, with the smallest loss; NaN where the term is zero."""
    if not np.abs(values).max(initial=0.0) > _ROUNDING * np.abs(held.score).max(initial=0.0):
        return np.nan
    offset = held.score - values
    if isinstance(held, Differentiable) and not (isinstance(held, Rows) and held.is_kinked):
        return float(_fitted(held, values[None], offset, np.ones(1))[0][0])
    found = scipy.optimize.minimize_scalar(lambda multiple: held.mean_loss(offset + multiple * values), bracket=(0, 1))
    return float(found.x)


def _fitted(held: Differentiable, columns: Floats, offset: Floats, start: Floats) -> tuple[Floats, bool]:
    """Coefficients of columns with the smallest loss, by Newton's method, and whether it has found them.

    Steps are halved until they help. Where a curve has rows of some classes only at its end, its coefficient grows for
    ever, but the loss soon gains nothing by it: that counts as found, and these rows then tell nothing.
    """
    coefficients, score = start, offset + np.tensordot(start, columns, axes=1)
    loss, gain = held.mean_loss(score), np.inf
    for _ in range(_STEPS):
        step = _newton_step(held, columns, score)
        for _ in range(_STEPS):
            changed = score + np.tensordot(step, columns, axes=1)
            new_loss = held.mean_loss(changed)
            if new_loss <= loss:
                break
            step = step / 2
        else:
            gain = 0.0
            break
        coefficients, score, gain, loss = coefficients + step, changed, loss - new_loss, new_loss
        if gain <= 1e-12 * max(abs(loss), 1e-300):
            break
    return coefficients, gain * held.n_units <= _CONVERGED * max(abs(loss), 1e-300)


def _newton_step(held: Differentiable, columns: Floats, score: Floats) -> Floats:
    n = len(columns)
    flat, curved = columns.reshape(n, -1), held.curved(score, columns).reshape(n, -1)
    return -_inverse(flat @ curved.T) @ (flat @ held.gradient(score).ravel())


def _inverse(matrix: Floats) -> Floats:
    """The inverse of a matrix of normal equations; columns that follow from others get a huge error."""
    sizes = np.diag(matrix)
    scale = 1 / np.sqrt(np.where(sizes > 0, sizes, 1.0))
    scaled = scale[:, None] * matrix * scale + _RIDGE * np.eye(len(matrix))
    inverse: Floats = scale[:, None] * np.linalg.inv(scaled) * scale
    return inverse


# Tests of all terms.


class Evidence(NamedTuple):
    """One-sided p-values of all terms, and the positions of the terms and features that each is tested together with.

    `reason` says why there are no p-values; it is empty where there are.
    """

    p_values: Floats
    terms: list[tuple[int, ...]]
    features: list[tuple[int, ...]]
    reason: str


def evidence_of(held: HeldOut, values: Floats, keys: Sequence[Key | None], encoded: Floats, schema: Schema) -> Evidence:
    """Evidence for terms of shape (n_terms, n_rows, n_outputs); `keys` are None for sums of terms.

    Standard errors are robust (HC3; HC2 for hazards and quantiles): they hold for any variance of the outcome.
    """
    none: list[tuple[int, ...]] = [()] * len(values)
    if not isinstance(held, Differentiable):
        reason = f"{held.loss.name} has no derivatives, by which the regression is fitted"
        return Evidence(np.full(len(values), np.nan), none, none, reason)
    rows = held.smooth() if isinstance(held, Rows) else held
    values = rows.loss.invariant(values)
    regression = _Regression(rows, _design(rows, values, keys, encoded, schema), values)
    if not regression.has_converged:
        reason = "the regression on all terms and curves has no finite solution at these rows, which are too few for it"
        return Evidence(np.full(len(values), np.nan), none, none, reason)
    tests = [_tested(regression, u, key) for u, key in enumerate(keys)]
    return Evidence(
        np.array([p for p, _ in tests]), [one.others for _, one in tests], [one.features for _, one in tests], ""
    )


class _Hypothesis(NamedTuple):
    """The outcome does not follow a term, nor others, nor curves of features."""

    term: int
    others: tuple[int, ...]
    features: tuple[int, ...]


def _tested(regression: _Regression, u: int, key: Key | None) -> tuple[float, _Hypothesis]:
    """The p-value of a term, and what was tested."""
    own = key if key is not None and len(key) == 1 else ()
    alone = _Hypothesis(u, (), tuple(own))
    if not regression.size(u) > 0:
        return 1.0, alone
    found = alone
    while regression.inflation(found) > _MOST_INFLATION:
        wider = regression.with_partner(found)
        if wider == found:
            break
        found = wider
    curves = tuple(j for j in found.features if j not in own)
    return regression.p_value(found), found._replace(features=curves)


@dataclasses.dataclass(frozen=True, eq=False)
class _Design:
    """Columns of the regression: terms that have coefficients of their own, intercepts, and curves of features.

    Attributes
    ----------
    columns
        Shape (n_columns, n_rows, n_outputs).
    term
        Position of the term of each column, which come first; -1 for all others.
    feature
        The feature of each column that is part of a curve, and of main effects; -1 for all others.
    is_curve
        Whether a column is part of a curve.
    """

    columns: Floats
    term: Ints
    feature: Ints
    is_curve: Bools

    def without(self, hypothesis: _Hypothesis) -> Bools:
        """Columns that a hypothesis leaves in the regression."""
        terms = (hypothesis.term, *hypothesis.others)
        return ~(np.isin(self.term, terms) | (self.is_curve & np.isin(self.feature, hypothesis.features)))

    @property
    def is_constant(self) -> Bools:
        """Whether a column is an intercept."""
        return (self.term < 0) & ~self.is_curve


class _Regression:
    """The regression at its fit; the terms' coefficients are those by which the model's own exceed 1."""

    def __init__(self, held: Differentiable, design: _Design, values: Floats) -> None:
        columns = design.columns
        self._held, self._design, self._values = held, design, values
        self._coefficients, self.has_converged = _fitted(held, columns, held.score, np.zeros(len(columns)))
        self._score = held.score + np.tensordot(self._coefficients, columns, axes=1)
        self._flat = columns.reshape(len(columns), -1)
        curved = held.curved(self._score, columns)
        self._curved = curved.reshape(len(columns), -1)
        self._matrix = self._flat @ self._curved.T
        self._inverse = _inverse(self._matrix)
        self._residual = -held.gradient(self._score).ravel()
        n_free = max(int(self._score.shape[1]) - 1, 1)
        self._degrees = max(held.n_units - len(columns) / n_free, 1)
        self._shrinkage = held.shrinkage(self._score, columns, curved, self._inverse)

    def _curve(self, column: Floats) -> Floats:
        return self._held.curved(self._score, column.reshape(1, *self._score.shape)).ravel()

    def size(self, u: int) -> float:
        """The squared size of a term in the metric of the loss, without its mean."""
        column = self._values[u].ravel()
        if not np.abs(column).max(initial=0.0) > _ROUNDING * np.abs(self._held.score).max(initial=0.0):
            return 0.0
        size, _ = self._rest_size(column, self._design.is_constant)
        return size if size > 1e-12 * float(column @ self._curve(column)) else 0.0

    def _rest_size(self, column: Floats, kept: Bools) -> tuple[float, Floats]:
        """The squared size of what kept columns do not explain of a column, and their coefficients."""
        curved = self._curve(column)
        cross = self._flat[kept] @ curved
        coefficients = self._inverse_of(kept) @ cross
        return float(column @ curved - cross @ coefficients), coefficients

    def _inverse_of(self, kept: Bools) -> Floats:
        """The inverse of the normal equations of some of the columns."""
        dropped = np.flatnonzero(~kept)
        if len(dropped) == 1 and self._inverse[dropped, dropped] * self._matrix[dropped, dropped] < _SAFE_INFLATION:
            cross = self._inverse[kept, dropped]
            inverse: Floats = (
                self._inverse[np.ix_(kept, kept)] - np.outer(cross, cross) / self._inverse[dropped, dropped]
            )
            return inverse
        return _inverse(self._matrix[np.ix_(kept, kept)])

    def inflation(self, hypothesis: _Hypothesis) -> float:
        """The variance of the coefficient of a term, divided by what it would be without the other columns."""
        column = self._values[hypothesis.term].ravel()
        rest, _ = self._rest_size(column, self._design.without(hypothesis))
        size = self.size(hypothesis.term)
        return size / rest if rest > 0 else np.inf

    def with_partner(self, hypothesis: _Hypothesis) -> _Hypothesis:
        """A hypothesis with the term, or the curve of a feature, that best explains its term among what is left."""
        design, kept = self._design, self._design.without(hypothesis)
        blocks = [block & kept for block in self._blocks() if (block & kept).any()]
        if not blocks:
            return hypothesis
        column = self._values[hypothesis.term].ravel()
        block = min(blocks, key=lambda one: self._unexplained(column, design.is_constant | one))
        terms = {*hypothesis.others, *design.term[block & (design.term >= 0)].tolist()}
        features = {*hypothesis.features, *design.feature[block & (design.feature >= 0)].tolist()}
        return hypothesis._replace(others=tuple(sorted(terms)), features=tuple(sorted(features)))

    def _blocks(self) -> list[Bools]:
        """Columns that are left out together: a main effect and the curve of its feature, or any other term."""
        design = self._design
        features = [design.feature == j for j in np.unique(design.feature[design.feature >= 0])]
        alone = np.flatnonzero((design.term >= 0) & (design.feature < 0))
        return [*features, *(np.arange(len(design.term)) == place for place in alone)]

    def _unexplained(self, column: Floats, chosen: Bools) -> float:
        curved = self._curve(column)
        cross = self._flat[chosen] @ curved
        return float(column @ curved - cross @ _inverse(self._matrix[np.ix_(chosen, chosen)]) @ cross)

    def p_value(self, hypothesis: _Hypothesis) -> float:
        """The one-sided p-value of the sum of all terms of a hypothesis, by one step from the fit of all columns."""
        kept = self._design.without(hypothesis)
        column = self._values[[hypothesis.term, *hypothesis.others]].sum(axis=0).ravel()
        size, coefficients = self._rest_size(column, kept)
        whole = float(column @ self._curve(column))
        if not size > 1e-9 * whole:
            return 1.0  # the terms cancel each other
        rest = column - coefficients @ self._flat[kept]
        left_out = self._coefficients[~kept]
        pull = left_out @ self._curved[~kept] + self._residual
        excess = float(rest @ pull) / size
        others = self._inverse_of(kept) @ (self._flat[kept] @ pull) - excess * coefficients
        step = excess * column + others @ self._flat[kept] - left_out @ self._flat[~kept]
        shape = self._score.shape
        influence = self._held.by_unit(self._score + step.reshape(shape), (rest / size).reshape(shape), self._shrinkage)
        error = np.sqrt((influence**2).sum())
        ratio = (1 + excess) / error if error > 0 else np.inf * np.sign(1 + excess)
        return float(scipy.special.stdtr(self._degrees, -ratio))


# Columns.


def _design(
    held: Differentiable, values: Floats, keys: Sequence[Key | None], encoded: Floats, schema: Schema
) -> _Design:
    """As many columns as the rows allow: main effects first, then the strongest terms, and curves of all features."""
    n_rows, n_outputs = held.score.shape
    n_free = max(n_outputs - 1, 1)
    most = max(int(min(held.n_units / _UNITS_PER_COLUMN, _MOST_NUMBERS / (n_rows * n_outputs))) - n_free, 2)
    used = sorted({j for key in keys if key is not None for j in key})
    n_knots = min(_MOST_KNOTS, 1 + most // (2 * n_free * max(len(used), 1)))
    curves = {j: curve_columns(encoded[:, j], n_knots, is_category=schema.features[j].is_category) for j in used}
    n_curves = n_free * sum(len(columns) for columns in curves.values())
    least = _ROUNDING * np.abs(held.score).max(initial=0.0)
    terms = _kept_terms(values, keys, max(most - n_curves, 1), least)
    constant = [np.ones((1, n_rows))] if held.has_constant else []
    feature = [*[-1] * len(constant), *(j for j, columns in curves.items() for _ in columns)]
    by_class = np.eye(n_outputs)[:n_free]
    plain = np.concatenate([*constant, *curves.values()])
    spread = (plain[:, None, :, None] * by_class[:, None]).reshape(-1, n_rows, n_outputs)
    mains = [_main_of(keys[u]) for u in terms]
    return _Design(
        np.concatenate([values[list(terms)], spread]),
        np.array([*terms, *[-1] * len(spread)]),
        np.array([*mains, *np.repeat(feature, n_free).tolist()]),
        np.array([*[False] * len(terms), *(np.repeat(feature, n_free) >= 0).tolist()], dtype=bool),
    )


def _main_of(key: Key | None) -> int:
    """The feature of a main effect; -1 for all other terms."""
    return key[0] if key is not None and len(key) == 1 else -1


def _kept_terms(values: Floats, keys: Sequence[Key | None], most: int, least: float) -> tuple[int, ...]:
    """Terms with a column of their own: main effects, then those of the largest variance; none of mere rounding."""
    variances = np.array([(one**2).sum() for one in values])
    is_main = np.array([_main_of(key) >= 0 for key in keys], dtype=bool)
    ranked = np.lexsort((-variances, ~is_main))
    return tuple(int(u) for u in ranked[:most] if np.abs(values[u]).max() > least)


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
