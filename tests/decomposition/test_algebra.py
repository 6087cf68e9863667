"""Sums, differences and means of models, against sums of predictions."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
import scipy.sparse

import treeanova
from tests.support.decompositions import (
    assert_terms,
    cell_scores,
    cell_shares,
    largest_slice_mean,
    names_at_rows,
    sum_of,
)
from tests.support.effects import grid_of_sizes, on_full_bins, pair_on_few_bins, rows_of_effects
from tests.support.forests import chains, stumps
from tests.support.oracles import brute_force
from tests.support.simulated import boosted, boosted_in_pairs, dependent_rows, interacting
from tests.support.training import fit
from treeanova import mean
from treeanova.data.features import Feature, Labels
from treeanova.density import costs
from treeanova.model.effects import Effects
from treeanova.model.forest import weighted_sum
from treeanova.model.rows import Rows
from treeanova.terms.source import AdditiveModel
from treeanova.terms.tree_model import TreeModel

ensemble = pytest.importorskip("sklearn.ensemble")
tree = pytest.importorskip("sklearn.tree")

NAMES = ("x0", "x1", "x2")
DATA, HELD_OUT = dependent_rows(), dependent_rows(200, seed=1)
decompose = functools.partial(treeanova.decompose, density="empirical")


def test_the_mean_of_two_models_is_the_mean_of_their_predictions(model, other_model, fx):
    both = mean([fx, decompose(other_model, HELD_OUT, n_jobs=1)])
    expected = (model.predict(HELD_OUT) + other_model.predict(HELD_OUT)) / 2
    np.testing.assert_allclose(both.decision_function(HELD_OUT), expected, atol=1e-12)
    assert max(largest_slice_mean(term) for term in both.terms.values()) < 1e-10
    for j, axis in enumerate(both.grid.axes):
        separate = [own.grid.axes[j].bounds for own in (fx, decompose(other_model, HELD_OUT, n_jobs=1))]
        np.testing.assert_array_equal(axis.bounds, np.unique(np.concatenate(separate)))


def test_sums_and_differences_are_of_predictions(model, other_model, fx):
    other = decompose(other_model, DATA, n_jobs=1)
    mine, its = model.predict(HELD_OUT), other_model.predict(HELD_OUT)
    np.testing.assert_allclose((fx + other).decision_function(HELD_OUT), mine + its, atol=1e-12)
    np.testing.assert_allclose((fx - other).decision_function(HELD_OUT), mine - its, atol=1e-12)
    nothing = fx - fx
    assert nothing.intercept == pytest.approx(0, abs=1e-14)
    assert all(np.abs(term.values).max() < 1e-14 for term in nothing.terms.values())
    assert mean([fx]) == fx


def test_terms_of_a_mean_are_those_of_the_mean_tensor():
    first = boosted(DATA, interacting(DATA), n_trees=3)
    second = boosted(DATA, np.sin(interacting(DATA)), n_trees=3)
    both = mean([decompose(own, DATA, density="laplace", n_jobs=1) for own in (first, second)])
    joint = cell_shares(DATA, both.grid)
    scores = cell_scores(lambda rows: (first.predict(rows) + second.predict(rows)) / 2, both.grid)
    assert_terms(both, brute_force(scores, joint / 2 + 0.5 / joint.size), NAMES)


def test_terms_of_a_mean_are_means_of_terms_on_one_grid():
    """On the same bins and rows, purification is linear."""
    data = np.random.default_rng(0).integers(0, 3, (200, 3)).astype(float)
    data[:, 1] = np.where(np.arange(200) % 3 > 0, data[:, 0], data[:, 1])
    models = [boosted_in_pairs(data, np.random.default_rng(seed).normal(size=200), n_trees=60) for seed in (1, 2)]
    parts = [decompose(own, data, n_jobs=1) for own in models]
    assert all(part.grid.sizes == (3, 3, 3) for part in parts)
    both = mean(parts)
    for names in both.terms:
        expected = (parts[0].term_values(data, names) + parts[1].term_values(data, names)) / 2
        np.testing.assert_allclose(both.term_values(data, names), expected, atol=1e-10)


def test_terms_of_a_mean_are_means_of_terms_under_a_product(model, other_model):
    """Under the product of the same marginals, finer bins change no term."""
    parts = [decompose(own, DATA, density="independent", n_jobs=1) for own in (model, other_model)]
    both = mean(parts)
    assert both.grid.sizes != parts[0].grid.sizes
    for names in both.terms:
        expected = sum(part.term_values(DATA, names) for part in parts if names in part.terms) / 2
        np.testing.assert_allclose(both.term_values(DATA, names), expected, atol=1e-12)


def test_means_with_missing_values_and_categories(mixed):
    model, table, found = mixed
    second = fit(
        ensemble.HistGradientBoostingRegressor(
            max_iter=4, max_depth=2, categorical_features="from_dtype", min_samples_leaf=5, random_state=0
        ),
        table,
        np.where(table.kind == "w", table.age.fillna(-2), 1.0),
    )
    both = mean([found, decompose(second, table, n_jobs=1)])
    expected = (model.predict(table) + second.predict(table)) / 2
    np.testing.assert_allclose(both.decision_function(table), expected, atol=1e-12)


def test_means_of_several_outputs(classifier, several):
    classes = np.array(list("uvw"))[np.digitize(HELD_OUT[:, 1], [-0.3, 0.3])]
    second = fit(ensemble.GradientBoostingClassifier(n_estimators=2, max_depth=2, random_state=0), HELD_OUT, classes)
    both = mean([several, decompose(second, HELD_OUT, n_jobs=1)])
    expected = (classifier.decision_function(DATA) + second.decision_function(DATA)) / 2
    np.testing.assert_allclose(both.decision_function(DATA), expected, atol=1e-12)


def test_nothing_has_no_mean():
    with pytest.raises(
        ValueError, match=r"`decompositions` must be a list of at least one decomposition, got \[\]; pass"
    ):
        mean([])


def test_what_is_not_a_decomposition_is_not_added(fx):
    with pytest.raises(TypeError, match="unsupported operand"):
        fx - 1
    with pytest.raises(TypeError, match="unsupported operand"):
        fx + 1
    with pytest.raises(ValueError, match="must be a list of at least one decomposition, got Decomposition of 6 terms"):
        mean(fx)


def test_decompositions_of_other_outputs_or_links_are_not_added(fx, several):
    binary = fit(
        ensemble.GradientBoostingClassifier(n_estimators=2, max_depth=2, random_state=0), DATA, interacting(DATA) > 0
    )
    for other in (several, decompose(binary, DATA, n_jobs=1)):
        with pytest.raises(ValueError, match="must have the same outputs and link, got score"):
            _ = fx + other


def test_models_that_read_missing_values_in_other_ways_are_not_added():
    xgboost = pytest.importorskip("xgboost")
    models = [
        fit(xgboost.XGBRegressor(n_estimators=3, max_depth=2, n_jobs=1, missing=missing), DATA, interacting(DATA))
        for missing in (-999, np.nan)
    ]
    first, second = (decompose(own, DATA, n_jobs=1) for own in models)
    with pytest.raises(ValueError, match=r"'x0' must have the same missing value and labels .*-999.0.* and .*nan"):
        _ = first + second


def test_a_sum_with_a_model_that_refuses_missing_values_refuses_them(model, fx):
    accepts = fit(
        ensemble.HistGradientBoostingRegressor(max_iter=2, max_depth=2, random_state=0), DATA, interacting(DATA)
    )
    with pytest.raises(ValueError, match="must have no missing values"):
        (decompose(accepts, DATA, n_jobs=1) + fx).decision_function(np.full((1, 3), np.nan))


@pytest.mark.parametrize("max_rows", [2**18, 3])
def test_categories_keep_their_rows_where_models_number_them_differently(max_rows, monkeypatch):
    """The first model knows fewer letters: its rows are counted by letters, not by its numbers of them."""
    monkeypatch.setattr(costs, "MAX_SAMPLE_ROWS", max_rows)
    narrow, wide = (stumps([Feature("k", Labels(tuple(letters)))], [(0, {0}, True)]) for letters in ("pq", "rqp"))
    rows = np.array([["p"]] * 6 + [["q"]] * 2 + [[None]], dtype=object)
    first, second = (decompose(own, rows, n_jobs=1) for own in (narrow, wide))
    for both, sign in ((first - second, -1), (first + second, 1)):
        scores = first.decision_function(rows) + sign * second.decision_function(rows)
        assert both.intercept == pytest.approx(scores.mean(), abs=1e-12)
    unseen = decompose(narrow, np.array([["p"], ["r"]], dtype=object), n_jobs=1)
    with pytest.raises(
        ValueError, match="must have categories of 'k' that the model knows, got some that only another"
    ):
        _ = unseen + second


# Deep ensembles


@pytest.fixture(scope="module")
def folds():
    """Two deep models and a shallow one of the same columns."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(3)
    x = rng.normal(size=(600, 4))
    y = x[:, 0] * x[:, 1] + x[:, 2] ** 2 + x.prod(axis=1)
    depths = ((slice(0, 400), 5), (slice(200, 600), 5), (slice(0, 600), 1))
    models = [
        fit(ensemble.GradientBoostingRegressor(n_estimators=15, max_depth=depth, random_state=0), x[rows], y[rows])
        for rows, depth in depths
    ]
    return models, x


