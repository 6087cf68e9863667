"""`purify`: known answers, shapes, and what is said where the tolerance is missed."""

from __future__ import annotations

import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse

import treeanova
from treeanova import purify
from treeanova.errors import NotPureError, NotPureWarning
from treeanova.testing import FIGURE_1, correlated_weights

METHODS = ("auto", "direct", "cg", "mass-moving")
ONES = np.ones((2, 2))


@pytest.mark.parametrize("method", METHODS)
def test_and_or_are_xor_plus_mains(method):
    conjunction = purify([[0, 0], [0, 1]], ONES, method=method)
    disjunction = purify([[0, 1], [1, 1]], ONES, method=method)
    xor = np.array([[0.25, -0.25], [-0.25, 0.25]])
    np.testing.assert_allclose(conjunction.terms[0, 1], xor, atol=1e-15)
    np.testing.assert_allclose(disjunction.terms[0, 1], -xor, atol=1e-15)
    for pure, intercept in ((conjunction, 0.25), (disjunction, 0.75)):
        np.testing.assert_allclose(pure.terms[0,], [-0.25, 0.25], atol=1e-15)
        np.testing.assert_allclose(pure.terms[1,], [-0.25, 0.25], atol=1e-15)
        assert pure.intercept == pytest.approx(intercept, abs=1e-15)


@pytest.mark.parametrize("name", FIGURE_1)
def test_four_forms_of_figure_1_have_one_canonical_form(name):
    intercept, first, second, table = FIGURE_1[name]
    pure = purify(table, ONES)
    np.testing.assert_allclose(pure.terms[0, 1], [[-0.25, 0.25], [0.25, -0.25]], atol=1e-15)
    np.testing.assert_allclose(pure.terms[0,] + first, 0, atol=1e-15)
    np.testing.assert_allclose(pure.terms[1,] + second, 0, atol=1e-15)
    assert pure.intercept + intercept == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("tie", [1.0, 1e-1, 1e-3, 1e-6, 0.0])
@pytest.mark.parametrize("method", ["direct", "cg"])
def test_weak_ties_keep_their_answer(tie, method):
    pure = purify([[1, 0], [0, 0]], [[1, tie], [tie, 1]], method=method)
    np.testing.assert_allclose(pure.terms[0,], [0.25, -0.25], atol=1e-8)
    np.testing.assert_allclose(pure.terms[1,], [0.25, -0.25], atol=1e-8)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.7, 0.95])
def test_product_of_correlated_normals_has_the_known_main_effects(correlation):
    x = np.linspace(-6, 6, 241)
    weights = np.exp(-(x[:, None] ** 2 + x**2 - 2 * correlation * np.outer(x, x)) / (2 * (1 - correlation**2)))
    pure = purify(np.outer(x, x), weights)
    main = correlation / (1 + correlation**2) * (x**2 - 1)
    inner = np.abs(x) < 3
    assert pure.intercept == pytest.approx(correlation, abs=1e-6)
    np.testing.assert_allclose(pure.terms[0,][inner], main[inner], atol=1e-4)
    both = np.ix_(inner, inner)
    interaction = np.outer(x, x) - correlation - main[:, None] - main
    np.testing.assert_allclose(pure.terms[0, 1][both], interaction[both], atol=2e-4)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_log_of_a_product_has_no_interaction(share):
    x = (np.arange(20) + 0.5) / 20
    scores = (1 - share) * np.log(np.outer(x, x)) + share * np.outer(x, x)
    interaction = purify(scores, np.ones((20, 20))).terms[0, 1]
    np.testing.assert_allclose(interaction, share * np.outer(x - 0.5, x - 0.5), atol=1e-14)


def test_every_subset_of_axes_is_there():
    scores = np.random.default_rng(0).normal(size=(2, 3, 2, 2))
    pure = purify(scores, np.ones((2, 3, 2, 2)))
    assert len(pure.terms) == 15
    assert list(pure.terms)[:5] == [(0,), (1,), (2,), (3,), (0, 1)]
    assert pure.terms[0, 1, 3].shape == (2, 3, 2)
    np.testing.assert_allclose(pure.reconstruct(), scores, atol=1e-14)


