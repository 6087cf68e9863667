"""Spark ML: decision trees, random forests and gradient boosted trees, alone or at the end of a PipelineModel.

Facts:

- A saved model is a folder: a line of JSON in metadata/, nodes in data/ (Parquet), and for ensembles the weights of
  trees in treesMetadata/. A PipelineModel has its stages in stages/. Spark is not needed, but pyarrow is; models in
  memory are saved to a temporary folder by Spark itself.
- Numbers are compared in float64: x <= t goes left, and NaN goes right.
- A category split stores the categories that go left. Spark keeps the smaller of this set and its complement, so other
  values, NaN included, go left only if more than half of the categories do.
- StringIndexer maps a text to its position; with handleInvalid="keep" unknown and missing texts have the position
  after the last. VectorIndexer does the same with the numbers of a column that has few; all others are unchanged.
  With "error" and "skip" such rows have no prediction, and are errors here.
- VectorAssembler refuses missing values or drops their rows, unless handleInvalid="keep".
- Regression: the weighted sum of trees, for random forests their mean. Classification trees give the shares of classes
  in a leaf, random forests the mean of these.
- GBTClassifier: the probability is the logistic function of twice the sum of trees. The score here is that double,
  the log-odds of the second class; Spark's `rawPrediction` is half of it.

Other stages that change columns are refused.
"""

from __future__ import annotations

import dataclasses
import importlib
import pathlib
import re
import tempfile
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.data.features import Feature, Labels, Schema
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.forest import Forest, assemble
from treeanova.readers import checks
from treeanova.readers.checks import block_starts, check_size, decimal_number, stacked_trees, whole_number
from treeanova.readers.outputs import class_outputs, without_first_of_two

_BYTES_PER_ROW, _VALUES_PER_BYTE = 4, 64  # fewest and most that a Parquet file may have
_Indexer = tuple[str, tuple[str, ...], bool]  # a StringIndexer: its raw column, its labels, whether it keeps others
Row = dict[str, Any]
_MAX_COLUMNS, _MAX_CATEGORIES, _MAX_ENTRIES = 1_000_000, 1 << 20, 1 << 26
_TREES = {"DecisionTreeRegressionModel", "DecisionTreeClassificationModel"}
_FORESTS = {"RandomForestRegressionModel", "RandomForestClassificationModel"}
_BOOSTED = {"GBTRegressionModel", "GBTClassificationModel"}
_MAX_CLASSES = 100_000


