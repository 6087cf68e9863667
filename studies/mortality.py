"""Section 6.3, Figure 6: risk curves of age and blood urea nitrogen, on SUPPORT2 in place of MIMIC-III."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

import treeanova
from studies.common import (
    WIDTH,
    Section,
    Settings,
    add_letters,
    markdown_table,
    number,
    paragraphs,
    percent,
    pyplot,
    read_data,
    signed,
    sum_of_terms,
)
from studies.judging import Claim, above, below, holds_if, undecided
from studies.mimic import AGE_OF_THE_OLDEST, LABS, OLDEST_KNOWN_AGE, corrected_age
from studies.models import (
    DENSITIES,
    PAPERS,
    common_bins,
    held_out,
    make_models,
    mean_and_error,
    pure_kinds,
    skill_table,
    skills,
    unpurified_mass,
    written,
)
from studies.support2 import read_support2
from treeanova import views as look
from treeanova.core.arrays import Floats

Kinds = Mapping[str, Any]  # decompositions of one model, by state

CURVES = {"age": "age, years", "bun": "blood urea nitrogen (BUN), mg/dl"}
FAMILIES = (("GAM", "GA2M"), ("XGB", "XGB2"))
PAIRED = ("GA2M", "XGB2")
STATES = ("raw", *DENSITIES)
FEW = 3_000
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
NEAR_50 = np.array([40.0, 60.0])
SEEN, READ = 0.05, 0.1  # log-odds from which on a change is perceptible, and from which on it changes the reading
SMALL, MUCH = 0.15, 0.25  # of a curve's s.d.
STAND_IN = "SUPPORT2"
ON_SUPPORT2 = "of such data, here SUPPORT2"
LACKING = undecided("MIMIC-III needs credentials, which we do not have")
CAPTION = """The paper's Figure 6 on SUPPORT2, change in log-odds of death: age (top) and BUN (bottom), in GAM and
GA2M (left), in XGB and XGB2 (right). Strokes along the bottom are patients; diamonds at the right are the bin of
missing values. (a) purification barely moves age in GA2M, except below 35 years; (b) in XGB2 the curve appears only
once purified; (c) the density decides the level of BUN in GA2M."""

INTRO = """SUPPORT2 stands in for MIMIC-III: {n_rows:,} seriously ill adults, {deaths} died in hospital, {n_features}
features, BUN missing for {missing} of them. XGB, XGB2, GAM and GA2M as for COMPAS, GA2M with {n_pairs} pairs. All
curves, raw and pure, are shifted to mean zero over the patients, so that they can be compared."""
FALLS = """On SUPPORT2 the risk is highest at low values of BUN, *falls* up to about 50 and rises only beyond 60: from
40 to 60 it changes by {least} to {most} log-odds under the densities, in both models. The model without pairs shows the
same, so this is a feature of the data, not of purification. {missing} of the patients have no value; their bin has an
effect of its own, the diamonds at the right of the figure."""


class Measured(NamedTuple):
    """All that is computed."""

    found: dict[str, dict[str, Any]]
    """Decompositions by model and state."""
    tests: dict[str, Floats]
    halves: dict[str, tuple[float, float]]
    """Correlation of main effects and of pairs between models of two halves of the rows."""


def run(settings: Settings) -> Section:
    """The study, written."""
    X, y = read_support2()
    if settings.quick:
        rows = np.random.default_rng(0).choice(len(X), 3_500, replace=False)
        X, y = X.iloc[rows].reset_index(drop=True), y.iloc[rows].reset_index(drop=True)
    n_pairs = 8 if settings.quick else 20
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Missing values detected")  # a remark on interpret's own plots
        measured = measure(X, y, n_pairs=n_pairs, n_splits=1 if settings.quick else 6)
    found, tests = measured.found, measured.tests
    falls = [near_50(found[model][density]) for model in PAIRED for density in DENSITIES]
    missing = percent(X["bun"].isna().mean(), 0)
    body = paragraphs(
        INTRO.format(
            n_rows=len(X), deaths=percent(y.mean(), 0), n_features=X.shape[1], missing=missing, n_pairs=n_pairs
        ),
        settings.save(_figure(found, X), "mortality", "Risk curves of age and BUN, raw and pure", CAPTION),
        FALLS.format(least=signed(max(falls)), most=signed(min(falls)), missing=missing),
        "**How far purification moves a curve** (raw to pure), in percent of the s.d. of the pure curve (auto), and "
        "in brackets the largest difference between the 1st and the 99th percentile in log-odds; the last column "
        "compares the paper's densities with each other:",
        _change_table(found, X),
        _about_bins(found["GA2M"], X),
        "**How rough a curve is**: absolute changes added up from the 1st to the 99th percentile, in log-odds:",
        _roughness_table(found, X),
        "**BUN from 40 to 60**, change in log-odds:",
        _near_50_table(found),
        "**Stability**: correlation between models of two halves of the patients, of the sum of all pure main effects "
        "and of the sum of all pure pairs, at all patients:",
        markdown_table(
            [(name, f"{main:.2f}", f"{pair:.2f}") for name, (main, pair) in measured.halves.items()],
            ("model", "main effects", "pairs"),
        ),
        "**Held-out rows**, AUC, mean over splits, ± standard error:",
        skill_table({name: values[:, :3] for name, values in tests.items()}),
        "**Weaker interactions**: log loss on held-out rows with pure pairs multiplied by a share:",
        _share_table(tests),
        "**Mass in the pairs** before purification (M of all pairs, auto, log-odds): "
        + ", ".join(f"{model} {unpurified_mass(found[model]['auto']):.2f}" for model in PAIRED)
        + ".",
        _demo(),
    )
    return Section("Mortality: Section 6.3, Figure 6, on SUPPORT2", body, claims(measured, X))


def measure(X: Any, y: Any, *, n_pairs: int, n_splits: int) -> Measured:
    """All models."""
    models = make_models(classify=True, n_pairs=n_pairs)
    fitted = {name: treeanova.decompose(model.fit(X, y), X, n_jobs=1) for name, model in models.items()}
    tests = held_out({name: models[name] for name in PAIRED}, X, y, n_splits=n_splits, measure=_measures)
    few = X.index < FEW
    tests[f"XGB2 of {FEW:,} rows"] = held_out(
        {"XGB2": models["XGB2"]}, X[few], y[few], n_splits=n_splits, measure=_measures
    )["XGB2"]
    found = {name: {"raw": fx.raw} | pure_kinds(fx) for name, fx in fitted.items()}
    return Measured(found, tests, {name: _halves(models[name], X, y) for name in PAIRED})


def _halves(model: Any, X: Any, y: Any) -> tuple[float, float]:
    """How alike the main effects and the pairs of models of two halves of the rows are."""
    first = np.random.default_rng(0).random(len(X)) < 0.5
    parts = []
    for rows in (first, ~first):
        fx = treeanova.decompose(model.fit(X[rows], y[rows]), X[rows], n_jobs=1)
        mains = fx.select(order=1).decision_function(X)
        parts.append((mains, fx.decision_function(X) - mains))
    main, pair = (float(np.corrcoef(parts[0][k], parts[1][k])[0, 1]) for k in (0, 1))
    return main, pair


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


def curve(fx: Any, name: str, points: Floats, X: Any = None) -> Floats:
    """A main effect at values of its feature, shifted to mean zero over X where given; zero if the model has none."""
    if (name,) not in fx.terms:
        return np.zeros(len(points))
    term = fx.terms[name]
    values: Floats = term.values[term.axes[0].index(points)]
    return values if X is None else values - fx.term_values(X, name).mean()


class Change(NamedTuple):
    """How far two curves are apart: relative to the s.d. of a curve, and at most, in log-odds."""

    relative: float
    largest: float

    def __str__(self) -> str:
        return f"{percent(self.relative, 0)} ({self.largest:.2f})"


def changes(kinds: Kinds, name: str, X: Any) -> dict[str, Change]:
    """Distance of a raw curve from the pure one under each density, and the largest between two of the paper's."""
    low, high = np.nanpercentile(X[name], [1, 99])
    points = np.linspace(low, high, 2_000)
    rows = {state: at_rows(fx, name, X) for state, fx in kinds.items()}
    lines = {state: curve(fx, name, points, X) for state, fx in kinds.items()}
    size = rows["auto"].std()

    def apart(a: str, b: str) -> Change:
        return Change(float((rows[a] - rows[b]).std() / size), float(np.abs(lines[a] - lines[b]).max()))

    between = [apart(a, b) for a in PAPERS for b in PAPERS]
    widest = Change(max(one.relative for one in between), max(one.largest for one in between))
    return {density: apart(density, "raw") for density in DENSITIES} | {"between": widest}


