"""read_model(): a trained model of any supported library, or its file, as a Forest or as Effects.

Each library has one module here with a function ``read(model)``; those with files also ``read_file(path)``. None of the
libraries is imported: a model at hand means that its library is loaded already.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import pathlib
import pickle
from typing import Any

from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.effects import Effects
from treeanova.model.forest import Forest

_LIBRARIES = {
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
    "catboost": "catboost",
    "sklearn": "sklearn",
    "interpret": "ebm",
}
_SUFFIXES = {".ubj": "xgboost", ".txt": "lightgbm", ".cbm": "catboost"}
_PICKLES = {".pkl", ".pickle", ".joblib"}
_READABLE = (
    "XGBoost, LightGBM and CatBoost models, scikit-learn trees, forests and gradient boosting (also last in a "
    "Pipeline), InterpretML EBMs, and files .json, .ubj (XGBoost), .txt (LightGBM), .cbm, .json (CatBoost)"
)


def read_model(model: Any, *, trusted: bool = False) -> Forest | Effects:
    """The model in neutral form, equal to the library's own raw prediction for every input.

    Parameters
    ----------
    model
        A fitted model, or the path of a saved one; what was read before comes back as it is.
    trusted
        Whether a pickle may be loaded: loading one runs whatever code it holds.

    Returns
    -------
    Forest or Effects
        A Forest for tree ensembles; Effects for EBMs, which are additive already.
    """
    model = unpickled(model, trusted=trusted)
    if isinstance(model, (Forest, Effects)):
        return model
    if isinstance(model, (str, pathlib.Path)):
        return _read_path(pathlib.Path(model))
    for cls in type(model).__mro__:
        library = _LIBRARIES.get(cls.__module__.partition(".")[0])
        if library is not None:
            result: Forest | Effects = importlib.import_module(f"treeanova.readers.{library}").read(model)
            return result
    raise UnsupportedModelError(
        f"`model` must be one that treeanova reads, got {type(model).__qualname__}; it reads {_READABLE}."
    )


def unpickled(model: Any, *, trusted: bool) -> Any:
    """The model in a pickle whose path is given, if it is trusted; anything else as it is."""
    path = pathlib.Path(model) if isinstance(model, (str, pathlib.Path)) else None
    if path is None or path.suffix.lower() not in _PICKLES or not _is_file(path):
        return model
    if not trusted:
        raise UnsupportedModelError(
            f"`model` is a pickle ({path.name}), and loading one runs whatever code it holds; pass trusted=True "
            "(--trusted on the command line) if you know where it comes from, or save the model in its library's own "
            "format."
        )
    try:
        return _load_pickle(path)
    except Exception as error:  # a pickle may raise anything
        raise ModelFileError(
            f"{path.name} must be a whole pickle that this Python can load, got {type(error).__name__}; file damaged?"
        ) from error


def _load_pickle(path: pathlib.Path) -> Any:
    """What is in a pickle, by joblib where its own kind of file is named and it is there."""
    if path.suffix.lower() == ".joblib":
        with contextlib.suppress(ImportError):
            return importlib.import_module("joblib").load(path)
    with path.open("rb") as file:
        return pickle.load(file)  # noqa: S301  the caller said so


def _is_file(path: pathlib.Path) -> bool:
    """Whether a path is that of a file; not where the system takes it for no path at all, as it is too long."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _read_path(path: pathlib.Path) -> Forest | Effects:
    if not _is_file(path):
        text = str(path)
        if "\n" in text or text.startswith("{"):
            raise UnsupportedModelError(
                f"`model` must be a fitted model or the path of a saved one, got a text ({text[:20]!r}…); write it to "
                "a file (.txt for LightGBM, .json for XGBoost and CatBoost) and pass the path."
            )
        raise FileNotFoundError(
            f"`model` must be the path of a file, got {text[:200]!r}, which is none; check the path."
        )
    suffix = path.suffix.lower()
    library = _json_library(path) if suffix == ".json" else _SUFFIXES.get(suffix)
    if library is None:
        raise UnsupportedModelError(
            f"`model` must be a file that treeanova reads, got {path.name}; it reads {_READABLE}."
        )
    result: Forest | Effects = importlib.import_module(f"treeanova.readers.{library}").read_file(path)
    return result


def _json_library(path: pathlib.Path) -> str:
    """XGBoost and CatBoost both write .json: told apart by the names at the top level."""
    try:
        top = json.loads(path.read_bytes())
    except RecursionError as error:
        raise ModelFileError(f"{path.name} must be JSON of a model, got deeper nesting; file damaged?") from error
    except ValueError as error:
        raise ModelFileError(f"{path.name} must be JSON, got something else ({error}); file damaged?") from error
    if isinstance(top, dict) and "learner" in top:
        return "xgboost"
    if isinstance(top, dict) and ("oblivious_trees" in top or "trees" in top):
        return "catboost"
    raise ModelFileError(f"{path.name} must hold an XGBoost or CatBoost model, got neither; file damaged?")
