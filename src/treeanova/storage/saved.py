"""What a file holds of a decomposition: plain data and named arrays, without the model.

Large tables have compact forms: pairs minus their closed form, weights as ratios, corrections as faces.

Purification under dependent features adds to the closed form of a pair a table over coarse cells (the correction of
high orders) and a leftover in high orders, which is saved with these; it subtracts one number per bin of each feature.
So the table minus closed form and leftover is M(A(i), B(j)) + a(i) + b(j) with coarse bins A and B; a and b are zero at
the first bin of each coarse one.

The weights of a pair are w(i, j) = m(i) n(j) r(i, j), where the marginals m and n are the weights of its features. The
ratio r is 1 for independent features, and smooth estimates have the same r for all bins of a group.

The correction moves faces of a term to the terms below, so its table is what it receives from above minus functions of
all its features but one. Such a sum is determined by its cells in which some feature has its first bin: n^k - (n - 1)^k
of n^k cells. They are saved as faces, one per feature, slices along the first bins.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import narwhals.stable.v1 as nw
import numpy as np

from treeanova.anova.cascade import keys_below
from treeanova.anova.certificate import Certificate
from treeanova.anova.solvers import check_method
from treeanova.core.arrays import Arrays, Bools, Floats, Ints, Key, Projections
from treeanova.core.threads import thread_map
from treeanova.data.dates import UNITS
from treeanova.data.features import Schema
from treeanova.density.base import Density
from treeanova.density.counting import Request
from treeanova.model.axes import Axis, CategoryAxis
from treeanova.model.effects import Effects
from treeanova.model.forest import Forest, assemble
from treeanova.model.grid import Binning, Grid, binning_by
from treeanova.storage import codec
from treeanova.storage.statistics import (
    describe_density,
    pack_statistics,
    restore_density,
    table_keys,
    unpack_statistics,
)
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.correction import Correction, Leftover
from treeanova.terms.layout import FEWEST_MERGED, TermLayout, Trees, leaves_of, plan_of
from treeanova.terms.moments import Moments
from treeanova.terms.source import Settings, Source
from treeanova.terms.terms import LeafTerms, PureLeafTerms, RawLeafTerms, Scope, TermSet
from treeanova.terms.tree_model import SOURCES

_ROWS, _PAST = "rows/", "past/"
Tensors = Mapping[Key, Floats]
# Thresholds, bounds of leaves and of splits by category (NaN), moments that are not known, ends of values.
_MAY_BE_INFINITE = ("axes/", "trees/nodes/bound", "moments/", _ROWS)
CoarseCells = tuple[Sequence[Binning], Mapping[int, int]]
"""The coarse bins of a correction: binnings of features, and the maximal bins of terms of each order."""
_MAX_SHARE = 0.75  # of the table's size, for ratios to be worth their while
_TOLERANCE_OF_WEIGHT = 1e-13  # of each weight
_TOLERANCE_OF_PRODUCT = 1e-15  # of the product of the marginals: exact marginals round what is far below it
_THREADS = 2  # at most; more take more memory
_PAIRS_PER_TASK = 64
_INDEPENDENT = np.array([1.0, 1.0, 0.0, 0.0, 1.0])  # one group of each feature, from the first bin on, of ratio 1
_LEAST_CELLS = 1 << 17  # fewer are kept as they are, to the last bit
_LEAST_CELLS_OF_TABLE = 1 << 13  # the closed form of a smaller table takes longer than reading it
_LEAST_PER_NODE = 20  # cells of tables per node of the trees; otherwise the closed form takes more than the tables
_TOLERANCE = 1e-14  # of the largest entry of the table


class Saved(NamedTuple):
    """The parts of a decomposition that a file holds."""

    source: Source
    terms: TermSet
    density: Density
    certificate: Certificate
    scope: Scope
    settings: Settings
    moments: Moments | None
    past: tuple[Saved, ...] = ()  # the decompositions before each of the last edits, oldest first


@dataclasses.dataclass(frozen=True, eq=False)
class Tables:
    """Effects without their grid; `bins` are those of terms on coarser axes."""

    intercept: Floats
    terms: Tensors
    bins: Mapping[Key, tuple[Ints, ...]]


@dataclasses.dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of a forest, as `assemble` takes them."""

    intercept: Floats
    roots: Ints
    feature: Ints
    bound: Floats
    left: Ints
    right: Ints
    missing_left: Bools
    values: Floats
    leaf_label: Ints
    zero_missing: Bools
    category_start: Ints
    category_left: Bools

    def __post_init__(self) -> None:
        if any(array.ndim != (2 if name == "values" else 1) for name, array in vars(self).items()):
            raise ValueError("nodes must be listed, with a row of values each")


