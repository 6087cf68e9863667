"""XGBoost itself is the oracle: leaf numbers and float32 scores must be equal, bit for bit, for every row."""

from __future__ import annotations

import functools
import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.edge_values import numeric_rows
from tests.support.training import fit, shifted, train
from treeanova import decompose
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.forest import Forest
from treeanova.model.grid import grid_of
from treeanova.readers import read_model
from treeanova.readers import xgboost as reader
from treeanova.readers.xgboost import predicted_margin, stored_margin
from treeanova.readers.xgboost.nodes import codes_of_labels, decode_ubjson
from treeanova.storage.codec import describe, restore

xgb = pytest.importorskip("xgboost")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

VERSION = tuple(int(part) for part in xgb.__version__.split(".")[:2])
# What later versions of XGBoost say of dart and of random forests, which they still train.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*`booster=(dart|gblinear)` is deprecated"),
    pytest.mark.filterwarnings("ignore:`XGBRF.*` is deprecated:FutureWarning"),
]


def data(n_rows: int = 300, n_features: int = 4, seed: int = 0, missing: float = 0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).round(2)
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(scale=0.1, size=n_rows)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def single_scores(forest: Forest, rows) -> np.ndarray:
    """The score summed as XGBoost does: float32, base first, tree by tree."""
    from treeanova.data.columns import encode

    leaves = forest.leaves(encode(rows, forest.schema))
    total = np.repeat(forest.intercept.astype(np.float32)[None], len(leaves), axis=0)
    for tree in range(forest.n_trees):
        total = total + forest.values[leaves[:, tree]].astype(np.float32)
    return total


def assert_equal_scores(forest: Forest, rows, margin) -> None:
    single = single_scores(forest, rows)
    np.testing.assert_array_equal(single, np.asarray(margin).reshape(single.shape))
    scale = 1 + np.abs(forest.values).max(initial=0) * max(1, forest.n_trees)
    np.testing.assert_allclose(forest.score(rows), single, atol=1e-6 * scale)


def assert_bins_decide(forest: Forest, rows) -> None:
    """Rows in the same bins reach the same leaves."""
    codes = grid_of(forest).index(rows)
    _, group = np.unique(codes, axis=0, return_inverse=True)
    leaves = forest.leaf_ids(rows)
    first = np.zeros(group.max() + 1, dtype=int)
    first[group[::-1]] = np.arange(len(group))[::-1]
    np.testing.assert_array_equal(leaves, leaves[first[group]])


def is_dart(model) -> bool:
    return getattr(model, "booster", None) == "dart"


def margin_of(model, rows) -> np.ndarray:
    if isinstance(model, xgb.Booster):
        return model.inplace_predict(rows, predict_type="margin", validate_features=False)
    return model.predict(rows, output_margin=True)


def leaves_of(model, rows, n_trees: int) -> np.ndarray:
    """XGBoost's leaf numbers; its DMatrix refuses infinite rows."""
    if isinstance(model, xgb.Booster):
        kinds = model.feature_types
        matrix = xgb.DMatrix(rows, feature_names=model.feature_names, feature_types=kinds)
        return model.predict(matrix, pred_leaf=True).reshape(len(rows), n_trees)
    return model.apply(rows).reshape(len(rows), n_trees)


def assert_exact(model, forest: Forest, base, *, n_rows: int = 1500, seed: int = 1) -> None:
    rng = np.random.default_rng(seed)
    rows = numeric_rows(forest, rng, n_rows, base=base)
    if not is_dart(model):  # in place, dart adds and takes away the base for each tree
        assert_equal_scores(forest, rows, margin_of(model, rows))
    np.testing.assert_allclose(forest.score(rows), margin_of(model, rows).reshape(n_rows, -1), rtol=1e-5, atol=1e-5)
    assert_bins_decide(forest, rows)
    with np.errstate(over="ignore"):
        finite = rows[~np.isinf(rows.astype(np.float32)).any(axis=1)]
    assert len(finite) > n_rows / 4
    np.testing.assert_array_equal(forest.leaf_ids(finite), leaves_of(model, finite, forest.n_trees))
    if not isinstance(model, xgb.Booster):
        last = getattr(model, "best_iteration", -1) + 1
        matrix = xgb.DMatrix(finite, missing=model.missing)
        margin = model.get_booster().predict(matrix, output_margin=True, iteration_range=(0, last))
        assert_equal_scores(forest, finite, margin)


SMALL = {"n_estimators": 12, "max_depth": 4, "n_jobs": 1}


def regressor(**options):
    X, y = data()
    return fit(xgb.XGBRegressor(**{**SMALL, **options}), X, y), X


def positive(**options):
    X, y = data()
    return fit(xgb.XGBRegressor(**{**SMALL, **options}), X, np.exp(y)), X


def classifier(n_classes: int = 2, **options):
    X, y = data()
    labels = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    return fit(xgb.XGBClassifier(**{**SMALL, **options}), X, labels), X


def several(**options):
    X, y = data()
    return fit(xgb.XGBRegressor(**{**SMALL, **options}), X, np.c_[y, y**2, X[:, 0] > 0]), X


def multi_label():
    X, y = data()
    return fit(xgb.XGBClassifier(**SMALL), X, np.c_[y > 0, y > 1]), X


def ranker(**options):
    X, y = data()
    return fit(xgb.XGBRanker(**{**SMALL, **options}), X, (y > 0).astype(int), qid=np.repeat(np.arange(30), 10)), X


def random_forest(cls, **options):
    X, y = data()
    return fit(cls(n_estimators=8, max_depth=4, n_jobs=1, **options), X, y > 0 if cls is xgb.XGBRFClassifier else y), X


def booster(objective: str, rounds: int = 10, *, target=None, **options):
    X, y = data()
    matrix = xgb.DMatrix(shifted(X), shifted(y if target is None else target(y)))
    if objective == "survival:aft":
        matrix.set_float_info("label_lower_bound", shifted(np.exp(y)))
        matrix.set_float_info("label_upper_bound", shifted(np.exp(y) + 1))
    return train(xgb, {"objective": objective, "max_depth": 3, "nthread": 1, **options}, matrix, rounds), X


