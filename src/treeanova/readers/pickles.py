"""Pickled models: loaded only if the caller trusts them; files of skops also if skops trusts all of their types."""

from __future__ import annotations

import contextlib
import importlib
import pathlib
import pickle
from typing import Any

from treeanova.errors import ModelFileError, UnsupportedModelError

_SUFFIXES = {".pkl", ".pickle", ".joblib"}
_SKOPS = ".skops"


def unpickled(model: Any, *, trusted: bool) -> Any:
    """The model in a trusted pickle, or in a file of skops, whose path is given; anything else unchanged."""
    path = pathlib.Path(model) if isinstance(model, (str, pathlib.Path)) else None
    if path is None or path.suffix.lower() not in _SUFFIXES | {_SKOPS} or not is_file(path):
        return model
    if path.suffix.lower() == _SKOPS:
        return _load_skops(path, trusted=trusted)
    if not trusted:
        raise UnsupportedModelError(
            f"`model` is a pickle ({path.name}), and loading one runs any code that it contains; pass trusted=True "
            "(--trusted on the command line) if you trust its origin, or save the model in its library's own format."
        )
    try:
        return _load(path)
    except Exception as error:  # a pickle may raise anything
        raise ModelFileError(
            f"{path.name} must be a whole pickle that this Python can load, got {type(error).__name__}; file damaged?"
        ) from error


def _load(path: pathlib.Path) -> Any:
    """The content of a pickle; that of a .joblib file by joblib, if it is installed."""
    if path.suffix.lower() == ".joblib":
        with contextlib.suppress(ImportError):
            return importlib.import_module("joblib").load(path)
    with path.open("rb") as file:
        return pickle.load(file)  # noqa: S301  the caller trusts it


def _load_skops(path: pathlib.Path, *, trusted: bool) -> Any:
    """The content of a file of skops; types that skops does not trust by itself only if the caller does."""
    try:
        skops = importlib.import_module("skops.io")
    except ImportError as error:
        raise UnsupportedModelError(
            f"`model` is a file of skops ({path.name}), which skops must load, got no skops; install it."
        ) from error
    try:
        unknown = [str(name) for name in skops.get_untrusted_types(file=path)]
        if trusted or not unknown:
            return skops.load(path, trusted=unknown)
    except Exception as error:  # what is in a file decides what is raised
        raise ModelFileError(
            f"{path.name} must be a whole file of skops whose types are installed, got {type(error).__name__}: "
            f"{str(error)[:200]}; file damaged?"
        ) from error
    raise UnsupportedModelError(
        f"`model` is a file of skops ({path.name}) with types that skops does not trust: {', '.join(unknown[:5])}; "
        "pass trusted=True (--trusted on the command line) if you trust its origin."
    )


def is_file(path: pathlib.Path) -> bool:
    """Whether a path is that of a file; False if the system cannot use it as a path, for example if it is too long."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_model_path(path: pathlib.Path) -> bool:
    """Whether a path is that of a file or of a folder; False if the system cannot use it as a path."""
    try:
        return path.is_file() or path.is_dir()
    except (OSError, ValueError):
        return False
