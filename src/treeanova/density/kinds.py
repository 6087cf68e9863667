"""Kinds of densities: uniform, empirical, Laplace, independent, shrinkage, reference rows; the names of all."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np

from treeanova.core.arrays import Floats, Key
from treeanova.data.columns import encode_rows
from treeanova.density import costs
from treeanova.density.base import Density, EmpiricalJoint, Joint, Mixture, Product
from treeanova.density.counting import Binnings, Request
from treeanova.density.smooth import Auto, Kernel
from treeanova.density.statistics import Statistics, statistics_of, text_of_weights
from treeanova.density.table import Table
from treeanova.model.grid import Grid
from treeanova.model.rows import Rows

_DEFAULT_MIX = 0.5


@dataclasses.dataclass(frozen=True, eq=False)
class Uniform(Density):
    """Weigh all bins equally, or by their length, with independent features.

    Generally preferred to see the model itself, whatever the rows; equivalent to effect coding of the bins (sum to zero
    contrasts), and ``"effect-coding"`` is another name of it. The intercept is then the mean of the cells, which is the
    mean of the rows only if every cell has as many.

    If rows are given, bins that hold only missing or unseen values have weight only if they have rows. By length, the
    outermost intervals end at the smallest and largest value of the rows (without rows, at the outermost thresholds,
    which gives them no weight), and bins of missing values have no weight. Bins of a feature without
    intervals of positive length, as without thresholds, are weighed equally instead, those of missing values too.

    Parameters
    ----------
    measure
        ``"bins"`` for equal weight per bin, ``"length"`` for equal weight per unit of length of numeric features.

    Examples
    --------
    >>> import numpy as np, treeanova
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0.0], [2.0], [8.0]])  # thresholds at 1 and 5
    >>> model = DecisionTreeRegressor().fit(X, X[:, 0])
    >>> fx = treeanova.decompose(model, X, density=treeanova.density.Uniform(measure="length"))
    >>> fx.density.table((0,)).round(6).tolist()
    [0.125, 0.5, 0.375]
    """

    name: ClassVar[str] = "uniform"
    needs_data: ClassVar[bool] = False
    measure: str = "bins"

    def __post_init__(self) -> None:
        if self.measure not in {"bins", "length"}:
            raise ValueError(f"`measure` must be 'bins' or 'length', got {self.measure!r}; leave it out for 'bins'.")

    @functools.cached_property
    def joint(self) -> Joint:
        return Product([self._bin_weights(j) for j in range(len(self._bound_grid.axes))])

    def _weights_by_length(self, j: int) -> Floats | None:  # None if the bins of a feature have no length
        axis = self._bound_grid.axes[j]
        values = None if self.statistics is None else self.statistics.value_range(j)
        if not len(axis.thresholds):
            return None
        finite = np.concatenate([axis.thresholds[np.isfinite(axis.thresholds)], values or ()])
        if not len(finite) or finite.min() == finite.max():
            return None
        ends = np.clip(axis.edges, finite.min(), finite.max())
        lengths = np.zeros(axis.size)
        lengths[: axis.n_regular] = np.diff(ends / np.abs(ends).max())  # sums of huge lengths would overflow
        return lengths / lengths.sum()

    def _bin_weights(self, j: int) -> Floats:
        """Return a feature's weights: by length, or equal except for bins of missing or unseen values without rows."""
        by_length = self._weights_by_length(j) if self.measure == "length" else None
        if by_length is not None:
            return by_length
        axis = self._bound_grid.axes[j]
        has_weight = np.ones(axis.size, dtype=bool)
        if self.statistics is not None and axis.n_extra and axis.n_regular:
            has_weight[axis.n_regular :] = self.statistics.counts((j,))[axis.n_regular :] > 0
        return has_weight / has_weight.sum()


