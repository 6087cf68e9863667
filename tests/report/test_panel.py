""" "Try it" in a browser: scores of the page equal the library's own, and the terms add up to differences."""

from __future__ import annotations

import contextlib
import csv
import json
import re
import time

import numpy as np
import pytest

import treeanova
from tests.support.pages import HOSTILE_NAMES, ParsedPage
from treeanova.report import panel as panels
from treeanova.report import write_report

pd = pytest.importorskip("pandas")
pytest.importorskip("vl_convert")
ensemble = pytest.importorskip("sklearn.ensemble")

from tests.support.training import fit  # noqa: E402

N_SETTINGS = 1000
LABELS = [*HOSTILE_NAMES[:2], "b", "=1+1"]


def table(n_rows=900):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(n_rows, 3)), columns=["u", "v", "w"])
    rows.iloc[::7, 0] = np.nan
    y = np.nan_to_num(rows["u"], nan=1.0) * rows["v"] + np.sin(3 * rows["w"]) + rng.normal(scale=0.1, size=n_rows)
    return rows, y, rng


def numbers():
    """Numbers, some missing; and one that the model hardly uses."""
    X, y, _ = table()
    model = fit(ensemble.HistGradientBoostingRegressor(max_depth=2, max_iter=30), X, y)
    return model, X, model.predict


def categories():
    """Two classes; categories with hostile labels, some missing, under a hostile name."""
    X, y, rng = table()
    X[HOSTILE_NAMES[0]] = pd.Categorical(rng.choice(LABELS, len(X)), categories=LABELS)
    y = y + (X[HOSTILE_NAMES[0]] == "b") * (2 + 2 * X["v"]) > 0
    X.loc[::5, HOSTILE_NAMES[0]] = None
    model = ensemble.HistGradientBoostingClassifier(max_depth=2, max_iter=30, categorical_features="from_dtype")
    return fit(model, X, y), X, model.decision_function


def codes():
    """Categories that the model knows as integers."""
    X, y, rng = table()
    X["w"] = rng.integers(0, 6, len(X)).astype(float)
    model = ensemble.HistGradientBoostingRegressor(max_depth=2, max_iter=30, categorical_features=["w"])
    fit(model, X, y + (X["w"] % 2) * (2 + X["v"]))
    return model, X, model.predict


def classes():
    X, y, _ = table()
    model = ensemble.HistGradientBoostingClassifier(max_depth=2, max_iter=15)
    fit(model, X, np.digitize(y, np.quantile(y, [1 / 3, 2 / 3])))
    return model, X, model.decision_function


def deep():
    """Terms of three features, which have no table."""
    X, y, _ = table()
    model = fit(ensemble.HistGradientBoostingRegressor(max_depth=4, max_iter=20), X, y + X["u"].fillna(0) * X["w"] * y)
    return model, X, model.predict


