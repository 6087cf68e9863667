"""Classes of classifiers: the labels that the library itself predicts."""

from __future__ import annotations

import datetime as dt
import warnings

import numpy as np
import pytest

import treeanova
from tests.support.training import fit, shifted, train
from treeanova import read_model
from treeanova.model.effects import class_labels
from treeanova.readers.checks import one_line, version_numbers
from treeanova.readers.outputs import (
    common_objective,
    link_and_objective,
    objective_text,
    output_names,
    plain_labels,
    probability_objective,
)

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


# Objectives.

POSITIVE = np.exp(SCORE / 2)
GROUPS = np.repeat(np.arange(30), 10)
GRADES = np.digitize(SCORE, [-0.5, 0.5])


def xgboost_objective(objective, y=POSITIVE, **options):
    module = pytest.importorskip("xgboost")
    rows = module.DMatrix(shifted(X), shifted(y))
    if objective.startswith("rank"):
        rows.set_group([10] * 30)
    if objective == "survival:aft":
        rows.set_float_info("label_lower_bound", shifted(POSITIVE))
        rows.set_float_info("label_upper_bound", shifted(POSITIVE))
    return train(module, {"objective": objective, "max_depth": 2, "nthread": 1, **options}, rows, 2)


XGBOOST = {
    "squared": ("reg:squarederror", {}),
    "absolute": ("reg:absoluteerror", {}),
    "pinball:0.9": ("reg:quantileerror", {"quantile_alpha": 0.9}),
    "pinball:0.1:0.9": ("reg:quantileerror", {"quantile_alpha": [0.1, 0.9]}),
    "pseudo_huber:2": ("reg:pseudohubererror", {"huber_slope": 2.0}),
    "poisson": ("count:poisson", {}),
    "gamma": ("reg:gamma", {}),
    "tweedie:1.25": ("reg:tweedie", {"tweedie_variance_power": 1.25}),
    "log": ("binary:logistic", {"y": GRADES > 0}),
    "multiclass": ("multi:softprob", {"y": GRADES, "num_class": 3}),
    "cox": ("survival:cox", {}),
    "aft:extreme:1.5": ("survival:aft", {"aft_loss_distribution": "extreme", "aft_loss_distribution_scale": 1.5}),
    "pairwise": ("rank:ndcg", {"y": GRADES}),
    "binary:hinge": ("binary:hinge", {"y": GRADES > 0}),
}


@pytest.mark.parametrize("expected", XGBOOST)
def test_objectives_of_xgboost(expected, tmp_path):
    objective, options = XGBOOST[expected]
    booster = xgboost_objective(objective, **options)
    assert read_model(booster).schema.objective == expected
    booster.save_model(tmp_path / "model.json")
    assert read_model(tmp_path / "model.json").schema.objective == expected


def test_objectives_of_the_user_have_no_name():
    xgboost, lightgbm = pytest.importorskip("xgboost"), pytest.importorskip("lightgbm")

    def own(y, score):
        return score - y, np.ones_like(y)

    model = fit(xgboost.XGBRegressor(objective=own, n_estimators=2, n_jobs=1), X, SCORE)
    assert read_model(model).schema.objective == ""
    model = fit(lightgbm.LGBMRegressor(objective=own, n_estimators=2, n_jobs=1, verbose=-1), X, SCORE)
    assert read_model(model).schema.objective == ""


LIGHTGBM = {
    "squared": {"objective": "regression"},
    "squared of sqrt": {"objective": "regression", "reg_sqrt": True},
    "absolute": {"objective": "regression_l1"},
    "pinball:0.8": {"objective": "quantile", "alpha": 0.8},
    "huber:1.7": {"objective": "huber", "alpha": 1.7},
    "fair:2": {"objective": "fair", "fair_c": 2},
    "mape": {"objective": "mape"},
    "poisson": {"objective": "poisson"},
    "gamma": {"objective": "gamma"},
    "tweedie:1.3": {"objective": "tweedie", "tweedie_variance_power": 1.3},
    "log": {"objective": "binary"},
    "binary sigmoid:2": {"objective": "binary", "sigmoid": 2.0},
    "multiclass": {"objective": "multiclass", "num_class": 3},
    "pairwise": {"objective": "lambdarank"},
}


@pytest.mark.parametrize("expected", LIGHTGBM)
def test_objectives_of_lightgbm(expected, tmp_path):
    module = pytest.importorskip("lightgbm")
    options = {"num_leaves": 4, "verbose": -1, "num_threads": 1} | LIGHTGBM[expected]
    name = options["objective"]
    y = GRADES if name in {"multiclass", "lambdarank"} else GRADES > 0 if name == "binary" else POSITIVE
    group = [10] * 30 if name == "lambdarank" else None
    booster = train(module, options, module.Dataset(shifted(X), shifted(y), group=group), 2)
    assert read_model(booster).schema.objective == expected
    booster.save_model(tmp_path / "model.txt")
    assert read_model(tmp_path / "model.txt").schema.objective == expected


