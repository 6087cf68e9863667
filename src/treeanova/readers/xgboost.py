"""XGBoost models and their files (.json, .ubj) as a Forest.

What this relies on, all measured with XGBoost 3.0 to 3.4:

- A value is cast to float32 and goes left when below the threshold; NaN, absent sparse entries and values equal to
  ``missing`` in float32 go the node's default way.
- A category in the node's list goes right, any other code left. Codes are cast to float32, fractions are cut, negative
  codes are in no list. A matrix holds codes; a table's column of categories is matched by label.
- Scores are summed in float32 from the base margin on; the Forest holds the same numbers and sums in float64.
- The wrappers predict with the iterations up to ``best_iteration``, a plain Booster with all of them. Files that a
  wrapper wrote have the attribute ``scikit_learn``.
- Weights of trees (dropout) are in ``weight_drop``: of the booster "dart" up to 3.2, of "gbtree" in 3.3, of its model
  from 3.4 on.
- XGBoost crashes the process on some damaged files, so files are given to it only where they are of a later version
  than known, and after they were read here.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import itertools
import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.data.features import Encoder, Feature, Schema
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.forest import Forest, assemble, bound_below
from treeanova.readers import ubjson, versions
from treeanova.readers.xgboost_columns import CodedCategory, NamedCategory, Number, Reading, Singles, singles

Document = dict[str, Any]

_LOGISTIC = {"binary:logistic", "reg:logistic"}
_LOG = {"count:poisson", "reg:gamma", "reg:tweedie", "survival:aft", "survival:cox"}
_SOFTMAX = {"multi:softprob", "multi:softmax"}
_IDENTITY = {
    "binary:logitraw",
    "rank:map",
    "rank:ndcg",
    "rank:pairwise",
    "reg:absoluteerror",
    "reg:linear",
    "reg:pseudohubererror",
    "reg:quantileerror",
    "reg:squarederror",
    "reg:squaredlogerror",
}
# The margin is a plain sum; what `predict` makes of it (0 or 1) is no link.
_OTHER = {"binary:hinge"}
_COUNTS_BYTES = (3, 4)  # since then, names of categories from pandas are stored whole
_MOST_FEATURES = 1 << 20
_MOST_CATEGORIES = 1 << 20
_MOST_OUTPUTS = 1 << 16
_MOST_ENTRIES = 1 << 27


def read(model: Any) -> Forest:
    """The Forest of a fitted Booster or scikit-learn wrapper, with the trees that its `predict` uses.

    Raises UnsupportedModelError for models that are not fitted and for what is no sum of trees.
    """
    booster = _booster(model)
    last = None if model is booster else getattr(model, "best_iteration", None)
    return versions.read_live(
        "xgboost", lambda: _read_live(model, booster, last), lambda _: functools.partial(_margin_of, booster, last)
    )


def _read_live(model: Any, booster: Any, last: int | None) -> Forest:
    raw, missing = _raw(booster), getattr(model, "missing", np.nan)
    with _understood("the model"):
        document = ubjson.decode(raw)
        learner = _learner(document)
        return _forest(
            learner,
            document["version"],
            margin=_asked_margin(booster, learner, document["version"]),
            last=last,
            missing=np.nan if missing is None else float(missing),
            link="other" if callable(getattr(model, "objective", None)) else _link(learner),
        )


def read_file(path: str | pathlib.Path) -> Forest:
    """The Forest of a file that ``save_model`` wrote as .json or .ubj; XGBoost itself is not needed.

    A file does not hold the wrappers' ``missing``: missing values are NaN here.
    """
    path = pathlib.Path(path)
    data = path.read_bytes()
    with _understood(path.name):
        document = _parsed(data)
        version = tuple(int(number) for number in document["version"])
        attributes = document["learner"].get("attributes", {})
        best = attributes.get("best_iteration") if "scikit_learn" in attributes else None
        last = None if best is None else int(best)

    def load(library: Any, _: Forest) -> versions.Predict | None:
        if versions.numbers(library.__version__) < version:
            return None
        return functools.partial(_margin_of, library.Booster(model_file=bytearray(data)), last)

    return versions.read_stored("xgboost", version, lambda: _read_document(document, path.name, last), load)


def _read_document(document: Document, name: str, last: int | None) -> Forest:
    with _understood(name):
        learner = _learner(document)
        return _forest(
            learner,
            document["version"],
            margin=_own_margin(learner, document["version"]),
            last=last,
            missing=np.nan,
            link=_link(learner),
        )


def _margin_of(booster: Any, last: int | None, rows: Floats) -> npt.ArrayLike:
    """XGBoost's own raw prediction of encoded rows."""
    margin: npt.ArrayLike = booster.inplace_predict(
        rows, iteration_range=(0, 0 if last is None else last + 1), predict_type="margin", validate_features=False
    )
    return margin


