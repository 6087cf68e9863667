"""Terms of all orders together: what is taken out of one goes to the terms below, also onto finer axes."""

from __future__ import annotations

import numpy as np

from treeanova import purify
from treeanova.anova.purification import Options, cascade
from treeanova.anova.slices import marginal

SIZES = (6, 4)  # bins of the main effects
COARSE = (3, 2)  # bins of their pair: every two bins are one


def coarse_pair_and_fine_mains():
    """A pair on coarse bins, main effects on fine ones, and weights that are even within coarse bins."""
    rng = np.random.default_rng(0)
    pair, mains = rng.normal(size=COARSE), [rng.normal(size=size) for size in SIZES]
    coarse_weights = rng.random(COARSE)
    coarse_weights /= coarse_weights.sum()
    shares = [rng.random(size) for size in SIZES]
    for share in shares:
        share /= np.repeat(share.reshape(-1, 2).sum(axis=1), 2)
    weights = on_fine_bins(coarse_weights) * np.multiply.outer(*shares)
    return pair, mains, coarse_weights, weights


def on_fine_bins(pair):
    return np.repeat(np.repeat(pair, 2, axis=0), 2, axis=1)


def test_faces_widen_onto_the_axes_of_the_terms_below():
    pair, mains, coarse_weights, weights = coarse_pair_and_fine_mains()
    tables = {(0, 1): coarse_weights, (0,): marginal(weights, [0]), (1,): marginal(weights, [1])}
    raw = {(0, 1): pair[None], (0,): mains[0][None], (1,): mains[1][None]}
    calls = []

    def widen(above, below, face):
        calls.append((above, below, face.shape))
        return np.repeat(face, 2, axis=1)

    result = cascade(raw, tables.__getitem__, Options(), widen=widen)
    whole = purify(on_fine_bins(pair) + mains[0][:, None] + mains[1], weights)
    np.testing.assert_allclose(on_fine_bins(result.terms[0, 1][0]), whole.terms[0, 1], atol=1e-13)
    for axis in range(2):
        np.testing.assert_allclose(result.terms[axis,][0], whole.terms[axis,], atol=1e-13)
    np.testing.assert_allclose(result.intercept, whole.intercept, atol=1e-13)
    assert sorted(calls) == [((0, 1), (0,), (1, 3)), ((0, 1), (1,), (1, 2))]


def test_a_term_below_that_has_no_scores_takes_the_widened_face():
    pair, _, coarse_weights, weights = coarse_pair_and_fine_mains()
    tables = {(0, 1): coarse_weights, (0,): marginal(weights, [0]), (1,): marginal(weights, [1])}
    result = cascade(
        {(0, 1): pair[None]},
        tables.__getitem__,
        Options(),
        widen=lambda above, below, face: np.repeat(face, 2, axis=1),
    )
    whole = purify(on_fine_bins(pair), weights)
    for axis in range(2):
        np.testing.assert_allclose(result.terms[axis,][0], whole.terms[axis,], atol=1e-13)
