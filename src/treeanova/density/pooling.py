"""Tables over coarse bins: one `Binning` per feature says which fine bins become one."""

from __future__ import annotations

from collections.abc import Sequence

from treeanova.core.arrays import Floats
from treeanova.model.binning import Binning

Binnings = Sequence[Binning]


def merging(binnings: Binnings | None) -> Binnings | None:
    """The binnings, or None where they merge no bins."""
    return None if binnings is None or all(binning.is_identity for binning in binnings) else binnings


def pool_table(table: Floats, binnings: Binnings | None) -> Floats:
    """A table over fine bins, summed over the fine bins of each coarse bin along every axis."""
    for axis, binning in enumerate(binnings or ()):
        table = binning.pool(table, axis)
    return table


def pool_masses(masses: Sequence[Floats], binnings: Binnings | None) -> list[Floats]:
    """Masses of the bins of some features, summed over the fine bins of each coarse bin."""
    if binnings is None:
        return list(masses)
    return [binning.pool(fine) for binning, fine in zip(binnings, masses, strict=True)]
