"""scikit-learn's estimators, read and compared with their own predictions and leaf numbers, row by row."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("sklearn")
import pandas as pd
import polars as pl
from sklearn import config_context
from sklearn.base import is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

import treeanova
from tests.support.edge_values import numeric_rows
from tests.support.training import fit
from treeanova.data.features import Labels
from treeanova.errors import UnsupportedModelError
from treeanova.model.grid import grid_of
from treeanova.readers import read_model

N_ROWS, N_FEATURES = 300, 4


VERSION = tuple(int(part) for part in sys.modules["sklearn"].__version__.split(".")[:2])
# Trees that take missing values from scikit-learn 1.9 on only.
LATELY_MISSING = {"tree monotonic", "forest monotonic", "forest median"}


def make_x(seed=0, *, missing=False):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N_ROWS, N_FEATURES))
    x[:, 1] = rng.integers(-3, 4, N_ROWS) / 10  # few values: thresholds between tenths that float32 cannot hold
    x[:, 3] *= 1e-3
    if missing:
        x[rng.random(x.shape) < 0.2] = np.nan
    return x


def make_y(x, kind, seed=0):
    rng = np.random.default_rng(seed)
    z = np.where(np.isnan(x), [0.7, 0.7, 0.7, 7e-4], x)
    y = np.sin(2 * z[:, 0]) * z[:, 2] + 3 * z[:, 1] + 500 * z[:, 3] * (z[:, 0] > 0) + rng.normal(size=len(x)) * 0.2
    return {
        "number": lambda: y,
        "positive": lambda: np.exp(y / 3),
        "targets": lambda: np.column_stack([y, y**2, -y]),
        "two": lambda: np.where(y > 0, "yes", "no"),
        "three": lambda: np.digitize(y, [-0.7, 0.7]) * 10,
    }[kind]()


def raw(model, x):
    """The estimator's own raw prediction, one column per output."""
    if hasattr(model, "decision_function"):
        result = model.decision_function(x)
    elif is_classifier(model):
        result = model.predict_proba(x)
        result = result[:, 1] if result.shape[1] == 2 else result
    elif isinstance(model, HistGradientBoostingRegressor):
        result = model._raw_predict(x)
    else:
        result = model.predict(x)
    return result.reshape(len(x), -1)


def own_leaves(model, x):
    """The estimator's own leaf numbers, one column per tree."""
    if isinstance(model, BaggingRegressor | BaggingClassifier):
        pairs = zip(model.estimators_, model.estimators_features_, strict=True)
        return np.column_stack([tree.apply(x[:, columns]) for tree, columns in pairs])
    if isinstance(model, AdaBoostClassifier):
        return np.column_stack([tree.apply(x) for tree in model.estimators_])
    return model.apply(x).reshape(len(x), -1)


def own_tree_values(model, x):
    """What each tree of a HistGradientBoosting adds, one column per tree."""
    x = model._preprocess_X(x, reset=False)
    known, index = model._bin_mapper.make_known_categories_bitsets()
    return np.column_stack([tree.predict(x, known, index, 1) for stage in model._predictors for tree in stage])


def check(model, x, *, data=None):
    """The Forest agrees with the estimator on x (given to the Forest as `data`, if it is not the same)."""
    forest = read_model(model)
    data = x if data is None else data
    np.testing.assert_allclose(forest.score(data), raw(model, x), rtol=1e-12, atol=1e-13)
    if isinstance(model, HistGradientBoostingRegressor | HistGradientBoostingClassifier):
        labels, expected = forest.leaf_ids(data), own_tree_values(model, x)
        nodes = [tree.nodes["value"] for stage in model._predictors for tree in stage]
        ours = np.column_stack([values[labels[:, t]] for t, values in enumerate(nodes)])
        np.testing.assert_array_equal(ours, expected)
    else:
        np.testing.assert_array_equal(forest.leaf_ids(data), own_leaves(model, x))
    check_grid(forest, data)
    return forest


def check_grid(forest, data):
    """Rows in the same bins reach the same leaves."""
    _, group = np.unique(grid_of(forest).index(data), axis=0, return_inverse=True)
    leaves = forest.leaf_ids(data)
    _, first = np.unique(group, return_index=True)
    np.testing.assert_array_equal(leaves, leaves[first][group])


