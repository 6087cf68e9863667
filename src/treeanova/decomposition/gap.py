"""Gap between two groups of rows: which terms make their mean scores differ, with errors over rows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats, Ints
from treeanova.core.progress import Progress, reporting
from treeanova.data.columns import column_named, encode, printable
from treeanova.data.features import Schema, distinct, is_missing
from treeanova.data.files import records
from treeanova.decomposition.function import Components, Function, components_at
from treeanova.decomposition.importance import Families, contributions_table, families_of, largest_first, summed
from treeanova.decomposition.predictions import Predictions, backend_of_tables, function_of
from treeanova.decomposition.result import Result, contribution_lines, rows_of_output
from treeanova.density.row_sources import checked_weights
from treeanova.density.statistics import Statistics, rows_as_statistics
from treeanova.views import scale_of

_SHOWN_LABELS = 6
_ROUNDING = 1e-12
WITHOUT_ERROR = "one value in each group, known without error given the model"


def error_text(error: float, digits: int = 3) -> str:
    return "–" if math.isnan(error) else f"{error:.{digits}g}"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Gap(Result):
    """The difference of the mean scores of two groups of rows, the second minus the first, by term; `print` it.

    The terms show how the model arrives at the difference, not whether the difference is justified. Dropping a
    feature's terms does not remove its influence: correlated features carry part of it.

    Attributes
    ----------
    table
        Data frame with the columns term, gap and error, and output if there are several; the largest first. Unlisted
        terms are in the row of their order, and the remainder has a row. Gaps add up to `total`. An error is NaN,
        printed as "–", if a term has one value in each group, such as that of the feature that makes the groups.
    routes
        Sums of the gap: through one feature by itself, through its interactions, and through all other features; None
        if no such feature is named.
    total
        The difference of the mean scores; a float, or an array of shape (n_outputs,).
    error
        Standard error of `total`; NaN if a group has a single row.
    groups
        Names of the two groups.
    sizes
        Numbers of their rows; those of weight zero do not count.
    means
        Mean scores of the two groups, the first and the second.
    feature
        The feature, or family, of `routes`, if any.
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
    >>> print(fx.gap(X[:, [0, 1]], X[:, 0] == 1))
    mean prediction 0 in all others (2 rows), 0.5 in the group (2 rows)
    gap +0.5, standard error 0.5
    <BLANKLINE>
    term      gap  error
    x0       +0.5      –
    x1          0  0.354
    x0 × x1     0  0.354
    <BLANKLINE>
    error –: one value in each group, known without error given the model
    """

    table: Any
    routes: Any
    total: float | Floats
    error: float | Floats
    groups: tuple[str, str]
    sizes: tuple[int, int]
    means: tuple[float | Floats, float | Floats]
    feature: str | None
    fx: Predictions
    rows: tuple[Statistics, Statistics]
    is_weighted: bool = False

    @property
    def counts(self) -> tuple[str, str]:
        """Numbers of rows of both groups in words."""
        words = "weighted rows" if self.is_weighted else "rows"
        return f"{self.sizes[0]:,} {words}", f"{self.sizes[1]:,} {words}"

    def _content(self) -> dict[str, Any]:
        return {
            "scale": scale_of(self.fx.schema),
            "outputs": list(self.fx.outputs),
            "groups": list(self.groups),
            "sizes": list(self.sizes),
            "is_weighted": self.is_weighted,
            "means": list(self.means),
            "total": self.total,
            "error": self.error,
            "table": records(self.table),
            "routes": None if self.routes is None else records(self.routes),
        }

    def _text(self, top: int) -> str:
        content, blocks = self._content(), []
        for k, output in enumerate(self.fx.outputs):
            of = f"{output}: " if len(self.fx.outputs) > 1 else ""
            sides = [
                f"{np.atleast_1d(mean)[k]:.4g} in {name} ({count})"
                for name, count, mean in zip(self.groups, self.counts, self.means, strict=True)
            ]
            gap, error = np.atleast_1d(self.total)[k], np.atleast_1d(self.error)[k]
            head = printable(f"{of}mean {content['scale']} {', '.join(sides)}")
            blocks.append(f"{head}\ngap {gap:+.4g}, standard error {error_text(error, 2)}")
            for name, n_rows in (("routes", None), ("table", top)):
                rows = rows_of_output(content[name] or [], output)
                if rows:
                    blocks.append(contribution_lines(rows, ("gap", "error"), n_rows or len(rows), "gap"))
        if min(self.sizes) > 1 and any(row["error"] is None or math.isnan(row["error"]) for row in content["table"]):
            blocks.append(f"error –: {WITHOUT_ERROR}")
        if self.feature is not None:
            blocks.append(
                printable(
                    f"Dropping the terms of {self.feature} would not remove its influence: features correlated with "
                    "it carry it."
                )
            )
        return "\n\n".join(blocks)


def gap_between(
    fx: Predictions,
    X: Any,
    group: Any,
    *,
    sample_weight: npt.ArrayLike | None,
    feature: str | None,
    groups: Mapping[str, Collection[str]] | None,
    progress: bool | Progress | None,
) -> Gap:
    families = families_of(groups, fx.schema.names)
    encoded = encode(X, fx.schema)
    two = two_groups(X, group, fx.schema, len(encoded))
    feature = _checked_feature(feature, group, fx.schema, families)
    function = function_of(fx)
    components = function.components
    sums = [
        _by_term(components, fx.schema) if groups is None else _by_family(components, families),
        _Sums("term", ["total"], np.zeros(len(components), dtype=np.int64)),
    ]
    sums += [] if feature is None else [_by_route(components, families, feature)]
    weights = None if sample_weight is None else checked_weights(sample_weight, len(encoded))
    if weights is not None:
        weights = weights / weights.max()  # so that squares neither vanish nor overflow
    sides = [_Side.of(two, second, weights) for second in (False, True)]
    rows = [rows_as_statistics(fx.grid, encoded[side.rows], side.weights) for side in sides]
    with reporting(progress):
        first, second = (
            _spreads(function, components, sums, of_group, side.weights)
            for of_group, side in zip(rows, sides, strict=True)
        )
    differences = [_difference(*spreads) for spreads in zip(first, second, strict=True)]
    tables = [_table(*pair, fx.outputs, backend_of_tables(fx)) for pair in zip(sums, differences, strict=True)]
    total, levels = differences[1], [function.terms.intercept + side[1].mean[0] for side in (first, second)]
    return Gap(
        table=tables[0],
        routes=None if feature is None else tables[2],
        total=_per_output(total["gap"][0]),
        error=_per_output(total["error"][0]),
        groups=two.names,
        sizes=(rows[0].n_rows, rows[1].n_rows),
        means=(_per_output(levels[0]), _per_output(levels[1])),
        feature=feature,
        fx=fx,
        rows=(rows[0], rows[1]),
        is_weighted=weights is not None,
    )


class _Side(NamedTuple):
    """Whether each row is in a group with a weight above zero, and the weights of those."""

    rows: npt.NDArray[np.bool_]
    weights: Floats | None

    @classmethod
    def of(cls, two: TwoGroups, second: bool, weights: Floats | None) -> _Side:
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


def _per_output(values: Floats) -> float | Floats:
    return float(values[0]) if len(values) == 1 else values


def _checked_feature(feature: str | None, group: Any, schema: Schema, families: Families) -> str | None:
    if feature is None and isinstance(group, str) and group in schema.names:
        feature = group
    if feature is None or feature in families.names:
        return feature
    if feature not in schema.names:
        raise ValueError(
            f"`feature` must be a feature of the model or a family, got {feature!r}; see fx.feature_names_in_."
        )
    return families.names[families.places[schema.names.index(feature)]]


# Sums of components.


class _Sums(NamedTuple):
    by: str
    labels: list[str]
    places: Ints


def _by_term(components: Components, schema: Schema) -> _Sums:
    return _Sums("term", components.labels(schema.names), np.arange(len(components)))


def _by_family(components: Components, families: Families) -> _Sums:
    keys, places = families.merged(components.keys)
    labels = components.labelled(families.labels(keys))
    return _Sums("term", labels, np.append(places, np.arange(len(keys), len(labels))))


def _by_route(components: Components, families: Families, feature: str) -> _Sums:
    """Sort components into those of a feature, its interactions, and others; unlisted terms may be any of these."""
    position = families.names.index(feature)
    keys = [families.key(key) for key in components.keys]
    places = [0 if key == (position,) else 1 if position in key else 2 for key in keys]
    labels = components.labelled([f"{feature} by itself", f"interactions of {feature}", "other features"])
    return _Sums("route", labels, np.array([*places, *range(3, len(labels))], dtype=np.int64))


# Means and errors over rows.


class _Running:
    """Weighted mean, and weighted sum of squares around it, updated block by block."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.total = 0.0
        self.mean = np.zeros(shape)
        self.squares = np.zeros(shape)

    def add(self, values: Floats, weights: Floats) -> None:
        """Add values (n_rows, n_sums, n_outputs) with weights (n_rows,)."""
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
    """Means of sums of parts over rows, and their standard errors, updated block by block."""

    def __init__(self, sums: _Sums, n_outputs: int, *, is_weighted: bool) -> None:
        self._sums = sums
        self._n_rows = 0
        shape = len(sums.labels), n_outputs
        self._weighted = _Running(shape)
        self._by_squares = _Running(shape) if is_weighted else self._weighted  # all weights 1 are their squares

    def add(self, values: Floats, weights: Floats) -> None:
        """Add values of all parts, shape (n_rows, n_parts, n_outputs)."""
        values = summed(values, self._sums.places, len(self.mean), axis=1)
        self._weighted.add(values, weights)
        if self._by_squares is not self._weighted:
            self._by_squares.add(values, weights**2)
        self._n_rows += len(weights)

    @property
    def mean(self) -> Floats:
        return self._weighted.mean

    @property
    def error_squared(self) -> Floats:
        """Squared standard error, Σ w² (x - mean)² / (Σ w)² n / (n - 1); NaN for a single row."""
        n, running = self._n_rows, self._by_squares
        if n < 2:
            return np.full(self.mean.shape, np.nan)
        squares = running.squares + running.total * (running.mean - self.mean) ** 2
        return squares / self._weighted.total**2 * (n / (n - 1))


