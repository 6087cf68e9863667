"""What the studies share: settings and sections, tables in markdown, data and the look of figures."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from studies.judging import Claim
from treeanova import views as look

WIDTH = 6.8  # inches; two columns of print, or a column of a web page
_DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"


class DataMissingError(Exception):
    """A file of data is not on this machine; the study that needs it is skipped."""


@dataclass(frozen=True)
class Section:
    """One study, written: its title, its text in markdown and the claims that it tests."""

    title: str
    body: str
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True)
class Settings:
    """How much to compute, and where figures go."""

    quick: bool = False
    figures: Path = Path("docs/paper")
    """Folder of the figures; made when the first is saved."""
    link: str = "paper"
    """The same folder as the written page sees it."""

    def save(self, fig: Any, name: str, words: str, caption: str) -> str:
        """A matplotlib figure saved as ``name.png`` and closed: its link in markdown, with `words`, and its caption.

        The page numbers figures; ``@name`` stands for the number of one.
        """
        import matplotlib.pyplot as plt  # noqa: PLC0415

        self.figures.mkdir(parents=True, exist_ok=True)
        path = self.figures / f"{name}.png"
        fig.savefig(path)
        plt.close(fig)
        shrink(path)
        return f"![{words}]({self.link}/{name}.png)\n\n**Figure @{name}.** {caption}"


def add_letters(axes: Iterable[Any]) -> None:
    """Put (a), (b), … in front of the titles of panels."""
    for letter, ax in zip("abcdefghijklmnopqr", axes, strict=False):
        ax.set_title(f"({letter}) {ax.get_title(loc='left')}")


def shrink(path: Path) -> None:
    """Reduce a picture to 256 colours, which no reader sees and which takes half the space."""
    from PIL import Image  # noqa: PLC0415

    with Image.open(path) as image:
        reduced = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        reduced.save(path, optimize=True, dpi=image.info.get("dpi", (200, 200)))


def pyplot() -> Any:
    """matplotlib.pyplot without a screen, in the look that all figures share."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    plt.rcParams.update(STYLE)
    plt.rcParams["axes.prop_cycle"] = plt.cycler(color=look.SERIES)
    return plt


def diverging() -> Any:
    """The colour map of effects: white at zero, blue below, orange above."""
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415

    return LinearSegmentedColormap.from_list("treeanova", look.DIVERGING)


def draw_bars(ax: Any, places: Any, heights: Any, width: float, *, color: str, label: str, least: float = 0.0) -> None:
    """Bars of one series; where one is zero, or no longer than `least`, a dash, since it would not be seen."""
    ax.bar(places, heights, width, color=color, label=label)
    zeros = [place for place, height in zip(places, heights, strict=True) if abs(height) <= least]
    ax.hlines([0.0] * len(zeros), [x - width / 2 for x in zeros], [x + width / 2 for x in zeros], color=color, lw=1.5)


def hatch_empty(ax: Any, edges: Sequence[Any], is_empty: Any) -> None:
    """Thin hatches over the colours of cells without rows; `edges` are those of the horizontal, then vertical axis."""
    places = [np.concatenate([ends[:1], (ends[1:] + ends[:-1]) / 2, ends[-1:]]) for ends in edges]
    with _hatched():
        ax.contourf(*places, np.pad(is_empty, 1, "edge") * 1.0, levels=[0.5, 1.5], colors="none", hatches=["////"])


@contextlib.contextmanager
def _hatched() -> Iterator[None]:
    """Thin grey hatches."""
    import matplotlib as mpl  # noqa: PLC0415

    with mpl.rc_context({"hatch.color": "#77777799", "hatch.linewidth": 0.3}):
        yield


STYLE: dict[str, Any] = {
    "figure.figsize": (WIDTH, 3.0),
    "figure.dpi": 110,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 200,
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.5,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "axes.labelcolor": "#222222",
}


def number(value: float, digits: int = 3) -> str:
    """A number as a reader wants it: `digits` significant ones, whole numbers whole, tiny and huge ones as 1.2e-16."""
    value = float(value)
    if not math.isfinite(value):
        return {math.inf: "∞", -math.inf: "−∞"}.get(value, "–")
    if value == 0 or (value == round(value) and abs(value) < 1e6):
        return f"{value:,.0f}".replace("-0", "0") if value == 0 else f"{value:,.0f}".replace("-", "−")
    if not 1e-3 <= abs(value) < 1e6:
        return f"{value:.1e}".replace("-", "−")
    text = f"{value:,.{max(digits - 1 - _magnitude(value), 0)}f}"
    return text.replace("-", "−")


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage: 0.1234 gives "12.3 %"."""
    return f"{100 * share:.{digits}f} %".replace("-", "−")


def signed(value: float, digits: int = 2) -> str:
    """A number with its sign."""
    return f"{value:+.{digits}f}".replace("-", "−")


def _magnitude(value: float) -> int:
    """The power of ten of the leading digit."""
    return int(f"{abs(value):e}".partition("e")[2])


def markdown_table(rows: Iterable[Sequence[object]], header: Sequence[str]) -> str:
    """A table in markdown; floats are written by `number`, everything else as it prints."""
    lines = [list(header), ["---"] * len(header), *([_cell(value) for value in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: object) -> str:
    text = number(value) if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def paragraphs(*parts: str) -> str:
    """Blocks of markdown, one blank line between each and the next."""
    return "\n\n".join(part.strip("\n") for part in parts if part)


def sum_of_terms(fx: Any, X: Any) -> Any:
    """Intercept and all terms of a decomposition at rows, added up; `decision_function` may ask the model instead."""
    return fx.intercept + sum(fx.term_values(X, key) for key in fx.terms)


def data_folder() -> Path:
    """The folder of public data: what TREEANOVA_DATA names, else ``../shared/data`` next to the project."""
    return Path(os.environ.get("TREEANOVA_DATA", _DATA)).resolve()


def read_data(name: str, **options: Any) -> Any:
    """A table of the data folder as pandas reads it.

    Raises
    ------
    DataMissingError
        Where the file is absent; `python -m studies` then skips the study and says so.
    """
    import pandas as pd  # noqa: PLC0415

    path = data_folder() / name
    if not path.is_file():
        raise DataMissingError(f"no file {name} in the data folder; set TREEANOVA_DATA to the folder that has it")
    return pd.read_csv(path, **options)
