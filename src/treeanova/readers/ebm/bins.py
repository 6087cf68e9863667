"""The bins of an EBM's features: an axis for each, and the coarser bins of the terms of each order."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Ints
from treeanova.data.features import Encoder, Feature
from treeanova.errors import UnsupportedModelError
from treeanova.model.axes import Axis, CategoryAxis, IntervalAxis
from treeanova.model.binning import Binning, binning_by, unmerged
from treeanova.readers.ebm.columns import IgnoredColumn, NumberOrText, TextCategory


@dataclasses.dataclass(frozen=True)
class BinnedFeature:
    """A feature with its axis, and where its terms have their values.

    Attributes
    ----------
    feature
        Name and encoder.
    axis
        The bins that some term distinguishes.
    tensor_index
        For each term, the index into its tensor at every bin of the axis.
    binnings
        For each order, the bins of the axis that terms of this order distinguish.
    """

    feature: Feature
    axis: Axis
    tensor_index: Mapping[int, Ints]
    binnings: Mapping[int, Binning]

    def coarse_index(self, term: int, order: int) -> Ints:
        """The index into a term's tensor at every bin of its order."""
        first = np.unique(self.binnings[order].bins, return_index=True)[1]
        return self.tensor_index[term][first]


def bins_of(model: Any, feature: int, order: int) -> Any:
    """Bins of a feature in terms of an order: ascending cuts, or a dict of categories and their bins."""
    levels = model.bins_[feature] if 0 <= feature < len(model.bins_) else []
    if not levels:
        raise _bad_bins(feature, "none")
    bins = levels[min(order, len(levels)) - 1]
    if isinstance(bins, Mapping) == _is_continuous(model, feature):
        raise _bad_bins(feature, "those of another type")
    if isinstance(bins, Mapping):
        if min(bins.values(), default=1) < 1:
            raise _bad_bins(feature, "categories in bins below 1")
        return bins
    cuts = np.asarray(bins, dtype=np.float64)
    if cuts.ndim != 1 or not np.isfinite(cuts).all() or not (np.diff(cuts) > 0).all():
        raise _bad_bins(feature, "cuts that do not ascend")
    return cuts


def _is_continuous(model: Any, feature: int) -> bool:
    return bool(model.feature_types_in_[feature] == "continuous")


def _bad_bins(feature: int, problem: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"bins_[{feature}] must hold bins for the feature's terms, got {problem}; undo the edit."
    )


def n_places(bins: Any) -> int:
    """Length of a tensor's axis: missing, the values, unreadable or unseen."""
    return max(bins.values(), default=0) + 2 if isinstance(bins, Mapping) else len(bins) + 3


def bin_feature(model: Any, j: int, name: str, tensors: Sequence[Floats]) -> BinnedFeature:
    """The axis of a feature, and the bins of its terms."""
    terms = {k: tuple(features) for k, features in enumerate(model.term_features_) if j in features}
    if not terms:
        return BinnedFeature(Feature(name, IgnoredColumn()), IntervalAxis(name, 0, np.empty(0)), {}, {})
    slices = [_equal_slices(tensors[k], features.index(j)) for k, features in terms.items()]
    orders = np.array([len(features) for features in terms.values()])
    bins = [bins_of(model, j, order) for order in orders]
    encoder: Encoder
    axis: Axis
    if _is_continuous(model, j):
        encoder, cuts = NumberOrText(), np.unique(np.concatenate(bins))
        fine = [_interval_index(cuts, term_cuts) for term_cuts in bins]
        slice_numbers = _slice_numbers(slices, fine)
        axis, kept = _interval_axis(name, cuts, slice_numbers)
    else:
        labels = _labels(bins)
        encoder = TextCategory(labels)
        fine = [_category_index(labels, term_bins) for term_bins in bins]
        slice_numbers = _slice_numbers(slices, fine)
        axis, kept = _category_axis(name, labels, slice_numbers)
    tensor_index = {k: index[kept] for k, index in zip(terms, fine, strict=True)}
    by_order = {int(k): _order_binning(axis, slice_numbers[kept][:, orders == k]) for k in np.unique(orders)}
    return BinnedFeature(Feature(name, encoder), axis, tensor_index, by_order)


def _equal_slices(tensor: Floats, axis: int) -> Ints:
    """A number per bin of an axis, the same for bins whose slices have the same bits."""
    numbers: dict[bytes, int] = {}
    rows = np.moveaxis(tensor, axis, 0)
    return np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in rows], dtype=np.int64)


def _slice_numbers(slices: Sequence[Ints], fine: Sequence[Ints]) -> Ints:
    """The number of each term's slice at each fine bin, shape (n_fine_bins, n_terms)."""
    return np.column_stack([numbers[index] for numbers, index in zip(slices, fine, strict=True)])


def _order_binning(axis: Axis, slice_numbers: Ints) -> Binning:
    """The bins of an axis that some of the given terms distinguish; categories and missing values stay apart."""
    if not axis.is_ordered:
        return unmerged(axis.size)
    regular = slice_numbers[: axis.n_regular]
    differs = (regular[1:] != regular[:-1]).any(axis=1)
    coarse = np.append(0, np.cumsum(differs))
    return binning_by(np.append(coarse, coarse[-1] + 1 + np.arange(axis.n_extra)))


def _interval_index(cuts: Floats, term_cuts: Floats) -> Ints:
    """A tensor's index at each interval between the cuts of all terms, then at missing."""
    starts = np.append(-np.inf, cuts)
    return np.append(np.searchsorted(term_cuts, starts, side="right") + 1, 0).astype(np.int64)


def _interval_axis(name: str, cuts: Floats, slice_numbers: Ints) -> tuple[IntervalAxis, Ints]:
    """The axis without cuts that no term uses, and a fine bin in each of its bins."""
    missing = len(cuts) + 1
    used = (slice_numbers[1:missing] != slice_numbers[: missing - 1]).any(axis=1)
    kept = np.flatnonzero(np.append(True, used))
    missing_bin, kept = _place_extra(slice_numbers, kept, missing)
    return IntervalAxis(name, missing_bin, np.nextafter(cuts[used], -np.inf)), kept


def _labels(bins: Sequence[Mapping[str, int]]) -> tuple[str, ...]:
    """Categories of all terms, in the order of the first term's bins; those that it lacks come last."""
    labels = dict.fromkeys(label for term_bins in bins for label in term_bins)
    return tuple(sorted(labels, key=lambda label: bins[0].get(label, np.inf)))


def _category_index(labels: Sequence[str], term_bins: Mapping[str, int]) -> Ints:
    """A tensor's index at each category, then at unseen and at missing."""
    unseen = n_places(term_bins) - 1
    return np.array([*(term_bins.get(label, unseen) for label in labels), unseen, 0], dtype=np.int64)


def _category_axis(name: str, labels: tuple[str, ...], slice_numbers: Ints) -> tuple[CategoryAxis, Ints]:
    """The axis, and a fine bin in each of its bins."""
    unseen_bin, kept = _place_extra(slice_numbers, np.arange(len(labels)), len(labels))
    missing_bin, kept = _place_extra(slice_numbers, kept, len(labels) + 1)
    return CategoryAxis(name, missing_bin, labels, unseen_bin), kept


def _place_extra(slice_numbers: Ints, kept: Ints, extra: int) -> tuple[int, Ints]:
    """The first kept bin that no term distinguishes from the extra one, else the extra one appended as the last."""
    equal = np.flatnonzero((slice_numbers[kept] == slice_numbers[extra]).all(axis=1))
    return (int(equal[0]), kept) if len(equal) else (len(kept), np.append(kept, extra))