def _about_bins(kinds: Kinds, X: Any) -> str:
    """What purification on the bins of main effects would change for age."""
    moved, apart = common_bins(kinds, "age", X)
    return (
        "**Bins.** An EBM has fewer bins in its pairs than in its main effects, and each term is purified on its own, "
        "as in InterpretML. On the bins of the main effects, where most cells have no patient, purification moves age "
        f"in GA2M by up to {moved['empirical']:.2f} log-odds under empirical weights and {moved['uniform']:.2f} under "
        f"uniform ones, and the paper's densities differ by up to {apart:.3f}, where {READ:g} is the limit of the "
        "claim on them."
    )


def roughness(fx: Any, name: str, X: Any) -> float:
    """Sum of the absolute changes of a curve between the 1st and the 99th percentile of its feature."""
    low, high = np.nanpercentile(X[name], [1, 99])
    return float(np.abs(np.diff(curve(fx, name, np.linspace(low, high, 5_000)))).sum())


def n_pairs_with(fx: Any, name: str) -> int:
    """Number of pairs that contain a feature."""
    return sum(len(key) == 2 and name in key for key in fx.terms)


def _change_table(found: Mapping[str, Kinds], X: Any) -> str:
    rows = [
        (f"{name} in {model}", n_pairs_with(found[model]["auto"], name), *changes(found[model], name, X).values())
        for name in CURVES
        for model in PAIRED
    ]
    return markdown_table(rows, ("curve", "pairs with it", *DENSITIES, "between the paper's densities"))


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
    return markdown_table(rows, ("curve", "model without pairs (GAM, XGB)", *STATES))


