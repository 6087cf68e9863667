"""Importance: how much each term matters; sums of terms by feature and family; tables, strongest first.

A term whose features are all of one family belongs to that family, whatever its order; one of several families is an
interaction of these. A feature without a family is its own family.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from treeanova.anova.certificate import Certificate
from treeanova.anova.support import is_product
from treeanova.core.arrays import Floats, Ints, Key, Names, labels_of
from treeanova.core.compiled import affordable
from treeanova.core.progress import listener, one_step
from treeanova.data.columns import frame
from treeanova.decomposition.function import Function
from treeanova.density.base import Density
from treeanova.density.statistics import Points
from treeanova.model.rows import Rows
from treeanova.terms.layout import some_of
from treeanova.terms.moments import Moments, covariance_changes, moments, moments_of_values


def largest_first(sizes: Floats) -> list[int]:
    """Return positions in descending order of size; sizes that differ by rounding keep their order."""
    scale = float(sizes.max(initial=0.0)) or 1.0
    return [int(i) for i in np.argsort(-(sizes / scale).round(12), kind="stable")]


@dataclasses.dataclass(frozen=True)
class Families:
    """Groups of features; a key of families has their positions in `names`."""

    names: Names  # in the order of their first features
    family_index: tuple[int, ...]  # the position of each feature's family

    def key_of_families(self, key: Key) -> Key:
        """Return the key of the families that the features of a key belong to."""
        return tuple(sorted({self.family_index[j] for j in key}))

    def merged(self, keys: Sequence[Key]) -> tuple[list[Key], Ints]:
        """Return the distinct keys of families that terms belong to, and the position of each term's among them."""
        of_terms = [self.key_of_families(key) for key in keys]
        distinct = sorted(set(of_terms), key=lambda key: (len(key), key))
        position = {key: i for i, key in enumerate(distinct)}
        return distinct, np.array([position[key] for key in of_terms], dtype=np.int64)

    def labels(self, keys: Iterable[Key]) -> list[str]:
        """Return labels, such as "job × age", of keys of families."""
        return labels_of([[self.names[i] for i in key] for key in keys], self.names)


def families_of(groups: Mapping[str, Collection[str]] | None, features: Sequence[str]) -> Families:
    """Return the families that a user names, with lists of their features; a feature without one is its own."""
    if groups is None:
        return Families(tuple(features), tuple(range(len(features))))
    family_of = _family_by_feature(groups, features)
    names = [family_of.get(feature, feature) for feature in features]
    taken = [feature for feature in features if feature in groups and feature not in family_of]
    if taken:
        raise ValueError(
            f"`groups` must not name a family like a feature outside it, got {taken[0]!r}; choose another name."
        )
    distinct = tuple(dict.fromkeys(names))
    return Families(distinct, tuple(distinct.index(name) for name in names))


def _family_by_feature(groups: Any, features: Sequence[str]) -> dict[str, str]:
    """Return the family of each feature that has one, by name; raise TypeError or ValueError if `groups` is wrong."""
    if not isinstance(groups, Mapping):
        kind = type(groups).__name__
        raise TypeError(f"`groups` must map names of families to lists of features, got {kind}; pass {{'job': [...]}}.")
    family_of: dict[str, str] = {}
    for family, members in groups.items():
        if isinstance(members, str) or not isinstance(members, Collection) or not len(members):
            raise ValueError(
                f"`groups` must give each family a list of features, got {members!r} for {family!r}; pass "
                f"{{{family!r}: ['a', 'b']}}."
            )
        for feature in members:
            if feature not in features:
                raise ValueError(
                    f"`groups` must hold features of the model, got {feature!r} in {family!r}; see "
                    "fx.feature_names_in_."
                )
            if family_of.setdefault(feature, str(family)) != str(family):
                raise ValueError(
                    f"`groups` must put each feature into one family, got {feature!r} in {family_of[feature]!r} and "
                    f"{family!r}; leave it out of one."
                )
    return family_of


