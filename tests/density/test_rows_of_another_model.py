"""Statistics of rows that another model has read: as if the rows themselves were given, or refused."""

import json

import numpy as np
import pandas as pd
import pytest

import treeanova
from tests.support.training import fit
from treeanova.density.statistics import NoRowsError

N = 300


def numbers(seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"a": rng.normal(size=N), "b": rng.normal(5, 3, N), "c": rng.exponential(size=N)})


def with_category(values, labels, seed=0):
    return numbers(seed)[["a"]].assign(k=pd.Categorical(values, labels))


def boosted(X, y=None, **options):
    lightgbm = pytest.importorskip("lightgbm")
    y = X.a * 2 + np.arange(len(X)) % 5 if y is None else y
    settings = {"n_estimators": 8, "max_depth": 2, "min_data_per_group": 1, "min_child_samples": 5, "verbose": -1}
    return fit(lightgbm.LGBMRegressor(**settings | options, n_jobs=1), X, y)


def xgboosted(X, y):
    xgboost = pytest.importorskip("xgboost")
    return fit(xgboost.XGBRegressor(n_estimators=8, max_depth=2, enable_categorical=True, n_jobs=1), X, y)


def empirical(model, X, **options):
    return treeanova.decompose(model, X, density="empirical", **options)


def test_columns_in_another_order_are_found_by_their_names():
    X = numbers()
    y = X.a * X.b + X.c
    model, swapped = boosted(X, y), boosted(X[["c", "b", "a"]], y)
    rows = X[:80]
    statistics = empirical(swapped, rows).statistics
    expected = model.predict(rows).mean()
    assert empirical(model, statistics).intercept == pytest.approx(expected, abs=1e-9)
    assert empirical(model, X).with_density("empirical", statistics).intercept == pytest.approx(expected, abs=1e-9)


def test_columns_of_other_names_are_refused():
    X = numbers()
    renamed = X.set_axis(["age", "bmi", "cost"], axis=1)
    statistics = empirical(boosted(renamed, X.a), renamed).statistics
    with pytest.raises(ValueError, match="statistics of the model's columns 'a', 'b', 'c', got those of 'age', 'bmi'"):
        empirical(boosted(X), statistics)
    with pytest.raises(ValueError, match="statistics of the model's columns 'a', 'b', got those of 'a', 'b', 'c'"):
        empirical(boosted(X[["a", "b"]]), empirical(boosted(X), X).statistics)


def test_columns_without_names_are_found_by_position():
    from sklearn.tree import DecisionTreeRegressor

    X = numbers()
    first = fit(DecisionTreeRegressor(max_depth=3), X.to_numpy(), X.a.to_numpy())
    second = fit(DecisionTreeRegressor(max_depth=3), X, X.b)
    statistics = empirical(first, X.to_numpy()).statistics
    assert empirical(second, statistics).intercept == pytest.approx(second.predict(X).mean())


@pytest.mark.parametrize("other", ["number", "text"])
def test_labels_of_another_type_are_refused(other):
    values = np.array([10, 20, 30])[np.arange(N) % 3]
    X = with_category(values, [10, 20, 30])
    Z = X.assign(k=values if other == "number" else pd.Categorical(values.astype(str)))
    model, unlike = boosted(X, values * X.a), boosted(Z, values * X.a)
    fx, gx = empirical(model, X), empirical(unlike, Z)
    for one, rows in ((fx, gx), (gx, fx)):
        with pytest.raises(ValueError, match="rows where two models read columns in different ways, as 'k', got stat"):
            one.with_density("empirical", rows.statistics)
        with pytest.raises(ValueError, match="`X_old` must be given where two models read columns in different ways"):
            treeanova.change(one, rows)


@pytest.mark.parametrize("trained", [boosted, xgboosted])
def test_categories_in_another_order_are_found_by_their_labels(trained):
    values = np.array(["p", "q", "r"])[np.arange(N) % 3]
    X, Z = with_category(values, ["p", "q", "r"]), with_category(values, ["r", "p", "q"])
    y = X.a + 3.0 * (values == "q") - 5.0 * (values == "r")
    model, statistics = trained(Z, y), empirical(trained(X, y), X[:70]).statistics
    assert empirical(model, statistics).intercept == pytest.approx(model.predict(Z[:70]).mean(), abs=1e-5)


def hashes_in_splits(model, folder):
    """Hashes of the categories that CatBoost's own file lists for its splits."""
    model.save_model(str(folder / "model.json"), format="json")
    (feature,) = json.loads((folder / "model.json").read_text())["features_info"]["categorical_features"]
    return set(feature.get("values", ()))


