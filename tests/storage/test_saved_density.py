"""Densities of saved decompositions: the weights of the saved terms come back, the rows do not."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import pytest

import treeanova
from tests.support.archives import assert_same_bits, assert_same_decomposition, saved_and_loaded
from tests.support.decompositions import purified
from tests.support.library_models import number_rows
from treeanova.data.features import Feature, Numeric, Schema
from treeanova.density.kinds import KINDS, Auto, Empirical, Laplace, Reference, Shrinkage, Table, Uniform
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


@pytest.mark.parametrize("again", ["with rows", "without rows", "pickle"])
@pytest.mark.parametrize("name", sorted(KINDS))
def test_a_file_without_rows_can_be_saved_again(regression, name, again, tmp_path):
    fx, rows = regression
    original = fx.with_density(name)
    original.save(tmp_path / "fx.tav", rows=False)
    twice = treeanova.load(tmp_path / "fx.tav")
    for _ in range(2):
        if again == "pickle":
            twice = pickle.loads(pickle.dumps(twice))
        else:
            twice.save(tmp_path / "again.tav", rows=again == "with rows")
            twice = treeanova.load(tmp_path / "again.tav")
    assert twice == original
    assert twice.density.is_product == original.density.is_product
    assert str(twice.certificate) == str(original.certificate)
    assert twice.importance().equals(original.importance())
    assert twice.with_density(twice.density, rows) == fx.with_density(name, rows)


def _two_main_effects(density, rows):
    grid = Grid(
        Schema((Feature("a", Numeric()), Feature("b", Numeric()))),
        tuple(IntervalAxis(name, -1, np.array([0.0])) for name in "ab"),
    )
    effects = Effects(grid, np.zeros(1), {(j,): np.array([[0.0], [1.0]]) for j in range(2)})
    return purified(effects, density.bind(grid, statistics_of(rows, grid)))


def test_a_file_without_rows_and_without_the_pairs_that_shrinkage_counts_can_be_saved_again(tmp_path):
    rows = number_rows()[:, :2]
    fx = _two_main_effects(Shrinkage(), rows)
    fx.save(tmp_path / "fx.tav", rows=False)
    again = saved_and_loaded(treeanova.load(tmp_path / "fx.tav"), tmp_path)
    assert again == fx
    assert not again.density.is_product
    assert again.with_density(again.density, rows).density.used_intensity == fx.density.used_intensity


@pytest.mark.parametrize("were_alike", [True, False])
def test_whether_features_are_independent_is_kept_and_found_anew_from_new_rows(were_alike, tmp_path):
    first = np.linspace(-1.0, 1.0, 400)
    alike = np.stack([first, first + 0.01 * np.tile([-1.0, 1.0], 200)], axis=1)
    apart = np.stack([first, np.linspace(0.5, 1.5, 400) * np.tile([-1.0, 1.0], 200)], axis=1)
    rows, others = (alike, apart) if were_alike else (apart, alike)
    _two_main_effects(Auto(), rows).save(tmp_path / "fx.tav", rows=False)
    loaded = treeanova.load(tmp_path / "fx.tav")
    assert loaded.density.is_product != were_alike
    assert loaded.with_density(loaded.density, others).density.is_product == were_alike


def test_a_saved_reference_ranks_terms_at_the_rows(regression, tmp_path):
    """The same answers without saving, and the reason why a file has no weights of its own."""
    fx, rows = regression
    original = fx.with_density(Reference(rows[0]))
    for again in (saved_and_loaded(original, tmp_path), pickle.loads(pickle.dumps(original))):
        for part in (lambda one: one.truncate(1), lambda one: one.select(order=1), lambda one: one.raw):
            assert part(again) == part(original)
            assert str(part(again)) == str(part(original))
            assert part(again).importance().equals(part(original).importance())
        with pytest.raises(ValueError, match="must have its reference for this, got none"):
            again.density.table((0,))


def test_a_saved_reference_without_rows_is_cut_but_not_ranked(regression, tmp_path):
    fx, rows = regression
    original = fx.with_density(Reference(rows[0]))
    original.save(tmp_path / "fx.tav", rows=False)
    again = saved_and_loaded(treeanova.load(tmp_path / "fx.tav"), tmp_path)
    assert again.importance().equals(original.importance())
    assert again.truncate(1) == original.truncate(1)
    with pytest.raises(ValueError, match="rows must be known for this, got none"):
        again.select(order=1).importance()
