"""Pure terms of all orders from raw ones: each order is purified in turn, and measured."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from treeanova.anova.certificate import TermCertificate, impurity
from treeanova.anova.descent import Widen, descend, in_turn, keys_below, with_subsets
from treeanova.anova.product_pairs import PurePair, purify_product_pairs
from treeanova.anova.slices import largest, marginals, take_out
from treeanova.anova.solvers.base import AUTO, EPSILON, Options, Solution
from treeanova.anova.solvers.product import Product
from treeanova.anova.solvers.registry import solve
from treeanova.anova.support import bin_components
from treeanova.core.arrays import Faces, Floats, Key
from treeanova.core.progress import Progress, counted, quiet
from treeanova.errors import NotPureError

_VANISHING = 1e-293  # marginals and rounding leave what is not negligible above this
_LEAST_EXPONENT = -1000  # of a power of two whose inverse is a number
_UNSCALED = 1e-100, 1e100  # squares of scores between these neither overflow nor vanish
_MANY_PAIRS = 100
_CELLS_FOR_THREADS = 1 << 17  # with fewer, threads wait for each other more than they gain


class Cascade(NamedTuple):
    """Pure terms of all orders, what was measured on each, and the trace of the highest order."""

    intercept: Floats
    terms: dict[Key, Floats]
    measured: dict[Key, TermCertificate]
    trace: Floats | None


class _PureTerm(NamedTuple):
    values: Floats
    certificate: TermCertificate
    trace: Floats | None


def cascade(
    terms: Mapping[Key, Floats],
    table: Callable[[Key], Floats],
    options: Options,
    n_jobs: int = 1,
    progress: Progress = quiet,
    *,
    widen: Widen | None = None,
) -> Cascade:
    """Purify orders from the highest to the lowest; what is taken out of a term goes to the terms one order below.

    Parameters
    ----------
    terms
        Raw terms, outputs first. Their subsets become terms too.
    table
        Gives the weights of a set of axes, of sum 1.
    options
        How to purify.
    n_jobs
        Number of threads for terms of one order, where they are large.
    progress
        Called with the stage, and the terms done and in all.
    widen
        Where terms have axes of their own, ``widen(above, below, face)`` brings a face of the term `above`, outputs
        first and on its axes, to the axes of the term `below`; it is not called for the intercept.
    """
    scales = np.max([largest(values) for values in terms.values()], axis=0)
    units = _units(scales)
    pending = _scaled(terms, 1.0 / units)
    keys = with_subsets(pending)
    weights = _Weights(table)
    at_once = _purified_at_once(pending, weights.first, scales / units, options)

    def purify_one(key: Key, term: Floats) -> tuple[_PureTerm, Faces]:
        """A pure term with its certificate, and its faces."""
        if key in at_once:
            weights.last(key)
            values, certificate, faces = at_once.pop(key)
            return _PureTerm(values, certificate, None), faces
        return _purify_term(term, cut_weights(weights.last(key)), scales / units, options)

    def is_large(key: Key) -> bool:
        """Whether a term has enough cells to pay for threads."""
        return pending[key].size >= _CELLS_FOR_THREADS

    steps = descend(keys, in_turn(purify_one, n_jobs=n_jobs, is_large=is_large), pending, widen=widen)
    pure = dict(_reported(steps, keys, progress))
    return _unscaled(pure, pending.get((), np.zeros(len(scales))), units)


class _Weights:
    """Weights of terms, each of which is asked for at most twice and computed once."""

    def __init__(self, table: Callable[[Key], Floats]) -> None:
        self._table = table
        self._known: dict[Key, Floats] = {}

    def first(self, key: Key) -> Floats:
        """The weights of a term, kept for the second time."""
        self._known[key] = self._table(key)
        return self._known[key]

    def last(self, key: Key) -> Floats:
        """The weights of a term, no longer kept."""
        return self._known.pop(key) if key in self._known else self._table(key)


def _purified_at_once(
    terms: Mapping[Key, Floats], table: Callable[[Key], Floats], scales: Floats, options: Options
) -> dict[Key, PurePair]:
    """Small pairs of independent features where there are many of them, and no terms above that pass on to them."""
    n_pairs = sum(len(key) == 2 for key in terms)
    if n_pairs < _MANY_PAIRS or max(map(len, terms)) > 2 or options.method not in {AUTO, Product.method}:
        return {}
    return purify_product_pairs(terms, table, scales, _VANISHING)


def _reported(
    steps: Iterator[tuple[Key, _PureTerm]], keys: Sequence[Key], progress: Progress
) -> Iterator[tuple[Key, _PureTerm]]:
    """Steps of a descent, each of them reported within its order."""
    n_terms = collections.Counter(map(len, keys))
    for order in sorted(n_terms, reverse=True):
        of_order = itertools.islice(steps, n_terms[order])
        yield from counted(progress, f"purifying order {order}", of_order, n_terms[order])


def _purify_term(term: Floats, weights: Floats, scales: Floats, options: Options) -> tuple[_PureTerm, Faces]:
    solution = solve(term, weights, options)
    values = term.copy()
    take_out(values, solution.faces)
    return _PureTerm(values, measure(values, weights, scales, solution), solution.trace), solution.faces


def _units(scales: Floats) -> Floats:
    """Powers of two near the largest score of each output where squares would overflow or vanish; 1 elsewhere."""
    is_extreme = (scales > 0) & ((scales < _UNSCALED[0]) | (scales > _UNSCALED[1]))
    exponents = np.maximum(np.frexp(scales)[1] - 1, _LEAST_EXPONENT)
    units: Floats = np.where(is_extreme, np.ldexp(1.0, exponents), 1.0)
    return units


def _scaled(terms: Mapping[Key, Floats], factors: Floats) -> dict[Key, Floats]:
    """Terms with each output multiplied by a factor."""
    if (factors == 1.0).all():
        return dict(terms)
    return {key: values * factors.reshape(-1, *[1] * len(key)) for key, values in terms.items()}


def _unscaled(pure: Mapping[Key, _PureTerm], intercept: Floats, units: Floats) -> Cascade:
    """Results in the units of the scores; raises where one of them is not finite."""
    terms = {key: term.values for key, term in pure.items()}
    trace = next(iter(pure.values())).trace
    _check_finite(intercept * units, terms)
    return Cascade(
        intercept * units,
        _scaled(terms, units),
        _with_errors_of_higher_orders({key: term.certificate for key, term in pure.items()}),
        None if trace is None else trace * units,
    )


def _with_errors_of_higher_orders(measured: Mapping[Key, TermCertificate]) -> dict[Key, TermCertificate]:
    """Certificates, highest order first, with the errors of the terms that passed faces to each added."""
    inherited: dict[Key, float] = {}
    complete = {}
    for key, certificate in measured.items():
        error = (certificate.error or 0.0) + inherited.get(key, 0.0)
        complete[key] = dataclasses.replace(certificate, error=error)
        for below in keys_below(key):
            inherited[below] = inherited.get(below, 0.0) + error
    return complete


def cut_weights(weights: Floats) -> Floats:
    """Weights of sum 1 in which those count as zero whose products with others would vanish."""
    is_negligible = weights < _VANISHING * weights.max()
    is_negligible &= weights > 0
    return np.where(is_negligible, 0.0, weights) if is_negligible.any() else weights


def _check_finite(intercept: Floats, terms: Mapping[Key, Floats]) -> None:
    """Raise where a term holds NaN or infinity: no such number leaves purification."""
    bad = [key for key, values in terms.items() if not np.isfinite(largest(values)).all()]
    if bad or not np.isfinite(intercept).all():
        raise NotPureError(
            f"scores and weights must allow finite pure terms, got NaN or infinity in term {bad[-1] if bad else ()}; "
            "check them for infinities, or use a density with fewer extremes, such as 'laplace' or 'independent'."
        )


def measure(pure: Floats, weights: Floats, scales: Floats, solution: Solution) -> TermCertificate:
    """The certificate of a term, without the errors of higher orders."""
    bin_masses = marginals(weights)
    is_complete = all(masses.all() for masses in bin_masses)
    seen = weights if is_complete else weights[np.ix_(*(masses > 0 for masses in bin_masses))]
    n_components = bin_components(seen)[0]
    certificate = TermCertificate(
        impurity=impurity(pure, weights, scales),
        max_correlation=solution.correlation,
        n_components=n_components,
        empty_share=1.0 - int(np.count_nonzero(weights)) / weights.size,
        method=solution.method,
        iterations=solution.iterations,
        error=solution.error,
    )
    error = max(certificate.error or 0.0, sum(weights.shape) * EPSILON)
    # A function of the parts of a support is one of each feature; solvers state the correlation within parts.
    correlation = 1.0 if n_components > 1 else solution.correlation
    return dataclasses.replace(certificate, error=error, max_correlation=correlation)
