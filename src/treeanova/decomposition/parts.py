"""Parts of a score: all that adds up to it besides the intercept, at rows and as means over rows.

Parts are listed terms, sums of terms that are not listed (one per order), and a remainder. Two models with the same
features have their parts side by side: a term that one of them lists and the other only adds up is evaluated for both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Key
from treeanova.core.labels import labels_of
from treeanova.core.progress import blocks
from treeanova.data.frames import free_name
from treeanova.decomposition.evaluation import Evaluation, rest_label
from treeanova.density.row_sources import RowsInMemory
from treeanova.density.statistics import Points, Statistics
from treeanova.model.grid import Grid

_NUMBERS_AT_ONCE = 1 << 22


@dataclasses.dataclass(frozen=True)
class Parts:
    """Parts that add up to the score of one or several models, besides the intercept.

    Attributes
    ----------
    keys
        Listed terms by positions of their features.
    rest_orders
        Orders of which some terms are not listed, but added up.
    has_remainder
        Whether a remainder comes last.
    """

    keys: tuple[Key, ...]
    rest_orders: tuple[int, ...] = ()
    has_remainder: bool = False

    def __len__(self) -> int:
        return len(self.keys) + len(self.rest_orders) + self.has_remainder

    def labels(self, names: Sequence[str]) -> list[str]:
        """Labels of all parts for people, from the names of the features."""
        return with_rests(labels_of([[names[j] for j in key] for key in self.keys], names), self)

    def blocks(self, n_rows: int, n_outputs: int) -> Iterator[slice]:
        """Rows in blocks whose values fit into memory."""
        size = max(1, _NUMBERS_AT_ONCE // max(1, len(self) * n_outputs))
        starts = range(0, n_rows, size)
        return blocks("rows", (slice(start, start + size) for start in starts), len(starts))


def with_rests(labels: Sequence[str], parts: Parts) -> list[str]:
    """Labels of listed terms, or of groups of them, and after them those of sums of other terms and a remainder."""
    found = list(labels)
    for label in [*map(rest_label, parts.rest_orders), *["remainder"] * parts.has_remainder]:
        found.append(free_name(label, found))
    return found


def largest_first(sizes: Floats) -> list[int]:
    """Positions in descending order of size; sizes that rounding alone distinguishes stay as they come."""
    scale = float(sizes.max(initial=0.0)) or 1.0
    return [int(i) for i in np.argsort(-(sizes / scale).round(12), kind="stable")]


def parts_of(*models: Evaluation) -> Parts:
    """The parts that some models have together: those of one model in its own order, else by order and features."""
    keys = tuple(dict.fromkeys(key for model in models for key in model.terms.keys))
    if len(models) > 1:
        keys = tuple(sorted(keys, key=lambda key: (len(key), key)))
    orders = sorted({order for model in models for order in model.rest_orders})
    return Parts(keys, tuple(orders), any(model.has_remainder for model in models))


def parts_at(model: Evaluation, codes: BinIndices, parts: Parts) -> Floats:
    """Values of all parts at rows given by their bins, shape (n_parts, n_rows, n_outputs); zero where it has none."""
    values = _listed_and_rests_at(model, codes, parts)
    if not parts.has_remainder:
        return values
    rest = np.zeros(values.shape[1:])
    if model.has_remainder:
        rest = model.score(model.grid.encoded(codes)) - model.terms.intercept - values.sum(axis=0)
    return np.concatenate([values, rest[None]])


def _listed_and_rests_at(model: Evaluation, codes: BinIndices, parts: Parts) -> Floats:
    """Values of terms, and of the sums of all terms that are not among them, without a remainder."""
    values = np.zeros((len(parts.keys) + len(parts.rest_orders), len(codes), model.terms.n_outputs))
    known = [i for i, key in enumerate(parts.keys) if model.knows(key)]
    values[known] = model.at(codes, [parts.keys[i] for i in known])
    if not model.rest_orders:
        return values
    at_keys = {parts.keys[i]: values[i] for i in known}
    added = [key for key in at_keys if key not in set(model.terms.keys)]  # in the model's own sums
    for order, rest in zip(model.rest_orders, model.rests_at(codes, at_keys), strict=True):
        place = len(parts.keys) + parts.rest_orders.index(order)
        values[place] = rest - sum(at_keys[key] for key in added if len(key) == order)
    return values


def mean_parts(model: Evaluation, statistics: Statistics, parts: Parts) -> Floats:
    """Means of all parts over rows, shape (n_parts, n_outputs): of tables by counts of their cells, of others at rows.

    `statistics` are of rows that are encoded as the model encodes them.
    """
    means = np.zeros((len(parts), model.terms.n_outputs))
    counted = statistics.on(model.terms.tables.grid)
    for i, key in enumerate(parts.keys):
        if model.terms.has_table(key):
            means[i] = _mean_of_table(model, counted, key)
    at_rows = [i for i, key in enumerate(parts.keys) if model.knows(key) and not model.terms.has_table(key)]
    if at_rows or model.rest_orders:
        others = Parts(tuple(parts.keys[i] for i in at_rows), parts.rest_orders)
        rests = range(len(parts.keys), len(parts.keys) + len(parts.rest_orders))
        means[[*at_rows, *rests]] = _means_at_rows(model, statistics, others)
    if model.has_remainder:
        means[-1] = _mean_score(model, statistics) - model.terms.intercept - means.sum(axis=0)
    return means


def _mean_of_table(model: Evaluation, counted: Statistics, key: Key) -> Floats:
    """Mean of a term that has a table, by the share of the rows in each cell."""
    mean: Floats = np.tensordot(shares_of_cells(model, counted, key), model.terms.tables.effects.terms[key], len(key))
    return mean


def shares_of_cells(model: Evaluation, counted: Statistics, key: Key) -> Floats:
    """Share of the rows in each cell of a term that has a table; `counted` are statistics on the grid of the tables."""
    return counted.counts(key, model.terms.tables.effects.binnings.get(key))


def all_points(statistics: Statistics, grid: Grid) -> Points:
    """Bins and weights of all rows, which a mean of terms without tables needs."""
    if statistics.is_complete:
        return statistics.on(grid).points()
    source = statistics.source
    if not isinstance(source, RowsInMemory):
        raise ValueError(  # noqa: TRY004  what is wrong is how many rows there are
            f"rows must all be held in memory where terms have no tables, got a sample of {statistics.n_rows:,} rows; "
            "pass rows in memory as `X_old` and `X_new`, or decompose with `max_order=2`."
        )
    weights = np.ones(len(source.values)) if source.weights is None else source.weights
    return Points(grid.index_encoded(source.values), weights / weights.sum())


def _means_at_rows(model: Evaluation, statistics: Statistics, parts: Parts) -> Floats:
    """Means of terms and of sums of other terms, evaluated at all rows."""
    codes, weights = all_points(statistics, model.grid)
    total = np.zeros((len(parts), model.terms.n_outputs))
    for rows in parts.blocks(len(codes), model.terms.n_outputs):
        total += np.einsum("pnk,n->pk", _listed_and_rests_at(model, codes[rows], parts), weights[rows])
    return total


def _mean_score(model: Evaluation, statistics: Statistics) -> Floats:
    """Mean of the model's score over rows, shape (n_outputs,)."""
    codes, weights = all_points(statistics, model.grid)
    mean: Floats = weights @ model.score(model.grid.encoded(codes))
    return mean
