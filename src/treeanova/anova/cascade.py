"""Pure terms of all orders from raw ones: each order is purified in turn, and measured.

Models with hundreds of features have tens of thousands of small pairs, mostly of independent features. A numpy call for
each takes longer than its work, so they are purified in stacks.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from treeanova.anova.certificate import TermCertificate, impurity
from treeanova.anova.solvers import solve
from treeanova.anova.solvers.base import AUTO, EPSILON, Options, Solution
from treeanova.anova.solvers.iterative import Product
from treeanova.anova.support import PRODUCT_TOLERANCE, bin_components, largest, marginals, safe_inverse, take_out
from treeanova.core.arrays import Bools, Floats, Key, Projections
from treeanova.core.progress import Progress, counted, quiet
from treeanova.core.threads import thread_map
from treeanova.errors import NotPureError

Result = TypeVar("Result")
Solve = Callable[[Key, Any], tuple[Result, Sequence[Floats]]]
"""Given a key and what it got from above (None for nothing): the result, and one projection per feature of the key."""
FromAbove = Callable[[Key], Any]
"""What the terms of one order above have passed to a term, None for nothing."""
SolveOrder = Callable[[Sequence[Key], FromAbove], Iterable[tuple[Result, Sequence[Floats]]]]
"""The same for all terms of one order, in their order."""
Widen = Callable[[Key, Key, Floats], Floats]
"""Given the term above, the term below and what is taken out of the one above: that, on the axes of the one below."""


def descend(
    keys: Iterable[Key], solve: SolveOrder[Result], from_above: dict[Key, Floats], *, widen: Widen | None = None
) -> Iterator[tuple[Key, Result]]:
    """Yield the results of terms, solved from the highest order down; projections of each are added to terms below."""
    # Projection i goes to the term without feature i, brought to its axes by `widen`. `from_above` is changed in place;
    # at the end it holds what was passed to terms not among `keys`.
    by_order: dict[int, list[Key]] = {}
    for key in keys:
        by_order.setdefault(len(key), []).append(key)
    for order in sorted(by_order, reverse=True):
        solved = solve(by_order[order], from_above.get)
        for key, (result, projections) in zip(by_order[order], solved, strict=True):
            from_above.pop(key, None)
            for below, projection in zip(keys_below(key), projections, strict=True):
                addend = projection if widen is None or not below else widen(key, below, projection)
                from_above[below] = from_above[below] + addend if below in from_above else addend
            yield key, result


def in_turn(solve: Solve[Result], *, n_jobs: int = 1, is_large: Callable[[Key], bool]) -> SolveOrder[Result]:
    """Return a solver of all terms of an order, from one of single terms: in turn, or in threads if a term is large."""

    def solve_order(keys: Sequence[Key], from_above: FromAbove) -> Iterator[tuple[Result, Sequence[Floats]]]:
        """Yield what `solve` returns for each key and what it got from above."""
        with thread_map(n_jobs if any(map(is_large, keys)) else 1) as run:
            yield from run(lambda key: solve(key, from_above(key)), keys)

    return solve_order


def keys_below(key: Key) -> list[Key]:
    """Return the key without each of its features in turn: (2, 5), (0, 5) and (0, 2) for (0, 2, 5)."""
    return [key[:i] + key[i + 1 :] for i in range(len(key))]


def with_subsets(keys: Iterable[Key]) -> list[Key]:
    """Return keys and all their non-empty subsets, highest order first, sorted within an order."""
    waiting, closed = set(keys), set[Key]()
    while waiting:
        closed |= waiting
        waiting = {below for key in waiting for below in keys_below(key) if below} - closed
    return sorted(closed - {()}, key=lambda key: (-len(key), key))


_MAX_CELLS = 1 << 12  # of a pair: for larger ones the work takes longer than the calls
_STACK_CELLS = 1 << 17


class PureTerm(NamedTuple):
    values: Floats
    certificate: TermCertificate
    projections: Projections
    trace: Floats | None = None  # impurity after each iteration, if asked for


def purify_product_pairs(
    terms: Mapping[Key, Floats], weights_of: Callable[[Key], Floats], scales: Floats, least_weight: float
) -> dict[Key, PureTerm]:
    """Return, purified in stacks, the small pairs whose weights are products of marginals and none is tiny."""
    # Terms have outputs first; `scales` are the largest scores of outputs. A weight is tiny below `least_weight` times
    # the largest of its pair.
    pure: dict[Key, PureTerm] = {}
    for keys in _stacks_of_pairs(terms):
        values, weights = np.stack([terms[key] for key in keys]), np.stack([weights_of(key) for key in keys])
        places = np.flatnonzero(_are_products(weights, least_weight))
        pure_pairs = _purify_stack(values[places], weights[places], scales)
        pure.update(zip((keys[place] for place in places), pure_pairs, strict=True))
    return pure


def _stacks_of_pairs(terms: Mapping[Key, Floats]) -> Iterator[list[Key]]:
    """Yield lists of keys of small pairs of the same shape, as many at a time as fit into the cache."""
    by_shape: dict[tuple[int, ...], list[Key]] = {}
    for key, values in terms.items():
        if len(key) == 2 and values[0].size <= _MAX_CELLS:
            by_shape.setdefault(values.shape, []).append(key)
    for shape, keys in by_shape.items():
        n_pairs = max(1, _STACK_CELLS // math.prod(shape))
        for start in range(0, len(keys), n_pairs):
            yield keys[start : start + n_pairs]


def _are_products(weights: Floats, least_weight: float) -> Bools:
    """Return whether each pair's weights, (n_pairs, n_rows, n_columns), are products of marginals, and none is tiny."""
    rows, columns = weights.sum(axis=2), weights.sum(axis=1)
    product = rows[:, :, None] * columns[:, None, :]
    is_near = (np.abs(weights - product) <= PRODUCT_TOLERANCE * product).all(axis=(1, 2))
    # Tiny products could round to 0: all cells whose row and column have mass must have mass.
    n_with_mass = np.count_nonzero(rows, axis=1) * np.count_nonzero(columns, axis=1)
    is_whole = np.count_nonzero(weights, axis=(1, 2)) == n_with_mass
    least = least_weight * weights.max(axis=(1, 2), keepdims=True)
    return np.asarray(is_near & is_whole & ~((weights > 0) & (weights < least)).any(axis=(1, 2)))


