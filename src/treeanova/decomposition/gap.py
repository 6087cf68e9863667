"""Gap between two groups of rows: which terms make their mean scores differ, exactly, with errors over rows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats, Ints
from treeanova.core.progress import Progress, reporting
from treeanova.data.columns import column_named, columns_of, encode, frame, table_text
from treeanova.data.features import Schema, distinct, is_missing
from treeanova.decomposition.function import Function
from treeanova.decomposition.importance import (
    Families,
    Parts,
    families_of,
    largest_first,
    parts_at,
    parts_of,
    summed,
    with_rests,
)
from treeanova.decomposition.term import Evaluation
from treeanova.density.row_sources import checked_weights
from treeanova.density.statistics import Statistics, rows_as_statistics

_SHOWN_LABELS = 6
_ROUNDING = 1e-12
WITHOUT_ERROR = "one value in each group, known without error given the model"


def error_text(error: float, digits: int = 3) -> str:
    """A standard error for people; a dash where there is none."""
    return "–" if math.isnan(error) else f"{error:.{digits}g}"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Gap:
    """The difference of the mean scores of two groups of rows, the second minus the first, by term; `print` it.

    The terms describe the model: they say how it arrives at the difference, not whether the difference is justified.
    Dropping a feature's terms does not remove its influence, since features that are correlated with it carry part of
    it.

    Attributes
    ----------
    table
        Data frame with the columns term, gap and error, and output where there are several; the largest first. Terms
        that are not listed are in the row of their order, and the remainder has a row. Gaps add up to `total`. An
        error is NaN, printed as "–", where a term has one value in each group, as that of the feature that makes the
        groups: given the model, rows leave nothing to estimate.
    routes
        The same in a few rows: through one feature by itself, through its interactions, and through all other features;
        None where no such feature is named.
    total
        The difference of the mean scores; a float, or an array of shape (n_outputs,).
    error
        Standard error of `total`; NaN where a group has a single row.
    groups
        Names of the two groups.
    sizes
        Numbers of their rows; those of weight zero do not count.
    means
        Mean scores of the two groups, the first and the second.
    feature
        The feature, or family, whose routes are told apart; None where there is none.
    fx
        The decomposition.
    rows
        Statistics of the rows of the two groups.
    is_weighted
        Whether the rows have weights; means are then weighted.

    Examples
    --------
    >>> from treeanova.testing import example
    >>> fx, X = example()  # the logical "and" of x0 and x1
    >>> print(fx.gap(X, "x0"))
    mean score: 0 in x0 = 0 (2 rows), 0.5 in x0 = 1 (2 rows), a gap of +0.5 (standard error 0.5)
    term     gap     error
    x0       0.5         –
    x1         0  0.353553
    x0 × x1    0  0.353553
    –: one value in each group, known without error given the model
    """

    table: Any
    routes: Any
    total: float | Floats
    error: float | Floats
    groups: tuple[str, str]
    sizes: tuple[int, int]
    means: tuple[float | Floats, float | Floats]
    feature: str | None
    fx: Function
    rows: tuple[Statistics, Statistics]
    is_weighted: bool = False

    @property
    def counts(self) -> tuple[str, str]:
        """Numbers of rows of the two groups in words."""
        words = "weighted rows" if self.is_weighted else "rows"
        return f"{self.sizes[0]:,} {words}", f"{self.sizes[1]:,} {words}"

    def __repr__(self) -> str:
        lines = []
        for k, output in enumerate(self.fx.outputs):
            of = f" of {output}" if len(self.fx.outputs) > 1 else ""
            sides = [
                f"{np.atleast_1d(mean)[k]:.4g} in {name} ({count})"
                for name, count, mean in zip(self.groups, self.counts, self.means, strict=True)
            ]
            gap, error = np.atleast_1d(self.total)[k], np.atleast_1d(self.error)[k]
            lines.append(
                f"mean score{of}: {', '.join(sides)}, a gap of {gap:+.4g} (standard error {error_text(error, 2)})"
            )
        is_known = [math.isnan(error) for error in columns_of(self.table)["error"]]
        note = [f"–: {WITHOUT_ERROR}"] if any(is_known) and min(self.sizes) >= 2 else []
        return "\n".join([*lines, table_text(self.table), *note])


def gap_between(
    fx: Function,
    X: Any,
    group: Any,
    *,
    sample_weight: npt.ArrayLike | None,
    feature: str | None,
    groups: Mapping[str, Collection[str]] | None,
    backend: str | None,
    progress: bool | Progress | None,
) -> Gap:
    """The gap of the mean scores of two groups of rows; see `Decomposition.gap`."""
    families = families_of(groups, fx.schema.names)
    encoded = encode(X, fx.schema)
    two = two_groups(X, group, fx.schema, len(encoded))
    feature = _checked_feature(feature, group, fx.schema, families)
    parts = parts_of(fx.evaluation)
    sums = [_by_term(parts, fx.schema) if groups is None else _by_family(parts, families), _whole(parts)]
    sums += [] if feature is None else [_by_route(parts, families, feature)]
    weights = None if sample_weight is None else checked_weights(sample_weight, len(encoded))
    if weights is not None:
        weights = weights / weights.max()  # so that squares neither vanish nor overflow
    sides = [_Side.of(two, second, weights) for second in (False, True)]
    rows = [rows_as_statistics(fx.grid, encoded[side.rows], side.weights) for side in sides]
    with reporting(progress):
        first, second = (
            _spreads(fx.evaluation, parts, sums, own, side.weights) for own, side in zip(rows, sides, strict=True)
        )
    differences = [_Difference.between(*sides) for sides in zip(first, second, strict=True)]
    tables = [_table(*pair, fx.outputs, backend) for pair in zip(sums, differences, strict=True)]
    total, levels = differences[1], [fx.evaluation.terms.intercept + side[1].mean[0] for side in (first, second)]
    return Gap(
        table=tables[0],
        routes=None if feature is None else tables[2],
        total=_plain(total.gap[0]),
        error=_plain(total.error[0]),
        groups=two.names,
        sizes=(rows[0].n_rows, rows[1].n_rows),
        means=(_plain(levels[0]), _plain(levels[1])),
        feature=feature,
        fx=fx,
        rows=(rows[0], rows[1]),
        is_weighted=weights is not None,
    )


class _Side(NamedTuple):
    """One of two groups: whether each row is in it with a weight above zero, and the weights of those, or None."""

    rows: npt.NDArray[np.bool_]
    weights: Floats | None

    @classmethod
    def of(cls, two: TwoGroups, second: bool, weights: Floats | None) -> _Side:
        """The first group or the second."""
        rows = two.is_second == second
        if weights is not None:
            rows = rows & (weights > 0)
        if not rows.any():
            name = two.names[int(second)]
            raise ValueError(
                f"`sample_weight` must be positive for rows of both groups, got zeros only in {name}; leave the "
                "weights out or choose other groups."
            )
        return cls(rows, None if weights is None else weights[rows])


def _plain(values: Floats) -> float | Floats:
    """A float for one output, else the array."""
    return float(values[0]) if len(values) == 1 else values


def _checked_feature(feature: str | None, group: Any, schema: Schema, families: Families) -> str | None:
    """The feature, or its family, whose routes are told apart: the one named, or that of the group; None for none."""
    if feature is None and isinstance(group, str) and group in schema.names:
        feature = group
    if feature is None or feature in families.names:
        return feature
    if feature not in schema.names:
        raise ValueError(
            f"`feature` must be a feature of the model or a family, got {feature!r}; see fx.feature_names_in_."
        )
    return families.names[families.places[schema.names.index(feature)]]


# Sums of parts.


class _PartSums(NamedTuple):
    """How parts are added up for one table: labels of the sums, and the sum that each part goes to."""

    by: str
    labels: list[str]
    places: Ints


def _by_term(parts: Parts, schema: Schema) -> _PartSums:
    return _PartSums("term", parts.labels(schema.names), np.arange(len(parts)))


def _by_family(parts: Parts, families: Families) -> _PartSums:
    keys, places = families.merged(parts.keys)
    labels = with_rests(families.labels(keys), parts)
    return _PartSums("term", labels, np.append(places, np.arange(len(keys), len(labels))))


def _whole(parts: Parts) -> _PartSums:
    return _PartSums("term", ["total"], np.zeros(len(parts), dtype=np.int64))


def _by_route(parts: Parts, families: Families, feature: str) -> _PartSums:
    """Through a feature by itself, through its interactions, through others; what is not listed may be any of these."""
    position = families.names.index(feature)
    keys = [families.key(key) for key in parts.keys]
    places = [0 if key == (position,) else 1 if position in key else 2 for key in keys]
    labels = with_rests([f"{feature} by itself", f"interactions of {feature}", "other features"], parts)
    return _PartSums("route", labels, np.array([*places, *range(3, len(labels))], dtype=np.int64))


# Means and errors over rows.


class _Running:
    """Weighted mean of rows, and the weighted sum of squares around it, gathered block by block."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.total = 0.0
        self.mean = np.zeros(shape)
        self.squares = np.zeros(shape)

    def add(self, values: Floats, weights: Floats) -> None:
        """Add rows: shapes (n_rows, n_sums, n_outputs) and (n_rows,)."""
        new = float(weights.sum())
        if not new:
            return
        weighted = weights[:, None, None]
        mean = (values * weighted).sum(axis=0) / new
        change, total = mean - self.mean, self.total + new
        self.squares += ((values - mean) ** 2 * weighted).sum(axis=0) + change**2 * (self.total * new / total)
        self.mean += change * (new / total)
        self.total = total