def near_50(fx: Any) -> float:
    """Change of the curve of BUN from 40 to 60."""
    low, high = curve(fx, "bun", NEAR_50)
    return float(high - low)


def _near_50_table(found: Mapping[str, Kinds]) -> str:
    rows = [(model, *(signed(near_50(found[model][state])) for state in STATES)) for model in PAIRED]
    return markdown_table(rows, ("model", *STATES))


def _share_table(tests: Mapping[str, Floats]) -> str:
    rows = [(name, *(f"{loss:.4f}" for loss in values[:, 3:].mean(axis=0))) for name, values in tests.items()]
    return markdown_table(rows, ("model", *(percent(share, 0) for share in SHARES)))


class Gain(NamedTuple):
    """Gain in log loss of a share of the pairs over all of them, its standard error and the number of splits."""

    share: float
    mean: float
    error: float
    n_splits: int

    def end(self, sign: int) -> float:
        """The lower (−1) or upper (1) end of an interval of 95 % for all shares together."""
        width = student.ppf(1 - 0.025 / (len(SHARES) - 1), max(self.n_splits - 1, 1)) * self.error
        return float(self.mean + sign * width)


def share_gains(values: Floats) -> list[Gain]:
    """The gains of all shares below the whole."""
    losses = values[:, 3:]
    return [
        Gain(share, *mean_and_error(losses[:, -1] - losses[:, k]), len(losses)) for k, share in enumerate(SHARES[:-1])
    ]


def _figure(found: Mapping[str, Kinds], X: Any) -> Any:
    """Curves of age (above) and BUN (below) in both families, with the rows along the bottom."""
    plt = pyplot()
    fig, axes = plt.subplots(2, 2, figsize=(WIDTH, 5.6), sharex="row", sharey="row")
    for row, (name, words) in zip(axes, CURVES.items(), strict=True):
        for ax, (plain, paired) in zip(row, FAMILIES, strict=True):
            _draw_curves(ax, name, found[plain], found[paired], X)
            ax.set_title(f"{name.upper() if name == 'bun' else 'Age'} in {plain} and {paired}")
            ax.set_xlabel(words)
        row[0].set_ylabel("change in log-odds of death")
    add_letters(axes.flat)
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, columnspacing=1)
    return fig