@pytest.mark.parametrize("which", [(0, 1), (0, 2), (2, 0)])
def test_sums_differences_and_means_of_deep_ensembles(folds, which):
    models, x = folds
    first, second = (treeanova.decompose(models[i], x, density="independent", tensor_order=2) for i in which)
    one, other = (models[i].predict(x) for i in which)
    rows = x[:50]
    for combined, score, factors in (
        (first + second, one + other, (1, 1)),
        (first - second, one - other, (1, -1)),
        (treeanova.mean([first, second]), (one + other) / 2, (0.5, 0.5)),
    ):
        np.testing.assert_allclose(combined.decision_function(x), score, atol=1e-12)
        np.testing.assert_allclose(sum_of(combined.explain(rows)), combined.decision_function(rows), atol=1e-12)
        # Under independent features with the same rows, terms are the weighted sums of terms.
        for names in [("x0",), ("x0", "x1"), ("x0", "x1", "x2", "x3")]:
            both = [(f, part) for f, part in zip(factors, (first, second), strict=True) if names in part.terms]
            expected = sum(f * part.term_values(rows, names) for f, part in both)
            np.testing.assert_allclose(combined.term_values(rows, names), expected, atol=1e-12)


def test_a_deep_ensemble_combined_with_what_holds_no_trees_is_refused(folds, tmp_path):
    models, x = folds
    deep, shallow = (treeanova.decompose(models[i], x, density="empirical", tensor_order=2) for i in (0, 2))
    assert names_at_rows(deep)
    assert not names_at_rows(shallow)
    shallow.save(tmp_path / "shallow.tav")
    with pytest.raises(
        ValueError,
        match=r"must all hold their trees to be combined .*, got a decomposition from a file",
    ):
        _ = deep + treeanova.load(tmp_path / "shallow.tav")
    with pytest.raises(ValueError, match="must have all terms to be combined, got a selection"):
        _ = deep.select(order=1) + deep
    tree = pytest.importorskip("sklearn.tree")
    wide = np.hstack([x, np.random.default_rng(1).normal(size=(len(x), 1))])
    wider = treeanova.decompose(fit(tree.DecisionTreeRegressor(max_depth=3), wide, x[:, 0]), wide, tensor_order=2)
    with pytest.raises(ValueError, match="must have the same features in the same order"):
        _ = deep + wider


