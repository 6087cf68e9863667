"""Sections 5.1 and 5.3, Figures 3, 10 and 11: how fast mass moving converges; Theorems 1 and 2."""

from __future__ import annotations

from typing import Any

import numpy as np

from studies.common import WIDTH, Claim, Section, Settings, markdown_table, number, paragraphs, percent, pyplot
from studies.mass_moving import (
    PROMISED,
    TARGET,
    WEIGHTS,
    Case,
    draw,
    measure,
    share_above,
    traces,
)
from treeanova import views as look
from treeanova.core.arrays import Floats

SIGMAS = (1, 10, 100)
SIZES = (2, 25, 100)
KINDS = ("uniform", "random")
SHOWN = 12  # passes that the figure of the paper's own experiment shows
ALMOST_ALL = 0.95  # of the mass
SMALL = 20  # passes

DRAWN = ("random, 100 × 100", "normal, ρ = 0.9, 64 × 64", "sparse, 150 rows on 100 × 100", "[[1, δ], [δ, 1]], δ = 0.01")

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
        "(Supplement B) all nine with uniform and all nine with random w. Ours shows all eighteen: mean of Mᵗ, with a "
        "band of one s.d. above (below, most would leave a logarithmic axis). Titles give the median number of passes "
        "to 1e−10 M⁰.",
        settings.save(_own_figure(found), "convergence", "Figures 3, 10 and 11: convergence on the paper's own draws"),
        _own_table(found),
        "σ changes the scale only, because w is normalised and purification is linear (largest relative difference "
        f"between the curves for σ = 1 and 100: {number(scale_gap(found))}).",
        f"**Theorem 2 with other weights.** With ε = {number(TARGET)} M⁰ it promises {number(PROMISED)} passes for "
        "every w. In fact M falls by the factor κ per pass.",
        settings.save(_theorem_figure(cases), "theorem2", "Passes needed against what Theorem 2 promises"),
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


def _theorem_1(found: Found, cases: dict[str, Case]) -> Claim:
    even = [found["uniform", size, sigma] for size in SIZES for sigma in SIGMAS]
    uniform = max(float((trace[:, 2] / trace[:, 0]).max()) for trace in even)
    sides = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        weights = np.repeat(rng.random((25, 1)), 20, axis=1)
        for w in (weights, weights.T):
            trace = measure(w).trace
            sides.append(float(trace[min(2, len(trace) - 1)] / trace[0]))
    product = cases["product of marginals, 25 × 25"]
    wider = float(product.trace[2] / product.trace[0])
    worst = max(uniform, *sides)
    return Claim(
        "theorem-1",
        "Theorem 1",
        "For any T_{a,b}, Ω, if w_{i,j} = w_{i,j'} ∀ i, j': M^t = 0 ∀ t ≥ 2",
        "holds" if worst < 1e-12 else "does not hold",
        "One sweep suffices if w is equal along rows or along columns, and for every product of marginals too.",
        "M² / M⁰ below 1e−12, for uniform w and for 20 random w that are equal along rows, and along columns (means "
        "of slices divided by their mass).",
        f"Uniform w, all {len(even)} settings: {number(uniform)}; equal along one side: {number(max(sides))}; a "
        f"product of marginals, which the theorem does not cover: {number(wider)}.",
        {"worst": worst, "product": wider},
    )


