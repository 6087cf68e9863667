"""The choice among estimates of a pair by leave-one-out likelihood.

Independence and the Gaussian copula are kept unless another estimate is likelier by more than its standard error.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from treeanova.density.candidates import corrected, empirical, family, gaussian, independent, kernel, sharpened
from treeanova.density.margins import SCALES, Scale
from treeanova.density.pairs import Candidate, Pair, log_likelihood

BANDWIDTHS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.4, 2.0)
_SHARPENED_BANDWIDTHS = (*BANDWIDTHS[2:], 3.0, 4.0)  # two steps wider than each of these
_CORRECTION_BANDWIDTHS = (0.5, 0.7, 1.0, 1.4, 2.0, 3.0)
_SHRINKAGES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)
_KERNEL_SHRINKAGES = (0.0, 0.05, 0.2, 0.5)
_STRIDE = 3
_SIMPLE = ("independent", "gaussian")

_Form = tuple[Scale, float]  # scale and shrinkage of a kernel estimate
_Makers = Mapping[_Form, Callable[[float], Candidate]]


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


def choose(pair: Pair, candidates: Sequence[Candidate]) -> tuple[Candidate, float]:
    """The candidate of highest leave-one-out likelihood, and that likelihood.

    A simple candidate is taken instead where it is less than a standard error below.
    """
    shares = pair.shares_there
    logs = {one.name: pair.logs(one.left_out) for one in candidates}
    likelihoods = {name: float(shares @ of_cells) for name, of_cells in logs.items()}
    chosen = max(likelihoods, key=lambda name: likelihoods[name])
    for simple in (name for name in _SIMPLE if name in logs):
        gain = logs[chosen] - logs[simple]
        mean = float(shares @ gain)
        if mean**2 * pair.n_rows <= float(shares @ (gain - mean) ** 2):
            chosen = simple
            break
    return next(one for one in candidates if one.name == chosen), likelihoods[chosen]


def all_candidates(pair: Pair, *, families: bool = True) -> list[Candidate]:
    """All estimates that `Auto` chooses from; without parametric families other than the Gaussian on request."""
    candidates = [empirical(pair, 0.0), independent(pair)]
    if pair.n_ordered == 2:
        starts = [gaussian(pair), family(pair)] if families else [gaussian(pair)]
        start = max(starts, key=lambda one: log_likelihood(pair, one))
        makers: _Makers = {("ranks", 0.0): functools.partial(corrected, pair, start)}
        candidates += [*starts, *_search(pair, _CORRECTION_BANDWIDTHS, makers)[0]]
    return candidates + kernel_candidates(pair)


def kernel_candidates(
    pair: Pair, bandwidths: Sequence[float] = BANDWIDTHS, scales: Sequence[Scale] = SCALES
) -> list[Candidate]:
    """Kernel estimates at several bandwidths; where one feature has no order, also shrunk towards independence.

    Where no feature has an order, a kernel estimate is the table of shares itself. With the bandwidths of this module,
    a sharpened estimate at a bandwidth above the likeliest is added.
    """
    if pair.n_ordered == 0:
        return [empirical(pair, shrinkage) for shrinkage in _SHRINKAGES]
    makers: _Makers = {
        (scale, shrinkage): functools.partial(kernel, pair, shrinkage=shrinkage, scale=scale)
        for scale, shrinkage in itertools.product(scales, (0.0,) if pair.n_ordered == 2 else _KERNEL_SHRINKAGES)
    }
    candidates, (bandwidth, (scale, _)) = _search(pair, bandwidths, makers)
    if tuple(bandwidths) != BANDWIDTHS:
        return candidates
    return [*candidates, sharpened(pair, _SHARPENED_BANDWIDTHS[bandwidths.index(bandwidth)], scale)]


def _search(pair: Pair, bandwidths: Sequence[float], makers: _Makers) -> tuple[list[Candidate], tuple[float, _Form]]:
    """Candidates of each form at every third bandwidth and, of the likeliest form, around its best; and the best."""
    tried = range(len(bandwidths) > 1, len(bandwidths), _STRIDE)
    candidates = {(i, form): make(bandwidths[i]) for form, make in makers.items() for i in tried}
    likelihoods = {key: log_likelihood(pair, one) for key, one in candidates.items()}
    middle, form = max(likelihoods, key=lambda key: likelihoods[key])
    for i in set(range(max(middle - _STRIDE + 1, 0), min(middle + _STRIDE, len(bandwidths)))) - set(tried):
        candidates[i, form] = makers[form](bandwidths[i])
        likelihoods[i, form] = log_likelihood(pair, candidates[i, form])
    best, form = max(likelihoods, key=lambda key: likelihoods[key])
    return list(candidates.values()), (bandwidths[best], form)
