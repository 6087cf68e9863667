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
from treeanova.readers.checks import whole_number

Fields = dict[str, str]
_READABLE_VERSIONS = ("v3", "v4")
_BARE_LINES = {"tree", "average_output"}
_END = re.compile(r"(\nend of (parameters|parser)\n|\n\npandas_categorical:[^\n]*\n*)\Z")
_NUMBERS = re.compile(r"[0-9+\-.e infa]*", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class ModelText:
    """Fields of the header and of each tree, and the lines after the trees."""

    header: Fields
    trees: Sequence[Fields]
    tail: Sequence[str]

    def count(self, key: str) -> int:
        """A positive number of the header."""
        number = whole_number(self.header.get(key, ""))
        if number < 1:
            raise ModelFileError(f"`{key}` must be positive, got {number}; file damaged?")
        return number

    def tail_entry(self, start: str, default: str) -> str:
        """The rest of the last line after the trees that begins with `start`, or a default without such a line."""
        return next((line.removeprefix(start) for line in reversed(self.tail) if line.startswith(start)), default)

    def integers(self, key: str, sizes: Ints) -> Ints:
        """The integers of a field, tree after tree; each tree must have as many as `sizes` says."""
        return np.array(self._gather(key, int, sizes), dtype=np.int64)

    def decimals(self, key: str, sizes: Ints) -> Floats:
        """The decimal numbers of a field, tree after tree; each tree must have as many as `sizes` says."""
        return np.array(self._gather(key, float, sizes), dtype=np.float64)

    def _gather(self, key: str, convert: Callable[[str], float], sizes: Ints) -> list[float]:
        texts = [tree.get(key, "") for tree in self.trees]
        wrong_text = next((text for text in texts if not _NUMBERS.fullmatch(text)), None)
        if wrong_text is not None:  # Python takes 1_000 and digits of other scripts
            raise ModelFileError(f"`{key}` must be numbers, got {wrong_text!r:.60}; file damaged?")
        tokens = [text.split() for text in texts]
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
    head, *blocks = body.split("\nTree=")
    header = _fields(head)
    _check_version(header.get("version", "none"), text)
    _check_trees(header, blocks)
    return ModelText(header, [_fields(f"Tree={block}") for block in blocks], _tail_lines(tail))


def _check_trees(header: Fields, blocks: Sequence[str]) -> None:
    """Raise ModelFileError unless the trees are those that `tree_sizes` announces, each with its number of bytes.

    LightGBM always writes `tree_sizes`, but also reads texts without.
    """
    found = [len(f"Tree={block}\n".encode()) for block in blocks]  # with the line end that split() took away
    sizes = [whole_number(size) for size in header["tree_sizes"].split()] if "tree_sizes" in header else found
    if len(sizes) != len(blocks):
        raise ModelFileError(
            f"the model must have {len(sizes)} trees as `tree_sizes` says, got {len(blocks)}; file cut off?"
        )
    for number, block in enumerate(blocks):
        if not block.startswith(f"{number}\n") or found[number] != sizes[number]:
            raise ModelFileError(
                f"tree {number} must have {sizes[number]} bytes as `tree_sizes` says, got {found[number]} bytes of "
                f"tree {block[:10].partition(chr(10))[0]}; file damaged?"
            )


def _tail_lines(tail: str) -> list[str]:
    """Lines after the trees; the last ones are always the same, so that a text that is cut off lacks them.

    LightGBM ends with the parameters, if it knows them, and Python adds pandas_categorical. R, the command line and
    other users of LightGBM's library do not.
    """
    if not _END.search(tail):
        raise ModelFileError(
            "a LightGBM text model must end with the line 'end of parameters' or with `pandas_categorical`, got "
            f"{tail[-20:]!r}; file cut off?"
        )
    return tail.split("\n")


def _fields(block: str) -> Fields:
    # Not splitlines(): names may contain what Unicode considers line ends.
    lines = [line for line in block.split("\n") if line]
    fields = {key: value for key, _, value in (line.partition("=") for line in lines)}
    bare = [line for line in lines if "=" not in line and line not in _BARE_LINES]
    if bare:
        raise ModelFileError(f"lines of {lines[0]!r:.20} must be names and values, got {bare[0]!r:.40}; file damaged?")
    if len(fields) < len(lines):
        raise ModelFileError(f"lines of {lines[0]!r:.20} must have names of their own, got one twice; file damaged?")
    return fields


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
