"""Extremes of steps, the changes of the score between neighbouring bins of a feature, by branch and bound.

Over a product of sets of columns, the sum of the smallest values of all parts is a lower bound; the value of any cell
is an upper bound. The product with the lowest bound is split along one partner until both bounds meet, or until their
sign is known and enough was tried. Parts of one partner each make the bound exact at once.

The step is a sum of functions of few other features, the partners: of one partner each (`singles`), or of several as
tables or as boxes, which are the pairs of leaves of a tree that a row moves between.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints, Key
from treeanova.model.effects import Effects
from treeanova.model.forest import Forest
from treeanova.model.grid import unmerged
from treeanova.terms import costs
from treeanova.terms.leaves import LeafSets


@dataclasses.dataclass(frozen=True, eq=False)
class Boxes:
    """Functions that are constant on boxes of cells and zero elsewhere."""

    inside: Bools  # whether each box holds each column of all partners, one after the other, shape (n_boxes, n_columns)
    values: Floats  # value of each box
    starts: Ints  # first box of each function; boxes of a function are next to each other and disjoint
    may_be_zero: Bools  # whether the boxes of each function leave cells out


Masks = tuple[Bools, ...]  # for each partner, the columns in a product
Node = tuple[float, int, Masks, tuple[int, Bools] | None]
"""Bound, serial number, product of sets of columns, and its split: a partner and some of its columns."""


class Extreme(NamedTuple):
    bound: float  # no value is smaller
    least: float  # the value in a cell, the smallest that was found
    cell: tuple[int, ...]  # the column of each partner in that cell

    @property
    def is_exact(self) -> bool:
        """Whether the bound is attained, so that it is the extreme."""
        return self.least <= self.bound


@dataclasses.dataclass(frozen=True, eq=False)
class StepFunction:
    """The change from a bin of a feature to the next, as a sum of functions of its partners."""

    partners: Key  # positions of the other features on which the step depends
    columns: tuple[Ints, ...]  # for each partner the column of each of its bins; bins that make no difference share one
    constant: float  # the part that depends on no partner
    singles: tuple[Floats, ...]  # for each partner the part that depends on it alone, by column
    tables: tuple[tuple[Key, Floats], ...]  # places of several partners, and the part that depends on them, by column
    boxes: Boxes  # parts that depend on several partners, as boxes of columns
    size: float = 0.0  # of the whole model, whose parts share their rounding: its intercept and largest values

    @property
    def n_columns(self) -> tuple[int, ...]:
        return tuple(len(single) for single in self.singles)

    def __neg__(self) -> StepFunction:
        return dataclasses.replace(
            self,
            constant=-self.constant,
            singles=tuple(-single for single in self.singles),
            tables=tuple((places, -table) for places, table in self.tables),
            boxes=dataclasses.replace(self.boxes, values=-self.boxes.values),
        )

    @property
    def tolerance(self) -> float:
        """Steps below this size are rounding."""
        return costs.STEP_ROUNDING * self.size

    def lowest(self, n_nodes: int = costs.SEARCH_NODES, *, at: tuple[int, int] | None = None) -> Extreme:
        """Return the smallest value over all cells of the partners, or bounds of it after at most `n_nodes` splits."""
        whole = tuple(np.ones(n, dtype=bool) for n in self.n_columns)
        if at is not None:  # partner and column: search that column alone, where the sign is enough
            whole = (*whole[: at[0]], np.arange(len(whole[at[0]])) == at[1], *whole[at[0] + 1 :])
        n_once_decided = costs.NODES_ONCE_DECIDED if at is None else 0
        numbers = itertools.count()  # decide between nodes with equal bounds in the heap
        best = self._greedy_low_cell(whole)
        heap = [self._node(whole, next(numbers))]
        limit = self.tolerance
        for n_done in range(n_nodes):
            if not heap:
                break
            bound = min(heap[0][0], best.least)
            is_decided = bound >= -limit or best.least < -limit
            if bound >= best.least - limit or (is_decided and n_done >= n_once_decided):
                break
            _, _, parent, split = heapq.heappop(heap)
            if split is None:
                continue
            partner, columns = split
            for half in (parent[partner] & columns, parent[partner] & ~columns):
                masks = (*parent[:partner], half, *parent[partner + 1 :])
                best = min(best, self._at(self._lowest_of_singles(masks)), key=lambda extreme: extreme.least)
                heapq.heappush(heap, self._node(masks, next(numbers)))
        bound = min([best.least, *(node[0] for node in heap[:1])])
        meets = bound >= best.least - limit
        return best._replace(bound=best.least if meets else bound)

    @property
    def is_zero(self) -> bool:
        """Whether the step is rounding in all cells; it must have no boxes.

        A sum of tables is zero in all cells exactly if each table is, once all values in the first column of an axis
        have moved to the table without that axis.
        """
        if len(self.boxes.values):
            raise ValueError("is_zero must have steps of tables, got boxes")
        singles = (((place,), single) for place, single in enumerate(self.singles))
        tables: dict[Key, Floats] = {(): np.array(self.constant)}
        for places, table in (*singles, *self.tables):
            tables[places] = tables.get(places, 0.0) + table
        while tables:
            places = max(tables, key=len)
            table = tables.pop(places)
            for axis, place in enumerate(places):
                first = table.take([0], axis=axis)
                table = table - first
                lower = tuple(other for other in places if other != place)
                tables[lower] = tables.get(lower, 0.0) + np.squeeze(first, axis=axis)
            if np.abs(table).max(initial=0.0) > self.tolerance:
                return False
        return True

    def by_level(self, place: int, cell: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Return, for each column of the partner at `place`, a lower bound, and the value in `cell` moved to it."""
        boxes = self.boxes
        lows = [float(single.min()) for single in self.singles]
        bounds = self.constant + sum(lows[:place] + lows[place + 1 :]) + self.singles[place]
        for places, table in self.tables:
            axes = tuple(axis for axis, i in enumerate(places) if i != place)
            bounds = bounds + (table.min(axis=axes) if place in places else table.min())
        if len(boxes.values):
            inside = boxes.inside[:, self._offsets[place] : self._offsets[place + 1]]
            least = np.minimum.reduceat(np.where(inside, boxes.values[:, None], np.inf), boxes.starts, axis=0)
            may_be_zero = boxes.may_be_zero[:, None] | np.isinf(least)
            bounds = bounds + np.where(may_be_zero, np.minimum(least, 0.0), least).sum(axis=0)
        return bounds, self._along(place, cell)

    def _along(self, place: int, cell: tuple[int, ...]) -> Floats:
        """Return the values in `cell` with the column of the partner at `place` replaced by each of its columns."""
        boxes = self.boxes
        single_values = [float(single[c]) for single, c in zip(self.singles, cell, strict=True)]
        values = self.constant + sum(single_values[:place] + single_values[place + 1 :]) + self.singles[place]
        for places, table in self.tables:
            values = values + table[tuple(slice(None) if i == place else cell[i] for i in places)]
        if len(boxes.values):
            other_columns = np.delete(self._offsets[:-1] + np.array(cell), place)
            meeting = np.flatnonzero(boxes.inside[:, other_columns].all(axis=1))
            inside = boxes.inside[meeting, self._offsets[place] : self._offsets[place + 1]]
            values = values + boxes.values[meeting] @ inside
        return values

    def value(self, cell: tuple[int, ...]) -> float:  # of the step in a cell, given by the column of each partner
        total = self.constant + sum(float(single[column]) for single, column in zip(self.singles, cell, strict=True))
        total += sum(float(table[tuple(cell[i] for i in places)]) for places, table in self.tables)
        boxes = self.boxes
        if len(boxes.values):
            places = self._offsets[:-1] + np.array(cell)
            total += float(boxes.values[boxes.inside[:, places].all(axis=1)].sum())
        return total

    @functools.cached_property
    def _offsets(self) -> Ints:
        """Where the columns of each partner begin among those of all, and the end."""
        return np.cumsum([0, *self.n_columns])

    def _at(self, cell: tuple[int, ...]) -> Extreme:  # the value in a cell, without a bound
        return Extreme(-np.inf, self.value(cell), cell)

    def _lowest_of_singles(self, masks: Masks) -> tuple[int, ...]:
        """Return the cell, within a product of columns, that minimises the functions of one partner each."""
        pairs = zip(self.singles, masks, strict=True)
        return tuple(int(np.argmin(np.where(mask, single, np.inf))) for single, mask in pairs)

    def _node(self, masks: Masks, number: int) -> Node:
        """Return a node of the search: a product of columns, its lower bound, and its split (None if that is exact)."""
        pairs = zip(self.singles, masks, strict=True)
        bound = self.constant + sum(float(single[mask].min()) for single, mask in pairs)
        widest, split = 0.0, None  # along the part whose values differ most
        for places, table in self.tables:
            inner = np.ix_(*(np.flatnonzero(masks[i]) for i in places))
            least = float(table[inner].min())
            bound += least
            spread = float(table[inner].max()) - least
            if spread > widest:
                widest, split = spread, _split_at_lowest(masks, places, table)
        lows, highs, box_of = _ranges(self.boxes, self._n_shared_columns(masks), [int(mask.sum()) for mask in masks])
        bound += float(lows.sum())
        if len(lows) and (highs - lows).max() > widest:
            # A partner, and those of the product's columns that the widest box holds, if not all.
            inside = self.boxes.inside[int(box_of[np.argmax(highs - lows)])]
            box_masks = np.split(inside, self._offsets[1:-1])
            split = next((i, box_masks[i]) for i, mask in enumerate(masks) if (mask & ~box_masks[i]).any())
        return bound, number, masks, split

    def _n_shared_columns(self, masks: Masks) -> Ints:
        """Return how many columns each box shares with a product, shape (n_boxes, n_partners)."""
        boxes = self.boxes
        if not len(boxes.values):
            return np.zeros((0, len(masks)), dtype=np.int64)
        shared = boxes.inside & np.concatenate(masks)
        return np.add.reduceat(shared, self._offsets[:-1], axis=1, dtype=np.int64)

    def _greedy_low_cell(self, masks: Masks) -> Extreme:
        """Return a low value within a product of columns: greedily in the lowest box of each function that meets it."""
        boxes = self.boxes
        offsets = self._offsets.tolist()
        for start, stop in itertools.pairwise([*boxes.starts.tolist(), len(boxes.values)]):
            n_shared = self._n_shared_columns(masks)[start:stop]
            meeting = np.flatnonzero((n_shared > 0).all(axis=1))
            values = boxes.values[start:stop][meeting]
            if len(meeting) and values.min() < 0:
                inside = boxes.inside[start + meeting[np.argmin(values)]]
                spans = zip(masks, itertools.pairwise(offsets), strict=True)
                masks = tuple(mask & inside[first:end] for mask, (first, end) in spans)
        return self._at(self._lowest_of_singles(masks))


