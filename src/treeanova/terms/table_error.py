"""Error that the correction of high orders leaves in the tables of low orders, estimated in two ways and added up.

What dependence moves from high orders to tables is found on coarse bins, so tables can be pure and still differ from
those of an exact decomposition. Two things show by how much:

- what half as many bins would change in the tables;
- what the terms of high order still hold of the tables' features: means of their sum over the cells of a table, at rows
  of the density, less the noise of draws.

Both are made pure as the tables are, on at most 4,096 cells per table, and the largest entries of both are added. This
is an estimate, not a bound: the tests compare it with exact decompositions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from treeanova.anova.cascade import cascade
from treeanova.anova.slices import largest, safe_inverse
from treeanova.anova.solvers.base import Options
from treeanova.core.arrays import Floats, Ints, Key
from treeanova.density.joint import Points
from treeanova.model.binning import Binning, binning_by
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.correction import Correction
from treeanova.terms.leftover import cell_means
from treeanova.terms.termset import Tensors
from treeanova.terms.trees import Trees

_MAX_CELLS = 1 << 12
_MAX_TABLES = 300  # those that most leaves have


@dataclasses.dataclass(frozen=True, eq=False)
class TableErrors:
    """Sizes of changes of tables, once they are made pure, relative to the largest score of each output."""

    trees: Trees
    tables: Tensors
    scales: Floats

    def of_bins(self, fine: Correction, rough: Correction) -> float:
        """The largest entry of the difference that two corrections make to tables."""
        if not fine.moved:
            return 0.0
        changes = {key: values - rough.moved[key] for key, values in fine.moved.items()}
        return self._largest(changes, [binning.bins for binning in fine.binnings])

    def at_rows(self, form: ClosedForm, rows: Points, high: Floats, *, are_drawn: bool) -> float:
        """The largest entry of what the sum of all terms of high order, at rows, holds of the tables."""
        keys = self._widest(form)
        limit = int(_MAX_CELLS ** (1 / max(map(len, keys), default=1)) + 1e-9)
        binnings, means = cell_means(form, keys, rows, high, limit, are_drawn=are_drawn)
        return self._largest(means, [binning.bins for binning in binnings])

    def _widest(self, form: ClosedForm) -> list[Key]:
        """Tables whose features no other table has all of: means over their cells hold those of the others."""
        order = max(map(len, self.tables.keys), default=0)
        widest = [key for key in self.tables.keys if len(key) == order]
        return sorted(widest, key=form.leaf_sets.n_leaves_with, reverse=True)[:_MAX_TABLES]

    def _largest(self, changes: Mapping[Key, Floats], bins: Sequence[Ints]) -> float:
        """The largest entry of changes on coarse bins of all features, once they are made pure."""
        if not changes:
            return 0.0
        firsts = self.trees.first_bins(tuple(range(len(bins))))
        merged = [binning_by(of_feature[first]) for of_feature, first in zip(bins, firsts, strict=True)]
        kept = [np.unique(of_feature[first]) for of_feature, first in zip(bins, firsts, strict=True)]
        raw = {
            key: np.ascontiguousarray(np.moveaxis(values[np.ix_(*(kept[j] for j in key))], -1, 0))
            for key, values in changes.items()
        }
        pure = cascade(raw, lambda key: self._weights(key, [merged[j] for j in key]), Options())
        sizes = [largest(values) * safe_inverse(self.scales) for values in pure.terms.values()]
        return float(np.max(sizes, initial=0.0))

    def _weights(self, key: Key, binnings: Sequence[Binning]) -> Floats:
        weights = self.tables.weights[key]
        for axis, binning in enumerate(binnings):
            weights = binning.pool(weights, axis)
        return weights
