"""The list of readers: which models each recognises, in memory and in files, and how it reads them.

Readers that users register come before those of the package, the latest first.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.effects import Effects
from treeanova.model.forest import Forest
from treeanova.readers.pipelines import is_pipeline, read_pipeline

READABLE = (
    "XGBoost, LightGBM and CatBoost models, scikit-learn trees, forests and gradient boosting (also at the end of a "
    "Pipeline), InterpretML EBMs, and files .json, .ubj (XGBoost), .txt (LightGBM), .cbm, .json (CatBoost)"
)


@dataclasses.dataclass(frozen=True)
class Reader:
    """One way to read models.

    Attributes
    ----------
    name
        For error messages.
    recognises
        Tells whether the reader is for a model, which may also be the path of an existing file.
    read
        The model as a Forest or as Effects.
    """

    name: str
    recognises: Callable[[Any], bool]
    read: Callable[[Any], Forest | Effects]


_registered: list[Reader] = []


def register_reader(recognises: Callable[[Any], bool], read: Callable[[Any], Forest | Effects]) -> Callable[[], None]:
    """Add a reader for models of another class; `read_model` and `decompose` then accept them.

    Registered readers are asked before those of the package, the latest first.

    Parameters
    ----------
    recognises
        Tells whether an object is a model for this reader. It is also asked about paths of existing files, as
        `pathlib.Path`, so that a reader may read a file format.
    read
        Takes such an object and returns a Forest (see `treeanova.model.forest.assemble`) or, if the model is additive,
        Effects. The score must be the model's raw prediction; values must be finite.

    Returns
    -------
    callable
        Call it without arguments to remove the reader.

    Raises
    ------
    TypeError
        If an argument is not callable; later, when a model is read, if `read` returns something else.

    Examples
    --------
    A model that predicts 1 up to a threshold and 3 above it:

    >>> import dataclasses, treeanova
    >>> from treeanova.model.forest import assemble
    >>> @dataclasses.dataclass
    ... class Stump:
    ...     threshold: float
    >>> def read_stump(stump):
    ...     return assemble(
    ...         treeanova.Schema((treeanova.Feature("age"),)),
    ...         intercept=0.0,
    ...         roots=[0],
    ...         feature=[0, -1, -1],
    ...         bound=[stump.threshold, 0, 0],
    ...         left=[1, -1, -1],
    ...         right=[2, -1, -1],
    ...         missing_left=[False, False, False],
    ...         values=[[0], [1], [3]],
    ...         leaf_label=[0, 1, 2],
    ...     )
    >>> remove = treeanova.register_reader(lambda model: isinstance(model, Stump), read_stump)
    >>> treeanova.read_model(Stump(40)).score([[40], [41]]).ravel().tolist()
    [1.0, 3.0]
    >>> fx = treeanova.decompose(Stump(40), [[30], [50]], density="empirical")
    >>> fx.intercept, fx.terms["age"].values.tolist()
    (2.0, [-1.0, 1.0])
    >>> remove()
    """
    for name, argument in (("recognises", recognises), ("read", read)):
        if not callable(argument):
            raise TypeError(f"`{name}` must be a function of a model, got {argument!r}.")
    name = _name_of(read)
    reader = Reader(name, functools.partial(_ask, name, recognises), functools.partial(_read_checked, name, read))
    _registered.insert(0, reader)
    return functools.partial(_remove, reader)


def _remove(reader: Reader) -> None:
    if reader in _registered:
        _registered.remove(reader)


def _name_of(read: Callable[..., Any]) -> str:
    """The name of a function, with that of its module."""
    return f"{read.__module__}.{read.__qualname__}" if hasattr(read, "__qualname__") else repr(read)


def _ask(name: str, recognises: Callable[[Any], bool], model: Any) -> bool:
    try:
        return bool(recognises(model))
    except Exception as error:
        error.add_note(f"raised by `recognises` of the registered reader {name}")
        raise


def _read_checked(name: str, read: Callable[[Any], Forest | Effects], model: Any) -> Forest | Effects:
    """What a registered reader returns, after checks."""
    try:
        content = read(model)
    except Exception as error:
        error.add_note(f"raised by the registered reader {name}")
        raise
    if not isinstance(content, (Forest, Effects)):
        raise TypeError(f"reader {name} must return a Forest or Effects, got {type(content).__qualname__}.")
    n_outputs = len(content.schema.outputs)
    if content.n_outputs != n_outputs:
        raise ValueError(
            f"reader {name} must return an intercept for each of {n_outputs} outputs, got {content.n_outputs}."
        )
    arrays = [content.values] if isinstance(content, Forest) else list(content.terms.values())
    for array in (content.intercept, *arrays):
        if not np.isfinite(array).all():
            raise ValueError(f"reader {name} must return finite values, got {array[~np.isfinite(array)][0]}.")
    return content


# --- readers of the package


def _library(name: str, *, module: str = "", suffixes: tuple[str, ...] = (), json_keys: tuple[str, ...] = ()) -> Reader:
    """The reader of a library: of objects of its classes, of files by suffix, and of JSON by its names at the top."""
    home = f"treeanova.readers.{module or name}"

    def recognises(model: Any) -> bool:
        if not isinstance(model, pathlib.Path):
            return _library_of(model) == name
        suffix = model.suffix.lower()
        return suffix in suffixes or (suffix == ".json" and not _json_keys(model).isdisjoint(json_keys))

    def read(model: Any) -> Forest | Effects:
        reader = importlib.import_module(home)
        content: Forest | Effects = reader.read_file(model) if isinstance(model, pathlib.Path) else reader.read(model)
        return content

    return Reader(name, recognises, read)


def _library_of(model: Any) -> str | None:
    """The supported library of the first class from one, in the order in which Python looks for methods."""
    names = (cls.__module__.partition(".")[0] for cls in type(model).__mro__)
    return next((name for name in names if name in _LIBRARIES), None)


def _json_keys(path: pathlib.Path) -> frozenset[str]:
    """Names at the top level of a JSON file."""
    status = path.stat()
    return _parsed_keys(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=1)  # two libraries ask about the same file
def _parsed_keys(path: pathlib.Path, _changed: int, _size: int) -> frozenset[str]:
    try:
        top = json.loads(path.read_bytes())
    except RecursionError as error:
        raise ModelFileError(f"{path.name} must be JSON of a model, got deeper nesting; file damaged?") from error
    except ValueError as error:
        raise ModelFileError(f"{path.name} must be JSON, got a text that is not ({error}); file damaged?") from error
    return frozenset(top) if isinstance(top, dict) else frozenset()


_LIBRARIES = {
    "xgboost": _library("xgboost", suffixes=(".ubj",), json_keys=("learner",)),
    "lightgbm": _library("lightgbm", suffixes=(".txt",)),
    "catboost": _library("catboost", suffixes=(".cbm",), json_keys=("oblivious_trees", "trees")),
    "interpret": _library("interpret", module="ebm"),
    "sklearn": _library("sklearn"),
}


def _read(model: Any) -> Forest | Effects:
    return find_reader(model).read(model)


_PIPELINES = Reader("Pipeline", is_pipeline, lambda pipeline: read_pipeline(pipeline, _read))


def find_reader(model: Any) -> Reader:
    """The first reader that recognises a model or a file; an error that lists what can be read if there is none."""
    reader = next((one for one in (*_registered, _PIPELINES, *_LIBRARIES.values()) if one.recognises(model)), None)
    if reader is not None:
        return reader
    if not isinstance(model, pathlib.Path):
        raise UnsupportedModelError(
            f"`model` must be one that treeanova reads, got {type(model).__qualname__}; it reads {READABLE}. "
            "register_reader() adds a reader for another class."
        )
    if model.suffix.lower() == ".json":
        keys = ", ".join(sorted(_json_keys(model))[:5]) or "none"
        raise ModelFileError(
            f"{model.name} must be a JSON file of XGBoost or CatBoost, got names {keys} at the top; file damaged?"
        )
    raise UnsupportedModelError(f"`model` must be a file that treeanova reads, got {model.name}; it reads {READABLE}.")
