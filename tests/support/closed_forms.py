"""Closed forms of random forests for random masses, with rows on which they are evaluated."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tests.support.forests import random_forest, rows_on_bounds, scale_of
from treeanova.core.arrays import BinIndices
from treeanova.model.grid import unmerged
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.layout import leaves_of


class FormAtRows(NamedTuple):
    """A closed form, bins of rows, and the scale to which tolerances are relative."""

    form: ClosedForm
    codes: BinIndices
    scale: float


def random_closed_form(seed: int, n_rows: int = 200, **options: Any) -> FormAtRows:
    """The closed form of a random forest (`options` are those of `random_forest`) and rows on its bounds."""
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, **options)
    sets = leaves_of(forest)
    masses = tuple(rng.dirichlet(np.ones(size)) for size in sets.grid.sizes)
    form = ClosedForm(sets, masses, tuple(unmerged(size) for size in sets.grid.sizes))
    return FormAtRows(form, sets.grid.index(rows_on_bounds(forest, rng, n_rows)), scale_of(forest))
