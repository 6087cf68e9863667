"""purify(scores, weights): a tensor into its intercept, pure main effects and pure interactions."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import scipy.sparse

from treeanova.certificate import Certificate, TermCertificate, impurity
from treeanova.convention import extend_to_unseen, tie_support
from treeanova.errors import NotPureError, NotPureWarning
from treeanova.progress import Progress, quiet
from treeanova.slices import Floats, largest, marginal, marginals, safe_inverse, sweep_product, take_out, zero_faces
from treeanova.solvers import Solution, move_mass, solve_cg, solve_direct
from treeanova.support import bin_components, is_product

Method = Literal["auto", "direct", "cg", "mass-moving"]
Axes = tuple[int, ...]

_DIRECT_BINS = 3_000
_NEGLIGIBLE = 1e-60
_LARGEST_SCORE = 1e300
_MAX_ITERATIONS = 10_000
_CELLS_FOR_THREADS = 1 << 17  # with fewer, threads wait for each other more than they gain


class MethodChoice(NamedTuple):
    """A method and why it was chosen."""

    method: Literal["direct", "cg"]
    reason: str


@dataclasses.dataclass(frozen=True)
class Purified:
    """Pure terms of a tensor.

    Attributes
    ----------
    intercept
        A float; an array of shape ``(n_outputs,)`` when the scores had an axis of outputs.
    terms
        Every non-empty subset of the axes, as a sorted tuple, with its tensor (and a last axis of outputs, if any).
    certificate
        What was measured: purity, correlation, components, cells without mass, iterations, reconstruction.
    trace
        With ``method="mass-moving"``: M^t of the highest order before the first pass and after each pass over an axis,
        the unpurified mass of the paper; otherwise None.
    """

    intercept: float | Floats
    terms: Mapping[Axes, Floats]
    certificate: Certificate
    trace: Floats | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", MappingProxyType(dict(self.terms)))
        for array in (*self.terms.values(), self.intercept, self.trace):
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy has no pickle of its own.
        return Purified, (
            self.intercept,
            dict(self.terms),
            self.certificate,
            self.trace,
        )

    def reconstruct(self) -> Floats:
        """Sum of all terms and the intercept: the scores, to rounding."""
        order = max(len(axes) for axes in self.terms)
        total = np.zeros(self.terms[tuple(range(order))].shape) + self.intercept
        for axes, values in self.terms.items():
            total += np.expand_dims(values, tuple(axis for axis in range(order) if axis not in axes))
        return total

    def __repr__(self) -> str:
        certificate = self.certificate
        order = max(len(axes) for axes in self.terms)
        shape = " × ".join(str(size) for size in self.terms[tuple(range(order))].shape[:order])
        return (
            f"Purified({len(self.terms)} terms of {shape} cells, impurity {certificate.impurity:.1e}, "
            f"max correlation {certificate.max_correlation:.4g}, components {certificate.n_components})"
        )


def purify(
    scores: npt.ArrayLike,
    weights: npt.ArrayLike,
    *,
    method: Method = "auto",
    tol: float = 1e-10,
    max_iterations: int | None = None,
    strict: bool = False,
) -> Purified:
    """Pure terms of a tensor under weights: every slice of every term has weighted mean zero, and they add up to it.

    The functional ANOVA of a piecewise constant function: unique for the weights given. Where these leave something
    open (bins and slices without mass, a support in several parts), the answer is the limit ε → 0⁺ of mixing in ε of
    the product of marginals, whatever the method and the order of axes or bins.

    Parameters
    ----------
    scores
        Real numbers, one per cell; one more, last axis may hold outputs, which are purified each on its own.
    weights
        Non-negative numbers, one per cell (an array, or a scipy.sparse matrix for pairs); they need not sum to one.
        Weights below 1e-60 of the largest count as zero.
    method
        "direct" solves pairs, and product weights of any order, exactly; "cg" is for any order and for very many bins;
        "mass-moving" is the paper's algorithm, which may need thousands of sweeps; "auto" chooses as `choose_method`
        says.
    tol
        Largest slice mean allowed, relative to the largest absolute score. "mass-moving" stops there; "direct"
        goes to rounding, "cg" to about 1e-12.
    max_iterations
        Most iterations of "cg" or sweeps of "mass-moving" for one term; 10,000 by default.
    strict
        Whether to raise NotPureError, not just warn, when the tolerance was not met.

    Examples
    --------
    AND of two fair coins is XOR plus main effects:

    >>> import treeanova
    >>> pure = treeanova.purify([[0, 0], [0, 1]], [[1, 1], [1, 1]])
    >>> pure.intercept
    0.25
    >>> pure.terms[0,].tolist(), pure.terms[0, 1].tolist()
    ([-0.25, 0.25], [[0.25, -0.25], [-0.25, 0.25]])
    """
    cell_weights = _checked_weights(weights)
    values, has_outputs = _checked_scores(scores, cell_weights.shape)
    _check_options(method, tol, max_iterations)
    options = Options(method, float(tol), int(max_iterations or _MAX_ITERATIONS))
    everything = tuple(range(cell_weights.ndim))
    result = cascade({everything: values}, lambda axes: marginal(cell_weights, axes), options)
    certificate = Certificate(result.measured, _reconstruction_error(values, result), options.tol)
    if not certificate.met:
        report_impurity(certificate, strict=strict)
    return _shaped(result, certificate, has_outputs=has_outputs)


def choose_method(weights: npt.ArrayLike) -> MethodChoice:
    """The method that "auto" takes for these weights, and why.

    ==============================================  ========
    weights                                         method
    ==============================================  ========
    one axis, or a product of marginals             "direct" (one sweep of means is exact)
    two axes, the shorter of at most 3,000 bins     "direct" (Cholesky factor over its bins)
    two longer axes, or three and more              "cg"
    ==============================================  ========

    Examples
    --------
    >>> choose_method([[1, 0], [0, 1]]).method
    'direct'
    """
    return _choose(_checked_weights(weights))


def _choose(weights: Floats) -> MethodChoice:
    if weights.ndim > 1 and is_product(weights):
        return MethodChoice("direct", "the weights are a product of marginals: one sweep of means is exact")
    return method_for(weights.shape)


def method_for(sizes: Sequence[int]) -> MethodChoice:
    """The method that "auto" takes for a tensor of this shape when nothing is known of the weights."""
    if len(sizes) == 1:
        return MethodChoice("direct", "one axis: its mean is all there is to move")
    if len(sizes) > 2:
        return MethodChoice("cg", f"order {len(sizes)}: a factor would be too large")
    if min(sizes) <= _DIRECT_BINS:
        return MethodChoice("direct", f"a pair whose shorter axis has {min(sizes):,} bins, at most {_DIRECT_BINS:,}")
    return MethodChoice("cg", f"a pair whose shorter axis has {min(sizes):,} bins, over {_DIRECT_BINS:,}")


class Options(NamedTuple):
    """How to purify: method, tolerance, most iterations."""

    method: Method = "auto"
    tol: float = 1e-10
    max_iterations: int = 10_000


class Cascade(NamedTuple):
    """Pure terms of all orders with the outputs first, what was measured on each, and the trace of the highest."""

    intercept: Floats
    terms: dict[Axes, Floats]
    measured: dict[Axes, TermCertificate]
    trace: Floats | None


def cascade(
    terms: Mapping[Axes, Floats],
    table: Callable[[Axes], Floats],
    options: Options,
    n_jobs: int = 1,
    progress: Progress = quiet,
) -> Cascade:
    """Purify orders from the highest to the lowest; what is taken out of a term goes to the terms one order below.

    Terms have the outputs first; `table` gives the weights of a set of axes, of sum 1. Terms of one order are
    independent of each other, so large ones are solved in `n_jobs` threads.
    """
    pending = dict(terms)
    n_outputs = len(next(iter(pending.values())))
    scales = np.max([largest(values) for values in pending.values()], axis=0)
    pure: dict[Axes, Floats] = {}
    measured: dict[Axes, TermCertificate] = {}
    top = max(len(axes) for axes in pending)
    trace = None
    with ThreadPoolExecutor(n_jobs) as pool:
        for order in range(top, 0, -1):
            keys = sorted(axes for axes in pending if len(axes) == order)
            is_large = any(pending[axes].size >= _CELLS_FOR_THREADS for axes in keys)
            in_turn = pool.map if is_large else map
            solved = in_turn(lambda axes: _purify_term(pending[axes], table(axes), scales, options), keys)
            for done, (axes, (values, solution, certificate)) in enumerate(zip(keys, solved, strict=True), start=1):
                progress(f"purifying order {order}", done, len(keys))
                pure[axes], measured[axes] = values, certificate
                trace = solution.trace if order == top else trace
                for axis, face in zip(axes, solution.faces, strict=True):
                    below = tuple(a for a in axes if a != axis)
                    pending[below] = pending[below] + face if below in pending else face
    return Cascade(pending.get((), np.zeros(n_outputs)), pure, measured, trace)


def _purify_term(
    term: Floats, weights: Floats, scales: Floats, options: Options
) -> tuple[Floats, Solution, TermCertificate]:
    method, solution = _solve(term, weights, options)
    pure = term.copy()
    take_out(pure, solution.faces)
    return pure, solution, measure(pure, weights, scales, method, solution)


def _solve(term: Floats, weights: Floats, options: Options) -> tuple[str, Solution]:
    """The faces to take out of a term, by the convention wherever there is no mass, and the method used."""
    method = _choose(weights).method if options.method == "auto" else options.method
    bin_masses = marginals(weights)
    if method == "direct" and is_product(weights):
        return method, Solution(sweep_product(term.copy(), bin_masses), iterations=1, correlation=0.0)
    if all(masses.all() for masses in bin_masses):
        return method, _solve_seen(term, weights, method, options)
    seen = [np.flatnonzero(masses) for masses in bin_masses]
    outputs = np.arange(len(term))
    solution = _solve_seen(term[np.ix_(outputs, *seen)], weights[np.ix_(*seen)], method, options)
    faces = zero_faces(term)
    for axis, face in enumerate(faces):
        face[np.ix_(outputs, *seen[:axis], *seen[axis + 1 :])] = solution.faces[axis]
    extend_to_unseen(term, faces, bin_masses)
    return method, dataclasses.replace(solution, faces=faces)


def _solve_seen(term: Floats, weights: Floats, method: str, options: Options) -> Solution:
    """The faces to take out of a term whose every bin has mass."""
    core = term.copy()
    if method == "direct" and weights.ndim > 2:
        raise ValueError(
            f"`method` must be 'cg' or 'mass-moving' for weights of order {weights.ndim} that are not a product of "
            "marginals, got 'direct'; leave it out to let treeanova choose."
        )
    if method == "direct":
        solution = solve_direct(core, weights)
    elif method == "cg":
        solution = solve_cg(core, weights, options.max_iterations)
    else:
        solution = move_mass(core, weights, options.tol, options.max_iterations)
    del core
    tie_support(term, solution.faces, weights)
    return solution


def measure(pure: Floats, weights: Floats, scales: Floats, method: str, solution: Solution) -> TermCertificate:
    """The certificate of a term as it is."""
    bin_masses = marginals(weights)
    complete = all(masses.all() for masses in bin_masses)
    seen = weights if complete else weights[np.ix_(*(masses > 0 for masses in bin_masses))]
    return TermCertificate(
        impurity=impurity(pure, weights, scales),
        max_correlation=solution.correlation,
        n_components=bin_components(seen)[0],
        empty_share=1.0 - np.count_nonzero(weights) / weights.size,
        method=method,
        iterations=solution.iterations,
    )


def _reconstruction_error(values: Floats, result: Cascade) -> float:
    order = values.ndim - 1
    rest = values - result.intercept.reshape(-1, *[1] * order)
    for axes, term in result.terms.items():
        rest -= np.expand_dims(term, tuple(axis + 1 for axis in range(order) if axis not in axes))
    return float((largest(rest) * safe_inverse(largest(values))).max())


def _shaped(result: Cascade, certificate: Certificate, *, has_outputs: bool) -> Purified:
    """Outputs moved to the last axis, or dropped where the scores had none."""

    def shape(array: Floats) -> Floats:
        return np.ascontiguousarray(np.moveaxis(array, 0, -1)) if has_outputs else array[0]

    intercept = result.intercept.copy() if has_outputs else float(result.intercept[0])
    trace = result.trace
    if trace is not None and not has_outputs:
        trace = trace[:, 0]
    terms = {axes: shape(result.terms[axes]) for axes in sorted(result.terms, key=lambda axes: (len(axes), axes))}
    return Purified(intercept, terms, certificate, trace)


def report_impurity(certificate: Certificate, *, strict: bool) -> None:
    """Say which term missed the tolerance, why, and what helps."""
    axes, worst = max(certificate.terms.items(), key=lambda item: item[1].impurity)
    message = (
        f"term {axes} has a slice mean of {worst.impurity:.1e} relative to the largest score, above tol = "
        f"{certificate.tol:.1e}, after {worst.iterations:,} iterations of {worst.method!r}; its maximal correlation is "
        f"{worst.max_correlation:.6g}"
    )
    if worst.method == "mass-moving":
        remedy = 'a sweep removes little at such a correlation: use method="auto", or raise max_iterations'
    elif worst.method == "cg":
        remedy = "raise max_iterations or tol"
    else:
        remedy = "the support all but falls apart: raise tol, or smooth the weights"
    if strict:
        raise NotPureError(f"{message}; {remedy}.")
    warnings.warn(f"{message}; {remedy}.", NotPureWarning, stacklevel=3)


def _real_array(name: str, value: object) -> Floats:
    """A new float64 array, or an error that names the argument."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"`{name}` must not be a masked array, got one; fill it first.")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"`{name}` must be a rectangular array, got rows of different lengths; pad it first."
        ) from error
    if array.dtype.kind not in "biuf":
        raise TypeError(f"`{name}` must hold real numbers, got dtype {array.dtype}; convert it to float first.")
    return array.astype(np.float64, order="C")


