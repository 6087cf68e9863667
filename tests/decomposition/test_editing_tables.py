"""Edits of tables: scores change by the new minus the old value, terms are pure again, and nearest where it is said."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import scipy.optimize
from hypothesis import example, given, settings
from hypothesis import strategies as st

import treeanova
from tests.support.decompositions import assert_pure
from tests.support.effects import random_effects
from tests.support.simulated import dependent_rows
from treeanova.data.features import Labels
from treeanova.decomposition.edited_tables import monotone_curves, smoothed
from treeanova.model import CategoryAxis, Effects, Feature, Grid, IntervalAxis, Schema

ROWS = dependent_rows(400, seed=3)


def axis_of(name, n_bins, missing_bin=-1):
    return IntervalAxis(name, missing_bin, np.linspace(-1.5, 1.5, n_bins - 1).round(3))


def additive(n_outputs=1, seed=0):
    """Main effects and all pairs of three features of 7, 6 and 4 bins, at random."""
    rng = np.random.default_rng(seed)
    axes = tuple(axis_of(f"x{j}", size) for j, size in enumerate((7, 6, 4)))
    outputs = ("score",) if n_outputs == 1 else tuple("uvw")
    schema = Schema(tuple(Feature(axis.name, accepts_missing=False) for axis in axes), outputs)
    keys = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    terms = {key: rng.normal(size=(*(axes[j].size for j in key), n_outputs)) / len(key) for key in keys}
    return Effects(Grid(schema, axes), rng.normal(size=n_outputs), terms)


@pytest.fixture(scope="module")
def model():
    return additive()


@pytest.fixture(scope="module")
def fx(model):
    return treeanova.decompose(model, dependent_rows(), density="empirical", n_jobs=1)


@pytest.fixture(scope="module")
def several():
    return treeanova.decompose(additive(3), dependent_rows(), density="empirical", n_jobs=1)


@pytest.fixture(scope="module")
def mixed():
    """A number with missing values and a category that depend on each other: the model, rows, and decomposition."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    axes = (axis_of("age", 6, missing_bin=6), CategoryAxis("kind", -1, ("u", "v", "w"), -1))
    schema = Schema(
        (Feature("age"), Feature("kind", Labels(("u", "v", "w")), accepts_missing=False, accepts_unseen=False))
    )
    terms = {(0,): rng.normal(size=(7, 1)), (1,): rng.normal(size=(3, 1)), (0, 1): rng.normal(size=(7, 3, 1))}
    effects = Effects(Grid(schema, axes), np.zeros(1), terms)
    table = pd.DataFrame({"age": rng.normal(size=400)})
    table["kind"] = np.where(table["age"] + rng.normal(size=400) > 0.3, "u", rng.choice(["v", "w"], 400))
    table.loc[::5, "age"] = np.nan
    return effects, table, treeanova.decompose(effects, table, density="empirical", n_jobs=1)


def change(edited, fx, rows=ROWS):
    return edited.decision_function(rows) - fx.decision_function(rows)


def at_rows(fx, key, table, rows=ROWS):
    """A table over the bins of a term, at rows: looked up bin by bin."""
    axes = fx.terms[key].axes
    names = list(fx.feature_names_in_)
    bins = [axis.index(np.asarray(rows, dtype=float)[:, names.index(axis.name)]) for axis in axes]
    return table[tuple(bins)]


def assert_whole(edited, rows=ROWS):
    """Terms are pure by plain sums, and add up to the score."""
    assert_pure(edited)
    assert edited.certificate.is_pure
    for names in edited.terms:
        term = edited.terms[names]
        weights = term.weights[(...,) + (None,) * (term.values.ndim - term.weights.ndim)]
        for axis in range(term.order):
            np.testing.assert_allclose((term.values * weights).sum(axis=axis), 0.0, atol=1e-12)
    explained = edited.explain(rows)
    np.testing.assert_allclose(explained.scores, edited.decision_function(rows), atol=1e-10)


