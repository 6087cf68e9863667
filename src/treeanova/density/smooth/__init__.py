"""Kernel and Auto: smooth estimates of the dependence between features, with the empirical marginals.

Every pair is estimated separately, more accurately than by any joint density of the rows. The joint density serves
orders above 2; `gap` measures how much the tables of pairs differ from it.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from numbers import Real
from typing import ClassVar

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Ints, Key, Names, memo_of
from treeanova.core.threads import single_threaded, thread_map
from treeanova.density import costs
from treeanova.density.base import Density, Joint
from treeanova.density.counting import Binnings, Request
from treeanova.density.smooth.choice import (
    Candidates,
    Choice,
    PairStack,
    all_candidates,
    choose,
    full_table,
    full_tables,
    kernel_candidates,
)
from treeanova.density.smooth.kernel import GROUPS, KernelJoint
from treeanova.density.smooth.margins import Margin, Margins, Shape, shape_of
from treeanova.density.statistics import Statistics
from treeanova.model.grid import Binning, binning_by

MakeCandidates = Callable[[PairStack], Iterator[Candidates]]
PairEstimate = tuple[Floats, Choice]
"""Table and choice of a pair."""
_MarginPair = tuple[Margin, Margin]
_BinningKey = bytes | None


def estimate_pairs(
    requests: Sequence[Request],
    margins: Sequence[_MarginPair],
    statistics: Statistics,
    make_candidates: MakeCandidates,
    n_jobs: int = 1,
) -> list[PairEstimate]:
    """Return table and choice of each requested pair; `margins` are those of its features on the request's bins."""

    def estimate(stack: tuple[Sequence[int], Margins, Margins]) -> list[PairEstimate]:  # of the pairs of a stack
        numbers, first, second = stack
        stack_requests, stack_margins = [requests[i] for i in numbers], [margins[i] for i in numbers]
        shares = _shares_in_groups(stack_requests, stack_margins, (first.shape, second.shape), statistics)
        pairs = PairStack(first, second, shares, np.arange(len(numbers)))
        choices, ratio = choose(pairs, make_candidates(pairs))
        is_smooth = np.array([choice.name != "empirical" for choice in choices])
        tables = _smooth_tables(stack_margins, pairs, ratio, np.flatnonzero(is_smooth))
        for place in np.flatnonzero(~is_smooth).tolist():
            tables[place] = statistics.counts(*stack_requests[place])
        return [(tables[place], choice) for place, choice in enumerate(choices)]

    stacks = list(_stacks(margins))
    largest = max((len(numbers) * first.n_groups * second.n_groups for numbers, first, second in stacks), default=0)
    estimates: dict[int, PairEstimate] = {}
    in_turn = len(stacks) < 2 or largest > costs.MAX_PARALLEL_CELLS
    with single_threaded(), thread_map(1 if in_turn else n_jobs) as run:
        for stack, of_stack in zip(stacks, run(estimate, stacks), strict=True):
            estimates.update(zip(stack[0], of_stack, strict=True))
    return [estimates[number] for number in range(len(requests))]