TREES = {
    "tree": ("number", lambda: DecisionTreeRegressor(random_state=0)),
    "tree poisson": ("positive", lambda: DecisionTreeRegressor(criterion="poisson", max_depth=5, random_state=0)),
    "tree pruned": ("number", lambda: DecisionTreeRegressor(ccp_alpha=0.01, random_state=0)),
    "tree leaf-wise": ("number", lambda: DecisionTreeRegressor(max_leaf_nodes=20, random_state=0)),
    "tree monotonic": ("number", lambda: DecisionTreeRegressor(max_depth=6, monotonic_cst=[1, 0, 0, -1])),
    "tree targets": ("targets", lambda: DecisionTreeRegressor(max_depth=6, random_state=0)),
    "tree two": ("two", lambda: DecisionTreeClassifier(max_depth=5, class_weight="balanced", random_state=0)),
    "tree three": ("three", lambda: DecisionTreeClassifier(max_depth=5, criterion="entropy", random_state=0)),
    "extra tree": ("number", lambda: ExtraTreeRegressor(random_state=0)),
    "extra tree three": ("three", lambda: ExtraTreeClassifier(random_state=0)),
    "forest": ("number", lambda: RandomForestRegressor(20, random_state=0)),
    "forest median": ("number", lambda: RandomForestRegressor(5, criterion="absolute_error", max_depth=5)),
    "forest targets": ("targets", lambda: RandomForestRegressor(10, max_depth=6, random_state=0)),
    "forest two": ("two", lambda: RandomForestClassifier(20, random_state=0)),
    "forest three": (
        "three",
        lambda: RandomForestClassifier(20, class_weight="balanced_subsample", max_depth=5, random_state=0),
    ),
    "forest monotonic": ("two", lambda: RandomForestClassifier(10, monotonic_cst=[1, 0, 0, 0], random_state=0)),
    "extra trees": ("number", lambda: ExtraTreesRegressor(10, bootstrap=True, random_state=0)),
    "extra trees two": ("two", lambda: ExtraTreesClassifier(10, random_state=0)),
    "bagging": ("number", lambda: BaggingRegressor(n_estimators=8, random_state=0)),
    "bagging columns": (
        "number",
        lambda: BaggingRegressor(n_estimators=8, max_features=2, bootstrap_features=True, random_state=0),
    ),
    "bagging targets": ("targets", lambda: BaggingRegressor(DecisionTreeRegressor(max_depth=4), n_estimators=4)),
    "bagging three": (
        "three",
        lambda: BaggingClassifier(ExtraTreeClassifier(), n_estimators=8, max_features=3, random_state=0),
    ),
    "bagging few rows": ("three", lambda: BaggingClassifier(n_estimators=12, max_samples=4, random_state=0)),
    "bagging few rows two": ("two", lambda: BaggingClassifier(n_estimators=12, max_samples=2, random_state=0)),
}
BOOSTED = {
    "boosting": ("number", lambda: GradientBoostingRegressor(n_estimators=30, random_state=0)),
    "boosting huber": ("number", lambda: GradientBoostingRegressor(loss="huber", n_estimators=15)),
    "boosting absolute": ("number", lambda: GradientBoostingRegressor(loss="absolute_error", n_estimators=15)),
    "boosting quantile": ("number", lambda: GradientBoostingRegressor(loss="quantile", alpha=0.2, n_estimators=15)),
    "boosting zero": ("number", lambda: GradientBoostingRegressor(init="zero", n_estimators=10)),
    "boosting constant": (
        "number",
        lambda: GradientBoostingRegressor(init=DummyRegressor(strategy="constant", constant=7.5), n_estimators=10),
    ),
    "boosting stopped": (
        "number",
        lambda: GradientBoostingRegressor(n_estimators=300, learning_rate=0.5, n_iter_no_change=2, random_state=0),
    ),
    "boosting sampled": (
        "number",
        lambda: GradientBoostingRegressor(n_estimators=10, subsample=0.5, max_leaf_nodes=9, random_state=0),
    ),
    "boosting two": ("two", lambda: GradientBoostingClassifier(n_estimators=20, random_state=0)),
    "boosting exponential": ("two", lambda: GradientBoostingClassifier(loss="exponential", n_estimators=20)),
    "boosting two zero": ("two", lambda: GradientBoostingClassifier(init="zero", n_estimators=10)),
    "boosting two frequent": (
        "two",
        lambda: GradientBoostingClassifier(init=DummyClassifier(strategy="most_frequent"), n_estimators=10),
    ),
    "boosting two uniform": (
        "two",
        lambda: GradientBoostingClassifier(init=DummyClassifier(strategy="uniform"), n_estimators=10),
    ),
    "boosting three": ("three", lambda: GradientBoostingClassifier(n_estimators=10, random_state=0)),
    "boosting three stopped": (
        "three",
        lambda: GradientBoostingClassifier(n_estimators=200, learning_rate=0.5, n_iter_no_change=2, random_state=0),
    ),
    "boosting three zero": ("three", lambda: GradientBoostingClassifier(init="zero", n_estimators=10)),
    "adaboost two": ("two", lambda: AdaBoostClassifier(n_estimators=20, random_state=0)),
    "adaboost two deep": (
        "two",
        lambda: AdaBoostClassifier(DecisionTreeClassifier(max_depth=4), n_estimators=20, learning_rate=0.3),
    ),
    "adaboost two perfect": ("two", lambda: AdaBoostClassifier(DecisionTreeClassifier(), n_estimators=20)),
    "adaboost three": ("three", lambda: AdaBoostClassifier(n_estimators=20, random_state=0)),
    "adaboost three deep": (
        "three",
        lambda: AdaBoostClassifier(ExtraTreeClassifier(max_depth=5), n_estimators=20, random_state=0),
    ),
}
HIST = {
    "hist": ("number", lambda: HistGradientBoostingRegressor(max_iter=20)),
    "hist absolute": ("number", lambda: HistGradientBoostingRegressor(loss="absolute_error", max_iter=10)),
    "hist quantile": ("number", lambda: HistGradientBoostingRegressor(loss="quantile", quantile=0.8, max_iter=10)),
    "hist poisson": ("positive", lambda: HistGradientBoostingRegressor(loss="poisson", max_iter=10)),
    "hist gamma": ("positive", lambda: HistGradientBoostingRegressor(loss="gamma", max_iter=10)),
    "hist monotonic": (
        "number",
        lambda: HistGradientBoostingRegressor(monotonic_cst=[1, 0, -1, 0], interaction_cst="pairwise", max_iter=10),
    ),
    "hist stopped": (
        "number",
        lambda: HistGradientBoostingRegressor(
            max_iter=200, learning_rate=0.5, early_stopping=True, n_iter_no_change=2, random_state=0
        ),
    ),
    "hist two": ("two", lambda: HistGradientBoostingClassifier(max_iter=15, class_weight="balanced")),
    "hist three": ("three", lambda: HistGradientBoostingClassifier(max_iter=8, min_samples_leaf=3)),
}


