"""A trained model as an exact function on bins, independent of any density, and the names for writing readers."""

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
from treeanova.model.step_form import StepForm

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
    "StepForm",
    "TermCertificate",
    "choose_method",
    "grid_of",
]
