"""Plots of a decomposition (matplotlib): axes in, axes out, and no window is opened.

`effect` draws a main effect, `pair` an interaction, `importance` the variance that terms contribute, `compare` one term
of several decompositions, `waterfall` one row, `validation` the loss without each term, and `grid` the strongest terms
on a page. They draw what ``fx.table`` returns. `change` draws what moved the mean score, `gap` what makes the mean
scores of two groups differ, and `monotonicity` the changes from each bin of a feature to the next.
"""

from __future__ import annotations

try:
    import matplotlib as mpl  # noqa: F401  the whole package needs it
except ImportError as error:
    raise ImportError(
        "treeanova.plot needs matplotlib, which is not installed; pip install 'treeanova[plot]'."
    ) from error

from treeanova.plot.bars import importance, validation, waterfall
from treeanova.plot.differences import change, compare, gap, monotonicity
from treeanova.plot.effects import effect
from treeanova.plot.pages import grid
from treeanova.plot.pairs import pair

__all__ = [
    "change",
    "compare",
    "effect",
    "gap",
    "grid",
    "importance",
    "monotonicity",
    "pair",
    "validation",
    "waterfall",
]
