from __future__ import annotations

import json

import pytest

from treeanova.testing.command_line import printed

pytest.importorskip("typer")
pytest.importorskip("rich")


def test_bench_measures_a_library(capsys):
    pytest.importorskip("sklearn")
    found = json.loads(printed(["bench", "sklearn", "--rows", "300", "--trees", "5", "--json"], capsys))
    assert [row["model"] for row in found] == ["sklearn HistGradientBoostingRegressor"]
    assert all(found[0][name] > 0 for name in ("predict", "decompose empirical", "decompose auto", "explain all rows"))
    text = printed(["bench", "sklearn", "--rows", "300", "--trees", "5"], capsys)
    assert "300 rows, 8 dependent features, 5 trees" in text
