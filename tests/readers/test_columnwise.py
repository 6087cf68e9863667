"""Pipelines in raw columns: scores equal the pipeline's own on, next to and far from every pulled-back threshold."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("sklearn")
import pandas as pd
import scipy.sparse
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline, make_union
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
from tests.support.training import fit
from treeanova.data.files import read_table
from treeanova.errors import UnsupportedModelError
from treeanova.readers import read_for_rows
from treeanova.readers.pipelines.maps import float_ranks, floats_at

pytestmark = [
    pytest.mark.filterwarnings("ignore:Found unknown categories:UserWarning"),
    pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning"),  # LightGBM 4.6
    pytest.mark.filterwarnings("ignore:.*TargetEncoder.random_state:FutureWarning"),
]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = np.sin(2 * X[:, 0]) * X[:, 2] + 3 * X[:, 1]
GAPS = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
MODELS = {
    "forest": lambda: RandomForestRegressor(2, max_leaf_nodes=6, random_state=0),
    "histogram": lambda: HistGradientBoostingRegressor(max_iter=3, max_leaf_nodes=6, random_state=0),
    "xgboost": lambda: pytest.importorskip("xgboost").XGBRegressor(n_estimators=3, max_depth=3, n_jobs=1),
    "lightgbm": lambda: pytest.importorskip("lightgbm").LGBMRegressor(
        n_estimators=3, num_leaves=6, n_jobs=1, verbose=-1, deterministic=True
    ),
    "boosting": lambda: GradientBoostingRegressor(n_estimators=3, max_depth=2, random_state=0),
}
THREE = ("forest", "histogram", "xgboost")
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


def with_models(transformers):
    """Each transformer with one model, in turn; with the others where there is time."""
    return [
        pytest.param(transformer, model, marks=[] if i % len(THREE) == k else pytest.mark.thorough)
        for i, transformer in enumerate(transformers)
        for k, model in enumerate(THREE)
    ]


def on_and_next_to(bounds):
    """Numbers on bounds, and the floats above and below them."""
    bounds = bounds[np.abs(bounds) < 1e300]
    return np.concatenate([bounds, np.nextafter(bounds, np.inf), np.nextafter(bounds, -np.inf), [0.0, -1e6, 1e6]])


def adversarial(forest, base, n_rows=800, seed=0):
    """Rows of the data in which most values are on a bound of the forest, or the float above or below it."""
    rng = np.random.default_rng(seed)
    rows = base[rng.integers(len(base), size=n_rows)].copy()
    for j in range(base.shape[1]):
        pool = on_and_next_to(np.unique(forest.bound[forest.feature == j]))
        rows[:, j] = np.where(rng.random(n_rows) < 0.7, rng.choice(pool, n_rows), rows[:, j])
    return rows


def close(scores, expected):
    """Equal up to rounding, which is that of float32 in XGBoost."""
    tolerance = 2e-6 if np.asarray(expected).dtype == np.float32 else 1e-11
    np.testing.assert_allclose(scores, expected, rtol=tolerance, atol=tolerance)


def check(pipeline, rows, forest=None):
    forest = read_for_rows(pipeline) if forest is None else forest
    close(forest.score(rows)[:, 0], pipeline.predict(rows))


def check_terms(pipeline, data, rows_of):
    """The sum of all terms of a decomposition is the pipeline's prediction at adversarial rows."""
    fx = treeanova.decompose(pipeline, data, density="independent")
    rows = rows_of(fx)
    close(fx.decision_function(rows), pipeline.predict(rows))


def rows_around_terms(fx, base=X, n_rows=800):
    """Rows in which most values are on or next to an end of a bin of a main effect."""
    rng = np.random.default_rng(1)
    rows = base[rng.integers(len(base), size=n_rows)].copy()
    for j, name in enumerate(fx.schema.names):
        if name in fx.terms:
            pool = on_and_next_to(np.asarray(fx.terms[name].axes[0].thresholds, dtype=np.float64))
            rows[:, j] = np.where(rng.random(n_rows) < 0.7, rng.choice(pool, n_rows), rows[:, j])
    return rows