EDITS = {
    "set a number": (lambda fx, key: fx.set(key, 0.1), lambda v: np.full_like(v, 0.1)),
    "set a function": (lambda fx, key: fx.set(key, np.abs), np.abs),
    "set an array": (lambda fx, key: fx.set(key, fx.terms[key].values ** 2), np.square),
    "cap": (lambda fx, key: fx.cap(key, -0.05, 0.1), lambda v: np.clip(v, -0.05, 0.1)),
    "cap from below": (lambda fx, key: fx.cap(key, low=0.02), lambda v: np.maximum(v, 0.02)),
    "round": (lambda fx, key: fx.round(key, digits=1), lambda v: np.round(v, 1)),
    "round to steps": (lambda fx, key: fx.round(key, step=0.25), lambda v: np.round(v / 0.25) * 0.25),
    "scale": (lambda fx, key: fx.scale(key, -1.5), lambda v: -1.5 * v),
}


@pytest.mark.parametrize("key", [("x0",), ("x0", "x1")])
@pytest.mark.parametrize("name", EDITS)
def test_scores_change_by_the_new_minus_the_old_value(fx, name, key):
    edit, expected = EDITS[name]
    edited, old = edit(fx, key), fx.terms[key].values
    np.testing.assert_allclose(change(edited, fx), at_rows(fx, key, expected(old) - old), atol=1e-12)
    assert_whole(edited)
    if name != "scale":  # as edited, before purification
        np.testing.assert_array_equal(edited.raw.terms[key].values, expected(old))
    np.testing.assert_array_equal(edited.terms["x2"].values, fx.terms["x2"].values)


@pytest.mark.parametrize("density", ["auto", "uniform", "independent", "laplace", "empirical"])
def test_edits_are_pure_under_any_density(model, density):
    fx = treeanova.decompose(model, dependent_rows(), density=density, n_jobs=1)
    edited = fx.set(("x0", "x1"), np.exp).cap("x0", high=0.0)
    assert_whole(edited)
    old = fx.terms["x0", "x1"].values
    once = fx.set(("x0", "x1"), np.exp)
    np.testing.assert_allclose(change(once, fx), at_rows(fx, ("x0", "x1"), np.exp(old) - old), atol=1e-12)
    again = edited.with_density("uniform")
    np.testing.assert_allclose(again.decision_function(ROWS), edited.decision_function(ROWS), atol=1e-12)


def test_what_purification_moved_is_told(fx):
    edited = fx.set(("x0", "x1"), np.square)
    assert set(edited.history[0].moved) <= {"x0", "x1", "intercept"}
    for name in fx.terms:
        label = " × ".join(name)
        moved = np.abs(edited.terms[name].values - fx.terms[name].values).max() > 1e-9
        assert moved == (label in (*edited.history[0].moved, "x0 × x1"))
    assert (abs(edited.intercept - fx.intercept) > 1e-9) == ("intercept" in edited.history[0].moved)
    # The mean of the new values goes to the intercept; for an interaction, nothing else does.
    old, weights = fx.terms["x0", "x1"].values, fx.terms["x0", "x1"].weights
    assert edited.intercept - fx.intercept == pytest.approx((weights * old**2).sum())


def test_bins_are_set_by_label_by_position_and_between_cuts(fx):
    axis, old = fx.terms["x0"].axes[0], fx.terms["x0"].values
    expected = old.copy()
    expected[[1, 2]] = 5.0
    by_label = fx.set("x0", {axis.labels[1]: 5.0, axis.labels[2]: 5.0})
    by_position = fx.set("x0", {1: 5.0, 2: 5.0})
    between = fx.set("x0", 5.0, between=axis.thresholds[[0, 2]].tolist())
    for edited in (by_label, by_position, between):
        np.testing.assert_array_equal(edited.raw.terms["x0"].values, expected)
    upper = fx.set("x0", 5.0, between=(axis.thresholds[0], None)).raw.terms["x0"].values
    np.testing.assert_array_equal(upper[1 : axis.n_regular], 5.0)
    np.testing.assert_array_equal(upper[0], old[0])
    pair = fx.terms["x0", "x1"]
    cell = (pair.axes[0].labels[0], pair.axes[1].labels[1])
    edited = fx.set(("x0", "x1"), {cell: 2.0}).raw.terms["x0", "x1"].values
    np.testing.assert_array_equal(np.argwhere(edited != pair.values), [[0, 1]])