@pytest.mark.parametrize("trained_on_missing", [False, True])
@pytest.mark.parametrize("name", TREES)
def test_trees_agree_on_every_kind_of_row(name, trained_on_missing):
    kind, make = TREES[name]
    refuses_missing = VERSION < (1, 9) and name in LATELY_MISSING
    x = make_x(missing=trained_on_missing and not refuses_missing)
    model = fit(make(), x, make_y(x, kind))
    forest = read_model(model)
    rows = numeric_rows(forest, np.random.default_rng(1), missing=not refuses_missing, infinite=False, base=x)
    check(model, rows)
    assert forest.schema.link == ("probability" if is_classifier(model) else "identity")


@pytest.mark.parametrize("name", BOOSTED)
def test_boosted_trees_agree_on_every_kind_of_row(name):
    kind, make = BOOSTED[name]
    x = make_x()
    model = fit(make(), x, make_y(x, kind))
    rows = numeric_rows(read_model(model), np.random.default_rng(1), missing=False, infinite=False, base=x)
    forest = check(model, rows)
    if "stopped" in name:
        assert forest.n_trees < model.n_estimators * forest.n_outputs
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.where(rows < 0, np.nan, rows))
    with pytest.raises(ValueError, match="must have no missing values"):
        forest.score(np.where(rows < 0, np.nan, rows))


@pytest.mark.parametrize("trained_on_missing", [False, True])
@pytest.mark.parametrize("name", HIST)
def test_hist_boosting_agrees_on_every_kind_of_row(name, trained_on_missing):
    kind, make = HIST[name]
    x = make_x(missing=trained_on_missing)
    model = fit(make(), x, make_y(x, kind))
    rows = numeric_rows(read_model(model), np.random.default_rng(1), base=x)
    forest = check(model, rows)
    if "stopped" in name:
        assert forest.n_trees < model.max_iter


