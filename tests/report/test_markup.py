from __future__ import annotations

import html.parser

from hypothesis import given
from hypothesis import strategies as st

from treeanova.report.static import Markup, element, together


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
    assert isinstance(together(inner, "<"), Markup)
