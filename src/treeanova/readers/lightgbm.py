"""LightGBM models (Booster, its scikit-learn wrappers, text files) as a Forest.

Everything is read from LightGBM's text format: ``Booster.model_to_string()`` holds the trees up to the best iteration,
as ``predict`` uses them; leaf values include the starting score and the learning rate, to the last digit. Facts:

* x with abs(x) <= float32(1e-35) counts as 0, then x goes left when x <= threshold, in float64.
* `decision_type` packs: bit 0 category split, bit 1 default left, bits 2-3 missing type. None: NaN is 0. Zero: NaN and
  0 go the default way. NaN: NaN goes the default way.
* At a category split the threshold is the number of a bit set; codes in it go left, everything else (NaN, negative,
  unseen) goes right; codes are truncated to integers, so -0.5 is category 0.
* With ``average_output`` (random forest), `predict` and the Forest give the mean of trees, raw_score=True their sum.
* Category columns of pandas come as their codes; ``pandas_categorical`` lists the categories of each such column, in
  column order without names. Ordered ones (and those left out of ``categorical_feature=``) are split as numbers.
* Training turned spaces in feature names into underscores; the schema has the names of the model.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import pathlib
import re
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.data.features import Encoder, Feature, IntegerCategory, Labels, Numeric, Schema
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.forest import NEAR_ZERO, Forest, assemble
from treeanova.readers import checks
from treeanova.readers.checks import block_starts, check_size, check_values, damaged, decimal_number, whole_number
from treeanova.readers.outputs import in_column, link_and_objective, objective_text, output_names, plain_labels

_LOSSES = {
    "identity squared": "regression", "identity absolute": "regression_l1", "identity huber": "huber",
    "identity fair": "fair", "identity pinball": "quantile", "identity mape": "mape",
    "identity pairwise": "lambdarank rank_xendcg",
    "log poisson": "poisson", "log gamma": "gamma", "log tweedie": "tweedie",
    "logit log": "binary cross_entropy multiclassova", "softmax multiclass": "multiclass",
}  # fmt: skip
_PARAMETERS = {"huber": "alpha", "fair": "fair_c", "pinball": "alpha", "tweedie": "tweedie_variance_power"}
_MULTICLASS = {"multiclass", "multiclassova"}
# Limits that no sound model reaches, so a small file cannot fill the memory.
_MAX_ENTRIES, _MAX_OUTPUTS, _MAX_MEMBERS, _MAX_WORDS, _MAX_CATEGORIES = 1 << 28, 100_000, 1 << 24, 1 << 27, 1 << 20
_MISSING_AS_ZERO, _ZERO_IS_MISSING = 0, 1
Fields = dict[str, str]
_READABLE_VERSIONS = ("v3", "v4")
_BARE_LINES = {"tree", "average_output"}
_END = re.compile(r"(\nend of (parameters|parser)\n|\n\npandas_categorical:[^\n]*\n*)\Z")
_NUMBERS = re.compile(r"[0-9+\-.e infa]*", re.IGNORECASE)
Members = tuple[Ints, Ints]  # pairs of a split (its position) and a code in its category set
# What the text says about a feature besides its trees: the categories that training kept, None for a numeric feature,
# and the lowest and highest value in training.
TrainingColumn = tuple[tuple[int, ...] | None, float, float]


@dataclasses.dataclass(frozen=True)
class ModelText:
    """A model's text: fields of the header and of each tree by name, and the lines after the trees."""

    header: Fields
    trees: Sequence[Fields]
    tail: Sequence[str]

    def tail_entry(self, start: str, default: str) -> str:
        """Return what follows `start` in the last line after the trees that begins with it."""
        return next((line.removeprefix(start) for line in reversed(self.tail) if line.startswith(start)), default)

    def numbers(self, key: str, sizes: Ints, kind: type[int] | type[float] = int) -> npt.NDArray[Any]:
        """Return the field `key` of all trees, joined, as int64 or float64; tree i must have sizes[i] numbers."""
        texts = [tree.get(key, "") for tree in self.trees]
        wrong_text = next((text for text in texts if not _NUMBERS.fullmatch(text)), None)
        if wrong_text is not None:  # Python takes 1_000 and digits of other scripts
            raise damaged(f"`{key}` must be numbers, got {wrong_text!r:.60}")
        tokens = [text.split() for text in texts]
        wrong = np.flatnonzero(np.fromiter(map(len, tokens), np.int64, len(tokens)) != sizes)
        if len(wrong):
            tree = wrong[0]
            raise damaged(f"`{key}` of tree {tree} must have {sizes[tree]} entries, got {len(tokens[tree])}")
        return np.array(list(map(kind, itertools.chain.from_iterable(tokens))), np.int64 if kind is int else np.float64)


