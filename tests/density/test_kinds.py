"""Uniform, empirical, Laplace, independent and shrinkage densities against plain counts of raw values."""

from __future__ import annotations

import collections
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeRegressor

import treeanova
from tests.support.densities import (
    MIXED_GRID,
    MIXED_KEYS,
    MIXED_SIZES,
    assert_mixed_tables,
    bind_mixed,
    boosted,
    marginal,
    mixed_cell,
    mixed_kinds,
    mixed_rows,
    mixed_shares,
    product_of_marginals,
)
from tests.support.training import fit
from treeanova import decompose
from treeanova.data.features import Feature, Schema
from treeanova.density import Empirical, Laplace, Shrinkage, Uniform, density_of
from treeanova.density.kinds import KINDS
from treeanova.density.statistics import statistics_of
from treeanova.model.axes import IntervalAxis
from treeanova.model.grid import Grid


def test_uniform_weighs_bins_alike():
    density = Uniform().bind(MIXED_GRID, None)
    assert_mixed_tables(
        density, lambda key: np.full([MIXED_SIZES[j] for j in key], 1 / math.prod(MIXED_SIZES[j] for j in key))
    )


def test_uniform_by_length_weighs_intervals_between_the_extremes_by_length():
    table = mixed_rows()
    density = bind_mixed(Uniform(measure="length"), table)
    a, b = (np.array([v for v in table[:, j] if not math.isnan(v)]) for j in (0, 1))
    of_a = np.array([0 - a.min(), 1, a.max() - 1, 0]) / (a.max() - a.min())
    of_b = np.array([0.5 - b.min(), b.max() - 0.5]) / (b.max() - b.min())
    expected = {(0,): of_a, (1,): of_b, (2,): np.full(3, 1 / 3)}
    for key in MIXED_KEYS:
        singles = [expected[j,] for j in key]
        joint = np.array([math.prod(values) for values in itertools.product(*singles)])
        np.testing.assert_allclose(density.table(key).ravel(), joint, rtol=1e-12)


def test_uniform_by_length_without_rows_keeps_to_the_bounds():
    density = Uniform(measure="length").bind(MIXED_GRID, None)
    assert density.table((0,)).tolist() == [0, 1, 0, 0]
    assert density.table((1,)).tolist() == [0.5, 0.5]  # one bound has no length: bins alike


def test_uniform_by_length_leaves_infinite_values_out():
    table = mixed_rows()
    table[0, 0], table[1, 0], table[2, 0], table[3, 0] = np.inf, -np.inf, -2.0, 3.0
    table[4:, 0] = 0.5
    np.testing.assert_allclose(bind_mixed(Uniform(measure="length"), table).table((0,)), [0.4, 0.2, 0.4, 0])


def test_lengths_between_infinite_bounds():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    x[:60, 0], x[60:120, 0] = -np.inf, np.inf
    y = np.where(np.isfinite(x[:, 0]), x[:, 0], 3) * x[:, 1]
    model = fit(lightgbm.LGBMRegressor(n_estimators=10, verbose=-1), x, y)
    fx = treeanova.decompose(model, x, density=Uniform(measure="length"))
    for term in fx.terms.values():
        assert np.isfinite(term.weights).all()
        assert np.isfinite(term.values).all()
    np.testing.assert_allclose(fx.decision_function(x), model.predict(x, raw_score=True), atol=1e-9)