@contextlib.contextmanager
def _understood(what: str) -> Iterator[None]:
    """Turns what goes wrong with damaged documents into one error."""
    try:
        yield
    except (ModelFileError, UnsupportedModelError):
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"[:200]
        raise ModelFileError(
            f"{what} must be an XGBoost model, got something else ({reason}); file damaged?"
        ) from error


def _parsed(data: bytes) -> Any:
    """The document in a file of either format, told apart by what follows the first brace."""
    if data[:1] != b"{":
        raise ValueError("it starts with no brace; only .json and .ubj files can be read")
    return ubjson.decode(data) if data[1:2] in {b"L", b"i", b"U", b"I", b"l", b"#", b"$"} else json.loads(data)


def _learner(document: Any) -> Document:
    learner: Document = document["learner"]
    name = learner["gradient_booster"]["name"]
    if name not in {"gbtree", "dart"}:
        raise UnsupportedModelError(f"an XGBoost model must be made of trees, got booster {name!r}, which has none.")
    return learner


# --- live models


def _booster(model: Any) -> Any:
    """The Booster of a wrapper, or the model itself."""
    if not hasattr(model, "get_booster"):
        if not hasattr(model, "save_raw"):
            raise UnsupportedModelError(f"an XGBoost model must be a Booster or a wrapper, got {type(model).__name__}.")
        return model
    try:
        return model.get_booster()
    except ValueError as error:  # scikit-learn's NotFittedError
        raise UnsupportedModelError(f"{type(model).__name__} must be fitted, got it unfitted; fit it first.") from error


def _raw(booster: Any) -> bytes:
    try:
        return bytes(booster.save_raw("ubj"))
    except ValueError as error:  # XGBoostError
        if "0 feature" not in str(error):
            raise
        raise UnsupportedModelError("Booster must be fitted, got one without features; fit it first.") from error


def _asked_margin(booster: Any, learner: Document, version: Any) -> Floats:
    """The base margin as XGBoost gives it: what the model without its trees predicts."""
    model = {**_tree_model(learner), "trees": [], "tree_info": [], "iteration_indptr": [0]}
    model.pop("weight_drop", None)
    model["gbtree_model_param"] = {**model["gbtree_model_param"], "num_trees": "0"}
    model["cats"] = {"enc": [], "feature_segments": [], "sorted_idx": []}
    bare = {
        **learner,
        "attributes": {},
        "feature_names": [],
        "feature_types": [],
        "gradient_booster": {"name": "gbtree", "model": model},
        # else XGBoost estimates the base score anew
        "learner_model_param": {**learner["learner_model_param"], "boost_from_average": "0"},
    }
    text = json.dumps({"learner": bare, "version": version}, default=lambda array: array.tolist())
    asked = type(booster)(model_file=bytearray(text, "utf-8"))
    row = np.zeros((1, _count(learner["learner_model_param"], "num_feature")), dtype=np.float32)
    return np.asarray(asked.inplace_predict(row, predict_type="margin"), dtype=np.float64).reshape(-1)


# --- base margin and link


def _objective(learner: Document) -> str:
    return str(learner["objective"]["name"])


