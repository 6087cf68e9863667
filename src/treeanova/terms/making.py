"""Sources from what readers give: a forest or an additive model."""

from __future__ import annotations

from treeanova.density.statistics import Statistics
from treeanova.model.effects import without_rounding
from treeanova.model.forest import Forest
from treeanova.terms.additive import AdditiveModel
from treeanova.terms.expand import expand
from treeanova.terms.layout import TermLayout
from treeanova.terms.leafsets import LeafSets
from treeanova.terms.source import Source
from treeanova.terms.termset import Tensors
from treeanova.terms.tree_model import TreeModel
from treeanova.terms.trees import lay_out


def source_of_forest(forest: Forest, sets: LeafSets, layout: TermLayout, statistics: Statistics | None) -> Source:
    """A sum of tensors where these hold the whole forest, else trees with tensors of low orders only."""
    if layout.is_dense:
        return AdditiveModel(Tensors(without_rounding(expand(sets), forest.rounding)))
    return TreeModel(lay_out(forest, sets, layout, statistics))
