"""Terms of a decomposition, by the names of their features.

A term adds to the score, and terms add up there. On the response scale they do not: what a term changes depends on
where the others stand. It is therefore shown at one base point, where all other terms are zero, which is their average
under the density: ``response(intercept + value) - response(intercept)``.
"""

from __future__ import annotations

import abc
import dataclasses
import difflib
import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import BinIndices, Floats, Key, Names, label_of
from treeanova.data.columns import encode
from treeanova.data.features import Schema
from treeanova.errors import BudgetError
from treeanova.model.axes import Axis
from treeanova.model.effects import Effects, is_classifier, respond
from treeanova.model.grid import Grid
from treeanova.model.rows import Rows
from treeanova.terms.source import Source
from treeanova.terms.terms import Scope, TermSet
from treeanova.views import RESPONSES


@dataclasses.dataclass(frozen=True, eq=False)
class Term(abc.ABC):
    """One term: its features, its values at rows, and its table where it has one.

    Attributes
    ----------
    features
        Names, in the order of the data.
    schema
        The term's features, and the outputs of the model.

    Examples
    --------
    >>> import numpy as np, treeanova
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> fx = treeanova.decompose(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> term = fx.terms["x0", "x1"]
    >>> term
    Term(x0 × x1: 2 × 2 bins, values -0.25 to 0.25)
    >>> term.has_table, term.values.tolist()
    (True, [[0.25, -0.25], [-0.25, 0.25]])
    >>> term(np.array([[1, 1]])).tolist()
    [0.25]
    """

    features: Names
    schema: Schema = dataclasses.field(repr=False)

    @property
    def order(self) -> int:
        """Number of features."""
        return len(self.features)

    @property
    @abc.abstractmethod
    def has_table(self) -> bool:
        """Whether `axes`, `values` and `weights` are known; all terms can be evaluated at rows."""

    @property
    @abc.abstractmethod
    def axes(self) -> tuple[Axis, ...]:
        """The bins of each feature, which may be coarser than those of the feature in other terms."""

    @property
    @abc.abstractmethod
    def values(self) -> Floats:
        """Values over the bins, with a last axis of outputs where there are several."""

    @property
    @abc.abstractmethod
    def weights(self) -> Floats:
        """Weights of the cells under the density, of sum 1."""

    def __call__(self, X: Any) -> Floats:
        """The term at rows that hold the term's features.

        Parameters
        ----------
        X
            A table, or an array with one column per feature of the term.

        Returns
        -------
        array of shape (n_rows,), or (n_rows, n_outputs) where there are several
        """
        return self._at(encode(X, self.schema))

    @abc.abstractmethod
    def _at(self, encoded: Floats) -> Floats:
        """The term at encoded rows."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TableTerm(Term):
    """A term whose values are known for all cells."""

    table_axes: tuple[Axis, ...]
    table_values: Floats
    table_weights: Floats

    @property
    def has_table(self) -> bool:
        """True."""
        return True

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The bins of each feature."""
        return self.table_axes

    @property
    def values(self) -> Floats:
        """Values over the bins."""
        return self.table_values

    @property
    def weights(self) -> Floats:
        """Weights of the cells."""
        return self.table_weights

    def _at(self, encoded: Floats) -> Floats:
        values: Floats = self.values[tuple(axis.index(encoded[:, i]) for i, axis in enumerate(self.axes))]
        return values

    def __repr__(self) -> str:
        bins = label_of(axis.size for axis in self.axes)
        span = f"values {self.values.min():.4g} to {self.values.max():.4g}"
        return f"Term({label_of(self.features)}: {bins} bins, {span})"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class RowTerm(Term):
    """A term without a table, known at rows only."""

    at_rows: Callable[[Floats], Floats]

    @property
    def has_table(self) -> bool:
        """False."""
        return False

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Raises ValueError."""
        raise self._no_table()

    @property
    def values(self) -> Floats:
        """Raises ValueError."""
        raise self._no_table()

    @property
    def weights(self) -> Floats:
        """Raises ValueError."""
        raise self._no_table()

    def _no_table(self) -> ValueError:
        return ValueError(
            f"term {label_of(self.features)!r} has no table, it is known at rows only; use "
            f"fx.term_values(X, {self.features!r})."
        )

    def _at(self, encoded: Floats) -> Floats:
        return self.at_rows(encoded)

    def __repr__(self) -> str:
        return f"Term({label_of(self.features)}: at rows)"


def names_in(key: str | Collection[str]) -> Names:
    """The names of features in a key, each of which it may name once; KeyError that says what a key is."""
    names = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, Collection) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise KeyError(
            f'terms go by names of features, got {key!r}; a main effect is "a", an interaction ("a", "b"); see '
            "list(fx.terms)"
        )
    doubled = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if doubled:
        raise KeyError(f"a term may name a feature only once, got {key!r}; leave out one {doubled[0]!r}")
    return names


class Terms(Mapping[Names, Term]):
    """Terms by the names of their features: ``terms["a", "b"]`` in any order, ``terms["a"]`` for a main effect."""

    def __init__(self, names: Sequence[Names], make: Callable[[Names], Term]) -> None:
        self._names = tuple(names)
        self._by_set = {frozenset(features): features for features in self._names}
        self._make = make

    def __getitem__(self, key: str | Collection[str]) -> Term:
        return self._make(self.names_of(key))

    def names_of(self, key: str | Collection[str]) -> Names:
        """The features of a term in the order of the data; KeyError with a hint where there is no such term."""
        names = names_in(key)
        known = self._by_set.get(frozenset(names))
        if known is None:
            raise KeyError(self._hint(names))
        return known

    def _hint(self, names: Names) -> str:
        """What to do about a term that is not there."""
        label = label_of(names)
        known = {label_of(features).lower(): features for features in self._names}
        near = [known[text] for text in difflib.get_close_matches(label.lower(), known, n=2)]
        words = (f"terms[{', '.join(map(repr, features))}]" for features in near)
        hint = f"did you mean {' or '.join(words)}? " if near else ""
        return f'no term {label!r} among {len(self._names)}; an interaction is terms["a", "b"]; {hint}see list(terms)'

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, (str, tuple, list, set, frozenset)):
            return False
        names = (key,) if isinstance(key, str) else tuple(key)
        return len(self._by_set.get(frozenset(names), ())) == len(names) > 0

    def __iter__(self) -> Iterator[Names]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        shown = ", ".join(label_of(names) for names in self._names[:6])
        return f"<{len(self)} terms: {shown}{', …' if len(self) > 6 else ''}>"


def term_columns(term: Term) -> dict[str, Any]:
    """Columns of the tidy table of a term: a row per cell with labels and ends of its bins, value and weight."""
    outputs = term.schema.outputs
    cells = np.indices(term.weights.shape).reshape(term.order, -1)
    reserved = {"weight", "value", *(f"value_{output}" for output in outputs)}
    columns: dict[str, Any] = {}
    for name, axis, bins in zip(term.features, term.axes, cells, strict=True):
        labels = np.array(axis.labels, dtype=object)
        columns[f"{name}_bin" if name in reserved else name] = labels[bins].tolist()
        ends = axis.interval_ends
        if ends is not None:
            columns[f"{name}_low"], columns[f"{name}_high"] = ends[0][bins], ends[1][bins]
    flat = term.values.reshape(len(cells[0]), -1)
    for k, output in enumerate(outputs):
        columns["value" if len(outputs) == 1 else f"value_{output}"] = flat[:, k]
    columns["weight"] = term.weights.ravel()
    return columns


@dataclasses.dataclass(frozen=True, eq=False)
class Evaluation:
    """A model and its terms at rows, given by their encoded values or by their bins on `grid`."""

    source: Source
    terms: TermSet
    scope: Scope
    n_jobs: int = 1

    @property
    def grid(self) -> Grid:
        """The grid of all bins of the model."""
        return self.terms.grid

    @property
    def has_remainder(self) -> bool:
        """Whether the model is more than the sum of its terms."""
        return self.scope.order is not None or (not self.scope.is_part and self.terms.leaves_rest)

    def score(self, rows: Rows) -> Floats:
        """Score of rows, shape (n_rows, n_outputs)."""
        return self.source.score(rows, self.n_jobs)

    def at(self, codes: BinIndices, keys: Sequence[Key]) -> Floats:
        """Terms at rows given by their bins, shape (n_rows, n_terms, n_outputs)."""
        return self.terms.at(codes, keys, self.n_jobs)

    @property
    def rest_orders(self) -> tuple[int, ...]:
        """Orders of which some terms are not listed, but added up."""
        return () if self.scope.is_part else self.terms.rest_orders

    @property
    def n_parts(self) -> int:
        """Number of parts that add up to the score: terms, rests of orders, and a remainder where there is one."""
        return len(self.terms.keys) + len(self.rest_orders) + self.has_remainder

    def knows(self, key: Key) -> bool:
        """Whether a term belongs to the decomposition: it is listed, or part of the rest of its order."""
        return key in self._listed or (len(key) in self.rest_orders and self.terms.can_evaluate(key))

    @functools.cached_property
    def _listed(self) -> frozenset[Key]:
        return frozenset(self.terms.keys)

    def rests_at(self, codes: BinIndices, listed: Mapping[Key, Floats]) -> Floats:
        """Sums of the terms of each order that are not listed, shape (n_rows, n_rest_orders, n_outputs).

        `listed` are values of listed terms at these rows as far as they are known already.
        """
        if not self.rest_orders:
            return np.zeros((len(codes), 0, self.terms.n_outputs))
        return self.terms.rests_at(codes, listed, self.n_jobs)

    def rest_shares_at(self, codes: BinIndices) -> Floats:
        """Each term that is not listed, shared equally among its features: shape (n_rows, n_features, n_outputs)."""
        if not self.rest_orders:
            return np.zeros((*codes.shape, self.terms.n_outputs))
        return self.terms.rest_shares_at(codes, self.n_jobs)

    def all_at(self, codes: BinIndices) -> Floats:
        """All terms at rows given by their bins, then rests of orders, and last the remainder where there is one."""
        terms = self.at(codes, self.terms.keys)
        listed = {key: terms[:, i] for i, key in enumerate(self.terms.keys)}
        values = np.concatenate([terms, self.rests_at(codes, listed)], axis=1)
        if not self.has_remainder:
            return values
        rest = self.score(Rows.in_bins(self.grid, codes)) - self.terms.intercept - values.sum(axis=1)
        return np.concatenate([values, rest[:, None]], axis=1)


def rest_label(order: int) -> str:
    """Name of the sum of those terms of an order that are not listed."""
    return f"other terms of order {order}"


SCALES = ("score", "response", "probability")


def is_response(schema: Schema, scale: str) -> bool:
    """Whether a scale is that of the response; ValueError for one that the model does not have."""
    if scale not in SCALES:
        choices = ", ".join(map(repr, SCALES))
        raise ValueError(f"`scale` must be one of {choices}, got {scale!r}; leave it out for 'score'.")
    if scale == "score":
        return False
    if schema.link not in RESPONSES:
        same = schema.link in {"identity", "probability"}
        reason = "where the score is the response already" if same else f"with the link {schema.link!r}"
        raise ValueError(f"`scale` must be 'score' {reason}, got {scale!r}; leave it out.")
    if scale == "probability" and not is_classifier(schema):
        raise ValueError(f"`scale` must be 'score' or 'response' for a model of a mean, got {scale!r}; use 'response'.")
    return True


def response_changes(schema: Schema, intercept: npt.ArrayLike, values: Floats) -> Floats:
    """Changes of the response by values of one term, all other terms being zero; the shape is that of `values`."""
    base = np.atleast_1d(np.asarray(intercept, dtype=np.float64))
    scores = base + values.reshape(-1, len(base))
    changes: Floats = respond(schema, scores) - respond(schema, base[None])
    return changes.reshape(values.shape)


def on_scale(term: Term, intercept: npt.ArrayLike, scale: str) -> Term:
    """A term with a table, with its values on a scale: itself for "score"."""
    if not is_response(term.schema, scale):
        return term
    changes = response_changes(term.schema, intercept, term.values)
    return TableTerm(term.features, term.schema, term.axes, changes, term.weights)


def base_response(schema: Schema, intercept: npt.ArrayLike) -> Floats:
    """The response of each output where all terms are zero."""
    response: Floats = respond(schema, np.atleast_1d(np.asarray(intercept, dtype=np.float64))[None])[0]
    return response


_MAX_CELLS = 1 << 18  # of the joint table: its terms of all orders are purified
_MAX_FEATURES = 12  # of 2^12 terms
_NO_CHANGE = ("identity", "probability")


def response_effects(evaluation: Evaluation) -> Effects:
    """The response in every cell of all features that the terms use, as one tensor.

    Raises ValueError where terms leave a part of the function out or the response is not defined, and BudgetError
    where there are too many cells.
    """
    grid, schema = evaluation.grid, evaluation.grid.schema
    if schema.link in _NO_CHANGE:
        raise ValueError(
            f"on_response_scale() must have a score that differs from the response, got the link {schema.link!r}; the "
            "terms are on the response scale already."
        )
    key = _used(evaluation)
    _check_size(key, grid)
    sizes = [grid.sizes[j] for j in key]
    cells = np.indices(sizes, dtype=np.int32).reshape(len(sizes), -1).T
    codes = np.zeros((len(cells), len(grid.axes)), dtype=np.int32)
    codes[:, list(key)] = cells
    response = respond(schema, evaluation.score(Rows.in_bins(grid, codes)))
    on_response = Grid(_response_schema(schema), grid.axes)
    table = response.reshape(*sizes, -1)
    if not key:
        return Effects(on_response, table, {})
    return Effects(on_response, np.zeros(table.shape[-1]), {key: table})


def _used(evaluation: Evaluation) -> Key:
    """Features that terms use; all that have bins where some terms are not listed."""
    if evaluation.has_remainder or evaluation.rest_orders:
        return tuple(j for j, size in enumerate(evaluation.grid.sizes) if size > 1)
    return tuple(sorted({j for key in evaluation.terms.keys for j in key}))


def _check_size(key: Key, grid: Grid) -> None:
    n_cells = math.prod(grid.sizes[j] for j in key)
    if n_cells > _MAX_CELLS or len(key) > _MAX_FEATURES:
        raise BudgetError(
            f"the response of all {len(key)} features has {n_cells:,} cells and {2 ** len(key):,} terms, more than "
            f"{_MAX_CELLS:,} and {2**_MAX_FEATURES:,}; keep fewer features or terms with select() or drop(), train on "
            'fewer bins, or read single terms with fx.table(key, scale="response").'
        )


def _response_schema(schema: Schema) -> Schema:
    """The schema of a model whose score is the response."""
    link, objective = ("probability", "brier") if is_classifier(schema) else ("identity", "")
    return dataclasses.replace(schema, link=link, objective=objective)
