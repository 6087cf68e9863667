"""Certificates: purity, correlation and sums, measured again by hand."""

from __future__ import annotations

import dataclasses
import itertools
import warnings

import numpy as np
import pytest

import treeanova
from tests.support.forests import chains, stumps
from tests.support.training import fit
from treeanova.data.features import Feature, Numeric
from treeanova.decomposition.function import Function

NAMES = ("x0", "x1", "x2")
PAIRS = list(itertools.combinations(NAMES, 2))


def test_the_certificate_has_all_terms_by_name(fx):
    assert set(fx.certificate.terms) == set(fx.terms)
    assert fx.certificate.is_pure
    assert fx.certificate.impurity <= 1e-10
    assert fx.certificate.reconstruction_error <= 1e-12
    printed = str(fx.certificate)
    assert "orders 1 and 2 pure to" in printed
    assert all(" × ".join(names) in printed for names in fx.terms)
    for names, term in fx.terms.items():
        assert fx.certificate.terms[names].empty_share == pytest.approx((term.weights == 0).mean())


def test_the_maximal_correlation_is_the_second_singular_value(fx):
    for names in PAIRS:
        weights = fx.terms[names].weights
        rows, cols = weights.sum(axis=1), weights.sum(axis=0)
        kept = weights[np.ix_(rows > 0, cols > 0)] / np.sqrt(np.outer(rows[rows > 0], cols[cols > 0]))
        second = np.linalg.svd(kept, compute_uv=False)[1]
        assert fx.certificate.terms[names].max_correlation == pytest.approx(second, abs=1e-6)


def test_the_certificate_is_of_terms_and_remainder(triple, monkeypatch):
    model, rows = triple
    mains = treeanova.decompose(model, rows, density="empirical", max_order=1)
    assert "sum of terms and remainder within" in repr(mains)
    assert mains.certificate.reconstruction_error < 1e-12
    real = Function.score
    monkeypatch.setattr(Function, "score", lambda self, encoded: real(self, encoded) + 1.0)
    wrong = treeanova.decompose(model, rows, density="empirical", max_order=1)
    assert wrong.certificate.reconstruction_error > 0.1


@pytest.mark.parametrize("by_file", [False, True])
def test_the_certificate_says_what_adds_up_to_the_scores(by_file, tmp_path):
    rng = np.random.default_rng(0)
    forest, rows = chains([(0, 0.0), (1, 0.0), (2, 0.0)]), rng.normal(size=(200, 3))
    fx = treeanova.decompose(forest, rows)
    assert "Decomposition of 0 terms: a remainder" in repr(fx.truncate(0))
    with_remainder = "sum of terms and remainder within"
    forms = [
        (fx, "sum of terms within"),
        (fx.raw, "sum of terms within"),
        (fx.truncate(1), with_remainder),
        (treeanova.decompose(forest, rows, max_order=2), with_remainder),
        (treeanova.decompose(forest, density="uniform", max_order=2), with_remainder),
        (fx.truncate(1).with_density("uniform"), with_remainder),
        (fx.select(order=1), ""),
        (fx.drop("x0"), ""),
        (fx.scale("x0", 0.5), ""),
    ]
    for form, words in forms:
        if by_file:
            form.save(tmp_path / "model.tav")
        certified = treeanova.load(tmp_path / "model.tav") if by_file else form
        assert words in str(certified.certificate)
        assert bool(words) == ("; sum of " in str(certified.certificate)) == ("; sum of " in repr(certified))


@pytest.mark.parametrize("density", ["independent", "empirical"])
def test_orders_in_the_remainder_are_not_said_to_be_pure(density):
    rng = np.random.default_rng(0)
    forest = chains([(j, 0.0) for j in range(5)], [(j, 0.5) for j in range(5)], n_features=5)
    rows = rng.normal(size=(300, 5)) + rng.normal(size=(300, 1))
    fx = treeanova.decompose(forest, rows, density=density, tensor_order=2, terms="all")
    for form in (fx.truncate(3), treeanova.decompose(forest, rows, density=density, tensor_order=2, max_order=3)):
        at_rows = {len(key) for key, term in form.terms.items() if not term.has_table}
        assert at_rows == {3}
        assert form.has_remainder
        for words in (str(form.certificate), repr(form)):
            assert "order 3 pure" in words
            assert "orders 4 and 5 in the remainder" in words
            assert "orders 3 to 5 pure" not in words
        assert "order 3: 10 terms at rows; orders 4 and 5: in the remainder" in str(form.certificate)
    assert "orders 3 to 5 pure" in repr(fx)
    for part in (fx.select(order=1), fx.truncate(3).select(order=1), fx.drop(["x0", "x1", "x2"])):
        assert not part.has_remainder
        assert "in the remainder" not in str(part.certificate) + repr(part)
    assert "orders 1 to 5 in the remainder" in repr(fx.truncate(0))
    assert "orders 1 to 5: in the remainder" in str(fx.truncate(0).certificate)


