"""Sections 5.1 and 5.3, Figures 3, 10 and 11: how fast mass moving converges; Theorems 1 and 2."""

from __future__ import annotations

from typing import Any

import numpy as np

from studies.common import WIDTH, Section, Settings, add_letters, markdown_table, number, paragraphs, percent, pyplot
from studies.judging import Claim, above, below, holds_if
from studies.mass_moving import (
    PROMISED,
    TARGET,
    WEIGHTS,
    Case,
    draw,
    left_as_printed,
    measure,
    share_above,
    traces,
)
from treeanova import views as look
from treeanova.core.arrays import Floats

SIGMAS = (1, 10, 100)
SIZES = (2, 25, 100)
KINDS = ("uniform", "random")
SHOWN = 20  # passes that the figure of the paper's own experiment shows
ALMOST_ALL = 0.95  # of the mass
SMALL = 20  # passes

DRAWN = ("random, 100 × 100", "normal, ρ = 0.9, 64 × 64", "sparse, 150 rows on 100 × 100", "[[1, δ], [δ, 1]], δ = 0.01")

_CAPTIONS = (
    (
        "The paper's Figures 3, 10 and 11: median of Mᵗ over draws, with a band from the lower to the upper quartile; "
        "(a) to (c) uniform w, (d) to (f) random w, for P = 2, 25 and 100. Dashed: 2⁻ᵗ. Titles: median passes to "
        "1e−10 M⁰."
    ),
    (
        "(a) Mass left over passes, one run per w; dotted, a line of slope κᵗ through the run's value at half of its "
        "length, "
        "that is c κᵗ. (b) Passes to 1e−10 M⁰ over 1 − κ."
    ),
)
_DERIVATION = """**Why the rate is κ.** Let u be the column means of a table with zero row means, and scale them by
the roots of the columns' masses: v_j = u_j √w_.j. Taking the column means out and then the row means gives new
column means whose scaled vector is v' = AᵀA v, where A_ij = w_ij / √(w_i. w_.j). The largest singular value of A is
1, with the vector √w_.j, and v is orthogonal to it because the table is centred. On the complement the largest
singular value is κ = σ₂(A), the maximal correlation of the two features (Hirschfeld, Gebelein, Rényi). So a sweep
of two passes multiplies the root mean square of the means by at most κ² = σ₂², and asymptotically by exactly κ²
unless the table has no part along that singular vector; one pass by κ. M is a norm of the same means, so it has the
same rate, and M ≤ ε takes about ln(ε/M⁰) / ln κ passes. One half per pass, as Theorem 2 says, would need κ ≤ ½; and
for w ∝ [[1, δ], [δ, 1]] one has κ = (1−δ)/(1+δ), as close to 1 as one likes."""

Found = dict[tuple[str, int, int], Floats]


def run(settings: Settings) -> Section:
    """The study of convergence."""
    n_draws = 20 if settings.quick else 100
    keys = [(kind, size, sigma) for kind in KINDS for size in SIZES for sigma in SIGMAS]
    found = {key: traces(*key, n_draws=n_draws, length=200) for key in keys}
    cases = {name: measure(weights) for name, weights in WEIGHTS.items()}
    body = paragraphs(
        "The paper's experiment: tables of P × P cells drawn from N(0, σ), w uniform or drawn from N(0, σ), "
        f"{n_draws} draws. Normal weights are negative half of the time; we take absolute values. Figure 3 of the "
        "paper shows two of these settings (uniform, σ = 1, P = 100; random, σ = 10, P = 100), its Figures 10 and 11 "
        "(Supplement B) all nine with uniform and all nine with random w. Ours shows all eighteen: the median of Mᵗ "
        "and its quartiles, because a few slow draws decide the mean. Titles give the median number of passes to "
        "1e−10 M⁰. The caption of Figure 3b speaks of a density drawn from a multivariate normal; the density of "
        "a normal "
        "with covariance σI itself is a product of marginals, for which one sweep suffices, so that this is not what "
        "the "
        "figure shows.",
        settings.save(
            _own_figure(found), "convergence", "Unpurified mass over passes on the paper's own draws", _CAPTIONS[0]
        ),
        _own_table(found),
        "σ changes the scale only, because w is normalised and purification is linear (largest relative difference "
        f"between the curves for σ = 1 and 100: {number(scale_gap(found))}).",
        f"**Theorem 2 with other weights.** With ε = {number(TARGET)} M⁰ it promises {number(PROMISED)} passes for "
        "every w. In fact M falls by the factor κ per pass.",
        _DERIVATION,
        settings.save(
            _theorem_figure(cases), "theorem2", "Passes needed against what Theorem 2 promises", _CAPTIONS[1]
        ),
        _case_table(cases),
        "Random tables need somewhat fewer passes than ln ε / ln κ, which is the number for the slowest table. The "
        "direct solver of treeanova needs no passes.",
    )
    return Section("Convergence: Theorems 1 and 2, Figures 3, 10 and 11", body, claims(found, cases))


