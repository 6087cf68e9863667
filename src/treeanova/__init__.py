"""TreeANOVA: the functional ANOVA of tree ensembles.

`decompose(model, X)` turns a trained ensemble into its intercept, pure main effects and pure interactions under the
density of X: unique, adding up to the model exactly, with a certificate of how pure they are. `read_model(model)`
gives the ensemble of any supported library in one neutral form, and `purify(scores, weights)` purifies a tensor.
"""

from __future__ import annotations

import ast
import importlib
import pathlib
from typing import Any

__version__ = "0.1.0"


def _public_names() -> dict[str, str]:
    """Public names and their modules, from the imports of `__init__.pyi`: the one list that there is."""
    source = pathlib.Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    imports = (node for node in ast.parse(source).body if isinstance(node, ast.ImportFrom))
    return {alias.name: str(node.module) for node in imports for alias in node.names}


# Modules are loaded when a name is first used, so that `import treeanova` stays quick.
_HOMES = _public_names()
__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    """A public name, its module imported on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'treeanova' has no attribute {name!r}")
    home = _HOMES[name]
    if home == __name__:
        return importlib.import_module(f"treeanova.{name}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
