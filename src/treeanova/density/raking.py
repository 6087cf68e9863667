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
    """A matrix, or each of many, with its rows and columns scaled to given sums (Sinkhorn).

    Steps end when no scale of a matrix changes by more than the tolerance. The rest is then distributed, so that
    marginals are exact. Every second step extrapolates the last change by the rate at which changes shrink (Aitken),
    which saves most of the steps.
    """
    stack = table if table.ndim == 3 else table[None]
    sums = rows.reshape(stack.shape[0], stack.shape[1]), columns.reshape(stack.shape[0], stack.shape[2])
    left, right = _sinkhorn_scales(stack, *sums, tolerance)
    raked = stack * left[:, :, None]
    raked *= right[:, None, :]
    return _distribute_rest(raked, *sums).reshape(table.shape)


def _sinkhorn_scales(table: Floats, rows: Floats, columns: Floats, tolerance: float) -> tuple[Floats, Floats]:
    """Scales of rows and columns of some matrices; those that are done wait for the others."""
    scales = np.empty_like(rows), np.empty_like(columns)
    places = np.arange(len(table))
    before = right = np.ones_like(columns)
    left, after = np.ones_like(rows), right
    for step in range(_SINKHORN_STEPS):
        left = _scales(rows, np.matmul(table, right[:, :, None])[:, :, 0])
        after = _scales(columns, np.matmul(left[:, None, :], table)[:, 0])
        goes_on = (np.abs(after - right) > tolerance * right).any(axis=1)
        if not goes_on.all():
            scales[0][places[~goes_on]], scales[1][places[~goes_on]] = left[~goes_on], after[~goes_on]
            if not goes_on.any():
                return scales
            places, table, rows, columns = places[goes_on], table[goes_on], rows[goes_on], columns[goes_on]
            before, right, left, after = before[goes_on], right[goes_on], left[goes_on], after[goes_on]
        extrapolates = step % 2 and step < _SINKHORN_STEPS - 1
        before, right = right, _extrapolated(before, right, after, columns) if extrapolates else after
    scales[0][places], scales[1][places] = left, after
    return scales


def _extrapolated(first: Floats, second: Floats, third: Floats, masses: Floats) -> Floats:
    """The limit of the scales if their logarithms go on to change at the rate of the last two changes."""
    logs = np.log(np.maximum([first, second, third], _LARGEST_SCALE**-3))
    earlier, change = logs[1] - logs[0], logs[2] - logs[1]
    weighted = masses * earlier
    ratio = (weighted * change).sum(axis=1) / np.maximum((weighted * earlier).sum(axis=1), 1e-300)
    shrinks = (ratio > 0.0) & (ratio < _SLOWEST_SHRINKING)
    factor = np.where(shrinks, ratio, 0.0) / np.where(shrinks, 1 - ratio, 1.0)
    moved: Floats = third * np.exp(np.clip(factor[:, None] * change, -1.0, 1.0))
    return np.where(shrinks[:, None], np.minimum(moved, _LARGEST_SCALE), third)


def _distribute_rest(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """Exact marginals: rows and columns above their sums are scaled down, then what all lack is added as a product."""
    table *= np.minimum(_scales(rows, table.sum(axis=2)), 1.0)[:, :, None]
    table *= np.minimum(_scales(columns, table.sum(axis=1)), 1.0)[:, None, :]
    lacking = np.maximum(rows - table.sum(axis=2), 0.0), np.maximum(columns - table.sum(axis=1), 0.0)
    if lacking[0].any():
        shares = _scales(lacking[1], lacking[0].sum(axis=1, keepdims=True))
        table += lacking[0][:, :, None] * shares[:, None, :]
    return table


def _scales(targets: Floats, sums: Floats) -> Floats:
    """Targets over sums, bounded: scales diverge where no table with these zeros has such marginals."""
    return np.minimum(targets / np.maximum(sums, _LARGEST_SCALE**-2), _LARGEST_SCALE)
