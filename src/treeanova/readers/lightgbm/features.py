"""Which features of a LightGBM model are categories, and which labels they have."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Hashable, Sequence

import numpy as np

from treeanova.core.arrays import Ints
from treeanova.data.features import Encoder, Numeric
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.readers.checks import check_size, decimal_number, whole_number
from treeanova.readers.lightgbm.columns import ListedCodes, OrderedCategory, PandasCategory
from treeanova.readers.lightgbm.splits import Members, Splits
from treeanova.readers.lightgbm.text import ModelText

_MAX_CATEGORIES = 1 << 20


@dataclasses.dataclass(frozen=True)
class TrainingColumn:
    """What a model's text says about a feature in addition to its trees.

    `codes` are the categories that training kept, None for a numeric feature; `low` and `high` the range of training.
    """

    codes: tuple[int, ...] | None
    low: float = 0
    high: float = -1

    def may_hold(self, n_categories: int) -> bool:
        """Whether training can have seen the codes 0 .. n_categories - 1 here and no others."""
        whole = float(self.low).is_integer() and float(self.high).is_integer()
        return whole and self.low >= 0 and self.high < n_categories


def feature_names(text: ModelText) -> list[str]:
    """The names of the features."""
    names = text.header.get("feature_names", "").split(" ")
    n_features = whole_number(text.header.get("max_feature_idx", "")) + 1
    if len(names) != n_features or len(set(names)) < n_features:
        raise ModelFileError(f"`feature_names` must be {n_features} different names, got {len(names)}; file damaged?")
    return names


def encoders_of(text: ModelText, splits: Splits, members: Members, n_features: int) -> list[Encoder]:
    """An encoder per feature, by the kind of its splits; for a feature without splits, by the training parameters."""
    columns = _training_columns(text, n_features)
    labels = _pandas_labels(text, columns)
    in_sets = np.bincount(splits.feature[splits.is_category], minlength=n_features) > 0
    in_numbers = np.bincount(splits.feature[~splits.is_category], minlength=n_features) > 0
    both = np.flatnonzero(in_sets & in_numbers)
    if len(both):
        raise UnsupportedModelError(
            f"the model splits feature {both[0]} as a number in some trees and as a category in others (training was "
            "continued with other categorical features); train it in one go."
        )
    codes = _codes_by_feature(splits, members, n_features)
    is_category = [in_sets[j] or (column.codes is not None and not in_numbers[j]) for j, column in enumerate(columns)]
    return [
        _encoder(column, labels.get(j), codes[j], is_category=bool(is_category[j])) for j, column in enumerate(columns)
    ]


def _training_columns(text: ModelText, n_features: int) -> list[TrainingColumn]:
    """All features as training saw them."""
    infos = text.header.get("feature_infos", "").split(" ")
    if len(infos) != n_features:
        raise ModelFileError(f"`feature_infos` must have {n_features} entries, got {len(infos)}; file damaged?")
    declared = _declared_categories(text.tail_entry("[categorical_feature: ", "").rstrip("]"))
    return [_training_column(info, is_category=j in declared) for j, info in enumerate(infos)]


def _declared_categories(text: str) -> set[int]:
    """Positions of the features that the training parameters declare as categories."""
    return {int(token) for token in text.split(",") if token.strip().isdecimal()}


def _training_column(info: str, *, is_category: bool) -> TrainingColumn:
    if info.startswith("["):
        low, _, high = info.strip("[]").partition(":")
        return TrainingColumn(() if is_category else None, decimal_number(low), decimal_number(high))
    if info == "none":
        return TrainingColumn(() if is_category else None)
    codes = tuple(sorted({whole_number(token) for token in info.split(":")} - {-1}))  # -1 is the bin of missing values
    if codes and not 0 <= codes[0] <= codes[-1] < 1 << 31:
        raise ModelFileError(
            f"the model's categories must be codes of 31 bits, got {codes[0]} to {codes[-1]}; file damaged?"
        )
    return TrainingColumn(codes, 0, max(codes, default=-1))


def _pandas_labels(text: ModelText, columns: list[TrainingColumn]) -> dict[int, tuple[Hashable, ...]]:
    """Labels of the features that were category columns of pandas.

    The text lists labels in column order without names. As a rule these columns are the model's category features; if
    not, the lists are placed in order if there is only one way to do so, and the model is refused otherwise.
    """
    lists = json.loads(text.tail_entry("pandas_categorical:", "null")) or []
    if not (isinstance(lists, list) and all(map(_is_list_of_labels, lists))):
        raise ModelFileError(
            f"`pandas_categorical` must list labels of categories, got {str(lists)[:40]}; file damaged?"
        )
    labels: list[tuple[Hashable, ...]] = [tuple(one) for one in lists]
    categories = [j for j, column in enumerate(columns) if column.codes is not None]
    candidates = categories if len(labels) <= len(categories) else list(range(len(columns)))
    first = _place(labels, columns, candidates)
    last = _place(labels[::-1], columns, candidates[::-1])[::-1]
    if len(first) < len(labels) or first != last:
        raise UnsupportedModelError(
            f"the model was trained on a table with {len(labels)} category columns and does not tell which they are: "
            "some were ordered or not in categorical_feature=; train with unordered category columns, or with codes."
        )
    return dict(zip(first, labels, strict=True))


def _is_list_of_labels(labels: object) -> bool:
    if not (isinstance(labels, list) and all(isinstance(label, (str, int, float)) for label in labels)):
        return False
    return len(set(labels)) == len(labels)


def _place(labels: Sequence[Sequence[Hashable]], columns: list[TrainingColumn], candidates: Sequence[int]) -> list[int]:
    """The earliest candidates that can hold the lists of labels, in order; fewer than lists if some have no place.

    Earliest from the left and from the right enclose all placements, so that they agree only if there is just one.
    """
    placed: list[int] = []
    for j in candidates:
        if len(placed) < len(labels) and columns[j].may_hold(len(labels[len(placed)])):
            placed.append(j)
    return placed


def _codes_by_feature(splits: Splits, members: Members, n_features: int) -> list[Ints]:
    """The codes in the category sets of each feature."""
    keys = np.unique((splits.feature[members.split] << 32) + members.code)
    check_size("categories", len(keys), _MAX_CATEGORIES)
    return np.split(keys & 0xFFFFFFFF, np.searchsorted(keys >> 32, np.arange(1, n_features)))


def _encoder(column: TrainingColumn, labels: tuple[Hashable, ...] | None, codes: Ints, *, is_category: bool) -> Encoder:
    if labels is not None:
        if codes.max(initial=-1) >= len(labels):
            raise ModelFileError(
                f"the model's category sets must hold listed categories, got code {codes.max()} of {len(labels)}; "
                "file damaged?"
            )
        return PandasCategory(labels) if is_category else OrderedCategory(labels)
    return ListedCodes(tuple(sorted({*(column.codes or ()), *codes.tolist()}))) if is_category else Numeric()
