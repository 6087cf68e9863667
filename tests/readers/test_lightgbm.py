"""LightGBM's own predictions and leaf numbers are the oracle, on rows that sit on and around every threshold."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import training
from tests.support.edge_values import numeric_rows
from tests.support.training import fit, shifted
from treeanova import decompose
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.forest import NEAR_ZERO
from treeanova.model.grid import grid_of
from treeanova.readers import read_model
from treeanova.readers.lightgbm import read, read_file

lgb = pytest.importorskip("lightgbm")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

BASE = {"verbose": -1, "num_threads": 1, "num_leaves": 8, "min_data_in_leaf": 3, "deterministic": True, "seed": 1}
CATEGORY = {"min_data_per_group": 2, "cat_smooth": 1, "cat_l2": 1, "max_cat_to_onehot": 2}
RF = {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1}
ODD_CODES = [-0.0, 0.5, -0.5, -0.999, 2.9, -1, -1.5, -7, 31, 32, 33, 63.5, 1000, 3e9, 1e300, np.inf, -np.inf, 1e-40]

VERSION = tuple(int(part) for part in lgb.__version__.split(".")[:2])
# Said by older versions of their estimators, for matrices in place of the same matrices.
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")


def training_rows(n_rows=400, seed=0):
    """Six features: NaN, many zeros, integers, tiny numbers, category codes with NaN, infinities."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, 6))
    x[rng.random(n_rows) < 0.2, 0] = np.nan
    x[rng.random(n_rows) < 0.4, 1] = 0.0
    x[:, 2] = rng.integers(-3, 4, n_rows)
    x[:, 3] = rng.normal(size=n_rows) * 10.0 ** rng.integers(-37, -33, n_rows)
    x[:, 4] = rng.integers(0, 45, n_rows)
    x[rng.random(n_rows) < 0.1, 4] = np.nan
    x[rng.random(n_rows) < 0.1, 5] = np.inf
    x[rng.random(n_rows) < 0.1, 5] = -np.inf
    return x


def targets(x, seed=1):
    rng = np.random.default_rng(seed)
    z = np.nan_to_num(x, posinf=3, neginf=-3)
    lift = np.isnan(x[:, 0]) + (x[:, 1] == 0) + np.isin(x[:, 4], [0, 3, 17, 35, 36, 44]) + (z[:, 3] > 0)
    y = z[:, 0] * z[:, 2] + lift + z[:, 5] + np.sin(z[:, 1]) + rng.normal(size=len(x)) * 0.2
    return {
        "real": y,
        "positive": np.exp(y / 4),
        "binary": (y > np.median(y)) * 1.0,
        "three": np.digitize(y, np.quantile(y, [0.3, 0.7])),
    }


X = training_rows()
Y = targets(X)


def train(params, target="real", rounds=10, x=X, categories=(4,), **kwargs):
    label = Y[target] if isinstance(target, str) else target
    data = lgb.Dataset(
        shifted(x), shifted(label), categorical_feature=list(categories), group=kwargs.pop("group", None)
    )
    return training.train(lgb, {**BASE, **CATEGORY, **params}, data, rounds, **kwargs)


def adversarial(forest, seed=2, n_rows=1500, base=X):
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):  # bounds at the largest float have infinite neighbours
        rows = numeric_rows(forest, rng, n_rows, base=base)
    for j, feature in enumerate(forest.schema.features):
        if feature.is_category:
            odd = rng.random(n_rows) < 0.3
            rows[odd, j] = rng.choice([*ODD_CODES, np.nan], odd.sum())
    return rows


def raw_score(booster, rows):
    """What `predict` passes to the link: the sum of the trees, for random forests their mean."""
    score = booster.predict(rows, raw_score=True).reshape(len(rows), -1)
    is_mean = "\naverage_output\n" in booster.model_to_string()
    return score / booster.num_trees() * score.shape[1] if is_mean else score


