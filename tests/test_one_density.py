"""One density, one meaning: terms, importances, standard errors and corrections all use the density that was named."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.tree import DecisionTreeRegressor

import treeanova
from treeanova.density.kinds import Empirical, Laplace, Shrinkage, Table, Uniform

CORNERS = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])


def brute_force(fx):
    """Variance, covariance with all other terms, and mean absolute value of each term, over all cells."""
    sizes = fx.grid.sizes
    joint = fx.density.table(tuple(range(len(sizes)))).ravel()
    cells = np.indices(sizes).reshape(len(sizes), -1)
    values = np.array(
        [fx.terms[names].values[tuple(cells[fx.schema.names.index(n)] for n in names)] for names in fx.terms]
    )
    centred = values - (values @ joint)[:, None]
    variance = centred**2 @ joint
    return variance, centred * centred.sum(axis=0) @ joint - variance, np.abs(values) @ joint


def assert_importances_are_those_of_the_density(fx, atol=1e-9):
    variance, covariance, mean_abs = brute_force(fx)
    total = (variance + covariance).sum()
    table = fx.importance().set_index("term")
    for names, own, with_others, size in zip(fx.terms, variance, covariance, mean_abs, strict=True):
        row = table.loc[" × ".join(names)]
        found = [row["variance"], row["covariance"], row["share"], row["mean_abs"]]
        np.testing.assert_allclose(
            found, [own / total, with_others / total, (own + with_others) / total, size], atol=atol
        )


@functools.cache
def boosted(n_rows=300, noise=0.4):
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=(n_rows, 3)), 1)
    x[:, 1] = np.round(x[:, 0] + noise * x[:, 1], 1)
    y = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + x.prod(axis=1)
    return GradientBoostingRegressor(n_estimators=8, max_depth=3, random_state=0).fit(x, y), x


@pytest.mark.parametrize("given", ["array", "mapping", "callable"])
@pytest.mark.parametrize("with_rows", [False, True])
def test_importances_under_a_given_table(given, with_rows):
    model = DecisionTreeRegressor().fit(CORNERS, [0, 1, 2, 5])
    joint = np.array([[0.49, 0.01], [0.01, 0.49]])
    marginals = {("x0",): joint.sum(axis=1), ("x1",): joint.sum(axis=0), ("x0", "x1"): joint}
    density = {"array": joint, "mapping": {("x0", "x1"): joint}, "callable": lambda names, axes: marginals[names]}[
        given
    ]
    fx = treeanova.decompose(model, CORNERS if with_rows else None, density=density)
    assert_importances_are_those_of_the_density(fx)
    shares = dict(zip(fx.importance()["term"], fx.importance()["share"], strict=True))
    assert shares["x0 × x1"] == pytest.approx(0.0032, abs=5e-5)
    assert shares["x1"] == pytest.approx(0.397, abs=5e-4)


@pytest.mark.parametrize(
    "kind", ["empirical", "independent", "uniform", "laplace", "shrinkage", Laplace(0.03), Shrinkage(0.7)]
)
@pytest.mark.parametrize("form", ["pure", "raw"])
def test_importances_equal_brute_force(kind, form):
    model, x = boosted()
    fx = treeanova.decompose(model, x, density=kind)
    assert_importances_are_those_of_the_density(fx if form == "pure" else fx.raw)


def test_the_rows_as_a_table_give_the_same_importances():
    model, x = boosted()
    rows = treeanova.decompose(model, x, density="empirical")
    table = treeanova.decompose(model, x, density=rows.density.table((0, 1, 2)))
    for column in ("variance", "covariance", "share", "mean_abs"):
        np.testing.assert_allclose(table.importance()[column], rows.importance()[column], atol=1e-9)


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_variances_of_smooth_densities_are_those_of_their_tables(kind):
    model, x = boosted(60)
    fx = treeanova.decompose(model, x, density=kind)
    own = {names: (t.weights * t.values**2).sum() - (t.weights * t.values).sum() ** 2 for names, t in fx.terms.items()}
    table = fx.importance().set_index("term")["variance"]
    ratios = [table[" × ".join(names)] / variance for names, variance in own.items()]
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-9)


def joined(fx, names, table):
    """Values of a term over the cells of a table of several features, flat."""
    features, weights = table
    cells = np.indices(weights.shape).reshape(len(features), -1)
    return fx.terms[names].values[tuple(cells[features.index(fx.schema.names.index(name))] for name in names)]


@pytest.mark.parametrize("form", ["pure", "raw"])
@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_covariances_of_smooth_densities_are_those_of_pairs_and_of_the_joint_density(kind, form):
    model, x = boosted()
    fx = treeanova.decompose(model, x, density=kind)
    fx = fx if form == "pure" else fx.raw
    total = fx.moments.variance.sum() + fx.moments.covariance.sum()
    expected = dict.fromkeys(fx.terms, 0.0)
    for one, other in itertools.permutations(fx.terms, 2):
        features = tuple(sorted({fx.schema.names.index(name) for name in (*one, *other)}))
        table = features, fx.density.table(features)
        first, second = joined(fx, one, table), joined(fx, other, table)
        weights = table[1].ravel()
        expected[one] += weights @ (first * second) - (weights @ first) * (weights @ second)
    found = dict(zip(fx.importance()["term"], fx.importance()["covariance"] * total, strict=True))
    for names, covariance in expected.items():
        assert found[" × ".join(names)] == pytest.approx(covariance, abs=0.02 * total)


def independent_model(n_rows):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n_rows, 3))
    y = x.prod(axis=1) + x[:, 0]
    return GradientBoostingRegressor(n_estimators=20, max_depth=3, random_state=0).fit(x, y), x


def test_no_correction_where_auto_finds_features_independent():
    model, x = independent_model(500)
    deep = treeanova.decompose(model, x, tensor_order=2)
    exact = treeanova.decompose(model, x, density="independent", tensor_order=3)
    assert deep.density.is_product
    assert deep.certificate.higher.is_exact
    np.testing.assert_allclose(
        deep.term_values(x, ("x0", "x1", "x2")), exact.term_values(x, ("x0", "x1", "x2")), atol=1e-12
    )


def test_high_orders_of_auto_are_corrected_under_auto_not_under_the_rows():
    model, x = boosted(400, noise=0.7)
    dense = treeanova.decompose(model, x, tensor_order=3)
    deep, rows = (treeanova.decompose(model, x, tensor_order=2, density=kind) for kind in ("auto", "empirical"))
    spread = np.std(model.predict(x))
    for names in dense.terms:
        value, exact = deep.term_values(x, names), dense.term_values(x, names)
        assert np.std(value - exact) < 0.01 * spread
    assert np.std(rows.term_values(x, "x0") - dense.term_values(x, "x0")) > 0.1 * spread


def test_a_dependent_table_without_rows_is_used_for_high_orders():
    model, x = boosted(2000)
    joint = np.asarray(treeanova.decompose(model, x, density="empirical").density.table((0, 1, 2)))
    dense = treeanova.decompose(model, density=joint, tensor_order=3)
    deep = treeanova.decompose(model, density=joint, tensor_order=2)
    for names in dense.terms:
        gap = deep.term_values(x, names) - dense.term_values(x, names)
        assert np.std(gap) < 0.03 * np.std(model.predict(x))


def test_the_default_settings_on_iris():
    X, y = load_iris(return_X_y=True)
    model = RandomForestClassifier(n_estimators=30, random_state=0).fit(X, y)
    fx = treeanova.decompose(model, X)
    np.testing.assert_allclose(fx.decision_function(X), model.predict_proba(X), atol=1e-12)
    assert fx.certificate.tables_met
    assert max(np.abs(term.values).max() for term in fx.terms.values()) < 1


def test_four_nearly_equal_features():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1)) + 0.05 * rng.normal(size=(200, 4))
    model = GradientBoostingRegressor(n_estimators=10, max_depth=4, random_state=0).fit(x, np.sin(x.sum(axis=1)))
    fx = treeanova.decompose(model, x)
    np.testing.assert_allclose(fx.decision_function(x), model.predict(x), atol=1e-9)
    assert fx.certificate.tables_met
    assert max(np.abs(term.values).max() for term in fx.terms.values()) < 10


# Shrinkage


@pytest.mark.parametrize("n_constants", [1, 5])
def test_features_that_never_vary_do_not_change_the_shrinkage(n_constants):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, (80, 2)).astype(float)
    y = x[:, 0] * x[:, 1]
    wide = np.column_stack([x, *np.zeros((n_constants, 80))])
    alone, beside = (
        treeanova.decompose(DecisionTreeRegressor(random_state=0).fit(data, y), data, density="shrinkage")
        for data in (x, wide)
    )
    assert beside.density.used_intensity == pytest.approx(alone.density.used_intensity, rel=1e-12)
    np.testing.assert_allclose(beside.terms["x0"].values, alone.terms["x0"].values, atol=1e-12)


def test_shrinkage_where_all_weight_is_in_one_cell():
    model = DecisionTreeRegressor().fit(CORNERS, [0, 1, 2, 5])
    fx = treeanova.decompose(model, CORNERS, density="shrinkage", sample_weight=[1, 1e-300, 1e-300, 1e-300])
    assert 0 <= fx.density.used_intensity <= 1
    np.testing.assert_allclose(fx.decision_function(CORNERS), [0, 1, 2, 5])


def test_a_density_is_estimated_anew_from_new_rows():
    model, x = boosted()
    fx = treeanova.decompose(model, x, density="shrinkage")
    again, fresh = (fx.with_density(density, x[:40]) for density in (fx.density, "shrinkage"))
    assert again.density.used_intensity == fresh.density.used_intensity != fx.density.used_intensity


# Other rows


def test_standard_errors_of_a_density_with_rows_of_its_own():
    model, x = boosted()
    by_x = treeanova.decompose(model, x, density="empirical").standard_errors(20)
    by_data = treeanova.decompose(model, density=Empirical(X=x)).standard_errors(20)
    for names, errors in by_x.items():
        np.testing.assert_allclose(by_data[names], errors, atol=1e-12)
    assert max(errors.max() for errors in by_data.values()) > 0.01


def test_weights_of_rows_beside_a_density_with_rows_of_its_own():
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


# Extremes


def test_weights_near_the_largest_number():
    model, x = boosted()
    weights = np.random.default_rng(0).uniform(0.5, 1, len(x))
    plain, huge = (treeanova.decompose(model, x, sample_weight=weights * f, density="empirical") for f in (1, 1.7e308))
    np.testing.assert_allclose(huge.terms["x0"].values, plain.terms["x0"].values, atol=1e-12)
    joint = np.array([[4.0, 1], [2, 3]])
    tree = DecisionTreeRegressor().fit(CORNERS, [0, 1, 2, 5])
    small, large = (treeanova.decompose(tree, density=joint * factor) for factor in (1.0, 4e307))
    np.testing.assert_allclose(large.terms["x0"].values, small.terms["x0"].values, atol=1e-14)


def test_lengths_between_infinite_bounds():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    x[:60, 0], x[60:120, 0] = -np.inf, np.inf
    y = np.where(np.isfinite(x[:, 0]), x[:, 0], 3) * x[:, 1]
    model = lightgbm.LGBMRegressor(n_estimators=10, verbose=-1).fit(x, y)
    fx = treeanova.decompose(model, x, density=Uniform(measure="length"))
    for term in fx.terms.values():
        assert np.isfinite(term.weights).all()
        assert np.isfinite(term.values).all()
    np.testing.assert_allclose(fx.decision_function(x), model.predict(x, raw_score=True), atol=1e-9)


# Tables


def test_tables_that_contradict_each_other_are_refused():
    model, x = boosted()
    sizes = treeanova.decompose(model, x).grid.sizes
    rng = np.random.default_rng(0)
    names = list(itertools.combinations(["x0", "x1", "x2"], 2))
    tables = {pair: rng.random([sizes[int(name[1])] for name in pair]) ** 8 for pair in names}
    with pytest.raises(ValueError, match=r"`density` must give the same marginal of x\d in all tables, got"):
        treeanova.decompose(model, density=tables)


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
    assert_importances_are_those_of_the_density(fx)


def test_tables_that_raking_cannot_join_are_refused_with_a_remedy():
    model, x = boosted()
    table = treeanova.decompose(model, x, density="empirical").density.table
    pairs = {("x0", "x1"): table((0, 1)), ("x1", "x2"): table((1, 2)), ("x0", "x2"): table((0, 2))}
    with pytest.raises(ValueError, match=r"that raking can join, got a gap of .*; give their joint table instead"):
        treeanova.decompose(model, density=pairs)


# Purity at rows


def binary_model():
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(400, 5)) + rng.normal(size=(400, 1)) > 0).astype(float)
    y = x[:, 0] * x[:, 1] * x[:, 2] + x[:, 3] * x[:, 4] * x[:, 0] + x.prod(axis=1)
    return GradientBoostingRegressor(n_estimators=10, max_depth=5, random_state=0).fit(x, y), x


def test_purity_at_rows_is_exact_where_rows_are_the_density():
    model, x = binary_model()
    higher = treeanova.decompose(model, x, density="empirical", tensor_order=2).certificate.higher
    assert higher.n_measured == 15  # the 12 largest of 16, and the 6 largest of each order
    assert higher.measured < 1e-3  # all bins are kept, so that the correction is exact there
    assert "(the 15 largest of 16 terms)" in higher.in_short


def test_purity_at_rows_covers_every_order():
    model, x = binary_model()
    fx = treeanova.decompose(model, x, density="laplace", tensor_order=2)
    joint = fx.density.table(tuple(range(5)))
    cells = np.indices(joint.shape).reshape(5, -1)
    corners = fx.grid.encoded(cells.T.astype(np.int32))
    worst = 0.0
    for names in fx.higher_terms:
        values = (fx.term_values(corners, names) * joint.ravel()).reshape(joint.shape)
        size = np.sqrt((fx.term_values(corners, names) ** 2) @ joint.ravel())
        axes = [int(name[1:]) for name in names]
        for axis in axes:
            gone = tuple(a for a in range(5) if a not in axes or a == axis)
            means = values.sum(axis=gone) / joint.sum(axis=gone)
            worst = max(worst, np.sqrt((joint.sum(axis=gone) * means**2).sum()) / size)
    assert worst <= 2 * fx.certificate.higher.measured + 0.02
    assert not fx.certificate.met
