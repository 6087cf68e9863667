"""Glass boxes on ten data sets: test loss, CPU seconds in fit, and sizes; writes docs/glass-box-results.md.

``python -m benchmarks glass_box --data compas --methods additive ebm`` measures some pairs of data set and method.
Numbers are kept in a JSON file, and the page shows what is there. EBMs are fitted in one process, so that all of their
CPU time counts.
"""

from __future__ import annotations

import importlib
import json
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import treeanova
from benchmarks.glass_box_data import DATA, Split, split
from benchmarks.timing import table_text

Numbers = dict[str, float]
_RESULTS = pathlib.Path("build/glass_box.json")
_PAGE = pathlib.Path("docs/glass-box-results.md")
_QUICK_ROWS = 2_000
_SIZES = (10, 20)  # numbers of terms of smaller models
_FLOOR = 1e-15


def _loss(data: Split, response: Any) -> float:
    """Log loss of probabilities of the second class, or squared error."""
    if not data.is_classifier:
        return float(np.mean((data.y_test - response) ** 2))
    p = np.clip(response, _FLOOR, 1 - _FLOOR)
    return float(-np.mean(np.where(data.y_test == 1, np.log(p), np.log(1 - p))))


def _response(model: Any, data: Split) -> Any:
    return model.predict_proba(data.X_test)[:, 1] if data.is_classifier else model.predict(data.X_test)


