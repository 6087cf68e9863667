"""Grid: one axis per feature, whose bins are all that a model can distinguish; and Binning, all merging of bins."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import BinIndices, Bools, Floats, Ints
from treeanova.data.features import Feature, Schema
from treeanova.model.axes import Axis, CategoryAxis, IntervalAxis
from treeanova.model.forest import NEAR_ZERO, Forest
from treeanova.model.rows import Rows


@dataclasses.dataclass(frozen=True, eq=False)
class Grid:
    """The axes of all features, in the order of the schema.

    Attributes
    ----------
    schema
        Features, outputs and link of the model.
    axes
        An axis per feature.

    Examples
    --------
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> fx.grid.sizes
    (2, 2)
    """

    schema: Schema
    axes: tuple[Axis, ...]

    @functools.cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.axes)

    def index(self, X: Any) -> BinIndices:
        """Return the bins of all features at rows.

        Parameters
        ----------
        X
            Rows: numpy, pandas, polars, pyarrow or scipy.sparse; or `Rows`, encoded or in bins.

        Returns
        -------
        numpy.ndarray
            Shape (n_rows, n_features), column by column in memory.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.grid.index([[0.2, 0.9]]).tolist()
        [[0, 1]]
        """
        return Rows.of(X, self.schema).bins(self)

    def encoded(self, codes: BinIndices) -> Floats:
        """Return encoded values that fall in the bins of rows."""
        columns = [axis.examples()[codes[:, j]] for j, axis in enumerate(self.axes)]
        return np.stack(columns, axis=1) if columns else np.empty(codes.shape)

    def has_bins_of(self, other: Grid) -> bool:  # whether features have the same names and bins in both grids
        pairs = zip(self.axes, other.axes, strict=False)
        return self.schema.names == other.schema.names and all(axis.has_bins_of(of_other) for axis, of_other in pairs)


def grid_of(forest: Forest) -> Grid:
    """Return the grid of all thresholds and category sets of a forest.

    Parameters
    ----------
    forest
        A forest as `read_model` returns it.

    Returns
    -------
    Grid
        Axes whose bins are all that the trees distinguish.

    Examples
    --------
    >>> import treeanova
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> tree = DecisionTreeRegressor().fit([[0.0], [1.0], [4.0]], [0, 1, 2])
    >>> treeanova.model.grid_of(treeanova.read_model(tree)).axes[0].labels
    ('≤ 0.5', '(0.5, 2.5]', '> 2.5 or missing')
    """
    order = np.argsort(forest.feature, kind="stable")
    starts = np.searchsorted(forest.feature[order], np.arange(len(forest.schema.features) + 1))
    nodes = [order[starts[j] : starts[j + 1]] for j in range(len(forest.schema.features))]
    axes = [
        (_category_axis if feature.is_category else _interval_axis)(feature, forest, split_nodes)
        for feature, split_nodes in zip(forest.schema.features, nodes, strict=True)
    ]
    return Grid(forest.schema, tuple(axes))


def _interval_axis(feature: Feature, forest: Forest, nodes: Ints) -> IntervalAxis:
    """Return intervals between the bounds of nodes; missing values share one that goes their way at every node."""
    bound, zero_missing, missing_left = forest.bound[nodes], forest.zero_missing[nodes], forest.missing_left[nodes]
    # If some nodes take values near zero for missing, the bin of zero is the only one that missing values can share.
    ends_of_zero = [np.nextafter(-NEAR_ZERO, -np.inf), NEAR_ZERO] if zero_missing.any() else []
    bounds = np.unique(np.concatenate([bound, ends_of_zero]))
    bounds = bounds[bounds < np.inf]
    if not feature.accepts_missing:
        return IntervalAxis(feature.name, -1, bounds, feature.encoder.date_unit)
    last_left = np.searchsorted(bounds, bound, side="left")  # bins up to this one go left
    first, last = 0, len(bounds)
    if ends_of_zero:
        first = last = int(np.searchsorted(bounds, 0.0))
        last_left, missing_left = last_left[~zero_missing], missing_left[~zero_missing]
    # Bins from `first` to `last` go where missing values go at every node; if there are none, these get their own.
    first = int((last_left[~missing_left] + 1).max(initial=first))
    last = min(last, int(last_left[missing_left].min(initial=last)))
    missing_bin = first if first <= last else len(bounds) + 1
    return IntervalAxis(feature.name, missing_bin, bounds, feature.encoder.date_unit)


def _category_axis(feature: Feature, forest: Forest, nodes: Ints) -> CategoryAxis:
    """Return an axis of categories; unseen and missing values share a bin that goes their way at every node, if any."""
    n_categories = feature.n_categories
    # Whether each code goes left at each node; the code after those of categories is that of unseen values.
    code_goes_left = forest.category_left[forest.category_start[nodes][:, None] + np.arange(n_categories + 1)]
    goes_left = [code_goes_left[:, code] for code in range(n_categories)]  # for each bin, at each node
    unseen_bin, missing_bin = -1, -1  # without such a bin
    if feature.accepts_unseen:
        unseen_bin = _first_equal(goes_left, code_goes_left[:, n_categories])
        if unseen_bin == len(goes_left):
            goes_left.append(code_goes_left[:, n_categories])
    if feature.accepts_missing:
        missing_bin = _first_equal(goes_left, forest.missing_left[nodes])
    return CategoryAxis(feature.name, missing_bin, feature.encoder.labels or (), unseen_bin)


def _first_equal(arrays: Sequence[Bools], array: Bools) -> int:  # the position; the number of arrays if none is equal
    return next((position for position, other in enumerate(arrays) if (other == array).all()), len(arrays))


def union(grids: Sequence[Grid]) -> tuple[Grid, list[list[Ints]]]:
    """Return the common refinement of grids, and per grid and axis the old bin of each new one."""
    schema = common_schema([grid.schema for grid in grids])
    axes_by_feature = zip(*(grid.axes for grid in grids), strict=True)
    unions = [_union_axis(feature, axes) for feature, axes in zip(schema.features, axes_by_feature, strict=True)]
    maps = zip(*(old_bins for _, old_bins in unions), strict=True)  # from lists per axis to lists per grid
    return Grid(schema, tuple(axis for axis, _ in unions)), list(map(list, maps))


def common_schema(schemas: Sequence[Schema]) -> Schema:
    """Return the schema of a sum of models, perhaps of different libraries; raise ValueError if they do not match."""
    first = schemas[0]
    if any(schema.names != first.names for schema in schemas):
        lists = " and ".join(dict.fromkeys(str(list(schema.names)) for schema in schemas))
        is_order = len({tuple(sorted(schema.names)) for schema in schemas}) == 1
        remedy = "train the models on the columns in one order" if is_order else "rename them with `feature_names`"
        raise ValueError(
            f"decompositions must have the same features in the same order to be combined, got {lists}; {remedy}."
        )
    return dataclasses.replace(
        first,
        features=tuple(map(_common_feature, zip(*(schema.features for schema in schemas), strict=True))),
        named=any(schema.named for schema in schemas),
        absent=same_or_none([schema.absent for schema in schemas]),
        single_integers=same_or_none([schema.single_integers for schema in schemas]),
        underscores=any(schema.underscores for schema in schemas),
        classes=common_classes(schemas),
        threshold=first.threshold if len({schema.threshold for schema in schemas}) == 1 else 0.5,
    )


def common_classes(schemas: Sequence[Schema]) -> tuple[Hashable, ...]:
    """Return the labels of the classes of all models that state them, empty if none does."""
    labels = list(dict.fromkeys(schema.classes for schema in schemas if schema.classes))
    if len(labels) > 1:
        raise ValueError(
            f"models must have the same classes in the same order to be combined, got "
            f"{' and '.join(str(list(classes)) for classes in labels)}; train them on the same labels."
        )
    return labels[0] if labels else ()


def same_or_none(values: Sequence[Any]) -> Any:
    """Return the value that all have, else None; compared by text, because NaN does not equal itself."""
    return values[0] if len(set(map(repr, values))) == 1 else None


def _common_feature(features: Sequence[Feature]) -> Feature:
    """Return the feature with the categories of all; raise ValueError if models read its column differently."""
    widest = max(features, key=lambda feature: feature.n_categories)
    all_labels = set(widest.encoder.labels or ())
    for feature in features:
        if feature.is_category != widest.is_category or not all_labels >= set(feature.encoder.labels or ()):
            kinds = " and ".join(
                f"the categories {list(option.encoder.labels or ())}" if option.is_category else "numbers"
                for option in (widest, feature)
            )
            raise ValueError(
                f"feature {feature.name!r} must have the same kind and categories to be combined, got {kinds}; train "
                "the models on the same columns."
            )
    readings: dict[tuple[str, object], None] = {}  # values that mean missing, and names of codes, each once
    for feature in features:
        names = None if feature.is_category else getattr(feature.encoder, "names", None)
        missing = getattr(feature.encoder, "missing", ())
        besides_nan = missing if isinstance(missing, tuple) else () if np.isnan(missing) else (float(missing),)
        readings[", ".join(map(repr, besides_nan)) or "nan", names] = None
    if len(readings) > 1:
        raise ValueError(
            f"feature {widest.name!r} must have the same missing value and labels to be combined, got "
            f"{' and '.join(map(str, readings))}; train the models on the same columns."
        )
    units = sorted({feature.encoder.date_unit for feature in features} - {""})
    if len(units) > 1:
        raise ValueError(
            f"feature {widest.name!r} must count dates in one unit to be combined, got {' and '.join(units)}; train "
            "the models on the same columns."
        )
    return dataclasses.replace(
        widest,
        accepts_missing=all(feature.accepts_missing for feature in features),
        accepts_unseen=all(feature.accepts_unseen for feature in features),
    )


def _union_axis(feature: Feature, axes: Sequence[Axis]) -> tuple[Axis, list[Ints]]:
    """Return the common refinement of a feature's axes in several models, and per model the old bin of each new bin."""
    labels, missing_bins = feature.encoder.labels, [axis.missing_bin for axis in axes]
    if labels is None:
        bounds = np.unique(np.concatenate([axis.thresholds for axis in axes]))
        maps = [np.searchsorted(axis.thresholds, [*bounds, np.inf]) for axis in axes]  # by the upper ends of new bins
        missing_bin, maps = _extra_bin(maps, missing_bins)
        return IntervalAxis(feature.name, missing_bin, bounds, feature.encoder.date_unit), maps
    maps = [_category_map(axis, labels) for axis in axes if isinstance(axis, CategoryAxis)]
    unseen_bin, maps = _extra_bin(maps, [axis.unseen for axis in axes])
    missing_bin, maps = _extra_bin(maps, missing_bins)
    return CategoryAxis(feature.name, missing_bin, labels, unseen_bin), maps


