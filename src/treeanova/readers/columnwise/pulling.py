"""A forest on transformed columns as a forest on raw columns."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.data.features import Feature, Numeric, Schema
from treeanova.model.forest import NEAR_ZERO, Forest
from treeanova.readers.columnwise.categories import CategoryMap, category_maps, is_numeric, objects, plain_labels
from treeanova.readers.columnwise.columns import DoubleNumber
from treeanova.readers.columnwise.evaluation import Transformation
from treeanova.readers.columnwise.numbers import Question, breakpoints, without_refused
from treeanova.readers.columnwise.origins import Origin, RawColumn, Walk, refused
from treeanova.readers.columnwise.splitting import Nodes
from treeanova.readers.ebm.columns import IgnoredColumn

_NAN = np.array([np.nan])
_USUAL = (1.0, 0.5, 0.0, 100.0, -1.0)


def in_raw_columns(steps: Sequence[Any], forest: Forest) -> Forest:
    """The forest whose score on raw rows is that of `forest` on rows that fitted transformers have changed.

    Raises UnsupportedModelError for transformers that do not work column by column.
    """
    n_raw = getattr(steps[0], "n_features_in_", None)
    if n_raw is None:
        raise refused(f"{type(steps[0]).__name__}, which does not tell its number of columns")
    walk = Walk([RawColumn() for _ in range(n_raw)])
    columns = [Origin(j) for j in range(n_raw)]
    for step in steps:
        columns = walk.through(step, columns)
    if len(columns) != len(forest.schema.features):
        raise refused(f"transformers that make {len(forest.schema.features)} columns where {len(columns)} are expected")
    if any(walk.raw[column.source].labels is not None and not column.by_label for column in columns):
        raise refused("a column that enters the model both as categories and otherwise")
    given = getattr(steps[0], "feature_names_in_", None)
    names = None if given is None else [str(name) for name in given]
    return _Pulled(steps, forest, walk, columns, names).forest()


class _Pulled:
    """All that is known of a pipeline while its forest is pulled back."""

    def __init__(
        self, steps: Sequence[Any], forest: Forest, walk: Walk, columns: list[Origin], names: list[str] | None
    ) -> None:
        self._forest, self._walk, self._names = forest, walk, names
        self._source = source = np.array([column.source for column in columns], dtype=np.int64)
        self._computed = {column.source for column in columns if not column.is_raw}
        self._labels: dict[int, list[Hashable]] = {
            j: plain_labels(list(dict.fromkeys([*raw.labels, *raw.sentinels])))
            for j, raw in enumerate(walk.raw)
            if raw.labels is not None
        }
        self._as_objects = {j for j in self._labels if walk.raw[j].as_objects or not is_numeric(self._labels[j])}
        self._outputs = {j: np.flatnonzero(source == j) for j in range(len(walk.raw))}
        self._numbers = [j for j in self._outputs if j not in self._labels and len(self._outputs[j])]
        self._transformation = self._usable(steps)
        if walk.has_function:
            self._check_function()

    def _usable(self, steps: Sequence[Any]) -> Transformation:
        """The transformation with a usual value of each column, which it accepts."""
        for number in _USUAL:
            usual = [self._usual(j, number) for j in range(len(self._walk.raw))]
            result = Transformation(steps, self._forest.schema, self._names, usual)
            if not result.answers({0: usual[0]})[0].refused[0]:
                return result
        error = result.last_error
        raise refused(f"transformers that accept none of the numbers tried ({type(error).__name__}: {error})")

    def _usual(self, j: int, number: float) -> npt.NDArray[Any]:
        labels = self._labels.get(j)
        if labels is None:
            return np.array([number])
        first = next((label for label in labels if label is not None), np.nan)
        return objects([first]) if j in self._as_objects else np.array([first], dtype=np.float64)

    def _check_function(self) -> None:
        """Raise UnsupportedModelError where a function of the user mixes columns or rows."""
        numbers = np.array([0.25, 0.5, 0.75, 1.0, 3.0])
        alone = {j: self._transformation.answers({j: numbers})[j] for j in self._numbers}
        together = self._transformation.answers(dict.fromkeys(self._numbers, numbers))
        for j in self._numbers:
            own = self._outputs[j]
            single = self._transformation.answers({j: numbers[-1:]})[j]
            same = np.array_equal(alone[j].values[:, own], together[j].values[:, own], equal_nan=True)
            if not same or not np.array_equal(single.values[0, own], alone[j].values[-1, own], equal_nan=True):
                raise refused("a function that mixes columns or rows")

    def forest(self) -> Forest:
        """The forest on raw columns."""
        nodes = Nodes(self._forest, self._source)
        maps = category_maps(self._transformation, self._labels, self._as_objects, self._outputs)
        for j, mapped in maps.items():
            for output in self._outputs[j].tolist():
                self._split_categories(nodes, output, mapped)
        accepts_missing = self._split_all_numbers(nodes)
        features = tuple(self._feature(j, maps.get(j), accepts_missing) for j in range(len(self._walk.raw)))
        return nodes.forest(self._schema(features))

    def _split_categories(self, nodes: Nodes, output: int, mapped: CategoryMap) -> None:
        which, kinds, pattern = self._patterns(output)
        left = self._left(kinds, np.append(mapped.known[:, output], mapped.missing[output]))
        nodes.split_categories(which, pattern, left[:, :-1], left[:, -1])

    def _split_all_numbers(self, nodes: Nodes) -> dict[int, bool]:
        """Split nodes on numbers; whether each raw column may be missing."""
        patterns = {output: self._patterns(output) for j in self._numbers for output in self._outputs[j].tolist()}
        asked = {k: Question(k, self._thresholds(kinds, k)) for k, (_, kinds, _) in patterns.items()}
        questions = {j: [asked[k] for k in self._outputs[j].tolist()] for j in self._numbers}
        raw = {j: self._walk.raw[j] for j in self._numbers}
        ends = breakpoints(self._transformation, raw, questions)
        answers = self._transformation.answers(ends)
        missing = self._transformation.answers(dict.fromkeys(self._numbers, _NAN))
        for j in self._numbers:
            for k in self._outputs[j].tolist():
                which, kinds, pattern = patterns[k]
                left = without_refused(self._left(kinds, answers[j].values[:, k]), answers[j].refused)
                missing_left = self._left(kinds, missing[j].values[:, k])[:, 0]
                nodes.split_numbers(which, pattern, left, missing_left, ends[j][:-1])
        return {j: self._accepts(j, missing[j].values[0], missing[j].refused[0]) for j in self._numbers}

    def _patterns(self, output: int) -> tuple[Ints, Ints, Ints]:
        """Nodes that split on a column, one node of each kind of split, and the kind of each node."""
        forest = self._forest
        which = np.flatnonzero(forest.feature == output)
        start = forest.category_start[which]
        kinds = np.stack(
            [
                np.where(start >= 0, start, forest.bound[which]),
                start,
                forest.missing_left[which],
                forest.zero_missing[which],
            ],
            axis=1,
        )
        _, first, pattern = np.unique(kinds, axis=0, return_index=True, return_inverse=True)
        return which, which[first], pattern.ravel()

    def _thresholds(self, kinds: Ints, output: int) -> Floats:
        """Numbers up to which a column may go another way than above."""
        feature = self._forest.schema.features[output]
        if feature.is_category:
            return np.arange(feature.n_categories, dtype=np.float64) if len(kinds) else np.empty(0)
        zero = [np.nextafter(-NEAR_ZERO, -np.inf), NEAR_ZERO] if self._forest.zero_missing[kinds].any() else []
        return np.unique(np.concatenate([self._forest.bound[kinds], zero]))

    def _left(self, kinds: Ints, values: Floats) -> Bools:
        """Whether values go left at nodes, shape (n_nodes, n_values)."""
        shape = (len(kinds), len(values))
        return self._forest.goes_left(np.broadcast_to(kinds[:, None], shape), np.broadcast_to(values, shape))

    def _accepts(self, j: int, values: Floats, is_refused: bool) -> bool:
        """Whether the transformers accept a missing or unseen value, and the model what they make of it."""
        return not is_refused and all(
            _model_accepts(self._forest.schema.features[k], float(values[k])) for k in self._outputs[j]
        )

    def _feature(self, j: int, mapped: CategoryMap | None, accepts_missing: dict[int, bool]) -> Feature:
        name = f"x{j}" if self._names is None else self._names[j]
        if mapped is not None:
            missing = self._accepts(j, mapped.missing, not mapped.accepts_missing)
            unseen = self._accepts(j, mapped.known[-1], not mapped.accepts_unseen)
            return Feature(name, mapped.encoder, missing, unseen)
        if j not in accepts_missing:
            return self._unused(j, name)
        return Feature(name, DoubleNumber() if j in self._computed else Numeric(), accepts_missing[j])

    def _unused(self, j: int, name: str) -> Feature:
        """A column that no split sees; it may hold anything only if no transformer refuses text in it."""
        text, missing = self._transformation.answers({j: objects(["text"])}), self._transformation.answers({j: _NAN})
        if not text[j].refused[0]:
            return Feature(name, IgnoredColumn())
        return Feature(name, Numeric(), accepts_missing=not missing[j].refused[0])

    def _schema(self, features: tuple[Feature, ...]) -> Schema:
        old = self._forest.schema
        return Schema(
            features,
            old.outputs,
            old.link,
            self._names is not None,
            # Transformers were asked for dense rows: sparse ones differ where absent entries are missing to the model.
            absent=0.0 if old.absent == 0.0 else None,
            classes=old.classes,
            predicts_share=old.predicts_share,
            objective=old.objective,
        )


def _model_accepts(feature: Feature, value: float) -> bool:
    """Whether a model accepts an encoded value, which may be missing or an unseen category."""
    if np.isnan(value):
        return feature.accepts_missing
    return feature.accepts_unseen or not feature.is_category or value != feature.n_categories
