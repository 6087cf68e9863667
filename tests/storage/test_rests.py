"""Tables of pairs as rests: pure tables follow from the trees and one number per bin and coarse cell, or are kept."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

import treeanova
from tests.support.archives import arrays_in_file, saved_and_loaded
from tests.support.library_models import number_rows
from tests.support.training import fit
from treeanova.storage import saved as faces
from treeanova.storage import saved as ratios
from treeanova.storage import saved as rests
from treeanova.storage.saved import pack_pairs, unpack_pairs

tree = pytest.importorskip("sklearn.tree")

ROWS = number_rows(400)
ROWS[:, 1:] += 0.8 * ROWS[:, :-1]
NEW_ROWS = number_rows(100, seed=1)
TARGETS = np.stack([ROWS.prod(axis=1), ROWS[:, 0] * ROWS[:, 2]], axis=1)


@pytest.fixture(autouse=True)
def _small_tables_are_packed(monkeypatch):
    for module in (faces, ratios, rests):
        monkeypatch.setattr(module, "_LEAST_CELLS", 0)
    for name in ("_LEAST_PER_NODE", "_LEAST_CELLS_OF_TABLE"):
        monkeypatch.setattr(rests, name, 0)


def decomposed(**options):
    model = fit(tree.DecisionTreeRegressor(max_depth=7, min_samples_leaf=3, random_state=0), ROWS, TARGETS)
    return treeanova.decompose(model, ROWS, **{"density": "auto", "tensor_order": 2, "n_jobs": 1, **options})


def with_merged_bins():
    data = np.random.default_rng(0).normal(size=(300, 4))
    data[:, 1:] += 0.7 * data[:, :-1]
    target = data[:, 0] * data[:, 1] + np.sin(2 * data[:, 2]) + (data[:, 0] > 0) * data[:, 1] * data[:, 3]
    ensemble = pytest.importorskip("sklearn.ensemble")
    model = ensemble.ExtraTreesRegressor(6, max_depth=7, min_samples_leaf=5, random_state=0, n_jobs=1)
    return treeanova.decompose(fit(model, data, target), data, density="empirical", budget=6e4, n_jobs=1)


DENSITIES = ["auto", "empirical", "independent"]


@pytest.mark.parametrize("density", [*DENSITIES, "merged bins"])
@pytest.mark.usefixtures("_budget_of_tables")
def test_tables_of_pairs_follow_from_the_trees(density):
    fx = with_merged_bins() if density == "merged bins" else decomposed(density=density)
    assert fx._function.terms.leaf_terms.trees.has_merged_bins == (density == "merged bins")
    tables, leaf_terms = fx._function.effects.terms, fx._function.terms.leaf_terms
    packed, whole = pack_pairs(tables, leaf_terms)
    assert {len(key) for key in whole} == {1}
    for key, table in unpack_pairs(packed, leaf_terms).items():
        np.testing.assert_allclose(table, tables[key], rtol=0, atol=1e-13 * np.abs(table).max())


def test_other_tables_are_kept():
    fx = decomposed(density="independent")  # no coarse cells, which could hold any table of few bins
    tables = dict(fx._function.effects.terms)
    tables[0, 1] = np.random.default_rng(0).random(tables[0, 1].shape)
    packed, whole = pack_pairs(tables, fx._function.terms.leaf_terms)
    assert whole[0, 1] is tables[0, 1]
    assert (0, 2) in packed


@pytest.mark.parametrize("name", ["_LEAST_CELLS", "_LEAST_PER_NODE", "_LEAST_CELLS_OF_TABLE"])
def test_small_tables_are_kept_to_the_last_bit(name, monkeypatch):
    fx = decomposed()
    monkeypatch.setattr(rests, name, 10**6)
    packed, whole = pack_pairs(fx._function.effects.terms, fx._function.terms.leaf_terms)
    assert not packed
    assert whole == dict(fx._function.effects.terms)


def test_rests_that_do_not_fit_are_refused():
    fx = decomposed()
    packed, _ = pack_pairs(fx._function.effects.terms, fx._function.terms.leaf_terms)
    with pytest.raises(ValueError, match="rests must fit the bins of the tables"):
        unpack_pairs({(0, 1): packed[0, 1][:-1]}, fx._function.terms.leaf_terms)
    for others in (None, fx.raw._function.terms.leaf_terms):
        with pytest.raises(TypeError, match="tables that follow from trees must have them"):
            unpack_pairs(packed, others)


# Whole files


def answers(fx):
    values = fx.explain(NEW_ROWS).values
    found = {"explain": values, "score": fx.decision_function(NEW_ROWS), "raw": fx.raw.decision_function(NEW_ROWS)}
    found["variance"], found["intercept"] = fx._moments.variance, fx.intercept
    for names, term in fx.terms.items():
        if term.has_table:
            found[f"values {names}"], found[f"weights {names}"] = term.values, term.weights
    return {name: np.asarray(array) for name, array in found.items()}


@pytest.mark.parametrize("density", DENSITIES)
def test_a_file_answers_as_before_without_the_tables_that_follow(density, tmp_path):
    fx = decomposed(density=density)
    again = saved_and_loaded(fx, tmp_path)
    folders = {name.rpartition("/")[0] for name in arrays_in_file(tmp_path / "fx.tav") if name != "padding"}
    assert "rests" in folders
    assert ("trees/purity/faces" in folders) == (density != "independent")
    assert "trees/purity/tables" not in folders
    for twice in (again, saved_and_loaded(again, tmp_path)):
        found = answers(twice)
        for name, array in answers(fx).items():
            np.testing.assert_allclose(found[name], array, rtol=0, atol=1e-12 * max(1, np.abs(array).max()))
    np.testing.assert_allclose(again.explain(NEW_ROWS).values.sum(axis=1) + again.intercept,
                               fx.decision_function(NEW_ROWS), rtol=0, atol=1e-12 * np.abs(TARGETS).max())  # fmt: skip
    assert again.importance().equals(fx.importance())


def test_a_header_that_states_another_size_of_what_follows_is_refused(tmp_path):
    decomposed().save(tmp_path / "fx.tav")
    with zipfile.ZipFile(tmp_path / "fx.tav") as old, zipfile.ZipFile(tmp_path / "new.tav", "w") as new:
        header = json.loads(old.read("header.json"))
        header["derived"] -= 8
        for name in old.namelist():
            new.writestr(name, json.dumps(header) if name == "header.json" else old.read(name))
    with pytest.raises(treeanova.errors.ArchiveError, match=r"new\.tav must be a whole file saved by treeanova"):
        treeanova.load(tmp_path / "new.tav")
