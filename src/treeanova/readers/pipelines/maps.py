"""Which raw column each transformed column comes from, by the classes of the transformers, and the maps between them.

A map is asked for values of numbers and categories; where splits change their sides is found by bisection.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import warnings
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.data.columns import encode, object_column
from treeanova.data.features import Labels, Schema, is_missing
from treeanova.errors import UnsupportedModelError
from treeanova.readers.sklearn import is_sklearn

_LARGEST = int(np.array(np.inf).view(np.int64))
# Floats around a change at which to look for more changes: the nearest ones, and then ever wider.
_NEAR = np.unique(np.concatenate([np.arange(13), 2 ** np.arange(4, 25, 4)]))
_N_QUERIES = 1000  # about the number of floats of a column to ask for at once
_OFFSETS = np.unique(np.concatenate([-_NEAR, _NEAR + 1]))
Questions = Mapping[int, Floats]  # thresholds of splits on columns of the model: where do their sides change?


@dataclasses.dataclass
class RawColumn:
    """What the transformers that see a raw column know of it."""

    labels: dict[Hashable, None] | None = None  # categories that an encoder knows; None for numbers
    as_objects: bool = False  # whether an encoder has seen them in a column of objects (text), not of numbers
    probes: list[float] = dataclasses.field(default_factory=list)  # numbers at which a transformer may jump
    sentinels: list[Hashable] = dataclasses.field(default_factory=list)  # missing to an imputer, besides NaN
    missing: set[str] = dataclasses.field(default_factory=set)  # kinds that transformers know: "None", "NaN"
    may_turn: bool = False  # whether a transformer is known not to be monotone; it then turns at probes only

    def add_labels(self, categories: npt.NDArray[Any]) -> None:
        """Note the categories that an encoder of the column knows."""
        if categories.dtype.kind not in "biufOSU":
            raise refused(
                f"an encoder of dates or of other categories ({categories.dtype}); turn these into text first"
            )
        self.labels = dict.fromkeys([*(self.labels or ()), *categories.tolist()])
        self.missing |= {"None" if label is None else "NaN" for label in self.labels if is_missing(label)}
        self.as_objects |= categories.dtype.kind in "OSU"

    @property
    def null_is_nan(self) -> bool:
        """Whether nulls of files are NaN: the one kind of missing that transformers know, else what pandas reads."""
        if len(self.missing) == 1:
            return "NaN" in self.missing
        if importlib.util.find_spec("pandas") is None:
            return False
        # From version 3 on, pandas makes columns of text in which a missing value is NaN by default.
        return bool(importlib.import_module("pandas").Series(["text"]).dtype != object)


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a column that transformers made comes from."""

    source: int  # the raw column
    is_raw: bool = True  # whether its values are those of the raw column, missing ones perhaps filled
    by_label: bool = False  # whether it is the same for all values that are no known category

    def changed(self, *, by_label: bool = False) -> Origin:
        """Return the origin of a column that a step makes of this one."""
        return Origin(self.source, is_raw=False, by_label=self.by_label or by_label)


@dataclasses.dataclass
class Walk:
    """What a walk through the steps learns of the raw columns, and whether a step is a function of the user."""

    raw: list[RawColumn]
    has_function: bool = False

    def through(self, step: Any, columns: list[Origin]) -> list[Origin]:
        """Return the origins of the columns that a step makes; refuse steps that may combine columns."""
        if step is None or isinstance(step, str):
            return [] if step == "drop" else columns
        if _is_of_category_encoders(type(step)):
            return _origins_after_category_encoder(self, step, columns)
        kinds = [cls.__name__ for cls in type(step).__mro__ if is_sklearn(cls)]
        kind = next((name for name in kinds if name in _RULES), None)
        if kind is None or not is_sklearn(type(step).transform):
            raise refused(f"{type(step).__name__}, of which it is not known that it works column by column")
        return _RULES[kind](self, step, columns)


def refused(what: str) -> UnsupportedModelError:
    """Return the error for a Pipeline with `what`, in words, which cannot be read on raw columns."""
    return UnsupportedModelError(
        f"`model` must see the columns of `X`, or change them one by one, got a Pipeline with {what}; decompose the "
        "final step on the transformed data: decompose(pipeline[-1], pipeline[:-1].transform(X), "
        "feature_names=pipeline[:-1].get_feature_names_out())."
    )


