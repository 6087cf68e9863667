"""Pipelines of scikit-learn: the model at their end, on the columns that enter it or on those of the user.

A *column map* takes one raw column to one column that the model sees. `maps.py` finds, from the classes of the
transformers, which raw column each of the model's columns comes from, and refuses what mixes columns. The maps are
never rewritten: the fitted transformers are asked for their values, and the model's encoders for what its splits
compare, so all rounding (also that of float32) is theirs.

- A raw column of numbers: a split z <= t becomes the set of numbers x whose z goes left. Bisection over the floats
  finds where this set changes, down to two neighbours; around each change, more changes are sought, which rounding may
  cause. Bisection starts between probes: floats of all sizes and those where a transformer is known to jump. Functions
  of the user must be monotone at the probes.
- A raw column of categories, one that an encoder sees: each known category, an unseen one, None and NaN are tried. A
  split on any of the encoder's columns becomes a set of categories of the one raw feature.
- Missing values go where the transformed missing value goes: for an imputer, where the imputed value goes.

Values that the transformers refuse need no answer: if they are missing or unseen values, they are refused here too.
float32 columns are refused, because scikit-learn then computes in float32, with other rounding.

Transformers of scikit-learn are known to work column by column. A function of the user is tried at many numbers, which
proves nothing for those between, and it may depend on more than numbers, such as the type of a column; so
`check_agreement` compares the result with the transformers at rows of the user.
"""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import scipy.sparse

from treeanova.core.arrays import Arrays, Bools, Floats, Ints
from treeanova.data.columns import object_column
from treeanova.data.features import Feature, IgnoredColumn, Numeric, Schema, is_missing
from treeanova.errors import UnsupportedModelError
from treeanova.model.effects import Effects
from treeanova.model.forest import NEAR_ZERO, Forest, assemble
from treeanova.readers.pipelines import maps

_N_ROWS = 2000
_TOLERANCE = 1e-9  # relative to the scores: sums over leaves differ by rounding at most
# Numbers at which a node changes sides, left up to the first one, and whether missing values go left.
Cuts = tuple[Floats, bool]
Table = dict[str, list[Any]]
_ONE_NAN = np.array([np.nan])
_USUAL_NUMBERS = (1.0, 0.5, 0.0, 100.0, -1.0)


def check_agreement(steps: Sequence[Any], last: Forest, raw_forest: Forest, X: Any) -> None:
    """Raise UnsupportedModelError if scores on raw rows differ from those on transformed rows."""
    # Rows that the transformers or the model refuse are not compared.
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            rows = _spread_rows(X, raw_forest)
            scores = raw_forest.score(rows)
            for step in steps:
                rows = step.transform(rows)
            expected = last.score(rows)
        except Exception:  # noqa: BLE001  functions of the user have errors of their own; decompose() tells of bad rows
            return
    gaps = np.abs(scores - expected).max(axis=1, initial=0.0)
    if not (gaps <= _TOLERANCE * np.abs(expected).max(initial=1e-300)).all():
        i = int(gaps.argmax())
        raise maps.refused(
            "a transformer that acts on the rows of `X` in another way than on numbers and categories one by one (one "
            f"score is {expected[i, 0]:.6g}, where {scores[i, 0]:.6g} is expected)"
        )


def _spread_rows(X: Any, forest: Forest) -> Any:
    """Return at most `_N_ROWS` rows of X, spread evenly, in a form that transformers take."""

    def spread(n_rows: int) -> Ints:
        return np.unique(np.linspace(0, n_rows - 1, min(n_rows, _N_ROWS)).astype(np.int64)) if n_rows else np.arange(0)

    if isinstance(X, np.ndarray) or scipy.sparse.issparse(X) or not nw.dependencies.is_into_dataframe(X):
        matrix = X.tocsr() if scipy.sparse.issparse(X) else np.asarray(X)
        return matrix[spread(matrix.shape[0])]
    table = nw.from_native(X, eager_only=True)
    table = table[spread(len(table)).tolist()]
    table = table.select(forest.schema.names) if forest.schema.named else table
    is_known = nw.dependencies.is_pandas_dataframe(X) or nw.dependencies.is_polars_dataframe(X)
    return table.to_native() if is_known else table.to_pandas()