@pytest.mark.parametrize(("scaler", "model"), with_models(SCALERS))
def test_transformers_of_numbers(scaler, model):
    pipeline = fit(make_pipeline(SCALERS[scaler](), MODELS[model]()), X, Y)
    check_terms(pipeline, X, rows_around_terms)


@pytest.mark.parametrize("model", THREE)
def test_box_cox(model):
    positive = np.exp(X)
    pipeline = fit(make_pipeline(PowerTransformer("box-cox"), MODELS[model]()), positive, Y)
    check_terms(pipeline, positive, lambda fx: np.clip(rows_around_terms(fx, positive), 1e-300, None))


@pytest.mark.parametrize("model", THREE)
@pytest.mark.parametrize("indicator", [False, True])
def test_missing_values_go_where_imputed_values_go(model, indicator):
    steps = SimpleImputer(add_indicator=indicator), RobustScaler(), MODELS[model]()
    pipeline = fit(make_pipeline(*steps), GAPS, Y)
    check_terms(pipeline, GAPS, lambda fx: rows_around_terms(fx, GAPS))


@pytest.mark.parametrize("model", THREE)
def test_indicators_of_missing_values(model):
    pipeline = fit(make_pipeline(make_union(SimpleImputer(), MissingIndicator()), MODELS[model]()), GAPS, Y)
    check_terms(pipeline, GAPS, lambda fx: rows_around_terms(fx, GAPS))


def test_none_in_a_column_of_numbers():
    frame = pd.DataFrame({"a": pd.Series(list(X[:, 0]), dtype=object), "b": X[:, 1]})
    frame.loc[::9, "a"] = None
    check(fit(make_pipeline(StandardScaler(), MODELS["histogram"]()), frame, Y), frame)


@pytest.mark.parametrize("function", [np.tanh, np.negative])
def test_infinite_numbers(function):
    pipeline = fit(make_pipeline(FunctionTransformer(function), MODELS["histogram"]()), X, Y)
    rows = np.array([[np.inf, -np.inf, 0.5], [-np.inf, np.inf, np.inf], [0.1, -np.inf, -np.inf]])
    check(pipeline, rows)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_logarithm_with_numbers_that_it_makes_missing():
    pipeline = fit(make_pipeline(FunctionTransformer(np.log), MODELS["histogram"]()), X, Y)
    forest = read_for_rows(pipeline)
    rows = adversarial(forest, X)
    check(pipeline, np.where(rows == 0, 1.0, rows), forest)  # the model refuses minus infinity


def test_missing_values_are_refused_where_the_transformer_refuses_them():
    pipeline = make_pipeline(KBinsDiscretizer(3, encode="ordinal", strategy="uniform"), MODELS["histogram"]())
    forest = read_for_rows(fit(pipeline, X, Y))
    with pytest.raises(ValueError, match="must have no missing values"):
        forest.score(GAPS)


FRAME = pd.DataFrame(
    {
        "age": X[:, 0],
        "town": pd.Series(RNG.choice(["Ulm", "Jena", "Bonn", "Kiel"], 200, p=[0.4, 0.3, 0.2, 0.1]), dtype=object),
        "code": RNG.choice([3, 5, 9], 200),
        "note": "text that nothing uses",
    }
)
Z = X[:, 0] + (FRAME["town"] == "Jena") * 2.0 + (FRAME["code"] == 5) * (FRAME["town"] == "Ulm")
ENCODERS = {
    "one-hot": lambda: OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    "sparse": lambda: OneHotEncoder(handle_unknown="ignore"),
    "drop first": lambda: OneHotEncoder(handle_unknown="ignore", drop="first"),
    "drop if binary": lambda: OneHotEncoder(handle_unknown="ignore", drop="if_binary"),
    "max categories": lambda: OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=3),
    "min frequency": lambda: OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=50),
    "ordinal": lambda: OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    "ordinal options": lambda: OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-5, max_categories=3
    ),
    "target": lambda: TargetEncoder(random_state=0),
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


