"""Sections 3 and 4: uniqueness, minimum variance, Lemma 4.1 and Definition 1, checked by linear algebra."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import null_space, orth, subspace_angles

import treeanova
from studies.common import Section, Settings, markdown_table, paragraphs
from studies.judging import Claim, above, below, equal, holds_if
from treeanova.core.arrays import Floats, Key

SHAPE = (4, 3, 3)
_DERIVATION = """**Why minimum variance holds term by term.** Let f_u be pure, and let g be any function of fewer of
its features, that is a sum of functions of proper subsets of u. Purity means E[f_u g] = 0, so Var(f_u + g) = Var
f_u + Var g: whatever lower terms are moved into f_u, its variance can only grow. For the sum of two pairs f_12 +
f_13 the function that one may add is h(x1) + h(x2) + h(x3) as before, but f_12 is orthogonal to functions of x1 and
of x2 only: for dependent features E[f_12 h(x3)] ≠ 0, so some h(x3) lowers the variance of the sum. For independent
features f_12 is orthogonal to all functions of x3 too, and the sum has minimum variance."""
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
    body = paragraphs(body, _DERIVATION)
    return Section("Functional ANOVA and pure effects: Sections 3 and 4", body, claims(n_draws, table))


def claims(n_draws: int, table: dict[str, list[Variances]]) -> tuple[Claim, ...]:
    """The claims of Sections 2 to 4, judged."""
    return (*_sum_claims(), _unique_claim(n_draws), _variance_claim(table), *_condition_claims(n_draws))


def sobol_gap(weights: Floats) -> float:
    """Largest difference between variances of pure terms and Sobol's, from variances of conditional means."""
    values = np.random.default_rng(1).normal(size=SHAPE)
    pure = by_purify(values, weights)
    closed: dict[Key, float] = {}
    for key in subsets(len(SHAPE))[1:]:
        others = tuple(j for j in range(len(SHAPE)) if j not in key)
        mass = weights.sum(axis=others)
        means = (weights * values).sum(axis=others) / mass
        total = float((mass * means**2).sum() - (weights * values).sum() ** 2)
        closed[key] = total - sum(part for other, part in closed.items() if set(other) < set(key))
    variance = float((weights * (values - (weights * values).sum()) ** 2).sum())
    return max(abs(float(weights.ravel() @ pure[key] ** 2) - part) for key, part in closed.items()) / variance


def _sum_claims() -> tuple[Claim, ...]:
    pure = by_purify(np.random.default_rng(0).normal(size=SHAPE), random_weights(0))
    once = sum(pure[key] for key in pure)
    pairs = sum(pure[key] for key in pure if len(key) == 2)
    function = np.random.default_rng(0).normal(size=SHAPE).ravel()
    return (
        Claim(
            "sum-over-pairs",
            "Section 3, Eq. 4",
            "F(X) = f₀ + Σ_i f_i(X_i) + Σ_{i≠j} f_ij(X_i, X_j) + …",
            "The sum over i ≠ j counts every pair twice; over i < j it is right.",
            "Largest difference of F and the sum of its terms, pairs counted twice and once (random function, 36 "
            "cells).",
            {
                "gap, i ≠ j": float(np.abs(once + pairs - function).max()),
                "gap, i < j": float(np.abs(once - function).max()),
            },
            holds_if(below("gap, i ≠ j", 1e-10)),
            holds_if(below("gap, i < j", 1e-10)),
            "sum over i < j",
        ),
        Claim(
            "sobol",
            "Section 2",
            "Our definition of interactions is also related to Sobol indices",
            "For independent features the variances of pure terms are Sobol's, over the variance of F his indices; for "
            "dependent ones they are not.",
            "Largest difference between variances of pure terms and those of Sobol's closed formula (variances of "
            "conditional means), over the variance of F: product and dependent density.",
            {
                "gap, independent": sobol_gap(random_weights(1, dependence=0)),
                "gap, dependent": sobol_gap(random_weights(1)),
            },
            holds_if(below("gap, independent", 1e-10)),
        ),
    )


