"""The response of a model as one table over all cells, to be decomposed on the response scale."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from treeanova.core.arrays import Key
from treeanova.data.features import Schema
from treeanova.decomposition.evaluation import Evaluation
from treeanova.errors import BudgetError
from treeanova.model.effects import Effects
from treeanova.model.grid import Grid
from treeanova.model.links import is_classifier, respond

_MAX_CELLS = 1 << 18  # of the joint table: its terms of all orders are purified
_MAX_FEATURES = 12  # of 2^12 terms
_NO_CHANGE = ("identity", "probability")


def response_effects(evaluation: Evaluation) -> Effects:
    """The response in every cell of all features that the terms use, as one tensor.

    Raises ValueError where terms leave a part of the function out or the response is not defined, and BudgetError
    where there are too many cells.
    """
    grid, schema = evaluation.grid, evaluation.grid.schema
    if schema.link in _NO_CHANGE:
        raise ValueError(
            f"on_response_scale() must have a score that differs from the response, got the link {schema.link!r}; the "
            "terms are on the response scale already."
        )
    key = _used(evaluation)
    _check_size(key, grid)
    sizes = [grid.sizes[j] for j in key]
    cells = np.indices(sizes, dtype=np.int32).reshape(len(sizes), -1).T
    codes = np.zeros((len(cells), len(grid.axes)), dtype=np.int32)
    codes[:, list(key)] = cells
    response = respond(schema, evaluation.score(grid.encoded(codes)))
    on_response = Grid(_response_schema(schema), grid.axes)
    table = response.reshape(*sizes, -1)
    if not key:
        return Effects(on_response, table, {})
    return Effects(on_response, np.zeros(table.shape[-1]), {key: table})


def _used(evaluation: Evaluation) -> Key:
    """Features that terms use; all that have bins where some terms are not listed."""
    if evaluation.has_remainder or evaluation.rest_orders:
        return tuple(j for j, size in enumerate(evaluation.grid.sizes) if size > 1)
    return tuple(sorted({j for key in evaluation.terms.keys for j in key}))


def _check_size(key: Key, grid: Grid) -> None:
    n_cells = math.prod(grid.sizes[j] for j in key)
    if n_cells > _MAX_CELLS or len(key) > _MAX_FEATURES:
        raise BudgetError(
            f"the response of all {len(key)} features has {n_cells:,} cells and {2 ** len(key):,} terms, more than "
            f"{_MAX_CELLS:,} and {2**_MAX_FEATURES:,}; keep fewer features or terms with select() or drop(), train on "
            'fewer bins, or read single terms with fx.table(key, scale="response").'
        )


def _response_schema(schema: Schema) -> Schema:
    """The schema of a model whose score is the response."""
    link, objective = ("probability", "brier") if is_classifier(schema) else ("identity", "")
    return dataclasses.replace(schema, link=link, objective=objective)
