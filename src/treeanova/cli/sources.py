"""From files to decompositions: models, saved decompositions, rows."""

from __future__ import annotations

import csv
import dataclasses
import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from treeanova._decompose import decompose
from treeanova.cli.options import DEFAULT_BUDGET
from treeanova.cli.terminal import Step
from treeanova.core.labels import split_label
from treeanova.data.features import Schema
from treeanova.data.tabular import read_column, read_table
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.files import load
from treeanova.density.kinds import KINDS
from treeanova.model.forest import Forest
from treeanova.readers import read_model, unpickled

RAW = "raw"
_GIGABYTE = 10**9


@dataclasses.dataclass(frozen=True)
class Request:
    """What the options say about the rows of the density and about reading the model."""

    data: Path | None
    target: Sequence[str] = ()
    weight: str | None = None
    budget: float = DEFAULT_BUDGET
    max_order: int | None = None
    trusted: bool = False
    _loaded: dict[Path, Decomposition] = dataclasses.field(default_factory=dict, repr=False)

    def loaded(self, model: Path) -> Decomposition | None:
        """The decomposition saved in a file, which is read once; None for other files."""
        if model.suffix.lower() != ".tav" or not model.is_file():
            return None
        if model not in self._loaded:
            self._loaded[model] = load(model)
        return self._loaded[model]

    def table(self, schema: Schema) -> Any:
        """The data as a model with this schema wants them; None without data."""
        if self.data is None:
            return None
        others = [*self.target, *([self.weight] if self.weight else [])]
        return read_table(self.data, schema, drop=list(dict.fromkeys(others)))

    def weights(self) -> Any:
        """Weights of the rows, or None."""
        return None if self.data is None or self.weight is None else read_column(self.data, self.weight)


def decomposed(model: Path, request: Request, density: str | None, step: Step) -> Decomposition:
    """The decomposition of a model file, or a saved one, under a density of the rows."""
    if not model.is_file():
        raise FileNotFoundError(f"`MODEL` must be the path of a file, got {str(model)!r}, which is none; check it.")
    if request.data is not None and not request.data.is_file():
        raise FileNotFoundError(
            f"`--data` must be the path of a file, got {str(request.data)!r}, which is none; check it."
        )
    for option, given in (("--weight", request.weight), ("--target", request.target)):
        if given and request.data is None:
            raise ValueError(f"`{option}` must come with --data, got none; add the rows, or leave it out.")
    step(f"reading {model.name}")
    saved = request.loaded(model)
    if saved is not None:
        return _purified_anew(saved, model, request, density, step)
    check_density(density)
    return _made(model, request, density, step)


def _purified_anew(fx: Decomposition, model: Path, request: Request, density: str | None, step: Step) -> Decomposition:
    """A saved decomposition, under other rows or another density where they are given."""
    if request.max_order is not None:
        if request.data is None:
            raise ValueError("`--max-order` of a saved decomposition must come with --data, got none; add the rows.")
        fx = fx.cut(request.max_order)
    if request.data is None and density in {None, fx.density.name}:
        return fx
    if density is None and fx.density.name not in KINDS:
        raise ValueError(f"`--density` must be given, since {model.name} has one of its own; choose one for the rows.")
    density = density or fx.density.name
    check_density(density)
    _check_has_rows(density, request)
    table = request.table(fx.schema)
    step(f"purifying {len(fx.terms)} terms, density {density}")
    return fx.with_density(density, table, sample_weight=request.weights())


def _made(model: Path, request: Request, density: str | None, step: Step) -> Decomposition:
    """A decomposition of a model file."""
    density = density or "auto"
    _check_has_rows(density, request)
    source = unpickled(model, trusted=request.trusted)
    found = read_model(source)
    schema = found.schema if isinstance(found, Forest) else found.grid.schema
    if request.data is not None:
        step(f"reading {request.data.name}")
    table, weights = request.table(schema), request.weights()
    step(f"decomposing {model.name}, density {density}")
    fx = decompose(
        found if isinstance(source, Path) else source,  # what is unpickled may be a Pipeline, which decompose looks at
        table,
        density=density,
        sample_weight=weights,
        max_order=request.max_order,
        budget=request.budget * _GIGABYTE,
        progress=lambda stage, done, total: step(f"{stage}: {done} of {total}"),
    )
    return dataclasses.replace(fx, source=source)


