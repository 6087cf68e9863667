from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse

import treeanova
from treeanova import NotPureError, NotPureWarning, choose_method, purify
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


def test_theorem_1_uniform_weights_need_one_sweep():
    trace = purify(np.random.default_rng(0).normal(size=(30, 20)), np.ones((30, 20)), method="mass-moving").trace
    assert trace[0] > 0.1
    assert (trace[2:] < 1e-14).all()


def test_theorem_2_fails_where_features_are_correlated():
    weights = [[1, 0.01], [0.01, 1]]
    pure = purify([[1, 0], [0, 0]], weights, method="mass-moving", tol=1e-10)
    promised = np.log2(pure.trace[0] / 1e-10)
    assert len(pure.trace) - 1 > 10 * promised
    ratio = pure.trace[201] / pure.trace[199]  # one double pass
    assert ratio == pytest.approx(pure.certificate.max_correlation**2, rel=1e-6)


def test_trace_is_the_unpurified_mass():
    rng = np.random.default_rng(1)
    scores, weights = rng.normal(size=(4, 3)), rng.random((4, 3))
    trace = purify(scores, weights, method="mass-moving").trace
    share = weights / weights.sum()
    rows, columns = share.sum(axis=1), share.sum(axis=0)
    first = np.abs((share * scores).sum(axis=1)).sum() + np.abs((share * scores).sum(axis=0)).sum()
    assert trace[0] == pytest.approx(first)
    moved = scores - (share * scores).sum(axis=0) / columns
    assert trace[1] == pytest.approx(np.abs((share * moved).sum(axis=1)).sum())
    assert rows.sum() == pytest.approx(1)


def test_trace_has_a_column_per_output():
    scores = np.random.default_rng(0).normal(size=(4, 3, 2))
    assert purify(scores, np.ones((4, 3)), method="mass-moving").trace.shape[1] == 2
    assert purify(scores, np.ones((4, 3))).trace is None


def test_sweeps_stop_at_the_tolerance():
    weights, scores = correlated_weights((20, 20), 0.95), np.random.default_rng(0).normal(size=(20, 20))
    loose, tight = (purify(scores, weights, method="mass-moving", tol=tol) for tol in (1e-3, 1e-9))
    assert loose.certificate.iterations < tight.certificate.iterations
    assert tight.certificate.impurity <= 1e-9 < loose.certificate.impurity <= 1e-3


def test_every_subset_of_axes_is_there():
    pure = purify(np.random.default_rng(0).normal(size=(2, 3, 2, 2)), np.ones((2, 3, 2, 2)))
    assert len(pure.terms) == 15
    assert pure.terms[0, 1, 3].shape == (2, 3, 2)
    np.testing.assert_allclose(pure.reconstruct().shape, (2, 3, 2, 2))


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


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.tolist(),
        np.asfortranarray,
        lambda a: a.astype(np.float32),
        lambda a: a.astype(np.int16),
        lambda a: np.repeat(a, 2, axis=0)[::2],
        lambda a: a.astype(">f8"),
    ],
)
def test_any_real_array_will_do_and_none_is_changed(change):
    rng = np.random.default_rng(0)
    scores, weights = rng.integers(-5, 5, (4, 3)), rng.integers(1, 5, (4, 3))
    given = change(scores), change(weights)
    before = [np.array(array, copy=True) for array in given]
    for array in given:
        if isinstance(array, np.ndarray):
            array.setflags(write=False)
    pure = purify(*given)
    expected = purify(scores.astype(float), weights.astype(float))
    for axes, term in expected.terms.items():
        np.testing.assert_allclose(pure.terms[axes], term, atol=1e-14)
        assert pure.terms[axes].dtype == np.float64
    for array, old in zip(given, before, strict=True):
        np.testing.assert_array_equal(array, old)


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
    with pytest.raises(TypeError):
        pure.terms[0, 1] = 5


@pytest.mark.parametrize(
    ("scores", "weights", "options", "error", "message"),
    [
        (np.ones((2, 3)), np.ones((3, 2)), {}, ValueError, r"`scores` must have the shape of `weights`, \(3, 2\)"),
        (np.ones((2, 2, 2, 2)), ONES, {}, ValueError, "`scores` must have the shape"),
        (np.ones((2, 2, 0)), ONES, {}, ValueError, "`scores` must have the shape"),
        (ONES, [[1, -1], [1, 1]], {}, ValueError, "`weights` must not be negative, got -1"),
        (ONES, [[1, np.nan], [1, 1]], {}, ValueError, "`weights` must be finite"),
        (ONES, [[1, np.inf], [1, 1]], {}, ValueError, "`weights` must be finite"),
        (ONES, np.zeros((2, 2)), {}, ValueError, "`weights` must have some mass"),
        (np.ones((0, 2)), np.ones((0, 2)), {}, ValueError, "`weights` must have at least one bin"),
        ([[1, np.nan], [1, 1]], ONES, {}, ValueError, "`scores` must be finite"),
        ([[1, np.inf], [1, 1]], ONES, {}, ValueError, "`scores` must be finite"),
        ([[1, 1e305], [1, 1]], ONES, {}, ValueError, "`scores` must be finite and below 1e"),
        (1.0, 1.0, {}, ValueError, "`weights` must have at least one axis"),
        (ONES, ONES, {"method": "newton"}, ValueError, "`method` must be one of 'auto'"),
        (ONES, ONES, {"tol": 0}, ValueError, "`tol` must be a positive number, got 0"),
        (ONES, ONES, {"tol": -1e-3}, ValueError, "`tol` must be a positive number"),
        (ONES, ONES, {"tol": np.nan}, ValueError, "`tol` must be a positive number"),
        (ONES, ONES, {"tol": "small"}, ValueError, "`tol` must be a positive number"),
        (ONES, ONES, {"max_iterations": 0}, ValueError, "`max_iterations` must be a positive integer"),
        (ONES * 1j, ONES, {}, TypeError, "`scores` must hold real numbers, got dtype complex128"),
        (ONES, ONES * 1j, {}, TypeError, "`weights` must hold real numbers"),
        (np.array([["a", "b"]]), np.ones((1, 2)), {}, TypeError, "`scores` must hold real numbers"),
        (ONES.astype(object), ONES, {}, TypeError, "`scores` must hold real numbers, got dtype object"),
        ([[1, 2], [3]], ONES, {}, ValueError, "`scores` must be a rectangular array"),
        (np.ma.masked_equal(ONES, 0), ONES, {}, TypeError, "`scores` must not be a masked array"),
    ],
)
def test_bad_input_gets_one_clear_error(scores, weights, options, error, message):
    with pytest.raises(error, match=message):
        purify(scores, weights, **options)


