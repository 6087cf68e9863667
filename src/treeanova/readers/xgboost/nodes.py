"""XGBoost's documents: UBJSON decoded, features with their encoders, and nodes of trees as flat arrays.

Of Universal Binary JSON, a value is one byte for its type and then its bytes, big-endian. Objects and lists may give
their length after ``#``, arrays of one type their type after ``$`` (https://ubjson.org). Keys of objects are strings
without the type byte. Lengths are checked against the number of bytes left before anything is allocated.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import struct
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.data import features as encoding
from treeanova.data.features import Encoder, Feature, IgnoredColumn, IntegerCategory, Numeric, as_float32
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.readers import checks
from treeanova.readers.checks import block_starts, check_size, check_values, damaged, parsed_json, whole_number
from treeanova.readers.outputs import in_column

# Types of numbers, as struct and numpy call them.
_TYPES = {"i": ">b", "U": ">B", "I": ">h", "l": ">i", "L": ">q", "d": ">f", "D": ">d"}
_NUMBERS: dict[int, np.dtype[Any]] = {ord(kind): np.dtype(code) for kind, code in _TYPES.items()}
_UNPACK = {ord(kind): struct.Struct(code) for kind, code in _TYPES.items()}
_CONSTANTS = {ord("Z"): None, ord("T"): True, ord("F"): False}
_INTEGERS = frozenset(b"iUIlL")
_DEEPEST = 32
_OBJECT, _END_OBJECT, _LIST, _END_LIST, _STRING = b"{}[]S"
_TYPE, _COUNT = b"$#"
Document = dict[str, Any]
Singles = npt.NDArray[np.float32]
_MAX_OUTPUTS = 1 << 16
_UBJSON_STARTS = {b"L", b"i", b"U", b"I", b"l", b"#", b"$"}
# One way to read the stored names of categories; lengths are their numbers of characters if they are texts. A text
# shorter than its length is the beginning of a name that XGBoost has cut.
Reading = tuple[tuple[Hashable, ...], tuple[int, ...]]
_MAX_ENTRIES = 1 << 27
_OTHER_TYPES: dict[str, set[type]] = {"iu": {bool}, "biu": set(), "fiu": {bool, int}}
_MAX_FEATURES = 1 << 20
_MAX_CATEGORIES = 1 << 20


def decode_ubjson(data: bytes) -> Any:
    """Decode UBJSON to dicts, lists, strings, numbers, None, and 1-d arrays (views on the bytes); else ValueError."""
    reader = _Ubjson(data)
    try:
        value = reader.value(reader.byte(), 0)
    except (IndexError, struct.error) as error:
        raise ValueError("the bytes end too early") from error
    if reader.at != len(data):
        raise ValueError(f"{len(data) - reader.at} bytes follow the end")
    return value


@dataclasses.dataclass(slots=True)
class _Ubjson:
    """Bytes that are decoded from front to end; `at` is the position of the next one."""

    data: bytes
    at: int = 0

    def byte(self) -> int:
        """Return the next byte and move on."""
        self.at += 1
        return self.data[self.at - 1]

    def value(self, kind: int, depth: int) -> Any:
        """Decode a value whose type byte was read; `depth` counts the lists and objects around it."""
        if kind in {_LIST, _OBJECT}:
            if depth == _DEEPEST:
                raise ValueError(f"values are nested more than {_DEEPEST} deep")
            return self._list(depth + 1) if kind == _LIST else self._object(depth + 1)
        if kind == _STRING:
            return self._string(self.byte())
        if kind in _UNPACK:
            return self._number(kind)
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        raise ValueError(f"unknown type {kind:#x} at byte {self.at}")

    def _number(self, kind: int) -> Any:
        """Decode a number whose type byte was read."""
        packer = _UNPACK[kind]
        self.at += packer.size
        return packer.unpack_from(self.data, self.at - packer.size)[0]

    def _length(self, kind: int) -> int:
        """Return a length of a type whose byte was read; at most the number of bytes that are left."""
        if kind not in _INTEGERS:
            raise ValueError(f"no length at byte {self.at}")
        length: int = self._number(kind)
        if not 0 <= length <= len(self.data) - self.at:
            raise ValueError(f"a length of {length} at byte {self.at}")
        return length

    def _string(self, kind: int) -> str:
        """Decode a string, after the type byte of its length was read."""
        length = self._length(kind)
        self.at += length
        return str(self.data[self.at - length : self.at], "utf-8")

    def _object(self, depth: int) -> dict[str, Any]:
        """Decode an object whose opening brace was read; it ends after the stated number of entries, or at a brace."""
        count = self._count()
        result: dict[str, Any] = {}
        while len(result) != count:
            kind = self.byte()
            if kind == _END_OBJECT and count is None:
                break
            key = self._string(kind)
            if key in result:
                raise ValueError(f"{key!r} occurs twice")
            result[key] = self.value(self.byte(), depth)
        return result

    def _list(self, depth: int) -> Any:
        """Decode a list whose opening bracket was read, as an array if all its entries have one type."""
        if self.data[self.at] == _TYPE:
            return self._array()
        count = self._count()
        result: list[Any] = []
        while len(result) != count:
            kind = self.byte()
            if kind == _END_LIST and count is None:
                break
            result.append(self.value(kind, depth))
        return result

    def _count(self) -> int | None:
        """Return the number of entries if it is stored, after a #; None if an end mark follows the entries."""
        if self.data[self.at] != _COUNT:
            return None
        self.at += 2
        return self._length(self.data[self.at - 1])

    def _array(self) -> Any:
        """Decode an array of numbers of one type, as a view on the bytes, of which the next is the mark of a type."""
        dtype = _NUMBERS.get(self.data[self.at + 1])
        self.at += 2
        count = self._count()
        if dtype is None or count is None:
            raise ValueError(f"no array of numbers at byte {self.at}")
        start = self.at
        self.at += count * dtype.itemsize
        return np.frombuffer(self.data, dtype, count, start)  # ValueError when the bytes are too few


