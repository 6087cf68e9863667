"""California: an interaction before and after purification
========================================================

California housing: Latitude × Longitude before and after purification, the picture in the README.

You learn: how much of a raw interaction is really main effect, and how to draw plots side by side. The data come from
the folder that TREEANOVA_DATA names, from ../shared/data next to the project, or from scikit-learn's download.
"""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import fetch_california_housing
from sklearn.ensemble import HistGradientBoostingRegressor

import treeanova
from treeanova import plot


def california() -> tuple[pd.DataFrame, pd.Series]:
    """Features and target."""
    path = Path(os.environ.get("TREEANOVA_DATA", "../shared/data")) / "california_housing.csv.gz"
    if path.is_file():
        table = pd.read_csv(path)
        return table.drop(columns="MedHouseVal"), table["MedHouseVal"]
    try:
        return fetch_california_housing(return_X_y=True, as_frame=True)
    except OSError as error:
        raise SystemExit(f"no data: set TREEANOVA_DATA to the folder of {path.name}, or go online ({error})") from None


X, y = california()
model = HistGradientBoostingRegressor(max_iter=300, max_depth=2, random_state=0).fit(X, y)
fx = treeanova.decompose(model, X)
print(fx.importance().head(8).to_string(index=False))

parts = {"before purification": fx.raw, "after": fx}
figure, axes = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
plot.compare(parts, ("Longitude", "Latitude"), ax=axes)
for ax, (name, part) in zip(axes, parts.items(), strict=True):
    share = part.importance().set_index("term")["share"]["Latitude × Longitude"]
    ax.set_title(f"{name}: {share:.0%} of the variance")
figure.savefig(Path(os.environ.get("TREEANOVA_OUT", ".")) / "california.png", dpi=130)
print("wrote california.png")
