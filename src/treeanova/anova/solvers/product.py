"""Weights that are a product of marginals: one sweep of means is exact, at any order."""

from __future__ import annotations

from collections.abc import Sequence

from treeanova.anova.slices import marginals, sweep_product
from treeanova.anova.solvers.base import Options, Solution, Solver
from treeanova.anova.support import is_product
from treeanova.core.arrays import Floats


class Product(Solver):
    """One sweep of means under the marginals."""

    method = name = "direct"

    def can_solve(self, weights: Floats) -> bool:
        """Whether the weights are a product of marginals."""
        return is_product(weights)

    def reason(self, sizes: Sequence[int], weights: Floats | None) -> str | None:
        """One axis, or a product of marginals."""
        if len(sizes) == 1:
            return "one axis: its mean is all there is to move"
        if weights is not None and is_product(weights):
            return "the weights are a product of marginals: one sweep of means is exact"
        return None

    def solve(self, term: Floats, weights: Floats, options: Options) -> Solution:  # noqa: ARG002 - needs none
        """The means along each axis in turn."""
        faces = sweep_product(term.copy(), marginals(weights))
        return Solution(faces, self.name, iterations=1, correlation=0.0, error=0.0)
