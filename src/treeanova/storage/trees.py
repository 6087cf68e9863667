"""Trees in a file: the forest, and the correction that makes its terms of high order pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from treeanova.core.arrays import Arrays, Key
from treeanova.model.forest import Forest, assemble
from treeanova.model.grid import Binning, Grid
from treeanova.storage.compact import CoarseCells, n_cells_of_faces, pack_tables, unpack_tables
from treeanova.storage.schema import finite, integers, key_of, masses, whole
from treeanova.terms.at_rows import LeafTerms, PureLeafTerms, RawLeafTerms
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.correction import Correction, Leftover, no_correction, nothing_left
from treeanova.terms.layout import FEWEST_MERGED, TermLayout, plan_of
from treeanova.terms.trees import Trees, leaves_of

_NODES = ("feature", "bound", "left", "right", "missing_left", "zero_missing", "category_start")
_FLOATS = ("intercept", "bound", "values")
_BOOLEANS = ("missing_left", "zero_missing", "category_left")
_MEAN = "left_mean"
_ORDERS = ("tensor_order", "row_order", "top_order")


def pack_leaf_terms(terms: LeafTerms) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of terms of high order; `unpack_leaf_terms` reverses this."""
    trees = terms.trees
    layout: dict[str, Any] = {name: getattr(trees.layout, name) for name in _ORDERS}
    layout |= {"most_bins": trees.layout.max_bins, "has_many_terms": trees.layout.has_many_terms}
    layout["asked"] = [list(key) for key in trees.layout.asked]
    header: dict[str, Any] = {"layout": layout, "keys": [list(key) for key in terms.keys], "bins": []}
    arrays = _pack_forest(trees.forest) | _pack_binnings("merging", trees.binnings)
    if isinstance(terms, PureLeafTerms):
        correction = terms.correction
        header["bins"] = [list(item) for item in correction.bins.items()]
        header["screened_orders"] = list(terms.screened_orders)
        arrays |= _pack_binnings("coarse", correction.binnings)
        cells = CoarseCells(correction.binnings, correction.bins)
        packed, whole = pack_tables(cells, correction.tables)
        arrays |= {f"table/{'-'.join(map(str, key))}": table for key, table in whole.items()}
        arrays |= {f"faces/{'-'.join(map(str, key))}": faces for key, faces in packed.items()}
        header["derived"] = 8 * n_cells_of_faces(cells, packed, trees.forest.n_outputs)
        arrays |= {f"masses/{j}": masses for j, masses in enumerate(terms.form.masses)}
        arrays |= _pack_leftover(terms.leftover)
    return header, arrays


def _pack_leftover(leftover: Leftover) -> Arrays:
    tables = {f"left/{'-'.join(map(str, key))}": table for key, table in leftover.tables.items() if key}
    mean = {_MEAN: leftover.tables[()]} if () in leftover.tables else {}
    return tables | mean | (_pack_binnings("cells", leftover.binnings) if tables else {})


def _unpack_leftover(arrays: Arrays, sizes: tuple[int, ...], n_outputs: int) -> Leftover:
    tables = _by_key(arrays, "left/")
    leftover = Leftover(_unpack_binnings("cells", arrays, sizes), tables) if tables else nothing_left()
    for key, table in tables.items():
        fits = [leftover.binnings[j].coarser_size(n) == n for j, n in zip(key, table.shape, strict=False)]
        if table.ndim != len(key) + 1 or not all(fits) or table.shape[-1] != n_outputs:
            raise ValueError("what is left of low orders must fit its bins")
    if _MEAN not in arrays:
        return leftover
    return leftover.with_mean(finite(arrays[_MEAN], (n_outputs,)))


def _pack_forest(forest: Forest) -> Arrays:
    nodes = {name: getattr(forest, name) for name in _NODES}
    is_leaf = forest.feature < 0
    nodes["left"], nodes["right"] = (np.where(is_leaf, -1, nodes[side]) for side in ("left", "right"))
    values = np.zeros((len(is_leaf), forest.n_outputs))
    labels = np.zeros(len(is_leaf), dtype=np.int64)
    values[is_leaf], labels[is_leaf] = forest.values[forest.leaf[is_leaf]], forest.leaf_label[forest.leaf[is_leaf]]
    others = {"intercept": forest.intercept, "roots": forest.roots, "category_left": forest.category_left}
    packed = {**nodes, **others, "values": values, "leaf_label": labels}
    return {f"forest/{name}": _narrow(array) for name, array in packed.items()}


def _narrow(array: Any) -> Any:
    """Integers in as few bytes as hold them: zeros take time to pack and to unpack too."""
    if array.dtype.kind != "i" or not array.size:
        return array
    return array.astype(np.result_type(np.min_scalar_type(array.min()), np.min_scalar_type(array.max())))


def _pack_binnings(name: str, binnings: tuple[Binning, ...]) -> Arrays:
    bins = {f"{name}/{j}/bins": binning.bins for j, binning in enumerate(binnings)}
    return bins | {f"{name}/{j}/shares": binning.shares for j, binning in enumerate(binnings)}


