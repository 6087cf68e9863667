"""Densities: the weights of cells under which effects are pure.

A density is described by an object such as ``Laplace(mix=0.5)`` and bound to a grid and rows with `bind`; the one thing
each kind then tells is `table`, the weights over the bins of any set of features. All kinds keep consistent marginals:
the table of fewer features is the marginal of the table of more.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from treeanova import smoothing
from treeanova.columns import encode
from treeanova.features import Floats
from treeanova.grid import Axis, Codes, Grid, IntervalAxis
from treeanova.slices import outer

Key = tuple[int, ...]
_PAIRS_FOR_SHRINKAGE = 100
_NO_WEIGHT = 1e-12
_SIMPLE = ("independent", "gaussian")


@dataclasses.dataclass(frozen=True, eq=False)
class Sample:
    """Rows that define a density: their encoded values, bins on a grid, and weights (of sum 1)."""

    grid: Grid
    encoded: Floats
    weights: Floats | None = None

    @functools.cached_property
    def codes(self) -> Codes:
        """Bins of the rows."""
        return self.grid.index_encoded(self.encoded)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.encoded)

    @property
    def row_weights(self) -> Floats:
        """Weights of the rows, of sum 1."""
        return np.full(self.n_rows, 1 / self.n_rows) if self.weights is None else self.weights

    @property
    def effective_rows(self) -> float:
        """Kish's effective number of rows: 1 / Σ w²."""
        return float(1 / (self.row_weights**2).sum())

    def counts(self, key: Key) -> Floats:
        """Share of the rows in each cell of some features."""
        sizes = tuple(self.grid.sizes[j] for j in key)
        flat = np.zeros(self.n_rows, dtype=np.int64)
        for j, size in zip(key, sizes, strict=True):
            flat *= size
            flat += self.codes[:, j]
        n_cells = int(np.prod(sizes, dtype=np.int64))
        totals = np.bincount(flat, weights=self.weights, minlength=n_cells)
        shares: Floats = totals.astype(np.float64).reshape(sizes)
        return shares / self.n_rows if self.weights is None else shares

    def on(self, grid: Grid) -> Sample:
        """The same rows on another grid."""
        return Sample(grid, self.encoded, self.weights)

    def reweighted(self, weights: Floats) -> Sample:
        """The same rows with other weights, of sum 1."""
        other = Sample(self.grid, self.encoded, weights)
        other.__dict__["codes"] = self.codes  # known already
        return other


def check_weighted_rows(data: Any, sample_weight: Any) -> None:
    """Raise when weights come without the rows that they weigh."""
    if data is None and sample_weight is not None:
        raise ValueError("`sample_weight` must come with the rows that it weighs, got none; pass `X` too.")


def sample_of(data: Any, grid: Grid, sample_weight: npt.ArrayLike | None = None) -> Sample:
    """Rows of user data as a sample; rows of no weight, below 1e-12 of the largest, are left out."""
    encoded = encode(data, grid.schema)
    if len(encoded) == 0:
        raise ValueError("`X` must have at least one row, got none; pass the rows that define the density.")
    if sample_weight is None:
        return Sample(grid, encoded)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (len(encoded),):
        raise ValueError(f"`sample_weight` must have one entry per row, {len(encoded)}, got shape {weights.shape}.")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise ValueError("`sample_weight` must be finite, not negative and not all zero; mend or drop these rows.")
    kept = weights > _NO_WEIGHT * weights.max()
    return Sample(grid, np.asfortranarray(encoded[kept]), weights[kept] / weights[kept].sum())


