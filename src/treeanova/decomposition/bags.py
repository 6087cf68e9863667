"""Bag: the same model fitted again to resampled rows, and how much its effects vary."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.special

from treeanova.core.arrays import BinIndices, Floats, Names, label_of
from treeanova.data.columns import frame, free_name
from treeanova.data.features import Feature
from treeanova.data.recoding import recoded_column
from treeanova.decomposition.decomposition import Decomposition, mean
from treeanova.decomposition.predictions import Term, backend_of_tables, function_of, term_columns
from treeanova.decomposition.result import Result, aligned_rows
from treeanova.density.statistics import NoRowsError
from treeanova.model.grid import common_classes

_CELLS_AT_ONCE = 2**18


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Bag(Result):
    """A decomposition and those of models fitted to resampled rows; made by `treeanova.bag`.

    Each member was fitted to a bootstrap resample and purified under its density, so their spread contains the
    uncertainty of both model and density.

    Attributes
    ----------
    fx
        The decomposition that bands are drawn around: of the model fitted to all rows, or the mean of given models.
    members
        One decomposition per resample.

    Examples
    --------
    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()
    >>> treeanova.bag([fx.model] * 3, X)
    Bag of 3 decompositions of 3 terms
    """

    fx: Decomposition
    members: tuple[Decomposition, ...]

    def __post_init__(self) -> None:
        kinds = dict.fromkeys(
            f"features {list(fx.schema.names)}, outputs {list(fx.outputs)} ({fx.schema.link})"
            for fx in (self.fx, *self.members)
        )
        if len(kinds) > 1:
            raise ValueError(
                f"models of a bag must have the same features, outputs and link, got {' and '.join(kinds)}; fit them "
                "to the same columns, and with rows of all classes."
            )
        common_classes([fx.schema for fx in (self.fx, *self.members)])
        if len(self.members) < 2:
            raise ValueError(f"a bag must have at least 2 members, got {len(self.members)}; 25 is a good number.")

    def __repr__(self) -> str:
        return f"Bag of {len(self.members)} decompositions of {len(self.fx.terms)} terms"

    def _content_of_dict(self) -> dict[str, Any]:
        errors = self._errors
        terms = [
            {"term": label, "values": self.fx.terms[names].values, "errors": errors[names]}
            for label, names in self.fx.terms.labels.items()
            if names in errors
        ]
        return {"n_members": len(self.members), "outputs": list(self.fx.outputs), "terms": terms}

    def _text_of_top(self, top: int) -> str:
        rows = [
            {
                "term": label,
                "largest |effect|": f"{np.abs(self.fx.terms[names].values).max():.4g}",
                "largest error": f"{self._errors[names].max():.2g}",
            }
            for label, names in self.fx.terms.labels.items()
            if names in self._errors
        ]
        return f"{self!r}\n\n{aligned_rows(rows, top)}"

    @functools.cached_property
    def mean(self) -> Decomposition:
        """The decomposition of the mean of all members under the density of `fx`, on the union of their bins."""
        return mean(self.members).with_density(self.fx.density, self.fx.density.statistics)

    def values(self, key: str | Collection[str]) -> Floats:
        """Evaluate a term of each member at the cells of `fx`, shape (n_members, ...); zero if it has no such term.

        Parameters
        ----------
        key
            Name of a feature, or names of several; the term must have a table.

        Returns
        -------
        numpy.ndarray
            Members first, then the shape of ``fx.terms[key].values``.

        Examples
        --------
        >>> import treeanova.testing
        >>> fx, X = treeanova.testing.example()
        >>> treeanova.bag([fx.model] * 3, X).values("x0").shape
        (3, 2)
        """
        term = self.fx.terms[key]
        if not term.has_table:
            raise ValueError(f"`key` must be a term with a table, got {term.features!r}, which is known at rows only.")
        points = _values_in_bins(self.fx, term)
        return np.stack([_at_cells(self.fx, member, term, points) for member in self.members])

    def standard_errors(self) -> dict[Names, Floats]:
        """Return standard errors of all tables of `fx`, due to both the model and the density.

        Returns
        -------
        dict
            Names of the features of each term to an array of the shape of the term's values; plots and the report take
            it as `errors`.

        Examples
        --------
        >>> import treeanova.testing
        >>> fx, X = treeanova.testing.example()
        >>> bag = treeanova.bag([fx.model] * 3, X)
        >>> list(bag.standard_errors())
        [('x0',), ('x1',), ('x0', 'x1')]
        """
        return dict(self._errors)

    @functools.cached_property
    def _errors(self) -> Mapping[Names, Floats]:
        """Standard deviations over members at the cells of each table of `fx`."""
        tables = [names for names, term in self.fx.terms.items() if term.has_table]
        return {names: self.values(names).std(axis=0, ddof=1) for names in tables}

    def band(self, key: str | Collection[str], level: float = 0.95) -> Any:
        """Return the table of one term with its standard errors, and the lower and upper ends of its band.

        Parameters
        ----------
        key
            Name of a feature, or names of several; the term must have a table.
        level
            Coverage at each cell: normal quantiles times standard errors on either side.

        Returns
        -------
        data frame
            As ``fx.table(key)``, with the columns `error`, `low` and `high` for each output.

        Examples
        --------
        >>> import treeanova.testing
        >>> fx, X = treeanova.testing.example()
        >>> bag = treeanova.bag([fx.model] * 3, X)
        >>> list(bag.band("x0"))
        ['x0', 'x0_low', 'x0_high', 'value', 'weight', 'error', 'low', 'high']
        """
        if not 0 < level < 1:
            raise ValueError(f"`level` must be between 0 and 1, got {level!r}; 0.95 is the default.")
        term = self.fx.terms[key]
        errors = self.values(key).std(axis=0, ddof=1)
        reach = float(scipy.special.ndtri((1 + level) / 2)) * errors
        added = {"error": errors, "low": term.values - reach, "high": term.values + reach}
        columns, outputs = term_columns(term), self.fx.outputs
        for name, numbers in added.items():
            for output, column in zip(outputs, numbers.reshape(term.weights.size, -1).T, strict=True):
                columns[free_name(name if len(outputs) == 1 else f"{name}_{output}", columns)] = column
        return frame(columns, backend_of_tables(self.fx))


def _values_in_bins(fx: Decomposition, term: Term) -> list[Floats]:
    """Return, per feature of a term, an encoded value in each bin: the mean of its rows, or a value at its end."""
    points = []
    for name, axis in zip(term.features, term.axes, strict=True):
        values = axis.examples()
        j = fx.schema.names.index(name)
        if axis.is_ordered:
            statistics = fx.density.statistics if axis.size == fx.grid.axes[j].size else None
            with contextlib.suppress(NoRowsError):
                if statistics is not None:
                    means = statistics.bin_means(j)
                    values = np.where(np.isfinite(means) & ~np.isnan(values), means, values)
        points.append(values)
    return points


def _bins_of(member: Decomposition, j: int, feature: Feature, values: Floats) -> BinIndices:
    """Return a member's bins of values encoded as `feature` says; the member may number categories differently."""
    recoded = recoded_column(values, feature, member.schema.features[j], unseen_by_both=True)
    bins = function_of(member).grid.axes[j].index(values if recoded is None else recoded)
    if bins.min(initial=0) < 0:
        raise ValueError(
            f"models of a bag must accept all values of {feature.name!r} that the first does, got one that refuses a "
            "category or missing values; fit them to rows that have all of them."
        )
    return bins


