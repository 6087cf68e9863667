"""How well densities recover the effects: a suite with known truths, written to docs/accuracy.md.

A model is trained on n rows of a known distribution and decomposed under each density estimated from these rows. The
truth is the same model, on the same bins, under the true density: counted from millions of fresh rows. The error is the
sum over all terms of the weighted squared difference of effects, relative to that of the true effects; weights are the
true density's. Ratios are of geometric means over seeds, so that one lucky draw proves nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import io
import pathlib
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import treeanova
from benchmarks import known_truth
from treeanova.core.arrays import Floats, Key
from treeanova.decomposition.answers import table_weights_of
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.predictions import function_of
from treeanova.density import Auto, Density, Empirical, Independent
from treeanova.density.smooth import choice as candidates
from treeanova.density.smooth.choice import Candidates, PairStack, all_candidates
from treeanova.density.smooth.margins import SCALES, Scale
from treeanova.model.grid import Binning

Draw = Callable[[int, np.random.Generator], Floats]

# Auto's candidates and its rule were chosen on seeds 0 and 1: these are others.
FIRST_SEED = 200
PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "accuracy.md"
KINDS = ("empirical", "laplace", "shrinkage", "independent", "kernel", "auto")
SPLIT_KINDS = ("empirical", "auto", "auto without families", "true copula")
_TRUE_ROWS = 5_000_000
_NOISE = 0.3
_SWEEPS = 30


# Distributions of three features


def _normal(n: int, rng: np.random.Generator, correlation: float = 0.0) -> Floats:
    """Standard normals with equal correlations."""
    common = rng.standard_normal((n, 1))
    rows: Floats = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * rng.standard_normal((n, 3))
    return rows


def _student(n: int, rng: np.random.Generator) -> Floats:
    return _normal(n, rng, 0.5) / np.sqrt(rng.chisquare(2, (n, 1)) / 2)


def _clayton(n: int, rng: np.random.Generator, theta: float = 3.0) -> Floats:
    frailty = rng.gamma(1 / theta, size=(n, 1))
    return (1 + rng.exponential(size=(n, 3)) / np.maximum(frailty, 1e-300)) ** (-1 / theta)


def _gumbel(n: int, rng: np.random.Generator) -> Floats:
    """θ = 2: the frailty is Lévy's stable law, 1 / (2 Z²)."""
    frailty = 0.5 / rng.standard_normal((n, 1)) ** 2
    return np.exp(-np.sqrt(rng.exponential(size=(n, 3)) / frailty))


def _banana(n: int, rng: np.random.Generator) -> Floats:
    x, noise, other = rng.standard_normal((3, n))
    return np.stack([x, x**2 + 0.5 * noise, 0.5 * x + other], axis=1)


def _clusters(n: int, rng: np.random.Generator) -> Floats:
    centres = np.array([[0.0, 0.0, 0.0], [3.0, 1.0, 2.0], [1.0, 4.0, -1.0]])
    return centres[rng.integers(0, 3, n)] + 0.6 * rng.standard_normal((n, 3))


def _ring(n: int, rng: np.random.Generator) -> Floats:
    angle = rng.uniform(0, 2 * np.pi, n)
    circle = np.stack([np.cos(angle), np.sin(angle), np.zeros(n)], axis=1)
    return circle + rng.standard_normal((n, 3)) * [0.1, 0.1, 1.0]


def _discrete(n: int, rng: np.random.Generator) -> Floats:
    rows = _normal(n, rng, 0.7)
    rows[:, 0] = np.searchsorted([-1.2, -0.4, 0.3, 1.0, 1.8], rows[:, 0])
    return rows


