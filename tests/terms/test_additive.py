"""Additive models, also with terms on coarser axes of their own: sums over rows and cells, and closed forms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.effects import grid_of_sizes, on_full_bins, random_effects
from tests.support.forests import all_cells
from tests.support.oracles import brute_force
from tests.support.strategies import SEEDS
from treeanova.core.progress import quiet
from treeanova.density import Empirical, Independent, Table, Uniform
from treeanova.density.statistics import statistics_of
from treeanova.model.effects import Effects
from treeanova.model.grid import binning_by, unmerged
from treeanova.model.rows import Rows
from treeanova.terms.source import AdditiveModel, Settings, purify_tensors
from treeanova.terms.terms import TermSet


def random_rows(rng, grid, n_rows=40):
    """Dependent rows, in some of the cells of a grid with thresholds at whole numbers."""
    common = rng.uniform(-1, 5, size=n_rows)
    return np.stack([common + rng.normal(size=n_rows) for _ in grid.axes], axis=1)


def pure_effects(effects, density):
    return purify_tensors(effects, density, Settings()).terms.effects


def scale_of(effects):
    return 1 + sum(np.abs(values).max() for values in effects.terms.values())


@given(SEEDS, st.sampled_from([Empirical, Independent, Uniform]))
def test_pure_terms_add_up_to_the_raw_ones_in_every_cell(seed, kind):
    rng = np.random.default_rng(seed)
    effects = random_effects(rng)
    density = kind().bind(effects.grid, statistics_of(random_rows(rng, effects.grid), effects.grid))
    pure = pure_effects(effects, density)
    cells = all_cells(effects.grid)
    found, expected = pure.score(Rows.in_bins(pure.grid, cells)), effects.score(Rows.in_bins(effects.grid, cells))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * scale_of(effects))


@given(SEEDS)
def test_slices_of_a_term_on_its_own_bins_have_mean_zero_over_the_rows(seed):
    """Over the rows that share the term's bins of all its features but one."""
    rng = np.random.default_rng(seed)
    effects = random_effects(rng)
    rows = random_rows(rng, effects.grid)
    pure = pure_effects(effects, Empirical().bind(effects.grid, statistics_of(rows, effects.grid)))
    for key in pure.terms:
        axes = pure.axes_of(key)
        bins = [axis.index(rows[:, j]).tolist() for axis, j in zip(axes, key, strict=True)]
        values = pure.at(key, effects.grid.index(rows))
        for position in range(len(key)):
            slices = list(zip(*(bins[i] for i in range(len(key)) if i != position), [0] * len(rows), strict=True))
            for one in set(slices):
                mean = np.mean([value for value, other in zip(values, slices, strict=True) if other == one], axis=0)
                np.testing.assert_allclose(mean, 0, atol=1e-9 * scale_of(effects))


def averaged_terms(effects, masses):
    """Terms under independent features by their definition: alternating sums of means over all other features."""
    whole = effects.score(Rows.in_bins(effects.grid, all_cells(effects.grid))).reshape(
        *effects.grid.sizes, effects.n_outputs
    )
    features = range(len(effects.grid.sizes))
    subsets = [key for order in range(len(features) + 1) for key in itertools.combinations(features, order)]
    means = {}
    for key in subsets:
        means[key] = whole
        for j in features:
            if j not in key:
                means[key] = (means[key] * masses[j].reshape([-1 if i == j else 1 for i in range(whole.ndim)])).sum(
                    axis=j, keepdims=True
                )
    return {
        key: sum((-1) ** (len(key) - len(sub)) * means[sub] for sub in subsets if set(sub) <= set(key))
        for key in subsets
    }


@given(SEEDS, st.booleans())
def test_under_independent_features_merged_bins_change_no_term(seed, is_uniform):
    """Means over a feature are constant wherever the term is: purification commutes with merging bins."""
    rng = np.random.default_rng(seed)
    effects = random_effects(rng)
    statistics = statistics_of(random_rows(rng, effects.grid), effects.grid)
    density = (Uniform() if is_uniform else Independent()).bind(effects.grid, statistics)
    pure, full = pure_effects(effects, density), pure_effects(on_full_bins(effects), density)
    expected = averaged_terms(effects, [density.table((j,)) for j in range(len(effects.grid.axes))])
    cells, atol = all_cells(effects.grid), 1e-12 * scale_of(effects)
    np.testing.assert_allclose(pure.intercept, expected[()].reshape(-1), rtol=0, atol=atol)
    assert set(pure.terms) == set(full.terms)
    for key in pure.terms:
        at_cells = np.broadcast_to(expected[key], (*effects.grid.sizes, effects.n_outputs))[tuple(cells.T)]
        np.testing.assert_allclose(pure.at(key, cells), at_cells, rtol=0, atol=atol)
        np.testing.assert_allclose(pure.at(key, cells), full.at(key, cells), rtol=0, atol=atol)


ONE, TWO = binning_by(np.array([0, 0, 1, 1, 1])), binning_by(np.array([0, 1, 1, 2]))


def pair_on_own_axes(rng):
    """Two features of 5 and 4 bins, main effects on all of them, a pair on 2 and 3 bins."""
    grid = grid_of_sizes([5, 4])
    terms = {(0,): rng.normal(size=(5, 1)), (1,): rng.normal(size=(4, 1)), (0, 1): rng.normal(size=(2, 3, 1))}
    return Effects(grid, np.zeros(1), terms, {(0, 1): (ONE, TWO)})


