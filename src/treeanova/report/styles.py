"""Files of styles and scripts, and colours of the shared look, as parts of a page."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources

from treeanova.views import look


def asset(name: str) -> str:
    """The text of a file of styles or scripts."""
    return (importlib.resources.files("treeanova.report") / "assets" / name).read_text(encoding="utf-8")


def colours() -> str:
    """Colours of the shared look as variables of the style sheet."""
    named = {"main": look.MAIN, "raw": look.RAW, "negative": look.NEGATIVE, "positive": look.POSITIVE}
    named |= {"no-data": look.NO_DATA, "data": look.DATA}
    named |= {f"series-{i}": colour for i, colour in enumerate(look.SERIES)}
    named |= {f"diverging-{i}": colour for i, colour in enumerate(look.DIVERGING)}
    return f":root{{{''.join(f'--{name}:{colour};' for name, colour in named.items())}}}\n"


def digest(text: str) -> str:
    """The hash by which a content-security policy allows a style or a script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