def yes_and_no():
    effects = treeanova.model.Effects.from_tables(
        {("own", "smoker"): [[0.0, 1.0], [2.0, 4.0]]},
        categories={"own": ["no", "yes"], "smoker": ["no", "yes"]},
    )
    return treeanova.decompose(effects, density="uniform")


@pytest.mark.parametrize(
    ("term", "cell"),
    [
        (("own", "smoker"), ("no", "yes")),
        (("smoker", "own"), ("yes", "no")),
        (["smoker", "own"], (1, 0)),
        ("own × smoker", ("no", 1)),
        ("smoker × own", ("yes", "no")),
        ({"smoker", "own"}, ("no", "yes")),  # a set has no order: that of the data
    ],
)
def test_labels_follow_the_features_as_they_are_named(term, cell):
    """Both features have the same labels, so only the order tells which cell is meant."""
    pd = pytest.importorskip("pandas")
    fx, rows = yes_and_no(), pd.DataFrame({"own": ["no", "no", "yes", "yes"], "smoker": ["no", "yes", "no", "yes"]})
    edited = fx.set(term, {cell: 7.0})
    expected = [0.0, 7.0 - fx.terms["own", "smoker"].values[0, 1], 0.0, 0.0]  # those who own none and smoke
    np.testing.assert_allclose(edited.decision_function(rows) - fx.decision_function(rows), expected, atol=1e-12)
    assert edited.history[0].words in {f"own × smoker set in {cell}" for cell in ("no × yes", "no × 1", "0 × 1")}


def test_arrays_have_the_shape_of_the_values_whatever_the_order_of_names():
    fx = yes_and_no()
    values = np.array([[0.0, 0.0], [5.0, 0.0]])
    assert fx.set(("smoker", "own"), values) == fx.set(("own", "smoker"), values)
    np.testing.assert_array_equal(fx.set(("smoker", "own"), values).raw.terms["own", "smoker"].values, values)


def test_all_terms_are_rounded_and_so_are_all_scores(fx):
    scores = fx.round(step=0.125).decision_function(ROWS)
    np.testing.assert_allclose(scores / 0.125, np.round(scores / 0.125), atol=1e-9)
    assert_whole(fx.round(step=0.125))


# Merged bins.


def test_merged_intervals_are_one_in_every_term(fx):
    axis = fx.terms["x0"].axes[0]
    low, high = axis.thresholds[[0, 3]]
    edited = fx.merge("x0", between=(low, high))
    assert_whole(edited)
    inside = (ROWS[:, 0] > low) & (ROWS[:, 0] <= high)
    assert inside.any()
    moved = ROWS.copy()
    moved[inside, 0] = np.nextafter(low, np.inf)
    np.testing.assert_allclose(edited.decision_function(ROWS), edited.decision_function(moved), atol=1e-12)
    np.testing.assert_allclose(change(edited, fx)[~inside], 0.0, atol=1e-12)
    assert edited.terms["x0"].values.shape[0] == fx.terms["x0"].values.shape[0] - 2
    merged, old = edited.terms["x0"].values, fx.terms["x0"]
    assert merged[1] == pytest.approx(np.average(old.values[1:4], weights=old.weights[1:4]), abs=1e-12)
    assert edited == fx.merge("x0", axis.labels[1:4])


def test_merged_categories_have_the_same_scores(mixed):
    _, table, fx = mixed
    edited = fx.merge("kind", ["u", "w"])
    assert_whole(edited, table)
    as_u, as_w = (table.assign(kind=np.full(len(table), kind)) for kind in "uw")
    np.testing.assert_allclose(edited.decision_function(as_u), edited.decision_function(as_w), atol=1e-12)
    other = (table["kind"] == "v").to_numpy()
    moves = edited.decision_function(table) - fx.decision_function(table)
    np.testing.assert_allclose(moves[other], 0.0, atol=1e-12)
    # In each term it is the nearest such function: the change is orthogonal to all functions of what is left.
    term = fx.terms["kind"]
    places = [term.axes[0].labels.index(label) for label in ("u", "w")]
    mean = np.average(term.values[places], weights=term.weights[places])
    np.testing.assert_allclose(edited.raw.terms["kind"].values[places], mean, atol=1e-12)


# Smoothed terms.


