"""Four forms of one function
==========================

Four models of two coins look different, but make the same predictions. After purification, they are identical.

You learn: what purification does, on tables that are small enough to check by hand (Figure 1 of the paper).
"""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import treeanova

folder = Path(os.environ.get("TREEANOVA_OUT", "."))

# Intercept, main effect of X1, main effect of X2, table over X1 (rows) and X2 (columns), each for values 0 and 1.
FORMS = {
    "AND": (0.25, [-0.25, 0.25], [-0.25, 0.25], [[0, 0], [0, -1]]),
    "OR": (-0.75, [0.25, -0.25], [0.25, -0.25], [[0, 1], [1, 1]]),
    "XOR": (-0.25, [0, 0], [0, 0], [[0, 0.5], [0.5, 0]]),
    "centred XOR": (0.0, [0, 0], [0, 0], [[-0.25, 0.25], [0.25, -0.25]]),
}

figure, axes = plt.subplots(2, 4, figsize=(8, 4.2), layout="constrained")
for (name, (intercept, first, second, table)), (above, below) in zip(FORMS.items(), axes.T, strict=True):
    pure = treeanova.purify(table, np.ones((2, 2)))
    for ax, title, values in ((above, name, table), (below, "pure", pure.terms[0, 1])):
        ax.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1)
        ax.set(title=title, xticks=[0, 1], yticks=[0, 1], xlabel="X2", ylabel="X1")
    print(f"{name}: {intercept:+} and {first} and {second} and {table}")
    print(
        f"  pure: {pure.intercept + intercept:+.2f}",
        (pure.terms[0,] + first).tolist(),
        (pure.terms[1,] + second).tolist(),
        pure.terms[0, 1].tolist(),
        sep=" and ",
    )
print()
figure.savefig(folder / "four_forms.png", dpi=150)

# The density decides what is pure. A pair of features with correlation .99 on 64 bins each:
axis = np.linspace(-2.5, 2.5, 64)
x1, x2 = np.meshgrid(axis, axis, indexing="ij")
rho = 0.99
weights = np.exp(-(x1**2 - 2 * rho * x1 * x2 + x2**2) / (2 * (1 - rho**2)))
for method in ("auto", "mass-moving"):
    pure = treeanova.purify(x1 * x2, weights, method=method)
    print(f"{method}: {pure.certificate}\n")
