"""Validation: which terms hold up on held-out rows, and their p-values.

How much worse is the loss without the term? And does the outcome follow the term, given all the others?

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
import numpy.typing as npt
import scipy.optimize
import scipy.special

from treeanova.core.arrays import Bools, Floats, Ints, Key
from treeanova.core.progress import Progress, counted, one_step
from treeanova.data.columns import encode, frame, printable
from treeanova.data.features import Schema
from treeanova.data.files import records
from treeanova.decomposition.function import Function, per_output
from treeanova.decomposition.held_out import HeldOut, LossRows, held_out, outcome_of, questions_of
from treeanova.decomposition.result import Result, aligned_rows, first_names
from treeanova.density.counting import NEGLIGIBLE_WEIGHT
from treeanova.density.statistics import checked_weights
from treeanova.model.rows import Rows
from treeanova.views import percent

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
_MOST_RATIO = (
    2.0  # of the loss that a term saves to what the curvature says, beyond which the loss is fitted without it
)
_MISSED_GAIN = 0.25  # after one step, in mean losses of one unit
_SMALL_GAIN = 1.0  # in mean losses of one unit, below which that does not matter
_CLEARLY = 0.001  # p-value below which a term counts, though a single outcome makes up most of its error
_ONE_ROW = "a single row distinguishes it from all other terms"
_ONE_OUTCOME = "a single outcome, which the regression without it makes nearly impossible, decides about it"
_SEPARATED = "the regression without it has no finite solution at these rows"


def slope_of(held: HeldOut, values: Floats) -> float:
    """Return the multiple of a term with the smallest loss, all others fixed; NaN if the term is zero."""
    if not np.abs(values).max(initial=0.0) > _ROUNDING * np.abs(held.score).max(initial=0.0):
        return np.nan
    offset = held.score - values
    if held.is_differentiable and not (isinstance(held, LossRows) and held.is_kinked):
        return float(_fitted(held, values[None], offset, np.ones(1))[0][0])
    best = scipy.optimize.minimize_scalar(lambda slope: held.mean_loss(offset + slope * values), bracket=(0, 1))
    return float(best.x)


def _fitted(held: HeldOut, columns: Floats, offset: Floats, start: Floats) -> tuple[Floats, bool]:
    """Return coefficients with the smallest loss, by Newton's method with step halving, and whether it converged.

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
            if new_loss <= loss:
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
    """Return the step, and the mean loss that it gains if the loss is quadratic."""
    n = len(columns)
    flat, curved = columns.reshape(n, -1), held.curved(score, columns).reshape(n, -1)
    slopes = flat @ held.gradient(score).ravel()
    step = -_inverse(flat @ curved.T) @ slopes
    return step, -float(slopes @ step) / (2 * held.n_units)


def _inverse(matrix: Floats) -> Floats:
    """Invert normal equations; columns that follow from others get a huge error."""
    sizes = np.diag(matrix)
    scale = 1 / np.sqrt(np.where(sizes > 0, sizes, 1.0))
    scaled = scale[:, None] * matrix * scale + _RIDGE * np.eye(len(matrix))
    return np.asarray(scale[:, None] * np.linalg.inv(scaled) * scale)


# Tests of all terms.


class Evidence(NamedTuple):
    """One-sided p-values, and positions of what each term is tested with; why there is none for a term, or for all."""

    p_values: Floats
    terms: list[tuple[int, ...]]
    features: list[tuple[int, ...]]
    reasons: list[str]
    reason: str = ""


