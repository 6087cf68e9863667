"""Solvers find the projections to take out of a term to make it pure; `SOLVERS` lists them in the order of choice.

To add one, derive a class from `base.Solver` and add an instance to `SOLVERS`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from treeanova.anova.solvers.base import AUTO, MethodChoice, Options, Solution, Solver
from treeanova.anova.solvers.direct import Cholesky, Elimination
from treeanova.anova.solvers.iterative import ConjugateGradients, MassMoving, Product
from treeanova.anova.support import is_product, largest, safe_inverse, take_out
from treeanova.core.arrays import Floats

_GRADIENTS = ConjugateGradients()

SOLVERS: tuple[Solver, ...] = (Product(), Elimination(), Cholesky(iterative=_GRADIENTS), _GRADIENTS, MassMoving())
"""The first one that applies is taken: by its `reason` for "auto", else of those with the method asked for."""


def methods() -> list[str]:  # the names that users may give
    return list(dict.fromkeys([AUTO, *(solver.method for solver in SOLVERS)]))


def check_method(method: object) -> None:  # ValueError unless users may give it
    if method not in methods():
        names = ", ".join(map(repr, methods()))
        raise ValueError(f"`method` must be one of {names}, got {method!r}; leave it out to let treeanova choose.")


def method_for(sizes: Sequence[int], weights: Floats | None = None) -> MethodChoice:
    """Return the method that "auto" takes for this shape, and why; weights may be unknown."""
    solver, reason = _automatic_solver(sizes, weights)
    return MethodChoice(solver.method, reason)


def solve(term: Floats, weights: Floats, options: Options) -> Solution:
    """Return the projections to take out of a term (outputs first), by the solver that the options ask for."""
    # If some weights are tiny, slice means do not show the error of iterations: the solver of "auto" measures it.
    solver, reference = solver_for(weights, options.method), solver_for(weights, AUTO)
    solution = solver.solve(term, weights, options)
    if solver is reference or solver.method == reference.method:
        return solution
    exact = reference.solve(term, weights, options._replace(method=AUTO))
    pairs = zip(solution.projections, exact.projections, strict=True)
    difference = np.zeros_like(term)  # between what this solver and the reference leave of the term
    take_out(difference, [projection - exact_projection for projection, exact_projection in pairs])
    error = float((largest(difference) * safe_inverse(largest(term))).max(initial=0.0))
    return dataclasses.replace(solution, error=error + (exact.error or 0.0))


def solver_for(weights: Floats, method: str) -> Solver:
    """Return the first solver of a method that can solve terms with these weights; raise ValueError if none can."""
    if method == AUTO:
        return _automatic_solver(weights.shape, weights)[0]
    for solver in SOLVERS:
        if solver.method == method and solver.can_solve(weights):
            return solver
    able = dict.fromkeys(repr(solver.method) for solver in SOLVERS if solver.can_solve(weights))
    kind = "are" if is_product(weights) else "are not"
    raise ValueError(
        f"`method` must be {' or '.join(able)} for weights of order {weights.ndim} with {weights.size:,} cells that "
        f"{kind} a product of marginals, got {method!r}; leave it out to let treeanova choose."
    )


def _automatic_solver(sizes: Sequence[int], weights: Floats | None) -> tuple[Solver, str]:
    """Return the solver that "auto" takes for a shape and weights, if known, and the reason in words."""
    for solver in SOLVERS:
        reason = solver.reason(sizes, weights)
        if reason is not None:
            return solver, reason
    raise LookupError(f"no solver for a tensor of shape {tuple(sizes)}")


def remedy_for(name: str) -> str:  # what users can do if a solver, named as in certificates, misses the tolerance
    return next((solver.remedy for solver in SOLVERS if solver.name == name), Solver.remedy)
