"""Section 7.1, Figures 7 and 8: (1 − λ) log(X1 X2) + λ X1 X2, exact and as a boosted model learns it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import treeanova
from studies.common import (
    WIDTH,
    Claim,
    Section,
    Settings,
    diverging,
    markdown_table,
    number,
    paragraphs,
    percent,
    pyplot,
)
from treeanova.core.arrays import Floats
from treeanova.views import look

BINS = 50
PAIR = ("x1", "x2")


def cell_means(n_bins: int) -> tuple[Floats, Floats]:
    """Means of log x and of x over equal bins of (0, 1]."""
    edges = np.linspace(0, 1, n_bins + 1)
    integral = np.concatenate([[0.0], edges[1:] * np.log(edges[1:]) - edges[1:]])
    return np.diff(integral) * n_bins, (edges[1:] + edges[:-1]) / 2


def purified(lam: float, base: float = np.e, n_bins: int = BINS) -> treeanova.Purified:
    """The pure terms of the model's cell means under uniform features."""
    logs, means = cell_means(n_bins)
    logs = logs / np.log(base)
    scores = (1 - lam) * (logs[:, None] + logs) + lam * np.outer(means, means)
    return treeanova.purify(scores, np.full((n_bins, n_bins), n_bins**-2.0))


def exact_main(x: Floats, lam: float) -> Floats:
    """The pure main effect, uniform features: (1 − λ)(log x + 1) + λ (x − ½) / 2."""
    effect: Floats = (1 - lam) * (np.log(x) + 1) + lam * (x - 0.5) / 2
    return effect


def exact_share(lam: float, base: float = np.e) -> float:
    """The interaction's share of the variance: its variance is λ²/144, Var(log x) = 1 and Cov(log x, x) = ¼."""
    part = (1 - lam) / np.log(base)
    main = part**2 + lam**2 / 48 + part * lam / 4
    return float((lam**2 / 144) / (lam**2 / 144 + 2 * main))


class Learned(NamedTuple):
    """A boosted model of depth 2 trained on draws, and the interaction's standard deviation, pure and raw."""

    fx: Any
    pure: float
    raw: float


def learn(lam: float, n_rows: int, n_trees: int) -> Learned:
    """XGBoost of depth 2 on draws of the model without noise, decomposed under the uniform density of its features."""
    from xgboost import XGBRegressor  # noqa: PLC0415

    X = 1 - np.random.default_rng(0).random((n_rows, 2))
    y = (1 - lam) * np.log(X.prod(axis=1)) + lam * X.prod(axis=1)
    model = XGBRegressor(n_estimators=n_trees, max_depth=2, learning_rate=0.1, n_jobs=1).fit(X, y)
    fx = treeanova.decompose(model, X, density="independent", feature_names=list(PAIR))
    return Learned(fx, _strength(fx), _strength(fx.raw))


def _strength(fx: Any) -> float:
    """The standard deviation of the pair's term under its own weights."""
    if PAIR not in fx.terms:
        return 0.0
    term = fx.terms[PAIR]
    centred = term.values - (term.weights * term.values).sum()
    return float(np.sqrt((term.weights * centred**2).sum()))


def run(settings: Settings) -> Section:
    """The study of log(X1 X2)."""
    lams = np.linspace(0, 1, 6 if settings.quick else 11)
    n_rows, n_trees = (5_000, 150) if settings.quick else (20_000, 500)
    drawn = sorted({*lams.tolist(), 0.5})
    learned = {lam: learn(lam, n_rows, n_trees) for lam in drawn}
    body = paragraphs(
        "Y = (1−λ) log(X1 X2) + λ X1 X2, features uniform on (0, 1]. The decomposition is known: intercept "
        "λ/4 − 2(1−λ), main effects (1−λ)(log x + 1) + λ(x−½)/2, interaction λ(x1−½)(x2−½), whose standard deviation "
        "is λ/12.",
        settings.save(_product_figure(), "product", "Figure 7: pure effects of X1 X2"),
        f"Figure 8, exact (black) and as depth-2 XGBoost learns it from {n_rows:,} rows ({n_trees} trees, no noise). "
        "The raw trees show the opposite: their interaction is strongest where the function has none. "
        "Purified, what is left at small λ is the error of the fit.",
        settings.save(_mains_figure(learned), "logarithm", "Figure 8: main effects and strength over λ"),
        markdown_table(
            [
                (f"{lam:.1f}", lam / 12, found.pure, found.raw, percent(exact_share(lam), 2))
                for lam, found in learned.items()
            ],
            ("λ", "interaction, exact σ", "XGBoost, pure", "XGBoost, raw trees", "exact share of the variance"),
        ),
    )
    return Section("The mystery of log(X1 X2): Figures 7 and 8", body, _claims(learned))


