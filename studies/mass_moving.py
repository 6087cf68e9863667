"""Mass moving, the paper's Algorithm 1, measured: tables to run it on, its trace, and the formulas of the paper."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

import treeanova
from treeanova.core.arrays import Floats

TARGET = 1e-10  # ε of Theorem 2, relative to M⁰
PROMISED = -float(np.log2(TARGET))  # passes that it promises for every w


def draw(kind: str, size: int, sigma: float, seed: int) -> tuple[Floats, Floats]:
    """A table T ~ N(0, σ) and its weights of sum 1: equal, or |N(0, σ)|, since weights cannot be negative."""
    rng = np.random.default_rng(seed)
    table, weights = sigma * rng.normal(size=(size, size)), np.abs(sigma * rng.normal(size=(size, size)))
    return table, np.full_like(weights, size**-2.0) if kind == "uniform" else weights / weights.sum()


def trace_of(table: Floats, weights: Floats, tol: float = 1e-14) -> Floats:
    """M^t before the first pass and after each pass over rows or columns, M = Σ over slices of |Σ w T|."""
    pure = treeanova.purify(table, weights, method="mass-moving", tol=tol, max_iterations=40_000)
    assert pure.trace is not None  # noqa: S101  mass moving always traces
    return pure.trace


def traces(kind: str, size: int, sigma: float, n_draws: int, length: int) -> Floats:
    """M^t of all draws, shape (n_draws, length + 1); a run that ended earlier keeps its last value."""
    found = [trace_of(*draw(kind, size, sigma, seed)) for seed in range(n_draws)]
    return np.array([np.pad(trace, (0, length), mode="edge")[: length + 1] for trace in found])


def share_above(trace: Floats, base: float, start: int) -> float:
    """Share of the draws with M^t > M⁰ base^t at some t ≥ start, above rounding."""
    bound = trace[:, :1] * np.maximum(base ** np.arange(trace.shape[1]), 1e-12)
    return float((trace > bound * (1 + 1e-9))[:, start:].any(axis=1).mean())


def share_not_halved(trace: Floats) -> float:
    """Share of the draws with M^{t+1} > ½ M^{t−1} at some t ≥ 2, above rounding; t = 1 is not counted."""
    before, after = trace[:, 1:-2], trace[:, 3:]
    return float(((after > 0.5 * before) & (before > 1e-12 * trace[:, :1])).any(axis=1).mean())


def gaussian(size: int, rho: float) -> Floats:
    """Normal weights with correlation ρ at bins from −2.5 to 2.5."""
    x = np.linspace(-2.5, 2.5, size)
    return np.exp(-(x[:, None] ** 2 + x**2 - 2 * rho * np.outer(x, x)) / (2 * (1 - rho**2)))


def sparse(size: int, rows: int, seed: int = 3) -> Floats:
    """Counts of few rows spread over many cells, on a ring of cells that ties all bins together."""
    rng = np.random.default_rng(seed)
    counts = np.eye(size) + np.roll(np.eye(size), 1, axis=1)
    np.add.at(counts, tuple(rng.integers(size, size=(2, rows))), 1)
    return counts


WEIGHTS: dict[str, Floats] = {
    "product of marginals, 25 × 25": np.outer(np.arange(1, 26), np.arange(1, 26) ** 2.0),
    "random, 100 × 100": draw("random", 100, 1, 0)[1],
    "random, 2 × 2": draw("random", 2, 1, 4)[1],
    "normal, ρ = 0.5, 64 × 64": gaussian(64, 0.5),
    "normal, ρ = 0.9, 64 × 64": gaussian(64, 0.9),
    "normal, ρ = 0.99, 64 × 64": gaussian(64, 0.99),
    "sparse, 150 rows on 100 × 100": sparse(100, 150),
    "[[1, δ], [δ, 1]], δ = 0.1": np.array([[1, 0.1], [0.1, 1]]),
    "[[1, δ], [δ, 1]], δ = 0.01": np.array([[1, 0.01], [0.01, 1]]),
    "[[1, δ], [δ, 1]], δ = 0.001": np.array([[1, 0.001], [0.001, 1]]),
}


class Case(NamedTuple):
    """Mass moving and the direct solver on one table."""

    trace: Floats
    correlation: float
    seconds: float
    direct_mass: float
    direct_seconds: float

    @property
    def passes(self) -> int:
        """Passes until M^t ≤ ε."""
        return int(np.argmax(self.trace <= TARGET * self.trace[0]))

    @property
    def expected(self) -> float:
        """Passes that the rate κ per pass asks for."""
        return float(np.log(TARGET) / np.log(self.correlation)) if self.correlation > 1e-8 else 2.0


def measure(weights: Floats) -> Case:
    """Mass moving and the direct solver on a random table."""
    weights = weights / weights.sum()
    table = np.random.default_rng(0).normal(size=weights.shape)
    start = time.perf_counter()
    trace = trace_of(table, weights, tol=1e-13)
    seconds, direct = time.perf_counter() - start, []
    for _ in range(3):
        start = time.perf_counter()
        pair = treeanova.purify(table, weights, method="direct").terms[0, 1]
        direct.append(time.perf_counter() - start)
    return Case(trace, kappa_of(weights), seconds, mass(pair, weights), min(direct))


def kappa_of(weights: Floats) -> float:
    """Maximal correlation: the second singular value of weights over the roots of their marginals."""
    roots = np.sqrt(np.outer(weights.sum(axis=1), weights.sum(axis=0)))
    return float(np.linalg.svd(weights / roots, compute_uv=False)[1])


def mass(table: Floats, weights: Floats) -> float:
    """M as the proof sums it: Σ over slices of |Σ w T|, w of sum 1."""
    return float(sum(np.abs((weights * table).sum(axis=axis)).sum() for axis in (0, 1)))


def mass_of_text(table: Floats, weights: Floats) -> float:
    """M as the text defines it: ΣΣ w (|r| + |c|) with r and c that are weighted sums already."""
    rows, columns = (weights * table).sum(axis=1), (weights * table).sum(axis=0)
    return float((weights * (np.abs(rows)[:, None] + np.abs(columns))).sum())


def left_as_printed(table: Floats, weights: Floats) -> float:
    """M²/M⁰ when the sum Σ w T of a slice is subtracted, as printed, not divided by the slice's mass."""
    start = mass(table, weights)
    table = table - (weights * table).sum(axis=1, keepdims=True)
    return mass(table - (weights * table).sum(axis=0), weights) / start


def move_mass(table: Floats, weights: Floats, axes: tuple[int, ...], n_sweeps: int = 200) -> Floats:
    """The pair that plain mass moving leaves when it sweeps the axes in the order given; slices without mass stay."""
    table = table.copy()
    for _ in range(n_sweeps):
        for axis in axes:
            share = weights / np.maximum(weights.sum(axis=axis, keepdims=True), 1e-300)
            table -= (share * table).sum(axis=axis, keepdims=True)
    return table


def orders_apart(table: Floats, weights: Floats) -> float:
    """Largest difference of the pairs that plain mass moving leaves with rows first and with columns first."""
    return float(np.abs(move_mass(table, weights, (0, 1)) - move_mass(table, weights, (1, 0))).max())
