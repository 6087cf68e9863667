"""Gap between two groups of rows: which terms make their mean scores differ, with errors over rows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints, check_unmasked
from treeanova.core.progress import reporting
from treeanova.data.columns import column_named, encode, printable
from treeanova.data.features import Schema, distinct, is_missing
from treeanova.data.files import records
from treeanova.decomposition.function import Components, Function, components_at, per_output
from treeanova.decomposition.importance import Families, contributions_table, families_of, largest_first, sum_slices
from treeanova.decomposition.predictions import Predictions, backend_of_tables, function_of
from treeanova.decomposition.result import Result, contribution_lines, rows_of_output
from treeanova.density.statistics import Statistics, checked_weights, rows_as_statistics
from treeanova.views import first_texts, rows_words, scale_of

_ROUNDING = 1e-12
WITHOUT_ERROR = "one value in each group, known without error given the model"


def error_text(error: float, digits: int = 3) -> str:
    """Return a standard error as text; a dash for NaN."""
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
    groups, sizes, means
        Names of the two groups, numbers of their rows (those of weight zero do not count), and mean scores.
    feature
        The feature, or family, of `routes`, if any.
    fx, rows
        The decomposition, and statistics of the rows of the two groups.
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
        row = "weighted row" if self.is_weighted else "row"
        return rows_words(self.sizes[0], row), rows_words(self.sizes[1], row)

    def _content_of_dict(self) -> dict[str, Any]:
        names = ("groups", "sizes", "is_weighted", "means", "total", "error")
        content = {"scale": scale_of(self.fx.schema), "outputs": self.fx.outputs}
        content |= {name: getattr(self, name) for name in names}
        routes = None if self.routes is None else records(self.routes)
        return content | {"table": records(self.table), "routes": routes}

    def _text_of_top(self, top: int) -> str:
        content, blocks = self._content_of_dict(), []
        for k, output in enumerate(self.fx.outputs):
            prefix = f"{output}: " if len(self.fx.outputs) > 1 else ""
            sides = [
                f"{np.atleast_1d(mean)[k]:.4g} in {name} ({count})"
                for name, count, mean in zip(self.groups, self.counts, self.means, strict=True)
            ]
            gap, error = np.atleast_1d(self.total)[k], np.atleast_1d(self.error)[k]
            head = printable(f"{prefix}mean {content['scale']} {', '.join(sides)}")
            blocks.append(f"{head}\ngap {gap:+.4g}, standard error {error_text(error, 2)}")
            for name, n_rows in (("routes", None), ("table", top)):
                rows = rows_of_output(content[name] or [], output)
                if rows:
                    blocks.append(contribution_lines(rows, ("gap", "error"), n_rows or len(rows), "gap"))
        if min(self.sizes) > 1 and any(row["error"] is None or math.isnan(row["error"]) for row in content["table"]):
            blocks.append(f"error –: {WITHOUT_ERROR}")
        if others_carry(self):
            dropping = f"Dropping the terms of {self.feature} would not remove its influence"
            blocks.append(printable(f"{dropping}: features correlated with it carry it."))
        return "\n\n".join(blocks)


def others_carry(gap: Gap) -> bool:
    """Whether a model with terms of `gap.feature` has a gap through other features, too, of more than two errors."""
    routes = [] if gap.routes is None else records(gap.routes)
    # per output: the feature by itself, its interactions, and other features
    by_output = [rows_of_output(routes, output)[:3] for output in gap.fx.outputs] if routes else []
    has_terms = any(row["gap"] or (row["error"] or 0.0) > 0.0 for rows in by_output for row in rows[:2])
    return has_terms and any(abs(rows[2]["gap"]) > 2 * (rows[2]["error"] or math.inf) for rows in by_output)


def gap_between(
    fx: Predictions, X: Any, group: Any, *, sample_weight: Any, feature: str | None, groups: Any, progress: Any
) -> Gap:
    """Return the gap of two groups of rows; `feature` is the one of its routes, `groups` are families of features."""
    families = families_of(groups, fx.schema.names)
    encoded = encode(X, fx.schema)
    names, is_second = two_groups(X, group, fx.schema, len(encoded))
    feature = _checked_feature(feature, group, fx.schema, families)
    function = function_of(fx)
    components = function.components
    by_term = components.labels(fx.schema.names), np.arange(len(components))
    sums = [by_term if groups is None else _by_family(components, families), (["total"], np.zeros_like(by_term[1]))]
    sums += [] if feature is None else [_by_route(components, families, feature)]
    weights = None if sample_weight is None else checked_weights(sample_weight, len(encoded))
    if weights is not None:
        weights = weights / weights.max()  # so that squares neither vanish nor overflow
    masks = zip(names, (~is_second, is_second), strict=True)
    rows_and_weights = [_rows_in_group(name, is_in_group, weights) for name, is_in_group in masks]
    statistics = [rows_as_statistics(fx.grid, encoded[rows], of_rows) for rows, of_rows in rows_and_weights]
    with reporting(progress):
        pairs = zip(statistics, rows_and_weights, strict=True)
        spreads = [_spreads(function, components, sums, rows, of_rows) for rows, (_, of_rows) in pairs]
    differences = [_difference(*both_groups) for both_groups in zip(*spreads, strict=True)]
    tables = [
        _table(by, labels, difference, fx.outputs, backend_of_tables(fx))
        for by, (labels, _), difference in zip(("term", "term", "route"), sums, differences, strict=False)
    ]
    total, error = (per_output(differences[1][name][0]) for name in ("gap", "error"))
    first, second = (per_output(function.terms.intercept + of_group[1].mean[0]) for of_group in spreads)
    sizes, rows = (statistics[0].n_rows, statistics[1].n_rows), (statistics[0], statistics[1])
    routes, is_weighted = None if feature is None else tables[2], weights is not None
    return Gap(tables[0], routes, total, error, names, sizes, (first, second), feature, fx, rows, is_weighted)


def _rows_in_group(name: str, is_in_group: Bools, weights: Floats | None) -> tuple[Bools, Floats | None]:
    """Return which rows are in a group with a weight above zero, and the weights of those."""
    rows = is_in_group if weights is None else is_in_group & (weights > 0)
    if not rows.any():
        raise ValueError(
            f"`sample_weight` must be positive for rows of both groups, got zeros only in {name}; leave the weights "
            "out or choose other groups."
        )
    return rows, None if weights is None else weights[rows]


def _checked_feature(feature: str | None, group: Any, schema: Schema, families: Families) -> str | None:
    """Return the family for routes: that of `feature`, or of the column that `group` names; None if neither."""
    if feature is None and isinstance(group, str) and group in schema.names:
        feature = group
    if feature is None or feature in families.names:
        return feature
    if feature not in schema.names:
        raise ValueError(
            f"`feature` must be a feature of the model or a family, got {feature!r}; see fx.feature_names_in_."
        )
    return families.names[families.family_index[schema.names.index(feature)]]


Sums = tuple[list[str], Ints]  # labels of sums, and the position of each component's sum


def _by_family(components: Components, families: Families) -> Sums:
    """Return sums by family: labels of families, interactions and unlisted terms, and each component's position."""
    keys, sum_index = families.merged(components.keys)
    labels = components.with_labels_of_sums(families.labels(keys))
    return labels, np.append(sum_index, np.arange(len(keys), len(labels)))