def _nominal(n: int, rng: np.random.Generator) -> Floats:
    """Two features of categories, and a number whose mean and spread depend on both."""
    first = np.searchsorted(np.cumsum([0.3, 0.25, 0.2, 0.12, 0.08]), rng.random(n))
    cumulative = np.array([[5, 7, 9], [2, 8, 9], [1, 3, 9], [6, 7, 8], [1, 2, 3], [3, 5, 7]]) / 10
    second = (rng.random((n, 1)) > cumulative[first]).sum(axis=1)
    centre = np.array([0.0, 2.0, -1.0, 1.0, -2.0, 0.5])[first] + np.array([0.0, -1.0, 1.0, 0.5])[second]
    return np.stack([first, second, centre + (0.5 + 0.3 * second) * rng.standard_normal(n)], axis=1)


def _copy(n: int, rng: np.random.Generator) -> Floats:
    rows = _normal(n, rng, 0.5)
    rows[:, 1] = rows[:, 0] + 0.02 * rows[:, 1]
    return rows


DEPENDENCES: Mapping[str, Draw] = {
    "independent": _normal,
    "Gaussian .3": functools.partial(_normal, correlation=0.3),
    "Gaussian .7": functools.partial(_normal, correlation=0.7),
    "Gaussian .95": functools.partial(_normal, correlation=0.95),
    "t, 2 d.f.": _student,
    "Clayton": _clayton,
    "Gumbel": _gumbel,
    "banana": _banana,
    "clusters": _clusters,
    "ring": _ring,
    "discrete": _discrete,
    "nominal": _nominal,
    "near-copy": _copy,
}


# Functions and models


@dataclasses.dataclass(frozen=True)
class Setting:
    """A library, the depth of its trees, and whether the function that they learn has interactions."""

    library: str
    depth: int
    interactions: bool

    @property
    def name(self) -> str:
        """What it is, for tables."""
        return f"{self.library} {self.depth}, {'interactions' if self.interactions else 'additive'}"


SETTINGS = Setting("xgboost", 2, True), Setting("lightgbm", 3, False)
FULL_SETTINGS = (*SETTINGS, Setting("lightgbm", 2, False), Setting("xgboost", 3, True))


def response(rows: Floats, scale: Floats, *, interactions: bool) -> Floats:
    """The function that models learn, of features brought to (-1, 1) by their median and quartiles."""
    low, middle, high = scale
    a, b, c = np.tanh((rows - middle) / np.maximum(high - low, 0.5)).T
    mains: Floats = np.sin(3 * a) + 2 * b**2 + np.abs(c)
    return mains + 2 * a * b + b * (c > 0) + a * b * c if interactions else mains


def fit(setting: Setting, rows: Floats, target: Floats, *, categories: bool, seed: int) -> Any:
    """A model of one of two libraries; trees of depth 3 have fewer bins, for tensors of three features."""
    bins, trees = (256, 200) if setting.depth == 2 else (20, 100)
    options: dict[str, Any] = {"n_estimators": trees, "max_depth": setting.depth, "learning_rate": 0.1, "n_jobs": 1}
    options["max_bin"] = bins
    if setting.library == "xgboost":
        import xgboost  # noqa: PLC0415  wanted here only

        kinds = ["c", "c", "q"] if categories else None
        model = xgboost.XGBRegressor(
            tree_method="hist", enable_categorical=categories, feature_types=kinds, random_state=seed, **options
        )
        return model.fit(rows, target)
    import lightgbm  # noqa: PLC0415

    model = lightgbm.LGBMRegressor(verbose=-1, deterministic=True, random_state=seed, **options)
    return model.fit(rows, target, categorical_feature=[0, 1] if categories else "auto")


# One case


@dataclasses.dataclass(frozen=True, eq=False)
class OneCandidate(Auto):
    """One of the candidates of "auto" for all pairs; the choice of "auto" where the candidate does not apply."""

    label: str = ""
    make: Callable[[PairStack], Candidates] | None = None
    least_ordered: int = 2

    def candidates(self, pairs: PairStack) -> Iterator[Candidates]:
        """The one candidate, or all."""
        if self.make is None or pairs.n_ordered < self.least_ordered:
            return all_candidates(pairs)
        return iter([self.make(pairs)])


@dataclasses.dataclass(frozen=True, eq=False)
class WithoutFamilies(Auto):
    """Auto with the Gaussian copula as its only family."""

    def candidates(self, pairs: PairStack) -> Iterator[Candidates]:
        """All candidates without families."""
        return all_candidates(pairs, families=False)