def _theorem_2(found: Found, cases: dict[str, Case]) -> tuple[Claim, ...]:
    own = [found["random", size, 1] for size in SIZES]
    first, later = ([percent(share_above(trace, 0.5, start), 0) for trace in own] for start in (1, 2))
    slow = [cases[f"[[1, δ], [δ, 1]], δ = {delta:g}"] for delta in (0.1, 0.01, 0.001)]
    late = cases["[[1, δ], [δ, 1]], δ = 0.01"]
    rate = float(late.trace[401] / late.trace[400])
    return (
        Claim(
            "theorem-2",
            "Theorem 2",
            "For any T_{a,b}, w, Ω, for any ε > 0: M^t ≤ ε ∀ t ≥ τ(ε), where τ(ε) = log₂(M⁰/ε)",
            "does not hold" if max(case.passes for case in slow) > PROMISED else "holds",
            "The bound of Theorem 2 fails for dependent features, by any factor: M falls by κ per pass, and κ can be "
            "close to 1.",
            f"M ≤ 1e−10 M⁰ within {PROMISED:.1f} passes, for every w.",
            f"w ∝ [[1, δ], [δ, 1]] with δ = 0.1, 0.01, 0.001 needs {', '.join(f'{case.passes:,}' for case in slow)} "
            f"passes. The paper's own random draws with P = 2, 25, 100 break the bound too: {', '.join(first)} of "
            f"them at some t ≥ 1, {', '.join(later)} at some t ≥ 2.",
            {"passes at 0.1": slow[0].passes, "passes at 0.01": slow[1].passes, "passes at 0.001": slow[2].passes},
        ),
        Claim(
            "order-of-log",
            "Section 5.1",
            "Alg. 2 converges to the fANOVA decomposition with tolerance ε in O(log(M⁰) − log(ε)) iterations for each "
            "interaction tensor",
            "in part",
            "For a given w the number of passes does grow with log(M⁰/ε); but no constant serves all w, because it is "
            "1 / ln(1/κ).",
            "Passes ≤ C log(M⁰/ε) with one C for all w.",
            f"At δ = 0.01 the ratio of successive M is {rate:.6f}, which is κ = {late.correlation:.6f}: geometric. "
            "Passes per factor of ten at δ = 0.1, 0.01, 0.001: "
            f"{', '.join(f'{case.passes / 10:.0f}' for case in slow)}.",
            {"rate": rate, "kappa": late.correlation},
        ),
    )


def _own_claims(found: Found) -> tuple[Claim, ...]:
    random = {size: found["random", size, 1] for size in SIZES}
    uniform = [found["uniform", size, sigma] for size in SIZES for sigma in SIGMAS]
    means = {size: float(moved(trace).mean()) for size, trace in random.items()}
    worst = {size: float(moved(trace).min()) for size, trace in random.items()}
    passes = {size: n_passes(trace) for size, trace in random.items()}
    single = max(float((trace[:, 2] / trace[:, 0]).max()) for trace in uniform)
    typical, slowest = ({size: float(value(some)) for size, some in passes.items()} for value in (np.median, np.max))
    return (
        Claim(
            "first-iteration",
            "Section 5.3",
            "In all cases, we see that the mass-moving algorithm moves almost all of the mass in the first iteration",
            "holds" if min(worst.values()) >= ALMOST_ALL else "in part",
            "On average one sweep moves more than 90 % of the mass; for tables of 2 × 2 cells it can be less than "
            "half.",
            f"One sweep over rows and columns moves at least {percent(ALMOST_ALL, 0)} of the mass in every draw.",
            "Random w, P = 2, 25, 100: "
            + ", ".join(percent(value) for value in means.values())
            + " on average, "
            + ", ".join(percent(value) for value in worst.values())
            + " in the worst draw; uniform w: all of it.",
            {f"mean {size}": value for size, value in means.items()}
            | {f"worst {size}": v for size, v in worst.items()},
        ),
        Claim(
            "uniform-single",
            "Section 5.3, Figures 3a and 10",
            "In the case of the uniform weight distribution, we confirm that the mass-moving algorithm takes only a "
            "single iteration (per row/column) to convergence",
            "holds" if single < 1e-12 else "does not hold",
            "With uniform w nothing is left after one sweep, in all nine settings.",
            "M² / M⁰ below 1e−12 in every draw of all nine settings.",
            f"At most {number(single)}.",
            {"left": single},
        ),
        Claim(
            "random-few",
            "Section 5.3, Figures 3b and 11",
            "In all settings, the algorithm converges in a small number of iterations",
            "holds"
            if max(slowest.values()) <= SMALL
            else "in part"
            if max(typical.values()) <= SMALL
            else "does not hold",
            "Typically at most twenty passes suffice; the slowest tables of 2 × 2 cells need about three times as "
            "many.",
            f"At most {SMALL} passes to 1e−10 M⁰ in every draw.",
            "Median and slowest draw, P = 2, 25, 100: "
            + ", ".join(f"{typical[size]:.0f} and {slowest[size]:.0f}" for size in SIZES)
            + ".",
            {f"median {size}": v for size, v in typical.items()}
            | {f"slowest {size}": v for size, v in slowest.items()},
        ),
    )


