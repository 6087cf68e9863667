"""Pipelines in raw columns: scores equal the pipeline's own on, next to and far from every pulled-back threshold."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)

import treeanova
from treeanova.errors import UnsupportedModelError
from treeanova.readers import read_for_rows
from treeanova.readers.columnwise.numbers import floats, ranks

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = np.sin(2 * X[:, 0]) * X[:, 2] + 3 * X[:, 1]
GAPS = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
MODELS = {
    "forest": lambda: RandomForestRegressor(3, max_leaf_nodes=20, random_state=0),
    "histogram": lambda: HistGradientBoostingRegressor(max_iter=5, max_leaf_nodes=8),
}
SCALERS = {
    "standard": StandardScaler,
    "minmax": lambda: MinMaxScaler((5, 9), clip=True),
    "robust": RobustScaler,
    "maxabs": MaxAbsScaler,
    "quantile": lambda: QuantileTransformer(n_quantiles=30),
    "normal": lambda: QuantileTransformer(n_quantiles=30, output_distribution="normal"),
    "power": PowerTransformer,
    "ordinal bins": lambda: KBinsDiscretizer(4, encode="ordinal", strategy="uniform"),
    "one-hot bins": lambda: KBinsDiscretizer(4, encode="onehot-dense", strategy="uniform"),
    "tanh": lambda: FunctionTransformer(np.tanh),
    "decreasing": lambda: FunctionTransformer(lambda x: -(x**3)),
    "imputer": SimpleImputer,
    "sentinel": lambda: SimpleImputer(missing_values=0.0, strategy="median"),
}


def adversarial(forest, base, n_rows=1500, seed=0):
    """Rows of the data in which most values are on a bound of the forest, or the float above or below it."""
    rng = np.random.default_rng(seed)
    rows = base[rng.integers(len(base), size=n_rows)].copy()
    for j in range(base.shape[1]):
        bounds = np.unique(forest.bound[forest.feature == j])
        bounds = bounds[np.abs(bounds) < 1e300]
        pool = np.concatenate([bounds, np.nextafter(bounds, np.inf), np.nextafter(bounds, -np.inf), [0.0, -1e6, 1e6]])
        rows[:, j] = np.where(rng.random(n_rows) < 0.7, rng.choice(pool, n_rows), rows[:, j])
    return rows


def check(pipeline, rows, forest=None):
    forest = read_for_rows(pipeline) if forest is None else forest
    np.testing.assert_allclose(forest.score(rows)[:, 0], pipeline.predict(rows), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("scaler", SCALERS)
def test_transformers_of_numbers(scaler, model):
    pipeline = make_pipeline(SCALERS[scaler](), MODELS[model]()).fit(X, Y)
    forest = read_for_rows(pipeline)
    check(pipeline, adversarial(forest, X), forest)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("indicator", [False, True])
def test_missing_values_go_where_imputed_values_go(model, indicator):
    steps = SimpleImputer(add_indicator=indicator), PowerTransformer(), MODELS[model]()
    pipeline = make_pipeline(*steps).fit(GAPS, Y)
    forest = read_for_rows(pipeline)
    check(pipeline, adversarial(forest, GAPS), forest)
    fx = treeanova.decompose(pipeline, GAPS, density="empirical")
    np.testing.assert_allclose(fx.decision_function(GAPS), pipeline.predict(GAPS), atol=1e-8)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_logarithm_with_numbers_that_it_makes_missing():
    pipeline = make_pipeline(FunctionTransformer(np.log), MODELS["histogram"]()).fit(X, Y)
    forest = read_for_rows(pipeline)
    rows = adversarial(forest, X)
    check(pipeline, np.where(rows == 0, 1.0, rows), forest)  # the model refuses minus infinity


def test_missing_values_are_refused_where_the_transformer_refuses_them():
    pipeline = make_pipeline(KBinsDiscretizer(3, encode="ordinal", strategy="uniform"), MODELS["histogram"]())
    forest = read_for_rows(pipeline.fit(X, Y))
    with pytest.raises(ValueError, match="must have no missing values"):
        forest.score(GAPS)


FRAME = pd.DataFrame(
    {
        "age": X[:, 0],
        "town": pd.Series(RNG.choice(["Ulm", "Jena", "Bonn", "Kiel"], 300), dtype=object),
        "code": RNG.choice([3, 5, 9], 300),
        "note": "text that nothing uses",
    }
)
Z = X[:, 0] + (FRAME["town"] == "Jena") * 2.0 + (FRAME["code"] == 5) * (FRAME["town"] == "Ulm")
ENCODERS = {
    "one-hot": lambda: OneHotEncoder(handle_unknown="ignore"),
    "dense": lambda: OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=3, sparse_output=False),
    "ordinal": lambda: OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    "target": TargetEncoder,
    "imputed": lambda: make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    ),
}


def mixed_rows(frame):
    """Rows with missing and unseen categories, also None."""
    rows = frame.copy()
    rows["code"] = rows["code"].astype(float)
    rows.loc[:20, "town"] = np.nan
    rows.loc[21:40, "town"] = None
    rows.loc[41:60, "town"] = "Rom"
    rows.loc[30:50, "code"] = 7.0
    rows.loc[55:70, "code"] = np.nan
    return rows


@pytest.mark.parametrize("encoder", ENCODERS)
def test_encoders_of_categories(encoder):
    columns = make_column_transformer(
        (StandardScaler(), ["age"]), (ENCODERS[encoder](), ["town", "code"]), sparse_threshold=0
    )
    pipeline = make_pipeline(columns, MODELS["histogram"]()).fit(FRAME, Z)
    fx = treeanova.decompose(pipeline, FRAME, density="empirical")
    assert set(fx.schema.names) == {"age", "town", "code", "note"}
    assert set(fx.terms["town"].axes[0].categories) - {None} == {"Ulm", "Jena", "Bonn", "Kiel"}
    rows = mixed_rows(FRAME)
    np.testing.assert_allclose(fx.decision_function(rows), pipeline.predict(rows), atol=1e-10)


@pytest.mark.parametrize("missing", [np.nan, None])
def test_missing_categories_seen_in_training(missing):
    frame = FRAME[["age", "town"]].copy()
    frame.loc[::7, "town"] = missing
    columns = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["town"]), remainder="passthrough")
    pipeline = make_pipeline(columns, MODELS["forest"]()).fit(frame, Z + 3 * frame["town"].isna())
    check(pipeline, mixed_rows(FRAME)[["age", "town"]])


def test_unseen_categories_are_refused_where_the_encoder_refuses_them():
    pipeline = make_pipeline(make_column_transformer((OneHotEncoder(), ["town"])), MODELS["forest"]()).fit(FRAME, Z)
    forest = read_for_rows(pipeline)
    check(pipeline, FRAME, forest)
    with pytest.raises(ValueError, match="must hold categories of the model, got 'Rom'"):
        forest.score(FRAME.assign(town="Rom"))


def test_a_column_used_as_category_and_as_number_is_refused():
    both = make_union(OneHotEncoder(handle_unknown="ignore", sparse_output=False), StandardScaler())
    pipeline = make_pipeline(both, MODELS["forest"]()).fit(FRAME[["code"]], Z)
    with pytest.raises(UnsupportedModelError, match="both as categories and otherwise"):
        read_for_rows(pipeline)


def test_a_number_that_means_missing_before_an_encoder():
    imputer = SimpleImputer(missing_values=-1, strategy="most_frequent")
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    pipeline = make_pipeline(imputer, encoder, MODELS["forest"]()).fit(FRAME[["code"]], Z)
    check(pipeline, pd.DataFrame({"code": [3, 5, 9, -1, 7, -1]}))


def test_nested_steps_unions_and_selections():
    numbers = make_pipeline(make_union(StandardScaler(), FunctionTransformer(np.exp)), SelectKBest(f_regression, k=3))
    columns = ColumnTransformer([("n", numbers, [2, 0]), ("p", "passthrough", [1]), ("d", "drop", [0])])
    pipeline = make_pipeline(columns, make_pipeline(MinMaxScaler(), MODELS["forest"]())).fit(X, Y)
    forest = read_for_rows(pipeline)
    check(pipeline, np.clip(adversarial(forest, X), -50, 50), forest)


@pytest.mark.parametrize("rows", [X.astype(np.float32), pd.DataFrame(X.astype(np.float32), columns=list("abc"))])
def test_float32_is_refused_where_it_would_round_otherwise(rows):
    frame = pd.DataFrame(X, columns=list("abc"))
    pipeline = make_pipeline(StandardScaler(), MODELS["forest"]()).fit(frame, Y)
    with pytest.raises(TypeError, match="column 'a' must be float64, got float32"):
        treeanova.decompose(pipeline, rows)


def test_decompositions_of_pipelines_are_saved(tmp_path):
    fx = treeanova.decompose(make_pipeline(StandardScaler(), MODELS["forest"]()).fit(X, Y), X, density="empirical")
    fx.save(tmp_path / "fx.zip")
    np.testing.assert_array_equal(treeanova.load(tmp_path / "fx.zip").decision_function(X), fx.decision_function(X))


def test_classifier_and_pandas_output():
    pipeline = make_pipeline(RobustScaler(), RandomForestClassifier(3, max_depth=3, random_state=0))
    frame = pd.DataFrame(X, columns=list("abc"))
    pipeline.set_output(transform="pandas").fit(frame, Y > 0)
    fx = treeanova.decompose(pipeline, frame, density="empirical")
    assert fx.schema.names == tuple("abc")
    np.testing.assert_allclose(fx.decision_function(frame), pipeline.predict_proba(frame)[:, 1], atol=1e-10)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (PCA(2), "PCA, which combines columns; decompose the final step"),
        (PolynomialFeatures(), "PolynomialFeatures, which combines columns"),
        (KNNImputer(), "KNNImputer, which fills a column from other columns"),
        (Normalizer(), "Normalizer, which divides each row"),
        (FunctionTransformer(np.sin), "neither increasing nor decreasing"),
        (FunctionTransformer(lambda x: x + x.sum(axis=1, keepdims=True)), "mixes columns or rows"),
        (FunctionTransformer(lambda x: x - x.mean(axis=0)), "mixes columns or rows"),
    ],
)
def test_what_is_not_column_by_column_is_refused(step, reason):
    pipeline = make_pipeline(step, MODELS["forest"]()).fit(X, Y)
    with pytest.raises(UnsupportedModelError, match=reason):
        treeanova.decompose(pipeline, X)


@given(st.lists(st.sampled_from(sorted(set(SCALERS) - {"one-hot bins", "sentinel"})), min_size=1, max_size=3))
@settings(max_examples=10, deadline=None)
def test_random_pipelines(names):
    pipeline = make_pipeline(*(SCALERS[name]() for name in names), MODELS["forest"]()).fit(X, Y)
    forest = read_for_rows(pipeline)
    check(pipeline, np.clip(adversarial(forest, X), -100, 100), forest)


@given(st.floats(allow_nan=False))
def test_ranks_are_those_of_neighbours(number):
    rank = ranks(np.array([number]))
    assert floats(rank)[0] == number
    if number < np.inf:
        assert floats(rank + 1)[0] == np.nextafter(number, np.inf)
