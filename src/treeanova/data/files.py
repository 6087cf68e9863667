"""Files of tables: CSV, Parquet, Feather and JSON lines, read by polars, pyarrow or pandas.

Text files do not distinguish numbers from labels, so the model's schema decides: its numbers are parsed (empty cells
are missing), its categories become text, or the number or boolean that the model has as a label.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import datetime as dt
import gzip
import importlib
import importlib.util
import io
import json
import lzma
import os
import pathlib
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats, Ints
from treeanova.data.columns import blanks_around, check_reserved, columns_of, has_features, object_column, raw_column
from treeanova.data.features import Feature, Schema, is_missing
from treeanova.data.streams import naming

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


class TableError(ValueError):
    """A file that is not a table."""


def read_file(path: pathlib.Path, library: str | None, is_text: Callable[[str], bool]) -> tuple[nw.DataFrame[Any], str]:
    """Read a table and return the library that read it; `is_text` says which columns stay text."""
    kind = _kind_of(path)
    libraries = LIBRARIES if kind in {"csv", "jsonl"} else _ARROW_FIRST
    library = library or next((name for name in libraries if importlib.util.find_spec(name)), None)
    if library is None:
        raise ImportError("reading tables needs polars, pyarrow or pandas, none is installed; pip install polars.")
    try:
        table = _READERS[kind](path, library, is_text)
    except (ImportError, TableError):
        raise
    except Exception as error:  # each library has errors of its own
        if kind in {"csv", "jsonl"} and not _is_utf8(path):
            raise TableError(f"{path.name} must be text in UTF-8, got another encoding; save it as UTF-8.") from error
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise TableError(f"{path.name} must be a whole {kind} file, got an error of {library}: {reason}") from error
    return nw.from_native(table, eager_only=True), library


def _kind_of(path: pathlib.Path) -> str:
    """Return "csv", "parquet", "feather" or "jsonl", by the suffix before that of a compression."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] in _PACKED
    kind = _KINDS.get(suffixes[-2] if packed and len(suffixes) > 1 else suffixes[-1] if suffixes else "")
    if kind is None or (packed and kind in {"parquet", "feather"}):
        raise TableError(f"`path` must be a table that treeanova reads, got {path.name!r}; it reads {_READABLE}.")
    return kind


def _unpacked_bytes(path: pathlib.Path) -> bytes:  # of a file, unpacked if its suffix is that of a compression
    content, unpack = path.read_bytes(), _PACKED.get(path.suffix.lower())
    return content if unpack is None else unpack(content)


def _is_utf8(path: pathlib.Path) -> bool:  # or cannot be unpacked, which is another fault
    try:
        _unpacked_bytes(path).decode("utf-8")
    except Exception as error:  # noqa: BLE001  each compression has errors of its own
        return not isinstance(error, UnicodeDecodeError)
    return True


def _unpack_zstandard(content: bytes) -> bytes:  # by the first library that is installed
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


_PACKED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress, ".zst": _unpack_zstandard,
}  # fmt: skip


def _read_csv(path: pathlib.Path, library: str, is_text: Callable[[str], bool]) -> Any:
    """Let the library read columns of plain numbers, and all others as text: no library guesses dates or booleans."""
    head, rows = _split_off_header(_unpacked_bytes(path), path.name)
    names, separator = _parse_header(head, path.name)
    body = _checked_rows(rows, separator, len(names), path.name)
    text_columns = [name for name in names if is_text(name)]
    read = _CSV_READERS[library]
    table = nw.from_native(read(body, separator, names, text_columns), eager_only=True)
    plain_types = _PLAIN[1:] if b"0x" in body or b"0X" in body else _PLAIN  # pyarrow takes 0x10 for a number
    guessed_columns = [name for name in names if table[name].dtype not in plain_types]
    if guessed_columns:
        table = nw.from_native(read(body, separator, names, text_columns + guessed_columns), eager_only=True)
    texts = [table[name].fill_null("") for name in names if table[name].dtype == nw.String]
    return nw.to_native(table.with_columns(*texts) if texts else table)


