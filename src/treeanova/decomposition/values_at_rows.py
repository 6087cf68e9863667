"""Values of all terms at rows, against the average under the density or against reference rows."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

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


def values_at_rows(evaluation: Evaluation, encoded: Floats, max_order: int | None) -> ValuesAtRows:
    """Terms of a decomposition at rows."""
    keys = [key for key in evaluation.terms.keys if _is_wanted(len(key), max_order)]
    codes = evaluation.grid.index_encoded(encoded)
    values = evaluation.at(codes, keys)
    others = _rests(evaluation, codes, dict(zip(keys, values, strict=True)), max_order)
    shares = Deferred(functools.partial(_shares_of_rests, evaluation, codes)) if others else None
    n_parts = len(evaluation.terms.keys) + len(evaluation.rest_orders)
    leaves_rest = evaluation.has_remainder or len(keys) + len(others) < n_parts
    return ValuesAtRows(keys, values, others, shares, evaluation.terms.intercept, leaves_rest)


def values_against(evaluation: Evaluation, encoded: Floats, references: Floats, max_order: int | None) -> ValuesAtRows:
    """Anchored terms at rows, the mean over references; they add up to the score minus that of the references."""
    codes, grid = evaluation.grid.index_encoded(encoded), evaluation.grid
    against = anchored(evaluation.source, grid.index_encoded(references))
    known = evaluation.terms.keys if against.keys is None else against.keys
    limit = evaluation.scope.order if isinstance(evaluation.scope, Truncated) else None
    is_listed = [_is_wanted(len(key), max_order) and _is_wanted(len(key), limit) for key in known]
    keys = [key for key, is_kept in zip(known, is_listed, strict=True) if is_kept]
    values = against.at(codes, keys, evaluation.n_jobs)
    rests = evaluation.rest_orders if against.keys is None else ()
    orders = [order for order in rests if _is_wanted(order, max_order)]
    others = dict(zip(orders, _rests_against(against, codes, keys, values, orders, evaluation.n_jobs), strict=True))
    shares = functools.partial(_shares_against, against, codes, keys, values, orders, evaluation.n_jobs)
    intercept = evaluation.score(references).mean(axis=0)
    leaves_rest = limit is not None or len(keys) < len(known) or len(orders) < len(rests)
    return ValuesAtRows(keys, values, others, Deferred(shares) if others else None, intercept, leaves_rest)


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


def _rests_against(
    against: Anchored, codes: BinIndices, keys: Sequence[Key], values: Floats, orders: Sequence[int], n_jobs: int
) -> Floats:
    """Totals of some orders minus the listed terms."""
    if not orders:
        return np.zeros((0, *values.shape[1:]))
    rests = against.totals_at(codes, orders, n_jobs)
    for key, listed in zip(keys, values, strict=True):
        if len(key) in orders:
            rests[orders.index(len(key))] -= listed
    return rests


def _shares_against(
    against: Anchored, codes: BinIndices, keys: Sequence[Key], values: Floats, orders: Sequence[int], n_jobs: int
) -> Floats:
    """Shares of features in totals of some orders minus those in the listed terms."""
    shares = against.shares_at(codes, orders, n_jobs)
    for key, listed in zip(keys, values, strict=True):
        if len(key) in orders:
            shares[:, list(key)] -= (listed / len(key))[:, None]
    return _per_output(shares)


def _per_output(shares: Floats) -> Floats:
    return shares[:, :, 0] if shares.shape[2] == 1 else shares
