"""purify(scores, weights): a tensor into its intercept, pure main effects and pure interactions."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import scipy.sparse

from treeanova.anova.certificate import Certificate, TermCertificate, impurity
from treeanova.anova.convention import extend_to_unseen, tie_support
from treeanova.anova.elimination import FEW_CELLS, eliminated_faces, is_affordable
from treeanova.anova.slices import (
    largest,
    marginal,
    marginals,
    safe_inverse,
    spread,
    sweep_product,
    take_out,
    zero_faces,
)
from treeanova.anova.solvers import Solution, move_mass, solve_cg, solve_direct
from treeanova.anova.support import bin_components, face_correlation, is_product
from treeanova.core.arrays import Faces, Floats
from treeanova.core.labels import label_of
from treeanova.core.progress import Progress, quiet
from treeanova.errors import NotPureError, NotPureWarning

Method = Literal["auto", "direct", "cg", "mass-moving"]
Axes = tuple[int, ...]
Widen = Callable[[Axes, Axes, Floats], Floats]

_DIRECT_BINS = 3_000
_NEGLIGIBLE = 1e-290
_VANISHING = 1e-293  # marginals and rounding leave what is not negligible above this
_LARGEST_SCORE = 1e300
_LEAST_EXPONENT = -1000  # of a power of two whose inverse is a number
_UNSCALED = 1e-100, 1e100  # squares of scores between these neither overflow nor vanish
_MAX_ITERATIONS = 10_000
_ACCURATE = 1e-11
_SAFETY = 10.0  # between what is left of one random probe and the error of any other function
_EPSILON = float(np.finfo(float).eps)
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
        Weights below 1e-290 of the largest count as zero.
    method
        "direct" solves pairs, small tensors and product weights of any order exactly, however uneven the weights;
        "cg" is for any order and for very many bins; "mass-moving" is the paper's algorithm, which may need thousands
        of sweeps; "auto" chooses as `choose_method` says.
    tol
        Largest slice mean allowed, relative to the largest absolute score. "mass-moving" stops there; "direct"
        goes to rounding, "cg" to about 1e-12. The certificate is met where every term also has an error of at most
        1,000 times as much.
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
    if not certificate.tables_met:
        report_impurity(certificate, strict=strict)
    return _shaped(result, certificate, has_outputs=has_outputs)


def choose_method(weights: npt.ArrayLike) -> MethodChoice:
    """The method that "auto" takes for these weights, and why.

    ==============================================  ========
    weights                                         method
    ==============================================  ========
    one axis, or a product of marginals             "direct" (one sweep of means is exact)
    two axes, the shorter of at most 3,000 bins     "direct" (Cholesky factor over its bins, or star-mesh elimination)
    three axes or more, at most 256 cells           "direct" (elimination over the heaviest cells)
    two longer axes, or more cells                  "cg" (elimination where that is not accurate and cells are few)
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
    if len(sizes) > 2 and math.prod(sizes) <= FEW_CELLS:
        return MethodChoice("direct", f"order {len(sizes)} with at most {FEW_CELLS} cells")
    if len(sizes) > 2:
        return MethodChoice("cg", f"order {len(sizes)} with over {FEW_CELLS} cells: a factor would be too large")
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
    *,
    widen: Widen | None = None,
) -> Cascade:
    """Purify orders from the highest to the lowest; what is taken out of a term goes to the terms one order below.

    Terms have the outputs first; `table` gives the weights of a set of axes, of sum 1. Terms of one order are
    independent of each other, so large ones are solved in `n_jobs` threads. Where terms have axes of their own,
    `widen(above, below, face)` brings a face of the term `above` to the axes of the term `below`; by default both
    share their axes.
    """
    n_outputs = len(next(iter(terms.values())))
    scales = np.max([largest(values) for values in terms.values()], axis=0)
    units = _units(scales)
    pending = _scaled(terms, 1.0 / units)
    scales = scales / units
    pure: dict[Axes, Floats] = {}
    measured: dict[Axes, TermCertificate] = {}
    inherited: dict[Axes, float] = {}
    top = max(len(axes) for axes in pending)
    trace = None
    with ThreadPoolExecutor(n_jobs) as pool:
        for order in range(top, 0, -1):
            keys = sorted(axes for axes in pending if len(axes) == order)
            is_large = any(pending[axes].size >= _CELLS_FOR_THREADS for axes in keys)
            in_turn = pool.map if is_large else map
            solved = in_turn(lambda axes: _purify_term(pending[axes], cut_weights(table(axes)), scales, options), keys)
            for done, (axes, (values, solution, certificate)) in enumerate(zip(keys, solved, strict=True), start=1):
                progress(f"purifying order {order}", done, len(keys))
                error = (certificate.error or 0.0) + inherited.get(axes, 0.0)
                pure[axes], measured[axes] = values, dataclasses.replace(certificate, error=error)
                trace = solution.trace if order == top else trace
                for axis, face in zip(axes, solution.faces, strict=True):
                    below = tuple(a for a in axes if a != axis)
                    inherited[below] = inherited.get(below, 0.0) + error
                    received = widen(axes, below, face) if widen is not None and below else face
                    pending[below] = pending[below] + received if below in pending else received
    intercept = pending.get((), np.zeros(n_outputs)) * units
    _check_finite(intercept, pure)
    return Cascade(intercept, _scaled(pure, units), measured, None if trace is None else trace * units)