def test_uniform_and_laplace_give_no_weight_to_bins_of_missing_values_without_rows():
    xgb = pytest.importorskip("xgboost")
    rows = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    missing = np.array([[np.nan, 0.0]])
    model = xgb.XGBRegressor(n_estimators=4, max_depth=2, min_child_weight=0, reg_lambda=0, n_jobs=1)
    fit(model, np.vstack([rows, missing]), [0.0, 0, 10, 11, 5])  # missing is unlike both other bins
    seen = decompose(model, rows, density="uniform").terms["x0"]
    assert seen.axes[0].labels[-1] == "missing"
    assert seen.weights.tolist() == [0.5, 0.5, 0.0]
    assert decompose(model, rows, density="laplace").terms["x0"].weights.tolist() == [0.5, 0.5, 0.0]
    third = pytest.approx([1 / 3, 1 / 3, 1 / 3])
    assert decompose(model, None, density="uniform").terms["x0"].weights == third
    with_missing = np.vstack([rows, missing])
    assert decompose(model, with_missing, density="uniform").terms["x0"].weights == third


@pytest.mark.parametrize("weighted", [False, True])
def test_empirical_counts_rows(weighted):
    table = mixed_rows()
    weights = np.random.default_rng(1).exponential(size=len(table)) if weighted else None
    if weighted:
        weights[::5] = 0
    joint = mixed_shares(table, weights)
    assert_mixed_tables(bind_mixed("empirical", table, weights), lambda key: marginal(joint, key))


def test_empirical_agrees_with_histogramdd_on_numbers():
    rng = np.random.default_rng(0)
    grid = Grid(
        Schema(tuple(Feature(name) for name in "abc")),
        tuple(IntervalAxis(name, 0, np.array([-0.5, 0.1, 0.8])) for name in "abc"),
    )
    data, weights = rng.normal(size=(500, 3)), rng.random(500)
    edges = [[-99, -0.5, 0.1, 0.8, 99]] * 3
    expected = np.histogramdd(data, edges, weights=weights)[0] / weights.sum()
    density = Empirical().bind(grid, statistics_of(data, grid, weights))
    np.testing.assert_allclose(density.table((0, 1, 2)), expected, rtol=1e-12)
    np.testing.assert_allclose(density.table((0, 2)), expected.sum(axis=1), rtol=1e-12)


def test_weights_of_rows_equal_copies_of_rows():
    table, copies = mixed_rows(), np.random.default_rng(2).integers(0, 4, 40)
    weighted, repeated = (
        bind_mixed("empirical", table, copies),
        bind_mixed("empirical", np.repeat(table, copies, axis=0)),
    )
    assert_mixed_tables(weighted, repeated.table)


def test_empirical_of_another_data_set():
    joint = mixed_shares(mixed_rows(seed=7, n_rows=25))
    assert_mixed_tables(
        bind_mixed(Empirical(X=mixed_rows(seed=7, n_rows=25)), mixed_rows()), lambda key: marginal(joint, key)
    )
    alone = Empirical(X=mixed_rows(seed=7, n_rows=25)).bind(MIXED_GRID, None)
    assert_mixed_tables(alone, lambda key: marginal(joint, key))


CORNERS = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])


def test_weights_of_x_with_a_density_that_has_its_own_rows():
    model, x = boosted()
    with pytest.raises(
        ValueError, match=r"`sample_weight` must weigh the rows that define the density, got weights of X"
    ):
        treeanova.decompose(model, x, density=Empirical(X=x), sample_weight=np.ones(len(x)))
    with pytest.raises(ValueError, match=r"`sample_weight` of Empirical must come with its `X`"):
        Empirical(sample_weight=[1.0])
    weights = np.random.default_rng(0).random(len(x))
    own = treeanova.decompose(model, density=Empirical(X=x, sample_weight=weights))
    same = treeanova.decompose(model, x, density="empirical", sample_weight=weights)
    np.testing.assert_allclose(own.terms["x0"].values, same.terms["x0"].values, atol=1e-12)


def test_weights_near_the_largest_number():
    model, x = boosted()
    weights = np.random.default_rng(0).uniform(0.5, 1, len(x))
    plain, huge = (treeanova.decompose(model, x, sample_weight=weights * f, density="empirical") for f in (1, 1.7e308))
    np.testing.assert_allclose(huge.terms["x0"].values, plain.terms["x0"].values, atol=1e-12)
    joint = np.array([[4.0, 1], [2, 3]])
    tree = fit(DecisionTreeRegressor(), CORNERS, [0, 1, 2, 5])
    small, large = (treeanova.decompose(tree, density=joint * factor) for factor in (1.0, 4e307))
    np.testing.assert_allclose(large.terms["x0"].values, small.terms["x0"].values, atol=1e-14)


