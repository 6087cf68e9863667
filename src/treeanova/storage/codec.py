"""A decomposition as a header of plain data and named arrays, without the model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import narwhals.stable.v1 as nw
import numpy as np

from treeanova.anova.certificate import Certificate, HigherCertificate, TermCertificate
from treeanova.anova.solvers import check_method
from treeanova.anova.solvers.base import Options
from treeanova.core.arrays import Arrays, Floats, Key
from treeanova.data.features import Schema
from treeanova.density.counting import Request
from treeanova.density.kinds import Density
from treeanova.model.axes import Axis, axis_of
from treeanova.model.effects import Effects
from treeanova.model.grid import Binning, Grid, binning_by
from treeanova.storage.compact import n_cells_of_ratios, pack_pairs, pack_weights, unpack_pairs, unpack_weights
from treeanova.storage.schema import (
    check_measures,
    check_schema,
    describe,
    finite,
    integers,
    make,
    masses,
    restore,
    whole,
)
from treeanova.storage.statistics import (
    describe_density,
    keys_of_tables,
    pack_statistics,
    restore_density,
    unpack_statistics,
)
from treeanova.storage.trees import pack_leaf_terms, unpack_leaf_terms
from treeanova.terms.at_rows import Joined
from treeanova.terms.moments import Moments
from treeanova.terms.source import Settings, Source
from treeanova.terms.terms import Scope, Tensors, TermSet
from treeanova.terms.tree_model import SOURCES

_LATER_FIELDS = (  # of certificates
    "density_gap",
    "remainder_share",
    "marginal_gap",
    "edits",
    "sampled_rows",
    "aliases",
    "mean_gap",
)
_MOMENTS = ("variance", "covariance", "mean_abs")
_DEEP = "deep/"
_ROWS = "rows/"


class Saved(NamedTuple):
    """The parts of a decomposition that are saved."""

    source: Source
    terms: TermSet
    density: Density
    certificate: Certificate
    scope: Scope
    settings: Settings
    moments: Moments | None


def pack(saved: Saved, *, rows: bool = True) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a decomposition, with or without rows of a sample; `unpack` reverses this."""
    tensors = saved.terms.tables
    effects = tensors.effects
    check_schema(effects.grid.schema)
    settings = saved.settings
    header = {
        "features": describe(effects.grid.schema),
        "axes": [axis.plain() for axis in effects.grid.axes],
        "density": describe_density(saved.density),
        "certificate": _describe_certificate(saved.certificate),
        "options": list(settings.options),
        "backend": settings.backend,
        "random_state": settings.random_state,
        "scope": _describe_scope(saved.scope),
        "source": saved.source.tag,
    }
    leaf_terms = saved.terms.leaf_terms
    arrays: Arrays = {f"bounds/{j}": axis.thresholds for j, axis in enumerate(effects.grid.axes) if axis.is_ordered}
    rests, whole = pack_pairs(effects.terms, leaf_terms)
    arrays |= _effects_arrays("pure", effects, whole) | _named("rests", rests)
    ratios, whole = pack_weights(tensors.weights)
    arrays |= _named("weights", whole) | _named("ratios", ratios)
    raw = saved.source.tables_to_save(saved.terms)
    if raw is not None:
        arrays |= _effects_arrays("raw", raw, raw.terms)
    if saved.moments is not None:
        arrays |= {f"moments/{name}": getattr(saved.moments, name) for name in _MOMENTS}
    if leaf_terms is not None:
        header["deep"], more = pack_leaf_terms(leaf_terms)
        arrays |= {f"{_DEEP}{name}": array for name, array in more.items()}
    statistics = saved.density.statistics
    if statistics is not None:
        header["rows"], more = pack_statistics(statistics, saved.terms.grid, saved.source.wanted_tables(), rows=rows)
        arrays |= {f"{_ROWS}{name}": array for name, array in more.items()}
    n_derived = _n_derived(header, rests, effects.grid, effects.n_outputs) + 8 * n_cells_of_ratios(ratios, whole)
    return header | ({"derived": n_derived} if n_derived else {}), arrays


