"""Which raw column each transformed column comes from, by the classes of the transformers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.errors import UnsupportedModelError
from treeanova.readers.sklearn import is_sklearn

_ADVICE = (
    "decompose the final step on the transformed data: decompose(pipeline[-1], pipeline[:-1].transform(X), "
    "feature_names=pipeline[:-1].get_feature_names_out())."
)


@dataclasses.dataclass
class RawColumn:
    labels: dict[Hashable, None] | None = None  # categories that an encoder knows; None for numbers
    as_objects: bool = False  # whether an encoder has seen them in a column of objects (text), not of numbers
    probes: list[float] = dataclasses.field(default_factory=list)  # numbers at which a transformer may jump
    sentinels: list[Hashable] = dataclasses.field(default_factory=list)  # missing to an imputer, besides NaN
    may_turn: bool = False  # whether a transformer is known not to be monotone; it then turns at probes only

    def add_labels(self, categories: npt.NDArray[Any]) -> None:
        if categories.dtype.kind not in "biufOSU":
            raise refused(
                f"an encoder of dates or of other categories ({categories.dtype}); turn these into text first"
            )
        self.labels = dict.fromkeys([*(self.labels or ()), *categories.tolist()])
        self.as_objects |= categories.dtype.kind in "OSU"


@dataclasses.dataclass(frozen=True)
class Origin:
    source: int  # the raw column
    is_raw: bool = True  # whether its values are those of the raw column, missing ones perhaps filled
    by_label: bool = False  # whether it is the same for all values that are no known category

    def changed(self, *, by_label: bool = False) -> Origin:
        return Origin(self.source, is_raw=False, by_label=self.by_label or by_label)


@dataclasses.dataclass
class Walk:
    raw: list[RawColumn]
    has_function: bool = False

    def through(self, step: Any, columns: list[Origin]) -> list[Origin]:
        if step is None or isinstance(step, str):
            return [] if step == "drop" else columns
        if _is_of_category_encoders(type(step)):
            return _category_encoder(self, step, columns)
        kinds = [cls.__name__ for cls in type(step).__mro__ if is_sklearn(cls)]
        kind = next((name for name in kinds if name in _RULES), None)
        if kind is None or not is_sklearn(type(step).transform):
            raise refused(f"{type(step).__name__}, of which it is not known that it works column by column")
        return _RULES[kind](self, step, columns)


def refused(what: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"`model` must see the columns of `X`, or change them one by one, got a Pipeline with {what}; {_ADVICE}"
    )


def _one_to_one(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:  # noqa: ARG001
    return [column.changed() for column in columns]


def _function(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:
    if step.func is None:
        return columns
    walk.has_function = True
    return _one_to_one(walk, step, columns)


def _mixing(reason: str) -> Callable[[Walk, Any, list[Origin]], list[Origin]]:
    def refuse(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:  # noqa: ARG001
        raise refused(f"{type(step).__name__}, which {reason}")

    return refuse


def _imputer(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:
    _note_sentinel(walk, step.missing_values, columns)
    statistics = step.statistics_
    empty = np.array([not isinstance(value, str) and value != value for value in statistics])  # noqa: PLR0124
    filled = [
        column for column, is_empty in zip(columns, empty, strict=True) if step.keep_empty_features or not is_empty
    ]
    indicator = getattr(step, "indicator_", None)
    return filled if indicator is None else filled + _indicator(walk, indicator, columns)


def _indicator(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:
    _note_sentinel(walk, step.missing_values, columns)
    return [columns[j].changed(by_label=True) for j in step.features_]


def _bins(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:
    if step.encode == "ordinal":
        return _one_to_one(walk, step, columns)
    _check_raw(step, columns)
    _add_jumps(walk, columns, step.bin_edges_)
    repeated = zip(columns, step.n_bins_, strict=True)
    return [column.changed() for column, n_bins in repeated for _ in range(n_bins)]


def _note_sentinel(walk: Walk, sentinel: Any, columns: Sequence[Origin]) -> None:
    if isinstance(sentinel, str):
        if not all(column.is_raw for column in columns):
            raise refused("an imputer of values that other steps made")
    elif isinstance(sentinel, (int, float)) and not np.isnan(sentinel):
        _add_jumps(walk, columns, [[float(sentinel)]] * len(columns))
    else:
        return
    for column in columns:
        walk.raw[column.source].sentinels.append(sentinel)


def _add_jumps(walk: Walk, columns: Sequence[Origin], jumps: Sequence[Iterable[float]]) -> None:
    for column, numbers in zip(columns, jumps, strict=True):
        if not column.is_raw:
            raise refused("a transformer whose jumps are at numbers that other steps made")
        walk.raw[column.source].probes.extend(float(number) for number in numbers)
        walk.raw[column.source].may_turn = True


def _check_raw(step: Any, columns: Sequence[Origin]) -> None:
    if not all(column.is_raw for column in columns):
        raise refused(f"{type(step).__name__} of values that other steps made")


def _encoder(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:
    _check_raw(step, columns)
    for column, categories in zip(columns, step.categories_, strict=True):
        walk.raw[column.source].add_labels(categories)
    return [column.changed(by_label=True) for column in columns]


def _target_encoder(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:
    encoded = _encoder(walk, step, columns)
    n_columns = len(step.classes_) if step.target_type_ == "multiclass" else 1
    return [column for column in encoded for _ in range(n_columns)]


def _one_hot(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:
    encoded = _encoder(walk, step, columns)
    sizes = step._n_features_outs  # noqa: SLF001  get_feature_names_out uses it
    return [column for column, size in zip(encoded, sizes, strict=True) for _ in range(size)]


def _is_of_category_encoders(thing: Any) -> bool:
    return bool(thing.__module__.partition(".")[0] == "category_encoders")


def _category_encoder(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:
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
    mapping = encoder.mapping
    return mapping[name] if isinstance(mapping, dict) else next(m["mapping"] for m in mapping if m["col"] == name)


def _known_categories(step: Any, name: Hashable) -> npt.NDArray[Any]:
    table = _mapping_of(getattr(step, "ordinal_encoder", None) or step, name)
    categories = np.asarray(getattr(table, "index", list(table)))
    lumped = [*getattr(step, "min_group_lumping_", {}).get(name, ())]
    return np.array([*categories.tolist(), *lumped], dtype=object) if lumped else categories


def _pipeline(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:
    for _, inner in step.steps:
        columns = walk.through(inner, columns)
    return columns


def _union(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:
    weights = step.transformer_weights or {}
    origins = [_weighted(walk.through(inner, columns), weights.get(name)) for name, inner in step.transformer_list]
    return [column for one in origins for column in one]


def _weighted(columns: list[Origin], weight: float | None) -> list[Origin]:
    return columns if weight is None else [column.changed() for column in columns]


def _column_transformer(walk: Walk, step: Any, columns: list[Origin]) -> list[Origin]:
    weights = step.transformer_weights or {}
    n_columns = max((place.stop for place in step.output_indices_.values()), default=0)
    result: list[Origin | None] = [None] * n_columns
    for name, inner, _ in step.transformers_:
        place = step.output_indices_[name]
        if place.start == place.stop:
            continue
        inputs = [columns[j] for j in step._transformer_to_input_indices[name]]  # noqa: SLF001  no public form
        origins = _weighted(walk.through(inner, inputs), weights.get(name))
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
    **dict.fromkeys(_SCALERS.split(), _one_to_one),
    "KBinsDiscretizer": _bins,
    "FunctionTransformer": _function,
    "SimpleImputer": _imputer,
    "MissingIndicator": _indicator,
    "OrdinalEncoder": _encoder,
    "TargetEncoder": _target_encoder,
    "OneHotEncoder": _one_hot,
    "SelectorMixin": lambda _, step, columns: [columns[j] for j in step.get_support(indices=True)],
    "Pipeline": _pipeline,
    "FeatureUnion": _union,
    "ColumnTransformer": _column_transformer,
    **dict.fromkeys(("PCA", "TruncatedSVD", "PolynomialFeatures"), _mixing("combines columns")),
    **dict.fromkeys(("IterativeImputer", "KNNImputer"), _mixing("fills a column from other columns")),
    "Normalizer": _mixing("divides each row by its length"),
    "SplineTransformer": _mixing("makes smooth curves of a column, which are not monotone"),
}
