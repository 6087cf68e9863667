"""CatBoost models as a Forest: from memory, from .cbm and from .json files; files need no CatBoost.

Facts (measured with CatBoost 1.2.10):

- A numeric split is true when float32(x) > border. NaN is true only if the feature has ``has_nans`` and ``AsTrue``.
- Symmetric trees: leaf = sum of (split d is true) << d. Leaf numbers of other trees are those of
  ``calc_leaf_indexes``: in .cbm the stored ones, in .json (which stores none) leaves from left to right.
- The score is scale · (sum of leaves) + bias.
- A category is identified by the low 32 bits of CityHash64 of its text; integers and booleans are texts such as "1" and
  "0"; floats, None and NaN are refused. A CTR table identifies the category by a second, invertible hash of this one.
- A CTR of one categorical feature gives each category a float32 number, so a split on it is a set of categories.
- Other CTRs have a number for each combination of categories of several features, of whether numbers are above borders,
  and of whether features have certain categories. A split on it is a set of cells; combinations that training did not
  have get the number of an unseen category. Trees with such splits are unfolded into trees that split one feature at a
  time, so one leaf of CatBoost may become several.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats, Ints
from treeanova.data.features import Encoder, Feature, Numeric, Schema, distinct, is_missing
from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import Forest, assemble
from treeanova.readers import checks
from treeanova.readers.catboost.files import Model, category_hash, from_cbm, from_json
from treeanova.readers.catboost.splits import read_splits, unfold
from treeanova.readers.checks import check_values, damage_reported, damaged, parsed_json
from treeanova.readers.outputs import link_and_objective, objective_text, output_names, plain_labels

# The response is what the scikit-learn classes predict. Several outputs with "logit": each is a log-odds by itself, and
# the probabilities need not add up to one.
_LOSSES = {
    "logit log": "Logloss CrossEntropy MultiClassOneVsAll MultiLogloss MultiCrossEntropy",
    "logit": "Focal", "softmax multiclass": "MultiClass", "log poisson": "Poisson", "log tweedie": "Tweedie",
    "identity squared": "RMSE MultiRMSE", "identity absolute": "MAE", "identity pinball": "Quantile MultiQuantile",
    "identity expectile": "Expectile", "identity huber": "Huber", "identity mape": "MAPE",
    "identity log_cosh": "LogCosh", "identity cox": "Cox", "identity aft": "SurvivalAft",
    "identity pairwise": "PairLogit PairLogitPairwise YetiRank YetiRankPairwise LambdaMart StochasticRank",
    "identity": "GroupQuantile Lq RMSPE LogLinQuantile MultiRMSEWithMissingValues QueryRMSE QuerySoftMax "
    "QueryCrossEntropy StochasticFilter",
}  # fmt: skip
_PARAMETERS = {"pinball": "alpha", "expectile": "alpha", "huber": "delta", "tweedie": "variance_power"}
_MAX_COLUMNS = 1 << 24
_ONE_CLASS_LOSSES = {"Logloss", "Focal", "MultiClass", "MultiClassOneVsAll"}
_KIND = "a CatBoost model"


@dataclasses.dataclass(frozen=True)
class HashedCategory(Encoder):
    """A category given as text or as an integer, identified by its hash; `names` label known hashes."""

    wants_labels: ClassVar[bool] = True
    lists: ClassVar[tuple[str, ...]] = ("hashes", "names")
    hashes: tuple[int, ...]
    names: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        return self.names or tuple(map(str, self.hashes))

    @property
    def identities(self) -> tuple[int, ...]:
        return self.hashes

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Return positions of the categories' hashes, `len(hashes)` for unseen ones, NaN for missing ones."""
        values, value_index = distinct(column)
        positions = {number: float(code) for code, number in enumerate(self.hashes)}
        unseen = float(len(self.hashes))
        texts = (None if is_missing(value) else _as_text(value, name) for value in values)
        codes = [np.nan if text is None else positions.get(category_hash(text), unseen) for text in texts]
        return np.array(codes, dtype=np.float64)[value_index]

    def labelled(self, column: npt.NDArray[Any], name: str) -> HashedCategory:
        """Return the encoder with names for those of its hashes that values of the column have."""
        label_of = dict(zip(self.hashes, self.labels, strict=True))
        for value in distinct(column)[0]:
            if not is_missing(value):
                text = _as_text(value, name)
                label_of[category_hash(text)] = text.decode(errors="replace")
        return HashedCategory(self.hashes, tuple(label_of[number] for number in self.hashes))


