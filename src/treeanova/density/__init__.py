"""Densities: the weights of cells under which effects are pure, estimated from statistics of rows."""

from __future__ import annotations

from treeanova.density.base import Density
from treeanova.density.kinds import Empirical, Independent, Laplace, Reference, Shrinkage, Uniform, density_of
from treeanova.density.smooth import Auto, Kernel
from treeanova.density.smooth.choice import Choice
from treeanova.density.statistics import Statistics
from treeanova.density.table import Table

__all__ = [
    "Auto",
    "Choice",
    "Density",
    "Empirical",
    "Independent",
    "Kernel",
    "Laplace",
    "Reference",
    "Shrinkage",
    "Statistics",
    "Table",
    "Uniform",
    "density_of",
]