class _Spread:
    """Means of sums of parts over rows, and their standard errors, gathered block by block."""

    def __init__(self, sums: _PartSums, n_outputs: int, *, is_weighted: bool) -> None:
        self._sums = sums
        self._n_rows = 0
        shape = len(sums.labels), n_outputs
        self._weighted = _Running(shape)
        self._by_squares = _Running(shape) if is_weighted else self._weighted  # all weights 1 are their squares

    def add(self, values: Floats, weights: Floats) -> None:
        """Add rows: values of all parts at them, shape (n_rows, n_parts, n_outputs)."""
        values = summed(values, self._sums.places, len(self.mean), axis=1)
        self._weighted.add(values, weights)
        if self._by_squares is not self._weighted:
            self._by_squares.add(values, weights**2)
        self._n_rows += len(weights)

    @property
    def mean(self) -> Floats:
        """Weighted means."""
        return self._weighted.mean

    @property
    def error_squared(self) -> Floats:
        """Square of the standard error of the mean, Σ w² (x - mean)² / (Σ w)² n / (n - 1); NaN for a single row."""
        n, parts = self._n_rows, self._by_squares
        if n < 2:
            return np.full(self.mean.shape, np.nan)
        squares = parts.squares + parts.total * (parts.mean - self.mean) ** 2
        return squares / self._weighted.total**2 * (n / (n - 1))


