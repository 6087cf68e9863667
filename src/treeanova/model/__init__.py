"""A trained model as an exact function on bins, and the names that a reader of models needs.

Forests, grids and additive effects know no density. `treeanova.register_reader` makes a reader known.
"""

from __future__ import annotations

from treeanova.anova.certificate import HigherCertificate, TermCertificate
from treeanova.anova.purify import choose_method
from treeanova.anova.solvers.base import MethodChoice
from treeanova.data.features import Feature, Schema
from treeanova.model.axes import Axis, CategoryAxis, IntervalAxis
from treeanova.model.effects import Effects
from treeanova.model.forest import Forest
from treeanova.model.grid import Grid, grid_of
from treeanova.model.rows import Rows

__all__ = [
    "Axis",
    "CategoryAxis",
    "Effects",
    "Feature",
    "Forest",
    "Grid",
    "HigherCertificate",
    "IntervalAxis",
    "MethodChoice",
    "Rows",
    "Schema",
    "TermCertificate",
    "choose_method",
    "grid_of",
]
