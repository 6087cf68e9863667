from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support.models import boosted_product
from tests.support.pages import ParsedPage, names_on_page, values_on_page
from tests.support.remainders import main_effects_and_remainder, model_with_a_feature_called_remainder
from tests.support.training import fit
from treeanova.data.columns import columns_of
from treeanova.report import write_report
from treeanova.report.payload import payload

pytest.importorskip("vl_convert")
ensemble = pytest.importorskip("sklearn.ensemble")
load_wine = pytest.importorskip("sklearn.datasets").load_wine


def test_the_page_holds_the_numbers_of_all_tables(fx, page):
    data = page.data
    assert {names_on_page(data, term) for term in data["terms"]} == set(fx.terms)
    for term in data["terms"]:
        names = names_on_page(data, term)
        for form, found in {"auto": fx, "uniform": fx.with_density("uniform"), "raw": fx.raw}.items():
            if names in found.terms:
                expected = columns_of(found.table(names))["value"]
                np.testing.assert_allclose(values_on_page(term, form) * data["unit"], expected, atol=2 * data["unit"])
        if term["order"] == 2:  # forms of a pair differ by faces only: that keeps the page small
            assert isinstance(term["values"]["uniform"], dict)
        positions = [fx.schema.names.index(name) for name in names]
        counts = np.zeros([fx.grid.sizes[j] for j in positions])
        np.add.at(counts, tuple(fx.density.statistics.points().codes[:, j] for j in positions), 1)
        np.testing.assert_allclose(np.array(term["rows"]) / 1e6, counts.ravel() / 4000, atol=1e-6)


def test_the_unit_keeps_six_digits_and_bounds_are_the_models(fx, page):
    data = page.data
    largest = max(np.abs(term.values).max() for form in (fx, fx.raw) for term in form.terms.values())
    assert 1e5 <= largest / data["unit"] < 1e6
    axis = data["axes"][next(term for term in data["terms"] if term["order"] == 1)["axes"][0]]
    assert axis["bounds"] == pytest.approx(fx.grid.axes[axis["feature"]].thresholds, rel=1e-5)


def test_shares_and_words_come_from_importance(fx, page):
    data = page.data
    table = columns_of(fx.importance())
    shown = {" × ".join(names_on_page(data, t)): t["standing"]["auto"][0] for t in data["terms"]}
    assert list(shown) == table["term"]
    ranks, variances, shares, sizes = zip(*shown.values(), strict=True)
    assert list(ranks) == list(range(1, len(shown) + 1))
    assert variances == pytest.approx(table["variance"], abs=1e-6)
    assert shares == pytest.approx(table["share"], abs=1e-6)
    assert sizes == pytest.approx(table["mean_abs"], rel=1e-3)
    assert sum(shares) == pytest.approx(1, abs=1e-6 * len(shares))  # each is rounded
    assert data["densities"] == ["auto", "uniform", "empirical"]
    assert data["scale"]["effect"] == ["change in prediction against the average"]
    assert data["rows"] == 4000
    assert data["local"] is None


def test_every_output_has_its_numbers():
    wine = load_wine()
    X, y = wine.data[:, :3], wine.target
    model = fit(ensemble.GradientBoostingClassifier(max_depth=2, n_estimators=5, random_state=0), X, y)
    fx = treeanova.decompose(model, X)
    data = ParsedPage(write_report(fx, densities=[])).data
    assert data["densities"] == ["auto"]
    assert data["scale"]["response"] == "probability"
    for term in data["terms"]:
        for k, output in enumerate(fx.schema.outputs):
            expected = columns_of(fx.table(names_on_page(data, term)))[f"value_{output}"]
            np.testing.assert_allclose(values_on_page(term, "auto", k) * data["unit"], expected, atol=2 * data["unit"])
    assert {name: len(found) for name, found in data["headlines"].items()} == {"auto": 3, "auto/raw": 3}


