"""Rows and values as text: aligned columns for people, CSV and JSON for machines."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from treeanova.data.frames import aligned as aligned_columns
from treeanova.data.frames import is_number, printable

Row = Mapping[str, Any]
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def percent(share: float) -> str:
    """A share with one digit after the point; a dash for NaN."""
    if math.isnan(share):
        return "–"
    return f"{round(100 * share, 1) + 0.0:.1f} %"  # never -0.0


def aligned(rows: Sequence[Row]) -> str:
    """Rows as columns of text, numbers to the right."""
    return aligned_columns({name: [row[name] for row in rows] for name in (rows[0] if rows else {})})


def printable_lines(text: str) -> str:
    """Lines of text that cannot move the cursor."""
    return "\n".join(map(printable, text.splitlines()))


def as_csv(rows: Sequence[Row]) -> str:
    """Rows as CSV; NaN and None are empty, and no text is a formula to a spreadsheet."""
    lines = [list(rows[0]), *(row.values() for row in rows)] if rows else [[]]
    return "".join(f"{','.join(map(_csv_cell, line))}\n" for line in lines)


def _csv_cell(value: Any) -> str:
    """A cell of CSV: text that a spreadsheet would run as a formula gets a single quote in front."""
    if value is None or value != value:  # noqa: PLR0124
        return ""
    text = str(value)
    if isinstance(value, str) and text.startswith(_FORMULA_STARTS) and not is_number(text):
        text = f"'{text}"
    if not any(character in text for character in '",\r\n'):  # csv.writer leaves a carriage return without quotes
        return text
    return '"' + text.replace('"', '""') + '"'


def as_json(value: Any) -> str:
    """A value as JSON, None for NaN and infinities."""
    return json.dumps(_plain(value), indent=2, allow_nan=False, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
