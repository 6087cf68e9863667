"""LightGBM's model text: its sections, its features with their categories, and its splits."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Callable, Hashable, Sequence

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.data.features import Encoder, IntegerCategory, Labels, Numeric
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.forest import NEAR_ZERO
from treeanova.readers import checks
from treeanova.readers.checks import block_starts, check_size, check_values, damaged, decimal_number, whole_number

Fields = dict[str, str]
_READABLE_VERSIONS = ("v3", "v4")
_BARE_LINES = {"tree", "average_output"}
_END = re.compile(r"(\nend of (parameters|parser)\n|\n\npandas_categorical:[^\n]*\n*)\Z")
_NUMBERS = re.compile(r"[0-9+\-.e infa]*", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class ModelText:
    """Fields of the header and of each tree, and the lines after the trees."""

    header: Fields
    trees: Sequence[Fields]
    tail: Sequence[str]

    def count(self, key: str) -> int:
        number = whole_number(self.header.get(key, ""))
        if number < 1:
            raise damaged(f"`{key}` must be positive, got {number}")
        return number

    def tail_entry(self, start: str, default: str) -> str:
        """The rest of the last line after the trees that begins with `start`, or a default without such a line."""
        return next((line.removeprefix(start) for line in reversed(self.tail) if line.startswith(start)), default)

    def integers(self, key: str, sizes: Ints) -> Ints:
        return np.array(self._gather(key, int, sizes), dtype=np.int64)

    def decimals(self, key: str, sizes: Ints) -> Floats:
        return np.array(self._gather(key, float, sizes), dtype=np.float64)

    def _gather(self, key: str, convert: Callable[[str], float], sizes: Ints) -> list[float]:
        texts = [tree.get(key, "") for tree in self.trees]
        wrong_text = next((text for text in texts if not _NUMBERS.fullmatch(text)), None)
        if wrong_text is not None:  # Python takes 1_000 and digits of other scripts
            raise damaged(f"`{key}` must be numbers, got {wrong_text!r:.60}")
        tokens = [text.split() for text in texts]
        wrong = np.flatnonzero(np.fromiter(map(len, tokens), np.int64, len(tokens)) != sizes)
        if len(wrong):
            tree = wrong[0]
            raise damaged(f"`{key}` of tree {tree} must have {sizes[tree]} entries, got {len(tokens[tree])}")
        return list(map(convert, itertools.chain.from_iterable(tokens)))


def parse(text: str) -> ModelText:
    if not text.startswith("tree\n"):
        raise ModelFileError(
            f"a LightGBM text model must start with the line 'tree', got {text[:20]!r}; is it another kind of file?"
        )
    body, mark, tail = text.partition("\nend of trees\n")
    if not mark:
        raise ModelFileError("a LightGBM text model must have the line 'end of trees', got none; file cut off?")
    head, *blocks = body.split("\nTree=")
    header = _fields(head)
    _check_version(header.get("version", "none"), text)
    _check_trees(header, blocks)
    return ModelText(header, [_fields(f"Tree={block}") for block in blocks], _tail_lines(tail))


def _check_trees(header: Fields, blocks: Sequence[str]) -> None:
    """Raise ModelFileError unless the trees are those that `tree_sizes` announces, each with its number of bytes.

    LightGBM always writes `tree_sizes`, but also reads texts without.
    """
    found = [len(f"Tree={block}\n".encode()) for block in blocks]  # with the line end that split() took away
    sizes = [whole_number(size) for size in header["tree_sizes"].split()] if "tree_sizes" in header else found
    if len(sizes) != len(blocks):
        raise ModelFileError(
            f"the model must have {len(sizes)} trees as `tree_sizes` says, got {len(blocks)}; file cut off?"
        )
    for number, block in enumerate(blocks):
        if not block.startswith(f"{number}\n") or found[number] != sizes[number]:
            raise damaged(
                f"tree {number} must have {sizes[number]} bytes as `tree_sizes` says, got {found[number]} bytes of "
                f"tree {block[:10].partition(chr(10))[0]}"
            )


def _tail_lines(tail: str) -> list[str]:
    """Lines after the trees; the last ones are always the same, so that a text that is cut off lacks them.

    LightGBM ends with the parameters, if it knows them, and Python adds pandas_categorical. R, the command line and
    other users of LightGBM's library do not.
    """
    if not _END.search(tail):
        raise ModelFileError(
            "a LightGBM text model must end with the line 'end of parameters' or with `pandas_categorical`, got "
            f"{tail[-20:]!r}; file cut off?"
        )
    return tail.split("\n")


def _fields(block: str) -> Fields:
    # Not splitlines(): names may contain what Unicode considers line ends.
    lines = [line for line in block.split("\n") if line]
    fields = {key: value for key, _, value in (line.partition("=") for line in lines)}
    bare = [line for line in lines if "=" not in line and line not in _BARE_LINES]
    if bare:
        raise damaged(f"lines of {lines[0]!r:.20} must be names and values, got {bare[0]!r:.40}")
    if len(fields) < len(lines):
        raise damaged(f"lines of {lines[0]!r:.20} must have names of their own, got one twice")
    return fields


def _check_version(version: str, text: str) -> None:
    if version not in _READABLE_VERSIONS and not checks.is_newer("lightgbm text", version_of(text)):
        raise UnsupportedModelError(
            f"the model's version must be one of {', '.join(_READABLE_VERSIONS)}, got {version[:20]!r}; "
            "load and save it with a recent LightGBM."
        )


def version_of(text: str) -> tuple[int, ...]:
    """The number of the text's format, from its first lines; empty if it has none."""
    match = re.match(r"tree\nversion=v(\d{1,9})\n", text)
    return (int(match[1]),) if match else ()