@dataclasses.dataclass(frozen=True)
class Stage:
    """A folder that Spark saved, a model or a transformer, and the object in its metadata."""

    path: pathlib.Path
    content: dict[str, Any]

    @property
    def kind(self) -> str:
        """The name of its class in Spark, without the package."""
        return str(self.content.get("class", "")).rpartition(".")[2]

    def parameter(self, name: str, default: Any = None) -> Any:
        """Return a parameter of the stage: as it was set, else Spark's default, else `default`."""
        stated, defaults = self.content.get("paramMap", {}), self.content.get("defaultParamMap", {})
        return stated.get(name, defaults.get(name, default))

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of all Parquet files in the folder `name` of the stage."""
        try:
            parquet = importlib.import_module("pyarrow.parquet")
        except ImportError as error:
            raise UnsupportedModelError(
                f"`model` is a folder of Spark ({self.path.name}), which pyarrow must read, got no pyarrow; install it."
            ) from error
        files = sorted((self.path / name).glob("*.parquet"))
        if not files:
            raise ModelFileError(f"{self.path.name} must have Parquet files in {name}/, got none; folder damaged?")
        try:
            for file in files:
                _check_counts(parquet.read_metadata(file), file)
            return [row for file in files for row in parquet.read_table(file).to_pylist()]
        except (OSError, ValueError) as error:  # pyarrow's errors are derived from these
            if isinstance(error, (ModelFileError, UnsupportedModelError)):
                raise
            raise ModelFileError(f"{self.path.name}/{name} must hold whole Parquet files, got {error}.") from error

    def stages(self) -> list[Stage]:
        """Return the stages of a pipeline, also of pipelines in it; any other stage alone."""
        if self.kind != "PipelineModel":
            return [self]
        names = self.parameter("stageUids") or []
        for name in names:
            if not isinstance(name, str) or not re.fullmatch(r"\w[\w.\-]*", name):
                raise ModelFileError(f"stageUids must be names of folders, got {name!r:.60}; folder damaged?")
        width = len(str(len(names)))
        paths = [self.path / "stages" / f"{k:0{width}d}_{name}" for k, name in enumerate(names)]
        return [stage for path in paths for stage in _open_stage(path).stages()]


def _check_counts(metadata: Any, file: pathlib.Path) -> None:
    """Raise ModelFileError for more rows or values than the bytes of a Parquet file can stand for."""
    # A node has a number and a gain, so real trees need some bytes for each even after compression; lists may repeat.
    n_bytes = file.stat().st_size
    groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
    n_values = max((group.column(j).num_values for group in groups for j in range(group.num_columns)), default=0)
    n_rows = max(metadata.num_rows, sum(group.num_rows for group in groups))
    if n_rows > n_bytes // _BYTES_PER_ROW or n_values > n_bytes * _VALUES_PER_BYTE:
        raise ModelFileError(
            f"{file.name} must hold a few bytes per node, got {n_bytes:,} bytes for {n_rows:,} rows and {n_values:,} "
            "values; folder damaged?"
        )


def _open_stage(path: pathlib.Path) -> Stage:
    """Return the stage in a folder, with the JSON of its metadata parsed."""
    files = sorted((path / "metadata").glob("part-*"))
    try:
        text = "".join(file.read_text(encoding="utf-8") for file in files)
        content = checks.parsed_json(text.strip().partition("\n")[0])
    except (OSError, ValueError) as error:
        raise ModelFileError(
            f"{path.name} must be a folder of Spark with JSON in metadata/, got {type(error).__name__}; folder damaged?"
        ) from error
    if not isinstance(content, dict):
        raise ModelFileError(f"{path.name} must have an object in metadata/, got another value; folder damaged?")
    return Stage(path, content)


@dataclasses.dataclass(frozen=True)
class Column:
    """A feature, and what trees see of it: itself if `seen` is None, else a number for each category."""

    feature: Feature
    seen: Floats | None = None  # the last two entries are for unseen and missing ones, NaN without a prediction


def columns_of(stages: Sequence[Stage], model: Stage) -> tuple[tuple[Column, ...], bool]:
    """Return what the trees see of each feature, and whether the columns have names: those of a pipeline do."""
    # `stages` are those of the pipeline before the model; none for a model alone.
    n_features = whole_number(model.content.get("numFeatures", 0))
    check_size("columns", n_features, _MAX_COLUMNS)
    if not stages:
        return tuple(Column(Feature(f"x{j}")) for j in range(n_features)), False
    indexers = _indexers(stages)
    vector = model.parameter("featuresCol", "features")
    vector_indexer = _producer(stages, "VectorIndexerModel", vector)
    if vector_indexer is not None:
        vector = vector_indexer.parameter("inputCol")
    assembler = _producer(stages, "VectorAssembler", vector)
    if assembler is None:
        raise _refusal(f"its features must come from a VectorAssembler, got the column {vector!r} from elsewhere")
    names = _column_names(assembler, "inputCols")
    if len(names) != n_features:
        raise _refusal(
            f"its VectorAssembler must join {n_features} columns of single numbers, got {len(names)} columns"
        )
    keeps_missing = _keeps_invalid(assembler)
    columns = [Column(Feature(name, accepts_missing=keeps_missing)) for name in names]
    for j, column_name in enumerate(names):
        if column_name not in indexers:
            continue
        name, labels, keeps_others = indexers[column_name]
        unseen = float(len(labels)) if keeps_others else np.nan
        feature = Feature(name, Labels(labels, "text"), accepts_missing=keeps_others, accepts_unseen=keeps_others)
        columns[j] = Column(feature, np.array([*range(len(labels)), unseen, unseen], dtype=np.float64))  # last: missing
    raw_names = [column.feature.name for column in columns]
    doubled = sorted({name for name in raw_names if raw_names.count(name) > 1})
    if doubled:
        raise _refusal(f"each column must enter its trees once, got {doubled[0]!r} twice")
    if vector_indexer is not None:
        columns = _through_vector_indexer(columns, vector_indexer)
    return tuple(columns), True


def _refusal(reason: str) -> UnsupportedModelError:
    return UnsupportedModelError(f"the Spark pipeline cannot be read: {reason}.")


def _column_names(stage: Stage, parameter: str) -> list[str]:
    """Return names of columns from a stage's parameter, as a list even for one; none if it is not set."""
    stated = stage.parameter(parameter)
    names = [] if stated is None else stated if isinstance(stated, list) else [stated]
    if not all(isinstance(name, str) for name in names):
        raise ModelFileError(f"{parameter} must be names of columns, got {names!r:.60}; folder damaged?")
    return names


