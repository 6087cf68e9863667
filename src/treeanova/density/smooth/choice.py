"""Estimates of the dependence of a pair of features, and the choice among them by leave-one-out likelihood.

The table of a pair is w(i, j) = m_a(i) m_b(j) r(i, j) with empirical marginals m and a ratio r. `Candidates` are
estimates of r over groups of bins, and of what they give each row if it is left out: a row changes its own ratio by a
known amount, so leave-one-out likelihoods need no second fit. Pairs whose margins have about as many groups are
estimated together as a `PairStack`, because for most pairs a numpy call takes longer than its work; smaller margins are
padded, and several bandwidths are tried at once.

In scores or values z, a kernel estimate of the ratio is r = A C Bᵀ with the table C of row shares and the kernels A and
B of both margins, which keeps marginals exact. The rows of a pair are counted once; every bandwidth then takes two
matrix products.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.density import costs
from treeanova.density.smooth import margins
from treeanova.density.table import rake_to_marginals

_FLOOR = 0.01  # share of independence in what an estimate gives a left-out row
_TINY = 1e-300
_SCALE_SUFFIX: dict[margins.Scale, str] = {"ranks": "", "values": " of values"}
_SMALLEST_START = 0.05  # ratio of an estimate that kernels correct
_RAKING_TOLERANCE = 1e-6  # to compare candidates; the table of the one chosen is raked to its marginals exactly
_TAU_STEPS = (0.1, 0.05, 0.025)  # of a search for Kendall's τ, on the scale of Fisher's z
_N_CORRELATIONS = 5  # that are tried
_SAME_CORRELATION = 0.01  # difference, on the scale of Fisher's z, that does not matter

_Option = TypeVar("_Option", float, margins.Scale)
_Numbers = float | list[float]
_Scales = margins.Scale | list[margins.Scale]
"""An option of all pairs of a stack, or a list with that of each."""


@dataclasses.dataclass(frozen=True, eq=False)
class PairStack:
    """Pairs of features whose arrays have the same shape, (n_pairs, n_groups of the first, n_groups of the second)."""

    first: margins.Margins  # of the first features of all pairs
    second: margins.Margins
    shares: Floats  # of the rows in the cells
    places: Ints  # numbers of the pairs in the whole stack they were taken from

    def __len__(self) -> int:
        return len(self.shares)

    @property
    def n_rows(self) -> float:
        return self.first.distinct[0].n_rows

    @property
    def n_points(self) -> int:  # of both features, where copulas are evaluated
        return self.first.shape.n_points * self.second.shape.n_points

    @property
    def n_ordered(self) -> int:  # of the two features: those whose bins have an order
        return (self.first.n_ordered_groups > 0) + (self.second.n_ordered_groups > 0)

    @functools.cached_property
    def product(self) -> Floats:
        """Masses of the cells if features are independent."""
        return outer_products(self.first.group_masses, self.second.group_masses)

    @functools.cached_property
    def coarse(self) -> PairStack:
        """The same pairs on fewer groups, by which families of copulas are compared."""
        first, second = self.first.coarse, self.second.coarse
        if not (first.is_pooled or second.is_pooled):
            return PairStack(first, second, self.shares, self.places)
        pooled = self.first.pooling @ self.shares @ self.second.pooling.swapaxes(1, 2)  # sums over joined groups
        return PairStack(first, second, pooled, self.places)

    def take(self, numbers: Ints) -> PairStack:  # numbers may repeat
        if len(numbers) == len(self) and (numbers == np.arange(len(self))).all():
            return self
        first, second = self.first.take(numbers), self.second.take(numbers)
        return PairStack(first, second, self.shares[numbers], self.places[numbers])

    def mean(self, values: Floats) -> Floats:
        """Return, per pair, the mean over rows of values given by cell."""
        return np.einsum("kij,kij->k", self.shares, values)


def logs_of(ratio: Floats) -> Floats:
    """Return logarithms, finite even for a ratio of zero."""
    logs: Floats = np.maximum(ratio, _TINY)
    return np.log(logs, out=logs)


def outer_products(first: Floats, second: Floats) -> Floats:  # of the last axes, pair by pair
    return first[..., :, None] * second[..., None, :]


class Candidates(NamedTuple):
    """Estimates of some pairs; a pair may have several."""

    names: list[str]
    ratio: Floats  # of the estimate to independence, by pair and groups of both features
    left_out: Floats  # the ratio that the estimate gives a left-out row of each cell
    likelihoods: Floats  # leave-one-out log-likelihoods per row, relative to independence
    places: Ints  # numbers of the pairs in their whole stack

    @property
    def likeliest(self) -> Ints:
        """Numbers of the likeliest estimate of each pair, the first of several as likely."""
        order = np.lexsort((-np.arange(len(self.places)), self.likelihoods, self.places))
        places = self.places[order]
        return order[np.append(places[1:] != places[:-1], True)]

    def take(self, numbers: Ints) -> Candidates:  # numbers may repeat
        names, likelihoods = [self.names[i] for i in numbers], self.likelihoods[numbers]
        return Candidates(names, self.ratio[numbers], self.left_out[numbers], likelihoods, self.places[numbers])


def make_candidates(
    pairs: PairStack, names: str | Sequence[str], ratio: Floats, left_out: Floats, shrinkage: Floats | float = 0.0
) -> Candidates:
    """Return candidates from ratios, mixed in place with independence (1): by `shrinkage`, left-out ones by ≥ 1 %."""
    shares = np.reshape(shrinkage, (-1, 1, 1))
    share = np.maximum(shares, _FLOOR)
    if shares.any():
        ratio *= 1 - shares
        ratio += shares
    left_out *= 1 - share
    left_out += share
    return rated_candidates(pairs, names, ratio, left_out)


def rated_candidates(pairs: PairStack, names: str | Sequence[str], ratio: Floats, left_out: Floats) -> Candidates:
    """Return candidates with leave-one-out likelihoods: means of log `left_out` over rows; one name may serve all."""
    all_names = [names] * len(pairs) if isinstance(names, str) else list(names)
    return Candidates(all_names, ratio, left_out, pairs.mean(logs_of(left_out)), pairs.places)


def full_table(first: margins.Margin, second: margins.Margin, ratio: Floats) -> Floats:
    """Return a pair's weights over bins: marginals times the ratio of their groups, raked to exact marginals."""
    table = ratio[np.ix_(first.groups, second.groups)] * np.multiply.outer(first.masses, second.masses)
    return rake_to_marginals(table, first.masses, second.masses)


