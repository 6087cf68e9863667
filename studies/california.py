"""California housing: the interaction of latitude and longitude before and after purification, and its largest cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

import treeanova
from studies.common import (
    WIDTH,
    Section,
    Settings,
    add_letters,
    diverging,
    hatch_empty,
    markdown_table,
    number,
    paragraphs,
    percent,
    pyplot,
    read_data,
)
from studies.judging import Claim, above, below, equal, holds_if, undecided
from studies.models import DENSITIES, PAPERS, pure_kinds
from treeanova.core.arrays import Floats

PLACE = ("Latitude", "Longitude")
SIZES = ((100, 0.3), (500, 0.1), (1000, 0.1))  # trees and learning rate
SEEDS = (0, 1, 2)  # 0: all rows for each tree; otherwise four fifths of them, drawn anew for each
DRAWN = (500, 0.1, 0)
METROS = {"Los Angeles": (34.05, -118.24), "San Francisco": (37.77, -122.42)}
RADII = (50, 80, 120)  # km
GRIDS = (10, 20, 40, 80, 160)
_METRO_KM = 50.0
_TOP = 2.5  # where colours end
_OFFSHORE_KM = 10.0
_DEGREE_KM = 111.2
# The coast of California, latitude and longitude, to about 10 km.
_COAST = np.array(
    [
        *((32.5, -117.1), (33.0, -117.3), (33.4, -117.6), (33.6, -117.9), (33.75, -118.4), (34.0, -118.8)),
        *((34.3, -119.3), (34.4, -119.8), (34.45, -120.5), (34.6, -120.65), (35.2, -120.9), (35.65, -121.2)),
        *((36.3, -121.9), (36.6, -122.0), (37.0, -122.2), (37.5, -122.5), (38.0, -123.0), (38.5, -123.3)),
        *((39.0, -123.7), (39.5, -123.8), (40.0, -124.1), (40.4, -124.4), (41.0, -124.1), (42.0, -124.2)),
    ]
)
_INTRO = """XGB2 of {n_rows:,} districts and all eight features. {n_models} models: {sizes} trees (learning rate 0.3,
0.1, 0.1), each three times: once with all rows, twice with four fifths of the rows drawn anew for each tree. The
figure and the first table show the one of {n_trees} trees and all rows. Its latitude and longitude have κ = {kappa}
in the data, and {empty} of their cells have no district. Before purification their interaction has an s.d. of {raw}
(100,000 dollars) over the districts, after purification under auto {pure}."""
_EMPTY = """A cell counts as **in the ocean** if its middle lies more than 10 km west of a coastline of 24 points and
the cell has no district. Cells without districts have no weight in the data, or nearly none: purification under a
density of the data takes main effects out of them, but what the model predicts there remains extrapolation. Read such
a map only where there are districts."""
_CAPTION = """The paper's Figure 5: the interaction of latitude and longitude of one model (500 trees), in 100,000
dollars: (a) raw, (b) to (f) pure under five densities, (g) the districts. Cells without districts have thin hatches
over their colour; the star is the largest cell of a map, with its value in the title. Colours end at ±2.5, beyond
which the ends of the scale are used. Only uniform weights take the largest cell of this model
out of the ocean."""
_RIVAL = """**Beyond the paper: InterpretML's `purify`** on the same table: the implementation that the paper names.
Root mean square error relative to the pure interaction, by default and with `is_randomized=False` (version {version}).
By default it visits slices in random order and stops when purity no longer improves, which comes too early where
features are strongly dependent."""


@dataclass(frozen=True)
class Summit:
    """The cell of a table over latitude and longitude where its value is largest."""

    value: float
    latitude: float
    longitude: float
    n_rows: int
    km: float
    """From the middle of the cell to the nearest row."""

    @property
    def in_ocean(self) -> bool:
        """Whether it lies off the coast."""
        return not self.n_rows and is_offshore(self.latitude, self.longitude)

    @property
    def place(self) -> str:
        """Ocean, a cell with districts, or a cell on land without any."""
        return "ocean" if self.in_ocean else "districts" if self.n_rows else "land without districts"

    @property
    def where(self) -> str:
        """Latitude and longitude of its middle."""
        return f"{self.latitude:.1f}° N {-self.longitude:.1f}° W"


def is_offshore(latitude: float, longitude: float) -> bool:
    """Whether a place is more than 10 km west of the coast of California."""
    west = (np.interp(latitude, *_COAST.T) - longitude) * _DEGREE_KM * np.cos(np.radians(latitude))
    return bool(west > _OFFSHORE_KM)


class Refit(NamedTuple):
    """Raw maximum of a model trained without the districts around both cities."""

    n_rows: int
    whole: Summit
    """Of the same model with all districts."""
    without: Summit


class Measured(NamedTuple):
    """All that is computed."""

    shown: dict[str, Any]
    summits: dict[tuple[int, float, int], dict[str, Summit]]
    refits: dict[tuple[int, tuple[int, float, int]], Refit]
    sorted_out: dict[str, tuple[float, float]]
    """Around each city: mean interaction, raw and pure under auto."""
    controls: Floats
    """Elsewhere: the same, one row per place."""
    grids: dict[str, tuple[int, float, float]]
    """Cells, correlation with the pure interaction, held-out log-likelihood of the place."""


def run(settings: Settings) -> Section:
    """The study, written."""
    data = read_data("california_housing.csv.gz")
    if settings.quick:
        data = data.sample(6_000, random_state=0)
    X, y = data.drop(columns="MedHouseVal"), data["MedHouseVal"]
    seeds = SEEDS[:1] if settings.quick else SEEDS
    sizes = SIZES[:2] if settings.quick else SIZES
    measured = measure(X, y, [(*size, seed) for size in sizes for seed in seeds])
    link = settings.save(
        _figure(measured.shown, X, y),
        "california",
        "Maps of latitude × longitude, raw and pure, and of the districts",
        _CAPTION,
    )
    body = paragraphs(
        _intro(len(X), measured),
        link,
        _EMPTY,
        "**Where the largest cell of the interaction lies** (value in 100,000 dollars; of equal cells, as the raw "
        "map has along its south-western edge, the nearest to a district):",
        _summit_table(measured, X),
        "**All models**: number of models whose largest cell is in the ocean:",
        _size_table(measured.summits),
        "**Trained without Los Angeles and San Francisco**: all districts within a radius of either city left out, "
        "model trained again, raw interaction:",
        _refit_table(measured.refits),
        f"**Around the cities**: mean of the interaction over the districts within {_METRO_KM:g} km, raw and pure "
        f"(auto), and around {len(measured.controls)} districts drawn at random more than 100 km from both:",
        _metro_table(measured),
        "**Regular grids instead of the model's own bins**, as in Hooker (2007), whose grid the paper does not state: "
        "the same model evaluated at the middles of the cells of a grid and purified under the empirical density "
        "(correlation over the districts with the interaction on the model's own bins); and the log-likelihood per "
        "held-out district of a density that is constant on the cells (counts + 1):",
        markdown_table(
            [(name, f"{n:,}", f"{r:.3f}", number(ll)) for name, (n, r, ll) in measured.grids.items()],
            ("bins", "cells", "correlation", "log-likelihood"),
        ),
        _RIVAL.format(version=version("interpret-core")),
        markdown_table(
            [(name, *_rival(measured.shown[name], measured.shown["raw"])) for name in DENSITIES],
            ("density", "κ", "by default", "not randomized"),
        ),
    )
    return Section("California housing: Section 6.2, Figure 5", body, claims(measured))


def measure(X: Any, y: Any, runs: Sequence[tuple[int, float, int]]) -> Measured:
    """All models, raw and pure, and those trained without the cities."""
    found = {run: _decompositions(X, y, run) for run in runs}
    summits = {
        run: {name: summit(fx.terms[PLACE].values, fx, X) for name, fx in kinds.items()} for run, kinds in found.items()
    }
    shown = found[DRAWN]
    refits = {}
    for radius in RADII:
        far = np.min([kilometres(*city, X) for city in METROS.values()], axis=0) > radius
        for run in runs:
            raw = treeanova.decompose(_fit(X[far], y[far], run), X[far], density="uniform", n_jobs=1).raw
            refits[radius, run] = Refit(
                int(far.sum()), summits[run]["raw"], summit(raw.terms[PLACE].values, raw, X, corners=X)
            )
    means = {city: _disc_means(shown, X, *place) for city, place in METROS.items()}
    return Measured(shown, summits, refits, means, _controls(shown, X), _grids(shown, X))


def _fit(X: Any, y: Any, run: tuple[int, float, int]) -> Any:
    from xgboost import XGBRegressor  # noqa: PLC0415

    n_trees, rate, seed = run
    share = 0.8 if seed else 1.0
    options = {"max_depth": 2, "subsample": share, "random_state": seed, "n_jobs": 1}
    return XGBRegressor(n_estimators=n_trees, learning_rate=rate, **options).fit(X, y)


def _decompositions(X: Any, y: Any, run: tuple[int, float, int]) -> dict[str, Any]:
    """The same model raw and pure under each density."""
    fx = treeanova.decompose(_fit(X, y, run), X, n_jobs=1)
    return {"raw": fx.raw} | pure_kinds(fx)


def kilometres(latitude: float, longitude: float, X: Any) -> Floats:
    """Great-circle distances of one place from all rows."""
    there = np.radians(X[list(PLACE)].to_numpy())
    here = np.radians([latitude, longitude])
    half = np.sin((there - here) / 2) ** 2
    distances: Floats = 12_742 * np.arcsin(np.sqrt(half[:, 0] + np.cos(here[0]) * np.cos(there[:, 0]) * half[:, 1]))
    return distances


def _edges(fx: Any, X: Any) -> tuple[Floats, Floats]:
    """Ends of the bins of latitude and longitude, the outermost cut at the data."""
    first, second = (
        np.clip(axis.edges, X[name].min(), X[name].max())
        for axis, name in zip(fx.terms[PLACE].axes, PLACE, strict=True)
    )
    return first, second


def _counts(fx: Any, X: Any) -> Floats:
    """Rows in each cell of latitude and longitude."""
    cells = [axis.index(X[name].to_numpy()) for axis, name in zip(fx.terms[PLACE].axes, PLACE, strict=True)]
    counts = np.zeros(fx.terms[PLACE].values.shape)
    np.add.at(counts, tuple(cells), 1)
    return counts


def summit(values: Floats, fx: Any, X: Any, *, seen_only: bool = False, corners: Any = None) -> Summit:
    """The cell of the largest value, of all cells or of those with rows; of equal ones the nearest to a row.

    `corners` are the rows at whose extremes the outermost bins end, X unless given.
    """
    counts = _counts(fx, X)
    values = np.where(counts > 0, values, -np.inf) if seen_only else values
    middles = [(ends[1:] + ends[:-1]) / 2 for ends in _edges(fx, X if corners is None else corners)]
    options = [
        (kilometres(middles[0][i], middles[1][j], X).min(), i, j) for i, j in np.argwhere(values >= values.max() - 1e-9)
    ]
    km, i, j = min(options)
    return Summit(float(values.max()), middles[0][i], middles[1][j], int(counts[i, j]), km)


def largest_in_ocean(fx: Any, X: Any) -> float:
    """The largest value of the interaction in a cell of the ocean."""
    counts = _counts(fx, X)
    first, second = ((ends[1:] + ends[:-1]) / 2 for ends in _edges(fx, X))
    off = np.array([[is_offshore(a, b) for b in second] for a in first]) & (counts == 0)
    return float(fx.terms[PLACE].values[off].max())


def _disc_means(shown: Mapping[str, Any], X: Any, latitude: float, longitude: float) -> tuple[float, float]:
    """Mean interaction over the rows around a place, raw and pure under auto."""
    near = X[kilometres(latitude, longitude, X) <= _METRO_KM]
    raw, pure = (float(shown[name].term_values(near, PLACE).mean()) for name in ("raw", "auto"))
    return raw, pure


def _controls(shown: Mapping[str, Any], X: Any, n_places: int = 100) -> Floats:
    """The same around districts far from both cities."""
    far = X[np.min([kilometres(*city, X) for city in METROS.values()], axis=0) > 2 * _METRO_KM]
    places = far.sample(min(n_places, len(far)), random_state=0)[list(PLACE)].to_numpy()
    return np.array([_disc_means(shown, X, *place) for place in places])


def _grids(shown: Mapping[str, Any], X: Any) -> dict[str, tuple[int, float, float]]:
    """The interaction and the density on regular grids, and on the model's own bins."""
    cells: dict[str, Sequence[Floats]] = {"the model's own": _edges(shown["auto"], X)}
    for n in GRIDS:
        cells[f"{n} × {n}"] = [np.linspace(X[name].min(), X[name].max(), n + 1) for name in PLACE]
    exact = shown["empirical"].term_values(X, PLACE)
    return {name: _on_grid(edges, shown["raw"], X, exact) for name, edges in cells.items()}


