"""Raking (iterative proportional fitting): tables scaled along their axes until they have given marginals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from treeanova.core.arrays import Floats, Key

_SWEEPS = 2_000
_SWEEP_TOLERANCE = 1e-13
_LARGEST_GAP = 1e-9
_SINKHORN_STEPS = 200
_SINKHORN_TOLERANCE = 1e-12
_SLOWEST_SHRINKING = 0.98
_LARGEST_SCALE = 1e100


def rake_to_tables(table: Floats, marginals: Mapping[Key, Floats]) -> Floats:
    """The table scaled to given marginals, each of some of its axes, of sum 1.

    Raises ValueError where that does not converge: the marginals contradict each other, or too few cells have mass.
    """
    gap = np.inf
    for _ in range(_SWEEPS):
        gap = 0.0
        for key, target in marginals.items():
            others = tuple(axis for axis in range(table.ndim) if axis not in key)
            marginal = table.sum(axis=others)
            gap = max(gap, float(np.abs(marginal - target).sum()))
            factors = np.divide(target, marginal, out=np.zeros_like(marginal), where=marginal > 0)
            table = table * np.expand_dims(factors, others)
        if gap <= _SWEEP_TOLERANCE:
            break
    if gap > _LARGEST_GAP:
        raise ValueError(
            f"`density` must give tables that raking can join, got a gap of {gap:.1e} after {_SWEEPS:,} sweeps, as "
            "between tables with many empty cells or that contradict each other; give their joint table instead."
        )
    return table


def rake_to_marginals(
    table: Floats, rows: Floats, columns: Floats, *, tolerance: float = _SINKHORN_TOLERANCE
) -> Floats:
    """A matrix with its rows and columns scaled to given sums (Sinkhorn), in place.

    Steps end when no scale changes by more than the tolerance. The rest is then distributed, so that marginals are
    exact. Every second step extrapolates the last change by the rate at which changes shrink (Aitken), which saves most
    of the steps.
    """
    before = right = np.ones(len(columns))
    for step in range(_SINKHORN_STEPS):
        left = _scales(rows, table @ right)
        after = _scales(columns, left @ table)
        if (np.abs(after - right) <= tolerance * right).all():
            right = after
            break
        extrapolates = step % 2 and step < _SINKHORN_STEPS - 1
        before, right = right, _extrapolated(before, right, after, columns) if extrapolates else after
    table *= left[:, None]
    table *= right
    return _distribute_rest(table, rows, columns)


def _extrapolated(first: Floats, second: Floats, third: Floats, masses: Floats) -> Floats:
    """The limit of the scales if their logarithms go on to change at the rate of the last two changes."""
    logs = np.log(np.maximum([first, second, third], _LARGEST_SCALE**-3))
    earlier, change = logs[1] - logs[0], logs[2] - logs[1]
    ratio = float((masses * earlier) @ change) / max(float((masses * earlier) @ earlier), 1e-300)
    if not 0.0 < ratio < _SLOWEST_SHRINKING:
        return third
    moved: Floats = third * np.exp(np.clip(ratio / (1 - ratio) * change, -1.0, 1.0))
    return np.minimum(moved, _LARGEST_SCALE)


def _distribute_rest(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """Exact marginals: rows and columns above their sums are scaled down, then what all lack is added as a product."""
    table *= np.minimum(_scales(rows, table.sum(axis=1)), 1.0)[:, None]
    table *= np.minimum(_scales(columns, table.sum(axis=0)), 1.0)
    lacking = np.maximum(rows - table.sum(axis=1), 0.0), np.maximum(columns - table.sum(axis=0), 0.0)
    if lacking[0].any():
        table += np.multiply.outer(lacking[0], _scales(lacking[1], lacking[0].sum()))
    return table


def _scales(targets: Floats, sums: Floats) -> Floats:
    """Targets over sums, bounded: scales diverge where no table with these zeros has such marginals."""
    return np.minimum(targets / np.maximum(sums, _LARGEST_SCALE**-2), _LARGEST_SCALE)
