"""Default models of every library on the tables bundled with scikit-learn, decomposed with default settings."""

from __future__ import annotations

import functools
import itertools

import pytest

from tests.gauntlet.checks import check_all
from tests.gauntlet.combinations import IS_LONG, LEVEL, combinations
from tests.gauntlet.data import BUNDLED
from tests.gauntlet.models import LIBRARIES
from treeanova import decompose

SHORT = [
    ("iris", "tree"), ("iris", "boosting"), ("iris", "xgboost"), ("iris", "forest"), ("wine", "tree"),
    ("linnerud", "xgboost"), ("linnerud", "catboost"), ("linnerud", "ebm"),
]  # fmt: skip

FEWER = {
    "tree": {"max_depth": 5},
    "forest": {"n_estimators": 10},
    "extra": {"n_estimators": 5, "max_depth": 6},
    "boosting": {"n_estimators": 10},
    "hist": {"max_iter": 10},
    "xgboost": {"n_estimators": 10},
    "lightgbm": {"n_estimators": 10},
    "catboost": {"iterations": 30, "depth": 4},
}
# Fewer or smaller trees where the defaults take minutes: ten classes, or thousands of terms of high order.
LARGE = itertools.product(("wine", "cancer", "diabetes"), ("extra", "catboost"))
SMALLER = {("digits", kind) for kind in FEWER} | set(LARGE)
if LEVEL == "long":
    SMALLER |= set(itertools.product(("wine", "cancer", "diabetes", "digits"), FEWER))
REPORTED = {"tree", "xgboost"}


@functools.cache
def data(name):
    return BUNDLED[name]()


EVERY = list(itertools.product(BUNDLED, LIBRARIES))
if LEVEL == "long":  # those that take a minute and more, with and without reports, are for "all"
    SLOW = {*itertools.product(["digits"], ["extra", "hist", "xgboost", "lightgbm", "ebm"]), ("cancer", "ebm")}
    EVERY, REPORTED = [one for one in EVERY if one not in SLOW], {"tree"}


@pytest.mark.thorough
@pytest.mark.parametrize(("table", "kind"), combinations(EVERY, SHORT))
def test_default_model(table, kind, tmp_path):
    rows, library = data(table), LIBRARIES[kind]
    model = library.model_of(rows, **FEWER[kind] if (table, kind) in SMALLER else {})
    fx = decompose(model, rows.X, n_jobs=1)
    check_all(fx, model, library, rows.X, tmp_path, report=IS_LONG and kind in REPORTED)
