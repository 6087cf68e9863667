"""The splits of a CatBoost model in their global order: numeric borders, one-hot values, borders of CTRs.

A table's key of a combination with elements v_1, …, v_n, in the order of `Ctr`, is Σ MULTIPLIER^(n - i + 2) · v_i
modulo 2^64, where a category is its hash and a condition 0 or 1. A key alone does not give its elements, but one
unknown element follows from the others. CatBoost adds one categorical feature at a time to the combinations of a tree,
so all categories can be found one feature after the other.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import bound_up_to
from treeanova.readers.catboost.files import COUNTERS, CTR_KINDS, EMPTY_KEY, MEANS, Counts, Ctr, Model, Singles
from treeanova.readers.checks import block_starts, check_size, damaged

# A CTR table's key of category hash c is MULTIPLIER² · c modulo 2^64, with c sign-extended from 32 bits.
MULTIPLIER = 0x4906BA494954CB65
_INVERSE = pow(MULTIPLIER, -2, 1 << 64)


def counts_of(ctr: Ctr) -> Counts:
    if ctr.counts is None:
        raise UnsupportedModelError(
            "`model` must have its CTR tables, got none, so that it cannot predict; train with "
            "final_ctr_computation_mode='Default'."
        )
    return ctr.counts


def category_hashes(counts: Counts) -> tuple[Ints, Bools]:
    """Return hashes of the categories of a CTR table, and which of its rows a category can reach."""
    numbers = (counts.keys * np.uint64(_INVERSE)).astype(np.int64)
    return numbers & 0xFFFFFFFF, (counts.keys != EMPTY_KEY) & (numbers >= -(1 << 31)) & (numbers < 1 << 31)


def ctr_right(ctr: Ctr, known_hashes: Ints) -> Bools:
    counts = counts_of(ctr)
    row_values, unseen_value = ctr_values(ctr, counts)
    hashes, is_reachable = category_hashes(counts)
    values = np.full(len(known_hashes) + 1, unseen_value)
    values[np.searchsorted(known_hashes, hashes[is_reachable])] = row_values[is_reachable]
    return values > ctr.borders[:, None]


def ctr_values(ctr: Ctr, counts: Counts) -> tuple[Singles, np.float32]:
    """Return the CTR's number for each row of counts, and for an unseen category, in float32 as CatBoost does."""
    good, total, unseen_total = _good_and_total(ctr, counts)
    goods, totals = np.append(good, 0.0).astype(np.float32), np.append(total, unseen_total).astype(np.float32)
    numerator, denominator, shift, scale = (np.float32(number) for number in (*ctr.prior, ctr.shift, ctr.scale))
    values: Singles = ((goods + numerator) / (totals + denominator) + shift) * scale
    return values[:-1], values[-1]


def _good_and_total(ctr: Ctr, counts: Counts) -> tuple[Floats, Floats, float]:
    """Return numerator and denominator for each row of counts, and the denominator for an unseen category."""
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


_MAX_CELLS = 1 << 24
_HASH = 0xFFFFFFFF
Words = npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True)
class Condition:
    features: tuple[int, ...]  # positions, ascending
    bounds: tuple[Floats | None, ...]  # upper ends of all intervals but the last; None for categories
    goes_right: Bools  # of each cell: an axis per feature, of its intervals, or of its categories and last unseen ones


Places = Mapping[int, int]  # positions in the schema, by the features' numbers among those of their kind


def known_categories(model: Model, used: Iterable[Ctr]) -> dict[int, Ints]:
    """Return sorted hashes of the categories that splits can distinguish, for each categorical feature."""
    hashes: dict[int, list[Ints]] = {feature.index: [np.empty(0, np.int64)] for feature in model.categorical}
    for index, values in model.one_hot:
        if len(np.unique(values & _HASH)) < len(values):
            raise damaged(f"the model's one-hot values must differ, got {str(values)[:40]} for feature {index}")
        hashes[index].append(values & _HASH)
    solved: dict[int, Ints] = {}
    waiting = sorted(used, key=lambda ctr: len(ctr.categories))
    for index, value in (pair for ctr in waiting for pair in ctr.equal):
        hashes[index].append(np.array([value & _HASH]))
    while waiting:
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
            categories = _solved(ctr, index, solved)
        else:
            continue
        solved[index] = np.union1d(solved.get(index, categories), categories)
        hashes[index].append(categories)
    return {index: np.unique(np.concatenate(lists)) for index, lists in hashes.items()}


