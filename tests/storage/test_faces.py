"""Tables of a correction as faces: all tables come back from n^k - (n - 1)^k numbers each, or are kept as they are."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from treeanova.model.grid import Binning, unmerged
from treeanova.storage import saved as faces
from treeanova.storage.saved import n_cells_of_faces, pack_tables, unpack_tables

SIZES = (7, 8, 5, 8)
LIMITS = {2: 8, 3: 4, 4: 2}
N_OUTPUTS = 2


@pytest.fixture(autouse=True)
def _small_tables_are_packed(monkeypatch):
    monkeypatch.setattr(faces, "_LEAST_CELLS", 0)


def cells_of(sizes=SIZES):
    return tuple(map(unmerged, sizes)), LIMITS


def merged(feature, limit):
    """Bin of a limit for each bin of a feature: neighbours two by two until they are few enough."""
    bins = np.arange(SIZES[feature])
    while bins[-1] >= limit:
        bins //= 2
    return bins


def corrections(seed=0):
    """By definition, on all bins: random faces are taken out of a term and added to the terms below."""
    rng = np.random.default_rng(seed)
    full = {key: np.zeros((*(SIZES[j] for j in key), N_OUTPUTS)) for n in (1, 2, 3, 4) for key in combined(n)}
    tables = {}
    for order in (4, 3, 2):
        for key in combined(order):
            bins = {j: merged(j, LIMITS[order]) for j in key}
            for axis, j in enumerate(key):
                below = tuple(i for i in key if i != j)
                face = rng.normal(size=(*(bins[i].max() + 1 for i in below), N_OUTPUTS))
                spread = face[np.ix_(*(bins[i] for i in below))]
                full[key] -= np.expand_dims(spread, axis)
                full[below] += spread
            firsts = [np.unique(bins[j], return_index=True)[1] for j in key]
            tables[key] = full[key][np.ix_(*firsts)]
    return tables


def combined(order):
    return itertools.combinations(range(len(SIZES)), order)


def test_tables_follow_from_as_many_numbers_as_cells_with_a_first_bin():
    cells, tables = cells_of(), corrections()
    packed, whole = pack_tables(cells, tables)
    assert not whole
    for key, flat in packed.items():
        shape = tables[key].shape[:-1]
        assert flat.size == N_OUTPUTS * (math.prod(shape) - math.prod(n - 1 for n in shape))
    assert n_cells_of_faces(cells, packed, N_OUTPUTS) == sum(table.size for table in tables.values())
    again = unpack_tables(cells, packed, whole, N_OUTPUTS)
    assert again.keys() == tables.keys()
    for key, table in tables.items():
        np.testing.assert_allclose(again[key], table, rtol=0, atol=1e-13)


def test_a_table_with_an_interaction_of_all_features_is_kept():
    tables = corrections()
    tables[0, 1, 3][1, 2, 3] += 0.5
    packed, whole = pack_tables(cells_of(), tables)
    assert list(whole) == [(0, 1, 3)] + [key for key in whole if len(key) < 3]
    again = unpack_tables(cells_of(), packed, whole, N_OUTPUTS)
    for key, table in tables.items():
        np.testing.assert_allclose(again[key], table, rtol=0, atol=1e-13)


def test_small_corrections_are_kept_to_the_last_bit(monkeypatch):
    tables = corrections()
    monkeypatch.setattr(faces, "_LEAST_CELLS", 1 << 17)
    packed, whole = pack_tables(cells_of(), tables)
    assert not packed
    assert all(whole[key] is table for key, table in tables.items())


def test_no_table_at_all_is_packed():
    assert pack_tables(cells_of(), {}) == ({}, {})


def test_faces_that_do_not_fit_are_refused():
    packed, whole = pack_tables(cells_of(), corrections())
    with pytest.raises(ValueError, match="faces must fit the coarse bins"):
        unpack_tables(cells_of(), {**packed, (0, 1): packed[0, 1][:-1]}, whole, N_OUTPUTS)
    huge = Binning(np.array([0, 10**9]), np.ones(2), 10**9 + 1)
    cells = (huge, huge), {2: 10**10}
    assert n_cells_of_faces(cells, {(0, 1): np.zeros(3)}, 1) > 10**18  # which a file must be large enough for
