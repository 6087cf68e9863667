"""Whether screening of deep models misses terms: what was left out, compared with all terms at rows.

Deep models of several libraries are decomposed with screening, also those whose terms would all be listed. Then all
terms of high order are enumerated and evaluated at 2,000 rows. The share of a term is its mean square at these rows
over the variance of the score, the largest of all outputs; no term left out may have more than 0.2 %. The certificate's
own estimate of that share stands next to it.

There are 20 models on simulated data and on data that come with scikit-learn, and some on California housing and the
census income table where their files are present. ``--full`` adds larger ones, and the column "corrected": the same
share in a decomposition that lists and corrects all terms, where there is one. Screening corrects the largest only.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import treeanova
from benchmarks.decompose import california_housing
from benchmarks.timing import print_table
from studies.common import data_folder
from treeanova.core.arrays import BinIndices, Floats, Key
from treeanova.data.columns import encode
from treeanova.decomposition.predictions import function_of
from treeanova.model.rows import Rows
from treeanova.terms import layout
from treeanova.terms.terms import PureLeafTerms

_LIMIT = 2e-3
_ROWS, _BLOCK = 2_000, 100
_LOW_ROW_COST = 2.0**10
_COST_LIMITS = "_LISTED_COST", "_MAX_ROW_COST"  # by version
Data = tuple[Any, Any]
Fit = Callable[[Any, Any], Any]


# Data


def _normal(n_features: int, correlation: float, n_rows: int = 5_000) -> Data:
    """Normal features with equal correlations, and a target with interactions of orders 2 to 4."""
    rng = np.random.default_rng(n_features)
    common = rng.normal(size=(n_rows, 1))
    rows = np.sqrt(1 - correlation) * rng.normal(size=(n_rows, n_features)) + np.sqrt(correlation) * common
    a, b, c, d, e, f = rows[:, :6].T
    target = np.sin(2 * a) + a * b + c * d * (e > 0) + 0.5 * a * c * e * np.sign(f) + 0.3 * rows.sum(axis=1)
    return rows, target + 0.5 * rng.normal(size=n_rows)


def _parity(n_features: int, correlation: float = 0.0) -> Data:
    """The sign of a product of four features: one term of order 4 carries all."""
    rows, _ = _normal(n_features, correlation)
    return rows, np.sign(rows[:, :4]).prod(axis=1) + 0.3 * np.random.default_rng(1).normal(size=len(rows))


def _latent(n_features: int, n_rows: int = 5_000) -> Data:
    """Features in groups that share a latent factor with strong correlation, and skewed ones."""
    rng = np.random.default_rng(3)
    factors = rng.normal(size=(n_rows, 3))
    rows = factors[:, np.arange(n_features) % 3] + 0.4 * rng.normal(size=(n_rows, n_features))
    rows[:, ::4] = np.exp(rows[:, ::4])
    target = np.maximum(rows[:, 0], rows[:, 1]) * (rows[:, 2] > 0) + rows[:, 3] * rows[:, 4] * rows[:, 5]
    return rows, np.tanh(target) + 0.2 * rng.normal(size=n_rows)


def _friedman() -> Data:
    rows, target = importlib.import_module("sklearn.datasets").make_friedman1(4_000, 10, noise=1.0, random_state=0)
    return rows, target


def _classes() -> Data:
    make = importlib.import_module("sklearn.datasets").make_classification
    rows, target = make(4_000, 10, n_informative=6, n_redundant=3, n_classes=3, random_state=0)
    return rows, target


def _bundled(name: str) -> Data:
    """A table that comes with scikit-learn."""
    rows, target = getattr(importlib.import_module("sklearn.datasets"), f"load_{name}")(return_X_y=True)
    return rows, target


def _adult() -> Data:
    """The census income table, text as categories; FileNotFoundError where the file is absent."""
    pandas = importlib.import_module("pandas")
    table = pandas.read_csv(data_folder() / "adult.csv.gz")
    income = next(name for name in table.columns if name.lower() in ("income", "class", "target", "salary"))
    target = pandas.factorize(table.pop(income))[0]
    table = table.drop(columns="split", errors="ignore")
    texts = [name for name in table.columns if not pandas.api.types.is_numeric_dtype(table[name])]
    return table.astype(dict.fromkeys(texts, "category")), target


# Models


def _xgboost(n_trees: int, depth: int, kind: str = "Regressor") -> Fit:
    def fit(rows: Any, target: Any) -> Any:
        make = getattr(importlib.import_module("xgboost"), f"XGB{kind}")
        return make(n_estimators=n_trees, max_depth=depth, n_jobs=1, random_state=0).fit(rows, target)

    return fit


def _lightgbm(n_trees: int, n_leaves: int, kind: str = "Regressor") -> Fit:
    def fit(rows: Any, target: Any) -> Any:
        make = getattr(importlib.import_module("lightgbm"), f"LGBM{kind}")
        options = {"n_jobs": 1, "verbose": -1, "random_state": 0, "deterministic": True}
        return make(n_estimators=n_trees, num_leaves=n_leaves, **options).fit(rows, target)

    return fit


def _catboost(n_trees: int, depth: int) -> Fit:
    def fit(rows: Any, target: Any) -> Any:
        make = importlib.import_module("catboost").CatBoostRegressor
        options = {"verbose": 0, "thread_count": 1, "allow_writing_files": False, "random_seed": 0}
        return make(iterations=n_trees, depth=depth, **options).fit(rows, target)

    return fit


def _sklearn(name: str, **options: Any) -> Fit:
    def fit(rows: Any, target: Any) -> Any:
        return getattr(importlib.import_module("sklearn.ensemble"), name)(random_state=0, **options).fit(rows, target)

    return fit


class Case(NamedTuple):
    """A model to be trained on data."""

    model: str
    data: str
    fit: Fit
    make: Callable[[], Data]


def _on_normals() -> Iterator[Case]:
    normal = functools.partial(functools.partial, _normal)
    for correlation in (0.0, 0.5, 0.9):
        data = f"8 normals, correlation {correlation}"
        yield Case("XGBoost, 100 x depth 6", data, _xgboost(100, 6), normal(8, correlation))
    yield Case("XGBoost, 60 x depth 8", "12 normals, correlation 0.5", _xgboost(60, 8), normal(12, 0.5))
    yield Case("XGBoost, 60 x depth 6", "30 normals, correlation 0.3", _xgboost(60, 6), normal(30, 0.3))
    yield Case("LightGBM, 200 x 31 leaves", "8 normals, correlation 0.6", _lightgbm(200, 31), normal(8, 0.6))
    yield Case("LightGBM, 60 x 63 leaves", "15 normals, correlation 0.3", _lightgbm(60, 63), normal(15, 0.3))
    yield Case("LightGBM, 50 x 127 leaves", "10 normals, correlation 0.9", _lightgbm(50, 127), normal(10, 0.9))
    yield Case("CatBoost, 200 x depth 6", "10 normals, correlation 0.5", _catboost(200, 6), normal(10, 0.5))
    forest = _sklearn("RandomForestRegressor", n_estimators=30, max_depth=9, n_jobs=1)
    yield Case("random forest, 30 x depth 9", "8 normals, correlation 0.6", forest, normal(8, 0.6))
    extra = _sklearn("ExtraTreesRegressor", n_estimators=30, max_depth=8, n_jobs=1)
    yield Case("extra trees, 30 x depth 8", "8 normals, correlation 0.9", extra, normal(8, 0.9))


def _on_other_simulations() -> Iterator[Case]:
    boosted = _sklearn("HistGradientBoostingRegressor", max_iter=100)
    yield Case("hist. gradient boosting, 100 x 31 leaves", "Friedman's function", boosted, _friedman)
    gradient = _sklearn("GradientBoostingRegressor", n_estimators=100, max_depth=5)
    yield Case("gradient boosting, 100 x depth 5", "Friedman's function", gradient, _friedman)
    yield Case("XGBoost, 100 x depth 6", "parity of 4 of 10 normals", _xgboost(100, 6), functools.partial(_parity, 10))
    correlated = functools.partial(_parity, 8, 0.6)
    yield Case("LightGBM, 100 x 31 leaves", "parity of 4 of 8 normals, correlation 0.6", _lightgbm(100, 31), correlated)
    yield Case("XGBoost, 100 x depth 6", "12 features of 3 factors", _xgboost(100, 6), functools.partial(_latent, 12))
    yield Case("XGBoost, 40 x depth 5", "3 classes", _xgboost(40, 5, "Classifier"), _classes)


def _on_bundled_tables() -> Iterator[Case]:
    bundled = functools.partial(functools.partial, _bundled)
    yield Case("XGBoost, 100 x depth 5", "diabetes", _xgboost(100, 5), bundled("diabetes"))
    classifier = _lightgbm(100, 31, "Classifier")
    yield Case("LightGBM, 100 x 31 leaves", "breast cancer", classifier, bundled("breast_cancer"))
    forest = _sklearn("RandomForestClassifier", n_estimators=50, n_jobs=1)
    yield Case("random forest, 50 trees", "breast cancer", forest, bundled("breast_cancer"))


def _on_files(*, full: bool) -> Iterator[Case]:
    yield Case("XGBoost, 100 x depth 6", "California housing", _xgboost(100, 6), california_housing)
    yield Case("LightGBM, 200 x 31 leaves", "California housing", _lightgbm(200, 31), california_housing)
    yield Case("LightGBM, 100 x 31 leaves", "census income", _lightgbm(100, 31, "Classifier"), _adult)
    if full:
        yield Case("LightGBM, 2,000 x 31 leaves", "California housing", _lightgbm(2_000, 31), california_housing)
        yield Case("LightGBM, 500 x 127 leaves", "census income", _lightgbm(500, 127, "Classifier"), _adult)


def cases(*, full: bool) -> Iterator[Case]:
    """All models."""
    yield from _on_normals()
    yield from _on_other_simulations()
    yield from _on_bundled_tables()
    yield from _on_files(full=full)


# Comparison


@contextlib.contextmanager
def _screening_of_all() -> Iterator[None]:
    """Screening of all deep models: the limit of products per row, above which models are screened, is lowered."""
    limits = {name: getattr(layout, name) for name in _COST_LIMITS if hasattr(layout, name)}
    for name in limits:
        setattr(layout, name, _LOW_ROW_COST)
    try:
        yield
    finally:
        for name, limit in limits.items():
            setattr(layout, name, limit)


def _leaf_terms(fx: treeanova.Decomposition) -> PureLeafTerms | None:
    """Terms without tables; None where all have one."""
    terms = function_of(fx).terms
    return terms.leaf_terms if isinstance(terms.leaf_terms, PureLeafTerms) else None


def _some_codes(fx: treeanova.Decomposition, rows: Any) -> BinIndices:
    """Bins of 2,000 of the rows, or of all."""
    encoded = encode(rows, fx.schema)
    chosen = np.random.default_rng(5).permutation(len(encoded))[:_ROWS]
    return function_of(fx).terms.grid.index(Rows(encoded[chosen]))


def shares_of_variance(terms: PureLeafTerms, codes: BinIndices, keys: Sequence[Key]) -> Floats:
    """Mean square of each term at rows over the variance of the score there, the largest of all outputs."""
    score = terms.trees.forest.score(Rows.in_bins(terms.trees.grid, codes)).var(axis=0)
    squares = np.zeros((len(keys), len(score)))
    for start in range(0, len(codes), _BLOCK):
        squares += np.square(terms.at(codes[start : start + _BLOCK], keys, 1)).sum(axis=0) / len(codes)
    shares: Floats = np.divide(squares, score, out=np.zeros_like(squares), where=score > 0).max(axis=1)
    return shares


class Result(NamedTuple):
    """What screening listed and left out; shares are of the variance of the score."""

    n_terms: int
    n_listed: int
    largest: float
    term: str
    corrected: float | None
    estimate: float
    seconds: float


def compare(model: Any, rows: Any, *, full: bool) -> Result | None:
    """Screening of a model compared with all its terms; None where the model has no terms without tables."""
    with _screening_of_all():
        start = time.perf_counter()
        fx = treeanova.decompose(model, rows)
        seconds = time.perf_counter() - start
    terms, higher = _leaf_terms(fx), fx.certificate.higher
    if terms is None or higher is None or not terms.unlisted_orders:
        return None
    orders = range(terms.trees.layout.tensor_order + 1, terms.trees.layout.top_order + 1)
    keys = terms.trees.leaf_sets.subsets(orders)
    codes = _some_codes(fx, rows)
    left_out = [key for key in keys if key not in set(terms.keys)]
    shares = shares_of_variance(terms, codes, left_out)
    place = int(np.argmax(shares))
    return Result(
        len(keys),
        len(terms.keys),
        float(shares[place]),
        " & ".join(str(fx.feature_names_in_[j]) for j in left_out[place]),
        _largest_corrected(model, rows, codes, left_out) if full else None,
        higher.largest_missed,
        seconds,
    )


def _largest_corrected(model: Any, rows: Any, codes: BinIndices, left_out: Sequence[Key]) -> float | None:
    """Largest share of terms left out, of a decomposition that lists all terms; None where there is none."""
    asked: dict[str, Any] = {"terms": "all"} if "terms" in inspect.signature(treeanova.decompose).parameters else {}
    terms = _leaf_terms(treeanova.decompose(model, rows, **asked))
    if terms is None or terms.unlisted_orders or not set(left_out) <= set(terms.keys):
        return None
    return float(shares_of_variance(terms, codes, left_out).max())


def _shown(case: Case, result: Result) -> list[str]:
    corrected = "-" if result.corrected is None else f"{result.corrected:.3%}"
    counts = [f"{result.n_listed:,}", f"{result.n_terms - result.n_listed:,}"]
    shares = [f"{result.largest:.3%}", corrected, f"{result.estimate:.3%}"]
    return [case.model, case.data, *counts, *shares, result.term, f"{result.seconds:.1f}"]


def results(*, full: bool) -> Iterator[tuple[Case, Result]]:
    """Each model that can be trained here, with what screening left out."""
    for case in cases(full=full):
        try:
            data = case.make()
            model = case.fit(*data)
        except (ImportError, OSError, SystemExit) as error:
            print(f"left out: {case.model} on {case.data}: {error}")
            continue
        result = compare(model, data[0], full=full)
        if result is None:
            print(f"left out: {case.model} on {case.data}: nothing to screen")
            continue
        print(*_shown(case, result), sep=" | ", flush=True)
        yield case, result


def run(*, full: bool) -> None:
    """Compare and print a table, and the models of which too large a term was left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(results(full=full))
    header = ["model", "data", "listed", "left out", "largest left out", "corrected", "estimate", "term", "seconds"]
    print(f"\n{len(found)} models; shares of the variance of the score, at up to {_ROWS:,} rows\n")
    print_table(header, [_shown(*pair) for pair in found])
    print(f"\n{_verdict({f'{case.model} on {case.data}': result for case, result in found})}")


def _verdict(found: Mapping[str, Result]) -> str:
    above = [name for name, result in found.items() if max(result.largest, result.corrected or 0.0) > _LIMIT]
    below = sum(result.estimate < result.largest for result in found.values())
    text = f"No term left out has more than {_LIMIT:.1%}." if not above else f"Above {_LIMIT:.1%}: {'; '.join(above)}."
    return f"{text} The estimate is below the largest left out for {below} of {len(found)} models."
