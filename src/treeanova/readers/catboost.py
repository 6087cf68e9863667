"""CatBoost models as a Forest: from memory, from .cbm and from .json files, none of which needs CatBoost itself.

Facts relied on (measured with CatBoost 1.2.10):

- A numeric split is true when float32(x) > border. NaN is true only where the feature has ``has_nans`` and ``AsTrue``.
- Symmetric trees: leaf = sum of (split d is true) << d. Leaf numbers of other trees are those of
  ``calc_leaf_indexes``: in .cbm the stored ones, in .json (which holds none) leaves from left to right.
- The score is scale · (sum of leaves) + bias.
- A category is known by the low 32 bits of CityHash64 of its text; integers and booleans are texts such as "1" and "0";
  floats, None and NaN are refused. A CTR table knows the category by a second, invertible hash of this one.
- A CTR of one categorical feature gives each category a float32 number, so that a split on it is a set of categories.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import pathlib
import re
import struct
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.data.features import Encoder, Feature, Numeric, Schema, distinct, is_missing
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.forest import Forest, assemble, bound_up_to
from treeanova.readers import versions
from treeanova.readers.catboost_parts import (
    COUNTERS,
    CTR_KINDS,
    DEEPEST,
    EMPTY_KEY,
    MEANS,
    AnyFeature,
    CategoricalFeature,
    Counts,
    Ctr,
    Model,
    Nodes,
    NumericFeature,
    Singles,
    check_symmetric,
    loss_and_classes,
    symmetric_nodes,
    text_error,
)
from treeanova.readers.cbm import from_cbm
from treeanova.readers.cityhash import category_hash

# The response is what the scikit-learn classes predict. Several outputs with "logit": each is its own log-odds, and the
# probabilities need not add up to one.
_LINKS = {
    "logit": "Logloss CrossEntropy Focal MultiClassOneVsAll MultiLogloss MultiCrossEntropy",
    "softmax": "MultiClass",
    "log": "Poisson Tweedie",
    "identity": "RMSE MAE Quantile MultiQuantile GroupQuantile Expectile Lq Huber MAPE RMSPE LogCosh MultiRMSE Cox "
    "SurvivalAft LogLinQuantile "
    "MultiRMSEWithMissingValues YetiRank YetiRankPairwise PairLogit PairLogitPairwise QueryRMSE QuerySoftMax "
    "QueryCrossEntropy StochasticFilter StochasticRank LambdaMart",
}
# A CTR table's key of category hash c is _CTR² · c modulo 2^64, with c sign-extended from 32 bits; _CTR is odd.
_CTR = 0x4906BA494954CB65
_CTR_INVERSE = pow(_CTR, -2, 1 << 64)
_MOST_SET_ENTRIES = 1 << 28
_DAMAGE = (
    AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError, struct.error,
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# Categories


@dataclasses.dataclass(frozen=True)
class Hashed(Encoder):
    """A category given as text or as an integer, known by its hash; `names` label the hashes, where they are known."""

    hashes: tuple[int, ...]
    names: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Names, or the hashes as text: a model does not hold its categories' names."""
        return self.names or tuple(map(str, self.hashes))

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Positions of the hashes, n_categories where unseen, NaN for None and NaN."""
        values, inverse = distinct(column)
        positions = {number: float(code) for code, number in enumerate(self.hashes)}
        unseen = float(len(self.hashes))
        texts = (None if is_missing(value) else _as_text(value, name) for value in values)
        codes = [np.nan if text is None else positions.get(category_hash(text), unseen) for text in texts]
        return np.array(codes, dtype=np.float64)[inverse]

    @property
    def wants_labels(self) -> bool:
        """True: the model keeps hashes, not names."""
        return True

    def labelled(self, column: npt.NDArray[Any], name: str) -> Hashed:
        """The same encoder with the names of categories that a raw column holds."""
        known = dict(zip(self.hashes, self.labels, strict=True))
        for value in distinct(column)[0]:
            if not is_missing(value):
                text = _as_text(value, name)
                known[category_hash(text)] = text.decode(errors="replace")
        return Hashed(self.hashes, tuple(known[number] for number in self.hashes))


def _as_text(value: object, name: str) -> bytes:
    """A category as CatBoost spells it: booleans are "0" and "1"; floats are refused, whole ones too."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    if isinstance(value, (int, np.integer, np.bool_)):
        return str(int(value)).encode()
    raise TypeError(
        f"column {name!r} must hold categories as text or integers, got {value!r}: CatBoost refuses it too; "
        "convert the column to text as for training."
    )


