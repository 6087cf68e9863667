"""The text of a LightGBM model as fields: a header, the trees, and the lines after the trees."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Sequence

import numpy as np

from treeanova.core.arrays import Floats, Ints
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.readers import versions

Fields = dict[str, str]
_READABLE_VERSIONS = ("v3", "v4")


@dataclasses.dataclass(frozen=True)
class ModelText:
    """Fields of the header and of each tree, and the lines after the trees."""

    header: Fields
    trees: Sequence[Fields]
    tail: Sequence[str]

    def count(self, key: str) -> int:
        """A positive number of the header."""
        number = int(self.header.get(key, ""))
        if number < 1:
            raise ModelFileError(f"`{key}` must be positive, got {number}; file damaged?")
        return number

    def tail_entry(self, start: str) -> str:
        """The rest of the last line after the trees that begins with `start`; empty if there is no such line."""
        return next((line.removeprefix(start) for line in reversed(self.tail) if line.startswith(start)), "")

    def integers(self, key: str, sizes: Ints) -> Ints:
        """The integers of a field, tree after tree; each tree must have as many as `sizes` says."""
        return np.array(self._gather(key, int, sizes), dtype=np.int64)

    def decimals(self, key: str, sizes: Ints) -> Floats:
        """The decimal numbers of a field, tree after tree; each tree must have as many as `sizes` says."""
        return np.array(self._gather(key, float, sizes), dtype=np.float64)

    def _gather(self, key: str, convert: Callable[[str], float], sizes: Ints) -> list[float]:
        tokens = [tree.get(key, "").split() for tree in self.trees]
        wrong = np.flatnonzero(np.fromiter(map(len, tokens), np.int64, len(tokens)) != sizes)
        if len(wrong):
            tree = wrong[0]
            raise ModelFileError(
                f"`{key}` of tree {tree} must have {sizes[tree]} entries, got {len(tokens[tree])}; file damaged?"
            )
        return list(map(convert, itertools.chain.from_iterable(tokens)))


def parse(text: str) -> ModelText:
    """The parts of a model's text, after checks that it is whole and of a known version."""
    if not text.startswith("tree\n"):
        raise ModelFileError(
            f"a LightGBM text model must start with the line 'tree', got {text[:20]!r}; is it another kind of file?"
        )
    body, mark, tail = text.partition("\nend of trees\n")
    if not mark:
        raise ModelFileError("a LightGBM text model must have the line 'end of trees', got none; file cut off?")
    header, *trees = [_fields(block) for block in body.split("\nTree=")]
    _check_version(header.get("version", "none"), text)
    n_sizes = len(header["tree_sizes"].split()) if "tree_sizes" in header else len(trees)
    if n_sizes != len(trees):
        raise ModelFileError(f"the model must have {n_sizes} trees as `tree_sizes` says, got {len(trees)}; cut off?")
    return ModelText(header, trees, tail.split("\n"))


def _fields(block: str) -> Fields:
    # Not splitlines(): names may contain what Unicode considers line ends.
    return {key: value for key, _, value in (line.partition("=") for line in block.split("\n"))}


def _check_version(version: str, text: str) -> None:
    if version not in _READABLE_VERSIONS and not versions.is_newer("lightgbm text", version_of(text)):
        raise UnsupportedModelError(
            f"the model's version must be one of {', '.join(_READABLE_VERSIONS)}, got {version[:20]!r}; "
            "load and save it with a recent LightGBM."
        )


def version_of(text: str) -> tuple[int, ...]:
    """The number of the text's format, from its first lines; empty if it has none."""
    match = re.match(r"tree\nversion=v(\d{1,9})\n", text)
    return (int(match[1]),) if match else ()