def parse(text: str) -> ModelText:
    """Split a model's text into header, trees and tail; ModelFileError if something is missing."""
    if not text.startswith("tree\n"):
        raise ModelFileError(
            f"a LightGBM text model must start with the line 'tree', got {text[:20]!r}; is it another kind of file?"
        )
    body, mark, tail = text.partition("\nend of trees\n")
    if not mark:
        raise ModelFileError("a LightGBM text model must have the line 'end of trees', got none; file cut off?")
    head, *blocks = body.split("\nTree=")
    header = _fields(head)
    version = header.get("version", "none")
    if version not in _READABLE_VERSIONS and not checks.is_newer("lightgbm text", version_of(text)):
        raise UnsupportedModelError(
            f"the model's version must be one of {', '.join(_READABLE_VERSIONS)}, got {version[:20]!r}; "
            "load and save it with a recent LightGBM."
        )
    _check_trees(header, blocks)
    # LightGBM ends with the parameters, if it knows them, and Python adds pandas_categorical. R, the command line and
    # other users of LightGBM's library do not.
    if not _END.search(tail):
        raise ModelFileError(
            "a LightGBM text model must end with the line 'end of parameters' or with `pandas_categorical`, got "
            f"{tail[-20:]!r}; file cut off?"
        )
    return ModelText(header, [_fields(f"Tree={block}") for block in blocks], tail.split("\n"))


def _check_trees(header: Fields, blocks: Sequence[str]) -> None:
    """Raise ModelFileError unless the trees have the sizes that `tree_sizes` announces."""
    # LightGBM always writes `tree_sizes`, but also reads texts without it.
    n_bytes = [len(f"Tree={block}\n".encode()) for block in blocks]  # with the line end that split() took away
    sizes = [whole_number(size) for size in header["tree_sizes"].split()] if "tree_sizes" in header else n_bytes
    if len(sizes) != len(blocks):
        raise ModelFileError(
            f"the model must have {len(sizes)} trees as `tree_sizes` says, got {len(blocks)}; file cut off?"
        )
    for number, block in enumerate(blocks):
        if not block.startswith(f"{number}\n") or n_bytes[number] != sizes[number]:
            raise damaged(
                f"tree {number} must have {sizes[number]} bytes as `tree_sizes` says, got {n_bytes[number]} bytes of "
                f"tree {block[:10].partition(chr(10))[0]}"
            )


def _fields(block: str) -> Fields:
    """Return a block of lines such as "num_leaves=31" as values by name."""
    # Not splitlines(): names may contain what Unicode considers line ends.
    lines = [line for line in block.split("\n") if line]
    fields = {key: value for key, _, value in (line.partition("=") for line in lines)}
    bare = [line for line in lines if "=" not in line and line not in _BARE_LINES]
    if bare:
        raise damaged(f"lines of {lines[0]!r:.20} must be names and values, got {bare[0]!r:.40}")
    if len(fields) < len(lines):
        raise damaged(f"lines of {lines[0]!r:.20} must have names of their own, got one twice")
    return fields


def version_of(text: str) -> tuple[int, ...]:
    """Return the format's number as (4,) for the line "version=v4"; empty without it."""
    match = re.match(r"tree\nversion=v(\d{1,9})\n", text)
    return (int(match[1]),) if match else ()


