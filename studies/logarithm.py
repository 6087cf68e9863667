"""Section 7.1, Figures 7 and 8: (1 − λ) log(X1 X2) + λ X1 X2, exact and as a boosted model learns it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import treeanova
from studies.common import (
    WIDTH,
    Section,
    Settings,
    add_letters,
    diverging,
    markdown_table,
    number,
    paragraphs,
    percent,
    pyplot,
)
from studies.judging import Claim, above, below, holds_if, undecided
from treeanova import views as look
from treeanova.core.arrays import Floats

BINS = 50
PAIR = ("x1", "x2")
_CAPTIONS = (
    (
        "The paper's Figure 7: pure terms of Y = X1 X2, uniform features: (a) the interaction (x1−½)(x2−½), (b), (c) "
        "the "
        "main "
        "effects (x−½)/2."
    ),
    (
        "The paper's Figure 8: (a) to (c) main effect of x1 at λ = 0, 0.5, 1, exact and as XGB2 learns it; (d) s.d. "
        "of the "
        "interaction over λ, exact (λ/12) and learned, pure and raw."
    ),
)


def cell_means(n_bins: int) -> tuple[Floats, Floats]:
    """Means of log x and of x over equal bins of (0, 1]."""
    edges = np.linspace(0, 1, n_bins + 1)
    integral = np.concatenate([[0.0], edges[1:] * np.log(edges[1:]) - edges[1:]])
    return np.diff(integral) * n_bins, (edges[1:] + edges[:-1]) / 2


def purified(lam: float, base: float = math.e, n_bins: int = BINS) -> treeanova.Purified:
    """The pure terms of the model's cell means under uniform features."""
    logs, means = cell_means(n_bins)
    logs = logs / np.log(base)
    scores = (1 - lam) * (logs[:, None] + logs) + lam * np.outer(means, means)
    return treeanova.purify(scores, np.full((n_bins, n_bins), n_bins**-2.0))


def exact_main(x: Floats, lam: float) -> Floats:
    """The pure main effect, uniform features: (1 − λ)(log x + 1) + λ (x − ½) / 2."""
    effect: Floats = (1 - lam) * (np.log(x) + 1) + lam * (x - 0.5) / 2
    return effect


def exact_share(lam: float, base: float = math.e) -> float:
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
        "Y = (1−λ) log(X1 X2) + λ X1 X2, features uniform on (0, 1]. The decomposition is known: intercept λ/4 − "
        "2(1−λ), main effects (1−λ)(log x + 1) + λ(x−½)/2, interaction λ(x1−½)(x2−½), whose s.d. is λ/12.",
        settings.save(_product_figure(), "product", "Pure effects of X1 X2", _CAPTIONS[0]),
        f"**Figure 8**, exact and as XGB2 learns it from {n_rows:,} rows ({n_trees} trees, no noise). The raw trees "
        "show the opposite of the truth: their interaction is strongest where the function has none. Purified, the "
        "learned interaction at small λ is the error of the fit, which falls with the main effects: it dips to its "
        f"minimum at λ = {_lowest(learned):.1f} before it rises.",
        settings.save(
            _mains_figure(learned), "logarithm", "Main effects and strength of the interaction over λ", _CAPTIONS[1]
        ),
        markdown_table(
            [
                (f"{lam:.1f}", lam / 12, found.pure, found.raw, percent(exact_share(lam), 2))
                for lam, found in learned.items()
            ],
            ("λ", "s.d. of the interaction, exact", "XGB2, pure", "XGB2, raw", "exact share of the variance"),
        ),
    )
    return Section("The mystery of log(X1 X2): Section 7.1, Figures 7 and 8", body, claims(learned))


def _lowest(learned: dict[float, Learned]) -> float:
    """λ at which the learned interaction is weakest."""
    return min(learned, key=lambda lam: learned[lam].pure)


