"""The script of the charts: made once, read again, made anew where the kept file is damaged or cannot be written."""

import pytest

from treeanova.report import page as bundle

vl_convert = pytest.importorskip("vl_convert")


@pytest.fixture
def made(monkeypatch, tmp_path):
    """Calls that make the script, and the folder that keeps it."""
    calls = []
    monkeypatch.setenv("TREEANOVA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(
        vl_convert, "javascript_bundle", lambda snippet: calls.append(snippet) or "const é = '</script>'"
    )
    bundle.vega.cache_clear()
    yield calls
    bundle.vega.cache_clear()


def again():
    bundle.vega.cache_clear()
    return bundle.vega()


def test_the_script_is_made_once_and_closed(made):
    script = bundle.vega()
    assert script == "(() => {const é = '<\\/script>'\n})();"
    assert again() == script
    assert len(made) == 1


@pytest.mark.parametrize("damage", [lambda text: text[:-1], lambda text: "", lambda text: text.replace("é", "e")])
def test_a_damaged_file_is_not_used(made, damage):
    script = bundle.vega()
    (path,) = bundle.cache_folder().iterdir()
    path.write_text(damage(path.read_text(encoding="utf-8")), encoding="utf-8")
    assert again() == script
    assert len(made) == 2
    assert again() == script
    assert len(made) == 2


def test_a_page_needs_no_cache(made, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("TREEANOVA_CACHE", str(tmp_path / "file" / "inside"))
    assert bundle.vega() == again()
    assert len(made) == 2


def test_the_cache_is_that_of_the_user(monkeypatch, tmp_path):
    monkeypatch.delenv("TREEANOVA_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert bundle.cache_folder() == tmp_path / "treeanova"