@dataclasses.dataclass(frozen=True)
class Splits:
    """The inner nodes of all trees, tree after tree; `set_number` is that of the bit set, -1 at numeric splits."""

    tree: Ints
    feature: Ints
    bound: Floats  # closed, on the raw value
    missing_left: Bools
    zero_missing: Bools
    set_number: Ints

    @property
    def is_category(self) -> Bools:
        return self.set_number >= 0


def read_splits(text: ModelText, n_splits: Ints, n_sets: Ints, n_features: int) -> Splits:
    """Return the splits of all trees; `n_splits` and `n_sets` count the splits and category sets of each tree."""
    feature = text.numbers("split_feature", n_splits)
    is_valid = (feature >= 0) & (feature < n_features)
    check_values(f"the model's trees must split on {n_features} features", feature, is_valid)
    decision = text.numbers("decision_type", n_splits)
    missing_type = decision >> 2  # 0: NaN counts as zero, 1: zero is missing too, 2: NaN is missing
    check_values("the model's decision types must be 0 to 11", decision, (decision >= 0) & (missing_type <= 2))
    threshold, is_category = text.numbers("threshold", n_splits, float), decision & 1 > 0
    # All values that LightGBM treats as zero go the same way.
    bound = np.where((threshold >= 0) & (threshold < NEAR_ZERO), NEAR_ZERO, threshold)
    bound = np.where((threshold < 0) & (threshold >= -NEAR_ZERO), np.nextafter(-NEAR_ZERO, -np.inf), bound)
    missing_left = np.where(missing_type == _MISSING_AS_ZERO, threshold >= 0, decision & 2 > 0)
    tree = np.repeat(np.arange(len(text.trees)), n_splits)
    # At a category split, the threshold is the number of a set among those of its tree; `set_number` is that among all.
    in_tree, set_number = threshold[is_category], np.full(len(threshold), -1)
    is_valid = (in_tree >= 0) & (in_tree < n_sets[tree[is_category]]) & (np.trunc(in_tree) == in_tree)
    check_values("the model's category splits must name sets that exist", in_tree, is_valid)
    set_number[is_category] = block_starts(n_sets)[tree[is_category]] + in_tree.astype(np.int64)
    if len(np.unique(set_number[is_category])) < len(in_tree):
        raise damaged("the model's category splits must have a set each, got one used twice")
    return Splits(
        tree=tree,
        feature=feature,
        bound=np.where(is_category, np.nan, bound),
        missing_left=missing_left & ~is_category,
        zero_missing=(missing_type == _ZERO_IS_MISSING) & ~is_category,
        set_number=set_number,
    )


def read_members(text: ModelText, splits: Splits, n_sets: Ints) -> Members:
    """Return all members of category sets, bits of the field cat_threshold, as arrays of splits and of codes."""
    # Where the words of each set begin and the last one ends, by tree; none for a tree without sets.
    n_boundaries = np.where(n_sets > 0, n_sets + 1, 0)
    boundaries = text.numbers("cat_boundaries", n_boundaries)
    first = block_starts(n_boundaries)[n_sets > 0]
    set_sizes = np.delete(np.diff(boundaries, prepend=0), first)  # in words
    rule = "the model's category sets must follow one another, from word 0"
    check_values(rule, boundaries[first], boundaries[first] == 0)
    check_values(f"{rule}, with 0 to {_MAX_WORDS} words", set_sizes, (set_sizes >= 0) & (set_sizes <= _MAX_WORDS))
    tree_of_set = np.repeat(np.arange(len(text.trees)), n_sets)
    n_words = np.bincount(tree_of_set, set_sizes, len(text.trees)).astype(np.int64)
    words = text.numbers("cat_threshold", n_words)
    check_values("the model's category sets must be 32-bit words", words, (words >= 0) & (words < 1 << 32))
    nonzero = np.flatnonzero(words)
    bits = np.unpackbits(words[nonzero].astype("<u4").view(np.uint8).reshape(-1, 4), axis=1, bitorder="little")
    check_size("category sets", int(np.count_nonzero(bits)), _MAX_MEMBERS)
    word_row, bit = np.nonzero(bits)
    word = nonzero[word_row]
    set_number = np.repeat(np.arange(len(set_sizes)), set_sizes)[word]
    split_of_set = np.full(len(set_sizes), -1)  # -1 for a set that no split uses
    split_of_set[splits.set_number[splits.is_category]] = np.flatnonzero(splits.is_category)
    split, code = split_of_set[set_number], 32 * (word - block_starts(set_sizes)[set_number]) + bit
    return split[split >= 0], code[split >= 0]


