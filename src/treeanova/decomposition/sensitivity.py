"""How much each effect of a model depends on the density."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Key
from treeanova.core.labels import labels_of
from treeanova.data.frames import frame, table_text
from treeanova.decomposition.comparison import chunks
from treeanova.decomposition.decomposition import Decomposition


@dataclasses.dataclass(frozen=True, eq=False)
class Sensitivity:
    """How much each effect of a model depends on the density; made by `treeanova.density_sensitivity`.

    Attributes
    ----------
    decompositions
        One per density, by name.
    table
        Table with a row per term and output: the largest distance between two densities, divided by the standard
        deviation of the score; the share of variance under each density; the largest share of the weight in cells
        where signs differ; and the two densities between which the distance is largest (often "uniform" is one of
        them: leave it out of `densities` to compare the others).
    mains
        Table for plots: every main effect under every density, a row per bin.

    Examples
    --------
    >>> import treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> sensitivity = treeanova.density_sensitivity(fx.model, X, ["uniform", "empirical"])
    >>> list(sensitivity.decompositions)
    ['uniform', 'empirical']
    >>> [float(distance) for distance in sensitivity.table["distance"]]  # the four rows are uniform
    [0.0, 0.0, 0.0]
    """

    decompositions: Mapping[str, Decomposition]
    table: Any
    mains: Any

    def __str__(self) -> str:
        return table_text(self.table)


def sensitivity(found: Mapping[str, Decomposition], base: Decomposition) -> Sensitivity:
    """Decompositions of one model under several densities, compared term by term with the weights of one."""
    return Sensitivity(found, _sensitivity_table(found, base), _main_effects(found, base))


def _sensitivity_table(found: Mapping[str, Decomposition], base: Decomposition) -> Any:
    spread = np.sqrt(base.moments.score_variance)
    names, labels = list(itertools.combinations(found, 2)), _labels_by_key(base)
    shares = {name: _shares_by_key(fx) for name, fx in found.items()}
    rows: list[dict[str, Any]] = []
    for key, values, weights in _under_each(found, base):
        pairs, axes = list(itertools.combinations(values, 2)), weights.ndim
        gaps = np.array([np.tensordot(weights, (a - b) ** 2, axes=axes) for a, b in pairs])
        gap = np.sqrt(gaps.max(axis=0))
        opposite = np.max([np.tensordot(weights, a * b < 0, axes=axes) for a, b in pairs], axis=0)
        for k, output in enumerate(base.schema.outputs):
            distance = float(gap[k] / spread[k]) if spread[k] > 0 else 0.0
            row: dict[str, Any] = {"term": labels[key], "output": output, "distance": distance}
            row |= {f"share {name}": float(share[key][k]) if key in share else np.nan for name, share in shares.items()}
            rows.append(row | {"sign differs": float(opposite[k]), "between": _farthest(names, gaps[:, k])})
    rows.sort(key=lambda row: -row["distance"])
    return frame({column: [row[column] for row in rows] for column in rows[0]} if rows else {}, base.settings.backend)


def _labels_by_key(fx: Decomposition) -> dict[Key, str]:
    """Labels of all terms."""
    names, keys = fx.schema.names, fx.termset.keys
    return dict(zip(keys, labels_of([[names[j] for j in key] for key in keys], names), strict=True))


def _farthest(names: Sequence[tuple[str, str]], gaps: Floats) -> str:
    """The two densities with the largest distance."""
    return " and ".join(names[int(gaps.argmax())])


def _under_each(
    found: Mapping[str, Decomposition], base: Decomposition
) -> Iterator[tuple[Key, Sequence[Floats], Floats]]:
    """Each term with its values under each density, and their weights: over cells, or over rows without a table."""
    for key in base.effects.terms:
        yield key, [fx.effects.terms[key] for fx in found.values()], base.weights[key]
    higher = list(base.termset.keys_at_rows)
    if higher:
        codes, weights = base.density_rows
        for some in chunks(higher):
            values = np.stack([fx.evaluation.at(codes, some) for fx in found.values()], axis=1)
            yield from ((key, list(own), weights) for key, own in zip(some, values, strict=True))


def _shares_by_key(fx: Decomposition) -> dict[Key, Floats]:
    """Share of the variance of each listed term, per output."""
    total = fx.moments.score_variance
    shares = (fx.moments.variance + fx.moments.covariance) / np.where(total > 0, total, 1.0)
    return dict(zip(fx.termset.keys, shares, strict=False))  # rests and a remainder come last and have no key


def _main_effects(found: Mapping[str, Decomposition], base: Decomposition) -> Any:
    columns: dict[str, list[Any]] = {c: [] for c in ("term", "bin", "label", "density", "output", "value", "weight")}
    mains = [key for key in base.effects.terms if len(key) == 1]
    for (name, fx), key in itertools.product(found.items(), mains):
        axis = base.effects.axes_of(key)[0]
        for b, k in itertools.product(range(axis.size), range(base.effects.n_outputs)):
            value, weight = float(fx.effects.terms[key][b, k]), float(fx.weights[key][b])
            row = (axis.name, b, axis.labels[b], name, base.schema.outputs[k], value, weight)
            for column, entry in zip(columns, row, strict=True):
                columns[column].append(entry)
    return frame(columns, base.settings.backend)
