"""Grid: one axis per feature, whose bins are all that a model can tell apart."""

from __future__ import annotations

import abc
import dataclasses
import functools
import itertools
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import BinIndices, Bools, Floats, Ints
from treeanova.data.columns import encode
from treeanova.data.features import Feature, Schema
from treeanova.model.forest import NEAR_ZERO, Forest


@dataclasses.dataclass(frozen=True, eq=False)
class Axis(abc.ABC):
    """Bins of one feature. Missing and unseen values have bins like all others: own ones, or one they share.

    Attributes
    ----------
    name
        Name of the feature.
    missing_bin
        Bin of missing values; -1 where the model refuses them.
    """

    name: str
    missing_bin: int

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number of bins."""

    @property
    @abc.abstractmethod
    def n_plain(self) -> int:
        """Number of bins of plain values; those of missing and unseen ones that are apart come after them."""

    @property
    @abc.abstractmethod
    def labels(self) -> tuple[str, ...]:
        """A label per bin, for people."""

    @abc.abstractmethod
    def index(self, column: Floats) -> BinIndices:
        """Bins of an encoded column."""

    @abc.abstractmethod
    def examples(self) -> Floats:
        """An encoded value of each bin."""

    def __len__(self) -> int:
        return self.size


@dataclasses.dataclass(frozen=True, eq=False)
class IntervalAxis(Axis):
    """Bins (-inf, bounds[0]], (bounds[0], bounds[1]], …, (bounds[-1], inf), then one for missing where it is apart."""

    bounds: Floats

    @property
    def n_intervals(self) -> int:
        """Number of interval bins; they come first."""
        return len(self.bounds) + 1

    @property
    def n_plain(self) -> int:
        """Number of interval bins."""
        return self.n_intervals

    @property
    def size(self) -> int:
        """Number of bins."""
        return max(self.n_intervals, self.missing_bin + 1)

    @property
    def edges(self) -> Floats:
        """Ends of the interval bins, from -inf to inf."""
        return np.concatenate([[-np.inf], self.bounds, [np.inf]])

    @functools.cached_property
    def labels(self) -> tuple[str, ...]:
        """Intervals as people write them."""
        numbers = _short(self.bounds)
        if not numbers:
            names = ["all"]
        else:
            inner = [f"({a}, {b}]" for a, b in itertools.pairwise(numbers)]
            names = [f"≤ {numbers[0]}", *inner, f"> {numbers[-1]}"]
        return _with_extra(names, self.missing_bin, "missing")

    def index(self, column: Floats) -> BinIndices:
        """Bins of an encoded column."""
        codes = np.searchsorted(self.bounds, column, side="left").astype(np.int32)
        missing = np.isnan(column)
        if missing.any():
            codes[missing] = self.missing_bin
        return codes

    def examples(self) -> Floats:
        """Upper ends of the intervals, infinity, and NaN for missing values."""
        return np.concatenate([self.bounds, [np.inf], np.full(self.size - self.n_intervals, np.nan)])


@dataclasses.dataclass(frozen=True, eq=False)
class CategoryAxis(Axis):
    """A bin per category, then one for unseen and one for missing where they are apart."""

    categories: tuple[Hashable, ...]
    unseen_bin: int

    @property
    def n_plain(self) -> int:
        """Number of categories."""
        return len(self.categories)

    @property
    def size(self) -> int:
        """Number of bins."""
        return max(len(self.categories), self.unseen_bin + 1, self.missing_bin + 1)

    @functools.cached_property
    def labels(self) -> tuple[str, ...]:
        """Categories as text."""
        names = _with_extra([str(category) for category in self.categories], self.unseen_bin, "unseen")
        return _with_extra(list(names), self.missing_bin, "missing")

    def index(self, column: Floats) -> BinIndices:
        """Bins of an encoded column."""
        missing = np.isnan(column)
        codes = np.where(missing, 0, column).astype(np.int32)
        codes[codes == len(self.categories)] = self.unseen_bin
        codes[missing] = self.missing_bin
        return codes

    def examples(self) -> Floats:
        """Positions of the categories; the number of categories for unseen, NaN for missing."""
        known = len(self.categories)
        values = np.arange(self.size, dtype=np.float64)
        if self.missing_bin >= known:
            values[self.missing_bin] = np.nan
        if self.unseen_bin >= known:
            values[self.unseen_bin] = known
        return values


def _with_extra(names: list[str], bin_: int, word: str) -> tuple[str, ...]:
    """Names with a word for a bin of its own, or the word added to the bin that it shares."""
    if bin_ >= len(names):
        names = [*names, word]
    elif bin_ >= 0:
        names = [*names[:bin_], f"{names[bin_]} or {word}", *names[bin_ + 1 :]]
    return tuple(names)


def _short(bounds: Floats) -> list[str]:
    """Numbers with as few digits as tell them apart, at least four."""
    for digits in range(4, 18):
        texts = [f"{bound:.{digits}g}" for bound in bounds]
        if len(set(texts)) == len(texts):
            return texts
    return [repr(float(bound)) for bound in bounds]


@dataclasses.dataclass(frozen=True, eq=False)
class Grid:
    """The axes of all features, in the order of the schema."""

    schema: Schema
    axes: tuple[Axis, ...]

    @functools.cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of bins of each axis."""
        return tuple(axis.size for axis in self.axes)

    def index(self, data: Any) -> BinIndices:
        """Bins of all rows and features of user data, shape (n_rows, n_features), column by column in memory."""
        return self.index_encoded(encode(data, self.schema))

    def index_encoded(self, encoded: Floats) -> BinIndices:
        """Bins of an encoded matrix."""
        codes = np.empty(encoded.shape, dtype=np.int32, order="F")
        for j, axis in enumerate(self.axes):
            codes[:, j] = axis.index(encoded[:, j])
        return codes

    def encoded(self, codes: BinIndices) -> Floats:
        """An encoded matrix whose rows fall in given bins."""
        columns = [axis.examples()[codes[:, j]] for j, axis in enumerate(self.axes)]
        return np.stack(columns, axis=1) if columns else np.empty(codes.shape)

    def has_bins_of(self, other: Grid) -> bool:
        """Whether names and bins of all features are another's."""
        pairs = zip(self.axes, other.axes, strict=False)
        return self.schema.names == other.schema.names and all(_same_axis(a, b) for a, b in pairs)