@dataclasses.dataclass(frozen=True, eq=False)
class Empirical(Density):
    """Weigh each cell by its share of the rows.

    Generally preferred where rows are the whole population, or plenty for all cells. Equivalent to `Laplace(mix=0)` and
    to `Shrinkage(intensity=0)`.

    Parameters
    ----------
    X, sample_weight
        Rows that define the density, in place of those passed to `decompose`, and their weights.

    Examples
    --------
    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()
    >>> fx.with_density(treeanova.density.Empirical(X[[0, 0, 0, 3]])).density.table((0,)).tolist()
    [0.75, 0.25]
    """

    name: ClassVar[str] = "empirical"
    is_empirical: ClassVar[bool] = True
    X: Any = dataclasses.field(default=None, repr=False)
    sample_weight: Any = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.X is None and self.sample_weight is not None:
            raise ValueError(
                f"`sample_weight` of Empirical must come with its `X`, got {text_of_weights(self.sample_weight)} and "
                "X=None; pass weights of the rows of decompose() to decompose(sample_weight=…)."
            )

    def bind(self, grid: Grid, statistics: Statistics | None) -> Self:
        if self.X is None:
            return super().bind(grid, statistics)
        if statistics is not None and statistics.has_weights:
            raise ValueError(
                "`sample_weight` must weigh the rows that define the density, got weights of X with Empirical(X=…); "
                "pass Empirical(X, sample_weight=…)."
            )
        required = () if statistics is None else statistics.required
        return super().bind(grid, statistics_of(self.X, grid, self.sample_weight, required))

    @functools.cached_property
    def joint(self) -> Joint:
        return EmpiricalJoint(self._bound_statistics)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Laplace(Density):
    """Mix the uniform and the empirical density, or add a constant to the counts of rows in every cell.

    Generally preferred to compare with results that use it, such as the paper's; otherwise `Auto` adapts to the rows.
    Equivalent to `Empirical` for ``mix=0`` and to `Uniform` for ``mix=1``.

    With `mix`, it is one joint probability. With `counts`, every cell of every term gets that many rows more: a cell of
    a term with C cells has the weight (rows in it + counts) / (rows + counts · C), where weighted rows are scaled to
    their effective number. A term with more cells then gets more of the uniform density, so tables of different terms
    have **different marginals** of the same feature: no joint density has all these tables, and each term is pure under
    its own. `Certificate.marginal_gap` states how much they differ. Variances and covariances of terms (`importance`)
    are those at the rows. Deep ensembles, whose high-order terms have no tables, raise ValueError.

    Parameters
    ----------
    mix
        Share of the uniform density, from 0 to 1.
    counts
        Rows to add to every cell of every term, above 0, in place of `mix`: 1 for Laplace's rule of succession.

    Examples
    --------
    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()
    >>> rows = X[[0, 0, 0, 3]]
    >>> fx.with_density(treeanova.density.Laplace(mix=0.5), rows).density.table((0,)).tolist()
    [0.625, 0.375]
    >>> (6 * fx.with_density(treeanova.density.Laplace(counts=1), rows).density.table((0,))).tolist()
    [4.0, 2.0]
    """

    name: ClassVar[str] = "laplace"
    is_empirical: ClassVar[bool] = True
    mix: float = _DEFAULT_MIX
    counts: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.mix, Real) or not 0 <= self.mix <= 1:
            raise ValueError(f"`mix` must be from 0 to 1, got {self.mix!r}; leave it out for 0.5, as in the paper.")
        if self.counts is None:
            return
        if not (isinstance(self.counts, Real) and self.counts > 0 and math.isfinite(self.counts)):
            raise ValueError(f"`counts` must be a number above 0, got {self.counts!r}; 1 is Laplace's rule.")
        if self.mix != _DEFAULT_MIX:
            raise ValueError(f"`counts` must come without `mix`, got mix={self.mix!r} too; choose one of them.")

    def __repr__(self) -> str:
        return f"Laplace(mix={self.mix})" if self.counts is None else f"Laplace(counts={self.counts})"

    @property
    def is_consistent(self) -> bool:
        return self.counts is None

    @property
    def population(self) -> Density:
        is_bound = self.grid is not None
        return self if self.counts is None or not is_bound else Empirical(grid=self.grid, statistics=self.statistics)

    @functools.cached_property
    def joint(self) -> Joint:
        rows = EmpiricalJoint(self._bound_statistics)
        return rows if self.counts is not None else Mixture((1 - self.mix, self.mix), (rows, self._uniform))

    @functools.cached_property
    def _uniform(self) -> Joint:  # what the rows are mixed with
        return Uniform(grid=self._bound_grid, statistics=self._bound_statistics).joint

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        if self.counts is None:
            return super().table(key, binnings)
        statistics = self._bound_statistics
        counted = statistics.counts(key, binnings) * statistics.effective_rows
        counted += self.counts * (self._uniform.table(key, binnings) > 0)
        return counted / counted.sum()

    def check_trees(self, *, has_merged_bins: bool) -> None:
        if self.counts is not None:
            raise ValueError(
                f"`density` must be one joint density where terms have no tables or bins are merged, got {self!r}, "
                "whose tables have different marginals; use Laplace(mix=…), or tables of all terms (`tensor_order`, "
                "`budget`)."
            )
        super().check_trees(has_merged_bins=has_merged_bins)