def _units(scales: Floats) -> Floats:
    """Powers of two near the largest score of each output where squares would overflow or vanish; 1 elsewhere."""
    is_extreme = (scales > 0) & ((scales < _UNSCALED[0]) | (scales > _UNSCALED[1]))
    exponents = np.maximum(np.frexp(scales)[1] - 1, _LEAST_EXPONENT)
    units: Floats = np.where(is_extreme, np.ldexp(1.0, exponents), 1.0)
    return units


def _scaled(terms: Mapping[Axes, Floats], factors: Floats) -> dict[Axes, Floats]:
    """Terms with each output multiplied by a factor."""
    if (factors == 1.0).all():
        return dict(terms)
    return {axes: values * factors.reshape(-1, *[1] * len(axes)) for axes, values in terms.items()}


def cut_weights(weights: Floats) -> Floats:
    """Weights of sum 1 without those so small that products with others would vanish, which count as zero."""
    negligible = weights < _VANISHING * weights.max()
    negligible &= weights > 0
    return np.where(negligible, 0.0, weights) if negligible.any() else weights


def _check_finite(intercept: Floats, pure: Mapping[Axes, Floats]) -> None:
    """Raise where a term holds NaN or infinity: no such number leaves purification."""
    bad = [axes for axes, values in pure.items() if not np.isfinite(largest(values)).all()]
    if bad or not np.isfinite(intercept).all():
        raise NotPureError(
            f"scores and weights must allow finite pure terms, got NaN or infinity in term {bad[-1] if bad else ()}; "
            "check them for infinities, or use a density with fewer extremes, such as 'laplace' or 'independent'."
        )


def _purify_term(
    term: Floats, weights: Floats, scales: Floats, options: Options
) -> tuple[Floats, Solution, TermCertificate]:
    method, solution = _solve(term, weights, options)
    pure = term.copy()
    take_out(pure, solution.faces)
    return pure, solution, measure(pure, weights, scales, solution.method or method, solution)


def _solve(term: Floats, weights: Floats, options: Options) -> tuple[str, Solution]:
    """The faces to take out of a term, by the convention wherever there is no mass, and the method used."""
    method = _choose(weights).method if options.method == "auto" else options.method
    if method == "direct" and is_product(weights):
        faces = sweep_product(term.copy(), marginals(weights))
        return method, Solution(faces, iterations=1, correlation=0.0, error=0.0)
    if weights.ndim > 2 and method == "direct":
        return method, _eliminated(term, weights)
    if weights.ndim > 2 and method == "cg":
        return method, _probed(term, weights, options)
    return method, _solve_by_convention(term, weights, method, options)


def _eliminated(term: Floats, weights: Floats) -> Solution:
    """The faces of a small tensor by elimination, exact whatever the weights."""
    if not is_affordable(weights.shape):
        raise ValueError(
            f"`method` must be 'cg' or 'mass-moving' for weights of order {weights.ndim} with {weights.size:,} cells "
            "that are not a product of marginals, got 'direct'; leave it out to let treeanova choose."
        )
    probe, faces = _split(eliminated_faces(np.concatenate([term, _probe(weights.shape)]), weights))
    error = max(_left_of_probe(weights.shape, probe), 8 * weights.size * _EPSILON)
    return Solution(faces, 1, face_correlation(weights), error=error, method="elimination")