_MAX_MEMBERS = 1 << 24
_MAX_WORDS = 1 << 27
_MISSING_AS_ZERO, _ZERO_IS_MISSING = 0, 1


@dataclasses.dataclass(frozen=True)
class Splits:
    """The inner nodes of all trees, tree after tree; `set_number` is that of the bit set, -1 at numeric splits."""

    tree: Ints
    feature: Ints
    threshold: Floats
    default_left: Bools
    missing_type: Ints
    set_number: Ints

    @property
    def is_category(self) -> Bools:
        return self.set_number >= 0

    @property
    def missing_left(self) -> Bools:
        left = np.where(self.missing_type == _MISSING_AS_ZERO, self.threshold >= 0, self.default_left)
        return left & ~self.is_category

    @property
    def zero_missing(self) -> Bools:
        return np.asarray((self.missing_type == _ZERO_IS_MISSING) & ~self.is_category, dtype=bool)

    @property
    def bound(self) -> Floats:
        """Closed bounds on the raw value: all values that LightGBM treats as zero go the same way."""
        t = self.threshold
        bound = np.where((t >= 0) & (t < NEAR_ZERO), NEAR_ZERO, t)
        bound = np.where((t < 0) & (t >= -NEAR_ZERO), np.nextafter(-NEAR_ZERO, -np.inf), bound)
        return np.where(self.is_category, np.nan, bound)


def read_splits(text: ModelText, n_splits: Ints, n_sets: Ints, n_features: int) -> Splits:
    feature = text.integers("split_feature", n_splits)
    is_valid = (feature >= 0) & (feature < n_features)
    check_values(f"the model's trees must split on {n_features} features", feature, is_valid)
    decision = text.integers("decision_type", n_splits)
    missing_type = decision >> 2
    check_values("the model's decision types must be 0 to 11", decision, (decision >= 0) & (missing_type <= 2))
    threshold = text.decimals("threshold", n_splits)
    tree = np.repeat(np.arange(len(text.trees)), n_splits)
    return Splits(
        tree=tree,
        feature=feature,
        threshold=threshold,
        default_left=decision & 2 > 0,
        missing_type=missing_type,
        set_number=_set_numbers(threshold, decision & 1 > 0, tree, n_sets),
    )


def _set_numbers(threshold: Floats, is_category: Bools, tree: Ints, n_sets: Ints) -> Ints:
    """Numbers of the bit sets among those of all trees; each belongs to one split."""
    numbers = np.full(len(threshold), -1)
    in_tree, n_in_tree = threshold[is_category], n_sets[tree[is_category]]
    is_valid = (in_tree >= 0) & (in_tree < n_in_tree) & (np.trunc(in_tree) == in_tree)
    check_values("the model's category splits must name sets that exist", in_tree, is_valid)
    numbers[is_category] = block_starts(n_sets)[tree[is_category]] + in_tree.astype(np.int64)
    if len(np.unique(numbers[is_category])) < len(in_tree):
        raise damaged("the model's category splits must have a set each, got one used twice")
    return numbers


Members = tuple[Ints, Ints]  # pairs of a split (its position) and a code in its category set


def read_members(text: ModelText, splits: Splits, n_sets: Ints) -> Members:
    """Members of all category sets, bit by bit from LightGBM's 32-bit words."""
    set_sizes = _set_sizes(text, n_sets)
    words = _words(text, set_sizes, n_sets)
    kept = np.flatnonzero(words)
    bits = np.unpackbits(words[kept].astype("<u4").view(np.uint8).reshape(-1, 4), axis=1, bitorder="little")
    check_size("category sets", int(np.count_nonzero(bits)), _MAX_MEMBERS)
    row, bit = np.nonzero(bits)
    word = kept[row]
    set_number = np.repeat(np.arange(len(set_sizes)), set_sizes)[word]
    split_of_set = np.full(len(set_sizes), -1)
    split_of_set[splits.set_number[splits.is_category]] = np.flatnonzero(splits.is_category)
    split, code = split_of_set[set_number], 32 * (word - block_starts(set_sizes)[set_number]) + bit
    return split[split >= 0], code[split >= 0]


