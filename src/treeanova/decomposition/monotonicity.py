"""Monotonicity: whether a model only rises or only falls in a feature, whatever its other features are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from treeanova.core.arrays import Floats, Ints, Key
from treeanova.data.columns import frame, printable
from treeanova.data.files import records
from treeanova.decomposition.function import Function
from treeanova.decomposition.result import Result
from treeanova.model.effects import Effects
from treeanova.model.forest import Forest
from treeanova.model.grid import Grid
from treeanova.readers import read_for_rows
from treeanova.terms.closed_form import expand
from treeanova.terms.extremes import Extreme, StepFunction, size_of_tables, steps_of_trees
from treeanova.terms.layout import leaves_of
from treeanova.terms.leaves import LeafSets
from treeanova.terms.terms import TermSet

_MOST_ORDERS_BY_TABLES = 2
_FEW = 4
_FEW_NODES, _MANY_NODES = 30, 2_000
_MOST_SEARCHES = 5_000  # of levels times steps


class Step(NamedTuple):
    """The change from a bin of the feature to the next; `smallest` and `largest` are bounds in all cells."""

    below: str
    above: str
    smallest: float
    largest: float
    smallest_found: float  # attained in a cell; equal to the bound if `is_exact`
    largest_found: float
    smallest_at: tuple[str, ...]  # bins of the other features
    largest_at: tuple[str, ...]
    is_exact: bool


class Level(NamedTuple):
    """The steps with one other feature in a given bin; see `Step`."""

    partner: str
    level: str
    direction: str
    smallest: float
    largest: float
    is_exact: bool


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Monotonicity(Result):
    """Whether a model rises or falls in a feature, all other features being the same; `print` it.

    The statement is exact and about all cells of the model, including those without data. Bins of missing values have
    no place in the order, and are left out.

    Attributes
    ----------
    feature, output
        Names of the feature and of the output.
    direction
        "increasing" (never falls), "decreasing" (never rises), "constant", "neither", or "undecided" if neither a proof
        nor a counterexample was found.
    all_steps
        The changes between neighbouring bins; `steps` is a table of them.
    levels
        The direction where one other feature is in a given bin; `table` is a table of them.
    tolerance
        Changes up to this size are treated as zero: 1e-12 of the sum of the largest absolute values of the intercept
        and of all terms or trees.
    notes
        What the statement leaves out.
    backend
        Name of the data frame library for tables.

    Examples
    --------
    >>> from treeanova.testing import example
    >>> fx, X = example()  # the logical "and" of x0 and x1
    >>> print(fx.monotonicity("x0"))
    x0: increasing
      largest change 1, from ≤ 0.5 to > 0.5 or missing at x1 > 0.5 or missing
      by levels of x1: 1 increasing, 1 constant
      missing values count as > 0.5 or missing
    """

    feature: str
    output: str
    direction: str
    all_steps: tuple[Step, ...]
    levels: tuple[Level, ...]
    tolerance: float
    notes: tuple[str, ...] = ()
    backend: str | None = None

    @property
    def is_increasing(self) -> bool | None:
        """Whether the model never falls in the feature; None if undecided."""
        return _never(
            any(step.smallest < -self.tolerance for step in self.all_steps),
            any(step.smallest_found < -self.tolerance for step in self.all_steps),
        )

    @property
    def is_decreasing(self) -> bool | None:
        """Whether the model never rises in the feature; None if undecided."""
        return _never(
            any(step.largest > self.tolerance for step in self.all_steps),
            any(step.largest_found > self.tolerance for step in self.all_steps),
        )

    @property
    def table(self) -> Any:
        """Table of the direction at each level of each other feature, all else being free.

        `smallest` and `largest` bound the changes from one bin of the feature to the next; they are attained if
        `is_exact`.
        """
        return frame({name: [getattr(row, name) for row in self.levels] for name in Level._fields}, self.backend)

    @property
    def steps(self) -> Any:
        """Table of the smallest and largest change between neighbouring bins, and the cells that have them."""
        columns: dict[str, list[Any]] = {name: [getattr(row, name) for row in self.all_steps] for name in Step._fields}
        for name in ("smallest_at", "largest_at"):
            columns[name] = [", ".join(words) for words in columns[name]]
        return frame(columns, self.backend)

    def breaks(self, direction: str) -> Any:
        """Return a table of the cells that break a direction: the largest break of each step.

        Parameters
        ----------
        direction
            "increasing" or "decreasing".

        Returns
        -------
        data frame
            Columns `below` and `above` (bins of the feature), `change`, and `where` (bins of the other features).

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> broken = fx.monotonicity("x0").breaks("decreasing")
        >>> list(broken["change"]), list(broken["where"])
        ([1.0], ['x1 > 0.5 or missing'])
        """
        if direction not in {"increasing", "decreasing"}:
            raise ValueError(f"`direction` must be 'increasing' or 'decreasing', got {direction!r}.")
        rows = self._breaking(is_fall=direction == "increasing")
        columns = zip(*((*row[:3], ", ".join(row[3])) for row in rows), strict=True) if rows else ((),) * len(_BREAKS)
        return frame({name: list(column) for name, column in zip(_BREAKS, columns, strict=True)}, self.backend)

    def _breaking(self, *, is_fall: bool) -> list[tuple[str, str, float, tuple[str, ...]]]:
        """Return bins, change and cell of each step that falls (or rises), the largest first."""
        side, sign = ("smallest", -1) if is_fall else ("largest", 1)
        rows = [(s.below, s.above, getattr(s, f"{side}_found"), getattr(s, f"{side}_at")) for s in self.all_steps]
        return sorted((row for row in rows if sign * row[2] > self.tolerance), key=lambda row: -abs(row[2]))

    def __repr__(self) -> str:
        return f"Monotonicity({self.feature}: {self.direction})"

    def _content_of_dict(self) -> dict[str, Any]:
        content = {name: getattr(self, name) for name in ("feature", "output", "direction")}
        return content | {"levels": records(self.table), "steps": records(self.steps)}

    def _text_of_top(self, top: int) -> str:
        del top  # it has no long table
        words = {"neither": "neither increasing nor decreasing", "undecided": "undecided"}
        lines = [f"{self.feature}: {words.get(self.direction, self.direction)}"]
        lines += [f"  {line}" for line in (*self._lines_of_extremes(), *self._lines_by_partner(), *self.notes)]
        return "\n".join(map(printable, lines))

    def _lines_of_extremes(self) -> Iterator[str]:
        """Yield the largest fall and the largest rise in words, and bounds where larger ones may exist."""
        low = min((step.smallest for step in self.all_steps), default=0.0)
        high = max((step.largest for step in self.all_steps), default=0.0)
        is_searched = self.direction != "undecided"
        for is_fall, word, bound in ((True, "fall", low), (False, "rise", high)):
            rows = self._breaking(is_fall=is_fall)
            if rows:
                below, above, change, where = rows[0]
                is_largest = abs(bound) <= abs(change) + self.tolerance
                is_searched = is_searched and is_largest
                name = "change" if self.direction in {"increasing", "decreasing"} else word
                more = f" and bins of {len(where) - _FEW} more features" if len(where) > _FEW else ""
                cell = f" at {', '.join(where[:_FEW])}{more}" if where else ""
                found = "" if is_largest else " found"
                yield f"largest {name}{found} {change:.4g}, from {below} to {above}{cell}"
        if not is_searched:
            yield f"every change is between {low:.4g} and {high:.4g}"

    def _lines_by_partner(self) -> Iterator[str]:
        """Yield, per other feature or for all together, how many of its levels have each direction."""
        partners = list(dict.fromkeys(level.partner for level in self.levels))
        if len(partners) > _FEW:
            yield f"by levels of {len(partners)} other features: {_directions_text(self.levels)}"
            return
        for partner in partners:
            levels = [level for level in self.levels if level.partner == partner]
            yield f"by levels of {partner}: {_directions_text(levels)}"


_BREAKS = ("below", "above", "change", "where")
_DIRECTIONS = ("increasing", "decreasing", "constant", "neither", "undecided")


def _directions_text(levels: Sequence[Level]) -> str:
    """Count levels by direction, in words."""
    directions = [level.direction for level in levels]
    return ", ".join(f"{directions.count(word):,} {word}" for word in _DIRECTIONS if word in directions)


def _never(is_possible: bool, is_found: bool) -> bool | None:
    """Return True if something is impossible, False if it was found, None if unknown."""
    return not is_found if is_found or not is_possible else None


def _direction(never_falls: bool | None, never_rises: bool | None) -> str:
    """Return the direction in a word; None is unknown."""
    if never_falls and never_rises:
        return "constant"
    if never_falls or never_rises:
        return "increasing" if never_falls else "decreasing"
    return "neither" if never_falls is False and never_rises is False else "undecided"


def monotonicity_of(function: Function, model: Any, feature: int, output: int, backend: str | None) -> Monotonicity:
    """Return the direction of the score in a feature, for one output (positions); search longer if it is undecided."""
    grid, steps = _steps(function, model, feature, output)
    for n_nodes in (_FEW_NODES, _MANY_NODES):
        statement = _statement(grid, steps, feature, n_nodes)
        if statement.direction != "undecided":
            break
    axis, note = grid.axes[feature], ""
    if axis.n_extra:
        note = "missing values are excluded"
    elif axis.missing_bin >= 0:
        note = f"missing values count as {axis.labels[axis.missing_bin]}"
    notes = (note,) if note else ()
    return dataclasses.replace(statement, output=grid.schema.outputs[output], notes=notes, backend=backend)


def _statement(grid: Grid, functions: Callable[[], Iterator[StepFunction]], feature: int, n_nodes: int) -> Monotonicity:
    """Bound each step of a feature by branch and bound with up to `n_nodes` nodes, and state what follows."""
    # `functions()` yields, for each bin but the last, the change to the next bin as a function of the other features.
    axis = grid.axes[feature]
    steps, by_partner, tolerance, extremes = [], _ByPartner(grid), 0.0, []
    for bin_index, function in enumerate(functions()):
        tolerance = max(tolerance, function.tolerance)
        low, high = function.lowest(n_nodes), (-function).lowest(n_nodes)
        extremes.append((low, high))
        bounds = low.bound, -high.bound, low.least, -high.least
        cells = _bins_text(function, grid, low.cell), _bins_text(function, grid, high.cell)
        is_exact = low.is_exact and high.is_exact
        steps.append(Step(axis.labels[bin_index], axis.labels[bin_index + 1], *bounds, *cells, is_exact))
        by_partner.add(function, low, high)
    levels = by_partner.levels(tolerance)
    open_levels = {(level.partner, level.level) for level in levels if level.direction == "undecided"}
    if 0 < len(open_levels) * len(steps) <= _MOST_SEARCHES:
        searched = _ByPartner(grid, frozenset(open_levels))
        for function, (low, high) in zip(functions(), extremes, strict=True):
            searched.add(function, low, high)
        levels = searched.levels(tolerance)
    statement = Monotonicity(axis.name, "", "", tuple(steps), levels, tolerance)
    return dataclasses.replace(statement, direction=_direction(statement.is_increasing, statement.is_decreasing))


def _steps(
    function: Function, model: Any, feature: int, output: int
) -> tuple[Grid, Callable[[], Iterator[StepFunction]]]:
    """Return the grid, and a function that yields all steps in a feature: from trees if available, or from tables."""
    source = function.source
    if source.is_sum_of_terms and not function.scope.is_part:
        effects = source.raw().effects
        if max((len(key) for key in effects.terms if feature in key), default=0) > _MOST_ORDERS_BY_TABLES:
            trees = _trees_of(effects, model)
            if trees is not None:
                size = size_of_tables(effects, output)  # as from a file, which has the tables alone
                return trees[1].grid, lambda: (
                    dataclasses.replace(step, size=size) for step in steps_of_trees(*trees, feature, output)
                )
    return source.steps(feature, output)[0], lambda: source.steps(feature, output)[1]


def _trees_of(effects: Effects, model: Any) -> tuple[Forest, LeafSets] | None:
    """Return trees and leaves of the model if they give these tables; None if it cannot be read or differs."""
    if model is None:
        return None
    try:
        content = read_for_rows(model)
    except (OSError, TypeError, ValueError):
        return None
    if not isinstance(content, Forest) or len(content.schema.features) != len(effects.schema.features):
        return None
    forest = content.with_schema(effects.schema)
    sets = leaves_of(forest)
    is_same = sets.grid.has_bins_of(effects.grid) and TermSet(expand(sets)).equals(TermSet(effects))
    return (forest, sets) if is_same else None


def _bins_text(function: StepFunction, grid: Grid, cell: Sequence[int]) -> tuple[str, ...]:
    """Describe the bins of a cell of the other features; those that make no difference to the step are left out."""
    words = []
    for j, columns, column in zip(function.partners, function.columns, cell, strict=True):  # `columns`: of each bin
        if len(columns) and columns.max() > 0:
            axis = grid.axes[j]
            label = axis.labels[int(np.flatnonzero(columns == column)[0])]
            relation = "" if label[0] in "≤><≥" else "in " if label[0] in "([" and axis.is_ordered else "= "
            words.append(f"{axis.name} {relation}{label}")
    return tuple(words)


@dataclasses.dataclass(frozen=True, eq=False)
class _ByPartner:
    """Bounds of all steps so far at each level of each partner; levels in `to_search` are searched one by one."""

    grid: Grid
    to_search: frozenset[tuple[str, str]] = frozenset()
    # by partner, (4, n_levels): bound and attained value of the lowest step, then of its lowest negative
    bounds: dict[int, Floats] = dataclasses.field(default_factory=dict)
    outside: list[tuple[Key, Floats]] = dataclasses.field(default_factory=list)  # partners of a step; these four

    def add(self, function: StepFunction, low: Extreme, high: Extreme) -> None:
        """Lower the bounds by those of a step, whose extremes over all cells are given (`high`: of its negative)."""
        negative = -function
        for i, (j, columns) in enumerate(zip(function.partners, function.columns, strict=True)):
            bounds = np.concatenate([function.by_level(i, low.cell), negative.by_level(i, high.cell)])
            for column in self._columns_to_search(j, columns):
                bounds[:, column] = *_lowest_at_level(function, i, column), *_lowest_at_level(negative, i, column)
            bounds = np.maximum(bounds[:, columns], [[low.bound], [-np.inf], [high.bound], [-np.inf]])
            self.bounds[j] = np.minimum(self.bounds[j], bounds) if j in self.bounds else bounds
        whole = np.array([low.bound, low.least, high.bound, high.least])
        self.outside.append((function.partners, whole))

    def _columns_to_search(self, partner: int, columns: Ints) -> list[int]:
        """Return the columns of a step function that stand for bins to search."""
        axis = self.grid.axes[partner]
        bins = [i for i, label in enumerate(axis.labels) if (axis.name, label) in self.to_search]
        return sorted(set(columns[bins].tolist()))

    def levels(self, tolerance: float) -> tuple[Level, ...]:
        """Return the direction at each level of each partner; changes within the tolerance do not count."""
        levels = []
        for j, bounds in sorted(self.bounds.items()):
            for partners, whole in self.outside:
                if j not in partners:  # the step does not depend on this feature
                    bounds = np.minimum(bounds, whole[:, None])
            axis, is_possible, is_attained = self.grid.axes[j], bounds[::2] < -tolerance, bounds[1::2] < -tolerance
            for i, label in enumerate(axis.labels):
                never = [
                    _never(bool(is_possible[side, i]), bool(is_attained[side, i])) for side in (0, 1)
                ]  # falls, rises
                is_exact = bool((bounds[1::2, i] <= bounds[::2, i]).all())
                low, high = float(bounds[0, i]), float(-bounds[2, i])
                levels.append(Level(axis.name, label, _direction(*never), low, high, is_exact))
        return tuple(levels)


def _lowest_at_level(function: StepFunction, partner_index: int, column: int) -> tuple[float, float]:
    """Return the bound and the attained value of the lowest step with one partner fixed."""
    extreme = function.lowest(_FEW_NODES, at=(partner_index, column))
    return extreme.bound, extreme.least