def parse(data: bytes) -> Any:
    """Return the content of a .json or .ubj file, told apart by its second byte."""
    if data[:1] != b"{":
        raise ModelFileError(
            f"an XGBoost file must start with a brace, got {data[:10]!r}; save the model as .json or .ubj."
        )
    return decode_ubjson(data) if data[1:2] in _UBJSON_STARTS else parsed_json(data, allows_nan=True)


def learner_of(document: Any) -> Document:
    """Return the part of a document that predicts; UnsupportedModelError unless it is made of trees."""
    learner: Document = document["learner"]
    name = learner["gradient_booster"]["name"]
    if name not in {"gbtree", "dart"}:
        raise UnsupportedModelError(
            f"an XGBoost model must be made of trees, got booster {name!r}; train it with booster='gbtree'."
        )
    return learner


def tree_model(learner: Document) -> Document:
    """Return the part of a learner that has the trees, wherever the booster keeps it."""
    booster = learner["gradient_booster"]
    return (booster["gbtree"] if booster["name"] == "dart" else booster)["model"]


def count_in(parameters: Document, name: str) -> int:
    """Return a count that is stored among parameters, 0 if absent; ModelFileError if it is negative."""
    count = whole_number(parameters.get(name, 0))
    if count < 0:
        raise damaged(f"{name} must be 0 or more, got {count}")
    return count


def n_outputs_of(learner: Document) -> int:  # classes or targets; 1 for two classes
    parameters = learner["learner_model_param"]
    n_outputs = max(1, count_in(parameters, "num_class"), count_in(parameters, "num_target"))
    if n_outputs > _MAX_OUTPUTS:
        raise UnsupportedModelError(f"an XGBoost model must have at most {_MAX_OUTPUTS} outputs, got {n_outputs}.")
    return n_outputs


def _codes_of_cut_names(reading: Reading) -> list[int]:
    """Return codes of the names that XGBoost has cut: they are shorter than their stored lengths."""
    pairs = zip(*reading, strict=False)  # none if the names are integers, which have no lengths
    return [code for code, (name, length) in enumerate(pairs) if len(str(name)) < length]