def sum_slices(values: Floats, sum_index: Ints, n_sums: int, axis: int = 0) -> Floats:
    """Sum slices along an axis, which gets the length `n_sums`: the i-th goes to the sum at ``sum_index[i]``."""
    if axis:
        return sum_slices(values.swapaxes(0, axis), sum_index, n_sums).swapaxes(0, axis)
    n_slices = len(sum_index)
    is_in_sum = scipy.sparse.csr_array((np.ones(n_slices), (sum_index, np.arange(n_slices))), shape=(n_sums, n_slices))
    return np.reshape(is_in_sum @ values.reshape(n_slices, math.prod(values.shape[1:])), (n_sums, *values.shape[1:]))


_DRAWS = 20_000
_ROWS = 200, 4_000
_STEPS = 2.0**33
_FEW_STEPS = 2.0**28  # all rows take no longer than it takes to choose some
_LONG_STEPS = 2.0**31
_MANY_TERMS = 2_000
_SQUARABLE = 1e-140, 1e140
_ERROR = 0.003  # standard error of a share of the variance


def rows_of_density(function: Function, density: Density, random_state: int) -> Points:
    """Draw rows of the density at which terms are ranked, as many as all terms can be evaluated at."""
    rng = np.random.default_rng(random_state)
    points = function.terms.points(density.population, _DRAWS, rng)
    return some_of(points, _max_rows(function), rng)


def _max_rows(function: Function) -> int:
    """Return at how many rows all terms can be evaluated in reasonable time."""
    return int(np.clip(affordable(_STEPS) / max(function.terms.row_cost, 1.0), *_ROWS))


def moments_take_long(function: Function) -> bool:
    """Whether moments take seconds: thousands of terms, or forests at rows."""
    terms = function.terms
    at_rows = bool(terms.keys_at_rows or function.unlisted_orders or function.has_remainder)
    return len(terms.keys) > _MANY_TERMS or (at_rows and terms.row_cost * _ROWS[1] > _LONG_STEPS)


