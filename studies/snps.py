"""Section 7.2, Tables 1 and 2: five generators of two SNPs, pure coefficients exactly, and what a forest recovers."""

from __future__ import annotations

from typing import Any

import numpy as np

from studies.common import (
    WIDTH,
    Claim,
    Section,
    Settings,
    draw_bars,
    markdown_table,
    number,
    paragraphs,
    percent,
    pyplot,
)
from studies.snp_generators import (
    BOOLEAN,
    GENERATORS,
    LOCI,
    N_ROWS,
    N_SNPS,
    N_TREES,
    NOISE,
    PRINTED,
    Recovered,
    main_strength,
    pure_coefficients,
    purify_gap,
    recover,
    xor_coefficient,
)
from treeanova.views import look

FITTED = ("0/1, fair", "0/1/2, q = 1/2", "0/1/2, q = 1/4")

_SHORT = ("inter-\naction\nonly", "modi-\nfier", "no\ninter-\naction", "redun-\ndant", "syner-\ngistic")

Results = dict[tuple[str, str], Recovered]


def run(settings: Settings) -> Section:
    """The study of the five SNP generators."""
    n_repeats = 4 if settings.quick else 20
    found = {(where, name): recover(name, LOCI[where], n_repeats) for where in FITTED for name in GENERATORS}
    body = paragraphs(
        "Table 2, recomputed in rational arithmetic for fair 0/1 SNPs. The last column is the coefficient of the "
        "centred XOR of ±1, +1 where the SNPs differ.",
        _table_2(),
        "Real SNPs count minor alleles, 0, 1 or 2. In Hardy–Weinberg proportion with allele frequency q the pure main "
        "effects are (b + 2qd)(X − 2q) and the interaction is d (X1 − 2q)(X2 − 2q), of standard deviation 2q(1−q):",
        _frequency_table(),
        f"`treeanova.purify` agrees with all of this within {number(purify_gap())}.",
        f"**What a random forest recovers.** {N_TREES} trees of depth 2 on {N_ROWS} rows of {N_SNPS} SNPs, noise "
        f"{NOISE:g} times the interaction's σ, {n_repeats} repeats. Bars: pure coefficients of the generators. Points: "
        "coefficient of (X1−μ)(X2−μ) in the forest's pure SNP1 × SNP2 (the truth is ±1 or 0), mean and standard error; "
        "signs are turned so that the truth is positive.",
        settings.save(_figure(found), "snps", "Pure coefficients, and what a random forest recovers"),
        _forest_table(found),
    )
    return Section("SNP generators of Wright et al.: Tables 1 and 2", body, _claims(found))


def _table_2() -> str:
    rows = []
    for name, raw in GENERATORS.items():
        first, second, _ = pure_coefficients(name, BOOLEAN)
        printed = ", ".join(f"{value:g}".replace("-", "−") for value in PRINTED[name])
        ours = (str(value).replace("-", "−") for value in (first, second, xor_coefficient(name)))
        rows.append((name, ", ".join(str(value).replace("-", "−") for value in raw), printed, *ours))
    return markdown_table(rows, ("generator", "Table 1", "Table 2 as printed", "SNP1", "SNP2", "SNP1 ⊕ SNP2"))


def _frequency_table() -> str:
    rows = []
    for name in GENERATORS:
        pure = [pure_coefficients(name, locus) for locus in LOCI.values()]
        rows.append((name, *(", ".join(str(value).replace("-", "−") for value in three) for three in pure)))
    sizes = ("σ of (X1−μ)(X2−μ)", *(str(locus.variance) for locus in LOCI.values()))
    return markdown_table([*rows, sizes], ("SNP1, SNP2, product", *LOCI))


def _forest_table(found: Results) -> str:
    rows = []
    for (where, name), one in found.items():
        error = one.coefficient.std(ddof=1) / np.sqrt(len(one.coefficient))
        coefficient = f"{one.coefficient.mean():.3f} ± {error:.3f}".replace("-", "−")
        firsts = percent(one.first, 0), percent(one.first_raw, 0)
        rows.append((where, name, f"{main_strength(name, LOCI[where]):.2f}", coefficient, *firsts))
    header = ("SNPs", "generator", "σ of main effects / σ of interaction", "recovered coefficient")
    return markdown_table(rows, (*header, "strongest of 45 pairs, pure", "the same, raw trees"))


def _claims(found: Results) -> tuple[Claim, ...]:
    return (*_table_claims(), *_forest_claims(found))


