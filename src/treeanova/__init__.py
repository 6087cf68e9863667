"""TreeANOVA: the functional ANOVA of tree ensembles.

`read_model(model)` turns a trained ensemble of any supported library into one neutral form, equal to the library's own
raw prediction for every input. `purify(scores, weights)` splits a tensor into an intercept, pure main effects and pure
interactions: unique for the weights, adding up to the tensor, with a certificate of how pure they are.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treeanova.certificate import Certificate, TermCertificate
    from treeanova.effects import Effects
    from treeanova.errors import ModelFileError, NotPureError, NotPureWarning, UnsupportedModelError
    from treeanova.forest import Forest
    from treeanova.grid import Grid, grid_of
    from treeanova.purification import MethodChoice, Purified, choose_method, purify
    from treeanova.readers import read_model

__version__ = "0.1.0"

# Public names and their modules: loaded when first used, so that `import treeanova` stays quick.
_HOMES = {
    "Certificate": "certificate",
    "Effects": "effects",
    "Forest": "forest",
    "Grid": "grid",
    "MethodChoice": "purification",
    "ModelFileError": "errors",
    "NotPureError": "errors",
    "NotPureWarning": "errors",
    "Purified": "purification",
    "TermCertificate": "certificate",
    "UnsupportedModelError": "errors",
    "choose_method": "purification",
    "grid_of": "grid",
    "purify": "purification",
    "read_model": "readers",
}

__all__ = [
    "Certificate",
    "Effects",
    "Forest",
    "Grid",
    "MethodChoice",
    "ModelFileError",
    "NotPureError",
    "NotPureWarning",
    "Purified",
    "TermCertificate",
    "UnsupportedModelError",
    "choose_method",
    "grid_of",
    "purify",
    "read_model",
]


def __getattr__(name: str) -> Any:
    """A public name, its module imported on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'treeanova' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"treeanova.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
