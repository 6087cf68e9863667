from __future__ import annotations

import importlib
import sys

import pytest


def test_without_matplotlib_the_remedy_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("treeanova.plot")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        importlib.import_module("treeanova.plot")
