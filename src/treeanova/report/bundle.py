"""The script that draws the charts, made once and kept in the user's cache folder."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import pathlib
import re
import sys

from treeanova.core.files import write_text

_SNIPPET = "window.vegaEmbed = vegaEmbed;"
_HEAD = "// SHA-256 of what follows: "


@functools.cache
def vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script; to make it takes a second, to read it again none."""
    try:
        import vl_convert  # noqa: PLC0415  only reports need it
    except ImportError as error:
        raise ImportError(
            "write_report() needs vl-convert-python, which is not installed; pip install 'treeanova[report]'."
        ) from error
    path = cache_folder() / f"vega-{importlib.metadata.version('vl-convert-python')}.js"
    kept = _kept(path)
    if kept is not None:
        return kept
    closed = re.sub(r"</(script)", r"<\\/\1", vl_convert.javascript_bundle(_SNIPPET), flags=re.IGNORECASE)
    script = f"(() => {{{closed}\n}})();"  # so that its many short names stay private
    with contextlib.suppress(OSError):  # a page can be made without a cache
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, f"{_HEAD}{_digest(script)}\n{script}")
    return script


def cache_folder() -> pathlib.Path:
    """The folder for what can be made again: TREEANOVA_CACHE, or a folder in the user's own cache."""
    home = pathlib.Path.home()
    folders = {"win32": home / "AppData" / "Local", "darwin": home / "Library" / "Caches"}
    users = os.environ.get("XDG_CACHE_HOME") or folders.get(sys.platform, home / ".cache")
    return pathlib.Path(os.environ.get("TREEANOVA_CACHE") or pathlib.Path(users) / "treeanova")


def _kept(path: pathlib.Path) -> str | None:
    """The script in a file; None where there is none, or where it is damaged."""
    try:
        head, _, script = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeError):
        return None
    return script if head == _HEAD + _digest(script) else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
