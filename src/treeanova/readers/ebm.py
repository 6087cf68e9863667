"""EBMs: the Effects of InterpretML's ExplainableBoosting* models, which are additive already.

The facts that the reader relies on, all measured with interpret-core 0.7.8:

- A term of order d indexes its tensor with ``bins_[feature][min(d, len(bins_[feature])) - 1]``, so the main effect and
  the interactions of a feature have different bins. Bin 0 is for missing values, the last for unreadable ones.
- Continuous: bin = number of cuts <= x, plus 1, on float64. Text is parsed as Python's float() does. Text that does not
  spell a number reaches the last bin, which the axis here lacks: such text raises TypeError.
- Nominal and ordinal: categories are compared as text, and a dict gives the bin of each. Floats lose their ".0";
  booleans are "1" and "0", but "True" and "False" among Python ints or text; "" is a category; unknown text goes to the
  last bin. How dates are spelled depends on the container, so they raise TypeError.
- Columns of features in no term are not read at all.

A feature has one axis, whose bins are those that some term distinguishes, bit by bit. A term keeps the bins of its
order: a pair of 64 × 64 bins stays so, although main effects have a thousand.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Ints, Key
from treeanova.data.features import Encoder, Feature, IgnoredColumn, Labels, Numeric, Schema
from treeanova.errors import UnsupportedModelError
from treeanova.model.axes import Axis, CategoryAxis, IntervalAxis
from treeanova.model.effects import Effects, take_bins
from treeanova.model.grid import Binning, Grid, binning_by, unmerged
from treeanova.readers import checks
from treeanova.readers.outputs import objective_text, output_names, plain_labels, probability_objective

_LINKS = {"identity": "identity", "log": "log", "logit": "logit", "mlogit": "softmax", "vlogit": "logit"}
# Our words, and the default of the parameter if it has one.
_OBJECTIVES: dict[str, tuple[str, float | None]] = {
    "rmse": ("squared", None), "poisson_deviance": ("poisson", None), "gamma_deviance": ("gamma", None),
    "tweedie_deviance": ("tweedie", 1.5), "pseudo_huber": ("pseudo_huber", 1.0),
}  # fmt: skip
_NEEDED = ("bins_", "feature_names_in_", "feature_types_in_", "intercept_", "link_", "term_features_", "term_scores_")
_MAX_CELLS = 1 << 28


@dataclasses.dataclass(frozen=True)
class BinnedFeature:
    """A feature, its axis (the bins that some term distinguishes), and where its terms have their values."""

    feature: Feature
    axis: Axis
    tensor_index: Mapping[int, Ints]  # for each term the index into its tensor at every bin of the axis
    binnings: Mapping[int, Binning]  # for each order the bins that terms of this order distinguish


def bins_of(model: Any, feature: int, order: int) -> Any:
    """Return the entry of `bins_` for a feature in terms of an order: cuts, or a dict of categories and their bins."""
    levels = model.bins_[feature] if 0 <= feature < len(model.bins_) else []
    if not levels:
        raise _bad_bins_error(feature, "none")
    bins = levels[min(order, len(levels)) - 1]
    if isinstance(bins, Mapping) == _is_continuous(model, feature):
        raise _bad_bins_error(feature, "those of another type")
    if isinstance(bins, Mapping):
        if min(bins.values(), default=1) < 1:
            raise _bad_bins_error(feature, "categories in bins below 1")
        return bins
    cuts = np.asarray(bins, dtype=np.float64)
    if cuts.ndim != 1 or not np.isfinite(cuts).all() or not (np.diff(cuts) > 0).all():
        raise _bad_bins_error(feature, "cuts that do not ascend")
    return cuts


def _is_continuous(model: Any, feature: int) -> bool:
    return bool(model.feature_types_in_[feature] == "continuous")


def _bad_bins_error(feature: int, problem: str) -> UnsupportedModelError:  # for an EBM that was edited
    return UnsupportedModelError(
        f"bins_[{feature}] must hold bins for the feature's terms, got {problem}; undo the edit."
    )


def n_tensor_bins(bins: Any) -> int:
    """Return the length of a tensor's axis: an entry of `bins_`, one bin for missing values, one for unseen ones."""
    return max(bins.values(), default=0) + 2 if isinstance(bins, Mapping) else len(bins) + 3


