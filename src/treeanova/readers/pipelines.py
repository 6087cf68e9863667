"""Pipelines of scikit-learn: the model at their end, on the columns that enter it or on those of the user."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from treeanova.errors import UnsupportedModelError
from treeanova.model.effects import Effects
from treeanova.model.forest import Forest
from treeanova.readers.columnwise import check_agreement, in_raw_columns
from treeanova.readers.columnwise.origins import refused


def is_pipeline(model: Any) -> bool:
    """Whether a model is a Pipeline with steps."""
    return hasattr(model, "named_steps") and bool(getattr(model, "steps", None))


def final_step(model: Any) -> Any:
    """The model at the end of a Pipeline, also of nested ones; a model that is not a Pipeline unchanged."""
    return final_step(model.steps[-1][1]) if is_pipeline(model) else model


def changing_steps(model: Any) -> list[Any]:
    """Steps of a Pipeline, also of nested ones at its end, that may change columns before they enter the model.

    Samplers of imbalanced-learn are left out: they act on training data only.
    """
    if not is_pipeline(model):
        return []
    own = [step for _, step in model.steps[:-1] if step is not None and step != "passthrough"]
    own = [step for step in own if not hasattr(step, "fit_resample")]
    return own + changing_steps(model.steps[-1][1])


def read_in_raw_columns(
    pipeline: Any, read_model: Callable[[Any], Forest | Effects], X: Any = None
) -> Forest | Effects:
    """The model at the end of a Pipeline as a function of the columns that enter the Pipeline.

    Raises UnsupportedModelError if the steps before it do not change columns one by one, as far as can be seen from
    their classes and from rows X, if they are given.
    """
    steps, last = changing_steps(pipeline), final_step(pipeline)
    if not steps:
        return read_model(pipeline)
    _check_model(last)
    content = read_model(last)
    if isinstance(content, Effects):
        raise refused(f"{type(steps[0]).__name__} before an additive model")
    pulled = in_raw_columns(steps, content)
    if X is not None:
        check_agreement(steps, content, pulled, X)
    return pulled


def _check_model(last: Any) -> None:
    if last is None or isinstance(last, str):
        raise UnsupportedModelError(f"the Pipeline must end in a model, got {last!r}; append a fitted one.")


def read_pipeline(pipeline: Any, read_model: Callable[[Any], Forest | Effects]) -> Forest | Effects:
    """The final step of a Pipeline as `read_model` reads it, its features named by the earlier steps."""
    last = pipeline.steps[-1][1]
    _check_model(last)
    content = read_model(last)
    schema, names = content.schema, _names_before_last(pipeline)
    if names is None or len(names) != len(schema.features):
        return content
    features = tuple(dataclasses.replace(f, name=name) for f, name in zip(schema.features, names, strict=True))
    named = schema.named or hasattr(pipeline, "feature_names_in_")
    return content.with_schema(dataclasses.replace(schema, features=features, named=named))


def _names_before_last(pipeline: Any) -> list[str] | None:
    """Names of the columns that enter the final step, None if the earlier steps do not tell."""
    if len(pipeline.steps) == 1:
        return None
    try:
        return [str(name) for name in pipeline[:-1].get_feature_names_out()]
    except (AttributeError, TypeError, ValueError):
        return None