def early_stopped(cls=xgb.XGBRegressor, **options):
    X, y = data()
    if cls is xgb.XGBClassifier:
        y = np.digitize(y, [-1, 1])
    options = {**SMALL, "n_estimators": 60, "learning_rate": 0.7, "early_stopping_rounds": 4, **options}
    model = fit(cls(**options), X[:200], y[:200], eval_set=[(X[200:], y[200:])], verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    return model, X


def continued():
    X, y = data()
    matrix = xgb.DMatrix(shifted(X), shifted(y))
    first = train(xgb, {"max_depth": 3}, matrix, 4)
    return train(xgb, {"max_depth": 5, "tree_method": "approx"}, matrix, 4, xgb_model=first), X


def refreshed():
    X, y = data()
    first = train(xgb, {"max_depth": 4}, xgb.DMatrix(shifted(X), shifted(y)), 6)
    options = {"process_type": "update", "updater": "refresh,prune", "gamma": 2.0, "verbosity": 0}
    return train(xgb, options, xgb.DMatrix(shifted(X), shifted(-y)), 6, xgb_model=first), X


def codes(**options):
    rng = np.random.default_rng(3)
    X, y = data()
    X[:, 1] = rng.integers(0, 12, len(X))
    X[:, 3] = rng.integers(0, 3, len(X))
    y = y + X[:, 1] % 5 + (X[:, 3] == 1)
    X[rng.random(len(X)) < 0.1, 1] = np.nan
    matrix = xgb.DMatrix(shifted(X), shifted(y), feature_types=["float", "c", "q", "c"])
    return train(xgb, {"max_depth": 5, "nthread": 1, **options}, matrix, 10), X


def best_saved():
    X, y = data()
    stop = xgb.callback.EarlyStopping(rounds=3, save_best=True)
    model = xgb.XGBRegressor(**{**SMALL, "n_estimators": 60, "learning_rate": 0.9}, callbacks=[stop])
    return fit(model, X[:200], y[:200], eval_set=[(X[200:], y[200:])], verbose=False), X


def loaded():
    model, X = early_stopped()
    again = xgb.XGBRegressor()
    again.load_model(model.get_booster().save_raw("json"))
    assert again.best_iteration == model.best_iteration
    return again, X


MODELS = {
    "regression": regressor,
    "depth 1": lambda: regressor(max_depth=1),
    "exact": lambda: regressor(tree_method="exact"),
    "approx": lambda: regressor(tree_method="approx"),
    "lossguide": lambda: regressor(grow_policy="lossguide", max_leaves=9, max_depth=0),
    "pruned": lambda: regressor(gamma=3.0, tree_method="exact", max_depth=8),
    "all pruned": lambda: regressor(gamma=1e6),
    "monotone": lambda: regressor(monotone_constraints=(1, 0, -1, 0)),
    "base score": lambda: regressor(base_score=3.7),
    "dart": lambda: regressor(booster="dart", rate_drop=0.4, skip_drop=0.2),
    "dart classes": lambda: classifier(3, booster="dart", rate_drop=0.4),
    "parallel": lambda: regressor(num_parallel_tree=3, subsample=0.6),
    "parallel classes": lambda: classifier(3, num_parallel_tree=2, subsample=0.6),
    "forest": lambda: random_forest(xgb.XGBRFRegressor),
    "forest classifier": lambda: random_forest(xgb.XGBRFClassifier),
    "binary": classifier,
    "binary base 0": lambda: classifier(base_score=0.0),
    "binary base 1": lambda: classifier(base_score=1.0),
    "logitraw": lambda: classifier(objective="binary:logitraw", base_score=0.2),
    "hinge": lambda: booster("binary:hinge", target=lambda y: y > 0),
    "logistic regression": lambda: booster("reg:logistic", target=lambda y: 1 / (1 + np.exp(-y))),
    "classes": lambda: classifier(4),
    "classes base scores": lambda: booster(
        "multi:softprob", num_class=3, base_score=[0.1, -0.4, 2.0], target=lambda y: np.digitize(y, [-1, 1])
    ),
    "softmax": lambda: booster("multi:softmax", num_class=3, target=lambda y: np.digitize(y, [-1, 1])),
    "labels": multi_label,
    "poisson": lambda: positive(objective="count:poisson"),
    "gamma": lambda: positive(objective="reg:gamma", base_score=0.8),
    "tweedie": lambda: positive(objective="reg:tweedie"),
    "pseudohuber": lambda: regressor(objective="reg:pseudohubererror"),
    "squaredlog": lambda: positive(objective="reg:squaredlogerror"),
    "absolute": lambda: regressor(objective="reg:absoluteerror"),
    "absolute targets": lambda: several(objective="reg:absoluteerror"),
    "quantile": lambda: regressor(objective="reg:quantileerror", quantile_alpha=0.3),
    "quantiles": lambda: regressor(objective="reg:quantileerror", quantile_alpha=[0.1, 0.5, 0.95]),
    "cox": lambda: booster("survival:cox", target=np.exp),
    "aft": lambda: booster("survival:aft"),
    "pairwise": lambda: ranker(objective="rank:pairwise"),
    "ndcg": ranker,
    "ndcg unbiased": lambda: ranker(lambdarank_unbiased=True),
    "targets": several,
    "vector leaves": lambda: several(multi_strategy="multi_output_tree"),
    "vector classes": lambda: classifier(3, multi_strategy="multi_output_tree"),
    "vector forest": lambda: several(multi_strategy="multi_output_tree", num_parallel_tree=2, subsample=0.7),
    "early stopped": early_stopped,
    "early stopped classes": lambda: early_stopped(xgb.XGBClassifier),
    "early stopped dart": lambda: early_stopped(booster="dart", rate_drop=0.1),
    "early stopped parallel": lambda: early_stopped(num_parallel_tree=2),
    "early stopped vectors": lambda: early_stopped(multi_strategy="multi_output_tree"),
    "early stopped booster": lambda: (early_stopped()[0].get_booster(), data()[0]),
    "best saved": best_saved,
    "loaded": loaded,
    "sliced": lambda: (regressor()[0].get_booster()[2:9], data()[0]),
    "continued": continued,
    "refreshed": refreshed,
    "no rounds": lambda: booster("reg:squarederror", rounds=0),
    "codes": codes,
    "codes one-hot": lambda: codes(max_cat_to_onehot=100),
    "codes partition": lambda: codes(max_cat_to_onehot=1),
    "codes approx": lambda: codes(tree_method="approx"),
    "codes pruned": lambda: codes(max_depth=7, updater="grow_quantile_histmaker,prune", gamma=4.0, verbosity=0),
}
if VERSION >= (3, 3):  # dropout became an option of all tree boosters
    MODELS["dropout"] = lambda: regressor(rate_drop=0.4, num_parallel_tree=2, subsample=0.6)
    MODELS["dropout classes"] = lambda: classifier(3, rate_drop=0.4, one_drop=1)
    MODELS["dropout vectors"] = lambda: several(multi_strategy="multi_output_tree", rate_drop=0.4)


@functools.cache
def case(name: str):
    model, X = MODELS[name]()
    return model, X, read_model(model)


@pytest.mark.parametrize("name", MODELS)
def test_equals_xgboost(name: str) -> None:
    model, X, forest = case(name)
    assert_exact(model, forest, X)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_files_equal_models(name: str, suffix: str, tmp_path) -> None:
    """The base margin of a file is computed here, that of a model by XGBoost: they must agree."""
    model, _, forest = case(name)
    path = tmp_path / f"model.{suffix}"
    model.save_model(path)
    again = read_model(path)
    assert_same(again, forest)


def assert_same(one: Forest, other: Forest) -> None:
    assert repr(one.schema) == repr(other.schema)  # NaN is not equal to itself
    for key, array in vars(other).items():
        if isinstance(array, np.ndarray):
            np.testing.assert_array_equal(getattr(one, key), array)


LINKS = {
    "regression": "identity",
    "binary": "logit",
    "labels": "logit",
    "logitraw": "identity",
    "hinge": "other",
    "classes": "softmax",
    "softmax": "softmax",
    "poisson": "log",
    "gamma": "log",
    "tweedie": "log",
    "cox": "log",
    "aft": "log",
    "ndcg": "identity",
    "quantiles": "identity",
    "vector classes": "softmax",
}


@pytest.mark.parametrize("name", LINKS)
def test_link_gives_the_response(name: str) -> None:
    model, X, forest = case(name)
    assert forest.schema.link == LINKS[name]
    score = forest.score(X)
    with np.errstate(over="ignore"):
        response = {
            "identity": lambda: score,
            "log": lambda: np.exp(score),
            "logit": lambda: 1 / (1 + np.exp(-score)),
            "softmax": lambda: np.exp(score) / np.exp(score).sum(axis=1, keepdims=True),
            "other": lambda: None,
        }[forest.schema.link]()
    raw = model if isinstance(model, xgb.Booster) else model.get_booster()
    predicted = raw.inplace_predict(X)
    if name == "softmax":
        np.testing.assert_array_equal(response.argmax(axis=1), predicted)
    elif response is not None:
        atol = 1e-7 * np.abs(response).max()  # XGBoost adds up in float32
        np.testing.assert_allclose(response, predicted.reshape(response.shape), rtol=2e-5, atol=atol)


def test_callable_objective_has_no_known_link() -> None:
    X, y = data()
    model = fit(xgb.XGBRegressor(n_estimators=3, objective=lambda y, p: (p - y, np.ones_like(y))), X, y)
    forest = read_model(model)
    assert forest.schema.link == "other"
    assert_exact(model, forest, X)


def test_outputs_have_names() -> None:
    assert case("regression")[2].schema.outputs == ("score",)
    assert case("binary")[2].schema.outputs == ("score",)
    assert case("classes")[2].schema.outputs == ("0", "1", "2", "3")
    assert case("quantiles")[2].schema.outputs == ("0.1", "0.5", "0.95")


@pytest.mark.parametrize("objective", ["binary:logistic", "reg:logistic", "count:poisson", "reg:squarederror"])
def test_own_base_margin_agrees_with_xgboost(objective: str) -> None:
    rng = np.random.default_rng(5)
    model, _ = booster(objective, rounds=1, target=lambda y: y > 0)
    learner = json.loads(model.save_raw("json"))["learner"]
    scores = [1e-45, 1e-7, 1e-6, 0.5, 1 - 1e-6, 1 - 1e-7, *rng.random(150), *(10.0 ** -rng.uniform(0, 8, 50))]
    for score in np.float32(scores):
        learner["learner_model_param"]["base_score"] = f"[{score!s}]"
        np.testing.assert_array_equal(
            stored_margin(learner, (3, 2, 0)), predicted_margin(model, learner, [3, 2, 0]), err_msg=str(score)
        )


def test_orphans_are_dropped() -> None:
    model, _, forest = case("refreshed")
    trees = json.loads(model.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    stored = sum(len(tree["left_children"]) for tree in trees)
    deleted = sum(int(tree["tree_param"]["num_deleted"]) for tree in trees)
    assert deleted > 0
    assert len(forest.feature) == stored - deleted


@pytest.mark.parametrize("missing", [-999.0, 0.0, 0.1, np.inf])
def test_missing_value_of_wrappers(missing: float) -> None:
    X, y = data()
    X = np.where(np.isnan(X), missing, X)
    model = fit(xgb.XGBRegressor(**SMALL, missing=missing), X, y)
    forest = read_model(model)
    assert_exact(model, forest, X)
    near = np.array([missing, np.float32(missing), np.nextafter(missing, 1), missing * (1 + 1e-9)])
    near = np.append(near, [np.nextafter(np.float32(missing), np.float32(1)), 1e39])
    rows = np.random.default_rng(0).choice(near, size=(200, 4))
    assert_equal_scores(forest, rows, margin_of(model, rows))
    sparse = scipy.sparse.csr_matrix(np.where(rng_mask(rows.shape), rows, 0.0))
    assert_equal_scores(forest, sparse, margin_of(model, sparse))


def rng_mask(shape):
    return np.random.default_rng(7).random(shape) < 0.5


@pytest.mark.parametrize("name", ["regression", "early stopped classes", "binary"])
@pytest.mark.parametrize("kind", ["csr_matrix", "csc_matrix", "csr_array"])
def test_absent_entries_are_missing(name: str, kind: str) -> None:
    model, X, forest = case(name)
    rows = np.where(np.isnan(X) | rng_mask(X.shape), 0.0, X)
    sparse = scipy.sparse.csr_matrix(rows)
    sparse.data[::7] = 0.0  # kept as entries
    assert_equal_scores(forest, getattr(scipy.sparse, kind)(sparse), margin_of(model, sparse))


def test_integers_are_rounded_once() -> None:
    X = np.random.default_rng(0).integers(-(2**62), 2**62, size=(300, 2))
    y = (X[:, 0] > 0) + X[:, 1] / 2.0**62
    model = fit(xgb.XGBRegressor(**SMALL), X, y)
    forest = read_model(model)
    near = forest.bound[forest.feature >= 0].astype(np.int64)
    rows = np.concatenate([near + step for step in (-1, 0, 1, 2)])
    rows = np.random.default_rng(1).choice(rows, size=(2000, 2))
    assert_equal_scores(forest, rows, margin_of(model, rows))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint8, np.bool_, np.int64])
