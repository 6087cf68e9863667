"""Sections 3 and 4: uniqueness, minimum variance, Lemma 4.1 and Definition 1, checked by linear algebra."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import null_space, orth, subspace_angles

import treeanova
from studies.common import Claim, Section, Settings, markdown_table, number, paragraphs
from treeanova.core.arrays import Floats, Key

SHAPE = (4, 3, 3)
_CONSTANT = ()


def subsets(n_features: int) -> list[Key]:
    """All sets of features, small ones first."""
    return [key for size in range(n_features + 1) for key in itertools.combinations(range(n_features), size)]


def random_weights(seed: int, *, dependence: float = 1.0) -> Floats:
    """A random density with mass in every cell; 0 makes the features independent."""
    rng = np.random.default_rng(seed)
    marginals = [rng.dirichlet(np.full(size, 4.0)) for size in SHAPE]
    product = np.einsum("i,j,k->ijk", *marginals)
    weights = product * np.exp(dependence * rng.normal(size=SHAPE))
    return _scaled(weights)


def split_weights() -> Floats:
    """A degenerate density: the support falls into two parts."""
    weights = np.zeros(SHAPE)
    weights[:2, :1], weights[2:, 1:] = 1.0, 1.0
    return _scaled(weights)


def _scaled(weights: Floats) -> Floats:
    scaled: Floats = weights / weights.sum()
    return scaled


def lift(key: Key, values: Floats) -> Floats:
    """Functions of some features, one per column, at all cells."""
    shape = tuple(SHAPE[j] if j in key else 1 for j in range(len(SHAPE)))
    full = values.reshape(*shape, -1)
    lifted: Floats = np.broadcast_to(full, (*SHAPE, full.shape[-1])).reshape(np.prod(SHAPE), -1)
    return lifted


def indicators(key: Key) -> Floats:
    """All functions of some features: one indicator per cell of theirs."""
    return lift(key, np.eye(int(np.prod([SHAPE[j] for j in key], initial=1))))


def pure_space(key: Key, weights: Floats) -> Floats:
    """Basis of the functions of some features that meet the integral conditions (5c): all slices have mean zero."""
    own = _own_weights(key, weights)
    conditions = [(lift_own(key, axis) * own.ravel()) for axis in range(len(key))]  # one row per slice along the axis
    if not key:
        return np.ones((np.prod(SHAPE), 1))
    return lift(key, null_space(np.vstack(conditions), rcond=1e-10))


def lift_own(key: Key, axis: int) -> Floats:
    """Which cells of a term belong to which slice along one of its axes: one row per slice."""
    sizes = [SHAPE[j] for j in key]
    cells = np.indices(sizes).reshape(len(key), -1)
    others = [cells[k] for k in range(len(key)) if k != axis]
    rest = [size for k, size in enumerate(sizes) if k != axis]
    slices = np.ravel_multi_index(others, rest) if others else np.zeros(cells.shape[1], dtype=int)
    member: Floats = (np.arange(int(np.prod(rest, initial=1)))[:, None] == slices).astype(float)
    return member


def _own_weights(key: Key, weights: Floats) -> Floats:
    own: Floats = weights.sum(axis=tuple(j for j in range(len(SHAPE)) if j not in key))
    return own


def orthogonal_space(key: Key, weights: Floats, *, with_itself: bool = False) -> Floats:
    """Basis of the functions of some features orthogonal to all functions of fewer of them: conditions (5b)."""
    smaller = [other for other in subsets(len(SHAPE)) if set(other) < set(key) or (with_itself and other == key)]
    functions = indicators(key)
    if not smaller:
        return functions
    conditions = np.hstack([indicators(other) for other in smaller]).T @ (weights.reshape(-1, 1) * functions)
    space: Floats = functions @ null_space(conditions, rcond=1e-10)
    return space


class Spaces(NamedTuple):
    """The pure functions of all sets of features, put side by side."""

    n_functions: int
    rank: int
    smallest: float
    """The smallest singular value, of orthonormal bases side by side."""


def count_spaces(weights: Floats) -> Spaces:
    """How many pure functions there are on the cells with mass, and whether their sums are unique."""
    seen = [pure_space(key, weights)[weights.ravel() > 0] for key in subsets(len(SHAPE))]
    columns = np.hstack([orth(space, rcond=1e-10) for space in seen])
    values = np.linalg.svd(columns, compute_uv=False)
    return Spaces(columns.shape[1], int((values > 1e-10).sum()), float(values[-1]))


def largest_angle(weights: Floats) -> float:
    """The largest angle between the space of (5b) and that of (5c), over all sets of features."""
    return max(
        float(subspace_angles(pure_space(key, weights), orthogonal_space(key, weights)).max())
        for key in subsets(len(SHAPE))
        if key
    )


def projected(values: Floats, weights: Floats, functions: Floats) -> Floats:
    """The weighted least squares fit of functions, at all cells."""
    root = np.sqrt(weights.ravel())
    fit = np.linalg.lstsq(root[:, None] * functions, root * values.ravel(), rcond=None)[0]
    fitted: Floats = (functions @ fit).reshape(SHAPE)
    return fitted


def by_least_squares(values: Floats, weights: Floats) -> dict[Key, Floats]:
    """The decomposition by its definition: least squares over functions of (5b)."""
    keys = subsets(len(SHAPE))
    spaces = [orthogonal_space(key, weights) for key in keys]
    root = np.sqrt(weights.ravel())
    fit = np.linalg.lstsq(root[:, None] * np.hstack(spaces), root * values.ravel(), rcond=None)[0]
    ends = np.cumsum([space.shape[1] for space in spaces])[:-1]
    return {key: space @ part for key, space, part in zip(keys, spaces, np.split(fit, ends), strict=True)}


def by_purify(values: Floats, weights: Floats) -> dict[Key, Floats]:
    """The decomposition by `treeanova.purify`, every term at all cells."""
    pure = treeanova.purify(values, weights)
    terms = {_CONSTANT: np.array(pure.intercept), **pure.terms}
    return {key: lift(key, np.asarray(term).reshape(-1, 1)).ravel() for key, term in terms.items()}


def definition_gap(seed: int) -> float:
    """Largest difference of least squares under (5b) and `purify`, relative to the largest value."""
    values, weights = np.random.default_rng(seed).normal(size=SHAPE), random_weights(seed)
    first, second = by_least_squares(values, weights), by_purify(values, weights)
    return max(float(np.abs(first[key] - second[key]).max()) for key in first) / float(np.abs(values).max())


def rows_gap(seed: int, n_rows: int = 4_000) -> float:
    """Definition 1 on rows of a noisy outcome against `purify` of the cell means under the shares of the rows."""
    rng = np.random.default_rng(seed)
    cells = rng.choice(np.prod(SHAPE), p=random_weights(seed, dependence=0.5).ravel(), size=n_rows)
    outcome = rng.normal(size=np.prod(SHAPE))[cells] + rng.normal(size=n_rows)
    counts = np.bincount(cells, minlength=np.prod(SHAPE)).astype(float)
    weights = (counts / n_rows).reshape(SHAPE)
    keys = subsets(len(SHAPE))
    spaces = [orthogonal_space(key, weights) for key in keys]
    fit = np.linalg.lstsq(np.hstack(spaces)[cells], outcome, rcond=None)[0]
    ends = np.cumsum([space.shape[1] for space in spaces])[:-1]
    means = (np.bincount(cells, outcome, minlength=np.prod(SHAPE)) / counts).reshape(SHAPE)
    exact = by_purify(means, weights)
    return max(
        float(np.abs(space @ part - exact[key]).max())
        for key, space, part in zip(keys, spaces, np.split(fit, ends), strict=True)
    )


class Variances(NamedTuple):
    """Variances of a decomposition over the least ones possible."""

    highest: float
    """Of the term of order 3."""
    each_pair: float
    """Of a pair, its own main effects being free; the largest ratio."""
    all_pairs: float
    """Of the sum of the pairs, all main effects being free."""


def variance_ratios(seed: int, *, dependence: float) -> Variances:
    """How close variances of fANOVA are to the least that any decomposition of the same function has."""
    values = np.random.default_rng(seed).normal(size=SHAPE)
    weights = random_weights(seed, dependence=dependence)
    pure = {key: term.reshape(SHAPE) for key, term in by_purify(values, weights).items()}
    pairs = [key for key in pure if len(key) == 2]
    lower = np.hstack([indicators(key) for key in pairs])
    mains = np.hstack([indicators((j,)) for j in range(len(SHAPE))])
    total: Floats = np.sum([pure[key] for key in pairs], axis=0)

    def ratio(function: Floats, free: Floats) -> float:
        least = function - projected(function, weights, free)
        return float((weights * (function - (weights * function).sum()) ** 2).sum() / (weights * least**2).sum())

    each = [ratio(pure[key], np.hstack([indicators((j,)) for j in key])) for key in pairs]
    return Variances(ratio(pure[0, 1, 2], lower), max(each), ratio(total, mains))


def draws(n_draws: int) -> Iterator[Floats]:
    """Random densities with mass everywhere."""
    return (random_weights(seed) for seed in range(n_draws))


def run(settings: Settings) -> Section:
    """The study of Sections 3 and 4."""
    n_draws = 5 if settings.quick else 20
    table = {
        f"dependence {strength:g}": [variance_ratios(seed, dependence=strength) for seed in range(n_draws)]
        for strength in (0, 0.5, 1)
    }
    body = paragraphs(
        f"Three features of {', '.join(str(n) for n in SHAPE)} values, {n_draws} random functions and densities with "
        "mass in every cell. Purity is a set of linear conditions, so that uniqueness and equivalence are statements "
        "about ranks and angles of subspaces, which linear algebra decides without the code under test.",
        "**Variance of fANOVA's terms over the least variance** that any decomposition of the same function has; the "
        "largest ratio of the draws (1: minimum variance). Dependence: the s.d. of the logarithm of w over the "
        "product of its factors.",
        markdown_table(
            [
                (name, *(max(getattr(one, part) for one in some) for part in Variances._fields))
                for name, some in table.items()
            ],
            ("features", "term of order 3", "each pair", "sum of the pairs"),
        ),
    )
    return Section("Functional ANOVA and pure effects: Sections 3 and 4", body, claims(n_draws, table))


def claims(n_draws: int, table: dict[str, list[Variances]]) -> tuple[Claim, ...]:
    """The claims of Sections 3 and 4, judged."""
    return (_unique_claim(n_draws), _variance_claim(table), *_condition_claims(n_draws))


def _unique_claim(n_draws: int) -> Claim:
    found = [count_spaces(weights) for weights in draws(n_draws)]
    n_cells = int(np.prod(SHAPE))
    full = all(one.n_functions == one.rank == n_cells for one in found)
    split = count_spaces(split_weights())
    return Claim(
        "unique",
        "Section 3",
        "By the uniqueness of fANOVA under non-degenerate feature distributions, this set of functions uniquely "
        "defines an orthogonal decomposition of F",
        "holds" if full else "does not hold",
        "Where every cell has mass, each function has exactly one pure decomposition; orthogonal means that a term is "
        "orthogonal to terms of its own features, not to all others.",
        f"The pure functions of all sets of features, put side by side, number as many as the {n_cells} cells and are "
        "linearly independent (smallest singular value above 1e−10), in every draw.",
        f"{found[0].n_functions} functions of rank {min(one.rank for one in found)} in {n_draws} of {n_draws} draws, "
        f"smallest singular value {number(min(one.smallest for one in found))}. Degenerate, the support in two parts: "
        f"{split.n_functions} functions of rank {split.rank}, so not unique, as the paper's condition says.",
        {"rank": min(one.rank for one in found), "functions": found[0].n_functions, "rank of split": split.rank},
    )


def _variance_claim(table: dict[str, list[Variances]]) -> Claim:
    worst = {part: max(getattr(one, part) for some in table.values() for one in some) for part in Variances._fields}
    even = max(one.all_pairs for one in table["dependence 0"])
    is_least = max(worst["highest"], worst["each_pair"]) < 1 + 1e-9
    return Claim(
        "least-variance",
        "Section 3",
        "with minimum variance in higher-order functions",
        "holds" if is_least and worst["all_pairs"] < 1 + 1e-9 else "in part" if is_least else "does not hold",
        "The highest order and each single interaction have the least possible variance; the pairs together do not "
        "when three features are dependent.",
        "No decomposition of the same function has a smaller variance of the term of order 3, of a pair, or of the "
        "sum of the pairs: ratios to the least variance below 1 + 1e−9.",
        f"Order 3: {worst['highest']:.9f}; each pair, its own main effects being free: {worst['each_pair']:.9f}; sum "
        f"of the pairs: {even:.9f} for independent features, but up to {worst['all_pairs']:.2f} for dependent ones.",
        worst | {"independent": even},
    )


def _condition_claims(n_draws: int) -> tuple[Claim, ...]:
    angle = max(largest_angle(weights) for weights in draws(n_draws))
    empty = orthogonal_space((0, 1), random_weights(0), with_itself=True).shape[1]
    slices = max(definition_gap(seed) for seed in range(n_draws))
    rows = max(rows_gap(seed) for seed in range(n_draws))
    dimension = pure_space((0, 1), random_weights(0)).shape[1]
    return (
        Claim(
            "lemma-4.1",
            "Section 3.1, Lemma 4.1 of Hooker (2007)",
            "these orthogonality conditions are equivalent to the integral conditions",
            "holds" if angle < 1e-6 else "does not hold",
            "Both conditions select the same functions; in the orthogonality condition v must be a proper subset of "
            "u, because v = u, as printed, would leave only zero.",
            "The spaces of functions that meet the one and the other condition are the same: largest angle below 1e−6.",
            f"Largest angle {number(angle)} over all sets of features and {n_draws} densities. For a pair, both have "
            f"{dimension} dimensions; with v ⊆ u as printed, {empty}.",
            {"angle": angle, "dimension as printed": empty, "dimension": dimension},
        ),
        Claim(
            "zero-slices",
            "Section 3.2",
            "the fANOVA is recovered when every slice has mean zero with respect to a density w",
            "holds" if slices < 1e-10 else "does not hold",
            "Tensors with zero-mean slices are the fANOVA: the same as least squares under the orthogonality "
            "conditions.",
            "`treeanova.purify` and least squares over the functions of the orthogonality condition agree within "
            "1e−10.",
            f"Largest difference of a term, relative to the largest value: {number(slices)}.",
            {"gap": slices},
        ),
        Claim(
            "definition-1",
            "Section 4, Definition 1",
            "This is equivalent to the fANOVA decomposition of E[Y|X] = F(X) under w(X) = p(X)",
            "holds" if rows < 1e-10 else "does not hold",
            "The definition, solved on rows of a noisy outcome, gives the fANOVA of the outcome's conditional mean.",
            "Least squares on 4,000 rows of Y over functions with E[f|X_v] = 0, and `treeanova.purify` of the means "
            "of Y in each cell under the shares of the rows, agree within 1e−10.",
            f"Largest difference of a term: {number(rows)}.",
            {"gap": rows},
        ),
    )