# Terms on axes of their own


def test_sums_of_models_on_different_axes():
    """The pair on 3 × 2 bins, on all bins, and on thresholds between those of the first."""
    first = pair_on_few_bins()
    full = on_full_bins(pair_on_few_bins(seed=1))
    shifted = pair_on_few_bins(seed=2)
    other = Effects(grid_of_sizes([6, 5], start=0.5), shifted.intercept, shifted.terms, shifted.binnings)
    rows = rows_of_effects(first)
    for second in (full, other):
        parts = [decompose(effects, rows, density="independent", n_jobs=1) for effects in (first, second)]
        for combined, sign in ((parts[0] + parts[1], 1), (parts[0] - parts[1], -1)):
            expected = first.score(rows)[:, 0] + sign * second.score(rows)[:, 0]
            np.testing.assert_allclose(combined.decision_function(rows), expected, atol=1e-12)
            assert max(map(largest_slice_mean, combined.terms.values())) < 1e-10
            for names in combined.terms:  # features are independent, so that terms add up, however fine the bins are
                expected = parts[0].term_values(rows, names) + sign * parts[1].term_values(rows, names)
                np.testing.assert_allclose(combined.term_values(rows, names), expected, atol=1e-12)


def test_a_sum_has_the_coarsest_axes_that_serve_both():
    first, second = pair_on_few_bins(), pair_on_few_bins(seed=1)
    rows = rows_of_effects(first)
    one, two = (decompose(effects, rows, n_jobs=1) for effects in (first, second))
    both = one + two
    assert both.terms["x0", "x1"].values.shape == (3, 2)
    for names in both.terms:  # the same axes and rows: purification is linear
        expected = one.terms[names].values + two.terms[names].values
        np.testing.assert_allclose(both.terms[names].values, expected, atol=1e-10)
    nothing = one - one
    assert max(np.abs(term.values).max() for term in nothing.terms.values()) < 1e-12


