"""CTRs of combinations of features: their number for each cell of several features.

A table's key of a combination with elements v_1, …, v_n, in the order of `Ctr`, is Σ MULTIPLIER^(n - i + 2) · v_i
modulo 2^64, where a category is its hash and a condition 0 or 1. A key alone does not give its elements, but one
unknown element follows from the others. CatBoost adds one categorical feature at a time to the combinations of a tree,
so that all categories can be found one feature after the other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.forest import bound_up_to
from treeanova.readers.catboost import ctr as ctrs
from treeanova.readers.catboost.model import EMPTY_KEY, Ctr, Model
from treeanova.readers.checks import check_size

_MAX_CELLS = 1 << 24
_HASH = 0xFFFFFFFF
Words = npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True)
class Condition:
    """A split on the cells of one or more features.

    Attributes
    ----------
    features
        Positions of the features, ascending.
    bounds
        Upper ends of all intervals but the last for each feature; None for categories.
    goes_right
        Whether each cell goes right: an axis per feature, of its intervals, or of its categories and last unseen ones.
    """

    features: tuple[int, ...]
    bounds: tuple[Floats | None, ...]
    goes_right: Bools


@dataclasses.dataclass(frozen=True)
class Places:
    """Positions in the schema of numeric and categorical features, by their numbers among those of their kind."""

    numeric: Mapping[int, int]
    categorical: Mapping[int, int]


def known_categories(model: Model, used: Iterable[Ctr]) -> dict[int, Ints]:
    """Sorted hashes of the categories that splits can distinguish, for each categorical feature."""
    hashes: dict[int, list[Ints]] = {feature.index: [np.empty(0, np.int64)] for feature in model.categorical}
    for index, values in model.one_hot:
        if len(np.unique(values & _HASH)) < len(values):
            raise ModelFileError(
                f"the model's one-hot values must differ, got {str(values)[:40]} for feature {index}; file damaged?"
            )
        hashes[index].append(values & _HASH)
    for index, found in _categories_of_tables(used):
        hashes[index].append(found)
    return {index: np.unique(np.concatenate(lists)) for index, lists in hashes.items()}


def _categories_of_tables(used: Iterable[Ctr]) -> Iterable[tuple[int, Ints]]:
    """Features and hashes of their categories, from tables with one unknown feature at a time."""
    found: dict[int, Ints] = {}
    waiting = sorted(used, key=lambda ctr: len(ctr.categories))
    for ctr in waiting:
        yield from ((index, np.array([value & _HASH])) for index, value in ctr.equal)
    while waiting:
        solvable = [place for place, ctr in enumerate(waiting) if len(set(ctr.categories) - set(found)) <= 1]
        if not solvable:
            raise UnsupportedModelError(
                "`model` must tell the categories of each feature, got CTRs of combinations of features only; train "
                "with CatBoost's own order of combinations."
            )
        ctr = waiting.pop(solvable[0])
        unknown = set(ctr.categories) - set(found)
        if ctr.is_simple:
            table_hashes, is_reachable = ctrs.category_hashes(ctrs.counts_of(ctr))
            index, categories = ctr.categories[0], np.unique(table_hashes[is_reachable])
        elif unknown:
            index = unknown.pop()
            categories = _solved(ctr, index, found)
        else:
            continue
        found[index] = np.union1d(found.get(index, categories), categories)
        yield index, categories


def _solved(ctr: Ctr, index: int, found: Mapping[int, Ints]) -> Ints:
    """Hashes of the categories of one feature, from the keys of a table whose other features are known.

    Other elements are tried in all combinations: the right ones leave a number of 32 bits. Others do so by chance in
    one of 2^32 cases, which adds a category that no row has.
    """
    bits = [np.arange(2)] * (len(ctr.above) + len(ctr.equal))
    options = [found.get(category, np.zeros(1, np.int64)) for category in ctr.categories] + bits
    place = list(ctr.categories).index(index)
    options[place] = np.zeros(1, np.int64)
    counts = ctrs.counts_of(ctr)
    others = _combined([_word(option) for option in options])
    check_size("combinations of categories", others.size * len(counts.keys), _MAX_CELLS)
    differences = counts.keys[counts.keys != EMPTY_KEY][:, None] - others.reshape(1, -1)
    power = len(options) - place + 1
    numbers = (differences * np.uint64(pow(ctrs.MULTIPLIER, -power, 1 << 64))).astype(np.int64)
    return np.unique(numbers[(numbers >= -(1 << 31)) & (numbers < 1 << 31)] & _HASH)


def _word(hashes: Ints) -> Words:
    """Hashes of 32 bits, sign-extended as in the keys of tables."""
    return hashes.astype(np.uint32).view(np.int32).astype(np.int64).astype(np.uint64)


def _combined(words: Sequence[Words]) -> Words:
    """Keys of all combinations of elements, an axis per element."""
    return _keys_of_cells(np.ix_(*words))


@dataclasses.dataclass(frozen=True)
class _Axis:
    """A feature of a combination: its position, the bounds of its intervals, and the number of its bins."""

    feature: int
    bounds: Floats | None
    size: int


def conditions_of(ctr: Ctr, borders: Ints, known: Mapping[int, Ints], places: Places) -> list[Condition]:
    """Splits of a CTR at some of its borders, on the cells of its features."""
    axes = _axes(ctr, known, places)
    sizes = [axis.size for axis in axes]
    check_size("combinations of categories", int(np.prod(sizes, dtype=np.float64)), _MAX_CELLS)
    values = _cell_values(ctr, axes, known, places)
    features, bounds = tuple(axis.feature for axis in axes), tuple(axis.bounds for axis in axes)
    return [Condition(features, bounds, values > ctr.borders[border]) for border in borders]


def _axes(ctr: Ctr, known: Mapping[int, Ints], places: Places) -> list[_Axis]:
    indices = sorted({*ctr.categories, *(index for index, _ in ctr.equal)})
    axes = [_Axis(places.categorical[index], None, len(known[index]) + 1) for index in indices]
    for index in sorted({index for index, _ in ctr.above}):
        bounds = bound_up_to(sorted({border for other, border in ctr.above if other == index}))
        axes.append(_Axis(places.numeric[index], bounds, len(bounds) + 1))
    return sorted(axes, key=lambda axis: axis.feature)


def _cell_values(ctr: Ctr, axes: Sequence[_Axis], known: Mapping[int, Ints], places: Places) -> npt.NDArray[np.float32]:
    """The CTR's number in each cell, in float32 as CatBoost computes it."""
    counts = ctrs.counts_of(ctr)
    row_values, unseen_value = ctrs.ctr_values(ctr, counts)
    position = {axis.feature: place for place, axis in enumerate(axes)}

    def along(feature: int, values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        return values.reshape([-1 if place == position[feature] else 1 for place in range(len(axes))])

    elements, is_unseen = [], np.zeros([axis.size for axis in axes], dtype=bool)
    for index in ctr.categories:
        feature = places.categorical[index]
        elements.append(along(feature, np.append(_word(known[index]), np.uint64(0))))
        is_unseen |= along(feature, np.arange(len(known[index]) + 1) == len(known[index]))
    for index, border in ctr.above:
        axis = axes[position[places.numeric[index]]]
        place = 0 if axis.bounds is None else np.searchsorted(axis.bounds, bound_up_to(border))
        elements.append(along(axis.feature, (np.arange(axis.size) > place).astype(np.uint64)))
    for index, value in ctr.equal:
        bits = np.append(known[index] == (value & _HASH), False)
        elements.append(along(places.categorical[index], bits.astype(np.uint64)))
    row = _rows_of(_keys_of_cells(elements), counts.keys)
    values: npt.NDArray[np.float32] = np.append(row_values, unseen_value)[np.where(is_unseen, -1, row)]
    return values


def _keys_of_cells(elements: Sequence[npt.NDArray[np.generic]]) -> Words:
    """Key of each cell from arrays that broadcast to all cells."""
    key = np.zeros(1, np.uint64)
    multiplier = np.uint64(ctrs.MULTIPLIER)
    for element in elements:
        key = multiplier * (key + multiplier * element.astype(np.uint64))
    return key


def _rows_of(keys: Words, table_keys: Words) -> Ints:
    """Row of each key in a table, -1 where it has none."""
    if not len(table_keys):
        return np.full(keys.shape, -1)
    order = np.argsort(table_keys, kind="stable")
    place = np.minimum(np.searchsorted(table_keys, keys, sorter=order), len(order) - 1)
    is_there = (table_keys[order[place]] == keys) & (keys != EMPTY_KEY)
    return np.where(is_there, order[place], -1)
