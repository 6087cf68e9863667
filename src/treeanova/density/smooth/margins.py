"""Margins: the bins of one feature with their masses, the kernels over them, and families of copulas.

Ordered bins have normal scores of their mid-ranks, and mean values; in one of these, z, the kernel of a bandwidth h is
the symmetric matrix A(i, j) = d_i φ((z_i - z_j) / h) d_j with factors d such that A m = 1 for the masses m. So
m(i) A(i, j) are probabilities of moves from bin j to bin i that keep m. φ is Student's t with 5 degrees of freedom: its
heavy tails keep neighbouring parts of the support connected. Bins without an order (categories, missing values) stay in
place. Scores suit heavy tails, values suit gaps: by rank, clusters that lie far apart are neighbours.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import scipy.special

from treeanova.anova.support import safe_inverse
from treeanova.core.arrays import Floats, Ints, memo, memo_of
from treeanova.model.grid import Binning, binning_by, equal_mass_groups, unmerged

_TIED = 1e-12

Tau = Floats | float
"""Kendall's τ of one pair, or of many with axes for the ranks of both."""
Scale = Literal["ranks", "values"]
SCALES: tuple[Scale, ...] = ("ranks", "values")
_MAX_GROUPS = 128  # of ordered bins
_N_POINTS = 96  # in all groups together, where copulas are evaluated
_MAX_POINTS_PER_GROUP = 16
_COARSE_GROUPS = 48  # by which families of copulas are compared
_DEGREES_OF_FREEDOM = 5.0
_FARTHEST = 1e6  # distance of a value, in ranges between the quartiles
_EDGE = 1e-7  # ranks stay so far from 0 and 1
_BALANCE_STEPS = 100
_BALANCE_TOLERANCE = 1e-12


class Family(NamedTuple):
    """A family of copulas, evaluated at ranks (or scores of ranks) of both features."""

    name: str
    log_density_at: Callable[[Floats, Floats, Tau], Floats]  # of scores of ranks, which broadcast, at Kendall's τ > 0
    n_parameters: int = 1
    is_rotated: bool | None = None  # by 180 degrees; None for a symmetric family
    scores: Callable[[Floats], Floats] = np.asarray  # of ranks, whatever τ is: the ranks themselves unless that is slow


def _clayton(u: Floats, v: Floats, tau: Tau) -> Floats:  # log density of the copula at ranks u, v, for Kendall's τ
    theta = 2 * tau / (1 - tau)
    logs = np.log((u**-theta - 1) + v**-theta)
    logs *= -(2 + 1 / theta)
    logs += np.log1p(theta) - (1 + theta) * np.log(u)
    logs -= (1 + theta) * np.log(v)
    return logs


def _gumbel(u: Floats, v: Floats, tau: Tau) -> Floats:  # log density of the copula at ranks u, v, for Kendall's τ
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


def _frank(u: Floats, v: Floats, tau: Tau) -> Floats:  # log density of the copula at ranks u, v, for Kendall's τ
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
    """Return Kendall's τ of Frank's copula at increasing θ, and these θ: a table to invert τ(θ) by interpolation."""
    # τ = 1 - 4 / θ (1 - mean of t / (exp(t) - 1) over 0 < t < θ)
    thetas = np.geomspace(0.01, 150, 200)
    t = thetas[:, None] * (np.arange(400) + 0.5) / 400
    return 1 - 4 / thetas * (1 - (t / np.expm1(t)).mean(axis=1)), thetas


def _student(x: Floats, y: Floats, tau: Tau, freedom: float) -> Floats:
    """Return the log density of Student's t copula at t quantiles x, y of ranks, for Kendall's τ."""
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


FAMILIES = (
    Family("frank", _frank),
    *(
        Family(
            f"student {n}", functools.partial(_student, freedom=n), 2, None, functools.partial(scipy.special.stdtrit, n)
        )
        for n in (2, 4, 8, 16)
    ),
    *(Family("clayton", _clayton, is_rotated=is_rotated) for is_rotated in (False, True)),
    *(Family("gumbel", _gumbel, is_rotated=is_rotated) for is_rotated in (False, True)),
)
TAU_RANGE = 0.01, 0.95
ROTATIONS: dict[tuple[bool | None, bool], str] = {(True, True): " 180", (True, False): " 90", (False, False): " 270"}


