"""What `compare` compares: one model under several densities, or several models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from treeanova.cli.sources import ModelFile, Request, check_density, check_has_rows, decomposed
from treeanova.core.progress import Progress, within
from treeanova.data.features import Schema
from treeanova.decomposition.decomposition import Decomposition
from treeanova.density.kinds import KINDS

RAW = "raw"


def check_different(models: Sequence[Path]) -> None:
    """Raise ValueError for a file that is named twice."""
    twice = next((path for path, n_times in Counter(models).items() if n_times > 1), None)
    if twice is not None:
        raise ValueError(
            f"`MODELS` must be different files, got {twice} more than once; name it once to compare its densities."
        )


def default_densities(models: Sequence[ModelFile], request: Request) -> list[str | None]:
    """Densities to compare where none are given; None for that of each file, which is "auto" for a model."""
    has_rows = request.rows_of_density.data is not None
    if len(models) > 1:
        return [None if has_rows or all(model.saved is not None for model in models) else "uniform"]
    saved = models[0].saved
    if saved is None:
        return ["auto", RAW, "uniform", "empirical"] if has_rows else ["uniform", RAW]
    name = saved.density.name
    return [name, RAW] if name == "uniform" else [name, "uniform"]


def parts_of(
    models: Sequence[ModelFile], request: Request, densities: Sequence[str | None], progress: Progress
) -> dict[str, Decomposition]:
    """Decompositions by name: that of the density for one model, else that of the file, or both."""
    saved_names = {model.saved.density.name for model in models if model.saved is not None}
    for density in densities:
        check_density(density, RAW, *sorted(saved_names - set(KINDS)))
    kinds = list(dict.fromkeys(densities))
    parts: dict[str, Decomposition] = {}
    for model in models:
        shown = within(progress, model.name) if len(models) > 1 else progress
        under = _under_densities(model, request, kinds, shown)
        parts |= {_name(model, density, models, kinds): fx for density, fx in under.items()}
    if len(parts) < 2:
        more = "uniform" if RAW in kinds else RAW
        listed = ", ".join(parts)
        raise ValueError(f"compare must have two models or two densities, got {listed}; add --density {more}, for one.")
    return parts


def _under_densities(
    model: ModelFile, request: Request, kinds: Sequence[str | None], progress: Progress
) -> dict[str | None, Decomposition]:
    """One model under several densities, and raw."""
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


def _name(model: ModelFile, density: str | None, models: Sequence[ModelFile], kinds: Sequence[str | None]) -> str:
    """The density, the file, or both: whatever distinguishes this part from the others."""
    if len(models) == 1:
        return density or "auto"
    is_unique = all(model.name != other.name for other in models if other is not model)
    file = model.name if is_unique else str(model.path)
    return file if len(kinds) == 1 else f"{file} {density}"


def rows_to_compare(models: Sequence[ModelFile], request: Request, schema: Schema) -> dict[str, Any]:
    """Rows at which terms are compared, where they are given and are not those of all models already."""
    is_density = request.density_from is None and all(model.saved is None for model in models)
    if request.data is None or is_density:
        return {}
    return {"X": request.table(schema), "sample_weight": request.weights()}
