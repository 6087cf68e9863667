"""Models of depth 2, 4 and 8 of every library on tables that are hard in one way each, with default settings."""

from __future__ import annotations

import functools
import itertools

import pytest

from tests.gauntlet.checks import check_all
from tests.gauntlet.combinations import IS_LONG, combinations
from tests.gauntlet.data import SYNTHETIC, synthetic
from tests.gauntlet.models import LIBRARIES, of_depth
from treeanova import decompose

data = functools.cache(synthetic)
DEEP = ["tree", "forest", "extra", "boosting", "hist", "xgboost", "lightgbm", "catboost"]
REFUSED = [("gaps", "boosting"), ("all-missing", "boosting"), ("all-missing", "hist")]  # by scikit-learn
EVERY = [one for one in itertools.product(SYNTHETIC, DEEP, (2, 4, 8)) if one[:2] not in REFUSED]
SHORT = [
    ("correlated", "tree", 4), ("duplicated", "xgboost", 2), ("constant", "lightgbm", 4), ("heavy-tailed", "hist", 2),
    ("gaps", "lightgbm", 2), ("all-missing", "xgboost", 4), ("binary", "catboost", 4), ("one-feature", "forest", 8),
    ("huge", "xgboost", 2), ("tiny", "lightgbm", 2), ("2-rows", "tree", 2), ("5-rows", "forest", 4),
    ("10-rows", "xgboost", 4),
]  # fmt: skip


# A column that is there twice, or few rows: whether the model splits on both features depends on its trees.
pytestmark = pytest.mark.filterwarnings("ignore::treeanova.errors.AliasWarning")


@pytest.mark.parametrize(("table", "kind", "depth"), combinations(EVERY, SHORT, stride=5))
def test_depth(table, kind, depth, tmp_path):
    rows, library = data(table), LIBRARIES[kind]
    model = library.model_of(rows, **of_depth(kind, depth))
    fx = decompose(model, rows.X, n_jobs=1)
    check_all(fx, model, library, rows.X, tmp_path, report=IS_LONG and depth == 4 and kind == "xgboost")


EBM_TABLES = [table for table in SYNTHETIC if table != "2-rows"]  # two rows are too few to hold one out


@pytest.mark.thorough
@pytest.mark.parametrize("table", [*combinations([(table,) for table in EBM_TABLES], [("gaps",)])])
def test_ebm(table, tmp_path):
    rows, library = data(table), LIBRARIES["ebm"]
    model = library.model_of(rows)
    fx = decompose(model, rows.X, n_jobs=1)
    check_all(fx, model, library, rows.X, tmp_path)