def check_density(density: str | None, *more: str) -> None:
    """Raise for a density that has no name here."""
    known = [*KINDS, *more]
    if density is not None and density not in known:
        raise ValueError(f"`--density` must be one of {', '.join(known)}, got {density!r}.")


def _check_has_rows(density: str, request: Request) -> None:
    if request.data is None and KINDS[density].needs_data:
        raise ValueError(f"`--data` must be given for the density {density}, got none; only uniform needs no rows.")


def default_densities(models: Sequence[Path], request: Request) -> list[str]:
    """What to compare where nothing is said."""
    if len(models) > 1:
        return ["auto" if request.data is not None else "uniform"]
    if request.data is not None:
        return ["auto", RAW, "uniform", "empirical"]
    saved = request.loaded(models[0])
    if saved is None or saved.density.name == "uniform":
        return ["uniform", RAW]
    return [saved.density.name, "uniform"]  # raw terms need rows to be ranked on


def parts_of(
    models: Sequence[Path], request: Request, densities: Sequence[str], step: Step
) -> dict[str, Decomposition]:
    """Decompositions by name: of the density for one model, else of the file, or both."""
    own = {saved.density.name for model in models if (saved := request.loaded(model)) is not None}
    for density in densities:
        check_density(density, RAW, *sorted(own - set(KINDS)))
    parts: dict[str, Decomposition] = {}
    kinds = list(dict.fromkeys(densities))
    for model in dict.fromkeys(models):
        first = next((density for density in kinds if density != RAW), None)
        fx = decomposed(model, request, first, step)
        for density in kinds:
            step(f"purifying {model.name}, density {density}")
            file = model.name if model.name not in {other.name for other in models if other != model} else str(model)
            name = density if len(models) == 1 else file if len(kinds) == 1 else f"{file} {density}"
            parts[name] = fx.raw if density == RAW else fx if density == first else _under(fx, density, model, request)
    if len(parts) < 2:
        more = "uniform" if RAW in kinds else RAW
        raise ValueError(f"compare must have two models or two densities, got one; add --density {more}, for one.")
    return parts


def _under(fx: Decomposition, density: str, model: Path, request: Request) -> Decomposition:
    """The decomposition under another density: of the rows, or the one that it was saved with."""
    saved = request.loaded(model)
    if request.data is None and saved is not None and saved.density.name == density:
        return saved
    _check_has_rows(density, request)
    return fx.with_density(density)


def term_named(text: str, fx: Decomposition) -> tuple[str, ...]:
    """Names of the features of a term, from "a", "a,b", "a × b" or "a x b"; names may hold commas in quotes."""
    ways = [(text,), _listed(text), split_label(text)]
    known = {tuple(sorted(names)): names for names in fx.terms}
    found = next((known[key] for way in ways if (key := tuple(sorted(name.strip() for name in way))) in known), None)
    if found is not None:
        return found
    higher = {tuple(sorted(names)): names for names in fx.higher_terms}
    if any(tuple(sorted(name.strip() for name in way)) in higher for way in ways):
        raise ValueError(
            f"`--term` must be a term that has a table, got {text!r}, which is known at rows only; in Python, "
            "fx.term_values(X, names) has its values."
        )
    labels = [",".join(names) for names in fx.terms]
    near = difflib.get_close_matches(text, labels, n=3, cutoff=0.4) or labels[:3]
    raise ValueError(
        f"`--term` must be a term that has a table, got {text!r}; there are {'; '.join(near)} ({len(labels)} in all)."
    )


def _listed(text: str) -> tuple[str, ...]:
    """Names from a line of CSV; none where it is no such line."""
    try:
        return tuple(next(csv.reader([text], skipinitialspace=True), []))
    except csv.Error:  # a line break outside quotes
        return ()
