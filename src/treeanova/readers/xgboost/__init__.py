"""XGBoost models and their files (.json, .ubj) as a Forest.

Facts, all measured with XGBoost 3.0 to 3.4:

- A value is cast to float32 and goes left when below the threshold; NaN, absent sparse entries and values equal to
  ``missing`` in float32 go the node's default way.
- A category in the node's list goes right, any other code left. Codes are cast to float32, fractions are truncated,
  negative codes are in no list. A matrix holds codes; a table's column of categories is matched by label.
- Scores are summed in float32 from the base margin on; the Forest holds the same numbers and sums in float64.
- The wrappers predict with the iterations up to ``best_iteration``, a plain Booster with all of them. Files that a
  wrapper wrote have the attribute ``scikit_learn``.
- Weights of trees (dropout) are in ``weight_drop``: of "dart" up to 3.2, of "gbtree" in 3.3, of its model since 3.4.
- XGBoost crashes the process on some damaged files, so a file is passed to it only if its version is later than those
  tested, and after it was read here.
"""

from __future__ import annotations

import ctypes
import functools
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats
from treeanova.data.features import Schema
from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import Forest, assemble, bound_below
from treeanova.readers import checks
from treeanova.readers.checks import damage_reported, damaged, whole_number
from treeanova.readers.outputs import link_and_objective, objective_text, output_names
from treeanova.readers.xgboost import nodes as documents
from treeanova.readers.xgboost.nodes import Document, Singles, count_in, tree_model

_LOSSES = {
    "logit log": "binary:logistic reg:logistic", "softmax multiclass": "multi:softprob multi:softmax",
    "log poisson": "count:poisson", "log gamma": "reg:gamma", "log tweedie": "reg:tweedie",
    "log aft": "survival:aft", "log cox": "survival:cox",
    "identity squared": "reg:squarederror reg:linear", "identity log": "binary:logitraw",
    "identity absolute": "reg:absoluteerror", "identity pseudo_huber": "reg:pseudohubererror",
    "identity pinball": "reg:quantileerror", "identity pairwise": "rank:pairwise rank:ndcg rank:map",
    "identity": "reg:squaredlogerror",
}  # fmt: skip
_COUNTS_BYTES = (3, 4)  # since this version, names of categories from pandas are stored whole
_KIND = "an XGBoost model"


def objective_of(learner: Document) -> str:
    return str(learner["objective"]["name"])


def objective_words(learner: Document) -> str:
    """Return the objective with its parameters, in the words of `validate(loss=...)`."""
    stated = learner["objective"]
    _, name = link_and_objective(objective_of(learner), _LOSSES)
    if name == "pinball":
        return objective_text(name, *json.loads(stated["quantile_loss_param"]["quantile_alpha"]))
    if name == "tweedie":
        return objective_text(name, float(stated["tweedie_regression_param"]["tweedie_variance_power"]))
    if name == "pseudo_huber":
        return objective_text(name, float(stated["pseudo_huber_param"]["huber_slope"]))
    if name == "aft":
        aft = stated["aft_loss_param"]
        return objective_text(name, aft["aft_loss_distribution"], float(aft["aft_loss_distribution_scale"]))
    return name


def stored_margin(learner: Document, version: Any) -> Floats:
    """Return the base score of a file as a margin, XGBoost's word for score: one for all outputs or one for each."""
    name = objective_of(learner)
    link, _ = link_and_objective(name, _LOSSES)
    # The margin of binary:hinge is a plain sum; `predict` turns it into 0 or 1, for which there is no link.
    if link == "other" and name != "binary:hinge":
        raise UnsupportedModelError(
            f"an XGBoost file must have a known objective, got {name!r}, whose base score could mean anything; pass "
            "the loaded model."
        )
    if name == "binary:logitraw" and tuple(version) < (3, 2):
        raise UnsupportedModelError(
            "an XGBoost file with objective 'binary:logitraw' must be of version 3.2 or later, got "
            f"{'.'.join(map(str, version))}, whose base score may mean something else; pass the loaded model."
        )
    score = json.loads(learner["learner_model_param"]["base_score"])
    base = np.asarray(score, dtype=np.float64).astype(np.float32).reshape(-1)
    if link == "logit":  # the log-odds of a probability, in float32 as XGBoost computes them
        one, least = np.float32(1), np.float32(1e-6)
        return -_log(one / np.clip(base, least, one - least) - one).astype(np.float64)
    return (_log(base) if link == "log" else base).astype(np.float64)


