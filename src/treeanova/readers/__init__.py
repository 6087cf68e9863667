"""Readers: a trained model of any supported library, or its file, as a Forest or as Effects.

Each library has one module or sub-package with a function ``read(model)``, and ``read_file(path)`` if it has files.
None imports its library: if a model is in memory, its library is loaded already. Readers that users register come
first, the latest before the others. ``python tools/write_catalogue.py`` writes the list of libraries into the pages.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import pathlib
import pickle
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.effects import Effects
from treeanova.model.forest import Forest
from treeanova.readers.checks import damage_reported, one_line, parsed_json
from treeanova.readers.pipelines import final_step, is_pipeline, read_in_raw_columns, read_pipeline
from treeanova.readers.wrappers import is_wrapper
from treeanova.readers.wrappers import read as read_wrapper

__all__ = ["final_step", "read_for_rows", "read_model", "register_reader", "unpickled"]
_SUFFIXES = {".pkl", ".pickle", ".joblib"}
_SKOPS = ".skops"
# Compression makes arrays of trees 3 to 10 times smaller.
_MAX_RATIO, _FREE_BYTES = 100, 1 << 26


def read_model(model: Any, *, trusted: bool = False) -> Forest | Effects:
    """Return the model as a Forest or as Effects, whose score equals the library's raw prediction for every input.

    For a scikit-learn Pipeline only the final step is read, with the feature names that the earlier steps give: score
    it on ``pipeline[:-1].transform(X)``, not on X. (`decompose` reads a Pipeline on the columns that enter it.)

    Parameters
    ----------
    model
        A fitted model of a supported library or of a class with a registered reader, or the path of a saved model. A
        Forest or Effects is returned unchanged.
    trusted
        Whether a pickle may be loaded: loading one runs any code that it contains.

    Returns
    -------
    Forest or Effects
        A Forest for tree ensembles; Effects for EBMs, which are additive already.

    Raises
    ------
    UnsupportedModelError
        If the model cannot be read exactly; the message gives the reason.
    ModelFileError
        If a file is damaged.
    FileNotFoundError
        If `model` is a path without a file.

    Examples
    --------
    >>> import numpy as np, treeanova
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[1.0], [2.0], [3.0]])
    >>> forest = treeanova.read_model(DecisionTreeRegressor(max_depth=1).fit(X, [0.0, 6.0, 6.0]))
    >>> forest.n_trees, forest.n_leaves
    (1, 2)
    >>> forest.score(X).ravel().tolist()
    [0.0, 6.0, 6.0]
    """
    path = pathlib.Path(model) if isinstance(model, (str, pathlib.Path)) else None
    model = unpickled(model, trusted=trusted)
    if isinstance(model, (Forest, Effects)):
        return model
    if path is None:
        return read(model)
    if isinstance(model, (str, pathlib.Path)):
        if is_file_or_folder(path):
            return read(path)
        text = str(path)
        if "\n" in text or text.startswith("{"):
            raise UnsupportedModelError(
                f"`model` must be a fitted model or the path of a saved one, got a text ({text[:20]!r}…); write it to "
                "a file (.txt for LightGBM, .json for XGBoost and CatBoost) and pass the path."
            )
        raise FileNotFoundError(
            f"`model` must be a fitted model or the path of a saved one, no such file: {text[:200]!r}; check the path."
        )
    with damage_reported("a pickled model", path):
        return read(model)


def read_for_rows(model: Any, X: Any = None) -> Forest | Effects:
    """Read a model like `read_model`, but a Pipeline as a function of the user's columns, not of transformed ones."""
    # With X, scores are compared with those of the final step on transformed rows; UnsupportedModelError if not equal.
    if isinstance(model, (Forest, Effects, str, pathlib.Path)):
        return read_model(model)
    return read(model, for_rows=True, X=X)