def test_terms_beyond_the_limit_are_listed_without_tables(fx):
    data = ParsedPage(write_report(fx, max_terms=2)).data
    assert [("values" in term) for term in data["terms"]] == [True, True] + [False] * (len(fx.terms) - 2)
    assert all(term["standing"]["auto"] for term in data["terms"])


def test_deep_models_list_what_has_no_table():
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5))
    model = fit(xgboost.XGBRegressor(n_estimators=20, max_depth=5, n_jobs=1), X, X[:, 0] * X[:, 1] * X[:, 2] + X[:, 3])
    fx = treeanova.decompose(model, X)
    ranking = columns_of(fx.importance())
    tables = {" × ".join(names) for names, term in fx.terms.items() if term.has_table}
    assert tables < set(ranking["term"])
    data = ParsedPage(write_report(fx, rows=X[:2])).data
    shown = {" × ".join(names_on_page(data, t)) or t["label"]: t for t in data["terms"]}
    of_uniform = shown.pop("remainder")["standing"]  # under densities that nobody named, orders above the tables
    assert all(name.startswith("uniform") for name in of_uniform)
    assert shown.keys() == set(ranking["term"])
    named = ParsedPage(write_report(fx, densities=["uniform"])).data
    assert {" × ".join(names_on_page(named, t)) or t["label"] for t in named["terms"]} == set(ranking["term"])
    assert {label for label, term in shown.items() if "values" in term} == tables
    assert {label for label, term in shown.items() if "at_rows" not in term} == tables
    for label, share in zip(ranking["term"], ranking["share"], strict=True):
        assert shown[label]["standing"]["auto"][0][2] == pytest.approx(share, abs=1e-6)
    for i, (found,) in enumerate(data["local"]["explained"]["auto"]):
        assert found["score"] * data["unit"] == pytest.approx(fx.decision_function(X[i : i + 1])[0], abs=data["unit"])
    assert "at rows only" in " ".join(entry["title"] for entry in data["checks"]["auto"]["entries"])


def test_terms_with_one_label_are_two_terms():
    fx, X = boosted_product(["a", "b", "a × b"], density="empirical")
    data = ParsedPage(write_report(fx, densities=[], rows=X[:1])).data
    assert {names_on_page(data, term): term.get("label") for term in data["terms"]}["a × b",] == '"a × b"'
    assert sorted(names_on_page(data, term) for term in data["terms"]) == sorted(fx.terms)
    for term in data["terms"]:
        names = names_on_page(data, term)
        expected = columns_of(fx.table(names))["value"]
        np.testing.assert_allclose(values_on_page(term, "empirical") * data["unit"], expected, atol=2 * data["unit"])
        variance = np.average(fx.terms[names].values ** 2, weights=fx.terms[names].weights)
        score = np.var(fx.decision_function(X))
        assert term["standing"]["empirical"][0][1] == pytest.approx(variance / score, rel=1e-3, abs=2e-6)
    ((found,),) = data["local"]["explained"]["empirical"]
    for place, units in found["terms"]:
        names = names_on_page(data, data["terms"][place])
        assert units * data["unit"] == pytest.approx(fx.term_values(X[:1], names)[0], abs=data["unit"])


def test_files_keep_what_a_report_needs(fx, tmp_path):
    fx.save(tmp_path / "fx.tav")
    loaded = treeanova.load(tmp_path / "fx.tav")
    expected, data = (ParsedPage(write_report(one)).data for one in (fx, loaded))
    assert data["rows"] == expected["rows"]
    assert data["densities"] == expected["densities"] == ["auto", "uniform", "empirical"]
    for name in expected["densities"]:
        shares = [[t["standing"][name][0][2] for t in one["terms"]] for one in (expected, data)]
        assert shares[1] == pytest.approx(shares[0], abs=2e-3)


def test_densities_that_need_rows_are_named_with_the_reason():
    effects = treeanova.model.Effects.from_tables({"a": [0.0, 1.0]})
    data = ParsedPage(write_report(treeanova.decompose(effects, None, density="uniform"))).data
    assert data["rows"] is None
    assert "uniform" in data["densities"]
    assert "pass the rows that define it" in data["missing_densities"]["empirical"]


