"""Totals per order: the sum of all terms of each order at rows, without listing the terms.

A leaf with value v and sets of bins of mass p_j, of which z_j tells whether a row is in them, has the function
v Π_j z_j. For independent features the coefficient of t^k in

    v Π_j (p_j + t (z_j - p_j))

is the sum of all its terms of order k: a cost of d² per leaf and row for d features, where the terms number 2^d.
Large jobs run in a compiled kernel where Numba is installed.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Ints
from treeanova.core.compiled import is_worthwhile_at_rows
from treeanova.core.progress import blocks
from treeanova.terms.closed_form import ClosedForm, totals_cost
from treeanova.terms.kernels import sum_polynomials

_BLOCK_CELLS = 1 << 14  # leaves times rows whose polynomials fit into a core's cache
_BLOCK_ROWS = 256
_KERNEL_ROWS = 128
_SECONDS_PER_PRODUCT = 4e-9
_SECONDS_PER_RUN = 5e-6  # of numpy, for a feature of a distinct set of features
_STAGE = "totals of orders at rows"
LEAVES_OF_A_TASK = 4096  # fixed, so that sums have the same digits for any number of rows and threads
BLOCKS_OF_A_TASK = LEAVES_OF_A_TASK * _BLOCK_ROWS // _BLOCK_CELLS

Span = tuple[int, int]


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """Leaves with equally many features: their positions, and the features in each slot of their paths.

    `runs` are, for each slot, a feature, the part of the leaves that has it there, and their places among its sets.
    """

    leaves: Ints
    runs: list[list[tuple[int, slice, Ints]]]


def spans(n_parts: int, size: int) -> list[Span]:
    """Spans of parts that follow each other, of a given size at most."""
    return list(itertools.pairwise([*range(0, n_parts, size), n_parts]))


@dataclasses.dataclass(frozen=True, eq=False)
class OrderTotals:
    """Sums of all terms of each order of a forest that are pure for independent features."""

    form: ClosedForm

    @property
    def top_order(self) -> int:
        """Highest order that the forest has."""
        return max(map(len, self.form.leaf_sets.keys), default=0)

    @functools.cached_property
    def blocks(self) -> list[Block]:
        """Leaves sorted by their features, in blocks of equally many features."""
        return list(self._make_blocks())

    def _make_blocks(self) -> Iterator[Block]:
        sets = self.form.leaf_sets
        size = max(1, _BLOCK_CELLS // _BLOCK_ROWS)
        order = sorted(range(len(sets.keys)), key=lambda i: (len(sets.keys[i]), sets.keys[i]))
        for n_features, numbers in itertools.groupby(order, key=lambda i: len(sets.keys[i])):
            groups = list(numbers)
            leaves = np.concatenate([sets.members[i] for i in groups])
            keys = np.array([sets.keys[i] for i in groups], dtype=np.int64).reshape(len(groups), n_features)
            paths = np.repeat(keys, [len(sets.members[i]) for i in groups], axis=0)
            for start in range(0, len(leaves), size):
                part = slice(start, start + size)
                yield Block(leaves[part], [self._runs(column, leaves[part]) for column in paths[part].T])

    def _runs(self, features: Ints, leaves: Ints) -> list[tuple[int, slice, Ints]]:
        """Neighbouring leaves with the same feature, and their places among its sets."""
        ends = np.flatnonzero(np.diff(features)) + 1
        bounds = [0, *ends.tolist(), len(features)]
        runs = []
        for start, stop in itertools.pairwise(bounds):
            j = int(features[start])
            runs.append((j, slice(start, stop), self.form.leaf_sets.positions(j, leaves[start:stop])))
        return runs

    def at_rows(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        """Totals at rows given by their bins, shape (n_orders + 1, n_rows, n_outputs); order 0 is the mean."""
        per_row = totals_cost(self.form.leaf_sets) * _SECONDS_PER_PRODUCT
        per_row += sum(map(len, self.form.leaf_sets.keys)) * _SECONDS_PER_RUN / _BLOCK_ROWS
        totals = (self.at_rows_by_kernel if is_worthwhile_at_rows(per_row) else self.at_rows_by_numpy)(codes, n_jobs)
        totals[0] += self.form.leaf_sets.intercept
        return totals

    def at_rows_by_kernel(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        """Totals without the intercept by the compiled kernel, spans of rows and leaves in threads."""
        values, n_orders = self.form.leaf_sets.values, self.top_order + 1
        totals = np.zeros((n_orders, len(codes), values.shape[1]))
        parts = [slice(start, start + _KERNEL_ROWS) for start in range(0, len(codes), _KERNEL_ROWS)]
        flat = self.form.flat()

        def fill(task: tuple[slice, Span]) -> tuple[slice, Floats]:
            """Totals of some leaves at some rows."""
            rows, leaves = task
            return rows, sum_polynomials(codes[rows].T, leaves, n_orders, values, flat)

        tasks = list(itertools.product(parts, spans(len(values), LEAVES_OF_A_TASK)))
        with ThreadPoolExecutor(n_jobs) as pool:
            for rows, total in blocks(_STAGE, pool.map(fill, tasks), len(tasks)):
                totals[:, rows] += np.moveaxis(total, 1, 2)
        return totals

    def at_rows_by_numpy(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        """Totals without the intercept by numpy, spans of rows and leaves in threads."""
        values = self.form.leaf_sets.values
        totals = np.zeros((self.top_order + 1, len(codes), values.shape[1]))
        parts = [slice(start, start + _BLOCK_ROWS) for start in range(0, len(codes), _BLOCK_ROWS)]

        def fill(task: tuple[slice, Span]) -> tuple[slice, Floats]:
            """Totals of some blocks of leaves at some rows."""
            rows, numbers = task
            total = np.zeros((len(totals), len(range(len(codes))[rows]), values.shape[1]))
            for block in self.blocks[slice(*numbers)]:
                self._add(total, np.asfortranarray(codes[rows]), block)
            return rows, total

        tasks = list(itertools.product(parts, spans(len(self.blocks), BLOCKS_OF_A_TASK)))
        with ThreadPoolExecutor(n_jobs) as pool:
            for rows, total in blocks(_STAGE, pool.map(fill, tasks), len(tasks)):
                totals[:, rows] += total
        return totals

    def _add(self, totals: Floats, codes: BinIndices, block: Block) -> None:
        polynomials = self._polynomials(codes, block)
        n_leaves, n_rows = polynomials.shape[1:]
        values = self.form.leaf_sets.values[block.leaves]
        sums = values.T @ polynomials.transpose(1, 0, 2).reshape(n_leaves, -1)
        totals[: len(polynomials)] += np.moveaxis(sums.reshape(-1, len(polynomials), n_rows), 0, -1)

    def _polynomials(self, codes: BinIndices, block: Block) -> Floats:
        """Coefficients of Π_j (p_j + t (z_j - p_j)), shape (n_features + 1, n_leaves, n_rows)."""
        shape = len(block.leaves), len(codes)
        product = np.zeros((len(block.runs) + 1, *shape))
        product[0] = 1.0
        for degree, (masses, centred) in enumerate(self.factors(codes, block), start=1):
            higher = centred * product[:degree]
            product[:degree] *= masses
            product[1 : degree + 1] += higher
        return product

    def factors(self, codes: BinIndices, block: Block) -> Iterator[tuple[Floats, Floats]]:
        """Masses p, shape (n_leaves, 1), and z - p, shape (n_leaves, n_rows), slot by slot of the leaves' paths."""
        for runs in block.runs:
            masses, centred = np.empty((len(block.leaves), 1)), np.empty((len(block.leaves), len(codes)))
            for j, leaves, places in runs:
                masses[leaves, 0] = self.form.set_masses[j][places]
                np.subtract(
                    self.form.leaf_sets.sets[j].contain(places, codes[:, j]), masses[leaves], out=centred[leaves]
                )
            yield masses, centred
