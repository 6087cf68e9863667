"""Pages of the documentation: their code runs, prints what they show, and their links lead somewhere."""

from __future__ import annotations

import contextlib
import io
import math
import re
import shlex
import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/*.md"))
NUMBER = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?")
FENCE = re.compile(r"^ *```.*?^ *```", flags=re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?")


class Block(NamedTuple):
    """A fenced block: its language, its text, and the line it begins at."""

    language: str
    text: str
    line: int


def blocks_of(page):
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        yield Block(match[1], match[2], text.count("\n", 0, match.start()) + 2)


def runnable(page):
    return any(block.language == "python" for block in blocks_of(page))


def run_python(block, page, names):
    """What a block of Python prints; errors name the line of the page."""
    printed = io.StringIO()
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec", dont_inherit=True)
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    return printed.getvalue()


def run_shell(block):
    """Run the commands of treeanova in a block; others, such as make, are left out."""
    from treeanova import cli

    for line in block.text.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["treeanova"]:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
                status = cli.run(words[1:])
            assert status == 0, f"{line}: {errors.getvalue()}"


def words_of(text):
    """Text without its numbers, and without white space, which follows from the width of numbers."""
    return re.sub(r"\s+", "", NUMBER.sub("#", text))


def numbers_of(text):
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]


def assert_prints(printed, shown):
    """Same words; numbers as near as those of models whose trees differ a little are, or below what rounding leaves."""
    assert words_of(printed) == words_of(shown)
    for found, expected in zip(numbers_of(printed), numbers_of(shown), strict=True):
        assert math.isclose(found, expected, rel_tol=0.2, abs_tol=0.02) or max(abs(found), abs(expected)) < 1e-12


SLOW_PAGES = ("change-and-groups", "deep-ensembles", "glass-box", "inference", "large-data")
RUNNABLE = [
    pytest.param(page, marks=[pytest.mark.thorough] * (page.stem in SLOW_PAGES)) for page in PAGES if runnable(page)
]


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.stem)
def test_code_of_a_page_runs_and_prints_what_the_page_shows(page, tmp_path, monkeypatch):
    for library in ("interpret", "matplotlib", "pandas", "sklearn", "typer", "vl_convert", "xgboost"):
        pytest.importorskip(library)
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    names, printed = {"__name__": "__main__"}, ""
    for block in blocks_of(page):
        if block.language == "python":
            printed = run_python(block, page, names)
        elif block.language == "sh":
            run_shell(block)
        elif not block.language and printed:
            assert_prints(printed, block.text)
            printed = ""
    plt.close("all")


def run_blocks(page, python, folder):
    """What the blocks of Python of a page print, one after the other, in another environment."""
    code = "\nprint(chr(12))\n".join(block.text for block in blocks_of(page) if block.language == "python")
    done = subprocess.run([python, "-I", "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\f\n")


def lines_of(text):
    """Words of the lines of a text in any order, without numbers, which depend on the trees that were trained."""
    return sorted(words_of(line) for line in text.splitlines())


@pytest.mark.thorough
def test_the_readme_runs_on_what_its_install_line_brings(tmp_path):
    """A wheel in an empty environment: with the line of README, and without a data frame library."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    built = subprocess.run(pip, capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.skip(f"no wheel can be built here: {built.stderr.strip().splitlines()[-1]}")
    (wheel,) = tmp_path.glob("treeanova-*.whl")
    readme = ROOT / "README.md"
    blocks = list(blocks_of(readme))
    (line,) = [line for block in blocks for line in block.text.splitlines() if line.startswith("pip install . ")]
    _, _, _, *libraries = shlex.split(line, comments=True)
    assert "pandas" in libraries
    shown = [block.text for block in blocks if not block.language]
    for leave_out in ((), ("pandas",)):
        folder = tmp_path / "-".join(["environment", *leave_out])
        venv.create(folder, with_pip=True)
        python = folder / "bin" / "python"
        wanted = [name for name in libraries if name not in leave_out]
        subprocess.run([python, "-I", "-m", "pip", "install", "--quiet", wheel, *wanted], check=True)
        printed = run_blocks(readme, python, tmp_path)
        assert len(printed) == len(shown) == 2
        if not leave_out:
            assert [lines_of(text) for text in printed] == [lines_of(text) for text in shown]
        for text in printed:
            (names,) = [line.split() for line in text.splitlines() if line.split()[:1] == ["term"]]
            assert names == ["term", "order", "variance", "covariance", "share", "mean_abs"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_of_a_page_lead_to_files_and_headings(page):
    for name, heading in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        target = page.parent / name if name else page
        assert target.exists(), name
        if heading and target.suffix == ".md":
            assert heading in anchors_of(target), f"{name}#{heading}"


def anchors_of(page):
    """Addresses of the headings of a page, as sites make them: in lower case, with hyphens, without punctuation."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def test_files_that_the_architecture_names_are_there():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/]+(?:\.pyi?|\.js|/))`", text))
    assert {"model/grid.py", "readers/", "report/assets/charts.js"} <= named
    package = ROOT / "src" / "treeanova"
    assert {name for name in named if not (package / name).exists() and not (ROOT / name).exists()} == set()


def test_names_that_the_architecture_places_in_files_are_there():
    text = " ".join((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split())
    placed = re.findall(r"`([\w.]+)(?:\([^`]*\))?`,? (?:of |in |\()`([\w/]+\.(?:py|js))`", text)
    assert ("SOLVERS", "anova/solvers/__init__.py") in placed
    for name, file in placed:
        source = (ROOT / "src" / "treeanova" / file).read_text(encoding="utf-8")
        last = name.rpartition(".")[2]
        is_defined = re.search(rf"^\s*(?:class |def |function )?{last}\b", source, flags=re.MULTILINE)
        assert is_defined, f"{name} is not in {file}"


def test_numbers_that_differ_are_noticed():
    assert_prints("a   1.00\n", "a 1.001\n")
    with pytest.raises(AssertionError):
        assert_prints("a 1.3", "a 1.0")
    with pytest.raises(AssertionError):
        assert_prints("a 0.03", "a 0.0")
    with pytest.raises(AssertionError):
        assert_prints("a 1.0", "b 1.0")


def test_the_architecture_is_short():
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
