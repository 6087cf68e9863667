"""Pictures in SVG: drawn numbers against the numbers they stand for."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.support.pages import ParsedPage
from tests.support.training import fit
from treeanova.density.row_sources import statistics_of
from treeanova.report.static import Curve, RowsOf, Span, bar, effect_picture, ticks

pytest.importorskip("sklearn")


def shapes(markup, tag):
    return [attrs for found, attrs in ParsedPage(markup).tags if found == tag]


def test_bars_lie_where_numbers_do():
    span = Span(-1.0, 3.0)
    drawn = bar(span, [("first", 0.0, 1.0), ("second", 1.0, -0.5)], (0.5, 9.0))
    first, second = shapes(drawn, "rect")
    assert (first["x"], first["width"], first["class"]) == ("250.0", "250.0", "first")
    assert (float(second["x"]), float(second["width"])) == (125.0, 375.0)
    zero, mark = shapes(drawn, "line")
    assert zero["x1"] == zero["x2"] == "250.0"
    assert (mark["x1"], mark["x2"]) == ("375.0", "1000.0")  # cut at the end


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.0, 250.0), (1e-7, 4e-7), (-1e6, -9e5)])
def test_ticks_are_round_and_inside(low, high):
    found = ticks(Span(low, high), 5)
    assert 2 <= len(found) <= 6
    assert all(low - 1e-12 <= tick <= high + 1e-12 for tick in found)
    assert len({float(f"{step:.6g}") for step in np.diff(found)}) == 1


def test_steps_are_at_thresholds(fx):
    rows = fx.density.statistics
    term = fx.terms["a"]
    curve = Curve("first", "old", term.axes[0], term.values)
    drawn = effect_picture([curve], [RowsOf("first", "rows", rows, term.axes[0], term.weights)], 0)
    steps, area = (
        next(a["d"] for a in shapes(drawn, "path") if a["class"].startswith(kind)) for kind in ("curve", "area")
    )
    ends = [float(x) for x in re.findall(r"H([\d.]+)", steps)]
    inside = term.axes[0].thresholds
    # Thresholds between the ends of the picture are drawn in the same proportions.
    drawn_ends = np.array(ends[:-1])
    assert len(drawn_ends) == len(inside)
    assert np.allclose(np.diff(drawn_ends) / np.ptp(drawn_ends), np.diff(inside) / np.ptp(inside), atol=1e-3)
    heights = np.array([float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", steps)])
    assert np.corrcoef(heights, term.values)[0, 1] == pytest.approx(-1.0, abs=1e-4)  # up is down in SVG
    assert area.startswith("M52 ")


def test_categories_are_a_table_with_shares():
    pd, ensemble = pytest.importorskip("pandas"), pytest.importorskip("sklearn.ensemble")
    import treeanova

    table = pd.DataFrame({"kind": pd.Categorical(["<b>", "v", "v", "w"] * 50), "n": np.arange(200.0)})
    model = ensemble.HistGradientBoostingRegressor(max_iter=3, max_depth=2, categorical_features="from_dtype")
    fx = treeanova.decompose(fit(model, table, (table["kind"] == "v") * 999.0 + table["n"]), table, density="empirical")
    term = fx.terms["kind"]
    rows = statistics_of(table.iloc[:100], fx.grid)
    spread = RowsOf("second", "some", rows, term.axes[0], rows.counts((0,)))
    drawn = effect_picture([Curve("main", "effect", term.axes[0], term.values)], [spread], 0)
    assert "&lt;b&gt;" in drawn
    assert re.findall(r"[\d.]+%", drawn) == ["50.0%", "25.0%", "25.0%"]


def test_missing_values_are_told(fx):
    from treeanova.model.axes import IntervalAxis

    axis = IntervalAxis("a", 2, np.array([0.0]))
    curve = Curve("main", "effect", axis, np.array([-1.0, 1.0, 0.25]))
    shares = np.array([0.5, 0.25, 0.25])
    drawn = effect_picture([curve], [RowsOf("first", "rows", fx.density.statistics, axis, shares)], 0)
    assert "Missing values: effect effect 0.25; share of the rows rows 25.0%." in drawn