def unpack_leaf_terms(header: Mapping[str, Any], arrays: Arrays, grid: Grid) -> LeafTerms:
    """Terms of high order from header and arrays, with tensors on a grid."""
    prefix = "forest/"
    parts = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    _check_nodes(parts)
    forest = assemble(grid.schema, parts.pop("intercept"), **parts)
    _check_categories(forest)
    sets = leaves_of(forest)
    sizes = sets.grid.sizes
    n_features = len(sizes)
    orders = _restore_orders(header["layout"], n_features)
    plan = plan_of(set(), sets.grid, forest.n_outputs)
    most_bins = header["layout"]["most_bins"]
    is_screened = bool(header.get("screened_orders"))
    layout = TermLayout(
        **orders,
        max_bins=None if most_bins is None else whole(most_bins, 1, max(*sizes, FEWEST_MERGED)),
        plan=plan,
        lists_all=not is_screened,
        asked=tuple(key_of(key, n_features) for key in header["layout"].get("asked", ())),
        has_many_terms=bool(header["layout"].get("has_many_terms", is_screened)),
    )
    trees = Trees(forest, sets, layout, _unpack_binnings("merging", arrays, sizes), grid)
    keys = tuple(key_of(key, n_features) for key in header["keys"])
    if "masses/0" not in arrays:
        return RawLeafTerms(trees, keys)
    form = ClosedForm(
        sets, tuple(masses(arrays[f"masses/{j}"], (size,)) for j, size in enumerate(sizes)), trees.binnings
    )
    screened = tuple(whole(order, 1, n_features) for order in header.get("screened_orders", ()))
    correction = _unpack_correction(header, arrays, sizes, forest.n_outputs)
    leftover = _unpack_leftover(arrays, sizes, forest.n_outputs)
    return PureLeafTerms(trees, keys, form, correction, screened, leftover)


def _check_nodes(parts: Arrays) -> None:
    """Raise ValueError for nodes of other types than those that are saved."""
    for name, array in parts.items():
        kinds = "f" if name in _FLOATS else "b" if name in _BOOLEANS else "iu"
        if array.dtype.kind not in kinds or array.ndim != (2 if name == "values" else 1):
            raise ValueError(f"nodes must have a {name} of another type, got {array.dtype}")


def _check_categories(forest: Forest) -> None:
    """Raise ValueError for splits by categories that the file does not list."""
    n_codes = np.array([feature.n_categories + 1 for feature in forest.schema.features], dtype=np.int64)
    by_category = forest.category_start >= 0
    ends = forest.category_start[by_category] + n_codes[forest.feature[by_category]]
    if ends.max(initial=0) > len(forest.category_left):
        raise ValueError("splits by categories must list them")


def _restore_orders(layout: Mapping[str, Any], top: int) -> dict[str, int]:
    """Orders of a layout; the leaves, which tell the highest order of the forest, would take long to find."""
    orders = {name: whole(layout[name], 0, top) for name in _ORDERS}
    if max(orders["tensor_order"], orders["row_order"]) > orders["top_order"]:
        raise ValueError("no order must be above that of the forest")
    return orders


def _unpack_binnings(name: str, arrays: Arrays, sizes: tuple[int, ...]) -> tuple[Binning, ...]:
    binnings = []
    for j, size in enumerate(sizes):
        bins, shares = integers(arrays[f"{name}/{j}/bins"]), finite(arrays[f"{name}/{j}/shares"], (size,))
        if bins.shape != (size,) or bins.min(initial=0) < 0 or bins.max(initial=-1) >= size or (shares < 0).any():
            raise ValueError("merged bins must fit the bins of the forest")
        binnings.append(Binning(bins, shares, int(bins.max(initial=-1)) + 1))
    return tuple(binnings)


def _unpack_correction(header: Mapping[str, Any], arrays: Arrays, sizes: tuple[int, ...], n_outputs: int) -> Correction:
    limits = {whole(order, 1): whole(bins, 1) for order, bins in header["bins"]}
    if not limits:
        return no_correction()
    cells = CoarseCells(_unpack_binnings("coarse", arrays, sizes), limits)
    tables, packed = _by_key(arrays, "table/"), _by_key(arrays, "faces/")
    if any(table.shape != (*cells.shape(key), n_outputs) for key, table in tables.items()):
        raise ValueError("tables must fit the coarse bins")
    if 8 * n_cells_of_faces(cells, packed, n_outputs) != header.get("derived", 0):
        raise ValueError("tables that follow from faces must be as large as the header says")
    return Correction(cells.binnings, limits, unpack_tables(cells, packed, tables, n_outputs), {}, 0.0)


def _by_key(arrays: Arrays, prefix: str) -> dict[Key, Any]:
    """Arrays of a folder by the features that their names list."""
    names = [name for name in arrays if name.startswith(prefix)]
    return {tuple(map(int, name.removeprefix(prefix).split("-"))): finite(arrays[name]) for name in names}
