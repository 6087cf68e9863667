"""Shares of features in totals per order: all terms of some orders, each shared equally among its features.

A leaf with value v, masses p_i and memberships z_i gives feature j of its path, from all terms of order k + 1,

    v (z_j - p_j) q_k / (k + 1),

where q_k is the coefficient of t^k in Π_{i≠j} (p_i + t (z_i - p_i)). To divide the product of all features by the
factor of j is not stable for every p_j and z_j, so nothing is divided. The product without j is that of the features
before j times that of those after it. Products of the features before are polynomials, kept for every j. Those after
come in reverse, as weights of coefficients: Σ_k w_k q_k of a product with the factor p + t (z - p) is the same sum of
the product without it under the weights p w_k + (z - p) w_{k+1}. All features of a leaf together take d² products
three times over, without a special case, and the shares of a leaf add up to its totals.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from treeanova.core.arrays import BinIndices, Floats
from treeanova.core.compiled import is_worthwhile_at_rows
from treeanova.terms.closed_form import ClosedForm, totals_cost
from treeanova.terms.kernels import sum_shares
from treeanova.terms.order_totals import BLOCKS_OF_A_TASK, LEAVES_OF_A_TASK, Block, OrderTotals, Span, spans

_ROWS = 64  # products of the leading features fit into a core's cache
_SECONDS_PER_PRODUCT = 1.2e-8  # of totals


@dataclasses.dataclass(frozen=True, eq=False)
class TotalShares:
    """Shares of features in the totals of some orders, for terms that are pure for independent features.

    Attributes
    ----------
    totals
        Totals of all orders.
    orders
        The orders whose terms are shared.
    """

    totals: OrderTotals
    orders: Collection[int]

    @property
    def _form(self) -> ClosedForm:
        return self.totals.form

    @property
    def _weights(self) -> Floats:
        """Weights of orders from 1 up: what a feature gets of a term of that order."""
        orders = range(1, self.totals.top_order + 1)
        return np.array([1 / order if order in self.orders else 0.0 for order in orders])

    def at_rows(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        """Shares at rows given by their bins, shape (n_rows, n_features, n_outputs)."""
        if not self._weights.any():
            return np.zeros((*codes.shape, self._form.leaf_sets.values.shape[1]))
        by_kernel = is_worthwhile_at_rows(totals_cost(self._form.leaf_sets) * _SECONDS_PER_PRODUCT)
        return (self.at_rows_by_kernel if by_kernel else self.at_rows_by_numpy)(codes, n_jobs)

    def at_rows_by_kernel(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        """Shares by the compiled kernel."""
        values, flat, weights = self._form.leaf_sets.values, self._form.flat(), self._weights

        def shares(part: BinIndices, leaves: Span) -> Floats:
            """Shares of some leaves at some rows."""
            return np.moveaxis(sum_shares(part.T, leaves, weights, values, flat), 2, 0)

        return self._in_threads(shares, codes, spans(len(values), LEAVES_OF_A_TASK), n_jobs)

    def at_rows_by_numpy(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        """Shares by numpy."""
        weights, n_outputs = self._weights, self._form.leaf_sets.values.shape[1]
        lowest = np.flatnonzero(weights)[0]
        blocks = [block for block in self.totals.blocks if len(block.runs) > lowest]

        def shares(part: BinIndices, span: Span) -> Floats:
            """Shares of some blocks of leaves at some rows."""
            total = np.zeros((*part.shape, n_outputs))
            for block in blocks[slice(*span)]:
                self._add(total, np.asfortranarray(part), block, weights)
            return total

        return self._in_threads(shares, codes, spans(len(blocks), BLOCKS_OF_A_TASK), n_jobs)

    def _in_threads(
        self, shares: Callable[[BinIndices, Span], Floats], codes: BinIndices, leaves: Sequence[Span], n_jobs: int
    ) -> Floats:
        """Shares of all rows and spans of leaves (or of blocks of them), each a task for a thread."""
        total = np.zeros((*codes.shape, self._form.leaf_sets.values.shape[1]))
        rows = [slice(start, start + _ROWS) for start in range(0, len(codes), _ROWS)]
        tasks = list(itertools.product(rows, leaves))
        with ThreadPoolExecutor(n_jobs) as pool:
            parts = pool.map(lambda task: shares(codes[task[0]], task[1]), tasks)
            for (own, _), part in zip(tasks, parts, strict=True):
                total[own] += part
        return total

    def _add(self, total: Floats, codes: BinIndices, block: Block, order_weights: Floats) -> None:
        """Add the shares of leaves with equally many features."""
        factors = list(self.totals.factors(codes, block))
        products = [np.ones((1, len(block.leaves), len(codes)))]
        for masses, centred in factors[:-1]:
            products.append(np.concatenate([masses * products[-1], np.zeros((1, *centred.shape))]))
            products[-1][1:] += centred * products[-2]
        weights = np.broadcast_to(order_weights[: len(factors), None, None], (len(factors), *products[0].shape[1:]))
        values = self._form.leaf_sets.values[block.leaves]
        for runs, (masses, centred), product in zip(block.runs[::-1], factors[::-1], products[::-1], strict=True):
            share = centred * np.einsum("kln,kln->ln", weights, product)
            for j, leaves, _ in runs:
                total[:, j] += share[leaves].T @ values[leaves]
            weights = masses * weights[:-1] + centred * weights[1:]