def _n_derived(header: Mapping[str, Any], rests: Mapping[Key, Floats], grid: Grid, n_outputs: int) -> int:
    """Bytes of the tables of terms that are not saved, because they follow from the trees or from faces."""
    n_of_pairs = sum(math.prod(grid.sizes[j] for j in key) for key in rests)
    return 8 * n_outputs * n_of_pairs + int(header.get("deep", {}).get("derived", 0))


def unpack(header: Mapping[str, Any], arrays: Arrays) -> Saved:
    """The saved parts of a decomposition, from the header and arrays of a file."""
    of_trees, of_rows = _below(arrays, _DEEP), _below(arrays, _ROWS)
    arrays = {name: array for name, array in arrays.items() if not name.startswith((_DEEP, _ROWS))}
    _check_numbers(arrays)
    grid = _restore_grid(header, arrays)
    rests, ratios, whole = (_by_key(arrays, folder) for folder in ("rests/", "ratios/", "weights/"))
    n_outputs = len(grid.schema.outputs)
    if any(arrays[name].shape != (n_outputs,) for name in ("pure_intercept", "raw_intercept") if name in arrays):
        raise ValueError("intercepts must have a number per output")
    if _n_derived(header, rests, grid, n_outputs) + 8 * n_cells_of_ratios(ratios, whole) != header.get("derived", 0):
        raise ValueError("tables that follow from others must be as large as the header says")
    leaf_terms = unpack_leaf_terms(header["deep"], of_trees, grid) if "deep" in header else None
    effects = _restore_effects(grid, arrays, "pure", unpack_pairs(rests, leaf_terms))
    weights = unpack_weights(ratios, whole)
    _check(arrays, weights, effects, may_have_more="deep" in header or _is_truncated(header))
    tensors = Tensors(effects, weights)
    terms: TermSet = tensors if leaf_terms is None else Joined(tensors, leaf_terms)
    scope = _restore_scope(header, terms)
    source = _restore_source(header, terms, scope, arrays)
    statistics = None
    if "rows" in header or of_rows:
        wanted = source.wanted_tables() if leaf_terms is None else _tables_of_trees(effects, of_rows)
        statistics = unpack_statistics(header["rows"], of_rows, grid, terms.grid, wanted)
    return Saved(
        source=source,
        terms=terms,
        density=restore_density(header["density"], effects, weights, statistics),
        certificate=_restore_certificate(header["certificate"], grid.schema.names),
        scope=scope,
        settings=_restore_settings(header),
        moments=_restore_moments(arrays),
    )


def _tables_of_trees(effects: Effects, of_rows: Arrays) -> list[Request]:
    """Tables of the low orders of trees, as far as terms and the file have them: leaves would take long to find."""
    keys = [*effects.terms, *keys_of_tables(of_rows)]
    singles: list[Key] = [(j,) for j in range(len(effects.grid.axes))]
    return [Request(key) for key in dict.fromkeys([*singles, *keys])]


def _restore_grid(header: Mapping[str, Any], arrays: Arrays) -> Grid:
    schema = restore(header["features"])
    if not isinstance(schema, Schema):
        raise TypeError("a saved decomposition must have a schema")
    check_schema(schema)
    if not isinstance(header["axes"], list):
        raise TypeError("a saved decomposition must list its axes")
    axes = tuple(
        axis_of(plain, feature.encoder.labels, arrays.get(f"bounds/{j}"))
        for j, (plain, feature) in enumerate(zip(header["axes"], schema.features, strict=True))
    )
    for axis in axes:
        _check_axis(axis)
    return Grid(schema, axes)


def _check_axis(axis: Axis) -> None:
    """Raise ValueError for thresholds that do not ascend, and for bins beyond those that a feature can have."""
    thresholds = axis.thresholds
    if thresholds.ndim != 1 or thresholds.dtype != np.float64 or not (np.diff(thresholds) > 0).all():
        raise ValueError("thresholds must ascend")
    extra = [whole(bin_, -1) for bin_ in (axis.missing_bin, axis.unseen)]
    own = sorted({bin_ for bin_ in extra if bin_ >= axis.n_regular})
    if own != list(range(axis.n_regular, axis.n_regular + len(own))):
        raise ValueError("bins of missing and unseen values must follow those of the feature")


