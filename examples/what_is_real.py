"""Which terms are real
====================

A model also learns noise. Held-out rows show which terms are real, and resampled rows show how sure the effects are.

You learn: validate, bag, and plots with error bands. The data are simulated: demand depends on the price, on the hour,
and on the price at night; the weather has no effect.
"""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingRegressor

import treeanova

out = Path(os.environ.get("TREEANOVA_OUT", "."))
rng = np.random.default_rng(0)
n = 3000
X = pd.DataFrame({"price": rng.gamma(4.0, 1.0, n), "hour": rng.integers(0, 24, n), "weather": rng.normal(size=n)})
night = (X["hour"] < 6) | (X["hour"] > 21)
y = 10 + 3 * np.sin(X["hour"] / 4) - X["price"] + 0.8 * night * X["price"] + 2 * rng.normal(size=n)
train, held_out = X.index < 1500, X.index >= 1500

# Fit the model to all training rows and to ten resamples of them.
model = GradientBoostingRegressor(max_depth=2, n_estimators=60, random_state=0)
bag = treeanova.bag(model.fit, X[train], y[train], 10, density="empirical")
fx = bag.fx

validation = fx.validate(X[held_out], y[held_out])
print(validation.table.round(4).to_string(index=False))
print("\nThe outcome follows (significant):", ", ".join(validation.significant))
print("Interactions that can be left out:", ", ".join(validation.dispensable) or "none")

errors = bag.standard_errors()
largest = {" × ".join(names): round(float(error.mean()), 3) for names, error in errors.items() if len(names) == 1}
print("Mean standard error of main effects, model and density:", largest)
alone = fx.standard_errors(10)
print(
    "Due to the density alone:", {names[0]: round(float(alone[names].mean()), 3) for names in alone if len(names) == 1}
)

figure, axes = plt.subplots(1, 3, figsize=(15, 4.2), layout="constrained")
treeanova.plot.validation(validation, ax=axes[0])
treeanova.plot.effect(fx, "weather", errors=bag, ax=axes[1])
treeanova.plot.pair(fx, ("hour", "price"), errors=bag, ax=axes[2])
figure.savefig(out / "what_is_real.png", dpi=120)
