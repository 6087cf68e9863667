"""Importance: how much each term matters, and tables of terms and features, the strongest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.anova.certificate import Certificate
from treeanova.anova.support import is_product
from treeanova.core.arrays import Floats, Ints, Key
from treeanova.core.compiled import affordable
from treeanova.core.progress import listener, one_step
from treeanova.decomposition.evaluation import Evaluation
from treeanova.decomposition.families import Families, summed
from treeanova.density.kinds import Density
from treeanova.density.statistics import Points
from treeanova.terms.moments import Moments, covariance_changes, moments, moments_of_values

_DRAWS = 20_000
_ROWS = 200, 4_000
_STEPS = 2.0**33
_FEW_STEPS = 2.0**28  # all rows take no longer than it takes to choose some
_LONG_STEPS = 2.0**31
_MANY_TERMS = 2_000
_SQUARABLE = 1e-140, 1e140
_ERROR = 0.003  # standard error of a share of the variance


def rows_of_density(evaluation: Evaluation, density: Density, random_state: int) -> Points:
    """Bins on the model's grid and weights of rows that represent a density, fewer where they would take long."""
    rng = np.random.default_rng(random_state)
    points = evaluation.terms.points(density.population, _DRAWS, rng)
    return _some(points, _n_rows(evaluation), rng)


def _n_rows(evaluation: Evaluation) -> int:
    return int(np.clip(affordable(_STEPS) / max(evaluation.terms.row_cost, 1.0), *_ROWS))


def _some(points: Points, n_rows: int, rng: np.random.Generator) -> Points:
    """Some of the points, drawn by their weights, or all."""
    codes, weights = points
    if len(codes) <= n_rows:
        return points
    chosen = rng.choice(len(codes), size=n_rows, p=weights / weights.sum())
    return Points(codes[chosen], np.full(n_rows, 1 / n_rows))


def moments_take_long(evaluation: Evaluation) -> bool:
    """Whether moments take seconds rather than a moment: thousands of terms, or forests at rows."""
    terms = evaluation.terms
    at_rows = bool(terms.keys_at_rows or evaluation.rest_orders or evaluation.has_remainder)
    return len(terms.keys) > _MANY_TERMS or (at_rows and terms.row_cost * _ROWS[1] > _LONG_STEPS)


