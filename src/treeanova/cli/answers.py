"""From files to answers: models, saved decompositions and rows in, results out. Each model file is read once."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import datetime as dt
import difflib
import io
import itertools
import math
import os
import pickle
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from treeanova import export
from treeanova._decompose import decompose
from treeanova.cli.options import Request, is_in_batches
from treeanova.core.arrays import Names, labels_of, quoted, split_label
from treeanova.core.files import ARCHIVE, CSV, PAGE, PARQUET, check_suffix, is_same_file, replacing
from treeanova.core.progress import Progress, one_step, within
from treeanova.data.columns import printable
from treeanova.data.features import Schema, is_missing
from treeanova.data.sources import parquet_files, would_read
from treeanova.decomposition.change import Change, change
from treeanova.decomposition.decomposition import Decomposition, load
from treeanova.decomposition.explanation import Explanation
from treeanova.decomposition.gap import Gap
from treeanova.decomposition.predictions import function_of
from treeanova.density.kinds import KINDS
from treeanova.density.statistics import statistics_of
from treeanova.errors import DensityWarning
from treeanova.export.verification import verify_ebm
from treeanova.readers import read_for_rows, unpickled
from treeanova.views import effect_words, first_texts, scale_of

_GIGABYTE = 10**9
RAW = "raw"
_SUFFIXES = {"--out": PAGE, "--save": ARCHIVE, "--rows-out": PARQUET, "--csv": CSV}


def check_outputs(
    outputs: Mapping[str, Path | None],
    inputs: Mapping[str, Path | None],
    suffixes: Mapping[str, Sequence[str]] = _SUFFIXES,
) -> None:
    """Raise ValueError if a file to write, by option, cannot be written, has a wrong suffix, or is read, too."""
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
        check_suffix(path, suffixes[option], option)
    for (option, path), (other, second) in itertools.combinations(written.items(), 2):
        if is_same_file(path, second):
            raise ValueError(f"`{option}` and `{other}` must be two files, got {path} for both; choose another name.")


def inputs_of(request: Request) -> dict[str, Path | None]:
    """Return the files of rows that a command reads, by option."""
    return {"--data": request.data, "--density-from": request.density_from}


def _check_writable(path: Path) -> None:
    """Raise ValueError unless a file can be written in an existing folder."""
    folder = Path(os.path.realpath(path)).parent
    if path.is_dir():
        raise ValueError(f"the file to write must be a file, got the folder {path}; add a name.")
    if not folder.is_dir():
        raise ValueError(f"the file to write must be in a folder that exists, got {path}; create {folder} first.")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"the file to write must be in a folder that can be written to, got {path}; choose another.")


def term_named(text: str, fx: Decomposition) -> Names:
    """Return the features of the term that "a", "a,b", "a × b" or "a x b" names; quoted names may hold commas."""
    labelled = fx.terms.labels.get(text.strip(), ())
    typed = ((text,), _split_csv(text), split_label(text), labelled)
    readings = dict.fromkeys(tuple(sorted(name.strip() for name in names)) for names in typed)
    terms = {tuple(sorted(names)): names for names in fx.terms}
    matches = [terms[reading] for reading in readings if reading in terms]
    if not matches:
        raise ValueError(f"`--term` must be a term that has a table, got {text!r}; {_near_terms_text(text, fx)}.")
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


def _near_terms_text(text: str, fx: Decomposition) -> str:
    """List, in an error, terms whose names are similar to a text."""
    labels = [",".join(names) for names, term in fx.terms.items() if term.has_table]
    by_lower = {label.lower(): label for label in labels}
    near = difflib.get_close_matches(text.lower(), by_lower, n=3, cutoff=0.4)
    closest = next(iter(difflib.get_close_matches(text.lower(), by_lower, n=1, cutoff=0.75)), None)
    meant = "" if closest is None else f"did you mean {by_lower[closest]}? "
    listed = [by_lower[name] for name in near] or labels[:3]
    return f"{meant}there are {'; '.join(listed)} ({len(labels)} in all)"


def _split_csv(text: str) -> Names:
    """Return the cells of a line of CSV; none if it is malformed."""
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
    """Check the files and columns of a request, and read a saved decomposition; a model is read later."""
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
    """Return the file of the rows for --rows-out; raise ValueError if options do not go together."""
    if rows is not None and rows_out is None:
        raise ValueError(f"`--rows` must come with --rows-out, got {str(rows)!r} without; add the file to write.")
    if rows_out is not None and rows is None and data is None:
        raise ValueError(f"`--rows-out` must come with rows, got {str(rows_out)!r} alone; add --rows or --data.")
    check_rows("--rows", rows)
    return rows or data or Path()


def check_rows(option: str, path: Path | None) -> None:
    """Raise an error, which names the option, if a file, folder or pattern of rows cannot be read."""
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
    """Decompose a model file under a density of the rows, or return a saved decomposition."""
    # A saved one keeps its density, unless another kind or `--density-from` is given: never the rows of `--data`.
    if model.saved is not None:
        return _saved(model.saved, model.name, request, density, progress)
    check_density(density)
    return _decomposed_model(model, request, density or "auto", progress)


def check_has_rows(request: Request, density: str) -> None:
    """Raise ValueError if a density needs rows and a request has none."""
    if request.rows_of_density.data is None and KINDS[density].needs_data:
        raise ValueError(f"`--data` must be given for the density {density}, got no rows; only uniform needs none.")


def _saved(fx: Decomposition, name: str, request: Request, density: str | None, progress: Progress) -> Decomposition:
    """Return a saved decomposition up to the order and under the density of the request."""
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
    """Return the table of the rows and their weights; None for both without rows."""
    if request.data is None:
        return None, None
    with one_step(progress, f"reading {request.data.name}"):
        weights = request.weights()
        return request.table(schema), weights


def _decomposed_model(file: ModelFile, request: Request, density: str, progress: Progress) -> Decomposition:
    """Read a model from its file, and decompose it under a density of the request's rows."""
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


