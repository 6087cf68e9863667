"""Every solver, under every kind of weights that it can solve, against the definition in exact arithmetic."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.support.oracles import exact_interaction
from tests.support.strategies import KINDS, random_weights
from treeanova.anova.solvers import SOLVERS
from treeanova.anova.solvers.base import Options
from treeanova.anova.support import take_out

SIZES = [(4,), (3, 4), (5, 2), (2, 2, 3), (3, 2, 2), (2, 2, 2, 2)]
OPTIONS = Options("auto", tol=1e-15, max_iterations=50_000)


def weights_of(kind, sizes, rng):
    if kind == "product":
        weights = np.ones(())
        for size in sizes:
            masses = rng.random(size)
            masses[0] *= size < 4  # one bin of the longest axes is never seen
            weights = np.multiply.outer(weights, masses)
    else:
        weights = random_weights(kind, sizes, rng)
    return weights / weights.sum()


def cases():
    """All problems with all solvers that can solve them; heavy tails take sweeps too long."""
    for kind, sizes in itertools.product(["product", *KINDS], SIZES):
        rng = np.random.default_rng([*sizes, len(kind)])
        weights, term = weights_of(kind, sizes, rng), rng.normal(size=(2, *sizes))
        able = [solver for solver in SOLVERS if solver.can_solve(weights)]
        for solver in able if kind != "heavy" else able[:-1]:
            yield pytest.param(term, weights, solver, id=f"{kind}-{sizes}-{type(solver).__name__}")


@pytest.mark.parametrize(("term", "weights", "solver"), list(cases()))
def test_what_is_left_is_the_pure_interaction(term, weights, solver):
    given = weights.copy(), term.copy()
    solution = solver.solve(term, weights, OPTIONS)
    np.testing.assert_array_equal(weights, given[0])
    np.testing.assert_array_equal(term, given[1])
    left = term.copy()
    take_out(left, solution.projections)
    for output in range(2):
        exact = exact_interaction(term[output], weights)
        gap = np.abs(left[output] - exact).max()
        assert gap <= 1e-9
        assert solution.error is None or gap <= 10 * max(solution.error, sum(weights.shape) * np.finfo(float).eps)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
def test_every_solver_has_names_and_a_remedy(solver):
    assert solver.method in {"direct", "cg", "mass-moving"}
    assert solver.name
    assert solver.remedy
    assert not solver.remedy.endswith(".")  # it ends a sentence of ours


def test_every_solver_is_tried():
    assert {type(case.values[2]) for case in cases()} == set(map(type, SOLVERS))
