"""Figure 2: the multiplicative model a + b X1 + c X2 + d X1 X2 has a different interpretation for every α and β."""

from __future__ import annotations

from typing import Any

import numpy as np

import treeanova
from studies.common import WIDTH, Claim, Section, Settings, markdown_table, number, paragraphs, percent, pyplot
from treeanova import views as look
from treeanova.core.arrays import Floats

# a = 0 and b = c = d = 1 throughout, as in the paper's figure; X1 and X2 are standard normal with correlation ρ.
CORRELATIONS = (0.0, 0.3, 0.6, 0.9)
SETTINGS: dict[str, Any] = {
    "α = 1, β = −ρ": lambda rho: (np.ones_like(rho), -rho),
    "α = −1, β = ρ": lambda rho: (-np.ones_like(rho), rho),
    "α = −ρ, β = 1": lambda rho: (-rho, np.ones_like(rho)),
    "α = ρ, β = −1": lambda rho: (rho, -np.ones_like(rho)),
}


def form_variances(alpha: Any, beta: Any, rho: float) -> tuple[Any, Any, Any]:
    """Variances of (1 + β) X1, (1 + α) X2 and (X1 − α)(X2 − β)."""
    return (1 + beta) ** 2, (1 + alpha) ** 2, 1 + rho**2 + alpha**2 + beta**2 + 2 * alpha * beta * rho


def interaction_share(alpha: Any, beta: Any, rho: float) -> Any:
    """Variance of the interaction over the sum of the variances of all three terms."""
    first, second, interaction = form_variances(alpha, beta, rho)
    return interaction / (first + second + interaction)


def pure_variances(rho: float) -> tuple[float, float]:
    """Exact variances of a pure main effect, x + ρ/(1+ρ²)(x² − 1), and of the pure interaction."""
    return 1 + 2 * (rho / (1 + rho**2)) ** 2, (1 - rho**2) ** 2 / (1 + rho**2)


def normal_weights(x: Floats, rho: float) -> Floats:
    """Standard normal density of two features with correlation ρ on a grid, of sum 1."""
    weights = np.exp(-(x[:, None] ** 2 + x**2 - 2 * rho * np.outer(x, x)) / (2 * (1 - rho**2)))
    scaled: Floats = weights / weights.sum()
    return scaled


def moment_gap(rho: float) -> float:
    """The largest difference of E[(X1 − α)(X2 − β)] and ρ + αβ over 100 random α, β."""
    x = np.linspace(-6, 6, 161)
    weights = normal_weights(x, rho)
    draws = np.random.default_rng(0).normal(size=(100, 2))
    return float(max(abs((x - a) @ weights @ (x - b) - rho - a * b) for a, b in draws))


def measured_variances(rho: float, n_bins: int = 161) -> tuple[float, float]:
    """The same two variances as `purify` finds them on a grid from −6 to 6."""
    x = np.linspace(-6, 6, n_bins)
    weights = normal_weights(x, rho)
    pure = treeanova.purify(x[:, None] + x + np.outer(x, x), weights)
    main, pair = pure.terms[0,], pure.terms[0, 1]
    return float((weights.sum(axis=1) * main**2).sum()), float((weights * pair**2).sum())


def prediction_gap() -> float:
    """The largest difference of two forms of the model, over random α, β and x."""
    alpha, beta, first, second = np.random.default_rng(0).normal(size=(4, 10_000))
    plain = first + second + first * second
    shifted = -alpha * beta + (1 + beta) * first + (1 + alpha) * second + (first - alpha) * (second - beta)
    return float(np.abs(plain - shifted).max())


def run(settings: Settings) -> Section:
    """The study of Figure 2."""
    measured = {rho: measured_variances(rho) for rho in CORRELATIONS}
    error = max(abs(m - e) for rho in CORRELATIONS for m, e in zip(measured[rho], pure_variances(rho), strict=True))
    body = paragraphs(
        "Y = X1 + X2 + X1 X2 with standard normal features, written as −αβ + (1+β) X1 + (1+α) X2 + (X1−α)(X2−β). "
        "Share of the interaction: its variance over the sum of the variances of the three terms. Strength of X1's "
        "main effect: its s.d., |1+β|.",
        settings.save(_figure(), "multiplicative", "Figure 2: interpretations over α, β and ρ"),
        "With correlated features fANOVA is none of these forms. The pure main effects are x + ρ/(1+ρ²)(x²−1), "
        "curved, and the pure interaction has variance (1−ρ²)²/(1+ρ²), less than any choice of α and β can reach:",
        _table(measured),
        f"Formulas and `purify` on a grid of 161 × 161 bins agree within {number(error)}.",
    )
    return Section("The multiplicative model: Section 1.2, Figure 2", body, claims(measured))


