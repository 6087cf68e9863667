"""Columns of text files: the schema decides what is a number, a label, a boolean or missing."""

from __future__ import annotations

import numpy as np
import pytest

from treeanova.data.columns import encode
from treeanova.data.features import Feature, IntegerCategory, Labels, Schema
from treeanova.data.files import LIBRARIES, read_table


@pytest.mark.parametrize("library", LIBRARIES)
def test_numbers_come_back_to_the_last_digit(library, tmp_path):
    pytest.importorskip(library)
    numbers = np.random.default_rng(1).normal(size=500) * 10.0 ** np.random.default_rng(2).integers(-20, 20, 500)
    (tmp_path / "x.csv").write_text("x\n" + "\n".join(map(repr, numbers.tolist())) + "\n")
    schema = Schema((Feature("x"),), named=True)
    assert np.array_equal(encode(read_table(tmp_path / "x.csv", schema, library=library), schema)[:, 0], numbers)


@pytest.mark.parametrize("library", LIBRARIES)
def test_words_for_missing_numbers_and_booleans_are_read(library, tmp_path):
    pytest.importorskip(library)
    (tmp_path / "x.csv").write_text("x,b\n1,True\nNA,False\n,\n nan,True\n-2.5,False\n")
    schema = Schema((Feature("x"), Feature("b")), named=True)
    found = encode(read_table(tmp_path / "x.csv", schema, library=library), schema)
    assert np.array_equal(found[:, 0], [1, np.nan, np.nan, np.nan, -2.5], equal_nan=True)
    assert np.array_equal(found[:, 1], [1, 0, np.nan, 1, 0], equal_nan=True)


@pytest.mark.parametrize("library", LIBRARIES)
def test_labels_that_look_like_something_else(library, tmp_path):
    pytest.importorskip(library)
    (tmp_path / "x.csv").write_text("a,b,c,d\nNA,1, left,2\nnone,0,right,0\n,1,left,\n")
    features = (
        Feature("a", Labels(("none", "NA"))),
        Feature("b", Labels((True, False))),  # 1 == True, so whole numbers are known
        Feature("c", Labels(("left", "right"))),
        Feature("d", IntegerCategory(3)),
    )
    schema = Schema(features, named=True)
    found = encode(read_table(tmp_path / "x.csv", schema, library=library), schema)
    expected = [[1, 0, 0, 2], [0, 1, 1, 0], [np.nan, 0, 0, np.nan]]
    assert np.array_equal(found, expected, equal_nan=True)


def test_empty_cells_are_a_category_only_with_a_warning(tmp_path):
    """CSV writes a missing value and an empty text in the same way; JSON lines do not."""
    (tmp_path / "x.csv").write_text("k,b\nx,1\n,2\n,3\n")
    (tmp_path / "x.jsonl").write_text('{"k": "x", "b": 1}\n{"k": "", "b": 2}\n{"k": null, "b": 3}\n')
    schema = Schema((Feature("k", Labels(("", "x"))), Feature("b")), named=True)
    with pytest.warns(UserWarning, match=r"^x.csv: 2 empty cells of column 'k' are read as the model's category ''"):
        found = encode(read_table(tmp_path / "x.csv", schema), schema)
    assert found[:, 0].tolist() == [1, 0, 0]
    found = encode(read_table(tmp_path / "x.jsonl", schema), schema)
    assert np.array_equal(found[:, 0], [1, 0, np.nan], equal_nan=True)
    for refusing in (
        Feature("k", Labels(("", "x"), none="refused")),
        Feature("k", Labels(("", "x")), accepts_missing=False),
    ):
        schema = Schema((refusing, Feature("b")), named=True)
        assert encode(read_table(tmp_path / "x.csv", schema), schema)[:, 0].tolist() == [1, 0, 0]


def unnamed(n):
    return Schema(tuple(Feature(f"x{j}") for j in range(n)))


def test_an_index_saved_as_first_column_goes_unless_the_model_wants_it(tmp_path):
    (tmp_path / "x.csv").write_text(",a,b\n7,1,2\n8,3,4\n")
    assert encode(read_table(tmp_path / "x.csv", unnamed(2)), unnamed(2)).tolist() == [[1, 2], [3, 4]]
    assert encode(read_table(tmp_path / "x.csv", unnamed(3)), unnamed(3)).tolist() == [[7, 1, 2], [8, 3, 4]]
    named = Schema((Feature("Unnamed: 0"), Feature("b")), named=True)
    assert encode(read_table(tmp_path / "x.csv", named), named).tolist() == [[7, 2], [8, 4]]


def test_columns_with_blanks_match_names_with_underscores(tmp_path):
    (tmp_path / "x.csv").write_text("left side,b\n1,2\n")
    schema = Schema((Feature("b"), Feature("left_side")), named=True, underscores=True)
    assert encode(read_table(tmp_path / "x.csv", schema), schema).tolist() == [[2, 1]]


def test_other_numbers_of_columns_than_a_model_without_names_has(tmp_path):
    (tmp_path / "x.csv").write_text("a,b,c\n1,2,3\n")
    with pytest.raises(
        ValueError, match=r"must have 2 columns, because the model has no names for them, got 3: a, b, c; .*--target"
    ):
        read_table(tmp_path / "x.csv", unnamed(2))


def one_category(path, numbers, *labels):
    """The column of a text file as a model with these labels reads it, with the positions of its labels."""
    path.write_text("k\n" + "".join(f"{number}\n" for number in numbers))
    schema = Schema((Feature("k", Labels(labels)),), named=True)
    return encode(read_table(path, schema), schema)[:, 0].tolist()


def test_whole_numbers_are_read_as_labels_of_text(tmp_path):
    assert one_category(tmp_path / "k.csv", [1.0, 2.0], "1", "2") == [0, 1]  # as pandas writes them beside missing ones
    assert one_category(tmp_path / "k.csv", [1.0, 2.0], "1.0", "2.0") == [0, 1]
    assert one_category(tmp_path / "k.csv", [1, 2, 11], "1", "2") == [0, 1, 2]  # 11 is another category


def test_numbers_that_lost_their_zeros_are_refused(tmp_path):
    with pytest.raises(
        TypeError, match=r"k.csv: column 'k' must spell numbers as the labels of the model, '01', got '1'"
    ):
        one_category(tmp_path / "k.csv", [1, 2, 10], "01", "02", "10")
    assert one_category(tmp_path / "k.csv", ["01", "1"], "01", "1") == [0, 1]
