"""Command line of the studies: ``python -m studies [--quick] [--only NAME ...] [--out FOLDER]``."""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Sequence
from pathlib import Path

from studies.common import Claim, DataMissingError, Section, Settings, markdown_table, paragraphs

NAMES = (
    "forms",
    "multiplicative",
    "convergence",
    "corollaries",
    "compas",
    "california",
    "mortality",
    "logarithm",
    "snps",
)

INTRO = """# The paper, reproduced and checked

Every figure, table and theorem of Lengerich, Tan, Chang, Hooker and Caruana, "Purifying Interaction Effects with the
Functional ANOVA" (AISTATS 2020, arXiv 1911.04974), computed with treeanova. `python -m studies` computes all
numbers and figures and writes this page; the verdicts are ours."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the studies asked for and write the page."""
    options = _parser().parse_args(arguments)
    out = options.out or Path("build/paper" if options.quick else "docs")
    settings = Settings(quick=options.quick, figures=out / "paper", link="paper")
    sections = [_run(name, settings) for name in NAMES if name in (options.only or NAMES)]
    out.mkdir(parents=True, exist_ok=True)
    (out / "paper.md").write_text(page(sections, quick=options.quick), encoding="utf-8")
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


def page(sections: Sequence[Section], *, quick: bool = False) -> str:
    """The whole page in markdown: intro, all claims in one table, then the sections."""
    claims = [claim for section in sections for claim in section.claims]
    note = "This is a quick run: fewer draws and smaller models than the page in `docs`." if quick else ""
    written = (f"## {section.title}\n\n{section.body.strip()}" for section in sections)
    return paragraphs(INTRO, note, "## All claims", _summary(claims), _claims(claims), *written) + "\n"


def _summary(claims: Sequence[Claim]) -> str:
    count = {verdict: sum(claim.verdict == verdict for claim in claims) for verdict in ("agree", "in part", "not")}
    return f"{len(claims)} claims: {count['agree']} hold, {count['in part']} hold in part, {count['not']} do not."


def _claims(claims: Sequence[Claim]) -> str:
    bold = {"agree": "agree", "in part": "**in part**", "not": "**not**"}
    rows = [(claim.where, claim.claim, claim.found, bold[claim.verdict]) for claim in claims]
    return markdown_table(rows, ("in the paper", "claim", "result", "verdict"))


if __name__ == "__main__":
    main()