def kendall_tau(shares: Floats) -> Floats:
    """Return τ_b of tables (last two axes): concordant minus discordant pairs of rows, over those without ties."""
    below = np.cumsum(shares, axis=-2) - shares  # sums over rows of the table above this one
    left = np.cumsum(below, axis=-1) - below  # concordant with this cell; those to the right are discordant
    right = below.sum(axis=-1, keepdims=True) - left - below
    total = shares.sum(axis=(-1, -2)) ** 2
    rows, columns = (total - (shares.sum(axis=axis) ** 2).sum(axis=-1) for axis in (-2, -1))
    excess = 2 * (shares * (left - right)).sum(axis=(-1, -2))
    is_tied = np.minimum(rows, columns) <= _TIED
    return np.where(is_tied, 0.0, excess / np.sqrt(np.where(is_tied, 1.0, rows * columns)))


@dataclasses.dataclass(frozen=True, eq=False)
class KernelMatrix:
    """A matrix A over groups, or several: dense over ordered groups, diagonal over the others, plus a constant."""

    ordered: Floats  # further axes come first
    diagonals: Floats  # of categories, which may be too many for a dense matrix
    constants: Floats

    def __getitem__(self, places: Any) -> KernelMatrix:
        return KernelMatrix(self.ordered[places], self.diagonals[places], self.constants[places])

    def __len__(self) -> int:
        return len(self.ordered)

    @property
    def diagonal(self) -> Floats:
        ordered = np.diagonal(self.ordered, axis1=-2, axis2=-1)
        return np.concatenate([ordered, self.diagonals], axis=-1) + self.constants[..., None]

    def left(self, tables: Floats) -> Floats:
        """Return A C for tables C, whose last two axes are groups."""
        n = self.ordered.shape[-1]
        if n == tables.shape[-2]:
            return np.matmul(self.ordered, tables)
        product = np.empty(np.broadcast_shapes(self.constants.shape, tables.shape[:-2]) + tables.shape[-2:])
        np.matmul(self.ordered, tables[..., :n, :], out=product[..., :n, :])
        np.multiply(self.diagonals[..., None], tables[..., n:, :], out=product[..., n:, :])
        if self.constants.any():
            product += self.constants[..., None, None] * tables.sum(axis=-2, keepdims=True)
        return product

    def right(self, tables: Floats) -> Floats:
        """Return C Aᵀ for tables C, whose last two axes are groups."""
        return self.left(tables.swapaxes(-1, -2)).swapaxes(-1, -2)

    def squares(self) -> KernelMatrix:
        """Square the elements; constants must be zero."""
        return KernelMatrix(self.ordered**2, self.diagonals**2, self.constants)

    def column(self, group: int) -> Floats:  # of a single A; times masses, probabilities of moves from the group
        n = self.ordered.shape[-1]
        column = np.full(n + len(self.diagonals), float(self.constants))
        if group < n:
            column[:n] += self.ordered[:, group]
        else:
            column[group] += self.diagonals[group - n]
        return column


def stacked(matrices: Sequence[KernelMatrix]) -> KernelMatrix:  # several matrices of one shape as one
    fields = ([getattr(matrix, name) for matrix in matrices] for name in ("ordered", "diagonals", "constants"))
    return KernelMatrix(*(np.stack(arrays) for arrays in fields))