def _extra_bin(maps: list[Ints], old_bins: Sequence[int]) -> tuple[int, list[Ints]]:
    """Return the new bin of missing (or unseen) values, shared with a regular one if all models agree, and the maps."""
    # `maps` have, per model, the old bin of each new bin; `old_bins` is each model's bin of such values, -1 for none.
    if min(old_bins) < 0:
        return -1, maps
    shared = np.all([old == bin_ for old, bin_ in zip(maps, old_bins, strict=True)], axis=0)
    if shared.any():
        return int(shared.argmax()), maps
    return len(maps[0]), [np.append(old, bin_) for old, bin_ in zip(maps, old_bins, strict=True)]


def _category_map(axis: CategoryAxis, labels: Sequence[Hashable]) -> Ints:
    """Return the bin on an axis of each category in `labels`; raise ValueError if one has no bin."""
    positions = {label: code for code, label in enumerate(axis.categories)}
    old = np.array([positions.get(label, axis.unseen_bin) for label in labels], dtype=np.int64)
    if old.min(initial=0) < 0:
        unknown = [label for label in labels if label not in positions]
        raise ValueError(
            f"feature {axis.name!r} must have the same categories to be combined, got {unknown} in one model only; "
            "train the models on the same columns."
        )
    return old


def first_unresolved(fine: Grid, coarse: Grid) -> str | None:
    """Return a feature of which some bin of `fine` lies in several bins of `coarse`, or None."""
    pairs = zip(fine.axes, coarse.axes, strict=True)
    return next((axis.name for axis, coarse_axis in pairs if bins_within(axis, coarse_axis) is None), None)