@dataclasses.dataclass(frozen=True, eq=False)
class Density(abc.ABC):
    """Weights of the cells of any set of features; one abstract method, `table`."""

    name: ClassVar[str]
    needs_data: ClassVar[bool] = True
    is_product: ClassVar[bool] = False
    grid: Grid | None = dataclasses.field(default=None, kw_only=True, repr=False)
    sample: Sample | None = dataclasses.field(default=None, kw_only=True, repr=False)

    def bind(self, grid: Grid, sample: Sample | None) -> Self:
        """The density on a grid, with the rows that define it (None where it needs none)."""
        if self.needs_data and sample is None:
            raise ValueError(
                f"`X` must be given for the density {self.name!r}, got None; pass the rows that define it."
            )
        return dataclasses.replace(self, grid=grid, sample=sample)

    @abc.abstractmethod
    def table(self, key: Key) -> Floats:
        """Weights over the bins of the features at some positions, of sum 1."""

    def rows(self, n_rows: int, rng: np.random.Generator) -> tuple[Codes, Floats]:
        """Bins and weights of rows that stand for the whole density: its own rows, or draws where it has none."""
        del n_rows, rng
        sample = self._sample
        return sample.codes, sample.row_weights

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
    def _sample(self) -> Sample:
        if self.sample is None:
            raise ValueError(f"the density {self.name!r} must be bound to rows first; decompose() does that.")
        return self.sample


def _product_rows(bin_masses: Sequence[Floats], n_rows: int, rng: np.random.Generator) -> tuple[Codes, Floats]:
    """Draws from independent axes."""
    columns = [rng.choice(len(masses), size=n_rows, p=masses) for masses in bin_masses]
    return np.stack(columns, axis=1).astype(np.int32), np.full(n_rows, 1 / n_rows)


@dataclasses.dataclass(frozen=True, eq=False)
class Uniform(Density):
    """Equal weight per bin; with ``measure="length"`` per unit of length between the smallest and largest value.

    Where rows are given, bins of their own for missing or unseen values have weight only if a row is in them. By
    length, intervals without rows are cut at the outermost bounds, and bins of missing values have no weight.
    """

    name: ClassVar[str] = "uniform"
    needs_data: ClassVar[bool] = False
    is_product: ClassVar[bool] = True
    measure: str = "bins"

    def __post_init__(self) -> None:
        if self.measure not in {"bins", "length"}:
            raise ValueError(f"`measure` must be 'bins' or 'length', got {self.measure!r}; leave it out for 'bins'.")

    def table(self, key: Key) -> Floats:
        """Product of the axes' weights."""
        return outer([self._axis_weights(j) for j in key])

    def rows(self, n_rows: int, rng: np.random.Generator) -> tuple[Codes, Floats]:
        """Draws."""
        return _product_rows([self._axis_weights(j) for j in range(len(self._grid.axes))], n_rows, rng)

    def _axis_weights(self, j: int) -> Floats:
        axis = self._grid.axes[j]
        if self.measure == "bins" or not isinstance(axis, IntervalAxis) or not len(axis.bounds):
            return self._equal_weights(j, axis)
        low, high = axis.bounds[0], axis.bounds[-1]
        if self.sample is not None:
            column = self.sample.encoded[:, j]
            finite = column[np.isfinite(column)]
            low, high = min(low, finite.min(initial=low)), max(high, finite.max(initial=high))
        lengths = np.zeros(axis.size)
        lengths[: axis.n_intervals] = np.diff(np.concatenate([[low], axis.bounds, [high]]))
        return lengths / lengths.sum() if lengths.sum() > 0 else np.full(axis.size, 1 / axis.size)

    def _equal_weights(self, j: int, axis: Axis) -> Floats:
        """One share per bin; none for bins apart, of missing or unseen values, that no row is in."""
        counted = np.ones(axis.size, dtype=bool)
        n_plain = axis.n_plain
        if self.sample is not None and axis.size > n_plain > 0:
            counted[n_plain:] = self.sample.counts((j,))[n_plain:] > 0
        weights: Floats = counted / counted.sum()
        return weights