def mixed_around_terms(fx):
    """Rows with missing and unseen categories, and numbers on and next to ends of bins."""
    rows = mixed_rows(pd.concat([FRAME, FRAME.sample(200, random_state=0)], ignore_index=True))
    pool = on_and_next_to(np.asarray(fx.terms["age"].axes[0].thresholds)) if "age" in fx.terms else np.zeros(1)
    rows.loc[::2, "age"] = np.random.default_rng(0).choice(pool, len(rows[::2]))
    return rows


@pytest.mark.parametrize(("encoder", "model"), with_models(ENCODERS))
def test_encoders_of_categories(encoder, model):
    check_encoder(encoder, model, sparse_threshold=0)


@pytest.mark.parametrize(("encoder", "model"), [("sparse", "forest"), ("drop first", "xgboost")])
def test_encoders_of_categories_in_sparse_columns(encoder, model):
    check_encoder(encoder, model, sparse_threshold=1.0)


def check_encoder(encoder, model, sparse_threshold):
    columns = make_column_transformer(
        (StandardScaler(), ["age"]), (ENCODERS[encoder](), ["town", "code"]), sparse_threshold=sparse_threshold
    )
    pipeline = fit(make_pipeline(columns, MODELS[model]()), FRAME, Z)
    fx = treeanova.decompose(pipeline, FRAME, density="independent")
    assert fx.schema.names == ("age", "town", "code", "note")
    assert set(fx.terms["town"].axes[0].categories) - {None} == {"Ulm", "Jena", "Bonn", "Kiel"}
    rows = mixed_around_terms(fx)
    close(fx.decision_function(rows), pipeline.predict(rows))


@pytest.mark.parametrize("sparse_threshold", [0, 1.0])
def test_zeros_that_are_missing(sparse_threshold):
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMRegressor(n_estimators=3, num_leaves=6, n_jobs=1, verbose=-1, zero_as_missing=True)
    columns = make_column_transformer(
        (MaxAbsScaler(), ["age"]), (ENCODERS["sparse"](), ["town"]), sparse_threshold=sparse_threshold
    )
    pipeline = fit(make_pipeline(columns, model), FRAME, Z)
    rows = mixed_rows(FRAME)
    rows.loc[::3, "age"] = 0.0
    check(pipeline, rows)


def test_sparse_rows_are_refused_where_absent_entries_are_missing():
    rows = scipy.sparse.csr_matrix(np.where(X > 0, X, 0.0))
    pipeline = fit(make_pipeline(MaxAbsScaler(), MODELS["forest"]()), rows, Y)
    check(pipeline, rows)
    pipeline = fit(make_pipeline(MaxAbsScaler(), MODELS["xgboost"]()), rows, Y)
    check(pipeline, rows.toarray())
    with pytest.raises(ValueError, match="`X` must be dense"):
        treeanova.decompose(pipeline, rows)


def test_target_encoder_of_several_classes():
    columns = make_column_transformer((TargetEncoder(random_state=0), ["town"]), remainder="drop")
    classes = np.digitize(Z, [0.0, 1.0])
    pipeline = fit(make_pipeline(columns, RandomForestClassifier(2, max_leaf_nodes=6, random_state=0)), FRAME, classes)
    rows = mixed_rows(FRAME)
    np.testing.assert_allclose(read_for_rows(pipeline).score(rows), pipeline.predict_proba(rows), atol=1e-12)


