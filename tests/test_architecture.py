"""The house keeps its order: imports go down only, public names are the agreed ones, import is light."""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import treeanova

SOURCE = Path(treeanova.__file__).parent
# Rooms from the ground up: a module imports its own room and those of the lines above it.
LAYERS = [
    ["errors", "core"],
    ["anova", "data"],
    ["model", "views"],
    ["readers", "density"],
    ["terms"],
    ["storage"],
    ["decomposition"],
    ["_decompose", "_members", "export"],
    ["estimators", "plot"],
    ["report"],
    ["cli"],
    ["__main__"],
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
    if path not in {SOURCE / "__init__.py", SOURCE / "testing.py"}
}


@pytest.fixture(autouse=True)
def _without_garbage_collection():
    """Many small objects are made: the garbage collector would visit all objects of all tests again and again."""
    gc.disable()
    yield
    gc.enable()


def statements_of(path):
    """All statements of a file, also those inside others; expressions, most nodes of a tree, are left out."""
    statements = list(ast.parse(path.read_text(encoding="utf-8")).body)
    for statement in statements:
        for inner in ("body", "orelse", "finalbody", "handlers", "cases"):
            statements += getattr(statement, inner, [])
    return statements


def imported(path):
    """Modules of treeanova that a file imports, also inside functions; the version is no module."""
    for node in statements_of(path):
        if isinstance(node, ast.ImportFrom) and node.module == "treeanova":
            names = (alias.name for alias in node.names if alias.name != "__version__")
            yield from (name if name in RANK else "" for name in names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("treeanova."):
            home = node.module.removeprefix("treeanova.")
            yield from (f"{home}.{a.name}" if f"{home}.{a.name}" in MODULES else home for a in node.names)
        elif isinstance(node, ast.Import):
            yield from (
                a.name.removeprefix("treeanova").lstrip(".") for a in node.names if a.name.startswith("treeanova")
            )


def layer_of(name):
    return RANK[name.partition(".")[0]]


@pytest.mark.parametrize("name", sorted(MODULES))
def test_imports_go_down_only(name):
    assert name.partition(".")[0] in RANK, f"{name} has no layer: add it to LAYERS"
    for target in imported(MODULES[name]):
        assert target, f"{name} imports the package root"
        same_package = target != name and name.partition(".")[0] == target.partition(".")[0]
        assert same_package or layer_of(target) < layer_of(name), f"{name} imports {target}, which is not below it"


TESTS = Path(__file__).parent


def test_no_test_imports_another():
    for path in TESTS.rglob("*.py"):
        modules = [node.module or "" for node in statements_of(path) if isinstance(node, ast.ImportFrom)]
        assert not [module for module in modules if re.match(r"tests\..*\btest_", module)], path


# Files that train models themselves: those that write models which are kept, and the test of the training itself.
TRAINING = {
    "make_models.py",
    "make_spark_models.py",
    "test_training.py",
    "training.py",
}


def is_training(node):
    """Whether a node of a syntax tree is `model.fit(…)` or `library.train(…)`, but not `training.train(…)`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    return node.func.attr in {"fit", "train"} and ast.unparse(node.func.value) not in {"training", "demo"}


def test_all_training_of_tests_takes_the_shift():
    for path in TESTS.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name in TRAINING or not re.search(r"\.\s*(?:fit|train)\s*\(", text):  # most need not be parsed
            continue
        lines = [node.lineno for node in ast.walk(ast.parse(text)) if is_training(node)]
        assert not lines, f"{path}, lines {lines}: train by `fit` or `train` of tests.support.training"


def test_public_names():
    assert treeanova.__all__ == sorted(treeanova.__all__)
    for name in treeanova.__all__:
        assert getattr(treeanova, name).__doc__
        assert name in dir(treeanova)
    with pytest.raises(AttributeError, match="no attribute 'purity'"):
        _ = treeanova.purity


def test_importing_treeanova_loads_no_heavy_library():
    heavy = ("scipy", "pandas", "xgboost", "sklearn", "matplotlib", "numba")
    code = f"import sys, treeanova; print([name for name in {heavy} if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def extras_of_the_project():
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["project"]["optional-dependencies"]


def packages_of(extra):
    """Names of the packages that an extra installs, those of extras that it names included."""
    names = set()
    for requirement in extras_of_the_project()[extra]:
        inner = re.fullmatch(r"treeanova\[([\w,]+)\]", requirement)
        names |= set().union(*map(packages_of, inner[1].split(","))) if inner else {re.match(r"[\w-]+", requirement)[0]}
    return names


def test_extras_mean_what_they_say():
    for_developers = {"all", "demo", "test", "models", "browser", "docs", "benchmark", "dev"}
    for_users = set(extras_of_the_project()) - for_developers
    assert packages_of("all") == set().union(*map(packages_of, for_users))
    assert packages_of("demo") <= packages_of("dev")  # `make demo` after `make test` installs nothing


def test_extras_that_are_installed_by_name_are_there():
    """Those of the Makefile, and those that messages and other extras name."""
    root, extras = Path(__file__).parents[1], extras_of_the_project()
    files = [root / "Makefile", root / "pyproject.toml", *SOURCE.rglob("*.py")]
    named = [re.findall(r"(?:treeanova|'\.)\[([\w,]+)\]", file.read_text(encoding="utf-8")) for file in files]
    found = {extra for lists in named for names in lists for extra in names.split(",")}
    assert {"benchmark", "cli", "dev"} <= found
    assert found <= set(extras)
