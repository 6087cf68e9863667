"""Glass boxes on ten data sets: test loss, CPU seconds in fit, and sizes; writes docs/glass-box-benchmark.md.

``python -m benchmarks glass_box --data compas --methods additive ebm`` measures some pairs of data set and method.
Numbers are kept in a JSON file, benchmarks/glass_box.json, and the page shows what is there. EBMs are fitted in one
process, so that all of their CPU time counts.
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
_RESULTS = pathlib.Path("benchmarks/glass_box.json")
_PAGE = pathlib.Path("docs/glass-box-benchmark.md")
_PICTURE = pathlib.Path("docs/images/glass-box-benchmark.png")
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
    options: dict[str, dict[str, Any]] = {
        "plain": {"recalibrate": False},
        "default": {},
        "simplified": {"simplify": True},
    }
    measured = {}
    for name, changes in options.items():
        model, cpu = _timed(lambda changes=changes: kind(n_jobs=1, **changes).fit(data.X, data.y))  # type: ignore[misc]
        measured[name] = _numbers(model, data, cpu)
    path = model.simplification_
    sizes = [] if path is None else list(path.path["n_terms"])
    for most in _SIZES:
        smaller = [size for size in sizes if size <= most]
        if smaller:
            some = kind.from_decomposition(path.at(max(smaller)))
            measured[f"{most} terms"] = _numbers(some, data, cpu)
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
_MODELS = ("ensemble", "plain", "default", "simplified", "20 terms", "10 terms", "EBM", "depth 2", "splines", "L1")


# Running, and the page


def run(
    *,
    full: bool = False,  # noqa: ARG001  all that it measures is small
    quick: bool = False,
    data: Sequence[str] = tuple(DATA),
    methods: Sequence[str] = tuple(METHODS),
    repeats: int = 5,
    rows: int | None = None,
    results: pathlib.Path = _RESULTS,
) -> None:
    """Measure what is not yet in the file of results, and write the page from all that is there."""
    most, repeats = (_QUICK_ROWS, 1) if quick else (rows, repeats)
    of_size = f"{most} rows" if most else "all rows"
    for repeat in range(repeats):
        for name in data:
            for method in methods:
                place = of_size, name, str(repeat), method
                if _missing(_kept(results), place):
                    _keep(results, place, METHODS[method](split(name, repeat, most)))
    measured = _kept(results).get(of_size, {})
    text = page(measured, most)
    print(text)
    if not quick:
        _PAGE.write_text(text, encoding="utf-8")
        draw(measured)


def _kept(results: pathlib.Path) -> dict[str, Any]:
    return json.loads(results.read_text(encoding="utf-8")) if results.is_file() else {}


def _missing(kept: dict[str, Any], place: Sequence[str]) -> bool:
    for key in place:
        if key not in kept:
            return True
        kept = kept[key]
    return False


def _keep(results: pathlib.Path, place: Sequence[str], numbers: dict[str, Numbers]) -> None:
    """Add numbers to the file as it is now: several runs may measure different methods."""
    kept = inner = _kept(results)
    for key in place[:-1]:
        inner = inner.setdefault(key, {})
    inner[place[-1]] = numbers
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(kept, indent=1), encoding="utf-8")


Models = dict[str, dict[str, Numbers]]  # numbers by model and split


def page(kept: dict[str, Any], most: int | None = None) -> str:
    """Return the page: means over the splits that have been measured, and how EBMs compare."""
    means = {name: _by_model(splits) for name, splits in kept.items()}
    losses, seconds = (
        [[name, *(_mean_text(models.get(model), key, form) for model in _MODELS)] for name, models in means.items()]
        for key, form in (("loss", ".4g"), ("cpu", ".1f"))
    )
    sizes = [
        [name, *(_sizes_text(models.get(model)) for model in ("default", "simplified", "EBM"))]
        for name, models in means.items()
    ]
    limit = f"At most {most:,} rows were used for training. " if most else ""
    return "\n".join(
        [
            "# Glass boxes on ten data sets",
            "",
            f"`python -m benchmarks glass_box{f' --rows {most}' if most else ''}` computes this page: mean test loss",
            "(squared error, or log loss) over random splits with 30 % test rows, and CPU seconds in fit.",
            f"{limit}Of TreeANOVA's estimators, `default` has default settings, `plain` has `recalibrate=False`: the",
            "terms up to order 2 of the bag as they are, and `simplified` has `simplify=True`: the smallest model in",
            "one standard error. EBMs have default settings; `ensemble` is a bag of histogram boosting of any depth.",
            "",
            "![Differences of test losses to EBMs, in percent, with standard errors](images/glass-box-benchmark.png)",
            "",
            "## Against EBMs",
            "",
            "Differences of test losses to EBMs on the same splits, in percent of the EBMs' loss, and their standard",
            "errors over splits; below zero, TreeANOVA is better. CPU is that of EBMs over that of TreeANOVA.",
            "",
            table_text(["data", "splits", *_COMPARED, "CPU, default", "CPU, simplified"], _against(means)),
            _verdict(means),
            "",
            "## Test loss",
            "",
            "A dash stands for what has not been measured.",
            "",
            table_text(["data", *_MODELS], losses),
            "## CPU seconds in fit",
            "",
            table_text(["data", *_MODELS], seconds),
            "## Terms, median steps of main effects, cells",
            "",
            table_text(["data", "default", "simplified", "EBM"], sizes),
        ]
    )


def _by_model(splits: dict[str, Any]) -> Models:
    models: Models = {}
    for number, methods in splits.items():
        for measured in methods.values():
            for model, numbers in measured.items():
                models.setdefault(model, {})[number] = numbers
    return models


def _verdict(means: dict[str, Models]) -> str:
    """Say on how many data sets the default is better, and on which it is worse by more than one standard error."""
    found = {name: _difference(models, "default") for name, models in means.items()}
    known = {name: numbers for name, numbers in found.items() if numbers is not None}
    better = sum(mean < 0 for mean, _ in known.values())
    worse = [name for name, (mean, error) in known.items() if mean > error]
    words = f"By more than one standard error, it is worse on: {', '.join(worse)}." if worse else ""
    none = "It is worse by more than one standard error on none." if not worse else words
    return f"The default has the lower mean loss on {better} of {len(known)} data sets. {none}"


def _mean_text(splits: dict[str, Numbers] | None, key: str, form: str) -> str:
    return format(np.mean([numbers[key] for numbers in splits.values()]), form) if splits else "–"


def _sizes_text(splits: dict[str, Numbers] | None) -> str:
    return " / ".join(_mean_text(splits, key, ",.0f") for key in ("terms", "steps", "cells"))


_COMPARED = ("default", "plain", "simplified", "depth 2")


def _against(means: dict[str, Models]) -> list[list[str]]:
    rows = []
    for name, models in means.items():
        found = [_difference(models, model) for model in _COMPARED]
        if "EBM" in models and found[0] is not None:
            texts = ["–" if one is None else f"{one[0]:+.1f} ± {one[1]:.1f}" for one in found]
            ratios = [_ratio(models, model) for model in ("default", "simplified")]
            rows.append([name, str(len(_common(models, "default"))), *texts, *ratios])
    return rows


def _common(models: Models, model: str) -> list[str]:
    return [number for number in models.get(model, {}) if number in models.get("EBM", {})]


def _ratio(models: Models, model: str) -> str:
    ratios = [models["EBM"][number]["cpu"] / models[model][number]["cpu"] for number in _common(models, model)]
    return f"{np.mean(ratios):.1f}" if ratios else "–"


def _difference(models: Models, model: str) -> tuple[float, float] | None:
    """Return the mean difference to EBMs on the same splits, in percent of theirs, and its standard error."""
    losses = [(models[model][number]["loss"], models["EBM"][number]["loss"]) for number in _common(models, model)]
    if not losses:
        return None
    ours, theirs = np.array(losses).T
    changes = 100 * (ours - theirs) / theirs.mean()
    return float(changes.mean()), float(changes.std(ddof=1) / np.sqrt(len(changes))) if len(changes) > 1 else 0.0


def draw(kept: dict[str, Any]) -> None:
    """Draw differences of test losses to EBMs."""
    pyplot = importlib.import_module("matplotlib.pyplot")
    means = {name: models for name, splits in kept.items() if "EBM" in (models := _by_model(splits))}
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for shift, (model, marker) in enumerate(zip(_COMPARED, "os^x", strict=True)):
        found = [_difference(models, model) for models in means.values()]
        places = [i + 0.15 * (shift - 1.5) for i, one in enumerate(found) if one is not None]
        known = [one for one in found if one is not None]
        if known:
            numbers, errors = zip(*known, strict=True)
            axes.errorbar(numbers, places, xerr=errors, fmt=marker, label=model, markersize=5, linewidth=1)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xscale("symlog", linthresh=5)
    axes.set_yticks(range(len(means)), list(means))
    axes.invert_yaxis()
    axes.set_xlabel("test loss minus that of EBMs, in percent (left: better than EBMs)")
    axes.legend(frameon=False)
    figure.savefig(_PICTURE, dpi=150)
    pyplot.close(figure)