def _purify_stack(values: Floats, weights: Floats, scales: Floats) -> Iterable[PureTerm]:
    """Yield pure pairs by one sweep, exact for products; values have shape (n_pairs, n_outputs, n_rows, n_columns)."""
    rows, columns = weights.sum(axis=2), weights.sum(axis=1)
    over_rows = _means_over_rows(values, rows)
    values = values - over_rows[:, :, None, :]
    over_columns = _means_over_columns(values, columns)
    values -= over_columns[:, :, :, None]
    impurities = _impurities(values, weights, scales)
    empty_shares = 1.0 - np.count_nonzero(weights, axis=(1, 2)) / math.prod(weights.shape[1:])
    least_error = sum(weights.shape[1:]) * EPSILON
    for place, (slice_mean, empty_share) in enumerate(zip(impurities.tolist(), empty_shares.tolist(), strict=True)):
        error = max(slice_mean, least_error)
        certificate = TermCertificate(
            slice_mean,
            max_correlation=0.0,
            n_components=1,
            empty_share=empty_share,
            method="direct",
            iterations=1,
            error=error,
        )
        yield PureTerm(values[place], certificate, [over_rows[place], over_columns[place]])


def _means_over_rows(values: Floats, masses: Floats) -> Floats:
    """Return means (n_pairs, n_outputs, n_columns) of pairs' values with masses (n_pairs, n_rows)."""
    return np.asarray(np.matmul(masses[:, None, None, :], values)[:, :, 0] / masses.sum(axis=1)[:, None, None])


