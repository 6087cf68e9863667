"""What `reasons` and `monotonicity` answer: plain data for machines, text for people."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from treeanova.cli.formats import Row, aligned
from treeanova.cli.sources import ModelFile, Request, decomposed, is_in_batches
from treeanova.core.progress import Progress
from treeanova.data.frames import printable
from treeanova.data.tabular import records
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.explanation import Explanation
from treeanova.decomposition.monotonicity import Monotonicity
from treeanova.errors import DensityWarning
from treeanova.views.look import scale_of

# What reasons answers.


def decomposed_for_reasons(
    file: ModelFile, request: Request, density: str | None, reference: int | None, progress: Progress
) -> Decomposition:
    """The decomposition that reasons are taken from; ValueError where its density is one row, all terms being zero."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DensityWarning)
        fx = decomposed(file, request, density, progress)
    if reference is None and fx.density.is_one_cell:
        raise ValueError(
            "`--data` must have rows of a population to compare the row with, got rows of one kind only, at which "
            "every term is zero; add --density-from FILE with such rows."
        )
    return fx


def reasons_for(fx: Decomposition, request: Request, row: int, reference: int | None) -> Explanation:
    """One row of a file explained, against another row of it where one is named."""
    if request.data is None or is_in_batches(request.data):
        raise ValueError("`--data` must be one file for the rows to explain, got none; add the file.")
    table = nw.from_native(request.table(fx.schema), eager_only=True)
    wanted = {"--row": row} if reference is None else {"--row": row, "--reference": reference}
    for option, number in wanted.items():
        if number >= len(table):
            raise ValueError(
                f"`{option}` must be the number of a row, from 0 on, got {number}; the data have {len(table):,} rows."
            )
    one, *others = (nw.to_native(table[[number]]) for number in wanted.values())
    return fx.explain(one, reference=others[0] if others else None)


def plain_reasons(found: Explanation, fx: Decomposition, name: str) -> dict[str, Any]:
    """An explained row as plain data."""
    values = {label: np.atleast_1d(part[0]) for label, part in found.parts.items()}
    outputs = list(found.outputs)
    rows = [
        {"term": label, **({"output": output} if len(outputs) > 1 else {}), "value": float(value[k])}
        for k, output in enumerate(outputs)
        for label, value in sorted(values.items(), key=lambda item: -abs(float(item[1][k])))
    ]
    return {
        "model": name,
        "scale": scale_of(fx.schema),
        "outputs": outputs,
        "baseline": found.baseline,
        "intercept": np.atleast_1d(found.intercept).tolist(),
        "score": np.atleast_1d(found.scores[0]).tolist(),
        "terms": rows,
    }


def reasoned(plain: Row, top: int) -> str:
    """An explained row for people: from the baseline to the score, a line per term."""
    parts = []
    for k, output in enumerate(plain["outputs"]):
        of = f"{output}: " if len(plain["outputs"]) > 1 else ""
        head = f"{of}{plain['scale']} {plain['score'][k]:.4g}, {plain['baseline']} {plain['intercept'][k]:.4g}"
        rows = [row for row in plain["terms"] if row.get("output", output) == output]
        parts.append(f"{printable(head)}\n\n{_largest(rows, top)}")
    return "\n\n".join(parts)


def _largest(rows: Sequence[Row], top: int) -> str:
    """The first terms, and the sum of all others."""
    shown = [{"term": row["term"], "value": row["value"]} for row in rows[:top]]
    others = rows[top:]
    if others:
        shown.append({"term": f"{len(others):,} more terms", "value": float(np.sum([row["value"] for row in others]))})
    return aligned(shown)


# What monotonicity answers.


def plain_monotonicity(found: Sequence[Monotonicity], name: str) -> dict[str, Any]:
    """Directions of features, overall and at each level of other features, as plain data."""
    features = [
        {
            "feature": one.feature,
            "output": one.output,
            "direction": one.direction,
            "levels": records(one.table),
            "steps": records(one.steps),
        }
        for one in found
    ]
    return {"model": name, "features": features}