def _timed(fit: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    model = fit()
    return model, time.process_time() - start


# Methods: each returns numbers of one or several models, by their names.


def _additive(data: Split) -> dict[str, Numbers]:
    kind = treeanova.AdditiveClassifier if data.is_classifier else treeanova.AdditiveRegressor
    whole, cpu = _timed(lambda: kind(simplify=False, n_jobs=1).fit(data.X, data.y))
    model, cpu_of_simple = _timed(lambda: kind(n_jobs=1).fit(data.X, data.y))
    measured = {"order 2": _numbers(whole, data, cpu), "simplified": _numbers(model, data, cpu_of_simple)}
    path = model.simplification_
    sizes = [] if path is None else list(path.path["n_terms"])
    for most in _SIZES:
        smaller = [size for size in sizes if size <= most]
        if smaller:
            some = kind.from_decomposition(path.at(max(smaller)))
            measured[f"{most} terms"] = _numbers(some, data, cpu_of_simple)
    return measured


def _numbers(model: Any, data: Split, cpu: float) -> Numbers:
    terms = model.decomposition_.terms
    cells = {names: terms[names].values.size for names in terms}
    steps = [size for names, size in cells.items() if len(names) == 1]
    return {
        "loss": _loss(data, _response(model, data)),
        "cpu": cpu,
        "terms": len(cells),
        "steps": float(np.median(steps or [0])),
        "cells": sum(cells.values()),
    }


def _ensemble(data: Split) -> dict[str, Numbers]:
    """A bag of histogram boosting without limits on interactions."""
    module = importlib.import_module("sklearn.ensemble")
    boosting = getattr(module, f"HistGradientBoosting{_kind(data)}")
    options = {"max_iter": 1000, "learning_rate": 0.05, "early_stopping": True, "n_iter_no_change": 40}
    members = [boosting(random_state=i, categorical_features="from_dtype", **options) for i in range(8)]
    fitted, cpu = _timed(lambda: [member.fit(data.X, data.y) for member in members])
    response = np.mean([_response(member, data) for member in fitted], axis=0)
    return {"ensemble": {"loss": _loss(data, response), "cpu": cpu}}


def _depth_2(data: Split) -> dict[str, Numbers]:
    boosting = getattr(importlib.import_module("sklearn.ensemble"), f"HistGradientBoosting{_kind(data)}")
    options = {"max_depth": 2, "max_iter": 3000, "early_stopping": True, "n_iter_no_change": 40}
    model = boosting(categorical_features="from_dtype", random_state=0, **options)
    fitted, cpu = _timed(lambda: model.fit(data.X, data.y))
    return {"depth 2": {"loss": _loss(data, _response(fitted, data)), "cpu": cpu}}


def _ebm(data: Split) -> dict[str, Numbers]:
    kind = getattr(importlib.import_module("interpret.glassbox"), f"ExplainableBoosting{_kind(data)}")
    model, cpu = _timed(lambda: kind(n_jobs=1).fit(data.X, data.y))
    sizes = [scores.size for scores in model.term_scores_]
    steps = [size for size, features in zip(sizes, model.term_features_, strict=True) if len(features) == 1]
    facts = {"terms": len(sizes), "steps": float(np.median(steps)), "cells": sum(sizes)}
    return {"EBM": {"loss": _loss(data, _response(model, data)), "cpu": cpu, **facts}}


def _splines(data: Split) -> dict[str, Numbers]:
    spline = importlib.import_module("sklearn.preprocessing").SplineTransformer(n_knots=8, knots="quantile")
    return {"splines": _linear(data, spline, penalty="l2")}


def _l1(data: Split) -> dict[str, Numbers]:
    return {"L1": _linear(data, importlib.import_module("sklearn.preprocessing").StandardScaler(), penalty="l1")}


def _linear(data: Split, of_numbers: Any, *, penalty: str) -> Numbers:
    """A linear or logistic regression on transformed numbers, and on categories one by one."""
    linear, prepare = (importlib.import_module(f"sklearn.{name}") for name in ("linear_model", "preprocessing"))
    pipeline = importlib.import_module("sklearn.pipeline").make_pipeline
    impute = importlib.import_module("sklearn.impute").SimpleImputer(strategy="median", add_indicator=True)
    numbers = data.X.select_dtypes("number").columns
    columns = importlib.import_module("sklearn.compose").make_column_transformer(
        (pipeline(impute, of_numbers), numbers),
        (prepare.OneHotEncoder(handle_unknown="ignore"), data.X.columns.difference(numbers)),
        sparse_threshold=0,
    )
    if data.is_classifier:
        ratio = 1.0 if penalty == "l1" else 0.0
        model = linear.LogisticRegressionCV(l1_ratios=(ratio,), solver="saga", cv=3, Cs=5, max_iter=300)
    else:
        model = linear.LassoCV(cv=3) if penalty == "l1" else linear.RidgeCV(np.geomspace(1e-3, 1e3, 13))
    fitted, cpu = _timed(lambda: pipeline(columns, model).fit(data.X, data.y))
    return {"loss": _loss(data, _response(fitted, data)), "cpu": cpu}


def _kind(data: Split) -> str:
    return "Classifier" if data.is_classifier else "Regressor"


METHODS: dict[str, Callable[[Split], dict[str, Numbers]]] = {
    "additive": _additive,
    "ebm": _ebm,
    "ensemble": _ensemble,
    "depth 2": _depth_2,
    "splines": _splines,
    "l1": _l1,
}
_MODELS = ("ensemble", "order 2", "simplified", "20 terms", "10 terms", "EBM", "depth 2", "splines", "L1")


# Running, and the page


def run(
    *,
    full: bool = False,  # noqa: ARG001  all that it measures is small
    quick: bool = False,
    data: Sequence[str] = tuple(DATA),
    methods: Sequence[str] = tuple(METHODS),
    repeats: int = 5,
    results: pathlib.Path = _RESULTS,
) -> None:
    """Measure what is not yet in the file of results, and write the page from all that is there."""
    kept = json.loads(results.read_text(encoding="utf-8")) if results.is_file() else {}
    n_rows = _QUICK_ROWS if quick else None
    for repeat in range(1 if quick else repeats):
        for name in data:
            of_split = kept.setdefault(name, {}).setdefault(f"{'quick ' if quick else ''}{repeat}", {})
            for method in methods:
                if method not in of_split:
                    of_split[method] = METHODS[method](split(name, repeat, n_rows))
                    results.parent.mkdir(parents=True, exist_ok=True)
                    results.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    text = page(kept, quick=quick)
    print(text)
    if not quick:
        _PAGE.write_text(text, encoding="utf-8")


def page(kept: dict[str, Any], *, quick: bool = False) -> str:
    """Return the page: means over the splits that have been measured, and how EBMs compare."""
    means = {name: _by_model(splits, quick=quick) for name, splits in kept.items()}
    losses = [
        [name, *(_mean_text(models.get(model), "loss", ".4f") for model in _MODELS)] for name, models in means.items()
    ]
    seconds = [
        [name, *(_mean_text(models.get(model), "cpu", ".1f") for model in _MODELS)] for name, models in means.items()
    ]
    sizes = [
        [name, *(_sizes_text(models.get(model)) for model in ("order 2", "simplified", "EBM"))]
        for name, models in means.items()
    ]
    return "\n".join(
        [
            "# Glass boxes on ten data sets",
            "",
            "`python -m benchmarks glass_box` computes this page: mean test loss (squared error, or log loss) over",
            "random splits with 30 % test rows, and CPU seconds in fit. Column `order 2` has the estimators of",
            "TreeANOVA with `simplify=False`; `simplified` has their default settings, as `EBM` has those of EBMs.",
            "",
            "## Test loss",
            "",
            table_text(["data", *_MODELS], losses),
            "## Against EBMs",
            "",
            "Differences of test losses to EBMs on the same splits, and their standard errors over splits; below zero,",
            "TreeANOVA is better.",
            "",
            table_text(["data", "splits", "order 2", "simplified", "CPU of EBM / order 2"], _against(means)),
            "## CPU seconds in fit",
            "",
            table_text(["data", *_MODELS], seconds),
            "## Terms, median steps of main effects, cells",
            "",
            table_text(["data", "order 2", "simplified", "EBM"], sizes),
        ]
    )


def _by_model(splits: dict[str, Any], *, quick: bool) -> dict[str, dict[str, Numbers]]:
    """Numbers of each model by split."""
    models: dict[str, dict[str, Numbers]] = {}
    for number, methods in splits.items():
        if number.startswith("quick") is quick:
            for measured in methods.values():
                for model, numbers in measured.items():
                    models.setdefault(model, {})[number] = numbers
    return models


def _mean_text(splits: dict[str, Numbers] | None, key: str, form: str) -> str:
    return format(np.mean([numbers[key] for numbers in splits.values()]), form) if splits else "–"


def _sizes_text(splits: dict[str, Numbers] | None) -> str:
    return " / ".join(_mean_text(splits, key, ",.0f") for key in ("terms", "steps", "cells"))


def _against(means: dict[str, dict[str, dict[str, Numbers]]]) -> list[list[str]]:
    rows = []
    for name, models in means.items():
        peers = models.get("EBM", {})
        both = [number for number in models.get("order 2", {}) if number in peers]
        if both:
            texts = [_difference(models.get(model, {}), peers, both) for model in ("order 2", "simplified")]
            ratio = np.mean([peers[k]["cpu"] / models["order 2"][k]["cpu"] for k in both])
            rows.append([name, str(len(both)), *texts, f"{ratio:.1f}"])
    return rows


def _difference(ours: dict[str, Numbers], peers: dict[str, Numbers], numbers: Sequence[str]) -> str:
    changes = [ours[number]["loss"] - peers[number]["loss"] for number in numbers if number in ours]
    if not changes:
        return "–"
    error = f" ± {np.std(changes, ddof=1) / np.sqrt(len(changes)):.4f}" if len(changes) > 1 else ""
    return f"{np.mean(changes):+.4f}{error}"