def test_matrix_types(dtype) -> None:
    model, _, forest = case("regression")
    rows = (np.random.default_rng(0).normal(size=(200, 4)) * 2).clip(0, 5).astype(dtype)
    assert_equal_scores(forest, rows, margin_of(model, rows))


@pytest.mark.parametrize("name", ["codes", "codes one-hot", "codes partition", "codes approx", "codes pruned"])
def test_odd_codes(name: str) -> None:
    model, X, forest = case(name)
    odd = np.array([0, 1, 2.7, 2.99999999999, 11, 11.9, 12, 31, 32, 33, 64, -0.5, -1e-50, -0.0, -1, -7, 1e9])
    odd = np.concatenate([odd, np.arange(15), [2.0**24, 2.0**24 + 2, 1e30, np.nan]])
    rng = np.random.default_rng(2)
    rows = X[rng.integers(0, len(X), 1500)].copy()
    rows[:, 1], rows[:, 3] = rng.choice(odd, 1500), rng.choice(odd, 1500)
    assert_equal_scores(forest, rows, margin_of(model, rows))
    np.testing.assert_array_equal(forest.leaf_ids(rows), leaves_of(model, rows, forest.n_trees))
    assert_bins_decide(forest, rows)
    rows[rng.random(1500) < 0.5, 3] = np.inf
    assert_equal_scores(forest, rows, margin_of(model, rows))