def check_data(forest, booster, ours, theirs):
    np.testing.assert_array_equal(forest.leaf_ids(ours), booster.predict(theirs, pred_leaf=True).reshape(len(ours), -1))
    expected = raw_score(booster, theirs)
    np.testing.assert_allclose(forest.score(ours), expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


def check_grid(forest, rows):
    """Rows in the same bins reach the same leaves."""
    codes, leaves = grid_of(forest).index(rows), forest.leaf_ids(rows)
    _, first, group = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(leaves, leaves[first][group.ravel()])
    # One feature at a time, so that groups are large: all else is equal to the first row.
    for j, axis in enumerate(grid_of(forest).axes):
        single = np.repeat(rows[:1], len(rows), axis=0)
        single[:, j] = rows[:, j]
        bins, leaves = grid_of(forest).index(single)[:, j], forest.leaf_ids(single)
        assert bins.max() < axis.size
        _, first, group = np.unique(bins, return_index=True, return_inverse=True)
        np.testing.assert_array_equal(leaves, leaves[first][group])


def check(model, **kwargs):
    forest = read(model)
    rows = adversarial(forest, **kwargs)
    check_data(forest, getattr(model, "booster_", model), rows, rows)
    check_grid(forest, rows)
    return forest


CONFIGURATIONS = {
    "plain": {},
    "no categories": {"categories": ()},
    "zero as missing": {"zero_as_missing": True},
    "missing not used": {"use_missing": False},
    "one-hot categories": {"max_cat_to_onehot": 100},
    "few bins": {"max_bin": 7},
    "deep": {"num_leaves": 60, "min_data_in_leaf": 1},
    "dart": {"boosting": "dart", "drop_rate": 0.5},
    "goss": {"data_sample_strategy": "goss"},
    "rf": RF,
    "rf l1": {**RF, "objective": "regression_l1"},
    "extra trees": {"extra_trees": True},
    "no start": {"boost_from_average": False},
    "start of l1": {"objective": "regression_l1", "categories": ()},
    "monotone": {"monotone_constraints": [1, 0, 0, 0, 0, 0], "categories": ()},
    "quantized": {"use_quantized_grad": True},
    "path smooth": {"path_smooth": 2.0},
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_trees_decide_as_lightgbm_does(name):
    params = dict(CONFIGURATIONS[name])
    check(train(params, categories=params.pop("categories", (4,))))


@pytest.mark.parametrize("zero_as_missing", [False, True])
@pytest.mark.parametrize("use_missing", [False, True])
def test_missing_types_are_covered(zero_as_missing, use_missing):
    """The data above really bring out each missing type, and thresholds next to zero."""
    text = train({"zero_as_missing": zero_as_missing, "use_missing": use_missing}, rounds=30).model_to_string()
    splits = [
        (int(d), float(t))
        for block in text.split("\nTree=")[1:]
        for d, t in zip(field(block, "decision_type"), field(block, "threshold"), strict=True)
    ]
    kinds = {d >> 2 for d, _ in splits if not d & 1}
    assert kinds == ({0} if not use_missing else {1} if zero_as_missing else {0, 2})
    assert any(d & 1 for d, _ in splits)
    assert any(0 < abs(t) <= NEAR_ZERO for d, t in splits if not d & 1)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_thresholds_at_the_ends_of_the_floats(value):
    """A split of one special value from all others has an infinite or the largest threshold."""
    x = np.where(np.random.default_rng(0).random((400, 1)) < 0.5, value, X[:, 1:2])
    forest = check(train({}, (x[:, 0] != X[:, 1]) + 0.1 * X[:, 1], x=x, categories=()), base=x)
    assert value == np.inf or (np.abs(forest.bound[forest.feature == 0]) > 1e300).any()


def field(block, key):
    return next(line for line in block.split("\n") if line.startswith(f"{key}=")).partition("=")[2].split()


def test_missing_types_mixed_by_continued_training():
    booster = None
    for missing in ({"use_missing": False}, {"zero_as_missing": True}, {}):
        booster = train({**missing, "learning_rate": 0.3}, rounds=5, init_model=booster)
    forest = check(booster)
    assert forest.n_trees == 15
    at_zeros = forest.feature == 1
    assert len(np.unique(forest.zero_missing[at_zeros])) == 2


def test_missing_goes_its_way_at_category_splits_of_each_missing_type():
    x = np.column_stack([X[:, 4], X[:, 1]])
    for missing in ({}, {"zero_as_missing": True}, {"use_missing": False}):
        for with_nan in (True, False):
            rows = x if with_nan else np.nan_to_num(x)
            booster = train({**missing, "num_leaves": 3}, x=rows, categories=(0,))
            assert (read(booster).category_start >= 0).any()
            check(booster, base=rows)


ZEROS = [0.0, -0.0, 1e-36, -1e-36, 5e-324, NEAR_ZERO, -NEAR_ZERO]
THRESHOLDS = [
    *ZEROS,
    *np.nextafter(ZEROS, 1),
    *np.nextafter(ZEROS, -1),
    1.5,
    -1.5,
    np.inf,
    -np.inf,
    1.7976931348623157e308,
]


def stumps_text():
    """A model of one split per tree: all missing types and directions × thresholds that training may not give."""
    splits = [(decision, t, "num_cat=0\n") for decision in range(0, 12, 2) for t in THRESHOLDS]
    sets = "num_cat=1\ncat_boundaries=0 2\ncat_threshold=9 1\n"
    splits += [(decision, 0, sets) for decision in range(1, 12, 2)]
    header = "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\nmax_feature_idx=1\n"
    header += "objective=regression\nfeature_names=a b\nfeature_infos=[-1:1] 0:3:32\n"
    trees = [
        f"Tree={i}\nnum_leaves=2\n{sets}split_feature={d & 1}\nsplit_gain=1\nthreshold={t!r}\ndecision_type={d}\n"
        f"left_child=-1\nright_child=-2\nleaf_value=-{2.0**-i!r} {2.0**-i!r}\nleaf_weight=1 1\nleaf_count=1 1\n"
        "internal_value=0\ninternal_weight=2\ninternal_count=2\nis_linear=0\nshrinkage=1\n\n\n"
        for i, (d, t, sets) in enumerate((d, float(t) if not d & 1 else 0, sets) for d, t, sets in splits)
    ]
    return "\n".join([header, *trees]) + "end of trees\n\nparameters:\n\nend of parameters\n\npandas_categorical:null\n"


def test_every_kind_of_split(tmp_path):
    booster = lgb.Booster(model_str=stumps_text())
    base = np.column_stack([np.resize([*THRESHOLDS, np.nan], 300), np.resize([0, 3, 32, 1, 33], 300)])
    check(booster, base=base)
    forest = read_file(written(tmp_path, stumps_text()))
    rows = adversarial(forest, base=base)
    check_data(forest, booster, rows, rows)
    assert booster.num_trees() == forest.n_trees == 6 * len(THRESHOLDS) + 6


OBJECTIVES = {
    "regression": ("real", {}, "identity"),
    "regression_l1": ("real", {}, "identity"),
    "huber": ("real", {}, "identity"),
    "fair": ("real", {}, "identity"),
    "quantile": ("real", {}, "identity"),
    "mape": ("real", {}, "identity"),
    "poisson": ("positive", {}, "log"),
    "gamma": ("positive", {}, "log"),
    "tweedie": ("positive", {}, "log"),
    "binary": ("binary", {}, "logit"),
    "cross_entropy": ("binary", {}, "logit"),
    "multiclass": ("three", {"num_class": 3}, "softmax"),
    "multiclassova": ("three", {"num_class": 3}, "logit"),
}
RESPONSES = {
    "identity": lambda s: s,
    "log": np.exp,
    "logit": scipy.special.expit,
    "softmax": lambda s: scipy.special.softmax(s, axis=1),
}


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("boosting", [{}, RF], ids=["gbdt", "rf"])
def test_links_turn_scores_into_predictions(objective, boosting):
    target, params, link = OBJECTIVES[objective]
    booster = train({"objective": objective, **params, **boosting}, target)
    forest = check(booster, n_rows=400)
    assert forest.schema.link == link
    response = RESPONSES[link](forest.score(X))
    np.testing.assert_allclose(response, booster.predict(X).reshape(len(X), -1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("target", "params"),
    [
        ("real", {"objective": "regression", "reg_sqrt": True}),
        ("binary", {"objective": "binary", "sigmoid": 2.5}),
        ("three", {"objective": "multiclassova", "num_class": 3, "sigmoid": 0.5}),
        ("binary", {"objective": "cross_entropy_lambda"}),
    ],
)
def test_links_without_a_name(target, params):
    assert check(train(params, target), n_rows=400).schema.link == "other"


@pytest.mark.parametrize("objective", ["lambdarank", "rank_xendcg"])
def test_ranking(objective):
    assert check(train({"objective": objective}, "three", group=[100] * 4)).schema.link == "identity"


def test_custom_objectives_give_raw_scores():
    def squares(predicted, data):
        return predicted.ravel() - np.tile(data.get_label(), predicted.size // 400), np.ones(predicted.size)

    assert check(train({"objective": squares})).schema.link == "identity"
    forest = check(train({"objective": squares, "num_class": 3}, "three"))
    assert (forest.schema.link, forest.n_outputs) == ("identity", 3)


def test_estimators():
    options = {"n_estimators": 8, "n_jobs": 1, "verbose": -1, "num_leaves": 6}
    names = np.array(["low", "middle", "high"])[Y["three"]]
    classifier = fit(lgb.LGBMClassifier(**options), X, names)
    forest = check(classifier)
    assert forest.schema.outputs == ("high", "low", "middle")
    np.testing.assert_allclose(
        scipy.special.softmax(forest.score(X), axis=1), classifier.predict_proba(X), rtol=1e-12, atol=1e-12
    )
    binary = fit(lgb.LGBMClassifier(**options), X, names == "low")
    assert check(binary).schema.outputs == ("score",)
    np.testing.assert_allclose(scipy.special.expit(read(binary).score(X))[:, 0], binary.predict_proba(X)[:, 1])
    check(fit(lgb.LGBMRegressor(**options), X, Y["real"], categorical_feature=[4]))
    check(fit(lgb.LGBMRanker(**options), X, Y["three"], group=[200, 200]))


@pytest.mark.filterwarnings("ignore:The argument 'eval_set'")  # its successor is not in older versions
def test_early_stopping_uses_the_best_iteration():
    valid = lgb.Dataset(shifted(training_rows(seed=5)), shifted(targets(training_rows(seed=5), seed=6)["real"] + 3))
    stop = lgb.early_stopping(3, verbose=False)
    data = {"valid_sets": [valid], "callbacks": [stop]}
    booster = train({"learning_rate": 0.9}, rounds=60, keep_training_booster=True, **data)
    assert 0 < booster.best_iteration < booster.num_trees()
    assert check(booster).n_trees == booster.best_iteration
    model = lgb.LGBMRegressor(n_estimators=60, learning_rate=0.9, n_jobs=1, verbose=-1)
    fit(model, X, Y["real"], eval_set=[(X[:50], -Y["real"][:50])], callbacks=[stop])
    assert check(model).n_trees == model.best_iteration_ < 60


def test_trees_of_one_leaf():
    booster = train({"min_data_in_leaf": 300, "objective": "multiclass", "num_class": 3}, "three", rounds=2)
    assert check(booster).n_leaves == booster.num_trees() > 0
    # Of three classes, one that no row has is constant: trees with and without splits side by side.
    booster = train({"objective": "multiclassova", "num_class": 3}, Y["binary"] * 2, rounds=4)
    forest = check(booster)
    assert forest.n_leaves > forest.n_trees


def test_a_model_without_trees_scores_zero():
    booster = lgb.Booster(BASE, lgb.Dataset(shifted(X), shifted(Y["real"])))
    forest = read(booster)
    assert forest.n_trees == 0
    np.testing.assert_array_equal(forest.score(X)[:, 0], booster.predict(X))
    assert grid_of(forest).sizes == (1,) * 6


def test_leaf_values_changed_by_hand_or_refitted():
    booster = train({})
    booster.set_leaf_output(0, 0, 17.5)
    check(booster)
    check(booster.refit(X, Y["real"] * 2, decay_rate=0.3))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 1000),
    n_leaves=st.integers(2, 20),
    boosting=st.sampled_from([{}, RF, {"boosting": "dart"}]),
    missing=st.sampled_from([{}, {"zero_as_missing": True}, {"use_missing": False}]),
    kind=st.sampled_from([("real", {}), ("three", {"objective": "multiclass", "num_class": 3})]),
    categories=st.sampled_from([(), (4,), (2, 4)]),
)
def test_drawn_models(seed, n_leaves, boosting, missing, kind, categories):  # noqa: PLR0917
    x = training_rows(150, seed)
    params = {"num_leaves": n_leaves, **boosting, **missing, **kind[1]}
    if 2 in categories:
        x[:, 2] += 3
    booster = train(params, targets(x, seed)[kind[0]], x=x, categories=categories, rounds=4)
    check(booster, n_rows=500, base=x, seed=seed)


# ---------------------------------------------------------------------------------------------------------------------
# Data


def test_sparse_rows_have_zeros_where_nothing_is_stored():
    rows = np.nan_to_num(X, nan=0.0)
    booster = train({"zero_as_missing": True}, x=rows)
    sparse = scipy.sparse.csr_matrix(rows)
    forest = read(booster)
    np.testing.assert_array_equal(forest.leaf_ids(sparse), booster.predict(sparse, pred_leaf=True))


def test_large_codes_cost_no_more_than_small_ones():
    codes = np.array([5, 70_000, 1_000_003, 2_000_000])
    x = np.column_stack([codes[np.random.default_rng(0).integers(0, 4, 400)], X[:, 1]])
    booster = train({}, np.isin(x[:, 0], codes[[1, 2]]) + X[:, 1], x=x, categories=(0,))
    forest = check(booster, base=x)
    assert forest.schema.features[0].encoder.labels == tuple(codes)
    assert len(forest.category_left) < 500


def table(seed=0, n_rows=400):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"number": rng.normal(size=n_rows)})
    frame["word"] = pd.Categorical(rng.choice(["red", "green", "blüe", "x y"], n_rows))
    frame["whole"] = pd.Categorical(rng.choice([10, 20, 35, 7], n_rows))
    frame["int8"] = rng.integers(0, 5, n_rows).astype(np.int8)
    frame["yes"] = pd.Categorical(rng.random(n_rows) < 0.3)
    frame["nullable"] = pd.array(rng.integers(0, 9, n_rows), dtype="Int64")
    frame["flag"] = pd.array(rng.random(n_rows) < 0.5, dtype="boolean")
    return frame.mask(rng.random(frame.shape) < np.array([0.1, 0.1, 0.1, 0, 0.1, 0.1, 0.1]))


