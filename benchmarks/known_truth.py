"""Terms of deep models under correlated features, by treeanova and by treehfd, compared with two exact truths.

Six normal features, correlated in three pairs; XGBoost, 100 trees of depth 6, is trained on
sin(2πx0) + x0 x1 + x2 x3 with noise, the function that treehfd is shown on. The errors of main effects and pairs are

1. against the terms of that function, in closed form: this contains the error of the model, and
2. against the terms of the model itself under the true density.

The second truth needs neither method. A leaf is an indicator of a box, and a product over the three independent pairs
of features: its functional ANOVA is the product of those of three boxes in two features. These are least-squares
problems on all bins of the model, with the exact normal probabilities of cells. So nothing is drawn, smoothed or
merged; 300,000 fresh rows check the result.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.special

import treeanova
from benchmarks.timing import print_table
from treeanova.core.arrays import Floats, Ints, Key

CORRELATIONS = (0.3, 0.6, 0.9)
SEEDS = range(5)
_TREES, _DEPTH, _ROWS, _NOISE = 100, 6, 5_000, 0.5
_COMPARED_ROWS, _CHECKED_ROWS, _CHECKED_BINS = 4_000, 300_000, 20
_FEATURES = 6
_PAIRS = (0, 1), (2, 3), (4, 5)  # of correlated features
_SMALLEST_EIGENVALUE = 1e-10
_PAGE = pathlib.Path(__file__).parents[1] / "docs" / "known-truth.md"
Values = Mapping[Key, Floats]


# The function


def draw(n_rows: int, correlation: float, rng: np.random.Generator) -> Floats:
    """Standard normal features, correlated in three pairs."""
    shared = np.repeat(rng.standard_normal((n_rows, len(_PAIRS))), 2, axis=1)
    own = rng.standard_normal((n_rows, _FEATURES))
    rows: Floats = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own
    return rows


def function(rows: Floats) -> Floats:
    """The function to be learned."""
    x = rows.T
    values: Floats = np.sin(2 * np.pi * x[0]) + x[0] * x[1] + x[2] * x[3]
    return values


def function_terms(rows: Floats, correlation: float) -> dict[Key, Floats]:
    """Its main effects and pairs, in closed form; those that are not listed are zero."""
    x, share = rows.T, correlation / (1 + correlation**2)
    terms: dict[Key, Floats] = {(j,): share * (x[j] ** 2 - 1) for j in range(4)}
    for a, b in _PAIRS[:2]:
        terms[a, b] = x[a] * x[b] - correlation - terms[a,] - terms[b,]
    terms[0,] = terms[0,] + np.sin(2 * np.pi * x[0])
    return terms


# The model's own terms


class Boxes(NamedTuple):
    """Leaves of a model: value `value` where low <= x < high; bounds have the shape (n_leaves, n_features)."""

    low: Floats
    high: Floats
    value: Floats


def leaf_boxes(model: Any) -> Boxes:
    """The leaves of an XGBoost model, from its own table of nodes."""
    nodes = {node.ID: node for node in model.get_booster().trees_to_dataframe().itertuples()}
    found: list[tuple[Floats, Floats, float]] = []

    def walk(name: str, low: Floats, high: Floats) -> None:
        node = nodes[name]
        if node.Feature == "Leaf":
            found.append((low, high, node.Gain))
            return
        feature, split = int(node.Feature[1:]), float(np.float32(node.Split))
        is_feature = np.arange(_FEATURES) == feature
        walk(node.Yes, low, np.where(is_feature, np.minimum(high, split), high))
        walk(node.No, np.where(is_feature, np.maximum(low, split), low), high)

    for name in nodes:
        if name.endswith("-0"):
            walk(name, np.full(_FEATURES, -np.inf), np.full(_FEATURES, np.inf))
    low, high, value = zip(*found, strict=True)
    return Boxes(np.array(low), np.array(high), np.array(value))


def cell_probabilities(first: Floats, second: Floats, correlation: float) -> Floats:
    """Probabilities of two correlated standard normals between bounds, which start with -inf and end with inf.

    Given a shared normal variable the two are independent. The trapezoidal rule over that variable is exact to
    rounding, because the integrand is smooth.
    """
    shared = np.arange(-9.0, 9.0, 0.02)
    density = np.exp(-(shared**2) / 2)
    factors = [
        np.diff(
            scipy.special.ndtr(np.subtract.outer(-np.sqrt(correlation) * shared, -bounds) / np.sqrt(1 - correlation))
        )
        for bounds in (first, second)
    ]
    cells: Floats = (factors[0] * (density / density.sum())[:, None]).T @ factors[1]
    return cells


class BoxTerms(NamedTuple):
    """Functional ANOVA of boxes in two features: means, and main effects over bins; one row per box."""

    mean: Floats
    first: Floats
    second: Floats


def box_terms(first: Floats, second: Floats, cells: Floats) -> BoxTerms:
    """The terms of the products of two indicators of bins, by least squares under the probabilities of cells.

    For each box: Σ cells (first second - mean - f - g)² is smallest; eigenvectors solve it for all boxes at once.
    """
    masses = np.concatenate([cells.sum(axis=1), cells.sum(axis=0)])
    n_first = len(cells)
    mean = ((first @ cells) * second).sum(axis=1)
    right = np.hstack([first * (second @ cells.T), second * (first @ cells)]) - np.outer(mean, masses)
    normal = np.diag(masses)
    normal[:n_first, n_first:], normal[n_first:, :n_first] = cells, cells.T
    scale = 1 / np.sqrt(masses)
    values, vectors = np.linalg.eigh(scale[:, None] * normal * scale)
    inverse = np.where(values > _SMALLEST_EIGENVALUE, 1 / np.maximum(values, _SMALLEST_EIGENVALUE), 0.0)
    solved = ((right * scale) @ vectors * inverse) @ vectors.T * scale
    f, g = solved[:, :n_first], solved[:, n_first:]
    return BoxTerms(mean, f - (f @ masses[:n_first])[:, None], g - (g @ masses[n_first:])[:, None])


class ModelTerms(NamedTuple):
    """Main effects and pairs of a model over its bins, with the inner bounds of the bins of each feature."""

    splits: Sequence[Floats]
    tables: Mapping[Key, Floats]
    mean: float

    def at(self, rows: Floats) -> dict[Key, Floats]:
        """Terms at rows."""
        codes = bins_of(self.splits, rows)
        return {key: table[tuple(codes[j] for j in key)] for key, table in self.tables.items()}


def bins_of(splits: Sequence[Floats], rows: Floats) -> list[Ints]:
    """Bins of rows, feature by feature; XGBoost compares float32."""
    columns = rows.astype(np.float32).astype(np.float64).T
    return [np.searchsorted(bounds, column, side="right") for bounds, column in zip(splits, columns, strict=True)]


def model_terms(boxes: Boxes, correlation: float) -> ModelTerms:
    """Main effects and pairs of the model under the true density."""
    bounds = [np.unique([boxes.low[:, j], boxes.high[:, j]]) for j in range(_FEATURES)]
    inside = [
        ((cuts[:-1] >= boxes.low[:, [j]]) & (cuts[1:] <= boxes.high[:, [j]])).astype(np.float64)
        for j, cuts in enumerate(bounds)
    ]
    parts = [box_terms(inside[a], inside[b], cell_probabilities(bounds[a], bounds[b], correlation)) for a, b in _PAIRS]
    means = np.array([part.mean for part in parts])
    tables: dict[Key, Floats] = {}
    for pair, part, others in zip(_PAIRS, parts, (means[[1, 2]], means[[0, 2]], means[[0, 1]]), strict=True):
        a, b = pair
        weights = boxes.value * others.prod(axis=0)
        tables[a,], tables[b,] = weights @ part.first, weights @ part.second
        whole = (inside[a] * weights[:, None]).T @ inside[b]
        tables[pair] = whole - weights @ part.mean - np.add.outer(tables[a,], tables[b,])
    effects = [effect for part in parts for effect in (part.first, part.second)]
    for a, b in itertools.combinations(range(_FEATURES), 2):
        if (a, b) not in _PAIRS:
            weights = boxes.value * means[3 - a // 2 - b // 2]
            tables[a, b] = (effects[a] * weights[:, None]).T @ effects[b]
    return ModelTerms([cuts[1:-1] for cuts in bounds], tables, float(boxes.value @ means.prod(axis=0)))


class Check(NamedTuple):
    """How fresh rows agree with the exact terms of a model."""

    prediction_gap: float
    slice_means: float
    share_above: float


def check(model: Any, boxes: Boxes, terms: ModelTerms, correlation: float, seed: int) -> Check:
    """The boxes against predictions, slice means of pairs in standard errors, and the variance of higher orders."""
    rows = draw(_CHECKED_ROWS, correlation, np.random.default_rng([seed, 7]))
    scores = model.predict(rows).astype(np.float64)
    some = rows[:500].astype(np.float32)[:, None]
    trees = (((some >= boxes.low) & (some < boxes.high)).all(axis=2) * boxes.value).sum(axis=1)
    values = terms.at(rows)
    squares = [
        np.square(_slice_mean_errors(rows[:, j], values[key])).mean() for key in values if len(key) == 2 for j in key
    ]
    left = scores - sum(values.values())
    return Check(
        float(np.ptp(scores[:500] - trees)), float(np.sqrt(np.mean(squares))), float(left.var() / scores.var())
    )


def _slice_mean_errors(column: Floats, values: Floats) -> Floats:
    """Means of a term in slices of one feature, each divided by its standard error."""
    slices = np.array_split(values[np.argsort(column)], _CHECKED_BINS)
    return np.array([part.mean() / part.std() * np.sqrt(len(part)) for part in slices])


# The comparison


class Errors(NamedTuple):
    """Squared errors relative to the squares of the true terms: of sums over terms, and as mean over true terms."""

    mains: float
    pairs: float
    both: float
    mean: float


def errors(values: Values, truth: Values, function_keys: Sequence[Key]) -> Errors:
    """Errors of main effects and pairs; `function_keys` are the terms that the function has."""
    keys = sorted({*values, *truth})
    wrong = {key: float(np.mean((values.get(key, _ZERO) - truth.get(key, _ZERO)) ** 2)) for key in keys}
    right = {key: float(np.mean(truth.get(key, _ZERO) ** 2)) for key in keys}

    def relative(orders: Sequence[int]) -> float:
        chosen = [key for key in keys if len(key) in orders]
        return sum(wrong[key] for key in chosen) / sum(right[key] for key in chosen)

    mean = float(np.mean([wrong[key] / right[key] for key in function_keys]))
    return Errors(relative([1]), relative([2]), relative([1, 2]), mean)


_ZERO = np.zeros(1)


class Case(NamedTuple):
    """Errors by method, against the function (1) and against the model (2), and what was checked."""

    correlation: float
    seed: int
    against_function: Mapping[str, Errors]
    against_model: Mapping[str, Errors]
    checked: Check


def trained(correlation: float, seed: int) -> tuple[Any, Floats, Floats]:
    """A model, the rows that it was trained on, and fresh rows to compare terms at."""
    rng = np.random.default_rng([seed, round(100 * correlation)])
    rows, fresh = draw(_ROWS, correlation, rng), draw(_COMPARED_ROWS, correlation, rng)
    target = function(rows) + rng.normal(0, _NOISE, _ROWS)
    make = importlib.import_module("xgboost").XGBRegressor
    return make(n_estimators=_TREES, max_depth=_DEPTH, n_jobs=1).fit(rows, target), rows, fresh


def _ours(model: Any, rows: Floats, fresh: Floats) -> dict[Key, Floats]:
    low = treeanova.decompose(model, rows).explain(fresh, max_order=2)
    keys = [tuple(int(name[1:]) for name in names) for names in low.terms]
    return {key: low.values[:, i] for i, key in enumerate(keys)}


def _treehfd(model: Any, rows: Floats, fresh: Floats) -> dict[Key, Floats]:
    peer = importlib.import_module("treehfd").XGBTreeHFD(model)
    peer.fit(rows, verbose=False)
    mains, pairs, *_ = peer.predict(fresh, verbose=False)
    keys = [tuple(int(j) for j in pair) for pair in peer.interaction_list]
    return {(j,): mains[:, j] for j in range(_FEATURES)} | {key: pairs[:, i] for i, key in enumerate(keys)}


METHODS = {"treeanova": _ours, "treehfd": _treehfd}


def compare(correlation: float, seed: int) -> Case:
    """Both methods on one model."""
    model, rows, fresh = trained(correlation, seed)
    boxes = leaf_boxes(model)
    exact = model_terms(boxes, correlation)
    of_function, of_model = function_terms(fresh, correlation), exact.at(fresh)
    first = {"model": errors(of_model, of_function, list(of_function))}
    second = {}
    for name, method in METHODS.items():
        values = method(model, rows, fresh)
        first[name] = errors(values, of_function, list(of_function))
        second[name] = errors(values, of_model, list(of_function))
    return Case(correlation, seed, first, second, check(model, boxes, exact, correlation, seed))


# Deep against dense, a section of docs/accuracy.md

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
        make = importlib.import_module("xgboost").XGBRegressor
        model = make(n_estimators=_TREES, max_depth=4, max_bin=12).fit(rows, target)
        for density in ("independent", "empirical", "auto"):
            dense = treeanova.decompose(model, rows, density=density, tensor_order=4).explain(rows)
            deep = treeanova.decompose(model, rows, density=density, tensor_order=2).explain(rows)
            places = [deep.terms.index(names) for names in dense.terms]
            gap = (deep.values[:, places] - dense.values) / dense.scores.std()
            orders = np.array([len(names) for names in dense.terms])
            shown = [f"{np.sqrt((gap[:, orders == order] ** 2).mean()):.1e}" for order in range(1, 5)]
            yield [f"{correlation}", density, *shown]


# Tables

_INTRO = """# Deep ensembles: terms against exact truths