def scale_gap(found: Found) -> float:
    """The largest relative difference of the curves for σ = 1 and 100."""
    pairs = [(found[kind, size, 1], found[kind, size, 100] / 100) for kind in KINDS for size in SIZES]
    return float(max(np.abs(small - large)[:, :SHOWN].max() / small[:, 0].min() for small, large in pairs))


def moved(trace: Floats, t: int = 2) -> Floats:
    """Share of the mass that is moved in t passes, by draw."""
    share: Floats = 1 - trace[:, t] / trace[:, 0]
    return share


def n_passes(trace: Floats) -> Floats:
    """Passes until M ≤ ε, by draw."""
    passes: Floats = (trace > TARGET * trace[:, :1]).sum(axis=1)
    return passes


def _own_table(found: Found) -> str:
    rows = []
    for size in SIZES:
        trace = found["random", size, 1]
        first, sweep, passes = moved(trace, 1), moved(trace), n_passes(trace)
        needs = f"{np.median(passes):.0f} / {passes.max():.0f}" + ("+" if passes.max() >= trace.shape[1] else "")
        rows.append((size, *(f"{percent(x.mean())}, {percent(x.min())}" for x in (first, sweep)), needs))
    header = ("P, random w", "moved after one pass: mean, worst draw", "after one sweep: mean, worst draw")
    return markdown_table(rows, (*header, "passes to 1e−10 M⁰: median / worst"))


def _case_table(cases: dict[str, Case]) -> str:
    rows = []
    for name, case in cases.items():
        left = number(case.direct_mass / case.trace[0])
        rows.append((name, f"{case.correlation:.4f}", f"{case.passes:,}", f"{case.expected:,.0f}", left))
    return markdown_table(rows, ("w", "κ", "passes needed", "ln ε / ln κ", "M / M⁰ after the direct solver"))


def claims(found: Found, cases: dict[str, Case]) -> tuple[Claim, ...]:
    """The claims of Sections 5.1 and 5.3 on convergence, judged."""
    return (_theorem_1(found, cases), *_theorem_2(found, cases), *_own_claims(found), _scale_claim(found, cases))


def _left_after_sweep(trace: Floats) -> float:
    """M² / M⁰ of a run, or its last value if it ended earlier."""
    return float(trace[min(2, len(trace) - 1)] / trace[0])


def _theorem_1(found: Found, cases: dict[str, Case]) -> Claim:
    even = [found["uniform", size, sigma] for size in SIZES for sigma in SIGMAS]
    sides = []
    for seed in range(20):
        weights = np.repeat(np.random.default_rng(seed).random((25, 1)), 20, axis=1)
        sides += [_left_after_sweep(measure(w).trace) for w in (weights, weights.T)]
    table, weights = draw("uniform", 100, 1, 0)
    numbers = {
        "left, uniform": max(float((trace[:, 2] / trace[:, 0]).max()) for trace in even),
        "left, one side": max(sides),
        "left, product": _left_after_sweep(cases["product of marginals, 25 × 25"].trace),
        "left, printed m": left_as_printed(table, weights),
    }
    return Claim(
        "theorem-1",
        "Theorem 1",
        "For any T_{a,b}, Ω, if w_{i,j} = w_{i,j'} ∀ i, j': M^t = 0 ∀ t ≥ 2",
        "One sweep suffices if w is equal along rows or along columns, and for every product of marginals too; but "
        "not with "
        "m as Eq. 9 prints it.",
        "M² / M⁰ with m divided by the slice's mass: uniform w, w equal along one side (20 draws, both sides), and a "
        "product "
        "of marginals, which the theorem does not cover; and with the printed m for uniform w, P = 100.",
        numbers,
        holds_if(below("left, printed m", 1e-12)),
        holds_if(below("left, uniform", 1e-12), below("left, one side", 1e-12)),
        "m divided by the slice's mass",
    )


