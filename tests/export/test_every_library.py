"""Exports of models of every library and task: equal to the library's own prediction at cuts, gaps and odd values."""

from __future__ import annotations

import importlib.util
import shutil
import warnings

import numpy as np
import pytest

import treeanova
from tests.support.training import fit
from treeanova.export.artifact import adversarial_rows, form_of

pd = pytest.importorskip("pandas")
LABELS = ["x", "it's", "naïve ×", "", "y", "z"]
TASKS = ("numbers", "two", "three", "counts")
LIBRARIES = ("xgboost", "lightgbm", "catboost", "histogram", "gradient", "interpret")
# One task of each library runs always, the others where slow tests do.
QUICK = {
    ("xgboost", "three"),
    ("lightgbm", "two"),
    ("catboost", "numbers"),
    ("histogram", "counts"),
    ("gradient", "two"),
}
PAIRS = [
    pytest.param((library, task), marks=() if (library, task) in QUICK else pytest.mark.thorough)
    for library in LIBRARIES
    for task in TASKS
    if (library, task) != ("gradient", "counts")  # it has no such loss
]


def rows(n_rows=400):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"u": rng.normal(size=n_rows), "v": rng.normal(size=n_rows).round(1)})
    X["g"] = pd.Categorical(rng.choice(LABELS, n_rows), categories=LABELS)
    X.loc[rng.random(n_rows) < 0.2, "u"] = np.nan
    y = X["u"].fillna(1.0) * (X["g"].cat.codes > 3) + X["v"] * X["u"].fillna(0) + (X["g"].cat.codes % 3)
    return X, y.to_numpy()


def target(y, task):
    if task == "counts":
        return np.round(y - y.min())
    n_classes = {"two": 2, "three": 3}.get(task)
    return y if n_classes is None else np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))


def xgboost_model(task):
    library = pytest.importorskip("xgboost")
    objective = {"counts": {"objective": "count:poisson"}}.get(task, {})
    kind = library.XGBClassifier if task in {"two", "three"} else library.XGBRegressor
    model = kind(n_estimators=8, max_depth=2, learning_rate=0.5, enable_categorical=True, **objective)
    return model, lambda fitted, X: fitted.predict(X, output_margin=True)


def lightgbm_model(task):
    library = pytest.importorskip("lightgbm")
    objective = {"objective": "poisson"} if task == "counts" else {}
    kind = library.LGBMClassifier if task in {"two", "three"} else library.LGBMRegressor
    model = kind(n_estimators=8, max_depth=2, min_child_samples=5, cat_smooth=1, verbose=-1, **objective)
    return model, lambda fitted, X: fitted.predict(X, raw_score=True)


def catboost_model(task):
    library = pytest.importorskip("catboost")
    options = {"one_hot_max_size": 20, "verbose": False, "allow_writing_files": False, "cat_features": ["g"]}
    if task == "counts":
        options["loss_function"] = "Poisson"
    kind = library.CatBoostClassifier if task in {"two", "three"} else library.CatBoostRegressor
    model = kind(iterations=8, depth=2, **options)
    return model, lambda fitted, X: fitted.predict(X, prediction_type="RawFormulaVal")


def histogram_model(task):
    library = pytest.importorskip("sklearn.ensemble")
    options = {"max_iter": 8, "max_depth": 2, "categorical_features": "from_dtype", "min_samples_leaf": 5}
    if task in {"two", "three"}:
        return library.HistGradientBoostingClassifier(**options), lambda fitted, X: fitted.decision_function(X)
    loss = "poisson" if task == "counts" else "squared_error"
    model = library.HistGradientBoostingRegressor(loss=loss, **options)
    return model, lambda fitted, X: np.log(fitted.predict(X)) if task == "counts" else fitted.predict(X)


def gradient_model(task):
    library = pytest.importorskip("sklearn.ensemble")
    if task in {"two", "three"}:
        model = library.GradientBoostingClassifier(n_estimators=8, max_depth=2)
        return model, lambda fitted, X: fitted.decision_function(X)
    return library.GradientBoostingRegressor(n_estimators=8, max_depth=2), lambda fitted, X: fitted.predict(X)


def interpret_model(task):
    library = pytest.importorskip("interpret.glassbox")
    options = {"max_rounds": 15, "outer_bags": 1, "max_bins": 12, "n_jobs": 1}
    if task in {"two", "three"}:
        model = library.ExplainableBoostingClassifier(interactions=2 if task == "two" else 0, **options)
        return model, lambda fitted, X: fitted.decision_function(X)
    options["objective"] = "poisson_deviance" if task == "counts" else "rmse"
    model = library.ExplainableBoostingRegressor(interactions=2, **options)
    return model, lambda fitted, X: np.log(fitted.predict(X)) if task == "counts" else fitted.predict(X)


