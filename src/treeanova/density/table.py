"""Table: weights given by the user as arrays or by a callable; raking of tables to marginals."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from treeanova.core.arrays import Floats, Key, check_unmasked, memo
from treeanova.density import costs
from treeanova.density.base import Blocks, Density, Joint, Product
from treeanova.density.counting import Binnings, pool_table

_SWEEPS = 2_000  # over all tables that are raked together
_SWEEP_TOLERANCE = 1e-13  # of a marginal, in mass
_LARGEST_GAP = 1e-9  # of mass, beyond which tables contradict each other
_SINKHORN_STEPS = 200
_SINKHORN_CHANGE = 1e-12  # relative change of a scale that ends the steps
_SLOWEST_SHRINKING = 0.98  # of changes from step to step, that is extrapolated
_LARGEST_SCALE = 1e100
_AGREEMENT = 1e-9  # of mass, by which tables given by the user may differ


def rake_to_tables(table: Floats, marginals: Mapping[Key, Floats]) -> Floats:
    """Return a table scaled to marginals, given by the axes they keep; raise ValueError if raking does not converge."""
    # Sweeps over all marginals: each divides by the current marginal and multiplies by the target.
    gap = np.inf
    for _ in range(_SWEEPS):
        gap = 0.0
        for key, target in marginals.items():
            other_axes = tuple(axis for axis in range(table.ndim) if axis not in key)
            marginal = table.sum(axis=other_axes)
            gap = max(gap, float(np.abs(marginal - target).sum()))
            factors = np.divide(target, marginal, out=np.zeros_like(marginal), where=marginal > 0)
            table = table * np.expand_dims(factors, other_axes)
        if gap <= _SWEEP_TOLERANCE:
            break
    if gap > _LARGEST_GAP:
        raise ValueError(
            f"`density` must give tables that raking can join, got a gap of {gap:.1e} after {_SWEEPS:,} sweeps, as "
            "between tables with many empty cells or that contradict each other; give their joint table instead."
        )
    return table


def rake_to_marginals(table: Floats, rows: Floats, columns: Floats, *, tolerance: float = _SINKHORN_CHANGE) -> Floats:
    """Return a matrix, or a stack of them, with rows and columns scaled to given sums (Sinkhorn's raking)."""
    # Steps end when no scale changes by more than the tolerance; distributing the rest makes marginals exact. Every
    # second step extrapolates the last change by the rate at which changes shrink (Aitken), which saves most steps.
    stack = table if table.ndim == 3 else table[None]
    sums = rows.reshape(stack.shape[0], stack.shape[1]), columns.reshape(stack.shape[0], stack.shape[2])
    left, right = _sinkhorn_scales(stack, *sums, tolerance)
    raked = stack * left[:, :, None]
    raked *= right[:, None, :]
    return _distribute_rest(raked, *sums).reshape(table.shape)


def _sinkhorn_scales(table: Floats, rows: Floats, columns: Floats, tolerance: float) -> tuple[Floats, Floats]:
    """Return scales that give the rows and columns of each matrix, (n_matrices, n_rows, n_columns), their sums."""
    scales = np.empty_like(rows), np.empty_like(columns)
    places = np.arange(len(table))  # of matrices that are not finished
    before = right = np.ones_like(columns)
    left, after = np.ones_like(rows), right
    for step in range(_SINKHORN_STEPS):  # rows and columns are scaled in turn until nothing changes
        left = _scales(rows, np.matmul(table, right[:, :, None])[:, :, 0])
        after = _scales(columns, np.matmul(left[:, None, :], table)[:, 0])
        goes_on = (np.abs(after - right) > tolerance * right).any(axis=1)
        if not goes_on.all():
            scales[0][places[~goes_on]], scales[1][places[~goes_on]] = left[~goes_on], after[~goes_on]
            if not goes_on.any():
                return scales
            places, table, rows, columns = places[goes_on], table[goes_on], rows[goes_on], columns[goes_on]
            before, right, left, after = before[goes_on], right[goes_on], left[goes_on], after[goes_on]
        extrapolates = step % 2 and step < _SINKHORN_STEPS - 1
        before, right = right, _extrapolated(before, right, after, columns) if extrapolates else after
    scales[0][places], scales[1][places] = left, after
    return scales


def _extrapolated(first: Floats, second: Floats, third: Floats, masses: Floats) -> Floats:
    """Return the limit of three successive factors of raking, (n_tables, n_bins), if their changes shrink steadily."""
    # By the last rate of the logarithms; `third` where they do not shrink.
    logs = np.log(np.maximum([first, second, third], _LARGEST_SCALE**-3))
    earlier, change = logs[1] - logs[0], logs[2] - logs[1]
    weighted = masses * earlier
    ratio = (weighted * change).sum(axis=1) / np.maximum((weighted * earlier).sum(axis=1), 1e-300)
    shrinks = (ratio > 0.0) & (ratio < _SLOWEST_SHRINKING)
    factor = np.where(shrinks, ratio, 0.0) / np.where(shrinks, 1 - ratio, 1.0)
    moved: Floats = third * np.exp(np.clip(factor[:, None] * change, -1.0, 1.0))
    return np.where(shrinks[:, None], np.minimum(moved, _LARGEST_SCALE), third)


def _distribute_rest(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """Make the row and column sums of raked matrices exact, in place; return them."""
    # Rows and columns above their sums are scaled down; what all then lack is added as a product of marginals.
    table *= np.minimum(_scales(rows, table.sum(axis=2)), 1.0)[:, :, None]
    table *= np.minimum(_scales(columns, table.sum(axis=1)), 1.0)[:, None, :]
    lacking = np.maximum(rows - table.sum(axis=2), 0.0), np.maximum(columns - table.sum(axis=1), 0.0)
    if lacking[0].any():
        shares = _scales(lacking[1], lacking[0].sum(axis=1, keepdims=True))
        table += lacking[0][:, :, None] * shares[:, None, :]
    return table


def _scales(targets: Floats, sums: Floats) -> Floats:
    """Return targets over sums, bounded: scales diverge if no table with these zeros has such marginals."""
    return np.minimum(targets / np.maximum(sums, _LARGEST_SCALE**-2), _LARGEST_SCALE)


def joint_of_tables(tables: Mapping[Key, Floats], sizes: Sequence[int]) -> Joint:
    """Return the density of largest entropy with given tables, which must agree on shared features."""
    groups = [{j} for j in range(len(sizes))]  # features that tables connect, directly or not
    for key in tables:
        joined = [group for group in groups if group & set(key)]
        groups = [group for group in groups if group not in joined] + [set().union(*joined)]
    connected: list[Key] = sorted(tuple(sorted(group)) for group in groups)
    blocks = [(features, _block_table(features, tables, sizes)) for features in connected]
    if all(len(features) == 1 for features, _ in blocks):
        return Product([table for _, table in blocks])
    return Blocks(blocks)


def _block_table(features: Key, tables: Mapping[Key, Floats], sizes: Sequence[int]) -> Floats:
    """Return the table of connected features: the one given, or that of largest entropy with all given tables."""
    inside = {key: table for key, table in tables.items() if set(key) <= set(features)}
    whole = next((table for key, table in inside.items() if len(key) == len(features)), None)
    if whole is not None:
        return whole
    shape = tuple(sizes[j] for j in features)
    n_cells = math.prod(shape)
    if not inside and n_cells == 1:
        return np.ones(shape)
    if not inside:
        raise ValueError(
            f"`density` must give weights for the feature at position {features[0]}, got tables of {list(tables)}; "
            "add them to the table."
        )
    if n_cells > costs.MAX_CELLS:
        raise ValueError(
            f"`density` must give one table of the features at positions {features}, got tables of {list(inside)} and "
            f"{n_cells:,} cells, too many to join them by raking; add their joint table."
        )
    marginals = {tuple(features.index(j) for j in key): table for key, table in inside.items()}
    return rake_to_tables(np.full(shape, 1 / n_cells), marginals)


def check_agreement(tables: Mapping[Key, Floats], names: Sequence[str]) -> None:
    """Raise ValueError if two tables have different marginals of the features that they share."""
    for (one, first), (other, second) in itertools.combinations(tables.items(), 2):
        shared = tuple(j for j in one if j in other)
        if not shared:
            continue
        gap = float(np.abs(_marginal(first, one, shared) - _marginal(second, other, shared)).sum()) / 2
        if gap > _AGREEMENT:
            raise ValueError(
                f"`density` must give the same marginal of {', '.join(names[j] for j in shared)} in all tables, got "
                f"tables of {' × '.join(names[j] for j in one)} and {' × '.join(names[j] for j in other)} that differ "
                f"by {gap:.2g} of the mass; derive them from one joint table."
            )


def _marginal(table: Floats, key: Key, subset: Key) -> Floats:
    """Return the marginal of some of a table's features, axes in ascending order of their positions."""
    summed: Floats = table.sum(axis=tuple(i for i, j in enumerate(key) if j not in subset))
    return summed.transpose(np.argsort(np.argsort([j for j in key if j in subset])))  # ranks of the axes' features


@dataclasses.dataclass(frozen=True, eq=False)
class Table(Density):
    """Take weights as given: an array over the bins of all features, a mapping from names to arrays, or a callable.

    Generally preferred if the population is known from elsewhere, such as a census. Equivalent to the density of
    largest entropy that has the given tables.

    The array of a set of features has one axis per feature: in the order of the names in a mapping, of the data
    otherwise. Every feature that the model uses must be in some table. A set of features without a table has the
    marginal of a table that contains it, or of the density of largest entropy that has all tables; there, features that
    no table connects are independent. Tables that contradict each other raise ValueError.

    Parameters
    ----------
    weights
        Non-negative weights of the cells; they need not have sum 1. A callable takes the names of some features and
        their axes, and returns an array.

    Examples
    --------
    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()
    >>> weights = {("x0", "x1"): [[4, 1], [1, 2]]}
    >>> fx.with_density(treeanova.density.Table(weights)).density.table((0,)).tolist()
    [0.625, 0.375]
    """

    name: ClassVar[str] = "table"
    needs_data: ClassVar[bool] = False
    weights: Any = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def joint(self) -> Joint:
        grid = self._bound_grid
        if not callable(self.weights):
            return joint_of_tables(self._tables, grid.sizes)
        n_cells = math.prod(grid.sizes)
        if n_cells > costs.MAX_CELLS:
            raise ValueError(
                f"`density` must be a table or a density of this module here, got a callable over {n_cells:,} cells of "
                f"all features, more than {costs.MAX_CELLS:,}; give tables instead."
            )
        all_features = tuple(range(len(grid.axes)))
        return Blocks([(all_features, self._call_weights(all_features))])

    @property
    def is_product(self) -> bool:
        """Whether each table has one feature; features of one table count as dependent."""
        return not callable(self.weights) and all(len(key) == 1 for key in self._tables)

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        if callable(self.weights):
            return pool_table(self._call_consistently(key), binnings)
        larger = [other for other in self._tables if set(key) <= set(other)]
        if not larger:
            names, covered = self._bound_grid.schema.names, {j for other in self._tables for j in other}
            lacking = [names[j] for j in key if j not in covered and self._bound_grid.sizes[j] > 1]
            if lacking:
                raise ValueError(
                    f"`density` must give weights for {', '.join(lacking)}, got tables of "
                    f"{', '.join(names[j] for j in sorted(covered)) or 'no features'}; add them to the table."
                )
            return self.joint.table(key, binnings)
        smallest = min(larger, key=len)
        summed = tuple(i for i, j in enumerate(smallest) if j not in key)
        return pool_table(self._tables[smallest].sum(axis=summed), binnings)

    @functools.cached_property
    def _tables(self) -> dict[Key, Floats]:
        """Tables by positions of features, of sum 1, each with its axes in the order of the features."""
        names = self._bound_grid.schema.names
        arrays = self.weights if isinstance(self.weights, Mapping) else {names: self.weights}
        tables: dict[Key, Floats] = {}
        for features, array in arrays.items():
            key, table = self._checked_key_and_table(features, array)
            if key in tables:
                raise ValueError(f"`density` must give each set of features one table, got {features!r} twice.")
            tables[key] = table
        check_agreement(tables, names)
        return tables

    def _checked_key_and_table(self, features: Any, array: Any) -> tuple[Key, Floats]:
        """Return positions of features given by name, ascending, and their weights of sum 1 in that order."""
        names = self._bound_grid.schema.names
        axis_names = (features,) if isinstance(features, str) else tuple(features)
        unknown = [name for name in axis_names if name not in names]
        if unknown:
            raise ValueError(f"`density` must be of the model's features, got {unknown[0]!r}; see fx.schema.names.")
        if len(set(axis_names)) < len(axis_names):
            raise ValueError(f"`density` must name each feature of a table once, got {axis_names!r}.")
        table = _as_floats(array)
        if table.ndim != len(axis_names):
            raise ValueError(
                f"`density` must give {', '.join(axis_names)} an array with {len(axis_names)} axes, got {table.ndim}."
            )
        order = sorted(range(len(axis_names)), key=lambda i: names.index(axis_names[i]))
        key = tuple(names.index(axis_names[i]) for i in order)
        return key, self._checked_weights(key, table.transpose(order))

    def _call_weights(self, key: Key) -> Floats:  # what the user's callable gives, checked and of sum 1
        grid = self._bound_grid
        names = tuple(grid.schema.names[j] for j in key)
        array = self.weights(names, tuple(grid.axes[j] for j in key))
        return self._checked_weights(key, _as_floats(array))

    @memo
    def _call_consistently(self, key: Key) -> Floats:
        """Return what the user's callable gives; raise ValueError if it gives single features other marginals."""
        table = self._call_weights(key)
        if len(key) > 1:
            singles: dict[Key, Floats] = {(j,): self._call_consistently((j,)) for j in key}
            check_agreement({key: table, **singles}, self._bound_grid.schema.names)
        return table

    def _checked_weights(self, key: Key, array: Floats) -> Floats:
        """Return a table of sum 1; raise ValueError for a wrong shape, negative or infinite weights, and zeros only."""
        names = ", ".join(repr(self._bound_grid.schema.names[j]) for j in key)
        expected = tuple(self._bound_grid.sizes[j] for j in key)
        wrong = "" if array.any() else "zeros only"
        is_bad = ~np.isfinite(array) | (array < 0)
        if is_bad.any():
            wrong = f"a weight of {array[is_bad][0]:g}"
        if array.shape != expected:
            wrong = f"shape {array.shape}"
        if wrong:
            raise ValueError(
                f"`density` must give {names} non-negative weights of shape {expected}, not all zero, got {wrong}; "
                "give one weight per cell of the grid."
            )
        scaled = array / array.max()  # sums of huge weights would overflow
        return scaled / scaled.sum()


def _as_floats(array: Any) -> Floats:
    """Return the weights of a table as float64; ValueError for masked or complex ones."""
    check_unmasked("density", array)
    if np.iscomplexobj(array):
        raise ValueError("`density` must give weights that are real numbers, got complex ones; pass their sizes.")
    try:
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`density` must give weights that are real numbers, got others ({error}).") from error