def test_the_trees_of_a_deep_ensemble_as_they_are_do_not_pass_for_pure(triple):
    model, rows = triple
    deep = treeanova.decompose(model, rows, density="empirical", tensor_order=2)
    assert deep.certificate.tables_are_pure
    assert not deep.raw.certificate.is_pure
    values, weights = deep.raw.terms["a", "b"].values, deep.raw.terms["a", "b"].weights
    sums = [(values * weights).sum(axis) / weights.sum(axis) for axis in (0, 1)]  # every bin has rows
    expected = max(np.abs(means).max() for means in sums) / np.abs(values).max()
    assert deep.raw.certificate.terms["a", "b"].impurity == pytest.approx(expected, rel=1e-9)


def _largest_slice_mean(term):
    """Relative to the largest value of the term."""
    values, weights = term.values, term.weights
    means = []
    for axis in range(values.ndim):
        others = tuple(other for other in range(values.ndim) if other != axis)  # a slice has one bin of `axis`' others
        for line in np.ndindex(*(values.shape[other] for other in others)):
            at = list(line)
            at.insert(axis, slice(None))
            mass = weights[tuple(at)].sum()
            means.append(abs((values * weights)[tuple(at)].sum() / mass) if mass > 0 else 0.0)
    return max(means) / np.abs(values).max()


@pytest.mark.parametrize("way", ["max_order", "truncate", "loaded"])
def test_raw_terms_of_a_part_up_to_an_order_are_certified_all_and_leave_no_remainder(triple, way, tmp_path):
    model, rows = triple
    whole = treeanova.decompose(model, rows, density="empirical")
    cut = whole.truncate(1) if way == "truncate" else treeanova.decompose(model, rows, density="empirical", max_order=1)
    if way == "loaded":
        cut.save(tmp_path / "cut.tav")
        cut = treeanova.load(tmp_path / "cut.tav")
    raw = cut.raw
    assert not raw.has_remainder
    assert raw.certificate.remainder_share is None
    assert "the remainder has" not in str(raw)
    assert "; a remainder" not in repr(raw)
    assert set(raw.certificate.terms) == set(raw.terms)
    for names, term in raw.terms.items():
        assert raw.certificate.terms[names].impurity == pytest.approx(_largest_slice_mean(term), rel=1e-9, abs=1e-12)
        assert raw.certificate.terms[names].empty_share == pytest.approx((term.weights == 0).mean())
    assert not raw.certificate.is_pure
    assert raw.certificate.is_raw


def _parity(n_features):
    """All rows of zeros and ones, most of them twice, and a tree that has all features in every leaf."""
    tree = pytest.importorskip("sklearn.tree")
    rows = np.array(list(itertools.product([0.0, 1.0], repeat=n_features)))
    rows = np.concatenate([rows, rows[1:]])
    return fit(tree.DecisionTreeRegressor(random_state=0), rows, rows.sum(axis=1) % 2), rows


def test_raw_terms_without_those_of_the_kept_order_are_not_pure():
    """The tree is one table of two features, whose slices have means near one half."""
    model, rows = _parity(2)
    raw = treeanova.decompose(model, rows, density="empirical", max_order=1).raw
    assert list(raw.terms) == [("x0", "x1")]
    assert not raw.certificate.is_pure
    assert raw.certificate.terms["x0", "x1"].impurity == pytest.approx(_largest_slice_mean(raw.terms["x0", "x1"]))


def test_raw_terms_at_rows_are_not_pure(tmp_path):
    model, rows = _parity(3)
    raw = treeanova.decompose(model, rows, density="empirical", tensor_order=2).raw
    raw.save(tmp_path / "raw.tav")
    for one in (raw, treeanova.load(tmp_path / "raw.tav")):
        assert list(one.terms) == [("x0", "x1", "x2")]
        assert not one.certificate.terms
        assert not one.certificate.is_pure
        assert one.certificate.is_raw
        assert one.certificate.purity == "order 3 not purified"
        assert "accura" not in f"{one}{one.certificate}"
        assert one.truncate(2).certificate.is_raw


