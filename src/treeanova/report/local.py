"""Single rows on the page, only where they were asked for: what each term adds to their score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Names
from treeanova.core.progress import Progress, quiet, within
from treeanova.data.columns import encode
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.explanation import Explanation
from treeanova.views.look import value_text
from treeanova.views.standings import key_of_rest

_MAX_ROWS = 100
_MAX_TERMS = 25


def plain_rows(
    pure: Mapping[str, Decomposition],
    rows: Any,
    unit: float,
    places: Mapping[Names, int],
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Values of the features of some rows, and per density and output what the terms add, strongest first.

    `places` are the positions of terms on the page, and of what is not a listed term.
    """
    schema = next(iter(pure.values())).schema
    encoded = encode(rows, schema)
    if not 0 < len(encoded) <= _MAX_ROWS:
        raise ValueError(
            f"`rows` must be 1 to {_MAX_ROWS} rows to explain one by one, got {len(encoded)}; pass a few of them."
        )
    texts = [[value_text(f, v, _number_text) for f, v in zip(schema.features, row, strict=True)] for row in encoded]
    explained = {
        name: fx.explain(rows, progress=within(progress, f"rows, density {name}")) for name, fx in pure.items()
    }
    return {
        "features": texts,
        "explained": {name: _explained(values, unit, places) for name, values in explained.items()},
    }


def _number_text(value: float) -> str:
    return f"{value:.6g}"


def _explained(explained: Explanation, unit: float, places: Mapping[Names, int]) -> list[list[dict[str, Any]]]:
    """Per row and output the score, and the strongest terms with the sum of the rest, in whole units."""
    positions = [places[names] for names in explained.terms]
    intercept = np.atleast_1d(explained.intercept)
    n_rows, n_outputs = len(explained.values), len(intercept)
    values = explained.values.reshape(n_rows, len(positions), n_outputs)
    for label, rest in explained.rests.items():
        positions.append(places[key_of_rest(label)])
        values = np.concatenate([values, rest.reshape(n_rows, 1, n_outputs)], axis=1)
    return [
        [_waterfall(positions, values[i, :, k], float(intercept[k]), unit) for k in range(n_outputs)]
        for i in range(n_rows)
    ]


def _waterfall(positions: Sequence[int], values: Floats, intercept: float, unit: float) -> dict[str, Any]:
    strongest = np.argsort(-np.abs(values), kind="stable")[:_MAX_TERMS]
    units = [round(float(values[t]) / unit) for t in strongest]
    shown = [[positions[t], amount] for t, amount in zip(strongest, units, strict=True)]
    base, total = round(intercept / unit), round((intercept + float(values.sum())) / unit)
    rest = total - base - sum(units)  # so that the numbers shown add up
    return {"intercept": base, "score": total, "terms": shown, "rest": rest, "n_rest": len(values) - len(shown)}
