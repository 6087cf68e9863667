"""LightGBM models (Booster, its scikit-learn wrappers, text files) as a Forest.

All is read from LightGBM's own text: ``Booster.model_to_string()`` holds the trees up to the best iteration, as
``predict`` uses them, with the starting score and the learning rate in the leaf values, to the last digit. The facts:

* x with abs(x) <= float32(1e-35) counts as 0, then x goes left when x <= threshold, in float64.
* `decision_type` packs: bit 0 category split, bit 1 default left, bits 2-3 missing type. None: NaN is 0. Zero: NaN and
  0 go the default way. NaN: NaN goes the default way.
* At a category split the threshold is the number of a bit set; codes in it go left, all else (NaN, negative, unseen)
  right; codes are cut to integers, so that -0.5 is category 0.
* With ``average_output`` (random forest) `predict` gives the mean of the trees, raw_score=True their sum: we the mean.
* Category columns of pandas come as their codes; ``pandas_categorical`` lists the categories of each such column, in
  column order without names. Ordered ones (and those left out of ``categorical_feature=``) are split as numbers.
* Blanks in feature names became underscores when the model was trained; the schema has the names of the model.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import pathlib
import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.data.features import Encoder, Feature, IntegerCategory, Labels, Numeric, Schema
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.forest import NEAR_ZERO, Forest, assemble
from treeanova.readers import versions

_Fields = dict[str, str]

_READABLE_VERSIONS = {"v3", "v4"}
_LINKS = {
    **dict.fromkeys(["regression", "regression_l1", "huber", "fair", "quantile", "mape"], "identity"),
    **dict.fromkeys(["lambdarank", "rank_xendcg"], "identity"),
    **dict.fromkeys(["poisson", "gamma", "tweedie"], "log"),
    **dict.fromkeys(["binary", "cross_entropy"], "logit"),
    "multiclass": "softmax",
    "multiclassova": "logit",
}
_SEVERAL = {"multiclass", "multiclassova"}
# What is larger than this is refused before it is made: tables, members of category sets, categories, outputs.
_MOST_ENTRIES = 1 << 28
_MOST_MEMBERS = 1 << 24
_MOST_CATEGORIES = 1 << 20
_MOST_OUTPUTS = 100_000
_MISSING_AS_ZERO, _ZERO_IS_MISSING = 0, 1


def read(model: Any) -> Forest:
    """The forest of a fitted Booster, LGBMRegressor, LGBMClassifier or LGBMRanker."""
    booster = _booster(model)
    try:
        text = booster.model_to_string()
    except (TypeError, ValueError) as error:  # categories such as intervals, which LightGBM cannot write
        raise UnsupportedModelError(
            f"`model` must be one that LightGBM can save, got one it cannot ({error}); train on text categories."
        ) from error
    classes = getattr(model, "classes_", None)
    return versions.read_live(
        "lightgbm",
        lambda: _forest(_parts(text), classes),
        lambda forest: functools.partial(_score_of, booster, forest),
    )


def read_file(path: str | pathlib.Path) -> Forest:
    """The forest of a model saved by ``Booster.save_model``; LightGBM itself is not needed."""
    path = pathlib.Path(path)
    try:
        text = path.read_bytes().decode().replace("\r\n", "\n")
        return versions.read_stored(
            "lightgbm text",
            _version(text),
            lambda: _forest(_parts(text), None),
            lambda library, forest: _load(library, text, forest),
        )
    except (ModelFileError, UnsupportedModelError) as error:
        raise type(error)(f"{path.name}: {error}") from error
    except (ValueError, OverflowError, RecursionError) as error:
        raise ModelFileError(
            f"{path.name} must be a LightGBM text model, got one that cannot be parsed ({error}); file damaged?"
        ) from error


def _version(text: str) -> tuple[int, ...]:
    """The number of the text's format, from its first lines; empty where it has none."""
    found = re.match(r"tree\nversion=v(\d{1,9})\n", text)
    return (int(found[1]),) if found else ()


def _load(library: Any, text: str, forest: Forest) -> versions.Predict | None:
    """LightGBM's prediction for a model's text, None where it writes an earlier format itself."""
    booster = library.Booster(model_str=text)
    if _version(booster.model_to_string()) < _version(text):
        return None
    return functools.partial(_score_of, booster, forest)


