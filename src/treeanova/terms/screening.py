"""Screening: find the important terms of high order without computing their values.

For independent features the part of a leaf with value v in the term of features u has the variance

    v² Π_{j in u} p_j (1 - p_j) Π_{j not in u} p_j²,

with p_j the masses of the leaf's sets. The sum over leaves ranks terms. It ignores correlations between parts of
different leaves, so the largest terms are then verified at rows. If nearly every leaf has its own set of features, as
in forests of many columns, sums are indexed by the rank of a subset among all of its order, and the largest are listed.
"""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from treeanova.anova.cascade import with_subsets
from treeanova.core.arrays import Floats, Ints, Key
from treeanova.core.compiled import Kernel, affordable
from treeanova.terms import costs
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.leaves import FlatLeaves


def screened_orders(form: ClosedForm, lowest: int, highest: int, seconds: float = math.inf) -> range:
    """Return the orders from the lowest up that can be screened in reasonable time and memory; may be empty."""
    most_products = min(costs.SCREENED_PRODUCTS, seconds * costs.PRODUCTS_PER_SECOND)
    last = lowest - 1
    for order in range(lowest, highest + 1):
        is_long = _n_products(form, order) > most_products and (order > lowest or math.isfinite(seconds))
        n_ranked = math.comb(len(form.leaf_sets.used_features), order) * int(form.leaf_sets.values.shape[1])
        if is_long or not (_has_few_subsets(form, order) or n_ranked <= costs.MOST_RANKED):
            break
        last = order
    return range(lowest, last + 1)


def _has_few_subsets(form: ClosedForm, max_order: int) -> bool:
    """Whether the subsets up to an order of all leaves' sets of features can be held in memory."""
    n_keys_of_size = np.bincount([len(key) for key in form.leaf_sets.keys])
    n_subsets = sum(int(n_keys) * _n_subsets(size, max_order) for size, n_keys in enumerate(n_keys_of_size))
    return n_subsets * int(form.leaf_sets.values.shape[1]) <= costs.MOST_SUBSETS


def _n_subsets(size: int, max_order: int) -> int:  # of a set of `size` features, up to an order
    return sum(math.comb(size, order) for order in range(max_order + 1))


class Sizes(NamedTuple):
    by_key: Mapping[Key, float]  # the sizes of all terms, or of the largest if terms are too many to list
    n_terms: Mapping[int, int]  # number of all terms of each order
    total: float  # sum of the sizes of all terms


def sizes_without_rows(form: ClosedForm, orders: range) -> Sizes:
    """Return the size of every term of some orders: the sum of its leaves' variances, the largest of all outputs."""
    if orders and not _has_few_subsets(form, orders[-1]):
        return _sizes_by_rank(form, orders)
    by_key = _sizes_by_key(form, orders)
    return Sizes(by_key, collections.Counter(map(len, by_key)), sum(by_key.values()))


def _sizes_by_key(form: ClosedForm, orders: range) -> dict[Key, float]:
    """Return the sizes of all terms of some orders, from sums over the leaves of each distinct set of features."""
    numbers: dict[Key, int] = {}  # of all terms met so far
    places, totals = [], []
    is_compiled = costs.is_compiled(variances=_n_products(form, max(orders, default=0)))
    values = form.leaf_sets.values
    for key, leaves in zip(form.leaf_sets.keys, form.leaf_sets.leaves_by_key, strict=True):
        if orders and len(key) >= orders[0]:
            subsets = _subsets(key, orders[-1])
            places.append([numbers.setdefault(subset, len(numbers)) for subset in subsets])
            if is_compiled:
                orders_of_subsets = _orders_of_subsets(key, orders[-1])[-1]
                totals.append(sum_variances(leaves, values, form.flat(), orders_of_subsets, orders[-1]))
            else:
                totals.append(_sum_variances_by_numpy(form, key, leaves, orders[-1]))
    if not totals:
        return {}
    sums = np.zeros((len(numbers), values.shape[1]))
    np.add.at(sums, np.concatenate(places), np.concatenate(totals))
    largest = sums.max(axis=1).tolist()  # in the order of the numbers
    return {key: size for key, size in zip(numbers, largest, strict=True) if len(key) in orders}


def _n_products(form: ClosedForm, max_order: int) -> int:
    """Return the number of pairs of a leaf and a subset of its features up to an order."""
    n_leaves_of_size = np.bincount(form.leaf_sets.n_features_of_leaves)
    return sum(int(n_leaves) * _n_subsets(size, max_order) for size, n_leaves in enumerate(n_leaves_of_size))


