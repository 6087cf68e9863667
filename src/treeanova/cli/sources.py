"""From files to decompositions: models, saved decompositions, rows. Each model file is read once."""

from __future__ import annotations

import csv
import dataclasses
import difflib
import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treeanova._decompose import decompose
from treeanova.cli.options import Request, is_in_batches, rows_of
from treeanova.core.arrays import Names, quoted, split_label
from treeanova.core.files import ARCHIVE, CSV, PAGE, PARQUET, check_suffix, is_same_file
from treeanova.core.progress import Progress, one_step, within
from treeanova.data.features import Schema
from treeanova.data.parquet import parquet_files, would_read
from treeanova.decomposition.decomposition import Decomposition, load
from treeanova.density.kinds import KINDS
from treeanova.readers import read_for_rows, unpickled

__all__ = ["ModelFile", "Request", "is_in_batches", "rows_of"]

_GIGABYTE = 10**9
_SUFFIXES = {"--out": PAGE, "--save": ARCHIVE, "--rows-out": PARQUET, "--csv": CSV}


def check_outputs(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None]) -> None:
    """Refuse files that cannot be written, have the suffix of another format, or are inputs."""
    written = {option: path for option, path in outputs.items() if path is not None}
    read = [(option, path) for option, path in inputs.items() if path is not None]
    for option, path in written.items():
        _check_writable(path)
        for other, source in read:
            if source.is_dir() and Path(os.path.realpath(source)) in Path(os.path.realpath(path)).parents:
                raise ValueError(
                    f"`{option}` must be outside the folder `{other}`, got {path}, which would be read with it; choose "
                    "another folder."
                )
            if is_same_file(path, source):
                raise ValueError(
                    f"`{option}` must be another file than `{other}`, got {path}, which would replace it; choose "
                    "another name."
                )
            if would_read(str(source), path):
                raise ValueError(
                    f"`{option}` must be another file than those of `{other}`, got {path}, which {source} matches; "
                    "choose another folder."
                )
        check_suffix(path, _SUFFIXES[option], option)
    for (option, path), (other, second) in itertools.combinations(written.items(), 2):
        if is_same_file(path, second):
            raise ValueError(f"`{option}` and `{other}` must be two files, got {path} for both; choose another name.")


def inputs_of(request: Request) -> dict[str, Path | None]:
    return {"--data": request.data, "--density-from": request.density_from}


def _check_writable(path: Path) -> None:
    folder = Path(os.path.realpath(path)).parent
    if path.is_dir():
        raise ValueError(f"the file to write must be a file, got the folder {path}; add a name.")
    if not folder.is_dir():
        raise ValueError(f"the file to write must be in a folder that exists, got {path}; create {folder} first.")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"the file to write must be in a folder that can be written to, got {path}; choose another.")


def term_named(text: str, fx: Decomposition) -> Names:
    """Parse "a", "a,b", "a × b" or "a x b"; quoted names may hold commas."""
    labelled = fx.terms.labels.get(text.strip(), ())
    typed = ((text,), _listed(text), split_label(text), labelled)
    readings = dict.fromkeys(tuple(sorted(name.strip() for name in names)) for names in typed)
    terms = {tuple(sorted(names)): names for names in fx.terms}
    matches = [terms[reading] for reading in readings if reading in terms]
    if not matches:
        raise ValueError(f"`--term` must be a term that has a table, got {text!r}; {_near(text, fx)}.")
    if len(matches) > 1:
        lines = (",".join(map(quoted, names)) for names in matches)  # lines of CSV, which can be read in one way only
        raise ValueError(f"`--term` must name one term, got {text!r}; write {' or '.join(lines)}.")
    names = matches[0]
    if not fx.terms[names].has_table:
        raise ValueError(
            f"`--term` must be a term that has a table, got {text!r}, which is known at rows only; in Python, "
            "fx.term_values(X, names) gives its values."
        )
    return names


def _near(text: str, fx: Decomposition) -> str:
    labels = [",".join(names) for names, term in fx.terms.items() if term.has_table]
    by_lower = {label.lower(): label for label in labels}
    near = difflib.get_close_matches(text.lower(), by_lower, n=3, cutoff=0.4)
    closest = next(iter(difflib.get_close_matches(text.lower(), by_lower, n=1, cutoff=0.75)), None)
    meant = "" if closest is None else f"did you mean {by_lower[closest]}? "
    return (
        f"{meant}there are {'; '.join(by_lower[name] for name in near) or '; '.join(labels[:3])} ({len(labels)} in all)"
    )


def _listed(text: str) -> Names:
    try:
        return tuple(next(csv.reader([text], skipinitialspace=True), []))
    except csv.Error:  # a line break outside quotes
        return ()


@dataclasses.dataclass(frozen=True)
class ModelFile:
    """A file with a saved decomposition, already read, or with a model that is yet to be read."""

    path: Path
    saved: Decomposition | None = None

    @property
    def name(self) -> str:
        return self.path.name