def table_target(frame):
    parts = [frame["word"].isin(["red", "x y"]), frame["whole"].isin([20, 7]), frame["yes"] == True]  # noqa: E712
    numbers = frame["nullable"].astype(float).fillna(4).to_numpy() / 4 + frame["number"].fillna(0).to_numpy()
    return numbers + sum(part.fillna(value=False).to_numpy(dtype=float) for part in parts)


def train_table(frame, **params):
    y = table_target(frame)
    options = {**BASE, **CATEGORY, "cat_smooth": 0, **params}
    return training.train(lgb, options, lgb.Dataset(shifted(frame), shifted(y)), 12)


def test_pandas_tables_with_categories():
    frame = table()
    booster = train_table(frame)
    forest = read(booster)
    assert forest.schema.named
    assert [f.is_category for f in forest.schema.features] == [False, True, True, False, True, False, False]
    used = {int(j) for j in forest.feature[forest.category_start >= 0]}
    assert used == {1, 2, 4}
    check_data(forest, booster, frame, frame)
    check_data(forest, booster, frame[frame.columns[::-1]].assign(more="more"), frame)


def test_pandas_categories_are_matched_by_label_not_by_code():
    booster = train_table(table())
    other = table(seed=3)
    other["word"] = other["word"].cat.set_categories(["violet", "x y", "green", "blüe", "red"])
    other.loc[:40, "word"] = "violet"
    other["whole"] = other["whole"].cat.set_categories([1, 35, 10, 0, 7, 20])
    other.loc[30:60, "whole"] = 0
    check_data(read(booster), booster, other, other)


