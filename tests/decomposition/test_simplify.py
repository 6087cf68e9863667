"""Simplification: known terms are found, losses are those of the chosen models, decompositions are whole."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import scipy.optimize
from sklearn.tree import DecisionTreeRegressor

import treeanova
from tests.support.training import fit
from treeanova.core.progress import quiet
from treeanova.data.features import Labels, Numeric
from treeanova.decomposition.held_out import Question
from treeanova.decomposition.losses import LogLoss, squared_loss
from treeanova.decomposition.strengths import Problem, fit_path, folds_of, judge
from treeanova.model import CategoryAxis, Effects, Feature, Grid, IntervalAxis, Schema


def additive_model(rng, n_features=5, n_bins=12, link="identity"):
    """Main effects of x0 and x1 and a pair of x2 and x3 that are real, and five terms of noise."""
    edges = {f"x{j}": list(np.linspace(-1.5, 1.5, n_bins - 1)) for j in range(n_features)}
    grid = np.linspace(-1.6, 1.6, n_bins)
    tables = {"x0": np.sin(2 * grid), "x1": np.abs(grid), ("x2", "x3"): np.outer(grid, grid)}
    for j in range(2, n_features):
        tables[f"x{j}"] = 0.1 * rng.normal(size=n_bins)
    tables["x0", "x4"] = 0.1 * rng.normal(size=(n_bins, n_bins))
    tables["x1", "x4"] = 0.1 * rng.normal(size=(n_bins, n_bins))
    return Effects.from_tables(tables, thresholds=edges, intercept=0.3, link=link)


REAL = [("x0",), ("x1",), ("x2", "x3")]


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    effects = additive_model(rng)
    fx = treeanova.decompose(effects, X, density="empirical")
    truth = fx.select(terms=REAL).decision_function(X)
    return fx, X, truth + 0.3 * rng.normal(size=len(X))


def test_the_real_terms_are_found(problem):
    fx, X, y = problem
    simple = fx.simplify(X, y, loss="squared")
    assert len(fx) > 6
    assert sorted(simple.chosen.terms) == sorted(REAL)
    assert simple.n_terms == 3


def test_every_model_of_the_path_is_whole(problem, tmp_path):
    fx, X, y = problem
    simple = fx.simplify(X, y, loss="squared")
    for n_terms in simple.path["n_terms"]:
        model = simple.at(int(n_terms))
        assert len(model) == n_terms
        explanation = model.explain(X[:50])
        np.testing.assert_allclose(explanation.values.sum(axis=1) + model.intercept, model.decision_function(X[:50]))
        assert model.certificate.is_pure
        for key in model.terms:  # slices of every term have mean zero
            values, weights = model.terms[key].values, model.terms[key].weights
            for axis in range(weights.ndim):
                np.testing.assert_allclose((values * weights).sum(axis=axis), 0.0, atol=1e-12)
    simple.chosen.save(tmp_path / "simple.tav")
    assert treeanova.load(tmp_path / "simple.tav") == simple.chosen
    assert treeanova.load(tmp_path / "simple.tav").history == simple.chosen.history


def test_what_was_left_out_by_brute_force(problem):
    fx, X, y = problem
    simple = fx.simplify(X, y, loss="squared")
    change = simple.chosen.decision_function(X) - fx.decision_function(X)
    assert simple.largest_change == pytest.approx(np.abs(change).max())
    assert simple.lost_variance == pytest.approx(change.var() / fx.decision_function(X).var())
    assert simple.model_loss == pytest.approx(np.mean((fx.decision_function(X) - y) ** 2))
    rows = np.argsort(-np.abs(change))[: len(simple.changed_rows["row"])]
    assert list(simple.changed_rows["row"]) == rows.tolist()
    np.testing.assert_allclose(simple.changed_rows["change"], change[rows])
    place = list(simple.path["n_terms"]).index(simple.n_terms)
    assert simple.path["r2"][place] == pytest.approx(1 - simple.lost_variance)
    cells = sum(np.unique(simple.chosen.terms[key].values).size for key in simple.chosen.terms)
    assert simple.path["n_cells"][place] >= cells


def test_terms_that_must_stay_or_go(problem):
    fx, X, y = problem
    simple = fx.simplify(X, y, keep=["x3"], drop=["x1"], loss="squared")
    assert ("x3",) in simple.chosen.terms
    assert ("x1",) not in simple.chosen.terms
    assert min(simple.path["n_terms"]) == 1
    assert fx.simplify(X, y, max_terms=2, loss="squared").n_terms <= 2
    with pytest.raises(ValueError, match="`max_terms` must be at least the number of terms in `keep`, 2, got 1"):
        fx.simplify(X, y, keep=["x0", "x1"], max_terms=1, loss="squared")


def test_a_main_effect_has_few_steps(problem):
    fx, X, y = problem
    simple = fx.simplify(X, y, max_steps=4, loss="squared")
    for key in itertools.chain(simple.chosen.terms):
        assert max(simple.chosen.terms[key].values.shape) <= 4


def test_round_cuts_are_round_and_all_else_holds(problem):
    fx, X, y = problem
    simple = fx.simplify(X, y, loss="squared", round_cuts=True, max_steps=6)
    cuts = np.concatenate([axis.thresholds for axis in simple.chosen.grid.axes])
    assert max(len(f"{abs(cut):g}".strip("0").replace(".", "")) for cut in cuts) <= 3
    assert sorted(simple.chosen.terms) == sorted(REAL)
    assert simple.chosen.certificate.is_pure
    for key in simple.chosen.terms:
        term = simple.chosen.terms[key]
        assert max(term.values.shape) <= 6
        for axis in range(term.order):
            np.testing.assert_allclose((term.values * term.weights).sum(axis=axis), 0.0, atol=1e-12)
    [words] = [note for note in simple.notes if note.startswith("cuts:")]
    assert "of the rows to other cells" in words
    change = simple.chosen.decision_function(X) - fx.decision_function(X)
    assert simple.largest_change == pytest.approx(np.abs(change).max())


def test_a_monotone_main_effect(problem):
    fx, X, y = problem
    simple = fx.simplify(X, y, loss="squared", monotone={"x0": 1, "x1": -1}, keep=["x1"])
    assert (np.diff(simple.chosen.terms["x0"].values) > 0).all()
    assert (np.diff(simple.chosen.terms["x1"].values) < 0).all()
    with pytest.raises(ValueError, match="`monotone` must map features of the model to 1 or -1, got 'x9': 1"):
        fx.simplify(X, y, loss="squared", monotone={"x9": 1})


# Strengths and the path, against other ways to compute them.


@pytest.fixture(scope="module")
def terms_at_rows():
    """Rows with four correlated terms, and a yes-or-no outcome."""
    rng = np.random.default_rng(5)
    values = rng.normal(size=(400, 4)) @ (np.eye(4) + 0.4)
    p = 1 / (1 + np.exp(-(0.2 + values @ [0.8, 1.3, 0.0, 0.4])))
    return values, (rng.random(400) < p).astype(float)


def problem_of(values, outcome, loss, **options):
    question = Question([0], loss, "")
    weights = np.ones(len(values))
    return Problem(question, outcome[:, None], weights, None, np.array([0.1]), values[..., None], **options)


@pytest.mark.parametrize("loss", [LogLoss(), squared_loss()])
def test_strengths_minimise_the_loss_with_a_prior_around_one(terms_at_rows, loss):
    values, outcome = terms_at_rows
    path = fit_path(problem_of(values, outcome, loss), [4])

    def slopes_and_curvatures(score):
        if loss.name == "log loss":
            p = 1 / (1 + np.exp(-score))
            return p - outcome, p * (1 - p)
        return 2 * (score - outcome), np.full(400, 2.0)

    slopes, curvatures = slopes_and_curvatures(0.1 + values.sum(axis=1))
    precision = ((slopes[:, None] * values) ** 2).sum() / (curvatures[:, None] * values**2).sum() / 0.15**2

    def penalized(theta):
        score = 0.1 + theta[0] + values @ theta[1:]
        losses = np.logaddexp(0, score) - outcome * score if loss.name == "log loss" else (score - outcome) ** 2
        return losses.sum() + precision / 2 * ((theta[1:] - 1) ** 2).sum()

    best = scipy.optimize.minimize(penalized, [0.0, 1, 1, 1, 1], tol=1e-12).x
    np.testing.assert_allclose(path.strengths[0], best[1:], atol=1e-4)
    np.testing.assert_allclose(path.constants[0, 0], best[0], atol=1e-3)


def test_smaller_models_are_the_nearest_to_the_larger_one(terms_at_rows):
    """With squared error, distances are plain: all subsets are tried by least squares."""
    values, outcome = terms_at_rows
    sizes = [0, 1, 2, 3, 4]
    path = fit_path(problem_of(values, outcome, squared_loss()), sizes)
    reference = values @ path.strengths[4]
    left = list(range(4))
    for size in (3, 2, 1, 0):
        distances, solutions = {}, {}
        for gone in left:
            some = [term for term in left if term != gone]
            columns = np.column_stack([np.ones(400), values[:, some]])
            solution, *_ = np.linalg.lstsq(columns, reference, rcond=None)
            distances[gone] = ((reference - columns @ solution) ** 2).sum()
            solutions[gone] = dict(zip(some, solution[1:], strict=True))
        gone = min(distances, key=distances.get)
        left.remove(gone)
        assert sorted(np.flatnonzero(path.strengths[size])) == left
        np.testing.assert_allclose(path.strengths[size][left], [solutions[gone][term] for term in left], rtol=1e-5)
        score = 0.1 + path.constants[size, 0] + values @ path.strengths[size]
        assert np.mean(score - outcome) == pytest.approx(0, abs=1e-8)  # the best constant


def test_losses_are_those_of_folds_that_were_left_out(terms_at_rows):
    values, outcome = terms_at_rows
    sizes, folds = [0, 1, 2, 3, 4], folds_of(400, 4, None, 7)
    assert np.bincount(folds).tolist() == [100, 100, 100, 100]
    problem = problem_of(values, outcome, squared_loss())
    judgement = judge(problem, sizes, folds, np.ones(5, dtype=bool), quiet)
    losses = np.empty((5, 400))
    for fold in range(4):
        inside = folds == fold
        path = fit_path(problem_of(values[~inside], outcome[~inside], squared_loss()), sizes)
        for i in range(5):
            score = 0.1 + path.constants[i, 0] + values[inside] @ path.strengths[i]
            losses[i, inside] = (score - outcome[inside]) ** 2
    np.testing.assert_allclose(judgement.loss, losses.mean(axis=1))
    differences = losses - losses[losses.mean(axis=1).argmin()]
    np.testing.assert_allclose(judgement.difference, differences.mean(axis=1), atol=1e-15)
    np.testing.assert_allclose(judgement.error, differences.std(axis=1, ddof=1) / 20, atol=1e-15)


def test_the_smallest_model_within_one_standard_error_is_chosen(problem):
    fx, X, y = problem
    rng = np.random.default_rng(3)
    simple = fx.simplify(X[:200], y[:200] + rng.normal(size=200), loss="squared")
    rows = list(zip(*(simple.path[name] for name in ("n_terms", "loss", "difference", "error")), strict=True))
    best = min(loss for _, loss, _, _ in rows)
    assert simple.n_terms == next(n for n, _, difference, error in rows if difference <= error)
    for _, loss, difference, _ in rows:
        assert difference == pytest.approx(loss - best, abs=1e-12)


def test_groups_share_a_fold():
    group = np.random.default_rng(0).integers(0, 40, size=300)
    folds = folds_of(300, 5, group, 0)
    assert all(len(set(folds[group == one])) == 1 for one in set(group))
    assert sorted(set(folds)) == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="`cv` must be at most the number of groups, 40, got 50"):
        folds_of(300, 50, group, 0)


# Losses, outputs, categories, missing values.


def test_log_odds(problem):
    _, X, _ = problem
    rng = np.random.default_rng(6)
    effects = additive_model(rng, link="logit")
    classifier = treeanova.decompose(effects, X, density="empirical")
    score = 2 * classifier.select(terms=REAL).decision_function(X)
    outcome = (rng.random(len(X)) < 1 / (1 + np.exp(-score))).astype(int)
    simple = classifier.simplify(X, outcome, loss="log")
    assert set(REAL) <= set(simple.chosen.terms)
    assert simple.n_terms <= 4
    assert all(strength > 1 for strength in simple.terms["strength"])  # the model is half as strong as it should be
    score = simple.chosen.decision_function(X)
    place = list(simple.path["n_terms"]).index(simple.n_terms)
    assert np.mean(np.logaddexp(0, score) - outcome * score) == pytest.approx(simple.path["loss"][place], rel=0.02)


@pytest.mark.parametrize("loss", ["absolute", "pinball:0.7", "huber:1", "poisson", "cox"])
def test_other_losses(problem, loss):
    fx, X, y = problem
    rng = np.random.default_rng(8)
    outcome = {"poisson": rng.poisson(np.exp(0.5 * y)), "cox": np.exp(-y)}.get(loss, y)
    simple = fx.simplify(X[:1000], outcome[:1000], loss=loss, max_order=1)
    assert {("x0",), ("x1",)} <= set(simple.chosen.terms)
    assert simple.n_terms < 5


def test_categories_and_missing_values():
    sklearn = pytest.importorskip("sklearn.ensemble")
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(9)
    table = pd.DataFrame({"a": rng.normal(size=900), "b": rng.normal(size=900), "c": rng.normal(size=900)})
    table["g"] = pd.Categorical(rng.choice(list("uvwxyz"), 900))
    table.loc[rng.random(900) < 0.2, "a"] = np.nan
    level = table["g"].isin(["u", "w", "y"]).to_numpy()
    y = np.sign(table["a"].fillna(3.0)) + 2.0 * level + 0.3 * rng.normal(size=900)
    model = sklearn.HistGradientBoostingRegressor(max_iter=40, max_leaf_nodes=4, categorical_features="from_dtype")
    fx = treeanova.decompose(fit(model, table[:600], y[:600]), table[:600], density="empirical", max_order=2)
    simple = fx.simplify(table[600:], y[600:], max_steps=2)
    assert {("a",), ("g",)} <= set(simple.chosen.terms)
    values = simple.chosen.terms["g"].values
    assert len(np.unique(values[:6])) == 2  # two groups of categories
    assert values[[0, 2, 4]].min() > values[[1, 3, 5]].max()
    a = simple.chosen.terms["a"]
    assert a.axes[0].n_regular == 2
    score = simple.chosen.decision_function(table[600:])
    explanation = simple.chosen.explain(table[600:])
    np.testing.assert_allclose(explanation.values.sum(axis=1) + simple.chosen.intercept, score)


@pytest.fixture(scope="module")
def mixed():
    """Rows with two numbers, of which one has missing values, and two categories; main effects and all pairs."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(4)
    axes = (
        IntervalAxis("a", -1, np.array([-0.5, 0.5])),
        IntervalAxis("b", 3, np.array([-0.5, 0.5])),
        CategoryAxis("g", -1, tuple("uvw"), -1),
        CategoryAxis("h", -1, tuple("xyz"), -1),
    )
    encoders = (Numeric(), Numeric(), Labels(tuple("uvw")), Labels(tuple("xyz")))
    schema = Schema(
        tuple(Feature(axis.name, encoder) for axis, encoder in zip(axes, encoders, strict=True)), named=True
    )
    keys = [(j,) for j in range(4)] + list(itertools.combinations(range(4), 2))
    terms = {key: rng.normal(size=(*(axes[j].size for j in key), 1)) for key in keys}
    table = pd.DataFrame({"a": rng.normal(size=600), "b": rng.normal(size=600)})
    table["g"], table["h"] = rng.choice(list("uvw"), 600), rng.choice(list("xyz"), 600)
    table.loc[::5, "b"] = np.nan
    fx = treeanova.decompose(Effects(Grid(schema, axes), np.zeros(1), terms), table, density="empirical")
    return fx, table, fx.decision_function(table) + 0.1 * rng.normal(size=600)


