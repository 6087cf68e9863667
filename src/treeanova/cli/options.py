"""The options of the commands. Those that all commands share are the fields of `Request`."""

from __future__ import annotations

import dataclasses
import glob
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from treeanova.data.features import Schema

_NO_VALUE = " "  # instead of "<bool>" behind flags

ModelArgument = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="A saved model: XGBoost (.json, .ubj), LightGBM (.txt), CatBoost (.cbm, .json), ONNX (.onnx), PMML "
        "(.pmml), treelite (.tl, .treelite), YDF or Spark ML (a folder), or a pickle with --trusted; or a saved "
        "decomposition (.tav).",
    ),
]
ModelArguments = Annotated[
    list[Path], typer.Argument(metavar="MODEL", help="One or more saved models or decompositions (.tav).")
]
AsJson = Annotated[bool, typer.Option("--json", metavar=_NO_VALUE, help="Print JSON for machines instead of text.")]
Top = Annotated[int, typer.Option(min=1, metavar="N", help="Print the N strongest terms only.")]
Page = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a shareable HTML page without scripts.")]
DENSITIES = "auto (the default), kernel, empirical, laplace, independent, shrinkage, uniform or effect-coding"


def option(help_text: str, metavar: str, *names: str, minimum: float | None = None) -> Any:
    """Return an option with a value; `metavar` names that in the help, and its name is that of the argument."""
    return typer.Option(*names, metavar=metavar, help=help_text, min=minimum)


def flag(help_text: str, name: str) -> Any:
    """Return an option without a value, named like "--raw"."""
    return typer.Option(name, metavar=_NO_VALUE, help=help_text)


@dataclasses.dataclass(frozen=True)
class Request:
    """The options that all commands share: rows, their density and columns, limits; and the rows themselves."""

    data: Annotated[
        Path | None,
        option(
            "The rows: .csv, .tsv, .parquet, .feather or .jsonl; text may be compressed (.gz, .zst). Empty cells are "
            "missing. A folder of Parquet files, or a pattern such as 'year/*.parquet', is read in batches, however "
            "large. They define the density of a model, unless --density-from names others.",
            "FILE",
        ),
    ] = None
    density: Annotated[str | None, option(f"How the data distribution is estimated: {DENSITIES}.", "NAME")] = None
    density_from: Annotated[
        Path | None,
        option(
            "Rows that define the density, as --data. Default: those of --data for a model; a saved decomposition "
            "keeps its own density. They may lack the columns of --target.",
            "FILE",
        ),
    ] = None
    target: Annotated[
        list[str] | None,
        option("The column with the outcome, which is not a feature; repeat the option for several.", "COLUMN"),
    ] = None
    weight: Annotated[str | None, option("The column with the weights of the rows.", "COLUMN")] = None
    max_order: Annotated[
        int | None, option("Put interactions of more than N features into one remainder.", "N", minimum=1)
    ] = None
    seconds: Annotated[
        float | None, option("Approximate time limit; the answer says what it left out.", "S", minimum=0.1)
    ] = None
    budget: Annotated[float, option("Largest memory for all tables, in gigabytes.", "GB", minimum=0.0)] = 2.0
    trusted: Annotated[
        bool, flag("Load a pickle. That runs any code in it: only if you trust its source.", "--trusted")
    ] = False

    @property
    def rows_of_density(self) -> Request:
        """The same request for the rows that define the density."""
        return self if self.density_from is None else dataclasses.replace(self, data=self.density_from)

    def other_columns(self, schema: Schema) -> list[str]:
        """Return the columns that are not features; weights may be one that the model has by name."""
        is_feature = schema.named and any(self.weight in spelling for spelling in schema.spellings)
        weight = [self.weight] if self.weight and not is_feature else []
        return list(dict.fromkeys([*(self.target or []), *weight]))

    def table(self, schema: Schema) -> Any:
        """Return the rows of --data without other columns: a table, or batches; None without --data."""
        if self.data is None:
            return None
        targets = self.target or []
        columns = targets if is_in_batches(self.data) else self.other_columns(schema)
        return rows_of(self.data, schema, columns, may_lack=targets if self.density_from is not None else ())

    def table_in_memory(self, schema: Schema) -> Any:
        """Return `table`, with batches read into one table."""
        from treeanova.data.sources import Selection, parquet_files  # noqa: PLC0415  slow to load

        if self.data is None or not is_in_batches(self.data):
            return self.table(schema)
        return parquet_files(self.data).reading(Selection(schema, drop=tuple(self.other_columns(schema)))).in_memory()

    def weights(self) -> Any:
        """Return the weights of the rows, or the name of their column if rows are read in batches."""
        from treeanova.data.files import TableError  # noqa: PLC0415  slow to load

        if self.data is None or self.weight is None:
            return None
        try:
            return self.weight if is_in_batches(self.data) else self.column(self.weight)
        except TableError:
            raise
        except ValueError as error:
            raise ValueError(f"`--weight` must name a column, got {self.weight!r}: {error}") from error

    def column(self, name: str) -> Any:
        """Return the values of a column of --data; None without --data."""
        from treeanova.data.columns import raw_column  # noqa: PLC0415  slow to load
        from treeanova.data.files import read_column  # noqa: PLC0415
        from treeanova.data.sources import parquet_files  # noqa: PLC0415

        if self.data is None:
            return None
        if is_in_batches(self.data):
            return raw_column(parquet_files(self.data).column(name))
        return read_column(self.data, name)

    def labels(self, name: str) -> list[Any]:
        """Return the values of a column that are names, such as codes, not numbers to compute with."""
        from treeanova.data.files import read_labels  # noqa: PLC0415  slow to load
        from treeanova.data.sources import parquet_files  # noqa: PLC0415

        if self.data is None:
            return []
        if is_in_batches(self.data):
            return parquet_files(self.data).column(name).to_list()
        return read_labels(self.data, name)

    def columns(self, names: Sequence[str]) -> Any:
        """Return one column of --data, shape (n_rows,), or several, (n_rows, n_columns)."""
        import numpy as np  # noqa: PLC0415  slow to load

        arrays = [np.asarray(self.column(name)) for name in names]
        return arrays[0] if len(arrays) == 1 else np.stack(arrays, axis=1)


def is_in_batches(path: Path) -> bool:
    """Whether a path is a folder, or a pattern of files, which are read in batches."""
    return path.is_dir() or (glob.has_magic(str(path)) and not path.exists())


def rows_of(path: Path, schema: Schema, drop: Sequence[str] = (), *, may_lack: Sequence[str] = ()) -> Any:
    """Return the rows of a file, or batches of a folder or pattern; columns of `may_lack` need not exist."""
    from treeanova.data.files import read_table  # noqa: PLC0415  slow to load
    from treeanova.data.sources import Selection, parquet_files  # noqa: PLC0415

    if is_in_batches(path):
        return parquet_files(path).reading(Selection(schema, drop=tuple(drop)))
    return read_table(path, schema, drop=drop, may_lack=may_lack)