@dataclasses.dataclass(frozen=True, eq=False)
class Empirical(Density):
    """Shares of the rows; of another data set when `data` is given."""

    name: ClassVar[str] = "empirical"
    data: Any = dataclasses.field(default=None, repr=False)

    def bind(self, grid: Grid, sample: Sample | None) -> Self:
        """Bound to its own data, or to the sample."""
        return super().bind(grid, sample if self.data is None else sample_of(self.data, grid))

    def table(self, key: Key) -> Floats:
        """Shares of the rows."""
        return self._sample.counts(key)


@dataclasses.dataclass(frozen=True, eq=False)
class Laplace(Density):
    """`mix` of the uniform and 1 - `mix` of the empirical density."""

    name: ClassVar[str] = "laplace"
    mix: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.mix <= 1:
            raise ValueError(f"`mix` must be from 0 to 1, got {self.mix!r}; 0.5 is the paper's.")

    def table(self, key: Key) -> Floats:
        """Mixture of both tables."""
        table = self._sample.counts(key)
        table *= 1 - self.mix
        table += self.mix * self._uniform.table(key)
        return table

    @property
    def _uniform(self) -> Uniform:
        return Uniform(grid=self._grid, sample=self._sample)

    def rows(self, n_rows: int, rng: np.random.Generator) -> tuple[Codes, Floats]:
        """The rows, and draws from the uniform."""
        codes, weights = super().rows(n_rows, rng)
        more, more_weights = self._uniform.rows(n_rows, rng)
        return np.concatenate([codes, more]), np.concatenate([(1 - self.mix) * weights, self.mix * more_weights])


@dataclasses.dataclass(frozen=True, eq=False)
class Independent(Density):
    """Product of the empirical marginals."""

    name: ClassVar[str] = "independent"
    is_product: ClassVar[bool] = True

    def table(self, key: Key) -> Floats:
        """Product of the marginals."""
        return outer([self._sample.counts((j,)) for j in key])

    def rows(self, n_rows: int, rng: np.random.Generator) -> tuple[Codes, Floats]:
        """Draws."""
        return _product_rows([self._sample.counts((j,)) for j in range(len(self._grid.axes))], n_rows, rng)


@dataclasses.dataclass(frozen=True, eq=False)
class Shrinkage(Density):
    """(1 - λ) empirical + λ independent; λ by James and Stein's rule over all pairs of features unless given.

    λ = Σ Var(p̂) / Σ (p̂ - product)², summed over cells, with Var(p̂) = p̂ (1 - p̂) / (n - 1).
    """

    name: ClassVar[str] = "shrinkage"
    intensity: float | None = None

    def __post_init__(self) -> None:
        if self.intensity is not None and not 0 <= self.intensity <= 1:
            raise ValueError(f"`intensity` must be from 0 to 1, got {self.intensity!r}; leave it out to estimate it.")

    def bind(self, grid: Grid, sample: Sample | None) -> Self:
        """Bound, with λ estimated."""
        bound = super().bind(grid, sample)
        if self.intensity is not None or sample is None:
            return bound
        return dataclasses.replace(bound, intensity=_intensity(sample))

    def table(self, key: Key) -> Floats:
        """Mixture of both tables."""
        share = self.intensity or 0.0
        product = outer([self._sample.counts((j,)) for j in key])
        return (1 - share) * self._sample.counts(key) + share * product

    def rows(self, n_rows: int, rng: np.random.Generator) -> tuple[Codes, Floats]:
        """The rows, and draws from independent marginals."""
        codes, weights = super().rows(n_rows, rng)
        more, more_weights = Independent(grid=self.grid, sample=self.sample).rows(n_rows, rng)
        share = self.intensity or 0.0
        return np.concatenate([codes, more]), np.concatenate([(1 - share) * weights, share * more_weights])


