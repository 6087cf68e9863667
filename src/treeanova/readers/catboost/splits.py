"""The splits of a CatBoost model in their global order: numeric borders, one-hot values, borders of CTRs.

A table's key of a combination with elements v_1, …, v_n, in the order of `Ctr`, is Σ MULTIPLIER^(n - i + 2) · v_i
modulo 2^64, where a category is its hash and a condition 0 or 1. A key alone does not give its elements, but one
unknown element follows from the others. CatBoost adds one categorical feature at a time to the combinations of a tree,
so all categories can be found one feature after the other.

Trees with splits on combinations of features are unfolded into trees that split one feature at a time. A branch splits
one feature into all its classes and continues with the slices, in which classes that became equal are merged. It takes
the feature whose slices then have the fewest cells. Equal slices are grown once.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import bound_up_to
from treeanova.readers.catboost.files import COUNTERS, CTR_KINDS, EMPTY_KEY, MEANS, Counts, Ctr, Model, Nodes, Singles
from treeanova.readers.checks import block_starts, check_size, damaged

# A CTR table's key of category hash c is MULTIPLIER² · c modulo 2^64, with c sign-extended from 32 bits.
MULTIPLIER = 0x4906BA494954CB65
_INVERSE = pow(MULTIPLIER, -2, 1 << 64)
_MAX_COMBINATIONS = 1 << 24
_HASH = 0xFFFFFFFF
Words = npt.NDArray[np.uint64]
Positions = Mapping[int, int]  # positions in the schema, by the features' numbers among those of their kind
_MAX_SET_ENTRIES = 1 << 28


class _Group(NamedTuple):
    """Neighbouring splits, in global order, on one categorical feature: its one-hot values, or the borders of a CTR."""

    feature: int  # its number among categorical ones
    n_splits: int
    goes_right: Callable[[Ints], Bools] | None  # of known hashes, shape (splits, categories + 1); None if in no tree


def counts_of(ctr: Ctr) -> Counts:
    """Return the counts of a CTR; UnsupportedModelError if the model was saved without."""
    if ctr.counts is None:
        raise UnsupportedModelError(
            "`model` must have its CTR tables, got none, so that it cannot predict; train with "
            "final_ctr_computation_mode='Default'."
        )
    return ctr.counts


def category_hashes(counts: Counts) -> tuple[Ints, Bools]:
    """Return the category hash of each key of a CTR table, and which keys are those of a category."""
    numbers = (counts.keys * np.uint64(_INVERSE)).astype(np.int64)
    return numbers & 0xFFFFFFFF, (counts.keys != EMPTY_KEY) & (numbers >= -(1 << 31)) & (numbers < 1 << 31)


def goes_right_by_ctr(ctr: Ctr, known_hashes: Ints) -> Bools:
    """Whether each category, the last unseen, is above each border of its CTR, shape (borders, categories + 1)."""
    counts = counts_of(ctr)
    row_values, unseen_value = ctr_values(ctr, counts)
    hashes, is_reachable = category_hashes(counts)  # some keys of the table are of no category
    values = np.full(len(known_hashes) + 1, unseen_value)
    values[np.searchsorted(known_hashes, hashes[is_reachable])] = row_values[is_reachable]
    return values > ctr.borders[:, None]


def ctr_values(ctr: Ctr, counts: Counts) -> tuple[Singles, np.float32]:
    """Return the CTR's number for each row of counts, and for an unseen category, in float32 as CatBoost does."""
    good, total, unseen_total = _ratio_parts(ctr, counts)
    goods, totals = np.append(good, 0.0).astype(np.float32), np.append(total, unseen_total).astype(np.float32)
    numerator, denominator, shift, scale = (np.float32(number) for number in (*ctr.prior, ctr.shift, ctr.scale))
    values: Singles = ((goods + numerator) / (totals + denominator) + shift) * scale
    return values[:-1], values[-1]


def _ratio_parts(ctr: Ctr, counts: Counts) -> tuple[Floats, Floats, float]:
    """Return the CTR's numerator and denominator for each row of counts, and its denominator for an unseen category."""
    rows, n_classes = counts.rows, counts.rows.shape[1]
    if ctr.kind in MEANS:
        return rows[:, 0], rows[:, 1], 0.0
    if ctr.kind in COUNTERS:
        return rows[:, 0], np.full(len(rows), counts.total), counts.total
    if ctr.kind not in CTR_KINDS:
        raise UnsupportedModelError(
            f"`model` must have CTRs of a known kind, got {ctr.kind!r}; train with simple_ctr=['Borders']."
        )
    if not 0 <= ctr.target_border < n_classes:
        raise damaged(f"a CTR must count one of {n_classes} classes, got {ctr.target_border}")
    if ctr.kind == "Buckets":
        return rows[:, ctr.target_border], rows.sum(axis=1), 0.0
    return rows[:, 1 if n_classes <= 2 else ctr.target_border + 1 :].sum(axis=1), rows.sum(axis=1), 0.0


