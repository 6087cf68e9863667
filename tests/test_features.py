"""Encoders and columns: what a raw value of any table becomes, against plain rules, and schemas in files."""

from __future__ import annotations

import dataclasses
import json
import warnings

import numpy as np
import pytest
import scipy.sparse

import treeanova
from treeanova.data.columns import encode
from treeanova.data.features import (
    Encoder,
    Feature,
    IntegerCategory,
    Labels,
    Numeric,
    Schema,
    distinct,
    is_missing,
)
from treeanova.data.tabular import read_table
from treeanova.readers import read_model
from treeanova.readers.catboost.columns import HashedCategory
from treeanova.readers.ebm import _Numbers, _Texts, _Unread
from treeanova.readers.lightgbm.columns import ListedCodes, OrderedCategory, PandasCategory
from treeanova.readers.sklearn import LabelsWithNone
from treeanova.readers.xgboost.columns import CodedCategory, NamedCategory, Number
from treeanova.storage.schema import describe, restore

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

NAN = float("nan")


def objects(*values):
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


# Encoders


def test_numbers_are_themselves_and_a_further_value_may_mean_missing():
    column = np.array([1.5, -999.0, NAN, np.inf, 0.0])
    np.testing.assert_array_equal(Numeric().encode(column, "x"), column)
    np.testing.assert_array_equal(Numeric(missing=-999).encode(column, "x"), [1.5, NAN, NAN, np.inf, 0.0])
    np.testing.assert_array_equal(Numeric(missing=0).encode(np.array([0, 1]), "x"), [NAN, 1.0])
    np.testing.assert_array_equal(Numeric().encode(objects(None, True, 2, "3.5"), "x"), [NAN, 1.0, 2.0, 3.5])


@pytest.mark.parametrize("value", ["old", (1, 2)])
def test_what_is_no_number_is_named(value):
    with pytest.raises(TypeError, match=r"column 'age' must hold numbers, got .*(old|1, 2)"):
        Numeric().encode(objects(1.0, None, value), "age")


@pytest.mark.parametrize(
    ("raw", "code"),
    [(0, 0), (2, 2), (1.7, 1), (2.999, 2), (-0.5, 0), (-0.999, 0), (-1, 3), (-1.5, 3), (3, 3), (1e9, 3), (np.inf, 3),
     (-np.inf, 3), (NAN, NAN), (-0.0, 0)],
)  # fmt: skip
def test_codes_are_cut_and_all_else_is_unseen(raw, code):
    found = IntegerCategory(3).encode(np.array([raw], dtype=float), "k")
    np.testing.assert_array_equal(found, [code])
    assert not np.signbit(found[0])


def test_codes_have_names_and_may_have_a_value_for_missing():
    assert IntegerCategory(3).labels == (0, 1, 2)
    assert IntegerCategory(2, ("no", "yes")).labels == ("no", "yes")
    np.testing.assert_array_equal(
        IntegerCategory(2, missing=-1).encode(np.array([-1, 0, 1, 2, -2]), "k"), [NAN, 0, 1, 2, 2]
    )


@pytest.mark.parametrize("missing", [None, NAN, pd.NA, pd.NaT, np.datetime64("NaT", "D"), np.float32("nan")])
def test_every_kind_of_missing_label_is_missing(missing):
    assert is_missing(missing)
    np.testing.assert_array_equal(Labels(("a", "b")).encode(objects("b", missing, "z", "a"), "k"), [1, NAN, 2, 0])


@pytest.mark.parametrize("value", ["", "nan", "None", 0, False, 0.0, (), np.str_("NaT")])
def test_other_values_are_not_missing(value):
    assert not is_missing(value)


