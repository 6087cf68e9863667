"""Default models of every library on the tables bundled with scikit-learn, decomposed with default settings."""

from __future__ import annotations

import functools
import itertools

import pytest

from tests.gauntlet.checks import check_all
from tests.gauntlet.combinations import IS_LONG, combinations
from tests.gauntlet.data import BUNDLED
from tests.gauntlet.models import LIBRARIES
from treeanova import decompose

SHORT = [
    ("iris", "tree"), ("iris", "boosting"), ("iris", "xgboost"), ("iris", "forest"), ("wine", "tree"),
    ("linnerud", "xgboost"), ("linnerud", "catboost"), ("linnerud", "ebm"),
]  # fmt: skip


@functools.cache
def data(name):
    return BUNDLED[name]()


@pytest.mark.parametrize(("table", "kind"), combinations(itertools.product(BUNDLED, LIBRARIES), SHORT))
def test_default_model(table, kind, tmp_path):
    rows, library = data(table), LIBRARIES[kind]
    model = library.fit(rows)
    fx = decompose(model, rows.X, n_jobs=1)
    check_all(fx, model, library, rows.X, tmp_path, report=IS_LONG)
