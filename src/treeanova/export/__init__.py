"""A decomposition in the formats of other libraries, databases and languages."""

from __future__ import annotations

from treeanova.export.artifact import Export
from treeanova.export.ebm import ebm
from treeanova.export.onnx import onnx
from treeanova.export.programs import javascript, python
from treeanova.export.scorecard import FactorTable, relativities, scorecard
from treeanova.export.sql import sql
from treeanova.export.verification import Verification, verify

__all__ = [
    "Export",
    "FactorTable",
    "Verification",
    "ebm",
    "javascript",
    "onnx",
    "python",
    "relativities",
    "scorecard",
    "sql",
    "verify",
]
