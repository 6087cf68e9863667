"""Section 7.2, Tables 1 and 2, Figure 9: five generators of two SNPs before and after, and what a forest recovers."""

from __future__ import annotations

from collections.abc import Mapping
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
from treeanova import views as look

FITTED = ("0/1, fair", "0/1/2, q = 2/5", "0/1/2, q = 1/5")

_SHORT = ("inter-\naction\nonly", "modi-\nfier", "no\ninter-\naction", "redun-\ndant", "syner-\ngistic")

Results = dict[tuple[str, str], Recovered]


_DIFFERENCES = """**What differs from Wright et al. (2016).** Their Table 2 lists effects of 0.4 and 0.8, for the two
interacting SNPs and for further SNPs with main effects only; minor allele frequencies of 0.2 and 0.4; 10 or 50 SNPs
tried at a split; 100 repeats; up to 2,493 noise SNPs; and five importance measures of the forest (Gini, permutation,
pairwise permutation, maximal subtrees, joint). We draw {n_rows} rows of {n_snps} SNPs, of which only two matter, a
numeric outcome with noise {noise:g} times the s.d. of the interaction, {n_trees} trees of depth 2, a third of the
SNPs tried at a split, and {n_repeats} repeats, with coefficients as in Table 1 and allele frequencies of 0.2 and 0.4;
and we measure the forest's pure SNP1 × SNP2 instead of an importance. Their Figures 3 and 4 are not reproduced."""


def run(settings: Settings) -> Section:
    """The study of the five SNP generators."""
    n_repeats = 3 if settings.quick else 20
    found = {(where, name): recover(name, LOCI[where], n_repeats) for where in FITTED for name in GENERATORS}
    body = paragraphs(
        "Tables 1 and 2 for fair 0/1 SNPs, recomputed in rational arithmetic. ⊕ is the centred XOR of ±1, +1 where "
        "the SNPs differ, as footnote 1 of the paper needs it.",
        _table_2(),
        settings.save(_printed_figure(), "snps", "Figure 9: the five generators before and after purification"),
        "Real SNPs count minor alleles, 0, 1 or 2. In Hardy–Weinberg proportion with allele frequency q the pure main "
        "effects of b X1 + c X2 + d X1 X2 are (b + 2qd)(X1 − 2q) and (c + 2qd)(X2 − 2q) and the interaction is d (X1 "
        "− 2q)(X2 − 2q), whose s.d. is 2q(1−q)|d|:",
        _frequency_table(),
        f"`treeanova.purify` agrees with all of this within {number(purify_gap())}.",
        _DIFFERENCES.format(n_rows=N_ROWS, n_snps=N_SNPS, noise=NOISE, n_trees=N_TREES, n_repeats=n_repeats),
        "**What a random forest recovers**: coefficient of (X1−μ)(X2−μ), μ being the mean of a SNP, in the forest's "
        "pure SNP1 × SNP2 (the truth is ±1, or 0 without interaction); mean and standard error over repeats.",
        settings.save(_figure(found), "forests", "What a random forest recovers of the interaction"),
        _forest_table(found),
    )
    return Section("SNP generators of Wright et al.: Section 7.2, Tables 1 and 2, Figure 9", body, claims(found))


def _table_2() -> str:
    rows = []
    for name, raw in GENERATORS.items():
        first, second, _ = pure_coefficients(name, BOOLEAN)
        printed = ", ".join(f"{value:g}".replace("-", "−") for value in PRINTED[name])
        ours = ", ".join(str(value).replace("-", "−") for value in (first, second, xor_coefficient(name)))
        rows.append((name, ", ".join(str(value).replace("-", "−") for value in raw), printed, ours))
    header = ("generator", "Table 1: SNP1, SNP2, SNP1 × SNP2", "Table 2 as printed: SNP1, SNP2, SNP1 ⊕ SNP2")
    return markdown_table(rows, (*header, "Table 2 recomputed"))


def _frequency_table() -> str:
    rows = []
    for name in GENERATORS:
        pure = [pure_coefficients(name, locus) for locus in LOCI.values()]
        rows.append((name, *(", ".join(str(value).replace("-", "−") for value in three) for three in pure)))
    sizes = ("s.d. of (X1−μ)(X2−μ)", *(str(locus.variance) for locus in LOCI.values()))
    return markdown_table([*rows, sizes], ("SNP1, SNP2, product", *LOCI))


def _forest_table(found: Results) -> str:
    rows = []
    for (where, name), one in found.items():
        error = one.coefficient.std(ddof=1) / np.sqrt(len(one.coefficient))
        coefficient = f"{one.coefficient.mean():.3f} ± {error:.3f}".replace("-", "−")
        firsts = percent(one.first, 0), percent(one.first_raw, 0)
        rows.append((where, name, f"{main_strength(name, LOCI[where]):.2f}", coefficient, *firsts))
    header = ("SNPs", "generator", "s.d. of main effects / of interaction", "recovered coefficient")
    return markdown_table(rows, (*header, "runs with SNP1 × SNP2 the strongest of 45 pairs: pure", "raw trees"))


