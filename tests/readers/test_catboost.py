"""The CatBoost reader against CatBoost itself: leaf numbers exactly, raw scores to float64 rounding."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treeanova
from tests.support.edge_values import numeric_rows
from tests.support.training import fit, shifted
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.effects import respond
from treeanova.model.grid import grid_of
from treeanova.readers import read_model
from treeanova.readers.catboost import HashedCategory, read, read_file, splits
from treeanova.readers.catboost.files import category_hash, from_json
from treeanova.readers.catboost.splits import Table, ctr_values, grow

catboost = pytest.importorskip("catboost")
pd = pytest.importorskip("pandas")

POLICIES = ("SymmetricTree", "Depthwise", "Lossguide")
LETTERS = list("abcdefghijkl")


def options(**more):
    return {"iterations": 15, "depth": 4, "verbose": 0, "thread_count": 1, "allow_writing_files": False, **more}


def numeric_data(rng, n_rows=300, *, missing=0.1):
    rows = rng.normal(size=(n_rows, 4))
    target = rows[:, 0] * rows[:, 1] + np.abs(rows[:, 2]) + 0.1 * rng.normal(size=n_rows)
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows, target


def mixed_data(rng, n_rows=300, *, unseen=False):
    """A table of two numeric and three categorical columns; with `unseen`, also categories beyond the training ones."""
    more = 3 if unseen else 0
    table = pd.DataFrame(
        {
            "a": rng.normal(size=n_rows),
            "c": rng.choice(LETTERS + list("xyz")[:more], n_rows),
            "i": rng.integers(-3 - more, 4 + more, n_rows),
            "b": rng.normal(size=n_rows),
            "e": rng.choice(["u", "v", "ä long category, beyond 32 bytes of text", "w"][: 3 + (more > 0)], n_rows),
        }
    )
    target = (
        table.a + 2.0 * table.c.isin(list("abcf")) + (table.i > 0) + (table.e == "u") + 0.2 * rng.normal(size=n_rows)
    )
    return table, target.to_numpy()


def adversarial_table(forest, rng, n_rows=600):
    """Adversarial numbers beside known and unseen categories."""
    table, _ = mixed_data(rng, n_rows, unseen=True)
    numbers = numeric_rows(forest, rng, n_rows)
    for j, feature in enumerate(forest.schema.features):
        if not feature.is_category:
            table[feature.name] = numbers[:, j]
    return table


def raw(model, rows):
    return catboost.CatBoost._predict(
        model, rows, "RawFormulaVal", 0, 0, 1, None, "predict", "CPU"
    ).reshape(len(rows), -1)  # fmt: skip


def assert_equal(model, forest, rows):
    """Leaves and scores are the library's own, and bins of the grid tell apart all that leaves do."""
    leaves = forest.leaf_ids(rows)
    np.testing.assert_array_equal(leaves, model.calc_leaf_indexes(rows))
    np.testing.assert_allclose(forest.score(rows), raw(model, rows), rtol=1e-12, atol=1e-12)
    _, group = np.unique(grid_of(forest).index(rows), axis=0, return_inverse=True)
    first = np.unique(group, return_index=True)[1]
    np.testing.assert_array_equal(leaves, leaves[first][group])


def assert_read(model, forest_rows, tmp_path, *, loads_json=True):
    """The model reads the same from memory, from .cbm and from .json; the latter numbers leaves anew."""
    forest = read(model)
    rows = forest_rows(forest)
    assert_equal(model, forest, rows)
    for suffix in ("cbm", "json"):
        path = tmp_path / f"model.{suffix}"
        model.save_model(str(path), format=suffix)
        again = read_file(path)
        np.testing.assert_allclose(again.score(rows), raw(model, rows), rtol=1e-12, atol=1e-12)
        assert again.schema == forest.schema
        if suffix == "cbm" or loads_json:
            assert_equal(catboost.CatBoost().load_model(str(path), format=suffix), again, rows)
    return forest


# Numbers


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("nan_mode", ["Min", "Max", "Forbidden"])
def test_numbers_and_missing_values(policy, nan_mode, tmp_path):
    rng = np.random.default_rng(1)
    rows, target = numeric_data(rng, missing=0.0 if nan_mode == "Forbidden" else 0.1)
    model = fit(catboost.CatBoostRegressor(**options(grow_policy=policy, nan_mode=nan_mode)), rows, target)
    forest = assert_read(model, lambda forest: numeric_rows(forest, rng, 2000), tmp_path)
    assert forest.schema.names == ("x0", "x1", "x2", "x3")
    assert not forest.schema.named


def test_missing_values_of_a_feature_that_had_none_are_false_also_with_nan_mode_max():
    rng = np.random.default_rng(2)
    rows, target = numeric_data(rng, missing=0.0)
    rows[::7, 0] = np.nan
    model = fit(catboost.CatBoostRegressor(**options(nan_mode="Max")), rows, target)
    forest = read(model)
    assert not forest.missing_left[forest.feature == 0].any()
    assert forest.missing_left[forest.feature == 1].all()
    assert_equal(model, forest, numeric_rows(forest, rng, 500))


@pytest.mark.parametrize("has_nans", [False, True])
@pytest.mark.parametrize("treatment", ["AsIs", "AsFalse", "AsTrue"])
def test_missing_values_as_the_file_says(has_nans, treatment, tmp_path):
    """Also where training would not say so: "AsTrue" counts only beside has_nans."""
    rng = np.random.default_rng(25)
    rows, target = numeric_data(rng)
    path = tmp_path / "model.json"
    fit(catboost.CatBoostRegressor(**options()), rows, target).save_model(str(path), format="json")
    top = json.loads(path.read_text())
    for feature in top["features_info"]["float_features"]:
        feature |= {"has_nans": has_nans, "nan_value_treatment": treatment}
    path.write_text(json.dumps(top))
    model = catboost.CatBoost().load_model(str(path), format="json")
    for forest in (read_file(path), read(model)):
        assert_equal(model, forest, numeric_rows(forest, rng, 300))


