"""Monotonicity against all cells, against constraints of the libraries, and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import treeanova
from tests.support.forests import chains
from tests.support.simulated import dependent_rows, interacting
from tests.support.training import fit
from treeanova.decomposition.monotonicity import _direction
from treeanova.model.rows import Rows

ensemble = pytest.importorskip("sklearn.ensemble")
pd = pytest.importorskip("pandas")


def few_values(n_rows=600, n_features=4, seed=0):
    """Rows with six values per feature, and a response that rises in the first, falls in the third or neither."""
    rng = np.random.default_rng(seed)
    x = np.round(np.clip(rng.normal(size=(n_rows, n_features)), -1.2, 1.2) * 2) / 2
    y = 2 * x[:, 0] + x[:, 0] * x[:, 1] - 1.5 * x[:, 2] + (x[:, 1] * x[:, 3] > 0)
    return x, y + 0.3 * rng.normal(size=n_rows)


def changes_in_cells(fx, feature, output=0):
    """Change of the score between neighbouring regular bins in all cells, and these cells."""
    grid = fx._function.grid
    j = grid.schema.names.index(feature)
    cells = np.array(list(itertools.product(*map(range, grid.sizes))), dtype=np.int32)
    scores = fx._function.score(Rows.in_bins(grid, cells))[:, output].reshape(grid.sizes)
    return np.diff(np.moveaxis(scores, j, 0)[: grid.axes[j].n_regular], axis=0)


def direction_of(changes):
    """The direction of some changes, by their signs."""
    falls, rises = (changes < -1e-9).any(), (changes > 1e-9).any()
    return {(True, True): "neither", (True, False): "decreasing", (False, True): "increasing"}.get(
        (bool(falls), bool(rises)), "constant"
    )


def assert_as_in_cells(fx, feature, output=0):
    """Direction, steps and levels are those of all cells."""
    found = fx.monotonicity(feature, output=output)
    changes = changes_in_cells(fx, feature, output)
    names = [name for name in fx.schema.names if name != feature]
    assert found.direction == direction_of(changes)
    for step, expected in zip(found.all_steps, changes, strict=True):
        assert step.smallest <= expected.min() + 1e-9
        assert step.smallest_found >= expected.min() - 1e-9
        assert step.largest >= expected.max() - 1e-9
        if step.is_exact:
            np.testing.assert_allclose([step.smallest, step.largest], [expected.min(), expected.max()], atol=1e-9)
    axes = {axis.name: axis for axis in fx._function.grid.axes}
    for level in found.levels:
        bin_ = axes[level.partner].labels.index(level.level)
        inside = np.take(changes, bin_, axis=1 + names.index(level.partner))
        assert level.direction == direction_of(inside)


@pytest.mark.parametrize(("depth", "n_trees"), [(1, 10), (2, 10), (3, 6), (5, 4)])
def test_answers_are_those_of_all_cells(depth, n_trees):
    x, y = few_values()
    model = fit(ensemble.GradientBoostingRegressor(max_depth=depth, n_estimators=n_trees, random_state=0), x, y)
    fx = treeanova.decompose(model, x, n_jobs=1)
    for feature in fx.schema.names:
        assert_as_in_cells(fx, feature)


def test_answers_do_not_need_trees(tmp_path):
    x, y = few_values()
    model = fit(ensemble.GradientBoostingRegressor(max_depth=3, n_estimators=4, random_state=0), x, y)
    fx = treeanova.decompose(model, x, n_jobs=1)
    fx.save(tmp_path / "fx.tav")
    assert_as_in_cells(treeanova.load(tmp_path / "fx.tav"), "x0")
    assert_as_in_cells(fx.drop("x1"), "x0")
    assert_as_in_cells(fx.scale("x0", -2.0), "x0")


def test_rounding_of_a_large_model_is_no_change():
    """The tolerance is relative to the whole model, not to the terms of the feature."""
    bounds = {"a": [0.5, 1.5], "b": [0.5, 1.5]}
    tables = {"a": [0.0, 1.0, 5.0], "b": [0.0, 1e-16, 0.0]}
    for intercept in (0.0, 1e9):
        effects = treeanova.model.Effects.from_tables(tables, thresholds=bounds, intercept=intercept)
        found = treeanova.decompose(effects, density="uniform").monotonicity("b")
        assert found.direction == "constant"
        assert found.tolerance == pytest.approx(1e-12 * (intercept + 5.0))
    tables["b"][1] = 1e-10
    found = treeanova.decompose(treeanova.model.Effects.from_tables(tables, thresholds=bounds), density="uniform")
    assert found.monotonicity("b").direction == "neither"


@pytest.mark.parametrize("order", [2, 3])
def test_the_tolerance_is_the_same_from_a_file(tmp_path, order):
    splits = [(j, 0.1 * j) for j in range(order)]
    rows = dependent_rows()
    fx = treeanova.decompose(chains(splits, splits[::-1]), rows, density="empirical", n_jobs=1)
    difference = fx - fx.scale("x0", 3.0)  # minus twice the main effect of x0: nothing else changes it
    for one in (fx, difference, difference.select(order=[1, 2])):
        one.save(tmp_path / "fx.tav")
        before, after = (each.monotonicity("x1") for each in (one, treeanova.load(tmp_path / "fx.tav")))
        assert after.tolerance == pytest.approx(before.tolerance, rel=1e-9)
        assert before.direction == after.direction
        assert (before.direction == "constant") == (one is not fx)


def test_answers_for_one_of_several_outputs():
    x, y = few_values()
    classes = np.digitize(y, [-1, 1])
    model = fit(ensemble.GradientBoostingClassifier(max_depth=2, n_estimators=3, random_state=0), x, classes)
    fx = treeanova.decompose(model, x, n_jobs=1)
    assert_as_in_cells(fx, "x0", output=2)
    with pytest.raises(ValueError, match="`output` must be one of '0', '1', '2', or its position, got none; name one"):
        fx.monotonicity("x0")


def test_missing_values_are_excluded():
    x, y = few_values()
    x[::7, 0] = np.nan
    model = ensemble.HistGradientBoostingRegressor(max_iter=5, max_leaf_nodes=6, min_samples_leaf=5, random_state=0)
    fx = treeanova.decompose(fit(model, x, np.where(np.isnan(x[:, 0]), 50, y)), x, n_jobs=1)
    assert fx.grid.axes[0].n_extra == 1
    assert_as_in_cells(fx, "x0")
    assert "missing values are excluded" in str(fx.monotonicity("x0"))


def constrained(library):
    """A model of depth 4 and more that its library keeps increasing in x0 and decreasing in x2."""
    if library == "xgboost":
        xgboost = pytest.importorskip("xgboost")
        return xgboost.XGBRegressor(n_estimators=12, max_depth=5, monotone_constraints=(1, 0, -1, 0, 0), n_jobs=1)
    if library == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm")
        options = {"monotone_constraints": [1, 0, -1, 0, 0], "num_leaves": 15, "n_jobs": 1, "verbose": -1}
        return lightgbm.LGBMRegressor(n_estimators=12, **options)
    return ensemble.HistGradientBoostingRegressor(
        max_iter=12, max_leaf_nodes=15, monotonic_cst=[1, 0, -1, 0, 0], random_state=0
    )


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "sklearn"])
def test_constraints_of_libraries_are_proved(library):
    rng = np.random.default_rng(0)
    x = np.round(2 * rng.normal(size=(400, 5))) / 2
    y = x[:, 0] + x[:, 0] * x[:, 1] - x[:, 2] + 2 * np.abs(x[:, 3]) + np.sin(3 * x[:, 3]) * x[:, 4]
    fx = treeanova.decompose(
        fit(constrained(library), x, y + rng.normal(size=400)), x, density="independent", max_order=1, n_jobs=1
    )
    names = list(fx.schema.names)
    assert fx.monotonicity(names[0]).direction == "increasing"
    assert fx.monotonicity(names[2]).direction == "decreasing"
    free = fx.monotonicity(names[3])
    assert free.direction == "neither"
    assert (free.is_increasing, free.is_decreasing) == (False, False)


def test_cells_that_break_it_are_named_and_real():
    x, y = few_values()
    model = fit(ensemble.GradientBoostingRegressor(max_depth=3, n_estimators=6, random_state=0), x, y)
    fx = treeanova.decompose(model, x, n_jobs=1)
    found = fx.monotonicity("x1")
    assert found.direction == "neither"
    falls, rises = found.breaks("increasing"), found.breaks("decreasing")
    assert (falls["change"] < 0).all()
    assert (rises["change"] > 0).all()
    changes = changes_in_cells(fx, "x1")
    assert falls["change"].min() == pytest.approx(changes.min())
    assert rises["change"].max() == pytest.approx(changes.max())
    assert len(falls) == (changes.min(axis=(1, 2, 3)) < -1e-9).sum()
    assert set(falls["below"]) <= set(fx.grid.axes[1].labels)
    assert "largest fall" in str(found)
    assert "largest rise" in str(found)
    with pytest.raises(ValueError, match="`direction` must be 'increasing' or 'decreasing', got 'up'"):
        found.breaks("up")


def test_nothing_is_claimed_that_was_not_decided(monkeypatch):
    x, y = few_values()
    model = fit(ensemble.GradientBoostingRegressor(max_depth=4, n_estimators=12, random_state=0), x, x[:, 0] * 5 + y)
    fx = treeanova.decompose(model, x, n_jobs=1)
    monkeypatch.setattr("treeanova.decomposition.monotonicity._FEW_NODES", 0)
    monkeypatch.setattr("treeanova.decomposition.monotonicity._MANY_NODES", 0)
    monkeypatch.setattr("treeanova.decomposition.monotonicity._MOST_SEARCHES", 0)
    for feature in fx.schema.names:
        found, expected = fx.monotonicity(feature), direction_of(changes_in_cells(fx, feature))
        assert found.direction in {expected, "undecided"}
        if found.direction == "undecided":
            assert None in {found.is_increasing, found.is_decreasing}
            assert "every change is between" in str(found)


@pytest.mark.parametrize(
    ("never_falls", "never_rises", "expected"),
    [
        (True, True, "constant"),
        (True, None, "increasing"),
        (False, True, "decreasing"),
        (False, False, "neither"),
        (False, None, "undecided"),
        (None, None, "undecided"),
    ],
)
def test_the_direction_follows_from_what_is_proved(never_falls, never_rises, expected):
    assert _direction(never_falls, never_rises) == expected


def test_a_feature_without_use_is_constant():
    rows = dependent_rows()
    model = fit(ensemble.GradientBoostingRegressor(n_estimators=3, max_depth=1, random_state=0), rows, rows[:, 0])
    found = treeanova.decompose(model, rows, n_jobs=1).monotonicity("x2")
    assert found.direction == "constant"
    assert found.is_increasing
    assert found.is_decreasing
    assert len(found.table) == len(found.steps) == len(found.breaks("increasing")) == 0


def test_categories_and_unknown_features_are_refused(mixed):
    fx = mixed[2]
    with pytest.raises(ValueError, match="`feature` must have values with an order, got 'kind' with the categories"):
        fx.monotonicity("kind")
    with pytest.raises(ValueError, match="`feature` must be one of the model's, got 'height'"):
        fx.monotonicity("height")


def test_a_selection_of_terms_at_rows_is_refused(deep_fx):
    with pytest.raises(ValueError, match=r"monotonicity\(\) must have all terms of a deep ensemble"):
        deep_fx.select(order=[1, 2, 3]).monotonicity("x0")


def test_the_response_to_a_constraint_is_not_assumed():
    rows = dependent_rows()
    model = fit(ensemble.RandomForestRegressor(n_estimators=5, max_depth=6, random_state=0), rows, interacting(rows))
    fx = treeanova.decompose(model, rows, density="independent", max_order=1, n_jobs=1)
    found = fx.monotonicity("x0")
    assert found.direction == "neither"
    assert found.all_steps


def test_only_the_largest_change_is_called_the_largest(monkeypatch):
    x, y = few_values()
    model = fit(ensemble.GradientBoostingRegressor(max_depth=4, n_estimators=12, random_state=0), x, y)
    fx = treeanova.decompose(model, x, n_jobs=1)
    monkeypatch.setattr("treeanova.decomposition.monotonicity._FEW_NODES", 0)
    n_found = 0
    for feature in fx.schema.names:
        found, changes = fx.monotonicity(feature), changes_in_cells(fx, feature)
        for word, end in (("fall", changes.min()), ("rise", changes.max())):
            line = next((line for line in str(found).splitlines() if f"largest {word}" in line), "found")
            n_found += f"largest {word} found" in line
            assert f"largest {word} {end:.4g}," in line or "found" in line
        steps = found.all_steps
        bounds = min(step.smallest for step in steps), max(step.largest for step in steps)
        is_bounded = " found " in str(found) or found.direction == "undecided"
        assert ("every change is between {:.4g} and {:.4g}".format(*bounds) in str(found)) == is_bounded
    assert n_found > 0