def test_hist_boosting_trained_on_infinite_and_mostly_missing_values():
    x = make_x()
    x[:, 0] = np.where(x[:, 0] > 0, np.nan, x[:, 0])
    x[:60, 2], x[60:120, 2] = np.inf, -np.inf
    y = np.isnan(x[:, 0]) * 2.0 + np.isinf(x[:, 2]) + x[:, 1]
    model = fit(HistGradientBoostingRegressor(max_iter=20), x, y)
    assert np.isinf(np.concatenate([t.nodes["num_threshold"] for (t,) in model._predictors])).any()
    check(model, numeric_rows(read_model(model), np.random.default_rng(1), base=x))


@pytest.mark.parametrize(
    ("model", "link", "inverse"),
    [
        (HistGradientBoostingRegressor(loss="gamma", max_iter=5), "log", np.exp),
        (HistGradientBoostingRegressor(loss="quantile", quantile=0.3, max_iter=5), "identity", lambda f: f),
        (HistGradientBoostingClassifier(max_iter=5), "logit", lambda f: 1 / (1 + np.exp(-f))),
        (GradientBoostingClassifier(n_estimators=5), "logit", lambda f: 1 / (1 + np.exp(-f))),
        (GradientBoostingClassifier(loss="exponential", n_estimators=5), "argmax", lambda f: 1 / (1 + np.exp(-2 * f))),
        (AdaBoostClassifier(n_estimators=5), "logit", lambda f: 1 / (1 + np.exp(-f))),
        (RandomForestClassifier(5), "probability", lambda f: f),
    ],
)
def test_link_turns_the_score_into_the_response(model, link, inverse):
    x = make_x()
    fit(model, x, make_y(x, "two" if is_classifier(model) else "positive"))
    forest = read_model(model)
    response = model.predict_proba(x)[:, 1] if is_classifier(model) else model.predict(x)
    assert (forest.schema.link, forest.schema.outputs) == (link, ("score",))
    np.testing.assert_allclose(inverse(forest.score(x)[:, 0]), response, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("model", "link"),
    [
        (HistGradientBoostingClassifier(max_iter=3), "softmax"),
        (GradientBoostingClassifier(n_estimators=3), "softmax"),
        (AdaBoostClassifier(n_estimators=3), "argmax"),
        (DecisionTreeClassifier(), "probability"),
    ],
)
def test_several_classes_have_their_names_as_outputs(model, link):
    x = make_x()
    forest = read_model(fit(model, x, make_y(x, "three")))
    assert (forest.schema.outputs, forest.schema.link) == (("0", "10", "20"), link)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (GradientBoostingClassifier(loss="exponential", n_estimators=5), "two"),
        (AdaBoostClassifier(n_estimators=20), "three"),
    ],
)
def test_labels_of_scores_whose_probabilities_are_not_known(model, kind, tmp_path):
    x = make_x()
    fit(model, x, make_y(x, kind))
    fx = treeanova.decompose(model, x, density="empirical")
    np.testing.assert_array_equal(fx.predict(x), model.predict(x))
    fx.save(tmp_path / "fx.tav")
    np.testing.assert_array_equal(treeanova.load(tmp_path / "fx.tav").predict(x), model.predict(x))
    with pytest.raises(ValueError, match="got the link 'argmax'; use decision_function"):
        fx.predict_proba(x)


def test_several_targets_are_numbered():
    x = make_x()
    assert read_model(fit(DecisionTreeRegressor(), x, make_y(x, "targets"))).schema.outputs == ("y0", "y1", "y2")


@pytest.mark.parametrize("kind", ["two", "three"])
def test_bagged_trees_that_met_some_classes_only(kind):
    x = make_x()
    with config_context(enable_metadata_routing=True):  # rows are then drawn, not weighted
        model = fit(BaggingClassifier(n_estimators=12, max_samples=3, random_state=0), x, make_y(x, kind))
    assert any(len(tree.classes_) < len(model.classes_) for tree in model.estimators_)
    check(model, x)


def test_constant_target_gives_a_forest_of_bare_roots():
    x = make_x()
    for model in (DecisionTreeRegressor(), GradientBoostingRegressor(n_estimators=3), HistGradientBoostingRegressor()):
        check(fit(model, x, np.full(len(x), 2.5)), x)


