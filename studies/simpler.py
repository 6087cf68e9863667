"""Section 7.3: rougher main effects after purification, and whether simpler ones predict as well."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

import treeanova
from studies.common import WIDTH, Claim, Section, Settings, markdown_table, paragraphs, percent, pyplot, read_data
from studies.models import make_models, mean_and_error, written
from studies.support2 import read_support2
from treeanova import views as look
from treeanova.core.arrays import Floats

GROUPS = (2, 3, 5, 10, 20)
SIMPLE = 10  # groups: what we call a simple main effect
MODELS = {"SUPPORT2": ("XGB2", "GA2M"), "California": ("XGB2",)}
WORSE = 0.01  # of the model's gain over a constant


class Case(NamedTuple):
    """One model of one data set: losses on held-out rows and the roughness of its main effects."""

    losses: Floats
    """By split: of a constant, of the whole model, and with main effects in 2, 3, … groups."""
    rougher: int
    """Main effects that are rougher after purification."""
    n_mains: int
    values: float
    """Mean number of different values of a main effect."""


def simplified(values: Floats, codes: Floats, n_groups: int) -> Any:
    """A function that turns a main effect into its mean over groups of the rows, by rank of the feature.

    Missing values are a group of their own.
    """
    known = ~np.isnan(codes)
    ends = np.unique(np.quantile(codes[known], np.linspace(0, 1, n_groups + 1)[1:-1]))

    def group(x: Floats) -> Any:
        return np.where(np.isnan(x), len(ends) + 1, np.searchsorted(ends, np.nan_to_num(x), side="left"))

    groups = group(codes)
    sums, counts = (np.bincount(groups, weights, minlength=len(ends) + 2) for weights in (values, np.ones(len(values))))
    means = sums / np.maximum(counts, 1)
    return lambda x: means[group(x)]


def simpler_scores(fx: Any, train: Any, rows: Any, n_groups: int) -> Floats:
    """Scores at rows with every main effect of a number in so many groups; pairs and categories as they are."""
    score: Floats = np.array(fx.decision_function(rows))
    for (name,) in [key for key in fx.terms if len(key) == 1]:
        if train[name].dtype.kind not in "fi":
            continue
        replace = simplified(fx.term_values(train, name), train[name].to_numpy(dtype=float), n_groups)
        score = score - fx.term_values(rows, name) + replace(rows[name].to_numpy(dtype=float))
    return score


def loss(y: Any, score: Floats, *, classify: bool) -> float:
    """Log loss of log-odds, or the mean squared error."""
    y = np.asarray(y, dtype=float)
    return float((np.logaddexp(0, score) - y * score).mean() if classify else ((y - score) ** 2).mean())


def _roughness(fx: Any, name: str, train: Any) -> float:
    """Absolute changes of a main effect from row to row, in the order of the feature."""
    if (name,) not in fx.terms:
        return 0.0
    known = train[train[name].notna()].sort_values(name)
    return float(np.abs(np.diff(fx.term_values(known, name))).sum())


def measure(model: Any, X: Any, y: Any, *, classify: bool, n_splits: int) -> Case:
    """One model on held-out quarters of the rows."""
    losses, rougher, values, names = [], 0, [], [name for name in X if X[name].dtype.kind in "fi"]
    for split in range(n_splits):
        out = np.random.default_rng(split).random(len(X)) < 0.25
        train, rows = X[~out], X[out]
        fx = treeanova.decompose(model.fit(train, y[~out]), train, n_jobs=1)
        scores = [fx.decision_function(rows), *(simpler_scores(fx, train, rows, n) for n in GROUPS)]
        mean = float(np.mean(y[~out]))
        constant = np.full(len(rows), np.log(mean / (1 - mean)) if classify else mean)
        losses.append([loss(y[out], score, classify=classify) for score in (constant, *scores)])
        if split == 0:
            rougher = sum(_roughness(fx, name, train) > _roughness(fx.raw, name, train) * (1 + 1e-9) for name in names)
            values = [len(np.unique(fx.term_values(train, name))) for name in names if (name,) in fx.terms]
    return Case(np.array(losses), rougher, len(names), float(np.mean(values)))


def read_cases() -> dict[str, tuple[Any, Any, bool]]:
    """Data by name: features, outcome, whether it is a class; 8,000 districts of California, which takes less time."""
    california = read_data("california_housing.csv.gz").sample(8_000, random_state=0)
    X, y = read_support2()
    return {
        "SUPPORT2": (X, y.to_numpy(), True),
        "California": (california.drop(columns="MedHouseVal"), california["MedHouseVal"].to_numpy(), False),
    }


def run(settings: Settings) -> Section:
    """The study of Section 7.3."""
    cases = {}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Missing values detected")  # a remark on interpret's own plots
        for name, (X, y, classify) in read_cases().items():
            if settings.quick:
                X, y = X.iloc[:2_500], y[:2_500]
            models = make_models(classify=classify, n_pairs=6 if settings.quick else 10)
            for model in MODELS[name]:
                n_splits = 1 if settings.quick else 5
                cases[f"{model}, {name}"] = measure(models[model], X, y, classify=classify, n_splits=n_splits)
    body = paragraphs(
        "The paper gives no details of its simplification. Ours is the plainest: each pure main effect (density auto) "
        "is replaced by its mean over 2, 3, 5, 10 or 20 groups of rows of equal size, by rank of the feature; pairs "
        "stay as they are. Loss on held-out rows (log loss of SUPPORT2, mean squared error of California), by which "
        "the gain of the model over a constant is measured: 100 % is the gain with all main effects as learned. "
        "California: 8,000 districts.",
        settings.save(_figure(cases), "simpler", "Section 7.3: simpler main effects"),
        markdown_table(
            [
                (name, f"{case.values:.0f}", *(written(*_gain(case, k), digits=2) for k in range(len(GROUPS))))
                for name, case in cases.items()
            ],
            ("model, data", "values of a main effect", *(f"{n} groups" for n in GROUPS)),
        ),
        "Entries: change of the gain in percent of the model's gain over a constant, ± standard error; negative is "
        "worse.",
    )
    return Section("Simpler main effects: Section 7.3", body, claims(cases))


def _gain(case: Case, k: int) -> tuple[float, float]:
    """Gain in loss with simpler main effects, in percent of the model's gain over a constant; positive is better."""
    whole = (case.losses[:, 0] - case.losses[:, 1]).mean()
    return mean_and_error(100 * (case.losses[:, 1] - case.losses[:, 2 + k]) / whole)


