"""decompose(): for every kind of model the terms add up to it and are pure; data that do not fit are told so."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import os
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.decompositions import as_matrix, assert_close, assert_marginals, assert_pure, bins_within
from tests.support.effects import pair_on_few_bins
from tests.support.forests import chains, random_forest, rows_on_bounds, scale_of
from tests.support.oracles import brute_force
from tests.support.recorded import Recorded
from tests.support.simulated import deep_model, named_rows
from tests.support.strategies import SEEDS
from tests.support.training import fit
from treeanova import bag, decompose, plan
from treeanova.core import progress as bar
from treeanova.density.kinds import Laplace, Reference, Shrinkage
from treeanova.errors import BudgetError, DensityWarning, UnsupportedModelError
from treeanova.model import Effects
from treeanova.model.axes import IntervalAxis
from treeanova.model.rows import Rows
from treeanova.terms import tree_model as making
from treeanova.terms.closed_form import expand

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
catboost = pytest.importorskip("catboost")
lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")
pytest.importorskip("sklearn")
pytest.importorskip("interpret")

import threadpoolctl  # noqa: E402
from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor  # noqa: E402
from sklearn.ensemble import (  # noqa: E402
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor  # noqa: E402

DENSITIES = ("empirical", "uniform", "laplace", "independent", "shrinkage")
N_ROWS = 300


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Small models are quicker without threads that wait for each other."""
    with threadpoolctl.threadpool_limits(1):
        yield


# Models and rows


def numbers(seed=0, *, missing=0.0, zeros=0.0, n_rows=N_ROWS):
    """A table of four dependent numeric features."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n_rows)
    table = pd.DataFrame(
        {
            "a": a,
            "b": np.round(0.7 * a + 0.7 * rng.normal(size=n_rows), 1),
            "c": np.clip(np.round(a + rng.normal(size=n_rows)), -2, 2),
            "d": 1e-3 * rng.normal(size=n_rows),
        }
    )
    table = table.mask(rng.random(table.shape) < zeros, 0.0)
    return table.mask(rng.random(table.shape) < missing)


def mixed(seed=0, *, missing=0.1, n_rows=N_ROWS):
    """Three numeric features and two of categories, as text."""
    rng = np.random.default_rng(seed + 1000)
    table = numbers(seed, missing=missing, n_rows=n_rows).drop(columns="d")
    table["e"] = np.where(table.a.fillna(0) > 0.5, "high", rng.choice(["low", "mid"], n_rows))
    table["f"] = rng.choice(list("uvwxyz"), n_rows)
    return table


def as_categories(table):
    return table.astype(dict.fromkeys(["e", "f"], "category"))


def number_target(table):
    a, b, c = table.a.fillna(0.5), table.b.fillna(-0.5), table.c.fillna(1.0)
    third = 500 * table.d.fillna(1e-3) if "d" in table else 1.0 * table.f.isin(list("uwz"))
    y = np.sin(2 * a) * b + (c > 0) * third + (0.5 * (table.e == "low") if "e" in table else 0.0)
    return (y + 0.1 * np.random.default_rng(9).normal(size=len(table))).to_numpy(dtype=float)


def classes(table, n_classes):
    y = number_target(table)
    return np.searchsorted(np.quantile(y, np.arange(1, n_classes) / n_classes), y)


def two_targets(table):
    y = number_target(table)
    return np.column_stack([y, y**2 - 1])


@dataclasses.dataclass(frozen=True)
class Case:
    """A fitted model, the rows of its density, held-out rows, and the library's own predictions."""

    model: Any
    train: Any
    held_out: Any
    raw: Callable[[Any], np.ndarray]
    response: Callable[[Any], np.ndarray] | None
    tolerance: float = 1e-9
    unseen: bool = True


def xgboost_case(kind, target, *, missing=0.1, **options):
    settings_ = {"n_estimators": 12, "max_depth": 3, "learning_rate": 0.5, "n_jobs": 1, "random_state": 0}
    x = numbers(missing=missing)
    model = fit(kind(**settings_ | options), x, target(x))
    response = model.predict_proba if kind is xgboost.XGBClassifier else model.predict
    raw = functools.partial(model.predict, output_margin=True)
    return Case(model, x, numbers(1, missing=missing), raw, response, tolerance=1e-5)


def xgboost_categories():
    x = as_categories(mixed())
    model = xgboost.XGBRegressor(n_estimators=12, max_depth=2, enable_categorical=True, n_jobs=1)
    fit(model, x, number_target(x))
    return Case(model, x, as_categories(mixed(1)), model.predict, model.predict, tolerance=1e-5, unseen=False)


def lightgbm_case(kind, target, make=numbers, **options):
    settings_ = {"n_estimators": 12, "max_depth": 3, "min_child_samples": 10, "n_jobs": 1, "verbose": -1}
    x, held_out = make(missing=0.1), make(1, missing=0.1)
    if "e" in x:
        x, held_out = as_categories(x), as_categories(held_out)
        settings_ |= {"max_depth": 2, "min_data_per_group": 5, "cat_smooth": 1.0}
    model = fit(kind(**settings_ | options), x, target(x))
    response = model.predict_proba if kind is lightgbm.LGBMClassifier else model.predict
    return Case(model, x, held_out, functools.partial(model.predict, raw_score=True), response)