def claims(learned: dict[float, Learned]) -> tuple[Claim, ...]:
    """The claims of Section 7.1, judged."""
    return (*_shape_claims(learned), *_strength_claims(learned))


def _shape_claims(learned: dict[float, Learned]) -> tuple[Claim, ...]:
    logs, means = cell_means(BINS)
    product, nothing = purified(1.0), purified(0.0)
    xor = np.outer(means - 0.5, means - 0.5)
    pair, linear = np.abs(product.terms[0, 1] - xor).max(), np.abs(product.terms[0,] - (means - 0.5) / 2).max()
    main, gone = np.abs(nothing.terms[0,] - (logs + 1)).max(), np.abs(nothing.terms[0, 1]).max()
    middle = max(
        float(np.abs(purified(lam).terms[0,] - ((1 - lam) * (logs + 1) + lam * (means - 0.5) / 2)).max())
        for lam in (0.25, 0.5, 0.75)
    )
    return (
        Claim(
            "product",
            "Section 7.1, Figure 7",
            "the mass-moving purification algorithm shows that Y = X1X2 has the following XOR-like interaction and "
            "linear main effects",
            "The pure terms of X1 X2 are the interaction (x1−½)(x2−½) and the straight lines (x−½)/2.",
            f"Largest difference of the pure terms on {BINS} × {BINS} bins to these formulas.",
            {"pair": float(pair), "main": float(linear)},
            holds_if(below("pair", 1e-12), below("main", 1e-12)),
            found=f"The interaction has {percent(exact_share(1.0))} of the variance.",
        ),
        Claim(
            "log-additive",
            "Section 7.1, Figure 8",
            "the main effects recovered at λ=0 are logarithmic, and the interaction effect completely disappears",
            "log(X1 X2) has logarithmic main effects and no interaction; a model trained on it keeps a weak one, the "
            "error of its fit.",
            "Purified at λ = 0, cell means of the function: the largest value of the interaction, and the distance "
            "of the "
            "main effects from log x + 1. And the s.d. of the interaction that XGB2 learns, pure and raw (that of a "
            "main "
            "effect is 1).",
            {
                "pair": float(gone),
                "main": float(main),
                "learned, pure": learned[0.0].pure,
                "learned, raw": learned[0.0].raw,
            },
            holds_if(below("pair", 1e-12), below("main", 1e-12)),
        ),
        Claim(
            "transition",
            "Figure 8",
            "The purification algorithm recovers the transition from logarithmic to linear main effects",
            "The main effects go from logarithmic to linear: they are (1−λ)(log x + 1) + λ(x−½)/2.",
            "Largest difference of main effects to the formula, at λ = 0.25, 0.5, 0.75.",
            {"gap": middle},
            holds_if(below("gap", 1e-12)),
        ),
    )


def _strength_claims(learned: dict[float, Learned]) -> tuple[Claim, ...]:
    _, means = cell_means(BINS)
    xor = np.outer(means - 0.5, means - 0.5)
    shape = max(float(np.abs(purified(lam).terms[0, 1] / lam - xor).max()) for lam in (0.01, 0.3, 1.0))
    bases = max(float(np.abs(purified(0.3, base).terms[0, 1] - purified(0.3).terms[0, 1]).max()) for base in (2, 10))
    shares = {f"share, base {base:.3g}": exact_share(0.5, base) for base in (2.0, math.e, 10.0)}
    return (
        Claim(
            "same-pattern",
            "Section 7.1",
            "for any λ ≠ 0, the pattern of the pure interaction effect is the same, and the overall strength of the "
            "interaction effect increases as λ → 1",
            "The interaction is λ(x1−½)(x2−½), so it grows in proportion to λ; what a trained model shows follows "
            "this only where the interaction is stronger than the error of the fit.",
            "Largest difference of interaction / λ to (x1−½)(x2−½) at λ = 0.01, 0.3, 1; and λ at which XGB2's is "
            "weakest.",
            {"gap": shape, "lowest learned at λ": _lowest(learned)},
            holds_if(below("gap", 1e-10)),
            found=f"Learned by XGB2 at λ = 0, 0.5, 1: {_three(learned, 'pure')} (exact: 0, {number(1 / 24)}, "
            f"{number(1 / 12)}).",
        ),
        Claim(
            "base",
            "Section 7.1, footnote 3",
            "The base of the logarithm does not alter the shape of the interaction, but does affect how rapidly C "
            "varies with λ",
            "The base has no influence on the interaction at all, only on its share of the variance.",
            "Largest difference of the interactions for bases 2 and 10 to that for e at λ = 0.3; share of the "
            "interaction in "
            "the variance at λ = 0.5, by base.",
            {"gap": bases} | shares,
            undecided("C is not defined in the paper"),
            holds_if(
                above("gap", 1e-10), partly=(below("gap", 1e-10), above("share, base 10", shares["share, base 2"]))
            ),
            "C is the size of the interaction; in part if the base changes its share only",
        ),
    )


