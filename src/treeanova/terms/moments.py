"""Moments of terms: variance, covariance with all other terms, mean absolute value."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from treeanova.core.arrays import Floats, Key
from treeanova.density.joint import Joint, Product

_CHUNK = 1 << 16
_DRAWS = 20_000


@dataclasses.dataclass(frozen=True, eq=False)
class Moments:
    """Of each term, per output: variance, covariance with the sum of all others, mean absolute value.

    Variances and covariances of all terms add up to the variance of the score; shapes (n_terms, n_outputs).
    """

    variance: Floats
    covariance: Floats
    mean_abs: Floats

    def with_covariances(self, changes: Floats) -> Moments:
        """The same with changes added to the covariances of the first terms."""
        covariance = self.covariance.copy()
        covariance[: len(changes)] += changes
        return dataclasses.replace(self, covariance=covariance)

    def with_tables(self, terms: Mapping[Key, Floats], weights: Mapping[Key, Floats], *, uncorrelated: bool) -> Moments:
        """The same with exact variances of the first terms, which have tables, and without covariances if told so."""
        variance, mean_abs = self.variance.copy(), self.mean_abs.copy()
        if terms:
            variance[: len(terms)], mean_abs[: len(terms)] = _own_moments(terms, weights)
        return Moments(variance, np.zeros_like(variance) if uncorrelated else self.covariance, mean_abs)


def moments(
    terms: Mapping[Key, Floats], weights: Mapping[Key, Floats], joint: Joint | None, rng: np.random.Generator
) -> Moments:
    """Moments of terms (outputs last), at least one, with given weights of their cells.

    Variances and mean absolute values are exact under these weights. Covariances are those of the joint density: exact
    for rows, cells, independent features and mixtures of them, else over draws; without a joint density there are none,
    as between pure terms of independent features.
    """
    variance, mean_abs = _own_moments(terms, weights)
    if joint is None:
        return Moments(variance, np.zeros_like(variance), mean_abs)
    parts = [(share, _raw_moments(terms, part, rng)) for share, part in joint.parts()]
    first, squares, products = (np.sum([share * raw[i] for share, raw in parts], axis=0) for i in range(3))
    return Moments(variance, products - first * first.sum(axis=0) - (squares - first**2), mean_abs)


def _own_moments(terms: Mapping[Key, Floats], weights: Mapping[Key, Floats]) -> tuple[Floats, Floats]:
    """Variance and mean absolute value of each term under the weights of its cells, shapes (n_terms, n_outputs)."""
    centred = [values - _mean(values, weights[key]) for key, values in terms.items()]
    variance = np.array([_mean(c**2, weights[key]) for c, key in zip(centred, terms, strict=True)])
    return variance, np.array([_mean(np.abs(values), weights[key]) for key, values in terms.items()])


def covariance_changes(
    terms: Mapping[Key, Floats], weights: Mapping[Key, Floats], differences: Mapping[Key, Floats]
) -> Floats:
    """What to add to covariances of the joint density, so that terms of two features in all have those of their pair.

    `differences` are, for pairs of features, the pair's own table minus that of the joint density; shape of the result
    (n_terms, n_outputs). Both tables have the same marginals, so that means of main effects are the same.
    """
    place = {key: i for i, key in enumerate(terms)}
    changes = np.zeros((len(terms), next(iter(terms.values())).shape[-1]))
    for pair, gap in differences.items():
        mains = [(axis, (j,)) for axis, j in enumerate(pair) if (j,) in terms]
        centred: dict[Key, Floats] = {
            key: np.expand_dims(terms[key] - _mean(terms[key], weights[key]), 1 - axis) for axis, key in mains
        }
        others = {key: values for key, values in centred.items() if key != (pair[0],)}
        if pair in terms:
            others[pair] = terms[pair]
        for one, own in centred.items():
            for other, values in others.items():
                if one != other and (other == pair or one == (pair[0],)):
                    change = np.einsum("ij,ijk->k", gap, own * values)
                    changes[place[one]] += change
                    changes[place[other]] += change
    return changes


RawMoments = tuple[Floats, Floats, Floats]  # means of terms, of their squares, of their products with the sum of all


def _raw_moments(terms: Mapping[Key, Floats], part: Joint, rng: np.random.Generator) -> RawMoments:
    if isinstance(part, Product):
        return _raw_moments_of_product(terms, part)
    codes, shares = part.points(_DRAWS, rng)
    n_outputs = next(iter(terms.values())).shape[-1]
    first, squares, products = np.zeros((3, len(terms), n_outputs))
    for start in range(0, len(codes), _CHUNK):
        some, share = codes[start : start + _CHUNK], shares[start : start + _CHUNK]
        values = np.stack([term[tuple(some[:, j] for j in key)] for key, term in terms.items()])
        first += np.einsum("tnk,n->tk", values, share)
        squares += np.einsum("tnk,tnk,n->tk", values, values, share)
        products += np.einsum("tnk,nk,n->tk", values, values.sum(axis=0), share)
    return first, squares, products


def _raw_moments_of_product(terms: Mapping[Key, Floats], part: Product) -> RawMoments:
    """The same for independent features, exactly: parts of terms that are pure under the product are uncorrelated."""
    pure = {key: _pure_parts(key, values, part) for key, values in terms.items()}
    total: dict[Key, Floats] = {}
    for own in pure.values():
        for key, values in own.items():
            total[key] = total[key] + values if key in total else values
    tables = {key: part.table(key) if key else np.ones(()) for key in total}
    first = np.array([own[()] for own in pure.values()])
    squares = np.array([sum(_mean(v**2, tables[key]) for key, v in own.items()) for own in pure.values()])
    products = np.array([sum(_mean(v * total[key], tables[key]) for key, v in own.items()) for own in pure.values()])
    return first, squares, products


def _pure_parts(key: Key, values: Floats, part: Product) -> dict[Key, Floats]:
    """A term as a sum of parts, by sets of its features, that are pure for independent features."""
    parts: dict[Key, Floats] = {(): values}
    for j in key:  # axes before that of j are gone or kept: its own axis follows those kept
        for kept, array in list(parts.items()):
            mean = np.tensordot(part.masses[j], array, axes=(0, len(kept)))
            parts[kept] = mean
            parts[*kept, j] = array - np.expand_dims(mean, len(kept))
    return parts


def moments_of_values(values: Floats, weights: Floats) -> Moments:
    """Moments of terms given by their values at weighted rows, shape (n_terms, n_rows, n_outputs)."""
    centred = values - np.einsum("tnk,n->tk", values, weights)[:, None]
    variance = np.einsum("tnk,tnk,n->tk", centred, centred, weights)
    with_all = np.einsum("tnk,nk,n->tk", centred, centred.sum(axis=0), weights)
    return Moments(variance, with_all - variance, np.einsum("tnk,n->tk", np.abs(values), weights))


def _mean(values: Floats, weights: Floats) -> Floats:
    """Weighted mean over all cells, per output."""
    result: Floats = np.tensordot(weights, values, axes=weights.ndim)
    return result
