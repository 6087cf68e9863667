"""One density, one meaning: terms, importances and corrections all use the density that was named."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.tree import DecisionTreeRegressor

import treeanova
from tests.support.densities import boosted
from tests.support.simulated import boosted_on_few_bins
from tests.support.training import fit
from treeanova.density import Auto, Independent, Laplace, Shrinkage

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


@pytest.mark.parametrize("given", ["array", "mapping", "callable"])
@pytest.mark.parametrize("with_rows", [False, True])
def test_importances_under_a_given_table(given, with_rows):
    model = fit(DecisionTreeRegressor(), CORNERS, [0, 1, 2, 5])
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


def test_importances_under_tables_of_pairs():
    model, x = boosted()
    empirical = treeanova.decompose(model, x, density="empirical").density
    pairs = {("x0", "x1"): empirical.table((0, 1)), ("x1", "x2"): empirical.table((1, 2))}
    assert_importances_are_those_of_the_density(treeanova.decompose(model, density=pairs))


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
    total = fx._moments.variance.sum() + fx._moments.covariance.sum()
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
    return fit(GradientBoostingRegressor(n_estimators=20, max_depth=3, random_state=0), x, y), x


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
    near, far = (
        max(np.std(fx.term_values(x, names) - dense.term_values(x, names)) for names in dense.terms)
        for fx in (deep, rows)
    )
    assert far > 0.05 * np.std(model.predict(x))
    assert near < 0.2 * far


def test_a_dependent_table_without_rows_is_used_for_high_orders():
    model, x = boosted_on_few_bins()  # no more than the coarse cells of the correction have
    joint = np.asarray(treeanova.decompose(model, x, density="empirical").density.table((0, 1, 2)))
    dense = treeanova.decompose(model, density=joint, tensor_order=3)
    deep = treeanova.decompose(model, density=joint, tensor_order=2)
    for names in dense.terms:
        gap = deep.term_values(x, names) - dense.term_values(x, names)
        assert np.std(gap) < 1e-3 * np.std(model.predict(x))


def test_the_default_settings_on_iris():
    X, y = load_iris(return_X_y=True)
    model = fit(RandomForestClassifier(n_estimators=30, random_state=0), X, y)
    fx = treeanova.decompose(model, X)
    np.testing.assert_allclose(fx.decision_function(X), model.predict_proba(X), atol=1e-12)
    assert fx.certificate.tables_are_pure
    assert max(np.abs(term.values).max() for term in fx.terms.values()) < 1


def test_four_nearly_equal_features():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 1)) + 0.05 * rng.normal(size=(150, 4))
    model = fit(GradientBoostingRegressor(n_estimators=5, max_depth=4, random_state=0), x, np.sin(x.sum(axis=1)))
    fx = treeanova.decompose(model, x)
    np.testing.assert_allclose(fx.decision_function(x), model.predict(x), atol=1e-9)
    assert fx.certificate.tables_are_pure
    assert max(np.abs(term.values).max() for term in fx.terms.values()) < 10


def test_auto_is_the_default_density():
    model, data = boosted()
    fx = treeanova.decompose(model, data, n_jobs=1)
    assert isinstance(fx.density, Auto)
    assert {names for names in fx.terms if len(names) == 2} <= set(fx.density.choices)
    independent = fx.with_density(Independent())
    assert np.abs(independent.terms["x0"].values - fx.terms["x0"].values).max() > 1e-3


# Purity at rows


def binary_model():
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(400, 5)) + rng.normal(size=(400, 1)) > 0).astype(float)
    y = x[:, 0] * x[:, 1] * x[:, 2] + x[:, 3] * x[:, 4] * x[:, 0] + x.prod(axis=1)
    return fit(GradientBoostingRegressor(n_estimators=10, max_depth=5, random_state=0), x, y), x


def test_purity_at_rows_is_exact_where_rows_are_the_density():
    model, x = binary_model()
    fx = treeanova.decompose(model, x, density="empirical", tensor_order=2)
    higher, n_terms = fx.certificate.higher, sum(term.order > 2 for term in fx.terms.values())
    assert 12 <= higher.n_measured <= n_terms  # the 12 largest, and the 6 largest of each order
    assert higher.measured < 1e-3  # all bins are kept, so that the correction is exact there
    some = f"the {higher.n_measured} largest of {n_terms} terms"
    assert (some if higher.n_measured < n_terms else "all terms") in higher.in_short


def test_purity_at_rows_covers_every_order():
    model, x = binary_model()
    fx = treeanova.decompose(model, x, density="laplace", tensor_order=2)
    joint = fx.density.table(tuple(range(5)))
    cells = np.indices(joint.shape).reshape(5, -1)
    corners = fx.grid.encoded(cells.T.astype(np.int32))
    worst = 0.0
    for names in (names for names, term in fx.terms.items() if not term.has_table):
        values = (fx.term_values(corners, names) * joint.ravel()).reshape(joint.shape)
        size = np.sqrt((fx.term_values(corners, names) ** 2) @ joint.ravel())
        axes = [int(name[1:]) for name in names]
        for axis in axes:
            gone = tuple(a for a in range(5) if a not in axes or a == axis)
            means = values.sum(axis=gone) / joint.sum(axis=gone)
            worst = max(worst, np.sqrt((joint.sum(axis=gone) * means**2).sum()) / size)
    assert worst <= 2 * fx.certificate.higher.measured + 0.02
    assert not fx.certificate.is_pure
