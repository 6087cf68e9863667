"""Your own density
================

The same model has other effects in another population. This script compares several densities: another population,
weighted rows, and a function.

You learn: how to pass a density, and how to see what it changes.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from scipy.stats import norm
from sklearn.ensemble import GradientBoostingRegressor

import treeanova

folder = Path(os.environ.get("TREEANOVA_OUT", "."))
rng = np.random.default_rng(0)
X = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], size=3000, method="cholesky")
y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=3000)
model = GradientBoostingRegressor(n_estimators=200, max_depth=2, random_state=0).fit(X, y)
fx = treeanova.decompose(model, X, feature_names=["a", "b"])

# Another population, in which a and b are independent. There a * b has no main effects; the model has small ones,
# because it was trained on few rows far from the diagonal.
elsewhere = rng.normal(size=(3000, 2))
there = fx.with_density("empirical", elsewhere)

# The same rows, but each row with a positive a counts three times.
tilted = fx.with_density("empirical", X, sample_weight=np.where(X[:, 0] > 0, 3.0, 1.0))


def normal(_: tuple[str, ...], axes: tuple[object, ...]) -> np.ndarray:
    """Weights of the cells of some features, from their names and axes: here independent standard normals."""
    table = np.ones(())
    for axis in axes:
        masses = np.append(np.diff(norm.cdf(axis.edges)), np.zeros(axis.n_extra))
        table = np.multiply.outer(table, masses)
    return table


exact = fx.with_density(normal)

print("share of the variance of the interaction")
for name, part in {"correlated rows": fx, "elsewhere": there, "tilted": tilted, "function": exact}.items():
    table = part.importance().set_index("term")
    print(f"  {name:<16}{table.loc['a × b', 'share']:6.1%}")
print(treeanova.compare({"correlated rows": fx, "elsewhere": there}).distance.to_string(index=False))
ax = treeanova.plot.compare({"correlated rows": fx, "elsewhere": there}, "a")
ax.figure.savefig(folder / "own_density.png", dpi=150)
