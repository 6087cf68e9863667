"""A model of three classes
========================

In a model of three classes, every term has a value per class.

You learn: where the classes are in terms, tables, explanations and plots, and on which scale the terms add up.
"""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.ensemble import GradientBoostingClassifier

import treeanova
from treeanova import plot

X, y = load_iris(return_X_y=True, as_frame=True)
names = load_iris().target_names
model = GradientBoostingClassifier(n_estimators=30, max_depth=2, random_state=0).fit(X, names[y])

fx = treeanova.decompose(model, X)
print(fx)
print("outputs:", fx.outputs, "scale:", fx.schema.link)
print(fx.importance().groupby("output").head(2).to_string(index=False))

term = fx.terms["petal length (cm)"]
print("values of a term:", term.values.shape, "= bins and classes")
print("explanation of one row:", fx.explain(X.iloc[:1]).values.shape, "= rows, terms and classes")
np.testing.assert_allclose(fx.predict_proba(X), model.predict_proba(X))

figure, axes = plt.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
for ax, output in zip(axes, fx.outputs, strict=True):
    plot.effect(fx, "petal length (cm)", output=output, ax=ax)
    ax.set_title(output)
figure.savefig(Path(os.environ.get("TREEANOVA_OUT", ".")) / "multiclass.png", dpi=150)
print("wrote multiclass.png")