def codes_of_labels(reading: Reading, labels: Sequence[Hashable]) -> list[int] | None:
    """Return each label's code, its position among the names read; None if one has none or cut names are ambiguous."""
    names, lengths = reading
    cut = _codes_of_cut_names(reading)
    code_of = {name: code for code, name in enumerate(names) if code not in set(cut)}
    codes = []  # -1 for a label without one
    for label in labels:
        text = str(label)
        fits = [code for code in cut if len(text) == lengths[code] and text.startswith(str(names[code]))]
        codes.append(code_of[label] if label in code_of else fits[0] if len(fits) == 1 else -1)
    return None if -1 in codes or len(set(codes)) < len(codes) else codes


@dataclasses.dataclass(frozen=True, eq=False)
class NamedCategory(Encoder):
    """A category given by its label in a table, by its code in a matrix of numbers.

    Numbers in a table are codes too, unless they could be labels: tables from Parquet have lost the type of categories.
    `stored` has, for each way to read the model's names, the names and their lengths. Unseen labels are an error:
    XGBoost refuses those that sort last and treats any other as the next known label.
    """

    refuses_labels: ClassVar[bool] = True
    lists: ClassVar[tuple[str, ...]] = ("stored",)
    stored: tuple[Reading, ...]
    missing: float = np.nan

    def takes_values_of(self, other: Encoder) -> bool:
        """Whether codes mean the same, or whole names tell the categories of both models."""
        has_cut_names = any(
            len(encoder.stored) > 1 or _codes_of_cut_names(encoder.stored[0])
            for encoder in (self, other)
            if isinstance(encoder, NamedCategory)
        )
        return self == other if has_cut_names else super().takes_values_of(other)

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The stored names, with … where XGBoost has cut them."""
        cut = set(_codes_of_cut_names(self.stored[0]))
        return tuple(f"{name}… ({code})" if code in cut else name for code, name in enumerate(self.stored[0][0]))

    def of_table(self, column: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:  # noqa: ARG002
        """Return numbers that could be labels as objects, which `encode` reads as labels."""
        is_number = column.dtype.kind in "biuf"
        return column.astype(object) if is_number and encoding.could_be_labels(self.stored[0][0]) else column

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Return codes of labels, or numbers as codes; NaN if missing, ValueError for labels without a certain code."""
        coded = _codes_encoder(len(self.stored[0][0]), self.missing)
        if column.dtype.kind in "biuf":
            return coded.encode(column, name)
        if self.missing >= 0 and self.missing.is_integer():
            raise ValueError(
                f"column {name!r} must hold codes, got labels: XGBoost compares missing={self.missing:g} with the "
                "codes of the table's column, which are unknown here; pass the codes used in training."
            )
        values, value_index = encoding.distinct(column)  # each row's among them
        present = [value for value in values if not encoding.is_missing(value)]
        code_of = dict(zip(present, self._codes_of(present, name), strict=True))
        codes = np.array([code_of.get(value, np.nan) for value in values], dtype=np.float64)
        return coded.encode(codes[value_index], name)

    def _codes_of(self, labels: list[Hashable], name: str) -> list[int]:
        """Return the codes of labels; ValueError if one is unknown, or if ways to read the names differ."""
        possible = [codes for reading in self.stored if (codes := codes_of_labels(reading, labels)) is not None]
        if not possible or any(codes != possible[0] for codes in possible):
            known_names = {label for names, _ in self.stored for label in names}
            unknown = [label for label in labels if label not in known_names] or labels
            raise ValueError(
                f"column {name!r} must hold categories of the model, got {unknown[0]!r}, which XGBoost refuses or "
                "treats as another one; where it has cut names (beyond ASCII), pass the codes used in training."
            )
        return possible[0]


