"""Densities and the statistics of their rows in a file: totals, quantiles, a sample by its bins, tables of cells.

Rows are saved as bins, not values: at most 65,536 rows and 4 million bins, each row with its weight and number. Tables
are saved if the sample is not all rows; without a sample, they are all that is known of dependence.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Arrays, Floats, Ints, Key
from treeanova.density.base import Density, Joint
from treeanova.density.counting import FeatureTotals, Quantiles, Request, RowTotals, Sample, hashes_of, pool_table
from treeanova.density.kinds import KINDS, Empirical, Reference, Uniform
from treeanova.density.statistics import CountedTable, NoRowsError, Statistics
from treeanova.density.table import Table
from treeanova.model.effects import Effects
from treeanova.model.grid import Binning, Grid, binning_by, unmerged
from treeanova.model.rows import Rows
from treeanova.storage import codec

_MAX_ROWS = 1 << 16
_MAX_BINS = 1 << 22
_FEW_ROWS = 10
_SPREAD_TOTALS = ("n_finite", "finite_weight", "weight")


def after_saving(statistics: Statistics | None, fine: Grid, requests: Sequence[Request], *, rows: bool = True) -> Any:
    """Return statistics as they are after saving and loading: rows by their bins on the grid `fine`, or no rows."""
    if statistics is None:
        return None
    return unpack_statistics(*pack_statistics(statistics, fine, requests, rows=rows), statistics.grid, fine, requests)


def pack_statistics(
    statistics: Statistics, fine: Grid, requests: Sequence[Request], *, rows: bool = True
) -> tuple[dict[str, Any], Arrays]:
    """Return statistics as header and arrays, with the tables of `requests` if these do not follow from saved rows."""
    # Rows are saved by their bins on the grid `fine`, which refines that of the statistics.
    header = {
        "totals": codec.describe(statistics.totals),
        "has_weights": statistics.has_weights,
        "copied_excess": statistics.copied_excess,
    }
    n_features = len(fine.axes)
    n_saved_rows = min(_MAX_ROWS, _MAX_BINS // max(n_features, 1)) if rows else 0
    sample = statistics.sample.of_smallest_hashes(n_saved_rows)
    arrays = _pack_sample(sample, fine) | _pack_features(statistics, n_features, rows=rows)
    if len(sample) < statistics.n_rows:
        tables = statistics.counted_tables(requests)
        for order in sorted({len(key) for key in tables}):  # there may be very many, so each order has one array
            keys = [key for key in tables if len(key) == order]
            arrays[f"keys/{order}"] = codec.in_few_bytes(np.array(keys))
            arrays[f"tables/{order}"] = codec.in_few_bytes(np.concatenate([tables[key].sums.ravel() for key in keys]))
    return header, arrays


def _pack_sample(sample: Sample, fine: Grid) -> Arrays:
    """Return arrays of a sample: bins of rows on the fine grid, differences of row numbers, weights if any."""
    # Hashes are saved only if they do not follow from the rows' numbers.
    codes = codec.in_few_bytes(fine.index(Rows(sample.values)).T)
    arrays: Arrays = {"codes": codes, "numbers": codec.in_few_bytes(np.diff(sample.rows, prepend=0))}
    if sample.sources.any():
        arrays["sources"] = codec.in_few_bytes(np.diff(sample.sources, prepend=0))
    if not np.array_equal(sample.hashes, _hashes_of_rows(sample.sources, sample.rows)):
        arrays["hashes"] = sample.hashes
    return arrays if sample.weights is None else arrays | {"weights": sample.weights}


def _pack_features(statistics: Statistics, n_features: int, *, rows: bool) -> Arrays:
    """Return arrays of what was counted for single features; without `rows`, bins of few rows are left out."""
    totals = statistics.all_feature_totals()
    if not rows:  # sums of bins that have few rows would reveal values
        for j, feature_totals in totals.items():
            is_enough = statistics.counts((j,)) * statistics.n_rows > _FEW_ROWS - 0.5  # counts are shares of the rows
            totals[j] = dataclasses.replace(
                feature_totals, masses=feature_totals.masses * is_enough, sums=feature_totals.sums * is_enough
            )
    spreads = list(statistics.file_quantiles().values())  # quantiles of each feature, with their totals
    arrays: Arrays = {
        "masses": np.concatenate([np.zeros(0), *(totals[j].masses for j in range(n_features))]),
        "sums": np.concatenate([np.zeros(0), *(totals[j].sums for j in range(n_features))]),
        "ends": np.array([[totals[j].low, totals[j].high] for j in range(n_features)]),
        "spreads": np.array([[getattr(spread, name) for name in _SPREAD_TOTALS] for spread in spreads]),
        "quantiles": np.concatenate([np.zeros(0), *(spread.plain for spread in spreads)]),
        "n_quantiles": np.array([len(spread.plain) for spread in spreads]),
    }
    if statistics.has_weights:
        arrays["quantiles_by_weight"] = np.concatenate([np.zeros(0), *(spread.by_weight for spread in spreads)])
    return arrays


def unpack_statistics(
    header: Mapping[str, Any], arrays: Arrays, grid: Grid, fine: Grid, requests: Sequence[Request]
) -> Statistics:
    """Return the statistics that `pack_statistics` saved; ValueError or TypeError for impossible values."""
    totals = codec.restore(header["totals"])
    sample = _unpack_sample(arrays, fine)
    excess = header["copied_excess"]
    if type(excess) not in (int, float) or type(header["has_weights"]) is not bool or type(totals) is not RowTotals:
        raise TypeError("statistics of rows must state their weights and copies")
    positive = (totals.n_rows, totals.weight, totals.squares, totals.unit, totals.smallest, totals.largest)
    is_possible = all(0 < number < np.inf for number in positive) and totals.smallest <= totals.largest
    is_possible = is_possible and len(sample) <= totals.n_rows and 0 <= excess < 1  # it adds to a sum of squared shares
    if not is_possible or (sample.weights is not None) != bool(header["has_weights"]):
        raise ValueError("totals of rows must be positive and fit the sample")
    return Statistics(
        grid,
        totals,
        bool(header["has_weights"]),
        sample,
        tuple(requests),
        _unpack_tables(arrays, grid, {request.key: request for request in requests}),
        _unpack_features(arrays, grid),
        binned=fine,
        spreads=_unpack_spreads(arrays, len(grid.axes)),
        known_excess=excess,
    )


def _unpack_sample(arrays: Arrays, fine: Grid) -> Sample:
    """Return the sample, a value for each bin of a row; ValueError if bins or numbers are impossible."""
    codes, rows = codec.checked_integers(arrays["codes"]).T, np.cumsum(codec.checked_integers(arrays["numbers"]))
    n_rows = len(rows)
    limits = np.array(fine.sizes, dtype=np.int64)
    if codes.shape != (n_rows, len(limits)) or (n_rows and ((codes < 0).any() or (codes >= limits).any())):
        raise ValueError("bins of rows must be those of the grid")
    sources = np.cumsum(codec.checked_integers(arrays.get("sources", np.zeros(n_rows, np.int64))))
    hashes = arrays["hashes"] if "hashes" in arrays else _hashes_of_rows(sources, rows)
    weights = arrays.get("weights")
    columns = [column for column in (sources, hashes, weights) if column is not None]
    if any(column.shape != (n_rows,) for column in columns) or hashes.dtype != np.uint64:
        raise ValueError("rows of a sample must have a number, a source and a weight each")
    if rows.min(initial=0) < 0 or sources.min(initial=0) < 0:
        raise ValueError("rows of a sample must have numbers from 0 on")
    if weights is not None and not (codec.checked_finite(weights) > 0).all():
        raise ValueError("weights of rows must be positive")
    return Sample(np.asfortranarray(fine.encoded(codes.astype(np.int32))), weights, hashes, sources, rows)


def _unpack_features(arrays: Arrays, grid: Grid) -> dict[int, FeatureTotals]:
    """Return the totals of each feature's bins, by feature, from the arrays masses, sums and ends."""
    n_bins = sum(grid.sizes)
    if (codec.checked_finite(arrays["masses"], (n_bins,)) < 0).any():
        raise ValueError("masses must not be negative")
    codec.checked_finite(arrays["sums"], (n_bins,))
    pieces = (np.split(arrays[name], np.cumsum(grid.sizes)[:-1]) for name in ("masses", "sums"))
    ends = arrays["ends"].reshape(-1, 2)
    if ends.dtype != np.float64:
        raise ValueError("ends of values must be numbers")
    by_feature = enumerate(zip(*pieces, ends.tolist(), strict=True))
    return {j: FeatureTotals(masses, sums, *low_high) for j, (masses, sums, low_high) in by_feature}


