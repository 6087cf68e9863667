"""Plots of a decomposition (matplotlib): axes in, axes out; no window opens. They draw what ``fx.table`` returns."""

from __future__ import annotations

try:
    import matplotlib as mpl  # noqa: F401  the whole package needs it
except ImportError as _error:
    raise ImportError("treeanova.plot needs matplotlib, which is not installed; pip install matplotlib.") from _error

from treeanova.plot.bars import importance, validation, waterfall
from treeanova.plot.differences import change, compare, gap, monotonicity
from treeanova.plot.effects import effect, grid
from treeanova.plot.pairs import pair
from treeanova.plot.simplification import simplification

__all__ = [
    "change",
    "compare",
    "effect",
    "gap",
    "grid",
    "importance",
    "monotonicity",
    "pair",
    "simplification",
    "validation",
    "waterfall",
]