class Nodes:
    """The nodes of a forest that are being split anew; arrays have one entry per node."""

    def __init__(self, forest: Forest, source: Ints) -> None:  # `source` has the raw column of each feature
        self._forest = forest
        is_leaf = forest.feature < 0
        self.feature: Ints = np.where(is_leaf, -1, source[forest.feature]) if len(source) else forest.feature.copy()
        self.bound: Floats = forest.bound.copy()
        self.left: Ints = forest.left.copy()
        self.right: Ints = forest.right.copy()
        self.missing_left: Bools = forest.missing_left.copy()
        self.start: Ints = np.full(len(is_leaf), -1, dtype=np.int64)
        self.sets: list[Bools] = []
        self._n_codes = 0
        self._cuts: dict[int, Cuts] = {}  # of nodes with several thresholds

    def set_categories(self, nodes: Ints, kind: Ints, left: Bools, missing_left: Bools) -> None:
        """Give nodes new splits on categories: `left[kind[i]]` says which (the last: unseen) go left at `nodes[i]`."""
        starts = self._n_codes + np.arange(len(left)) * left.shape[1]
        self.start[nodes] = starts[kind]
        self.sets.append(left.ravel())
        self._n_codes += left.size
        self.bound[nodes] = 0.0
        self.missing_left[nodes] = missing_left[kind]

    def set_thresholds(self, nodes: Ints, kind: Ints, left: Bools, missing_left: Bools, ends: Floats) -> None:
        """Give nodes new thresholds: `left[kind[i]]` says which intervals between `ends` go left at `nodes[i]`."""
        changes = left[:, 1:] != left[:, :-1]  # whether a kind changes sides at each end
        first = changes.argmax(axis=1) if changes.shape[1] else np.zeros(len(changes), dtype=np.int64)
        bound = np.where(changes.any(axis=1), np.append(ends, np.inf)[first], np.inf)
        is_swapped = ~left[:, 0]  # a closed bound sends low numbers left: else the children change places
        self.bound[nodes] = bound[kind]
        self.missing_left[nodes] = (missing_left != is_swapped)[kind]
        swapped = nodes[is_swapped[kind]]
        self.left[swapped], self.right[swapped] = self.right[swapped], self.left[swapped]
        has_several = changes.sum(axis=1) > 1
        for node, row in zip(nodes[has_several[kind]], kind[has_several[kind]], strict=True):
            # Sides are those after the swap, by which the first interval goes left.
            self._cuts[int(node)] = ends[changes[row]], bool(missing_left[row] != is_swapped[row])

    def forest(self, schema: Schema) -> Forest:
        """Return the forest with the new splits; nodes with several thresholds become chains."""
        old = self._forest
        arrays = {
            "feature": self.feature,
            "bound": self.bound,
            "left": np.where(old.feature < 0, -1, self.left),
            "right": np.where(old.feature < 0, -1, self.right),
            "missing_left": self.missing_left,
            "category_start": self.start,
            "leaf": old.leaf,
        }
        if self._cuts:
            arrays = _with_chains(arrays, self._cuts, old.roots)
        leaf = arrays.pop("leaf")
        return assemble(
            schema,
            old.intercept,
            roots=old.roots,
            values=old.values[leaf],
            leaf_label=old.leaf_label[leaf],
            category_left=np.concatenate([np.empty(0, bool), *self.sets]),
            **arrays,
        )


def _with_chains(arrays: Arrays, cuts: dict[int, Cuts], roots: Ints) -> Arrays:
    """Return nodes with one threshold each, as arrays by name: each node of `cuts` becomes a chain of nodes."""
    # The intervals of the chain go to the node's left and right branch in turn. The first of each kind takes the branch
    # itself, all others a copy of it.
    table = {name: array.tolist() for name, array in arrays.items()}
    downwards: list[int] = roots.tolist()
    for node in downwards:  # which grows: all nodes, parents before children
        downwards.extend(child for child in (table["left"][node], table["right"][node]) if child >= 0)
    for node in reversed([node for node in downwards if node in cuts]):  # from below, so that copies have their chains
        branches = table["left"][node], table["right"][node]
        ends, missing_left = cuts[node]
        for position, end in enumerate(ends.tolist()):
            if position:
                table["right"][node] = _append_node(table, node)
                node = table["right"][node]
                table["left"][node] = branches[1] if position == 1 else _append_subtree(table, branches[position % 2])
            table["bound"][node] = end
            # At the first node, missing values go to the left branch or on, then to the right branch at the second.
            table["missing_left"][node] = missing_left or position > 0
        table["right"][node] = _append_subtree(table, branches[len(ends) % 2])
    return {name: np.array(column) for name, column in table.items()}


