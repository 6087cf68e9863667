"""A decomposition and its page, made once; a browser for pages."""

from __future__ import annotations

import os
import pathlib
import shutil

import pytest

from tests.support.models import boosted_product
from tests.support.pages import ParsedPage


@pytest.fixture(scope="session")
def fx():
    """A boosted model of a b + c, with a and b dependent."""
    pytest.importorskip("sklearn")
    return boosted_product()[0]


@pytest.fixture(scope="session")
def page(fx):
    """Its report."""
    pytest.importorskip("vl_convert")
    from treeanova.report import write_report

    return ParsedPage(write_report(fx))


@pytest.fixture(scope="module")
def chromium():
    """One browser for the tests of a module."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="browser tests need playwright: pip install playwright"
    )
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("browser tests need chromium, which is not installed: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"], timeout=120_000
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe():
    """The script of axe-core, from TREEANOVA_AXE or node_modules."""
    root = pathlib.Path(__file__).parents[2]
    path = pathlib.Path(os.environ.get("TREEANOVA_AXE", root / "node_modules/axe-core/axe.min.js"))
    if not path.is_file():
        pytest.skip("the accessibility test needs axe-core: npm install --no-save axe-core")
    return path.read_text(encoding="utf-8")