def _intensity(sample: Sample) -> float:
    """James and Stein's λ, pooled over pairs of features (the first hundred where there are more)."""
    variance = distance = 0.0
    pairs = itertools.combinations(range(len(sample.grid.axes)), 2)
    for first, second in itertools.islice(pairs, _PAIRS_FOR_SHRINKAGE):
        table = sample.counts((first, second))
        product = np.multiply.outer(table.sum(axis=1), table.sum(axis=0))
        variance += float((table * (1 - table)).sum()) / max(sample.effective_rows - 1, 1e-9)
        distance += float(((table - product) ** 2).sum())
    return 1.0 if distance <= variance else variance / distance


@dataclasses.dataclass(frozen=True, eq=False)
class Table(Density):
    """Weights as given: an array over the bins of all features, a mapping from names to arrays, or a callable.

    The array of a set of features has one axis per feature: in the order of the names in a mapping, of the data
    otherwise. A callable takes names and axes. Sets that a mapping lacks are marginals of one that it has.
    """

    name: ClassVar[str] = "table"
    needs_data: ClassVar[bool] = False
    weights: Any = dataclasses.field(default_factory=dict)

    def table(self, key: Key) -> Floats:
        """The array for these features, checked and brought to sum 1."""
        grid = self._grid
        names = tuple(grid.schema.names[j] for j in key)
        if callable(self.weights):
            array = np.asarray(self.weights(names, tuple(grid.axes[j] for j in key)), dtype=np.float64)
        else:
            array = self._marginal(names)
        expected = tuple(grid.sizes[j] for j in key)
        if array.shape != expected or not np.isfinite(array).all() or (array < 0).any() or not array.any():
            raise ValueError(
                f"`density` must give {', '.join(names)} non-negative weights of shape {expected}, not all zero, got "
                f"shape {array.shape}; give one weight per cell of the grid."
            )
        table: Floats = array / array.sum()
        return table

    def _marginal(self, names: tuple[str, ...]) -> Floats:
        order = self._grid.schema.names
        tables = self.weights if isinstance(self.weights, Mapping) else {order: self.weights}
        for given, array in tables.items():
            own = (given,) if isinstance(given, str) else tuple(given)
            if set(names) <= set(own):
                table = np.asarray(array, dtype=np.float64)
                if table.ndim != len(own):
                    raise ValueError(
                        f"`density` must give {', '.join(own)} an array with {len(own)} axes, got {table.ndim}."
                    )
                table = table.sum(axis=tuple(i for i, name in enumerate(own) if name not in names))
                kept = [name for name in own if name in names]
                ordered: Floats = table.transpose([kept.index(name) for name in sorted(kept, key=order.index)])
                return ordered
        raise ValueError(f"`density` must give weights for {', '.join(names)}, got none; add them to the table.")

    def rows(self, n_rows: int, rng: np.random.Generator) -> tuple[Codes, Floats]:
        """Rows given with the table; without, independent draws from its marginals."""
        if self.sample is not None:
            return super().rows(n_rows, rng)
        return _product_rows([self.table((j,)) for j in range(len(self._grid.axes))], n_rows, rng)


class Choice(NamedTuple):
    """What was chosen for a pair: its name, and by how much per row its likelihood beats independence and the rest.

    Likelihoods are means over rows, each left out in turn, of the logarithm of weight over product of marginals.
    """

    name: str
    likelihood: float
    over_empirical: float


class _FoundPair(NamedTuple):
    """Table and choice of a pair, and by bins the ratio of a row left out over that of a row left in."""

    table: Floats
    choice: Choice
    optimism: Floats