def catboost_case(kind, target, make=numbers, *, raw_is_response=True, **options):
    settings_ = {"iterations": 12, "depth": 2, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
    x, held_out = make(missing=0.1), make(1, missing=0.1)
    if "e" in x:
        settings_["cat_features"] = ["e", "f"]
    model = fit(kind(**settings_ | options), x, target(x))
    response = model.predict if raw_is_response else model.predict_proba
    return Case(model, x, held_out, functools.partial(model.predict, prediction_type="RawFormulaVal"), response)


def sklearn_case(model, target, *, missing=0.0, raw=None, response=None):
    x = numbers(missing=missing)
    fit(model, x, target(x))
    last = model[-1] if hasattr(model, "steps") else model
    names = {"raw": raw or ("predict_proba" if hasattr(last, "predict_proba") else "predict")}
    names["response"] = response or names["raw"]
    raw_of, response_of = (getattr(model, names[name]) for name in ("raw", "response"))
    return Case(model, x, numbers(1, missing=missing), raw_of, response_of)


def second_class(case):
    """A case whose score is the probability of the second of two classes."""
    return dataclasses.replace(case, raw=lambda rows: case.response(rows)[:, 1])


def hist_case(kind, target, **options):
    x, held_out = as_categories(mixed()), as_categories(mixed(1))
    model = kind(max_iter=10, max_depth=2, categorical_features="from_dtype", random_state=0, **options)
    fit(model, x, target(x))
    if kind is HistGradientBoostingClassifier:
        return Case(model, x, held_out, model.decision_function, model.predict_proba)
    return Case(model, x, held_out, lambda rows: np.asarray(model._raw_predict(rows))[:, 0], model.predict)


def ebm_case(kind, target):
    x = mixed()
    options = {"outer_bags": 1, "max_rounds": 30, "max_bins": 16, "n_jobs": 1, "interactions": 3, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # interpret finds the rows few
        model = fit(kind(**options), x, target(x))
    if kind is ExplainableBoostingClassifier:
        return Case(model, x, mixed(1), model.decision_function, model.predict_proba)
    return Case(model, x, mixed(1), model.predict, model.predict)


two, three = functools.partial(classes, n_classes=2), functools.partial(classes, n_classes=3)


def counts(table):
    return np.floor(np.exp(number_target(table)))


CASES = {
    "xgboost": lambda: xgboost_case(xgboost.XGBRegressor, number_target),
    "xgboost binary": lambda: xgboost_case(xgboost.XGBClassifier, two),
    "xgboost multiclass": lambda: xgboost_case(xgboost.XGBClassifier, three, n_estimators=4, max_depth=2),
    "xgboost targets": lambda: xgboost_case(
        xgboost.XGBRegressor, two_targets, multi_strategy="multi_output_tree", tree_method="hist", max_depth=2
    ),
    "xgboost trees per target": lambda: xgboost_case(xgboost.XGBRegressor, two_targets, max_depth=2),
    "xgboost dart": lambda: xgboost_case(xgboost.XGBRegressor, number_target, booster="dart", rate_drop=0.3),
    "xgboost poisson": lambda: xgboost_case(xgboost.XGBRegressor, counts, objective="count:poisson", max_depth=2),
    "xgboost categories": xgboost_categories,
    "lightgbm": lambda: lightgbm_case(lightgbm.LGBMRegressor, number_target),
    "lightgbm categories": lambda: lightgbm_case(lightgbm.LGBMRegressor, number_target, mixed),
    "lightgbm zeros": lambda: lightgbm_case(
        lightgbm.LGBMRegressor, number_target, functools.partial(numbers, zeros=0.2), zero_as_missing=True
    ),
    "lightgbm binary": lambda: lightgbm_case(lightgbm.LGBMClassifier, two, mixed),
    "lightgbm multiclass": lambda: lightgbm_case(lightgbm.LGBMClassifier, three, n_estimators=4),
    "lightgbm poisson": lambda: lightgbm_case(lightgbm.LGBMRegressor, counts, objective="poisson", max_depth=2),
    "catboost": lambda: catboost_case(catboost.CatBoostRegressor, number_target),
    "catboost one-hot": lambda: catboost_case(catboost.CatBoostRegressor, number_target, mixed, one_hot_max_size=10),
    "catboost ctr": lambda: catboost_case(
        catboost.CatBoostClassifier, two, mixed, raw_is_response=False, one_hot_max_size=1, max_ctr_complexity=1
    ),
    "catboost multiclass": lambda: catboost_case(catboost.CatBoostClassifier, three, raw_is_response=False),
    "tree": lambda: sklearn_case(DecisionTreeRegressor(max_depth=3), number_target, missing=0.1),
    "tree classes": lambda: sklearn_case(DecisionTreeClassifier(max_depth=3), three),
    "forest": lambda: sklearn_case(RandomForestRegressor(10, max_depth=3, random_state=0), number_target),
    "forest two classes": lambda: second_class(
        sklearn_case(RandomForestClassifier(10, max_depth=2, random_state=0), two, missing=0.1)
    ),
    "forest targets": lambda: sklearn_case(RandomForestRegressor(8, max_depth=2, random_state=0), two_targets),
    "extra trees": lambda: sklearn_case(ExtraTreesClassifier(10, max_depth=3, random_state=0), three),
    "boosting": lambda: sklearn_case(GradientBoostingRegressor(n_estimators=15, random_state=0), number_target),
    "boosting classes": lambda: sklearn_case(
        GradientBoostingClassifier(n_estimators=5, max_depth=2, random_state=0), three, raw="decision_function",
        response="predict_proba",
    ),
    "hist boosting": lambda: hist_case(HistGradientBoostingRegressor, number_target),
    "hist boosting classes": lambda: hist_case(HistGradientBoostingClassifier, three),
    "hist boosting poisson": lambda: hist_case(HistGradientBoostingRegressor, counts, loss="poisson"),
    "adaboost": lambda: sklearn_case(
        AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=10, random_state=0), two,
        raw="decision_function", response="predict_proba",
    ),
    "ebm": lambda: ebm_case(ExplainableBoostingRegressor, number_target),
    "ebm two classes": lambda: ebm_case(ExplainableBoostingClassifier, two),
    "pipeline": lambda: sklearn_case(
        make_pipeline("passthrough", RandomForestRegressor(5, max_depth=2, random_state=0)), number_target
    ),
}  # fmt: skip


@functools.cache
def case_of(name):
    return CASES[name]()


@functools.cache
def decomposed(name, density):
    case = case_of(name)
    return decompose(case.model, case.train, density=density, n_jobs=1)


def awkward_numbers(axis, feature, rng, n_rows):
    """Values on bounds, next to them in float64 and in float32, and missing where the model takes it."""
    special = np.array([0.0, -0.0, 1e-36, -1e-36, 1e10, -1e10, 1e-3])
    bounds = np.concatenate([axis.bounds[np.abs(axis.bounds) < 1e30], special])
    single = bounds.astype(np.float32)
    near = [np.nextafter(single, np.float32(sign)).astype(float) for sign in (-np.inf, np.inf)]
    every = np.concatenate([bounds, single.astype(float), *near])
    pool = np.concatenate([every, np.nextafter(every, -np.inf), np.nextafter(every, np.inf)])
    values = rng.choice(pool, n_rows)
    return np.where(feature.accepts_missing & (rng.random(n_rows) < 0.1), np.nan, values)


def awkward_categories(column, feature, rng, n_rows, *, unseen):
    known = pd.unique(column.dropna()).tolist()
    values = rng.choice([*known, *(["never seen"] if unseen and feature.accepts_unseen else [])], n_rows)
    if isinstance(column.dtype, pd.CategoricalDtype):
        missing = feature.accepts_missing & (rng.random(n_rows) < 0.1)
        return pd.Series(np.where(missing, None, values.astype(object)), dtype="category")
    return values


@functools.cache
def awkward_rows(name, n_rows=400):
    """Rows that sit on and around all bounds of a case's grid, with unseen categories and missing values."""
    case, grid, rng = case_of(name), decomposed(name, "uniform").grid, np.random.default_rng(5)
    columns = {}
    for feature, axis, column in zip(grid.schema.features, grid.axes, case.train.columns, strict=True):
        if isinstance(axis, IntervalAxis):
            columns[column] = awkward_numbers(axis, feature, rng, n_rows)
        else:
            columns[column] = awkward_categories(case.train[column], feature, rng, n_rows, unseen=case.unseen)
    return pd.DataFrame(columns)


# What must hold


def shares_in_bins(axis, column):
    """Share of the rows in each bin of a numeric axis, by comparisons with its ends."""
    x = np.asarray(column, dtype=float)
    shares = np.array([((low < x) & (x <= high)).mean() for low, high in zip(axis.edges, axis.edges[1:], strict=False)])
    shares = np.append(shares, np.zeros(axis.size - len(shares)))
    if axis.missing_bin >= 0:
        shares[axis.missing_bin] += np.isnan(x).mean()
    return shares


def james_stein(grid, data):
    """Σ p (1 - p) / (n - 1) over Σ (p - product)², at most 1, over all cells of pairs of features that vary."""
    codes, variance, distance = grid.index(data), 0.0, 0.0
    varied = [j for j in range(codes.shape[1]) if len(np.unique(codes[:, j])) > 1]
    for i, j in itertools.combinations(varied, 2):
        p = np.histogram2d(codes[:, i], codes[:, j], [np.arange(grid.sizes[k] + 1) - 0.5 for k in (i, j)])[0]
        p /= len(codes)
        variance += (p * (1 - p)).sum() / (len(codes) - 1)
        distance += ((p - np.outer(p.sum(axis=1), p.sum(axis=0))) ** 2).sum()
    return min(1.0, variance / distance)


def densities_in_turn():
    """Each case with the density of its rows and one of the others; with all of them in the thorough profile."""
    for number, name in enumerate(CASES):
        quick = {"empirical", DENSITIES[1 + number % (len(DENSITIES) - 1)]}
        for density in DENSITIES:
            marks = [] if density in quick else pytest.mark.thorough
            yield pytest.param(name, density, marks=marks, id=f"{name}-{density}")


@pytest.mark.parametrize(("name", "density"), list(densities_in_turn()))
def test_terms_are_pure_and_add_up_to_the_model(name, density):
    case, fx = case_of(name), decomposed(name, density)
    for rows in (case.held_out, awkward_rows(name)):
        expected = np.asarray(case.raw(rows), dtype=float)
        expected = expected[:, 0] if expected.ndim == 2 and expected.shape[1] == 1 else expected
        assert_close(fx.decision_function(rows), expected, case.tolerance)
        encoded = Rows.of(rows, fx.schema)  # once, not for each term
        assert_close(fx.intercept + sum(fx.term_values(encoded, key) for key in fx.terms), expected, case.tolerance)
        assert_close(fx.explain(rows).scores, expected, case.tolerance)
    assert_pure(fx)
    assert_marginals(fx)
    assert fx.certificate.is_pure
    assert fx.certificate.reconstruction_error < 1e-12


@pytest.mark.parametrize("name", CASES)
def test_response_is_the_library_s_own(name):
    case, fx = case_of(name), decomposed(name, "empirical")
    for rows in (case.held_out, awkward_rows(name)):
        expected = np.asarray(case.response(rows), dtype=float)
        if hasattr(case.model, "predict_proba"):
            assert_close(fx.predict_proba(rows), expected, case.tolerance)
            expected = expected[:, 1] if expected.shape[1] == 2 else expected
        assert_close(fx.predict_response(rows), expected, case.tolerance)
        labels = np.asarray(case.model.predict(rows))
        if hasattr(case.model, "predict_proba"):
            np.testing.assert_array_equal(fx.predict(rows), labels.reshape(len(labels)))
        else:
            assert_close(fx.predict(rows), expected, case.tolerance)


def equal_weights(axis, bins, coarse):
    """Equal weights of all bins but those of missing or unseen values without rows, on a coarser axis."""
    has_rows = np.isin(np.arange(axis.size), bins)
    extra = np.array([set(label.split(" or ")) <= {"missing", "unseen"} for label in axis.labels])
    counts = np.bincount(bins_within(axis, coarse), ~extra | has_rows, minlength=coarse.size)
    return counts / counts.sum()


@pytest.mark.parametrize("name", CASES)
def test_weights_are_those_that_the_densities_name(name):
    case, fx = case_of(name), decomposed(name, "empirical")
    kinds = {density: decomposed(name, density).terms for density in DENSITIES}
    codes = fx.grid.index(case.train)
    shrunk = []
    for names, term in kinds["empirical"].items():
        counted, weights = term.weights, {kind: terms[names].weights for kind, terms in kinds.items()}
        if term.order == 1 and isinstance(term.axes[0], IntervalAxis):
            np.testing.assert_allclose(counted, shares_in_bins(term.axes[0], case.train[names[0]]), atol=1e-14)
        marginals = [counted.sum(axis=tuple(set(range(term.order)) - {axis})) for axis in range(term.order)]
        product = functools.reduce(np.multiply.outer, marginals)
        key = [fx.schema.names.index(name) for name in names]
        equal = [equal_weights(fx.grid.axes[j], codes[:, j], axis) for j, axis in zip(key, term.axes, strict=True)]
        uniform = functools.reduce(np.multiply.outer, equal)
        np.testing.assert_allclose(weights["uniform"], uniform, rtol=1e-12)
        np.testing.assert_allclose(weights["laplace"], counted / 2 + uniform / 2, rtol=1e-12)
        np.testing.assert_allclose(weights["independent"], product, atol=1e-14)
        if np.abs(product - counted).max() > 1e-9:
            cell = np.unravel_index(np.abs(product - counted).argmax(), counted.shape)
            shrunk.append((weights["shrinkage"][cell] - counted[cell]) / (product[cell] - counted[cell]))
            expected = (1 - shrunk[-1]) * counted + shrunk[-1] * product
            np.testing.assert_allclose(weights["shrinkage"], expected, atol=1e-12)
    # One intensity for all terms, by the rule over all pairs of features.
    expected = james_stein(fx.grid, case.train)
    assert shrunk
    np.testing.assert_allclose(shrunk, expected, rtol=1e-6)


# Random forests


KINDS = (*DENSITIES, Laplace(mix=0.01), Shrinkage(intensity=0.3))


@given(SEEDS, st.sampled_from(KINDS), st.booleans(), st.integers(1, 80))
@pytest.mark.filterwarnings("ignore::treeanova.errors.DensityWarning")
def test_random_forests_are_decomposed(seed, density, weighted, n_rows):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng)
    rows = rows_on_bounds(forest, rng, n_rows)
    sample_weight = rng.gamma(0.5, size=n_rows) * (rng.random(n_rows) < 0.8) if weighted else None
    assume(not weighted or sample_weight.any())
    fx = decompose(forest, rows, density=density, sample_weight=sample_weight, n_jobs=1)
    others = rows_on_bounds(forest, rng)
    found = as_matrix(fx.decision_function(others))
    np.testing.assert_allclose(found, forest.score(others), rtol=0, atol=1e-11 * scale_of(forest))
    np.testing.assert_allclose(fx.raw.decision_function(others), fx.decision_function(others), atol=1e-11)
    assert_pure(fx)
    assert_marginals(fx)