def _sizes_by_rank(form: ClosedForm, orders: range) -> Sizes:
    """Return the sizes of the largest terms of each order; arrays have all sets of features of an order, by rank."""
    by_key: dict[Key, float] = {}
    n_terms, total = {}, 0.0
    flat, used = form.flat(), form.leaf_sets.used_features
    place = np.zeros(len(form.leaf_sets.sets), dtype=np.int64)  # of each feature among those used
    place[used] = np.arange(len(used))
    for order in orders:
        is_compiled = costs.is_compiled(variances=_n_products(form, order))
        add = add_variances_by_rank if is_compiled else _add_variances_by_numpy
        addends = _rank_addends(len(used), order)
        sums = add(form.leaf_sets.values, flat, place, addends, math.comb(len(used), order)).max(axis=1)
        n_terms[order], total = int(np.count_nonzero(sums)), total + float(sums.sum())
        largest = np.argpartition(-sums, min(costs.MOST_LISTED, len(sums) - 1))[: costs.MOST_LISTED]
        largest = np.sort(largest[sums[largest] > 0])
        keys = used[_sets_of_ranks(largest, order, len(used))]
        by_key |= zip(map(tuple, keys.tolist()), sums[largest].tolist(), strict=True)
    return Sizes(by_key, n_terms, total)


def _rank_addends(n_features: int, order: int) -> Ints:
    """Return addends (n_features, order) of ranks: a set has the unique rank Σ_i addends[i-th feature, i]."""
    # This numbers the sets of one order from 0 without gaps (the combinatorial number system).
    rows = [[math.comb(j, i) for i in range(1, order + 1)] for j in range(n_features)]
    return np.array(rows, dtype=np.int64).reshape(n_features, order)


def _sets_of_ranks(ranks: Ints, order: int, n_features: int) -> Ints:
    """Return the sorted sets of features with given ranks, (n_ranks, order): the inverse of the sum of addends."""
    addends, remaining = _rank_addends(n_features, order), ranks.copy()
    sets = np.zeros((len(ranks), order), dtype=np.int64)
    for i in reversed(range(order)):
        sets[:, i] = np.searchsorted(addends[:, i], remaining, side="right") - 1
        remaining -= addends[sets[:, i], i]
    return sets


def _add_variances_by_numpy(values: Floats, flat: FlatLeaves, place: Ints, addends: Ints, n_sets: int) -> Floats:
    """Sum the variances of leaves' parts in the term of each set of features, by its rank: (n_sets, n_outputs)."""
    # As `add_variances_by_rank`, leaves with equally many features together. `place` numbers the features.
    order = addends.shape[1]
    sums, n_features = np.zeros((n_sets, values.shape[1])), np.diff(flat.start)
    for size in np.unique(n_features[n_features >= order]).tolist():
        leaves = np.flatnonzero(n_features == size)
        for start in range(0, len(leaves), costs.SCREEN_CELLS):
            chunk = leaves[start : start + costs.SCREEN_CELLS]
            entries = flat.start[chunk, None] + np.arange(size)
            masses, places = flat.mass[entries], place[flat.feature[entries]]
            # (1 - p) / p is a feature's factor of the variance; 0 for sets without mass
            odds = np.divide(1 - masses, masses, out=np.zeros_like(masses), where=masses > 0)
            squares = values[chunk] ** 2 * np.square(masses.prod(axis=1))[:, None]
            for slots in itertools.combinations(range(size), order):
                rank = sum(addends[places[:, slot], i] for i, slot in enumerate(slots))
                np.add.at(sums, rank, squares * odds[:, list(slots)].prod(axis=1)[:, None])
    return sums


@Kernel
def add_variances_by_rank(values: Floats, flat: FlatLeaves, place: Ints, addends: Ints, n_sets: int) -> Floats:
    """Sum the variances of leaves' parts in the term of each set of features, by its rank: (n_sets, n_outputs)."""
    # Values are (n_leaves, n_outputs); `place` numbers the features; a set's rank is the sum of its places' `addends`.
    starts, feature, mass = flat.start, flat.feature, flat.mass
    sums = np.zeros((n_sets, values.shape[1]))
    for leaf in range(len(values)):
        start, stop = starts[leaf], starts[leaf + 1]
        product = 1.0
        for entry in range(start, stop):
            product *= mass[entry] * mass[entry]
        outputs = np.flatnonzero(values[leaf])
        if stop - start >= addends.shape[1] and product > 0.0 and len(outputs) > 0:
            odds = (1 - mass[start:stop]) / mass[start:stop]
            add_leaf(sums, values[leaf], outputs, (product, odds), (place[feature[start:stop]], addends))
    return sums


