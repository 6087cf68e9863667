"""Command line of the benchmarks: ``python -m benchmarks NAME [--full]``; cost, peers and glass_box have more."""

from __future__ import annotations

import argparse
import importlib
import pathlib
from typing import Any

NAMES = (
    "accuracy",
    "conformance",
    "copies",
    "cost",
    "decompose",
    "export",
    "glass_box",
    "inference",
    "known_truth",
    "peers",
    "purify",
    "readers",
    "report",
    "scale",
    "screening",
    "stability",
)

# Benchmarks with options of their own.
_OWNERS = {
    "cost": ("before", "cases", "results", "rounds", "timeout", "quick"),
    "peers": ("cases", "results", "quick"),
    "glass_box": ("data", "methods", "repeats", "rows", "results", "quick"),
}


def main() -> None:
    """Run one benchmark by name."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--full", action="store_true", help="also the cases in which a peer takes minutes")
    parser.add_argument("--part", choices=("tests", "objectives", "bands"), help="of inference: measure one part only")
    _add_options_of_cost(parser.add_argument_group("cost", "also of peers: --cases and --quick"))
    group = parser.add_argument_group("glass_box", "test losses of glass boxes; takes --quick and --results too")
    group.add_argument(
        "--data", nargs="*", metavar="NAME", help="only these data sets; without names, only write the page"
    )
    group.add_argument("--methods", nargs="*", metavar="NAME", help="only these methods")
    group.add_argument("--repeats", type=int, metavar="N", help="number of splits; 5 by default")
    group.add_argument("--rows", type=int, metavar="N", help="the most rows for training; all by default")
    arguments = vars(parser.parse_args())
    name, full, part = arguments.pop("name"), arguments.pop("full"), arguments.pop("part")
    given = {option: value for option, value in arguments.items() if value is not None}
    for option in given:
        owners = [owner for owner, options in _OWNERS.items() if option in options]
        if name not in owners:
            parser.error(f"--{option} is an option of {' and '.join(owners)}, got {name}; leave it out.")
    if part and name != "inference":
        parser.error(f"--part is an option of inference, got {name}; leave it out.")
    if part:
        importlib.import_module("benchmarks.inference").run(full=full, part=part)
    elif name in _OWNERS:
        importlib.import_module(f"benchmarks.{name}").run(full=full, **given)
    else:
        importlib.import_module(f"benchmarks.{name}").run(full=full)


def _add_options_of_cost(group: Any) -> None:
    """Options that are None unless they are given."""
    path = pathlib.Path
    group.add_argument("--before", type=path, metavar="PATH", help="folder with the sources of an earlier version")
    group.add_argument("--cases", nargs="*", metavar="NAME", help="only these; without names, only write the page")
    group.add_argument("--results", type=path, metavar="FILE", help="where numbers are kept, and updated by later runs")
    group.add_argument("--rounds", type=int, metavar="N", help="measure N times in turns and take the smallest numbers")
    group.add_argument("--timeout", type=float, metavar="SECONDS", help="limit for a case; 900 by default")
    group.add_argument("--quick", action="store_true", default=None, help="few rows and trees")


if __name__ == "__main__":
    main()