def _theorem_2(found: Found, cases: dict[str, Case]) -> tuple[Claim, ...]:
    first, later = (
        [percent(share_above(found["random", size, 1], 0.5, start), 0) for size in SIZES] for start in (1, 2)
    )
    slow = {f"passes at δ = {d:g}": cases[f"[[1, δ], [δ, 1]], δ = {d:g}"].passes for d in (0.1, 0.01, 0.001)}
    late = cases["[[1, δ], [δ, 1]], δ = 0.01"]
    rate = float(late.trace[401] / late.trace[400])
    return (
        Claim(
            "theorem-2",
            "Theorem 2",
            "For any T_{a,b}, w, Ω, for any ε > 0: M^t ≤ ε ∀ t ≥ τ(ε), where τ(ε) = log₂(M⁰/ε)",
            "The bound of Theorem 2 fails for dependent features, by any factor: M falls by κ per pass, and κ can be "
            "close to 1. With the printed m it fails even for uniform w.",
            "Passes until M ≤ 1e−10 M⁰ for w ∝ [[1, δ], [δ, 1]], in both columns with m divided by the slice's mass, "
            f"the better reading; {PROMISED:.1f} are promised for every w.",
            slow,
            holds_if(*(below(name, PROMISED) for name in slow)),
            found=f"Random draws with P = 2, 25, 100 break the bound too: {', '.join(first)} of them at "
            f"some t ≥ 1, {', '.join(later)} at some t ≥ 2.",
        ),
        Claim(
            "order-of-log",
            "Section 5.1",
            "Alg. 2 converges to the fANOVA decomposition with tolerance ε in O(log(M⁰) − log(ε)) iterations for each "
            "interaction tensor",
            "For a given w the number of passes does grow with log(M⁰/ε); but no constant serves all w, because it is "
            "1 / ln(1/κ).",
            "Ratio of the passes at δ = 0.001 and at δ = 0.1, which one constant would keep near 1; and the distance "
            "of the "
            "ratio of successive M from κ at δ = 0.01, which is zero if convergence is geometric.",
            {
                "ratio of passes": slow["passes at δ = 0.001"] / slow["passes at δ = 0.1"],
                "rate less κ": abs(rate - late.correlation),
            },
            holds_if(below("ratio of passes", 2), partly=(below("rate less κ", 1e-6),)),
            holds_if(below("rate less κ", 1e-6)),
            "for a given w, with a constant that depends on it",
            found=f"Rate {rate:.6f}, κ = {late.correlation:.6f}.",
        ),
    )


def _own_claims(found: Found) -> tuple[Claim, ...]:
    random = {size: found["random", size, 1] for size in SIZES}
    shares = {
        f"{word}, P = {size}": float(end(moved(trace)))
        for word, end in (("mean", np.mean), ("worst", np.min))
        for size, trace in random.items()
    }
    passes = {
        f"{word}, P = {size}": float(end(n_passes(trace)))
        for word, end in (("median", np.median), ("slowest", np.max))
        for size, trace in random.items()
    }
    single = max(float((trace[:, 2] / trace[:, 0]).max()) for (kind, _, _), trace in found.items() if kind == "uniform")
    return (
        Claim(
            "first-iteration",
            "Section 5.3",
            "In all cases, we see that the mass-moving algorithm moves almost all of the mass in the first iteration",
            "On average one sweep moves more than 90 % of the mass, and more than 95 % in every draw of 100 × 100 "
            "cells; for tables of 2 × 2 cells it can be less than half.",
            "Share of the mass that one sweep moves with random w: mean and worst of the draws. 95 % count as almost "
            "all.",
            shares,
            holds_if(
                *(above(f"worst, P = {size}", ALMOST_ALL) for size in SIZES),
                partly=(above("worst, P = 100", ALMOST_ALL),),
            ),
            holds_if(
                *(above(f"mean, P = {size}", ALMOST_ALL) for size in SIZES),
                partly=(above("mean, P = 100", ALMOST_ALL),),
            ),
            "on average, in part if so for P = 100, which Figure 3 shows",
            found="With uniform w all of it is moved.",
        ),
        Claim(
            "uniform-single",
            "Section 5.3, Figures 3a and 10",
            "In the case of the uniform weight distribution, we confirm that the mass-moving algorithm takes only a "
            "single iteration (per row/column) to convergence",
            "With uniform w nothing is left after one sweep, in all nine settings.",
            "Largest M² / M⁰ of all draws, m divided, as in the paper's Figure 3a.",
            {"left": single},
            holds_if(below("left", 1e-12)),
        ),
        Claim(
            "random-few",
            "Section 5.3, Figures 3b and 11",
            "In all settings, the algorithm converges in a small number of iterations",
            "Typically at most twenty passes suffice, with P = 25 and 100 in every draw. There is no bound, for tables "
            "of 2 × 2 cells or more, because κ of a random table can be as close to 1 as one likes.",
            f"Passes to 1e−10 M⁰ with random w: median and slowest of the draws. {SMALL} count as a small number.",
            passes,
            holds_if(
                *(below(f"slowest, P = {size}", SMALL + 1) for size in SIZES),
                partly=tuple(below(f"slowest, P = {size}", SMALL + 1) for size in SIZES[1:]),
            ),
            holds_if(*(below(f"median, P = {size}", SMALL + 1) for size in SIZES)),
            "typically",
        ),
    )