def test_columns_of_pandas_categories_and_of_polars():
    columns = make_column_transformer((OneHotEncoder(), ["town"]), ("passthrough", ["age"]))
    frame = FRAME.assign(town=FRAME["town"].astype("category"))
    check(fit(make_pipeline(columns, MODELS["forest"]()), frame, Z), frame)
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"code": FRAME["code"].astype(str).tolist(), "town": FRAME["town"].tolist()})
    pipeline = fit(make_pipeline(OneHotEncoder(), MODELS["forest"]()), table, Z)
    fx = treeanova.decompose(pipeline, table, density="empirical")
    close(fx.decision_function(table), pipeline.predict(table))


@pytest.mark.parametrize("known", [FRAME["age"] > 0, (FRAME["age"] > 0).astype(object).where(FRAME["age"] < 1, np.nan)])
def test_boolean_categories(known):
    columns = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["old"]))
    frame = pd.DataFrame({"old": known})
    check(fit(make_pipeline(columns, MODELS["forest"]()), frame, Z), frame)


def test_dates_as_categories_are_refused():
    frame = pd.DataFrame({"day": pd.to_datetime(["2020-01-01", "2021-05-05"] * 100)})
    pipeline = fit(make_pipeline(OneHotEncoder(), MODELS["forest"]()), frame, Z)
    with pytest.raises(UnsupportedModelError, match=r"an encoder of dates.*turn these into text first"):
        read_for_rows(pipeline)


def test_functions_of_dates_are_refused():
    def day(frame):
        return frame.apply(lambda column: column.dt.month)

    frame = pd.DataFrame({"day": pd.to_datetime(["2020-01-01", "2021-05-05"] * 100)})
    pipeline = fit(make_pipeline(FunctionTransformer(day), MODELS["forest"]()), frame, Z)
    with pytest.raises(UnsupportedModelError, match=r"accept none of the numbers tried \(AttributeError"):
        read_for_rows(pipeline)


@pytest.mark.parametrize("model", ["boosting", "lightgbm"])
def test_other_models_at_the_end(model):
    columns = make_column_transformer((StandardScaler(), ["age"]), (ENCODERS["one-hot"](), ["town"]))
    pipeline = fit(make_pipeline(columns, MODELS[model]()), FRAME, Z)
    check_terms(pipeline, FRAME, mixed_around_terms)


def test_catboost_at_the_end():
    catboost = pytest.importorskip("catboost")
    model = catboost.CatBoostRegressor(iterations=3, depth=2, verbose=0, random_seed=0, allow_writing_files=False)
    columns = make_column_transformer((StandardScaler(), ["age"]), (ENCODERS["one-hot"](), ["town"]))
    pipeline = fit(make_pipeline(columns, model), FRAME, Z)
    check_terms(pipeline, FRAME, mixed_around_terms)


def test_all_columns_of_an_encoder_are_one_feature():
    columns = make_column_transformer((StandardScaler(), ["age"]), (ENCODERS["one-hot"](), ["town", "code"]))
    target = (FRAME["town"] == "Jena") * (FRAME["code"] == 5) * 3.0 + (FRAME["town"] == "Ulm")
    pipeline = fit(make_pipeline(columns, MODELS["forest"]()), FRAME.assign(age=0.0), target)
    fx = treeanova.decompose(pipeline, FRAME.assign(age=0.0), density="empirical")
    assert {name for names in fx.terms for name in names} <= {"age", "town", "code"}
    towns = {label.split(" or ")[0] for label in fx.table("town")["town"]}
    pair = fx.table(("town", "code"))
    assert towns == {"Ulm", "Jena", "Bonn", "Kiel"} == {label.split(" or ")[0] for label in pair["town"]}
    assert {str(label).split(" or ")[0] for label in pair["code"]} == {"3", "5", "9"}
    # Categories that share a bin are named together; the model does not use the age.
    cells = pair.assign(town=pair["town"].str.split(" or ").str[0], code=pair["code"].astype(str).str[0].astype(float))
    own = {name: fx.table(name).set_index(name)["value"] for name in ("town", "code")}
    mains = [{str(label).split(" or ")[0]: value for label, value in own[name].items()} for name in ("town", "code")]
    scores = [
        fx.intercept + mains[0][town] + mains[1][f"{code:.0f}"] + value
        for town, code, value in zip(cells["town"], cells["code"], cells["value"], strict=True)
    ]
    close(scores, pipeline.predict(cells[["town", "code"]].assign(age=0.0, note="")))