def check_density(density: str | None, *other_names: str) -> None:
    """Raise ValueError if a density is not known by name; None is the default."""
    names = [*KINDS, *other_names]
    if density is not None and density not in names:
        near = difflib.get_close_matches(density.lower(), names, n=1)
        remedy = f"did you mean {near[0]}?" if near else "choose one of them."
        raise ValueError(f"`--density` must be one of {', '.join(names)}, got {density!r}; {remedy}")


def table_words(fx: Decomposition, term: Names, *, is_raw: bool) -> str:
    """Say above a table of a term what its values mean."""
    pure, raw = effect_words(fx.schema), f"contribution to {scale_of(fx.schema)}, before purification"
    return printable(f"{labels_of([term], fx.schema.names)[0]}: value is the {raw if is_raw else pure}")


def change_between(
    models: Sequence[ModelFile], requests: Sequence[Request], density: str | None, progress: Progress
) -> Change:
    """Return the change from the first model and its rows to the second; one file twice is read once."""
    check_density(density)
    old = decomposed(models[0], requests[0], density, within(progress, "old"))
    is_same = models[0].path.samefile(models[1].path)
    new = old if is_same else decomposed(models[1], requests[1], density, within(progress, "new"))
    return change(old, new, **_rows_of_both(old, new, requests), progress=within(progress, "change"))


def _rows_of_both(old: Decomposition, new: Decomposition, requests: Sequence[Request]) -> dict[str, Any]:
    """Return X_old and X_new for `change`: tables if the models read columns in different ways, else statistics."""
    if old.schema.names != new.schema.names:
        return {}  # change() says what differs
    encoders = [[feature.encoder for feature in fx.schema.features] for fx in (old, new)]
    if encoders[0] == encoders[1]:
        pairs = zip(("X_old", "X_new"), (old, new), requests, strict=True)
        return {
            name: statistics_of(
                request.table(fx.schema), fx.grid, request.weights(), function_of(fx).source.needed_tables()
            )
            for name, fx, request in pairs
        }
    of_old, of_new = requests
    rows = {"X_old": of_old.table(old.schema), "X_new": of_new.table(new.schema)}
    return rows | {"sample_weight_old": of_old.weights(), "sample_weight_new": of_new.weights()}


