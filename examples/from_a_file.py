"""A saved model and a CSV file
============================

Decompose a saved model with a CSV file, without the code that trained it.

You learn: how to read a model from a file (its library need not be installed), how to read tables as the command line
does, and how to save a decomposition, which later needs neither the model nor the data.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine

import treeanova
from treeanova.data.files import read_table

folder = Path(os.environ.get("TREEANOVA_OUT", "."))

# What somebody else did: train a model and save it with its data.
try:
    from xgboost import XGBClassifier
except ImportError:
    raise SystemExit("this example trains an XGBoost model first; pip install xgboost-cpu") from None
X, y = load_wine(return_X_y=True, as_frame=True)
XGBClassifier(n_estimators=60, max_depth=2, n_jobs=1).fit(X, y == 0).save_model(folder / "wine.json")
X.assign(is_first=y == 0).to_csv(folder / "wine.csv", index=False)

# What you do, with these two files.
schema = treeanova.read_model(folder / "wine.json").schema
rows = read_table(folder / "wine.csv", schema, drop=["is_first"])
print(treeanova.plan(folder / "wine.json"), "\n")
fx = treeanova.decompose(folder / "wine.json", rows)
fx.save(folder / "wine.tav")

# Later, elsewhere: one file, no pickle.
again = treeanova.load(folder / "wine.tav")
print(again)
np.testing.assert_array_equal(again.decision_function(rows), fx.decision_function(rows))
print("The same on the command line:")
print("  treeanova explain wine.json --data wine.csv --target is_first --out wine.html --save wine.tav")
print("  treeanova table wine.tav --term proline")
treeanova.plot.importance(again, k=8).figure.savefig(folder / "wine.png", dpi=150)