Written by `python -m benchmarks known_truth{option}`.

"""
_HEAD = f"""How accurate are the terms of deep ensembles? {_TREES} trees of depth {_DEPTH} (XGBoost) are trained on
{_ROWS:,} rows of six normal features, which are correlated in three pairs. The outcome is sin(2πx0) + x0 x1 +
x2 x3 with noise, so the true effects are known. The tables compare the main effects and pairs of
`decompose(model, rows)` and of the package treehfd with two truths, at {_COMPARED_ROWS:,} fresh rows:

1. the effects of the function, in closed form. These errors contain the error of the model;
2. the effects of the model itself under the true density, computed on all bins of the model from exact normal
   probabilities (`benchmarks/known_truth.py`), with neither of the two methods.

An error is the sum over terms of squared differences, divided by the sum of the squares of the true terms;
smaller is better. "mean of 6" is the mean of the relative errors of the six terms that the function has.
(With strong correlation, its two pairs are so small that the errors of other pairs dominate the sum.) Figures
are geometric means over random seeds. "exact" is the error of truth (2) in table (1): the error of the model
alone.
"""


def _typical(found: Sequence[Case], field: str, method: str, measure: str) -> float:
    """Geometric mean over cases."""
    values = [getattr(getattr(case, field)[method], measure) for case in found]
    return float(np.exp(np.mean(np.log(values))))


def _row(found: Sequence[Case], field: str, measure: str, name: str) -> list[str]:
    ours, theirs = (_typical(found, field, method, measure) for method in METHODS)
    both = [tuple(getattr(getattr(case, field)[method], measure) for method in METHODS) for case in found]
    smaller = sum(a < b for a, b in both)
    exact = f"{_typical(found, field, 'model', measure):.4f}" if field == "against_function" else "0"
    shown = [f"{found[0].correlation}", name, f"{ours:.4f}", f"{theirs:.4f}", f"{ours / theirs:.2f}"]
    return [*shown, f"{smaller} of {len(found)}", exact]


MEASURES = {"mains": "main effects", "pairs": "pairs", "both": "both", "mean": "mean of 6"}


def print_tables(found: Sequence[Case]) -> None:
    """Both tables and what was checked."""
    print(_HEAD)
    groups = [[case for case in found if case.correlation == correlation] for correlation in CORRELATIONS]
    header = ["correlation", "terms", "treeanova", "treehfd", "ratio", "treeanova is closer", "exact"]
    titles = {"against_function": "(1) Against the function", "against_model": "(2) Against the model's own terms"}
    for field, title in titles.items():
        print(f"## {title}\n")
        print_table(header, [_row(some, field, *measure) for some in groups if some for measure in MEASURES.items()])
        print()
    print(_checks(found))


def _checks(found: Sequence[Case]) -> str:
    gaps, means, above = zip(*(case.checked for case in found), strict=True)
    return (
        f"The truth of (2), checked on {_CHECKED_ROWS:,} fresh rows per model: its leaves give the model's predictions "
        f"up to a constant within {max(gaps):.0e}; slice means of its pairs are {min(means):.2f} to {max(means):.2f} "
        f"standard errors in root mean square, as they are for exact zeros. Orders above 2 carry {min(above):.1%} to "
        f"{max(above):.1%} of the variance."
    )


def cases(*, full: bool) -> Iterator[Case]:
    """All cases, or those of one seed."""
    for correlation in CORRELATIONS:
        for seed in SEEDS if full else SEEDS[:1]:
            yield compare(correlation, seed)


def run(*, full: bool) -> None:
    """Compare, print and write docs/known-truth.md; ``--full`` takes five seeds (half an hour of treehfd), else one."""
    try:
        importlib.import_module("treehfd")
    except ImportError:
        print("treehfd is not installed; `pip install --no-deps treehfd tqdm` adds it.")
        return
    write_page(list(cases(full=full)), option=" --full" * full)


def write_page(found: Sequence[Case], *, option: str) -> None:
    """Print the tables, and write them to docs/known-truth.md."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        print_tables(found)
    print(text.getvalue())
    _PAGE.write_text(_INTRO.format(option=option) + text.getvalue(), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.known_truth", description=__doc__)
    parser.add_argument("--full", action="store_true", help="five seeds")
    run(full=parser.parse_args().full)
