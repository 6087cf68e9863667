"""A decomposed model at rows: its score, its terms, and what they leave."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Key
from treeanova.model.effects import Effects
from treeanova.model.grid import Grid
from treeanova.terms.deep import Deep


@dataclasses.dataclass(frozen=True, eq=False)
class AtRows:
    """What a decomposition holds of its model, for rows; the names are those of `Decomposition`."""

    effects: Effects
    raw_effects: Effects
    deep: Deep | None
    is_cut: bool
    n_all_terms: int
    n_jobs: int

    @property
    def has_remainder(self) -> bool:
        """Whether the model is more than the sum of the terms told apart."""
        return not self.n_all_terms and (self.is_cut or (self.deep is not None and self.deep.has_remainder))

    @functools.cached_property
    def keys(self) -> list[Key]:
        """Terms told apart: tensors, then those evaluated at rows."""
        return [*self.effects.terms, *(self.deep.keys if self.deep is not None else ())]

    @property
    def grid(self) -> Grid:
        """The grid of all bins of the model; tensors of a deep one may have theirs merged."""
        return self.effects.grid if self.deep is None else self.deep.grid

    def score(self, encoded: Floats) -> Floats:
        """Score of encoded rows: the trees' own where terms of high order are no tensors, else the sum of terms."""
        if self.deep is not None and not self.n_all_terms:
            return self.deep.score(encoded)
        effects = self.raw_effects if self.is_cut else self.effects
        score = effects.score_codes(effects.grid.index_encoded(encoded))
        if self.deep is not None:
            score += self.terms(self.grid.index_encoded(encoded), self.deep.keys).sum(axis=0)
        return score

    def terms(self, codes: BinIndices, keys: Sequence[Key]) -> Floats:
        """Terms at rows given by their bins on `grid`, shape (n_terms, n_rows, n_outputs)."""
        merged = codes if self.deep is None else self.deep.merged(codes)
        columns = [merged[:, j] for j in range(merged.shape[1])]
        values = np.empty((len(keys), len(codes), self.effects.n_outputs))
        higher = [i for i, key in enumerate(keys) if key not in self.effects.terms]
        for i, key in enumerate(keys):
            if key in self.effects.terms:
                values[i] = self.effects.terms[key][tuple(columns[j] for j in key)]
        if higher and self.deep is not None:
            values[higher] = np.moveaxis(self.deep.at_rows(codes, [keys[i] for i in higher], self.n_jobs), 1, 0)
        return values

    def all_terms(self, codes: BinIndices) -> Floats:
        """All terms at rows given by their bins, and last the remainder where there is one."""
        values = self.terms(codes, self.keys)
        if not self.has_remainder:
            return values
        rest = self.score(self.grid.encoded(codes)) - self.effects.intercept - values.sum(axis=0)
        return np.concatenate([values, rest[None]])
