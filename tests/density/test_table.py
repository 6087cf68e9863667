"""Tables given as arrays, mappings and callables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.support.densities import MIXED_GRID, MIXED_KEYS, MIXED_SIZES, assert_mixed_tables, marginal
from tests.support.training import fit
from treeanova import decompose
from treeanova.density import Table, density_of


def random_joint(seed=3):
    return np.random.default_rng(seed).random(MIXED_SIZES)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_table_may_name_its_features_in_any_order(order):
    joint = random_joint()
    names = tuple("abk"[j] for j in order)
    density = density_of({names: joint.transpose(order)}).bind(MIXED_GRID, None)
    assert_mixed_tables(density, lambda key: marginal(joint, key) / joint.sum())


def test_tables_of_several_sets_of_features():
    pair, single = random_joint().sum(axis=1), np.array([1, 3])
    density = Table({("k", "a"): pair.T.tolist(), "b": single}).bind(MIXED_GRID, None)
    np.testing.assert_allclose(density.table((0, 2)), pair / pair.sum())
    np.testing.assert_allclose(density.table((2,)), pair.sum(axis=0) / pair.sum())
    np.testing.assert_allclose(density.table((1,)), [0.25, 0.75])
    np.testing.assert_allclose(density.table((0, 1)), np.outer(pair.sum(axis=1) / pair.sum(), [0.25, 0.75]))
    with pytest.raises(ValueError, match="must give weights for b, got tables of a, k; add them to the table"):
        Table({("k", "a"): pair.T.tolist()}).bind(MIXED_GRID, None).table((0, 1))


def test_a_callable_is_asked_with_names_and_axes():
    joint, asked = random_joint(), []

    def weights(names, axes):
        asked.append((names, tuple(axis.size for axis in axes)))
        return marginal(joint, tuple("abk".index(name) for name in names))

    density = density_of(weights).bind(MIXED_GRID, None)
    assert_mixed_tables(density, lambda key: marginal(joint, key) / joint.sum())
    assert asked == [(tuple("abk"[j] for j in key), tuple(MIXED_SIZES[j] for j in key)) for key in MIXED_KEYS]


@pytest.mark.parametrize(
    "array", [np.ones((4, 3)), np.ones((3, 4)), -np.ones((4, 2)), np.zeros((4, 2)), np.full((4, 2), np.nan)]
)
@pytest.mark.parametrize("form", ["mapping", "callable"])
def test_tables_that_do_not_fit_are_refused(array, form):
    weights = (lambda names, axes: array) if form == "callable" else {("a", "b"): array}
    with pytest.raises(ValueError, match=r"`density` must give 'a', 'b' non-negative weights of shape \(4, 2\)"):
        density_of(weights).bind(MIXED_GRID, None).table((0, 1))


@pytest.mark.parametrize("array", [np.full((4, 2), "a"), np.full((4, 2), 1j)])
def test_weights_that_are_no_real_numbers_are_refused(array):
    with pytest.raises(ValueError, match="`density` must give weights that are real numbers, got"):
        density_of({("a", "b"): array}).bind(MIXED_GRID, None).table((0, 1))


@pytest.mark.parametrize(("names", "shape"), [(("a", "b"), (4,)), (("a", "b"), (4, 2, 3)), (("a", "b", "k"), (4, 2))])
def test_a_table_with_another_number_of_axes_is_refused(names, shape):
    with pytest.raises(ValueError, match="`density` must give"):
        Table({names: np.ones(shape)}).bind(MIXED_GRID, None).table((0, 1))


def test_a_table_reaches_the_decomposition():
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    data = rng.integers(0, 2, (60, 2)).astype(float)
    model = fit(
        ensemble.GradientBoostingRegressor(n_estimators=5, random_state=0),
        data,
        data[:, 0] * 2 + data[:, 0] * data[:, 1],
    )
    weights = {("x1", "x0"): [[0.9, 0.05], [0.04, 0.01]]}
    fx = decompose(model, density=weights, n_jobs=1)
    np.testing.assert_allclose(fx.terms["x0", "x1"].weights, [[0.9, 0.04], [0.05, 0.01]])
    corners = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    assert fx.intercept == pytest.approx(np.dot([0.9, 0.04, 0.05, 0.01], model.predict(corners)))
