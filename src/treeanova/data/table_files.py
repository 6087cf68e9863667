"""Files of tables: CSV, Parquet, Feather and JSON lines, read by polars, pyarrow or pandas."""

from __future__ import annotations

import bz2
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
    content = _content(path)
    names, separator = _header(content, path.name)
    text = [name for name in names if is_text(name)]
    table = nw.from_native(_CSV_READERS[library](content, separator, names, text), eager_only=True)
    return nw.to_native(table.rename(dict(zip(table.columns, names, strict=True))))


def _header(content: bytes, file_name: str) -> tuple[list[str], str]:
    """Names of the columns of a CSV file, where columns without a name get pandas' name, and the separator."""
    first = content[: 1 << 20].decode("utf-8-sig", errors="replace")
    line = first.partition("\n")[0]
    separator = max(",;\t|", key=line.count)
    lines = csv.reader(io.StringIO(first), delimiter=separator)
    cells = next(lines, [])
    if not any(cell.strip() for cell in cells):
        raise TableError(f"{file_name} must start with a line of column names, got {line.strip()[:40]!r}; add it.")
    if all(map(_is_number, cells)) and cells != [str(j) for j in range(len(cells))]:
        raise TableError(
            f"{file_name} must start with a line of column names, got the numbers {line.strip()[:40]!r}; add a line "
            "of names."
        )
    if next(lines, None) is None:
        raise TableError(f"{file_name} must have at least one row, got 0; pass the rows of the density.")
    names = [cell if cell.strip() else f"{UNNAMED}{j}" for j, cell in enumerate(cells)]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise TableError(
            f"{file_name} must have each column once, got {', '.join(map(repr, doubled))} twice; rename one."
        )
    return names, separator


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _csv_by_polars(content: bytes, separator: str, names: list[str], text: list[str]) -> Any:
    polars = importlib.import_module("polars")
    return polars.read_csv(
        content,
        separator=separator,
        has_header=False,
        skip_rows=1,
        new_columns=names,
        schema_overrides=dict.fromkeys(text, polars.String),
        infer_schema_length=None,
    )


def _csv_by_pyarrow(content: bytes, separator: str, names: list[str], text: list[str]) -> Any:
    pyarrow, module = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.csv")
    block = min(max(len(content), 1 << 20), 2**31 - 1)  # types are guessed from the first block
    return module.read_csv(
        io.BytesIO(content),
        read_options=module.ReadOptions(column_names=names, skip_rows=1, block_size=block),
        parse_options=module.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=module.ConvertOptions(
            column_types=dict.fromkeys(text, pyarrow.string()), null_values=MISSING_WORDS, strings_can_be_null=False
        ),
    )


def _csv_by_pandas(content: bytes, separator: str, names: list[str], text: list[str]) -> Any:
    pandas = importlib.import_module("pandas")
    is_exact = tuple(map(int, pandas.__version__.split(".")[:2])) >= (3, 1)
    return pandas.read_csv(
        io.BytesIO(content),
        sep=separator,
        header=0,
        names=names,
        index_col=False,
        dtype=dict.fromkeys(text, object),
        na_values={name: list(MISSING_WORDS) for name in names if name not in text},
        keep_default_na=False,
        float_precision=None if is_exact else "round_trip",
        low_memory=False,
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
