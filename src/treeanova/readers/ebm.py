"""EBMs: the Effects of InterpretML's ExplainableBoosting* models, which are additive already.

Facts relied on, all seen with interpret-core 0.7.8:

- A term of order d indexes its tensor with ``bins_[feature][min(d, len(bins_[feature])) - 1]``, so the main effect and
  the interactions of a feature have different bins. Bin 0 is for missing values, the last for what cannot be read.
- Continuous: bin = number of cuts <= x, plus 1, on float64. Text is parsed as Python's float() does. Text that is no
  number reaches the last bin, which the axis here lacks: such text raises TypeError.
- Nominal and ordinal: categories are compared as text, and a dict gives the bin of each. Floats lose their ".0";
  booleans are "1" and "0", but "True" and "False" among Python ints or text; "" is a category; unknown text goes to the
  last bin. How dates are spelled depends on the container, so they raise TypeError.
- Columns of features in no term are not read at all.

All terms of a feature are put on one axis, whose bins are what some term tells apart, bit by bit.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats, Ints, Key
from treeanova.data.features import Encoder, Feature, Numeric, Schema, distinct, is_missing
from treeanova.errors import UnsupportedModelError
from treeanova.model.axes import Axis, CategoryAxis, IntervalAxis
from treeanova.model.effects import Effects
from treeanova.model.grid import Grid
from treeanova.readers import versions

_LINKS = {"identity": "identity", "log": "log", "logit": "logit", "mlogit": "softmax", "vlogit": "logit"}
_NEEDED = ("bins_", "feature_names_in_", "feature_types_in_", "intercept_", "link_", "term_features_", "term_scores_")
_MOST_CELLS = 1 << 28

# Columns that hold nothing else are turned into text as they are, Python's bool (an int) included.
_AS_TEXT = (str, bytes, int, np.integer, np.datetime64, np.timedelta64)
_DATES = (dt.date, dt.time, dt.timedelta, np.datetime64, np.timedelta64)


@dataclasses.dataclass(frozen=True, eq=False)
class _Numbers(Numeric):
    """A number, or text that spells one."""

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """The numbers, NaN where missing."""
        _check_kind(column, name)
        if column.dtype.kind != "O":
            return super().encode(column, name)
        known = np.array([not is_missing(value) for value in column], dtype=bool)
        values = column[known]
        if any(isinstance(value, (str, bytes)) for value in values):
            values = values.astype(str)  # as EBM does: True becomes a word that is no number
        result = np.full(len(column), np.nan)
        result[known] = super().encode(values, name)
        return result


@dataclasses.dataclass(frozen=True)
class _Texts(Encoder):
    """A category, known by its text."""

    names: tuple[str, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The texts."""
        return self.names

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Positions of the texts, n_categories where unseen, NaN where missing."""
        _check_kind(column, name)
        positions = {text: float(code) for code, text in enumerate(self.names)}
        texts, inverse = _texts(column, name)
        codes = [np.nan if text is None else positions.get(text, float(len(self.names))) for text in texts]
        return np.array(codes, dtype=np.float64)[inverse]


@dataclasses.dataclass(frozen=True)
class _Unread(Encoder):
    """A column of no consequence, whatever it holds."""

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:  # noqa: ARG002
        """Zeros."""
        return np.zeros(len(column))


def _check_kind(column: npt.NDArray[Any], name: str) -> None:
    if column.dtype.kind not in "biufOSU":
        raise TypeError(f"column {name!r} must hold numbers or text, got {column.dtype}; convert it as for training.")


def _texts(column: npt.NDArray[Any], name: str) -> tuple[list[str | None], Ints]:
    """Distinct texts of a column (None for missing), and the position of each row's text among them."""
    if column.dtype.kind != "O":
        values, inverse = distinct(column)
        return [_text(value, name) for value in values], inverse
    types = {type(value) for value in column if not is_missing(value)}
    only_bools = all(issubclass(kind, (bool, np.bool_)) for kind in types)
    words = not only_bools and all(issubclass(kind, _AS_TEXT) for kind in types)
    # The type belongs to the key: True == 1, but their texts may differ.
    texts: dict[tuple[type, object], str | None] = {}
    positions: dict[tuple[type, object], int] = {}
    inverse = np.empty(len(column), dtype=np.int64)
    for row, value in enumerate(column):
        key = (type(value), None if is_missing(value) else value)
        if key not in positions:
            positions[key] = len(positions)
            texts[key] = _text(value, name, words=words)
        inverse[row] = positions[key]
    return list(texts.values()), inverse


