"""The union of grids: an axis per feature that distinguishes all that any of its axes does."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Ints
from treeanova.data.features import Feature, Schema
from treeanova.model.axes import Axis, CategoryAxis, IntervalAxis
from treeanova.model.grid import Grid


def union(grids: Sequence[Grid]) -> tuple[Grid, list[list[Ints]]]:
    """A grid that distinguishes all that any of some grids does, and per grid and axis the old bin of each new one."""
    schema = common_schema([grid.schema for grid in grids])
    columns = list(zip(*(grid.axes for grid in grids), strict=True))
    axes, maps = [], []
    for feature, options in zip(schema.features, columns, strict=True):
        axis, old = _union_axis(feature, options)
        axes.append(axis)
        maps.append(old)
    return Grid(schema, tuple(axes)), [list(of_grid) for of_grid in zip(*maps, strict=True)]


def common_schema(schemas: Sequence[Schema]) -> Schema:
    """The schema of a sum of models, which may be of different libraries: it accepts what all of them accept."""
    first = schemas[0]
    if any(schema.names != first.names for schema in schemas):
        lists = " and ".join(dict.fromkeys(str(list(schema.names)) for schema in schemas))
        raise ValueError(
            f"decompositions must have the same features in the same order to be combined, got {lists}; rename them "
            "with `feature_names`."
        )
    return dataclasses.replace(
        first,
        features=tuple(map(_widest, zip(*(schema.features for schema in schemas), strict=True))),
        named=any(schema.named for schema in schemas),
        absent=same_or_none([schema.absent for schema in schemas]),
        single_integers=same_or_none([schema.single_integers for schema in schemas]),
        underscores=any(schema.underscores for schema in schemas),
        classes=_common_classes(schemas),
    )


def _common_classes(schemas: Sequence[Schema]) -> tuple[Hashable, ...]:
    """The classes of those models that store them."""
    known = list(dict.fromkeys(schema.classes for schema in schemas if schema.classes))
    if len(known) > 1:
        raise ValueError(
            f"models must have the same classes in the same order to be combined, got "
            f"{' and '.join(str(list(classes)) for classes in known)}; train them on the same labels."
        )
    return known[0] if known else ()


def same_or_none(values: Sequence[Any]) -> Any:
    """The value that all have, None where they differ; by text, because NaN does not equal itself."""
    return values[0] if len(set(map(repr, values))) == 1 else None


def _widest(features: Sequence[Feature]) -> Feature:
    """The feature whose categories hold those of all others."""
    widest = max(features, key=lambda feature: feature.n_categories)
    known = set(widest.encoder.labels or ())
    for feature in features:
        if feature.is_category != widest.is_category or not known >= set(feature.encoder.labels or ()):
            kinds = " and ".join(_kind(option) for option in (widest, feature))
            raise ValueError(
                f"feature {feature.name!r} must have the same kind and categories to be combined, got {kinds}; train "
                "the models on the same columns."
            )
    readings = dict.fromkeys(_reading(feature) for feature in features)
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


def _kind(feature: Feature) -> str:
    return f"the categories {list(feature.encoder.labels or ())}" if feature.is_category else "numbers"


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
        return IntervalAxis(feature.name, missing_bin, bounds, feature.encoder.date_unit), maps
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
        unknown = [label for label in labels if label not in positions]
        raise ValueError(
            f"feature {axis.name!r} must have the same categories to be combined, got {unknown} in one model only; "
            "train the models on the same columns."
        )
    return old


def first_unresolved(known: Grid, wanted: Grid) -> str | None:
    """Name of a feature of which some bins of one grid lie in several bins of another; None where none does."""
    pairs = zip(known.axes, wanted.axes, strict=True)
    return next((ours.name for ours, theirs in pairs if bins_within(ours, theirs) is None), None)


def bins_within(fine: Axis, coarse: Axis) -> Ints | None:
    """The bin of one axis that contains each bin of another, -1 where it has none; None where some bin is divided."""
    if not fine.is_ordered and getattr(fine, "categories", ()) != getattr(coarse, "categories", ()):
        return None
    probes = _probes(fine, coarse)
    pairs = np.unique(np.stack([fine.index(probes), coarse.index(probes)]), axis=1)
    if len(np.unique(pairs[0])) < pairs.shape[1]:
        return None
    places = np.full(fine.size, -1, dtype=np.int64)
    places[pairs[0]] = pairs[1]
    return places


def _probes(first: Axis, second: Axis) -> Floats:
    """Encoded values that fall in all bins of two axes of a feature, and in all that these have in common."""
    missing = [np.nan] * (min(first.missing_bin, second.missing_bin) >= 0)
    if not first.is_ordered:
        n_codes = first.n_regular + (min(first.unseen, second.unseen) >= 0)
        return np.array([*range(n_codes), *missing], dtype=np.float64)
    bounds = np.concatenate([first.thresholds, second.thresholds])
    return np.concatenate([bounds, np.nextafter(bounds, np.inf), [-np.inf, np.inf], missing])
