"""Densities of saved decompositions: the weights of the saved terms come back, the rows do not."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import treeanova
from tests.support.archives import assert_same_bits, assert_same_decomposition, saved_and_loaded
from tests.support.decompositions import purified
from tests.support.library_models import number_rows
from treeanova.data.features import Feature, Numeric, Schema
from treeanova.density.kinds import KINDS, Empirical, Laplace, Shrinkage, Table, Uniform
from treeanova.density.statistics import statistics_of
from treeanova.model import Effects, Grid
from treeanova.model.axes import IntervalAxis

DENSITIES = {
    **{name: name for name in sorted(KINDS)},
    "laplace 0.1": Laplace(mix=0.1),
    "shrinkage 0.3": Shrinkage(intensity=0.3),
    "length": Uniform(measure="length"),
    "callable": lambda names, axes: functools.reduce(np.multiply.outer, [np.arange(1.0, 1 + a.size) for a in axes]),
    "other rows": Empirical(X=number_rows(seed=5)),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_every_density_comes_back(regression, name, tmp_path):
    fx, rows = regression
    under = fx.with_density(DENSITIES[name])
    again = saved_and_loaded(under, tmp_path)
    assert_same_decomposition(under, again, rows)
    assert again.density.name == under.density.name


def test_a_table_comes_back(regression, tmp_path):
    fx, rows = regression
    joint = np.random.default_rng(0).random(fx.grid.sizes)
    under = fx.with_density(Table({("x0", "x1", "x2"): joint}))
    again = saved_and_loaded(under, tmp_path)
    assert_same_decomposition(under, again, rows)
    assert again.density.name == "table"


def test_without_rows_tables_answer_and_all_else_is_refused(regression, tmp_path):
    fx, rows = regression
    fx.save(tmp_path / "fx.tav", rows=False)
    again = treeanova.load(tmp_path / "fx.tav")
    assert again.with_density("laplace") == fx.with_density("laplace")
    with pytest.raises(ValueError, match="rows must be read again to count 'x0' and 'x1' and 'x2' together"):
        again.with_density("empirical").density.table((0, 1, 2))
    with pytest.raises(ValueError, match="rows must be known for this, got none"):
        again.select(order=1).importance()
    with pytest.raises(ValueError, match="needs the rows of the density, got none"):
        again.standard_errors()
    assert again.with_density("uniform") == fx.with_density("uniform")
    assert again.with_density("laplace", rows) == fx.with_density("laplace", rows)


def test_a_saved_density_knows_the_marginals_of_its_terms(make_case, tmp_path):
    """The raw model lacks main effects; shares of the rows, counted here, are the oracle."""
    fx, _ = make_case("order three")
    again = saved_and_loaded(fx.raw, tmp_path)
    assert not any(len(names) == 1 for names in again.terms)
    for j, axis in enumerate(fx.grid.axes):
        counted = np.bincount(axis.index(number_rows()[:, j]), minlength=axis.size) / 200
        np.testing.assert_allclose(again.density.table((j,)), counted, atol=1e-12)


@pytest.mark.parametrize("part", ["raw", "cut", "select"])
def test_a_report_is_written_of_every_kind_of_saved_decomposition(regression, part, tmp_path):
    pytest.importorskip("vl_convert")
    fx, _ = regression
    made = {"raw": lambda: fx.raw, "cut": lambda: fx.truncate(1), "select": lambda: fx.select(order=1)}[part]()
    treeanova.write_report(saved_and_loaded(made, tmp_path), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(name in text for name in ("x0", "x1", "x2"))


def test_a_saved_density_is_estimated_anew_from_new_rows(regression, tmp_path):
    fx, _ = regression
    other = number_rows(seed=7)
    for density in ("empirical", Laplace(mix=0.2), "auto"):
        again = saved_and_loaded(fx.with_density(density), tmp_path)
        twice = saved_and_loaded(again, tmp_path)
        expected = fx.with_density(density, other)
        assert expected != again
        assert again.with_density(again.density, other) == expected
        assert twice.with_density(twice.density, other) == expected
    table = saved_and_loaded(fx.with_density(lambda _, axes: np.ones([axis.size for axis in axes])), tmp_path)
    with pytest.raises(ValueError, match="`density` must be given again, got the saved one of the kind 'table'"):
        table.with_density(table.density, other)


def test_uniform_weights_that_depend_on_rows_come_back(tmp_path):
    """No row is missing, so that the bin of missing values has no weight: with rows or without them."""
    data = np.array([[0.0], [1.0], [2.0], [3.0]])
    schema = Schema((Feature("a", Numeric()),))
    grid = Grid(schema, (IntervalAxis("a", 2, np.array([1.5])),))
    effects = Effects(grid, np.zeros(1), {(0,): np.array([[1.0], [2.0], [9.0]])})
    fx = purified(effects, Uniform().bind(grid, statistics_of(data, grid)))
    again = saved_and_loaded(fx, tmp_path)
    assert fx.density.table((0,)).tolist() == [0.5, 0.5, 0.0]
    assert again.density.table((0,)).tolist() == [0.5, 0.5, 0.0]
    assert again.density.name == "uniform"
    assert again.density.is_product


def test_a_part_of_a_saved_decomposition_can_be_saved(regression, tmp_path):
    """Its importance needs rows, its terms do not."""
    fx, rows = regression
    again = saved_and_loaded(saved_and_loaded(fx, tmp_path).select(order=1), tmp_path)
    assert again == fx.select(order=1)
    assert_same_bits(again.decision_function(rows), fx.select(order=1).decision_function(rows))
    assert again.importance().equals(fx.select(order=1).importance())
