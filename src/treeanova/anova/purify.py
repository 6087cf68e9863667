"""purify(scores, weights): the pure terms of one tensor, after checks of what users give."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from treeanova.anova.cascade import Cascade, cascade
from treeanova.anova.certificate import Certificate
from treeanova.anova.solvers import check_method, method_for, remedy_for
from treeanova.anova.solvers.base import AUTO, MethodChoice, Options
from treeanova.anova.support import largest, marginal, safe_inverse
from treeanova.core.arrays import Floats, Key, label_of
from treeanova.errors import NotPureError, NotPureWarning

_NEGLIGIBLE = 1e-290
_LARGEST_SCORE = 1e300
_DEFAULT_ITERATIONS = 10_000


def checked_weights(weights: Any) -> Floats:
    """Return a user's weights as a new array of sum 1, negligible ones set to zero; raise for bad ones."""
    array = _real_array("weights", weights.toarray() if scipy.sparse.issparse(weights) else weights)
    if array.ndim == 0:
        raise ValueError(f"`weights` must have at least one axis, got the number {array}; pass an array over cells.")
    if array.size == 0:
        raise ValueError(
            f"`weights` must have at least one bin on each axis, got shape {array.shape}; drop the empty axis."
        )
    if not np.isfinite(array).all():
        bad = array[~np.isfinite(array)][0]
        raise ValueError(f"`weights` must be finite, got {bad}; use 0 for cells without data.")
    if array.min() < 0:
        raise ValueError(f"`weights` must not be negative, got {array.min():g}; clip them at 0.")
    if array.max() == 0:
        raise ValueError("`weights` must have some mass, got zeros only; use equal weights if there are no data.")
    array /= array.max()
    array[array < _NEGLIGIBLE] = 0.0
    array /= array.sum()
    return array


def checked_scores(scores: object, cells: tuple[int, ...]) -> tuple[Floats, bool]:
    """Return a user's scores as a new array with outputs first, and whether they had an axis of outputs."""
    array = _real_array("scores", scores)
    has_outputs = array.ndim == len(cells) + 1
    if array.shape[: len(cells)] != cells or array.ndim > len(cells) + 1 or array.size == 0:
        raise ValueError(
            f"`scores` must have the shape of `weights`, {cells}, or one more axis for outputs, got {array.shape}; "
            "give both over the same cells."
        )
    is_allowed = np.abs(array) < _LARGEST_SCORE
    if not is_allowed.all():
        raise ValueError(
            f"`scores` must be finite and below {_LARGEST_SCORE:g}, got {array[~is_allowed][0]}; replace these cells."
        )
    outputs_first = np.moveaxis(array, -1, 0) if has_outputs else array[None]
    return np.ascontiguousarray(outputs_first), has_outputs


def _real_array(name: str, value: object) -> Floats:  # a copy in float64; raises an error that names the argument
    if isinstance(value, np.ma.MaskedArray):
        n_masked = int(np.ma.getmaskarray(value).sum())
        raise TypeError(f"`{name}` must not be a masked array, got one with {n_masked:,} masked cells; fill it first.")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"`{name}` must be a rectangular array, got rows of different lengths; pad it first."
        ) from error
    if array.dtype.kind not in "biuf":
        raise TypeError(f"`{name}` must hold real numbers, got dtype {array.dtype}; convert it to float first.")
    return array.astype(np.float64, order="C")


def checked_options(method: str, tol: object, max_iterations: object) -> Options:  # ValueError for a bad argument
    check_method(method)
    if not isinstance(tol, Real) or not 0.0 < float(tol) < np.inf:
        raise ValueError(f"`tol` must be a positive number, got {tol!r}; the default is 1e-10.")
    if max_iterations is None:
        return Options(method, float(tol), _DEFAULT_ITERATIONS)
    if not isinstance(max_iterations, Integral) or int(max_iterations) < 1:
        raise ValueError(
            f"`max_iterations` must be a positive integer, got {max_iterations!r}; leave it out for 10,000."
        )
    return Options(method, float(tol), int(max_iterations))


