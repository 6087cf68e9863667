"""Densities: the weights of cells under which effects are pure.

A density is described by an object such as ``Laplace(mix=0.5)`` and bound to a grid and rows with `bind`. The one thing
that each kind then defines is `joint`, a probability over the cells of all features: tables of any set of features,
rows that stand for the density, and moments of terms all follow from it, so that they cannot disagree, and the table of
fewer features is the marginal of the table of more. "kernel" and "auto" estimate every pair on its own, more accurately
than any one joint density of the rows does; `gap` tells by how much these tables differ from the joint density, which
serves orders above 2.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import itertools
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Key
from treeanova.density import smoothing
from treeanova.density.joint import (
    MOST_CELLS,
    Cells,
    Joint,
    Mixture,
    Product,
    Rows,
    check_agreement,
    joint_of_tables,
)
from treeanova.density.kernel_joint import kernel_joint
from treeanova.density.pooling import Binnings, pool_table
from treeanova.density.sample import Sample, sample_of
from treeanova.density.statistics import Points, Statistics, check_weighted_rows, shown_weights, statistics_of
from treeanova.model.axes import Axis
from treeanova.model.binning import Binning
from treeanova.model.grid import Grid

__all__ = [
    "Auto",
    "Choice",
    "Density",
    "Empirical",
    "Independent",
    "Kernel",
    "Laplace",
    "Sample",
    "Shrinkage",
    "Statistics",
    "Table",
    "Uniform",
    "check_weighted_rows",
    "density_of",
    "sample_of",
    "statistics_of",
]

_PAIRS_FOR_SHRINKAGE = 100
_SIMPLE = ("independent", "gaussian")


@dataclasses.dataclass(frozen=True, eq=False)
class Density(abc.ABC):
    """Weights of the cells of any set of features; one abstract property, `joint`."""

    name: ClassVar[str]
    needs_data: ClassVar[bool] = True
    grid: Grid | None = dataclasses.field(default=None, kw_only=True, repr=False)
    statistics: Statistics | None = dataclasses.field(default=None, kw_only=True, repr=False)

    def bind(self, grid: Grid, statistics: Statistics | None) -> Self:
        """The density on a grid, with statistics of the rows that define it (None where it needs none)."""
        if self.needs_data and statistics is None:
            raise ValueError(
                f"`X` must be given for the density {self.name!r}, got None; pass the rows that define it."
            )
        return dataclasses.replace(self, grid=grid, statistics=statistics)

    def with_statistics(self, statistics: Statistics) -> Self:
        """The density estimated from other rows on the same grid."""
        return dataclasses.replace(self, statistics=statistics)

    def resampled(self, statistics: Statistics) -> Self:
        """Former name of `with_statistics`."""
        return self.with_statistics(statistics)

    @property
    def sample(self) -> Sample | None:
        """Former name of `statistics`."""
        return cast("Sample | None", self.statistics)

    @property
    @abc.abstractmethod
    def joint(self) -> Joint:
        """The probability over the cells of all features."""

    @property
    def is_product(self) -> bool:
        """Whether features are independent."""
        return self.joint.is_product

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        """Weights over the bins of the features at some positions, of sum 1.

        Parameters
        ----------
        key
            Positions of the features.
        binnings
            One binning per feature, for weights over its coarse bins; None for all bins of the grid.
        """
        return self.joint.table(key, binnings)

    def points(self, n_rows: int, rng: np.random.Generator) -> Points:
        """Bins and weights of rows that stand for the whole density: its own rows or cells, or draws."""
        return self.joint.points(n_rows, rng)

    def difference(self, key: Key, binnings: Binnings | None = None) -> Floats | None:  # noqa: ARG002
        """The table of a pair minus that of the joint density; None where they are the same by definition."""
        return None

    def gap(self, key: Key, binnings: Binnings | None = None) -> float:
        """Share of the mass by which the table of a pair differs from that of the joint density."""
        difference = self.difference(key, binnings)
        return 0.0 if difference is None else float(np.abs(difference).sum()) / 2

    def log_likelihood(self, X: Any, features: Sequence[str] | None = None) -> float:
        """Mean logarithm of the weight of the cells that rows fall in; -inf when one has none.

        Of the cells of the features named, or on average over all pairs of features.
        """
        grid = self._grid
        codes = grid.index(X)
        if features is not None:
            unknown = [name for name in features if name not in grid.schema.names]
            if unknown:
                raise ValueError(f"`features` must be the model's, got {unknown[0]!r}; see grid.schema.names.")
            keys = [tuple(sorted(grid.schema.names.index(name) for name in features))]
        else:
            keys = list(itertools.combinations(range(len(grid.axes)), 2)) or [(0,)]
        with np.errstate(divide="ignore"):
            means = [np.log(self.table(key)[tuple(codes[:, j] for j in key)]).mean() for key in keys]
        return float(np.mean(means))

    @property
    def _grid(self) -> Grid:
        if self.grid is None:
            raise ValueError(f"the density {self.name!r} must be bound to a grid first; decompose() does that.")
        return self.grid

    @property
    def _statistics(self) -> Statistics:
        if self.statistics is None:
            raise ValueError(f"the density {self.name!r} must be bound to rows first; decompose() does that.")
        return self.statistics


@dataclasses.dataclass(frozen=True, eq=False)
class Uniform(Density):
    """Equal weight per bin; with ``measure="length"`` per unit of length between the smallest and largest value.

    Where rows are given, bins of their own for missing or unseen values have weight only if a row is in them. By
    length, intervals without rows are cut at the outermost bounds, and bins of missing values have no weight.
    """

    name: ClassVar[str] = "uniform"
    needs_data: ClassVar[bool] = False
    measure: str = "bins"

    def __post_init__(self) -> None:
        if self.measure not in {"bins", "length"}:
            raise ValueError(f"`measure` must be 'bins' or 'length', got {self.measure!r}; leave it out for 'bins'.")

    @functools.cached_property
    def joint(self) -> Joint:
        """Independent features."""
        return Product([self._axis_weights(j) for j in range(len(self._grid.axes))])

    def _axis_weights(self, j: int) -> Floats:
        axis = self._grid.axes[j]
        if self.measure == "bins" or not len(axis.thresholds):
            return self._equal_weights(j, axis)
        known = axis.thresholds[np.isfinite(axis.thresholds)]
        values = None if self.statistics is None else self.statistics.value_range(j)
        if values is not None:
            known = np.concatenate([known, values])
        if not len(known) or known.min() == known.max():
            return self._equal_weights(j, axis)
        ends = np.clip(axis.edges, known.min(), known.max())
        lengths = np.zeros(axis.size)
        lengths[: axis.n_regular] = np.diff(ends / np.abs(ends).max())  # sums of huge lengths would overflow
        weights: Floats = lengths / lengths.sum()
        return weights

    def _equal_weights(self, j: int, axis: Axis) -> Floats:
        """One share per bin; none for bins apart, of missing or unseen values, that no row is in."""
        counted = np.ones(axis.size, dtype=bool)
        n_plain = axis.n_regular
        if self.statistics is not None and axis.size > n_plain > 0:
            counted[n_plain:] = self.statistics.counts((j,))[n_plain:] > 0
        weights: Floats = counted / counted.sum()
        return weights


@dataclasses.dataclass(frozen=True, eq=False)
class Empirical(Density):
    """Shares of the rows; of other rows where `X` is given, with their weights in `sample_weight`."""

    name: ClassVar[str] = "empirical"
    X: Any = dataclasses.field(default=None, repr=False)
    sample_weight: Any = dataclasses.field(default=None, repr=False)
    data: dataclasses.InitVar[Any] = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self, data: Any) -> None:
        if data is not None:
            warnings.warn("Empirical(data=…) is now Empirical(X=…); `data` will be removed.", DeprecationWarning, 3)
            object.__setattr__(self, "X", data)
        if self.X is None and self.sample_weight is not None:
            raise ValueError(
                f"`sample_weight` of Empirical must come with its `X`, got {shown_weights(self.sample_weight)} and "
                "X=None; pass weights of the rows of decompose() to decompose(sample_weight=…)."
            )

    def bind(self, grid: Grid, statistics: Statistics | None) -> Self:
        """Bound to its own rows where it has some, otherwise to those given."""
        if self.X is None:
            return super().bind(grid, statistics)
        if statistics is not None and statistics.has_weights:
            raise ValueError(
                "`sample_weight` must weigh the rows that define the density, got weights of X with Empirical(X=…); "
                "pass Empirical(X, sample_weight=…)."
            )
        return super().bind(grid, statistics_of(self.X, grid, self.sample_weight))

    @functools.cached_property
    def joint(self) -> Joint:
        """The rows."""
        return Rows(self._statistics)


@dataclasses.dataclass(frozen=True, eq=False)
class Laplace(Density):
    """`mix` of the uniform and 1 - `mix` of the empirical density."""

    name: ClassVar[str] = "laplace"
    mix: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.mix <= 1:
            raise ValueError(f"`mix` must be from 0 to 1, got {self.mix!r}; 0.5 is the paper's.")

    @functools.cached_property
    def joint(self) -> Joint:
        """Mixture of both."""
        uniform = Uniform(grid=self._grid, statistics=self._statistics).joint
        return Mixture((1 - self.mix, self.mix), (Rows(self._statistics), uniform))


@dataclasses.dataclass(frozen=True, eq=False)
class Independent(Density):
    """Product of the empirical marginals."""

    name: ClassVar[str] = "independent"

    @functools.cached_property
    def joint(self) -> Joint:
        """Independent features."""
        return _independent(self._statistics)


def _independent(statistics: Statistics) -> Product:
    return Product([statistics.counts((j,)) for j in range(len(statistics.grid.axes))])


@dataclasses.dataclass(frozen=True, eq=False)
class Shrinkage(Density):
    """(1 - λ) empirical + λ independent; λ by James and Stein's rule over pairs of features unless given.

    λ = Σ Var(p̂) / Σ (p̂ - product)², summed over cells, with Var(p̂) = p̂ (1 - p̂) / (n - 1). Pairs count where both
    features have rows in several bins; a hundred of them where there are more.
    """

    name: ClassVar[str] = "shrinkage"
    intensity: float | None = None

    def __post_init__(self) -> None:
        if self.intensity is not None and not 0 <= self.intensity <= 1:
            raise ValueError(f"`intensity` must be from 0 to 1, got {self.intensity!r}; leave it out to estimate it.")

    @functools.cached_property
    def used_intensity(self) -> float:
        """λ as given, or as estimated from the rows."""
        return _intensity(self._statistics) if self.intensity is None else self.intensity

    @functools.cached_property
    def joint(self) -> Joint:
        """Mixture of both."""
        share = self.used_intensity
        return Mixture((1 - share, share), (Rows(self._statistics), _independent(self._statistics)))


def _intensity(statistics: Statistics) -> float:
    """James and Stein's λ, pooled over pairs of features."""
    varied = [j for j in range(len(statistics.grid.axes)) if np.count_nonzero(statistics.counts((j,))) > 1]
    pairs = list(itertools.combinations(varied, 2))
    variance = distance = 0.0
    for pair in pairs[:: max(1, -(-len(pairs) // _PAIRS_FOR_SHRINKAGE))]:
        table = statistics.counts(pair)
        product = np.multiply.outer(table.sum(axis=1), table.sum(axis=0))
        variance += float((table * (1 - table)).sum()) / max(statistics.effective_rows - 1, 1e-9)
        distance += float(((table - product) ** 2).sum())
    return 1.0 if distance <= variance else max(variance / distance, 0.0)


@dataclasses.dataclass(frozen=True, eq=False)
class Table(Density):
    """Weights as given: an array over the bins of all features, a mapping from names to arrays, or a callable.

    The array of a set of features has one axis per feature: in the order of the names in a mapping, of the data
    otherwise. A callable takes names and axes. A mapping must hold every feature that the model uses in some table.
    Sets of features that it lacks are marginals of one that it has, or of the density of largest entropy that has all
    its tables, in which features that no table joins are independent. Tables that contradict each other are refused.
    """

    name: ClassVar[str] = "table"
    needs_data: ClassVar[bool] = False
    weights: Any = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def joint(self) -> Joint:
        """The table of all features, or what tables of fewer give."""
        grid = self._grid
        if not callable(self.weights):
            return joint_of_tables(self._given, grid.sizes)
        if math.prod(grid.sizes) > MOST_CELLS:
            raise ValueError(
                f"`density` must be a table or a density of this module for this, got a callable over "
                f"{math.prod(grid.sizes):,} cells of all features; give tables instead."
            )
        return Cells(self._called(tuple(range(len(grid.axes)))))

    @property
    def is_product(self) -> bool:
        """Whether features are independent; a table is taken for dependent."""
        return False

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        """The array for these features, checked and brought to sum 1."""
        if callable(self.weights):
            return pool_table(self._called_consistently(key), binnings)
        larger = [own for own in self._given if set(key) <= set(own)]
        if not larger:
            return self._joined(key, binnings)
        own = min(larger, key=len)
        return pool_table(self._given[own].sum(axis=tuple(i for i, j in enumerate(own) if j not in key)), binnings)

    def _joined(self, key: Key, binnings: Binnings | None) -> Floats:
        known = {j for own in self._given for j in own}
        lacking = [self._grid.schema.names[j] for j in key if j not in known and self._grid.sizes[j] > 1]
        if lacking:
            raise ValueError(f"`density` must give weights for {', '.join(lacking)}, got none; add them to the table.")
        return self.joint.table(key, binnings)

    @functools.cached_property
    def _given(self) -> dict[Key, Floats]:
        """Tables by positions of features, of sum 1, each with its axes in the order of the features."""
        names = self._grid.schema.names
        tables = self.weights if isinstance(self.weights, Mapping) else {names: self.weights}
        found: dict[Key, Floats] = {}
        for given, array in tables.items():
            own = (given,) if isinstance(given, str) else tuple(given)
            unknown = [name for name in own if name not in names]
            if unknown:
                raise ValueError(f"`density` must be of the model's features, got {unknown[0]!r}; see fx.schema.names.")
            table = np.asarray(array, dtype=np.float64)
            if table.ndim != len(own):
                raise ValueError(
                    f"`density` must give {', '.join(own)} an array with {len(own)} axes, got {table.ndim}."
                )
            order = sorted(range(len(own)), key=lambda i: names.index(own[i]))
            key = tuple(names.index(own[i]) for i in order)
            found[key] = self._checked(key, table.transpose(order))
        check_agreement(found, names)
        return found

    def _called(self, key: Key) -> Floats:
        grid = self._grid
        names = tuple(grid.schema.names[j] for j in key)
        array = self.weights(names, tuple(grid.axes[j] for j in key))
        return self._checked(key, np.asarray(array, dtype=np.float64))

    def _called_consistently(self, key: Key) -> Floats:
        """What a callable gives for features; its marginals must be what it gives for each alone."""
        if key not in self._known:
            table = self._called(key)
            if len(key) > 1:
                alone: dict[Key, Floats] = {(j,): self._called_consistently((j,)) for j in key}
                check_agreement({key: table, **alone}, self._grid.schema.names)
            self._known[key] = table
        return self._known[key]

    @functools.cached_property
    def _known(self) -> dict[Key, Floats]:
        return {}

    def _checked(self, key: Key, array: Floats) -> Floats:
        """Weights of sum 1, or an error that says what is wrong."""
        names = ", ".join(self._grid.schema.names[j] for j in key)
        expected = tuple(self._grid.sizes[j] for j in key)
        if array.shape != expected or not np.isfinite(array).all() or (array < 0).any() or not array.any():
            raise ValueError(
                f"`density` must give {names} non-negative weights of shape {expected}, not all zero, got "
                f"shape {array.shape}; give one weight per cell of the grid."
            )
        scaled = array / array.max()  # sums of huge weights would overflow
        table: Floats = scaled / scaled.sum()
        return table


class Choice(NamedTuple):
    """What was chosen for a pair: its name, and by how much per row its likelihood beats independence and the rest.

    Likelihoods are means over rows, each left out in turn, of the logarithm of weight over product of marginals.
    """

    name: str
    likelihood: float
    over_empirical: float


class _FoundPair(NamedTuple):
    """Table and choice of a pair."""

    table: Floats
    choice: Choice


def _choose(pair: smoothing.Pair, candidates: Sequence[smoothing.Candidate]) -> tuple[smoothing.Candidate, float]:
    """The likeliest candidate and its likelihood; a simple one where it falls short by less than a standard error."""
    shares = pair.shares_there
    logs = {one.name: smoothing.log_ratios(pair, one) for one in candidates}
    likelihoods = {name: float(shares @ own) for name, own in logs.items()}
    chosen = max(likelihoods, key=lambda name: likelihoods[name])
    for simple in (name for name in _SIMPLE if name in logs):
        gap = logs[chosen] - logs[simple]
        mean = float(shares @ gap)
        if mean**2 * pair.first.n_rows <= float(shares @ (gap - mean) ** 2):
            chosen = simple
            break
    return next(one for one in candidates if one.name == chosen), likelihoods[chosen]


@dataclasses.dataclass(frozen=True, eq=False)
class _Smooth(Density):
    """Pairs by the best of some candidates, higher orders by one joint density; marginals are the empirical ones."""

    @abc.abstractmethod
    def _candidates(self, pair: smoothing.Pair) -> list[smoothing.Candidate]:
        """Estimates to choose from."""

    @functools.cached_property
    def joint(self) -> Joint:
        """Rows moved by one kernel per feature."""
        margins = [self._margin(j, None) for j in range(len(self._grid.axes))]
        return kernel_joint(self._statistics, margins, self._bandwidth)

    @property
    def _bandwidth(self) -> float | None:
        return None

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        """Shares of the rows for one feature, the chosen estimate for two, the joint density for more.

        Over coarse bins, a pair is estimated from the counts of the coarse bins themselves.
        """
        if len(key) == 1:
            return self._statistics.counts(key, binnings)
        if len(key) == 2:
            return self._pair(key, binnings).table
        return self.joint.table(key, binnings)

    def difference(self, key: Key, binnings: Binnings | None = None) -> Floats | None:
        """The table of a pair minus that of the joint density."""
        return self.table(key, binnings) - self.joint.table(key, binnings)

    @property
    def choices(self) -> dict[tuple[str, ...], Choice]:
        """What was chosen for each pair of features that a term has needed so far, on the finest bins needed."""
        names = self._grid.schema.names
        by_size = sorted(self._found.items(), key=lambda item: (item[0][0], item[1].table.size))
        return {tuple(names[j] for j in key): pair.choice for (key, _), pair in by_size}

    @functools.cached_property
    def _found(self) -> dict[tuple[Key, tuple[_BinsOfBinning, ...]], _FoundPair]:
        return {}

    @functools.cached_property
    def _margins(self) -> dict[tuple[int, _BinsOfBinning], smoothing.Margin]:
        return {}

    def _margin(self, j: int, binning: Binning | None) -> smoothing.Margin:
        known = j, _bins_of(binning)
        if known not in self._margins:
            self._margins[known] = self._new_margin(j, binning)
        return self._margins[known]

    def _new_margin(self, j: int, binning: Binning | None) -> smoothing.Margin:
        axis, n_ordered = self._grid.axes[j], 0
        if axis.is_ordered:
            n_ordered = (axis if binning is None else binning.axis(axis)).n_regular
        masses = self._statistics.counts((j,), None if binning is None else (binning,))
        values = self._statistics.bin_means(j, binning)[:n_ordered]
        return smoothing.Margin(masses, n_ordered, self._statistics.effective_rows, values)

    def _pair(self, key: Key, binnings: Binnings | None) -> _FoundPair:
        first, second = (None, None) if binnings is None else binnings
        known = key, (_bins_of(first), _bins_of(second))
        if known not in self._found:
            margins = self._margin(key[0], first), self._margin(key[1], second)
            self._found[known] = self._new_pair(margins, self._statistics.counts(key, binnings))
        return self._found[known]

    def _new_pair(self, margins: tuple[smoothing.Margin, smoothing.Margin], shares: Floats) -> _FoundPair:
        pair = smoothing.pair_of(*margins, shares)
        chosen, likelihood = _choose(pair, self._candidates(pair))
        plain = smoothing.log_likelihood(pair, smoothing.empirical(pair, 0.0))
        table = shares if chosen.name == "empirical" else smoothing.full_table(pair, chosen.ratio)
        return _FoundPair(table, Choice(chosen.name, likelihood, likelihood - plain))


_BinsOfBinning = bytes | None


def _bins_of(binning: Binning | None) -> _BinsOfBinning:
    """Which bins a binning merges, as something to look up by; None where it merges none."""
    return None if binning is None or binning.is_identity else binning.bins.tobytes()


@dataclasses.dataclass(frozen=True, eq=False)
class Kernel(_Smooth):
    """Smooth copula times the empirical marginals; `bandwidth` in units of n^(-1/6), by left-out likelihood if None.

    Where it is chosen, estimates sharpened at wider bandwidths are among the candidates.
    """

    name: ClassVar[str] = "kernel"
    bandwidth: float | None = None

    def __post_init__(self) -> None:
        if self.bandwidth is not None and not self.bandwidth > 0:
            raise ValueError(f"`bandwidth` must be positive, got {self.bandwidth!r}; leave it out to choose it.")

    def _candidates(self, pair: smoothing.Pair) -> list[smoothing.Candidate]:
        if self.bandwidth is None:
            return smoothing.kernel_candidates(pair)
        return smoothing.kernel_candidates(pair, (self.bandwidth,), ("ranks",))

    @property
    def _bandwidth(self) -> float | None:
        return self.bandwidth

    def draw(self, n_rows: int, random_state: int = 0) -> BinIndices:
        """Bins of rows drawn from the joint density: rows of the data, each feature moved within its kernel."""
        return self.points(n_rows, np.random.default_rng(random_state)).codes


@dataclasses.dataclass(frozen=True, eq=False)
class Auto(_Smooth):
    """For each pair the estimate under which rows left out are most likely; `choices` tells which.

    Candidates: empirical, independent, Gaussian copula, the likeliest of other families (Student, Frank, Clayton and
    Gumbel with rotations), the best of these times a kernel estimate of what it leaves, kernels of ten bandwidths in
    ranks and in values, the best of these sharpened; where a feature has no order, kernels and shares shrunk towards
    independence. Independence and the Gaussian copula stay unless beaten by more than one standard error.
    """

    name: ClassVar[str] = "auto"

    def _candidates(self, pair: smoothing.Pair) -> list[smoothing.Candidate]:
        return smoothing.all_candidates(pair)


KINDS: dict[str, type[Density]] = {
    kind.name: kind for kind in (Uniform, Empirical, Laplace, Independent, Shrinkage, Kernel, Auto)
}


def density_of(description: Any) -> Density:
    """A density from its name, an object of this module, a mapping of tables, or a callable."""
    if isinstance(description, Density):
        return description
    if isinstance(description, str) and description in KINDS:
        return KINDS[description]()
    is_function = callable(description) and not isinstance(description, type)
    if isinstance(description, (Mapping, np.ndarray)) or is_function:
        return Table(description)
    names = ", ".join(repr(name) for name in KINDS)
    others = "a Density, an array, a mapping of tables or a callable"
    raise ValueError(f"`density` must be one of {names}, {others}, got {description!r}.")
