"""Densities against plain counting of raw values, and the laws that every kind must keep."""

from __future__ import annotations

import collections
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeanova import decompose
from treeanova.data.features import Feature, Labels, Schema
from treeanova.density.kinds import (
    KINDS,
    Empirical,
    Independent,
    Laplace,
    Shrinkage,
    Table,
    Uniform,
    density_of,
    statistics_of,
)
from treeanova.model.axes import CategoryAxis, IntervalAxis
from treeanova.model.grid import Grid

# Three features of 4 bins (the last for missing), 2 (missing with the first) and 3 (unseen and missing with "w").
GRID = Grid(
    Schema((Feature("a"), Feature("b"), Feature("k", Labels(("u", "v", "w"))))),
    (
        IntervalAxis("a", 3, np.array([0.0, 1.0])),
        IntervalAxis("b", 0, np.array([0.5])),
        CategoryAxis("k", 2, ("u", "v", "w"), 2),
    ),
)
SIZES = (4, 2, 3)
KEYS = [key for order in (1, 2, 3) for key in itertools.combinations(range(3), order)]


def rows(seed=0, n_rows=40):
    rng = np.random.default_rng(seed)
    table = np.empty((n_rows, 3), dtype=object)
    common = rng.normal(size=n_rows)
    table[:, 0] = np.where(rng.random(n_rows) < 0.2, np.nan, common.round(1))
    table[:, 1] = np.where(rng.random(n_rows) < 0.1, np.nan, common + 0.5 * rng.normal(size=n_rows))
    table[:, 2] = rng.choice(np.array(["u", "v", "w", "new", None], dtype=object), n_rows)
    return table


def cell(row):
    """Bins of a raw row by hand."""
    a, b, k = row
    return (
        3 if math.isnan(a) else int(a > 0) + int(a > 1),
        0 if math.isnan(b) else int(b > 0.5),
        {"u": 0, "v": 1}.get(k, 2),
    )


def shares(table, weights=None):
    """The joint table of all three features by plain counting, of sum 1."""
    joint = np.zeros(SIZES)
    weights = np.ones(len(table)) if weights is None else weights
    for row, weight in zip(table, weights, strict=True):
        joint[cell(row)] += weight
    return joint / joint.sum()


def marginal(joint, key):
    return joint.sum(axis=tuple(set(range(joint.ndim)) - set(key)))


def product(joint, key):
    """Product of the marginals of one feature each, cell by cell."""
    singles = [marginal(joint, (j,)) for j in key]
    table = np.empty([len(single) for single in singles])
    for bins in np.ndindex(table.shape):
        table[bins] = math.prod(single[b] for single, b in zip(singles, bins, strict=True))
    return table


def bound(density, table, weights=None):
    return density_of(density).bind(GRID, statistics_of(table, GRID, weights))


def assert_tables(density, expected):
    for key in KEYS:
        np.testing.assert_allclose(density.table(key), expected(key), rtol=1e-12, atol=1e-15)


# Kinds


def test_uniform_weighs_bins_alike():
    density = Uniform().bind(GRID, None)
    assert_tables(density, lambda key: np.full([SIZES[j] for j in key], 1 / math.prod(SIZES[j] for j in key)))


def test_uniform_by_length_weighs_intervals_between_the_extremes_by_length():
    table = rows()
    density = bound(Uniform(measure="length"), table)
    a, b = (np.array([v for v in table[:, j] if not math.isnan(v)]) for j in (0, 1))
    of_a = np.array([0 - a.min(), 1, a.max() - 1, 0]) / (a.max() - a.min())
    of_b = np.array([0.5 - b.min(), b.max() - 0.5]) / (b.max() - b.min())
    expected = {(0,): of_a, (1,): of_b, (2,): np.full(3, 1 / 3)}
    for key in KEYS:
        singles = [expected[j,] for j in key]
        joint = np.array([math.prod(values) for values in itertools.product(*singles)])
        np.testing.assert_allclose(density.table(key).ravel(), joint, rtol=1e-12)


