"""Values of all terms at rows, against the average under the density or against reference rows."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from treeanova.core.arrays import BinIndices, Floats, Key
from treeanova.decomposition.evaluation import Evaluation
from treeanova.decomposition.explanation import Deferred
from treeanova.terms.anchored import Anchored, anchored
from treeanova.terms.scope import Truncated


class ValuesAtRows(NamedTuple):
    """Terms at rows, shape (n_terms, n_rows, n_outputs), and what else adds up to the score.

    Attributes
    ----------
    keys
        The listed terms.
    values
        Their values.
    others
        Sums of the terms of each order that are not listed.
    shares
        Shares of features in these; None where there are none.
    intercept
        What terms are added to, shape (n_outputs,).
    leaves_rest
        Whether these are not all terms.
    """

    keys: Sequence[Key]
    values: Floats
    others: Mapping[int, Floats]
    shares: Deferred | None
    intercept: Floats
    leaves_rest: bool


def values_at_rows(evaluation: Evaluation, encoded: Floats, keys: Sequence[Key], max_order: int | None) -> ValuesAtRows:
    """Some terms of a decomposition at rows, with sums of the others of each order up to one."""
    codes = evaluation.grid.index_encoded(encoded)
    values = evaluation.at(codes, keys)
    others = _rests(evaluation, codes, dict(zip(keys, values, strict=True)), max_order)
    shares = Deferred(functools.partial(_shares_of_rests, evaluation, codes)) if others else None
    n_parts = len(evaluation.terms.keys) + len(evaluation.rest_orders)
    leaves_rest = evaluation.has_remainder or len(keys) + len(others) < n_parts
    return ValuesAtRows(keys, values, others, shares, evaluation.terms.intercept, leaves_rest)


def values_against(evaluation: Evaluation, encoded: Floats, references: Floats, max_order: int | None) -> ValuesAtRows:
    """Anchored terms at rows, the mean over references; they add up to the score minus that of the references."""
    grid, scope = evaluation.grid, evaluation.scope
    model = anchored(evaluation.source, grid.index_encoded(references))
    limit = scope.order if isinstance(scope, Truncated) else None
    known, rests = (evaluation.terms.keys, evaluation.rest_orders) if model.keys is None else (model.keys, ())
    keys = [key for key in known if _is_wanted(len(key), max_order) and _is_wanted(len(key), limit)]
    orders = tuple(order for order in rests if _is_wanted(order, max_order))
    found = _Against(model, grid.index_encoded(encoded), keys, orders, evaluation.n_jobs)
    shares = Deferred(found.shares_of_rests) if orders else None
    intercept = evaluation.score(references).mean(axis=0)
    leaves_rest = limit is not None or len(keys) + len(orders) < len(known) + len(rests)
    return ValuesAtRows(keys, found.values, found.rests(), shares, intercept, leaves_rest)


@dataclasses.dataclass(frozen=True, eq=False)
class _Against:
    """Terms of a model against references at rows: those of some keys, and all others of some orders."""

    model: Anchored
    codes: BinIndices
    keys: Sequence[Key]
    orders: tuple[int, ...]
    n_jobs: int

    @functools.cached_property
    def values(self) -> Floats:
        """Values of the listed terms."""
        return self.model.at(self.codes, self.keys, self.n_jobs)

    def _listed(self) -> Iterator[tuple[Key, Floats]]:
        """The listed terms of the orders, of which others are not listed."""
        pairs = zip(self.keys, self.values, strict=True)
        return ((key, values) for key, values in pairs if len(key) in self.orders)

    def rests(self) -> dict[int, Floats]:
        """Totals of the orders minus the listed terms."""
        if not self.orders:
            return {}
        totals = self.model.totals_at(self.codes, self.orders, self.n_jobs)
        rests = dict(zip(self.orders, totals, strict=True))
        for key, values in self._listed():
            rests[len(key)] -= values
        return rests

    def shares_of_rests(self) -> Floats:
        """Shares of features in these rests."""
        shares = self.model.shares_at(self.codes, self.orders, self.n_jobs)
        for key, values in self._listed():
            shares[:, list(key)] -= (values / len(key))[:, None]
        return _per_output(shares)


def _is_wanted(order: int, max_order: int | None) -> bool:
    return max_order is None or order <= max_order


def _rests(
    evaluation: Evaluation, codes: BinIndices, listed: Mapping[Key, Floats], max_order: int | None
) -> dict[int, Floats]:
    """Sums of the terms of each order that are not listed, up to an order."""
    orders = evaluation.rest_orders
    if not orders or not _is_wanted(orders[0], max_order):
        return {}
    rests = dict(zip(orders, evaluation.rests_at(codes, listed), strict=True))
    return {order: values for order, values in rests.items() if _is_wanted(order, max_order)}


def _shares_of_rests(evaluation: Evaluation, codes: BinIndices) -> Floats:
    """Shares of features in the terms that are not listed, without the axis of outputs where there is one."""
    return _per_output(evaluation.rest_shares_at(codes))


def _per_output(shares: Floats) -> Floats:
    return shares[:, :, 0] if shares.shape[2] == 1 else shares
