"""Parametric families of copulas by Kendall's τ: Frank, Student, Clayton and Gumbel, the last two also rotated."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.special

from treeanova.core.arrays import Floats

_TIED = 1e-12


class Family(NamedTuple):
    """A family of copulas.

    Attributes
    ----------
    name
        Its name.
    log_density
        Logarithm of its density at ranks (a column and a row) for a Kendall's τ above 0.
    n_parameters
        Number of parameters.
    is_rotated
        Whether it is rotated by 180 degrees; None where this changes nothing.
    """

    name: str
    log_density: Callable[[Floats, Floats, float], Floats]
    n_parameters: int = 1
    is_rotated: bool | None = None


def _clayton(u: Floats, v: Floats, tau: float) -> Floats:
    theta = 2 * tau / (1 - tau)
    logs = np.log(u**-theta + v**-theta - 1)
    density: Floats = np.log1p(theta) - (1 + theta) * (np.log(u) + np.log(v)) - (2 + 1 / theta) * logs
    return density


def _gumbel(u: Floats, v: Floats, tau: float) -> Floats:
    theta = 1 / (1 - tau)
    x, y = -np.log(u), -np.log(v)
    logs = np.log(x**theta + y**theta)
    root = np.exp(logs / theta)
    sides = (x + (theta - 1) * np.log(x)) + (y + (theta - 1) * np.log(y))
    density: Floats = np.log(root + (theta - 1)) - root + (1 / theta - 2) * logs + sides
    return density


def _frank(u: Floats, v: Floats, tau: float) -> Floats:
    theta = np.interp(tau, *_frank_taus())
    # 1 - exp(-θ) - (1 - exp(-θu)) (1 - exp(-θv)), in positive parts
    x = np.exp(-theta * u)
    logs = np.log(np.exp(-theta * v) * (1 - x) - x * np.expm1(-theta * (1 - u)))
    density: Floats = np.log(-theta * np.expm1(-theta)) - theta * (u + v) - 2 * logs
    return density


@functools.cache
def _frank_taus() -> tuple[Floats, Floats]:
    """τ = 1 - 4 / θ (1 - mean of t / (exp(t) - 1) over 0 < t < θ), on a grid."""
    thetas = np.geomspace(0.01, 150, 200)
    t = thetas[:, None] * (np.arange(400) + 0.5) / 400
    return 1 - 4 / thetas * (1 - (t / np.expm1(t)).mean(axis=1)), thetas


def _student(u: Floats, v: Floats, tau: float, freedom: float) -> Floats:
    r = np.sin(np.pi / 2 * tau)
    x, y = scipy.special.stdtrit(freedom, u), scipy.special.stdtrit(freedom, v)
    sides = (freedom + 1) / 2 * (np.log1p(x * x / freedom) + np.log1p(y * y / freedom))
    logs = np.log1p((x * x + y * y - 2 * r * x * y) / ((1 - r * r) * freedom))
    constant = scipy.special.gammaln(np.array([freedom + 2, freedom, freedom + 1]) / 2) @ [1, 1, -2]
    density: Floats = constant - np.log(1 - r * r) / 2 - (freedom + 2) / 2 * logs + sides
    return density


FAMILIES = (
    Family("frank", _frank),
    *(Family(f"student {freedom}", functools.partial(_student, freedom=freedom), 2) for freedom in (2, 4, 8, 16)),
    *(Family("clayton", _clayton, is_rotated=is_rotated) for is_rotated in (False, True)),
    *(Family("gumbel", _gumbel, is_rotated=is_rotated) for is_rotated in (False, True)),
)
TAU_RANGE = 0.01, 0.95
ROTATIONS: dict[tuple[bool | None, bool], str] = {(True, True): " 180", (True, False): " 90", (False, False): " 270"}


def kendall_tau(shares: Floats) -> float:
    """Kendall's τ_b of a table: concordant minus discordant pairs of rows, relative to those without ties."""
    below = np.cumsum(shares, axis=0) - shares  # rows of the table above this one
    left = np.cumsum(below, axis=1) - below
    right = below.sum(axis=1, keepdims=True) - left - below
    untied = [shares.sum() ** 2 - (shares.sum(axis=axis) ** 2).sum() for axis in (0, 1)]
    if min(untied) <= _TIED:
        return 0.0
    return float(2 * (shares * (left - right)).sum() / np.sqrt(untied[0] * untied[1]))
