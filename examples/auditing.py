"""Audit a model: what it takes from a sensitive feature, and what is left without it.

You learn: drop, select, importance by feature, compare, and why raw trees mislead. The data are simulated: the outcome
depends on income and debt, and income differs by group; the historic decisions also punished the group.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingClassifier

import treeanova

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
print(
    "The trees themselves show", list(fx.raw.terms["group"].values.round(2)) if ("group",) in fx.raw.terms else "none"
)

# Without all terms that use the group: what the model says from the rest.
without = fx.drop("group")
before, after = fx.predict(X), without.predict(X)
for name, p in {"model": before, "without the group's terms": after}.items():
    gap = p[group == 0].mean() - p[group == 1].mean()
    print(f"{name:<28}difference of mean probabilities between groups: {gap:+.3f}")

print("\nRaw trees against pure effects: distance relative to the spread of the score")
found = treeanova.compare({"pure": fx, "raw": fx.raw})
print(found.distance[["term", "relative"]].round(2).to_string(index=False))
