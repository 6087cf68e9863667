"""The pages of the studies: findings and one table of claims, and the details of every study and claim."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence

from studies.common import Section, markdown_table, number, paragraphs, percent
from studies.judging import VERDICTS, Claim, Rule

INTRO = """# The paper, reproduced and checked

TreeANOVA implements the method of this paper, here called *the paper*: Lengerich, Tan, Chang, Hooker and Caruana,
"Purifying Interaction Effects with the Functional ANOVA: An Efficient Algorithm for Recovering Identifiable
Additive Models" (AISTATS 2020, arXiv 1911.04974).

`make paper` computes the figures, tables, theorems and claims of the paper again, judges each claim, and writes
this page. The findings come first, then the rules of judgement and a table of all claims. [The paper:
details](paper-details.md) has the figures, the words of the paper, the rules and the numbers."""

RULES = """## How claims are judged

Each claim is judged twice. *As printed* takes the sentence, formula or algorithm literally. *As meant* takes the
reading that the context shows, or that corrects a misprint; the details name this reading if it differs. (One
reading is used in both columns: in results that the paper reports of its own runs, the slice mean is divided by the
mass of the slice, because the figures of the paper show this.)

- **holds**: the numbers meet every bound of the rule.
- **in part**: the numbers meet weaker bounds that the rule states. Often a claim holds in part as printed and holds
  as meant, because it needs a condition that the paper does not state.
- **does not hold**: the numbers meet neither.
- **undecided**: something that is needed is missing (MIMIC-III, figures of other papers), or the difference is
  smaller than its error. A result of "no difference" is undecided unless a margin of equivalence was stated before.

If the best of several results is shown, all of them are counted, or intervals are widened by their number
(Bonferroni). The rule that decides is the text that the details print, because both come from one object. The
limits in these rules are ours, not those of the paper. They were not registered in advance, and some were chosen
when earlier numbers were known. If a verdict depends on a limit, the details give the value at which it changes."""

WORDS = (
    (
        "term",
        "a main effect (one feature) or an interaction (a pair, or more): a table with one number per bin or cell",
    ),
    ("density, w", "weights of the cells, of sum 1"),
    ("pure", "every slice of a term along one feature has mean zero under w"),
    ("raw", "a model's terms before purification"),
    ("centred", "raw, each main effect shifted to mean zero over the rows"),
    ("uniform, empirical", "the paper's: equal weight per bin; share of the rows in a cell"),
    (
        "half-half, counts + 1",
        (
            "two readings of the paper's Laplace: the mean of the uniform and the empirical density; or one added to "
            "the "
            "number of rows in each cell of a term"
        ),
    ),
    (
        "auto",
        (
            "the default of TreeANOVA, not in the paper: for each pair of features, the smoothed estimate that best "
            "predicts left-out rows, with the marginals of the rows"
        ),
    ),
    ("XGB, XGB2", "XGBoost with trees of depth 1 and 2"),
    ("GAM, GA2M", "InterpretML's EBM without and with pairs"),
    ("s.d.", "standard deviation over the rows, or under w"),
    ("M, Mᵗ", "unpurified mass: the absolute weighted sums of all slices added up; after t passes"),
    ("pass, sweep", "a pass sets all row means, or all column means, to zero; a sweep is a pass over each"),
    (
        "κ",
        "maximal correlation of two features under w: the second singular value of w over the roots of its marginals",
    ),
    ("σ", "the standard deviation of the paper's random draws in Section 5.3, nothing else"),
    ("log-odds, AUC, log loss", "the score of a classifier; area under the ROC curve; mean negative log-likelihood"),
    ("held-out", "rows that the model was not trained on"),
    ("a ± b", "mean and its standard error"),
)

NOT_JUDGED = (
    ("1.2", "the coefficients of Eq. 2 are “not necessarily meaningful”", "what a coefficient should mean is a choice"),
    ("1.3", "fANOVA “should be preferred to other representations”", "a recommendation; docs/theory.md compares them"),
    (
        "Abstract, 1.3",
        "the algorithm is “fast”",
        "no limit is stated; passes are counted here, times are in docs/tensors.md",
    ),
    ("2", "the link “has not been studied”", "a claim of priority, for a survey of the literature"),
    ("2", "similar to the “reluctance” principle", "an analogy: the principle is about estimation, purity is not"),
    (
        "5.2",
        "“we use three simple estimators … uniform, empirical, Laplace”",
        "says what was done; a table of the details shows which of them approach p",
    ),
    ("5.2", "the correct w is the true p(x)", "the paper's definition"),
    ("5.2, 8", "better estimators of p(x) as future work", "not a claim; docs/accuracy.md compares some"),
    (
        "6.1",
        "understanding COMPAS is “of societal importance”",
        "normative; Section 6.1 of the details says what follows",
    ),
    (
        "7.2",
        "Wright et al. (2016) came to a “pessimistic conclusion” about forests",
        (
            "about another paper (doi 10.1186/s12859-016-0995-8), whose abstract says half of it: forests capture "
            "interactions in general, but importance measures do not show them as such"
        ),
    ),
    ("7.2", "“the necessity of purifying data generation schemes”", "advice; claims on Table 2 show what it rests on"),
    ("7.3", "high variance “likely should be regularized out”", "advice; Sections 6.3 and 7.3 have what we measured"),
    ("8", "frees designers to separate estimation from purification", "advice; GA2M and XGB2 above show both ways"),
)


def page(sections: Sequence[Section], *, quick: bool = False) -> str:
    """The page in markdown: findings, rules, one table of claims, what is not judged, words."""
    claims = [claim for section in sections for claim in section.claims]
    numbers = {claim.key: claim.numbers for claim in claims}
    note = "This is a quick run: fewer draws and smaller models than the page in `docs`." if quick else ""
    parts = [INTRO, note, findings(numbers), RULES, "## All claims", summary(claims), _table(claims)]
    left_out = markdown_table(NOT_JUDGED, ("section", "statement", "why it is not judged"))
    words = markdown_table(WORDS, ("word", "meaning"))
    return paragraphs(*parts, "## Not judged", left_out, "## Words and symbols", words) + "\n"


def details(sections: Sequence[Section]) -> str:
    """The second page: every study with its figures, and every claim with the paper's words, rules and numbers."""
    claims = [claim for section in sections for claim in section.claims]
    numbered = {claim.key: n for n, claim in enumerate(claims, 1)}
    heading = paragraphs(
        "# The paper, reproduced: details",
        "The appendix of [paper.md](paper.md), which has the sentence and the verdicts of each claim; the numbers of "
        "claims are the same. Figures, theorems and corollaries of the paper are numbered as LaTeX prints them: the "
        "corollaries are 2.1 and 2.2, the lemma of the supplement is Lemma 3, Figures 9, 10 and 11 are in the "
        "supplement. Figures of this page have numbers of their own.",
    )
    text = paragraphs(heading, *(_section(section, numbered) for section in sections)) + "\n"
    return _with_figure_numbers(text)