def predicted_margin(booster: Any, learner: Document, version: Any) -> Floats:
    """Return what the booster predicts without its trees: the base margin, however its version stores it."""
    model = {**tree_model(learner), "trees": [], "tree_info": [], "iteration_indptr": [0]}
    model.pop("weight_drop", None)
    model["gbtree_model_param"] = {**model["gbtree_model_param"], "num_trees": "0"}
    model["cats"] = {"enc": [], "feature_segments": [], "sorted_idx": []}
    bare = {
        **learner,
        "attributes": {},
        "feature_names": [],
        "feature_types": [],
        "gradient_booster": {"name": "gbtree", "model": model},
        # otherwise XGBoost estimates the base score again
        "learner_model_param": {**learner["learner_model_param"], "boost_from_average": "0"},
    }
    text = json.dumps({"learner": bare, "version": version}, default=lambda array: array.tolist())
    treeless = type(booster)(model_file=bytearray(text, "utf-8"))
    row = np.zeros((1, count_in(learner["learner_model_param"], "num_feature")), dtype=np.float32)
    return np.asarray(treeless.inplace_predict(row, predict_type="margin"), dtype=np.float64).reshape(-1)


def _log(values: Singles) -> Singles:
    """Take float32 logarithms by the C library's logf, as XGBoost does; logarithms rounded once differ in 1 of 100."""
    try:
        logf = ctypes.CDLL(None).logf
    except (AttributeError, OSError, TypeError):  # the library cannot be loaded: at most one unit in the last place
        return np.log(values.astype(np.float64)).astype(np.float32)
    logf.argtypes, logf.restype = [ctypes.c_float], ctypes.c_float
    return np.array([logf(value) for value in values], dtype=np.float32)


def forest_of(
    learner: Document,
    version: Sequence[int],
    *,
    margin: Floats,
    last_iteration: int | None,
    missing: float = np.nan,
    is_custom: bool = False,
) -> Forest:
    """Build the forest of the trees up to `last_iteration`, of all if that is None; `margin` is the base margin."""
    n_outputs, model = documents.n_outputs_of(learner), tree_model(learner)
    trees = model["trees"][: _n_trees(model, n_outputs, last_iteration)]
    nodes = documents.read_nodes(trees)
    schema = Schema(
        features=documents.features_of(learner, nodes, missing, counts_bytes=tuple(version) >= _COUNTS_BYTES),
        outputs=_names_of_outputs(learner, n_outputs),
        link="other" if is_custom else link_and_objective(objective_of(learner), _LOSSES)[0],
        named=bool(learner.get("feature_names")),
        absent=np.nan,
        predicts_share=objective_of(learner) == "reg:logistic",
        objective="" if is_custom else objective_words(learner),
    )
    category_start, category_left = documents.category_sets(nodes, schema.features)
    return assemble(
        schema,
        _intercept(margin, n_outputs),
        roots=nodes.starts,
        feature=nodes.feature,
        bound=bound_below(nodes.condition),
        left=nodes.left,
        right=nodes.right,
        missing_left=nodes.default_left,
        values=documents.leaf_values(learner, trees, nodes, n_outputs),
        leaf_label=nodes.label,
        category_start=category_start,
        category_left=category_left,
    )


def _intercept(margin: Floats, n_outputs: int) -> Floats:
    """Return the margin of each output; ModelFileError unless there is one for all or one for each."""
    if len(margin) not in {1, n_outputs}:
        raise damaged(f"base_score must have an entry for all or each of {n_outputs} outputs, got {len(margin)}")
    if not np.isfinite(margin).all():
        raise UnsupportedModelError(
            f"an XGBoost model must have a finite base margin, got {margin.tolist()}; its base score is out of range."
        )
    return np.broadcast_to(margin, n_outputs).copy()


def _names_of_outputs(learner: Document, n_outputs: int) -> tuple[str, ...]:
    """Return names of outputs, which are levels of quantiles if the objective has several."""
    quantiles = str(learner["objective"].get("quantile_loss_param", {}).get("quantile_alpha", ""))
    levels = quantiles.strip("[]").split(",")
    is_named = len(levels) == n_outputs > 1
    return output_names(n_outputs, [f"{float(level):g}" for level in levels] if is_named else (), prefix="")


