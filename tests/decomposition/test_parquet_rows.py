"""Explanations in Parquet files: those of explain() and of the model, whole or not at all, continued after a stop."""

import os
import sys

import numpy as np
import pytest

import treeanova
from tests.support.forests import chains
from tests.support.library_models import LIBRARY_MODELS
from tests.support.training import fit
from treeanova.data import streams
from treeanova.decomposition import explanation as parquet_rows
from treeanova.testing import example

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(streams, "ROWS_PER_BATCH", 50)


@pytest.fixture(scope="module")
def categories():
    pytest.importorskip("lightgbm")
    return LIBRARY_MODELS["lightgbm categories"].make()


def files(folder, rows):
    folder.mkdir()
    for number, start in enumerate(range(0, len(rows), 70)):
        rows[start : start + 70].to_parquet(folder / f"{number}.parquet")
    return folder


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("source", [lambda _, rows: rows, files, lambda _, rows: iter([rows[:90], rows[90:]])])
def test_the_file_holds_what_explain_returns(categories, source, tmp_path):
    fx, rows = categories
    fx.explain_to(tmp_path / "out.parquet", source(tmp_path / "in", rows))
    table = pq.read_table(tmp_path / "out.parquet").to_pandas()
    explained = fx.explain(rows)
    assert list(table) == [*explained.to_frame(), "intercept", "score"]
    np.testing.assert_allclose(table.iloc[:, :-2], explained.to_frame(), atol=1e-14)
    np.testing.assert_allclose(table["score"], fx.decision_function(rows), atol=1e-12)
    np.testing.assert_allclose(table["score"], table.iloc[:, :-1].sum(axis=1), atol=1e-12)
    assert not (tmp_path / "out.parquet.parts").exists()


@pytest.mark.parametrize("name", ["multiclass", "order three", "two targets"])
def test_columns_of_outputs_and_of_higher_orders(name, tmp_path):
    fx, rows = LIBRARY_MODELS[name].make()
    fx = fx.truncate(2)
    fx.explain_to(tmp_path / "out.parquet", rows)
    table = pq.read_table(tmp_path / "out.parquet").to_pandas()
    explained = fx.explain(rows)
    assert list(table)[: -2 * len(fx.outputs)] == list(explained.to_frame())
    np.testing.assert_allclose(table[list(explained.to_frame())], explained.to_frame(), atol=1e-14)
    scores = fx.decision_function(rows).reshape(len(rows), -1)
    names = ["score"] if len(fx.outputs) == 1 else [f"score [{output}]" for output in fx.outputs]
    np.testing.assert_allclose(table[names], scores, atol=1e-12)


@pytest.mark.usefixtures("small_batches")
def test_some_terms_and_columns_of_the_rows(categories, tmp_path):
    fx, rows = categories
    rows = rows.assign(id=[f"row {i}" for i in range(len(rows))])
    fx.explain_to(tmp_path / "out.parquet", rows, terms=["k", ("a", "k")], keep=["id", "k"])
    table = pq.read_table(tmp_path / "out.parquet").to_pandas()
    assert list(table) == ["k", "a × k", "remainder", "intercept", "score", "id", "(k)"]
    np.testing.assert_allclose(table["a × k"], fx.term_values(rows, ["a", "k"]), atol=1e-14)
    np.testing.assert_allclose(table["score"], fx.decision_function(rows), atol=1e-12)
    assert table["id"].tolist() == rows["id"].tolist()
    assert table["(k)"].tolist() == rows["k"].tolist()


def test_one_column_of_the_rows_may_be_given_by_its_name(categories, tmp_path):
    fx, rows = categories
    fx.explain_to(tmp_path / "out.parquet", rows.assign(id=range(len(rows))), terms=["k"], keep="id")
    table = pq.read_table(tmp_path / "out.parquet").to_pandas()
    assert list(table) == ["k", "remainder", "intercept", "score", "id"]
    assert table["id"].tolist() == list(range(len(rows)))
    with pytest.raises(TypeError, match=r"`terms` must be a list of terms, got 'k'; pass \['k'\]"):
        fx.explain_to(tmp_path / "out.parquet", rows, terms="k")


class StopError(Exception):
    """What stops a job."""


def stop_after(n_rows):
    def progress(stage, done, total):
        if stage == "explaining rows" and done >= n_rows:
            raise StopError

    return progress


def explained_rows(monkeypatch, work):
    """Number of rows that are explained by some work."""
    lengths = []
    make = parquet_rows._arrow_table
    monkeypatch.setattr(
        parquet_rows,
        "_arrow_table",
        lambda explained, kept: lengths.append(len(explained.values)) or make(explained, kept),
    )
    work()
    monkeypatch.undo()
    return sum(lengths)


