"""Comparison of decompositions: distances of terms, signs of main effects, ranks of importance."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Ints, Key
from treeanova.core.labels import label_of
from treeanova.core.progress import Progress, one_step, reporting, within
from treeanova.data.frames import frame
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.importance import strongest_first
from treeanova.density.statistics import NoRowsError
from treeanova.model.binning import Binning, binning_by, common_refinements, unmerged
from treeanova.model.union import union

_TERMS_AT_ONCE = 256


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison:
    """Differences of decompositions to the first of them, as three tables; `print` it.

    Attributes
    ----------
    names
        Names of the decompositions.
    distance
        Table with a row per term, output and decomposition: the weighted root mean square difference to the first
        decomposition, also divided by the standard deviation of the first score. Terms without a table are compared at
        rows that represent the density; NaN where no decomposition has rows, because all were loaded from files. The
        largest come first.
    signs
        Table with a row per main effect: the share of the weight in bins where its sign differs from the first, the
        largest first.
    ranks
        Table with a row per term: its rank by variance in each decomposition, as in `Decomposition.importance`; none
        where a decomposition has no such term. In the order of the first.

    Examples
    --------
    >>> import treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> comparison = treeanova.compare({"pure": fx, "raw": fx.raw})
    >>> list(comparison.ranks)
    ['term', 'pure', 'raw']
    """

    names: tuple[str, ...]
    distance: Any
    signs: Any
    ranks: Any

    def __str__(self) -> str:
        parts = ("distances", self.distance), ("changed signs of main effects", self.signs), ("ranks", self.ranks)
        return "\n\n".join([f"compared with {self.names[0]}", *(f"{title}\n{table}" for title, table in parts)])


def compare(decompositions: Mapping[str, Decomposition], *, progress: bool | Progress | None = None) -> Comparison:
    """What changes between decompositions: distances of terms, signs of main effects, ranks of importance.

    Parameters
    ----------
    decompositions
        Names to decompositions with the same features and outputs. The others are compared with the first, under its
        weights: ``{"pure": fx, "raw": fx.raw}`` shows what purification changed.
    progress
        True for a progress bar, or a function, as for `decompose`.

    Returns
    -------
    Comparison
        Three tables.

    Examples
    --------
    The raw tree of x0 AND x1 has one term, the interaction; its main effects are zero before purification:

    >>> import treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> distance = treeanova.compare({"pure": fx, "raw": fx.raw}).distance
    >>> [round(float(value), 2) for value in distance["distance"]]
    [0.43, 0.25, 0.25]
    """
    if not isinstance(decompositions, Mapping):
        kind = type(decompositions).__name__
        raise TypeError(f"`decompositions` must map names to decompositions, got {kind}; pass {{'raw': fx.raw, …}}.")
    if len(decompositions) < 2:
        raise ValueError(f"`decompositions` must hold at least two, got {len(decompositions)}; add fx.raw, for one.")
    names, parts = list(decompositions), list(decompositions.values())
    kinds = dict.fromkeys(f"{', '.join(part.schema.outputs)} ({part.schema.link})" for part in parts)
    if len(kinds) > 1:
        raise ValueError(
            f"`decompositions` must have the same outputs and link, got {' and '.join(kinds)}; compare models of one "
            "kind."
        )
    with reporting(progress) as report:
        for name, part in decompositions.items():
            part.importance(progress=within(report, name))
        return _compared(names, parts, report)


def _compared(names: list[str], parts: list[Decomposition], progress: Progress) -> Comparison:
    grid, maps = union([part.grid for part in parts])
    keys = sorted({key for part in parts for key in part.termset.keys}, key=lambda key: (len(key), key))
    at_rows = {key for part in parts for key in part.termset.keys_at_rows}
    tensors = [key for key in keys if key not in at_rows]
    axes = {key: _common_axes(parts, maps, key) for key in tensors}
    labels = {key: label_of(grid.schema.names[j] for j in key) for key in keys}
    with one_step(progress, "tables side by side"):
        tables = {key: _weights(parts, maps, key, axes[key]) for key in tensors}
        terms = [
            {key: _on_axes(part, old, key, axes[key]) for key in tensors} for part, old in zip(parts, maps, strict=True)
        ]
    gaps_at_rows = _gaps_at_rows(parts, [key for key in keys if key in at_rows])
    side_by_side = _SideBySide(names, parts[0], labels, tables, terms, gaps_at_rows)
    return Comparison(tuple(names), _distances(side_by_side), _signs(side_by_side), _ranks(names, parts, labels))


class _SideBySide(NamedTuple):
    """Terms of all decompositions on one grid, with the weights of the first."""

    names: list[str]
    first: Decomposition
    labels: dict[Key, str]
    tables: dict[Key, Floats]
    terms: list[dict[Key, Floats]]
    gaps_at_rows: dict[Key, Floats]


def _bins_on_union(part: Decomposition, old: Sequence[Ints], key: Key) -> list[Ints]:
    """The bin of a term's own axes that contains each bin of the union, feature by feature."""
    return [binning.bins[old[j]] for j, binning in zip(key, part.effects.binnings_of(key), strict=True)]


