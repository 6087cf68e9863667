"""What all results share: plain data for machines, text for people."""

from __future__ import annotations

import abc
import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

from treeanova.data.columns import aligned, printable

TOP = 15  # rows that are printed
_MOST_NAMES = 10
_ROUNDING = 1e-12  # relative to the largest number of a table


class Result(abc.ABC):
    """An answer: `print` it, turn it into plain data with `to_dict`, or print n rows of it with ``f"{answer:n}"``."""

    @abc.abstractmethod
    def _content_of_dict(self) -> dict[str, Any]:
        """Return the content of `to_dict`, with arrays and NaN."""

    @abc.abstractmethod
    def _text_of_top(self, top: int) -> str:
        """Return the printed text, with at most `top` rows of each table."""

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain data that JSON can hold; None stands for numbers that are not defined.

        Returns
        -------
        dict
            Numbers, and tables as lists of rows.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.gap(X, "x0").to_dict()["table"][0]
        {'term': 'x0', 'gap': 0.5, 'error': None}
        """
        return plain(self._content_of_dict())

    def __str__(self) -> str:
        return self._text_of_top(TOP)

    def __repr__(self) -> str:
        return str(self)

    def __format__(self, spec: str) -> str:
        return self._text_of_top(int(spec)) if spec else str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def plain(value: Any) -> Any:
    """Convert to Python's own numbers, texts, lists and dicts; None for NaN and infinities."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def aligned_rows(rows: Sequence[Mapping[str, Any]], top: int) -> str:
    """Format the first `top` records, all with the same names, as text columns, and a line that counts the others."""
    text = aligned({name: [row[name] for row in rows[:top]] for name in (rows[0] if rows else {})})
    return f"{text}\n{len(rows) - top:,} more terms" if len(rows) > top else text


def contribution_lines(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], top: int, summed_column: str) -> str:
    """Format columns of the first `top` records with signs, and the sum of one column over the others."""
    label = next(iter(rows[0]))  # the first column, which names the term
    sizes = (abs(row[name]) for row in rows for name in columns if row[name] is not None)
    noise = _ROUNDING * max((size for size in sizes if not math.isnan(size)), default=0.0)
    shown = [{label: row[label]} | {name: _signed(row[name], name, noise) for name in columns} for row in rows[:top]]
    omitted = rows[top:]
    more = f"\n{len(omitted):,} more terms: {sum(row[summed_column] for row in omitted):+.4g}" if omitted else ""
    return aligned_rows(shown, top) + more


def _signed(value: float | None, column: str, noise: float) -> str:
    """Return a number of a column as text: with its sign unless it is an error, 0 up to `noise`, a dash for NaN."""
    if value is None or math.isnan(value):
        return "–"
    if column == "error":
        return f"{value:.3g}"
    return f"{value:+.4g}" if abs(value) > noise else "0"


def rows_of_output(rows: Sequence[Mapping[str, Any]], output: str) -> list[Mapping[str, Any]]:
    """Return the records of one output, given its name."""
    return [row for row in rows if row.get("output", output) == output]  # no such column if there is one output


def first_names_text(names: Sequence[str]) -> str:
    """List up to ten names, and say how many more there are; "none" without names."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return printable(f"{', '.join(names[:_MOST_NAMES])}{more}") or "none"
