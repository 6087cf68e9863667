"""One sweep of means under weights that are a product of marginals."""

from __future__ import annotations

import numpy as np
import pytest

from treeanova.anova.solvers.base import Options
from treeanova.anova.solvers.iterative import Product
from treeanova.testing import correlated_weights


def test_projections_are_means_taken_in_turn():
    rows, columns = np.array([0.25, 0.75]), np.array([0.5, 0.3, 0.2])
    term = np.random.default_rng(0).normal(size=(2, 2, 3))
    solution = Product().solve(term, np.outer(rows, columns), Options())
    first = np.einsum("kij,i->kj", term, rows)
    np.testing.assert_allclose(solution.projections[0], first, atol=1e-15)
    np.testing.assert_allclose(
        solution.projections[1], np.einsum("kij,j->ki", term - first[:, None], columns), atol=1e-15
    )
    assert (solution.method, solution.iterations, solution.correlation, solution.error) == ("direct", 1, 0.0, 0.0)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_it_is_for_products_only(order):
    solver = Product()
    even, uneven = np.full((3,) * order, 3.0**-order), correlated_weights((3,) * order, 0.1)
    assert solver.can_solve(even)
    assert not solver.can_solve(uneven)
    assert solver.reason(even.shape, even) is not None
    assert solver.reason(uneven.shape, uneven) is None
    assert solver.reason(even.shape, None) is None