def claims(found: Results) -> tuple[Claim, ...]:
    """The claims of Section 7.2, judged."""
    return (*_table_claims(), *_strength_claims(), *_forest_claims(found))


def _table_claims() -> tuple[Claim, ...]:
    names = list(GENERATORS)
    mains = sum(PRINTED[name][k] == pure_coefficients(name, BOOLEAN)[k] for name in names for k in (0, 1))
    sizes = sum(abs(PRINTED[name][2]) == abs(xor_coefficient(name)) for name in names)
    signs = sum(PRINTED[name][2] == xor_coefficient(name) for name in names)
    moved = sum(GENERATORS[name][k] != pure_coefficients(name, BOOLEAN)[k] for name in names for k in (0, 1))
    return (
        Claim(
            "table-2",
            "Table 2",
            "Data Generator Coefficients, Purified: … SNP1 ⊕ SNP2 0.25, 0.25, 0, −0.25, 0.25",
            "holds" if (mains, signs) == (10, 5) else "in part" if (mains, sizes) == (10, 5) else "does not hold",
            "All main effects and all sizes of interactions are right; four signs of ⊕ are wrong for the XOR of the "
            "paper's own footnote, and right for the product of effect codes of ±1.",
            "All 15 coefficients equal those of rational arithmetic, ⊕ being the XOR by which AND = −0.25 ⊕ + ….",
            f"Main effects {mains} of 10, sizes of ⊕ {sizes} of 5, signs of ⊕ {signs} of 5 right.",
            {"mains": mains, "sizes": sizes, "signs": signs},
        ),
        Claim(
            "look-different",
            "Section 7.2, Figure 9",
            "these data generators look very different before and after purification",
            "holds" if moved >= 5 else "in part",
            "In all generators with an interaction the coefficients of the main effects change, by half of that of "
            "the interaction.",
            "At least half of the ten coefficients of main effects change.",
            f"{moved} of 10 change, by 0.5 each; “interaction only” turns from no main effects to two.",
            {"changed": moved},
        ),
    )


def _strength_claims() -> tuple[Claim, ...]:
    ratio = {
        where: pure_coefficients("Synergistic", at)[0] / pure_coefficients("Interaction only", at)[0]
        for where, at in LOCI.items()
    }
    sizes = {
        where: {abs(pure_coefficients(n, at)[2]) for n, (_, _, d) in GENERATORS.items() if d}
        for where, at in LOCI.items()
    }
    redundant = pure_coefficients("Redundant", LOCI["0/1/2, q = 1/2"])[0]
    return (
        Claim(
            "three-times",
            "Section 7.2",
            "the “synergistic” model has main effects three times as strong as the main effects in the “interaction "
            "only” model",
            "holds" if set(ratio.values()) == {3} else "in part",
            "The main effects of “synergistic” are three times those of “interaction only” for fair 0/1 SNPs; for "
            "SNPs that count alleles the ratio depends on the allele frequency.",
            "The ratio of the pure coefficients is 3, for fair 0/1 SNPs and for SNPs of 0, 1, 2 alleles.",
            ", ".join(f"{where}: {float(value):g}" for where, value in ratio.items())
            + f". (At q = 1/2 the redundant generator has main effects of {redundant}.)",
            {where: float(value) for where, value in ratio.items()},
        ),
        Claim(
            "equal-interaction",
            "Section 7.2",
            "the interaction effect is the same strength for all data generation schemes (except for the “No "
            "Interaction” setting)",
            "holds" if all(len(values) == 1 for values in sizes.values()) else "does not hold",
            "The pure interaction has the same size in all four generators that have one, at every allele frequency.",
            "The absolute coefficients of (X1−μ)(X2−μ) are equal in the four generators.",
            "Equal, exactly, in all cases. Their s.d.: "
            + ", ".join(f"{locus.variance} ({where})" for where, locus in LOCI.items())
            + ".",
            {"different sizes": max(len(values) for values in sizes.values())},
        ),
    )