def test_uniform_by_length_without_rows_keeps_to_the_bounds():
    density = Uniform(measure="length").bind(GRID, None)
    assert density.table((0,)).tolist() == [0, 1, 0, 0]
    assert density.table((1,)).tolist() == [0.5, 0.5]  # one bound has no length: bins alike


def test_uniform_by_length_leaves_infinite_values_out():
    table = rows()
    table[0, 0], table[1, 0], table[2, 0], table[3, 0] = np.inf, -np.inf, -2.0, 3.0
    table[4:, 0] = 0.5
    np.testing.assert_allclose(bound(Uniform(measure="length"), table).table((0,)), [0.4, 0.2, 0.4, 0])


@pytest.mark.parametrize("weighted", [False, True])
def test_empirical_counts_rows(weighted):
    table = rows()
    weights = np.random.default_rng(1).exponential(size=len(table)) if weighted else None
    if weighted:
        weights[::5] = 0
    joint = shares(table, weights)
    assert_tables(bound("empirical", table, weights), lambda key: marginal(joint, key))


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


def test_weights_of_rows_are_as_good_as_copies():
    table, copies = rows(), np.random.default_rng(2).integers(0, 4, 40)
    weighted, repeated = bound("empirical", table, copies), bound("empirical", np.repeat(table, copies, axis=0))
    assert_tables(weighted, repeated.table)


def test_rows_without_weight_are_no_rows():
    table, weights = rows(), np.random.default_rng(2).integers(0, 2, 40)
    table[:, 0][weights == 0] = 1e6
    assert statistics_of(table, GRID, weights).n_rows == weights.sum()
    by_length = [bound(Uniform(measure="length"), *given) for given in ((table, weights), (table[weights > 0],))]
    assert_tables(by_length[0], by_length[1].table)


def test_empirical_of_another_data_set():
    joint = shares(rows(seed=7, n_rows=25))
    assert_tables(bound(Empirical(X=rows(seed=7, n_rows=25)), rows()), lambda key: marginal(joint, key))
    alone = Empirical(X=rows(seed=7, n_rows=25)).bind(GRID, None)
    assert_tables(alone, lambda key: marginal(joint, key))


@pytest.mark.parametrize("mix", [0.0, 0.3, 0.5, 1.0])
def test_laplace_mixes_uniform_and_empirical(mix):
    joint = shares(rows())
    mixed = (1 - mix) * joint + mix / joint.size
    assert_tables(bound(Laplace(mix=mix), rows()), lambda key: marginal(mixed, key))


def test_laplace_is_half_and_half_by_default():
    joint = shares(rows())
    np.testing.assert_allclose(bound("laplace", rows()).table((0, 2)), marginal(joint, (0, 2)) / 2 + 1 / 24)


def test_independent_is_the_product_of_marginals():
    weights = np.random.default_rng(1).exponential(size=40)
    joint = shares(rows(), weights)
    assert_tables(bound("independent", rows(), weights), lambda key: product(joint, key))


def james_stein(joint, n_rows):
    """λ = Σ Var(p) / Σ (p - product)² over the cells of all pairs, at most 1, in loops."""
    variance = distance = 0.0
    for pair in itertools.combinations(range(3), 2):
        table, independent = marginal(joint, pair), product(joint, pair)
        for bins in np.ndindex(table.shape):
            variance += table[bins] * (1 - table[bins]) / (n_rows - 1)
            distance += (table[bins] - independent[bins]) ** 2
    return min(1.0, variance / distance)


def test_shrinkage_by_james_and_stein():
    table = rows(n_rows=400)
    joint = shares(table)
    share = james_stein(joint, 400)
    assert 0.01 < share < 0.9
    density = bound("shrinkage", table)
    assert density.used_intensity == pytest.approx(share, rel=1e-12)
    assert_tables(density, lambda key: (1 - share) * marginal(joint, key) + share * product(joint, key))