# ---------------------------------------------------------------------------------------------------------------------
# .json


def _from_json(top: Any) -> Model:
    features, info = top["features_info"], top["model_info"]
    if features.get("text_features") or features.get("embedding_features"):
        raise text_error()
    scale, bias = top.get("scale_and_bias") or (1.0, 0.0)
    bias = np.atleast_1d(np.asarray(bias, dtype=np.float64))
    symmetric = "oblivious_trees" in top
    nodes, values = _json_symmetric(top["oblivious_trees"], len(bias)) if symmetric else _json_steps(top["trees"])
    categorical = features.get("categorical_features") or ()
    return Model(
        numeric=[_json_numeric(feature) for feature in features.get("float_features") or ()],
        categorical=[CategoricalFeature(*_json_identity(feature)) for feature in categorical],
        one_hot=[
            (int(f["feature_index"]), np.array(f["values"], dtype=np.int64)) for f in categorical if "values" in f
        ],
        ctrs=[_json_ctr(ctr, top.get("ctr_data") or {}) for ctr in features.get("ctrs") or ()],
        nodes=nodes,
        values=values,
        scale=float(scale),
        bias=bias,
        category_names={int(c["hash"]): str(c["value"]) for c in features.get("cat_features_hash") or ()},
        **loss_and_classes(info),
    )


def _json_identity(feature: Mapping[str, Any]) -> tuple[int, str, int]:
    name = feature.get("feature_id") or feature.get("feature_name") or ""
    return int(feature["flat_feature_index"]), str(name), int(feature["feature_index"])


def _json_numeric(feature: Mapping[str, Any]) -> NumericFeature:
    flat, name, _ = _json_identity(feature)
    borders = np.array(feature.get("borders") or (), dtype=np.float32)
    missing_right = bool(feature["has_nans"]) and feature.get("nan_value_treatment") == "AsTrue"
    return NumericFeature(flat, name, borders, missing_right)


def _json_ctr(ctr: Mapping[str, Any], tables: Mapping[str, Any]) -> Ctr:
    elements, table = ctr["elements"], tables.get(ctr["identifier"])
    categories = [int(e["cat_feature_index"]) for e in elements if e["combination_element"] == "cat_feature_value"]
    return Ctr(
        categories=categories,
        is_simple=len(elements) == len(categories) == 1,
        kind=str(ctr["ctr_type"]),
        target_border=int(ctr["target_border_idx"]),
        prior=(float(ctr["prior_numerator"]), float(ctr["prior_denomerator"])),
        shift=float(ctr["shift"]),
        scale=float(ctr["scale"]),
        borders=np.array(ctr["borders"] or (), dtype=np.float32),
        counts=None if table is None else _json_counts(table),
    )


def _json_counts(table: Mapping[str, Any]) -> Counts:
    """The counts; they come as one list of keys (as text), each followed by its row."""
    entries, stride = list(table["hash_map"] or ()), int(table["hash_stride"])
    keys = np.array([int(key) for key in entries[::stride]], dtype=np.uint64)
    columns = [np.array(entries[column::stride], dtype=np.float64) for column in range(1, min(stride, len(entries)))]
    return Counts(keys, np.stack(columns, axis=1), float(table["counter_denominator"]))


def _json_symmetric(trees: Sequence[Mapping[str, Any]] | None, n_bias: int) -> tuple[Nodes, Floats]:
    trees = trees or ()
    asked = [[split["split_index"] for split in tree.get("splits") or ()] for tree in trees]
    sizes = np.array([len(splits) for splits in asked], dtype=np.int64)
    splits = np.array(list(itertools.chain.from_iterable(asked)), dtype=np.int64)
    leaves = [tree["leaf_values"] for tree in trees]
    values = np.array(list(itertools.chain.from_iterable(leaves)), dtype=np.float64)
    n_outputs = len(leaves[0]) >> min(len(asked[0]), DEEPEST) if leaves else n_bias
    check_symmetric(sizes, splits, len(values), n_outputs)
    if any(len(own) != n_outputs << len(splits) for own, splits in zip(leaves, asked, strict=True)):
        raise ModelFileError("the model's symmetric trees must have a value per leaf, got others; file damaged?")
    return symmetric_nodes(sizes, splits), values.reshape(-1, n_outputs)