def moments_of_terms(
    function: Function, density: Density, certificate: Certificate, weights: Mapping[Key, Floats], random_state: int
) -> Moments:
    """Return moments of all components, given weights of tables; raise ValueError if squares under- or overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        result = _moments_of_terms(function, density, certificate, weights, random_state)
    sizes = result.mean_abs.max(axis=0, initial=0.0)
    wrong = sizes[(sizes > 0) & ~((sizes > _SQUARABLE[0]) & (sizes < _SQUARABLE[1]))]
    if len(wrong):
        raise ValueError(
            f"the terms' mean absolute values must be between {_SQUARABLE[0]:g} and {_SQUARABLE[1]:g} for variances, "
            f"got {wrong[0]:.6g}; express the target in another unit and train the model again."
        )
    return result.beyond(function.source.rounding)


def _moments_of_terms(
    function: Function, density: Density, certificate: Certificate, weights: Mapping[Key, Floats], random_state: int
) -> Moments:
    """Return moments of all components under the density that ranks terms: of tables by weights, of others at rows."""
    terms, effects = function.terms, function.terms.effects
    is_ranked_elsewhere = density.population is not density
    density, weights = _ranking_density(function, density, weights)
    # `joint` gives the covariances of terms; None if these are zero
    joint = density.joint if is_ranked_elsewhere or not _are_uncorrelated(density, certificate, weights) else None
    if terms.keys_at_rows or function.unlisted_orders or function.has_remainder:
        result = _moments_at_rows(function, density, np.random.default_rng(random_state))
        with one_step(listener(), "variances at rows"):
            result = result.with_tables(effects.terms, weights, uncorrelated=joint is None)
    elif not effects.terms:
        return Moments(*np.zeros((3, 0, effects.n_outputs)))
    else:
        with one_step(listener(), "variances of tables"):
            rng, is_whole = np.random.default_rng(random_state), not function.scope.is_part
            if joint is not None and is_whole and density.is_empirical and density.statistics is not None:
                density.statistics.add_scores(function.source.score)
            result = moments(effects, weights, joint, rng, is_whole=is_whole)
    if joint is None:
        return result
    with one_step(listener(), "covariances of tables"):
        return result.with_covariances(_covariance_changes(function, density, weights))


def _ranking_density(
    function: Function, density: Density, weights: Mapping[Key, Floats]
) -> tuple[Density, Mapping[Key, Floats]]:
    """Return the density of the rows at which terms are ranked, under which they need not be pure, and its weights."""
    effects, population = function.terms.effects, density.population
    if population is density:
        return density, weights
    return population, {key: population.table(key, effects.binnings.get(key)) for key in effects.terms}


def _covariance_changes(
    function: Function, density: Density, weights: Mapping[Key, Floats], sums: Sequence[int] | None = None
) -> Floats:
    """Return what to add to covariances because tables of pairs differ from the joint density, (n_tables, n_outputs).

    With `sums`, the position of each term's sum, only covariances within a sum count.
    """
    effects = function.terms.effects
    pairs = ((key, density.difference(key, effects.binnings.get(key))) for key in weights if len(key) == 2)
    differences: dict[Key, Floats] = {key: difference for key, difference in pairs if difference is not None}
    return covariance_changes(effects, weights, differences, lambda j: density.table((j,)), sums)


def _moments_at_rows(function: Function, density: Density, rng: np.random.Generator) -> Moments:
    """Return moments of components: of tables at thousands of rows, of others at as many as their shares need."""
    many = some_of(function.terms.points(density, _DRAWS, rng), _ROWS[1], rng)
    if function.terms.row_cost * len(many.codes) <= _FEW_STEPS or np.ptp(many.weights) > 0:
        return moments_of_values(function.all_at(many.codes), many.weights)
    codes = rng.permutation(many.codes)
    n_tables, n_rows = len(function.terms.effects.terms), _ROWS[0]
    values = function.all_at(codes[:n_rows])
    while 2 * n_rows <= min(_max_rows(function), len(codes)) and _error_of_shares(values, n_tables) > _ERROR:
        values = np.concatenate([values, function.all_at(codes[n_rows : 2 * n_rows])])
        n_rows *= 2
    few = moments_of_values(values, np.full(len(values), 1 / len(values)))
    tables = function.at(many.codes, tuple(function.effects.terms))
    sum_without_tables = function.score(Rows.in_bins(function.grid, many.codes)) - tables.sum(axis=1)
    del values
    tables_and_sum = np.concatenate([tables, sum_without_tables[:, None]], axis=1)
    del tables
    return _join_moments(few, moments_of_values(tables_and_sum, many.weights), n_tables)


def _error_of_shares(values: Floats, n_tables: int) -> float:
    """Return the largest standard error of shares of variance of components without tables, which come last."""
    # `values` are (n_rows, n_components, n_outputs)
    centred = values - values.mean(axis=0)
    score = centred.sum(axis=1)
    variance = score.var(axis=0)
    products = centred[:, n_tables:] * (score / np.where(variance > 0, variance, 1.0))[:, None]
    return float(products.std(axis=0).max(initial=0.0) / np.sqrt(len(values)))


def _join_moments(at_few_rows: Moments, at_many_rows: Moments, n_tables: int) -> Moments:
    """Join moments of tables at many rows with others at few, whose covariances are adjusted to the former."""
    variance, covariance, mean_abs = (
        np.concatenate([getattr(at_many_rows, name)[:n_tables], getattr(at_few_rows, name)[n_tables:]])
        for name in ("variance", "covariance", "mean_abs")
    )
    variances = variance[n_tables:]
    total = variances.sum(axis=0)
    missing = at_many_rows.score_variance - (variance + covariance).sum(axis=0)
    covariance[n_tables:] += missing * np.divide(variances, total, out=np.zeros_like(variances), where=total > 0)
    return Moments(variance, covariance, mean_abs)


def _are_uncorrelated(density: Density, certificate: Certificate, weights: Mapping[Key, Floats]) -> bool:
    """Whether terms are pure under independent features, and thus uncorrelated."""
    was_purified = all(term.method != "none" for term in certificate.terms.values())
    higher = certificate.higher
    is_pure = was_purified and certificate.is_pure and (higher is None or higher.is_exact)
    return is_pure and density.is_product and all(map(is_product, weights.values()))


@dataclasses.dataclass(frozen=True, eq=False)
class Sums:
    """Moments of sums of terms, under the density at whose rows terms are ranked; `weights` of tables by key."""

    function: Function
    density: Density
    weights: Mapping[Key, Floats]
    rows: Callable[[], Points]

    def moments(self, moments: Moments, families: Families) -> tuple[list[Key], Moments]:
        """Return keys of families, and moments of components with terms of the same families added up."""
        # Shares add up. Where all terms of a sum are functions of one pair with a table, its variance and mean absolute
        # value are exact; otherwise covariances within a sum and its mean absolute value are computed at rows.
        keys, sum_index = families.merged(self.function.terms.keys)
        n_unlisted = len(moments.variance) - len(sum_index)
        sum_index = np.append(sum_index, len(keys) + np.arange(n_unlisted))
        n_sums = len(keys) + n_unlisted
        variance, share, mean_abs = (
            sum_slices(measure, sum_index, n_sums)
            for measure in (moments.variance, moments.variance + moments.covariance, moments.mean_abs)
        )
        merged = np.flatnonzero(np.bincount(sum_index, minlength=n_sums) > 1)
        if len(merged):
            covariances, mean_abs[merged] = self._covariances_at_rows(sum_index, merged)
            are_correlated = bool(moments.covariance.any())
            variance[merged] = np.maximum(variance[merged] + covariances * are_correlated, 0.0)
        for i in merged:
            exact = self._variance_in_table([self.function.terms.keys[j] for j in np.flatnonzero(sum_index == i)])
            if exact is not None:
                variance[i], mean_abs[i] = exact
        return keys, Moments(variance, share - variance, mean_abs)

    def _covariances_at_rows(self, sum_index: Ints, merged: Ints) -> tuple[Floats, Floats]:
        """Return covariances within the sums at positions `merged`, and mean absolute values, (n_merged, n_outputs)."""
        terms, (codes, row_weights) = np.flatnonzero(np.isin(sum_index, merged)), self.rows()
        within = np.searchsorted(merged, sum_index[terms])
        values = self.function.at(codes, [self.function.terms.keys[i] for i in terms])
        sum_of_variances = sum_slices(moments_of_values(values, row_weights).variance, within, len(merged))
        together = moments_of_values(sum_slices(values, within, len(merged), axis=1), row_weights)
        density, weights = _ranking_density(self.function, self.density, self.weights)
        changes = _covariance_changes(self.function, density, weights, sum_index.tolist())
        changes = sum_slices(changes, sum_index[: len(changes)], sum_index.max() + 1)[merged]
        return together.variance - sum_of_variances + changes, together.mean_abs

    def _variance_in_table(self, keys: Sequence[Key]) -> tuple[Floats, Floats] | None:
        """Return variance and mean absolute value of a sum whose terms share a pair's table; None if they do not."""
        effects = self.function.terms.effects
        pair = max(keys, key=len)
        has_table = len(pair) == 2 and all(key in effects.terms and set(key) <= set(pair) for key in keys)
        if not has_table:
            return None
        axes = dict(zip(pair, effects.binnings_of(pair), strict=True))
        mains = [key for key in keys if key != pair]
        if not all(effects.binnings_of(key)[0].equals(axes[key[0]]) for key in mains):
            return None
        _, weights = _ranking_density(self.function, self.density, self.weights)
        total = effects.terms[pair] + sum(np.expand_dims(effects.terms[key], 1 - pair.index(key[0])) for key in mains)
        mean, mean_abs = (np.einsum("ij,ijk->k", weights[pair], values) for values in (total, np.abs(total)))
        return np.einsum("ij,ijk->k", weights[pair], (total - mean) ** 2), mean_abs


