"""How often tests of interactions err and find, and how often error bands cover, on simulated data.

Four normal features with equal correlations; the outcome is sin(2a) + b²/2 + c with normal noise of deviation 1, or the
log-odds of yes are. None of the six pairs is an interaction; for power, ab/4 is added. A model of 80 LightGBM trees of
depth 2 is fitted to half of the rows; `fx.validate` has the other half. The peer is the H-statistic of Friedman and
Popescu (2008) with the null distribution that they propose: an additive model is fitted, its residuals are permuted and
added to its predictions, the model is fitted to this outcome again, and H is computed again. It uses all rows.

Other objectives have outcomes with the same score, at a correlation of .5: counts, times, grades within groups, prices
whose logarithm is modelled, and a quantile. The main effect of d is no effect either. For copies, a fifth feature is
a; half of the features are drawn for each tree, so that models use both.

For bands, the outcome is ab + sin(2c) with noise of deviation 1/2, and a and b are correlated: pure effects have a
closed form.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import multiprocessing
import os
import pathlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.special

import treeanova
from treeanova.core.arrays import Bools, Floats, Ints

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "inference.md"
_CORRELATIONS = (0.0, 0.5, 0.9)
_NAMES = ["a", "b", "c", "d"]
_TREES, _STRENGTH, _LEVEL = 80, 0.25, 0.05
_POINTS = 40  # rows at which partial dependence is compared, and over which it is averaged
_BAND_TREES, _BAND_NOISE = (150, 500), 0.5
_REPEATS_PER_PROCESS = 10
_ZERO = 1e-20  # H² of a pair that the model does not have, up to rounding


class Sizes(NamedTuple):
    """Numbers of repeats, and of rows."""

    rows: Sequence[int] = (1_000, 10_000)
    repeats: int = 200
    log_repeats: int = 50
    peer_repeats: int = 20
    permutations: int = 19
    band_rows: int = 1_000
    band_repeats: int = 20
    members: int = 20
    objective_rows: int = 2_000
    objective_repeats: int = 50


QUICK = Sizes((200,), 3, 2, 2, 3, 150, 3, 3, 800, 2)


# Data and models.


def draw(n_rows: int, correlation: float, rng: np.random.Generator) -> Floats:
    """Standard normal features with equal correlations."""
    shared = np.sqrt(correlation) * rng.standard_normal((n_rows, 1))
    rows: Floats = shared + np.sqrt(1 - correlation) * rng.standard_normal((n_rows, len(_NAMES)))
    return rows


def outcome(rows: Floats, kind: str, strength: float, rng: np.random.Generator) -> Floats:
    """The outcome of rows, numbers or yes and no, with an interaction of some strength."""
    a, b, c, _ = rows.T
    score = np.sin(2 * a) + b**2 / 2 - 0.5 + c + strength * a * b
    if kind == "log loss":
        yes: Floats = (rng.random(len(rows)) < scipy.special.expit(score)).astype(np.float64)
        return yes
    noisy: Floats = score + rng.standard_normal(len(rows))
    return noisy


def fitted(rows: Floats, y: Floats, kind: str = "squared error", *, depth: int = 2, trees: int = _TREES) -> Any:
    """A LightGBM model of shallow trees."""
    lightgbm = importlib.import_module("lightgbm")
    make = lightgbm.LGBMClassifier if kind == "log loss" else lightgbm.LGBMRegressor
    model = make(
        n_estimators=trees, num_leaves=2**depth, max_depth=depth, max_bin=63, min_child_samples=10, n_jobs=1, verbose=-1
    )
    return model.fit(rows, y)


# Repeats.

Result = TypeVar("Result")


def each(repeat: Callable[[int], Result], n_repeats: int) -> list[Result]:
    """The results of all repeats, by as many processes as there are cores."""
    n_processes = min(os.cpu_count() or 1, n_repeats // _REPEATS_PER_PROCESS)
    if n_processes < 2:
        return [repeat(number) for number in range(n_repeats)]
    with ProcessPoolExecutor(n_processes, multiprocessing.get_context("spawn"), _quietly) as pool:
        return list(pool.map(repeat, range(n_repeats)))


def _quietly() -> None:
    """No warnings of LightGBM that rows have no names, in a process."""
    warnings.filterwarnings("ignore", message="X does not have valid feature names")


# Tests of interactions.


class Rates(NamedTuple):
    """How often pairs were declared interactions.

    Attributes
    ----------
    level
        All pairs, where none is one.
    power
        a × b, where it is one.
    others
        All other pairs, where a × b is one.
    """

    level: float
    power: float
    others: float


Declared = Mapping[tuple[str, ...], bool]


def rates(without: Sequence[Declared], with_one: Sequence[Declared]) -> Rates:
    """Rates over repeats without an interaction and with one, among the pairs that models have; for power all count."""
    level = np.mean([declared for one in without for declared in one.values()])
    power = np.mean([one.get(("a", "b"), False) for one in with_one])
    others = np.mean([declared for one in with_one for pair, declared in one.items() if pair != ("a", "b")])
    return Rates(float(level), float(power), float(others))


def ours(n_rows: int, correlation: float, kind: str, repeats: int) -> tuple[Rates, Rates]:
    """Rates of the p-value, and of the rule that the loss grows by more than two standard errors."""
    one = functools.partial(_declared, n_rows, correlation, kind)
    by_strength = [each(functools.partial(one, strength), repeats) for strength in (0.0, _STRENGTH)]
    by_test, by_loss = ([[pair[i] for pair in part] for part in by_strength] for i in (0, 1))
    return rates(*by_test), rates(*by_loss)


def _declared(n_rows: int, correlation: float, kind: str, strength: float, repeat: int) -> tuple[Declared, Declared]:
    """Pairs that the p-value and the rule of two errors declare interactions, in one repeat."""
    rng = np.random.default_rng([repeat, n_rows, round(100 * correlation)])
    rows, half = draw(n_rows, correlation, rng), n_rows // 2
    y = outcome(rows, kind, strength, rng)
    fx = treeanova.decompose(fitted(rows[:half], y[:half], kind), rows[:half], feature_names=_NAMES, n_jobs=1)
    table = fx.validate(rows[half:], y[half:]).table
    pairs = [(tuple(row.term.split(" × ")), row) for row in table.itertuples() if row.order == 2]
    return (
        {pair: bool(row.p_value < _LEVEL) for pair, row in pairs},
        {pair: bool(row.loss_change > 2 * row.error) for pair, row in pairs},
    )


def h_statistics(model: Any, points: Floats) -> dict[tuple[str, str], float]:
    """H² of all pairs: the share of the partial dependence of a pair that its main effects do not explain."""
    n = len(_NAMES)
    pairs = list(itertools.combinations(range(n), 2))
    keys = [*((j,) for j in range(n)), *pairs]
    parts = dict(zip(keys, _partial_dependences(model, points, keys), strict=True))
    found = {}
    for i, j in pairs:
        both = parts[i, j]
        found[_NAMES[i], _NAMES[j]] = float(((both - parts[i,] - parts[j,]) ** 2).sum() / (both**2).sum())
    return found


def _partial_dependences(model: Any, points: Floats, keys: Sequence[tuple[int, ...]]) -> Floats:
    """Mean prediction over all points with some features fixed at those of each point, centred, for each key."""
    n = len(points)
    grid = np.tile(points, (len(keys) * n, 1)).reshape(len(keys), n * n, -1)
    for at, features in zip(grid, keys, strict=True):
        at[:, features] = np.repeat(points[:, features], n, axis=0)
    means = model.predict(grid.reshape(len(keys) * n * n, -1))
    by_key = means.reshape(len(keys), n, n).mean(axis=2)
    centred: Floats = by_key - by_key.mean(axis=1, keepdims=True)
    return centred


def peer(n_rows: int, correlation: float, repeats: int, permutations: int) -> Rates:
    """Rates of the H-statistic against refits to permuted residuals of an additive model."""
    one = functools.partial(_declared_by_h, n_rows, correlation, permutations)
    return rates(*(each(functools.partial(one, strength), repeats) for strength in (0.0, _STRENGTH)))


def _declared_by_h(n_rows: int, correlation: float, permutations: int, strength: float, repeat: int) -> Declared:
    rng = np.random.default_rng([repeat, n_rows, round(100 * correlation)])
    rows = draw(n_rows, correlation, rng)
    y = outcome(rows, "squared error", strength, rng)
    points = rows[:_POINTS]
    observed = h_statistics(fitted(rows, y), points)
    additive = fitted(rows, y, depth=1, trees=3 * _TREES).predict(rows)
    null = [h_statistics(fitted(rows, additive + rng.permutation(y - additive)), points) for _ in range(permutations)]
    n_larger = {pair: sum(one[pair] >= h for one in null) for pair, h in observed.items() if h > _ZERO}
    return {pair: (1 + n) / (1 + permutations) <= _LEVEL for pair, n in n_larger.items()}


# Objectives.

_GROUP_SIZE = 10
_QUANTILE = 0.9
_SHARED = {"n_estimators": _TREES, "max_depth": 2, "n_jobs": 1}


class Trial(NamedTuple):
    """Outcomes, a function that fits a model to some of the rows, and the groups of rows where there are any."""

    y: Floats
    fit: Callable[[slice], Any]
    group: Ints | None = None


def _boosted(rows: Floats, y: Floats, **options: Any) -> Callable[[slice], Any]:
    """A function that fits a LightGBM model of an objective to some of the rows."""

    def fit(chosen: slice) -> Any:
        lightgbm = importlib.import_module("lightgbm")
        given = {"num_leaves": 4, "max_bin": 63, "min_child_samples": 10, "verbose": -1}
        return lightgbm.LGBMRegressor(**_SHARED, **given, **options).fit(rows[chosen], y[chosen])

    return fit


def _log_loss(rows: Floats, score: Floats, rng: np.random.Generator) -> Trial:
    y = (rng.random(len(score)) < scipy.special.expit(score)).astype(np.float64)
    return Trial(y, lambda chosen: fitted(rows[chosen], y[chosen], "log loss"))


def _counts(rows: Floats, score: Floats, rng: np.random.Generator) -> Trial:
    y = rng.poisson(np.exp(score / 2)).astype(np.float64)
    return Trial(y, _boosted(rows, y, objective="poisson"))


def _quantile(rows: Floats, score: Floats, rng: np.random.Generator) -> Trial:
    y = score + rng.standard_normal(len(score))
    return Trial(y, _boosted(rows, y, objective="quantile", alpha=_QUANTILE))


def _log_target(rows: Floats, score: Floats, rng: np.random.Generator) -> Trial:
    y = np.exp(score + rng.standard_normal(len(score)))
    compose = importlib.import_module("sklearn.compose")
    lightgbm = importlib.import_module("lightgbm")
    inner = lightgbm.LGBMRegressor(**_SHARED, num_leaves=4, max_bin=63, min_child_samples=10, verbose=-1)
    model = compose.TransformedTargetRegressor(inner, func=np.log, inverse_func=np.exp)
    return Trial(y, lambda chosen: model.fit(rows[chosen], y[chosen]))


def _times(rows: Floats, score: Floats, rng: np.random.Generator) -> Trial:
    """Times with the hazard exp(score); about a third is censored."""
    time = rng.standard_exponential(len(score)) * np.exp(-score)
    limit = 4 * rng.standard_exponential(len(score))
    y = np.where(time < limit, time, -limit)
    xgboost = importlib.import_module("xgboost")
    model = xgboost.XGBRegressor(objective="survival:cox", learning_rate=0.1, **_SHARED)
    return Trial(y, lambda chosen: model.fit(rows[chosen], y[chosen]))


def _grades(rows: Floats, score: Floats, rng: np.random.Generator) -> Trial:
    """Four grades in groups of ten, which have a level of their own."""
    group = np.arange(len(score)) // _GROUP_SIZE
    level = rng.standard_normal(len(score))[group]
    y = np.digitize(score + level + rng.standard_normal(len(score)), [-1, 0, 1]).astype(np.float64)
    xgboost = importlib.import_module("xgboost")
    model = xgboost.XGBRanker(objective="rank:pairwise", learning_rate=0.1, **_SHARED)
    return Trial(y, lambda chosen: model.fit(rows[chosen], y[chosen], qid=group[chosen]), group)


OBJECTIVES: Mapping[str, Callable[[Floats, Floats, np.random.Generator], Trial]] = {
    "log loss": _log_loss,
    "Poisson": _counts,
    "pinball at 0.9": _quantile,
    "squared error of log": _log_target,
    "Cox": _times,
    "ranking": _grades,
}


def validated(trial: Trial, rows: Floats, names: Sequence[str]) -> Any:
    """The table of a validation at the second half of the rows, of a model that was fitted to the first."""
    half = len(rows) // 2
    train, rest = slice(0, half), slice(half, None)
    fx = treeanova.decompose(trial.fit(train), rows[train], feature_names=names, density="empirical", n_jobs=1)
    return fx.validate(rows[rest], trial.y[rest], group=None if trial.group is None else trial.group[rest]).table


def _declared_of(name: str, n_rows: int, strength: float, repeat: int) -> tuple[Declared, Declared]:
    """Pairs and the main effect of d that the p-value and the rule of two errors declare real, in one repeat."""
    rng = np.random.default_rng([repeat, len(name), round(100 * strength)])
    rows = draw(n_rows, 0.5, rng)
    a, b, c, _ = rows.T
    score = np.sin(2 * a) + b**2 / 2 - 0.5 + c + strength * a * b
    table = validated(OBJECTIVES[name](rows, score, rng), rows, _NAMES)
    terms = [(tuple(row.term.split(" × ")), row) for row in table.itertuples() if row.order == 2 or row.term == "d"]
    return (
        {term: bool(row.p_value < _LEVEL) for term, row in terms},
        {term: bool(row.loss_change > 2 * row.error) for term, row in terms},
    )


def objective_row(name: str, sizes: Sizes) -> list[str]:
    """Level for pairs and for d, and power for a × b, of both tests."""
    one = functools.partial(_declared_of, name, sizes.objective_rows)
    null, real = (each(functools.partial(one, strength), sizes.objective_repeats) for strength in (0.0, 2 * _STRENGTH))
    found = [name]
    for test in (0, 1):
        pairs = [flag for both in null for term, flag in both[test].items() if len(term) == 2]
        mains = [both[test].get(("d",), False) for both in null]
        power = [both[test].get(("a", "b"), False) for both in real]
        found += [_rate(float(np.mean(flags))) for flags in (pairs, mains, power)]
    print(" ".join(found), flush=True)
    return found


def _copies(n_rows: int, repeat: int) -> tuple[bool, bool]:
    """Whether both copies of a feature are significant, and name each other, in one repeat."""
    rng = np.random.default_rng([repeat, n_rows])
    rows = draw(n_rows, 0.5, rng)
    y = np.sin(2 * rows[:, 0]) + rows[:, 2] + rng.standard_normal(n_rows)
    rows = np.column_stack([rows, rows[:, 0]])
    fit = _boosted(rows, y, colsample_bytree=0.5, random_state=repeat)
    table = validated(Trial(y, fit), rows, [*_NAMES, "copy"]).set_index("term")
    significant = bool((table.loc[["a", "copy"], "p_holm"] < _LEVEL).all())
    return significant, table.loc["a", "aliases"] == "copy" and table.loc["copy", "aliases"] == "a"


def objectives(sizes: Sizes) -> str:
    """The tables of other objectives and of copies, with the numbers of repeats."""
    head = [f"{what}{how}" for how in ("", ", two errors") for what in ("level: pairs", "level: d", "power: a × b")]
    rows = [objective_row(name, sizes) for name in OBJECTIVES]
    copies = np.mean(each(functools.partial(_copies, sizes.objective_rows), sizes.objective_repeats), axis=0)
    return (
        f"{sizes.objective_repeats} repeats each, {sizes.objective_rows:,} rows, correlation .5.\n\n"
        f"{table(['objective', *head], rows)}\n"
        f"A feature and its copy, {sizes.objective_repeats} repeats: both are significant in {copies[0]:.1%}, and name "
        f"each other\nas aliases in {copies[1]:.1%}.\n"
    )


# Bands.

_CURVE = np.linspace(-1.5, 1.5, 25)
_SQUARE = np.linspace(-1.2, 1.2, 7)
Effects = Mapping[str, Floats]


class Coverage(NamedTuple):
    """Bands of one effect: mean error relative to the true deviation, and shares of points that are covered."""

    ratio: float
    expectation: float
    truth: float


def pair_points(correlation: float) -> Floats:
    """Points of a square at which there are data."""
    points = np.stack(np.meshgrid(_SQUARE, _SQUARE, indexing="ij"), axis=-1).reshape(-1, 2)
    near: Bools = np.abs(points[:, 0] - points[:, 1]) < (1.2 if correlation else np.inf)
    return points[near]


def true_effects(correlation: float) -> dict[str, Floats]:
    """Pure effects of ab + sin(2c), in closed form."""
    share, points = correlation / (1 + correlation**2), pair_points(correlation)
    main, (a, b) = share * (_CURVE**2 - 1), points.T
    pair = a * b - correlation - share * (a**2 - 1) - share * (b**2 - 1)
    return {"a": main, "c": np.sin(2 * _CURVE), "a × b": pair}


def effects_at(fx: Any, correlation: float) -> dict[str, Floats]:
    """Effects of a decomposition at the points that are compared; zero where it has no such term."""
    points = {"a": ("a", _CURVE[:, None]), "c": ("c", _CURVE[:, None]), "a × b": (("a", "b"), pair_points(correlation))}
    return {name: fx.terms[key](at) if key in fx.terms else np.zeros(len(at)) for name, (key, at) in points.items()}


def coverage(correlation: float, trees: int, sizes: Sizes) -> dict[str, Coverage]:
    """Coverage of 95 % bands; the expectation is the mean over all other repeats."""
    found = each(functools.partial(_band, correlation, trees, sizes.band_rows, sizes.members), sizes.band_repeats)
    centres, errors = [centre for centre, _ in found], [error for _, error in found]
    return {name: _coverage(name, centres, errors, true) for name, true in true_effects(correlation).items()}


def _band(correlation: float, trees: int, n_rows: int, n_members: int, repeat: int) -> tuple[Effects, Effects]:
    """Effects of the fit to all rows, and the deviations of those of the members, in one repeat."""
    rng = np.random.default_rng([repeat, round(100 * correlation)])
    rows = rng.standard_normal((n_rows, 3))
    rows[:, 1] = correlation * rows[:, 0] + np.sqrt(1 - correlation**2) * rows[:, 1]
    y = rows[:, 0] * rows[:, 1] + np.sin(2 * rows[:, 2]) + _BAND_NOISE * rng.standard_normal(n_rows)
    fit = functools.partial(fitted, trees=trees)
    bag = treeanova.bag(fit, rows, y, n_members, random_state=repeat, feature_names=_NAMES[:3], n_jobs=1)
    members = [effects_at(member, correlation) for member in bag.members]
    deviations = {name: np.std([one[name] for one in members], axis=0, ddof=1) for name in members[0]}
    return effects_at(bag.fx, correlation), deviations


def _coverage(name: str, centres: Sequence[Effects], errors: Sequence[Effects], true: Floats) -> Coverage:
    centre, reach = np.array([one[name] for one in centres]), 1.96 * np.array([one[name] for one in errors])
    n = len(centre)
    expectation = (centre.sum(axis=0) - centre) / (n - 1)
    # The mean of the others has an error of its own, which the bands need not cover.
    to_expectation = np.abs(centre - expectation) / np.sqrt(1 + 1 / (n - 1))
    ratio = float((reach / 1.96).mean() / centre.std(axis=0, ddof=1).mean())
    covered = (float((distance <= reach).mean()) for distance in (to_expectation, np.abs(centre - true)))
    return Coverage(ratio, *covered)


# The page.


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def tests(sizes: Sizes) -> str:
    """The table of tests of interactions, with the numbers of repeats."""
    rows = [_row_of_tests(kind, n, rho, sizes) for kind, n, rho in _settings(sizes)]
    measures = [f"{what}: {how}" for what in ("level", "power", "others") for how in ("p-value", "two errors", "H")]
    head = ["loss", "correlation", "rows", *measures]
    return (
        f"{sizes.repeats} repeats for the p-value and the rule of two errors ({sizes.log_repeats} for log loss); "
        f"{sizes.peer_repeats} for the H-statistic,\nwith {sizes.permutations} permutations each.\n\n"
        f"{table(head, rows)}"
    )


def bands(sizes: Sizes) -> str:
    """The table of bands, with the numbers of repeats."""
    head = ["trees", "correlation", "effect", "error / deviation", "covers the expectation", "covers the truth"]
    rows = [
        [f"{trees}", f"{rho:.1f}", name, f"{one.ratio:.2f}", f"{one.expectation:.1%}", f"{one.truth:.1%}"]
        for trees, rho in itertools.product(_BAND_TREES, (0.0, 0.6))
        for name, one in coverage(rho, trees, sizes).items()
    ]
    sizes_in_words = f"{sizes.band_repeats} repeats with {sizes.members} members each, {sizes.band_rows:,} rows."
    return f"{sizes_in_words}\n\n{table(head, rows)}"


def _settings(sizes: Sizes) -> list[tuple[str, int, float]]:
    return list(itertools.product(("squared error", "log loss"), sizes.rows, _CORRELATIONS))


def _row_of_tests(kind: str, n_rows: int, correlation: float, sizes: Sizes) -> list[str]:
    is_numeric = kind == "squared error"
    by_test, by_loss = ours(n_rows, correlation, kind, sizes.repeats if is_numeric else sizes.log_repeats)
    by_h = peer(n_rows, correlation, sizes.peer_repeats, sizes.permutations) if is_numeric else Rates(*[np.nan] * 3)
    columns = zip(by_test, by_loss, by_h, strict=True)
    row = [kind, f"{correlation:.1f}", f"{n_rows:,}", *(_rate(one) for column in columns for one in column)]
    print(" ".join(row), flush=True)
    return row


def _rate(rate: float) -> str:
    return "–" if np.isnan(rate) else f"{rate:.3f}"


def written(page: str, part: str, text: str) -> str:
    """A page with the tables of a part replaced."""
    marks = f"<!-- {part}: begin -->\n", f"<!-- {part}: end -->"
    before, found, rest = page.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not found or not end:
        raise ValueError(f"the page must have the lines {marks[0].strip()} and {marks[1]}, got neither or one.")
    return f"{before}{found}\n{text}\n{end}{after}"


PARTS: Mapping[str, Callable[[Sizes], str]] = {"tests": tests, "objectives": objectives, "bands": bands}


def run(*, full: bool = False, part: str | None = None, sizes: Sizes | None = None, page: pathlib.Path = PAGE) -> None:
    """Measure, print, and write the tables of the page, or those of one part."""
    chosen = sizes or (
        Sizes(log_repeats=200, peer_repeats=60, band_repeats=40, objective_repeats=200) if full else Sizes()
    )
    with warnings.catch_warnings():
        _quietly()
        for name, measured in PARTS.items():
            if part in {None, name}:
                text = measured(chosen)
                print(text)
                page.write_text(written(page.read_text(encoding="utf-8"), name, text), encoding="utf-8")