@given(SEEDS)
@pytest.mark.filterwarnings("ignore::treeanova.errors.DensityWarning")
def test_weighted_rows_count_as_often_as_their_weights(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, max_depth=2)
    rows, repeats = rows_on_bounds(forest, rng, 20), rng.integers(0, 4, 20)
    assume(repeats.any())
    weighted = decompose(forest, rows, sample_weight=repeats, density="empirical", n_jobs=1)
    repeated = decompose(forest, np.repeat(rows, repeats, axis=0), density="empirical", n_jobs=1)
    np.testing.assert_allclose(weighted.intercept, repeated.intercept, atol=1e-10 * scale_of(forest))
    for names, term in repeated.terms.items():
        np.testing.assert_allclose(weighted.terms[names].weights, term.weights, atol=1e-14)
        np.testing.assert_allclose(weighted.terms[names].values, term.values, atol=1e-9 * scale_of(forest))


def whole_tensor(forest, grid):
    """The score of every cell of the grid, from a row that lies in each."""
    rng = np.random.default_rng(0)
    rows = rows_on_bounds(forest, rng, 4000)
    codes = grid.index(rows)
    tensor = np.full((*grid.sizes, forest.n_outputs), np.nan)
    tensor[tuple(codes.T)] = forest.score(rows)
    return tensor