@dataclasses.dataclass(frozen=True)
class LibraryReader:
    """Reads objects of a library's classes, files by suffix, JSON files by names at the top level, and folders."""

    title: str  # the library's name in messages
    library: str  # the name by which it is imported
    module: str  # of treeanova.readers, with a function `read`, and `read_file` if the library has files
    suffixes: tuple[str, ...] = ()
    names_in_json: tuple[str, ...] = ()  # of which a file has at least one at the top level
    names_in_folder: tuple[str, ...] = ()  # all of which a folder has

    @property
    def files(self) -> tuple[str, ...]:
        """The suffixes of files that are read, and "folder" if the library saves folders."""
        json = (".json",) if self.names_in_json else ()
        return (*json, *self.suffixes, *(("folder",) if self.names_in_folder else ()))

    def recognises(self, model: Any) -> bool:
        """Whether a model, or the file or folder at a path, is of this library."""
        if not isinstance(model, pathlib.Path):
            # A user's class belongs to the first known library among its base classes.
            names = (cls.__module__.partition(".")[0] for cls in type(model).__mro__)
            return next((name for name in names if name in _NAMES), None) == self.library
        if model.is_dir():
            return bool(self.names_in_folder) and all((model / name).exists() for name in self.names_in_folder)
        suffix = model.suffix.lower()
        return suffix in self.suffixes or (suffix == ".json" and not json_keys(model).isdisjoint(self.names_in_json))

    def read(self, model: Any) -> Forest | Effects:  # by the library's module; `model` is an object or a path
        module = importlib.import_module(f"treeanova.readers.{self.module}")
        return module.read_file(model) if isinstance(model, pathlib.Path) else module.read(model)


LIBRARIES = (
    LibraryReader("XGBoost", "xgboost", "xgboost", (".ubj",), ("learner",)),
    LibraryReader("LightGBM", "lightgbm", "lightgbm", (".txt",)),
    LibraryReader("CatBoost", "catboost", "catboost", (".cbm",), ("oblivious_trees", "trees")),
    LibraryReader("scikit-learn", "sklearn", "sklearn"),
    LibraryReader("InterpretML", "interpret", "ebm"),
    LibraryReader("quantile-forest", "quantile_forest", "sklearn"),
    LibraryReader("ONNX", "onnx", "onnx", (".onnx",)),
    LibraryReader("Yggdrasil Decision Forests", "ydf", "ydf", names_in_folder=("data_spec.pb", "header.pb")),
    LibraryReader("treelite", "treelite", "treelite", (".tl", ".treelite")),
    LibraryReader("Spark ML", "pyspark", "spark", names_in_folder=("metadata",)),
    LibraryReader("PMML", "pmml", "pmml", (".pmml",)),
)
_NAMES = {reader.library for reader in LIBRARIES}


def readable_models() -> str:
    """Return a list of libraries and files for error messages."""
    names = ", ".join(reader.title for reader in LIBRARIES)
    files = ", ".join(f"{'/'.join(reader.files)} ({reader.title})" for reader in LIBRARIES if reader.files)
    return f"models of {names} and wrappers of scikit-learn, and files {files}"


def json_keys(path: pathlib.Path) -> frozenset[str]:
    """Return the names at the top level of a JSON file; none if it holds a list."""
    status = path.stat()
    with damage_reported("a JSON file of a model", path):
        return _parsed_keys(path.resolve(), status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=1)  # several readers ask about the same file
def _parsed_keys(path: pathlib.Path, _changed: int, _size: int) -> frozenset[str]:
    """Return names at the top of a JSON file; its time and size are keys of the cache, so a new file is parsed."""
    top = parsed_json(path.read_bytes(), allows_nan=True)
    return frozenset(top) if isinstance(top, dict) else frozenset()


def unpickled(model: Any, *, trusted: bool) -> Any:
    """Load the pickle or skops file that `model` is the path of; return any other model or path unchanged."""
    path = pathlib.Path(model) if isinstance(model, (str, pathlib.Path)) else None
    if path is None or path.suffix.lower() not in _SUFFIXES | {_SKOPS} or not is_file_or_folder(path) or path.is_dir():
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
        content = _load_pickle(path)
    except ModuleNotFoundError as error:
        raise _missing_module_error(path, error) from error
    except Exception as error:  # a pickle may raise anything
        raise ModelFileError(
            one_line(f"{path} must be a whole pickle that this Python can load, got {_cause_of(error)}; file damaged?")
        ) from error
    if isinstance(content, (str, pathlib.Path)):  # a path to another file would be read in its place
        raise ModelFileError(one_line(f"{path} must be the pickle of a model, got text; file damaged?"))
    return content


def _missing_module_error(path: pathlib.Path, error: ModuleNotFoundError) -> UnsupportedModelError:  # of a pickle
    return UnsupportedModelError(
        one_line(f"{path} needs the module {error.name}, which this Python does not have; install it.")
    )