@dataclasses.dataclass(frozen=True, eq=False)
class TrueCopula(Empirical):
    """The true table raked to the marginals of the rows: the error that all estimates of the dependence share."""

    truth: Density | None = None

    def table(self, key: Key, binnings: Sequence[Binning] | None = None) -> Floats:
        """Rows, columns, … scaled in turn."""
        if len(key) == 1 or self.truth is None:
            return super().table(key, binnings)
        table = self.truth.table(key, binnings)
        for _ in range(_SWEEPS):
            for axis, j in enumerate(key):
                others = tuple(i for i in range(len(key)) if i != axis)
                wanted = super().table((j,), None if binnings is None else (binnings[axis],))
                found = table.sum(axis=others, keepdims=True)
                factors = np.divide(np.expand_dims(wanted, others), found, out=np.zeros_like(found), where=found > 0)
                table = table * factors
        total: Floats = table / table.sum()
        return total


def _corrected(pairs: PairStack, bandwidth: float) -> Candidates:
    return candidates.corrected(pairs, candidates.gaussian(pairs), bandwidth)


def _kernel(pairs: PairStack, bandwidth: float, scale: Scale) -> Candidates:
    return candidates.kernel(pairs, bandwidth, 0.0, scale)


CANDIDATES = (
    OneCandidate(label="gaussian", make=candidates.gaussian),
    OneCandidate(label="family", make=candidates.family),
    *(
        OneCandidate(label=f"gaussian x kernel {h}", make=functools.partial(_corrected, bandwidth=h))
        for h in (0.7, 1.4)
    ),
    *(
        OneCandidate(
            label=f"{name} {h} of {scale}", make=functools.partial(law, bandwidth=h, scale=scale), least_ordered=1
        )
        for name, law, bandwidths in (("kernel", _kernel, (0.2, 0.4, 0.8)), ("twice", candidates.sharpened, (0.7, 1.4)))
        for scale in SCALES
        for h in bandwidths
    ),
)


class Case(NamedTuple):
    """One model; `errors` by kind, also ignoring a constant per term (`shapes`); the best of auto's own candidates."""

    dependence: str
    n_rows: int
    setting: str
    seed: int
    errors: Mapping[str, float]
    shapes: Mapping[str, float]
    best_candidate: str
    choices: tuple[str, ...]


def error(fx: Decomposition, truth: Decomposition, *, shape: bool = False) -> float:
    """Weighted squared difference of all effects, relative to that of the true ones.

    With `shape`, ignoring a constant per term: each main effect is first centred under the true marginal.
    """
    wrong = right = 0.0
    for key, true in function_of(truth).effects.terms.items():
        weights = table_weights_of(truth)[key][..., None]
        gap = function_of(fx).effects.terms[key] - true
        wrong += float((weights * (gap - (weights * gap).sum() * shape) ** 2).sum())
        right += float((weights * true**2).sum())
    return wrong / right