# --- tables


TOWNS = np.array(["Rome", "Bern", "Oslo", "Riga", "Kyiv", "Lima", "Bonn", "Ulm"])
SIZES = np.array([30, 7, -12, 5])


def table(n_rows: int = 400, seed: int = 0, towns=TOWNS, sizes=SIZES, names=TOWNS):
    """A table with two columns of categories; `towns` and `sizes` are the categories in their order."""
    rng = np.random.default_rng(seed)
    town, size = rng.integers(0, len(names), n_rows), rng.integers(0, len(SIZES), n_rows)
    town_column = pd.Categorical(names[town], categories=towns)
    size_column = pd.Categorical(SIZES[size], categories=sizes)
    frame = pd.DataFrame({"age": rng.normal(size=n_rows), "town": town_column, "size": size_column})
    frame["flag"] = rng.random(n_rows) < 0.5
    frame.loc[rng.random(n_rows) < 0.1, ["town"]] = np.nan
    frame.loc[rng.random(n_rows) < 0.1, ["size"]] = np.nan
    frame.loc[rng.random(n_rows) < 0.1, ["age"]] = np.nan
    y = frame["age"].fillna(0) + town % 3 + (size == 2) * frame["flag"]
    return frame, y.to_numpy()


@functools.cache
def table_model(onehot: int = 4, missing: float = np.nan):
    frame, y = table()
    options = {**SMALL, "enable_categorical": True, "max_cat_to_onehot": onehot, "missing": missing}
    model = fit(xgb.XGBRegressor(**options), frame, y)
    return model, frame, read_model(model)


@pytest.mark.parametrize("onehot", [1, 4, 100])
def test_pandas_categories(onehot: int) -> None:
    model, frame, forest = table_model(onehot)
    assert forest.schema.names == ("age", "town", "size", "flag")
    assert forest.schema.named
    assert forest.schema.features[1].encoder.labels == tuple(TOWNS)
    assert forest.schema.features[2].encoder.labels == tuple(SIZES)
    assert_equal_scores(forest, frame, model.predict(frame, output_margin=True))
    np.testing.assert_array_equal(forest.leaf_ids(frame), model.apply(frame))
    assert_bins_decide(forest, frame)


def test_pandas_categories_in_another_order_and_subsets() -> None:
    model, _, forest = table_model()
    frame, _ = table(seed=9, towns=TOWNS[::-1], sizes=SIZES[[2, 0, 3, 1]])
    assert_equal_scores(forest, frame, model.predict(frame, output_margin=True))
    few = frame[frame["town"].isin(["Rome", "Ulm"])].copy()
    few["town"] = few["town"].cat.remove_unused_categories()
    assert_equal_scores(forest, few, model.predict(few, output_margin=True))
    np.testing.assert_array_equal(forest.leaf_ids(few), model.apply(few))


def test_tables_of_other_kinds_and_column_orders() -> None:
    _, frame, forest = table_model()
    expected = forest.score(frame)
    shuffled = frame[["size", "flag", "town", "age"]].assign(more=1)
    np.testing.assert_array_equal(forest.score(shuffled), expected)
    np.testing.assert_array_equal(forest.score(frame.assign(town=frame["town"].astype(object))), expected)
    np.testing.assert_array_equal(forest.score(frame.assign(age=frame["age"].astype("Float64"))), expected)
    np.testing.assert_array_equal(forest.score(frame.assign(flag=frame["flag"].astype("boolean"))), expected)
    np.testing.assert_array_equal(forest.score(frame.assign(town=frame["town"].astype("string"))), expected)