def _link(learner: Document) -> str:
    name = _objective(learner)
    links = {"logit": _LOGISTIC, "softmax": _SOFTMAX, "log": _LOG, "identity": _IDENTITY}
    return next((link for link, names in links.items() if name in names), "other")


def _own_margin(learner: Document, version: Any) -> Floats:
    """The base margin from the stored base score, in float32 as XGBoost computes it."""
    name = _objective(learner)
    if name not in _LOGISTIC | _LOG | _SOFTMAX | _IDENTITY | _OTHER:
        raise UnsupportedModelError(
            f"an XGBoost file must have a known objective, got {name!r}: its base is not known."
        )
    if name == "binary:logitraw" and tuple(version) < (3, 2):
        raise UnsupportedModelError(
            "an XGBoost file with objective 'binary:logitraw' must be of version 3.2 or later, got an older one, whose "
            "base score may mean something else; pass the loaded model."
        )
    score = json.loads(learner["learner_model_param"]["base_score"])
    base = np.asarray(score, dtype=np.float64).astype(np.float32).reshape(-1)
    with np.errstate(all="ignore"):
        margin = _logit(base) if name in _LOGISTIC else _log(base) if name in _LOG else base
    return margin.astype(np.float64)


def _log(values: Singles) -> Singles:
    """float32 logarithms by the C library's logf, which XGBoost calls; logarithms rounded once differ in 1 of 100."""
    try:
        logf = ctypes.CDLL(None).logf
    except (AttributeError, OSError, TypeError):  # no such library to be found: at most one unit in the last place
        return np.log(values.astype(np.float64)).astype(np.float32)
    logf.argtypes, logf.restype = [ctypes.c_float], ctypes.c_float
    return np.array([logf(value) for value in values], dtype=np.float32)


def _logit(base: Singles) -> Singles:
    one, least = np.float32(1), np.float32(1e-6)
    return -_log(one / np.clip(base, least, one - least) - one)


# --- document to forest


def _count(parameters: Document, name: str) -> int:
    """A parameter that counts something; absent means 0."""
    count = int(parameters.get(name, 0))
    if count < 0:
        raise ValueError(f"{name} is {count}")
    return count


def _tree_model(learner: Document) -> Document:
    booster = learner["gradient_booster"]
    model: Document = (booster["gbtree"] if booster["name"] == "dart" else booster)["model"]
    return model


def _n_outputs(learner: Document) -> int:
    parameters = learner["learner_model_param"]
    n_outputs = max(1, _count(parameters, "num_class"), _count(parameters, "num_target"))
    if n_outputs > _MOST_OUTPUTS:
        raise UnsupportedModelError(f"an XGBoost model must have at most {_MOST_OUTPUTS} outputs, got {n_outputs}.")
    return n_outputs


def _forest(
    learner: Document, version: Sequence[int], *, margin: Floats, last: int | None, missing: float, link: str
) -> Forest:
    """The Forest of a document with the iterations up to and including `last` (None: all)."""
    n_outputs = _n_outputs(learner)
    trees = _tree_model(learner)["trees"][: _n_trees(_tree_model(learner), n_outputs, last)]
    nodes = _nodes(trees)
    schema = Schema(
        features=_features(learner, nodes, missing, counts_bytes=tuple(version) >= _COUNTS_BYTES),
        outputs=_outputs(learner, n_outputs),
        link=link,
        named=bool(learner.get("feature_names")),
        absent=np.nan,
    )
    category_start, category_left = _category_sets(nodes, schema.features)
    return assemble(
        schema,
        _intercept(margin, n_outputs),
        roots=nodes.starts,
        feature=nodes.feature,
        bound=bound_below(nodes.condition),
        left=nodes.left,
        right=nodes.right,
        missing_left=nodes.default_left,
        values=_values(learner, trees, nodes, n_outputs),
        leaf_label=nodes.label,
        category_start=category_start,
        category_left=category_left,
    )