def findings(numbers: Mapping[str, Mapping[str, float]]) -> str:
    """Half a page: what a reader should remember; empty where studies are missing."""

    def of(key: str, name: str, digits: int = 3) -> str:
        return number(numbers[key][name], digits)

    try:
        points = _points(of)
    except KeyError:
        return ""
    return paragraphs("## Findings", "\n".join(f"{k}. {point}" for k, point in enumerate(points, 1)))


def _points(of: Callable[..., str]) -> list[str]:
    left = percent(float(of("printed-step", "left after a sweep", 6)), 0)
    stay = percent(float(of("ocean-origin", "share in the ocean", 6)), 0)
    return [
        (
            "**The idea is right.** One function has many additive forms (Figures 1 and 2); the pure one is unique "
            "where "
            "w is "
            "not degenerate, and Algorithm 2 finds it. Figures 1, 2, 7 and 8 and all tables are reproduced, up to four "
            "signs "
            "of ⊕ in Table 2 and the factor of ⊕ in Section 1.1."
        ),
        (
            "**The algorithm needs two repairs.** The printed m is the sum of a slice, not its mean: after a sweep "
            f"{left} of the mass of a 100 × 100 table is left. And the printed loop ends only when every mean is "
            "exactly "
            "zero, "
            "which it does not reach."
        ),
        (
            "**Theorem 2 and its proof are wrong.** Mass does not fall by one half per pass, but by κ, the maximal "
            "correlation "
            "of the two features (a sweep: κ² = σ₂²): weights [[1, δ], [δ, 1]] with δ = 0.001 take "
            f"{of('theorem-2', 'passes at δ = 0.001')} passes where 33 are promised. Theorem 1 and both corollaries "
            "hold "
            "as "
            "meant; as printed Theorem 1 inherits the wrong m, and Corollary 2.1 does not permute w."
        ),
        (
            "**Minimum variance holds term by term only.** Each pure interaction has the least variance that its own "
            "lower terms allow; the sum of the pairs does not when three features are dependent (in the worst of our "
            f"draws {of('least-variance', 'sum of the pairs')} times the least). With two correlated features no α and "
            "β of Eq. 3 give the pure form, whose main effects are curved."
        ),
        (
            "**“Laplace” is ambiguous,** and one of its readings is not a density. Which density is taken decides "
            "sizes, "
            "and "
            "sometimes signs, of effects."
        ),
        (
            "**Of the experiments, half of each story holds.** On COMPAS raw models contradict each other, but "
            "centring "
            "alone "
            "removes that, and purification under uniform or half-half weights adds contradictions. On California the "
            "largest "
            "cell leaves the ocean under uniform weights and mostly stays under densities of the data; it does not "
            "come "
            "from the "
            f"two cities, since {stay} of the models trained without them have it there too. Section 6.3 could be "
            "checked on "
            "other data only."
        ),
    ]