def _by_route(components: Components, families: Families, feature: str) -> Sums:
    """Return sums by route: a feature, its interactions, other features; unlisted terms; each component's position."""
    position = families.names.index(feature)
    keys = [families.key_of_families(key) for key in components.keys]
    routes = [0 if key == (position,) else 1 if position in key else 2 for key in keys]
    labels = components.with_labels_of_sums([f"{feature} by itself", f"interactions of {feature}", "other features"])
    return labels, np.array([*routes, *range(3, len(labels))], dtype=np.int64)


class _Spread:
    """Means of sums of components over rows, and their standard errors, updated block by block.

    Arrays have a first axis of weightings: the weights, and their squares for errors; one only if all weights are 1.
    """

    def __init__(self, sums: Sums, n_outputs: int, *, is_weighted: bool) -> None:
        labels, self._sum_index = sums
        self._powers = np.array([1.0, 2.0] if is_weighted else [1.0])
        self._n_rows, self._totals = 0, np.zeros((len(self._powers), 1, 1))
        self._means = np.zeros((len(self._powers), len(labels), n_outputs))
        self._squares = np.zeros_like(self._means)  # weighted sums of squares around the means

    def add(self, values: Floats, weights: Floats) -> None:
        """Add values of all components, shape (n_rows, n_components, n_outputs)."""
        values = sum_slices(values, self._sum_index, self._means.shape[1], axis=1)
        self._n_rows += len(weights)
        for i, power in enumerate(self._powers):
            weighted = weights[:, None, None] ** power
            added = float(weighted.sum())
            if not added:  # squares of tiny weights
                continue
            mean = (values * weighted).sum(axis=0) / added
            change, total = mean - self._means[i], self._totals[i] + added
            around_mean = ((values - mean) ** 2 * weighted).sum(axis=0)
            self._squares[i] += around_mean + change**2 * (self._totals[i] * added / total)
            self._means[i] += change * (added / total)
            self._totals[i] = total

    @property
    def mean(self) -> Floats:
        """Weighted means, shape (n_sums, n_outputs)."""
        return np.asarray(self._means[0])

    @property
    def error_squared(self) -> Floats:
        """Squared standard error, Σ w² (x - mean)² / (Σ w)² n / (n - 1); NaN for a single row."""
        n = self._n_rows
        if n < 2:
            return np.full(self.mean.shape, np.nan)
        squares = self._squares[-1] + self._totals[-1] * (self._means[-1] - self.mean) ** 2
        return np.asarray(squares / self._totals[0] ** 2 * (n / (n - 1)))


