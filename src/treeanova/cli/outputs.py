"""Files that commands write: refused before any work if they cannot be written or would replace an input."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from treeanova.core.files import ARCHIVE, CSV, PAGE, PARQUET, check_suffix, is_same_file

_SUFFIXES = {"--out": PAGE, "--save": ARCHIVE, "--rows-out": PARQUET, "--csv": CSV}


def check_outputs(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | Sequence[Path] | None]) -> None:
    """Raise ValueError for a file that cannot be written, has the suffix of another format, or is an input or output.

    Parameters
    ----------
    outputs
        Files to write, by the option that names them; None where an option is not given.
    inputs
        Files to read, by the option or argument that names them.
    """
    from treeanova.data.parquet_files import would_read  # noqa: PLC0415  slow to load

    written = {option: path for option, path in outputs.items() if path is not None}
    read = [(option, path) for option, given in inputs.items() for path in _paths(given)]
    for option, path in written.items():
        _check_writable(path)
        for other, source in read:
            if source.is_dir() and Path(os.path.realpath(source)) in Path(os.path.realpath(path)).parents:
                raise ValueError(
                    f"`{option}` must be outside the folder `{other}`, got {path}, which would be read with it; choose "
                    "another folder."
                )
            if is_same_file(path, source):
                raise ValueError(
                    f"`{option}` must be another file than `{other}`, got {path}, which would replace it; choose "
                    "another name."
                )
            if would_read(str(source), path):
                raise ValueError(
                    f"`{option}` must be another file than those of `{other}`, got {path}, which {source} matches; "
                    "choose another folder."
                )
        check_suffix(path, _SUFFIXES[option], option)
    for (option, path), (other, second) in itertools.combinations(written.items(), 2):
        if is_same_file(path, second):
            raise ValueError(f"`{option}` and `{other}` must be two files, got {path} for both; choose another name.")


def _paths(given: Path | Sequence[Path] | None) -> Sequence[Path]:
    if given is None:
        return ()
    return (given,) if isinstance(given, Path) else given


def _check_writable(path: Path) -> None:
    folder = Path(os.path.realpath(path)).parent
    if path.is_dir():
        raise ValueError(f"the file to write must be a file, got the folder {path}; add a name.")
    if not folder.is_dir():
        raise ValueError(f"the file to write must be in a folder that exists, got {path}; create {folder} first.")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"the file to write must be in a folder that can be written to, got {path}; choose another.")