def _intercept(margin: Floats, n_outputs: int) -> Floats:
    if len(margin) not in {1, n_outputs}:
        raise ValueError(f"{len(margin)} base scores for {n_outputs} outputs")
    if not np.isfinite(margin).all():
        raise UnsupportedModelError(
            "an XGBoost model must have a finite base margin, got an infinite one; its base score is out of range."
        )
    return np.broadcast_to(margin, n_outputs).copy()


def _outputs(learner: Document, n_outputs: int) -> tuple[str, ...]:
    """Names of outputs: quantiles by their level, others by their number."""
    if n_outputs == 1:
        return ("score",)
    quantiles = str(learner["objective"].get("quantile_loss_param", {}).get("quantile_alpha", ""))
    levels = quantiles.strip("[]").split(",")
    return tuple(f"{float(level):g}" for level in levels) if len(levels) == n_outputs else _numbered(n_outputs)


def _numbered(n_outputs: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(n_outputs))


def _n_trees(model: Document, n_outputs: int, last: int | None) -> int:
    """Number of trees of the iterations up to and including `last`."""
    if last is None or last == -1:  # XGBoost takes an end of 0 for all
        return len(model["trees"])
    ends = model["iteration_indptr"] if "iteration_indptr" in model else _ends(model, n_outputs)
    if not 0 <= last < len(ends) - 1:
        raise UnsupportedModelError(
            f"an XGBoost model must have the iterations up to its best, got best_iteration {last} of {len(ends) - 1}."
        )
    return int(ends[last + 1])


def _ends(model: Document, n_outputs: int) -> range:
    """Where iterations end, for files without `iteration_indptr`; these have no vector leaves."""
    size = max(1, _count(model["gbtree_model_param"], "num_parallel_tree")) * n_outputs
    return range(0, len(model["trees"]) + 1, size)


# --- nodes


@dataclasses.dataclass(frozen=True, eq=False)
class _Nodes:
    """Nodes of all trees in one row; children are positions in it, -1 at leaves.

    `slot` is the stored right child: at a leaf with a vector, the vector's number. `listed` are the nodes with a list
    of categories, `listed_sizes` the lists' lengths, `categories` the lists in one row.
    """

    starts: Ints
    sizes: Ints
    label: Ints
    left: Ints
    right: Ints
    slot: Ints
    feature: Ints
    condition: Singles
    default_left: Bools
    listed: Ints
    listed_sizes: Ints
    categories: Ints

    @property
    def is_inner(self) -> Bools:
        """Nodes that are no leaves."""
        return self.left >= 0

    @property
    def is_category(self) -> Bools:
        """Nodes with a list of categories."""
        result = np.zeros(len(self.left), dtype=bool)
        result[self.listed] = True
        return result


def _nodes(trees: Sequence[Document]) -> _Nodes:
    """The nodes of some trees, checked to link nodes of their own tree."""
    left, sizes = _joined(trees, "left_children")
    slot = _aligned(trees, "right_children", sizes)
    _check_children(left, slot, sizes)
    starts = np.cumsum(sizes) - sizes
    shift = np.repeat(starts, sizes)
    listed, listed_sizes, categories = _lists(trees, starts, sizes)
    return _Nodes(
        starts=starts,
        sizes=sizes,
        label=np.arange(len(left)) - shift,
        left=np.where(left < 0, -1, left + shift),
        right=np.where(left < 0, -1, slot + shift),
        slot=slot,
        feature=_aligned(trees, "split_indices", sizes),
        condition=_aligned(trees, "split_conditions", sizes, "fiu"),
        default_left=_aligned(trees, "default_left", sizes) != 0,
        listed=listed,
        listed_sizes=listed_sizes,
        categories=categories,
    )