def test_labels_of_numbers_and_labels_under_a_key():
    np.testing.assert_array_equal(Labels((10, 20)).encode(np.array([20.0, NAN, 10.0, 15.0]), "k"), [1, NAN, 0, 2])
    np.testing.assert_array_equal(Labels(("1", "2"), key=str).encode(objects(2, "1", 3), "k"), [1, 0, 2])
    np.testing.assert_array_equal(Labels(("a", "b")).encode(np.array(["b", "z"]), "k"), [1, 2])


@pytest.mark.parametrize(
    "column",
    [np.array([3, 1, 3, 2]), np.array([0.5, NAN, 0.5]), np.array(["b", "a", "b"]), objects("b", None, 1, "b", (1, 2))],
)
def test_distinct_values_give_the_column_back(column):
    values, inverse = distinct(column)
    back = [values[position] for position in inverse]
    assert len(values) == len({repr(value) for value in column.tolist()})
    for value, expected in zip(back, column.tolist(), strict=True):
        assert value == expected or (is_missing(value) and is_missing(expected))


# Schemas in files

ENCODERS = {
    "numeric": (Numeric(-999.0), np.array([-999.0, 1.0, NAN])),
    "codes": (IntegerCategory(3, ("a", "b", "c"), -1.0), np.array([-1.0, 2.0, 7.0])),
    "labels": (Labels(("a", 1, 2.5, True)), objects("a", 2.5, None, "q")),
    "labels with none": (LabelsWithNone(("a", None)), objects("a", None, NAN)),
    "hashed": (HashedCategory((1867, 4_294_967_295), ("a", "b")), objects("a", "b", "c")),
    "ebm numbers": (_Numbers(), objects("1.5", None, 2)),
    "ebm texts": (_Texts(("a", "1")), objects("a", "1", None, "q")),
    "ebm unread": (_Unread(), objects("a", None)),
    "lightgbm codes": (ListedCodes((1, 5)), np.array([5.0, 1.0, 2.0, NAN])),
    "lightgbm labels": (PandasCategory(("a", "b")), objects("b", None, "q")),
    "lightgbm ordered": (OrderedCategory(("a", "b")), objects("b", None, "q")),
    "xgboost number": (Number(0.0), np.array([0.0, 0.1, NAN])),
    "xgboost codes": (CodedCategory(2, -1.0), np.array([0.0, -1.0, 5.0])),
    "xgboost labels": (NamedCategory(((("a", "b"), (1, 1)),)), objects("b", "a", None)),
}


def encoders_of_all_readers():
    found, pending = set(), [Encoder]
    while pending:
        for kind in pending.pop().__subclasses__():
            pending.append(kind)
            if kind.__module__.startswith("treeanova."):
                found.add(kind)
    return found


def there_and_back(value):
    return restore(json.loads(json.dumps(describe(value))))


def test_no_encoder_is_left_out_here():
    tested = {type(encoder) for encoder, _ in ENCODERS.values()}
    assert encoders_of_all_readers() == tested, "add it to ENCODERS"


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_comes_back_from_plain_text(name):
    encoder, column = ENCODERS[name]
    again = there_and_back(encoder)
    assert type(again) is type(encoder)
    assert again.labels == encoder.labels
    assert [type(label) for label in again.labels or ()] == [type(label) for label in encoder.labels or ()]
    np.testing.assert_array_equal(again.encode(column, "x"), encoder.encode(column, "x"))
    assert json.dumps(describe(again)) == json.dumps(describe(encoder))


def mixed_table(n_rows=120):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"a": rng.normal(size=n_rows), "k": rng.choice(list("uvw"), n_rows), "n": rng.integers(0, 4, n_rows)}
    )
    table.loc[::9, "a"] = NAN
    return table, table.a.fillna(0) * (table.k == "u") + table.n


def catboost_model(table, target):
    catboost = pytest.importorskip("catboost")
    model = catboost.CatBoostRegressor(
        iterations=5, depth=2, verbose=0, thread_count=1, allow_writing_files=False, one_hot_max_size=10
    )
    return model.fit(table, target, cat_features=["k"]), table


