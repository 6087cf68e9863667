"""Files that are written completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import secrets
import stat
from collections.abc import Iterator, Sequence
from typing import BinaryIO

# Suffixes of the files that are written.
PAGE = (".html", ".htm")
ARCHIVE = (".tav",)
PARQUET = (".parquet", ".pq")
CSV = (".csv", ".txt")


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A context with a file to write to, which replaces `path` at the end; a failure or a kill leaves the old file.

    Until then the file has a temporary name in the same folder. A symbolic link stays, and the file that it points to
    is replaced. The new file has the mode of the old one, and its owner where that is allowed. Pipes and other special
    files are written to directly.
    """
    target = _link_target(path)
    old = _status(target)
    if old is not None and not stat.S_ISREG(old.st_mode) and not stat.S_ISDIR(old.st_mode):
        with target.open("wb") as file:
            yield file
        return
    temporary = target.with_name(f".treeanova-{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb", opener=None if old is None else _open_private) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if old is not None:
            _make_like(temporary, old)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _link_target(path: str | os.PathLike[str]) -> pathlib.Path:
    """The path itself, or the end of its chain of symbolic links, whether a file exists there or not."""
    target = pathlib.Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    return target


def _status(path: pathlib.Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _open_private(path: str, flags: int) -> int:
    """Open a file that only its owner may read, so that the new version of a private file is private from the start."""
    return os.open(path, flags, 0o600)


def _make_like(path: pathlib.Path, old: os.stat_result) -> None:
    """Give a file the owner and the mode of another, as far as the file system and the user's rights allow."""
    with contextlib.suppress(PermissionError, AttributeError):  # Windows has no owners of this kind
        os.chown(path, old.st_uid, old.st_gid)
    with contextlib.suppress(PermissionError):
        path.chmod(stat.S_IMODE(old.st_mode))


def check_suffix(path: str | os.PathLike[str], suffixes: Sequence[str], argument: str = "path") -> None:
    """Raise ValueError for a name whose suffix promises another format; a name without a suffix promises none."""
    target = pathlib.Path(path)
    if target.suffix and target.suffix.lower() not in suffixes:
        raise ValueError(
            f"`{argument}` must end in {' or '.join(suffixes)}, the format that is written, got {os.fspath(path)!r}; "
            f"name it {target.with_suffix(suffixes[0]).name!r}."
        )


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text in UTF-8, completely or not at all."""
    with replacing(path) as file:
        file.write(text.encode())