@dataclasses.dataclass(frozen=True)
class Groups:
    """Two groups of rows: those with `value` in a column, and those with `against`, or all others."""

    column: str
    value: str | None = None
    against: str | None = None


def gap_in(fx: Decomposition, request: Request, groups: Groups, feature: str | None, progress: Progress) -> Gap:
    """Return the gap between two groups of the rows of --data."""
    if request.data is None:
        raise ValueError("`--data` must be given for the groups, got no rows; add the rows.")
    labels = np.array([_label_text(label) for label in request.labels(groups.column)], dtype=object)
    if feature is None and groups.column in fx.schema.names:
        feature = groups.column
    table = request.table_in_memory(fx.schema)
    is_compared, is_second, names = _compared_rows(labels, groups)
    if not is_compared.all():
        table = nw.to_native(nw.from_native(table, eager_only=True).filter(is_compared.tolist()))
    weights = None if request.weight is None else np.asarray(request.column(request.weight))[is_compared]
    gap = fx.gap(table, is_second, sample_weight=weights, feature=feature, progress=progress)
    return dataclasses.replace(gap, groups=names)


def _label_text(label: Any) -> str | None:
    """Return what --value names: whole numbers without decimals, days without a time; None if missing."""
    if is_missing(label):
        return None
    if isinstance(label, float) and label.is_integer():
        return f"{label:.0f}"
    return str(label).removesuffix(" 00:00:00") if isinstance(label, dt.datetime) else str(label)


def _compared_rows(labels: Any, groups: Groups) -> tuple[Any, Any, tuple[str, str]]:
    """Return which rows are compared, which of these are in the second group, and the names of both groups."""
    values = sorted({label for label in labels if label is not None}, key=_numbers_first_key)
    groups = dataclasses.replace(
        groups,
        value=_label_named("--value", groups.value, groups.column, values),
        against=_label_named("--against", groups.against, groups.column, values),
    )
    if groups.value is not None and groups.value == groups.against:
        raise ValueError(f"`--against` must be another value than --value, got {groups.value!r} for both.")
    n_missing = sum(label is None for label in labels)
    if n_missing and (groups.value is None or groups.against is None):
        raise ValueError(
            f"`--group` must be known for all rows, got {n_missing:,} of {len(labels):,} missing in {groups.column}; "
            "leave these rows out, or compare two values by --value and --against."
        )
    if groups.value is None and (groups.against is not None or len(values) != 2):
        raise ValueError(
            f"`--group` must be a column of two values, or come with --value, got {len(values)} in {groups.column} "
            f"({first_texts(values)}); add --value {values[0]!r}, and --against to compare it with one other."
        )
    second = values[1] if groups.value is None else groups.value
    first = values[0] if groups.value is None else groups.against
    is_compared = np.ones(len(labels), dtype=bool) if first is None else (labels == first) | (labels == second)
    names = (
        f"{groups.column} other than {second}" if first is None else _name_of_group(first, groups),
        _name_of_group(second, groups),
    )
    return is_compared, labels[is_compared] == second, names


def _label_named(option: str, text: str | None, column: str, values: Sequence[str]) -> str | None:
    """Return the value that a text is, or the only one that means the same: true is True, 1 is 1.0."""
    if text is None or text in values:
        return text
    equal = [value for value in values if _parsed_value(value) == _parsed_value(text)]
    if len(equal) != 1:
        raise ValueError(
            f"`{option}` must be a value of {column}, got {text!r}; there are {first_texts(values) or 'none'}."
        )
    return equal[0]


def _parsed_value(text: str) -> Any:
    """Return a number, a date, "true" or "false", or the text itself, to compare values written differently."""
    for read in (float, dt.datetime.fromisoformat):
        with contextlib.suppress(ValueError):
            return read(text)
    return text.lower() if text.lower() in {"true", "false"} else text


def _numbers_first_key(text: str) -> tuple[bool, float, str]:
    """Return a key that sorts numbers, by size, before text."""
    number = _parsed_value(text)
    is_number = isinstance(number, float) and math.isfinite(number)
    return not is_number, number if is_number else 0.0, text


