"""Options that several commands share, with their help texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_BUDGET = 2.0

ModelFile = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="A saved model (.json, .ubj of XGBoost; .txt of LightGBM; .cbm, .json of CatBoost; a pickle with "
        "--trusted) or a decomposition saved before (.tav).",
    ),
]
ModelFiles = Annotated[
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
