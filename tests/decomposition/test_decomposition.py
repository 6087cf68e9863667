"""Decompositions against brute force; selections, other densities, equality and summaries."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pickle

import numpy as np
import pytest

import treeanova
from tests.support.decompositions import (
    assert_terms,
    cell_scores,
    cell_shares,
    largest_slice_mean,
    names_at_rows,
    purified,
    sum_of,
)
from tests.support.effects import on_full_bins, pair_on_few_bins, rows_of_effects
from tests.support.oracles import brute_force
from tests.support.recorded import Recorded
from tests.support.simulated import boosted, dependent_rows, interacting, named_rows
from tests.support.training import fit
from treeanova.data.features import Feature, Schema
from treeanova.decomposition.answers import sum_error_words
from treeanova.decomposition.explanation import Explanation
from treeanova.density import Empirical, Laplace, Uniform
from treeanova.model.axes import IntervalAxis
from treeanova.model.effects import Effects
from treeanova.model.grid import Grid
from treeanova.terms.correction import Correction
from treeanova.terms.terms import Scope

ensemble = pytest.importorskip("sklearn.ensemble")
tree = pytest.importorskip("sklearn.tree")

NAMES = ("x0", "x1", "x2")
PAIRS = list(itertools.combinations(NAMES, 2))
DATA, HELD_OUT = dependent_rows(), dependent_rows(200, seed=1)
decompose = functools.partial(treeanova.decompose, density="empirical")


# The whole


def test_terms_are_those_of_brute_force(model):
    small = boosted(DATA, interacting(DATA), n_trees=4)
    found = decompose(small, DATA, density="laplace", n_jobs=1)
    joint = cell_shares(DATA, found.grid)
    weights = joint / 2 + 0.5 / joint.size
    assert_terms(found, brute_force(cell_scores(small.predict, found.grid), weights), NAMES)
    for names, key in ((names, tuple(map(NAMES.index, names))) for names in found.terms):
        expected = weights.sum(axis=tuple(set(range(3)) - set(key)))
        np.testing.assert_allclose(found.terms[names].weights, expected, atol=1e-14)


@pytest.mark.parametrize("density", ["empirical", "laplace", "shrinkage", "uniform"])
def test_threads_change_nothing(model, classifier, density):
    for own in (model, classifier):
        one, two = (decompose(own, DATA, density=density, n_jobs=n_jobs) for n_jobs in (1, 2))
        assert one == two
        assert list(one.terms) == list(two.terms)
        assert dict(one.certificate.terms) == dict(two.certificate.terms)
        for names in one.terms:
            assert one.terms[names].values.tobytes() == two.terms[names].values.tobytes()


def test_a_constant_model_has_an_intercept_only():
    constant = fit(tree.DecisionTreeRegressor(random_state=0), DATA, np.full(300, 2.5))
    found = decompose(constant, DATA, n_jobs=1)
    assert (found.intercept, len(found.terms)) == (2.5, 0)
    assert found.decision_function(HELD_OUT).tolist() == [2.5] * 200
    assert found.explain(HELD_OUT).values.shape == (200, 0)
    assert repr(found).startswith("Decomposition of 0 terms: none")


def test_public_types(fx):
    assert isinstance(fx, treeanova.Decomposition)
    assert isinstance(fx.terms["x0"], treeanova.Term)
    assert isinstance(fx.explain(DATA), Explanation)
    assert isinstance(fx.certificate, treeanova.Certificate)


# Parts


def test_a_selection_holds_its_terms_and_their_sum(fx):
    for kept, names in [
        (fx.select(order=1), [("x0",), ("x1",), ("x2",)]),
        (fx.select(order=[2]), PAIRS),
        (fx.select(features=["x0", "x2"]), [("x0",), ("x2",), ("x0", "x2")]),
        (fx.select(order={1, 2}, features=["x1"]), [("x1",)]),
        (fx.select(features="x1"), [("x1",)]),
        (fx.drop("x0"), [("x1",), ("x2",), ("x1", "x2")]),
        (fx.drop("x0", "x1"), [("x2",)]),
        (fx.drop(["x0", "x1"]), [("x2",)]),
        (fx.drop("x0").drop("x1"), [("x2",)]),
        (fx.select(order=3), []),
    ]:
        assert list(kept.terms) == names
        assert set(kept.certificate.terms) == set(names)
        expected = fx.intercept + sum((fx.term_values(HELD_OUT, own) for own in names), np.zeros(200))
        np.testing.assert_allclose(kept.decision_function(HELD_OUT), expected, atol=1e-12)
        assert f"of {len(names)} terms (of 6)" in repr(kept)
    assert list(fx.terms) == [("x0",), ("x1",), ("x2",), *PAIRS]


def test_importance_of_a_selection_is_of_its_own_score(fx):
    kept = fx.select(order=1)
    values = np.stack([fx.term_values(DATA, name) for name in NAMES])
    covariances = np.cov(values, ddof=0)
    table = kept.importance().set_index("term")
    np.testing.assert_allclose(table.loc[list(NAMES), "share"], covariances.sum(axis=1) / covariances.sum(), atol=1e-12)


def test_a_dropped_feature_has_no_say(fx):
    changed = HELD_OUT.copy()
    changed[:, 0] = 9
    dropped = fx.drop("x0")
    np.testing.assert_array_equal(dropped.decision_function(changed), dropped.decision_function(HELD_OUT))
    assert np.abs(fx.decision_function(changed) - fx.decision_function(HELD_OUT)).max() > 0.1


@pytest.mark.parametrize("act", [lambda fx: fx.drop("x9"), lambda fx: fx.select(features=["x0", "x9"])])
def test_unknown_features_are_refused(fx, act):
    with pytest.raises(ValueError, match="`features` must be the model's, got 'x9'; see"):
        act(fx)


@pytest.mark.parametrize("act", [lambda fx: fx.select(order=1), lambda fx: fx.drop("x0")])
def test_a_selection_under_another_density_is_the_same_function(fx, act):
    kept = act(fx)
    expected = kept.decision_function(HELD_OUT)
    np.testing.assert_allclose(kept.with_density("uniform").decision_function(HELD_OUT), expected, atol=1e-12)


def test_selections_add_up(fx):
    kept = fx.select(order=1)
    expected = 2 * kept.decision_function(HELD_OUT)
    np.testing.assert_allclose((kept + kept).decision_function(HELD_OUT), expected, atol=1e-12)


def test_a_selection_stays_a_selection():
    x, response = named_rows()
    fx = decompose(boosted(x, response, n_trees=10), x)
    part = fx.select(order=1)
    for some in (part, part.with_density("uniform"), part.raw):
        assert f"(of {len(fx.terms)})" in repr(some)
        assert "of the model" not in repr(some)
    refusal = rf"must have all terms of a model, got a selection from {len(fx.terms)} terms; .* before select\(\)"
    with pytest.raises(ValueError, match=refusal):
        part.standard_errors()


def test_parts_of_a_deep_decomposition(deep, deep_fx):
    x = deep[1]
    low = deep_fx.select(order=[1, 2])
    assert names_at_rows(low) == []
    np.testing.assert_allclose(low.decision_function(x), sum_of(deep_fx.explain(x, max_order=2)), atol=1e-12)
    without = deep_fx.drop("x0")
    assert not any("x0" in names for names in without.terms)
    moved = x.copy()
    moved[:, 0] = 7.0
    np.testing.assert_allclose(without.decision_function(x), without.decision_function(moved), atol=1e-12)
    uniform = low.with_density("uniform")
    np.testing.assert_allclose(uniform.decision_function(x), low.decision_function(x), atol=1e-12)
    assert uniform._function.scope == low._function.scope
    assert low._function.scope == Scope(n_terms=len(deep_fx.terms), edits=tuple(low.history))
    with pytest.raises(ValueError, match=f"needs all terms of a deep ensemble, got {len(without.terms)} selected"):
        without.with_density("uniform")


def test_cuts_of_parts_and_parts_of_cuts(deep, deep_fx):
    x = deep[1]
    low = deep_fx.select(order=[1, 2])
    part = low.truncate(1)
    np.testing.assert_allclose(part.decision_function(x), low.decision_function(x), atol=1e-12)
    np.testing.assert_allclose(part.explain(x).scores, part.decision_function(x), atol=1e-12)
    assert set(part.terms) == {(f"x{j}",) for j in range(6)}
    again = deep_fx.truncate(2).with_density("uniform")
    assert names_at_rows(again) == []
    assert again.has_remainder
    assert not any("x0" in names for names in deep_fx.raw.drop("x0").terms)
    assert deep_fx != deep_fx.select(order=[1, 2])
    assert deep_fx.truncate(2).certificate.higher.n_terms == 0
    with pytest.raises(KeyError, match="no term"):
        deep_fx.drop("x0").term_values(x, ("x0", "x1", "x2"))


# Before purification


def test_the_raw_form_has_the_same_scores_and_is_not_pure(model, fx):
    raw = fx.raw
    np.testing.assert_allclose(raw.decision_function(HELD_OUT), model.predict(HELD_OUT), atol=1e-12)
    assert max(largest_slice_mean(term) for term in fx.terms.values()) < 1e-10
    assert max(largest_slice_mean(term) for term in raw.terms.values()) > 1e-2
    assert raw.certificate.impurity > 1e-2
    assert not raw.certificate.is_pure
    assert fx.raw is fx.raw
    assert raw != fx


def test_the_raw_form_of_one_tree_is_the_tree():
    single = fit(tree.DecisionTreeRegressor(max_depth=2, random_state=0), DATA[:, :2], interacting(DATA))
    found = decompose(single, DATA[:, :2], n_jobs=1).raw
    total = np.zeros(found.grid.sizes)
    for names, term in found.terms.items():
        key = ["x0", "x1"]
        total += term.values.reshape([s if n in names else 1 for n, s in zip(key, found.grid.sizes, strict=True)])
    np.testing.assert_allclose(total + found.intercept, cell_scores(single.predict, found.grid), atol=1e-12)


def test_raw_of_a_deep_model_is_what_the_trees_hold(deep, deep_fx):
    x = deep[1]
    raw = deep_fx.raw.explain(x[:300])
    np.testing.assert_allclose(sum_of(raw), deep_fx.decision_function(x[:300]), atol=1e-12)
    sets = deep_fx._function.source.trees.leaf_sets
    assert set(raw.terms) == {tuple(f"x{j}" for j in key) for key in sets.keys if key}


# Other densities


@pytest.mark.parametrize(
    "density",
    ["uniform", "laplace", "independent", "shrinkage", Laplace(mix=0.1), Empirical(X=HELD_OUT), lambda names, axes:
     np.ones([axis.size for axis in axes])],
)  # fmt: skip
def test_another_density_is_as_good_as_decomposing_anew(model, fx, density):
    again = fx.with_density(density)
    anew = decompose(model, DATA, density=density, n_jobs=1)
    assert again == anew
    assert again != fx
    assert again.density.name == anew.density.name
    assert dict(again.certificate.terms) == dict(anew.certificate.terms)
    assert again.importance().equals(anew.importance())


def test_the_same_density_with_other_rows(model, fx):
    weights = np.random.default_rng(0).random(200)
    assert fx.with_density("empirical", HELD_OUT) == decompose(model, HELD_OUT, n_jobs=1)
    weighted = fx.with_density("empirical", HELD_OUT, sample_weight=weights)
    assert weighted == decompose(model, HELD_OUT, sample_weight=weights, n_jobs=1)
    assert weighted != fx.with_density("empirical", HELD_OUT)


# Equality and repr


def test_equality_is_of_terms_and_bins(model, other_model, fx, several):
    assert fx == decompose(model, DATA, n_jobs=1)
    assert fx != decompose(other_model, DATA, n_jobs=1)
    assert fx != several
    assert fx != fx.select(order=1)
    assert fx != decompose(model, DATA, feature_names=["a", "b", "c"], n_jobs=1)
    assert fx != "fx"
    with pytest.raises(TypeError, match="unhashable"):
        hash(fx)


def on_axis(axis):
    """Values 1 and -1 on the two bins of an axis."""
    grid = Grid(Schema((Feature("a"),)), (axis,))
    effects = Effects(grid, np.zeros(1), {(0,): np.array([[1.0], [-1.0]])})
    return purified(effects, Uniform().bind(grid, None))


def test_equality_is_of_bounds_and_bins_of_missing_values():
    axes = [(0, 0.0), (1, 0.0), (0, 0.5)]
    parts = [on_axis(IntervalAxis("a", missing_bin, np.array([bound]))) for missing_bin, bound in axes]
    assert parts[0] == on_axis(IntervalAxis("a", 0, np.array([0.0])))
    assert parts[0] != parts[1]
    assert parts[0] != parts[2]
    assert parts[1] != parts[2]


def with_terms(fx, terms):
    return dataclasses.replace(fx, _function=dataclasses.replace(fx._function, terms=terms))


def test_equal_tensors_do_not_make_equal_decompositions(triple):
    model, rows = triple
    deep = treeanova.decompose(model, rows, density="empirical", tensor_order=2)
    assert deep == treeanova.decompose(model, rows, density="empirical", tensor_order=2)
    uncorrected = dataclasses.replace(deep._function.terms.leaf_terms, correction=Correction())
    assert deep != with_terms(deep, dataclasses.replace(deep._function.terms, leaf_terms=uncorrected))


def test_deep_and_dense_ones_can_be_compared_for_equality(triple):
    model, rows = triple
    deep, dense = (treeanova.decompose(model, rows, density="empirical", tensor_order=n) for n in (2, 3))
    assert deep != dense
    assert dense != deep
    assert deep.raw != dense.raw
    assert dense.raw != deep.raw


def test_a_repr_tells_the_truth(fx, several):
    found = fx.certificate
    lines = repr(fx).splitlines()
    assert len(lines[3:]) == any(found.terms[names].n_components > 1 for names in PAIRS)
    assert all(line.startswith("  the support of ") for line in lines[3:])
    assert lines[:3] == [
        "Decomposition of 6 terms: 3 of order 1, 3 of order 2",
        "  density: empirical; scale: prediction (identity link)",
        f"  orders 1 and 2 pure to {found.impurity:.1e}; {sum_error_words(fx)}",
    ]
    assert sum_error_words(fx) == f"sum of terms within {found.reconstruction_error:.1e} of the model"
    assert "scale: class score (softmax link); outputs: u, v, w" in repr(several)
    assert "density: laplace" in repr(fx.with_density("laplace"))


@pytest.mark.parametrize("density", ["empirical", "auto"])
def test_decompositions_can_be_pickled(density):

    from sklearn.ensemble import GradientBoostingRegressor

    rows = np.random.default_rng(0).normal(size=(300, 4))
    for depth, tensor_order in ((2, None), (4, 2)):
        model = fit(
            GradientBoostingRegressor(max_depth=depth, n_estimators=10), rows, rows[:, 0] * rows[:, 1] + rows[:, 2]
        )
        fx = treeanova.decompose(model, rows, density=density, tensor_order=tensor_order)
        fx.importance()
        again = pickle.loads(pickle.dumps(fx))
        np.testing.assert_array_equal(again.explain(rows).values, fx.explain(rows).values)
        assert str(again.certificate) == str(fx.certificate)


# Terms on axes of their own


@pytest.fixture(scope="module")
def own_axes():
    """A pair on fewer bins than its main effects, its rows, and its decomposition."""
    effects = pair_on_few_bins()
    rows = rows_of_effects(effects)
    return effects, rows, decompose(effects, rows, n_jobs=1)


def test_terms_have_the_axes_of_the_model(own_axes):
    effects, rows, found = own_axes
    assert {names: term.values.shape for names, term in found.terms.items()} == {
        ("x0",): (6,), ("x1",): (5,), ("x0", "x1"): (3, 2)
    }  # fmt: skip
    assert [axis.thresholds.tolist() for axis in found.terms["x0", "x1"].axes] == [[1.0, 4.0], [2.0]]
    np.testing.assert_allclose(found.decision_function(rows), effects.score(rows)[:, 0], atol=1e-12)
    np.testing.assert_allclose(found.raw.decision_function(rows), effects.score(rows)[:, 0], atol=1e-12)
    assert found.raw.terms["x0", "x1"].values.shape == (3, 2)
    assert found.certificate.is_pure
    assert max(map(largest_slice_mean, found.terms.values())) < 1e-10
    assert not found.raw.certificate.is_pure


def test_weights_and_tables_are_of_the_rows_in_the_terms_own_bins(own_axes):
    _, rows, found = own_axes
    table = found.table(["x0", "x1"])
    assert len(table) == 6
    for _, row in table.iterrows():
        inside = (rows > [row["x0_low"], row["x1_low"]]) & (rows <= [row["x0_high"], row["x1_high"]])
        assert row["weight"] == pytest.approx(inside.all(axis=1).mean())
        if row["weight"]:
            assert found.term_values(rows[inside.all(axis=1)], ["x0", "x1"]) == pytest.approx(row["value"])


def test_terms_on_their_own_axes_can_be_called(own_axes):
    _, rows, found = own_axes
    for names, term in found.terms.items():
        np.testing.assert_array_equal(
            term(rows[:, [NAMES.index(name) for name in names]]), found.term_values(rows, names)
        )


def test_parts_of_terms_on_their_own_axes(own_axes):
    _, rows, found = own_axes
    pair = found.term_values(rows, ["x0", "x1"])
    np.testing.assert_allclose(found.truncate(1).remainder(rows), pair, atol=1e-12)
    np.testing.assert_allclose(
        found.select(order=1).decision_function(rows), found.decision_function(rows) - pair, atol=1e-12
    )
    assert found.select(order=2).terms["x0", "x1"].values.shape == (3, 2)
    assert list(found.drop("x0").terms) == [("x1",)]


@pytest.mark.parametrize("density", ["uniform", "independent", "laplace", "auto", "empirical"])
def test_another_density_of_terms_on_their_own_axes_is_decomposing_anew(own_axes, density):
    effects, rows, found = own_axes
    again, anew = found.with_density(density), decompose(effects, rows, density=density, n_jobs=1)
    assert again == anew
    assert again.importance().equals(anew.importance())
    np.testing.assert_allclose(again.decision_function(rows), effects.score(rows)[:, 0], atol=1e-12)
    assert max(map(largest_slice_mean, again.terms.values())) < 1e-10


def test_axes_are_part_of_equality(own_axes):
    effects, rows, found = own_axes
    full = decompose(on_full_bins(effects), rows, density="independent", n_jobs=1)
    coarse = found.with_density("independent")
    assert full != coarse
    for names in full.terms:
        np.testing.assert_allclose(full.term_values(rows, names), coarse.term_values(rows, names), atol=1e-12)


def test_progress_of_other_densities_and_of_means(fx):
    told = Recorded()
    other = fx.with_density("uniform", progress=told)
    orders = ["purifying order 2", "purifying order 1"]
    assert told.stages == [*orders, "tables at rows"]
    assert other == fx.with_density("uniform")
    told = Recorded()
    treeanova.mean([fx, other], progress=told)
    assert told.stages == ["sum of the models", *orders, "tables at rows"]


@pytest.mark.parametrize("order", [4, [1, 4], 0, "1", True, 1.0])
def test_orders_that_no_term_can_have_are_refused(fx, order):
    with pytest.raises(
        ValueError, match=r"`order` must be (a whole number from 1 on|at most 3, the number of features), got"
    ):
        fx.select(order=order)


@pytest.mark.parametrize("order", [-1, 1.5, "1", True])
def test_a_highest_order_must_be_a_whole_number(fx, order):
    with pytest.raises(ValueError, match="`max_order` must be a whole number from 0 on, got"):
        fx.truncate(order)


def test_a_term_is_written_once(fx, tmp_path):
    with pytest.raises(ValueError, match=r"`terms` must be different terms, got .*; name each term once"):
        fx.explain_to(tmp_path / "out.parquet", np.zeros((2, 3)), terms=["x2", ("x2",)])
