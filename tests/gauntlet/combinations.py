"""Which combinations run: a few in `make test`, all of them with TREEANOVA_GAUNTLET=long."""

from __future__ import annotations

import os

import pytest

IS_LONG = os.environ.get("TREEANOVA_GAUNTLET") == "long"


def combinations(every, short):
    """Parameters with readable ids, all or those of the short form."""
    return [pytest.param(*one, id="-".join(map(str, one))) for one in every if IS_LONG or one in short]
