"""Way back to other libraries: a pure decomposition as a model of theirs."""

from __future__ import annotations
