"""The caller's choices, checked: terms, outputs, standard errors, decompositions by name.

All that plots read of a decomposition, other than its methods, is read here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from treeanova import views
from treeanova.core.arrays import Bools, Floats, Names, label_of
from treeanova.decomposition.bags import Bag, errors_by_term
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.term import Term, base_response, is_response, on_scale, response_changes
from treeanova.density.statistics import Statistics
from treeanova.plot.axes import Ends

KeyLike = str | Collection[str]
Band = tuple[Floats, Floats]
Errors = Mapping[Any, Floats] | Bag
_BULK = (0.005, 0.995)
_SHOWN_TERMS = 8


def names_of(key: KeyLike) -> Names:
    """Names of the features that a key names."""
    return (key,) if isinstance(key, str) else tuple(key)


def checked_decomposition(fx: object) -> Decomposition:
    """The decomposition, or an error that names what was passed instead."""
    if not isinstance(fx, Decomposition):
        kind = type(fx).__name__
        raise TypeError(f"`fx` must be a Decomposition, got {kind}; make one with treeanova.decompose(model, X).")
    return fx


def checked_count(k: Any) -> int:
    """A number of bars or panels."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"`k` must be a whole number from 1 on, got {k!r}; leave it out for the default.")
    return int(k)


# Terms.


def tables_of(fx: Decomposition) -> dict[Names, Term]:
    """The terms that have a table."""
    return {names: term for names, term in fx.terms.items() if term.has_table}


def find_term(fx: Decomposition, key: KeyLike) -> Term | None:
    """The term of some features, in any order; None where there is none with a table."""
    wanted = sorted(names_of(key))
    names = next((names for names in fx.terms if sorted(names) == wanted), None)
    term = None if names is None else fx.terms[names]
    return term if term is not None and term.has_table else None


def term_of(fx: Decomposition, key: KeyLike, scale: str = "score") -> Term:
    """The term of some features, in any order; an error that lists those of the same order where there is none."""
    term = find_term(fx, key)
    if term is None:
        names = names_of(key)
        known = [label_of(other) for other in tables_of(fx) if len(other) == len(names)] or ["none of that order"]
        shown = ", ".join(known[:_SHOWN_TERMS]) + (", …" if len(known) > _SHOWN_TERMS else "")
        raise ValueError(
            f"`key` must be a term of the decomposition that has a table, got {label_of(names)!r}; there are {shown}."
        )
    return on_scale(term, fx.intercept, scale)


def check_order(key: KeyLike, order: int, remedy: str) -> None:
    """Raise ValueError for a key that does not name `order` features."""
    names = names_of(key)
    if len(names) != order:
        what = "one feature" if order == 1 else "two features"
        raise ValueError(f"`key` must name {what}, got {len(names)} ({label_of(names)}); {remedy}.")


# Outputs, data, errors.


def output_position(fx: Decomposition, output: str | int | None) -> int:
    """Position of an output given by name or position; the first by default."""
    outputs = fx.outputs
    if output is None:
        return 0
    if isinstance(output, int | np.integer) and not isinstance(output, bool) and -len(outputs) <= output < len(outputs):
        return int(output) % len(outputs)
    if str(output) in outputs and not isinstance(output, int | np.integer):
        return outputs.index(str(output))
    choices = ", ".join(map(repr, outputs))
    raise ValueError(
        f"`output` must be one of {choices} or a position below {len(outputs)}, got {output!r}; leave it out for "
        f"{outputs[0]!r}."
    )


def of_output(fx: Decomposition, values: Floats, position: int) -> Floats:
    """Values of one output."""
    return values if len(fx.outputs) == 1 else values[..., position]


def data_ends(fx: Decomposition, name: str) -> Ends | None:
    """Numbers between which 99 % of a feature's finite values lie; None where the rows are not known."""
    statistics = fx.density.statistics
    return None if statistics is None else data_ends_of(statistics, fx.schema.names.index(name))


def data_ends_of(statistics: Statistics, j: int) -> Ends | None:
    """Numbers between which 99 % of a feature's finite values lie; None where there are none."""
    ends = statistics.quantiles(j, _BULK)
    return None if ends is None else (float(ends[0]), float(ends[1]))


def value_words(fx: Decomposition, position: int | None, scale: str) -> str:
    """What values of terms mean, of one output or (None) of all in one frame."""
    output = None if position is None else fx.outputs[position]
    if not is_response(fx.schema, scale):
        return views.effect_words(fx.schema, output, fx.baseline)
    base = None if position is None else float(base_response(fx.schema, fx.intercept)[position])
    return views.response_words(fx.schema, output, base, is_raw=fx.certificate.is_raw)


def band_of(errors: Errors | None, fx: Decomposition, term: Term, scale: str) -> Band | None:
    """Values two standard errors below and above those of a term, on a scale; None where no errors are given."""
    deviations = _errors_of(errors, term)
    if deviations is None:
        return None
    ends = term.values - 2 * deviations, term.values + 2 * deviations
    if not is_response(fx.schema, scale):
        return ends
    if fx.link == "softmax":
        raise ValueError(
            f"`errors` must come with scale='score' for probabilities of several classes, which depend on all scores, "
            f"got {scale!r}; leave one of them out."
        )
    low, high = (response_changes(fx.schema, fx.intercept, end) for end in ends)
    return low, high


def uncertain_cells(errors: Errors | None, term: Term) -> Bools | None:
    """Cells of a term whose values are within two standard errors of zero; None where no errors are given."""
    deviations = _errors_of(errors, term)
    return None if deviations is None else np.abs(term.values) <= 2 * deviations


def _errors_of(errors: Errors | None, term: Term) -> Floats | None:
    """Standard errors of one term from those of all terms; None where none are given."""
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
    return np.asarray(deviations)


def backend_of_tables(fx: Decomposition) -> str | None:
    """Name of the data frame library of a decomposition's tables."""
    return fx.settings.backend


# Several decompositions.


def named_decompositions(parts: Mapping[str, Decomposition] | Sequence[Decomposition]) -> dict[str, Decomposition]:
    """Decompositions by name; those in a list are named by their densities."""
    if isinstance(parts, Decomposition) or not isinstance(parts, Mapping | Sequence):
        kind = type(parts).__name__
        raise TypeError(
            f"`decompositions` must be a mapping or a list, got {kind}; pass {{'raw': fx.raw, 'pure': fx}}."
        )
    if not parts:
        raise ValueError(
            f"`decompositions` must hold at least one decomposition, got {parts!r}; pass {{'raw': fx.raw, 'pure': fx}}."
        )
    named = dict(parts) if isinstance(parts, Mapping) else _by_density(parts)
    for part in named.values():
        checked_decomposition(part)
    kinds = dict.fromkeys(f"{', '.join(part.outputs)} ({part.link})" for part in named.values())
    if len(kinds) > 1:
        raise ValueError(
            f"`decompositions` must have the same outputs and link, got {' and '.join(kinds)}; compare models of one "
            "kind."
        )
    return {str(name): part for name, part in named.items()}


def _by_density(parts: Sequence[Decomposition]) -> dict[str, Decomposition]:
    named: dict[str, Decomposition] = {}
    for part in parts:
        base = name = "raw" if checked_decomposition(part).certificate.is_raw else str(part.density.name)
        number = 2
        while name in named:
            name, number = f"{base} ({number})", number + 1
        named[name] = part
    return named
