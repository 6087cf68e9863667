"""Files that are written completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import re
import secrets
import stat
import time
import unicodedata
from collections.abc import Iterator, Sequence
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_TEMPORARY = re.compile(r"\.treeanova-[0-9a-f]{16}")
_SECONDS_UNTIL_STALE = 24 * 60 * 60
_OF_WRITING = {errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EDQUOT}  # a write that fails does not name its file
# Suffixes of the files that are written.
PAGE = (".html", ".htm")
ARCHIVE = (".tav",)
PARQUET = (".parquet", ".pq")
CSV = (".csv", ".txt")


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file to write that replaces `path` at the end; a failure or a kill leaves the old file."""
    # Until then it has a temporary name in the same folder. A symbolic link stays, and its target is replaced. The new
    # file keeps the mode of the old one, and its owner if that is allowed. Pipes and other special files are written to
    # directly. Errors name `path`. Temporary files of killed processes are removed after a day.
    target = pathlib.Path(os.path.realpath(path))  # through all symbolic links, even to a file that does not exist
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    old: os.stat_result | None = None
    with contextlib.suppress(FileNotFoundError):
        old = target.stat()
    if old is not None and not stat.S_ISREG(old.st_mode) and not stat.S_ISDIR(old.st_mode):
        try:
            with target.open("wb") as file:
                yield file
        except OSError as error:
            if _is_about(error, target):
                raise OSError(error.errno, error.strerror, os.fspath(path)) from error
            raise
        return
    _remove_stale(target.parent)
    temporary = target.with_name(f".treeanova-{secrets.token_hex(8)}")
    try:
        # A file that replaces another is private from the start, since that may be private.
        opener = None if old is None else lambda name, flags: os.open(name, flags, 0o600)
        with open(temporary, "xb", opener=opener) as file:
            _lock(file.fileno())
            yield file
            file.flush()
            os.fsync(file.fileno())
        if old is not None:  # copy owner and mode, as far as the file system and the user's rights allow
            with contextlib.suppress(PermissionError, AttributeError):  # Windows has no owners of this kind
                os.chown(temporary, old.st_uid, old.st_gid)
            with contextlib.suppress(PermissionError):
                temporary.chmod(stat.S_IMODE(old.st_mode))
        temporary.replace(target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and _is_about(error, temporary):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise


def _is_about(error: OSError, temporary: pathlib.Path) -> bool:
    """Whether an error is of writing the temporary file: it names that, or is a failed write, which names none."""
    return error.filename == os.fspath(temporary) or (error.filename is None and error.errno in _OF_WRITING)


def _remove_stale(folder: pathlib.Path) -> None:
    """Remove temporary files of killed processes from a folder: those that are unlocked and a day old."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not _TEMPORARY.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
                continue
            path = pathlib.Path(entry.path)
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime >= _SECONDS_UNTIL_STALE:
                    with path.open("rb") as file:
                        if _lock(file.fileno()):
                            path.unlink()


def _lock(descriptor: int) -> bool:
    """Lock an open file or folder until it is closed; False if another process has, True without such locks."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:  # some network file systems have no locks, and raise other errors
        return not isinstance(error, BlockingIOError)
    return True


@contextlib.contextmanager
def only_writer(folder: pathlib.Path, path: str | os.PathLike[str]) -> Iterator[None]:
    """Create a folder and lock it until the process ends; ValueError, which names `path`, if another writes to it."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(
            f"`path` must be next to a folder {folder.name!r} for its parts, got a file of that name; rename the file, "
            "or choose another name."
        )
    folder.mkdir(exist_ok=True)
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        is_at_path = False  # another process may remove the folder before it is locked
        if _lock(descriptor):
            with contextlib.suppress(FileNotFoundError):
                is_at_path = os.path.samestat(os.fstat(descriptor), folder.stat())
        if not is_at_path:
            raise ValueError(
                f"`path` must be written by one process at a time, got {os.fspath(path)!r}, which another process "
                "writes now; wait for it, or choose another name."
            )
        yield
    finally:
        os.close(descriptor)


def check_suffix(path: str | os.PathLike[str], suffixes: Sequence[str], argument: str = "path") -> None:
    """Raise ValueError if the suffix belongs to another format; a name without a suffix passes."""
    target = pathlib.Path(path)
    if target.suffix and target.suffix.lower() not in suffixes:
        raise ValueError(
            f"`{argument}` must end in {' or '.join(suffixes)}, the format that is written, got {os.fspath(path)!r}; "
            f"name it {target.with_suffix(suffixes[0]).name!r}."
        )


def check_folder(path: str | os.PathLike[str], example: str) -> None:
    """Raise an error if the path is a folder, or in a folder that does not exist."""
    target = pathlib.Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"`path` must be a file, got the folder {str(target)!r}; add a name like {example}.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"`path` must be in a folder that exists, got {str(target)!r}; make the folder first.")


def write_text(path: str | os.PathLike[str], text: str) -> None:  # in UTF-8, completely or not at all
    with replacing(path) as file:
        file.write(text.encode())


def is_same_file(first: pathlib.Path, second: pathlib.Path) -> bool:
    """Whether two paths lead to one file, through links or other spellings; devices and pipes never do."""
    if first.exists() or second.exists():
        return first.is_file() and second.is_file() and first.samefile(second)
    # Some file systems cannot hold two files whose names differ only in case.
    names = {unicodedata.normalize("NFC", os.path.realpath(path)).casefold() for path in (first, second)}
    return len(names) == 1
