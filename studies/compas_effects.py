"""COMPAS: the four models of recidivism and of the risk score, and their main effects by level, raw and pure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import treeanova
from studies.common import read_data
from studies.models import DENSITIES, PAPERS, held_out, make_models, pure_kinds, skills
from treeanova.core.arrays import Floats

Level = tuple[str, str]
Values = dict[Level, float]
Found = dict[str, dict[str, Values]]  # by model, by state

FEATURES = ("race", "sex", "age", "priors_count", "c_charge_degree")
STAY = "length_of_stay_days"
TITLES = dict(zip(FEATURES, ("race", "sex", "age", "prior offences", "charge"), strict=True))
TARGETS = {"two_year_recid": "recidivism", "decile_score": "COMPAS score"}
UNITS = {"two_year_recid": "log-odds", "decile_score": "deciles"}
MODELS = ("XGB", "XGB2", "GAM", "GA2M")
PAIRED = ("XGB2", "GA2M")
STATES = ("raw", "centred", *DENSITIES)
BLACK, WHITE = ("race", "African-American"), ("race", "Caucasian")
LARGE = 50  # rows; smaller levels are drawn, but not judged
NEAR_ZERO = 0.02  # a value this close to zero has no sign
MUCH = 0.25  # share of the levels, or of a size, from which on we speak of "many" or "significantly"
NEARER = 0.5  # ratio of distances below which one is "much more consistent"
NEAR = ("empirical", "counts + 1")  # the paper's densities that are close to the data
STRONGER = 1.5  # ratio of strengths between densities from which on they vary "significantly"


def read_rows() -> Any:
    """ProPublica's rows: screened within 30 days of the arrest, a known case, a charge of weight, a score."""
    data = read_data("compas_two_years.csv.gz")
    kept = (
        data["days_b_screening_arrest"].between(-30, 30)
        & (data["is_recid"] != -1)
        & (data["c_charge_degree"] != "O")
        & data["score_text"].isin(["Low", "Medium", "High"])
    )
    rows = data[kept].reset_index(drop=True)
    for name in ("race", "sex", "c_charge_degree"):
        rows[name] = rows[name].astype("category")
    return rows


def level_masks(X: Any) -> dict[Level, npt.NDArray[np.bool_]]:
    """Which rows have each level; age and prior offences in three groups."""
    import pandas as pd  # noqa: PLC0415

    age = pd.cut(X["age"], [0, 24, 45, 200], labels=["under 25", "25–45", "over 45"])
    priors = pd.cut(X["priors_count"], [-1, 0, 3, 200], labels=["none", "1–3", "4+"])
    grouped = {"age": age, "priors_count": priors}
    charges = {"F": "felony", "M": "misdem."}
    return {
        (name, charges.get(level, level)): (column == level).to_numpy()
        for name in FEATURES
        for column in [grouped.get(name, X[name])]
        for level in column.cat.categories
    }


def level_values(fx: Any, X: Any, masks: Mapping[Level, Any], *, centre: bool = False) -> Values:
    """Mean main effect over the rows of each level; zero where the model has no such main effect."""
    effects = {}
    for name in FEATURES:
        values = fx.term_values(X, name) if (name,) in fx.terms else np.zeros(len(X))
        effects[name] = values - values.mean() if centre else values
    return {level: float(effects[level[0]][mask].mean()) for level, mask in masks.items()}


def all_values(fx: Any, X: Any, masks: Mapping[Level, Any]) -> dict[str, Values]:
    """Values of all levels of one model, by state."""
    before = {
        "raw": level_values(fx.raw, X, masks),
        "centred": level_values(fx.raw, X, masks, centre=True),
    }
    return before | {kind: level_values(pure, X, masks) for kind, pure in pure_kinds(fx).items()}


def share_of_many_priors(fx: Any) -> float:
    """Weight that the uniform density gives to four and more prior offences."""
    term = fx.with_density("uniform").terms["priors_count"]
    bins = np.unique(term.axes[0].index(np.arange(4.0, 40.0)))
    return float(term.weights[bins].sum())


def contradictions(found: Found, state: str, levels: Sequence[Level]) -> list[tuple[Level, str, str]]:
    """Of some levels those to which two models give opposite signs, neither value near zero."""
    return [
        (level, first, second)
        for level in levels
        for first, second in itertools.combinations(found, 2)
        for a, b in [(found[first][state][level], found[second][state][level])]
        if a * b < 0 and min(abs(a), abs(b)) > NEAR_ZERO
    ]