@Kernel
def add_leaf(
    sums: Floats, values: Floats, outputs: Ints, masses: tuple[float, Floats], sets: tuple[Ints, Ints]
) -> None:
    """Add one leaf's variances, v² Π p² Π_{set} (1 - p) / p, to `sums` at the ranks of all sets of its features."""
    # `masses` are Π p² and (1 - p) / p per feature; `sets` are the places of its features, and for each place and slot
    # what it adds to the rank of a set.
    # Sets are tried depth first: `product` and `rank` belong to their first features, which they share.
    (base, odds), (places, addends) = masses, sets
    n_features, order = len(places), addends.shape[1]
    product, rank = np.full(order + 1, base), np.zeros(order + 1, np.int64)
    slot, depth = np.zeros(order, np.int64), 0  # features of the set so far, and their number
    while depth >= 0:
        if slot[depth] > n_features - order + depth:
            depth -= 1
        else:
            product[depth + 1] = product[depth] * odds[slot[depth]]
            rank[depth + 1] = rank[depth] + addends[places[slot[depth]], depth]
            if depth + 1 < order:
                depth += 1
                slot[depth] = slot[depth - 1]
            else:
                for output in outputs:
                    sums[rank[order], output] += product[order] * values[output] ** 2
        if depth >= 0:
            slot[depth] += 1


def _orders_of_subsets(key: Key, max_order: int) -> list[Ints]:
    """Return, for the first 0, 1, 2, … features of a key, the orders of all their subsets, as `_subsets` lists them."""
    order_of = [np.zeros(1, dtype=np.int64)]
    for _ in key:
        order_of.append(np.concatenate([order_of[-1], order_of[-1][order_of[-1] < max_order] + 1]))
    return order_of


@Kernel
def sum_variances(leaves: Ints, values: Floats, flat: FlatLeaves, orders: Ints, max_order: int) -> Floats:
    """Sum variances of leaves with one key, for each subset of its features up to an order: (n_subsets, n_outputs)."""
    starts, mass = flat.start, flat.mass  # `orders` are those of the subsets, in the order of `_subsets`
    totals, variances = np.zeros((len(orders), values.shape[1])), np.empty(len(orders))
    for leaf in leaves:
        variances[0], n_subsets = 1.0, 1
        for entry in range(starts[leaf], starts[leaf + 1]):
            p, n_before = mass[entry], n_subsets
            for i in range(n_before):
                if orders[i] < max_order:
                    variances[n_subsets] = variances[i] * p * (1 - p)
                    n_subsets += 1
                variances[i] *= p * p
        for output in range(values.shape[1]):
            square = values[leaf, output] ** 2
            for i in range(n_subsets):
                totals[i, output] += variances[i] * square
    return totals