@settings(max_examples=30)
@given(SEEDS, st.sampled_from(["uniform", "laplace"]))
def test_random_forests_have_the_terms_of_brute_force(seed, density):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, max_depth=3, max_trees=3, n_outputs=1, max_features=3)
    rows = rows_on_bounds(forest, rng, 50)
    fx = decompose(forest, rows, density=density, n_jobs=1)
    tensor = whole_tensor(forest, fx.grid)[..., 0]
    assume(not np.isnan(tensor).any() and tensor.size < 800)
    counted = np.zeros(tensor.shape)
    codes = fx.grid.index(rows)
    np.add.at(counted, tuple(codes.T), 1 / len(rows))
    weights = functools.reduce(
        np.multiply.outer, [equal_weights(a, codes[:, j], a) for j, a in enumerate(fx.grid.axes)]
    )
    assume((weights > 0).all())
    weights = weights if density == "uniform" else (weights + counted) / 2
    for key, expected in brute_force(tensor, weights).items():
        if key == ():
            found = fx.intercept
        else:
            names = tuple(fx.schema.names[j] for j in key)
            found = fx.terms[names].values if names in fx.terms else np.zeros(expected.shape)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * scale_of(forest))


@given(SEEDS)
@pytest.mark.filterwarnings("ignore::treeanova.errors.DensityWarning")
def test_one_row_gives_the_decomposition_anchored_there(seed):
    # All mass in one row x: the intercept is f(x), a main effect f(x with one value changed) - f(x), and so on.
    rng = np.random.default_rng(seed)
    forest = random_forest(rng)
    anchor, others = rows_on_bounds(forest, rng, 1), rows_on_bounds(forest, rng, 40)
    fx = decompose(forest, anchor, density="empirical", n_jobs=1)
    at_anchor = forest.score(anchor)[0]
    atol = 1e-10 * scale_of(forest)
    np.testing.assert_allclose(np.atleast_1d(fx.intercept), at_anchor, rtol=0, atol=atol)
    for j, name in enumerate(forest.schema.names):
        moved = np.repeat(anchor, len(others), axis=0)
        moved[:, j] = others[:, j]
        expected = forest.score(moved) - at_anchor
        found = fx.term_values(others, name) if name in fx.terms else np.zeros(len(others))
        np.testing.assert_allclose(found.reshape(len(others), -1) + 0 * expected, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("density", ["auto", "empirical", "independent", "kernel", "shrinkage"])
def test_rows_in_one_cell_are_told_of(density):
    """The model cannot distinguish the rows: every term is zero at them."""
    forest = chains([(0, 0.5), (1, 0.5)])
    alike = np.array([[1.0, 1.0, 5.0], [0.7, 2.0, 6.0]])
    with pytest.warns(DensityWarning, match=f"all rows of the density '{density}' are in one cell of the"):
        fx = decompose(forest, alike, density=density, n_jobs=1)
    assert not fx.explain(alike).values.any()
    population = np.concatenate([alike, np.zeros((1, 3))])
    assert decompose(forest, population, density=density, n_jobs=1).explain(alike).values.any()
    with pytest.warns(DensityWarning, match="every term is zero at these rows"):
        decompose(forest, population, density=density, n_jobs=1).with_density(density, alike)


def test_one_cell_is_no_surprise_where_other_cells_have_weight_or_one_row_is_meant():
    forest, row = chains([(0, 0.5), (1, 0.5)]), np.ones((1, 3))
    for density in ("laplace", "uniform", Reference(row[0])):
        decompose(forest, row, density=density, n_jobs=1)  # a warning would be an error


# Data that do not fit


@functools.cache
def named():
    """A LightGBM model that knows its features by name and takes missing values, and its table."""
    return case_of("lightgbm").model, case_of("lightgbm").train


@functools.cache
def unnamed():
    """A model of the same table as a matrix."""
    x = numbers(missing=0.1)
    model = fit(HistGradientBoostingRegressor(max_iter=8, max_depth=2), x.to_numpy(), number_target(x))
    return model, x.to_numpy()


def one_column(name, values):
    """The table of the named model with one column replaced."""
    return named()[1].assign(**{name: values})


def arrow_of(table, names):
    return pa.Table.from_arrays([pa.array(table[name[0]].to_numpy()) for name in names], names=list(names))


@pytest.mark.parametrize("density", ["auto", "uniform"])
def test_no_rows(density):
    model, x = named()
    with pytest.raises(ValueError, match="`X` must have at least one row, got 0 rows"):
        decompose(model, x.iloc[:0], density=density)
    with pytest.raises(ValueError, match="`X` must have at least one row, got 0 rows"):
        decompose(unnamed()[0], np.empty((0, 4)), density=density)


def test_no_rows_to_predict():
    model, x = named()
    fx = decompose(model, x)
    assert fx.decision_function(x.iloc[:0]).shape == (0,)
    assert fx.explain(x.iloc[:0]).values.shape == (0, len(fx.terms))


def test_columns_that_are_missing_are_named():
    model, x = named()
    with pytest.raises(ValueError, match="`X` must have the model's columns, got none named 'b', 'd'; add them"):
        decompose(model, x.drop(columns=["b", "d"]))


@pytest.mark.parametrize("width", [0, 3, 5])
def test_matrices_of_another_width(width):
    for model, _ in (named(), unnamed()):
        for data in (np.zeros((5, width)), scipy.sparse.csr_matrix((5, width))):
            with pytest.raises(ValueError, match=f"`X` must have 4 columns, as the model was trained on, got {width}"):
                decompose(model, data)


def test_tables_of_another_width_without_names_to_go_by():
    model, x = unnamed()
    with pytest.raises(ValueError, match="`X` must have 4 columns, as the model was trained on, got 2"):
        decompose(model, pd.DataFrame(x[:, :2]))


@pytest.mark.parametrize("data", [np.zeros(4), np.zeros((2, 4, 1)), 3.0, pd.Series([1.0, 2.0])])
def test_data_without_rows_and_columns(data):
    with pytest.raises(ValueError, match="`X` must have two axes, rows and columns, got"):
        decompose(unnamed()[0], data)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ("oops", "'oops'"),
        (["oops", *[1.0] * (N_ROWS - 1)], "'oops'"),
        (pd.Timestamp("2020-01-01"), "dates"),
    ],
)
def test_columns_of_another_kind(values, shown):
    with pytest.raises(TypeError, match=f"column 'a' must hold numbers, got {shown}.*convert it as for training"):
        decompose(named()[0], one_column("a", values))


