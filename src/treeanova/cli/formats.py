"""Rows and values as text: aligned columns for people, CSV and JSON for machines."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
_LONGEST_CELL = 60
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def percent(share: float) -> str:
    """A share with one digit after the point; a dash for NaN."""
    if math.isnan(share):
        return "–"
    return f"{round(100 * share, 1) + 0.0:.1f} %"  # never -0.0


def aligned(rows: Sequence[Row]) -> str:
    """Rows as columns of text, numbers to the right."""
    if not rows:
        return "(no rows)"
    columns = [[_cell(name), *(_cell(row[name]) for row in rows)] for name in rows[0]]
    padded = []
    for column in columns:
        width = max(map(len, column))
        to_right = all(map(_is_number, column[1:]))
        padded.append([cell.rjust(width) if to_right else cell.ljust(width) for cell in column])
    return "\n".join("  ".join(line).rstrip() for line in zip(*padded, strict=True))


def _cell(value: Any) -> str:
    """A value as text, long names cut in the middle."""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = printable(str(value))
    return text if len(text) <= _LONGEST_CELL else f"{text[:34]}…{text[-25:]}"


def printable(text: str) -> str:
    """Text that cannot move the cursor."""
    return "".join("�" if unicodedata.category(character)[0] == "C" else character for character in text)


def printable_lines(text: str) -> str:
    """Lines of text that cannot move the cursor."""
    return "\n".join(map(printable, text.splitlines()))


def _is_number(text: str) -> bool:
    try:
        float(text.removesuffix(" %"))
    except ValueError:
        return text in {"", "–"}
    return True


def as_csv(rows: Sequence[Row]) -> str:
    """Rows as CSV; NaN and None are empty, and no text is a formula to a spreadsheet."""
    lines = [list(rows[0]), *(row.values() for row in rows)] if rows else [[]]
    return "".join(f"{','.join(map(_csv_cell, line))}\n" for line in lines)


def _csv_cell(value: Any) -> str:
    """A cell of CSV: text that a spreadsheet would run as a formula gets a single quote in front."""
    if value is None or value != value:  # noqa: PLR0124
        return ""
    text = str(value)
    if isinstance(value, str) and text.startswith(_FORMULA_STARTS) and not _is_number(text):
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
