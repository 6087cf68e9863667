"""A plain terminal, and a folder with models, rows and a saved decomposition."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support.command_line import TERMINAL_VARIABLES
from tests.support.training import fit


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch):
    """100 columns and no colours, whatever the environment says; typer has read some of it when it was imported."""
    rich_utils = pytest.importorskip("typer.rich_utils")
    for variable in TERMINAL_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(rich_utils, "FORCE_TERMINAL", None)
    monkeypatch.setattr(rich_utils, "MAX_WIDTH", None)


@pytest.fixture(scope="session")
def rows():
    """Features with missing values and categories, target, and weights."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    a = rng.normal(size=800)
    b = 0.7 * a + 0.7 * rng.normal(size=800)
    c = np.where(rng.random(800) < 0.1, np.nan, rng.normal(size=800))
    X = pd.DataFrame({"a": a, "b": b, "c": c, "city": pd.Categorical(rng.choice(["Rome", "Oslo", "NA"], 800))})
    y = X["a"] * X["b"] + X["c"].fillna(0.5) + (X["city"] == "Rome")
    return X, y, rng.uniform(0.5, 2, size=800)


@pytest.fixture(scope="session")
def folder(rows, tmp_path_factory):
    """A model, another one, their rows, and a saved decomposition."""
    xgboost = pytest.importorskip("xgboost")
    X, y, weights = rows
    folder = tmp_path_factory.mktemp("cli")
    for name, n_trees in {"model.json": 30, "other.ubj": 10}.items():
        model = fit(xgboost.XGBRegressor(n_estimators=n_trees, max_depth=2, enable_categorical=True, n_jobs=1), X, y)
        model.save_model(folder / name)
    X.assign(y=y, w=weights).to_csv(folder / "rows.csv")
    treeanova.decompose(str(folder / "model.json"), X).save(folder / "fx.tav")
    return folder


@pytest.fixture(scope="session")
def data(folder):
    """Options that name the rows, and the columns that are not features."""
    return ["--data", folder / "rows.csv", "--target", "y", "--target", "w"]


@pytest.fixture(scope="session")
def fx(rows, folder):
    """The decomposition of the model."""
    return treeanova.decompose(folder / "model.json", rows[0])


@pytest.fixture
def own_folder(folder, tmp_path, monkeypatch):
    """Copies of a model, rows and a saved decomposition, in the working directory."""
    for name in ("model.json", "rows.csv", "fx.tav"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path