def bin_feature(model: Any, j: int, name: str, tensors: Sequence[Floats]) -> BinnedFeature:
    """Return feature j with all bins that its terms distinguish; `tensors` are those of all terms of the model."""
    terms = {term: tuple(features) for term, features in enumerate(model.term_features_) if j in features}
    if not terms:
        return BinnedFeature(Feature(name, IgnoredColumn()), IntervalAxis(name, 0, np.empty(0)), {}, {})
    # All lists below have an entry per term of the feature.
    slices = [_slice_numbers(tensors[term], features.index(j)) for term, features in terms.items()]
    orders = np.array([len(features) for features in terms.values()])
    bins = [bins_of(model, j, order) for order in orders]
    encoder: Encoder
    axis: Axis
    if _is_continuous(model, j):
        encoder, cuts = Numeric(cast="text"), np.unique(np.concatenate(bins))
        starts = np.append(-np.inf, cuts)
        # A tensor's index at each interval between the cuts of all terms, then at missing.
        indexes = [np.append(np.searchsorted(term_cuts, starts, side="right") + 1, 0) for term_cuts in bins]
    else:
        # In the order of the first term's bins; categories that it lacks come last.
        unsorted = dict.fromkeys(label for term_bins in bins for label in term_bins)
        labels = tuple(sorted(unsorted, key=lambda label: bins[0].get(label, np.inf)))
        encoder = Labels(labels, "short text")
        unseen = [n_tensor_bins(term_bins) - 1 for term_bins in bins]
        # A tensor's index of each category, then of an unseen one, then at missing.
        indexes = [
            np.array([*(term_bins.get(label, last) for label in labels), last, 0], dtype=np.int64)
            for term_bins, last in zip(bins, unseen, strict=True)
        ]
    # A row for each bin of these indexes; `fine_bins` are the rows that get a bin of the axis.
    slice_numbers = np.column_stack([numbers[index] for numbers, index in zip(slices, indexes, strict=True)])
    if isinstance(encoder, Labels):
        unseen_bin, fine_bins = _bin_of_extra(slice_numbers, np.arange(len(labels)), len(labels))
        missing_bin, fine_bins = _bin_of_extra(slice_numbers, fine_bins, len(labels) + 1)
        axis = CategoryAxis(name, missing_bin, labels, unseen_bin)
    else:
        is_used = (slice_numbers[1:-1] != slice_numbers[:-2]).any(axis=1)  # of each cut; the last row is of missing
        missing_bin, fine_bins = _bin_of_extra(slice_numbers, np.flatnonzero(np.append(True, is_used)), len(cuts) + 1)
        axis = IntervalAxis(name, missing_bin, np.nextafter(cuts[is_used], -np.inf))
    tensor_index = {term: index[fine_bins] for term, index in zip(terms, indexes, strict=True)}
    by_order = {int(k): _order_binning(axis, slice_numbers[fine_bins][:, orders == k]) for k in np.unique(orders)}
    return BinnedFeature(Feature(name, encoder), axis, tensor_index, by_order)


def _slice_numbers(tensor: Floats, axis: int) -> Ints:
    """Return a number for each bin of a tensor's axis; bins whose slices have the same bits share a number."""
    numbers: dict[bytes, int] = {}
    rows = np.moveaxis(tensor, axis, 0)
    return np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in rows], dtype=np.int64)


def _order_binning(axis: Axis, slice_numbers: Ints) -> Binning:
    """Merge neighbouring bins that no term of an order distinguishes; `slice_numbers` has shape (bins, terms)."""
    if not axis.is_ordered:
        return unmerged(axis.size)
    regular = slice_numbers[: axis.n_regular]
    differs = (regular[1:] != regular[:-1]).any(axis=1)
    coarse = np.append(0, np.cumsum(differs))
    return binning_by(np.append(coarse, coarse[-1] + 1 + np.arange(axis.n_extra)))


def _bin_of_extra(slice_numbers: Ints, fine_bins: Ints, extra: int) -> tuple[int, Ints]:
    """Find a bin for missing or unseen values, row `extra` of `slice_numbers`; return its position and all bins."""
    # It shares a bin that no term distinguishes from it; `fine_bins` are the rows of the bins so far.
    equal = np.flatnonzero((slice_numbers[fine_bins] == slice_numbers[extra]).all(axis=1))
    return (int(equal[0]), fine_bins) if len(equal) else (len(fine_bins), np.append(fine_bins, extra))


def read(model: Any) -> Effects:
    """Read a fitted EBM; the sum of the terms is the model's score for every row."""
    # Covers ExplainableBoostingRegressor and -Classifier and their differentially private variants, merged or edited.
    _check_model(model)
    return checks.read_estimator("interpret", model, _read_effects)


def _read_effects(model: Any) -> Effects:
    """Read a fitted EBM whose attributes have been checked; each term is a tensor on the bins of its order."""
    intercept = np.array(model.intercept_, dtype=np.float64, ndmin=1)
    tensors = [_checked_tensor(model, k, len(intercept)) for k in range(len(model.term_features_))]
    for values in (intercept, *tensors):
        if not np.isfinite(values).all():
            raise UnsupportedModelError(
                f"the EBM's scores must be finite, got {values[~np.isfinite(values)][0]} (only one class?); train it "
                "on two classes or more."
            )
    names, named = _names_and_origin(model)
    features = [bin_feature(model, j, name, tensors) for j, name in enumerate(names)]
    grid = Grid(_schema(model, features, len(intercept), named=named), tuple(feature.axis for feature in features))
    terms, binnings = _terms_and_binnings(model.term_features_, tensors, features)
    return Effects(grid, intercept, terms, binnings)


