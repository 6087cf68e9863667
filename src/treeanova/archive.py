"""One file for a header of plain data and named arrays: a zip of JSON and .npy parts, nothing pickled."""

from __future__ import annotations

import io
import json
import lzma
import os
import pathlib
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.errors import ArchiveError
from treeanova.files import replacing

SCHEMA = 1
_HEADER = "header.json"
_KIND = "treeanova decomposition"
_MOST_BYTES = 2**40


def write(path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write header and arrays to one file, replacing what was there only when all is written."""
    content = {"kind": _KIND, "schema": SCHEMA, "arrays": sorted(arrays), **header}
    with replacing(path) as whole, zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(_part(_HEADER), json.dumps(content))
        for key in sorted(arrays):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.asarray(arrays[key]), allow_pickle=False)
            file.writestr(_part(f"{key}.npy"), buffer.getvalue())


def _part(name: str) -> zipfile.ZipInfo:
    """A part without a date: the same content gives the same bytes."""
    part = zipfile.ZipInfo(name)
    part.compress_type = zipfile.ZIP_DEFLATED
    return part


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Header and arrays of a file; ArchiveError when it is damaged, foreign, or newer than this version knows."""
    source = pathlib.Path(path)
    try:
        with zipfile.ZipFile(source) as file:
            header = _header(file, source.name)
            arrays = {key: _array(file, f"{key}.npy") for key in header["arrays"]}
    except (
        zipfile.BadZipFile,
        KeyError,
        ValueError,
        EOFError,
        OSError,
        NotImplementedError,
        RuntimeError,
        MemoryError,
        zipfile.LargeZipFile,
        zlib.error,
        lzma.LZMAError,
    ) as error:
        if isinstance(error, (ArchiveError, FileNotFoundError, PermissionError, IsADirectoryError)):
            raise
        raise ArchiveError(
            f"{source.name} must be a whole file saved by treeanova, got a damaged or foreign one; a "
            "model is for treeanova.decompose."
        ) from error
    return header, arrays


def _header(file: zipfile.ZipFile, name: str) -> dict[str, Any]:
    header = json.loads(file.read(_HEADER))
    if not isinstance(header, dict) or header.get("kind") != _KIND or not isinstance(header.get("arrays"), list):
        raise ArchiveError(f"{name} must be a file saved by treeanova, got another kind of archive.")
    if header.get("schema") not in range(1, SCHEMA + 1):
        raise ArchiveError(f"{name} has schema {header.get('schema')}, this treeanova reads up to {SCHEMA}; update it.")
    return header


def _array(file: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    if file.getinfo(name).file_size > _MOST_BYTES:
        raise ArchiveError(f"{name} is too large to be true; file damaged?")
    array: npt.NDArray[Any] = np.lib.format.read_array(io.BytesIO(file.read(name)), allow_pickle=False)
    return array