CATBOOST = {
    "squared": "RMSE",
    "absolute": "MAE",
    "pinball:0.9": "Quantile:alpha=0.9",
    "pinball:0.5": "Quantile",
    "pinball:0.1:0.9": "MultiQuantile:alpha=0.1,0.9",
    "expectile:0.3": "Expectile:alpha=0.3",
    "huber:2": "Huber:delta=2",
    "log_cosh": "LogCosh",
    "mape": "MAPE",
    "poisson": "Poisson",
    "tweedie:1.3": "Tweedie:variance_power=1.3",
    "cox": "Cox",
    "aft:logistic:2": "SurvivalAft:dist=Logistic;scale=2",
    "Lq": "Lq:q=3",
}


@pytest.mark.parametrize("expected", CATBOOST)
def test_objectives_of_catboost(expected, tmp_path):
    module = pytest.importorskip("catboost")
    options = {"iterations": 2, "depth": 2, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
    y = np.column_stack([POSITIVE, POSITIVE]) if expected.startswith("aft") else POSITIVE
    model = fit(module.CatBoostRegressor(loss_function=CATBOOST[expected], **options), X, y)
    assert read_model(model).schema.objective == expected
    model.save_model(str(tmp_path / "model.cbm"))
    assert read_model(tmp_path / "model.cbm").schema.objective == expected


SKLEARN = {
    "squared": ("GradientBoostingRegressor", {}),
    "absolute": ("GradientBoostingRegressor", {"loss": "absolute_error"}),
    "pinball:0.8": ("GradientBoostingRegressor", {"loss": "quantile", "alpha": 0.8}),
    "pinball:0.9": ("HistGradientBoostingRegressor", {"loss": "quantile", "quantile": 0.9, "max_iter": 2}),
    "poisson": ("HistGradientBoostingRegressor", {"loss": "poisson", "max_iter": 2}),
    "gamma": ("HistGradientBoostingRegressor", {"loss": "gamma", "max_iter": 2}),
}


@pytest.mark.parametrize("expected", SKLEARN)
def test_objectives_of_scikit_learn(expected):
    name, options = SKLEARN[expected]
    model = fit(getattr(pytest.importorskip("sklearn.ensemble"), name)(**options), X, POSITIVE)
    assert read_model(model).schema.objective == expected


def test_trees_have_the_objective_of_their_leaves():
    ensemble = pytest.importorskip("sklearn.ensemble")
    for criterion, expected in {"squared_error": "squared", "poisson": "squared", "absolute_error": "absolute"}.items():
        forest = fit(ensemble.RandomForestRegressor(3, max_depth=2, criterion=criterion), X, POSITIVE)
        assert read_model(forest).schema.objective == expected
    assert read_model(MODELS["forest"](TARGETS["words"])).schema.objective == "brier"
    boosting = fit(ensemble.GradientBoostingRegressor(loss="huber", n_estimators=3), X, SCORE)
    assert read_model(boosting).schema.objective == f"huber:{boosting._loss.closs.delta:.9g}"
    for kind, expected in {"words": "log", "three words": "multiclass"}.items():
        assert read_model(MODELS["boosting"](TARGETS[kind])).schema.objective == expected
        assert read_model(MODELS["histogram boosting"](TARGETS[kind])).schema.objective == expected
    exponential = sklearn_model("GradientBoostingClassifier", loss="exponential")(TARGETS["words"])
    assert read_model(exponential).schema.objective == "exponential"
    assert read_model(sklearn_model("AdaBoostClassifier")(TARGETS["words"])).schema.objective == ""


EBM = {
    "squared": "rmse",
    "poisson": "poisson_deviance",
    "gamma": "gamma_deviance",
    "tweedie:1.3": "tweedie_deviance:variance_power=1.3",
    "tweedie:1.5": "tweedie_deviance",
    "pseudo_huber:2": "pseudo_huber:delta=2.0",
    "rmse_log": "rmse_log",
}


@pytest.mark.parametrize("expected", EBM)
@pytest.mark.filterwarnings("ignore")
def test_objectives_of_ebms(expected):
    module = pytest.importorskip("interpret.glassbox")
    options = {"interactions": 0, "max_rounds": 5, "outer_bags": 1, "n_jobs": 1}
    model = fit(module.ExplainableBoostingRegressor(objective=EBM[expected], **options), X, POSITIVE)
    assert read_model(model).schema.objective == expected


@pytest.mark.filterwarnings("ignore")
def test_merged_ebms_do_not_state_their_objective():
    module = pytest.importorskip("interpret.glassbox")
    options = {"interactions": 0, "max_rounds": 5, "outer_bags": 1, "n_jobs": 1}
    parts = [fit(module.ExplainableBoostingRegressor(**options), X, SCORE) for _ in range(2)]
    assert read_model(module.merge_ebms(parts)).schema.objective == ""
    parts = [fit(module.ExplainableBoostingClassifier(**options), X, TARGETS["words"]) for _ in range(2)]
    assert read_model(module.merge_ebms(parts)).schema.objective == "log"


def test_objectives_of_ydf():
    ydf, pandas = pytest.importorskip("ydf"), pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=list("abc")).assign(y=SCORE, word=TARGETS["words"])
    options = {"num_trees": 2, "max_depth": 2, "num_threads": 1}
    regression = ydf.GradientBoostedTreesLearner(label="y", task=ydf.Task.REGRESSION, features=list("abc"), **options)
    assert read_model(fit(regression, table, verbose=0)).schema.objective == "squared"
    classes = ydf.GradientBoostedTreesLearner(label="word", features=list("abc"), **options)
    assert read_model(fit(classes, table, verbose=0)).schema.objective == "log"
    forest = ydf.RandomForestLearner(label="word", features=list("abc"), **options)
    assert read_model(fit(forest, table, verbose=0)).schema.objective == "brier"


