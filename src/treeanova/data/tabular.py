"""Tables from files: CSV, Parquet, Feather and JSON lines, by polars, pyarrow or pandas, as a model wants its columns.

A text file does not tell a number from a label, so the model's schema decides: its numbers are parsed (empty cells are
missing), its categories reach it as text, or as the number or boolean that it knows as a label.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import importlib
import importlib.util
import io
import json
import lzma
import os
import pathlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats
from treeanova.data.columns import raw_column
from treeanova.data.features import Feature, Schema, is_missing

LIBRARIES = ("polars", "pyarrow", "pandas")
_ARROW_FIRST = ("pyarrow", "polars", "pandas")  # polars refuses some files of pandas' categories
_KINDS = {
    **dict.fromkeys([".csv", ".tsv"], "csv"),
    **dict.fromkeys([".parquet", ".pq"], "parquet"),
    **dict.fromkeys([".feather", ".arrow", ".ipc"], "feather"),
    **dict.fromkeys([".jsonl", ".ndjson"], "jsonl"),
}
_READABLE = ".csv, .tsv, .parquet, .feather, .jsonl (text also as .gz, .bz2, .xz, .zst)"
_PACKED = {".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress}
_MISSING = ("", "NA", "N/A", "#N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>")
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NAMELESS = "Unnamed: "  # pandas' word for a column without a name, and so that of models trained on one
Reading = list[Any] | Floats
_INDEX_NAMES = ("__index_level_0__", f"{_NAMELESS}0")


def read_table(
    path: str | os.PathLike[str],
    schema: Schema | None = None,
    *,
    drop: Collection[str] = (),
    library: str | None = None,
) -> Any:
    r"""A data frame with the columns of a file, read as a model with this schema wants them.

    Parameters
    ----------
    path
        A file named .csv, .tsv, .parquet, .feather or .jsonl; text may be compressed.
    schema
        Features of the model; without one, types are the library's guess.
    drop
        Columns to leave out, such as the target.
    library
        "polars", "pyarrow" or "pandas"; the first one installed if None.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.csv"
    >>> _ = path.write_text("size,price\n1,10\n,20\n")
    >>> records(read_table(path, drop=["price"], library="polars"))
    [{'size': 1}, {'size': None}]
    """
    source = pathlib.Path(path)
    if not source.is_file():
        raise FileNotFoundError(
            f"`data` must be the path of a file, got {str(source)!r}, which is none; check the path."
        )
    kind = _kind_of(source)
    library = library or _installed(LIBRARIES if kind in {"csv", "jsonl"} else _ARROW_FIRST)
    try:
        table = _READERS[kind](source, library, _is_text(schema))
    except (ImportError, _TableError):
        raise
    except Exception as error:  # each library has errors of its own
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise _TableError(
            f"`data` must be a whole {kind} file, got {source.name}, where {library} says: {reason}"
        ) from error
    frame = _without(nw.from_native(table, eager_only=True), drop, source.name)
    return nw.to_native(frame if schema is None else _fitted(frame, schema, library))


def read_column(path: str | os.PathLike[str], name: str, *, library: str | None = None) -> npt.NDArray[Any]:
    """One column of a file as an array, such as the weights of its rows."""
    table = nw.from_native(read_table(path, library=library), eager_only=True)
    if name not in table.columns:
        raise ValueError(
            f"`data` must have the column {name!r}, got none in {pathlib.Path(path).name}; check its name."
        )
    return raw_column(table[name])


def records(table: Any) -> list[dict[str, Any]]:
    """Rows of a data frame of any library, or of a dict of columns, as dicts of plain Python values."""
    if isinstance(table, Mapping):
        columns = [np.asarray(column).tolist() for column in table.values()]
        return [dict(zip(table, row, strict=True)) for row in zip(*columns, strict=True)]
    rows: list[dict[str, Any]] = nw.from_native(table, eager_only=True).rows(named=True)
    return rows


class _TableError(ValueError):
    """A file that is no table."""


def _kind_of(path: pathlib.Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] in {*_PACKED, ".zst"}
    kind = _KINDS.get(suffixes[-2] if packed and len(suffixes) > 1 else suffixes[-1] if suffixes else "")
    if kind is None or (packed and kind in {"parquet", "feather"}):
        raise _TableError(f"`data` must be a table that treeanova reads, got {path.name}; it reads {_READABLE}.")
    return kind


def _installed(libraries: Sequence[str]) -> str:
    """The first of some libraries that is there."""
    found = next((name for name in libraries if importlib.util.find_spec(name)), None)
    if found is None:
        raise ImportError("reading tables needs polars, pyarrow or pandas, got none of them; pip install polars.")
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Files


def _is_text(schema: Schema | None) -> Callable[[str], bool]:
    """Tells which columns of a text file are to stay text; all of them where only positions will tell."""
    if schema is None:
        return lambda _: False
    labels = {
        name
        for spelling in schema.spellings
        for name, feature in zip(spelling, schema.features, strict=True)
        if _has_labels(feature)
    }
    if not schema.named and labels:
        return lambda _: True
    return lambda name: name in labels or (schema.underscores and name.replace(" ", "_") in labels)


def _has_labels(feature: Feature) -> bool:
    """Whether a feature may be given by labels: categories, and ordered ones that a model splits as numbers."""
    return feature.is_category or getattr(feature.encoder, "names", None) is not None


def _content(path: pathlib.Path) -> bytes:
    """The bytes of a file, unpacked."""
    content = path.read_bytes()
    suffix = path.suffix.lower()
    if suffix == ".zst":
        return _unpack_zstandard(content)
    return _PACKED[suffix](content) if suffix in _PACKED else content


def _unpack_zstandard(content: bytes) -> bytes:
    """Bytes of a .zst file by whichever package knows the format."""
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
    raise ImportError("reading .zst needs zstandard, pyarrow or Python 3.14, got none; pip install zstandard.")


def _read_csv(path: pathlib.Path, library: str, is_text: Callable[[str], bool]) -> Any:
    content = _content(path)
    names, separator = _header(content, path.name)
    text = [name for name in names if is_text(name)]
    table = nw.from_native(_CSV_READERS[library](content, separator, names, text), eager_only=True)
    return nw.to_native(table.rename(dict(zip(table.columns, names, strict=True))))


def _header(content: bytes, file_name: str) -> tuple[list[str], str]:
    """Names of the columns of a CSV file, as pandas would name those without a name, and the separator."""
    first = content[: 1 << 20].decode("utf-8-sig", errors="replace")
    line = first.partition("\n")[0]
    separator = max(",;\t|", key=line.count)
    lines = csv.reader(io.StringIO(first), delimiter=separator)
    cells = next(lines, [])
    if not any(cell.strip() for cell in cells):
        raise _TableError(f"`data` must start with a line of column names, got none in {file_name}; add it.")
    if all(map(_is_number, cells)) and cells != [str(j) for j in range(len(cells))]:
        raise _TableError(
            f"`data` must start with a line of column names, got the numbers {line.strip()[:40]!r} in {file_name}; "
            "add a line of names."
        )
    if next(lines, None) is None:
        raise _TableError(f"`data` must have at least one row, got none in {file_name}; pass the rows of the density.")
    names = [cell if cell.strip() else f"{_NAMELESS}{j}" for j, cell in enumerate(cells)]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise _TableError(
            f"`data` must have each column once, got {', '.join(map(repr, doubled))} twice in {file_name}; rename one."
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
            column_types=dict.fromkeys(text, pyarrow.string()), null_values=_MISSING, strings_can_be_null=False
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
        na_values={name: list(_MISSING) for name in names if name not in text},
        keep_default_na=False,
        float_precision=None if is_exact else "round_trip",  # older ones are a digit off, and thresholds are exact
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
    rows = [json.loads(line) for line in content if line.strip()]  # pandas' own reader guesses dates
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


# ---------------------------------------------------------------------------------------------------------------------
# Columns


def _without(table: nw.DataFrame[Any], drop: Collection[str], file_name: str) -> nw.DataFrame[Any]:
    unknown = [name for name in drop if name not in table.columns]
    if unknown:
        raise ValueError(
            f"`data` must have the columns to leave out, got none named {', '.join(map(repr, unknown))} in "
            f"{file_name}; it has {_some(table.columns)}."
        )
    return table.drop(list(drop))


def _some(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(names[:most])
    return f"{shown}, … ({len(names)} in all)" if len(names) > most else shown


def _fitted(table: nw.DataFrame[Any], schema: Schema, library: str) -> nw.DataFrame[Any]:
    """The model's columns in its order, each read as the model wants it."""
    names = _wanted(table.columns, schema)
    columns = [_fit(table[name], feature, library) for name, feature in zip(names, schema.features, strict=True)]
    return table.select(names).with_columns(*columns)