def lightgbm_model(table, target):
    lightgbm = pytest.importorskip("lightgbm")
    table = table.astype({"k": "category"})
    return lightgbm.LGBMRegressor(n_estimators=5, num_leaves=4, n_jobs=1, verbose=-1).fit(table, target), table


def xgboost_model(table, target):
    xgboost = pytest.importorskip("xgboost")
    table = table.astype({"k": "category"})
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=2, n_jobs=1, enable_categorical=True)
    return model.fit(table, target), table


def hist_model(table, target):
    ensemble = pytest.importorskip("sklearn.ensemble")
    table = table.astype({"k": "category"})
    model = ensemble.HistGradientBoostingRegressor(
        max_iter=5, max_depth=2, categorical_features="from_dtype", random_state=0
    )
    return model.fit(table, target), table


def ebm_model(table, target):
    glassbox = pytest.importorskip("interpret.glassbox")
    model = glassbox.ExplainableBoostingRegressor(n_jobs=1, outer_bags=1, max_rounds=5, interactions=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Missing values detected")
        return model.fit(table, target), table


@pytest.mark.parametrize("train", [catboost_model, lightgbm_model, xgboost_model, hist_model, ebm_model])
def test_the_schema_of_a_model_comes_back_from_plain_text(train):
    model, table = train(*mixed_table())
    found = read_model(model)
    schema = getattr(found, "schema", None) or found.grid.schema
    again = there_and_back(schema)
    np.testing.assert_array_equal(encode(table, again), encode(table, schema))
    assert json.dumps(describe(again)) == json.dumps(describe(schema))
    plain = {
        f.name: getattr(schema, f.name) for f in dataclasses.fields(schema) if f.name not in {"features", "absent"}
    }
    assert {name: getattr(again, name) for name in plain} == plain


def test_numpy_labels_become_plain_ones_and_others_are_refused():
    again = there_and_back(Labels((np.int64(3), np.str_("a"), np.float64(0.5), np.bool_(True))))
    assert again.names == (3, "a", 0.5, True)
    assert [type(label) for label in again.names] == [int, str, float, bool]
    with pytest.raises(TypeError, match="categories must be text, numbers or booleans to be saved, got Timestamp"):
        describe(Labels((pd.Timestamp("2020-01-01"),)))


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "builtins:eval",
        "treeanova.features:describe",
        "treeanova.features:np",
        "treeanova.archive:io",
        "treeanova.readers.catboost:ModelFileError",
    ],
)
def test_no_foreign_class_is_made(name):
    with pytest.raises(ValueError, match=f"must hold treeanova's own types, got '{name}'"):
        restore({"class": name, "fields": {}})


# Columns of tables

NUMBER = Schema((Feature("x"),), named=True)
LETTER = Schema((Feature("x", Labels(("a", "b"))),), named=True)


def encoded(data, schema):
    matrix = encode(data, schema)
    assert matrix.dtype == np.float64
    assert matrix.flags.f_contiguous
    return matrix[:, 0]


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        ("int8", [1, -2], [1, -2]),
        ("uint64", [2**63, 1], [2.0**63, 1]),
        ("float32", [0.5, NAN], [0.5, NAN]),
        ("bool", [True, False], [1, 0]),
        ("Int64", [1, None, 3], [1, NAN, 3]),
        ("Float64", [0.5, None], [0.5, NAN]),
        ("boolean", [True, None, False], [1, NAN, 0]),
        ("int64[pyarrow]", [1, None], [1, NAN]),
        ("double[pyarrow]", [0.5, None], [0.5, NAN]),
        ("bool[pyarrow]", [True, None], [1, NAN]),
        ("object", [1, None, 2.5], [1, NAN, 2.5]),
    ],
)
def test_numbers_of_pandas_columns(dtype, values, expected):
    np.testing.assert_array_equal(encoded(pd.DataFrame({"x": pd.Series(values, dtype=dtype)}), NUMBER), expected)