def dense_whittaker(values, weights, strength, sizes, ordered):
    """Least squares over all cells at once, by numpy's solver."""
    n, mean = values.size, weights.mean()
    columns = np.eye(n).reshape(n, *sizes)
    rows = [np.sqrt(weights.ravel())[:, None] * np.eye(n)]
    for axis in ordered:
        bends = np.diff(columns, n=2, axis=axis + 1).reshape(n, -1).T
        rows.append(np.sqrt(strength * mean) * bends)
    target = np.concatenate([np.sqrt(weights.ravel()) * values.ravel(), np.zeros(sum(map(len, rows[1:])))])
    return np.linalg.lstsq(np.concatenate(rows), target, rcond=None)[0].reshape(sizes)


@pytest.mark.parametrize("strength", [0.1, 3.0, 1e3])
@pytest.mark.parametrize("key", [("x0",), ("x0", "x1")])
def test_smoothing_is_penalized_least_squares(model, key, strength):
    fx = treeanova.decompose(model, dependent_rows(), density="laplace", n_jobs=1)  # no cell without weight
    term = fx.terms[key]
    assert all(axis.n_extra == 0 for axis in term.axes)
    edited = fx.smooth(key, strength)
    expected = dense_whittaker(term.values, term.weights, strength, term.values.shape, range(term.order))
    np.testing.assert_allclose(edited.raw.terms[key].values, expected, atol=1e-8)
    np.testing.assert_allclose(change(edited, fx), at_rows(fx, key, expected - term.values), atol=1e-8)
    assert_whole(edited)


@pytest.mark.parametrize("shape", [(18,), (6, 5)])
def test_strong_smoothing_is_a_line_to_all_digits(shape):
    """At 1e12, a millionth of the bends would be much; of an interaction, the line is a + b i + c j + d i j."""
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=shape), rng.random(shape) ** 4 + 1e-3
    places = np.indices(shape).reshape(len(shape), -1).T
    powers = itertools.product([0, 1], repeat=len(shape))
    lines = np.array([np.prod(places ** np.array(power), axis=1) for power in powers]).T
    roots = np.sqrt(weights.ravel())
    factors = np.linalg.lstsq(lines * roots[:, None], values.ravel() * roots, rcond=None)[0]
    found = smoothed(values[..., None], weights, [axis_of("a", size) for size in shape], 1e12)
    np.testing.assert_allclose(found.ravel(), lines @ factors, rtol=0, atol=1e-6)


def test_smoothing_leaves_missing_values_and_keeps_categories_apart(mixed):
    _, table, fx = mixed
    term = fx.terms["age"]
    missing = term.axes[0].missing_bin
    edited = fx.smooth("age", 5.0)
    assert edited.raw.terms["age"].values[missing] == term.values[missing]
    n = term.axes[0].n_regular
    expected = dense_whittaker(term.values[:n], term.weights[:n], 5.0, (n,), [0])
    np.testing.assert_allclose(edited.raw.terms["age"].values[:n], expected, atol=1e-8)
    assert_whole(edited, table)
    with pytest.raises(ValueError, match=r"smooth\(\) must have a term of a number with three bins or more"):
        fx.smooth("kind")


# Monotone functions.


def falls(fx, feature, rows):
    """The largest fall of the score along the bins of a feature, at rows that are moved through all of them."""
    j = list(fx.feature_names_in_).index(feature)
    axis = fx.grid.axes[j]
    scores = []
    for value in [*axis.thresholds, np.inf]:
        moved = rows.copy()
        moved[:, j] = value
        scores.append(fx.decision_function(moved))
    return -np.diff(scores, axis=0).min()


@pytest.mark.parametrize("density", ["empirical", "auto", "uniform"])
@pytest.mark.parametrize("direction", ["increasing", "decreasing"])
@pytest.mark.parametrize("feature", ["x0", "x1", "x2"])
def test_a_monotone_score_is_proved_so_and_is_so_at_rows(model, feature, direction, density):
    fx = treeanova.decompose(model, dependent_rows(), density=density, n_jobs=1)
    edited = fx.monotone(feature, direction)
    statement = edited.monotonicity(feature)
    assert statement.is_increasing if direction == "increasing" else statement.is_decreasing
    sign = 1 if direction == "increasing" else -1
    assert falls(edited.scale(dict.fromkeys(edited.terms, sign)), feature, ROWS) < 1e-12
    assert_whole(edited)
    assert edited.monotone(feature, direction) == edited  # nothing is left to change