def strongest_first(variance: Floats) -> list[int]:
    """Return positions in the order of all tables, plots and lists: largest variance first, ties in place.

    Dropping a term of a well-fitted model costs its variance in squared error, whatever it is correlated with. The
    share, which adds covariances, does not measure that: it is negative for a term that opposes others. Over six data
    sets and four models of each, variance was also nearest to the order by held-out loss, closely followed by mean
    absolute effect.
    """
    return [int(i) for i in np.argsort(-variance, kind="stable")]


class Standing(NamedTuple):
    """An entry of a ranking for one output: variance and share are relative to the variance of the score."""

    features: Names
    label: str
    order: int
    variance: float
    share: float
    mean_abs: float

    @property
    def is_remainder(self) -> bool:
        """Whether this is a sum of unlisted terms or the remainder."""
        return not self.features

    @property
    def key(self) -> Names:
        """Names of the features; for a sum or a remainder, a key that no term has."""
        return self.features or key_of_rest(self.label)


def key_of_rest(label: str) -> Names:
    """Return a key, which no term has, for a sum or a remainder."""
    return "", label


def is_rest(key: Names) -> bool:
    """Whether a key is that of a sum or a remainder, as `key_of_rest` makes it."""
    return key[0] == "" and len(key) == 2


@dataclasses.dataclass(frozen=True, eq=False)
class Ranking:
    """Variances and covariances are relative to the variance of the score; arrays are (n_entries, n_outputs)."""

    by: str  # "term" or "feature"
    labels: Sequence[str]
    features: Sequence[Names]  # empty for sums of unlisted terms and a remainder
    orders: Sequence[int]
    outputs: Names
    variance: Floats
    covariance: Floats
    mean_abs: Floats

    @property
    def share(self) -> Floats:
        return self.variance + self.covariance

    def table(self, backend: str | None) -> Any:
        """Return a data frame with a row per output and entry, strongest first."""
        measures = {name: getattr(self, name) for name in ("variance", "covariance", "share", "mean_abs")}
        order = {"order": self.orders} if self.by == "term" else {}
        ranks = [strongest_first(column) for column in self.variance.T]
        return contributions_table({self.by: self.labels, **order}, self.outputs, measures, ranks, backend)

    def standings_of(self, output: str) -> list[Standing]:
        """Return the entries of an output, strongest first."""
        k = self.outputs.index(output)
        measures = self.variance[:, k], self.share[:, k], self.mean_abs[:, k]
        rows = list(zip(self.features, self.labels, self.orders, *(each.tolist() for each in measures), strict=True))
        return [Standing(*rows[i]) for i in strongest_first(self.variance[:, k])]

    @property
    def standings(self) -> dict[str, list[Standing]]:
        """The entries of each output by its name, strongest first."""
        return {output: self.standings_of(output) for output in self.outputs}