@dataclasses.dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of all trees, tree after tree; children are positions among them, -1 at leaves."""

    starts: Ints  # the root of each tree
    sizes: Ints  # the number of nodes of each tree
    label: Ints  # the number in its tree
    left: Ints
    right: Ints
    slot: Ints  # the stored right child: at a leaf with a vector, the vector's number
    feature: Ints
    condition: Singles  # the threshold; at a leaf, its value
    default_left: Bools
    listed: Ints  # nodes with a list of categories
    listed_sizes: Ints  # lengths of their lists
    categories: Ints  # the lists one after the other

    @property
    def is_inner(self) -> Bools:
        return self.left >= 0

    @property
    def is_category(self) -> Bools:  # of each node, also of leaves
        result = np.zeros(len(self.left), dtype=bool)
        result[self.listed] = True
        return result


def read_nodes(trees: Sequence[Document]) -> Nodes:
    """Join the nodes of all trees; ModelFileError for children that do not exist."""
    left, sizes = _joined_arrays(trees, "left_children")
    slot = _joined_of_lengths(trees, "right_children", sizes)  # at a leaf, the number of its vector if it has one
    n_in_tree = np.repeat(sizes, sizes)  # the number of nodes of each node's tree
    check_values("trees must have nodes", sizes, sizes > 0)
    check_values("left_children must be nodes of their tree", left, (left >= -1) & (left < n_in_tree))
    check_values("right_children must be nodes of their tree", slot, (left < 0) | ((slot >= 0) & (slot < n_in_tree)))
    starts = block_starts(sizes)
    shift = np.repeat(starts, sizes)
    listed, listed_sizes, categories = _category_lists(trees, starts, sizes)
    return Nodes(
        starts=starts,
        sizes=sizes,
        label=np.arange(len(left)) - shift,
        left=np.where(left < 0, -1, left + shift),
        right=np.where(left < 0, -1, slot + shift),
        slot=slot,
        feature=_joined_of_lengths(trees, "split_indices", sizes),
        condition=_joined_of_lengths(trees, "split_conditions", sizes, "fiu"),
        default_left=_flags(trees, "default_left", sizes),
        listed=listed,
        listed_sizes=listed_sizes,
        categories=categories,
    )


def _joined_arrays(trees: Sequence[Document], key: str, kinds: str = "iu") -> tuple[npt.NDArray[Any], Ints]:
    """Join the field `key` of all trees, as int64 or, if `kinds` has f, as float32; return also the length of each."""
    # `kinds` are numpy's letters of the kinds that entries may have.
    noun = "numbers" if "f" in kinds else "integers"
    for tree in trees:
        # XGBoost writes 2 as 2E0 where it wants a number, and reads nothing else.
        wrong_types = set(map(type, tree[key])) & _OTHER_TYPES[kinds] if isinstance(tree[key], list) else set()
        if wrong_types:
            raise damaged(f"{key} must be a list of {noun}, got {wrong_types.pop().__name__}")
    arrays = [np.asarray(tree[key]) for tree in trees]
    for array in arrays:
        if array.ndim != 1 or (array.dtype.kind not in kinds and len(array)):
            raise damaged(f"{key} must be a list of {noun}, got {array.dtype}, {array.shape}")
    joined = np.concatenate([np.zeros(0, dtype=np.int8), *arrays])
    lengths = np.array([len(array) for array in arrays], dtype=np.int64)
    return as_float32(joined) if "f" in kinds else joined.astype(np.int64), lengths


def _joined_of_lengths(trees: Sequence[Document], key: str, expected: Ints, kinds: str = "iu") -> npt.NDArray[Any]:
    """Join the field `key` of all trees, in which it must have the expected lengths."""
    joined, lengths = _joined_arrays(trees, key, kinds)
    check_values(f"{key} must have an entry per node or list of its tree", lengths, lengths == expected)
    return joined


def _flags(trees: Sequence[Document], key: str, sizes: Ints) -> Bools:
    """Join the field `key` of all trees, of which each entry must be 0 or 1."""
    numbers = _joined_of_lengths(trees, key, sizes, "biu")
    check_values(f"{key} must be 0 or 1", numbers, (numbers == 0) | (numbers == 1))
    return np.asarray(numbers == 1)


def leaf_values(learner: Document, trees: Sequence[Document], nodes: Nodes, n_outputs: int) -> Singles:
    """Return leaf values times weights of trees, in float32 as XGBoost multiplies; shape (n_nodes, n_outputs)."""
    check_size("leaf values", len(nodes.left) * n_outputs, _MAX_ENTRIES)
    weight = np.repeat(_tree_weights(learner, len(trees)), nodes.sizes)
    with np.errstate(all="ignore"):
        if any(count_in(tree["tree_param"], "size_leaf_vector") > 1 for tree in trees):
            return _leaf_vectors(trees, nodes, n_outputs) * weight[:, None]
        return _at_outputs(nodes.condition * weight, learner, nodes, n_outputs)


def _tree_weights(learner: Document, n_trees: int) -> Singles:
    """Return weights of the trees after dropout, wherever a version of XGBoost stores them; 1 without dropout."""
    booster, model = learner["gradient_booster"], tree_model(learner)
    stored = [place["weight_drop"] for place in (booster, model) if "weight_drop" in place]
    if not stored and booster["name"] != "dart":
        return np.ones(n_trees, dtype=np.float32)
    if len(stored) != 1 or len(stored[0]) < len(model["trees"]):
        raise damaged(
            f"weight_drop must be one list of {len(model['trees'])} weights, one per tree, got lists of "
            f"{[len(weights) for weights in stored]}"
        )
    return as_float32(stored[0][:n_trees])


def _at_outputs(values: Singles, learner: Document, nodes: Nodes, n_outputs: int) -> Singles:
    """Return values of nodes, (nodes, outputs): each at the output of its tree, which the field tree_info has."""
    n_trees = len(nodes.sizes)
    model = tree_model(learner)
    output = np.asarray(model["tree_info"])
    is_whole = output.dtype.kind in "iu" and len(output) == len(model["trees"])
    output = output[:n_trees]
    if n_trees and not (is_whole and n_outputs <= n_trees and output.min() >= 0 and output.max() < n_outputs):
        raise damaged(
            f"tree_info must name one of {n_outputs} outputs for each of {n_trees} trees, got {str(output)[:40]}"
        )
    return in_column(values, np.repeat(output, nodes.sizes).astype(np.int64), n_outputs)


def _leaf_vectors(trees: Sequence[Document], nodes: Nodes, n_outputs: int) -> Singles:
    """Return the vectors of leaves, shape (nodes, outputs), zero at inner nodes."""
    if not all("leaf_weights" in tree for tree in trees):
        raise UnsupportedModelError(
            "an XGBoost model with vector leaves must be of version 3.2 or later, got trees without `leaf_weights`; "
            "XGBoost 3.2 crashes on such a model, so that no oracle tells what it means; train it again."
        )
    joined, lengths = _joined_arrays(trees, "leaf_weights", "fiu")
    check_values(f"leaf_weights must have {n_outputs} entries per leaf", lengths, lengths % n_outputs == 0)
    n_vectors = lengths // n_outputs
    has_vector = (nodes.slot >= 0) & (nodes.slot < np.repeat(n_vectors, nodes.sizes))
    check_values(f"leaf_weights must have {n_outputs} entries per leaf", nodes.slot, nodes.is_inner | has_vector)
    first = np.repeat(block_starts(n_vectors), nodes.sizes)
    vectors = joined.reshape(-1, n_outputs)
    return np.where(nodes.is_inner[:, None], np.float32(0), vectors[np.where(nodes.is_inner, 0, first + nodes.slot)])


def _category_lists(trees: Sequence[Document], starts: Ints, sizes: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the nodes with a list of categories, the lengths of the lists, and the lists one after the other."""
    if trees and "split_type" not in trees[0]:  # a file from before there were categories
        empty = np.zeros(0, dtype=np.int64)
        return empty, empty, empty
    node, n_lists = _joined_arrays(trees, "categories_nodes")
    lengths = _joined_of_lengths(trees, "categories_sizes", n_lists)
    segments = _joined_of_lengths(trees, "categories_segments", n_lists)
    categories, n_listed = _joined_arrays(trees, "categories")
    first = segments + np.repeat(block_starts(n_listed), n_lists)
    if (lengths < 0).any() or lengths.sum() != len(categories) or (first != block_starts(lengths)).any():
        raise damaged(f"categories must be one list after the other, got lists at {str(segments)[:40]}")
    check_values("categories_nodes must be nodes of their tree", node, (node >= 0) & (node < np.repeat(sizes, n_lists)))
    listed = node + np.repeat(starts, n_lists)
    if not np.array_equal(listed, np.flatnonzero(_flags(trees, "split_type", sizes))):
        raise damaged(
            f"categories must belong to the nodes that split on categories, got lists of nodes {str(node)[:40]}"
        )
    return listed, lengths, categories