def _means_over_columns(values: Floats, masses: Floats) -> Floats:  # (n_pairs, n_outputs, n_rows)
    return np.asarray(np.matmul(values, masses[:, None, :, None])[..., 0] / masses.sum(axis=1)[:, None, None])


def _impurities(values: Floats, weights: Floats, scales: Floats) -> Floats:
    """Return each pair's largest slice mean over the scale of its output; slices without mass as if independent."""
    rows, columns = weights.sum(axis=2), weights.sum(axis=1)
    weighted = values * weights[:, None]
    means = weighted.sum(axis=2) * safe_inverse(columns)[:, None]
    along_rows = np.where(columns[:, None] > 0, means, _means_over_rows(values, rows))
    means = weighted.sum(axis=3) * safe_inverse(rows)[:, None]
    along_columns = np.where(rows[:, None] > 0, means, _means_over_columns(values, columns))
    worst = np.maximum(np.abs(along_rows).max(axis=2), np.abs(along_columns).max(axis=2))
    return (worst * safe_inverse(scales)).max(axis=1) + 0.0  # never -0.0


_VANISHING = 1e-293  # marginals and rounding leave what is not negligible above this
_LEAST_EXPONENT = -1000  # of a power of two whose inverse is a number
_UNSCALED = 1e-100, 1e100  # squares of scores between these neither overflow nor vanish
_MANY_PAIRS = 100
_CELLS_FOR_THREADS = 1 << 17  # with fewer, threads wait for each other more than they gain


class Cascade(NamedTuple):
    intercept: Floats
    terms: dict[Key, Floats]
    measured: dict[Key, TermCertificate]
    trace: Floats | None


def cascade(
    terms: Mapping[Key, Floats],
    weights_of: Callable[[Key], Floats],
    options: Options,
    n_jobs: int = 1,
    progress: Progress = quiet,
    *,
    widen: Widen | None = None,
) -> Cascade:
    """Purify orders from the highest to the lowest; what is taken out of a term goes to the terms one order below."""
    # Raw terms have outputs first; their subsets become terms too. `weights_of` returns weights of cells, of sum 1. If
    # terms have their own axes, ``widen(above, below, projection)`` brings a projection of the term `above` to the axes
    # of the term `below`; it is not called for the intercept.
    scales = np.max([largest(values) for values in terms.values()], axis=0)
    units = _units(scales)
    pending = _scaled(terms, 1.0 / units)  # raw terms, to which what is taken out of the orders above is added
    keys = with_subsets(pending)
    remembered: dict[Key, Floats] = {}  # weights of pairs, which are asked for twice and computed once

    def remembered_weights(key: Key) -> Floats:
        return remembered.setdefault(key, weights_of(key))

    at_once: dict[Key, PureTerm] = {}  # small pairs of independent features, if they receive nothing from above
    is_auto, n_pairs = options.method in {AUTO, Product.method}, sum(len(key) == 2 for key in pending)
    if is_auto and n_pairs >= _MANY_PAIRS and max(map(len, pending)) <= 2:
        at_once = purify_product_pairs(pending, remembered_weights, scales / units, _VANISHING)

    def purify_one(key: Key, term: Floats) -> tuple[PureTerm, Projections]:
        """Return a term purified and measured, and the projections that were taken out of it."""
        weights = remembered.pop(key) if key in remembered else weights_of(key)
        if key in at_once:  # purified already, with other small pairs
            values, certificate, projections, _ = at_once.pop(key)
            return PureTerm(values, certificate, []), projections  # passed on to the terms below, not kept
        weights = cut_weights(weights)
        solution, values = solve(term, weights, options), term.copy()
        take_out(values, solution.projections)
        certificate = measure(values, weights, scales / units, solution)
        if solution.trace is not None:
            certificate = dataclasses.replace(certificate, trace=tuple((solution.trace @ units).tolist()))
        return PureTerm(values, certificate, [], solution.trace), solution.projections

    def is_large(key: Key) -> bool:  # so that threads pay
        return pending[key].size >= _CELLS_FOR_THREADS

    # A generator of all terms; each stage of the progress takes as many as its order has.
    steps = descend(keys, in_turn(purify_one, n_jobs=n_jobs, is_large=is_large), pending, widen=widen)
    pure: dict[Key, PureTerm] = {}
    for order, n_terms in sorted(collections.Counter(map(len, keys)).items(), reverse=True):
        pure.update(counted(progress, f"purifying order {order}", itertools.islice(steps, n_terms), n_terms))
    return _unscaled(pure, pending.get((), np.zeros(len(scales))), units)


