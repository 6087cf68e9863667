"""Algorithms 1 and 2 as the paper writes them, for tensors of any order, with the unpurified mass after every pass."""

from __future__ import annotations

import itertools

import numpy as np

from treeanova.core.arrays import Floats, Key


def marginal(weights: Floats, key: Key) -> Floats:
    """Weights of the cells of some features."""
    table: Floats = weights.sum(axis=tuple(j for j in range(weights.ndim) if j not in key))
    return table


def mass(tensor: Floats, weights: Floats) -> float:
    """M: the absolute weighted sums of all slices along one axis, added up."""
    return float(sum(np.abs((weights * tensor).sum(axis=axis)).sum() for axis in range(tensor.ndim)))


def purify_tensor(
    tensors: dict[Key, Floats], weights: Floats, key: Key, *, tol: float, max_passes: int, is_divided: bool = True
) -> list[float]:
    """Algorithm 1: moves slice means of one tensor into those below, until M ≤ tol M⁰; M before and after each pass.

    With `is_divided` false, m is the weighted sum of a slice as printed, not its mean.
    """
    own, trace = marginal(weights, key), [mass(tensors[key], marginal(weights, key))]
    while trace[-1] > tol * trace[0] and len(trace) <= max_passes:
        for axis, feature in enumerate(key):
            m = (own * tensors[key]).sum(axis=axis, keepdims=True)
            if is_divided:
                m = m / own.sum(axis=axis, keepdims=True)
            tensors[key] = tensors[key] - m
            below = tuple(j for j in key if j != feature)
            tensors[below] = tensors[below] + m.squeeze(axis)
            trace.append(mass(tensors[key], own))
    return trace


def purify_tensors(
    tensors: dict[Key, Floats], weights: Floats, *, tol: float = 1e-14, max_passes: int = 20_000
) -> tuple[dict[Key, Floats], dict[Key, list[float]]]:
    """Algorithm 2: all tensors in order of decreasing size; the pure tensors and the trace of each."""
    pure = dict(tensors)
    keys = sorted((key for key in tensors if key), key=len, reverse=True)
    return pure, {key: purify_tensor(pure, weights, key, tol=tol, max_passes=max_passes) for key in keys}


def random_tensors(shape: tuple[int, ...], seed: int) -> dict[Key, Floats]:
    """A random tensor for every set of features."""
    rng, axes = np.random.default_rng(seed), range(len(shape))
    keys = [key for size in range(len(shape) + 1) for key in itertools.combinations(axes, size)]
    return {key: rng.normal(size=[shape[j] for j in key]) for key in keys}


def total(tensors: dict[Key, Floats], shape: tuple[int, ...]) -> Floats:
    """The function: the sum of all tensors at all cells."""
    result = np.zeros(shape)
    for key, tensor in tensors.items():
        result = result + tensor.reshape([shape[j] if j in key else 1 for j in range(len(shape))])
    return result