def test_direct_refuses_what_it_cannot_do():
    weights = np.random.default_rng(0).random((20, 20, 20))
    with pytest.raises(ValueError, match="`method` must be 'cg' or 'mass-moving' for weights of order 3 with 8,000"):
        purify(np.ones((20, 20, 20)), weights, method="direct")


def test_too_few_sweeps_warn_or_raise():
    weights, scores = correlated_weights((20, 20), 0.99), np.random.default_rng(0).normal(size=(20, 20))
    with pytest.warns(NotPureWarning, match='relative to the largest score.*use method="auto"'):
        pure = purify(scores, weights, method="mass-moving", max_iterations=5)
    assert not pure.certificate.met
    assert str(pure.certificate).startswith("orders 1 and 2 NOT pure: slice means up to ")
    with pytest.raises(NotPureError, match=r"its maximal correlation is 0\.\d+; a sweep removes little"):
        purify(scores, weights, method="mass-moving", max_iterations=5, strict=True)
    with pytest.warns(NotPureWarning, match="its features determine each other almost exactly"):
        purify(scores, weights, method="cg", max_iterations=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        purify(scores, weights, strict=True)


def test_certificate_tells_what_the_weights_leave_open():
    weights = np.array([[1.0, 1, 0, 0], [1, 2, 0, 0], [0, 0, 3, 0], [0, 0, 0, 0]])
    certificate = purify(np.arange(16.0).reshape(4, 4), weights).certificate
    pair = certificate.terms[0, 1]
    assert pair.n_components == certificate.n_components == 2
    assert pair.empty_share == pytest.approx(11 / 16)
    assert certificate.terms[0,].empty_share == pytest.approx(1 / 4)
    assert certificate.reconstruction_error < 1e-15
    assert certificate.met
    assert "2   68.8%" in str(certificate)


@pytest.mark.parametrize("size", [5, 30, 120])
def test_maximal_correlation_is_the_second_singular_value(size):
    weights = correlated_weights((size, size + 3), 0.8)
    scaled = weights / np.sqrt(np.outer(weights.sum(axis=1), weights.sum(axis=0)))
    expected = np.linalg.svd(scaled, compute_uv=False)[1]
    assert purify(np.ones(weights.shape), weights).certificate.max_correlation == pytest.approx(expected, rel=1e-6)


def test_repr_tells_shape_and_purity():
    assert repr(purify(np.ones((2, 3)), np.ones((2, 3)))).startswith("Purified(3 terms of 2 × 3 cells, impurity ")


@pytest.mark.parametrize(
    ("weights", "method", "reason"),
    [
        (np.ones(5), "direct", "one axis"),
        (np.outer([1, 2, 3], [4, 5]), "direct", "product of marginals"),
        (np.ones((4, 4, 4)), "direct", "product of marginals"),
        (correlated_weights((8, 9), 0.5), "direct", "shorter axis has 8 bins"),
        (correlated_weights((4, 4, 4), 0.5), "direct", "order 3 with at most 256 cells"),
        (correlated_weights((7, 7, 7), 0.5), "cg", "order 3 with over 256 cells"),
        (scipy.sparse.eye_array(3001), "cg", "3,001 bins, over 3,000"),
    ],
)
def test_choice_of_method_is_visible(weights, method, reason):
    choice = choose_method(weights)
    assert choice.method == method
    assert reason in choice.reason


def test_pairs_need_little_memory():
    import tracemalloc

    weights = correlated_weights((400, 400), 0.9)
    scores = np.random.default_rng(0).normal(size=weights.shape)
    treeanova.purify(scores, weights)
    tracemalloc.start()
    treeanova.purify(scores, weights)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= 6 * scores.nbytes


def test_many_bins_by_conjugate_gradients():
    rng = np.random.default_rng(0)
    weights = scipy.sparse.random_array((3200, 3100), density=0.002, rng=rng)
    scores = rng.normal(size=(3200, 3100))
    pure = purify(scores, weights, strict=True)
    assert pure.certificate.terms[0, 1].method == "cg"
    np.testing.assert_allclose(pure.reconstruct(), scores, atol=1e-11)