def _unpack_spreads(arrays: Arrays, n_features: int) -> dict[int, Quantiles]:
    """Return the quantiles of each feature, by feature; ValueError unless they ascend."""
    totals = codec.checked_finite(arrays["spreads"]).reshape(n_features, len(_SPREAD_TOTALS))
    n_quantiles = codec.checked_integers(arrays["n_quantiles"])
    ends = np.cumsum(n_quantiles)
    flat = arrays["quantiles"], arrays.get("quantiles_by_weight", arrays["quantiles"])
    if n_quantiles.shape != (n_features,) or n_quantiles.min(initial=0) < 0 or (totals < 0).any():
        raise ValueError("numbers of quantiles and totals must not be negative, one per feature")
    if any(codec.checked_finite(quantiles).shape != (ends[-1],) for quantiles in flat if n_features):
        raise ValueError("quantiles must be as many as the file says")
    plain, by_weight = (np.split(quantiles, ends[:-1]) for quantiles in flat)
    if any((np.diff(quantiles) < 0).any() for quantiles in (*plain, *by_weight)):
        raise ValueError("quantiles must ascend")
    return {j: Quantiles(plain[j], by_weight[j], *totals[j].tolist()) for j in range(n_features)}


def table_keys(arrays: Arrays) -> list[Key]:
    """Return the keys of the tables of counted cells in a file."""
    return [tuple(key) for name, keys in arrays.items() if name.startswith("keys/") for key in keys.tolist()]


