"""Section 7.3: rougher main effects after purification, and whether simpler ones predict as well."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

import treeanova
from studies.common import WIDTH, Section, Settings, markdown_table, paragraphs, pyplot, read_data
from studies.judging import Claim, above, below, holds_if, undecided
from studies.models import make_models, mean_and_error, written
from studies.support2 import read_support2
from treeanova import views as look
from treeanova.core.arrays import Floats

MODELS = {"SUPPORT2": ("XGB2", "GA2M"), "California": ("XGB2",)}
PARTS = ("main effects", "all terms")
MARGIN = 1.0  # percent of the gain over a constant: a loss of less is no loss
LEVEL = 0.95  # one-sided, of all models together
STAND_IN = "SUPPORT2 and California"
_BODY = """The paper gives no details of its simplification. Here `fx.simplify` does it, the post-hoc regularization
of treeanova: tables are divided into few cells, terms get strengths near 1, and needless terms go, all by rows that
the model was not trained on. Half of the rows train the model, a quarter simplifies it, a quarter judges: log loss
of SUPPORT2, mean squared error of California (8,000 districts). Two parts are simplified, each for itself: the pure
main effects alone (`fx.select(order=1).simplify`, density auto), which are what the paper speaks of, and all terms.
Gains are in percent of what the same part gains over a constant; positive is better. A simplification that needs
held-out rows has seen a quarter of the rows more than the model, so that a small gain is no proof that simpler is
better."""
_CAPTION = """Section 7.3: change of the gain on judging rows by `fx.simplify`, in percent of the gain over a
constant, with two standard errors; circles: main effects alone, squares: all terms. A simpler model whose bar lies
within the grey band loses less than 1 %, which we call as good or better. The claims are judged by wider intervals,
for all models together."""


class Case(NamedTuple):
    """One model of one data set: losses on judging rows, roughness and sizes of its main effects."""

    losses: Mapping[str, Floats]
    """By part: per split the loss of a constant, of the part and of the simplified part."""
    rougher: int
    """Main effects that are rougher after purification."""
    n_mains: int
    values: tuple[float, float]
    """Mean number of values of a main effect before and after `simplify`."""


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


def n_values(fx: Any, rows: Any) -> float:
    """Mean number of different values of a main effect at rows."""
    return float(np.mean([len(np.unique(fx.term_values(rows, key[0]))) for key in fx.terms if len(key) == 1]))


def measure(model: Any, X: Any, y: Any, *, classify: bool, n_splits: int) -> Case:
    """One model on random halves, quarters and quarters of the rows."""
    losses: dict[str, list[list[float]]] = {part: [] for part in PARTS}
    rougher, values, names = [], [], [name for name in X if X[name].dtype.kind in "fi"]
    for split in range(n_splits):
        draw = np.random.default_rng(split).random(len(X))
        train, held, out = draw < 0.5, (draw >= 0.5) & (draw < 0.75), draw >= 0.75
        fx = treeanova.decompose(model.fit(X[train], y[train]), X[train], n_jobs=1)
        mean = float(np.mean(y[train]))
        constant = np.full(out.sum(), np.log(mean / (1 - mean)) if classify else mean)
        for part, whole in zip(PARTS, (fx.select(order=1), fx), strict=True):
            simple = whole.simplify(X[held], y[held]).chosen
            scores = constant, whole.decision_function(X[out]), simple.decision_function(X[out])
            losses[part].append([loss(y[out], score, classify=classify) for score in scores])
            if part == PARTS[0]:
                values.append((n_values(whole, X[train]), n_values(simple, X[train])))
        grows = [_roughness(fx, n, X[train]) > _roughness(fx.raw, n, X[train]) * (1 + 1e-9) for n in names]
        rougher.append(sum(grows))
    before, after = np.mean(values, axis=0)
    return Case({p: np.array(some) for p, some in losses.items()}, rougher[0], len(names), (before, after))


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
                X, y = X.iloc[:2_000], y[:2_000]
            models = make_models(classify=classify, n_pairs=4 if settings.quick else 10)
            for model in MODELS[name]:
                n_splits = 2 if settings.quick else 6
                cases[f"{model}, {name}"] = measure(models[model], X, y, classify=classify, n_splits=n_splits)
    rows = [
        (name, *(f"{n:.0f}" for n in case.values), *(written(*gain(case, part), digits=2) for part in PARTS))
        for name, case in cases.items()
    ]
    header = ("model, data", "values of a main effect", "after `simplify`", *(f"gain, {part}, %" for part in PARTS))
    words = "Change of the gain on judging rows by simplification"
    figure = settings.save(_figure(cases), "simpler", words, _CAPTION)
    body = paragraphs(_BODY, figure, markdown_table(rows, header))
    return Section("Simpler main effects: Section 7.3", body, claims(cases))


def gain(case: Case, part: str) -> tuple[float, float]:
    """Gain in loss by simplification, in percent of the part's gain over a constant, and its standard error."""
    constant, whole, simple = case.losses[part].T
    return mean_and_error(100 * (whole - simple) / (constant - whole).mean())


