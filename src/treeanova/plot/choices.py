"""Checks of the caller's choices: terms, outputs, standard errors, decompositions by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from treeanova import views
from treeanova.core.arrays import Bools, Floats, Names, label_of
from treeanova.decomposition.bags import Bag, check_own_errors, errors_by_term
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.function import output_position as position_of_output
from treeanova.decomposition.predictions import Term, base_response, is_response, on_scale, response_changes, tables_of
from treeanova.density.statistics import Statistics
from treeanova.model.grid import common_classes
from treeanova.plot.axes import Ends

KeyLike = str | Collection[str]
Band = tuple[Floats, Floats]
Errors = Mapping[Any, Floats] | Bag
_BULK = (0.005, 0.995)


def names_of(key: KeyLike) -> Names:
    """Return the names of features in a user's key: one name, or several."""
    return (key,) if isinstance(key, str) else tuple(key)


def without_label(fx: Decomposition, key: KeyLike) -> KeyLike:
    """Return a user's key; the label of a term, such as "a × b", as the names of its features."""
    if not isinstance(key, str) or key in fx.schema.names:
        return key
    return fx.terms.labels.get(key, key)


def checked_kind(value: object, kind: type, argument: str, call: str) -> None:
    """Raise TypeError if an argument is of another kind; `call` says how to make one."""
    if not isinstance(value, kind):
        raise TypeError(f"`{argument}` must be a {kind.__name__}, got {type(value).__name__}; make one with {call}.")


def checked_decomposition(fx: Any) -> Decomposition:
    checked_kind(fx, Decomposition, "fx", "treeanova.decompose(model, X)")
    return fx


def checked_count(k: Any) -> int:
    """Return the number of terms to show; ValueError unless it is a whole number from 1 on."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"`k` must be a whole number from 1 on, got {k!r}; leave it out for the default.")
    return int(k)


def find_term(fx: Decomposition, key: KeyLike) -> Term | None:
    """Return the term of some features, in any order; None if it does not exist or has no table."""
    features = sorted(names_of(key))
    term = next((fx.terms[names] for names in fx.terms if sorted(names) == features), None)
    return term if term is not None and term.has_table else None


def term_of(fx: Decomposition, key: KeyLike, scale: str = "score") -> Term:
    """Return the term of some features on a scale; raise ValueError, which lists terms, if it has no table."""
    term = find_term(fx, key)
    if term is None:
        names = names_of(key)
        labels = [label_of(other) for other in tables_of(fx) if len(other) == len(names)] or ["none of that order"]
        shown = views.first_texts(labels, 8)
        raise ValueError(
            f"`key` must be a term of the decomposition that has a table, got {label_of(names)!r}; there are {shown}."
        )
    return on_scale(term, fx.intercept, scale)


def check_order(key: KeyLike, order: int, remedy: str) -> None:
    """Raise ValueError, with a remedy, if a key does not name as many features as a plot draws: one or two."""
    names = names_of(key)
    if len(names) != order:
        what = "one feature" if order == 1 else "two features"
        raise ValueError(f"`key` must name {what}, got {len(names)} ({label_of(names)}); {remedy}.")


def output_position(fx: Decomposition, output: str | int | None) -> int:
    """Return the position of an output, given by name or position; by default the first."""
    return position_of_output(fx.outputs, output, default=0)


def at_output(fx: Decomposition, values: Any, output_index: int) -> Any:
    """Return the values of one output; the last axis is that of outputs if there are several."""
    return values if len(fx.outputs) == 1 else values[..., output_index]


def data_ends(fx: Decomposition, name: str) -> Ends | None:
    """Return the ends of nearly all values of a feature, given by name; None without rows."""
    statistics = fx.density.statistics
    return None if statistics is None else data_ends_of(statistics, fx.schema.names.index(name))


def data_ends_of(statistics: Statistics, j: int) -> Ends | None:
    """Return the numbers between which 99 % of a feature's finite values lie, by position; None if there are none."""
    ends = statistics.quantiles(j, _BULK)
    return None if ends is None else (float(ends[0]), float(ends[1]))