@dataclasses.dataclass(frozen=True, eq=False)
class Independent(Density):
    """Take features as independent, each with its shares of the rows.

    Generally preferred for interventional questions, and for speed with deep ensembles; equivalent to
    `Shrinkage(intensity=1)`.

    Examples
    --------
    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()
    >>> fx.with_density(treeanova.density.Independent(), X[[0, 1, 3, 3]]).density.table((0, 1)).tolist()
    [[0.125, 0.375], [0.125, 0.375]]
    """

    name: ClassVar[str] = "independent"

    @functools.cached_property
    def joint(self) -> Joint:
        return _product_of_marginals(self._bound_statistics)


def _product_of_marginals(statistics: Statistics) -> Product:
    return Product([statistics.counts((j,)) for j in range(len(statistics.grid.axes))])


@dataclasses.dataclass(frozen=True, eq=False)
class Shrinkage(Density):
    """Mix (1 - λ) empirical + λ independent, with James and Stein's λ unless it is given.

    Generally preferred where one joint density of few rows is needed; equivalent to `Empirical` for λ = 0 and to
    `Independent` for λ = 1.

    λ = Σ Var(p̂) / Σ (p̂ - product)², summed over the cells of pairs of features, with Var(p̂) = p̂ (1 - p̂) / (n - 1). Of
    the pairs whose features both have rows in several bins, at most a hundred count.

    Parameters
    ----------
    intensity
        The share λ of independence, from 0 to 1; None to estimate it from the rows.

    Examples
    --------
    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()
    >>> half = treeanova.density.Shrinkage(intensity=0.5)
    >>> fx.with_density(half, X[[0, 1, 3, 3]]).density.table((0, 1)).tolist()
    [[0.1875, 0.3125], [0.0625, 0.4375]]
    """

    name: ClassVar[str] = "shrinkage"
    is_empirical: ClassVar[bool] = True
    intensity: float | None = None

    def __post_init__(self) -> None:
        if self.intensity is not None and not (isinstance(self.intensity, Real) and 0 <= self.intensity <= 1):
            raise ValueError(f"`intensity` must be from 0 to 1, got {self.intensity!r}; leave it out to estimate it.")

    @functools.cached_property
    def used_intensity(self) -> float:
        """The given λ, or the one estimated from the rows."""
        return _james_stein_share(self._bound_statistics) if self.intensity is None else self.intensity

    @property
    def with_fixed_tuning(self) -> Self:
        return dataclasses.replace(self, intensity=self.used_intensity)

    @functools.cached_property
    def joint(self) -> Joint:
        share, statistics = self.used_intensity, self._bound_statistics
        return Mixture((1 - share, share), (EmpiricalJoint(statistics), _product_of_marginals(statistics)))


