"""Seeds, and hypothesis strategies: tensors with weights of all the kinds that make purification hard."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st

from treeanova.core.arrays import Floats

SEEDS = st.integers(0, 2**32 - 1)
KINDS = ("dense", "heavy", "correlated", "sparse", "blocks", "unseen", "counts")


def seeds(n: int, *, quick: int) -> list[Any]:
    """Seeds to parametrize a test by: those after the first few are for the thorough profile."""
    return [seed if seed < quick else pytest.param(seed, marks=pytest.mark.thorough) for seed in range(n)]


class Problem(NamedTuple):
    """Scores and weights over the same cells."""

    scores: Floats
    weights: Floats


def random_weights(kind: str, sizes: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Weights of one of the KINDS, with some mass."""
    weights = rng.gamma(2.0, size=sizes)
    place = np.indices(sizes) / np.maximum(np.array(sizes) - 1, 1).reshape(-1, *[1] * len(sizes))
    if kind == "heavy":
        weights = weights ** rng.uniform(3, 6)
    elif kind == "correlated":
        weights = weights * np.exp(-rng.uniform(1, 12) * ((place - place.mean(axis=0)) ** 2).sum(axis=0))
    elif kind == "sparse":
        weights = weights * (rng.random(sizes) < rng.uniform(0.15, 0.8))
    elif kind == "blocks":
        cut = rng.uniform(0.2, 0.8)
        weights = weights * ((place > cut) == (place[:1] > cut)).all(axis=0)
    elif kind == "unseen":
        weights = weights * (rng.random(sizes) < 0.8)
        for axis, size in enumerate(sizes):
            weights[(slice(None),) * axis + (rng.random(size) < 0.3,)] = 0.0
    elif kind == "counts":
        weights = np.floor(weights * rng.uniform(0.1, 2))
    if not weights.any():
        weights[(0,) * len(sizes)] = 1.0
    return weights


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    orders: tuple[int, int] = (1, 3),
    max_bins: int = 5,
    kinds: tuple[str, ...] = KINDS,
    n_outputs: int = 0,
) -> Problem:
    """Random scores and weights; with n_outputs > 0 the scores have a last axis of outputs."""
    sizes = tuple(draw(st.lists(st.integers(1, max_bins), min_size=orders[0], max_size=orders[1])))
    kind = draw(st.sampled_from(kinds))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = 10.0 ** draw(st.integers(-3, 3))
    shape = (*sizes, n_outputs) if n_outputs else sizes
    scores = rng.normal(draw(st.sampled_from([0.0, 5.0])), 1.0, size=shape) * scale
    return Problem(scores, random_weights(kind, sizes, rng))
