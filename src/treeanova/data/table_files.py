"""Files of tables: CSV, Parquet, Feather and JSON lines, read by polars, pyarrow or pandas."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import importlib
import importlib.util
import io
import json
import lzma
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from treeanova.core.arrays import Ints

LIBRARIES = ("polars", "pyarrow", "pandas")
MISSING_WORDS = ("", "NA", "N/A", "#N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>")
UNNAMED = "Unnamed: "  # how pandas, and so models trained on its tables, call a column without a name
_ARROW_FIRST = ("pyarrow", "polars", "pandas")  # polars refuses some files with categories of pandas
_KINDS = {
    **dict.fromkeys([".csv", ".tsv"], "csv"),
    **dict.fromkeys([".parquet", ".pq"], "parquet"),
    **dict.fromkeys([".feather", ".arrow", ".ipc"], "feather"),
    **dict.fromkeys([".jsonl", ".ndjson"], "jsonl"),
}
_READABLE = ".csv, .tsv, .parquet, .feather, .jsonl (text also as .gz, .bz2, .xz, .zst)"
_PLAIN = (nw.Int64, nw.Float64, nw.String, nw.Object)
_PACKED = {".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress}


class TableError(ValueError):
    """A file that is not a table."""


def read_file(path: pathlib.Path, library: str | None, is_text: Callable[[str], bool]) -> tuple[nw.DataFrame[Any], str]:
    """The table in a file, and the library that read it; `is_text` tells which columns of a text file stay text."""
    kind = _kind_of(path)
    library = library or _installed(LIBRARIES if kind in {"csv", "jsonl"} else _ARROW_FIRST)
    try:
        table = _READERS[kind](path, library, is_text)
    except (ImportError, TableError):
        raise
    except Exception as error:  # each library has errors of its own
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise TableError(f"{path.name} must be a whole {kind} file, got an error of {library}: {reason}") from error
    return nw.from_native(table, eager_only=True), library


def is_csv(path: pathlib.Path) -> bool:
    """Whether a file is text that does not tell the types of its columns."""
    return _kind_of(path) == "csv"


def _kind_of(path: pathlib.Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] in {*_PACKED, ".zst"}
    kind = _KINDS.get(suffixes[-2] if packed and len(suffixes) > 1 else suffixes[-1] if suffixes else "")
    if kind is None or (packed and kind in {"parquet", "feather"}):
        raise TableError(f"`path` must be a table that treeanova reads, got {path.name!r}; it reads {_READABLE}.")
    return kind


def _installed(libraries: Sequence[str]) -> str:
    """The first of some libraries that is installed."""
    first = next((name for name in libraries if importlib.util.find_spec(name)), None)
    if first is None:
        raise ImportError("reading tables needs polars, pyarrow or pandas, none is installed; pip install polars.")
    return first


def _content(path: pathlib.Path) -> bytes:
    """The bytes of a file, unpacked."""
    content = path.read_bytes()
    suffix = path.suffix.lower()
    if suffix == ".zst":
        return _unpack_zstandard(content)
    return _PACKED[suffix](content) if suffix in _PACKED else content


def _unpack_zstandard(content: bytes) -> bytes:
    """Bytes of a .zst file, by the first package installed that reads the format."""
    for name in ("compression.zstd", "zstandard", "pyarrow"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if name == "compression.zstd":
            return bytes(module.decompress(content))
        stream = (
            module.ZstdDecompressor().stream_reader(io.BytesIO(content))
            if name == "zstandard"
            else module.input_stream(io.BytesIO(content), compression="zstd")
        )
        return bytes(stream.read())
    raise ImportError("reading .zst needs zstandard, pyarrow or Python 3.14, none is there; pip install zstandard.")


def _read_csv(path: pathlib.Path, library: str, is_text: Callable[[str], bool]) -> Any:
    """Columns of plain numbers as the library reads them, all others as text: no library guesses dates or booleans."""
    head, rows = _split(_content(path), path.name)
    names, separator = _header(head, path.name)
    body = _checked_rows(rows, separator, len(names), path.name)
    text = [name for name in names if is_text(name)]
    read = _CSV_READERS[library]
    table = nw.from_native(read(body, separator, names, text), eager_only=True)
    plain = _PLAIN[1:] if b"0x" in body or b"0X" in body else _PLAIN  # pyarrow takes 0x10 for a number
    guessed = [name for name in names if table[name].dtype not in plain]
    if guessed:
        table = nw.from_native(read(body, separator, names, [*text, *guessed]), eager_only=True)
    words = [table[name].fill_null("") for name in names if table[name].dtype == nw.String]
    return nw.to_native(table.with_columns(*words) if words else table)


def _split(content: bytes, file_name: str) -> tuple[bytes, bytes]:
    """The first line of a text file that is not blank, and all that follows it."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise TableError(f"{file_name} must be text in UTF-8, got UTF-16; save it as UTF-8.")
    content = content.removeprefix(codecs.BOM_UTF8)
    if b"\n" not in content:
        content = content.replace(b"\r", b"\n")  # line ends of old Macs
    content = content.lstrip(b"\n\r") if content[:1] in b"\n\r" else content
    ends = _outside(content, b"\n", _quotes(content, file_name))
    end = int(ends[0]) + 1 if len(ends) else len(content)
    return content[:end], content[end:]


