"""Files of tables: compressed ones are unpacked, damaged ones give one clear line."""

from __future__ import annotations

import bz2
import codecs
import gzip
import importlib.util
import lzma
import math
import shutil
import subprocess

import numpy as np
import pytest

from treeanova.data.columns import columns_of, encode
from treeanova.data.dates import DateNumber
from treeanova.data.features import Feature, Numeric, Schema
from treeanova.data.files import LIBRARIES, TableError, read_table, records

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
    "too many cells": ("x.csv", b"x,y\n1,2\n3,4,\n", "must have 2 cells in each row, got 3 in row 2; correct the row"),
    "too few cells": ("x.csv", b"x,y\n1,2\n\n3\n", "must have 2 cells in each row, got 1 in row 3"),
    "stray quote": ("x.csv", b'x,y\n1,5" nail\n', "must have quotes around whole cells only"),
    "open quote": ("x.csv", b'x,y\n1,"2\n', "must have quotes around whole cells only"),
    "blanks only": ("x.csv", b"x,y\n\n \n\r\n", "must have at least one row, got 0"),
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


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("case", [case for case in BAD if BAD[case][0] == "x.csv"])
def test_every_library_refuses_the_same_text(case, library, tmp_path):
    name, content, message = BAD[case]
    (tmp_path / name).write_bytes(content)
    pytest.importorskip(library)
    drop = ["price"] if case in {"target", "doubled"} else []
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / name, Schema((Feature("x"), Feature("y")), named=True), drop=drop, library=library)


NAN, FLOAT_MAX = float("nan"), 1.7976931348623157e308
NASTY = {
    "plain": (b"a,b\n1,2.5\n-3,4\n", {"a": [1, -3], "b": [2.5, 4.0]}),
    "blank lines": (b"a,b\n1,2\n\n3,4\n \t\n\r\n5,6\n\n", {"a": [1, 3, 5], "b": [2, 4, 6]}),
    "blank first lines": (b"\n\r\na,b\n1,2\n", {"a": [1], "b": [2]}),
    "blank lines of one column": (b'a\n1\n\n2\n""\nNA\n', {"a": [1.0, 2.0, NAN, NAN]}),
    "blank line in quotes": (b'a,b\n1,"x\n\ny"\n\n2,z\n', {"a": [1, 2], "b": ["x\n\ny", "z"]}),
    "rows of nothing": (b"a,b\n1,2\n,\n3,4\n", {"a": [1.0, NAN, 3.0], "b": [2.0, NAN, 4.0]}),
    "mark of bytes": (b"\xef\xbb\xbfa,b\n1,2\n", {"a": [1], "b": [2]}),
    "line ends of Windows": (b"a,b\r\n1,x\r\n2,y\r\n", {"a": [1, 2], "b": ["x", "y"]}),
    "line ends of old Macs": (b"a,b\r1,x\r2,y\r", {"a": [1, 2], "b": ["x", "y"]}),
    "no last line end": (b"a,b\n1,2\n3,4", {"a": [1, 3], "b": [2, 4]}),
    "quotes": (b'a,b\n"1","say ""so"", twice"\n2,""\n', {"a": [1, 2], "b": ['say "so", twice', ""]}),
    "quoted names": (b'"a, and","b\nc"\n1,2\n', {"a, and": [1], "b\nc": [2]}),
    "trailing separator": (b"a,b,\n1,2,\n3,4,\n", {"a": [1, 3], "b": [2, 4], "Unnamed: 2": [NAN, NAN]}),
    "words for missing": (b"a,b\nNA,NA\n1.5,x\nnan,\n", {"a": [NAN, 1.5, NAN], "b": ["NA", "x", ""]}),
    "infinities": (b"a\ninf\n-inf\n-Infinity\n1e400\n0.1\n", {"a": [math.inf, -math.inf, -math.inf, math.inf, 0.1]}),
    "leading zeros": (b"a,b\n007,0.10\n010,-0\n", {"a": [7, 10], "b": [0.1, -0.0]}),
    "blanks around": (b"a,b\n 1, 2.5\n3 ,4 \n", {"a": [1, 3], "b": [2.5, 4.0]}),
    "thousands": (b'a,b\n"1,000",1_000\n2,2_000\n', {"a": ["1,000", "2"], "b": ["1_000", "2_000"]}),
    "large whole numbers": (b"a\n9007199254740993\n9223372036854775807\n", {"a": [2**53 + 1, 2**63 - 1]}),
    "2 to the power of 63": (b"a\n9223372036854775808\n1\n", {"a": [2.0**63, 1.0]}),
    "2 to the power of 64": (b"a\n18446744073709551616\n-1\n", {"a": [2.0**64, -1.0]}),
    "huge whole number": (b"a\n" + b"9" * 40 + b"\n1\n", {"a": [1e40, 1.0]}),
    "digits": (b"a\n0.1\n1e-7\n.5\n5.\n+2\n1.7976931348623157e308\n", {"a": [0.1, 1e-7, 0.5, 5.0, 2.0, FLOAT_MAX]}),
    "mixed": (b"a,b\n1,x\ntwo,3\n", {"a": ["1", "two"], "b": ["x", "3"]}),
    "dates": (b"a\n2020-01-31\n2021-02-28\n", {"a": ["2020-01-31", "2021-02-28"]}),
    "dates and times": (b"a\n2020-01-31T10:00:00\n", {"a": ["2020-01-31T10:00:00"]}),
    "dates and times with blanks": (b"a\n2020-01-31 10:00:00\n", {"a": ["2020-01-31 10:00:00"]}),
    "times": (b"a\n10:30\n11:45\n", {"a": ["10:30", "11:45"]}),
    "booleans": (b"a,b,c\ntrue,True,true\nfalse,FALSE,\n", {"a": [True, False], "b": [True, False], "c": ["true", ""]}),
    "semicolons": (b"a;b\n1,5;x\n2,5;y\n", {"a": ["1,5", "2,5"], "b": ["x", "y"]}),
    "hexadecimal": (b"a\n0x10\n1\n", {"a": ["0x10", "1"]}),
    "letters": ("a,b\né,1\n\u5b57,2\n".encode(), {"a": ["é", "\u5b57"], "b": [1, 2]}),
    "other digits": ("a\n\uff11\n\uff12\n".encode(), {"a": ["\uff11", "\uff12"]}),
}  # fmt: skip


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("case", NASTY)
def test_every_library_reads_the_same_text(case, library, tmp_path):
    pytest.importorskip(library)
    content, expected = NASTY[case]
    (tmp_path / "x.csv").write_bytes(content)
    found = columns_of(read_table(tmp_path / "x.csv", library=library))
    shown = {name: [NAN if cell is None else cell for cell in column] for name, column in found.items()}
    assert repr(shown) == repr(expected)  # types too; NaN and zeros by their text