def _append_node(table: Table, node: int) -> int:
    """Append a copy of a node, with the same children, and return its position."""
    for column in table.values():
        column.append(column[node])
    return len(table["left"]) - 1


def _append_subtree(table: Table, node: int) -> int:
    """Append a copy of a node and of all below it, and return its position."""
    copy = _append_node(table, node)
    if table["left"][node] >= 0:
        table["left"][copy] = _append_subtree(table, table["left"][node])
        table["right"][copy] = _append_subtree(table, table["right"][node])
    return copy


class _RawForest:
    """A forest on rows that fitted transformers have changed, and what is needed for the same score on raw rows."""

    def __init__(self, steps: Sequence[Any], forest: Forest) -> None:
        n_raw = getattr(steps[0], "n_features_in_", None)
        if n_raw is None:
            raise maps.refused(f"{type(steps[0]).__name__}, which does not tell its number of columns")
        # Follow the raw columns through the steps, to those that the forest sees.
        walk, columns = maps.Walk([maps.RawColumn() for _ in range(n_raw)]), [maps.Origin(j) for j in range(n_raw)]
        for step in steps:
            columns = walk.through(step, columns)
        n_columns = len(forest.schema.features)
        if len(columns) != n_columns:
            raise maps.refused(f"transformers that make {n_columns} columns where {len(columns)} are expected")
        if any(walk.raw[column.source].labels is not None and not column.by_label for column in columns):
            raise maps.refused("a column that enters the model both as categories and otherwise")
        names = getattr(steps[0], "feature_names_in_", None)
        self._names = None if names is None else [str(name) for name in names]
        self._forest, self._walk = forest, walk
        self._source = source = np.array([column.source for column in columns], dtype=np.int64)
        self._computed = {column.source for column in columns if not column.is_raw}
        self._labels: dict[int, list[Hashable]] = {
            j: [
                label
                for label in dict.fromkeys([*raw.labels, *raw.sentinels])
                if label is None or not is_missing(label)
            ]
            for j, raw in enumerate(walk.raw)
            if raw.labels is not None
        }
        self._as_objects = {j for j in self._labels if walk.raw[j].as_objects or not maps.is_numeric(self._labels[j])}
        self._model_columns = {
            j: np.flatnonzero(source == j) for j in range(len(walk.raw))
        }  # the forest's columns by raw one
        self._numbers = [j for j in self._model_columns if j not in self._labels and len(self._model_columns[j])]
        self._transformation = self._accepting_transformation(steps)
        if walk.has_function:
            self._check_columns_apart()

    def _accepting_transformation(self, steps: Sequence[Any]) -> maps.Transformation:
        """Return the transformation with a usual value of each raw column, which the transformers accept."""
        for number in _USUAL_NUMBERS:
            usual = [np.array([number])] * len(self._walk.raw)
            for j, labels in self._labels.items():
                first = next((label for label in labels if label is not None), np.nan)
                usual[j] = object_column([first]) if j in self._as_objects else np.array([first], dtype=np.float64)
            transformation = maps.Transformation(steps, self._forest.schema, self._names, usual)
            # Asking for one column tries all: the others have their usual values.
            if not transformation.answers({0: usual[0]})[0].refused[0]:
                return transformation
        error = transformation.last_error
        raise maps.refused(f"transformers that accept none of the numbers tried ({type(error).__name__}: {error})")

    def _check_columns_apart(self) -> None:
        """Refuse a user's function if a column changes with other columns or with the rows next to it."""
        numbers = np.array([0.25, 0.5, 0.75, 1.0, 3.0])
        alone = {j: self._transformation.answers({j: numbers})[j] for j in self._numbers}
        together = self._transformation.answers(dict.fromkeys(self._numbers, numbers))
        for j in self._numbers:
            model_columns = self._model_columns[j]
            in_one_row = self._transformation.answers({j: numbers[-1:]})[j].values[0, model_columns]
            by_itself, with_others = alone[j].values[:, model_columns], together[j].values[:, model_columns]
            keeps_columns_apart = np.array_equal(by_itself, with_others, equal_nan=True)
            if not keeps_columns_apart or not np.array_equal(in_one_row, by_itself[-1], equal_nan=True):
                raise maps.refused("a function that mixes columns or rows")

    def forest(self) -> Forest:
        """Return the forest on raw columns: splits on transformed columns become thresholds or category sets."""
        nodes = Nodes(self._forest, self._source)
        nan_nulls = {j for j in self._labels if self._walk.raw[j].null_is_nan}
        categories = maps.category_maps(
            self._transformation, self._labels, self._as_objects, self._model_columns, nan_nulls
        )
        for j, mapped in categories.items():
            for model_column in self._model_columns[j].tolist():
                split_nodes, examples, kind = self._splits_on(model_column)  # equal splits are one kind, tried once
                # Columns of `left`: the categories, an unseen one, and a missing value.
                left = self._goes_left(
                    examples, np.append(mapped.values[:, model_column], mapped.missing[model_column])
                )
                nodes.set_categories(split_nodes, kind, left[:, :-1], left[:, -1])
        accepts_missing = self._set_thresholds(nodes)
        features = tuple(self._feature(j, categories.get(j), accepts_missing) for j in range(len(self._walk.raw)))
        return nodes.forest(
            dataclasses.replace(
                self._forest.schema,
                features=features,
                named=self._names is not None,
                # Transformers were asked for dense rows: sparse ones differ if absent entries are missing to the model.
                absent=0.0 if self._forest.schema.absent == 0.0 else None,
                underscores=False,
                single_integers=False,
                given=False,
                trained_names=(),
            )
        )

    def _set_thresholds(self, nodes: Nodes) -> dict[int, bool]:
        """Split nodes on numeric raw columns; return for each of these whether it accepts missing values."""
        # For each of the model's columns, which are made of a raw column j: nodes that split on it, an example of each
        # kind of split, and the kind of each node.
        splits = {
            model_column: self._splits_on(model_column)
            for j in self._numbers
            for model_column in self._model_columns[j].tolist()
        }
        thresholds = {
            model_column: self._thresholds(examples, model_column) for model_column, (_, examples, _) in splits.items()
        }
        questions = {j: {k: thresholds[k] for k in self._model_columns[j].tolist()} for j in self._numbers}
        raw = {j: self._walk.raw[j] for j in self._numbers}
        ends = maps.breakpoints(self._transformation, raw, questions)  # of intervals of raw numbers with one answer
        answers = self._transformation.answers(ends)
        missing = self._transformation.answers(dict.fromkeys(self._numbers, _ONE_NAN))
        for j in self._numbers:
            for model_column in self._model_columns[j].tolist():
                split_nodes, examples, kind = splits[model_column]
                left = maps.fill_refused(
                    self._goes_left(examples, answers[j].values[:, model_column]), answers[j].refused
                )
                missing_left = self._goes_left(examples, missing[j].values[:, model_column])[:, 0]
                nodes.set_thresholds(split_nodes, kind, left, missing_left, ends[j][:-1])
        return {j: self._accepts(j, missing[j].values[0], missing[j].refused[0]) for j in self._numbers}

    def _splits_on(self, model_column: int) -> tuple[Ints, Ints, Ints]:
        """Return nodes that split on a column, an example node of each kind of split, and the kind of each node."""
        forest = self._forest
        nodes = np.flatnonzero(forest.feature == model_column)
        start = forest.category_start[nodes]
        bound = np.where(start >= 0, start, forest.bound[nodes])  # splits by category have no bound
        attributes = np.stack([bound, start, forest.missing_left[nodes], forest.zero_missing[nodes]], axis=1)
        _, first, kind = np.unique(attributes, axis=0, return_index=True, return_inverse=True)
        return nodes, nodes[first], kind.ravel()

    def _thresholds(self, examples: Ints, model_column: int) -> Floats:
        """Return where splits on a column of the model, one example of each kind, can change sides."""
        feature = self._forest.schema.features[model_column]
        if feature.is_category:
            return np.arange(feature.n_categories, dtype=np.float64) if len(examples) else np.empty(0)
        has_zero = self._forest.zero_missing[examples].any()  # a split that takes numbers near zero for missing
        ends_of_zero = [np.nextafter(-NEAR_ZERO, -np.inf), NEAR_ZERO] if has_zero else []
        return np.unique(np.concatenate([self._forest.bound[examples], ends_of_zero]))

    def _goes_left(self, examples: Ints, values: Floats) -> Bools:
        """Whether each example node sends each value left, shape (examples, values)."""
        shape = (len(examples), len(values))
        return self._forest.goes_left(np.broadcast_to(examples[:, None], shape), np.broadcast_to(values, shape))

    def _accepts(self, j: int, values: Floats, is_refused: bool) -> bool:
        """Whether transformers and model accept a value of a raw column, of which they make these values."""
        features = self._forest.schema.features
        return not is_refused and all(
            features[k].accepts_missing
            if np.isnan(values[k])
            else features[k].accepts_unseen or not features[k].is_category or values[k] != features[k].n_categories
            for k in self._model_columns[j]
        )

    def _feature(self, j: int, mapped: maps.CategoryMap | None, accepts_missing: dict[int, bool]) -> Feature:
        """Return raw column j as a feature, with an encoder for what its transformers accept."""
        # `mapped` is the map of a column of categories, else None; `accepts_missing` has the columns of numbers that
        # splits see.
        name = f"x{j}" if self._names is None else self._names[j]
        if mapped is not None:
            missing = self._accepts(j, mapped.missing, not mapped.accepts_missing)
            unseen = self._accepts(j, mapped.values[-1], not mapped.accepts_unseen)
            return Feature(name, mapped.encoder, missing, unseen)
        if j in accepts_missing:
            cast = "float64 only" if j in self._computed else "float64"  # transformers compute in the column's type
            return Feature(name, Numeric(cast=cast), accepts_missing[j])
        # No split sees the column; it may hold anything only if no transformer refuses text in it.
        text, nan = (self._transformation.answers({j: value})[j] for value in (object_column(["text"]), _ONE_NAN))
        if not text.refused[0]:
            return Feature(name, IgnoredColumn())
        return Feature(name, Numeric(), accepts_missing=not nan.refused[0])