def _restore_settings(header: Mapping[str, Any]) -> Settings:
    options = make(Options, dict(zip(Options._fields, header["options"], strict=True)))
    check_method(options.method)
    if not 0 < options.tol < math.inf or options.max_iterations < 1:
        raise ValueError("tolerance and iterations must be positive")
    backend = header["backend"]
    if backend is not None and nw.Implementation.from_backend(backend) is nw.Implementation.UNKNOWN:
        raise ValueError("the library of tables must be one of data frames")
    return make(  # type: ignore[no-any-return]
        Settings, {"options": options, "backend": backend, "random_state": whole(header["random_state"])}
    )


def _restore_source(header: Mapping[str, Any], terms: TermSet, scope: Scope, arrays: Arrays) -> Source:
    """The kind of source that the header names; in older files trees if there are any, except for a selection."""
    is_old = "type" in header.get("scope", ["type"])
    is_additive = terms.leaf_terms is None or scope.is_part
    tag = ("additive" if is_additive else "trees") if is_old else header["source"]
    tables = _restore_effects(terms.tables.grid, arrays, "raw", {}) if "raw_intercept" in arrays else None
    return SOURCES[tag].restored(terms, tables)


def _describe_scope(scope: Scope) -> dict[str, Any]:
    return dataclasses.asdict(scope)


def _is_truncated(header: Mapping[str, Any]) -> bool:
    return "is_cut" in header or header.get("scope", {}).get("order") is not None


def _restore_scope(header: Mapping[str, Any], terms: TermSet) -> Scope:
    if "scope" not in header:
        return _scope_of_schema_1(header, terms)
    plain = dict(header["scope"])
    if "type" in plain:
        plain = {"order": None, "n_terms": None, "edits": (), **plain}
    scope: Scope = make(Scope, {"order": plain["order"], "n_terms": plain["n_terms"], "edits": tuple(plain["edits"])})
    check_measures(scope)
    return scope


def _scope_of_schema_1(header: Mapping[str, Any], terms: TermSet) -> Scope:
    if header["n_all_terms"]:
        return Scope(n_terms=int(header["n_all_terms"]))
    layout = None if terms.leaf_terms is None else terms.leaf_terms.trees.layout
    if layout is not None and "deep/masses/0" not in header["arrays"]:
        return Scope()
    if header.get("is_cut") is True or (layout is not None and layout.is_truncated):
        return Scope(order=max(map(len, terms.keys), default=0))
    return Scope()


def _check(arrays: Arrays, weights: Mapping[Key, Floats], effects: Effects, *, may_have_more: bool) -> None:
    """Raise ValueError where arrays do not fit each other; there may be more moments than tensors."""
    for table in weights.values():
        masses(table)
    shapes = {key: tuple(binning.size for binning in effects.binnings_of(key)) for key in weights}
    if (
        any(array.dtype != np.float64 for name, array in arrays.items() if "_axes/" not in name)
        or any(array.ndim != 1 for array in _below(arrays, "bounds/").values())
        or any(table.shape != shapes[key] for key, table in weights.items())
        or not _moments_fit(arrays, effects, may_have_more=may_have_more)
    ):
        raise ValueError("arrays must be float64 and have the shapes of the grid")


def _check_numbers(arrays: Arrays) -> None:
    """Raise ValueError for numbers that are not finite; thresholds may be infinite, moments unknown."""
    for name, array in arrays.items():
        if not name.startswith(("bounds/", "moments/")) and "_axes/" not in name:
            finite(array)


def _moments_fit(arrays: Arrays, effects: Effects, *, may_have_more: bool) -> bool:
    """Whether all moments are there, with a shape that fits the terms and outputs, or none is."""
    shapes = [array.shape for array in _below(arrays, "moments/").values()]
    if not shapes:
        return True
    n_terms, n_outputs = len(effects.terms), effects.n_outputs
    rows_fit = len(shapes[0]) == 2 and (shapes[0][0] == n_terms or (may_have_more and shapes[0][0] > n_terms))
    return len(shapes) == len(_MOMENTS) and len(set(shapes)) == 1 and rows_fit and shapes[0][1] == n_outputs