def test_polars_tables() -> None:
    frame, y = table()
    columns = {name: [None if value != value else value for value in frame[name]] for name in frame}  # noqa: PLR0124
    polars = pl.DataFrame({**columns, "town": pl.Series(columns["town"], dtype=pl.Enum(list(TOWNS)))}).drop("size")
    model = fit(xgb.XGBRegressor(**SMALL, enable_categorical=True), polars, y)
    forest = read_model(model)
    expected = model.predict(polars, output_margin=True)
    assert_equal_scores(forest, polars, expected)
    assert_equal_scores(forest, polars.select("flag", "town", "age"), expected)
    assert_equal_scores(forest, polars.with_columns(pl.col("town").cast(pl.Categorical)), expected)
    assert_equal_scores(forest, polars.with_columns(pl.col("town").cast(pl.String)), expected)
    assert_equal_scores(forest, polars.to_arrow(), expected)
    assert_equal_scores(forest, frame.drop(columns="size"), expected)


def test_matrices_hold_codes() -> None:
    model, frame, forest = table_model()
    matrix = np.c_[frame["age"], frame["town"].cat.codes, frame["size"].cat.codes, frame["flag"]].astype(float)
    matrix[:, 1:3] = np.where(matrix[:, 1:3] < 0, np.nan, matrix[:, 1:3])
    np.testing.assert_array_equal(forest.score(matrix), forest.score(frame))
    matrix[::3, 1], matrix[1::3, 2] = -1, 77
    assert_equal_scores(forest, matrix, model.predict(matrix, output_margin=True))


def whole_number_labels(labels):
    """A table with a category column, the same table with its labels as plain values, and a model of the first."""
    rng = np.random.default_rng(0)
    kind, x = np.array(labels)[rng.integers(0, len(labels), 400)], rng.normal(size=400)
    frame = pd.DataFrame({"kind": pd.Categorical(kind, categories=labels), "x": x})
    y = frame["kind"].cat.codes * 2 + x
    model = fit(xgb.XGBRegressor(**SMALL, enable_categorical=True), frame, y.to_numpy())
    return model, frame, frame.assign(kind=kind)


def test_whole_numbers_in_a_table_are_labels(tmp_path) -> None:
    """XGBoost refuses them in a table; Parquet loses the type of the categories."""
    model, frame, plain = whole_number_labels([1, 3, 7, 20])
    forest, expected = read_model(model), model.predict(frame, output_margin=True)
    with pytest.raises(xgb.core.XGBoostError, match="Invalid new DataFrame input"):
        model.predict(plain)
    frame.to_parquet(tmp_path / "rows.parquet")
    table = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "rows.parquet")
    for rows in (plain, plain.astype({"kind": float}), pl.from_pandas(plain), table):
        assert_equal_scores(forest, rows, expected)
    matrix = np.c_[frame["kind"].cat.codes, frame["x"]]
    assert_equal_scores(forest, matrix, model.predict(matrix, output_margin=True))
    right = decompose(model, frame, density="empirical")
    from_folder = decompose(model, tmp_path, density="empirical")
    np.testing.assert_allclose(from_folder.intercept, right.intercept, rtol=1e-12)


def test_numbers_in_a_table_that_are_no_labels_are_refused() -> None:
    """Codes of categories that are numbers, or are texts that spell numbers."""
    model, frame, plain = whole_number_labels([1, 3, 7, 20])
    with pytest.raises(ValueError, match=r"'kind' must hold categories of the model, got [02]"):
        read_model(model).score(frame.assign(kind=frame["kind"].cat.codes))
    model, frame, plain = whole_number_labels(["1", "20", "3", "7"])
    with pytest.raises(ValueError, match=r"'kind' must hold categories of the model, got [1372]"):
        read_model(model).score(plain.astype({"kind": int}))


def test_missing_value_is_compared_with_codes() -> None:
    """With those of the table's column, whatever its labels, so labels are refused."""
    model, frame, forest = table_model(missing=2.0)
    matrix = np.c_[frame["age"], frame["town"].cat.codes, frame["size"].cat.codes, frame["flag"]].astype(float)
    assert_equal_scores(forest, matrix, model.predict(matrix, output_margin=True))
    with pytest.raises(ValueError, match=r"'town' must hold codes, got labels: XGBoost compares missing=2"):
        forest.score(frame)
    model, frame, forest = table_model(missing=-999.0)
    assert_equal_scores(forest, frame, model.predict(frame, output_margin=True))


@pytest.mark.parametrize("name", ["Graz", "Zug"])
def test_unseen_labels_are_refused(name: str) -> None:
    """XGBoost before 3.3 takes Graz for Kyiv, the next label in order, and refuses Zug, as there is none."""
    model, frame, forest = table_model()
    other = frame.assign(town=frame["town"].cat.rename_categories({"Ulm": name}))
    if name == "Graz" and VERSION < (3, 3):
        towns = frame["town"].astype(object)
        wrong = frame.assign(town=pd.Categorical(towns.where(towns != "Ulm", "Kyiv"), categories=TOWNS))
        np.testing.assert_array_equal(model.predict(other), model.predict(wrong))
    with pytest.raises(ValueError, match=f"'town' must hold categories of the model, got '{name}'"):
        forest.score(other)


def test_a_model_without_trees_is_a_constant_whatever_the_categories() -> None:
    table = pd.DataFrame({"x": [0.5, 1.5, np.nan], "k": pd.Categorical(["u", "v", None])})
    data = xgb.DMatrix(table, label=[1.0, 2.0, 6.0], enable_categorical=True)
    booster = train(xgb, {"base_score": 2.5}, data, 0)
    np.testing.assert_allclose(read_model(booster).score(table)[:, 0], booster.predict(data))
    np.testing.assert_allclose(decompose(booster, table).decision_function(table), booster.predict(data))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "bool"])
@pytest.mark.filterwarnings("ignore:Sparse arrays from pandas are converted into dense")
def test_sparse_columns_of_pandas(dtype) -> None:
    values = np.random.default_rng(0).integers(0, 3, (200, 2)).astype(dtype)
    table = pd.DataFrame(values, columns=["a", "b"])
    model = fit(xgb.XGBRegressor(n_estimators=3), table.astype("float64"), values.sum(axis=1))
    sparse = table.astype(pd.SparseDtype(dtype, values.dtype.type(0)))
    np.testing.assert_allclose(read_model(model).score(sparse)[:, 0], model.predict(sparse), rtol=1e-5)
    if dtype.startswith("float"):
        gaps = table.mask(table == 1).astype(pd.SparseDtype(dtype, np.nan))
        np.testing.assert_allclose(read_model(model).score(gaps)[:, 0], model.predict(gaps), rtol=1e-5)