def _name_of_group(value: str, groups: Groups) -> str:
    """Return a value as the name of a group, with its column unless it has letters."""
    return value if any(map(str.isalpha, value)) else f"{groups.column} = {value}"


def decomposed_for_reasons(
    file: ModelFile, request: Request, density: str | None, reference: int | None, progress: Progress
) -> Decomposition:
    """Return a decomposition; ValueError if its density is one row, because all terms are then zero."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DensityWarning)
        fx = decomposed(file, request, density, progress)
    if reference is None and fx.density.is_one_cell:
        raise ValueError(
            "`--data` must have rows of a population to compare the row with, got rows of one kind only, at which "
            "every term is zero; add --density-from FILE with such rows."
        )
    return fx


def reasons_for(fx: Decomposition, request: Request, row: int, reference: int | None) -> Explanation:
    """Explain a row of --data, by number, against another or the average."""
    if request.data is None:
        raise ValueError("`--data` must be one file for the rows to explain, got none; add the file.")
    if is_in_batches(request.data):
        raise ValueError(
            f"`--data` must be one file for the rows to explain, got several, {str(request.data)!r}; name the file "
            "that has the row, and these in --density-from."
        )
    table = nw.from_native(request.table(fx.schema), eager_only=True)
    numbers = {"--row": row} if reference is None else {"--row": row, "--reference": reference}
    for option, number in numbers.items():
        if number >= len(table):
            raise ValueError(
                f"`{option}` must be the number of a row, from 0 on, got {number}; the data have {len(table):,} rows."
            )
    explained_row, *references = (nw.to_native(table[[number]]) for number in numbers.values())
    return fx.explain(explained_row, reference=references[0] if references else None)


def rows_of_card(schema: Schema, request: Request, baselines: Path | None) -> dict[str, Any]:
    """Return the arguments of `write_card` that are rows: held-out ones with their outcome, and those of training."""
    if not request.target:
        if baselines is not None:
            raise ValueError(f"`--baselines` must come with --target, got {str(baselines)!r} alone; name the outcome.")
        return {}
    weights = None if request.weight is None else request.column(request.weight)
    held_out = {"X": request.table_in_memory(schema), "y": request.columns(request.target), "sample_weight": weights}
    if baselines is None:
        return held_out
    train = dataclasses.replace(request, data=baselines)
    weight = [] if train.weight is None else [train.column(train.weight)]
    return held_out | {"baselines": (train.table_in_memory(schema), train.columns(request.target), *weight)}


@dataclasses.dataclass(frozen=True)
class ExportFormat:
    """A format of `export`: the suffixes of its files, and which options its function takes."""

    suffixes: tuple[str, ...]
    options: tuple[str, ...] = ()


_TABLES = (*CSV, *PAGE, ".xlsx")
EXPORTS = {
    "sql": ExportFormat((".sql", ".txt"), ("table", "dialect", "columns", "keep")),
    "python": ExportFormat((".py",)),
    "javascript": ExportFormat((".js", ".cjs")),
    "onnx": ExportFormat((".onnx",), ("columns", "missing_text")),
    "ebm": ExportFormat((".json", ".pkl", ".pickle")),
    "scorecard": ExportFormat(_TABLES, ("pdo", "points", "odds", "digits")),
    "relativities": ExportFormat(_TABLES),
}
_RUN_HERE = ("duckdb", "sqlite")  # dialects that need no server


def export_options(to: str, values: Mapping[str, Any], *, verifies: bool) -> dict[str, Any]:
    """Return the options for a format's function; ValueError for a format or an option that is not known."""
    if to not in EXPORTS:
        near = difflib.get_close_matches(to.lower(), EXPORTS, n=1)
        remedy = f"did you mean {near[0]}?" if near else "choose one of them."
        raise ValueError(f"`--to` must be one of {', '.join(EXPORTS)}, got {to!r}; {remedy}")
    options = {name: value for name, value in values.items() if value not in (None, [])}
    foreign = next((name for name in options if name not in EXPORTS[to].options), None)
    if foreign is not None:
        raise ValueError(f"`--{foreign.replace('_', '-')}` must be left out with --to {to}, which does not take it.")
    if verifies and to in {"scorecard", "relativities"}:
        raise ValueError(f"`--verify` must come with a format that runs, got {to}, which people read; leave it out.")
    if verifies and to == "sql" and options.get("dialect", "duckdb") not in _RUN_HERE:
        raise ValueError(
            f"`--verify` must come with a database that runs here, {' or '.join(_RUN_HERE)}, got "
            f"{options['dialect']!r}; in Python, export.verify() takes a connection."
        )
    if "table" in options:
        options["table"] = tuple(options["table"].split("."))
    return options


