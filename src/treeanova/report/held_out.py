"""Standard errors and validation as the page takes and holds them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Names
from treeanova.core.labels import label_of
from treeanova.decomposition.bags import Bag, errors_by_term
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.validation import Validation
from treeanova.report.numbers import six_digits
from treeanova.views.standings import as_lists

_MEASURES = ("loss_change", "error", "p_value", "p_holm", "slope", "share", "model_share")


def checked_errors(fx: Decomposition, errors: Any) -> Mapping[Names, Floats]:
    """Standard errors by term, with a last axis of outputs; empty where none are given."""
    if errors is None:
        return {}
    if not isinstance(errors, Mapping | Bag):
        kind = type(errors).__name__
        raise TypeError(f"`errors` must be a Bag or what standard_errors() returned, got {kind}; or leave it out.")
    known = {}
    for names, given in (errors_by_term(errors) or {}).items():
        term, found = fx.terms.get(names), np.asarray(given, dtype=np.float64)
        if term is None or not term.has_table or found.shape != term.values.shape:
            wanted = "no such table" if term is None or not term.has_table else f"shape {term.values.shape}"
            raise ValueError(
                f"`errors` must be those of `fx`, which has {wanted} for {label_of(names)!r}, got shape {found.shape}; "
                "pass a Bag together with its own fx."
            )
        known[term.features] = found.reshape(*term.weights.shape, -1)
    return known


def checked_validation(validation: Any) -> Validation | None:
    """The validation, or an error that names what was passed instead."""
    if validation is None or isinstance(validation, Validation):
        return validation
    kind = type(validation).__name__
    raise TypeError(f"`validation` must be a Validation, got {kind}; make one with fx.validate(X, y).")


def plain_validation(validation: Validation | None) -> dict[str, Any] | None:
    """A validation as plain data: a list per term of label, output, measures and aliases, null for NaN."""
    if validation is None:
        return None
    table = as_lists(validation.table)
    outputs = table.get("output", [None] * len(table["term"]))
    measures = zip(*(map(_plain, table[name]) for name in _MEASURES), strict=True)
    return {
        "loss": validation.loss,
        "rows": validation.n_rows,
        "model": [six_digits(float(loss)) for loss in np.atleast_1d(validation.model_loss)],
        "constant": [_plain(float(loss)) for loss in np.atleast_1d(validation.constant_loss)],
        "dispensable": list(validation.dispensable),
        "significant": list(validation.significant),
        "notes": list(validation.notes),
        "terms": [
            [label, output, *numbers, aliases]
            for label, output, numbers, aliases in zip(table["term"], outputs, measures, table["aliases"], strict=True)
        ],
    }


def _plain(number: float) -> float | None:
    return six_digits(float(number)) if math.isfinite(number) else None
