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
from treeanova.density import costs
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
_MAX_GROUPS_WITH_STEPS = 48  # more have one point each


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
        """The diagonals of all matrices, by group."""
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
        """Number of groups whose bins have an order; they come first."""
        return int(self.groups[self.n_ordered - 1]) + 1 if self.n_ordered else 0

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
        """Normal scores at equal steps in each ordered group, more if groups are few: (n_ordered_groups, n_steps)."""
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
            squares, masses = self.squares[scale], self.group_masses
            matrices = _new_kernels([squares] * len(new), [masses] * len(new), new)
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


def _new_kernels(
    squares: Sequence[Floats], masses: Sequence[Floats] | Floats, bandwidths: Sequence[float]
) -> KernelMatrix:
    """Return kernels, stacked, from squared distances of ordered groups, masses of all groups, and bandwidths."""
    # The module's docstring has the formula; φ is 1 / (1 + distance² / degrees of freedom)³.
    bells, all_masses = np.array(squares), np.array(masses)
    n = bells.shape[-1]
    bells /= np.square(bandwidths)[:, None, None]
    bells += 1
    bells = 1 / (bells * bells * bells)  # the power (_DEGREES_OF_FREEDOM + 1) / 2
    factors = _balance(bells, all_masses[:, :n])
    bells *= factors[:, :, None]
    bells *= factors[:, None, :]
    return KernelMatrix(bells, safe_inverse(all_masses[:, n:]), np.zeros(len(all_masses)))


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


class Shape(NamedTuple):
    """Numbers that margins of a stack are padded to, with empty groups and with points of no weight."""

    n_ordered: int  # groups
    n_others: int  # groups without order, which follow
    n_points: int  # of all ordered groups

    def places(self, margin: Margin) -> Ints:  # of the margin's groups in the stack
        places = np.arange(len(margin.group_masses))
        places[margin.n_ordered_groups :] += self.n_ordered - margin.n_ordered_groups
        return places


def shape_of(margin: Margin) -> Shape:
    """Return a shape that many margins share: the next of a few sizes."""
    n_ordered, n_others = margin.n_ordered_groups, len(margin.group_masses) - margin.n_ordered_groups
    n_padded = _next_size(n_ordered, costs.ORDERED_SIZES)
    n_points = max(margin.n_points, n_padded) if n_padded <= _MAX_GROUPS_WITH_STEPS else n_padded
    return Shape(n_padded, _next_size(n_others, costs.OTHER_SIZES), n_points if n_ordered else 0)


def _next_size(n: int, sizes: Sequence[int]) -> int:
    """Return the smallest of some sizes that is at least `n`; 0 stays 0, and larger ones stay."""
    return next((size for size in sizes if size >= n), n) if n else 0


