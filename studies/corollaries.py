"""Corollaries 2.1 and 2.2: permutation, order of slices, linearity, bagging before or after."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import treeanova
from studies.common import Section, Settings, markdown_table, number, paragraphs
from studies.judging import Claim, below, holds_if
from studies.mass_moving import orders_apart
from treeanova.core.arrays import Floats, Key


def purified(table: Floats, weights: Floats) -> dict[Key, Floats]:
    """All terms of `treeanova.purify`, the intercept under ()."""
    pure = treeanova.purify(table, weights)
    return {(): np.array(pure.intercept), **pure.terms}


def largest_gap(found: dict[Key, Floats], expected: dict[Key, Floats]) -> float:
    """The largest difference of an entry of a term."""
    return max(float(np.abs(found[key] - expected[key]).max()) for key in expected)


def _problem(seed: int, *, empty: float = 0.0) -> tuple[Floats, Floats]:
    """A random table of 30 × 20 cells and weights, a share of them empty."""
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=(30, 20)) * (rng.random((30, 20)) >= empty)
    return rng.normal(size=(30, 20)), weights / weights.sum()


def permutation_gap(empty: float) -> float:
    """The largest difference after shuffling rows and columns, purifying and shuffling back; 20 problems."""
    gaps = []
    for seed in range(20):
        table, weights = _problem(seed, empty=empty)
        rng = np.random.default_rng(seed)
        rows, columns = rng.permutation(30), rng.permutation(20)
        shuffled = purified(table[np.ix_(rows, columns)], weights[np.ix_(rows, columns)])
        expected = purified(table, weights)
        back = {(): expected[()], (0,): expected[0,][rows], (1,): expected[1,][columns]}
        gaps.append(largest_gap(shuffled, back | {(0, 1): expected[0, 1][np.ix_(rows, columns)]}))
    return max(gaps)


def order_gap(weights: Floats) -> tuple[float, float]:
    """The largest difference of the pair, rows first against columns first: plain mass moving, and `purify`."""
    table = np.random.default_rng(0).normal(size=weights.shape)
    ours = np.abs(purified(table, weights)[0, 1] - purified(table.T, weights.T)[0, 1].T).max()
    return orders_apart(table, weights), float(ours)


class Linearity(NamedTuple):
    """The largest difference of a pair and of a main effect between both sides of Corollary 2.2."""

    pair: float
    main: float


def linearity_gap(coefficients: Floats, *, n_problems: int = 20) -> Linearity:
    """Purify-Matrix of T_a, T_b and the combination against the combination of Purify-Matrix of T_a, T_b and each."""
    pairs, mains = [], []
    for seed in range(n_problems):
        _, weights = _problem(seed, empty=0.3)
        rng = np.random.default_rng(seed)
        first, second, tables = rng.normal(size=30), rng.normal(size=20), rng.normal(size=(len(coefficients), 30, 20))
        whole = purify_matrix(first, second, np.tensordot(coefficients, tables, 1), weights)
        parts = [purify_matrix(first, second, table, weights) for table in tables]
        gaps = [
            float(np.abs(whole[k] - sum(c * part[k] for c, part in zip(coefficients, parts, strict=True))).max())
            for k in range(3)
        ]
        mains.append(max(gaps[:2]))
        pairs.append(gaps[2])
    return Linearity(max(pairs), max(mains))


def purify_matrix(first: Floats, second: Floats, table: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Purify-Matrix of {T_a, T_b, T_ab}: what leaves the matrix is added to both vectors, which are not centred.

    Rows and columns share the mean of the matrix equally, which is a linear choice.
    """
    pure = purified(table, weights)
    return first + pure[0,] + pure[()] / 2, second + pure[1,] + pure[()] / 2, pure[0, 1]