def _james_stein_share(statistics: Statistics) -> float:
    """Return James and Stein's λ: Σ Var(p̂) / Σ (p̂ - product of marginals)² over the cells of pairs of features."""
    # p̂ are shares of rows, Var(p̂) = p̂ (1 - p̂) / (n - 1). Shares of a sample have more noise, which is taken out.
    varied = [j for j in range(len(statistics.grid.axes)) if np.count_nonzero(statistics.counts((j,))) > 1]
    pairs = list(itertools.combinations(varied, 2))
    variance = distance = 0.0
    pairs = pairs[:: max(1, -(-len(pairs) // costs.MAX_SHRINKAGE_PAIRS))]
    statistics.prepare_tables([Request(pair) for pair in pairs])
    for pair in pairs:
        table = statistics.counts(pair, may_estimate=True)
        product = np.multiply.outer(table.sum(axis=1), table.sum(axis=0))
        spread, n_counted = float((table * (1 - table)).sum()), statistics.n_rows_counted(pair)
        variance_of_all = spread / max(statistics.effective_rows - 1, 1e-9)
        variance += variance_of_all
        distance += float(((table - product) ** 2).sum())
        if n_counted < statistics.effective_rows:
            distance += variance_of_all - spread / max(n_counted - 1, 1e-9)
    return 1.0 if distance <= variance else max(variance / distance, 0.0)


_ALL = (Uniform, Empirical, Laplace, Independent, Shrinkage, Kernel, Auto)
KINDS: dict[str, type[Density]] = {**{kind.name: kind for kind in _ALL}, "effect-coding": Uniform}


def density_of(description: Any) -> Density:
    """Return a density from its name, an object of this module, tables or a callable.

    Parameters
    ----------
    description
        A name such as ``"auto"``, a `Density`, an array over the bins of all features, a mapping from names of features
        to arrays, or a callable that takes names and axes; an unknown name or anything else raises ValueError.

    Returns
    -------
    Density
        The density, not bound to a grid yet.

    Examples
    --------
    >>> density_of("laplace")
    Laplace(mix=0.5)
    """
    if isinstance(description, Density):
        return description
    if isinstance(description, str) and description in KINDS:
        return KINDS[description]()
    is_function = callable(description) and not isinstance(description, type)
    if isinstance(description, (Mapping, np.ndarray)) or is_function:
        return Table(description)
    names = ", ".join(repr(name) for name in KINDS)
    raise ValueError(
        f"`density` must be one of {names}, a Density, an array, a mapping of tables or a callable, got "
        f"{description!r}."
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Reference(Density):
    """Put all probability on one row, so that effects are relative to that row.

    Generally preferred to explain what differs from a standard case; equivalent to reference coding, to the anchored
    decomposition and to cut-HDMR.

    The intercept is the score of the row. A main effect is the change if this feature alone leaves the row's bin; an
    interaction is what its features change together beyond that. A term is zero if one of its features is in the row's
    bin. The density is a product of point masses, so terms of any depth and order are exact.

    Nothing varies under one row. Therefore weights of the cells of terms (`Term.weights`), variances and covariances
    (`importance`), and the choice of listed terms of a deep ensemble use the rows of X, or all bins equally without
    rows.

    Parameters
    ----------
    row
        The row: a sequence of values in the order of the features, a mapping from names to values, a pandas Series, or
        a table or matrix of one row. For several rows see `Decomposition.explain` and its `reference`.

    Examples
    --------
    The logical "and" of x0 and x1, seen from (1, 1): each alone takes 1 away, both together no more than that.

    >>> from treeanova.density import Reference
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> anchored = fx.with_density(Reference([1, 1]))
    >>> anchored.intercept, anchored.terms["x0"].values.tolist(), anchored.terms["x0", "x1"].values.tolist()
    (1.0, [-1.0, 0.0], [[1.0, 0.0], [0.0, 0.0]])
    """

    name: ClassVar[str] = "reference"
    needs_data: ClassVar[bool] = False
    baseline: ClassVar[str] = "score of the reference"
    ranks_on_population: ClassVar[bool] = True
    row: Any = dataclasses.field(default=None, repr=False)

    def bind(self, grid: Grid, statistics: Statistics | None) -> Self:
        """Return the density on a grid; raise ValueError if `row` is not one row with the model's features."""
        rows = encode_rows(self.row, grid.schema, name="row")
        if len(rows) != 1:
            raise ValueError(
                f"`row` of Reference must be one row, got {len(rows)}; fx.explain(X, reference=rows) takes several."
            )
        return super().bind(grid, statistics)

    @functools.cached_property
    def joint(self) -> Joint:
        grid = self._bound_grid
        bins = grid.index(Rows(encode_rows(self.row, grid.schema, name="row")))[0]
        return Product([(np.arange(size) == b).astype(np.float64) for size, b in zip(grid.sizes, bins, strict=True)])

    @functools.cached_property
    def population(self) -> Density:
        kind = Uniform if self.statistics is None else Empirical
        return kind(grid=self._bound_grid, statistics=self.statistics)

    def check_trees(self, *, has_merged_bins: bool) -> None:
        """Raise ValueError for merged bins, which would not separate the row from its neighbours."""
        if has_merged_bins:
            raise ValueError(
                "a Reference must have tables of all bins, got merged ones; decompose with a larger `budget`, or use "
                "fx.explain(X, reference=row), which needs no tables."
            )
