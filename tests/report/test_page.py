from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import re
import sys

import numpy as np
import pytest

import treeanova
from tests.support.models import boosted_product
from tests.support.pages import HOSTILE_NAMES, ParsedPage
from tests.support.recorded import Recorded
from tests.support.remainders import main_effects_and_remainder
from tests.support.training import fit
from treeanova.report import write_report
from treeanova.report.page import as_json

pytest.importorskip("vl_convert")
pytest.importorskip("sklearn")


def test_policy_allows_exactly_the_scripts_of_the_page(page):
    policy = next(attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    run = [text for attrs, text in page.scripts if "type" not in attrs]

    def digest(text):
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    assert len(run) == 2
    assert re.search("script-src ([^;]*);", policy).group(1).split() == [digest(text) for text in run]
    assert re.search("style-src ([^;]*);", policy).group(1) == digest(page.style)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_nothing_is_fetched(page):
    addresses = [value for _, attrs in page.tags for name, value in attrs.items() if name in {"src", "href", "srcset"}]
    assert addresses == []
    assert "@import" not in page.style
    assert "url(" not in page.style


def test_names_are_data():
    hostile, X = boosted_product(HOSTILE_NAMES[:3])
    parsed = ParsedPage(write_report(hostile, title=HOSTILE_NAMES[0] + HOSTILE_NAMES[3], rows=X[:1]))
    assert [attrs.get("type") for attrs, _ in parsed.scripts] == ["application/json", None, None]
    assert [feature["name"] for feature in parsed.data["features"]] == HOSTILE_NAMES[:3]
    assert parsed.title == HOSTILE_NAMES[0] + HOSTILE_NAMES[3] == parsed.data["title"]
    assert not set("<>&\u2028\u2029") & set(parsed.scripts[0][1])


def test_json_survives_every_character():
    content = {"".join(map(chr, range(0x20, 0x250))): "\u2028\u2029</script>&amp;<!--\x00"}
    assert json.loads(as_json(content)) == content
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json(np.nan)


def test_path_and_string(fx, tmp_path):
    target = tmp_path / "report.html"
    target.write_text("old", encoding="utf-8")
    assert write_report(fx, str(target)) == target
    assert target.read_text(encoding="utf-8") == write_report(fx)
    assert list(tmp_path.iterdir()) == [target]


def test_nothing_half_written(fx, tmp_path, monkeypatch):
    target = tmp_path / "report.html"
    target.write_text("old", encoding="utf-8")

    def full(_):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="disk full"):
        write_report(fx, target)
    assert target.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_browser_opens_only_when_told_to(fx, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    write_report(fx, tmp_path / "a.html")
    assert opened == []
    write_report(fx, tmp_path / "a.html", open_browser=True)
    assert opened == [(tmp_path / "a.html").as_uri()]
    with pytest.raises(ValueError, match="`open_browser` must come with a `path`, got None"):
        write_report(fx, open_browser=True)


def test_messages(fx, tmp_path, monkeypatch):
    with pytest.raises(
        IsADirectoryError, match=r"`path` must be a file, got the folder .*; add a name like report\.html"
    ):
        write_report(fx, tmp_path)
    with pytest.raises(FileNotFoundError, match="`path` must be in a folder that exists"):
        write_report(fx, tmp_path / "none" / "report.html")
    with pytest.raises(TypeError, match="`densities` must be a list of names or a mapping, got 'uniform'"):
        write_report(fx, densities="uniform")
    with pytest.raises(ValueError, match="`max_terms` must be at least 1, got 0"):
        write_report(fx, max_terms=0)
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    write_report.__globals__["vega"].cache_clear()
    with pytest.raises(ImportError, match=r"needs vl-convert-python, .*pip install vl-convert-python"):
        write_report(fx)
    write_report.__globals__["vega"].cache_clear()


def test_a_report_refuses_a_density_that_it_does_not_know():
    pytest.importorskip("xgboost")
    pytest.importorskip("pandas")
    mains = main_effects_and_remainder()
    pytest.importorskip("vl_convert")
    with pytest.raises(ValueError, match="'unifrom'"):
        treeanova.write_report(mains, densities=["unifrom"])


def test_a_model_without_terms_has_a_report_and_a_summary():
    pytest.importorskip("vl_convert")
    tree = pytest.importorskip("sklearn.tree").DecisionTreeRegressor
    table = np.arange(20.0).reshape(10, 2)
    fx = treeanova.decompose(fit(tree(), table, np.ones(10)), table, density="empirical")
    assert "The model is constant" in fx._repr_html_()
    assert "The model is constant" in treeanova.write_report(fx, rows=table[:2])


def test_progress_of_a_report(fx, tmp_path):
    told = Recorded()
    write_report(fx, tmp_path / "report.html", densities=["uniform"], progress=told)
    stages = told.stages
    assert stages[0] == "charts"
    assert stages[-3:] == ["tables of the page", "page", "writing report.html"]
    assert "density uniform: purifying order 1" in stages


def test_a_page_is_not_written_under_the_suffix_of_another_format(fx, tmp_path):
    with pytest.raises(ValueError, match=r"`path` must end in .html or .htm, .* got '.*x.pdf'; name it 'x.html'"):
        write_report(fx, tmp_path / "x.pdf")
    assert not list(tmp_path.iterdir())


def test_a_source_tree_that_is_not_installed_has_a_version(fx, monkeypatch):
    def not_installed(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", lambda name: not_installed(name) if name == "treeanova" else "1")
    assert ParsedPage(write_report(fx, densities=[])).data["versions"]["treeanova"] == treeanova.__version__
    assert f"treeanova {treeanova.__version__}" in write_report(fx.gap(np.zeros((4, 3)), [0, 0, 1, 1]))
