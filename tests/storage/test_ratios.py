"""Weights of pairs as ratios: tables come back from marginals and from one ratio per cell of groups, or are kept."""

from __future__ import annotations

import numpy as np
import pytest

from treeanova.storage import saved as ratios
from treeanova.storage.saved import n_cells_of_ratios, pack_weights, unpack_weights

FIRST, SECOND = np.array([0.1, 0.2, 0.0, 0.3, 0.4]), np.array([0.25, 0.25, 0.2, 0.3])
# Three groups of rows, of which the second starts after a bin without mass, and two groups of columns.
RATIO = np.array([[2.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
OF_ROWS, OF_COLUMNS = [0, 0, 0, 1, 2], [0, 0, 1, 1]
TABLE = RATIO[np.ix_(OF_ROWS, OF_COLUMNS)] * np.multiply.outer(FIRST, SECOND)


@pytest.fixture(autouse=True)
def _few_weights_are_packed(monkeypatch):
    monkeypatch.setattr(ratios, "_LEAST_CELLS", 0)


def weights(table):
    return {(0,): FIRST, (1,): SECOND, (0, 1): table}


def assert_comes_back(table):
    packed, whole = pack_weights(weights(table))
    again = unpack_weights(packed, whole)
    np.testing.assert_allclose(again[0, 1], table, rtol=1e-13, atol=0)
    assert np.array_equal(again[0, 1] > 0, table > 0)
    return packed


def test_groups_have_one_ratio_per_cell():
    [flat] = assert_comes_back(TABLE).values()
    assert flat.tolist() == [3, 2, 0, 3, 4, 0, 2, 2, 0, 0, 2, 1, 1]


def test_independent_features_have_one_ratio():
    packed, whole = pack_weights(weights(np.multiply.outer(FIRST, SECOND)))
    assert packed[0, 1].tolist() == [1, 1, 0, 0, 1]
    assert np.array_equal(unpack_weights(packed, whole)[0, 1], np.multiply.outer(FIRST, SECOND))
    assert n_cells_of_ratios(packed, whole) == 20


def test_tables_without_groups_are_kept():
    table = TABLE * np.random.default_rng(0).random(TABLE.shape)
    packed, whole = pack_weights(weights(table))
    assert not packed
    assert whole[0, 1] is table


@pytest.mark.parametrize("change", [1e-18, 1e-6])
def test_a_cell_that_differs_is_not_lost(change):
    """A cell without mass stays without, and one with little keeps it."""
    table = TABLE.copy()
    table[1, 2] = change
    assert_comes_back(table)


def test_tables_without_their_marginals_are_kept():
    for known in ({(0, 1): TABLE}, {(0,): FIRST, (0, 1): TABLE}, {(0,): FIRST, (1,): FIRST, (0, 1): TABLE}):
        packed, whole = pack_weights(known)
        assert not packed
        assert whole[0, 1] is TABLE


def test_few_weights_are_kept_to_the_last_bit(monkeypatch):
    monkeypatch.setattr(ratios, "_LEAST_CELLS", 1 << 17)
    assert pack_weights(weights(TABLE))[1][0, 1] is TABLE


@pytest.mark.parametrize("change", [lambda flat: flat[:5], lambda flat: flat[:-1], lambda flat: flat + 1])
def test_ratios_that_do_not_fit_are_refused(change):
    packed, whole = pack_weights(weights(TABLE))
    with pytest.raises(ValueError, match="cannot reshape"):
        unpack_weights({(0, 1): change(packed[0, 1])}, whole)