def _three(learned: dict[float, Learned], name: str) -> str:
    return ", ".join(number(getattr(learned[lam], name)) for lam in (0.0, 0.5, 1.0))


def _product_figure() -> Any:
    plt = pyplot()
    fig, axes = plt.subplots(1, 3, figsize=(WIDTH, 2.1), width_ratios=(1.2, 1, 1))
    product = purified(1.0)
    mesh = axes[0].imshow(
        product.terms[0, 1].T, origin="lower", extent=(0, 1, 0, 1), cmap=diverging(), vmin=-0.25, vmax=0.25
    )
    fig.colorbar(mesh, ax=axes[0], fraction=0.05, pad=0.04)
    axes[0].set(title="interaction, effect on Y", xlabel="x1", ylabel="x2", xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
    axes[0].grid(visible=False)
    for k, ax in enumerate(axes[1:]):
        ax.stairs(product.terms[k,], np.linspace(0, 1, BINS + 1), baseline=None, color=look.MAIN, lw=1.6)
        ax.set(
            title=f"main effect of x{k + 1}", xlabel=f"x{k + 1}", xlim=(0, 1), ylim=(-0.27, 0.27), xticks=(0, 0.5, 1)
        )
        ax.set_box_aspect(1)
    axes[1].set_ylabel("effect on Y", labelpad=1)
    add_letters(axes)
    return fig


def _mains_figure(learned: dict[float, Learned]) -> Any:
    plt = pyplot()
    fig, axes = plt.subplots(1, 4, figsize=(WIDTH, 2.6), width_ratios=(1, 1, 1, 1.3))
    x = np.geomspace(1e-3, 1, 400)
    for ax, lam in zip(axes[:3], (0.0, 0.5, 1.0), strict=True):
        rows = np.column_stack([x, x])
        ax.plot(x, learned[lam].fx.term_values(rows, "x1"), color=look.POSITIVE, lw=2.2, label="XGB2, pure")
        ax.plot(x, exact_main(x, lam), color="black", lw=1, label="exact")
        ax.set(title=f"λ = {lam:g}", xlabel="x1", xticks=(0, 0.5, 1), ylim=(-6.2, 1.6))
    axes[0].set_ylabel("effect on Y")
    axes[0].legend(loc="lower right", fontsize=7.5)
    lams = list(learned)
    axes[3].plot(x, x / 12, color="black", lw=1, label="exact, λ/12")
    axes[3].plot(lams, [found.pure for found in learned.values()], "o", ms=4, color=look.POSITIVE, label="XGB2, pure")
    axes[3].plot(lams, [found.raw for found in learned.values()], "s", ms=3.5, color=look.RAW, label="XGB2, raw")
    axes[3].set(title="interaction", xlabel="λ", yscale="log", ylim=(0.004, 6), xticks=(0, 0.5, 1))
    axes[3].set_ylabel("s.d. of the interaction")
    axes[3].legend(fontsize=7.5, loc="upper right")
    add_letters(axes)
    return fig