def test_plots_name_the_categories_of_an_encoder():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    columns = make_column_transformer((ENCODERS["one-hot"](), ["town"]))
    pipeline = fit(make_pipeline(columns, MODELS["forest"]()), FRAME, Z)
    axes = treeanova.plot.effect(treeanova.decompose(pipeline, FRAME, density="empirical"), "town")
    texts = " ".join(label.get_text() for label in [*axes.get_xticklabels(), *axes.get_yticklabels()])
    assert all(town in texts for town in ("Ulm", "Jena", "Bonn", "Kiel"))


@pytest.mark.parametrize("missing", [np.nan, None])
def test_missing_categories_seen_in_training(missing):
    frame = FRAME[["age", "town"]].copy()
    frame.loc[::7, "town"] = missing
    columns = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["town"]), remainder="passthrough")
    pipeline = fit(make_pipeline(columns, MODELS["forest"]()), frame, Z + 3 * frame["town"].isna())
    check(pipeline, mixed_rows(FRAME)[["age", "town"]])


def encoders_with_kinds_of_missing():
    """One encoder with each kind, each encoder with a kind; all with all where there is time."""
    quick = {
        ("one-hot", "NaN"),
        ("one-hot", "None"),
        ("one-hot", "NaN None"),
        ("ordinal", "None"),
        ("imputed", "NaN None"),
    }
    for encoder, kind in itertools.product(("one-hot", "ordinal", "imputed"), ("NaN", "None", "NaN None")):
        marks = [] if (encoder, kind) in quick else pytest.mark.thorough
        yield pytest.param(encoder, kind.split(), marks=marks, id=f"{encoder}-{kind}")


@pytest.mark.parametrize(("encoder", "kind"), list(encoders_with_kinds_of_missing()))
def test_nulls_of_files_are_the_kind_of_missing_that_training_knew_else_what_pandas_reads(encoder, kind, tmp_path):
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    frame = FRAME[["age", "town"]].astype({"town": object})
    missing = {"NaN": np.nan, "None": None}
    for i, name in enumerate(kind):
        frame.loc[i :: 7 * len(kind), "town"] = pd.Series([missing[name]], dtype=object).iloc[0]
    step = {
        "one-hot": OneHotEncoder(handle_unknown="ignore"),
        "ordinal": OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-2, encoded_missing_value=-1),
        "imputed": make_pipeline(
            SimpleImputer(strategy="constant", fill_value="none", missing_values=missing[kind[0]]),
            OneHotEncoder(handle_unknown="ignore"),
        ),
    }[encoder]
    columns = make_column_transformer((step, ["town"]), remainder="passthrough", sparse_threshold=0)
    pipeline = fit(make_pipeline(columns, MODELS["forest"]()), frame, Z + 9 * frame["town"].isna())
    fx = treeanova.decompose(pipeline, frame, density="independent")
    frame.to_parquet(tmp_path / "rows.parquet")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    one_kind = pd.Series(np.where(frame["town"].isna(), missing[kind[0]], frame["town"]), dtype=object)
    rows = frame.assign(town=one_kind) if len(kind) == 1 else pd.read_parquet(tmp_path / "rows.parquet")
    expected = pipeline.predict(rows)
    close(fx.decision_function(pa.Table.from_pandas(frame)), expected)
    close(treeanova.decompose(pipeline, tmp_path / "rows.parquet", density="empirical").intercept, expected.mean())
    fx.save(tmp_path / "fx.tav")
    for library in ("polars", "pyarrow", "pandas"):
        schema = treeanova.load(tmp_path / "fx.tav").schema
        table = read_table(tmp_path / "rows.csv", schema, library=library)
        close(fx.decision_function(table), expected)
    polars_rows = pl.DataFrame({name: frame[name].where(frame[name].notna(), None).tolist() for name in frame})
    close(fx.decision_function(polars_rows), pipeline.predict(polars_rows))