def open_model(path: Path, request: Request, progress: Progress) -> ModelFile:
    if not (path.is_file() or path.is_dir()):  # some libraries save folders
        raise FileNotFoundError(f"`MODEL` must be the path of a file, no such file: {str(path)!r}; check the path.")
    for option, rows in inputs_of(request).items():
        check_rows(option, rows)
    for option, value in (("--weight", request.weight), ("--target", request.target)):
        if value and request.rows_of_density.data is None:
            raise ValueError(f"`{option}` must come with --data, got {value!r} without; add the rows, or leave it out.")
    if path.suffix.lower() != ".tav":
        return ModelFile(path)
    with one_step(progress, f"reading {path.name}"):
        return ModelFile(path, load(path))


def rows_to_explain(rows: Path | None, data: Path | None, rows_out: Path | None) -> Path:
    if rows is not None and rows_out is None:
        raise ValueError(f"`--rows` must come with --rows-out, got {str(rows)!r} without; add the file to write.")
    if rows_out is not None and rows is None and data is None:
        raise ValueError(f"`--rows-out` must come with rows, got {str(rows_out)!r} alone; add --rows or --data.")
    check_rows("--rows", rows)
    return rows or data or Path()


def check_rows(option: str, path: Path | None) -> None:
    if path is None:
        return
    if is_in_batches(path):
        parquet_files(path)
    elif path.exists() and not path.is_file():
        raise ValueError(
            f"`{option}` must be a file that can be read twice, got {path}; save the rows to a file first."
        )
    elif not path.is_file():
        raise FileNotFoundError(f"`{option}` must be the path of a file, no such file: {str(path)!r}; check the path.")


def refuse_idle_rows(model: ModelFile, request: Request) -> None:
    """Refuse rows that a command would not use, because the density comes from elsewhere."""
    if request.data is None:
        return
    if model.saved is not None:
        raise ValueError(
            f"`--data` must be left out for a saved decomposition, which keeps its density, got {str(request.data)!r}; "
            "use --density-from for a density of other rows."
        )
    if request.density_from is not None:
        raise ValueError(
            f"`--data` must be left out with --density-from, which gives the density, got {str(request.data)!r}."
        )


def decomposed(model: ModelFile, request: Request, density: str | None, progress: Progress) -> Decomposition:
    """Decompose a model file under a density of the rows, or return a saved decomposition.

    A saved one keeps its density, unless another kind or `--density-from` is given: never the rows of `--data`.
    """
    if model.saved is not None:
        return _saved(model.saved, model.name, request, density, progress)
    check_density(density)
    return _decomposed_model(model, request, density or "auto", progress)


def check_has_rows(request: Request, density: str) -> None:
    if request.rows_of_density.data is None and KINDS[density].needs_data:
        raise ValueError(f"`--data` must be given for the density {density}, got no rows; only uniform needs none.")


def _saved(fx: Decomposition, name: str, request: Request, density: str | None, progress: Progress) -> Decomposition:
    if request.seconds is not None:
        raise ValueError(
            f"`--seconds` must come with the file of a model, got the saved decomposition {name}; leave it out."
        )
    if request.max_order is not None:
        if request.density_from is None and not _has_rows(fx):
            raise ValueError(
                f"`--max-order` must come with --density-from, got {request.max_order} and {name}, which has no rows; "
                "add the rows."
            )
        fx = fx.truncate(request.max_order)
    if request.density_from is None and density in {None, fx.density.name}:
        return fx
    density = density or fx.density.name
    if density not in KINDS and density == fx.density.name:
        raise ValueError(
            f"`--density` must be given, since {name} has a density of its own, {density!r}; choose one for the rows."
        )
    return under_density(fx, name, request, density, progress)


def under_density(fx: Decomposition, name: str, request: Request, density: str, progress: Progress) -> Decomposition:
    check_density(density)
    if request.density_from is None and KINDS[density].needs_data and not _has_rows(fx):
        raise ValueError(
            f"`--density-from` must be given for the density {density}, since {name} has no rows; add the rows."
        )
    rows = dataclasses.replace(request, data=request.density_from)
    table, weights = _read_rows(rows, fx.schema, progress)
    return fx.with_density(density, table, sample_weight=weights, progress=within(progress, f"density {density}"))


def _has_rows(fx: Decomposition) -> bool:
    return fx.statistics is not None and len(fx.statistics.sample) > 0


def _read_rows(request: Request, schema: Schema, progress: Progress) -> tuple[Any, Any]:
    if request.data is None:
        return None, None
    with one_step(progress, f"reading {request.data.name}"):
        return request.table(schema), request.weights()


def _decomposed_model(file: ModelFile, request: Request, density: str, progress: Progress) -> Decomposition:
    rows = request.rows_of_density
    check_has_rows(request, density)
    with one_step(progress, f"reading {file.name}"):
        model = unpickled(file.path, trusted=request.trusted)
        content = read_for_rows(model)
    table, weights = _read_rows(rows, content.schema, progress)
    fx = decompose(
        content,
        table,
        density=density,
        sample_weight=weights,
        max_order=request.max_order,
        seconds=request.seconds,
        budget=request.budget * _GIGABYTE,
        progress=progress,
    )
    return dataclasses.replace(fx, model=model)


def check_density(density: str | None, *more: str) -> None:
    names = [*KINDS, *more]
    if density is not None and density not in names:
        near = difflib.get_close_matches(density.lower(), names, n=1)
        remedy = f"did you mean {near[0]}?" if near else "choose one of them."
        raise ValueError(f"`--density` must be one of {', '.join(names)}, got {density!r}; {remedy}")
