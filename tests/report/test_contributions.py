from __future__ import annotations

import math
import re

import pytest

from treeanova.report.static import (
    Span,
    contributions,
    decimals_of,
    extent_of_stack,
    extent_with_error,
    rows_of_output,
    signed,
    stacked,
    with_error,
)

COLUMNS = {"gap": "gap", "error": "standard error"}


def rows_of_gaps(values):
    return [{"term": f"t{i}", "gap": value, "error": 0.1} for i, value in enumerate(values)]


def test_rows_of_one_output():
    table = {"term": ["a", "a"], "output": ["u", "v"], "gap": [1.0, 2.0]}
    assert rows_of_output(table, ("u", "v"), 1) == [{"term": "a", "output": "v", "gap": 2.0}]
    assert len(rows_of_output({"term": ["a", "b"], "gap": [1.0, 2.0]}, ("u",), 0)) == 2


def test_numbers_in_words():
    assert [signed(value, 2) for value in (1.234, -1234.5, 0.0, -0.001)] == ["+1.23", "−1,234.50", "0.00", "0.00"]
    assert [decimals_of([value]) for value in (123.4, 1.0, 0.05, 0.0)] == [1, 3, 5, 1]


def test_terms_beyond_the_first_are_added_up_and_listed():
    rows = rows_of_gaps([30.0, *[1.0] * 30])
    text = contributions(rows, COLUMNS, extent_with_error, with_error, n_heads=1)
    assert "11 other terms" in text
    assert "+11.00" in text
    assert "All 30 terms" in text
    assert re.findall(r">–<", text)  # errors do not add up
    short = contributions(rows[:5], COLUMNS, extent_with_error, with_error, n_heads=1)
    assert "details" not in short


@pytest.mark.parametrize(("head", "is_cut"), [(2.0, False), (50.0, True)])
def test_bars_of_sums_are_cut_where_they_would_hide_the_terms(head, is_cut):
    text = contributions(rows_of_gaps([head, 1.0, 1.0]), COLUMNS, extent_with_error, with_error, n_heads=1)
    assert ("are cut" in text) == is_cut
    assert [row.count('class="break"') for row in text.split("<tr>")[2:]] == [int(is_cut), 0, 0]  # the sign of a cut
    widths = [float(width) for width in re.findall(r'<rect[^>]* width="([\d.]+)"', text)]
    assert widths[1] > 300


def test_stacks_keep_their_proportions_where_they_are_cut():
    row = {"population": 30.0, "model": 10.0}
    assert extent_of_stack(row) == (0.0, 40.0)
    first, second = (float(w) for w in re.findall(r'<rect[^>]* width="([\d.]+)"', stacked(Span(-1.0, 4.0), row)))
    assert first / second == pytest.approx(3.0, abs=0.01)
    opposed = {"population": -2.0, "model": 1.0}
    assert extent_of_stack(opposed) == (-2.0, 1.0)
    assert extent_of_stack({"population": 0.0, "model": 0.0}) == (0.0, 0.0)


def test_gaps_without_an_error_have_no_line():
    row = {"gap": -1.0, "error": math.nan}
    assert extent_with_error(row) == (-1.0, 0.0)
    assert "mark" not in with_error(Span(-2.0, 1.0), row)
    assert 'class="below"' in with_error(Span(-2.0, 1.0), row)


@pytest.mark.parametrize(
    ("population", "model", "places"), [(30.0, 10.0, [0.92]), (-30.0, 40.0, [0.02, 0.44]), (2.0, 1.0, [])]
)
def test_every_side_of_a_bar_that_is_not_to_scale_is_broken(population, model, places):
    text = stacked(Span(-1.0, 4.0), {"population": population, "model": model})
    found = [float(x) / 1000 for x in re.findall(r'class="break" d="M([\d.]+) ', text)]
    assert found == pytest.approx(places, abs=0.01)
