"""The page in a browser: what its scripts draw, list and write."""

from __future__ import annotations

import contextlib
import csv
import functools
import importlib.metadata
import itertools
import json
import re
import time
import urllib.parse

import numpy as np
import pytest

import treeanova
from tests.support.effects import grid_of_sizes
from tests.support.forests import chains
from tests.support.pages import ParsedPage, names_on_page, values_on_page
from treeanova.errors import DensityWarning
from treeanova.report import write_report

pd = pytest.importorskip("pandas")
pytest.importorskip("vl_convert")
load_wine = pytest.importorskip("sklearn.datasets").load_wine
ensemble = pytest.importorskip("sklearn.ensemble")

from tests.support.diamonds import diamonds  # noqa: E402
from tests.support.training import fit  # noqa: E402

SECONDS = 120  # to wait for a page before giving up
SCRIPT, IMAGE = "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>'
DRAWN = "document.body.dataset.drawn && window.treeanova"


def boosted(n_features, n_pairs, n_rows=1500, n_trees=300, density="auto"):
    """A decomposition of a boosted model with about so many pairs."""
    rng = np.random.default_rng(0)
    X = 0.8 * rng.normal(size=(n_rows, n_features)) + 0.6 * rng.normal(size=(n_rows, 1))
    pairs = [(i, j) for i in range(n_features) for j in range(i)]
    chosen = [pairs[k] for k in rng.choice(len(pairs), size=n_pairs, replace=False)]
    y = sum(X[:, i] * X[:, j] for i, j in chosen) + X @ rng.normal(size=n_features)
    model = ensemble.HistGradientBoostingRegressor(
        max_leaf_nodes=4, max_depth=2, max_iter=n_trees, learning_rate=0.3, interaction_cst=[set(p) for p in chosen]
    )
    names = [f"feature {i}" for i in range(n_features)]
    return treeanova.decompose(fit(model, X, y), X, feature_names=names, density=density)


def one_cell():
    """A model of two features under a density of one row."""
    with pytest.warns(DensityWarning, match="are in one cell"):
        return treeanova.decompose(chains([(0, 0.5), (1, 0.5)]), np.ones((1, 3)), density="empirical", n_jobs=1), None


def mixed():
    """Two classes; names that would like to be markup, categories, missing values, a long name."""
    rng = np.random.default_rng(0)
    n = 1200
    group = rng.choice([IMAGE, "b", "</script>", "=1+1"], n)
    X = pd.DataFrame(
        {
            SCRIPT: rng.normal(size=n),
            "a name of more than forty characters, for once": rng.normal(size=n),
            "group": group,
        }
    )
    y = (X[SCRIPT] * X.iloc[:, 1] + (group == "b") * X[SCRIPT] + rng.normal(size=n) > 0).astype(int)
    X["group"] = X["group"].astype("category")
    X.iloc[::9, 1] = np.nan
    model = fit(
        ensemble.HistGradientBoostingClassifier(max_depth=2, max_iter=40, categorical_features="from_dtype"), X, y
    )
    return treeanova.decompose(model, X), X


def with_bands():
    """A bag of models of a number and a category."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=400), "b": rng.normal(size=400), "kind": rng.choice([0.0, 1.0], 400)})
    y = X["a"] * X["b"] + X["kind"] + rng.normal(size=400)
    model = ensemble.HistGradientBoostingRegressor(max_depth=2, max_iter=10, categorical_features=["kind"])
    return treeanova.bag(functools.partial(fit, model), X, y, 3, density="empirical", n_jobs=1), None


def rows_of_bands(fx):
    """A validation at rows of their own."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"a": rng.normal(size=100), "b": rng.normal(size=100), "kind": rng.choice([0.0, 1.0], 100)})
    return fx.validate(X, X["a"] * X["b"] + X["kind"] + rng.normal(size=100))


def three_classes():
    wine = load_wine(as_frame=True)
    X = wine.data.iloc[:, :4]
    model = fit(ensemble.HistGradientBoostingClassifier(max_depth=2, max_iter=10), X, wine.target_names[wine.target])
    return treeanova.decompose(model, X), X


def opposing():
    """Terms with negative shares, and a remainder: raw terms of two features are no terms of the pure form."""
    rows, price = diamonds(1500)
    model = fit(ensemble.HistGradientBoostingRegressor(max_depth=2, max_iter=80), rows, price)
    return treeanova.decompose(model, rows, density="empirical", max_order=1), None


