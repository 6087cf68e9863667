"""Steps of a model along one feature: what changes from a bin to the next, as a function of all other features.

The step is a sum of functions of few other features, the partners: of one partner each (`singles`), of several as
tables, or of several as boxes, which are the pairs of leaves of a tree that a row moves between. `terms/extremes.py`
finds the smallest and the largest value of such a sum.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints, Key
from treeanova.model.binning import unmerged
from treeanova.model.effects import Effects
from treeanova.model.forest import Forest
from treeanova.terms.leafsets import LeafSets

_SMALL = 1e-12  # of the sizes of all parts: steps below it are rounding


@dataclasses.dataclass(frozen=True, eq=False)
class Boxes:
    """Functions that are constant on boxes of cells, and zero elsewhere.

    Attributes
    ----------
    inside
        Whether each box holds each column of all partners, one after the other, shape (n_boxes, n_columns).
    values
        Value of each box.
    starts
        First box of each function; boxes of a function are next to each other and disjoint.
    may_be_zero
        Whether the boxes of each function leave cells out.
    """

    inside: Bools
    values: Floats
    starts: Ints
    may_be_zero: Bools


@dataclasses.dataclass(frozen=True, eq=False)
class StepFunction:
    """What changes from a bin of a feature to the next, as a sum of functions of its partners.

    Attributes
    ----------
    partners
        Positions of the other features on which the step depends.
    columns
        For each partner the column of each of its bins; bins that make no difference share one.
    constant
        The part that depends on no partner.
    singles
        For each partner the part that depends on it alone, by column.
    tables
        Places of several partners, and the part that depends on them, by column.
    boxes
        Parts that depend on several partners, as boxes of columns.
    size
        Sum of the largest absolute values of what the step was computed from.
    """

    partners: Key
    columns: tuple[Ints, ...]
    constant: float
    singles: tuple[Floats, ...]
    tables: tuple[tuple[Key, Floats], ...]
    boxes: Boxes
    size: float = 0.0

    @property
    def n_columns(self) -> tuple[int, ...]:
        """Number of columns of each partner."""
        return tuple(len(single) for single in self.singles)

    def __neg__(self) -> StepFunction:
        """The function with the opposite sign."""
        return dataclasses.replace(
            self,
            constant=-self.constant,
            singles=tuple(-single for single in self.singles),
            tables=tuple((places, -table) for places, table in self.tables),
            boxes=dataclasses.replace(self.boxes, values=-self.boxes.values),
        )

    @property
    def tolerance(self) -> float:
        """Size below which a step is rounding."""
        return _SMALL * self.size


def no_boxes(n_columns: int) -> Boxes:
    """No functions."""
    nothing = np.zeros(0, dtype=np.int64)
    return Boxes(np.zeros((0, n_columns), bool), np.zeros(0), nothing, nothing.astype(bool))


def steps_of_tables(effects: Effects, feature: int, output: int) -> Iterator[StepFunction]:
    """The steps of a sum of tables between neighbouring regular bins of a feature."""
    sizes = effects.grid.sizes
    keys = [key for key in effects.terms if feature in key]
    partners = tuple(sorted({j for key in keys for j in key} - {feature}))
    full = {key: effects.on_binnings(key, [unmerged(sizes[j]) for j in key])[..., output] for key in keys}
    along = {key: np.moveaxis(values, key.index(feature), 0) for key, values in full.items()}
    size = sum(float(np.abs(values).max()) for values in along.values())
    columns = tuple(np.arange(sizes[j]) for j in partners)
    for k in range(effects.grid.axes[feature].n_regular - 1):
        singles = [np.zeros(sizes[j]) for j in partners]
        constant, tables = 0.0, []
        for key, values in along.items():
            step = values[k + 1] - values[k]
            places = tuple(partners.index(j) for j in key if j != feature)
            if not places:
                constant = float(step)
            elif len(places) == 1:
                singles[places[0]] = singles[places[0]] + step
            else:
                tables.append((places, step))
        boxes = no_boxes(sum(map(len, columns)))
        yield StepFunction(partners, columns, constant, tuple(singles), tuple(tables), boxes, size)


def steps_of_trees(forest: Forest, leaf_sets: LeafSets, feature: int, output: int) -> Iterator[StepFunction]:
    """The steps of a forest between neighbouring regular bins of a feature."""
    grid, sets = leaf_sets.grid, leaf_sets.sets[feature]
    values = leaf_sets.values[:, output]
    tree = _trees_of_leaves(forest)
    size = float(np.maximum.reduceat(np.abs(values)[np.argsort(tree, kind="stable")], _firsts(np.sort(tree))).sum())
    changes = sets.steps(unmerged(grid.sizes[feature])).tocsc()
    for k in range(grid.axes[feature].n_regular - 1):
        at = slice(changes.indptr[k + 1], changes.indptr[k + 2])
        leaves, signs = sets.leaves[changes.indices[at]], changes.data[at]
        ends = leaves[signs < 0], leaves[signs > 0]
        yield dataclasses.replace(_step_of_leaves(leaf_sets, feature, tree, ends, values), size=size)


def _trees_of_leaves(forest: Forest) -> Ints:
    """The tree of each leaf."""
    tree = np.zeros(forest.n_leaves, dtype=np.int64)
    nodes, numbers = forest.roots, np.arange(forest.n_trees)
    while len(nodes):
        is_leaf = forest.feature[nodes] < 0
        tree[forest.leaf[nodes[is_leaf]]] = numbers[is_leaf]
        inner, numbers = nodes[~is_leaf], np.tile(numbers[~is_leaf], 2)
        nodes = np.concatenate([forest.left[inner], forest.right[inner]])
    return tree


def _firsts(numbers: Ints) -> Ints:
    """Positions where sorted numbers change, the first included."""
    return np.flatnonzero(np.diff(numbers, prepend=-1)) if len(numbers) else np.zeros(0, dtype=np.int64)


def _step_of_leaves(
    leaf_sets: LeafSets, feature: int, tree: Ints, ends: tuple[Ints, Ints], values: Floats
) -> StepFunction:
    """The step between two bins: `ends` are the leaves that hold the first bin alone, and the second alone."""
    leaves = np.concatenate(ends)
    partners = tuple(j for j in range(len(leaf_sets.sets)) if j != feature and leaf_sets.have(j, leaves).any())
    inside = _boxes_of_leaves(leaf_sets, partners, leaves)
    columns, merged = _merged_columns(inside, len(leaves))
    lengths = [int(of_partner.max()) + 1 for of_partner in columns]
    pairs = _meeting(merged, lengths, tree[leaves], len(ends[0]))
    boxes = merged[pairs[0]] & merged[pairs[1]]
    changes = values[leaves[pairs[1]]] - values[leaves[pairs[0]]]
    trees = tree[leaves[pairs[0]]]
    order = np.argsort(trees, kind="stable")
    return _sorted_parts(partners, columns, (boxes[order], changes[order], trees[order]))


def _boxes_of_leaves(leaf_sets: LeafSets, partners: Key, leaves: Ints) -> list[Bools]:
    """For each partner, the bins that reach each of some leaves."""
    boxes = []
    for j in partners:
        bins = np.ones((len(leaves), leaf_sets.grid.sizes[j]), dtype=bool)
        having = np.flatnonzero(leaf_sets.have(j, leaves))
        places = leaf_sets.positions(j, leaves[having])
        bins[having] = leaf_sets.sets[j].contain(places, np.arange(bins.shape[1], dtype=np.int32))
        boxes.append(bins)
    return boxes


def _merged_columns(inside: Sequence[Bools], n_leaves: int) -> tuple[tuple[Ints, ...], Bools]:
    """Bins that all leaves treat alike as one column: the column of each bin, and the boxes over all columns."""
    columns, merged = [], []
    for bins in inside:
        packed = np.ascontiguousarray(np.packbits(bins, axis=0).T)
        _, first, column = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        columns.append(column.ravel())
        merged.append(bins[:, first])
    return tuple(columns), np.concatenate([np.zeros((n_leaves, 0), bool), *merged], axis=1)


def _meeting(merged: Bools, lengths: Sequence[int], tree: Ints, n_first: int) -> tuple[Ints, Ints]:
    """Pairs of a leaf of the first bin and one of the second, of the same tree, whose boxes have cells in common."""
    one, other = np.nonzero(tree[:n_first, None] == tree[None, n_first:])
    other = other + n_first
    if lengths:
        both = merged[one] & merged[other]
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        meets = np.logical_or.reduceat(both, starts, axis=1).all(axis=1) if len(one) else np.zeros(0, bool)
        one, other = one[meets], other[meets]
    return one, other


def _sorted_parts(partners: Key, columns: tuple[Ints, ...], parts: tuple[Bools, Floats, Ints]) -> StepFunction:
    """Boxes of each tree as a constant, a function of one partner, or a function of several."""
    boxes, values, tree = parts
    lengths = [int(of_partner.max()) + 1 for of_partner in columns]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    singles = [np.zeros(length) for length in lengths]
    constant, kept, may_be_zero = 0.0, [], []
    for start, stop in itertools.pairwise([*_firsts(tree).tolist(), len(tree)]):
        own = slice(start, stop)
        places = [i for i in range(len(lengths)) if not boxes[own, offsets[i] : offsets[i + 1]].all()]
        if not places:
            constant += float(values[own].sum())
        elif len(places) == 1:
            [i] = places
            singles[i] += values[own] @ boxes[own, offsets[i] : offsets[i + 1]]
        else:
            kept.append(own)
            may_be_zero.append(_leave_cells_out(boxes[own], offsets))
    inside = np.concatenate([boxes[:0], *(boxes[own] for own in kept)])
    starts = np.cumsum([0, *(own.stop - own.start for own in kept)])[:-1].astype(np.int64)
    changes = np.concatenate([values[:0], *(values[own] for own in kept)])
    several = Boxes(inside, changes, starts, np.array(may_be_zero, dtype=bool))
    return StepFunction(partners, columns, constant, tuple(singles), (), several)


def _leave_cells_out(boxes: Bools, offsets: Ints) -> bool:
    """Whether disjoint boxes are not all cells; counted in whole numbers, which may be huge."""
    lengths = [b - a for a, b in itertools.pairwise(offsets.tolist())]
    counts = np.add.reduceat(boxes, offsets[:-1], axis=1, dtype=np.int64).tolist()
    return bool(sum(map(math.prod, counts)) < math.prod(lengths))