def _split_off_header(content: bytes, file_name: str) -> tuple[bytes, bytes]:
    """Return the first line of a CSV file, which has the names of its columns, and the other lines."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise TableError(f"{file_name} must be text in UTF-8, got UTF-16; save it as UTF-8.")
    content = content.removeprefix(codecs.BOM_UTF8)
    if b"\n" not in content:
        content = content.replace(b"\r", b"\n")  # line ends of old Macs
    content = content.lstrip(b"\n\r") if content[:1] in b"\n\r" else content
    ends = _outside_quotes(content, b"\n", _quote_positions(content, file_name))
    end = int(ends[0]) + 1 if len(ends) else len(content)
    return content[:end], content[end:]


def _parse_header(line: bytes, file_name: str) -> tuple[list[str], str]:
    """Return the names of the columns of a CSV file, named as by pandas if they have none, and the separator."""
    first = line.decode("utf-8", errors="replace")
    separator = max(",;\t|", key=first.count)
    cells = next(csv.reader(io.StringIO(first), delimiter=separator), [])
    if not any(cell.strip() for cell in cells):
        raise TableError(f"{file_name} must start with a line of column names, got {first.strip()[:40]!r}; add it.")
    if _as_floats(cells) is not None and cells != [str(j) for j in range(len(cells))]:
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
    """Drop blank lines and raise TableError for rows of wrong length, which libraries treat differently."""
    content = content if content.endswith(b"\n") or not content else content + b"\n"
    quotes = _quote_positions(content, file_name, separator.encode())
    ends = _outside_quotes(content, b"\n", quotes)
    starts = np.concatenate([[0], ends[:-1] + 1]).astype(np.int64)
    separators = _outside_quotes(content, separator.encode(), quotes)
    n_cells = np.diff(np.searchsorted(separators, ends), prepend=0) + 1
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


def _quote_positions(content: bytes, file_name: str, separators: bytes = b",;\t|") -> Ints:
    """Return byte positions of quotes, which open and close cells in turn; TableError for one within a cell."""
    text = np.frombuffer(content, dtype=np.uint8)
    quotes = np.flatnonzero(text == ord('"'))
    allowed = np.frombuffer(b'"\n\r' + separators, dtype=np.uint8)
    before_opening = text[quotes[::2] - 1][quotes[::2] > 0]
    after_closing = text[np.minimum(quotes[1::2] + 1, len(text) - 1)][quotes[1::2] + 1 < len(text)]
    if len(quotes) % 2 or not (np.isin(before_opening, allowed).all() and np.isin(after_closing, allowed).all()):
        raise TableError(
            f"{file_name} must have quotes around whole cells only, got others; double the quotes within a cell, and "
            "put the cell in quotes."
        )
    return quotes


def _outside_quotes(content: bytes, character: bytes, quotes: Ints) -> Ints:
    """Return byte positions of a character, a separator or a line end, that is not within a quoted cell."""
    positions = np.flatnonzero(np.frombuffer(content, dtype=np.uint8) == character[0])
    return positions[np.searchsorted(quotes, positions) % 2 == 0]  # after an even number of quotes


def _csv_by_polars(content: bytes, separator: str, names: list[str], text_columns: list[str]) -> Any:
    """Read CSV without its header; `names` are those of its columns, of which `text_columns` stay text."""
    polars = importlib.import_module("polars")

    def read(as_text: list[str]) -> Any:  # with these columns as text
        types = dict.fromkeys(as_text, polars.String)
        options = {"has_header": False, "new_columns": names, "schema_overrides": types, "infer_schema_length": None}
        return polars.read_csv(content, separator=separator, **options)

    try:
        return read(text_columns)
    except polars.exceptions.ComputeError:  # it took a column for whole numbers that it cannot read, such as 40 digits
        return read(names)  # all columns as text


def _csv_by_pyarrow(content: bytes, separator: str, names: list[str], text_columns: list[str]) -> Any:
    """Read CSV without its header, like `_csv_by_polars`."""
    pyarrow, module = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.csv")
    block = min(max(len(content), 1 << 20), 2**31 - 1)  # types are guessed from the first block
    return module.read_csv(
        io.BytesIO(content),
        read_options=module.ReadOptions(column_names=names, block_size=block),
        parse_options=module.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=module.ConvertOptions(
            column_types=dict.fromkeys(text_columns, pyarrow.string()), null_values=[""], strings_can_be_null=False
        ),
    )


def _csv_by_pandas(content: bytes, separator: str, names: list[str], text_columns: list[str]) -> Any:
    del text_columns  # all columns stay text: pandas would read words such as NA as missing in text too
    return importlib.import_module("pandas").read_csv(
        io.BytesIO(content), sep=separator, header=None, names=names, index_col=False, dtype=object, na_filter=False
    )


_CSV_READERS: dict[str, Callable[[bytes, str, list[str], list[str]], Any]] = {
    "polars": _csv_by_polars,
    "pyarrow": _csv_by_pyarrow,
    "pandas": _csv_by_pandas,
}


def _read_jsonl(path: pathlib.Path, library: str, _: Callable[[str], bool]) -> Any:  # a row of JSON per line
    content = io.BytesIO(_unpacked_bytes(path))
    if library == "polars":
        return importlib.import_module("polars").read_ndjson(content, infer_schema_length=None)
    if library == "pyarrow":
        return importlib.import_module("pyarrow.json").read_json(content)
    rows = [json.loads(line) for line in content if line.strip()]  # pandas' reader guesses dates
    return importlib.import_module("pandas").DataFrame(rows)


def _read_feather(path: pathlib.Path, library: str, _: Callable[[str], bool]) -> Any:  # as a data frame of the library
    if library == "polars":
        return importlib.import_module("polars").read_ipc(path)
    if library == "pyarrow":
        return importlib.import_module("pyarrow.feather").read_table(path)
    return importlib.import_module("pandas").read_feather(path)


_READERS: dict[str, Callable[[pathlib.Path, str, Callable[[str], bool]], Any]] = {
    "csv": _read_csv,
    "jsonl": _read_jsonl,
    "parquet": lambda path, library, _: nw.to_native(nw.read_parquet(str(path), backend=library)),  # type: ignore[arg-type]
    "feather": _read_feather,
}
Reading = list[Any] | Floats
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*").fullmatch
_INDEX_NAMES = ("__index_level_0__", f"{UNNAMED}0")


def text_columns(schema: Schema | None) -> Callable[[str], bool]:
    """Return a function of a column's name: whether it has labels and so stays text; all do if matched by position."""
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
    """Whether a feature takes labels: categories, and ordered ones that a model splits as numbers."""
    return feature.is_category or getattr(feature.encoder, "names", None) is not None


