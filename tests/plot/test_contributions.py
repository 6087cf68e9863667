from __future__ import annotations

import numpy as np
import pytest

from treeanova.plot.bars import Bars, bars_of, frame_of, leaves_frame, with_rest, write_numbers


def test_rows_of_one_output_and_the_rest():
    table = {"term": ["a", "b", "a", "b"], "output": ["u", "u", "v", "v"], "gap": [1.0, 2.0, 3.0, 4.0]}
    found = bars_of(table, ("gap",), "v")
    assert found.names == ["a", "b"]
    assert found.columns["gap"].tolist() == [3.0, 4.0]
    terms = Bars(list("abcd"), {"gap": np.array([4.0, 3.0, 2.0, 1.0]), "error": np.ones(4)})
    assert with_rest(terms, 4) is terms
    names, columns = with_rest(terms, 2)
    assert (names, columns["gap"].tolist()) == (["a", "3 other terms"], [4.0, 6.0])
    assert np.isnan(columns["error"][-1])  # errors do not add up


@pytest.mark.parametrize(("head", "is_cut"), [(3.0, False), (-100.0, True)])
def test_frames_show_terms_where_sums_are_far_longer(head, is_cut):
    ends = [(min(head, 0.0), max(head, 0.0)), (0.0, 1.0), (-0.5, 0.0)]
    frame = frame_of(ends, n_heads=1)
    assert leaves_frame(ends[0], frame) == is_cut
    assert not any(leaves_frame(end, frame) for end in ends[1:])
    assert frame_of([(0.0, 0.0)], n_heads=1) == (-0.18, 0.18)


def test_numbers_are_written_beyond_bars_or_at_the_edge():
    plt = pytest.importorskip("matplotlib.pyplot")
    _, ax = plt.subplots()
    ends = [(0.0, 100.0), (0.0, 1.0), (-0.5, 0.0)]
    write_numbers(ax, ends, [100.0, 1.0, -0.5], frame_of(ends, n_heads=1))
    edge, right, left = ax.texts
    assert edge.get_text() == "+100 ▸"
    assert edge.get_position()[0] == ax.get_xlim()[1]
    assert (right.get_text(), left.get_text()) == ("+1", "−0.5")
    assert right.get_position()[0] > 1.0
    assert left.get_position()[0] < -0.5