def ends(case: Case, part: str, n_models: int) -> tuple[float, float]:
    """Ends of an interval of the gain, each one-sided at 5 % for all models together (Bonferroni)."""
    middle, error = gain(case, part)
    width = student.ppf(1 - (1 - LEVEL) / n_models, max(len(case.losses[part]) - 1, 1)) * error
    return middle - width, middle + width


def claims(cases: Mapping[str, Case]) -> tuple[Claim, ...]:
    """The claims of Section 7.3, judged."""
    rougher, total = sum(case.rougher for case in cases.values()), sum(case.n_mains for case in cases.values())
    sides = {name: ends(case, PARTS[0], len(cases)) for name, case in cases.items()}
    shares = {
        "equivalent": float(np.mean([low > -MARGIN for low, _ in sides.values()])),
        "worse": float(np.mean([high < -MARGIN for _, high in sides.values()])),
        "share of values left": float(np.mean([case.values[1] / case.values[0] for case in cases.values()])),
    }
    best = {"highest lower end": max(low for low, _ in sides.values())}
    best |= {"highest upper end": max(high for _, high in sides.values())}
    unnamed = undecided("the paper's results are preliminary, without data, models or numbers")
    found = "Ends: " + "; ".join(f"{name} {low:.2f} % to {high:.2f} %" for name, (low, high) in sides.items()) + "."
    found = found.replace("-", "−")
    interval = (
        f"one-sided ends at {100 * (1 - LEVEL):.0f} % for the {len(cases)} models together (Bonferroni, Student's t) "
        "of the "
        "gain of main effects alone"
    )
    return (
        Claim(
            "less-smooth",
            "Section 7.3",
            "purification can produce main effects that are less smooth than the main effects of the original model",
            "Many main effects of numbers are rougher after purification than before.",
            "How many main effects of numbers have larger absolute changes, added up over the rows, after purification "
            "(auto).",
            {"rougher": rougher, "all": total},
            holds_if(above("rougher", 0)),
            found=", ".join(f"{case.rougher} of {case.n_mains} ({name})" for name, case in cases.items()) + ".",
            stand_in=STAND_IN,
        ),
        Claim(
            "can-be-simplified",
            "Section 7.3",
            "main effects often can be simplified",
            "Main effects with fewer values predict with no loss that could be measured; only California shows that it "
            "is less than 1 % of the gain over a constant."
            if shares["equivalent"] <= 0.5
            else "In most models main effects with fewer values predict as well, within 1 % of the gain.",
            f"Equivalent: share of the models whose lower end is above −{MARGIN:g} %, our margin of equivalence; "
            f"worse: share whose upper end is below it; {interval}. Share of the values of a main effect that "
            "are left.",
            shares,
            unnamed,
            holds_if(above("equivalent", 0.5), below("share of values left", 0.67), fails=(above("worse", 0.5),)),
            "of models and data in general",
            found=found,
            stand_in=STAND_IN,
        ),
        Claim(
            "more-accurate",
            "Section 7.3",
            "in some cases, makes them modestly more accurate on test data",
            "A gain in accuracy of main effects alone cannot be told from chance in any of our models."
            if best["highest lower end"] <= 0
            else "In some model simplified main effects predict better; part of that may come from the rows that the "
            "simplification saw in addition.",
            f"The highest of the lower and of the upper ends; {interval}.",
            best,
            unnamed,
            holds_if(above("highest lower end", 0), fails=(below("highest upper end", 0),)),
            "of models and data in general",
            found=found,
            stand_in=STAND_IN,
        ),
    )


def _figure(cases: Mapping[str, Case]) -> Any:
    plt = pyplot()
    fig, ax = plt.subplots(figsize=(WIDTH, 2.0))
    for k, case in enumerate(cases.values()):
        for part, mark, shift in zip(PARTS, "os", (-0.13, 0.13), strict=True):
            middle, error = gain(case, part)
            width = 2 * error if np.isfinite(error) else 0.0
            label = part if not k else None
            ax.errorbar(middle, k + shift, xerr=width, fmt=mark, ms=4.5, color=look.SERIES[shift > 0], label=label)
    left, right = ax.get_xlim()
    ax.axvspan(-MARGIN, right, color="#ececec", lw=0, zorder=0)
    ax.set_xlim(left, right)
    ax.axvline(0, color="#444444", lw=0.8)
    ax.set_yticks(range(len(cases)), list(cases))
    ax.set(ylim=(len(cases) - 0.5, -0.5), xlabel="change of the gain by fx.simplify, % of the gain over a constant")
    ax.grid(visible=False, axis="y")
    ax.legend(loc="best")
    return fig
