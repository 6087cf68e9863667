"""Comparisons: distances, signs and ranks by hand, for tables and for terms at rows."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import treeanova
from treeanova import compare
from treeanova.core.labels import label_of
from treeanova.model.effects import Effects
from treeanova.testing.decompositions import bins_within, names_at_rows, names_in_tables
from treeanova.testing.effects import grid_of_sizes, on_full_bins, pair_on_few_bins, rows_of_effects
from treeanova.testing.recorded import Recorded
from treeanova.testing.simulated import dependent_rows
from treeanova.testing.training import fit

tree = pytest.importorskip("sklearn.tree")

DATA = dependent_rows()
decompose = functools.partial(treeanova.decompose, density="empirical")


def test_distances_signs_and_ranks_by_hand(fx):
    other = fx.with_density("uniform")
    found = compare({"empirical": fx, "uniform": other, "raw": fx.raw})
    assert found.names == ("empirical", "uniform", "raw")
    spread = np.std(fx.decision_function(DATA))
    distance = found.distance.set_index(["decomposition", "term"])
    signs = found.signs.set_index("term")
    for name, own in (("uniform", other), ("raw", fx.raw)):
        for names, term in fx.terms.items():
            values = own.terms[names].values if names in own.terms else np.zeros_like(term.values)
            gap = np.sqrt((term.weights * (values - term.values) ** 2).sum())
            row = distance.loc[(name, " × ".join(names))]
            assert row["distance"] == pytest.approx(gap, abs=1e-12)
            assert row["relative"] == pytest.approx(gap / spread, abs=1e-12)
            if len(names) == 1:
                changed = term.weights[values * term.values < 0].sum()
                assert signs.loc[names[0], name] == pytest.approx(changed, abs=1e-12)
    for name, own in (("empirical", fx), ("uniform", other), ("raw", fx.raw)):
        expected = {term: rank for rank, term in enumerate(own.importance()["term"], start=1)}
        ranks = found.ranks[found.ranks[name].notna()]
        assert dict(zip(ranks["term"], ranks[name], strict=True)) == expected
    assert found.ranks["term"].tolist() == fx.importance()["term"].tolist()
    assert found.distance["relative"].is_monotonic_decreasing
    assert signs.max(axis=1, numeric_only=True).is_monotonic_decreasing


def test_signs_change_where_values_do():
    """Stumps at 0 and at 1 on four rows: on (0, 1] the first is high and the second low, a quarter of the rows."""
    data = np.array([[-1.0], [0.5], [2.0], [3.0]])
    first = fit(tree.DecisionTreeRegressor(max_depth=1, random_state=0), data, [0, 1, 1, 1])
    second = fit(tree.DecisionTreeRegressor(max_depth=1, random_state=0), data, [0, 0, 1, 1])
    parts = {"first": decompose(first, data, n_jobs=1), "second": decompose(second, data, n_jobs=1)}
    found = compare(parts)
    assert found.signs["second"].to_list() == [pytest.approx(0.75 / 2)]
    # Pure values: -3/4 and 1/4 against -1/2 and 1/2. The first's upper bin of weight 3/4 is cut in two equal parts.
    squares = 0.25 * 0.25**2 + 0.375 * 0.75**2 + 0.375 * 0.25**2
    assert found.distance["distance"].to_list() == [pytest.approx(np.sqrt(squares))]


def test_a_comparison_of_several_outputs(several):
    found = compare({"pure": several, "raw": several.raw})
    assert len(found.distance) == 3 * len(several.terms)
    assert sorted(found.signs["output"].unique()) == ["u", "v", "w"]
    same = compare({"a": several, "b": several})
    assert (same.distance["distance"] == 0).all()
    assert (same.signs["b"] == 0).all()
    assert (same.ranks["a"] == same.ranks["b"]).all()


def test_a_comparison_prints_all_tables(fx):
    printed = str(compare({"pure": fx, "raw": fx.raw}))
    for text in ("compared with pure", "distances", "changed signs of main effects", "ranks", "x0 × x1"):
        assert text in printed


def test_what_cannot_be_compared_is_refused(fx, several):
    with pytest.raises(ValueError, match="must hold at least two, got 1; add"):
        compare({"only": fx})
    with pytest.raises(ValueError, match=r"got score \(identity\) and u, v, w \(softmax\)"):
        compare({"one": fx, "three": several})
    with pytest.raises(TypeError, match="must map names to decompositions, got list"):
        compare([fx, fx.raw])


# Terms at rows


def test_compare_deep_tells_distances_of_terms_at_the_rows(deep, deep_fx):
    """All terms, with a table or without: their values at all rows are the oracle."""
    x = deep[1]
    parts = {"raw": deep_fx.raw, "uniform": deep_fx.with_density("uniform")}
    found = treeanova.compare({"pure": deep_fx, **parts})
    assert "x0" in str(found)
    table = found.distance.set_index(["decomposition", "term"])
    values = {
        name: dict(zip(part.explain(x).terms, part.explain(x).values.T, strict=True)) for name, part in parts.items()
    }
    explained = deep_fx.explain(x)
    assert len(explained.terms) > len(names_in_tables(deep_fx))
    for name in parts:
        assert set(table.loc[name].index) == set(map(label_of, explained.terms))
        for names, pure in zip(explained.terms, explained.values.T, strict=True):
            gap = np.sqrt(np.mean((values[name].get(names, 0.0) - pure) ** 2))  # trees hold no such term
            row = table.loc[name, label_of(names)]
            assert row["distance"] == pytest.approx(gap, rel=1e-9, abs=1e-12)
            assert row["relative"] == pytest.approx(gap / deep_fx.decision_function(x).std(), rel=1e-6, abs=1e-12)
    higher = [label_of(names) for names in names_at_rows(deep_fx)]
    assert (table.loc["raw"].loc[higher, "relative"] > 0.01).any()
    ranks = found.ranks.set_index("term")
    assert sorted(ranks["pure"]) == list(range(1, len(explained.terms) + 1))


def test_compare_meets_terms_that_only_one_has_as_a_table():
    """The same model, its triples in tables and at rows, pure for independent features in both."""
    tree = pytest.importorskip("sklearn.tree")
    x = np.random.default_rng(0).integers(0, 3, size=(300, 3)).astype(float)
    model = fit(tree.DecisionTreeRegressor(random_state=0), x, x.prod(axis=1))
    dense = treeanova.decompose(model, x, density="independent", tensor_order=3)
    deep = treeanova.decompose(model, x, density="independent", tensor_order=2)
    for parts in (
        {"dense": dense, "deep": deep},
        {"deep": deep, "dense": dense},
        {"deep": deep, "part": dense.drop("x0")},
    ):
        table = treeanova.compare(parts).distance.set_index("term")
        own = dense.term_values(x, ("x0", "x1", "x2"))
        spread = np.sqrt(dense.moments.variance[-1, 0]) if "part" in parts else 0.0
        assert own.std() > 0.1
        assert table.loc["x0 × x1 × x2", "distance"] == pytest.approx(spread, rel=0.1, abs=1e-12)


def test_compare_of_loaded_deep_decompositions_leaves_open_what_needs_rows(deep_fx, tmp_path):
    deep_fx.save(tmp_path / "fx.tav", rows=False)
    again = treeanova.load(tmp_path / "fx.tav")
    table = treeanova.compare({"a": again, "b": again}).distance.set_index("term")["distance"]
    higher = [label_of(names) for names in names_at_rows(deep_fx)]
    assert table.loc[higher].isna().all()
    assert (table.drop(higher) == 0).all()
    with_rows = treeanova.compare({"a": again, "b": deep_fx}).distance.set_index("term")["distance"]
    assert (with_rows < 1e-12).all()


def test_compare_of_two_deep_models_weighs_new_bins_alike(deep):
    """Rows of the first model are within its bins anywhere; the terms of the second are compared on average.

    What rows leave open within the bins changes distances by up to a tenth, by how the trees fall on this machine.
    """
    xgb = pytest.importorskip("xgboost")
    model, x = deep
    other = fit(xgb.XGBRegressor(n_estimators=8, max_depth=4, n_jobs=1), x, np.sin(3 * x[:, 0]) * x[:, 1] * x[:, 2])
    first, second = (treeanova.decompose(one, x, density="empirical") for one in (model, other))
    table = treeanova.compare({"a": first, "b": second}).distance.set_index("term")["distance"]
    for names in [("x0", "x1", "x2"), ("x2", "x3", "x4")]:
        held = second.term_values(x, names) if names in names_at_rows(second) else 0.0
        gap = np.sqrt(np.mean((held - first.term_values(x, names)) ** 2))
        assert gap > 0.01
        assert table[label_of(names)] == pytest.approx(gap, rel=0.15)


# Terms on axes of their own


@pytest.fixture(scope="module")
def own_axes():
    """One model with its pair on fewer bins, and the same with all terms on all bins."""
    effects = pair_on_few_bins()
    rows = rows_of_effects(effects)
    return decompose(effects, rows, n_jobs=1), decompose(on_full_bins(effects), rows, n_jobs=1), rows


def test_distances_to_the_same_model_on_all_bins(own_axes):
    """With the weights of all bins first, distances are those at the rows."""
    coarse, full, rows = own_axes
    table = compare({"full": full, "coarse": coarse}).distance.set_index("term")["distance"]
    for names in full.terms:
        gap = full.term_values(rows, names) - coarse.term_values(rows, names)
        assert table[" × ".join(names)] == pytest.approx(np.sqrt(np.mean(gap**2)), rel=1e-9)
    assert table["x0 × x1"] > 0.01


def test_distances_by_the_weights_of_coarser_axes(own_axes):
    """With the coarse pair first, its weights are shared equally by the bins within each of its own."""
    coarse, full, _ = own_axes
    table = compare({"coarse": coarse, "full": full}).distance.set_index("term")["distance"]
    pair, fine = coarse.terms["x0", "x1"], full.terms["x0", "x1"]
    rows, columns = (bins_within(a, b) for a, b in zip(fine.axes, pair.axes, strict=True))
    total = 0.0
    for i, j in np.ndindex(fine.values.shape):
        cell = rows[i], columns[j]
        share = pair.weights[cell] / (np.count_nonzero(rows == rows[i]) * np.count_nonzero(columns == columns[j]))
        total += share * (fine.values[i, j] - pair.values[cell]) ** 2
    assert table["x0 × x1"] == pytest.approx(np.sqrt(total))


def test_a_comparison_of_equal_axes_and_of_raw_terms(own_axes):
    coarse, _, rows = own_axes
    assert (compare({"a": coarse, "b": coarse}).distance["distance"] == 0).all()
    table = compare({"pure": coarse, "raw": coarse.raw}).distance.set_index("term")["distance"]
    for names in coarse.terms:
        gap = coarse.term_values(rows, names) - coarse.raw.term_values(rows, names)
        assert table[" × ".join(names)] == pytest.approx(np.sqrt(np.mean(gap**2)))


def test_a_comparison_of_different_thresholds_and_axes():
    first = pair_on_few_bins()
    shifted = pair_on_few_bins(seed=2)
    other = Effects(grid_of_sizes([6, 5], start=0.5), shifted.intercept, shifted.terms, shifted.binnings)
    rows = rows_of_effects(first)
    one, two = (decompose(effects, rows, n_jobs=1) for effects in (first, other))
    distances = compare({"one": one, "two": two}).distance.set_index("term")["distance"]
    for names in one.terms:
        assert distances[" × ".join(names)] == pytest.approx(distance_by_hand(one.terms[names], two.terms[names]))


def distance_by_hand(first, second):
    """On the cells between all thresholds of two terms, the weight of each cell of the first shared equally."""
    pairs = list(zip(first.axes, second.axes, strict=True))
    inside = [np.append(np.union1d(a.thresholds, b.thresholds), np.inf) for a, b in pairs]  # upper ends of bins
    cells = np.array(list(itertools.product(*inside)))
    bins = [tuple(axis.index(column) for axis, column in zip(t.axes, cells.T, strict=True)) for t in (first, second)]
    copies = np.zeros(first.weights.shape)
    np.add.at(copies, bins[0], 1)
    squares = (first.values[bins[0]] - second.values[bins[1]]) ** 2
    return np.sqrt(((first.weights / copies)[bins[0]] * squares).sum())


def test_progress_names_the_decompositions(deep_fx):
    told = Recorded()
    compare({"pure": deep_fx, "other": deep_fx.with_density("uniform")}, progress=told)
    at_rows = "terms of high order at rows"
    assert told.stages[-6:-3] == ["other: tables at rows", f"other: {at_rows}", "other: variances at rows"]
    assert told.stages[-3:] == ["tables side by side", at_rows, at_rows]
