"""Comparison of decompositions: distances of terms, signs, ranks; sensitivity to the density.

Terms are compared at the rows of both decompositions, not by masses of bins: if one model divides a bin of the other,
the split of its mass is unknown.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Key
from treeanova.core.compiled import affordable
from treeanova.core.progress import Progress, reporting, within
from treeanova.data.columns import frame, printable
from treeanova.data.files import records
from treeanova.data.recoding import recoded_column
from treeanova.decomposition.answers import density_rows_of, moments_of, table_weights_of
from treeanova.decomposition.decomposition import Decomposition, check_decompositions
from treeanova.decomposition.function import check_same_outputs, labels_by_key
from treeanova.decomposition.importance import strongest_first
from treeanova.decomposition.predictions import backend_of_tables, function_of
from treeanova.decomposition.result import Result, aligned_rows
from treeanova.density.statistics import Statistics, check_weighted_rows, statistics_of
from treeanova.model.grid import bins_within, union
from treeanova.terms.terms import each_in_one_piece
from treeanova.views import percent

_TERMS_AT_ONCE = 256
_VALUES_AT_ONCE = 1 << 22
_STEPS = 2.0**33  # of terms without a table, at fewer rows if these would take longer
_FEWEST_ROWS = 200


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """Differences between decompositions and the first of them, as three tables; `print` it.

    Attributes
    ----------
    names
        Names of the decompositions.
    distance
        Table with a row per term, output and decomposition: the root mean square difference to the term of the first
        decomposition, also divided by the standard deviation of the first score; NaN if unknown. The largest come
        first.
    signs
        Table with a row per main effect: the share of rows at which its sign differs from the first; the largest first.
    ranks
        Table with a row per term: its rank by variance in each decomposition, as in `Decomposition.importance`; none
        without such a term. In the order of the first.
    notes
        What is unknown, or known from some of the rows only.

    Notes
    -----
    Root mean squares and shares are taken over the rows of the two decompositions, whatever their densities. Two
    different sets of rows have half of the weight each, so a distance does not depend on the order. Rows with values
    that one of the models does not accept, such as missing ones, are left out. A decomposition from a file has only the
    bins of rows; if the other model divides these bins further, only the other's rows are used. If neither has usable
    rows, the weights of the term's cells take their place if both have it on the same bins; otherwise the distance is
    NaN: pass `X` to `compare` then.

    Examples
    --------
    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()
    >>> comparison = treeanova.compare({"pure": fx, "raw": fx.raw})
    >>> list(comparison.ranks)
    ['term', 'pure', 'raw']
    """

    names: tuple[str, ...]
    distance: Any
    signs: Any
    ranks: Any
    notes: tuple[str, ...] = ()

    def _content_of_dict(self) -> dict[str, Any]:
        tables = {name: records(getattr(self, name)) for name in ("distance", "signs", "ranks")}
        return {"names": list(self.names), "notes": list(self.notes), **tables}

    def _text_of_top(self, top: int) -> str:
        content = self._content_of_dict()
        first, *compared_names = content["names"]
        by_name = [{"term": row["term"], row["decomposition"]: row["relative"]} for row in content["distance"]]
        distances, signs = _largest_by_term(by_name, compared_names), _largest_by_term(content["signs"], compared_names)
        ranks = {row["term"]: [(name, row[name]) for name in content["names"]] for row in content["ranks"]}
        lines = [
            {"term": term}
            | {f"Δ {name}": percent(distances[term][name]) for name in compared_names}
            | {f"rank {name}": "–" if rank is None or np.isnan(rank) else str(int(rank)) for name, rank in ranks[term]}
            | {f"sign {name}": percent(signs[term][name]) if term in signs else "" for name in compared_names}
            for term in sorted(distances, key=lambda term: -np.nan_to_num([*distances[term].values()], nan=-1).max())
        ]
        notes = "".join(f"\n{printable(note)}" for note in self.notes)
        return (
            f"Compared with {first}. Δ: root mean square difference of a term, in standard deviations of the score;\n"
            "rank: by variance, – where there is no such term; sign: share of rows where a main effect has the other "
            f"sign.{notes}\n\n{aligned_rows(lines, top)}"
        )


def _largest_by_term(rows: Iterable[Mapping[str, Any]], names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the largest number in records of a term's outputs, by term and name; NaN if one of them is NaN."""
    largest: dict[str, dict[str, float]] = {}
    for row in rows:
        numbers = largest.setdefault(row["term"], dict.fromkeys(names, 0.0))
        numbers.update({name: max(row[name], numbers[name]) for name in names if name in row})  # NaN stays, being first
    return largest


