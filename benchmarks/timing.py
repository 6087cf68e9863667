"""Timing and tables, shared by all benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

Result = TypeVar("Result")


def best_of(function: Callable[[], Result], seconds: float = 1.0, most: int = 7) -> tuple[float, Result]:
    """Shortest time of repeated calls within a time limit, at least one, and the last result."""
    times: list[float] = []
    while not times or (sum(times) < seconds and len(times) < most):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return min(times), result


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A Markdown table."""
    print(table_text(header, rows), end="", flush=True)


def table_text(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table as text."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [header, ["-" * width for width in widths], *rows]
    return "".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |\n" for row in lines
    )