def test_other_tables_give_the_same_scores():
    frame = table()
    booster = train_table(frame)
    forest = read(booster)
    polar = pl.from_pandas(frame.astype({"word": "string", "whole": "string", "yes": "boolean"}))
    polar = polar.with_columns(pl.col("word").cast(pl.Categorical), pl.col("whole").cast(pl.Float64).cast(pl.Int64))
    with pytest.raises(TypeError, match="column 'whole' must hold categories, got plain numbers"):
        forest.score(polar)
    objects = frame.astype({"word": object, "whole": object, "yes": object})
    check_data(forest, booster, objects[objects.columns[::-1]], frame)


def test_polars_categories():
    frame = table()[["number", "word", "yes"]]
    booster = training.train(lgb, {**BASE, **CATEGORY}, lgb.Dataset(shifted(frame), shifted(table_target(table()))), 12)
    polar = pl.from_pandas(frame.astype({"word": "string", "yes": "boolean"}))
    words = ["x y", "red", "green", "never", "blüe"]
    for kind in (pl.String, pl.Categorical, pl.Enum(words)):
        check_data(
            read(booster), booster, polar.with_columns(pl.col("word").cast(kind)).select("yes", "word", "number"), frame
        )


@pytest.mark.skipif(VERSION < (4, 7), reason="LightGBM keeps no names of these tables")
def test_polars_and_arrow_tables_without_categories():
    pa = pytest.importorskip("pyarrow")
    x = np.nan_to_num(X, nan=np.nan, posinf=9, neginf=-9)
    names = [f"f{j}" for j in range(6)]
    polar = pl.DataFrame(x, schema=names).with_columns(pl.col("f0").fill_nan(None))
    booster = training.train(lgb, BASE, lgb.Dataset(shifted(polar), shifted(Y["real"])), 10)
    forest = read(booster)
    assert forest.schema.names == tuple(names)
    expected = booster.predict(x, raw_score=True)
    for data in (polar, polar.select(names[::-1]), pa.table(dict(zip(names, x.T, strict=True))), x):
        np.testing.assert_allclose(forest.score(data)[:, 0], expected, rtol=1e-12, atol=1e-12)