def _score_of(booster: Any, forest: Forest, rows: Floats) -> Floats:
    """LightGBM's own score of encoded rows: the mean of the trees of a random forest, else their sum."""
    raw = rows.copy()
    for j, feature in enumerate(forest.schema.features):
        if isinstance(feature.encoder, _GivenCodes):
            known = np.isfinite(rows[:, j])
            codes = np.append(feature.encoder.codes, max(feature.encoder.codes, default=-1) + 1)
            raw[known, j] = codes[rows[known, j].astype(np.int64)]
    score = np.asarray(booster.predict(raw, raw_score=True), dtype=np.float64).reshape(len(rows), -1)
    is_mean = "\naverage_output\n" in booster.model_to_string(num_iteration=1)
    return score / max(1, forest.n_trees // forest.n_outputs) if is_mean else score


def _booster(model: Any) -> Any:
    """The Booster inside a model."""
    if isinstance(getattr(model, "boosters", None), list):
        raise UnsupportedModelError(
            "`model` must be one model, got a CVBooster of several; pass one of its `boosters`."
        )
    if hasattr(model, "model_to_string"):
        return model
    if not hasattr(model, "fit"):
        raise UnsupportedModelError(f"`model` must be a LightGBM Booster or estimator, got {type(model).__qualname__}.")
    if model.get_params().get("pred_early_stop"):
        raise UnsupportedModelError(
            "`model` must use all its trees, got pred_early_stop=True, which skips trees row by row; "
            "pass `model.booster_` for the sum of all trees."
        )
    booster = getattr(model, "booster_", None)
    if booster is None:
        raise UnsupportedModelError(f"`model` must be fitted, got a new {type(model).__qualname__}; fit it first.")
    return booster


@dataclasses.dataclass(frozen=True)
class _Parts:
    """The parts of a model's text: fields of the header and of each tree, and the lines after the trees."""

    header: _Fields
    trees: list[_Fields]
    tail: list[str]

    def count(self, key: str) -> int:
        """A positive number of the header."""
        number = int(self.header.get(key, ""))
        if number < 1:
            raise ModelFileError(f"`{key}` must be positive, got {number}; file damaged?")
        return number

    def tail_entry(self, start: str) -> str:
        """The rest of the last line after the trees with this start, empty without one."""
        return next((line.removeprefix(start) for line in reversed(self.tail) if line.startswith(start)), "")


def _parts(text: str) -> _Parts:
    if not text.startswith("tree\n"):
        raise ModelFileError("a LightGBM text model must start with the line 'tree', got something else; wrong file?")
    body, mark, tail = text.partition("\nend of trees\n")
    if not mark:
        raise ModelFileError("a LightGBM text model must have the line 'end of trees', got none; file cut off?")
    header, *trees = [_fields(block) for block in body.split("\nTree=")]
    version = header.get("version", "none")
    if version not in _READABLE_VERSIONS and not versions.is_newer("lightgbm text", _version(text)):
        raise UnsupportedModelError(
            f"the model's version must be one of {', '.join(sorted(_READABLE_VERSIONS))}, got {version[:20]!r}; "
            "load and save it with a recent LightGBM."
        )
    n_sizes = len(header["tree_sizes"].split()) if "tree_sizes" in header else len(trees)
    if n_sizes != len(trees):
        raise ModelFileError(f"the model must have {n_sizes} trees as `tree_sizes` says, got {len(trees)}; cut off?")
    return _Parts(header, trees, tail.split("\n"))


def _fields(block: str) -> _Fields:
    # Not splitlines(): names may hold what Unicode takes for line ends.
    return {key: value for key, _, value in (line.partition("=") for line in block.split("\n"))}


def _gather(trees: list[_Fields], key: str, convert: Callable[[str], float], sizes: Ints) -> list[float]:
    """Numbers of a field of all trees in one list, after a check that each tree has as many as it should."""
    tokens = [tree.get(key, "").split() for tree in trees]
    wrong = np.flatnonzero(np.fromiter(map(len, tokens), np.int64, len(tokens)) != sizes)
    if len(wrong):
        tree = wrong[0]
        raise ModelFileError(
            f"`{key}` of tree {tree} must have {sizes[tree]} entries, got {len(tokens[tree])}; file damaged?"
        )
    return list(map(convert, itertools.chain.from_iterable(tokens)))


def _integers(trees: list[_Fields], key: str, sizes: Ints) -> Ints:
    return np.array(_gather(trees, key, int, sizes), dtype=np.int64)


def _decimals(trees: list[_Fields], key: str, sizes: Ints) -> Floats:
    return np.array(_gather(trees, key, float, sizes), dtype=np.float64)


@dataclasses.dataclass(frozen=True)
class _Splits:
    """The inner nodes of all trees, tree after tree; `set_number` is that of the bit set, -1 at numeric splits."""

    tree: Ints
    feature: Ints
    threshold: Floats
    default_left: Bools
    missing_type: Ints
    set_number: Ints

    @property
    def is_category(self) -> Bools:
        """Where a split has a category set."""
        return self.set_number >= 0

    @property
    def missing_left(self) -> Bools:
        """Where missing values go left."""
        left = np.where(self.missing_type == _MISSING_AS_ZERO, self.threshold >= 0, self.default_left)
        return left & ~self.is_category

    @property
    def zero_missing(self) -> Bools:
        """Where zeros go the way of missing values."""
        return np.asarray((self.missing_type == _ZERO_IS_MISSING) & ~self.is_category, dtype=bool)

    @property
    def bound(self) -> Floats:
        """Closed bounds on the raw value: all values that LightGBM takes for zero go the same way."""
        t = self.threshold
        bound = np.where((t >= 0) & (t < NEAR_ZERO), NEAR_ZERO, t)
        bound = np.where((t < 0) & (t >= -NEAR_ZERO), np.nextafter(-NEAR_ZERO, -np.inf), bound)
        return np.where(self.is_category, np.nan, bound)


def _splits(trees: list[_Fields], n_splits: Ints, n_sets: Ints, n_features: int) -> _Splits:
    feature = _integers(trees, "split_feature", n_splits)
    if ((feature < 0) | (feature >= n_features)).any():
        raise ModelFileError(f"the model's trees must split on {n_features} features, got others; file damaged?")
    decision = _integers(trees, "decision_type", n_splits)
    missing_type = decision >> 2
    if ((decision < 0) | (missing_type > 2)).any():
        raise ModelFileError("the model's decision types must be known ones, got others; file damaged?")
    threshold = _decimals(trees, "threshold", n_splits)
    tree = np.repeat(np.arange(len(trees)), n_splits)
    return _Splits(
        tree=tree,
        feature=feature,
        threshold=threshold,
        default_left=decision & 2 > 0,
        missing_type=missing_type,
        set_number=_set_numbers(threshold, decision & 1 > 0, tree, n_sets),
    )


def _set_numbers(threshold: Floats, is_category: Bools, tree: Ints, n_sets: Ints) -> Ints:
    """Numbers of the bit sets among those of all trees; each belongs to one split."""
    own, most = threshold[is_category], n_sets[tree[is_category]]
    numbers = np.full(len(threshold), -1)
    if not ((own >= 0) & (own < most) & (np.trunc(own) == own)).all():
        raise ModelFileError("the model's category splits must name sets that exist, got others; file damaged?")
    numbers[is_category] = _starts(n_sets)[tree[is_category]] + own.astype(np.int64)
    if len(np.unique(numbers[is_category])) < len(own):
        raise ModelFileError("the model's category splits must have a set each, got one used twice; file damaged?")
    return numbers


def _starts(sizes: Ints) -> Ints:
    """Position of the first entry of each of consecutive blocks."""
    return np.cumsum(sizes) - sizes


@dataclasses.dataclass(frozen=True)
class _Members:
    """Pairs of a split (its position) and a code in its category set."""

    split: Ints
    code: Ints


def _members(trees: list[_Fields], splits: _Splits, n_sets: Ints) -> _Members:
    """Members of all category sets, bit by bit from LightGBM's 32-bit words."""
    set_sizes = _set_sizes(trees, n_sets)
    tree_of_set = np.repeat(np.arange(len(trees)), n_sets)
    n_words = np.bincount(tree_of_set, set_sizes, len(trees)).astype(np.int64)
    words = _integers(trees, "cat_threshold", n_words)
    if ((words < 0) | (words >= 1 << 32)).any():
        raise ModelFileError("the model's category sets must be 32-bit words, got other numbers; file damaged?")
    kept = np.flatnonzero(words)
    bits = np.unpackbits(words[kept].astype("<u4").view(np.uint8).reshape(-1, 4), axis=1, bitorder="little")
    _check_size(int(np.count_nonzero(bits)), _MOST_MEMBERS, "category sets")
    row, bit = np.nonzero(bits)
    word = kept[row]
    set_number = np.repeat(np.arange(len(set_sizes)), set_sizes)[word]
    split_of_set = np.full(len(set_sizes), -1)
    split_of_set[splits.set_number[splits.is_category]] = np.flatnonzero(splits.is_category)
    split, code = split_of_set[set_number], 32 * (word - _starts(set_sizes)[set_number]) + bit
    return _Members(split[split >= 0], code[split >= 0])


def _set_sizes(trees: list[_Fields], n_sets: Ints) -> Ints:
    """Number of words of each category set of all trees."""
    sizes = np.where(n_sets > 0, n_sets + 1, 0)
    boundaries = _integers(trees, "cat_boundaries", sizes)
    first = _starts(sizes)[n_sets > 0]
    differences = np.delete(np.diff(boundaries, prepend=0), first)
    if boundaries[first].any() or (differences < 0).any() or (differences > 1 << 27).any():
        raise ModelFileError("the model's category sets must follow one another, got a jump; file damaged?")
    return differences


@dataclasses.dataclass(frozen=True)
class _GivenCodes(Encoder):
    """A category given as a whole number among `codes`, which ascend; fractions are cut, other numbers are unseen."""

    codes: tuple[int, ...]

    @property
    def labels(self) -> tuple[int, ...]:
        """The codes."""
        return self.codes

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Positions of the codes, n_categories where unseen, NaN where missing."""
        values = Numeric().encode(column, name)
        known = np.array(self.codes, dtype=np.float64)
        position = np.searchsorted(known, np.trunc(values))
        found = np.append(known, np.nan)[position] == np.trunc(values)
        return np.where(np.isnan(values), np.nan, np.where(found, position, len(known)))


@dataclasses.dataclass(frozen=True)
class _PandasCategory(Encoder):
    """A category of a pandas column, given by its label, or in arrays of numbers by its code, as in LightGBM."""

    names: tuple[Hashable, ...]

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The labels."""
        return self.names

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Positions of the labels, n_categories where unseen, NaN where missing."""
        if _holds_codes(column, self.names, name):
            return IntegerCategory(len(self.names)).encode(column, name)
        return Labels(self.names).encode(column, name)


@dataclasses.dataclass(frozen=True)
class _OrderedCategory(Encoder):
    """A category that is split as a number: the position of its label; labels never seen are missing."""

    names: tuple[Hashable, ...]

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Positions of the labels as numbers."""
        if _holds_codes(column, self.names, name):
            return Numeric().encode(column, name)
        codes = Labels(self.names).encode(column, name)
        return np.where(codes == len(self.names), np.nan, codes)


def _holds_codes(column: npt.NDArray[Any], names: tuple[Hashable, ...], name: str) -> bool:
    """Whether a column is of plain numbers, which are codes; an error where they could be labels as well."""
    if column.dtype.kind not in "biuf":
        return False
    if any(isinstance(label, (int, float)) for label in names) and names != tuple(range(len(names))):
        raise TypeError(
            f"column {name!r} must hold categories, got plain numbers, which might be codes or labels; "
            "give it as a category column of a table, as for training."
        )
    return True


@dataclasses.dataclass(frozen=True)
class _Column:
    """What a model's text tells about a feature besides its trees.

    `codes` are the categories that training kept, None for a numeric feature; `low` and `high` the range of training.
    """

    codes: tuple[int, ...] | None
    low: float = 0
    high: float = -1

    def may_hold(self, n_categories: int) -> bool:
        """Whether training can have seen the codes 0 .. n_categories - 1 here and no others."""
        whole = float(self.low).is_integer() and float(self.high).is_integer()
        return whole and self.low >= 0 and self.high < n_categories


def _columns(parts: _Parts, n_features: int) -> list[_Column]:
    """All features as training saw them."""
    infos = parts.header.get("feature_infos", " ".join(["none"] * n_features)).split(" ")
    if len(infos) != n_features:
        raise ModelFileError(f"`feature_infos` must have {n_features} entries, got {len(infos)}; file damaged?")
    declared = _declared(parts.tail_entry("[categorical_feature: ").rstrip("]"))
    return [_column(info, is_category=j in declared) for j, info in enumerate(infos)]


def _declared(text: str) -> set[int]:
    """Positions of the features that training was told are categories."""
    return {int(token) for token in text.split(",") if token.strip().isdecimal()}


def _column(info: str, *, is_category: bool) -> _Column:
    if info.startswith("["):
        low, _, high = info.strip("[]").partition(":")
        return _Column(() if is_category else None, float(low), float(high))
    if info == "none":
        return _Column(() if is_category else None)
    codes = tuple(sorted({int(token) for token in info.split(":")} - {-1}))  # -1 is the bin of missing values
    if codes and not 0 <= codes[0] <= codes[-1] < 1 << 31:
        raise ModelFileError("the model's categories must be codes of 31 bits, got others; file damaged?")
    return _Column(codes, 0, max(codes, default=-1))


def _pandas_names(parts: _Parts, columns: list[_Column]) -> dict[int, tuple[Hashable, ...]]:
    """Labels of the features that were category columns of pandas.

    The text lists labels in column order without names. As a rule these columns are the model's category features; if
    not, the one way to place the lists in order is taken, and more than one way is refused.
    """
    lists = json.loads(parts.tail_entry("pandas_categorical:") or "null") or []
    if not (isinstance(lists, list) and all(map(_is_list_of_labels, lists))):
        raise ModelFileError("`pandas_categorical` must list labels of categories, got something else; file damaged?")
    names: list[tuple[Hashable, ...]] = [tuple(labels) for labels in lists]
    categories = [j for j, column in enumerate(columns) if column.codes is not None]
    candidates = categories if len(names) <= len(categories) else list(range(len(columns)))
    first = _place(names, columns, candidates)
    last = _place(names[::-1], columns, candidates[::-1])[::-1]
    if len(first) < len(names) or first != last:
        raise UnsupportedModelError(
            f"the model was trained on a table with {len(names)} category columns and does not tell which they are: "
            "some were ordered or not in categorical_feature=; train with unordered category columns, or with codes."
        )
    return dict(zip(first, names, strict=True))


def _is_list_of_labels(labels: object) -> bool:
    if not (isinstance(labels, list) and all(isinstance(label, (str, int, float)) for label in labels)):
        return False
    return len(set(labels)) == len(labels)


def _place(names: Sequence[Sequence[Hashable]], columns: list[_Column], candidates: Sequence[int]) -> list[int]:
    """The earliest candidates that can hold the lists of labels, in order; fewer than lists if some have no place.

    Earliest from the left and from the right enclose all placements, so that they agree only if there is just one.
    """
    placed: list[int] = []
    for j in candidates:
        if len(placed) < len(names) and columns[j].may_hold(len(names[len(placed)])):
            placed.append(j)
    return placed


def _encoders(parts: _Parts, splits: _Splits, members: _Members, n_features: int) -> list[Encoder]:
    """An encoder per feature; the kind of its splits decides, and for features without any, what training was told."""
    columns = _columns(parts, n_features)
    names = _pandas_names(parts, columns)
    in_sets, in_numbers = (
        np.bincount(splits.feature[which], minlength=n_features) > 0
        for which in (splits.is_category, ~splits.is_category)
    )
    both = np.flatnonzero(in_sets & in_numbers)
    if len(both):
        raise UnsupportedModelError(
            f"the model splits feature {both[0]} as a number in some trees and as a category in others (training went "
            "on with other categorical features); train it in one go."
        )
    codes = _codes_by_feature(splits, members, n_features)
    return [
        _encoder(
            column,
            names.get(j),
            codes[j],
            is_category=bool(in_sets[j] or (column.codes is not None and not in_numbers[j])),
        )
        for j, column in enumerate(columns)
    ]


def _codes_by_feature(splits: _Splits, members: _Members, n_features: int) -> list[Ints]:
    """IntegerCategory in the category sets of each feature."""
    keys = np.unique((splits.feature[members.split] << 32) + members.code)
    _check_size(len(keys), _MOST_CATEGORIES, "categories")
    return np.split(keys & 0xFFFFFFFF, np.searchsorted(keys >> 32, np.arange(1, n_features)))


def _encoder(column: _Column, names: tuple[Hashable, ...] | None, codes: Ints, *, is_category: bool) -> Encoder:
    if names is not None:
        if codes.max(initial=-1) >= len(names):
            raise ModelFileError("the model's category sets must hold listed categories, got others; file damaged?")
        return _PandasCategory(names) if is_category else _OrderedCategory(names)
    return _GivenCodes(tuple(sorted({*(column.codes or ()), *codes.tolist()}))) if is_category else Numeric()


def _category_tables(splits: _Splits, members: _Members, encoders: list[Encoder]) -> tuple[Ints, Bools]:
    """Where the table of each category split starts, and all tables: ways of all categories, then of unseen ones."""
    n_categories = np.array([len(encoder.labels or ()) for encoder in encoders], dtype=np.int64)
    sizes = np.where(splits.is_category, n_categories[splits.feature] + 1, 0)
    _check_size(int(sizes.sum()), _MOST_ENTRIES, "category tables")
    start = _starts(sizes)
    goes_left = np.zeros(sizes.sum(), dtype=bool)
    goes_left[start[members.split] + _positions(splits.feature[members.split], members.code, encoders)] = True
    return np.where(splits.is_category, start, -1), goes_left


def _positions(feature: Ints, code: Ints, encoders: list[Encoder]) -> Ints:
    """Positions of codes among the categories of their features."""
    given = [e.codes if isinstance(e, _GivenCodes) else range(len(e.labels or ())) for e in encoders]
    sizes = np.array([len(codes) for codes in given], dtype=np.int64)
    known = np.fromiter(itertools.chain.from_iterable(given), np.int64, int(sizes.sum()))
    known += np.repeat(np.arange(len(given)) << 32, sizes)
    result: Ints = np.searchsorted(known, (feature << 32) + code) - _starts(sizes)[feature]
    return result


def _check_size(size: int, most: int, what: str) -> None:
    if size > most:
        raise UnsupportedModelError(f"the model's {what} must have at most {most:,} entries, got {size:,}: too large.")


def _forest(parts: _Parts, classes: Any) -> Forest:
    """The forest of a model's text. Nodes: the inner nodes of all trees, then their leaves, both tree after tree."""
    _refuse_linear(parts.trees)
    names, n_outputs = _feature_names(parts), _n_outputs(parts)
    one = np.ones(len(parts.trees), dtype=np.int64)
    n_leaves, n_sets = _integers(parts.trees, "num_leaves", one), _integers(parts.trees, "num_cat", one)
    if (n_leaves < 1).any() or (n_sets < 0).any():
        raise ModelFileError("the model's trees must have leaves, got a tree of none; file damaged?")
    splits = _splits(parts.trees, n_leaves - 1, n_sets, len(names))
    members = _members(parts.trees, splits, n_sets)
    encoders = _encoders(parts, splits, members, len(names))
    category_start, category_left = _category_tables(splits, members, encoders)
    left, right = (_children(parts.trees, key, splits.tree, n_leaves) for key in ("left_child", "right_child"))
    n_splits = len(splits.tree)
    at_leaves = np.full(int(n_leaves.sum()), -1)
    label = np.arange(len(at_leaves)) - np.repeat(_starts(n_leaves), n_leaves)
    return assemble(
        _schema(parts, names, encoders, n_outputs, classes),
        np.zeros(n_outputs),
        roots=np.where(n_leaves > 1, _starts(n_leaves - 1), n_splits + _starts(n_leaves)),
        feature=np.concatenate([splits.feature, at_leaves]),
        bound=np.concatenate([splits.bound, at_leaves]),
        left=np.concatenate([left, at_leaves]),
        right=np.concatenate([right, at_leaves]),
        missing_left=np.concatenate([splits.missing_left, at_leaves > 0]),
        zero_missing=np.concatenate([splits.zero_missing, at_leaves > 0]),
        category_start=np.concatenate([category_start, at_leaves]),
        category_left=category_left,
        values=_values(parts, n_leaves, n_outputs),
        leaf_label=np.concatenate([np.zeros(n_splits, dtype=np.int64), label]),
    )


def _refuse_linear(trees: list[_Fields]) -> None:
    if any(tree.get("is_linear", "0") != "0" for tree in trees):
        raise UnsupportedModelError(
            "`model` must have constant leaves, got linear_tree=True, whose leaves are linear functions and not "
            "constants; train it without."
        )


def _feature_names(parts: _Parts) -> list[str]:
    names = parts.header.get("feature_names", "").split(" ")
    n_features = int(parts.header.get("max_feature_idx", "")) + 1
    if len(names) != n_features or len(set(names)) < n_features:
        raise ModelFileError(f"`feature_names` must be {n_features} different names, got {len(names)}; file damaged?")
    return names


def _n_outputs(parts: _Parts) -> int:
    n_outputs = parts.count("num_tree_per_iteration")
    if n_outputs > _MOST_OUTPUTS or len(parts.trees) % n_outputs:
        raise ModelFileError(
            f"the model must have as many trees for each of {n_outputs} outputs, got {len(parts.trees)}; file damaged?"
        )
    return n_outputs


def _children(trees: list[_Fields], key: str, tree: Ints, n_leaves: Ints) -> Ints:
    """Positions of children; in the text, numbers of splits of the tree, or of leaves as -1 - number."""
    child = _integers(trees, key, n_leaves - 1)
    own = n_leaves[tree]
    if ((child >= own - 1) | (child < -own)).any():
        raise ModelFileError("the model's trees must link nodes that exist, got others; file damaged?")
    first_split, first_leaf = _starts(n_leaves - 1)[tree], len(tree) + _starts(n_leaves)[tree]
    return np.where(child >= 0, first_split + child, first_leaf - 1 - child)


def _values(parts: _Parts, n_leaves: Ints, n_outputs: int) -> Floats:
    """Leaf values in the columns of their outputs, zero at inner nodes; tree i belongs to output i mod n_outputs."""
    leaf_value = _decimals(parts.trees, "leaf_value", n_leaves)
    if "average_output" in parts.header:
        leaf_value /= max(1, len(parts.trees) // n_outputs)
    n_splits = len(leaf_value) - len(n_leaves)
    _check_size((n_splits + len(leaf_value)) * n_outputs, _MOST_ENTRIES, "leaf values")
    values = np.zeros((n_splits + len(leaf_value), n_outputs))
    output = np.repeat(np.arange(len(n_leaves)) % n_outputs, n_leaves)
    values[n_splits + np.arange(len(leaf_value)), output] = leaf_value
    return values


def _schema(parts: _Parts, names: list[str], encoders: list[Encoder], n_outputs: int, classes: Any) -> Schema:
    named = names != [f"Column_{j}" for j in range(len(names))]
    names = names if named else [f"x{j}" for j in range(len(names))]
    return Schema(
        features=tuple(Feature(name, encoder) for name, encoder in zip(names, encoders, strict=True)),
        outputs=_outputs(n_outputs, classes),
        link=_link(parts.header.get("objective", ""), n_outputs),
        named=named,
        underscores=True,
        single_integers=True,
    )


def _outputs(n_outputs: int, classes: Any) -> tuple[str, ...]:
    if n_outputs == 1:
        return ("score",)
    known = classes is not None and len(classes) == n_outputs
    return tuple(str(name) for name in (classes if known else range(n_outputs)))


def _link(objective: str, n_outputs: int) -> str:
    """The link of an objective as written in the text: its name, then options such as sigmoid:1 or sqrt."""
    name, *options = objective.split() or [""]
    link = _LINKS.get(name, "other")
    if not name:
        return "identity"  # the user's own objective: predict returns the raw score
    if link != "other" and (n_outputs > 1) != (name in _SEVERAL):
        raise ModelFileError(f"a model of objective {name} cannot have {n_outputs} outputs; file damaged?")
    scaled = any(option.startswith("sigmoid:") and float(option[8:]) != 1 for option in options)
    return "other" if scaled or "sqrt" in options else link
