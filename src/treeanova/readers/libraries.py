"""The readers of the package: one for each library, which is not imported unless one of its models is read."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pathlib
from typing import Any

from treeanova.model.effects import Effects
from treeanova.model.forest import Forest
from treeanova.readers.checks import damage_reported, parsed_json
from treeanova.readers.reader import Reader


@dataclasses.dataclass(frozen=True)
class LibraryReader(Reader):
    """Reads objects of a library's classes, files by their suffix, JSON files by their names at the top level, folders.

    A folder is one of the library if all of `names_in_folder` are in it.
    `module` is that of treeanova.readers, with a function `read`, and `read_file` if the library has files.
    """

    library: str
    module: str
    suffixes: tuple[str, ...] = ()
    names_in_json: tuple[str, ...] = ()
    names_in_folder: tuple[str, ...] = ()

    def recognises(self, model: Any) -> bool:
        """Whether the class of a model, or the name and content of a file, is of this library."""
        if not isinstance(model, pathlib.Path):
            return _library_of(model) == self.library
        if model.is_dir():
            return bool(self.names_in_folder) and all((model / name).exists() for name in self.names_in_folder)
        suffix = model.suffix.lower()
        return suffix in self.suffixes or (suffix == ".json" and not json_keys(model).isdisjoint(self.names_in_json))

    def read(self, model: Any) -> Forest | Effects:
        """The model, read by the library's module."""
        module = importlib.import_module(f"treeanova.readers.{self.module}")
        content: Forest | Effects = module.read_file(model) if isinstance(model, pathlib.Path) else module.read(model)
        return content


LIBRARIES = (
    LibraryReader("xgboost", "xgboost", (".ubj",), ("learner",)),
    LibraryReader("lightgbm", "lightgbm", (".txt",)),
    LibraryReader("catboost", "catboost", (".cbm",), ("oblivious_trees", "trees")),
    LibraryReader("interpret", "ebm"),
    LibraryReader("quantile_forest", "quantile_forest"),
    LibraryReader("sklearn", "sklearn"),
    LibraryReader("onnx", "onnx", (".onnx",)),
    LibraryReader("pmml", "pmml", (".pmml",)),
    LibraryReader("pyspark", "spark", names_in_folder=("metadata",)),
    LibraryReader("treelite", "treelite", (".tl", ".treelite")),
    LibraryReader("ydf", "ydf", names_in_folder=("data_spec.pb", "header.pb")),
)
_NAMES = {reader.library for reader in LIBRARIES}


def _library_of(model: Any) -> str | None:
    """The library of the first class that is from one, in the order in which Python looks for methods."""
    names = (cls.__module__.partition(".")[0] for cls in type(model).__mro__)
    return next((name for name in names if name in _NAMES), None)


def json_keys(path: pathlib.Path) -> frozenset[str]:
    """Names at the top level of a JSON file."""
    status = path.stat()
    with damage_reported("a JSON file of a model", path):
        return _parsed_keys(path.resolve(), status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=1)  # several readers ask about the same file
def _parsed_keys(path: pathlib.Path, _changed: int, _size: int) -> frozenset[str]:
    top = parsed_json(path.read_bytes(), allows_nan=True)
    return frozenset(top) if isinstance(top, dict) else frozenset()