@pytest.mark.parametrize("policy", POLICIES)
def test_more_borders_than_a_byte_counts(policy, tmp_path):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(900, 1))
    settings_ = options(grow_policy=policy, border_count=700, iterations=150, depth=5)
    model = fit(catboost.CatBoostRegressor(**settings_), rows, rng.normal(size=900))
    forest = assert_read(model, lambda forest: numeric_rows(forest, rng, 1000), tmp_path)
    assert len(np.unique(forest.bound[forest.feature == 0])) > 254


def test_deep_trees_and_stumps(tmp_path):
    rng = np.random.default_rng(4)
    rows, target = numeric_data(rng)
    for depth in (1, 10):
        model = fit(catboost.CatBoostRegressor(**options(depth=depth, iterations=4)), rows, target)
        assert_read(model, lambda forest: numeric_rows(forest, rng, 300), tmp_path)


def test_trees_without_splits(tmp_path):
    rows = np.arange(40.0).reshape(-1, 1)
    model = fit(catboost.CatBoostRegressor(
        **options(grow_policy="Lossguide", min_data_in_leaf=100, iterations=3)
    ), rows, rows[:, 0])  # fmt: skip
    forest = assert_read(model, lambda forest: rows, tmp_path)
    assert forest.n_leaves == forest.n_trees


@pytest.mark.parametrize("policy", POLICIES)
def test_scale_and_bias(policy, tmp_path):
    rng = np.random.default_rng(5)
    rows, target = numeric_data(rng)
    model = fit(catboost.CatBoostRegressor(**options(grow_policy=policy)), rows, target)
    model.set_scale_and_bias(1 / 3, -0.1)
    assert_read(model, lambda forest: numeric_rows(forest, rng, 300), tmp_path)
    model = fit(catboost.CatBoostClassifier(**options(grow_policy=policy)), rows, np.digitize(target, [0.2, 1.0]))
    model.set_scale_and_bias(1 / 3, [0.1, 1 / 7, -2.0])
    forest = assert_read(model, lambda forest: numeric_rows(forest, rng, 300), tmp_path)
    np.testing.assert_array_equal(forest.intercept, [0.1, 1 / 7, -2.0])


def test_early_stopping_keeps_the_best_trees_only():
    rng = np.random.default_rng(6)
    rows, target = numeric_data(rng)
    model = catboost.CatBoostRegressor(**options(iterations=400, early_stopping_rounds=3))
    fit(model, rows[:150], target[:150], eval_set=(rows[150:], target[150:]))
    forest = read(model)
    assert forest.n_trees == model.tree_count_ == model.best_iteration_ + 1 < 400
    assert_equal(model, forest, numeric_rows(forest, rng, 300))


def test_shrunk_and_summed_models(tmp_path):
    rng = np.random.default_rng(7)
    rows, target = numeric_data(rng)
    one, two = (fit(catboost.CatBoostRegressor(**options(random_seed=seed)), rows, target) for seed in (1, 2))
    one.shrink(9, ntree_start=2)
    assert_read(one, lambda forest: numeric_rows(forest, rng, 300), tmp_path)
    both = catboost.sum_models([one, two], weights=[0.3, 0.7])
    assert_read(both, lambda forest: numeric_rows(forest, rng, 300), tmp_path)


# Losses