def bins_within(fine: Axis, coarse: Axis) -> Ints | None:
    """Return the coarse bin that contains each fine bin, -1 if none does; None if some fine bin is divided."""
    if not fine.is_ordered and getattr(fine, "categories", ()) != getattr(coarse, "categories", ()):
        return None
    # Probes are encoded values that fall in every intersection of bins.
    missing = [np.nan] if min(fine.missing_bin, coarse.missing_bin) >= 0 else []
    if fine.is_ordered:
        bounds = np.concatenate([fine.thresholds, coarse.thresholds])
        probes = np.concatenate([bounds, np.nextafter(bounds, np.inf), [-np.inf, np.inf], missing])
    else:
        unseen = [fine.n_regular] if min(fine.unseen, coarse.unseen) >= 0 else []  # the code after all categories
        probes = np.array([*range(fine.n_regular), *unseen, *missing], dtype=np.float64)
    pairs = np.unique(np.stack([fine.index(probes), coarse.index(probes)]), axis=1)  # fine and coarse bin that meet
    if len(np.unique(pairs[0])) < pairs.shape[1]:
        return None
    coarse_bins = np.full(fine.size, -1, dtype=np.int64)
    coarse_bins[pairs[0]] = pairs[1]
    return coarse_bins


@dataclasses.dataclass(frozen=True, eq=False)
class Binning:
    """A coarse bin for each fine bin of an axis, and the share of the coarse bin that each fine bin holds."""

    bins: Ints  # coarse bin of each fine bin
    shares: Floats
    size: int  # number of coarse bins

    @property
    def is_identity(self) -> bool:
        return self.size == len(self.bins)

    def shift(self, max_bins: int) -> int:
        """Return how often neighbours must be merged two by two to leave at most `max_bins`."""
        return max(0, math.ceil(math.log2(self.size / max_bins))) if self.size > max_bins else 0

    def coarser(self, max_bins: int) -> Ints:
        """Return the merged bin of each fine bin if coarse bins are merged two by two, to at most `max_bins`."""
        return self.bins >> self.shift(max_bins)

    def coarser_size(self, max_bins: int) -> int:  # the number of bins that `coarser` leaves
        return ((self.size - 1) >> self.shift(max_bins)) + 1

    def pool(self, masses: Floats, axis: int = 0) -> Floats:
        """Sum over the fine bins of each coarse bin, along an axis."""
        if self.is_identity:
            return masses
        order = np.argsort(self.bins, kind="stable")  # fine bins of a coarse bin next to each other
        starts = np.searchsorted(self.bins[order], np.arange(self.size))
        return np.add.reduceat(masses.take(order, axis=axis), starts, axis=axis)

    def average(self, values: Floats, axis: int = 0) -> Floats:
        """Average over the fine bins of each coarse bin by their shares, along an axis."""
        if self.is_identity:
            return values
        shape = [-1 if i == axis else 1 for i in range(values.ndim)]
        return self.pool(values * self.shares.reshape(shape), axis)

    def spread(self, values: Floats, axis: int = 0) -> Floats:
        """Give each fine bin the value of its coarse bin, along an axis."""
        return values if self.is_identity else values.take(self.bins, axis=axis)

    def axis(self, axis: Axis) -> Axis:  # the axis of the coarse bins
        return axis if self.is_identity else axis.coarsened(self.bins)

    def within(self, finer: Binning) -> Ints:
        """Return the coarse bin that contains each bin of a finer binning of the same axis."""
        bins = np.zeros(finer.size, dtype=np.int64)
        bins[finer.bins] = self.bins
        return bins

    def refines(self, other: Binning) -> bool:  # whether each of its bins lies within one bin of the other
        return np.array_equal(other.within(self)[self.bins], other.bins)

    def equals(self, other: Binning) -> bool:
        return self.size == other.size and np.array_equal(self.bins, other.bins)


