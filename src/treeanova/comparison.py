"""compare(): what changes from one decomposition to others of the same model, or of another with the same features."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from treeanova.decomposition import Decomposition
from treeanova.density import Key
from treeanova.features import Floats
from treeanova.frames import frame
from treeanova.grid import union


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison:
    """Decompositions side by side, each against the first.

    Attributes
    ----------
    distance
        Table: per term, output and decomposition the weighted root mean square of its difference to the first, also
        relative to the standard deviation of the first's score.
    signs
        Table: per main effect the share of the weight in bins where its sign differs from the first's.
    ranks
        Table: per term its rank by share of variance in each decomposition.
    """

    names: tuple[str, ...]
    distance: Any
    signs: Any
    ranks: Any

    def __str__(self) -> str:
        parts = ("distances", self.distance), ("changed signs of main effects", self.signs), ("ranks", self.ranks)
        return "\n\n".join([f"compared with {self.names[0]}", *(f"{title}\n{table}" for title, table in parts)])


def compare(decompositions: Mapping[str, Decomposition]) -> Comparison:
    """What changes between decompositions: distances of terms, signs of main effects, ranks of importance.

    Parameters
    ----------
    decompositions
        Names to decompositions of the same features and outputs; the first is what others are compared with, and its
        weights are the ones used. ``{"auto": fx, "raw": fx.raw}`` compares with the trees as they are.
    """
    if len(decompositions) < 2:
        raise ValueError(f"`decompositions` must hold at least two, got {len(decompositions)}; add fx.raw, for one.")
    names, parts = list(decompositions), list(decompositions.values())
    first = parts[0]
    if any(part.schema.outputs != first.schema.outputs for part in parts):
        raise ValueError("`decompositions` must have the same outputs, got others; compare models of one target.")
    grid, maps = union([part.grid for part in parts])
    keys = sorted({key for part in parts for key in part.effects.terms}, key=lambda key: (len(key), key))
    labels = {key: " x ".join(grid.schema.names[j] for j in key) for key in keys}
    side_by_side = _SideBySide(
        names=names,
        first=first,
        labels=labels,
        tables={key: _weights(parts, maps, key) for key in keys},
        terms=[{key: _on_union(part, old, key) for key in keys} for part, old in zip(parts, maps, strict=True)],
    )
    return Comparison(tuple(names), _distances(side_by_side), _signs(side_by_side), _ranks(names, parts, labels))


class _SideBySide(NamedTuple):
    """Terms of all decompositions on one grid, with the weights of the first."""

    names: list[str]
    first: Decomposition
    labels: dict[Key, str]
    tables: dict[Key, Floats]
    terms: list[dict[Key, Floats]]


def _on_union(part: Decomposition, old: list[Any], key: Key) -> Floats:
    """A term on the union of bins; zero where the decomposition lacks it."""
    values = part.effects.terms.get(key)
    if values is None:
        return np.zeros((*(len(old[j]) for j in key), part.effects.n_outputs))
    return values[np.ix_(*(old[j] for j in key))]


def _weights(parts: list[Decomposition], maps: list[list[Any]], key: Key) -> Floats:
    """Weights of the first decomposition that has the term, each old cell's shared by the new ones within it."""
    part, old = next((part, old) for part, old in zip(parts, maps, strict=True) if key in part.weights)
    table = part.weights[key][np.ix_(*(old[j] for j in key))]
    for axis, j in enumerate(key):
        copies = np.bincount(old[j], minlength=part.grid.sizes[j])[old[j]]
        table = table / copies.reshape([-1 if i == axis else 1 for i in range(len(key))])
    return table


def _distances(both: _SideBySide) -> Any:
    outputs = both.first.schema.outputs
    found = both.first.moments
    spread = np.sqrt((found.variance + found.covariance).sum(axis=0))
    rows: list[tuple[Any, ...]] = []
    for name, terms in zip(both.names[1:], both.terms[1:], strict=True):
        for key, label in both.labels.items():
            squares = (terms[key] - both.terms[0][key]) ** 2
            gap = np.sqrt(np.tensordot(both.tables[key], squares, axes=len(key)))
            relative = np.divide(gap, spread, out=np.zeros_like(gap), where=spread > 0)
            rows += [(label, output, name, gap[k], relative[k]) for k, output in enumerate(outputs)]
    columns = ("term", "output", "decomposition", "distance", "relative")
    return frame({column: [row[i] for row in rows] for i, column in enumerate(columns)}, both.first.backend)


def _signs(both: _SideBySide) -> Any:
    outputs = both.first.schema.outputs
    mains = [key for key in both.labels if len(key) == 1]
    columns: dict[str, list[Any]] = {"term": [both.labels[key] for key in mains for _ in outputs]}
    columns["output"] = [output for _ in mains for output in outputs]
    for name, terms in zip(both.names[1:], both.terms[1:], strict=True):
        changed = [both.tables[key] @ (np.sign(terms[key]) * np.sign(both.terms[0][key]) < 0) for key in mains]
        columns[name] = [float(share) for shares in changed for share in shares]
    return frame(columns, both.first.backend)


def _ranks(names: list[str], parts: list[Decomposition], labels: dict[Key, str]) -> Any:
    """Ranks by the sum over outputs of variance and covariance; 1 is the largest, 0 says that a term is not there."""
    columns: dict[str, list[Any]] = {"term": list(labels.values())}
    for name, part in zip(names, parts, strict=True):
        shares = (part.moments.variance + part.moments.covariance).sum(axis=1)
        order = {
            key: rank for rank, i in enumerate(np.argsort(-shares), start=1) for key in [list(part.effects.terms)[i]]
        }
        columns[name] = [order.get(key, 0) for key in labels]
    return frame(columns, parts[0].backend)