def feature_names(text: ModelText) -> list[str]:
    """Return the field feature_names; ModelFileError unless there is one name per feature."""
    names = text.header.get("feature_names", "").split(" ")
    n_features = whole_number(text.header.get("max_feature_idx", "")) + 1
    if len(names) != n_features or len(set(names)) < n_features:
        raise damaged(f"`feature_names` must be {n_features} different names, got {len(names)}")
    return names


def encoders_of(text: ModelText, splits: Splits, members: Members, n_features: int) -> list[Encoder]:
    """Return an encoder per feature, by the kind of its splits, or by the training parameters if it has none."""
    columns = _training_columns(text, n_features)
    labels = _pandas_labels(text, columns)
    in_sets = np.bincount(splits.feature[splits.is_category], minlength=n_features) > 0
    in_numbers = np.bincount(splits.feature[~splits.is_category], minlength=n_features) > 0
    both = np.flatnonzero(in_sets & in_numbers)  # features with splits of both kinds
    if len(both):
        raise UnsupportedModelError(
            f"the model splits feature {both[0]} as a number in some trees and as a category in others (training was "
            "continued with other categorical features); train it in one go."
        )
    split, code = members
    keys = np.unique((splits.feature[split] << 32) + code)  # a feature and a code in one number
    check_size("categories", len(keys), _MAX_CATEGORIES)
    codes = np.split(keys & 0xFFFFFFFF, np.searchsorted(keys >> 32, np.arange(1, n_features)))
    is_category = in_sets | (np.array([trained is not None for trained, _, _ in columns], dtype=bool) & ~in_numbers)
    return [
        _encoder_of(trained or (), labels.get(j), codes[j], is_category=bool(is_category[j]))
        for j, (trained, _, _) in enumerate(columns)
    ]


def _training_columns(text: ModelText, n_features: int) -> list[TrainingColumn]:
    """Return what the field feature_infos says of each feature: categories (None: numeric), lowest, highest value."""
    infos = text.header.get("feature_infos", "").split(" ")
    if len(infos) != n_features:
        raise damaged(f"`feature_infos` must have {n_features} entries, got {len(infos)}")
    tokens = text.tail_entry("[categorical_feature: ", "").rstrip("]").split(",")
    declared = {int(token) for token in tokens if token.strip().isdecimal()}
    columns: list[TrainingColumn] = []
    for j, info in enumerate(infos):
        if info.startswith("[") or info == "none":
            # "[lowest:highest]", or "none" for a feature that training did not use: an empty range.
            low, high = (0.0, -1.0) if info == "none" else map(decimal_number, info.strip("[]").split(":"))
            columns.append((() if j in declared else None, low, high))  # (): a category of which none was kept
            continue
        codes = tuple(sorted({whole_number(token) for token in info.split(":")} - {-1}))  # -1: of missing values
        if codes and not 0 <= codes[0] <= codes[-1] < 1 << 31:
            raise damaged(f"the model's categories must be codes of 31 bits, got {codes[0]} to {codes[-1]}")
        columns.append((codes, 0.0, float(max(codes, default=-1))))
    return columns