def _sum_variances_by_numpy(form: ClosedForm, key: Key, leaves: Ints, max_order: int) -> Floats:
    """Sum variances of leaves with one key, for each subset of its features up to an order: (n_subsets, n_outputs)."""
    order_of = _orders_of_subsets(key, max_order)
    totals = np.zeros((len(order_of[-1]), form.leaf_sets.values.shape[1]))
    chunk_size = max(1, costs.SCREEN_CELLS // len(totals))
    for start in range(0, len(leaves), chunk_size):
        chunk = leaves[start : start + chunk_size]
        variances = np.ones((1, len(chunk)))
        for j, orders in zip(key, order_of, strict=False):
            mass = form.set_masses[j][form.leaf_sets.set_indices(j, chunk)]
            with_feature = variances[orders < max_order] * (mass * (1 - mass))
            variances = np.concatenate([variances * mass**2, with_feature])
        totals += variances @ form.leaf_sets.values[chunk] ** 2
    return totals


def _subsets(key: Key, max_order: int) -> list[Key]:
    """Return all subsets of a key up to an order, starting with (): those with its last feature come last."""
    subsets: list[Key] = [()]
    for j in key:
        subsets += [(*subset, j) for subset in subsets if len(subset) < max_order]
    return subsets


def largest_with_subsets(
    sizes: Mapping[Key, float], lowest: int, limit: int, share: float = 1.0, total: float | None = None
) -> list[Key]:
    """Return, sorted, the largest terms that hold a share of the total size, and their subsets from `lowest` up."""
    # At most `limit`, subsets included; `total` is the size of all terms if `sizes` has only some.
    selected_keys: set[Key] = set()
    size_so_far, enough = 0.0, share * (sum(sizes.values()) if total is None else total)
    for key in sorted(sizes, key=lambda key: -sizes[key]):
        if size_so_far >= enough and len(selected_keys) >= costs.ALWAYS_CORRECTED:
            break
        size_so_far += sizes[key]
        added = {subset for subset in with_subsets([key]) if len(subset) >= lowest} - selected_keys
        if selected_keys and len(selected_keys) + len(added) > limit:
            break
        selected_keys |= added
    return sorted(selected_keys, key=lambda key: (len(key), key))


class Screened(NamedTuple):
    """The important terms, the orders with omitted terms, and how much these may carry."""

    keys: tuple[Key, ...] = ()  # terms to report individually
    unlisted_orders: tuple[int, ...] = ()  # orders of which some terms are not reported
    n_left_out: int = 0  # number of terms that are not reported, as far as they were counted
    largest_missed: float = 0.0  # estimate of the largest share of the score's variance of a term that is not reported
    shares: Mapping[Key, float] = MappingProxyType({})  # shares of the terms that were verified at rows


def screen(
    sizes: Mapping[Key, float],
    orders: range,
    n_leaves_with: Callable[[Key], int],
    shares_at: Callable[[Sequence[Key], int], Floats],
    *,
    asked: Sequence[Key] = (),
    seconds: float = math.inf,
    n_terms: Mapping[int, int] | None = None,
) -> Screened:
    """Return those of the largest terms that have at least 0.05 % of the score's variance at rows."""
    # `sizes` rank the terms; `shares_at(keys, n_rows)` gives shares of the score's variance, which verify the first of
    # them. `orders` are all high orders, screened or not. Terms in `asked` are always reported. With few `seconds`,
    # fewer terms are verified at fewer rows. `n_terms` are the numbers of terms of each order if not all have sizes.
    ranked = sorted(sizes, key=sizes.__getitem__, reverse=True)
    most_steps = min(affordable(costs.VERIFIED_STEPS), seconds * costs.VERIFIED_STEPS_PER_SECOND)
    verified, n_rows = _keys_and_rows_to_verify(ranked, n_leaves_with, most_steps)
    shares = shares_at(verified, n_rows) if verified else np.zeros(0)
    largest = np.argsort(-shares, kind="stable")[: costs.MAX_REPORTED]
    reported = {verified[i] for i in largest if shares[i] >= costs.REPORTED_SHARE} | set(asked)
    keys = tuple(sorted(reported, key=lambda key: (len(key), key)))
    n_of_order, n_reported = collections.Counter(n_terms or map(len, sizes)), collections.Counter(map(len, keys))
    unlisted_orders = tuple(order for order in orders if not n_of_order[order] or n_reported[order] < n_of_order[order])
    missed = [float(share) for key, share in zip(verified, shares, strict=True) if key not in reported]
    largest_other = next((sizes[key] for key in ranked[len(verified) :] if key not in reported), None)
    ratios = [share / sizes[key] for key, share in zip(verified, shares, strict=True) if sizes[key] > 0]
    if largest_other is not None and ratios:
        missed.append(largest_other * float(np.quantile(ratios, 0.95)))  # at most, nearly always
    n_left_out = max(sum(n_of_order[order] for order in orders) - len(reported), len(unlisted_orders))
    share_by_key = dict(zip(verified, shares.tolist(), strict=True))
    largest_missed = max(missed, default=math.nan if n_left_out else 0.0)
    return Screened(keys, unlisted_orders, n_left_out, largest_missed, share_by_key)


def _keys_and_rows_to_verify(
    ranked: Sequence[Key], n_leaves_with: Callable[[Key], int], most_steps: float
) -> tuple[list[Key], int]:
    """Return the first ranked terms, and a number of rows, that stay within `most_steps` leaves times rows."""
    keys: list[Key] = []
    n_leaves = 0
    for key in ranked[: costs.MAX_VERIFIED]:
        n_leaves += n_leaves_with(key)
        if keys and n_leaves * costs.VERIFIED_ROWS[0] > most_steps:
            n_leaves -= n_leaves_with(key)
            break
        keys.append(key)
    return keys, int(np.clip(most_steps / max(n_leaves, 1), *costs.VERIFIED_ROWS))
