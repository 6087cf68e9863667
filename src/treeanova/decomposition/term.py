"""Terms of a decomposition, by the names of their features."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Names
from treeanova.core.labels import label_of
from treeanova.data.columns import encode
from treeanova.data.features import Schema
from treeanova.model.axes import Axis, IntervalAxis


@dataclasses.dataclass(frozen=True, eq=False)
class Term:
    """One term: features, axes, values over their bins, and weights of the cells.

    Attributes
    ----------
    features
        Names, in the order of the data.
    axes
        Their bins.
    values
        Shape of the bins, with a last axis of outputs where there are several.
    weights
        Shape of the bins; sum 1.
    """

    features: Names
    axes: tuple[Axis, ...]
    values: Floats
    weights: Floats
    schema: Schema = dataclasses.field(repr=False)

    @property
    def order(self) -> int:
        """Number of features."""
        return len(self.features)

    def __call__(self, X: Any) -> Floats:
        """The term at rows that hold its own features: a table, or an array with one column per feature."""
        encoded = encode(X, self.schema)
        values: Floats = self.values[tuple(axis.index(encoded[:, i]) for i, axis in enumerate(self.axes))]
        return values

    def __repr__(self) -> str:
        bins = label_of(axis.size for axis in self.axes)
        return (
            f"Term({label_of(self.features)}: {bins} bins, values {self.values.min():.4g} to {self.values.max():.4g})"
        )


class Terms(Mapping[Names, Term]):
    """Terms by the names of their features: ``terms["a", "b"]`` in any order, ``terms["a"]`` for a main effect."""

    def __init__(
        self, names: Sequence[Names], make: Callable[[Names], Term], without_table: Collection[Names] = ()
    ) -> None:
        self._names = tuple(names)
        self._without_table = {frozenset(own) for own in without_table}
        self._by_set = {frozenset(own): own for own in self._names}
        self._make = make

    def __getitem__(self, key: str | Collection[str]) -> Term:
        if not isinstance(key, (str, tuple, list, set, frozenset)):
            raise KeyError(f"terms go by names of features, got {key!r}; see list(terms)")
        names = (key,) if isinstance(key, str) else tuple(key)
        found = self._by_set.get(frozenset(names))
        if found is None or len(found) != len(names):
            raise KeyError(self._hint(names))
        return self._make(found)

    def _hint(self, names: tuple[Any, ...]) -> str:
        """What to do about a term that is not there."""
        label = label_of(names)
        if frozenset(names) in self._without_table:
            return f"term {label!r} has no table, it is known at rows only; use fx.term_values(X, {names!r})"
        known = {label_of(own).lower(): own for own in self._names}
        is_text = all(isinstance(name, str) for name in names)
        near = [known[text] for text in difflib.get_close_matches(label.lower(), known, n=2)] if is_text else []
        words = (f"terms[{', '.join(map(repr, own))}]" for own in near)
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


def columns_of(term: Term) -> dict[str, Any]:
    """Columns of the tidy table of a term: a row per cell with labels and ends of its bins, value and weight."""
    outputs = term.schema.outputs
    cells = np.indices(term.weights.shape).reshape(term.order, -1)
    reserved = {"weight", "value", *(f"value_{output}" for output in outputs)}
    columns: dict[str, Any] = {}
    for name, axis, bins in zip(term.features, term.axes, cells, strict=True):
        labels = np.array(axis.labels, dtype=object)
        columns[f"{name}_bin" if name in reserved else name] = labels[bins].tolist()
        if isinstance(axis, IntervalAxis):
            ends = np.full((2, axis.size), np.nan)
            ends[:, : axis.n_regular] = axis.edges[:-1], axis.edges[1:]
            columns[f"{name}_low"], columns[f"{name}_high"] = ends[0][bins], ends[1][bins]
    flat = term.values.reshape(len(cells[0]), -1)
    for k, output in enumerate(outputs):
        columns["value" if len(outputs) == 1 else f"value_{output}"] = flat[:, k]
    columns["weight"] = term.weights.ravel()
    return columns