def some_names(names: Sequence[str], max_names: int = 12) -> str:  # for messages; the number of all if cut short
    shown = ", ".join(names[:max_names])
    return f"{shown}, … ({len(names)} in all)" if len(names) > max_names else shown


def _model_columns(names: Sequence[str], schema: Schema, file_name: str, dropped: Collection[str]) -> list[str]:
    """Return the names of the model's columns in its order; columns of `dropped` are already left out."""
    if not schema.named:
        return _columns_without_names(list(names), schema, file_name, dropped)
    by_spelling = {name.replace(" ", "_") if schema.underscores else name: name for name in names}
    by_spelling |= {name: name for name in names}
    for spelling in schema.spellings:
        if all(name in by_spelling for name in spelling):
            return [by_spelling[name] for name in spelling]
    missing = [name for name in schema.names if name not in by_spelling]
    raise ValueError(
        f"{file_name} must have the model's columns, got none named {', '.join(map(repr, missing[:5]))}"
        f"{f' and {len(missing) - 5} more' if len(missing) > 5 else ''}; "
        f"{blanks_around(missing, names) or f'it has {some_names(names)}'}."
    )


def _columns_without_names(names: list[str], schema: Schema, file_name: str, dropped: Collection[str]) -> list[str]:
    """Return the columns named as the features are shown, else all except an index saved as the first column."""
    n_features = len(schema.features)
    if len(names) == n_features + 1:
        names = [name for name in names if name not in _INDEX_NAMES]
    if has_features(names, schema):
        return list(schema.names)
    check_reserved(names, schema, dropped)
    if len(names) != n_features:
        raise ValueError(
            f"{file_name} must have {n_features} columns, because the model has no names for them, got {len(names)}: "
            f"{some_names(names)}; leave out those that are not features (--target)."
        )
    return names


