"""From files to decompositions: models, saved decompositions, rows. Each model file is read once."""

from __future__ import annotations

import csv
import dataclasses
import difflib
import glob
import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from treeanova._decompose import decompose
from treeanova.core.arrays import Names, quoted, split_label
from treeanova.core.files import ARCHIVE, CSV, PAGE, PARQUET, check_suffix, is_same_file
from treeanova.core.progress import Progress, one_step, within
from treeanova.data.features import Schema
from treeanova.data.files import read_column, read_table
from treeanova.data.parquet import parquet_files
from treeanova.data.sources import Selection
from treeanova.decomposition.decomposition import Decomposition, load
from treeanova.density.kinds import KINDS
from treeanova.readers import read_for_rows, unpickled
from treeanova.views import features_by_label

_SUFFIXES = {"--out": PAGE, "--save": ARCHIVE, "--rows-out": PARQUET, "--csv": CSV}


def check_outputs(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | Sequence[Path] | None]) -> None:
    """Raise ValueError for a file that cannot be written, has the suffix of another format, or is an input or output.

    Parameters
    ----------
    outputs
        Files to write, by the option that names them; None where an option is not given.
    inputs
        Files to read, by the option or argument that names them.
    """
    from treeanova.data.parquet import would_read  # noqa: PLC0415  slow to load

    written = {option: path for option, path in outputs.items() if path is not None}
    read = [(option, path) for option, given in inputs.items() for path in _paths(given)]
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


def _paths(given: Path | Sequence[Path] | None) -> Sequence[Path]:
    if given is None:
        return ()
    return (given,) if isinstance(given, Path) else given


def _check_writable(path: Path) -> None:
    folder = Path(os.path.realpath(path)).parent
    if path.is_dir():
        raise ValueError(f"the file to write must be a file, got the folder {path}; add a name.")
    if not folder.is_dir():
        raise ValueError(f"the file to write must be in a folder that exists, got {path}; create {folder} first.")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"the file to write must be in a folder that can be written to, got {path}; choose another.")


def term_named(text: str, fx: Decomposition) -> Names:
    """Names of the features of a term, from "a", "a,b", "a × b" or "a x b"; names may hold commas in quotes."""
    labelled = features_by_label(fx.terms, fx.schema).get(text.strip(), ())
    typed = ((text,), _listed(text), split_label(text), labelled)
    readings = dict.fromkeys(tuple(sorted(name.strip() for name in names)) for names in typed)
    known = {tuple(sorted(names)): names for names in fx.terms}
    found = [known[reading] for reading in readings if reading in known]
    if not found:
        raise ValueError(f"`--term` must be a term that has a table, got {text!r}; {_near(text, fx)}.")
    if len(found) > 1:
        raise ValueError(f"`--term` must name one term, got {text!r}; write {' or '.join(map(_typed, found))}.")
    names = found[0]
    if not fx.terms[names].has_table:
        raise ValueError(
            f"`--term` must be a term that has a table, got {text!r}, which is known at rows only; in Python, "
            "fx.term_values(X, names) gives its values."
        )
    return names


def _typed(names: Names) -> str:
    """A line of CSV, which can be read in one way only."""
    return ",".join(map(quoted, names))


def _near(text: str, fx: Decomposition) -> str:
    """Terms with tables whose names are close to a text."""
    labels = [",".join(names) for names, term in fx.terms.items() if term.has_table]
    near = difflib.get_close_matches(text, labels, n=3, cutoff=0.4) or labels[:3]
    return f"there are {'; '.join(near)} ({len(labels)} in all)"


def _listed(text: str) -> Names:
    """Names from a line of CSV; none where it is not such a line."""
    try:
        return tuple(next(csv.reader([text], skipinitialspace=True), []))
    except csv.Error:  # a line break outside quotes
        return ()


DEFAULT_BUDGET = 2.0

ModelArgument = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="A saved model (.json, .ubj of XGBoost; .txt of LightGBM; .cbm, .json of CatBoost; a pickle with "
        "--trusted) or a decomposition saved before (.tav).",
    ),
]
ModelArguments = Annotated[
    list[Path], typer.Argument(metavar="MODEL...", help="One or more saved models or decompositions (.tav).")
]
Data = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The rows: .csv, .tsv, .parquet, .feather or .jsonl; text may be compressed (.gz, .zst). Empty cells are "
        "missing. A folder of Parquet files, or a pattern such as 'year/*.parquet', is read in batches, however large. "
        "They define the density of a model, unless --density-from names others; a saved decomposition keeps its own.",
    ),
]
DensityFrom = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Rows that define the density, as --data. Default: those of --data for a model; a saved decomposition "
        "keeps its own density. They may lack the columns of --target.",
    ),
]
Target = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="A column of the data that is not a feature; repeat the option for more."),
]
DensityName = Annotated[
    str | None,
    typer.Option(
        "--density",
        metavar="NAME",
        help="auto (the default), kernel, empirical, laplace, independent, shrinkage or uniform.",
    ),
]
DensityNames = Annotated[
    list[str] | None,
    typer.Option(
        "--density",
        metavar="NAME",
        help="A density, or raw for the model before purification; repeat the option for more. The others are "
        "compared with the first. Default: auto, raw, uniform and empirical for one model, auto for several.",
    ),
]
Weight = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="A column of the data with the weights of the rows.")
]
MaxOrder = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Put interactions of more than N features into one remainder.")
]
Seconds = Annotated[
    float | None,
    typer.Option(min=0.1, metavar="S", help="The best answer in about S seconds; it says what it left out."),
]
Budget = Annotated[float, typer.Option(min=0.0, metavar="GB", help="Largest memory for all tables, in gigabytes.")]
Trusted = Annotated[
    bool,
    typer.Option("--trusted", help="Load a pickle. That runs any code in it: only if you trust its source."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of text.")]
Top = Annotated[int, typer.Option(min=1, metavar="N", help="Print the N strongest terms only.")]
OldModel = Annotated[
    Path, typer.Argument(metavar="OLD", help="The model before: a saved model or a decomposition (.tav).")
]
NewModel = Annotated[
    Path, typer.Argument(metavar="NEW", help="The model after; the same file again to compare two sets of rows.")
]
OldData = Annotated[Path, typer.Option(metavar="FILE", help="The old rows, as --data of other commands.")]
NewData = Annotated[Path, typer.Option(metavar="FILE", help="The new rows, as --data of other commands.")]
Page = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page to send on: HTML without scripts.")]


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