def _keeps_invalid(stage: Stage) -> bool:
    """Whether a stage keeps rows with missing and unknown values, its parameter handleInvalid."""
    way = stage.parameter("handleInvalid", "error")
    if way not in {"error", "skip", "keep"}:
        raise ModelFileError(f"handleInvalid must be error, skip or keep, got {way!r:.60}; folder damaged?")
    return bool(way == "keep")


def _producer(stages: Sequence[Stage], kind: str, column: str) -> Stage | None:
    """Return the last stage of a kind that makes a column; None without one."""
    producers = [stage for stage in stages if stage.kind == kind and stage.parameter("outputCol") == column]
    return producers[-1] if producers else None


def _indexers(stages: Sequence[Stage]) -> dict[str, _Indexer]:
    """Return what each StringIndexer does, by its output column."""
    indexers: dict[str, _Indexer] = {}
    for stage in (stage for stage in stages if stage.kind == "StringIndexerModel"):
        inputs, outputs = (
            _column_names(stage, f"{side}Cols") or _column_names(stage, f"{side}Col") for side in ("input", "output")
        )
        row: dict[str, Any] = stage.rows("data")[0]
        arrays = row["labelsArray"] if "labelsArray" in row else [row["labels"]]
        keeps = _keeps_invalid(stage)
        for output, name, labels in zip(outputs, inputs, arrays, strict=True):
            if not all(isinstance(label, str) for label in labels) or len(set(labels)) < len(labels):
                raise ModelFileError("labels of a StringIndexer must be different texts, got others; folder damaged?")
            indexers[output] = name, tuple(labels), keeps
    return indexers


def _through_vector_indexer(columns: Sequence[Column], indexer: Stage) -> list[Column]:
    """Return columns as a VectorIndexer changes them: it maps numbers of some columns to positions."""
    keeps_others = _keeps_invalid(indexer)
    listed = indexer.rows("data")[0]["categoryMaps"]
    maps = {key: dict(pairs) for key, pairs in listed}  # by column: positions by number
    for (_, pairs), positions in zip(listed, maps.values(), strict=True):
        if len(positions) < len(pairs) or sorted(positions.values()) != list(range(len(pairs))):
            raise ModelFileError("a VectorIndexer must number values from 0 on, got others; folder damaged?")
    return [
        _with_positions(column, maps[j], keeps_others=keeps_others) if j in maps else column
        for j, column in enumerate(columns)
    ]