def test_shrinkage_of_weighted_rows_counts_effective_rows():
    table, weights = rows(n_rows=400), np.random.default_rng(1).exponential(size=400)
    effective = weights.sum() ** 2 / (weights**2).sum()
    expected = james_stein(shares(table, weights), effective)
    assert bound("shrinkage", table, weights).used_intensity == pytest.approx(expected, rel=1e-12)


def test_shrinkage_goes_all_the_way_where_rows_are_few():
    table = rows(n_rows=400)
    table[:, 2] = np.array(["u", "v"])[np.arange(400) % 2]
    few = table[:6]
    assert james_stein(shares(few), 6) == 1.0
    assert bound("shrinkage", few).used_intensity == 1.0


@pytest.mark.parametrize("intensity", [0.0, 0.25, 1.0])
def test_shrinkage_as_given(intensity):
    joint = shares(rows())
    density = bound(Shrinkage(intensity=intensity), rows())
    assert_tables(density, lambda key: (1 - intensity) * marginal(joint, key) + intensity * product(joint, key))


# Tables


def random_joint(seed=3):
    return np.random.default_rng(seed).random(SIZES)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_table_may_name_its_features_in_any_order(order):
    joint = random_joint()
    names = tuple("abk"[j] for j in order)
    density = density_of({names: joint.transpose(order)}).bind(GRID, None)
    assert_tables(density, lambda key: marginal(joint, key) / joint.sum())


def test_tables_of_several_sets_of_features():
    pair, single = random_joint().sum(axis=1), np.array([1, 3])
    density = Table({("k", "a"): pair.T.tolist(), "b": single}).bind(GRID, None)
    np.testing.assert_allclose(density.table((0, 2)), pair / pair.sum())
    np.testing.assert_allclose(density.table((2,)), pair.sum(axis=0) / pair.sum())
    np.testing.assert_allclose(density.table((1,)), [0.25, 0.75])
    np.testing.assert_allclose(density.table((0, 1)), np.outer(pair.sum(axis=1) / pair.sum(), [0.25, 0.75]))
    with pytest.raises(ValueError, match="must give weights for b, got tables of a, k; add them to the table"):
        Table({("k", "a"): pair.T.tolist()}).bind(GRID, None).table((0, 1))


def test_a_callable_is_asked_with_names_and_axes():
    joint, asked = random_joint(), []

    def weights(names, axes):
        asked.append((names, tuple(axis.size for axis in axes)))
        return marginal(joint, tuple("abk".index(name) for name in names))

    density = density_of(weights).bind(GRID, None)
    assert_tables(density, lambda key: marginal(joint, key) / joint.sum())
    assert asked == [(tuple("abk"[j] for j in key), tuple(SIZES[j] for j in key)) for key in KEYS]


@pytest.mark.parametrize(
    "array", [np.ones((4, 3)), np.ones((3, 4)), -np.ones((4, 2)), np.zeros((4, 2)), np.full((4, 2), np.nan)]
)
@pytest.mark.parametrize("form", ["mapping", "callable"])
def test_tables_that_do_not_fit_are_refused(array, form):
    weights = (lambda names, axes: array) if form == "callable" else {("a", "b"): array}
    with pytest.raises(ValueError, match=r"`density` must give a, b non-negative weights of shape \(4, 2\)"):
        density_of(weights).bind(GRID, None).table((0, 1))


@pytest.mark.parametrize(("names", "shape"), [(("a", "b"), (4,)), (("a", "b"), (4, 2, 3)), (("a", "b", "k"), (4, 2))])
def test_a_table_with_another_number_of_axes_is_refused(names, shape):
    with pytest.raises(ValueError, match="`density` must give"):
        Table({names: np.ones(shape)}).bind(GRID, None).table((0, 1))