def _restore_moments(arrays: Arrays) -> Moments | None:
    """Saved moments; None where they were not known when the file was written."""
    saved = _below(arrays, "moments/")
    return Moments(**{name: saved[name] for name in _MOMENTS}) if saved else None


def _text(key: Key) -> str:
    return "-".join(map(str, key))


def _key(text: str) -> Key:
    return tuple(int(part) for part in text.split("-"))


def _below(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _named(folder: str, arrays: Mapping[Key, Floats]) -> Arrays:
    return {f"{folder}/{_text(key)}": array for key, array in arrays.items()}


def _by_key(arrays: Arrays, folder: str) -> dict[Key, Floats]:
    return {_key(text): array for text, array in _below(arrays, folder).items()}


def _effects_arrays(name: str, effects: Effects, terms: Mapping[Key, Floats]) -> Arrays:
    arrays = _named(name, terms)
    arrays[f"{name}_intercept"] = effects.intercept
    for key, binnings in effects.binnings.items():
        arrays |= {f"{name}_axes/{_text(key)}/{i}": binning.bins for i, binning in enumerate(binnings)}
    return arrays


def _restore_effects(grid: Grid, arrays: Arrays, name: str, derived: Mapping[Key, Floats]) -> Effects:
    terms = _by_key(arrays, f"{name}/") | dict(derived)
    saved_bins = _below(arrays, f"{name}_axes/")
    merged = {_key(text.partition("/")[0]) for text in saved_bins}
    binnings = {
        key: tuple(_restore_binning(saved_bins[f"{_text(key)}/{i}"], grid.sizes[j]) for i, j in enumerate(key))
        for key in merged
    }
    return Effects(grid, arrays[f"{name}_intercept"], terms, binnings)


def _restore_binning(bins: Any, n_bins: int) -> Binning:
    binning = binning_by(integers(bins))
    if bins.shape != (n_bins,) or not np.array_equal(binning.bins, bins):
        raise ValueError("the axes of a term must fit the bins of its features")
    return binning


def _describe_certificate(certificate: Certificate) -> dict[str, Any]:
    fields = [field.name for field in dataclasses.fields(TermCertificate)]  # all numbers and text: nothing to copy
    terms = [[list(names), {name: getattr(term, name) for name in fields}] for names, term in certificate.terms.items()]
    higher = None if certificate.higher is None else dataclasses.asdict(certificate.higher)
    if higher is not None:
        higher["bins"] = [list(item) for item in higher["bins"].items()]
    error, tol = certificate.reconstruction_error, certificate.tol
    plain = {"terms": terms, "reconstruction_error": error, "tol": tol, "higher": higher}
    return plain | {name: getattr(certificate, name) for name in _LATER_FIELDS}


def _restore_certificate(plain: Mapping[str, Any], names: Sequence[str]) -> Certificate:
    terms = {tuple(key): make(TermCertificate, term) for key, term in plain["terms"]}
    aliases = tuple(map(tuple, plain.get("aliases", ())))
    if not all(key and set(key) <= set(names) for key in (*terms, *aliases)):
        raise ValueError("a certificate must name features")
    saved = plain.get("higher")
    higher = None
    if saved is not None:
        bins = {whole(order): whole(size) for order, size in saved["bins"]}
        lists = {"orders": tuple(saved["orders"]), "skipped": tuple(saved.get("skipped", ()))}
        higher = make(HigherCertificate, {**saved, **lists, "bins": bins})
        if not (1 if higher.is_exact else 2) <= higher.orders[0] <= higher.orders[1]:
            raise ValueError("orders without tables must ascend, above those with tables")
    later = {name: plain[name] for name in _LATER_FIELDS if name in plain} | {"edits": tuple(plain.get("edits", ()))}
    later["aliases"] = aliases
    first = {name: plain[name] for name in ("reconstruction_error", "tol")}
    certificate: Certificate = make(Certificate, {"terms": terms, **first, "higher": higher, **later})
    for part in (certificate, *terms.values(), *([] if higher is None else [higher])):
        check_measures(part, but=["mean_gap"])
    return certificate