def _draw_curves(ax: Any, name: str, plain: Kinds, paired: Kinds, X: Any) -> None:
    """Raw curves and pure ones on top, all of mean zero over the rows; at the right the bin of missing values."""
    low, high = np.nanpercentile(X[name], [1, 99])
    points, gap = np.linspace(low, high, 1_500), 0.06 * (high - low)
    lines: dict[str, tuple[Any, dict[str, Any]]] = {
        "without pairs (GAM, XGB)": (plain["raw"], {"color": "#333333", "lw": 3}),
        "with pairs, raw": (paired["raw"], {"color": look.RAW, "lw": 2.2, "ls": (0, (3, 1)), "zorder": 3}),
    }
    lines |= {
        f"pure, {density}": (paired[density], {"color": colour, "lw": 1.1})
        for density, colour in zip(DENSITIES, look.SERIES, strict=False)
    }
    ax.axhline(0, color="#444444", lw=0.7)
    has_missing = bool(X[name].isna().any())
    for k, (label, (fx, style)) in enumerate(lines.items()):
        ax.plot(points, curve(fx, name, points, X), drawstyle="steps-mid", label=label, **style)
        if has_missing:
            (value,) = curve(fx, name, np.array([np.nan]), X)
            ax.plot(high + (0.7 + 0.35 * k) * gap, value, "D", ms=3.5, color=style["color"], clip_on=False)
    if has_missing:
        ax.axvline(high + 0.3 * gap, color="#bbbbbb", lw=0.8)
        ax.text(high + 1.8 * gap, 0.99, f"missing\n{percent(X[name].isna().mean(), 0)}", ha="center", va="top",
                fontsize=7, transform=ax.get_xaxis_transform())  # fmt: skip
    _draw_rows(ax, name, X)
    ax.set_xticks([tick for tick in ax.get_xticks() if low <= tick <= high])
    ax.set_xlim(low, high + (3.4 * gap if has_missing else 0))


def _draw_rows(ax: Any, name: str, X: Any) -> None:
    """Some rows along the bottom."""
    known = X[name].dropna()
    known = known.sample(min(len(known), 1_500), random_state=0)
    known = known[known <= np.percentile(X[name].dropna(), 99)]
    ax.plot(known, np.full(len(known), 0.03), "|", color=look.DATA, alpha=0.3, ms=5, transform=ax.get_xaxis_transform())


def _demo() -> str:
    """A model of the demo extract of MIMIC-III: too few rows to learn from, enough to see that all runs."""
    from xgboost import XGBClassifier  # noqa: PLC0415

    data = read_data("mimic3_demo_admissions.csv")
    X = data[["age", *LABS]].assign(age=corrected_age(data["age"]))
    model = XGBClassifier(n_estimators=50, max_depth=2, n_jobs=1).fit(X, data["hospital_expire_flag"])
    fx = treeanova.decompose(model, X, n_jobs=1)
    gap = np.abs(sum_of_terms(fx, X) - model.predict(X, output_margin=True)).max()
    return (
        f"**Smoke test on the MIMIC-III demo**, which is open: {len(X)} admissions, "
        f"{(data['age'] > OLDEST_KNOWN_AGE).sum()} hidden ages set to {AGE_OF_THE_OLDEST}; XGB2 of {X.shape[1]} "
        f"features gives {len(fx.terms)} pure terms whose sum is within {number(float(gap))} of the model's own "
        "log-odds. So few rows support no finding."
    )


def claims(measured: Measured, X: Any) -> tuple[Claim, ...]:
    """The claims of Section 6.3, judged."""
    moved = {(name, model): changes(measured.found[model], name, X) for name in CURVES for model in PAIRED}
    return (
        *_age_claims(moved),
        *_bun_claims(measured.found, moved),
        _granularity_claim(measured.found, X),
        *_variance_claims(measured),
    )


Moved = Mapping[tuple[str, str], Mapping[str, Change]]


def _range(moved: Mapping[str, Change], part: str) -> tuple[float, float]:
    values = [getattr(moved[density], part) for density in PAPERS]
    return min(values), max(values)