def compare(
    decompositions: Mapping[str, Decomposition],
    *,
    X: Any = None,
    sample_weight: Any = None,
    progress: bool | Progress | None = None,
) -> Comparison:
    """Compare decompositions: distances of terms, signs of main effects, ranks of importance.

    Parameters
    ----------
    decompositions
        Names to decompositions with the same features, outputs and classes. The others are compared with the first:
        ``{"pure": fx, "raw": fx.raw}`` shows what purification changed.
    X
        Rows at which terms are compared; by default those of the decompositions (see `Comparison`). Above 262,144 rows,
        a sample of so many is taken, and `Comparison.notes` says so.
    sample_weight
        Weights of the rows of `X`, or the name of the column that holds them.
    progress
        True for a progress bar, or a function, as for `decompose`.

    Returns
    -------
    Comparison
        Three tables.

    Examples
    --------
    The raw tree of x0 AND x1 has one term, the interaction; its main effects are zero before purification:

    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()
    >>> distance = treeanova.compare({"pure": fx, "raw": fx.raw}).distance
    >>> [round(float(value), 2) for value in distance["distance"]]
    [0.43, 0.25, 0.25]
    """
    if not isinstance(decompositions, Mapping):
        kind = type(decompositions).__name__
        raise TypeError(f"`decompositions` must map names to decompositions, got {kind}; pass {{'raw': fx.raw, …}}.")
    if len(decompositions) < 2:
        raise ValueError(f"`decompositions` must hold at least two, got {len(decompositions)}; add fx.raw, for one.")
    names, members = list(decompositions), list(decompositions.values())
    check_decompositions("decompositions", members)
    check_same_outputs("`decompositions`", [fx.schema for fx in members])
    check_weighted_rows(X, sample_weight)
    with reporting(progress) as report:
        grid = union([fx.grid for fx in members])[0]  # raises if columns are read in different ways
        statistics = None if X is None else statistics_of(X, grid, sample_weight)
        for name, fx in decompositions.items():
            fx.importance(progress=within(report, name))
        return _comparison_of(names, members, statistics)


Pair = tuple[Decomposition, Decomposition]
Gaps = dict[Key, Floats]  # mean square difference of a term, and share of rows with opposite signs, (2, n_outputs)


def _comparison_of(names: list[str], members: list[Decomposition], statistics: Statistics | None) -> Comparison:
    """Compare all members with the first: at rows of `statistics`, or at the rows of both."""
    keys = sorted({key for fx in members for key in function_of(fx).terms.keys}, key=lambda key: (len(key), key))
    labels = labels_by_key(keys, members[0].schema.names)
    gaps: dict[str, Gaps] = {}
    notes: list[str] = []
    for name, fx in zip(names[1:], members[1:], strict=True):
        pair = members[0], fx
        row_sets = _row_sets(pair) if statistics is None else [statistics]
        gaps[name] = _gaps(pair, row_sets, keys)
        notes += [f"{name}: {note}" for note in _notes_on_rows(pair, row_sets, gaps[name])]
    distances, signs = _distances(members[0], labels, gaps), _signs(members[0], labels, gaps)
    return Comparison(tuple(names), distances, signs, _ranks(names, members, labels), tuple(notes))


def _row_sets(pair: Pair) -> list[Statistics]:
    """Return the rows of both decompositions, once if they are the same."""
    candidates = [fx.density.statistics for fx in pair]
    row_sets = [statistics for statistics in candidates if statistics is not None and len(statistics.sample)]
    return row_sets[:1] if len(row_sets) == 2 and row_sets[0] is row_sets[1] else row_sets


