"""Tables like public ones, end to end: a model of each, its decomposition, and what users then ask of it.

Simulated tables always; the full ones too where they are on the machine.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.support.decompositions import as_matrix, assert_close, assert_marginals, assert_pure
from tests.support.training import fit
from treeanova import decompose
from treeanova.terms.tree_model import TreeModel

lightgbm = pytest.importorskip("lightgbm")
pd = pytest.importorskip("pandas")
threadpoolctl = pytest.importorskip("threadpoolctl")
xgboost = pytest.importorskip("xgboost")
pytest.importorskip("sklearn")

from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor  # noqa: E402

SUPPORT2_TEXT = ["sex", "dzgroup", "income", "race", "ca"]
SUPPORT2_NUMBERS = ["age", "num.co", "scoma", "meanbp", "hrt", "resp", "temp", "alb", "crea", "bun"]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Small models are quicker without threads that wait for each other."""
    with threadpoolctl.threadpool_limits(1):
        yield


def split(table, n_train, n_held_out, seed=0):
    """Rows to train on and others, drawn at random."""
    order = np.random.default_rng(seed).permutation(len(table))
    n_train = min(n_train, 3 * len(table) // 4)
    train, held_out = order[:n_train], order[n_train : n_train + n_held_out]
    return (table.iloc[rows].reset_index(drop=True) for rows in (train, held_out))


def check(fx, x, held_out, raw, tolerance=1e-9):
    """Sums equal the model, slices are zero, shares add up, tables and repr say what the terms do."""
    for rows in (x, held_out):
        expected = np.asarray(raw(rows), dtype=float)
        assert_close(fx.decision_function(rows), expected, tolerance)
        assert_close(fx.explain(rows).scores, expected, tolerance)
    assert_pure(fx)
    assert_marginals(fx)
    check_importance(fx, x)
    check_tables(fx, x)
    orders = [len(names) for names in fx.terms]
    assert repr(fx).startswith(f"Decomposition of {len(orders)} terms: {orders.count(1)} of order 1")
    assert "density: empirical" in repr(fx)


def check_importance(fx, x):
    """Shares add to one in each output; variances and mean sizes are those of the terms at the rows."""
    by_term, by_feature = fx.importance(), fx.importance("feature")
    for table in (by_term, by_feature):
        np.testing.assert_allclose(table["share"], table["variance"] + table["covariance"], atol=1e-12)
        shares = table.groupby("output")["share"].sum() if "output" in table else table["share"].sum()
        np.testing.assert_allclose(shares, 1.0, atol=1e-9)
    explanation = fx.explain(x)
    values = explanation.values.reshape(len(x), len(fx.terms), -1)
    variance = values.var(axis=0) / as_matrix(explanation.scores).var(axis=0)
    for i, names in enumerate(fx.terms):
        own = by_term[by_term["term"] == " × ".join(names)]
        np.testing.assert_allclose(sorted(own["variance"]), sorted(variance[i]), atol=1e-9)
        np.testing.assert_allclose(sorted(own["mean_abs"]), sorted(np.abs(values[:, i]).mean(axis=0)), atol=1e-9)


def check_tables(fx, x):
    """The tidy table of the largest main effect: one row per bin, with the share of the rows in it."""
    ranked = fx.importance()
    name = ranked.loc[ranked["order"] == 1, "term"].iloc[0]
    term, table = fx.terms[name], fx.table(name)
    assert len(table) == len(term.weights)
    np.testing.assert_allclose(table["weight"].sum(), 1.0, rtol=1e-12)
    if f"{name}_low" in table:
        column = x[name].to_numpy(dtype=float)[:, None]
        inside = (table[f"{name}_low"].to_numpy() < column) & (column <= table[f"{name}_high"].to_numpy())
        assert (table["weight"].to_numpy() >= inside.mean(axis=0) - 1e-12).all()  # a bin may hold missing values too
        rows, bins = np.nonzero(inside)
        values = table[[label for label in table.columns if label.startswith("value")]].to_numpy()
        np.testing.assert_array_equal(values[bins], as_matrix(fx.term_values(x, name))[rows])


def check_without(fx, x, name):
    """Without a feature, its terms are gone from the score, which no longer depends on it."""
    without = fx.drop(name)
    kept = [names for names in fx.terms if name not in names]
    assert list(without.terms) == kept
    assert 0 < len(kept) < len(fx.terms)
    gone = sum(fx.term_values(x, names) for names in fx.terms if name in names)
    np.testing.assert_allclose(without.decision_function(x), fx.decision_function(x) - gone, rtol=0, atol=1e-10)
    shuffled = x.assign(**{name: x[name].to_numpy()[::-1]})
    if x[name].dtype == "category":
        shuffled[name] = shuffled[name].astype(x[name].dtype)
    assert np.ptp(fx.decision_function(shuffled) - fx.decision_function(x)) > 0
    np.testing.assert_array_equal(without.decision_function(shuffled), without.decision_function(x))
    assert f"(of {len(fx.terms)})" in repr(without)


def check_selections(fx, x, some):
    """By order and by features, the terms chosen and no others."""
    mains = fx.select(order=1)
    expected = fx.intercept + sum(fx.term_values(x, names) for names in fx.terms if len(names) == 1)
    np.testing.assert_allclose(mains.decision_function(x), expected, rtol=0, atol=1e-10)
    assert {len(names) for names in fx.select(order=[1, 2]).terms} <= {1, 2}
    chosen = fx.select(features=some)
    assert set(chosen.terms) == {names for names in fx.terms if set(names) <= set(some)}


def test_covertype_seven_classes(data_folder):
    table = pd.read_csv(data_folder / "covtype.csv.gz", nrows=12_000)
    train, held_out = split(table, 3000, 1000)
    y, x, held_out = train["Cover_Type"], train.drop(columns="Cover_Type"), held_out.drop(columns="Cover_Type")
    assert y.nunique() == 7
    model = fit(lightgbm.LGBMClassifier(n_estimators=5, max_depth=2, n_jobs=1, verbose=-1), x, y)
    fx = decompose(model, x, density="empirical", n_jobs=1)
    assert fx.intercept.shape == (7,)
    assert fx.schema.outputs == tuple("1234567")
    check(fx, x, held_out, functools.partial(model.predict, raw_score=True))
    assert_close(fx.predict_proba(held_out), model.predict_proba(held_out), 1e-9)
    np.testing.assert_array_equal(fx.predict(held_out), model.predict(held_out))


def bike(data_folder):
    table = pd.read_csv(data_folder / "bike_hour.csv.gz")
    dropped = ["instant", "dteday", "casual", "registered", "cnt"]
    train, held_out = split(table, 3000, 1000)
    return train.drop(columns=dropped), train, held_out.drop(columns=dropped)


@pytest.mark.parametrize("library", ["sklearn", "xgboost"])
def test_bike_two_targets(library, data_folder):
    x, train, held_out = bike(data_folder)
    y = train[["casual", "registered"]].to_numpy(dtype=float)
    if library == "sklearn":
        model = RandomForestRegressor(8, max_depth=3, n_jobs=1, random_state=0)
    else:
        model = xgboost.XGBRegressor(n_estimators=10, max_depth=2, multi_strategy="multi_output_tree", n_jobs=1)
    fit(model, x, y)
    fx = decompose(model, x, density="empirical", n_jobs=1)
    assert fx.intercept.shape == (2,)
    check(fx, x, held_out, model.predict, 1e-9 if library == "sklearn" else 1e-5)
    np.testing.assert_allclose(fx.intercept, model.predict(x).mean(axis=0), rtol=1e-5)


def test_bike_counts(data_folder):
    x, train, held_out = bike(data_folder)
    model = lightgbm.LGBMRegressor(objective="poisson", n_estimators=30, max_depth=2, n_jobs=1, verbose=-1)
    fit(model, x, train["cnt"])
    fx = decompose(model, x, density="empirical", n_jobs=1)
    check(fx, x, held_out, functools.partial(model.predict, raw_score=True))
    assert_close(fx.predict(held_out), model.predict(held_out), 1e-9)
    assert fx.importance("feature")["feature"].iloc[0] == "hr"


def adult(data_folder):
    table = pd.read_csv(data_folder / "adult.csv.gz").drop(columns=["split", "fnlwgt", "education"])
    text = [name for name in table.columns if table[name].dtype.kind not in "if" and name != "income"]
    assert table[text].isna().to_numpy().any()
    table[text] = table[text].astype("category")
    train, held_out = split(table, 3000, 1000)
    return train.drop(columns="income"), train["income"].str.startswith(">50K"), held_out.drop(columns="income")


@pytest.mark.parametrize("library", ["lightgbm", "sklearn"])
def test_adult_with_categories_and_missing_values(library, data_folder):
    x, y, held_out = adult(data_folder)
    if library == "lightgbm":
        model = fit(lightgbm.LGBMClassifier(n_estimators=25, max_depth=2, n_jobs=1, verbose=-1), x, y)
        raw = functools.partial(model.predict, raw_score=True)
    else:
        model = fit(HistGradientBoostingClassifier(max_iter=25, max_depth=2, categorical_features="from_dtype"), x, y)
        raw = model.decision_function
    fx = decompose(model, x, density="empirical", n_jobs=1)
    check(fx, x, held_out, raw)
    assert_close(fx.predict_proba(held_out), model.predict_proba(held_out), 1e-9)
    strongest = fx.importance("feature")["feature"].iloc[0]
    check_without(fx, x, strongest)
    check_selections(fx, x, ["age", "hours-per-week", "relationship", "marital-status"])


def test_compas_without_race(data_folder, is_full):
    table = pd.read_csv(data_folder / "compas_two_years.csv.gz")
    known = table["days_b_screening_arrest"].between(-30, 30) & (table["is_recid"] != -1)
    table = table[known & (table["c_charge_degree"] != "O") & table["score_text"].notna()]
    assert len(table) == (6172 if is_full else np.count_nonzero(known))
    text = ["sex", "race", "c_charge_degree"]
    table[text] = table[text].astype("category")
    train, held_out = split(table, 4000, 1000)
    names = ["age", *text, "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count", "length_of_stay_days"]
    x, held_out = train[names], held_out[names]
    model = xgboost.XGBRegressor(n_estimators=40, max_depth=2, enable_categorical=True, n_jobs=1)
    fit(model, x, train["decile_score"])
    fx = decompose(model, x, density="empirical", n_jobs=1)
    check(fx, x, held_out, model.predict, 1e-5)
    check_without(fx, x, "race")
    check_selections(fx, x, ["age", "priors_count"])
    with pytest.raises(ValueError, match="`features` must be the model's, got 'colour'"):
        fx.drop("colour")


def test_support2_with_missing_values(data_folder, is_full):
    table = pd.read_csv(data_folder / "support2.csv.gz", skipinitialspace=True)
    assert not is_full or table["bun"].isna().sum() == 4352
    assert table["bun"].isna().any()
    table[SUPPORT2_TEXT] = table[SUPPORT2_TEXT].astype("category")
    train, held_out = split(table, 4000, 1000)
    names = [*SUPPORT2_NUMBERS, *SUPPORT2_TEXT]
    x, held_out = train[names], held_out[names]
    model = HistGradientBoostingClassifier(max_iter=40, max_depth=2, categorical_features="from_dtype")
    fit(model, x, train["hospdead"])
    fx = decompose(model, x, density="empirical", n_jobs=1)
    check(fx, x, held_out, model.decision_function)
    assert_close(fx.predict_response(held_out), model.predict_proba(held_out)[:, 1], 1e-9)
    np.testing.assert_array_equal(fx.predict(held_out), model.predict(held_out))
    term = fx.terms["bun"]
    assert term.axes[0].missing_bin >= 0
    missing = x["bun"].isna()
    np.testing.assert_array_equal(fx.term_values(x[missing], "bun"), term.values[term.axes[0].missing_bin])
    assert term.weights[term.axes[0].missing_bin] >= missing.mean() - 1e-12


def test_california_pairs(data_folder):
    table = pd.read_csv(data_folder / "california_housing.csv.gz")
    train, held_out = split(table, 8000, 2000)
    y, x, held_out = train["MedHouseVal"], train.drop(columns="MedHouseVal"), held_out.drop(columns="MedHouseVal")
    model = fit(xgboost.XGBRegressor(n_estimators=60, max_depth=2, learning_rate=0.3, n_jobs=1), x, y)
    fx = decompose(model, x, density="empirical", n_jobs=1)
    check(fx, x, held_out, model.predict, 1e-5)
    np.testing.assert_allclose(fx.intercept, model.predict(x).mean(), rtol=1e-5)
    check_without(fx, x, "Latitude")
    check_selections(fx, x, ["Latitude", "Longitude"])
    assert ("Latitude", "Longitude") in fx.terms
    assert fx.terms["Longitude", "Latitude"].features == ("Latitude", "Longitude")


# Deep ensembles


def check_deep(model, data, *, raw, rows=slice(None, 300), **options):
    fx = decompose(model, data, **options)
    assert isinstance(fx._function.source, TreeModel)
    some = data.iloc[rows]
    expected = raw(some)
    np.testing.assert_allclose(fx.decision_function(some), expected, atol=2e-5 * max(1, np.abs(expected).max()))
    explained = fx.explain(some, max_order=2)
    np.testing.assert_allclose(explained.scores, fx.decision_function(some), atol=1e-9)
    assert fx.importance()["share"].notna().all()
    return fx


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::treeanova.errors.AliasWarning")
def test_deep_lightgbm_with_categories_and_missing_values(data_folder):
    table = pd.read_csv(data_folder / "adult.csv.gz")
    table = table.sample(min(3000, len(table)), random_state=0)
    y = table.pop("income").astype(str).str.contains(">50K")
    data = table.drop(columns="split")
    text = data.select_dtypes(exclude="number").columns
    data[text] = data[text].astype("category")
    assert data.isna().to_numpy().any()
    model = fit(lightgbm.LGBMClassifier(n_estimators=40, num_leaves=31, verbose=-1, n_jobs=1), data, y)
    fx = check_deep(model, data, raw=lambda rows: model.predict(rows, raw_score=True), density="auto")
    whole = fx.explain(data.iloc[:50])
    np.testing.assert_allclose(whole.scores, fx.decision_function(data.iloc[:50]), atol=1e-9)


@pytest.mark.thorough
@pytest.mark.usefixtures("_budget_of_tables")
def test_a_forest_of_deep_trees_in_pairs_and_a_remainder(data_folder):
    table = pd.read_csv(data_folder / "california_housing.csv.gz")
    table = table.sample(min(1500, len(table)), random_state=0)
    y = table.pop("MedHouseVal")
    model = fit(RandomForestRegressor(n_estimators=30, random_state=0, n_jobs=1), table, y)
    fx = check_deep(model, table, raw=model.predict, density="empirical", budget=2e7, max_order=2)
    assert all(term.has_table for term in fx.terms.values())
    assert fx.has_remainder
    shares = fx.importance().set_index("term")["variance"]
    assert 0 < shares["remainder"] < 0.5
    assert shares["MedInc"] > shares["HouseAge"]


@pytest.mark.thorough
def test_deep_xgboost_with_seven_classes(data_folder):
    table = pd.read_csv(data_folder / "covtype.csv.gz", nrows=3000)
    y = table.pop(table.columns[-1])
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=6, n_jobs=1)
    fit(model, table, np.unique(y, return_inverse=True)[1])
    raw = lambda rows: model.predict(rows, output_margin=True)  # noqa: E731
    fx = check_deep(model, table, raw=raw, density="empirical", max_order=2)
    assert fx.has_remainder
    assert set(fx.importance()["output"]) == set(map(str, fx.schema.outputs))
