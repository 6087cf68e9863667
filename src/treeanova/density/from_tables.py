"""The joint density that has given tables of some features each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from treeanova.core.arrays import Floats, Key
from treeanova.density.joint import MAX_CELLS, Blocks, Cells, Joint
from treeanova.density.raking import rake_to_tables

_AGREEMENT = 1e-9


def joint_of_tables(tables: Mapping[Key, Floats], sizes: Sequence[int]) -> Joint:
    """The joint density of independent blocks of features that has given tables, which agree on shared features.

    Tables that share features are joined by raking, which gives the table of largest entropy among all that have them.
    """
    blocks = [(features, _block(features, tables, sizes)) for features in _connected(tables, len(sizes))]
    return Blocks(blocks)


def _connected(tables: Mapping[Key, Floats], n_features: int) -> list[Key]:
    """Sets of features that tables connect, directly or through others; features without a table stay alone."""
    groups = [{j} for j in range(n_features)]
    for key in tables:
        joined = [group for group in groups if group & set(key)]
        groups = [group for group in groups if group not in joined] + [set().union(*joined)]
    return [tuple(sorted(group)) for group in groups]


def _block(features: Key, tables: Mapping[Key, Floats], sizes: Sequence[int]) -> Joint:
    inside = {key: table for key, table in tables.items() if set(key) <= set(features)}
    whole = next((table for key, table in inside.items() if len(key) == len(features)), None)
    if whole is not None:
        return Cells(whole)
    shape = tuple(sizes[j] for j in features)
    n_cells = math.prod(shape)
    if not inside and n_cells == 1:
        return Cells(np.ones(shape))
    if not inside:
        raise ValueError(
            f"`density` must give weights for the feature at position {features[0]}, got tables of {list(tables)}; "
            "add them to the table."
        )
    if n_cells > MAX_CELLS:
        raise ValueError(
            f"`density` must give one table of the features at positions {features}, got tables of {list(inside)} and "
            f"{n_cells:,} cells, too many to join them by raking; add their joint table."
        )
    marginals = {_positions(key, features): table for key, table in inside.items()}
    return Cells(rake_to_tables(np.full(shape, 1 / n_cells), marginals))


def _positions(key: Key, features: Key) -> Key:
    return tuple(features.index(j) for j in key)


def check_agreement(tables: Mapping[Key, Floats], names: Sequence[str]) -> None:
    """Raise ValueError where two tables have different marginals of the features that they share."""
    for (one, first), (other, second) in itertools.combinations(tables.items(), 2):
        shared = tuple(j for j in one if j in other)
        if not shared:
            continue
        gap = float(np.abs(_marginal(first, one, shared) - _marginal(second, other, shared)).sum()) / 2
        if gap > _AGREEMENT:
            raise ValueError(
                f"`density` must give the same marginal of {', '.join(names[j] for j in shared)} in all tables, got "
                f"tables of {' × '.join(names[j] for j in one)} and {' × '.join(names[j] for j in other)} that differ "
                f"by {gap:.2g} of the mass; derive them from one joint table."
            )


def _marginal(table: Floats, key: Key, kept: Key) -> Floats:
    summed: Floats = table.sum(axis=tuple(i for i, j in enumerate(key) if j not in kept))
    return summed.transpose(np.argsort(np.argsort([j for j in key if j in kept])))
