"""Terms on the scale of the response: what a term alone does to a probability, an aid for reading.

A term adds to the score, and terms add up there. On the response scale they do not: what a term changes depends on
where the others stand. It is therefore shown at one base point, where all other terms are zero, which is their average
under the density: ``response(intercept + value) - response(intercept)``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats
from treeanova.data.features import Schema
from treeanova.decomposition.term import TableTerm, Term
from treeanova.model.links import is_classifier, respond
from treeanova.views.look import RESPONSES

SCALES = ("score", "response", "probability")


def is_response(schema: Schema, scale: str) -> bool:
    """Whether a scale is that of the response; ValueError for one that the model does not have."""
    if scale not in SCALES:
        choices = ", ".join(map(repr, SCALES))
        raise ValueError(f"`scale` must be one of {choices}, got {scale!r}; leave it out for 'score'.")
    if scale == "score":
        return False
    if schema.link not in RESPONSES:
        same = schema.link in {"identity", "probability"}
        reason = "where the score is the response already" if same else f"with the link {schema.link!r}"
        raise ValueError(f"`scale` must be 'score' {reason}, got {scale!r}; leave it out.")
    if scale == "probability" and not is_classifier(schema):
        raise ValueError(f"`scale` must be 'score' or 'response' for a model of a mean, got {scale!r}; use 'response'.")
    return True


def response_changes(schema: Schema, intercept: npt.ArrayLike, values: Floats) -> Floats:
    """Changes of the response by values of one term, all other terms being zero; the shape is that of `values`."""
    base = np.atleast_1d(np.asarray(intercept, dtype=np.float64))
    scores = base + values.reshape(-1, len(base))
    changes: Floats = respond(schema, scores) - respond(schema, base[None])
    return changes.reshape(values.shape)


def on_scale(term: Term, intercept: npt.ArrayLike, scale: str) -> Term:
    """A term with a table, with its values on a scale: itself for "score"."""
    if not is_response(term.schema, scale):
        return term
    changes = response_changes(term.schema, intercept, term.values)
    return TableTerm(term.features, term.schema, term.axes, changes, term.weights)


def base_response(schema: Schema, intercept: npt.ArrayLike) -> Floats:
    """The response of each output where all terms are zero."""
    response: Floats = respond(schema, np.atleast_1d(np.asarray(intercept, dtype=np.float64))[None])[0]
    return response