def _n_affordable_rows(pair: Pair) -> int:
    """Return at how many rows terms without a table can be evaluated in reasonable time."""
    cost = max(function_of(fx).terms.row_cost for fx in pair)
    return max(_FEWEST_ROWS, int(affordable(_STEPS) / max(cost, 1.0)))


def _gaps(pair: Pair, row_sets: Sequence[Statistics], keys: Sequence[Key]) -> Gaps:
    """Return, by key, the gap of a term between a pair, averaged over sets of rows; NaN if unknown."""
    at_rows = {key for fx in pair for key in function_of(fx).terms.keys_at_rows}
    in_tables, without_tables = [key for key in keys if key not in at_rows], [key for key in keys if key in at_rows]
    by_key: dict[Key, list[Floats]] = {key: [] for key in keys}
    for statistics in row_sets:
        for n_rows, some_keys in ((statistics.n_rows, in_tables), (_n_affordable_rows(pair), without_tables)):
            for key, gap in _gaps_at(pair, statistics, n_rows, some_keys):
                by_key[key].append(gap)
    first, second = pair
    for key in in_tables:
        if not by_key[key]:
            by_weights = (_gap_by_weights(first, second, key), _gap_by_weights(second, first, key))
            by_key[key] = [gap for gap in by_weights if gap is not None]
    unknown = np.full((2, function_of(first).terms.n_outputs), np.nan)
    return {key: np.mean(gaps, axis=0) if gaps else unknown for key, gaps in by_key.items()}