def _table(measured: dict[float, tuple[float, float]]) -> str:
    rows = []
    for rho, (main, pair) in measured.items():
        expected = pure_variances(rho)
        rows.append((f"{rho:g}", 1 + rho**2, expected[1], pair, expected[0], main))
    header = ("ρ", "least variance of (X1−α)(X2−β), at α = β = 0", "pure interaction, exact", "purify")
    return markdown_table(rows, (*header, "pure main effect, exact", "purify"))


def claims(measured: dict[float, tuple[float, float]]) -> tuple[Claim, ...]:
    """The claims of Section 1.2, judged."""
    gap = prediction_gap()
    shares = {point: float(interaction_share(point, point, 0.0)) for point in (0.0, 1.0, -1.0)}
    mains = form_variances(-1.0, -1.0, 0.0)[:2]
    return (
        Claim(
            "equal-predictions",
            "Section 1.2, Eq. 3",
            "for any α and β, forms (2) and (3) make the same predictions",
            "holds" if gap < 1e-12 else "does not hold",
            "The multiplicative model predicts the same for any α and β.",
            "Predictions at 10,000 random α, β, X1, X2 differ by less than 1e−12.",
            f"By at most {number(gap)}.",
            {"gap": gap},
        ),
        Claim(
            "strength-varies",
            "Figure 2a",
            "choice of α and β values changes the model's interpretation. In an extreme case, α=β=−1 makes the main "
            "effects disappear entirely",
            "holds" if max(mains) == 0 and shares[-1.0] == 1 else "does not hold",
            "The interaction's share of the variance depends on α and β, and at α = β = −1 there are no main effects.",
            "The share differs between α = β = 0 and 1, and both main effects have variance zero at −1.",
            f"Share {percent(shares[0.0])} at α = β = 0, {percent(shares[1.0])} at 1, {percent(shares[-1.0])} at −1.",
            {"at 0": shares[0.0], "at 1": shares[1.0], "at -1": shares[-1.0]},
        ),
        *_mean_claims(),
        _least_claim(measured),
    )


def _mean_claims() -> tuple[Claim, ...]:
    gap = moment_gap(0.6)
    strengths = [abs(1 + float(choice(np.array(0.6))[1])) for choice in SETTINGS.values()]
    return (
        Claim(
            "mean-of-product",
            "Section 1.2",
            "E[(X1−α)(X2−β)] = ρ + αβ. Thus, if we would want the intercept a to represent E[Y], we must select α,β "
            "such that αβ = −ρ",
            "holds" if gap < 1e-6 else "does not hold",
            "E[(X1−α)(X2−β)] is ρ + αβ for standardised features, as in the paper's figure, so that only αβ = −ρ "
            "makes the intercept E[Y].",
            "E[(X1−α)(X2−β)] by numerical integration is within 1e−6 of ρ + αβ, for 100 random α, β at ρ = 0.6.",
            f"Within {number(gap)}. (At α = β = 0 it is ρ, so the interaction is centred only without correlation; "
            "with other variances ρ is the covariance.)",
            {"gap": gap},
        ),
        Claim(
            "free-choice",
            "Section 1.2, Figure 2b",
            "This selection process has a degree of freedom … different choices of α, β lead to very different "
            "conclusions about the strengths of the main effects",
            "holds" if max(strengths) > 2 * min(strengths) else "in part",
            "Four choices with αβ = −ρ give X1 a main effect between nothing and twice its coefficient.",
            "Among choices with αβ = −ρ the largest strength is more than twice the smallest.",
            f"At ρ = 0.6: {_strengths(0.6)}.",
            {"largest": max(strengths), "smallest": min(strengths)},
        ),
    )


