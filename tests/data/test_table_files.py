"""Files of tables: compressed ones are unpacked, damaged ones give one clear line."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import lzma
import shutil
import subprocess

import pytest

from treeanova.data.features import Feature, Schema
from treeanova.data.tabular import read_table, records

pytest.importorskip("polars")


def packed_zst(text, path):
    tool = shutil.which("zstd")
    if tool is None:
        pytest.skip("no zstd")
    path.with_suffix("").write_bytes(text)
    subprocess.run([tool, "-q", str(path.with_suffix("")), "-o", str(path)], check=True)


PACKERS = {
    ".gz": lambda text, path: path.write_bytes(gzip.compress(text)),
    ".bz2": lambda text, path: path.write_bytes(bz2.compress(text)),
    ".xz": lambda text, path: path.write_bytes(lzma.compress(text)),
    ".zst": packed_zst,
}


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressed_text_is_unpacked(suffix, tmp_path):
    if suffix == ".zst":
        pytest.importorskip("pyarrow")
    PACKERS[suffix](b"a;b\n1;2\n", tmp_path / f"x.csv{suffix}")
    assert records(read_table(tmp_path / f"x.csv{suffix}")) == [{"a": 1, "b": 2}]


BAD = {
    "names": ("x.csv", b"a,b\n1,2\n", "got none named 'x', 'y'; it has a, b"),
    "target": ("x.csv", b"x,y\n1,2\n", "x.csv must have the columns to leave out, got none named 'price'; it has x, y"),
    "empty": ("x.csv", b"", "must start with a line of column names"),
    "headless": ("x.csv", b"1,2\n3,4\n", "got the numbers '1,2'"),
    "doubled": ("x.csv", b"x,x,y,price\n1,2,3,4\n", "each column once, got 'x' twice"),
    "format": ("x.xlsx", b"", "it reads .csv, .tsv, .parquet"),
    "damaged": ("x.parquet", b"junk", "x.parquet must be a whole parquet file, got an error of"),
    "cut": ("x.csv.gz", gzip.compress(b"x,y\n1,2\n" * 99)[:-12], "must be a whole csv file"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_give_one_clear_line(case, tmp_path):
    name, content, message = BAD[case]
    (tmp_path / name).write_bytes(content)
    schema = Schema((Feature("x"), Feature("y")), named=True)
    drop = ["price"] if case in {"target", "doubled"} else []
    with pytest.raises(ValueError, match=message.replace("(", r"\(")) as caught:
        read_table(tmp_path / name, schema, drop=drop)
    assert "\n" not in str(caught.value)


def test_without_a_library_the_error_names_one(tmp_path, monkeypatch):
    (tmp_path / "x.csv").write_text("a\n1\n")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install polars"):
        read_table(tmp_path / "x.csv")