@pytest.mark.parametrize("dtype", ["object", "string", "string[pyarrow]", "category", "str"])
def test_labels_of_pandas_columns(dtype):
    table = pd.DataFrame({"x": pd.Series(["b", None, "z", "a"], dtype=dtype)})
    np.testing.assert_array_equal(encoded(table, LETTER), [1, NAN, 2, 0])


def test_labels_of_pandas_categories_that_are_numbers():
    table = pd.DataFrame({"x": pd.Categorical([20, None, 10, 30])})
    np.testing.assert_array_equal(encoded(table, Schema((Feature("x", Labels((10, 20))),))), [1, NAN, 0, 2])


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (pl.Int16, [1, None], [1, NAN]),
        (pl.Float32, [0.5, None, NAN], [0.5, NAN, NAN]),
        (pl.Boolean, [True, None], [1, NAN]),
        (pl.UInt64, [2**63, 1], [2.0**63, 1]),
    ],
)
def test_numbers_of_polars_columns(dtype, values, expected):
    np.testing.assert_array_equal(encoded(pl.DataFrame({"x": pl.Series(values, dtype=dtype)}), NUMBER), expected)


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical, pl.Enum(["b", "z", "a"])])
def test_labels_of_polars_columns(dtype):
    table = pl.DataFrame({"x": pl.Series(["b", None, "z", "a"], dtype=dtype)})
    np.testing.assert_array_equal(encoded(table, LETTER), [1, NAN, 2, 0])


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1, None], pa.int32(), [1, NAN]),
        ([0.5, None], pa.float64(), [0.5, NAN]),
        ([True, None], pa.bool_(), [1, NAN]),
        ([True, False], pa.bool_(), [1, 0]),
    ],
)
def test_numbers_of_arrow_columns(values, kind, expected):
    np.testing.assert_array_equal(encoded(pa.table({"x": pa.array(values, kind)}), NUMBER), expected)


@pytest.mark.parametrize(
    "wrap", [lambda a: a, lambda a: a.dictionary_encode(), lambda a: pa.chunked_array([a[:2], a[2:]])]
)
def test_labels_of_arrow_columns(wrap):
    table = pa.table({"x": wrap(pa.array(["b", None, "z", "a"]))})
    np.testing.assert_array_equal(encoded(table, LETTER), [1, NAN, 2, 0])


def test_tables_are_matched_by_name_and_arrays_by_position():
    schema = Schema((Feature("a"), Feature("b")), named=True)
    table = pd.DataFrame({"other": ["q"], "b": [2.0], "a": [1.0]})
    assert encode(table, schema).tolist() == [[1.0, 2.0]]
    assert encode(table[["b", "a"]].to_numpy(), schema).tolist() == [[2.0, 1.0]]
    assert encode([[2.0, 1.0]], schema).tolist() == [[2.0, 1.0]]
    by_position = dataclasses.replace(schema, named=False)
    assert encode(table[["b", "a"]], by_position).tolist() == [[2.0, 1.0]]


def test_names_with_blanks_are_found_where_the_model_has_underscores():
    table = pd.DataFrame({"my name": [1.0]})
    assert encode(table, Schema((Feature("my_name"),), named=True, underscores=True)).tolist() == [[1.0]]
    with pytest.raises(ValueError, match="got none named 'my_name'; add them"):
        encode(table, Schema((Feature("my_name"),), named=True))


def test_integers_of_a_matrix_are_read_as_float32_where_the_library_does_so():
    matrix = np.array([[2**24 + 1]])
    assert encode(matrix, NUMBER).tolist() == [[2.0**24 + 1]]
    assert encode(matrix, dataclasses.replace(NUMBER, single_integers=True)).tolist() == [[2.0**24]]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pd.DataFrame({"a": [1.0]}), "got none named 'b'; add them"),
        (pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "b", "a"]), "'a' (twice|2 times)"),
        (np.ones((2, 3)), "must have 2 columns, as the model was trained on, got 3"),
        (scipy.sparse.csr_matrix(np.ones((2, 1))), "must have 2 columns, as the model was trained on, got 1"),
        (np.ones(2), "must have two axes, rows and columns, got 1; reshape"),
    ],
)
def test_data_that_do_not_fit_are_refused(data, message):
    with pytest.raises(ValueError, match=message):
        encode(data, Schema((Feature("a"), Feature("b")), named=True))