def _forest_claims(found: Results) -> tuple[Claim, ...]:
    gain = {where: _gain(where, found) for where in FITTED}
    none = [found[where, "No interaction"] for where in FITTED]
    raw, pure = ([getattr(one, part) for one in none] for part in ("first_raw", "first"))
    return (
        Claim(
            "preference",
            "Section 7.2",
            "in the case of interaction effects of equal strength, the random forest preferentially recovers "
            "interactions of variables with stronger main effects",
            "holds" if min(gain.values()) > 1.25 else "in part" if max(gain.values()) > 1.25 else "does not hold",
            "In our simulation forests recover interactions better where main effects are stronger for SNPs that "
            "count alleles, and not for fair 0/1 SNPs.",
            "The recovered coefficient of the generator with the strongest main effects is more than 1.25 times that "
            "of the weakest, for all SNPs.",
            ", ".join(f"{where}: {ratio:.2f}" for where, ratio in gain.items()) + ".",
            gain,
            stand_in="our simulation",
        ),
        Claim(
            "only-after",
            "Section 7.2",
            "interactions can properly be understood only after purification",
            "holds" if all(b > 2 * a for a, b in zip(pure, raw, strict=True)) else "in part",
            "Forests too must be purified: where the data have no interaction, the raw trees still show SNP1 × SNP2 "
            "as the strongest pair most of the time; purified, less often.",
            "Without interaction in the data, SNP1 × SNP2 is the strongest of 45 pairs in the raw trees more than "
            "twice as often as after purification.",
            f"Raw {', '.join(percent(one, 0) for one in raw)} of the runs, pure "
            f"{', '.join(percent(one, 0) for one in pure)} ({'; '.join(FITTED)}).",
            {f"raw {where}": a for where, a in zip(FITTED, raw, strict=True)}
            | {f"pure {where}": b for where, b in zip(FITTED, pure, strict=True)},
            stand_in="our simulation",
        ),
    )


def _gain(where: str, found: Results) -> float:
    """Recovered coefficient of the generators with the strongest over that of those with the weakest main effects."""
    strengths = {name: main_strength(name, LOCI[where]) for name, (_, _, d) in GENERATORS.items() if d}
    ends = [[n for n in strengths if strengths[n] == end] for end in (max(strengths.values()), min(strengths.values()))]
    strong, weak = (np.mean([abs(found[where, name].coefficient.mean()) for name in names]) for names in ends)
    return float(strong / weak)


def _printed_figure() -> Any:
    """Coefficients of Table 1, of Table 2 as printed and with the signs that the paper's own XOR gives."""
    plt = pyplot()
    fig, axes = plt.subplots(1, 2, figsize=(WIDTH, 2.9), sharey=True)
    tables: dict[str, tuple[Mapping[str, Any], str]] = {
        "before: Table 1": (GENERATORS, "SNP1 × SNP2"),
        "after: Table 2, as printed": (PRINTED, "SNP1 ⊕ SNP2"),
    }
    for ax, (title, (table, product)) in zip(axes, tables.items(), strict=True):
        values = np.array(list(table.values()), dtype=float)
        for k, (label, colour) in enumerate(zip(("SNP1", "SNP2", product), look.SERIES, strict=False)):
            draw_bars(ax, np.arange(len(values)) + 0.27 * (k - 1), values[:, k], 0.25, color=colour, label=label)
        ax.axhline(0, color="#888888", lw=0.8, zorder=0.9)
        ax.set_xticks(range(len(values)), _SHORT, fontsize=7.5)
        ax.set(title=title, ylim=(-1.2, 2.1))
        ax.grid(visible=False, axis="x")
        ax.legend(fontsize=7.5, ncols=3, loc="upper left", columnspacing=1, handlelength=1)
    exact = [float(xor_coefficient(name)) for name in GENERATORS]
    axes[1].plot(
        np.arange(len(exact)) + 0.27, exact, "x", color="black", ms=6, mew=1.5, label="with the signs of footnote 1"
    )
    handles, labels = axes[1].get_legend_handles_labels()
    order = [labels.index(name) for name in ("SNP1", "SNP1 ⊕ SNP2", "SNP2", "with the signs of footnote 1")]
    shown = [handles[k] for k in order], [labels[k] for k in order]
    axes[1].legend(*shown, fontsize=7.5, ncols=2, loc="upper left", columnspacing=1, handlelength=1)
    axes[0].set_ylabel("coefficient")
    return fig


def _figure(found: Results) -> Any:
    plt = pyplot()
    fig, axes = plt.subplots(1, 3, figsize=(WIDTH, 3.0), sharey=True)
    for where, ax in zip(FITTED, axes, strict=True):
        _points(ax, where, found)
        ax.set_title(f"SNPs {where}", fontsize=8.5)
    axes[0].set_ylabel("recovered coefficient")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, columnspacing=1)
    fig.suptitle("Stronger main effects help with 0/1/2 SNPs, not with fair 0/1 SNPs", x=0.01, ha="left", fontsize=9)
    return fig


def _points(ax: Any, where: str, found: Results) -> None:
    for name, colour in zip(GENERATORS, look.SERIES, strict=False):
        values = found[where, name].coefficient
        sign = GENERATORS[name][2] or 1
        error = values.std(ddof=1) / np.sqrt(len(values))
        ax.errorbar(
            main_strength(name, LOCI[where]), sign * values.mean(), error, fmt="o", ms=4, color=colour, label=name
        )
    ax.axhline(0, color="#888888", lw=0.8)
    ax.set(xlabel="s.d. of main effects\n/ s.d. of interaction", xlim=(-0.3, 4.9))
