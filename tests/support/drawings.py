"""What is drawn on matplotlib axes, for tests that compare it with tables."""

from __future__ import annotations

from typing import Any

from matplotlib.collections import QuadMesh
from matplotlib.patches import StepPatch
from matplotlib.text import Text


def step_curves(ax: Any, *, filled: bool = False) -> list[Any]:
    """Step curves, or filled bands, without the strip of data."""
    patches = [patch for patch in ax.patches if isinstance(patch, StepPatch) and patch.get_fill() == filled]
    return [patch for patch in patches if not str(patch.get_label()).startswith("_")]


def data_strip(ax: Any) -> Any:
    """The strip that shows how the data are spread."""
    return next(patch for patch in ax.patches if isinstance(patch, StepPatch) and patch.get_label() == "_data")


def bar_widths(ax: Any) -> dict[str, float]:
    """Widths of bars by the label of their tick, without the strip of data."""
    names = {round(place, 6): name for name, place in tick_places(ax, "y").items()}
    container = next(c for c in ax.containers if c.get_label() != "_data" and hasattr(c, "patches"))
    return {names[round(bar.get_y() + bar.get_height() / 2, 6)]: bar.get_width() for bar in container.patches}


def heat_map(ax: Any) -> Any:
    """The mesh of a heat map."""
    return next(part for part in ax.collections if isinstance(part, QuadMesh))


def tick_places(ax: Any, which: str) -> dict[str, float]:
    """Places of the ticks of the x or y axis by their labels."""
    places, labels = getattr(ax, f"get_{which}ticks")(), getattr(ax, f"get_{which}ticklabels")()
    return {label.get_text(): float(place) for place, label in zip(places, labels, strict=True)}


def visible_texts(ax: Any) -> list[Any]:
    """All texts that are shown."""
    return [text for text in ax.findobj(Text) if text.get_text() and text.get_visible()]
