"""write_report(): one self-contained HTML page of a decomposition, to open anywhere and to send on.

The page holds aggregates only (tables of terms, shares of rows), single rows only where asked for. It asks the network
for nothing; its content-security policy allows our scripts by their hashes alone; names are only ever set as text.
Specifications for Vega-Lite are made in the page, since they depend on what the reader has chosen there.
"""

from __future__ import annotations

from treeanova.report.page import write_report

__all__ = ["write_report"]