def _feature_column(column: nw.Series[Any], feature: Feature, library: str) -> nw.Series[Any]:
    """Return a column of a file as a feature needs it: numbers and dates parsed, labels as the model has them."""
    if not _has_labels(feature):
        if column.dtype not in {nw.String, nw.Object}:
            return column
        dates = _iso_dates(column, library) if feature.encoder.date_unit and column.dtype == nw.String else None
        if dates is not None:
            return dates
        words = [(cell, str(cell).strip()) for cell in raw_column(column)]
        cells = [None if is_missing(cell) or word in MISSING_WORDS else cell for cell, word in words]
        parsings = (parse(cells) for parse in (_as_floats, _as_booleans))  # None for one that does not fit
        values = next((values for values in parsings if values is not None), None)
        if values is not None:
            return _series(column.name, _with_nan(values), library)
        return _series(column.name, cells, library) if column.dtype == nw.String else column  # no missing words
    cells = raw_column(column).tolist()
    texts = {cell for cell in cells if isinstance(cell, str)}
    # A word such as NA means missing unless the model has it as a label.
    not_labels = [word for word in MISSING_WORDS if word in texts and _share_known([word], feature) < 1]
    with_none = [None if is_missing(cell) or cell in not_labels else cell for cell in cells]
    reading = _best_reading(with_none, feature)
    _check_spelling(reading, feature)
    if isinstance(reading, list) and library != "pyarrow":  # in whose tables nulls get their meaning when they are read
        reading = feature.encoder.with_nulls(object_column(reading)).tolist()
    return _series(column.name, reading, library)


def _check_spelling(reading: Reading, feature: Feature) -> None:
    """Raise TypeError for a number that a label of text spells in another way, as 1 and "01"."""
    labels = [label for label in feature.encoder.labels or () if isinstance(label, str)]
    label_of_number = {float(label): label for label in labels if _as_floats([label]) is not None}
    for cell in dict.fromkeys(reading if label_of_number else ()):
        [number] = _as_floats([None if is_missing(cell) else cell]) or [None]
        if number in label_of_number and _share_known([cell], feature) < 1:
            raise TypeError(
                f"column {feature.name!r} must spell numbers as the labels of the model, {label_of_number[number]!r}, "
                f"got {str(cell)!r}; write the column as text, as in training."
            )


def _best_reading(cells: list[Any], feature: Feature) -> Reading:
    """Read a file's cells as labels of a feature: in the first way in which it knows all, else in the best one."""
    best: Reading = cells
    best_share = -np.inf
    for reading in _readings(cells):
        share = _share_known(reading, feature)
        if share == 1:
            return reading
        if share > best_share:
            best, best_share = reading, share
    return best


def _typed_column(column: nw.Series[Any], library: str) -> nw.Series[Any]:
    """Type a column by what all its cells spell: numbers, integers if none is missing, or booleans."""
    if column.dtype not in {nw.String, nw.Object}:
        return column.cast(nw.Float64) if column.null_count() else column
    cells = raw_column(column).tolist()
    booleans = _as_booleans(cells)
    if booleans is not None:
        return nw.new_series(column.name, booleans, nw.Boolean, backend=library)  # type: ignore[arg-type]
    if all(map(_WHOLE, cells)):
        whole = [int(cell) for cell in cells]
        if max(map(abs, whole)) < 2**63:
            return nw.new_series(column.name, whole, nw.Int64, backend=library)  # type: ignore[arg-type]
    numbers = _as_floats([None if cell.strip() in MISSING_WORDS else cell for cell in cells])
    return column if numbers is None else _series(column.name, _with_nan(numbers), library)