def moments_of_terms(
    evaluation: Evaluation, density: Density, certificate: Certificate, weights: Mapping[Key, Floats], random_state: int
) -> Moments:
    """Variance, covariance with the rest, and mean absolute value of each term, a remainder last.

    Raises
    ------
    ValueError
        Where terms are so large or so small that their squares are no longer numbers with all digits.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        result = _moments_of_terms(evaluation, density, certificate, weights, random_state)
    sizes = result.mean_abs.max(axis=0, initial=0.0)
    wrong = sizes[(sizes > 0) & ~((sizes > _SQUARABLE[0]) & (sizes < _SQUARABLE[1]))]
    if len(wrong):
        raise ValueError(
            f"the terms' mean absolute values must be between {_SQUARABLE[0]:g} and {_SQUARABLE[1]:g} for variances, "
            f"got {wrong[0]:.6g}; express the target in another unit and train the model again."
        )
    return result.beyond(evaluation.source.rounding)


def _moments_of_terms(
    evaluation: Evaluation, density: Density, certificate: Certificate, weights: Mapping[Key, Floats], random_state: int
) -> Moments:
    terms = evaluation.terms
    effects = terms.tables.effects
    population = density.population
    if population is density:
        joint = None if _are_uncorrelated(density, certificate, weights) else density.joint
    else:  # terms are not pure under the rows at which they are ranked
        density, joint = population, population.joint
        weights = {key: density.table(key, effects.binnings.get(key)) for key in effects.terms}
    if terms.keys_at_rows or evaluation.rest_orders or evaluation.has_remainder:
        result = _moments_at_rows(evaluation, density, np.random.default_rng(random_state))
        with one_step(listener(), "variances at rows"):
            result = result.with_tables(effects.terms, weights, uncorrelated=joint is None)
    elif not effects.terms:
        return Moments(*np.zeros((3, 0, effects.n_outputs)))
    else:
        with one_step(listener(), "variances of tables"):
            rng, is_whole = np.random.default_rng(random_state), not evaluation.scope.is_part
            if joint is not None and is_whole and density.has_rows_as_they_are and density.statistics is not None:
                density.statistics.add_scores(evaluation.source.row_score)
            result = moments(effects, weights, joint, rng, is_whole=is_whole)
    if joint is None:
        return result
    with one_step(listener(), "covariances of tables"):
        differences = _differences(evaluation, density, weights)
        if not differences:
            return result
        return result.with_covariances(covariance_changes(effects, weights, differences, lambda j: density.table((j,))))


def _moments_at_rows(evaluation: Evaluation, density: Density, rng: np.random.Generator) -> Moments:
    """Moments over rows: of tables at thousands, of all other terms at as many as the error of their shares needs."""
    many = _some(evaluation.terms.points(density, _DRAWS, rng), _ROWS[1], rng)
    if evaluation.terms.row_cost * len(many.codes) <= _FEW_STEPS or np.ptp(many.weights) > 0:
        return moments_of_values(evaluation.all_at(many.codes), many.weights)
    codes = rng.permutation(many.codes)
    n_tables, n_rows = len(evaluation.terms.tables.keys), _ROWS[0]
    values = evaluation.all_at(codes[:n_rows])
    while 2 * n_rows <= min(_n_rows(evaluation), len(codes)) and _largest_error(values, n_tables) > _ERROR:
        values = np.concatenate([values, evaluation.all_at(codes[n_rows : 2 * n_rows])], axis=1)
        n_rows *= 2
    few = moments_of_values(values, np.full(values.shape[1], 1 / values.shape[1]))
    return _joined(few, _moments_of_tables_at(evaluation, many), n_tables)


def _largest_error(values: Floats, n_tables: int) -> float:
    """Largest standard error of the share of a term without a table: its covariance with the score over that of it."""
    centred = values - values.mean(axis=1, keepdims=True)
    score = centred.sum(axis=0)
    variance = score.var(axis=0)
    products = centred[n_tables:] * score / np.where(variance > 0, variance, 1.0)
    return float(products.std(axis=1).max(initial=0.0) / np.sqrt(values.shape[1]))


def _moments_of_tables_at(evaluation: Evaluation, rows: Points) -> Moments:
    """Moments of tables at rows, and last of all else, which is the score minus these."""
    tables = evaluation.at(rows.codes, evaluation.terms.tables.keys)
    score = evaluation.score(evaluation.grid.encoded(rows.codes))
    return moments_of_values(np.concatenate([tables, (score - tables.sum(axis=0))[None]]), rows.weights)


def _joined(few: Moments, many: Moments, n_tables: int) -> Moments:
    """Moments of tables at many rows and of all other terms at few, whose covariances are adjusted to the former."""
    variance, covariance, mean_abs = (
        np.concatenate([of_tables[:n_tables], of_others[n_tables:]])
        for of_tables, of_others in (
            (many.variance, few.variance),
            (many.covariance, few.covariance),
            (many.mean_abs, few.mean_abs),
        )
    )
    others = variance[n_tables:]
    total = others.sum(axis=0)
    missing = many.score_variance - (variance + covariance).sum(axis=0)
    covariance[n_tables:] += missing * np.divide(others, total, out=np.zeros_like(others), where=total > 0)
    return Moments(variance, covariance, mean_abs)


def _differences(evaluation: Evaluation, density: Density, weights: Mapping[Key, Floats]) -> dict[Key, Floats]:
    """Tables of pairs minus those of the joint density, where they differ."""
    binnings = evaluation.terms.tables.effects.binnings
    pairs = ((key, density.difference(key, binnings.get(key))) for key in weights if len(key) == 2)
    return {key: difference for key, difference in pairs if difference is not None}


def _are_uncorrelated(density: Density, certificate: Certificate, weights: Mapping[Key, Floats]) -> bool:
    """Whether terms are pure under independent features, so that they have no covariances."""
    was_purified = all(term.method != "none" for term in certificate.terms.values())
    higher = certificate.higher
    is_pure = was_purified and certificate.met and (higher is None or higher.is_exact)
    return is_pure and density.is_product and all(map(is_product, weights.values()))


def moments_of_families(
    evaluation: Evaluation, moments: Moments, families: Families, rows: Callable[[], Points]
) -> tuple[list[Key], Moments]:
    """Terms of families, and moments of all parts when terms are added up within families.

    Shares of the variance are sums of those of terms. What terms of a sum have in common, and the mean absolute value
    of the sum, are found at rows of the density.
    """
    keys, places = families.merged(evaluation.terms.keys)
    n_rests = len(moments.variance) - len(places)
    places = np.append(places, len(keys) + np.arange(n_rests))
    n_sums = len(keys) + n_rests
    variance, share, mean_abs = (
        summed(measure, places, n_sums)
        for measure in (moments.variance, moments.variance + moments.covariance, moments.mean_abs)
    )
    merged = np.flatnonzero(np.bincount(places, minlength=n_sums) > 1)
    if len(merged):
        common, mean_abs[merged] = _merged_moments(evaluation, places, merged, rows())
        are_correlated = bool(moments.covariance.any())
        variance[merged] = np.maximum(variance[merged] + common * are_correlated, 0.0)
    return keys, Moments(variance, share - variance, mean_abs)


def _merged_moments(evaluation: Evaluation, places: Ints, merged: Ints, rows: Points) -> tuple[Floats, Floats]:
    """Covariances within sums of several terms, and mean absolute values of these sums, shapes (n_sums, n_outputs)."""
    terms = np.flatnonzero(np.isin(places, merged))
    within = np.searchsorted(merged, places[terms])
    values = evaluation.at(rows.codes, [evaluation.terms.keys[i] for i in terms])
    own = summed(moments_of_values(values, rows.weights).variance, within, len(merged))
    together = moments_of_values(summed(values, within, len(merged)), rows.weights)
    return together.variance - own, together.mean_abs


def strongest_first(variance: Floats) -> list[int]:
    """Positions of terms or features in the order of all tables, plots and lists: largest variance first.

    A term left out of the score of a well-fitted model costs its variance in squared error, whatever it is
    correlated with. The share of the variance, which adds the covariance with all other terms, does not measure that:
    it is negative for a term that opposes others. Over six data sets and four models of each, variance also came
    nearest to the order by loss on held-out rows, with the mean absolute effect close behind. Equal ones stay as they
    come.
    """
    return [int(i) for i in np.argsort(-variance, kind="stable")]


def ranked_columns(
    by: str, labels: Sequence[str], orders: Sequence[int], outputs: Sequence[str], measures: Floats
) -> dict[str, Any]:
    """Columns of a table of terms or features, strongest first; measures are (3, n_labels, n_outputs).

    Those are variance, covariance and mean absolute value; outputs are named where there are several.
    """
    rows = [(k, i) for k in range(len(outputs)) for i in strongest_first(measures[0, :, k])]
    columns: dict[str, Any] = {by: [labels[i] for _, i in rows]}
    if len(outputs) > 1:
        columns["output"] = [outputs[k] for k, _ in rows]
    if by == "term":
        columns["order"] = [orders[i] for _, i in rows]
    variance, covariance, mean_abs = (np.array([measure[i, k] for k, i in rows]) for measure in measures)
    return columns | {
        "variance": variance,
        "covariance": covariance,
        "share": variance + covariance,
        "mean_abs": mean_abs,
    }


def feature_shares(keys: Sequence[Key], n_features: int, *, n_rests: int) -> Floats:
    """Shares of features in terms, equal within each; each rest is a term and a feature of its own, in the end."""
    shares = np.zeros((len(keys) + n_rests, n_features + n_rests))
    for i, key in enumerate(keys):
        shares[i, list(key)] = 1 / len(key)
    shares[len(keys) :, n_features:] = np.eye(n_rests)
    return shares