def full_tables(pairs: PairStack, ratio: Floats) -> Floats:
    """Return `full_table` of each pair of a stack whose groups are the bins themselves."""
    return rake_to_marginals(ratio * pairs.product, pairs.first.group_masses, pairs.second.group_masses)


def independent(pairs: PairStack) -> Candidates:  # the estimate that features are independent: all ratios are 1
    ones = np.ones(pairs.shares.shape)
    return rated_candidates(pairs, "independent", ones, ones)


def empirical(pairs: PairStack, shrinkage: float) -> Candidates:
    """Return the estimate by the shares of the rows in the cells, mixed with a share of independence."""
    inverse = np.divide(1.0, pairs.product, out=np.zeros_like(pairs.product), where=pairs.product > 0)
    ratio = pairs.shares * inverse
    name = f"shrinkage {shrinkage:g}" if shrinkage else "empirical"
    left_out = _leave_row_out(ratio, inverse / _n_other_rows(pairs), pairs)
    return make_candidates(pairs, name, ratio, left_out, shrinkage)


def _n_other_rows(pairs: PairStack) -> float:
    return max(pairs.n_rows - 1, 1.0)


def _leave_row_out(ratio: Floats, self_weight: Floats, pairs: PairStack) -> Floats:
    """Return the ratio of each cell as it is without one of the cell's rows, for leave-one-out likelihoods."""
    # A ratio is a mean over rows; `self_weight` is what the row adds to it, over the number of the other rows.
    mean = ratio * (pairs.n_rows / _n_other_rows(pairs))
    mean -= self_weight
    return np.maximum(mean, 0.0, out=mean)


