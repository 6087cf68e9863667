"""Columns of any table reach the model by name or by position, as numbers or labels."""

from __future__ import annotations

import dataclasses
import pathlib

import narwhals as nw
import numpy as np
import pytest
import scipy.sparse

import treeanova
from tests.support.training import fit
from treeanova.data.columns import column_named, encode, encode_rows, without_column
from treeanova.data.features import Feature, Labels, Schema
from treeanova.data.files import read_table
from treeanova.estimators import _checked_rows

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

NAN = float("nan")


def objects(*values):
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


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
    assert encode(table[["b", "other"]].set_axis(["p", "q"], axis=1).assign(q=1.0), by_position).tolist() == [
        [2.0, 1.0]
    ]


X0_TO_X2 = Schema((Feature("x0"), Feature("x1"), Feature("x2")))


def test_tables_of_exactly_the_names_that_are_shown_are_matched_by_them(tmp_path):
    table = pd.DataFrame({"x2": [3.0], "x0": [1.0], "x1": [2.0]})
    table.to_csv(tmp_path / "rows.csv", index=False)
    for rows in (table, pl.from_pandas(table), read_table(tmp_path / "rows.csv", X0_TO_X2)):
        assert encode(rows, X0_TO_X2).tolist() == [[1.0, 2.0, 3.0]]
    assert encode(table.rename(columns={"x0": "x3"}), X0_TO_X2).tolist() == [[3.0, 1.0, 2.0]]
    with pytest.raises(ValueError, match="`X` must have 3 columns, as the model was trained on, got 4"):
        encode(table.assign(x3=4.0), X0_TO_X2)


def test_other_columns_beside_the_given_names_are_ignored(tmp_path):
    given = dataclasses.replace(X0_TO_X2, given=True)
    table = pd.DataFrame({"id": [7.0], "x2": [3.0], "x0": [1.0], "group": ["u"], "x1": [2.0]})
    table.to_csv(tmp_path / "rows.csv", index=False)
    for rows in (table, pl.from_pandas(table), read_table(tmp_path / "rows.csv", given)):
        assert encode(rows, given).tolist() == [[1.0, 2.0, 3.0]]
    assert column_named(table, "group", given).tolist() == ["u"]
    with pytest.raises(ValueError, match="must have all of the names 'x0', 'x1', 'x2' or none, got id, x0, x1; rename"):
        encode(table[["id", "x0", "x1"]], given)


def test_a_feature_may_have_another_purpose_where_columns_are_matched_by_name():
    table = pd.DataFrame({"x2": [3.0], "x0": [1.0], "x1": [2.0], "id": [7.0]})
    rows, weights = without_column(table[["x2", "x0", "x1"]], "x0", X0_TO_X2)
    assert (encode(rows, X0_TO_X2).tolist(), weights.tolist()) == ([[1.0, 2.0, 3.0]], [1.0])
    for schema in (dataclasses.replace(X0_TO_X2, given=True), dataclasses.replace(X0_TO_X2, named=True)):
        assert encode(without_column(table, "x0", schema)[0], schema).tolist() == [[1.0, 2.0, 3.0]]
    others = table.set_axis(["a", "b", "c", "x0"], axis=1)
    assert encode(without_column(others, "x0", X0_TO_X2)[0], X0_TO_X2).tolist() == [[3.0, 1.0, 2.0]]


def test_columns_are_not_shifted_where_a_feature_has_another_purpose(tmp_path):
    table = pd.DataFrame({"x0": [1.0], "x1": [2.0], "x2": [3.0], "id": [7.0]})
    table.to_csv(tmp_path / "rows.csv", index=False)
    message = (
        "must have no columns but features .* where 'x0' is the name of both, got x1, x2, id; leave the others out"
    )
    with pytest.raises(ValueError, match=message):
        without_column(table, "x0", X0_TO_X2)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "rows.csv", X0_TO_X2, drop=["x0"])


def test_names_with_blanks_are_found_where_the_model_has_underscores():
    table = pd.DataFrame({"my name": [1.0]})
    assert encode(table, Schema((Feature("my_name"),), named=True, underscores=True)).tolist() == [[1.0]]
    with pytest.raises(ValueError, match="got none named 'my_name'; add them"):
        encode(table, Schema((Feature("my_name"),), named=True))


@pytest.mark.parametrize("underscores", [False, True])
def test_columns_with_blanks_around_their_names_are_named(underscores):
    schema = Schema((Feature("a"), Feature("b"), Feature("c")), named=True, underscores=underscores)
    with pytest.raises(ValueError, match="none named 'b'; the column ' b' has blanks around its name, rename it"):
        encode(pd.DataFrame({"a": [1.0], " b": [2.0], "c": [3.0]}), schema)
    with pytest.raises(ValueError, match="none named 'b', 'c'; the columns ' b', 'c ' have blanks around their names"):
        encode(pd.DataFrame({"a": [1.0], " b": [2.0], "c ": [3.0]}), schema)
    with pytest.raises(ValueError, match="must have a column 'b', got the columns ' b'; the column ' b' has blanks"):
        without_column(pd.DataFrame({" b": [2.0]}), "b")


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
    with pytest.raises(ValueError, match="'a' must have no missing values, got 1 in 2 rows"):
        encode(np.array([[1.0], [NAN]]), number)
    letter = Schema((Feature("a", Labels(("u",)), accepts_unseen=False),))
    with pytest.raises(ValueError, match="'a' must hold categories of the model, got 'v'"):
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