@dataclasses.dataclass(frozen=True)
class Condition:
    """A split on one or several features, as its answer in each cell of their intervals and categories."""

    features: tuple[int, ...]  # positions, ascending
    bounds: tuple[Floats | None, ...]  # upper ends of all intervals but the last; None for categories
    goes_right: Bools  # of each cell: an axis per feature, of its intervals, or of its categories and last unseen ones


def known_categories(model: Model, used: Iterable[Ctr]) -> dict[int, Ints]:
    """Return sorted hashes of categories that splits distinguish, by categorical feature; `used` are CTRs in trees."""
    hashes: dict[int, list[Ints]] = {feature.index: [np.empty(0, np.int64)] for feature in model.categorical}
    for index, values in model.one_hot:
        if len(np.unique(values & _HASH)) < len(values):
            raise damaged(f"the model's one-hot values must differ, got {str(values)[:40]} for feature {index}")
        hashes[index].append(values & _HASH)
    solved: dict[int, Ints] = {}  # hashes of features whose categories some CTR tells
    waiting = sorted(used, key=lambda ctr: len(ctr.categories))
    for index, value in (pair for ctr in waiting for pair in ctr.equal):
        hashes[index].append(np.array([value & _HASH]))
    while waiting:
        # A table tells the categories of one feature if those of all its other features are known.
        solvable = [place for place, ctr in enumerate(waiting) if len(set(ctr.categories) - set(solved)) <= 1]
        if not solvable:
            raise UnsupportedModelError(
                "`model` must tell the categories of each feature, got CTRs of combinations of features only; train "
                "with CatBoost's own order of combinations."
            )
        ctr = waiting.pop(solvable[0])
        unknown = set(ctr.categories) - set(solved)
        if ctr.is_simple:
            table_hashes, is_reachable = category_hashes(counts_of(ctr))
            index, categories = ctr.categories[0], np.unique(table_hashes[is_reachable])
        elif unknown:
            index = unknown.pop()
            categories = _solved_hashes(ctr, index, solved)
        else:
            continue
        solved[index] = np.union1d(solved.get(index, categories), categories)
        hashes[index].append(categories)
    return {index: np.unique(np.concatenate(lists)) for index, lists in hashes.items()}


def _solved_hashes(ctr: Ctr, index: int, solved: Mapping[int, Ints]) -> Ints:
    """Return hashes of one feature's categories, from the keys of a table whose other features are known."""
    # Other elements are tried in all combinations: the right ones leave a number of 32 bits. Others do so by chance in
    # one of 2^32 cases, which adds a category that no row has.
    bits = [np.arange(2)] * (len(ctr.above) + len(ctr.equal))
    options = [solved.get(category, np.zeros(1, np.int64)) for category in ctr.categories] + bits
    place = list(ctr.categories).index(index)
    options[place] = np.zeros(1, np.int64)  # the unknown one adds nothing to the partial keys
    counts = counts_of(ctr)
    partial_keys = _keys_of_cells(np.ix_(*(_sign_extended(option) for option in options)))
    check_size("combinations of categories", partial_keys.size * len(counts.keys), _MAX_COMBINATIONS)
    differences = counts.keys[counts.keys != EMPTY_KEY][:, None] - partial_keys.reshape(1, -1)
    power = len(options) - place + 1  # of MULTIPLIER, by which the unknown element was multiplied
    numbers = (differences * np.uint64(pow(MULTIPLIER, -power, 1 << 64))).astype(np.int64)
    return np.unique(numbers[(numbers >= -(1 << 31)) & (numbers < 1 << 31)] & _HASH)


def _sign_extended(hashes: Ints) -> Words:
    """Return 32-bit hashes as the 64-bit numbers that CatBoost multiplies."""
    return hashes.astype(np.uint32).view(np.int32).astype(np.int64).astype(np.uint64)


