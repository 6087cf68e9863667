"""Small models of tables with a schema of their own, for the accuracy and the tables of cards; no training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Key
from treeanova.data.features import Feature, Labels, Schema
from treeanova.model.axes import CategoryAxis, IntervalAxis
from treeanova.model.effects import Effects
from treeanova.model.grid import Grid

REGIONS = ("north", "south", "east", "west")


def tables_of_people(
    link: str, objective: str, classes: tuple[str, ...] = (), names: Any = ("age", "region")
) -> Effects:
    """Age in steps of ten with a bin for missing values, and a region, whose values are in no order; and their pair."""
    features = (Feature(names[0]), Feature(names[1], Labels(REGIONS)))
    outputs = classes[1:] if len(classes) == 2 else classes or ("score",)
    schema = Schema(features, outputs, link, named=True, classes=classes, objective=objective)
    age = IntervalAxis(names[0], 4, np.array([20.0, 30.0, 40.0]))
    region = CategoryAxis(names[1], 4, REGIONS, 4)
    pair = np.multiply.outer(np.array([0.2, -0.1, 0.0, 0.1, 0.0]), np.array([1.0, -1.0, 0.5, -0.5, 0.0]))
    terms: Mapping[Key, Floats] = {
        (0,): np.array([-1.2, 0.3, 0.3, 1.1, 0.6]),
        (1,): np.array([0.1, 0.9, -0.7, 0.4, -0.2]),
        (0, 1): pair,
    }
    factors = 1 + 0.5 * np.arange(len(outputs)) * (-1.0) ** np.arange(len(outputs))
    scaled = {key: table[..., None] * factors for key, table in terms.items()}
    scaled[0, 1] = pair[..., None] * (1.0 + np.arange(len(outputs)))  # strongest in the second of three
    return Effects(Grid(schema, (age, region)), 0.1 * factors, scaled)


def people(n_rows: int, names: Any = ("age", "region"), seed: int = 0) -> Any:
    """Rows of both features as a pandas table, some ages missing."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    age = np.where(rng.random(n_rows) < 0.1, np.nan, rng.uniform(10, 60, n_rows).round())
    return pd.DataFrame({names[0]: age, names[1]: rng.choice(REGIONS, n_rows)})