def _gaps_at(pair: Pair, statistics: Statistics, n_rows: int, keys: list[Key]) -> Iterator[tuple[Key, Floats]]:
    """Yield keys and gaps at up to `n_rows` rows, (2, n_outputs): mean square difference, share of opposite signs."""
    if not keys:
        return
    bins, weights, uncertain = _rows_for_both(statistics, n_rows, pair)
    n_outputs = function_of(pair[0]).terms.n_outputs
    for some_keys in chunks_of_keys([key for key in keys if len(weights) and uncertain.isdisjoint(key)]):
        sums = np.zeros((2, len(some_keys), n_outputs))
        step = max(1, _VALUES_AT_ONCE // (len(some_keys) * n_outputs))
        for start in range(0, len(weights), step):
            block = slice(start, start + step)
            first, second = (_values_at(fx, codes[block], some_keys) for fx, codes in zip(pair, bins, strict=True))
            sums += _gap_sums(first, second, weights[block])
        yield from zip(some_keys, sums.swapaxes(0, 1), strict=True)


def _gap_sums(first: Floats, second: Floats, weights: Floats) -> Floats:
    """Sum squared differences, and weights of opposite signs, of values (n_rows, n_terms, n_outputs) over rows."""
    is_opposite = np.sign(first) * np.sign(second) < 0
    measures = ((first - second) ** 2, is_opposite.astype(np.float64))
    return np.stack([np.einsum("ntk,n->tk", measure, weights) for measure in measures])


def _notes_on_rows(pair: Pair, row_sets: Sequence[Statistics], gaps: Gaps) -> list[str]:
    """Say how many terms cannot be compared, and which were compared at fewer rows."""
    notes = []
    n_unknown = sum(bool(np.isnan(gap[0]).any()) for gap in gaps.values())
    if n_unknown:
        notes.append(
            f"{n_unknown:,} of {len(gaps):,} terms cannot be compared, because no rows are known by their values; "
            "pass the rows to compare at"
        )
    at_rows = any(function_of(fx).terms.keys_at_rows for fx in pair)
    limit = _n_affordable_rows(pair) if at_rows else np.inf
    for statistics in row_sets:
        if len(statistics.sample) < statistics.n_rows:
            notes.append(f"at {len(statistics.sample):,} of {statistics.n_rows:,} rows")
        if len(statistics.sample) >= 2 * limit:
            notes.append(f"terms without a table at about {limit:,} of {statistics.n_rows:,} rows")
    return list(dict.fromkeys(notes))


def _rows_for_both(statistics: Statistics, n_rows: int, pair: Pair) -> tuple[list[BinIndices], Floats, set[int]]:
    """Return bins in each model of rows that both accept, their weights, and features with uncertain bins."""
    values, weights = statistics.rows(n_rows)
    bins, uncertain = [], set[int]()
    for fx in pair:
        codes_in_fx, uncertain_in_fx = _bins_in(fx, values, statistics)
        bins.append(codes_in_fx)
        uncertain |= uncertain_in_fx
    certain = [j for j in range(values.shape[1]) if j not in uncertain]
    is_accepted = np.all([(codes[:, certain] >= 0).all(axis=1) for codes in bins], axis=0)
    weights = weights[is_accepted]
    return [codes[is_accepted] for codes in bins], weights / (weights.sum() or 1.0), uncertain


def _bins_in(fx: Decomposition, values: Floats, statistics: Statistics) -> tuple[BinIndices, set[int]]:
    """Return codes of encoded rows on a model's grid, and features whose bins are uncertain (codes 0)."""
    # The model may number categories differently, and a file may keep bins of rows that the model divides.
    grid, binned = function_of(fx).grid, statistics.binned
    codes, uncertain = np.zeros(values.shape, dtype=np.int32), set[int]()
    pairs = zip(statistics.grid.schema.features, grid.schema.features, strict=True)
    for j, (feature_of_rows, feature) in enumerate(pairs):
        column = recoded_column(values[:, j], feature_of_rows, feature)
        is_divided = binned is not None and bins_within(binned.axes[j], grid.axes[j]) is None
        if column is None or is_divided:
            uncertain.add(j)
        else:
            codes[:, j] = grid.axes[j].index(column)
    return codes, uncertain


def _values_at(fx: Decomposition, codes: BinIndices, keys: list[Key]) -> Floats:
    """Return terms at rows, shape (n_rows, n_keys, n_outputs); zero for terms that the model lacks."""
    function = function_of(fx)
    values = each_in_one_piece(len(codes), len(keys), function.terms.n_outputs)
    indices = [i for i, key in enumerate(keys) if function.has_term(key)]
    if indices:
        values[:, indices] = function.at(codes, [keys[i] for i in indices])
    return values


def chunks_of_keys(keys: list[Key]) -> Iterator[list[Key]]:
    """Divide keys into lists whose terms are evaluated at a time."""
    for start in range(0, len(keys), _TERMS_AT_ONCE):
        yield keys[start : start + _TERMS_AT_ONCE]


def _gap_by_weights(owner: Decomposition, other: Decomposition, key: Key) -> Floats | None:
    """Return a term's gap under the weights of `owner`; None if that lacks the term, or `other` divides its bins."""
    effects, other_effects = function_of(owner).effects, function_of(other).effects
    if key not in effects.terms:
        return None
    values, weights = effects.terms[key], table_weights_of(owner)[key]
    compared = np.zeros_like(values)
    if key in other_effects.terms:
        axes = zip(effects.axes_of(key), other_effects.axes_of(key), strict=True)
        other_bins = [bins_within(axis, other_axis) for axis, other_axis in axes]  # of each bin; -1 without one
        if any(bins is None for bins in other_bins):
            return None
        cells = np.ix_(*(bins for bins in other_bins if bins is not None))
        weights = weights * np.all(np.broadcast_arrays(*(bins >= 0 for bins in cells)), axis=0)
        compared = other_effects.terms[key][cells]
    first, second = (table.reshape(weights.size, 1, -1) for table in (values, compared))
    return np.asarray(_gap_sums(first, second, weights.ravel() / weights.sum())[:, 0])


def _distances(first: Decomposition, labels: Mapping[Key, str], gaps_by_name: Mapping[str, Gaps]) -> Any:
    """Return a data frame of root mean square differences by term, output and decomposition, largest first."""
    spread = np.sqrt(moments_of(first).score_variance)
    rows: list[tuple[Any, ...]] = []
    for name, gaps in gaps_by_name.items():
        for key, label in labels.items():
            gap = np.sqrt(gaps[key][0])
            relative = np.divide(gap, spread, out=np.full_like(gap, np.nan), where=spread > 0)
            rows += [(label, output, name, gap[k], relative[k]) for k, output in enumerate(first.outputs)]
    rows.sort(key=lambda row: tuple(-size if size >= 0 else np.inf for size in (row[-1], row[-2])))  # NaN last
    columns = ("term", "output", "decomposition", "distance", "relative")
    return frame({column: [row[i] for row in rows] for i, column in enumerate(columns)}, backend_of_tables(first))


def _signs(first: Decomposition, labels: Mapping[Key, str], gaps_by_name: Mapping[str, Gaps]) -> Any:
    """Return a data frame of the shares of rows at which main effects have opposite signs."""
    mains = [key for key in labels if len(key) == 1]
    columns: dict[str, list[Any]] = {"term": [labels[key] for key in mains for _ in first.outputs]}
    columns["output"] = [output for _ in mains for output in first.outputs]
    for name, gaps in gaps_by_name.items():
        columns[name] = [float(share) for key in mains for share in gaps[key][1]]
    largest = np.max([columns[name] for name in gaps_by_name], axis=0, initial=0.0)
    return frame(_sorted_by(columns, -largest), backend_of_tables(first))


def _sorted_by(columns: Mapping[str, list[Any]], numbers: Sequence[float] | Floats) -> dict[str, list[Any]]:
    """Sort the rows of a table, given by its columns, by a number each; NaN last."""
    order = np.argsort(numbers, kind="stable")
    return {name: [column[i] for i in order] for name, column in columns.items()}


def _ranks(names: list[str], members: list[Decomposition], labels: dict[Key, str]) -> Any:
    """Return a data frame of ranks by variance, summed over outputs, per decomposition; None for a missing term."""
    columns: dict[str, list[Any]] = {"term": list(labels.values())}
    for name, fx in zip(names, members, strict=True):
        order = strongest_first(moments_of(fx).variance.sum(axis=1))
        keys = dict(enumerate(function_of(fx).terms.keys))  # a remainder comes last and has no key
        rank_of_key = {keys.get(i): rank for rank, i in enumerate(order, start=1)}
        columns[name] = [rank_of_key.get(key) for key in labels]
    best = [min(rank for rank in ranks if rank) for ranks in zip(*(columns[name] for name in names), strict=True)]
    first = [np.inf if rank is None else rank for rank in columns[names[0]]]
    # by rank in the first decomposition, then by the best rank in any
    places: Floats = np.lexsort((best, first)).argsort().astype(np.float64)
    return frame(_sorted_by(columns, places), backend_of_tables(members[0]))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(Result):
    """How much each effect of a model depends on the density; made by `treeanova.density_sensitivity`.

    Attributes
    ----------
    decompositions
        One per density, by name.
    table
        Table with a row per term and output: the largest distance between two densities, divided by the standard
        deviation of the score; the share of variance under each density; the largest weight of cells where signs
        differ; and the two densities that differ most (often "uniform": leave it out of `densities` to compare the
        others).
    mains
        Table for plots: every main effect under every density, a row per bin.

    Examples
    --------
    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()
    >>> sensitivity = treeanova.density_sensitivity(fx.model, X, ["uniform", "empirical"])
    >>> [float(distance) for distance in sensitivity.table["distance"]]  # the four rows are uniform
    [0.0, 0.0, 0.0]
    """

    decompositions: Mapping[str, Decomposition]
    table: Any
    mains: Any

    def _content_of_dict(self) -> dict[str, Any]:
        tables = {"table": records(self.table), "mains": records(self.mains)}
        return {"densities": list(self.decompositions), **tables}

    def _text_of_top(self, top: int) -> str:
        return aligned_rows(records(self.table), top)


def sensitivity(decompositions: Mapping[str, Decomposition], base: Decomposition) -> Sensitivity:
    """Measure how the terms of one model differ between densities, on average over the density of `base`."""
    return Sensitivity(decompositions, _sensitivity_table(decompositions, base), _main_effects(decompositions, base))


def _sensitivity_table(decompositions: Mapping[str, Decomposition], base: Decomposition) -> Any:
    """Return a row per term and output with the largest differences between any two densities."""
    spread = np.sqrt(moments_of(base).score_variance)
    labels = labels_by_key(function_of(base).terms.keys, base.schema.names)
    names = list(itertools.combinations(decompositions, 2))
    shares = {name: _shares_by_key(fx) for name, fx in decompositions.items()}
    rows: list[dict[str, Any]] = []
    for key, values, weights in _terms_under_each(decompositions, base):
        pairs, n_axes = list(itertools.combinations(values, 2)), weights.ndim
        gaps = np.array([np.tensordot(weights, (first - second) ** 2, axes=n_axes) for first, second in pairs])
        gap = np.sqrt(gaps.max(axis=0))
        opposite = np.max([np.tensordot(weights, one * other < 0, axes=n_axes) for one, other in pairs], axis=0)
        for k, output in enumerate(base.schema.outputs):
            distance = float(gap[k] / spread[k]) if spread[k] > 0 else np.nan
            row: dict[str, Any] = {"term": labels[key], "output": output, "distance": distance}
            row |= {f"share {name}": float(share[key][k]) if key in share else np.nan for name, share in shares.items()}
            between = " and ".join(names[int(gaps[:, k].argmax())])
            rows.append(row | {"sign differs": float(opposite[k]), "between": between})
    rows.sort(key=lambda row: -row["distance"] if row["distance"] >= 0 else np.inf)  # NaN last
    return frame({column: [row[column] for row in rows] for column in rows[0]} if rows else {}, backend_of_tables(base))


def _terms_under_each(
    decompositions: Mapping[str, Decomposition], base: Decomposition
) -> Iterator[tuple[Key, Sequence[Floats], Floats]]:
    """Yield each term, its values under each density, and weights: over cells, or over rows without a table."""
    functions = [function_of(fx) for fx in decompositions.values()]
    for key in function_of(base).effects.terms:
        yield key, [function.effects.terms[key] for function in functions], table_weights_of(base)[key]
    higher = list(function_of(base).terms.keys_at_rows)
    if higher:
        codes, weights = density_rows_of(base)
        for some_keys in chunks_of_keys(higher):
            by_density = [function.at(codes, some_keys) for function in functions]
            yield from ((key, [values[:, i] for values in by_density], weights) for i, key in enumerate(some_keys))


def _shares_by_key(fx: Decomposition) -> dict[Key, Floats]:
    """Return each listed term's share of the score's variance, covariances included, shape (n_outputs,)."""
    moments, total = moments_of(fx), moments_of(fx).score_variance
    shares = (moments.variance + moments.covariance) / np.where(total > 0, total, 1.0)
    return dict(zip(function_of(fx).terms.keys, shares, strict=False))  # sums and a remainder have no key


def _main_effects(decompositions: Mapping[str, Decomposition], base: Decomposition) -> Any:
    """Return a data frame with the value and weight of each main effect by density, bin and output."""
    effects, rows = function_of(base).effects, []
    mains = [key for key in effects.terms if len(key) == 1]
    for (name, fx), key in itertools.product(decompositions.items(), mains):
        [axis], values, weights = effects.axes_of(key), function_of(fx).effects.terms[key], table_weights_of(fx)[key]
        for i, k in itertools.product(range(axis.size), range(effects.n_outputs)):
            names_of_row = (axis.name, i, axis.labels[i], name, base.schema.outputs[k])
            rows.append((*names_of_row, float(values[i, k]), float(weights[i])))
    columns = ("term", "bin", "label", "density", "output", "value", "weight")
    return frame({column: [row[i] for row in rows] for i, column in enumerate(columns)}, backend_of_tables(base))
