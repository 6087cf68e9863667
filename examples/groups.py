"""Why two groups differ
=====================

Why do women and men have different mean scores in a model of incomes, and which features account for it?

You learn: fx.gap with its routes and errors, families of features, plot.gap, and a shareable page. The data are the
census incomes of 1994 (UCI), read from TREEANOVA_DATA or ../shared/data; without them, the script simulates data.
"""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

import treeanova
from tests.support.datasets import adult

folder = Path(os.environ.get("TREEANOVA_OUT", "."))
data = Path(os.environ.get("TREEANOVA_DATA", "../shared/data")) / "adult.csv.gz"
table = pd.read_csv(data) if data.is_file() else adult()
table = table[table["split"] == "train"].drop(columns=["split", "fnlwgt", "education"])
income = table.pop("income").str.strip(" .")
X = table.astype({name: "category" for name in table.columns if not pd.api.types.is_numeric_dtype(table[name])})
model = HistGradientBoostingClassifier(
    max_iter=150, max_depth=2, categorical_features="from_dtype", early_stopping=False, random_state=0
).fit(X, income)
fx = treeanova.decompose(model, X)

gap = fx.gap(X, "sex")
print(f"{gap.groups[1]} minus {gap.groups[0]}: {gap.total:+.3f} log-odds, standard error {gap.error:.3f}")
print(gap.table.head(6).round(3).to_string(index=False))
print(gap.routes.round(3).to_string(index=False))

families = {"home": ["marital-status", "relationship"], "work": ["workclass", "occupation", "hours-per-week"]}
print("\nBlack against all others, by family of features")
race = fx.gap(X, X["race"] == "Black", groups=families, feature="race")
print(race.table.head(5).round(3).to_string(index=False))
print(fx.importance(groups=families).head(5).round(3).to_string(index=False))

# Dropping the terms of sex does not remove its influence: other features carry it.
score = fx.drop("sex").decision_function(X)
without = score[(X["sex"] == "Male").to_numpy()].mean() - score[(X["sex"] == "Female").to_numpy()].mean()
print(f"\nthe gap without the terms of sex: {without:+.3f}, of {gap.total:+.3f}")

treeanova.plot.gap(gap, k=10).figure.savefig(folder / "groups.png", dpi=150)
treeanova.write_report(gap, folder / "groups_sex.html", title="Incomes over 50,000: women and men")
treeanova.write_report(race, folder / "groups_race.html", title="Incomes over 50,000: Black and other people")
print("wrote groups.png, groups_sex.html and groups_race.html")