def test_arrays_of_codes_for_a_model_of_text_categories():
    frame = table()[["number", "word"]]
    booster = training.train(lgb, {**BASE, **CATEGORY}, lgb.Dataset(shifted(frame), shifted(table_target(table()))), 12)
    codes = np.column_stack([frame["number"], frame["word"].cat.codes]).astype(float)
    codes[:60, 1] = np.resize(ODD_CODES, 60)
    check_data(read(booster), booster, codes, codes)


def test_numbers_in_arrays_of_objects_are_codes_as_in_arrays_of_floats():
    frame = table()[["number", "whole"]].dropna()
    y = shifted(table_target(table())[frame.index])
    booster = training.train(lgb, {**BASE, **CATEGORY}, lgb.Dataset(shifted(frame), y), 12)
    codes = np.column_stack([frame["number"], frame["whole"].cat.codes])
    for rows in (codes.astype(float), codes.astype(object)):  # labels are numbers, too: which of the two is open
        with pytest.raises(TypeError, match=r"'whole' must hold categories, got plain numbers .* codes or labels"):
            read(booster).score(rows)


def test_text_for_labels_that_are_numbers_is_refused(tmp_path):
    """All rows would be unseen without a word."""
    frame = table()[["number", "whole"]].dropna()
    y = shifted(table_target(table())[frame.index])
    booster = training.train(lgb, {**BASE, **CATEGORY}, lgb.Dataset(shifted(frame), y), 12)
    text = frame.assign(whole=frame["whole"].astype(str))
    text.to_parquet(tmp_path / "rows.parquet")
    for rows in (text, text.astype({"whole": "category"}), pl.from_pandas(text), tmp_path):
        with pytest.raises(TypeError, match=r"'whole' must hold labels of the type that the model knows, got '-?\d+'"):
            decompose(booster, rows, density="empirical")


def test_numbers_for_labels_that_spell_numbers_are_refused_in_tables():
    """In arrays they are codes, as for LightGBM."""
    frame = table()[["number", "whole"]].dropna()
    y = shifted(table_target(table())[frame.index])
    words = frame.assign(whole=frame["whole"].astype(str).astype("category"))
    booster = training.train(lgb, {**BASE, **CATEGORY}, lgb.Dataset(shifted(words), y), 12)
    with pytest.raises(TypeError, match=r"'whole' must hold categories, got plain numbers .* codes or labels"):
        read(booster).score(frame.astype({"whole": int}))
    codes = np.column_stack([words["number"], words["whole"].cat.codes]).astype(float)
    check_data(read(booster), booster, codes, codes)


def test_ordered_categories_are_numbers():
    frame = table()[["number", "word", "whole"]]
    frame["word"] = frame["word"].cat.as_ordered()
    y = table_target(table())
    booster = training.train(lgb, {**BASE, **CATEGORY}, lgb.Dataset(shifted(frame), shifted(y)), 12)
    forest = read(booster)
    assert [f.is_category for f in forest.schema.features] == [False, False, True]
    assert (forest.feature == 1).any()
    check_data(forest, booster, frame, frame)
    other = frame.assign(word=frame["word"].cat.rename_categories({"red": "unknown"}))
    check_data(forest, booster, other, other)


def test_categories_that_are_not_declared_are_numbers():
    frame = table()[["number", "word", "whole"]]
    booster = training.train(
        lgb,
        {**BASE, **CATEGORY},
        lgb.Dataset(shifted(frame), shifted(table_target(table())), categorical_feature=["whole"]),
        12,
    )
    forest = read(booster)
    assert [f.is_category for f in forest.schema.features] == [False, False, True]
    check_data(forest, booster, frame, frame)


def test_category_columns_that_cannot_be_told_are_refused():
    frame = table()[["number", "word", "int8"]].assign(word=lambda f: f["word"].cat.as_ordered())
    frame["int8"] = frame["int8"].clip(0, 2)
    booster = training.train(lgb, BASE, lgb.Dataset(shifted(frame), shifted(table_target(table()))), 3)
    with pytest.raises(UnsupportedModelError, match="does not tell which they are"):
        read(booster)


def test_category_columns_never_split_on_still_take_labels():
    frame = table()[["number", "word"]].assign(constant=pd.Categorical(["a"] * 400), empty=pd.Categorical([None] * 400))
    booster = training.train(
        lgb, {**BASE, "feature_pre_filter": False}, lgb.Dataset(shifted(frame), shifted(table_target(table()))), 3
    )
    check_data(read(booster), booster, frame, frame)


def test_categories_that_lightgbm_cannot_write_are_refused():
    frame = pd.DataFrame({"cut": pd.cut(X[:, 2], 3), "x": X[:, 1]})
    booster = training.train(lgb, BASE, lgb.Dataset(shifted(frame), shifted(Y["real"])), 2, keep_training_booster=True)
    with pytest.raises(UnsupportedModelError, match="must be one that LightGBM can save"):
        read(booster)


