"""Importance: how much each term matters, and tables of terms and features, the strongest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.anova.certificate import Certificate
from treeanova.anova.support import is_product
from treeanova.core.arrays import Floats, Key
from treeanova.core.progress import listener, one_step
from treeanova.decomposition.evaluation import Evaluation
from treeanova.density.joint import Points
from treeanova.density.kinds import Density
from treeanova.terms.moments import Moments, covariance_changes, moments, moments_of_values

_DRAWS = 20_000
_ROWS = 200, 4_000
_STEPS = 2.0**33


def rows_of_density(evaluation: Evaluation, density: Density, random_state: int) -> Points:
    """Bins on the model's grid and weights of rows that represent a density, fewer where they would take long."""
    rng = np.random.default_rng(random_state)
    codes, weights = evaluation.terms.points(density, _DRAWS, rng)
    n_rows = int(np.clip(_STEPS / max(evaluation.terms.row_cost, 1.0), *_ROWS))
    if len(codes) <= n_rows:
        return Points(codes, weights)
    chosen = rng.choice(len(codes), size=n_rows, p=weights / weights.sum())
    return Points(codes[chosen], np.full(n_rows, 1 / n_rows))


def moments_of_terms(
    evaluation: Evaluation, density: Density, certificate: Certificate, weights: Mapping[Key, Floats], random_state: int
) -> Moments:
    """Variance, covariance with the rest, and mean absolute value of each term, a remainder last."""
    terms = evaluation.terms
    effects = terms.tables.effects
    joint = None if _are_uncorrelated(density, certificate, weights) else density.joint
    if terms.keys_at_rows or evaluation.rest_orders or evaluation.has_remainder:
        rows = rows_of_density(evaluation, density, random_state)
        values = evaluation.all_at(rows.codes)
        with one_step(listener(), "variances at rows"):
            result = moments_of_values(values, rows.weights)
            result = result.with_tables(effects.terms, weights, uncorrelated=joint is None)
    elif not effects.terms:
        return Moments(*np.zeros((3, 0, effects.n_outputs)))
    else:
        with one_step(listener(), "variances of tables"):
            result = moments(effects, weights, joint, np.random.default_rng(random_state))
    if joint is None:
        return result
    with one_step(listener(), "covariances of tables"):
        differences = _differences(evaluation, density, weights)
        if not differences:
            return result
        return result.with_covariances(covariance_changes(effects, weights, differences, lambda j: density.table((j,))))


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


def strongest_first(variance: Floats) -> list[int]:
    """Positions of terms or features in the order of all tables, plots and lists: largest own variance first.

    A term left out of the score of a well-fitted model costs its own variance in squared error, whatever it is
    correlated with. The share of the variance, which adds the covariance with all other terms, does not measure that:
    it is negative for a term that opposes others. Over six data sets and four models of each, own variance also came
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
