"""A comparison at the rows of the user: a forest on raw columns, and the transformers followed by their own model.

Transformers of scikit-learn are known to work column by column. A function of the user is tried at many numbers, which
proves nothing for those between; and it may depend on more than numbers, such as the type of a column.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import numpy.typing as npt
import scipy.sparse

from treeanova.core.arrays import Floats
from treeanova.model.forest import Forest
from treeanova.readers.columnwise.origins import refused

_N_ROWS = 2000
_TOLERANCE = 1e-9  # relative to the scores: sums over leaves differ by rounding at most


def check_agreement(steps: Sequence[Any], last: Forest, pulled: Forest, X: Any) -> None:
    """Raise UnsupportedModelError if scores on raw rows differ from those on transformed rows.

    Rows that the transformers or the model refuse are not compared.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            rows = _some_rows(X, pulled)
            scores, expected = pulled.score(rows), _score_after(steps, last, rows)
        except Exception:  # noqa: BLE001  functions of the user have errors of their own; decompose() tells of bad rows
            return
    gaps = np.abs(scores - expected).max(axis=1, initial=0.0)
    if not (gaps <= _TOLERANCE * np.abs(expected).max(initial=1e-300)).all():
        i = int(gaps.argmax())
        raise refused(
            "a transformer that acts on the rows of `X` in another way than on numbers and categories one by one (one "
            f"score is {expected[i, 0]:.6g}, where {scores[i, 0]:.6g} is expected)"
        )


def _score_after(steps: Sequence[Any], last: Forest, rows: Any) -> Floats:
    for step in steps:
        rows = step.transform(rows)
    return last.score(rows)


def _some_rows(X: Any, forest: Forest) -> Any:
    """Rows spread evenly over X, a table with the model's columns only."""
    if isinstance(X, np.ndarray) or scipy.sparse.issparse(X) or not nw.dependencies.is_into_dataframe(X):
        matrix = X.tocsr() if scipy.sparse.issparse(X) else np.asarray(X)
        return matrix[_spread(matrix.shape[0])]
    table = nw.from_native(X, eager_only=True)
    table = table[_spread(len(table)).tolist()]
    table = table.select(forest.schema.names) if forest.schema.named else table
    is_known = nw.dependencies.is_pandas_dataframe(X) or nw.dependencies.is_polars_dataframe(X)
    return table.to_native() if is_known else table.to_pandas()


def _spread(n_rows: int) -> npt.NDArray[np.int64]:
    """Positions spread evenly over rows."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, _N_ROWS)).astype(np.int64)) if n_rows else np.arange(0)