@pytest.mark.parametrize("mix", [0.0, 0.3, 0.5, 1.0])
def test_laplace_mixes_uniform_and_empirical(mix):
    joint = mixed_shares(mixed_rows())
    mixed = (1 - mix) * joint + mix / joint.size
    assert_mixed_tables(bind_mixed(Laplace(mix=mix), mixed_rows()), lambda key: marginal(mixed, key))


def test_laplace_is_half_and_half_by_default():
    joint = mixed_shares(mixed_rows())
    np.testing.assert_allclose(bind_mixed("laplace", mixed_rows()).table((0, 2)), marginal(joint, (0, 2)) / 2 + 1 / 24)


def test_independent_is_the_product_of_marginals():
    weights = np.random.default_rng(1).exponential(size=40)
    joint = mixed_shares(mixed_rows(), weights)
    assert_mixed_tables(bind_mixed("independent", mixed_rows(), weights), lambda key: product_of_marginals(joint, key))


def james_stein(joint, n_rows):
    """λ = Σ Var(p) / Σ (p - product)² over the cells of all pairs, at most 1, in loops."""
    variance = distance = 0.0
    for pair in itertools.combinations(range(3), 2):
        table, independent = marginal(joint, pair), product_of_marginals(joint, pair)
        for bins in np.ndindex(table.shape):
            variance += table[bins] * (1 - table[bins]) / (n_rows - 1)
            distance += (table[bins] - independent[bins]) ** 2
    return min(1.0, variance / distance)


def test_shrinkage_by_james_and_stein():
    table = mixed_rows(n_rows=400)
    joint = mixed_shares(table)
    share = james_stein(joint, 400)
    assert 0.01 < share < 0.9
    density = bind_mixed("shrinkage", table)
    assert density.used_intensity == pytest.approx(share, rel=1e-12)
    assert_mixed_tables(
        density, lambda key: (1 - share) * marginal(joint, key) + share * product_of_marginals(joint, key)
    )


def test_shrinkage_of_weighted_rows_counts_effective_rows():
    table, weights = mixed_rows(n_rows=400), np.random.default_rng(1).exponential(size=400)
    effective = weights.sum() ** 2 / (weights**2).sum()
    expected = james_stein(mixed_shares(table, weights), effective)
    assert bind_mixed("shrinkage", table, weights).used_intensity == pytest.approx(expected, rel=1e-12)


def test_shrinkage_is_complete_where_rows_are_few():
    table = mixed_rows(n_rows=400)
    table[:, 2] = np.array(["u", "v"])[np.arange(400) % 2]
    few = table[:6]
    assert james_stein(mixed_shares(few), 6) == 1.0
    assert bind_mixed("shrinkage", few).used_intensity == 1.0


@pytest.mark.parametrize("intensity", [0.0, 0.25, 1.0])
def test_shrinkage_as_given(intensity):
    joint = mixed_shares(mixed_rows())
    density = bind_mixed(Shrinkage(intensity=intensity), mixed_rows())
    assert_mixed_tables(
        density, lambda key: (1 - intensity) * marginal(joint, key) + intensity * product_of_marginals(joint, key)
    )


@pytest.mark.parametrize("n_constants", [1, 5])
def test_features_that_never_vary_do_not_change_the_shrinkage(n_constants):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, (80, 2)).astype(float)
    y = x[:, 0] * x[:, 1]
    wide = np.column_stack([x, *np.zeros((n_constants, 80))])
    alone, with_constants = (
        treeanova.decompose(fit(DecisionTreeRegressor(random_state=0), data, y), data, density="shrinkage")
        for data in (x, wide)
    )
    assert with_constants.density.used_intensity == pytest.approx(alone.density.used_intensity, rel=1e-12)
    np.testing.assert_allclose(with_constants.terms["x0"].values, alone.terms["x0"].values, atol=1e-12)