def _on_grid(given: Sequence[Floats], raw: Any, X: Any, exact: Floats) -> tuple[int, float, float]:
    edges = [np.unique(ends) for ends in given]
    points = X[list(PLACE)].to_numpy()
    bins = [
        np.clip(np.searchsorted(ends[1:-1], column), 0, len(ends) - 2)
        for ends, column in zip(edges, points.T, strict=True)
    ]
    shape = tuple(len(ends) - 1 for ends in edges)
    counts = np.zeros(shape)
    np.add.at(counts, tuple(bins), 1)
    middles = np.array(np.meshgrid(*((ends[1:] + ends[:-1]) / 2 for ends in edges), indexing="ij")).reshape(2, -1).T
    rows = X.iloc[:1].loc[np.repeat(X.index[0], len(middles))].assign(**dict(zip(PLACE, middles.T, strict=True)))
    place = sum(raw.term_values(rows, key) for key in (PLACE, ("Latitude",), ("Longitude",)) if key in raw.terms)
    pure = treeanova.purify(np.reshape(place, shape), counts).terms[0, 1]
    r = np.corrcoef(pure[tuple(bins)], exact)[0, 1]
    areas = np.multiply.outer(*(np.diff(ends) for ends in edges))
    return counts.size, float(r), _held_out_likelihood(bins, shape, areas)