def _unpack_tables(arrays: Arrays, grid: Grid, requests: Mapping[Key, Request]) -> dict[Key, CountedTable]:
    """Return the counted tables that `requests`, by key, asks for; ValueError if one does not fit its bins."""

    def shape_of(key: Key) -> tuple[int, ...]:  # of a table, on merged bins if it was requested so
        request = requests.get(codec.checked_key(key, len(grid.axes)))
        if request is None or request.binnings is None:
            return tuple(grid.sizes[j] for j in key)
        return tuple(binning.size for binning in request.binnings)

    tables: dict[Key, CountedTable] = {}
    for name in (name for name in arrays if name.startswith("keys/")):  # per order: keys, and their tables, flat
        keys: list[Key] = [tuple(key) for key in codec.checked_integers(arrays[name]).tolist()]
        shapes = [shape_of(key) for key in keys]
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        flat = arrays[name.replace("keys", "tables")]
        if flat.shape != (ends[-1],):
            raise ValueError("tables of rows must fit the bins")
        wide = codec.checked_finite(flat) if flat.dtype.kind == "f" else codec.checked_integers(flat)
        if (wide < 0).any():
            raise ValueError("tables of rows must not be negative")
        for key, table, shape in zip(keys, np.split(wide, ends), shapes, strict=False):  # an empty piece is last
            if key in requests:
                tables[key] = CountedTable(requests[key].binnings, table.reshape(shape))
    return tables


def _hashes_of_rows(sources: Ints, rows: Ints) -> npt.NDArray[np.uint64]:
    """Return the hash of each row by its source and its number there, by which samples are drawn."""
    hashes = np.empty(len(rows), dtype=np.uint64)
    for source in np.unique(sources):
        hashes[sources == source] = hashes_of(int(source), rows[sources == source])
    return hashes