@pytest.mark.parametrize("missing", [np.nan, None])
def test_nulls_among_booleans_are_not_nan_to_an_encoder_that_knows_none(missing):
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    cells = np.resize(np.array([True, False, missing, True], dtype=object), len(FRAME))
    frame = pd.DataFrame({"age": FRAME["age"], "paid": pd.Series(cells, dtype=object)})
    columns = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["paid"]), remainder="passthrough")
    pipeline = fit(make_pipeline(columns, MODELS["forest"]()), frame, Z + 9 * frame["paid"].isna())
    fx = treeanova.decompose(pipeline, frame, density="independent")
    nulls = [None if pd.isna(cell) else cell for cell in cells]
    polars_rows = pl.DataFrame({"age": frame["age"].to_numpy(), "paid": nulls})
    close(fx.decision_function(polars_rows), pipeline.predict(polars_rows))
    close(fx.decision_function(pa.table({"age": frame["age"], "paid": pa.array(nulls)})), pipeline.predict(frame))


@pytest.mark.parametrize("encoder", [OneHotEncoder, OrdinalEncoder])
def test_none_is_refused_where_the_encoder_knows_nan_only(encoder):
    frame = FRAME[["town"]].copy()
    frame.loc[::7, "town"] = np.nan
    columns = make_column_transformer((encoder(), ["town"]), sparse_threshold=0)
    pipeline = fit(make_pipeline(columns, MODELS["histogram"]()), frame, Z)
    forest = read_for_rows(pipeline)
    check(pipeline, frame, forest)
    frame.loc[0, "town"] = None
    with pytest.raises(ValueError, match="'town' must not hold None, got it in 1 rows"):
        forest.score(frame)


def test_missing_values_that_encoders_read_in_different_ways_are_refused():
    pipeline = make_pipeline(make_column_transformer((TargetEncoder(random_state=0), ["town"])), MODELS["forest"]())
    forest = read_for_rows(fit(pipeline, FRAME, Z))
    with pytest.raises(TypeError, match="'town' must have NaN or None where it is missing, got pandas' NA or NaT"):
        forest.score(FRAME.assign(town=pd.NA))


def test_columns_that_no_split_sees_are_read_as_the_transformers_read_them():
    kept = ColumnTransformer([("kept", "passthrough", [1])])
    forest = read_for_rows(fit(make_pipeline(RobustScaler(), kept, MODELS["histogram"]()), X, X[:, 1]))
    forest.score(GAPS)  # RobustScaler accepts missing values
    with pytest.raises(TypeError, match="column 'x0' must hold numbers, got 'text'"):
        forest.score(np.array([["text", 1.0, 2.0]], dtype=object))
    bins = KBinsDiscretizer(3, encode="ordinal", strategy="uniform")
    forest = read_for_rows(fit(make_pipeline(bins, kept, MODELS["histogram"]()), X, X[:, 1]))
    with pytest.raises(ValueError, match="column 'x0' must have no missing values"):
        forest.score(np.array([[np.nan, 1.0, 2.0]]))


def test_unseen_categories_are_refused_where_the_encoder_refuses_them():
    pipeline = fit(make_pipeline(make_column_transformer((OneHotEncoder(), ["town"])), MODELS["forest"]()), FRAME, Z)
    forest = read_for_rows(pipeline)
    check(pipeline, FRAME, forest)
    with pytest.raises(ValueError, match="must hold categories of the model, got 'Rom'"):
        forest.score(FRAME.assign(town="Rom"))


