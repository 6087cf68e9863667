"""Export to plain programs: a module of Python and one of JavaScript that need nothing else."""

from __future__ import annotations

import importlib.resources
import json
import math
import sys
from typing import Any

import numpy as np

from treeanova.data.features import Schema
from treeanova.decomposition.decomposition import Decomposition
from treeanova.export.artifact import Export, fingerprint_of, form_of, score_names, term_labels
from treeanova.model.step_form import Cuts, StepAxis, StepForm, StepTerm

_PYTHON = '''\
"""A model as plain Python, written by TreeANOVA. It needs nothing else.

    score(row)     {score_words}
    response(row)  {response_words}
    terms(row)     the terms by name; with the intercept they add up to the score

`row` is a dict of these columns; None and NaN are missing values:
{columns}
Values that the model refuses raise ValueError; texts for numbers, and numbers for texts, raise TypeError.
"""

import math
from bisect import bisect_left

FINGERPRINT = {fingerprint!r}
OUTPUTS = {outputs!r}
LINK = {link!r}
INTERCEPT = {intercept}
# Columns: name, whether codes are ordered, code of missing values (None: refused), then for numbers cuts, the codes of
# the intervals between them and intervals that mean missing; for labels a dict of codes and the code of other labels.
COLUMNS = [
{column_lines}
]
# Terms: name, positions of columns, and coefficients: the codes of their indicators, and a value per output. An
# indicator of code 0 is always 1, else it is 1 if the column has this code, or a higher one if its codes are ordered.
TERMS = [
{term_lines}
]


def _check_kind(name, reading, value):
    labels = [label for label in reading if label is not None] if isinstance(reading, dict) else [0.0]
    is_text = isinstance(value, (str, bytes))
    if labels and all(isinstance(label, str) != is_text for label in labels):
        raise TypeError(f"column {{name!r}} must hold {{'numbers' if is_text else 'texts'}}, got {{value!r}}.")


def _number(name, value):
    if value is None:
        return math.nan
    _check_kind(name, (), value)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"column {{name!r}} must hold numbers, got {{value!r}}.") from None


def _code(column, value):
    name, _, missing, reading, codes, other = column
    if isinstance(reading, dict):
        is_absent = value is None or value != value
        if not is_absent:
            _check_kind(name, reading, value)
        code = missing if is_absent and value not in reading else reading.get(value, other)
        code = missing if code == "missing" else code
    else:
        number = _number(name, value)
        is_missing = number != number or any(low <= number <= high for low, high in other)
        code = missing if is_missing else codes[bisect_left(reading, number)]
    if code is None:
        raise ValueError(f"column {{name!r}} must hold values that the model takes, got {{value!r}}.")
    return code


def _is_active(ordered, code, k):
    return k == 0 or (code >= k if ordered and k > 0 else code == k)


def _values(row):
    codes = [_code(column, row[column[0]]) for column in COLUMNS]
    for name, positions, coefficients in TERMS:
        total = [0.0] * len(OUTPUTS)
        for ks, values in coefficients:
            if all(_is_active(COLUMNS[i][1], codes[i], k) for i, k in zip(positions, ks)):
                total = [a + b for a, b in zip(total, values)]
        yield name, total


def _scores(row):
    scores = list(INTERCEPT)
    for _, values in _values(row):
        scores = [a + b for a, b in zip(scores, values)]
    return scores


def terms(row):
    return {{name: values[0] if len(values) == 1 else values for name, values in _values(row)}}


def score(row):
    scores = _scores(row)
    return scores[0] if len(scores) == 1 else scores


def _logistic(x):
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    return math.exp(x) / (1.0 + math.exp(x))


def response(row):
    scores = _scores(row)
    if LINK == "logit":
        scores = [_logistic(x) for x in scores]
    elif LINK == "log":
        scores = [math.exp(x) if x <= {largest_power!r} else math.inf for x in scores]
    elif LINK == "softmax":
        powers = [math.exp(x - max(scores)) for x in scores]
        scores = [power / sum(powers) for power in powers]
    elif LINK not in ("identity", "probability"):
        raise ValueError(f"the response does not follow from the score of a model with link {{LINK!r}}.")
    return scores[0] if len(scores) == 1 else scores
'''

