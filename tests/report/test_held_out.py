"""Standard errors and validation on the page are those that were passed."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support.pages import ParsedPage, names_on_page
from tests.support.simulated import boosted, dependent_rows, interacting
from treeanova.report import write_report
from treeanova.report.payload import checked_errors, checked_validation, plain_validation

pytest.importorskip("vl_convert")
pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def bag():
    rows = dependent_rows()
    return treeanova.bag(boosted, rows, interacting(rows), 3, density="empirical", n_jobs=1)


@pytest.fixture(scope="module")
def validation(bag):
    rows = dependent_rows(200, seed=1)
    return bag.fx.validate(rows, interacting(rows))


@pytest.fixture(scope="module")
def page(bag, validation):
    return ParsedPage(write_report(bag.fx, densities=[], errors=bag, validation=validation)).data


def test_errors_of_all_tables_are_on_the_page(bag, page):
    errors = bag.standard_errors()
    for term in page["terms"]:
        expected = errors[names_on_page(page, term)].ravel()
        np.testing.assert_allclose(np.array(term["errors"][0]) * page["unit"], expected, atol=page["unit"])


def test_the_validation_is_on_the_page(validation, page):
    plain = page["validation"]
    table = validation.table
    assert [row[0] for row in plain["terms"]] == list(table["term"])
    for place, name in enumerate(("loss_change", "error", "p_value", "p_holm", "slope", "share", "model_share"), 2):
        shown = [np.nan if row[place] is None else row[place] for row in plain["terms"]]  # NaN is null on the page
        assert shown == pytest.approx(list(table[name]), rel=1e-5, nan_ok=True)
    assert plain["dispensable"] == list(validation.dispensable)
    assert plain["significant"] == list(validation.significant)
    assert [row[-1] for row in plain["terms"]] == list(table["aliases"])
    assert (plain["rows"], plain["loss"]) == (200, "squared error")


def test_without_them_the_page_has_neither(bag):
    data = ParsedPage(write_report(bag.fx, densities=[])).data
    assert data["validation"] is None
    assert not any("errors" in term for term in data["terms"])


def test_numbers_that_are_not_known_are_null(validation):
    import dataclasses

    unknown = dataclasses.replace(validation, table=validation.table.assign(slope=np.nan))
    assert {row[6] for row in plain_validation(unknown)["terms"]} == {None}


def test_bad_errors_and_validations_are_refused(bag):
    fx = bag.fx
    assert checked_errors(fx, None) == {}
    with pytest.raises(TypeError, match="`errors` must be a Bag or what standard_errors"):
        checked_errors(fx, 3)
    with pytest.raises(ValueError, match=r"`errors` must be those of `fx`, which has shape .* got shape \(2,\)"):
        checked_errors(fx, {("x0",): np.zeros(2)})
    with pytest.raises(ValueError, match="`errors` must be those of `fx`, which has no such table for 'y'"):
        checked_errors(fx, {("y",): np.zeros(2)})
    with pytest.raises(TypeError, match="`validation` must be a Validation, got dict"):
        checked_validation({})