@dataclasses.dataclass(frozen=True, eq=False)
class SavedDensity(Density):
    """The density of a loaded decomposition: a kind and its options, and the weights of saved terms."""

    kind: str = ""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    saved: Mapping[Key, Floats] = dataclasses.field(default_factory=dict, repr=False)
    binnings: Mapping[Key, tuple[Binning, ...]] = dataclasses.field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.kind

    @property
    def baseline(self) -> str:  # type: ignore[override]  # as the density of this kind calls its mean score
        return Reference.baseline if self.kind == Reference.name else Density.baseline

    @property
    def ranks_on_population(self) -> bool:  # type: ignore[override]
        return self.kind == Reference.name

    @functools.cached_property
    def population(self) -> Density:  # of the rows, else uniform, if the density itself is one reference row
        if not self.ranks_on_population:
            return self
        return (Uniform if self.statistics is None else Empirical)(grid=self.grid, statistics=self.statistics)

    def bind(self, grid: Grid, statistics: Statistics | None) -> Any:  # anew by its kind, without the saved weights
        if self.kind not in KINDS:
            raise ValueError(
                f"`density` must be given again, got the saved one of the kind {self.kind!r}, whose weights are "
                "known for the saved terms only; pass a name or a table."
            )
        return KINDS[self.kind](**self.options).bind(grid, statistics)

    @property
    def joint(self) -> Joint:
        raise NoRowsError(
            "a saved decomposition must have rows for this, got none; use with_density(density, X) first."
        )

    def table(self, key: Key, binnings: Sequence[Binning] | None = None) -> Floats:
        """Sum a saved table of these and perhaps more features, and merge its bins; ValueError if none is so fine."""
        if self.ranks_on_population:  # saved weights are those of the population
            raise ValueError(
                "a saved decomposition must have its reference for this, got none, because a file does not keep that "
                "row; use with_density(Reference(row)) first."
            )
        sizes = [self._bound_grid.sizes[j] for j in key]
        target_binnings = [unmerged(size) for size in sizes] if binnings is None else binnings
        saved_keys = [saved_key for saved_key in self.saved if set(key) <= set(saved_key)]
        for larger in sorted(saved_keys, key=len):  # the smallest tables first
            saved_axes = self.binnings.get(larger) or [unmerged(self._bound_grid.sizes[j]) for j in larger]
            axes = dict(zip(larger, saved_axes, strict=True))
            pairs = [(axes[j], binning) for j, binning in zip(key, target_binnings, strict=True)]
            if all(fine.refines(coarse) for fine, coarse in pairs):
                table: Floats = self.saved[larger].sum(axis=tuple(i for i, j in enumerate(larger) if j not in key))
                return pool_table(table, [binning_by(coarse.within(fine)) for fine, coarse in pairs])
        raise ValueError("a saved decomposition has the weights of its own terms only; pass `X` for others.")


def describe_density(density: Density) -> dict[str, Any]:
    """Return a density's name, options and whether it is a product, as plain data for the header."""
    if isinstance(density, SavedDensity):
        return {"name": density.kind, "options": dict(density.options), "is_product": density.is_product}
    fields = {f.name: getattr(density, f.name) for f in dataclasses.fields(density)}
    plain = {
        name: value
        for name, value in fields.items()
        if isinstance(value, (int, float, str)) and not name.startswith("_")
    }
    return {"name": density.name, "options": plain, "is_product": density.is_product}


def restore_density(
    plain: Mapping[str, Any], effects: Effects, weights: Mapping[Key, Floats], statistics: Statistics | None = None
) -> Density:
    """Return the density of a header: bound to the statistics if there are any, else with the saved weights alone."""
    grid = effects.grid
    kind = KINDS.get(plain["name"], Table)
    option_names = {field.name for field in dataclasses.fields(kind) if not field.name.startswith("_")}
    options = {name: value for name, value in plain["options"].items() if name in option_names}
    codec.check_fields(kind, options)
    if type(plain["is_product"]) is not bool or not isinstance(plain["name"], str):
        raise TypeError("a saved density must have a name, and say whether it is a product")
    if statistics is not None and plain["name"] in KINDS:
        bound = kind(**options).bind(grid, statistics)
        has_rows = len(statistics.sample) > 0
        return bound if has_rows else dataclasses.replace(bound, _was_product=plain["is_product"])
    if not kind.needs_data and kind is not Table:  # it may be computed again, if that gives the saved weights
        restored = kind(**options, grid=grid)
        tables = ((restored.table(key, effects.binnings.get(key)), table) for key, table in weights.items())
        if all(np.array_equal(again, table) for again, table in tables):
            return restored
    return SavedDensity(
        kind=plain["name"],
        options=options,
        saved=weights,
        binnings=dict(effects.binnings),  # a mapping proxy has no pickle
        _was_product=plain["is_product"],
        grid=grid,
        statistics=statistics,
    )