def cases(
    sizes: Sequence[int], seeds: int, settings: Sequence[Setting], dependences: Iterable[str] = DEPENDENCES
) -> Iterator[Case]:
    """All cases; fresh rows for the truth are drawn once per dependence."""
    for dependence in dependences:
        draw = DEPENDENCES[dependence]
        chunk, fresh = 1_000_000, np.random.default_rng(12345)
        world = np.concatenate([draw(chunk, fresh) for _ in range(_TRUE_ROWS // chunk)])
        scale = np.quantile(world[:chunk], [0.25, 0.5, 0.75], axis=0)
        for n_rows in sizes:
            for seed in range(FIRST_SEED, FIRST_SEED + seeds):
                rng = np.random.default_rng([seed, n_rows])
                rows = draw(n_rows, rng)
                for setting in settings:
                    target = response(rows, scale, interactions=setting.interactions)
                    target = target + _NOISE * rng.standard_normal(n_rows)
                    model = fit(setting, rows, target, categories=dependence == "nominal", seed=seed)
                    yield _case((dependence, n_rows, setting.name, seed), model, rows, world)


def _case(where: tuple[str, int, str, int], model: Any, rows: Floats, world: Floats) -> Case:
    auto = treeanova.decompose(model, rows, n_jobs=1)
    true_kind = Independent() if where[0] == "independent" else Empirical()
    truth = auto.with_density(true_kind, world)
    found = {kind: auto.with_density(kind) for kind in KINDS if kind != "auto"} | {"auto": auto}
    found["auto without families"] = auto.with_density(WithoutFamilies())
    found["true copula"] = auto.with_density(TrueCopula(truth=truth.density))
    errors = {kind: error(fx, truth) for kind, fx in found.items()}
    shapes = {kind: error(found[kind], truth, shape=True) for kind in SPLIT_KINDS}
    singles = {one.label: error(auto.with_density(one), truth) for one in CANDIDATES}
    singles |= {name: errors[name] for name in ("empirical", "independent")}
    best = min(singles, key=lambda name: singles[name])
    errors["best candidate"] = singles[best]
    errors["best kind"] = min(errors[kind] for kind in KINDS if kind != "auto")
    assert isinstance(auto.density, Auto)  # noqa: S101  the default of decompose
    chosen = tuple(choice.name for choice in auto.density.choices.values())
    return Case(*where, errors, shapes, best, chosen)


# Tables


Group = tuple[str, int, str]


def over_seeds(found: Sequence[Case], *, shape: bool = False) -> dict[Group, dict[str, float]]:
    """Geometric means over seeds, by dependence, number of rows and setting."""
    groups: dict[Group, list[Case]] = {}
    for case in found:
        groups.setdefault((case.dependence, case.n_rows, case.setting), []).append(case)
    field = "shapes" if shape else "errors"
    return {
        group: {kind: geometric_mean([getattr(case, field)[kind] for case in own]) for kind in getattr(own[0], field)}
        for group, own in groups.items()
    }


def split(found: Sequence[Case]) -> str:
    """Ratios to empirical's error by model, of the whole error and of the error ignoring a constant per term."""
    rows = []
    whole, shape = over_seeds(found), over_seeds(found, shape=True)
    for name in (*dict.fromkeys(group[2] for group in whole), "all"):
        groups = [group for group in whole if name in (group[2], "all")]
        cells = [
            f"{geometric_mean([means[group][kind] / means[group]['empirical'] for group in groups]):.3f}"
            for means in (whole, shape)
            for kind in SPLIT_KINDS[1:]
        ]
        constant = np.median([1 - shape[group]["auto"] / whole[group]["auto"] for group in groups])
        rows.append([name, *cells, f"{constant:.0%}"])
    header = [f"{kind}{what}" for what in ("", ", shape") for kind in SPLIT_KINDS[1:]]
    return markdown(["model", *header, "share of constants in the error of auto, median"], rows)


def geometric_mean(numbers: Sequence[float]) -> float:
    """Geometric mean."""
    return float(np.exp(np.mean(np.log(np.maximum(numbers, 1e-300)))))


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def summary(means: Mapping[Group, Mapping[str, float]]) -> str:
    """Per kind: ratios to empirical's error over the suite."""
    rows = []
    for kind in (*KINDS, "auto without families", "best kind", "best candidate", "true copula"):
        ratios = {group: errors[kind] / errors["empirical"] for group, errors in means.items()}
        worst = max(ratios, key=lambda group: ratios[group])
        above = sum(errors[kind] > 1.05 * min(errors["empirical"], errors["shrinkage"]) for errors in means.values())
        label = kind if kind in KINDS or kind in SPLIT_KINDS[:3] else f"({kind})"
        where = ", ".join(map(str, worst))
        typical = geometric_mean([errors[kind] for errors in means.values()])
        ratio = geometric_mean(list(ratios.values()))
        rows.append(
            [label, f"{typical:.4f}", f"{ratio:.3f}", f"{ratios[worst]:.2f}", where, f"{above} of {len(means)}"]
        )
    header = [
        "density",
        "error",
        "ratio to empirical",
        "worst ratio",
        "where",
        "above 1.05 × min(empirical, shrinkage)",
    ]
    return markdown(header, rows)


def per_dependence(means: Mapping[Group, Mapping[str, float]], by: int = 0) -> str:
    """Geometric means of errors by dependence (or by another part of the group)."""
    names = list(dict.fromkeys(group[by] for group in means))
    rows = []
    for name in names:
        own = [errors for group, errors in means.items() if group[by] == name]
        typical = {kind: geometric_mean([errors[kind] for errors in own]) for kind in own[0]}
        ratios = [f"{typical['auto'] / typical[kind]:.2f}" for kind in ("empirical", "best kind", "best candidate")]
        shown = f"{name:,}" if isinstance(name, int) else name
        rows.append([shown, *(f"{typical[kind]:.4f}" for kind in (*KINDS, "true copula")), *ratios])
    title = ("dependence", "rows", "model")[by]
    return markdown(
        [title, *KINDS, "(true copula)", "auto / empirical", "auto / best kind", "auto / best candidate"], rows
    )


def losses(found: Sequence[Case], means: Mapping[Group, Mapping[str, float]], limit: float = 1.05) -> str:
    """Where auto's error is above 1.05 of the better of empirical's and shrinkage's, seed by seed."""
    rows = []
    for group, errors in means.items():
        if errors["auto"] <= limit * min(errors["empirical"], errors["shrinkage"]):
            continue
        own = [case for case in found if (case.dependence, case.n_rows, case.setting) == group]
        ratios = [case.errors["auto"] / min(case.errors["empirical"], case.errors["shrinkage"]) for case in own]
        ratio = errors["auto"] / min(errors["empirical"], errors["shrinkage"])
        beyond = "yes" if min(ratios) > 1 and len(ratios) > 1 else "no"
        shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        rows.append([", ".join(map(str, group)), f"{ratio:.2f}", shown, beyond, f"{errors['auto']:.4f}"])
    if not rows:
        return "Nowhere."
    return markdown(["case", "ratio", "by seed", "beyond noise (all seeds above 1)", "error of auto"], rows)


# The analytic case


def analytic(sizes: Sequence[int], seeds: int, peer_rows: int) -> str:
    """Main effects of a model of X1 X2 under correlated normals, against ρ / (1 + ρ²) (x² - 1)."""
    rows = []
    for correlation in (0.5, 0.9):
        for n_rows in sizes:
            peers = n_rows <= peer_rows
            each = [
                _analytic_errors(correlation, n_rows, seed, slow_peers=peers)
                for seed in range(FIRST_SEED, FIRST_SEED + seeds)
            ]
            rows.append([f"{correlation}", f"{n_rows:,}", *(_mean_or_dash(each, kind) for kind in ANALYTIC_KINDS)])
    return markdown(["ρ", "rows", *ANALYTIC_KINDS], rows)


ANALYTIC_KINDS = ("empirical", "laplace", "shrinkage", "kernel", "auto", "true density", "interpret", "treehfd")


def _mean_or_dash(each: Sequence[Mapping[str, float]], kind: str) -> str:
    return f"{geometric_mean([errors[kind] for errors in each]):.4f}" if kind in each[0] else "-"


def _analytic_errors(correlation: float, n_rows: int, seed: int, *, slow_peers: bool) -> dict[str, float]:
    rng = np.random.default_rng([seed, n_rows])
    covariance = [[1, correlation], [correlation, 1]]
    rows, fresh = (rng.multivariate_normal([0, 0], covariance, n) for n in (n_rows, 100_000))
    world = rng.multivariate_normal([0, 0], covariance, 2_000_000)
    model = fit(SETTINGS[0], rows, rows[:, 0] * rows[:, 1], categories=False, seed=seed)
    truth = correlation / (1 + correlation**2) * (fresh**2 - 1)
    interaction = fresh.prod(axis=1) - correlation - truth.sum(axis=1)
    true_terms = np.column_stack([truth, interaction])
    fx = treeanova.decompose(model, rows, n_jobs=1)
    named = {kind: fx.with_density(kind) for kind in ANALYTIC_KINDS[:4]} | {"auto": fx}
    found = {kind: part.explain(fresh).values for kind, part in named.items()}
    found["true density"] = fx.with_density("empirical", world).explain(fresh).values
    found["interpret"] = _interpret_terms(fx.with_density("empirical"), fresh)
    if slow_peers:
        found |= _treehfd_terms(model, rows, fresh)
    scale = (true_terms**2).mean(axis=0).sum()
    return {kind: float(((terms - true_terms) ** 2).mean(axis=0).sum() / scale) for kind, terms in found.items()}


def _interpret_terms(fx: Decomposition, fresh: Floats) -> Floats:
    """Terms of interpret's purify (deterministic) of the model's own tensor under the shares of the rows."""
    from interpret.utils import purify  # noqa: PLC0415  a peer, needed here only

    raw = function_of(fx.raw).effects
    parts = raw.terms
    tensor = np.zeros(fx.grid.sizes) + raw.intercept[0]
    for key, values in parts.items():
        tensor += values[..., 0] if len(key) == 2 else np.expand_dims(values[..., 0], 1 - key[0])
    interaction, mains, _ = purify(tensor, table_weights_of(fx)[0, 1], is_randomized=False)
    codes = fx.grid.index(fresh)
    columns = [np.asarray(values)[codes[:, axis]] for (axis,), values in sorted(mains, key=lambda main: main[0])]
    return np.column_stack([*columns, np.asarray(interaction)[codes[:, 0], codes[:, 1]]])


def _treehfd_terms(model: Any, rows: Floats, fresh: Floats) -> dict[str, Floats]:
    try:
        from treehfd import XGBTreeHFD  # noqa: PLC0415  a peer, needed here only
    except ImportError:
        print("treehfd is not installed: left out")
        return {}
    peer = XGBTreeHFD(model)
    with contextlib.redirect_stderr(io.StringIO()):
        peer.fit(rows, interaction_order=2, verbose=False)
        mains, interactions = peer.predict(fresh)
    return {"treehfd": np.column_stack([mains, interactions])}


# The page


_HEAD = """# Accuracy of densities

The effects depend on a density that is estimated from n rows. How close are they to the effects of the same
model under the true density? `python -m benchmarks accuracy{option}` wrote this page in {minutes:.0f} minutes
on one core.

**In short.** Under "auto", the error of the effects is {ratio} times that under "empirical" (geometric mean
over all cases, 1 means equal). The other tables show in which cases it is better or worse.

**Setup.** A model of three features is trained on n simulated rows, and decomposed on its bins. The true
weights are counted from {true_rows:,} fresh rows (for "independent": the product of their marginals). The
error is the squared difference of the effects, summed over terms, divided by the squared size of the true
effects; both are weighted by the true density. Figures are geometric means over {seeds} random seeds. Other
seeds (0 and 1) were used to choose the candidates and the rule of "auto". Rows: {sizes}. Models: {settings}.
The noise in the true weights is about n / {true_rows:,} of the error of "empirical": one hundredth for n =
50,000.

**References that know the truth.** They are not available in practice, and show how much could be gained.
"best kind" is, for each case, the density of the table with the smallest error, other than "auto". "best
candidate" is the candidate of "auto" that has the smallest error when it is used for all pairs. "true copula"
has the true dependence and the marginals of the rows.

**A caveat.** Three of the thirteen kinds of dependence (t, Clayton, Gumbel) belong to copula families that
"auto" tries, and so do the Gaussian ones. They are the usual families of copula software, in all rotations.
With other kinds of dependence, "auto" would gain less from them. "auto without families" has the Gaussian
copula only.
"""


_SPLIT_HEAD = """The effects have errors for two reasons: the distributions of single features (the marginals)
are estimated from n rows, and so is their dependence. The first error is about 1/n of the variance of an effect, and no
density that keeps the marginals of the rows can avoid it. The columns "shape" ignore it: the difference of
each term from the truth is first centred under the true density. All figures are relative to the error of
"empirical"."""


def page(found: Sequence[Case], peers: str, head: str) -> str:
    """The whole page."""
    means = over_seeds(found)
    ratios = {
        kind: geometric_mean([errors["auto"] / errors[kind] for errors in means.values()])
        for kind in ("empirical", "best kind", "best candidate")
    }
    results = [
        ["auto / empirical, geometric mean", f"{ratios['empirical']:.3f}"],
        ["auto / best kind in hindsight, geometric mean", f"{ratios['best kind']:.3f}"],
        ["auto / best candidate in hindsight, geometric mean", f"{ratios['best candidate']:.3f}"],
    ]
    added = [(e["auto"] - e["true copula"]) / max(e["empirical"] - e["true copula"], 1e-300) for e in means.values()]
    results.append(["error in excess of the true copula, auto / empirical, median", f"{np.median(added):.3f}"])
    parts = [
        head.format(ratio=ratios["empirical"]),
        "## Ratios of errors\n\n" + markdown(["ratio of errors", "result"], results),
        "## All cases\n\n" + summary(means),
        "## By dependence\n\n" + per_dependence(means),
        "## By number of rows\n\n" + per_dependence(means, by=1),
        "## By model\n\n" + per_dependence(means, by=2),
        "## Errors due to marginals and errors due to dependence\n\n" + _SPLIT_HEAD + "\n\n" + split(found),
        "## Where auto is above 1.05 × the better of empirical and shrinkage\n\n" + losses(found, means),
        "## X1 X2 under correlated normals, against the true function\n\n" + _ANALYTIC_HEAD + "\n\n" + peers,
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


_ANALYTIC_HEAD = """An XGBoost model of depth 2 learns y = x1 x2 from the rows. Its main effects and its interaction
are compared, at fresh rows, with those of the function, which are known: main effects ρ / (1 + ρ²) (x² - 1), and the
interaction that is left. Errors are relative to the variance of the effects. "true density" is the same
model, decomposed under 2 million fresh rows; its error is the error of the model. "interpret" is the function
`purify` of interpret (deterministic), for the same tensor and the shares of the rows. "treehfd" is shown if
it takes less than a minute."""


def deep_section() -> str:
    """The part of the page on deep ensembles."""
    table = markdown(known_truth.AGAINST_DENSE_COLUMNS, known_truth.against_dense())
    return f"\n## Deep ensembles against tensors of all orders\n\n{known_truth.AGAINST_DENSE_HEAD}\n{table}\n"


def _repeated_rows() -> str:
    """The part of the page that `python -m benchmarks copies` writes, kept as it is."""
    _, mark, text = PAGE.read_text(encoding="utf-8").partition("\n## Repeated rows")
    return mark + text


def run(*, full: bool) -> None:
    """Run the suite and write the page."""
    start = time.process_time()
    sizes = (500, 2_000, 10_000, 50_000) if full else (500, 2_000, 10_000)
    seeds, settings = 2, FULL_SETTINGS if full else SETTINGS
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases(sizes, seeds, settings):
            found.append(case)
            shown = " ".join(f"{kind} {value:.4f}" for kind, value in case.errors.items())
            print(*case[:4], "|", shown, "|", case.best_candidate, "|", "; ".join(case.choices), flush=True)
        peers = analytic(sizes[:3], seeds, peer_rows=500)
    head = _HEAD.format(
        option=" --full" if full else "",
        minutes=(time.process_time() - start) / 60,
        true_rows=_TRUE_ROWS,
        seeds=seeds,
        sizes=", ".join(f"{size:,}" for size in sizes),
        settings="; ".join(setting.name for setting in settings),
        ratio="{ratio:.3f}",
    )
    text = page(found, peers, head) + deep_section() + _repeated_rows()
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--full", action="store_true", help="also 50,000 rows and four kinds of models")
    run(full=parser.parse_args().full)