def test_a_saved_table_is_cut_without_the_share_of_its_remainder(triple, tmp_path):
    model, rows = triple
    fx = treeanova.decompose(model, rows, density=lambda _, axes: np.ones([axis.size for axis in axes]))
    fx.save(tmp_path / "fx.tav")
    cut = treeanova.load(tmp_path / "fx.tav").truncate(1)
    assert cut == fx.truncate(1)
    assert cut.certificate.remainder_share is None


def test_the_certificate_tells_the_share_of_the_remainder():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 3))
    ensemble = pytest.importorskip("sklearn.ensemble")
    model = ensemble.GradientBoostingRegressor(n_estimators=20, max_depth=2, random_state=0)
    fit(model, rows, rows[:, 0] * rows[:, 1])
    weights = np.where(rows[:, 0] * rows[:, 1] > 1, 0.02, 1.0)
    for sample_weight in (None, weights):
        shares = np.ones(len(rows)) if sample_weight is None else sample_weight
        whole = treeanova.decompose(model, rows, density="empirical", sample_weight=sample_weight)
        options = {"density": "empirical", "sample_weight": sample_weight, "max_order": 1}
        for mains in (treeanova.decompose(model, rows, **options), whole.truncate(1)):
            parts = np.column_stack([mains.remainder(rows), model.predict(rows)])
            of_remainder, of_score = np.cov(parts.T, aweights=shares).diagonal()
            assert mains.certificate.remainder_share == pytest.approx(of_remainder / of_score, rel=1e-9)


