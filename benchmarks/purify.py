"""Purification of tensors: treeanova compared with interpret's purify (default and deterministic), in one process.

Errors are weighted root mean squares of the difference of the highest-order term to a reference, relative to those of
the scores; the weights leave out cells that they do not determine. The reference is a least-squares solution with the
normal equations' eigenvectors where these fit, else treeanova's own answer by its other exact method.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import treeanova
from benchmarks.timing import best_of, print_table
from treeanova.core.arrays import Floats
from treeanova.testing import correlated_weights


class Case(NamedTuple):
    """A tensor to purify; `slow` names the modes of interpret that take minutes on it."""

    name: str
    scores: Floats
    weights: Floats
    slow: tuple[str, ...] = ()


def cases() -> Iterator[Case]:
    """All cases, from small to large."""
    rng = np.random.default_rng(0)
    for size in (64, 256, 1024):
        for correlation in (0.0, 0.9, 0.99, 0.999):
            slow = ("default", "deterministic") if size == 1024 and correlation else ()
            weights = correlated_weights((size, size), correlation)
            yield Case(f"{size} x {size}, correlation {correlation}", rng.normal(size=weights.shape), weights, slow)
        counts = empirical_weights((size, size), 0.5, rng)
        yield Case(f"{size} x {size}, 20,000 rows, sparse", rng.normal(size=counts.shape), counts)
    for sizes in ((64,) * 3, (32,) * 4):
        for correlation in (0.0, 0.9, 0.99, 0.999):
            weights = correlated_weights(sizes, correlation)
            name = " x ".join(map(str, sizes))
            yield Case(f"{name}, correlation {correlation}", rng.normal(size=sizes), weights)
            if correlation > 0.9:
                dense = 0.99 * weights + 0.01 * correlated_weights(sizes, 0.0)
                yield Case(f"{name}, correlation {correlation}, 1 % independent", rng.normal(size=sizes), dense)


def empirical_weights(
    sizes: tuple[int, ...], correlation: float, rng: np.random.Generator, rows: int = 20_000
) -> Floats:
    """Counts of normal rows with equal correlations in equal-mass bins."""
    order = len(sizes)
    normal = rng.multivariate_normal(
        np.zeros(order), np.full((order, order), correlation) + (1 - correlation) * np.eye(order), rows
    )
    ranks = normal.argsort(axis=0).argsort(axis=0)
    counts = np.zeros(sizes)
    np.add.at(counts, tuple(ranks[:, j] * sizes[j] // rows for j in range(order)), 1.0)
    return counts


def reference(case: Case) -> Floats:
    """The pure highest-order term, by another way than the one that is timed."""
    if case.scores.ndim == 2 and max(case.scores.shape) <= 256:
        return _least_squares(case.scores, case.weights / case.weights.sum())
    method: Any = "cg" if case.scores.ndim == 2 else "mass-moving"
    pure = treeanova.purify(case.scores, case.weights, method=method, tol=1e-13, max_iterations=2_000)
    return pure.terms[tuple(range(case.scores.ndim))]


def _least_squares(scores: Floats, weights: Floats) -> Floats:
    """Residual of the weighted least squares on row and column effects, scaled, by eigenvectors, refined twice."""
    rows, columns = weights.sum(axis=1), weights.sum(axis=0)
    masses = np.concatenate([rows, columns])
    scale = np.divide(1.0, np.sqrt(masses), out=np.zeros_like(masses), where=masses > 0)
    normal = np.block([[np.diag(rows), weights], [weights.T, np.diag(columns)]]) * np.outer(scale, scale)
    inverse = np.linalg.pinv(normal, rcond=1e-13, hermitian=True)
    rest = scores.copy()
    for _ in range(3):
        moments = np.concatenate([(weights * rest).sum(axis=1), (weights * rest).sum(axis=0)]) * scale
        effects = (inverse @ moments) * scale
        rest = rest - effects[: len(rows), None] - effects[len(rows) :]
    return rest


def error(case: Case, term: Floats, truth: Floats) -> float:
    """Weighted distance to the truth relative to the size of the scores."""
    return float(np.sqrt((case.weights * (term - truth) ** 2).sum() / (case.weights * case.scores**2).sum()))


def run(*, full: bool) -> None:
    """Time all cases and print the table."""
    from interpret.utils import purify as interpret_purify  # noqa: PLC0415  a peer, needed here only

    rows = []
    for case in cases():
        top = tuple(range(case.scores.ndim))
        seconds, pure = best_of(lambda case=case: treeanova.purify(case.scores, case.weights))  # type: ignore[misc]
        truth = reference(case)
        row = [case.name, f"{seconds:.4f}", f"{error(case, pure.terms[top], truth):.0e}"]
        for mode in ("default", "deterministic"):
            if mode in case.slow and not full:
                row += ["minutes", "-", "-"]
                continue
            peer, result = best_of(
                lambda case=case, mode=mode: interpret_purify(
                    case.scores, case.weights, is_randomized=mode == "default"
                )  # type: ignore[misc]
            )
            row += [f"{peer:.4f}", f"{peer / seconds:,.1f}x", f"{error(case, result[0], truth):.0e}"]
        rows.append(row)
        print(" ".join(row), flush=True)
    columns = [f"{what} {mode}" for mode in ("default", "deterministic") for what in ("interpret", "ratio", "error")]
    print_table(["tensor", "treeanova s", "error", *columns], rows)