def category_sets(nodes: Nodes, features: tuple[Feature, ...]) -> tuple[Ints, Bools]:
    """Return arguments `category_start` and `category_left` of `assemble`, from the nodes' lists of categories."""
    # Categories of a node's list go right, all others left. A node has an entry per category and one for unseen ones.
    is_split = nodes.is_inner[nodes.listed]
    listed = nodes.listed[is_split]
    sizes = np.zeros(len(nodes.left), dtype=np.int64)
    sizes[listed] = np.array([feature.n_categories for feature in features], dtype=np.int64)[nodes.feature[listed]] + 1
    node = np.repeat(listed, nodes.listed_sizes[is_split])
    codes = nodes.categories[np.repeat(is_split, nodes.listed_sizes)]
    start, goes_right = checks.category_tables("category sets", sizes, node, codes, _MAX_ENTRIES)
    return start, ~goes_right


def features_of(learner: Document, nodes: Nodes, missing: float, *, counts_bytes: bool) -> tuple[Feature, ...]:
    """Return the features with their encoders; `counts_bytes` if lengths of names are in bytes, not letters."""
    n_features = count_in(learner["learner_model_param"], "num_feature")
    if not 0 < n_features <= _MAX_FEATURES:
        raise UnsupportedModelError(f"an XGBoost model must have 1 to {_MAX_FEATURES} features, got {n_features}.")
    names = _texts_of_features(learner, "feature_names", n_features) or [f"x{j}" for j in range(n_features)]
    n_codes = _code_counts(nodes, _texts_of_features(learner, "feature_types", n_features), n_features)
    stored = tree_model(learner).get("cats", {}).get("enc", [])
    if len(stored) not in {0, n_features}:
        raise damaged(f"cats must have {n_features} entries, one per feature, got {len(stored)}")
    single = float(as_float32(missing))  # the number that means missing, as XGBoost compares it
    # The likelier way first: by characters, unless lengths are in bytes.
    readings = [_ways_to_read_names(category_names)[:: -1 if counts_bytes else 1] for category_names in stored]
    features = []
    for name, count, ways in zip(names, n_codes, readings or [()] * n_features, strict=True):
        if ways and count > len(ways[0][0]):
            raise damaged(f"categories must be below {len(ways[0][0])}, which have names, got {count - 1}")
        codes: Encoder = Numeric(single, "float32") if count < 0 else _codes_encoder(count, single)  # -1: a number
        if count == 0 and not nodes.is_inner.any():  # without trees, XGBoost stores no names of categories
            codes = IgnoredColumn()
        features.append(Feature(name, NamedCategory(ways, single) if ways else codes))
    return tuple(features)


