"""The splits of a CatBoost model in their global order: numeric borders, one-hot values, borders of CTRs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.errors import ModelFileError
from treeanova.model.forest import bound_up_to
from treeanova.readers.catboost import ctr as ctrs
from treeanova.readers.catboost.combinations import Condition, Places, conditions_of, known_categories
from treeanova.readers.catboost.model import Ctr, Model, Singles
from treeanova.readers.checks import block_starts, check_size

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


@dataclasses.dataclass(frozen=True)
class _CategorySplits:
    """Splits on one categorical feature; `goes_right` gives a row per split from the known categories."""

    index: int
    n_splits: int
    goes_right: Callable[[Ints], Bools]
    used: bool


def read_splits(model: Model, position: Mapping[int, int], used: Ints) -> tuple[Splits, dict[int, Ints]]:
    """All splits in their global order, and the hashes of the known categories of each categorical feature.

    `position` is that of each column in the schema; `used` are the global positions of splits in trees, sorted.
    """
    _check_borders([feature.borders for feature in model.numeric] + [ctr.borders for ctr in model.ctrs])
    on_categories = _category_splits(model, used)
    used_ctrs = list(_used_ctrs(model, used))
    known = known_categories(model, [ctr for ctr, _, _ in used_ctrs])
    places = Places(*({f.index: position[f.flat] for f in kind} for kind in (model.numeric, model.categorical)))
    start, sets = _category_sets(on_categories, known)
    n_borders = [len(feature.borders) for feature in model.numeric]
    numeric_places = [position[feature.flat] for feature in model.numeric]
    category_places = [places.categorical[group.index] if group.used else -1 for group in on_categories]
    n_others = len(start) + 1
    missing_left = np.repeat(np.array([not feature.missing_right for feature in model.numeric], dtype=bool), n_borders)
    borders = np.concatenate([np.empty(0), *(feature.borders for feature in model.numeric)])
    n_splits = [*n_borders, *(group.n_splits for group in on_categories), 1]
    splits = Splits(
        feature=np.repeat([*numeric_places, *category_places, -1], n_splits),
        bound=np.append(bound_up_to(borders), np.full(n_others, np.nan)),
        missing_left=np.append(missing_left, np.zeros(n_others, dtype=bool)),
        category_start=np.concatenate([np.full(len(borders), -1), start, [-1]]),
        category_left=sets,
        conditions=_conditions(used_ctrs, known, places),
    )
    return splits, known


def _used_ctrs(model: Model, used: Ints) -> Iterator[tuple[Ctr, int, Ints]]:
    """CTRs in trees, the global position of the first border of each, and the borders that are used."""
    first = sum(len(feature.borders) for feature in model.numeric) + sum(len(values) for _, values in model.one_hot)
    for ctr in model.ctrs:
        begin, end = np.searchsorted(used, [first, first + len(ctr.borders)])
        if begin < end:
            yield ctr, first, used[begin:end] - first
        first += len(ctr.borders)


def _conditions(
    used_ctrs: Iterable[tuple[Ctr, int, Ints]], known: Mapping[int, Ints], places: Places
) -> dict[int, Condition]:
    """Splits on combinations of features, by their global position."""
    return {
        first + int(border): condition
        for ctr, first, borders in used_ctrs
        if not ctr.is_simple
        for border, condition in zip(borders, conditions_of(ctr, borders, known, places), strict=True)
    }


def _check_borders(all_borders: Iterable[Singles]) -> None:
    for borders in all_borders:
        if np.isnan(borders).any() or (borders[1:] < borders[:-1]).any():
            raise ModelFileError(f"the model's borders must be sorted numbers, got {str(borders)[:40]}; file damaged?")


def _category_splits(model: Model, used: Ints) -> list[_CategorySplits]:
    """Splits of one-hot features and of CTRs in their global order; those on combinations count as not used."""
    groups: list[tuple[int, int, Callable[[Ints], Bools]]] = [
        (index, len(values), functools.partial(_one_hot_right, values)) for index, values in model.one_hot
    ]
    groups += [
        (next(iter(c.categories), -1), len(c.borders), functools.partial(ctrs.goes_right, c)) for c in model.ctrs
    ]
    first = sum(len(feature.borders) for feature in model.numeric)
    ends = np.searchsorted(used, first + np.cumsum([0, *(n_splits for _, n_splits, _ in groups)]))
    on_one_feature = [True] * len(model.one_hot) + [ctr.is_simple for ctr in model.ctrs]
    return [
        _CategorySplits(*group, used=is_single and bool(n_used))
        for group, is_single, n_used in zip(groups, on_one_feature, np.diff(ends), strict=True)
    ]


def _one_hot_right(values: Ints, known: Ints) -> Bools:
    """Whether each known category, and last an unseen one, equals each value."""
    result: Bools = np.append(known, -1) == (values & 0xFFFFFFFF)[:, None]
    return result


def _category_sets(groups: Sequence[_CategorySplits], known: Mapping[int, Ints]) -> tuple[Ints, Bools]:
    """Start of each split's set, -1 for those in no tree, and the sets one after the other."""
    widths = [len(known[group.index]) + 1 if group.used else 0 for group in groups]
    sizes = np.array([width * group.n_splits for width, group in zip(widths, groups, strict=True)], dtype=np.int64)
    check_size("category sets", int(sizes.sum()), _MAX_SET_ENTRIES)
    starts = [
        first + width * np.arange(group.n_splits) if width else np.full(group.n_splits, -1)
        for first, width, group in zip(block_starts(sizes), widths, groups, strict=True)
    ]
    sets = [~group.goes_right(known[group.index]).ravel() for group in groups if group.used]
    empty = np.empty(0, dtype=np.int64)
    return np.concatenate([empty, *starts]), np.concatenate([empty.astype(bool), *sets])
