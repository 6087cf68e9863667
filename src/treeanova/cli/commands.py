"""The commands. Each imports the modules that are slow to load itself."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from treeanova import __version__
from treeanova.cli.options import (
    DENSITIES,
    AsJson,
    ModelArgument,
    ModelArguments,
    Page,
    Request,
    Top,
    flag,
    option,
    rows_of,
)
from treeanova.cli.terminal import as_csv, as_json, prepare_process, progress, run_app, say
from treeanova.core.files import write_text
from treeanova.core.progress import one_step, within

app: typer.Typer = typer.Typer(
    name="treeanova",
    help="Pure main effects and interactions of a trained tree ensemble, which add up to the model exactly.",
    epilog="Start: treeanova explain model.json --data rows.csv --out report.html",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_asked: bool) -> None:
    """Print the version and exit, as a callback of the option."""
    if is_asked:
        say(f"treeanova {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", metavar=" ", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Pure main effects and interactions of a trained tree ensemble, which add up to the model exactly."""


def _command(*, without: str = "") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that makes a command of a function: its arguments and the fields of `Request` become options.

    `without` names a field that a command replaces by an argument of its own.
    """
    hints = get_type_hints(Request, include_extras=True)
    shared = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in dataclasses.fields(Request)
        if field.name != without
    ]

    def register(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True)
        specific = [parameter for parameter in signature.parameters.values() if parameter.name != "request"]
        parameters = [*specific, *shared]

        @functools.wraps(function)
        def command(**values: Any) -> None:
            request = Request(**{parameter.name: values.pop(parameter.name) for parameter in shared})
            function(request=request, **values)

        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        app.command()(command)
        return function

    return register


def _print(plain: Any, text: Callable[[], str], *, json: bool, files: Mapping[str, str] | None = None) -> None:
    """Print an answer as JSON, or as text with the paths of files that were written."""
    say(as_json(plain) if json else "\n\n".join([text(), *(f"wrote {path}" for path in (files or {}).values())]))


@_command()
def explain(
    model: ModelArgument,
    request: Request,
    *,
    out: Annotated[Path | None, option("Write a report: one HTML page.", "FILE")] = None,
    save: Annotated[Path | None, option("Save the decomposition to a file (.tav).", "FILE")] = None,
    rows_out: Annotated[Path | None, option("Write all terms at all rows to a Parquet file.", "FILE")] = None,
    rows: Annotated[Path | None, option("The rows for --rows-out; those of --data by default.", "FILE")] = None,
    open_report: Annotated[bool, flag("Open the report in a browser.", "--open")] = False,
    top: Top = 15,
    json: AsJson = False,
) -> None:
    """Decompose a model: which main effects and interactions matter, and how pure they are.

    Example: treeanova explain model.json --data rows.csv --out report.html
    """
    from treeanova.cli import answers  # noqa: PLC0415  slow to load
    from treeanova.decomposition.answers import plain_summary, summary_text  # noqa: PLC0415

    if open_report and out is None:
        raise ValueError("`--open` must come with a report to open, got no --out; add --out report.html.")
    explained_rows = answers.rows_to_explain(rows, request.data, rows_out)
    outputs = {"--out": out, "--save": save, "--rows-out": rows_out}
    answers.check_outputs(outputs, {"MODEL": model, **answers.inputs_of(request), "--rows": rows})
    files = {}
    with progress() as report:
        opened = answers.open_model(model, request, report)
        if rows_out is None or rows is not None:
            answers.refuse_idle_rows(opened, request)
        fx = answers.decomposed(opened, request, request.density, report)
        fx.importance(progress=within(report, "importance"))
        if save is not None:
            with one_step(report, f"writing {save.name}"):
                fx.save(save)
            files["decomposition"] = str(save)
        files |= _write_page(fx, out, "report", title=model.name, progress=report)
        if rows_out is not None:
            drop = request.other_columns(fx.schema) if rows is None else ()
            fx.explain_to(rows_out, rows_of(explained_rows, fx.schema, drop), progress=report)
            files["rows"] = str(rows_out)
        content = plain_summary(fx, model.name) | {"files": files}
    _print(content, lambda: summary_text(fx, model.name, top), json=json, files=files)
    if open_report and out is not None:
        webbrowser.open(out.resolve().as_uri())


@_command()
def table(
    model: ModelArgument,
    request: Request,
    *,
    term: Annotated[str, option('A feature, or several: "Latitude,Longitude".', "A,B")],
    csv: Annotated[Path | None, option("Write CSV to a file; - is standard output.", "FILE")] = None,
    raw: Annotated[bool, flag("The term before purification.", "--raw")] = False,
    top: Annotated[int | None, option("Print the N cells with the largest values only.", "N", minimum=1)] = None,
    json: AsJson = False,
) -> None:
    """Print one term as a table: bins, value and weight of each cell.

    Example: treeanova table fx.tav --term Latitude,Longitude --csv -
    """
    from treeanova.cli import answers, terminal  # noqa: PLC0415  slow to load
    from treeanova.data.files import records  # noqa: PLC0415

    to_pipe = str(csv) == "-"
    if json and csv is not None:
        raise ValueError(f"`--json` must come without --csv, got --csv {csv} too; choose one.")
    answers.check_outputs({"--csv": None if to_pipe else csv}, {"MODEL": model, **answers.inputs_of(request)})
    with progress() as report:
        opened = answers.open_model(model, request, report)
        answers.refuse_idle_rows(opened, request)
        pure = answers.decomposed(opened, request, request.density, report)
        fx = pure.raw if raw else pure
        with one_step(report, "table"):
            names = answers.term_named(term, fx)
            cells = records(fx.table(names))
    n_more = max(len(cells) - (top or len(cells)), 0)
    if n_more:
        sizes = [max(abs(value) for name, value in cell.items() if name.startswith("value")) for cell in cells]
        strongest = sorted(sorted(range(len(cells)), key=lambda i: -sizes[i])[:top])
        cells = [cells[i] for i in strongest]
    if csv is not None and not to_pipe:
        write_text(csv, as_csv(cells))
        say(f"wrote {csv}")
    elif json or to_pipe:
        say(as_json(cells) if json else as_csv(cells)[:-1])
    else:
        more = f"\n{n_more} more cells, with smaller values" if n_more else ""
        say(f"{answers.table_words(fx, names, is_raw=raw)}\n\n{terminal.aligned(cells)}{more}")


@_command(without="density")
def compare(
    models: ModelArguments,
    request: Request,
    *,
    density: Annotated[
        list[str] | None,
        option(
            f"A density: {DENSITIES}; or raw for the model before purification. Repeat the option for more; the others "
            "are compared with the first. Default: auto, raw, uniform and empirical for one model (uniform and raw "
            "without rows), auto for several.",
            "NAME",
        ),
    ] = None,
    top: Top = 15,
    json: AsJson = False,
) -> None:
    """Compare densities of one model, or several models: distances, signs and ranks of terms.

    Example: treeanova compare model.json --data rows.csv --density auto --density uniform
    """
    from treeanova.cli import answers  # noqa: PLC0415  slow to load
    from treeanova.decomposition.comparison import compare as compare_decompositions  # noqa: PLC0415

    with progress() as report:
        answers.check_different(models)
        files = [answers.open_model(model, request, report) for model in models]
        densities = density or answers.default_densities(files, request)
        decompositions = answers.decompositions_of(files, request, densities, report)
        rows = answers.rows_to_compare(files, request, next(iter(decompositions.values())).schema)
        comparison = compare_decompositions(decompositions, **rows, progress=within(report, "comparing"))
    _print(comparison.to_dict(), lambda: f"{comparison:{top}}", json=json)


@_command(without="data")
def change(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="The model before, as MODEL of other commands.")],
    new: Annotated[
        Path, typer.Argument(metavar="NEW", help="The model after; the same file again to compare two sets of rows.")
    ],
    request: Request,
    *,
    data_old: Annotated[Path, option("The old rows, as --data of other commands.", "FILE")],
    data_new: Annotated[Path, option("The new rows, as --data of other commands.", "FILE")],
    out: Page = None,
    top: Top = 15,
    json: AsJson = False,
) -> None:
    """Say what moved the mean score from one model and its rows to another: population and model, term by term.

    Example: treeanova change old.json new.json --data-old 2011.csv --data-new 2012.csv --out change.html
    """
    from treeanova.cli import answers  # noqa: PLC0415  slow to load

    inputs = {"OLD": old, "NEW": new, "--data-old": data_old, "--data-new": data_new}
    answers.check_outputs({"--out": out}, inputs | answers.inputs_of(request))
    requests = [dataclasses.replace(request, data=data) for data in (data_old, data_new)]
    with progress() as report:
        pairs = zip((old, new), requests, strict=True)
        models = [answers.open_model(model, one, report) for model, one in pairs]
        answer = answers.change_between(models, requests, request.density, report)
        files = _write_page(answer, out)
    names = ("old", "new") if old.name == new.name else (old.name, new.name)
    sides = {"old": names[0], "new": names[1], "models": [str(old), str(new)], "files": files}
    _print(answer.to_dict() | sides, lambda: f"{answer:{top}}", json=json, files=files)


@_command()
def gap(
    model: ModelArgument,
    request: Request,
    *,
    group: Annotated[str, option("A column of the data that makes the groups.", "COLUMN")],
    value: Annotated[str | None, option("Compare rows with this value with all others.", "VALUE")] = None,
    against: Annotated[str | None, option("Compare --value with rows of this value only.", "VALUE")] = None,
    feature: Annotated[
        str | None, option("Separate what flows through this feature; default: the group.", "NAME")
    ] = None,
    out: Page = None,
    top: Top = 15,
    json: AsJson = False,
) -> None:
    """Say what makes the mean scores of two groups of rows differ, term by term, with standard errors.

    Example: treeanova gap model.json --data rows.csv --group sex --out gap.html
    """
    from treeanova.cli import answers  # noqa: PLC0415  slow to load

    answers.check_outputs({"--out": out}, {"MODEL": model, **answers.inputs_of(request)})
    groups = answers.Groups(group, value, against)
    with progress() as report:
        fx = answers.decomposed(answers.open_model(model, request, report), request, request.density, report)
        answer = answers.gap_in(fx, request, groups, feature, within(report, "gap"))
        files = _write_page(answer, out)
    content = {"model": model.name} | answer.to_dict() | {"files": files}
    _print(content, lambda: f"{answer:{top}}", json=json, files=files)


def _write_page(answer: Any, out: Path | None, kind: str = "page", **options: Any) -> dict[str, str]:
    """Write the page of an answer, if asked for, and return its path by its kind."""
    if out is None:
        return {}
    from treeanova.report import write_report  # noqa: PLC0415  an extra

    write_report(answer, out, **options)
    return {kind: str(out)}


@_command()
def validate(
    model: ModelArgument,
    request: Request,
    *,
    loss: Annotated[
        str | None,
        option(
            "For example squared, absolute, pinball:0.9, log, poisson, cox; default: the model's objective.", "LOSS"
        ),
    ] = None,
    group: Annotated[
        str | None, option("The column with the group (query) of each row, for rankings.", "COLUMN")
    ] = None,
    out: Annotated[Path | None, option("Write a report with this validation.", "FILE")] = None,
    top: Top = 15,
    json: AsJson = False,
) -> None:
    """Ask held-out rows (--data, with the outcome in --target) two questions about each term.

    How much worse is the loss without the term? And does the outcome follow the term, given all the others? Several
    targets are several outcomes, or the lower and the upper end of survival times.

    Example: treeanova validate model.json --data held_out.csv --target price
    """
    from treeanova.cli import answers  # noqa: PLC0415  slow to load

    data, target = _required("--data", request.data), _required("--target", request.target)
    answers.check_outputs({"--out": out}, {"MODEL": model, **answers.inputs_of(request)})
    held_out = dataclasses.replace(request, target=[*target, group] if group else target)
    with progress() as report:
        fx = answers.decomposed(answers.open_model(model, held_out, report), held_out, request.density, report)
        with one_step(report, f"reading {data.name}"):
            outcome, groups = held_out.columns(target), held_out.labels(group) if group else None
            rows = held_out.table_in_memory(fx.schema)
            weights = held_out.column(held_out.weight) if held_out.weight else None
        validation = fx.validate(
            rows, outcome, loss=loss, group=groups, sample_weight=weights, progress=within(report, "validating")
        )
        files = _write_page(fx, out, "report", title=model.name, validation=validation, progress=report)
    _print(validation.to_dict(), lambda: f"{validation:{top}}", json=json, files=files)


def _required(option_name: str, value: Any) -> Any:
    """Return the value of an option of `validate`; raise ValueError without one."""
    if not value:
        raise ValueError(
            f"`{option_name}` must be given, got none; add the held-out rows and the column with the outcome."
        )
    return value


@_command()
def reasons(
    model: ModelArgument,
    request: Request,
    *,
    row: Annotated[int, option("The row of --data to explain, by its number from 0 on.", "N", minimum=0)],
    reference: Annotated[
        int | None, option("The row of --data to compare with; default: the average.", "N", minimum=0)
    ] = None,
    top: Top = 15,
    json: AsJson = False,
) -> None:
    """Say why a row has its score: what each term adds to the score of another row, or to the average.

    Example: treeanova reasons model.json --data rows.csv --row 13 --reference 4
    """
    from treeanova.cli import answers  # noqa: PLC0415  slow to load

    with progress() as report:
        opened = answers.open_model(model, request, report)
        fx = answers.decomposed_for_reasons(opened, request, request.density, reference, report)
        answer = answers.reasons_for(fx, request, row, reference)
    content = {"model": model.name} | answer.to_dict()
    [of_row] = content.pop("rows")
    _print(content | of_row, lambda: f"{answer:{top}}", json=json)


@_command()
def monotonicity(
    model: ModelArgument,
    request: Request,
    *,
    feature: Annotated[list[str], option("A feature; repeat the option for more.", "NAME")],
    output: Annotated[str | None, option("The class or target; needed if there are several.", "NAME")] = None,
    json: AsJson = False,
) -> None:
    """Say whether the score only rises or only falls in a feature, whatever the others are; with counterexamples.

    Example: treeanova monotonicity model.json --feature age
    """
    from treeanova.cli import answers  # noqa: PLC0415  slow to load

    with progress() as report:
        opened = answers.open_model(model, request, report)
        answers.refuse_idle_rows(opened, request)
        needs_no_rows = opened.saved is None and request.rows_of_density.data is None  # the answer asks no density
        density = request.density or ("uniform" if needs_no_rows else None)
        fx = answers.decomposed(opened, request, density, report)
        directions = [fx.monotonicity(name, output=output) for name in feature]
    content = {"model": model.name, "features": [direction.to_dict() for direction in directions]}
    _print(content, lambda: "\n\n".join(map(str, directions)), json=json)


@_command()
def card(
    model: ModelArgument,
    request: Request,
    *,
    out: Annotated[Path, option("The page to write.", "FILE")],
    baselines: Annotated[
        Path | None,
        option("Rows of training, as --data with --target, to fit two baselines to: boosted trees and a GLM.", "FILE"),
    ] = None,
    loss: Annotated[str | None, option("The loss, as for validate; default: the model's objective.", "LOSS")] = None,
    terms: Annotated[int, option("Draw the N strongest terms.", "N", minimum=1)] = 10,
    json: AsJson = False,
) -> None:
    """Write a model of tables as one printable page: terms, edits and, at held-out rows with --target, accuracy.

    Example: treeanova card fx.tav --data held_out.csv --target price --baselines train.csv --out card.html
    """
    from treeanova.cli import answers  # noqa: PLC0415  slow to load
    from treeanova.report import write_card  # noqa: PLC0415

    inputs = {"MODEL": model, "--baselines": baselines, **answers.inputs_of(request)}
    answers.check_outputs({"--out": out}, inputs)
    answers.check_rows("--baselines", baselines)
    with progress() as report:
        opened = answers.open_model(model, request, report)
        if not request.target:
            answers.refuse_idle_rows(opened, request)
        fx = answers.decomposed(opened, request, request.density, report)
        with one_step(report, "reading rows"):
            rows = answers.rows_of_card(fx.schema, request, baselines)
        write_card(fx, out, **rows, title=model.name, loss=loss, max_terms=terms, progress=report)
    files = {"card": str(out)}
    _print({"model": model.name, "files": files}, lambda: f"{model.name}: {len(fx)} terms", json=json, files=files)


@_command()
def export(
    model: ModelArgument,
    request: Request,
    *,
    to: Annotated[str, option("sql, python, javascript, onnx, ebm, scorecard or relativities.", "FORMAT")],
    out: Annotated[Path, option("The file to write. An EBM: .json, or .pkl for Python.", "FILE")],
    dialect: Annotated[
        str | None,
        option("Of SQL: duckdb (the default), postgresql, sqlite, spark, bigquery or snowflake.", "NAME"),
    ] = None,
    table: Annotated[str | None, option("The table that the SQL reads, as rows or schema.rows.", "NAME")] = None,
    columns: Annotated[
        str | None, option("What SQL and ONNX return: score (the default), response (SQL only) or terms.", "NAME")
    ] = None,
    keep: Annotated[
        list[str] | None,
        option("A column of the table that the SQL returns too, such as an identifier; repeat for more.", "COLUMN"),
    ] = None,
    missing_text: Annotated[
        str | None, option("The text that stands for missing categories in ONNX; default: empty.", "TEXT")
    ] = None,
    pdo: Annotated[float | None, option("Of a scorecard: points to double the odds; default: 20.", "N")] = None,
    points: Annotated[float | None, option("Of a scorecard: points at the odds of --odds; default: 600.", "N")] = None,
    odds: Annotated[float | None, option("Of a scorecard: odds to 1 of the second class; default: 50.", "N")] = None,
    digits: Annotated[int | None, option("Of a scorecard: digits after the point; default: 0.", "N", minimum=0)] = None,
    verify: Annotated[bool, flag("Run what was written, and print how far it is from the model.", "--verify")] = False,
    json: AsJson = False,
) -> None:
    """Write a model of tables for a database, a program or a scorecard; --verify runs it and prints the proof.

    Example: treeanova export fx.tav --to sql --table people --out score.sql --verify
    """
    from treeanova.cli import answers  # noqa: PLC0415  slow to load

    values = {
        "dialect": dialect, "table": table, "columns": columns, "keep": keep, "missing_text": missing_text, "pdo": pdo,
        "points": points, "odds": odds, "digits": digits,
    }  # fmt: skip
    options = answers.export_options(to, values, verifies=verify)
    inputs = {"MODEL": model, **answers.inputs_of(request)}
    answers.check_outputs({"--out": out}, inputs, {"--out": answers.EXPORTS[to].suffixes})
    with progress() as report:
        opened = answers.open_model(model, request, report)
        if not verify:
            answers.refuse_idle_rows(opened, request)
        fx = answers.decomposed(opened, request, request.density, report)
        with one_step(report, f"writing {out.name}"):
            rows = request.table_in_memory(fx.schema) if verify else None
            proof = answers.write_export(fx, to, options, out, rows, verifies=verify)
    content = {"model": model.name, "proof": None if proof is None else proof.to_dict(), "files": {to: str(out)}}
    _print(content, lambda: f"{model.name} as {to}" if proof is None else str(proof), json=json, files={to: str(out)})


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit status."""
    return run_app(app, arguments or ["--help"])


def main() -> None:
    prepare_process()
    sys.exit(run(sys.argv[1:]))