def steps_of_tables(
    effects: Effects, feature: int, output: int, bins: Sequence[int] | None = None
) -> Iterator[StepFunction]:
    """Yield the change of an additive model's output from each bin of a feature to the next, as a StepFunction.

    `bins` are all regular ones by default.
    """
    bins = range(effects.grid.axes[feature].n_regular) if bins is None else bins
    sizes = effects.grid.sizes
    keys = [key for key in effects.terms if feature in key]
    partners = tuple(sorted({j for key in keys for j in key} - {feature}))
    tables_on_grid = {key: effects.on_binnings(key, [unmerged(sizes[j]) for j in key])[..., output] for key in keys}
    feature_first = {key: np.moveaxis(values, key.index(feature), 0) for key, values in tables_on_grid.items()}
    size = size_of_tables(effects, output)
    columns = tuple(np.arange(sizes[j]) for j in partners)
    nothing = np.zeros(0, dtype=np.int64)
    boxes = Boxes(np.zeros((0, sum(map(len, columns))), bool), np.zeros(0), nothing, nothing.astype(bool))
    for below, above in itertools.pairwise(bins):
        singles = [np.zeros(sizes[j]) for j in partners]
        constant, tables = 0.0, []
        for key, values in feature_first.items():
            step = values[above] - values[below]
            places = tuple(partners.index(j) for j in key if j != feature)
            if not places:
                constant = float(step)
            elif len(places) == 1:
                singles[places[0]] = singles[places[0]] + step
            else:
                tables.append((places, step))
        yield StepFunction(partners, columns, constant, tuple(singles), tuple(tables), boxes, size)


