"""Pipelines of scikit-learn: the model at their end, and the names of the columns that enter it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from treeanova.errors import UnsupportedModelError
from treeanova.model.effects import Effects
from treeanova.model.forest import Forest


def is_pipeline(model: Any) -> bool:
    """Whether a model is a Pipeline with steps."""
    return hasattr(model, "named_steps") and bool(getattr(model, "steps", None))


def final_step(model: Any) -> Any:
    """The model at the end of a Pipeline, also of nested ones; a model that is not a Pipeline unchanged.

    Raises UnsupportedModelError if earlier steps change columns: rows of the user are then not what the model sees.
    """
    if not is_pipeline(model):
        return model
    changing = [step for _, step in model.steps[:-1] if step is not None and step != "passthrough"]
    if changing:
        raise UnsupportedModelError(
            "`model` must see the columns of `X`, got a Pipeline that changes its columns with "
            f"{type(changing[0]).__name__}; decompose its final step on the transformed data: decompose(pipeline[-1], "
            "pipeline[:-1].transform(X), feature_names=pipeline[:-1].get_feature_names_out())."
        )
    return final_step(model.steps[-1][1])


def read_pipeline(pipeline: Any, read_model: Callable[[Any], Forest | Effects]) -> Forest | Effects:
    """The final step of a Pipeline as `read_model` reads it, its features named by the earlier steps."""
    last = pipeline.steps[-1][1]
    if last is None or isinstance(last, str):
        raise UnsupportedModelError(f"the Pipeline must end in a model, got {last!r}; append a fitted one.")
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
