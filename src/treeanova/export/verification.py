"""Proof of an export: it is run at rows, and at rows made from its own cuts, and compared with the decomposition."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import math
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.data.features import Schema
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.predictions import function_of
from treeanova.decomposition.result import Result
from treeanova.export.artifact import RESPONSES, Export, adversarial_rows, fingerprint_of, form_of, plain_rows
from treeanova.export.onnx import is_text
from treeanova.export.sql import DIALECTS, Dialect
from treeanova.model.effects import respond
from treeanova.model.rows import Rows
from treeanova.model.step_form import Cuts, LabelCodes, StepAxis, StepForm

Row = Mapping[str, Any]
_ADVERSARIAL_ROWS = 1000
_NODE_SECONDS = 120
_NUMBER = "treeanova_row"  # the column of a scratch table that numbers the rows
_IN_ORDER = ("duckdb", "sqlite", "postgresql")  # databases that return the rows of a scratch table in their order
# Rows as JSON, with texts for infinities; results as JSON, in the order of the rows.
_NODE = """
const model = require(process.argv[1]);
const rows = JSON.parse(require("fs").readFileSync(0, "utf8"));
const number = (x) => (x && x.infinity ? x.infinity * Infinity : x);
const flat = (x) => [].concat(x);
const results = rows.map((pairs) => {
  const row = new Map(pairs.map(([name, value]) => [name, number(value)]));
  const response = process.argv[2] === "response" ? flat(model.response(row)) : [];
  return [...flat(model.score(row)), ...response, ...[...model.terms(row).values()].flatMap(flat)];
});
console.log(JSON.stringify(results));
"""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Verification(Result):
    """How far an export is from its decomposition, at rows of data and at rows made from its own cuts.

    Attributes
    ----------
    kind
        What was run, and where: "sql in DuckDB".
    largest_difference
        The largest difference of a result, divided by the largest score (at least 1).
    n_rows, n_adversarial_rows
        Rows of data, and rows with values on and next to cuts, infinities, missing and unseen values.
    results
        What was compared: names of scores, responses and terms.
    fingerprint
        Digest of the decomposition; the export holds the same.

    Examples
    --------
    >>> import treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> proof = treeanova.export.verify(treeanova.export.python(fx), X)
    >>> proof.largest_difference < 1e-15, proof.n_rows
    (True, 4)
    """

    kind: str
    largest_difference: float
    n_rows: int
    n_adversarial_rows: int
    results: tuple[str, ...]
    fingerprint: str

    def _content_of_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def _text_of_top(self, top: int) -> str:  # noqa: ARG002
        n_results = f"{len(self.results)} result{'s' if len(self.results) > 1 else ''}"
        return (
            f"{self.kind}: largest difference {self.largest_difference:.1e} of the largest score, at {self.n_rows:,} "
            f"rows and {self.n_adversarial_rows:,} made from the export's cuts, in {n_results}"
        )


def verify(export: Export, X: Any = None, *, connection: Any = None, random_state: int = 0) -> Verification:
    """Run an export and compare it with its decomposition.

    Parameters
    ----------
    export
        What a function of `treeanova.export` returned.
    X
        Rows to compare at, besides those made from the cuts of the export; None for these alone.
    connection
        An open connection to the database of a query, such as one of psycopg; a temporary table is made there. DuckDB
        and SQLite run in memory without one.
    random_state
        Seed of the combinations of values in the rows that are made.

    Returns
    -------
    Verification
        The largest difference, and what was compared.

    Raises
    ------
    ValueError
        If the export cannot be run here.
    ImportError
        If a library that runs it is not installed.

    Examples
    --------
    >>> import treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> query = treeanova.export.sql(fx, dialect="sqlite", columns="terms")
    >>> print(treeanova.export.verify(query, X).kind)
    sql in SQLite
    """
    if not isinstance(export, Export):
        raise TypeError(
            f"`export` must be what sql, onnx, python or javascript returned, got {type(export).__name__}, which "
            "does not run."
        )
    form, fx = export.form, export.source
    if export.fingerprint not in bytes(export).decode("utf-8", errors="replace"):
        raise ValueError(
            "`export` must hold the fingerprint of its decomposition, got one without it; export it again."
        )
    rows = [] if X is None else plain_rows(fx, form, X)
    adversarial = adversarial_rows(form, _ADVERSARIAL_ROWS, random_state)
    for row in adversarial:
        row |= {name: float(row[name] > 0) for name in export.options.get("booleans", ()) if row[name] is not None}
    runner = _RUNNERS[export.kind]
    where, results = runner(export, [*rows, *adversarial], connection)
    return _compared(where, fx, X, (rows, adversarial), results)


def _compared(
    where: str, fx: Decomposition, X: Any, rows: tuple[Sequence[Row], Sequence[Row]], results: Mapping[str, Floats]
) -> Verification:
    """Return how far results are from the decomposition at rows of X, and at rows that were made."""
    user_rows, adversarial = rows
    expected = _expected(fx, form_of(fx), [*user_rows, *adversarial], list(results))
    if user_rows:  # as the user's own call reads them
        expected["score"][: len(user_rows)] = np.reshape(fx.decision_function(X), (len(user_rows), -1))
    finite = np.where(np.isfinite(expected["score"]), expected["score"], 0.0)
    scale = max(1.0, float(np.abs(finite).max(initial=0.0)))
    largest = max(_difference(results[name], expected[name]) for name in results) / scale
    return Verification(where, largest, len(user_rows), len(adversarial), tuple(results), fingerprint_of(fx))


def _difference(results: Floats, expected: Floats) -> float:
    """Return the largest difference; 0 between equal infinities, infinite where a result is no number."""
    with np.errstate(invalid="ignore"):
        differences = np.where(results == expected, 0.0, np.abs(results - expected))
    return float(np.where(np.isnan(differences), np.inf, differences).max(initial=0.0))


def verify_ebm(fx: Decomposition, model: Any, X: Any = None) -> Verification:
    """Compare an EBM of interpret with the decomposition that it was made of, as `verify` does."""
    form = form_of(fx)
    user_rows = [] if X is None else plain_rows(fx, form, X)
    adversarial = adversarial_rows(form, _ADVERSARIAL_ROWS, 0)
    rows = [*user_rows, *adversarial]
    table = np.zeros((len(rows), len(fx.schema.features)), dtype=object)
    for axis in form.axes:
        table[:, fx.schema.names.index(axis.name)] = [row[axis.name] for row in rows]
    terms = np.reshape(model.eval_terms(table), (len(rows), len(form.terms), -1))
    results = {"score": terms.sum(axis=1) + model.intercept_, "terms": terms.reshape(len(rows), -1)}
    return _compared("EBM of interpret", fx, X, (user_rows, adversarial), results)


def _expected(fx: Decomposition, form: StepForm, rows: Sequence[Row], names: Sequence[str]) -> dict[str, Floats]:
    """Return scores, responses and terms of the decomposition at plain rows, each of shape (n_rows, n_values)."""
    function = function_of(fx)
    encoded = Rows(_encoded(fx.schema, form, rows))
    keys = [tuple(fx.schema.names.index(form.axes[i].name) for i in term.key) for term in form.terms]
    terms = function.at(encoded.bins(function.grid), keys)
    score = terms.sum(axis=1) + function.terms.intercept
    expected = {"score": score, "terms": terms.reshape(len(rows), -1)}
    return expected | ({"response": respond(fx.schema, score)} if "response" in names else {})


def _encoded(schema: Schema, form: StepForm, rows: Sequence[Row]) -> Floats:
    """Encode plain rows as the model does, column by column; columns that no term uses are 0."""
    encoded = np.zeros((len(rows), len(schema.features)))
    for axis in form.axes:
        j = schema.names.index(axis.name)
        values = [row[axis.name] for row in rows]
        encoded[:, j] = schema.features[j].encoder.encode(_column(axis, values), axis.name)
    return encoded


def _column(axis: StepAxis, values: Sequence[Any]) -> Any:
    """Return plain values as the raw column that an encoder takes."""
    if isinstance(axis.reading, Cuts):
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _run_python(export: Export, rows: Sequence[Row], connection: Any) -> tuple[str, dict[str, Floats]]:  # noqa: ARG001
    module: dict[str, Any] = {}
    exec(compile(str(export), "export", "exec"), module)  # noqa: S102  our own text
    names = ["score", "terms", *(["response"] if _has_response(export) else [])]
    results = {name: [_flat(module[name](row)) for row in rows] for name in names}
    return "Python", {name: np.array(values, dtype=np.float64) for name, values in results.items()}


def _flat(result: Any) -> list[float]:
    """Return a number, a list of numbers or a dict of either as one list."""
    if isinstance(result, Mapping):
        return [number for value in result.values() for number in _flat(value)]
    return list(result) if isinstance(result, list) else [result]


def _has_response(export: Export) -> bool:
    return export.form.link in RESPONSES


def _run_javascript(export: Export, rows: Sequence[Row], connection: Any) -> tuple[str, dict[str, Floats]]:  # noqa: ARG001
    node = shutil.which("node")
    if node is None:
        raise ValueError("`export` of JavaScript must have Node.js to run in, got no program named node; install it.")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "model.js")
        script.write_bytes(bytes(export))
        asked = "response" if _has_response(export) else "score"
        command = [node, "-e", _NODE, str(script), asked]
        content = json.dumps([[[name, _json_number(value)] for name, value in row.items()] for row in rows])
        run = subprocess.run(  # noqa: S603  our own program
            command, input=content, capture_output=True, text=True, timeout=_NODE_SECONDS, check=False
        )
    if run.returncode:
        raise ValueError(f"`export` must run in Node.js, got {run.stderr.strip()[-300:]!r}.")
    values = np.array(json.loads(run.stdout), dtype=np.float64)
    n_outputs, n_responses = len(export.form.outputs), len(export.form.outputs) * (asked == "response")
    results = {"score": values[:, :n_outputs], "terms": values[:, n_outputs + n_responses :]}
    if n_responses:
        results["response"] = values[:, n_outputs : n_outputs + n_responses]
    return "JavaScript in Node.js", results


def _json_number(value: Any) -> Any:
    """Return a value for JSON, which has no infinities."""
    return {"infinity": math.copysign(1, value)} if isinstance(value, float) and math.isinf(value) else value


class _ScratchTable:
    """The table that a query names, filled with plain rows as long as the context lasts.

    In a user's database it is a temporary table, which hides a table of the same name; that one is neither read nor
    dropped.
    """

    def __init__(self, export: Export, rows: Sequence[Mapping[str, Any]], connection: Any) -> None:
        self._export, self._rows = export, rows
        self._key: str = export.options["dialect"]
        self._dialect: Dialect = DIALECTS[self._key]
        self._table_path: tuple[str, ...] = export.options["table"]
        self._booleans: tuple[str, ...] = export.options["booleans"]
        self._is_temporary = connection is not None
        self._check()
        self._cursor = (_connection(self._key) if connection is None else connection).cursor()
        self._source = ".".join(map(self._dialect.name_of, self._table_path))
        self._columns = self._columns_by_name()

    def __enter__(self) -> Self:
        if self._is_temporary:
            self._create_temporary()
        else:
            self._create_schemas()
            self._cursor.execute(f"CREATE TABLE {self._source} ({self._definitions()})")
        try:
            self._fill()
        except BaseException:
            self._drop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._drop()

    def results(self) -> Floats:
        """Run the query, and return its results without the columns that it keeps, in the order of the rows."""
        keep: tuple[str, ...] = self._export.options["keep"]
        self._cursor.execute(str(self._export))
        names = [str(column[0]) for column in self._cursor.description]
        if names != [*keep, *self._export.columns]:
            raise ValueError(
                f"`export` must return the columns {[*keep, *self._export.columns]!r}, got {names!r}; export it again."
            )
        records = self._cursor.fetchall()
        if len(records) != len(self._rows):
            raise ValueError(f"`export` must return {len(self._rows)} rows, got {len(records)}; export it again.")
        numbered = next((i for i, name in enumerate(keep) if self._columns[self._spelled(name)][1] is None), None)
        if numbered is not None:
            records = sorted(records, key=lambda record: record[numbered])
        self._check_kept(keep, records)
        return np.array([record[len(keep) :] for record in records], dtype=np.float64).reshape(len(records), -1)

    def _check(self) -> None:
        """Raise ValueError where the table cannot be made, or rows not be found again."""
        if self._is_temporary and len(self._table_path) > 1:
            raise ValueError(
                f"`export` must name a table without a schema with a `connection`, got {'.'.join(self._table_path)!r}"
                "; a temporary table has no schema. Verify the same export with the last part as its `table`."
            )
        axes = {axis.name for axis in self._export.form.axes}
        if self._key not in _IN_ORDER and not set(self._export.options["keep"]) - axes:
            raise ValueError(
                f"`export` must keep a column by which rows of {self._dialect.name} are found again, got none; export "
                "it with an identifier, as in keep=['id']."
            )

    def _spelled(self, name: str) -> str:
        """Return a name as the database compares it."""
        return name.lower() if self._dialect.ignores_case else name

    def _columns_by_name(self) -> dict[str, tuple[str, StepAxis | None]]:
        """Return name and form of each column, by the name as compared; a column without a form numbers the rows."""
        columns: dict[str, tuple[str, StepAxis | None]] = {
            self._spelled(axis.name): (axis.name, axis) for axis in self._export.form.axes
        }
        for name in (*self._export.options["keep"], _NUMBER):
            columns.setdefault(self._spelled(name), (name, None))
        return columns

    def _definitions(self) -> str:
        """Write the names and types of all columns."""
        return ", ".join(f"{self._dialect.name_of(name)} {self._type(axis)}" for name, axis in self._columns.values())

    def _type(self, axis: StepAxis | None) -> str:
        """Return the type of a column; None is one that numbers the rows."""
        if axis is None:
            return self._dialect.integer
        if axis.name in self._booleans:
            return "BOOLEAN"
        return self._dialect.double if isinstance(axis.reading, Cuts) else _label_type(axis, self._dialect.double)

    def _create_schemas(self) -> None:
        """Make the schemas, and the database, that the table's name has."""
        quote, outer = self._dialect.name_of, self._table_path[:-1]
        if self._key == "sqlite" and len(outer) == 1:
            if outer[0].lower() not in ("main", "temp"):
                self._cursor.execute(f"ATTACH ':memory:' AS {quote(outer[0])}")
        elif self._key == "duckdb" and len(outer) in (1, 2):
            if len(outer) == 2 and outer[0].lower() not in ("memory", "temp"):
                self._cursor.execute(f"ATTACH ':memory:' AS {quote(outer[0])}")
            self._cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {'.'.join(map(quote, outer))}")
        elif outer:
            raise ValueError(
                f"`table` must have at most {'two' if self._key == 'sqlite' else 'three'} parts for "
                f"{self._dialect.name}, got {len(self._table_path)}."
            )

    def _create_temporary(self) -> None:
        """Make a temporary table in the user's database."""
        try:
            self._cursor.execute(f"CREATE TEMPORARY TABLE {self._source} ({self._definitions()})")
        except Exception as error:
            raise ValueError(
                f"`connection` must be able to make a temporary table {self._source}, got {str(error).strip()!r}; "
                "verify the query over another connection."
            ) from error

    def _fill(self) -> None:
        """Insert the rows, into the temporary table alone, and check that its name means this table."""
        into = f"{self._dialect.temporary}{self._source}" if self._is_temporary else self._source
        columns = self._columns.values()
        mark = "%s" if self._key == "postgresql" else "?"
        records = [
            [number if axis is None else self._stored(axis, row) for _, axis in columns]
            for number, row in enumerate(self._rows)
        ]
        if records:
            marks = ", ".join([mark] * len(columns))
            self._cursor.executemany(f"INSERT INTO {into} VALUES ({marks})", records)  # noqa: S608  names are quoted
        try:
            self._cursor.execute(f"SELECT {self._dialect.name_of(_NUMBER)} FROM {self._source}")  # noqa: S608
            n_found = len(self._cursor.fetchall())
        except Exception:  # noqa: BLE001  each driver has errors of its own
            n_found = -1
        if n_found != len(records):
            raise ValueError(
                f"`connection` must read a temporary table before others of its name, got another {self._source}; "
                "verify the query over a connection with the usual search path."
            )

    def _stored(self, axis: StepAxis, row: Mapping[str, Any]) -> Any:
        """Return a row's value as the table holds it: numbers of `booleans` as booleans."""
        value = row[axis.name]
        return bool(value) if value is not None and axis.name in self._booleans else value

    def _drop(self) -> None:
        """Drop the temporary table; after an error, such as one that ends a transaction, this may be impossible."""
        if self._is_temporary:
            with contextlib.suppress(Exception):
                self._cursor.execute(f"DROP TABLE {self._dialect.temporary}{self._source}")

    def _check_kept(self, keep: Sequence[str], records: Sequence[Sequence[Any]]) -> None:
        """Raise ValueError if a kept column does not hold what the table holds."""
        for i, column in enumerate(keep):
            axis = self._columns[self._spelled(column)][1]
            expected = [number if axis is None else self._stored(axis, row) for number, row in enumerate(self._rows)]
            if [record[i] for record in records] != expected:
                raise ValueError(f"`export` must keep the values of {column!r}, got others; export it again.")


