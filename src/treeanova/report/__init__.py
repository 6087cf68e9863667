"""write_report(): one self-contained HTML page of a decomposition, to open anywhere and to send on.

The page holds aggregates (tables of terms, shares of rows), and single rows only where asked for. It makes no network
request; its content-security policy allows our scripts only, by their hashes; names are set as text only.
Specifications for Vega-Lite are made in the page, since they depend on what the reader has chosen there.
"""

from __future__ import annotations

from treeanova.report.page import write_report

__all__ = ["write_report"]