def is_pipeline(model: Any) -> bool:
    return hasattr(model, "named_steps") and bool(getattr(model, "steps", None))


def final_step(model: Any) -> Any:
    """Return the model at the end of a Pipeline, also of nested ones; any other model unchanged."""
    return final_step(model.steps[-1][1]) if is_pipeline(model) else model


def changing_steps(model: Any) -> list[Any]:
    """Return steps of a Pipeline, also of nested ones at its end, that may change columns."""
    # Samplers of imbalanced-learn are left out: they act on training data only.
    if not is_pipeline(model):
        return []
    steps = [step for _, step in model.steps[:-1] if step is not None and step != "passthrough"]
    return [step for step in steps if not hasattr(step, "fit_resample")] + changing_steps(model.steps[-1][1])


def read_in_raw_columns(pipeline: Any, read: Callable[[Any], Forest | Effects], X: Any = None) -> Forest | Effects:
    """Read the model at the end of a Pipeline as a function of the columns that enter the Pipeline."""
    # UnsupportedModelError if other steps do not change columns one by one, judged by their classes and by rows X.
    steps, last = changing_steps(pipeline), final_step(pipeline)
    if not steps:
        return read(pipeline)
    _check_last_step(last)
    content = read(last)
    if isinstance(content, Effects):
        raise maps.refused(f"{type(steps[0]).__name__} before an additive model")
    raw_forest = _RawForest(steps, content).forest()
    if X is not None:
        check_agreement(steps, content, raw_forest, X)
    return raw_forest


def _check_last_step(last: Any) -> None:  # UnsupportedModelError unless it may be a model
    if last is None or isinstance(last, str):
        raise UnsupportedModelError(f"the Pipeline must end in a model, got {last!r}; append a fitted one.")


def read_pipeline(pipeline: Any, read: Callable[[Any], Forest | Effects]) -> Forest | Effects:
    """Read the last step of a Pipeline, with the names that the steps before it give to its columns."""
    last = pipeline.steps[-1][1]
    _check_last_step(last)
    content = read(last)
    schema = content.schema
    names: list[str] | None = None
    if len(pipeline.steps) > 1:
        with contextlib.suppress(AttributeError, TypeError, ValueError):
            names = [str(name) for name in pipeline[:-1].get_feature_names_out()]
    if names is None or len(names) != len(schema.features):
        return content
    features = tuple(dataclasses.replace(f, name=name) for f, name in zip(schema.features, names, strict=True))
    named = schema.named or hasattr(pipeline, "feature_names_in_")
    return content.with_schema(dataclasses.replace(schema, features=features, named=named))