def _scale_claim(found: Found, cases: dict[str, Case]) -> Claim:
    numbers = {
        "random w, P = 400": measure(draw("random", 400, 1, 0)[1]).passes,
        "random w, P = 2": float(np.median(n_passes(found["random", 2, 1]))),
        "normal w, ρ = 0.99, P = 64": cases["normal, ρ = 0.99, 64 × 64"].passes,
    }
    random, normal = below("random w, P = 400", PROMISED), below("normal w, ρ = 0.99, P = 64", PROMISED)
    return Claim(
        "scales",
        "Section 5.3",
        "These results show that the mass-moving algorithm can scale to purify large models",
        "The size of a table does not slow mass moving down: with random w larger tables need fewer passes. "
        "Dependence does, and features of real data are dependent.",
        f"Passes to 1e−10 M⁰; {PROMISED:.0f} or fewer count as scaling.",
        numbers,
        holds_if(random, normal, partly=(random,)),
    )


def _own_figure(found: Found) -> Any:
    plt = pyplot()
    fig, axes = plt.subplots(2, 3, figsize=(WIDTH, 4.2), sharex=True, sharey=True)
    for row, kind in zip(axes, KINDS, strict=True):
        for ax, size in zip(row, SIZES, strict=True):
            for sigma, colour in zip(SIGMAS, look.SERIES, strict=False):
                _band(ax, found[kind, size, sigma][:, : SHOWN + 1], colour, f"σ = {sigma}")
            start = found[kind, size, 1][:, 0].mean()
            t = np.arange(SHOWN + 1)
            ax.plot(t, start * 0.5**t, color="black", ls="--", lw=1, label="$2^{-t}$ (σ = 1)")
            fast = "1 sweep" if kind == "uniform" else f"{np.median(n_passes(found[kind, size, 1])):.0f} passes"
            ax.set(yscale="log", ylim=(1e-11, 3e2), xticks=range(0, SHOWN + 1, 4))
            ax.set_title(f"{kind}, P = {size}: {fast}")
    add_letters(axes.flat)
    axes[0, 2].legend(fontsize=7.5)
    for ax in axes[1]:
        ax.set_xlabel("passes t")
    for ax in axes[:, 0]:
        ax.set_ylabel("unpurified mass $M^t$")
    return fig


def _band(ax: Any, trace: Floats, colour: str, label: str) -> None:
    t, (low, median, high) = np.arange(trace.shape[1]), np.maximum(np.percentile(trace, (25, 50, 75), axis=0), 1e-20)
    ax.plot(t, median, marker="o", ms=2.5, color=colour, label=label)
    ax.fill_between(t, low, high, color=colour, alpha=0.2, lw=0)


def _theorem_figure(cases: dict[str, Case]) -> Any:
    plt = pyplot()
    fig, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3.6))
    for name, colour in zip(DRAWN, look.SERIES, strict=False):
        trace, rate = cases[name].trace, cases[name].correlation
        t, anchor = np.arange(len(trace)), min(60, len(trace) // 2)
        left.plot(t, trace / trace[0], color=colour, label=f"{name}: κ = {rate:.2f}")
        left.plot(t, trace[anchor] / trace[0] * rate ** (t - anchor), color=colour, lw=1, ls=":")
    left.plot([0, PROMISED], [1, TARGET], color="black", ls="--", label="Theorem 2: $2^{-t}$")
    left.plot([], [], color="#666666", lw=1, ls=":", label="$c\\,κ^t$")
    left.set(
        yscale="log",
        xlim=(-1, 120),
        ylim=(3e-11, 2),
        xlabel="passes t",
        ylabel="mass left, $M^t / M^0$",
        title="the rate is κ per pass",
    )
    _needed(right, cases)
    add_letters((left, right))
    handles, labels = left.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=2)
    return fig


def _needed(ax: Any, cases: dict[str, Case]) -> None:
    gap = np.geomspace(1e-3, 0.9, 200)
    slow = {name: case for name, case in cases.items() if case.correlation > 1e-8}
    ax.plot(gap, np.log(TARGET) / np.log1p(-gap), color=look.MAIN, label="ln ε / ln κ")
    ax.axhline(PROMISED, color="black", ls="--", lw=1.2, label="Theorem 2: 33 for all")
    for group, marker in {"random": "o", "normal": "s", "sparse": "^", "[[1, δ]": "D"}.items():
        some = [case for name, case in slow.items() if name.startswith(group)]
        words = {"[[1, δ]": "[[1, δ], [δ, 1]]"}.get(group, group)
        ax.plot([1 - case.correlation for case in some], [case.passes for case in some], marker, ms=5,
                color=look.POSITIVE, mec="white", mew=0.5, ls="none", label=words)  # fmt: skip
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="1 − κ (dependence grows to the left)",
        ylabel="passes to $10^{-10} M^0$",
        title="passes needed",
    )
    ax.set_ylim(bottom=0.4)
    ax.legend(loc="lower left", fontsize=7.5, ncols=2, columnspacing=1)