def test_wrappers_keep_an_objective_that_all_members_have():
    ensemble, linear = pytest.importorskip("sklearn.ensemble"), pytest.importorskip("sklearn.linear_model")
    quantile = ensemble.GradientBoostingRegressor(loss="quantile", alpha=0.9, n_estimators=2)
    squared = ensemble.GradientBoostingRegressor(n_estimators=2)
    same = fit(ensemble.VotingRegressor([("a", quantile), ("b", quantile)]), X, POSITIVE)
    assert read_model(same).schema.objective == "pinball:0.9"
    different = fit(ensemble.VotingRegressor([("a", quantile), ("b", squared)]), X, POSITIVE)
    assert read_model(different).schema.objective == ""
    for last, expected in ((linear.Ridge(), "squared"), (linear.QuantileRegressor(quantile=0.2), "pinball:0.2")):
        stack = fit(ensemble.StackingRegressor([("a", squared), ("b", quantile)], last, cv=2), X, POSITIVE)
        assert read_model(stack).schema.objective == expected


def test_regressors_of_a_transformed_target_keep_the_objective_on_its_scale():
    ensemble, compose = pytest.importorskip("sklearn.ensemble"), pytest.importorskip("sklearn.compose")
    preprocessing = pytest.importorskip("sklearn.preprocessing")

    def objective(regressor, **options):
        return read_model(fit(compose.TransformedTargetRegressor(regressor, **options), X, POSITIVE)).schema.objective

    squared = ensemble.GradientBoostingRegressor(n_estimators=2)
    quantile = ensemble.GradientBoostingRegressor(loss="quantile", alpha=0.9, n_estimators=2)
    assert objective(squared, func=np.log, inverse_func=np.exp) == "squared of log"
    assert objective(quantile, func=np.log1p, inverse_func=np.expm1) == "pinball:0.9 of log1p"
    assert objective(squared, func=np.cbrt, inverse_func=lambda y: y**3) == ""
    assert objective(squared, transformer=preprocessing.StandardScaler()) == "squared"
    assert objective(squared, transformer=preprocessing.QuantileTransformer(n_quantiles=50)) == ""
    huber = ensemble.GradientBoostingRegressor(loss="huber", n_estimators=2)
    model = fit(compose.TransformedTargetRegressor(huber, transformer=preprocessing.StandardScaler()), X, POSITIVE)
    width = model.regressor_._loss.closs.delta * model.transformer_.scale_[0]
    assert float(read_model(model).schema.objective.removeprefix("huber:")) == pytest.approx(width)


def test_names_of_outputs():
    assert output_names(1, ["no"]) == ("score",)
    assert output_names(2, ["no", "yes"]) == ("no", "yes")
    assert output_names(2) == ("y0", "y1")
    assert plain_labels(np.array(["no", "yes"])) == ("no", "yes")
    assert plain_labels(np.array([0, 1])) == (0, 1)


def test_links_and_objectives_in_our_words():
    words = {"identity squared": "RMSE MultiRMSE", "identity absolute": "MAE", "logit": "Focal"}
    assert link_and_objective("MAE", words) == ("identity", "absolute")
    assert link_and_objective("Focal", words) == ("logit", "Focal")
    assert link_and_objective("Multi", words) == ("other", "Multi")
    assert objective_text("pinball", 0.9) == "pinball:0.9"
    assert objective_text("aft", "normal", 1.0) == "aft:normal:1"
    assert (probability_objective("logit"), probability_objective("identity")) == ("log", "")
    assert common_objective(["squared", "squared"]) == "squared"
    assert common_objective(["squared", "absolute"]) == ""


def test_versions_and_text_in_messages():
    assert [version_numbers(text) for text in ("3.4.1", "4.0.0.dev1+local", "unknown")] == [(3, 4, 1), (4, 0, 0), ()]
    assert one_line("a\nb\x1b[0m") == r"a\nb\x1b[0m"
