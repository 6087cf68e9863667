from __future__ import annotations

import numpy as np
import pytest

mpl = pytest.importorskip("matplotlib")
pytest.importorskip("pandas")
plt = pytest.importorskip("matplotlib.pyplot")

from matplotlib.colors import to_rgb  # noqa: E402

from tests.support.drawings import step_curves, visible_texts  # noqa: E402
from tests.support.tables import mixed_table  # noqa: E402
from treeanova import plot  # noqa: E402

X = mixed_table()


EACH = {
    "effect": lambda fx, **options: plot.effect(fx, "size", **options),
    "bars": lambda fx, **options: plot.effect(fx, "colour", **options),
    "pair": lambda fx, **options: plot.pair(fx, ("size", "age"), **options),
    "lines": lambda fx, **options: plot.pair(fx, ("age", "colour"), **options),
    "importance": plot.importance,
    "waterfall": lambda fx, **options: plot.waterfall(fx, X.iloc[[3]], **options),
    "compare": lambda fx, **options: plot.compare([fx.raw, fx], "age", **options),
}


@pytest.mark.parametrize("name", EACH)
def test_axes_in_axes_out(fx, name):
    figure, (left, right) = plt.subplots(1, 2)
    assert EACH[name](fx, ax=right) is right
    assert plt.get_fignums() == [figure.number]
    assert not left.has_data()
    with pytest.raises(TypeError, match="`ax` must be matplotlib Axes, got str"):
        EACH[name](fx, ax="right")


def luminance(colour):
    """Relative luminance as the rules for accessible pages define it."""
    parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return float(np.dot(parts, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_curves_and_words_stand_out_from_the_background(fx, three, style):
    with plt.style.context(style):
        back = luminance(mpl.rcParams["axes.facecolor"])
        drawn = [
            patch.get_edgecolor()
            for patch in step_curves(plot.effect(fx, "age")) + step_curves(plot.effect(three, "c"))
        ]
        drawn += [bar.get_facecolor() for bar in plot.effect(fx, "colour").containers[0].patches]
        drawn += [bar.get_facecolor() for bar in plot.waterfall(fx, X.iloc[[3]]).containers[0].patches]
        drawn += [text.get_color() for name in EACH for text in visible_texts(EACH[name](fx))]
        for colour in drawn:
            light, dark = sorted([luminance(colour), back], reverse=True)
            assert (light + 0.05) / (dark + 0.05) > 3


def test_names_with_an_underscore_are_in_the_legend(fx):
    ax = plot.compare({"_mine": fx, "$x$": fx.raw}, "age")
    assert [text.get_text().strip() for text in ax.get_legend().get_texts()] == ["_mine", r"\$x\$"]