def bagging(settings: Settings) -> dict[str, float]:
    """A forest purified whole against its trees purified each; largest difference over the largest effect."""
    from sklearn.ensemble import RandomForestRegressor  # noqa: PLC0415

    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 3))
    X[:, 1] = 0.8 * X[:, 0] + 0.6 * X[:, 1]
    y = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + rng.normal(size=len(X)) / 4
    forest = RandomForestRegressor(10 if settings.quick else 30, max_depth=2, max_features=2, random_state=0).fit(X, y)
    result = {}
    for density in ("independent", "empirical"):
        whole = treeanova.decompose(forest, X, density=density)
        trees = [treeanova.decompose(tree, X, density=density) for tree in forest.estimators_]
        result[f"{density}, each tree on its own bins"] = _difference(whole, [trees], X)
        result[f"{density}, `treeanova.mean` on all bins"] = _difference(whole, [[treeanova.mean(trees)]], X)
    return result


def _difference(whole: Any, groups: list[list[Any]], X: Floats) -> float:
    """Largest difference over rows of a term and the mean of the same term in the parts, over the largest effect."""
    expected = {key: whole.term_values(X, key) for key in whole.terms}
    gaps = []
    for parts in groups:
        for key, values in expected.items():
            found = sum(part.term_values(X, key) for part in parts if key in part.terms) / len(parts)
            gaps.append(np.abs(found - values).max())
    return float(max(gaps) / max(np.abs(values).max() for values in expected.values()))


def run(settings: Settings) -> Section:
    """The study of the algorithm as printed and of the corollaries."""
    connected = _problem(0)[1]
    split: Floats = np.array(np.kron(np.eye(2), np.ones((3, 3))), dtype=np.float64)
    orders = {"all cells have mass": order_gap(connected), "support in two parts": order_gap(split)}
    bags = bagging(settings)
    body = paragraphs(
        "**Any order of slices.** Rows first against columns first, largest difference of the interaction. Where the "
        "support falls into parts, the paper's decomposition is not unique, in the main effects and in cells without "
        "mass, and its algorithm keeps whatever came first; treeanova decides it by one stated convention.",
        markdown_table([(name, *gaps) for name, gaps in orders.items()], ("weights", "mass moving", "treeanova")),
        "**Bagging before or after.** A random forest of depth 2 on correlated features, purified whole, against the "
        "mean of its trees purified one by one; largest difference of an effect at the rows, relative to the largest "
        "effect.",
        markdown_table(bags.items(), ("density, trees", "difference")),
        "Linearity holds for one set of bins Ω. Trees of a bag have bins of their own, and a tree that is pure on its "
        "coarse bins is not pure on the finer bins of the bag, unless the features are independent. So purify after "
        "aggregation, or each tree on the bins of all, as `treeanova.mean` does.",
    )
    return Section("Corollaries 2.1 and 2.2: Section 5.1.1", body, claims(orders, bags))


def claims(orders: dict[str, tuple[float, float]], bags: dict[str, float]) -> tuple[Claim, ...]:
    """The corollaries, judged."""
    return (*_permutation_claims(orders), *_linearity_claims(bags))


def equation_gap(*, is_weight_permuted: bool) -> float:
    """Both sides of the printed equation of Corollary 2.1 on random 6 × 5 tables, w permuted or not."""
    gaps = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        table, weights = rng.normal(size=(6, 5)), rng.random((6, 5))
        rows, columns = rng.permutation(6), rng.permutation(5)
        shuffled = weights[np.ix_(rows, columns)] if is_weight_permuted else weights
        right = purified(table[np.ix_(rows, columns)], shuffled)[0, 1]
        gaps.append(np.abs(purified(table, weights)[0, 1][np.ix_(rows, columns)] - right).max())
    return float(max(gaps))


