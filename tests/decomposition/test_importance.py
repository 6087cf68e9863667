"""Importance of terms and features, against values at rows and sums over cells."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import threadpoolctl

import treeanova
from tests.support.decompositions import cell_scores
from tests.support.diamonds import NAMES as STONE_NAMES
from tests.support.diamonds import diamonds
from tests.support.effects import pair_on_few_bins, random_effects, rows_of_effects
from tests.support.recorded import Recorded
from tests.support.simulated import dependent_rows
from tests.support.training import fit
from treeanova.decomposition import importance
from treeanova.decomposition.function import Function
from treeanova.decomposition.importance import strongest_first
from treeanova.density import Laplace, Shrinkage
from treeanova.model.effects import Effects
from treeanova.model.grid import binning_by

tree = pytest.importorskip("sklearn.tree")

NAMES = ("x0", "x1", "x2")
DATA = dependent_rows()
decompose = functools.partial(treeanova.decompose, density="empirical")


def test_importance_of_two_correlated_features_by_hand():
    """f = x0 + x1 on four cells with 3, 1, 1, 3 rows: variances 1/4 each, covariance 1/8, so the score's is 3/4."""
    data = np.array([[0.0, 0]] * 3 + [[0, 1]] + [[1, 0]] + [[1, 1]] * 3)
    model = fit(tree.DecisionTreeRegressor(random_state=0), data, data.sum(axis=1))
    table = decompose(model, data, n_jobs=1).importance().set_index("term")
    for name in ("x0", "x1"):
        found = table.loc[name, ["share", "variance", "covariance", "mean_abs"]].to_list()
        np.testing.assert_allclose(found, [1 / 2, 1 / 3, 1 / 6, 1 / 2], atol=1e-12)
    np.testing.assert_allclose(table.loc["x0 × x1", ["share", "mean_abs"]].to_list(), 0, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_shares_are_those_of_values_at_rows(model, weighted):
    weights = np.random.default_rng(0).exponential(size=300) if weighted else np.ones(300)
    found = decompose(model, DATA, sample_weight=weights if weighted else None, n_jobs=1)
    values = np.stack([found.term_values(DATA, names) for names in found.terms])
    covariances = np.cov(values, aweights=weights, ddof=0)
    total = covariances.sum()
    table = found.importance()
    assert table["variance"].is_monotonic_decreasing
    assert table["share"].sum() == pytest.approx(1.0, abs=1e-12)
    assert (table["variance"] + table["covariance"]).sum() == pytest.approx(1.0, abs=1e-12)
    by_term = table.set_index("term")
    for i, names in enumerate(found.terms):
        row = by_term.loc[" × ".join(names)]
        assert row["order"] == len(names)
        assert row["variance"] == pytest.approx(covariances[i, i] / total, abs=1e-12)
        assert row["covariance"] == pytest.approx((covariances[i].sum() - covariances[i, i]) / total, abs=1e-12)
        assert row["share"] == pytest.approx(row["variance"] + row["covariance"], abs=1e-14)
        assert row["mean_abs"] == pytest.approx(np.average(np.abs(values[i]), weights=weights), abs=1e-12)


def test_shares_of_raw_terms_are_those_of_values_at_rows(fx):
    """Raw terms have means, which count for nothing."""
    raw = fx.raw
    values = np.stack([raw.term_values(DATA, names) for names in raw.terms])
    assert np.abs(values.mean(axis=1)).max() > 1e-3
    covariances = np.cov(values, ddof=0)
    np.testing.assert_allclose(raw._moments.variance[:, 0], np.diag(covariances), atol=1e-12)
    expected = covariances.sum(axis=1) - np.diag(covariances)
    np.testing.assert_allclose(raw._moments.covariance[:, 0], expected, atol=1e-12)


@pytest.mark.parametrize("density", ["independent", "uniform"])
def test_terms_under_a_product_are_uncorrelated(model, density):
    """Variances over all cells of the joint table, which the product allows to write down."""
    found = decompose(model, DATA, density=density, n_jobs=1)
    singles = [found.terms[name].weights for name in NAMES]
    joint = np.einsum("a,b,c->abc", *singles)
    scores = cell_scores(model.predict, found.grid)
    total = (joint * scores**2).sum() - (joint * scores).sum() ** 2
    table = found.importance().set_index("term")
    assert (table["covariance"] == 0).all()
    for names, term in found.terms.items():
        share = (term.weights * term.values**2).sum() / total
        assert table.loc[" × ".join(names), "share"] == pytest.approx(share, abs=1e-12)
    assert table["share"].sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("density", ["independent", "uniform"])
def test_raw_terms_under_a_product_are_correlated(model, density):
    found = decompose(model, DATA, density=density, n_jobs=1)
    joint = np.einsum("a,b,c->abc", *(found.terms[name].weights for name in NAMES))
    scores = cell_scores(model.predict, found.grid)
    total = (joint * scores**2).sum() - (joint * scores).sum() ** 2
    moments = found.raw._moments
    # Draws may stand for the density, so the tolerance is theirs.
    assert (moments.variance + moments.covariance).sum() == pytest.approx(total, rel=0.05)


@pytest.mark.parametrize("form", ["singles", "pair and single"])
def test_importance_under_several_given_tables_is_exact(form):
    """Tables of some features each give the same shares as the one table that they make."""
    rng = np.random.default_rng(0)
    effects = treeanova.model.Effects.from_tables({("a", "b", "c"): rng.normal(size=(3, 4, 2))})
    a, b, c = (rng.dirichlet(np.ones(size)) for size in (3, 4, 2))
    pair = np.outer(a, b) if form == "singles" else rng.dirichlet(np.ones(12)).reshape(3, 4)
    tables = {"a": a, "b": b, "c": c} if form == "singles" else {("a", "b"): pair, "c": c}
    given, whole = (treeanova.decompose(effects, density=density) for density in (tables, np.multiply.outer(pair, c)))
    assert given.density.is_product == (form == "singles")
    for one, other in ((given, whole), (given.raw, whole.raw)):
        shares, expected = (fx.importance().set_index("term") for fx in (one, other))
        np.testing.assert_allclose(shares["share"], expected["share"][shares.index], atol=1e-12)
        np.testing.assert_allclose(shares["mean_abs"], expected["mean_abs"][shares.index], atol=1e-12)


def test_importance_by_feature_shares_terms_equally(fx, several):
    by_term = fx.importance().set_index("term")
    by_feature = fx.importance(by="feature").set_index("feature")
    for measure in ("share", "variance", "covariance", "mean_abs"):
        for name in NAMES:
            expected = sum(by_term.loc[" × ".join(n), measure] / len(n) for n in fx.terms if name in n)
            assert by_feature.loc[name, measure] == pytest.approx(expected, abs=1e-12)
    assert "order" not in by_feature.columns
    for _, own in several.importance(by="feature").groupby("output"):
        assert own["share"].sum() == pytest.approx(1.0, abs=1e-12)
        assert sorted(own["feature"]) == list(NAMES)


def test_importance_of_several_outputs_is_that_of_each(several):
    table = several.importance()
    assert table["output"].drop_duplicates().to_list() == ["u", "v", "w"]
    for k, output in enumerate("uvw"):
        own = table[table["output"] == output].set_index("term")
        values = np.stack([several.term_values(DATA, names)[:, k] for names in several.terms])
        covariances = np.cov(values, ddof=0)
        expected = covariances.sum(axis=1) / covariances.sum()
        np.testing.assert_allclose([own.loc[" × ".join(n), "share"] for n in several.terms], expected, atol=1e-12)
        assert own["variance"].is_monotonic_decreasing


@pytest.mark.parametrize("make", [Laplace, Shrinkage])
def test_shares_under_a_mixture_add_up(model, make):
    found = decompose(model, DATA, density=make(), n_jobs=1)
    assert found.importance()["share"].sum() == pytest.approx(1.0, abs=1e-12)
    assert found.importance().equals(decompose(model, DATA, density=make(), n_jobs=1).importance())


def test_importance_by_something_else_is_refused(fx):
    with pytest.raises(ValueError, match="`by` must be 'term' or 'feature', got 'order'"):
        fx.importance(by="order")


def test_importance_of_no_terms_is_an_empty_table(fx):
    assert len(fx.select(order=3).importance()) == 0


def test_equal_ones_stay_as_they_come():
    assert strongest_first(np.array([1.0, 3.0, 1.0, 3.0, -0.0, 0.0])) == [1, 3, 0, 2, 4, 5]


# Terms at rows and remainders


def test_importance_adds_up_and_has_higher_orders_and_the_remainder(deep, deep_fx):
    model, x = deep
    table = deep_fx.importance()
    assert len(table) == len(deep_fx.terms)
    assert table["share"].sum() == pytest.approx(1)
    values = deep_fx.explain(x)
    by_name = dict(zip(table["term"], table["variance"], strict=True))
    for i, names in enumerate(values.terms[:40:5]):
        expected = values.values[:, i * 5].var() / values.scores.var()
        assert by_name[" × ".join(names)] == pytest.approx(expected, rel=1e-6)
    cut = treeanova.decompose(model, x, density="empirical", max_order=2)
    shares = cut.importance()
    assert shares["share"].sum() == pytest.approx(1)
    row = shares[shares["term"] == "remainder"].iloc[0]
    assert row["order"] == 3
    assert row["variance"] == pytest.approx(cut.remainder(x).var() / cut.decision_function(x).var(), rel=1e-6)
    by_feature = cut.importance("feature")
    assert set(by_feature["feature"]) == {*(f"x{j}" for j in range(6)), "remainder"}
    assert by_feature["share"].sum() == pytest.approx(1)


# Terms that take long at rows


@pytest.fixture
def slow(monkeypatch):
    """Terms without tables at few rows of many, as for large models; numbers of rows that they are evaluated at."""
    monkeypatch.setattr(importance, "_FEW_STEPS", 0)
    monkeypatch.setattr(importance, "_ROWS", (100, 4000))
    n_rows = []
    whole = Function.all_at
    monkeypatch.setattr(Function, "all_at", lambda self, codes: n_rows.append(len(codes)) or whole(self, codes))
    return n_rows


def parts_at(fx, x):
    """Values of all terms, of sums of others and of a remainder at rows, by label."""
    return {label: values for label, values in fx.explain(x).parts.items() if label != "intercept"}


def standard_error(part, score, n_rows):
    """Of the share of a part at n rows: of the product of part and score over the variance of the score."""
    products = (part - part.mean()) * (score - score.mean())
    return products.std() / score.var() / np.sqrt(n_rows)


def names_of_others(fx):
    """Labels of the parts that have no tables."""
    listed = [" × ".join(names) for names, term in fx.terms.items() if not term.has_table]
    rests = [f"other terms of order {order}" for order in fx._function.unlisted_orders]
    return listed + rests + ["remainder"] * fx.has_remainder


def assert_near(fx, x, n_rows):
    """Shares of tables are exact; others have errors of few rows, whose sum is shared out among them by variance."""
    table, parts, others = fx.importance().set_index("term"), parts_at(fx, x), names_of_others(fx)
    score = sum(parts.values())
    assert set(table.index) == set(parts)
    assert table["share"].sum() == pytest.approx(1.0, abs=1e-12)
    error_of_sum = standard_error(sum(parts[label] for label in others), score, n_rows)
    total = sum(parts[label].var() for label in others)
    for label, values in parts.items():
        share = np.cov(values, score, bias=True)[0, 1] / score.var()
        error = standard_error(values, score, n_rows) + values.var() / total * error_of_sum
        assert table.loc[label, "share"] == pytest.approx(share, abs=4 * error if label in others else 1e-9), label
        if label not in others:
            assert table.loc[label, "variance"] == pytest.approx(values.var() / score.var(), rel=1e-9)


@pytest.mark.parametrize("max_order", [None, 2, pytest.param(3, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("error", [0.0, 1.0])
def test_shares_at_few_rows_are_those_at_all_but_for_their_error(slow, deep, monkeypatch, max_order, error):
    monkeypatch.setattr(importance, "_ERROR", error)
    model, x = deep
    fx = treeanova.decompose(model, x, density="empirical", n_jobs=1, max_order=max_order)
    slow.clear()
    assert_near(fx, x, 100 if error else 800)
    assert slow == ([100] if error else [100, 100, 200, 400])


def test_rows_are_added_until_the_error_is_small(slow, deep, monkeypatch):
    errors = iter([0.5, 0.3, 0.1])
    monkeypatch.setattr(importance, "_error_of_shares", lambda values, n_tables: next(errors))
    monkeypatch.setattr(importance, "_ERROR", 0.2)
    fx = treeanova.decompose(*deep, density="empirical")
    slow.clear()
    assert_near(fx, deep[1], 400)
    assert slow == [100, 100, 200]


def test_the_error_is_that_of_the_most_uncertain_share_without_a_table():
    values = np.random.default_rng(0).normal(size=(5, 300, 1)) * np.array([9.0, 1.0, 2.0, 3.0, 1.0])[:, None, None]
    score = values[..., 0].sum(axis=0)
    expected = max(standard_error(part, score, 300) for part in values[1:, :, 0])
    assert importance._error_of_shares(values.swapaxes(0, 1), 1) == pytest.approx(expected)
    assert standard_error(values[0, :, 0], score, 300) > 2 * expected  # of a table, whose share is exact


def test_sorted_rows_do_not_bias_shares(slow, deep, deep_fx, monkeypatch):
    """The first third are those at which a term and the score go together least."""
    monkeypatch.setattr(importance, "_ERROR", 1.0)
    monkeypatch.setattr(importance, "_ROWS", (500, 4000))
    model, x = deep
    term, score = deep_fx.term_values(x, ("x2", "x3", "x4")), deep_fx.decision_function(x)
    x = x[np.argsort(term * (score - score.mean()))]
    fx = treeanova.decompose(model, x, density="empirical", n_jobs=1)
    slow.clear()
    assert_near(fx, x, 500)
    assert slow == [500]


def test_weighted_rows_are_all_used(slow, deep):
    model, x = deep
    weights = np.random.default_rng(0).exponential(size=len(x))
    fx = treeanova.decompose(model, x, density="empirical", sample_weight=weights, n_jobs=1)
    slow.clear()
    table = fx.importance().set_index("term")
    assert slow == [len(x)]
    parts = parts_at(fx, x)
    covariances = np.cov(np.stack(list(parts.values())), aweights=weights, ddof=0)
    expected = covariances.sum(axis=1) / covariances.sum()
    np.testing.assert_allclose([table.loc[label, "share"] for label in parts], expected, atol=1e-9)


def test_sums_of_other_terms_have_shares_at_few_rows(slow, deep, monkeypatch):
    monkeypatch.setattr("treeanova.terms.costs.LISTED_TERMS", 3)
    monkeypatch.setattr(importance, "_ERROR", 1.0)
    fx = treeanova.decompose(*deep, density="empirical", n_jobs=1)
    assert fx._function.unlisted_orders
    slow.clear()
    assert_near(fx, deep[1], 100)
    assert slow == [100]


@pytest.mark.parametrize("max_order", [None, 2])
def test_pure_terms_of_independent_features_are_uncorrelated(triple, max_order):
    model, rows = triple
    deep = treeanova.decompose(model, rows, density="independent", tensor_order=2, max_order=max_order)
    dense = treeanova.decompose(model, rows, density="independent", tensor_order=3)
    found, expected = (fx.importance().set_index("term") for fx in (deep, dense))
    assert (found["covariance"] == 0).all()
    for name in ("a", "a × b"):
        assert found["mean_abs"][name] == pytest.approx(expected["mean_abs"][name], rel=1e-9)
        assert found["variance"][name] == pytest.approx(expected["variance"][name], rel=0.1)


def test_centred_raw_terms_do_not_pass_for_uncorrelated():
    tree = pytest.importorskip("sklearn.tree").DecisionTreeRegressor
    forest = pytest.importorskip("sklearn.ensemble").RandomForestRegressor
    table = np.array([[i, j] for i in (0, 1) for j in (0, 1)] * 50, dtype=float)
    a, b = table.T
    model = fit(forest(n_estimators=2), table, a)
    model.estimators_ = [fit(tree(max_depth=1), table, 2 * a - 1), fit(tree(max_depth=2), table, 4 * a * b + 1e-4 * a)]
    found = treeanova.decompose(model, table, density="uniform").raw.truncate(1).importance()
    main, rest = (2 * a - 1) / 2, 4 * a * b / 2
    total = np.var(main + rest)  # the 1e-4 only has the second tree ask for x0 first
    share = (np.var(main) + np.cov(main, rest, bias=True)[0, 1]) / total
    shares = dict(zip(found["term"], found["share"], strict=True))
    assert shares["x0"] == pytest.approx(share, abs=0.03)  # at drawn rows; 0.25 without the covariance
    assert shares["x0"] + shares["remainder"] == pytest.approx(1.0)


# Terms on axes of their own


@pytest.mark.parametrize("seed", range(4))
def test_importance_of_terms_on_their_own_axes_is_that_of_values_at_rows(seed):
    effects = random_effects(np.random.default_rng(seed), sizes=(5, 4, 3), n_outputs=1, share_of_terms=0.8)
    rows = rows_of_effects(effects, seed=seed)
    found = decompose(effects, rows, n_jobs=1)
    for part in (found, found.raw):
        values = np.stack([part.term_values(rows, names) for names in part.terms])
        covariances = np.cov(values, ddof=0)
        np.testing.assert_allclose(part._moments.variance[:, 0], np.diag(covariances), atol=1e-10)
        expected = covariances.sum(axis=1) - np.diag(covariances)
        np.testing.assert_allclose(part._moments.covariance[:, 0], expected, atol=1e-10)
        np.testing.assert_allclose(part._moments.mean_abs[:, 0], np.abs(values).mean(axis=1), atol=1e-10)
        assert part.importance()["share"].sum() == pytest.approx(1.0)


@pytest.mark.parametrize("density", ["auto", "kernel"])
def test_importance_where_axes_of_mains_and_pairs_cross(density):
    """Neither refines the other before purification, and pairs have tables of their own under these densities."""
    effects = pair_on_few_bins()
    halves = binning_by(np.array([0, 1, 1, 1, 1, 1]))
    terms = {**effects.terms, (0,): np.array([[-1.0], [2.0]])}
    crossed = Effects(effects.grid, effects.intercept, terms, {**effects.binnings, (0,): (halves,)})
    rows = rows_of_effects(effects)
    found = decompose(crossed, rows, density=density, n_jobs=1)
    assert found.terms["x0"].values.shape == (4,)
    for part in (found, found.raw):
        table = part.importance()
        assert np.isfinite(table[["variance", "covariance", "share", "mean_abs"]].to_numpy()).all()
        assert table["share"].sum() == pytest.approx(1.0)


# Terms that oppose others


STONES, PRICE = diamonds()


@pytest.fixture(scope="module")
def diamond_model():
    xgboost = pytest.importorskip("xgboost")
    return fit(xgboost.XGBRegressor(n_estimators=150, max_depth=2, learning_rate=0.2, n_jobs=1), STONES, PRICE)


@pytest.fixture(scope="module")
def diamond_fx(diamond_model):
    return treeanova.decompose(diamond_model, STONES, density="empirical", n_jobs=1)


@pytest.fixture(scope="module")
def explained(diamond_fx):
    """Values of terms at the rows, by label."""
    found = diamond_fx.explain(STONES)
    return {" × ".join(names): found.values[:, i] for i, names in enumerate(found.terms)}


@pytest.fixture(scope="module")
def expected(explained):
    """Labels by the variance of what the terms add to the rows, largest first."""
    return sorted(explained, key=lambda label: -np.var(explained[label]))


def test_the_copy_has_the_structure_of_the_original(diamond_fx, explained):
    """Two strong terms have negative shares, by which they would come last."""
    shares = diamond_fx.importance().set_index("term")["share"]
    score = sum(explained.values())
    for name in ("clarity", "color"):
        covariance = np.cov(explained[name], score, bias=True)[0, 1]
        assert shares[name] == pytest.approx(covariance / np.var(score), abs=1e-9)
    assert set(shares.sort_values().index[:2]) == {"clarity", "color"}
    assert shares["clarity"] < -0.02


def test_terms_that_oppose_others_are_not_buried(diamond_fx, diamond_model, expected):
    table = diamond_fx.importance()
    assert list(table["term"]) == expected
    ranks = {name: rank for rank, name in enumerate(table["term"], start=1)}
    assert max(ranks["clarity"], ranks["color"]) <= 6
    by_feature = list(diamond_fx.importance("feature")["feature"])
    rows = pytest.importorskip("xgboost").DMatrix(STONES)
    contributions = diamond_model.get_booster().predict(rows, pred_contribs=True)[:, :-1]
    by_shap = [STONE_NAMES[j] for j in np.argsort(-np.abs(contributions).mean(axis=0))]
    assert set(by_feature[:6]) == set(by_shap[:6])
    assert abs(by_feature.index("clarity") - by_shap.index("clarity")) <= 1


def test_without_a_term_the_squared_error_grows_by_its_own_variance(diamond_fx, explained):
    """What the order means, on the rows that the diamond_model was fitted to."""
    table = diamond_fx.importance().set_index("term")
    score = diamond_fx.decision_function(STONES)
    error = np.mean((PRICE - score) ** 2)
    for name in expected_mains(table):
        grown = np.mean((PRICE - score + explained[name]) ** 2) - error
        by_fit = 2 * np.mean((PRICE - score) * explained[name])  # nothing where the model fits as well as it can
        variance = table.loc[name, "variance"] * np.var(score)
        assert grown - by_fit == pytest.approx(variance, rel=1e-9)
        assert abs(by_fit) < 0.3 * variance


def expected_mains(table):
    """Main effects strong enough to be measured."""
    return [name for name in table.index if table.loc[name, "order"] == 1 and table.loc[name, "variance"] > 1e-3]


def test_features_rank_by_equal_parts_of_their_terms_variances(diamond_fx, explained):
    own = dict.fromkeys(STONE_NAMES, 0.0)
    for label, values in explained.items():
        names = label.split(" × ")
        for name in names:
            own[name] += np.var(values) / len(names)
    assert list(diamond_fx.importance("feature")["feature"]) == sorted(own, key=lambda name: -own[name])


def test_ranks_of_comparisons_are_the_same(diamond_fx, expected):
    ranks = treeanova.compare({"one": diamond_fx, "raw": diamond_fx.raw}).ranks.set_index("term")["one"]
    assert [ranks[label] for label in expected] == list(range(1, len(expected) + 1))


@pytest.mark.parametrize(
    ("density", "last"), [("empirical", "covariances of tables"), ("uniform", "variances of tables")]
)
def test_progress_says_what_takes_the_time(fx, density, last):
    told = Recorded()
    fx.with_density(density).importance(progress=told)
    assert told.stages[0] == "variances of tables"
    assert told.stages[-1] == last


def test_importance_of_families_by_brute_force_on_rows(fx):
    groups = {"pair": ["x0", "x1"]}
    rows = dependent_rows()
    explained = fx.explain(rows).by_family(groups)
    score = fx.decision_function(rows)
    table = fx.importance(groups=groups).set_index("term")
    assert table["share"].sum() == pytest.approx(1.0, abs=1e-12)
    for label, values in explained.parts.items():
        found = table.loc[label]
        assert found["variance"] == pytest.approx(values.var() / score.var(), abs=1e-10)
        assert found["share"] == pytest.approx(np.cov(values, score, ddof=0)[0, 1] / score.var(), abs=1e-10)
        assert found["mean_abs"] == pytest.approx(np.abs(values).mean(), abs=1e-10)
    assert table["order"].to_dict() == {"pair": 1, "x2": 1, "pair × x2": 2}
    by_feature = fx.importance("feature", groups=groups).set_index("feature")
    half = table.loc["pair × x2", "variance"] / 2
    assert by_feature["variance"].to_dict() == pytest.approx(
        {"pair": table.loc["pair", "variance"] + half, "x2": table.loc["x2", "variance"] + half}
    )


def test_families_of_one_feature_each_are_the_features(several):
    groups = {f"family {j}": [f"x{j}"] for j in range(3)}
    plain, found = several.importance(), several.importance(groups=groups)
    assert found["term"].str.replace("family ", "x").tolist() == plain["term"].tolist()
    assert np.allclose(found.iloc[:, 3:], plain.iloc[:, 3:], rtol=0, atol=1e-14)


def test_families_under_independent_features_add_variances(fx):
    independent = fx.with_density("independent")
    plain = independent.importance().set_index("term")["variance"]
    found = independent.importance(groups={"pair": ["x0", "x1"]}).set_index("term")
    assert found.loc["pair", "variance"] == pytest.approx(plain[["x0", "x1", "x0 × x1"]].sum())
    assert np.abs(found["covariance"]).max() < 1e-14


def test_families_of_deep_models_keep_the_remainder(deep_fx):
    table = deep_fx.truncate(2).importance(groups={"first": ["x0", "x1", "x2"]})
    assert table["share"].sum() == pytest.approx(1.0, abs=1e-12)
    assert table.set_index("term").loc["remainder", "order"] == 3


@pytest.mark.parametrize("size", [1e155, 1e250])
def test_scores_too_large_to_be_squared_are_refused(size, tmp_path):
    data = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    fx = decompose(fit(tree.DecisionTreeRegressor(random_state=0), data, size * data.sum(axis=1)), data, n_jobs=1)
    with pytest.raises(ValueError, match=r"between 1e-140 and 1e\+140 for variances, got .*another unit"):
        fx.importance()
    fx.save(tmp_path / "large.tav")
    assert treeanova.load(tmp_path / "large.tav").intercept == pytest.approx(size)


@pytest.mark.parametrize("size", [1e-100, 1.0, 1e100])
def test_shares_do_not_depend_on_the_unit(size):
    effects = pair_on_few_bins()
    rows = rows_of_effects(effects)
    terms = {key: values * size for key, values in effects.terms.items()}
    scaled = Effects(effects.grid, effects.intercept * size, terms, effects.binnings)
    shares = [np.asarray(decompose(each, rows, n_jobs=1).importance()["share"]) for each in (effects, scaled)]
    np.testing.assert_allclose(shares[1], shares[0], atol=1e-12)


@pytest.mark.parametrize("density", ["auto", pytest.param("empirical", marks=pytest.mark.thorough)])
def test_blas_has_one_thread_and_cannot_change_a_digit(density, monkeypatch):
    data = np.random.default_rng(0).normal(size=(2000, 3)) + np.random.default_rng(1).normal(size=(2000, 1))
    model = fit(tree.DecisionTreeRegressor(max_leaf_nodes=200, random_state=0), data, data.prod(axis=1))
    n_threads, moments_of = set(), importance.moments_of_terms

    def watched(*args, **kwargs):
        found = threadpoolctl.threadpool_info()
        n_threads.update(one["num_threads"] for one in found if one["user_api"] == "blas")
        return moments_of(*args, **kwargs)

    monkeypatch.setattr("treeanova.decomposition.answers.moments_of_terms", watched)
    tables = []
    for limit in (1, 2):
        with threadpoolctl.threadpool_limits(limit, user_api="blas"):
            fx = treeanova.decompose(model, data, density=density, n_jobs=1)
            tables.append(fx.importance())
    assert n_threads == {1}
    for column in ("share", "variance", "covariance", "mean_abs"):
        assert tables[0][column].to_numpy().tobytes() == tables[1][column].to_numpy().tobytes()
