"""Section 5.2: the paper's three estimators of w, and how far the effects under each are from those under the truth."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import treeanova
from studies.common import Claim, Section, Settings, markdown_table, number, paragraphs, percent
from studies.models import DENSITIES, PAPERS
from treeanova.core.arrays import Floats
from treeanova.density import Laplace

NAMES = ("x1", "x2", "x3")
DENSITY = {
    "uniform": "uniform",
    "empirical": "empirical",
    "half-half": Laplace(mix=0.5),
    "counts + 1": Laplace(counts=1),
    "auto": "auto",
}
DRAMATIC = 0.5  # of the size of the effects
FALL = 1 / 3  # by which the error of an estimator must fall with more rows


def draw_rows(n_rows: int, seed: int) -> Floats:
    """Three normal features, the first two with correlation 0.7."""
    rows = np.random.default_rng(seed).normal(size=(n_rows, 3))
    rows[:, 1] = 0.7 * rows[:, 0] + np.sqrt(1 - 0.7**2) * rows[:, 1]
    return rows


def fitted_model() -> Any:
    """XGB2 of a function with two interactions."""
    from xgboost import XGBRegressor  # noqa: PLC0415

    X = draw_rows(5_000, 0)
    y = X[:, 0] * X[:, 1] + X[:, 0] + np.sin(2 * X[:, 2]) + 0.5 * X[:, 1] * X[:, 2]
    y = y + np.random.default_rng(1).normal(size=len(X)) / 2
    return XGBRegressor(n_estimators=200, max_depth=2, learning_rate=0.1, n_jobs=1).fit(X, y)


class Errors(NamedTuple):
    """Errors of the effects under estimates from n rows, and the inconsistency of counts + 1."""

    by_density: dict[str, dict[int, float]]
    marginal_gap: float
    size: dict[str, float]
    """Standard deviation of the interaction x1 × x2 at the rows, by density, and under the truth."""


def measure(n_rows: tuple[int, ...], n_truth: int, n_draws: int) -> Errors:
    """One model, its effects under the true density (very many rows) and under estimates from few rows."""
    model, truth = fitted_model(), draw_rows(n_truth, 2)
    rows = truth[:5_000]
    exact_fx = treeanova.decompose(model, truth, density="empirical", feature_names=list(NAMES), n_jobs=1)
    exact = exact_fx.explain(rows).values
    found: dict[str, dict[int, float]] = {name: {} for name in DENSITIES}
    gap, size = 0.0, {"truth": _size(exact_fx, rows)}
    for n in n_rows:
        draws: dict[str, list[float]] = {name: [] for name in DENSITIES}
        for seed in range(n_draws):
            fx = treeanova.decompose(model, draw_rows(n, 10 + seed), feature_names=list(NAMES), n_jobs=1)
            for name, density in DENSITY.items():
                pure = fx if name == "auto" else fx.with_density(density)
                draws[name].append(_error(pure.explain(rows).values, exact))
                if name == "counts + 1":
                    gap = max(gap, float(pure.certificate.marginal_gap))
                size[name] = _size(pure, rows)
        for name, errors in draws.items():
            found[name][n] = float(np.mean(errors))
    return Errors(found, gap, size)


def _error(values: Floats, exact: Floats) -> float:
    """Root mean square distance of all terms at rows, relative to their s.d."""
    return float(np.sqrt(((values - exact) ** 2).sum() / exact.var(axis=0).sum() / len(exact)))


def _size(fx: Any, rows: Floats) -> float:
    return float(fx.term_values(rows, NAMES[:2]).std())


def run(settings: Settings) -> Section:
    """The study of Section 5.2."""
    n_rows = (300, 3_000) if settings.quick else (300, 1_000, 3_000, 10_000)
    errors = measure(n_rows, 100_000 if settings.quick else 400_000, 1 if settings.quick else 3)
    body = paragraphs(
        "One XGB2 model of three normal features, of which two have a correlation of 0.7. Its effects under the true "
        "density (that of very many rows) against those under estimates from few rows: root mean square error of all "
        "terms, relative to their s.d.",
        markdown_table(
            [(name, *(percent(value, 0) for value in some.values())) for name, some in errors.by_density.items()],
            ("density", *(f"{n:,} rows" for n in n_rows)),
        ),
        "The paper writes the estimators for x₋ᵤ, the features *not* in a term; x_u must be meant, since w weighs the "
        "cells of the term. Its Laplace, ŵ_lap ∝ ŵ_unif + ŵ_emp, can be read in two ways: both normalised "
        "(half-half), or one plus the number of rows (counts + 1), as the name suggests. The second is not one "
        "density: the more cells a term has, the more of its weight is uniform, so that a feature has different "
        f"marginals in different terms (here up to {percent(errors.marginal_gap, 0)} of the mass apart). That the "
        "true p(x) is the right density is the paper's definition, not a claim to be tested.",
    )
    return Section("Estimating w: Section 5.2", body, claims(errors))


def claims(errors: Errors) -> tuple[Claim, ...]:
    """The claims of Section 5.2, judged."""
    sizes, truth = errors.size, errors.size["truth"]
    ratio = max(sizes[name] for name in PAPERS) / min(sizes[name] for name in PAPERS)
    first = {name: next(iter(some.values())) for name, some in errors.by_density.items()}
    last = {name: list(some.values())[-1] for name, some in errors.by_density.items()}
    some = [last[name] for name in PAPERS]
    converge = {name: last[name] < first[name] * (1 - FALL) for name in PAPERS}
    return (
        Claim(
            "needs-density",
            "Section 5.2",
            "effects can only be understood in conjunction with a data distribution",
            "holds" if ratio > 1.25 else "does not hold",
            "The same interaction of the same model has different sizes under different densities.",
            "The s.d. of the pure interaction x1 × x2 at the same rows differs by more than a factor of 1.25 between "
            "the paper's densities.",
            f"By a factor of {ratio:.2f}: "
            + ", ".join(f"{number(sizes[name])} {name}" for name in PAPERS)
            + f"; under the true density {number(truth)}.",
            {"ratio": ratio},
        ),
        *_estimator_claims(converge, first, last, errors),
        Claim(
            "dramatically",
            "Section 5.2",
            "the choice of distribution can change (sometimes dramatically) the purified effects",
            "holds" if max(some) > DRAMATIC and min(some) < max(some) / 3 else "in part",
            "With the same many rows, effects under one of the paper's densities are close to the truth and under "
            "another far from it.",
            f"With the most rows, the error under some of the paper's densities is above {percent(DRAMATIC, 0)} of "
            "the size of the effects, and below a third of that under another.",
            ", ".join(f"{percent(last[name], 0)} {name}" for name in PAPERS) + ".",
            {name: last[name] for name in PAPERS},
        ),
    )


def _estimator_claims(
    converge: dict[str, bool], first: dict[str, float], last: dict[str, float], errors: Errors
) -> tuple[Claim, ...]:
    n = list(errors.by_density["uniform"])
    words = {
        "uniform": (
            "Uniform: ŵ_unif ∝ 1",
            "Uniform weights are a density, but no estimate of p: they do not depend on the data.",
        ),
        "empirical": (
            "Empirical: ŵ_emp ∝ Σ I{x^i = x}",
            "The empirical density approaches the true one as rows are added.",
        ),
    }
    rows = [
        Claim(
            f"estimator-{name}",
            "Section 5.2",
            f"we use three simple estimators of piecewise-constant densities: … {quote}",
            "holds" if converge[name] else "in part",
            conclusion,
            f"It estimates p: the error of the effects is at least a third smaller with {n[-1]:,} rows than with "
            f"{n[0]:,}.",
            f"{percent(first[name], 0)} with {n[0]:,} rows, {percent(last[name], 0)} with {n[-1]:,}.",
            {"first": first[name], "last": last[name]},
        )
        for name, (quote, conclusion) in words.items()
    ]
    both = converge["half-half"], converge["counts + 1"]
    laplace = Claim(
        "estimator-laplace",
        "Section 5.2",
        "we use three simple estimators of piecewise-constant densities: … Laplace: ŵ_lap ∝ ŵ_unif + ŵ_emp",
        "holds" if all(both) else "in part" if any(both) else "does not hold",
        "Laplace can be read in two ways: half-half stays away from the true density however many rows there are; "
        "counts + 1 approaches it, slowly, but is not one density.",
        f"As above, in both readings: the error is at least a third smaller with {n[-1]:,} rows than with {n[0]:,}.",
        f"Half-half {percent(first['half-half'], 0)} and {percent(last['half-half'], 0)}; counts + 1 "
        f"{percent(first['counts + 1'], 0)} and {percent(last['counts + 1'], 0)}, its marginals up to "
        f"{percent(errors.marginal_gap, 0)} of the mass apart between terms.",
        {
            f"{part} {name}": some[name]
            for part, some in (("first", first), ("last", last))
            for name in ("half-half", "counts + 1")
        }
        | {"marginal gap": errors.marginal_gap},
    )
    return (*rows, laplace)