def test_text_in_a_matrix():
    model, x = unnamed()
    data = x.astype(object)
    data[7, 2] = "oops"
    with pytest.raises(TypeError, match="column 'x2' must hold numbers, got 'oops'"):
        decompose(model, data)


@pytest.mark.parametrize("dtype", ["datetime64[s]", "timedelta64[s]", "complex128"])
def test_matrices_of_dates_and_complex_numbers(dtype):
    with pytest.raises(TypeError, match="column 'x0' must hold numbers"):
        decompose(unnamed()[0], np.ones((3, 4)).astype(dtype))


@pytest.mark.parametrize("values", [np.nan, None])
def test_a_column_of_nothing_but_missing_values(values):
    model, x = named()
    data = one_column("a", values)
    fx = decompose(model, data, density="empirical")
    assert_close(fx.decision_function(x), model.predict(x), 1e-9)
    assert_pure(fx)
    term = fx.terms["a"]
    assert term.weights[term.axes[0].missing_bin] == 1.0
    np.testing.assert_allclose(fx.term_values(one_column("a", np.nan), "a"), 0.0, atol=1e-12)
    # All rows have it missing: the mean is the mean over them.
    np.testing.assert_allclose(fx.intercept, model.predict(one_column("a", np.nan)).mean(), rtol=1e-12, atol=1e-12)


def test_missing_values_where_the_model_refuses_them():
    model = case_of("boosting").model
    with pytest.raises(ValueError, match=r"column 'a' must have no missing values, got \d+ in 300 rows;"):
        decompose(model, numbers(missing=0.1))


def test_unseen_categories_where_the_model_refuses_them():
    case = case_of("xgboost categories")
    with pytest.raises(ValueError, match="column 'f' must hold categories of the model, got 'never seen'"):
        decompose(case.model, case.train.assign(f=pd.Categorical(["never seen"] * N_ROWS)))


