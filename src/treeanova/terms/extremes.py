"""The smallest value of a step function over all cells of its partners, by branch and bound.

Over a product of sets of columns, the sum of the smallest values of all parts is a bound from below; the value of any
cell is one from above. The product with the lowest bound is split, along one partner, until both bounds meet, or until
their sign is known and enough was tried. Parts of one partner each make the bound exact at once.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
import itertools
from typing import NamedTuple

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.terms.step_functions import Boxes, StepFunction

Masks = tuple[Bools, ...]  # for each partner, the columns in a product
_NODES_ONCE_DECIDED = 12
_NODES = 1_000


class Extreme(NamedTuple):
    """The smallest value of a function, or bounds of it.

    Attributes
    ----------
    bound
        No value is smaller.
    found
        The value in a cell, the smallest that was found.
    cell
        The column of each partner in that cell.
    """

    bound: float
    found: float
    cell: tuple[int, ...]

    @property
    def is_exact(self) -> bool:
        """Whether both bounds meet."""
        return self.found <= self.bound


class _Node(NamedTuple):
    bound: float
    number: int
    masks: Masks
    split: tuple[int, Bools] | None


@dataclasses.dataclass(frozen=True, eq=False)
class Search:
    """The search for the smallest value of a step function."""

    function: StepFunction

    def lowest(self, n_nodes: int = _NODES, *, at: tuple[int, int] | None = None) -> Extreme:
        """The smallest value, or bounds of it that agree in sign where `n_nodes` products of sets suffice for that.

        With `at`, the smallest where one partner, given by its place, is in a column; its sign is enough there.
        """
        whole = tuple(np.ones(n, dtype=bool) for n in self.function.n_columns)
        if at is not None:
            whole = (*whole[: at[0]], np.arange(len(whole[at[0]])) == at[1], *whole[at[0] + 1 :])
        n_once_decided = _NODES_ONCE_DECIDED if at is None else 0
        numbers = itertools.count()
        best = self._dive(whole)
        heap = [self._node(whole, next(numbers))]
        limit = self.function.tolerance
        for n_done in range(n_nodes):
            if not heap:
                break
            bound = min(heap[0].bound, best.found)
            is_decided = bound >= -limit or best.found < -limit
            if bound >= best.found - limit or (is_decided and n_done >= n_once_decided):
                break
            node = heapq.heappop(heap)
            if node.split is None:
                continue
            for masks in _halves(node.masks, *node.split):
                child = self._node(masks, next(numbers))
                best = min(best, self._at(self._cell(masks)), key=lambda extreme: extreme.found)
                heapq.heappush(heap, child)
        bound = min([best.found, *(node.bound for node in heap[:1])])
        meets = bound >= best.found - limit
        return best._replace(bound=best.found if meets else bound)

    def by_level(self, place: int, cell: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Bounds from below where one partner is in a given column, for each column, and values in such cells.

        The cells are `cell` with that partner's column replaced.
        """
        function, boxes = self.function, self.function.boxes
        lows = [float(single.min()) for single in function.singles]
        bounds = function.constant + sum(lows[:place] + lows[place + 1 :]) + function.singles[place]
        for places, table in function.tables:
            axes = tuple(axis for axis, i in enumerate(places) if i != place)
            bounds = bounds + (table.min(axis=axes) if place in places else table.min())
        if len(boxes.values):
            inside = boxes.inside[:, self._offsets[place] : self._offsets[place + 1]]
            least = np.minimum.reduceat(np.where(inside, boxes.values[:, None], np.inf), boxes.starts, axis=0)
            may_be_zero = boxes.may_be_zero[:, None] | np.isinf(least)
            bounds = bounds + np.where(may_be_zero, np.minimum(least, 0.0), least).sum(axis=0)
        return bounds, self._along(place, cell)

    def _along(self, place: int, cell: tuple[int, ...]) -> Floats:
        """Values in all cells that differ from a given one in one partner alone."""
        function, boxes = self.function, self.function.boxes
        own = [float(single[c]) for single, c in zip(function.singles, cell, strict=True)]
        values = function.constant + sum(own[:place] + own[place + 1 :]) + function.singles[place]
        for places, table in function.tables:
            values = values + table[tuple(slice(None) if i == place else cell[i] for i in places)]
        if len(boxes.values):
            others = np.delete(self._offsets[:-1] + np.array(cell), place)
            meets = np.flatnonzero(boxes.inside[:, others].all(axis=1))
            inside = boxes.inside[meets, self._offsets[place] : self._offsets[place + 1]]
            values = values + boxes.values[meets] @ inside
        return values

    def value(self, cell: tuple[int, ...]) -> float:
        """The value in a cell given by the column of each partner."""
        function = self.function
        total = function.constant + sum(float(s[c]) for s, c in zip(function.singles, cell, strict=True))
        total += sum(float(table[tuple(cell[i] for i in places)]) for places, table in function.tables)
        boxes = function.boxes
        if len(boxes.values):
            places = self._offsets[:-1] + np.array(cell)
            total += float(boxes.values[boxes.inside[:, places].all(axis=1)].sum())
        return total

    @functools.cached_property
    def _offsets(self) -> Ints:
        return np.cumsum([0, *self.function.n_columns])

    def _at(self, cell: tuple[int, ...]) -> Extreme:
        return Extreme(-np.inf, self.value(cell), cell)

    def _cell(self, masks: Masks) -> tuple[int, ...]:
        """The cell of a product whose parts of one partner are smallest."""
        pairs = zip(self.function.singles, masks, strict=True)
        return tuple(int(np.argmin(np.where(mask, single, np.inf))) for single, mask in pairs)

    def _node(self, masks: Masks, number: int) -> _Node:
        """The bound of a product, and how to split it: along the part whose values differ most in it."""
        function = self.function
        pairs = zip(function.singles, masks, strict=True)
        bound = function.constant + sum(float(single[mask].min()) for single, mask in pairs)
        widest, split = 0.0, None
        for places, table in function.tables:
            inner = np.ix_(*(np.flatnonzero(masks[i]) for i in places))
            least = float(table[inner].min())
            bound += least
            spread = float(table[inner].max()) - least
            if spread > widest:
                widest, split = spread, _around(masks, places, table)
        lows, highs, box_of = _ranges(function.boxes, self._counts(masks), [int(mask.sum()) for mask in masks])
        bound += float(lows.sum())
        if len(lows) and (highs - lows).max() > widest:
            split = self._along_box(masks, int(box_of[np.argmax(highs - lows)]))
        return _Node(bound, number, masks, split)

    def _counts(self, masks: Masks) -> Ints:
        """Number of columns that each box shares with a product, partner by partner."""
        boxes = self.function.boxes
        if not len(boxes.values):
            return np.zeros((0, len(masks)), dtype=np.int64)
        shared = boxes.inside & np.concatenate(masks)
        return np.add.reduceat(shared, self._offsets[:-1], axis=1, dtype=np.int64)

    def _along_box(self, masks: Masks, box: int) -> tuple[int, Bools]:
        """A partner of which a box holds some of the product's columns, and which."""
        inside = self.function.boxes.inside[box]
        ends = itertools.pairwise(self._offsets.tolist())
        own = [inside[start:stop] for start, stop in ends]
        return next((i, own[i]) for i, mask in enumerate(masks) if (mask & ~own[i]).any())

    def _dive(self, masks: Masks) -> Extreme:
        """A cell that is low in most parts: the lowest box of each function that meets those chosen before."""
        boxes = self.function.boxes
        offsets = self._offsets.tolist()
        for start, stop in itertools.pairwise([*boxes.starts.tolist(), len(boxes.values)]):
            counts = self._counts(masks)[start:stop]
            meets = np.flatnonzero((counts > 0).all(axis=1))
            values = boxes.values[start:stop][meets]
            if len(meets) and values.min() < 0:
                inside = boxes.inside[start + meets[np.argmin(values)]]
                masks = tuple(
                    mask & inside[a:b] for mask, (a, b) in zip(masks, itertools.pairwise(offsets), strict=True)
                )
        return self._at(self._cell(masks))


