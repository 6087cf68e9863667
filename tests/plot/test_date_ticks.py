from __future__ import annotations

import itertools

import numpy as np
import pytest

import treeanova

pytest.importorskip("matplotlib")
pd = pytest.importorskip("pandas")
tree = pytest.importorskip("sklearn.tree")

from tests.support.forests import chains  # noqa: E402
from tests.support.training import fit  # noqa: E402
from treeanova import plot  # noqa: E402
from treeanova.plot.scales import date_labels  # noqa: E402


@pytest.fixture(scope="module")
def dated():
    """Rows with dates of two years, and the decomposition of a tree trained on nanoseconds."""
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2011-01-01") + pd.to_timedelta(rng.integers(0, 730, 400), unit="D")
    rows = pd.DataFrame({"day": days, "x": rng.normal(size=400)})
    numbers = rows.assign(day=days.to_numpy().astype("datetime64[ns]").astype(np.int64))
    model = fit(
        tree.DecisionTreeRegressor(max_depth=4, random_state=0), numbers, np.sin(days.day_of_year / 58.0) * rows["x"]
    )
    return rows, treeanova.decompose(model, rows, density="empirical", n_jobs=1)


@pytest.mark.parametrize("kind", ["linear", "quantile"])
@pytest.mark.parametrize("width", [3.0, 9.0])
def test_ticks_are_at_the_dates_they_name(dated, kind, width):
    import matplotlib.pyplot as plt

    fx = dated[1]
    _, ax = plt.subplots(figsize=(width, 3), layout="constrained")
    plot.effect(fx, "day", x_scale=kind, ax=ax)
    ax.figure.canvas.draw()
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert len(labels) >= 2
    np.testing.assert_allclose(
        ax.get_xticks(), pd.to_datetime(labels).to_numpy().astype("datetime64[ns]").astype(float)
    )
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert all(first.x1 < second.x0 for first, second in itertools.pairwise(boxes))


@pytest.mark.parametrize("n_days", [3, 20, 45, 100, 200, 400, 550, 700, 1500])
@pytest.mark.parametrize("width", [2.0, 3.0])
def test_narrow_axes_have_the_ticks_they_have_room_for(n_days, width):
    """Warnings are errors here."""
    import matplotlib.pyplot as plt

    days = 15_000.0 + np.linspace(0, n_days, 50)[:, None]
    forest = chains([(0, 15_000 + 0.3 * n_days), (0, 15_000 + 0.6 * n_days)], n_features=1)
    fx = treeanova.decompose(forest, days, dates={"x0": "D"}, density="empirical", n_jobs=1)
    _, ax = plt.subplots(figsize=(width, 3), layout="constrained")
    plot.effect(fx, "x0", x_scale="linear", ax=ax)
    fewest = 2 if width == 3.0 and n_days >= 100 else 1  # short labels
    assert fewest <= len(ax.get_xticklabels()) <= 8


def test_pairs_and_rows_have_dates(dated):
    rows, fx = dated
    labels = [label.get_text() for label in plot.pair(fx, ("x", "day")).get_yticklabels()]
    assert {label[:4] for label in labels} <= {"2011", "2012", "2013"}
    names = [label.get_text() for label in plot.waterfall(fx, rows.iloc[:1]).get_yticklabels()]
    assert f"day = {rows['day'].iloc[0].date()}" in names


@pytest.mark.parametrize(
    ("dates", "labels"),
    [
        (["2011-01-01", "2013-01-01"], ["2011", "2013"]),
        (["2011-01-01", "2011-07-01"], ["2011-01", "2011-07"]),
        (["2011-01-01", "2011-01-15"], ["2011-01-01", "2011-01-15"]),
        (["2011-01-01T00", "2011-01-01T12"], ["01-01 00:00", "01-01 12:00"]),
    ],
)
def test_labels_have_the_parts_they_need(dates, labels):
    seconds = np.array(dates, dtype="datetime64[s]").astype(float)
    assert date_labels(seconds.tolist(), "s") == labels