def test_categories_where_the_model_knows_no_labels_are_refused() -> None:
    """XGBoost takes the codes of such a column, whatever its labels."""
    _, X, forest = case("codes")
    frame = pd.DataFrame(X).assign(**{"1": 0}).iloc[:, :4]
    frame.columns = list("abcd")
    frame["b"] = pd.Categorical(frame["b"].fillna(0).astype(int))
    with pytest.raises(TypeError, match="column 'x1' must hold numbers"):
        forest.score(frame)
    _, X, forest = case("regression")
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["b"] = pd.Categorical(frame["b"])
    with pytest.raises(TypeError, match="column 'x1' must hold numbers"):
        forest.score(frame)
    frame["b"] = None
    np.testing.assert_array_equal(forest.score(frame), forest.score(frame.assign(b=np.nan)))


@pytest.mark.parametrize(
    "names", [["élan", "bar", "zoo"], ["a", "b", "é"], ["aé", "bé", "cé"], ["Genève", "Köln", "Łódź"]]
)
def test_names_beyond_ascii_from_pandas(names: list[str]) -> None:
    """XGBoost cuts them; a name that is gone is told by its length."""
    names = np.array(names)
    frame, y = table(towns=names, names=names)
    model = fit(xgb.XGBRegressor(**SMALL, enable_categorical=True), frame, y)
    forest = read_model(model)
    assert_equal_scores(forest, frame, model.predict(frame, output_margin=True))
    other = frame.assign(
        town=pd.Categorical(np.where(frame["town"] == names[0], "nowhere", frame["town"].astype(object)))
    )
    with pytest.raises(ValueError, match=r"'town' must hold categories of the model"):
        forest.score(other)


@pytest.mark.parametrize("names", [["élan", "bar", "zoo"], ["é", "ab", "ü€"], ["Genève", "Köln", "Łódź"]])
def test_names_beyond_ascii_from_polars(names: list[str]) -> None:
    frame, y = table(towns=np.array(names), names=np.array(names))
    columns = {"age": frame["age"].to_numpy(), "flag": frame["flag"].to_numpy()}
    town = [None if value != value else value for value in frame["town"]]  # noqa: PLR0124
    polars = pl.DataFrame({**columns, "town": pl.Series(town, dtype=pl.Enum(names))})
    model = fit(xgb.XGBRegressor(**SMALL, enable_categorical=True), polars, y)
    forest = read_model(model)
    assert_equal_scores(forest, polars, model.predict(polars, output_margin=True))
    assert_equal_scores(forest, polars[::-1], model.predict(polars[::-1], output_margin=True))


@pytest.mark.skipif(VERSION >= (3, 4), reason="XGBoost confuses no names any more")
def test_names_that_xgboost_confuses_are_refused() -> None:
    names = np.array(["éé", "aa", "bb"])
    frame, y = table(towns=names, names=names)
    model = fit(xgb.XGBRegressor(**SMALL, enable_categorical=True), frame, y)
    with pytest.raises(UnsupportedModelError, match="must have different names for its categories"):
        read_model(model)


def test_cut_names_with_the_same_length_are_refused() -> None:
    cut = (("é", "", ""), (1, 2, 2))
    assert codes_of_labels(cut, ["é"]) == [0]
    assert codes_of_labels(cut, ["xy"]) is None
    assert codes_of_labels((("é", ""), (1, 2)), ["xy", "é"]) == [1, 0]
    assert codes_of_labels((("é", ""), (1, 2)), ["xy", "zz"]) is None


# --- drawn models


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**31),
    n_features=st.integers(1, 5),
    depth=st.integers(1, 6),
    method=st.sampled_from(["hist", "exact", "approx"]),
    classes=st.sampled_from([1, 2, 3]),
    scale=st.sampled_from([1e-40, 1e-3, 1.0, 1e6, 1e37]),
)
def test_drawn_models(*, seed: int, n_features: int, depth: int, method: str, classes: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(80, n_features)) * scale).astype(np.float32).astype(float)
    X[rng.random(X.shape) < 0.2] = np.nan
    y = rng.integers(0, classes, 80) if classes > 1 else rng.normal(size=80)
    options = {"objective": {1: "reg:squarederror", 2: "binary:logistic", 3: "multi:softprob"}[classes]}
    if classes == 3:
        options["num_class"] = 3
    options |= {"tree_method": method, "max_depth": depth, "min_child_weight": 0, "nthread": 1}
    model = train(xgb, options, xgb.DMatrix(shifted(X), shifted(y)), 4)
    assert_exact(model, read_model(model), X, n_rows=300, seed=seed)


# --- refusals


@pytest.mark.parametrize("model", [xgb.XGBRegressor(), xgb.XGBClassifier(), xgb.XGBRanker(), xgb.Booster()])
def test_unfitted_models_are_refused(model) -> None:
    with pytest.raises(UnsupportedModelError, match="fit it first"):
        read_model(model)


def test_linear_boosters_are_refused(tmp_path) -> None:
    X, y = data(missing=0.0)
    model = train(xgb, {"booster": "gblinear"}, xgb.DMatrix(shifted(X), shifted(y)), 3)
    with pytest.raises(UnsupportedModelError, match="must be made of trees, got booster 'gblinear'"):
        read_model(model)
    model.save_model(tmp_path / "m.json")
    with pytest.raises(UnsupportedModelError, match="gblinear"):
        read_model(tmp_path / "m.json")


def test_objects_of_xgboost_that_are_no_models_are_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="must be a Booster or a wrapper, got DMatrix"):
        read_model(xgb.DMatrix(data()[0]))


def test_infinite_base_margins_are_refused() -> None:
    model, _ = booster("count:poisson", base_score=0.0, target=np.exp)
    with pytest.raises(UnsupportedModelError, match="finite base margin"):
        read_model(model)


def test_best_iteration_beyond_the_trees_is_refused() -> None:
    model, _ = regressor()
    model.get_booster().set_attr(best_iteration="99")
    with pytest.raises(UnsupportedModelError, match="best_iteration 99 of 12"):
        read_model(model)