def _checked_weights(weights: Any) -> Floats:
    """Weights as a new array of sum 1, negligible ones set to zero."""
    array = _real_array("weights", weights.toarray() if scipy.sparse.issparse(weights) else weights)
    if array.ndim == 0:
        raise ValueError("`weights` must have at least one axis, got a single number; pass an array over the cells.")
    if array.size == 0:
        raise ValueError(
            f"`weights` must have at least one bin on each axis, got shape {array.shape}; drop the empty axis."
        )
    if not np.isfinite(array).all():
        raise ValueError("`weights` must be finite, got NaN or infinity; use 0 for cells without data.")
    if array.min() < 0:
        raise ValueError(f"`weights` must not be negative, got {array.min():g}; clip them at 0.")
    if array.max() == 0:
        raise ValueError("`weights` must have some mass, got zeros only; use equal weights if there are no data.")
    array /= array.max()
    array[array < _NEGLIGIBLE] = 0.0
    array /= array.sum()
    return array


def _checked_scores(scores: object, cells: tuple[int, ...]) -> tuple[Floats, bool]:
    """Scores as a new array with the outputs first, and whether they had an axis of outputs."""
    array = _real_array("scores", scores)
    has_outputs = array.ndim == len(cells) + 1
    if array.shape[: len(cells)] != cells or array.ndim > len(cells) + 1 or array.size == 0:
        raise ValueError(
            f"`scores` must have the shape of `weights`, {cells}, or one more axis for outputs, got {array.shape}; "
            "give both over the same cells."
        )
    if not (np.abs(array) < _LARGEST_SCORE).all():
        raise ValueError(
            f"`scores` must be finite and below {_LARGEST_SCORE:g}, got NaN, infinity or more; mend these cells."
        )
    outputs_first = np.moveaxis(array, -1, 0) if has_outputs else array[None]
    return np.ascontiguousarray(outputs_first), has_outputs


def check_method(method: object) -> None:
    """Raise for a method that there is not."""
    if method not in get_args(Method):
        names = ", ".join(repr(name) for name in get_args(Method))
        raise ValueError(f"`method` must be one of {names}, got {method!r}; leave it out to let treeanova choose.")


def _check_options(method: object, tol: object, max_iterations: object) -> None:
    check_method(method)
    if not isinstance(tol, Real) or not 0.0 < float(tol) < np.inf:
        raise ValueError(f"`tol` must be a positive number, got {tol!r}; the default is 1e-10.")
    if max_iterations is not None and (not isinstance(max_iterations, Integral) or int(max_iterations) < 1):
        raise ValueError(
            f"`max_iterations` must be a positive integer, got {max_iterations!r}; leave it out for 10,000."
        )