def _json_steps(trees: Sequence[Mapping[str, Any]]) -> tuple[Nodes, Floats]:
    """Nested nodes, numbered in the order in which a walk that goes left first meets them."""
    split: list[int] = []
    left: list[int] = []
    right: list[int] = []
    values: list[Any] = []
    roots: list[int] = []
    n_leaves = [0]
    for tree in trees:
        roots.append(len(split))
        waiting: list[tuple[Mapping[str, Any], int]] = [(tree, -1)]
        while waiting:
            node, parent = waiting.pop()
            if parent >= 0:
                right[parent] = len(split)
            while "split" in node:
                waiting.append((node["right"], len(split)))
                split.append(node["split"]["split_index"])
                left.append(len(split))
                right.append(-1)
                node = node["left"]
            values.append(node["value"])
            split.append(-1)
            left.append(-1)
            right.append(-1)
        n_leaves.append(len(values))
    matrix = np.array(values, dtype=np.float64).reshape(len(values), -1)
    asked, is_leaf = np.array(split, dtype=np.int64), np.array(left) < 0
    leaf = np.cumsum(is_leaf) - 1
    label = leaf - np.repeat(n_leaves[:-1], np.diff([*roots, len(split)]))
    return Nodes(np.array(roots), asked, np.array(left), np.array(right), leaf, label), matrix


# ---------------------------------------------------------------------------------------------------------------------
# Splits


@dataclasses.dataclass(frozen=True)
class _Splits:
    """The decision at each global split, and a last entry that stands for "none"."""

    feature: Ints
    bound: Floats
    missing_left: Bools
    category_start: Ints
    category_left: Bools


def _ctr_values(ctr: Ctr, counts: Counts) -> tuple[Singles, np.float32]:
    """The CTR's number for each row of counts, and for a category without one, in float32 as CatBoost reckons."""
    good, total, unseen_total = _good_and_total(ctr, counts)
    goods, totals = np.append(good, 0.0).astype(np.float32), np.append(total, unseen_total).astype(np.float32)
    numerator, denominator, shift, scale = (np.float32(number) for number in (*ctr.prior, ctr.shift, ctr.scale))
    values: Singles = ((goods + numerator) / (totals + denominator) + shift) * scale
    return values[:-1], values[-1]


def _good_and_total(ctr: Ctr, counts: Counts) -> tuple[Floats, Floats, float]:
    """Numerator and denominator for each row of counts, and the denominator for a category without one."""
    rows = counts.rows
    if ctr.kind in MEANS:
        return rows[:, 0], rows[:, 1], 0.0
    if ctr.kind in COUNTERS:
        return rows[:, 0], np.full(len(rows), counts.total), counts.total
    if ctr.kind in CTR_KINDS:
        return _classes_above(ctr, rows), rows.sum(axis=1), 0.0
    raise UnsupportedModelError(f"CatBoost's CTR {ctr.kind!r} is unknown here; train with simple_ctr=['Borders'].")


def _classes_above(ctr: Ctr, rows: Floats) -> Floats:
    """How many of a category's rows are in the classes that the CTR counts."""
    n_classes = rows.shape[1]
    if not 0 <= ctr.target_border < n_classes:
        raise ModelFileError(f"a CTR must count one of {n_classes} classes, got {ctr.target_border}; file damaged?")
    if ctr.kind == "Buckets":
        return rows[:, ctr.target_border]
    result: Floats = rows[:, 1 if n_classes <= 2 else ctr.target_border + 1 :].sum(axis=1)
    return result


def _category_hashes(counts: Counts) -> tuple[npt.NDArray[np.int64], Bools]:
    """Hashes of the categories of a CTR table, and which rows can be met at all."""
    numbers = (counts.keys * np.uint64(_CTR_INVERSE)).astype(np.int64)
    return numbers & 0xFFFFFFFF, (counts.keys != EMPTY_KEY) & (numbers >= -(1 << 31)) & (numbers < 1 << 31)


