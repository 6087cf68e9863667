"""One file for a header of plain data and named arrays: a zip of JSON and .npy parts, nothing pickled."""

from __future__ import annotations

import io
import json
import math
import os
import pathlib
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova import __version__
from treeanova.core.files import replacing
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
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    KeyError,
    ValueError,
    TypeError,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    MemoryError,
)


def write(path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write one file; an existing file is replaced once the new one is complete.

    The header's entry "derived" is the number of bytes that loading derives from the arrays.
    """
    shapes, entries = _join_small(arrays)
    writer = {"treeanova": __version__}
    content = {"kind": _KIND, "schema": SCHEMA, "writer": writer, "arrays": sorted(entries), **header}
    if shapes:
        content[_JOINED] = shapes
    with replacing(path) as whole, zipfile.ZipFile(whole, "w") as file:
        file.writestr(_part(_HEADER), json.dumps(content), compresslevel=_LEVEL)
        for key in sorted(entries):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.asarray(entries[key]), allow_pickle=False)
            content_of_part = buffer.getbuffer()
            entry = _part(f"{key}.npy", is_packed=_is_worth_packing(content_of_part))
            file.writestr(entry, content_of_part, compresslevel=_LEVEL)
        written = sum(entry.compress_size for entry in file.infolist())
        missing = _least_size(file.infolist(), content.get("derived", 0)) - written
        if missing > 0:
            file.writestr(zipfile.ZipInfo(_PADDING), bytes(missing))


def _join_small(arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[dict[str, list[int]], dict[str, npt.NDArray[Any]]]:
    """Return the shapes of small float arrays that are joined to one, and all parts; none if there are few arrays."""
    if len(arrays) <= _MAX_PARTS:
        return {}, dict(arrays)
    small = [key for key in sorted(arrays) if arrays[key].dtype == np.float64 and arrays[key].nbytes < _SMALL]
    entries = {key: arrays[key] for key in arrays.keys() - set(small)}
    entries[_JOINED] = np.concatenate([np.zeros(0), *(arrays[key].ravel() for key in small)])
    return {key: list(arrays[key].shape) for key in small}, entries


def _is_worth_packing(content: memoryview) -> bool:
    distance = max(_SAMPLE, len(content) // _N_SAMPLES)
    sample = b"".join(content[start : start + _SAMPLE] for start in range(0, len(content), distance))
    return len(zlib.compress(sample, 1)) < _WORTH_PACKING * len(sample)


def _least_size(entries: Sequence[zipfile.ZipInfo], n_derived: int) -> int:
    """Return the smallest size that a file with these parts and so many derived bytes may have."""
    header, total = (sum(entry.file_size for entry in some) for some in (entries[:1], entries))
    total += n_derived
    for_header = header / _MOST_PARSED_PER_BYTE if header > _ALWAYS_PARSED else 0
    for_all = total / _MOST_PER_BYTE if total > _ALWAYS_UNPACKED else 0
    return math.ceil(max(for_header, for_all))


def _part(name: str, *, is_packed: bool = True) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED if is_packed else zipfile.ZIP_STORED
    return entry


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return header and arrays; ArchiveError if the file is damaged, not an archive of ours, or of a newer schema."""
    source = pathlib.Path(path)
    if source.is_dir():
        raise IsADirectoryError(
            f"`path` must be a file saved by treeanova, got the folder {str(source)!r}; add a name."
        )
    if not source.exists():
        raise FileNotFoundError(f"`path` must be a file saved by treeanova, no such file: {str(source)!r}; check it.")
    try:
        with source.open("rb") as content, zipfile.ZipFile(content) as file:
            size = os.fstat(content.fileno()).st_size
            header = _header(file, source.name, size)
            entries = [file.getinfo(f"{key}.npy") for key in dict.fromkeys(header["arrays"])]
            _check_sizes([file.getinfo(_HEADER), *entries], source.name, size, _n_derived(header))
            arrays = {entry.filename.removesuffix(".npy"): _array(file, entry) for entry in entries}
            arrays |= _separate(header.get(_JOINED, {}), arrays.pop(_JOINED, None))
    except (ArchiveError, FileNotFoundError, PermissionError):
        raise
    except _DAMAGE as error:
        raise ArchiveError(
            f"{source.name} must be a whole file saved by treeanova, got a damaged or foreign one; a "
            "model is for treeanova.decompose."
        ) from error
    return header, arrays


def _n_derived(header: Mapping[str, Any]) -> int:
    n_bytes = header.get("derived", 0)
    if type(n_bytes) is not int or n_bytes < 0:
        raise ValueError("`derived` must be a number of bytes")
    return n_bytes


def _separate(shapes: Mapping[str, Sequence[int]], joined: npt.NDArray[Any] | None) -> dict[str, npt.NDArray[Any]]:
    if joined is None and not shapes:
        return {}
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
    is_negative = any(size < 0 for shape in shapes.values() for size in shape)
    if joined is None or joined.shape != (ends[-1],) or is_negative:
        raise ValueError("joined arrays must be as long as their shapes say")
    pieces = np.split(joined, ends[:-1])
    return {key: piece.reshape(shape) for (key, shape), piece in zip(shapes.items(), pieces, strict=True)}


def _check_sizes(entries: Sequence[zipfile.ZipInfo], name: str, size: int, n_derived: int = 0) -> None:
    if any(entry.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED} for entry in entries):
        raise ArchiveError(f"{name} must be compressed by deflate, got another method; save it again.")
    if _least_size(entries, n_derived) > size:
        n_bytes = sum(entry.file_size for entry in entries) + n_derived
        raise ArchiveError(
            f"{name} must unpack to what a file of {size:,} bytes may hold, got {n_bytes:,} bytes; it may be made to "
            "fill the memory: load files only from those you trust."
        )


def _header(file: zipfile.ZipFile, name: str, size: int) -> dict[str, Any]:
    _check_sizes([file.getinfo(_HEADER)], name, size)
    header = json.loads(file.read(_HEADER))
    if not isinstance(header, dict) or header.get("kind") != _KIND or not isinstance(header.get("arrays"), list):
        raise ArchiveError(f"{name} must be a file saved by treeanova, got another kind of archive.")
    if type(header.get("schema")) is not int or header["schema"] != SCHEMA:
        raise ArchiveError(f"{name} has schema {header.get('schema')}, this treeanova reads {SCHEMA}; update it.")
    return header


def _array(file: zipfile.ZipFile, entry: zipfile.ZipInfo) -> npt.NDArray[Any]:
    content = file.read(entry)
    stream = io.BytesIO(content)
    shape, is_fortran, dtype = _NPY_HEADERS[np.lib.format.read_magic(stream)](stream)
    if math.prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise ValueError("an array must be as long as its header says")
    flat = np.frombuffer(content, dtype, offset=stream.tell()) if math.prod(shape) else np.zeros(0, dtype)
    return flat.reshape(shape, order="F" if is_fortran else "C")
