"""What cannot be purified is refused with one clear message."""

from __future__ import annotations

import numpy as np
import pytest

from treeanova import purify

ONES = np.ones((2, 2))


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


@pytest.mark.parametrize(
    ("scores", "weights", "options", "error", "message"),
    [
        (np.ones((2, 3)), np.ones((3, 2)), {}, ValueError, r"`scores` must have the shape of `weights`, \(3, 2\)"),
        (np.ones((2, 2, 2, 2)), ONES, {}, ValueError, "`scores` must have the shape"),
        (np.ones((2, 2, 0)), ONES, {}, ValueError, "`scores` must have the shape"),
        (ONES, [[1, -1], [1, 1]], {}, ValueError, "`weights` must not be negative, got -1"),
        (ONES, [[1, np.nan], [1, 1]], {}, ValueError, "`weights` must be finite, got nan"),
        (ONES, [[1, np.inf], [1, 1]], {}, ValueError, "`weights` must be finite, got inf"),
        (ONES, np.zeros((2, 2)), {}, ValueError, "`weights` must have some mass"),
        (np.ones((0, 2)), np.ones((0, 2)), {}, ValueError, "`weights` must have at least one bin"),
        ([[1, np.nan], [1, 1]], ONES, {}, ValueError, "`scores` must be finite and below 1e.300, got nan"),
        ([[1, -np.inf], [1, 1]], ONES, {}, ValueError, "`scores` must be finite and below 1e.300, got -inf"),
        ([[1, 1e305], [1, 1]], ONES, {}, ValueError, "`scores` must be finite and below 1e.300, got 1e.305"),
        (1.0, 1.0, {}, ValueError, "`weights` must have at least one axis, got the number 1.0"),
        (ONES, ONES, {"method": "newton"}, ValueError, "`method` must be one of 'auto'"),
        (ONES, ONES, {"tol": 0}, ValueError, "`tol` must be a positive number, got 0"),
        (ONES, ONES, {"tol": -1e-3}, ValueError, "`tol` must be a positive number"),
        (ONES, ONES, {"tol": np.nan}, ValueError, "`tol` must be a positive number"),
        (ONES, ONES, {"tol": "small"}, ValueError, "`tol` must be a positive number"),
        (ONES, ONES, {"max_iterations": 0}, ValueError, "`max_iterations` must be a positive integer, got 0"),
        (ONES * 1j, ONES, {}, TypeError, "`scores` must hold real numbers, got dtype complex128"),
        (ONES, ONES * 1j, {}, TypeError, "`weights` must hold real numbers"),
        (np.array([["a", "b"]]), np.ones((1, 2)), {}, TypeError, "`scores` must hold real numbers"),
        (ONES.astype(object), ONES, {}, TypeError, "`scores` must hold real numbers, got dtype object"),
        ([[1, 2], [3]], ONES, {}, ValueError, "`scores` must be a rectangular array"),
        (
            np.ma.masked_equal(ONES, 1),
            ONES,
            {},
            TypeError,
            "`scores` must not be a masked array, got one with 4 masked",
        ),
    ],
)
def test_bad_input_gets_one_clear_error(scores, weights, options, error, message):
    with pytest.raises(error, match=message):
        purify(scores, weights, **options)


@pytest.mark.parametrize(("tie", "n_components"), [(1e-289, 1), (1e-291, 2)])
def test_weights_far_below_the_largest_count_as_zero(tie, n_components):
    for scale in (1.0, 1e5):
        pure = purify([[1, 0], [0, 0]], scale * np.array([[1, tie], [tie, 1]]))
        assert pure.certificate.n_components == n_components