@pytest.mark.filterwarnings("ignore::treeanova.errors.DensityWarning")
def test_shrinkage_where_all_weight_is_in_one_cell():
    model = fit(DecisionTreeRegressor(), CORNERS, [0, 1, 2, 5])
    fx = treeanova.decompose(model, CORNERS, density="shrinkage", sample_weight=[1, 1e-300, 1e-300, 1e-300])
    assert 0 <= fx.density.used_intensity <= 1
    np.testing.assert_allclose(fx.decision_function(CORNERS), [0, 1, 2, 5])


def test_a_density_is_estimated_again_from_new_rows():
    model, x = boosted()
    fx = treeanova.decompose(model, x, density="shrinkage")
    again, fresh = (fx.with_density(density, x[:40]) for density in (fx.density, "shrinkage"))
    assert again.density.used_intensity == fresh.density.used_intensity != fx.density.used_intensity


# Laws


@given(st.integers(0, 2**16), st.integers(1, 60), st.booleans())
def test_marginals_of_every_kind_are_consistent(seed, n_rows, weighted):
    table = mixed_rows(seed, n_rows)
    weights = np.random.default_rng(seed).exponential(size=n_rows) if weighted else None
    for kind in mixed_kinds(seed):
        density = bind_mixed(kind, table, None if getattr(kind, "X", None) is not None else weights)
        for key in MIXED_KEYS:
            found = density.table(key)
            assert found.shape == tuple(MIXED_SIZES[j] for j in key)
            assert found.min() >= 0
            assert found.sum() == pytest.approx(1.0, rel=1e-12)
            for position in range(len(key) if len(key) > 1 else 0):
                below = key[:position] + key[position + 1 :]
                np.testing.assert_allclose(found.sum(axis=position), density.table(below), rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", ["empirical", "independent", "shrinkage"])
def test_kinds_that_keep_the_marginals_of_single_features(kind):
    table = mixed_rows()
    counts = collections.Counter(mixed_cell(row)[0] for row in table)
    expected = [counts[bin_] / len(table) for bin_ in range(4)]
    np.testing.assert_allclose(bind_mixed(kind, table).table((0,)), expected)


# Names and options


def test_names_of_densities():
    assert {name: type(density_of(name)) for name in KINDS} == KINDS
    assert set(KINDS) >= {"uniform", "empirical", "laplace", "independent", "shrinkage", "auto"}
    given_density = Laplace(mix=0.1)
    assert density_of(given_density) is given_density


@pytest.mark.parametrize("description", ["gauss", 3, None, ["empirical"]])
def test_unknown_densities_are_refused(description):
    with pytest.raises(ValueError, match="`density` must be one of 'uniform', 'empirical'"):
        density_of(description)


@pytest.mark.parametrize("kind", [Laplace, Shrinkage, Empirical])
def test_a_class_instead_of_a_density_is_refused(kind):
    with pytest.raises(ValueError, match=r"`density` must be one of .* got <class"):
        density_of(kind)


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, "some"])
def test_options_out_of_range_are_refused(value):
    with pytest.raises(ValueError, match="`mix` must be from 0 to 1"):
        Laplace(mix=value)
    with pytest.raises(ValueError, match="`intensity` must be from 0 to 1"):
        Shrinkage(intensity=value)
    with pytest.raises(ValueError, match="`measure` must be 'bins' or 'length', got 'area'"):
        Uniform(measure="area")


def test_weights_without_rows_of_empirical_show_what_was_given():
    with pytest.raises(ValueError, match=r"must come with its `X`, got weights of shape \(2,\) and X=None"):
        Empirical(sample_weight=[1.0, 2.0])