@pytest.mark.parametrize("density", DENSITIES)
def test_a_column_of_one_value(density):
    model, x = named()
    data = one_column("a", 0.25)
    fx = decompose(model, data, density=density)
    assert_close(fx.decision_function(x), model.predict(x), 1e-9)
    assert_pure(fx)
    if density == "empirical":
        np.testing.assert_allclose(fx.intercept, model.predict(data).mean(), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(fx.term_values(data, "a"), 0.0, atol=1e-12)


def test_a_feature_that_was_constant_in_training_has_no_term():
    x = numbers().assign(b=1.0)
    model = fit(RandomForestRegressor(5, max_depth=2, random_state=0), x, number_target(numbers()))
    fx = decompose(model, x)
    assert not any("b" in names for names in fx.terms)
    assert fx.grid.axes[1].size == 1
    assert_close(fx.decision_function(numbers(1)), model.predict(numbers(1)), 1e-12)
    assert fx.drop("b") == fx


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.filterwarnings("ignore::treeanova.errors.DensityWarning")
def test_one_row(density):
    model, x = named()
    fx = decompose(model, x.iloc[[3]], density=density)
    assert_close(fx.decision_function(x), model.predict(x), 1e-9)
    assert_pure(fx)
    if density in {"empirical", "independent", "shrinkage"}:
        np.testing.assert_allclose(fx.intercept, model.predict(x.iloc[[3]])[0], rtol=1e-12, atol=1e-12)


def test_columns_given_twice():
    model, x = named()
    for data in (pd.concat([x, x[["a"]]], axis=1), arrow_of(x, "abcda")):
        with pytest.raises(ValueError, match="`X` must have each column once, got 'a' twice; rename one"):
            decompose(model, data)


@pytest.mark.parametrize("density", ["auto", "empirical", "laplace", "independent", "shrinkage"])
def test_densities_that_need_rows(density):
    kind = "(auto|empirical)" if density == "auto" else density
    with pytest.raises(ValueError, match=f"`X` must be given for the density '{kind}', got None"):
        decompose(named()[0], density=density)


def test_uniform_needs_no_rows():
    model, x = named()
    fx = decompose(model, density="uniform")
    assert fx == decompose(model, x, density="uniform")
    assert_close(fx.decision_function(x), model.predict(x), 1e-9)
    assert_pure(fx)


@pytest.mark.parametrize("shape", [(), (3,), (N_ROWS, 1), (N_ROWS + 1,)])
def test_sample_weight_of_another_shape(shape):
    with pytest.raises(ValueError, match=f"`sample_weight` must have one entry per row, {N_ROWS}, got shape"):
        decompose(*named(), sample_weight=np.ones(shape))


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_sample_weight_with_a_value_that_is_none(bad):
    sample_weight = np.ones(N_ROWS)
    sample_weight[5] = bad
    with pytest.raises(ValueError, match="`sample_weight` must be finite, not negative and not all zero"):
        decompose(*named(), sample_weight=sample_weight)


def test_sample_weight_of_zeros():
    with pytest.raises(ValueError, match="`sample_weight` must be finite, not negative and not all zero"):
        decompose(*named(), sample_weight=np.zeros(N_ROWS))


def test_rows_of_weight_zero_are_as_if_left_out():
    model, x = named()
    sample_weight = np.where(np.arange(N_ROWS) < 100, 2.0, 0.0)
    fx = decompose(model, x, density="empirical", sample_weight=sample_weight)
    expected = decompose(model, x.iloc[:100], density="empirical")
    np.testing.assert_allclose(fx.intercept, expected.intercept, rtol=1e-12, atol=1e-12)
    for names, term in expected.terms.items():
        np.testing.assert_allclose(fx.terms[names].values, term.values, rtol=0, atol=1e-9)


def test_sample_weight_without_rows():
    with pytest.raises(ValueError, match="`sample_weight` must"):
        decompose(named()[0], density="uniform", sample_weight=np.ones(3))


# Data in other forms


@pytest.mark.parametrize("form", [pl.from_pandas, pa.Table.from_pandas], ids=["polars", "pyarrow"])
def test_tables_of_other_libraries(form):
    model, x = named()
    fx = decompose(model, form(x))
    assert fx == decompose(model, x)
    assert type(fx.importance()) is type(form(x))
    assert type(fx.table("a")) is type(form(x))
    assert_close(fx.decision_function(form(x)), model.predict(x), 1e-9)


def test_order_of_columns_and_further_ones_do_not_matter():
    model, x = named()
    data = x[["d", "b", "a", "c"]].assign(more="text", yet_more=1.0)
    fx = decompose(model, data)
    assert fx == decompose(model, x)
    assert_close(fx.decision_function(data), model.predict(x), 1e-9)
    assert list(fx.terms)[:4] == [("a",), ("b",), ("c",), ("d",)]


def test_matrices_go_by_position():
    model, x = named()
    assert decompose(model, x.to_numpy()) == decompose(model, x)
    model, x = unnamed()
    fx = decompose(model, x)
    assert decompose(model, x.tolist()) == fx
    assert decompose(model, pd.DataFrame(x, columns=list("wxyz"))) == fx
    assert fx.schema.names == ("x0", "x1", "x2", "x3")


@pytest.mark.parametrize("form", ["csr_matrix", "csc_array", "coo_array"])
def test_sparse_matrices(form):
    x = numbers(zeros=0.5)
    model = fit(RandomForestRegressor(5, max_depth=2, random_state=0), x.to_numpy(), number_target(x))
    sparse = getattr(scipy.sparse, form)(x.to_numpy())
    fx = decompose(model, sparse)
    assert fx == decompose(model, x.to_numpy())
    assert_close(fx.decision_function(sparse), model.predict(x.to_numpy()), 1e-12)


def test_names_given_to_features():
    model, x = unnamed()
    fx = decompose(model, x, feature_names=["p", "q", "r", "s"])
    plain = decompose(model, x)
    assert fx.schema.names == ("p", "q", "r", "s")
    assert [tuple("pqrs".index(name) for name in names) for names in fx.terms] == list(plain._function.effects.terms)
    np.testing.assert_array_equal(fx.terms["q"].values, plain.terms["x1"].values)
    assert fx.terms["q"].axes[0].name == "q"
    assert_close(fx.decision_function(x), model.predict(x), 1e-12)


def test_names_given_to_the_features_of_an_ebm():
    case = case_of("ebm")
    fx = decompose(case.model, case.train, feature_names=list("pqrst"))
    assert fx.schema.names == tuple("pqrst")
    assert_close(fx.decision_function(case.held_out), case.raw(case.held_out), 1e-9)


@pytest.mark.parametrize("names", [["p"], ["p", "q", "r", "p"], []])
def test_names_that_do_not_fit(names):
    model, x = unnamed()
    with pytest.raises(ValueError, match="`feature_names` must be a list of 4 different names, got"):
        decompose(model, x, feature_names=names)


# Options and models that do not fit


@pytest.mark.parametrize("density", ["gauss", 3])
def test_densities_that_do_not_exist(density):
    with pytest.raises(ValueError, match=r"`density` must be one of 'uniform', 'empirical'.*, got"):
        decompose(*named(), density=density)


def test_methods_that_do_not_exist():
    with pytest.raises(ValueError, match=r"`method` must be one of 'auto'.*, got 'fast'"):
        decompose(*named(), method="fast")


def test_direct_is_refused_where_it_would_not_be_exact():
    x = np.random.default_rng(0).normal(size=(500, 3))
    model = fit(GradientBoostingRegressor(n_estimators=80, max_depth=3, random_state=0), x, x.prod(axis=1))
    with pytest.raises(ValueError, match="`method` must be 'cg' or 'mass-moving' for weights of order 3"):
        decompose(model, x, density="empirical", tensor_order=3, method="direct")


def test_models_that_are_none():
    with pytest.raises(UnsupportedModelError, match="`model` must be one that treeanova reads, got object"):
        decompose(object(), np.zeros((3, 4)))
    with pytest.raises(UnsupportedModelError, match="cannot be read before training; fit it first"):
        decompose(GradientBoostingRegressor(), np.zeros((3, 4)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lightgbm", r"`budget` must be at least about .* for a model of \d+ leaves .*, got 10 bytes; raise it"),
        ("ebm", r"over the budget of 10 bytes; the largest is .* Raise `budget`"),
    ],
)
def test_budget(name, message):
    case = case_of(name)
    with pytest.raises(BudgetError, match=message):
        decompose(case.model, case.train, budget=10)


# A model without splits, and decompositions of fewer terms


@functools.cache
def constant():
    x = numbers()
    return decompose(fit(DecisionTreeRegressor(), x, np.full(N_ROWS, 1.5)), x)


def test_a_constant_model():
    fx, x = constant(), numbers()
    assert len(fx.terms) == 0
    assert fx.intercept == 1.5
    np.testing.assert_array_equal(fx.decision_function(x), 1.5)
    np.testing.assert_array_equal(fx.explain(x).shap_values(), np.zeros((N_ROWS, 4)))
    assert repr(fx).startswith("Decomposition of 0 terms: none")


@pytest.mark.parametrize("by", ["term", "feature"])
def test_importance_of_a_constant_model(by):
    table = constant().importance(by)
    assert len(table) == (0 if by == "term" else 4)
    assert table["share"].sum() == 0


def test_a_constant_model_is_saved(tmp_path):
    from treeanova import load

    constant().save(tmp_path / "constant.tav")
    assert load(tmp_path / "constant.tav") == constant()


@pytest.mark.parametrize("make", [lambda fx: fx.drop("a"), lambda fx: fx.select(order=1)], ids=["drop", "select"])
def test_fewer_terms_are_one_function_whatever_is_made_of_them(make):
    from treeanova import mean

    model, x = named()
    some = make(decompose(model, x))
    expected = some.intercept + sum(some.term_values(x, key) for key in some.terms)
    assert_close(some.raw.decision_function(x), expected, 1e-9)
    assert_close(some.with_density("uniform").decision_function(x), expected, 1e-9)
    assert_close(mean([some, some]).decision_function(x), expected, 1e-9)


def test_the_certificate_tells_when_the_terms_are_not_the_trees(monkeypatch):
    x = np.random.default_rng(0).normal(size=(200, 2))
    model = fit(RandomForestRegressor(3, max_depth=2, random_state=0), x, x[:, 0] * x[:, 1])
    assert decompose(model, x, density="empirical").certificate.reconstruction_error < 1e-12

    def wrong(sets):
        effects = expand(sets)
        return dataclasses.replace(effects, intercept=effects.intercept + 1.0)

    monkeypatch.setattr(making, "expand", wrong)
    assert decompose(model, x, density="empirical").certificate.reconstruction_error > 0.1


# Progress, orders and threads


@pytest.fixture(scope="module")
def deep():
    return deep_model()


@functools.cache
def three_orders():
    """A model of three features with terms of all three orders, and its rows."""
    rows = np.random.default_rng(0).normal(size=(300, 3))
    model = xgboost.XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1)
    return fit(model, rows, rows[:, 0] * rows[:, 1] + rows.prod(axis=1)), rows