@settings(max_examples=20)
@given(SEEDS)
def test_merged_bins_change_no_term_where_features_are_independent_within_merged_cells(seed):
    """Weights W(c, d) m(x | c) n(y | d): a pair that is pure on merged bins is so on all bins; brute force agrees."""
    rng = np.random.default_rng(seed)
    effects = pair_on_own_axes(rng)
    coarse = rng.random((2, 3)) + 0.05
    within = [rng.random(5) + 0.05, rng.random(4) + 0.05]
    shares = [part / binning.spread(binning.pool(part)) for part, binning in zip(within, (ONE, TWO), strict=True)]
    weights = TWO.spread(ONE.spread(coarse, 0), 1) * np.multiply.outer(*shares)
    density = Table({("x0", "x1"): weights}).bind(effects.grid, None)
    pure, cells = pure_effects(effects, density), all_cells(effects.grid)
    expected = brute_force(effects.score(Rows.in_bins(effects.grid, cells)).reshape(5, 4), weights)
    for key, values in pure.terms.items():
        wide = expected[key][tuple(cells[:, j] for j in key)]
        np.testing.assert_allclose(pure.at(key, cells)[:, 0], wide, atol=1e-10)
        assert values.shape[:-1] == ((2, 3) if len(key) == 2 else (len(expected[key]),))


def test_under_dependence_within_merged_cells_the_pair_is_pure_on_its_own_bins_only():
    """So that terms differ from those on all bins; slices of its own bins still have mean zero."""
    rng = np.random.default_rng(1)
    effects = pair_on_own_axes(rng)
    weights = np.exp(2 * np.subtract.outer(np.arange(5) / 4, np.arange(4) / 3) ** 2) + rng.random((5, 4))
    density = Table({("x0", "x1"): weights}).bind(effects.grid, None)
    pure, full = pure_effects(effects, density), pure_effects(on_full_bins(effects), density)
    cells = all_cells(effects.grid)
    assert np.abs(pure.at((0, 1), cells) - full.at((0, 1), cells)).max() > 0.01
    pair, masses = pure.terms[0, 1][..., 0], TWO.pool(ONE.pool(weights, 0), 1)
    np.testing.assert_allclose((pair * masses).sum(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose((pair * masses).sum(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(
        pure.score(Rows.in_bins(pure.grid, cells)), effects.score(Rows.in_bins(effects.grid, cells)), atol=1e-12
    )


def test_a_main_effect_receives_what_pairs_give_up_on_the_axes_of_both():
    grid = grid_of_sizes([4, 2])
    main, pair = binning_by(np.array([0, 0, 1, 1])), binning_by(np.array([0, 1, 1, 1]))
    terms = {(0,): np.array([[0.0], [8.0]]), (0, 1): np.array([[[0.0], [2.0]], [[4.0], [10.0]]])}
    effects = Effects(grid, np.zeros(1), terms, {(0,): (main,), (0, 1): (pair, unmerged(2))})
    pure = pure_effects(effects, Uniform().bind(grid, None))
    # Pair under 1/4, 3/4 and 1/2, 1/2: rows' means 1 and 7, columns' 3 and 8, in all 5.5; mains of x0 in bins
    # {0}, {1}, {2, 3}: -4.5, 1.5, 1.5 from the pair, and -4, -4, 4 from itself.
    assert pure.binnings[0,][0].bins.tolist() == [0, 1, 2, 2]
    np.testing.assert_allclose(pure.terms[0,][:, 0], [-8.5, -2.5, 5.5])
    np.testing.assert_allclose(pure.terms[1,][:, 0], [-2.5, 2.5])
    np.testing.assert_allclose(pure.terms[0, 1][..., 0], [[1.5, -1.5], [-0.5, 0.5]])
    np.testing.assert_allclose(pure.intercept, 5.5 + 4.0)


def test_a_model_without_terms_is_its_intercept():
    effects = Effects(grid_of_sizes([2]), np.array([3.0]), {})
    found = purify_tensors(effects, Uniform().bind(effects.grid, None), Settings())
    assert found.terms.keys == ()
    assert found.measured == {}
    assert found.terms.intercept.tolist() == [3.0]


def test_an_additive_model_is_the_sum_of_its_terms():
    rng = np.random.default_rng(0)
    effects = random_effects(rng, sizes=(3, 4))
    model = AdditiveModel(TermSet(effects))
    rows = rng.uniform(-1, 4, size=(20, 2))
    np.testing.assert_array_equal(model.score(Rows(rows)), effects.score(rows))
    assert model.raw() is model.terms
    assert model.max_order is None
    assert model.grid is effects.grid
    assert model.tables_to_purify(model.terms) is effects
    density = Uniform().bind(effects.grid, None)
    pure = model.purify(density, Settings(), quiet)
    assert pure.terms.equals(purify_tensors(effects, density, Settings()).terms)
    assert set(pure.measured) == set(pure.terms.keys)


def test_weights_of_terms_are_those_of_the_density_on_their_axes():
    rng = np.random.default_rng(0)
    effects = pair_on_own_axes(rng)
    density = Table({("x0", "x1"): rng.random((5, 4))}).bind(effects.grid, None)
    found = purify_tensors(effects, density, Settings()).terms.weights
    joint = density.table((0, 1))
    np.testing.assert_allclose(found[0, 1], TWO.pool(ONE.pool(joint, 0), 1))
    np.testing.assert_allclose(found[0,], joint.sum(axis=1))


def test_terms_without_tables_cannot_be_purified_again():
    pytest.importorskip("xgboost")
    from tests.support.simulated import deep_decomposition

    fx = deep_decomposition()
    with pytest.raises(ValueError, match=f"needs all terms of a deep ensemble, got {len(fx.terms)} selected or edited"):
        AdditiveModel(fx._function.terms).purify(fx.density, Settings(), quiet)
