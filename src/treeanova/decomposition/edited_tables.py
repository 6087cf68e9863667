"""Edited tables: new values of terms, nearest in the norm of the density, and the pure terms that follow.

An edit changes the function of a term: scores change by the new minus the old value. The change alone is purified and
added to the terms, since purification is linear; terms that share no features with it keep every digit.

**Monotone in a feature j, interactions included.** The score is monotone in x_j exactly if the steps of the main effect
plus, for each pair (j, k), the smallest step over x_k are not negative: the other features are free. So the monotone
functions are the sums Σ_k q_k(x_j, x_k) of curves q_k that are monotone in x_j for every x_k. With the means over x_k
given x_j written as q̄_k, and partners k that are independent given x_j, the squared distance to main + Σ_k p_k is

    E (Σ_k q̄_k - main - Σ_k p̄_k)² + Σ_k E (q_k - q̄_k - p_k + p̄_k)²,

which is convex. Given all other curves, the best q_k is an isotonic regression of p_k - p̄_k + main + Σ_l p̄_l -
Σ_{l≠k} q̄_l for each x_k, weighted by the density. Curves are fitted in turn until they stay; every curve is monotone at
any time. For one pair, the first fit is the nearest function; for none, it is the isotonic main effect.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy.optimize
import scipy.sparse
import scipy.sparse.linalg

from treeanova.anova.certificate import TermCertificate
from treeanova.core.arrays import ROUNDING, Bools, Floats, Ints, Key
from treeanova.decomposition.steps import averaged
from treeanova.density.base import Density
from treeanova.model.axes import Axis, short_ends
from treeanova.model.effects import Effects, take_bins, weighted_sum, without_rounding
from treeanova.model.grid import Binning, binning_by, common_refinement
from treeanova.terms.source import PureTerms, Settings, purify_tensors
from treeanova.views import first_texts

_ROUNDING = 1e-12  # relative to the largest value
_LEAST_MASS = 1e-12  # of a cell without mass, relative to the heaviest
_FITTED = 1e-9  # change of a curve, relative to its size, at which fitting stops
_MOST_FITS = 200  # of each curve
_LEAST_WEIGHT = 1e-9  # of a cell that is smoothed, relative to the mean
_WEAK = 100.0  # strengths of smoothing to which one equation per cell has all digits
_MOST_SMOOTHED = 1 << 18  # cells, whose equations are solved at once


class PureEdit(NamedTuple):
    """Pure terms after an edit, what was measured on the change, and other terms that it moved (the intercept: ())."""

    effects: Effects
    measured: Mapping[Key, TermCertificate]
    moved: tuple[Key, ...]


def replaced(effects: Effects, tables: Mapping[Key, Floats], intercept: Floats | None = None) -> Effects:
    """Return effects with some tables, over the bins of the terms, and perhaps the intercept replaced."""
    intercept = effects.intercept if intercept is None else intercept
    return Effects(effects.grid, intercept, {**effects.terms, **tables}, effects.binnings)


def with_outputs(table: Floats, new: Floats, outputs: Sequence[int]) -> Floats:
    """Return a table with some of its outputs, the last axis, replaced."""
    whole = np.array(table)
    whole[..., list(outputs)] = new
    return whole


def purified_edit(before: Effects, edited: Effects, density: Density, settings: Settings) -> PureEdit:
    """Return `edited`, whose terms were those of `before`, with pure terms again."""
    keys, size = _differing(edited, before), size_of(before)
    has_other_bins = any(not _has_bins_of(edited, before, key) for key in keys)
    summed, pure = _with_pure_change(before, edited, frozenset(keys if has_other_bins else ()), density, settings)
    summed = without_rounding(summed, np.full(edited.n_outputs, ROUNDING * size))
    effects = summed.keep(lambda key: key in before.terms or _largest(summed.terms[key]) > _ROUNDING * size)
    unedited = [key for key in effects.terms if key in pure.terms.effects.terms and key not in keys]
    moved = [key for key in unedited if key not in before.terms or _moves(effects, before, key, _ROUNDING * size)]
    if _largest(effects.intercept - edited.intercept) > _ROUNDING * size:
        moved.append(())
    return PureEdit(effects, pure.measured, tuple(moved))


def _with_pure_change(
    before: Effects, edited: Effects, whole: frozenset[Key], density: Density, settings: Settings
) -> tuple[Effects, PureTerms]:
    """Return the pure sum, and what was purified: the change, or all of the terms in `whole`.

    A term that is pure on its bins is not so on others, so terms to which a change on other bins is added are purified
    as a whole.
    """
    unchanged, addition = before, difference(edited, before)
    if whole:
        unchanged = edited.keep(lambda key: key not in whole)
        addition = dataclasses.replace(edited.keep(whole.__contains__), intercept=np.zeros(edited.n_outputs))
    pure = purify_tensors(addition, density, settings)
    summed = weighted_sum([unchanged, pure.terms.effects], [1.0, 1.0])
    both = [key for key in unchanged.terms if len(key) > 1 and key in pure.terms.effects.terms]
    with_other_bins = {key for key in both if not _has_bins_of(pure.terms.effects, unchanged, key)}
    if not with_other_bins:
        return summed, pure
    return _with_pure_change(before, edited, whole | _differing(edited, before) | with_other_bins, density, settings)


def _differing(after: Effects, before: Effects) -> set[Key]:
    """Return the keys of terms that one of two models lacks, or has with another table."""
    return {key for key in {*after.terms, *before.terms} if after.terms.get(key) is not before.terms.get(key)}


def _has_bins_of(one: Effects, other: Effects, key: Key) -> bool:
    """Whether both models have a term on the same bins."""
    return all(map(Binning.equals, one.binnings_of(key), other.binnings_of(key)))


def _moves(after: Effects, before: Effects, key: Key, tolerance: float) -> bool:
    """Whether a term differs by more than a tolerance between two models."""
    change = difference(after.keep(lambda other: other == key), before.keep(lambda other: other == key))
    return any(_largest(table) > tolerance for table in change.terms.values())


def difference(after: Effects, before: Effects) -> Effects:
    """Return `after` minus `before`, of the terms that differ; both on one grid."""
    differing = _differing(after, before)
    change = weighted_sum([effects.keep(differing.__contains__) for effects in (after, before)], [1.0, -1.0])
    return change.keep(lambda key: bool(change.terms[key].any()))


def _largest(values: Floats) -> float:
    """Return the largest absolute value, 0 of none."""
    return float(np.abs(values).max(initial=0.0))


def size_of(effects: Effects) -> float:
    """Return the largest absolute value of intercept and tables."""
    return max(map(_largest, [effects.intercept, *effects.terms.values()]))


def as_one_table(change: Effects) -> tuple[Key, tuple[Binning, ...], Floats] | None:
    """Return a sum of tables as one, with its key and bins; None if no term has the features of all others."""
    top = max(change.terms, key=len, default=())
    if not all(set(key) <= set(top) for key in change.terms):
        return None
    binnings = tuple(
        common_refinement([change.binnings_of(key)[key.index(j)] for key in change.terms if j in key]) for j in top
    )
    total = np.zeros((*(binning.size for binning in binnings), change.n_outputs)) + change.intercept
    for key in change.terms:
        table = change.on_binnings(key, [binnings[top.index(j)] for j in key])
        missing = tuple(axis for axis, j in enumerate(top) if j not in key)
        total += np.expand_dims(table, missing)
    return top, binnings, total


# Bins.


def chosen_bins(axis: Axis, bins: Sequence[str | int] | None, between: Sequence[float | None] | None) -> Ints:
    """Return the positions of bins given by labels or positions, or as all intervals between two cuts."""
    if (bins is None) == (between is None):
        raise ValueError("bins must be given by `bins` or by `between`, got both or none; name some of them.")
    if between is not None:
        low, high = _cut(axis, between, 0), _cut(axis, between, 1)
        if low >= high:
            raise ValueError(f"`between` must ascend, got {tuple(between)!r}; exchange the two.")
        return np.arange(low, high)
    listed = [bins] if isinstance(bins, str | int) else list(bins or ())
    return np.array(sorted({_position(axis, bin_) for bin_ in listed}), dtype=np.int64)


def _position(axis: Axis, bin_: str | int) -> int:
    """Return the position of a bin, given by its label or its position."""
    if isinstance(bin_, str) and bin_ in axis.labels:
        return axis.labels.index(bin_)
    if not isinstance(bin_, bool | str) and isinstance(bin_, int | np.integer) and 0 <= bin_ < axis.size:
        return int(bin_)
    raise ValueError(
        f"bins of {axis.name!r} must be labels or positions, got {bin_!r}; its labels are "
        f"{first_texts(map(repr, axis.labels))}: see fx.terms[...].axes."
    )


def _cut(axis: Axis, between: Sequence[float | None], end: int) -> int:
    """Return the number of intervals below an end, which must be a cut of the axis as it is or as labels write it."""
    if not axis.is_ordered:
        raise ValueError(f"`between` must be of a feature with numbers, got {axis.name!r}; name its categories.")
    if len(between) != 2:
        raise ValueError(f"`between` must have two ends, got {len(between)}; None is for an open end.")
    value = between[end]
    if value is None or value == (-np.inf, np.inf)[end]:
        return (0, axis.n_regular)[end]
    written = [float(text.text) for text in short_ends(axis.thresholds)] if not axis.date_unit else axis.thresholds
    for cuts in (axis.thresholds, np.asarray(written)):
        places = np.flatnonzero(cuts == value)
        if len(places):
            return int(places[0]) + 1
    if axis.date_unit and not isinstance(value, int | float):
        raise ValueError(
            f"`between` must be in numbers, as {axis.name}_low and {axis.name}_high of fx.table("
            f"{axis.name!r}) are, got {value!r}."
        )
    near = np.argsort(np.abs(axis.thresholds - value))[:2] if isinstance(value, int | float) else []
    nearest = " and ".join(f"{axis.thresholds[i]:.6g}" for i in sorted(near)) or "none"
    raise ValueError(f"`between` must end at cuts of {axis.name!r}, or at None, got {value!r}; nearest: {nearest}.")


def ends_of_bins(axis: Axis, positions: Ints) -> tuple[float | None, float | None] | None:
    """Return the cuts around neighbouring intervals, None for an open end; None for categories."""
    if not axis.is_ordered:
        return None
    low, high = axis.edges[[positions[0], positions[-1] + 1]].tolist()
    return (low if math.isfinite(low) else None), (high if math.isfinite(high) else None)


# Merged bins.


def merged(effects: Effects, feature: int, is_chosen: Bools, density: Density) -> Effects:
    """Return effects in which the chosen bins of a feature share their weighted mean, in all of its terms.

    Intervals become one bin of each term, on which it stays pure. Categories keep their bins.
    """
    is_ordered = effects.grid.axes[feature].is_ordered
    terms, binnings = dict(effects.terms), dict(effects.binnings)
    for key in effects.terms:
        if feature not in key:
            continue
        place, old = key.index(feature), effects.binnings_of(key)
        if len(np.unique(old[place].bins[is_chosen])) < 2:
            continue  # these bins are one already
        fine = common_refinement([old[place], binning_by(is_chosen.astype(np.int64))])
        axes = tuple(fine if axis == place else binning for axis, binning in enumerate(old))
        group = _merged_group(fine, is_chosen)
        groups = [group if axis == place else np.arange(binning.size) for axis, binning in enumerate(axes)]
        values = averaged(effects.on_binnings(key, axes), density.table(key, axes), groups)
        if is_ordered:
            first = np.unique(group, return_index=True)[1]
            values = take_bins(values, [first if axis == place else bins for axis, bins in enumerate(groups)])
            axes = (*axes[:place], binning_by(group[fine.bins]), *axes[place + 1 :])
        terms[key], binnings[key] = values, axes
    return Effects(effects.grid, effects.intercept, terms, binnings)


def _merged_group(fine: Binning, is_chosen: Bools) -> Ints:
    """Return the group of each bin: one of the chosen ones, in the place of the first, and one of each other."""
    in_group = np.zeros(fine.size, dtype=bool)
    in_group[fine.bins[is_chosen]] = True
    places = np.arange(fine.size)
    places[in_group] = places[in_group][0]
    return np.unique(places, return_inverse=True)[1].ravel()


# Smoothed values.


def smoothed(values: Floats, weights: Floats, axes: Sequence[Axis], strength: float) -> Floats:
    """Return the values z with the smallest Σ w (z - values)² + strength w̄ Σ (second differences of z)².

    Differences are along ordered axes, w̄ is the mean weight. Bins of missing values stay, and categories apart.
    """
    inner = tuple(slice(axis.n_regular if axis.is_ordered else axis.size) for axis in axes)
    sizes, mass = weights[inner].shape, weights[inner]
    if mass.size > _MOST_SMOOTHED:
        raise ValueError(
            f"smooth() must have a term of at most {_MOST_SMOOTHED:,} cells, got {mass.size:,}; merge bins before."
        )
    bends = [_bends(sizes, i) for i, axis in enumerate(axes) if axis.is_ordered and sizes[i] > 2]
    if not bends:
        raise ValueError(
            "smooth() must have a term of a number with three bins or more, got none; use set() or merge()."
        )
    mass = np.maximum(mass / (mass.mean() if mass.any() else 1.0), _LEAST_WEIGHT).ravel()
    old = values[inner].reshape(mass.size, -1)
    new = np.array(values)
    new[inner] += _smoothing(old, mass, scipy.sparse.vstack(bends), strength).reshape(new[inner].shape)
    return new


def _smoothing(values: Floats, mass: Floats, bend: scipy.sparse.sparray, strength: float) -> Floats:
    """Return the change that smooths values: solved for by itself, so that what is smooth already stays as it is."""
    if strength <= _WEAK:
        matrix = scipy.sparse.diags_array(mass) + strength * (bend.T @ bend)
        return np.asarray(scipy.sparse.linalg.splu(matrix.tocsc()).solve(-strength * (bend.T @ (bend @ values))))
    # Bends are unknowns of their own: in one equation per cell, a large strength would swallow the weights.
    softness = scipy.sparse.eye_array(bend.shape[0]) / strength
    matrix = scipy.sparse.block_array([[scipy.sparse.diags_array(mass), bend.T], [bend, -softness]])
    bent = np.concatenate([np.zeros_like(values), -(bend @ values)])
    return np.asarray(scipy.sparse.linalg.splu(matrix.tocsc()).solve(bent)[: mass.size])


def _bends(sizes: Sequence[int], place: int) -> scipy.sparse.csr_array:
    """Return second differences of cells along one axis."""
    n = sizes[place]
    second = scipy.sparse.diags_array([1.0, -2.0, 1.0], offsets=[0, 1, 2], shape=(n - 2, n))
    before, after = int(np.prod(sizes[:place])), int(np.prod(sizes[place + 1 :]))
    eyes = scipy.sparse.eye_array(before), scipy.sparse.eye_array(after)
    return scipy.sparse.csr_array(scipy.sparse.kron(scipy.sparse.kron(eyes[0], second), eyes[1]))


# Monotone functions.


def made_monotone(effects: Effects, feature: int, sign: int, density: Density, outputs: Sequence[int]) -> Effects:
    """Return effects whose sum never falls (sign 1) or never rises (-1) in a feature, for some outputs."""
    keys = [key for key in effects.terms if feature in key]
    if not keys:
        return effects
    feature_binning = common_refinement([effects.binnings_of(key)[key.index(feature)] for key in keys])
    pairs: list[Key] = [key for key in keys if len(key) == 2]
    fine = {
        key: tuple(
            feature_binning if j == feature else binning
            for j, binning in zip(key, effects.binnings_of(key), strict=True)
        )
        for key in keys
    }
    main: Key = (feature,)
    tables = {key: np.array(effects.on_binnings(key, fine[key])) for key in keys}
    tables.setdefault(main, np.zeros((feature_binning.size, effects.n_outputs)))
    weights = {key: density.table(key, fine.get(key, (feature_binning,))) for key in (pairs or [main])}
    n = feature_binning.axis(effects.grid.axes[feature]).n_regular
    tolerance, is_changed = _ROUNDING * size_of(effects), False
    for output in outputs:
        curves = [_by_feature(tables[key][..., output], key, feature)[:n] for key in pairs] or [np.zeros((n, 1))]
        masses = [_by_feature(weights[key], key, feature)[:n].reshape(n, -1) for key in (pairs or [main])]
        nearest = monotone_curves(
            sign * tables[main][:n, output], [sign * curve for curve in curves], masses, tolerance
        )
        if nearest is None:
            continue
        is_changed, tables[main][:n, output] = True, 0.0
        for key, curve in zip(pairs, nearest, strict=False):
            _by_feature(tables[key][..., output], key, feature)[:n] = sign * curve
        if not pairs:
            tables[main][:n, output] = sign * nearest[0][:, 0]
    if not is_changed:
        return effects
    binnings = {**effects.binnings, **fine, main: (feature_binning,)}
    return Effects(effects.grid, effects.intercept, {**effects.terms, **tables}, binnings)


def _by_feature(table: Floats, key: Key, feature: int) -> Floats:
    """Return a view of a table of one or two features with the axis of the feature first."""
    return np.moveaxis(table, key.index(feature), 0)


def monotone_curves(
    main: Floats, pairs: Sequence[Floats], weights: Sequence[Floats], tolerance: float = 0.0
) -> list[Floats] | None:
    """Return curves, none of which falls, whose sum is nearest to that of main and pairs; None if that never falls.

    Pairs and weights have shape (n_bins, n_bins of the partner).
    """
    least_steps = [np.diff(pair, axis=0).min(axis=1) for pair in pairs]
    slack = np.diff(main) + np.sum(least_steps, axis=0)
    if not (slack < -tolerance).any():
        return None
    masses = [np.where(mass > 0, mass, _LEAST_MASS * mass.max()) for mass in weights]
    start = main[0] / len(pairs)
    shares = [start + np.concatenate([[0.0], np.cumsum(slack / len(pairs) - least)]) for least in least_steps]
    curves = [pair + share[:, None] for pair, share in zip(pairs, shares, strict=True)]
    means = [_row_means(curve, mass) for curve, mass in zip(curves, masses, strict=True)]
    centred = [pair - _row_means(pair, mass)[:, None] for pair, mass in zip(pairs, masses, strict=True)]
    total_means = main + np.sum([_row_means(pair, mass) for pair, mass in zip(pairs, masses, strict=True)], axis=0)
    size = max(float(np.abs(curve).max()) for curve in curves)
    for _ in range(_MOST_FITS):
        largest = 0.0
        for k, (pair, mass) in enumerate(zip(centred, masses, strict=True)):
            other_means = np.sum([mean for i, mean in enumerate(means) if i != k], axis=0)
            fitted = _isotonic_columns(pair + (total_means - other_means)[:, None], mass)
            largest = max(largest, float(np.abs(fitted - curves[k]).max()))
            curves[k], means[k] = fitted, _row_means(fitted, mass)
        if largest <= _FITTED * size or len(pairs) == 1:
            break
    return curves


def _row_means(values: Floats, masses: Floats) -> Floats:
    """Return the weighted mean of each row."""
    return np.asarray((values * masses).sum(axis=1) / masses.sum(axis=1))


def _isotonic_columns(values: Floats, masses: Floats) -> Floats:
    """Return the nearest columns that never fall, by isotonic regression of each."""
    columns = zip(values.T, masses.T, strict=True)
    fits = [scipy.optimize.isotonic_regression(column, weights=mass).x for column, mass in columns]
    return np.stack(fits, axis=1)
