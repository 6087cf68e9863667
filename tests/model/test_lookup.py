"""Bins by a table are those of numpy's binary search, at every float."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from treeanova.model import axes as module
from treeanova.model.axes import IntervalAxis, bit_cells, equal_cells, lookup_of

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
BOUNDS = st.one_of(
    hnp.arrays(np.float64, st.integers(2, 60), elements=FLOATS),
    hnp.arrays(np.float64, st.integers(2, 60), elements=st.floats(-2, 2, width=32)),
    hnp.arrays(np.float64, st.integers(2, 60), elements=st.integers(-5, 60)),
    hnp.arrays(np.float64, st.integers(2, 9), elements=st.sampled_from([0.0, 5e-324, -5e-324, 1e-310, 1.0])),
).map(np.unique)
EXTREMES = [0.0, -0.0, np.inf, -np.inf, 5e-324, -5e-324, 1.7976931348623157e308, -1.7976931348623157e308, 1.0]


def values_around(bounds, others):
    with np.errstate(all="ignore"):
        neighbours = [np.nextafter(bounds, -np.inf), bounds, np.nextafter(bounds, np.inf)]
    return np.concatenate([*neighbours, -bounds, EXTREMES, others])


@given(BOUNDS, st.lists(FLOATS, max_size=20))
@example(np.array([-np.inf, 0.0, 1.0]), [])
@example(np.array([-1.7976931348623157e308, 1.7976931348623157e308]), [])
@example(np.array([-0.0, 5e-324]), [])
def test_tables_find_the_bins_of_a_binary_search(bounds, others):
    values = values_around(bounds, others)
    for cells, n_cells in module._ways_to_divide(bounds):
        table = module._lookup_with(bounds, cells, n_cells)
        np.testing.assert_array_equal(table.index(values), np.searchsorted(bounds, values, side="left"))


@given(BOUNDS, st.integers(1, 1 << 12))
def test_cells_never_fall(bounds, factor):
    values = np.sort(values_around(bounds, []))
    with mock.patch.object(module, "_CELLS_PER_BOUND", (factor,)):
        for cells, n_cells in module._ways_to_divide(bounds):
            places = cells(values)
            assert (np.diff(places) >= 0).all()
            assert places[0] >= 0
            assert places[-1] < n_cells


@pytest.mark.parametrize(
    ("draw", "kind"),
    [
        (lambda rng, n: rng.normal(size=n), equal_cells),
        (lambda rng, n: rng.lognormal(0, 4, size=n), bit_cells),
        (lambda rng, n: -rng.lognormal(0, 4, size=n), bit_cells),
    ],
)
def test_few_values_are_searched_for_where_bounds_are_quantiles(draw, kind):
    values = draw(np.random.default_rng(0), 20_000)
    table = lookup_of(np.unique(values[::100]))
    assert table.cells.func is kind
    assert table.share_searched < 0.05
    np.testing.assert_array_equal(table.index(values), np.searchsorted(table.bounds, values))


def test_no_table_where_it_would_not_pay():
    steps = np.nextafter(1.0, 2.0) - 1.0
    assert lookup_of(np.array([1.0])) is None
    crowded = np.concatenate([1.0 + steps * np.arange(50), [1e300]])
    assert lookup_of(np.concatenate([[-1e300], crowded])) is None


@pytest.mark.parametrize("n_values", [10, 10_000])
def test_an_axis_finds_missing_values_and_bins_in_short_and_long_columns(n_values):
    rng = np.random.default_rng(1)
    axis = IntervalAxis("x", missing_bin=7, bounds=np.sort(rng.normal(size=7)))
    column = rng.normal(size=n_values)
    column[::3] = np.nan
    expected = [7 if np.isnan(value) else sum(bound < value for bound in axis.bounds) for value in column]
    assert axis.index(column).tolist() == expected
    assert axis.index(np.repeat(column, 2)[::2]).tolist() == expected
