"""A decomposition in the formats of other libraries."""

from __future__ import annotations

from treeanova.export.ebm import ebm

__all__ = ["ebm"]
