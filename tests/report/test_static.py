from __future__ import annotations

import base64
import hashlib
import html.parser
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.pages import HOSTILE_NAMES, ParsedPage
from treeanova import views
from treeanova.report.static import (
    Markup,
    asset,
    colours,
    contributions,
    decimals_of,
    digest,
    element,
    join_markup,
    numbers,
    picture,
    section,
    signed,
    static_page,
    table_element,
)


def test_a_page_runs_nothing_loads_nothing_and_escapes_names():
    name = HOSTILE_NAMES[0] + HOSTILE_NAMES[1]
    parts = [section(name, table_element([name, "n"], [[name, "1"]])), numbers((name, name, name))]
    text = static_page(name, name, name, parts)
    page = ParsedPage(text)
    assert page.scripts == []
    assert page.title == name
    assert "<script" not in text
    policy = next(attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert re.search("style-src ([^;]*);", policy).group(1) == digest(page.style)
    assert policy.startswith("default-src 'none'; ")
    assert not [attrs for _, attrs in page.tags if {"src", "href", "style"} & set(attrs)]
    assert "url(" not in page.style


def test_dark_colours_are_those_of_the_report():
    style = ParsedPage(static_page("", "", "", [])).style
    in_the_dark = r"@media screen and \(prefers-color-scheme: dark\) \{ :root \{(.*?)\} \}"
    dark = re.search(in_the_dark, style, flags=re.DOTALL).group(1)
    assert "--panel: #161b21" in dark
    assert "color-scheme: dark" in dark
    assert ":root" in asset("page.css")
    assert f"--main:{views.MAIN};" in colours()
    assert digest("a") == f"'sha256-{base64.b64encode(hashlib.sha256(b'a').digest()).decode()}'"


# Markup.


class Reader(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


TEXTS = st.text(st.characters(blacklist_categories=["Cs", "Cc"]))


@given(TEXTS, TEXTS)
def test_text_and_attributes_come_back_from_a_parser(text, title):
    found = Reader(element("p", text, title=title))
    assert found.tags == [("p", {"title": title})]
    assert found.text == text


def test_markup_stays_and_names_of_attributes_are_spelt_as_in_html():
    inner = element("b", "<")
    assert element("p", inner, "&", class_="a", text_anchor="end", x=1, id=None) == (
        '<p class="a" text-anchor="end" x="1"><b>&lt;</b>&amp;</p>'
    )
    assert isinstance(join_markup(inner, "<"), Markup)


# Tables.


def test_all_columns_but_the_first_are_numbers():
    table = table_element(["term", "gap"], [["a", "1"]], "contributions")
    assert [attrs.get("class") for tag, attrs in ParsedPage(table).tags if tag in {"th", "td"}] == [None, "number"] * 2


def test_numbers_in_words():
    assert [signed(value, 2) for value in (1.234, -1234.5, 0.0, -0.001)] == ["+1.23", "−1,234.50", "0.00", "0.00"]
    assert [decimals_of([value]) for value in (123.4, 1.0, 0.05, 0.0)] == [1, 3, 5, 1]


def test_terms_beyond_the_first_are_added_up_and_listed():
    bars = pytest.importorskip("treeanova.plot.bars")
    values = np.array([30.0, *[1.0] * 30])
    names = [f"t{i}" for i in range(31)]
    words = {"gap": "gap", "error": "standard error"}
    text = contributions(bars.Bars(names, {"gap": values, "error": np.full(31, 0.1)}), words, n_heads=1)
    assert "11 other terms" in text
    assert "+11.00" in text
    assert "All 30 terms" in text
    assert re.findall(r">–<", text)  # errors do not add up
    short = contributions(bars.Bars(names[:5], {"gap": values[:5], "error": values[:5]}), words, n_heads=1)
    assert "details" not in short


# Pictures.


@pytest.fixture
def drawn():
    """A picture of a step, a bar and hostile words, and the page that holds it."""
    pytest.importorskip("matplotlib")

    def draw(ax):
        ax.stairs([0.0, 1.0], [0.0, 2.0, 3.0], baseline=None, color=views.SERIES[0])
        ax.barh([0.5], [3.0], color="#123456")
        ax.set_title(HOSTILE_NAMES[0] + ' style="fill: red"')

    return picture(draw, HOSTILE_NAMES[1], (4.0, 3.0))


def test_a_picture_has_no_style_attribute_and_its_words_are_text(drawn):
    page = ParsedPage(drawn)
    assert page.scripts == []
    assert not [attrs for _, attrs in page.tags if {"style", "src", "href"} & set(attrs)]
    assert "&lt;script&gt;" in drawn
    assert ' style="fill: red"' in Reader(drawn).text
    (svg,) = (attrs for tag, attrs in page.tags if tag == "svg")
    assert (svg["viewbox"], svg["role"], svg["aria-label"]) == ("0 0 288 216", "img", HOSTILE_NAMES[1])


def test_colours_of_a_picture_follow_the_page(drawn):
    used = {attrs[name] for _, attrs in ParsedPage(drawn).tags for name in ("fill", "stroke") if name in attrs}
    assert {"var(--series-0)", "currentColor", "#123456"} <= used  # a colour of its own stays
    assert not {views.SERIES[0], "#000000", "#ffffff"} & used


def test_a_picture_is_the_same_each_time_whatever_the_style(drawn):
    plt = pytest.importorskip("matplotlib.pyplot")

    def draw(ax):
        ax.plot([0, 1], [0, 1])

    plain = picture(draw, "line", (3.0, 2.0))
    with plt.style.context("dark_background"):
        assert picture(draw, "line", (3.0, 2.0)) == plain
    assert plt.get_fignums() == []
