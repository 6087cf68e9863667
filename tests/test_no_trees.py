"""Models without trees, and models whose trees have no splits: the intercept is all there is."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support.forests import chains

DATA = np.random.default_rng(0).normal(size=(60, 3))
FORESTS = {"no trees": chains(), "trees without splits": chains((), ())}


@pytest.fixture(params=FORESTS)
def forest(request):
    return FORESTS[request.param]


@pytest.mark.parametrize("density", ["auto", "empirical", "uniform"])
def test_the_intercept_is_the_score(forest, density, tmp_path):
    fx = treeanova.decompose(forest, DATA, density=density)
    assert not fx.terms
    np.testing.assert_array_equal(fx.decision_function(DATA), np.full(60, fx.intercept))
    assert fx.certificate.is_pure
    assert not len(fx.importance())
    assert fx.explain(DATA).shap_values().shape == (60, 3)
    fx.save(tmp_path / "constant.tav")
    assert treeanova.load(tmp_path / "constant.tav").intercept == fx.intercept


def test_answers_about_no_terms(forest):
    fx = treeanova.decompose(forest, DATA)
    assert "gap +0," in str(fx.gap(DATA, DATA[:, 0] > 0))
    assert (fx - fx).intercept == 0
    assert "0 terms" in str(fx.raw)
    table = fx.validate(DATA, DATA[:, 0], loss="squared").table
    assert list(table)[:3] == ["term", "order", "loss_change"]
    assert len(table) == 0


def test_waterfall_of_no_terms(forest):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    ax = treeanova.plot.waterfall(treeanova.decompose(forest, DATA), DATA[:1])
    assert not ax.patches
    pyplot.close(ax.figure)