def _joined(trees: Sequence[Document], key: str, kinds: str = "biu") -> tuple[npt.NDArray[Any], Ints]:
    """The arrays of all trees in one row, as int64 or, where `kinds` has f, as float32; and the length of each."""
    arrays = [np.asarray(tree[key]) for tree in trees]
    if any(array.ndim != 1 or (array.dtype.kind not in kinds and len(array)) for array in arrays):
        raise ValueError(f"{key} must hold numbers")
    joined = np.concatenate([np.zeros(0, dtype=np.int8), *arrays])
    lengths = np.array([len(array) for array in arrays], dtype=np.int64)
    return singles(joined) if "f" in kinds else joined.astype(np.int64), lengths


def _aligned(trees: Sequence[Document], key: str, lengths: Ints, kinds: str = "biu") -> npt.NDArray[Any]:
    """The arrays of all trees in one row; they must have these lengths."""
    joined, found = _joined(trees, key, kinds)
    if not np.array_equal(found, lengths):
        raise ValueError(f"{key} must have as many entries as the others")
    return joined


def _check_children(left: Ints, right: Ints, sizes: Ints) -> None:
    size = np.repeat(sizes, sizes)
    if not sizes.all() or (left < -1).any() or (left >= size).any():
        raise ValueError("left_children must be nodes of their tree")
    if ((left >= 0) & ((right < 0) | (right >= size))).any():
        raise ValueError("right_children must be nodes of their tree")


def _values(learner: Document, trees: Sequence[Document], nodes: _Nodes, n_outputs: int) -> Singles:
    """Leaf values times weights of trees, in float32 as XGBoost multiplies; shape (n_nodes, n_outputs)."""
    if len(nodes.left) * n_outputs > _MOST_ENTRIES:
        raise UnsupportedModelError(
            f"an XGBoost model must have at most {_MOST_ENTRIES} nodes × outputs, got {len(nodes.left)} × {n_outputs}."
        )
    weight = np.repeat(_tree_weights(learner, len(trees)), nodes.sizes)
    with np.errstate(all="ignore"):
        if any(_count(tree["tree_param"], "size_leaf_vector") > 1 for tree in trees):
            return _vectors(trees, nodes, n_outputs) * weight[:, None]
        return _scattered(nodes.condition * weight, learner, nodes, n_outputs)


def _tree_weights(learner: Document, n_trees: int) -> Singles:
    """Weights of the trees that dropout has left, wherever a version of XGBoost puts them; 1 without dropout."""
    booster, model = learner["gradient_booster"], _tree_model(learner)
    stored = [place["weight_drop"] for place in (booster, model) if "weight_drop" in place]
    if not stored and booster["name"] != "dart":
        return np.ones(n_trees, dtype=np.float32)
    if len(stored) != 1 or len(stored[0]) < len(model["trees"]):
        raise ValueError("weight_drop must have an entry per tree")
    return singles(stored[0][:n_trees])


def _scattered(leaf: Singles, learner: Document, nodes: _Nodes, n_outputs: int) -> Singles:
    """Values of the nodes at the output of their tree, zero at the other outputs."""
    n_trees = len(nodes.sizes)
    output = np.asarray(_tree_model(learner)["tree_info"][:n_trees])
    if n_trees and (len(output) != n_trees or n_outputs > n_trees or output.min() < 0 or output.max() >= n_outputs):
        raise ValueError(f"tree_info must tell which of {n_outputs} outputs each tree is for")
    values = np.zeros((len(leaf), n_outputs), dtype=np.float32)
    values[np.arange(len(leaf)), np.repeat(output, nodes.sizes).astype(np.int64)] = leaf
    return values


def _vectors(trees: Sequence[Document], nodes: _Nodes, n_outputs: int) -> Singles:
    """Vectors of outputs of the nodes, zero at inner ones."""
    if not all("leaf_weights" in tree for tree in trees):
        raise UnsupportedModelError(
            "an XGBoost model with vector leaves must be of version 3.2 or later, got an older one; XGBoost 3.2 "
            "crashes on it, so that nothing can tell what it means."
        )
    joined, lengths = _joined(trees, "leaf_weights", "fiu")
    n_vectors = lengths // n_outputs
    slot, n_slots = nodes.slot, np.repeat(n_vectors, nodes.sizes)
    if (lengths % n_outputs).any() or (~nodes.is_inner & ((slot < 0) | (slot >= n_slots))).any():
        raise ValueError(f"leaf_weights must have {n_outputs} entries per leaf")
    first = np.repeat(np.cumsum(n_vectors) - n_vectors, nodes.sizes)
    vectors = joined.reshape(-1, n_outputs)
    return np.where(nodes.is_inner[:, None], np.float32(0), vectors[np.where(nodes.is_inner, 0, first + slot)])


