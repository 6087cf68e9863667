"""The page of glass boxes shows the numbers that were kept; splits have rows once."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("sklearn")

from benchmarks import glass_box
from benchmarks.glass_box_data import split


def numbers(loss, cpu=1.0):
    return {"loss": loss, "cpu": cpu, "terms": 3, "steps": 4.0, "cells": 1_200}


def test_the_page_compares_on_the_same_splits():
    kept = {
        "rows": {
            "0": {"additive": {"default": numbers(0.5, 2.0)}, "ebm": {"EBM": numbers(0.7, 20.0)}},
            "1": {"additive": {"default": numbers(0.6, 2.0)}, "ebm": {"EBM": numbers(0.6, 10.0)}},
            "2": {"ebm": {"EBM": numbers(0.9)}},
        }
    }
    page = glass_box.page(kept)
    cells = [[cell.strip() for cell in line.strip("| ").split("|")] for line in page.splitlines() if "rows " in line]
    assert ["rows", "2", "-15.4 ± 15.4", "–", "–", "–", "7.5", "–"] in cells
    assert ["rows", "3 / 4 / 1,200", "– / – / –", "3 / 4 / 1,200"] in cells
    assert "lower mean loss on 1 of 1 data sets. It is worse by more than one standard error on none." in page
    assert "0.7333" in page  # of three EBMs


def test_a_split_has_each_row_once():
    data = split("diabetes", 3)
    assert (len(data.y), len(data.y_test)) == (309, 133)
    together = np.concatenate([data.X.to_numpy(), data.X_test.to_numpy()])
    assert len(np.unique(together, axis=0)) == 442
    fewer = split("diabetes", 3, 100)
    assert len(fewer.y) == 100
    np.testing.assert_array_equal(fewer.y_test, data.y_test)


@pytest.mark.parametrize(("is_classifier", "loss"), [(False, 0.5), (True, -np.log(0.75) / 2 - np.log(0.5) / 2)])
def test_losses(is_classifier, loss):
    y, response = np.array([1, 0]), np.array([0.75, 0.5]) if is_classifier else np.array([0.0, 0.0])
    data = glass_box.Split(is_classifier, None, None, None, y)
    assert glass_box._loss(data, response) == pytest.approx(loss)
