"""What the studies on data share: the paper's four models, their decompositions by density, skill on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import treeanova
from studies.common import markdown_table, signed
from treeanova.core.arrays import Floats
from treeanova.density import Laplace

DENSITIES = ("uniform", "empirical", "half-half", "counts + 1", "auto")
PAPERS = DENSITIES[:4]
"""The paper's three densities, the third in both readings."""
READINGS = {"half-half": ("uniform", "empirical", "half-half"), "counts + 1": ("uniform", "empirical", "counts + 1")}
"""The paper's three densities by reading of the third."""


def make_models(*, classify: bool, n_pairs: int, base_score: float | None = None) -> dict[str, Any]:
    """The four models of the paper, unfitted: boosted stumps, trees of depth 2, EBMs without and with pairs."""
    from interpret.glassbox import (  # noqa: PLC0415
        ExplainableBoostingClassifier,
        ExplainableBoostingRegressor,
    )
    from xgboost import XGBClassifier, XGBRegressor  # noqa: PLC0415

    boosted, additive = (
        (XGBClassifier, ExplainableBoostingClassifier) if classify else (XGBRegressor, ExplainableBoostingRegressor)
    )
    trees = {"n_estimators": 300, "learning_rate": 0.1, "enable_categorical": True, "n_jobs": 1, "random_state": 0}
    bags = {"outer_bags": 4, "max_rounds": 1_000, "n_jobs": 1, "random_state": 0}
    return {
        "XGB": boosted(max_depth=1, base_score=base_score, **trees),
        "XGB2": boosted(max_depth=2, base_score=base_score, **trees),
        "GAM": additive(interactions=0, **bags),
        "GA2M": additive(interactions=n_pairs, **bags),
    }


def pure_kinds(fx: Any) -> dict[str, Any]:
    """A decomposition (made with auto) under each density."""
    return {
        "uniform": fx.with_density("uniform"),
        "empirical": fx.with_density("empirical"),
        "half-half": fx.with_density(Laplace(mix=0.5)),
        "counts + 1": fx.with_density(Laplace(counts=1)),
        "auto": fx,
    }


def held_out(
    models: Mapping[str, Any], X: Any, y: Any, *, n_splits: int, measure: Callable[[Any, Any, Any], list[float]]
) -> dict[str, Floats]:
    """Measures of decompositions on held-out quarters of the rows: per model an array (split, measure)."""
    measured: dict[str, list[list[float]]] = {name: [] for name in models}
    for split in range(n_splits):
        out = np.random.default_rng(split).random(len(X)) < 0.25
        for name, model in models.items():
            fx = treeanova.decompose(model.fit(X[~out], y[~out]), X[~out], n_jobs=1)
            measured[name].append(measure(fx, X[out], y[out]))
    return {name: np.array(rows) for name, rows in measured.items()}


def skills(fx: Any, X: Any, y: Any) -> list[float]:
    """Skill of the whole model, of its raw main effects and of its pure ones: offset and scale do not matter.

    AUC for classes, squared correlation for numbers.
    """
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415

    scores = [part.decision_function(X) for part in (fx, fx.raw.select(order=1), fx.select(order=1))]
    if fx.schema.link == "logit":
        return [float(roc_auc_score(y, score)) for score in scores]
    return [float(np.corrcoef(y, score)[0, 1] ** 2) for score in scores]


def mean_and_error(differences: Floats) -> tuple[float, float]:
    """Mean over held-out quarters and its standard error, for splits that share rows (Nadeau and Bengio's)."""
    n_splits = len(differences)
    if n_splits == 1:
        return float(differences[0]), float("inf")
    return float(differences.mean()), float(differences.std(ddof=1) * np.sqrt(1 / n_splits + 1 / 3))


def gain_of(found: Floats) -> tuple[float, float]:
    """By how much purification raises the skill of main effects alone, and its standard error."""
    return mean_and_error(found[:, 2] - found[:, 1])


def skill_table(tests: Mapping[str, Floats]) -> str:
    """Mean skill over splits of whole models, of their raw and of their pure main effects, and the difference."""
    rows = [(name, *(f"{value:.4f}" for value in found.mean(axis=0)[:3]), written(*gain_of(found)))
            for name, found in tests.items()]  # fmt: skip
    header = ("model", "whole model", "main effects alone, raw", "main effects alone, pure (auto)", "pure − raw")
    return markdown_table(rows, header)


def written(mean: float, error: float, digits: int = 4) -> str:
    """A mean with its standard error."""
    return f"{signed(mean, digits)} ± {error:.{digits}f}"


def unpurified_mass(fx: Any) -> float:
    """Mass that purification has to move out of the pairs: M of all raw pairs, added up."""
    total = 0.0
    for key, term in fx.terms.items():
        if len(key) == 2 and key in fx.raw.terms:
            moved = term.weights * fx.raw.terms[key].values
            total += sum(float(np.abs(moved.sum(axis=axis)).sum()) for axis in (0, 1))
    return total


def common_bins(kinds: Mapping[str, Any], name: str, X: Any) -> tuple[dict[str, float], float]:
    """Log-odds by which pairs of a feature move its curve if purified on the bins of main effects; between densities.

    Bins without rows are left out; 1st to 99th percentile, and curves are centred over the rows.
    """
    raw = kinds["raw"]
    low, high = np.nanpercentile(X[name], [1, 99])
    first, place = _rows_of_bins(raw, name, X)
    moved = dict[str, Any](dict.fromkeys(PAPERS, np.zeros(len(first))))  # if the feature is in no pair
    for other in [b for a in raw.terms if len(a) == 2 and name in a for b in a if b != name]:
        second, where = _rows_of_bins(raw, other, X)
        rows = X.iloc[np.repeat(first, len(second))]
        rows = rows.assign(**{other: X[other].iloc[np.tile(second, len(first))].array})
        table = raw.term_values(rows, (name, other)).reshape(len(first), -1)
        counts = np.zeros_like(table)
        np.add.at(counts, (place, where), 1)
        even = np.full_like(table, len(X) / table.size)
        weights = dict(zip(PAPERS, (even, counts, even + counts, 1 + counts), strict=True))
        for density, some in weights.items():
            moved[density] = moved[density] + treeanova.purify(table, some).terms[0,]
    inside = (X[name].iloc[first] >= low) & (X[name].iloc[first] <= high)
    curves = {density: (values - values[place].mean())[inside] for density, values in moved.items()}
    ends = [np.abs(a - b).max() for a in curves.values() for b in curves.values()]
    return {density: float(np.abs(values).max()) for density, values in curves.items()}, float(max(ends))


def _rows_of_bins(fx: Any, name: str, X: Any) -> tuple[Any, Any]:
    """A row in each bin of a main effect that has rows, and the place of every row's bin among these."""
    bins = fx.terms[name].axes[0].index(X[name])
    _, first, place = np.unique(bins, return_index=True, return_inverse=True)
    return first, place