def kernel(pairs: PairStack, bandwidth: _Numbers, shrinkage: _Numbers, scale: _Scales = "ranks") -> Candidates:
    """Return kernel estimates; the bandwidth is in units of n^(-1/6), `shrinkage` is the share of independence."""
    ratio, left_out = _smoothed(pairs, bandwidth, None, scale)
    options = zip(*(_of_each(pairs, option) for option in (bandwidth, scale, shrinkage)), strict=True)
    names = [
        f"kernel {width:g}{_SCALE_SUFFIX[scale_of_pair]}" + (f", shrinkage {share:g}" if share else "")
        for width, scale_of_pair, share in options
    ]
    return make_candidates(pairs, names, ratio, left_out, np.asarray(shrinkage))


def _of_each(pairs: PairStack, option: _Option | list[_Option]) -> Sequence[_Option]:
    """Return an option of each pair; one that is no list is that of all."""
    return option if isinstance(option, list) else [option] * len(pairs)


def _kernels(pairs: PairStack, bandwidth: _Numbers, scale: _Scales) -> tuple[margins.KernelMatrix, ...]:
    """Return the kernels of the first and the second features, for bandwidths in units of n^(-1/6)."""
    unit, scales = pairs.n_rows ** (-1 / 6), _of_each(pairs, scale)
    widths = [width * unit for width in _of_each(pairs, bandwidth)]
    return pairs.first.kernels(widths, scales), pairs.second.kernels(widths, scales)


def _smooth_both_axes(first: margins.KernelMatrix, tables: Floats, second: margins.KernelMatrix) -> Floats:  # A C Bᵀ
    return second.right(first.left(tables))


def _self_weights(first: margins.KernelMatrix, second: margins.KernelMatrix, factor: float = 1.0) -> Floats:
    """Return, per cell, the weight that a row of the cell has in the kernel estimate of that cell, times a factor."""
    return outer_products(factor * first.diagonal, second.diagonal)


def _smoothed(
    pairs: PairStack, bandwidth: _Numbers, start: Floats | None, scale: _Scales = "ranks"
) -> tuple[Floats, Floats]:
    """Return ratios (and those of left-out rows): a start, None for 1, times the kernel estimate of shares over it."""
    first, second = _kernels(pairs, bandwidth, scale)
    ratio = _smooth_both_axes(first, pairs.shares if start is None else pairs.shares / start, second)
    ratio = ratio if start is None else start * ratio
    return ratio, _leave_row_out(ratio, _self_weights(first, second, 1 / _n_other_rows(pairs)), pairs)


def corrected(pairs: PairStack, start: Candidates, bandwidth: _Numbers) -> Candidates:
    """Return estimates `start` times the kernel estimate of what they lack, with exact marginals."""
    ratio, left_out = _smoothed(pairs, bandwidth, np.maximum(start.ratio, _SMALLEST_START))
    ratio, factors = _normalised(pairs, ratio)
    left_out *= factors
    named = zip(start.names, _of_each(pairs, bandwidth), strict=True)
    return make_candidates(pairs, [f"{name} x kernel {width:g}" for name, width in named], ratio, left_out)


def sharpened(pairs: PairStack, bandwidth: _Numbers, scale: _Scales = "ranks") -> Candidates:
    """Return a kernel estimate s times the kernel estimate of what it lacks, with exact marginals: less bias."""
    # Without row i, s(j) falls by K(j, i) / n; to first order the mean of K / s over others grows by that of K² / s².
    n = pairs.n_rows
    first, second = _kernels(pairs, bandwidth, scale)
    start = np.maximum(_smooth_both_axes(first, pairs.shares, second), 1e-12)
    quotient = pairs.shares / start
    mean = _smooth_both_axes(first, quotient, second)
    self_weight = _self_weights(first, second) / start
    growth = _smooth_both_axes(first.squares(), quotient / start, second.squares()) - self_weight * self_weight / n
    ratio, factors = _normalised(pairs, start * mean)
    start_without = np.maximum(n - self_weight, 0.0) * start
    left_out = start_without * np.maximum(n * mean - self_weight + growth, 0.0) / (n * max(n - 1, 1.0))
    options = zip(_of_each(pairs, bandwidth), _of_each(pairs, scale), strict=True)
    names = [f"kernel {width:g} twice{_SCALE_SUFFIX[scale_of_pair]}" for width, scale_of_pair in options]
    return make_candidates(pairs, names, ratio, left_out * factors)