def _with_positions(column: Column, positions: dict[float, int], *, keeps_others: bool) -> Column:
    """Let a VectorIndexer replace numbers by positions; if it keeps other numbers, these come after the last."""
    other = float(len(positions)) if keeps_others else np.nan
    if column.seen is not None:  # the numbers are codes of texts
        seen = [np.nan if np.isnan(value) else float(positions.get(float(value), other)) for value in column.seen]
        if np.isnan(seen[:-2]).any():  # all but unseen and missing ones
            raise _refusal(
                f"its VectorIndexer must know all texts of column {column.feature.name!r}, got one that it refuses; "
                'fit it with handleInvalid="keep"'
            )
        is_predicted = not np.isnan(seen[-1])
        feature = dataclasses.replace(column.feature, accepts_missing=is_predicted, accepts_unseen=is_predicted)
        return Column(feature, np.array(seen))
    feature = dataclasses.replace(
        column.feature,
        encoder=Labels(tuple(positions)),
        accepts_missing=column.feature.accepts_missing and keeps_others,
        accepts_unseen=keeps_others,
    )
    return Column(feature, np.array([*positions.values(), other, other], dtype=np.float64))


def forest_of(trees: Sequence[Sequence[Row]], columns: Sequence[Column], values: Floats, schema: Schema) -> Forest:
    """Build the forest; `trees` have the nodes of each tree, `values` a row for each node of all trees."""
    nodes = [node for tree in trees for node in tree]
    sizes = np.array([len(tree) for tree in trees], dtype=np.int64)
    if any([whole_number(node["id"]) for node in tree] != list(range(len(tree))) for tree in trees):
        raise ModelFileError("nodes of Spark's trees must be numbered from 0 on, got other numbers; folder damaged?")
    splits = [node["split"] for node in nodes]
    left, right = (_child_numbers(nodes, side, sizes) for side in ("leftChild", "rightChild"))
    is_inner = left >= 0
    if not np.array_equal(is_inner, right >= 0):
        raise ModelFileError("nodes of Spark's trees must have two children or none, got one; folder damaged?")
    feature = np.where(is_inner, [whole_number(split["featureIndex"]) for split in splits], 0).astype(np.int64)
    if (feature < 0).any() or (feature >= len(columns)).any():
        raise ModelFileError("Spark's trees must split on the model's features, got others; folder damaged?")
    columns = _with_codes(columns, feature, splits, is_inner)
    # Numbers that trees see of a column's categories, the last two of unseen and missing ones; 0 for a numeric column.
    n_seen = np.array([0 if column.seen is None else len(column.seen) for column in columns], dtype=np.int64)
    check_size("category tables", int(n_seen[feature[is_inner]].sum()), _MAX_ENTRIES)
    tables = [
        _left_categories(columns[j], split) if inner and columns[j].seen is not None else np.zeros(0, bool)
        for j, split, inner in zip(feature, splits, is_inner, strict=True)
    ]
    # The entry of missing values, the last of a table, becomes `missing_left`.
    lengths = np.array([max(len(table) - 1, 0) for table in tables], dtype=np.int64)
    is_number = np.array([inner and not len(table) for inner, table in zip(is_inner, tables, strict=True)])
    forest = assemble(
        dataclasses.replace(schema, features=tuple(column.feature for column in columns)),
        np.zeros(values.shape[1]),
        feature=feature,
        bound=[_threshold(split) if number else 0.0 for split, number in zip(splits, is_number, strict=True)],
        missing_left=[bool(len(table)) and bool(table[-1]) for table in tables],
        values=values,
        category_start=np.where(lengths > 0, block_starts(lengths), -1),
        category_left=np.concatenate([*(table[:-1] for table in tables), np.zeros(0, bool)]),
        **stacked_trees(sizes, left, right),
    )
    if len(forest.feature) < len(nodes):
        raise ModelFileError("Spark's trees must reach all of their nodes, got some that none leads to; damaged?")
    return forest


def _child_numbers(nodes: Sequence[Row], side: str, n_nodes: Ints) -> Ints:
    """Return the child of each node on a side, numbered in its tree, -1 at leaves; ModelFileError if it has none."""
    child = np.array([whole_number(node[side]) for node in nodes], dtype=np.int64)
    if not ((child >= -1) & (child < np.repeat(n_nodes, n_nodes))).all():
        raise ModelFileError("Spark's trees must link nodes that exist, got others; folder damaged?")
    return child