def _same_axis(first: Axis, second: Axis) -> bool:
    if isinstance(first, IntervalAxis) and isinstance(second, IntervalAxis):
        return first.missing_bin == second.missing_bin and np.array_equal(first.bounds, second.bounds)
    return first.labels == second.labels


def grid_of(forest: Forest) -> Grid:
    """The grid of all bounds and category sets of a forest."""
    order = np.argsort(forest.feature, kind="stable")
    starts = np.searchsorted(forest.feature[order], np.arange(len(forest.schema.features) + 1))
    nodes = [order[starts[j] : starts[j + 1]] for j in range(len(forest.schema.features))]
    axes = [
        _category_axis(feature, forest, own) if feature.is_category else _interval_axis(feature, forest, own)
        for feature, own in zip(forest.schema.features, nodes, strict=True)
    ]
    return Grid(forest.schema, tuple(axes))


def _interval_axis(feature: Feature, forest: Forest, nodes: Ints) -> IntervalAxis:
    bound, zero_missing, missing_left = forest.bound[nodes], forest.zero_missing[nodes], forest.missing_left[nodes]
    zero = [np.nextafter(-NEAR_ZERO, -np.inf), NEAR_ZERO] if zero_missing.any() else []
    bounds = np.unique(np.concatenate([bound, zero]))
    bounds = bounds[bounds < np.inf]
    if not feature.accepts_missing:
        return IntervalAxis(feature.name, -1, bounds)
    last_left = np.searchsorted(bounds, bound, side="left")  # bins up to this one go left
    first, last = 0, len(bounds)
    if zero:
        first = last = int(np.searchsorted(bounds, 0.0))
        last_left, missing_left = last_left[~zero_missing], missing_left[~zero_missing]
    shared = _shared_bin(last_left, missing_left, first, last)
    return IntervalAxis(feature.name, len(bounds) + 1 if shared is None else shared, bounds)


def _shared_bin(last_left: Ints, missing_left: Bools, first: int, last: int) -> int | None:
    """A bin in first .. last that goes where missing values go at every node, if there is one."""
    first = int((last_left[~missing_left] + 1).max(initial=first))
    last = min(last, int(last_left[missing_left].min(initial=last)))
    return first if first <= last else None


def _category_axis(feature: Feature, forest: Forest, nodes: Ints) -> CategoryAxis:
    """Unseen and missing share the first category that goes their way at every node, or have bins of their own."""
    n_categories = feature.n_categories
    sets = forest.category_left[forest.category_start[nodes][:, None] + np.arange(n_categories + 1)]
    ways = [sets[:, code] for code in range(n_categories)]
    unseen_bin, missing_bin = -1, -1
    if feature.accepts_unseen:
        unseen_bin = _first_equal(ways, sets[:, n_categories])
        ways += [sets[:, n_categories]] * (unseen_bin == len(ways))
    if feature.accepts_missing:
        missing_bin = _first_equal(ways, forest.missing_left[nodes])
    return CategoryAxis(feature.name, missing_bin, feature.encoder.labels or (), unseen_bin)


