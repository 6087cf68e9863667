"""Tables of many pairs: pairs of the same shape are estimated together, stack by stack."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from treeanova.core.arrays import Floats, Ints, Key
from treeanova.core.blas import single_threaded
from treeanova.density.choice import Choice, Tried, choose
from treeanova.density.margin_stacks import MarginStack, StackedMargins, shape_of
from treeanova.density.margins import Margin
from treeanova.density.pairs import PairStack, full_table, full_tables
from treeanova.density.pooling import Binnings
from treeanova.density.statistics import Statistics
from treeanova.model.binning import Binning, binning_by

_MAX_ELEMENTS = 1 << 18  # of an array over the points of all pairs of a stack: larger ones leave the cache
_MAX_CELLS = 1 << 20  # of the largest pair: pairs of many categories are estimated in turn, to save memory

MakeCandidates = Callable[[PairStack], Iterator[Tried]]


class PairRequest(NamedTuple):
    """A pair to estimate: its features, their coarse bins if any, and their margins on these bins."""

    key: Key
    binnings: Binnings | None
    margins: tuple[Margin, Margin]

    @property
    def groups(self) -> tuple[Binning, Binning]:
        """The groups of both margins, as binnings of the bins of the grid."""
        first, second = (None, None) if self.binnings is None else self.binnings
        return _compose(first, self.margins[0]), _compose(second, self.margins[1])


class PairEstimate(NamedTuple):
    """Table and choice of a pair."""

    table: Floats
    choice: Choice


def estimate_pairs(
    requests: Sequence[PairRequest], statistics: Statistics, make_candidates: MakeCandidates, n_jobs: int = 1
) -> list[PairEstimate]:
    """The estimates of pairs, in their order."""
    estimates: dict[int, PairEstimate] = {}
    stacks = list(_stacks(requests))

    def estimate(stack: _Stack) -> list[PairEstimate]:
        """Estimates of one stack."""
        return _estimate_stack(stack, statistics, make_candidates)

    largest = max((stack.n_cells for stack in stacks), default=0)
    with single_threaded(), ThreadPoolExecutor(n_jobs) as pool:
        in_turn = n_jobs == 1 or len(stacks) < 2 or largest > _MAX_CELLS
        found = map(estimate, stacks) if in_turn else pool.map(estimate, stacks)
        for stack, of_stack in zip(stacks, found, strict=True):
            estimates.update(zip(stack.numbers, of_stack, strict=True))
    return [estimates[number] for number in range(len(requests))]


class _Stack(NamedTuple):
    """Requests of the same shape, with their numbers and their margins in stacks."""

    numbers: Sequence[int]
    requests: Sequence[PairRequest]
    margins: tuple[StackedMargins, StackedMargins]

    @property
    def n_cells(self) -> int:
        """Number of cells of all pairs."""
        sizes = (margins.stack.group_masses.shape[1] for margins in self.margins)
        return len(self.requests) * math.prod(map(int, sizes))


def _stacks(requests: Sequence[PairRequest]) -> Iterator[_Stack]:
    """Requests by the shape of their pairs, as many in a stack as fit into the cache."""
    stacked = _MarginPlaces(margin.padded for request in requests for margin in request.margins)
    by_shape: dict[Hashable, list[int]] = {}
    for number, request in enumerate(requests):
        by_shape.setdefault(tuple(stacked.shape(margin.padded) for margin in request.margins), []).append(number)
    for numbers in by_shape.values():
        size = _n_elements([margin.padded for margin in requests[numbers[0]].margins])
        n_pairs = max(1, _MAX_ELEMENTS // size)
        for start in range(0, len(numbers), n_pairs):
            some = numbers[start : start + n_pairs]
            chosen = [requests[number] for number in some]
            first, second = (stacked.take([request.margins[i].padded for request in chosen]) for i in range(2))
            yield _Stack(some, chosen, (first, second))


def _n_elements(margins: Iterable[Margin]) -> int:
    """Number of cells or points of a pair."""
    size = 1
    for margin in margins:
        size *= max(len(margin.group_masses), margin.points.size)
    return size


class _MarginPlaces:
    """Margins in stacks by shape, and the place of each."""

    def __init__(self, margins: Iterable[Margin]) -> None:
        distinct = {id(margin): margin for margin in margins}
        self._shapes = {known: shape_of(margin) for known, margin in distinct.items()}
        by_shape: dict[Hashable, list[Margin]] = {}
        self._places = {}
        for known, margin in distinct.items():
            same = by_shape.setdefault(self._shapes[known], [])
            self._places[known] = len(same)
            same.append(margin)
        self._stacks = {shape: MarginStack(tuple(same)) for shape, same in by_shape.items()}

    def shape(self, margin: Margin) -> Hashable:
        """The shape of a margin."""
        return self._shapes[id(margin)]

    def take(self, margins: Sequence[Margin]) -> StackedMargins:
        """Margins of one shape."""
        places = np.array([self._places[id(margin)] for margin in margins], dtype=np.int64)
        return StackedMargins(self._stacks[self.shape(margins[0])], places)


def _estimate_stack(stack: _Stack, statistics: Statistics, make_candidates: MakeCandidates) -> list[PairEstimate]:
    pairs = PairStack(*stack.margins, _shares(stack, statistics))
    chosen = choose(pairs, make_candidates(pairs))
    is_smooth = np.array([choice.name != "empirical" for choice in chosen.choices])
    tables = _smooth_tables(stack, pairs, chosen.ratio, np.flatnonzero(is_smooth))
    for place in np.flatnonzero(~is_smooth).tolist():
        tables[place] = statistics.counts(stack.requests[place].key, stack.requests[place].binnings)
    return [PairEstimate(tables[place], choice) for place, choice in enumerate(chosen.choices)]


def _shares(stack: _Stack, statistics: Statistics) -> Floats:
    """Shares of the rows in the cells of the groups, those added to have common numbers of groups included."""
    shape = (margins.stack.group_masses.shape[1] for margins in stack.margins)
    shares = np.zeros((len(stack.requests), *shape))
    for table, request in zip(shares, stack.requests, strict=True):
        table[np.ix_(*(margin.padded_places for margin in request.margins))] = statistics.counts(
            request.key, request.groups
        )
    return shares


def _smooth_tables(stack: _Stack, pairs: PairStack, ratio: Floats, places: Ints) -> dict[int, Floats]:
    """Tables over all bins of the pairs at some places."""
    if not all(margin.binning.is_identity for margin in stack.requests[0].margins):
        return {place: _full_table(stack.requests[place], ratio[place]) for place in places.tolist()}
    tables = full_tables(pairs.take(places), ratio[places])
    requests = (stack.requests[place] for place in places)
    return {
        place: table[np.ix_(*(margin.padded_places for margin in request.margins))]
        for place, table, request in zip(places.tolist(), tables, requests, strict=True)
    }


def _full_table(request: PairRequest, ratio: Floats) -> Floats:
    """The table of a pair whose groups are not its bins."""
    places = np.ix_(*(margin.padded_places for margin in request.margins))
    return full_table(*request.margins, ratio[places])


def _compose(binning: Binning | None, margin: Margin) -> Binning:
    """The groups of a margin of coarse bins, as a binning of the bins of the grid."""
    if binning is None:
        return margin.binning
    return binning if margin.binning.is_identity else binning_by(margin.groups[binning.bins])
