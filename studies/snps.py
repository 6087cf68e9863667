"""Section 7.2, Tables 1 and 2, Figure 9: five generators of two SNPs before and after, and what a forest recovers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from studies.common import (
    WIDTH,
    Section,
    Settings,
    add_letters,
    draw_bars,
    markdown_table,
    number,
    paragraphs,
    percent,
    pyplot,
)
from studies.judging import Claim, above, equal, holds_if, undecided
from studies.snp_generators import (
    BOOLEAN,
    GENERATORS,
    LOCI,
    N_ROWS,
    N_SNPS,
    N_TREES,
    NOISE,
    PRINTED,
    main_strength,
    pure_coefficients,
    purify_gap,
    recover,
    strongest,
    xor_coefficient,
)
from treeanova import views as look
from treeanova.core.arrays import Floats

FITTED = ("0/1, fair", "0/1/2, q = 2/5", "0/1/2, q = 1/5")

_SHORT = ("inter-\naction\nonly", "modi-\nfier", "no\ninter-\naction", "redun-\ndant", "syner-\ngistic")

Results = dict[tuple[str, str, str], Floats]
"""Recovered coefficients by kind of SNP, generator and depth."""
DEPTHS = {"depth 2": 2, "full-grown": None}
PREFERRED = 1.25  # ratio of recovered coefficients from which on one is preferred
WIDE = 2.64  # standard errors: two-sided, six comparisons at 5 % together

_DIFFERENCES = """**What differs from Wright et al. (2016).** Their Table 2 lists effects of 0.4 and 0.8, for the
two interacting SNPs and for further SNPs with main effects only; minor allele frequencies of 0.2 and 0.4; 10 or 50
SNPs tried at a split; 100 repeats; up to 2,493 noise SNPs; and five importance measures of the forest (Gini,
permutation, pairwise permutation, maximal subtrees, joint). We draw {n_rows} rows of {n_snps} SNPs, of which only
two matter, a numeric outcome with noise {noise:g} times the s.d. of the interaction, {n_trees} trees, a third of
the SNPs tried at a split, and {n_repeats} repeats, with coefficients as in Table 1 and allele frequencies of 0.2
and 0.4; and we measure the forest's pure SNP1 × SNP2 instead of an importance. Their Figures 3 and 4 are not
reproduced. What matters most is the depth of the trees: full-grown ones recover five to eleven times as much of the
interaction, and prefer strong main effects only at the higher allele frequency."""
_CAPTIONS = (
    (
        "The paper's Figure 9: coefficients of the five generators, (a) before purification (Table 1), (b) after it "
        "(Table 2, "
        "as printed); crosses are the interactions with the signs of footnote 1. Dashes are coefficients of zero."
    ),
    (
        "Recovered coefficient of the pure SNP1 × SNP2 in forests of depth 2 (top) and of full-grown trees (bottom), "
        "over the "
        "strength of the main effects: (a), (d) fair 0/1 SNPs, (b), (e) alleles with q = 2/5, (c), (f) with q = 1/5. "
        "The "
        "redundant generator, whose interaction is −1, has its sign reversed, so that 1 is the truth for all but “no "
        "interaction”, whose truth is 0. Bars: two standard errors. Both rows have scales of their own."
    ),
)


def run(settings: Settings) -> Section:
    """The study of the five SNP generators."""
    n_repeats, n_firsts = (3, 2) if settings.quick else (40, 20)
    found = {
        (where, name, words): recover(name, LOCI[where], n_repeats, depth)
        for words, depth in DEPTHS.items()
        for where in FITTED
        for name in GENERATORS
    }
    firsts = {where: strongest("No interaction", LOCI[where], n_firsts) for where in FITTED}
    names = ("Coefficients of the five generators before and after", "What random forests recover of the interaction")
    body = paragraphs(
        "Tables 1 and 2 for fair 0/1 SNPs, recomputed in rational arithmetic. ⊕ is the centred XOR of ±1, +1 where "
        "the SNPs differ, as footnote 1 of the paper needs it.",
        _table_2(),
        settings.save(_printed_figure(), "snps", names[0], _CAPTIONS[0]),
        "Real SNPs count minor alleles, 0, 1 or 2. In Hardy–Weinberg proportion with allele frequency q the pure main "
        "effects of b X1 + c X2 + d X1 X2 are (b + 2qd)(X1 − 2q) and (c + 2qd)(X2 − 2q) and the interaction is d (X1 "
        "− 2q)(X2 − 2q), whose s.d. is 2q(1−q)|d|:",
        _frequency_table(),
        f"`treeanova.purify` agrees with all of this within {number(purify_gap())}.",
        _DIFFERENCES.format(n_rows=N_ROWS, n_snps=N_SNPS, noise=NOISE, n_trees=N_TREES, n_repeats=n_repeats),
        "**What a random forest recovers**: coefficient of (X1−μ)(X2−μ), μ being the mean of a SNP, in the forest's "
        "pure SNP1 × SNP2 (the truth is ±1, or 0 without interaction); mean and standard error over repeats. It is the "
        "projection of the forest on that product over fresh draws of the ten SNPs, which are independent.",
        settings.save(_figure(found), "forests", names[1], _CAPTIONS[1]),
        _forest_table(found),
        f"**Without interaction in the data**, how often SNP1 × SNP2 is the strongest of 45 pairs ({n_firsts} "
        "forests of "
        "depth 2):",
        markdown_table(
            [(where, percent(raw, 0), percent(pure, 0)) for where, (pure, raw) in firsts.items()],
            ("SNPs", "raw trees", "purified"),
        ),
    )
    title = "SNP generators of Wright et al.: Section 7.2, Tables 1 and 2, Figure 9"
    return Section(title, body, claims(found, firsts))


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
    rows = [
        (
            *(where, name, f"{main_strength(name, LOCI[where]):.2f}"),
            *(_written(found[where, name, words]) for words in DEPTHS),
        )
        for where in FITTED
        for name in GENERATORS
    ]
    return markdown_table(rows, ("SNPs", "generator", "s.d. of main effects / of interaction", *DEPTHS))


def _written(draws: Floats) -> str:
    """Mean and standard error."""
    return f"{draws.mean():.3f} ± {draws.std(ddof=1) / np.sqrt(len(draws)):.3f}".replace("-", "−")


def claims(found: Results, firsts: Mapping[str, tuple[float, float]]) -> tuple[Claim, ...]:
    """The claims of Section 7.2, judged."""
    return (*_table_claims(), *_strength_claims(), *_forest_claims(found, firsts))


def _table_claims() -> tuple[Claim, ...]:
    names = list(GENERATORS)
    mains = sum(PRINTED[name][k] == pure_coefficients(name, BOOLEAN)[k] for name in names for k in (0, 1))
    sizes = sum(abs(PRINTED[name][2]) == abs(xor_coefficient(name)) for name in names)
    signs = sum(PRINTED[name][2] == xor_coefficient(name) for name in names)
    codes = sum(PRINTED[name][2] == -xor_coefficient(name) for name in names)
    moved = sum(GENERATORS[name][k] != pure_coefficients(name, BOOLEAN)[k] for name in names for k in (0, 1))
    mains_right = equal("main effects right", 10)
    return (
        Claim(
            "table-2",
            "Table 2",
            "Data Generator Coefficients, Purified: … SNP1 ⊕ SNP2 0.25, 0.25, 0, −0.25, 0.25",
            "All main effects and all sizes of interactions are right; four signs of ⊕ are wrong for the XOR of the "
            "paper's own footnote, and right for the product of effect codes of ±1.",
            "Coefficients (of 10 main effects, of 5 interactions) that equal those of rational arithmetic, ⊕ being the "
            "XOR by which AND = −0.25 ⊕ + …, or the product of effect codes.",
            {"main effects right": mains, "sizes right": sizes, "signs right": signs, "signs right with codes": codes},
            holds_if(mains_right, equal("signs right", 5)),
            holds_if(mains_right, equal("signs right with codes", 5)),
            "⊕ as the product of effect codes of ±1",
        ),
        Claim(
            "look-different",
            "Section 7.2, Figure 9",
            "these data generators look very different before and after purification",
            "In all generators with an interaction the coefficients of the main effects change, by half of that of the "
            "interaction.",
            "How many of the ten coefficients of main effects change; half of them count as very different.",
            {"changed": moved},
            holds_if(above("changed", 4), partly=(above("changed", 0),)),
            found="“Interaction only” turns from no main effects to two.",
        ),
    )


def _strength_claims() -> tuple[Claim, ...]:
    ratio = {
        where: float(pure_coefficients("Synergistic", at)[0] / pure_coefficients("Interaction only", at)[0])
        for where, at in LOCI.items()
    }
    sizes = {
        where: len({abs(pure_coefficients(n, at)[2]) for n, (_, _, d) in GENERATORS.items() if d})
        for where, at in LOCI.items()
    }
    redundant = pure_coefficients("Redundant", LOCI["0/1/2, q = 1/2"])[0]
    fair = next(iter(LOCI))
    return (
        Claim(
            "three-times",
            "Section 7.2",
            "the “synergistic” model has main effects three times as strong as the main effects in the “interaction "
            "only” model",
            "True of Table 2, that is of fair 0/1 SNPs; for SNPs that count alleles, as those of Wright et al. do, the "
            "ratio depends on the allele frequency.",
            "Ratio of the pure coefficients of main effects, by kind of SNP.",
            ratio,
            holds_if(equal(fair, 3)),
            holds_if(*(equal(where, 3) for where in ratio), partly=(equal(fair, 3),)),
            "the generators of Wright et al., whose SNPs count minor alleles",
            found=f"At q = 1/2 the redundant generator has main effects of {redundant}.",
        ),
        Claim(
            "equal-interaction",
            "Section 7.2",
            "the interaction effect is the same strength for all data generation schemes (except for the “No "
            "Interaction” setting)",
            "The pure interaction has the same size in all four generators that have one, at every allele frequency.",
            "How many different absolute coefficients of (X1−μ)(X2−μ) the four generators have, by kind of SNP.",
            sizes,
            holds_if(*(equal(where, 1) for where in sizes)),
            found="Their s.d.: " + ", ".join(f"{locus.variance} ({where})" for where, locus in LOCI.items()) + ".",
        ),
    )


def _forest_claims(found: Results, firsts: Mapping[str, tuple[float, float]]) -> tuple[Claim, ...]:
    gains = {
        f"{words}, {where}": _gain({name: found[where, name, words] for name in GENERATORS}, where)
        for words in DEPTHS
        for where in FITTED
    }
    ends = {f"{end}, {name}": value[k] for name, value in gains.items() for k, end in ((1, "lower"), (2, "upper"))}
    ratios = {f"raw / pure, {where}": raw / max(pure, 1e-9) for where, (pure, raw) in firsts.items()}
    return (
        Claim(
            "preference",
            "Section 7.2",
            "in the case of interaction effects of equal strength, the random forest preferentially recovers "
            "interactions of variables with stronger main effects",
            "In our simulation it depends on the depth of the trees and on the allele frequency: trees of depth 2 do "
            "so "
            "for SNPs that count alleles, and no forest does for fair 0/1 SNPs.",
            "Recovered coefficient of the generators with the strongest main effects over that of those with the "
            "weakest: ends of a 99.2 % interval (95 % for six comparisons together), by depth of trees and kind of "
            "SNP. "
            "A ratio of 1.25 counts as a preference.",
            {name: value[0] for name, value in gains.items()} | ends,
            undecided("Figures 3 and 4 of Wright et al. are not reproduced"),
            holds_if(
                *(above(f"lower, {name}", 1) for name in gains),
                *(above(name, PREFERRED) for name in gains),
                partly=(above("lower, depth 2, 0/1/2, q = 2/5", 1), above("depth 2, 0/1/2, q = 2/5", PREFERRED)),
            ),
            "of random forests in general",
            stand_in="our simulation",
        ),
        Claim(
            "only-after",
            "Section 7.2",
            "interactions can properly be understood only after purification",
            "Forests too must be purified: where the data have no interaction, the raw trees still show SNP1 × SNP2 as "
            "the strongest pair most of the time; purified, less often.",
            "Without interaction in the data: how often SNP1 × SNP2 is the strongest of 45 pairs in the raw trees, "
            "over "
            "how often it is after purification. Twice as often counts.",
            ratios,
            holds_if(*(above(name, 2) for name in ratios), partly=tuple(above(name, 1) for name in ratios)),
            stand_in="our simulation",
        ),
    )


def _gain(coefficients: Mapping[str, Any], where: str) -> tuple[float, float, float]:
    """Ratio of the recovered coefficients of strongest and weakest main effects, and the ends of its interval."""
    strengths = {name: main_strength(name, LOCI[where]) for name, (_, _, d) in GENERATORS.items() if d}
    parts = []
    for end in (max(strengths.values()), min(strengths.values())):
        draws = [GENERATORS[n][2] * coefficients[n] for n in strengths if strengths[n] == end]
        mean, n_draws = float(np.mean(draws)), sum(map(len, draws))
        parts.append((mean, float(np.concatenate(draws).std(ddof=1)) / np.sqrt(n_draws)))
    (strong, its_error), (weak, error) = parts
    relative = np.hypot(its_error / strong, error / weak)
    return strong / weak, strong / weak * np.exp(-WIDE * relative), strong / weak * np.exp(WIDE * relative)


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
            draw_bars(
                ax, np.arange(len(values)) + 0.27 * (k - 1), values[:, k], 0.25, color=colour, label=label, least=0.01
            )
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
    add_letters(axes)
    return fig


def _figure(found: Results) -> Any:
    plt = pyplot()
    fig, axes = plt.subplots(2, 3, figsize=(WIDTH, 4.6), sharex=True, sharey="row")
    for row, words in zip(axes, DEPTHS, strict=True):
        for where, ax in zip(FITTED, row, strict=True):
            _points(ax, where, {name: found[where, name, words] for name in GENERATORS})
            ax.set_title(f"{where}, {words}", fontsize=8.5)
        row[0].set_ylabel("recovered coefficient")
    for ax in axes[1]:
        ax.set_xlabel("s.d. of main effects / s.d. of interaction", fontsize=7.5)
    add_letters(axes.flat)
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, columnspacing=1)
    return fig


def _points(ax: Any, where: str, coefficients: Mapping[str, Floats]) -> None:
    for name, colour in zip(GENERATORS, look.SERIES, strict=False):
        values = coefficients[name]
        sign = GENERATORS[name][2] or 1
        error = 2 * values.std(ddof=1) / np.sqrt(len(values))
        label = f"{name}, sign reversed" if sign < 0 else name
        ax.errorbar(
            main_strength(name, LOCI[where]), sign * values.mean(), error, fmt="o", ms=4, color=colour, label=label
        )
    ax.axhline(0, color="#888888", lw=0.8)
    ax.set(xlim=(-0.3, 4.9))