def _check_model(model: Any) -> None:  # UnsupportedModelError unless it is a fitted EBM with all attributes
    name = type(model).__qualname__
    if not any(cls.__name__ == "EBMModel" for cls in type(model).__mro__):
        raise UnsupportedModelError(
            f"`model` must be one of InterpretML's ExplainableBoosting models, got {name}; only they are read."
        )
    if not getattr(model, "has_fitted_", False):
        raise UnsupportedModelError(f"`model` must be fitted, got an unfitted {name}; fit it first.")
    absent = [attribute for attribute in _NEEDED if not hasattr(model, attribute)]
    if absent:
        raise UnsupportedModelError(
            f"`model` must have the attributes of interpret 0.7, got a {name} without {', '.join(absent)}; train it "
            "again."
        )


def _schema(model: Any, features: Sequence[BinnedFeature], n_outputs: int, *, named: bool) -> Schema:
    """Return the schema of an EBM; `named` if the names of its features come from the data."""
    classes = plain_labels(getattr(model, "classes_", ()))
    link = _LINKS.get(model.link_, "other")
    stated = getattr(model, "objective", None)  # models that merge_ebms made have none
    objective = probability_objective(link) if stated is None else _objective(str(stated), link)
    outputs, all_features = output_names(n_outputs, classes), tuple(feature.feature for feature in features)
    return Schema(all_features, outputs, link, named=named, classes=classes, objective=objective)


def _objective(stated: str, link: str) -> str:
    """Translate "name" or "name:parameter=value" to the words of `validate(loss=...)`."""
    name, _, parameter = stated.partition(":")
    if name == "log_loss":
        return "multiclass" if link == "softmax" else "log"
    words, default = _OBJECTIVES.get(name, (stated, None))
    if default is None:
        return words
    return objective_text(words, float(parameter.partition("=")[2] or default))


def _names_and_origin(model: Any) -> tuple[Sequence[str], bool]:
    """Return the features' names, and whether they come from the data: for data without names, EBM invents them."""
    names = [str(name) for name in model.feature_names_in_]
    if names == [f"feature_{j:04}" for j in range(len(names))]:
        return [f"x{j}" for j in range(len(names))], False
    return names, True


def _checked_tensor(model: Any, term: int, n_outputs: int) -> Floats:
    """Return the scores of a term, shape (bins of each feature, outputs); UnsupportedModelError if they do not fit."""
    features = model.term_features_[term]
    sizes = [n_tensor_bins(bins_of(model, j, len(features))) for j in features]
    shape = tuple(sizes) if n_outputs == 1 else (*sizes, n_outputs)
    scores = np.asarray(model.term_scores_[term], dtype=np.float64)
    if len(set(features)) < len(features) or scores.shape != shape:
        raise UnsupportedModelError(
            f"term_scores_[{term}] must have shape {shape}, one axis per feature, got {scores.shape}; undo the edit."
        )
    return scores.reshape(*sizes, n_outputs)


def _terms_and_binnings(
    term_features: Sequence[Key], tensors: Sequence[Floats], features: Sequence[BinnedFeature]
) -> tuple[dict[Key, Floats], dict[Key, tuple[Binning, ...]]]:
    """Return tables and binnings by key; bins that no term of the key's order distinguishes are merged."""
    # For each term and feature, the tensor's index at the first fine bin of each of the term's bins.
    indexes: list[list[Ints]] = [
        [features[j].tensor_index[k][np.unique(features[j].binnings[len(key)].bins, return_index=True)[1]] for j in key]
        for k, key in enumerate(term_features)
    ]
    n_cells = sum(math.prod(map(len, index)) * tensor.shape[-1] for index, tensor in zip(indexes, tensors, strict=True))
    if n_cells > _MAX_CELLS:
        raise UnsupportedModelError(
            f"the EBM's terms must have at most {_MAX_CELLS:,} cells, got {n_cells:,}; train it with smaller max_bins "
            "or max_interaction_bins, or with fewer interactions."
        )
    terms: dict[Key, Floats] = {}
    for unsorted_key, tensor, index in zip(term_features, tensors, indexes, strict=True):
        order = np.argsort(unsorted_key)
        values = take_bins(tensor, index).transpose([*order, len(order)])
        key = tuple(int(unsorted_key[position]) for position in order)
        terms[key] = terms[key] + values if key in terms else np.ascontiguousarray(values)
    return terms, {key: tuple(features[j].binnings[len(key)] for j in key) for key in terms}
