"""The ranking of a decomposition's terms, by the names of their features."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from treeanova.core.arrays import Names
from treeanova.core.labels import labels_of
from treeanova.data.features import Schema
from treeanova.data.frames import columns_of
from treeanova.views.decomposed import DecompositionLike


class Standing(NamedTuple):
    """A term in the ranking of one output; what is not a listed term has no features."""

    features: Names
    label: str
    order: int
    variance: float
    share: float
    mean_abs: float

    @property
    def is_remainder(self) -> bool:
        """Whether this is not a listed term: other terms of an order added up, or the remainder."""
        return not self.features

    @property
    def key(self) -> Names:
        """The features, or a key that no term has."""
        return self.features or key_of_rest(self.label)


def key_of_rest(label: str) -> Names:
    """A key, which no term has, of what is not a listed term."""
    return "", label


def is_rest(key: Names) -> bool:
    """Whether a key is of what is not a listed term."""
    return key[0] == "" and len(key) == 2


def as_lists(table: Any) -> dict[str, list[Any]]:
    """Columns of a table of results as lists."""
    return columns_of(table)


def standings(fx: DecompositionLike) -> dict[str, list[Standing]]:
    """Per output the terms of a decomposition, strongest first, as `importance` has them."""
    columns = as_lists(fx.importance())
    outputs = fx.schema.outputs
    rankings: dict[str, list[Standing]] = {output: [] for output in outputs}
    names = features_by_label(fx.terms, fx.schema)
    output_of_row = columns.get("output", [outputs[0]] * len(columns["term"]))
    measures = zip(columns["variance"], columns["share"], columns["mean_abs"], strict=True)
    for output, label, order, row in zip(output_of_row, columns["term"], columns["order"], measures, strict=True):
        variance, share, mean_abs = map(float, row)
        rankings[output].append(Standing(names.get(str(label), ()), str(label), int(order), variance, share, mean_abs))
    return rankings


def features_by_label(terms: Collection[Names], schema: Schema) -> dict[str, Names]:
    """The features of each term by its label in tables: the one place that goes from labels to features."""
    return dict(zip(labels_of(terms, schema.names), terms, strict=True))


def shares_by_order(ranking: Iterable[Standing]) -> tuple[float, float, float]:
    """Shares of the variance of main effects, of pairs and of higher orders."""
    totals = [0.0, 0.0, 0.0]
    for term in ranking:
        totals[min(max(term.order, 1), 3) - 1] += term.share
    return totals[0], totals[1], totals[2]