@pytest.mark.parametrize("limit", [{"max_steps": 1}, {"min_bin": 0.6}], ids=["one step", "most of the mass"])
@pytest.mark.parametrize("keep", [(), ["a × g"]], ids=["free", "kept"])
def test_a_number_that_may_not_be_divided_has_one_cell_with_a_category(mixed, limit, keep):
    """The mean of a pure term is zero: what is left of `a` and its pairs is nothing."""
    fx, table, y = mixed
    simple = fx.simplify(table, y, loss="squared", keep=keep, **limit)
    chosen = simple.chosen
    assert ("a", "g") in fx.terms
    for names in chosen.terms:
        if "a" in names:
            assert names == ("a", "g")
            np.testing.assert_allclose(chosen.terms[names].values, 0.0, atol=1e-12)
    assert (("a", "g") in chosen.terms) is bool(keep)
    assert chosen.certificate.is_pure
    np.testing.assert_allclose(chosen.explain(table).scores, chosen.decision_function(table), atol=1e-12)


def test_monotone_features_have_an_order_and_signs(mixed):
    fx, table, y = mixed
    for monotone, error, words in [
        ({"g": 1}, ValueError, "`monotone` must name features that have values with an order, got 'g' with categories"),
        ({"a": [1]}, ValueError, r"`monotone` must map features of the model to 1 or -1, got 'a': \[1\]"),
        ({"a": True}, ValueError, "`monotone` must map features of the model to 1 or -1, got 'a': True"),
        ({"a": 2}, ValueError, "`monotone` must map features of the model to 1 or -1, got 'a': 2"),
        ({"z": 1}, ValueError, "`monotone` must map features of the model to 1 or -1, got 'z': 1"),
        (["a"], TypeError, "`monotone` must map features to 1 or -1, got list; for example {'a': 1}"),
    ]:
        with pytest.raises(error, match=words):
            fx.simplify(table, y, loss="squared", monotone=monotone)


