"""What the commands ask: decompositions, rows and groups from files; the results print themselves."""

from __future__ import annotations

import dataclasses
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from treeanova.cli.sources import ModelFile, Request, check_density, check_has_rows, decomposed, is_in_batches
from treeanova.core.arrays import Names, labels_of
from treeanova.core.progress import Progress, within
from treeanova.data.columns import printable
from treeanova.data.features import Schema
from treeanova.decomposition.change import Change, change
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.explanation import Explanation
from treeanova.decomposition.gap import Gap
from treeanova.decomposition.predictions import function_of
from treeanova.density.kinds import KINDS
from treeanova.density.row_sources import statistics_of
from treeanova.errors import DensityWarning
from treeanova.views import effect_words, scale_of


def table_words(fx: Decomposition, term: Names, *, is_raw: bool) -> str:
    pure, raw = effect_words(fx.schema), f"contribution to {scale_of(fx.schema)}, before purification"
    return printable(f"{labels_of([term], fx.schema.names)[0]}: value is the {raw if is_raw else pure}")


# For change.


def change_between(
    models: Sequence[ModelFile], requests: Sequence[Request], density: str | None, progress: Progress
) -> Change:
    check_density(density)
    old = decomposed(models[0], requests[0], density, within(progress, "old"))
    is_same = models[0].path.samefile(models[1].path)
    new = old if is_same else decomposed(models[1], requests[1], density, within(progress, "new"))
    return change(old, new, **_rows_of_both(old, new, requests), progress=within(progress, "change"))


def _rows_of_both(old: Decomposition, new: Decomposition, requests: Sequence[Request]) -> dict[str, Any]:
    """Return the old and the new rows: tables if the two models read columns in different ways, else statistics."""
    if old.schema.names != new.schema.names:
        return {}  # change() says what differs
    encoders = [[feature.encoder for feature in fx.schema.features] for fx in (old, new)]
    if encoders[0] == encoders[1]:
        pairs = zip(("X_old", "X_new"), (old, new), requests, strict=True)
        return {
            name: statistics_of(
                request.table(fx.schema), fx.grid, request.weights(), function_of(fx).source.wanted_tables()
            )
            for name, fx, request in pairs
        }
    if any(request.weight for request in requests):
        raise ValueError(
            "`--weight` must be left out where the two models read columns in different ways, got one; use models of "
            "one library."
        )
    return {"X_old": requests[0].table(old.schema), "X_new": requests[1].table(new.schema)}


# For gap.


@dataclasses.dataclass(frozen=True)
class Groups:
    column: str
    value: str | None = None
    against: str | None = None


def gap_in(fx: Decomposition, request: Request, groups: Groups, feature: str | None, progress: Progress) -> Gap:
    if request.data is None:
        raise ValueError("`--data` must be given for the groups, got no rows; add the rows.")
    labels = np.array([str(label) for label in request.column(groups.column)], dtype=object)
    if feature is None and groups.column in fx.schema.names:
        feature = groups.column
    table = request.table_in_memory(fx.schema)
    is_compared, is_second, names = _compared_rows(labels, groups)
    rows = (
        table
        if is_compared.all()
        else nw.to_native(nw.from_native(table, eager_only=True).filter(is_compared.tolist()))
    )
    weights = None if request.weight is None else np.asarray(request.column(request.weight))[is_compared]
    gap = fx.gap(rows, is_second, sample_weight=weights, feature=feature, progress=progress)
    return dataclasses.replace(gap, groups=names)


def _compared_rows(labels: Any, groups: Groups) -> tuple[Any, Any, tuple[str, str]]:
    values = sorted(set(labels.tolist()))
    for option, value in (("--value", groups.value), ("--against", groups.against)):
        if value is not None and value not in values:
            raise ValueError(
                f"`{option}` must be a value of {groups.column}, got {value!r}; there are {_some(values)}."
            )
    if groups.value is None and (groups.against is not None or len(values) != 2):
        raise ValueError(
            f"`--group` must be a column of two values, or come with --value, got {len(values)} in {groups.column} "
            f"({_some(values)}); add --value {values[0]!r}, and --against to compare it with one other."
        )
    second = values[1] if groups.value is None else groups.value
    first = values[0] if groups.value is None else groups.against
    is_compared = np.ones(len(labels), dtype=bool) if first is None else (labels == first) | (labels == second)
    names = (
        f"{groups.column} other than {second}" if first is None else _name_of_group(first, groups),
        _name_of_group(second, groups),
    )
    return is_compared, labels[is_compared] == second, names


def _name_of_group(value: str, groups: Groups) -> str:
    return value if any(map(str.isalpha, value)) else f"{groups.column} = {value}"