def _pandas_labels(text: ModelText, columns: list[TrainingColumn]) -> dict[int, tuple[Hashable, ...]]:
    """Return labels by feature for category columns of pandas, from the field pandas_categorical."""
    # The text lists labels in column order without names. Usually these columns are the model's category features; if
    # not, the lists are placed in order if there is only one way to do so; otherwise the model is refused.
    lists = json.loads(text.tail_entry("pandas_categorical:", "null")) or []
    is_sound = isinstance(lists, list) and all(
        isinstance(labels, list)
        and all(isinstance(label, (str, int, float)) for label in labels)
        and len(set(labels)) == len(labels)
        for labels in lists
    )
    if not is_sound:
        raise damaged(f"`pandas_categorical` must list labels of categories, got {str(lists)[:40]}")
    labels: list[tuple[Hashable, ...]] = [tuple(column_labels) for column_labels in lists]
    categories = [j for j, (codes, _, _) in enumerate(columns) if codes is not None]
    candidates = categories if len(labels) <= len(categories) else list(range(len(columns)))
    first = _earliest_columns(labels, columns, candidates)
    last = _earliest_columns(labels[::-1], columns, candidates[::-1])[::-1]  # reversed: the latest columns
    if len(first) < len(labels) or first != last:
        raise UnsupportedModelError(
            f"the model was trained on a table with {len(labels)} category columns and does not tell which they are: "
            "some were ordered or not in categorical_feature=; train with unordered category columns, or with codes."
        )
    return dict(zip(first, labels, strict=True))


def _earliest_columns(
    labels: Sequence[Sequence[Hashable]], columns: list[TrainingColumn], candidates: Sequence[int]
) -> list[int]:
    """Return the first of the candidate columns that can hold each list of labels; fewer if some have no place."""
    # Earliest from the left and from the right enclose all placements, so they agree only if there is just one.
    places: list[int] = []
    for j in candidates:
        _, low, high = columns[j]
        is_code = low.is_integer() and high.is_integer() and low >= 0
        if is_code and len(places) < len(labels) and high < len(labels[len(places)]):
            places.append(j)
    return places


def _encoder_of(
    trained: Sequence[int], labels: tuple[Hashable, ...] | None, codes: Ints, *, is_category: bool
) -> Encoder:
    """Return a feature's encoder; `trained` are codes in training, `codes` those in splits."""
    if labels is not None:
        if codes.max(initial=-1) >= len(labels):
            raise damaged(
                f"the model's category sets must hold listed categories, got code {codes.max()} of {len(labels)}"
            )
        return Labels(labels, numbers_are_codes=True, is_ordered=not is_category)
    return IntegerCategory(tuple(sorted({*trained, *codes.tolist()}))) if is_category else Numeric()