def test_a_group_is_a_column_by_name_or_by_its_entries(mixed):
    fx, table, y = mixed
    table = table.assign(person=np.arange(600) // 4)
    by_name = fx.simplify(table, y, loss="squared", group="person")
    by_entries = fx.simplify(table, y, loss="squared", group=table["person"])
    without = fx.simplify(table, y, loss="squared")
    assert list(by_name.path["loss"]) == list(by_entries.path["loss"]) != list(without.path["loss"])
    with pytest.raises(ValueError, match=r"`group` must be a column of X, .* got 'nobody', which X does not have"):
        fx.simplify(table, y, loss="squared", group="nobody")


def test_several_targets_and_functions_are_refused(problem):
    fx, X, y = problem
    with pytest.raises(TypeError, match="`loss` must be a name for simplify"):
        fx.simplify(X, y, loss=lambda score, outcome: (score - outcome) ** 2)
    with pytest.raises(ValueError, match="must know the loss"):
        fx.simplify(X, y)
    with pytest.raises(ValueError, match="`min_bin` must be a share from 0 to below 1, got 2"):
        fx.simplify(X, y, loss="squared", min_bin=2)
    for options in ({"keep": ["x0"], "drop": ["x0"]}, {"keep": ["x2 × x3"], "max_order": 1}):
        with pytest.raises(ValueError, match=f"`keep` must hold terms with a table, .* got '{options['keep'][0]}'"):
            fx.simplify(X, y, loss="squared", **options)
    with pytest.raises(TypeError, match="`keep` must be a list of terms, got 'x0'"):
        fx.simplify(X, y, loss="squared", keep="x0")


def test_the_answer_as_text_and_plain_data(problem):
    fx, X, y = problem
    simple = fx.simplify(X, y, loss="squared")
    text = str(simple)
    assert "3 of" in text
    assert "x2 × x3" in text
    content = simple.to_dict()
    json.dumps(content)
    assert content["n_terms"] == 3
    assert [row["n_terms"] for row in content["path"]] == list(simple.path["n_terms"])
    with pytest.raises(ValueError, match="`n_terms` must be a number of terms of the path"):
        simple.at(1000)


def test_a_rounded_cut_passes_at_most_a_tenth_of_the_lighter_step(problem):
    fx, X, y = problem
    exact, rounded = (
        fx.simplify(X, y, loss="squared", max_order=1, max_steps=5, keep=["x0", "x1"], round_cuts=is_rounded)
        for is_rounded in (False, True)
    )
    for j, name in enumerate(["x0", "x1"]):
        before = exact.chosen.terms[name].axes[0].thresholds
        after = rounded.chosen.terms[name].axes[0].thresholds
        assert len(after) == len(before)
        assert (after != before).any()
        ends = [(X[:, j] <= cut).mean() for cut in before]
        steps = np.diff([0.0, *ends, 1.0])
        bin_mass = max(np.diff([(X[:, j] <= cut).mean() for cut in fx.grid.axes[j].thresholds]))
        for cut, end, lighter in zip(after, ends, np.minimum(steps[:-1], steps[1:]), strict=True):
            # The mass within a bin is taken as spread evenly, which these rows follow roughly.
            assert abs((X[:, j] <= cut).mean() - end) <= 0.1 * lighter + 0.1 * bin_mass


def test_differences_are_to_the_best_of_the_path_even_if_it_may_not_be_chosen(problem):
    fx, X, y = problem
    free, limited = (fx.simplify(X, y, max_terms=n, loss="squared") for n in (None, 1))
    assert limited.n_terms == 1 < free.n_terms
    for name in ("loss", "difference", "error"):
        np.testing.assert_array_equal(limited.path[name], free.path[name])
    np.testing.assert_allclose(limited.path["difference"], limited.path["loss"] - limited.path["loss"].min())


@pytest.mark.parametrize("term", [("x0", "x4"), ("x1", "x4")])
def test_a_weak_term_that_must_stay_has_cells_on_all_axes(problem, term):
    fx, X, y = problem
    chosen = fx.simplify(X, y, keep=[term], loss="squared").chosen
    assert min(chosen.terms[term].values.shape) >= 2
    assert np.ptp(chosen.terms[term].values) > 0
    assert chosen.certificate.is_pure


def test_a_term_that_must_stay_in_one_cell_is_named_and_pure(problem):
    fx, X, y = problem
    simple = fx.simplify(X, y, keep=["x0 × x4"], max_steps=1, loss="squared")
    assert "kept, but zero everywhere: x0 × x4" in simple.notes
    assert np.abs(simple.chosen.terms["x0", "x4"].values).max() < 1e-12
    assert simple.chosen.certificate.is_pure


def test_steps_have_a_share_of_all_rows_where_values_are_missing():
    """Ten steps of equal mass, and half of the rows missing: a step of 8 % of all rows takes two of them."""
    rng = np.random.default_rng(0)
    X = rng.permutation(np.append(np.repeat(np.arange(10.0), 60), np.full(600, np.nan)))[:, None]
    y = np.where(np.isnan(X[:, 0]), -3.0, X[:, 0]) + 0.01 * rng.normal(size=len(X))
    model = fit(DecisionTreeRegressor(max_leaf_nodes=11), X, y)
    simple = treeanova.decompose(model, X, density="empirical").simplify(X, y, min_bin=0.08)
    [term] = simple.chosen.terms.values()
    assert len(term.values) > 2
    assert min(term.weights) >= 0.08
