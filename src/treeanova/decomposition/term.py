"""Terms of a decomposition, by the names of their features.

Terms add up on the score scale. On the response scale, the change by a term depends on the others. It is shown with all
other terms at zero, their average under the density: ``response(intercept + value) - response(intercept)``.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import SEPARATOR, Floats, Key, Names, label_of, labels_of
from treeanova.data.columns import encode
from treeanova.data.features import Schema
from treeanova.decomposition.function import Function
from treeanova.errors import BudgetError
from treeanova.model.axes import Axis
from treeanova.model.effects import Effects, is_classifier, respond
from treeanova.model.grid import Grid
from treeanova.model.rows import Rows
from treeanova.views import RESPONSES


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Term:
    """One term: its features, its values at rows, and its table if it has one.

    Attributes
    ----------
    features
        Names, in the order of the data.
    schema
        The term's features, and the outputs of the model.
    at_rows
        The term as a function of encoded rows that hold its features; None if it has a table.
    table
        Axes, values over their bins, and weights of the cells; None if the term has values at rows only.

    Examples
    --------
    >>> import numpy as np
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> term = fx.terms["x0", "x1"]
    >>> term
    Term(x0 × x1: 2 × 2 bins, values -0.25 to 0.25)
    >>> term.has_table, term.values.tolist()
    (True, [[0.25, -0.25], [-0.25, 0.25]])
    >>> term(np.array([[1, 1]])).tolist()
    [0.25]
    """

    features: Names
    schema: Schema
    at_rows: Callable[[Floats], Floats] | None = None
    table: tuple[tuple[Axis, ...], Floats, Floats] | None = None

    @property
    def order(self) -> int:
        """Number of features."""
        return len(self.features)

    @property
    def has_table(self) -> bool:
        """Whether `axes`, `values` and `weights` are available; all terms can be evaluated at rows."""
        return self.table is not None

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The bins of each feature, which may be coarser than in other terms."""
        return self._table[0]

    @property
    def values(self) -> Floats:
        """Values over the bins, with a last axis of outputs if there are several."""
        return self._table[1]

    @property
    def weights(self) -> Floats:
        """Weights of the cells under the density, of sum 1."""
        return self._table[2]

    @property
    def _table(self) -> tuple[tuple[Axis, ...], Floats, Floats]:
        if self.table is None:
            raise ValueError(
                f"term {label_of(self.features)!r} has no table, it is known at rows only; use "
                f"fx.term_values(X, {self.features!r})."
            )
        return self.table

    def __call__(self, X: Any) -> Floats:
        """Evaluate the term at rows that hold its features.

        Parameters
        ----------
        X
            A table, or an array with one column per feature of the term.

        Returns
        -------
        array of shape (n_rows,), or (n_rows, n_outputs) if there are several
        """
        encoded = encode(X, self.schema)
        if self.at_rows is not None:
            return self.at_rows(encoded)
        values: Floats = self.values[tuple(axis.index(encoded[:, i]) for i, axis in enumerate(self.axes))]
        return values

    def __repr__(self) -> str:
        label = label_of(self.features)
        if not self.has_table:
            return f"Term({label}: at rows)"
        bins = label_of(axis.size for axis in self.axes)
        return f"Term({label}: {bins} bins, values {self.values.min():.4g} to {self.values.max():.4g})"


class TermKeyError(KeyError):
    """A key that no term has; unlike KeyError, it prints its message without quotes."""

    def __str__(self) -> str:
        return str(self.args[0])


class Terms(Mapping[Names, Term]):
    """Terms by the names of their features, or by their labels.

    ``terms["a", "b"]`` in any order, ``terms["a × b"]`` as tables print it, ``terms["a"]`` for a main effect.
    """

    def __init__(self, names: Sequence[Names], features: Sequence[str], make: Callable[[Names], Term]) -> None:
        self._names, self._features, self._make = tuple(names), set(features), make
        self._by_set = {frozenset(term): term for term in self._names}
        self._by_label = dict(zip(labels_of(self._names, features), self._names, strict=True))

    def __getitem__(self, key: str | Collection[str]) -> Term:
        return self._make(self.names_of(key))

    @property
    def labels(self) -> Mapping[str, Names]:
        """Features of each term by its label."""
        return self._by_label

    def features_in(self, key: str | Collection[str]) -> Names:
        """Return the names in a key; raise KeyError if it is malformed or has a name twice."""
        if isinstance(key, str):
            if key in self._features:
                return (key,)
            words = tuple(key.split(SEPARATOR))
            key = self._by_label.get(key) or (words if self._features.issuperset(words) else (key,))
        names = tuple(key) if isinstance(key, Collection) else ()
        if not names or not all(isinstance(name, str) for name in names):
            raise TermKeyError(
                f'a key must be a name, a label or names of features, got {key!r}; a main effect is "a", an '
                'interaction ("a", "b") or "a × b"; see list(fx.terms)'
            )
        doubled = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if doubled:
            raise TermKeyError(f"a term may name a feature only once, got {key!r}; leave out one {doubled[0]!r}")
        return names

    def names_of(self, key: str | Collection[str]) -> Names:
        """Return a term's features in the order of the data; raise KeyError with a hint if there is no such term."""
        names = self.features_in(key)
        return self._by_set.get(frozenset(names)) or self._refuse(names)

    def _refuse(self, names: Names) -> NoReturn:
        label = label_of(names)
        labels = {label_of(term).lower(): term for term in self._names}
        near = [labels[text] for text in difflib.get_close_matches(label.lower(), labels, n=2)]
        words = (f"terms[{', '.join(map(repr, term))}]" for term in near)
        hint = f"did you mean {' or '.join(words)}? " if near else ""
        raise TermKeyError(
            f'no term {label!r} among {len(self._names)}; an interaction is terms["a", "b"]; {hint}see list(terms)'
        )

    def __contains__(self, key: object) -> bool:
        try:
            return isinstance(key, str | Collection) and frozenset(self.features_in(key)) in self._by_set
        except KeyError:
            return False

    def __iter__(self) -> Iterator[Names]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        shown = ", ".join(label_of(names) for names in self._names[:6])
        return f"<{len(self)} terms: {shown}{', …' if len(self) > 6 else ''}>"


