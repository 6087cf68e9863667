"""Classes of classifiers: the labels that the library itself predicts."""

from __future__ import annotations

import datetime as dt
import warnings

import numpy as np
import pytest

import treeanova
from treeanova import read_model
from treeanova.model.links import class_labels
from treeanova.readers.outputs import plain_labels
from treeanova.testing.training import fit

# Older versions of LightGBM warn about arrays without names.
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
SCORE = X[:, 0] * X[:, 1] + X[:, 2]
TARGETS = {
    "booleans": SCORE > 0,
    "whole numbers": np.where(SCORE > 0, 4, 1),
    "words": np.where(SCORE > 0, "yes", "no"),
    "three words": np.array(["a", "b", "c"])[np.digitize(SCORE, [-0.5, 0.5])],
    "three numbers": np.array([10, 0, 20])[np.digitize(SCORE, [-0.5, 0.5])],
}


def catboost_model(y, **options):
    module = pytest.importorskip("catboost")
    options = {"iterations": 8, "depth": 2, "verbose": 0, "allow_writing_files": False, "thread_count": 1} | options
    return fit(module.CatBoostClassifier(**options), X, y)


def lightgbm_model(y):
    module = pytest.importorskip("lightgbm")
    return fit(module.LGBMClassifier(n_estimators=8, num_leaves=4, n_jobs=1, verbose=-1), X, y)


def sklearn_model(name, **options):
    def trained(y):
        return fit(getattr(pytest.importorskip("sklearn.ensemble"), name)(**options), X, y)

    return trained


def ebm_model(y):
    module = pytest.importorskip("interpret.glassbox")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(module.ExplainableBoostingClassifier(interactions=0, max_rounds=20, outer_bags=1, n_jobs=1), X, y)


MODELS = {
    "catboost": catboost_model,
    "catboost one against all": lambda y: catboost_model(
        y, loss_function="MultiClassOneVsAll" if len(np.unique(y)) > 2 else "Logloss"
    ),
    "lightgbm": lightgbm_model,
    "forest": sklearn_model("RandomForestClassifier", n_estimators=5, max_depth=3),
    "boosting": sklearn_model("GradientBoostingClassifier", n_estimators=5),
    "histogram boosting": sklearn_model("HistGradientBoostingClassifier", max_iter=5),
    "ebm": ebm_model,
}


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("name", MODELS)
def test_labels_are_those_that_the_library_predicts(name, kind):
    model = MODELS[name](TARGETS[kind])
    content = read_model(model)
    expected = np.ravel(model.predict(X))
    found = class_labels(content.schema, content.score(X))
    np.testing.assert_array_equal(found.astype(str), expected.astype(str))
    assert list(content.schema.classes) == model.classes_.tolist()


def test_files_of_catboost_have_the_classes(tmp_path):
    model = catboost_model(TARGETS["three words"])
    for suffix in ("cbm", "json"):
        model.save_model(str(tmp_path / f"model.{suffix}"), format=suffix)
        assert read_model(tmp_path / f"model.{suffix}").schema.classes == ("a", "b", "c")


def test_several_labels_at_a_time_have_no_classes():
    y = np.stack([SCORE > 0, SCORE > 1], axis=1).astype(int)
    model = catboost_model(y, loss_function="MultiLogloss")
    content = read_model(model)
    assert content.schema.classes == ()
    np.testing.assert_array_equal(class_labels(content.schema, content.score(X)), model.predict(X))


def test_regressors_have_no_classes():
    tree = pytest.importorskip("sklearn.tree")
    assert read_model(fit(tree.DecisionTreeRegressor(max_depth=2), X, SCORE)).schema.classes == ()


def test_classes_are_saved(tmp_path):
    model = MODELS["forest"](TARGETS["three words"])
    treeanova.decompose(model, X, density="empirical").save(tmp_path / "fx.tav")
    assert treeanova.load(tmp_path / "fx.tav").schema.classes == ("a", "b", "c")


def test_labels_that_cannot_be_saved_become_text():
    assert plain_labels(np.array([dt.date(2020, 1, 2), "b"], dtype=object)) == ("2020-01-02", "b")
    assert [type(label) for label in plain_labels(np.array([1, 2]))] == [int, int]


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_regressors_of_shares_predict_means(library):
    """A target between 0 and 1 has the link of a probability, but no classes: predict gives what the library gives."""
    module = pytest.importorskip(library)
    share = 1 / (1 + np.exp(-SCORE))
    if library == "xgboost":
        model = fit(module.XGBRegressor(objective="reg:logistic", n_estimators=8, max_depth=2, n_jobs=1), X, share)
    else:
        model = fit(module.LGBMRegressor(objective="cross_entropy", n_estimators=8, n_jobs=1, verbose=-1), X, share)
    fx = treeanova.decompose(model, X, density="empirical")
    np.testing.assert_allclose(fx.predict(X), model.predict(X), rtol=1e-5)
    with pytest.raises(ValueError, match=r"predict_proba\(\) must have a classifier"):
        fx.predict_proba(X)


@pytest.mark.parametrize("kind", ["whole numbers", "three numbers"])
def test_labels_of_xgboost(kind):
    module = pytest.importorskip("xgboost")
    y = np.unique(TARGETS[kind], return_inverse=True)[1]
    model = fit(module.XGBClassifier(n_estimators=8, max_depth=2, n_jobs=1), X, y)
    fx = treeanova.decompose(model, X, density="empirical")
    np.testing.assert_array_equal(fx.predict(X), model.predict(X))
