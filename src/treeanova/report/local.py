"""Single rows on the page, only where they were asked for: what each term adds to their score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.data.columns import encode
from treeanova.decomposition.decomposition import Decomposition
from treeanova.model.axes import Axis, IntervalAxis

_MOST_ROWS = 100
_MOST_TERMS = 25


def plain_rows(pure: Mapping[str, Decomposition], rows: Any, unit: float) -> dict[str, Any]:
    """Values of the features of some rows, and per density and output what the terms add, strongest first."""
    main = next(iter(pure.values()))
    encoded = encode(rows, main.schema)
    if not 0 < len(encoded) <= _MOST_ROWS:
        raise ValueError(
            f"`rows` must be 1 to {_MOST_ROWS} rows to explain one by one, got {len(encoded)}; pass a few of them."
        )
    values = [_texts(axis, encoded[:, j]) for j, axis in enumerate(main.grid.axes)]
    return {
        "features": [list(row) for row in zip(*values, strict=True)],
        "explained": {name: _explained(fx, rows, unit) for name, fx in pure.items()},
    }


def _texts(axis: Axis, column: Floats) -> list[str]:
    """Values of a feature as people write them."""
    if isinstance(axis, IntervalAxis):
        return ["missing" if np.isnan(value) else f"{value:.6g}" for value in column]
    return [axis.labels[code] for code in axis.index(column)]


def _explained(fx: Decomposition, rows: Any, unit: float) -> list[list[dict[str, Any]]]:
    """Per row and output the score, and the strongest terms with the sum of the rest, in whole units."""
    found = fx.explain(rows)
    names, orders = list(found.parts), [len(term) for term in found.terms]
    orders += [max(orders, default=0) + 1] * (len(names) - len(orders))
    n_rows = len(found.values)
    intercept = np.atleast_1d(found.intercept)
    parts = [part.reshape(n_rows, -1) for part in found.parts.values()]
    values = np.stack(parts, axis=1) if parts else np.zeros((n_rows, 0, len(intercept)))
    return [
        [_waterfall(names, orders, values[i, :, k], float(intercept[k]), unit) for k in range(values.shape[2])]
        for i in range(n_rows)
    ]


def _waterfall(
    names: Sequence[str], orders: Sequence[int], values: Floats, intercept: float, unit: float
) -> dict[str, Any]:
    strongest = np.argsort(-np.abs(values), kind="stable")[:_MOST_TERMS]
    units = [round(float(values[t]) / unit) for t in strongest]
    shown = [[names[t], orders[t], amount] for t, amount in zip(strongest, units, strict=True)]
    base, total = round(intercept / unit), round((intercept + float(values.sum())) / unit)
    rest = total - base - sum(units)  # so that what is shown adds up
    return {"intercept": base, "score": total, "terms": shown, "rest": rest, "n_rest": len(values) - len(shown)}
