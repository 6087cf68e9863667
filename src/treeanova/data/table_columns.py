"""Columns of tables from files as a model needs them.

A text file does not tell a number from a label, so the model's schema decides: its numbers are parsed (empty cells are
missing), its categories reach it as text, or as the number or boolean that it knows as a label.
"""

from __future__ import annotations

import datetime as dt
import importlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats
from treeanova.data.columns import blanks_around, check_beside, has_features, raw_column
from treeanova.data.features import Feature, Schema, is_missing
from treeanova.data.table_files import MISSING_WORDS, UNNAMED

Reading = list[Any] | Floats
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*").fullmatch
_INDEX_NAMES = ("__index_level_0__", f"{UNNAMED}0")


def text_columns(schema: Schema | None) -> Callable[[str], bool]:
    """A function that tells which columns of a text file stay text; all of them if they are matched by position."""
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


def without_columns(table: nw.DataFrame[Any], drop: Collection[str], file_name: str) -> nw.DataFrame[Any]:
    """The table without some columns, all of which must be there."""
    unknown = [name for name in drop if name not in table.columns]
    if unknown:
        raise ValueError(
            f"{file_name} must have the columns to leave out, got none named {', '.join(map(repr, unknown))}; "
            f"{blanks_around(unknown, table.columns) or f'it has {some_names(table.columns)}'}."
        )
    return table.drop(list(drop))


def some_names(names: Sequence[str], max_names: int = 12) -> str:
    """The first names as one text."""
    shown = ", ".join(names[:max_names])
    return f"{shown}, … ({len(names)} in all)" if len(names) > max_names else shown


def fit_columns(
    table: nw.DataFrame[Any], schema: Schema, library: str, file_name: str, dropped: Collection[str] = ()
) -> nw.DataFrame[Any]:
    """The model's columns in its order, each read as the model needs it, of a table without those that were dropped."""
    names = _model_columns(table.columns, schema, file_name, dropped)
    columns = [_fit(table[name], feature, library) for name, feature in zip(names, schema.features, strict=True)]
    return table.select(names).with_columns(*columns)


def _model_columns(names: Sequence[str], schema: Schema, file_name: str, dropped: Collection[str]) -> list[str]:
    """Names of the columns of a table that are the model's features, in its order."""
    if not schema.named:
        return _without_names(list(names), schema, file_name, dropped)
    known = {name.replace(" ", "_") if schema.underscores else name: name for name in names}
    known |= {name: name for name in names}
    for spelling in schema.spellings:
        if all(name in known for name in spelling):
            return [known[name] for name in spelling]
    missing = [name for name in schema.names if name not in known]
    raise ValueError(
        f"{file_name} must have the model's columns, got none named {', '.join(map(repr, missing[:5]))}"
        f"{f' and {len(missing) - 5} more' if len(missing) > 5 else ''}; "
        f"{blanks_around(missing, names) or f'it has {some_names(names)}'}."
    )


def _without_names(names: list[str], schema: Schema, file_name: str, dropped: Collection[str]) -> list[str]:
    """The columns named as the features are shown, else all columns except an index that was saved as the first one."""
    n_features = len(schema.features)
    if len(names) == n_features + 1:
        names = [name for name in names if name not in _INDEX_NAMES]
    if has_features(names, schema):
        return list(schema.names)
    check_beside(names, schema, dropped)
    if len(names) != n_features:
        raise ValueError(
            f"{file_name} must have {n_features} columns, because the model has no names for them, got {len(names)}: "
            f"{some_names(names)}; leave out those that are not features (--target)."
        )
    return names


def _fit(column: nw.Series[Any], feature: Feature, library: str) -> nw.Series[Any]:
    """A column as its feature needs it."""
    if not _has_labels(feature):
        if column.dtype not in {nw.String, nw.Object}:
            return column
        dates = _dates_of(column, library) if feature.encoder.date_unit and column.dtype == nw.String else None
        return _numbers_of(column, library) if dates is None else dates
    cells = raw_column(column).tolist()
    return _series(column.name, _best_reading(_with_missing(cells, feature), feature), library)


def _best_reading(cells: list[Any], feature: Feature) -> Reading:
    """The first reading all of whose values a feature knows, else the one of which it knows the largest share."""
    best: Reading = cells
    best_share = -np.inf
    for reading in _readings(cells):
        share = _share_known(reading, feature)
        if share == 1:
            return reading
        if share > best_share:
            best, best_share = reading, share
    return best


def _numbers_of(column: nw.Series[Any], library: str) -> nw.Series[Any]:
    """A column of text or objects as numbers, where all of it spells numbers or booleans; else itself."""
    cells = [None if is_missing(cell) or str(cell).strip() in MISSING_WORDS else cell for cell in raw_column(column)]
    for read in (_as_floats, _as_booleans):
        values = read(cells)
        if values is not None:
            return _series(
                column.name, np.array([np.nan if v is None else v for v in values], dtype=np.float64), library
            )
    return column


def typed_columns(table: nw.DataFrame[Any], library: str) -> nw.DataFrame[Any]:
    """Columns of a text file by what all of their cells spell: numbers, whole ones if none is missing, or booleans."""
    return table.with_columns(*(_typed(table[name], library) for name in table.columns))


def _typed(column: nw.Series[Any], library: str) -> nw.Series[Any]:
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
    if numbers is None:
        return column
    values = np.array([np.nan if number is None else number for number in numbers], dtype=np.float64)
    return _series(column.name, values, library)


def _dates_of(column: nw.Series[Any], library: str) -> nw.Series[Any] | None:
    """A column of text as dates, where all of it spells dates as ISO 8601 does; else None."""
    cells = [None if is_missing(cell) or cell.strip() in MISSING_WORDS else cell.strip() for cell in raw_column(column)]
    try:
        dates = [None if cell is None else dt.datetime.fromisoformat(cell) for cell in cells]
    except ValueError:
        return None
    plain = [
        date if date is None or date.tzinfo is None else date.astimezone(dt.UTC).replace(tzinfo=None) for date in dates
    ]
    return nw.new_series(column.name, plain, nw.Datetime("us"), backend=library)  # type: ignore[arg-type]


def _in_utc(date: dt.datetime | None) -> dt.datetime | None:
    has_zone = date is not None and date.tzinfo is not None
    return date.astimezone(dt.UTC).replace(tzinfo=None) if date is not None and has_zone else date


def _with_missing(cells: list[Any], feature: Feature) -> list[Any]:
    """Cells with None for words that mean missing, unless the model knows them as labels."""
    texts = {cell for cell in cells if isinstance(cell, str)}
    words = [word for word in MISSING_WORDS if word in texts and _share_known([word], feature) < 1]
    return [None if is_missing(cell) or cell in words else cell for cell in cells]


def _readings(cells: list[Any]) -> Iterator[Reading]:
    """Ways to read cells, the more likely first: unchanged, as text, as numbers, as booleans, as codes."""
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
    """Cells as numbers, whole ones as integers; None if a cell is not a number."""
    numbers = _as_floats(cells)
    if numbers is None:
        return None
    return [int(number) if number is not None and number.is_integer() else number for number in numbers]


def _as_floats(cells: list[Any]) -> list[float | None] | None:
    """Cells as numbers; None if a cell is not a number."""
    if any(isinstance(cell, str) and ("_" in cell or not cell.isascii()) for cell in cells):
        return None  # Python would take 1_000 for a number, and digits of all scripts
    try:
        return [None if cell is None else float(cell) for cell in cells]
    except (TypeError, ValueError):
        return None


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
    """A column of floats, of text, or of other objects, which no library may convert to numbers."""
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