def test_names():
    unnamed = read(train({})).schema
    assert (unnamed.names, unnamed.named) == (("x0", "x1", "x2", "x3", "x4", "x5"), False)
    names = ["Tree=0", "é", "\u2028", "end", "a\x85b", "a=b"]
    frame = pd.DataFrame(X, columns=names)
    booster = training.train(lgb, BASE, lgb.Dataset(shifted(frame), shifted(Y["real"])), 3)
    forest = read(booster)
    assert forest.schema.names == tuple(names)
    check_data(forest, booster, frame[names[::-1]], frame)


def test_names_with_blanks_are_spelled_as_in_the_model():
    frame = pd.DataFrame(X[:, :2], columns=["a b", "c"])
    booster = training.train(lgb, BASE, lgb.Dataset(shifted(frame), shifted(Y["real"])), 3)
    assert read(booster).schema.names == ("a_b", "c")


# ---------------------------------------------------------------------------------------------------------------------
# Refusals


def test_linear_leaves_are_refused():
    booster = train({"linear_tree": True}, x=np.nan_to_num(X, posinf=3, neginf=-3))
    with pytest.raises(UnsupportedModelError, match="linear_tree=True"):
        read(booster)


@pytest.mark.parametrize("name", ["LGBMRegressor", "LGBMClassifier", "LGBMRanker"])
def test_estimators_must_be_fitted(name):
    with pytest.raises(UnsupportedModelError, match=f"got a new {name}; fit it first"):
        read(getattr(lgb, name)())


def test_other_objects_are_refused():
    with pytest.raises(UnsupportedModelError, match="got Dataset"):
        read(lgb.Dataset(X))
    folds = lgb.cv(
        training.seeded(BASE),
        lgb.Dataset(shifted(X), shifted(Y["real"])),
        2,
        nfold=2,
        stratified=False,
        return_cvbooster=True,
    )["cvbooster"]
    with pytest.raises(UnsupportedModelError, match="pass one of its `boosters`"):
        read(folds)
    early = fit(lgb.LGBMClassifier(n_estimators=2, n_jobs=1, verbose=-1, pred_early_stop=True), X, Y["binary"])
    with pytest.raises(UnsupportedModelError, match="pred_early_stop"):
        read(early)
    check(early.booster_)


def test_a_feature_of_two_kinds_is_refused():
    first = train({}, rounds=3, categories=(4,))
    both = training.train(
        lgb,
        {**BASE, "num_leaves": 30},
        lgb.Dataset(shifted(X), shifted(Y["real"] + X[:, 4].clip(0, 9)), free_raw_data=False),
        3,
        init_model=first,
    )
    with pytest.raises(UnsupportedModelError, match="splits feature 4 as a number in some trees and as a category"):
        read(both)


# ---------------------------------------------------------------------------------------------------------------------
# Files


@pytest.fixture(scope="module")
def texts():
    """Texts of small models of each kind."""
    frame = table(n_rows=200)
    return [
        train({"num_leaves": 4}, rounds=4).model_to_string(),
        train({"num_leaves": 3, "objective": "multiclass", "num_class": 3, **RF}, "three", rounds=2).model_to_string(),
        training.train(
            lgb, {**BASE, **CATEGORY}, lgb.Dataset(shifted(frame), shifted(table_target(frame))), 3
        ).model_to_string(),
    ]


def written(tmp_path, text):
    path = tmp_path / "model.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_files_are_read_like_models(tmp_path):
    booster = train({"objective": "multiclass", "num_class": 3}, "three")
    booster.save_model(tmp_path / "model.txt")
    forest, rows = read_model(tmp_path / "model.txt"), adversarial(read(booster))
    check_data(forest, booster, rows, rows)
    assert forest.schema == read(booster).schema
    assert forest.schema.outputs == ("0", "1", "2")
    windows = written(tmp_path, booster.model_to_string().replace("\n", "\r\n"))
    np.testing.assert_array_equal(read_file(windows).score(rows), forest.score(rows))


def test_files_of_tables(tmp_path):
    frame = table()
    booster = train_table(frame)
    booster.save_model(tmp_path / "model.txt")
    check_data(read_file(tmp_path / "model.txt"), booster, frame, frame)


def test_files_are_read_without_lightgbm(tmp_path, texts):
    code = (
        "import sys; sys.modules['lightgbm'] = None; sys.modules['pandas'] = None\n"
        "from treeanova.readers import read_model; print(read_model(sys.argv[1]).n_trees)"
    )
    run = [sys.executable, "-c", code, str(written(tmp_path, texts[0]))]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "4\n"


