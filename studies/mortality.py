"""Death in hospital: risk curves of age and blood urea nitrogen before and after purification, on SUPPORT2."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

import treeanova
from studies.common import (
    WIDTH,
    Claim,
    Section,
    Settings,
    markdown_table,
    number,
    paragraphs,
    percent,
    pyplot,
    read_data,
    signed,
)
from studies.mimic import AGE_OF_THE_OLDEST, LABS, OLDEST_KNOWN_AGE, corrected_age
from studies.models import DENSITIES, held_out, make_models, pure_kinds, skill_table, skills
from treeanova.core.arrays import Floats
from treeanova.views import look

Kinds = Mapping[str, Any]  # decompositions of one model, by state

# What MIMIC-III has too: the person, the disease, signs and laboratory values. Costs, prognoses, orders not to
# resuscitate and lengths of stay know the outcome; scores made of the other columns are left out as well.
CATEGORIES = ("sex", "dzgroup", "ca")
NUMBERS = (
    *("age", "num.co", "diabetes", "dementia", "scoma", "hday", "meanbp", "wblc", "hrt", "resp", "temp", "pafi"),
    *("alb", "bili", "crea", "sod", "ph", "glucose", "bun", "urine"),
)
CURVES = {"age": "age, years", "bun": "blood urea nitrogen (BUN), mg/dl"}
FAMILIES = (("GAM", "GA2M"), ("XGB", "XGB2"))
STATES = ("raw", *DENSITIES)
FEW = 3_000
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
NEAR_50 = np.array([40.0, 60.0])

INTRO = """MIMIC-III is open to credentialed users only; `studies/mimic.py` loads it (ADMISSIONS, PATIENTS,
LABEVENTS). Here SUPPORT2 replaces it: {n_rows:,} seriously ill adults, {deaths} died in hospital, {n_features}
features, BUN missing for {missing}. Models as for COMPAS, GA2M with {n_pairs} pairs. Raw curves are shifted to mean
zero."""


def read_support2() -> tuple[Any, Any]:
    """Features and death in hospital of SUPPORT2."""
    data = read_data("support2.csv.gz", skipinitialspace=True)
    kinds = dict.fromkeys(NUMBERS, "float64") | dict.fromkeys(CATEGORIES, "category")
    return data[list(kinds)].astype(kinds), data["hospdead"]


def run(settings: Settings) -> Section:
    """The study, written."""
    X, y = read_support2()
    if settings.quick:
        rows = np.random.default_rng(0).choice(len(X), 4_000, replace=False)
        X, y = X.iloc[rows].reset_index(drop=True), y.iloc[rows].reset_index(drop=True)
    n_pairs = 8 if settings.quick else 20
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Missing values detected")  # a remark on interpret's own plots
        models = make_models(classify=True, n_pairs=n_pairs)
        fitted = {name: treeanova.decompose(model.fit(X, y), X, n_jobs=1) for name, model in models.items()}
        paired = {name: models[name] for name in ("GA2M", "XGB2")}
        n_splits = 1 if settings.quick else 4
        tests = held_out(paired, X, y, n_splits=n_splits, measure=_measures)
    few = X.index < FEW
    tests[f"XGB2 of {FEW:,} rows"] = held_out(
        {"XGB2": models["XGB2"]}, X[few], y[few], n_splits=n_splits, measure=_measures
    )["XGB2"]
    found = {name: {"raw": fx.raw} | pure_kinds(fx) for name, fx in fitted.items()}
    intro = INTRO.format(
        n_rows=len(X), deaths=percent(y.mean(), 0), n_features=X.shape[1], missing=percent(X["bun"].isna().mean(), 0),
        n_pairs=n_pairs,
    )  # fmt: skip
    body = paragraphs(
        intro,
        settings.save(_figure(found, X), "mortality", "Risk curves of age and BUN"),
        "**How far purification moves a curve**, in percent of the curve's own standard deviation (pure, auto); the "
        "last column is the largest distance between two densities:",
        _change_table(found, X),
        "**How rough a curve is**: absolute changes added up from the 1st to the 99th percentile, in log-odds:",
        _roughness_table(found, X),
        "**BUN from 40 to 60**, change in log-odds:",
        _near_50_table(found),
        "**Held-out rows**, AUC, mean over splits:",
        skill_table({name: values[:, :3] for name, values in tests.items()}),
        "**Weaker interactions**: log loss on held-out rows with pure pairs multiplied by a share:",
        _share_table(tests),
        _demo(),
    )
    return Section("Mortality (Figure 6, SUPPORT2 for MIMIC-III)", body, _claims(found, tests, X))


def _measures(fx: Any, X: Any, y: Any) -> list[float]:
    """Skills, then log loss with each share of the pure pairs."""
    mains, whole = fx.select(order=1).decision_function(X), fx.decision_function(X)
    scores = (mains + share * (whole - mains) for share in SHARES)
    return [*skills(fx, X, y), *(log_loss(y, score) for score in scores)]


def log_loss(y: Any, score: Floats) -> float:
    """Mean negative log-likelihood of classes 0 and 1 under log-odds."""
    return float(np.logaddexp(0, np.where(np.asarray(y) == 1, -score, score)).mean())


def at_rows(fx: Any, name: str, X: Any) -> Floats:
    """A main effect at rows, shifted to mean zero; zero where the model has none."""
    if (name,) not in fx.terms:
        return np.zeros(len(X))
    values: Floats = np.array(fx.term_values(X, name))
    values -= values.mean()
    return values


def changes(kinds: Kinds, name: str, X: Any) -> dict[str, float]:
    """Distance of a raw curve from the pure one under each density, and the largest between two densities."""
    curves = {state: at_rows(fx, name, X) for state, fx in kinds.items()}
    size = curves["auto"].std()
    moved = {density: float((curves[density] - curves["raw"]).std() / size) for density in DENSITIES}
    between = [(curves[a] - curves[b]).std() / size for a in DENSITIES for b in DENSITIES]
    return moved | {"between densities": float(max(between))}


def curve(fx: Any, name: str, points: Floats) -> Floats:
    """A main effect at values of its feature; zero where the model has none."""
    if (name,) not in fx.terms:
        return np.zeros(len(points))
    term = fx.terms[name]
    values: Floats = term.values[term.axes[0].index(points)]
    return values


def roughness(fx: Any, name: str, X: Any) -> float:
    """Sum of the absolute changes of a curve between the 1st and the 99th percentile of its feature."""
    low, high = np.nanpercentile(X[name], [1, 99])
    return float(np.abs(np.diff(curve(fx, name, np.linspace(low, high, 5_000)))).sum())


def _change_table(found: Mapping[str, Kinds], X: Any) -> str:
    rows = []
    for name in CURVES:
        for model in ("GA2M", "XGB2"):
            moved = changes(found[model], name, X)
            n_pairs = sum(len(key) == 2 and name in key for key in found[model]["auto"].terms)
            rows.append((f"{name} in {model}", n_pairs, *(percent(value, 0) for value in moved.values())))
    return markdown_table(rows, ("curve", "pairs with it", *DENSITIES, "between densities"))


def _roughness_table(found: Mapping[str, Kinds], X: Any) -> str:
    rows = [
        (
            f"{name} in {paired}",
            f"{roughness(found[plain]['raw'], name, X):.2f}",
            *(f"{roughness(found[paired][state], name, X):.2f}" for state in STATES),
        )
        for name in CURVES
        for plain, paired in FAMILIES
    ]
    return markdown_table(rows, ("curve", "same without pairs (GAM, XGB)", *STATES))


def _near_50(fx: Any) -> float:
    low, high = curve(fx, "bun", NEAR_50)
    return float(high - low)


def _near_50_table(found: Mapping[str, Kinds]) -> str:
    rows = [(model, *(signed(_near_50(found[model][state])) for state in STATES)) for model in ("GA2M", "XGB2")]
    return markdown_table(rows, ("model", *STATES))


def _share_table(tests: Mapping[str, Floats]) -> str:
    rows = [(name, *(f"{loss:.4f}" for loss in values[:, 3:].mean(axis=0))) for name, values in tests.items()]
    return markdown_table(rows, ("model", *(percent(share, 0) for share in SHARES)))


def _figure(found: Mapping[str, Kinds], X: Any) -> Any:
    """Curves of age (above) and BUN (below) in both families, with the rows along the bottom."""
    plt = pyplot()
    fig, axes = plt.subplots(2, 2, figsize=(WIDTH, 6.4), sharex="row", sharey="row")
    for row, (name, words) in zip(axes, CURVES.items(), strict=True):
        for ax, (plain, paired) in zip(row, FAMILIES, strict=True):
            _draw_curves(ax, name, found[plain], found[paired], X)
            ax.set_title(f"{plain} and {paired}")
            ax.set_xlabel(words)
        row[0].set_ylabel("change in log-odds of death")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return fig


def _draw_curves(ax: Any, name: str, plain: Kinds, paired: Kinds, X: Any) -> None:
    """Raw curves, shifted to mean zero, and pure ones on top."""
    low, high = np.nanpercentile(X[name], [1, 99])
    points = np.linspace(low, high, 1_500)
    held: dict[str, tuple[Any, dict[str, Any]]] = {
        "without pairs (GAM, XGB)": (plain["raw"], {"color": "#333333", "lw": 3.6}),
        "with pairs, raw": (paired["raw"], {"color": look.RAW, "lw": 2.4, "ls": (0, (3, 1)), "zorder": 3}),
    }
    ax.axhline(0, color="#444444", lw=0.8)
    for label, (fx, style) in held.items():
        shift = fx.term_values(X, name).mean() if (name,) in fx.terms else 0.0
        ax.plot(points, curve(fx, name, points) - shift, drawstyle="steps-mid", label=label, **style)
    for density, colour in zip(DENSITIES, look.SERIES, strict=False):
        values = curve(paired[density], name, points)
        ax.plot(points, values, color=colour, lw=1.4, drawstyle="steps-mid", label=f"pure, {density}")
    _draw_rows(ax, name, X)
    ax.set_xlim(low, high)


def _draw_rows(ax: Any, name: str, X: Any) -> None:
    """Some rows along the bottom."""
    known = X[name].dropna()
    known = known.sample(min(len(known), 1_500), random_state=0)
    ax.plot(known, np.full(len(known), 0.04), "|", color=look.DATA, alpha=0.3, ms=7, transform=ax.get_xaxis_transform())


def _demo() -> str:
    """A model of the demo extract of MIMIC-III: too few rows to learn from, enough to see that all runs."""
    from xgboost import XGBClassifier  # noqa: PLC0415

    data = read_data("mimic3_demo_admissions.csv")
    X = data[["age", *LABS]].assign(age=corrected_age(data["age"]))
    model = XGBClassifier(n_estimators=50, max_depth=2, n_jobs=1).fit(X, data["hospital_expire_flag"])
    fx = treeanova.decompose(model, X, n_jobs=1)
    gap = np.abs(fx.decision_function(X) - model.predict(X, output_margin=True)).max()
    return (
        f"**Smoke test on the MIMIC-III demo**: {len(X)} admissions, {(data['age'] > OLDEST_KNOWN_AGE).sum()} hidden "
        f"ages set to {AGE_OF_THE_OLDEST}; XGB2 of {X.shape[1]} features gives {len(fx.terms)} pure terms whose sum is "
        f"within {number(float(gap))} of the model's own log-odds. So few rows support no finding."
    )


def pair_share(fx: Any) -> float:
    """Share of the variance of the score in pairs."""
    table = fx.importance()
    return float(table.loc[table["order"] == 2, "share"].sum())


def _claims(found: Mapping[str, Kinds], tests: Mapping[str, Floats], X: Any) -> tuple[Claim, ...]:
    moved = {(name, model): changes(found[model], name, X) for name in CURVES for model in ("GA2M", "XGB2")}
    words = {key: _words(some) for key, some in moved.items()}
    rough = {state: roughness(found["GA2M"][state], "bun", X) for state in STATES}
    held = {model: (pair_share(found[model]["raw"]), pair_share(found[model]["auto"])) for model in ("GA2M", "XGB2")}
    best = {name: SHARES[int(values[:, 3:].mean(axis=0).argmin())] for name, values in tests.items()}
    gain = float((tests["GA2M"][:, 2] - tests["GA2M"][:, 1]).mean())
    where = "Section 6.3, Figure 6"
    return (
        Claim(
            where,
            "Age in GA2M: purification changes nothing visible, whatever the density",
            words["age", "GA2M"],
            "agree" if max(moved["age", "GA2M"].values()) < 0.15 else "in part",
        ),
        Claim(
            where,
            "Age in XGB2: purification matters, and the density can change the interpretation",
            words["age", "XGB2"],
            "agree" if moved["age", "XGB2"]["between densities"] > 0.1 else "in part",
        ),
        Claim(
            where,
            "BUN takes part in many interactions; purification alters its main effect even in GA2M, differently per "
            "density",
            words["bun", "GA2M"],
            "agree" if moved["bun", "GA2M"]["between densities"] > 0.3 else "in part",
        ),
        Claim(
            where,
            "Excessive granularity of pure main effects was hiding in the interactions, which have high variance",
            f"roughness of BUN in GA2M: {', '.join(f'{value:.2f} {state}' for state, value in rough.items())}; "
            "roughness under empirical that is absent under auto is noise of the density",
            "in part" if rough["auto"] < rough["empirical"] / 2 else "agree",
        ),
        Claim(
            where,
            "Regularizing interactions could improve accuracy",
            "best share of the pure pairs on held-out rows: "
            + ", ".join(f"{percent(share, 0)} ({name})" for name, share in best.items()),
            "agree" if max(best.values()) < 1 else "not" if min(best.values()) == 1 else "in part",
        ),
        Claim(
            "Section 6",
            "The two stages of GA2M leave less mass to move than XGB2",
            "share of the variance in pairs, raw → pure: "
            + ", ".join(f"{model} {percent(before)} → {percent(after)}" for model, (before, after) in held.items()),
            "agree" if held["GA2M"][0] < held["XGB2"][0] else "not",
        ),
        Claim(
            "Section 6",
            "On average purification improves the main effects of GA2M (SUPPORT2)",
            f"AUC of main effects alone on held-out rows: {signed(gain, 4)}",
            "agree" if gain > 0.002 else "not",
        ),
    )


def _words(moved: Mapping[str, float]) -> str:
    """How far a curve moves, in a line."""
    shares = [moved[density] for density in DENSITIES]
    return (
        f"the curve moves by {percent(min(shares), 0)} to {percent(max(shares), 0)} of its standard deviation; two "
        f"densities differ by up to {percent(moved['between densities'], 0)}"
    )