def test_catboost_knows_categories_by_their_hashes(tmp_path):
    catboost = pytest.importorskip("catboost")
    values = np.array(["p", "q", "r", "s"])[np.arange(N) % 4]
    X = numbers()[["a"]].assign(k=values)
    y = X.a + 3.0 * (values == "q") - 5.0 * (values == "r")
    settings = {"iterations": 8, "depth": 2, "verbose": 0, "cat_features": ["k"], "one_hot_max_size": 10}
    model = fit(catboost.CatBoostRegressor(**settings, thread_count=1), X, y)
    part = X[::-1].reset_index(drop=True)
    other = fit(catboost.CatBoostRegressor(**settings, thread_count=1, random_seed=5), part, y[::-1] ** 2)
    statistics = empirical(other, X[:70]).statistics
    if hashes_in_splits(model, tmp_path) - hashes_in_splits(other, tmp_path):
        with pytest.raises(NoRowsError, match="some that only another model knows"):
            empirical(model, statistics)
        return
    fx = empirical(model, statistics)
    assert fx.intercept == pytest.approx(model.predict(X[:70]).mean(), abs=1e-9)
    labels = set(fx.table("k")["k"].astype(str)) if ("k",) in fx.terms else {"p"}
    assert labels & {"p", "q", "r", "s"}


def dated(unit):
    from sklearn.ensemble import HistGradientBoostingRegressor

    days = pd.date_range("2023-01-01", periods=N, freq="D")
    X = numbers()[["a"]].assign(day=days)
    trained = X.assign(day=days.astype(f"datetime64[{unit}]").astype("int64"))
    return fit(HistGradientBoostingRegressor(max_iter=8), trained, np.arange(N) % 50.0), X, trained


def test_dates_in_another_unit_are_refused_and_in_the_same_unit_found():
    (seconds, X, in_seconds), (nanoseconds, _, _) = dated("s"), dated("ns")
    fx, gx = empirical(seconds, X), empirical(nanoseconds, X)
    with pytest.raises(ValueError, match="in different ways, as 'day', got statistics"):
        fx.with_density("empirical", gx.statistics)
    with pytest.raises(ValueError, match="in different ways, as 'day', got statistics"):
        empirical(seconds, gx.statistics)
    again = empirical(seconds, fx.with_density("empirical", X[100:250]).statistics)
    assert again.intercept == pytest.approx(seconds.predict(in_seconds[100:250]).mean())
    assert again.schema.features[1].encoder.date_unit == "s"


def test_values_that_the_model_refuses_are_refused_in_statistics_too():
    from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor

    X = numbers()
    holes = X.assign(a=X.a.where(np.arange(N) % 3 > 0))
    accepting = fit(HistGradientBoostingRegressor(max_iter=5), holes, X.b)
    strict = fit(GradientBoostingRegressor(n_estimators=5), X, X.a + X.b)
    fx, statistics = empirical(strict, X), empirical(accepting, holes).statistics
    with pytest.raises(ValueError, match="column 'a' must have no missing values, got 100 in 300 rows"):
        fx.with_density("empirical", statistics)
    full = empirical(accepting, X).statistics
    assert fx.with_density("empirical", full).intercept == pytest.approx(strict.predict(X).mean())


def test_categories_that_xgboost_never_saw_are_refused_in_statistics_too():
    values = np.array(["p", "q", "r"])[np.arange(N) % 3]
    X = with_category(values, ["p", "q", "r"])
    y = X.a + 3.0 * (values == "q") - 5.0 * (values == "r")
    is_known = values != "r"
    Z = X[is_known].assign(k=pd.Categorical(values[is_known], ["p", "q"]))
    fx, gx = empirical(xgboosted(X, y), X), empirical(xgboosted(Z, y[is_known]), Z)
    with pytest.raises(ValueError, match="column 'k' must hold categories of the model, got 'r'"):
        gx.with_density("empirical", fx.statistics)
    distance = treeanova.compare({"g": gx, "f": fx}).distance.set_index("term")["distance"]
    ours, theirs = gx.explain(Z), fx.explain(X[is_known])  # the rows that both accept
    for term in set(ours.terms) & set(theirs.terms):
        gap = ours.values[:, ours.terms.index(term)] - theirs.values[:, theirs.terms.index(term)]
        assert distance[" × ".join(term)] == pytest.approx(np.sqrt((gap**2).mean()), abs=1e-9)
