"""Whether two versions of treeanova give the same numbers: decompositions of all kinds, written by each and compared.

``python -m benchmarks.same_numbers write before.npz`` trains small models on simulated rows, decomposes them and writes
terms, scores and importances; run it with each version (PYTHONPATH chooses). Training is on one thread with fixed
seeds, so that two runs of one version write the same bits. ``python -m benchmarks.same_numbers compare before.npz
after.npz`` then prints the largest differences, and its exit status is 1 where one is above its limit:

- terms, pure and raw, remainder, intercept and score: 1e-12 of the largest absolute score;
- columns of the importances and probabilities: 1e-9 of the largest number of their kind;
- the certificate: the same verdict, and a reconstruction error within 1e-12 of the other (it is relative already).

Of the cases in `FREE` only the score, the probabilities and the verdict must stay.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import treeanova
from benchmarks.timing import print_table

Floats = npt.NDArray[np.float64]
Arrays = Mapping[str, npt.NDArray[Any]]
Step = Callable[[treeanova.Decomposition, "Data"], treeanova.Decomposition]
_ROWS, _EXPLAINED, _FEATURES = 2_500, 200, 7
_SCORE_LIMIT, _OTHER_LIMIT = 1e-12, 1e-9
_MEASURES = ("variance", "covariance", "share", "mean_abs")


# Data


@dataclasses.dataclass(frozen=True, eq=False)
class Data:
    """Simulated rows, their target and weights, and fresh rows to explain."""

    X: Any
    y: Any
    weights: Floats
    rows: Any
    is_class: bool = False


def _normal(n_rows: int, seed: int) -> Floats:
    """Normal columns, each correlated with the one before."""
    X = np.random.default_rng(seed).normal(size=(n_rows, _FEATURES))
    for j in range(1, _FEATURES):
        X[:, j] = 0.6 * X[:, j - 1] + 0.8 * X[:, j]
    return X


def _score(X: Floats) -> Floats:
    """A function with interactions of orders 2 and 3; missing values act as 0.3."""
    a, b, c, d, e, f, g = np.nan_to_num(X, nan=0.3).T
    noise = np.random.default_rng(9).normal(size=len(X))
    total: Floats = (
        np.sin(2 * a) + a * b + np.maximum(c, d) * (e > 0) + 0.5 * a * c * e + 0.3 * f * (g > 0) + 0.2 * noise
    )
    return total


def _with_gaps(X: Floats, seed: int) -> Floats:
    return np.where(np.random.default_rng(seed).random(X.shape) < 0.1, np.nan, X)


def _table(X: Floats, seed: int, *, gaps: bool) -> Any:
    """A pandas table of two numbers, a count and two columns of categories; with gaps, some of all are missing."""
    pandas = importlib.import_module("pandas")
    kinds = np.array(["blue", "green", "red", "white"])[np.digitize(X[:, 3], [-0.7, 0.0, 0.9])]
    places = np.array([f"place {i}" for i in (3, 0, 7, 5, 1, 8, 2, 6, 4)])[np.digitize(X[:, 4], np.linspace(-2, 2, 8))]
    table = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "n": np.floor(2 * X[:, 2]), "kind": kinds, "place": places})
    if not gaps:
        return table
    dtypes = {"kind": pandas.CategoricalDtype(np.unique(kinds)), "place": pandas.CategoricalDtype(np.unique(places))}
    return table.mask(np.isnan(_with_gaps(X, seed))[:, :5]).astype(dtypes)


def _numbers(X: Floats, seed: int) -> Any:
    del seed
    return X


def _polars(X: Floats, seed: int) -> Any:
    return importlib.import_module("polars").from_pandas(_table(X, seed, gaps=False))


_TABLES: dict[str, Callable[[Floats, int], Any]] = {
    "numbers": _numbers,
    "few": lambda X, _: X[:, :3].round(1),
    "gaps": _with_gaps,
    "categories": functools.partial(_table, gaps=True),
    "labels": functools.partial(_table, gaps=False),
    "polars": _polars,
}
_TARGETS: dict[str, Callable[[Floats], Any]] = {
    "score": lambda score: score,
    "counts": lambda score: np.round(np.exp(score / 2)),
    "targets": lambda score: np.stack([score, np.abs(score)], axis=1),
    "two classes": lambda score: score > 0.2,
    "three classes": lambda score: np.digitize(score, [-0.5, 0.8]),
}


@functools.cache
def _data(table: str, target: str) -> Data:
    """Rows of one kind with a target of one kind."""
    X, fresh = _normal(_ROWS, 0), _normal(_EXPLAINED, 1)
    make = _TABLES[table]
    weights = np.random.default_rng(2).gamma(2.0, size=_ROWS)
    y = _TARGETS[target](_score(X))
    return Data(make(X, 3), y, weights, make(fresh, 4), is_class=target.endswith("classes"))


# Models

_SEED = {"random_state": 0}
_ONE_JOB = _SEED | {"n_jobs": 1}
_EQUAL_BINS = {"max_bins": 24, "max_interaction_bins": 24}
# Module and start of the name of the class, and what is set for all models of the library.
_LIBRARIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "xgboost": ("xgboost", "XGB", _ONE_JOB | {"n_estimators": 30, "learning_rate": 0.2}),
    "lightgbm": (
        "lightgbm",
        "LGBM",
        _ONE_JOB | {"n_estimators": 30, "verbose": -1, "deterministic": True, "force_row_wise": True},
    ),
    "catboost": (
        "catboost",
        "CatBoost",
        {"random_seed": 0, "thread_count": 1, "verbose": False, "allow_writing_files": False, "iterations": 30},
    ),
    "tree": ("sklearn.tree", "DecisionTree", _SEED),
    "forest": ("sklearn.ensemble", "RandomForest", _ONE_JOB | {"n_estimators": 10}),
    "extra trees": ("sklearn.ensemble", "ExtraTrees", _ONE_JOB | {"n_estimators": 10}),
    "boosting": ("sklearn.ensemble", "GradientBoosting", _SEED | {"n_estimators": 30}),
    "hist": ("sklearn.ensemble", "HistGradientBoosting", _SEED | {"max_iter": 30, "early_stopping": False}),
    "adaboost": ("sklearn.ensemble", "AdaBoost", _SEED | {"n_estimators": 15}),
    "ebm": ("interpret.glassbox", "ExplainableBoosting", _ONE_JOB | {"outer_bags": 2, "max_rounds": 200}),
}


def _fitted(library: str, data: Data, *, weighted: bool, **options: Any) -> Any:
    """A trained model; the depth of AdaBoost is that of its trees."""
    module, name, fixed = _LIBRARIES[library]
    make = getattr(importlib.import_module(module), name + ("Classifier" if data.is_class else "Regressor"))
    if library == "adaboost":
        options = {"estimator": importlib.import_module("sklearn.tree").DecisionTreeClassifier(**options)}
    model = make(**fixed | options)
    return model.fit(data.X, data.y, sample_weight=data.weights) if weighted else model.fit(data.X, data.y)


# Cases


class Case(NamedTuple):
    """A decomposition: a model of some data, how it is decomposed, and what is then made of that."""

    library: str
    depth: int | None = 2
    table: str = "numbers"
    target: str = "score"
    model: Mapping[str, Any] = {}
    how: Mapping[str, Any] = {}
    weighted: bool = False
    has_rows: bool = True
    then: Step | None = None

    @property
    def data(self) -> Data:
        """Rows and target."""
        return _data(self.table, self.target)

    def fitted(self) -> Any:
        """The trained model."""
        depth = {} if self.depth is None else {"depth" if self.library == "catboost" else "max_depth": self.depth}
        return _fitted(self.library, self.data, weighted=self.weighted, **depth | dict(self.model))

    def decomposed(self) -> treeanova.Decomposition:
        """The decomposition."""
        data = self.data
        rows = data.X if self.has_rows else None
        weights = data.weights if self.weighted else None
        fx = treeanova.decompose(self.fitted(), rows, sample_weight=weights, n_jobs=1, **self.how)
        return fx if self.then is None else self.then(fx, data)


def _under_tables(fx: treeanova.Decomposition, _: Data) -> treeanova.Decomposition:
    """Under given tables: one of two features that depend on each other, and one of the third."""
    sizes = [len(fx.terms[name].values) for name in ("x0", "x1", "x2")]
    rng = np.random.default_rng(5)
    near = np.exp(-3 * (np.linspace(0, 1, sizes[0])[:, None] - np.linspace(0, 1, sizes[1])) ** 2)
    return fx.with_density({("x0", "x1"): near * rng.random(near.shape), "x2": rng.random(sizes[2])})


def _under_other_rows(fx: treeanova.Decomposition, data: Data) -> treeanova.Decomposition:
    return fx.with_density("empirical", data.X[::2], sample_weight=data.weights[::2])


def _plus(other: Case) -> Step:
    return lambda fx, _: fx + other.decomposed()


def _minus(other: Case) -> Step:
    return lambda fx, _: fx - other.decomposed()


def _mean_with(*others: Case) -> Step:
    return lambda fx, _: treeanova.mean([fx, *(other.decomposed() for other in others)])


def _under(density: str) -> Step:
    return lambda fx, _: fx.with_density(density)


def _bag(seed: int) -> Case:
    return Case("boosting", model={"random_state": seed, "subsample": 0.5})


_LEAVES = {"num_leaves": 64, "min_child_samples": 5}
_FEW = {"n_estimators": 15}
_DEEP_XGBOOST = Case("xgboost", 6, model=_FEW)
_CAT = {"cat_features": ["kind", "place"]}
_ONE_HOT = _CAT | {"one_hot_max_size": 10}

SHALLOW: dict[str, Case] = {
    "xgboost, auto": Case("xgboost"),
    "xgboost, kernel": Case("xgboost", how={"density": "kernel"}),
    "xgboost, empirical": Case("xgboost", how={"density": "empirical"}),
    "xgboost, laplace": Case("xgboost", how={"density": "laplace"}),
    "xgboost, independent": Case("xgboost", how={"density": "independent"}),
    "xgboost, shrinkage": Case("xgboost", how={"density": "shrinkage"}),
    "xgboost, uniform without rows": Case("xgboost", how={"density": "uniform"}, has_rows=False),
    "xgboost, tables": Case("xgboost", 3, "few", how={"density": "empirical"}, then=_under_tables),
    "xgboost, missing, two classes, depth 3": Case("xgboost", 3, "gaps", "two classes"),
    "xgboost, three classes": Case("xgboost", 2, "numbers", "three classes", how={"density": "empirical"}),
    "xgboost, categories": Case("xgboost", 2, "categories", model={"enable_categorical": True}),
    "lightgbm, weights, depth 3": Case("lightgbm", 3, weighted=True),
    "lightgbm, categories, two classes": Case("lightgbm", 2, "categories", "two classes", how={"density": "laplace"}),
    "catboost, categories": Case("catboost", 2, "labels", model=_ONE_HOT, how={"density": "empirical"}),
    "catboost, target statistics": Case("catboost", table="labels", model=_CAT | {"max_ctr_complexity": 1}),
    "catboost, three classes, depth 3": Case("catboost", 3, "gaps", "three classes"),
    "tree, depth 3": Case("tree", 3, "gaps"),
    "forest, three classes, depth 3": Case("forest", 3, "numbers", "three classes"),
    "extra trees, two targets, depth 3": Case("extra trees", 3, "numbers", "targets", how={"density": "shrinkage"}),
    "boosting, depth 1": Case("boosting", 1),
    "boosting, depth 3, up to order 2": Case("boosting", 3, how={"max_order": 2}),
    "hist, categories, depth 3": Case("hist", 3, "categories", model={"categorical_features": "from_dtype"}),
    "hist, counts, weights": Case(
        "hist", 2, "numbers", "counts", model={"loss": "poisson"}, how={"density": "kernel"}, weighted=True
    ),
    "adaboost, two classes": Case("adaboost", 2, "numbers", "two classes"),
    "ebm": Case("ebm", None, model=_EQUAL_BINS | {"interactions": 4}),
    "ebm, labels of polars, two classes": Case(
        "ebm", None, "polars", "two classes", model=_EQUAL_BINS | {"interactions": 3}, how={"density": "empirical"}
    ),
    "ebm, up to order 1": Case("ebm", None, "gaps", model=_EQUAL_BINS | {"interactions": 3}, how={"max_order": 1}),
}
DEEP: dict[str, Case] = {
    "deep xgboost, auto": _DEEP_XGBOOST,
    "deep xgboost, independent, missing": Case("xgboost", 6, "gaps", model=_FEW, how={"density": "independent"}),
    "deep xgboost, two targets, kernel": Case("xgboost", 6, "numbers", "targets", _FEW, {"density": "kernel"}),
    "deep lightgbm, empirical": Case("lightgbm", 7, model=_LEAVES | _FEW, how={"density": "empirical"}),
    "deep lightgbm, categories, weights": Case(
        "lightgbm", 6, "categories", model=_LEAVES | _FEW, how={"density": "laplace"}, weighted=True
    ),
    "deep catboost, three classes": Case(
        "catboost", 6, "numbers", "three classes", {"iterations": 20}, {"density": "empirical"}
    ),
    "deep forest, up to order 2": Case("forest", 8, how={"max_order": 2}),
    "deep forest, merged bins": Case("forest", 8, how={"density": "empirical", "budget": 2.1e7}),
    "deep hist, uniform": Case("hist", 6, "gaps", "two classes", {"max_iter": 10}, {"density": "uniform"}),
    "deep extra trees, shrinkage": Case("extra trees", 6, how={"density": "shrinkage", "tensor_order": 2}),
    "deep boosting, tables": Case(
        "boosting", 6, "few", model=_FEW, how={"density": "empirical", "tensor_order": 2}, then=_under_tables
    ),
}
MADE: dict[str, Case] = {
    "xgboost + lightgbm": Case("xgboost", then=_plus(Case("lightgbm", 3))),
    "xgboost - lightgbm": Case("xgboost", how={"density": "empirical"}, then=_minus(Case("lightgbm"))),
    "mean of a bag": _bag(0)._replace(then=_mean_with(_bag(1), _bag(2))),
    "deep xgboost - xgboost": _DEEP_XGBOOST._replace(then=_minus(Case("xgboost"))),
    "mean of two deep lightgbm": Case(
        "lightgbm", 6, model=_LEAVES | _FEW, how={"density": "empirical"}, then=_mean_with(Case("lightgbm", 4))
    ),
    "xgboost, then uniform": Case("xgboost", 3, then=_under("uniform")),
    "xgboost, then other rows": Case("xgboost", then=_under_other_rows),
    "deep xgboost, then laplace": _DEEP_XGBOOST._replace(then=_under("laplace")),
    "boosting, order 1": Case("boosting", 3, then=lambda fx, _: fx.select(order=1)),
    "boosting without x1": Case("boosting", 3, then=lambda fx, _: fx.drop("x1")),
    "deep xgboost, three features": _DEEP_XGBOOST._replace(then=lambda fx, _: fx.select(features=["x0", "x2", "x4"])),
}
# By default main effects of an EBM have other bins than its pairs, and how these meet is a definition that may change.
FREE: dict[str, Case] = {"ebm-default-bins": Case("ebm", None, model={"interactions": 3}, how={"density": "empirical"})}
CASES = SHALLOW | DEEP | MADE | FREE


# Writing


def numbers_of(fx: treeanova.Decomposition, data: Data) -> dict[str, npt.NDArray[Any]]:
    """All that is compared, by name; terms are in the order of their names."""
    certificate = fx.certificate
    found = {
        "intercept": np.asarray(fx.intercept),
        "score": fx.decision_function(data.rows),
        "met": np.asarray(certificate.is_pure),
        "reconstruction error": np.asarray(certificate.reconstruction_error),
    }
    if data.is_class:
        found["probabilities"] = fx.predict_proba(data.rows)
    return found | _explained("pure", fx, data) | _explained("raw", fx.raw, data) | _importances(fx)


def _explained(kind: str, fx: treeanova.Decomposition, data: Data) -> dict[str, npt.NDArray[Any]]:
    explained = fx.explain(data.rows)
    names = np.array([" × ".join(sorted(term)) for term in explained.terms], dtype=str)
    order = np.argsort(names)
    found = {f"{kind} names": names[order], f"{kind} terms": explained.values[:, order]}
    return found if explained.remainder is None else found | {f"{kind} remainder": explained.remainder}


def _importances(fx: treeanova.Decomposition) -> dict[str, npt.NDArray[Any]]:
    table = fx.importance()
    names = np.asarray(table["term"], dtype=str)
    if "output" in table.columns:
        names = np.array([f"{term} of {output}" for term, output in zip(names, table["output"], strict=True)])
    order = np.argsort(names)
    measures = np.stack([np.asarray(table[measure], dtype=np.float64) for measure in _MEASURES])
    return {"importance names": names[order], "importances": measures[:, order]}


def write(path: str) -> None:
    """Decompose all cases and write their numbers."""
    print(f"treeanova of {treeanova.__file__}")
    arrays: dict[str, Any] = {}
    start = time.perf_counter()
    for name, case in CASES.items():
        began = time.perf_counter()
        found = numbers_of(case.decomposed(), case.data)
        arrays |= {f"{name}/{what}": values for what, values in found.items()}
        print(f"{name}: {len(found['pure names'])} terms, {time.perf_counter() - began:.1f} s", flush=True)
    np.savez_compressed(path, **arrays)
    print(f"{len(CASES)} decompositions in {time.perf_counter() - start:.0f} s")


# Comparing


class Difference(NamedTuple):
    """Largest differences of one case, each relative to the largest number of its kind."""

    terms: float
    score: float
    importances: float
    others: float

    def is_within(self, *, is_free: bool) -> bool:
        """Whether all that must stay did."""
        kept = self.score <= _SCORE_LIMIT and self.others <= _OTHER_LIMIT
        return kept and (is_free or (self.terms <= _SCORE_LIMIT and self.importances <= _OTHER_LIMIT))


def difference(before: Arrays, after: Arrays) -> Difference:
    """How far the numbers of one case lie apart."""
    gap = functools.partial(_gap, before, after)
    scale = _largest(before["score"])
    shares, sizes = _largest(before["importances"][:3]), _largest(before["importances"][3])
    by_row = [f"{kind} {what}" for kind in ("pure", "raw") for what in ("names", "terms", "remainder")]
    return Difference(
        terms=max(gap(what, scale) for what in ["intercept", *by_row]),
        score=max(gap("score", scale), gap("reconstruction error")),
        importances=max(gap("importance names"), gap("importances", np.array([[shares]] * 3 + [[sizes]]))),
        others=max(gap("probabilities"), gap("met")),
    )


def _largest(values: npt.NDArray[Any]) -> float:
    """Largest absolute number; 1 where all are 0."""
    return float(np.abs(values).max(initial=0.0)) or 1.0


def _gap(before: Arrays, after: Arrays, what: str, scale: float | Floats = 1.0) -> float:
    """Largest difference of two arrays of a name; infinite where one is absent, of another shape or of other names."""
    if what not in before and what not in after:
        return 0.0
    one, two = before.get(what), after.get(what)
    if one is None or two is None or one.shape != two.shape:
        return np.inf
    if one.dtype.kind == "U":
        return 0.0 if np.array_equal(one, two) else np.inf
    one, two = one.astype(np.float64), two.astype(np.float64)
    gap = np.where(np.isnan(one) == np.isnan(two), np.nan_to_num(np.abs(one - two) / scale), np.inf)
    return float(gap.max(initial=0.0))


def _read(path: str) -> dict[str, dict[str, npt.NDArray[Any]]]:
    """Arrays by case and name."""
    found: dict[str, dict[str, npt.NDArray[Any]]] = {}
    with np.load(path) as archive:
        for key in archive.files:
            name, _, what = key.rpartition("/")
            found.setdefault(name, {})[what] = archive[key]
    return found


def compare(first: str, second: str) -> int:
    """Print the largest differences of two files; the exit status."""
    before, after = _read(first), _read(second)
    rows, n_off = [], 0
    for name in [*before, *(name for name in after if name not in before)]:
        if name not in before or name not in after:
            found = Difference(*[np.inf] * 4)
        else:
            found = difference(before[name], after[name])
        is_within = found.is_within(is_free=name in FREE)
        n_off += not is_within
        rows.append(_row(name, before.get(name, {}), found, is_within=is_within))
    print_table(["decomposition", "terms", "of terms", "of the score", "of importances", "of others", "same"], rows)
    print(f"\nRelative limits: {_SCORE_LIMIT:.0e} for terms and score, {_OTHER_LIMIT:.0e} for importances and others.")
    print(
        f"{n_off} of {len(rows)} decompositions differ." if n_off else f"All {len(rows)} decompositions are the same."
    )
    return int(n_off > 0)


def _row(name: str, before: Arrays, found: Difference, *, is_within: bool) -> list[str]:
    n_terms = len(before.get("pure names", ()))
    verdict = "yes" if is_within else "NO"
    if name in FREE and is_within:
        verdict = "yes; terms and importances may differ"
    return [name, str(n_terms), *(f"{gap:.0e}" if gap else "0" for gap in found), verdict]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or compare; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_numbers")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("write", help="decompose all cases and write their numbers").add_argument("file")
    both = commands.add_parser("compare", help="print the largest differences of two such files")
    both.add_argument("before")
    both.add_argument("after")
    given = parser.parse_args(arguments)
    if given.command == "compare":
        return compare(given.before, given.after)
    threads = importlib.import_module("threadpoolctl")  # comes with scikit-learn; hist gradient boosting has no n_jobs
    with threads.threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what libraries say of names or missing values is not at stake
        write(given.file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