def test_a_report_of_rows_adds_up_to_the_model():
    pytest.importorskip("xgboost")
    pytest.importorskip("pandas")
    model, rows = model_with_a_feature_called_remainder()
    mains = main_effects_and_remainder()
    some = rows.iloc[[7, 2]]
    content = payload(mains, title=None, densities={}, rows=some, max_terms=10)
    scores = [row[0]["score"] * content["unit"] for row in content["local"]["explained"]["empirical"]]
    assert scores == pytest.approx(model.predict(some).tolist(), abs=2 * content["unit"])
    places = [place for place, _ in content["local"]["explained"]["empirical"][0][0]["terms"]]
    assert "(remainder)" in [content["terms"][place].get("label") for place in places]
    assert content["call"] == 'treeanova.decompose(model, X, density="empirical", max_order=1)'
    titles = [entry["title"] for entry in content["checks"]["empirical"]["entries"]]
    assert titles[0] == "The terms and the remainder add up to the model"


def test_a_report_of_large_tables_leaves_other_densities_out_unless_named(monkeypatch):
    pytest.importorskip("xgboost")
    pytest.importorskip("pandas")
    mains = main_effects_and_remainder()
    monkeypatch.setattr("treeanova.report.payload._MAX_CELLS", 10)
    asked, further = {"title": None, "rows": None, "max_terms": 10}, {"uniform": "uniform"}
    content = payload(mains, densities=further, are_named=False, **asked)
    assert content["densities"] == ["empirical"]
    assert "tables have" in content["missing_densities"]["uniform"]
    content = payload(mains, densities=further, **asked)
    assert content["densities"] == ["empirical", "uniform"]


def test_dependent_densities_are_left_out_unless_named_where_terms_are_added_up(monkeypatch):
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 6))
    x[:, 1:] += x[:, [0]]
    model = lightgbm.LGBMRegressor(n_estimators=4, num_leaves=12, random_state=0, verbose=-1)
    fit(model, x, x[:, 0] * x[:, 1] * x[:, 2])
    monkeypatch.setattr("treeanova.terms.costs.LISTED_TERMS", 0)
    fx = treeanova.decompose(model, x, density="empirical", tensor_order=2)
    assert fx._function.unlisted_orders
    asked, further = {"title": None, "rows": None, "max_terms": 10}, {"uniform": "uniform", "auto": "auto"}
    content = payload(fx, densities=further, are_named=False, **asked)
    assert content["densities"] == ["empirical", "uniform"]
    assert content["missing_densities"]["auto"].startswith("it would take as long as the first; name it in `densities`")
    assert payload(fx, densities=further, **asked)["densities"] == ["empirical", "uniform", "auto"]


def test_names_that_read_like_other_terms_lose_nothing():
    pytest.importorskip("xgboost")
    pytest.importorskip("pandas")
    _, rows = model_with_a_feature_called_remainder()
    plt = pytest.importorskip("matplotlib.pyplot")
    table = rows.set_axis(["a", "b", "a × b"], axis=1)
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBRegressor(n_estimators=20, max_depth=2, n_jobs=1)
    fit(model, table, table["a"] * table["b"] + 3 * table["a × b"])
    fx = treeanova.decompose(model, table, density="empirical")
    found = fx.explain(table)
    assert {("a × b",), ("a", "b")} <= set(found.terms)
    assert len(found.parts) == len(found.terms)
    assert found.to_frame().shape == (len(table), len(found.terms))
    score = float(model.predict(table.iloc[[7]])[0])
    ax = treeanova.plot.waterfall(fx, table.iloc[[7]])
    assert fx.intercept + sum(bar.get_width() for bar in ax.patches) == pytest.approx(score, abs=1e-5)
    plt.close("all")
    content = payload(fx, title=None, densities={}, rows=table.iloc[[7]], max_terms=10)
    shown = content["local"]["explained"]["empirical"][0][0]["score"] * content["unit"]
    assert shown == pytest.approx(score, abs=2 * content["unit"])
