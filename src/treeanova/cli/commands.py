"""The commands, and how they are started. Modules that are slow to load are imported by the command that needs them."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from treeanova import __version__
from treeanova.cli.sources import (
    DEFAULT_BUDGET,
    AsJson,
    Budget,
    Data,
    DensityFrom,
    DensityName,
    DensityNames,
    MaxOrder,
    ModelArgument,
    ModelArguments,
    NewData,
    NewModel,
    OldData,
    OldModel,
    Page,
    Seconds,
    Target,
    Top,
    Trusted,
    Weight,
    check_outputs,
)
from treeanova.cli.terminal import prepare, progress, run_app, say
from treeanova.core.files import write_text
from treeanova.core.progress import one_step, within

app = typer.Typer(
    name="treeanova",
    help="Pure main effects and interactions of a trained tree ensemble, which add up to the model exactly.",
    epilog="Start: treeanova explain model.json --data rows.csv --target y --out report.html",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"treeanova {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Pure main effects and interactions of a trained tree ensemble, which add up to the model exactly."""


@app.command()
def explain(
    model: ModelArgument,
    *,
    data: Data = None,
    density: DensityName = None,
    density_from: DensityFrom = None,
    target: Target = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a report: one HTML page.")] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the decomposition to a file (.tav).")] = None,
    rows_out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all terms at all rows to a Parquet file.")
    ] = None,
    rows: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The rows for --rows-out; those of --data by default.")
    ] = None,
    open_report: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
    weight: Weight = None,
    max_order: MaxOrder = None,
    seconds: Seconds = None,
    top: Top = 15,
    budget: Budget = DEFAULT_BUDGET,
    trusted: Trusted = False,
    json: AsJson = False,
) -> None:
    """Decompose a model: which main effects and interactions matter, and how pure they are.

    Example: treeanova explain model.json --data rows.csv --target price --out report.html
    """
    from treeanova.cli import (  # noqa: PLC0415
        answers,
        sources,
        terminal,
    )

    if open_report and out is None:
        raise ValueError("`--open` must come with a report to open, got no --out; add --out report.html.")
    explained_rows = sources.rows_to_explain(rows, data, rows_out)
    check_outputs(
        {"--out": out, "--save": save, "--rows-out": rows_out},
        {"MODEL": model, "--data": data, "--rows": rows, "--density-from": density_from},
    )
    request = sources.Request(data, target or (), weight, budget, max_order, trusted, seconds, density_from)
    files = {}
    with progress() as report:
        opened = sources.open_model(model, request, report)
        if rows_out is None or rows is not None:
            sources.refuse_idle_rows(opened, request)
        fx = sources.decomposed(opened, request, density, report)
        fx.importance(progress=within(report, "importance"))
        if save is not None:
            with one_step(report, f"writing {save.name}"):
                fx.save(save)
            files["decomposition"] = str(save)
        if out is not None:
            from treeanova.report import write_report  # noqa: PLC0415  an extra

            write_report(fx, out, title=model.name, progress=report)
            files["report"] = str(out)
        if rows_out is not None:
            drop = request.others if rows is None else ()
            fx.explain_to(rows_out, sources.rows_of(explained_rows, fx.schema, drop), progress=report)
            files["rows"] = str(rows_out)
        summary = answers.summary(fx, model.name) | {"files": files}
    say(terminal.as_json(summary) if json else answers.explained(fx, summary, top))
    if open_report and out is not None:
        webbrowser.open(out.resolve().as_uri())