def with_sums():
    """A forest with more terms of high order than are listed."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 5))
    model = fit(
        ensemble.RandomForestRegressor(5, max_depth=7, random_state=0), rows, rows[:, 0] * rows[:, 1] * rows[:, 2]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("treeanova.terms.costs.LISTED_TERMS", 3)
        return treeanova.decompose(model, rows, density="independent", tensor_order=2), None


def outlying():
    """Main effects and a pair of 30 and 25 bins, written down: one cell of the pair is far larger than all others."""
    up, across = np.linspace(-1, 1, 30), np.linspace(-1, 1, 25)
    pair = np.multiply.outer(up, across)
    pair[3, 4] += 60.0
    terms = {(0,): up[:, None], (1,): -across[:, None], (0, 1): pair[..., None]}
    effects = treeanova.model.Effects(grid_of_sizes([30, 25]), np.zeros(1), terms)
    rows = np.stack(np.meshgrid(np.arange(30) - 0.5, np.arange(25) - 0.5, indexing="ij"), axis=-1).reshape(-1, 2)
    return treeanova.decompose(effects, np.repeat(rows, 20, axis=0), density="empirical"), None


def units():
    """Two classes, dates of two years, a long tail and categories."""
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2011-01-01") + pd.to_timedelta(rng.integers(0, 730, 600), unit="D")
    kinds = pd.Categorical(rng.choice(["rare", "usual", "common"], 600, p=[0.1, 0.3, 0.6]))
    rows = pd.DataFrame({"day": days, "amount": rng.lognormal(3, 2, 600), "kind": kinds})
    signal = (
        np.log(rows["amount"]) - 3 + 2 * np.sin(days.day_of_year / 58) + 3 * (kinds == "rare") - 2 * (kinds == "usual")
    )
    numbers = rows.assign(day=days.to_numpy().astype("datetime64[s]").astype(np.int64))
    model = ensemble.HistGradientBoostingClassifier(max_depth=2, max_iter=20, categorical_features="from_dtype")
    fit(model, numbers, np.where(signal > 0, "yes", "no"))
    return treeanova.decompose(model, rows, density="empirical"), rows


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Reports by name, written when first asked for."""
    folder = tmp_path_factory.mktemp("reports")
    found = {}

    def make(name):
        fx, rows = {
            "twelve": lambda: (boosted(12, 40), None),
            "hundred": lambda: (boosted(100, 100, n_rows=1000, n_trees=700), None),
            "many": lambda: (boosted(40, 290, n_rows=500, n_trees=1000, density="independent"), None),
            "mixed": mixed,
            "wine": three_classes,
            "opposing": opposing,
            "sums": with_sums,
            "units": units,
            "outlying": outlying,
            "bands": with_bands,
            "one cell": one_cell,
        }[name]()
        title = f"{SCRIPT} & {IMAGE}" if name == "mixed" else None
        densities = ["uniform"] if name in {"many", "one cell"} else ["uniform", "empirical"]
        rows = None if rows is None else rows.iloc[:3]
        more = {}
        if name == "bands":
            fx, more = fx.fx, {"errors": fx, "validation": rows_of_bands(fx.fx)}
        return fx, write_report(fx, folder / f"{name}.html", title=title, densities=densities, rows=rows, **more)

    def get(name):
        if name not in found:
            found[name] = make(name)
        return found[name]

    return get


@pytest.fixture
def opened(chromium, reports):
    """A function that opens a report; no page may log, ask the network for anything or open a dialog."""
    with contextlib.ExitStack() as stack:
        logged, asked, pages = [], [], []

        def opens(name, state="", *, width=1400, height=900, scheme="light"):
            context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            stack.callback(context.close)
            page = context.new_page()
            pages.append(page)
            page.set_default_timeout(1000 * SECONDS)
            page.on("console", lambda message: logged.append(message.text))
            page.on("pageerror", lambda error: logged.append(str(error)))
            page.on("dialog", lambda dialog: (logged.append(f"dialog {dialog.message}"), dialog.dismiss()))
            page.on("request", lambda request: asked.append(request.url.partition(":")[0]))
            page.goto(f"file://{reports(name)[1]}{state}")
            wait_until(page, DRAWN)
            return page

        yield opens
        assert logged == []
        assert set(asked) <= {"file", "blob", "data"}
        assert asked.count("file") == len(pages)