def _permutation_claims(orders: dict[str, tuple[float, float]]) -> tuple[Claim, ...]:
    (joined, _), (parted, ours) = orders.values()
    return (
        Claim(
            "corollary-2.1-equation",
            "Corollary 2.1",
            "Purify-Matrix({T_a, T_b, T_{a,b}}, w, {a, b}, Ω) = P'(Purify-Matrix(P(T_a, T_b, T_{a,b}), w, {a, b}, Ω))",
            "The equation permutes the tensors, but not w; with w left as it is the two sides differ, with w "
            "permuted too "
            "they agree.",
            "Largest difference of the pair between both sides, on 20 random 6 × 5 tables.",
            {
                "gap, w as printed": equation_gap(is_weight_permuted=False),
                "gap, w permuted": equation_gap(is_weight_permuted=True),
            },
            holds_if(below("gap, w as printed", 1e-12)),
            holds_if(below("gap, w permuted", 1e-12)),
            "w permuted like the tensors",
        ),
        Claim(
            "corollary-2.1",
            "Corollary 2.1 (1)",
            "re-encoding the order of nominal variables does not change the interaction effects",
            "Shuffling rows and columns of tables and weights, purifying and shuffling back gives the same terms.",
            "Largest difference of a term on 20 random tables of 30 × 20 cells, all with mass, or 30 % of them empty.",
            {"gap": permutation_gap(0.0), "gap, empty cells": permutation_gap(0.3)},
            holds_if(below("gap", 1e-12), below("gap, empty cells", 1e-12)),
        ),
        Claim(
            "corollary-2.1-order",
            "Corollary 2.1 (2)",
            "Alg. 1 can iterate over the slices of a tensor in any order",
            "The order of slices is of no influence where the decomposition is unique; where the support of w falls "
            "into parts, the main effects and cells without mass depend on it.",
            "Largest difference of the interaction at any cell, with mass or without, rows first and columns first: "
            "all cells with mass, and a support in two parts.",
            {"gap, connected": joined, "gap, in parts": parted},
            holds_if(
                below("gap, connected", 1e-12), below("gap, in parts", 1e-12), partly=(below("gap, connected", 1e-12),)
            ),
            holds_if(below("gap, connected", 1e-12)),
            "where the decomposition is unique",
            found=f"treeanova, which fixes what w leaves open by a convention: {number(ours)}.",
        ),
    )


def _linearity_claims(bags: dict[str, float]) -> tuple[Claim, ...]:
    one, other = linearity_gap(np.array([0.5, 0.3, 0.2])), linearity_gap(np.array([2.0, -3.0, 5.0]))
    common, own = bags["empirical, `treeanova.mean` on all bins"], bags["empirical, each tree on its own bins"]
    return (
        Claim(
            "corollary-2.2",
            "Corollary 2.2",
            "For any interaction matrix T_{a,b} = α₁A₁ + … + α_nA_n, where Σα_i = 1: Purify-Matrix({T_a, T_b, "
            "T_{a,b}}, …) = α₁Purify-Matrix({T_a, T_b, A₁}, …) + … + α_nPurify-Matrix({T_a, T_b, A_n}, …)",
            "Purification is linear; the coefficients must add up to one because every call carries the same T_a and "
            "T_b.",
            "Largest difference between both sides of a pair and of a main effect, for T_a, T_b ≠ 0 and coefficients "
            "0.5, "
            "0.3, 0.2 (20 random problems); and for 2, −3, 5, which do not add up to one.",
            {"pair": one.pair, "main": one.main, "pair, other sum": other.pair, "main, other sum": other.main},
            holds_if(below("pair", 1e-12), below("main", 1e-12)),
        ),
        Claim(
            "bagging",
            "Corollary 2.2",
            "purification can be run equivalently before or after bootstrap aggregation",
            "Purification before and after bagging agree if all trees use the same bins; each tree on its own bins "
            "gives another answer when features are dependent.",
            "Largest difference of an effect of a forest purified whole and of the mean of its trees purified one by "
            "one, "
            "over the largest effect, under the empirical density: each tree on its own bins, and on the bins of all.",
            {"gap, own bins": own, "gap, common bins": common},
            holds_if(below("gap, own bins", 1e-9), partly=(below("gap, common bins", 1e-9),)),
            holds_if(below("gap, common bins", 1e-9)),
            "one Ω for all trees, as in the corollary",
        ),
    )