def _spreads(
    function: Function, components: Components, sums: Sequence[Sums], rows: Statistics, weights: Floats | None
) -> list[_Spread]:
    """Return means and errors over the rows of one group, for each way to sum components."""
    codes, n_outputs = rows.on(function.grid).bins, function.terms.n_outputs
    spreads = [_Spread(one_way, n_outputs, is_weighted=weights is not None) for one_way in sums]
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


def _table(
    by: str, labels: Sequence[str], difference: dict[str, Floats], outputs: Sequence[str], backend: str | None
) -> Any:
    """Return a data frame with a row per output and sum, by "term" largest gap first, by "route" in order."""
    sizes = np.abs(difference["gap"])
    ranks = [largest_first(column) if by == "term" else range(len(sizes)) for column in sizes.T]
    return contributions_table({by: labels}, outputs, difference, ranks, backend)


def two_groups(X: Any, group: Any, schema: Schema, n_rows: int) -> tuple[tuple[str, str], Bools]:
    """Return the names of the two groups, and whether each row is in the second."""
    labels, places = _labels_of_groups(X, group, schema, n_rows)
    if len(labels) != 2:
        raise _error_of_groups("two groups", group, labels)
    first, second = labels
    return (_group_name(first, group), _group_name(second, group)), places == 1


def groups_of_rows(X: Any, group: Any, schema: Schema, n_rows: int) -> tuple[list[str], Ints]:
    """Return the names of two groups or more, in sorted order, and the position of each row's."""
    labels, places = _labels_of_groups(X, group, schema, n_rows)
    if len(labels) < 2:
        raise _error_of_groups("groups", group, labels)
    return [_group_name(label, group) for label in labels], places


def _labels_of_groups(X: Any, group: Any, schema: Schema, n_rows: int) -> tuple[list[Any], Ints]:
    """Return labels of groups in sorted order, and the position of each row's."""
    if isinstance(group, str):
        column = column_named(X, group, schema)
    else:
        check_unmasked("group", group)
        column = np.asarray(group)
        if column.ndim != 1:
            raise ValueError(f"`group` must be the name of a column or one entry per row, got {column.ndim} axes.")
    if len(column) != n_rows:
        raise ValueError(
            f"`group` must have one entry per row, {n_rows}, got {len(column)}; pass those of the rows of X."
        )
    labels, label_index = distinct(column)
    missing = [is_missing(label) for label in labels]
    if any(missing):
        n_missing = int(np.isin(label_index, np.flatnonzero(missing)).sum())
        raise ValueError(
            f"`group` must be known for all rows, got {n_missing} of {n_rows} missing; leave these rows out."
        )
    order = sorted(range(len(labels)), key=lambda i: _numbers_first_key(labels[i]))
    rank = np.empty(len(labels), dtype=np.int64)
    rank[order] = np.arange(len(labels))
    return [labels[i] for i in order], rank[label_index]


def _error_of_groups(needed: str, group: Any, labels: Sequence[Any]) -> ValueError:
    """Return the error, to be raised, for rows of one label or too many; `needed` is "groups" or "two groups"."""
    shown = first_texts(map(str, sorted(labels, key=_numbers_first_key)))
    got, remedy = f"{shown} in all rows" if labels else "no rows", "pass rows of both groups"
    if len(labels) > 1:
        first, column = min(labels, key=_numbers_first_key), f"X[{group!r}]" if isinstance(group, str) else "labels"
        got = f"{len(labels)} ({shown})"
        remedy = f"compare one with all others by a boolean, as {column} == {first!r}, or choose rows of two"
    return ValueError(f"`group` must be {needed} of rows, got {got}; {remedy}.")


def _numbers_first_key(label: Any) -> tuple[bool, Any, str]:
    """Return a key that sorts numbers before text."""
    is_number = isinstance(label, (bool, int, float, np.number, np.bool_))
    return not is_number, float(label) if is_number else 0.0, str(label)


def _group_name(label: Any, group: Any) -> str:
    """Return a group's label, prefixed with its column for numbers, or the truth of a boolean."""
    if isinstance(group, str):
        return str(label) if isinstance(label, str) and any(map(str.isalpha, label)) else f"{group} = {label}"
    if isinstance(label, (bool, np.bool_)):
        return "the group" if label else "all others"
    return str(label)