def _spreads(
    function: Function, components: Components, sums: Sequence[_Sums], rows: Statistics, weights: Floats | None
) -> list[_Spread]:
    codes, n_outputs = rows.on(function.grid).bins, function.terms.n_outputs
    spreads = [_Spread(each, n_outputs, is_weighted=weights is not None) for each in sums]
    weights = np.ones(len(codes)) if weights is None else weights
    for block in components.blocks(len(codes), n_outputs):
        values = components_at(function, codes[block], components)
        for spread in spreads:
            spread.add(values, weights[block])
    return spreads


def _difference(first: _Spread, second: _Spread) -> dict[str, Floats]:
    """Return the second mean minus the first, and its error; NaN if values vary within groups by rounding only."""
    error = np.sqrt(first.error_squared + second.error_squared)
    rounding = _ROUNDING * np.maximum(np.abs(first.mean), np.abs(second.mean))
    return {"gap": second.mean - first.mean, "error": np.where(error > rounding, error, np.nan)}


def _table(sums: _Sums, difference: dict[str, Floats], outputs: Sequence[str], backend: str | None) -> Any:
    """Return a row per output and sum, largest gap first; routes keep their order."""
    sizes = np.abs(difference["gap"])
    ranks = [largest_first(column) if sums.by == "term" else range(len(sizes)) for column in sizes.T]
    return contributions_table({sums.by: sums.labels}, outputs, difference, ranks, backend)


# The two groups.


class TwoGroups(NamedTuple):
    names: tuple[str, str]
    is_second: npt.NDArray[np.bool_]


def two_groups(X: Any, group: Any, schema: Schema, n_rows: int) -> TwoGroups:
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
    is_number = isinstance(label, (bool, int, float, np.number, np.bool_))
    return not is_number, float(label) if is_number else 0.0, str(label)


def _name(label: Any, group: Any) -> str:
    """Return a group's label, prefixed with its column for numbers, or the truth of a boolean."""
    if isinstance(group, str):
        return str(label) if isinstance(label, str) and any(map(str.isalpha, label)) else f"{group} = {label}"
    if isinstance(label, (bool, np.bool_)):
        return "the group" if label else "all others"
    return str(label)