def summary(claims: Sequence[Claim]) -> str:
    """How many claims have which verdict."""

    def counted(column: int) -> str:
        verdicts = [claim.verdicts[column] for claim in claims]
        return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in VERDICTS)

    n_stand_in = sum(bool(claim.stand_in) for claim in claims)
    return (
        f"{len(claims)} claims. As printed: {counted(0)}. As meant: {counted(1)}. {n_stand_in} are judged on data that "
        "stand in for the paper's, which the last column names."
    )


def _table(claims: Sequence[Claim]) -> str:
    rows = []
    for n, claim in enumerate(claims, 1):
        printed, meant = (verdict if verdict == "holds" else f"**{verdict}**" for verdict in claim.verdicts)
        rows.append(
            (n, claim.where, claim.sentence, printed, meant + (f" ({claim.stand_in})" if claim.stand_in else ""))
        )
    return markdown_table(rows, ("no.", "in the paper", "what was found", "as printed", "as meant"))


def _section(section: Section, numbered: Mapping[str, int]) -> str:
    claims = [_claim(claim, numbered[claim.key]) for claim in section.claims]
    heading = "### Claims" if claims else ""
    return paragraphs(f"## {section.title}", section.body.strip(), heading, *claims)


def _claim(claim: Claim, n: int) -> str:
    """One claim: the paper's words, what was computed, the rules, the numbers, where verdicts flip."""
    printed, meant = claim.rules
    lines = [f"**{n}. {claim.where}.** “{claim.quote}”", f"*Computed:* {claim.measured}"]
    if printed == meant:
        lines.append(f"*Rule:* {printed}.")
    else:
        lines += [f"*As printed:* {printed}.", f"*As meant* ({claim.reading}): {meant}."]
    values = "; ".join(f"{name} = {number(value, 4)}" for name, value in claim.numbers.items())
    lines.append(f"*Found:* {values}." + (f" {claim.found}" if claim.found else ""))
    flips = _flips(claim)
    return "\n".join([*lines, f"*Flips:* {flips}."] if flips else lines)


def _flips(claim: Claim) -> str:
    """The limits that decide, each with the value beyond which the verdict becomes another one."""
    columns = ("",) if claim.rules[0] == claim.rules[1] else ("as printed ", "as meant ")
    flips = {
        f"{column}“{flip.verdict}” with a limit of {number(claim.numbers[flip.bound.name])} instead of "
        f"{flip.bound.limit:g} for {flip.bound.name}"
        + (f" and {flip.n_shared - 1} more with this limit" if flip.n_shared > 1 else "")
        for column, rule in zip(columns, claim.rules, strict=False)
        for flip in rule.flips(claim.numbers)
    }
    return "; ".join(sorted(flips))


def _with_figure_numbers(text: str) -> str:
    """Figures numbered in the order in which they appear; ``@name`` is replaced wherever it stands."""
    names = dict.fromkeys(re.findall(r"\*\*Figure @(\w+)\.\*\*", text))
    places = {name: str(n) for n, name in enumerate(names, 1)}
    return re.sub(r"@(\w+)", lambda match: places.get(match[1], match[0]), text)


def as_json(sections: Sequence[Section]) -> str:
    """Verdicts, numbers and rules by the keys of the claims."""
    content = {
        claim.key: {
            "printed": claim.verdicts[0],
            "meant": claim.verdicts[1],
            "numbers": {name: float(f"{x:.9g}") for name, x in claim.numbers.items()},
            "rules": [_rule_as_json(rule) for rule in claim.rules],
        }
        for section in sections
        for claim in section.claims
    }
    return json.dumps(content, indent=1) + "\n"


def _rule_as_json(rule: Rule) -> dict[str, object]:
    return {"holds": rule.holds, "partly": rule.partly, "fails": rule.fails, "open": rule.open_because}
