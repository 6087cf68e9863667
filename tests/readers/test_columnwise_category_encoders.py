"""Pipelines with encoders of category_encoders: known, unseen and missing categories are what these make of them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("category_encoders")
import category_encoders as encoders
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import treeanova
from tests.support.training import fit
from treeanova.errors import UnsupportedModelError
from treeanova.readers import read_for_rows

pytestmark = pytest.mark.filterwarnings("ignore")  # the package warns of pandas' future
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": RNG.normal(size=150),
        "town": pd.Series(RNG.choice(["Ulm", "Jena", "Bonn", "Kiel"], 150), dtype=object),
        "code": RNG.choice([3, 5, 9], 150),
    }
)
Y = (FRAME["age"] + (FRAME["town"] == "Jena") * 2 + (FRAME["code"] == 5) * RNG.normal(size=150) > 0.5).astype(int)
KINDS = [
    "BackwardDifferenceEncoder",
    "BaseNEncoder",
    "BinaryEncoder",
    "CatBoostEncoder",
    "CountEncoder",
    "HelmertEncoder",
    "JamesSteinEncoder",
    "LeaveOneOutEncoder",
    "MEstimateEncoder",
    "OneHotEncoder",
    "OrdinalEncoder",
    "PolynomialEncoder",
    "QuantileEncoder",
    "SumEncoder",
    "TargetEncoder",
    "WOEEncoder",
]


def fitted(encoder, *, alone=False, frame=FRAME):
    columns = make_column_transformer((StandardScaler(), ["age"]), (encoder, ["town", "code"]))
    model = HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=3, max_leaf_nodes=6)
    return fit(make_pipeline(encoder if alone else columns, model), frame, Y)


def rows_with_gaps():
    rows = FRAME.copy()
    rows["code"] = rows["code"].astype(float)
    rows.loc[:10, "town"] = np.nan
    rows.loc[11:20, "town"] = None
    rows.loc[21:40, "town"] = "Rom"
    rows.loc[15:30, "code"] = 7.0
    rows.loc[35:50, "code"] = np.nan
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_encoders(kind):
    pipeline = fitted(getattr(encoders, kind)(cols=["town", "code"]))
    forest, rows = read_for_rows(pipeline, FRAME), rows_with_gaps()
    np.testing.assert_allclose(forest.score(rows)[:, 0], pipeline.decision_function(rows), rtol=1e-11, atol=1e-11)


def test_columns_that_are_not_encoded_and_missing_categories_in_training():
    frame = FRAME.copy()
    frame.loc[::7, "town"] = np.nan
    encoder = encoders.OneHotEncoder(cols=["town"], handle_missing="return_nan", handle_unknown="return_nan")
    pipeline = fitted(encoder, alone=True, frame=frame)
    rows = rows_with_gaps()
    fx = treeanova.decompose(pipeline, frame, density="independent")
    assert set(fx.terms["town"].axes[0].categories) == {"Ulm", "Jena", "Bonn", "Kiel"}
    np.testing.assert_allclose(fx.decision_function(rows), pipeline.decision_function(rows), rtol=1e-11, atol=1e-11)


def test_unseen_categories_are_refused_where_the_encoder_refuses_them():
    forest = read_for_rows(fitted(encoders.TargetEncoder(cols=["town", "code"], handle_unknown="error")))
    with pytest.raises(ValueError, match="'town' must hold categories of the model, got 'Rom'"):
        forest.score(FRAME.assign(town="Rom"))


@pytest.mark.parametrize(
    ("encoder", "reason"),
    [
        (
            encoders.HashingEncoder(cols=["town", "code"], max_process=1),
            "HashingEncoder .* combines columns; decompose",
        ),
        (
            encoders.OrdinalEncoder(cols=["town"], handle_unknown=lambda value, mapping: -7),
            "with functions for unknown",
        ),
    ],
)
def test_what_is_not_column_by_column_is_refused(encoder, reason):
    with pytest.raises(UnsupportedModelError, match=reason):
        read_for_rows(fitted(encoder))