def _stacks(margins: Sequence[_MarginPair]) -> Iterator[tuple[Sequence[int], Margins, Margins]]:
    """Yield stacks of pairs of one shape that fit into the cache: their numbers, first margins and second margins."""
    of_shape: dict[Hashable, list[Margin]] = {}
    places: dict[Margin, tuple[Hashable, int]] = {}
    for margin in dict.fromkeys(itertools.chain.from_iterable(margins)):
        kind = margin.binning.is_identity, shape_of(margin), shape_of(margin.coarse)
        same = of_shape.setdefault(kind, [])
        places[margin] = kind, len(same)
        same.append(margin)
    stacked = {kind: Margins(same, np.arange(len(same)), shape_of(same[0])) for kind, same in of_shape.items()}
    by_kinds: dict[tuple[Hashable, Hashable], list[int]] = {}
    for number, (first, second) in enumerate(margins):
        by_kinds.setdefault((places[first][0], places[second][0]), []).append(number)
    for both_kinds, numbers in by_kinds.items():
        largest_sides = [max(stacked[kind].n_groups, stacked[kind].shape.n_points) for kind in both_kinds]
        n_pairs = max(1, costs.MAX_STACK_ELEMENTS // math.prod(largest_sides))
        for start in range(0, len(numbers), n_pairs):
            some = numbers[start : start + n_pairs]
            of_some = (np.array([places[margins[number][i]][1] for number in some]) for i in range(2))
            first_margins, second_margins = (
                stacked[kind].take(at) for kind, at in zip(both_kinds, of_some, strict=True)
            )
            yield some, first_margins, second_margins


def _shares_in_groups(
    requests: Sequence[Request], margins: Sequence[_MarginPair], shapes: tuple[Shape, Shape], statistics: Statistics
) -> Floats:
    """Return shares of rows in the cells of each pair's groups, (n_pairs, n_groups, n_groups), padded to the shapes."""
    shares = np.zeros((len(requests), *(shape.n_ordered + shape.n_others for shape in shapes)))
    for table, (key, binnings), both in zip(shares, requests, margins, strict=True):
        coarse = (None, None) if binnings is None else binnings
        groups = [_groups_on_grid(binning, margin) for binning, margin in zip(coarse, both, strict=True)]
        table[_padded_cells(both, shapes)] = statistics.counts(key, groups)
    return shares


def _padded_cells(margins: _MarginPair, shapes: tuple[Shape, Shape]) -> tuple[Ints, ...]:
    """Return the places of a pair's cells in the table of a stack."""
    return np.ix_(*(shape.places(margin) for shape, margin in zip(shapes, margins, strict=True)))


def _smooth_tables(margins: Sequence[_MarginPair], pairs: PairStack, ratio: Floats, places: Ints) -> dict[int, Floats]:
    """Return the tables over bins of the pairs at some places of a stack, from the chosen ratios over their groups."""
    cells = {i: _padded_cells(margins[i], (pairs.first.shape, pairs.second.shape)) for i in places.tolist()}
    if pairs.first.is_pooled or pairs.second.is_pooled:
        return {i: full_table(margins[i][0], margins[i][1], ratio[i][of_pair]) for i, of_pair in cells.items()}
    tables = full_tables(pairs.take(places), ratio[places])
    return {i: table[of_pair] for (i, of_pair), table in zip(cells.items(), tables, strict=True)}


def _groups_on_grid(binning: Binning | None, margin: Margin) -> Binning:
    """Return the groups of a margin as a binning of the grid's bins; the margin has the coarse bins of `binning`."""
    if binning is None:
        return margin.binning
    return binning if margin.binning.is_identity else binning_by(margin.groups[binning.bins])


@dataclasses.dataclass(frozen=True, eq=False)
class SmoothDensity(Density):
    """Pairs by the best of some candidates, higher orders by one joint density; marginals are the empirical ones."""

    smooths_rows: ClassVar[bool] = True

    @abc.abstractmethod
    def candidates(self, pairs: PairStack) -> Iterator[Candidates]:
        """Yield estimates to choose from, for all or some pairs of a stack at a time."""

    @functools.cached_property
    def joint(self) -> Joint:  # for orders above 2
        fine = [self._margin(j, None) for j in range(len(self._bound_grid.axes))]
        margins = [dataclasses.replace(margin, max_groups=GROUPS) for margin in fine]
        return KernelJoint(self._bound_statistics, margins, getattr(self, "bandwidth", None))

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        """Return shares of the rows for one feature, the estimate (on coarse bins if given) for two, else the joint."""
        if len(key) == 1:
            return self._bound_statistics.counts(key, binnings)
        if len(key) > 2:
            return self.joint.table(key, binnings)
        self.prepare_tables([key], None if binnings is None else {key: binnings})
        return self._estimates[_pair_key(key, binnings)][0]

    def difference(self, key: Key, binnings: Binnings | None = None) -> Floats | None:
        return self.table(key, binnings) - self.joint.table(key, binnings)

    @property
    def choices(self) -> dict[Names, Choice]:
        """The estimate chosen for each pair of features that a term has needed so far, on the finest bins needed."""
        names = self._bound_grid.schema.names
        by_size = sorted(self._estimates.items(), key=lambda item: (item[0][0], item[1][0].size))
        return {tuple(names[j] for j in key): choice for (key, *_), (_, choice) in by_size}

    @property
    def _estimates(self) -> dict[tuple[Key, _BinningKey, _BinningKey], PairEstimate]:  # so far, by pair and its bins
        return memo_of(self, "estimates")

    def prepare_tables(
        self, keys: Sequence[Key], binnings: Mapping[Key, Binnings] | None = None, n_jobs: int = 1
    ) -> None:
        """Estimate those of some pairs that are not estimated yet, on coarse bins if given, together."""
        new = {}
        for key in (key for key in keys if len(key) == 2):
            request = Request(key, None if binnings is None else binnings.get(key))
            if _pair_key(*request) not in self._estimates:
                new[_pair_key(*request)] = request
        pairs = ((key, coarse or (None, None)) for key, coarse in new.values())
        margins = [(self._margin(i, first), self._margin(j, second)) for (i, j), (first, second) in pairs]
        statistics = self._bound_statistics
        estimates = estimate_pairs(list(new.values()), margins, statistics, self.candidates, n_jobs) if new else []
        self._estimates.update(zip(new, estimates, strict=True))

    def _margin(self, j: int, binning: Binning | None) -> Margin:  # of a feature, computed once per binning
        margins: dict[tuple[int, _BinningKey], Margin] = memo_of(self, "margins")
        key = j, _binning_key(binning)
        if key not in margins:
            axis, statistics = self._bound_grid.axes[j], self._bound_statistics
            n_ordered = 0
            if axis.is_ordered:
                n_ordered = (axis if binning is None else binning.axis(axis)).n_regular
            masses = statistics.counts((j,), None if binning is None else (binning,))
            values = statistics.bin_means(j, binning)[:n_ordered]
            margins[key] = Margin(masses, n_ordered, statistics.effective_rows, values)
        return margins[key]


def _binning_key(binning: Binning | None) -> _BinningKey:  # to find what was computed for the same coarse bins
    return None if binning is None or binning.is_identity else binning.bins.tobytes()


def _pair_key(key: Key, binnings: Binnings | None) -> tuple[Key, _BinningKey, _BinningKey]:
    """Return by what an estimate is found: the pair, and the coarse bins of both features."""
    first, second = (None, None) if binnings is None else binnings
    return key, _binning_key(first), _binning_key(second)


@dataclasses.dataclass(frozen=True, eq=False)
class Kernel(SmoothDensity):
    """Estimate the dependence of each pair by a kernel, with the empirical marginals.

    Generally preferred if the dependence has no common shape and you want a fixed `bandwidth`; otherwise use `Auto`,
    which tries the same kernels among others. Equivalent to `Empirical` for a bandwidth towards 0, and to `Independent`
    for a very large one. If the bandwidth is chosen, candidates include estimates at wider bandwidths with most of
    their bias removed.

    Parameters
    ----------
    bandwidth
        Standard deviations, in units of n^(-1/6), by which rows are smoothed; None for the bandwidth with the highest
        leave-one-out likelihood.

    Examples
    --------
    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()
    >>> fx.with_density(treeanova.density.Kernel(bandwidth=0.5)).density.draw(3).shape
    (3, 2)
    """

    name: ClassVar[str] = "kernel"
    bandwidth: float | None = None

    def __post_init__(self) -> None:
        if self.bandwidth is not None and not (isinstance(self.bandwidth, Real) and self.bandwidth > 0):
            raise ValueError(f"`bandwidth` must be positive, got {self.bandwidth!r}; leave it out to choose it.")

    def candidates(self, pairs: PairStack) -> Iterator[Candidates]:
        if self.bandwidth is None:
            return kernel_candidates(pairs)
        return kernel_candidates(pairs, (self.bandwidth,), ("ranks",))

    def draw(self, n_rows: int, random_state: int = 0) -> BinIndices:
        """Draw bins of rows from the joint density: rows of the data, each feature moved by its kernel.

        Parameters
        ----------
        n_rows, random_state
            Number of rows, and seed of the draws.

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
    """Choose for each pair of features the estimate with the highest leave-one-out likelihood.

    Generally preferred for rows that are a sample of a population; `choices` lists what was chosen. Equivalent to
    `Independent` for orders 1 and 2 where all pairs are chosen to be independent.

    Candidates: empirical; independent; Gaussian copula; the likeliest of other families (Student, Frank, Clayton and
    Gumbel with rotations); the better of these two times a kernel estimate of the rest; kernels of ten bandwidths in
    ranks and in values; the best of these with most of its bias removed; where a feature has no order, kernels and
    shares shrunk towards independence. Independence and the Gaussian copula are kept unless another estimate is
    likelier by more than one standard error.

    Examples
    --------
    >>> import numpy as np, treeanova
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> X[:, 1] += X[:, 0]
    >>> model = DecisionTreeRegressor(max_leaf_nodes=20, random_state=0).fit(X, X.prod(axis=1))
    >>> fx = treeanova.decompose(model, X, density=treeanova.density.Auto())
    >>> fx.density.choices["x0", "x1"].name
    'gaussian'
    """

    name: ClassVar[str] = "auto"

    def candidates(self, pairs: PairStack) -> Iterator[Candidates]:
        return all_candidates(pairs)