def _header(line: bytes, file_name: str) -> tuple[list[str], str]:
    """Names of the columns of a CSV file, where columns without a name get pandas' name, and the separator."""
    first = line.decode("utf-8", errors="replace")
    separator = max(",;\t|", key=first.count)
    cells = next(csv.reader(io.StringIO(first), delimiter=separator), [])
    if not any(cell.strip() for cell in cells):
        raise TableError(f"{file_name} must start with a line of column names, got {first.strip()[:40]!r}; add it.")
    if all(map(_is_number, cells)) and cells != [str(j) for j in range(len(cells))]:
        raise TableError(
            f"{file_name} must start with a line of column names, got the numbers {first.strip()[:40]!r}; add a line "
            "of names."
        )
    names = [cell if cell.strip() else f"{UNNAMED}{j}" for j, cell in enumerate(cells)]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise TableError(
            f"{file_name} must have each column once, got {', '.join(map(repr, doubled))} twice; rename one."
        )
    return names, separator


def _checked_rows(content: bytes, separator: str, n_columns: int, file_name: str) -> bytes:
    """Rows without blank lines; TableError where a row has more or fewer cells than there are columns.

    Libraries differ in what they make of blank lines, of cells that are too many or missing, and of stray quotes.
    """
    content = content if content.endswith(b"\n") or not content else content + b"\n"
    quotes = _quotes(content, file_name, separator.encode())
    ends = _outside(content, b"\n", quotes)
    starts = np.concatenate([[0], ends[:-1] + 1]).astype(np.int64)
    n_cells = np.diff(np.searchsorted(_outside(content, separator.encode(), quotes), ends), prepend=0) + 1
    is_blank = np.zeros(len(ends), dtype=bool)
    for row in np.flatnonzero(n_cells == 1):  # of one column all rows, of several only blank ones and wrong ones
        is_blank[row] = not content[starts[row] : ends[row]].strip()
    wrong = np.flatnonzero(~is_blank & (n_cells != n_columns))
    if len(wrong):
        raise TableError(
            f"{file_name} must have {n_columns} cells in each row, got {n_cells[wrong[0]]} in row {wrong[0] + 1:,}; "
            "correct the row, or put quotes around cells with a separator."
        )
    if is_blank.all():
        raise TableError(f"{file_name} must have at least one row, got 0; pass the rows of the density.")
    if not is_blank.any():
        return content
    pieces = zip(starts[~is_blank].tolist(), ends[~is_blank].tolist(), strict=True)
    return b"".join(content[start : end + 1] for start, end in pieces)