MAKERS = {
    "xgboost": xgboost_model, "lightgbm": lightgbm_model, "catboost": catboost_model, "histogram": histogram_model,
    "gradient": gradient_model, "interpret": interpret_model,
}  # fmt: skip


def table_for(library, X):
    """The rows with the types that a library takes."""
    if library == "gradient":
        return X[["u", "v"]].fillna(0.0)
    if library == "xgboost":  # it cuts names beyond ASCII
        X = X.assign(g=X["g"].cat.rename_categories({"naïve ×": 'say "no"'}))
    return X.assign(g=X["g"].astype(object)) if library in {"catboost", "interpret"} else X


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def problem(request):
    """A decomposition, adversarial rows as the library takes them, its raw prediction there, and the fitted model."""
    library, task = request.param
    X, y = rows()
    X = table_for(library, X)
    model, raw = MAKERS[library](task)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = fit(model, X, target(y, task))
        fx = treeanova.decompose(fitted, X, density="independent")
        odd = odd_rows(library, fx, X)
        scores = np.reshape(raw(fitted, odd), (len(odd), -1))
    # XGBoost adds in float32.
    np.testing.assert_allclose(
        fx.decision_function(odd).reshape(scores.shape), scores, atol=1e-5 if library == "xgboost" else 1e-12
    )
    return fx, odd, fitted


def odd_rows(library, fx, X):
    """Rows from the cuts of the export; columns that no term uses have values of the data."""
    made_rows = pd.DataFrame(adversarial_rows(form_of(fx), 300, seed=1))
    table = X.iloc[np.arange(len(made_rows)) % len(X)].reset_index(drop=True)
    for name in made_rows:
        column = made_rows[name]
        if isinstance(X[name].dtype, pd.CategoricalDtype):
            known = [value for value in dict.fromkeys(column) if isinstance(value, str)]
            table[name] = pd.Categorical(column, categories=known)
        else:
            table[name] = column.astype(X[name].dtype)
    table = table.reset_index(drop=True)
    return table.replace([np.inf, -np.inf], [9e30, -9e30]) if library == "gradient" else table  # it refuses infinities


def test_programs_and_queries_equal_the_library(problem):
    fx, odd, _ = problem
    exports = [treeanova.export.python(fx)]
    if shutil.which("node"):
        exports.append(treeanova.export.javascript(fx))
    exports += [
        treeanova.export.sql(fx, dialect="sqlite", columns=columns) for columns in ("score", "response", "terms")
    ]
    if importlib.util.find_spec("duckdb"):
        exports.append(treeanova.export.sql(fx, columns="terms"))
    for export in exports:
        proof = treeanova.export.verify(export, odd)
        assert proof.largest_difference < 1e-12, proof
        assert proof.n_rows == len(odd) >= 300


def test_onnx_equals_the_library(problem):
    fx, odd, _ = problem
    pytest.importorskip("onnxruntime")
    for columns in ("score", "terms"):
        model = treeanova.export.onnx(fx, columns=columns, missing_text="<missing>")
        proof = treeanova.export.verify(model, odd)
        assert proof.largest_difference < 1e-12, proof
        assert ("terms" in proof.results) == (columns == "terms")


def test_onnx_has_the_classes_and_probabilities_of_the_library(problem):
    fx, odd, fitted = problem
    runtime = pytest.importorskip("onnxruntime")
    if not hasattr(fitted, "classes_") or not len(fitted.classes_):
        return
    model = treeanova.export.onnx(fx, missing_text="<missing>")
    assert model.columns == ("score", "probability", "label")
    inputs = {
        name: odd[[name]].astype(object).where(odd[[name]].notna(), "<missing>").to_numpy()
        if name == "g"
        else odd[[name]].to_numpy(dtype=np.float64)
        for name in [axis.name for axis in model.form.axes]
    }
    session = runtime.InferenceSession(bytes(model), providers=["CPUExecutionProvider"])
    score, probability, label = session.run(None, inputs)
    expected = fitted.predict_proba(odd)
    np.testing.assert_allclose(probability, expected, atol=1e-6)
    is_clear = np.diff(np.sort(expected, axis=1)[:, -2:]).ravel() > 1e-6
    np.testing.assert_array_equal(label[is_clear], np.ravel(fitted.predict(odd))[is_clear])
    np.testing.assert_allclose(score, np.reshape(fx.decision_function(odd), score.shape), atol=1e-12)


def test_interprets_ebm_equals_the_library(problem):
    fx, odd, _ = problem
    pytest.importorskip("interpret.glassbox")
    pure = treeanova.export.ebm(fx)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        score = pure.decision_function(odd) if hasattr(pure, "classes_") else pure._predict_score(odd)
        terms = pure.eval_terms(odd)
    np.testing.assert_allclose(score, np.reshape(fx.decision_function(odd), score.shape), atol=1e-12)
    for place, term in enumerate(fx.terms):
        np.testing.assert_allclose(terms[:, place], fx.term_values(odd, term), atol=1e-12)