def gaussian(pairs: PairStack) -> Candidates:
    """Return the likeliest Gaussian copula of each pair's ordered bins, independence elsewhere."""
    correlations, differ = _correlations(pairs)
    best = _gaussian_ratio(pairs, correlations[:, 0])
    likelihoods = pairs.mean(logs_of(best))
    numbers, tried = np.repeat(np.flatnonzero(differ), _N_CORRELATIONS - 1), correlations[differ, 1:].ravel()
    for chunk in _chunks(pairs, len(numbers), pairs.n_points):
        places = numbers[chunk]
        attempts = pairs.take(places)
        ratio = _gaussian_ratio(attempts, tried[chunk])
        trials = Candidates([""] * len(attempts), ratio, ratio, attempts.mean(logs_of(ratio)), places)
        better = trials.likeliest
        better = better[trials.likelihoods[better] > likelihoods[places[better]]]
        best[places[better]], likelihoods[places[better]] = ratio[better], trials.likelihoods[better]
    return _parametric(pairs, "gaussian", best, 1)


def _gaussian_ratio(pairs: PairStack, correlations: Floats) -> Floats:
    """Return the density of the Gaussian copula with one correlation per pair, averaged over each cell."""
    r = correlations[:, None]
    x, y = pairs.first.points, pairs.second.points
    scale = 2 * (1 - r * r)
    logs = outer_products(x, 2 * r / scale * y)
    logs -= (r * r / scale * (x * x) + np.log(1 - r * r) / 2)[:, :, None]
    logs -= (r * r / scale * (y * y))[:, None, :]
    return _cell_means(pairs, logs)


def _correlations(pairs: PairStack) -> tuple[Floats, Bools]:
    """Return, per pair, correlations of normal scores to try, (n_pairs, n_tried), and whether to try more than one."""
    # From the correlation of bins' mean scores up: E x y of these is r Var x Var y to first order, less for large r.
    x, y = pairs.first.mean_points, pairs.second.mean_points
    shares = pairs.shares[:, : x.shape[1], : y.shape[1]]
    spread = (shares.sum(axis=2) * x**2).sum(axis=1) * (shares.sum(axis=1) * y**2).sum(axis=1)
    moment, total = ((x[:, None, :] @ shares)[:, 0] * y).sum(axis=1), shares.sum(axis=(1, 2))
    varies = spread > 0
    safe = np.where(varies, spread, 1.0)
    ends = np.clip([moment / np.sqrt(safe), moment * total / safe], -0.995, 0.995)
    low, high = np.arctanh(np.where(varies, ends, 0.0))
    return np.tanh(np.linspace(low, high, _N_CORRELATIONS, axis=1)), np.abs(high - low) >= _SAME_CORRELATION


def family(pairs: PairStack) -> Candidates:
    """Return the likeliest parametric family of copulas of each pair, chosen on coarse groups, with its likeliest τ."""
    coarse = pairs.coarse
    n_first, n_second = coarse.first.n_ordered_groups, coarse.second.n_ordered_groups
    ordered = coarse.shares[:, :n_first, :n_second]
    tau = np.clip(margins.kendall_tau(ordered), -margins.TAU_RANGE[1], margins.TAU_RANGE[1])
    likelihoods = np.stack([_family_likelihood(coarse, law, tau) for law in margins.FAMILIES])
    best_laws = likelihoods.argmax(axis=0)
    ratio = np.empty(pairs.shares.shape)
    names, n_parameters = [""] * len(pairs), np.empty(len(pairs))
    for number in np.unique(best_laws):
        law, places = margins.FAMILIES[number], np.flatnonzero(best_laws == number)
        refined = _refined_tau(coarse.take(places), law, tau[places], likelihoods[number, places])
        ratio[places] = _family_ratio(pairs.take(places), law, refined)
        n_parameters[places] = law.n_parameters
        for place, of_pair in zip(places, refined, strict=True):
            names[place] = law.name + margins.ROTATIONS.get((law.is_rotated, bool(of_pair >= 0)), "")
    return _parametric(pairs, names, ratio, n_parameters)


