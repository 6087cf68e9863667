"""Exported models: their text or bytes, what they stand for, and the check that a decomposition can be exported."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, label_of, labels_of
from treeanova.core.files import replacing
from treeanova.data.columns import encode
from treeanova.data.features import Schema
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.predictions import function_of
from treeanova.model.step_form import StepForm, unseen_label
from treeanova.storage.saved import fingerprint

RESPONSES = ("identity", "logit", "log", "softmax", "probability")  # links whose response every writer can compute


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Export:
    """A decomposition in a form that runs elsewhere; `str(export)` is its text.

    Attributes
    ----------
    kind
        What it is: "python", "javascript", "sql", "onnx".
    content
        The text of a program or query, or the bytes of a file.
    form
        The step form that was written.
    columns
        Names of the results in their order: scores, responses or terms.
    fingerprint
        Digest of the decomposition, which is also in `content`.
    source
        The decomposition.
    options
        What the writer was asked for, such as the dialect.

    Examples
    --------
    >>> import treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> program = treeanova.export.python(fx)
    >>> program.columns
    ('score',)
    """

    kind: str
    content: str | bytes
    form: StepForm
    columns: tuple[str, ...]
    fingerprint: str
    source: Decomposition
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        return self.content if isinstance(self.content, str) else repr(self)

    def __repr__(self) -> str:
        size = len(self.content if isinstance(self.content, bytes) else self.content.encode())
        return f"<{self.kind} of {size:,} bytes: {self.form}>"

    def __bytes__(self) -> bytes:
        return self.content if isinstance(self.content, bytes) else self.content.encode()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the content to a file, completely or not at all.

        Parameters
        ----------
        path
            Where to write; an existing file is replaced.

        Examples
        --------
        >>> import os, treeanova
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> treeanova.export.python(fx).save(os.devnull)
        """
        with replacing(path) as file:
            file.write(bytes(self))


def check_decomposition(fx: Any) -> None:
    """Raise TypeError for what is no decomposition, such as a model."""
    if not isinstance(fx, Decomposition):
        raise TypeError(
            f"`fx` must be a decomposition, got {type(fx).__name__}; make one with treeanova.decompose(model, X)."
        )


def form_of(fx: Decomposition) -> StepForm:
    """Return the step form of a decomposition; ValueError if part of its score is in no table."""
    check_decomposition(fx)
    function = function_of(fx)
    without = [label_of(names) for names, term in fx.terms.items() if not term.has_table]
    if fx.has_remainder or function.unlisted_orders or without:
        uncovered = f"no table of {without[0]!r}" if without else "a part of the score in no listed term"
        raise ValueError(
            f"`fx` must have a table for every part of its score, got {uncovered}; leave out the rest with "
            "fx.select(order=[1, 2]) or fx.simplify(X, y).chosen, and check what that costs."
        )
    return StepForm.of(function.effects)


def fingerprint_of(fx: Decomposition) -> str:
    """Return the digest by which an export and its decomposition are matched."""
    function = function_of(fx)
    return fingerprint(function.source, function.terms, function.scope)


def response_names(schema: Schema) -> tuple[str, ...]:
    """Return the names of responses: one per output; ValueError if the response does not follow from the score."""
    if schema.link not in RESPONSES:
        raise ValueError(f"`columns` must be 'score' or 'terms' for link {schema.link!r}, got 'response'.")
    return ("response",) if len(schema.outputs) == 1 else tuple(f"response_{name}" for name in schema.outputs)


def score_names(form: StepForm) -> tuple[str, ...]:
    """Return the names of scores: one per output."""
    return ("score",) if len(form.outputs) == 1 else tuple(f"score_{name}" for name in form.outputs)


def term_labels(form: StepForm, schema: Schema) -> list[str]:
    """Return the labels of terms, no two alike; those that `explain` shows."""
    return labels_of([[form.axes[i].name for i in term.key] for term in form.terms], schema.names)


def term_names(form: StepForm, schema: Schema) -> tuple[str, ...]:
    """Return the names of terms, term by term, with the output after the label if there are several."""
    labels = term_labels(form, schema)
    if len(form.outputs) == 1:
        return tuple(labels)
    return tuple(f"{label} ({output})" for label in labels for output in form.outputs)


def free_names(names: Sequence[str], taken: Sequence[str], mark: str) -> list[str]:
    """Return names with a mark where they are taken, so that all differ, whatever the case of letters."""
    lowered, free = {name.lower() for name in taken}, []
    for name in names:
        while name.lower() in lowered:
            name = f"{name}{mark}"
        lowered.add(name.lower())
        free.append(name)
    return free


def plain_rows(fx: Decomposition, form: StepForm, X: Any) -> list[dict[str, Any]]:
    """Return rows of user data as plain values of the form's columns: numbers, labels, or None if missing."""
    encoded, schema = encode(X, fx.schema), fx.schema
    columns = [_plain_column(encoded[:, j], schema, j) for j in _positions(schema, form)]
    names = [axis.name for axis in form.axes]
    rows = zip(*columns, strict=True) if columns else [()] * len(encoded)  # an intercept alone has no columns
    return [dict(zip(names, values, strict=True)) for values in rows]


def _positions(schema: Schema, form: StepForm) -> list[int]:
    """Return the positions of the form's columns among the features of the model."""
    return [schema.names.index(axis.name) for axis in form.axes]


def _plain_column(column: Floats, schema: Schema, j: int) -> list[Any]:
    """Return an encoded column as plain values."""
    encoder = schema.features[j].encoder
    is_labelled = encoder.labels is not None or hasattr(encoder, "names")
    if not is_labelled or hasattr(encoder, "codes"):
        codes = getattr(encoder, "code_values", None)
        return [None if np.isnan(value) else _number(value, codes) for value in column.tolist()]
    labels: tuple[Hashable, ...] = encoder.labels if encoder.labels is not None else getattr(encoder, "names", ())
    return [_label(value, labels) for value in column.tolist()]


def _number(value: float, codes: Any) -> float:
    """Return a number as it is, or the integer of a category; unseen ones are a number that is no code."""
    if codes is None:
        return value
    return float(codes[int(value)]) if value < len(codes) else float(max(codes, default=0) + 7)


def _label(value: float, labels: tuple[Hashable, ...]) -> Hashable:
    """Return the label of a category; None for missing, a label that no model knows for unseen ones."""
    if np.isnan(value):
        return None
    return labels[int(value)] if value < len(labels) else unseen_label(labels)


def adversarial_rows(form: StepForm, n_rows: int, seed: int) -> list[dict[str, Any]]:
    """Return rows of values on and next to all cuts, all labels, unseen and missing values, combined at random."""
    generator = np.random.default_rng(seed)
    values = []
    for axis in form.axes:
        candidates = axis.reading.examples if axis.missing is None else (*axis.reading.examples, None)
        values.append([value for value in candidates if _is_taken(axis, value)])
    longest = max([n_rows, *map(len, values)])
    columns = [[column[i % len(column)] for i in generator.permutation(longest)] for column in values]
    names = [axis.name for axis in form.axes]
    return [dict(zip(names, row, strict=True)) for row in (zip(*columns, strict=True) if columns else [()])]


def _is_taken(axis: Any, value: Any) -> bool:
    """Whether the model takes a value of a column."""
    try:
        axis.code(value)
    except ValueError:
        return False
    return True
