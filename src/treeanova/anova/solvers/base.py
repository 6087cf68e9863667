"""What all solvers share: options, solutions, the interface, and the probe that measures their error.

The probe is a random sum of functions of fewer axes, so nothing of it should be left. What is left shows errors in
directions that the weights tie so weakly that slice means do not see them.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from treeanova.anova import support
from treeanova.core.arrays import Floats, Projections

AUTO = "auto"
EPSILON = float(np.finfo(float).eps)


class Options(NamedTuple):
    method: str = AUTO
    tol: float = 1e-10  # relative to the largest score
    max_iterations: int = 10_000


class MethodChoice(NamedTuple):
    """A method and why it was chosen; see `choose_method`.

    Attributes
    ----------
    method
        Name of the method, as `purify` takes it.
    reason
        Why it suits the weights, in words.

    Examples
    --------
    >>> import treeanova
    >>> method, reason = treeanova.model.choose_method([1, 2, 3])
    >>> method
    'direct'
    >>> reason
    'one axis: its mean is all there is to move'
    """

    method: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Solution:
    """What a solver found for one term."""

    projections: Projections  # one per axis, outputs first
    method: str
    iterations: int  # 1 for exact solvers
    correlation: float  # maximal correlation of the axes under the weights, exact or estimated
    error: float | None = None  # bound relative to the largest score; None: what slice means and correlation imply
    trace: Floats | None = None  # unpurified mass before the first pass and after each

    def flipped(self) -> Solution:  # that of the transposed pair, whose axes are in the other order
        return dataclasses.replace(self, projections=self.projections[::-1])


class Solver(abc.ABC):
    """Finds what to take out of a term to make it pure: a projection per axis."""

    method: ClassVar[str]  # as users ask for it; several solvers may share one, each for other weights
    name: ClassVar[str]  # in certificates
    remedy: ClassVar[str] = (
        "its features determine each other almost exactly: drop one of them from the model, or use a density that "
        "spreads its mass more widely, such as 'laplace' or 'independent'"
    )

    @abc.abstractmethod
    def can_solve(self, weights: Floats) -> bool:
        """Whether it can purify terms under these weights, if users ask for its method."""

    def reason(self, sizes: Sequence[int], weights: Floats | None) -> str | None:
        """Return why "auto" takes it for this shape, None if it does not; weights are None if unknown."""
        del sizes, weights
        return None

    @abc.abstractmethod
    def solve(self, term: Floats, weights: Floats, options: Options) -> Solution:
        """Return what to take out of a term under weights of sum 1, by the convention for cells without mass."""


class SeenBinsSolver(Solver):
    """A solver for terms in which every bin has mass; `support` completes its projections."""

    @abc.abstractmethod
    def solve_seen(self, term: Floats, weights: Floats, options: Options) -> Solution:
        """Return projections that are right wherever cells have mass; every bin has mass."""

    def solve(self, term: Floats, weights: Floats, options: Options) -> Solution:
        """Solve for the bins with mass; the convention then gives the projections of bins without mass."""
        bin_masses = support.marginals(weights)
        if all(masses.all() for masses in bin_masses):
            return self._solve_by_convention(term, weights, options)
        seen = [np.flatnonzero(masses) for masses in bin_masses]
        outputs = np.arange(len(term))
        solution = self._solve_by_convention(term[np.ix_(outputs, *seen)], weights[np.ix_(*seen)], options)
        projections = support.zero_projections(term)
        for axis, projection in enumerate(projections):
            projection[np.ix_(outputs, *seen[:axis], *seen[axis + 1 :])] = solution.projections[axis]
        support.extend_to_unseen(term, projections, bin_masses)
        return dataclasses.replace(solution, projections=projections)

    def _solve_by_convention(self, term: Floats, weights: Floats, options: Options) -> Solution:
        """Solve a term whose bins all have mass; the convention decides what cells without mass leave open."""
        solution = self.solve_seen(term, weights, options)
        support.tie_support(term, solution.projections, weights)
        return solution


def with_probe(term: Floats) -> Floats:
    """Return a term with one more output, a probe of which exact projections leave nothing."""
    return np.concatenate([term, _probe(term.shape[1:])])


def without_probe(projections: Projections, shape: tuple[int, ...]) -> tuple[Projections, float]:
    """Return projections without those of the probe, and the largest absolute value that these leave of it."""
    residual = _probe(shape)
    support.take_out(residual, [projection[-1:] for projection in projections])
    return [projection[:-1] for projection in projections], float(support.largest(residual)[0])


def _probe(shape: tuple[int, ...]) -> Floats:
    """Return a random sum of functions of fewer axes, as one output of largest absolute value 1."""
    rng = np.random.default_rng(len(shape))
    values = np.zeros((1, *shape))
    for axis in range(len(shape)):
        values += support.spread(rng.standard_normal((1, *shape[:axis], *shape[axis + 1 :])), axis)
    return values / support.largest(values)