def _spreads(
    model: Evaluation, parts: Parts, sums: Sequence[_PartSums], rows: Statistics, weights: Floats | None
) -> list[_Spread]:
    """Means and errors of sums of parts over the rows of one group."""
    codes = rows.on(model.grid).bins
    spreads = [_Spread(each, model.terms.n_outputs, is_weighted=weights is not None) for each in sums]
    weights = np.ones(len(codes)) if weights is None else weights
    for block in parts.blocks(len(codes), model.terms.n_outputs):
        values = parts_at(model, codes[block], parts)
        for spread in spreads:
            spread.add(values, weights[block])
    return spreads


class _Difference(NamedTuple):
    """Differences of means, and their standard errors, shapes (n_sums, n_outputs)."""

    gap: Floats
    error: Floats

    @classmethod
    def between(cls, first: _Spread, second: _Spread) -> _Difference:
        """The second mean minus the first; no error where values within each group differ by rounding only."""
        error = np.sqrt(first.error_squared + second.error_squared)
        rounding = _ROUNDING * np.maximum(np.abs(first.mean), np.abs(second.mean))
        return cls(second.mean - first.mean, np.where(error > rounding, error, np.nan))


def _table(sums: _PartSums, difference: _Difference, outputs: Sequence[str], backend: str | None) -> Any:
    """A row per output and sum, terms with the largest gap first, routes as they come."""
    sizes = np.abs(difference.gap)
    orders = [largest_first(of_output) if sums.by == "term" else range(len(sizes)) for of_output in sizes.T]
    rows = [(k, i) for k, order in enumerate(orders) for i in order]
    columns: dict[str, Any] = {sums.by: [sums.labels[i] for _, i in rows]}
    if len(outputs) > 1:
        columns["output"] = [outputs[k] for k, _ in rows]
    for name, values in difference._asdict().items():
        columns[name] = np.array([values[i, k] for k, i in rows])
    return frame(columns, backend)