def test_a_stopped_job_goes_on_where_it_was(categories, tmp_path, monkeypatch):
    fx, rows = categories
    folder = files(tmp_path / "in", rows)
    (tmp_path / "out.parquet").write_bytes(b"old")
    with pytest.raises(StopError):
        fx.explain_to(tmp_path / "out.parquet", folder, progress=stop_after(140))
    assert (tmp_path / "out.parquet").read_bytes() == b"old"
    assert len(list((tmp_path / "out.parquet.parts").iterdir())) == 2
    n_rows = explained_rows(monkeypatch, lambda: fx.explain_to(tmp_path / "out.parquet", folder))
    assert n_rows == len(rows) - 140
    fx.explain_to(tmp_path / "again.parquet", folder)
    assert pq.read_table(tmp_path / "out.parquet").equals(pq.read_table(tmp_path / "again.parquet"))


CHANGES = {
    "nothing": (0, lambda fx, rows, folder: (fx, {})),
    "rows": (70, lambda fx, rows, folder: (fx, rows[:70].iloc[::-1].to_parquet(folder / "0.parquet") or {})),
    "density": (140, lambda fx, rows, folder: (fx.with_density("uniform"), {})),
    "terms": (140, lambda fx, rows, folder: (fx, {"terms": ["a"]})),
    "columns": (140, lambda fx, rows, folder: (fx, {"keep": ["n"]})),
    "truncation": (140, lambda fx, rows, folder: (fx.truncate(1), {})),
}


@pytest.mark.parametrize(("n_changed", "change"), CHANGES.values(), ids=list(CHANGES))
def test_parts_of_another_job_are_not_used(categories, tmp_path, monkeypatch, n_changed, change):
    fx, rows = categories
    folder = files(tmp_path / "in", rows)
    with pytest.raises(StopError):
        fx.explain_to(tmp_path / "out.parquet", folder, progress=stop_after(140))
    fx, options = change(fx, rows, folder)
    n_rows = explained_rows(monkeypatch, lambda: fx.explain_to(tmp_path / "out.parquet", folder, **options))
    assert n_rows == len(rows) - 140 + n_changed
    fx.explain_to(tmp_path / "again.parquet", folder, **options)
    assert pq.read_table(tmp_path / "out.parquet").equals(pq.read_table(tmp_path / "again.parquet"))


@pytest.mark.parametrize(
    "damage", [lambda content: content[:100], lambda content: content[:400] + b"?" + content[401:]]
)
def test_damaged_parts_are_written_again(categories, tmp_path, monkeypatch, damage):
    fx, rows = categories
    folder = files(tmp_path / "in", rows)
    with pytest.raises(StopError):
        fx.explain_to(tmp_path / "out.parquet", folder, progress=stop_after(140))
    first = min((tmp_path / "out.parquet.parts").iterdir())
    first.write_bytes(damage(first.read_bytes()))
    n_rows = explained_rows(monkeypatch, lambda: fx.explain_to(tmp_path / "out.parquet", folder))
    assert n_rows == len(rows) - 70
    fx.explain_to(tmp_path / "again.parquet", folder)
    assert pq.read_table(tmp_path / "out.parquet").equals(pq.read_table(tmp_path / "again.parquet"))
    assert not (tmp_path / "out.parquet.parts").exists()


def test_files_of_others_in_the_folder_of_parts_stay(tmp_path):
    fx, X = example()
    folder = tmp_path / "out.parquet.parts"
    folder.mkdir()
    for name in ("mine.txt", "0.parquet"):
        (folder / name).write_text("mine")
    with pytest.raises(StopError):
        fx.explain_to(tmp_path / "out.parquet", [X, X], progress=stop_after(4))
    assert len(list(folder.iterdir())) == 3
    fx.explain_to(tmp_path / "out.parquet", [X, X])
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 8
    assert sorted(file.name for file in folder.iterdir()) == ["0.parquet", "mine.txt"]


def test_a_file_with_the_name_of_the_folder_of_parts_is_an_error(tmp_path):
    fx, X = example()
    (tmp_path / "out.parquet.parts").write_text("mine")
    with pytest.raises(ValueError, match=r"next to a folder 'out\.parquet\.parts' for its parts, got a file"):
        fx.explain_to(tmp_path / "out.parquet", X)
    assert (tmp_path / "out.parquet.parts").read_text() == "mine"


def test_an_error_before_the_first_part_leaves_no_folder(categories, tmp_path):
    fx, rows = categories
    with pytest.raises(ValueError, match="none"):
        fx.explain_to(tmp_path / "out.parquet", rows, keep=["none"])
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("small_batches")
def test_progress_counts_rows(categories, tmp_path):
    fx, rows = categories
    calls = []
    fx.explain_to(tmp_path / "out.parquet", rows, progress=lambda *call: calls.append(call))
    assert calls == [("explaining rows", done, 200) for done in (0, 50, 100, 150, 199, 200)]


