"""Command line of the benchmarks: ``python -m benchmarks NAME [--full]``."""

from __future__ import annotations

import argparse
import importlib

NAMES = ("accuracy", "decompose", "deep", "known_truth", "purify", "readers", "report", "screening")


def main() -> None:
    """Run one benchmark by name."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--full", action="store_true", help="also the cases in which a peer takes minutes")
    arguments = parser.parse_args()
    importlib.import_module(f"benchmarks.{arguments.name}").run(full=arguments.full)


if __name__ == "__main__":
    main()