def _probed(term: Floats, weights: Floats, options: Options) -> Solution:
    """The faces by conjugate gradients, with their error measured; by elimination where that is large."""
    with_probe = np.concatenate([term, _probe(weights.shape)])
    solution = _solve_by_convention(with_probe, weights, "cg", options)
    probe, faces = _split(solution.faces)
    error = _left_of_probe(weights.shape, probe)
    if error > _ACCURATE and options.method == "auto" and is_affordable(weights.shape):
        return _eliminated(term, weights)
    return dataclasses.replace(solution, faces=faces, error=_SAFETY * error)


def _probe(shape: tuple[int, ...]) -> Floats:
    """A random sum of functions of fewer axes, with the outputs first: nothing of it may be left by a solver.

    What is left shows errors in directions that weights tie so weakly that slice means do not see them.
    """
    rng = np.random.default_rng(len(shape))
    values = np.zeros((1, *shape))
    for axis in range(len(shape)):
        values += spread(rng.standard_normal((1, *shape[:axis], *shape[axis + 1 :])), axis)
    return values / largest(values)


def _split(faces: Faces) -> tuple[Faces, Faces]:
    """Faces of the last output, the probe, and of all others."""
    return [face[-1:] for face in faces], [face[:-1] for face in faces]


def _left_of_probe(shape: tuple[int, ...], faces: Faces) -> float:
    rest = _probe(shape)
    take_out(rest, faces)
    return float(largest(rest)[0])


def _solve_by_convention(term: Floats, weights: Floats, method: str, options: Options) -> Solution:
    """The faces by a solver for bins with mass, then for bins and slices without."""
    bin_masses = marginals(weights)
    if all(masses.all() for masses in bin_masses):
        return _solve_seen(term, weights, method, options)
    seen = [np.flatnonzero(masses) for masses in bin_masses]
    outputs = np.arange(len(term))
    solution = _solve_seen(term[np.ix_(outputs, *seen)], weights[np.ix_(*seen)], method, options)
    faces = zero_faces(term)
    for axis, face in enumerate(faces):
        face[np.ix_(outputs, *seen[:axis], *seen[axis + 1 :])] = solution.faces[axis]
    extend_to_unseen(term, faces, bin_masses)
    return dataclasses.replace(solution, faces=faces)


def _solve_seen(term: Floats, weights: Floats, method: str, options: Options) -> Solution:
    """The faces to take out of a term whose every bin has mass."""
    if method == "direct":
        solution = solve_direct(term, weights)
    elif method == "cg":
        solution = solve_cg(term.copy(), weights, options.max_iterations)
    else:
        solution = move_mass(term.copy(), weights, options.tol, options.max_iterations)
    tie_support(term, solution.faces, weights)
    return solution


def measure(pure: Floats, weights: Floats, scales: Floats, method: str, solution: Solution) -> TermCertificate:
    """The certificate of a term as it is."""
    bin_masses = marginals(weights)
    complete = all(masses.all() for masses in bin_masses)
    seen = weights if complete else weights[np.ix_(*(masses > 0 for masses in bin_masses))]
    found = TermCertificate(
        impurity=impurity(pure, weights, scales),
        max_correlation=solution.correlation,
        n_components=bin_components(seen)[0],
        empty_share=1.0 - np.count_nonzero(weights) / weights.size,
        method=method,
        iterations=solution.iterations,
        error=solution.error,
    )
    return dataclasses.replace(found, error=max(found.error or 0.0, sum(weights.shape) * _EPSILON))


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
    axes, worst = max(certificate.terms.items(), key=lambda item: _badness(item[1], certificate.tol))
    message = (
        f"term {label_of(axes)} has slice means up to {worst.impurity:.1e} and an error of up to {worst.error:.1e}, "
        f"relative to the largest score, with tol = {certificate.tol:.1e}, after {worst.iterations:,} iterations of "
        f"{worst.method!r}; its maximal correlation is {worst.max_correlation:.6g}"
    )
    if worst.method == "mass-moving":
        remedy = 'a sweep removes little at such a correlation: use method="auto", or raise max_iterations'
    else:
        remedy = (
            "its features determine each other almost exactly: drop one of them from the model, or use a density that "
            "spreads its mass more widely, such as 'laplace' or 'independent'"
        )
    if strict:
        raise NotPureError(f"{message}; {remedy}.")
    warnings.warn(f"{message}; {remedy}.", NotPureWarning, stacklevel=3)


def _badness(term: TermCertificate, tol: float) -> float:
    """How far a term is from what is asked; NaN is farthest."""
    found = max(term.impurity / tol, (term.error or 0.0) / (1e3 * tol))
    return found if found == found else np.inf  # noqa: PLR0124 - NaN


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
