from __future__ import annotations

import re

from tests.support.pages import HOSTILE_NAMES, ParsedPage
from treeanova.report.static import digest, element, numbers, rows_of_table, section, static_page


def test_a_page_runs_nothing_loads_nothing_and_escapes_names():
    name = HOSTILE_NAMES[0] + HOSTILE_NAMES[1]
    parts = [section(name, rows_of_table([name, "n"], [[name, "1"]])), numbers((name, name, name))]
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
    dark = re.search(r"@media \(prefers-color-scheme: dark\) \{ :root \{(.*?)\} \}", style, flags=re.DOTALL).group(1)
    assert "--panel: #161b21" in dark
    assert "color-scheme: dark" in dark


def test_columns_of_markup_are_tracks_and_others_numbers():
    table = rows_of_table(["term", "", "gap"], [["a", element("svg"), "1"]], "contributions")
    kinds = [attrs.get("class") for tag, attrs in ParsedPage(table).tags if tag in {"th", "td"}]
    assert kinds == [None, "track", "number"] * 2
