"""The document that XGBoost saves: its parts by name."""

from __future__ import annotations

from typing import Any

from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.readers.checks import parsed_json, whole_number
from treeanova.readers.xgboost import ubjson

Document = dict[str, Any]
_MAX_OUTPUTS = 1 << 16
_UBJSON_STARTS = {b"L", b"i", b"U", b"I", b"l", b"#", b"$"}


def parse(data: bytes) -> Any:
    """The document in a file of either format, recognised by what follows the first brace."""
    if data[:1] != b"{":
        raise ModelFileError(
            f"an XGBoost file must start with a brace, got {data[:10]!r}; save the model as .json or .ubj."
        )
    return ubjson.decode(data) if data[1:2] in _UBJSON_STARTS else parsed_json(data, allows_nan=True)


def learner_of(document: Any) -> Document:
    """The learner, whose booster must be made of trees."""
    learner: Document = document["learner"]
    name = learner["gradient_booster"]["name"]
    if name not in {"gbtree", "dart"}:
        raise UnsupportedModelError(
            f"an XGBoost model must be made of trees, got booster {name!r}; train it with booster='gbtree'."
        )
    return learner


def tree_model(learner: Document) -> Document:
    """The part that holds the trees."""
    booster = learner["gradient_booster"]
    model: Document = (booster["gbtree"] if booster["name"] == "dart" else booster)["model"]
    return model


def count_of(parameters: Document, name: str) -> int:
    """A parameter that counts something; absent means 0."""
    count = whole_number(parameters.get(name, 0))
    if count < 0:
        raise ModelFileError(f"{name} must be 0 or more, got {count}; file damaged?")
    return count


def n_outputs_of(learner: Document) -> int:
    """Number of outputs: classes or targets."""
    parameters = learner["learner_model_param"]
    n_outputs = max(1, count_of(parameters, "num_class"), count_of(parameters, "num_target"))
    if n_outputs > _MAX_OUTPUTS:
        raise UnsupportedModelError(f"an XGBoost model must have at most {_MAX_OUTPUTS} outputs, got {n_outputs}.")
    return n_outputs
