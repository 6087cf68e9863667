"""Recalibration: local lines against regressions, strengths against a known truth, smooth effects of a noisy bag."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from treeanova.decomposition.answers import table_weights_of
from treeanova.decomposition.predictions import function_of
from treeanova.decomposition.recalibration import BagTables, local_lines
from treeanova.decomposition.simplify import Members, held_rows

N_BINS = 40


@pytest.mark.parametrize("width", [0.02, 0.3])
def test_local_lines_are_weighted_regressions(width):
    """Against numpy's polynomial fit with the weights of the kernel, place by place."""
    rng = np.random.default_rng(0)
    places, masses, values = np.sort(rng.normal(size=30)), rng.uniform(0.5, 2, 30), rng.normal(size=30)
    ranks = (np.cumsum(masses) - masses / 2) / masses.sum()
    lines = []
    for i in range(30):
        weights = masses * np.exp(-0.5 * ((ranks - ranks[i]) / width) ** 2)
        lines.append(np.polyval(np.polyfit(places, values, 1, w=np.sqrt(weights)), places[i]))
    np.testing.assert_allclose(local_lines(places, masses, width) @ values, lines, rtol=0, atol=1e-8)


def test_local_lines_of_places_that_do_not_differ_are_means():
    np.testing.assert_allclose(local_lines(np.zeros(3), np.ones(3), 100.0), np.full((3, 3), 1 / 3), rtol=1e-4)


def bag_of(tables, members, X, y):
    """Two members with given tables of features a and b, each held out at one half of the rows."""
    thresholds = {name: np.arange(1, N_BINS) / N_BINS for name in tables}
    effects = treeanova.model.Effects.from_tables(tables, thresholds=thresholds)
    fx = treeanova.decompose(effects, X, density="independent")
    held = held_rows(fx.schema, X, y, loss="squared", group=None, sample_weight=None)
    of_row = np.arange(len(y)) % 2
    of_members = {(j,): np.stack([one[name] for one in members])[..., None] for j, name in enumerate(tables)}
    held = held._replace(members=Members(of_members, of_row))
    return BagTables.of(function_of(fx).terms, table_weights_of(fx), held)


def centred(values, codes):
    return values - values[codes].mean()


@pytest.fixture(scope="module")
def truth():
    """Rows of two features with their bins; a smooth effect of a, and a line of b, both with mean zero."""
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(4000, 2))
    codes = np.minimum((X * N_BINS).astype(int), N_BINS - 1)
    middles = (np.arange(N_BINS) + 0.5) / N_BINS
    effects = {"a": centred(np.sin(6 * middles), codes[:, 0]), "b": centred(middles, codes[:, 1])}
    y = effects["a"][codes[:, 0]] + effects["b"][codes[:, 1]] + 0.1 * rng.normal(size=4000)
    return X, codes, effects, y


def test_strengths_find_terms_that_are_too_strong(truth):
    X, codes, effects, y = truth
    strong = {"a": 2 * effects["a"], "b": effects["b"]}
    bag = bag_of(strong, [strong, strong], X, y + 0.1).strengthen()
    after = bag.terms()
    np.testing.assert_allclose(after.effects.terms[0,][:, 0], effects["a"], rtol=0, atol=0.02)
    np.testing.assert_allclose(after.effects.terms[1,][:, 0], effects["b"], rtol=0, atol=0.02)
    assert after.intercept == pytest.approx(0.1, abs=0.02)
    expected = after.intercept[0] + effects["a"][codes[:, 0]] + effects["b"][codes[:, 1]]
    np.testing.assert_allclose(bag.score[:, 0], expected, rtol=0, atol=0.04)


def test_smoothing_removes_noise_and_keeps_terms_pure(truth):
    X, codes, effects, y = truth
    rng = np.random.default_rng(2)
    members = [
        {
            name: centred(values + 0.3 * rng.normal(size=N_BINS), codes[:, j])
            for j, (name, values) in enumerate(effects.items())
        }
        for _ in range(2)
    ]
    mean = {name: np.mean([one[name] for one in members], axis=0) for name in effects}
    before = bag_of(mean, members, X, y)
    after = before.smooth()
    assert after.loss(after.score) < before.loss(before.score)
    for j, name in enumerate(effects):
        smooth = after.terms().effects.terms[j,][:, 0]
        assert np.abs(smooth - effects[name]).mean() < 0.75 * np.abs(mean[name] - effects[name]).mean()
        assert after.tables.weights[j,] @ smooth == pytest.approx(0, abs=1e-12)


def test_steps_that_are_real_are_not_smoothed(truth):
    X, codes, effects, _ = truth
    steps = {"a": centred(np.where(np.arange(N_BINS) % 8 < 4, 1.0, -1.0), codes[:, 0]), "b": effects["b"]}
    y = steps["a"][codes[:, 0]] + steps["b"][codes[:, 1]]
    bag = bag_of(steps, [steps, steps], X, y)
    np.testing.assert_allclose(bag.smooth().terms().effects.terms[0,][:, 0], steps["a"], rtol=0, atol=1e-12)