def value_words(fx: Decomposition, output_index: int | None, scale: str) -> str:
    """Return what values of terms mean, for one output or (None) for all in one frame."""
    output = None if output_index is None else fx.outputs[output_index]
    if not is_response(fx.schema, scale):
        return views.effect_words(fx.schema, output, fx.density.baseline)
    base = None if output_index is None else float(base_response(fx.schema, fx.intercept)[output_index])
    return views.response_words(fx.schema, output, base, is_raw=fx.certificate.is_raw)


def is_probability(fx: Decomposition, scale: str) -> bool:
    """Whether values on a scale ("score", "response" or "probability") are changes of a probability."""
    return is_response(fx.schema, scale) and views.RESPONSES.get(fx.schema.link) == "probability"


def band_of(errors: Errors | None, fx: Decomposition, term: Term, scale: str) -> Band | None:
    """Return lower and upper ends of a band of two errors around a term's values on a scale; None without errors."""
    deviations = _errors_of(errors, term)
    if deviations is None:
        return None
    ends = term.values - 2 * deviations, term.values + 2 * deviations
    if not is_response(fx.schema, scale):
        return ends
    if fx.schema.link == "softmax":
        raise ValueError(
            f"`errors` must come with scale='score' for probabilities of several classes, which depend on all scores, "
            f"got {scale!r}; leave one of them out."
        )
    low, high = (response_changes(fx.schema, fx.intercept, end) for end in ends)
    return low, high


def uncertain_cells(errors: Errors | None, term: Term) -> Bools | None:
    """Return which values are within two standard errors of zero; None without errors."""
    deviations = _errors_of(errors, term)
    return None if deviations is None else np.abs(term.values) <= 2 * deviations


def _errors_of(errors: Errors | None, term: Term) -> Floats | None:
    """Return the standard errors of a term's values, in their shape; None without errors."""
    if errors is None:
        return None
    if not isinstance(errors, Mapping | Bag):
        raise TypeError(
            f"`errors` must be what fx.standard_errors() returned, or a Bag, got {type(errors).__name__}; pass that, "
            "or leave it out."
        )
    deviations = (errors_by_term(errors) or {}).get(term.features)
    if deviations is None or np.shape(deviations) != term.values.shape:
        shape = "nothing" if deviations is None else f"shape {np.shape(deviations)}"
        raise ValueError(
            f"`errors` must have an array of shape {term.values.shape} for {label_of(term.features)!r}, got {shape}; "
            "use fx.standard_errors(), or a Bag with its own fx."
        )
    check_own_errors(errors, term)
    return np.asarray(deviations)


def named_decompositions(
    decompositions: Mapping[str, Decomposition] | Sequence[Decomposition],
) -> dict[str, Decomposition]:
    """Return decompositions by name, those of a list by their densities; raise an error if outputs differ."""
    if isinstance(decompositions, Decomposition) or not isinstance(decompositions, Mapping | Sequence):
        kind = type(decompositions).__name__
        raise TypeError(
            f"`decompositions` must be a mapping or a list, got {kind}; pass {{'raw': fx.raw, 'pure': fx}}."
        )
    if not decompositions:
        raise ValueError(
            f"`decompositions` must hold at least one decomposition, got {decompositions!r}; pass {{'raw': fx.raw, "
            "'pure': fx}."
        )
    named = dict(decompositions) if isinstance(decompositions, Mapping) else _named_by_density(decompositions)
    kinds = dict.fromkeys(f"{', '.join(checked_decomposition(fx).outputs)} ({fx.schema.link})" for fx in named.values())
    if len(kinds) > 1:
        raise ValueError(
            f"`decompositions` must have the same outputs and link, got {' and '.join(kinds)}; compare models of one "
            "kind."
        )
    common_classes([fx.schema for fx in named.values()])
    return {str(name): fx for name, fx in named.items()}


def _named_by_density(decompositions: Sequence[Decomposition]) -> dict[str, Decomposition]:
    """Name each "raw" or like its density, with a number from the second of a name on."""
    by_name: dict[str, Decomposition] = {}
    for fx in decompositions:
        base = name = "raw" if checked_decomposition(fx).certificate.is_raw else str(fx.density.name)
        number = 2
        while name in by_name:
            name, number = f"{base} ({number})", number + 1
        by_name[name] = fx
    return by_name