@pytest.mark.skipif(VERSION < (1, 7), reason="scikit-learn takes missing values here")
def test_missing_values_are_refused_where_the_tree_refuses_them():
    x = make_x()
    model = fit(ExtraTreeRegressor(splitter="best"), x, make_y(x, "number"))
    holes = np.where(x > 1, np.nan, x)
    with pytest.raises(ValueError, match="NaN"):
        model.predict(holes)
    with pytest.raises(ValueError, match="must have no missing values"):
        read_model(model).score(holes)


@pytest.mark.parametrize("model", [RandomForestRegressor(5), GradientBoostingRegressor(n_estimators=5)])
def test_sparse_float32_and_integer_matrices(model):
    x = np.where(np.random.default_rng(0).random((N_ROWS, N_FEATURES)) < 0.5, 0.0, make_x())
    fit(model, x, make_y(x, "number"))
    forest = check(model, x.astype(np.float32))
    check(model, np.rint(3 * x).astype(np.int64))
    np.testing.assert_allclose(forest.score(scipy.sparse.csr_matrix(x)), raw(model, x), rtol=1e-12, atol=1e-12)


# Categories


LETTERS = np.array(["b", "a", "d", "c", "ee", "f"], dtype=object)


def make_table(seed=0, *, n_rows=N_ROWS):
    rng = np.random.default_rng(seed)
    return {
        "x": rng.normal(size=n_rows),
        "letter": rng.choice(LETTERS, n_rows),
        "z": rng.normal(size=n_rows) * 1e5,
        "code": rng.choice([-7, 0, 3, 11, 400], n_rows),
        "flag": rng.random(n_rows) < 0.4,
    }


def make_table_y(table, kind="number"):
    y = table["x"] * np.isin(table["letter"], ["a", "c", "f"]) + np.isin(table["code"], [3, -7]) * (table["z"] > 0)
    y = y + table["flag"] * 0.5
    return y if kind == "number" else np.digitize(y, [0.0, 0.8])


SMALL = {"max_iter": 12, "min_samples_leaf": 4}
KNOWN = {"letter": [*LETTERS, "never seen"], "code": [-7, 0, 3, 11, 400, 5], "flag": [False, True]}


def category_frame(table):
    categories = {name: pd.Categorical(table[name]) for name in ("letter", "code", "flag")}
    return pd.DataFrame({**table, **categories})


def adversarial_frame(forest, seed=1, n_rows=600):
    """A table with unseen and missing categories, and numbers on and beside bounds."""
    table = make_table(seed, n_rows=n_rows)
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(table).astype(object)
    numbers = numeric_rows(forest, rng, n_rows)
    frame["x"], frame["z"] = numbers[:, 0], numbers[:, 2]
    frame.loc[rng.random(n_rows) < 0.15, "letter"] = "never seen"
    frame.loc[rng.random(n_rows) < 0.15, "code"] = 5
    for name in ("letter", "code", "flag"):
        frame.loc[rng.random(n_rows) < 0.15, name] = np.nan
        frame[name] = pd.Categorical(frame[name], categories=KNOWN[name])
    return frame


@pytest.mark.parametrize("kind", ["number", "classes"])
@pytest.mark.parametrize("trained_on_missing", [False, True])
def test_pandas_categories_by_dtype(kind, trained_on_missing):
    table = make_table()
    frame = category_frame(table)
    if trained_on_missing:
        frame.loc[::7, "letter"] = np.nan
        frame.loc[::5, "flag"] = np.nan
    cls = HistGradientBoostingRegressor if kind == "number" else HistGradientBoostingClassifier
    model = fit(cls(categorical_features="from_dtype", **SMALL), frame, make_table_y(table, kind))
    forest = read_model(model)
    assert forest.schema.named
    assert forest.schema.names == tuple(frame.columns)
    assert [f.n_categories for f in forest.schema.features] == [0, 6, 0, 5, 2]
    assert forest.schema.features[1].encoder.labels == ("a", "b", "c", "d", "ee", "f")
    rows = adversarial_frame(forest)
    check(model, rows)
    check(model, rows, data=rows[rows.columns[::-1]].assign(more=1))


@pytest.mark.parametrize("how", [["letter", "code", "flag"], [1, 3, 4], [False, True, False, True, True]])
def test_plain_columns_named_as_categories(how):
    table = make_table()
    frame = pd.DataFrame(table)
    model = fit(HistGradientBoostingRegressor(categorical_features=how, **SMALL), frame, make_table_y(table))
    rows = pd.DataFrame(make_table(3))
    rows.loc[::4, "letter"] = "never seen"
    rows.loc[::5, "code"] = -8
    check(model, rows)
    rows.loc[::3, "letter"] = np.nan
    check(model, rows)