def _with_codes(columns: Sequence[Column], feature: Ints, splits: Sequence[Row], is_inner: Bools) -> list[Column]:
    """Turn numeric columns that trees split by categories into categories with codes from 0 on, as labels."""
    counts: dict[int, int] = {}
    for j, split, inner in zip(feature.tolist(), splits, is_inner, strict=True):
        if inner and whole_number(split["numCategories"]) >= 0:
            counts[j] = max(counts.get(j, 0), split["numCategories"])
    check_size("categories", sum(counts.values()), _MAX_CATEGORIES)
    result = list(columns)
    for j, n_categories in counts.items():
        column = columns[j].feature
        if columns[j].seen is None:
            encoder = Labels(tuple(float(code) for code in range(n_categories)))
            coded = Feature(column.name, encoder, accepts_missing=column.accepts_missing)
            result[j] = Column(coded, np.array([*range(n_categories), np.nan, np.nan], dtype=np.float64))
    return result


def _threshold(split: Row) -> float:
    """Return the threshold of a split on numbers, the one entry of its field."""
    (threshold,) = split["leftCategoriesOrThreshold"]
    return float(threshold)


def _left_categories(column: Column, split: Row) -> Bools:
    """Return whether each category goes left; the last two entries are for unseen and for missing ones."""
    assert column.seen is not None  # noqa: S101  asked before
    if split["numCategories"] < 0:
        return np.asarray(column.seen <= _threshold(split), dtype=bool)
    left, n_categories = np.unique(split["leftCategoriesOrThreshold"]), split["numCategories"]
    if not _is_code(left, n_categories).all():
        raise ModelFileError(f"Spark's category splits must hold codes below {n_categories}, got others; damaged?")
    others_left = len(left) > n_categories // 2  # Spark keeps the smaller of the set and its complement
    return np.asarray(np.isin(column.seen, left) | (others_left & ~_is_code(column.seen, n_categories)), dtype=bool)


def _is_code(values: Floats, n_categories: int) -> Bools:
    return np.asarray((values >= 0) & (values < n_categories) & (np.trunc(values) == values), dtype=bool)


def read(model: Any) -> Forest:
    """Read a fitted model of Spark through a copy that it saves."""
    model = getattr(model, "bestModel", model)  # CrossValidatorModel, TrainValidationSplitModel
    if not hasattr(model, "write") or not type(model).__name__.endswith("Model"):
        raise UnsupportedModelError(f"`model` must be a fitted Spark model, got {type(model).__name__}; fit it first.")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model"
        model.write().save(path.as_uri())
        if not path.is_dir():
            raise UnsupportedModelError(
                "`model` must be saved to a folder of this machine, got none from a Spark that runs elsewhere; save it "
                "with model.write().save() and pass the path of a local copy."
            )
        return read_file(path)


def read_file(path: pathlib.Path) -> Forest:
    with checks.damage_reported("a folder of a Spark model", path):
        checks.check_inside(path)
        return _read(_open_stage(path))


def _read(saved: Stage) -> Forest:
    """Read a model of trees, alone or as the last stage of a pipeline: then as a function of the pipeline's columns."""
    *earlier_stages, model = [stage for stage in saved.stages() if stage.kind != "IndexToString"]
    if model.kind not in _TREES | _FORESTS | _BOOSTED:
        raise UnsupportedModelError(
            f"`model` must be a Spark model of trees ({', '.join(sorted(_TREES | _FORESTS | _BOOSTED))}), alone or at "
            f"the end of a PipelineModel, got {model.kind}."
        )
    allowed = {"StringIndexerModel", "VectorAssembler", "VectorIndexerModel", "IndexToString"}
    for stage in earlier_stages:
        if stage.kind not in allowed:
            raise _refusal(
                f"its stages before the trees must be {', '.join(sorted(allowed))}, got {stage.kind}; decompose the "
                "last stage alone (in stages/ of its folder), on the columns that enter it"
            )
    columns, named = columns_of(earlier_stages, model)
    trees, weights = _trees_and_weights(model)
    schema = dataclasses.replace(_schema(model, earlier_stages), named=named)
    values = _node_values(model, trees, weights)
    return forest_of(trees, columns, without_first_of_two(values), schema)


