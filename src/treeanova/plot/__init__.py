"""Plots of a decomposition (matplotlib): axes in, axes out, and nothing is shown until you say so.

`effect` draws a main effect, `pair` an interaction, `importance` what matters, `compare` one term of several
decompositions, `waterfall` one row, and `grid` the strongest terms on a page. They draw what ``fx.table`` gives.
"""

from __future__ import annotations

try:
    import matplotlib as mpl  # noqa: F401  the whole package needs it
except ImportError as error:
    raise ImportError(
        "treeanova.plot needs matplotlib, which is not installed; pip install 'treeanova[plot]'."
    ) from error

from treeanova.plot.bars import importance, waterfall
from treeanova.plot.mains import effect
from treeanova.plot.pages import compare, grid
from treeanova.plot.pairs import pair

__all__ = ["compare", "effect", "grid", "importance", "pair", "waterfall"]