def test_numbers_as_categories_in_a_matrix():
    rng = np.random.default_rng(0)
    x = make_x()
    x[:, 0], x[:, 2] = rng.integers(0, 6, N_ROWS), rng.choice([-2.5, 0.1, 7.0, np.nan], N_ROWS)
    y = np.isin(x[:, 0], [1, 4]) * x[:, 1] * 10 + (x[:, 2] == 7.0)
    model = fit(HistGradientBoostingRegressor(categorical_features=[0, 2], **SMALL), x, y)
    rows = numeric_rows(read_model(model), np.random.default_rng(1), base=x)
    rows[:, 0] = rng.choice([0, 1, 2, 3, 4, 5, 6, -1, 1.5, 300, np.nan, -0.0], len(rows))
    rows[:, 2] = rng.choice([-2.5, 0.1, float(np.float32(0.1)), 7.0, 0.0, np.nan], len(rows))
    check(model, rows)
    if VERSION >= (1, 9):  # before, fractions in single precision are taken for the categories next to them
        with np.errstate(over="ignore"):
            check(model, rows.astype(np.float32))


def test_all_columns_categories_many_of_them():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.integers(0, 255, 2000), rng.integers(0, 33, 2000)]).astype(float)
    x[:255, 0] = np.arange(255)
    y = np.sin(x[:, 0] ** 2) + np.cos(x[:, 1] ** 2)
    model = fit(HistGradientBoostingRegressor(categorical_features=[True, True], max_iter=20), x, y)
    forest = check(model, np.column_stack([np.arange(-2, 300), np.arange(302) % 40]).astype(float))
    assert [f.n_categories for f in forest.schema.features] == [255, 33]


@pytest.mark.parametrize("trained_on_missing", [True, False])
def test_integers_that_floats_cannot_tell_apart_are_read_as_the_library_does_or_refused(trained_on_missing):
    """Floats merge 2**53 and 2**53 + 1; category columns with missing values are floats to the library."""
    labels = np.array([2**53, 2**53 + 1, 2**53 + 2, 2**60, 2**60 + 1])
    codes, is_absent = np.arange(300) % 5, np.arange(300) % 7 == 0
    whole, floats = labels[codes], np.where(is_absent, np.nan, labels[codes].astype(float))
    with_missing = pd.Categorical.from_codes(np.where(is_absent, -1, codes), categories=labels)
    complete = pd.Categorical.from_codes(codes, categories=labels)
    table = pd.DataFrame({"c": with_missing if trained_on_missing else complete})
    model = HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=5, categorical_features="from_dtype")
    fit(model, table, codes + 5.0 * is_absent)
    for column in (whole, whole.astype(float), floats, pd.Categorical(floats)):
        rows = pd.DataFrame({"c": column})
        check(model, rows)
    for column, is_refused in ((with_missing, True), (complete, trained_on_missing)):
        rows = pd.DataFrame({"c": column})
        if is_refused:
            with pytest.raises(TypeError, match=r"'c' must hold integers up to 2.*convert the column to float64"):
                read_model(model).score(rows)
        else:
            check(model, rows)


def test_column_of_missing_categories_only():
    x = make_x()
    x[:, 2] = np.nan
    model = fit(HistGradientBoostingRegressor(categorical_features=[2], **SMALL), x, make_y(x, "number"))
    check(model, np.where(np.isnan(x), 1.0, x))


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical, pl.Enum(["a", "b", "c", "d", "ee", "f", "never seen"])])
@pytest.mark.parametrize("trained_on_missing", [False, True])
def test_polars_null_is_a_category_where_training_had_it(dtype, trained_on_missing):
    table = make_table()
    y = make_table_y(table) + 2.0 * (np.arange(N_ROWS) % 4 == 0)
    holes = np.where(np.arange(N_ROWS) % 4 == 0, None, table["letter"])

    def frame(letters, numbers):
        return pl.DataFrame({"x": numbers, "letter": pl.Series(list(letters), dtype=dtype)})

    model = HistGradientBoostingRegressor(categorical_features=["letter"], **SMALL)
    fit(model, frame(holes if trained_on_missing else table["letter"], table["x"]), y)
    encoder = read_model(model).schema.features[1].encoder
    assert encoder == Labels(encoder.names, none="category" if trained_on_missing else "missing")
    assert (None in encoder.labels) == trained_on_missing
    letters = np.where(np.arange(N_ROWS) % 7 == 0, "never seen", holes)
    rows = frame(letters, make_table(2)["x"])
    check(model, rows)
    check(model, rows, data=rows.select("letter", "x"))