def sign_changes(
    kinds: Mapping[str, Values], levels: Sequence[Level], densities: Sequence[str] = PAPERS
) -> list[Level]:
    """Of some levels those whose effect has one sign under one density and the other under another, in one model."""
    values = {level: [kinds[density][level] for density in densities] for level in levels}
    return [level for level, some in values.items() if min(some) < -NEAR_ZERO and max(some) > NEAR_ZERO]


def strength_changes(kinds: Mapping[str, Values], levels: Sequence[Level], densities: Sequence[str]) -> list[Level]:
    """Of some levels those whose effect is much stronger under one density than under another."""
    sizes = {level: [abs(kinds[density][level]) for density in densities] for level in levels}
    return [level for level, some in sizes.items() if max(some) > max(STRONGER * min(some), NEAR_ZERO)]


def main_effects(fx: Any, X: Any) -> Floats:
    """All main effects at rows, each shifted to mean zero."""
    values = np.column_stack(
        [fx.term_values(X, name) if (name,) in fx.terms else np.zeros(len(X)) for name in FEATURES]
    )
    centred: Floats = values - values.mean(axis=0)
    return centred


def relative_change(fx: Any, pure: Any, X: Any) -> float:
    """How far purification moves the main effects at the rows, relative to their own size; both of mean zero."""
    before, after = main_effects(fx.raw, X), main_effects(pure, X)
    return float(np.sqrt(((after - before) ** 2).mean() / (after**2).mean()))


def large(masks: Mapping[Level, Any]) -> list[Level]:
    """Levels with enough rows to say something."""
    return [level for level, mask in masks.items() if mask.sum() >= LARGE]


def distance(found: Found, model: str, state: str, masks: Mapping[Level, Any]) -> float:
    """Root mean square distance of a model's values from those of the GAM in the same state, levels by their rows."""
    weights = np.array([mask.sum() for mask in masks.values()])
    gaps = [found[model][state][level] - found["GAM"][state][level] for level in masks]
    return float(np.sqrt(np.average(np.square(gaps), weights=weights)))


def resampled(model: Any, X: Any, y: Any, masks: Mapping[Level, Any], n_resamples: int) -> dict[Level, Floats]:
    """Values of all levels in refits to resampled rows, pure under one density."""
    draws = []
    for seed in range(n_resamples):
        rows = np.random.default_rng(seed).integers(len(X), size=len(X))
        fx = treeanova.decompose(model.fit(X.iloc[rows], y.iloc[rows]), X, n_jobs=1)
        draws.append(list(level_values(fx, X, masks).values()))
    return dict(zip(masks, np.array(draws).T, strict=True))


class Measured(NamedTuple):
    """What is found of one target."""

    fitted: dict[str, Any]
    """Decompositions, by model."""
    found: Found
    changes: dict[str, dict[str, float]]
    """How far purification moves main effects, by model and density."""
    refits: dict[Level, Floats]
    tests: dict[str, Floats]
    two_stage: Any = None
    """Decomposition of what XGB2 adds to XGB when it is trained on what XGB leaves."""


def measure(X: Any, y: Any, masks: Mapping[Level, Any], *, quick: bool) -> Measured:
    """All models of one target."""
    from sklearn.base import clone  # noqa: PLC0415

    models = make_models(classify=y.name == "two_year_recid", n_pairs=10, base_score=0.5)
    fitted = {name: treeanova.decompose(model.fit(X, y), X, n_jobs=1) for name, model in models.items()}
    found = {name: all_values(fx, X, masks) for name, fx in fitted.items()}
    changes = {
        name: {kind: relative_change(fitted[name], pure, X) for kind, pure in pure_kinds(fitted[name]).items()}
        for name in ("XGB", *PAIRED)
    }
    refits = resampled(models["XGB2"], X, y, masks, 3 if quick else 20)
    tests = held_out({name: models[name] for name in PAIRED}, X, y, n_splits=1 if quick else 10, measure=skills)
    mains = models["XGB"].predict(X, output_margin=True)
    second = treeanova.decompose(clone(models["XGB2"]).fit(X, y, base_margin=mains), X, n_jobs=1)
    return Measured(fitted, found, changes, refits, tests, second)


def with_stay(rows: Any, masks: Mapping[Level, Any]) -> dict[str, dict[str, int]]:
    """Contradictions by target and state when the length of stay in jail is one of the features."""
    X = rows[[*FEATURES, STAY]]
    counted = {}
    for target in TARGETS:
        models = make_models(classify=target == "two_year_recid", n_pairs=10, base_score=0.5)
        found = {
            name: all_values(treeanova.decompose(model.fit(X, rows[target]), X, n_jobs=1), X, masks)
            for name, model in models.items()
        }
        counted[target] = {state: len(contradictions(found, state, large(masks))) for state in STATES}
    return counted
