"""Stability of terms: how much those of TreeANOVA's estimators and of EBMs vary from one half of the rows to another.

Each model is fitted to ten random halves of the training rows, and its terms are evaluated at the same test rows. The
page is docs/stability.md.
"""

from __future__ import annotations

import importlib
import itertools
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import treeanova
from benchmarks.glass_box_data import Split, split
from benchmarks.timing import table_text

_PAGE = pathlib.Path("docs/stability.md")
_DATA = ("california", "bike", "compas", "breast cancer", "diabetes")
_ROWS, _TEST_ROWS, _REFITS = 4_000, 2_000, 10
_QUICK_ROWS, _QUICK_REFITS = 300, 2

Terms = dict[frozenset[str], Any]  # values at the test rows, with mean 0


class Stability(NamedTuple):
    """Means over pairs of refits, and over the outputs of the model."""

    rank_correlation: float  # of the variances of the terms that one of the two has
    distance: float  # root of the summed mean squares of differences of terms, over the standard deviation of the score
    score_distance: float  # the same of the score itself


def _additive(data: Split) -> Terms:
    kind = treeanova.AdditiveClassifier if data.is_classifier else treeanova.AdditiveRegressor
    explanation = kind(n_jobs=1).fit(data.X, data.y).explain(data.X_test)
    return _centred({frozenset(key): explanation.values[:, place] for place, key in enumerate(explanation.terms)})


def _ebm(data: Split) -> Terms:
    kind = f"ExplainableBoosting{'Classifier' if data.is_classifier else 'Regressor'}"
    model = getattr(importlib.import_module("interpret.glassbox"), kind)(n_jobs=1).fit(data.X, data.y)
    names, values = model.feature_names_in_, model.eval_terms(data.X_test)
    keys = [frozenset(names[j] for j in features) for features in model.term_features_]
    return _centred({key: values[:, place] for place, key in enumerate(keys)})


def _centred(terms: Terms) -> Terms:
    return {key: np.ravel(values) - np.mean(values) for key, values in terms.items()}


METHODS: dict[str, Callable[[Split], Terms]] = {"additive": _additive, "EBM": _ebm}


def half(data: Split, number: int, n_test: int) -> Split:
    """Return a random half of the training rows, and the first test rows."""
    rows = np.random.default_rng([number, 41]).permutation(len(data.y))[: len(data.y) // 2]
    X = data.X.iloc[rows].reset_index(drop=True)
    return Split(data.is_classifier, X, data.y[rows], data.X_test.iloc[:n_test], data.y_test[:n_test])


def stability_of(refits: list[Terms]) -> Stability:
    """Compare each refit with each other one; a term that a refit lacks is 0."""
    return Stability(*np.mean([_compared(*pair) for pair in itertools.combinations(refits, 2)], axis=0))


def _compared(one: Terms, other: Terms) -> Stability:
    keys = sorted(one.keys() | other.keys(), key=sorted)
    n_rows = len(next(iter(one.values())))
    first, second = (np.array([terms.get(key, np.zeros(n_rows)) for key in keys]) for terms in (one, other))
    spearman = importlib.import_module("scipy.stats").spearmanr
    variance = (first.sum(axis=0).var() + second.sum(axis=0).var()) / 2
    difference = first - second
    return Stability(
        float(spearman((first**2).mean(axis=1), (second**2).mean(axis=1)).statistic),
        float(np.sqrt((difference**2).mean(axis=1).sum() / variance)),
        float(np.sqrt((difference.sum(axis=0) ** 2).mean() / variance)),
    )


def run(*, full: bool = False, quick: bool = False) -> None:
    """Measure all data sets, print the page and, unless `quick`, write it; `full` takes all rows."""
    n_rows = _QUICK_ROWS if quick else None if full else _ROWS
    rows = []
    for name in _DATA[-1:] if quick else _DATA:
        data = split(name, 0, n_rows)
        for method, fit in METHODS.items():
            halves = [half(data, number, _TEST_ROWS) for number in range(_QUICK_REFITS if quick else _REFITS)]
            found = stability_of([fit(some) for some in halves])
            rows.append([name, method, *(f"{number:.3f}" for number in found)])
            print(*rows[-1], flush=True)
    text = page(rows, n_rows)
    if not quick:
        _PAGE.write_text(text, encoding="utf-8")
    print(text)


def page(rows: list[list[str]], n_rows: int | None) -> str:
    """Return the page."""
    limit, option = (f"at most {n_rows:,}", "") if n_rows else ("all", " --full")
    return f"""# How stable are the terms?

`python -m benchmarks stability{option}` computes this page. TreeANOVA's estimators and explainable boosting machines
(EBM), both with default settings, are fitted to {_REFITS} random halves of {limit} training rows. Their terms are
evaluated at the same test rows, at most {_TEST_ROWS:,}, and each refit is compared with each other one.

- **rank correlation**: Spearman's, of the variances of all terms that one of two refits has. Higher is better.
- **distance of terms**: the root of the summed mean squares of differences of terms, divided by the standard deviation
  of the score. Lower is better.
- **distance of scores**: the same for the sum of all terms.

{table_text(["data", "model", "rank correlation", "distance of terms", "distance of scores"], rows)}"""
