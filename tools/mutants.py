"""Break the code in small ways, one at a time, and count how many of the breaks the tests notice.

``python tools/mutants.py anova --count 30`` draws 30 places in `src/treeanova/anova` (a comparison, an operator, a
number, a boolean or a negation), changes one in a copy of the sources, and runs the tests of the room with it. It
prints the breaks that no test notices: each is either harmless or a missing test.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


def _is_type(node: ast.BinOp) -> bool:
    """Whether `a | b` may be a union of types rather than a computation."""
    return isinstance(node.op, ast.BitOr)


def _mutate(node: ast.AST) -> bool:
    """Change a node in place; False if there is nothing to change."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
        node.ops[0] = _COMPARISONS[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS and not _is_type(node):
        node.op = _OPERATORS[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub, ast.Invert)):
        node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        node.value = not node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        node.value = node.value + 1
    else:
        return False
    return True


def _candidates(tree: ast.Module) -> Iterator[ast.AST]:
    """Nodes inside functions that a mutation may change, without annotations."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for statement in function.body:
                yield from (node for node in ast.walk(statement) if not isinstance(node, (ast.AnnAssign, ast.Raise)))


def _mutants(room: str, count: int, seed: int) -> Iterator[tuple[Path, str, str]]:
    """Yield (file, description, changed text) of mutations drawn at random from all places of a room."""
    places = []
    for path in sorted((ROOT / "src" / "treeanova" / room).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        n_nodes = sum(1 for _ in _candidates(tree))
        places += [(path, place) for place in range(n_nodes)]
    random.Random(seed).shuffle(places)  # noqa: S311
    for path, place in places:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        node = list(_candidates(tree))[place]
        before = ast.unparse(node)
        if len(before) < 200 and _mutate(node):
            line = getattr(node, "lineno", 0)
            yield path, f"{path.relative_to(ROOT)}:{line}  {before}  →  {ast.unparse(node)}", ast.unparse(tree)
            count -= 1
        if not count:
            return


def _is_caught(path: Path, text: str, tests: list[str], seconds: float) -> bool:
    """Whether the tests fail with one file of the package replaced."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source)
        (source / path.relative_to(ROOT / "src")).write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-o", "addopts=-q", *tests]
        environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            run = subprocess.run(  # noqa: S603
                command, cwd=ROOT, env=environment, capture_output=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            return True
        return run.returncode != 0


def main() -> None:
    """Run the mutations of a room and print which ones no test notices."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("room")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600, help="a run that takes longer counts as noticed")
    parser.add_argument("--tests", nargs="*", help="test files or folders; by default the tests of the room")
    arguments = parser.parse_args()
    tests = arguments.tests or [f"tests/{arguments.room}"]
    n_caught = 0
    for number, (path, change, text) in enumerate(_mutants(arguments.room, arguments.count, arguments.seed), start=1):
        caught = _is_caught(path, text, tests, arguments.seconds)
        n_caught += caught
        print(f"{number:3} {'noticed ' if caught else 'MISSED  '} {change}", flush=True)
    print(f"{n_caught} of {arguments.count} noticed")


if __name__ == "__main__":
    main()
