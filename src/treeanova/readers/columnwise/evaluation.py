"""Values of column maps, as the fitted transformers and the encoders of the model compute them."""

from __future__ import annotations

import dataclasses
import importlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats
from treeanova.data.columns import encode
from treeanova.data.features import Schema

Queries = Mapping[int, npt.NDArray[Any]]


@dataclasses.dataclass(frozen=True)
class Answer:
    """Encoded values of all of the model's columns, one row per query, and which queries are refused."""

    values: Floats
    refused: Bools


class Transformation:
    """The transformers of a pipeline, one after the other, and the encoders of its model.

    Parameters
    ----------
    steps
        Fitted transformers.
    schema
        Of the model; missing and unseen values are let through.
    names
        Names of the raw columns; None if the pipeline was trained on a matrix.
    usual
        For each raw column an array with one value that the transformers accept.
    """

    def __init__(
        self, steps: Sequence[Any], schema: Schema, names: Sequence[str] | None, usual: Sequence[npt.NDArray[Any]]
    ) -> None:
        features = tuple(dataclasses.replace(f, accepts_missing=True, accepts_unseen=True) for f in schema.features)
        self._schema = dataclasses.replace(schema, features=features)
        self._steps, self._names, self._usual = steps, names, usual
        self.last_error: Exception | None = None

    def answers(self, queries: Queries) -> dict[int, Answer]:
        """For values of some raw columns, what the model compares; a row is a query of all these columns at once."""
        if not queries:
            return {}
        n_rows = max(len(values) for values in queries.values())
        padded = {j: _padded(values, n_rows, self._usual[j]) for j, values in queries.items()}
        encoded = self._encoded(padded, n_rows)
        if encoded is not None:
            return {j: Answer(encoded[: len(v)], np.zeros(len(v), bool)) for j, v in queries.items()}
        return {j: self._sorted_answer(j, values) for j, values in queries.items()}

    def _sorted_answer(self, j: int, values: npt.NDArray[Any]) -> Answer:
        """Values of one raw column; numbers in order, so that those that are refused are next to each other."""
        if values.dtype == object:
            return self._answer(j, values)
        order = np.argsort(values)
        answer = self._answer(j, values[order])
        rank = np.argsort(order)
        return Answer(answer.values[rank], answer.refused[rank])

    def _answer(self, j: int, values: npt.NDArray[Any]) -> Answer:
        """Values of one raw column, by halves where some of them are refused."""
        encoded = self._encoded({j: values}, len(values))
        if encoded is not None:
            return Answer(encoded, np.zeros(len(values), bool))
        if len(values) == 1 or self._are_refused(j, values):
            return Answer(np.full((len(values), len(self._schema.features)), np.nan), np.ones(len(values), bool))
        half = len(values) // 2
        parts = [self._answer(j, values[:half]), self._answer(j, values[half:])]
        return Answer(np.concatenate([p.values for p in parts]), np.concatenate([p.refused for p in parts]))

    def _are_refused(self, j: int, values: npt.NDArray[Any]) -> bool:
        """Whether all of many numbers in order are refused, as five of them are, the first and the last included."""
        if values.dtype == object or len(values) < 16:
            return False
        some = values[np.linspace(0, len(values) - 1, 5).astype(np.int64)]
        return all(self._encoded({j: some[i : i + 1]}, 1) is None for i in range(len(some)))

    def _encoded(self, columns: Queries, n_rows: int) -> Floats | None:
        """Encoded rows; None if the transformers refuse one of them."""
        rows = self._rows(columns, n_rows)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                for step in self._steps:
                    rows = step.transform(rows)
                return encode(rows, self._schema)
            except Exception as error:  # noqa: BLE001  functions of the user have errors of their own
                self.last_error = error
                return None

    def _rows(self, columns: Queries, n_rows: int) -> Any:
        """A table or matrix of raw rows."""
        whole = [columns[j] if j in columns else np.repeat(value, n_rows) for j, value in enumerate(self._usual)]
        if self._names is not None:
            frames = importlib.import_module("pandas")
            # With its type given, pandas keeps None in a column of objects.
            series = [frames.Series(column, dtype=column.dtype) for column in whole]
            return frames.DataFrame(dict(zip(self._names, series, strict=True)))
        if all(column.dtype.kind == "f" for column in whole):
            return np.stack(whole, axis=1)
        matrix = np.empty((n_rows, len(whole)), dtype=object)
        for j, column in enumerate(whole):
            matrix[:, j] = column
        return matrix


def _padded(values: npt.NDArray[Any], n_rows: int, usual: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A column with the usual value after the values given."""
    return np.concatenate([values, np.repeat(usual, n_rows - len(values))])