def _refined_tau(pairs: PairStack, law: margins.Family, tau: Floats, likelihoods: Floats) -> Floats:
    """Return Kendall's τ that are likelier than those given, by steps of falling size in both directions."""
    both = pairs.take(np.tile(np.arange(len(pairs)), 2))
    for step in _TAU_STEPS:
        neighbours = np.tanh(np.arctanh(tau) + np.array([[-step], [step]]))
        attempts = _family_likelihood(both, law, neighbours.ravel()).reshape(neighbours.shape)
        attempts = np.where(neighbours * tau > 0, attempts, -np.inf)
        tau = np.where(
            attempts[0] > likelihoods, neighbours[0], np.where(attempts[1] > likelihoods, neighbours[1], tau)
        )
        likelihoods = np.maximum(likelihoods, np.where(attempts[0] > likelihoods, attempts[0], attempts[1]))
    return tau


def _family_ratio(pairs: PairStack, law: margins.Family, tau: Floats) -> Floats:
    """Return the density of a family's copula in each cell; for τ < 0 that of |τ| with the second feature reversed."""
    is_rotated = bool(law.is_rotated)
    u = pairs.first.copula_scores(law.scores, is_reversed=is_rotated)
    v, turned = (pairs.second.copula_scores(law.scores, is_reversed=turn) for turn in (is_rotated, not is_rotated))
    v = np.where(tau[:, None] < 0, turned, v)
    bounded = np.clip(np.abs(tau), *margins.TAU_RANGE)[:, None, None]
    return _cell_means(pairs, law.log_density_at(u[:, :, None], v[:, None, :], bounded))


def _family_likelihood(pairs: PairStack, law: margins.Family, tau: Floats) -> Floats:  # per row, less its parameters
    return pairs.mean(logs_of(_family_ratio(pairs, law, tau))) - law.n_parameters / pairs.n_rows


def _cell_means(pairs: PairStack, logs: Floats) -> Floats:
    """Return ratios of cells: means of a copula's density over the points in each; 1 in cells without order."""
    # `logs` has the logarithms at all points of both features.
    means: Floats = np.exp(logs, out=logs)
    first, second = pairs.first.point_shares, pairs.second.point_shares
    means = means if first is None else first @ means
    means = means if second is None else means @ second.swapaxes(1, 2)
    if means.shape == pairs.shares.shape:
        return means
    ratio = np.ones(pairs.shares.shape)
    ratio[:, : means.shape[1], : means.shape[2]] = means
    return ratio


def _parametric(pairs: PairStack, names: str | Sequence[str], ratio: Floats, n_parameters: Floats | int) -> Candidates:
    """Return candidates raked to exact marginals; each parameter costs one unit of log-likelihood."""
    ratio, _ = _normalised(pairs, ratio)
    factors = np.exp(-np.broadcast_to(n_parameters, len(pairs)) / pairs.n_rows)
    return make_candidates(pairs, names, ratio, ratio * factors[:, None, None])


def _normalised(pairs: PairStack, ratio: Floats) -> tuple[Floats, Floats]:
    """Return ratios raked to exact marginals, without which likelihoods have no meaning, and the factors applied."""
    masses = pairs.first.group_masses, pairs.second.group_masses
    table = rake_to_marginals(ratio * pairs.product, *masses, tolerance=_RAKING_TOLERANCE)
    exact = np.divide(table, pairs.product, out=np.ones_like(table), where=pairs.product > 0)
    return exact, np.divide(exact, ratio, out=np.ones_like(ratio), where=ratio > 1e-100)


BANDWIDTHS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.4, 2.0)
_SHARPENED_BANDWIDTHS = (*BANDWIDTHS[2:], 3.0, 4.0)  # two steps wider than each of these
_CORRECTION_BANDWIDTHS = (0.5, 0.7, 1.0, 1.4, 2.0, 3.0)
_SHRINKAGES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)
_KERNEL_SHRINKAGES = (0.0, 0.05, 0.2, 0.5)
_STRIDE = 3  # of bandwidths that are tried first
_SIMPLE = ("independent", "gaussian")

