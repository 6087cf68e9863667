"""Categories, missing and unseen values
=====================================

You do not encode categories or fill missing values: TreeANOVA treats them as the model does.

You learn: where to find the bins of categories, missing values and unseen categories in terms and tables.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor

import treeanova

folder = Path(os.environ.get("TREEANOVA_OUT", "."))
rng = np.random.default_rng(0)
n = 4000
X = pd.DataFrame(
    {
        "size": np.where(rng.random(n) < 0.15, np.nan, rng.gamma(3.0, 30.0, n)),
        "city": pd.Categorical(rng.choice(["Oslo", "Rome", "Kyiv", "Lima"], n, p=[0.4, 0.3, 0.2, 0.1])),
    }
)
worth = X["city"].map({"Oslo": 2.0, "Rome": 1.5, "Kyiv": 0.8, "Lima": 0.5}).astype(float)
y = worth * X["size"].fillna(40.0) + rng.normal(size=n)
model = HistGradientBoostingRegressor(max_depth=3, categorical_features="from_dtype", random_state=0).fit(X, y)

fx = treeanova.decompose(model, X)
print(fx.table("city").to_string(index=False), "\n")
print(fx.table("size").tail(3).to_string(index=False), "\n")

# A row with a missing size, and one of a city that the model has never seen.
rows = pd.DataFrame({"size": [np.nan, 100.0], "city": pd.Categorical(["Rome", "Atlantis"])})
print(fx.explain(rows).to_frame().to_string(index=False))
print("the model itself:", model.predict(rows).round(3))
print("sum of terms:    ", fx.decision_function(rows).round(3))
treeanova.plot.effect(fx, "city").figure.savefig(folder / "categories.png", dpi=150)