def unmerged(n_bins: int) -> Binning:  # the identity
    return Binning(np.arange(n_bins), np.ones(n_bins), n_bins)


def binning_by(bins: Ints, masses: Floats | None = None) -> Binning:
    """Return the binning that merges fine bins with the same number in `bins`; shares follow masses, else are equal."""
    coarse = np.unique(bins, return_inverse=True)[1].ravel()
    counts = np.bincount(coarse)
    if masses is None:
        return Binning(coarse, 1 / counts[coarse], len(counts))
    totals = np.bincount(coarse, masses)
    shares = np.where(totals[coarse] > 0, masses / np.where(totals > 0, totals, 1.0)[coarse], 1 / counts[coarse])
    return Binning(coarse, shares, len(counts))


def equal_mass(axis: Axis, masses: Floats, max_bins: int) -> Binning:
    """Return a binning of an axis to at most `max_bins` bins of about equal mass."""
    # Bins of missing values stay separate. Of categories, the largest stay separate and all others become one bin.
    if axis.size <= max_bins:
        return binning_by(np.arange(axis.size), masses)
    if not axis.is_ordered:
        rank = np.empty(axis.size, dtype=np.int64)
        rank[np.argsort(-masses, kind="stable")] = np.arange(axis.size)
        return binning_by(np.minimum(rank, max_bins - 1), masses)
    groups = equal_mass_groups(masses[: axis.n_regular], max_bins - axis.n_extra)
    return binning_by(np.concatenate([groups, np.full(axis.n_extra, max_bins)]), masses)