@app.command()
def table(
    model: ModelArgument,
    *,
    term: Annotated[str, typer.Option(metavar="A,B", help='A feature, or several: "Latitude,Longitude".')],
    data: Data = None,
    density: DensityName = None,
    density_from: DensityFrom = None,
    target: Target = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write CSV to a file; - is standard output.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="The term before purification.")] = False,
    weight: Weight = None,
    budget: Budget = DEFAULT_BUDGET,
    trusted: Trusted = False,
    json: AsJson = False,
) -> None:
    """Print one term as a table: bins, value and weight of each cell.

    Example: treeanova table fx.tav --term Latitude,Longitude --csv -
    """
    from treeanova.cli import (  # noqa: PLC0415
        answers,
        sources,
        terminal,
    )
    from treeanova.cli.sources import term_named  # noqa: PLC0415  slow to load
    from treeanova.data.files import records  # noqa: PLC0415  slow to load

    to_pipe = str(csv) == "-"
    if json and csv is not None:
        raise ValueError(f"`--json` must come without --csv, got --csv {csv} too; choose one.")
    check_outputs({"--csv": None if to_pipe else csv}, {"MODEL": model, "--data": data, "--density-from": density_from})
    with progress() as report:
        request = sources.Request(data, target or (), weight, budget, trusted=trusted, density_from=density_from)
        opened = sources.open_model(model, request, report)
        sources.refuse_idle_rows(opened, request)
        pure = sources.decomposed(opened, request, density, report)
        fx = pure.raw if raw else pure
        with one_step(report, "table"):
            names = term_named(term, fx)
            cells = records(fx.table(names))
    if csv is not None and not to_pipe:
        write_text(csv, terminal.as_csv(cells))
        say(f"wrote {csv}")
    elif json or to_pipe:
        say(terminal.as_json(cells) if json else terminal.as_csv(cells)[:-1])
    else:
        say(f"{answers.table_words(fx, names, is_raw=raw)}\n\n{terminal.aligned(cells)}")


@app.command()
def compare(
    models: ModelArguments,
    *,
    data: Data = None,
    density: DensityNames = None,
    density_from: DensityFrom = None,
    target: Target = None,
    weight: Weight = None,
    max_order: MaxOrder = None,
    seconds: Seconds = None,
    top: Top = 15,
    budget: Budget = DEFAULT_BUDGET,
    trusted: Trusted = False,
    json: AsJson = False,
) -> None:
    """Compare densities of one model, or several models: distances, signs and ranks of terms.

    Example: treeanova compare model.json --data rows.csv --target y --density auto --density uniform
    """
    from treeanova.cli import (  # noqa: PLC0415
        answers,
        sources,
        terminal,
    )
    from treeanova.decomposition.comparison import compare as compare_decompositions  # noqa: PLC0415  slow to load

    request = sources.Request(data, target or (), weight, budget, max_order, trusted, seconds, density_from)
    with progress() as report:
        answers.check_different(models)
        files = [sources.open_model(model, request, report) for model in models]
        densities = density or answers.default_densities(files, request)
        decompositions = answers.parts_of(files, request, densities, report)
        rows = answers.rows_to_compare(files, request, next(iter(decompositions.values())).schema)
        comparison = compare_decompositions(decompositions, **rows, progress=within(report, "comparing"))
    say(terminal.as_json(answers.plain_comparison(comparison)) if json else answers.compared(comparison, top))


@app.command()
def change(
    old: OldModel,
    new: NewModel,
    *,
    data_old: OldData,
    data_new: NewData,
    density: DensityName = None,
    density_from: DensityFrom = None,
    target: Target = None,
    out: Page = None,
    weight: Weight = None,
    max_order: MaxOrder = None,
    seconds: Seconds = None,
    top: Top = 15,
    budget: Budget = DEFAULT_BUDGET,
    trusted: Trusted = False,
    json: AsJson = False,
) -> None:
    """Say what moved the mean score from one model and its rows to another: population and model, term by term.

    Example: treeanova change old.json new.json --data-old 2011.csv --data-new 2012.csv --target y --out change.html
    """
    from treeanova.cli import (  # noqa: PLC0415
        answers,
        sources,
        terminal,
    )

    check_outputs(
        {"--out": out},
        {"OLD": old, "NEW": new, "--data-old": data_old, "--data-new": data_new, "--density-from": density_from},
    )
    requests = [
        sources.Request(data, target or (), weight, budget, max_order, trusted, seconds, density_from)
        for data in (data_old, data_new)
    ]
    with progress() as report:
        pairs = zip((old, new), requests, strict=True)
        models = [sources.open_model(model, request, report) for model, request in pairs]
        found = answers.change_between(models, requests, density, report)
        files = _write_page(found, out)
    names = ("old", "new") if old.name == new.name else (old.name, new.name)
    plain = answers.plain_change(found, names) | {"models": [str(old), str(new)], "files": files}
    say(terminal.as_json(plain) if json else _with_files(answers.changed(found, plain, top), files))