def contributions_table(
    names: Mapping[str, Sequence[Any]],
    outputs: Sequence[str],
    measures: Mapping[str, Floats],
    ranks: Sequence[Iterable[int]],
    backend: str | None,
) -> Any:
    """Return a data frame with a row per output and entry, in the order that `ranks` gives for each output.

    `names` are columns that name entries, the label first; `measures` are columns of shape (n_entries, n_outputs).
    """
    rows = [(k, i) for k, rank in enumerate(ranks) for i in rank]
    columns: dict[str, Any] = {name: [entries[i] for _, i in rows] for name, entries in names.items()}
    if len(outputs) > 1:
        label = next(iter(columns))
        columns = {label: columns[label], "output": [outputs[k] for k, _ in rows], **columns}
    return frame(
        columns | {name: np.array([values[i, k] for k, i in rows]) for name, values in measures.items()}, backend
    )


def rank_terms(function: Function, moments: Moments, families: Families, by: str, sums: Sums | None = None) -> Ranking:
    """Rank terms, or features with an equal share of their terms; `sums` adds up terms of the same families."""
    components = function.components
    keys: Sequence[Key] = components.keys
    if sums is not None:
        keys, moments = sums.moments(moments, families)
    total = moments.score_variance
    scale = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    measures = np.stack([moments.variance * scale, moments.covariance * scale, moments.mean_abs])
    n_sums = len(components) - len(components.keys)
    if by == "term":
        labels, features = families.labels(keys), [tuple(families.names[i] for i in key) for key in keys]
    else:
        labels, features = list(families.names), [(name,) for name in families.names]
        measures = np.einsum("mtk,tf->mfk", measures, feature_shares(keys, len(labels), n_sums=n_sums))
    orders = [*map(len, features), *components.orders[len(components.keys) :]]
    entries = components.with_labels_of_sums(labels), [*features, *[()] * n_sums], orders
    return Ranking(by, *entries, function.grid.schema.outputs, *measures)


def feature_shares(keys: Sequence[Key], n_features: int, *, n_sums: int) -> Floats:
    """Return features' equal shares in terms, (n_terms + n_sums, n_features + n_sums); a sum of unlisted is its own."""
    shares = np.zeros((len(keys) + n_sums, n_features + n_sums))
    for i, key in enumerate(keys):
        shares[i, list(key)] = 1 / len(key)
    shares[len(keys) :, n_features:] = np.eye(n_sums)
    return shares
