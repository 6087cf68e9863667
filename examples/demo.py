"""Decompose a boosted model whose true effects are known (``make demo``).

x1 and x2 are normal with correlation ρ, x3 is correlated with both, and the group depends on x3. The target is
x1 x2 + a wave of x3 + a step per group + noise. So the pure effects are known: ρ / (1 + ρ²) (x² - 1) for x1 and for x2,
what is left of x1 x2 for their interaction, and the wave and the steps minus their means.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import pathlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from treeanova._decompose import decompose
from treeanova.core.arrays import Floats, Names, label_of
from treeanova.core.files import replacing
from treeanova.core.progress import Progress, counted, one_step, quiet, within
from treeanova.data.columns import frame, installed_library
from treeanova.decomposition.decomposition import Decomposition

CORRELATION = 0.7
_SIDE_CORRELATION = 0.4
_NOISE = 0.3
_GROUPS = ("north", "east", "south", "west")
_STEPS = np.array([-1.0, 0.0, 0.5, 1.0])
_FEATURES = ("x1", "x2", "x3", "group")


@dataclasses.dataclass(frozen=True)
class Simulation:
    """Rows with a known truth.

    Attributes
    ----------
    X, y
        Features (a data frame, or an array with codes of groups if no data frame library is installed) and target.
    score
        The target without noise.
    effects
        The true pure effects at the rows.
    """

    X: Any
    y: Floats
    score: Floats
    effects: Mapping[Names, Floats]


def simulate(n_rows: int = 5_000, random_state: int = 0) -> Simulation:
    """Rows of dependent features, a target, and its true effects."""
    rng = np.random.default_rng(random_state)
    side = _SIDE_CORRELATION
    covariance = np.array([[1, CORRELATION, side], [CORRELATION, 1, side], [side, side, 1]])
    x1, x2, x3 = rng.multivariate_normal(np.zeros(3), covariance, size=n_rows, method="cholesky").T
    group = np.digitize(x3 + rng.normal(size=n_rows), [-1.0, 0.0, 1.0])
    wave, step = 1.5 * np.sin(1.5 * x3), _STEPS[group]
    score = x1 * x2 + wave + step
    return Simulation(
        X=_rows(x1, x2, x3, group),
        y=score + _NOISE * rng.normal(size=n_rows),
        score=score,
        effects={
            ("x1",): true_effect(x1),
            ("x2",): true_effect(x2),
            ("x3",): wave,
            ("group",): step - step.mean(),
            ("x1", "x2"): x1 * x2 - CORRELATION - true_effect(x1) - true_effect(x2),
        },
    )


def true_effect(x: Floats) -> Floats:
    """The pure main effect of x1 (or x2) in x1 x2: ρ / (1 + ρ²) (x² - 1)."""
    return CORRELATION / (1 + CORRELATION**2) * (x**2 - 1)


def _rows(x1: Floats, x2: Floats, x3: Floats, group: Any) -> Any:
    if installed_library() != "pandas":
        return np.column_stack([x1, x2, x3, group])
    table = frame({"x1": x1, "x2": x2, "x3": x3, "group": [_GROUPS[code] for code in group]}, "pandas")
    return table.astype({"group": "category"})


def train(rows: Simulation, *, library: str | None = None) -> tuple[Any, str]:
    """A boosted model of depth 2, and its name in words: XGBoost, or scikit-learn's if XGBoost is not installed."""
    installed = [name for name in ("xgboost", "sklearn") if importlib.util.find_spec(name)]
    library = library or next(iter(installed), None)
    if library == "xgboost":
        return _train_xgboost(rows), "XGBoost"
    if library == "sklearn":
        return _train_sklearn(rows), "scikit-learn's HistGradientBoosting (xgboost is not installed)"
    raise ImportError(
        "the demonstration needs xgboost or scikit-learn, and neither is installed; pip install xgboost-cpu."
    )


def _train_xgboost(rows: Simulation) -> Any:
    from xgboost import XGBRegressor  # noqa: PLC0415  the demonstration's own model

    types = ["q", "q", "q", "c"] if isinstance(rows.X, np.ndarray) else None
    model = XGBRegressor(
        n_estimators=400, max_depth=2, learning_rate=0.1, enable_categorical=True, feature_types=types, n_jobs=1
    )
    return model.fit(rows.X, rows.y)


def _train_sklearn(rows: Simulation) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor  # noqa: PLC0415  the demonstration's own model

    categories: Any = [3] if isinstance(rows.X, np.ndarray) else "from_dtype"
    model = HistGradientBoostingRegressor(max_iter=400, max_depth=2, categorical_features=categories)
    return model.fit(rows.X, rows.y)


def errors(fx: Decomposition, rows: Simulation) -> dict[str, float]:
    """Mean squared error of each true effect as a share of its variance.

    The last entry is the variance of all other terms, which are truly zero, as a share of that of the score. Effects
    are centred first, so that the offsets of raw effects do not count as errors.
    """
    explained = fx.explain(rows.X)
    values = {names: explained.values[:, i] - explained.values[:, i].mean() for i, names in enumerate(explained.terms)}
    shares = {}
    for names, truth in rows.effects.items():
        gap = values.pop(names, 0.0) - (truth - truth.mean())
        shares[label_of(names)] = float(np.mean(gap**2) / np.var(truth))
    shares["other interactions"] = float(sum(np.var(term) for term in values.values()) / np.var(rows.score))
    return shares