def test_models_of_libraries_that_read_categories_by_labels_and_by_codes_are_combined():
    pd, lgb, xgb = (pytest.importorskip(name) for name in ("pandas", "lightgbm", "xgboost"))
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"c": pd.Categorical(rng.choice(["p", "q", "r"], 300)), "a": rng.normal(size=300)})
    X.loc[:20, "c"] = np.nan
    y = X["a"] * (X["c"] == "p") + (X["c"] == "q")
    one = fit(xgb.XGBRegressor(n_estimators=5, max_depth=2, enable_categorical=True), X, y)
    other = fit(lgb.LGBMRegressor(n_estimators=5, num_leaves=4, verbose=-1), X, y)
    first, second = (treeanova.decompose(model, X, density="empirical") for model in (one, other))
    expected = one.predict(X, output_margin=True) - other.predict(X)
    np.testing.assert_allclose((first - second).decision_function(X), expected, atol=1e-5)
    mean = treeanova.mean([first, second]).decision_function(X)
    np.testing.assert_allclose(mean, other.predict(X) + expected / 2, atol=1e-5)
    assert treeanova.compare({"one": first, "other": second}).names == ("one", "other")


def test_deep_models_of_different_libraries_are_combined():
    """Libraries differ in how they match names and read sparse matrices; the sum accepts what all of them accept."""
    splits = [(0, 0.1), (1, 0.2), (2, 0.3)]
    one, other = chains(splits), chains([(2, -0.1), (0, 0.4), (1, 0.0)])
    other = other.with_schema(dataclasses.replace(other.schema, underscores=True, absent=np.nan))
    data = np.random.default_rng(0).normal(size=(200, 3))
    first, second = (treeanova.decompose(forest, data, density="empirical", tensor_order=2) for forest in (one, other))
    assert not isinstance(first._function.source, AdditiveModel)
    difference = first - second
    expected = one.score(Rows(data)) - other.score(Rows(data))
    np.testing.assert_allclose(difference.decision_function(data), expected[:, 0], atol=1e-12)
    assert difference.schema.absent is None
    with pytest.raises(ValueError, match="read absent entries in different ways"):
        difference.decision_function(scipy.sparse.csr_array(data))


