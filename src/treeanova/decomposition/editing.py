"""Edits of terms by hand: their sum is then another function than the model, with a history of what was done."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from numbers import Real
from typing import Any

from treeanova.core.arrays import Key, Names
from treeanova.core.labels import label_of
from treeanova.decomposition.evaluation import Evaluation
from treeanova.model.effects import Effects
from treeanova.terms.leaf_terms import Joined
from treeanova.terms.termset import Tensors, TermSet

Factors = Mapping[str | tuple[str, ...], float]


def factors_of(term: str | Collection[str] | Factors, factor: float | None) -> dict[Any, float]:
    """Factors by term, from the two arguments of `scale`."""
    if isinstance(term, Mapping):
        if factor is not None:
            raise ValueError(f"`factor` must be left out where factors come with the terms, got {factor!r}.")
        factors = dict(term)
    else:
        factors = {term if isinstance(term, str) else tuple(term): factor}
    for value in factors.values():
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise ValueError(f"`factor` must be a finite number, got {value!r}; 0.5 halves a term, 0 removes it.")
    return {name: float(value) for name, value in factors.items()}


def check_editable(evaluation: Evaluation) -> None:
    """Raise ValueError where the terms do not add up to the function, so that it would lose its rest by an edit."""
    if evaluation.has_remainder or evaluation.rest_orders:
        rest = "a remainder" if evaluation.has_remainder else "terms that are added up by order"
        raise ValueError(
            f"scale() must have all of the function in its terms, got {rest} too; decompose with terms='all' or a "
            "larger `budget`, or choose the terms to keep with select() first."
        )


def scaled(terms: TermSet, factors: Mapping[Key, float], name_of: Callable[[Key], Names]) -> TermSet:
    """The terms, some of them, which must have tables, times a factor."""
    for key in factors:
        if not terms.has_table(key):
            raise ValueError(
                f"scale() must have terms with a table, got {label_of(name_of(key))!r}, which is known at rows only; "
                "decompose with a higher `tensor_order`."
            )
    tensors = terms.tables
    effects = tensors.effects
    changed = {key: values * factors.get(key, 1.0) for key, values in effects.terms.items()}
    edited = Tensors(Effects(effects.grid, effects.intercept, changed, effects.binnings), tensors.weights)
    return Joined(edited, terms.leaf_terms) if isinstance(terms, Joined) else edited