def _claims(learned: dict[float, Learned]) -> tuple[Claim, ...]:
    logs, means = cell_means(BINS)
    product, mixed = purified(1.0), purified(0.3)
    xor = np.outer(means - 0.5, means - 0.5)
    linear = np.abs(product.terms[0,] - (means - 0.5) / 2).max()
    main_gap = np.abs(purified(0.0).terms[0,] - (logs + 1)).max()
    shape = max(np.abs(purified(lam).terms[0, 1] / lam - xor).max() for lam in (0.01, 0.3, 1.0))
    bases = [float(np.abs(purified(0.3, base).terms[0, 1] - mixed.terms[0, 1]).max()) for base in (2, 10)]
    shares = ", ".join(percent(exact_share(0.5, base), 2) for base in (2, np.e, 10))
    return (
        Claim(
            "Section 7.1, Figure 7",
            "X1 X2: an XOR-like interaction and linear main effects",
            f"(x1−½)(x2−½) within {number(np.abs(product.terms[0, 1] - xor).max())}, (x−½)/2 within {number(linear)}; "
            f"the interaction has {percent(exact_share(1.0))} of the variance",
            "agree",
        ),
        Claim(
            "Section 7.1, Figure 8",
            "λ = 0: main effects are logarithmic, the interaction disappears completely",
            f"of the function, yes: {number(np.abs(purified(0.0).terms[0, 1]).max())} at most, mains log x + 1 within "
            f"{number(main_gap)}. A model trained on it keeps σ = {number(learned[0.0].pure)} "
            f"({number(learned[0.0].raw)} in its raw trees)",
            "agree",
        ),
        Claim(
            "Section 7.1",
            "for any λ ≠ 0 the pattern of the interaction is the same; it grows with λ",
            f"interaction / λ is (x1−½)(x2−½) within {number(shape)} at λ = 0.01, 0.3, 1. Learned, λ = 0, 0.5, 1: "
            f"{_three(learned, 'pure')} (exact 0, {number(1 / 24)}, {number(1 / 12)}), raw {_three(learned, 'raw')}",
            "agree",
        ),
        Claim(
            "Section 7.1, footnote",
            "the logarithm's base affects how rapidly C varies with λ",
            "C is not defined. The interaction does not depend on the base at all (bases 2 and 10 against e: "
            f"{', '.join(number(gap) for gap in bases)}); its share of the variance does ({shares} at λ = 0.5)",
            "in part",
        ),
    )


def _three(learned: dict[float, Learned], name: str) -> str:
    return ", ".join(number(getattr(learned[lam], name)) for lam in (0.0, 0.5, 1.0))


def _product_figure() -> Any:
    plt = pyplot()
    fig, (left, right) = plt.subplots(1, 2, figsize=(WIDTH * 0.8, 3.1), width_ratios=(1.15, 1))
    product = purified(1.0)
    mesh = left.imshow(
        product.terms[0, 1].T, origin="lower", extent=(0, 1, 0, 1), cmap=diverging(), vmin=-0.25, vmax=0.25
    )
    fig.colorbar(mesh, ax=left, shrink=0.9)
    left.set(title="pure interaction of X1 X2", xlabel="x1", ylabel="x2", xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
    left.grid(visible=False)
    right.stairs(product.terms[0,], np.linspace(0, 1, BINS + 1), baseline=None, color=look.MAIN, lw=1.8)
    right.set(title="pure main effect of x1 (x2 alike)", xlabel="x1", xlim=(0, 1))
    return fig


def _mains_figure(learned: dict[float, Learned]) -> Any:
    plt = pyplot()
    fig, axes = plt.subplots(1, 4, figsize=(WIDTH, 2.9), width_ratios=(1, 1, 1, 1.25))
    x = np.geomspace(1e-3, 1, 400)
    for ax, lam in zip(axes[:3], (0.0, 0.5, 1.0), strict=True):
        rows = np.column_stack([x, x])
        ax.plot(x, learned[lam].fx.term_values(rows, "x1"), color=look.POSITIVE, lw=2.4, label="learned")
        ax.plot(x, exact_main(x, lam), color="black", lw=1.1, label="exact")
        ax.set(title=f"main effect, λ = {lam:g}", xlabel="x1", xticks=(0, 0.5, 1))
    axes[0].legend()
    lams = list(learned)
    axes[3].plot(x, x / 12, color="black", lw=1.1, label="exact, λ/12")
    axes[3].plot(lams, [found.pure for found in learned.values()], "o", color=look.POSITIVE, label="learned, pure")
    axes[3].plot(lams, [found.raw for found in learned.values()], "s", ms=4, color=look.RAW, label="learned, raw")
    axes[3].set(title="interaction's σ over λ", xlabel="λ", yscale="log", ylim=(0.004, 30), xticks=(0, 0.5, 1))
    axes[3].legend()
    return fig