def test_a_monotone_main_effect_is_isotonic_regression(fx):
    isotonic = pytest.importorskip("sklearn.isotonic")
    mains = fx.select(order=1)
    term = mains.terms["x1"]
    for direction, sign in (("increasing", 1), ("decreasing", -1)):
        edited = mains.monotone("x1", direction)
        fit = isotonic.IsotonicRegression(increasing=sign > 0)
        expected = fit.fit_transform(np.arange(len(term.values)), term.values, sample_weight=term.weights)
        np.testing.assert_allclose(edited.raw.terms["x1"].values, expected, atol=1e-9)
        np.testing.assert_allclose(edited.terms["x1"].values, expected - term.weights @ expected, atol=1e-9)
    assert mains.monotone("x1", 1) == mains.monotone("x1", "increasing")


def nearest_sum(main, pairs, weights):
    """The nearest monotone sum by a general solver: curves for main and pairs, steps constrained one by one."""
    # The squared distance takes partners to be independent given the feature.
    sizes = [pair.shape for pair in pairs]
    n, m = len(main), len(pairs)

    def split(x):
        ends = np.cumsum([a * b for a, b in sizes])
        return [part.reshape(size) for part, size in zip(np.split(x, ends[:-1]), sizes, strict=True)]

    mass = weights[0].sum(axis=1)

    def loss(x):
        total, means = 0.0, np.zeros(n)
        for curve, pair, weight in zip(split(x), pairs, weights, strict=True):
            difference = curve - pair
            mean = (weight * difference).sum(axis=1) / weight.sum(axis=1)
            total += (weight * (difference - mean[:, None]) ** 2).sum()
            means += mean
        return total + (mass * (means - main) ** 2).sum()

    rows = []
    for k in range(m):
        start = sum(a * b for a, b in sizes[:k])
        for i, c in itertools.product(range(n - 1), range(sizes[k][1])):
            row = np.zeros(sum(a * b for a, b in sizes))
            row[start + i * sizes[k][1] + c], row[start + (i + 1) * sizes[k][1] + c] = -1, 1
            rows.append(row)
    start = np.concatenate([np.zeros(a * b) for a, b in sizes])
    constraints = scipy.optimize.LinearConstraint(np.array(rows), 0, np.inf)
    found = scipy.optimize.minimize(
        loss, start, constraints=constraints, method="SLSQP", options={"maxiter": 1000, "ftol": 1e-15}
    )
    return found.fun, loss


@pytest.mark.parametrize("seed", range(4))
def test_monotone_curves_are_the_nearest(seed):
    rng = np.random.default_rng(seed)
    n, sizes = 4, (2, 3)[: 1 + seed % 2]
    mass = rng.dirichlet(np.ones(n))
    weights = [mass[:, None] * rng.dirichlet(np.ones(size), n) for size in sizes]
    main, pairs = rng.normal(size=n), [rng.normal(size=(n, size)) for size in sizes]
    curves = monotone_curves(main, pairs, weights)
    assert curves is not None
    assert all((np.diff(curve, axis=0) >= 0).all() for curve in curves)
    least, loss = nearest_sum(main, pairs, weights)
    ours = loss(np.concatenate([curve.ravel() for curve in curves]))
    assert ours <= least * (1 + 1e-6) + 1e-9


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_sums_that_never_fall_are_left_alone_and_others_made_monotone(seed):
    rng = np.random.default_rng(seed)
    n, sizes = int(rng.integers(2, 6)), rng.integers(1, 4, size=int(rng.integers(1, 4)))
    weights = [rng.random((n, size)) * (rng.random((n, size)) < 0.7) + 1e-3 * (size == 1) for size in sizes]
    weights = [weight if weight.any() else np.ones_like(weight) for weight in weights]
    main, pairs = rng.normal(size=n), [rng.normal(size=(n, size)) for size in sizes]
    total = sum(np.diff(pair, axis=0).min(axis=1) for pair in pairs) + np.diff(main)
    curves = monotone_curves(main, pairs, weights)
    assert (curves is None) == bool((total >= 0).all())
    if curves is not None:
        assert all((np.diff(curve, axis=0) >= 0).all() for curve in curves)