def _iso_dates(column: nw.Series[Any], library: str) -> nw.Series[Any] | None:
    """Return a column of text as dates if all of it is ISO 8601; else None."""
    cells = [None if is_missing(cell) or cell.strip() in MISSING_WORDS else cell.strip() for cell in raw_column(column)]
    try:
        dates = [None if cell is None else dt.datetime.fromisoformat(cell) for cell in cells]
    except ValueError:
        return None
    dates_in_utc = [
        date if date is None or date.tzinfo is None else date.astimezone(dt.UTC).replace(tzinfo=None) for date in dates
    ]
    return nw.new_series(column.name, dates_in_utc, nw.Datetime("us"), backend=library)  # type: ignore[arg-type]


def _readings(cells: list[Any]) -> Iterator[Reading]:
    """Yield ways to read cells, likeliest first: unchanged, as text, then as text or numbers that the cells spell."""
    yield cells
    yield [None if cell is None else str(cell).strip() for cell in cells]
    yield [None if cell is None else str(cell).strip().removesuffix(".0") for cell in cells]  # some are missing
    floats, booleans = _as_floats(cells), _as_booleans(cells)
    if floats is not None:
        yield [int(number) if number is not None and number.is_integer() else number for number in floats]
    if booleans is not None:
        yield booleans
    if floats is not None:
        yield _with_nan(floats)


def _with_nan(numbers: Sequence[float | None]) -> Floats:  # in place of None
    return np.array([np.nan if number is None else number for number in numbers], dtype=np.float64)


def _as_floats(cells: list[Any]) -> list[float | None] | None:
    """Return cells as floats, None if missing; None if a cell does not spell a number."""
    if any(isinstance(cell, str) and ("_" in cell or not cell.isascii()) for cell in cells):
        return None  # Python would take 1_000 for a number, and digits of all scripts
    try:
        return [None if cell is None else float(cell) for cell in cells]
    except (TypeError, ValueError):
        return None


def _as_booleans(cells: list[Any]) -> list[bool | None] | None:
    """Return cells as booleans, None if missing; None if a cell is neither true nor false."""
    texts = [None if cell is None else str(cell).strip() for cell in cells]
    if not all(text is None or text in _BOOLEANS for text in texts):
        return None
    return [None if text is None else _BOOLEANS[text] for text in texts]


def _share_known(reading: Reading, feature: Feature) -> float:
    """Return the share of distinct values that a feature's encoder knows, 1 without values; -1 if it refuses them."""
    if isinstance(reading, np.ndarray):
        column: npt.NDArray[Any] = np.unique(reading[~np.isnan(reading)])
    else:  # the type is part of the key, because True == 1
        column = object_column(list({(type(cell), cell): cell for cell in reading if cell is not None}.values()))
    try:
        encoded = feature.encoder.encode(feature.encoder.of_table(column, feature.name), feature.name)
    except (TypeError, ValueError):
        return -1
    is_known = encoded < feature.n_categories if feature.is_category else ~np.isnan(encoded)
    return float(is_known.mean()) if len(is_known) else 1.0


def _series(name: str, values: Reading, library: str) -> nw.Series[Any]:
    """Return a column of floats, of text, or of other objects, which no library may convert to numbers."""
    if isinstance(values, np.ndarray):
        return nw.new_series(name, values, nw.Float64, backend=library)  # type: ignore[arg-type]
    if library != "pandas" and all(value is None or isinstance(value, str) for value in values):
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


