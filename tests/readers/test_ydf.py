"""Yggdrasil Decision Forests: leaves and predictions equal ydf's own, on and next to every threshold."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support.edge_values import numeric_candidates
from tests.support.training import fit
from treeanova import read_model
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.effects import class_probabilities, respond

pd = pytest.importorskip("pandas")
ydf = pytest.importorskip("ydf")
COLOURS = ["red", "green", "blue", "rare"]


@pytest.fixture(autouse=True)
def quiet():
    before = ydf.verbose(0)
    yield
    ydf.verbose(before if isinstance(before, int) else 1)


def table(n_rows=400, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n_rows).round(1),
            "b": rng.normal(size=n_rows),
            "colour": rng.choice(COLOURS, n_rows, p=[0.4, 0.3, 0.29, 0.01]).astype(object),
            "flag": rng.random(n_rows) < 0.5,
            "size": rng.integers(0, 6, n_rows),
        }
    )
    X.loc[rng.random(n_rows) < 0.15, "a"] = np.nan
    X.loc[rng.random(n_rows) < 0.15, "colour"] = None
    return X


def target(X, kind):
    score = np.nan_to_num(X["a"]) * X["b"] + 2 * (X["colour"] == "red") + X["flag"] * X["b"] + X["size"] / 3
    score = score + X["a"].isna()
    if kind == "counts":
        return np.exp(score / 3).round()
    cuts = {"number": [], "two": [1.5], "three": [0.5, 1.5]}[kind]
    return np.array(["low", "middle", "high"])[np.digitize(score, cuts)] if cuts else score


def trained(learner, kind, **options):
    X = table()
    options = {"num_trees": 6, "max_depth": 4} | options
    if learner == "CartLearner":
        options.pop("num_trees")
    if learner == "GradientBoostedTreesLearner":
        options["validation_ratio"] = 0.0
    task = ydf.Task.REGRESSION if kind in {"number", "counts"} else ydf.Task.CLASSIFICATION
    return fit(getattr(ydf, learner)(label="y", task=task, **options), X.assign(y=target(X, kind)))


def edge_table(forest, n_rows=1500):
    """Rows on and next to bounds, missing, of unseen categories."""
    rng = np.random.default_rng(1)
    X = table(n_rows, seed=2)
    for j, feature in enumerate(forest.schema.features):
        if feature.name in {"a", "b"}:
            pool = numeric_candidates(forest.bound[forest.feature == j], rng)
            take = rng.random(n_rows) < 0.6
            if len(pool):
                X.loc[take, feature.name] = rng.choice([*pool, np.nan, np.inf, -np.inf], take.sum())
    X["colour"] = rng.choice(np.array([*COLOURS, "unseen", "<OOD>", "", None], dtype=object), n_rows)
    return X


def check(model):
    forest = read_model(model)
    rows = edge_table(forest)
    label = forest.schema.classes[0] if forest.schema.classes else 0.0  # ydf asks for the column, but does not use it
    np.testing.assert_array_equal(forest.leaf_ids(rows), model.predict_leaves(rows.assign(y=label)))
    predicted = model.predict(rows, use_slow_engine=not model.list_compatible_engines())
    np.testing.assert_allclose(
        respond(forest.schema, forest.score(rows)).reshape(predicted.shape), predicted, rtol=2e-5, atol=2e-6
    )
    return forest


CASES = [
    ("GradientBoostedTreesLearner", "number", {}),
    ("GradientBoostedTreesLearner", "number", {"loss": "MEAN_AVERAGE_ERROR"}),
    ("GradientBoostedTreesLearner", "counts", {"loss": "POISSON"}),
    ("GradientBoostedTreesLearner", "two", {}),
    ("GradientBoostedTreesLearner", "two", {"missing_value_policy": "LOCAL_IMPUTATION"}),
    ("GradientBoostedTreesLearner", "three", {"allow_na_conditions": True}),
    ("GradientBoostedTreesLearner", "number", {"discretize_numerical_columns": True}),
    ("GradientBoostedTreesLearner", "number", {"growing_strategy": "BEST_FIRST_GLOBAL"}),
    ("GradientBoostedTreesLearner", "number", {"categorical_algorithm": "RANDOM"}),
    ("GradientBoostedTreesLearner", "number", {"forest_extraction": "DART", "dart_dropout": 0.5}),
    ("RandomForestLearner", "number", {"max_depth": 6}),
    ("RandomForestLearner", "two", {}),
    ("RandomForestLearner", "three", {"max_depth": 8, "min_examples": 1}),
    ("RandomForestLearner", "three", {"winner_take_all": False}),
    ("CartLearner", "two", {}),
    ("CartLearner", "number", {}),
]


@pytest.mark.parametrize(("learner", "kind", "options"), CASES)
def test_leaves_and_predictions(learner, kind, options):
    check(trained(learner, kind, **options))


def test_classes_and_links():
    forest = read_model(trained("GradientBoostedTreesLearner", "two"))
    assert forest.schema.link == "logit"
    assert forest.schema.classes == ("low", "middle")
    model = trained("RandomForestLearner", "three")
    forest = read_model(model)
    assert (forest.schema.link, forest.schema.outputs) == ("probability", tuple(model.label_classes()))
    X = table()
    probabilities = class_probabilities(forest.schema, forest.score(X))
    np.testing.assert_allclose(probabilities, model.predict(X), rtol=1e-6, atol=1e-6)


def test_ties_of_votes_go_to_the_first_class():
    X = pd.DataFrame({"a": np.repeat([0.0, 1.0], 20)})
    y = np.tile(["second", "first"], 20)
    model = fit(
        ydf.RandomForestLearner(label="y", num_trees=3, max_depth=2, bootstrap_training_dataset=False), X.assign(y=y)
    )
    forest = read_model(model)
    np.testing.assert_array_equal(forest.score(X)[:, 0], model.predict(X))


def test_numbers_and_booleans_as_categories():
    X = table()
    X["code"], X["yes"] = np.arange(len(X)) % 4, np.arange(len(X)) % 2 == 0
    X["y"] = (X["code"] == 2) * X["b"] + X["yes"]
    features = [ydf.Feature(name, ydf.Semantic.CATEGORICAL) for name in ("code", "yes")]
    options = {"num_trees": 4, "include_all_columns": True, "validation_ratio": 0.0}
    model = fit(ydf.GradientBoostedTreesLearner(label="y", task=ydf.Task.REGRESSION, features=features, **options), X)
    forest = read_model(model)
    np.testing.assert_allclose(forest.score(X)[:, 0], model.predict(X), rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeError, match=r"column 'code' must hold texts, booleans or whole numbers, got 2\.5"):
        forest.score(X.assign(code=2.5))


def test_large_whole_numbers_are_rounded_once():
    X = pd.DataFrame({"a": np.array([0, 2**60, 2**60 + 2**36, 2**60 + 2**36 + 1, 2**61] * 20)})
    model = fit(
        ydf.CartLearner(label="y", task=ydf.Task.REGRESSION, min_examples=1, validation_ratio=0.0),
        X.assign(y=np.arange(len(X)) % 5),
    )
    np.testing.assert_allclose(read_model(model).score(X)[:, 0], model.predict(X), rtol=1e-6, atol=1e-6)


def test_a_decomposition_adds_up_and_is_saved(tmp_path):
    model = trained("GradientBoostedTreesLearner", "number", max_depth=3)
    X = table()
    fx = treeanova.decompose(model, X)
    np.testing.assert_allclose(fx.decision_function(X), model.predict(X), rtol=1e-5, atol=1e-5)
    fx.save(tmp_path / "fx.tav")
    again = treeanova.load(tmp_path / "fx.tav")
    np.testing.assert_allclose(again.decision_function(X), fx.decision_function(X), rtol=1e-12, atol=1e-12)


def test_folders(tmp_path):
    model = trained("GradientBoostedTreesLearner", "number")
    model.save(str(tmp_path / "model"))
    X = table()
    np.testing.assert_array_equal(read_model(tmp_path / "model").score(X), read_model(model).score(X))
    (tmp_path / "model" / "header.pb").write_bytes(b"junk")
    with pytest.raises(ModelFileError, match="model: it must be a whole folder of ydf, got"):
        read_model(tmp_path / "model")


def test_oblique_trees_are_refused():
    model = trained("RandomForestLearner", "number", split_axis="SPARSE_OBLIQUE")
    with pytest.raises(
        UnsupportedModelError, match=r'weighted sums of columns \(oblique\); train it with split_axis="AX'
    ):
        read_model(model)


def test_sets_of_texts_are_refused():
    X = table()
    words = [["red", "small"] if value > 0 else ["small"] for value in X["b"]]
    X = X.assign(words=words, y=X["b"])[["words", "y"]]
    features = [ydf.Feature("words", ydf.Semantic.CATEGORICAL_SET)]
    model = fit(ydf.RandomForestLearner(label="y", task=ydf.Task.REGRESSION, num_trees=3, features=features), X)
    with pytest.raises(
        UnsupportedModelError, match="column 'words' must hold numbers, booleans or categories, got CATEGORICAL_SET"
    ):
        read_model(model)


def test_isolation_forests_are_refused():
    X = table()[["a", "b"]].fillna(0)
    with pytest.raises(UnsupportedModelError, match="got IsolationForestModel for the task ANOMALY_DETECTION"):
        read_model(fit(ydf.IsolationForestLearner(num_trees=3), X))