def _held_out_likelihood(bins: Sequence[Any], shape: tuple[int, ...], areas: Floats, n_folds: int = 5) -> float:
    """Mean log-density per held-out row of counts + 1, by cell area."""
    fold = np.random.default_rng(0).integers(n_folds, size=len(bins[0]))
    total = 0.0
    for k in range(n_folds):
        counts = np.ones(shape)
        np.add.at(counts, tuple(b[fold != k] for b in bins), 1)
        cells = tuple(b[fold == k] for b in bins)
        total += float(np.log((counts / counts.sum() / areas)[cells]).sum())
    return total / len(fold)


def _rival(fx: Any, raw: Any) -> tuple[Any, ...]:
    """κ, and the error of interpret's purify by default and not randomized."""
    from interpret.utils import purify  # noqa: PLC0415

    exact, weights = fx.terms[PLACE].values, fx.terms[PLACE].weights
    row: list[Any] = [fx.certificate.terms[PLACE].max_correlation]
    for is_randomized in (True, False):
        theirs = purify(raw.terms[PLACE].values, weights, is_randomized=is_randomized)[0]
        row.append(float(np.sqrt((weights * (theirs - exact) ** 2).sum() / (weights * exact**2).sum())))
    return tuple(row)


def _intro(n_rows: int, measured: Measured) -> str:
    shown, sizes = measured.shown, {run[0] for run in measured.summits}
    pair = shown["empirical"].certificate.terms[PLACE]
    strength = {name: float(np.sqrt(_variance(shown[name]))) for name in ("raw", "auto")}
    return _INTRO.format(
        n_rows=n_rows, n_models=len(measured.summits), sizes=", ".join(str(n) for n in sorted(sizes)),
        n_trees=DRAWN[0], kappa=number(pair.max_correlation), empty=percent(pair.empty_share, 0),
        raw=number(strength["raw"]), pure=number(strength["auto"]),
    )  # fmt: skip