def _least_claim(measured: dict[float, tuple[float, float]]) -> Claim:
    grid = np.linspace(-2, 2, 401)
    alpha, beta = np.meshgrid(grid, grid)
    least = {rho: float(form_variances(alpha, beta, rho)[2].min()) for rho in (0.0, 0.6)}
    independent, dependent = measured[0.0][1], measured[0.6][1]
    same = abs(independent - least[0.0]) < 1e-3
    return Claim(
        "implicit-choice",
        "Section 1.2",
        "the functional ANOVA decomposition, which implicitly sets α,β such that the variance of interaction terms is "
        "minimized",
        "holds" if same and abs(dependent - least[0.6]) < 1e-3 else "in part" if same else "does not hold",
        "For independent features fANOVA is the choice of α and β with the least variance; for correlated ones no α "
        "and β give it, because its main effects are curved and its interaction has less variance than any α and β "
        "allow.",
        "The variance of the pure interaction is the least over all α, β, within 1e−3.",
        f"ρ = 0: {number(independent)} against {number(least[0.0])}; ρ = 0.6: {number(dependent)} against "
        f"{number(least[0.6])}.",
        {"pure 0": independent, "least 0": least[0.0], "pure 0.6": dependent, "least 0.6": least[0.6]},
    )


def _strengths(rho: float) -> str:
    return ", ".join(number(abs(1 + float(choice(np.array(rho))[1]))) for choice in SETTINGS.values())


def _figure() -> Any:
    plt = pyplot()
    fig, axes = plt.subplots(2, 2, figsize=(WIDTH, 6.2), height_ratios=(1, 0.82))
    for ax, rho in zip(axes[0], (0.0, 0.6), strict=True):
        filled = _share_map(ax, rho)
    bar = fig.colorbar(filled, ax=axes[0], fraction=0.05, pad=0.02)
    bar.set_label("share of the interaction")
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    _share_line(axes[1, 0])
    _strength_lines(axes[1, 1])
    return fig


def _share_map(ax: Any, rho: float) -> Any:
    grid = np.linspace(-2, 2, 201)
    alpha, beta = np.meshgrid(grid, grid)
    levels = np.linspace(0, 1, 11)
    filled = ax.contourf(alpha, beta, interaction_share(alpha, beta, rho), levels=levels, cmap="Blues")
    if rho:
        for side in (grid[grid < -rho / 2], grid[grid > rho / 2]):
            ax.plot(side, -rho / side, color=look.DIVERGING[-1], lw=1.6)
        ax.text(0.62, -1.75, "αβ = −ρ", color=look.DIVERGING[-1])
    ax.plot(0, 0, "o", color="black", ms=5)
    ax.annotate("fANOVA" if not rho else "least variance\nof these forms", (0, 0), (0.15, 0.15))
    ax.plot(-1, -1, "s", color="white", ms=5)
    ax.annotate("no main\neffects", (-1, -1), (-1.9, -1.8), color="white")
    name = (
        "correlated features, ρ = 0.6:\ncentring leaves a curve of choices"
        if rho
        else "independent features:\nα, β decide the share"
    )
    ax.set(xlabel="α", title=name, aspect="equal", xlim=(-2, 2), ylim=(-2, 2), xticks=range(-2, 3), yticks=range(-2, 3))
    ax.set_ylabel("β", rotation=0)
    return filled


def _share_line(ax: Any) -> None:
    points = np.linspace(-2, 2, 401)
    ax.plot(points, 100 * interaction_share(points, points, 0.0), color=look.MAIN)
    for point, words in ((-1.0, "no main effects"), (0.0, "fANOVA")):
        ax.plot(point, 100 * interaction_share(point, point, 0.0), "o", ms=5, color="black")
        ax.annotate(words, (point, 100 * interaction_share(point, point, 0.0)), (8, 2), textcoords="offset points")
    ax.set(
        xlabel="α = β", ylabel="share of the interaction, %", ylim=(0, 108), title="Figure 2a: one function, any share"
    )


def _strength_lines(ax: Any) -> None:
    rho = np.linspace(0, 0.99, 100)
    for name, choice in SETTINGS.items():
        ax.plot(rho, np.abs(1 + choice(rho)[1]), label=name)
    pure = np.sqrt(1 + 2 * (rho / (1 + rho**2)) ** 2)
    ax.plot(rho, pure, color="black", lw=2.2, label="fANOVA")
    ax.plot(rho, np.ones_like(rho), color="black", lw=1.1, ls="--", label="α = β = 0")
    ax.set(
        xlabel="correlation ρ", ylabel="s.d. of X1's main effect", xlim=(0, 1), title="Figure 2b: αβ = −ρ, any strength"
    )
    ax.set(ylim=(-0.1, 3.3), yticks=(0, 0.5, 1, 1.5, 2))  # no line of the grid behind the legend
    options = {"frameon": True, "framealpha": 1, "edgecolor": "none"}
    ax.legend(ncols=2, loc="upper left", fontsize=7.5, columnspacing=1, handlelength=1.4, **options)