@dataclasses.dataclass(frozen=True, eq=False)
class Margin:
    """The bins of one feature and their masses, pooled into groups for smoothing."""

    masses: Floats  # ordered bins come first
    n_ordered: int
    n_rows: float
    values: Floats | None = None  # mean values of the rows in each ordered bin, NaN without rows
    max_groups: int = _MAX_GROUPS  # more ordered bins are pooled into groups of neighbours of about equal mass
    n_points: int = _N_POINTS  # in all groups together, where copulas are evaluated

    @functools.cached_property
    def binning(self) -> Binning:  # the groups
        ordered = self.masses[: self.n_ordered]
        if self.n_ordered <= self.max_groups or not ordered.sum():
            return unmerged(len(self.masses))
        extra = self.max_groups + np.arange(len(self.masses) - self.n_ordered)
        return binning_by(np.concatenate([equal_mass_groups(ordered, self.max_groups), extra]), self.masses)

    @property
    def groups(self) -> Ints:  # the group of each bin
        return self.binning.bins

    @functools.cached_property
    def group_masses(self) -> Floats:
        return np.bincount(self.groups, self.masses).astype(np.float64)

    @functools.cached_property
    def n_ordered_groups(self) -> int:
        return int(self.groups[self.n_ordered - 1]) + 1 if self.n_ordered else 0

    @functools.cached_property
    def padded(self) -> Margin:
        """The groups as bins of a margin, with empty ordered groups up to a number that many margins then share."""
        n_ordered, n_steps = self.n_ordered_groups, self.points.shape[1]
        more = 0
        if _COARSE_GROUPS // 4 < n_ordered <= _COARSE_GROUPS:  # up to the most groups with as many points in each
            more = min(_N_POINTS // (_N_POINTS // n_ordered), _COARSE_GROUPS) - n_ordered
        if not more or not self.binning.is_identity:  # values are those of bins, not of groups
            return self
        masses = np.insert(self.group_masses, n_ordered, np.zeros(more))
        values = None if self.values is None else np.pad(self.values, (0, more), constant_values=np.nan)
        n_padded = n_ordered + more
        return dataclasses.replace(self, masses=masses, n_ordered=n_padded, values=values, n_points=n_steps * n_padded)

    @functools.cached_property
    def padded_places(self) -> Ints:  # positions of the groups in `padded`, whose empty groups follow ordered ones
        n_groups = len(self.group_masses)
        places = np.arange(n_groups)
        places[self.n_ordered_groups :] += len(self.padded.group_masses) - n_groups
        return places

    @functools.cached_property
    def coarse(self) -> Margin:  # on fewer groups, by which families of copulas are compared
        n_groups = _COARSE_GROUPS
        return Margin(self.group_masses, self.n_ordered_groups, self.n_rows, max_groups=n_groups, n_points=n_groups)

    @functools.cached_property
    def scores(self) -> Floats:
        """Normal score of each ordered group's mid-rank among ordered rows."""
        return self._scores_within_groups(1)[:, 0]

    @functools.cached_property
    def points(self) -> Floats:
        """Normal scores at equal steps within each ordered group, more if groups are few."""
        n_steps = self.n_points // max(self.n_ordered_groups, 1)
        return self._scores_within_groups(min(_MAX_POINTS_PER_GROUP, max(1, n_steps)))

    @memo
    def copula_scores(self, scores: Callable[[Floats], Floats], *, is_reversed: bool) -> Floats:
        """Return where a family of copulas is evaluated: scores of the ranks of `points`, or of 1 minus these."""
        ranks = np.clip(scipy.special.ndtr(self.points), _EDGE, 1 - _EDGE)
        return scores(1 - ranks if is_reversed else ranks)

    def _scores_within_groups(self, n_points: int) -> Floats:
        """Return normal scores of ranks at equal steps within each ordered group: (n_ordered_groups, n_points)."""
        masses = self.group_masses[: self.n_ordered_groups, None]
        total = masses.sum()
        if not total:
            return np.zeros((len(masses), n_points))
        ranks = (np.cumsum(masses, axis=0) - masses + masses * (np.arange(n_points) + 0.5) / n_points) / total
        edge = 0.25 / max(self.n_rows * total, 1.0)
        return scipy.special.ndtri(np.clip(ranks, edge, 1 - edge))

    @functools.cached_property
    def positions(self) -> Floats:
        """Mean values of ordered groups, in robust standard deviations; `scores` if they do not vary."""
        group_values = self._group_values()
        if group_values is None:
            return self.scores
        means, totals = group_values
        ranks = (np.cumsum(totals) - totals / 2) / totals.sum()
        low, high = np.interp([0.25, 0.75], ranks, means)
        if not high > low:
            return self.scores
        farthest = _FARTHEST * (high - low)
        return np.clip(means, low - farthest, high + farthest) / ((high - low) / 1.349)

    def _group_values(self) -> tuple[Floats, Floats] | None:
        """Return the mean value of each ordered group, interpolated if it has none, and the mass that has values."""
        if self.values is None or not np.isfinite(self.values).any():
            return None
        values = self.values / (np.nanmax(np.abs(self.values)) or 1.0)  # differences of huge ones would overflow
        masses = np.where(np.isfinite(values), self.masses[: self.n_ordered], 0.0)
        groups = self.groups[: self.n_ordered]
        totals = np.bincount(groups, masses).astype(np.float64)
        sums = np.bincount(groups, masses * np.where(masses > 0, values, 0.0))
        has_values = np.flatnonzero(totals)
        if not len(has_values):
            return None
        return np.interp(np.arange(len(totals)), has_values, sums[has_values] / totals[has_values]), totals

    def kernel(self, bandwidth: float, scale: Scale = "ranks") -> KernelMatrix:
        return self.kernels([bandwidth], scale)[0]

    def kernels(self, bandwidths: Sequence[float], scale: Scale) -> list[KernelMatrix]:  # each is computed once
        computed = memo_of(self, "kernels")
        new = [bandwidth for bandwidth in bandwidths if (bandwidth, scale) not in computed]
        if new:
            matrices = _new_kernels([self], new, scale)
            computed.update({(bandwidth, scale): matrices[i] for i, bandwidth in enumerate(new)})
        return [computed[bandwidth, scale] for bandwidth in bandwidths]

    @functools.cached_property
    def squares(self) -> Mapping[Scale, Floats]:
        """Squared distances between ordered groups, over Student's degrees of freedom."""
        places: dict[Scale, Floats] = {"ranks": self.scores, "values": self.positions}
        return {scale: (at[:, None] - at) ** 2 / _DEGREES_OF_FREEDOM for scale, at in places.items()}

    def shrinkage(self, share: float) -> KernelMatrix:
        """Return the kernel of groups without order: stay, or with probability `share` move to a group by its mass."""
        return KernelMatrix(np.empty((0, 0)), (1 - share) * safe_inverse(self.group_masses), np.array(share))


def _kernels_of(margins: Sequence[Margin], bandwidth: float, scale: Scale) -> KernelMatrix:
    """Return the kernels of a bandwidth for margins of the same shape, stacked; each is computed once."""
    computed = [memo_of(margin, "kernels") for margin in margins]
    new = [place for place, of_margin in enumerate(computed) if (bandwidth, scale) not in of_margin]
    if new:
        matrices = _new_kernels([margins[place] for place in new], [bandwidth], scale)
        for number, place in enumerate(new):
            computed[place][bandwidth, scale] = matrices[number]
        if len(new) == len(margins):
            return matrices
    return stacked([of_margin[bandwidth, scale] for of_margin in computed])


def _new_kernels(margins: Sequence[Margin], bandwidths: Sequence[float], scale: Scale) -> KernelMatrix:
    """Return the kernels for margins of the same shape, stacked: all bandwidths of the first margin come first."""
    # The module's docstring has the formula; φ is 1 / (1 + distance² / degrees of freedom)³.
    masses = np.repeat([margin.group_masses for margin in margins], len(bandwidths), axis=0)
    n = margins[0].n_ordered_groups
    base = np.concatenate([margin.squares[scale] / np.square(bandwidths)[:, None, None] for margin in margins])
    base += 1
    bells: Floats = 1 / (base * base * base)  # the power (_DEGREES_OF_FREEDOM + 1) / 2
    factors = _balance(bells, masses[:, :n])
    bells *= factors[:, :, None]
    bells *= factors[:, None, :]
    return KernelMatrix(bells, safe_inverse(masses[:, n:]), np.zeros(len(masses)))


def _balance(bells: Floats, masses: Floats) -> Floats:
    """Return factors d, (n_kernels, n_groups), for which every row of d_i bells(i, j) d_j has weighted mean 1."""
    # Fixed-point steps, each of which removes 2/3 of the error; finished kernels wait for the others.
    totals = masses.sum(axis=1, keepdims=True)
    balanced = np.zeros_like(masses)
    places = np.flatnonzero(totals)
    factors = np.broadcast_to(1 / np.sqrt(totals[places]), (len(places), masses.shape[1]))
    if len(places) < len(masses):
        bells, masses = bells[places], masses[places]
    for _ in range(_BALANCE_STEPS):
        means = factors * np.matmul(bells, (factors * masses)[:, :, None])[:, :, 0]
        factors = factors / np.cbrt(means * means)
        goes_on = (np.abs(means - 1) > _BALANCE_TOLERANCE).any(axis=1)
        if not goes_on.all():
            balanced[places[~goes_on]] = factors[~goes_on]
            places, bells, masses, factors = places[goes_on], bells[goes_on], masses[goes_on], factors[goes_on]
            if not len(places):
                break
    balanced[places] = factors
    return balanced


def shape_of(margin: Margin) -> Hashable:
    """Return what margins must have in common to be stacked."""
    coarse = margin.coarse
    groups = len(margin.group_masses), margin.n_ordered_groups, margin.points.shape[1]
    return margin.binning.is_identity, *groups, len(coarse.group_masses), coarse.n_ordered_groups


@dataclasses.dataclass(frozen=True, eq=False)
class Margins:
    """Margins of one shape, one per pair of a stack: `distinct[places]`; all that `take` returns share results."""

    distinct: Sequence[Margin]
    places: Ints
    _arrays: dict[Hashable, Any] = dataclasses.field(default_factory=dict, repr=False)

    def take(self, numbers: Ints) -> Margins:
        return Margins(self.distinct, self.places[numbers], self._arrays)

    @property
    def n_groups(self) -> int:
        return len(self.distinct[0].group_masses)

    @property
    def n_ordered_groups(self) -> int:
        return self.distinct[0].n_ordered_groups

    @property
    def coarse(self) -> Margins:  # the same margins on fewer groups, by which families of copulas are compared
        places = np.arange(len(self.distinct))
        coarse = self._shared("coarse", lambda: Margins([margin.coarse for margin in self.distinct], places))
        return Margins(coarse.distinct, self.places, coarse._arrays)  # noqa: SLF001  of the same class

    @property
    def group_masses(self) -> Floats:
        return self._stacked("group_masses", lambda margin: margin.group_masses)

    @property
    def pooling(self) -> Floats:
        """1.0 if a bin is in a group, else 0.0: shape (n_margins, n_groups, n_bins)."""
        return self._stacked("pooling", lambda margin: np.equal.outer(np.arange(self.n_groups), margin.groups) * 1.0)

    @property
    def points(self) -> Floats:
        """Normal scores at equal steps within each ordered group: the first point of all groups, then the second."""
        return self._stacked("points", lambda margin: margin.points.T.ravel())

    @property
    def mean_points(self) -> Floats:
        """Mean normal score of each ordered group, shape (n_margins, n_groups)."""
        return self._stacked("mean_points", lambda margin: margin.points.mean(axis=1))

    def copula_scores(self, scores: Callable[[Floats], Floats], *, is_reversed: bool) -> Floats:
        name = scores, is_reversed
        return self._stacked(name, lambda margin: margin.copula_scores(scores, is_reversed=is_reversed).T.ravel())

    def kernels(self, bandwidth: float, scale: Scale) -> KernelMatrix:
        matrices = self._shared((bandwidth, scale), lambda: _kernels_of(self.distinct, bandwidth, scale))
        return cast("KernelMatrix", matrices[self.places])

    def _stacked(self, name: Hashable, value_of: Callable[[Margin], Floats]) -> Floats:  # first axis: margins
        stack = self._shared(name, lambda: np.stack([value_of(margin) for margin in self.distinct]))
        return cast("Floats", stack[self.places])

    def _shared(self, name: Hashable, compute: Callable[[], Any]) -> Any:  # computed once for all that `take` returns
        if name not in self._arrays:
            self._arrays[name] = compute()
        return self._arrays[name]