def error_table(kinds: Mapping[str, Decomposition], rows: Simulation) -> str:
    """Errors of several decompositions side by side, as text."""
    columns = {kind: errors(fx, rows) for kind, fx in kinds.items()}
    head = f"{'':<20}" + "".join(f"{kind:>11}" for kind in columns)
    labels = next(iter(columns.values()))
    lines = [f"{label:<20}" + "".join(f"{column[label]:>11.1%}" for column in columns.values()) for label in labels]
    return "\n".join([head, *lines])


def draw(fx: Decomposition, folder: pathlib.Path, progress: Progress = quiet) -> list[pathlib.Path]:
    """Three pictures as PNG files: a main effect raw, pure and true; the interaction raw and pure; the importances."""
    import matplotlib.figure  # noqa: PLC0415  part of an extra

    from treeanova import plot  # noqa: PLC0415  needs the same extra

    both = {"raw": fx.raw, "pure": fx}
    main = matplotlib.figure.Figure(figsize=(7, 4.2), layout="constrained")
    ax = main.subplots()
    plot.compare(both, "x1", ax=ax)
    _add_truth(ax)
    pair = matplotlib.figure.Figure(figsize=(11, 4.4), layout="constrained")
    plot.compare(both, ("x1", "x2"), ax=pair.subplots(1, 2))
    share = matplotlib.figure.Figure(figsize=(7, 4.2), layout="constrained")
    plot.importance(fx, ax=share.subplots())
    figures = {"main_effect.png": main, "interaction.png": pair, "importance.png": share}
    for name, figure in counted(progress, "pictures", figures.items(), len(figures)):
        with replacing(folder / name) as file:
            figure.savefig(file, format="png", dpi=150)
    return [folder / name for name in figures]


def _add_truth(ax: Any) -> None:
    """Draw the true effect over those of a plot, and add it to the legend."""
    points = np.linspace(-3, 3, 200)
    (line,) = ax.plot(points, true_effect(points), linestyle="--", color="black", linewidth=1.2)
    legend = ax.get_legend()
    known = (
        {}
        if legend is None
        else dict(zip((t.get_text() for t in legend.get_texts()), legend.legend_handles, strict=True))
    )
    ax.legend([*known.values(), line], [*known, "truth"], frameon=False)


def _write(fx: Decomposition, folder: pathlib.Path, say: Callable[[str], Any], progress: Progress) -> None:
    """Write the report and the pictures, and say where they are, or which extra is not installed."""
    from treeanova import report  # noqa: PLC0415  imports its extra where it is used

    steps: dict[str, Callable[[], list[pathlib.Path]]] = {
        "report": lambda: [report.write_report(fx, folder / "report.html", title="treeanova demo", progress=progress)],
        "plot": lambda: draw(fx, folder, progress),
    }
    for extra, step in steps.items():
        try:
            for path in step():
                say(f"wrote {path}")
        except ImportError as error:
            say(f"no {extra} ({error}); pip install '.[{extra}]'")


def demonstrate(folder: pathlib.Path, say: Callable[[str], Any], progress: Progress = quiet) -> None:
    """Train, purify, print how close each kind of effect comes to the truth, and write a report and pictures."""
    start = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    rows = simulate()
    with one_step(progress, "training"):
        model, library = train(rows)
    names = list(_FEATURES) if isinstance(rows.X, np.ndarray) else None
    fx = decompose(model, rows.X, feature_names=names, progress=progress)
    say(f"{library}, trees of depth 2, trained on x1 x2 + wave(x3) + step(group) + noise, {len(rows.y):,} rows.")
    say(f"Correlation of x1 and x2 {CORRELATION}; of both with x3 {_SIDE_CORRELATION}; the group depends on x3.\n")
    say(f"{fx}\n")
    _compare_with_truth(fx, model, rows, say, progress)
    _write(fx, folder, say, progress)
    say(f"{time.perf_counter() - start:.1f} s")


def _compare_with_truth(
    fx: Decomposition, model: Any, rows: Simulation, say: Callable[[str], Any], progress: Progress
) -> None:
    """Print the errors of each kind of effect, and the difference of the sum of terms to the model."""
    say("Error of each effect as a share of its variance (last line: effects that are truly zero, as a share of all)")
    others = {
        kind: fx.with_density(kind, progress=within(progress, f"density {kind}")) for kind in ("uniform", "empirical")
    }
    kinds = {"raw": fx.raw} | others | {"auto": fx}
    say(error_table(kinds, rows))
    score = fx.decision_function(rows.X)
    floor = np.var(score - rows.score) / np.var(rows.score)
    say(f"\nAll four columns are the same model, whose own error is {floor:.1%} of the variance of the score.")
    gap = np.abs(score - model.predict(rows.X)).max()
    single = ", which is in single precision" if model.predict(rows.X[:1]).dtype == np.float32 else ""
    say(f"Largest difference of the sum of terms to the model's own prediction{single}: {gap:.1e}.\n")


def main(arguments: list[str] | None = None) -> None:
    """Run the demonstration and print it."""
    parser = argparse.ArgumentParser(prog="python examples/demo.py", description=__doc__)
    parser.add_argument("--out", default="demo", help="folder for report.html and pictures (default: demo)")
    demonstrate(pathlib.Path(parser.parse_args(arguments).out), print)


if __name__ == "__main__":
    main()