@pytest.mark.parametrize("library", LIBRARIES)
def test_dates_and_large_numbers_reach_the_model(library, tmp_path):
    pytest.importorskip(library)
    text = "day,big,n\n2020-01-31,18446744073709551616,1\nNA,3,\n2020-02-01T12:00:00+00:00,4,NA\n"
    (tmp_path / "x.csv").write_text(text)
    schema = Schema((Feature("day", DateNumber("s", Numeric())), Feature("big"), Feature("n")), named=True)
    encoded = encode(read_table(tmp_path / "x.csv", schema, library=library), schema)
    days = [np.datetime64(day, "s").astype(int) for day in ("2020-01-31", "2020-02-01T12:00:00")]
    np.testing.assert_array_equal(encoded, [[days[0], 2.0**64, 1], [NAN, 3, NAN], [days[1], 4, NAN]])


def test_without_a_library_the_error_names_one(tmp_path, monkeypatch):
    (tmp_path / "x.csv").write_text("a\n1\n")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install polars"):
        read_table(tmp_path / "x.csv")


@pytest.mark.parametrize("library", LIBRARIES)
def test_latin_text_gets_the_remedy_too(library, tmp_path):
    pytest.importorskip(library)
    (tmp_path / "x.csv").write_bytes("a,b\n1,café\n".encode("latin-1"))
    with pytest.raises(TableError, match=r"x\.csv must be text in UTF-8, got another encoding; save it as UTF-8"):
        read_table(tmp_path / "x.csv", library=library)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_other_encodings_are_named(encoding, tmp_path):
    mark = codecs.BOM_UTF16_BE if encoding == "utf-16-be" else b""
    (tmp_path / "x.csv").write_bytes(mark + "a,b\n1,2\n".encode(encoding))
    with pytest.raises(TableError, match=r"x\.csv must be text in UTF-8, got UTF-16; save it as UTF-8"):
        read_table(tmp_path / "x.csv")