def _solved(ctr: Ctr, index: int, solved: Mapping[int, Ints]) -> Ints:
    """Return hashes of one feature's categories, from the keys of a table whose other features are known.

    Other elements are tried in all combinations: the right ones leave a number of 32 bits. Others do so by chance in
    one of 2^32 cases, which adds a category that no row has.
    """
    bits = [np.arange(2)] * (len(ctr.above) + len(ctr.equal))
    options = [solved.get(category, np.zeros(1, np.int64)) for category in ctr.categories] + bits
    place = list(ctr.categories).index(index)
    options[place] = np.zeros(1, np.int64)
    counts = counts_of(ctr)
    partial_keys = _keys_of_cells(np.ix_(*(_word(option) for option in options)))
    check_size("combinations of categories", partial_keys.size * len(counts.keys), _MAX_CELLS)
    differences = counts.keys[counts.keys != EMPTY_KEY][:, None] - partial_keys.reshape(1, -1)
    power = len(options) - place + 1
    numbers = (differences * np.uint64(pow(MULTIPLIER, -power, 1 << 64))).astype(np.int64)
    return np.unique(numbers[(numbers >= -(1 << 31)) & (numbers < 1 << 31)] & _HASH)


def _word(hashes: Ints) -> Words:
    return hashes.astype(np.uint32).view(np.int32).astype(np.int64).astype(np.uint64)


_Axes = Mapping[int, tuple[Floats | None, int]]  # by position in the schema: bounds, None for categories, and size


def conditions_of(
    ctr: Ctr, borders: Ints, known_hashes: Mapping[int, Ints], number_places: Places, category_places: Places
) -> list[Condition]:
    unsorted: dict[int, tuple[Floats | None, int]] = {
        category_places[index]: (None, len(known_hashes[index]) + 1)
        for index in (*ctr.categories, *(index for index, _ in ctr.equal))
    }
    for index, _ in ctr.above:
        bounds = bound_up_to(sorted({border for other, border in ctr.above if other == index}))
        unsorted[number_places[index]] = bounds, len(bounds) + 1
    axes = dict(sorted(unsorted.items()))
    n_cells = int(np.prod([size for _, size in axes.values()], dtype=np.float64))
    check_size("combinations of categories", n_cells, _MAX_CELLS)
    values = _cell_values(ctr, axes, known_hashes, number_places, category_places)
    features, all_bounds = tuple(axes), tuple(bounds for bounds, _ in axes.values())
    return [Condition(features, all_bounds, values > ctr.borders[border]) for border in borders]