MODELS = {one.__name__: one for one in (numbers, categories, codes, classes, deep)}


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Model, rows, its score, decomposition and report by name, made when first asked for."""
    folder, found = tmp_path_factory.mktemp("panels"), {}

    def get(name):
        if name not in found:
            model, X, score = MODELS[name]()
            fx = treeanova.decompose(model, X, density="empirical", tensor_order=2)
            found[name] = X, score, fx, write_report(fx, folder / f"{name}.html", densities=["uniform"])
        return found[name]

    return get


@pytest.fixture(scope="module")
def opened(chromium):
    """A function that opens a page; none may log, ask the network for anything or open a dialog."""
    with contextlib.ExitStack() as stack:
        logged, asked = [], []

        def opens(path, *, width=1400):
            context = chromium.new_context(viewport={"width": width, "height": 900}, accept_downloads=True)
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(60_000)
            page.on("console", lambda message: logged.append(message.text))
            page.on("pageerror", lambda error: logged.append(str(error)))
            page.on("dialog", lambda dialog: (logged.append(f"dialog {dialog.message}"), dialog.dismiss()))
            page.on("request", lambda request: asked.append(request.url.partition(":")[0]))
            page.goto(f"file://{path}")
            end = time.monotonic() + 120
            while not page.evaluate("document.body.dataset.drawn && window.treeanova"):
                assert time.monotonic() < end, "the page was never drawn"
                page.wait_for_timeout(25)
            return page

        yield opens
        assert logged == []
        assert set(asked) <= {"file", "blob", "data"}


@pytest.fixture(scope="module")
def page_of(opened, reports):
    """The page of a report, opened once, with both settings as at the start."""
    found = {}

    def get(name):
        if name not in found:
            found[name] = opened(reports(name)[3])
        page = found[name]
        page.set_viewport_size({"width": 1400, "height": 900})
        page.locator("input[name=edited][value=B]").check(force=True)
        page.get_by_role("button", name="Start again").click()
        return page

    return get


def columns_of(page):
    return page.evaluate("treeanova.report.panel.model.columns.map((column) => column.name)")


def random_settings(X, fx):
    """Rows of values on and next to thresholds, of the data, far out, and missing where the data have such values."""
    rng = np.random.default_rng(1)
    drawn = {}
    for name, axis in zip(X.columns, fx.grid.axes, strict=True):
        if isinstance(X[name].dtype, pd.CategoricalDtype):
            drawn[name] = pd.Categorical(rng.choice([*LABELS, None], N_SETTINGS), categories=LABELS)
            continue
        cuts = axis.thresholds
        near = [cuts, np.nextafter(cuts, np.inf), np.nextafter(cuts, -np.inf)] if axis.is_ordered else []
        offered = [*near, X[name].dropna().unique(), np.full(20, np.nan) if X[name].isna().any() else []]
        drawn[name] = rng.choice(np.concatenate(offered), N_SETTINGS)
    return pd.DataFrame(drawn)


def plain(value):
    is_missing = pd.isna(value)
    return {"missing": bool(is_missing)} if is_missing else {"value": value, "missing": False}


def scores_on_page(page, rows):
    """Scores of rows, set as the controls set them: one call per row."""
    settings = [
        {str(i): plain(row[name]) for i, name in enumerate(columns_of(page))} for row in rows.to_dict("records")
    ]
    return np.array(
        page.evaluate(
            """(settings) => settings.map((setting) => {
            treeanova.panel.assign("B", setting); return treeanova.panel.resultOf("B").scores; })""",
            settings,
        )
    )


BY_HAND = ["categories", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("numbers", "codes", "classes"))]


@pytest.mark.parametrize("name", BY_HAND)
def test_scores_of_the_page_are_the_models_own(page_of, reports, name):
    X, score, fx, _ = reports(name)
    page = page_of(name)
    rows = random_settings(X, fx)
    expected = score(rows).reshape(N_SETTINGS, -1)
    np.testing.assert_allclose(scores_on_page(page, rows), expected, rtol=0, atol=1e-12)
    responses = page.evaluate('treeanova.panel.resultOf("B").responses')
    last = expected[-1]
    by_hand = {
        "numbers": None,
        "codes": None,
        "categories": 1 / (1 + np.exp(-last)),
        "classes": np.exp(last) / np.exp(last).sum(),
    }
    assert responses == (None if by_hand[name] is None else pytest.approx(by_hand[name], abs=1e-12))


def set_by_controls(page):
    """Move every kind of control of B: sliders by keys, fields by typing, lists and boxes; return the row."""
    row = {}
    for control in page.locator("#controls .control").all():
        name = control.locator("b").text_content()
        if control.locator("select").count():
            control.locator("select").select_option(label="b" if name == HOSTILE_NAMES[0] else "3.0")
            row[name] = "b" if name == HOSTILE_NAMES[0] else 3.0
        elif name == "u":
            control.locator("[type=checkbox]").check()
            row[name] = np.nan
        elif name == "v":
            slider = control.locator("[type=range]")
            slider.focus()
            for key in ("Home", "ArrowRight", "ArrowRight"):
                page.keyboard.press(key)
            assert slider.input_value() == str(min(2, slider_steps(page, "v")))
            assert page.evaluate("document.activeElement.type") == "range"
            row[name] = float(control.locator("[type=text]").input_value())
        else:
            control.locator("[type=text]").fill("-0.125")
            row[name] = -0.125
    return row


@pytest.mark.parametrize("name", BY_HAND)
def test_controls_set_what_they_show(page_of, reports, name):
    X, score, _, _ = reports(name)
    page = page_of(name)
    row = pd.DataFrame([set_by_controls(page)]).reindex(columns=X.columns)  # without features that no term uses
    for column in X.columns:
        row[column] = row[column].astype(X[column].dtype)
    expected = score(row).reshape(-1)
    found = page.evaluate('treeanova.panel.resultOf("B").scores')
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    shown = page.locator("#try-scores > div").nth(1).locator(".line").last.text_content()
    text = re.match(r"−?[\d.]+", shown).group().replace("−", "-")
    assert float(text) == pytest.approx(expected[0], rel=1e-4)


def slider_steps(page, name):
    return int(page.get_by_label(f"{name}, setting B", exact=True).get_attribute("max"))


@pytest.mark.thorough
def test_sliders_reach_every_interval(page_of):
    page = page_of("numbers")
    missed = page.evaluate(
        """() => [...document.querySelectorAll("#controls [type=range]")].flatMap((slider) => {
        const steps = Array.from({ length: Number(slider.max) + 1 }, (_, step) => String(step));
        return steps.filter((step) => {
          slider.value = step;
          slider.dispatchEvent(new Event("input"));
          return slider.value !== step; }); })"""
    )
    assert missed == []
    assert page.locator("#controls [type=range]").count() > 1


def test_a_typed_text_that_is_no_number_changes_nothing(page_of):
    page = page_of("numbers")
    before = page.evaluate('treeanova.panel.resultOf("B").scores')
    field = page.get_by_label("v, setting B: exact number")
    value = field.input_value()
    for wrong in ("abc", "", "1e"):
        field.fill(wrong)
        assert field.get_attribute("aria-invalid") == "true"
        assert page.evaluate('treeanova.panel.resultOf("B").scores') == before
    field.blur()
    assert field.input_value() == value
    assert field.get_attribute("aria-invalid") == "false"


def test_both_settings_start_in_the_most_likely_bin(page_of, reports):
    X, page = reports("categories")[0], page_of("categories")
    model, settings = page.evaluate("[treeanova.report.panel.model, treeanova.panel.settings]")
    assert settings["A"] == settings["B"]
    for column, start in zip(model["columns"], settings["A"], strict=True):
        values = X[column["name"]]
        if "labels" in column:
            assert values.value_counts()[start["value"]] == values.value_counts().max()
            continue
        counts = np.bincount(np.searchsorted(column["cuts"], values.dropna()), minlength=len(column["cuts"]) + 1)
        assert start["missing"] == bool(values.isna().sum() > counts.max())
        if not start["missing"]:
            assert counts[np.searchsorted(column["cuts"], start["value"])] == counts.max()


@pytest.mark.parametrize("name", ["categories", pytest.param("classes", marks=pytest.mark.thorough)])
def test_reasons_are_sorted_and_add_up(page_of, name):
    page = page_of(name)
    which = 1 if name == "classes" else 0
    if which:
        page.locator("#try-outputs button").nth(which).click()
    set_by_controls(page)
    with page.expect_download() as download:
        page.locator("#try-files button", has_text="CSV").click()
    rows = list(csv.reader(download.value.path().read_text(encoding="utf-8").splitlines()))
    start = next(i for i, row in enumerate(rows) if row[0] == "term")
    (_, *intercept), *terms, (_, *total) = rows[start + 1 :]
    values = np.array([row[1:] for row in terms], dtype=float)
    np.testing.assert_allclose(values.sum(axis=0) + np.array(intercept, float), np.array(total, float), atol=1e-12)
    assert list(np.abs(values[:, 2])) == sorted(np.abs(values[:, 2]), reverse=True)
    results = page.evaluate('["A", "B"].map((name) => treeanova.panel.resultOf(name).scores)')
    assert [float(total[0]), float(total[1])] == [results[0][which], results[1][which]]
    shown = [text.replace("−", "-") for text in page.locator("#reasons tbody td:last-child").all_text_contents()]
    assert float(shown[-1]) == pytest.approx(float(total[2]), abs=2e-3)
    assert float(shown[0]) == pytest.approx(values[0, 2], abs=2e-3)
    assert sum(map(float, shown[:-1])) == pytest.approx(float(shown[-1]), abs=1e-3 * len(shown))


@pytest.mark.thorough
def test_outputs_follow_the_switch_of_the_page(page_of):
    page = page_of("classes")
    scores = page.evaluate('treeanova.panel.resultOf("B").scores')
    for which in (2, 0):
        page.locator("#try-outputs button").nth(which).click()
        assert f"output={which}" in page.evaluate("location.hash") or which == 0
        assert page.locator("select[name=output]").input_value() == str(which)
        shown = page.locator("#reasons .total td").nth(1).text_content().replace("−", "-")
        assert float(shown) == pytest.approx(scores[which], abs=2e-3)


@pytest.mark.thorough
def test_settings_are_copied_edited_and_begun_again(page_of):
    page = page_of("numbers")
    page.get_by_label("v, setting B: exact number").fill("0.4375")
    assert "of" in page.locator("#reasons caption").text_content()
    page.locator("input[name=edited][value=A]").check(force=True)
    assert page.evaluate("document.activeElement.value") == "A"
    page.get_by_role("button", name="Copy B to A").click()
    settings = page.evaluate("treeanova.panel.settings")
    assert settings["A"] == settings["B"]
    assert "agree" in page.locator("#reasons caption").text_content()
    page.get_by_label("w, setting A: exact number").fill("2")
    assert page.evaluate("treeanova.panel.settings") != settings
    page.get_by_role("button", name="Start again").click()
    start = page.evaluate("treeanova.panel.settings")
    assert start["A"] == start["B"] != settings["A"]


@pytest.mark.thorough
def test_every_control_has_a_name_and_nothing_overflows_a_phone(page_of):
    page = page_of("categories")
    page.set_viewport_size({"width": 360, "height": 800})
    for control in page.locator("#controls :is(input, select)").all():
        assert "setting B" in control.get_attribute("aria-label")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("#try img, #try script, #try iframe").count() == 0


@pytest.mark.thorough
def test_controls_of_many_features_are_searched_or_shown_at_once(opened, tmp_path):
    names = [f"feature {i}" for i in range(35)]
    effects = treeanova.model.Effects.from_tables({name: [0.0, 1.0 + i] for i, name in enumerate(names)})
    page = opened(write_report(treeanova.decompose(effects, density="uniform"), tmp_path / "many.html", densities=[]))
    shown = page.locator("#controls .control b")
    assert shown.all_text_contents() == names[::-1][:30]  # the strongest first
    page.get_by_label("Search features").fill("3")
    assert shown.all_text_contents() == [name for name in names[::-1] if "3" in name]
    page.get_by_label("feature 3, setting B", exact=True).select_option("1")
    assert page.evaluate('treeanova.panel.resultOf("B").scores[0] - treeanova.panel.resultOf("A").scores[0]') == 4
    page.get_by_label("Search features").fill("")
    page.get_by_role("button", name="Show all 35 features").click()
    assert shown.all_text_contents() == names[::-1]
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "feature 4, setting B"


def test_a_deep_model_shows_main_effects_and_pairs_and_says_what_is_left(page_of, reports):
    X, _, fx, _ = reports("deep")
    page = page_of("deep")
    ranking = fx.importance()
    left = ranking["share"][ranking["order"] > 2].sum()
    assert left > 0
    words = page.locator("#panel > .caption").text_content()
    assert f"share of the variance of the score is {treeanova.views.percent(left)}" in words
    rows = X.dropna().iloc[:50]
    low = fx.select(order=[1, 2])
    by_terms = fx.intercept + low.explain(rows).values.sum(axis=1)
    np.testing.assert_allclose(scores_on_page(page, rows).ravel(), by_terms, rtol=0, atol=1e-12)


@pytest.mark.thorough
def test_a_model_that_is_too_large_has_a_reason_instead(opened, reports, monkeypatch, tmp_path):
    _, _, fx, path = reports("numbers")
    size = path.stat().st_size
    monkeypatch.setattr("treeanova.report.page.MOST_BYTES", size - 1)
    page = opened(write_report(fx, tmp_path / "large.html", densities=["uniform"]))
    assert "treeanova.export.javascript(fx)" in page.locator("#panel").text_content()
    assert page.locator("#controls").count() == 0
    assert (tmp_path / "large.html").stat().st_size < size
    assert panels.MOST_BYTES == 2_000_000


def test_a_model_without_tables_has_a_reason_and_one_without_terms_no_panel():
    X, y, _ = table(200)
    X = X.fillna(0.0)
    model = fit(ensemble.HistGradientBoostingRegressor(max_depth=2, max_iter=5), X, y)
    fx = treeanova.decompose(model, X, density=treeanova.density.Reference(X.iloc[0]))
    found = ParsedPage(write_report(fx, densities=[])).data["panel"]
    if all(not term.has_table for term in fx.terms.values()):
        assert found["reason"].startswith("No term has a table")
    constant = treeanova.decompose(fit(ensemble.HistGradientBoostingRegressor(max_iter=3), X, np.ones(len(X))), X)
    assert ParsedPage(write_report(constant, densities=[])).data["panel"] is None


def test_the_panel_holds_no_values_of_rows(reports):
    X, _, fx, path = reports("numbers")
    text = json.dumps(ParsedPage(path.read_text(encoding="utf-8")).data["panel"])
    cuts = {repr(float(cut)) for axis in fx.grid.axes for cut in axis.thresholds}
    values = {repr(float(value)) for name in X for value in X[name].dropna()} - cuts
    assert len(values) > 2000
    assert not [value for value in values if value in text]


@pytest.mark.thorough
def test_dates_are_typed_and_shown_as_dates(opened, tmp_path):
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 730, 500), unit="D")
    X = pd.DataFrame({"day": days, "v": rng.normal(size=500)})
    numeric = X.assign(day=days.to_numpy().astype("datetime64[s]").astype(np.int64))
    y = np.sin(days.day_of_year / 58) + X["v"]
    model = fit(ensemble.HistGradientBoostingRegressor(max_depth=2, max_iter=20), numeric, y)
    page = opened(
        write_report(treeanova.decompose(model, X, density="empirical"), tmp_path / "dates.html", densities=[])
    )
    page.get_by_label("v, setting B: exact number").fill("0.25")
    field = page.get_by_label("day, setting B: exact date")
    for text, seconds in (("2015-07-04", 1435968000), ("2016-02-29 12:30:00", 1456749000)):
        field.fill(text)
        expected = model.predict(pd.DataFrame({"day": [seconds], "v": [0.25]}))
        assert page.evaluate('treeanova.panel.resultOf("B").scores') == pytest.approx(expected, abs=1e-12)
        field.blur()
        assert field.input_value() == text
    page.get_by_label("day, setting B", exact=True).press("Home")
    assert field.input_value().startswith("2015-")
