"""Bags: members read at the cells of the whole, errors against closed forms, bands, bad input."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import treeanova
from tests.support.forests import stumps
from tests.support.simulated import boosted, deep_model, dependent_rows, high_order_rows, interacting
from tests.support.training import fit
from treeanova.data.features import Feature, Labels
from treeanova.decomposition.bags import check_own_errors, errors_by_term
from treeanova.report.payload import checked_errors

trees = pytest.importorskip("sklearn.tree")
ensemble = pytest.importorskip("sklearn.ensemble")


@pytest.fixture(scope="module")
def bag():
    rows = dependent_rows()
    return treeanova.bag(boosted, rows, interacting(rows), 4, density="empirical", n_jobs=1)


def test_errors_of_group_means_are_those_of_the_formula():
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], [400, 100])
    y = group + rng.normal(size=500)
    found = treeanova.bag(trees.DecisionTreeRegressor().fit, group[:, None], y, 150, density="empirical", n_jobs=1)
    # The effect of group 0 is p1 (m0 - m1), with the share p1 and the means of both groups.
    variance = 1 / 400 + 1 / 100
    shares = np.array([0.2, 0.8])
    of_share = 0.2 * 0.8 / 500 * (y[100:400].mean() - y[400:].mean()) ** 2
    expected = np.sqrt(shares**2 * variance + of_share)
    assert found.standard_errors()["x0",] == pytest.approx(expected, rel=0.2)


def test_members_are_read_at_the_rows_of_each_bin(bag):
    rows = dependent_rows()
    main = bag.fx.terms["x0"]
    bins = main.axes[0].index(rows[:, 0])
    held = np.unique(bins)
    means = np.array([rows[bins == b, 0].mean() for b in held])
    for member, values in zip(bag.members, bag.values("x0"), strict=True):
        assert values[held] == pytest.approx(member.terms["x0"](means[:, None]))
    pair = bag.fx.terms["x0", "x1"]
    others = pair.axes[1].index(rows[:, 1])
    centre = [rows[others == b, 1].mean() for b in np.unique(others)]
    member = bag.members[2]
    expected = [[member.terms["x0", "x1"](np.array([[a, b]]))[0] for b in centre] for a in means]
    assert bag.values(("x0", "x1"))[2][np.ix_(held, np.unique(others))] == pytest.approx(np.array(expected))


def test_the_whole_and_its_members_are_decompositions_of_their_models(bag):
    rows = dependent_rows()
    rng = np.random.default_rng(0)
    assert bag.fx.decision_function(rows) == pytest.approx(boosted(rows, interacting(rows)).predict(rows))
    for member in bag.members:
        places = rng.integers(0, len(rows), len(rows))
        again = boosted(rows[places], interacting(rows)[places])
        assert member.decision_function(rows) == pytest.approx(again.predict(rows))
    mean = np.mean([member.decision_function(rows) for member in bag.members], axis=0)
    assert bag.mean.decision_function(rows) == pytest.approx(mean)
    assert bag.mean.intercept == pytest.approx(mean.mean())


def test_standard_errors_are_deviations_over_members(bag):
    errors = bag.standard_errors()
    for names, found in errors.items():
        assert found.shape == bag.fx.terms[names].values.shape
        assert found == pytest.approx(np.std(bag.values(names), axis=0, ddof=1))
    assert errors_by_term(bag).keys() == errors.keys()
    assert errors_by_term(errors) is errors


def test_bands_are_normal_quantiles(bag):
    band = bag.band("x0", 0.9)
    errors = bag.standard_errors()["x0",]
    low, value, high = (np.asarray(band[name]) for name in ("low", "value", "high"))
    assert high - value == pytest.approx(1.6448536 * errors)
    assert value - low == pytest.approx(1.6448536 * errors)
    with pytest.raises(ValueError, match="`level` must be between 0 and 1, got 95"):
        bag.band("x0", 95)


def test_a_member_without_the_term_counts_as_zero():
    rows = dependent_rows()
    models = [boosted(rows, rows[:, 0]), boosted(rows, rows[:, 0] + rows[:, 2])]
    found = treeanova.bag(models, rows, density="empirical")
    assert (found.values("x2")[0] == 0).all()
    assert (found.values("x2")[1] != 0).any()
    mean = np.mean([model.predict(rows) for model in models], axis=0)
    assert found.fx.decision_function(rows) == pytest.approx(mean)


def test_fits_that_return_the_same_object_are_told_apart():
    rows = dependent_rows()
    model = ensemble.GradientBoostingRegressor(n_estimators=3, max_depth=2, random_state=0)
    found = treeanova.bag(model.fit, rows, interacting(rows), 3, density="empirical")
    assert found.fx.decision_function(rows) == pytest.approx(model.predict(rows))
    assert all(member.model is None for member in found.members)
    assert len({round(float(member.intercept), 12) for member in found.members}) == 3


def test_several_outputs_have_bands_each():
    rows = dependent_rows()
    y = np.digitize(interacting(rows), [-0.5, 0.5])
    model = ensemble.GradientBoostingClassifier(n_estimators=2, max_depth=1, random_state=0)
    found = treeanova.bag(functools.partial(fit, model), rows, y, 2, density="empirical")
    for names, term in found.fx.terms.items():
        assert found.standard_errors()[names].shape == term.values.shape
        assert {"error_0", "low_1", "high_2"} <= set(found.band(names))


def test_deep_models_have_bands_of_their_tables():
    pytest.importorskip("xgboost")
    x, y = high_order_rows(400, 5)
    make = deep_model()[0].__class__
    model = make(n_estimators=5, max_depth=4, n_jobs=1)
    found = treeanova.bag(functools.partial(fit, model), x, y, 2, density="independent")
    assert max(term.order for term in found.fx.terms.values()) > 2
    errors = found.standard_errors()
    assert (errors["x0", "x1"] >= 0).all()
    row_terms = [names for names, term in found.fx.terms.items() if not term.has_table]
    for names in row_terms[:1]:
        with pytest.raises(ValueError, match="`key` must be a term with a table"):
            found.values(names)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_of_any_library_are_resampled(library):
    module = pytest.importorskip(library)
    pandas = pytest.importorskip("pandas")
    rows = dependent_rows()
    table = pandas.DataFrame(rows, columns=list("abc"))
    if library == "polars":
        table = module.from_pandas(table)
    elif library == "pyarrow":
        table = module.Table.from_pandas(table)

    def fit(x, y):
        return boosted(np.column_stack([np.asarray(x[name]) for name in "abc"]), y)

    plain = treeanova.bag(boosted, rows, interacting(rows), 2, density="empirical")
    found = treeanova.bag(fit, table, interacting(rows), 2, density="empirical", feature_names=["a", "b", "c"])
    assert found.standard_errors()["a",] == pytest.approx(plain.standard_errors()["x0",])


def test_sparse_rows_are_resampled():
    scipy_sparse = pytest.importorskip("scipy.sparse")
    rows = np.round(dependent_rows())
    train = functools.partial(fit, ensemble.RandomForestRegressor(2, max_depth=2, random_state=0, n_jobs=1))
    found = treeanova.bag(train, scipy_sparse.csr_array(rows), interacting(rows), 2, density="empirical")
    plain = treeanova.bag(train, rows, interacting(rows), 2, density="empirical")
    assert found.standard_errors()["x0",] == pytest.approx(plain.standard_errors()["x0",])


def test_bad_input_is_refused(bag):
    rows = dependent_rows()
    y = interacting(rows)
    with pytest.raises(ValueError, match="`y` must have one entry per row of `X`, 300, got 299"):
        treeanova.bag(boosted, rows, y[1:])
    with pytest.raises(ValueError, match="`y` must have one entry per row of `X`, 300, got None"):
        treeanova.bag(boosted, rows)
    with pytest.raises(ValueError, match="`n` must be a whole number from 2 on, got 1"):
        treeanova.bag(boosted, rows, y, 1)
    with pytest.raises(ValueError, match="a list of at least two models, got 1"):
        treeanova.bag([boosted(rows, y)], rows)
    other = treeanova.decompose(boosted(rows[:, :2], y), rows[:, :2], density="empirical")
    with pytest.raises(ValueError, match=r"same features, outputs and link, got features \['x0', 'x1', 'x2'\]"):
        treeanova.Bag(bag.fx, (bag.fx, other))
    with pytest.raises(ValueError, match="at least 2 members, got 1"):
        treeanova.Bag(bag.fx, (bag.fx,))


@pytest.mark.parametrize("labels", [("yes", "no"), ("no", "yes", "perhaps")])
def test_a_class_that_resamples_lack_is_named(labels):
    y = np.array([labels[0]] + [labels[1 + i % (len(labels) - 1)] for i in range(39)])
    x = np.random.default_rng(0).normal(size=(40, 2))
    sentence = f"a resample without '{labels[0]}', which 1 of 40 rows have; join the class"
    with pytest.raises(ValueError, match=sentence):
        treeanova.bag(trees.DecisionTreeClassifier(max_depth=1).fit, x, y, 40)


def test_numbers_that_resamples_lack_are_no_classes():
    x = np.random.default_rng(0).normal(size=(40, 2))
    assert len(treeanova.bag(trees.DecisionTreeRegressor(max_depth=1).fit, x, np.arange(40), 3).members) == 3


def test_members_may_number_categories_differently():
    """Values are those of the same letters; a letter that a member does not know is unseen to it."""
    rows = np.array([["p"], ["q"], ["q"], ["r"]], dtype=object)
    first, *others = (stumps([Feature("k", Labels(tuple(k)))], [(0, {0, 1}, True)]) for k in ("pqr", "rqp", "rq"))
    fx, *members = (treeanova.decompose(model, rows, density="empirical", n_jobs=1) for model in (first, *others))
    found = treeanova.Bag(fx, tuple(members)).values("k")
    for label, column in zip("pqr", found.T, strict=False):
        row = np.array([[label]], dtype=object)
        assert column.tolist() == pytest.approx([float(member.term_values(row, "k")[0]) for member in members])
    refusing = stumps([Feature("k", Labels(("r", "q")), accepts_unseen=False)], [(0, {0}, True)])
    refuser = treeanova.decompose(refusing, rows[1:], density="empirical", n_jobs=1)
    with pytest.raises(ValueError, match="must accept all values of 'k' that the first does"):
        treeanova.Bag(fx, (refuser, refuser)).values("k")


def test_members_have_weights_in_place_of_copies():
    rows = dependent_rows()
    weights = np.random.default_rng(1).exponential(size=len(rows))
    seen = []

    def fit(x, y):
        seen.append(x)
        return boosted(x, y)

    found = treeanova.bag(fit, rows, interacting(rows), 2, density="empirical", sample_weight=weights, n_jobs=1)
    order = {tuple(row): place for place, row in enumerate(rows)}
    for member, drawn in zip(found.members, seen, strict=False):
        times = np.bincount([order[tuple(row)] for row in drawn], minlength=len(rows))
        assert times.sum() == len(rows)
        expected = treeanova.decompose(
            boosted(drawn, interacting(drawn)), rows, density="empirical", sample_weight=times * weights, n_jobs=1
        )
        for names, term in expected.terms.items():
            np.testing.assert_allclose(member.terms[names].values, term.values, rtol=1e-9, atol=1e-12)
        assert member.statistics.effective_rows == pytest.approx(expected.statistics.effective_rows)


def test_an_estimator_is_not_its_fit():
    with pytest.raises(TypeError, match=r"`fit` must be a function .* got DecisionTreeRegressor; pass its fit"):
        treeanova.bag(trees.DecisionTreeRegressor(), np.eye(3), np.arange(3.0))


def test_errors_belong_to_the_terms_of_the_bag(bag):
    for fx in (bag.fx, bag.fx.select(order=1)):
        check_own_errors(bag, fx.terms["x0",])
    for fx in (bag.fx.scale("x0", 10.0), bag.fx.with_density("uniform")):
        with pytest.raises(ValueError, match="`errors` must be those of the term 'x0' that is shown"):
            check_own_errors(bag, fx.terms["x0",])
        check_own_errors(bag.standard_errors(), fx.terms["x0",])  # arrays do not tell what they belong to


def test_pictures_and_pages_refuse_errors_of_another_term(bag):
    pytest.importorskip("matplotlib")
    edited = bag.fx.scale("x0", 10.0)
    for draw in (
        lambda: treeanova.plot.effect(edited, "x0", errors=bag),
        lambda: treeanova.plot.pair(bag.fx.with_density("uniform"), ("x0", "x1"), errors=bag),
        lambda: checked_errors(edited, bag),
    ):
        with pytest.raises(ValueError, match="`errors` must be those of the term 'x0"):
            draw()
    assert treeanova.plot.effect(edited, "x1", errors=bag)