def read_table(
    path: str | os.PathLike[str],
    schema: Schema | None = None,
    *,
    drop: Collection[str] = (),
    may_lack: Collection[str] = (),
    library: str | None = None,
) -> Any:
    r"""Read the columns of a file as a model with this schema needs them; without one, the library guesses types.

    `path` is a file named .csv, .tsv, .parquet, .feather or .jsonl; text may be compressed. Columns of `drop`, such as
    the target, are left out; those of `may_lack` need not be there. `library` is "polars", "pyarrow" or "pandas", by
    default the first one installed; it also makes the data frame.

    >>> import tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.csv"
    >>> _ = path.write_text("size,price\n1,10\n,20\n")
    >>> records(read_table(path, drop=["price"], library="polars"))
    [{'size': 1.0}, {'size': None}]
    """
    source = pathlib.Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"`path` must be a file with a table, no such file: {str(source)!r}; check the path.")
    table, library = read_file(source, library, text_columns(schema))
    dropped = [name for name in drop if name in table.columns or name not in may_lack]
    unknown = [name for name in dropped if name not in table.columns]
    if unknown:
        raise ValueError(
            f"{source.name} must have the columns to leave out, got none named {', '.join(map(repr, unknown))}; "
            f"{blanks_around(unknown, table.columns) or f'it has {some_names(table.columns)}'}."
        )
    table = table.drop(dropped)
    if schema is not None:
        names = _model_columns(table.columns, schema, source.name, dropped)
        pairs = zip(names, schema.features, strict=True)
        with naming(source.name):
            columns = [_feature_column(table[name], feature, library) for name, feature in pairs]
        if _kind_of(source) == "csv":
            with naming(source.name):
                _check_numbers_in_text(columns, schema)
            for name, feature in zip(names, schema.features, strict=True):
                _warn_of_empty_cells(table[name], feature, source.name)
        table = table.select(names).with_columns(*columns)
    elif _kind_of(source) == "csv":
        table = table.with_columns(*(_typed_column(table[name], library) for name in table.columns))
    return nw.to_native(table)


def _check_numbers_in_text(columns: Sequence[nw.Series[Any]], schema: Schema) -> None:
    """Raise TypeError for text in columns of numbers; encoding does that, but only here is the file known."""
    for column, feature in zip(columns, schema.features, strict=True):
        if column.dtype == nw.String and not _has_labels(feature):
            feature.encoder.encode(feature.encoder.of_table(raw_column(column), feature.name), feature.name)


def _warn_of_empty_cells(column: nw.Series[Any], feature: Feature, file_name: str) -> None:
    """Warn of empty cells that are read as a category, because CSV writes missing values in the same way."""
    is_text = _has_labels(feature) and column.dtype == nw.String
    if not is_text or not feature.accepts_missing or _share_known([""], feature) < 1:
        return
    columns = [feature.encoder.with_nulls(object_column([cell])) for cell in ("", None)]
    try:
        empty, missing = (feature.encoder.encode(raw, feature.name) for raw in columns)
    except (TypeError, ValueError):  # the model refuses missing values
        return
    n_empty = sum(cell == "" for cell in raw_column(column))
    if n_empty and not np.array_equal(empty, missing, equal_nan=True):
        warnings.warn(
            f"{file_name}: {n_empty:,} empty cells of column {feature.name!r} are read as the model's category '', "
            "not as missing values; if they are missing, pass the rows as Parquet or JSON lines.",
            stacklevel=2,
        )


def read_column(path: str | os.PathLike[str], name: str, *, library: str | None = None) -> npt.NDArray[Any]:
    """Return one column of a file, by its name, as numpy; its type is guessed from its cells."""
    table = nw.from_native(read_table(path, library=library), eager_only=True)
    return raw_column(_column_named(table, name, path))


def read_labels(path: str | os.PathLike[str], name: str, *, library: str | None = None) -> list[Any]:
    """Return the cells of a column, None if missing; those of CSV as text, as it stands there, such as 01 or NA."""
    table, _ = read_file(pathlib.Path(path), library, lambda column: column == name)
    cells = _column_named(table, name, path).to_list()
    is_text = _kind_of(pathlib.Path(path)) == "csv"
    return [None if is_missing(cell) or (is_text and not cell.strip()) else cell for cell in cells]


def _column_named(table: nw.DataFrame[Any], name: str, path: str | os.PathLike[str]) -> nw.Series[Any]:
    """Return a column of the table that a file holds; ValueError, which names the file, if it has none."""
    if name not in table.columns:
        remedy = blanks_around([name], table.columns) or "check its name"
        raise ValueError(
            f"{pathlib.Path(path).name} must have the column {name!r}, got {some_names(table.columns)}; {remedy}."
        )
    return table[name]


def records(table: Any) -> list[dict[str, Any]]:
    """Return the rows of any data frame, or of a dict of columns, as dicts of plain Python values.

    >>> records({"size": [1, 2]})
    [{'size': 1}, {'size': 2}]
    """
    columns = columns_of(table)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