def forest_of(text: ModelText, classes: Any) -> Forest:
    """Build the forest. Nodes: the inner nodes of all trees, then their leaves, both tree after tree."""
    if any(tree.get("is_linear", "0") != "0" for tree in text.trees):
        raise UnsupportedModelError(
            "`model` must have constant leaves, got linear_tree=True, whose leaves are linear functions; train it "
            "without."
        )
    names, n_outputs = feature_names(text), whole_number(text.header.get("num_tree_per_iteration", ""))
    if n_outputs < 1:
        raise damaged(f"`num_tree_per_iteration` must be positive, got {n_outputs}")
    if n_outputs > _MAX_OUTPUTS or len(text.trees) % n_outputs:
        raise damaged(f"the model must have as many trees for each of {n_outputs} outputs, got {len(text.trees)}")
    one_each = np.ones(len(text.trees), dtype=np.int64)
    n_leaves, n_sets = text.numbers("num_leaves", one_each), text.numbers("num_cat", one_each)
    check_values("the model's trees must have leaves", n_leaves, n_leaves >= 1)
    check_values("the model's trees must have 0 or more category sets", n_sets, n_sets >= 0)
    splits = read_splits(text, n_leaves - 1, n_sets, len(names))
    members = read_members(text, splits, n_sets)
    encoders = encoders_of(text, splits, members, len(names))
    n_categories = np.array([len(encoder.labels or ()) for encoder in encoders], dtype=np.int64)
    category_start, category_left = checks.category_tables(
        "category tables",
        np.where(splits.is_category, n_categories[splits.feature] + 1, 0),
        members[0],
        _positions_of_codes(splits.feature[members[0]], members[1], encoders),
        _MAX_ENTRIES,
    )
    left, right = (_child_positions(text, key, splits.tree, n_leaves) for key in ("left_child", "right_child"))
    n_splits = len(splits.tree)
    at_leaves = np.full(int(n_leaves.sum()), -1)  # entries of fields that only inner nodes have
    label = np.arange(len(at_leaves)) - np.repeat(block_starts(n_leaves), n_leaves)
    return assemble(
        _schema(text, names, encoders, n_outputs, classes),
        np.zeros(n_outputs),
        roots=np.where(n_leaves > 1, block_starts(n_leaves - 1), n_splits + block_starts(n_leaves)),
        feature=np.concatenate([splits.feature, at_leaves]),
        bound=np.concatenate([splits.bound, at_leaves]),
        left=np.concatenate([left, at_leaves]),
        right=np.concatenate([right, at_leaves]),
        missing_left=np.concatenate([splits.missing_left, at_leaves > 0]),
        zero_missing=np.concatenate([splits.zero_missing, at_leaves > 0]),
        category_start=np.concatenate([category_start, at_leaves]),
        category_left=category_left,
        values=_leaf_values(text, n_leaves, n_outputs),
        leaf_label=np.concatenate([np.zeros(n_splits, dtype=np.int64), label]),
    )


def _child_positions(text: ModelText, key: str, tree: Ints, n_leaves: Ints) -> Ints:
    """Return positions of children among all nodes; the field has numbers in the tree, of leaves as -1 - number."""
    child = text.numbers(key, n_leaves - 1)
    n_in_tree = n_leaves[tree]
    check_values("the model's trees must link nodes that exist", child, (child < n_in_tree - 1) & (child >= -n_in_tree))
    first_split, first_leaf = block_starts(n_leaves - 1)[tree], len(tree) + block_starts(n_leaves)[tree]
    return np.where(child >= 0, first_split + child, first_leaf - 1 - child)


