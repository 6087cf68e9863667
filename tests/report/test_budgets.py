from __future__ import annotations

from treeanova.report.payload import max_main_bins, max_pair_bins, pair_bins_of_rows


def test_main_effects_share_their_room():
    assert max_main_bins([10] * 20, 5) == 256
    assert max_main_bins([256] * 1000, 5) == 16


def test_the_strongest_pairs_get_most_bins():
    sides = max_pair_bins([(300, 300)] * 500, 2)
    assert sides == sorted(sides, reverse=True)
    assert sides[0] >= 48
    assert sides[-1] == 8


def test_cells_of_pairs_hold_three_rows_on_average():
    assert (pair_bins_of_rows(None), pair_bins_of_rows(100), pair_bins_of_rows(4800)) == (64, 12, 40)


def test_pairs_of_many_outputs_stay_within_their_room():
    sides = max_pair_bins([(300, 300)] * 250, 8)
    assert sides[-1] == 6
    assert sum(side * side * 8 for side in sides) <= 80_000