def _variance(fx: Any) -> float:
    table = fx.importance()
    return float(table.loc[table["term"] == " × ".join(PLACE), "variance"].sum())


def _summit_table(measured: Measured, X: Any) -> str:
    rows = []
    for name, fx in measured.shown.items():
        best, seen = measured.summits[DRAWN][name], summit(fx.terms[PLACE].values, fx, X, seen_only=True)
        rows.append((name, best.value, f"{best.place}, {best.where}, {best.km:,.0f} km from a district",
                     largest_in_ocean(fx, X), seen.value, seen.where))  # fmt: skip
    header = ("density", "largest cell", "where", "largest in the ocean", "largest with districts", "where")
    return markdown_table(rows, header)


def in_ocean(summits: Mapping[Any, Mapping[str, Summit]], name: str) -> int:
    """Number of models whose largest cell is in the ocean."""
    return sum(kinds[name].in_ocean for kinds in summits.values())


def _size_table(summits: Mapping[tuple[int, float, int], Mapping[str, Summit]]) -> str:
    names = ("raw", *DENSITIES)
    rows = []
    for n_trees in dict.fromkeys(run[0] for run in summits):
        some = {run: kinds for run, kinds in summits.items() if run[0] == n_trees}
        rows.append((f"{n_trees} trees", *(f"{in_ocean(some, name)} of {len(some)}" for name in names)))
    return markdown_table(rows, ("models", *names))


