"""decompose() of deep ensembles: compared with treehfd and woodelf, and with a known truth; and its cost.

Writes docs/deep.md, and docs/known-truth.md by `benchmarks.known_truth`. By default a part of treehfd's trees is timed
on California housing and scaled up (its cost is one least-squares problem per tree), and terms are compared with exact
truths for one seed; ``--full`` fits all trees, takes five seeds and adds the largest sizes, which takes an hour.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import treeanova
from benchmarks import known_truth
from benchmarks.decompose import california_housing, peak_bytes
from benchmarks.timing import best_of, print_table
from treeanova.core.arrays import Floats
from treeanova.decomposition.predictions import function_of

_TREES, _DEPTH = 100, 6
_PEER_TREES = 5
_PAGE = pathlib.Path(__file__).parents[1] / "docs" / "deep.md"
_INTRO = """# Deep ensembles: cost and accuracy

Written by `python -m benchmarks deep{option}`, which times everything in one run on one machine (here: two cores).
"""


def _regressor(rows: Floats, target: Floats, n_trees: int = _TREES, depth: int = _DEPTH, **options: Any) -> Any:
    module = importlib.import_module("xgboost")
    return module.XGBRegressor(n_estimators=n_trees, max_depth=depth, **options).fit(rows, target)


def _timed(function: Callable[[], Any], most: int = 3) -> tuple[float, Any]:
    with contextlib.redirect_stdout(io.StringIO()):
        return best_of(function, seconds=3.0, most=most)


def _treehfd(model: Any) -> Any:
    try:
        return importlib.import_module("treehfd").XGBTreeHFD(model)
    except ImportError:
        return None


def _left_by(peer: Any, model: Any, rows: Floats) -> float:
    """Share of the variance of a model that treehfd's terms leave."""
    score = model.predict(rows)
    terms = [part.sum(axis=1) for part in peer.predict(rows, verbose=False)[:2]]
    return float(np.var(score - sum(terms)) / np.var(score))


def _woodelf(model: Any, rows: Floats) -> Callable[[], Any] | None:
    """Interaction values of all rows, path-dependent: the fastest mode of woodelf."""
    try:
        explainer = importlib.import_module("woodelf").WoodelfExplainer
    except ImportError:
        return None
    table = importlib.import_module("pandas").DataFrame(rows, columns=[f"f{j}" for j in range(rows.shape[1])])
    made = explainer(model, feature_perturbation="tree_path_dependent")
    return lambda: made.shap_interaction_values(table, include_interaction_with_itself=False)


def california(*, full: bool) -> list[list[str]]:
    """Rows of the first table."""
    rows, target = california_housing()
    model = _regressor(rows, target)
    scores = model.predict(rows)
    table: list[tuple[str, float, str, str]] = []
    for density in ("empirical", "auto"):
        seconds, fx = _timed(functools.partial(treeanova.decompose, model, rows, density=density))
        error = f"sum within {fx.certificate.reconstruction_error:.0e} of the trees"
        table.append((f'decompose(density="{density}"), {len(fx.terms)} terms', seconds, "all", error))
    explain, low = _timed(lambda: fx.explain(rows, max_order=2))
    gap = np.abs(low.scores - scores).max()
    table.append(
        ("explain, orders up to 2, all rows", explain, "all", f"with the remainder within {gap:.0e} of predict")
    )
    some = rows[:2000]
    everything, _ = _timed(lambda: fx.explain(some), most=1)
    table.append(("explain, all orders, 2,000 rows", everything, "all", ""))
    woodelf = _woodelf(model, rows)
    if woodelf is not None:
        table.append(("woodelf, interaction values, all rows", _timed(woodelf)[0], "all", "pairs only"))
    fitted = model if full else _regressor(rows, target, _PEER_TREES)
    peer = _treehfd(fitted)
    if peer is not None:
        seconds, _ = _timed(lambda: peer.fit(rows, verbose=False), most=1)
        left = _left_by(peer, fitted, rows[:2000])
        part = "all" if full else f"{_PEER_TREES} of {_TREES} trees"
        factor = 1.0 if full else _TREES / _PEER_TREES
        table.append(("treehfd fit, orders up to 2", seconds * factor, part, f"leaves {left:.1%} of the variance"))
    whole = table[1][1]
    return [[name, f"{seconds:.3g}", f"{seconds / whole:,.2f}x", part, note] for name, seconds, part, note in table]