def test_none_and_nan_differ_where_none_is_a_category():
    table = make_table()
    letters = table["letter"].copy()
    letters[::3] = None
    x = np.column_stack([letters, table["x"]]).astype(object)
    y = make_table_y(table) + 2.0 * (np.arange(N_ROWS) % 3 == 0)
    model = fit(HistGradientBoostingRegressor(categorical_features=[0], **SMALL), x, y)
    rows = np.array([[letter, 0.25] for letter in ["a", None, np.nan, "never seen"]], dtype=object)
    score = check(model, rows).score(rows)
    assert score[1] != score[2]
    assert score[2] == score[3]
    frame = pd.DataFrame({"letter": pd.Categorical(["a", None, "c"]), "x": [0.1, 0.2, 0.3]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the model has no names, the table has
        check(model, frame)


def test_nullable_numbers():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"n": pd.array(rng.normal(size=N_ROWS), "Float64"), "k": pd.array(rng.integers(0, 4, N_ROWS), "Int64")}
    )
    frame.loc[::5, "n"] = pd.NA
    frame.loc[::6, "k"] = pd.NA
    y = rng.normal(size=N_ROWS) + frame["k"].fillna(2).to_numpy(float)
    check(fit(HistGradientBoostingRegressor(categorical_features=["k"], **SMALL), frame, y), frame)
    forest = fit(RandomForestRegressor(5), frame, y)
    np.testing.assert_allclose(read_model(forest).score(frame)[:, 0], forest.predict(frame), rtol=1e-12, atol=1e-12)


def test_names_are_kept_and_columns_matched_by_them():
    x = make_x()
    names = ["d", "c", "b", "a"]
    for make in (pd.DataFrame, pl.DataFrame):
        frame = make(dict(zip(names, x.T, strict=True)))
        for model in (RandomForestRegressor(5), GradientBoostingRegressor(n_estimators=5), BaggingRegressor()):
            forest = read_model(fit(model, frame, make_y(x, "number")))
            assert forest.schema.named
            assert forest.schema.names == tuple(names)
            np.testing.assert_allclose(
                forest.score(frame[sorted(names)])[:, 0], model.predict(frame), rtol=1e-12, atol=1e-12
            )
    plain = read_model(fit(DecisionTreeRegressor(), x, make_y(x, "number"))).schema
    assert (plain.named, plain.names) == (False, ("x0", "x1", "x2", "x3"))


# Drawn models


@st.composite
def drawn_models(draw):
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    n_rows, n_columns = draw(st.integers(8, 60)), draw(st.integers(1, 4))
    scale = 10.0 ** draw(st.integers(-6, 6))
    x = np.round(rng.normal(size=(n_rows, n_columns)), draw(st.integers(0, 3))) * scale
    n_classes = draw(st.sampled_from([0, 2, 3]))
    y = rng.normal(size=n_rows) + (x[:, 0] > 0) if n_classes == 0 else np.arange(n_rows) % n_classes
    depth = draw(st.integers(1, 6))
    regressors = [
        RandomForestRegressor(4, max_depth=depth, random_state=seed),
        ExtraTreesRegressor(4, max_depth=depth, random_state=seed),
        GradientBoostingRegressor(n_estimators=4, max_depth=depth, random_state=seed),
        HistGradientBoostingRegressor(max_iter=4, max_depth=depth, min_samples_leaf=2, max_bins=16),
    ]
    classifiers = [
        RandomForestClassifier(4, max_depth=depth, random_state=seed),
        ExtraTreesClassifier(4, max_depth=depth, random_state=seed),
        GradientBoostingClassifier(n_estimators=4, max_depth=depth, random_state=seed),
        HistGradientBoostingClassifier(max_iter=4, max_depth=depth, min_samples_leaf=2, max_bins=16),
    ]
    which = draw(st.integers(0, 3))
    if which != 2 and draw(st.booleans()):
        x[rng.random(x.shape) < 0.3] = np.nan
    return fit((classifiers if n_classes else regressors)[which], x, y), x, seed, which