@pytest.mark.parametrize(
    "question",
    [
        lambda one, other: one - other,
        lambda one, other: treeanova.mean([one, other]),
        lambda one, other: treeanova.compare({"one": one, "other": other}),
        treeanova.change,
        lambda one, other: treeanova.Bag(one, (one, other)),
        lambda one, other: treeanova.plot.compare([one, other], "x0"),
    ],
    ids=["minus", "mean", "compare", "change", "Bag", "plot.compare"],
)
@pytest.mark.parametrize("order", [1, 3])
def test_models_of_other_classes_are_not_combined(order, question):
    splits = [(j, 0.1) for j in range(order)]
    labels = [("no", "yes"), ("yes", "no")]
    forests = [chains(splits), chains(splits)]
    forests = [f.with_schema(dataclasses.replace(f.schema, classes=c)) for f, c in zip(forests, labels, strict=True)]
    data = np.random.default_rng(0).normal(size=(200, 3))
    first, second = (treeanova.decompose(forest, data, density="empirical", tensor_order=2) for forest in forests)
    with pytest.raises(ValueError, match=r"same classes in the same order.*\['no', 'yes'\] and \['yes', 'no'\]"):
        question(first, second)


def test_equal_deep_models_cancel_out_exactly():
    forest = chains([(0, 0.1), (1, 0.2), (2, 0.3)], [(2, 0.4), (1, -0.2), (0, 0.3)])
    data = np.random.default_rng(0).normal(size=(200, 3))
    fx, again = (treeanova.decompose(forest, data, density="empirical", tensor_order=2) for _ in range(2))
    assert not isinstance(fx._function.source, AdditiveModel)
    nothing = fx - again
    assert not nothing.decision_function(data).any()
    assert not nothing.explain(data).values.any()
    assert not np.asarray(nothing.importance()[["variance", "share", "mean_abs"]]).any()
    assert nothing.certificate.reconstruction_error == 0
    np.testing.assert_allclose(mean([fx, again]).decision_function(data), fx.decision_function(data), rtol=1e-15)


@pytest.mark.parametrize("tensor_order", [2, 3])
def test_models_that_rounding_alone_distinguishes_have_no_shares(tensor_order):
    """Every leaf value is the next number of the other model's; a difference of one in 10^9 is no rounding."""
    forest = chains([(0, 0.1), (1, 0.2), (2, 0.3)], [(2, 0.4), (1, -0.2), (0, 0.3)])
    data = np.random.default_rng(0).normal(size=(200, 3))
    options = {"density": "empirical", "tensor_order": tensor_order}
    fx = treeanova.decompose(forest, data, **options)
    next_to = dataclasses.replace(forest, values=np.nextafter(forest.values, np.inf))
    nothing = fx - treeanova.decompose(next_to, data, **options)
    assert isinstance(fx._function.source, AdditiveModel) == (tensor_order == 3)
    assert np.abs(nothing.decision_function(data)).max() < 1e-14
    assert not np.asarray(nothing.importance()[["variance", "share", "mean_abs"]]).any()
    assert nothing.certificate.reconstruction_error < 1e-14
    nearby = dataclasses.replace(forest, values=forest.values * (1 + 1e-9))
    small = treeanova.decompose(nearby, data, **options) - fx
    np.testing.assert_allclose(small.importance()["share"], fx.importance()["share"], rtol=1e-4, atol=1e-6)


def test_trees_that_cancel_out_up_to_rounding_have_no_shares():
    forest = chains([(0, 0.1), (1, 0.2), (2, 0.3)], [(2, 0.4), (1, -0.2), (0, 0.3)])
    data = np.random.default_rng(0).normal(size=(200, 3))
    next_to = dataclasses.replace(forest, values=np.nextafter(forest.values, np.inf))
    nothing = treeanova.decompose(weighted_sum([forest, next_to], [1.0, -1.0]), data, tensor_order=2)
    assert isinstance(nothing._function.source, TreeModel)
    assert nothing.explain(data).values.any()
    assert not np.asarray(nothing.importance()[["variance", "share", "mean_abs"]]).any()
    assert nothing.certificate.reconstruction_error < 1e-14
