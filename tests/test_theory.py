"""The closed forms of docs/theory.md by quadrature of the definitions: F = x1 x2, normal features of correlation ρ."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

PAGE = (pathlib.Path(__file__).resolve().parents[1] / "docs" / "theory.md").read_text(encoding="utf-8")
NODES, MASSES = np.polynomial.hermite_e.hermegauss(40)
MASSES = MASSES / MASSES.sum()
X = np.array([-1.7, -0.4, 0.0, 0.9, 2.3])
RHOS = pytest.mark.parametrize("rho", [-0.6, 0.0, 0.3, 0.9])


def given(x, rho):
    """Nodes of X2 given X1 = x, one row per x."""
    return rho * np.asarray(x)[..., None] + np.sqrt(1 - rho**2) * NODES


def expectation(function, rho):
    """E[function(X1, X2)]."""
    return MASSES @ (function(NODES[:, None], given(NODES, rho)) @ MASSES)


def product(first, second):
    return first * second


def alone(values, at_nodes):
    """A function of x1, centred by its mean over X1."""
    return values - MASSES @ at_nodes


def pure_main(x, rho):
    return rho * (x**2 - 1) / (1 + rho**2)


def pure_pair(first, second, rho):
    return first * second - rho - pure_main(first, rho) - pure_main(second, rho)


@RHOS
def test_partial_dependence_is_zero(rho):
    values = product(X[:, None], NODES) @ MASSES
    np.testing.assert_allclose(alone(values, product(NODES[:, None], NODES) @ MASSES), 0, atol=1e-12)


@RHOS
def test_conditional_mean(rho):
    values, at_nodes = (product(x[:, None], given(x, rho)) @ MASSES for x in (X, NODES))
    np.testing.assert_allclose(alone(values, at_nodes), rho * (X**2 - 1), atol=1e-10)


@RHOS
def test_accumulated_local_effects(rho):
    """The integral of the mean slope of x1, by a central difference of F and Gauss-Legendre from 0 to x."""
    points, weights = np.polynomial.legendre.leggauss(8)

    def accumulated(x):
        z = x[:, None] / 2 * (points + 1)
        others = given(z, rho)
        slopes = (product(z[..., None] + 0.5, others) - product(z[..., None] - 0.5, others)) @ MASSES
        return (slopes * weights).sum(axis=1) * x / 2

    np.testing.assert_allclose(alone(accumulated(X), accumulated(NODES)), rho * (X**2 - 1) / 2, atol=1e-10)


@RHOS
def test_pure_terms_are_pure_and_add_up(rho):
    """Purity and the sum determine the terms: the interaction has mean zero given either feature."""
    np.testing.assert_allclose(pure_pair(X[:, None], given(X, rho), rho) @ MASSES, 0, atol=1e-10)
    assert MASSES @ pure_main(NODES, rho) == pytest.approx(0, abs=1e-10)
    variance = expectation(lambda a, b: pure_pair(a, b, rho) ** 2, rho)
    assert variance == pytest.approx((1 - rho**2) ** 2 / (1 + rho**2))
    assert expectation(lambda a, b: (a * b - rho) ** 2, rho) == pytest.approx(1 + rho**2)


@RHOS
def test_shapley_values(rho):
    """From the games themselves: F averaged over background rows, or given the known features."""
    first, second = np.meshgrid(X, X, indexing="ij")
    mean = expectation(product, rho)
    set_first, set_second = (product(x[..., None], NODES) @ MASSES for x in (first, second))
    interventional = ((set_first - mean) + (product(first, second) - set_second)) / 2
    np.testing.assert_allclose(interventional, (first * second - rho) / 2, atol=1e-10)
    known_first, known_second = (product(x[..., None], given(x, rho)) @ MASSES for x in (first, second))
    conditional = ((known_first - mean) + (product(first, second) - known_second)) / 2
    expected = (first * second - rho) / 2 + rho * (first**2 - second**2) / 2
    np.testing.assert_allclose(conditional, expected, atol=1e-10)
    shared = pure_main(first, rho) + pure_pair(first, second, rho) / 2
    expected = (first * second - rho) / 2 + rho * (first**2 - second**2) / (2 * (1 + rho**2))
    np.testing.assert_allclose(shared, expected, atol=1e-10)


@RHOS
def test_shapley_effects_and_the_h_statistic(rho):
    variance = expectation(lambda a, b: (a * b - rho) ** 2, rho)
    known = MASSES @ (product(NODES[:, None], given(NODES, rho)) @ MASSES - rho) ** 2  # Var E[F | X1]
    assert (known + (variance - known)) / 2 == pytest.approx((1 + rho**2) / 2)
    of_second = MASSES @ (rho * NODES) ** 2  # F = x1: Var E[F | X2]; given X1 nothing is left
    assert (of_second + 0) / 2 == pytest.approx(rho**2 / 2)
    both = expectation(lambda a, b: (a * b - rho) ** 2, rho)
    apart = expectation(lambda a, b: (a * b - rho - 0 * a - 0 * b) ** 2, rho)  # partial dependences are zero
    assert apart / both == pytest.approx(1)
    share = (1 - rho**2) ** 2 / (1 + rho**2) ** 2
    assert expectation(lambda a, b: pure_pair(a, b, rho) ** 2, rho) / variance == pytest.approx(share)


def test_the_library_agrees_on_a_fine_grid():
    import treeanova

    rho, x = 0.6, np.linspace(-5, 5, 201)
    weights = np.exp(-(x[:, None] ** 2 + x**2 - 2 * rho * np.outer(x, x)) / (2 * (1 - rho**2)))
    pure = treeanova.purify(np.outer(x, x), weights)
    inner = np.abs(x) < 2
    np.testing.assert_allclose(pure.terms[0,][inner], pure_main(x, rho)[inner], atol=2e-3)


def test_the_page_has_these_formulas():
    rows = ("| 0 |", "| ρ (x1² − 1) / 2 |", "| ρ (x1² − 1) / (1 + ρ²) |", "| ρ (x1² − 1) |")
    assert [PAGE.index(row) for row in rows] == sorted(PAGE.index(row) for row in rows)