def evidence_of(held: HeldOut, values: Floats, keys: Sequence[Key | None], encoded: Floats, schema: Schema) -> Evidence:
    """Test terms of shape (n_terms, n_rows, n_outputs); `keys` are None for sums of terms.

    Standard errors are robust (HC3; HC2 for hazards and quantiles): they hold for any variance of the outcome.
    """
    if not held.is_differentiable:
        return _no_evidence(len(values), f"{held.loss.name} has no derivatives, by which the regression is fitted")
    rows = held.smooth() if isinstance(held, LossRows) else held
    values = rows.loss.invariant(values)
    most = int(min(rows.n_units, rows.n_informative(rows.score)) / _UNITS_PER_COLUMN)
    regression = _Regression(rows, _design(rows, values, keys, encoded, schema, most=most), values)
    while not regression.is_determined and most > _FEWEST_COLUMNS:
        most = max(most // 2, _FEWEST_COLUMNS)
        regression = _Regression(rows, _design(rows, values, keys, encoded, schema, most=most), values)
    if not regression.has_converged:
        reason = "the regression on all terms and curves has no finite solution at these rows, which are too few for it"
        return _no_evidence(len(values), reason)
    tests = [_tested(regression, u, key) for u, key in enumerate(keys)]
    return Evidence(
        np.array([p for p, _, _ in tests]),
        [one.partners for _, _, one in tests],
        [one.features for _, _, one in tests],
        [reason for _, reason, _ in tests],
    )


def _no_evidence(n_terms: int, reason: str) -> Evidence:
    nothing: list[tuple[int, ...]] = [()] * n_terms
    return Evidence(np.full(n_terms, np.nan), nothing, nothing, [""] * n_terms, reason)


class _Hypothesis(NamedTuple):
    """The outcome does not follow a term, nor partners of it, nor curves of features."""

    term: int
    partners: tuple[int, ...]
    features: tuple[int, ...]


def _tested(regression: _Regression, u: int, key: Key | None) -> tuple[float, str, _Hypothesis]:
    """Return the p-value, why there is none, and what was tested."""
    main_key = key if key is not None and len(key) == 1 else ()
    alone = _Hypothesis(u, (), tuple(main_key))
    if not regression.size(u) > 0:
        return 1.0, "", alone
    hypothesis = alone
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

    def without(self, hypothesis: _Hypothesis) -> Bools:
        terms = (hypothesis.term, *hypothesis.partners)
        return ~(np.isin(self.term, terms) | (self.is_curve & np.isin(self.feature, hypothesis.features)))

    @property
    def is_constant(self) -> Bools:
        return (self.term < 0) & ~self.is_curve


class _Metric:
    """Columns of a regression, weighted by the second derivative of the loss at a score."""

    def __init__(self, held: HeldOut, columns: Floats, score: Floats) -> None:
        self._held, self._columns, self.score = held, columns, score
        self.flat = columns.reshape(len(columns), -1)
        self.curved = held.curved(score, columns).reshape(len(columns), -1)
        self._matrix = self.flat @ self.curved.T
        self.inverse = _inverse(self._matrix)

    @functools.cached_property
    def shrinkage(self) -> Any:
        curved = self.curved.reshape(self._columns.shape)
        return self._held.shrinkage(self.score, self._columns, curved, self.inverse)

    def curve(self, column: Floats) -> Floats:
        return self._held.curved(self.score, column.reshape(1, *self.score.shape)).ravel()

    def residual_size(self, column: Floats, is_fitted: Bools) -> tuple[float, Floats]:
        """Return the squared norm of a column's residual on the fitted columns, and their coefficients."""
        curved = self.curve(column)
        cross = self.flat[is_fitted] @ curved
        coefficients = self.inverse_of(is_fitted) @ cross
        return float(column @ curved - cross @ coefficients), coefficients

    def inverse_of(self, is_fitted: Bools) -> Floats:
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
        self._coefficients, self.has_converged = _fitted(held, columns, held.score, np.zeros(len(columns)))
        score = held.score + np.tensordot(self._coefficients, columns, axes=1)
        self._fit = _Metric(held, columns, score)
        self._alike = _Metric(held, columns, np.zeros_like(score)) if held.can_be_certain else self._fit
        self._residual = -held.gradient(score).ravel()
        self._n_columns = len(columns) / max(score.shape[1] - 1, 1)
        self._degrees = max(held.n_units - self._n_columns, 1)

    @property
    def is_determined(self) -> bool:
        """Whether the fit has converged, and the rows still say more than the columns can absorb."""
        n_informative = self._held.n_informative(self._fit.score)
        return self.has_converged and n_informative >= _INFORMATIVE_PER_COLUMN * self._n_columns

    def size(self, u: int) -> float:
        column = self._values[u].ravel()
        if not np.abs(column).max(initial=0.0) > _ROUNDING * np.abs(self._held.score).max(initial=0.0):
            return 0.0
        size, _ = self._alike.residual_size(column, self._design.is_constant)
        return size if size > 1e-12 * float(column @ self._alike.curve(column)) else 0.0

    def inflation(self, hypothesis: _Hypothesis) -> float:
        column = self._values[hypothesis.term].ravel()
        unexplained_size, _ = self._alike.residual_size(column, self._design.without(hypothesis))
        size = self.size(hypothesis.term)
        return size / unexplained_size if unexplained_size > 0 else np.inf

    def with_partner(self, hypothesis: _Hypothesis) -> _Hypothesis:
        """Add the term or curve that best explains the hypothesis' term among what is left."""
        design, in_null = self._design, self._design.without(hypothesis)
        blocks = [block & in_null for block in self._blocks() if (block & in_null).any()]
        if not blocks:
            return hypothesis
        column = self._values[hypothesis.term].ravel()
        block = min(blocks, key=lambda one: self._alike.residual_size(column, design.is_constant | one)[0])
        terms = {*hypothesis.partners, *design.term[block & (design.term >= 0)].tolist()}
        features = {*hypothesis.features, *design.feature[block & (design.feature >= 0)].tolist()}
        return hypothesis._replace(partners=tuple(sorted(terms)), features=tuple(sorted(features)))

    def _blocks(self) -> list[Bools]:
        """Return columns that are left out together: a main effect with its curve, or another term."""
        design = self._design
        features = [design.feature == j for j in np.unique(design.feature[design.feature >= 0])]
        alone = np.flatnonzero((design.term >= 0) & (design.feature < 0))
        return [*features, *(np.arange(len(design.term)) == place for place in alone)]

    def p_value(self, hypothesis: _Hypothesis) -> tuple[float, str]:
        """Return the one-sided p-value of the sum of the terms, or NaN and why there is none.

        The coefficient is estimated by one step from the full fit. Where that step does not get there, or the loss
        without the terms is far from what the curvature says, as for a strong term of a classifier, the test is done at
        the fit without them.
        """
        fit, in_null = self._fit, self._design.without(hypothesis)
        column = self._values[[hypothesis.term, *hypothesis.partners]].sum(axis=0).ravel()
        size, coefficients = fit.residual_size(column, in_null)
        if not size > 1e-9 * float(column @ fit.curve(column)):
            return 1.0, ""  # the terms cancel each other
        unexplained = column - coefficients @ fit.flat[in_null]
        left_out = self._coefficients[~in_null]
        pull = left_out @ fit.curved[~in_null] + self._residual
        excess = float(unexplained @ pull) / size
        null_step = fit.inverse_of(in_null) @ (fit.flat[in_null] @ pull) - excess * coefficients
        step = excess * column + null_step @ fit.flat[in_null] - left_out @ fit.flat[~in_null]
        score = fit.score + step.reshape(fit.score.shape)
        if self._is_quadratic(score, in_null, unexplained * (1 + excess)):
            return self._one_sided(score, unexplained, fit.curve(unexplained), 1 + excess, fit.shrinkage)
        return self._p_value_at_null(column, in_null)

    def _is_quadratic(self, score: Floats, in_null: Bools, effect: Floats) -> bool:
        """Whether the curvature at the fit predicts the loss at a score, and that without an effect."""
        held, fit = self._held, self._fit
        loss, loss_without = held.mean_loss(score), held.mean_loss(score - effect.reshape(score.shape))
        gain, expected_gain = held.n_units * (loss_without - loss), float(effect @ fit.curve(effect)) / 2
        is_small = max(gain, expected_gain) < _SMALL_GAIN * abs(loss)
        slopes = fit.flat[in_null] @ held.gradient(score).ravel()
        missed_gain = float(slopes @ fit.inverse_of(in_null) @ slopes) / 2
        is_as_expected = expected_gain / _MOST_RATIO < gain < expected_gain * _MOST_RATIO
        return missed_gain <= _MISSED_GAIN * abs(loss) and (is_small or is_as_expected)

    def _p_value_at_null(self, column: Floats, in_null: Bools) -> tuple[float, str]:
        """Test by the derivative of the loss where it is fitted without some terms, with errors HC2."""
        held, columns = self._held, self._design.columns[in_null]
        offset = held.score - column.reshape(held.score.shape)
        fitted, has_converged = _fitted(held, columns, offset, np.zeros(len(columns)))
        if not has_converged:
            return np.nan, _SEPARATED
        null = _Metric(held, columns, offset + np.tensordot(fitted, columns, axes=1))
        size, coefficients = null.residual_size(column, np.ones(len(columns), dtype=bool))
        if not size > 0:
            return 1.0, ""
        unexplained = column - coefficients @ null.flat
        estimate = -float(unexplained @ held.gradient(null.score).ravel()) / size
        shrinkage = np.sqrt(null.shrinkage) if isinstance(held, LossRows) else null.shrinkage
        p_value, reason = self._one_sided(null.score, unexplained, null.curve(unexplained), estimate, shrinkage)
        influence = held.by_unit(null.score, unexplained.reshape(held.score.shape), shrinkage) ** 2
        if p_value > _CLEARLY and influence.max() > _MOST_OF_ONE_ROW * influence.sum():
            return np.nan, _ONE_OUTCOME
        return p_value, reason

    def _one_sided(
        self, score: Floats, unexplained: Floats, curve: Floats, estimate: float, shrinkage: Any
    ) -> tuple[float, str]:
        """Compare an estimated coefficient with its robust error at a score without the terms."""
        size, shape = float(unexplained @ curve), score.shape
        sizes = np.maximum((unexplained * curve).reshape(shape).sum(axis=1), 0.0)
        if sizes.max() > _MOST_OF_ONE_ROW * sizes.sum():
            return np.nan, _ONE_ROW  # its residual is zero: no robust error says how much it varies
        influence = self._held.by_unit(score, (unexplained / size).reshape(shape), shrinkage)
        error = np.sqrt((influence**2).sum())
        ratio = estimate / error if error > 0 else np.inf * np.sign(estimate)
        n_effective = sizes.sum() ** 2 / (sizes**2).sum()  # rows that tell this term from all others
        return float(scipy.special.stdtr(min(self._degrees, max(n_effective - 1, 1)), -ratio)), ""


# Columns.


def _design(
    held: HeldOut, values: Floats, keys: Sequence[Key | None], encoded: Floats, schema: Schema, *, most: int
) -> _Design:
    """Build as many columns as the rows allow: main effects, the strongest terms, curves of all features."""
    n_rows, n_outputs = held.score.shape
    n_free = max(n_outputs - 1, 1)
    most = max(min(most, _MOST_NUMBERS // (n_rows * n_outputs)) - n_free, 2)
    used = sorted({j for key in keys if key is not None for j in key})
    n_knots = min(_MOST_KNOTS, 1 + most // (2 * n_free * max(len(used), 1)))
    curves = {j: curve_columns(encoded[:, j], n_knots, is_category=schema.features[j].is_category) for j in used}
    n_curves = n_free * sum(len(columns) for columns in curves.values())
    least = _ROUNDING * np.abs(held.score).max(initial=0.0)
    terms = _terms_with_columns(values, keys, max(most - n_curves, 1), least)
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
    return key[0] if key is not None and len(key) == 1 else -1


def _terms_with_columns(values: Floats, keys: Sequence[Key | None], most: int, least: float) -> tuple[int, ...]:
    """Return terms with their own column: main effects, then the largest variances; none of mere rounding."""
    variances = np.array([(one**2).sum() for one in values])
    is_main = np.array([_main_of(key) >= 0 for key in keys], dtype=bool)
    ranked = np.lexsort((-variances, ~is_main))
    return tuple(int(u) for u in ranked[:most] if np.abs(values[u]).max() > least)


def curve_columns(column: Floats, n_knots: int, *, is_category: bool) -> Floats:
    """Return columns (n_columns, n_rows) that span smooth functions of an encoded feature, without the constant.

    Numbers: piecewise linear between quantiles, denser towards both ends; a long piece in a tail would make deviations
    from a straight line look like an interaction of correlated features. Categories: indicators of the most frequent,
    and of missing values.
    """
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
        columns += [np.interp(filled, knots, bump) * ~missing for bump in np.eye(len(knots))[1:]]
    return np.array(columns).reshape(len(columns), len(column))


def _knots(values: Floats, n_knots: int) -> Floats:
    """Return the extremes, and quantiles between them with some rows on both sides."""
    levels = (1 - np.cos(np.linspace(0, np.pi, n_knots))) / 2
    inner = levels[np.minimum(levels, 1 - levels) * len(values) >= _ROWS_PER_PIECE]
    return np.unique(np.quantile(values, [0.0, *inner, 1.0], method="inverted_cdf"))


_FEWEST_UNITS = 30
_LEVEL = 0.05
_POWERABLE = 1e-70, 1e70  # sizes whose fourth powers are floats with all digits
_COLUMNS = (
    "term",
    "output",
    "order",
    "loss_change",
    "error",
    "p_value",
    "p_holm",
    "slope",
    "share",
    "model_share",
    "aliases",
)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Validation(Result):
    """Tests of each term on held-out rows; made by `Decomposition.validate`.

    1. How much worse is the loss without the term? `loss_change` and `error`.
    2. Does the outcome follow the term, given all the others? `p_value` and `p_holm`.

    Attributes
    ----------
    table
        Table with a row per term, and per target if there are several, the largest change of loss first. `loss_change`
        is the mean loss without the term minus that of the model, and `error` its standard error. `p_value` is
        one-sided, for the term's coefficient in a regression of the outcome on all terms and on curves of all features;
        `p_holm` is corrected for the number of rows of the table by Holm's method. `aliases` names other terms that
        these rows cannot distinguish from the term: they are tested as one sum. `slope` is the multiple of the term
        with the smallest loss: 1 for a calibrated term, 0 for noise, above 1 for one that is shrunk too much. `share`
        is the share of the outcome's variance that the term explains, and `model_share` its share of the score's
        variance at the same rows. NaN: not defined.
    loss
        Name of the loss.
    model_loss
        Mean loss of the model; an array if there are several targets.
    constant_loss
        The same for the best constant.
    n_rows
        Number of held-out rows; those of weight zero do not count.
    dispensable
        Labels of interactions without which the loss grows by at most two standard errors.
    significant
        Labels of terms with `p_holm` below 0.05, alone or with their aliases.
    groups
        Labels of terms that are tested together.
    notes
        What could not be computed.

    Examples
    --------
    >>> import numpy as np
    >>> from treeanova.testing import example
    >>> fx, X = example()  # the logical "and" of x0 and x1
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.integers(0, 2, size=(200, 2))
    >>> y = rows[:, 0] + rng.normal(size=200)  # the outcome depends on x0 only
    >>> validation = fx.validate(rows, y)
    >>> validation.significant
    ('x0',)
    >>> validation.dispensable
    ('x0 × x1',)
    """

    table: Any
    loss: str
    model_loss: float | Floats
    constant_loss: float | Floats
    n_rows: int
    dispensable: tuple[str, ...]
    significant: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()

    def _content(self) -> dict[str, Any]:
        names = [field.name for field in dataclasses.fields(self) if field.name != "table"]
        return {name: getattr(self, name) for name in names} | {"terms": records(self.table)}

    def _text(self, top: int) -> str:
        rows = records(self.table)
        lines = [
            {"term": row["term"]}
            | ({"output": row["output"]} if "output" in row else {})
            | {"loss without": f"{row['loss_change']:+.4g}", "error": f"{row['error']:.2g}"}
            | {"p": p_text(row["p_value"]), "p (Holm)": p_text(row["p_holm"]), "slope": f"{row['slope']:.2f}"}
            | {"explains": percent(row["share"]), "of the score": percent(row["model_share"])}
            | ({"tested with": row["aliases"]} if self.groups else {})
            for row in rows
        ]
        tested = [
            printable(f"Tested together, since these rows cannot distinguish them: {' or '.join(group)}")
            for group in self.groups
        ]
        return (
            f"{self.n_rows:,} rows, {self.loss}: {_numbers(self.model_loss)} for the model, "
            f"{_numbers(self.constant_loss)} for the best constant\n"
            "1. How much worse is the loss without the term? (loss without, and its standard error)\n"
            f"   Interactions that can be left out (the loss grows by at most two errors): "
            f"{first_names(self.dispensable)}\n"
            "2. Does the outcome follow the term, given all the others? (p, one-sided)\n"
            f"   Significant, corrected for all {len(lines)} rows (Holm): {first_names(self.significant)}\n"
            f"{''.join(f'   {note}{chr(10)}' for note in (*tested, *self.notes))}\n"
            f"{aligned_rows(lines, top)}\n\n"
            "slope: 1 calibrated, 0 noise; explains: share of the outcome's variance, next to the term's share of the\n"
            "score's."
        )


def p_text(p: float) -> str:
    return "–" if np.isnan(p) else "<0.0001" if p < 1e-4 else f"{p:.4f}"


def _numbers(losses: Any) -> str:
    return ", ".join(f"{loss:.6g}" for loss in np.atleast_1d(losses))


def validate(
    function: Function,
    X: Any,
    y: Any,
    sample_weight: npt.ArrayLike | None,
    *,
    loss: Any,
    group: npt.ArrayLike | None,
    backend: str | None,
    progress: Progress,
) -> Validation:
    schema = function.grid.schema
    questions = questions_of(schema, loss)
    encoded = encode(X, schema)
    n_rows, weights, is_counted = len(encoded), np.ones(len(encoded)), np.ones(len(encoded), dtype=bool)
    if sample_weight is not None:
        weights, is_counted = _counting_weights(sample_weight, n_rows)
        encoded = np.asfortranarray(encoded[is_counted])
    outcomes = [outcome_of(schema, question, y, n_rows, is_counted) for question in questions]
    ids = None if group is None else _group_ids(group, is_counted)
    _check_number("rows", "`X`", len(encoded))
    rows = Rows(encoded)
    with one_step(progress, "terms at rows"):
        values = function.all_at(rows.bins(function.grid))
    score = function.score(rows)
    keys: list[Key | None] = [*function.terms.keys, *[None] * (values.shape[1] - len(function.terms.keys))]
    labels, orders = function.components.labels(schema.names), function.components.orders
    table: list[dict[str, Any]] = []
    losses: list[tuple[float, float]] = []
    notes: list[str] = []
    pairs = list(zip(questions, outcomes, strict=True))
    for question, outcome in counted(progress, "losses", pairs, len(pairs)):
        held = held_out(question, score[:, question.outputs], outcome, weights, ids)
        _check_number(_UNITS.get(held.loss.outcome, "rows"), "`y`", held.n_units)
        _check_size(held)
        columns = np.swapaxes(values[..., question.outputs], 0, 1)  # terms first, as columns of a regression
        evidence, measures = evidence_of(held, columns, keys, encoded, schema), _measured(held, columns)
        named = {"output": schema.outputs[question.outputs[0]]} if len(questions) > 1 else {}
        for u, aliases in enumerate(_alias_labels(evidence, labels, schema.names)):
            tested = {"p_value": float(evidence.p_values[u]), "aliases": ", ".join(aliases)}
            of_term = {"term": labels[u], "order": orders[u], "group": (labels[u], *aliases)}
            table.append(of_term | named | measures[u] | tested)
        losses.append((held.mean_loss(held.score), held.constant_loss()))
        notes += _notes(evidence, labels)
    name, n_rows = questions[0].name, len(encoded)
    return _validation(table, np.array(losses).T, name, n_rows=n_rows, notes=notes, backend=backend)


def _counting_weights(sample_weight: npt.ArrayLike, n_rows: int) -> tuple[Floats, Bools]:
    """Return weights of mean 1, and which rows count: not those of weight zero, or nearly zero."""
    weights = checked_weights(sample_weight, n_rows)
    weights = weights / weights.max()  # sums of huge weights would overflow
    is_counted = weights > NEGLIGIBLE_WEIGHT
    return weights[is_counted] / weights[is_counted].mean(), is_counted


def _group_ids(group: npt.ArrayLike, is_counted: Bools) -> npt.NDArray[Any]:
    ids = np.asarray(group).ravel()
    if len(ids) != len(is_counted):
        raise ValueError(
            f"`group` must have one entry per row of `X`, {len(is_counted)}, got {len(ids)}; pass the group of each "
            "row, not the sizes of groups."
        )
    return ids[is_counted]


_UNITS = {"times": "events", "grades": "groups with different grades"}


def _check_number(what: str, where: str, n_units: int) -> None:
    if n_units < _FEWEST_UNITS:
        raise ValueError(
            f"{where} must have at least {_FEWEST_UNITS} {what} for standard errors, got {n_units}; add held-out rows."
        )


def _check_size(held: HeldOut) -> None:
    """Raise ValueError for outcomes whose squared losses, squared again for errors, leave the range of floats."""
    if not isinstance(held, LossRows) or not held.loss.is_on_scale:
        return
    size = max(float(np.abs(numbers).max(initial=0.0)) for numbers in (held.outcome, held.score))
    if size > 0 and not _POWERABLE[0] < size < _POWERABLE[1]:
        raise ValueError(
            f"`y` and the scores must have sizes between {_POWERABLE[0]:g} and {_POWERABLE[1]:g} for errors of losses, "
            f"got {size:.3g}; express the target in another unit and train the model again."
        )


# Measures of each term.


def _measured(held: HeldOut, values: Floats) -> list[dict[str, float]]:
    measures = []
    for term, (share, model_share) in zip(values, _shares(held, values), strict=True):
        change, error = held.change(held.score - term)
        slope = slope_of(held, term)
        measures.append(
            {"loss_change": change, "error": error, "slope": slope, "share": share, "model_share": model_share}
        )
    return measures


def _shares(held: HeldOut, values: Floats) -> list[tuple[float, float]]:
    """Return shares of each term in the variances of the outcome and of the score.

    A score on another scale is first mapped to the outcome by linear regression. Censored times, grades within groups
    and outcomes of a function have no such variance.
    """
    weights = held.row_weights[:, None] / held.row_weights.sum()
    centred, score = (_centred(held.loss.invariant(numbers), weights) for numbers in (values, held.score))
    of_score = float((weights * score**2).sum())
    model_shares = (centred * weights * score).sum(axis=(1, 2)) / of_score if of_score > 0 else np.zeros(len(values))
    if not isinstance(held, LossRows) or held.loss.outcome in {"intervals", "anything"}:
        return [(np.nan, share) for share in model_shares.tolist()]
    outcome = _centred(held.outcome, weights)
    of_outcome = (weights * outcome**2).sum()
    factor = 1.0 if held.loss.is_on_scale or not of_score > 0 else (weights * score * outcome).sum() / of_score
    shares = factor * (centred * weights * outcome).sum(axis=(1, 2)) / of_outcome
    return list(zip(shares.tolist(), model_shares.tolist(), strict=True))


def _centred(values: Floats, weights: Floats) -> Floats:
    means: Floats = np.tensordot(values, weights[:, 0], axes=(-2, 0))
    return values - np.expand_dims(means, -2)


def holm(p: Sequence[float] | Floats) -> Floats:
    """Correct p-values for their number by Holm's method; NaN does not count.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")[: int(np.isfinite(values).sum())]
    steps = np.maximum.accumulate(values[order] * np.arange(len(order), 0, -1))
    corrected = np.full_like(values, np.nan)
    corrected[order] = np.minimum(steps, 1.0)
    return corrected


# The table.


def _alias_labels(evidence: Evidence, labels: Sequence[str], features: Sequence[str]) -> list[list[str]]:
    aliases = []
    for terms, curves in zip(evidence.terms, evidence.features, strict=True):
        names = [labels[v] for v in terms]
        aliases.append([*names, *(features[j] for j in curves if features[j] not in names)])
    return aliases


def _notes(evidence: Evidence, labels: Sequence[str]) -> list[str]:
    if evidence.reason:
        return [f"no p-values: {evidence.reason}"]
    return [f"no p-value for {label}: {why}" for label, why in zip(labels, evidence.reasons, strict=True) if why]


def _distinct_groups(groups: Sequence[tuple[str, ...]], ranked: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    place = {label: position for position, label in reversed(list(enumerate(ranked)))}
    by_rank = [tuple(sorted(group, key=lambda label: place.get(label, len(place)))) for group in groups]
    by_rank.sort(key=lambda group: place.get(group[0], len(place)))
    return tuple(dict.fromkeys(group for group in by_rank if len(group) > 1))


def _validation(
    rows: list[dict[str, Any]], losses: Floats, loss: str, *, n_rows: int, notes: Sequence[str], backend: str | None
) -> Validation:
    """Rank rows by change of loss; `losses` are those of the model and of the best constant, outputs last."""
    groups = [row["group"] for row in rows]
    corrected = holm([row["p_value"] for row in rows])
    rows = [row | {"p_holm": float(p)} for row, p in zip(rows, corrected, strict=True)]
    rows.sort(key=lambda row: -row["loss_change"])
    names = [name for name in _COLUMNS if name != "output" or losses.shape[1] > 1]
    model_loss, constant_loss = map(per_output, losses)
    idle = [row["term"] for row in rows if row["order"] > 1 and row["loss_change"] <= 2 * row["error"]]
    useful = {row["term"] for row in rows if row["loss_change"] > 2 * row["error"]}
    return Validation(
        frame({name: [row[name] for row in rows] for name in names}, backend),
        loss,
        model_loss,
        constant_loss,
        n_rows,
        tuple(dict.fromkeys(label for label in idle if label not in useful)),
        tuple(dict.fromkeys(row["term"] for row in rows if row["p_holm"] < _LEVEL)),
        _distinct_groups(groups, [row["term"] for row in rows]),
        tuple(dict.fromkeys(notes)),
    )