def _numbers(moved: Mapping[str, Change]) -> dict[str, float]:
    return {
        "least share": _range(moved, "relative")[0],
        "most share": _range(moved, "relative")[1],
        "least log-odds": _range(moved, "largest")[0],
        "most log-odds": _range(moved, "largest")[1],
        "share between densities": moved["between"].relative,
        "log-odds between densities": moved["between"].largest,
    }


_CURVE = (
    "How far purification moves the curve of {}, in shares of its s.d. and in log-odds between the 1st and the 99th "
    "percentile (the point where it moves most): least and most over the paper's densities, and the largest difference "
    "between two of them."
)


def _age_claims(moved: Moved) -> tuple[Claim, ...]:
    where = "Section 6.3, Figure 6a"
    calm, wild = _numbers(moved["age", "GA2M"]), _numbers(moved["age", "XGB2"])
    small = below("share between densities", SMALL)
    moves = above("least share", MUCH)
    return (
        Claim(
            "age-imperceptible",
            where,
            "The upper left graph (the main effect of Age for GAM/GA2Ms) shows imperceptible change due to "
            "purification",
            "For most patients purification does not visibly change the curve of age in GA2M; below 35 years it does.",
            _CURVE.format("age in GA2M"),
            calm,
            LACKING,
            holds_if(below("most log-odds", SEEN), partly=(below("most share", SMALL),)),
            ON_SUPPORT2,
            stand_in=STAND_IN,
        ),
        Claim(
            "age-density",
            where,
            "the selection of distribution used for purification does not make a large difference in this case",
            "The curves of age in GA2M under the paper's densities are close to each other, with its pair purified on "
            "the pair's own bins.",
            _CURVE.format("age in GA2M"),
            calm,
            LACKING,
            holds_if(small, below("log-odds between densities", READ), partly=(small,)),
            ON_SUPPORT2,
            stand_in=STAND_IN,
        ),
        Claim(
            "age-xgb2",
            where,
            "The XGB2 model is not designed to prioritize main effects over interaction effects, so purification "
            "makes non-negligible impact and the selection of a distribution can change model interpretation",
            "In XGB2 nearly all of the effect of age is in pairs before purification; afterwards its size depends on "
            "the density.",
            _CURVE.format("age in XGB2"),
            wild,
            LACKING,
            holds_if(moves, above("log-odds between densities", READ), partly=(moves,)),
            ON_SUPPORT2,
            stand_in=STAND_IN,
        ),
    )


def _bun_claims(found: Mapping[str, Kinds], moved: Moved) -> tuple[Claim, ...]:
    where = "Section 6.3, Figure 6b"
    bun, age = _numbers(moved["bun", "GA2M"]), _numbers(moved["age", "GA2M"])
    fx = found["GA2M"]["auto"]
    counts = {name: n_pairs_with(fx, name) for (name,) in (key for key in fx.terms if len(key) == 1)}
    usual = float(np.median(list(counts.values())))
    ratios = {
        "BUN / age, log-odds": bun["log-odds between densities"] / max(age["log-odds between densities"], 1e-9),
        "BUN / age, share": bun["share between densities"] / max(age["share between densities"], 1e-9),
        "pairs / median": counts["bun"] / max(usual, 0.5),
    }
    slopes = [near_50(found[model][density]) for model in PAIRED for density in PAPERS]
    ends = {"lowest change": min(slopes), "highest change": max(slopes)}
    larger = above("BUN / age, log-odds", 1), above("BUN / age, share", 1)
    return (
        Claim(
            "bun-magnified",
            where,
            "These differences are magnified for the variable blood urea nitrogen (BUN) which participates in a large "
            "number of interactions",
            "BUN takes part in more pairs of GA2M than most features, and the density matters more for it than for "
            "age.",
            "Largest difference of GA2M's curve between two of the paper's densities, BUN's over that of age; pairs "
            "with "
            f"BUN over the median of all features (BUN: {counts['bun']} of {sum(counts.values()) // 2} pairs, median "
            f"{usual:g}).",
            ratios,
            LACKING,
            holds_if(*larger, above("pairs / median", 2), partly=larger),
            ON_SUPPORT2,
            stand_in=STAND_IN,
        ),
        Claim(
            "bun-altered",
            where,
            "it is apparent that the interaction terms still capture some main effects because mass-moving "
            "significantly alters the main effect of this variable",
            "Even in GA2M purification moves the curve of BUN, under every density.",
            _CURVE.format("BUN in GA2M"),
            bun,
            LACKING,
            holds_if(above("least log-odds", READ), partly=(above("most log-odds", READ),)),
            ON_SUPPORT2,
            stand_in=STAND_IN,
        ),
        Claim(
            "bun-near-50",
            where,
            "the purified risk curves can produce different interpretations for different distributions (e.g., the "
            "curve of the risk graph at BUN near 50)",
            "Densities change how far the risk falls, but not that it falls: towards 50 it does so under all of them.",
            "Change of the curve of BUN from 40 to 60, in log-odds: the lowest and the highest over both models and "
            "the "
            "paper's densities; and the largest difference of GA2M's curves anywhere.",
            ends | {"log-odds between densities": bun["log-odds between densities"]},
            LACKING,
            holds_if(
                below("lowest change", 0),
                above("highest change", 0),
                partly=(above("log-odds between densities", READ),),
            ),
            ON_SUPPORT2 + "; rising under one density and falling under another",
            stand_in=STAND_IN,
        ),
    )