def _cell_values(
    ctr: Ctr, axes: _Axes, known_hashes: Mapping[int, Ints], number_places: Places, category_places: Places
) -> Singles:
    counts = counts_of(ctr)
    row_values, unseen_value = ctr_values(ctr, counts)

    def along(feature: int, values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        return values.reshape([-1 if other == feature else 1 for other in axes])

    elements, is_unseen = [], np.zeros([size for _, size in axes.values()], dtype=bool)
    for index in ctr.categories:
        feature = category_places[index]
        elements.append(along(feature, np.append(_word(known_hashes[index]), np.uint64(0))))
        is_unseen |= along(feature, np.arange(len(known_hashes[index]) + 1) == len(known_hashes[index]))
    for index, border in ctr.above:
        bounds, size = axes[number_places[index]]
        place = 0 if bounds is None else np.searchsorted(bounds, bound_up_to(border))
        elements.append(along(number_places[index], (np.arange(size) > place).astype(np.uint64)))
    for index, value in ctr.equal:
        bits = np.append(known_hashes[index] == (value & _HASH), False)
        elements.append(along(category_places[index], bits.astype(np.uint64)))
    row = _rows_of(_keys_of_cells(elements), counts.keys)
    values: Singles = np.append(row_values, unseen_value)[np.where(is_unseen, -1, row)]
    return values


def _keys_of_cells(elements: Sequence[npt.NDArray[np.generic]]) -> Words:
    key = np.zeros(1, np.uint64)
    multiplier = np.uint64(MULTIPLIER)
    for element in elements:
        key = multiplier * (key + multiplier * element.astype(np.uint64))
    return key


def _rows_of(keys: Words, table_keys: Words) -> Ints:
    if not len(table_keys):
        return np.full(keys.shape, -1)
    order = np.argsort(table_keys, kind="stable")
    place = np.minimum(np.searchsorted(table_keys, keys, sorter=order), len(order) - 1)
    is_there = (table_keys[order[place]] == keys) & (keys != EMPTY_KEY)
    return np.where(is_there, order[place], -1)


_MAX_SET_ENTRIES = 1 << 28


@dataclasses.dataclass(frozen=True)
class Splits:
    """The decision at each global split, and a last entry for "no split".

    Splits on combinations of features are in `conditions`, by their global position, and have no feature.
    """

    feature: Ints
    bound: Floats
    missing_left: Bools
    category_start: Ints
    category_left: Bools
    conditions: Mapping[int, Condition]


# A categorical feature's number, how many splits there are, and what gives a row of them per known category; None where
# no tree has them.
_Group = tuple[int, int, Callable[[Ints], Bools] | None]


def read_splits(model: Model, position: Mapping[int, int], used: Ints) -> tuple[Splits, dict[int, Ints]]:
    """Return all splits in their global order, and the hashes of each categorical feature's known categories.

    `position` is that of each column in the schema; `used` are the global positions of splits in trees, sorted.
    """
    for borders in [feature.borders for feature in model.numeric] + [ctr.borders for ctr in model.ctrs]:
        if np.isnan(borders).any() or (borders[1:] < borders[:-1]).any():
            raise damaged(f"the model's borders must be sorted numbers, got {str(borders)[:40]}")
    on_categories = _category_splits(model, used)
    used_ctrs = list(_used_ctrs(model, used))
    known_hashes = known_categories(model, [ctr for ctr, _, _ in used_ctrs])
    number_places, category_places = (
        {column.index: position[column.flat] for column in columns} for columns in (model.numeric, model.categorical)
    )
    start, sets = _category_sets(on_categories, known_hashes)
    n_borders = [len(feature.borders) for feature in model.numeric]
    places = [position[feature.flat] for feature in model.numeric]
    places += [-1 if goes_right is None else category_places[index] for index, _, goes_right in on_categories]
    n_others = len(start) + 1
    missing_left = np.repeat(np.array([not feature.missing_right for feature in model.numeric], dtype=bool), n_borders)
    borders = np.concatenate([np.empty(0), *(feature.borders for feature in model.numeric)])
    conditions = {
        first + int(border): condition
        for ctr, first, used_borders in used_ctrs
        if not ctr.is_simple
        for border, condition in zip(
            used_borders,
            conditions_of(ctr, used_borders, known_hashes, number_places, category_places),
            strict=True,
        )
    }
    n_splits = [*n_borders, *(n_splits for _, n_splits, _ in on_categories), 1]
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
    """Return splits of one-hot features and of CTRs in their global order; those on combinations count as not used."""
    groups: list[_Group] = [
        (index, len(values), functools.partial(_one_hot_right, values)) for index, values in model.one_hot
    ]
    for ctr in model.ctrs:
        right = functools.partial(ctr_right, ctr) if ctr.is_simple else None
        groups.append((next(iter(ctr.categories), -1), len(ctr.borders), right))
    first = sum(len(feature.borders) for feature in model.numeric)
    ends = np.searchsorted(used, first + np.cumsum([0, *(n_splits for _, n_splits, _ in groups)]))
    return [
        (index, n_splits, right if n_used else None)
        for (index, n_splits, right), n_used in zip(groups, np.diff(ends), strict=True)
    ]


def _one_hot_right(values: Ints, known_hashes: Ints) -> Bools:
    result: Bools = np.append(known_hashes, -1) == (values & 0xFFFFFFFF)[:, None]
    return result


def _category_sets(groups: Sequence[_Group], known_hashes: Mapping[int, Ints]) -> tuple[Ints, Bools]:
    """Return the start of each split's set, -1 for those in no tree, and the sets one after the other."""
    widths = [0 if goes_right is None else len(known_hashes[index]) + 1 for index, _, goes_right in groups]
    sizes = np.array([width * n_splits for width, (_, n_splits, _) in zip(widths, groups, strict=True)], dtype=np.int64)
    check_size("category sets", int(sizes.sum()), _MAX_SET_ENTRIES)
    starts = [
        first + width * np.arange(n_splits) if width else np.full(n_splits, -1)
        for first, width, (_, n_splits, _) in zip(block_starts(sizes), widths, groups, strict=True)
    ]
    sets = [~goes_right(known_hashes[index]).ravel() for index, _, goes_right in groups if goes_right is not None]
    empty = np.empty(0, dtype=np.int64)
    return np.concatenate([empty, *starts]), np.concatenate([empty.astype(bool), *sets])
