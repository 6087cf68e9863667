"""Which combinations run: a few in `make test`; with TREEANOVA_GAUNTLET=long about a third of them; "all" runs all."""

from __future__ import annotations

import os

import pytest

LEVEL = os.environ.get("TREEANOVA_GAUNTLET", "short")
IS_LONG = LEVEL in {"long", "all"}


def combinations(every, short, stride=1):
    """Parameters with readable ids: all, every so many and the short ones, or those of the short form."""
    found = list(every)
    chosen = {"all": found, "long": [*found[::stride], *short], "short": short}[LEVEL]
    return [pytest.param(*one, id="-".join(map(str, one))) for one in found if one in chosen]
