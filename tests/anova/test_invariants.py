"""What must hold for every tensor: terms add up, slices are zero, twice is once, linear, order does not matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import problems
from treeanova import purify


def close(first, second, scale, tolerance=1e-9):
    assert first.terms.keys() == second.terms.keys()
    for axes, term in first.terms.items():
        np.testing.assert_allclose(term, second.terms[axes], rtol=0, atol=tolerance * scale)
    np.testing.assert_allclose(first.intercept, second.intercept, rtol=0, atol=tolerance * scale)


@given(problems(orders=(1, 4), max_bins=4))
def test_terms_add_up_and_slices_are_zero(problem):
    scores, weights = problem
    pure = purify(scores, weights, strict=True)
    scale = np.abs(scores).max()
    np.testing.assert_allclose(pure.reconstruct(), scores, rtol=0, atol=1e-12 * scale)
    for axes, term in pure.terms.items():
        table = weights.sum(axis=tuple(set(range(weights.ndim)) - set(axes))) / weights.sum()
        for position in range(len(axes)):
            masses, sums = table.sum(axis=position), (table * term).sum(axis=position)
            assert (np.abs(sums) <= 1e-10 * scale * masses + 1e-15 * scale).all()


@given(problems(orders=(1, 3)))
def test_twice_is_once(problem):
    scores, weights = problem
    pure = purify(scores, weights)
    top = tuple(range(scores.ndim))
    again = purify(pure.terms[top], weights)
    scale = np.abs(scores).max()
    np.testing.assert_allclose(again.terms[top], pure.terms[top], rtol=0, atol=1e-10 * scale)
    for axes in pure.terms.keys() - {top}:
        np.testing.assert_allclose(again.terms[axes], 0, atol=1e-10 * scale)


@given(problems(orders=(1, 3)), st.integers(0, 2**32 - 1))
def test_purification_is_linear(problem, seed):
    scores, weights = problem
    other = np.random.default_rng(seed).normal(size=scores.shape) * np.abs(scores).max()
    mixed = purify(0.3 * scores + 0.7 * other, weights)
    first, second = purify(scores, weights), purify(other, weights)
    for axes, term in mixed.terms.items():
        expected = 0.3 * first.terms[axes] + 0.7 * second.terms[axes]
        np.testing.assert_allclose(
            term, expected, rtol=0, atol=1e-9 * np.abs(scores).max() + 1e-9 * np.abs(other).max()
        )


@given(problems(orders=(2, 3)), st.integers(0, 2**32 - 1))
def test_order_of_bins_and_axes_does_not_matter(problem, seed):
    scores, weights = problem
    rng = np.random.default_rng(seed)
    axes_order = tuple(rng.permutation(scores.ndim))
    bins = [rng.permutation(size) for size in scores.shape]
    changed = purify(*(array[np.ix_(*bins)].transpose(axes_order) for array in problem))
    plain = purify(scores, weights)
    for axes, term in plain.terms.items():
        positions = [axes_order.index(axis) for axis in axes]
        moved = changed.terms[tuple(sorted(positions))]
        moved = moved.transpose(np.argsort(np.argsort(positions)))
        expected = term[np.ix_(*(bins[axis] for axis in axes))]
        np.testing.assert_allclose(moved, expected, rtol=0, atol=1e-9 * np.abs(scores).max())


@given(problems(orders=(1, 3), max_bins=4))
@pytest.mark.filterwarnings("ignore::treeanova.errors.NotPureWarning")
def test_methods_agree(problem):
    scores, weights = problem
    auto = purify(scores, weights)
    scale = np.abs(scores).max()
    close(auto, purify(scores, weights, method="cg"), scale)
    moved = purify(scores, weights, method="mass-moving", tol=1e-14, max_iterations=20_000)
    if moved.certificate.iterations < 20_000:
        close(auto, moved, scale, tolerance=1e-11 / (1 - moved.certificate.max_correlation**2 + 1e-6) + 1e-9)


@given(problems(orders=(1, 3), n_outputs=2))
def test_outputs_do_not_mix(problem):
    scores, weights = problem
    both = purify(scores, weights)
    one = purify(scores[..., 1], weights)
    for axes, term in one.terms.items():
        np.testing.assert_allclose(both.terms[axes][..., 1], term, rtol=0, atol=1e-10 * np.abs(scores).max())


@given(problems(orders=(1, 3)), st.floats(1e-200, 1e200))
def test_scale_of_weights_does_not_matter(problem, factor):
    scores, weights = problem
    close(purify(scores, weights), purify(scores, weights * factor), np.abs(scores).max())