def _common_axes(parts: Sequence[Decomposition], maps: Sequence[Sequence[Ints]], key: Key) -> list[Binning]:
    """Axes for a term that distinguish what the axes of any decomposition do; the union's where none has its own."""
    holders = [(part, old) for part, old in zip(parts, maps, strict=True) if key in part.effects.terms]
    if not any(key in part.effects.binnings for part, _ in holders):
        return [unmerged(len(holders[0][1][j])) for j in key]
    binnings = [[binning_by(bins) for bins in _bins_on_union(part, old, key)] for part, old in holders]
    return list(common_refinements(binnings))


def _places(part: Decomposition, old: Sequence[Ints], key: Key, axes: Sequence[Binning]) -> list[Ints]:
    """The bin of a term's own axes that contains each bin of common axes."""
    return [axis.one_of_each(bins) for bins, axis in zip(_bins_on_union(part, old, key), axes, strict=True)]


def _on_axes(part: Decomposition, old: Sequence[Ints], key: Key, axes: Sequence[Binning]) -> Floats:
    """A term on common axes; zero where the decomposition lacks it."""
    values = part.effects.terms.get(key)
    if values is None:
        return np.zeros((*(axis.size for axis in axes), part.termset.n_outputs))
    return values[np.ix_(*_places(part, old, key, axes))]


def _weights(
    parts: Sequence[Decomposition], maps: Sequence[Sequence[Ints]], key: Key, axes: Sequence[Binning]
) -> Floats:
    """Weights of the first decomposition that has the term, each cell's shared equally by the cells within it."""
    part, old = next((part, old) for part, old in zip(parts, maps, strict=True) if key in part.effects.terms)
    places = _places(part, old, key, axes)
    table = part.weights[key][np.ix_(*places)]
    for axis, place in enumerate(places):
        copies = np.bincount(place)[place]
        table = table / copies.reshape([-1 if i == axis else 1 for i in range(len(key))])
    return table


def _gaps_at_rows(parts: list[Decomposition], keys: list[Key]) -> dict[Key, Floats]:
    """Root mean square differences to the first, shape (n_others, n_outputs), of terms without a table in some parts.

    At rows of the first decomposition that has any; NaN where all have lost theirs by being saved.
    """
    if not keys:
        return {}
    maps = union([part.evaluation.grid for part in parts])[1]
    found = _rows_on_union(parts, maps)
    if found is None:
        return dict.fromkeys(keys, np.full((len(parts) - 1, parts[0].termset.n_outputs), np.nan))
    codes, weights = found
    gaps: dict[Key, Floats] = {}
    for some in chunks(keys):
        values = [_values_at_rows(part, old, codes, some) for part, old in zip(parts, maps, strict=True)]
        squares = np.stack([(other - values[0]) ** 2 for other in values[1:]])
        gaps |= dict(zip(some, np.moveaxis(np.sqrt(np.einsum("ptnk,n->ptk", squares, weights)), 1, 0), strict=True))
    return gaps


def chunks(keys: list[Key]) -> Iterator[list[Key]]:
    """Keys, some hundred at a time."""
    for start in range(0, len(keys), _TERMS_AT_ONCE):
        yield keys[start : start + _TERMS_AT_ONCE]


def _rows_on_union(parts: list[Decomposition], maps: Sequence[Sequence[Ints]]) -> tuple[BinIndices, Floats] | None:
    """Bins on the union of grids, and weights, of rows that represent the density of the first part that has rows."""
    for part, old in zip(parts, maps, strict=True):
        try:
            codes, weights = part.density_rows
        except NoRowsError:
            continue
        rng = np.random.default_rng(part.settings.random_state)
        is_there = np.all([np.isin(codes[:, j], bins) for j, bins in enumerate(old)], axis=0)
        codes, weights = codes[is_there], weights[is_there]
        columns = [_bins_within(bins, codes[:, j], rng) for j, bins in enumerate(old)]
        return np.stack(columns, axis=1).astype(np.int32), weights / weights.sum()
    return None