def _connection(dialect: str) -> Any:
    """Return a connection to a new database in memory; ValueError for one that needs a server."""
    if dialect == "sqlite":
        return sqlite3.connect(":memory:")
    if dialect == "duckdb":
        return importlib.import_module("duckdb").connect()
    raise ValueError(
        f"`connection` must be an open connection for a query in the dialect {dialect!r}, got none; open one with the "
        "database's own driver."
    )


def _label_type(axis: StepAxis, double: str) -> str:
    """Return the type of a column of labels."""
    codes = axis.reading.codes if isinstance(axis.reading, LabelCodes) else ()
    labels = [label for label, _ in codes if label is not None]
    if all(isinstance(label, bool) for label in labels):
        return "BOOLEAN"
    return "TEXT" if any(isinstance(label, str) for label in labels) else double


def _run_sql(export: Export, rows: Sequence[Row], connection: Any) -> tuple[str, dict[str, Floats]]:
    """Run a query on a table of the rows; return what ran, and the results."""
    dialect = DIALECTS[export.options["dialect"]]
    with _ScratchTable(export, rows, connection) as scratch:
        results = scratch.results()
    n_outputs, columns = len(export.form.outputs), export.options["columns"]
    name = f"sql in {dialect.name}"
    if columns == "terms":
        return name, {"score": results[:, -n_outputs:], "terms": results[:, n_outputs:-n_outputs]}
    return name, {columns: results}


