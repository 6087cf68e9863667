"""Sums over leaves of products of their memberships at rows, for many sets of features at a time."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Ints, Key
from treeanova.core.compiled import is_worthwhile_at_rows
from treeanova.core.progress import blocks
from treeanova.terms.flat_leaves import FlatLeaves, FlatParts, flatten
from treeanova.terms.kernels import sum_products
from treeanova.terms.leafsets import LeafSets

_BLOCK = 1 << 17
_LEAF_BLOCK = 1 << 15
_KERNEL_ROWS = 128
_NUMPY_ROWS = 2048
_SECONDS_PER_FACTOR = 7e-9
_SECONDS_PER_PRODUCT = 2e-9
_STAGE = "terms of high order at rows"


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """Leaves of one set of features, and for some of its subsets coefficients and columns of the result."""

    leaves: Ints
    coefficients: Mapping[Key, Floats]
    columns: Mapping[Key, int]


@dataclasses.dataclass(frozen=True, eq=False)
class Sums:
    """Sums over leaves of products of their memberships, centred by the masses of the sets where given.

    `flat_leaves` gives the leaves as plain arrays where they are known already.
    """

    leaf_sets: LeafSets
    parts: Sequence[Part]
    set_masses: Sequence[Floats] | None = None
    flat_leaves: Callable[[], FlatLeaves] | None = None

    def at_rows(self, codes: BinIndices, n_columns: int, n_jobs: int) -> Floats:
        """The sums at rows, shape (n_rows, n_columns, n_outputs): by a compiled kernel where it pays, else by numpy."""
        by_kernel = is_worthwhile_at_rows(self._seconds_per_row)
        return (self.at_rows_by_kernel if by_kernel else self.at_rows_by_numpy)(codes, n_columns, n_jobs)

    @functools.cached_property
    def _seconds_per_row(self) -> float:
        """Time of numpy for a row."""
        n_factors = sum(len(part.leaves) * len({j for key in part.columns for j in key}) for part in self.parts)
        n_products = sum(len(part.leaves) * len(part.columns) for part in self.parts)
        return n_factors * _SECONDS_PER_FACTOR + n_products * _SECONDS_PER_PRODUCT

    def at_rows_by_kernel(self, codes: BinIndices, n_columns: int, n_jobs: int) -> Floats:
        """The sums by the compiled kernel, blocks of rows in threads."""
        values = np.empty((len(codes), n_columns, self.leaf_sets.values.shape[1]))
        n_rows = max(1, min(_KERNEL_ROWS, -(-len(codes) // n_jobs)))
        flat = self._flat

        def fill(start: int) -> None:
            """Sums of a block of rows."""
            rows = slice(start, start + n_rows)
            values[rows] = np.moveaxis(sum_products(codes[rows].T, n_columns, *flat), 2, 0)

        starts = range(0, len(codes), n_rows)
        with ThreadPoolExecutor(n_jobs) as pool:
            collections.deque(blocks(_STAGE, pool.map(fill, starts), len(starts)), maxlen=0)
        return values

    @functools.cached_property
    def _flat(self) -> tuple[FlatParts, FlatLeaves]:
        parts = flatten_parts(self.parts, self.leaf_sets.values.shape[1])
        known = self.flat_leaves
        return parts, flatten(self.leaf_sets, self.set_masses) if known is None else known()

    def at_rows_by_numpy(self, codes: BinIndices, n_columns: int, n_jobs: int) -> Floats:
        """The sums by numpy, blocks of rows in threads; within them, smaller ones where a part has many leaves."""
        values = np.zeros((len(codes), n_columns, self.leaf_sets.values.shape[1]))
        parts_of_rows = [slice(start, start + _NUMPY_ROWS) for start in range(0, len(codes), _NUMPY_ROWS)]

        def fill(rows: slice) -> None:
            """Sums of a block of rows."""
            for part in self.parts:
                n_rows = max(16, _BLOCK // max(len(part.leaves), 1))
                for first in range(rows.start, min(rows.stop, len(codes)), n_rows):
                    some = slice(first, min(first + n_rows, rows.stop))
                    for start in range(0, len(part.leaves), _LEAF_BLOCK):
                        self._add(values[some], codes[some], part, slice(start, start + _LEAF_BLOCK))

        with ThreadPoolExecutor(n_jobs) as pool:
            collections.deque(blocks(_STAGE, pool.map(fill, parts_of_rows), len(parts_of_rows)), maxlen=0)
        return values

    def _add(self, values: Floats, codes: BinIndices, part: Part, some: slice) -> None:
        """Add the sums of some leaves of one set of features to values at rows.

        Keys are met in lexical order, so that those that begin alike share the product of what they begin with.
        """
        factor = functools.cache(lambda j: self._factor(j, part.leaves[some], codes[:, j]))
        products: list[tuple[Key, Floats]] = []
        for key in sorted(part.columns):
            while products and key[: len(products[-1][0])] != products[-1][0]:
                products.pop()
            for length in range(len(products), len(key)):
                own = factor(key[length])
                products.append((key[: length + 1], products[-1][1] * own if products else own))
            coefficients = part.coefficients[key][some]
            values[:, part.columns[key]] += products[-1][1].T @ coefficients if products else coefficients.sum(axis=0)

    def _factor(self, j: int, leaves: Ints, codes: BinIndices) -> Floats:
        """Memberships of rows in the sets of leaves, centred or not, shape (n_leaves, n_rows)."""
        at = self.leaf_sets.positions(j, leaves)
        inside = self.leaf_sets.sets[j].contain(at, codes)
        if self.set_masses is None:
            return inside.astype(np.float64)
        centred: Floats = inside - self.set_masses[j][at, None]
        return centred


def flatten_parts(parts: Sequence[Part], n_outputs: int) -> FlatParts:
    """Parts as plain arrays."""
    keys = [sorted(part.columns) for part in parts]
    all_keys = list(itertools.chain.from_iterable(keys))
    shared = [[0, *(_n_shared(*pair) for pair in itertools.pairwise(of_part))] for of_part in keys if of_part]
    columns = [part.columns[key] for part, of_part in zip(parts, keys, strict=True) for key in of_part]
    coefficients = [
        np.stack([part.coefficients[key] for key in of_part], axis=1).reshape(-1, n_outputs)
        for part, of_part in zip(parts, keys, strict=True)
    ]
    return FlatParts(
        part_leaves=_starts([len(part.leaves) for part in parts]),
        leaves=np.concatenate([np.zeros(0, np.int64), *(part.leaves for part in parts)]),
        part_keys=_starts([len(of_part) for of_part in keys]),
        column=np.array(columns, dtype=np.int64),
        n_shared=np.array(list(itertools.chain.from_iterable(shared)), dtype=np.int64),
        key_start=_starts([len(key) for key in all_keys]),
        key_features=np.array(list(itertools.chain.from_iterable(all_keys)), dtype=np.int64),
        part_coefficients=_starts([len(of_part) for of_part in coefficients]),
        coefficients=np.concatenate([np.zeros((0, n_outputs)), *coefficients]),
    )


def _starts(lengths: Sequence[int]) -> Ints:
    """Where each of several lists begins after the one before, and the end of the last."""
    return np.cumsum([0, *lengths], dtype=np.int64)


def _n_shared(before: Key, key: Key) -> int:
    """Number of features that two keys begin with alike."""
    return next(
        (i for i, pair in enumerate(zip(before, key, strict=False)) if pair[0] != pair[1]), min(len(before), len(key))
    )