def test_a_table_reaches_the_decomposition():
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    data = rng.integers(0, 2, (60, 2)).astype(float)
    model = ensemble.GradientBoostingRegressor(n_estimators=5, random_state=0).fit(
        data, data[:, 0] * 2 + data[:, 0] * data[:, 1]
    )
    weights = {("x1", "x0"): [[0.9, 0.05], [0.04, 0.01]]}
    fx = decompose(model, density=weights, n_jobs=1)
    np.testing.assert_allclose(fx.terms["x0", "x1"].weights, [[0.9, 0.04], [0.05, 0.01]])
    corners = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    assert fx.intercept == pytest.approx(np.dot([0.9, 0.04, 0.05, 0.01], model.predict(corners)))


# Laws


def all_kinds(seed):
    joint = np.random.default_rng(seed).random(SIZES)
    return [
        Uniform(), Uniform(measure="length"), Empirical(), Laplace(mix=0.2), Independent(), Shrinkage(),
        Shrinkage(intensity=0.4), Table({("k", "a", "b"): joint.transpose(2, 0, 1)}), Empirical(X=rows(seed + 1)),
        Table(lambda names, axes: marginal(joint, tuple("abk".index(name) for name in names))),
    ]  # fmt: skip


@given(st.integers(0, 2**16), st.integers(1, 60), st.booleans())
def test_marginals_of_every_kind_are_consistent(seed, n_rows, weighted):
    table = rows(seed, n_rows)
    weights = np.random.default_rng(seed).exponential(size=n_rows) if weighted else None
    for kind in all_kinds(seed):
        density = bound(kind, table, None if getattr(kind, "X", None) is not None else weights)
        for key in KEYS:
            found = density.table(key)
            assert found.shape == tuple(SIZES[j] for j in key)
            assert found.min() >= 0
            assert found.sum() == pytest.approx(1.0, rel=1e-12)
            for position in range(len(key) if len(key) > 1 else 0):
                below = key[:position] + key[position + 1 :]
                np.testing.assert_allclose(found.sum(axis=position), density.table(below), rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", ["empirical", "independent", "shrinkage"])
def test_kinds_that_keep_the_marginals_of_single_features(kind):
    table = rows()
    counts = collections.Counter(cell(row)[0] for row in table)
    expected = [counts[bin_] / len(table) for bin_ in range(4)]
    np.testing.assert_allclose(bound(kind, table).table((0,)), expected)


@pytest.mark.parametrize("kind", range(10))
def test_points_that_stand_for_a_density_have_its_tables(kind):
    density = bound(all_kinds(0)[kind], rows(seed=5, n_rows=60))
    codes, weights = density.points(20_000, np.random.default_rng(0))
    assert weights.sum() == pytest.approx(1.0)
    for key in KEYS:
        cells = np.ravel_multi_index(tuple(codes[:, j] for j in key), [SIZES[j] for j in key])
        found = np.bincount(cells, weights=weights, minlength=int(np.prod([SIZES[j] for j in key])))
        np.testing.assert_allclose(found, density.table(key).ravel(), atol=0.015)


# Likelihood


def test_log_likelihood_of_held_out_rows():
    table, held_out = rows(n_rows=400), rows(seed=9, n_rows=50)
    density = bound("laplace", table)
    mixed = shares(table) / 2 + 1 / 48
    pairs = list(itertools.combinations(range(3), 2))
    logs = [[math.log(marginal(mixed, key)[tuple(cell(row)[j] for j in key)]) for row in held_out] for key in pairs]
    assert density.log_likelihood(held_out) == pytest.approx(np.mean(logs))
    assert density.log_likelihood(held_out, features=["k", "a"]) == pytest.approx(np.mean(logs[1]))
    everything = [math.log(mixed[cell(row)]) for row in held_out]
    assert density.log_likelihood(held_out, features=["a", "b", "k"]) == pytest.approx(np.mean(everything))


def test_log_likelihood_of_a_cell_without_mass_is_minus_infinity():
    table = rows(n_rows=400)
    inside = np.array([row for row in table if row[2] == "u"], dtype=object)
    assert bound("empirical", inside).log_likelihood(table) == -math.inf
    assert math.isfinite(bound("empirical", table).log_likelihood(inside))


def test_log_likelihood_of_a_single_feature():
    grid = Grid(Schema((Feature("a"),)), (IntervalAxis("a", 0, np.array([0.0])),))
    density = Empirical().bind(grid, statistics_of([[-1.0], [1.0], [2.0], [3.0]], grid))
    assert density.log_likelihood([[-5.0], [5.0]]) == pytest.approx((math.log(0.25) + math.log(0.75)) / 2)


def test_the_true_dependence_is_likelier_than_none():
    table = rows(n_rows=2000)
    held_out = rows(seed=11, n_rows=500)
    likelihoods = [bound(kind, table).log_likelihood(held_out, ["a", "b"]) for kind in ("shrinkage", "independent")]
    assert likelihoods[0] > likelihoods[1] + 0.05


# Errors


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
def test_a_class_in_place_of_a_density_is_refused(kind):
    with pytest.raises((ValueError, TypeError), match="`density` must be"):
        density_of(kind)


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan])
def test_options_out_of_range_are_refused(value):
    with pytest.raises(ValueError, match="`mix` must be from 0 to 1"):
        Laplace(mix=value)
    with pytest.raises(ValueError, match="`intensity` must be from 0 to 1"):
        Shrinkage(intensity=value)
    with pytest.raises(ValueError, match="`measure` must be 'bins' or 'length', got 'area'"):
        Uniform(measure="area")