@app.command()
def gap(
    model: ModelArgument,
    *,
    group: Annotated[str, typer.Option(metavar="COLUMN", help="A column of the data that makes the groups.")],
    data: Data = None,
    value: Annotated[
        str | None, typer.Option(metavar="VALUE", help="Compare rows with this value with all others.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="VALUE", help="Compare --value with rows of this value only.")
    ] = None,
    feature: Annotated[
        str | None, typer.Option(metavar="NAME", help="Tell apart what flows through this feature; default: the group.")
    ] = None,
    density: DensityName = None,
    density_from: DensityFrom = None,
    target: Target = None,
    weight: Weight = None,
    out: Page = None,
    max_order: MaxOrder = None,
    seconds: Seconds = None,
    top: Top = 15,
    budget: Budget = DEFAULT_BUDGET,
    trusted: Trusted = False,
    json: AsJson = False,
) -> None:
    """Say what makes the mean scores of two groups of rows differ, term by term, with standard errors.

    Example: treeanova gap model.json --data rows.csv --target income --group sex --out gap.html
    """
    from treeanova.cli import (  # noqa: PLC0415
        answers,
        sources,
        terminal,
    )

    check_outputs({"--out": out}, {"MODEL": model, "--data": data, "--density-from": density_from})
    request = sources.Request(data, target or (), weight, budget, max_order, trusted, seconds, density_from)
    groups = answers.Groups(group, value, against)
    with progress() as report:
        fx = sources.decomposed(sources.open_model(model, request, report), request, density, report)
        found = answers.gap_in(fx, request, groups, feature, within(report, "gap"))
        files = _write_page(found, out)
    plain = answers.plain_gap(found, model.name) | {"files": files}
    say(terminal.as_json(plain) if json else _with_files(answers.parted(found, plain, top), files))


def _write_page(found: Any, out: Path | None) -> dict[str, str]:
    """Write the page of a change or a gap, where a file is named; the files that were written."""
    if out is None:
        return {}
    from treeanova.report import write_report  # noqa: PLC0415  an extra

    write_report(found, out)
    return {"page": str(out)}


def _with_files(text: str, files: Mapping[str, str]) -> str:
    return "\n\n".join([text, *("wrote " + path for path in files.values())])


@app.command()
def validate(
    model: ModelArgument,
    *,
    data: Annotated[Path, typer.Option(metavar="FILE", help="Held-out rows with their outcome; files as for explain.")],
    target: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN",
            help="The column of the data with the outcome; repeat the option for several targets, or for the lower and "
            "the upper end of survival times.",
        ),
    ],
    loss: Annotated[
        str | None,
        typer.Option(
            metavar="LOSS",
            help="For example squared, absolute, pinball:0.9, log, poisson, cox; default: the model's objective.",
        ),
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column with the group (query) of each row, for rankings.")
    ] = None,
    density: DensityName = None,
    density_from: DensityFrom = None,
    weight: Weight = None,
    max_order: MaxOrder = None,
    top: Top = 15,
    budget: Budget = DEFAULT_BUDGET,
    trusted: Trusted = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a report with this validation.")] = None,
    json: AsJson = False,
) -> None:
    """Ask held-out rows two questions about each term.

    How much worse is the loss without the term? And does the outcome follow the term, given all the others?

    Example: treeanova validate model.json --data held_out.csv --target price
    """
    from treeanova.cli import (  # noqa: PLC0415
        answers,
        sources,
        terminal,
    )

    check_outputs({"--out": out}, {"MODEL": model, "--data": data, "--density-from": density_from})
    others = (*target, group) if group else tuple(target)
    held_out = sources.Request(data, others, weight, budget, max_order, trusted, density_from=density_from)
    with progress() as report:
        fx = sources.decomposed(sources.open_model(model, held_out, report), held_out, density, report)
        with one_step(report, f"reading {data.name}"):
            outcome, groups = held_out.columns(target), held_out.column(group) if group else None
            rows, weights = held_out.table(fx.schema), held_out.weights()
        validation = fx.validate(
            rows, outcome, loss=loss, group=groups, sample_weight=weights, progress=within(report, "validating")
        )
        if out is not None:
            from treeanova.report import write_report  # noqa: PLC0415  an extra

            write_report(fx, out, title=model.name, validation=validation, progress=report)
    if json:
        say(terminal.as_json(answers.plain_validation(validation)))
    else:
        say(answers.validated(validation, top) + ("" if out is None else f"\n\nwrote {out}"))


