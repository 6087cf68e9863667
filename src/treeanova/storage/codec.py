"""One file for a header of plain data and named arrays: a zip of JSON and .npy parts, nothing pickled.

One codec turns dataclasses, named tuples, tuples and mappings into plain data and named arrays, and back.
Files name types by stable tags, so modules can move. Reading checks every value against the annotation of its field;
classes and `saved` check the rest.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import importlib
import io
import json
import math
import os
import pathlib
import types
import typing
import zipfile
import zlib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova import __version__
from treeanova.core.arrays import Arrays, Key
from treeanova.core.files import replacing
from treeanova.data.dates import UNITS
from treeanova.data.features import Schema, is_writable
from treeanova.errors import ArchiveError

SCHEMA = 1
_HEADER = "header.json"
_KIND = "treeanova decomposition"
_PADDING = "padding"
_JOINED = "joined"
_MAX_PARTS = 1000  # a part takes longer than a small array: of more arrays, small ones are joined to one part
_SMALL = 1 << 16  # bytes of an array that is joined
_LEVEL = 1  # the fastest: higher ones take three times as long for files that are a tenth smaller
_N_SAMPLES, _SAMPLE = 4, 1 << 12
_WORTH_PACKING = 0.9  # of the bytes of a sample: digits of floats hardly shrink, and take the time of all else
# Sizes are checked before anything is unpacked, so a small file cannot fill the memory. Deflate shrinks zeros a
# thousandfold, so `write` pads files that would fall below these limits.
_ALWAYS_UNPACKED = 2**28  # bytes of all parts
_MOST_PER_BYTE = 100  # of the file, beyond that
_ALWAYS_PARSED = 2**24  # bytes of the header, which take twenty times as many once they are parsed
_MOST_PARSED_PER_BYTE = 16
_NPY_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_DAMAGE = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error,
    KeyError, ValueError, TypeError, EOFError, OSError, RuntimeError, MemoryError,
)  # fmt: skip
_LARGEST = 2**62
_hints = functools.cache(typing.get_type_hints)
_SCALARS = (bool, int, float, str)


def write(path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write a decomposition's header and arrays to one zip file, of JSON and .npy entries."""
    shapes, entries = _join_small(arrays)
    writer = {"treeanova": __version__}
    content = {"kind": _KIND, "schema": SCHEMA, "writer": writer, "arrays": sorted(entries), **header}
    if shapes:
        content[_JOINED] = shapes
    with replacing(path) as whole, zipfile.ZipFile(whole, "w") as file:
        file.writestr(_zip_entry(_HEADER), json.dumps(content), compresslevel=_LEVEL)
        for key in sorted(entries):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.asarray(entries[key]), allow_pickle=False)
            # Arrays of which a sample hardly shrinks are stored without compression.
            distance = max(_SAMPLE, len(buffer.getbuffer()) // _N_SAMPLES)
            starts = range(0, len(buffer.getbuffer()), distance)
            sample = b"".join(buffer.getbuffer()[start : start + _SAMPLE] for start in starts)
            is_packed = len(zlib.compress(sample, 1)) < _WORTH_PACKING * len(sample)
            file.writestr(_zip_entry(f"{key}.npy", is_packed=is_packed), buffer.getbuffer(), compresslevel=_LEVEL)
        written = sum(entry.compress_size for entry in file.infolist())
        n_missing = _least_size(file.infolist(), content.get("derived", 0)) - written
        if n_missing > 0:  # `read` would refuse a file that unpacks to so much more than its size
            file.writestr(zipfile.ZipInfo(_PADDING), bytes(n_missing))


def _join_small(arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[dict[str, list[int]], dict[str, npt.NDArray[Any]]]:
    """Join small float arrays to one flat array, if there are many; return their shapes, and all arrays to write."""
    if len(arrays) <= _MAX_PARTS:
        return {}, dict(arrays)
    small = [key for key in sorted(arrays) if arrays[key].dtype == np.float64 and arrays[key].nbytes < _SMALL]
    entries = {key: arrays[key] for key in arrays.keys() - set(small)}
    entries[_JOINED] = np.concatenate([np.zeros(0), *(arrays[key].ravel() for key in small)])
    return {key: list(arrays[key].shape) for key in small}, entries


def _least_size(entries: Sequence[zipfile.ZipInfo], n_derived: int) -> int:
    """Return the fewest bytes that a file may have whose entries (the header first) unpack to so much."""
    # `n_derived` bytes more follow from them once they are loaded.
    n_header = sum(entry.file_size for entry in entries[:1])  # 0 without entries
    n_total = sum(entry.file_size for entry in entries) + n_derived
    for_header = n_header / _MOST_PARSED_PER_BYTE if n_header > _ALWAYS_PARSED else 0
    for_all = n_total / _MOST_PER_BYTE if n_total > _ALWAYS_UNPACKED else 0
    return math.ceil(max(for_header, for_all))


def _zip_entry(name: str, *, is_packed: bool = True) -> zipfile.ZipInfo:  # without the time, so files can be compared
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED if is_packed else zipfile.ZIP_STORED
    return entry


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return header and arrays; ArchiveError if the file is damaged, not an archive of ours, or of a newer schema."""
    source = pathlib.Path(path)
    if source.is_dir():
        raise IsADirectoryError(f"`path` must be a file saved by treeanova, got the folder {str(path)!r}; add a name.")
    if not source.exists():
        raise FileNotFoundError(f"`path` must be a file saved by treeanova, no such file: {str(source)!r}; check it.")
    try:
        with source.open("rb") as content, zipfile.ZipFile(content) as file:
            file_size = os.fstat(content.fileno()).st_size
            header = _read_header(file, source.name, file_size)
            entries = [file.getinfo(f"{key}.npy") for key in dict.fromkeys(header["arrays"])]
            n_derived = header.get("derived", 0)
            if type(n_derived) is not int or n_derived < 0:
                raise ValueError("`derived` must be a number of bytes")
            _check_sizes([file.getinfo(_HEADER), *entries], source.name, file_size, n_derived)
            arrays = {entry.filename.removesuffix(".npy"): _read_array(file, entry) for entry in entries}
            arrays |= _split_joined(header.get(_JOINED, {}), arrays.pop(_JOINED, None))
    except (ArchiveError, FileNotFoundError, PermissionError):
        raise
    except _DAMAGE as error:
        raise ArchiveError(
            f"{source.name} must be a whole file saved by treeanova, got a damaged or foreign one; a "
            "model is for treeanova.decompose."
        ) from error
    return header, arrays


def _split_joined(shapes: Mapping[str, Sequence[int]], joined: npt.NDArray[Any] | None) -> dict[str, npt.NDArray[Any]]:
    """Return the small arrays, by name, that were joined to one flat array in the order of `shapes`."""
    if joined is None and not shapes:
        return {}
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
    is_negative = any(size < 0 for shape in shapes.values() for size in shape)
    if joined is None or joined.shape != (ends[-1],) or is_negative:
        raise ValueError("joined arrays must be as long as their shapes say")
    pieces = np.split(joined, ends[:-1])
    return {key: piece.reshape(shape) for (key, shape), piece in zip(shapes.items(), pieces, strict=True)}


def _check_sizes(entries: Sequence[zipfile.ZipInfo], file_name: str, file_size: int, n_derived: int = 0) -> None:
    """Raise ArchiveError if entries of a zip file would unpack to more than its size allows."""
    if any(entry.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED} for entry in entries):
        raise ArchiveError(f"{file_name} must be compressed by deflate, got another method; save it again.")
    if _least_size(entries, n_derived) > file_size:
        n_bytes = sum(entry.file_size for entry in entries) + n_derived
        raise ArchiveError(
            f"{file_name} must unpack to what a file of {file_size:,} bytes may hold, got {n_bytes:,} bytes; it may "
            "be made to fill the memory: load files only from those you trust."
        )


def _read_header(file: zipfile.ZipFile, file_name: str, file_size: int) -> dict[str, Any]:
    """Parse the header; ArchiveError if it is too large, of another kind of file or of another schema."""
    _check_sizes([file.getinfo(_HEADER)], file_name, file_size)
    header = json.loads(file.read(_HEADER))
    if not isinstance(header, dict) or header.get("kind") != _KIND or not isinstance(header.get("arrays"), list):
        raise ArchiveError(f"{file_name} must be a file saved by treeanova, got another kind of archive.")
    if type(header.get("schema")) is not int or header["schema"] != SCHEMA:
        raise ArchiveError(f"{file_name} has schema {header.get('schema')}, this treeanova reads {SCHEMA}; update it.")
    return header


def _read_array(file: zipfile.ZipFile, entry: zipfile.ZipInfo) -> npt.NDArray[Any]:
    """Return the array of an .npy entry; ValueError unless its bytes are as many as its header says."""
    content = file.read(entry)
    stream = io.BytesIO(content)
    shape, is_fortran, dtype = _NPY_HEADERS[np.lib.format.read_magic(stream)](stream)
    if math.prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise ValueError("an array must be as long as its header says")
    flat = np.frombuffer(content, dtype, offset=stream.tell()) if math.prod(shape) else np.zeros(0, dtype)
    return flat.reshape(shape, order="F" if is_fortran else "C")


def check_fields(kind: Any, fields: Mapping[str, Any]) -> None:
    """Raise TypeError unless `fields`, by name, have the types that the class `kind` annotates."""
    hints = _hints(kind)
    for name, value in fields.items():
        if name not in hints or not fits(value, hints[name]):
            raise TypeError(f"{kind.__name__}.{name} must be {hints.get(name, 'a known field')}, got {value!r:.100}")


def fits(value: Any, hint: Any) -> bool:  # noqa: PLR0911  a line per kind of type
    """Whether a value from a file has the annotated type `hint`; booleans are not numbers here."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)  # of Mapping[K, V]: Mapping, and (K, V)
    if hasattr(origin, "__value__"):  # a `type` alias: numpy's NDArray from 2.5 on
        return fits(value, origin.__value__[inner])
    if origin in (types.UnionType, typing.Union):
        return any(fits(value, option) for option in inner)
    if origin is tuple:
        item_hints = [inner[0]] * len(value) if inner[-1] is ... and isinstance(value, tuple) else inner
        return isinstance(value, tuple) and len(value) == len(item_hints) and all(map(fits, value, item_hints))
    if origin is collections.abc.Mapping:
        return isinstance(value, dict) and all(fits(k, inner[0]) and fits(v, inner[1]) for k, v in value.items())
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and value.dtype == typing.get_args(inner[1])[0]
    if hint is Any or hint is Hashable:
        return value is None or isinstance(value, tuple) or _fits_scalar(value)
    if hint is float:
        return type(value) is float or (type(value) is int and abs(value) < _LARGEST)
    if hint in _SCALARS:
        return type(value) is hint and _fits_scalar(value)
    return isinstance(value, hint)


def _fits_scalar(value: Any) -> bool:
    """Whether a value is a boolean, a number or a text that a file may hold."""
    if type(value) is int:
        return abs(value) < _LARGEST
    return type(value) in _SCALARS and (type(value) is not str or is_writable(value))


def whole_in_range(value: Any, low: int = 0, high: int = _LARGEST) -> int:
    """Return a number from a file; ValueError unless it is an integer from `low` to `high`."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"a number in a file must be whole and from {low} to {high}, got {value!r:.100}")
    return value


def checked_key(plain: Any, n_features: int) -> Key:
    """Return a list from a file as a key; ValueError unless it ascends within the features."""
    key = tuple(whole_in_range(j, 0, n_features - 1) for j in plain)
    if not key or list(key) != sorted(set(key)):
        raise ValueError(f"the features of a term must ascend, got {key}")
    return key


def check_measures(measured: Any, but: Sequence[str] = ()) -> None:
    """Raise ValueError if a number of a dataclass is negative, except of the fields `but`; NaN means not measured."""
    for field in dataclasses.fields(measured):
        value = getattr(measured, field.name)
        if field.name not in but and isinstance(value, int | float) and value < 0:
            raise ValueError(f"{field.name} must not be negative, got {value}")


def checked_finite(array: Any, shape: tuple[int, ...] | None = None) -> Any:
    """Return an array; ValueError unless it is float64, finite, and of the shape."""
    if array.dtype != np.float64 or (shape is not None and array.shape != shape) or not np.isfinite(array).all():
        raise ValueError(f"arrays must hold finite numbers, of shape {shape or array.shape}")
    return array


def checked_masses(array: Any, shape: tuple[int, ...] | None = None) -> Any:
    """Return an array; ValueError unless it is finite and not negative, with a positive sum."""
    if checked_finite(array, shape).size and ((array < 0).any() or not 0 < array.sum() < np.inf):
        raise ValueError("masses must not be negative, and have a positive sum")
    return array


def checked_integers(array: Any) -> Any:
    """Return an array of integers as int64; ValueError for others."""
    if array.dtype.kind not in "iu" or (array.size and int(array.max()) >= _LARGEST):
        raise ValueError(f"positions and counts must be integers, got {array.dtype}")
    return array.astype(np.int64)


# Tags in files and their classes: a class may move or be renamed, its tag stays.
_CLASSES = {
    "tables": "storage.saved:Tables", "trees": "storage.saved:LeafTables", "nodes": "storage.saved:Nodes",
    "correction": "storage.saved:Purity", "binning": "model.grid:Binning",
    "interval-axis": "model.axes:IntervalAxis", "category-axis": "model.axes:CategoryAxis",
    "moments": "terms.moments:Moments", "settings": "terms.source:Settings",
    "options": "anova.solvers.base:Options", "certificate": "anova.certificate:Certificate",
    "term-certificate": "anova.certificate:TermCertificate",
    "higher-certificate": "anova.certificate:HigherCertificate", "scope": "terms.terms:Scope",
    "edit": "terms.terms:Edit",
    "row-totals": "density.counting:RowTotals", "schema": "data.features:Schema",
    "feature": "data.features:Feature", "number": "data.features:Numeric",
    "integer-category": "data.features:IntegerCategory", "labels": "data.features:Labels",
    "date-number": "data.dates:DateNumber", "ignored-column": "data.features:IgnoredColumn",
    "pmml-number": "readers.pmml:DeclaredNumber", "catboost-hash": "readers.catboost:HashedCategory",
    "xgboost-category": "readers.xgboost.nodes:NamedCategory",
}  # fmt: skip
_LINKS = ("identity", "logit", "softmax", "log", "probability", "argmax", "other")
_MOST_CODES = 1 << 22  # without names, so that a small file cannot fill the memory with labels
_TAGS = {home: tag for tag, home in _CLASSES.items()}


def describe(value: Any, arrays: Arrays | None = None, name: str = "") -> Any:
    """Return a value as plain data for JSON, and add its arrays to `arrays` under names that begin with `name`."""
    if isinstance(value, np.ndarray) and arrays is not None:
        arrays[name] = in_few_bytes(value)
        return {"array": name}
    fields: Mapping[str, Any] | None = value._asdict() if hasattr(value, "_fields") else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    if fields is not None:
        plain = {key: describe(item, arrays, f"{name}/{key}") for key, item in fields.items()}
        home = f"{type(value).__module__.removeprefix('treeanova.')}:{type(value).__qualname__}"
        if home not in _TAGS:
            raise TypeError(
                f"only treeanova's own features can be saved, got {type(value).__name__}; save the model instead."
            )
        return {"type": _TAGS[home], "fields": plain}
    if isinstance(value, (tuple, list)):
        return {"tuple": [describe(item, arrays, f"{name}/{i}") for i, item in enumerate(value)]}
    if isinstance(value, Mapping):
        if arrays is not None and value and all(isinstance(item, np.ndarray) for item in value.values()):
            arrays |= {f"{name}/{_key_as_text(key)}": in_few_bytes(item) for key, item in value.items()}
            return {"arrays": name}
        items = value.items()
        return {"map": [[describe(key), describe(item, arrays, f"{name}/{_key_as_text(key)}")] for key, item in items]}
    scalar = value.item() if isinstance(value, np.generic) else value
    if scalar is None or isinstance(scalar, _SCALARS):
        return scalar
    raise TypeError(
        f"categories must be text, numbers or booleans to be saved, got {value!r}; rename them before training."
    )


def _key_as_text(key: Any) -> str:  # the key of a term as 0-3, the empty one as -, others by str
    return "-".join(map(str, key)) or "-" if isinstance(key, tuple) else str(key)


def in_few_bytes(array: Any) -> Any:
    """Return integers in as few bytes as possible: zeros take time to pack and unpack too."""
    if array.dtype.kind != "i":
        return array
    ends = array.min(initial=0), array.max(initial=0)
    kind = np.result_type(*map(np.min_scalar_type, ends))
    return array.astype(kind) if kind.kind in "iu" else array


def restore(plain: Any, arrays: Mapping[str, Any] | None = None) -> Any:
    """Return the value that `describe` made plain; only classes with a tag in `_CLASSES` are created."""
    if not isinstance(plain, dict):
        return plain
    arrays = {} if arrays is None else arrays
    if "array" in plain:
        return as_int64_if_integers(arrays[plain["array"]])
    if "arrays" in plain:
        below = f"{plain['arrays']}/"
        names = [name for name in arrays if name.startswith(below)]
        texts = {name: name.removeprefix(below) for name in names}  # as `_key_as_text` writes keys
        keys = {name: () if text == "-" else tuple(map(int, text.split("-"))) for name, text in texts.items()}
        return {key: as_int64_if_integers(arrays[name]) for name, key in keys.items()}
    if "tuple" in plain:
        return tuple(restore(item, arrays) for item in _checked_list(plain["tuple"]))
    if "map" in plain:
        return {restore(key): restore(item, arrays) for key, item in _checked_list(plain["map"])}
    if plain["type"] not in _CLASSES:
        raise ValueError(f"a file must hold treeanova's own types, got {plain['type']!r}.")
    module, _, name = _CLASSES[plain["type"]].partition(":")
    kind: type = getattr(importlib.import_module(f"treeanova.{module}"), name)
    fields = {name: restore(value, arrays) for name, value in plain["fields"].items()}
    check_fields(kind, fields)
    return kind(**fields)


def as_int64_if_integers(array: Any) -> Any:  # undoes `in_few_bytes`
    return checked_integers(array) if array.dtype.kind in "iu" else array


def check_schema(schema: Schema) -> None:
    """Raise ValueError for a schema that a file cannot hold."""
    if schema.link not in _LINKS or not schema.outputs:
        raise ValueError(f"a schema must have outputs and a known link to be saved, got {schema.link!r}.")
    if schema.trained_names and len(schema.trained_names) != len(schema.features):
        raise ValueError("a schema must have as many names as features to be saved.")
    for feature in schema.features:
        unit, n_codes = feature.encoder.date_unit, getattr(feature.encoder, "n_categories", 0)
        if unit and unit not in UNITS:
            raise ValueError(f"feature {feature.name!r} must have a known unit of dates, got {unit!r}.")
        if not 0 <= n_codes <= _MOST_CODES:
            raise ValueError(
                f"feature {feature.name!r} must have at most {_MOST_CODES:,} categories to be saved, got {n_codes:,}."
            )


def _checked_list(plain: Any) -> list[Any]:  # from a damaged file, it may be anything
    if not isinstance(plain, list):
        raise TypeError("items in a file must be listed")
    return plain
