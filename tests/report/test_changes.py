"""What was changed by hand is on the page: edits, what they state, their impact; names are text."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support.pages import HOSTILE_NAMES, ParsedPage
from tests.support.simulated import dependent_rows
from treeanova.report import write_report

pytest.importorskip("vl_convert")

ROWS = dependent_rows()


@pytest.fixture(scope="module")
def fx():
    cuts = {f"x{j}": [-1.0, 0.0, 1.0] for j in range(3)}
    rng = np.random.default_rng(0)
    tables = {"x0": rng.normal(size=4), "x1": rng.normal(size=4), ("x0", "x2"): rng.normal(size=(4, 4))}
    return treeanova.decompose(treeanova.model.Effects.from_tables(tables, thresholds=cuts), ROWS, density="empirical")


@pytest.fixture(scope="module")
def edited(fx):
    return fx.monotone("x0", "increasing").cap("x1", high=0.1, note=HOSTILE_NAMES[0])


def test_edits_and_their_statements_are_on_the_page(edited):
    page = ParsedPage(write_report(edited, densities=[]))
    changes = page.data["changes"]
    assert [edit["words"] for edit in changes["edits"]] == ["x0 made increasing", "x1 capped at 0.1"]
    assert changes["edits"][1]["note"] == HOSTILE_NAMES[0]
    assert not changes["tables"]
    for shown, edit in zip(changes["edits"], edited.history, strict=True):
        assert shown["rms"] == pytest.approx([edit.rms], rel=1e-5)
        assert shown["largest"] == pytest.approx([edit.largest], rel=1e-5)
        assert shown["moved"] == list(edit.moved)
    assert page.data["checks"]["empirical"]["entries"][0]["title"] == "Edited terms"
    assert len(page.scripts) == 3  # data, charts and the page's own: the note made none


def test_statements_that_an_edit_made_untrue_are_on_the_page(edited):
    page = ParsedPage(write_report(edited.set("x0", [0.0, 3.0, 0.0, 3.0]), densities=[]))
    assert [edit["breaks"] for edit in page.data["changes"]["edits"]] == [[], [], ["x0 made increasing"]]


def test_the_impact_is_on_the_page(edited):
    y = edited.decision_function(ROWS) + ROWS[:, 1]
    impact = edited.impact(ROWS, y, group=ROWS[:, 2] > 0, loss="squared")
    changes = ParsedPage(write_report(edited, densities=[], impact=impact)).data["changes"]
    titles = [title for title, _ in changes["tables"]]
    assert titles == [
        "2 edits at 300 rows",
        "By group",
        "squared error, before and after",
        "Gap of the mean scores, the group minus all others",
    ]
    losses = changes["tables"][2][1]
    assert [float(row["before"]) for row in losses] == pytest.approx(list(impact.losses["before"]), rel=1e-3)
    gaps = changes["tables"][3][1]
    assert [float(row["change"]) for row in gaps] == pytest.approx(list(impact.gaps["change"]), rel=1e-3)


def test_a_model_without_edits_has_no_such_section(fx, edited):
    assert ParsedPage(write_report(fx, densities=[])).data["changes"] is None
    with pytest.raises(TypeError, match="`impact` must be an Impact, got dict"):
        write_report(edited, densities=[], impact={})
    with pytest.raises(ValueError, match="`impact` must be of the same edits as the decomposition, got others"):
        write_report(fx, densities=[], impact=edited.impact(ROWS))


def test_selected_terms_are_told_too(fx):
    page = ParsedPage(write_report(fx.drop("x2"), densities=[])).data
    assert [edit["words"] for edit in page["changes"]["edits"]] == ["x2 dropped"]
    assert page["checks"]["empirical"]["entries"][0]["title"] == "Some terms only"
