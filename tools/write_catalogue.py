"""Writes what is read and refused into README.md and docs/models.md, between comments: python tools/write_catalogue.py.

A comment ``<!-- catalogue: NAME -->`` begins a part that function NAME of `treeanova.readers.registry` writes, and
``<!-- catalogue: end -->`` ends it.
"""

from __future__ import annotations

import pathlib
import re

from treeanova.readers import registry as catalogue

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/models.md")
_PART = re.compile(r"<!-- catalogue: (\w+) -->\n.*?<!-- catalogue: end -->", re.DOTALL)


def written(text: str) -> str:
    """A page with its parts written anew."""
    return _PART.sub(
        lambda part: f"<!-- catalogue: {part[1]} -->\n{getattr(catalogue, part[1])()}\n<!-- catalogue: end -->", text
    )


def main() -> None:
    """Write all pages."""
    for name in PAGES:
        path = ROOT / name
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