# The two groups.


class TwoGroups(NamedTuple):
    """Names of two groups of rows, and for each row whether it is in the second."""

    names: tuple[str, str]
    is_second: npt.NDArray[np.bool_]


def two_groups(X: Any, group: Any, schema: Schema, n_rows: int) -> TwoGroups:
    """The two groups that a column of X, labels or booleans make, checked."""
    column = column_named(X, group, schema) if isinstance(group, str) else _as_column(group)
    if len(column) != n_rows:
        raise ValueError(
            f"`group` must have one entry per row, {n_rows}, got {len(column)}; pass those of the rows of X."
        )
    labels, places = distinct(column)
    missing = [is_missing(label) for label in labels]
    if any(missing):
        n_missing = int(np.isin(places, np.flatnonzero(missing)).sum())
        raise ValueError(
            f"`group` must be known for all rows, got {n_missing} of {n_rows} missing; leave these rows out."
        )
    if len(labels) != 2:
        raise ValueError(f"`group` must be two groups of rows, got {_listed(labels)}; {_remedy(group, labels)}.")
    is_swapped = _sort_key(labels[0]) > _sort_key(labels[1])
    order = (1, 0) if is_swapped else (0, 1)
    names = [_name(labels[i], group) for i in order]
    return TwoGroups((names[0], names[1]), places == order[1])


def _as_column(group: Any) -> npt.NDArray[Any]:
    column = group.to_numpy() if hasattr(group, "to_numpy") else np.asarray(group)
    if column.ndim != 1:
        raise ValueError(f"`group` must be the name of a column or one entry per row, got {column.ndim} axes.")
    return column


def _listed(labels: Sequence[Any]) -> str:
    shown = ", ".join(map(str, sorted(labels, key=_sort_key)[:_SHOWN_LABELS]))
    more = ", …" if len(labels) > _SHOWN_LABELS else ""
    return f"{len(labels)} ({shown}{more})" if len(labels) > 1 else f"{shown} in all rows" if labels else "no rows"


def _remedy(group: Any, labels: Sequence[Any]) -> str:
    if len(labels) < 2:
        return "pass rows of both groups"
    first = min(labels, key=_sort_key)
    column = f"X[{group!r}]" if isinstance(group, str) else "labels"
    return f"compare one with all others by a boolean, as {column} == {first!r}, or choose rows of two"


def _sort_key(label: Any) -> tuple[bool, Any, str]:
    """Numbers by size, before all others by their text."""
    is_number = isinstance(label, (bool, int, float, np.number, np.bool_))
    return not is_number, float(label) if is_number else 0.0, str(label)


def _name(label: Any, group: Any) -> str:
    """A group in words: its label, with the column in front of a number, or the truth of a boolean."""
    if isinstance(group, str):
        return str(label) if isinstance(label, str) and any(map(str.isalpha, label)) else f"{group} = {label}"
    if isinstance(label, (bool, np.bool_)):
        return "the group" if label else "all others"
    return str(label)
