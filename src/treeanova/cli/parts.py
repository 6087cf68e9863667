"""What `compare` compares: one model under several densities, or several models."""

from __future__ import annotations

from collections.abc import Sequence

from treeanova.cli.sources import ModelFile, Request, check_density, decomposed
from treeanova.core.progress import Progress, within
from treeanova.decomposition.decomposition import Decomposition
from treeanova.density.kinds import KINDS

RAW = "raw"


def default_densities(models: Sequence[ModelFile], request: Request) -> list[str]:
    """Densities to compare where none are given."""
    if len(models) > 1:
        return ["auto" if request.data is not None else "uniform"]
    if request.data is not None:
        return ["auto", RAW, "uniform", "empirical"]
    saved = models[0].saved
    if saved is None or saved.density.name == "uniform":
        return ["uniform", RAW]
    return [saved.density.name, "uniform"]  # raw terms need rows to be ranked on


def parts_of(
    models: Sequence[ModelFile], request: Request, densities: Sequence[str], progress: Progress
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
    model: ModelFile, request: Request, kinds: Sequence[str], progress: Progress
) -> dict[str, Decomposition]:
    """One model under several densities, and raw."""
    first = next((density for density in kinds if density != RAW), None)
    fx = decomposed(model, request, first, progress)
    under = {}
    for density in kinds:
        if density == RAW:
            under[density] = fx.raw
        else:
            under[density] = fx if density == first else _with_density(fx, density, model, request, progress)
    return under


def _with_density(
    fx: Decomposition, density: str, model: ModelFile, request: Request, progress: Progress
) -> Decomposition:
    """The decomposition under another density: of the rows, or the one that it was saved with."""
    if request.data is None and model.saved is not None and model.saved.density.name == density:
        return model.saved
    request.check_has_rows(density)
    return fx.with_density(density, progress=within(progress, f"density {density}"))


def _name(model: ModelFile, density: str, models: Sequence[ModelFile], kinds: Sequence[str]) -> str:
    """The density, the file, or both: whatever distinguishes this part from the others."""
    if len(models) == 1:
        return density
    is_unique = all(model.name != other.name for other in models if other is not model)
    file = model.name if is_unique else str(model.path)
    return file if len(kinds) == 1 else f"{file} {density}"
