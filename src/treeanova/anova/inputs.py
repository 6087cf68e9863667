"""Checks of what users give to `purify`: scores, weights, options."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse

from treeanova.anova.solvers.base import Options
from treeanova.anova.solvers.registry import check_method
from treeanova.core.arrays import Floats

_NEGLIGIBLE = 1e-290
_LARGEST_SCORE = 1e300
_DEFAULT_ITERATIONS = 10_000


def checked_weights(weights: Any) -> Floats:
    """Weights as a new array of sum 1, negligible ones set to zero."""
    array = _real_array("weights", weights.toarray() if scipy.sparse.issparse(weights) else weights)
    if array.ndim == 0:
        raise ValueError(f"`weights` must have at least one axis, got the number {array}; pass an array over cells.")
    if array.size == 0:
        raise ValueError(
            f"`weights` must have at least one bin on each axis, got shape {array.shape}; drop the empty axis."
        )
    _check_masses(array)
    array /= array.max()
    array[array < _NEGLIGIBLE] = 0.0
    array /= array.sum()
    return array


def _check_masses(array: Floats) -> None:
    if not np.isfinite(array).all():
        bad = array[~np.isfinite(array)][0]
        raise ValueError(f"`weights` must be finite, got {bad}; use 0 for cells without data.")
    if array.min() < 0:
        raise ValueError(f"`weights` must not be negative, got {array.min():g}; clip them at 0.")
    if array.max() == 0:
        raise ValueError("`weights` must have some mass, got zeros only; use equal weights if there are no data.")


def checked_scores(scores: object, cells: tuple[int, ...]) -> tuple[Floats, bool]:
    """Scores as a new array with the outputs first, and whether they had an axis of outputs."""
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


def _real_array(name: str, value: object) -> Floats:
    """A new float64 array, or an error that names the argument."""
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


def checked_options(method: str, tol: object, max_iterations: object) -> Options:
    """Options from what a user gave; None as `max_iterations` means the default."""
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