def write_export(
    fx: Decomposition, to: str, options: Mapping[str, Any], out: Path, rows: Any, *, verifies: bool
) -> Any:
    """Write an export to a file, and return its proof, if asked for."""
    result = getattr(export, to)(fx, **options)
    proof = None
    if to != "ebm":
        proof = export.verify(result, rows) if verifies else None
        result.save(out)
    else:
        proof = verify_ebm(fx, result, rows) if verifies else None
        is_json = out.suffix.lower() == ".json"
        content = io.StringIO()
        if is_json:
            result.to_json(content)
        with replacing(out) as file:
            file.write(content.getvalue().encode() if is_json else pickle.dumps(result))
    return proof


def check_different(models: Sequence[Path]) -> None:
    """Raise ValueError if a file is named twice."""
    twice = next((path for path, n_times in Counter(models).items() if n_times > 1), None)
    if twice is not None:
        raise ValueError(
            f"`MODELS` must be different files, got {twice} more than once; name it once to compare its densities."
        )


def default_densities(models: Sequence[ModelFile], request: Request) -> list[str | None]:
    """Return the densities to compare by default; None for each file's density, which is "auto" for a model."""
    if len(models) > 1:
        return [None]
    has_rows = request.rows_of_density.data is not None
    saved = models[0].saved
    if saved is None:
        return ["auto", RAW, "uniform", "empirical"] if has_rows else ["uniform", RAW]
    name = saved.density.name
    return [name, RAW] if name == "uniform" else [name, "uniform"]


def decompositions_of(
    models: Sequence[ModelFile], request: Request, densities: Sequence[str | None], progress: Progress
) -> dict[str, Decomposition]:
    """Decompose all models under all densities, which may be "raw"; return them by name, the first first."""
    saved_names = {model.saved.density.name for model in models if model.saved is not None}
    for density in densities:
        check_density(density, RAW, *sorted(saved_names - set(KINDS)))
    distinct = list(dict.fromkeys(densities))
    members: dict[str, Decomposition] = {}
    for model in models:
        shown = within(progress, model.name) if len(models) > 1 else progress
        under = _under_densities(model, request, distinct, shown)
        members |= {_name_of_member(model, density, models, distinct): fx for density, fx in under.items()}
    if len(members) < 2:
        more = "uniform" if RAW in distinct else RAW
        listed = ", ".join(members)
        raise ValueError(f"compare must have two models or two densities, got {listed}; add --density {more}, for one.")
    return members


def _under_densities(
    model: ModelFile, request: Request, densities: Sequence[str | None], progress: Progress
) -> dict[str | None, Decomposition]:
    """Return one model under each density, read and decomposed once; None is its own."""
    first = next((density for density in densities if density != RAW), None)
    fx = decomposed(model, request, first, progress)
    under: dict[str | None, Decomposition] = {}
    for density in densities:
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


def _name_of_member(
    model: ModelFile, density: str | None, models: Sequence[ModelFile], densities: Sequence[str | None]
) -> str:
    """Name a decomposition among those of all models and densities: by file, by density, or by both."""
    if len(models) == 1:
        return density or "auto"
    is_unique = all(model.name != other.name for other in models if other is not model)
    file = model.name if is_unique else str(model.path)
    return file if len(densities) == 1 else f"{file} {density}"


def rows_to_compare(models: Sequence[ModelFile], request: Request, schema: Schema) -> dict[str, Any]:
    """Return arguments of `compare`: rows, unless they are those of the densities already."""
    is_density = request.density_from is None and all(model.saved is None for model in models)
    if request.data is None or is_density:
        return {}
    return {"X": request.table(schema), "sample_weight": request.weights()}