def claims(cases: Mapping[str, Case]) -> tuple[Claim, ...]:
    """The claims of Section 7.3, judged."""
    at = GROUPS.index(SIMPLE)
    simple = {name: _gain(case, at) for name, case in cases.items()}
    fine = [name for name, (gain, error) in simple.items() if gain > -100 * WORSE or gain + 2 * error > 0]
    best = {
        name: max((_gain(case, k) for k in range(len(GROUPS))), key=lambda one: one[0]) for name, case in cases.items()
    }
    better = [name for name, (gain, error) in best.items() if gain > 2 * error]
    rougher, total = sum(case.rougher for case in cases.values()), sum(case.n_mains for case in cases.values())
    note = "SUPPORT2 and California"
    return (
        Claim(
            "less-smooth",
            "Section 7.3",
            "purification can produce main effects that are less smooth than the main effects of the original model",
            "holds" if rougher else "does not hold",
            "Most main effects of numbers are rougher after purification than before.",
            "Some main effect has larger absolute changes in total, added up over the rows, after purification (auto).",
            f"{rougher} of {total} main effects: "
            + ", ".join(f"{case.rougher} of {case.n_mains} ({name})" for name, case in cases.items())
            + ".",
            {"rougher": rougher, "all": total},
            note,
        ),
        Claim(
            "can-be-simplified",
            "Section 7.3",
            "main effects often can be simplified",
            "holds" if len(fine) > len(cases) / 2 else "in part" if fine else "does not hold",
            f"In {len(fine)} of {len(cases)} models {SIMPLE} values per main effect predict as well as all of them, "
            "within errors.",
            f"With {SIMPLE} groups the loss is not measurably worse (two standard errors), or by less than "
            f"{percent(WORSE, 0)} of the model's gain over a constant, in more than half of the models.",
            ", ".join(f"{name} {written(*gain, digits=2)} %" for name, gain in simple.items()) + ".",
            {name: gain for name, (gain, _) in simple.items()},
            note,
        ),
        Claim(
            "more-accurate",
            "Section 7.3",
            "in some cases, makes them modestly more accurate on test data",
            "holds" if better else "could not be tested",
            f"Simpler main effects predict held-out rows better, measurably so, in {len(better)} of {len(cases)} "
            "models."
            if better
            else "Simpler main effects bring no gain that is larger than its error, in any of our models.",
            "Some number of groups lowers the loss by more than two standard errors, in at least one model.",
            "Best number of groups: "
            + ", ".join(f"{name} {written(*gain, digits=2)} %" for name, gain in best.items())
            + ".",
            {f"gain {name}": gain for name, (gain, _) in best.items()}
            | {f"error {name}": error for name, (_, error) in best.items()},
            note,
        ),
    )


def _figure(cases: Mapping[str, Case]) -> Any:
    plt = pyplot()
    fig, ax = plt.subplots(figsize=(WIDTH, 2.7))
    for (name, case), colour, shift in zip(cases.items(), look.SERIES, (0.97, 1.0, 1.03), strict=False):
        gains = [_gain(case, k) for k in range(len(GROUPS))]
        errors = [2 * error if np.isfinite(error) else 0.0 for _, error in gains]
        ax.errorbar(
            np.array(GROUPS) * shift,
            [gain for gain, _ in gains],
            errors,
            fmt="o-",
            ms=4,
            lw=1.2,
            color=colour,
            label=name,
        )
    ax.axhline(0, color="#444444", lw=0.8)
    ax.set(xscale="log", xlabel="groups per main effect", ylabel="change of the gain, %")
    ax.set_xticks(GROUPS, [str(n) for n in GROUPS])
    ax.minorticks_off()
    ax.set_title("Few values per main effect are enough for SUPPORT2, not for California (bars: two standard errors)")
    ax.legend(ncols=2)
    return fig
