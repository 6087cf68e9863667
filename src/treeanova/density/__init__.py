"""Densities: the weights of cells under which effects are pure."""

from __future__ import annotations

from treeanova.density.kinds import (
    Auto,
    Choice,
    Density,
    Empirical,
    Independent,
    Kernel,
    Laplace,
    Shrinkage,
    Table,
    Uniform,
    density_of,
)
from treeanova.density.statistics import Statistics

__all__ = [
    "Auto",
    "Choice",
    "Density",
    "Empirical",
    "Independent",
    "Kernel",
    "Laplace",
    "Shrinkage",
    "Statistics",
    "Table",
    "Uniform",
    "density_of",
]