def test_terms_and_their_sum_have_outputs_last():
    scores = np.random.default_rng(0).normal(size=(4, 3, 2))
    pure = purify(scores, np.ones((4, 3)))
    assert [values.shape for values in pure.terms.values()] == [(4, 2), (3, 2), (4, 3, 2)]
    np.testing.assert_allclose(pure.reconstruct(), scores, atol=1e-14)
    assert repr(pure).startswith("Purified(3 terms of 4 × 3 cells, ")


def test_results_survive_pickles():
    pure = purify(np.random.default_rng(0).normal(size=(4, 3)), np.ones((4, 3)), method="mass-moving")
    same = pickle.loads(pickle.dumps(pure))
    assert same.certificate == pure.certificate
    assert (same.intercept, same.trace.tolist()) == (pure.intercept, pure.trace.tolist())
    for axes, values in pure.terms.items():
        np.testing.assert_array_equal(same.terms[axes], values)
        assert not same.terms[axes].flags.writeable


def test_outputs_are_independent():
    rng = np.random.default_rng(0)
    scores, weights = rng.normal(size=(5, 4, 3)) * [1, 1e6, 1e-6], rng.random((5, 4))
    together = purify(scores, weights)
    for output in range(3):
        alone = purify(scores[..., output], weights)
        for axes, term in alone.terms.items():
            np.testing.assert_allclose(
                together.terms[axes][..., output], term, rtol=1e-9, atol=1e-12 * np.abs(term).max()
            )
        assert together.intercept[output] == pytest.approx(alone.intercept)
    assert isinstance(alone.intercept, float)
    assert together.intercept.shape == (3,)


@pytest.mark.parametrize("method", ["auto", "cg"])
def test_sparse_weights_equal_dense_ones(method):
    weights = scipy.sparse.random_array((60, 50), density=0.05, rng=np.random.default_rng(0)).tocsr()
    scores = np.random.default_rng(1).normal(size=(60, 50))
    sparse, dense = purify(scores, weights, method=method), purify(scores, weights.toarray())
    for axes, term in dense.terms.items():
        np.testing.assert_allclose(sparse.terms[axes], term, atol=1e-9)


def test_results_cannot_be_changed():
    pure = purify([[1.0, 2.0]], [[1, 1]])
    with pytest.raises(ValueError, match="read-only"):
        pure.terms[0, 1][0, 0] = 5
    with pytest.raises(TypeError, match="does not support item assignment"):
        pure.terms[0, 1] = 5


def test_too_few_sweeps_warn_or_raise():
    weights, scores = correlated_weights((20, 20), 0.99), np.random.default_rng(0).normal(size=(20, 20))
    with pytest.warns(NotPureWarning, match='relative to the largest score.*use method="auto"') as caught:
        pure = purify(scores, weights, method="mass-moving", max_iterations=5)
    assert caught[0].filename == __file__  # the warning points to the caller
    assert not pure.certificate.is_pure
    assert str(pure.certificate).startswith("orders 1 and 2 NOT pure: slice means up to ")
    with pytest.raises(NotPureError, match=r"its maximal correlation is 0\.\d+; a sweep removes little"):
        purify(scores, weights, method="mass-moving", max_iterations=5, strict=True)
    with pytest.warns(NotPureWarning, match="its features determine each other almost exactly"):
        purify(scores, weights, method="cg", max_iterations=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        purify(scores, weights, strict=True)


def test_repr_tells_shape_and_purity():
    assert repr(purify(np.ones((2, 3)), np.ones((2, 3)))).startswith("Purified(3 terms of 2 × 3 cells, impurity ")


def test_pairs_need_little_memory():
    weights = correlated_weights((400, 400), 0.9)
    scores = np.random.default_rng(0).normal(size=weights.shape)
    treeanova.purify(scores, weights)
    tracemalloc.start()
    treeanova.purify(scores, weights)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= 6 * scores.nbytes
