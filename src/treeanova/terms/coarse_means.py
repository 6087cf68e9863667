"""Terms on coarse cells: means of the forest given the coarse bins of some features, for independent features.

One table of means holds all terms of subsets of its features: a term follows by averaging over the axes that it does
not have and centring along those that it has. So the leaves are read once for a table, not once for each term; and
cells that are merged further follow from the table too.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from treeanova.core.arrays import Floats, Ints, Key
from treeanova.core.compiled import is_worthwhile
from treeanova.core.progress import Progress, Steps, quiet
from treeanova.model.binning import Binning, binning_by, equal_mass
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.coarse_sums import coarse_axes, mean_on_cells
from treeanova.terms.expand import outer_sum

COARSE_BINS = 16
_SHARED_CELLS = 1 << 14  # of one table for all features
_COMPILED_CELLS = 1 << 16  # of a table: what fits into the cache
_LEAF_BLOCK = 1 << 14
_COMPILED_LEAF_BLOCK = 1 << 12  # threads take blocks in turns
_SECONDS_PER_LEAF, _SECONDS_PER_CELL = 2e-6, 4e-10


def coarse_binnings(form: ClosedForm) -> tuple[Binning, ...]:
    """Up to 16 bins per feature."""
    pairs = zip(form.leaf_sets.grid.axes, form.masses, strict=True)
    return tuple(equal_mass(axis, masses, COARSE_BINS) for axis, masses in pairs)


@dataclasses.dataclass(frozen=True, eq=False)
class CoarseMeans:
    """Means over coarse cells, from which terms of high order follow.

    Attributes
    ----------
    form
        The terms at full resolution.
    binnings
        Coarse bins of each feature, merged two by two for the limit of an order.
    bins
        Limit of bins per feature for terms of each order.
    tables
        Means by the limit of bins and the features of a table; outputs last.
    """

    form: ClosedForm
    binnings: tuple[Binning, ...]
    bins: Mapping[int, int]
    tables: Mapping[tuple[int, Key], Floats]

    def term(self, key: Key, limit: int) -> Floats:
        """A term on its coarse cells with at most `limit` bins per feature, at most those of its order; outputs last.

        Cells must be those of the tables or larger ones.
        """
        at_most = self.bins[len(key)]
        values = self._centred(key, at_most)
        for axis, j in enumerate(key):
            values = self._onto(j, at_most, limit).average(values, axis)
        return values

    def _centred(self, key: Key, limit: int) -> Floats:
        features = self._holders[limit, key]
        values = self.tables[limit, features]
        for axis in reversed(range(len(features))):
            mean = _mean_along(axis, values, self._masses(features[axis], limit))
            values = values - np.expand_dims(mean, axis) if features[axis] in key else mean
        return values

    @functools.cached_property
    def _holders(self) -> dict[tuple[int, Key], Key]:
        """Features of the smallest table with the features of each key that was asked for."""
        return _Holders(self.tables)

    def _masses(self, feature: int, limit: int) -> Floats:
        if (feature, limit) not in self._known_masses:
            masses = np.bincount(self.binnings[feature].coarser(limit), self.form.masses[feature])
            self._known_masses[feature, limit] = masses.astype(np.float64)
        return self._known_masses[feature, limit]

    @functools.cached_property
    def _known_masses(self) -> dict[tuple[int, int], Floats]:
        return {}

    def _onto(self, feature: int, limit: int, coarser: int) -> Binning:
        """Bins of a limit merged to those of a lower one, with the shares of all bins."""
        if (feature, limit, coarser) not in self._known_mergings:
            binning = self.binnings[feature]
            fine, coarse = binning.coarser(limit), binning.coarser(coarser)
            shares = np.bincount(fine, binning_by(coarse, self.form.masses[feature]).shares).astype(np.float64)
            inside = np.arange(len(shares)) >> (binning.shift(coarser) - binning.shift(limit))
            self._known_mergings[feature, limit, coarser] = Binning(inside, shares, int(inside[-1]) + 1)
        return self._known_mergings[feature, limit, coarser]

    @functools.cached_property
    def _known_mergings(self) -> dict[tuple[int, int, int], Binning]:
        return {}


def _mean_along(axis: int, values: Floats, masses: Floats) -> Floats:
    """Weighted mean along an axis; numpy.tensordot gives the same, but is slow on small arrays."""
    before, after = values.shape[:axis], values.shape[axis + 1 :]
    flat = values.reshape(math.prod(before), len(masses), math.prod(after))
    mean: Floats = np.matmul(masses, flat).reshape(before + after)
    return mean


class _Holders(dict[tuple[int, Key], Key]):
    """The smallest table for each key, found when it is asked for."""

    def __init__(self, tables: Iterable[tuple[int, Key]]) -> None:
        super().__init__()
        self._tables = sorted(tables, key=lambda table: len(table[1]))

    def __missing__(self, wanted: tuple[int, Key]) -> Key:
        limit, key = wanted
        holder = next(f for at_most, f in self._tables if at_most == limit and set(key) <= set(f))
        self[wanted] = holder
        return holder


def coarse_means(
    form: ClosedForm, keys: Sequence[Key], bins: Mapping[int, int], n_jobs: int = 1, progress: Progress = quiet
) -> CoarseMeans:
    """Tables of means that hold all of some terms on the coarse cells of their orders."""
    binnings = coarse_binnings(form)
    by_limit = {limit: [key for key in keys if bins[len(key)] == limit] for limit in sorted(set(bins.values()))}
    merged = {
        limit: {j: binning_by(binnings[j].coarser(limit), form.masses[j]) for j in sorted(set().union(*some))}
        for limit, some in by_limit.items()
    }
    sizes = {limit: {j: binning.size for j, binning in own.items()} for limit, own in merged.items()}
    dense = {limit: _tables_for(form, some, sizes[limit]) for limit, some in by_limit.items()}
    is_compiled = is_worthwhile(sum(_seconds(form, tables, sizes[limit]) for limit, tables in dense.items()))
    plans = {limit: _covering(some, sizes[limit]) for limit, some in by_limit.items()} if is_compiled else dense
    n_leaves = (form.leaf_sets.n_leaves_with_some(*table) for tables in plans.values() for table in tables)
    block = _COMPILED_LEAF_BLOCK if is_compiled else _LEAF_BLOCK
    steps = Steps(progress, "high orders on coarse cells", sum(-(-n // block) for n in n_leaves))
    means = _compiled_means if is_compiled else _means
    tables = {
        (limit, features): _sum_over_leaves(
            means(form, features, [merged[limit][j] for j in features]),
            _blocks(form.leaf_sets.leaves_with_some(features, lowest), block),
            n_jobs,
            steps,
        )
        for limit, of_limit in plans.items()
        for features, lowest in of_limit
    }
    return CoarseMeans(form, binnings, bins, tables)


Tables = list[tuple[Key, int]]
"""Features of tables, and the number of these that a leaf must have: terms of that order have no part of others."""


def _tables_for(form: ClosedForm, keys: Sequence[Key], sizes: Mapping[int, int]) -> Tables:
    """The cheapest dense tables that hold all keys: one for all, the largest keys, or all."""
    lowest = min(map(len, keys), default=0)
    options = [[(key, len(key)) for key in keys], [(key, lowest) for key in _largest_keys(keys)]]
    if keys and math.prod(sizes.values()) <= _SHARED_CELLS:
        options.append([(tuple(sorted(sizes)), lowest)])
    return min(options, key=lambda tables: _seconds(form, tables, sizes))


def _seconds(form: ClosedForm, tables: Tables, sizes: Mapping[int, int]) -> float:
    """Time of numpy for dense tables: for each leaf, and for each leaf and cell."""
    n_leaves = (form.leaf_sets.n_leaves_with_some(*table) for table in tables)
    cells = (math.prod(sizes[j] for j in features) for features, _ in tables)
    return sum(n * (_SECONDS_PER_LEAF + _SECONDS_PER_CELL * size) for n, size in zip(n_leaves, cells, strict=True))


def _covering(keys: Sequence[Key], sizes: Mapping[int, int]) -> Tables:
    """Few tables of a limited size that hold all keys: features are added that complete the most keys."""
    lowest = min(map(len, keys), default=0)
    left = set(keys)
    tables: Tables = []
    while left:
        features = set(next(key for key in sorted(left) if len(key) == max(map(len, left))))
        while True:
            room = _COMPILED_CELLS // math.prod(sizes[j] + 1 for j in features)
            others = [j for j in sizes if j not in features and sizes[j] + 1 <= room]
            if not others:
                break
            features.add(max(others, key=lambda j: _gain(features | {j}, left)))
        tables.append((tuple(sorted(features)), lowest))
        left = {key for key in left if not features.issuperset(key)}
    return tables


def _gain(features: Collection[int], keys: Collection[Key]) -> tuple[int, int]:
    """Number of keys that some features contain, and of those that they contain but for one."""
    missing = [len(set(key).difference(features)) for key in keys]
    return missing.count(0), missing.count(1)


def _largest_keys(keys: Sequence[Key]) -> list[Key]:
    """Keys that no other key contains; the subsets of keys are keys, down to the lowest order."""
    below = {key[:i] + key[i + 1 :] for key in keys for i in range(len(key))}
    return [key for key in keys if key not in below]


def _blocks(leaves: Ints, size: int) -> list[Ints]:
    """Leaves in blocks of a size, at least one."""
    return [leaves[start : start + size] for start in range(0, max(len(leaves), 1), size)]


def _sum_over_leaves(mean_of: Callable[[Ints], Floats], blocks: list[Ints], n_jobs: int, steps: Steps) -> Floats:
    """The sum of parts of a table, some leaves at a time, in threads."""
    total: Floats = np.zeros(())
    with ThreadPoolExecutor(n_jobs) as pool:
        for mean in pool.map(mean_of, blocks) if len(blocks) > 1 else map(mean_of, blocks):
            total = total + mean
            steps.advance()
    return total


def _means(form: ClosedForm, features: Key, binnings: Sequence[Binning]) -> Callable[[Ints], Floats]:
    """The part that some leaves have in the mean of the forest given the coarse bins of some features; outputs last."""

    def mean_of(leaves: Ints) -> Floats:
        """A sum of outer products."""
        factors = [_shares(form, j, binning, leaves) for j, binning in zip(features, binnings, strict=True)]
        return outer_sum(factors, form.coefficients_without(features, leaves))

    return mean_of


def _compiled_means(form: ClosedForm, features: Key, binnings: Sequence[Binning]) -> Callable[[Ints], Floats]:
    """The same by a compiled kernel."""
    axes, flat = coarse_axes(form.leaf_sets, features, binnings), form.flat()
    return lambda leaves: mean_on_cells(leaves, form.leaf_sets.values, flat, axes)


def _shares(form: ClosedForm, feature: int, binning: Binning, leaves: Ints) -> Floats:
    """Share of each merged bin that leads to each leaf: 1 where the feature is not on its path."""
    sets = form.leaf_sets
    having = sets.have(feature, leaves)
    shares = np.ones((len(leaves), binning.size))
    shares[having] = sets.sets[feature].onto(binning, sets.positions(feature, leaves[having]))
    return shares