# Names given to a model that has names


TRAINED = pd.DataFrame(np.random.default_rng(0).normal(size=(80, 3)), columns=["a", "b", "c"])


@pytest.fixture(scope="module")
def trained():
    """A model with names whose columns cannot be exchanged."""
    tree = pytest.importorskip("sklearn.tree")
    return fit(tree.DecisionTreeRegressor(max_depth=3), TRAINED, TRAINED["a"] + 10 * TRAINED["b"] - 100 * TRAINED["c"])


@pytest.mark.parametrize("order", [["a", "b", "c"], ["c", "a", "b"], ["b", "other", "c", "a"]])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_with_the_models_names_are_matched_by_them(trained, order, library):
    table = TRAINED.assign(other=0.0)[order]
    table = pl.from_pandas(table) if library == "polars" else table
    fx = treeanova.decompose(trained, table, feature_names=["p", "q", "r"], density="empirical")
    assert fx.schema.names == ("p", "q", "r")
    np.testing.assert_allclose(fx.decision_function(table), trained.predict(TRAINED), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("order", [["p", "q", "r"], ["r", "p", "q"]])
def test_tables_with_the_given_names_are_matched_by_them(trained, order):
    table = TRAINED.rename(columns={"a": "p", "b": "q", "c": "r"})[order]
    fx = treeanova.decompose(trained, table, feature_names=["p", "q", "r"], density="empirical")
    np.testing.assert_allclose(fx.decision_function(table), trained.predict(TRAINED), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        fx.decision_function(TRAINED[["b", "c", "a"]]), trained.predict(TRAINED), rtol=1e-10, atol=1e-10
    )
    np.testing.assert_allclose(
        fx.decision_function(TRAINED.to_numpy()), trained.predict(TRAINED), rtol=1e-10, atol=1e-10
    )


def test_the_models_names_come_first_where_the_given_ones_are_the_same_in_another_order(trained):
    fx = treeanova.decompose(trained, TRAINED, feature_names=["b", "c", "a"], density="empirical")
    np.testing.assert_allclose(
        fx.decision_function(TRAINED[["c", "b", "a"]]), trained.predict(TRAINED), rtol=1e-10, atol=1e-10
    )


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
        np.testing.assert_allclose(fx.decision_function(table), trained.predict(TRAINED), rtol=1e-10, atol=1e-10)


def test_names_given_to_an_ebm_and_to_a_model_with_categories():
    interpret = pytest.importorskip("interpret.glassbox")
    catboost = pytest.importorskip("catboost")
    y = TRAINED["a"] + 10 * TRAINED["b"]
    ebm = fit(interpret.ExplainableBoostingRegressor(interactions=0, n_jobs=1, max_rounds=20, outer_bags=1), TRAINED, y)
    table = TRAINED.assign(c=np.where(TRAINED["c"] > 0, "up", "down"))
    boosted = catboost.CatBoostRegressor(iterations=5, depth=2, verbose=False, allow_writing_files=False)
    fit(boosted, table, y + (TRAINED["c"] > 0), cat_features=["c"])
    for model, rows in ((ebm, TRAINED), (boosted, table)):
        for mixed in (rows[["c", "b", "a"]], rows.set_axis(["p", "q", "r"], axis=1)[["q", "p", "r"]]):
            fx = treeanova.decompose(model, mixed, feature_names=["p", "q", "r"], density="empirical")
            np.testing.assert_allclose(fx.decision_function(mixed), model.predict(rows), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("names", [[1, "1", 3], ["p", "q"], "pqr", 3, ["p", "p", "q"]])
def test_given_names_must_differ_as_text(trained, names):
    with pytest.raises(ValueError, match=r"`feature_names` must be a list of 3 different names, got .*; name each"):
        treeanova.decompose(trained, TRAINED, feature_names=names)


def test_a_column_by_its_name():
    schema = Schema((Feature("a"), Feature("b")), named=True)
    table = pd.DataFrame({"b": [1, 2], "group": ["u", "v"], "a": [3.0, 4.0]})
    assert column_named(table, "group", schema).tolist() == ["u", "v"]
    assert column_named(table, "a", schema).tolist() == [3.0, 4.0]
    matrix = np.array([[3.0, 1.0], [4.0, 2.0]])
    assert column_named(matrix, "b", schema).tolist() == [1.0, 2.0]
    assert column_named(scipy.sparse.csr_array(matrix), "b", schema).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match=r"`group` must be a column of X, .* got 'c', which X does not have"):
        column_named(matrix, "c", schema)


@pytest.mark.parametrize("rows", ["rows.parquet", pathlib.Path("rows.parquet"), {"x0": [1.0]}])
def test_what_is_not_in_memory_is_refused_by_its_kind(rows):
    with pytest.raises(TypeError, match=f"`X` must be rows in memory, a table or a matrix, got {type(rows).__name__}"):
        encode(rows, Schema((Feature("x0"),)))
    for lazy in (pytest.importorskip("polars").LazyFrame({"x0": [1.0]}), pytest.importorskip("duckdb").sql("select 1")):
        with pytest.raises(TypeError, match="`X` must be rows in memory"):
            encode(lazy, Schema((Feature("x0"),)))


@pytest.mark.parametrize(
    "kind", ["equal", "unequal", "arrays", "record batches", "dataset", "reader", "iterator", "path"]
)
@pytest.mark.parametrize("question", ["decision_function", "predict", "validate", "gap", "term_values"])
def test_batches_are_refused_where_rows_must_be_in_memory(kind, question, tmp_path):
    pyarrow, dataset = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.dataset")
    table = pd.DataFrame({"a": [0.0, 1.0, 0.0, 1.0]})
    table.to_parquet(tmp_path / "rows.parquet")
    arrow = pyarrow.Table.from_pandas(table)
    rows = {
        "equal": [table[:2], table[2:]],
        "unequal": [table[:1], table[1:]],
        "arrays": (table[:1].to_numpy(), table[1:].to_numpy()),
        "record batches": arrow.to_batches(1),
        "dataset": dataset.dataset(arrow),
        "reader": arrow.to_reader(),
        "iterator": iter([table]),
        "path": [str(tmp_path / "rows.parquet")],
    }[kind]
    fx = treeanova.decompose(treeanova.model.Effects.from_tables({"a": [0.0, 1.0]}), table, density="empirical")
    more = {"validate": ([0.0, 1.0, 0.5, 1.5],), "gap": ([0, 0, 1, 1],), "term_values": ("a",)}.get(question, ())
    options = {"loss": "squared"} if question == "validate" else {}
    with pytest.raises(TypeError, match=r"`X` must be rows in memory, a table or a matrix, got .* with explain_to"):
        getattr(fx, question)(rows, *more, **options)


def test_lists_that_are_not_rows_are_refused():
    schema = Schema((Feature("x0"), Feature("x1")))
    with pytest.raises(ValueError, match="`X` must have at least one row, got an empty list"):
        encode([], schema)
    with pytest.raises(ValueError, match="`X` must have rows of equal length"):
        encode([[1.0, 2.0], [1.0]], schema)
    with pytest.raises(ValueError, match="`X` must have two axes, rows and columns, got 1"):
        encode([1.0, 2.0], schema)


@pytest.mark.parametrize("library", ["polars", "pyarrow", "pandas"])
def test_the_value_of_a_file_that_is_no_number_is_named(library, tmp_path):
    """Not a word that means missing, before it."""
    (tmp_path / "rows.csv").write_text("x0\nNA\n0.5\n.\n")
    schema = Schema((Feature("x0"),), named=True)
    with pytest.raises(TypeError, match=r"rows\.csv: column 'x0' must hold numbers, got '\.'"):
        encode(read_table(tmp_path / "rows.csv", schema, library=library), schema)


class Interchanged:
    """Has names of columns, and numpy reads it."""

    def __init__(self, table):
        self.table, self.columns = table, list(table)

    def __array__(self, dtype=None, copy=None):
        return self.table.to_numpy()


NAMED = {
    "record batch": lambda table: pa.RecordBatch.from_pandas(table, preserve_index=False),
    "narwhals": nw.from_native,
    "struct": lambda table: pl.from_pandas(table).to_struct("row"),
    "rows of pandas": lambda table: [table.iloc[i] for i in range(len(table))],
    "named tuples": lambda table: list(table.itertuples(index=False)),
    "records": lambda table: table.to_dict("records"),
    "numpy's records": lambda table: table.to_records(index=False),
    "columns and an array": Interchanged,
}


@pytest.mark.parametrize("kind", NAMED)
def test_names_that_numpy_would_forget_are_refused(kind):
    rows = NAMED[kind](pd.DataFrame({"b": [1.0, 2.0], "a": [3.0, 4.0]}))
    schema = Schema((Feature("a"), Feature("b")), named=True)
    refused = r"must be a data frame, or have no names of columns, got .*; make a data frame"
    with pytest.raises(TypeError, match=f"`X` {refused}"):
        encode(rows, schema)
    with pytest.raises(TypeError, match=f"`reference` {refused}"):
        encode_rows(rows, schema, name="reference")
    with pytest.raises(TypeError, match=f"`X` {refused}"):
        _checked_rows(treeanova.AdditiveRegressor(), rows)


def test_a_memoryview_is_a_matrix():
    rows = np.random.default_rng(0).normal(size=(40, 2))
    model = fit(pytest.importorskip("sklearn.tree").DecisionTreeRegressor(max_depth=2), rows, rows[:, 0])
    fx = treeanova.decompose(model, memoryview(rows), density="empirical")
    np.testing.assert_allclose(fx.intercept, model.predict(rows).mean())