_JAVASCRIPT = """\
// A model as plain JavaScript, written by TreeANOVA. It needs nothing else.
//   score(row)     {score_words}
//   response(row)  {response_words}
//   terms(row)     the terms by name; with the intercept they add up to the score
// `row` is an object (or a Map) of the columns below; null, undefined and NaN are missing values. Values that the model
// refuses throw an Error; texts for numbers, and numbers for texts, throw a TypeError.
"use strict";
const treeanovaModel = (() => {{
const model = {model};

{evaluation}
const valuesOf = (row) => termsAt(model, codesAt(model, row));
const one = (values) => (values.length === 1 ? values[0] : values);

return {{
  fingerprint: {fingerprint},
  model,
  score: (row) => one(scoresOf(model, valuesOf(row))),
  response: (row) => one(responsesOf(model.link, scoresOf(model, valuesOf(row)))),
  terms: (row) => new Map(valuesOf(row).map((values, index) => [model.terms[index].name, one(values)])),
}};
}})();
if (typeof module !== "undefined") module.exports = treeanovaModel;
"""
_RESPONSE_WORDS = {
    "logit": "the probability (logistic function of the score)",
    "log": "the mean (exponential of the score)",
    "softmax": "the probability of each class",
    "identity": "the same as the score",
    "probability": "the same as the score, a probability",
}


def python(fx: Decomposition) -> Export:
    """Write a decomposition as a module of plain Python: `score(row)`, `response(row)` and `terms(row)` of a dict.

    Parameters
    ----------
    fx
        A decomposition whose terms all have tables: of a shallow model or an EBM, or selected or simplified.

    Returns
    -------
    Export
        Its text is the module; `save` writes it, `verify` runs it.

    Raises
    ------
    ValueError
        If part of the score has no table, or a column cannot be read by plain comparisons.

    Examples
    --------
    >>> import treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> module = {}
    >>> exec(str(treeanova.export.python(fx)), module)
    >>> module["score"]({"x0": 1.0, "x1": 1.0})
    1.0
    """
    form, fingerprint = form_of(fx), fingerprint_of(fx)
    text = _PYTHON.format(
        **_words(form),
        columns="\n".join(f"    {_docstring_text(line)}" for line in _column_words(form)),
        largest_power=math.log(sys.float_info.max),
        fingerprint=fingerprint,
        outputs=list(form.outputs),
        link=form.link,
        intercept=_python_value(form.intercept.tolist()),
        column_lines="\n".join(f"    {_python_column(axis)}," for axis in form.axes),
        term_lines="\n".join(
            f"    {_python_term(term, name)},"
            for term, name in zip(form.terms, term_labels(form, fx.schema), strict=True)
        ),
    )
    return Export("python", text, form, (*score_names(form),), fingerprint, fx)


def javascript(fx: Decomposition) -> Export:
    """Write a decomposition as plain JavaScript: `treeanovaModel` with `score(row)`, `response(row)` and `terms(row)`.

    The text is a script for pages and a CommonJS module for Node.js.

    Parameters
    ----------
    fx
        A decomposition whose terms all have tables: of a shallow model or an EBM, or selected or simplified.

    Returns
    -------
    Export
        Its text is the script; `save` writes it, `verify` runs it in Node.js.

    Raises
    ------
    ValueError
        If part of the score has no table, or a column cannot be read by plain comparisons.

    Examples
    --------
    >>> import treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> "score: (row)" in str(treeanova.export.javascript(fx))
    True
    """
    form, fingerprint = form_of(fx), fingerprint_of(fx)
    text = _JAVASCRIPT.format(
        **{name: words.replace("\n", " ") for name, words in _words(form).items()},
        model=script_json(model_for_script(form, fx.schema)),
        evaluation=evaluation_script(),
        fingerprint=script_json(fingerprint),
    )
    return Export("javascript", text, form, score_names(form), fingerprint, fx)


