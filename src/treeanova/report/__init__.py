"""write_report(): one self-contained, shareable HTML page of a decomposition.

The page holds aggregates (tables of terms, shares of rows), and single rows only where asked for. It makes no network
request; its content-security policy allows our scripts only, by their hashes; names are set as text only.
Specifications for Vega-Lite are made in the page, because they depend on what its reader chooses.
"""

from __future__ import annotations

from treeanova.report.page import write_report

__all__ = ["write_report"]