def test_many_terms_are_written_in_blocks(categories, tmp_path, monkeypatch):
    fx, rows = categories
    monkeypatch.setattr(parquet_rows, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(parquet_rows, "_FEWEST_ROWS", 30)
    fx.explain_to(tmp_path / "out.parquet", rows, keep=["a"])
    assert pq.ParquetFile(tmp_path / "out.parquet").num_row_groups == 7
    table = pq.read_table(tmp_path / "out.parquet").to_pandas()
    np.testing.assert_array_equal(table["(a)"], rows["a"])
    np.testing.assert_allclose(table["score"], fx.decision_function(rows), atol=1e-12)


def test_errors_name_what_is_wrong(categories, tmp_path):
    fx, rows = categories
    with pytest.raises(ValueError, match=r"`path` must be a file in a folder that exists, got '.*out\.parquet'"):
        fx.explain_to(tmp_path / "none" / "out.parquet", rows)
    with pytest.raises(ValueError, match="`X` must have at least one row, got 0 rows"):
        fx.explain_to(tmp_path / "out.parquet", rows[:0])
    assert not list(tmp_path.iterdir())
    with pytest.raises(TypeError, match="batch 2: column 'id' to keep must have the same type in all of `X`"):
        fx.explain_to(tmp_path / "out.parquet", [rows.assign(id=1), rows.assign(id="x")], keep=["id"])
    mixed = rows.assign(id=np.array([1, "x"] + [2] * (len(rows) - 2), dtype=object))
    with pytest.raises(TypeError, match=r"columns to keep must have one type each, got .* column id"):
        fx.explain_to(tmp_path / "out.parquet", mixed, keep=["id"])


def test_rows_of_a_list(tmp_path):
    fx, X = example()
    fx.explain_to(tmp_path / "out.parquet", X.tolist())
    assert pq.read_table(tmp_path / "out.parquet")["score"].to_pylist() == [0, 0, 0, 1]


def test_a_kept_column_may_be_a_feature_of_a_model_without_names(tmp_path):
    forest = chains([(0, 0.0), (1, 0.5)], [(2, 1.0)])
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=["x0", "x1", "x2"])
    fx = treeanova.decompose(forest, rows)
    fx.explain_to(tmp_path / "out.parquet", rows.assign(id=np.arange(60))[["id", "x2", "x0", "x1"]], keep=["x0", "id"])
    table = pq.read_table(tmp_path / "out.parquet").to_pandas()
    np.testing.assert_allclose(table["score"], forest.score(rows.to_numpy())[:, 0], atol=1e-12)
    np.testing.assert_array_equal(table["(x0)"], rows["x0"])
    with pytest.raises(ValueError, match="'x0' is the name of both, got x1, x2, id"):
        fx.explain_to(tmp_path / "out.parquet", rows.assign(id=np.arange(60)), keep=["x0"])


def dataset(folder):
    return pytest.importorskip("pyarrow.dataset").dataset(folder)


def lazy(source):
    return pytest.importorskip("polars").scan_parquet(source)


def query(text):
    """Rows of a DuckDB query, whose text has the folder of the files in place of FOLDER."""
    return lambda folder: pytest.importorskip("duckdb").sql(text.replace("FOLDER", str(folder))).project("x0, x1")


NEEDS_LINKS = pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")
OWN_FILES = {
    "the file": lambda folder: str(folder / "1.parquet"),
    "a folder": lambda folder: folder,
    "a folder above": lambda folder: folder.parent,
    "a pattern": lambda folder: str(folder / "*.parquet"),
    "a pattern of folders": lambda folder: str(folder.parent / "**" / "*.parquet"),
    "a list": lambda folder: [folder / "0.parquet", folder / "1.parquet"],
    "a link": lambda folder: folder.parent / "link.parquet",
    "another name": lambda folder: folder.parent / "hard.parquet",
    "a dataset": dataset,
    "a lazy frame": lazy,
    "a query": lambda folder: lazy(folder / "*.parquet").select("x0", "x1").filter(True),
    "a file in SQL": query("SELECT * FROM 'FOLDER/1.parquet' WHERE x0 = 0"),
    "a pattern in SQL": query("SELECT * FROM (SELECT x1, x0 FROM read_parquet('FOLDER/*.parquet'))"),
    "a name in SQL": query('SELECT * FROM "FOLDER/1.parquet"'),
}


