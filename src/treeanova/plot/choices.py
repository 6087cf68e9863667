"""What a caller asked for, checked: terms, outputs, standard errors, decompositions by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.core.labels import label_of
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.term import Term

Key = str | Collection[str]


def names_of(key: Key) -> tuple[str, ...]:
    """Names of features from what stands for a term."""
    return (key,) if isinstance(key, str) else tuple(key)


def checked_decomposition(fx: object) -> Decomposition:
    """The decomposition, or an error that says what was passed instead."""
    if not isinstance(fx, Decomposition):
        kind = type(fx).__name__
        raise TypeError(f"`fx` must be a Decomposition, got {kind}; make one with treeanova.decompose(model, X).")
    return fx


def term_of(fx: Decomposition, key: Key) -> Term:
    """The term of some features; an error that lists what there is."""
    found = find_term(fx, key)
    if found is None:
        known = [label_of(names) for names in fx.terms if len(names) == len(names_of(key))] or ["none of that order"]
        shown = ", ".join(known[:8]) + (", …" if len(known) > 8 else "")
        raise ValueError(
            f"`key` must be a term of the decomposition, got {label_of(names_of(key))!r}; there are {shown}."
        )
    return found


def find_term(fx: Decomposition, key: Key) -> Term | None:
    """The term of some features, or None."""
    wanted = sorted(names_of(key))
    return next((fx.terms[names] for names in fx.terms if sorted(names) == wanted), None)


def check_order(key: Key, order: int, remedy: str) -> None:
    """Raise where a key names another number of features than a plot has room for."""
    names = names_of(key)
    if len(names) != order:
        what = "one feature" if order == 1 else "two features"
        raise ValueError(f"`key` must name {what}, got {len(names)} ({label_of(names)}); {remedy}.")


def output_of(fx: Decomposition, output: str | int | None) -> int:
    """Position of an output given by name or position; the first where none is given."""
    outputs = fx.schema.outputs
    if output is None:
        return 0
    if isinstance(output, int | np.integer) and not isinstance(output, bool) and -len(outputs) <= output < len(outputs):
        return int(output) % len(outputs)
    if str(output) in outputs and not isinstance(output, int | np.integer):
        return outputs.index(str(output))
    choices = ", ".join(map(repr, outputs))
    raise ValueError(f"`output` must be one of {choices} or a position below {len(outputs)}, got {output!r}.")


def values_of(fx: Decomposition, values: Floats, position: int) -> Floats:
    """Values of one output."""
    return values if len(fx.schema.outputs) == 1 else values[..., position]


def ends_of(fx: Decomposition, name: str) -> tuple[float, float] | None:
    """Between which numbers 99 % of a feature's finite values lie in the rows of the density, where there are some."""
    encoded = getattr(fx.density.sample, "encoded", None)
    if encoded is None:
        return None
    values = encoded[:, fx.schema.names.index(name)]
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    low, high = np.quantile(values, [0.005, 0.995])
    return float(low), float(high)


def errors_of(errors: Mapping[Any, Floats] | None, term: Term) -> Floats | None:
    """Standard errors of a term from those of all, in the form of its values."""
    if errors is None:
        return None
    if not isinstance(errors, Mapping):
        raise TypeError(f"`errors` must be what fx.standard_errors() returned, got {type(errors).__name__}.")
    found = errors.get(term.features)
    if found is None or np.shape(found) != term.values.shape:
        name = label_of(term.features)
        raise ValueError(
            f"`errors` must have the term {name!r} on the same bins, got others; use fx.standard_errors()."
        )
    return np.asarray(found)


def named_decompositions(parts: Mapping[str, Decomposition] | Sequence[Decomposition]) -> dict[str, Decomposition]:
    """Decompositions by name; in a list they go by their densities."""
    if isinstance(parts, Decomposition) or not isinstance(parts, Mapping | Sequence):
        kind = type(parts).__name__
        raise TypeError(
            f"`decompositions` must be a mapping or a list, got {kind}; pass {{'raw': fx.raw, 'pure': fx}}."
        )
    if not parts:
        raise ValueError("`decompositions` must hold at least one, got none; pass {'raw': fx.raw, 'pure': fx}.")
    named = dict(parts) if isinstance(parts, Mapping) else _by_density(parts)
    for part in named.values():
        checked_decomposition(part)
    outputs = {(part.schema.outputs, part.schema.link) for part in named.values()}
    if len(outputs) > 1:
        raise ValueError(
            "`decompositions` must have the same outputs and link, got others; compare models of one kind."
        )
    return {str(name): part for name, part in named.items()}


def _by_density(parts: Sequence[Decomposition]) -> dict[str, Decomposition]:
    named: dict[str, Decomposition] = {}
    for part in parts:
        base = name = "raw" if checked_decomposition(part).effects is part.raw_effects else str(part.density.name)
        number = 2
        while name in named:
            name, number = f"{base} ({number})", number + 1
        named[name] = part
    return named


def column(table: Any, name: str) -> list[Any]:
    """A column of a table of any library as a list."""
    values: list[Any] = np.asarray(table[name]).tolist()
    return values
