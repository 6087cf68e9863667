"""MLflow keeps the estimators: what is loaded predicts the same; skipped where mlflow is not installed."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support.training import fit

pytestmark = pytest.mark.filterwarnings("ignore")
ensemble = pytest.importorskip("sklearn.ensemble")
pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def mlflow():
    return pytest.importorskip("mlflow", exc_type=ImportError)


@pytest.mark.parametrize("is_classifier", [False, True])
def test_estimators_come_back(mlflow, is_classifier, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=["a", "b", "c"])
    y = X["a"] * X["b"] + X["c"]
    kind = ensemble.GradientBoostingClassifier if is_classifier else ensemble.GradientBoostingRegressor
    model = fit(kind(max_depth=2, n_estimators=10), X, y > 0 if is_classifier else y)
    fx = treeanova.decompose(model, X)
    estimator = getattr(treeanova, f"Additive{'Classifier' if is_classifier else 'Regressor'}").from_decomposition(fx)
    mlflow.sklearn.save_model(estimator, str(tmp_path / "model"), serialization_format="cloudpickle")
    loaded = mlflow.sklearn.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X) if is_classifier else estimator.predict(X))
    served = mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(X)
    np.testing.assert_array_equal(served, estimator.predict(X))


def test_onnx_models_come_back(mlflow, tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    fx = treeanova.decompose(
        fit(ensemble.GradientBoostingRegressor(max_depth=2, n_estimators=10), X, X[:, 0] - X[:, 1]), X
    )
    mlflow.onnx.save_model(onnx.load_from_string(bytes(treeanova.export.onnx(fx))), str(tmp_path / "model"))
    served = mlflow.pyfunc.load_model(str(tmp_path / "model")).predict({"x0": X[:, [0]], "x1": X[:, [1]]})
    # MLflow gives float32 to graphs that ask for it; these ask for float64.
    np.testing.assert_allclose(served["score"][:, 0], fx.decision_function(X), atol=1e-12)


def test_a_logged_estimator_comes_back(mlflow, tmp_path, monkeypatch):
    pytest.importorskip("sqlalchemy", reason="mlflow-skinny has no store for runs")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'runs.db'}")
    tables = {"a": [-1.0, 2.0], ("a", "b"): [[0.0, 1.0], [0.5, 0.0]]}
    effects = treeanova.model.Effects.from_tables(tables, thresholds={"a": [0.5], "b": [0.5]})
    fx = treeanova.decompose(effects, density="uniform")
    estimator = treeanova.AdditiveRegressor.from_decomposition(fx)
    with mlflow.start_run():
        logged = mlflow.sklearn.log_model(estimator, name="model", serialization_format="cloudpickle")
    X = pd.DataFrame({"a": [0.0, 1.0, 0.0, 1.0], "b": [0.0, 0.0, 1.0, 1.0]})
    served = mlflow.sklearn.load_model(logged.model_uri).predict(X)
    np.testing.assert_allclose(served, [-1.0, 2.5, 0.0, 2.0], atol=1e-12)
