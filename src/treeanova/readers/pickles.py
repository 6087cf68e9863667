"""Pickled models: loaded only if the caller trusts them; files of skops also if skops trusts all of their types."""

from __future__ import annotations

import contextlib
import importlib
import pathlib
import pickle
import zipfile
from typing import Any

from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.readers.checks import one_line

_SUFFIXES = {".pkl", ".pickle", ".joblib"}
_SKOPS = ".skops"
# Compression makes arrays of trees 3 to 10 times smaller.
_MAX_RATIO, _FREE_BYTES = 100, 1 << 26


def unpickled(model: Any, *, trusted: bool) -> Any:
    """The model in a trusted pickle, or in a file of skops, whose path is given; anything else unchanged."""
    path = pathlib.Path(model) if isinstance(model, (str, pathlib.Path)) else None
    if path is None or path.suffix.lower() not in _SUFFIXES | {_SKOPS} or not is_file(path):
        return model
    if path.suffix.lower() == _SKOPS:
        return _load_skops(path, trusted=trusted)
    if not trusted:
        raise UnsupportedModelError(
            one_line(
                f"`model` is a pickle ({path}), and loading one runs any code that it contains; pass trusted=True "
            )
            + "(--trusted on the command line) if you trust its origin, or save the model in its library's own format."
        )
    try:
        content = _load(path)
    except ModuleNotFoundError as error:
        raise _missing_module(path, error) from error
    except Exception as error:  # a pickle may raise anything
        raise ModelFileError(
            one_line(f"{path} must be a whole pickle that this Python can load, got {_cause(error)}; file damaged?")
        ) from error
    if isinstance(content, (str, pathlib.Path)):  # a path to another file would be read in its place
        raise ModelFileError(one_line(f"{path} must be the pickle of a model, got text; file damaged?"))
    return content


def _missing_module(path: pathlib.Path, error: ModuleNotFoundError) -> UnsupportedModelError:
    return UnsupportedModelError(
        one_line(f"{path} needs the module {error.name}, which this Python does not have; install it.")
    )


def _cause(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


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
            one_line(f"`model` is a file of skops ({path}), which skops must load, got no skops; install it.")
        ) from error
    try:
        _check_unpacked_size(path)
        unknown = [str(name) for name in skops.get_untrusted_types(file=path)]
        if trusted or not unknown:
            return skops.load(path, trusted=unknown)
    except UnsupportedModelError:
        raise
    except ModuleNotFoundError as error:
        raise _missing_module(path, error) from error
    except Exception as error:  # what is in a file decides what is raised
        raise ModelFileError(
            one_line(f"{path} must be a whole file of skops, got {_cause(error)}; file damaged?")
        ) from error
    types = ", ".join(unknown[:5])
    raise UnsupportedModelError(
        one_line(f"`model` is a file of skops ({path}) with types that skops does not trust: {types}; ")
        + "pass trusted=True (--trusted on the command line) if you trust its origin."
    )


def _check_unpacked_size(path: pathlib.Path) -> None:
    """Raise UnsupportedModelError for a small file that unpacks to a large one, which models do not."""
    with zipfile.ZipFile(path) as archive:
        unpacked, packed = sum(entry.file_size for entry in archive.infolist()), path.stat().st_size
    if unpacked > _FREE_BYTES + _MAX_RATIO * packed:
        raise UnsupportedModelError(
            one_line(f"{path} must unpack to at most {_MAX_RATIO} times its size, got {unpacked:,} bytes ")
            + f"from {packed:,}; save the model without compression."
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
