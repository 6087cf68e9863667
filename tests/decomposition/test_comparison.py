"""Comparisons: distances, signs and ranks by hand, for tables and for terms at rows."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import treeanova
from tests.support.decompositions import as_matrix, names_at_rows, names_in_tables
from tests.support.effects import grid_of_sizes, on_full_bins, pair_on_few_bins, rows_of_effects
from tests.support.forests import random_forest, stumps
from tests.support.recorded import Recorded
from tests.support.simulated import dependent_rows
from tests.support.strategies import seeds
from tests.support.training import fit
from treeanova import compare
from treeanova.core.arrays import label_of
from treeanova.data.features import Feature, Labels
from treeanova.model.effects import Effects

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
    assert found.signs["second"].to_list() == [pytest.approx(0.25)]
    # Pure values: -3/4 and 1/4 against -1/2 and 1/2.
    squares = 0.25 * 0.25**2 + 0.25 * 0.75**2 + 0.5 * 0.25**2
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
    for text in ("Compared with pure", "Δ raw", "rank pure", "rank raw", "sign raw", "x0 × x1"):
        assert text in printed


def test_what_cannot_be_compared_is_refused(fx, several):
    with pytest.raises(ValueError, match="must hold at least two, got 1; add"):
        compare({"only": fx})
    with pytest.raises(ValueError, match=r"got score \(identity\) and u, v, w \(softmax\)"):
        compare({"one": fx, "three": several})
    with pytest.raises(TypeError, match="must map names to decompositions, got list"):
        compare([fx, fx.raw])


# Terms at rows


@pytest.mark.thorough
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
        spread = np.sqrt(dense._moments.variance[-1, 0]) if "part" in parts else 0.0
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


# Terms on axes of their own


@pytest.fixture(scope="module")
def own_axes():
    """One model with its pair on fewer bins, and the same with all terms on all bins."""
    effects = pair_on_few_bins()
    rows = rows_of_effects(effects)
    return decompose(effects, rows, n_jobs=1), decompose(on_full_bins(effects), rows, n_jobs=1), rows


def test_distances_to_the_same_model_on_all_bins(own_axes):
    coarse, full, rows = own_axes
    for parts in ({"full": full, "coarse": coarse}, {"coarse": coarse, "full": full}):
        table = compare(parts).distance.set_index("term")["distance"]
        for names in full.terms:
            gap = full.term_values(rows, names) - coarse.term_values(rows, names)
            assert table[" × ".join(names)] == pytest.approx(np.sqrt(np.mean(gap**2)), rel=1e-9)
        assert table["x0 × x1"] > 0.01


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
    assert_distances_at_rows(one, two, [(rows, None)])


# Any two models


def distances_at_rows(one, two, lots):
    """Root mean squares of differences at lots of rows with weights, each lot with an equal part of the weight."""
    found = {}
    for names in {**one.terms, **two.terms}:
        squares = []
        for rows, weights in lots:
            first, second = (as_matrix(fx.term_values(rows, names)) if names in fx.terms else 0.0 for fx in (one, two))
            squares.append(np.average((first - second) ** 2 * np.ones((len(rows), 1)), axis=0, weights=weights))
        for output, square in zip(one.outputs, np.mean(squares, axis=0), strict=True):
            found[label_of(names), output] = np.sqrt(square)
    return found


def distances_of(parts, **options):
    table = compare(parts, **options).distance
    return {(row.term, row.output): row.distance for row in table.itertuples()}


def assert_distances_at_rows(one, two, lots):
    there, back = distances_of({"one": one, "two": two}), distances_of({"two": two, "one": one})
    expected = distances_at_rows(one, two, lots)
    assert there.keys() == back.keys() == expected.keys()
    for key, distance in expected.items():
        assert there[key] == pytest.approx(back[key], rel=1e-12, abs=1e-300)
        assert there[key] == pytest.approx(distance, rel=1e-6, abs=1e-12)


def random_rows(rng, n_rows, letters):
    """Dependent rows of two numbers, of which many are missing, a whole number and a letter."""
    common = rng.normal(size=n_rows)
    rows = np.empty((n_rows, 4), dtype=object)
    rows[:, 0] = np.where(rng.random(n_rows) < 0.5, np.nan, (common + rng.normal(size=n_rows)).round(1))
    rows[:, 1] = np.where(common > 0, np.nan, rng.normal(size=n_rows))
    rows[:, 2] = rng.integers(0, 4, size=n_rows).astype(float)
    rows[:, 3] = [letters[int(code) % len(letters)] for code in np.abs(2 * common + rng.normal(size=n_rows))]
    return rows


def random_model(rng, letters):
    """A forest of random thresholds and sets of letters."""
    features = [Feature("a"), Feature("b"), Feature("c"), Feature("k", Labels(tuple(letters)))]
    bounds = rng.normal(size=5).round(1).tolist()
    return random_forest(rng, max_depth=3, max_trees=5, n_outputs=1, bounds=bounds, features=features)


def check_a_random_pair(seed):
    """Other thresholds, other numbers of the same letters, rows of its own in every second pair, weights in some."""
    rng = np.random.default_rng(seed)
    letters = list("pqrs")
    models = [random_model(rng, rng.permutation(letters)) for _ in range(2)]
    lots = [random_rows(rng, int(rng.integers(50, 300)), letters) for _ in range(2)]
    if seed % 2:
        lots[1] = lots[0]
    weights = [rng.random(len(rows)) if seed % 3 == 0 else None for rows in lots]
    options = {"density": ["empirical", "auto", "independent"][seed % 3], "tensor_order": 2 + seed % 2, "n_jobs": 1}
    one, two = (
        treeanova.decompose(model, rows, sample_weight=weight, **options)
        for model, rows, weight in zip(models, lots, weights, strict=True)
    )
    assert_distances_at_rows(one, two, list(zip(lots, weights, strict=True)))


@pytest.mark.parametrize("seed", seeds(100, quick=6))
def test_distances_of_random_models_are_those_at_the_rows(seed):
    check_a_random_pair(seed)


@pytest.mark.filterwarnings("ignore:Missing values detected")
def test_distances_of_trained_models_are_those_at_the_rows():
    """Libraries that choose their thresholds in different ways, on a table with many missing values."""
    xgboost = pytest.importorskip("xgboost")
    ensemble = pytest.importorskip("sklearn.ensemble")
    interpret = pytest.importorskip("interpret.glassbox")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 3)) + rng.normal(size=(800, 1))
    y = x[:, 0] * x[:, 1] + np.sin(3 * x[:, 2])
    x[rng.random(x.shape) < 0.6] = np.nan
    models = [
        xgboost.XGBRegressor(n_estimators=20, max_depth=2, n_jobs=1),
        ensemble.HistGradientBoostingRegressor(max_iter=20, max_depth=2, random_state=0),
        interpret.ExplainableBoostingRegressor(
            feature_names=["x0", "x1", "x2"], interactions=2, outer_bags=2, max_rounds=50, n_jobs=1, random_state=0
        ),
    ]
    decomposed = [treeanova.decompose(fit(model, x, y), x, n_jobs=1) for model in models]
    for one, two in itertools.combinations(decomposed, 2):
        assert_distances_at_rows(one, two, [(x, None), (x, None)])


def test_given_rows_take_the_place_of_those_of_the_decompositions(fx, other_model):
    other = decompose(other_model, DATA, n_jobs=1)
    rows, weights = DATA[:50] + 0.1, np.arange(1.0, 51.0)
    found = distances_of({"one": fx, "two": other}, X=rows, sample_weight=weights)
    expected = distances_at_rows(fx, other, [(rows, weights)])
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
    with pytest.raises(ValueError, match="`sample_weight` must come with the rows"):
        compare({"one": fx, "two": other}, sample_weight=weights)


def stumps_of(bounds, **options):
    return stumps([Feature("x", **options)], [(0, bound, True) for bound in bounds])


def test_rows_that_one_model_refuses_are_left_out():
    rows = np.array([[-1.0], [0.5], [2.0], [np.nan]])
    accepts = decompose(stumps_of([0.0, 1.5]), rows, n_jobs=1)
    refuses = decompose(stumps_of([1.0], accepts_missing=False), rows[:3], n_jobs=1)
    assert_distances_at_rows(accepts, refuses, [(rows[:3], None), (rows[:3], None)])


def test_a_file_without_values_leaves_distances_open_where_bins_are_divided(tmp_path):
    """Rows are known by their bins of the file, which the other model divides; rows with values decide alone."""
    rows = np.array([[-1.0], [0.5], [0.7], [2.0], [3.0]])
    fine, coarse = (decompose(stumps_of(bounds), rows, n_jobs=1) for bounds in ([0.0, 0.6, 1.0], [0.0]))
    loaded = {}
    for name, one in (("fine", fine), ("coarse", coarse)):
        one.save(tmp_path / name)
        loaded[name] = treeanova.load(tmp_path / name)
    expected = distances_at_rows(fine, coarse, [(rows, None)])
    # The rows of the finer file have certain bins in the coarser model, and those of the coarser file have none in it.
    assert distances_of({"a": loaded["coarse"], "b": loaded["fine"]}) == pytest.approx(expected)
    assert distances_of({"a": loaded["coarse"], "b": fine}) == pytest.approx(expected)
    other = decompose(stumps_of([0.6]), rows, n_jobs=1)
    other.save(tmp_path / "other")
    parts = {"a": loaded["coarse"], "b": treeanova.load(tmp_path / "other")}
    found = compare(parts)
    assert found.distance["distance"].isna().all()
    assert "b: 1 of 1 terms cannot be compared" in str(found)
    assert distances_of(parts, X=rows) == pytest.approx(distances_at_rows(coarse, other, [(rows, None)]))


def test_weights_of_cells_serve_where_there_are_no_rows():
    """Uniform over three bins: the distance of the same bins follows from the weights, that of others is open."""
    models = [Effects.from_tables({"x": values}, thresholds={"x": [0.0, 1.0]}) for values in ([0, 0, 3], [0, 3, 0])]
    one, two = (treeanova.decompose(effects, density="uniform") for effects in models)
    assert distances_of({"one": one, "two": two}) == {("x", "score"): pytest.approx(np.sqrt(6))}
    divided = Effects.from_tables({"x": [0, 3]}, thresholds={"x": [0.5]})
    open_ = compare({"one": one, "three": treeanova.decompose(divided, density="uniform")})
    assert open_.distance["distance"].isna().all()
    [note] = open_.notes
    assert note.startswith(
        "three: 1 of 1 terms cannot be compared, because no rows are known by their values; pass the"
    )


def test_signs_without_rows_are_weighted_by_cells():
    """Only the second of four bins has the other sign, a quarter of the weight, and not the first."""
    tables = {"one": [-3.0, 1.0, 1.0, 1.0], "two": [-3.0, -1.0, 2.0, 2.0]}
    members = {
        name: treeanova.decompose(Effects.from_tables({"a": table}), density="uniform")
        for name, table in tables.items()
    }
    assert list(compare(members).signs["two"]) == [0.25]
    assert list(compare(dict(reversed(members.items()))).signs["one"]) == [0.25]


def test_categories_that_one_model_has_not_seen():
    """A row of an unseen letter may be one that only the other model knows: its rows say nothing of that feature."""
    narrow, wide = (stumps([Feature("k", Labels(tuple(k)))], [(0, {0}, True)]) for k in ("pq", "rqp"))
    known, unknown = np.array([["p"], ["q"], ["q"]], dtype=object), np.array([["p"], ["r"]], dtype=object)
    two = decompose(wide, unknown, n_jobs=1)
    assert_distances_at_rows(decompose(narrow, known, n_jobs=1), two, [(known, None), (unknown, None)])
    assert_distances_at_rows(decompose(narrow, unknown, n_jobs=1), two, [(unknown, None)])


def test_progress_names_the_decompositions(deep_fx):
    told = Recorded()
    compare({"pure": deep_fx, "other": deep_fx.with_density("uniform")}, progress=told)
    at_rows = "terms of high order at rows"
    assert told.stages[-7:-4] == ["other: tables at rows", f"other: {at_rows}", "other: variances at rows"]
    assert told.stages[-4:] == ["tables at rows", "tables at rows", at_rows, at_rows]