@dataclasses.dataclass(frozen=True)
class Purified:
    """Pure terms of a tensor; made by `purify`. All arrays are read-only.

    Attributes
    ----------
    intercept
        A float; an array of shape ``(n_outputs,)`` if the scores had an axis of outputs.
    terms
        Every non-empty subset of the axes, as a sorted tuple, with its tensor (and a last axis of outputs, if any).
    certificate
        What was measured: purity, correlation, components, cells without mass, iterations, reconstruction.
    trace
        With ``method="mass-moving"``: M^t of the highest order, the unpurified mass of the paper, before the first pass
        and after each pass over an axis, shape ``(n_passes + 1,)`` (and a last axis of outputs, if any); else None.

    Examples
    --------
    >>> import treeanova
    >>> pure = treeanova.purify([[1, 2], [3, 4]], [[1, 1], [1, 1]])
    >>> pure.intercept
    2.5
    >>> {axes: values.tolist() for axes, values in pure.terms.items()}
    {(0,): [-1.0, 1.0], (1,): [-0.5, 0.5], (0, 1): [[0.0, 0.0], [0.0, 0.0]]}
    """

    intercept: float | Floats
    terms: Mapping[Key, Floats]
    certificate: Certificate
    trace: Floats | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", MappingProxyType(dict(self.terms)))
        for array in (*self.terms.values(), self.intercept, self.trace):
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy cannot be pickled.
        return Purified, (self.intercept, dict(self.terms), self.certificate, self.trace)

    def reconstruct(self) -> Floats:
        """Return the sum of all terms and the intercept.

        Returns
        -------
        ndarray
            The scores that were purified, to rounding; same shape.

        Examples
        --------
        >>> import treeanova
        >>> treeanova.purify([[0, 0], [0, 1]], [[1, 1], [1, 1]]).reconstruct().tolist()
        [[0.0, 0.0], [0.0, 1.0]]
        """
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
    method: str = AUTO,
    tol: float = 1e-10,
    max_iterations: int | None = None,
    strict: bool = False,
) -> Purified:
    """Split a tensor into pure terms: every slice of every term has weighted mean zero, and they add up to it.

    This is the functional ANOVA of a piecewise constant function, which is unique under positive weights. If zero
    weights leave something undetermined (bins and slices without mass, a support in several components), the result is
    the limit ε → 0⁺ of mixing the weights with a share ε of the product of their marginals. It depends neither on the
    method nor on the order of axes or bins.

    Parameters
    ----------
    scores
        Real numbers, one per cell. One more, last axis may hold outputs, which are purified independently.
    weights
        Non-negative numbers, one per cell (an array, or a scipy.sparse matrix for pairs); they need not sum to one.
        Weights below 1e-290 of the largest count as zero.
    method
        "direct" solves pairs, small tensors and product weights of any order exactly, however uneven the weights;
        "cg" (conjugate gradients) is for any order and for very many bins; "mass-moving" is the paper's algorithm,
        which may need thousands of sweeps; "auto" chooses by the table of `choose_method`.
    tol
        Largest slice mean allowed, relative to the largest absolute score. "mass-moving" stops there; "direct"
        goes to rounding, "cg" to about 1e-12. The tolerance is met if every term also has an error of at most 1,000
        times as much.
    max_iterations
        Largest number of iterations of "cg" or sweeps of "mass-moving" for one term; 10,000 by default.
    strict
        Whether to raise NotPureError, not just warn, if the tolerance is not met.

    Returns
    -------
    Purified
        The intercept, a term for every non-empty subset of the axes, and the certificate.

    Raises
    ------
    ValueError, TypeError
        If an argument is not usable, or the method cannot solve tensors of this size.
    NotPureError
        If `strict` is true and the tolerance is not met, or a pure term is not finite.

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
    cell_weights = checked_weights(weights)
    values, has_outputs = checked_scores(scores, cell_weights.shape)
    options = checked_options(method, tol, max_iterations)
    all_axes = tuple(range(cell_weights.ndim))
    result = cascade({all_axes: values}, lambda axes: marginal(cell_weights, axes), options)
    residual = values - result.intercept.reshape(-1, *[1] * len(all_axes))
    for axes, term in result.terms.items():
        missing_axes = tuple(axis + 1 for axis in all_axes if axis not in axes)  # after that of outputs
        residual -= np.expand_dims(term, missing_axes)
    error = float((largest(residual) * safe_inverse(largest(values))).max())
    certificate = Certificate(result.measured, error, options.tol)
    if not certificate.tables_are_pure:
        report_impurity(certificate, strict=strict)
    return _as_purified(result, certificate, has_outputs=has_outputs)


def choose_method(weights: npt.ArrayLike) -> MethodChoice:
    """Return the method that "auto" takes for these weights, and why.

    ==============================================  ========
    weights                                         method
    ==============================================  ========
    one axis, or a product of marginals             "direct" (one sweep of means is exact)
    two axes, the shorter of at most 3,000 bins     "direct" (Cholesky factor over its bins, or star-mesh elimination)
    three axes or more, at most 256 cells           "direct" (elimination over the heaviest cells)
    two longer axes, or more cells                  "cg" (elimination if that is not accurate and cells are few)
    ==============================================  ========

    Parameters
    ----------
    weights
        Non-negative numbers, one per cell, as `purify` takes them.

    Returns
    -------
    MethodChoice
        The name of the method and the reason, in words.

    Raises
    ------
    ValueError, TypeError
        If the weights are negative, not finite, without mass, or not real numbers.

    Examples
    --------
    >>> import treeanova
    >>> choice = treeanova.model.choose_method([[1, 0], [0, 1]])
    >>> choice.method
    'direct'
    >>> choice.reason
    'a pair whose shorter axis has 2 bins, at most 3,000'
    """
    cell_weights = checked_weights(weights)
    return method_for(cell_weights.shape, cell_weights)


def _as_purified(result: Cascade, certificate: Certificate, *, has_outputs: bool) -> Purified:
    """Return what users get of a cascade: outputs on the last axis, or without that axis if the scores had none."""

    def outputs_last(array: Floats) -> Floats:
        return np.ascontiguousarray(np.moveaxis(array, 0, -1)) if has_outputs else array[0]

    intercept = result.intercept.copy() if has_outputs else float(result.intercept[0])
    trace = result.trace
    if trace is not None and not has_outputs:
        trace = trace[:, 0]
    in_order = sorted(result.terms, key=lambda axes: (len(axes), axes))
    return Purified(intercept, {axes: outputs_last(result.terms[axes]) for axes in in_order}, certificate, trace)


def report_impurity(certificate: Certificate, *, strict: bool) -> None:
    """Warn, or raise NotPureError if strict, that a term missed the tolerance: which, why, and what helps."""
    axes, worst = certificate.least_pure
    message = (
        f"term {label_of(axes)} has slice means up to {worst.impurity:.1e} and an error of up to {worst.error:.1e}, "
        f"relative to the largest score, with tol = {certificate.tol:.1e}, after {worst.iterations:,} iterations of "
        f"{worst.method!r}; its maximal correlation is {worst.max_correlation:.6g}; {remedy_for(worst.method)}."
    )
    if strict:
        raise NotPureError(message)
    warnings.warn(message, NotPureWarning, stacklevel=3)