def test_what_the_model_refuses_is_refused():
    number = Schema((Feature("a", accepts_missing=False),))
    with pytest.raises(ValueError, match="'a' must have no missing values, got some"):
        encode(np.array([[1.0], [NAN]]), number)
    letter = Schema((Feature("a", Labels(("u",)), accepts_unseen=False),))
    with pytest.raises(ValueError, match="'a' must hold known categories, got others"):
        encode(objects("u", "v")[:, None], letter)


@pytest.mark.parametrize("absent", [0.0, NAN])
@pytest.mark.parametrize("form", ["csr_matrix", "csc_array", "coo_matrix", "lil_matrix"])
def test_absent_entries_of_sparse_matrices_mean_what_the_library_says(absent, form):
    dense = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, -2.5]])
    expected = np.where(dense == 0, absent, dense)
    schema = Schema((Feature("a"), Feature("b")), absent=absent)
    np.testing.assert_array_equal(encode(getattr(scipy.sparse, form)(dense), schema), expected)


def test_zeros_that_a_sparse_matrix_holds_are_zeros():
    held = scipy.sparse.csr_matrix((np.array([0.0, 3.0]), np.array([0, 1]), np.array([0, 1, 2])), shape=(2, 2))
    schema = Schema((Feature("a"), Feature("b")), absent=NAN)
    np.testing.assert_array_equal(encode(held, schema), [[0.0, NAN], [NAN, 3.0]])


# Equality


@pytest.mark.parametrize(
    "make",
    [
        Numeric,
        lambda nan: IntegerCategory(3, None, nan),
        Number,
        lambda nan: CodedCategory(3, nan),
        lambda nan: NamedCategory(((("a",), (1,)),), nan),
        _Numbers,
        lambda nan: Feature("a", Numeric(nan)),
        lambda nan: Schema((Feature("a", Number(nan)),), absent=nan),
    ],
)
def test_values_with_nan_are_equal(make):
    one, other = make(float("nan")), make(float("nan"))
    assert one == other
    assert hash(one) == hash(other)
    assert one != make(-999.0)
    assert one == restore(json.loads(json.dumps(describe(one))))


def test_encoders_of_different_classes_differ():
    assert Numeric() != Number()
    assert Numeric() != _Numbers()
    assert Schema((Feature("a"),)) != Schema((Feature("b"),))
    assert Numeric() != "Numeric"


# Names given to a model that has names


TRAINED = pd.DataFrame(np.random.default_rng(0).normal(size=(80, 3)), columns=["a", "b", "c"])


@pytest.fixture(scope="module")
def trained():
    """A model with names whose columns cannot be exchanged."""
    tree = pytest.importorskip("sklearn.tree")
    return tree.DecisionTreeRegressor(max_depth=3).fit(TRAINED, TRAINED["a"] + 10 * TRAINED["b"] - 100 * TRAINED["c"])


@pytest.mark.parametrize("order", [["a", "b", "c"], ["c", "a", "b"], ["b", "other", "c", "a"]])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_with_the_models_names_are_matched_by_them(trained, order, library):
    table = TRAINED.assign(other=0.0)[order]
    table = pl.from_pandas(table) if library == "polars" else table
    fx = treeanova.decompose(trained, table, feature_names=["p", "q", "r"], density="empirical")
    assert fx.schema.names == ("p", "q", "r")
    np.testing.assert_allclose(fx.decision_function(table), trained.predict(TRAINED), rtol=1e-10)


