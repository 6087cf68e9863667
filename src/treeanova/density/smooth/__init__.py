"""Kernel and Auto: smooth estimates of the dependence between features, with the empirical marginals.

Every pair is estimated separately, more accurately than by any one joint density of the rows. The joint density serves
orders above 2; `gap` measures how much the tables of pairs differ from it.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, NamedTuple

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Ints, Key, Names, single_threaded
from treeanova.density.base import Density
from treeanova.density.counting import Binnings
from treeanova.density.joint import Joint
from treeanova.density.smooth.choice import Choice, Tried, all_candidates, choose, kernel_candidates
from treeanova.density.smooth.kernel import kernel_joint
from treeanova.density.smooth.margins import Margin, MarginStack, StackedMargins, shape_of
from treeanova.density.smooth.pairs import PairStack, full_table, full_tables
from treeanova.density.statistics import Statistics
from treeanova.model.grid import Binning, binning_by

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


_BinningKey = bytes | None
_PairKey = tuple[Key, _BinningKey, _BinningKey]


@dataclasses.dataclass(frozen=True, eq=False)
class SmoothDensity(Density):
    """Pairs by the best of some candidates, higher orders by one joint density; marginals are the empirical ones."""

    @abc.abstractmethod
    def candidates(self, pairs: PairStack) -> Iterator[Tried]:
        """Estimates to choose from, for all or some pairs of a stack at a time."""

    @functools.cached_property
    def joint(self) -> Joint:
        """Rows moved by one kernel per feature."""
        margins = [self._margin(j, None) for j in range(len(self._bound_grid.axes))]
        return kernel_joint(self._bound_statistics, margins, self._joint_bandwidth)

    @property
    def smooths_rows(self) -> bool:
        """True."""
        return True

    @property
    def _joint_bandwidth(self) -> float | None:
        return None

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        """Weights of the cells of some features, of sum 1.

        Shares of the rows for one feature, the chosen estimate for two, the joint density for more. Over coarse bins, a
        pair is estimated on the coarse bins themselves.

        Parameters
        ----------
        key
            Positions of the features, ascending.
        binnings
            One binning per feature, for weights of its coarse bins; None for all bins of the grid.

        Returns
        -------
        numpy.ndarray
            One axis per feature.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.density.table((0,)).tolist()
        [0.5, 0.5]
        """
        if len(key) == 1:
            return self._bound_statistics.counts(key, binnings)
        if len(key) == 2:
            return self._pair(key, binnings).table
        return self.joint.table(key, binnings)

    def difference(self, key: Key, binnings: Binnings | None = None) -> Floats | None:
        """The table of a pair minus that of the joint density.

        Parameters
        ----------
        key
            Positions of the two features.
        binnings
            One binning per feature, for coarse bins.

        Returns
        -------
        numpy.ndarray
            One axis per feature, of sum 0.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.density.difference((0, 1)).tolist()
        [[0.0, 0.0], [0.0, 0.0]]
        """
        return self.table(key, binnings) - self.joint.table(key, binnings)

    @property
    def choices(self) -> dict[Names, Choice]:
        """The estimate chosen for each pair of features that a term has needed so far, on the finest bins needed."""
        names = self._bound_grid.schema.names
        by_size = sorted(self._pairs.items(), key=lambda item: (item[0][0], item[1].table.size))
        return {tuple(names[j] for j in key): pair.choice for (key, *_), pair in by_size}

    @functools.cached_property
    def _pairs(self) -> dict[_PairKey, PairEstimate]:
        return {}

    def prepare(self, keys: Sequence[Key], binnings: Mapping[Key, Binnings] | None = None, n_jobs: int = 1) -> None:
        """Estimate the pairs among some sets of features at once, in less time than one by one.

        Parameters
        ----------
        keys
            Positions of the features of each set, ascending.
        binnings
            Binnings of the features of each set, where it has coarse bins.
        n_jobs
            Number of threads.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> density = fx.density.with_statistics(fx.density.statistics)
        >>> density.prepare([(0, 1)])
        >>> list(density.choices)
        [('x0', 'x1')]
        """
        requests: dict[_PairKey, PairRequest] = {}
        for key in (key for key in keys if len(key) == 2):
            coarse = None if binnings is None else binnings.get(key)
            known = _pair_key(key, coarse)
            if known not in self._pairs:
                first, second = (None, None) if coarse is None else coarse
                requests[known] = PairRequest(key, coarse, (self._margin(key[0], first), self._margin(key[1], second)))
        estimates = estimate_pairs(list(requests.values()), self._bound_statistics, self.candidates, n_jobs)
        self._pairs.update(zip(requests, estimates, strict=True))

    def _pair(self, key: Key, binnings: Binnings | None) -> PairEstimate:
        known = _pair_key(key, binnings)
        if known not in self._pairs:
            self.prepare([key], None if binnings is None else {key: binnings})
        return self._pairs[known]

    @functools.cached_property
    def _margins(self) -> dict[tuple[int, _BinningKey], Margin]:
        return {}

    def _margin(self, j: int, binning: Binning | None) -> Margin:
        known = j, _key_of(binning)
        if known not in self._margins:
            self._margins[known] = self._new_margin(j, binning)
        return self._margins[known]

    def _new_margin(self, j: int, binning: Binning | None) -> Margin:
        axis, statistics = self._bound_grid.axes[j], self._bound_statistics
        n_ordered = 0
        if axis.is_ordered:
            n_ordered = (axis if binning is None else binning.axis(axis)).n_regular
        masses = statistics.counts((j,), None if binning is None else (binning,))
        return Margin(masses, n_ordered, statistics.effective_rows, statistics.bin_means(j, binning)[:n_ordered])


def _key_of(binning: Binning | None) -> _BinningKey:
    """The bins that a binning merges, as a key; None where it merges none."""
    return None if binning is None or binning.is_identity else binning.bins.tobytes()


def _pair_key(key: Key, binnings: Binnings | None) -> _PairKey:
    first, second = (None, None) if binnings is None else binnings
    return key, _key_of(first), _key_of(second)


@dataclasses.dataclass(frozen=True, eq=False)
class Kernel(SmoothDensity):
    """Kernel estimate of the dependence between features, with the empirical marginals.

    Where the bandwidth is chosen, the candidates also include estimates at wider bandwidths with most of their bias
    removed.

    Parameters
    ----------
    bandwidth
        Standard deviations, in units of n^(-1/6), by which rows are smoothed; None for the bandwidth with the highest
        leave-one-out likelihood.

    Examples
    --------
    >>> import numpy as np
    >>> import treeanova
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = DecisionTreeRegressor(max_leaf_nodes=8, random_state=0).fit(X, X.prod(axis=1))
    >>> fx = treeanova.decompose(model, X, density=treeanova.density.Kernel(bandwidth=0.5))
    >>> fx.density.draw(3).shape
    (3, 2)
    """

    name: ClassVar[str] = "kernel"
    bandwidth: float | None = None

    def __post_init__(self) -> None:
        if self.bandwidth is not None and not self.bandwidth > 0:
            raise ValueError(f"`bandwidth` must be positive, got {self.bandwidth!r}; leave it out to choose it.")

    def candidates(self, pairs: PairStack) -> Iterator[Tried]:
        """Kernel estimates of pairs: of the bandwidth given, or of several to choose from.

        Parameters
        ----------
        pairs
            Margins of pairs of features, and the shares of the rows in their cells.

        Returns
        -------
        iterator
            The estimates, for all or some of the pairs at a time.
        """
        if self.bandwidth is None:
            return kernel_candidates(pairs)
        return kernel_candidates(pairs, (self.bandwidth,), ("ranks",))

    @property
    def _joint_bandwidth(self) -> float | None:
        return self.bandwidth

    def draw(self, n_rows: int, random_state: int = 0) -> BinIndices:
        """Bins of rows drawn from the joint density: rows of the data, each feature moved by its kernel.

        Parameters
        ----------
        n_rows
            Number of rows.
        random_state
            Seed of the draws.

        Returns
        -------
        numpy.ndarray
            Bins, shape (n_rows, n_features).

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.with_density("kernel").density.draw(3).shape
        (3, 2)
        """
        return self.points(n_rows, np.random.default_rng(random_state)).codes


@dataclasses.dataclass(frozen=True, eq=False)
class Auto(SmoothDensity):
    """For each pair of features the estimate with the highest leave-one-out likelihood; `choices` lists them.

    Candidates: empirical; independent; Gaussian copula; the likeliest of other families (Student, Frank, Clayton and
    Gumbel with rotations); the better of these two times a kernel estimate of the rest; kernels of ten bandwidths in
    ranks and in values; the best of these with most of its bias removed; where a feature has no order, kernels and
    shares shrunk towards independence. Independence and the Gaussian copula are kept unless another estimate is
    likelier by more than one standard error.

    Examples
    --------
    >>> import numpy as np
    >>> import treeanova
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> X[:, 1] += X[:, 0]
    >>> model = DecisionTreeRegressor(max_leaf_nodes=20, random_state=0).fit(X, X.prod(axis=1))
    >>> fx = treeanova.decompose(model, X, density=treeanova.density.Auto())
    >>> fx.density.choices["x0", "x1"].name
    'gaussian'
    """

    name: ClassVar[str] = "auto"

    def candidates(self, pairs: PairStack) -> Iterator[Tried]:
        """All estimates of pairs.

        Parameters
        ----------
        pairs
            Margins of pairs of features, and the shares of the rows in their cells.

        Returns
        -------
        iterator
            The estimates, for all or some of the pairs at a time.
        """
        return all_candidates(pairs)
