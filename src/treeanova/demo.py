"""The demonstration that ``make demo`` runs: four stories of one function, a slow pair, a model with a known truth."""

from __future__ import annotations

import time

import numpy as np

from treeanova._decompose import decompose
from treeanova.purification import purify
from treeanova.slices import Floats

# Intercept, main effect of X1, main effect of X2, table over X1 (rows) and X2 (columns), each for values 0 and 1.
FIGURE_1: dict[str, tuple[float, list[float], list[float], list[list[float]]]] = {
    "(a) AND": (0.25, [-0.25, 0.25], [-0.25, 0.25], [[0, 0], [0, -1]]),
    "(b) OR": (-0.75, [0.25, -0.25], [0.25, -0.25], [[0, 1], [1, 1]]),
    "(c) XOR": (-0.25, [0, 0], [0, 0], [[0, 0.5], [0.5, 0]]),
    "(d) centred XOR": (0.0, [0, 0], [0, 0], [[-0.25, 0.25], [0.25, -0.25]]),
}


def correlated_weights(sizes: tuple[int, ...], correlation: float) -> Floats:
    """Normal density with equal correlations at the midpoints of bins from -2.5 to 2.5, of sum 1."""
    order = len(sizes)
    precision = np.linalg.inv(np.full((order, order), correlation) + (1 - correlation) * np.eye(order))
    points = np.stack(np.meshgrid(*(np.linspace(-2.5, 2.5, size) for size in sizes), indexing="ij"))
    density = np.exp(-np.einsum("i...,ij,j...->...", points, precision, points) / 2)
    weights: Floats = density / density.sum()
    return weights


def _line(intercept: object, first: object, second: object, table: object) -> str:
    return "  ".join(
        np.array2string(np.asarray(part, float), separator=" ").replace("\n", "")
        for part in (intercept, first, second, table)
    )


def four_stories() -> None:
    """Print the paper's Figure 1 before and after purification."""
    print("Four models of two fair coins, one function (Figure 1 of the paper): f0, f1, f2, f12")
    for name, parts in FIGURE_1.items():
        intercept, first, second, table = parts
        pure = purify(table, np.ones((2, 2)))
        after = _line(pure.intercept + intercept, pure.terms[0,] + first, pure.terms[1,] + second, pure.terms[0, 1])
        print(f"  {name:<16} before  {_line(*parts)}")
        print(f"  {'':<16} pure    {after}")


def correlated_pair(correlation: float = 0.99) -> None:
    """Print the certificate of a 64 x 64 pair, and what mass moving needs for it."""
    weights = correlated_weights((64, 64), correlation)
    axis = np.linspace(-2.5, 2.5, 64)
    scores = np.outer(axis, axis)
    print(f"\nX1 X2 on 64 x 64 bins, normal, correlation {correlation}")
    for method in ("auto", "mass-moving"):
        start = time.perf_counter()
        pure = purify(scores, weights, method=method)
        seconds = time.perf_counter() - start
        print(f"\nmethod={method!r}: {1000 * seconds:.1f} ms\n{pure.certificate}")


def known_truth(correlation: float = 0.7, n_rows: int = 5_000) -> None:
    """Print how the effects of a boosted model, raw and pure under several densities, compare with the truth.

    For X1 X2 of normal features with correlation ρ the pure main effects are ρ / (1 + ρ²) (x² - 1).
    """
    from xgboost import XGBRegressor  # noqa: PLC0415  the demonstration's own model

    rng = np.random.default_rng(0)
    covariance = np.eye(3)
    covariance[0, 1] = covariance[1, 0] = correlation
    X = rng.multivariate_normal(np.zeros(3), covariance, size=n_rows)
    model = XGBRegressor(n_estimators=300, max_depth=2, learning_rate=0.1, n_jobs=2).fit(X, X[:, 0] * X[:, 1] + X[:, 2])
    fx = decompose(model, X, feature_names=["x1", "x2", "x3"])
    print(f"\nXGBoost of depth 2 trained on x1 x2 + x3, correlation of x1 and x2 {correlation}, {n_rows:,} rows\n{fx}")
    truth = {name: correlation / (1 + correlation**2) * (X[:, j] ** 2 - 1) for j, name in enumerate(["x1", "x2"])}
    kinds = {"raw": fx.raw} | {kind: fx.with_density(kind) for kind in ("uniform", "empirical")} | {"auto": fx}
    print("Share of the main effects' variance that is error, x1 and x2:")
    for kind, found in kinds.items():
        values = {name: found.term_values(X, name) if (name,) in found.terms else 0 * X[:, 0] for name in truth}
        errors = [np.mean((values[name] - truth[name]) ** 2) / np.mean(truth[name] ** 2) for name in truth]
        print(f"  {kind:<10}" + "".join(f"{error:8.3f}" for error in errors))
    difference = np.abs(fx.decision_function(X) - model.predict(X, output_margin=True)).max()
    print(f"Sum of terms against XGBoost's own prediction (float32): at most {difference:.1e} apart")


def main() -> None:
    """Run the whole demonstration."""
    four_stories()
    correlated_pair()
    known_truth()


if __name__ == "__main__":
    main()
