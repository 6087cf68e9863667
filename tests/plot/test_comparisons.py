from __future__ import annotations

import numpy as np
import pytest

import treeanova

pytest.importorskip("matplotlib")
pytest.importorskip("pandas")
plt = pytest.importorskip("matplotlib.pyplot")
xgboost = pytest.importorskip("xgboost")

from tests.support.drawings import heat_map, step_curves, tick_places  # noqa: E402
from tests.support.tables import COLOURS, mixed_response, mixed_table  # noqa: E402
from tests.support.training import fit  # noqa: E402
from treeanova import plot  # noqa: E402

X = mixed_table()


def test_compare_draws_each_main_effect(fx):
    ax = plot.compare({"raw": fx.raw, "pure": fx}, "age")
    raw, pure = (patch.get_data().values for patch in step_curves(ax))
    n_intervals = fx.terms["age"].axes[0].n_regular
    np.testing.assert_array_equal(pure, fx.terms["age"].values[:n_intervals])
    expected = fx.raw.terms["age"].values[:n_intervals] if ("age",) in fx.raw.terms else np.zeros(n_intervals)
    np.testing.assert_array_equal(raw, expected)
    assert [text.get_text().partition(":")[0] for text in ax.get_legend().get_texts()] == ["raw", "pure"]


def test_compare_draws_categories_side_by_side_and_lacking_terms_at_zero(fx):
    ax = plot.compare([fx.drop("colour"), fx.with_density("uniform"), fx], "colour")
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names[0].endswith(": no such term")
    assert names[1:] == ["uniform", "empirical (2)"]
    groups = [c for c in ax.containers if c.get_label() != "_data"]
    first = next(i for i, name in enumerate(tick_places(ax, "y")) if name.startswith("red"))
    red = COLOURS.index("red")
    heights = [group.patches[first].get_width() for group in groups]
    uniform = fx.with_density("uniform").terms["colour"].values
    assert heights == pytest.approx([0, uniform[red], fx.terms["colour"].values[red]])
    tops = [group.patches[first].get_y() for group in groups]
    assert tops == sorted(tops)


def test_compare_of_models_with_other_bins(fx, tailed, three):
    other = xgboost.XGBRegressor(n_estimators=10, max_depth=2, enable_categorical=True, n_jobs=1)
    other = treeanova.decompose(fit(other, X, -mixed_response(X)), X, density="empirical", n_jobs=1)
    ax = plot.compare({"a": fx, "b": other}, "age")
    for patch, one in zip(step_curves(ax), (fx, other), strict=True):
        values, edges, _ = patch.get_data()
        np.testing.assert_array_equal(edges[1:-1], one.terms["age"].axes[0].thresholds)
        np.testing.assert_array_equal(values, one.terms["age"].values[: len(values)])
    with pytest.raises(
        ValueError, match=r"same outputs and link, got score \(identity\) and low, mid, top \(softmax\)"
    ):
        plot.compare([fx, three], "a")


def test_compare_of_pairs_has_one_scale(fx):
    axes = plot.compare({"raw": fx.raw, "pure": fx}, ("size", "age"))
    assert axes.shape == (2,)
    assert [ax.get_title() for ax in axes] == ["raw", "pure"]
    first, second = map(heat_map, axes)
    assert first.norm.vmax == second.norm.vmax == -first.norm.vmin
    term = fx.raw.terms["size", "age"]
    n_up, n_across = term.axes[1].n_regular, term.axes[0].n_regular
    np.testing.assert_array_equal(first.get_array().data[:n_up, :n_across], term.values.T[:n_up, :n_across])
    assert axes[0].get_xlim() == axes[1].get_xlim()
    _, given = plt.subplots(1, 2)
    assert list(plot.compare([fx.raw, fx], ("size", "age"), ax=given)) == list(given)
    assert [ax.get_title() for ax in given] == ["raw", "empirical"]