@pytest.mark.parametrize("order", [["p", "q", "r"], ["r", "p", "q"]])
def test_tables_with_the_given_names_are_matched_by_them(trained, order):
    table = TRAINED.rename(columns={"a": "p", "b": "q", "c": "r"})[order]
    fx = treeanova.decompose(trained, table, feature_names=["p", "q", "r"], density="empirical")
    np.testing.assert_allclose(fx.decision_function(table), trained.predict(TRAINED), rtol=1e-10)
    np.testing.assert_allclose(fx.decision_function(TRAINED[["b", "c", "a"]]), trained.predict(TRAINED), rtol=1e-10)
    np.testing.assert_allclose(fx.decision_function(TRAINED.to_numpy()), trained.predict(TRAINED), rtol=1e-10)


def test_the_models_names_come_first_where_the_given_ones_are_the_same_in_another_order(trained):
    fx = treeanova.decompose(trained, TRAINED, feature_names=["b", "c", "a"], density="empirical")
    np.testing.assert_allclose(fx.decision_function(TRAINED[["c", "b", "a"]]), trained.predict(TRAINED), rtol=1e-10)


@pytest.mark.parametrize("columns", [["a", "q", "r"], ["x", "y", "z"], [0, 1, 2], ["p", "q", "c"]])
def test_tables_with_other_or_mixed_names_are_refused(trained, columns):
    table = TRAINED.set_axis(columns, axis=1)
    message = "`X` must have all of the model's columns 'a', 'b', 'c' or all of `feature_names` 'p', 'q', 'r', got '"
    with pytest.raises(ValueError, match=message):
        treeanova.decompose(trained, table, feature_names=["p", "q", "r"], density="empirical")


def test_both_names_hold_after_saving_and_for_files_of_rows(trained, tmp_path):
    treeanova.decompose(trained, TRAINED, feature_names=["p", "q", "r"], density="empirical").save(tmp_path / "fx.tav")
    fx = treeanova.load(tmp_path / "fx.tav")
    TRAINED[["b", "c", "a"]].to_csv(tmp_path / "rows.csv", index=False)
    for table in (TRAINED[["c", "b", "a"]], read_table(tmp_path / "rows.csv", fx.schema)):
        np.testing.assert_allclose(fx.decision_function(table), trained.predict(TRAINED), rtol=1e-10)


def test_names_given_to_an_ebm_and_to_a_model_with_categories():
    interpret = pytest.importorskip("interpret.glassbox")
    catboost = pytest.importorskip("catboost")
    y = TRAINED["a"] + 10 * TRAINED["b"]
    ebm = interpret.ExplainableBoostingRegressor(interactions=0, n_jobs=1, max_rounds=20, outer_bags=1).fit(TRAINED, y)
    table = TRAINED.assign(c=np.where(TRAINED["c"] > 0, "up", "down"))
    boosted = catboost.CatBoostRegressor(iterations=5, depth=2, verbose=False, allow_writing_files=False)
    boosted.fit(table, y + (TRAINED["c"] > 0), cat_features=["c"])
    for model, rows in ((ebm, TRAINED), (boosted, table)):
        for mixed in (rows[["c", "b", "a"]], rows.set_axis(["p", "q", "r"], axis=1)[["q", "p", "r"]]):
            fx = treeanova.decompose(model, mixed, feature_names=["p", "q", "r"], density="empirical")
            np.testing.assert_allclose(fx.decision_function(mixed), model.predict(rows), rtol=1e-9)


@pytest.mark.parametrize("names", [[1, "1", 3], ["p", "q"], "pqr", ["p", "p", "q"]])
def test_given_names_must_differ_as_text(trained, names):
    with pytest.raises(ValueError, match=r"`feature_names` must be 3 different names, got .*; name each feature once"):
        treeanova.decompose(trained, TRAINED, feature_names=names)