def _refit_table(refits: Mapping[tuple[int, Any], Refit]) -> str:
    rows = []
    for radius, n_trees in dict.fromkeys((radius, run[0]) for radius, run in refits):
        some = [refit for (km, run), refit in refits.items() if (km, run[0]) == (radius, n_trees)]
        stay = sum(refit.without.in_ocean for refit in some)
        before, after = (np.mean([getattr(refit, kind).value for refit in some]) for kind in ("whole", "without"))
        rows.append((f"{radius} km", f"{some[0].n_rows:,}", n_trees, f"{stay} of {len(some)}", before, after))
    header = ("radius", "districts left", "trees", "largest cell in the ocean", "its value with the cities", "without")
    return markdown_table([(*row[:4], float(row[4]), float(row[5])) for row in rows], header)


def _metro_table(measured: Measured) -> str:
    rows = [(city, number(raw), number(pure), percent(abs(pure / raw), 0))
            for city, (raw, pure) in measured.sorted_out.items()]  # fmt: skip
    raw, pure = np.median(np.abs(measured.controls), axis=0)
    ratio = np.median(remaining(measured.controls))
    return markdown_table(
        [*rows, ("elsewhere (medians of sizes)", number(raw), number(pure), percent(ratio, 0))],
        ("around", "raw", "pure", "share left"),
    )


def remaining(means: Floats) -> Floats:
    """What is left of mean interactions: |pure / raw|."""
    left: Floats = np.abs(means[:, 1] / means[:, 0])
    return left


