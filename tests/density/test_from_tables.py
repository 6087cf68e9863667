"""Joint densities made from tables of some features each."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import treeanova
from tests.support.densities import boosted
from treeanova.density import Table
from treeanova.density.table import check_agreement, joint_of_tables


def test_tables_that_contradict_each_other_are_refused():
    model, x = boosted()
    sizes = treeanova.decompose(model, x).grid.sizes
    rng = np.random.default_rng(0)
    names = list(itertools.combinations(["x0", "x1", "x2"], 2))
    tables = {pair: rng.random([sizes[int(name[1])] for name in pair]) ** 8 for pair in names}
    with pytest.raises(ValueError, match=r"`density` must give the same marginal of x\d in all tables, got"):
        treeanova.decompose(model, density=tables)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({("a", "b"): [[4, 1], [1, 4]], ("b", "a"): [[1, 1], [1, 1]]}, r"one table, got \('b', 'a'\) twice"),
        ({("a", "b"): [[4, 1], [1, 4]], "a": [1, 1], ("a",): [1, 1]}, r"one table, got \('a',\) twice"),
        ({("a", "a"): [[1, 0], [0, 1]], "b": [1, 1]}, r"name each feature of a table once, got \('a', 'a'\)"),
    ],
)
def test_sets_of_features_come_once(tables, message):
    effects = treeanova.model.Effects.from_tables({("a", "b"): [[0, 0], [0, 1]]})
    with pytest.raises(ValueError, match=message):
        treeanova.decompose(effects, density=tables)


def test_tables_of_pairs_are_joined_by_the_density_of_largest_entropy():
    model, x = boosted()
    empirical = treeanova.decompose(model, x, density="empirical").density
    pairs = {("x0", "x1"): empirical.table((0, 1)), ("x1", "x2"): empirical.table((1, 2))}
    fx = treeanova.decompose(model, density=Table(pairs))
    middle = empirical.table((1,))
    markov = np.einsum(
        "ab,bc,b->abc", empirical.table((0, 1)), empirical.table((1, 2)), 1 / np.where(middle > 0, middle, 1)
    )
    np.testing.assert_allclose(fx.density.table((0, 1, 2)), markov, atol=1e-12)


def test_features_that_no_table_connects_are_independent():
    rng = np.random.default_rng(0)
    pair, single = rng.dirichlet(np.ones(6)).reshape(2, 3), rng.dirichlet(np.ones(4))
    joint = joint_of_tables({(0, 2): pair, (1,): single}, (2, 4, 3))
    np.testing.assert_allclose(joint.table((0, 1, 2)), np.einsum("ac,b->abc", pair, single), rtol=1e-12)


def test_three_tables_of_pairs_are_met_by_raking():
    truth = np.random.default_rng(0).dirichlet(np.full(24, 5.0)).reshape(2, 3, 4)
    pairs = {key: truth.sum(axis=3 - sum(key)) for key in [(0, 1), (0, 2), (1, 2)]}
    joint = joint_of_tables(pairs, (2, 3, 4))
    for key, table in pairs.items():
        np.testing.assert_allclose(joint.table(key), table, atol=1e-12)
    three = np.log(joint.table((0, 1, 2)))  # largest entropy: no interaction of all three in the logarithms
    for axis in range(3):
        three = three - three.mean(axis=axis, keepdims=True)
    np.testing.assert_allclose(three, 0.0, atol=1e-9)


def test_features_without_a_table_are_refused_unless_they_have_one_bin():
    single = np.array([0.5, 0.5])
    assert joint_of_tables({(0,): single}, (2, 1)).table((0, 1)).tolist() == [[0.5], [0.5]]
    with pytest.raises(ValueError, match=r"weights for the feature at position 1, got tables of \[\(0,\)\]; add"):
        joint_of_tables({(0,): single}, (2, 3))


def test_tables_over_too_many_cells_are_not_joined():
    tables = {(0, 1): np.full((2000, 2), 1 / 4000), (1, 2): np.full((2, 2000), 1 / 4000)}
    with pytest.raises(ValueError, match=r"at positions \(0, 1, 2\), got tables of .* and 8,000,000 cells, too many"):
        joint_of_tables(tables, (2000, 2, 2000))


def test_agreement_is_of_shared_features_in_any_order():
    table = np.random.default_rng(0).dirichlet(np.ones(24)).reshape(2, 3, 4)
    check_agreement({(0, 1, 2): table, (0, 2): table.sum(axis=1), (1,): table.sum(axis=(0, 2))}, "abc")
    other = table.sum(axis=1) + np.array([[0.1, -0.1, 0, 0], [0, 0, 0, 0]])
    with pytest.raises(ValueError, match=r"of a, c in all tables, got .* a × b × c and a × c that differ by 0.1 "):
        check_agreement({(0, 1, 2): table, (0, 2): other}, "abc")