def test_a_column_used_as_category_and_as_number_is_refused():
    both = make_union(OneHotEncoder(handle_unknown="ignore", sparse_output=False), StandardScaler())
    pipeline = fit(make_pipeline(both, MODELS["forest"]()), FRAME[["code"]], Z)
    with pytest.raises(UnsupportedModelError, match="both as categories and otherwise"):
        read_for_rows(pipeline)


def test_a_number_that_means_missing_before_an_encoder():
    imputer = SimpleImputer(missing_values=-1, strategy="most_frequent")
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    pipeline = fit(make_pipeline(imputer, encoder, MODELS["forest"]()), FRAME[["code"]], Z)
    check(pipeline, pd.DataFrame({"code": [3, 5, 9, -1, 7, -1]}))


def test_nested_steps_unions_and_selections():
    numbers = make_pipeline(make_union(StandardScaler(), FunctionTransformer(np.cbrt)), SelectKBest(f_regression, k=3))
    columns = ColumnTransformer([("n", numbers, [2, 0]), ("p", "passthrough", [1]), ("d", "drop", [0])])
    pipeline = fit(make_pipeline(columns, make_pipeline(MinMaxScaler(), MODELS["forest"]())), X, Y)
    forest = read_for_rows(pipeline)
    check(pipeline, np.clip(adversarial(forest, X), -50, 50), forest)


@pytest.mark.parametrize("rows", [X.astype(np.float32), pd.DataFrame(X.astype(np.float32), columns=list("abc"))])
def test_float32_is_refused_where_it_would_round_otherwise(rows):
    frame = pd.DataFrame(X, columns=list("abc"))
    pipeline = fit(make_pipeline(StandardScaler(), MODELS["forest"]()), frame, Y)
    with pytest.raises(TypeError, match="column 'a' must be float64, got float32"):
        treeanova.decompose(pipeline, rows)


def test_decompositions_of_pipelines_are_saved(tmp_path):
    columns = make_column_transformer((StandardScaler(), ["age"]), (ENCODERS["one-hot"](), ["town"]))
    pipeline = fit(make_pipeline(columns, MODELS["forest"]()), FRAME, Z)
    fx = treeanova.decompose(pipeline, FRAME, density="empirical")
    fx.save(tmp_path / "fx.tav")
    rows = mixed_rows(FRAME)
    np.testing.assert_array_equal(
        treeanova.load(tmp_path / "fx.tav").decision_function(rows), fx.decision_function(rows)
    )


def test_plan_of_a_pipeline_is_in_raw_columns():
    columns = make_column_transformer((ENCODERS["one-hot"](), ["town", "code"]))
    pipeline = fit(make_pipeline(columns, MODELS["histogram"]()), FRAME, Z)
    assert str(treeanova.plan(pipeline)).startswith("order 1: 2 terms")


def test_classifier_and_pandas_output():
    pipeline = make_pipeline(RobustScaler(), RandomForestClassifier(3, max_depth=3, random_state=0))
    frame = pd.DataFrame(X, columns=list("abc"))
    fit(pipeline.set_output(transform="pandas"), frame, Y > 0)
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
    pipeline = fit(make_pipeline(step, MODELS["forest"]()), X, Y)
    with pytest.raises(UnsupportedModelError, match=reason):
        treeanova.decompose(pipeline, X)


def raised_at_three(x):
    return np.where(np.asarray(x) == 3.0, 9.0, np.asarray(x))


@pytest.mark.parametrize("as_frame", [False, True])
def test_functions_that_are_not_what_they_seem_are_refused_at_rows(as_frame):
    rows = X.copy()
    rows[::5, 0] = 3.0
    pipeline = make_pipeline(FunctionTransformer(raised_at_three), MODELS["forest"]())
    rows = pd.DataFrame(rows, columns=list("abc")) if as_frame else rows
    fit(pipeline, rows, np.asarray(rows)[:, 0] == 3.0)
    read_for_rows(pipeline)  # without rows, nothing shows it
    with pytest.raises(
        UnsupportedModelError, match=r"acts on the rows of `X` in another way .* decompose the final step"
    ):
        treeanova.decompose(pipeline, rows)