def _leaf_values(text: ModelText, n_leaves: Ints, n_outputs: int) -> Floats:
    """Return values, (nodes, outputs), zero at inner nodes, which come first; tree i has output i mod n_outputs."""
    leaf_value = text.numbers("leaf_value", n_leaves, float)
    if "average_output" in text.header:
        leaf_value /= max(1, len(text.trees) // n_outputs)
    n_splits = len(leaf_value) - len(n_leaves)
    check_size("leaf values", (n_splits + len(leaf_value)) * n_outputs, _MAX_ENTRIES)
    output = np.repeat(np.arange(len(n_leaves)) % n_outputs, n_leaves)
    return np.concatenate([np.zeros((n_splits, n_outputs)), in_column(leaf_value, output, n_outputs)])


def _positions_of_codes(feature: Ints, code: Ints, encoders: list[Encoder]) -> Ints:
    """Return the position of each code among the categories of its feature, as the feature's encoder counts them."""
    codes = [e.code_values if isinstance(e, IntegerCategory) else range(len(e.labels or ())) for e in encoders]
    sizes = np.array([len(feature_codes) for feature_codes in codes], dtype=np.int64)
    sorted_keys = np.fromiter(itertools.chain.from_iterable(codes), np.int64, int(sizes.sum()))
    sorted_keys += np.repeat(np.arange(len(codes)) << 32, sizes)  # a feature and a code in one number
    return np.searchsorted(sorted_keys, (feature << 32) + code) - block_starts(sizes)[feature]


def _schema(text: ModelText, names: list[str], encoders: list[Encoder], n_outputs: int, classes: Any) -> Schema:
    """Return the schema; `classes` are labels from an estimator, None without one."""
    named = names != [f"Column_{j}" for j in range(len(names))]
    names = names if named else [f"x{j}" for j in range(len(names))]
    link, objective = _link_and_objective(text, n_outputs)
    return Schema(
        features=tuple(Feature(name, encoder) for name, encoder in zip(names, encoders, strict=True)),
        outputs=output_names(n_outputs, () if classes is None else classes, prefix=""),
        link=link,
        named=named,
        underscores=True,
        single_integers=True,
        classes=() if classes is None else plain_labels(classes),
        predicts_share=classes is None and text.header.get("objective", "").split(" ")[0] == "cross_entropy",
        objective=objective,
    )


def _link_and_objective(text: ModelText, n_outputs: int) -> tuple[str, str]:
    """Return our words for link and objective; the link is "other" if `predict` changes the score otherwise."""
    stated = text.header.get("objective", "")
    name, *options = stated.split() or [""]
    link, objective = link_and_objective(name, _LOSSES)
    if link != "other" and (n_outputs > 1) != (name in _MULTICLASS):
        raise damaged(f"a model of objective {name} cannot have {n_outputs} outputs")
    if any(option.startswith("sigmoid:") and decimal_number(option[8:]) != 1 for option in options):
        return "other", stated
    if objective in _PARAMETERS:
        parameter = text.tail_entry(f"[{_PARAMETERS[objective]}: ", "").rstrip("]")
        objective = objective_text(objective, float(parameter)) if parameter else name
    if "sqrt" in options:
        return "other", f"{objective} of sqrt"
    return link if name else "identity", objective  # without one, it is custom: predict returns the raw score


def read(model: Any) -> Forest:
    """Read a Booster or an estimator from the text that LightGBM writes of it."""
    booster = _booster_of(model)
    try:
        text = booster.model_to_string()
    except (TypeError, ValueError) as error:  # categories such as intervals, which LightGBM cannot write
        raise UnsupportedModelError(
            f"`model` must be one that LightGBM can save, got {type(error).__name__} ({error}); train on text "
            "categories."
        ) from error
    classes = getattr(model, "classes_", None)
    return checks.read_live(
        "lightgbm",
        lambda: forest_of(parse(text), classes),
        lambda forest: functools.partial(_score_of, booster, forest),
    )


def read_file(path: pathlib.Path) -> Forest:
    """Read a text file of LightGBM, and compare with the library's predictions if it is installed."""
    with checks.damage_reported("a LightGBM text model", path):
        text = path.read_bytes().decode().replace("\r\n", "\n")

        def load(library: Any, forest: Forest) -> checks.Predict | None:  # None if this LightGBM is older than the file
            booster = library.Booster(model_str=text)
            is_older = version_of(booster.model_to_string()) < version_of(text)
            return None if is_older else functools.partial(_score_of, booster, forest)

        return checks.read_stored("lightgbm text", version_of(text), lambda: forest_of(parse(text), None), load)


def _score_of(booster: Any, forest: Forest, rows: Floats) -> Floats:
    """Return LightGBM's own raw prediction at encoded rows, the mean of trees if the forest is one."""
    raw = rows.copy()
    for j, feature in enumerate(forest.schema.features):
        if isinstance(feature.encoder, IntegerCategory):
            # Positions of categories become codes again; the position of unseen ones becomes a code that none has.
            is_code = np.isfinite(rows[:, j])
            codes = np.append(feature.encoder.code_values, max(feature.encoder.code_values, default=-1) + 1)
            raw[is_code, j] = codes[rows[is_code, j].astype(np.int64)]
    score = np.asarray(booster.predict(raw, raw_score=True), dtype=np.float64).reshape(len(rows), -1)
    is_mean = "\naverage_output\n" in booster.model_to_string(num_iteration=1)
    return score / max(1, forest.n_trees // forest.n_outputs) if is_mean else score


def _booster_of(model: Any) -> Any:
    """Return the Booster that a model is or has; UnsupportedModelError if it has none or uses it differently."""
    if isinstance(getattr(model, "boosters", None), list):
        raise UnsupportedModelError(
            f"`model` must be one model, got a CVBooster of {len(model.boosters)}; pass one of its `boosters`."
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