def test_monotone_leaves_missing_values(mixed):
    _, table, fx = mixed
    edited = fx.monotone("age", "decreasing")
    missing = table["age"].isna().to_numpy()
    moves = edited.decision_function(table) - fx.decision_function(table)
    np.testing.assert_allclose(moves[missing], 0.0, atol=1e-12)
    assert edited.monotonicity("age").is_decreasing
    assert_whole(edited, table)


# Several outputs, coarse axes, raw terms, files.


@pytest.mark.parametrize(
    "edit",
    [
        lambda fx: fx.cap("x0", high=0.0, output="v"),
        lambda fx: fx.round(("x0", "x1"), digits=0, output="v"),
        lambda fx: fx.smooth("x0", 10.0, output=1),
        lambda fx: fx.monotone("x0", 1, output="v"),
        lambda fx: fx.set("x0", 0.5, output="v"),
        lambda fx: fx.scale("x0", 0.5, output="v"),
    ],
)
def test_one_output_is_edited_alone(several, edit):
    edited = edit(several)
    moves = change(edited, several)
    np.testing.assert_allclose(moves[:, [0, 2]], 0.0, atol=1e-12)
    assert np.abs(moves[:, 1]).max() > 1e-6
    assert_whole(edited)
    assert edited.history[0].words.endswith(", for v")
    assert len(edited.history[0].rms) == 3


def test_all_outputs_are_edited_unless_one_is_named(several):
    capped = several.cap("x0", -0.1, 0.1)
    old = several.terms["x0"].values
    np.testing.assert_allclose(
        change(capped, several), at_rows(several, "x0", np.clip(old, -0.1, 0.1) - old), atol=1e-12
    )
    assert several.monotone("x0", 1).monotonicity("x0", output="u").is_increasing
    with pytest.raises(ValueError, match="`output` must be one of 'u', 'v', 'w'"):
        several.set("x0", 0.5)
    np.testing.assert_array_equal(several.set("x0", old + 1.0).raw.terms["x0"].values, old + 1.0)


def test_terms_on_coarse_axes_are_edited(fx):
    X, y = dependent_rows(), fx.decision_function(dependent_rows()) + dependent_rows(seed=9)[:, 2]
    simple = fx.simplify(X, y, max_steps=4, loss="squared", keep=[("x0", "x1"), "x0", "x1"]).chosen
    for edited in (
        simple.set(("x0", "x1"), np.square),
        simple.monotone("x0", "decreasing"),
        simple.merge("x0", between=(None, simple.terms["x0"].axes[0].thresholds[1])),
        simple.smooth("x0"),
    ):
        assert_whole(edited)
    assert simple.monotone("x0", "decreasing").monotonicity("x0").is_decreasing
    cut = simple.terms["x0"].axes[0].thresholds[1]
    merged = simple.merge("x0", between=(None, cut))
    low = ROWS.copy()
    low[ROWS[:, 0] <= cut, 0] = cut
    np.testing.assert_allclose(merged.decision_function(low), merged.decision_function(ROWS), atol=1e-12)
    np.testing.assert_allclose(change(merged, simple)[ROWS[:, 0] > cut], 0.0, atol=1e-12)