def _units(scales: Floats) -> Floats:
    """Return, per output, 1, or a power of two near its largest score (`scales`) if squares overflow or vanish."""
    is_extreme = (scales > 0) & ((scales < _UNSCALED[0]) | (scales > _UNSCALED[1]))
    exponents = np.maximum(np.frexp(scales)[1] - 1, _LEAST_EXPONENT)
    return np.asarray(np.where(is_extreme, np.ldexp(1.0, exponents), 1.0))


def _scaled(terms: Mapping[Key, Floats], factors: Floats) -> dict[Key, Floats]:
    """Return terms, outputs first, times one factor per output."""
    if (factors == 1.0).all():
        return dict(terms)
    return {key: values * factors.reshape(-1, *[1] * len(key)) for key, values in terms.items()}


def _unscaled(pure: Mapping[Key, PureTerm], intercept: Floats, units: Floats) -> Cascade:
    """Return the result of a cascade in the units of the scores; raise NotPureError if some values are not finite."""
    terms = {key: term.values for key, term in pure.items()}
    trace = next(iter(pure.values())).trace  # of the first term, which has the highest order
    bad = [key for key, values in terms.items() if not np.isfinite(largest(values)).all()]  # lowest order last
    if bad or not np.isfinite(intercept * units).all():
        raise NotPureError(
            f"scores and weights must allow finite pure terms, got NaN or infinity in term {bad[-1] if bad else ()}; "
            "check them for infinities, or use a density with fewer extremes, such as 'laplace' or 'independent'."
        )
    measured = _with_errors_of_higher_orders({key: term.certificate for key, term in pure.items()})
    return Cascade(intercept * units, _scaled(terms, units), measured, None if trace is None else trace * units)


def _with_errors_of_higher_orders(measured: Mapping[Key, TermCertificate]) -> dict[Key, TermCertificate]:
    """Add to each term's certificate the errors of the terms that passed projections to it; highest order first."""
    inherited: dict[Key, float] = {}
    complete = {}
    for key, certificate in measured.items():
        error = (certificate.error or 0.0) + inherited.get(key, 0.0)
        complete[key] = dataclasses.replace(certificate, error=error)
        for below in keys_below(key):
            inherited[below] = inherited.get(below, 0.0) + error
    return complete


def cut_weights(weights: Floats) -> Floats:
    """Return weights with zeros for those whose products with others would underflow."""
    is_negligible = weights < _VANISHING * weights.max()
    is_negligible &= weights > 0
    return np.where(is_negligible, 0.0, weights) if is_negligible.any() else weights


def measure(pure: Floats, weights: Floats, scales: Floats, solution: Solution) -> TermCertificate:
    """Return the certificate of one pure term, outputs first; `scales` are the largest scores of the outputs."""
    bin_masses = marginals(weights)
    is_complete = all(masses.all() for masses in bin_masses)
    bins_with_mass = weights if is_complete else weights[np.ix_(*(masses > 0 for masses in bin_masses))]
    n_components = bin_components(bins_with_mass)[0]
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