def _scale_claim(found: Found, cases: dict[str, Case]) -> Claim:
    large = measure(draw("random", 400, 1, 0)[1]).passes
    typical = {size: float(np.median(n_passes(found["random", size, 1]))) for size in SIZES}
    slow = cases["normal, ρ = 0.99, 64 × 64"].passes
    return Claim(
        "scales",
        "Section 5.3",
        "These results show that the mass-moving algorithm can scale to purify large models",
        "holds" if max(large, slow) <= PROMISED else "in part" if large <= PROMISED else "does not hold",
        "The size of a table does not slow mass moving down: with random w larger tables need fewer passes. "
        "Dependence does, and features of real data are dependent.",
        f"At most {PROMISED:.0f} passes to 1e−10 M⁰ for large tables, with random and with dependent w.",
        f"Random w, P = {', '.join(str(size) for size in SIZES)}, 400: "
        + ", ".join(f"{typical[size]:.0f}" for size in SIZES)
        + f", {large} passes; normal w with ρ = 0.99, P = 64: {slow:,}.",
        {"random 400": large, "normal": slow},
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
            fast = "one sweep" if kind == "uniform" else f"{np.median(n_passes(found[kind, size, 1])):.0f} passes"
            ax.set(yscale="log", ylim=(1e-8, 3e2), xticks=range(0, SHOWN + 1, 2))
            ax.set_title(f"{kind} w, P = {size}: {fast}", fontsize=8)
    axes[0, 2].legend(fontsize=7.5)
    for ax in axes[1]:
        ax.set_xlabel("passes t")
    for ax in axes[:, 0]:
        ax.set_ylabel("unpurified mass $M^t$")
    return fig


def _band(ax: Any, trace: Floats, colour: str, label: str) -> None:
    t, mean = np.arange(trace.shape[1]), np.maximum(trace.mean(axis=0), 1e-20)
    ax.plot(t, mean, marker="o", ms=2.5, color=colour, label=label)
    ax.fill_between(t, mean, mean + trace.std(axis=0), color=colour, alpha=0.2, lw=0)


def _theorem_figure(cases: dict[str, Case]) -> Any:
    plt = pyplot()
    fig, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3.6))
    for name, colour in zip(DRAWN, look.SERIES, strict=False):
        trace, rate = cases[name].trace, cases[name].correlation
        t, anchor = np.arange(len(trace)), min(100, len(trace) // 2)
        left.plot(t, trace / trace[0], color=colour, label=f"{name}: κ = {rate:.2f}")
        left.plot(t, trace[anchor] / trace[0] * rate ** (t - anchor), color=colour, lw=1, ls=":")
    left.plot([0, PROMISED], [1, TARGET], color="black", ls="--", label="Theorem 2: $2^{-t}$")
    left.plot([], [], color="#666666", lw=1, ls=":", label="$κ^t$")
    left.set(
        yscale="log",
        xlim=(-1, 120),
        ylim=(3e-11, 2),
        xlabel="passes t",
        ylabel="mass left, $M^t / M^0$",
        title="Dependence decides the rate: κ per pass",
    )
    _needed(right, cases)
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
        title="The promise of Theorem 2 is broken",
    )
    ax.set_ylim(bottom=0.4)
    ax.legend(loc="lower left", fontsize=7.5, ncols=2, columnspacing=1)