def _texts_of_features(learner: Document, key: str, n_features: int) -> list[str]:
    """Return the field `key`, a text for each feature; empty if the model has none."""
    texts = learner.get(key, [])
    if len(texts) not in {0, n_features} or not all(isinstance(text, str) for text in texts):
        raise damaged(f"{key} must be {n_features} texts, got {str(texts)[:40]}")
    return list(texts)


def _code_counts(nodes: Nodes, types: list[str], n_features: int) -> list[int]:
    """Return for each feature the number of its category codes, -1 for numeric ones."""
    inner, is_category = nodes.is_inner, nodes.is_category
    feature, threshold = nodes.feature[inner], nodes.condition[inner & ~is_category]
    check_values(f"split_indices must be below {n_features}", feature, (feature >= 0) & (feature < n_features))
    # Nothing is below -inf, which a closed bound cannot express.
    check_values("thresholds must be numbers above -inf", threshold, ~np.isneginf(threshold))
    check_values("categories must not be negative", nodes.categories, nodes.categories >= 0)
    if (nodes.categories >= _MAX_CATEGORIES).any():
        raise UnsupportedModelError(
            f"an XGBoost model must have codes of categories below {_MAX_CATEGORIES}, got {nodes.categories.max()}; "
            "number the categories from 0 on."
        )
    result = np.array([0 if kind == "c" else -1 for kind in types] or [-1] * n_features)  # "c" is a category
    result[nodes.feature[inner & is_category]] = 0
    by_number = nodes.feature[inner & ~is_category]
    if (result[by_number] >= 0).any():
        raise UnsupportedModelError(
            "an XGBoost model must split a feature either by number or by category, got both for feature "
            f"{by_number[result[by_number] >= 0][0]}; train it in one go."
        )
    owner = np.repeat(nodes.listed, nodes.listed_sizes)
    codes, owner = nodes.categories[inner[owner]], owner[inner[owner]]
    np.maximum.at(result, nodes.feature[owner], codes + 1)
    return result.tolist()


