"""Sums over leaves: by definition, and the same by numpy and by the compiled kernel."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.closed_forms import random_closed_form
from tests.support.strategies import seeds
from treeanova.core.compiled import has_numba
from treeanova.terms.kernels import LeafGroup, Sums
from treeanova.terms.terms import OrderTotals


def sums_of(form, keys, *, is_raw=False):
    """Sums of some terms, pure or raw; in a raw term are the leaves with just its features on their paths."""
    sets = form.leaf_sets
    if not is_raw:
        return Sums(sets, form._leaf_groups(keys), form.set_masses)
    columns = {key: column for column, key in enumerate(keys)}
    pairs = [pair for pair in zip(sets.keys, sets.leaves_by_key, strict=True) if pair[0] in columns]
    return Sums(sets, [LeafGroup(leaves, {key: sets.values[leaves]}, {key: columns[key]}) for key, leaves in pairs])


def by_definition(form, codes, keys, *, is_raw):
    """Leaf by leaf and feature by feature."""
    sets = form.leaf_sets
    values = np.zeros((len(codes), len(keys), sets.values.shape[1]))
    for column, key in enumerate(keys):
        for leaf in sets.leaves_with(key):
            if is_raw and sets.keys[sets.key_indices[leaf]] != key:
                continue
            product = np.ones(len(codes))
            for j in key:
                at = sets.set_indices(j, np.array([leaf]))
                product *= sets.sets[j].contain(at, codes[:, j])[0] - (0 if is_raw else form.set_masses[j][at])
            coefficients = sets.values[[leaf]] if is_raw else form.coefficients(key, np.array([leaf]))
            values[:, column] += product[:, None] * coefficients
    return values


@pytest.mark.parametrize("is_raw", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_sums_are_those_of_the_definition(seed, is_raw):
    form, codes, scale = random_closed_form(seed, n_rows=20)
    for orders in (range(6), [2]):
        keys = form.leaf_sets.subsets(orders)
        ours = sums_of(form, keys, is_raw=is_raw).at_rows(codes, len(keys), 1)
        np.testing.assert_allclose(ours, by_definition(form, codes, keys, is_raw=is_raw), rtol=0, atol=1e-13 * scale)


@pytest.mark.skipif(not has_numba(), reason="Numba is not installed")
@pytest.mark.parametrize("is_raw", [False, True])
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("seed", seeds(10, quick=4))
def test_kernel_gives_the_numbers_of_numpy(seed, n_jobs, is_raw):
    form, codes, scale = random_closed_form(seed, n_rows=300, max_depth=7, max_features=8)
    for orders in (range(9), [2], [99]):
        keys = form.leaf_sets.subsets(orders)
        sums = sums_of(form, keys, is_raw=is_raw)
        for rows in (codes, codes[:1], codes[:0]):
            ours, numpys = (
                sums.at_rows_by_kernel(rows, len(keys), n_jobs),
                sums.at_rows_by_numpy(rows, len(keys), n_jobs),
            )
            np.testing.assert_allclose(ours, numpys, rtol=0, atol=1e-13 * scale)


@pytest.mark.skipif(not has_numba(), reason="Numba is not installed")
def test_large_jobs_run_in_the_kernel(monkeypatch):
    form, codes, scale = random_closed_form(5)
    keys = form.leaf_sets.subsets([1, 2])
    monkeypatch.setattr("treeanova.core.compiled._SECONDS_WORTH_LOADING", 0.0)
    monkeypatch.setattr(Sums, "at_rows_by_numpy", None)
    expected = sums_of(form, keys).at_rows_by_kernel(codes, len(keys), 1)
    of_definition = by_definition(form, codes, keys, is_raw=False)
    np.testing.assert_allclose(form.at_rows(codes, keys), of_definition, rtol=0, atol=1e-13 * scale)
    np.testing.assert_array_equal(form.at_rows(codes, keys), expected)


@pytest.mark.parametrize("seed", range(6))
def test_by_numpy_a_row_has_the_same_digits_for_any_number_of_rows(seed):
    form, codes, _ = random_closed_form(seed, n_rows=90, n_outputs=1)
    keys = form.leaf_sets.subsets(range(1, 6))
    sums, totals = sums_of(form, keys), OrderTotals(form)
    every, every_total = sums.at_rows_by_numpy(codes, len(keys), 1), totals.at_rows_by_numpy(codes)
    for rows in (slice(1), slice(3), slice(5, 22), slice(7, 8)):
        np.testing.assert_array_equal(sums.at_rows_by_numpy(codes[rows], len(keys), 1), every[rows])
        np.testing.assert_array_equal(totals.at_rows_by_numpy(codes[rows]), every_total[rows])
