"""Proof of an export: it is run at rows, and at rows made from its own cuts, and compared with the decomposition."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.data.features import Schema
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.predictions import function_of
from treeanova.decomposition.result import Result
from treeanova.export.artifact import Export, adversarial_rows, fingerprint_of, form_of, plain_rows
from treeanova.export.onnx import is_text
from treeanova.export.scratch import ScratchTable
from treeanova.export.sql import DIALECTS
from treeanova.model.effects import respond
from treeanova.model.rows import Rows
from treeanova.model.step_form import Cuts, StepAxis, StepForm

Row = Mapping[str, Any]
_ADVERSARIAL_ROWS = 1000
_NODE_SECONDS = 120
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
    return export.form.link in {"identity", "logit", "log", "softmax", "probability"}


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
    return {"infinity": math.copysign(1, value)} if isinstance(value, float) and math.isinf(value) else value


def _run_sql(export: Export, rows: Sequence[Row], connection: Any) -> tuple[str, dict[str, Floats]]:
    dialect = DIALECTS[export.options["dialect"]]
    with ScratchTable(export, rows, connection) as scratch:
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
    if is_text(axis):
        missing = export.options["missing_text"]
        texts = [missing if value is None else value for value in values]
        return np.array(texts, dtype=object)[:, None]
    return np.array([np.nan if value is None else float(value) for value in values])[:, None]


_RUNNERS = {"python": _run_python, "javascript": _run_javascript, "sql": _run_sql, "onnx": _run_onnx}
