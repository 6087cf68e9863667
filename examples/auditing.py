"""Audit a model for a protected feature
=====================================

Does a model use a protected feature, and does it help to drop its terms? The data are simulated: the outcome depends on
income and debt, incomes differ between two groups, and past decisions put group 1 at a disadvantage.

You learn: drop, select, importance by feature, compare, and why effects before purification mislead.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingClassifier

import treeanova

folder = Path(os.environ.get("TREEANOVA_OUT", "."))
rng = np.random.default_rng(1)
n = 6000
group = rng.integers(0, 2, n)
income = rng.lognormal(0.4 * (1 - group), 0.5)
debt = rng.gamma(2.0, 0.5, n)
X = pd.DataFrame({"group": group, "income": income, "debt": debt})
logit = 1.5 * np.log(income) - debt - 0.8 * group
y = rng.random(n) < 1 / (1 + np.exp(-logit))
model = GradientBoostingClassifier(n_estimators=150, max_depth=2, random_state=0).fit(X, y)

fx = treeanova.decompose(model, X)
print("What the model uses, by feature")
print(fx.importance("feature").round(3).to_string(index=False), "\n")

effect = fx.terms["group"]
print(
    "Main effect of the group, log-odds:",
    dict(zip(effect.axes[0].labels, effect.values.round(2).tolist(), strict=True)),
)
raw = fx.raw.terms["group"].values.round(2).tolist() if "group" in fx.raw.terms else "none"
print("Before purification:", raw)

# The model without the terms that contain the group.
without = fx.drop("group")
before, after = fx.predict_response(X), without.predict_response(X)
for name, p in {"model": before, "without the group's terms": after}.items():
    gap = p[group == 0].mean() - p[group == 1].mean()
    print(f"{name:<28}difference of mean probabilities between groups: {gap:+.3f}")

print("\nWhat purification changes: distance relative to the standard deviation of the score")
comparison = treeanova.compare({"pure": fx, "raw": fx.raw})
print(comparison.distance[["term", "relative"]].round(2).to_string(index=False))
ax = treeanova.plot.compare({"pure": fx, "raw": fx.raw}, "income")
ax.figure.savefig(folder / "auditing.png", dpi=150)