def _unique_claim(n_draws: int) -> Claim:
    found = [count_spaces(weights) for weights in draws(n_draws)]
    split = count_spaces(split_weights())
    numbers = {
        "functions": max(one.n_functions for one in found),
        "least rank": min(one.rank for one in found),
        "smallest singular value": min(one.smallest for one in found),
        "functions, split support": split.n_functions,
        "rank, split support": split.rank,
    }
    n_cells = int(np.prod(SHAPE))
    return Claim(
        "unique",
        "Section 3",
        "By the uniqueness of fANOVA under non-degenerate feature distributions, this set of functions uniquely "
        "defines an orthogonal decomposition of F",
        "Where every cell has mass, each function has exactly one pure decomposition. Orthogonal means that a term is "
        "orthogonal to terms of its own features, not to all others.",
        f"Number and rank of the pure functions of all sets of features side by side, against the {n_cells} cells, in "
        f"{n_draws} random densities and with a support in two parts. (For continuous features Chastaing et al. ask "
        "that "
        "the density is at least a positive multiple of the product of its marginals, which a correlated normal "
        "density "
        "is not; our check is for finitely many cells.)",
        numbers,
        holds_if(equal("functions", n_cells), equal("least rank", n_cells), above("smallest singular value", 1e-10)),
    )


def _variance_claim(table: dict[str, list[Variances]]) -> Claim:
    names = dict(zip(Variances._fields, ("order 3", "each pair", "sum of the pairs"), strict=True))
    worst = {words: max(getattr(one, part) for some in table.values() for one in some) for part, words in names.items()}
    even = max(one.all_pairs for one in table["dependence 0"])
    single = below("order 3", 1 + 1e-9), below("each pair", 1 + 1e-9)
    return Claim(
        "least-variance",
        "Section 3",
        "with minimum variance in higher-order functions",
        "The highest order and each single interaction have the least possible variance; the pairs together do not "
        "when three features are dependent.",
        "Variance over the least one that any decomposition of the same function has, the largest ratio of all "
        "draws: of "
        "the term of order 3, of a pair (its own main effects being free), of the sum of the pairs (all main effects "
        "being free), and of that sum for independent features.",
        worst | {"sum, independent": even},
        holds_if(*single, below("sum of the pairs", 1 + 1e-9), partly=single),
        holds_if(*single),
        "term by term",
    )


def _condition_claims(n_draws: int) -> tuple[Claim, ...]:
    angle = max(largest_angle(weights) for weights in draws(n_draws))
    empty = orthogonal_space((0, 1), random_weights(0), with_itself=True).shape[1]
    dimension = pure_space((0, 1), random_weights(0)).shape[1]
    return (
        Claim(
            "lemma-4.1",
            "Section 3.1, Eq. 5, Lemma 4.1 of Hooker (2007)",
            "these orthogonality conditions are equivalent to the integral conditions",
            "Both conditions select the same functions if v is a proper subset of u; with v = u, as printed, only zero "
            "would be left.",
            "Dimensions of the spaces of pairs that meet the integral conditions, and the orthogonality conditions "
            "with "
            f"v ⊆ u and with v ⊂ u; largest angle between the first and the last, over all sets and {n_draws} "
            "densities.",
            {
                "integral": dimension,
                "v ⊆ u less integral": empty - dimension,
                "angle, v ⊂ u": angle,
            },
            holds_if(equal("v ⊆ u less integral", 0)),
            holds_if(below("angle, v ⊂ u", 1e-6)),
            "v ⊂ u, as in Definition 1",
        ),
        Claim(
            "zero-slices",
            "Sections 3.2 and 5.1",
            "the fANOVA is recovered when every slice has mean zero with respect to a density w",
            "Tensors with zero-mean slices are the fANOVA: the same as least squares under the orthogonality "
            "conditions.",
            "Largest difference of a term of `treeanova.purify` and of least squares over the functions of the "
            "orthogonality condition, over the largest value.",
            {"gap": max(definition_gap(seed) for seed in range(n_draws))},
            holds_if(below("gap", 1e-10)),
        ),
        Claim(
            "definition-1",
            "Section 4, Definition 1",
            "This is equivalent to the fANOVA decomposition of E[Y|X] = F(X) under w(X) = p(X)",
            "The definition, solved on rows of a noisy outcome, gives the fANOVA of the outcome's conditional mean.",
            "Largest difference of a term of least squares on 4,000 rows of Y over functions with E[f|X_v] = 0, and of "
            "`treeanova.purify` of the means of Y in each cell under the shares of the rows.",
            {"gap": max(rows_gap(seed) for seed in range(n_draws))},
            holds_if(below("gap", 1e-10)),
        ),
    )