def _wanted(names: Sequence[str], schema: Schema) -> list[str]:
    """Names of the columns of a table that are the model's features, in its order."""
    if not schema.named:
        return _by_position(list(names), schema)
    known = {name.replace(" ", "_") if schema.underscores else name: name for name in names}
    known |= {name: name for name in names}
    for spelling in schema.spellings:
        if all(name in known for name in spelling):
            return [known[name] for name in spelling]
    missing = [name for name in schema.names if name not in known]
    raise ValueError(
        f"`data` must have the model's columns, got none named {', '.join(map(repr, missing[:5]))}"
        f"{f' and {len(missing) - 5} more' if len(missing) > 5 else ''}; it has {_some(names)}."
    )


def _by_position(names: list[str], schema: Schema) -> list[str]:
    """All columns of a table, less an index that was saved as its first one."""
    n_features = len(schema.features)
    if len(names) == n_features + 1:
        names = [name for name in names if name not in _INDEX_NAMES]
    if len(names) != n_features:
        raise ValueError(
            f"`data` must have {n_features} columns, as the model knows no names, got {len(names)}: {_some(names)}; "
            "leave out those that are no features (--target)."
        )
    return names


def _fit(column: nw.Series[Any], feature: Feature, library: str) -> nw.Series[Any]:
    """A column as its feature wants it."""
    if not _has_labels(feature):
        return _numbers_of(column, library) if column.dtype in {nw.String, nw.Object} else column
    cells = raw_column(column).tolist()
    return _series(column.name, _best_reading(_with_missing(cells, feature), feature), library)