def size_of_tables(effects: Effects, output: int) -> float:
    """Return a bound on the values of one output: its intercept plus the largest entry of each table."""
    largest = (float(np.abs(values[..., output]).max(initial=0.0)) for values in effects.terms.values())
    return float(np.abs(effects.intercept[output])) + sum(largest)


def steps_of_trees(forest: Forest, leaf_sets: LeafSets, feature: int, output: int) -> Iterator[StepFunction]:
    """Yield the change of a forest's output from each bin of a feature to the next, as a StepFunction."""
    grid, sets = leaf_sets.grid, leaf_sets.sets[feature]
    values = leaf_sets.values[:, output]
    tree = forest.tree_of_leaves
    largest = np.maximum.reduceat(np.abs(values)[np.argsort(tree, kind="stable")], _firsts(np.sort(tree)))
    size = float(np.abs(forest.intercept[output]) + largest.sum())
    changes = sets.share_differences(unmerged(grid.sizes[feature])).tocsc()
    for k in range(grid.axes[feature].n_regular - 1):
        entries = slice(changes.indptr[k + 1], changes.indptr[k + 2])
        leaves, signs = sets.leaves[changes.indices[entries]], changes.data[entries]
        ends = leaves[signs < 0], leaves[signs > 0]
        yield dataclasses.replace(_step_of_leaves(leaf_sets, feature, tree, ends, values), size=size)


