"""The inner nodes of LightGBM's trees: numeric splits, and category splits with their sets of codes."""

from __future__ import annotations

import dataclasses

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.errors import ModelFileError
from treeanova.model.forest import NEAR_ZERO
from treeanova.readers.checks import block_starts, check_size, check_values
from treeanova.readers.lightgbm.text import ModelText

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
        """Closed bounds on the raw value: all values that LightGBM treats as zero go the same way."""
        t = self.threshold
        bound = np.where((t >= 0) & (t < NEAR_ZERO), NEAR_ZERO, t)
        bound = np.where((t < 0) & (t >= -NEAR_ZERO), np.nextafter(-NEAR_ZERO, -np.inf), bound)
        return np.where(self.is_category, np.nan, bound)


def read_splits(text: ModelText, n_splits: Ints, n_sets: Ints, n_features: int) -> Splits:
    """The splits of all trees, which have `n_splits` of them and `n_sets` category sets each."""
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
        raise ModelFileError("the model's category splits must have a set each, got one used twice; file damaged?")
    return numbers


@dataclasses.dataclass(frozen=True)
class Members:
    """Pairs of a split (its position) and a code in its category set."""

    split: Ints
    code: Ints


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
    return Members(split[split >= 0], code[split >= 0])


def _words(text: ModelText, set_sizes: Ints, n_sets: Ints) -> Ints:
    """The 32-bit words of all category sets."""
    tree_of_set = np.repeat(np.arange(len(text.trees)), n_sets)
    n_words = np.bincount(tree_of_set, set_sizes, len(text.trees)).astype(np.int64)
    words = text.integers("cat_threshold", n_words)
    check_values("the model's category sets must be 32-bit words", words, (words >= 0) & (words < 1 << 32))
    return words


def _set_sizes(text: ModelText, n_sets: Ints) -> Ints:
    """Number of words of each category set of all trees."""
    sizes = np.where(n_sets > 0, n_sets + 1, 0)
    boundaries = text.integers("cat_boundaries", sizes)
    first = block_starts(sizes)[n_sets > 0]
    set_sizes = np.delete(np.diff(boundaries, prepend=0), first)
    rule = "the model's category sets must follow one another, from word 0"
    check_values(rule, boundaries[first], boundaries[first] == 0)
    check_values(f"{rule}, with 0 to {_MAX_WORDS} words", set_sizes, (set_sizes >= 0) & (set_sizes <= _MAX_WORDS))
    return set_sizes