def _at_cells(fx: Decomposition, member: Decomposition, term: Term, points: Sequence[Floats]) -> Floats:
    """Evaluate a member's term in the cells of a term of `fx`, in the shape of its table; zero without such a term.

    `points` has, per feature of the term, an encoded value in each bin.
    """
    function = function_of(member)
    key = tuple(member.schema.names.index(name) for name in term.features)
    if not function.has_term(key):
        return np.zeros(term.values.shape)
    features = [fx.schema.features[fx.schema.names.index(name)] for name in term.features]
    bins = [_bins_of(member, *of_axis) for of_axis in zip(key, features, points, strict=True)]
    cells = np.stack(np.meshgrid(*bins, indexing="ij"), axis=-1).reshape(-1, len(key))  # all combinations of bins
    values = []
    for start in range(0, len(cells), _CELLS_AT_ONCE):
        block = cells[start : start + _CELLS_AT_ONCE]
        codes = np.zeros((len(block), len(function.grid.axes)), dtype=np.int32)
        codes[:, list(key)] = block
        values.append(function.at(codes, [key])[:, 0])
    return np.concatenate(values).reshape(term.values.shape)


def errors_by_term(errors: Mapping[Names, Floats] | Bag | None) -> Mapping[Names, Floats] | None:
    """Return standard errors by names of features, from what users may pass as `errors`."""
    return errors.standard_errors() if isinstance(errors, Bag) else errors


def check_own_errors(errors: Mapping[Names, Floats] | Bag, term: Term) -> None:
    """Raise ValueError if a term, of the shape of its errors, is not the one around which a bag's members vary."""
    if not isinstance(errors, Bag):
        return
    of_bag = errors.fx.terms[term.features].values
    if not np.allclose(term.values, of_bag, rtol=1e-6, atol=1e-6 * float(np.abs(of_bag).max(initial=0.0))):
        raise ValueError(
            f"`errors` must be those of the term {label_of(term.features)!r} that is shown, got a Bag whose fx has "
            "another one: of another model, density or scale, raw or edited; pass the Bag together with its own fx."
        )
