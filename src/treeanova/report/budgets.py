"""How many bins tables may have such that the page stays small."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

# Numbers on the page, at about seven bytes each.
_MAIN_NUMBERS, _PAIR_NUMBERS = 100_000, 80_000
_MAIN_BINS = (256, 192, 128, 96, 64, 48, 32, 16)
_PAIR_BINS = (64, 48, 40, 32, 24, 16, 12)
_FEWEST_PAIR_BINS = (8, 6, 4)
_ROWS_PER_CELL = 3


def max_main_bins(sizes: Iterable[int], numbers_per_bin: int) -> int:
    """Number of bins to which main effects are merged such that all of them fit."""
    known = list(sizes)
    fitting = (bins for bins in _MAIN_BINS if sum(min(s, bins) for s in known) * numbers_per_bin <= _MAIN_NUMBERS)
    return next(fitting, _MAIN_BINS[-1])


def max_pair_bins(sizes: Sequence[Sequence[int]], numbers_per_cell: int) -> list[int]:
    """Number of bins per side to which each pair is merged such that all fit; the first, the strongest, get most."""

    def cost(size: Sequence[int], bins: int) -> int:
        """Numbers of a pair that is merged to given bins per side."""
        return min(size[0], bins) * min(size[1], bins) * numbers_per_cell

    fitting = (bins for bins in _FEWEST_PAIR_BINS if sum(cost(size, bins) for size in sizes) <= _PAIR_NUMBERS)
    fewest = next(fitting, _FEWEST_PAIR_BINS[-1])
    smallest = [cost(size, fewest) for size in sizes]
    left = _PAIR_NUMBERS - sum(smallest)
    chosen = []
    for size, spent in zip(sizes, smallest, strict=True):
        bins = next((bins for bins in _PAIR_BINS if cost(size, bins) - spent <= left / 3), fewest)
        left -= cost(size, bins) - spent
        chosen.append(bins)
    return chosen


def pair_bins_of_rows(n_rows: int | None) -> int:
    """Number of bins per side of a pair beyond which cells would hold fewer than three rows on average."""
    return _PAIR_BINS[0] if n_rows is None else max(_PAIR_BINS[-1], math.isqrt(n_rows // _ROWS_PER_CELL))
