"""What is saved of a deep ensemble: its trees, and what makes its terms of high order pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from treeanova.core.arrays import Arrays, Key
from treeanova.model.binning import Binning
from treeanova.model.forest import Forest, assemble
from treeanova.model.grid import Grid
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.correction import Correction, no_correction
from treeanova.terms.deep import Deep, Layout, forest_sets
from treeanova.terms.expand import plan_of

_NODES = ("feature", "bound", "left", "right", "missing_left", "zero_missing", "category_start")
_LAYOUT = ("tensor_order", "row_order", "top_order", "most_bins")


def pack_deep(deep: Deep) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a deep ensemble; `unpack_deep` is the way back."""
    correction = deep.correction
    header = {
        "layout": {name: getattr(deep.layout, name) for name in _LAYOUT},
        "keys": [list(key) for key in deep.keys],
        "bins": [list(item) for item in correction.bins.items()],
        "refinement": deep.refinement,
        "is_exact": deep.is_exact,
    }
    arrays = _pack_forest(deep.forest) | _pack_mergings("merging", deep.mergings)
    arrays |= _pack_mergings("coarse", correction.mergings)
    arrays |= {f"table/{'-'.join(map(str, key))}": table for key, table in correction.tables.items()}
    if deep.form is not None:
        arrays |= {f"masses/{j}": masses for j, masses in enumerate(deep.form.masses)}
    return header, arrays


def _pack_forest(forest: Forest) -> Arrays:
    nodes = {name: getattr(forest, name) for name in _NODES}
    is_leaf = forest.feature < 0
    nodes["left"], nodes["right"] = (np.where(is_leaf, -1, nodes[side]) for side in ("left", "right"))
    values = np.zeros((len(is_leaf), forest.n_outputs))
    labels = np.zeros(len(is_leaf), dtype=np.int64)
    values[is_leaf], labels[is_leaf] = forest.values[forest.leaf[is_leaf]], forest.leaf_label[forest.leaf[is_leaf]]
    others = {"intercept": forest.intercept, "roots": forest.roots, "category_left": forest.category_left}
    return {
        f"forest/{name}": array for name, array in {**nodes, **others, "values": values, "leaf_label": labels}.items()
    }


def _pack_mergings(name: str, mergings: tuple[Binning, ...]) -> Arrays:
    bins = {f"{name}/{j}/bins": merging.bins for j, merging in enumerate(mergings)}
    return bins | {f"{name}/{j}/shares": merging.shares for j, merging in enumerate(mergings)}


def unpack_deep(header: Mapping[str, Any], arrays: Arrays, grid: Grid) -> Deep:
    """A deep ensemble from header and arrays, with tensors on a grid."""
    own = {name.removeprefix("forest/"): array for name, array in arrays.items() if name.startswith("forest/")}
    forest = assemble(grid.schema, own.pop("intercept"), **own)
    sets = forest_sets(forest)
    mergings = _unpack_mergings("merging", arrays, sets.grid.sizes)
    layout = Layout(**header["layout"], plan=plan_of(set(), sets.grid, forest.n_outputs))
    correction = _unpack_correction(header, arrays, sets.grid.sizes)
    form = None
    if "masses/0" in arrays:
        masses = tuple(arrays[f"masses/{j}"] for j in range(len(mergings)))
        if [len(own) for own in masses] != list(sets.grid.sizes):
            raise ValueError("masses must fit the bins of the forest")
        form = ClosedForm(sets, masses, mergings)
    keys = tuple(tuple(map(int, key)) for key in header["keys"])
    refinement, is_exact = header["refinement"], bool(header["is_exact"])
    return Deep(forest, sets, layout, mergings, grid, keys, form, correction, refinement, is_exact)


def _unpack_mergings(name: str, arrays: Arrays, sizes: tuple[int, ...]) -> tuple[Binning, ...]:
    mergings = []
    for j, size in enumerate(sizes):
        bins, shares = arrays[f"{name}/{j}/bins"].astype(np.int64), arrays[f"{name}/{j}/shares"]
        if bins.shape != (size,) or shares.shape != (size,) or bins.min(initial=0) < 0:
            raise ValueError("mergings must fit the bins of the forest")
        mergings.append(Binning(bins, shares, int(bins.max(initial=-1)) + 1))
    return tuple(mergings)


def _unpack_correction(header: Mapping[str, Any], arrays: Arrays, sizes: tuple[int, ...]) -> Correction:
    most = {int(order): int(bins) for order, bins in header["bins"]}
    if not most:
        return no_correction()
    mergings = _unpack_mergings("coarse", arrays, sizes)
    tables: dict[Key, Any] = {}
    for name, table in arrays.items():
        if name.startswith("table/"):
            key = tuple(int(part) for part in name.removeprefix("table/").split("-"))
            if table.shape[:-1] != tuple(mergings[j].coarser_size(most[len(key)]) for j in key):
                raise ValueError("tables must fit the coarse bins")
            tables[key] = table
    return Correction(mergings, most, tables, {}, 0.0)
