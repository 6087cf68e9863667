"""The choice between solvers is visible, and goes through the registry alone."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from tests.support.oracles import brute_force
from treeanova import purify
from treeanova.anova import solvers as registry
from treeanova.anova.solvers.base import MethodChoice, Solution, Solver
from treeanova.model import choose_method
from treeanova.testing import correlated_weights


@pytest.mark.parametrize(
    ("weights", "method", "reason"),
    [
        (np.ones(5), "direct", "one axis"),
        (np.outer([1, 2, 3], [4, 5]), "direct", "product of marginals"),
        (np.ones((4, 4, 4)), "direct", "product of marginals"),
        (correlated_weights((8, 9), 0.5), "direct", "shorter axis has 8 bins"),
        (correlated_weights((4, 4, 4), 0.5), "direct", "order 3 with at most 256 cells"),
        (correlated_weights((7, 7, 7), 0.5), "cg", "order 3 with over 256 cells"),
        pytest.param(scipy.sparse.eye_array(3001), "cg", "3,001 bins, over 3,000", marks=pytest.mark.thorough),
    ],
)
def test_choice_of_method_is_visible(weights, method, reason):
    choice = choose_method(weights)
    assert choice.method == method
    assert reason in choice.reason


@pytest.mark.parametrize(
    ("sizes", "method", "reason"),
    [
        ((7,), "direct", "one axis: its mean is all there is to move"),
        ((3000, 9000), "direct", "a pair whose shorter axis has 3,000 bins, at most 3,000"),
        ((9000, 3001), "cg", "a pair whose shorter axis has 3,001 bins, over 3,000"),
        ((8, 8, 4), "direct", "order 3 with at most 256 cells"),
        ((4, 4, 4, 5), "cg", "order 4 with over 256 cells: a factor would be too large"),
    ],
)
def test_choice_without_weights(sizes, method, reason):
    assert registry.method_for(sizes) == MethodChoice(method, reason)


@pytest.mark.parametrize(
    ("weights", "method", "name"),
    [
        (np.full((9, 9, 9), 1 / 729), "auto", "Product"),
        (np.full((9, 9, 9), 1 / 729), "direct", "Product"),
        (np.full((9, 9, 9), 1 / 729), "cg", "ConjugateGradients"),
        (correlated_weights((9, 9), 0.5), "auto", "Cholesky"),
        (correlated_weights((9, 9), 0.5), "direct", "Cholesky"),
        (correlated_weights((9, 9, 9), 0.5), "auto", "ConjugateGradients"),
        (correlated_weights((9, 9, 9), 0.5), "direct", "Elimination"),
        (correlated_weights((9, 9, 9), 0.5), "mass-moving", "MassMoving"),
        (correlated_weights((3, 3, 3), 0.5), "auto", "Elimination"),
        (np.full(3, 1 / 3), "direct", "Product"),
        (np.full(3, 1 / 3), "cg", "ConjugateGradients"),
    ],
)
def test_the_solver_of_a_method(weights, method, name):
    assert type(registry.solver_for(weights, method)).__name__ == name


def test_direct_refuses_what_it_cannot_do():
    weights = np.random.default_rng(0).random((20, 20, 20))
    with pytest.raises(ValueError, match="`method` must be 'cg' or 'mass-moving' for weights of order 3 with 8,000"):
        purify(np.ones((20, 20, 20)), weights, method="direct")


def test_unknown_methods_are_refused_with_those_there_are():
    message = "`method` must be one of 'auto', 'direct', 'cg', 'mass-moving', got 'newton'"
    with pytest.raises(ValueError, match=message):
        registry.check_method("newton")
    for method in registry.methods():
        registry.check_method(method)


class DenseLeastSquares(Solver):
    """A solver of one's own: dense least squares, for pairs of few bins."""

    method = "dense"
    name = "dense"
    remedy = "take another one"

    def __init__(self, spoil=0.0):
        self._spoil = spoil

    def can_solve(self, weights):
        return weights.ndim <= 2

    def reason(self, sizes, weights):
        return "few bins" if len(sizes) == 2 and max(sizes) < 10 else None

    def solve(self, term, weights, options):
        if weights.ndim == 1:
            return Solution([term @ weights], self.name, 1, 0.0)
        n_rows, n_columns = weights.shape
        design = np.concatenate(
            [np.kron(np.eye(n_rows), np.ones((n_columns, 1))), np.tile(np.eye(n_columns), (n_rows, 1))], 1
        )
        roots = np.sqrt(weights.ravel())
        targets = (term.reshape(len(term), -1) * roots).T
        effects = np.linalg.lstsq(design * roots[:, None], targets, rcond=None)[0].T + self._spoil
        return Solution([effects[:, n_rows:], effects[:, :n_rows]], self.name, 1, 0.0)


def test_a_new_solver_needs_one_line_of_the_registry(monkeypatch):
    weights = correlated_weights((4, 5), 0.6)
    scores = np.random.default_rng(0).normal(size=(4, 5))
    monkeypatch.setattr(registry, "SOLVERS", (DenseLeastSquares(), *registry.SOLVERS))
    assert choose_method(weights) == ("dense", "few bins")
    expected = brute_force(scores, weights)
    for method in ("auto", "dense"):
        pure = purify(scores, weights, method=method, strict=True)
        assert pure.certificate.terms[0, 1].method == "dense"
        np.testing.assert_allclose(pure.terms[0, 1], expected[0, 1], atol=1e-12)
    with pytest.raises(ValueError, match="must be one of 'auto', 'dense', 'direct', 'cg', 'mass-moving', got 'x'"):
        purify(scores, weights, method="x")
    cube = correlated_weights((3, 3, 3), 0.5)
    with pytest.raises(
        ValueError, match="must be 'direct' or 'cg' or 'mass-moving' for weights of order 3 with 27 cells"
    ):
        purify(np.ones(cube.shape), cube, method="dense")


def test_the_remedy_is_that_of_the_solver(monkeypatch):
    weights = correlated_weights((4, 5), 0.6)
    monkeypatch.setattr(registry, "SOLVERS", (*registry.SOLVERS, DenseLeastSquares(spoil=0.1)))
    with pytest.warns(UserWarning, match=r"after 1 iterations of 'dense'; .*; take another one\.$"):
        purify(np.ones((4, 5)), weights, method="dense")
    assert registry.remedy_for("mass-moving").startswith("a sweep removes little")
    for name in ("direct", "star-mesh", "elimination", "cg", "of a file written by another version"):
        assert registry.remedy_for(name).startswith("its features determine each other")