@given(st.integers(0, 10_000))
@example(271)  # a triple on coarser bins than its pairs
@settings(max_examples=20, deadline=None)
def test_edits_of_random_models_are_pure_and_undone(seed):
    """Terms on axes of their own, one to three features, one or two outputs, cells without mass."""
    rng = np.random.default_rng(seed)
    effects = random_effects(rng)
    rows = rng.uniform(-1, 6, size=(int(rng.integers(2, 40)), len(effects.grid.axes)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows may be in one cell, or have features that are aliases
        fx = treeanova.decompose(effects, rows, density=str(rng.choice(["empirical", "uniform", "laplace"])), n_jobs=1)
    names = list(fx.terms)[int(rng.integers(len(fx)))]
    old = fx.terms[names].values
    new = rng.normal(size=old.shape)
    edited = fx.set(names, new)
    assert_whole(edited, rows)
    probes = rng.uniform(-1, 6, size=(50, rows.shape[1]))
    np.testing.assert_allclose(change(edited, fx, probes), at_rows(fx, names, new - old, probes), atol=1e-10)
    assert edited.undo() == fx
    feature = names[0]
    if max(len(key) for key in fx.terms if feature in key) < 3:
        monotone = fx.monotone(feature, "increasing")
        for output in fx.outputs:
            assert monotone.monotonicity(feature, output=output).is_increasing
        assert_whole(monotone, rows)
    if (feature,) in fx.terms and fx.terms[feature].axes[0].n_regular > 1:
        assert_whole(fx.merge(feature, [0, 1]), rows)


def test_raw_terms_stay_raw(fx):
    raw = fx.raw
    edited = raw.cap(("x0", "x1"), high=0.0)
    np.testing.assert_array_equal(edited.terms["x0", "x1"].values, np.minimum(raw.terms["x0", "x1"].values, 0.0))
    np.testing.assert_array_equal(edited.terms["x0"].values, raw.terms["x0"].values)
    assert edited.certificate.is_raw


def test_loaded_decompositions_are_edited_alike(fx, tmp_path):
    fx.save(tmp_path / "fx.tav")
    loaded = treeanova.load(tmp_path / "fx.tav")
    for edit in (lambda one: one.set(("x0", "x1"), np.square), lambda one: one.monotone("x0", 1)):
        np.testing.assert_allclose(edit(loaded).decision_function(ROWS), edit(fx).decision_function(ROWS), atol=1e-12)
        assert_whole(edit(loaded))


def test_a_dropped_main_effect_comes_back_where_an_edit_needs_it(fx):
    pair = fx.select(terms=[("x0", "x1")])
    edited = pair.set(("x0", "x1"), np.square)
    assert set(edited.terms) == {("x0",), ("x1",), ("x0", "x1")}
    assert_whole(edited)


# What is refused.


def test_terms_without_tables_and_high_orders_are_refused(deep_fx, triple):
    at_rows_only = next(names for names, term in deep_fx.terms.items() if not term.has_table)
    for edit in (
        lambda fx: fx.cap(at_rows_only, high=0.0),
        lambda fx: fx.monotone("x0", 1),
        lambda fx: fx.round(digits=1),
    ):
        with pytest.raises(ValueError, match=r"must have terms with a table, got .* known at rows only; .* select\(\)"):
            edit(deep_fx)
    rows = triple[1]
    fx = treeanova.decompose(*triple, density="empirical", n_jobs=1)
    if any(len(names) == 3 for names in fx.terms):
        with pytest.raises(ValueError, match=r"monotone\(\) must have main effects and pairs of 'a', got"):
            fx.monotone("a", 1)
        edited = fx.cap(("a", "b", "remainder"), high=0.0)
        old = fx.terms["a", "b", "remainder"].values
        expected = at_rows(fx, ("a", "b", "remainder"), np.minimum(old, 0.0) - old, rows)
        np.testing.assert_allclose(edited.decision_function(rows) - fx.decision_function(rows), expected, atol=1e-10)


@pytest.mark.thorough
def test_low_orders_of_a_deep_ensemble_are_made_monotone(deep_fx):
    low = deep_fx.select(order=[1, 2]).monotone("x0", "increasing")
    assert low.monotonicity("x0").is_increasing


def test_tables_of_a_deep_ensemble_are_edited(deep_fx, deep):
    rows = deep[1][:30]
    edited = deep_fx.set("x0", np.abs)
    expected = np.abs(deep_fx.term_values(rows, "x0")) - deep_fx.term_values(rows, "x0")
    np.testing.assert_allclose(edited.decision_function(rows) - deep_fx.decision_function(rows), expected, atol=1e-10)
    np.testing.assert_allclose(edited.explain(rows).scores, edited.decision_function(rows), atol=1e-10)


def test_ends_between_dates_are_numbers():
    effects = treeanova.model.Effects.from_tables({"day": [0.0, 1.0, 2.0]}, thresholds={"day": [10.0, 20.0]})
    fx = treeanova.decompose(effects, np.array([[5.0], [15.0], [25.0]]), dates={"day": "D"})
    assert fx.set("day", 7.0, between=(10, None)).raw.terms["day"].values[1] == 7
    with pytest.raises(ValueError, match=r"`between` must be in numbers, as day_low and day_high of fx.table\('day'\)"):
        fx.set("day", 7.0, between=("1970-01-11", None))


@pytest.mark.parametrize(
    ("edit", "error", "words"),
    [
        (
            lambda fx: fx.truncate(1).cap("x0", high=1),
            ValueError,
            r"cap\(\) must have all of the function in its terms",
        ),
        (lambda fx: fx.cap("x0"), ValueError, "`low` and `high` must be one limit or two that ascend"),
        (lambda fx: fx.cap("x0", 1, 0), ValueError, "`low` and `high` must be one limit or two that ascend"),
        (lambda fx: fx.cap("x0", low=float("nan")), ValueError, "`low` must be a finite number, got nan"),
        (lambda fx: fx.round("x0"), ValueError, "one of `digits` and `step` must be given"),
        (lambda fx: fx.round("x0", step=-1), ValueError, "`step` must be positive, got -1"),
        (lambda fx: fx.smooth("x0", 0), ValueError, "`strength` must be positive and at most 1e\\+12, got 0"),
        (lambda fx: fx.smooth("x0", 1e30), ValueError, "`strength` must be positive and at most 1e\\+12, got 1e\\+30"),
        (lambda fx: fx.scale({}), ValueError, "`term` must name a term, got an empty mapping"),
        (lambda fx: fx.set("x0", [1.0]), ValueError, r"`values` must have the shape of the term, .* got \(1,\)"),
        (lambda fx: fx.set("x0", "a"), TypeError, "`values` must be numbers, got str"),
        (lambda fx: fx.set("x0", np.nan), ValueError, "`values` must be finite numbers"),
        (lambda fx: fx.set("x0", {"low": 1.0}), ValueError, "bins of 'x0' must be labels or positions, got 'low'"),
        (lambda fx: fx.set("x0", {"≤ 1": 1.0, ("a", "b"): 1}), ValueError, "bins of 'x0' must be labels|a bin of each"),
        (lambda fx: fx.set("x0", 1.0, between=(0.123, None)), ValueError, "`between` must end at cuts of 'x0'"),
        (lambda fx: fx.set("x0", 1.0, between=(None, None, 1)), ValueError, "`between` must have two ends, got 3"),
        (
            lambda fx: fx.set(("x0", "x1"), 1.0, between=(None, None)),
            ValueError,
            "`between` must come with a main effect",
        ),
        (lambda fx: fx.merge("x0", [0]), ValueError, "`bins` must be two or more bins of 'x0', got 1"),
        (lambda fx: fx.merge("x0", [0, 2]), ValueError, "`bins` of 'x0' must be neighbouring intervals"),
        (lambda fx: fx.merge("x0"), ValueError, "bins must be given by `bins` or by `between`, got both or none"),
        (lambda fx: fx.merge("x9", [0, 1]), ValueError, "`feature` must be one of the model's, got 'x9'"),
        (lambda fx: fx.monotone("x0", "up"), ValueError, "`direction` must be 'increasing' or 'decreasing'"),
        (lambda fx: fx.monotone("x0", [1]), ValueError, "`direction` must be 'increasing' or 'decreasing'"),
        (lambda fx: fx.drop("x0").monotone("x0", 1), ValueError, "`feature` must have a term, got 'x0'"),
        (lambda fx: fx.cap("x0", high=1, note=3), TypeError, "`note` must be text, got 3"),
        (lambda fx: fx.cap("x9", high=1), KeyError, "no term 'x9'"),
    ],
)
def test_bad_arguments_are_refused(fx, edit, error, words):
    with pytest.raises(error, match=words):
        edit(fx)


def test_categories_have_no_order(mixed):
    with pytest.raises(ValueError, match="`feature` must have values with an order, got 'kind' with categories"):
        mixed[2].monotone("kind", 1)
    with pytest.raises(ValueError, match="`between` must be of a feature with numbers, got 'kind'"):
        mixed[2].merge("kind", between=(0, 1))