def test_features_split_both_ways_are_refused() -> None:
    X, y = data(missing=0.0)
    X[:, 1] = np.arange(len(X)) % 7
    first = train(xgb, {"max_depth": 3}, xgb.DMatrix(shifted(X), shifted(y + X[:, 1])), 3)
    matrix = xgb.DMatrix(shifted(X), shifted(y + X[:, 1]), feature_types=["q", "c", "q", "q"])
    model = train(xgb, {"max_depth": 3}, matrix, 3, xgb_model=first)
    with pytest.raises(UnsupportedModelError, match="either by number or by category"):
        read_model(model)


# --- files


def document(name: str = "regression") -> dict:
    model = case(name)[0]
    raw = model if isinstance(model, xgb.Booster) else model.get_booster()
    return json.loads(raw.save_raw("json"))


def written(tmp_path, content) -> os.PathLike:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(content))
    return path


def test_wrapper_files_stop_at_the_best_iteration(tmp_path) -> None:
    """Those of a Booster do not, as Booster.predict does not."""
    model, _, forest = case("early stopped")
    model.get_booster().save_model(tmp_path / "m.ubj")
    assert read_model(tmp_path / "m.ubj").n_trees == model.get_booster().num_boosted_rounds()
    model.save_model(tmp_path / "m.ubj")
    assert read_model(tmp_path / "m.ubj").n_trees == forest.n_trees == model.best_iteration + 1


def test_older_files(tmp_path) -> None:
    """A scalar base score, no iteration_indptr, no category names, booleans."""
    content = document("early stopped classes")
    content["version"] = [1, 7, 0]
    content["learner"]["attributes"]["scikit_learn"] = "{}"
    content["learner"]["learner_model_param"]["base_score"] = "5E-1"
    model = content["learner"]["gradient_booster"]["model"]
    del model["iteration_indptr"], model["cats"]
    for tree in model["trees"]:
        tree["default_left"] = [bool(flag) for flag in tree["default_left"]]
        for key in ("split_type", "categories", "categories_nodes", "categories_segments", "categories_sizes"):
            del tree[key]
    forest = case("early stopped classes")[2]
    again = read_model(written(tmp_path, content))
    np.testing.assert_array_equal(again.intercept, [0.5] * 3)
    np.testing.assert_array_equal(again.values, forest.values)
    np.testing.assert_array_equal(again.bound, forest.bound)


def test_older_vector_leaves_are_refused(tmp_path) -> None:
    content = document("vector leaves")
    for tree in content["learner"]["gradient_booster"]["model"]["trees"]:
        del tree["leaf_weights"]
    with pytest.raises(UnsupportedModelError, match="vector leaves must be of version"):
        read_model(written(tmp_path, content))


def test_unknown_objectives_and_older_logitraw_are_refused(tmp_path) -> None:
    content = document()
    content["learner"]["objective"]["name"] = "reg:mystery"
    with pytest.raises(UnsupportedModelError, match="known objective, got 'reg:mystery'"):
        read_model(written(tmp_path, content))
    content["learner"]["objective"]["name"] = "binary:logitraw"
    content["version"] = [2, 0, 0]
    with pytest.raises(UnsupportedModelError, match="must be of version"):
        read_model(written(tmp_path, content))


def tree_edit(key: str, position: int, value):
    def edit(content) -> None:
        content["learner"]["gradient_booster"]["model"]["trees"][1][key][position] = value

    return edit


def parameter_edit(key: str, value):
    def edit(content) -> None:
        content["learner"]["learner_model_param"][key] = value

    return edit


def widen(content, code: int) -> None:
    """The root of the second tree splits on a category of a large code."""
    tree = content["learner"]["gradient_booster"]["model"]["trees"][1]
    tree["split_type"][0] = 1
    tree.update(categories=[code], categories_nodes=[0], categories_segments=[0], categories_sizes=[1])


