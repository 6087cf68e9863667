"""Files written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import pathlib
import secrets
from collections.abc import Iterator
from typing import BinaryIO


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to, under another name until all is written: a failure or a kill leaves what was there."""
    target = pathlib.Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text, in UTF-8, whole or not at all."""
    with replacing(path) as file:
        file.write(text.encode())
