"""Quick start
===========

Train a model, split it into its effects, and draw them, in thirty seconds.

You learn: decompose, importance, the table of a term, that the terms add up to the model, plots, and the report.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor

import treeanova
from treeanova import plot
from treeanova.report import write_report

folder = Path(os.environ.get("TREEANOVA_OUT", "."))
X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = GradientBoostingRegressor(n_estimators=100, max_depth=2, random_state=0).fit(X, y)

fx = treeanova.decompose(model, X)
print(fx)
print(fx.importance().head(6).to_string(index=False))
print(fx.table("bmi").head(3).to_string(index=False))

gap = np.abs(fx.decision_function(X) - model.predict(X)).max()
print(f"sum of the terms against the model: {gap:.1e}")

axes = plot.grid(fx, k=6)
axes.flat[0].figure.savefig(folder / "quick_start.png", dpi=150)
write_report(fx, folder / "quick_start.html", title="Diabetes progression")
print("wrote quick_start.png and quick_start.html")