def _mean_values(sample: Sample, j: int) -> Floats:
    """Mean of the finite values in each bin of a feature; NaN where there are none."""
    column = sample.encoded[:, j]
    finite = np.isfinite(column)
    bins, weights = sample.codes[finite, j], sample.row_weights[finite]
    n_bins = sample.grid.sizes[j]
    masses = np.bincount(bins, weights, minlength=n_bins)
    sums = np.bincount(bins, weights * column[finite], minlength=n_bins)
    means: Floats = np.divide(sums, masses, out=np.full(n_bins, np.nan), where=masses > 0)
    return means


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
    """Pairs by the best of some candidates, higher orders from their pairs; marginals are the empirical ones."""

    @abc.abstractmethod
    def _candidates(self, pair: smoothing.Pair) -> list[smoothing.Candidate]:
        """Estimates to choose from."""

    def table(self, key: Key) -> Floats:
        """Shares of the rows for one feature, the chosen estimate for two, the fit to all pairs for more."""
        if len(key) == 1:
            return self._sample.counts(key)
        if len(key) == 2:
            return self._pair(key).table
        pairs = {(a, b): self._pair((key[a], key[b])) for a, b in itertools.combinations(range(len(key)), 2)}
        tables = {axes: pair.table for axes, pair in pairs.items()}
        if len(key) > 3:
            return smoothing.from_pairs([self._sample.counts((j,)) for j in key], tables)
        optimism = {axes: pair.optimism for axes, pair in pairs.items()}
        return smoothing.of_three([self._margin(j) for j in key], self._sample.counts(key), tables, optimism)

    @property
    def choices(self) -> dict[tuple[str, ...], Choice]:
        """What was chosen for each pair of features that a term has needed so far."""
        names = self._grid.schema.names
        return {tuple(names[j] for j in key): choice for key, (_, choice, _) in sorted(self._found.items())}

    @functools.cached_property
    def _found(self) -> dict[Key, _FoundPair]:
        return {}

    @functools.cached_property
    def _margins(self) -> dict[int, smoothing.Margin]:
        return {}

    def _margin(self, j: int) -> smoothing.Margin:
        if j not in self._margins:
            axis = self._grid.axes[j]
            n_ordered = axis.n_intervals if isinstance(axis, IntervalAxis) else 0
            values = _mean_values(self._sample, j)[:n_ordered]
            n_rows = self._sample.effective_rows
            self._margins[j] = smoothing.Margin(self._sample.counts((j,)), n_ordered, n_rows, values)
        return self._margins[j]

    def _pair(self, key: Key) -> _FoundPair:
        if key not in self._found:
            pair = smoothing.pair_of(self._margin(key[0]), self._margin(key[1]), self._sample.counts(key))
            chosen, likelihood = _choose(pair, self._candidates(pair))
            plain = smoothing.log_likelihood(pair, smoothing.empirical(pair, 0.0))
            is_plain = chosen.name == "empirical"
            table = self._sample.counts(key) if is_plain else smoothing.full_table(pair, chosen.ratio)
            choice = Choice(chosen.name, likelihood, likelihood - plain)
            self._found[key] = _FoundPair(table, choice, smoothing.optimism(pair, chosen))
        return self._found[key]


def _moved(margin: smoothing.Margin, codes: Codes, width: float, rng: np.random.Generator) -> Codes:
    """Bins of rows moved by a kernel, which keeps the masses; bins without an order stay."""
    groups = margin.group[codes]
    matrix = margin.kernel(width)
    moved = np.empty_like(codes)
    for group in np.unique(groups):
        own = groups == group
        cumulative = np.cumsum(margin.masses * matrix[margin.group, group])
        draws = rng.random(np.count_nonzero(own)) * cumulative[-1]
        moved[own] = np.searchsorted(cumulative, draws, side="right")
    return moved


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

    def draw(self, n_rows: int, random_state: int = 0) -> Codes:
        """Bins of rows drawn from the smooth density: rows of the data, each moved within its kernel."""
        rng = np.random.default_rng(random_state)
        sample = self._sample
        codes = sample.codes[rng.choice(sample.n_rows, size=n_rows, p=sample.row_weights)].copy()
        width = (self.bandwidth or 0.5) * sample.effective_rows ** (-1 / 6)
        for j in range(codes.shape[1]):
            codes[:, j] = _moved(self._margin(j), codes[:, j], width, rng)
        return codes


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