@dataclasses.dataclass(frozen=True, eq=False)
class Margins:
    """Margins of one shape, one per pair of a stack: `distinct[places]`; those that `take` returns share results."""

    distinct: Sequence[Margin]
    places: Ints
    shape: Shape
    _arrays: dict[Hashable, Any] = dataclasses.field(default_factory=dict, repr=False)

    def take(self, numbers: Ints) -> Margins:  # numbers may repeat
        return Margins(self.distinct, self.places[numbers], self.shape, self._arrays)

    @property
    def n_groups(self) -> int:
        return self.shape.n_ordered + self.shape.n_others

    @property
    def n_ordered_groups(self) -> int:
        return self.shape.n_ordered

    @property
    def is_pooled(self) -> bool:  # whether groups are several bins
        return not self.distinct[0].binning.is_identity

    @property
    def coarse(self) -> Margins:  # the same margins on fewer groups, by which families of copulas are compared
        places = np.arange(len(self.distinct))
        margins = [margin.coarse for margin in self.distinct]
        shape = shape_of(margins[0])
        if margins[0].binning.is_identity:  # the groups are those of the finer margins
            shape = shape._replace(n_ordered=self.shape.n_ordered, n_others=self.shape.n_others)
        coarse = self._shared("coarse", lambda: Margins(margins, places, shape))
        return Margins(coarse.distinct, self.places, coarse.shape, coarse._arrays)  # noqa: SLF001  of the same class

    @property
    def group_masses(self) -> Floats:
        return self._stacked("group_masses", lambda margin: self._in_groups(margin, margin.group_masses))

    @property
    def pooling(self) -> Floats:
        """1.0 if a group is in a group of `coarse`, else 0.0: shape (n_margins, n_groups of coarse, n_groups)."""
        return self._stacked("pooling", self._pooling)

    def _pooling(self, margin: Margin) -> Floats:
        """Return 1.0 where a group of a margin is in a group of its coarse margin."""
        pooling = np.zeros((self.coarse.n_groups, self.n_groups))
        pooling[self.coarse.shape.places(margin.coarse)[margin.coarse.groups], self.shape.places(margin)] = 1.0
        return pooling

    @property
    def points(self) -> Floats:
        """Normal scores at equal steps within each ordered group, (n_margins, n_points)."""
        return self._stacked("points", lambda margin: self._at_points(margin.points))

    @property
    def point_shares(self) -> Floats | None:
        """Shares of points in the mean of each ordered group, (n_margins, n_groups, n_points), or None for one each."""
        has_single_points = all(margin.points.shape[1] == 1 for margin in self.distinct)
        if has_single_points and self.shape.n_points == self.shape.n_ordered:
            return None
        return self._stacked("point_shares", self._point_shares)

    def _point_shares(self, margin: Margin) -> Floats:
        """Return the shares of points in the mean of each group of a margin, (n_ordered, n_points)."""
        n_steps = margin.points.shape[1]
        shares = np.zeros((self.shape.n_ordered, self.shape.n_points))
        groups = np.repeat(np.arange(margin.n_ordered_groups), n_steps)
        shares[groups, np.arange(len(groups))] = 1 / n_steps
        return shares

    @property
    def mean_points(self) -> Floats:
        """Mean normal score of each ordered group, shape (n_margins, n_ordered_groups)."""
        n = self.shape.n_ordered
        return self._stacked("mean_points", lambda margin: self._in_groups(margin, margin.points.mean(axis=1))[:n])

    def copula_scores(self, scores: Callable[[Floats], Floats], *, is_reversed: bool) -> Floats:
        """Return where a family of copulas is evaluated, as `Margin.copula_scores` has it: (n_margins, n_points)."""
        name = scores, is_reversed
        return self._stacked(name, lambda m: self._at_points(m.copula_scores(scores, is_reversed=is_reversed)))

    def kernels(self, bandwidths: Sequence[float], scales: Sequence[Scale]) -> KernelMatrix:
        """Return a kernel per margin, of its own bandwidth and scale; each is computed once."""
        computed: dict[tuple[int, float, Scale], KernelMatrix] = self._shared("kernels", dict)
        names = list(zip(self.places.tolist(), bandwidths, scales, strict=True))
        new = [name for name in dict.fromkeys(names) if name not in computed]
        if new:
            places, widths, _ = zip(*new, strict=True)
            squares = self._shared("squares", lambda: list(map(self._squares, self.distinct)))
            masses = Margins(self.distinct, np.arange(len(self.distinct)), self.shape, self._arrays).group_masses
            matrices = _new_kernels([squares[i][scale] for i, _, scale in new], masses[list(places)], widths)
            computed.update((name, matrices[number]) for number, name in enumerate(new))
            if len(new) == len(names):
                return matrices
        return stacked([computed[name] for name in names])

    def _squares(self, margin: Margin) -> dict[Scale, Floats]:  # distances do not matter where groups are empty
        more = self.shape.n_ordered - margin.n_ordered_groups
        return {scale: np.pad(squares, (0, more)) if more else squares for scale, squares in margin.squares.items()}

    def _in_groups(self, margin: Margin, values: Floats) -> Floats:  # zeros in empty groups
        padded = np.zeros(self.n_groups)
        padded[self.shape.places(margin)[: len(values)]] = values
        return padded

    def _at_points(self, values: Floats) -> Floats:  # repeats of the last value at points that no group has
        padded = np.empty(self.shape.n_points)
        padded[: values.size] = values.ravel()
        padded[values.size :] = values.flat[-1] if values.size else 0.0
        return padded

    def _stacked(self, name: Hashable, value_of: Callable[[Margin], Floats]) -> Floats:  # first axis: margins
        stack = self._shared(name, lambda: np.array([value_of(margin) for margin in self.distinct]))
        return cast("Floats", stack[self.places])

    def _shared(self, name: Hashable, compute: Callable[[], Any]) -> Any:  # computed once for all that `take` returns
        if name not in self._arrays:
            self._arrays[name] = compute()
        return self._arrays[name]
