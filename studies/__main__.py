"""Command line of the studies: ``python -m studies [--quick] [--only NAME ...] [--out FOLDER]``."""

from __future__ import annotations

import argparse
import importlib
import pickle
import time
from collections.abc import Sequence
from pathlib import Path

from studies.common import DataMissingError, Section, Settings
from studies.page import as_json, details, page

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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the studies asked for and write both pages; sections of the others are those of their last run."""
    options = _parser().parse_args(arguments)
    out = options.out or Path("build/paper" if options.quick else "docs")
    kept = Path("build/sections") if out == Path("docs") else out / "sections"
    kept.mkdir(parents=True, exist_ok=True)
    settings = Settings(quick=options.quick, figures=out / "paper", link="paper")
    for name in options.only or NAMES:
        (kept / name).write_bytes(pickle.dumps(_run(name, settings)))
    # The files are our own, written a moment ago or by an earlier run of this command.
    sections = [pickle.loads((kept / name).read_bytes()) for name in NAMES if (kept / name).exists()]  # noqa: S301
    (out / "paper").mkdir(parents=True, exist_ok=True)
    (out / "paper.md").write_text(page(sections, quick=options.quick), encoding="utf-8")
    (out / "paper-details.md").write_text(details(sections), encoding="utf-8")
    (out / "paper" / "claims.json").write_text(as_json(sections), encoding="utf-8")
    print(f"written: {out / 'paper.md'}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m studies", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer draws and smaller models; writes to build/paper")
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--out", type=Path, help="folder of the pages and their figures; default docs")
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


if __name__ == "__main__":
    main()
