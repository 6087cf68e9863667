"""Screening: which terms of high order carry weight, found without listing their values.

For independent features the part of a leaf with value v in the term of features u has the variance

    v² Π_{j in u} p_j (1 - p_j) Π_{j not in u} p_j²,

with p_j the masses of the leaf's sets. The sum over leaves ranks terms: it ignores how the parts of different leaves
are correlated, so that the largest terms are then verified at rows. One pass over the leaves takes a product per leaf
and subset of its features, whatever the number of rows.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from treeanova.anova.descent import with_subsets
from treeanova.core.arrays import Floats, Ints, Key
from treeanova.core.compiled import Kernel, affordable, is_worthwhile
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.flat_leaves import FlatLeaves

REPORTED_SHARE = 5e-4
_MAX_REPORTED = 300
_MAX_VERIFIED = 300
_VERIFIED_STEPS = 2.0**30  # leaves times rows
_VERIFIED_ROWS = 30, 2_000
_STEPS_PER_SECOND = 5e7
_SCREENED_PRODUCTS = 2.0**29
_SECONDS_PER_PRODUCT = 1e-8
_BLOCK_CELLS = 1 << 18
_ALWAYS = 100


def screened_orders(form: ClosedForm, lowest: int, highest: int) -> range:
    """The orders from the lowest up whose terms can be screened in a reasonable time; at least the lowest."""
    counts = np.bincount(form.leaf_sets.group, minlength=len(form.leaf_sets.keys))
    last = lowest
    for order in range(lowest + 1, highest + 1):
        subsets = (sum(math.comb(len(key), k) for k in range(order + 1)) for key in form.leaf_sets.keys)
        if sum(int(count) * n for count, n in zip(counts, subsets, strict=True)) > _SCREENED_PRODUCTS:
            break
        last = order
    return range(lowest, min(last, highest) + 1)


def sizes_without_rows(form: ClosedForm, orders: range) -> dict[Key, float]:
    """Sum over leaves of the variances of their parts, for every term of some orders; the largest of all outputs."""
    numbers: dict[Key, int] = {}
    places, totals = [], []
    if is_worthwhile(_n_products(form, orders) * _SECONDS_PER_PRODUCT):
        totals_of_subsets = _totals_by_kernel
    else:
        totals_of_subsets = _totals_by_numpy
    for key, leaves in zip(form.leaf_sets.keys, form.leaf_sets.members, strict=True):
        if orders and len(key) >= orders[0]:
            subsets = _subsets(key, orders[-1])
            places.append([numbers.setdefault(subset, len(numbers)) for subset in subsets])
            totals.append(totals_of_subsets(form, key, leaves, orders[-1]))
    if not totals:
        return {}
    sums = np.zeros((len(numbers), form.leaf_sets.values.shape[1]))
    np.add.at(sums, np.concatenate(places), np.concatenate(totals))
    largest = sums.max(axis=1).tolist()  # in the order of the numbers
    return {key: size for key, size in zip(numbers, largest, strict=True) if len(key) in orders}


def _n_products(form: ClosedForm, orders: range) -> int:
    """Number of products of a pass over the leaves."""
    counts = np.bincount(form.leaf_sets.group, minlength=len(form.leaf_sets.keys))
    subsets = (sum(math.comb(len(key), k) for k in range(max(orders, default=0) + 1)) for key in form.leaf_sets.keys)
    return sum(int(count) * n for count, n in zip(counts, subsets, strict=True))


def _orders_of_subsets(key: Key, max_order: int) -> list[Ints]:
    """Numbers of features of the subsets of the first features of a key, for none of them, one, two and so on."""
    order_of = [np.zeros(1, dtype=np.int64)]
    for _ in key:
        order_of.append(np.concatenate([order_of[-1], order_of[-1][order_of[-1] < max_order] + 1]))
    return order_of


def _totals_by_kernel(form: ClosedForm, key: Key, leaves: Ints, max_order: int) -> Floats:
    """The totals, compiled."""
    flat, values = form.flat(), form.leaf_sets.values
    orders = _orders_of_subsets(key, max_order)[-1]
    totals: Floats = sum_variances(leaves, values, flat, orders, max_order)
    return totals


@Kernel
def sum_variances(leaves: Ints, values: Floats, flat: FlatLeaves, orders: Ints, max_order: int) -> Floats:
    """Sums over leaves, all with the same features, of the variances of their parts, for subsets of given orders."""
    starts, mass = flat.start, flat.mass
    totals, variances = np.zeros((len(orders), values.shape[1])), np.empty(len(orders))
    for leaf in leaves:
        variances[0], n = 1.0, 1
        for entry in range(starts[leaf], starts[leaf + 1]):
            p, n_before = mass[entry], n
            for i in range(n_before):
                if orders[i] < max_order:
                    variances[n] = variances[i] * p * (1 - p)
                    n += 1
                variances[i] *= p * p
        for output in range(values.shape[1]):
            square = values[leaf, output] ** 2
            for i in range(n):
                totals[i, output] += variances[i] * square
    return totals


def _totals_by_numpy(form: ClosedForm, key: Key, leaves: Ints, max_order: int) -> Floats:
    """Sums over the leaves of one set of features, for its subsets up to an order: shape (n_subsets, n_outputs)."""
    order_of = _orders_of_subsets(key, max_order)
    totals = np.zeros((len(order_of[-1]), form.leaf_sets.values.shape[1]))
    n_leaves = max(1, _BLOCK_CELLS // len(totals))
    for start in range(0, len(leaves), n_leaves):
        some = leaves[start : start + n_leaves]
        variances = np.ones((1, len(some)))
        for j, orders in zip(key, order_of, strict=False):
            mass = form.set_masses[j][form.leaf_sets.positions(j, some)]
            with_feature = variances[orders < max_order] * (mass * (1 - mass))
            variances = np.concatenate([variances * mass**2, with_feature])
        totals += variances @ form.leaf_sets.values[some] ** 2
    return totals


def _subsets(key: Key, max_order: int) -> list[Key]:
    """All subsets of a key up to an order, in the order of the totals: the last feature varies slowest."""
    subsets: list[Key] = [()]
    for j in key:
        subsets += [(*subset, j) for subset in subsets if len(subset) < max_order]
    return subsets


def largest_with_subsets(sizes: Mapping[Key, float], lowest: int, limit: int, share: float = 1.0) -> list[Key]:
    """The largest terms with all their subsets down to an order, at most `limit` of them; sorted.

    After the first hundred, they are as many as hold a share of the sizes of all.
    """
    chosen: set[Key] = set()
    held, enough = 0.0, share * sum(sizes.values())
    for key in sorted(sizes, key=lambda key: -sizes[key]):
        if held >= enough and len(chosen) >= _ALWAYS:
            break
        held += sizes[key]
        added = {subset for subset in with_subsets([key]) if len(subset) >= lowest} - chosen
        if chosen and len(chosen) + len(added) > limit:
            break
        chosen |= added
    return sorted(chosen, key=lambda key: (len(key), key))


class Screened(NamedTuple):
    """Terms that carry weight, orders of which others were left out, and what these may carry.

    Attributes
    ----------
    keys
        Terms to report individually.
    rest_orders
        Orders of which some terms are not reported.
    n_left_out
        Number of terms that are not reported, as far as they were counted.
    largest_missed
        Estimate of the largest share of the score's variance of a term that is not reported.
    shares
        Shares of the terms that were verified at rows.
    """

    keys: tuple[Key, ...]
    rest_orders: tuple[int, ...]
    n_left_out: int
    largest_missed: float
    shares: Mapping[Key, float] = MappingProxyType({})


def screen(
    sizes: Mapping[Key, float],
    orders: range,
    n_leaves_with: Callable[[Key], int],
    shares_at: Callable[[Sequence[Key], int], Floats],
    *,
    asked: Sequence[Key] = (),
    seconds: float = math.inf,
) -> Screened:
    """Terms whose share of the score's variance is at least 0.05 % at rows, of the largest by size.

    `orders` are all orders of high terms, screened or not; `shares_at(keys, n_rows)` gives shares of the score's
    variance. Terms that are asked for are reported too. With few `seconds`, fewer are verified at fewer rows.
    """
    ranked = sorted(sizes, key=sizes.__getitem__, reverse=True)
    verified, n_rows = _affordable(ranked, n_leaves_with, min(affordable(_VERIFIED_STEPS), seconds * _STEPS_PER_SECOND))
    shares = shares_at(verified, n_rows) if verified else np.zeros(0)
    largest = np.argsort(-shares, kind="stable")[:_MAX_REPORTED]
    reported = {verified[i] for i in largest if shares[i] >= REPORTED_SHARE} | set(asked)
    keys = tuple(sorted(reported, key=lambda key: (len(key), key)))
    n_of_order, n_reported = collections.Counter(map(len, sizes)), collections.Counter(map(len, keys))
    rests = tuple(order for order in orders if not n_of_order[order] or n_reported[order] < n_of_order[order])
    missed = [float(share) for key, share in zip(verified, shares, strict=True) if key not in reported]
    largest_other = next((sizes[key] for key in ranked[len(verified) :] if key not in reported), None)
    ratios = [share / sizes[key] for key, share in zip(verified, shares, strict=True) if sizes[key] > 0]
    if largest_other is not None and ratios:
        missed.append(largest_other * float(np.quantile(ratios, 0.95)))
    n_left_out = max(sum(n_of_order[order] for order in orders) - len(reported), len(rests))
    known = dict(zip(verified, shares.tolist(), strict=True))
    return Screened(keys, rests, n_left_out, max(missed, default=0.0), known)


def _affordable(ranked: Sequence[Key], n_leaves_with: Callable[[Key], int], steps: float) -> tuple[list[Key], int]:
    """The largest terms that can be verified in a reasonable time, and the number of rows for it."""
    keys: list[Key] = []
    n_leaves = 0
    for key in ranked[:_MAX_VERIFIED]:
        n_leaves += n_leaves_with(key)
        if keys and n_leaves * _VERIFIED_ROWS[0] > steps:
            n_leaves -= n_leaves_with(key)
            break
        keys.append(key)
    return keys, int(np.clip(steps / max(n_leaves, 1), *_VERIFIED_ROWS))