def _counts_of(ctr: Ctr) -> Counts:
    if not ctr.is_simple:
        raise UnsupportedModelError(
            "the model splits on a CTR of a combination of features, which is no set of categories of one feature; "
            "train with max_ctr_complexity=1 or a larger one_hot_max_size."
        )
    if ctr.counts is None:
        raise UnsupportedModelError(
            "the model's CTR tables are missing, so that it cannot predict; train with "
            "final_ctr_computation_mode='Default'."
        )
    return ctr.counts


def _known_categories(model: Model, ctrs: Iterable[Ctr]) -> dict[int, Ints]:
    """Sorted hashes of the categories that splits can tell apart, for each categorical feature."""
    found: dict[int, list[Ints]] = {feature.index: [np.empty(0, np.int64)] for feature in model.categorical}
    for index, values in model.one_hot:
        if len(np.unique(values & 0xFFFFFFFF)) < len(values):
            raise ModelFileError("the model's one-hot values must differ, got equal ones; file damaged?")
        found[index].append(values & 0xFFFFFFFF)
    for ctr in ctrs:
        hashes, met = _category_hashes(_counts_of(ctr))
        found[ctr.categories[0]].append(hashes[met])
    return {index: np.unique(np.concatenate(parts)) for index, parts in found.items()}


def _ctr_rights(ctr: Ctr, known: Ints) -> Bools:
    """Whether each known category, and last an unseen one, is above each border."""
    counts = _counts_of(ctr)
    of_rows, of_unseen = _ctr_values(ctr, counts)
    hashes, met = _category_hashes(counts)
    values = np.full(len(known) + 1, of_unseen)
    values[np.searchsorted(known, hashes[met])] = of_rows[met]
    return values > ctr.borders[:, None]


def _one_hot_rights(values: Ints, known: Ints) -> Bools:
    """Whether each known category, and last an unseen one, is each value."""
    result: Bools = np.append(known, -1) == (values & 0xFFFFFFFF)[:, None]
    return result


def _check_borders(borders: Iterable[Singles]) -> None:
    for own in borders:
        if np.isnan(own).any() or (own[1:] < own[:-1]).any():
            raise ModelFileError("the model's borders must be sorted numbers, got others; file damaged?")


@dataclasses.dataclass(frozen=True)
class _Question:
    """Splits on one categorical feature; `rights` gives a row of answers per split from the known categories."""

    index: int
    n_splits: int
    rights: Callable[[Ints], Bools]
    used: bool


def _questions(model: Model, used: Ints) -> list[_Question]:
    """One-hot features and CTRs in their global order; `used` are the global positions of splits in trees, sorted."""
    asked: list[tuple[int, int, Callable[[Ints], Bools]]] = [
        (index, len(values), functools.partial(_one_hot_rights, values)) for index, values in model.one_hot
    ]
    asked += [(next(iter(c.categories), -1), len(c.borders), functools.partial(_ctr_rights, c)) for c in model.ctrs]
    first = sum(len(feature.borders) for feature in model.numeric)
    ends = np.searchsorted(used, first + np.cumsum([0, *(n_splits for _, n_splits, _ in asked)]))
    return [_Question(*question, used=bool(n)) for question, n in zip(asked, np.diff(ends), strict=True)]


def _splits(model: Model, position: Mapping[int, int], used: Ints) -> tuple[_Splits, dict[int, Ints]]:
    """All splits in their global order, and the known categories of each categorical feature."""
    _check_borders([feature.borders for feature in model.numeric] + [ctr.borders for ctr in model.ctrs])
    questions = _questions(model, used)
    ctrs = [ctr for ctr, question in zip(model.ctrs, questions[len(model.one_hot) :], strict=True) if question.used]
    known = _known_categories(model, ctrs)
    flat = {feature.index: feature.flat for feature in model.categorical}
    start, sets = _category_sets(questions, known)
    n_borders = [len(feature.borders) for feature in model.numeric]
    places = [position[f.flat] for f in model.numeric] + [position[flat[q.index]] if q.used else -1 for q in questions]
    n_others = len(start) + 1
    missing_left = np.repeat(np.array([not feature.missing_right for feature in model.numeric], dtype=bool), n_borders)
    borders = np.concatenate([np.empty(0), *(feature.borders for feature in model.numeric)])
    splits = _Splits(
        feature=np.repeat([*places, -1], [*n_borders, *(question.n_splits for question in questions), 1]),
        bound=np.append(bound_up_to(borders), np.full(n_others, np.nan)),
        missing_left=np.append(missing_left, np.zeros(n_others, dtype=bool)),
        category_start=np.concatenate([np.full(len(borders), -1), start, [-1]]),
        category_left=sets,
    )
    return splits, known