def _text(value: Any, name: str, *, words: bool = False) -> str | None:
    """The text that EBM compares; `words` tells whether booleans are "True" and "False"."""
    if is_missing(value):
        return None
    if isinstance(value, (float, np.floating)):
        return repr(float(value) + 0.0).removesuffix(".0")
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)) if words else str(int(value))
    if isinstance(value, _DATES):
        raise TypeError(f"column {name!r} must hold numbers or text, got {value!r}; convert it as for training.")
    text = value.decode("ascii") if isinstance(value, bytes) else str(value)
    return text.rstrip("\0")  # as numpy's fixed-width text does


def read(model: Any) -> Effects:
    """The model's terms on one grid; their sum is the model's score for every row.

    Covers ExplainableBoostingRegressor and -Classifier and their differentially private kin, also merged or edited.
    Text that is no number in a continuous feature is refused at prediction (TypeError).
    """
    _check_model(model)
    return versions.read_live(
        "interpret", lambda: _effects(model), lambda found: functools.partial(versions.estimator_score, model, found)
    )


def _effects(model: Any) -> Effects:
    intercept = np.array(model.intercept_, dtype=np.float64, ndmin=1)
    tensors = [_tensor(model, k, len(intercept)) for k in range(len(model.term_features_))]
    if not all(np.isfinite(values).all() for values in [intercept, *tensors]):
        raise UnsupportedModelError(
            "the EBM's scores must be finite, got NaN or infinity (one class only?); train it on two classes or more."
        )
    names, named = _names(model)
    read_features = [_feature(model, j, name, tensors) for j, name in enumerate(names)]
    outputs = ("score",) if len(intercept) == 1 else tuple(str(label) for label in model.classes_)
    features = tuple(feature for feature, _, _ in read_features)
    schema = Schema(features, outputs, link=_LINKS.get(model.link_, "other"), named=named)
    grid = Grid(schema, tuple(axis for _, axis, _ in read_features))
    return Effects(grid, intercept, _terms(model.term_features_, tensors, [places for _, _, places in read_features]))


def _check_model(model: Any) -> None:
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
            f"`model` must have what interpret 0.7 gives it, got a {name} without {', '.join(absent)}; train it again."
        )


def _names(model: Any) -> tuple[Sequence[str], bool]:
    """Names of the features, and whether they are the user's: for data without names, EBM makes them up."""
    names = [str(name) for name in model.feature_names_in_]
    if names == [f"feature_{j:04}" for j in range(len(names))]:
        return [f"x{j}" for j in range(len(names))], False
    return names, True


def _bins(model: Any, feature: int, order: int) -> Any:
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


def _bad_bins(feature: int, found: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"bins_[{feature}] must hold bins for the feature's terms, got {found}; undo the edit."
    )


def _size(bins: Any) -> int:
    """Length of a tensor's axis: missing, the values, unreadable or unseen."""
    return max(bins.values(), default=0) + 2 if isinstance(bins, Mapping) else len(bins) + 3


def _tensor(model: Any, k: int, n_outputs: int) -> Floats:
    """Scores of the k-th term, an axis per feature as the term lists them, then one of outputs."""
    features = model.term_features_[k]
    sizes = [_size(_bins(model, j, len(features))) for j in features]
    shape = tuple(sizes) if n_outputs == 1 else (*sizes, n_outputs)
    scores = np.asarray(model.term_scores_[k], dtype=np.float64)
    if len(set(features)) < len(features) or scores.shape != shape:
        raise UnsupportedModelError(
            f"term_scores_[{k}] must have shape {shape}, one axis per feature, got {scores.shape}; undo the edit."
        )
    return scores.reshape(*sizes, n_outputs)


def _feature(model: Any, j: int, name: str, tensors: Sequence[Floats]) -> tuple[Feature, Axis, dict[int, Ints]]:
    """The feature, its axis, and for each of its terms the tensor's index at every bin of the axis."""
    terms = {k: tuple(features) for k, features in enumerate(model.term_features_) if j in features}
    if not terms:
        return Feature(name, _Unread()), IntervalAxis(name, 0, np.empty(0)), {}
    slices = [_equal_slices(tensors[k], features.index(j)) for k, features in terms.items()]
    bins = [_bins(model, j, len(features)) for features in terms.values()]
    axis: Axis
    if _is_continuous(model, j):
        cuts = np.unique(np.concatenate(bins))
        fine = [_interval_index(cuts, own) for own in bins]
        encoder: Encoder = _Numbers()
        axis, kept = _interval_axis(name, cuts, _ways(slices, fine))
    else:
        labels = _labels(bins)
        fine = [_category_index(labels, own) for own in bins]
        encoder = _Texts(labels)
        axis, kept = _category_axis(name, labels, _ways(slices, fine))
    return Feature(name, encoder), axis, {k: index[kept] for k, index in zip(terms, fine, strict=True)}