def _run_onnx(export: Export, rows: Sequence[Row], connection: Any) -> tuple[str, dict[str, Floats]]:  # noqa: ARG001
    runtime, form = importlib.import_module("onnxruntime"), export.form
    session = runtime.InferenceSession(bytes(export), providers=["CPUExecutionProvider"])
    inputs = {axis.name: _onnx_input(export, axis, [row[axis.name] for row in rows]) for axis in form.axes}
    values = session.run(list(export.columns), inputs)
    results = {"score": values[0]}
    if _has_response(export) and form.link != "identity":
        results["response"] = values[1][:, -len(form.outputs) :]  # the second of two probabilities
    if export.options["columns"] == "terms":
        results["terms"] = np.hstack([*values[len(values) - len(form.terms) :], np.empty((len(rows), 0))])
    return "ONNX in onnxruntime", results


def _onnx_input(export: Export, axis: StepAxis, values: Sequence[Any]) -> Any:
    """Return the values of a column as the input of an ONNX model, shape (n_rows, 1)."""
    if is_text(axis):
        missing = export.options["missing_text"]
        texts = [missing if value is None else value for value in values]
        return np.array(texts, dtype=object)[:, None]
    return np.array([np.nan if value is None else float(value) for value in values])[:, None]


_RUNNERS = {"python": _run_python, "javascript": _run_javascript, "sql": _run_sql, "onnx": _run_onnx}
