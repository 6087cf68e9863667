"""Trees grown from tables: the outcome in each cell of several features becomes splits on one feature at a time.

A branch splits one feature into all its classes and goes on with the slices, in which classes that became equal are
merged. The feature is the one whose slices have the fewest cells after that. Equal slices are grown once.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.readers.catboost.combinations import Condition

Words = npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True)
class Table:
    """Outcomes in the cells of features, where values that no condition distinguishes are one class.

    Attributes
    ----------
    bounds
        Upper ends of all intervals but the last for each feature; None for categories.
    classes
        What the classes of each feature are: the first of their intervals, or a mask of their categories.
    outcomes
        A number per cell, an axis per feature.
    """

    bounds: Mapping[int, Floats | None]
    classes: Mapping[int, Sequence[int]]
    outcomes: Ints

    def with_outcomes(self, outcomes: Ints) -> Table:
        """The same cells with other numbers."""
        return dataclasses.replace(self, outcomes=outcomes)


@dataclasses.dataclass(frozen=True)
class Branch:
    """A split into all classes of a feature, and what is grown for each."""

    feature: int
    parts: Sequence[Part]
    n_leaves: int


@dataclasses.dataclass(frozen=True)
class Part:
    """What is grown from cells: new classes of the old ones, for features that matter, and a branch or one outcome."""

    merged: Mapping[int, Sequence[int]]
    content: Branch | int

    @property
    def n_leaves(self) -> int:
        """Number of leaves below."""
        return 1 if isinstance(self.content, int) else self.content.n_leaves


def tabulate(
    conditions: Mapping[int, Condition], outcomes: Callable[[Mapping[int, Bools]], Ints], max_cells: int
) -> Table | None:
    """The table of conditions; None if it has too many cells.

    `outcomes` gives a number per cell from the conditions on the cells, which broadcast against each other.
    """
    bounds = _common_bounds(conditions.values())
    refined = {number: _refined(condition, bounds) for number, condition in conditions.items()}
    numbers = {feature: _class_numbers(feature, conditions, refined, bounds) for feature in bounds}
    first = {feature: _first_places(number) for feature, number in numbers.items()}
    if math.prod(map(len, first.values())) > max_cells:
        return None
    on_cells = {number: _on_cells(array, conditions[number].features, first) for number, array in refined.items()}
    shape = [len(places) for places in first.values()]
    return Table(
        bounds=bounds,
        classes={feature: _class_values(numbers[feature], first[feature], bounds[feature]) for feature in bounds},
        outcomes=np.ascontiguousarray(np.broadcast_to(outcomes(on_cells), shape)),
    )


def _common_bounds(conditions: Iterable[Condition]) -> dict[int, Floats | None]:
    """Bounds of the intervals that some condition distinguishes, for each feature, by position."""
    found: dict[int, list[Floats | None]] = {}
    for condition in conditions:
        for feature, bounds in zip(condition.features, condition.bounds, strict=True):
            found.setdefault(feature, []).append(bounds)
    return {feature: _union([bounds for bounds in found[feature] if bounds is not None]) for feature in sorted(found)}


def _union(bounds: Sequence[Floats]) -> Floats | None:
    return np.unique(np.concatenate(bounds)) if bounds else None


def _refined(condition: Condition, common: Mapping[int, Floats | None]) -> Bools:
    """The condition on the common intervals of all conditions."""
    result = condition.goes_right
    for axis, (feature, bounds) in enumerate(zip(condition.features, condition.bounds, strict=True)):
        finer = common[feature]
        if bounds is not None and finer is not None and len(finer) > len(bounds):
            result = result.take(np.append(np.searchsorted(bounds, finer), len(bounds)), axis=axis)
    return result


def _class_numbers(
    feature: int,
    conditions: Mapping[int, Condition],
    refined: Mapping[int, Bools],
    bounds: Mapping[int, Floats | None],
) -> list[int]:
    """The class of each interval or category of a feature: those with the same outcome of all conditions."""
    slices = [
        np.moveaxis(array, conditions[number].features.index(feature), 0)
        for number, array in refined.items()
        if feature in conditions[number].features
    ]
    rows = np.concatenate([part.reshape(len(part), -1) for part in slices], axis=1)
    return _numbered(np.packbits(rows, axis=1), in_order=bounds[feature] is not None)


def _numbered(rows: npt.NDArray[np.generic], *, in_order: bool) -> list[int]:
    """A number for each row, the same for equal ones; `in_order` only for equal neighbours."""
    if in_order:
        return [0, *np.cumsum((rows[1:] != rows[:-1]).any(axis=1)).tolist()]
    known: dict[bytes, int] = {}
    return [known.setdefault(row.tobytes(), len(known)) for row in rows]


def _first_places(numbers: Sequence[int]) -> list[int]:
    """The first place of each number, where numbers first appear in ascending order."""
    highest, places = -1, []
    for place, number in enumerate(numbers):
        if number > highest:
            highest = number
            places.append(place)
    return places


def _class_values(numbers: Sequence[int], first: list[int], bounds: Floats | None) -> list[int]:
    if bounds is not None:
        return first
    masks = [0] * len(first)
    for code, number in enumerate(numbers):
        masks[number] |= 1 << code
    return masks


def _on_cells(array: Bools, features: Sequence[int], first: Mapping[int, Sequence[int]]) -> Bools:
    """A condition on one value of each class, with an axis for each feature of the table."""
    cells = array[np.ix_(*(first[feature] for feature in features))]
    return cells.reshape([len(places) if feature in features else 1 for feature, places in first.items()])


def grow(table: Table) -> Part:
    """A tree for a table."""
    return _Growth(table).part(table.outcomes, tuple(table.bounds))


class _Growth:
    """Parts that were grown already, and random numbers to compare slices by."""

    def __init__(self, table: Table) -> None:
        rng = np.random.default_rng(0)
        sizes = {"outcome": int(table.outcomes.max()) + 1, "class": max(table.outcomes.shape)}
        self._of_outcome, self._of_class = (
            rng.integers(0, 1 << 63, size, dtype=np.uint64) * np.uint64(2) + np.uint64(1) for size in sizes.values()
        )
        self._in_order = {feature: bounds is not None for feature, bounds in table.bounds.items()}
        self._grown: dict[tuple[tuple[int, ...], tuple[int, ...], bytes], Branch] = {}

    def part(self, outcomes: Ints, features: tuple[int, ...]) -> Part:
        """What is grown from the outcomes in the cells of some features."""
        merged: dict[int, Sequence[int]] = {}
        for axis, feature in enumerate(features):
            rows = outcomes.swapaxes(axis, 0).reshape(outcomes.shape[axis], -1)
            numbers = _numbered(rows, in_order=self._in_order[feature])
            places = _first_places(numbers)
            if len(places) < len(numbers):
                outcomes = outcomes.take(places, axis=axis)
            if len(places) > 1:
                merged[feature] = numbers
        outcomes = outcomes.reshape([size for size in outcomes.shape if size > 1])
        return Part(merged, self._branch(outcomes, tuple(merged)) if merged else int(outcomes))

    def _branch(self, outcomes: Ints, features: tuple[int, ...]) -> Branch:
        if outcomes.ndim == 1:
            return Branch(features[0], [Part({}, outcome) for outcome in outcomes.tolist()], len(outcomes))
        key = features, outcomes.shape, outcomes.tobytes()
        if key not in self._grown:
            axis = self._best_axis(outcomes)
            parts = [self.part(outcomes.take([place], axis=axis), features) for place in range(outcomes.shape[axis])]
            self._grown[key] = Branch(features[axis], parts, sum(part.n_leaves for part in parts))
        return self._grown[key]

    def _best_axis(self, outcomes: Ints) -> int:
        """The axis whose slices have the fewest cells after equal classes are merged, by sums with random weights."""
        words = self._of_outcome[outcomes]
        n_cells = [np.ones(size) for size in outcomes.shape]
        for pair in itertools.combinations(range(outcomes.ndim), 2):
            sums = self._sums(words, pair)
            n_cells[pair[0]] *= _n_distinct(sums)
            n_cells[pair[1]] *= _n_distinct(sums.T)
        return int(np.argmin([cells.sum() for cells in n_cells]))

    def _sums(self, words: Words, pair: tuple[int, int]) -> Words:
        for axis in reversed(range(words.ndim)):
            if axis not in pair:
                weights = self._of_class[: words.shape[axis]] + np.uint64(2 * axis)
                words = np.tensordot(words, weights, axes=([axis], [0]))
        return words


def _n_distinct(rows: Words) -> Floats:
    """Number of distinct entries in each row."""
    ordered = np.sort(rows, axis=1)
    changes = np.count_nonzero(ordered[:, 1:] != ordered[:, :-1], axis=1)
    return np.asarray(1 + changes, dtype=np.float64)