@dataclasses.dataclass(frozen=True, eq=False)
class Purity:
    """What makes leaf terms pure: masses of bins, the correction on coarse cells, and leftovers of low orders."""

    masses: tuple[Floats, ...]
    limits: Mapping[int, int]
    coarse: tuple[Binning, ...]
    tables: Tensors
    faces: Tensors
    left_bins: tuple[Binning, ...]
    left: Tensors
    screened_orders: tuple[int, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class LeafTables:
    """Terms that are evaluated at rows: the trees, the layout of their terms, and what makes them pure."""

    nodes: Nodes
    merging: tuple[Binning, ...]
    keys: tuple[Key, ...]
    tensor_order: int
    row_order: int
    top_order: int
    max_bins: int | None
    has_many_terms: bool
    asked: tuple[Key, ...]
    purity: Purity | None


def pack(saved: Saved, *, rows: bool = True) -> tuple[dict[str, Any], Arrays]:
    """Return a header of plain data and named arrays; `unpack` reverses this. Without `rows`, no rows are saved."""
    # Earlier decompositions are numbered. Of equal arrays one is saved, and `same` has its name for the others;
    # `derived` are the bytes that loading adds.
    header, arrays = _pack_alone(saved, rows=rows)
    if not saved.past:
        return header, arrays
    header["past"] = []
    for i, state in enumerate(saved.past):
        earlier, of_state = _pack_alone(state, rows=rows)
        header["past"].append(earlier)
        arrays |= {f"{_PAST}{i}/{name}": array for name, array in of_state.items()}
    header["same"], arrays = _without_copies(arrays)
    header["derived"] += _n_derived_of_past(header, arrays)
    return header, arrays


def _n_derived_of_past(header: Mapping[str, Any], arrays: Arrays) -> int:
    """Return how many bytes earlier decompositions add: their own derived ones, and arrays that are not in the file."""
    n_derived = sum(codec.whole_in_range(earlier["derived"]) for earlier in header.get("past", []))
    return n_derived + sum(arrays[original].nbytes for original in header.get("same", {}).values())


def _without_copies(arrays: Arrays) -> tuple[dict[str, str], Arrays]:
    """Return the arrays without those that equal an earlier one, and before them, by name, the names of the earlier."""
    name_of_digest: dict[bytes, str] = {}
    originals: dict[str, str] = {}
    for name, array in arrays.items():
        content = f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes()
        original = name_of_digest.setdefault(hashlib.sha256(content).digest(), name)
        if original != name:
            originals[name] = original
    return originals, {name: array for name, array in arrays.items() if name not in originals}


def _pack_alone(saved: Saved, *, rows: bool) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of a decomposition without its past; with `rows`, a sample of rows is among them."""
    # The module's docstring describes the compact forms of pairs ("rests") and weights ("ratios").
    arrays: Arrays = {}
    effects, leaf_terms = saved.terms.effects, saved.terms.leaf_terms
    grid = effects.grid
    codec.check_schema(grid.schema)
    pair_residuals, whole_tables = pack_pairs(effects.terms, leaf_terms)
    ratios, weights = pack_weights(saved.terms.weights, min(saved.settings.n_jobs, _THREADS))
    trees = None if leaf_terms is None else leaf_tables(leaf_terms)
    raw = saved.source.tables_to_save(saved.terms)
    entries = {
        "features": grid.schema,
        "axes": tuple(
            dataclasses.replace(axis, categories=()) if isinstance(axis, CategoryAxis) else axis for axis in grid.axes
        ),
        "certificate": saved.certificate,
        "scope": saved.scope,
        "settings": dataclasses.replace(saved.settings, n_jobs=1, seconds=None),
        "pure": _without_grid(effects, whole_tables),
        "rests": pair_residuals,
        "weights": weights,
        "ratios": ratios,
        "raw": None if raw is None else _without_grid(raw),
        "moments": saved.moments,
        "trees": trees,
    }
    header = {name: codec.describe(value, arrays, name) for name, value in entries.items()}
    header["source"] = saved.source.tag
    header["density"] = describe_density(saved.density)
    header["derived"] = _n_derived(pair_residuals, grid, ratios, weights, trees)
    if saved.density.statistics is not None:
        requests = saved.source.needed_tables()
        header["rows"], row_arrays = pack_statistics(saved.density.statistics, saved.terms.grid, requests, rows=rows)
        arrays |= {f"{_ROWS}{name}": array for name, array in row_arrays.items()}
    return header, arrays


def _without_grid(effects: Effects, terms: Tensors | None = None) -> Tables:
    """Return effects as saved, with their own tables or with `terms` in place of them."""
    bins = {key: tuple(binning.bins for binning in binnings) for key, binnings in effects.binnings.items()}
    return Tables(effects.intercept, effects.terms if terms is None else terms, bins)


def _n_derived(pair_residuals: Tensors, grid: Grid, ratios: Tensors, weights: Tensors, trees: LeafTables | None) -> int:
    """Return how many bytes loading adds: pairs from residuals, weights from ratios, tables from faces."""
    n_of_pairs = len(grid.schema.outputs) * sum(math.prod(grid.sizes[j] for j in key) for key in pair_residuals)
    n_of_faces = 0
    if trees is not None and trees.purity is not None:
        cells = trees.purity.coarse, trees.purity.limits
        n_of_faces = n_cells_of_faces(cells, trees.purity.faces, trees.nodes.values.shape[1])
    return 8 * (n_of_pairs + n_cells_of_ratios(ratios, weights) + n_of_faces)


def unpack(header: Mapping[str, Any], arrays: Arrays) -> Saved:
    """Return what `pack` saved; ValueError or TypeError if values in the file do not fit each other."""
    headers = header.get("past", [])
    n_derived = header["derived"] - _n_derived_of_past(header, arrays)
    arrays = {**arrays, **{name: arrays[original] for name, original in header.get("same", {}).items()}}
    last_arrays = {name: array for name, array in arrays.items() if not name.startswith(_PAST)}
    saved = _unpack_alone({**header, "derived": n_derived}, last_arrays)
    past = []
    for i, earlier in enumerate(headers):
        start = f"{_PAST}{i}/"
        of_state = {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
        past.append(_unpack_alone(earlier, of_state))
        # Each edit adds to the history, so decomposition i of the past lacks the last len(headers) - i edits.
        if past[-1].scope.edits != saved.scope.edits[: len(saved.scope.edits) - len(headers) + i]:
            raise ValueError("the decompositions before edits must have the history up to them")
    return saved._replace(past=tuple(past))


def _unpack_alone(header: Mapping[str, Any], arrays: Arrays) -> Saved:
    """Return a decomposition without its past from what `_pack_alone` returned; ValueError for impossible values."""
    for name, array in arrays.items():
        if array.dtype.kind not in "iub" and not name.startswith(_MAY_BE_INFINITE):
            codec.checked_finite(array)
    entry = functools.partial(_restored_entry, header, arrays)
    grid = _checked_grid(entry("features", Schema), entry("axes", tuple[Axis, ...]))
    trees = entry("trees", LeafTables | None)
    pair_residuals, ratios, whole_weights = (entry(name, Tensors) for name in ("rests", "ratios", "weights"))
    if _n_derived(pair_residuals, grid, ratios, whole_weights, trees) != header["derived"]:
        raise ValueError("tables that follow from others must be as large as the header says")
    leaf_terms = None if trees is None else leaf_terms_of(trees, grid)
    effects = _effects_of(entry("pure", Tables), grid, unpack_pairs(pair_residuals, leaf_terms))
    terms = TermSet(effects, unpack_weights(ratios, whole_weights), leaf_terms)
    for key, table in terms.weights.items():
        codec.checked_masses(table, tuple(binning.size for binning in effects.binnings_of(key)))
    scope = entry("scope", Scope)
    codec.check_measures(scope)
    raw = entry("raw", Tables | None)
    source = SOURCES[header["source"]].restored(terms, None if raw is None else _effects_of(raw, grid, {}))
    statistics = None
    row_arrays = {name.removeprefix(_ROWS): array for name, array in arrays.items() if name.startswith(_ROWS)}
    if "rows" in header or row_arrays:
        if leaf_terms is None:
            requests = source.needed_tables()
        else:  # low-order tables that terms and the file have: finding leaves would take long
            singles: list[Key] = [(j,) for j in range(len(grid.axes))]
            requests = [Request(key) for key in dict.fromkeys([*singles, *effects.terms, *table_keys(row_arrays)])]
        statistics = unpack_statistics(header["rows"], row_arrays, grid, terms.grid, requests)
    may_have_more = trees is not None or scope.order is not None  # moments than tables
    return Saved(
        source=source,
        terms=terms,
        density=restore_density(header["density"], effects, terms.weights, statistics),
        certificate=_checked_certificate(entry("certificate", Certificate), grid.schema.names),
        scope=scope,
        settings=_checked_settings(entry("settings", Settings)),
        moments=_checked_moments(entry("moments", Moments | None), effects, may_have_more=may_have_more),
    )


def _restored_entry(header: Mapping[str, Any], arrays: Arrays, name: str, kind: Any) -> Any:
    """Return the object that an entry of the header describes; TypeError unless it is of this type."""
    value = codec.restore(header[name], arrays)
    if not codec.fits(value, kind):
        raise TypeError(f"the entry {name!r} of a file must be {kind}, got {value!r:.100}")
    return value


def _checked_grid(schema: Schema, saved_axes: tuple[Axis, ...]) -> Grid:
    """Return the grid of axes from a file, with labels from the schema; ValueError for impossible bins."""
    codec.check_schema(schema)
    axes = []
    for axis, feature in zip(saved_axes, schema.features, strict=True):
        labels = feature.encoder.labels or ()
        axis = dataclasses.replace(axis, categories=labels) if isinstance(axis, CategoryAxis) else axis
        if axis.thresholds.ndim != 1 or not (np.diff(axis.thresholds) > 0).all():
            raise ValueError("thresholds must ascend")
        if axis.date_unit and axis.date_unit not in UNITS:
            raise ValueError("dates must have a known unit")
        extra_bins = [codec.whole_in_range(bin_, -1) for bin_ in (axis.missing_bin, axis.unseen)]  # -1: no such bin
        own_bins = sorted({bin_ for bin_ in extra_bins if bin_ >= axis.n_regular})  # not shared with a regular one
        if own_bins != list(range(axis.n_regular, axis.n_regular + len(own_bins))):
            raise ValueError("bins of missing and unseen values must follow those of the feature")
        axes.append(axis)
    return Grid(schema, tuple(axes))


def _effects_of(tables: Tables, grid: Grid, derived: Tensors) -> Effects:
    """Return saved tables and `derived` ones, which were not saved, as effects; ValueError if they do not fit."""
    if tables.intercept.shape != (len(grid.schema.outputs),):
        raise ValueError("intercepts must have a number per output")
    binnings = {key: tuple(map(binning_by, tables.bins[key])) for key in tables.bins}
    for key, term_binnings in binnings.items():
        for bins, binning, j in zip(tables.bins[key], term_binnings, key, strict=True):
            if bins.shape != (grid.sizes[j],) or not np.array_equal(binning.bins, bins):
                raise ValueError("the axes of a term must fit the bins of its features")
    return Effects(grid, tables.intercept, {**tables.terms, **derived}, binnings)


def _checked_settings(settings: Settings) -> Settings:
    """Return settings from a file without threads and time limit; ValueError for impossible ones."""
    options = settings.options
    backend: Any = settings.backend
    check_method(options.method)
    if not 0 < options.tol < math.inf or options.max_iterations < 1 or settings.random_state < 0:
        raise ValueError("tolerance and iterations must be positive, and a seed not negative")
    if backend is not None and nw.Implementation.from_backend(backend) is nw.Implementation.UNKNOWN:
        raise ValueError("the library of tables must be one of data frames")
    return dataclasses.replace(settings, n_jobs=1, seconds=None)


def _checked_moments(moments: Moments | None, effects: Effects, *, may_have_more: bool) -> Moments | None:
    """Return moments, arrays (terms, outputs), or None; ValueError if they do not fit the tables and outputs."""
    # `may_have_more`: there are terms without tables, which have moments too.
    if moments is None:
        return None
    shapes = {array.shape for array in vars(moments).values()}
    n_terms, n_outputs = max(shapes)
    fit_terms = n_terms == len(effects.terms) or (may_have_more and n_terms > len(effects.terms))
    if len(shapes) > 1 or not fit_terms or n_outputs != effects.n_outputs:
        raise ValueError("moments must fit the terms and outputs")
    return moments


def _checked_certificate(certificate: Certificate, names: Sequence[str]) -> Certificate:
    """Return a certificate from a file; ValueError if its terms, orders or numbers are impossible."""
    higher = certificate.higher
    if not all(key and set(key) <= set(names) for key in (*certificate.terms, *certificate.aliases)):
        raise ValueError("a certificate must name features")
    if (
        higher is not None
        and not (1 if higher.is_exact or higher.is_raw else 2) <= higher.orders[0] <= higher.orders[1]
    ):
        raise ValueError("orders without tables must ascend, above those with tables")
    for measured in (certificate, *certificate.terms.values(), *([] if higher is None else [higher])):
        codec.check_measures(measured, but=["mean_gap"])
    return certificate


def leaf_tables(terms: LeafTerms) -> LeafTables:
    """Return leaf terms in the form in which they are saved; `leaf_terms_of` reverses this."""
    layout = terms.trees.layout
    return LeafTables(
        nodes=_nodes_of(terms.trees.forest),
        merging=terms.trees.binnings,
        keys=terms.keys,
        tensor_order=layout.tensor_order,
        row_order=layout.row_order,
        top_order=layout.top_order,
        max_bins=layout.max_bins,
        has_many_terms=layout.has_many_terms,
        asked=layout.asked,
        purity=_purity_of(terms) if isinstance(terms, PureLeafTerms) else None,
    )


def _purity_of(terms: PureLeafTerms) -> Purity:
    """Return what makes leaf terms pure as it is saved; `_correction_of` and `_leftover_of` reverse this."""
    correction, leftover = terms.correction, terms.leftover
    flat_faces, whole_tables = pack_tables((correction.binnings, correction.bins), correction.tables)
    return Purity(
        masses=terms.form.masses,
        limits=dict(correction.bins),
        coarse=correction.binnings,
        tables=whole_tables,
        faces=flat_faces,
        left_bins=leftover.binnings if any(leftover.tables) else (),
        left=leftover.tables,
        screened_orders=terms.screened_orders,
    )


def _nodes_of(forest: Forest) -> Nodes:
    """Return a forest's arrays as a file has them: values and labels by node, not by leaf; zero at inner nodes."""
    is_leaf = forest.feature < 0
    values = np.zeros((len(is_leaf), forest.n_outputs))
    labels = np.zeros(len(is_leaf), dtype=np.int64)
    values[is_leaf], labels[is_leaf] = forest.values[forest.leaf[is_leaf]], forest.leaf_label[forest.leaf[is_leaf]]
    left, right = (np.where(is_leaf, -1, side) for side in (forest.left, forest.right))
    copied: dict[str, Any] = {field.name: getattr(forest, field.name, None) for field in dataclasses.fields(Nodes)}
    return Nodes(**{**copied, "left": left, "right": right, "values": values, "leaf_label": labels})


def leaf_terms_of(tables: LeafTables, grid: Grid) -> LeafTerms:
    """Return the leaf terms that `leaf_tables` saved; ValueError if trees, bins and keys do not fit."""
    forest = assemble(grid.schema, **vars(tables.nodes))
    n_codes = np.array([feature.n_categories + 1 for feature in grid.schema.features], dtype=np.int64)
    by_category = forest.category_start >= 0
    ends = forest.category_start[by_category] + n_codes[forest.feature[by_category]]
    if ends.max(initial=0) > len(forest.category_left):
        raise ValueError("splits by categories must list them")
    sets = leaves_of(forest)
    sizes = sets.grid.sizes
    merging = _checked_binnings(tables.merging, sizes)
    trees = Trees(forest, sets, _layout_of(tables, sets.grid, forest.n_outputs), merging, grid)
    keys = tuple(codec.checked_key(key, len(sizes)) for key in tables.keys)
    purity = tables.purity
    if purity is None:
        return RawLeafTerms(trees, keys)
    form_masses = tuple(codec.checked_masses(array, (size,)) for array, size in zip(purity.masses, sizes, strict=True))
    closed_form = ClosedForm(sets, form_masses, merging)
    for order in purity.screened_orders:
        codec.whole_in_range(order, 1, len(sizes))
    correction = _correction_of(purity, sizes, forest.n_outputs)
    leftover = _leftover_of(purity, sizes, forest.n_outputs)
    return PureLeafTerms(trees, keys, closed_form, correction, purity.screened_orders, leftover)


def _layout_of(tables: LeafTables, grid: Grid, n_outputs: int) -> TermLayout:
    """Return the saved layout of terms; its plan is empty, because finding the leaves would take long."""
    n_features = len(grid.sizes)
    names = ("tensor_order", "row_order", "top_order")
    orders = {name: codec.whole_in_range(getattr(tables, name), 0, n_features) for name in names}
    if max(orders["tensor_order"], orders["row_order"]) > orders["top_order"]:
        raise ValueError("no order must be above that of the forest")
    max_bins = tables.max_bins
    return TermLayout(
        **orders,
        max_bins=None if max_bins is None else codec.whole_in_range(max_bins, 1, max(*grid.sizes, FEWEST_MERGED)),
        plan=plan_of(set(), grid, n_outputs),
        lists_all=tables.purity is None or not tables.purity.screened_orders,
        asked=tuple(codec.checked_key(key, n_features) for key in tables.asked),
        has_many_terms=tables.has_many_terms,
    )


def _checked_binnings(binnings: tuple[Binning, ...], sizes: Sequence[int]) -> tuple[Binning, ...]:
    """Return binnings from a file, one per feature; ValueError unless they merge axes of these sizes."""
    for binning, size in zip(binnings, sizes, strict=True):
        bins, shares = binning.bins, codec.checked_finite(binning.shares, (size,))
        is_possible = bins.shape == (size,) and bins.min(initial=0) >= 0 and (shares >= 0).all()
        if not is_possible or binning.size != bins.max(initial=-1) + 1 or binning.size > size:
            raise ValueError("merged bins must fit the bins of the forest")
    return binnings


def _correction_of(purity: Purity, sizes: Sequence[int], n_outputs: int) -> Correction:
    """Return the correction that was saved; ValueError unless it fits axes of these sizes."""
    if not purity.limits:
        return Correction()
    for order, bins in purity.limits.items():
        codec.whole_in_range(order, 1), codec.whole_in_range(bins, 1)
    _checked_binnings(purity.coarse, sizes)
    cells = purity.coarse, purity.limits
    if any(table.shape != (*coarse_shape(cells, key), n_outputs) for key, table in purity.tables.items()):
        raise ValueError("tables must fit the coarse bins")
    tables = unpack_tables(cells, purity.faces, purity.tables, n_outputs)
    return Correction(purity.coarse, purity.limits, tables)  # what it moved is in the tables of low orders already


def _leftover_of(purity: Purity, sizes: Sequence[int], n_outputs: int) -> Leftover:
    """Return the leftover of low orders that was saved; ValueError unless it fits axes of these sizes."""
    binnings = _checked_binnings(purity.left_bins, sizes) if any(purity.left) else ()
    for key, table in purity.left.items():
        fit_bins = [binnings[j].coarser_size(n) == n for j, n in zip(key, table.shape, strict=False)]
        if table.ndim != len(key) + 1 or not all(fit_bins) or table.shape[-1] != n_outputs:
            raise ValueError("what is left of low orders must fit its bins")
    return Leftover(binnings, purity.left)


def fingerprint(source: Source, terms: TermSet, scope: Scope) -> str:
    """Return a digest of all that decides the values of terms and scores at rows."""
    arrays: Arrays = {}
    effects = [terms.effects, *filter(None, [source.tables_to_save(terms)])]
    content = (
        dataclasses.replace(scope, edits=()),
        tuple((table.grid.schema, table.grid.axes, _without_grid(table)) for table in effects),
        None if terms.leaf_terms is None else leaf_tables(terms.leaf_terms),
        None if source.forest is None else _nodes_of(source.forest),
    )
    digest = hashlib.sha256(json.dumps(codec.describe(content, arrays)).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def pack_pairs(tables: Tensors, leaf_terms: LeafTerms | None) -> tuple[dict[Key, Floats], dict[Key, Floats]]:
    """Return flat residuals of pairs minus their closed form, and all other tables whole; see `unpack_pairs`."""
    n_cells = sum(table.size for table in tables.values())
    if not isinstance(leaf_terms, PureLeafTerms):
        return {}, dict(tables)
    if n_cells < max(_LEAST_CELLS, _LEAST_PER_NODE * len(leaf_terms.trees.forest.feature)):
        return {}, dict(tables)
    pairs = {key: table for key, table in tables.items() if len(key) == 2 and table.size >= _LEAST_CELLS_OF_TABLE}
    residuals = {key: _packed_pair(key, table, leaf_terms) for key, table in pairs.items()}
    packed: dict[Key, Floats] = {key: residual for key, residual in residuals.items() if residual is not None}
    return packed, {key: table for key, table in tables.items() if key not in packed}


def unpack_pairs(residuals: Tensors, leaf_terms: LeafTerms | None) -> dict[Key, Floats]:
    """Return the tables of pairs: their closed form from the trees plus the saved residuals."""
    if not residuals:
        return {}
    if not isinstance(leaf_terms, PureLeafTerms):
        raise TypeError("tables that follow from trees must have them")
    return {key: _unpacked_pair(key, residual, leaf_terms) for key, residual in residuals.items()}


def _packed_pair(key: Key, table: Floats, terms: PureLeafTerms) -> Floats | None:
    """Return what a pair's table adds to its closed form: moved cells, then a number per bin of each feature, flat."""
    residual = table - terms.form.tensor(key) - terms.leftover.spread(key, terms.trees.first_bins(key))
    coarse_bins = [_coarse_bins(j, terms) for j in key]
    # The module's docstring calls these M, a and b: a and b are zero at the first bin of each coarse one.
    first_bins = [np.unique(bins, return_index=True)[1] for bins in coarse_bins]
    moved = residual[np.ix_(*first_bins)]
    of_first = residual[:, 0] - moved[coarse_bins[0], 0]
    of_second = residual[0] - moved[0, coarse_bins[1]]
    residual -= _sum_of_packed([moved, of_first, of_second], coarse_bins)
    if np.abs(residual).max() > _TOLERANCE * np.abs(table).max():
        return None  # the table is saved whole
    return np.concatenate([array.ravel() for array in (moved, of_first, of_second)])


def _coarse_bins(feature: int, terms: PureLeafTerms) -> Ints:
    """Return the correction's coarse bin of each bin of a feature, numbered without gaps; one if there is none."""
    merging = terms.trees.binnings[feature]  # from the bins of the trees to those of the tables
    if not terms.correction.binnings:
        return np.zeros(merging.size, dtype=np.int64)
    first_bins = np.unique(merging.bins, return_index=True)[1]
    coarse = np.unique(terms.correction.binnings[feature].bins[first_bins], return_inverse=True)[1]
    return coarse.astype(np.int64).ravel()


def _sum_of_packed(tables: Sequence[Floats], coarse_bins: Sequence[Ints]) -> Floats:
    """Add a table over coarse cells and a number per bin of each feature, spread to all cells."""
    moved, of_first, of_second = tables
    return moved[np.ix_(*coarse_bins)] + of_first[:, None] + of_second


def _unpacked_pair(key: Key, flat: Floats, terms: PureLeafTerms) -> Floats:
    """Return the table of a pair, shape (bins, bins, outputs), from what `_packed_pair` returned."""
    coarse_bins = [_coarse_bins(j, terms) for j in key]
    n_outputs = terms.trees.forest.n_outputs
    n_coarse = tuple(int(bins.max()) + 1 for bins in coarse_bins)
    shapes = [(*n_coarse, n_outputs), *((len(bins), n_outputs) for bins in coarse_bins)]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    if flat.shape != (ends[-1],):
        raise ValueError("rests must fit the bins of the tables")
    tables = [array.reshape(shape) for array, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]
    low_orders = terms.leftover.spread(key, terms.trees.first_bins(key))
    return terms.form.tensor(key) + low_orders + _sum_of_packed(tables, coarse_bins)


def pack_weights(weights: Tensors, n_jobs: int = 1) -> tuple[dict[Key, Floats], dict[Key, Floats]]:
    """Return pairs of weights as flat ratios to independence if that is smaller, and all other tables whole."""
    if sum(table.size for table in weights.values()) < _LEAST_CELLS:
        return {}, dict(weights)
    pairs: list[Key] = [key for key in weights if len(key) == 2]
    n_pairs = min(len(pairs) // (8 * _THREADS) + 1, _PAIRS_PER_TASK)

    def pack_from(start: int) -> list[Floats | None]:
        # A task for each pair would take longer than small tables do.
        pairs_of_task = pairs[start : start + n_pairs]
        return [_packed_ratios(weights[key], *(weights.get((j,)) for j in key)) for key in pairs_of_task]

    with thread_map(n_jobs) as run:
        lists = run(pack_from, range(0, len(pairs), n_pairs))
        flat = itertools.chain.from_iterable(lists)
        packed = {key: ratios for key, ratios in zip(pairs, flat, strict=True) if ratios is not None}
    return packed, {key: table for key, table in weights.items() if key not in packed}


def unpack_weights(packed: Tensors, whole: Tensors) -> dict[Key, Floats]:
    """Return all tables of weights: those saved whole, and those that follow from ratios and marginals."""
    return {key: _unpacked_weights(flat, *(whole[j,] for j in key)) for key, flat in packed.items()} | dict(whole)


def n_cells_of_ratios(packed: Tensors, whole: Tensors) -> int:  # of the tables that `unpack_weights` adds
    return sum(math.prod(len(whole[j,]) for j in key) for key in packed)


def _packed_ratios(table: Floats, first_mass: Floats | None = None, second_mass: Floats | None = None) -> Floats | None:
    """Return a pair's weights over the product of masses, flat: first bins of groups, ratios; None if not smaller."""
    if first_mass is None or second_mass is None or table.shape != (len(first_mass), len(second_mass)):
        return None
    product = np.multiply.outer(first_mass, second_mass)
    if (np.abs(table - product) <= _TOLERANCE_OF_WEIGHT * product).all():
        return _INDEPENDENT
    has_mass = np.ix_(first_mass > 0, second_mass > 0)
    ratio = np.ones_like(table)
    ratio[has_mass] = table[has_mass] / product[has_mass]
    starts = _starts_of_groups(ratio, first_mass > 0), _starts_of_groups(ratio.T, second_mass > 0)
    flat = np.concatenate([list(map(len, starts)), *starts, ratio[np.ix_(*starts)].ravel()]).astype(np.float64)
    if flat.size > _MAX_SHARE * table.size:
        return None
    unpacked = _unpacked_weights(flat, first_mass, second_mass)
    tolerance = 4 * (_TOLERANCE_OF_WEIGHT * table + _TOLERANCE_OF_PRODUCT * product)  # rows, columns and their rounding
    is_same = np.array_equal(unpacked > 0, table > 0) and (np.abs(unpacked - table) <= tolerance).all()
    return flat if is_same else None


def _starts_of_groups(ratio: Floats, has_mass: Bools) -> Ints:
    """Return the first bin of each group along the rows: neighbours with mass whose ratios are equal, to rounding."""
    rows = np.flatnonzero(has_mass)
    before, after = ratio[rows[:-1]], ratio[rows[1:]]
    differ = (np.abs(after - before) > _TOLERANCE_OF_WEIGHT * before + _TOLERANCE_OF_PRODUCT).any(axis=1)
    return np.concatenate([rows[:1], rows[1:][differ]]).astype(np.int64)


def _unpacked_weights(flat: Floats, first_mass: Floats, second_mass: Floats) -> Floats:
    """Return a pair's weights from what `_packed_ratios` returned, `flat`, and the masses of its features' bins."""
    # First the numbers of groups of both features, then the first bins of groups, then a ratio per pair of groups.
    if np.array_equal(flat, _INDEPENDENT):
        return np.multiply.outer(first_mass, second_mass)
    n_first, n_second = flat[:2].astype(np.int64)
    starts = np.split(flat[2 : 2 + n_first + n_second].astype(np.int64), [n_first])
    group_ratios = flat[2 + n_first + n_second :].reshape(n_first, n_second)
    groups = _group_of_bins(starts[0], len(first_mass)), _group_of_bins(starts[1], len(second_mass))
    return group_ratios[np.ix_(*groups)] * np.multiply.outer(first_mass, second_mass)


def _group_of_bins(starts: Ints, n_bins: int) -> Ints:
    """Return the group of each bin; bins before the first group have no mass and belong to it."""
    return np.maximum(np.searchsorted(starts, np.arange(n_bins), side="right") - 1, 0)


def coarse_shape(cells: CoarseCells, key: Key) -> tuple[int, ...]:
    """Return the number of coarse bins of each feature of a term in the correction."""
    binnings, limits = cells
    return tuple(binnings[j].coarser_size(limits[len(key)]) for j in key)


def n_cells_of_faces(cells: CoarseCells, packed: Tensors, n_outputs: int) -> int:  # of the tables that faces become
    return sum(math.prod(coarse_shape(cells, key)) for key in packed) * n_outputs


def pack_tables(cells: CoarseCells, tables: Tensors) -> tuple[dict[Key, Floats], dict[Key, Floats]]:
    """Return tables that are sums of faces (functions of all features but one) as flat faces, and all other tables."""
    # Highest orders come first: what a table's faces add to the tables below need not be saved there again. `cells` are
    # the coarse bins of the correction, whose tables these are.
    if sum(table.size for table in tables.values()) < _LEAST_CELLS:
        return {}, dict(tables)
    largest = max((float(np.abs(table).max()) for table in tables.values()), default=0.0)
    from_above: dict[Key, Floats] = {}
    packed: dict[Key, Floats] = {}
    whole: dict[Key, Floats] = {}
    for key in sorted(tables, key=lambda key: (-len(key), key)):
        face_tables, residual = _split_into_faces(tables[key] - _taken_from_above(key, from_above, cells))
        if np.abs(residual).max() <= _TOLERANCE * largest:
            _pass_down(key, face_tables, from_above)
            flat_faces = [_without_first_bins(face, axis).ravel() for axis, face in enumerate(face_tables)]
            packed[key] = np.concatenate(flat_faces)
        else:
            whole[key] = tables[key]
    return packed, whole


def unpack_tables(cells: CoarseCells, packed: Tensors, whole: Tensors, n_outputs: int) -> dict[Key, Floats]:
    """Return all tables of a correction: those of `packed` are sums of their faces and of what terms above add."""
    from_above: dict[Key, Floats] = {}
    tables = dict(whole)
    for key in sorted(packed, key=lambda key: (-len(key), key)):  # highest orders first
        face_tables = _unpack_faces(packed[key], (*coarse_shape(cells, key), n_outputs))
        sum_of_faces = functools.reduce(np.add, (np.expand_dims(face, axis) for axis, face in enumerate(face_tables)))
        tables[key] = sum_of_faces + _taken_from_above(key, from_above, cells)
        _pass_down(key, face_tables, from_above)
    return tables


def _taken_from_above(key: Key, from_above: dict[Key, Floats], cells: CoarseCells) -> Floats | float:
    """Remove and return what a term gets from terms above, spread from the coarse bins of their order to its own."""
    if key not in from_above:
        return 0.0
    binnings, limits = cells
    values, above_limit, limit = from_above.pop(key), limits[len(key) + 1], limits[len(key)]
    if above_limit == limit:
        return values
    # Bins are merged two by two, so a shift of a bin's number gives the bin of the coarser order above.
    pairs = ((np.arange(binnings[j].coarser_size(limit)), binnings[j]) for j in key)
    return values[np.ix_(*(bins >> (binning.shift(above_limit) - binning.shift(limit)) for bins, binning in pairs))]


def _pass_down(key: Key, face_tables: Projections, from_above: dict[Key, Floats]) -> None:
    """Subtract each face, a table without one of a term's features, from what the term below gets from above."""
    for below, face in zip(keys_below(key), face_tables, strict=True):
        from_above[below] = from_above[below] - face if below in from_above else -face


def _split_into_faces(values: Floats) -> tuple[Projections, Floats]:
    """Return the slices of a table along the first bin of each feature in turn, taken out, and what remains."""
    residual = np.array(values)
    face_tables: Projections = []
    for axis in range(values.ndim - 1):
        face_tables.append(np.take(residual, [0], axis=axis).squeeze(axis))
        residual -= np.expand_dims(face_tables[-1], axis)
    return face_tables, residual


def _without_first_bins(face: Floats, axis: int) -> Floats:
    """Drop the cells of a face in the first bins of earlier axes, which earlier slices took and so are zero."""
    return face[(slice(1, None),) * axis]


def _unpack_faces(flat: Floats, shape: tuple[int, ...]) -> Projections:
    """Return the faces of a table of this shape (outputs last), zero where earlier faces have the cells."""
    shapes = [shape[:axis] + shape[axis + 1 :] for axis in range(len(shape) - 1)]
    face_tables = [np.zeros(face_shape) for face_shape in shapes]
    ends = np.cumsum([_without_first_bins(face, axis).size for axis, face in enumerate(face_tables)])
    if flat.shape != (ends[-1],):
        raise ValueError("faces must fit the coarse bins")
    for axis, (face, flat_face) in enumerate(zip(face_tables, np.split(flat, ends[:-1]), strict=True)):
        inner = _without_first_bins(face, axis)
        inner[...] = flat_face.reshape(inner.shape)
    return face_tables
