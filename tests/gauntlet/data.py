"""Tables of the gauntlet: those bundled with scikit-learn, and synthetic ones that are hard in one way each."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
from sklearn import datasets


@dataclasses.dataclass(frozen=True)
class Data:
    """Rows, their target, and whether it is a class."""

    X: np.ndarray
    y: np.ndarray
    is_class: bool = False

    @property
    def has_missing(self):
        return bool(np.isnan(self.X).any())


def bundled(load, *, is_class):
    X, y = load(return_X_y=True)
    return Data(X, y, is_class)


def digits():
    """Every eighth row: on all 1,797 a default forest has over 100,000 leaves in ten outputs."""
    X, y = datasets.load_digits(return_X_y=True)
    return Data(X[::8], y[::8], is_class=True)


BUNDLED = {
    "iris": functools.partial(bundled, datasets.load_iris, is_class=True),
    "wine": functools.partial(bundled, datasets.load_wine, is_class=True),
    "cancer": functools.partial(bundled, datasets.load_breast_cancer, is_class=True),
    "digits": digits,
    "diabetes": functools.partial(bundled, datasets.load_diabetes, is_class=False),
    "linnerud": functools.partial(bundled, datasets.load_linnerud, is_class=False),
}


def normal(n_rows=300, n_features=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n_rows, n_features))


def target(X):
    """A target with main effects and interactions of orders 2 and 3, whatever the scale of the columns."""
    known = np.nan_to_num(X)
    z = np.tanh(known / np.maximum(np.abs(known).mean(axis=0), 1e-300))
    a, b, c = (z[:, min(j, z.shape[1] - 1)] for j in range(3))
    return a + 2 * a * b + b**2 + a * b * c + 0.1 * np.random.default_rng(1).normal(size=len(X))


def correlated():
    """Two columns with a correlation of .9975."""
    X = normal()
    X[:, 1] = 0.9975 * X[:, 0] + np.sqrt(1 - 0.9975**2) * X[:, 1]
    return X


def with_column(column):
    X = normal()
    X[:, 1] = column(X)
    return X


def with_gaps():
    X = normal()
    X[np.random.default_rng(2).random(X.shape) < 0.2] = np.nan
    return X


def heavy_tailed():
    return np.random.default_rng(3).standard_cauchy(size=(300, 4))


SYNTHETIC = {
    "correlated": correlated,
    "duplicated": lambda: with_column(lambda X: X[:, 0]),
    "constant": lambda: with_column(lambda X: np.full(len(X), 3.0)),
    "all-missing": lambda: with_column(lambda X: np.full(len(X), np.nan)),
    "gaps": with_gaps,
    "heavy-tailed": heavy_tailed,
    "binary": lambda: (normal() > 0.3).astype(float),
    "one-feature": lambda: normal(n_features=1),
    "huge": lambda: normal() * [1e30, 1e12, 1.0, 1e30],
    "tiny": lambda: normal() * [1e-30, 1e-6, 1e-3, 1e-12],
    "2-rows": lambda: normal(2),
    "3-rows": lambda: normal(3),
    "5-rows": lambda: normal(5),
    "10-rows": lambda: normal(10),
}
TARGET_SCALES = {"huge": 1e12, "tiny": 1e-6}


def synthetic(name):
    X = SYNTHETIC[name]()
    return Data(X, target(X) * TARGET_SCALES.get(name, 1.0))