def _category_sets(questions: Sequence[_Question], known: Mapping[int, Ints]) -> tuple[Ints, Bools]:
    """Start of each split's set, -1 for those that no tree asks, and the sets one after the other."""
    widths = [len(known[question.index]) + 1 if question.used else 0 for question in questions]
    sizes = np.array([width * q.n_splits for width, q in zip(widths, questions, strict=True)], dtype=np.int64)
    if sizes.sum() > _MOST_SET_ENTRIES:
        raise UnsupportedModelError(
            f"the model's splits on categories must need at most {_MOST_SET_ENTRIES} entries, got {sizes.sum()}; "
            "train with fewer categories."
        )
    starts = [
        first + width * np.arange(question.n_splits) if width else np.full(question.n_splits, -1)
        for first, width, question in zip(np.cumsum(sizes) - sizes, widths, questions, strict=True)
    ]
    sets = [~question.rights(known[question.index]).ravel() for question in questions if question.used]
    empty = np.empty(0, dtype=np.int64)
    return np.concatenate([empty, *starts]), np.concatenate([empty.astype(bool), *sets])


# ---------------------------------------------------------------------------------------------------------------------
# The forest


def read(model: Any) -> Forest:
    """The Forest of a fitted CatBoostRegressor, CatBoostClassifier, CatBoostRanker or CatBoost."""
    if not model.is_fitted():
        raise UnsupportedModelError(f"`model` must be fitted, got an unfitted {type(model).__name__}; fit it first.")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.cbm"
        model.save_model(str(path), format="cbm")
        data = path.read_bytes()
    return versions.read_live(
        "catboost",
        lambda: _read_bytes(data, "the model"),
        lambda forest: functools.partial(_score_of, sys.modules["catboost"], model, forest),
    )


def read_file(path: pathlib.Path) -> Forest:
    """The Forest of a model saved as .cbm or as .json."""
    path = pathlib.Path(path)
    data = path.read_bytes()
    version = _version(data)
    return versions.read_stored(
        "catboost",
        version,
        lambda: _read_bytes(data, path.name),
        lambda library, forest: _load(library, path, version, forest),
    )


def _version(data: bytes) -> tuple[int, ...]:
    """The release that wrote a file, from its notes; empty where they name none."""
    found = re.search(rb"Branch: tags/v([0-9.]{1,20})", data)
    return versions.numbers(found[1].decode().rstrip(".")) if found else ()


def _load(library: Any, path: pathlib.Path, version: tuple[int, ...], forest: Forest) -> versions.Predict | None:
    """CatBoost's prediction for a file, None where it is older than the file."""
    if versions.numbers(library.__version__) < version:
        return None
    model = library.CatBoost()
    model.load_model(str(path), format="json" if _is_json(path.name) else "cbm")
    return functools.partial(_score_of, library, model, forest)


def _score_of(library: Any, model: Any, forest: Forest, rows: Floats) -> Any:
    """CatBoost's own score of encoded rows; its models hold no names of categories, so that these are unseen ones."""
    schema = forest.schema
    pool = library.Pool(
        versions.raw_rows(schema, rows),
        cat_features=[j for j, feature in enumerate(schema.features) if feature.is_category],
        feature_names=list(schema.names) if schema.named else None,
    )
    return library.CatBoost.predict(model, pool, prediction_type="RawFormulaVal")


def _is_json(name: str) -> bool:
    return name.lower().endswith(".json")