def _firsts(numbers: Ints) -> Ints:
    """Return the positions where sorted numbers change, including the first."""
    return np.flatnonzero(np.diff(numbers, prepend=-1)) if len(numbers) else np.zeros(0, dtype=np.int64)


def _step_of_leaves(sets: LeafSets, feature: int, tree: Ints, ends: tuple[Ints, Ints], values: Floats) -> StepFunction:
    """Return the step between two bins of a feature, a sum over pairs of leaves that a row moves between."""
    # `ends` are the leaves whose sets have only the first bin, and only the second; `tree` has the tree of each leaf of
    # the forest, `values` its value for one output.
    leaves = np.concatenate(ends)
    partners = tuple(j for j in range(len(sets.sets)) if j != feature and sets.has_feature(j, leaves).any())
    columns, merged = _merged_columns(sets, partners, leaves)
    lengths = [int(bin_columns.max()) + 1 for bin_columns in columns]
    pairs = _intersecting_pairs(merged, lengths, tree[leaves], len(ends[0]))
    boxes = merged[pairs[0]] & merged[pairs[1]]
    changes = values[leaves[pairs[1]]] - values[leaves[pairs[0]]]
    trees = tree[leaves[pairs[0]]]
    order = np.argsort(trees, kind="stable")
    return _sum_of_boxes(partners, columns, (boxes[order], changes[order], trees[order]))


def _merged_columns(leaf_sets: LeafSets, partners: Key, leaves: Ints) -> tuple[tuple[Ints, ...], Bools]:
    """Merge partners' bins that all leaves treat alike to columns: return the column of each bin, and leaves' boxes."""
    # A box says whether the leaf holds each column of all partners, one after the other: (n_leaves, n_columns).
    columns, merged = [], [np.zeros((len(leaves), 0), bool)]
    for j in partners:
        bins = np.ones((len(leaves), leaf_sets.grid.sizes[j]), dtype=bool)
        having = np.flatnonzero(leaf_sets.has_feature(j, leaves))
        places = leaf_sets.set_indices(j, leaves[having])
        bins[having] = leaf_sets.sets[j].contain(places, np.arange(bins.shape[1], dtype=np.int32))
        packed = np.ascontiguousarray(np.packbits(bins, axis=0).T)
        _, first, column = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        columns.append(column.ravel())
        merged.append(bins[:, first])
    return tuple(columns), np.concatenate(merged, axis=1)


def _intersecting_pairs(merged: Bools, lengths: Sequence[int], tree: Ints, n_first: int) -> tuple[Ints, Ints]:
    """Return pairs of a leaf of the first bin and one of the second, in the same tree, whose boxes intersect."""
    # `merged` has the box of each leaf over all columns, the `n_first` leaves of the first bin first; `lengths` is the
    # number of columns of each partner.
    one, other = np.nonzero(tree[:n_first, None] == tree[None, n_first:])
    other = other + n_first
    if lengths:
        both = merged[one] & merged[other]
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        meets = np.logical_or.reduceat(both, starts, axis=1).all(axis=1) if len(one) else np.zeros(0, bool)
        one, other = one[meets], other[meets]
    return one, other


