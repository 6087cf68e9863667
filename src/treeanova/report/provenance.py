"""Where the numbers of the page come from: model, call, scale, versions."""

from __future__ import annotations

import json
import os
import pathlib
import platform
import sys
from typing import Any

import numpy as np

from treeanova import __version__
from treeanova.decomposition.decomposition import Decomposition
from treeanova.density.reference import Reference
from treeanova.views import look


def model_name(fx: Decomposition) -> str:
    """Name of the model's class or file."""
    if isinstance(fx.model, (str, os.PathLike)):
        return pathlib.Path(fx.model).name
    return "the model" if fx.model is None else type(fx.model).__name__


def call_of(fx: Decomposition) -> str:
    """The call that gives a decomposition like this one."""
    max_order = f", max_order={max(map(len, fx.terms), default=1)}" if fx.scope.leaves_rest else ""
    is_reference = fx.density.name == Reference.name
    density = "treeanova.density.Reference(row)" if is_reference else json.dumps(fx.density.name)
    return f"treeanova.decompose(model, X, density={density}{max_order})"


def scale_words(fx: Decomposition) -> dict[str, Any]:
    """Words for the scale of scores, and for the response where it differs from the score."""
    return {
        "link": fx.link,
        "score": look.scale_of(fx.schema),
        "effect": [look.effect_words(fx.schema, output, fx.baseline) for output in fx.outputs],
        "response": look.response_of(fx.schema),
        "baseline": fx.baseline,
    }


def versions(fx: Decomposition) -> dict[str, str]:
    """Versions of the libraries that made the page, and of the model's library."""
    known = {"numpy": np.__version__, "Python": platform.python_version()}
    return {"treeanova": __version__} | known | _version_of_library(fx.model)


def _version_of_library(model: object) -> dict[str, str]:
    """Name and version of the library that a model comes from, where it has a version."""
    library = type(model).__module__.partition(".")[0]
    version = getattr(sys.modules.get(library), "__version__", None)
    return {} if version is None or library == "treeanova" else {library: str(version)}
