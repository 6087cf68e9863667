"""Sums and edits: the source of a weighted sum of decomposed models, and of scaled terms."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from treeanova.core.arrays import Key, Names, label_of
from treeanova.data.features import Schema
from treeanova.decomposition.function import Function
from treeanova.density.kinds import Density
from treeanova.model.effects import Effects, weighted_sum
from treeanova.model.forest import Forest
from treeanova.model.forest import weighted_sum as weighted_sum_of_forests
from treeanova.model.grid import common_schema, union
from treeanova.readers import read_model
from treeanova.terms.layout import DEFAULT_BUDGET, choose_layout
from treeanova.terms.source import AdditiveModel, Source
from treeanova.terms.terms import Scope, Tensors, TermSet
from treeanova.terms.tree_model import source_of_forest
from treeanova.terms.trees import leaves_of


class Summand(NamedTuple):
    source: Source
    scope: Scope
    density: Density
    model: Any

    @property
    def schema(self) -> Schema:
        return self.source.grid.schema


def combined_source(summands: Sequence[Summand], factors: Sequence[float]) -> Source:
    kinds = dict.fromkeys(f"{', '.join(s.schema.outputs)} ({s.schema.link})" for s in summands)
    if len(kinds) > 1:
        raise ValueError(f"decompositions must have the same outputs and link, got {' and '.join(kinds)}.")
    if any(s.source.forest is not None or s.source.raw().keys_at_rows for s in summands):
        return _sum_of_forests(summands, factors)
    objective = _common_objective(summands, factors)
    summand_effects = [s.source.raw().tables.effects for s in summands]
    stated = [
        effects.with_schema(dataclasses.replace(effects.schema, objective=objective)) for effects in summand_effects
    ]
    return _sum_of_effects(stated, factors)


def _common_objective(summands: Sequence[Summand], factors: Sequence[float]) -> str:
    """Return the objective that all models share; empty unless the sum is a weighted mean, a prediction too."""
    different = {s.schema.objective for s in summands}
    is_mean = len(different) == 1 and min(factors) >= 0 and math.isclose(sum(factors), 1)
    return different.pop() if is_mean else ""


def _sum_of_effects(parts: Sequence[Effects], factors: Sequence[float]) -> AdditiveModel:
    grid, old_bins = union([effects.grid for effects in parts])
    on_union = [effects.on_union(grid, bins) for effects, bins in zip(parts, old_bins, strict=True)]
    return AdditiveModel(Tensors(weighted_sum(on_union, factors)))


def _sum_of_forests(summands: Sequence[Summand], factors: Sequence[float]) -> Source:
    objective = _common_objective(summands, factors)
    forests = [_forest_of(summand) for summand in summands]
    stated = [forest.with_schema(dataclasses.replace(forest.schema, objective=objective)) for forest in forests]
    forest = weighted_sum_of_forests(*_distinct(_alike(stated), factors))
    sets = leaves_of(forest)
    layout = choose_layout(sets, budget=DEFAULT_BUDGET)
    statistics = summands[0].density.statistics
    return source_of_forest(forest, sets, layout, None if statistics is None else statistics.on(sets.grid))


def _alike(forests: Sequence[Forest]) -> list[Forest]:
    """Return the forests with one schema; their trees must read categories by the same codes."""
    schema = common_schema([forest.schema for forest in forests])
    for forest in forests:
        for ours, theirs in zip(schema.features, forest.schema.features, strict=True):
            if ours.encoder.labels != theirs.encoder.labels:
                raise ValueError(
                    f"feature {ours.name!r} must have the same categories in the same order for deep ensembles to be "
                    f"combined, got {list(ours.encoder.labels or ())} and {list(theirs.encoder.labels or ())}; train "
                    "the models on the same columns."
                )
    return [forest.with_schema(schema) for forest in forests]


def _distinct(forests: Sequence[Forest], factors: Sequence[float]) -> tuple[list[Forest], list[float]]:
    """Merge equal forests and add up their factors: equal models cancel exactly, not just up to rounding."""
    distinct: list[Forest] = []
    totals: list[float] = []
    for forest, factor in zip(forests, factors, strict=True):
        place = next((i for i, other in enumerate(distinct) if _are_equal(other, forest)), len(distinct))
        if place == len(distinct):
            distinct.append(forest)
            totals.append(0.0)
        totals[place] += factor
    return distinct, totals


def _are_equal(first: Forest, second: Forest) -> bool:
    names = [field.name for field in dataclasses.fields(Forest) if field.name != "schema"]
    return all(np.array_equal(getattr(first, name), getattr(second, name), equal_nan=True) for name in names)


def _forest_of(summand: Summand) -> Forest:
    if summand.scope.is_part:
        raise ValueError(
            f"decompositions of deep ensembles must have all terms to be combined, got {summand.scope}; combine them "
            "before select(), drop() or scale()."
        )
    if summand.source.forest is not None:
        return summand.source.forest
    content = None if summand.model is None else read_model(summand.model)
    if not isinstance(content, Forest):
        kind = "a decomposition from a file" if content is None else "an additive model"
        raise ValueError(  # noqa: TRY004  not a matter of type to the caller
            f"decompositions must all hold their trees to be combined with a deep ensemble, got {kind}; decompose the "
            "models again."
        )
    return content.with_schema(summand.schema)


Factors = Mapping[str | tuple[str, ...], float]


def factors_of(term: str | Collection[str] | Factors, factor: float | None) -> dict[Any, float]:
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


def check_editable(function: Function) -> None:
    """Raise ValueError if the terms do not add up to the function: an edit would lose the rest."""
    if function.has_remainder or function.rest_orders:
        unlisted = "a remainder" if function.has_remainder else "terms that are added up by order"
        raise ValueError(
            f"scale() must have all of the function in its terms, got {unlisted} too; decompose with terms='all' or a "
            "larger `budget`, or choose the terms to keep with select() first."
        )


def scaled(terms: TermSet, factors: Mapping[Key, float], name_of: Callable[[Key], Names]) -> TermSet:
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
    return terms.with_tables(edited)
