"""Smallest values of random sums of tables and boxes, by trying all cells."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from treeanova.terms.extremes import Boxes, StepFunction


def random_function(rng, n_columns=(3, 4, 2, 3)):
    """A sum of functions of one partner, tables of two and three, and boxes: those of a function are slabs."""
    n_partners = len(n_columns)
    singles = tuple(rng.normal(size=n) for n in n_columns)
    tables = [((0, 2), rng.normal(size=(n_columns[0], n_columns[2])))] if rng.random() < 0.7 else []
    if rng.random() < 0.5:
        tables.append(((0, 1, 3), rng.normal(size=(n_columns[0], n_columns[1], n_columns[3]))))
    inside, values, starts, may_be_zero = [], [], [], []
    for _ in range(int(rng.integers(0, 4))):
        starts.append(len(values))
        along = int(rng.integers(n_partners))
        common = [rng.random(n) < 0.7 for n in n_columns]  # boxes differ along one partner, and share the rest
        common = [mask | (np.arange(len(mask)) == 0) for mask in common]
        n_boxes = int(rng.integers(1, n_columns[along] + 1))
        for column in range(n_boxes):
            own = [mask if i != along else np.arange(len(mask)) == column for i, mask in enumerate(common)]
            inside.append(np.concatenate(own))
            values.append(rng.normal())
        covers = n_boxes == n_columns[along] and all(mask.all() for i, mask in enumerate(common) if i != along)
        may_be_zero.append(not covers)
    boxes = Boxes(
        np.array(inside, dtype=bool).reshape(len(values), sum(n_columns)),
        np.array(values),
        np.array(starts, dtype=np.int64),
        np.array(may_be_zero, dtype=bool),
    )
    columns = tuple(np.arange(n) for n in n_columns)
    return StepFunction(tuple(range(n_partners)), columns, 0.3, singles, tuple(tables), boxes, size=1.0)


def value_in_cell(function, cell):
    """The sum of all parts, written out."""
    total = function.constant + sum(single[c] for single, c in zip(function.singles, cell, strict=True))
    total += sum(table[tuple(cell[i] for i in places)] for places, table in function.tables)
    offsets = np.cumsum([0, *function.n_columns])
    for box, value in zip(function.boxes.inside, function.boxes.values, strict=True):
        total += value * all(box[offset + c] for offset, c in zip(offsets, cell, strict=False))
    return total


@pytest.mark.parametrize("seed", range(30))
def test_the_smallest_value_is_found_and_proved(seed):
    function = random_function(np.random.default_rng(seed))
    values = {cell: value_in_cell(function, cell) for cell in itertools.product(*map(range, function.n_columns))}
    found = function.lowest(300)
    assert found.least == pytest.approx(values[found.cell], abs=1e-12)
    assert found.bound <= min(values.values()) + 1e-12
    few = function.lowest(2)
    assert few.bound <= min(values.values()) + 1e-12 <= few.least + 2e-12
    if found.is_exact:
        assert found.least == pytest.approx(min(values.values()), abs=1e-12)
    assert (found.least < 0) == (min(values.values()) < 0)


@pytest.mark.parametrize("seed", range(12))
def test_signs_are_decided_at_every_level(seed):
    function = random_function(np.random.default_rng(seed))
    cells = list(itertools.product(*map(range, function.n_columns)))
    anywhere = function.lowest()
    for place, n_columns in enumerate(function.n_columns):
        bounds, along = function.by_level(place, anywhere.cell)
        for column in range(n_columns):
            least = min(value_in_cell(function, cell) for cell in cells if cell[place] == column)
            assert bounds[column] <= least + 1e-12
            replaced = (*anywhere.cell[:place], column, *anywhere.cell[place + 1 :])
            assert along[column] == pytest.approx(value_in_cell(function, replaced), abs=1e-12)
            searched = function.lowest(1_000, at=(place, column))
            assert searched.cell[place] == column
            assert (searched.least < 0) == (least < 0)
            assert searched.bound <= least + 1e-12
            assert (searched.bound >= -1e-12) == (least >= 0)


def test_the_largest_value_is_that_of_the_opposite():
    function = random_function(np.random.default_rng(1))
    values = [value_in_cell(function, cell) for cell in itertools.product(*map(range, function.n_columns))]
    found = (-function).lowest(10_000)
    assert found.bound <= -max(values) + 1e-12 <= found.least + 2e-12


@pytest.mark.parametrize("seed", range(6))
def test_tables_that_cancel_in_every_cell_are_zero_together(seed):
    """One table of three partners holds the opposite of tables of fewer, which are not zero one by one."""
    rng, n_columns = np.random.default_rng(seed), (3, 4, 2)
    singles = tuple(rng.normal(size=n) for n in n_columns)
    pair, constant = rng.normal(size=(3, 2)), float(rng.normal())
    total = constant + singles[0][:, None, None] + singles[1][:, None] + singles[2] + pair[:, None]
    nothing = np.zeros(0, dtype=np.int64)
    boxes = Boxes(np.zeros((0, sum(n_columns)), bool), np.zeros(0), nothing, nothing.astype(bool))
    columns = tuple(map(np.arange, n_columns))
    for change in (0.0, 1e-6):
        triple = -total
        triple[rng.integers(3), rng.integers(4), rng.integers(2)] += change
        function = StepFunction(
            (4, 5, 7), columns, constant, singles, (((0, 2), pair), ((0, 1, 2), triple)), boxes, size=5.0
        )
        assert function.is_zero is (change == 0)
