"""TreeANOVA: the functional ANOVA of tree ensembles.

`decompose(model, X)` turns a trained ensemble into its intercept, pure main effects and pure interactions under the
density of X: unique, adding up to the model exactly, with a certificate of how pure they are. On the way lie
`read_model(model)`, the ensemble of any supported library in one neutral form, and `purify(scores, weights)`, for those
who have tensors of their own.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treeanova import density, interop, plot
    from treeanova._decompose import decompose, plan
    from treeanova.certificate import Certificate, TermCertificate
    from treeanova.comparison import Comparison, Sensitivity, compare, density_sensitivity
    from treeanova.decomposition import Decomposition, load, mean
    from treeanova.effects import Effects
    from treeanova.errors import (
        ArchiveError,
        BudgetError,
        ModelFileError,
        NotPureError,
        NotPureWarning,
        UnsupportedModelError,
    )
    from treeanova.expand import Plan
    from treeanova.explanation import Explanation
    from treeanova.forest import Forest
    from treeanova.grid import Grid, grid_of
    from treeanova.purification import MethodChoice, Purified, choose_method, purify
    from treeanova.readers import read_model
    from treeanova.report import write_report
    from treeanova.terms import Term

__version__ = "0.1.0"

# Public names and their modules: loaded when first used, so that `import treeanova` stays quick.
_HOMES = {
    "ArchiveError": "errors",
    "BudgetError": "errors",
    "Certificate": "certificate",
    "Comparison": "comparison",
    "Decomposition": "decomposition",
    "Effects": "effects",
    "Explanation": "explanation",
    "Forest": "forest",
    "Grid": "grid",
    "MethodChoice": "purification",
    "ModelFileError": "errors",
    "NotPureError": "errors",
    "NotPureWarning": "errors",
    "Plan": "expand",
    "Purified": "purification",
    "Sensitivity": "comparison",
    "Term": "terms",
    "TermCertificate": "certificate",
    "UnsupportedModelError": "errors",
    "choose_method": "purification",
    "compare": "comparison",
    "decompose": "_decompose",
    "density_sensitivity": "comparison",
    "grid_of": "grid",
    "load": "decomposition",
    "mean": "decomposition",
    "plan": "_decompose",
    "purify": "purification",
    "read_model": "readers",
    "write_report": "report",
}

_MODULES = {"density", "interop", "plot"}

__all__ = [
    "ArchiveError",
    "BudgetError",
    "Certificate",
    "Comparison",
    "Decomposition",
    "Effects",
    "Explanation",
    "Forest",
    "Grid",
    "MethodChoice",
    "ModelFileError",
    "NotPureError",
    "NotPureWarning",
    "Plan",
    "Purified",
    "Sensitivity",
    "Term",
    "TermCertificate",
    "UnsupportedModelError",
    "choose_method",
    "compare",
    "decompose",
    "density",
    "density_sensitivity",
    "grid_of",
    "interop",
    "load",
    "mean",
    "plan",
    "plot",
    "purify",
    "read_model",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """A public name, its module imported on first use."""
    if name in _MODULES:
        return importlib.import_module(f"treeanova.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'treeanova' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"treeanova.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