def _as_text(value: object, name: str) -> bytes:
    """Write a category as CatBoost does: booleans are "0" and "1"; floats are refused, even whole ones."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    if isinstance(value, (int, np.integer, np.bool_)):
        return str(int(value)).encode()
    is_whole = isinstance(value, (float, np.floating)) and float(value).is_integer()
    reason = ", a float, as integers are in a column that also has missing values" if is_whole else ""
    raise TypeError(
        f"column {name!r} must hold categories as text or integers, got {value!r}{reason}, which CatBoost refuses too; "
        "convert the column to text as in training."
    )


def forest_of(model: Model) -> Forest:
    """Build the forest of a decoded model: its splits read and, where they combine features, unfolded."""
    flat_indices = sorted(column.flat for column in (*model.numeric, *model.categorical))
    position = {flat: place for place, flat in enumerate(flat_indices)}
    nodes, inner = model.nodes, model.nodes.left >= 0
    used = np.unique(nodes.split[inner])  # global positions of splits in trees
    splits, known_hashes = read_splits(model, position, used)
    is_valid = (used >= 0) & (used < len(splits.feature) - 1)
    check_values("the model's trees must use splits that exist", used, is_valid)
    schema = _schema(model, flat_indices, known_hashes)
    missing_left = {position[feature.flat]: not feature.missing_right for feature in model.numeric}
    n_bins = {position[feature.flat]: len(known_hashes[feature.index]) + 1 for feature in model.categorical}
    nodes, splits = unfold(nodes, splits, missing_left, n_bins)
    inner = nodes.left >= 0
    split, value_row = np.where(inner, nodes.split, -1), np.where(inner, 0, nodes.leaf)
    check_values("the model's leaves must have values", value_row, (value_row >= 0) & (value_row < len(model.values)))
    n_outputs, bias = model.values.shape[1], model.bias
    if len(bias) != n_outputs and (len(bias) != 1 or bias[0]):
        raise damaged(f"the model must have a bias per output, got {len(bias)} for {n_outputs}")
    return assemble(
        schema,
        bias if len(bias) == n_outputs else np.zeros(n_outputs),
        roots=nodes.roots,
        feature=splits.feature[split],
        bound=splits.bound[split],
        left=nodes.left,
        right=nodes.right,
        missing_left=splits.missing_left[split],
        values=model.values[value_row] * model.scale,
        leaf_label=nodes.label,
        category_start=splits.category_start[split],
        category_left=splits.category_left,
    )


def _schema(model: Model, flat_indices: Sequence[int], known_hashes: Mapping[int, Ints]) -> Schema:
    """Return the schema; `flat_indices` are the numbers of columns, `known_hashes` those of categorical features."""
    features = {column.flat: Feature(column.name, Numeric()) for column in model.numeric}
    for column in model.categorical:
        hashes = tuple(known_hashes[column.index].tolist())
        labels = tuple(model.category_names.get(number, str(number)) for number in hashes)
        features[column.flat] = Feature(column.name, HashedCategory(hashes, labels), accepts_missing=False)
    names = [features[flat].name for flat in flat_indices]
    named = all(names) and len(set(names)) == len(names) and names != [str(flat) for flat in flat_indices]
    if (
        len(set(flat_indices)) != len(flat_indices)
        or not 0 <= min(flat_indices, default=0) <= max(flat_indices, default=0) < _MAX_COLUMNS
    ):
        raise damaged(f"the model's features must be numbered from 0, each once, got {str(flat_indices)[:40]}")
    if not named and flat_indices != list(range(len(flat_indices))):
        raise UnsupportedModelError(
            "the model has dropped unused features and has no names for the others, so that columns cannot be matched; "
            "read it before drop_unused_features()."
        )
    names = names if named else [f"x{flat}" for flat in flat_indices]
    # Whether a row has one class; with other losses, each output is a class or target of its own.
    is_one_of = model.loss.get("type") in _ONE_CLASS_LOSSES and len(model.class_names) == max(2, model.values.shape[1])
    return Schema(
        features=tuple(
            dataclasses.replace(features[flat], name=name) for flat, name in zip(flat_indices, names, strict=True)
        ),
        outputs=_names_of_outputs(model),
        link=link_and_objective(str(model.loss.get("type")), _LOSSES)[0],
        named=named,
        classes=plain_labels(model.class_names) if is_one_of else (),
        declared_classes=plain_labels(model.declared) if is_one_of else (),
        threshold=model.threshold,
        objective=_objective(model.loss),
    )


def _objective(loss: Mapping[str, Any]) -> str:
    """Return the objective with its parameters, in the words of `validate(loss=...)`."""
    _, name = link_and_objective(str(loss.get("type", "")), _LOSSES)
    parameters = dict(loss.get("params") or {})
    if name == "aft":
        distribution = str(parameters.get("dist", "Normal")).lower()
        return objective_text(name, distribution, float(parameters.get("scale", 1)))
    if name not in _PARAMETERS:
        return name
    stated = str(parameters.get(_PARAMETERS[name], "0.5" if name in {"pinball", "expectile"} else ""))
    return objective_text(name, *map(float, stated.split(","))) if stated else str(loss["type"])


def _names_of_outputs(model: Model) -> tuple[str, ...]:
    """Return the names of the outputs: what a loss predicts, or classes, or numbers."""
    n_outputs, loss = model.values.shape[1], model.loss.get("type")
    names: Sequence[object] = ()
    if loss == "RMSEWithUncertainty":
        names = ["mean", "log_std"]
    elif loss == "MultiQuantile":
        names = str(dict(model.loss.get("params") or {}).get("alpha")).split(",")
    elif len(model.class_names) == n_outputs:
        names = model.class_names
    return output_names(n_outputs, names)


def read(model: Any) -> Forest:
    """Read a model in memory from the .cbm file that CatBoost writes of it."""
    if not model.is_fitted():
        raise UnsupportedModelError(f"`model` must be fitted, got an unfitted {type(model).__name__}; fit it first.")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.cbm"
        model.save_model(str(path), format="cbm")
        data = path.read_bytes()
    with damage_reported(_KIND):
        return checks.read_live(
            "catboost",
            lambda: forest_of(from_cbm(data)),
            lambda forest: functools.partial(_score_of, sys.modules["catboost"], model, forest),
        )


def read_file(path: pathlib.Path) -> Forest:
    """Read a .cbm or .json file; if its version is not tested, scores are compared with those of CatBoost."""
    data = path.read_bytes()
    match = re.search(rb"Branch: tags/v([0-9.]{1,20})", data)
    version = checks.version_numbers(match[1].decode().rstrip(".")) if match else ()
    is_json = path.name.lower().endswith(".json")

    def load(library: Any, forest: Forest) -> checks.Predict | None:  # None if this CatBoost is older than the file
        if checks.version_numbers(library.__version__) < version:
            return None
        model = library.CatBoost()
        model.load_model(str(path), format="json" if is_json else "cbm")
        return functools.partial(_score_of, library, model, forest)

    with damage_reported(_KIND, path):
        return checks.read_stored(
            "catboost", version, lambda: forest_of(from_json(parsed_json(data)) if is_json else from_cbm(data)), load
        )


def _score_of(library: Any, model: Any, forest: Forest, rows: Floats) -> Any:
    """Return CatBoost's score; its models store no names of categories, so all of them are unseen."""
    schema = forest.schema
    pool = library.Pool(
        checks.raw_rows(schema, rows),
        cat_features=[j for j, feature in enumerate(schema.features) if feature.is_category],
        feature_names=list(schema.names) if schema.named else None,
    )
    scores = np.asarray(library.CatBoost.predict(model, pool, prediction_type="RawFormulaVal"))
    is_absent = np.isneginf(scores).all(axis=0)  # classes that were declared for training and had no rows
    return scores[:, ~is_absent] if scores.ndim == 2 else scores
