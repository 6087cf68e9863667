"""Small known problems for examples: a tree of x0 AND x1, the paper's Figure 1, weights of normal features."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats

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
    return density / density.sum()


def example(kind: str = "regressor") -> tuple[Any, Any]:
    """A decomposition for examples, and its four rows: a scikit-learn tree of x0 AND x1, "regressor" or "classifier".

    Examples
    --------
    >>> fx, X = example()
    >>> X.tolist(), fx.predict(X).tolist()
    ([[0, 0], [0, 1], [1, 0], [1, 1]], [0.0, 0.0, 0.0, 1.0])
    """
    trees = importlib.import_module("sklearn.tree")
    decompose = importlib.import_module("treeanova").decompose
    tree = trees.DecisionTreeClassifier() if kind == "classifier" else trees.DecisionTreeRegressor()
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    return decompose(tree.fit(X, [0, 0, 0, 1]), X), X