_Make = Callable[[Ints, Ints, list[float]], Candidates]
"""Given places of pairs in a stack, and for each the number of a form and a bandwidth: these estimates."""


class Choice(NamedTuple):
    """The estimate chosen for a pair of features.

    Attributes
    ----------
    name
        Name of the estimate, such as ``"gaussian"`` or ``"kernel 0.3"``.
    likelihood, over_empirical
        Leave-one-out log-likelihood per row, relative to that of independence, and to that of the shares of the rows.

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


def choose(pairs: PairStack, candidates: Iterator[Candidates]) -> tuple[list[Choice], Floats]:
    """Return each pair's choice by leave-one-out likelihood, and the ratios of the estimates chosen."""
    # A simple candidate wins if it is less than one standard error below the best.
    shape, n_pairs = pairs.shares.shape, len(pairs)
    best = Candidates([""] * n_pairs, np.empty(shape), np.empty(shape), np.full(n_pairs, -np.inf), pairs.places)
    simple = dict[str, Candidates]()
    for candidate in candidates:
        numbers = candidate.likeliest
        better = candidate.likelihoods[numbers] > best.likelihoods[candidate.places[numbers]]
        _replace_estimates(best, candidate, numbers[better])
        if candidate.names[0] in _SIMPLE:
            simple[candidate.names[0]] = candidate
        del candidate  # before the next is made: tables of many categories are large
    undecided = np.arange(n_pairs)
    for name in (name for name in _SIMPLE if name in simple):
        gains = logs_of(best.left_out[undecided])  # log-likelihood of a row of each cell, best minus simple
        gains -= logs_of(simple[name].left_out[undecided])
        some_pairs = pairs.take(undecided)
        means = some_pairs.mean(gains)
        gains -= means[:, None, None]
        is_near = means**2 * pairs.n_rows <= some_pairs.mean(np.square(gains, out=gains))  # at most one standard error
        _replace_estimates(best, simple[name], undecided[is_near])
        undecided = undecided[~is_near]
    over_empirical = best.likelihoods - empirical(pairs, 0.0).likelihoods
    choices = map(Choice, best.names, best.likelihoods.tolist(), over_empirical.tolist())
    return list(choices), best.ratio


def _replace_estimates(best: Candidates, new: Candidates, numbers: Ints) -> None:
    """Put some of the new estimates into `best`, in place, where their pairs are."""
    places = new.places[numbers]
    best.likelihoods[places] = new.likelihoods[numbers]
    best.ratio[places], best.left_out[places] = new.ratio[numbers], new.left_out[numbers]
    for place, number in zip(places.tolist(), numbers.tolist(), strict=True):
        best.names[place] = new.names[number]


def all_candidates(pairs: PairStack, *, families: bool = True) -> Iterator[Candidates]:
    """Yield all estimates that `Auto` chooses from; `families` includes parametric families besides the Gaussian."""
    yield empirical(pairs, 0.0)
    nothing = independent(pairs)
    yield nothing
    if pairs.n_ordered < 2:
        yield from kernel_candidates(pairs)
        return
    start = gaussian(pairs)
    yield start
    likelihoods = start.likelihoods.copy()
    for by_kernel in kernel_candidates(pairs):
        np.maximum.at(likelihoods, by_kernel.places, by_kernel.likelihoods)
        yield by_kernel
    places = np.flatnonzero(likelihoods > nothing.likelihoods)  # few if features are independent: what follows is slow
    if len(places):
        yield from _parametric_candidates(pairs.take(places), start.take(places), families=families)


def _parametric_candidates(pairs: PairStack, start: Candidates, *, families: bool) -> Iterator[Candidates]:
    """Yield the likeliest family, and the likelier of it and `start` times kernel corrections of several bandwidths."""
    if families:
        of_family = family(pairs)
        yield of_family
        start = _likelier(start, of_family)
    likelihoods = np.full((1, len(_CORRECTION_BANDWIDTHS), len(pairs)), -np.inf)

    def correct(places: Ints, _: Ints, bandwidths: list[float]) -> Candidates:
        return corrected(pairs.take(places), start.take(places), bandwidths)

    yield from _search(pairs, correct, _CORRECTION_BANDWIDTHS, likelihoods)