def _halves(masks: Masks, partner: int, columns: Bools) -> tuple[Masks, Masks]:
    """A product split along one partner: some columns of it, and all others."""
    own = masks[partner]
    parts = own & columns, own & ~columns
    return tuple((*masks[:partner], part, *masks[partner + 1 :]) for part in parts)  # type: ignore[return-value]


def _around(masks: Masks, places: tuple[int, ...], table: Floats) -> tuple[int, Bools]:
    """The partner of a table with most columns left, and the column of the table's smallest value there."""
    inner = [np.flatnonzero(masks[i]) for i in places]
    cell = np.unravel_index(int(np.argmin(table[np.ix_(*inner)])), [len(columns) for columns in inner])
    widest = int(np.argmax([len(columns) for columns in inner]))
    chosen: Bools = np.zeros(len(masks[places[widest]]), dtype=bool)
    chosen[inner[widest][cell[widest]]] = True
    return places[widest], chosen


def _ranges(boxes: Boxes, counts: Ints, n_columns: list[int]) -> tuple[Floats, Floats, Ints]:
    """Smallest and largest value of each function in a product, and a box of it that does not hold all of it."""
    if not len(boxes.values):
        return np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64)
    meets: Bools = np.asarray((counts > 0).all(axis=1))
    holds: Bools = np.asarray((counts == np.array(n_columns)).all(axis=1))
    is_inside = np.maximum.reduceat(holds, boxes.starts)
    has_zero = boxes.may_be_zero & ~is_inside
    least = np.minimum.reduceat(np.where(meets, boxes.values, np.inf), boxes.starts)
    most = np.maximum.reduceat(np.where(meets, boxes.values, -np.inf), boxes.starts)
    nothing = np.isinf(least)  # no box meets the product: zero throughout
    least, most = np.where(nothing, 0.0, least), np.where(nothing, 0.0, most)
    lows, highs = np.where(has_zero, np.minimum(least, 0), least), np.where(has_zero, np.maximum(most, 0), most)
    partial = np.where(meets & ~holds, np.arange(len(meets)), -1)
    return lows, highs, np.maximum.reduceat(partial, boxes.starts)