def conditions_of(
    ctr: Ctr, borders: Ints, known_hashes: Mapping[int, Ints], numeric_position: Positions, category_position: Positions
) -> list[Condition]:
    """Return a CTR's splits on a combination of features, one for each of its borders at the positions `borders`."""
    axes_of: dict[int, tuple[Floats | None, int]] = {  # as in `_cell_values`; the last bin is that of unseen categories
        category_position[index]: (None, len(known_hashes[index]) + 1)
        for index in (*ctr.categories, *(index for index, _ in ctr.equal))
    }
    for index, _ in ctr.above:
        bounds = bound_up_to(sorted({border for other, border in ctr.above if other == index}))
        axes_of[numeric_position[index]] = bounds, len(bounds) + 1
    axes = dict(sorted(axes_of.items()))
    n_cells = int(np.prod([size for _, size in axes.values()], dtype=np.float64))
    check_size("combinations of categories", n_cells, _MAX_COMBINATIONS)
    values = _cell_values(ctr, axes, known_hashes, numeric_position, category_position)
    features, all_bounds = tuple(axes), tuple(bounds for bounds, _ in axes.values())
    return [Condition(features, all_bounds, values > ctr.borders[border]) for border in borders]


def _cell_values(
    ctr: Ctr,
    axes: Mapping[int, tuple[Floats | None, int]],  # bounds, None for categories, and size
    known_hashes: Mapping[int, Ints],
    numeric_position: Positions,
    category_position: Positions,
) -> Singles:
    """Return the CTR's number in each cell; `axes` has each feature's bounds (None: categories) and number of bins."""
    counts = counts_of(ctr)
    row_values, unseen_value = ctr_values(ctr, counts)

    def along(feature: int, values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:  # its axis, to broadcast
        return values.reshape([-1 if other == feature else 1 for other in axes])

    elements, is_unseen = [], np.zeros([size for _, size in axes.values()], dtype=bool)
    for index in ctr.categories:
        feature = category_position[index]
        elements.append(along(feature, np.append(_sign_extended(known_hashes[index]), np.uint64(0))))
        is_unseen |= along(feature, np.arange(len(known_hashes[index]) + 1) == len(known_hashes[index]))
    for index, border in ctr.above:
        bounds, size = axes[numeric_position[index]]
        place = 0 if bounds is None else np.searchsorted(bounds, bound_up_to(border))
        elements.append(along(numeric_position[index], (np.arange(size) > place).astype(np.uint64)))
    for index, value in ctr.equal:
        bits = np.append(known_hashes[index] == (value & _HASH), False)
        elements.append(along(category_position[index], bits.astype(np.uint64)))
    row = _rows_with_keys(_keys_of_cells(elements), counts.keys)
    return np.append(row_values, unseen_value)[np.where(is_unseen, -1, row)]  # -1: no such row, the last value


def _keys_of_cells(elements: Sequence[npt.NDArray[np.generic]]) -> Words:
    """Return the CTR table's key of each cell, from elements that broadcast against each other."""
    key = np.zeros(1, np.uint64)
    multiplier = np.uint64(MULTIPLIER)
    for element in elements:
        key = multiplier * (key + multiplier * element.astype(np.uint64))
    return key


def _rows_with_keys(keys: Words, table_keys: Words) -> Ints:
    """Return the row of a CTR table that has each key, -1 for keys that it does not have."""
    if not len(table_keys):
        return np.full(keys.shape, -1)
    order = np.argsort(table_keys, kind="stable")
    place = np.minimum(np.searchsorted(table_keys, keys, sorter=order), len(order) - 1)
    is_there = (table_keys[order[place]] == keys) & (keys != EMPTY_KEY)
    return np.where(is_there, order[place], -1)


@dataclasses.dataclass(frozen=True)
class Splits:
    """The decision at each global split, and a last entry for "no split"; splits on combinations have no feature."""

    feature: Ints
    bound: Floats
    missing_left: Bools
    category_start: Ints
    category_left: Bools
    conditions: Mapping[int, Condition]  # those on combinations of features, by their global position


def read_splits(model: Model, position: Mapping[int, int], used: Ints) -> tuple[Splits, dict[int, Ints]]:
    """Return all splits in their global order, and the hashes of each categorical feature's known categories."""
    # `position` is that of each column in the schema; `used` are the global positions of splits in trees, sorted.
    for borders in [feature.borders for feature in model.numeric] + [ctr.borders for ctr in model.ctrs]:
        if np.isnan(borders).any() or (borders[1:] < borders[:-1]).any():
            raise damaged(f"the model's borders must be sorted numbers, got {str(borders)[:40]}")
    on_categories = _category_splits(model, used)
    used_ctrs = list(_used_ctrs(model, used))
    known_hashes = known_categories(model, [ctr for ctr, _, _ in used_ctrs])
    numeric_position, category_position = (
        {column.index: position[column.flat] for column in columns} for columns in (model.numeric, model.categorical)
    )
    start, sets = _category_sets(on_categories, known_hashes)
    # Splits on numeric features come first, then those on categories, last "no split". Features are given by their
    # places in the schema, -1 for splits on combinations and for those in no tree.
    n_borders = [len(feature.borders) for feature in model.numeric]
    places = [position[feature.flat] for feature in model.numeric]
    places += [-1 if group.goes_right is None else category_position[group.feature] for group in on_categories]
    n_others = len(start) + 1
    missing_left = np.repeat(np.array([not feature.missing_right for feature in model.numeric], dtype=bool), n_borders)
    borders = np.concatenate([np.empty(0), *(feature.borders for feature in model.numeric)])
    conditions = {
        first + int(border): condition
        for ctr, first, used_borders in used_ctrs
        if not ctr.is_simple
        for border, condition in zip(
            used_borders,
            conditions_of(ctr, used_borders, known_hashes, numeric_position, category_position),
            strict=True,
        )
    }
    n_splits = [*n_borders, *(group.n_splits for group in on_categories), 1]
    splits = Splits(
        feature=np.repeat([*places, -1], n_splits),
        bound=np.append(bound_up_to(borders), np.full(n_others, np.nan)),
        missing_left=np.append(missing_left, np.zeros(n_others, dtype=bool)),
        category_start=np.concatenate([np.full(len(borders), -1), start, [-1]]),
        category_left=sets,
        conditions=conditions,
    )
    return splits, known_hashes


def _used_ctrs(model: Model, used: Ints) -> Iterator[tuple[Ctr, int, Ints]]:
    """Yield CTRs in trees, the global position of the first border of each, and the borders that are used."""
    first = sum(len(feature.borders) for feature in model.numeric) + sum(len(values) for _, values in model.one_hot)
    for ctr in model.ctrs:
        begin, end = np.searchsorted(used, [first, first + len(ctr.borders)])
        if begin < end:
            yield ctr, first, used[begin:end] - first
        first += len(ctr.borders)


def _category_splits(model: Model, used: Ints) -> list[_Group]:
    """Return the splits on categories in their global order; `used` are sorted global positions of splits in trees."""
    groups = [
        _Group(index, len(values), functools.partial(_goes_right_by_value, values)) for index, values in model.one_hot
    ]
    for ctr in model.ctrs:
        right = functools.partial(goes_right_by_ctr, ctr) if ctr.is_simple else None
        groups.append(_Group(next(iter(ctr.categories), -1), len(ctr.borders), right))
    first = sum(len(feature.borders) for feature in model.numeric)
    ends = np.searchsorted(used, first + np.cumsum([0, *(group.n_splits for group in groups)]))
    # Splits in no tree, like those on combinations of features, need no sets of categories.
    pairs = zip(groups, np.diff(ends), strict=True)
    return [group if n_used else group._replace(goes_right=None) for group, n_used in pairs]


def _goes_right_by_value(values: Ints, known_hashes: Ints) -> Bools:
    """Whether each category has the hash of each one-hot value, shape (values, categories + 1); the last is unseen."""
    return np.append(known_hashes, -1) == (values & 0xFFFFFFFF)[:, None]


def _category_sets(groups: Sequence[_Group], known_hashes: Mapping[int, Ints]) -> tuple[Ints, Bools]:
    """Return the sets of categories that go left, joined, and where each split's begins; -1 for those in no tree."""
    # A set has an entry per known category and one for unseen ones; splits in no tree have no set.
    widths = [0 if group.goes_right is None else len(known_hashes[group.feature]) + 1 for group in groups]
    n_splits = [group.n_splits for group in groups]
    sizes = np.array(widths, dtype=np.int64) * np.array(n_splits, dtype=np.int64)
    check_size("category sets", int(sizes.sum()), _MAX_SET_ENTRIES)
    starts = [
        first + width * np.arange(n) if width else np.full(n, -1)
        for first, width, n in zip(block_starts(sizes), widths, n_splits, strict=True)
    ]
    sets = [~group.goes_right(known_hashes[group.feature]).ravel() for group in groups if group.goes_right is not None]
    empty = np.empty(0, dtype=np.int64)
    return np.concatenate([empty, *starts]), np.concatenate([empty.astype(bool), *sets])


@dataclasses.dataclass(frozen=True)
class Table:
    """Outcomes in the cells of features; values that no condition distinguishes are one class."""

    bounds: Mapping[int, Floats | None]  # upper ends of all intervals but the last; None for categories
    classes: Mapping[int, Sequence[int]]  # the first of the intervals of each class, or a mask of its categories
    outcomes: Ints  # a number per cell, an axis per feature


@dataclasses.dataclass(frozen=True)
class Subtree:
    """What is grown from cells: a branch, or the one outcome of all cells."""

    merged: Mapping[int, Sequence[int]]  # the new class of each old one, for features on which the outcome depends
    content: Branch | int

    @property
    def n_leaves(self) -> int:
        return 1 if isinstance(self.content, int) else self.content[2]


Branch = tuple[int, Sequence[Subtree], int]  # a feature, a subtree for each of its classes, and the number of leaves


def tabulate(
    conditions: Mapping[int, Condition], outcomes: Callable[[Mapping[int, Bools]], Ints], max_cells: int
) -> Table | None:
    """Return a number, the outcome, for each cell of classes of the features of conditions; None above `max_cells`."""
    # `outcomes` takes the answers of conditions in the cells, which broadcast, and returns the number of each cell. A
    # class is all intervals or categories of a feature between which no condition distinguishes.
    bounds: dict[int, Floats | None] = {}
    for condition in conditions.values():
        for feature, ends in zip(condition.features, condition.bounds, strict=True):
            earlier = bounds.get(feature)
            bounds[feature] = ends if ends is None or earlier is None else np.union1d(earlier, ends)
    bounds = dict(sorted(bounds.items()))
    refined = {number: _on_common_bounds(condition, bounds) for number, condition in conditions.items()}
    class_numbers = {feature: _class_numbers(feature, conditions, refined, bounds) for feature in bounds}
    # The first interval or category of each class, by feature.
    first = {j: _merge_classes(range(len(numbers)), numbers, is_category=False) for j, numbers in class_numbers.items()}
    if math.prod(map(len, first.values())) > max_cells:
        return None
    # Conditions are evaluated there, with an axis for each feature of the table, of length 1 if they do not use it.
    on_cells = {}
    for number, array in refined.items():
        features = conditions[number].features
        cells = array[np.ix_(*(first[feature] for feature in features))]
        on_cells[number] = cells.reshape([len(places) if j in features else 1 for j, places in first.items()])
    shape = [len(places) for places in first.values()]
    return Table(
        bounds=bounds,
        classes={
            feature: first[feature]
            if bounds[feature] is not None
            else _merge_classes([1 << code for code in range(len(numbers))], numbers, is_category=True)
            for feature, numbers in class_numbers.items()
        },
        outcomes=np.ascontiguousarray(np.broadcast_to(outcomes(on_cells), shape)),
    )


def _on_common_bounds(condition: Condition, common_bounds: Mapping[int, Floats | None]) -> Bools:
    """Return whether a condition goes right, in the finer cells of `common_bounds` (by feature, None: categories)."""
    result = condition.goes_right
    for axis, (feature, bounds) in enumerate(zip(condition.features, condition.bounds, strict=True)):
        finer = common_bounds[feature]
        if bounds is not None and finer is not None and len(finer) > len(bounds):
            coarse_intervals = np.append(np.searchsorted(bounds, finer), len(bounds))  # that of each finer one
            result = result.take(coarse_intervals, axis=axis)
    return result


def _class_numbers(
    feature: int, conditions: Mapping[int, Condition], refined: Mapping[int, Bools], bounds: Mapping[int, Floats | None]
) -> list[int]:
    """Return the class of each interval or category of a feature: one for all that no condition distinguishes."""
    # `refined` has the answers of `conditions`, by the same numbers, on the common bounds of all.
    slices = [
        np.moveaxis(array, conditions[number].features.index(feature), 0)
        for number, array in refined.items()
        if feature in conditions[number].features
    ]
    rows = np.concatenate([answers.reshape(len(answers), -1) for answers in slices], axis=1)  # one per interval
    return _numbers_of_rows(np.packbits(rows, axis=1), in_order=bounds[feature] is not None)


def _numbers_of_rows(rows: npt.NDArray[np.generic], *, in_order: bool) -> list[int]:
    """Return a number for each row of a matrix; equal rows (`in_order`: only neighbours) share a number."""
    if in_order:
        return [0, *np.cumsum((rows[1:] != rows[:-1]).any(axis=1)).tolist()]
    number_of: dict[bytes, int] = {}
    return [number_of.setdefault(row.tobytes(), len(number_of)) for row in rows]


def grow(table: Table) -> Subtree:
    """Return the subtree that splits one feature at a time and gives the table's outcomes."""
    return _Growth(table).subtree(table.outcomes, tuple(table.bounds))


class _Growth:
    """Subtrees that were grown already, and random numbers to compare slices by."""

    def __init__(self, table: Table) -> None:
        rng = np.random.default_rng(0)
        sizes = {"outcome": int(table.outcomes.max()) + 1, "class": max(table.outcomes.shape)}
        self._of_outcome, self._of_class = (
            rng.integers(0, 1 << 63, size, dtype=np.uint64) * np.uint64(2) + np.uint64(1) for size in sizes.values()
        )
        self._in_order = {feature: bounds is not None for feature, bounds in table.bounds.items()}
        self._grown: dict[tuple[tuple[int, ...], tuple[int, ...], bytes], Branch] = {}

    def subtree(self, outcomes: Ints, features: tuple[int, ...]) -> Subtree:
        """Grow a tree that gives these outcomes, an axis per feature: merge equal slices, then split a feature."""
        merged: dict[int, Sequence[int]] = {}
        for axis, feature in enumerate(features):
            rows = outcomes.swapaxes(axis, 0).reshape(outcomes.shape[axis], -1)
            numbers = _numbers_of_rows(rows, in_order=self._in_order[feature])
            places = _merge_classes(range(len(numbers)), numbers, is_category=False)
            if len(places) < len(numbers):
                outcomes = outcomes.take(places, axis=axis)
            if len(places) > 1:
                merged[feature] = numbers
        outcomes = outcomes.reshape([size for size in outcomes.shape if size > 1])
        return Subtree(merged, self._branch(outcomes, tuple(merged)) if merged else int(outcomes))

    def _branch(self, outcomes: Ints, features: tuple[int, ...]) -> Branch:
        """Split the best feature into all its classes, and grow a subtree for each."""
        if outcomes.ndim == 1:
            return features[0], [Subtree({}, outcome) for outcome in outcomes.tolist()], len(outcomes)
        key = features, outcomes.shape, outcomes.tobytes()
        if key not in self._grown:
            axis = self._best_axis(outcomes)
            slices = np.split(outcomes, outcomes.shape[axis], axis=axis)
            subtrees = [self.subtree(slice_, features) for slice_ in slices]
            self._grown[key] = features[axis], subtrees, sum(subtree.n_leaves for subtree in subtrees)
        return self._grown[key]

    def _best_axis(self, outcomes: Ints) -> int:
        """Return the axis with the fewest cells after merging equal slices, found by sums with random weights."""
        # Equal slices have equal sums; if others had too, trees would be larger, not wrong.
        words = self._of_outcome[outcomes]
        n_cells = [np.ones(size) for size in outcomes.shape]
        for pair in itertools.combinations(range(outcomes.ndim), 2):
            sums = words
            for axis in reversed(range(words.ndim)):
                if axis not in pair:
                    weights = self._of_class[: words.shape[axis]] + np.uint64(2 * axis)
                    sums = np.tensordot(sums, weights, axes=([axis], [0]))
            n_cells[pair[0]] *= _n_distinct_per_row(sums)
            n_cells[pair[1]] *= _n_distinct_per_row(sums.T)
        return int(np.argmin([cells.sum() for cells in n_cells]))


def _n_distinct_per_row(rows: Words) -> Floats:  # the number of different entries of each row
    ordered = np.sort(rows, axis=1)
    return 1.0 + np.count_nonzero(ordered[:, 1:] != ordered[:, :-1], axis=1)


_MAX_CELLS = 1 << 22  # of one tree; larger trees are unfolded split by split
_MAX_LEAVES = 1 << 21  # of all trees
_Bounds = Mapping[int, Floats | None]
_Classes = Mapping[int, Sequence[int]]
_Grown = tuple[Table, Sequence[int], Subtree]  # with the old nodes at its ends, by the numbers of outcomes
_Item = TypeVar("_Item", bound=np.generic)


def unfold(
    nodes: Nodes, splits: Splits, missing_left: Mapping[int, bool], n_bins: Mapping[int, int]
) -> tuple[Nodes, Splits]:
    """Return nodes and splits of the same trees without splits on combinations; unreached nodes remain."""
    # `missing_left` tells for each numeric feature, by position, whether missing values are below all borders; `n_bins`
    # is for each categorical feature the number of its known categories, plus one for all others.
    if not splits.conditions:
        return nodes, splits
    builder = _Builder(nodes, splits, n_bins)
    roots = [builder.root(root) for root in nodes.roots.tolist()]
    return builder.nodes(roots), builder.splits(missing_left)


def _bits_of(mask: int, n_bits: int) -> Bools:
    """Return the lowest bits of a number, the first one first."""
    n_bytes = -(-n_bits // 8)  # rounded up
    data = np.frombuffer(mask.to_bytes(n_bytes, "little"), dtype=np.uint8)
    return np.unpackbits(data, count=n_bits, bitorder="little").astype(bool)


class _Builder:
    """Trees that are being unfolded: new nodes and splits are appended to the old ones."""

    def __init__(self, nodes: Nodes, splits: Splits, n_bins: Mapping[int, int]) -> None:
        self._split, self._left, self._right = nodes.split.tolist(), nodes.left.tolist(), nodes.right.tolist()
        self._leaf, self._label = nodes.leaf.tolist(), nodes.label.tolist()
        self._splits = splits
        self._n_bins = n_bins
        self._new_splits: dict[tuple[int, float], int] = {}
        self._grown: dict[int, _Grown | None] = {}
        self._n_leaves = 0

    def nodes(self, roots: Sequence[int]) -> Nodes:
        """Return old and new nodes as arrays."""
        columns = (roots, self._split, self._left, self._right, self._leaf, self._label)
        return Nodes(*(np.array(column, dtype=np.int64) for column in columns))

    def splits(self, missing_left: Mapping[int, bool]) -> Splits:
        """Return old and new splits; a new one is a feature with a bound, or with a mask of categories that go left."""
        old, new = self._splits, list(self._new_splits)
        features = np.array([feature for feature, _ in new], dtype=np.int64)
        bounds = [np.nan if feature in self._n_bins else value for feature, value in new]  # NaN: by category
        sizes = np.array([self._n_bins.get(feature, 0) for feature, _ in new], dtype=np.int64)  # 0 for numbers
        sets = [_bits_of(int(mask), size) for (_, mask), size in zip(new, sizes.tolist(), strict=True) if size]
        starts = np.where(sizes > 0, len(old.category_left) + np.cumsum(sizes) - sizes, -1)
        return Splits(
            feature=_before_last(old.feature, features),
            bound=_before_last(old.bound, bounds),
            missing_left=_before_last(old.missing_left, [missing_left.get(feature, False) for feature, _ in new]),
            category_start=_before_last(old.category_start, starts),
            category_left=np.concatenate([old.category_left, *sets]),
            conditions={},
        )

    def root(self, node: int) -> int:
        """Unfold the tree at a root and return its new root: the same if no split is on a combination of features."""
        root = self.unfolded(node) if self._has_combinations(self._splits_below(node)) else node
        self._grown.clear()
        return root

    def _has_combinations(self, splits: Sequence[int]) -> bool:
        return any(split in self._splits.conditions for split in splits)

    def _splits_below(self, node: int) -> list[int]:
        """Return the splits at and below a node, each once."""
        below: dict[int, None] = {}
        waiting = [node]
        while waiting:
            node = waiting.pop()
            if self._left[node] >= 0:
                below[self._split[node]] = None
                waiting += [self._right[node], self._left[node]]
        return list(below)

    def unfolded(self, node: int) -> int:
        """Append a copy of what is below a node, without splits on combinations, and return its position."""
        split, left, right = self._split[node], self._left[node], self._right[node]
        if left < 0:
            self._check_n_leaves(1)
            self._n_leaves += 1
            return self._append(split, left, right, self._leaf[node], self._label[node])
        if node not in self._grown:
            self._grown[node] = self._grow_below(node)
        grown = self._grown[node]
        if grown is None:
            return self._append(split, self.unfolded(left), self.unfolded(right))
        table, ends, subtree = grown
        self._check_n_leaves(subtree.n_leaves)
        return self._append_subtree(table.bounds, ends, subtree, table.classes)

    def _check_n_leaves(self, n_leaves: int) -> None:  # before so many more are appended
        if self._n_leaves + n_leaves > _MAX_LEAVES:
            raise _size_error()

    def _grow_below(self, node: int) -> _Grown | None:
        """Return what replaces a subtree or its first split (cells, ends by outcome, new tree); None if it can stay."""
        below = self._splits_below(node)
        if not self._has_combinations(below):
            return None
        conditions = {split: self._condition(split) for split in below}
        table = tabulate(conditions, functools.partial(self._leaf_in_cells, node), _MAX_CELLS)
        if table is None:  # too many cells: only the first split is replaced, if it is on a combination
            split, left, right = self._split[node], self._left[node], self._right[node]
            if split not in self._splits.conditions:
                return None
            table = tabulate({split: conditions[split]}, lambda goes: np.where(goes[split], right, left), _MAX_CELLS)
        if table is None:
            raise _size_error()
        ends, outcomes = np.unique(table.outcomes, return_inverse=True)
        smallest = np.min_scalar_type(len(ends))
        outcomes = outcomes.reshape(table.outcomes.shape).astype(smallest)
        return table, ends.tolist(), grow(dataclasses.replace(table, outcomes=outcomes))

    def _condition(self, split: int) -> Condition:
        """Return any split as a condition, with axes for its features."""
        old = self._splits
        if split in old.conditions:
            return old.conditions[split]
        feature, start = int(old.feature[split]), int(old.category_start[split])
        if start < 0:
            return Condition((feature,), (old.bound[split : split + 1],), np.array([False, True]))
        return Condition((feature,), (None,), ~old.category_left[start : start + self._n_bins[feature]])

    def _leaf_in_cells(self, node: int, goes_right: Mapping[int, Bools]) -> Ints:
        """Return the leaf that each cell reaches below a node; `goes_right` has the answer of each split."""
        if self._left[node] < 0:
            return np.array(node)
        left, right = (self._leaf_in_cells(child, goes_right) for child in (self._left[node], self._right[node]))
        return np.where(goes_right[self._split[node]], right, left)

    def _append_subtree(self, bounds: _Bounds, ends: Sequence[int], subtree: Subtree, classes: _Classes) -> int:
        """Append nodes for what was grown from a table, and return the first."""
        # `bounds` and `classes` are those of the table (a class is its first interval, or the mask of its categories),
        # with classes merged as the subtree says; `ends` are the nodes of the old tree that outcomes stand for.
        if isinstance(subtree.content, int):
            return self.unfolded(ends[subtree.content])
        merged = {
            feature: _merge_classes(classes[feature], new, is_category=bounds[feature] is None)
            for feature, new in subtree.merged.items()
        }
        feature, subtrees, _ = subtree.content
        branched, borders = merged.pop(feature), bounds[feature]  # classes that get a subtree each

        def halves(low: int, high: int) -> int:
            """Append splits that separate classes from `low` to `high`, halving them; return the first."""
            if high - low == 1:
                return self._append_subtree(bounds, ends, subtrees[low], merged)
            middle = (low + high) // 2
            left, right = halves(low, middle), halves(middle, high)
            if borders is None:  # the mask of categories that go left
                value: float = functools.reduce(operator.or_, branched[low:middle])
            else:
                value = float(borders[branched[middle] - 1])
            new_split = len(self._splits.feature) - 1 + len(self._new_splits)
            return self._append(self._new_splits.setdefault((feature, value), new_split), left, right)

        return halves(0, len(branched))

    def _append(self, split: int, left: int, right: int, leaf: int = 0, label: int = 0) -> int:
        """Append a node and return its position."""
        self._split.append(split)
        self._left.append(left)
        self._right.append(right)
        self._leaf.append(leaf)
        self._label.append(label)
        return len(self._split) - 1


def _merge_classes(old: Sequence[int], new: Sequence[int], *, is_category: bool) -> Sequence[int]:
    """Merge old classes whose `new` numbers are equal: unite masks of categories, or take the first interval of all."""
    n_new = max(new) + 1
    if n_new == len(new):
        return old
    merged = [0] * n_new
    if is_category:
        for mask, number in zip(old, new, strict=True):
            merged[number] |= mask
    else:
        for first, number in zip(reversed(old), reversed(new), strict=True):  # so that the first is set last
            merged[number] = first
    return merged


def _before_last(old: npt.NDArray[_Item], new: npt.ArrayLike) -> npt.NDArray[_Item]:
    """Return an array with new entries before the last one, which stands for "no split"."""
    return np.concatenate([old[:-1], np.asarray(new, dtype=old.dtype), old[-1:]])


def _size_error() -> UnsupportedModelError:  # for trees that become too large when they are unfolded
    return UnsupportedModelError(
        f"`model` must have at most {_MAX_LEAVES:,} leaves with splits on one feature at a time, got CTRs of "
        "combinations of features that need more; train with a smaller max_ctr_complexity, fewer trees or fewer "
        "categories."
    )
