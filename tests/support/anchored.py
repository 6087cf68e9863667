"""Anchored terms by their definition, from predictions at rows that are mixed with a reference."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from treeanova.core.arrays import Floats


def anchored_term(
    predict: Callable[[Floats], Floats], rows: Floats, reference: Floats, features: Sequence[int]
) -> Floats:
    """Σ over subsets s of some features of (-1)^(|features| - |s|) F(rows in s, the reference elsewhere)."""
    total = np.zeros_like(predict(rows))
    for n in range(len(features) + 1):
        for chosen in itertools.combinations(features, n):
            mixed = np.repeat(np.asarray(reference)[None], len(rows), axis=0)
            mixed[:, list(chosen)] = rows[:, list(chosen)]
            total += (-1.0) ** (len(features) - n) * predict(mixed)
    return total