class Truth(NamedTuple):
    """Normal rows with equal correlations, a target, and the terms of its function in closed form."""

    rows: Floats
    target: Floats
    terms: dict[tuple[int, ...], Floats]


def simulated(n_rows: int, correlation: float, seed: int) -> Truth:
    """sin(2πx0) + x0 x1 + x2 x3, rounded and with noise: the example that treehfd is shown on."""
    rng = np.random.default_rng(seed)
    covariance = correlation + (1 - correlation) * np.eye(6)
    x = np.round(rng.multivariate_normal(np.zeros(6), covariance, size=n_rows), 2)
    target = np.sin(2 * np.pi * x[:, 0]) + x[:, 0] * x[:, 1] + x[:, 2] * x[:, 3] + rng.normal(0, 0.5, n_rows)
    share = correlation / (1 + correlation**2)
    terms: dict[tuple[int, ...], Floats] = {(j,): share * (x[:, j] ** 2 - 1) for j in range(4)}
    terms[0,] = terms[0,] + np.sin(2 * np.pi * x[:, 0])
    for a, b in ((0, 1), (2, 3)):
        terms[a, b] = x[:, a] * x[:, b] - correlation - share * (x[:, a] ** 2 + x[:, b] ** 2 - 2)
    return Truth(x, np.round(target, 2), terms)


def _error(truth: Truth, values: dict[tuple[int, ...], Floats]) -> float:
    """Mean over the true terms of squared error over variance."""
    return float(np.mean([np.mean((values[key] - term) ** 2) / np.var(term) for key, term in truth.terms.items()]))


def _treehfd_values(peer: Any, rows: Floats) -> dict[tuple[int, ...], Floats]:
    mains, pairs, *_ = peer.predict(rows, verbose=False)
    names = [tuple(int(j) for j in pair) for pair in peer.interaction_list]
    return {(j,): mains[:, j] for j in range(mains.shape[1])} | {pair: pairs[:, i] for i, pair in enumerate(names)}


def equal_correlations(*, full: bool) -> Iterator[list[str]]:
    """Rows of the second table: errors and seconds of treeanova and of treehfd."""
    for n_rows, correlation in ((5000, 0.5), (5000, 0.9), (2000, 0.5)):
        found = [_compared(simulated(n_rows, correlation, seed)) for seed in range(3 if full else 2)]
        ours, theirs, seconds, peer_seconds, left = np.mean(found, axis=0)
        shown = [f"{n_rows:,}", f"{correlation}", f"{ours:.3f}", f"{theirs:.3f}", f"{seconds:.2f}"]
        yield [*shown, f"{peer_seconds:.1f}", f"{peer_seconds / seconds:.0f}x", f"{left:.1%}"]


def _compared(truth: Truth) -> tuple[float, float, float, float, float]:
    model = _regressor(truth.rows, truth.target)
    seconds, fx = _timed(lambda: treeanova.decompose(model, truth.rows))
    low = fx.explain(truth.rows, max_order=2)
    ours = {tuple(int(name[1:]) for name in names): low.values[:, i] for i, names in enumerate(low.terms)}
    peer = _treehfd(model)
    if peer is None:
        return _error(truth, ours), np.nan, seconds, np.nan, np.nan
    peer_seconds, _ = _timed(lambda: peer.fit(truth.rows, verbose=False), most=1)
    left = _left_by(peer, model, truth.rows)
    return _error(truth, ours), _error(truth, _treehfd_values(peer, truth.rows)), seconds, peer_seconds, left


AGAINST_DENSE_HEAD = """How far are the terms of a deep ensemble, with tables up to order 2 (`tensor_order=2`), from
those of exact purification of all orders on all bins? Models of depth 4 on 4 features with at most 12 bins, and 5,000
rows, small enough for tables of all orders. Root mean square difference of all terms of an order at the rows, divided
by the standard deviation of the score.
"""
AGAINST_DENSE_COLUMNS = ("correlation", "density", "order 1", "order 2", "order 3", "order 4")