STAGES = (
    "reading the model", "leaves of the trees", "bins of the rows", "marginals", "choosing terms of high orders",
    "rows of the density", "high orders on coarse cells", "high orders", "high orders, half the bins", "low orders",
    "purifying order 2", "purifying order 1",
)  # fmt: skip


def test_progress_is_told_and_may_stop_the_work(deep, capfd):
    model, x = deep
    told = Recorded()
    decompose(model, x, density="empirical", progress=told)
    at_rows = {"tables at rows", "terms of high order at rows"}
    assert tuple(stage for stage in told.stages if stage not in at_rows) == STAGES
    n_pairs = math.comb(x.shape[1], 2)
    assert [call for call in told.calls if call[0] == "purifying order 2"] == [
        ("purifying order 2", done, n_pairs) for done in range(n_pairs + 1)
    ]
    assert capfd.readouterr() == ("", "")

    def interrupt(stage, done, total):
        raise KeyboardInterrupt("enough")

    with pytest.raises(KeyboardInterrupt, match="enough"):
        decompose(model, x, density="empirical", progress=interrupt)
    with pytest.raises(TypeError, match="`progress` must be True, False, None or a function, got 'bar'"):
        decompose(model, x, progress="bar")


def test_numbers_of_numpy_and_threads(deep, tmp_path):
    model, x = deep
    fx = decompose(model, x, density="empirical", max_order=np.int64(2), tensor_order=np.int64(2), n_jobs=np.int64(1))
    fx.save(tmp_path / "fx.tav")
    assert decompose(model, x, density="empirical", n_jobs=-1)._settings.n_jobs == os.cpu_count()
    with pytest.raises(ValueError, match="`n_jobs` must be a whole number from 1 on, or -1 for all cores, got -2"):
        decompose(model, x, n_jobs=-2)


def test_progress_is_told_of_tensors_too():
    model, rows = three_orders()
    told = Recorded()
    decompose(model, rows, density="empirical", progress=told)
    orders = [f"purifying order {order}" for order in (3, 2, 1)]
    assert told.stages == ["reading the model", "leaves of the trees", "bins of the rows", *orders, "tables at rows"]
    assert [call[1:] for call in told.calls if call[0] == orders[0]] == [(0, 1), (1, 1)]
    assert [call[1:] for call in told.calls if call[0] == orders[1]] == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_the_bar_of_slow_work_is_plain_text_where_there_is_no_terminal(deep, capfd, monkeypatch):
    model, x = deep
    monkeypatch.setattr(bar, "_SLOW", 0.0)
    numbers = decompose(model, x, density="empirical", progress=True)._function.effects.terms
    out, err = capfd.readouterr()
    assert out == ""
    assert "high orders" in err
    assert re.search(r"\[\d+ s\] high orders.*: done in \d+ s\n", err)
    assert "\r" not in err
    assert "\x1b" not in err
    quietly = decompose(model, x, density="empirical")._function.effects.terms
    assert capfd.readouterr() == ("", "")
    assert all((numbers[key] == quietly[key]).all() for key in quietly)


@pytest.mark.parametrize("order", [0, True, 1.5])
def test_orders_that_are_none_are_refused(order):
    model, rows = three_orders()
    with pytest.raises(ValueError, match=r"`max_order` must be a whole number from 1 on"):
        plan(model, max_order=order)
    with pytest.raises(ValueError, match=r"`max_order` must be a whole number from 1 on"):
        decompose(model, rows, max_order=order)


# Terms that are asked for


@pytest.fixture
def few_listed(monkeypatch):
    """Models whose terms above the tables are too many to list, and none carries enough weight."""
    monkeypatch.setattr("treeanova.terms.costs.LISTED_TERMS", 1)
    monkeypatch.setattr("treeanova.terms.costs.REPORTED_SHARE", 2.0)


def listed(fx):
    return [names for names, term in fx.terms.items() if not term.has_table]


def test_terms_are_listed_in_addition(few_listed, deep):
    model, x = deep
    none = decompose(model, x, density="independent")
    assert listed(none) == []
    assert listed(decompose(model, x, density="independent", terms=[])) == []
    asked = [{"x4", "x2", "x3"}, ["x5", "x0", "x1", "x2"], ("x3", "x2", "x4"), ("x0", "x1"), "x5"]
    some = decompose(model, x, density="independent", terms=asked)
    assert listed(some) == [("x2", "x3", "x4"), ("x0", "x1", "x2", "x5")]
    rows = x[:50]
    triple = none.term_values(rows, ("x2", "x3", "x4"))
    assert np.abs(triple).max() > 0.01
    np.testing.assert_allclose(some.term_values(rows, ("x2", "x3", "x4")), triple, atol=1e-12)
    others, fewer = none.explain(rows).others, some.explain(rows).others
    np.testing.assert_allclose(others[3] - fewer[3], triple, atol=1e-12)
    np.testing.assert_allclose(others[5], fewer[5], atol=1e-12)
    np.testing.assert_allclose(some.explain(rows).scores, model.predict(rows), atol=1e-5)


def test_all_terms_are_listed(few_listed, deep):
    model, x = deep
    fx = decompose(model, x, density="independent", terms="all")
    assert fx._function.unlisted_orders == ()
    features = [{f"x{j}" for j in path} for path in fx._function.source.trees.leaf_sets.keys]
    sets = (names for order in range(3, 7) for names in itertools.combinations([f"x{j}" for j in range(6)], order))
    assert listed(fx) == [names for names in sets if any(set(names) <= path for path in features)]
    explained = fx.explain(x[:50])
    np.testing.assert_allclose(
        explained.values.sum(axis=1) + explained.intercept, model.predict(x[:50]), rtol=0, atol=1e-5
    )


def test_more_terms_than_can_be_listed_are_refused(few_listed, deep, monkeypatch):
    monkeypatch.setattr("treeanova.terms.costs.MOST_TERMS", 20)
    with pytest.raises(
        BudgetError, match=r"`terms` must not be 'all' for up to \d+ terms \(at most 20 can be listed\)"
    ):
        decompose(*deep, terms="all")
    triples = listed(decompose(*deep, density="independent", terms="all", max_order=3))
    assert {len(names) for names in triples} == {3}


