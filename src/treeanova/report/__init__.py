"""write_report(): one self-contained, shareable HTML page of a decomposition.

The page holds aggregates, and single rows only if asked for. It makes no network request; its content-security policy
allows our scripts only, by their hashes; names are set as text only. The page itself makes its Vega-Lite
specifications, because they depend on what its reader chooses.
"""

from __future__ import annotations

from treeanova.report.card import write_card
from treeanova.report.page import write_report

__all__ = ["write_card", "write_report"]
