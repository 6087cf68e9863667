"""simplification(): the line, the band and the ring are the numbers of the path."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import treeanova
from treeanova import plot
from treeanova.model import Effects


@pytest.fixture(scope="module")
def simplification():
    rng = np.random.default_rng(0)
    tables = {f"x{j}": rng.normal(size=4) / (j + 1) for j in range(50)}
    rows = rng.integers(0, 4, size=(600, 50))
    fx = treeanova.decompose(Effects.from_tables(tables), rows, density="empirical")
    return fx.simplify(rows, fx.decision_function(rows) + rng.normal(size=600), loss="squared")


def test_points_band_and_ring_are_numbers_of_the_path(simplification):
    ax = plot.simplification(simplification)
    path = simplification.path
    line, whole, ring = ax.get_lines()
    np.testing.assert_array_equal(line.get_xdata(), path["n_terms"])
    np.testing.assert_allclose(line.get_ydata(), path["loss"])
    assert whole.get_ydata()[0] == simplification.model_loss
    place = list(path["n_terms"]).index(simplification.n_terms)
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (simplification.n_terms, path["loss"][place])
    corners = ax.collections[0].get_paths()[0].vertices
    for n_terms, error in zip(path["n_terms"], path["error"], strict=True):
        heights = corners[corners[:, 0] == n_terms, 1]
        assert heights.min() == pytest.approx(min(path["loss"]))
        assert heights.max() == pytest.approx(min(path["loss"]) + error)


def test_the_chosen_model_is_in_the_frame_and_named(simplification):
    ax = simplification.plot()
    low, high = ax.get_ylim()
    place = list(simplification.path["n_terms"]).index(simplification.n_terms)
    assert low < simplification.path["loss"][place] < high
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert f"chosen: {simplification.n_terms} terms" in words
    assert ax.get_ylabel() == "squared error on held-out rows"


def test_other_results_are_refused():
    with pytest.raises(TypeError, match="simplification"):
        plot.simplification("path")
