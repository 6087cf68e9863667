from __future__ import annotations

import itertools

import numpy as np
import pytest

import treeanova
from tests.support.pages import ParsedPage, names_on_page, values_on_page
from tests.support.training import fit
from treeanova.data.columns import columns_of
from treeanova.report import write_report

pytest.importorskip("vl_convert")
ensemble = pytest.importorskip("sklearn.ensemble")


def test_moved_is_the_distance_to_the_raw_term(fx, page):
    data = page.data
    pair = next(term for term in data["terms"] if names_on_page(data, term) == ("a", "b"))
    pure, raw = fx.terms["a", "b"], fx.raw.terms["a", "b"]
    expected = np.sqrt(np.average((pure.values - raw.values) ** 2, weights=pure.weights))
    assert pair["moved"]["auto"] == pytest.approx([expected], rel=1e-5)


def test_three_features_bring_their_strongest_cells():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3))
    model = fit(ensemble.GradientBoostingRegressor(max_depth=3, n_estimators=3, random_state=0), X, (X > 0).all(axis=1))
    fx = treeanova.decompose(model, X, density="empirical")
    data = ParsedPage(write_report(fx)).data
    term = next(term for term in data["terms"] if term["order"] == 3)
    table = columns_of(fx.table(("x0", "x1", "x2")))
    whole = set(
        zip(table["x0"], table["x1"], table["x2"], np.rint(np.array(table["value"]) / data["unit"]), strict=True)
    )
    assert set(zip(*term["cells"], term["values"]["empirical"][0], strict=True)) <= whole
    strength = np.abs(table["value"]) * np.sqrt(table["weight"])
    assert term["n_cells"] == len(strength)
    shown = np.abs(term["values"]["empirical"][0]) * data["unit"] * np.sqrt(np.array(term["rows"]) / 1e6)
    np.testing.assert_allclose(shown, np.sort(strength)[::-1][: len(shown)], atol=data["unit"])


def test_merged_pairs_say_so_and_keep_their_total():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    model = ensemble.HistGradientBoostingRegressor(max_leaf_nodes=4, max_depth=2, max_iter=400, random_state=0)
    fx = treeanova.decompose(fit(model, X, X[:, 0] * X[:, 1]), X)
    data = ParsedPage(write_report(fx)).data
    pair = next(term for term in data["terms"] if term["order"] == 2)
    whole = fx.terms["x0", "x1"]
    assert pair["merged"]
    assert len(pair["rows"]) < whole.weights.size
    assert sum(pair["rows"]) == pytest.approx(1e6, abs=len(pair["rows"]))
    masses = [
        np.bincount(c, minlength=s) / 3000
        for c, s in zip(fx.density.statistics.points().codes.T, fx.grid.sizes, strict=True)
    ]
    groups = [group_of_bins(fx.grid.axes[j], data["axes"][a]) for j, a in enumerate(pair["axes"])]
    shown = values_on_page(pair, "auto").reshape([group.max() + 1 for group in groups]) * data["unit"]
    for i, j in itertools.product((0, 3, 10, 20), (0, 7, 11, 19)):
        block = np.ix_(groups[0] == i, groups[1] == j)
        weights = np.multiply.outer(masses[0][groups[0] == i], masses[1][groups[1] == j])
        assert shown[i, j] == pytest.approx(np.average(whole.values[block], weights=weights), abs=2 * data["unit"])


def group_of_bins(axis, plain):
    """The group of each bin of an axis, from the bounds on the page; missing values last."""
    bounds = np.array(plain["bounds"])  # of six digits, rounded down
    groups = np.append(np.searchsorted(bounds + 2e-5 * np.abs(bounds), axis.thresholds), len(bounds))
    return np.append(groups, groups[-1] + 1) if axis.size > axis.n_regular else groups