def _figure(shown: Mapping[str, Any], X: Any, y: Any) -> Any:
    """Raw and pure interaction on one scale, cells without districts hatched, and the map of the districts."""
    plt = pyplot()
    fig, axes = plt.subplots(2, 4, figsize=(WIDTH * 1.15, 5.3), sharex=True, sharey=True)
    edges, empty = _edges(shown["raw"], X), _counts(shown["raw"], X) == 0
    panels = [*axes[0], *axes[1, :2]]
    for ax, (name, fx) in zip(panels, shown.items(), strict=True):
        values = fx.terms[PLACE].values
        mesh = ax.pcolormesh(edges[1], edges[0], values, cmap=diverging(), vmin=-_TOP, vmax=_TOP, rasterized=True)
        hatch_empty(ax, (edges[1], edges[0]), empty)
        best = summit(values, shown["raw"], X)
        star = ax.plot(best.longitude, best.latitude, "*", ms=11, mfc="#ffdd33", mec="black", clip_on=False, zorder=5)
        ax.plot(_COAST[:, 1], _COAST[:, 0], color="black", lw=0.9)
        where = best.place.replace("land without districts", "empty land")
        ax.set_title(f"{name}\n{best.value:.2f}, {where}")
    _draw_map(axes[1, 2], X, y)
    for ax in (*panels, axes[1, 2]):
        ax.set(xticks=(-124, -120, -116), xlim=(edges[1][0], edges[1][-1]), ylim=(edges[0][0], edges[0][-1]))
        ax.grid(visible=False)
        ax.tick_params(labelbottom=True)
    add_letters([*panels, axes[1, 2]])
    for ax in axes[1, :3]:
        ax.set_xlabel("longitude, °")
    for ax in axes[:, 0]:
        ax.set_ylabel("latitude, °")
    _draw_key(axes[1, 3], mesh, star[0])
    return fig


def _draw_key(ax: Any, mesh: Any, star: Any) -> None:
    """What colours, stars, lines and hatches mean, in a panel of its own."""
    plt = pyplot()
    ax.axis("off")
    hatch = plt.Rectangle((0, 0), 1, 1, facecolor="white", edgecolor="#777777", hatch="////", linewidth=0)
    coast = plt.Line2D([], [], color="black", lw=0.9)
    labels = ["largest cell", "no districts", "coast"]
    ax.legend([star, hatch, coast], labels, loc="upper left", fontsize=8, borderaxespad=0)
    bar = ax.inset_axes((0.06, 0.34, 0.88, 0.06))
    ax.figure.colorbar(mesh, cax=bar, orientation="horizontal", label="interaction,\n100,000 dollars", extend="both")


def _draw_map(ax: Any, X: Any, y: Any) -> None:
    """The rows as a map, coloured by price."""
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.8}
    order = np.argsort(y.to_numpy())
    ax.scatter(X["Longitude"].iloc[order], X["Latitude"].iloc[order], c=y.iloc[order], s=2, lw=0, cmap="Greys", vmin=-1)
    ax.set_title("the districts\ndarker: dearer")
    for metro, (latitude, longitude) in METROS.items():
        text = (-124.3, latitude - (0.4 if metro == "Los Angeles" else 2.0))
        words = metro.replace(" ", "\n")
        ax.annotate(
            words, (longitude, latitude), text, va="center", fontsize=7.5, bbox=box, arrowprops={"arrowstyle": "-"}
        )


def claims(measured: Measured) -> tuple[Claim, ...]:
    """The claims of Section 6.2, judged."""
    return (*_ocean_claims(measured.summits), *_city_claims(measured), *_hooker_claims(measured.grids))


def _ocean_claims(summits: Mapping[Any, Mapping[str, Summit]]) -> tuple[Claim, ...]:
    shares = {name: in_ocean(summits, name) / len(summits) for name in ("raw", *DENSITIES)}
    return (
        Claim(
            "ocean-before",
            "Section 6.2, Figure 5",
            "The unpurified effects indicate that the most expensive real estate lies in the Pacific Ocean",
            "Before purification the largest cell of latitude × longitude lies in the ocean, in every model.",
            f"Share of our {len(summits)} models whose largest raw cell is in the ocean.",
            {"raw": shares["raw"]},
            holds_if(equal("raw", 1), partly=(above("raw", 0),)),
            found=f"In {in_ocean(summits, 'raw')} of {len(summits)} models.",
        ),
        Claim(
            "ocean-after",
            "Section 6.2, Figure 5",
            "after purification this problem goes away",
            "Whether the largest cell leaves the ocean depends on the density, which the paper does not name: under "
            "uniform weights it does, under densities close to the data it mostly stays there.",
            f"Share of our {len(summits)} models whose largest pure cell is in the ocean, by density.",
            shares,
            holds_if(*(equal(name, 0) for name in PAPERS), partly=(equal("uniform", 0),)),
            found="Still in the ocean: "
            + ", ".join(f"{in_ocean(summits, name)} ({name})" for name in DENSITIES)
            + f" of {len(summits)} models.",
        ),
    )


