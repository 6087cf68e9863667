"""Wrappers of scikit-learn, compared with their own predictions on and next to every threshold."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.special

pytest.importorskip("sklearn")
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, RandomizedSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeClassifier

import treeanova
from tests.support.edge_values import numeric_rows
from tests.support.training import fit
from treeanova.errors import UnsupportedModelError
from treeanova.readers import read_model

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=(200, 3)), RNG.integers(-3, 4, 200) / 10])
Y = np.sin(2 * X[:, 0]) * X[:, 2] + 3 * X[:, 3] + RNG.normal(size=200) * 0.2
TWO = np.where(Y > 0, "yes", "no")
THREE = np.digitize(Y, [-0.5, 0.5]) * 10


def boosted(**options):
    return GradientBoostingRegressor(n_estimators=4, max_depth=2, random_state=0, **options)


def forest_of_trees(**options):
    return RandomForestRegressor(3, max_depth=4, random_state=0, **options)


def hist(**options):
    return HistGradientBoostingRegressor(max_iter=4, max_leaf_nodes=6, random_state=0, **options)


def lightgbm_regressor():
    library = pytest.importorskip("lightgbm")
    return library.LGBMRegressor(n_estimators=4, num_leaves=6, verbose=-1, n_jobs=1)


def xgboost_regressor():
    return pytest.importorskip("xgboost").XGBRegressor(n_estimators=4, max_depth=3, n_jobs=1)


def catboost_regressor():
    library = pytest.importorskip("catboost")
    return library.CatBoostRegressor(iterations=4, depth=3, verbose=0, thread_count=1, allow_writing_files=False)


def classes_forest():
    return RandomForestClassifier(3, max_depth=4, random_state=0)


def classes_trees():
    return ExtraTreesClassifier(3, max_depth=4, random_state=0)


def classes_boosted():
    return GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0)


def hard_rows(forest):
    """Rows around all thresholds, with missing values where every member takes them."""
    missing = all(feature.accepts_missing for feature in forest.schema.features)
    return numeric_rows(forest, np.random.default_rng(1), 1000, missing=missing, infinite=False, base=X)


def check(model, raw, rtol=1e-12):
    """The score equals what a function of the wrapper gives, row by row."""
    forest = read_model(model)
    rows = hard_rows(forest)
    with np.errstate(all="ignore"):
        expected = np.asarray(raw(rows)).reshape(len(rows), -1)
    np.testing.assert_allclose(forest.score(rows), expected, rtol=rtol, atol=rtol)
    return forest


def no_warnings():
    return pytest.mark.filterwarnings("ignore:X does not have valid feature names")


# One model


@pytest.mark.parametrize("search", [GridSearchCV, RandomizedSearchCV, HalvingGridSearchCV])
def test_a_search_is_its_best_model(search):
    options = {"n_iter": 2} if search is RandomizedSearchCV else {}
    model = fit(search(boosted(), {"max_depth": [1, 3]}, cv=2, **options), X, Y)
    forest = check(model, model.predict)
    fx = treeanova.decompose(model, X)
    np.testing.assert_allclose(fx.decision_function(X), model.predict(X), atol=1e-9)
    assert forest.n_trees == 4


def test_a_search_without_a_final_fit_is_refused():
    model = fit(GridSearchCV(boosted(), {"max_depth": [1, 3]}, cv=2, refit=False), X, Y)
    with pytest.raises(UnsupportedModelError, match="no `best_estimator_`; fit it first, with refit=True"):
        read_model(model)


def test_a_search_over_pipelines_is_read_on_the_columns_that_enter_them():
    model = fit(GridSearchCV(make_pipeline(StandardScaler(), boosted()), {}, cv=2), 5 + 3 * X, Y)
    fx = treeanova.decompose(model, 5 + 3 * X)
    np.testing.assert_allclose(fx.decision_function(5 + 3 * X), model.predict(5 + 3 * X), atol=1e-9)
    np.testing.assert_allclose(read_model(model).score(5 + 3 * X)[:, 0], model.predict(5 + 3 * X), atol=1e-9)


def test_votes_of_pipelines_with_different_steps():
    members = [("plain", boosted()), ("scaled", make_pipeline(StandardScaler(), boosted(learning_rate=0.5)))]
    model = fit(VotingRegressor(members), 5 + 3 * X, Y)
    fx = treeanova.decompose(model, 5 + 3 * X)
    np.testing.assert_allclose(fx.decision_function(5 + 3 * X), model.predict(5 + 3 * X), atol=1e-9)
    with pytest.raises(TypeError, match="must be float64, got float32"):
        fx.decision_function((5 + 3 * X).astype(np.float32))


def test_bags_of_pipelines_with_some_columns_each():
    member = make_pipeline(StandardScaler(), boosted())
    model = fit(BaggingRegressor(member, n_estimators=3, max_features=0.7, random_state=0), 5 + 3 * X, Y)
    fx = treeanova.decompose(model, 5 + 3 * X)
    np.testing.assert_allclose(fx.decision_function(5 + 3 * X), model.predict(5 + 3 * X), atol=1e-9)


def test_a_pipeline_in_a_wrapper_that_mixes_columns_is_refused():
    model = fit(GridSearchCV(make_pipeline(PCA(2), boosted()), {}, cv=2), X, Y)
    with pytest.raises(UnsupportedModelError, match="PCA, which combines columns"):
        read_model(model)


def test_a_frozen_model():
    model = FrozenEstimator(fit(boosted(), X, Y))
    check(model, model.predict)


@pytest.mark.parametrize(
    "transformer",
    [
        StandardScaler(),
        StandardScaler(with_mean=False),
        StandardScaler(with_std=False),
        RobustScaler(),
        RobustScaler(with_centering=False),
        MinMaxScaler((-1, 3)),
        MaxAbsScaler(),
        FunctionTransformer(),
    ],
)
def test_an_affine_target_is_undone_in_the_leaves(transformer):
    model = fit(TransformedTargetRegressor(boosted(), transformer=transformer), X, 100 + 7 * Y)
    assert check(model, model.predict).schema.link == "identity"


def test_the_logarithm_of_a_target_is_a_link():
    model = fit(TransformedTargetRegressor(boosted(), func=np.log, inverse_func=np.exp), X, np.exp(Y))
    check(model, model.regressor_.predict)
    fx = treeanova.decompose(model, X)
    assert read_model(model).schema.link == "log"
    np.testing.assert_allclose(fx.predict(X), model.predict(X), rtol=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        TransformedTargetRegressor(boosted(), func=np.log1p, inverse_func=np.expm1),
        TransformedTargetRegressor(boosted(), transformer=QuantileTransformer(n_quantiles=20)),
        TransformedTargetRegressor(hist(loss="poisson"), func=np.sqrt, inverse_func=np.square),
    ],
)
def test_other_targets_have_a_score_and_no_response(model):
    fit(model, X, np.exp(Y))
    inner = read_model(model.regressor_)
    forest = check(model, inner.score)
    assert forest.schema.link == "other"
    with pytest.raises(ValueError, match="known link"):
        treeanova.decompose(model, X).predict(X)


# Weighted sums


@pytest.mark.parametrize("weights", [None, [1, 5, 2]])
def test_votes_of_regressors(weights):
    members = [("a", boosted()), ("b", forest_of_trees()), ("c", hist())]
    model = fit(VotingRegressor(members, weights=weights), X, Y)
    assert check(model, model.predict).n_trees == 4 + 3 + 4


def test_a_dropped_member_has_no_weight():
    members = [("a", boosted()), ("b", "drop"), ("c", hist())]
    model = fit(VotingRegressor(members, weights=[1, 5, 2]), X, Y)
    check(model, model.predict)


@no_warnings()
@pytest.mark.parametrize("make", [lightgbm_regressor, xgboost_regressor, catboost_regressor])
def test_votes_across_libraries(make):
    model = fit(VotingRegressor([("a", make()), ("b", hist())], weights=[3, 1]), X, Y)
    check(model, model.predict, rtol=2e-6)


@no_warnings()
def test_parts_that_read_sparse_matrices_or_integers_in_different_ways():
    model = fit(VotingRegressor([("a", xgboost_regressor()), ("b", lightgbm_regressor())]), X, Y)
    forest = read_model(model)
    with pytest.raises(ValueError, match="must be dense, because parts of the model"):
        forest.score(scipy.sparse.csr_matrix(X))
    whole = np.arange(40).reshape(10, 4) - 20
    np.testing.assert_allclose(forest.score(whole)[:, 0], model.predict(whole), rtol=2e-6)
    with pytest.raises(ValueError, match="integers that float32 can hold"):
        forest.score(whole + 2**24 + 1)


def test_names_of_the_columns_are_those_of_the_wrapper():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a b", "b", "c", "d"])
    model = fit(VotingRegressor([("a", boosted()), ("b", hist())]), frame, Y)
    forest = read_model(model)
    assert (forest.schema.names, forest.schema.named) == (("a b", "b", "c", "d"), True)
    np.testing.assert_allclose(forest.score(frame[["d", "c", "b", "a b"]])[:, 0], model.predict(frame), rtol=1e-12)


def test_members_that_read_a_column_in_different_ways_are_refused():
    codes = np.column_stack([X[:, :3], RNG.integers(0, 4, 200)])
    members = [("a", hist(categorical_features=[3])), ("b", boosted())]
    model = fit(VotingRegressor(members), codes, Y)
    with pytest.raises(UnsupportedModelError, match="in different ways"):
        read_model(model)
    same = fit(VotingRegressor([members[0], ("b", hist(categorical_features=[3], l2_regularization=3))]), codes, Y)
    np.testing.assert_allclose(read_model(same).score(codes)[:, 0], same.predict(codes), rtol=1e-12)


def test_a_mean_of_exponentials_is_refused():
    model = fit(VotingRegressor([("a", hist(loss="poisson")), ("b", boosted())]), X, np.exp(Y))
    with pytest.raises(UnsupportedModelError, match="no sum over leaves; decompose the members"):
        read_model(model)


@pytest.mark.parametrize("classes", [TWO, THREE], ids=["two", "three"])
def test_soft_votes_of_forests(classes):
    model = VotingClassifier([("a", classes_forest()), ("b", classes_trees())], voting="soft", weights=[1, 3])
    fit(model, X, classes)
    n = 1 if classes is TWO else 3
    forest = check(model, lambda rows: model.predict_proba(rows)[:, -n:])
    assert forest.schema.classes == tuple(model.classes_.tolist())
    fx = treeanova.decompose(model, X)
    np.testing.assert_allclose(fx.predict_proba(X), model.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize(
    ("members", "voting", "message"),
    [
        ([("a", classes_forest())], "hard", 'fit it with voting="soft"'),
        ([("a", classes_boosted()), ("b", classes_forest())], "soft", "averages probabilities.*'logit'"),
    ],
)
def test_votes_that_are_no_sum_are_refused(members, voting, message):
    with pytest.raises(UnsupportedModelError, match=message):
        read_model(fit(VotingClassifier(members, voting=voting), X, TWO))


@pytest.mark.parametrize("last", [None, LinearRegression(), Ridge(fit_intercept=False)])
def test_stacks_with_a_linear_last_step(last):
    model = fit(StackingRegressor([("a", boosted()), ("b", forest_of_trees())], last, cv=2), X, Y)
    check(model, model.predict)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (StackingRegressor([("a", boosted())], boosted(), cv=2), "must be a linear model.*got GradientBoosting"),
        (StackingRegressor([("a", boosted())], PoissonRegressor(), cv=2), "got PoissonRegressor"),
        (StackingRegressor([("a", boosted())], passthrough=True, cv=2), "passthrough=False"),
        (StackingRegressor([("a", boosted()), ("b", SVR())], cv=2), "SVR cannot be read"),
    ],
)
def test_other_stacks_are_refused(model, message):
    with pytest.raises(UnsupportedModelError, match=message):
        read_model(fit(model, X, np.exp(Y)))


@pytest.mark.parametrize("method", ["auto", "decision_function"])
def test_stacks_of_classifiers_by_log_odds(method):
    members = [classes_forest(), classes_trees()] if method == "auto" else [classes_boosted(), AdaBoostClassifier()]
    named = [(str(k), member) for k, member in enumerate(members)]
    model = fit(StackingClassifier(named, LogisticRegression(), cv=2, stack_method=method), X, TWO)
    forest = check(model, model.decision_function, rtol=1e-11)
    assert (forest.schema.link, forest.schema.classes) == ("logit", ("no", "yes"))


@pytest.mark.parametrize(
    ("member", "classes", "message"),
    [(classes_boosted(), TWO, "sees `predict_proba` of a member"), (classes_forest(), THREE, "must have two classes")],
)
def test_other_stacks_of_classifiers_are_refused(member, classes, message):
    model = fit(StackingClassifier([("a", member)], LogisticRegression(), cv=2), X, classes)
    with pytest.raises(UnsupportedModelError, match=message):
        read_model(model)


@no_warnings()
@pytest.mark.parametrize("make", [boosted, hist, lightgbm_regressor, xgboost_regressor])
@pytest.mark.parametrize("some_columns", [False, True])
def test_bags_of_ensembles(make, some_columns):
    options = {"max_features": 0.6, "bootstrap_features": True} if some_columns else {}
    model = fit(BaggingRegressor(make(), n_estimators=5, random_state=0, **options), X, Y)
    check(model, model.predict, rtol=1e-12 if make in {boosted, hist} else 2e-6)


@pytest.mark.parametrize("classes", [TWO, THREE], ids=["two", "three"])
def test_bags_of_forests_of_classes(classes):
    model = fit(BaggingClassifier(classes_forest(), n_estimators=3, random_state=0, max_features=0.7), X, classes)
    n = 1 if classes is TWO else 3
    check(model, lambda rows: model.predict_proba(rows)[:, -n:])


def test_bags_of_boosted_classifiers_are_refused():
    model = fit(BaggingClassifier(classes_boosted(), n_estimators=2, random_state=0), X, TWO)
    with pytest.raises(UnsupportedModelError, match="averages probabilities"):
        read_model(model)


def test_bags_whose_members_met_some_classes_only_are_refused():
    rare = np.where(np.arange(200) == 7, 3, np.arange(200) % 3)
    member = make_pipeline(classes_forest())  # takes no weights, so that rows are left out
    model = fit(BaggingClassifier(member, n_estimators=6, max_samples=0.2, random_state=0), X, rare)
    assert min(len(member.classes_) for member in model.estimators_) == 3
    with pytest.raises(UnsupportedModelError, match="some of the classes only"):
        read_model(model)


# Calibration


@pytest.mark.parametrize("member", [classes_boosted(), classes_forest(), DecisionTreeClassifier(max_depth=3)])
def test_the_sigmoid_of_one_member_is_a_logistic_link(member):
    model = fit(CalibratedClassifierCV(member, method="sigmoid", ensemble=False, cv=2), X, TWO)
    forest = check(model, lambda rows: scipy.special.logit(model.predict_proba(rows)[:, 1]), rtol=1e-9)
    assert (forest.schema.link, forest.schema.classes) == ("logit", ("no", "yes"))
    fx = treeanova.decompose(model, X)
    np.testing.assert_allclose(fx.predict_proba(X), model.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize(("method", "classes"), [("isotonic", TWO), ("isotonic", THREE), ("sigmoid", THREE)])
def test_other_calibrations_leave_the_score_of_the_member(method, classes):
    model = fit(CalibratedClassifierCV(classes_boosted(), method=method, ensemble=False, cv=2), X, classes)
    member = model.calibrated_classifiers_[0].estimator
    forest = check(model, member.decision_function)
    assert forest.schema.link == "other"
    with pytest.raises(ValueError, match=r"by a known link, got the link .other."):
        treeanova.decompose(model, X).predict_proba(X)


def test_a_sigmoid_of_probabilities_that_are_no_sum_has_no_link():
    library = pytest.importorskip("xgboost")
    member = library.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1)
    model = fit(CalibratedClassifierCV(member, method="sigmoid", ensemble=False, cv=2), X, (TWO == "yes").astype(int))
    inner = model.calibrated_classifiers_[0].estimator
    forest = check(model, lambda rows: inner.predict(rows, output_margin=True), rtol=2e-6)
    assert forest.schema.link == "other"


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_several_calibrated_members_are_the_mean_of_their_scores_with_a_warning(method):
    model = fit(CalibratedClassifierCV(classes_boosted(), method=method, cv=3), X, TWO)
    members = [one.estimator for one in model.calibrated_classifiers_]
    with pytest.warns(treeanova.errors.ScoreWarning, match=r"scores of its 3 members .* no function of this score"):
        forest = check(model, lambda rows: np.mean([one.decision_function(rows) for one in members], axis=0))
    assert forest.schema.link == "other"
    with pytest.warns(treeanova.errors.ScoreWarning):
        fx = treeanova.decompose(model, X)
    with pytest.raises(ValueError, match=r"by a known link, got the link 'other'; use decision_function\(\)"):
        fx.predict_proba(X)


# One model for each output


def test_one_regressor_for_each_target():
    model = fit(MultiOutputRegressor(hist()), X, np.column_stack([Y, Y**2, -Y]))
    assert check(model, model.predict).schema.outputs == ("y0", "y1", "y2")
    fx = treeanova.decompose(model, X)
    np.testing.assert_allclose(fx.decision_function(X), model.predict(X), atol=1e-9)


def test_one_classifier_for_each_target():
    targets = np.column_stack([Y > 0, X[:, 0] > 0.5]).astype(int)
    model = fit(MultiOutputClassifier(classes_boosted()), X, targets)
    forest = check(model, lambda rows: np.column_stack([e.decision_function(rows) for e in model.estimators_]))
    assert forest.schema.link == "logit"
    np.testing.assert_array_equal(treeanova.decompose(model, X).predict(X), model.predict(X))


def test_targets_with_other_labels_or_averaged_probabilities_have_no_response():
    words = np.column_stack([TWO, np.where(X[:, 0] > 0, "up", "down")])
    for member in (classes_boosted(), classes_forest()):
        assert read_model(fit(MultiOutputClassifier(member), X, words)).schema.link == "other"
    model = fit(MultiOutputClassifier(classes_forest()), X, words)
    check(model, lambda rows: np.column_stack([p[:, 1] for p in model.predict_proba(rows)]))


def test_targets_of_several_classes_are_refused():
    model = fit(MultiOutputClassifier(classes_boosted()), X, np.column_stack([THREE, Y > 0]).astype(int))
    with pytest.raises(UnsupportedModelError, match="must have one output"):
        read_model(model)


@pytest.mark.parametrize("member", [classes_boosted(), HistGradientBoostingClassifier(max_iter=3)])
def test_one_versus_rest(member):
    model = fit(OneVsRestClassifier(member), X, THREE)
    forest = check(model, model.decision_function)
    assert (forest.schema.outputs, forest.schema.link) == (("0", "10", "20"), "other")
    two = fit(OneVsRestClassifier(member), X, TWO)
    assert check(two, two.decision_function).schema.classes == ("no", "yes")
    np.testing.assert_array_equal(treeanova.decompose(two, X).predict_proba(X).argmax(1), two.predict(X) == "yes")


def test_one_versus_rest_of_many_labels():
    labels = np.column_stack([Y > 0, X[:, 0] > 0.5, X[:, 1] > 0]).astype(int)
    model = fit(OneVsRestClassifier(classes_boosted()), X, labels)
    assert check(model, model.decision_function).schema.link == "logit"
    fx = treeanova.decompose(model, X)
    np.testing.assert_array_equal(fx.predict(X), model.predict(X))
    np.testing.assert_allclose(fx.predict_proba(X), model.predict_proba(X), atol=1e-9)


# All of them


def test_wrappers_in_wrappers():
    votes = VotingRegressor([("a", boosted()), ("b", BaggingRegressor(hist(), n_estimators=2, random_state=0))])
    target = TransformedTargetRegressor(votes, transformer=StandardScaler())
    model = fit(GridSearchCV(MultiOutputRegressor(target), {}, cv=2), X, np.column_stack([Y, -Y]))
    check(model, model.predict)


@pytest.mark.parametrize(
    "model",
    [
        GridSearchCV(boosted(), {}),
        VotingRegressor([("a", boosted())]),
        StackingRegressor([("a", boosted())]),
        MultiOutputRegressor(boosted()),
        OneVsRestClassifier(classes_boosted()),
        CalibratedClassifierCV(classes_boosted()),
        TransformedTargetRegressor(boosted()),
    ],
)
def test_unfitted_wrappers_are_refused(model):
    with pytest.raises(UnsupportedModelError, match="fit it first"):
        read_model(model)


def test_a_wrapper_that_predicts_in_its_own_way_is_refused():
    class Doubled(VotingRegressor):
        def predict(self, X):
            return 2 * super().predict(X)

    with pytest.raises(UnsupportedModelError, match="Doubled cannot be read: it overrides `predict`"):
        read_model(fit(Doubled([("a", boosted())]), X, Y))


def test_members_that_are_no_trees_are_refused():
    with pytest.raises(UnsupportedModelError, match="LinearRegression cannot be read"):
        read_model(fit(VotingRegressor([("a", LinearRegression()), ("b", boosted())]), X, Y))


@no_warnings()
@pytest.mark.parametrize("make", [ExtraTreesRegressor, xgboost_regressor])
def test_a_decomposition_of_a_wrapper_can_be_saved(make, tmp_path):
    model = fit(VotingRegressor([("a", boosted()), ("b", make().set_params(n_estimators=2, max_depth=3))]), X, Y)
    fx = treeanova.decompose(model, X)
    fx.save(tmp_path / "votes.tav")
    saved = treeanova.load(tmp_path / "votes.tav")
    np.testing.assert_allclose(saved.decision_function(X), model.predict(X), atol=1e-6)
    if make is xgboost_regressor:
        with pytest.raises(ValueError, match="must be dense"):
            saved.decision_function(scipy.sparse.csr_matrix(X))