def _words(text: ModelText, set_sizes: Ints, n_sets: Ints) -> Ints:
    tree_of_set = np.repeat(np.arange(len(text.trees)), n_sets)
    n_words = np.bincount(tree_of_set, set_sizes, len(text.trees)).astype(np.int64)
    words = text.integers("cat_threshold", n_words)
    check_values("the model's category sets must be 32-bit words", words, (words >= 0) & (words < 1 << 32))
    return words


def _set_sizes(text: ModelText, n_sets: Ints) -> Ints:
    sizes = np.where(n_sets > 0, n_sets + 1, 0)
    boundaries = text.integers("cat_boundaries", sizes)
    first = block_starts(sizes)[n_sets > 0]
    set_sizes = np.delete(np.diff(boundaries, prepend=0), first)
    rule = "the model's category sets must follow one another, from word 0"
    check_values(rule, boundaries[first], boundaries[first] == 0)
    check_values(f"{rule}, with 0 to {_MAX_WORDS} words", set_sizes, (set_sizes >= 0) & (set_sizes <= _MAX_WORDS))
    return set_sizes


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
    names = text.header.get("feature_names", "").split(" ")
    n_features = whole_number(text.header.get("max_feature_idx", "")) + 1
    if len(names) != n_features or len(set(names)) < n_features:
        raise damaged(f"`feature_names` must be {n_features} different names, got {len(names)}")
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
    split, code = members
    keys = np.unique((splits.feature[split] << 32) + code)
    check_size("categories", len(keys), _MAX_CATEGORIES)
    codes = np.split(keys & 0xFFFFFFFF, np.searchsorted(keys >> 32, np.arange(1, n_features)))
    is_category = [in_sets[j] or (column.codes is not None and not in_numbers[j]) for j, column in enumerate(columns)]
    return [
        _encoder(column, labels.get(j), codes[j], is_category=bool(is_category[j])) for j, column in enumerate(columns)
    ]


def _training_columns(text: ModelText, n_features: int) -> list[TrainingColumn]:
    infos = text.header.get("feature_infos", "").split(" ")
    if len(infos) != n_features:
        raise damaged(f"`feature_infos` must have {n_features} entries, got {len(infos)}")
    tokens = text.tail_entry("[categorical_feature: ", "").rstrip("]").split(",")
    declared = {int(token) for token in tokens if token.strip().isdecimal()}
    return [_training_column(info, is_category=j in declared) for j, info in enumerate(infos)]


def _training_column(info: str, *, is_category: bool) -> TrainingColumn:
    if info.startswith("["):
        low, _, high = info.strip("[]").partition(":")
        return TrainingColumn(() if is_category else None, decimal_number(low), decimal_number(high))
    if info == "none":
        return TrainingColumn(() if is_category else None)
    codes = tuple(sorted({whole_number(token) for token in info.split(":")} - {-1}))  # -1 is the bin of missing values
    if codes and not 0 <= codes[0] <= codes[-1] < 1 << 31:
        raise damaged(f"the model's categories must be codes of 31 bits, got {codes[0]} to {codes[-1]}")
    return TrainingColumn(codes, 0, max(codes, default=-1))


def _pandas_labels(text: ModelText, columns: list[TrainingColumn]) -> dict[int, tuple[Hashable, ...]]:
    """Labels of the features that were category columns of pandas.

    The text lists labels in column order without names. As a rule these columns are the model's category features; if
    not, the lists are placed in order if there is only one way to do so, and the model is refused otherwise.
    """
    lists = json.loads(text.tail_entry("pandas_categorical:", "null")) or []
    if not (isinstance(lists, list) and all(map(_is_list_of_labels, lists))):
        raise damaged(f"`pandas_categorical` must list labels of categories, got {str(lists)[:40]}")
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


def _encoder(column: TrainingColumn, labels: tuple[Hashable, ...] | None, codes: Ints, *, is_category: bool) -> Encoder:
    if labels is not None:
        if codes.max(initial=-1) >= len(labels):
            raise ModelFileError(
                f"the model's category sets must hold listed categories, got code {codes.max()} of {len(labels)}; "
                "file damaged?"
            )
        return Labels(labels, numbers_are_codes=True, is_ordered=not is_category)
    return IntegerCategory(tuple(sorted({*(column.codes or ()), *codes.tolist()}))) if is_category else Numeric()