def _quotes(content: bytes, file_name: str, separators: bytes = b",;\t|") -> Ints:
    """Places of quotes, which open and close cells in turn; TableError where one stands within a cell."""
    quotes = _places(content, b'"')
    text = np.frombuffer(content, dtype=np.uint8)
    around = np.frombuffer(b'"\n\r' + separators, dtype=np.uint8)
    before = text[quotes[::2] - 1][quotes[::2] > 0]
    after = text[np.minimum(quotes[1::2] + 1, len(text) - 1)][quotes[1::2] + 1 < len(text)]
    if len(quotes) % 2 or not (np.isin(before, around).all() and np.isin(after, around).all()):
        raise TableError(
            f"{file_name} must have quotes around whole cells only, got others; double the quotes within a cell, and "
            "put the cell in quotes."
        )
    return quotes


def _outside(content: bytes, character: bytes, quotes: Ints) -> Ints:
    """Places of a character outside quotes."""
    places = _places(content, character)
    outside: Ints = places[np.searchsorted(quotes, places) % 2 == 0]
    return outside


def _places(content: bytes, character: bytes) -> Ints:
    return np.flatnonzero(np.frombuffer(content, dtype=np.uint8) == character[0])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _csv_by_polars(content: bytes, separator: str, names: list[str], text: list[str]) -> Any:
    polars = importlib.import_module("polars")

    def read(words: list[str]) -> Any:
        types = dict.fromkeys(words, polars.String)
        options = {"has_header": False, "new_columns": names, "schema_overrides": types, "infer_schema_length": None}
        return polars.read_csv(content, separator=separator, **options)

    try:
        return read(text)
    except polars.exceptions.ComputeError:  # it took a column for whole numbers that it cannot read, such as 40 digits
        return read(names)


def _csv_by_pyarrow(content: bytes, separator: str, names: list[str], text: list[str]) -> Any:
    pyarrow, module = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.csv")
    block = min(max(len(content), 1 << 20), 2**31 - 1)  # types are guessed from the first block
    return module.read_csv(
        io.BytesIO(content),
        read_options=module.ReadOptions(column_names=names, block_size=block),
        parse_options=module.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=module.ConvertOptions(
            column_types=dict.fromkeys(text, pyarrow.string()), null_values=[""], strings_can_be_null=False
        ),
    )


def _csv_by_pandas(content: bytes, separator: str, names: list[str], text: list[str]) -> Any:
    del text  # all of it: pandas would read words such as NA as missing in text too
    return importlib.import_module("pandas").read_csv(
        io.BytesIO(content), sep=separator, header=None, names=names, index_col=False, dtype=object, na_filter=False
    )


_CSV_READERS: dict[str, Callable[[bytes, str, list[str], list[str]], Any]] = {
    "polars": _csv_by_polars,
    "pyarrow": _csv_by_pyarrow,
    "pandas": _csv_by_pandas,
}


def _read_jsonl(path: pathlib.Path, library: str, _: Callable[[str], bool]) -> Any:
    content = io.BytesIO(_content(path))
    if library == "polars":
        return importlib.import_module("polars").read_ndjson(content, infer_schema_length=None)
    if library == "pyarrow":
        return importlib.import_module("pyarrow.json").read_json(content)
    rows = [json.loads(line) for line in content if line.strip()]  # pandas' reader guesses dates
    return importlib.import_module("pandas").DataFrame(rows)


def _read_parquet(path: pathlib.Path, library: str, _: Callable[[str], bool]) -> Any:
    if library == "pyarrow":
        return importlib.import_module("pyarrow.parquet").read_table(path)
    return importlib.import_module(library).read_parquet(path)


def _read_feather(path: pathlib.Path, library: str, _: Callable[[str], bool]) -> Any:
    if library == "polars":
        return importlib.import_module("polars").read_ipc(path)
    if library == "pyarrow":
        return importlib.import_module("pyarrow.feather").read_table(path)
    return importlib.import_module("pandas").read_feather(path)


_READERS: dict[str, Callable[[pathlib.Path, str, Callable[[str], bool]], Any]] = {
    "csv": _read_csv,
    "jsonl": _read_jsonl,
    "parquet": _read_parquet,
    "feather": _read_feather,
}
