"""California: an interaction before and after purification
========================================================

A model of house prices in California: its interaction of latitude and longitude before and after purification. This
script draws the picture in the README.

You learn: how much of a raw interaction consists of main effects, and how to draw plots side by side. The script reads
the data from the folder that TREEANOVA_DATA names or from ../shared/data next to the project, or downloads them with
scikit-learn.
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

CITIES = {"San Francisco": (-122.42, 37.77), "Los Angeles": (-118.24, 34.05), "Sacramento": (-121.49, 38.58)}


def california() -> tuple[pd.DataFrame, pd.Series]:
    """Return features and target."""
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

parts = {"before purification": fx.raw, "after purification": fx}
figure, axes = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
plot.compare(parts, ("Longitude", "Latitude"), ax=axes)
for ax, (name, part) in zip(axes, parts.items(), strict=True):
    share = part.importance().set_index("term")["share"]["Latitude × Longitude"]
    ax.set_title(f"{name}: share of the variance {share:.0%}")
    print(f"Latitude × Longitude {name}: share of the variance {share:.1%}")
    for city, place in CITIES.items():
        ax.plot(*place, "k.")
        ax.annotate(city, place, xytext=(4, 4), textcoords="offset points", fontsize="small")
figure.savefig(Path(os.environ.get("TREEANOVA_OUT", ".")) / "california.png", dpi=130)
print("wrote california.png")
