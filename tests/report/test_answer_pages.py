"""Pages of changes and gaps: their numbers are those of the answer, names are text, and they open by themselves."""

from __future__ import annotations

import re

import numpy as np
import pytest

import treeanova
from tests.support.models import boosted_product
from tests.support.pages import HOSTILE_NAMES, ParsedPage
from tests.support.training import fit
from treeanova.report import write_report

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def rows(fx):
    """Rows like those of the model, and moved ones."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(200, 3)), rng.normal(size=(150, 3)) + 0.4


@pytest.fixture(scope="module")
def change(fx, rows):
    return treeanova.change(fx, fx, X_old=rows[0], X_new=rows[1])


@pytest.fixture(scope="module")
def gap(fx, rows):
    return fx.gap(rows[0], rows[0][:, 0] > 0, feature="a")


def numbers_in(text):
    return [float(number.replace("−", "-").replace(",", "")) for number in re.findall(r">([+−]?[\d,]+\.\d+)<", text)]


def table_cells(page, n_columns):
    """Numbers of the first table of contributions, a row per term."""
    table = re.search(r'<table class="contributions">(.*?)</table>', page, flags=re.DOTALL).group(1)
    return np.array(numbers_in(table)).reshape(-1, n_columns)


def test_the_table_of_a_change_adds_up_in_sight(change):
    page = write_report(change, title="Then & now")
    assert ParsedPage(page).title == "Then & now"
    found = table_cells(page, 3)
    expected = change.table[["population", "model", "total"]].to_numpy()
    assert found[0] == pytest.approx([change.population, change.model, change.total], abs=1e-3)
    assert np.allclose(found[1:], expected, atol=1e-3)
    assert found[1:].sum(axis=0) == pytest.approx(found[0], abs=5e-3)
    assert {"old rows", "new rows", "population", "model"} <= set(re.findall(r"<text [^>]*>([^<]*)</text>", page))
    assert page.count("<article>") == 3
    assert page.count("<svg") == 3 + 2  # bars for screens and for phones


def test_the_table_and_routes_of_a_gap(gap):
    page = write_report(gap)
    routes = table_cells(page, 2)
    assert routes[0] == pytest.approx([gap.total, gap.error], abs=1e-3)
    assert np.allclose(routes[1:], gap.routes[["gap", "error"]].to_numpy(), atol=1e-3)
    others = gap.routes.iloc[2]
    is_said = "Dropping the terms of a from the model would not remove its influence" in page
    assert is_said == (abs(others["gap"]) > 2 * others["error"])
    assert "justified" in page


def test_every_output_has_its_sections():
    ensemble = pytest.importorskip("sklearn.ensemble")
    X = np.random.default_rng(0).normal(size=(150, 2))
    classes = np.array(["u", "v", "w"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = fit(ensemble.GradientBoostingClassifier(n_estimators=2, max_depth=2, random_state=0), X, classes)
    fx = treeanova.decompose(model, X, density="empirical")
    page = write_report(treeanova.change(fx, fx, X_new=X[:50]))
    assert [page.count(f"<h2>What moved the average ({name})<") for name in "uvw"] == [1, 1, 1]
    page = write_report(fx.gap(X, X[:, 1] > 0))
    assert [page.count(f"<h2>Term by term ({name})<") for name in "uvw"] == [1, 1, 1]


def test_names_are_text():
    hostile, X = boosted_product(HOSTILE_NAMES[:3])
    for answer in (
        treeanova.change(hostile, hostile, X_new=X[:20]),
        hostile.gap(X, np.where(np.arange(len(X)) % 2, "<i>odd</i>", "even"), feature=HOSTILE_NAMES[0]),
    ):
        page = write_report(answer, title=HOSTILE_NAMES[1])
        parsed = ParsedPage(page)
        assert parsed.scripts == []
        assert "<i>" not in page
        assert page.count("&lt;script&gt;alert(1)") > 3  # in text, tables and pictures
        assert not [attrs for _, attrs in parsed.tags if {"src", "href", "style"} & set(attrs)]


def test_a_change_of_nothing_says_so(fx):
    page = write_report(treeanova.change(fx, fx))
    assert re.search("is [−.0-9]+ as before", page)


def test_files_and_arguments(change, gap, tmp_path):
    path = write_report(change, tmp_path / "change.html")
    assert path.read_text(encoding="utf-8") == write_report(change)
    with pytest.raises(ValueError, match="`densities` and `rows` must be left out for a Gap"):
        write_report(gap, densities=["uniform"])
    with pytest.raises(FileNotFoundError, match="folder that exists"):
        write_report(gap, tmp_path / "none" / "gap.html")