def test_functions_of_the_type_of_a_column_are_refused_at_rows():
    def halved(frame):
        return frame / 2 if (frame.dtypes == np.int64).all() else frame

    frame = pd.DataFrame({"code": FRAME["code"].astype(np.int64)})
    pipeline = fit(make_pipeline(FunctionTransformer(halved), MODELS["forest"]()), frame, Z)
    with pytest.raises(UnsupportedModelError, match="acts on the rows of `X` in another way"):
        treeanova.decompose(pipeline, frame)


def test_tables_with_more_columns_in_another_order_are_compared():
    frame = pd.DataFrame(X, columns=list("abc"))
    frame.loc[::5, "a"] = 3.0
    pipeline = fit(make_pipeline(FunctionTransformer(raised_at_three), MODELS["forest"]()), frame, frame["a"] == 3.0)
    with pytest.raises(UnsupportedModelError, match="acts on the rows of `X` in another way"):
        treeanova.decompose(pipeline, frame.assign(d="text")[list("dcba")])


class Sampler(BaseEstimator):
    """A step as in imbalanced-learn, whose pipelines leave it out when they predict."""

    def fit_resample(self, X, y):
        return X, y


def test_samplers_of_training_rows_are_left_out():
    scaler = fit(StandardScaler(), X)
    forest = fit(MODELS["forest"](), scaler.transform(X), Y)
    pipeline = Pipeline([("scaler", scaler), ("sampler", Sampler()), ("forest", forest)])
    check(make_pipeline(scaler, forest), X, read_for_rows(pipeline))


CHAINS = st.lists(st.sampled_from(sorted(set(SCALERS) - {"one-hot bins", "sentinel", "power"})), min_size=1, max_size=2)


@given(chains=st.lists(CHAINS, min_size=3, max_size=3), encoder=st.sampled_from(sorted(ENCODERS)), data=st.data())
@settings(max_examples=4, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_random_pipelines(chains, encoder, data):
    frame = FRAME.assign(height=X[:, 1], weight=X[:, 2])
    numbers = [make_pipeline(*(SCALERS[name]() for name in names)) for names in chains]
    parts = [(numbers[0], ["age"]), (numbers[1], ["height"]), (ENCODERS[encoder](), ["town", "code"])]
    extra = [(numbers[2], ["weight", "age"]), ("drop", ["note"]), ("passthrough", ["weight"])]
    parts += data.draw(st.lists(st.sampled_from(extra), unique_by=id))
    columns = make_column_transformer(*data.draw(st.permutations(parts)), sparse_threshold=0)
    pipeline = fit(make_pipeline(columns, MODELS[data.draw(st.sampled_from(["histogram", "xgboost"]))]()), frame, Z)
    forest = read_for_rows(pipeline, frame)
    names = ["age", "height", "weight"]
    seen = [forest.schema.names.index(name) for name in names]
    rows = mixed_rows(pd.concat([frame, frame], ignore_index=True))
    rng = np.random.default_rng(0)
    for name, j in zip(names, seen, strict=True):
        pool = np.clip(on_and_next_to(np.unique(forest.bound[forest.feature == j])), -100, 100)
        rows[name] = np.where(rng.random(len(rows)) < 0.7, rng.choice(pool, len(rows)), rows[name])
    check(pipeline, rows, forest)


@given(st.floats(allow_nan=False))
def test_ranks_are_those_of_neighbours(number):
    rank = float_ranks(np.array([number]))
    assert floats_at(rank)[0] == number
    if number < np.inf:
        with np.errstate(over="ignore"):
            assert floats_at(rank + 1)[0] == np.nextafter(number, np.inf)