def changed(text, key, value, count=1):
    """The text with another value for a field where it first stands."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if line.startswith(f"{key}=") and count:
            lines[i], count = f"{key}={value}", count - 1
    return "\n".join(lines)


def resized(text):
    """The text with `tree_sizes` for its trees."""
    body = text.partition("\nend of trees\n")[0] if isinstance(text, str) else ""
    return changed(text, "tree_sizes", " ".join(str(len(f"Tree={b}\n".encode())) for b in body.split("\nTree=")[1:]))


BAD_FILES = {
    "empty": (lambda t: "", "must start with the line 'tree'"),
    "another format": (lambda t: "{}", "must start with the line 'tree'"),
    "not text": (lambda t: t.encode() + b"\xff\xfe", "cannot be parsed"),
    "half": (lambda t: t[: t.index("Tree=2")], "end of trees"),
    "tree lost": (lambda t: t[: t.index("Tree=2")] + t[t.index("Tree=3") :], "must have 4 trees"),
    "another tree": (lambda t: t.replace("\nTree=2\n", "\nTree=3\n"), r"tree 2 must have \d+ bytes .* of tree 3"),
    "another size": (lambda t: t.replace("\nshrinkage=1\n", "\nshrinkage=10\n"), r"tree 0 must have \d+ bytes"),
    "a line twice": (lambda t: resized(re.sub(r"\n(num_cat=\d+)\n", r"\n\1\n\1\n", t, count=1)), "got one twice"),
    "no value": (lambda t: t.replace("\n\n\nTree=1", "\n\x0e\nTree=1"), r"must be names and values, got '\\x0e'"),
    "no parameters": (lambda t: t[: t.index("\nparameters:")], "must end with the line 'end of parameters' or with"),
    "blank end": (lambda t: t[: t.index("pandas_categorical")], "must end with the line 'end of parameters' or with"),
    "half a word": (lambda t: t[: t.index("_categorical:")], "must end with the line 'end of parameters' or with"),
    "no labels": (lambda t: t[: t.index("null")], "cannot be parsed"),
    "underscore": (lambda t: resized(changed(t, "leaf_value", "1_0 2 3 4")), "`leaf_value` must be numbers, got '1_0"),
    "other digits": (lambda t: resized(changed(t, "split_feature", "0 1 ٢")), "`split_feature` must be numbers"),
    "count": (lambda t: changed(t, "num_tree_per_iteration", "1_0"), "not a whole number: '1_0'"),
    "old version": (lambda t: changed(t, "version", "v2"), "version must be one of v3, v4, got 'v2'"),
    "huge tree": (lambda t: resized(changed(t, "num_leaves", 10**12)), "must have 999999999999 entries"),
    "huger tree": (lambda t: resized(changed(t, "num_leaves", 10**30)), "cannot be parsed"),
    "no leaves": (lambda t: resized(changed(t, "num_leaves", 0)), "must have leaves, got 0"),
    "outputs": (lambda t: changed(t, "num_tree_per_iteration", 10**9), "as many trees for each"),
    "no output": (lambda t: changed(t, "num_tree_per_iteration", 0), "must be positive"),
    "features": (lambda t: changed(t, "max_feature_idx", 10**9), "1000000001 different names"),
    "feature": (lambda t: resized(changed(t, "split_feature", "0 1 6")), "must split on 6 features, got 6"),
    "same names": (lambda t: changed(t, "feature_names", "a a b c d e"), "different names"),
    "loop": (lambda t: resized(changed(changed(t, "left_child", "1 0 2"), "right_child", "-1 -2 -3")), "a loop"),
    "child": (lambda t: resized(changed(t, "left_child", "1 2 3")), "must link nodes that exist"),
    "leaf": (lambda t: resized(changed(t, "left_child", "1 2 -5")), "must link nodes that exist"),
    "leaf value": (lambda t: resized(changed(t, "leaf_value", "1 2 nan 4")), "leaf values must be finite"),
    "threshold": (lambda t: resized(changed(t, "threshold", "nan nan nan")), "must"),
    "decision": (lambda t: resized(changed(t, "decision_type", "2 16 2")), "decision types must be 0 to 11, got 16"),
    "no number": (lambda t: resized(changed(t, "leaf_value", "1 2 e 4")), "cannot be parsed"),
    "objective": (lambda t: changed(t, "objective", "multiclass num_class:3"), "cannot have 1 outputs"),
    "infos": (lambda t: changed(t, "feature_infos", "none none"), "must have 6 entries"),
    "labels": (lambda t: t.replace("pandas_categorical:null", 'pandas_categorical:{"a": 1}'), "must list labels"),
    "bomb": (lambda t: t.replace("pandas_categorical:null", "pandas_categorical:" + "[" * 100_000), "cannot be parsed"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files(name, tmp_path, texts):
    change, message = BAD_FILES[name]
    with pytest.raises((ModelFileError, UnsupportedModelError), match=message) as caught:
        read_file(written(tmp_path, change(texts[0])))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "model.txt"))


def one_tree(**fields):
    """The text of a model with one category split, with some fields changed."""
    header = {"version": "v4", "num_class": 1, "num_tree_per_iteration": 1, "max_feature_idx": 0}
    header |= {"objective": "regression", "feature_names": "a", "feature_infos": "0:3:40", "tree_sizes": "1"}
    tree = {"num_leaves": 2, "num_cat": 1, "split_feature": 0, "threshold": 0, "decision_type": 1, "left_child": -1}
    tree |= {"right_child": -2, "leaf_value": "1 2", "cat_boundaries": "0 2", "cat_threshold": "8 256", "is_linear": 0}
    parts = [{k: fields.pop(k, v) for k, v in part.items()} for part in (header, tree)]
    assert not fields
    head, body = ("\n".join(f"{k}={v}" for k, v in part.items()) for part in parts)
    return resized(f"tree\n{head}\n\nTree=0\n{body}\n\n\nend of trees\n\nparameters:\n\nend of parameters\n")


def test_a_category_split_by_hand(tmp_path):
    forest = read_file(written(tmp_path, one_tree()))
    assert forest.schema.features[0].encoder.labels == (0, 3, 40)
    rows = np.array([[0], [3], [40], [8], [3.7], [-0.3], [np.nan], [-40]])
    np.testing.assert_array_equal(forest.score(rows)[:, 0], [2, 1, 1, 2, 1, 2, 2, 2])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"threshold": 1}, "name sets that exist"),
        ({"threshold": 0.5}, "name sets that exist"),
        ({"threshold": "nan"}, "name sets that exist"),
        ({"cat_boundaries": "0 3"}, "must have 3 entries"),
        ({"cat_boundaries": "1 2"}, "follow one another"),
        ({"cat_boundaries": "0 -2"}, "follow one another"),
        ({"cat_boundaries": f"0 {10**12}"}, "follow one another"),
        ({"cat_threshold": f"8 {1 << 32}"}, "32-bit words"),
        ({"cat_threshold": "8 -1"}, "32-bit words"),
        ({"num_cat": -1}, "must have 0 or more category sets, got -1"),
        ({"num_cat": 10**15}, "must have 1000000000000001 entries"),
        ({"feature_infos": f"0:{1 << 40}"}, "codes of 31 bits"),
        (
            {
                "num_leaves": 3,
                "split_feature": "0 0",
                "threshold": "0 0",
                "decision_type": "1 1",
                "left_child": "1 -1",
                "right_child": "-3 -2",
                "leaf_value": "1 2 3",
            },
            "used twice",
        ),
    ],
)
def test_bad_category_sets(fields, message, tmp_path):
    with pytest.raises(ModelFileError, match=message):
        read_file(written(tmp_path, one_tree(**fields)))


def test_codes_without_a_label(tmp_path):
    text = one_tree(feature_infos="0:1") + '\npandas_categorical:[["a", "b"]]\n'
    with pytest.raises(ModelFileError, match="must hold listed categories"):
        read_file(written(tmp_path, text))


def test_outputs_without_trees_are_bounded(tmp_path):
    text = one_tree(num_tree_per_iteration=10**9)
    text = resized(text[: text.index("Tree=0")] + text[text.index("end of trees") :])
    with pytest.raises(ModelFileError, match="as many trees for each of 1000000000 outputs, got 0"):
        read_file(written(tmp_path, text))


@pytest.mark.parametrize(
    ("limit", "what", "size"),
    [
        ("_MAX_ENTRIES", "category tables", 4),
        ("_MAX_MEMBERS", "category sets", 2),
        ("_MAX_CATEGORIES", "categories", 2),
    ],
)
def test_what_is_too_large_is_refused_before_it_is_made(limit, what, size, tmp_path, monkeypatch):
    monkeypatch.setattr(f"treeanova.readers.lightgbm.{limit}", 1)
    with pytest.raises(UnsupportedModelError, match=f"{what} must have at most 1 entries, got {size}"):
        read_file(written(tmp_path, one_tree()))


@pytest.mark.parametrize("whole_numbers", [False, True])
def test_files_that_are_cut_off_are_refused(whole_numbers, tmp_path):
    labels = [10, 20, 30] if whole_numbers else ["a", "b", "c"]
    frame = pd.DataFrame({"c": pd.Categorical(np.resize(labels, 400)), "x": X[:, 1]})
    data = lgb.Dataset(shifted(frame), shifted(frame["c"].cat.codes + X[:, 1]))
    booster = training.train(lgb, {**BASE, **CATEGORY}, data, 3)
    text = booster.model_to_string()
    parameters = text.index("end of parameters\n") + len("end of parameters\n")
    whole = read_file(written(tmp_path, text))
    # A file that ends with the parameters is one that R or the command line has written, byte for byte.
    for cut in {*range(0, len(text) - 1, 97), *range(parameters - 30, len(text) - 1)} - {parameters}:
        with pytest.raises(ModelFileError, match="must"):
            read_file(written(tmp_path, text[:cut]))
    for complete in (text[:-1], text[:parameters]):
        np.testing.assert_array_equal(read_file(written(tmp_path, complete)).values, whole.values)


@pytest.mark.parametrize("options", [{"num_iteration": 2}, {"start_iteration": 1}, {"num_iteration": 1}])
def test_texts_of_some_iterations_are_whole(options, tmp_path):
    booster = train({}, "real")
    text = booster.model_to_string(**options)
    forest = read_file(written(tmp_path, text))
    np.testing.assert_allclose(
        forest.score(X)[:, 0], lgb.Booster(model_str=text).predict(X, raw_score=True), rtol=1e-12, atol=1e-12
    )


def test_labels_of_a_file_survive_json(tmp_path):
    frame = pd.DataFrame({"c": pd.Categorical(np.resize(['q"uote', "back\\slash", "ünï", "😀"], 400)), "x": X[:, 1]})
    y = frame["c"].cat.codes % 2 + X[:, 1]
    booster = training.train(lgb, {**BASE, **CATEGORY}, lgb.Dataset(shifted(frame), shifted(y)), 5)
    booster.save_model(tmp_path / "model.txt")
    forest = read_file(tmp_path / "model.txt")
    assert forest.schema.features[0].encoder.labels == tuple(json.loads(json.dumps(booster.pandas_categorical))[0])
    check_data(forest, booster, frame, frame)


def test_integer_matrices_are_read_as_lightgbm_reads_them():
    x = (2**24 + np.arange(40))[:, None]
    booster = train({"min_data_in_leaf": 1, "min_data_in_bin": 1}, np.arange(40.0) % 7, x=x.astype(float), rounds=5)
    forest = read(booster)
    np.testing.assert_allclose(forest.score(x)[:, 0], booster.predict(x, raw_score=True), rtol=1e-12, atol=1e-12)
    assert (forest.score(x) != forest.score(x.astype(float))).any()


def test_blanks_in_names_become_underscores():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a b": np.arange(60.0), "c": np.arange(60.0) % 7})
    booster = training.train(
        lgb, {"verbosity": -1, "min_data_in_leaf": 2}, lgb.Dataset(shifted(frame), shifted(np.arange(60.0) % 11)), 4
    )
    np.testing.assert_allclose(
        read(booster).score(frame[["c", "a b"]])[:, 0], booster.predict(frame), rtol=1e-12, atol=1e-12
    )