def _some(values: Sequence[str]) -> str:
    return ", ".join(values[:6]) + (", …" if len(values) > 6 else "")


# For reasons.


def decomposed_for_reasons(
    file: ModelFile, request: Request, density: str | None, reference: int | None, progress: Progress
) -> Decomposition:
    """Return a decomposition; ValueError if its density is one row, because all terms are then zero."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DensityWarning)
        fx = decomposed(file, request, density, progress)
    if reference is None and fx.density.is_one_cell:
        raise ValueError(
            "`--data` must have rows of a population to compare the row with, got rows of one kind only, at which "
            "every term is zero; add --density-from FILE with such rows."
        )
    return fx


def reasons_for(fx: Decomposition, request: Request, row: int, reference: int | None) -> Explanation:
    if request.data is None:
        raise ValueError("`--data` must be one file for the rows to explain, got none; add the file.")
    if is_in_batches(request.data):
        raise ValueError(
            f"`--data` must be one file for the rows to explain, got several, {str(request.data)!r}; name the file "
            "that has the row, and these in --density-from."
        )
    table = nw.from_native(request.table(fx.schema), eager_only=True)
    numbers = {"--row": row} if reference is None else {"--row": row, "--reference": reference}
    for option, number in numbers.items():
        if number >= len(table):
            raise ValueError(
                f"`{option}` must be the number of a row, from 0 on, got {number}; the data have {len(table):,} rows."
            )
    row_of, *references = (nw.to_native(table[[number]]) for number in numbers.values())
    return fx.explain(row_of, reference=references[0] if references else None)


# For compare.

RAW = "raw"


def check_different(models: Sequence[Path]) -> None:
    twice = next((path for path, n_times in Counter(models).items() if n_times > 1), None)
    if twice is not None:
        raise ValueError(
            f"`MODELS` must be different files, got {twice} more than once; name it once to compare its densities."
        )


def default_densities(models: Sequence[ModelFile], request: Request) -> list[str | None]:
    """Return the densities to compare by default; None for each file's density, which is "auto" for a model."""
    has_rows = request.rows_of_density.data is not None
    if len(models) > 1:
        return [None if has_rows or all(model.saved is not None for model in models) else "uniform"]
    saved = models[0].saved
    if saved is None:
        return ["auto", RAW, "uniform", "empirical"] if has_rows else ["uniform", RAW]
    name = saved.density.name
    return [name, RAW] if name == "uniform" else [name, "uniform"]


def decompositions_of(
    models: Sequence[ModelFile], request: Request, densities: Sequence[str | None], progress: Progress
) -> dict[str, Decomposition]:
    saved_names = {model.saved.density.name for model in models if model.saved is not None}
    for density in densities:
        check_density(density, RAW, *sorted(saved_names - set(KINDS)))
    kinds = list(dict.fromkeys(densities))
    members: dict[str, Decomposition] = {}
    for model in models:
        shown = within(progress, model.name) if len(models) > 1 else progress
        under = _under_densities(model, request, kinds, shown)
        members |= {_name_of_member(model, density, models, kinds): fx for density, fx in under.items()}
    if len(members) < 2:
        more = "uniform" if RAW in kinds else RAW
        listed = ", ".join(members)
        raise ValueError(f"compare must have two models or two densities, got {listed}; add --density {more}, for one.")
    return members


def _under_densities(
    model: ModelFile, request: Request, kinds: Sequence[str | None], progress: Progress
) -> dict[str | None, Decomposition]:
    first = next((density for density in kinds if density != RAW), None)
    fx = decomposed(model, request, first, progress)
    under: dict[str | None, Decomposition] = {}
    for density in kinds:
        if density == RAW:
            under[density] = fx.raw
        elif density in {first, None}:
            under[density] = fx
        elif model.saved is not None:
            under[density] = decomposed(model, request, density, progress)
        else:
            check_has_rows(request, density)
            under[density] = fx.with_density(density, progress=within(progress, f"density {density}"))
    return under


def _name_of_member(
    model: ModelFile, density: str | None, models: Sequence[ModelFile], kinds: Sequence[str | None]
) -> str:
    if len(models) == 1:
        return density or "auto"
    is_unique = all(model.name != other.name for other in models if other is not model)
    file = model.name if is_unique else str(model.path)
    return file if len(kinds) == 1 else f"{file} {density}"


def rows_to_compare(models: Sequence[ModelFile], request: Request, schema: Schema) -> dict[str, Any]:
    is_density = request.density_from is None and all(model.saved is None for model in models)
    if request.data is None or is_density:
        return {}
    return {"X": request.table(schema), "sample_weight": request.weights()}
