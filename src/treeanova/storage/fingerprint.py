"""A fingerprint of the function of a decomposition: the same for two only if all their terms are the same."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.model.effects import Effects
from treeanova.model.forest import Forest
from treeanova.storage.schema import describe
from treeanova.storage.trees import pack_leaf_terms
from treeanova.terms.additive import AdditiveModel
from treeanova.terms.leaf_terms import Joined
from treeanova.terms.scope import Scope
from treeanova.terms.source import Source
from treeanova.terms.termset import TermSet
from treeanova.terms.tree_model import TreeModel


def fingerprint(source: Source, terms: TermSet, scope: Scope) -> str:
    """A digest of all that decides the values of terms and scores at rows."""
    digest = hashlib.sha256(repr(scope).encode())
    for part in _content(source, terms):
        digest.update(part)
    return digest.hexdigest()


def _content(source: Source, terms: TermSet) -> Iterator[bytes]:
    yield from _of_effects(terms.tables.effects)
    if isinstance(terms, Joined):
        header, arrays = pack_leaf_terms(terms.leaf_terms)
        yield _plain(header)
        for name in sorted(arrays):
            yield from (name.encode(), *_array(arrays[name]))
    if isinstance(source, AdditiveModel) and source.terms is not terms:
        yield from _of_effects(source.terms.tables.effects)
    if isinstance(source, TreeModel):
        yield from _of_forest(source.trees.forest)


def _of_effects(effects: Effects) -> Iterator[bytes]:
    grid = effects.grid
    yield _plain([describe(grid.schema), [axis.plain() for axis in grid.axes]])
    for axis in grid.axes:
        yield from _array(axis.thresholds)
    yield from _array(effects.intercept)
    for key in sorted(effects.terms):
        yield from (_plain(key), *_array(effects.terms[key]))
        for binning in effects.binnings.get(key, ()):
            yield from _array(binning.bins)


def _of_forest(forest: Forest) -> Iterator[bytes]:
    yield _plain(describe(forest.schema))
    for field in dataclasses.fields(forest):
        value = getattr(forest, field.name)
        if isinstance(value, np.ndarray):
            yield from _array(value)


def _plain(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, default=repr).encode()


def _array(array: npt.NDArray[Any]) -> Iterator[bytes]:
    whole = np.ascontiguousarray(array)
    yield f"{whole.dtype.str}{whole.shape}".encode()
    yield whole.tobytes()
