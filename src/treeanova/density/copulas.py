"""Parametric families of copulas by Kendall's τ: Frank, Student, Clayton and Gumbel, the last two also rotated."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.special

from treeanova.core.arrays import Floats

_TIED = 1e-12

Tau = Floats | float
"""Kendall's τ of one pair, or of many with axes for the ranks of both."""


class Family(NamedTuple):
    """A family of copulas.

    Attributes
    ----------
    name
        Its name.
    log_density_at
        Logarithm of its density at scores of ranks (of shapes that broadcast) for Kendall's τ above 0.
    n_parameters
        Number of parameters.
    is_rotated
        Whether it is rotated by 180 degrees; None where this changes nothing.
    scores
        What the density needs of ranks whatever τ is: the ranks themselves unless that takes long to compute.
    """

    name: str
    log_density_at: Callable[[Floats, Floats, Tau], Floats]
    n_parameters: int = 1
    is_rotated: bool | None = None
    scores: Callable[[Floats], Floats] = np.asarray

    def log_density(self, u: Floats, v: Floats, tau: Tau) -> Floats:
        """Logarithm of the density at ranks."""
        return self.log_density_at(self.scores(u), self.scores(v), tau)


def _clayton(u: Floats, v: Floats, tau: Tau) -> Floats:
    theta = 2 * tau / (1 - tau)
    logs = np.log((u**-theta - 1) + v**-theta)
    logs *= -(2 + 1 / theta)
    logs += np.log1p(theta) - (1 + theta) * np.log(u)
    logs -= (1 + theta) * np.log(v)
    return logs


def _gumbel(u: Floats, v: Floats, tau: Tau) -> Floats:
    theta = 1 / (1 - tau)
    x, y = -np.log(u), -np.log(v)
    logs = np.log(x**theta + y**theta)
    root = np.exp(logs / theta)
    logs *= 1 / theta - 2
    logs -= root
    root += theta - 1
    logs += np.log(root, out=root)
    logs += x + (theta - 1) * np.log(x)
    logs += y + (theta - 1) * np.log(y)
    return logs


def _frank(u: Floats, v: Floats, tau: Tau) -> Floats:
    theta = np.interp(tau, *_frank_taus())
    # 1 - exp(-θ) - (1 - exp(-θu)) (1 - exp(-θv)), in positive parts
    x = np.exp(-theta * u)
    logs: Floats = np.exp(-theta * v) * (1 - x)
    logs -= x * np.expm1(-theta * (1 - u))
    np.log(logs, out=logs)
    logs *= -2
    logs += np.log(-theta * np.expm1(-theta)) - theta * u
    logs -= theta * v
    return logs


@functools.cache
def _frank_taus() -> tuple[Floats, Floats]:
    """τ = 1 - 4 / θ (1 - mean of t / (exp(t) - 1) over 0 < t < θ), on a grid."""
    thetas = np.geomspace(0.01, 150, 200)
    t = thetas[:, None] * (np.arange(400) + 0.5) / 400
    return 1 - 4 / thetas * (1 - (t / np.expm1(t)).mean(axis=1)), thetas


def _student(x: Floats, y: Floats, tau: Tau, freedom: float) -> Floats:
    r = np.sin(np.pi / 2 * tau)
    spread = (1 - r * r) * freedom
    logs = (-2 * r / spread) * x * y
    logs += x * x / spread
    logs += y * y / spread
    np.log1p(logs, out=logs)
    logs *= -(freedom + 2) / 2
    constant = scipy.special.gammaln(np.array([freedom + 2, freedom, freedom + 1]) / 2) @ [1, 1, -2]
    logs += constant - np.log(1 - r * r) / 2 + (freedom + 1) / 2 * np.log1p(x * x / freedom)
    logs += (freedom + 1) / 2 * np.log1p(y * y / freedom)
    return logs


def _student_family(freedom: int) -> Family:
    return Family(
        f"student {freedom}",
        functools.partial(_student, freedom=freedom),
        2,
        scores=functools.partial(scipy.special.stdtrit, freedom),
    )


FAMILIES = (
    Family("frank", _frank),
    *map(_student_family, (2, 4, 8, 16)),
    *(Family("clayton", _clayton, is_rotated=is_rotated) for is_rotated in (False, True)),
    *(Family("gumbel", _gumbel, is_rotated=is_rotated) for is_rotated in (False, True)),
)
TAU_RANGE = 0.01, 0.95
ROTATIONS: dict[tuple[bool | None, bool], str] = {(True, True): " 180", (True, False): " 90", (False, False): " 270"}


def kendall_tau(shares: Floats) -> Floats:
    """Kendall's τ_b of tables (last two axes): concordant minus discordant pairs of rows, over those without ties."""
    below = np.cumsum(shares, axis=-2) - shares  # rows of the table above this one
    left = np.cumsum(below, axis=-1) - below
    right = below.sum(axis=-1, keepdims=True) - left - below
    total = shares.sum(axis=(-1, -2)) ** 2
    rows, columns = (total - (shares.sum(axis=axis) ** 2).sum(axis=-1) for axis in (-2, -1))
    excess = 2 * (shares * (left - right)).sum(axis=(-1, -2))
    is_tied = np.minimum(rows, columns) <= _TIED
    tau: Floats = np.where(is_tied, 0.0, excess / np.sqrt(np.where(is_tied, 1.0, rows * columns)))
    return tau