# --- categories


def _lists(trees: Sequence[Document], starts: Ints, sizes: Ints) -> tuple[Ints, Ints, Ints]:
    """Nodes with a list of categories, the lists' lengths, and the lists in one row."""
    if trees and "split_type" not in trees[0]:  # a file from before there were categories
        empty = np.zeros(0, dtype=np.int64)
        return empty, empty, empty
    node, n_lists = _joined(trees, "categories_nodes")
    lengths = _aligned(trees, "categories_sizes", n_lists)
    segments = _aligned(trees, "categories_segments", n_lists)
    categories, n_listed = _joined(trees, "categories")
    first = segments + np.repeat(np.cumsum(n_listed) - n_listed, n_lists)
    if (lengths < 0).any() or lengths.sum() != len(categories) or (first != np.cumsum(lengths) - lengths).any():
        raise ValueError("categories must be one list after the other")
    if (node < 0).any() or (node >= np.repeat(sizes, n_lists)).any():
        raise ValueError("categories_nodes must be nodes of their tree")
    listed = node + np.repeat(starts, n_lists)
    if not np.array_equal(listed, np.flatnonzero(_aligned(trees, "split_type", sizes))):
        raise ValueError("categories must belong to the nodes that split on categories")
    return listed, lengths, categories


def _category_sets(nodes: _Nodes, features: tuple[Feature, ...]) -> tuple[Ints, Bools]:
    """Where each node's set of categories starts (-1: none), and the sets of those that go left in one row."""
    n_categories = np.array([feature.n_categories for feature in features], dtype=np.int64)
    kept = nodes.is_inner[nodes.listed]
    node = nodes.listed[kept]
    size = n_categories[nodes.feature[node]] + 1
    if size.sum() > _MOST_ENTRIES:
        raise UnsupportedModelError(
            f"an XGBoost model must have at most {_MOST_ENTRIES} categories × nodes, got {size.sum()}."
        )
    start = np.cumsum(size) - size
    goes_left = np.ones(size.sum(), dtype=bool)
    codes = nodes.categories[np.repeat(kept, nodes.listed_sizes)]
    goes_left[np.repeat(start, nodes.listed_sizes[kept]) + codes] = False
    starts = np.full(len(nodes.left), -1, dtype=np.int64)
    starts[node] = start
    return starts, goes_left


# --- features


def _features(learner: Document, nodes: _Nodes, missing: float, *, counts_bytes: bool) -> tuple[Feature, ...]:
    n_features = _count(learner["learner_model_param"], "num_feature")
    if not 0 < n_features <= _MOST_FEATURES:
        raise UnsupportedModelError(f"an XGBoost model must have 1 to {_MOST_FEATURES} features, got {n_features}.")
    names = _per_feature(learner, "feature_names", n_features) or [f"x{j}" for j in range(n_features)]
    n_codes = _n_codes(nodes, _per_feature(learner, "feature_types", n_features), n_features)
    stored = _tree_model(learner).get("cats", {}).get("enc", [])
    if len(stored) not in {0, n_features}:
        raise ValueError("cats must have an entry per feature")
    single = float(singles(missing))
    readings = [_readings(names)[:: -1 if counts_bytes else 1] for names in stored] or [()] * n_features
    encoders = [_encoder(n, own, single) for n, own in zip(n_codes, readings, strict=True)]
    return tuple(Feature(name, encoder) for name, encoder in zip(names, encoders, strict=True))