def _first_equal(ways: Sequence[Bools], way: Bools) -> int:
    return next((position for position, other in enumerate(ways) if (other == way).all()), len(ways))


def union(grids: Sequence[Grid]) -> tuple[Grid, list[list[Ints]]]:
    """A grid that tells apart all that any of some grids does, and per grid and axis the old bin of each new one."""
    first = grids[0]
    if any(grid.schema.names != first.schema.names for grid in grids):
        raise ValueError(
            "decompositions must have the same features in the same order to be combined; rename or select."
        )
    columns = list(zip(*(grid.axes for grid in grids), strict=True))
    features = [_widest(options) for options in zip(*(grid.schema.features for grid in grids), strict=True)]
    axes, maps = [], []
    for feature, options in zip(features, columns, strict=True):
        axis, old = _union_axis(feature, options)
        axes.append(axis)
        maps.append(old)
    schema = dataclasses.replace(first.schema, features=tuple(features))
    return Grid(schema, tuple(axes)), [list(own) for own in zip(*maps, strict=True)]


def _widest(features: Sequence[Feature]) -> Feature:
    """The feature whose categories hold those of all others."""
    widest = max(features, key=lambda feature: feature.n_categories)
    known = set(widest.encoder.labels or ())
    for feature in features:
        if feature.is_category != widest.is_category or not known >= set(feature.encoder.labels or ()):
            raise ValueError(
                f"feature {feature.name!r} must have the same kind and categories to be combined, got others."
            )
    if len({_reading(feature) for feature in features}) > 1:
        raise ValueError(
            f"feature {widest.name!r} must be read alike (missing values, labels) to be combined, got others."
        )
    return dataclasses.replace(
        widest,
        accepts_missing=all(feature.accepts_missing for feature in features),
        accepts_unseen=all(feature.accepts_unseen for feature in features),
    )


def _reading(feature: Feature) -> tuple[str, object]:
    encoder = feature.encoder
    names = None if feature.is_category else getattr(encoder, "names", None)
    return repr(float(getattr(encoder, "missing", np.nan))), names


def _union_axis(feature: Feature, axes: Sequence[Axis]) -> tuple[Axis, list[Ints]]:
    """One axis for several of a feature, and the old bin of each new bin for each."""
    labels = feature.encoder.labels
    unseen_bin, maps = -1, []
    bounds = np.empty(0)
    if labels is None:
        intervals = [axis for axis in axes if isinstance(axis, IntervalAxis)]
        bounds = np.unique(np.concatenate([axis.bounds for axis in intervals]))
        maps = [np.searchsorted(axis.bounds, [*bounds, np.inf]) for axis in intervals]
    else:
        categories = [axis for axis in axes if isinstance(axis, CategoryAxis)]
        maps = [_category_map(axis, labels) for axis in categories]
        unseen_bin, maps = _extra_bin(maps, [axis.unseen_bin for axis in categories])
    missing_bin, maps = _extra_bin(maps, [axis.missing_bin for axis in axes])
    if labels is None:
        return IntervalAxis(feature.name, missing_bin, bounds), maps
    return CategoryAxis(feature.name, missing_bin, labels, unseen_bin), maps


def _extra_bin(maps: list[Ints], old_bins: Sequence[int]) -> tuple[int, list[Ints]]:
    """The new bin of missing (or unseen) values: one that they share in all old axes, else one of their own."""
    if min(old_bins) < 0:
        return -1, maps
    shared = np.all([old == bin_ for old, bin_ in zip(maps, old_bins, strict=True)], axis=0)
    if shared.any():
        return int(shared.argmax()), maps
    return len(maps[0]), [np.append(old, bin_) for old, bin_ in zip(maps, old_bins, strict=True)]


def _category_map(axis: CategoryAxis, labels: Sequence[Hashable]) -> Ints:
    positions = {label: code for code, label in enumerate(axis.categories)}
    old = np.array([positions.get(label, axis.unseen_bin) for label in labels], dtype=np.int64)
    if old.min(initial=0) < 0:
        raise ValueError(f"feature {axis.name!r} must have the same categories to be combined, got others.")
    return old