def _city_claims(measured: Measured) -> tuple[Claim, ...]:
    refits, n_refits = measured.refits.values(), len(measured.refits)
    stay = sum(refit.without.in_ocean for refit in refits)
    share = float(np.mean([refit.without.value / refit.whole.value for refit in refits]))
    left = {f"left at {city}": abs(pure / raw) for city, (raw, pure) in measured.sorted_out.items()}
    others = remaining(measured.controls)
    lower = float((others < max(left.values())).mean())
    quarter = tuple(below(name, 0.25) for name in left)
    return (
        Claim(
            "ocean-origin",
            "Section 6.2",
            "we see that it arose from the influence of the Los Angeles and San Francisco metropolitan areas",
            "Models trained without both metropolitan areas still have their largest raw cell in the ocean, nearly as "
            "high: the cities are not its origin.",
            "Share of the models trained without the districts around both cities whose largest raw cell is in the "
            f"ocean (radii of {', '.join(str(r) for r in RADII)} km, all sizes and seeds), and what is left of its "
            "value.",
            {"share in the ocean": stay / n_refits, "share of its value": share},
            holds_if(below("share in the ocean", 0.1), partly=(below("share in the ocean", 0.9),)),
            found=f"It stays in the ocean in {stay} of {n_refits} models.",
        ),
        Claim(
            "metros-sorted",
            "Figure 5, caption",
            "Purification sorts out the influence from the Los Angeles and the San Francisco metro areas",
            "The mean interaction around both cities nearly vanishes; but it shrinks everywhere, and around some "
            "other places even further, so that this says little about the cities.",
            f"Share of the mean interaction within {_METRO_KM:g} km of each city that purification (auto) leaves, and "
            "the share of the other places of which less is left than of the city that keeps more.",
            left | {"others below": lower, "median elsewhere": float(np.median(others))},
            holds_if(*quarter, below("others below", 0.1), partly=quarter),
        ),
    )


def _hooker_claims(grids: Mapping[str, tuple[int, float, float]]) -> tuple[Claim, ...]:
    regular = {name: grid for name, grid in grids.items() if name != "the model's own"}
    own = grids["the model's own"][2]
    ahead = {f"ahead of {name}": own - grid[2] for name, grid in regular.items()}
    return (
        Claim(
            "like-hooker",
            "Section 6.2",
            "This result is similar to the fANOVA decomposition in Hooker (2007) (see Fig.5 within)",
            "We do not have Hooker's figure. The same model purified on regular grids, which is Hooker's way, "
            "resembles ours the more, the finer the grid.",
            "Correlation of the interaction on a grid with that on the model's own bins.",
            {name: r for name, (_, r, _) in regular.items()},
            undecided("Hooker's figure would have to be compared with ours"),
        ),
        Claim(
            "refined-density",
            "Section 6.2",
            "leading to more refined density estimation than the grid used in Hooker (2007)",
            "Hooker's grid is not stated. The model's own bins give a better density than coarse regular grids, and a "
            "worse one than a regular grid with as many cells.",
            "Held-out log-likelihood per district of a density that is constant on the model's bins (counts + 1), less "
            "that of regular grids.",
            ahead,
            undecided("Hooker's grid is not known"),
            holds_if(*(above(name, 0) for name in ahead), partly=(above(next(iter(ahead)), 0),)),
            "any regular grid of 10 to 160 bins a side",
        ),
    )
