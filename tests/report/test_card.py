"""Model cards: tables are those of the model, numbers those of the judgement, names are text, nothing is loaded."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest

import treeanova
from tests.support.cards import people, tables_of_people
from tests.support.effects import grid_of_sizes
from tests.support.pages import HOSTILE_NAMES, ParsedPage
from treeanova.model import Effects

pytest.importorskip("matplotlib")
pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
X = people(200)


def decomposed(link="identity", objective="squared", classes=(), names=("age", "region")):
    effects = tables_of_people(link, objective, classes, names)
    return treeanova.decompose(effects, people(500, names, seed=2), density="empirical")


@pytest.fixture
def written(tmp_path):
    """A function that writes a card and returns its text."""

    def write(fx, *rows, **options):
        path = treeanova.write_card(fx, tmp_path / "card.html", *rows, **options)
        assert path == tmp_path / "card.html"
        return path.read_text(encoding="utf-8")

    return write


def tables(page, kind):
    """The cells of all tables of a kind, with a plain minus, row by row."""
    found = []
    for text in re.findall(rf'<table class="{kind}">(.*?)</table>', page, flags=re.DOTALL):
        lines = re.findall(r"<tr>(.*?)</tr>", text)
        found.append(
            [
                [html.unescape(cell).replace("−", "-") for cell in re.findall(">([^<>]*)</t[dh]>", line)]
                for line in lines
            ]
        )
    return found


def headings(page):
    return [html.unescape(name).partition(". ")[2] for name in re.findall("<h3><span>(.*?)</span>", page)]


def test_steps_have_the_values_of_tables_and_the_points_of_the_scorecard(written):
    fx = decomposed("logit", "log", ("no", "yes"))
    page = written(fx)
    card = treeanova.export.scorecard(fx)
    points = dict(
        zip(zip(card.columns["term"], card.columns["cell"], strict=True), card.columns["points"], strict=True)
    )
    for name, (head, *rows) in zip(
        [name for name in headings(page) if "×" not in name], tables(page, "steps"), strict=True
    ):
        assert head == ["step", "value", "points"]
        term = fx.terms[name]
        values = dict(zip(term.axes[0].labels, term.values, strict=True))
        assert {label for label, _, _ in rows} == set(values)
        for label, value, shown in rows:
            assert float(value) == pytest.approx(values[label], abs=6e-4)
            assert int(shown) == points[name, label]
    assert f"Points add up to a score: {card.base:,g} " in page
    assert "600 points at odds of 50 to 1, 20 more where the odds double" in page


def test_categories_come_in_the_order_of_their_values_and_missing_ones_last(written):
    page = written(decomposed())
    (rows,) = (rows for rows in tables(page, "steps") if any("north" in row[0] for row in rows))
    assert [row[0] for row in rows[1:]] == ["south", "west", "north", "east", "unseen or missing"]


def test_steps_of_equal_values_share_a_row(written):
    fx = treeanova.decompose(
        Effects(grid_of_sizes([4]), np.zeros(1), {(0,): np.array([1.0, 1.0, -1.0, 1.0])[:, None]}), density="uniform"
    )
    ((_, *rows),) = tables(written(fx), "steps")
    assert rows == [["≤ 1", "+0.500"], ["(1, 2]", "-1.500"], ["> 2", "+0.500"]]
    alike = fx.set("x0", [1.0, 1.0, -1.0, -1.0])
    effects = Effects.from_tables({"g": [1.0, -2.0, 1.0]}, categories={"g": ["a", "b", "c"]})
    assert [row[0] for row in tables(written(treeanova.decompose(effects, density="uniform")), "steps")[0][1:]] == [
        "a, c",
        "b",
    ]
    assert len(tables(written(alike), "steps")[0]) == 3


def test_many_steps_become_the_nearest_twelve_without_points(written):
    values = np.array([0, 0.01, 1, 2, 3, 4, 5.0, 5.02, 6, 7, 8, 9, 10, 11])
    effects = Effects.from_tables({"a": values}, thresholds={"a": np.arange(13.0)}, link="logit")
    fx = treeanova.decompose(effects, density="uniform")
    page = written(fx)
    ((head, *rows),) = tables(page, "steps")
    expected = np.array([0.005, 1, 2, 3, 4, 5.01, 6, 7, 8, 9, 10, 11]) - values.mean()
    assert head == ["step", "value"]
    assert [float(value) for _, value in rows] == pytest.approx(expected, abs=6e-4)
    assert (rows[0][0], rows[5][0]) == ("≤ 1", "(5, 7]")
    assert "Weighted means of 14 values." in page


def test_factors_of_log_links_multiply_to_the_prediction(written):
    fx = decomposed("log", "poisson").select(order=1)
    page = written(fx)
    cells = {row[0]: float(row[2]) for head, *rows in tables(page, "steps") for row in rows if head[2] == "factor"}
    base = float(re.search(r"the prediction is ([\d.]+) times one factor", page).group(1))
    row = people(1).assign(age=25.0, region="east")
    assert base * cells["(20, 40]" if "(20, 40]" in cells else "(20, 30]"] * cells["east"] == pytest.approx(
        fx.predict(row)[0], rel=1e-3
    )


def test_accuracy_is_that_of_scikit_learn(written):
    metrics = pytest.importorskip("sklearn.metrics")
    fx = decomposed()
    y = fx.predict(X) + RNG.normal(size=200)
    page = written(fx.scale("age", 0.5), X, y, beside={"a & b": y * 0.5})
    ((head, *rows),) = tables(page, "accuracy")
    assert head == ["model", "squared error", "difference", "R²", "difference"]
    assert [row[0] for row in rows] == ["this model", "before the edits", "a & b", "best constant here"]
    for name, response in {"before the edits": fx.predict(X), "a & b": y * 0.5}.items():
        (_, loss, gap, measure, _) = next(row for row in rows if row[0] == name)
        assert float(loss) == pytest.approx(metrics.mean_squared_error(y, response), abs=6e-4)
        assert float(measure) == pytest.approx(metrics.r2_score(y, response), abs=6e-4)
        own = metrics.mean_squared_error(y, fx.scale("age", 0.5).predict(X))
        value, error = map(float, gap.split(" ± "))
        assert abs(value - (metrics.mean_squared_error(y, response) - own)) <= max(error, 1e-3)
    assert "differs from that before the edits by" in page
    assert "age times 0.5: scores move by" in page


def test_names_are_text_and_nothing_is_loaded(written):
    names = HOSTILE_NAMES[0], HOSTILE_NAMES[1]
    fx = decomposed(names=names).scale(names[0], 0.5, note='<img src=x onerror="alert(1)">')
    rows = people(200, names)
    y = fx.predict(rows) + RNG.normal(size=200)
    page = written(fx, rows, y, beside={'<b>"other"</b>': y}, title="<i>card</i>")
    parsed = ParsedPage(page)
    assert parsed.scripts == []
    assert parsed.title == "<i>card</i>"
    assert not {"b", "img", "i"} & {tag for tag, _ in parsed.tags}
    assert not [attrs for _, attrs in parsed.tags if {"src", "href", "style", "onerror"} & set(attrs)]
    assert "://" not in page
    assert "url(" not in parsed.style
    assert "&lt;b&gt;&quot;other&quot;&lt;/b&gt;" in page
    assert page == written(fx, rows, y, beside={'<b>"other"</b>': y}, title="<i>card</i>")


def test_the_strongest_terms_are_drawn_and_the_others_counted(written):
    page = written(decomposed(), max_terms=1)
    ranking = list(decomposed().importance()["term"])
    assert headings(page) == ranking[:1]
    assert page.count("<svg") == 1
    assert "Not drawn: 2 of 3 terms" in page
    listed = page.partition("Not drawn")[2]
    assert listed.index(ranking[1]) < listed.index(ranking[2])


def test_several_classes_have_a_column_each(written):
    fx = decomposed("softmax", "multiclass", ("u", "v", "w"))
    page = written(fx, X, RNG.choice(["u", "v", "w"], 200))
    head, *rows = tables(page, "steps")[0]
    assert head == ["step", "u", "v", "w"]
    name = headings(page)[0]
    values = dict(zip(fx.terms[name].axes[0].labels, fx.terms[name].values, strict=True))
    for row in rows:
        assert [float(cell) for cell in row[1:]] == pytest.approx(values[row[0]], abs=6e-4)
    table = fx.importance()
    pair = table[table["term"] == "age × region"].set_index("output")["variance"]
    assert f"of variance of {pair.idxmax()}" in page.partition("age × region</span>")[2].partition("</h3>")[0]
    assert {"series-0", "series-1", "series-2"} <= {attrs.get("class") for _, attrs in ParsedPage(page).tags}


def test_estimators_and_models_without_terms_have_cards(written):
    pytest.importorskip("sklearn")
    fx = decomposed()
    assert written(treeanova.AdditiveRegressor.from_decomposition(fx)) == written(fx)
    page = written(fx.select(terms=[]), X, fx.predict(X))
    assert tables(page, "steps") == []
    assert "No term is listed" in page


def test_long_histories_are_cut(written):
    fx = decomposed()
    for _ in range(8):
        fx = fx.scale("age", 0.9)
    assert "2 more edits, in the history of the model" in written(fx)


def test_the_outcome_is_named_by_its_column(written):
    pandas = pytest.importorskip("pandas")
    fx = decomposed()
    page = written(fx, X, pandas.Series(fx.predict(X), name="price"))
    assert ParsedPage(page).title == "Model card: price"
    assert "outcome price · link identity" in page


REFUSED = {
    "y": (lambda fx: ((X,), {}), ValueError, "`y` must come with `X`, got None"),
    "beside": (lambda fx: ((), {"beside": {"other": fx}}), ValueError, "`beside` must come with `X` and `y`"),
    "list": (lambda fx: ((X, X["age"]), {"beside": [fx]}), TypeError, "mapping from names to models, got list"),
    "points": (lambda fx: ((), {"points": 1.0}), TypeError, "`points` must be a scorecard or relativities, got float"),
    "foreign": (
        lambda fx: ((), {"points": treeanova.export.scorecard(decomposed("logit"))}),
        ValueError,
        "of the same model",
    ),
    "terms": (lambda fx: ((), {"max_terms": 0}), ValueError, "`max_terms` must be"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arguments_that_say_nothing_are_refused(case, written):
    make, kind, words = REFUSED[case]
    fx = decomposed()
    rows, options = make(fx)
    with pytest.raises(kind, match=words):
        written(fx, *rows, **options)


def test_models_that_are_not_tables_are_refused(written, tmp_path):
    fx = decomposed()
    with pytest.raises(ValueError, match=r"leave out the rest with fx\.select"):
        written(fx.truncate(1))
    with pytest.raises(TypeError, match=r"got DataFrame; make one with treeanova\.decompose"):
        written(X)
    with pytest.raises(ValueError, match=r"must end in \.html"):
        treeanova.write_card(fx, tmp_path / "card.pdf")
    stated = treeanova.decompose(tables_of_people("identity", ""), people(500, seed=2))
    with pytest.raises(ValueError, match="pass `loss`"):
        written(stated, X, stated.predict(X))


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_card_of_ten_terms_fits_on_one_sheet_and_narrow_screens(chromium, tmp_path, scheme):
    """Ten features of eleven steps, as a browser lays them out."""
    effects = Effects.from_tables(
        {f"feature {i}": RNG.normal(size=11) for i in range(10)},
        thresholds={f"feature {i}": np.arange(10.0) for i in range(10)},
    )
    fx = treeanova.decompose(effects, density="uniform")
    rows = RNG.integers(-1, 11, size=(100, 10)).astype(float)
    path = treeanova.write_card(
        fx, tmp_path / "card.html", rows, RNG.normal(size=100), loss="squared", beside={"one": fx}
    )
    for width in (1200, 500, 360):
        page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        asked = []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert asked == [path.as_uri()]
        if width == 1200:
            assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True))) == 1
        page.close()