@pytest.mark.parametrize("density", ["independent", "empirical"])
def test_a_term_that_carries_nothing_is_listed_where_it_is_asked_for(few_listed, density):
    """A sum of three features by one tree with all three on each path."""
    x = np.array(list(itertools.product((0.0, 1.0), repeat=3)) * 3)[:-1]
    model = fit(DecisionTreeRegressor(random_state=0), x, x @ [4.0, 2.0, 1.0])
    fx = decompose(model, x, density=density, tensor_order=2, terms=[("x0", "x1", "x2")])
    assert listed(fx) == [("x0", "x1", "x2")]
    np.testing.assert_allclose(fx.term_values(x, ("x0", "x1", "x2")), 0, atol=1e-12)
    assert listed(decompose(model, x, density=density, tensor_order=2, terms=["x0 × x1 × x2"])) == [("x0", "x1", "x2")]


@pytest.mark.parametrize("terms", ["some", "x0", None, 3, [3], [("x0", "x1", "x2"), None]])
def test_terms_that_are_no_sets_are_refused(terms):
    model, rows = three_orders()
    message = re.escape(f"`terms` must be 'auto', 'all' or a list of sets of features, got {terms!r}")
    with pytest.raises(ValueError, match=message):
        decompose(model, rows, terms=terms)


def test_words_for_terms_are_checked_for_models_whose_terms_all_have_tables():
    with pytest.raises(ValueError, match="`terms` must be 'auto', 'all' or a list of sets of features, got 'some'"):
        decompose(pair_on_few_bins(), density="uniform", terms="some")
    assert decompose(pair_on_few_bins(), density="uniform", terms="all").terms


@pytest.mark.parametrize("term", [("x0", "y"), ("x0", "x0"), (), (0, 1)])
def test_terms_of_unknown_or_repeated_features_are_refused(term):
    model, rows = three_orders()
    message = re.escape(
        f"`terms` must hold sets of the model's features, got {term!r}; the features are 'x0', 'x1', 'x2'."
    )
    with pytest.raises(ValueError, match=message):
        decompose(model, rows, terms=[("x0", "x1", "x2"), term])


def test_terms_of_features_that_no_path_combines_are_refused():
    x = np.array(list(itertools.product((0.0, 1.0), repeat=3)) * 3)
    model = fit(GradientBoostingRegressor(n_estimators=3, max_depth=1, random_state=0), x, x @ [4.0, 3.0, 3.0])
    with pytest.raises(ValueError, match=r"got \('x0', 'x1'\), which no path of its trees has together; leave it out"):
        decompose(model, x, terms=[("x0", "x1")])


def test_a_pipeline_that_mixes_its_columns_is_refused():
    from sklearn.decomposition import PCA

    x, target = named_rows()
    model = GradientBoostingRegressor(n_estimators=10, max_depth=2, random_state=0)
    pipeline = fit(make_pipeline(PCA(2).set_output(transform="pandas"), model), x * 10 + 5, target)
    with pytest.raises(UnsupportedModelError, match=r"decompose\(pipeline\[-1\], pipeline\[:-1\]\.transform"):
        decompose(pipeline, x * 10 + 5)
    seen = pipeline[:-1].transform(x * 10 + 5)
    fx = decompose(pipeline[-1], seen, feature_names=pipeline[:-1].get_feature_names_out())
    np.testing.assert_allclose(fx.decision_function(seen), pipeline.predict(x * 10 + 5), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("where", ["feature", "category"])
def test_texts_with_lone_surrogates_are_refused(where):
    """Neither files nor pages nor terminals could hold them."""
    wrong = "a\ud800"
    name, labels = (wrong, ["x", "y"]) if where == "feature" else ("a", ["x", wrong])
    effects = Effects.from_tables({name: [0.0, 1.0]}, categories={name: labels})
    with pytest.raises(ValueError, match=r"must be text that UTF-8 can write, got 'a\\ud800' with a lone surrogate"):
        decompose(effects, density="uniform")


@pytest.mark.parametrize("in_batches", [False, True])
def test_weights_may_be_a_feature_of_a_model_without_names(in_batches):
    forest = chains([(0, 1.0), (1, 0.5)], [(2, 1.0)])
    rows = pd.DataFrame(np.random.default_rng(0).exponential(size=(80, 3)), columns=["x0", "x1", "x2"])
    mean = np.average(forest.score(rows.to_numpy())[:, 0], weights=rows["x0"])

    def intercept(table, **options):
        return decompose(forest, [table] if in_batches else table, sample_weight="x0", density="empirical", **options)

    np.testing.assert_allclose(intercept(rows[["x2", "x0", "x1"]]).intercept, mean, rtol=1e-12)
    beside = rows.assign(id=np.arange(80.0))
    np.testing.assert_allclose(intercept(beside, feature_names=["x0", "x1", "x2"]).intercept, mean, rtol=1e-12)
    with pytest.raises(ValueError, match="'x0' is the name of both, got x1, x2, id"):
        intercept(beside)


def test_weights_of_a_bag_may_be_a_feature():
    forest = chains([(0, 1.0), (1, 0.5)], [(2, 1.0)])
    rows = pd.DataFrame(np.random.default_rng(0).exponential(size=(80, 3)), columns=["x2", "x0", "x1"])
    by_name = bag([forest, forest], rows, sample_weight="x0", density="empirical")
    by_weights = bag([forest, forest], rows, sample_weight=rows["x0"].to_numpy(), density="empirical")
    for one, other in zip(by_name.members, by_weights.members, strict=True):
        np.testing.assert_allclose(one.intercept, other.intercept, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"budget": math.nan}, ValueError, "`budget` must be a number of bytes above 0, got nan"),
        ({"budget": "1GB"}, ValueError, "`budget` must be a number of bytes above 0, got '1GB'"),
        ({"random_state": "x"}, ValueError, "`random_state` must be a whole number from 0 on, got 'x'"),
        ({"random_state": -1}, ValueError, "`random_state` must be a whole number from 0 on, got -1"),
        ({"n_jobs": True}, ValueError, "`n_jobs` must be a whole number from 1 on, or -1 for all cores, got True"),
        ({"sample_weight": ["a", "b"]}, TypeError, "`sample_weight` must hold numbers, got <U1: .'a', 'b'.; convert"),
        ({"sample_weight": [1, 1j]}, TypeError, "`sample_weight` must hold numbers, got complex128"),
        ({"sample_weight": [1, None, "a"]}, TypeError, "`sample_weight` must hold numbers, got object"),
    ],
)
def test_numbers_that_are_none_are_refused(options, kind, message):
    with pytest.raises(kind, match=message):
        decompose(chains([(0, 0.0)]), np.zeros((2, 3)), **{"density": "empirical"} | options)
