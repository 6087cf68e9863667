"""One model under densities of your own: another population, weights of rows, a table.

You learn: that effects belong to a density, how to give one, and how to see what it changes.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm
from sklearn.ensemble import GradientBoostingRegressor

import treeanova

rng = np.random.default_rng(0)
X = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], size=3000)
y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=3000)
model = GradientBoostingRegressor(n_estimators=200, max_depth=2, random_state=0).fit(X, y)
fx = treeanova.decompose(model, X, feature_names=["a", "b"])

# Another population: there a and b are independent, where a * b has no main effects (the model, trained on few rows far
# from the diagonal, has some).
elsewhere = rng.normal(size=(3000, 2))
there = fx.with_density("empirical", elsewhere)

# The same rows, those with positive a counted three times.
tilted = fx.with_density("empirical", X, sample_weight=np.where(X[:, 0] > 0, 3.0, 1.0))


def normal(_: tuple[str, ...], axes: tuple[object, ...]) -> np.ndarray:
    """A density of your own: a function from names and axes to weights of cells; here independent standard normals."""
    table = np.ones(())
    for axis in axes:
        masses = np.append(np.diff(norm.cdf(axis.edges)), np.zeros(axis.size - axis.n_intervals))
        table = np.multiply.outer(table, masses)
    return table


exact = fx.with_density(normal)

print("share of the variance that the interaction has")
for name, found in {"correlated rows": fx, "elsewhere": there, "tilted": tilted, "own function": exact}.items():
    table = found.importance().set_index("term")
    print(f"  {name:<16}{table.loc['a × b', 'share']:6.1%}")
print(treeanova.compare({"correlated rows": fx, "elsewhere": there}).distance.to_string(index=False))