@pytest.mark.parametrize("kind", ["empirical", "laplace", "independent", "shrinkage"])
def test_densities_of_rows_need_rows(kind):
    with pytest.raises(ValueError, match=f"`X` must be given for the density '{kind}', got None"):
        density_of(kind).bind(GRID, None)
    with pytest.raises(ValueError, match=f"'{kind}' must be bound to rows first"):
        KINDS[kind](grid=GRID).table((0, 1))


@pytest.mark.parametrize("density", [Uniform(), Table({"a": [1.0, 1, 1, 1]})])
def test_densities_need_a_grid(density):
    with pytest.raises(ValueError, match="must be bound to a grid first"):
        density.table((0,))


def test_likelihood_needs_a_grid():
    with pytest.raises(ValueError, match="'empirical' must be bound to a grid first"):
        Empirical().log_likelihood(rows())


def test_rows_and_their_weights_are_checked():
    with pytest.raises(ValueError, match="`X` must have at least one row, got 0 rows"):
        statistics_of(rows()[:0], GRID)
    with pytest.raises(ValueError, match=r"`sample_weight` must have one entry per row, 40, got shape \(3,\)"):
        statistics_of(rows(), GRID, [1, 2, 3])
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="`sample_weight` must be finite, not negative and not all zero"):
            statistics_of(rows(), GRID, [bad, *[1.0] * 39])
    with pytest.raises(ValueError, match="`sample_weight` must be finite, not negative and not all zero"):
        statistics_of(rows(), GRID, np.zeros(40))


def test_uniform_and_laplace_leave_out_bins_of_missing_values_that_no_row_is_in():
    xgb = pytest.importorskip("xgboost")
    rows = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    missing = np.array([[np.nan, 0.0]])
    model = xgb.XGBRegressor(n_estimators=4, max_depth=2, min_child_weight=0, reg_lambda=0, n_jobs=1)
    model.fit(np.vstack([rows, missing]), [0.0, 0, 10, 11, 5])  # missing is unlike both other bins
    seen = decompose(model, rows, density="uniform").terms["x0"]
    assert seen.axes[0].labels[-1] == "missing"
    assert seen.weights.tolist() == [0.5, 0.5, 0.0]
    assert decompose(model, rows, density="laplace").terms["x0"].weights.tolist() == [0.5, 0.5, 0.0]
    third = pytest.approx([1 / 3, 1 / 3, 1 / 3])
    assert decompose(model, None, density="uniform").terms["x0"].weights == third
    with_missing = np.vstack([rows, missing])
    assert decompose(model, with_missing, density="uniform").terms["x0"].weights == third
