"""From files to decompositions: models, saved decompositions, rows. Each model file is read once."""

from __future__ import annotations

import dataclasses
import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from treeanova._decompose import decompose
from treeanova.cli.options import DEFAULT_BUDGET
from treeanova.core.progress import Progress, one_step, within
from treeanova.data.batches import Selection
from treeanova.data.features import Schema
from treeanova.data.parquet_files import parquet_files
from treeanova.data.tabular import read_column, read_table
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.files import load
from treeanova.density.kinds import KINDS
from treeanova.readers import read_for_rows, unpickled

_GIGABYTE = 10**9


@dataclasses.dataclass(frozen=True)
class Request:
    """What the options say about rows, about the rows of the density, and about reading the model."""

    data: Path | None
    target: Sequence[str] = ()
    weight: str | None = None
    budget: float = DEFAULT_BUDGET
    max_order: int | None = None
    trusted: bool = False
    seconds: float | None = None
    density_from: Path | None = None

    @property
    def rows_of_density(self) -> Request:
        """The request for the rows that define the density of a model."""
        return self if self.density_from is None else dataclasses.replace(self, data=self.density_from)

    def table(self, schema: Schema) -> Any:
        """The data with the columns of a schema; None without data."""
        if self.data is None:
            return None
        columns = self.target if is_in_batches(self.data) else self.others
        return rows_of(self.data, schema, columns, may_lack=self.target if self.density_from is not None else ())

    @property
    def others(self) -> list[str]:
        """Columns that are no features."""
        return list(dict.fromkeys([*self.target, *([self.weight] if self.weight else [])]))

    def weights(self) -> Any:
        """Weights of the rows, or the name of their column where rows are read in batches, or None."""
        if self.data is None or self.weight is None:
            return None
        return self.weight if is_in_batches(self.data) else read_column(self.data, self.weight)

    def column(self, name: str) -> Any:
        """One column of the data, as it is; None without data."""
        return None if self.data is None else read_column(self.data, name)

    def columns(self, names: Sequence[str]) -> Any:
        """One column of the data, or several side by side."""
        found = [np.asarray(self.column(name)) for name in names]
        return found[0] if len(found) == 1 else np.stack(found, axis=1)


def is_in_batches(path: Path) -> bool:
    """Whether a path is a folder of Parquet files, or a pattern of their names."""
    return path.is_dir() or (glob.has_magic(str(path)) and not path.exists())


def rows_of(path: Path, schema: Schema, drop: Sequence[str] = (), *, may_lack: Sequence[str] = ()) -> Any:
    """The rows of a file in memory, or those of several Parquet files in batches."""
    if is_in_batches(path):
        return parquet_files(path).reading(Selection(schema, drop=tuple(drop)))
    return read_table(path, schema, drop=drop, may_lack=may_lack)


@dataclasses.dataclass(frozen=True)
class ModelFile:
    """A file with a saved decomposition, which has been read, or with a model that is yet to be read."""

    path: Path
    saved: Decomposition | None = None

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.path.name


def open_model(path: Path, request: Request, progress: Progress) -> ModelFile:
    """The file of a model, checked to be there; a saved decomposition is read."""
    if not (path.is_file() or path.is_dir()):  # some libraries save folders
        raise FileNotFoundError(f"`MODEL` must be the path of a file, no such file: {str(path)!r}; check the path.")
    check_rows("--data", request.data)
    check_rows("--density-from", request.density_from)
    for option, given in (("--weight", request.weight), ("--target", list(request.target))):
        if given and request.rows_of_density.data is None:
            raise ValueError(f"`{option}` must come with --data, got {given!r} without; add the rows, or leave it out.")
    if path.suffix.lower() != ".tav":
        return ModelFile(path)
    with one_step(progress, f"reading {path.name}"):
        return ModelFile(path, load(path))


def rows_to_explain(rows: Path | None, data: Path | None, rows_out: Path | None) -> Path:
    """The rows whose terms are written."""
    if rows is not None and rows_out is None:
        raise ValueError(f"`--rows` must come with --rows-out, got {str(rows)!r} without; add the file to write.")
    if rows_out is not None and rows is None and data is None:
        raise ValueError(f"`--rows-out` must come with rows, got {str(rows_out)!r} alone; add --rows or --data.")
    check_rows("--rows", rows)
    return rows or data or Path()


def check_rows(option: str, path: Path | None) -> None:
    """Raise FileNotFoundError for a path of rows where there is no file."""
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
    """Raise ValueError for rows that a command would not use, because the density comes from elsewhere."""
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
    """The decomposition of a model file under a density of the rows, or a saved one with its own density.

    A saved one keeps its density, unless another kind or other rows for it are named: never those of `--data`.
    """
    if model.saved is not None:
        return _saved(model.saved, model.name, request, density, progress)
    check_density(density)
    return _decomposed_model(model, request, density or "auto", progress)


def check_has_rows(request: Request, density: str) -> None:
    """Raise ValueError for a density of a model that needs rows where there are none."""
    if request.rows_of_density.data is None and KINDS[density].needs_data:
        raise ValueError(f"`--data` must be given for the density {density}, got no rows; only uniform needs none.")


def _saved(fx: Decomposition, name: str, request: Request, density: str | None, progress: Progress) -> Decomposition:
    """A saved decomposition, under other rows or another density where they are given."""
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
    """A decomposition under another density, of the rows of `--density-from` or of those that it has."""
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
    """Rows and their weights; None where there are none."""
    if request.data is None:
        return None, None
    with one_step(progress, f"reading {request.data.name}"):
        return request.table(schema), request.weights()


def _decomposed_model(file: ModelFile, request: Request, density: str, progress: Progress) -> Decomposition:
    """The decomposition of a model that is read from a file."""
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
    """Raise ValueError for an unknown name of a density; `more` are names that are known besides."""
    known = [*KINDS, *more]
    if density is not None and density not in known:
        raise ValueError(f"`--density` must be one of {', '.join(known)}, got {density!r}; choose one of them.")