def _read_bytes(data: bytes, name: str) -> Forest:
    try:
        with np.errstate(all="ignore"):
            return _forest(_from_json(json.loads(data)) if _is_json(name) else from_cbm(data))
    except (ModelFileError, UnsupportedModelError):
        raise
    except _DAMAGE as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ModelFileError(
            f"{name} must hold a CatBoost model, got parts that do not fit ({cause}); file damaged?"
        ) from error


def _forest(model: Model) -> Forest:
    unsorted: list[AnyFeature] = [*model.numeric, *model.categorical]
    features = sorted(unsorted, key=lambda feature: feature.flat)
    position = {feature.flat: place for place, feature in enumerate(features)}
    nodes, inner = model.nodes, model.nodes.left >= 0
    used = np.unique(nodes.split[inner])
    splits, known = _splits(model, position, used)
    if len(used) and not (used[0] >= 0 and used[-1] < len(splits.feature) - 1):
        raise ModelFileError("the model's trees must ask splits that exist, got others; file damaged?")
    schema = _schema(model, features, known)
    asked, rows = np.where(inner, nodes.split, -1), np.where(inner, 0, nodes.leaf)
    if len(rows) and not (rows.min() >= 0 and rows.max() < len(model.values)):
        raise ModelFileError("the model's leaves must have values, got some without; file damaged?")
    return assemble(
        schema,
        _intercept(model),
        roots=nodes.roots,
        feature=splits.feature[asked],
        bound=splits.bound[asked],
        left=nodes.left,
        right=nodes.right,
        missing_left=splits.missing_left[asked],
        values=model.values[rows] * model.scale,
        leaf_label=nodes.label,
        category_start=splits.category_start[asked],
        category_left=splits.category_left,
    )


def _intercept(model: Model) -> Floats:
    n_outputs = model.values.shape[1]
    if len(model.bias) == n_outputs:
        return model.bias
    if len(model.bias) != 1 or model.bias[0]:
        raise ModelFileError(
            f"the model must have a bias per output, got {len(model.bias)} for {n_outputs}; file damaged?"
        )
    return np.zeros(n_outputs)


def _schema(model: Model, features: Sequence[AnyFeature], known: dict[int, Ints]) -> Schema:
    names, flats = [feature.name for feature in features], [feature.flat for feature in features]
    named = all(names) and len(set(names)) == len(names) and names != [str(flat) for flat in flats]
    if len(set(flats)) != len(flats) or min(flats, default=0) < 0:
        raise ModelFileError("the model's features must be numbered from 0, each once, got others; file damaged?")
    if not named and flats != list(range(len(flats))):
        raise UnsupportedModelError(
            "the model has dropped unused features and has no names for the others, so that columns cannot be matched; "
            "read it before drop_unused_features()."
        )
    names = names if named else [f"x{flat}" for flat in flats]
    return Schema(
        features=tuple(_feature(name, feature, model, known) for name, feature in zip(names, features, strict=True)),
        outputs=_outputs(model),
        link=_link(str(model.loss.get("type"))),
        named=named,
    )


def _feature(name: str, feature: AnyFeature, model: Model, known: Mapping[int, Ints]) -> Feature:
    if isinstance(feature, NumericFeature):
        return Feature(name, Numeric())
    hashes = tuple(known[feature.index].tolist())
    labels = tuple(model.category_names.get(number, str(number)) for number in hashes)
    return Feature(name, Hashed(hashes, labels), accepts_missing=False)


def _link(loss: str) -> str:
    return next((link for link, losses in _LINKS.items() if loss in losses.split()), "other")


def _outputs(model: Model) -> tuple[str, ...]:
    """Names of classes, quantiles or targets."""
    n_outputs, loss = model.values.shape[1], model.loss.get("type")
    if n_outputs == 1:
        return ("score",)
    names = [f"y{output}" for output in range(n_outputs)]
    if loss == "RMSEWithUncertainty":
        names = ["mean", "log_std"]
    elif loss == "MultiQuantile":
        names = str(dict(model.loss.get("params") or {}).get("alpha")).split(",")
    elif len(model.class_names) == n_outputs:
        names = [str(name) for name in model.class_names]
    return tuple(names) if len(names) == n_outputs else tuple(f"y{output}" for output in range(n_outputs))
