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

from treeanova.core.files import replacing
from treeanova.errors import ArchiveError

SCHEMA = 2
_HEADER = "header.json"
_KIND = "treeanova decomposition"
_PADDING = "padding"
# What is unpacked is limited before it is, so that a small file cannot fill the memory. Deflate shrinks zeros a
# thousandfold, so `write` pads files that would come under these limits; archives of models shrink three- to sixtyfold.
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
    """Write header and arrays to one file; an existing file is replaced once the new one is complete."""
    content = {"kind": _KIND, "schema": SCHEMA, "arrays": sorted(arrays), **header}
    with replacing(path) as whole, zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(_part(_HEADER), json.dumps(content))
        for key in sorted(arrays):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.asarray(arrays[key]), allow_pickle=False)
            file.writestr(_part(f"{key}.npy"), buffer.getvalue())
        missing = _least_size(file.infolist()) - sum(part.compress_size for part in file.infolist())
        if missing > 0:
            file.writestr(zipfile.ZipInfo(_PADDING), bytes(missing))


def _least_size(parts: Sequence[zipfile.ZipInfo]) -> int:
    """Smallest number of bytes that a file with these parts must have."""
    header, total = (sum(part.file_size for part in some) for some in (parts[:1], parts))
    for_header = header / _MOST_PARSED_PER_BYTE if header > _ALWAYS_PARSED else 0
    for_all = total / _MOST_PER_BYTE if total > _ALWAYS_UNPACKED else 0
    return math.ceil(max(for_header, for_all))


def _part(name: str) -> zipfile.ZipInfo:
    """A part without a date: the same content gives the same bytes."""
    part = zipfile.ZipInfo(name)
    part.compress_type = zipfile.ZIP_DEFLATED
    return part


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Header and arrays of a file; ArchiveError where it is damaged, no archive of treeanova, or of a newer schema."""
    source = pathlib.Path(path)
    try:
        with source.open("rb") as content, zipfile.ZipFile(content) as file:
            size = os.fstat(content.fileno()).st_size
            header = _header(file, source.name, size)
            parts = [file.getinfo(f"{key}.npy") for key in dict.fromkeys(header["arrays"])]
            _check_sizes([file.getinfo(_HEADER), *parts], source.name, size)
            arrays = {part.filename.removesuffix(".npy"): _array(file, part) for part in parts}
    except (ArchiveError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except _DAMAGE as error:
        raise ArchiveError(
            f"{source.name} must be a whole file saved by treeanova, got a damaged or foreign one; a "
            "model is for treeanova.decompose."
        ) from error
    return header, arrays


def _check_sizes(parts: Sequence[zipfile.ZipInfo], name: str, size: int) -> None:
    """Raise ArchiveError, before unpacking, for parts that unpack to more than is allowed for this file size."""
    if any(part.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED} for part in parts):
        raise ArchiveError(f"{name} must be compressed by deflate, got another method; save it again.")
    if _least_size(parts) > size:
        n_bytes = sum(part.file_size for part in parts)
        raise ArchiveError(
            f"{name} must unpack to what a file of {size:,} bytes may hold, got {n_bytes:,} bytes; it may be made to "
            "fill the memory: load files only from those you trust."
        )


def _header(file: zipfile.ZipFile, name: str, size: int) -> dict[str, Any]:
    _check_sizes([file.getinfo(_HEADER)], name, size)
    header = json.loads(file.read(_HEADER))
    if not isinstance(header, dict) or header.get("kind") != _KIND or not isinstance(header.get("arrays"), list):
        raise ArchiveError(f"{name} must be a file saved by treeanova, got another kind of archive.")
    if header.get("schema") not in range(1, SCHEMA + 1):
        raise ArchiveError(f"{name} has schema {header.get('schema')}, this treeanova reads up to {SCHEMA}; update it.")
    return header


def _array(file: zipfile.ZipFile, part: zipfile.ZipInfo) -> npt.NDArray[Any]:
    """The array in a part; ValueError where the part is not as long as its header says."""
    with file.open(part) as stream:
        shape, _, dtype = _NPY_HEADERS[np.lib.format.read_magic(stream)](stream)
        if math.prod(shape) * dtype.itemsize != part.file_size - stream.tell():
            raise ValueError("an array must be as long as its header says")
    with file.open(part) as stream:
        array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array