def _granularity_claim(found: Mapping[str, Kinds], X: Any) -> Claim:
    kinds = found["GA2M"]
    rough = {f"roughness, {state}": roughness(kinds[state], "bun", X) for state in STATES}
    gap = max(
        float(np.abs(sum_of_terms(kinds[density], X) - kinds["raw"].decision_function(X)).max())
        for density in DENSITIES
    )
    return Claim(
        "granularity",
        "Section 6.3",
        "Purification does not change the overall model, so any excessive granularity in the purified main effects "
        "must have been hiding in the interaction effects",
        "The model stays the same, and the pure curves are rougher than the raw ones; how rough depends on the "
        "density: for BUN in GA2M least under auto.",
        "Largest difference of the sum of all pure terms to the raw model's score, at any patient and under any "
        "density; and the roughness of BUN in GA2M.",
        {"gap": gap} | rough,
        holds_if(below("gap", 1e-8)),
        stand_in=STAND_IN,
    )


def _variance_claims(measured: Measured) -> tuple[Claim, ...]:
    ratios = {f"pairs / main effects, {name}": pair / main for name, (main, pair) in measured.halves.items()}
    shares = {name: share_gains(values) for name, values in measured.tests.items()}
    ends = {
        f"{end}, {name}": max(one.end(sign) for one in gains)
        for name, gains in shares.items()
        for end, sign in (("lower", -1), ("upper", 1))
    }
    lower = [above(f"lower, {name}", 0) for name in shares]
    return (
        Claim(
            "high-variance",
            "Section 6.3",
            "This leads us to believe that tree-based models tend to estimate high-variance interaction effects",
            "Pairs learned from one half of the patients resemble those of the other half less than main effects do, "
            "in "
            "XGB2 far less.",
            "Correlation between models of two halves of the patients: that of the sum of all pure pairs over that of "
            "the main effects.",
            ratios,
            holds_if(*(below(name, 0.5) for name in ratios), partly=tuple(below(name, 1) for name in ratios)),
            stand_in=STAND_IN,
        ),
        Claim(
            "regularize",
            "Section 6.3",
            "regularizing these interaction effects could improve predictive accuracy",
            "No gain that could be measured from shrinking all pure pairs by one factor.",
            "Gain in log loss on held-out rows of pure pairs multiplied by 0, 25, 50 or 75 %, over 100 %: the highest "
            "lower and the highest upper end over the four shares, of intervals of 95 % for the four together "
            "(Bonferroni, Student's t).",
            ends,
            holds_if(*lower, fails=tuple(below(f"upper, {name}", 0) for name in shares)),
            found="; ".join(
                f"{name}: " + ", ".join(f"{percent(one.share, 0)} {written(one.mean, one.error)}" for one in gains)
                for name, gains in shares.items()
            )
            + ".",
            stand_in=STAND_IN,
        ),
    )