def evaluation_script() -> str:
    """Return the functions of JavaScript that evaluate a step form; the page of a report has them too."""
    return (importlib.resources.files("treeanova.export") / "evaluation.js").read_text(encoding="utf-8")


def model_for_script(form: StepForm, schema: Schema) -> dict[str, Any]:
    """Return what the script reads: the form as plain data, with names of terms and positions of their columns."""
    content: dict[str, Any] = plain_numbers(form.to_dict())
    names = term_labels(form, schema)
    for term, step_term, name in zip(content["terms"], form.terms, names, strict=True):
        term |= {"name": name, "positions": list(step_term.key)}
    return content


def script_json(value: Any) -> str:
    """Write JSON that is safe inside a script of a page."""
    text = json.dumps(plain_numbers(value), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


_OVERFLOWING = 10**309  # JavaScript reads this integer as infinity
_LARGEST_EXACT = 2**53  # above, JavaScript rounds integers


def plain_numbers(value: Any) -> Any:
    """Return plain data with numbers that JavaScript reads exactly: no infinities, null for NaN, no large integers."""
    if isinstance(value, dict):
        return {key: plain_numbers(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_numbers(item) for item in value]
    if isinstance(value, int) and abs(value) > _LARGEST_EXACT and abs(value) != _OVERFLOWING:
        raise ValueError(
            f"`fx` must have integer labels of at most 2**53 in JavaScript, got {value}; train with texts instead."
        )
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, float) and math.isinf(value):
        return _OVERFLOWING if value > 0 else -_OVERFLOWING
    return value


def _words(form: StepForm) -> dict[str, str]:
    """Return what `score` and `response` return, in words for the head of the program."""
    score = "the score" if len(form.outputs) == 1 else f"a list of scores, one per output ({len(form.outputs)})"
    return {"score_words": score, "response_words": _RESPONSE_WORDS.get(form.link, "not defined for this model")}


def _column_words(form: StepForm) -> list[str]:
    """Return a line per column that says what it holds."""
    lines = []
    for axis in form.axes:
        if isinstance(axis.reading, Cuts):
            kind = f"a number of {axis.date_unit} that counts time" if axis.date_unit else "a number"
        else:
            kind = f"one of {len(axis.reading.codes)} labels"
        lines.append(f"{axis.name!r}: {kind}{'' if axis.missing is not None else ', never missing'}")
    return lines


def _docstring_text(text: str) -> str:
    """Return a text that a docstring can hold: no backslashes, and no quotes that would end it."""
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def _python_value(value: Any) -> str:
    """Write plain data as Python source; infinities are numbers that overflow, and NaN never occurs."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_python_value(k)}: {_python_value(v)}' for k, v in value.items())}}}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(_python_value, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    if isinstance(value, float) and math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    return repr(value.item() if isinstance(value, np.generic) else value)


def _python_column(axis: StepAxis) -> str:
    """Write the line of COLUMNS of a column."""
    reading = axis.reading
    if isinstance(reading, Cuts):
        fields: list[Any] = [list(reading.cuts), list(reading.codes), list(reading.missing)]
    else:
        codes = {label: "missing" if code is None else code for label, code in reading.codes}
        fields = [codes, None, reading.unseen]
    return _python_value((axis.name, axis.is_ordered, axis.missing, *fields))


def _python_term(term: StepTerm, name: str) -> str:
    """Write the line of TERMS of a term."""
    pairs = [(tuple(codes), values) for codes, values in zip(term.codes.tolist(), term.values.tolist(), strict=True)]
    return _python_value((name, term.key, pairs))