def equal_mass_groups(masses: Floats, n_groups: int) -> Ints:
    """Return the group, 0 to `n_groups` - 1, of each bin if neighbours form groups of about equal mass."""
    total = masses.sum()
    middles = (np.cumsum(masses) - masses / 2) / total if total > 0 else np.linspace(0, 1, len(masses))
    return np.minimum((middles * n_groups).astype(np.int64), n_groups - 1)


def common_refinements(options: Sequence[Sequence[Binning]]) -> tuple[Binning, ...]:
    """Return, axis by axis, the coarsest binning that refines those of all options, which have one per axis."""
    return tuple(common_refinement(binnings) for binnings in zip(*options, strict=True))


def common_refinement(binnings: Sequence[Binning]) -> Binning:
    """Return the coarsest binning that refines all binnings of an axis."""
    identity = next((binning for binning in binnings if binning.is_identity), None)  # it refines all
    if identity is not None:
        return identity
    if all(binning.equals(binnings[0]) for binning in binnings[1:]):
        return binnings[0]
    # Fine bins stay together if they are in one bin of every binning; new bins are numbered by their first fine bin.
    cells = np.unique(np.stack([binning.bins for binning in binnings]), axis=1, return_inverse=True)[1].ravel()
    first_places = np.unique(cells, return_index=True)[1]
    rank = np.empty(len(first_places), dtype=np.int64)
    rank[np.argsort(first_places)] = np.arange(len(first_places))
    return binning_by(rank[cells])
