"""What changed between two years
==============================

Bike rentals rose from one year to the next. Did the rows change, or the model, and which terms account for it?

You learn: treeanova.change with its table and sums, plot.change, and a shareable page. The data are the hourly rentals
of 2011 and 2012 (UCI), read from TREEANOVA_DATA or ../shared/data; without them, the script simulates data.
"""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor

import treeanova
from tests.support.datasets import bike_hour

folder = Path(os.environ.get("TREEANOVA_OUT", "."))
data = Path(os.environ.get("TREEANOVA_DATA", "../shared/data")) / "bike_hour.csv.gz"
table = pd.read_csv(data) if data.is_file() else bike_hour()
if table["yr"].nunique() < 2:  # the simulated table has one year: its later half is the next
    table["yr"] = (table.index >= len(table) // 2).astype(int)
features = ["season", "mnth", "hr", "holiday", "weekday", "workingday", "weathersit", "temp", "hum", "windspeed"]


def decomposed(year: int) -> treeanova.Decomposition:
    """A model of one year, and its effects under the rows of that year."""
    rows = table[table["yr"] == year]
    model = HistGradientBoostingRegressor(loss="poisson", max_iter=150, max_depth=2, random_state=0)
    return treeanova.decompose(model.fit(rows[features], rows["cnt"]), rows[features])


old, new = decomposed(0), decomposed(1)
change = treeanova.change(old, new)
print(f"mean {'log of rentals':<16} {change.old_mean:.3f} -> {change.new_mean:.3f}, change {change.total:+.3f}")
print(f"other rows, same model {change.population:+.3f}; other model {change.model:+.3f}")
print(change.table.head(8).round(3).to_string(index=False))
print(f"sum of the rows of the table: {change.table['total'].sum():+.3f}")

ax = treeanova.plot.change(change, k=8)
ax.figure.savefig(folder / "what_changed.png", dpi=150)
ax = treeanova.plot.change(change, "hr")
ax.figure.savefig(folder / "what_changed_hr.png", dpi=150)
treeanova.write_report(change, folder / "what_changed.html", title="Bike rentals: 2012 against 2011")
print("wrote what_changed.png, what_changed_hr.png and what_changed.html")