def _likelier(first: Candidates, second: Candidates) -> Candidates:
    """Return the likelier of two candidates for each pair, all pairs at the same places."""
    takes_second = second.likelihoods > first.likelihoods
    names = [second.names[i] if better else first.names[i] for i, better in enumerate(takes_second)]
    takes = takes_second[:, None, None]
    ratio, left_out = np.where(takes, second.ratio, first.ratio), np.where(takes, second.left_out, first.left_out)
    return Candidates(names, ratio, left_out, np.maximum(first.likelihoods, second.likelihoods), first.places)


def kernel_candidates(
    pairs: PairStack, bandwidths: Sequence[float] = BANDWIDTHS, scales: Sequence[margins.Scale] = margins.SCALES
) -> Iterator[Candidates]:
    """Yield kernel estimates at several bandwidths; if one feature has no order, also shrunk towards independence."""
    if pairs.n_ordered == 0:  # a kernel estimate is the table of shares itself
        for shrinkage in _SHRINKAGES:
            yield empirical(pairs, shrinkage)
        return
    forms = list(itertools.product(scales, (0.0,) if pairs.n_ordered == 2 else _KERNEL_SHRINKAGES))
    likelihoods = np.full((len(forms), len(bandwidths), len(pairs)), -np.inf)

    def smooth(places: Ints, of_form: Ints, widths: list[float]) -> Candidates:
        scales_and_shrinkages = [forms[form] for form in of_form]
        shrinkages = [shrinkage for _, shrinkage in scales_and_shrinkages]
        return kernel(pairs.take(places), widths, shrinkages, [scale for scale, _ in scales_and_shrinkages])

    yield from _search(pairs, smooth, bandwidths, likelihoods)
    if tuple(bandwidths) == BANDWIDTHS:  # add a sharpened estimate at a bandwidth above the likeliest
        likeliest, best = _likeliest(likelihoods)
        widths = [_SHARPENED_BANDWIDTHS[i] for i in best]
        yield sharpened(pairs, widths, [forms[form][0] for form in likeliest])


def _search(pairs: PairStack, make: _Make, bandwidths: Sequence[float], likelihoods: Floats) -> Iterator[Candidates]:
    """Yield candidates of each form at every third bandwidth, then of each pair's likeliest form around its best."""
    n_forms, n_bandwidths, _ = likelihoods.shape  # this array receives the likelihoods of all candidates

    def attempt(tried: Bools) -> Iterator[Candidates]:  # axes are form, bandwidth and pair
        forms, numbers, places = np.nonzero(tried)
        for chunk in _chunks(pairs, len(places), pairs.shares[0].size):
            candidates = make(places[chunk], forms[chunk], [bandwidths[i] for i in numbers[chunk]])
            likelihoods[forms[chunk], numbers[chunk], places[chunk]] = candidates.likelihoods
            yield candidates

    is_first = np.zeros((1, n_bandwidths, 1), dtype=bool)
    is_first[:, n_bandwidths > 1 :: _STRIDE] = True
    yield from attempt(np.broadcast_to(is_first, likelihoods.shape))
    likeliest, middle = _likeliest(likelihoods)
    is_near = np.abs(middle - np.arange(n_bandwidths)[:, None]) < _STRIDE
    yield from attempt(is_near & ~is_first & (likeliest == np.arange(n_forms)[:, None, None]))


def _chunks(pairs: PairStack, n_attempts: int, size: int) -> Iterator[slice]:
    """Yield ranges of attempts whose arrays, of a size each, stay in the cache; at least as many as there are pairs."""
    step = max(len(pairs), costs.MAX_STACK_ELEMENTS // size)
    yield from (slice(start, start + step) for start in range(0, n_attempts, step))


def _likeliest(likelihoods: Floats) -> tuple[Ints, Ints]:
    """Return the likeliest form and bandwidth of each pair, as positions; axes are form, bandwidth and pair."""
    _, n_bandwidths, n_pairs = likelihoods.shape
    forms, bandwidths = np.divmod(likelihoods.reshape(-1, n_pairs).argmax(axis=0), n_bandwidths)
    return forms, bandwidths
