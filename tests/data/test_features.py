"""Encoders: what a raw value becomes, against plain rules; equality of encoders, features and schemas."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support.training import fit
from treeanova.data.columns import encode
from treeanova.data.features import Feature, IntegerCategory, Labels, Numeric, Schema, distinct, is_missing
from treeanova.readers.xgboost.nodes import NamedCategory

pd = pytest.importorskip("pandas")

NAN = float("nan")


def objects(*values):
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def test_numbers_are_themselves_and_a_further_value_may_mean_missing():
    column = np.array([1.5, -999.0, NAN, np.inf, 0.0])
    np.testing.assert_array_equal(Numeric().encode(column, "x"), column)
    np.testing.assert_array_equal(Numeric(missing=-999).encode(column, "x"), [1.5, NAN, NAN, np.inf, 0.0])
    np.testing.assert_array_equal(Numeric(missing=0).encode(np.array([0, 1]), "x"), [NAN, 1.0])
    np.testing.assert_array_equal(Numeric().encode(objects(None, True, 2, "3.5"), "x"), [NAN, 1.0, 2.0, 3.5])


@pytest.mark.parametrize("value", ["old", (1, 2), "1_0", pytest.param(10**400, id="huge")])
def test_what_is_no_number_is_named(value):
    with pytest.raises(TypeError, match=r"column 'age' must hold numbers, got .*(old|1, 2|1_0|10000)"):
        Numeric().encode(objects(1.0, None, value), "age")
    with pytest.raises(TypeError, match=r"column 'age' must hold numbers, .* got .*(old|1, 2|1_0|10000)"):
        Numeric(cast="float32").encode(objects("2", None, value), "age")


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


@pytest.mark.parametrize(
    ("labels", "value"),
    [
        ((1, 20), "20"),
        ((1.0, 2.5), "2.5"),
        (("1", "20"), 20),
        (("1", "20"), 20.0),
        ((False, True), "True"),
        ((False, True), "false"),
        (("False", "True"), True),
    ],
)
def test_a_label_of_another_type_is_refused(labels, value):
    with pytest.raises(TypeError, match=f"'k' must hold labels of the type that the model knows, got {value!r}"):
        Labels(labels).encode(objects(labels[0], None, value), "k")
    np.testing.assert_array_equal(Labels(labels).encode(objects(*labels, "new", None), "k"), [0, 1, 2, NAN])


@pytest.mark.parametrize("missing", [None, NAN, pd.NA, pd.NaT, np.datetime64("NaT", "D"), np.float32("nan")])
def test_every_kind_of_missing_label_is_missing(missing):
    assert is_missing(missing)
    np.testing.assert_array_equal(Labels(("a", "b")).encode(objects("b", missing, "z", "a"), "k"), [1, NAN, 2, 0])


@pytest.mark.parametrize("value", ["", "nan", "None", 0, False, 0.0, (), np.str_("NaT")])
def test_other_values_are_not_missing(value):
    assert not is_missing(value)


def test_labels_of_numbers_and_labels_as_text():
    np.testing.assert_array_equal(Labels((10, 20)).encode(np.array([20.0, NAN, 10.0, 15.0]), "k"), [1, NAN, 0, 2])
    np.testing.assert_array_equal(Labels(("1", "2"), spelling="text").encode(objects(2, "1", 3), "k"), [1, 0, 2])
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


# Equality


@pytest.mark.parametrize(
    "make",
    [
        Numeric,
        lambda nan: IntegerCategory(3, None, nan),
        lambda nan: Numeric(nan, "float32"),
        lambda nan: IntegerCategory(3, missing=nan, cast="float32"),
        lambda nan: NamedCategory(((("a",), (1,)),), nan),
        lambda nan: Numeric(nan, "text"),
        lambda nan: Feature("a", Numeric(nan)),
        lambda nan: Schema((Feature("a", Numeric(nan, "float32")),), absent=nan),
    ],
)
def test_values_with_nan_are_equal(make):
    one, other = make(float("nan")), make(float("nan"))
    assert one == other
    assert hash(one) == hash(other)
    assert one != make(-999.0)


def test_encoders_with_different_fields_differ():
    assert Numeric() != Numeric(cast="float32")
    assert Numeric() != Numeric(cast="text")
    assert Schema((Feature("a"),)) != Schema((Feature("b"),))
    assert Numeric() != "Numeric"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Numeric(cast="float16"), "`cast` of an encoder must be one of 'float64', 'float32'"),
        (
            lambda: IntegerCategory(3, cast="text"),
            "`cast` of an encoder must be one of 'float64', 'float32', got 'text'",
        ),
        (lambda: Labels(("a",), "upper"), "`spelling` of an encoder must be one of 'value', 'text', 'short text'"),
        (lambda: Labels(("a",), none="first"), "`none` of an encoder must be one of 'missing', 'category', 'refused'"),
    ],
)
def test_policies_must_be_known(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("raw", "code"), [(0, 0), (5.9, 1), (-0.5, 2), (-1, 2), (3, 2), (NAN, NAN), (2.0**32 - 0.5, 2)]
)
def test_listed_codes_may_leave_out_negative_and_large_numbers(raw, code):
    encoder = IntegerCategory((0, 5), cuts_negative=False, largest=2.0**32 - 1)
    np.testing.assert_array_equal(encoder.encode(np.array([raw], dtype=float), "k"), [code])
    whole = IntegerCategory((0, 5, 2**32 - 1), largest=2.0**32 - 1)
    assert whole.encode(np.array([2.0**32 - 0.5, 2.0**32 - 1, -0.5]), "k").tolist() == [3, 2, 0]


def test_numbers_of_single_precision_may_be_objects_of_an_array():
    schema = Schema((Feature("a", Numeric(cast="float32")), Feature("g", Labels(("x", "y")))))
    rows = np.array([[0.1, "x"], [None, "y"], [3, "x"]], dtype=object)
    np.testing.assert_array_equal(encode(rows, schema), [[0.1, 0.0], [np.nan, 1.0], [3.0, 0.0]])
    with pytest.raises(TypeError, match=r"column 'a' must hold numbers, .* got 'x'"):
        encode(np.array([["x", "x"]], dtype=object), schema)


@pytest.mark.parametrize("labels", [("1", "2", "7"), (1, 2, 7)])
def test_a_column_of_missing_values_only_is_missing_whether_numbers_are_codes_or_labels(labels):
    encoder = Labels(labels, numbers_are_codes=True)
    missing = np.array([np.nan, np.nan])
    assert np.isnan(encoder.encode(encoder.of_table(missing, "k"), "k")).all()
    with pytest.raises(TypeError, match="which could be codes or labels"):
        encoder.of_table(np.array([np.nan, 1.0]), "k")


@pytest.mark.parametrize("value", [True, np.True_, 1.0, 1])
def test_a_row_of_objects_may_hold_any_boolean(value):
    schema = Schema((Feature("d", Numeric(cast="float32")), Feature("g", Labels(("x", "y")))))
    np.testing.assert_array_equal(encode([[value, "y"]], schema), [[1.0, 1.0]])


def test_numbers_are_refused_where_all_labels_are_text():
    encoder = Labels(("lo", "mid", "hi"))
    for column in (np.array([0, 1, 2]), np.array([np.nan, 1.0]), np.array([True])):
        with pytest.raises(TypeError, match=r"column 'c' must hold labels of the type that the model knows, .*'lo'"):
            encoder.encode(column, "c")
    assert np.isnan(encoder.encode(np.array([np.nan, np.nan]), "c")).all()
    assert encoder.encode(np.array(["hi", "else"], dtype=object), "c").tolist() == [2.0, 3.0]


def test_numbers_are_texts_where_the_library_reads_them_so():
    encoder = Labels(("lo", "7"), "short text")
    np.testing.assert_array_equal(encoder.encode(np.array([7.0, 8.0]), "c"), [1.0, 2.0])


@pytest.mark.parametrize("codes", [[0, 1, 2], [0.0, np.nan, 1.0]])
def test_codes_of_a_text_category_are_refused_as_scikit_learn_refuses_them(codes):
    from sklearn.ensemble import HistGradientBoostingRegressor

    levels = np.array(["lo", "mid", "hi"])[np.arange(90) % 3]
    X = pd.DataFrame({"c": pd.Categorical(levels, ["lo", "mid", "hi"])})
    model = fit(HistGradientBoostingRegressor(categorical_features=["c"], max_iter=3), X, np.arange(90) % 3)
    fx = treeanova.decompose(model, X)
    rows = pd.DataFrame({"c": codes})
    with pytest.raises(TypeError):
        model.predict(rows)
    with pytest.raises(TypeError, match="labels of the type that the model knows"):
        fx.decision_function(rows)