def _trees_and_weights(model: Stage) -> tuple[list[list[Row]], Floats]:
    """Return the nodes of each tree, in the order of their numbers, and the trees' weights."""
    rows = model.rows("data")
    if model.kind in _TREES:
        return [sorted(rows, key=lambda node: node["id"])], np.ones(1)
    listed = [row.values() for row in model.rows("treesMetadata")]
    weights = {whole_number(tree): decimal_number(weight) for tree, _, weight in listed}
    if model.kind in _FORESTS and set(weights.values()) != {1.0}:
        raise ModelFileError("trees of a Spark forest must have the weight 1, got others; folder damaged?")
    nodes: dict[int, list[Row]] = {tree: [] for tree in sorted(weights)}
    for row in rows:
        nodes[whole_number(row["treeID"])].append(row["nodeData"])
    n_trees = whole_number(model.content.get("numTrees", len(listed)))
    if not len(nodes) == len(listed) == n_trees or not all(nodes.values()):
        raise ModelFileError(f"{model.path.name} must hold all of its trees, got {len(nodes)}; folder damaged?")
    ordered = [sorted(tree, key=lambda node: node["id"]) for tree in nodes.values()]
    return ordered, np.array([weights[tree] for tree in nodes])


def _node_values(model: Stage, trees: list[list[Row]], weights: Floats) -> Floats:
    """Return what each node adds to the score if it is a leaf, shape (nodes, outputs or classes)."""
    nodes = [node for tree in trees for node in tree]
    weight = np.repeat(weights, [len(tree) for tree in trees])[:, None]
    if model.kind == "GBTClassificationModel":
        weight = 2 * weight  # the log-odds are twice the sum
    if model.kind in _FORESTS:
        weight = weight / len(trees)
    if model.kind in _BOOSTED or model.kind.endswith("RegressionModel"):
        return weight * np.array([[decimal_number(node["prediction"])] for node in nodes])
    counts = np.array([node["impurityStats"] for node in nodes], dtype=np.float64)
    n_classes = _n_classes(model)
    if counts.shape != (len(nodes), n_classes) or not (counts >= 0).all():
        raise ModelFileError(f"nodes of Spark's trees must have counts of {n_classes} classes, got others.")
    return weight * (counts / np.maximum(counts.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny))


def _n_classes(model: Stage) -> int:  # of a classifier, checked
    n_classes = whole_number(model.content.get("numClasses", 2))
    check_size("classes", n_classes, _MAX_CLASSES)
    if n_classes < 2:
        raise UnsupportedModelError("a Spark classifier must have two or more classes, got one; train it on more.")
    return n_classes


def _schema(model: Stage, earlier_stages: list[Stage]) -> Schema:
    """Return a schema with outputs, link and classes; `forest_of` adds the features."""
    if model.kind.endswith("RegressionModel"):
        loss = str(model.parameter("lossType", "squared")) if model.kind in _BOOSTED else "squared"
        return Schema((), objective=loss)
    n_classes = _n_classes(model)
    # Names of classes are the labels of the indexer that made the target.
    _, labels, _ = _indexers(earlier_stages).get(model.parameter("labelCol", "label"), ("", (), False))
    classes: tuple[Hashable, ...] = labels if len(labels) == n_classes else tuple(float(k) for k in range(n_classes))
    link, objective = ("logit", "log") if model.kind in _BOOSTED else ("probability", "brier")
    return Schema((), class_outputs(classes), link, classes=classes, objective=objective)
