"""The choice among estimates of a pair by leave-one-out likelihood.

Independence and the Gaussian copula are kept unless another estimate is likelier by more than its standard error.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.density.candidates import corrected, empirical, family, gaussian, independent, kernel, sharpened
from treeanova.density.margins import SCALES, Scale
from treeanova.density.pairs import Candidates, PairStack

BANDWIDTHS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.4, 2.0)
_SHARPENED_BANDWIDTHS = (*BANDWIDTHS[2:], 3.0, 4.0)  # two steps wider than each of these
_CORRECTION_BANDWIDTHS = (0.5, 0.7, 1.0, 1.4, 2.0, 3.0)
_SHRINKAGES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)
_KERNEL_SHRINKAGES = (0.0, 0.05, 0.2, 0.5)
_STRIDE = 3
_SIMPLE = ("independent", "gaussian")

_Form = tuple[Scale, float]  # scale and shrinkage of a kernel estimate
_Make = Callable[[Ints, float], Candidates]
"""Given places of pairs in a stack and a bandwidth: the estimates of these pairs."""


class Choice(NamedTuple):
    """The estimate chosen for a pair of features.

    Attributes
    ----------
    name
        Name of the estimate, such as ``"gaussian"`` or ``"kernel 0.3"``.
    likelihood
        Leave-one-out log-likelihood per row, relative to that of independence.
    over_empirical
        The same, relative to that of the shares of the rows.

    Examples
    --------
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> fx.density.choices["x0", "x1"].name
    'independent'
    """

    name: str
    likelihood: float
    over_empirical: float


class Tried(NamedTuple):
    """Estimates of some pairs of a stack, given by their places, and their leave-one-out likelihoods."""

    places: Ints
    estimates: Candidates
    likelihoods: Floats

    def take(self, numbers: Ints) -> Tried:
        """Some of them."""
        return Tried(self.places[numbers], self.estimates.take(numbers), self.likelihoods[numbers])


def tried(pairs: PairStack, estimates: Candidates, places: Ints | None = None) -> Tried:
    """Estimates of some pairs of a stack, of all by default, with their likelihoods."""
    at = np.arange(len(pairs)) if places is None else places
    return Tried(at, estimates, pairs.take(at).mean_log(estimates.left_out))


class Chosen(NamedTuple):
    """The choices for the pairs of a stack, and the ratios over groups that they give."""

    choices: list[Choice]
    ratio: Floats


def choose(pairs: PairStack, candidates: Iterator[Tried]) -> Chosen:
    """For each pair the candidate of highest leave-one-out likelihood.

    A simple candidate is taken instead where it is less than a standard error below.
    """
    best, simple = _Best.of(pairs), dict[str, Tried]()
    for some in candidates:
        best.compare(some)
        if some.estimates.names[0] in _SIMPLE:
            simple[some.estimates.names[0]] = some
        del some  # before the next is made: tables of many categories are large
    undecided = np.arange(len(pairs))
    for name in (name for name in _SIMPLE if name in simple):
        gains = pairs.logs(best.left_out[undecided])
        gains -= pairs.logs(simple[name].estimates.left_out[undecided])
        is_near = _is_near(pairs.take(undecided), gains)
        best.put(undecided[is_near], simple[name])
        undecided = undecided[~is_near]
    of_shares = pairs.mean_log(empirical(pairs, 0.0).left_out)
    found = zip(best.names, best.likelihoods.tolist(), (best.likelihoods - of_shares).tolist(), strict=True)
    return Chosen([Choice(*one) for one in found], best.ratio)


def _is_near(pairs: PairStack, gains: Floats) -> Bools:
    """Whether the mean of gains, which are changed, over the rows is at most one standard error, for each pair."""
    means = pairs.mean(gains)
    gains -= means[:, None, None]
    near: Bools = means**2 * pairs.n_rows <= pairs.mean(np.square(gains, out=gains))
    return near


@dataclasses.dataclass(eq=False)
class _Best:
    """The likeliest candidate so far for each pair of a stack."""

    pairs: PairStack
    names: list[str]
    likelihoods: Floats
    ratio: Floats
    left_out: Floats

    @classmethod
    def of(cls, pairs: PairStack) -> _Best:
        """No candidate yet."""
        shape = pairs.shares.shape
        return cls(pairs, [""] * len(pairs), np.full(len(pairs), -np.inf), np.empty(shape), np.empty(shape))

    def compare(self, some: Tried) -> None:
        """Take over the estimates of those pairs for which they are likelier."""
        better = np.flatnonzero(some.likelihoods > self.likelihoods[some.places])
        self._take_over(some, better)

    def put(self, places: Ints, everyone: Tried) -> None:
        """Replace what was best for some pairs; the estimates are those of all pairs."""
        self._take_over(everyone, places)

    def _take_over(self, some: Tried, numbers: Ints) -> None:
        at = some.places[numbers]
        self.likelihoods[at] = some.likelihoods[numbers]
        self.ratio[at], self.left_out[at] = some.estimates.ratio[numbers], some.estimates.left_out[numbers]
        for place, number in zip(at.tolist(), numbers.tolist(), strict=True):
            self.names[place] = some.estimates.names[number]


def all_candidates(pairs: PairStack, *, families: bool = True) -> Iterator[Tried]:
    """All estimates that `Auto` chooses from; without parametric families other than the Gaussian on request.

    Families, and corrections of them, take longest: they are tried where the Gaussian copula or a kernel estimate is
    likelier than independence, which few pairs of independent features have.
    """
    yield tried(pairs, empirical(pairs, 0.0))
    nothing = tried(pairs, independent(pairs))
    yield nothing
    if pairs.n_ordered < 2:
        yield from kernel_candidates(pairs)
        return
    start = tried(pairs, gaussian(pairs))
    yield start
    likelihoods = start.likelihoods.copy()
    for some in kernel_candidates(pairs):
        likelihoods[some.places] = np.maximum(likelihoods[some.places], some.likelihoods)
        yield some
    places = np.flatnonzero(likelihoods > nothing.likelihoods)
    if len(places):
        yield from _parametric_candidates(pairs.take(places), start.take(places), places, families=families)


def _parametric_candidates(pairs: PairStack, start: Tried, places: Ints, *, families: bool) -> Iterator[Tried]:
    """The likeliest family of each pair and corrections of it; `places` are those of the pairs in the whole stack."""
    start = start._replace(places=np.arange(len(pairs)))
    if families:
        of_family = tried(pairs, family(pairs))
        yield of_family._replace(places=places)
        start = _likelier(start, of_family)
    correct = functools.partial(_correct, pairs, start.estimates)
    for some in _Search(pairs, _CORRECTION_BANDWIDTHS, {("ranks", 0.0): correct}).candidates():
        yield some._replace(places=places[some.places])


def _likelier(first: Tried, second: Tried) -> Tried:
    """The first or, where it is likelier, the second estimate of each pair."""
    takes_second = second.likelihoods > first.likelihoods
    both = zip(first.estimates.names, second.estimates.names, takes_second, strict=True)
    ratio, left_out = (
        np.where(takes_second[:, None, None], new, old)
        for old, new in zip(first.estimates[1:], second.estimates[1:], strict=True)
    )
    names = [new if better else old for old, new, better in both]
    return Tried(first.places, Candidates(names, ratio, left_out), np.maximum(first.likelihoods, second.likelihoods))


def _correct(pairs: PairStack, start: Candidates, places: Ints, bandwidth: float) -> Candidates:
    return corrected(pairs.take(places), start.take(places), bandwidth)


def kernel_candidates(
    pairs: PairStack, bandwidths: Sequence[float] = BANDWIDTHS, scales: Sequence[Scale] = SCALES
) -> Iterator[Tried]:
    """Kernel estimates at several bandwidths; where one feature has no order, also shrunk towards independence.

    Where no feature has an order, a kernel estimate is the table of shares itself. With the bandwidths of this module,
    a sharpened estimate at a bandwidth above the likeliest is added.
    """
    if pairs.n_ordered == 0:
        for shrinkage in _SHRINKAGES:
            yield tried(pairs, empirical(pairs, shrinkage))
        return
    makers: dict[_Form, _Make] = {
        (scale, shrinkage): functools.partial(_smooth, pairs, shrinkage, scale)
        for scale, shrinkage in itertools.product(scales, (0.0,) if pairs.n_ordered == 2 else _KERNEL_SHRINKAGES)
    }
    search = _Search(pairs, bandwidths, makers)
    yield from search.candidates()
    if tuple(bandwidths) == BANDWIDTHS:
        for bandwidth, (scale, _), places in search.best():
            yield tried(pairs, sharpened(pairs.take(places), _SHARPENED_BANDWIDTHS[bandwidth], scale), places)


def _smooth(pairs: PairStack, shrinkage: float, scale: Scale, places: Ints, bandwidth: float) -> Candidates:
    return kernel(pairs.take(places), bandwidth, shrinkage, scale)


class _Search:
    """Candidates of each form at every third bandwidth and, of the likeliest form of a pair, around its best."""

    def __init__(self, pairs: PairStack, bandwidths: Sequence[float], makers: Mapping[_Form, _Make]) -> None:
        self._pairs = pairs
        self._bandwidths = bandwidths
        self._makers = list(makers.items())
        self._likelihoods = np.full((len(makers), len(bandwidths), len(pairs)), -np.inf)

    def candidates(self) -> Iterator[Tried]:
        """The candidates, as they are tried."""
        everyone = np.arange(len(self._pairs))
        first = range(len(self._bandwidths) > 1, len(self._bandwidths), _STRIDE)
        for form, i in itertools.product(range(len(self._makers)), first):
            yield self._try(form, i, everyone)
        likeliest, middle = self._likeliest()
        for i, form in itertools.product(range(len(self._bandwidths)), range(len(self._makers))):
            places = np.flatnonzero((likeliest == form) & (np.abs(middle - i) < _STRIDE))
            if i not in first and len(places):
                yield self._try(form, i, places)

    def best(self) -> Iterator[tuple[int, _Form, Ints]]:
        """Number of the likeliest bandwidth, its form, and the pairs for which they are."""
        likeliest, bandwidth = self._likeliest()
        for form, i in np.unique(np.stack([likeliest, bandwidth]), axis=1).T.tolist():
            yield i, self._makers[form][0], np.flatnonzero((likeliest == form) & (bandwidth == i))

    def _try(self, form: int, i: int, places: Ints) -> Tried:
        some = tried(self._pairs, self._makers[form][1](places, self._bandwidths[i]), places)
        self._likelihoods[form, i, places] = some.likelihoods
        return some

    def _likeliest(self) -> tuple[Ints, Ints]:
        """Number of the form and of the bandwidth of the likeliest candidate of each pair."""
        flat = self._likelihoods.reshape(-1, len(self._pairs)).argmax(axis=0)
        form, bandwidth = np.divmod(flat, len(self._bandwidths))
        return form, bandwidth