def _best_reading(cells: list[Any], feature: Feature) -> Reading:
    """The first reading of which a feature knows all, else the one of which it knows most."""
    best: Reading = cells
    most = -np.inf
    for reading in _readings(cells):
        share = _share_known(reading, feature)
        if share == 1:
            return reading
        if share > most:
            best, most = reading, share
    return best


def _numbers_of(column: nw.Series[Any], library: str) -> nw.Series[Any]:
    """A column of text or objects as numbers, where all of it spells numbers or booleans; else itself."""
    raw = raw_column(column).tolist()
    cells = [None if is_missing(cell) or str(cell).strip() in _MISSING else cell for cell in raw]
    for read in (_as_numbers, _as_booleans):
        values = read(cells)
        if values is not None:
            return _series(
                column.name, np.array([np.nan if v is None else v for v in values], dtype=np.float64), library
            )
    return column


def _with_missing(cells: list[Any], feature: Feature) -> list[Any]:
    """Cells with None for words that mean missing, unless the model knows them as labels."""
    texts = {cell for cell in cells if isinstance(cell, str)}
    words = [word for word in _MISSING if word in texts and _share_known([word], feature) < 1]
    return [None if is_missing(cell) or cell in words else cell for cell in cells]


def _readings(cells: list[Any]) -> Iterator[Reading]:
    """Ways to read cells, the likelier first: as they are, as text, as numbers, as booleans, as codes."""
    yield cells
    yield [None if cell is None else str(cell).strip() for cell in cells]
    for read in (_as_numbers, _as_booleans):
        values = read(cells)
        if values is not None:
            yield values
    numbers = _as_numbers(cells)
    if numbers is not None:
        yield np.array([np.nan if number is None else number for number in numbers], dtype=np.float64)


def _as_numbers(cells: list[Any]) -> list[int | float | None] | None:
    """Cells as numbers, whole ones as integers; None where one is none."""
    try:
        numbers = [None if cell is None else float(cell) for cell in cells]
    except (TypeError, ValueError):
        return None
    return [int(number) if number is not None and number.is_integer() else number for number in numbers]


def _as_booleans(cells: list[Any]) -> list[bool | None] | None:
    texts = [None if cell is None else str(cell).strip() for cell in cells]
    if not all(text is None or text in _BOOLEANS for text in texts):
        return None
    return [None if text is None else _BOOLEANS[text] for text in texts]


def _share_known(reading: Reading, feature: Feature) -> float:
    """Share of the different values of a reading that a feature knows; -1 when it refuses them."""
    if isinstance(reading, np.ndarray):
        column: npt.NDArray[Any] = np.unique(reading[~np.isnan(reading)])
    else:
        distinct = list({(type(cell), cell): cell for cell in reading if cell is not None}.values())
        column = np.empty(len(distinct), dtype=object)
        column[:] = distinct
    try:
        encoded = feature.encoder.encode(column, feature.name)
    except (TypeError, ValueError):
        return -1
    known = encoded < feature.n_categories if feature.is_category else ~np.isnan(encoded)
    return float(known.mean()) if len(known) else 1.0


def _series(name: str, values: Reading, library: str) -> nw.Series[Any]:
    """A column of floats, of text, or of other objects, which no library may take for numbers."""
    if isinstance(values, np.ndarray):
        return nw.new_series(name, values, nw.Float64, backend=library)  # type: ignore[arg-type]
    if all(value is None or isinstance(value, str) for value in values):
        return nw.new_series(name, values, nw.String, backend=library)  # type: ignore[arg-type]
    module = importlib.import_module(library)
    if library == "polars":
        native = module.Series(name, values, dtype=module.Object)
    elif library == "pandas":
        native = module.Series(values, name=name, dtype=object)
    else:
        native = module.chunked_array([module.array(values).dictionary_encode()])
    series: nw.Series[Any] = nw.from_native(native, series_only=True)
    return series.alias(name)