def _sum_of_boxes(partners: Key, columns: tuple[Ints, ...], sorted_boxes: tuple[Bools, Floats, Ints]) -> StepFunction:
    """Return the step function that is a sum of boxes; `sorted_boxes` are their columns, values and trees, by tree."""
    # Boxes of a tree that depend on no partner are added to the constant, those on one partner to its function.
    boxes, values, tree = sorted_boxes
    lengths = [int(bin_columns.max()) + 1 for bin_columns in columns]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    singles = [np.zeros(length) for length in lengths]
    constant, joint_slices, may_be_zero = 0.0, [], []
    for start, stop in itertools.pairwise([*_firsts(tree).tolist(), len(tree)]):
        tree_slice = slice(start, stop)
        places = [i for i in range(len(lengths)) if not boxes[tree_slice, offsets[i] : offsets[i + 1]].all()]
        if not places:
            constant += float(values[tree_slice].sum())
        elif len(places) == 1:
            [i] = places
            singles[i] += values[tree_slice] @ boxes[tree_slice, offsets[i] : offsets[i + 1]]
        else:
            joint_slices.append(tree_slice)
            counts = np.add.reduceat(boxes[tree_slice], offsets[:-1], axis=1, dtype=np.int64).tolist()
            may_be_zero.append(sum(map(math.prod, counts)) < math.prod(lengths))  # Python integers may be huge
    inside = np.concatenate([boxes[:0], *(boxes[tree_slice] for tree_slice in joint_slices)])
    starts = np.cumsum([0, *(tree_slice.stop - tree_slice.start for tree_slice in joint_slices)])[:-1].astype(np.int64)
    changes = np.concatenate([values[:0], *(values[tree_slice] for tree_slice in joint_slices)])
    several = Boxes(inside, changes, starts, np.array(may_be_zero, dtype=bool))
    return StepFunction(partners, columns, constant, tuple(singles), (), several)


def _split_at_lowest(masks: Masks, places: tuple[int, ...], table: Floats) -> tuple[int, Bools]:
    """Return how to split a product: the table's partner with most columns left, and the mask of its lowest column."""
    inner = [np.flatnonzero(masks[i]) for i in places]
    cell = np.unravel_index(int(np.argmin(table[np.ix_(*inner)])), [len(columns) for columns in inner])
    widest = int(np.argmax([len(columns) for columns in inner]))
    mask: Bools = np.zeros(len(masks[places[widest]]), dtype=bool)
    mask[inner[widest][cell[widest]]] = True
    return places[widest], mask


def _ranges(boxes: Boxes, n_shared: Ints, n_columns: list[int]) -> tuple[Floats, Floats, Ints]:
    """Return lows and highs of each function of boxes in a product, and one box that holds only a part of it, or -1."""
    # `n_shared` has the columns that each box shares with the product, per partner; `n_columns` those of the product.
    if not len(boxes.values):
        return np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64)
    meets: Bools = np.asarray((n_shared > 0).all(axis=1))
    holds: Bools = np.asarray((n_shared == np.array(n_columns)).all(axis=1))
    is_inside = np.maximum.reduceat(holds, boxes.starts)
    has_zero = boxes.may_be_zero & ~is_inside
    least = np.minimum.reduceat(np.where(meets, boxes.values, np.inf), boxes.starts)
    most = np.maximum.reduceat(np.where(meets, boxes.values, -np.inf), boxes.starts)
    nothing = np.isinf(least)  # no box meets the product: zero throughout
    least, most = np.where(nothing, 0.0, least), np.where(nothing, 0.0, most)
    lows, highs = np.where(has_zero, np.minimum(least, 0), least), np.where(has_zero, np.maximum(most, 0), most)
    partial = np.where(meets & ~holds, np.arange(len(meets)), -1)
    return lows, highs, np.maximum.reduceat(partial, boxes.starts)
