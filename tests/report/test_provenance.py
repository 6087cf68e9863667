from __future__ import annotations

import dataclasses
import importlib.metadata
import pathlib

import numpy as np
import pytest

import treeanova
from tests.support.forests import chains
from treeanova.report.payload import model_name, python_call_of, versions


def test_the_model_goes_by_its_class_or_file(fx):
    assert model_name(fx) == "GradientBoostingRegressor"
    assert model_name(dataclasses.replace(fx, model=pathlib.Path("models/price.json"))) == "price.json"
    assert model_name(dataclasses.replace(fx, model=None)) == "the model"


def test_the_call_has_the_highest_order_of_a_truncated_decomposition(fx):
    assert python_call_of(fx) == 'treeanova.decompose(model, X, density="auto")'
    weighted = treeanova.decompose(chains([(0, 0.5)]), np.eye(3), density="empirical", sample_weight=[1, 2, 3])
    assert python_call_of(weighted) == 'treeanova.decompose(model, X, density="empirical", sample_weight=weights)'
    assert python_call_of(fx.truncate(1)) == 'treeanova.decompose(model, X, density="auto", max_order=1)'


def test_versions_name_the_library_of_the_model(fx):
    assert versions(fx)["sklearn"] == importlib.metadata.version("scikit-learn")
    xgboost = pytest.importorskip("xgboost")
    assert versions(dataclasses.replace(fx, model=xgboost.XGBRegressor()))["xgboost"] == xgboost.__version__
    assert set(versions(dataclasses.replace(fx, model=None))) == {"treeanova", "numpy", "Python"}