@NEEDS_LINKS
@pytest.mark.parametrize("source", OWN_FILES)
def test_a_file_of_the_rows_is_not_replaced(source, tmp_path):
    fx, X = example()
    folder = files(tmp_path / "rows", pd.DataFrame(np.repeat(X, 30, axis=0), columns=["x0", "x1"]))
    (tmp_path / "link.parquet").symlink_to(folder / "1.parquet")
    os.link(folder / "1.parquet", tmp_path / "hard.parquet")
    before, names = (folder / "1.parquet").read_bytes(), sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=r"`path` must be a file that is not read as part of `X`, got '.*1\.parquet'"):
        fx.explain_to(folder / "1.parquet", OWN_FILES[source](folder))
    assert (folder / "1.parquet").read_bytes() == before
    assert sorted(tmp_path.rglob("*")) == names


@NEEDS_LINKS
@pytest.mark.parametrize("source", ["a folder", "a folder above", "a pattern", "a pattern of folders"])
def test_a_file_that_would_be_read_as_rows_is_not_written(source, tmp_path):
    fx, X = example()
    folder = files(tmp_path / "rows", pd.DataFrame(X, columns=["x0", "x1"]))
    (tmp_path / "linked").symlink_to(folder)
    for target in (folder / "terms.parquet", tmp_path / "linked" / "terms.parquet"):
        with pytest.raises(ValueError, match=r"`path` must be a file that is not read as part of `X`, got '.*terms\."):
            fx.explain_to(target, OWN_FILES[source](folder))
    assert [file.name for file in folder.iterdir()] == ["0.parquet"]
    fx.explain_to(folder / "_terms.parquet", folder)  # names with _ at the beginning are no rows
    fx.explain_to(tmp_path / "terms.parquet", folder)
    assert pq.read_table(tmp_path / "terms.parquet").num_rows == len(X)


ABSENT = [None] * 4


@pytest.mark.parametrize(
    "batches",
    [
        (ABSENT, ["x"] * 4),
        (["x"] * 4, ABSENT),
        (ABSENT, ABSENT, [1.5] * 4, ABSENT),
        (ABSENT, ABSENT),
        ([1] * 4, ABSENT),
    ],
)
def test_kept_columns_may_be_missing_in_any_batch(batches, tmp_path):
    fx, X = example()
    frames = [pa.table({"x0": X[:, 0], "x1": X[:, 1], "note": pa.array(values)}) for values in batches]
    fx.explain_to(tmp_path / "out.parquet", frames, keep=["note"])
    assert pq.read_table(tmp_path / "out.parquet")["note"].to_pylist() == [value for part in batches for value in part]


def test_kept_columns_may_be_missing_in_the_first_block_of_a_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_rows, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(parquet_rows, "_FEWEST_ROWS", 2)
    fx, X = example()
    notes = [None, None, "x", "y"]
    rows = pd.DataFrame(X, columns=["x0", "x1"]).assign(note=pd.Series(notes, dtype=object))
    fx.explain_to(tmp_path / "out.parquet", rows, keep=["note"])
    assert pq.read_table(tmp_path / "out.parquet")["note"].to_pylist() == notes


def test_fractions_after_whole_numbers_are_refused_by_the_name_of_the_column(tmp_path):
    fx, X = example()
    frames = [pa.table({"x0": X[:, 0], "x1": X[:, 1], "note": [value] * 4}) for value in (1, 2.5)]
    with pytest.raises(
        TypeError, match=r"batch 2: column 'note' to keep must have the same type .* got double after int"
    ):
        fx.explain_to(tmp_path / "out.parquet", frames, keep=["note"])


def test_columns_of_several_levels(tmp_path):
    tree = pytest.importorskip("sklearn.tree")
    columns = pd.MultiIndex.from_tuples([("g", "a"), ("g", "b"), ("h", "a")])
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=columns)
    model = fit(tree.DecisionTreeRegressor(max_depth=3), rows.to_numpy(), rows.to_numpy()[:, 0])
    fx = treeanova.decompose(model, rows)
    fx.explain_to(tmp_path / "out.parquet", rows, keep=[("g", "b")])
    table = pq.read_table(tmp_path / "out.parquet").to_pandas()
    np.testing.assert_allclose(table["score"], model.predict(rows.to_numpy()), atol=1e-12)
    np.testing.assert_array_equal(table.iloc[:, -1], rows["g", "b"])


@pytest.mark.parametrize("rows", [5, None, {"x0": [1.0]}, object(), [[[1.0]]]])
def test_what_holds_no_rows_is_refused(rows, tmp_path):
    fx, _ = example()
    kind = type(rows).__name__
    with pytest.raises(TypeError, match=f"`X` must be a table, a matrix, or rows in batches .*, got {kind};"):
        fx.explain_to(tmp_path / "out.parquet", rows)
    assert list(tmp_path.iterdir()) == []


def test_lists_of_numbers_are_rows(tmp_path):
    fx, X = example()
    fx.explain_to(tmp_path / "out.parquet", X.tolist())
    assert pq.read_table(tmp_path / "out.parquet")["score"].to_pylist() == fx.decision_function(X).tolist()