def _equal_slices(tensor: Floats, axis: int) -> Ints:
    """A number per bin of an axis, the same for bins with the same bits throughout."""
    numbers: dict[bytes, int] = {}
    rows = np.moveaxis(tensor, axis, 0)
    return np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in rows], dtype=np.int64)


def _ways(slices: Sequence[Ints], fine: Sequence[Ints]) -> Ints:
    """What the terms make of each fine bin, shape (n_fine_bins, n_terms)."""
    return np.column_stack([own[index] for own, index in zip(slices, fine, strict=True)])


def _interval_index(cuts: Floats, own: Floats) -> Ints:
    """A tensor's index at each interval between the cuts of all terms, then at missing."""
    starts = np.append(-np.inf, cuts)
    return np.append(np.searchsorted(own, starts, side="right") + 1, 0).astype(np.int64)


def _interval_axis(name: str, cuts: Floats, ways: Ints) -> tuple[IntervalAxis, Ints]:
    """The axis without cuts that no term notices, and the fine bin that stands for each of its bins."""
    missing = len(cuts) + 1
    noticed = (ways[1:missing] != ways[: missing - 1]).any(axis=1)
    kept = np.flatnonzero(np.append(True, noticed))
    missing_bin, kept = _placed(ways, kept, missing)
    return IntervalAxis(name, missing_bin, np.nextafter(cuts[noticed], -np.inf)), kept


def _labels(bins: Sequence[Mapping[str, int]]) -> tuple[str, ...]:
    """Categories of all terms, in the order of the first term's bins; those it lacks come last."""
    labels = dict.fromkeys(label for own in bins for label in own)
    return tuple(sorted(labels, key=lambda label: bins[0].get(label, np.inf)))


def _category_index(labels: Sequence[str], own: Mapping[str, int]) -> Ints:
    """A tensor's index at each category, then at unseen and at missing."""
    unseen = _size(own) - 1
    return np.array([*(own.get(label, unseen) for label in labels), unseen, 0], dtype=np.int64)


def _category_axis(name: str, labels: tuple[str, ...], ways: Ints) -> tuple[CategoryAxis, Ints]:
    """The axis, and the fine bin that stands for each of its bins."""
    unseen_bin, kept = _placed(ways, np.arange(len(labels)), len(labels))
    missing_bin, kept = _placed(ways, kept, len(labels) + 1)
    return CategoryAxis(name, missing_bin, labels, unseen_bin), kept


def _placed(ways: Ints, kept: Ints, extra: int) -> tuple[int, Ints]:
    """The first kept bin that no term tells from the extra one, or else the extra one added as the last."""
    equal = np.flatnonzero((ways[kept] == ways[extra]).all(axis=1))
    return (int(equal[0]), kept) if len(equal) else (len(kept), np.append(kept, extra))


def _terms(
    term_features: Sequence[Key], tensors: Sequence[Floats], places: Sequence[Mapping[int, Ints]]
) -> dict[Key, Floats]:
    """All terms on the bins of the axes; terms of the same features are added up."""
    indexes = [[places[j][k] for j in features] for k, features in enumerate(term_features)]
    _check_cells(indexes, tensors)
    terms: dict[Key, Floats] = {}
    for features, tensor, index in zip(term_features, tensors, indexes, strict=True):
        order = np.argsort(features)
        values = _at(tensor, index).transpose([*order, len(order)])
        key = tuple(int(features[position]) for position in order)
        terms[key] = terms[key] + values if key in terms else np.ascontiguousarray(values)
    return terms


def _at(tensor: Floats, indexes: Sequence[Ints]) -> Floats:
    """The tensor at an index per axis; one axis after the other is five times as fast as np.ix_."""
    for axis, index in enumerate(indexes):
        tensor = tensor.take(index, axis=axis)
    return tensor


def _check_cells(indexes: Sequence[Sequence[Ints]], tensors: Sequence[Floats]) -> None:
    """Refuse what would not fit into memory: an interaction gets the many bins of its features' main effects."""
    n_cells = sum(math.prod(map(len, index)) * tensor.shape[-1] for index, tensor in zip(indexes, tensors, strict=True))
    if n_cells > _MOST_CELLS:
        raise UnsupportedModelError(
            f"the EBM's terms must have at most {_MOST_CELLS:,} cells on the bins that they share, got {n_cells:,}; "
            "train it with smaller max_bins or fewer interactions."
        )