def _n_trees(model: Document, n_outputs: int, last_iteration: int | None) -> int:
    """Return the number of trees up to an iteration, after a check that all are there."""
    n_announced, n_trees = count_in(model["gbtree_model_param"], "num_trees"), len(model["trees"])
    if n_announced != n_trees:
        raise damaged(f"the model must have {n_announced} trees as num_trees says, got {n_trees}")
    ends = np.asarray(model.get("iteration_indptr", [0, n_trees]))
    if ends.dtype.kind not in "iu" or ends[0] != 0 or ends[-1] != n_trees or (np.diff(ends) < 0).any():
        raise damaged(f"iteration_indptr must ascend from 0 to {n_trees}, got {str(ends)[:40]}")
    if last_iteration is None or last_iteration == -1:  # None and, since XGBoost takes an end of 0 for all, -1: all
        return n_trees
    # Files without `iteration_indptr` have no vector leaves.
    n_in_iteration = max(1, count_in(model["gbtree_model_param"], "num_parallel_tree")) * n_outputs
    ends = model.get("iteration_indptr", range(0, n_trees + 1, n_in_iteration))
    if not 0 <= last_iteration < len(ends) - 1:
        raise UnsupportedModelError(
            "an XGBoost model must have the iterations up to its best, got best_iteration "
            f"{last_iteration} of {len(ends) - 1}."
        )
    return int(ends[last_iteration + 1])


def read(model: Any) -> Forest:
    """Read a Booster or an estimator from the UBJSON that XGBoost writes of it."""
    booster = _booster_of(model)
    last_iteration = None if model is booster else getattr(model, "best_iteration", None)

    def read_booster() -> Forest:  # up to the estimator's best iteration
        raw, missing = _ubjson_of(booster), getattr(model, "missing", np.nan)
        with damage_reported(_KIND):
            document = documents.decode_ubjson(raw)
            learner = documents.learner_of(document)
            return forest_of(
                learner,
                document["version"],
                margin=predicted_margin(booster, learner, document["version"]),
                last_iteration=last_iteration,
                missing=np.nan if missing is None else float(missing),
                is_custom=callable(getattr(model, "objective", None)),
            )

    return checks.read_live("xgboost", read_booster, lambda _: functools.partial(_margin_of, booster, last_iteration))


def read_file(path: pathlib.Path) -> Forest:
    """Read a file that ``save_model`` wrote; it does not hold the wrappers' ``missing``, so missing values are NaN."""
    data = path.read_bytes()
    with damage_reported(_KIND, path):
        document = documents.parse(data)
        version = tuple(map(whole_number, document["version"]))
        attributes = document["learner"].get("attributes", {})
        # A plain Booster predicts with all iterations.
        best = attributes.get("best_iteration") if "scikit_learn" in attributes else None
        last_iteration = None if best is None else whole_number(best)

        def read_document() -> Forest:  # up to the best iteration that the file states
            learner = documents.learner_of(document)
            margin = stored_margin(learner, document["version"])
            return forest_of(learner, document["version"], margin=margin, last_iteration=last_iteration)

        def load(library: Any, _forest: Forest) -> checks.Predict | None:  # None if this XGBoost is older than the file
            if checks.version_numbers(library.__version__) < version:
                return None
            return functools.partial(_margin_of, library.Booster(model_file=bytearray(data)), last_iteration)

        return checks.read_stored("xgboost", version, read_document, load)


def _margin_of(booster: Any, last_iteration: int | None, rows: Floats) -> npt.ArrayLike:
    """Return XGBoost's own margin at encoded rows, with the trees up to an iteration."""
    end = 0 if last_iteration is None else last_iteration + 1  # 0 for all iterations
    return booster.inplace_predict(rows, iteration_range=(0, end), predict_type="margin", validate_features=False)


def _booster_of(model: Any) -> Any:
    """Return the Booster that a model is or has."""
    if not hasattr(model, "get_booster"):
        if not hasattr(model, "save_raw"):
            raise UnsupportedModelError(f"an XGBoost model must be a Booster or a wrapper, got {type(model).__name__}.")
        return model
    try:
        return model.get_booster()
    except ValueError as error:  # scikit-learn's NotFittedError
        raise UnsupportedModelError(f"{type(model).__name__} must be fitted, got it unfitted; fit it first.") from error


def _ubjson_of(booster: Any) -> bytes:  # UnsupportedModelError if it is not fitted
    try:
        return bytes(booster.save_raw("ubj"))
    except ValueError as error:  # XGBoostError
        if "0 feature" not in str(error):
            raise
        raise UnsupportedModelError("Booster must be fitted, got one without features; fit it first.") from error