def wait_until(page, expression, act=lambda: None):
    """Act until a condition holds; Playwright's own way is refused by the page's policy, as it should be."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        act()
        if page.evaluate(expression):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"the page never came to {expression}")


def hover_about(page):
    """A function that moves the mouse over the middle of the plot, a little further with every call."""
    places = itertools.cycle(range(-40, 41, 8))

    def move():
        box = page.locator("#plot canvas").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2 + next(places), box["y"] + box["height"] / 2)

    return move


def redrawn(page, act):
    """What `act` gives, once the page has drawn anew."""
    before = page.evaluate("document.body.dataset.drawn")
    result = act()
    wait_until(page, f"document.body.dataset.drawn !== {before!r}")
    return result


def switch(page, name, value):
    redrawn(page, lambda: page.locator(f'input[name="{name}"][value="{value}"]').check(force=True))


def drawn(page, name="steps"):
    """Data of the one view, without bounds beyond the window."""
    return page.evaluate(f"treeanova.view().data({json.dumps(name)}).map((row) => ({{ ...row, tip: null }}))")


def steps_of(page):
    return {round(row["x"], 6): row["y"] for row in drawn(page)}


def table_values(fx, key):
    return np.asarray(fx.terms[key].values)


def open_table(page):
    page.locator("#twin summary").click()
    page.locator("#table td").first.wait_for()


def listed(page):
    return page.locator("#list .name").all_text_contents()


def sizes_of(path):
    """How much of a page is Vega, which comes with vl-convert in any version, and how much is ours."""
    data, *code = (len(text.encode()) for _, text in ParsedPage(path.read_text(encoding="utf-8")).scripts)
    whole, bundle = path.stat().st_size, max(code)
    version = importlib.metadata.version("vl-convert-python")
    return (
        f"{whole:,} bytes: the bundle of vl-convert-python {version} {bundle:,}, data {data:,}, "
        f"all else {whole - bundle - data:,}"
    )


def test_a_page_of_one_row_does_not_add_up_shares_that_are_all_zero(opened):
    page = opened("one cell")
    assert " · 1 row · " in page.locator("#facts").text_content()
    assert page.locator("#sentence").text_content() == "No term varies under this density."
    assert page.locator("#numbers dt").first.text_content() == "Shares by order"
    assert page.locator("#numbers dd").first.text_content() == "–"
    assert "every term is zero at these rows" in page.locator("#certificate").text_content()
    page.locator('input[name="density"][value="uniform"]').click()
    assert "add up to 100" in page.locator("#numbers dt").first.text_content()


def test_the_first_screen_answers(opened, reports):
    fx, path = reports("twelve")
    page = opened("twelve")
    ranking = fx.importance()
    assert page.locator("#term-title").text_content() == ranking["term"][0]
    assert page.locator("#facts").text_content() == (
        "HistGradientBoostingRegressor · 1,500 rows · density auto · scale prediction"
    )
    mains = ranking["share"][ranking["order"] == 1].sum()
    assert f"{100 * mains:.1f}\u00a0%" in page.locator("#numbers").text_content()
    for part in ("#sentence", "#numbers", "#list", "#plot"):
        box = page.locator(part).bounding_box()
        assert box["y"] + min(box["height"], 400) < 900, part
    assert path.stat().st_size <= 1.6e6, sizes_of(path)
    assert page.evaluate("document.querySelectorAll('*').length") < 3000


def test_a_main_effect_is_drawn_as_its_table_has_it(opened, reports):
    fx, _ = reports("twelve")
    page = opened("twelve", "#term=feature+3")
    bounds, values = fx.terms["feature 3"].axes[0].thresholds, table_values(fx, "feature 3")
    found = steps_of(page)
    inside = [i for i, bound in enumerate(bounds) if min(found) < bound < max(found)]
    assert len(inside) > 20
    for i in inside:
        near = min(found, key=lambda x: abs(x - bounds[i]))
        assert near == pytest.approx(bounds[i], abs=1e-5)
        assert found[near] == pytest.approx(values[i + 1], abs=1e-4)


@pytest.mark.thorough
def test_switching_density_and_form_changes_the_drawn_data(opened, reports):
    fx, _ = reports("twelve")
    page = opened("twelve", "#term=feature+3")
    auto = steps_of(page)
    switch(page, "density", "uniform")
    uniform = steps_of(page)
    assert auto.keys() == uniform.keys()
    expected = table_values(fx.with_density("uniform"), "feature 3")
    assert min(uniform.values()) == pytest.approx(expected.min(), abs=1e-4)
    assert max(abs(auto[x] - uniform[x]) for x in auto) > 0.01
    assert "density=uniform" in page.evaluate("location.hash")
    page = opened("twelve", "#term=" + "+×+".join(name.replace(" ", "+") for name in strongest_pair(fx)))
    pure = {(row["x"], row["y"]): row["value"] for row in drawn(page, "cells effect")}
    switch(page, "form", "raw")
    raw = {(row["x"], row["y"]): row["value"] for row in drawn(page, "cells raw")}
    assert pure.keys() == raw.keys()
    assert max(abs(pure[cell] - raw[cell]) for cell in pure) > 0.01
    assert sorted(raw.values()) == pytest.approx(sorted(stored_values(reports("twelve")[1], strongest_pair(fx), "raw")))


def stored_values(path, names, form):
    """Values of the cells with rows that a report holds of a pair, decoded in Python."""
    data = ParsedPage(path.read_text(encoding="utf-8")).data
    term = next(t for t in data["terms"] if names_on_page(data, t) == names)
    kept = np.array(term["rows"]) > 0
    return list(values_on_page(term, form)[kept] * data["unit"])


def strongest_pair(fx):
    table = fx.importance()
    return tuple(table["term"][table["order"] == 2].iloc[0].split(" × "))


@pytest.mark.thorough
def test_raw_against_pure_has_one_scale_and_the_difference(opened, reports):
    fx, _ = reports("twelve")
    page = opened("twelve", "#view=compare&term=" + "+×+".join(n.replace(" ", "+") for n in strongest_pair(fx)))
    raw, pure, moved = (
        {(row["x"], row["y"]): row["value"] for row in drawn(page, f"cells {name}")}
        for name in ("raw", "pure", "moved (pure − raw)")
    )
    assert all(moved[cell] == pytest.approx(pure[cell] - raw[cell], abs=1e-6) for cell in moved)


@pytest.mark.thorough
def test_one_view_at_a_time(opened):
    page = opened("twelve")
    page.evaluate(
        """() => { const embed = window.vegaEmbed; window.alive = 0;
        window.vegaEmbed = async (...given) => { const made = await embed(...given); const end = made.finalize;
        window.alive += 1; made.finalize = () => { window.alive -= 1; end(); }; return made; }; }"""
    )
    for position in (1, 2, 3):
        redrawn(page, page.locator("#list button").nth(position).click)
        assert page.locator("#plot canvas").count() == 1
        assert page.evaluate("window.alive") == 1


@pytest.mark.thorough
def test_search_sort_and_filter(opened, reports):
    fx, _ = reports("twelve")
    page = opened("twelve")
    ranking = fx.importance()
    labels = list(ranking["term"])
    assert listed(page) == labels[:60]
    page.locator("select[name=sort]").select_option("name")
    assert listed(page)[:3] == ["feature 0", *sorted(label for label in labels if label.startswith("feature 0 ×"))[:2]]
    page.locator("select[name=sort]").select_option("share")
    by_share = ranking.sort_values("share", ascending=False, kind="stable")["term"]
    assert listed(page)[:12] == list(by_share[:12])
    page.locator("select[name=sort]").select_option("variance")
    page.locator("select[name=order]").select_option("1")
    assert listed(page) == [label for label in labels if "×" not in label]
    page.locator("select[name=order]").select_option("all")
    page.locator("#search").fill("feature 11")
    assert listed(page) == [label for label in labels if "feature" in label and "11" in label]
    assert page.evaluate("document.activeElement.id") == "search"
    page.locator("#search").fill("feature 3 x feature 11")
    assert listed(page) == [label for label in labels if "3" in label and "11" in label]
    page.locator("#search").fill("no such term")
    assert listed(page) == []


@pytest.mark.thorough
def test_state_lives_in_the_address(opened):
    page = opened("mixed", "#density=uniform&scale=response&form=raw&range=shared&theme=dark")
    checked = {
        name: page.locator(f"input[name={name}]:checked").get_attribute("value")
        for name in ("density", "scale", "form", "range", "theme")
    }
    assert checked == {"density": "uniform", "scale": "response", "form": "raw", "range": "shared", "theme": "dark"}
    page = opened("mixed", "#density=nonsense&view=x&term=none&output=99")
    assert page.locator("input[name=density]:checked").get_attribute("value") == "auto"


def test_names_show_as_text_and_do_nothing(opened):
    page = opened("mixed", "#term=group")
    assert page.locator("h1").text_content() == f"{SCRIPT} & {IMAGE}"
    assert SCRIPT in listed(page)
    assert page.locator("img, iframe, object").count() == 0
    assert page.locator("script").count() == 3
    open_table(page)
    labels = {IMAGE, f"{IMAGE} or unseen or missing"}  # unseen ones go with any
    assert labels & set(page.locator("#table td").all_text_contents())
    assert labels & {row["label"] for row in drawn(page, "cells")}
    for view in ("compare", "densities"):
        switch(page, "view", view)
    redrawn(page, page.locator("#list button").nth(listed(page).index(SCRIPT)).click)
    wait_until(page, "!document.getElementById('tip').hidden", hover_about(page))
    assert page.locator("#tip b").first.text_content() == SCRIPT
    with page.expect_download() as download:
        page.locator("#files button", has_text="SVG").click()
    assert "<img" not in download.value.path().read_text(encoding="utf-8")


@pytest.mark.thorough
def test_files(opened, reports):
    fx, _ = reports("mixed")
    page = opened("mixed", "#term=group")

    def saved(button):
        with page.expect_download() as download:
            page.locator("#files button", has_text=button).click()
        return download.value.path().read_bytes()

    table = list(csv.reader(saved("CSV").decode().splitlines()))
    assert table[0][:4] == ["group", "auto", "uniform", "empirical"]
    assert "'=1+1" in {row[0].partition(" or ")[0] for row in table}  # no formula for a spreadsheet
    assert [float(row[1]) for row in table[1:]] == pytest.approx(list(table_values(fx, "group")), abs=1e-5)
    assert sum(float(row[-1]) for row in table[1:]) == pytest.approx(1, abs=1e-5)
    assert saved("PNG").startswith(b"\x89PNG")
    assert saved("SVG").lstrip().startswith(b"<svg")


@pytest.mark.thorough
def test_rows_lead_to_their_terms(opened):
    page = opened("mixed")
    amounts = page.locator(".waterfall td.amount").all_text_contents()
    numbers = [float(text.replace("−", "-").replace(",", "")) for text in amounts]
    assert sum(numbers[:-1]) == pytest.approx(numbers[-1], abs=2e-3)
    button = page.locator(".waterfall button").nth(1)
    name = button.text_content()
    redrawn(page, button.click)
    title = page.locator("#term-title").text_content()
    assert all(part in name for part in title.split(" × "))
    page = opened("twelve")
    assert page.locator("#rows").is_hidden()


@pytest.mark.thorough
def test_missing_values_stand_apart(opened, reports):
    fx, _ = reports("mixed")
    name = "a name of more than forty characters, for once"
    page = opened("mixed", "#term=" + name.replace(" ", "+"))
    (extra,) = drawn(page, "extras")
    assert extra["y"] == pytest.approx(table_values(fx, name)[-1], abs=1e-5)
    assert extra["x"] > max(row["x"] for row in drawn(page))


@pytest.mark.thorough
def test_outputs_and_the_response_scale(opened, reports):
    fx, _ = reports("wine")
    page = opened("wine")
    title = page.locator("#term-title").text_content()
    assert " × " not in title
    k = 1
    redrawn(page, lambda: page.locator("select[name=output]").select_option(str(k)))
    values = table_values(fx, title)
    assert max(steps_of(page).values()) == pytest.approx(values[:, k].max(), abs=1e-4)
    switch(page, "scale", "response")
    base = np.exp(fx.intercept) / np.exp(fx.intercept).sum()
    odds = np.exp(fx.intercept + values)
    expected = (odds / odds.sum(axis=1, keepdims=True))[:, k] - base[k]
    assert max(steps_of(page).values()) == pytest.approx(expected.max(), abs=1e-4)
    assert min(steps_of(page).values()) == pytest.approx(expected.min(), abs=1e-4)


def overlaps(page, selector):
    """Whether the text of some cell in a row lies over that of the next, or is more than five lines high."""
    script = """(selector) => {
        const boxes = [...document.querySelectorAll(selector)].map((cell) => {
            const range = document.createRange();
            range.selectNodeContents(cell);
            return range.getBoundingClientRect();
        });
        return boxes.some((box, i) => box.height > 110 || (i && boxes[i - 1].right > box.left));
    }"""
    return page.evaluate(script, selector)


@pytest.mark.thorough
@pytest.mark.parametrize("width", [360, 1400])
def test_headers_of_several_outputs_do_not_overlap(opened, width):
    page = opened("wine", width=width)
    open_table(page)
    assert page.locator("#table thead th").count() > 10
    assert not overlaps(page, "#table thead th")
    assert not overlaps(page, "#table tbody tr:first-child td")
    page.evaluate("document.querySelector('.waterfall th.amount').textContent = 'log-odds of the class'")
    assert not overlaps(page, ".waterfall thead th")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def axis_of(page):
    """The numeric axis under the curve."""
    return page.evaluate("treeanova.specification().vconcat[1].encoding.x")


@pytest.mark.thorough
def test_dates_are_dates(opened, reports):
    fx, _ = reports("units")
    page = opened("units", "#term=day")
    axis = axis_of(page)["axis"]
    ticks = np.array(axis["values"]).astype("datetime64[D]")
    assert len(ticks) > 3
    assert (ticks == ticks.astype("datetime64[M]").astype("datetime64[D]")).all()  # each begins a month
    assert "utcFormat(datum.value * 864e5, '%Y-%m')" in axis["labelExpr"]
    bounds = np.array([row["x"] for row in drawn(page)])[1:-1]
    expected = fx.terms["day"].axes[0].thresholds / 86_400
    np.testing.assert_allclose(bounds, expected[-len(bounds) :], atol=1e-5)
    open_table(page)
    shown = page.locator("#table tbody tr td:first-child").all_text_contents()
    assert shown == list(fx.table("day")["day"])


@pytest.mark.thorough
def test_an_axis_by_logarithm(opened, reports):
    fx, _ = reports("units")
    page = opened("units", "#term=amount&axis=log")
    bounds = np.exp([row["x"] for row in drawn(page)])[1:-1]
    np.testing.assert_allclose(bounds, fx.terms["amount"].axes[0].thresholds, rtol=1e-5)
    axis = axis_of(page)["axis"]
    assert axis["title"] == "amount (log scale)"
    texts = json.loads(axis["labelExpr"].partition("]")[0] + "]")
    numbers = [float(text.replace(",", "")) for text in texts if text != "missing"]
    np.testing.assert_allclose(np.exp(axis["values"][: len(numbers)]), numbers, rtol=1e-6)
    assert {1.0, 10.0, 100.0} <= set(numbers)


@pytest.mark.thorough
def test_an_axis_by_shares_of_the_rows(opened, reports):
    fx, _ = reports("units")
    page = opened("units", "#term=amount&axis=quantile")
    rows = reports("units")[0].table("amount")["weight"]  # empirical: the shares of the rows
    widths = np.diff([row["x"] for row in drawn(page)])
    np.testing.assert_allclose(widths, 0.95 * rows[: len(widths)] + 0.05 / len(widths), atol=1e-5)
    assert len(widths) == fx.terms["amount"].axes[0].n_regular
    switch(page, "axis", "linear")
    assert axis_of(page)["axis"]["title"] == "amount"


@pytest.mark.thorough
def test_orders_of_categories(opened, reports):
    table = reports("units")[0].table("kind")
    page = opened("units", "#term=kind&categories=rows")
    order = "treeanova.specification().hconcat[0].encoding.y.sort.map((label) => label.split(' ')[0]).slice(0, 3)"
    assert page.evaluate(order) == ["common", "usual", "rare"]
    switch(page, "categories", "name")
    assert page.evaluate(order) == ["common", "rare", "usual"]
    switch(page, "categories", "value")
    by_value = table[:3].sort_values("value", ascending=False)["kind"]
    assert page.evaluate(order) == [label.split(" ")[0] for label in by_value]


@pytest.mark.thorough
def test_the_class_and_the_base_point_are_named(opened, reports):
    fx, _ = reports("units")
    page = opened("units", "#term=amount&scale=response")
    assert page.locator("#facts").text_content().endswith("scale log-odds of yes")
    base = 1 / (1 + np.exp(-fx.intercept))
    words = page.locator("#plot").get_attribute("aria-label")
    assert f"change in probability of yes from {base:.3g}, all other terms at their average (does not add up)" in words


@pytest.mark.thorough
def test_scores_before_softmax_are_not_called_log_odds(opened):
    page = opened("wine")
    assert page.locator("#facts").text_content().endswith("scale class score · output class_0")
    for part in ("#switches", "#caption", "#measure", ".waterfall thead"):
        assert "log-odds" not in page.locator(part).text_content()
    assert page.evaluate("treeanova.report.scale.effect[0]") == "change in class score (class_0) against the average"


@pytest.mark.thorough
def test_one_count_of_terms_for_each_form(opened, reports):
    fx, _ = reports("opposing")
    pure, raw = list(fx.importance()["term"]), list(fx.raw.importance()["term"])
    assert set(raw) - set(pure)  # terms of the raw form alone
    for form, terms in (("pure", pure), ("raw", raw)):
        page = opened("opposing", f"#form={form}")
        assert listed(page) == terms
        assert page.locator("#rest").text_content().startswith(f"All {len(terms)} terms are listed.")
        assert page.locator("#numbers dd").nth(1).text_content().startswith(str(len(terms)))
        page.locator("#search").fill("carat")
        matching = [term for term in terms if "carat" in term]
        assert page.locator("#rest").text_content().startswith(f"{len(matching)} of {len(terms)} terms match.")


@pytest.mark.thorough
def test_sums_of_other_terms_are_no_terms(opened, reports):
    fx, _ = reports("sums")
    sums = [label for label in fx.importance()["term"] if label not in {" × ".join(names) for names in fx.terms}]
    assert sums
    assert all(label.startswith("other terms of order ") for label in sums)
    page = opened("sums", f"#term={sums[0]}")
    words = f"All {len(fx.terms)} terms and {len(sums)} sums of other terms are listed."
    assert page.locator("#rest").text_content() == words
    assert page.locator("#numbers dd").nth(1).text_content().startswith(str(len(fx.terms)))
    assert f"of {len(fx.terms)} terms" in page.locator("#sentence").text_content()
    order = sums[0].removeprefix("other terms of order ")
    assert f"Terms of {order} features that are not listed, added up" in page.locator("#plot").text_content()


@pytest.mark.thorough
def test_terms_that_oppose_others_are_listed_by_what_they_do(opened, reports):
    fx, _ = reports("opposing")
    table = fx.importance().set_index("term")
    assert table["share"]["clarity"] < 0
    page = opened("opposing", "#term=clarity")
    assert listed(page) == list(table.index)
    numbers = page.locator("#list .share").all_text_contents()
    expected = 100 * table["variance"].to_numpy()
    shown = [float(number.replace("\u00a0%", "")) for number in numbers if "<" not in number]
    assert shown == pytest.approx(expected[: len(shown)], abs=0.051)
    standing = page.locator("#standing").text_content()
    assert f"rank {list(table.index).index('clarity') + 1} of {len(table)}" in standing
    words = "A negative share means that the term partly cancels terms that it is correlated with"
    assert words in standing
    assert words not in page.locator("#rest").text_content()
    page.locator("#search").fill("x")
    assert listed(page) == ["x"]
    page.locator("#search").fill("")
    page.locator("select[name=sort]").select_option("share")
    assert words in page.locator("#rest").text_content()
    assert listed(page)[-1] == table["share"].idxmin()


@pytest.mark.thorough
def test_a_hundred_features_and_pairs(opened, reports):
    fx, path = reports("hundred")
    assert len(fx.terms) > 150
    assert path.stat().st_size <= 2.5e6, sizes_of(path)
    page = opened("hundred")
    assert page.locator("#list li").count() == 60
    assert f"Remaining {len(fx.terms) - 60} terms" in page.locator("#rest").text_content()
    page.locator("#rest button").click()
    assert page.locator("#list li").count() == 120
    open_table(page)
    assert page.evaluate("document.querySelectorAll('*').length") < 3000


@pytest.mark.thorough
def test_three_hundred_terms(opened, reports):
    fx, _ = reports("many")
    assert len(fx.terms) >= 300
    page = opened("many")
    assert page.locator("#list li").count() == 60
    assert page.locator("#plot canvas").count() == 1
    assert page.evaluate("document.querySelectorAll('*').length") < 3000


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "state"), [("twelve", ""), ("mixed", "#term=group&view=densities"), ("mixed", "#view=compare")]
)
def test_no_sideways_scroll_on_a_phone(opened, name, state):
    page = opened(name, state, width=360, height=740)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("#plot canvas").bounding_box()["width"] <= 360


def brightness(colour):
    red, green, blue = (int(part) for part in re.findall(r"\d+", colour)[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.thorough
def test_dark_mode_is_whole(opened):
    page = opened("mixed", scheme="dark")
    backgrounds = page.evaluate(
        """() => [...document.querySelectorAll("body, body *")].filter((e) => e.checkVisibility() && !e.closest(".tip"))
        .filter((e) => e.clientWidth * e.clientHeight > 12000).map((e) => getComputedStyle(e).backgroundColor)
        .filter((c) => c !== "rgba(0, 0, 0, 0)")"""
    )
    assert len(backgrounds) > 5
    assert max(map(brightness, backgrounds)) < 60
    corner = "document.querySelector('#plot canvas').getContext('2d').getImageData(2, 2, 1, 1).data"
    picture = page.evaluate(f"[...{corner}]")
    assert max(picture[:3]) < 60
    switch(page, "theme", "light")
    assert brightness(page.evaluate("getComputedStyle(document.body).backgroundColor")) > 200


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("state", ["", "#term=group&view=densities"])
def test_axe_finds_nothing_serious(opened, axe, scheme, state):
    page = opened("mixed", state, scheme=scheme)
    open_table(page)
    page.evaluate(axe)  # evaluated by the driver: the page's own policy would refuse it
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    serious = [v for v in found["violations"] if v["impact"] in {"serious", "critical"}]
    assert [(v["id"], [node["target"] for node in v["nodes"]][:3]) for v in serious] == []


def shortened(spec):
    """A specification with a few rows of its data: checking all of them takes long and tells no more."""
    if isinstance(spec, dict):
        return {name: part[:2] if name == "values" else shortened(part) for name, part in spec.items()}
    return [shortened(part) for part in spec] if isinstance(spec, list) else spec


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "state"), [("twelve", ""), ("mixed", "#term=group&view=densities"), ("mixed", "#view=compare")]
)
def test_specifications_are_valid_vega_lite(opened, name, state):
    altair = pytest.importorskip("altair", reason="checking specifications needs altair")
    spec = json.loads(opened(name, state).evaluate("JSON.stringify(treeanova.specification())"))
    altair.Chart.from_dict(shortened(spec))


@pytest.mark.thorough
def test_bands_are_two_standard_errors_and_uncertain_cells_are_pale(opened, reports):
    fx = reports("bands")[0]
    page = opened("bands", "#term=a")
    data = ParsedPage(reports("bands")[1].read_text(encoding="utf-8")).data
    term = next(term for term in data["terms"] if names_on_page(data, term) == ("a",))
    reach = {round(row["high"] - row["low"], 6) for row in drawn(page, "band")}
    errors = {round(4 * units * data["unit"], 6) for units in term["errors"][0]}
    assert reach <= errors
    assert len(reach) > 3
    assert "Band: two standard errors" in page.locator("#caption").inner_text()
    bars = drawn(opened("bands", "#term=kind"), "cells")
    assert all(bar["low"] <= bar["y"] <= bar["high"] for bar in bars)
    title = " × ".join(next(names for names in fx.terms if len(names) == 2))
    pair = drawn(opened("bands", f"#term={urllib.parse.quote_plus(title)}"), "cells effect")
    assert {cell["unsure"] for cell in pair} <= {True, False}
    assert any(cell["unsure"] for cell in pair)
    lines = page.locator("#held-out tbody tr")
    assert lines.count() == len(fx.terms)
    assert "100 rows that the model was not trained on" in page.locator("#held-out").inner_text()
    redrawn(page, lines.locator("button", has_text="kind").first.click)
    assert "kind" in page.locator("#term-title").inner_text()


def percents(text):
    return [float(number.replace("−", "-")) for number in re.findall(r"([−\d.]+)\u00a0%", text)]


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["pure", "raw"])
def test_panel_tiles_and_sentence_are_of_the_chosen_form(opened, reports, form):
    fx, _ = reports("outlying")
    table = (fx.raw if form == "raw" else fx).importance().set_index("term")
    page = opened("outlying", "#term=x0+×+x1")
    if form == "raw":
        switch(page, "form", "raw")
    row = table.loc["x0 × x1"]
    standing = page.locator("#standing").text_content().split(" · ")
    rank = list(table.index).index("x0 × x1") + 1
    assert standing[1] == f"rank {rank} of {len(table)}"
    assert standing[0].startswith("raw form: variance") == (form == "raw")
    assert percents(standing[0]) == pytest.approx([100 * row["variance"]], abs=0.051)
    assert percents(standing[2]) == pytest.approx([100 * row["share"]], abs=0.051)
    shares = [100 * table["share"][table["order"] == order].sum() for order in (1, 2)]
    tile = page.locator("#numbers .orders").text_content()
    assert percents(tile)[:2] == pytest.approx(shares, abs=0.051)
    sentence = page.locator("#sentence").text_content()
    assert sentence.startswith("Before purification: ") == (form == "raw")
    assert f"the strongest is {table.index[0]} (" in sentence
    list_ = [float(text.replace("\u00a0%", "")) for text in page.locator("#list .share").all_text_contents()]
    assert list_ == pytest.approx(list(100 * table["variance"]), abs=0.051)
    total = 100 * table["variance"].sum()
    words = page.locator("#rest").text_content()
    assert ("Variances add up to" in words) == (round(total) != 100)


def axis_titles(page):
    """Titles of the x and y axis of a heat map."""
    spec = page.evaluate("treeanova.specification()")
    encoding = spec["layer"][0]["encoding"]
    return encoding["x"]["axis"]["title"], encoding["y"]["axis"]["title"]


@pytest.mark.thorough
def test_the_first_feature_of_a_pair_goes_across(opened, reports):
    fx, _ = reports("outlying")
    page = opened("outlying", "#term=x0+×+x1")
    assert axis_titles(page) == ("x0", "x1")
    values = table_values(fx, ("x0", "x1"))
    cells = {(row["x"], row["y"]): row["value"] for row in drawn(page, "cells effect")}
    columns, rows = (sorted({cell[i] for cell in cells}) for i in (0, 1))
    assert (len(columns), len(rows)) == values.shape
    found = np.array([[cells[x, y] for y in rows] for x in columns])
    np.testing.assert_allclose(found, values, atol=1e-4)
    thumbnail = page.evaluate(
        "[...document.querySelectorAll('#list canvas.spark')].map((one) => [one.width, one.height])"
    )
    assert thumbnail == [list(values.shape)]


@pytest.mark.thorough
def test_categories_over_numbers_go_up(opened, reports):
    fx, _ = reports("units")
    pairs = [names for names in fx.terms if len(names) == 2 and "kind" in names]
    assert pairs
    page = opened("units", "#term=" + urllib.parse.quote(" × ".join(pairs[0])))
    assert axis_titles(page)[1] == "kind"


@pytest.mark.thorough
def test_one_cell_does_not_bleach_all_others(opened, reports):
    fx, _ = reports("outlying")
    values = np.abs(table_values(fx, ("x0", "x1")))
    usual = np.sort(values, axis=None)[:-60].max()  # the outlying cell spreads along its row and column
    assert values.max() > 10 * usual
    page = opened("outlying", "#term=x0+×+x1")
    scale = page.evaluate("treeanova.specification()")["layer"][-1]["encoding"]["color"]["scale"]
    assert scale["domain"][4] == 0
    assert scale["domain"][-1] == pytest.approx(-scale["domain"][0])
    assert scale["domain"][-1] < 0.2 * values.max()
    caption = page.locator("#caption").text_content()
    assert f"Colours end at ±{scale['domain'][-1]:.3g}" in caption
    assert "colours end at ±" in " ".join(page.evaluate("treeanova.specification()")["title"]["text"])
    colours = {row["colour"] for row in drawn(page, "cells effect")}
    assert len(colours) > 20