@settings(max_examples=25, deadline=None, derandomize=True)
@given(drawn_models())
def test_drawn_models(drawn):
    model, x, seed, which = drawn
    rng = np.random.default_rng(seed)
    check(model, numeric_rows(read_model(model), rng, 300, missing=which != 2, infinite=which == 3, base=x))


# Refusals


class OwnPrediction(RandomForestRegressor):
    def predict(self, X):
        return super().predict(X) ** 2


class OwnName(RandomForestRegressor):
    pass


class OwnTree(DecisionTreeRegressor):
    def predict(self, X, check_input=True):
        return -super().predict(X, check_input)


def test_a_subclass_is_read_unless_it_predicts_in_its_own_way():
    x = make_x()
    check(fit(OwnName(3), x, make_y(x, "number")), x)
    with pytest.raises(UnsupportedModelError, match="OwnPrediction cannot be read: it overrides `predict`"):
        read_model(fit(OwnPrediction(3), x, make_y(x, "number")))
    with pytest.raises(UnsupportedModelError, match="OwnTree cannot be read: it overrides `predict`"):
        read_model(fit(BaggingRegressor(OwnTree(), n_estimators=3), x, make_y(x, "number")))


@pytest.mark.parametrize(
    ("kind", "model", "message"),
    [
        ("number", AdaBoostRegressor(n_estimators=3), "weighted median"),
        ("number", IsolationForest(n_estimators=3), "path length"),
        ("number", RandomTreesEmbedding(3), "encodes leaves"),
        (
            "number",
            GradientBoostingRegressor(init=LinearRegression(), n_estimators=3),
            "starts from the predictions of",
        ),
        (
            "two",
            GradientBoostingClassifier(init=LogisticRegression(), n_estimators=3),
            "starts from the predictions of",
        ),
        (
            "two",
            GradientBoostingClassifier(init=DummyClassifier(strategy="stratified", random_state=0), n_estimators=3),
            "not from a constant",
        ),
        ("two", AdaBoostClassifier(LogisticRegression(), n_estimators=3), "TreeClassifier, got LogisticRegression"),
        ("number", BaggingRegressor(LinearRegression(), n_estimators=3), "LinearRegression cannot be read"),
        ("three", BaggingRegressor(DecisionTreeClassifier(), n_estimators=3), "TreeRegressor, got DecisionTreeClass"),
        ("three", BaggingClassifier(DecisionTreeRegressor(), n_estimators=3), "TreeClassifier, got DecisionTreeReg"),
        ("number", LinearRegression(), "not one of AdaBoostClassifier"),
        ("number", make_pipeline(StandardScaler(), LinearRegression()), "LinearRegression cannot be read"),
    ],
)
def test_refused_with_the_reason(kind, model, message):
    x = make_x()
    with pytest.raises(UnsupportedModelError, match=message):
        read_model(fit(model, x, make_y(x, kind)))


@pytest.mark.parametrize("model", [DecisionTreeClassifier(), RandomForestClassifier(3), ExtraTreesClassifier(3)])
def test_several_targets_of_classes_are_refused(model):
    x = make_x()
    with pytest.raises(UnsupportedModelError, match="predicts several targets"):
        read_model(fit(model, x, (make_y(x, "targets") > 0).astype(int)))


@pytest.mark.parametrize("model", [DecisionTreeClassifier(), HistGradientBoostingClassifier(max_iter=2)])
def test_one_class_is_refused(model):
    with pytest.raises(UnsupportedModelError, match="trained on one class only"):
        read_model(fit(model, make_x(), np.zeros(N_ROWS)))


@pytest.mark.parametrize("make", [make for group in (TREES, BOOSTED, HIST) for _, make in group.values()])
def test_unfitted_is_refused(make):
    with pytest.raises(UnsupportedModelError, match="fit it first"):
        read_model(make())
    with pytest.raises(UnsupportedModelError, match="fit it first"):
        read_model(make_pipeline(StandardScaler(), make()))


def test_a_damaged_column_of_hist_boosting_is_refused():
    x = make_x()
    model = fit(HistGradientBoostingRegressor(max_iter=2), x, make_y(x, "number"))
    nodes = model._predictors[0][0].nodes
    nodes["feature_idx"] = np.where(nodes["is_leaf"], 0, -1)
    with pytest.raises(ValueError, match=f"splits on column -1 of {x.shape[1]}"):
        read_model(model)