def _table_claims() -> tuple[Claim, ...]:
    names = list(GENERATORS)
    mains = sum(PRINTED[name][k] == pure_coefficients(name, BOOLEAN)[k] for name in names for k in (0, 1))
    signs = [name for name in names if PRINTED[name][2] != xor_coefficient(name)]
    sizes = sum(abs(PRINTED[name][2]) == abs(xor_coefficient(name)) for name in names)
    ratio = {
        where: pure_coefficients("Synergistic", at)[0] / pure_coefficients("Interaction only", at)[0]
        for where, at in LOCI.items()
    }
    redundant = pure_coefficients("Redundant", LOCI["0/1/2, q = 1/2"])[0]
    return (
        Claim(
            "Table 2",
            "pure coefficients of the five generators",
            f"main effects: {mains} of 10 right. SNP1 ⊕ SNP2: {sizes} of 5 right in size, but {len(signs)} have the "
            "wrong sign for the XOR that footnote 1 defines (AND = −0.25 XOR + …); right for a product of effect codes",
            "in part",
        ),
        Claim(
            "Section 7.2",
            "synergistic main effects are three times those of interaction only",
            "for fair 0/1 SNPs. "
            + "; ".join(f"{where}: {value}" for where, value in ratio.items())
            + f". At q = 1/2 the coefficient of the redundant generator's main effects is {redundant}",
            "in part",
        ),
        Claim(
            "Section 7.2",
            "the interaction is equally strong in all generators but one",
            "exactly so, at every allele frequency; but 2q(1−q) scales it: σ = "
            + ", ".join(f"{locus.variance} ({where})" for where, locus in LOCI.items()),
            "agree",
        ),
    )


def _forest_claims(found: Results) -> tuple[Claim, ...]:
    gain = {where: _gain(where, found) for where in FITTED}
    none = [found[where, "No interaction"] for where in FITTED]
    return (
        Claim(
            "Section 7.2",
            "a forest recovers interactions of equal strength better where main effects are stronger",
            "recovered coefficient with the strongest main effects over that with the weakest: "
            + "; ".join(f"{where}: {ratio:.1f}" for where, ratio in gain.items()),
            "agree" if min(gain.values()) > 1.25 else "in part",
        ),
        Claim(
            "Section 7.2",
            "interactions can be understood only after purification",
            "the forest too must be purified: without any interaction in the data its raw trees show SNP1 × SNP2 as "
            f"the strongest pair in {', '.join(percent(one.first_raw, 0) for one in none)} of the runs, purified in "
            f"{', '.join(percent(one.first, 0) for one in none)}",
            "agree",
        ),
    )


def _gain(where: str, found: Results) -> float:
    """Recovered coefficient of the generators with the strongest over that of those with the weakest main effects."""
    strengths = {name: main_strength(name, LOCI[where]) for name, (_, _, d) in GENERATORS.items() if d}
    ends = [[n for n in strengths if strengths[n] == end] for end in (max(strengths.values()), min(strengths.values()))]
    strong, weak = (np.mean([abs(found[where, name].coefficient.mean()) for name in names]) for names in ends)
    return float(strong / weak)


def _figure(found: Results) -> Any:
    plt = pyplot()
    fig, axes = plt.subplots(2, 3, figsize=(WIDTH, 5.4), sharey="row")
    for where, (above, below) in zip(FITTED, axes.T, strict=True):
        _bars(above, where)
        _points(below, where, found)
    axes[0, 0].set_ylabel("pure coefficient")
    axes[0, 0].legend(fontsize=8, loc="lower left")
    axes[1, 0].set_ylabel("recovered interaction")
    fig.legend(*axes[1, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return fig


def _bars(ax: Any, where: str) -> None:
    pure = np.array([pure_coefficients(name, LOCI[where]) for name in GENERATORS], dtype=float)
    colours = {"SNP1": "#333333", "SNP2": look.RAW, "(X1−μ)(X2−μ)": look.SERIES[5]}  # not those of the generators
    for k, (label, colour) in enumerate(colours.items()):
        places = np.arange(len(pure)) + 0.27 * (k - 1)
        draw_bars(ax, places, pure[:, k], 0.25, color=colour, label=label)
    ax.axhline(0, color="#888888", lw=0.8, zorder=0.9)
    ax.set_xticks(range(len(pure)), _SHORT, fontsize=8)
    ax.set(title=f"SNPs {where}", ylim=(-1.2, 2.4))
    ax.grid(visible=False, axis="x")


def _points(ax: Any, where: str, found: Results) -> None:
    for name, colour in zip(GENERATORS, look.SERIES, strict=False):
        values = found[where, name].coefficient
        sign = GENERATORS[name][2] or 1
        error = values.std(ddof=1) / np.sqrt(len(values))
        ax.errorbar(main_strength(name, LOCI[where]), sign * values.mean(), error, fmt="o", color=colour, label=name)
    ax.axhline(0, color="#888888", lw=0.8)
    ax.set(xlabel="σ of main effects / σ of interaction", xlim=(-0.3, 4.6))