def against_dense() -> Iterator[list[str]]:
    """Rows of a table of differences between deep and dense decompositions."""
    for correlation in (0.5, 0.9):
        rng = np.random.default_rng(0)
        rows = rng.multivariate_normal(np.zeros(4), correlation + (1 - correlation) * np.eye(4), size=5000)
        target = rows[:, 0] * rows[:, 1] + np.sin(3 * rows[:, 2]) * rows[:, 3] + rng.normal(0, 0.5, 5000)
        model = _regressor(rows, target, depth=4, max_bin=12)
        for density in ("independent", "empirical", "auto"):
            dense = treeanova.decompose(model, rows, density=density, tensor_order=4).explain(rows)
            deep = treeanova.decompose(model, rows, density=density, tensor_order=2).explain(rows)
            places = [deep.terms.index(names) for names in dense.terms]
            gap = (deep.values[:, places] - dense.values) / dense.scores.std()
            orders = np.array([len(names) for names in dense.terms])
            shown = [f"{np.sqrt((gap[:, orders == order] ** 2).mean()):.1e}" for order in range(1, 5)]
            yield [f"{correlation}", density, *shown]


class Size(NamedTuple):
    """A synthetic case."""

    depth: int = _DEPTH
    n_rows: int = 20_000
    n_features: int = 8


def sizes(*, full: bool) -> Iterator[Size]:
    """Depths, then rows, then features."""
    yield from (Size(depth=depth) for depth in range(2, 9))
    yield from (Size(n_rows=n) for n in ((1_000, 10_000, 100_000, 500_000) if full else (1_000, 10_000, 100_000)))
    yield from (Size(n_features=n) for n in ((5, 20, 50, 100, 200) if full else (5, 20, 100)))


def cost(size: Size) -> list[str]:
    """Seconds, memory, terms and remainder of one synthetic case."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(size.n_rows, size.n_features)) + rng.normal(size=(size.n_rows, 1))
    target = np.sin(rows).sum(axis=1) + (rows[:, ::2] ** 2).sum(axis=1) * rows[:, 1] + rng.normal(size=size.n_rows)
    model = _regressor(rows, target, depth=size.depth)
    seconds, fx = _timed(lambda: treeanova.decompose(model, rows, density="empirical"), most=1)
    remainder = "none"
    if fx.has_remainder:
        remainder = f"{np.var(fx.remainder(rows[:4000])) / np.var(fx.decision_function(rows[:4000])):.1%}"
    n_tables = len(function_of(fx).terms.effects.terms)
    terms = f"{n_tables:,} + {len(fx.terms) - n_tables:,}"
    del fx
    peak = peak_bytes(lambda: treeanova.decompose(model, rows, density="empirical"))
    return [
        str(size.depth),
        f"{size.n_rows:,}",
        f"{size.n_features}",
        terms,
        remainder,
        f"{seconds:.2f}",
        f"{peak / 1e6:,.0f}",
    ]


def california_memory(depth: int = 8) -> str:
    """A line on California at a larger depth."""
    rows, target = california_housing()
    model = _regressor(rows, target, depth=depth)
    seconds, fx = _timed(lambda: treeanova.decompose(model, rows), most=1)
    peak = peak_bytes(lambda: treeanova.decompose(model, rows))
    return f"California at depth {depth}: {len(fx.terms):,} terms in {seconds:.1f} s, peak {peak / 1e9:.2f} GB."


def tables(*, full: bool) -> str:
    """The text of all tables, for a page that has others too."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        _tables(full=full)
    return text.getvalue()


def run(*, full: bool) -> None:
    """Time everything, print it and write docs/deep.md; then compare terms with exact truths."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        _tables(full=full)
    print(text.getvalue())
    _PAGE.write_text(_INTRO.format(option=" --full" * full) + text.getvalue(), encoding="utf-8")
    known_truth.run(full=full)


def _tables(*, full: bool) -> None:
    print(f"\n## California housing, XGBoost, {_TREES} trees of depth {_DEPTH}\n")
    print_table(["what", "seconds", 'relative to decompose("auto")', "timed", "note"], california(full=full))
    print(f"\n{california_memory()}")
    print(f"\n## A known truth: {_TREES} trees of depth {_DEPTH} on normal features with equal correlations\n")
    print(
        "Error: squared error divided by variance, mean over the true terms; density auto. treehfd leaves a residual.\n"
    )
    header = ["rows", "correlation", "error", "treehfd", "seconds", "treehfd", "ratio", "residual of treehfd"]
    print_table(header, list(equal_correlations(full=full)))
    print(f"\n## Cost against depth, rows and features: {_TREES} trees, density empirical\n")
    print("Terms: with tables + evaluated at rows. Remainder: its share of the variance of the score.\n")
    print_table(
        ["depth", "rows", "features", "terms", "remainder", "seconds", "peak MB"], [cost(s) for s in sizes(full=full)]
    )
