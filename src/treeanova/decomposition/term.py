"""Terms of a decomposition, by the names of their features."""

from __future__ import annotations

import abc
import dataclasses
import difflib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Names
from treeanova.core.labels import label_of
from treeanova.data.columns import encode
from treeanova.data.features import Schema
from treeanova.model.axes import Axis


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