def _origins_after_scaler(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:  # noqa: ARG001
    """Return the origins of the columns that a step makes of these, one of each; rules for other steps do the same."""
    return [column.changed() for column in columns]


def _origins_after_function(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:
    """Note a user's function, of which it is only tried whether it works column by column."""
    if step.func is None:
        return columns
    walk.has_function = True
    return _origins_after_scaler(walk, step, columns)


def _refusing(reason: str) -> Callable[[Walk, Any, list[Origin]], list[Origin]]:
    """Return a rule that refuses a step with a reason."""

    def refuse(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:  # noqa: ARG001
        raise refused(f"{type(step).__name__}, which {reason}")

    return refuse


def _origins_after_imputer(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:
    """Return origins of filled columns, which stay raw, then of indicators of missing values, if the step adds them."""
    _note_sentinel(walk, step.missing_values, columns)
    # Columns that were all missing in training are dropped.
    empty = np.array([not isinstance(value, str) and value != value for value in step.statistics_])  # noqa: PLR0124
    is_kept = ~empty | step.keep_empty_features
    filled = [column for column, keeps in zip(columns, is_kept, strict=True) if keeps]
    indicator = getattr(step, "indicator_", None)
    return filled if indicator is None else filled + _origins_after_indicator(walk, indicator, columns)


def _origins_after_indicator(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:
    """Return origins of columns that say whether a value is missing, of the columns `features_` only."""
    _note_sentinel(walk, step.missing_values, columns)
    return [columns[j].changed(by_label=True) for j in step.features_]


def _origins_after_binning(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:
    """Return origins after KBinsDiscretizer: a column each, or a one-hot column for each bin."""
    if step.encode == "ordinal":
        return _origins_after_scaler(walk, step, columns)
    _check_raw(step, columns)
    _add_jumps(walk, columns, step.bin_edges_)
    repeated = zip(columns, step.n_bins_, strict=True)
    return [column.changed() for column, n_bins in repeated for _ in range(n_bins)]


def _note_sentinel(walk: Walk, sentinel: Any, columns: Sequence[Origin]) -> None:
    """Note what an imputer takes as missing: a label of its raw columns, or a number at which they jump."""
    if isinstance(sentinel, str):
        if not all(column.is_raw for column in columns):
            raise refused("an imputer of values that other steps made")
    elif isinstance(sentinel, (int, float)) and not np.isnan(sentinel):
        _add_jumps(walk, columns, [[float(sentinel)]] * len(columns))
    for column in columns:
        raw = walk.raw[column.source]
        if is_missing(sentinel):
            raw.missing.add("None" if sentinel is None else "NaN")
        else:
            raw.sentinels.append(sentinel)


def _add_jumps(walk: Walk, columns: Sequence[Origin], jumps: Sequence[Iterable[float]]) -> None:
    """Note numbers at which each column may jump, so that the search for changes starts there."""
    for column, numbers in zip(columns, jumps, strict=True):
        if not column.is_raw:
            raise refused("a transformer whose jumps are at numbers that other steps made")
        walk.raw[column.source].probes.extend(float(number) for number in numbers)
        walk.raw[column.source].may_turn = True  # it need not be monotone there


def _check_raw(step: Any, columns: Sequence[Origin]) -> None:
    """Refuse a step on values that other steps made: it would not be known which of them it sees."""
    if not all(column.is_raw for column in columns):
        raise refused(f"{type(step).__name__} of values that other steps made")


def _origins_after_encoder(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:
    """Note the categories of an encoder and return an origin per column, which depends on the category only."""
    _check_raw(step, columns)
    for column, categories in zip(columns, step.categories_, strict=True):
        walk.raw[column.source].add_labels(categories)
    return [column.changed(by_label=True) for column in columns]


def _origins_after_target_encoder(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:
    """Return the origin of each encoded column, once for each class if there are several."""
    encoded = _origins_after_encoder(walk, step, columns)
    n_columns = len(step.classes_) if step.target_type_ == "multiclass" else 1
    return [column for column in encoded for _ in range(n_columns)]


def _origins_after_one_hot(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:
    """Return the origin of each encoded column, once for each of its one-hot columns."""
    encoded = _origins_after_encoder(walk, step, columns)
    sizes = step._n_features_outs  # noqa: SLF001  get_feature_names_out uses it
    return [column for column, size in zip(encoded, sizes, strict=True) for _ in range(size)]


def _is_of_category_encoders(thing: Any) -> bool:  # a class or a method, by the library that defines it
    return bool(thing.__module__.partition(".")[0] == "category_encoders")


def _origins_after_category_encoder(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:
    """Return origins after an encoder of the library category_encoders; refuse those that combine columns."""
    kind = type(step).__name__
    if kind not in _ONE_COLUMN | _SEVERAL_COLUMNS or not _is_of_category_encoders(type(step).transform):
        reason = "combines columns" if kind == "HashingEncoder" else "is not known to work column by column"
        raise refused(f"{kind} of category_encoders, which {reason}")
    if getattr(step, "hierarchy", None) is not None or callable(step.handle_unknown) or callable(step.handle_missing):
        raise refused(f"{kind} with a hierarchy, or with functions for unknown and missing values")
    encoded = set(step.cols)
    origins: dict[Hashable, Origin] = {}
    for name, column in zip(step.feature_names_in_, columns, strict=True):
        if name not in encoded:
            origins[name] = column
            continue
        _check_raw(step, [column])
        walk.raw[column.source].add_labels(_known_categories(step, name))
        outputs_of_column = _mapping_of(step, name).columns if kind in _SEVERAL_COLUMNS else [name]
        origins.update(dict.fromkeys(outputs_of_column, column.changed(by_label=True)))
    outputs = list(step.feature_names_out_)
    if not set(outputs) <= set(origins):
        raise refused(f"{kind} that encodes several columns together")
    return [origins[name] for name in outputs]


def _mapping_of(encoder: Any, name: Hashable) -> Any:
    """Return what an encoder of category_encoders has for a column: a table or dict of its categories."""
    mapping = encoder.mapping
    return mapping[name] if isinstance(mapping, dict) else next(m["mapping"] for m in mapping if m["col"] == name)


def _known_categories(step: Any, name: Hashable) -> npt.NDArray[Any]:
    """Return the categories of a column that an encoder of category_encoders knows, with rare ones that it lumps."""
    table = _mapping_of(getattr(step, "ordinal_encoder", None) or step, name)
    categories = np.asarray(getattr(table, "index", list(table)))
    lumped = [*getattr(step, "min_group_lumping_", {}).get(name, ())]
    return np.array([*categories.tolist(), *lumped], dtype=object) if lumped else categories


def _origins_after_pipeline(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:  # step by step
    for _, inner in step.steps:
        columns = walk.through(inner, columns)
    return columns


def _origins_after_union(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:
    """Return origins of what the transformers of a FeatureUnion make, which all see the same columns."""
    weights = step.transformer_weights or {}
    origins = [_times_weight(walk.through(inner, columns), weights.get(name)) for name, inner in step.transformer_list]
    return [column for origins_of_step in origins for column in origins_of_step]


def _times_weight(columns: list[Origin], weight: float | None) -> list[Origin]:
    """Mark columns as changed if their transformer has a weight, which multiplies them."""
    return columns if weight is None else [column.changed() for column in columns]


def _origins_after_column_transformer(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:
    """Return origins in the order in which a ColumnTransformer puts what its transformers make."""
    weights = step.transformer_weights or {}
    n_columns = max((place.stop for place in step.output_indices_.values()), default=0)
    result: list[Origin | None] = [None] * n_columns
    for name, inner, _ in step.transformers_:
        place = step.output_indices_[name]
        if place.start == place.stop:
            continue
        inputs = [columns[j] for j in step._transformer_to_input_indices[name]]  # noqa: SLF001  no public form
        origins = _times_weight(walk.through(inner, inputs), weights.get(name))
        if len(origins) != place.stop - place.start:
            raise refused(f"{type(inner).__name__}, which makes {place.stop - place.start} columns of {len(inputs)}")
        result[place] = origins
    return [column for column in result if column is not None]


# Encoders of category_encoders that make one column of each, and those that make several.
_ONE_COLUMN = {
    "CatBoostEncoder", "CountEncoder", "GLMMEncoder", "JamesSteinEncoder", "LeaveOneOutEncoder", "MEstimateEncoder",
    "OrdinalEncoder", "QuantileEncoder", "TargetEncoder", "WOEEncoder",
}  # fmt: skip
_SEVERAL_COLUMNS = {
    "BackwardDifferenceEncoder", "BaseNEncoder", "BinaryEncoder", "HelmertEncoder", "OneHotEncoder",
    "PolynomialEncoder", "SumEncoder",
}  # fmt: skip
_SCALERS = "StandardScaler MinMaxScaler RobustScaler MaxAbsScaler QuantileTransformer PowerTransformer Binarizer"
_RULES: dict[str, Callable[[Walk, Any, list[Origin]], list[Origin]]] = {
    **dict.fromkeys(_SCALERS.split(), _origins_after_scaler),
    "KBinsDiscretizer": _origins_after_binning, "FunctionTransformer": _origins_after_function,
    "SimpleImputer": _origins_after_imputer, "MissingIndicator": _origins_after_indicator,
    "OrdinalEncoder": _origins_after_encoder, "TargetEncoder": _origins_after_target_encoder,
    "OneHotEncoder": _origins_after_one_hot, "Pipeline": _origins_after_pipeline,
    "FeatureUnion": _origins_after_union, "ColumnTransformer": _origins_after_column_transformer,
    "SelectorMixin": lambda _, step, columns: [columns[j] for j in step.get_support(indices=True)],
    **dict.fromkeys(("PCA", "TruncatedSVD", "PolynomialFeatures"), _refusing("combines columns")),
    **dict.fromkeys(("IterativeImputer", "KNNImputer"), _refusing("fills a column from other columns")),
    "Normalizer": _refusing("divides each row by its length"),
    "SplineTransformer": _refusing("makes smooth curves of a column, which are not monotone"),
}  # fmt: skip
Queries = Mapping[int, npt.NDArray[Any]]


@dataclasses.dataclass(frozen=True)
class Answer:
    """Encoded values of all of the model's columns, one row per query, and which queries are refused."""

    values: Floats
    refused: Bools


class Transformation:
    """The transformers of a pipeline, one after the other, and the encoders of its model.

    `names` are those of the raw columns, None if the pipeline was trained on a matrix; `usual` has for each raw column
    an array with one value that the transformers accept. Missing and unseen values are let through to the model.
    """

    def __init__(
        self, steps: Sequence[Any], schema: Schema, names: Sequence[str] | None, usual: Sequence[npt.NDArray[Any]]
    ) -> None:
        features = tuple(dataclasses.replace(f, accepts_missing=True, accepts_unseen=True) for f in schema.features)
        self._schema = dataclasses.replace(schema, features=features)
        self._steps, self._names, self._usual = steps, names, usual
        self.last_error: Exception | None = None

    def answers(self, queries: Queries) -> dict[int, Answer]:
        """Return what the model compares for values of raw columns, by column; one call transforms all at once."""
        if not queries:
            return {}
        n_rows = max(len(values) for values in queries.values())
        padded = {
            j: np.concatenate([values, np.repeat(self._usual[j], n_rows - len(values))])
            for j, values in queries.items()
        }
        encoded = self._encoded(padded, n_rows)
        if encoded is not None:
            return {j: Answer(encoded[: len(v)], np.zeros(len(v), bool)) for j, v in queries.items()}
        answers = {}
        for j, values in queries.items():  # numbers in order, so refused ones are next to each other
            order = np.arange(len(values)) if values.dtype == object else np.argsort(values)
            answer, rank = self._answer(j, values[order]), np.argsort(order)
            answers[j] = Answer(answer.values[rank], answer.refused[rank])
        return answers

    def _answer(self, j: int, values: npt.NDArray[Any]) -> Answer:
        """Answer for values of one column; halve them until those that the transformers refuse are apart."""
        encoded = self._encoded({j: values}, len(values))
        if encoded is not None:
            return Answer(encoded, np.zeros(len(values), bool))
        if len(values) == 1 or self._are_refused(j, values):
            return Answer(np.full((len(values), len(self._schema.features)), np.nan), np.ones(len(values), bool))
        half = len(values) // 2
        low, high = self._answer(j, values[:half]), self._answer(j, values[half:])
        return Answer(np.concatenate([low.values, high.values]), np.concatenate([low.refused, high.refused]))

    def _are_refused(self, j: int, values: npt.NDArray[Any]) -> bool:
        """Whether all of many ordered numbers are refused, judged by five of them, including the first and the last."""
        if values.dtype == object or len(values) < 16:
            return False
        tried = values[np.linspace(0, len(values) - 1, 5).astype(np.int64)]
        return all(self._encoded({j: tried[i : i + 1]}, 1) is None for i in range(len(tried)))

    def _encoded(self, columns: Queries, n_rows: int) -> Floats | None:
        """Return what the model compares, shape (rows, features); None if a step refuses the rows."""
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
        """Return rows with these columns, a usual value in all others, as the pipeline was trained on."""
        all_columns = [columns[j] if j in columns else np.repeat(value, n_rows) for j, value in enumerate(self._usual)]
        if self._names is not None:
            frames = importlib.import_module("pandas")
            # With its type given, pandas keeps None in a column of objects.
            series = [frames.Series(column, dtype=column.dtype) for column in all_columns]
            return frames.DataFrame(dict(zip(self._names, series, strict=True)))
        if all(column.dtype.kind == "f" for column in all_columns):
            return np.stack(all_columns, axis=1)
        matrix = np.empty((n_rows, len(all_columns)), dtype=object)
        for j, column in enumerate(all_columns):
            matrix[:, j] = column
        return matrix


@dataclasses.dataclass(frozen=True)
class CategoryMap:
    """What the model compares for each category of a raw column."""

    encoder: Labels
    values: Floats  # encoded, of all of the model's columns, one row per category and a last one for unseen ones
    missing: Floats  # the same for NaN
    accepts_unseen: bool  # by the transformers
    accepts_missing: bool


def is_numeric(labels: Sequence[Hashable]) -> bool:  # whether all categories are numbers
    return all(isinstance(label, (int, float)) for label in labels)


def _meaning_of_none(answer: Answer, model_columns: Ints) -> str:
    """Return the field `none` of `Labels` by the last two answers, those for NaN and None: what None means."""
    nan_is_refused, none_is_refused = answer.refused[-2:]
    if none_is_refused:
        return "missing" if nan_is_refused else "refused"
    nan, none = answer.values[-2:, model_columns]
    return "missing" if not nan_is_refused and np.array_equal(nan, none, equal_nan=True) else "category"


def category_maps(
    transformation: Transformation,
    labels: Mapping[int, Sequence[Hashable]],
    as_objects: Container[int],
    model_columns: Mapping[int, Ints],
    nan_nulls: Container[int],
) -> dict[int, CategoryMap]:
    """Try each label of raw columns, an unseen one, NaN and, in columns of objects, None; return maps by column."""
    # `model_columns` has those that are made of each raw column; in columns of `nan_nulls`, nulls of files are NaN.
    queries: dict[int, npt.NDArray[Any]] = {}
    for j, names in labels.items():
        unseen = max(names, default=0) + 1 if is_numeric(names) else "no such category"  # type: ignore[type-var, operator]
        while isinstance(unseen, str) and unseen in names:
            unseen += "!"
        tokens = [*names, unseen, np.nan]
        queries[j] = object_column([*tokens, None]) if j in as_objects else np.array(tokens, dtype=np.float64)
    answers = transformation.answers(queries)
    result: dict[int, CategoryMap] = {}
    for j, names in labels.items():
        end, values, is_refused = len(names), answers[j].values, answers[j].refused  # then unseen, NaN, None
        rows, none = [*range(end), end], "category" if None in names else "missing"
        if None not in names and j in as_objects:
            none = _meaning_of_none(answers[j], model_columns[j])
        if none == "category" and None not in names:  # None becomes the last category; the unseen row stays last
            rows, names = [*range(end), end + 2, end], [*names, None]
        encoder = Labels(tuple(names), none=none, refuses_na=True, null_is_nan=j in nan_nulls)
        result[j] = CategoryMap(encoder, values[rows], values[end + 1], not is_refused[end], not is_refused[end + 1])
    return result


def float_ranks(numbers: Floats) -> Ints:
    """Return the ranks of numbers among all floats, from their bits; 0 for zero, neighbours differ by 1."""
    bits = np.abs(numbers).view(np.int64)
    return np.where(numbers < 0, -bits, bits)


def floats_at(positions: Ints) -> Floats:
    """Return the floats at these ranks; reverses `float_ranks`."""
    return np.copysign(np.abs(positions).view(np.float64), positions)


@dataclasses.dataclass
class Changes:
    """Ranks x such that the sides at x and at the next float may differ, while they are searched for."""

    low: Ints  # below x, or x itself
    high: Ints  # above x
    model_column: Ints  # the model's column whose value is compared
    threshold: Floats  # what it is compared with; NaN asks for changes between numbers, missing values and refusals
    side: Ints  # the side at `low`

    def inner(self) -> Ints:
        """Return ranks that divide each range evenly, shape (n_changes, n_ranks): the more, the fewer changes."""
        n_ranks = min(max(_N_QUERIES // len(self.low), 1), 31)
        # Ranges lie between neighbouring probes, so that the products are far below the largest integer.
        steps = (self.high - self.low)[:, None] * np.arange(1, n_ranks + 1) // (n_ranks + 1)
        return self.low[:, None] + steps

    def narrow(self, inner: Ints, answer: Answer) -> None:
        """Move `low` and `high` to the two of the inner ranks between which the side changes first."""
        n_ranks = inner.shape[1]
        sides = _sides(answer, np.repeat(self.model_column, n_ranks), np.repeat(self.threshold, n_ranks))
        differs = sides.reshape(inner.shape) != self.side[:, None]
        first = np.where(differs.any(axis=1), differs.argmax(axis=1), n_ranks)
        path = np.column_stack([self.low, inner, self.high])
        rows = np.arange(len(path))
        self.low, self.high = path[rows, first], path[rows, first + 1]


_NO_INTS = np.empty(0, dtype=np.int64)
_NO_CHANGES = Changes(_NO_INTS, _NO_INTS, _NO_INTS, np.empty(0), _NO_INTS)
_ASKS_KIND = np.array([np.nan])  # the threshold that asks for changes between numbers, missing values and refusals


def _sides(answer: Answer, model_column: Ints, threshold: Floats) -> Ints:
    """Return the side of each answer: 1 up to the threshold, else 0; for NaN 1 if missing, 2 if refused, else 0."""
    values = answer.values[np.arange(len(model_column)), model_column]
    kind = np.where(answer.refused, 2, np.isnan(values))
    return np.where(np.isnan(threshold), kind, values <= threshold)


def breakpoints(
    transformation: Transformation, raw: Mapping[int, RawColumn], questions: Mapping[int, Questions]
) -> dict[int, Floats]:
    """Return for each raw column closed upper ends of the intervals on which no split changes its side."""
    # The last end is the largest number that the transformers accept, perhaps infinity.
    infinite = transformation.answers(dict.fromkeys(questions, np.array([-np.inf, np.inf])))
    # Ranks of the lowest and highest number to try: the infinities, or the floats next to them if these are refused.
    ends = {j: np.array([-_LARGEST, _LARGEST]) + infinite[j].refused * np.array([1, -1]) for j in questions}
    probes = {j: _probes(raw[j], ends[j]) for j in questions}
    # First where numbers become missing or are refused, so that sides are compared between numbers only.
    kinds = _changes(transformation, probes, {j: dict.fromkeys(questions[j], _ASKS_KIND) for j in questions})
    _bisect(transformation, kinds)
    probes = {j: np.unique(np.concatenate([probes[j], kinds[j].low, kinds[j].high])) for j in questions}
    sides = _changes(transformation, probes, questions, raw)
    _bisect(transformation, sides)
    sides = _changes_nearby(transformation, sides, ends)
    _bisect(transformation, sides)
    positions = {j: np.concatenate([kinds[j].low, sides[j].low, ends[j][1:]]) for j in questions}
    return {j: floats_at(np.unique(ranks)) for j, ranks in positions.items()}


def _changes(
    transformation: Transformation,
    probes: Mapping[int, Ints],
    questions: Mapping[int, Questions],
    raw: Mapping[int, RawColumn] | None = None,
) -> dict[int, Changes]:
    """Return where answers to questions change between neighbouring probes (ranks of floats), by raw column."""
    # Columns of `raw` are refused unless their maps are monotone at the probes.
    answers = transformation.answers({j: floats_at(probes[j]) for j in questions})
    for j in raw or ():
        for model_column in questions[j]:
            values = answers[j].values[~answers[j].refused, model_column]
            values = values[~np.isnan(values)]
            is_monotone = (values[1:] >= values[:-1]).all() or (values[1:] <= values[:-1]).all()
            if not is_monotone and not raw[j].may_turn:  # type: ignore[index]
                raise refused("a function that is neither increasing nor decreasing")
    return {j: _changes_at_probes(probes[j], answers[j], asked) for j, asked in questions.items()}


def _probes(raw: RawColumn, ends: Ints) -> Ints:
    """Return ranks of floats to try first: numbers of all sizes, and those around jumps, between the ends (ranks)."""
    all_sizes = (np.linspace(-1, 1, 515)[1:-1] * _LARGEST).astype(np.int64)
    small = float_ranks(np.concatenate([[0.0, 5e-324, 1e-35], np.logspace(-12, 12, 97)]))
    jumps = float_ranks(np.array([number for number in raw.probes if np.isfinite(number)], dtype=np.float64))
    inner = np.concatenate([all_sizes, small, -small, jumps - 1, jumps, jumps + 1])
    return np.unique(np.concatenate([ends, np.clip(inner, *ends)]))


def _changes_at_probes(probes: Ints, answer: Answer, questions: Questions) -> Changes:
    """Return where the answer to a question changes between neighbouring probes (ranks); `answer` has their values."""
    # Questions are thresholds by model column: is its value up to it? NaN asks where numbers become missing or refused.
    changes = [_NO_CHANGES]
    for column, thresholds in questions.items():
        model_column = np.full(len(probes), column)
        is_number = _sides(answer, model_column, np.full(len(probes), np.nan)) == 0
        for threshold in thresholds:
            sides = _sides(answer, model_column, np.full(len(probes), threshold))
            comparable = np.isnan(threshold) | (is_number[1:] & is_number[:-1])
            at = np.flatnonzero((sides[1:] != sides[:-1]) & comparable)  # positions of the probes before changes
            changes.append(
                Changes(probes[at], probes[at + 1], model_column[at], np.full(len(at), threshold), sides[at])
            )
    names = [field.name for field in dataclasses.fields(Changes)]
    return Changes(
        **{name: np.concatenate([getattr(at_threshold, name) for at_threshold in changes]) for name in names}
    )


def _bisect(transformation: Transformation, changes: Mapping[int, Changes]) -> None:
    """Narrow all changes until `low` and `high` are neighbouring floats."""
    while any((change.high - change.low > 1).any() for change in changes.values()):
        inner = {j: change.inner() for j, change in changes.items() if len(change.low)}
        answers = transformation.answers({j: floats_at(ranks.ravel()) for j, ranks in inner.items()})
        for j, ranks in inner.items():
            changes[j].narrow(ranks, answers[j])


def _changes_nearby(
    transformation: Transformation, changes: Mapping[int, Changes], ends: Mapping[int, Ints]
) -> dict[int, Changes]:
    """Return all changes among the floats around each change, of which rounding may cause several."""
    # A window has the ranks to try around one change; `ends` clip it to the ranks that are allowed.
    around = {j: np.clip(change.low[:, None] + _OFFSETS, *ends[j]) for j, change in changes.items() if len(change.low)}
    answers = transformation.answers({j: floats_at(window.ravel()) for j, window in around.items()})
    result = dict(changes)
    for j, window in around.items():
        change = changes[j]
        model_column = np.repeat(change.model_column, len(_OFFSETS))
        threshold = np.repeat(change.threshold, len(_OFFSETS))
        sides = _sides(answers[j], model_column, threshold).reshape(window.shape)
        is_number = (_sides(answers[j], model_column, np.full(len(model_column), np.nan)) == 0).reshape(window.shape)
        differs = (sides[:, 1:] != sides[:, :-1]) & is_number[:, 1:] & is_number[:, :-1]
        row, at = np.nonzero(differs & (window[:, 1:] > window[:, :-1]))
        low, high = window[row, at], window[row, at + 1]
        result[j] = Changes(low, high, change.model_column[row], change.threshold[row], sides[row, at])
    return result


def fill_refused(left: Bools, is_refused: Bools) -> Bools:
    """Give numbers that transformers refuse the side of the next accepted one; `left` has shape (kinds, numbers)."""
    if not is_refused.any() or is_refused.all():
        return left
    accepted = np.flatnonzero(~is_refused)
    nearest = accepted[np.minimum(np.searchsorted(accepted, np.arange(len(is_refused))), len(accepted) - 1)]
    return left[..., nearest]