def fit_loss(loss, rows, target):  # noqa: PLR0911
    if loss in {"Logloss", "Focal:focal_alpha=0.5;focal_gamma=2", "RMSE"}:
        return fit(catboost.CatBoost(options(loss_function=loss)), rows, target > 0.5)
    if loss == "CrossEntropy":
        return fit(catboost.CatBoost(options(loss_function=loss)), rows, 1 / (1 + np.exp(-target)))
    if loss in {"MultiClass", "MultiClassOneVsAll"}:
        names = np.array(["low", "mid", "high"])[np.digitize(target, [0.2, 1.0])]
        return fit(catboost.CatBoostClassifier(**options(loss_function=loss)), rows, names)
    if loss == "MultiLogloss":
        return fit(catboost.CatBoostClassifier(**options(loss_function=loss)), rows, np.c_[target > 0, target > 1] * 1)
    if loss == "MultiRMSE":
        return fit(catboost.CatBoostRegressor(**options(loss_function=loss)), rows, np.c_[target, -target, target**2])
    if loss in {"YetiRank", "PairLogit", "QueryRMSE"}:
        groups = np.repeat(np.arange(len(rows) // 10), 10)
        model = catboost.CatBoostRanker(**options(loss_function=loss))
        return fit(model, rows, np.digitize(target, [0.2, 1.0]), group_id=groups)
    return fit(catboost.CatBoostRegressor(**options(loss_function=loss)), rows, np.abs(target))


@pytest.mark.parametrize(
    ("loss", "link", "outputs"),
    [
        ("RMSE", "identity", ("score",)),
        ("MAE", "identity", ("score",)),
        ("Quantile:alpha=0.3", "identity", ("score",)),
        ("Logloss", "logit", ("score",)),
        ("CrossEntropy", "logit", ("score",)),
        ("Focal:focal_alpha=0.5;focal_gamma=2", "logit", ("score",)),
        ("MultiClass", "softmax", ("high", "low", "mid")),
        ("MultiClassOneVsAll", "logit", ("high", "low", "mid")),
        ("MultiLogloss", "logit", ("0", "1")),
        ("MultiRMSE", "identity", ("y0", "y1", "y2")),
        ("MultiQuantile:alpha=0.1,0.5,0.9", "identity", ("0.1", "0.5", "0.9")),
        ("RMSEWithUncertainty", "other", ("mean", "log_std")),
        ("Poisson", "log", ("score",)),
        ("Tweedie:variance_power=1.5", "log", ("score",)),
        ("YetiRank", "identity", ("score",)),
        ("PairLogit", "identity", ("score",)),
        ("QueryRMSE", "identity", ("score",)),
    ],
)
def test_losses(loss, link, outputs, tmp_path):
    rng = np.random.default_rng(8)
    rows, target = numeric_data(rng)
    forest = assert_read(fit_loss(loss, rows, target), lambda forest: numeric_rows(forest, rng, 300), tmp_path)
    assert forest.schema.link == link
    assert forest.schema.outputs == outputs


@pytest.mark.parametrize("policy", POLICIES[1:])
def test_several_outputs_in_asymmetric_trees(policy, tmp_path):
    rng = np.random.default_rng(9)
    rows, target = numeric_data(rng)
    model = fit(catboost.CatBoostClassifier(**options(grow_policy=policy)), rows, np.digitize(target, [0.2, 1.0]))
    forest = assert_read(model, lambda forest: numeric_rows(forest, rng, 600), tmp_path)
    assert forest.schema.outputs == ("0", "1", "2")


def test_links_give_the_librarys_response():
    rng = np.random.default_rng(10)
    rows, target = numeric_data(rng)
    for loss in ("MultiClass", "MultiClassOneVsAll", "MultiLogloss"):
        model = fit_loss(loss, rows, target)
        forest = read(model)
        np.testing.assert_allclose(respond(forest.schema, forest.score(rows)), model.predict_proba(rows))
    for loss in ("Poisson", "Tweedie:variance_power=1.5", "LogLinQuantile", "Cox", "MAE"):
        model = fit_loss(loss, rows, target)
        forest = read(model)
        np.testing.assert_allclose(respond(forest.schema, forest.score(rows))[:, 0], model.predict(rows))
    model = fit_loss("RMSEWithUncertainty", rows, target)
    np.testing.assert_allclose(np.exp(2 * read(model).score(rows)[:, 1]), model.predict(rows)[:, 1])


# Categories


CTRS = [
    "one-hot",
    "default",
    "Borders:TargetBorderCount=4",
    "Buckets:TargetBorderCount=3",
    "BinarizedTargetMeanValue:TargetBorderCount=5:Prior=-1:Prior=0.3",
    "Counter:CtrBorderCount=40:Prior=0.7",
]


def ctrs_with_policies():
    """The first two with every policy, the others with one, in turn; all with all where there is time."""
    return [
        pytest.param(policy, ctr, marks=[] if i < 2 or i % len(POLICIES) == k else pytest.mark.thorough)
        for i, ctr in enumerate(CTRS)
        for k, policy in enumerate(POLICIES)
    ]


@pytest.mark.parametrize(("policy", "ctr"), ctrs_with_policies())
def test_categories(policy, ctr, tmp_path):
    rng = np.random.default_rng(11)
    table, target = mixed_data(rng)
    more = {"one_hot_max_size": 50} if ctr == "one-hot" else {"max_ctr_complexity": 1}
    if ":" in ctr:
        more |= {"simple_ctr": [ctr]}
    settings_ = options(cat_features=["c", "i", "e"], grow_policy=policy, iterations=30, **more)
    model = fit(catboost.CatBoostRegressor(**settings_), table, target)
    # CatBoost cuts the fractions of mean values when it loads .json, and then predicts otherwise than before saving.
    loads_json = not ctr.startswith("BinarizedTargetMeanValue")
    forest = assert_read(model, lambda forest: adversarial_table(forest, rng), tmp_path, loads_json=loads_json)
    assert forest.schema.names == ("a", "c", "i", "b", "e")
    assert forest.schema.named
    assert (forest.category_start[forest.feature == 1] >= 0).any()


@pytest.mark.parametrize("ctr", ["Borders", "Buckets"])
def test_categories_of_a_classifier(ctr, tmp_path):
    rng = np.random.default_rng(12)
    table, target = mixed_data(rng)
    settings_ = options(cat_features=["c", "i", "e"], max_ctr_complexity=1, simple_ctr=[ctr])
    model = fit(catboost.CatBoostClassifier(**settings_), table, np.digitize(target, [1.0, 2.0]))
    assert_read(model, lambda forest: adversarial_table(forest, rng), tmp_path)


def one_table_for_two_targets(simple_ctr, loss="RMSE"):
    """A model with CTRs of several divisions of targets, and rows; only the categories tell about the targets."""
    rng = np.random.default_rng(13)
    table = pd.DataFrame({"x": rng.normal(size=400), "k": rng.integers(0, 12, 400)})
    first, second = np.isin(table.k, [0, 3, 4, 8, 9]), np.isin(table.k, [1, 3, 5, 8, 11])
    target = first + 2.0 * second if loss == "RMSE" else np.stack([first, second], axis=1).astype(float)
    settings_ = options(loss_function=loss, simple_ctr=simple_ctr, iterations=30, random_strength=0)
    pool = catboost.Pool(shifted(table), shifted(target), cat_features=["k"])
    return fit(catboost.CatBoost(settings_), pool), table


@pytest.mark.parametrize(
    "loss", ["MultiLogloss", "MultiCrossEntropy", "MultiRMSE", "MultiRMSEWithMissingValues", "RMSE"]
)
def test_each_division_of_each_target_has_its_own_table(loss, tmp_path):
    divisions = ["Borders:TargetBorderCount=1", "Borders:TargetBorderCount=3"] if loss == "RMSE" else ["Borders"]
    model, table = one_table_for_two_targets(divisions, loss)
    model.save_model(str(tmp_path / "model.cbm"))
    for forest in (read(model), read_file(tmp_path / "model.cbm")):
        assert_equal(model, forest, table)
    model.save_model(str(tmp_path / "model.json"), format="json")  # has one table for all of them
    with pytest.raises(UnsupportedModelError, match=r"CTRs of one target .* save the model as \.cbm"):
        read_file(tmp_path / "model.json")


def test_counters_of_several_targets_are_read_from_json(tmp_path):
    model, table = one_table_for_two_targets(["Counter"], "MultiRMSE")
    assert_read(model, lambda _: table, tmp_path)


@pytest.mark.parametrize(
    ("trained", "renamed"),
    [
        ("BinarizedTargetMeanValue", "FloatTargetMeanValue"),
        ("Counter", "FeatureFreq"),
        ("Borders:TargetBorderCount=3", "Borders"),
        ("Buckets:TargetBorderCount=3", "Buckets"),
    ],
)
def test_ctr_arithmetic_is_in_float32(trained, renamed, tmp_path):
    """Kinds, priors and shifts that training on a CPU does not give; borders on and next to categories' numbers."""
    rng = np.random.default_rng(13)
    table, target = mixed_data(rng)
    settings_ = options(cat_features=["c", "i", "e"], max_ctr_complexity=1, simple_ctr=[trained], iterations=40)
    model = fit(catboost.CatBoostRegressor(**settings_), table, target)
    path = tmp_path / "model.json"
    model.save_model(str(path), format="json")
    top = json.loads(path.read_text().replace(trained.split(":")[0], renamed))
    for ctr in top["features_info"]["ctrs"]:
        ctr["prior_numerator"], ctr["prior_denomerator"], ctr["shift"] = 0.37, 2.3, 0.123
    for written, ctr in zip(top["features_info"]["ctrs"], from_json(top).ctrs, strict=True):
        numbers = np.append(*ctr_values(ctr, ctr.counts))
        near = [np.nextafter(numbers, np.float32(way)) for way in (-np.inf, np.inf)]
        borders = rng.choice(np.unique([numbers, *near]), len(ctr.borders))
        written["borders"] = sorted(float(border) for border in borders)
    path.write_text(json.dumps(top))
    loaded = catboost.CatBoost().load_model(str(path), format="json")
    forest = read_file(path)
    assert (forest.category_start >= 0).any()
    assert_equal(loaded, forest, adversarial_table(forest, rng, 1000))


def test_hash_is_catboosts_own(tmp_path):
    """CatBoost writes the hashes of a pool's categories into a .json file when it is given the pool."""
    rng = np.random.default_rng(14)
    alphabet = np.array(list("abc XYZ0189-_äß漢€🔢"))
    texts = ["".join(rng.choice(alphabet, size)) for size in [*range(140), *range(140), 400]]
    table = pd.DataFrame({"c": texts})
    settings_ = options(cat_features=["c"], max_ctr_complexity=1, iterations=2)
    model = fit(catboost.CatBoostRegressor(**settings_), table, rng.normal(size=len(table)))
    path = tmp_path / "model.json"
    model.save_model(str(path), format="json", pool=catboost.Pool(table, cat_features=["c"]))
    known = json.loads(path.read_text())["features_info"]["cat_features_hash"]
    assert len(known) == len(set(texts))
    assert all(category_hash(entry["value"].encode()) == entry["hash"] for entry in known)
    assert set(read_file(path).schema.features[0].encoder.labels) == set(shifted(texts))


def one_hot_model(values, target):
    table = pd.DataFrame({"a": np.linspace(-1, 1, len(values)), "c": values})
    settings_ = options(cat_features=["c"], one_hot_max_size=50, iterations=30)
    return fit(catboost.CatBoostRegressor(**settings_), table, target)


SPELLINGS = {
    "int": pd.Series,
    "int8": lambda v: pd.Series(v, dtype="int8"),
    "Int64": lambda v: pd.Series(v, dtype="Int64"),
    "object": lambda v: pd.Series(v, dtype=object),
    "numpy objects": lambda v: pd.Series([np.int16(x) for x in v], dtype=object),
    "category": lambda v: pd.Series(v, dtype="category"),
    "text": lambda v: pd.Series([str(x) for x in v]),
    "string": lambda v: pd.Series([str(x) for x in v], dtype="string"),
    "text category": lambda v: pd.Series([str(x) for x in v], dtype="category"),
    "bytes": lambda v: pd.Series([str(x).encode() for x in v], dtype=object),
    "bool": lambda v: pd.Series([x > 0 for x in v]),
    "boolean": lambda v: pd.Series([x > 0 for x in v], dtype="boolean"),
    "bool[pyarrow]": lambda v: pd.Series([x > 0 for x in v], dtype="bool[pyarrow]"),
    "bool objects": lambda v: pd.Series([x > 0 for x in v], dtype=object),
    "bool category": lambda v: pd.Series([x > 0 for x in v], dtype="category"),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings_of_categories(spelling):
    values = np.tile([0, 1, 2, -7, 30], 20)
    model = one_hot_model(values, values % 4 + 0.1 * np.arange(100))
    table = pd.DataFrame({"a": np.linspace(-1, 1, 8), "c": SPELLINGS[spelling]([0, 1, 2, -7, 30, 99, 1, 0])})
    assert_equal(model, read(model), table)
    if spelling != "boolean":
        array = table.astype(object).to_numpy()
        assert_equal(model, read(model), array)


@pytest.mark.parametrize("values", [[0.5, 1.0], [2.0, 1.0], [0.0, 1.0]])
def test_categories_as_floats_are_refused_as_by_catboost(values):
    model = one_hot_model(np.tile([0, 1, 2], 20), np.arange(60.0))
    table = pd.DataFrame({"a": [0.0, 0.0], "c": values})
    with pytest.raises(TypeError, match="'c' must hold categories as text or integers"):
        read(model).score(table)
    with pytest.raises(TypeError, match="must hold categories as text or integers"):
        read(model).score(table.astype(object))
    with pytest.raises(catboost.CatBoostError, match="must be integer or string"):
        model.predict(table)


def test_integers_beside_a_null_are_refused_with_the_reason():
    arrow = pytest.importorskip("pyarrow")
    model = one_hot_model(np.tile([0, 1, 2], 20), np.arange(60.0))
    table = arrow.table({"a": [0.0, 0.0], "c": arrow.array([1, None], arrow.int64())})
    with pytest.raises(TypeError, match=r"1\.0\)?, a float, as integers are in a column that also has missing values"):
        read(model).score(table)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_missing_categories_are_refused_as_by_catboost(missing):
    model = one_hot_model(np.tile(["0", "1", "2"], 20), np.arange(60.0))
    table = pd.DataFrame({"a": [0.0, 0.0], "c": pd.Series(["1", missing], dtype=object)})
    with pytest.raises(ValueError, match="'c' must have no missing values"):
        read(model).score(table)
    with pytest.raises((catboost.CatBoostError, TypeError), match="must be"):
        model.predict(table)


def test_labels_come_from_data():
    model = one_hot_model(np.tile(["red", "green", "blue"], 20), np.arange(60.0) % 3)
    encoder = read(model).schema.features[1].encoder
    assert isinstance(encoder, HashedCategory)
    assert encoder.labels == tuple(map(str, encoder.hashes))
    named = encoder.labelled(np.array(["red", "green", "violet", None], dtype=object), "c")
    assert {"red", "green"} < set(named.labels)
    assert len(set(named.labels) - {"red", "green"} & set(encoder.labels)) >= 1
    assert named.hashes == encoder.hashes


def test_unused_categorical_feature(tmp_path):
    rng = np.random.default_rng(15)
    table = pd.DataFrame({"a": rng.normal(size=200), "c": rng.choice(["u", "v"], 200)})
    settings_ = options(cat_features=["c"], max_ctr_complexity=1, iterations=3, depth=1)
    model = fit(catboost.CatBoostRegressor(**settings_), table, table.a * 10)
    forest = assert_read(model, lambda forest: table.replace("u", "w"), tmp_path)
    assert (forest.feature <= 0).all()


# Data


def test_polars_and_columns_in_another_order():
    polars = pytest.importorskip("polars")
    rng = np.random.default_rng(16)
    table, target = mixed_data(rng)
    model = fit(
        catboost.CatBoostRegressor(**options(cat_features=["c", "i", "e"], max_ctr_complexity=1)), table, target
    )
    forest = read(model)
    other = polars.from_dict({name: table[name].tolist() for name in reversed(table.columns)})
    np.testing.assert_allclose(forest.score(other)[:, 0], model.predict(table), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(forest.leaf_ids(table[["e", "i", "c", "b", "a"]]), model.calc_leaf_indexes(table))


def test_sparse_matrices():
    import scipy.sparse

    rng = np.random.default_rng(17)
    rows = rng.normal(size=(200, 4)) * (rng.random((200, 4)) < 0.4)
    model = fit(catboost.CatBoostRegressor(**options()), scipy.sparse.csr_matrix(rows), rows[:, 0] + rows[:, 1] ** 2)
    matrix = scipy.sparse.csr_matrix(rows)
    np.testing.assert_array_equal(read(model).leaf_ids(matrix), model.calc_leaf_indexes(matrix))


def test_dropped_features_are_matched_by_name_only():
    rng = np.random.default_rng(18)
    rows = rng.normal(size=(200, 6))
    table = pd.DataFrame(rows, columns=list("abcdef"))
    named, unnamed = (
        fit(catboost.CatBoostRegressor(**options(depth=1, iterations=3)), data, rows[:, 2] + rows[:, 4])
        for data in (table, rows)
    )
    for model in (named, unnamed):
        model.drop_unused_features()
    np.testing.assert_allclose(read(named).score(table)[:, 0], named.predict(table), rtol=1e-12, atol=1e-12)
    with pytest.raises(UnsupportedModelError, match="has dropped unused features"):
        read(unnamed)


@given(
    seed=st.integers(0, 10_000),
    policy=st.sampled_from(POLICIES),
    depth=st.integers(1, 6),
    n_classes=st.sampled_from([1, 2, 3]),
    nan_mode=st.sampled_from(["Min", "Max"]),
    one_hot=st.sampled_from([1, 2, 8, 60]),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_any_small_model(*, seed, policy, depth, n_classes, nan_mode, one_hot):
    rng = np.random.default_rng(seed)
    table, target = mixed_data(rng, 120)
    table.loc[rng.random(120) < 0.2, "b"] = np.nan
    settings_ = options(
        cat_features=["c", "i", "e"], grow_policy=policy, depth=depth, nan_mode=nan_mode, random_seed=seed,
        iterations=8, max_ctr_complexity=1, one_hot_max_size=one_hot,
    )  # fmt: skip
    if n_classes == 1:
        model = fit(catboost.CatBoostRegressor(**settings_), table, target)
    else:
        model = fit(catboost.CatBoostClassifier(**settings_), table, np.digitize(target, [1.0, 2.0][: n_classes - 1]))
    forest = read(model)
    assert_equal(model, forest, adversarial_table(forest, rng, 200))


# Combinations of features


def combined_model(rng, kind=catboost.CatBoostRegressor, **more):
    """A model with CTRs of combinations, and its rows: the target depends on pairs of categories and numbers."""
    table, target = mixed_data(rng, 600)
    pairs = (table.c + table.i.astype(str)).map(lambda text: category_hash(text.encode())) % 2
    target = target + 5.0 * pairs + 3.0 * (table.e == "u") + 2.0 * ((table.e == "u") == table.c.isin(list("abcd")))
    table.loc[::9, "a"] = np.nan
    defaults = {"one_hot_max_size": 3, "max_ctr_complexity": 4, "model_size_reg": 0, "random_seed": 0}
    settings_ = options(cat_features=["c", "i", "e"], **(defaults | more))
    if kind is catboost.CatBoostClassifier:
        target = np.digitize(target, [2.0, 6.0])
    return fit(kind(**settings_), table, target), table


def elements_of(model, tmp_path):
    """Kinds of the elements of each CTR of a combination, as CatBoost writes them."""
    path = tmp_path / "elements.json"
    model.save_model(str(path), format="json")
    ctrs = json.loads(path.read_text())["features_info"].get("ctrs") or ()
    kinds = [[element["combination_element"] for element in ctr["elements"]] for ctr in ctrs]
    return [elements for elements in kinds if len(elements) > 1]


@pytest.mark.parametrize("nan_mode", ["Min", "Max"])
def test_combinations_of_features(nan_mode, tmp_path):
    rng = np.random.default_rng(19)
    model, table = combined_model(rng, nan_mode=nan_mode)
    kinds = set(itertools.chain.from_iterable(elements_of(model, tmp_path)))
    assert kinds == {"cat_feature_value", "float_feature", "cat_feature_exact_value"}
    forest = assert_read(model, lambda forest: adversarial_table(forest, rng), tmp_path)
    assert_equal(model, forest, table)


@pytest.mark.parametrize("ctr", ["Borders", "Buckets", "BinarizedTargetMeanValue", "Counter"])
def test_combinations_by_each_kind_of_ctr(ctr, tmp_path):
    rng = np.random.default_rng(27)
    model, _ = combined_model(
        rng, catboost.CatBoostClassifier, one_hot_max_size=1, combinations_ctr=[ctr], simple_ctr=[ctr]
    )
    assert elements_of(model, tmp_path)
    loads_json = ctr != "BinarizedTargetMeanValue"  # as for CTRs of one feature
    assert_read(model, lambda forest: adversarial_table(forest, rng), tmp_path, loads_json=loads_json)


def test_combinations_in_asymmetric_trees(tmp_path):
    """CatBoost trains combinations in symmetric trees only, but can turn these into asymmetric ones."""
    rng = np.random.default_rng(28)
    model, table = combined_model(rng)
    before = raw(model, table)
    model._convert_to_asymmetric_representation()
    forest = assert_read(model, lambda forest: adversarial_table(forest, rng), tmp_path)
    np.testing.assert_allclose(forest.score(table), before, rtol=1e-12, atol=1e-12)


def test_trees_from_tables_have_no_more_leaves_than_needed():
    """Of two categorical features: "both", "either but not both", and a first feature that decides alone."""
    for outcomes, n_leaves in (([[0, 0], [0, 1]], 3), ([[0, 1], [1, 0]], 4), ([[0, 0, 0], [1, 1, 1]], 2)):
        table = Table({0: None, 3: None}, {0: [1, 2], 3: [1, 2, 4]}, np.array(outcomes))
        assert grow(table).n_leaves == n_leaves


def test_large_trees_are_unfolded_split_by_split(monkeypatch):
    rng = np.random.default_rng(29)
    model, _ = combined_model(rng, one_hot_max_size=1, max_ctr_complexity=2)
    at_once = read(model)
    monkeypatch.setattr(splits, "_MAX_CELLS", 150)
    forest = read(model)
    assert forest.n_leaves > at_once.n_leaves
    assert_equal(model, forest, adversarial_table(forest, rng))


@pytest.mark.parametrize("limit", ["_MAX_LEAVES", "_MAX_CELLS"])
def test_too_many_leaves_are_refused(limit, monkeypatch):
    model, _ = combined_model(np.random.default_rng(30))
    monkeypatch.setattr(splits, limit, 10)
    with pytest.raises(UnsupportedModelError, match="CTRs of combinations of features"):
        read(model)


def test_categories_without_a_ctr_of_their_own(tmp_path):
    """They are found from a combination of which all but one feature is known, else the model is refused."""
    rng = np.random.default_rng(31)
    model, table = combined_model(rng, one_hot_max_size=1)
    path = tmp_path / "model.json"
    model.save_model(str(path), format="json")
    top = json.loads(path.read_text())
    ctrs = top["features_info"]["ctrs"]
    features = [{e.get("cat_feature_index") for e in ctr["elements"]} for ctr in ctrs]
    pair = next(ctr for ctr, used in zip(ctrs, features, strict=True) if used == {0, 1})
    single = next(ctr for ctr, used in zip(ctrs, features, strict=True) if used == {0})
    for kept, is_read in (([single, pair], True), ([pair], False)):
        changed = [{**kept[place % len(kept)], "borders": ctr["borders"]} for place, ctr in enumerate(ctrs)]
        path.write_text(json.dumps({**top, "features_info": {**top["features_info"], "ctrs": changed}}))
        if not is_read:
            with pytest.raises(UnsupportedModelError, match="must tell the categories of each feature"):
                read_file(path)
            continue
        loaded, forest = catboost.CatBoost().load_model(str(path), format="json"), read_file(path)
        assert forest.schema.features[2].n_categories == table.i.nunique()
        assert_equal(loaded, forest, adversarial_table(forest, rng))


def test_decomposed_combinations_add_up_to_the_score():
    rng = np.random.default_rng(32)
    model, table = combined_model(rng, iterations=8)
    n_leaves, n_library_leaves = read(model).n_leaves, read(model).n_library_leaves
    assert n_library_leaves <= len(model.get_leaf_values())
    assert f"\n{n_leaves:,} leaves for {n_library_leaves:,} of the model, whose splits" in str(treeanova.plan(model))
    fx = treeanova.decompose(model, table, n_jobs=1)
    for rows in (table, table.apply(rng.permutation), adversarial_table(read(model), rng, 100)):
        scores = fx.explain(rows).scores
        np.testing.assert_allclose(scores.ravel(), raw(model, rows).ravel(), rtol=1e-10, atol=1e-10)


# Refusals


def test_unfitted():
    with pytest.raises(UnsupportedModelError, match="fit it first"):
        read(catboost.CatBoostRegressor())


def test_missing_ctr_tables_are_refused():
    rng = np.random.default_rng(20)
    table, target = mixed_data(rng)
    settings_ = options(cat_features=["c", "i", "e"], max_ctr_complexity=1, final_ctr_computation_mode="Skip")
    model = fit(catboost.CatBoostRegressor(**settings_), table, target)
    with pytest.raises(UnsupportedModelError, match="must have its CTR tables"):
        read(model)


def test_text_and_embeddings_are_refused():
    rng = np.random.default_rng(21)
    table = pd.DataFrame({"a": rng.normal(size=200), "t": rng.choice(["good day", "bad day", "hello"], 200)})
    pool = catboost.Pool(shifted(table), shifted(table.a > 0), text_features=["t"])
    with pytest.raises(UnsupportedModelError, match="text or embedding features"):
        read(fit(catboost.CatBoostClassifier(**options()), pool))
    table["t"] = list(rng.normal(size=(200, 3)))
    pool = catboost.Pool(shifted(table), shifted(table.a > 0), embedding_features=["t"])
    with pytest.raises(UnsupportedModelError, match="text or embedding features"):
        read(fit(catboost.CatBoostClassifier(**options()), pool))


# Files


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Small models as bytes of both kinds of files: with CTRs, also of combinations, and with several outputs."""
    rng = np.random.default_rng(22)
    table, target = mixed_data(rng, 150)
    small = {"cat_features": ["c", "i", "e"], "iterations": 4, "depth": 2, "max_ctr_complexity": 1}
    models = [
        fit(catboost.CatBoostRegressor(**options(**small)), table, target),
        combined_model(rng, iterations=2)[0],
        fit(
            catboost.CatBoostClassifier(**options(**small, grow_policy="Lossguide")), table, np.digitize(target, [1, 2])
        ),
    ]
    folder = tmp_path_factory.mktemp("saved")
    files = []
    for number, model in enumerate(models):
        for suffix in ("json", "cbm"):
            path = folder / f"{number}.{suffix}"
            model.save_model(str(path), format=suffix)
            data = path.read_bytes()
            if suffix == "json":  # other notes about training are most of the file and do not matter
                top = json.loads(data)
                params = top["model_info"]["params"]
                top["model_info"] = {"params": {name: params[name] for name in ("loss_function", "cat_feature_params")}}
                data = json.dumps(top).encode()
            files.append((suffix, data))
    return table, files


@pytest.mark.parametrize("kept", [0, 3, 7, 8, 100, 0.5, 0.9, 0.999])
def test_truncated_files(saved, tmp_path, kept):
    for suffix, data in saved[1]:
        path = tmp_path / f"model.{suffix}"
        path.write_bytes(data[: kept if isinstance(kept, int) else int(kept * len(data))])
        with pytest.raises(ModelFileError, match="damaged"):
            read_file(path)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda top: top["oblivious_trees"][0]["leaf_values"].pop(), "a value per leaf"),
        (lambda top: top["oblivious_trees"][0]["leaf_values"].__setitem__(0, 10**400), "cannot be parsed"),
        (lambda top: top["oblivious_trees"][0]["splits"][0].update(split_index=10**6), "splits that exist"),
        (lambda top: top["oblivious_trees"][0]["splits"][0].update(split_index=-1), "splits that exist"),
        (lambda top: top["oblivious_trees"][0]["splits"][0].update(split_index=1.5), "must hold whole numbers, got"),
        (lambda top: top["oblivious_trees"][0]["splits"][0].update(split_index=True), "must hold whole numbers, got"),
        (lambda top: top["oblivious_trees"][0]["splits"][0].update(split_index="1"), "must hold whole numbers, got"),
        (lambda top: top["oblivious_trees"][0]["leaf_values"].__setitem__(0, "1"), "must hold numbers, got"),
        (lambda top: top["oblivious_trees"][0]["leaf_values"].__setitem__(0, True), "must hold numbers, got"),
        (lambda top: top["features_info"]["float_features"][0].update(feature_index=0.5), "not a whole number: 0.5"),
        (lambda top: top["oblivious_trees"][0].update(leaf_weights=[float("nan")]), "NaN is not a number of JSON"),
        (lambda top: top.update(oblivious_trees={}), "trees must be a list"),
        (lambda top: top["features_info"]["float_features"][0].update(flat_feature_index=10**9), "numbered from 0"),
        (lambda top: top["features_info"]["float_features"][0].update(feature_id=7), "texts as names, got 7"),
        (lambda top: top["features_info"]["float_features"][0].update(has_nans=2), "missing values must be AsIs"),
        (lambda top: top.update(scale_and_bias=["1_0", [0]]), "not a number: '1_0'"),
        (lambda top: top["features_info"]["float_features"][0]["borders"].reverse(), "sorted"),
        (lambda top: top["features_info"]["float_features"][0].update(flat_feature_index=3), "numbered from 0"),
        (lambda top: top["features_info"]["ctrs"][0].update(target_border_idx=9), "must count one of"),
        (lambda top: top["features_info"]["ctrs"][0].update(ctr_type="Novel"), "CTRs of a known kind, got 'Novel'"),
        (lambda top: top["features_info"].pop("categorical_features"), "cannot be parsed"),
        (lambda top: top.update(scale_and_bias=[1, [0, 0]]), "bias per output"),
        (lambda top: top.pop("oblivious_trees"), "cannot be parsed"),
    ],
)
def test_contradictions_in_files(saved, tmp_path, change, match):
    top = json.loads(saved[1][0][1])
    top["features_info"]["ctrs"].sort(key=lambda ctr: ctr["ctr_type"])
    change(top)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(top))
    with pytest.raises((ModelFileError, UnsupportedModelError), match=match):
        read_file(path)


def test_deep_nesting_and_repeated_references_are_refused(tmp_path):
    path = tmp_path / "model.json"
    path.write_bytes(b'{"trees": ' + b'[{"left": ' * 100_000)
    with pytest.raises(ModelFileError, match="damaged"):
        read_file(path)
    path = tmp_path / "model.cbm"
    path.write_bytes(b"CBM1" + (10**6).to_bytes(4, "little") + b"\x00" * 10**6)
    with pytest.raises(ModelFileError, match="damaged"):
        read_file(path)


def test_files_need_no_catboost(saved, tmp_path):
    """Both kinds of files are read in a process that cannot import CatBoost."""
    for suffix, data in saved[1][:2]:
        (tmp_path / f"model.{suffix}").write_bytes(data)
    program = (
        "import sys; sys.modules['catboost'] = None\n"
        "from treeanova.readers import read_model\n"
        f"print([read_model(r'{tmp_path}/model.' + suffix).n_trees for suffix in ('json', 'cbm')])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[4, 4]"


def test_read_model_finds_this_reader(tmp_path):
    rng = np.random.default_rng(24)
    rows, target = numeric_data(rng)
    model = fit(catboost.CatBoostRegressor(**options(iterations=3)), rows, target)
    assert read_model(model).n_trees == 3


@pytest.mark.parametrize("loss", ["MultiClass", "MultiClassOneVsAll"])
@pytest.mark.parametrize("declared", [5, [0, 1, 2, 3, 4], [10, 0, 2, 4], ["x", "p", "q", "r"]])
def test_declared_classes_without_rows_have_probability_0(loss, declared, tmp_path):
    rows = np.random.default_rng(0).normal(size=(90, 2))
    labels = np.array([0, 2, 4] if "x" not in np.ravel(declared) else ["p", "q", "r"])[np.arange(90) % 3]
    rows[:, 0] += np.arange(90) % 3
    classes = {"classes_count": declared} if isinstance(declared, int) else {"class_names": declared}
    options = {"iterations": 3, "depth": 2, "thread_count": 1, "verbose": 0, "allow_writing_files": False}
    model = fit(catboost.CatBoostClassifier(loss_function=loss, **classes, **options), rows, labels)
    model.save_model(str(tmp_path / "model.cbm"))
    for source in (model, tmp_path / "model.cbm"):
        fx = treeanova.decompose(source, rows, density="independent")
        assert fx.outputs == tuple(map(str, sorted(set(labels.tolist()))))
        assert fx.predict(rows).tolist() == model.predict(rows).ravel().tolist()
        np.testing.assert_allclose(fx.predict_proba(rows), model.predict_proba(rows), atol=1e-12)
    fx.save(tmp_path / "fx.tav")
    np.testing.assert_array_equal(treeanova.load(tmp_path / "fx.tav").predict_proba(rows), fx.predict_proba(rows))
    estimator = treeanova.AdditiveClassifier.from_decomposition(fx)
    assert estimator.classes_.tolist() == model.classes_.tolist()


@pytest.mark.parametrize("threshold", [0.0, 0.2, 0.7, 1.0])
def test_the_probability_threshold_decides_between_two_classes(threshold, tmp_path):
    rows = np.random.default_rng(0).normal(size=(90, 2))
    labels = np.where(rows[:, 0] + np.random.default_rng(1).normal(size=90) > 0, "yes", "no")
    options = {"iterations": 5, "depth": 2, "thread_count": 1, "verbose": 0, "allow_writing_files": False}
    model = fit(catboost.CatBoostClassifier(**options), rows, labels)
    model.set_probability_threshold(threshold)
    model.save_model(str(tmp_path / "model.cbm"))
    model.save_model(str(tmp_path / "model.json"), format="json")
    for source in (model, tmp_path / "model.cbm", tmp_path / "model.json"):
        fx = treeanova.decompose(source, rows, density="independent")
        assert fx.predict(rows).tolist() == model.predict(rows).tolist()
    fx.save(tmp_path / "fx.tav")
    assert treeanova.load(tmp_path / "fx.tav").predict(rows).tolist() == model.predict(rows).tolist()


def test_a_wrapper_does_not_choose_by_the_threshold_of_its_member():
    rows = np.random.default_rng(0).normal(size=(90, 2))
    labels = (rows[:, 0] + np.random.default_rng(1).normal(size=90) > 0).astype(int)
    options = {"iterations": 5, "depth": 2, "thread_count": 1, "verbose": 0, "allow_writing_files": False}
    multiclass = pytest.importorskip("sklearn.multiclass")
    model = fit(multiclass.OneVsRestClassifier(catboost.CatBoostClassifier(**options)), rows, labels)
    model.estimators_[0].set_probability_threshold(0.8)
    fx = treeanova.decompose(model, rows, density="independent")
    assert fx.predict(rows).tolist() == model.predict(rows).tolist()
