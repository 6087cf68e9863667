"""Rows that repeat: are effects under "auto" those of weighted rows? Written to a section of docs/accuracy.md.

Rows of a known distribution are resampled, oversampled or left as they are, and the effects of one model are compared
with those under the true density, as in `benchmarks.accuracy`. The reference has each row once, with the number of its
copies as `sample_weight`. Features are numbers, rounded numbers, or classes.
"""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

import treeanova
from benchmarks import accuracy
from treeanova.core.arrays import Floats, Ints
from treeanova.density import Empirical

_HEADING = "## Repeated rows"
_HEAD = """How do copies of rows change the effects under "auto"? Rows are drawn as above, then resampled (bootstrap),
oversampled (the tenth with the largest c, each about six times), or left as they are. Features are as drawn, rounded
to one digit, or rounded to whole numbers. "weights" is the error with each row once and the number of its copies as
`sample_weight`. The next columns are errors with copies, divided by it: as if every row were evidence of its own, and
by the rule of `density/counting.py`. Model: {setting}. Geometric means over {seeds} seeds from {first} on; the numbers
of the rule were set on seeds 0 to 3 of the same dependences and on real tables. Written by
`python -m benchmarks copies --full`."""
_SEEDS = 2
_SIZES = 300, 1_000
_FULL_SIZES = 300, 1_000, 5_000
_DEPENDENCES = "Gaussian .7", "clusters", "discrete", "nominal"
_DIGITS: Mapping[str, int | None] = {"as drawn": None, "one digit": 1, "whole": 0}


def _bootstrap(rows: Floats, rng: np.random.Generator) -> Ints:
    return rng.integers(0, len(rows), len(rows))


def _oversample(rows: Floats, rng: np.random.Generator) -> Ints:
    everyone = np.arange(len(rows))
    return np.concatenate([everyone, rng.choice(everyone[_is_rare(rows, rows)], len(rows) // 2)])


def _as_they_are(rows: Floats, rng: np.random.Generator) -> Ints:
    del rng
    return np.arange(len(rows))


def _is_rare(rows: Floats, of: Floats) -> Ints:
    return np.flatnonzero(of[:, 2] > np.quantile(rows[:, 2], 0.9))


_WAYS: Mapping[str, Callable[[Floats, np.random.Generator], Ints]] = {
    "bootstrap": _bootstrap,
    "oversampled": _oversample,
    "as they are": _as_they_are,
}


class Errors(NamedTuple):
    """Errors of one model: with weights, with copies as evidence of their own, and by the rule."""

    weights: float
    unmerged: float
    rule: float


def _errors(rows: Floats, world: Floats, way: str, seed: int, *, categories: bool) -> Errors:
    """One model and its effects under three densities."""
    rng, setting = np.random.default_rng([seed, len(rows), len(way)]), accuracy.SETTINGS[0]
    scale = np.quantile(world, [0.25, 0.5, 0.75], axis=0)
    target = accuracy.response(rows, scale, interactions=True) + 0.3 * rng.standard_normal(len(rows))
    model = accuracy.fit(setting, rows, target, categories=categories, seed=seed)
    places = _WAYS[way](rows, rng)
    times = np.bincount(places, minlength=len(rows))
    weighted = treeanova.decompose(model, rows, sample_weight=times, n_jobs=1)
    truth = weighted.with_density(Empirical(), world, sample_weight=_true_weights(rows, world, times, way))
    copied = treeanova.decompose(model, rows[places], n_jobs=1)
    assert copied.statistics is not None  # noqa: S101  it has rows
    unmerged = copied.with_density("auto", dataclasses.replace(copied.statistics, known_excess=0.0))
    return Errors(*(accuracy.error(fx, truth) for fx in (weighted, unmerged, copied)))


def _true_weights(rows: Floats, world: Floats, times: Ints, way: str) -> Floats | None:
    """Weights of rows of the true distribution, where rare rows are as many more as in the table."""
    if way != "oversampled":
        return None
    weights = np.ones(len(world))
    weights[_is_rare(rows, world)] = times[_is_rare(rows, rows)].mean()
    return weights


def _rounded(rows: Floats, digits: int | None) -> Floats:
    return rows if digits is None else np.round(rows, digits)


def _cells(dependence: str, digits: str, way: str, n_rows: int, world: Floats) -> list[str]:
    """A row of the table."""
    found = []
    for seed in range(accuracy.FIRST_SEED, accuracy.FIRST_SEED + _SEEDS):
        rng = np.random.default_rng([seed, n_rows])
        rows = _rounded(accuracy.DEPENDENCES[dependence](n_rows, rng), _DIGITS[digits])
        found.append(_errors(rows, world, way, seed, categories=dependence == "nominal"))
    weights, unmerged, rule = (accuracy.geometric_mean(errors) for errors in zip(*found, strict=True))
    ratios = f"{unmerged / weights:.2f}", f"{rule / weights:.2f}"
    return [dependence, digits, way, f"{n_rows:,}", f"{weights:.4f}", *ratios]


def section(sizes: Sequence[int]) -> str:
    """The section of the page."""
    rows = []
    for dependence, digits in itertools.product(_DEPENDENCES, _DIGITS):
        world = accuracy.DEPENDENCES[dependence](1_000_000, np.random.default_rng(12345))
        for way, n_rows in itertools.product(_WAYS, sizes):
            rows.append(_cells(dependence, digits, way, n_rows, _rounded(world, _DIGITS[digits])))
            print(*rows[-1], flush=True)
    head = _HEAD.format(setting=accuracy.SETTINGS[0].name, seeds=_SEEDS, first=accuracy.FIRST_SEED)
    columns = ["dependence", "features", "rows", "number", "weights", "every row is evidence", "rule"]
    return f"{_HEADING}\n\n{head}\n\n{accuracy.markdown(columns, rows)}\n"


def run(*, full: bool) -> None:
    """Measure, and write the section into the page."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = section(_FULL_SIZES if full else _SIZES)
    before, _, rest = accuracy.PAGE.read_text(encoding="utf-8").partition(_HEADING)
    _, mark, after = rest.partition("\n## ")
    accuracy.PAGE.write_text(f"{before.rstrip()}\n\n{text}{mark}{after}", encoding="utf-8")