@pytest.mark.parametrize("density", ["uniform", "auto", "independent"])
def test_the_share_of_the_remainder_is_that_of_importance(density):
    """But for the rows that each draws from the density."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 3))
    ensemble = pytest.importorskip("sklearn.ensemble")
    model = ensemble.GradientBoostingRegressor(n_estimators=20, max_depth=2, random_state=0)
    fit(model, rows, rows[:, 0] * rows[:, 1])
    mains = treeanova.decompose(model, rows, density=density).truncate(1)
    listed = mains.importance().set_index("term").variance
    assert mains.certificate.remainder_share == pytest.approx(listed["remainder"], rel=0.15)


# Features that determine each other

THRESHOLDS = (0.5, 1.5, 2.5)


def stumps_on(splits, n_features=3):
    """Trees of one split each: (feature, bound, step of the score)."""
    forest = stumps([Feature(f"x{j}", Numeric()) for j in range(n_features)], [(j, b, True) for j, b, _ in splits])
    values = np.concatenate([[0.0, step] for *_, step in splits])[:, None]
    return dataclasses.replace(forest, values=values)


@pytest.fixture
def copied_rows():
    """Four levels; x1 is x0 recoded downwards, x2 is free."""
    rng = np.random.default_rng(0)
    first, free = rng.integers(0, 4, size=(2, 300))
    return np.column_stack([first, 3 - first, free]).astype(float)


@pytest.mark.filterwarnings("ignore::treeanova.errors.AliasWarning")
def test_models_that_agree_on_all_rows_have_the_same_sum_of_aliased_terms_and_other_splits(copied_rows):
    """The first model steps along x0, the second down along x1; each step of the other has height zero."""
    by_first = [*((0, bound, 1.0 + bound) for bound in THRESHOLDS), *((1, bound, 0.0) for bound in THRESHOLDS)]
    by_second = [*((0, bound, 0.0) for bound in THRESHOLDS), *((1, bound, bound - 4.0) for bound in THRESHOLDS)]
    others = [(2, bound, bound) for bound in THRESHOLDS]
    first, second = (
        treeanova.decompose(stumps_on([*own, *others]), copied_rows, density="empirical")
        for own in (by_first, by_second)
    )
    np.testing.assert_allclose(
        np.ptp(first.decision_function(copied_rows) - second.decision_function(copied_rows)), 0, atol=1e-12
    )
    sums = [sum(fx.term_values(copied_rows, name) for name in ("x0", "x1")) for fx in (first, second)]
    np.testing.assert_allclose(*sums, atol=1e-12)
    np.testing.assert_allclose(*(fx.term_values(copied_rows, "x2") for fx in (first, second)), atol=1e-12)
    assert np.abs(first.term_values(copied_rows, "x0") - second.term_values(copied_rows, "x0")).max() > 1
    for fx in (first, second):
        assert fx.certificate.aliases == (("x0", "x1"),)
        assert fx.certificate.max_correlation == 1
        sentence = "x0 and x1 determine each other in these data: the sum of their terms is unique if their bins divide"
        assert sentence in repr(fx)
        assert sentence in str(fx.certificate)


@pytest.mark.filterwarnings("ignore::treeanova.errors.AliasWarning")
@pytest.mark.parametrize(("cuts_of_copy", "is_unique"), [(THRESHOLDS, True), (THRESHOLDS[1:2], False)])
def test_sums_of_interactions_with_a_copy_are_unique_if_both_have_the_same_cuts(copied_rows, cuts_of_copy, is_unique):
    """A function of two features, or a share of it moved to the copy: a term is pure by its own cuts."""
    rows = copied_rows[:, [0, 2, 0]]  # a, c and the copy of a
    rng = np.random.default_rng(1)
    stays, copied_cells = rng.normal(size=(4, 4)), rng.normal(size=(len(cuts_of_copy) + 1, 4))
    moves = copied_cells[np.searchsorted(cuts_of_copy, np.arange(4))]
    tables = [
        {("a", "c"): stays + moves, ("copy", "c"): 0 * copied_cells},
        {("a", "c"): stays, ("copy", "c"): copied_cells},
    ]
    cuts = {"a": THRESHOLDS, "copy": cuts_of_copy, "c": THRESHOLDS}
    models = [treeanova.model.Effects.from_tables(one, thresholds=cuts) for one in tables]
    first, second = (treeanova.decompose(model, rows, density="empirical") for model in models)
    np.testing.assert_allclose(first.decision_function(rows), second.decision_function(rows), atol=1e-12)
    sums = [fx.term_values(rows, ("a", "c")) + fx.term_values(rows, ("copy", "c")) for fx in (first, second)]
    assert (np.abs(sums[0] - sums[1]).max() < 1e-12) == is_unique
    for fx in (first, second):
        assert fx.certificate.aliases == (("a", "copy"),)


@pytest.mark.parametrize("density", ["auto", "empirical", "laplace"])
def test_aliases_are_warned_of_and_kept_in_files(copied_rows, density, tmp_path):
    forest = stumps_on([(0, 0.5, 1.0), (1, 1.5, 1.0), (2, 0.5, 1.0)])  # bins differ, values determine each other
    with pytest.warns(treeanova.errors.AliasWarning, match="x0 and x1 determine each other"):
        fx = treeanova.decompose(forest, copied_rows, density=density)
    assert fx.certificate.aliases == (("x0", "x1"),)
    fx.save(tmp_path / "fx.tav")
    assert treeanova.load(tmp_path / "fx.tav").certificate.aliases == (("x0", "x1"),)
    assert fx.drop("x1").certificate.aliases == ()


@pytest.mark.parametrize(
    ("second", "is_alias"),
    [
        (lambda x, _: x, True),
        (lambda x, _: np.exp(-x), True),
        (lambda x, e: x + 0.1 * e, False),
        (lambda _, e: e, False),
    ],
)
def test_continuous_features_are_aliases_only_where_their_order_is_the_same_or_reversed(second, is_alias):
    rng = np.random.default_rng(1)
    first, noise = rng.normal(size=(2, 400))
    rows = np.column_stack([first, second(first, noise), rng.normal(size=400)])
    forest = stumps_on([(j, bound, 1.0) for j in range(3) for bound in (0.2, 0.9)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", treeanova.errors.AliasWarning)
        fx = treeanova.decompose(forest, rows, density="empirical")
    assert bool(fx.certificate.aliases) == is_alias


def test_independent_densities_determine_all_terms(copied_rows):
    forest = stumps_on([(0, 0.5, 1.0), (1, 0.5, 1.0), (2, 0.5, 1.0)])
    fx = treeanova.decompose(forest, copied_rows, density="independent")
    assert fx.certificate.aliases == ()
    assert "determine each other" not in repr(fx)


def test_a_support_in_parts_has_maximal_correlation_one_and_a_sentence():
    """Two blocks of a pair: the block is a function of either feature, which none determines otherwise."""
    rng = np.random.default_rng(2)
    block, first, second = rng.integers(0, 2, size=(3, 400))
    rows = np.column_stack([2 * block + first, 2 * block + second]).astype(float)
    forest = chains([(0, 0.5), (1, 0.5), (0, 1.5), (1, 1.5)], [(1, 2.5), (0, 2.5)], n_features=2)
    fx = treeanova.decompose(forest, rows, density="empirical")
    pair = fx.certificate.terms["x0", "x1"]
    assert pair.n_components == 2
    assert pair.max_correlation == fx.certificate.max_correlation == 1
    assert pair.error < 1e-9
    assert fx.certificate.aliases == ()
    assert "the support of x0 × x1 has several parts" in repr(fx)
