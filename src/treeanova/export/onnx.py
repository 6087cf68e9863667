"""Export to ONNX: a graph of standard operators in float64 that onnxruntime and other runtimes execute.

The graph has an input per column and two steps. A column becomes codes: cuts below a number are counted, texts are
looked up. A term is then looked up in its table by the codes of its columns; where the table is much larger than its
coefficients, these are added up instead.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.data.features import Schema, is_writable
from treeanova.decomposition.decomposition import Decomposition
from treeanova.export.artifact import (
    RESPONSES,
    Export,
    fingerprint_of,
    form_of,
    free_names,
    term_labels,
)
from treeanova.model.effects import is_classifier
from treeanova.model.step_form import Cuts, LabelCodes, StepAxis, StepForm, StepTerm

COLUMNS = ("score", "terms")
MISSING_TEXT = ""
_REFUSED = -2  # the code of values that the model refuses; -1 is that of missing values
_CELLS_PER_COEFFICIENT = 32  # a term with fewer cells than this for each coefficient is looked up in its table
_NO_INTEGER = -(2**63)  # the label of rows without a score, if labels are integers
_OPERATORS = (("", 13), ("ai.onnx.ml", 2))
_FORMAT = 7  # of the file; that of onnx 1.8, the first with these operators


def onnx(fx: Decomposition, *, columns: str = "score", missing_text: str = MISSING_TEXT) -> Export:
    """Write a decomposition as an ONNX model in float64, with an input of shape (n, 1) per column.

    Numbers are doubles (missing: NaN; booleans: 0 and 1), categories are strings. Outputs are the score, shape
    (n, n_outputs); the probabilities of all classes, or the response; and the label, where the model is a classifier.
    Rows with values that the model refuses have NaN, and a label that is no class.

    Parameters
    ----------
    fx
        A decomposition whose terms all have tables: of a shallow model or an EBM, or selected or simplified.
    columns
        "score", or "terms" for an output per term, too; with the intercept they add up to the score.
    missing_text
        The string that stands for missing categories, which ONNX does not have.

    Returns
    -------
    Export
        Its content is the file; `save` writes it, `verify` runs it in onnxruntime.

    Raises
    ------
    ValueError
        If part of the score has no table, or a column cannot be an input.
    ImportError
        If the package onnx is not installed.

    Examples
    --------
    >>> import numpy as np, onnxruntime, treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> model = treeanova.export.onnx(fx)
    >>> session = onnxruntime.InferenceSession(bytes(model))
    >>> [score] = session.run(["score"], {"x0": np.array([[1.0]]), "x1": np.array([[1.0]])})
    >>> score.tolist()
    [[1.0]]
    """
    if columns not in COLUMNS:
        raise ValueError(f"`columns` must be one of {', '.join(map(repr, COLUMNS))}, got {columns!r}.")
    if not isinstance(missing_text, str):
        raise TypeError(f"`missing_text` must be a text, got {missing_text!r}; '<missing>', say.")
    form, fingerprint = form_of(fx), fingerprint_of(fx)
    if not form.axes:
        raise ValueError("`fx` must have a term to have inputs in ONNX, got its intercept alone; write it as SQL.")
    graph = _Graph(form if columns == "terms" else form.merged(), missing_text)
    for axis in form.axes:
        graph.read(axis)
    results = _results(graph, fx.schema, with_terms=columns == "terms")
    content = graph.model(results, {"fingerprint": fingerprint, "missing_text": missing_text}).SerializeToString()
    options = {"columns": columns, "missing_text": missing_text}
    return Export("onnx", content, form, tuple(results), fingerprint, fx, options)


def is_text(axis: StepAxis) -> bool:
    """Whether the input of a column holds strings; else it holds doubles."""
    labels = axis.reading.codes if isinstance(axis.reading, LabelCodes) else ()
    return any(isinstance(label, str) for label, _ in labels)


@dataclasses.dataclass(frozen=True)
class _Result:
    """A value of the graph that becomes an output."""

    value: str
    shape: tuple[int | None, ...]
    kind: str = "DOUBLE"


def _results(graph: _Graph, schema: Schema, *, with_terms: bool) -> dict[str, _Result]:
    """Add the results to a graph, and return them by the names of outputs."""
    form, shape = graph.form, (None, len(schema.outputs))
    terms = [graph.term(term) for term in form.terms]
    score = graph.guarded(graph.sum_of([graph.constant(form.intercept[None, :]), *terms]))
    results = {"score": _Result(score, shape)}
    probability = score
    if is_classifier(schema):
        probability = graph.probabilities(score, schema)
        results["probability"] = _Result(probability, (None, max(len(schema.outputs), 2)))
    elif schema.link in RESPONSES and schema.link != "identity":
        results["response"] = _Result(graph.response(score, schema.link), shape)
    if is_classifier(schema) or schema.link == "argmax":
        results["label"] = graph.label(score, probability, schema)
    names = free_names(tuple(results), tuple(graph.inputs), " (result)")
    named = dict(zip(names, results.values(), strict=True))
    if with_terms:
        labels = free_names(term_labels(form, schema), (*graph.inputs, *named), " (term)")
        named |= {label: _Result(graph.guarded(value), shape) for label, value in zip(labels, terms, strict=True)}
    return named


class _Graph:
    """A graph that grows: each method adds nodes and returns the name of their result, a value with a row per row."""

    def __init__(self, form: StepForm, missing_text: str) -> None:
        self.form = form
        self.inputs: dict[str, Any] = {}
        self._onnx = _library()
        self._missing_text = missing_text
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._codes: dict[str, str] = {}  # of a column by its name
        self._refused: list[str] = []  # whether the model refuses a value, by column
        self._prefix = "treeanova"
        while any(axis.name.startswith(self._prefix) for axis in form.axes):
            self._prefix += "_"

    def node(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node of an operator; return the name of its result."""
        name = f"{self._prefix}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(operator, inputs, [name], domain=domain, **attributes))
        return name

    def constant(self, values: npt.ArrayLike) -> str:
        """Add a constant; return its name."""
        name = f"{self._prefix}_constant_{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(np.asarray(values), name))
        return name

    def read(self, axis: StepAxis) -> None:
        """Add the input of a column, and its codes, shape (n, 1)."""
        _check_name(axis.name)
        kinds = self._onnx.TensorProto
        kind = kinds.STRING if is_text(axis) else kinds.DOUBLE
        self.inputs[axis.name] = self._onnx.helper.make_tensor_value_info(axis.name, kind, [None, 1])
        code = self._text_code(axis) if is_text(axis) else self._number_code(axis)
        if axis.may_refuse:
            self._refused.append(self.node("Equal", code, self.constant([_REFUSED])))
            code = self.node("Max", code, self.constant([-1]))  # an index that every table has
        self._codes[axis.name] = code

    def _number_code(self, axis: StepAxis) -> str:
        """Add the code of a column of doubles: that of the interval between cuts, found by counting the cuts below."""
        cuts = axis.reading if isinstance(axis.reading, Cuts) else _cuts_of_labels(axis, axis.reading)
        # No number is above the last cut, so that no list of cuts is empty.
        is_above = self.node("Greater", axis.name, self.constant([[*cuts.cuts, np.inf]]))
        n_above = self.node("ReduceSum", self._cast(is_above, "FLOAT"), self.constant([1]), keepdims=1)
        interval = self._cast(n_above, "INT64")
        codes = self.constant([_code(code) for code in cuts.codes])
        missing = self.constant([_code(axis.missing)])
        return self.node("Where", self._is_absent(axis.name, cuts), missing, self.node("Gather", codes, interval))

    def _is_absent(self, name: str, cuts: Cuts) -> str:
        """Add whether a number is missing: NaN, or in an interval of numbers that mean missing."""
        absent = self.node("IsNaN", name)
        for low, high in cuts.missing:
            inside = self._between(name, np.array([low]), np.array([high]))
            absent = self.node("Or", absent, inside)
        return absent

    def _between(self, value: str, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> str:
        """Add whether a value is at least `low` and at most `high`."""
        above, below = self.constant(low), self.constant(high)
        return self.node("And", self.node("GreaterOrEqual", value, above), self.node("LessOrEqual", value, below))

    def _text_code(self, axis: StepAxis) -> str:
        """Add the code of a column of strings, looked up by label."""
        codes = _codes_of_texts(axis, self._missing_text)
        reading = axis.reading
        unseen = _code(reading.unseen) if isinstance(reading, LabelCodes) else _REFUSED
        return self.node(
            "LabelEncoder",
            axis.name,
            domain="ai.onnx.ml",
            keys_strings=[text.encode() for text in codes],
            values_int64s=list(codes.values()),
            default_int64=unseen,
        )

    def term(self, term: StepTerm) -> str:
        """Add a term, shape (n, n_outputs)."""
        n_cells = math.prod(len(self.form.axes[i].codes) for i in term.key)
        if len(term.key) == 1 or n_cells <= _CELLS_PER_COEFFICIENT * len(term.codes):
            codes = [self._codes[self.form.axes[i].name] for i in term.key]
            places = codes[0] if len(codes) == 1 else self.node("Concat", *codes, axis=1)
            return self.node("GatherND", self.constant(self.form.table(term)), places)
        if not len(term.codes):
            return self.constant(np.zeros((1, len(self.form.outputs))))
        is_active = [self._indicators(self.form.axes[i], ks) for i, ks in zip(term.key, term.codes.T, strict=True)]
        product = is_active[0]
        for indicators in is_active[1:]:
            product = self.node("And", product, indicators)
        return self.node("MatMul", self._cast(product, "DOUBLE"), self.constant(term.values))

    def _indicators(self, axis: StepAxis, ks: npt.NDArray[np.int64]) -> str:
        """Add whether the indicators of codes ks are 1, shape (n, n_coefficients): each asks for an interval."""
        largest = np.iinfo(np.int64).max
        steps_up = (ks > 0) & axis.is_ordered
        low = np.where(ks == 0, -largest, ks)
        high = np.where((ks == 0) | steps_up, largest, ks)
        return self._between(self._codes[axis.name], low[None, :], high[None, :])

    def sum_of(self, values: Sequence[str]) -> str:
        """Add a sum of values, one of which has a row per row."""
        zero = self.node("Mul", self._cast(next(iter(self._codes.values())), "DOUBLE"), self.constant(np.zeros((1, 1))))
        return self.node("Sum", zero, *values)

    def guarded(self, value: str) -> str:
        """Add NaN in place of a value where the model refuses a column's value."""
        if not self._refused:
            return value
        return self.node("Where", self._is_refused(), self.constant([[np.nan]]), value)

    def _is_refused(self) -> str:
        """Add whether the model refuses the value of any column; conditions are joined once."""
        while len(self._refused) > 1:
            self._refused.append(self.node("Or", self._refused.pop(), self._refused.pop()))
        return self._refused[0]

    def response(self, score: str, link: str) -> str:
        """Add the response: the score through the inverse of the link."""
        if link in {"logit", "log"}:
            return self.node({"logit": "Sigmoid", "log": "Exp"}[link], score)
        return self.node("Softmax", score, axis=1) if link == "softmax" else score

    def probabilities(self, score: str, schema: Schema) -> str:
        """Add the probabilities of all classes; those of two if the model has that of the second alone."""
        response = self.response(score, schema.link)
        if len(schema.outputs) > 1:
            return response
        return self.node("Concat", self.node("Sub", self.constant([[1.0]]), response), response, axis=1)

    def label(self, score: str, probability: str, schema: Schema) -> _Result:
        """Add the most probable class; or 0 and 1 per output of a model of several labels."""
        n_outputs = len(schema.outputs)
        if schema.link == "logit" and n_outputs > 1 and not schema.classes:
            return _Result(
                self._cast(self.node("Greater", score, self.constant([[0.0]])), "INT64"), (None, n_outputs), "INT64"
            )
        if n_outputs == 1 and (schema.link == "argmax" or schema.threshold != 0.5):
            is_second = self.node("Greater", score, self.constant([[_border(schema)]]))
            position = self.node("Squeeze", self._cast(is_second, "INT64"), self.constant([1]))
        else:
            position = self.node("ArgMax", probability, axis=1, keepdims=0)
        labels, kind = _labels(schema)
        if self._refused:
            *classes, absent = labels.tolist()
            if absent in classes:
                raise ValueError(f"classes must not be {absent!r}, the label of refused rows in ONNX; rename it.")
            refused = self.node("Squeeze", self._is_refused(), self.constant([1]))
            position = self.node("Where", refused, self.constant([len(labels) - 1]), position)
        return _Result(self.node("Gather", self.constant(labels), position), (None,), kind)

    def _cast(self, value: str, kind: str) -> str:
        """Add a value as another type."""
        return self.node("Cast", value, to=getattr(self._onnx.TensorProto, kind))

    def model(self, results: Mapping[str, _Result], facts: Mapping[str, str]) -> Any:
        """Return the model with these results, and facts as metadata."""
        helper, kinds = self._onnx.helper, self._onnx.TensorProto
        outputs = []
        for name, result in results.items():
            _check_name(name)
            self._nodes.append(helper.make_node("Identity", [result.value], [name]))
            outputs.append(helper.make_tensor_value_info(name, getattr(kinds, result.kind), result.shape))
        graph = helper.make_graph(self._nodes, "treeanova", list(self.inputs.values()), outputs, self._constants)
        operators = [helper.make_opsetid(*operator) for operator in _OPERATORS]
        model = helper.make_model(graph, opset_imports=operators, producer_name="treeanova", ir_version=_FORMAT)
        helper.set_model_props(model, dict(facts) | {"outputs": json.dumps(self.form.outputs)})
        self._onnx.checker.check_model(model)
        return model


def _library() -> Any:
    """Return the package onnx; ImportError if it is not installed."""
    try:
        return importlib.import_module("onnx")
    except ImportError as error:
        raise ImportError("writing ONNX needs the package onnx, which is not installed; pip install onnx.") from error


def _check_name(name: str) -> None:
    """Raise ValueError for names that runtimes cannot have."""
    if not name or "\0" in name or not is_writable(name):
        raise ValueError(
            f"names must be ones that ONNX can have, got {name!a}; rename the column with `feature_names`."
        )


def _code(code: int | None) -> int:
    return _REFUSED if code is None else code


def _cuts_of_labels(axis: StepAxis, reading: LabelCodes) -> Cuts:
    """Return labels that are numbers as cuts: each is an interval of its own, and what lies between is unseen."""
    pairs: list[tuple[float, int | None]] = []
    for label, code in reading.codes:
        if label is None:
            continue
        if not isinstance(label, (bool, int, float)) or not math.isfinite(label) or float(label) != label:
            raise ValueError(
                f"labels of {axis.name!r} must be texts or numbers of float64 for ONNX, got {label!r}; convert them."
            )
        pairs.append((float(label), axis.missing if code is None else code))
    pairs.sort()
    cuts = [(math.nextafter(label, -math.inf), label) for label, _ in pairs]
    codes = [reading.unseen, *itertools.chain.from_iterable((code, reading.unseen) for _, code in pairs)]
    return Cuts(tuple(itertools.chain.from_iterable(cuts)), tuple(codes))


def _codes_of_texts(axis: StepAxis, missing_text: str) -> dict[str, int]:
    """Return the codes of texts, and of the text that stands for missing values unless it is a label."""
    codes: dict[str, int] = {}
    reading = axis.reading
    pairs = reading.codes if isinstance(reading, LabelCodes) else ()
    missing = next((code for label, code in pairs if label is None), axis.missing)
    for label, code in pairs:
        if label is None:
            continue
        if not isinstance(label, str) or not is_writable(label) or "\0" in label:
            raise ValueError(f"labels of {axis.name!r} must be texts that UTF-8 can write for ONNX, got {label!a}.")
        codes[label] = _code(axis.missing if code is None else code)
    if missing is not None and missing_text in codes and codes[missing_text] != missing:
        raise ValueError(
            f"`missing_text` must be no category of {axis.name!r}, got {missing_text!r}; choose another, such as "
            "'<missing>'."
        )
    return {missing_text: _code(missing)} | codes


def _border(schema: Schema) -> float:
    """Return the score above which the second class is predicted."""
    if schema.link == "argmax":
        return 0.0
    with np.errstate(divide="ignore"):
        return float(-np.log(1 / np.float64(schema.threshold) - 1)) if schema.link == "logit" else schema.threshold


def _labels(schema: Schema) -> tuple[npt.NDArray[Any], str]:
    """Return the labels of all classes, then that of rows without a score; and their type."""
    labels: list[Any] = list(schema.classes or range(max(len(schema.outputs), 2)))
    if all(isinstance(label, (bool, int)) for label in labels):
        return np.array([*map(int, labels), _NO_INTEGER]), "INT64"
    if all(isinstance(label, float) for label in labels):
        return np.array([*labels, np.nan]), "DOUBLE"
    if not all(isinstance(label, str) for label in labels):
        raise ValueError(f"classes must be texts, or numbers of one type, for ONNX, got {labels!r}; rename them.")
    return np.array([*labels, ""], dtype=object), "STRING"