def _cause_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def _load_pickle(path: pathlib.Path) -> Any:  # by joblib if the suffix says so; whoever calls trusts the file
    if path.suffix.lower() == ".joblib":
        with contextlib.suppress(ImportError):
            return importlib.import_module("joblib").load(path)
    with path.open("rb") as file:
        return pickle.load(file)  # noqa: S301  see above


def _load_skops(path: pathlib.Path, *, trusted: bool) -> Any:
    """Load a file of skops; types that skops does not trust by itself only if the caller does."""
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
        raise _missing_module_error(path, error) from error
    except Exception as error:  # what is in a file decides what is raised
        message = f"{path} must be a whole file of skops, got {_cause_of(error)}; file damaged?"
        raise ModelFileError(one_line(message)) from error
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


def is_file_or_folder(path: pathlib.Path) -> bool:  # False also for a text that cannot be a path
    try:
        return path.is_file() or path.is_dir()
    except (OSError, ValueError):
        return False


# What users have registered: whether a model is for the reader, and the reader.
_registered: list[tuple[Callable[[Any], bool], Callable[[Any], Forest | Effects]]] = []


@contextlib.contextmanager
def _adding_note(note: str) -> Iterator[None]:
    """Add a note to errors of a user's function."""
    try:
        yield
    except Exception as error:
        error.add_note(note)
        raise


def _check_result(name: str, content: object) -> None:
    """Raise TypeError or ValueError unless a reader of a user has returned a finite forest or effects."""
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
    ...         treeanova.model.Schema((treeanova.model.Feature("age"),)), intercept=0.0, roots=[0],
    ...         feature=[0, -1, -1], bound=[stump.threshold, 0, 0], left=[1, -1, -1], right=[2, -1, -1],
    ...         missing_left=[False, False, False], values=[[0], [1], [3]], leaf_label=[0, 1, 2],
    ...     )
    >>> remove = treeanova.register_reader(lambda model: isinstance(model, Stump), read_stump)
    >>> treeanova.read_model(Stump(40)).score([[40], [41]]).ravel().tolist()
    [1.0, 3.0]
    >>> remove()
    """
    for name, argument in (("recognises", recognises), ("read", read)):
        if not callable(argument):
            raise TypeError(f"`{name}` must be a function of a model, got {argument!r}.")
    reader = recognises, read
    _registered.insert(0, reader)

    def remove() -> None:
        if reader in _registered:
            _registered.remove(reader)

    return remove


def read(model: Any, *, for_rows: bool = False, X: Any = None) -> Forest | Effects:
    """Read a model or a file by the first reader that recognises it."""
    # A Pipeline is read as its final step, on transformed columns; if `for_rows`, as a function of the user's columns,
    # compared with its steps at rows of X, if given. Members of wrappers are always read in the second way.
    for recognises, read_registered in _registered:
        name = repr(read_registered)
        if hasattr(read_registered, "__qualname__"):
            name = f"{read_registered.__module__}.{read_registered.__qualname__}"
        with _adding_note(f"raised by `recognises` of the registered reader {name}"):
            is_recognised = bool(recognises(model))
        if is_recognised:
            with _adding_note(f"raised by the registered reader {name}"):
                content = read_registered(model)
            _check_result(name, content)
            return content
    if is_pipeline(model):
        return read_in_raw_columns(model, read, X) if for_rows else read_pipeline(model, read)
    if is_wrapper(model):
        return read_wrapper(model, lambda member: read(member, for_rows=True, X=X))
    return _library_reader(model).read(model)


def _library_reader(model: Any) -> LibraryReader:
    """Return the reader of a model or path; UnsupportedModelError or ModelFileError if there is none."""
    reader = next((reader for reader in LIBRARIES if reader.recognises(model)), None)
    if reader is not None:
        return reader
    if not isinstance(model, pathlib.Path):
        raise UnsupportedModelError(
            f"`model` must be one that treeanova reads, got {type(model).__qualname__}; it reads {readable_models()}. "
            "register_reader() adds a reader for another class."
        )
    if model.suffix.lower() == ".json" and model.is_file():
        names = ", ".join(sorted(json_keys(model))[:5]) or "none"
        raise ModelFileError(
            one_line(f"{model} must be a JSON file of XGBoost or CatBoost, got names {names} at the top; file damaged?")
        )
    got = one_line(f"the folder {model}" if model.is_dir() else str(model))
    raise UnsupportedModelError(
        f"`model` must be a file that treeanova reads, got {got}; it reads {readable_models()}."
    )