@pytest.mark.parametrize("added", [1, 0.5])
def test_counts_are_added_to_every_cell_of_every_term(added):
    rows = np.random.default_rng(0).integers(0, 3, size=(50, 2)).astype(float)
    rows[:, 1] = np.minimum(rows[:, 1], rows[:, 0])
    model = fit(DecisionTreeRegressor(), rows, 5 * rows[:, 0] + rows[:, 0] * rows[:, 1] + rows[:, 1] ** 2)
    fx = decompose(model, rows, density=Laplace(counts=added))
    values = [np.unique(column) for column in rows.T]
    pair = np.array([[((rows == (a, b)).all(axis=1)).sum() + added for b in values[1]] for a in values[0]])
    np.testing.assert_allclose(fx.density.table((0, 1)), pair / pair.sum(), rtol=1e-14)
    main = np.array([(rows[:, 0] == a).sum() + added for a in values[0]])
    np.testing.assert_allclose(fx.terms["x0"].weights, main / main.sum(), rtol=1e-14)
    gap = np.abs(pair.sum(axis=1) / pair.sum() - main / main.sum()).sum() / 2
    assert fx.certificate.marginal_gap >= gap > 0
    assert "marginals of the same feature that differ by up to" in str(fx.certificate)
    np.testing.assert_allclose(fx.explain(rows).scores, model.predict(rows), atol=1e-12)
    assert fx.importance()["share"].sum() == pytest.approx(1.0)
    assert decompose(model, rows, density=Laplace()).certificate.marginal_gap == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"counts": 0}, "`counts` must be a number above 0, got 0"),
        ({"counts": math.inf}, "`counts` must be a number above 0, got inf"),
        ({"counts": 1, "mix": 0.1}, "`counts` must come without `mix`, got mix=0.1"),
    ],
)
def test_bad_counts_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Laplace(**options)


def test_counts_need_tables_of_all_terms():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 3))
    model = fit(DecisionTreeRegressor(max_depth=5), rows, rows.prod(axis=1))
    with pytest.raises(ValueError, match=r"must be one joint density where terms have no tables.*Laplace\(counts=1\)"):
        decompose(model, rows, density=Laplace(counts=1), tensor_order=2)


@pytest.mark.parametrize("counts", ["a", 0, -1, float("nan"), [1]])
def test_counts_must_be_a_number(counts):
    with pytest.raises(ValueError, match="`counts` must be a number above 0, got"):
        Laplace(counts=counts)


def test_effect_coding_is_least_squares_on_codes_that_sum_to_zero():
    """Columns I(x = v) − I(x = first) of three levels each and their products, fitted to unbalanced rows."""
    rng = np.random.default_rng(0)
    rows = np.vstack([np.stack(np.meshgrid(range(3), range(3)), -1).reshape(-1, 2), rng.binomial(2, 0.2, (60, 2))])
    y = rng.normal(size=(3, 3))[tuple(rows.T)]
    codes = np.vstack([-np.ones(2), np.eye(2)])
    first, second = codes[rows[:, 0]], codes[rows[:, 1]]
    products = (first[:, :, None] * second[:, None, :]).reshape(len(rows), -1)
    design = np.hstack([np.ones((len(rows), 1)), first, second, products])
    beta = np.linalg.lstsq(design, y, rcond=None)[0]
    X = rows.astype(float)
    fx = decompose(fit(DecisionTreeRegressor(random_state=0), X, y), X, density="effect-coding")
    assert fx.intercept == pytest.approx(beta[0])
    np.testing.assert_allclose(fx.terms["x0"].values[:3], codes @ beta[1:3], atol=1e-12)  # then missing values
    np.testing.assert_allclose(
        fx.terms["x0", "x1"].values[:3, :3], codes @ beta[5:].reshape(2, 2) @ codes.T, atol=1e-12
    )