DAMAGE = {
    "many categories": (lambda content: widen(content, 2**30), "codes of categories below 1048576, got 1073741824"),
    "some more categories": (lambda content: widen(content, 2**24), "codes of categories below 1048576, got 16777216"),
    "loop": (tree_edit("left_children", 1, 0), "must reach each node once, got a loop"),
    "beyond": (tree_edit("right_children", 0, 10**6), "right_children must be nodes of their tree, got 1000000"),
    "negative": (tree_edit("left_children", 0, -7), "left_children must be nodes of their tree, got -7"),
    "one child": (tree_edit("right_children", 0, -1), "right_children must be nodes of their tree, got -1"),
    "feature": (tree_edit("split_indices", 0, 4), "split_indices must be below 4, got 4"),
    "negative feature": (tree_edit("split_indices", 0, -1), "split_indices must be below 4, got -1"),
    "nan": (tree_edit("split_conditions", 0, float("nan")), "thresholds must be numbers, got NaN"),
    "below all": (tree_edit("split_conditions", 0, float("-inf")), "thresholds must be numbers above -inf, got -inf"),
    "nan leaf": (tree_edit("split_conditions", -1, float("nan")), "leaf values must be finite"),
    "huge leaf": (tree_edit("split_conditions", -1, 1e300), "leaf values must be finite"),
    "text": (tree_edit("split_conditions", 0, "abc"), "split_conditions must be a list of numbers, got <U32"),
    "null": (tree_edit("split_conditions", 0, None), "split_conditions must be a list of numbers, got object"),
    "list": (
        tree_edit("split_conditions", 0, [1]),
        r"must be an XGBoost model, got one that cannot be parsed \(ValueError",
    ),
    "fraction": (tree_edit("left_children", 0, 1.5), "left_children must be a list of integers, got float64"),
    "huge": (tree_edit("left_children", 0, 10**30), "left_children must be a list of integers, got object"),
    "type": (tree_edit("split_type", 0, 1), "must belong to the nodes that split on categories"),
    "direction": (tree_edit("default_left", 0, 2), "default_left must be 0 or 1, got 2"),
    "negative direction": (tree_edit("default_left", 0, -1), "default_left must be 0 or 1, got -1"),
    "kind": (tree_edit("split_type", 0, 2), "split_type must be 0 or 1, got 2"),
    "truth": (tree_edit("left_children", 0, True), "left_children must be a list of integers, got bool"),
    "tree lost": (
        lambda content: content["learner"]["gradient_booster"]["model"]["trees"].pop(),
        "must have 12 trees as num_trees says, got 11",
    ),
    "whole threshold": (tree_edit("split_conditions", 0, 2), "split_conditions must be a list of numbers, got int"),
    "more outputs": (
        lambda content: content["learner"]["gradient_booster"]["model"]["tree_info"].append(0),
        "tree_info must name one of 1 outputs for each of 12 trees",
    ),
    "half an output": (
        lambda content: content["learner"]["gradient_booster"]["model"]["tree_info"].__setitem__(0, 0.5),
        "tree_info must name one of 1 outputs for each of 12 trees",
    ),
    "iterations": (
        lambda content: content["learner"]["gradient_booster"]["model"]["iteration_indptr"].pop(0),
        "iteration_indptr must ascend from 0 to 12",
    ),
    "count": (parameter_edit("num_feature", "0_4"), "not a whole number: '0_4'"),
    "shorter": (
        lambda content: content["learner"]["gradient_booster"]["model"]["trees"][0]["default_left"].pop(),
        "default_left must have an entry per node",
    ),
    "no trees": (
        lambda content: content["learner"]["gradient_booster"]["model"].pop("trees"),
        r"got one that cannot be parsed \(KeyError: 'trees'",
    ),
    "tree is a list": (
        lambda content: content["learner"]["gradient_booster"]["model"]["trees"].__setitem__(0, []),
        r"got one that cannot be parsed \(TypeError",
    ),
    "empty tree": (
        lambda content: content["learner"]["gradient_booster"]["model"]["trees"][0].clear(),
        r"got one that cannot be parsed \(KeyError: 'left_children'",
    ),
    "no learner": (lambda content: content.pop("learner"), r"got one that cannot be parsed \(KeyError: 'learner'"),
    "learner": (lambda content: content.update(learner=3), r"got one that cannot be parsed \(AttributeError"),
    "tree_info": (
        lambda content: content["learner"]["gradient_booster"]["model"]["tree_info"].__setitem__(0, 5),
        "tree_info must name one of 1 outputs",
    ),
    "features": (parameter_edit("num_feature", "99999999999"), "1 to 1048576 features, got 99999999999"),
    "no features": (parameter_edit("num_feature", "0"), "1 to 1048576 features, got 0"),
    "classes": (parameter_edit("num_class", "99999999999"), "at most 65536 outputs, got 99999999999"),
    "some classes": (parameter_edit("num_class", "50"), "tree_info must name one of 50 outputs"),
    "negative classes": (parameter_edit("num_class", "-3"), "num_class must be 0 or more, got -3"),
    "base": (parameter_edit("base_score", "[1,2"), r"got one that cannot be parsed \(JSONDecodeError"),
    "bases": (
        parameter_edit("base_score", "[1,2]"),
        "base_score must have an entry for all or each of 1 outputs, got 2",
    ),
    "base text": (parameter_edit("base_score", '"x"'), "could not convert string to float: 'x'"),
    "names": (lambda content: content["learner"].update(feature_names=["a"]), "feature_names must be 4 texts"),
    "names of numbers": (
        lambda content: content["learner"].update(feature_names=[1, 2, 3, 4]),
        "feature_names must be 4 texts",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_documents_are_refused(name: str, tmp_path) -> None:
    edit, message = DAMAGE[name]
    content = document()
    edit(content)
    with pytest.raises((ModelFileError, UnsupportedModelError), match=message):
        reader.read_file(written(tmp_path, content))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "must start with a brace"),
        (b"binf\0\0\0\0", "must start with a brace"),
        (b'{"learner": ' + b"[" * 100_000, "must be an XGBoost model"),
        (b"{L" + b"\0" * 7 + b"\7learner" + b"[" * 100_000, "nested"),
        (b"{L" + b"\xff" * 8, "a length of"),
        (b"{L" + b"\0" * 7 + b"\1a[$d#L" + b"\0\0\0\0\xff\xff\xff\xff", "a length of"),
        (b"{L" + b"\0" * 7 + b"\1aZ}x", "follow the end"),
        (b"{L" + b"\0" * 7 + b"\1aZL" + b"\0" * 7 + b"\1aZ}", "occurs twice"),
        (b"{L\0", "end too early"),
        (b"{}", "must be an XGBoost model"),
    ],
)
def test_other_bytes_are_refused(data: bytes, words: str, tmp_path) -> None:
    (tmp_path / "m.ubj").write_bytes(data)
    with pytest.raises(ModelFileError, match=words):
        reader.read_file(tmp_path / "m.ubj")


def test_ubjson_of_all_types() -> None:
    data = b"{#i\x08i\1a[i\1U\xffI\xff\xfel\0\0\0\1]i\1bD" + np.array(1.5, ">f8").tobytes() + b"i\1cTi\1dFi\1eZ"
    data += b"i\1fSi\2hii\1g[$I#i\2\0\1\0\2i\1h{i\1kd" + np.array(0.5, ">f4").tobytes() + b"}"
    value = decode_ubjson(data)
    np.testing.assert_array_equal(value.pop("g"), [1, 2])
    expected = {"a": [1, 255, -2, 1], "b": 1.5, "c": True, "d": False, "e": None, "f": "hi", "h": {"k": 0.5}}
    assert value == expected


def test_files_need_no_xgboost(tmp_path) -> None:
    model, _, forest = case("binary")
    model.save_model(tmp_path / "m.ubj")
    code = (
        "import sys; sys.modules['xgboost'] = None\n"
        "from treeanova.readers import read_model\n"
        f"print(repr(read_model({str(tmp_path / 'm.ubj')!r}).score([[0.1, -0.2, 0.3, 0.4]]).item()))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(result.stdout) == forest.score([[0.1, -0.2, 0.3, 0.4]]).item()


@pytest.mark.parametrize("name", ["regression", "codes", "table"])
def test_schemas_can_be_saved(name: str) -> None:
    schema = table_model()[2].schema if name == "table" else case(name)[2].schema
    assert repr(restore(json.loads(json.dumps(describe(schema))))) == repr(schema)


def test_forests_can_be_pickled() -> None:
    _, frame, forest = table_model()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(forest)).score(frame), forest.score(frame))
