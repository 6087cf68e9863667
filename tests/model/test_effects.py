"""Effects: sums over terms by loops, terms on coarser axes of their own, and axes that receive what purity moves."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given

import treeanova
from tests.support.effects import grid_of_sizes, random_effects
from tests.support.strategies import SEEDS
from treeanova.data.features import Feature, Schema
from treeanova.model.axes import IntervalAxis
from treeanova.model.effects import Effects, refined_axes, weighted_sum
from treeanova.model.grid import Grid, binning_by, union, unmerged
from treeanova.model.rows import Rows
from treeanova.testing import FIGURE_1

ONE = binning_by(np.array([0, 0, 1, 1]))
TWO = binning_by(np.array([0, 1, 1, 1]))
BOTH = [0, 1, 2, 2]


def all_cells(grid):
    return np.array(list(itertools.product(*map(range, grid.sizes))), dtype=np.int32)


def looked_up(effects, cell):
    """The score of a cell, term by term."""
    total = effects.intercept.copy()
    for key, values in effects.terms.items():
        bins = [int(b.bins[cell[j]]) for j, b in zip(key, effects.binnings_of(key), strict=True)]
        total += values[tuple(bins)]
    return total


@given(SEEDS)
def test_scores_are_sums_of_terms_looked_up_cell_by_cell(seed):
    effects = random_effects(np.random.default_rng(seed))
    cells = all_cells(effects.grid)
    expected = [looked_up(effects, cell) for cell in cells]
    np.testing.assert_allclose(effects.score(Rows.in_bins(effects.grid, cells)), expected, atol=1e-12)
    np.testing.assert_allclose(effects.score(Rows.in_bins(effects.grid, cells)), expected, atol=1e-12)


@given(SEEDS)
def test_axes_of_terms_put_values_where_their_binnings_do(seed):
    effects = random_effects(np.random.default_rng(seed))
    cells = all_cells(effects.grid)
    encoded = effects.grid.encoded(cells)
    for key, values in effects.terms.items():
        axes = effects.axes_of(key)
        assert tuple(axis.size for axis in axes) == values.shape[:-1]
        found = values[tuple(axis.index(encoded[:, j]) for j, axis in zip(key, axes, strict=True))]
        np.testing.assert_array_equal(effects.at(key, cells), found)


@given(SEEDS)
def test_finer_grids_change_no_score(seed):
    """On the union with a grid of other thresholds, and on finer axes of a term."""
    rng = np.random.default_rng(seed)
    effects = random_effects(rng)
    other = grid_of_sizes([int(n) for n in rng.integers(1, 5, len(effects.grid.sizes))], start=0.5)
    grid, old_bins = union([effects.grid, other])
    finer = effects.on_union(grid, old_bins[0])
    rows = rng.uniform(-1, 6, size=(60, len(grid.axes)))
    np.testing.assert_allclose(finer.score(rows), effects.score(rows), atol=1e-12)
    for key in effects.terms:
        full = [unmerged(grid.sizes[j]) for j in key]
        codes = grid.index(rows)
        spread = finer.on_binnings(key, full)[tuple(codes[:, j] for j in key)]
        np.testing.assert_allclose(spread, effects.at(key, effects.grid.index(rows)), atol=1e-12)


@given(SEEDS)
def test_weighted_sums_are_sums_of_scores(seed):
    rng = np.random.default_rng(seed)
    first = random_effects(rng, sizes=(4, 3, 2))
    second = random_effects(rng, sizes=(4, 3, 2), n_outputs=first.n_outputs)
    both = weighted_sum([first, second], [2.0, -0.5])
    cells = all_cells(both.grid)
    expected = 2 * first.score(Rows.in_bins(first.grid, cells)) - 0.5 * second.score(Rows.in_bins(second.grid, cells))
    np.testing.assert_allclose(both.score(Rows.in_bins(both.grid, cells)), expected, atol=1e-12)


def test_terms_of_a_sum_meet_on_the_coarsest_axes_that_fit_both():
    grid = grid_of_sizes([4])
    parts = [Effects(grid, np.zeros(1), {(0,): np.array([[1.0], [2.0]])}, {(0,): (binning,)}) for binning in (ONE, TWO)]
    both = weighted_sum(parts, [1.0, 10.0])
    assert both.binnings[0,][0].bins.tolist() == BOTH
    assert both.terms[0,][:, 0].tolist() == [11.0, 21.0, 22.0]


def subsets(key):
    return [sub for order in range(1, len(key) + 1) for sub in itertools.combinations(key, order)]


@given(SEEDS)
def test_axes_of_subsets_merge_bins_that_all_terms_above_merge(seed):
    """By the definition: two bins of a feature are one where no term that contains the subset separates them."""
    effects = random_effects(np.random.default_rng(seed))
    found = refined_axes(effects)
    if not effects.binnings:
        assert found == {}
        return
    assert set(found) == {sub for key in effects.terms for sub in subsets(key)}
    for sub, binnings in found.items():
        above = [key for key in effects.terms if set(sub) <= set(key)]
        for j, binning in zip(sub, binnings, strict=True):
            theirs = [effects.binnings_of(key)[key.index(j)].bins for key in above]
            for a, b in itertools.combinations(range(effects.grid.sizes[j]), 2):
                assert (binning.bins[a] == binning.bins[b]) == all(bins[a] == bins[b] for bins in theirs)


def test_binnings_that_merge_nothing_are_forgotten():
    grid = grid_of_sizes([2, 3])
    terms = {(0, 1): np.zeros((2, 3, 1))}
    effects = Effects(grid, np.zeros(1), terms, {(0, 1): (unmerged(2), unmerged(3)), (0,): (unmerged(2),)})
    assert dict(effects.binnings) == {}
    assert refined_axes(effects) == {}


@pytest.mark.parametrize(
    ("key", "shape", "expected"), [((0, 1), (3, 2, 1), (2, 3, 1)), ((1, 0), (3, 2, 1), (3, 2, 1)), ((0,), (2,), (2, 1))]
)
def test_tensors_of_other_shapes_are_refused(key, shape, expected):
    grid = grid_of_sizes([2, 3])
    message = rf"term {tuple(key)} must have shape {expected}, got {shape}".replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(ValueError, match=message):
        Effects(grid, np.zeros(1), {key: np.zeros(shape)})


def test_terms_are_in_order_and_read_only():
    grid = grid_of_sizes([2, 2])
    effects = Effects(grid, np.zeros(1), {(0, 1): np.zeros((2, 2, 1)), (1,): np.zeros((2, 1)), (0,): np.ones((2, 1))})
    assert list(effects.terms) == [(0,), (1,), (0, 1)]
    with pytest.raises(ValueError, match="read-only"):
        effects.terms[0,][0] = 9.0
    with pytest.raises(TypeError, match="item assignment"):
        effects.terms[0,] = np.zeros((2, 1))


def test_effects_can_be_pickled_and_renamed():
    effects = random_effects(np.random.default_rng(3))
    again = pickle.loads(pickle.dumps(effects))
    cells = all_cells(effects.grid)
    np.testing.assert_array_equal(
        again.score(Rows.in_bins(again.grid, cells)), effects.score(Rows.in_bins(effects.grid, cells))
    )
    names = tuple(f"renamed {j}" for j in range(len(effects.grid.axes)))
    renamed = effects.with_schema(Schema(tuple(map(Feature, names)), effects.schema.outputs))
    assert tuple(axis.name for axis in renamed.grid.axes) == renamed.schema.names == names
    np.testing.assert_array_equal(
        renamed.score(Rows.in_bins(renamed.grid, cells)), effects.score(Rows.in_bins(effects.grid, cells))
    )


def test_fewer_terms_keep_their_axes():
    grid = Grid(Schema((Feature("a"), Feature("b"))), tuple(IntervalAxis(n, -1, np.arange(3.0)) for n in "ab"))
    terms = {(0,): np.arange(4.0)[:, None], (0, 1): np.arange(4.0).reshape(2, 2, 1)}
    effects = Effects(grid, np.array([1.0]), terms, {(0, 1): (ONE, TWO)})
    kept = effects.keep(lambda key: len(key) == 2)
    assert list(kept.terms) == [(0, 1)]
    assert [axis.labels for axis in kept.axes_of((0, 1))] == [("≤ 1", "> 1"), ("≤ 0", "> 0")]
    assert kept.intercept.tolist() == [1.0]
    mains = effects.keep(lambda key: len(key) == 1)
    assert list(mains.binnings) == [(0, 1)]  # weights of the pair may still be known
    assert refined_axes(mains) == {}


FORMS = tuple(FIGURE_1)


@pytest.mark.parametrize("form", FORMS)
def test_four_forms_of_one_function_have_the_same_pure_terms(form):
    intercept, first, second, pair = FIGURE_1[form]
    effects = Effects.from_tables({"a": first, "b": second, ("a", "b"): pair}, intercept=intercept)
    fx = treeanova.decompose(effects, density="uniform")
    assert fx.intercept == 0
    np.testing.assert_allclose(fx.terms["a", "b"].values, [[-0.25, 0.25], [0.25, -0.25]], atol=1e-15)
    np.testing.assert_allclose(fx.terms["a"].values, 0.0, atol=1e-15)


def test_tables_are_looked_up_by_category_and_threshold():
    tables = {("dose", "kind"): [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "kind": [10.0, 20.0]}
    effects = Effects.from_tables(
        tables, intercept=100.0, categories={"kind": ["u", "v"]}, thresholds={"dose": [0.0, 1.5]}
    )
    rows = [[-3.0, "u"], [0.0, "v"], [1.0, "v"], [1.6, "u"]]
    assert effects.score(rows).ravel().tolist() == [111.0, 122.0, 124.0, 115.0]
    with pytest.raises(ValueError, match="'kind' must hold categories of the model, got 'w'"):
        effects.score([[0.0, "w"]])
    with pytest.raises(ValueError, match="'dose' must have no missing values"):
        effects.score([[np.nan, "u"]])


def test_axes_follow_the_order_of_the_names():
    tables = {"a": [0.0, 1.0], ("b", "a"): [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]}
    effects = Effects.from_tables(tables)
    assert effects.schema.names == ("a", "b")
    assert effects.terms[0, 1][..., 0].tolist() == [[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]


@pytest.mark.parametrize(
    ("tables", "options", "message"),
    [
        ({"a": [[1.0]]}, {}, r"`tables` must give \('a',\) an array of finite numbers with 1 axes"),
        ({"a": [1.0, np.inf]}, {}, "with other numbers"),
        ({("a", "a"): [[1.0]]}, {}, "`tables` must give"),
        ({("a", "b"): [[1.0]], ("b", "a"): [[1.0]]}, {}, "`tables` must have each set of features once"),
        ({"a": [1.0], ("a",): [2.0]}, {}, "`tables` must have each set of features once"),
        ({"a": [1.0, 2.0], ("a", "b"): [[1.0], [2.0], [3.0]]}, {}, "as many bins as all others do"),
        ({"a": [1.0, 2.0]}, {"categories": {"a": ["u"]}}, "`categories` must give 'a' 2 different labels"),
        ({"a": [1.0, 2.0]}, {"thresholds": {"a": [1.0, 0.0]}}, "`thresholds` must give 'a' 1 ascending numbers"),
        ({"a": [1.0, 2.0]}, {"thresholds": {"b": [1.0]}}, "must be of features of the tables, got 'b'"),
        ({"a": [1.0]}, {"thresholds": {"a": []}, "categories": {"a": ["u"]}}, "got both"),
        ({"a": [1.0]}, {"link": "softmax"}, "`link` must be one of 'identity', 'logit', 'log', got 'softmax'"),
    ],
)
def test_bad_tables_are_refused(tables, options, message):
    with pytest.raises(ValueError, match=message):
        Effects.from_tables(tables, **options)