def term_columns(term: Term) -> dict[str, Any]:
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


# The response scale.

SCALES = ("score", "response", "probability")
_SAME_SCALE = ("identity", "probability")  # links with which the score is the response


def is_response(schema: Schema, scale: str) -> bool:
    """Whether a scale is that of the response; raise ValueError if the model does not have it."""
    if scale not in SCALES:
        choices = ", ".join(map(repr, SCALES))
        raise ValueError(f"`scale` must be one of {choices}, got {scale!r}; leave it out for 'score'.")
    if scale == "score":
        return False
    if schema.link not in RESPONSES:
        reason = "if the score is already the response" if schema.link in _SAME_SCALE else f"for link {schema.link!r}"
        raise ValueError(f"`scale` must be 'score' {reason}, got {scale!r}; leave it out.")
    if scale == "probability" and not is_classifier(schema):
        raise ValueError(f"`scale` must be 'score' or 'response' for a model of a mean, got {scale!r}; use 'response'.")
    return True


def response_changes(schema: Schema, intercept: npt.ArrayLike, values: Floats) -> Floats:
    """Return changes of the response by values of one term, all others being zero, in the shape of `values`."""
    base = np.atleast_1d(np.asarray(intercept, dtype=np.float64))
    scores = base + values.reshape(-1, len(base))
    changes: Floats = respond(schema, scores) - respond(schema, base[None])
    return changes.reshape(values.shape)


def on_scale(term: Term, intercept: npt.ArrayLike, scale: str) -> Term:
    if not is_response(term.schema, scale):
        return term
    changes = response_changes(term.schema, intercept, term.values)
    return dataclasses.replace(term, table=(term.axes, changes, term.weights))


def base_response(schema: Schema, intercept: npt.ArrayLike) -> Floats:
    response: Floats = respond(schema, np.atleast_1d(np.asarray(intercept, dtype=np.float64))[None])[0]
    return response


_MAX_CELLS = 1 << 18  # of the joint table: its terms of all orders are purified
_MAX_FEATURES = 12  # of 2^12 terms


def response_effects(function: Function) -> Effects:
    """Return the response in every cell of all used features; raise ValueError or BudgetError if impossible."""
    grid, schema = function.grid, function.grid.schema
    if schema.link in _SAME_SCALE:
        raise ValueError(
            f"on_response_scale() must have a score that differs from the response, got the link {schema.link!r}; the "
            "terms are on the response scale already."
        )
    key = _features_of(function)
    n_cells = math.prod(grid.sizes[j] for j in key)
    if n_cells > _MAX_CELLS or len(key) > _MAX_FEATURES:
        raise BudgetError(
            f"the response of all {len(key)} features has {n_cells:,} cells and {2 ** len(key):,} terms, more than "
            f"{_MAX_CELLS:,} and {2**_MAX_FEATURES:,}; keep fewer features or terms with select() or drop(), train on "
            'fewer bins, or read single terms with fx.table(key, scale="response").'
        )
    sizes = [grid.sizes[j] for j in key]
    cells = np.indices(sizes, dtype=np.int32).reshape(len(sizes), -1).T
    codes = np.zeros((len(cells), len(grid.axes)), dtype=np.int32)
    codes[:, list(key)] = cells
    table = respond(schema, function.score(Rows.in_bins(grid, codes))).reshape(*sizes, -1)
    link, objective = ("probability", "brier") if is_classifier(schema) else ("identity", "")
    on_response = Grid(dataclasses.replace(schema, link=link, objective=objective), grid.axes)
    return Effects(on_response, np.zeros(table.shape[-1]), {key: table}) if key else Effects(on_response, table, {})


def _features_of(function: Function) -> Key:
    """Return the features of all terms; with unlisted terms, all features that have bins."""
    if function.has_remainder or function.rest_orders:
        return tuple(j for j, size in enumerate(function.grid.sizes) if size > 1)
    return tuple(sorted({j for key in function.terms.keys for j in key}))
