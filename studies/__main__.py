"""Command line of the studies: ``python -m studies [--quick] [--only NAME ...] [--out FOLDER]``."""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Sequence
from pathlib import Path

from studies.common import VERDICTS, Claim, DataMissingError, Section, Settings, markdown_table, paragraphs

NAMES = (
    "forms",
    "multiplicative",
    "uniqueness",
    "algorithm",
    "convergence",
    "proofs",
    "corollaries",
    "estimators",
    "compas",
    "california",
    "mortality",
    "logarithm",
    "snps",
    "simpler",
)

INTRO = """# The paper, reproduced and checked

Lengerich, Tan, Chang, Hooker and Caruana, "Purifying Interaction Effects with the Functional ANOVA" (AISTATS 2020,
arXiv 1911.04974), called *the paper*: its figures, tables, theorems and claims, computed again with treeanova and
judged one by one. `make paper` computes everything and writes this page. One data set is missing: MIMIC-III (Section
6.3) needs credentials, which we do not have. SUPPORT2, 9,105 seriously ill adults, stands in for it, and verdicts on it
say so; `studies/mimic.py` loads MIMIC-III for those who may use it.

We also lack the paper's figure of the generators of Wright et al. and the figure of Hooker (2007) that it refers to.
The paper does not state the parameters of its models, nor the density of its Figure 5; ours are stated below. Numbers
of figures, theorems and corollaries are those that LaTeX prints: the corollaries are 2.1 and 2.2, the lemma of the
supplement is Lemma 3, and Figures 9, 10 and 11 are in the supplement."""

READING = """**How to read it.** The table has one sentence per claim. The sections below repeat the paper's words,
say what was computed and from which value on a claim holds, and give the numbers. A claim *holds* if it meets that
criterion; it holds *in part* if it does so under a condition that the paper does not state, or if a part of it fails;
it *does not hold* if it fails as stated; it *could not be tested* if we lack the data or if the difference is smaller
than its error."""

WORDS = (
    (
        "term",
        ("a main effect (one feature) or an interaction (a pair, or more): a table with one number per bin or cell"),
    ),
    ("density, w", "weights of the cells, of sum 1"),
    ("pure", "every slice of a term along one feature has mean zero under w"),
    ("raw", "a model's terms before purification"),
    ("centred", "raw, each main effect shifted to mean zero over the rows"),
    ("uniform, empirical", "the paper's: equal weight per bin; share of the rows in a cell"),
    (
        "half-half, counts + 1",
        (
            "two readings of the paper's Laplace: the mean of the uniform and the empirical density; or one "
            "added to the number of rows in each cell of a term"
        ),
    ),
    (
        "auto",
        (
            "treeanova's default: for each pair the estimate of highest leave-one-out likelihood, with the "
            "marginals of the rows"
        ),
    ),
    ("XGB, XGB2", "XGBoost with trees of depth 1 and 2"),
    ("GAM, GA2M", "InterpretML's EBM without and with pairs"),
    ("s.d.", "standard deviation over the rows, or under w"),
    ("M, Mᵗ", "unpurified mass: the absolute weighted sums of all slices added up; after t passes"),
    ("pass, sweep", "a pass sets all row means, or all column means, to zero; a sweep is a pass over each"),
    (
        "κ",
        ("maximal correlation of two features under w: the second singular value of w over the roots of its marginals"),
    ),
    ("σ", "the standard deviation of the paper's random draws in Section 5.3, nothing else"),
    ("log-odds, AUC, log loss", "the score of a classifier; area under the ROC curve; mean negative log-likelihood"),
    ("held-out", "rows that the model was not trained on"),
    ("a ± b", "mean and its standard error"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the studies asked for and write the page."""
    options = _parser().parse_args(arguments)
    out = options.out or Path("build/paper" if options.quick else "docs")
    settings = Settings(quick=options.quick, figures=out / "paper", link="paper")
    sections = [_run(name, settings) for name in NAMES if name in (options.only or NAMES)]
    (out / "paper").mkdir(parents=True, exist_ok=True)
    (out / "paper.md").write_text(page(sections, quick=options.quick), encoding="utf-8")
    (out / "paper" / "claims.json").write_text(_as_json(sections), encoding="utf-8")
    print(f"written: {out / 'paper.md'}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m studies", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer draws and smaller models; writes to build/paper")
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--out", type=Path, help="folder of paper.md and its figures; default docs")
    return parser


def _run(name: str, settings: Settings) -> Section:
    """The section of one study; where its data are missing, one that says so."""
    start = time.perf_counter()
    try:
        section: Section = importlib.import_module(f"studies.{name}").run(settings)
        note = f"{len(section.claims)} claims"
    except DataMissingError as error:
        section, note = Section(name.capitalize(), f"Skipped: {error}."), f"skipped: {error}"
    print(f"{name:15} {time.perf_counter() - start:6.1f} s  {note}", flush=True)
    return section


def _as_json(sections: Sequence[Section]) -> str:
    """Verdicts and the numbers that decide them, by the keys of the claims."""
    claims = [claim for section in sections for claim in section.claims]
    content = {
        claim.key: {"verdict": claim.verdict, "numbers": {name: float(f"{x:.9g}") for name, x in claim.numbers.items()}}
        for claim in claims
    }
    return json.dumps(content, indent=1) + "\n"


def page(sections: Sequence[Section], *, quick: bool = False) -> str:
    """The whole page in markdown: intro, all claims in one table, words, then the sections."""
    claims = [claim for section in sections for claim in section.claims]
    numbered = {claim.key: n for n, claim in enumerate(claims, 1)}
    note = "This is a quick run: fewer draws and smaller models than the page in `docs`." if quick else ""
    table = _claims(claims, numbered)
    written = (_section(section, numbered) for section in sections)
    words = paragraphs("## Words and symbols", markdown_table(WORDS, ("word", "meaning")))
    return paragraphs(INTRO, note, "## All claims", _summary(claims), READING, table, words, *written) + "\n"


def _section(section: Section, numbered: dict[str, int]) -> str:
    details = [_details(claim, numbered[claim.key]) for claim in section.claims]
    heading = "### The claims, one by one" if details else ""
    return paragraphs(f"## {section.title}", section.body.strip(), heading, *details)


def _details(claim: Claim, n: int) -> str:
    """One claim in full: the paper's words, the criterion, the numbers, the verdict."""
    return (
        f"**{n}. {claim.where}: {_verdict(claim)}.** “{claim.quote}”\n"
        f"*Criterion:* {claim.criterion} *Found:* {claim.found}"
    )


def _verdict(claim: Claim) -> str:
    return claim.verdict + (f" ({claim.stand_in})" if claim.stand_in else "")


def _summary(claims: Sequence[Claim]) -> str:
    n_of = {verdict: sum(claim.verdict == verdict for claim in claims) for verdict in VERDICTS}
    n_stand_in = sum(bool(claim.stand_in) for claim in claims)
    return (
        f"{len(claims)} claims: {n_of['holds']} hold, {n_of['in part']} hold in part, {n_of['does not hold']} do not "
        f"hold, {n_of['could not be tested']} could not be tested. {n_stand_in} of them are judged on data that stand "
        "in for the paper's."
    )


def _claims(claims: Sequence[Claim], numbered: dict[str, int]) -> str:
    rows = []
    for claim in claims:
        verdict = _verdict(claim)
        marked = verdict if claim.verdict == "holds" else f"**{verdict}**"
        rows.append((numbered[claim.key], claim.where, claim.conclusion, marked))
    return markdown_table(rows, ("no.", "in the paper", "what was found", "verdict"))


if __name__ == "__main__":
    main()