def _per_feature(learner: Document, key: str, n_features: int) -> list[str]:
    texts = learner.get(key, [])
    if len(texts) not in {0, n_features} or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{key} must have a text per feature")
    return list(texts)


def _n_codes(nodes: _Nodes, types: list[str], n_features: int) -> list[int]:
    """For each feature one more than the largest code in its lists; -1 for a numeric one."""
    inner, is_category = nodes.is_inner, nodes.is_category
    if (nodes.feature[inner] < 0).any() or (nodes.feature[inner] >= n_features).any():
        raise ValueError(f"split_indices must be among {n_features} features")
    if np.isneginf(nodes.condition[inner & ~is_category]).any():  # nothing is below it, which no closed bound says
        raise ValueError("thresholds must be numbers")
    if (nodes.categories < 0).any():
        raise ValueError("categories must not be negative")
    if (nodes.categories >= _MOST_CATEGORIES).any():
        raise UnsupportedModelError(
            f"an XGBoost model must have codes of categories below {_MOST_CATEGORIES}, got {nodes.categories.max()}; "
            "number the categories from 0 on."
        )
    result = np.array([0 if kind == "c" else -1 for kind in types] or [-1] * n_features)
    result[nodes.feature[inner & is_category]] = 0
    if (result[nodes.feature[inner & ~is_category]] >= 0).any():
        raise UnsupportedModelError(
            "an XGBoost model must split a feature either by number or by category, got one split both ways."
        )
    owner = np.repeat(nodes.listed, nodes.listed_sizes)
    codes, owner = nodes.categories[inner[owner]], owner[inner[owner]]
    np.maximum.at(result, nodes.feature[owner], codes + 1)
    return [int(count) for count in result]


def _encoder(n_codes: int, readings: tuple[Reading, ...], missing: float) -> Encoder:
    if readings:
        if n_codes > len(readings[0].names):
            raise ValueError("categories must be among those that are named")
        return NamedCategory(tuple((reading.names, reading.lengths) for reading in readings), missing)
    return Number(missing) if n_codes < 0 else CodedCategory(n_codes, missing)


def _readings(stored: Document) -> tuple[Reading, ...]:
    """What the stored names of a feature's categories may say; nothing for a numeric feature."""
    values = np.asarray(stored["values"])
    if len(values) and values.dtype.kind not in "iu":
        raise ValueError("categories must be named by text or by integers")
    if "offsets" not in stored:
        return (Reading(tuple(values.tolist())),)
    offsets = np.asarray(stored["offsets"], dtype=np.int64)
    if len(offsets) < 2:
        return ()
    if offsets[0] != 0 or (np.diff(offsets) < 0).any() or offsets[-1] != len(values):
        raise ValueError("names of categories must lie one after the other")
    return _text_readings(values.astype(np.int8).tobytes(), offsets.tolist())


def _text_readings(data: bytes, offsets: list[int]) -> tuple[Reading, ...]:
    """Names of categories from UTF-8 bytes.

    From polars and arrow, offsets count bytes. From pandas, XGBoost before 3.4 counts characters and cuts the bytes to
    as many, so that beyond ASCII the last names are known by their length and at most a beginning. Both may be
    possible, also in later files: names stay as they are when a later XGBoost saves a model again.
    """
    pieces = list(itertools.pairwise(offsets))
    windows = [data[a:b] for a, b in pieces]
    if len(set(windows)) < len(windows):
        raise UnsupportedModelError(
            "an XGBoost model must tell its categories apart, got names that it confuses itself when it predicts for a "
            "table, as it cuts them beyond ASCII; rename the categories and train it anew."
        )
    text = data.decode("utf-8", errors="ignore")
    readings = [Reading(tuple(text[a:b] for a, b in pieces), tuple(b - a for a, b in pieces))]
    with contextlib.suppress(UnicodeDecodeError):
        names = tuple(window.decode("utf-8") for window in windows)
        readings.append(Reading(names, tuple(len(name) for name in names)))
    return tuple(dict.fromkeys(readings))
