from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.command_line import plain_environment

pytest.importorskip("typer")
pytest.importorskip("rich")


def test_without_its_libraries_the_command_line_names_the_extra():
    code = "import sys, runpy; sys.modules['typer'] = None; runpy.run_module('treeanova', run_name='__main__')"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=plain_environment()
    )
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1
    assert "pip install typer rich" in found.stderr
