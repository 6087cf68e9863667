"""plot.monotonicity: a bar for each step, from the smallest to the largest change of the model's predictions."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import treeanova
from tests.support.training import fit
from treeanova import plot

ensemble = pytest.importorskip("sklearn.ensemble")
LEVELS = np.arange(-3.0, 4.0)


@pytest.fixture(scope="module")
def trained():
    """A model that rises in a, and falls or rises in b, and its decomposition; features have seven values."""
    rng = np.random.default_rng(0)
    X = rng.choice(LEVELS, size=(800, 2))
    model = ensemble.HistGradientBoostingRegressor(max_iter=15, max_leaf_nodes=4, monotonic_cst=[1, 0], random_state=0)
    fit(model, X, X[:, 0] + X[:, 1] ** 2 + 0.3 * X[:, 0] * X[:, 1])
    return model, treeanova.decompose(model, X, density="empirical", feature_names=["a", "b"])


def ranges(model, j):
    """Smallest and largest change of predictions from each value of a feature to the next where there is one."""
    cells = np.array(list(itertools.product(LEVELS, LEVELS)))
    changes = np.diff(np.moveaxis(model.predict(cells).reshape(len(LEVELS), -1), j, 0), axis=0)
    return [(row.min(), row.max()) for row in changes if np.abs(row).max() > 1e-9]


def drawn(ax):
    """Ends of the bars by place; bars to both sides of zero are one."""
    found = {}
    for bar in ax.patches:
        place = round(bar.get_x() + bar.get_width() / 2)
        ends = bar.get_y(), bar.get_y() + bar.get_height()
        found[place] = (min(found[place][0], *ends), max(found[place][1], *ends)) if place in found else ends
    return [found[place] for place in sorted(found)]


@pytest.mark.parametrize(("name", "words"), [("a", "a: increasing"), ("b", "b: neither increasing nor decreasing")])
def test_bars_reach_from_the_smallest_to_the_largest_change(trained, name, words):
    model, fx = trained
    ax = plot.monotonicity(fx.monotonicity(name))
    np.testing.assert_allclose(drawn(ax), ranges(model, "ab".index(name)), atol=1e-9)
    assert ax.get_title() == words
    assert len({bar.get_facecolor() for bar in ax.patches}) == (1 if name == "a" else 2)
    assert bool(ax.figure.legends) == (name == "b")


def test_bounds_are_pale_where_ranges_are_not_exact(trained):
    _, fx = trained
    found = fx.monotonicity("a")
    loose = [step._replace(largest=step.largest + 1, is_exact=False) for step in found.all_steps]
    ax = plot.monotonicity(dataclasses.replace(found, all_steps=tuple(loose)))
    n_steps = len(found.all_steps)
    pale, exact = ax.patches[:n_steps], ax.patches[n_steps:]
    assert {bar.get_alpha() for bar in pale} == {0.3}
    for bound, bar in zip(pale, exact, strict=True):
        assert bound.get_height() == pytest.approx(bar.get_height() + 1)


def test_many_steps_have_few_labels_and_none_say_so(trained):
    _, fx = trained
    found = fx.monotonicity("b")
    many = dataclasses.replace(found, all_steps=found.all_steps * 40)
    assert len(plot.monotonicity(many).get_xticklabels()) == 7
    none = plot.monotonicity(dataclasses.replace(found, all_steps=(), direction="constant"))
    assert none.texts[0].get_text() == "one bin: no changes"


def test_other_things_are_refused(trained):
    with pytest.raises(TypeError, match="`monotonicity` must be a Monotonicity, got Decomposition; make one with"):
        plot.monotonicity(trained[1])
