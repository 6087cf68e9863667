"""Effects: an additive model as one tensor per set of features, on a grid."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Key
from treeanova.model.grid import Grid


@dataclasses.dataclass(frozen=True, eq=False)
class Effects:
    """Intercept and terms; their sum is the score.

    Attributes
    ----------
    grid
        The axes.
    intercept
        Shape (n_outputs,).
    terms
        Sorted positions of the features -> tensor over the bins of their axes, with a last axis of outputs.
    """

    grid: Grid
    intercept: Floats
    terms: Mapping[Key, Floats]

    def __post_init__(self) -> None:
        ordered = sorted(self.terms.items(), key=lambda item: (len(item[0]), item[0]))
        for key, values in ordered:
            expected = (*(self.grid.sizes[j] for j in key), len(self.intercept))
            if values.shape != expected or list(key) != sorted(set(key)):
                raise ValueError(
                    f"term {key} must have shape {expected}, got {values.shape}; put it on the grid's axes."
                )
            values.setflags(write=False)
        object.__setattr__(self, "terms", MappingProxyType(dict(ordered)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Effects, (self.grid, self.intercept, dict(self.terms))  # a mapping proxy has no pickle of its own

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.intercept)

    def score(self, data: Any) -> Floats:
        """Sum of intercept and terms at rows, shape (n_rows, n_outputs)."""
        return self.score_codes(self.grid.index(data))

    def score_codes(self, codes: BinIndices) -> Floats:
        """Sum of intercept and terms at rows given by their bins."""
        total = np.repeat(self.intercept[None], len(codes), axis=0)
        for key, values in self.terms.items():
            total += values[tuple(codes[:, j] for j in key)]
        return total