@app.command()
def reasons(
    model: ModelArgument,
    *,
    data: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="The rows; they also define the density of a model, unless --density-from names others.",
        ),
    ],
    row: Annotated[int, typer.Option(min=0, metavar="N", help="The row to explain, by its number from 0 on.")],
    reference: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The row to compare with; default: the average.")
    ] = None,
    density: DensityName = None,
    density_from: DensityFrom = None,
    target: Target = None,
    max_order: MaxOrder = None,
    seconds: Seconds = None,
    top: Top = 15,
    budget: Budget = DEFAULT_BUDGET,
    trusted: Trusted = False,
    json: AsJson = False,
) -> None:
    """Say why a row has its score: what each term adds to the score of another row, or to the average.

    Example: treeanova reasons model.json --data rows.csv --target y --row 13 --reference 4
    """
    from treeanova.cli import (  # noqa: PLC0415
        answers,
        sources,
        terminal,
    )

    request = sources.Request(data, target or (), None, budget, max_order, trusted, seconds, density_from)
    with progress() as report:
        opened = sources.open_model(model, request, report)
        fx = answers.decomposed_for_reasons(opened, request, density, reference, report)
        plain = answers.plain_reasons(answers.reasons_for(fx, request, row, reference), fx, model.name)
    say(terminal.as_json(plain) if json else answers.reasoned(plain, top))


@app.command()
def monotonicity(
    model: ModelArgument,
    *,
    feature: Annotated[list[str], typer.Option(metavar="NAME", help="A feature; repeat the option for more.")],
    output: Annotated[
        str | None, typer.Option(metavar="NAME", help="The class or target; needed where there are several.")
    ] = None,
    data: Data = None,
    density: DensityName = None,
    density_from: DensityFrom = None,
    target: Target = None,
    budget: Budget = DEFAULT_BUDGET,
    trusted: Trusted = False,
    json: AsJson = False,
) -> None:
    """Say whether the score only rises or only falls in a feature, whatever the others are; with counterexamples.

    Example: treeanova monotonicity model.json --feature age
    """
    from treeanova.cli import (  # noqa: PLC0415
        answers,
        sources,
        terminal,
    )

    request = sources.Request(data, target or (), None, budget, trusted=trusted, density_from=density_from)
    with progress() as report:
        opened = sources.open_model(model, request, report)
        sources.refuse_idle_rows(opened, request)
        needs_no_rows = opened.saved is None and request.rows_of_density.data is None  # the answer asks no density
        fx = sources.decomposed(opened, request, density or ("uniform" if needs_no_rows else None), report)
        found = [fx.monotonicity(name, output=output) for name in feature]
    plain = answers.plain_monotonicity(found, model.name)
    say(terminal.as_json(plain) if json else "\n\n".join(terminal.printable_lines(str(one)) for one in found))


def run(arguments: Sequence[str]) -> int:
    """The exit status of the command line with these arguments."""
    return run_app(app, arguments or ["--help"])


def main() -> None:
    """Run the command line and exit."""
    prepare()
    sys.exit(run(sys.argv[1:]))