def _codes_encoder(n_codes: int, missing: float) -> IntegerCategory:
    """Return an encoder of codes 0 to n_codes - 1 that treats numbers as XGBoost does."""
    return IntegerCategory(n_codes, missing=missing, cast="float32", cuts_negative=False)


def _ways_to_read_names(stored: Document) -> tuple[Reading, ...]:
    """Return the ways to read the stored names of a feature's categories; none if it has no names."""
    values = np.asarray(stored["values"])
    if len(values) and values.dtype.kind not in "iu":
        raise damaged(f"categories must be named by text or by integers, got {values.dtype}")
    if "offsets" not in stored:
        return ((tuple(values.tolist()), ()),)
    offsets = np.asarray(stored["offsets"], dtype=np.int64)
    if len(offsets) < 2:
        return ()
    if offsets[0] != 0 or (np.diff(offsets) < 0).any() or offsets[-1] != len(values):
        raise damaged(f"offsets of category names must ascend from 0 to {len(values)}, got {str(offsets)[:40]}")
    return _text_readings(values.astype(np.int8).tobytes(), offsets.tolist())


def _text_readings(data: bytes, offsets: list[int]) -> tuple[Reading, ...]:
    """Return the ways to read names of categories from UTF-8 bytes: offsets count bytes, or characters."""
    # From polars and arrow, offsets count bytes. From pandas, XGBoost before 3.4 counts characters and cuts the bytes
    # to that number, so beyond ASCII only the length and at most a beginning of the last names is known. Both may be
    # possible, also in later files: names stay as they are when a later XGBoost saves a model again.
    spans = list(itertools.pairwise(offsets))  # of each name, in bytes or in characters
    windows = [data[start:end] for start, end in spans]
    if len(set(windows)) < len(windows):
        raise UnsupportedModelError(
            "an XGBoost model must have different names for its categories, got equal ones: XGBoost cuts names beyond "
            "ASCII and confuses them when it predicts for a table; rename the categories and train it again."
        )
    text = data.decode("utf-8", errors="ignore")
    readings: list[Reading] = [(tuple(text[start:end] for start, end in spans), tuple(b - a for a, b in spans))]
    with contextlib.suppress(UnicodeDecodeError):
        names = tuple(window.decode("utf-8") for window in windows)
        readings.append((names, tuple(len(name) for name in names)))
    return tuple(dict.fromkeys(readings))
