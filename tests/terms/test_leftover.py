"""Leftover: main effects and pairs are found in values at rows, noise is not, and means of few rows are shrunk."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.support.forests import chains
from treeanova.density.base import Points
from treeanova.model.grid import unmerged
from treeanova.terms import costs
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.correction import Leftover, find_leftover
from treeanova.terms.layout import leaves_of

MAINS = [(0,), (1,), (2,)]
PAIRS = [(0, 1), (0, 2), (1, 2)]


def form_of(*sizes, trees=()):
    """A model with these numbers of equally heavy bins; further trees are lists of features."""
    bounds = [(j, float(bound)) for j, size in enumerate(sizes) for bound in range(size - 1)]
    sets = leaves_of(chains(bounds, *([(j, 0.0) for j in tree] for tree in trees), n_features=len(sizes)))
    assert sets.grid.sizes == sizes
    return ClosedForm(sets, tuple(np.full(size, 1 / size) for size in sizes), tuple(map(unmerged, sizes)))


def random_rows(rng, form, n_rows):
    """Rows of equal weight whose second feature follows the first."""
    codes = np.column_stack([rng.integers(0, size, n_rows) for size in form.leaf_sets.grid.sizes])
    if codes.shape[1] > 1:
        codes[:, 1] = np.where(rng.random(n_rows) < 0.5, codes[:, 0] % form.leaf_sets.grid.sizes[1], codes[:, 1])
    return Points(codes.astype(np.int32), np.full(n_rows, 1 / n_rows))


def share_left(found, rows, values):
    """Share of the variance that is left after what was found is taken out."""
    return float((values - found.at_rows(rows.codes)).var() / values.var())


# What is found


@pytest.mark.parametrize("seed", range(3))
def test_a_function_of_one_feature_is_found(seed):
    rng = np.random.default_rng(seed)
    form = form_of(8, 6, 5)
    rows = random_rows(rng, form, 5000)
    effect = rng.normal(size=8)
    found = find_leftover(form, MAINS + PAIRS, rows, effect[rows.codes[:, :1]])
    assert share_left(found, rows, effect[rows.codes[:, :1]]) < 1e-20
    mean = effect[rows.codes[:, 0]].mean()
    np.testing.assert_allclose(found.tables[(0,)][:, 0], effect - mean, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_a_function_of_two_features_is_found_on_other_rows_too(seed):
    rng = np.random.default_rng(seed)
    form = form_of(8, 6, 5)
    rows, others = random_rows(rng, form, 5000), random_rows(rng, form, 1000)
    effect = rng.normal(size=(8, 6))
    values, other_values = (effect[r.codes[:, 0], r.codes[:, 1]][:, None] for r in (rows, others))
    found = find_leftover(form, MAINS + PAIRS, rows, values)
    assert share_left(found, rows, values) < 1e-3
    assert share_left(found, others, other_values) < 1e-3
    only_mains = find_leftover(form, MAINS, rows, values)
    assert set(only_mains.tables) <= set(MAINS)
    assert share_left(only_mains, rows, values) > 0.3


def test_functions_on_more_bins_than_the_tables_have_are_found_but_for_the_steps_within_a_bin():
    rng = np.random.default_rng(0)
    form = form_of(200, 90)
    rows = random_rows(rng, form, 20_000)
    a, b = rows.codes.T / [[200], [90]]
    values = (np.sin(3 * a) + a * b)[:, None]
    found = find_leftover(form, [(0,), (1,), (0, 1)], rows, values)
    assert found.tables[(0,)].shape == (64, 1)
    assert share_left(found, rows, values) < 0.01


@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_found_in_noise(seed):
    rng = np.random.default_rng(seed)
    form = form_of(70, 6, 5)
    rows = random_rows(rng, form, 800)
    noise = np.column_stack([rng.normal(size=800), rng.standard_t(3, size=800), rng.random(800) < 0.1])
    found = find_leftover(form, MAINS + PAIRS, rows, noise)
    assert found.tables == {}
    assert found.at_rows(rows.codes) == 0.0


def test_constants_and_single_rows_leave_nothing():
    form = form_of(3, 2)
    rows = random_rows(np.random.default_rng(0), form, 50)
    assert find_leftover(form, [(0,), (0, 1)], rows, np.full((50, 1), 7.0)).tables == {}
    one = Points(rows.codes[:1], np.ones(1))
    assert find_leftover(form, [(0,), (0, 1)], one, np.full((1, 1), 7.0)).tables == {}
    assert Leftover().at_rows(rows.codes) == Leftover().spread((0,), [np.arange(3)]) == 0.0


def test_few_rows_have_fewer_bins_and_many_have_more():
    form = form_of(64)
    for n_rows, noise, n_bins in ((300, 1.0, 16), (60_000, 0.1, 64)):
        rng = np.random.default_rng(0)
        rows = random_rows(rng, form, n_rows)
        values = 3 * np.cos(rows.codes / 20) + noise * rng.normal(size=(n_rows, 1))
        assert find_leftover(form, [(0,)], rows, values).tables[(0,)].shape == (n_bins, 1)


# How means are shrunk


def shrunk(cells, weights, values, n_cells):
    """Means of cells of centred values, shrunk by their noise, in fractions; None where they show only noise."""
    weights = [Fraction(w) / sum(map(Fraction, weights)) for w in weights]
    mean = sum(w * v for w, v in zip(weights, values, strict=True))
    rows = [(c, w, v - mean) for c, w, v in zip(cells, weights, values, strict=True)]
    own = [[(w, v) for c, w, v in rows if c == cell] for cell in range(n_cells)]
    masses = [sum(w for w, _ in cell) for cell in own]
    means = [sum(w * v for w, v in cell) / mass if cell else 0 for cell, mass in zip(own, masses, strict=True)]
    counts = [mass**2 / sum(w**2 for w, _ in cell) if cell else 0 for cell, mass in zip(own, masses, strict=True)]
    n_used, n_all = sum(map(bool, own)), 1 / sum(w**2 for w in weights)
    within = sum(w * (v - means[c]) ** 2 for c, w, v in rows) * n_all / (n_all - n_used)
    noise = [within / count if count else 0 for count in counts]
    from_noise = sum(mass * n for mass, n in zip(masses, noise, strict=True))
    signal = sum(mass * m**2 for mass, m in zip(masses, means, strict=True)) - from_noise
    if signal <= 0 or signal**2 <= 36 * from_noise**2 * Fraction(2, n_used):
        return None
    return [float(signal / (signal + n) * m) for n, m in zip(noise, means, strict=True)]


def test_two_cells_by_hand():
    """Six rows of mean 1 and two of mean -3, variance 1 within: means show 3, of which noise 1/4; a bin has no row."""
    form = form_of(3)
    codes = np.array([[0]] * 6 + [[2]] * 2, dtype=np.int32)
    values = np.array([2.0, 0, 2, 0, 1, 1, -2, -4])
    rows = Points(codes, np.full(8, 1 / 8))
    table = find_leftover(form, [(0,)], rows, values[:, None]).tables[(0,)]
    expected = [2.75 / (2.75 + 1 / 6), 0, -3 * 2.75 / (2.75 + 1 / 2)]
    np.testing.assert_allclose(table[:, 0], expected, atol=1e-14)
    np.testing.assert_allclose(shrunk(codes[:, 0], [1] * 8, values.astype(int).tolist(), 3), expected, atol=1e-14)
    wider = np.array([3.0, -1, 3, -1, 1, 1, -1, -5])  # four times the variance: now noise would show as much
    assert find_leftover(form, [(0,)], rows, wider[:, None]).tables == {}


@pytest.mark.parametrize("seed", range(20))
def test_means_are_those_in_fractions_for_any_weights(seed):
    rng = np.random.default_rng(seed)
    form = form_of(4)
    codes = rng.integers(0, 4, size=(30, 1)).astype(np.int32)
    weights = rng.integers(1, 4, size=30)
    values = codes[:, 0] * int(rng.integers(0, 5)) + rng.integers(-3, 4, size=30)
    found = find_leftover(form, [(0,)], Points(codes, weights / weights.sum()), values[:, None].astype(float))
    expected = shrunk(codes[:, 0].tolist(), weights.tolist(), values.tolist(), 4)
    if expected is None:
        assert found.tables == {}
    else:
        np.testing.assert_allclose(found.tables[(0,)][:, 0], expected, atol=1e-12)


def test_the_cases_in_fractions_are_of_both_kinds():
    rng = np.random.default_rng(0)
    codes, noise = [i % 4 for i in range(30)], rng.integers(-3, 4, size=30).tolist()
    assert shrunk(codes, [1] * 30, noise, 4) is None
    assert shrunk(codes, [1] * 30, [9 * code + n for code, n in zip(codes, noise, strict=True)], 4) is not None


def test_weights_count_like_repeated_rows_where_there_is_no_noise():
    rng = np.random.default_rng(3)
    form = form_of(8, 6, 5)
    codes = random_rows(rng, form, 2000).codes
    times = rng.integers(1, 5, size=len(codes))
    effect = rng.normal(size=(5, 2))
    many = np.repeat(codes, times, axis=0)
    weighted = find_leftover(form, [(2,)], Points(codes, times / times.sum()), effect[codes[:, 2]])
    repeated = find_leftover(form, [(2,)], Points(many, np.full(len(many), 1 / len(many))), effect[many[:, 2]])
    np.testing.assert_allclose(weighted.tables[(2,)], repeated.tables[(2,)], atol=1e-12)
    np.testing.assert_allclose(times / times.sum() @ weighted.at_rows(codes), 0, atol=1e-12)


def test_each_output_is_shrunk_on_its_own():
    rng = np.random.default_rng(4)
    form = form_of(8, 6, 5)
    rows = random_rows(rng, form, 1000)
    values = np.column_stack([rows.codes[:, 0] + rng.normal(size=1000), rng.normal(size=1000), rows.codes[:, 2] % 2])
    together = find_leftover(form, MAINS, rows, values)
    for output in range(3):
        alone = find_leftover(form, MAINS, rows, values[:, [output]])
        for key in MAINS:
            expected = alone.tables[key][..., 0] if key in alone.tables else 0.0
            own = together.tables[key][..., output] if key in together.tables else 0.0
            np.testing.assert_allclose(own, expected, atol=1e-12)
    assert set(alone.tables) == {(2,)}


# Where it goes


def test_tables_spread_over_all_bins_are_what_is_taken_out_at_rows():
    rng = np.random.default_rng(5)
    form = form_of(150, 40, 5)
    rows = random_rows(rng, form, 3000)
    a, b, c = rows.codes.T
    values = np.column_stack([np.sin(a / 20) * (b > 20) + c, (a > b) * (c - 2.0)])
    found = find_leftover(form, MAINS + PAIRS, rows, values)
    assert {len(key) for key in found.tables} == {1, 2}
    every_bin = [np.arange(size) for size in form.leaf_sets.grid.sizes]
    total = np.zeros_like(values)
    for key in MAINS + PAIRS:
        spread = np.asarray(found.spread(key, [every_bin[j] for j in key]))
        if key in found.tables:
            assert spread.shape == (*(form.leaf_sets.grid.sizes[j] for j in key), 2)
            total += spread[tuple(rows.codes[:, j] for j in key)]
        else:
            assert spread == 0.0
    np.testing.assert_allclose(found.at_rows(rows.codes), total, atol=1e-13)


def test_terms_above_pairs_are_left_alone():
    rng = np.random.default_rng(6)
    form = form_of(4, 4, 4)
    rows = random_rows(rng, form, 2000)
    values = rows.codes.sum(axis=1, keepdims=True).astype(float)
    assert set(find_leftover(form, [*MAINS, (0, 1, 2)], rows, values).tables) == set(MAINS)


@pytest.mark.parametrize(("n_terms", "pairs"), [(0, 1), (4, 1), (5, 2), (6, 3), (99, 3)])
def test_pairs_of_most_leaves_come_first_while_time_allows(n_terms, pairs, monkeypatch):
    """Twelve leaves have x1 and x2, eight x0 and x2, seven x0 and x1."""
    form = form_of(4, 4, 4, trees=[(1, 2)] * 4 + [(0, 2)] * 2)
    rng = np.random.default_rng(7)
    rows = random_rows(rng, form, 4000)
    a, b, c = (rows.codes % 2).T
    values = np.column_stack([a ^ b, a ^ c, b ^ c]).astype(float)
    monkeypatch.setattr(costs, "LEFTOVER_STEPS", float(n_terms * values.size))
    found = find_leftover(form, PAIRS + MAINS, rows, values)
    assert [key for key in found.tables if len(key) == 2] == [(1, 2), (0, 2), (0, 1)][:pairs]
