"""A decomposition in the formats of other libraries."""

from __future__ import annotations

import warnings
from typing import Any

from treeanova.export.ebm import ebm

__all__ = ["ebm"]


def __getattr__(name: str) -> Any:
    if name == "to_ebm":
        warnings.warn("to_ebm is now treeanova.export.ebm", DeprecationWarning, stacklevel=2)
        return ebm
    raise AttributeError(f"module 'treeanova.export' has no attribute {name!r}")