def _bins_within(old: Any, codes: Any, rng: np.random.Generator) -> Any:
    """A new bin within each old one, all of them equally likely."""
    counts = np.bincount(old)
    position = np.floor(rng.random(len(codes)) * counts[codes]).astype(np.int64)
    return np.argsort(old, kind="stable")[(np.cumsum(counts) - counts)[codes] + position]


def _values_at_rows(part: Decomposition, old: Sequence[Ints], codes: BinIndices, keys: list[Key]) -> Floats:
    """Terms at rows given by their bins on the union, shape (n_keys, n_rows, n_outputs); zero without a term."""
    values = np.zeros((len(keys), len(codes), part.termset.n_outputs))
    known = [i for i, key in enumerate(keys) if part.evaluation.knows(key)]
    if known:
        bins = np.stack([bins[codes[:, j]] for j, bins in enumerate(old)], axis=1).astype(np.int32)
        values[known] = part.evaluation.at(bins, [keys[i] for i in known])
    return values


def _distances(both: _SideBySide) -> Any:
    outputs = both.first.schema.outputs
    spread = np.sqrt(both.first.moments.score_variance)
    rows: list[tuple[Any, ...]] = []
    for position, (name, terms) in enumerate(zip(both.names[1:], both.terms[1:], strict=True)):
        for key, label in both.labels.items():
            gap = both.gaps_at_rows[key][position] if key in both.gaps_at_rows else _gap(both, terms, key)
            relative = np.divide(gap, spread, out=np.zeros_like(gap), where=spread > 0)
            rows += [(label, output, name, gap[k], relative[k]) for k, output in enumerate(outputs)]
    rows.sort(key=lambda row: -row[-1] if row[-1] >= 0 else np.inf)  # NaN last
    columns = ("term", "output", "decomposition", "distance", "relative")
    return frame({column: [row[i] for row in rows] for i, column in enumerate(columns)}, both.first.settings.backend)


def _gap(both: _SideBySide, terms: Mapping[Key, Floats], key: Key) -> Floats:
    """Root mean square difference of a term to the first's, per output."""
    squares = (terms[key] - both.terms[0][key]) ** 2
    gap: Floats = np.sqrt(np.tensordot(both.tables[key], squares, axes=len(key)))
    return gap


def _signs(both: _SideBySide) -> Any:
    outputs = both.first.schema.outputs
    mains = [key for key in both.tables if len(key) == 1]
    columns: dict[str, list[Any]] = {"term": [both.labels[key] for key in mains for _ in outputs]}
    columns["output"] = [output for _ in mains for output in outputs]
    for name, terms in zip(both.names[1:], both.terms[1:], strict=True):
        changed = [both.tables[key] @ (np.sign(terms[key]) * np.sign(both.terms[0][key]) < 0) for key in mains]
        columns[name] = [float(share) for shares in changed for share in shares]
    largest = np.max([columns[name] for name in both.names[1:]], axis=0, initial=0.0)
    return frame(_sorted(columns, -largest), both.first.settings.backend)


def _sorted(columns: Mapping[str, list[Any]], keys: Sequence[float] | Floats) -> dict[str, list[Any]]:
    """Columns with their rows in ascending order of a number each; NaN last."""
    order = np.argsort(keys, kind="stable")
    return {name: [column[i] for i in order] for name, column in columns.items()}


def _ranks(names: list[str], parts: list[Decomposition], labels: dict[Key, str]) -> Any:
    """Ranks by variance, summed over outputs; 1 is the largest, None says that a term is not there."""
    columns: dict[str, list[Any]] = {"term": list(labels.values())}
    for name, part in zip(names, parts, strict=True):
        order = strongest_first(part.moments.variance.sum(axis=1))
        keys = dict(enumerate(part.termset.keys))  # a remainder comes last and has no key
        own = {keys.get(i): rank for rank, i in enumerate(order, start=1)}
        columns[name] = [own.get(key) for key in labels]
    best = [min(rank for rank in ranks if rank) for ranks in zip(*(columns[name] for name in names), strict=True)]
    first = [np.inf if rank is None else rank for rank in columns[names[0]]]
    places: Floats = np.lexsort((best, first)).argsort().astype(np.float64)
    return frame(_sorted(columns, places), parts[0].settings.backend)
