"""interpret is the oracle: a decomposition becomes an EBM with the same predictions."""

from __future__ import annotations

import io
import pickle
import warnings

import numpy as np
import pytest

from tests.support.training import fit
from treeanova import decompose, load, read_model
from treeanova.export import ebm as to_ebm
from treeanova.model import Effects
from treeanova.testing import example

glassbox = pytest.importorskip("interpret.glassbox")
pandas = pytest.importorskip("pandas")


def rows(n_rows=400, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n_rows)
    frame = pandas.DataFrame({"a": a, "b": a + rng.normal(size=n_rows), "c": rng.choice(["u", "v", "w"], n_rows)})
    frame["d"] = rng.random(n_rows)
    frame.loc[rng.random(n_rows) < 0.1, "a"] = np.nan
    return frame


def trained(kind, target, **options):
    defaults = {"outer_bags": 2, "max_rounds": 60, "n_jobs": 1, "random_state": 0, "interactions": [(0, 1), (1, 2)]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(kind(**{**defaults, **options}), rows(), target)


def target():
    frame = rows()
    return frame["a"].fillna(0) * frame["b"] + (frame["c"] == "v") * frame["b"] + frame["d"]


MODELS = {
    "regression": lambda: trained(glassbox.ExplainableBoostingRegressor, target()),
    "binary": lambda: trained(glassbox.ExplainableBoostingClassifier, target() > 1),
    "classes": lambda: trained(glassbox.ExplainableBoostingClassifier, np.digitize(target(), [0, 2])),
    "triple": lambda: trained(glassbox.ExplainableBoostingRegressor, target(), interactions=[(0, 1, 3)], max_bins=16),
    "no mains": lambda: trained(glassbox.ExplainableBoostingRegressor, target(), exclude=["a", "b", "d"]),
}


def with_levels():
    """Bins of their own for orders 1, 2 and 3, not nested; of the pairs with a feature, some are in the triple."""
    model = trained(glassbox.ExplainableBoostingRegressor, target(), interactions=[(0, 1), (0, 3), (1, 2), (0, 1, 3)])
    rng = np.random.default_rng(3)
    for j in (0, 1, 3):
        values = rows().iloc[:, j]
        model.bins_[j] = [np.sort(rng.choice(values.dropna().unique(), size, replace=False)) for size in (40, 9, 3)]
    for k, key in enumerate(model.term_features_):
        levels = [model.bins_[j][min(len(key), len(model.bins_[j])) - 1] for j in key]
        sizes = [len(level) + (2 if isinstance(level, dict) else 3) for level in levels]
        model.term_scores_[k] = rng.normal(size=sizes)
    return model


MODELS["levels"] = with_levels


@pytest.fixture(scope="module", params=MODELS)
def both(request):
    source = MODELS[request.param]()
    fx = decompose(source, rows(), density="empirical")
    return source, fx, to_ebm(fx)


def adversarial(fx, seed=1):
    frame = rows(600, seed)
    rng = np.random.default_rng(seed)
    for j, name in enumerate(frame.columns):
        axis = fx.grid.axes[j]
        if name != "c" and len(axis.thresholds):
            near = np.concatenate([axis.thresholds, np.nextafter(axis.thresholds, np.inf), [-1e9, 1e9, np.nan]])
            frame[name] = np.where(rng.random(600) < 0.7, rng.choice(near, 600), frame[name])
    frame.loc[rng.random(600) < 0.2, "c"] = "never seen"
    return frame


def raw(model, frame):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (
            model.predict(frame)
            if hasattr(model, "predict") and not hasattr(model, "classes_")
            else model.decision_function(frame)
        )


def test_predictions_do_not_change(both):
    source, fx, pure = both
    frame = adversarial(fx)
    np.testing.assert_allclose(raw(pure, frame), raw(source, frame), rtol=1e-10, atol=1e-10)


def test_terms_are_the_pure_ones(both):
    _, fx, pure = both
    again = read_model(pure)
    assert set(again.terms) == set(fx._function.effects.terms)
    frame = adversarial(fx)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        per_term = pure.eval_terms(frame)
    by_key = {tuple(key): i for i, key in enumerate(pure.term_features_)}
    explained = fx.explain(frame).values
    for i, key in enumerate(fx._function.effects.terms):
        np.testing.assert_allclose(per_term[:, by_key[key]], explained[:, i], atol=1e-12)


@pytest.mark.filterwarnings("ignore")  # interpret's own, of plotly and of terms that it does not draw
def test_own_plots_work_and_show_the_density(both):
    _, fx, pure = both
    explanation = pure.explain_global()
    drawn = [
        key
        for key in fx._function.effects.terms
        if len(key) == 1 or (len(key) == 2 and fx._function.effects.n_outputs == 1)
    ]
    assert len(explanation.data()["names"]) >= len(drawn)
    figures = [explanation.visualize(i) for i in range(len(drawn))]
    assert all(figure is not None for figure in figures)
    assert pure.explain_local(rows(3)).visualize(0) is not None
    for key, weights, scores in zip(pure.term_features_, pure.bin_weights_, pure.term_scores_, strict=True):
        assert weights.sum() == pytest.approx(400)
        assert weights.shape == scores.shape[: len(key)]


def test_tensors_of_interactions_stay_as_small_as_in_the_source(both):
    source, _, pure = both
    terms = zip(source.term_features_, source.term_scores_, strict=True)
    sizes = {tuple(sorted(key)): scores.shape for key, scores in terms}
    n_levels = max(len(key) for key in sizes)
    for key, scores in zip(pure.term_features_, pure.term_scores_, strict=True):
        if len(key) == n_levels > 1:  # lower orders also have the bins of higher ones
            assert all(ours <= theirs for ours, theirs in zip(scores.shape, sizes[key], strict=False))


def test_weights_are_those_of_the_rows_at_every_place(both):
    """Against counts of the rows by the rule of interpret's bins; missing values count where they share a bin."""
    _, fx, pure = both
    frame = rows()
    for key, weights in zip(pure.term_features_, pure.bin_weights_, strict=True):
        places = []
        for j, axis in zip(key, fx._function.effects.axes_of(key), strict=True):
            levels = pure.bins_[j]
            level = levels[min(len(key), len(levels)) - 1]
            column = frame.iloc[:, j]
            known = column.map(level) if isinstance(level, dict) else np.searchsorted(level, column, side="right") + 1
            shared = axis.missing_bin + 1 if axis.missing_bin < axis.n_regular else 0
            places.append(np.where(column.isna(), shared, known).astype(int))
        expected = np.zeros(weights.shape)
        np.add.at(expected, tuple(places), 1.0)
        np.testing.assert_allclose(weights, expected, atol=1e-9)


def test_the_source_stays_as_it_is(both):
    source, _, pure = both
    assert pure is not source
    assert source.bagged_scores_[0] is not None


def test_dropped_terms_are_gone():
    source = MODELS["regression"]()
    fx = decompose(source, rows(), density="empirical").drop("c")
    np.testing.assert_allclose(raw(to_ebm(fx), rows(50, 3)), fx.decision_function(rows(50, 3)), rtol=1e-10, atol=1e-10)


def test_an_intercept_alone_is_refused():
    with pytest.raises(ValueError, match="`fx` must have a term to be an EBM"):
        to_ebm(example()[0].select(terms=[]))


def test_what_an_ebm_cannot_say_is_refused():
    ensemble = pytest.importorskip("sklearn.ensemble")
    table = rows()[["b", "d"]]
    forest = fit(ensemble.RandomForestClassifier(n_estimators=3, max_depth=2), table, np.digitize(target(), [0, 2]))
    with pytest.raises(ValueError, match="must have a score that EBMs have, got a score of 3 outputs with link 'prob"):
        to_ebm(decompose(forest, table))
    fx = decompose(MODELS["regression"](), rows(), density="empirical", max_order=1)
    with pytest.raises(ValueError, match="`fx` must have a table for every part of its score"):
        to_ebm(fx)
    booleans = Effects.from_tables({"g": [0.0, 1.0]}, categories={"g": [False, True]})
    with pytest.raises(ValueError, match="categories of 'g' must be texts or numbers"):
        to_ebm(decompose(booleans, density="uniform"))


@pytest.mark.parametrize("link", ["identity", "logit", "log"])
def test_models_of_tables_become_ebms(link):
    """Cuts at extremes, labels that are numbers, and response by interpret's own link."""
    cuts = [-1.7e308, -1e-310, 0.0, 0.1, np.nextafter(0.1, 1), 1e22]
    rng = np.random.default_rng(0)
    tables = {"a": rng.normal(size=7), "g": rng.normal(size=3), ("a", "g"): rng.normal(size=(7, 3))}
    effects = Effects.from_tables(tables, thresholds={"a": cuts}, categories={"g": [1, 2.5, "x"]}, link=link)
    fx = decompose(effects, density="uniform")
    pure = to_ebm(fx)
    values = np.concatenate([cuts, np.nextafter(cuts, np.inf), np.nextafter(cuts, -np.inf), [np.inf, -np.inf]])
    table = pandas.DataFrame(
        {"a": np.tile(values, 3), "g": np.repeat(np.array([1, 2.5, "x"], dtype=object), len(values))}
    )
    expected = fx.predict_proba(table) if link == "logit" else fx.predict(table)
    found = pure.predict_proba(table) if link == "logit" else pure.predict(table)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert type(pure).__name__ == f"ExplainableBoosting{'Classifier' if link == 'logit' else 'Regressor'}"


def test_refused_values_add_nothing():
    effects = Effects.from_tables(
        {"a": [5.0, 1.0], "g": [3.0, 2.0]}, thresholds={"a": [0.5]}, categories={"g": ["x", "y"]}
    )
    fx = decompose(effects, density="uniform")
    table = pandas.DataFrame({"a": [np.nan, 1.0], "g": ["x", "unseen"]}, dtype=object)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        terms = to_ebm(fx).eval_terms(table)
    np.testing.assert_allclose(terms, [[0.0, 0.5], [-2.0, 0.0]])


def test_a_saved_decomposition_becomes_an_ebm(tmp_path):
    source = MODELS["regression"]()
    decompose(source, rows(), density="empirical").save(tmp_path / "fx.tav")
    pure = to_ebm(load(tmp_path / "fx.tav"))
    np.testing.assert_allclose(raw(pure, rows(50, 3)), raw(source, rows(50, 3)), rtol=1e-10, atol=1e-10)


@pytest.mark.filterwarnings("ignore")
def test_ebms_of_other_libraries_are_whole():
    """Plots, JSON, copies, edits and a decomposition of the EBM; weights are those of the rows."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    table = rows()[["a", "b", "d"]]
    source = fit(ensemble.HistGradientBoostingClassifier(max_iter=10, max_depth=2), table, target() > 1)
    fx = decompose(source, table, density="empirical")
    pure = pickle.loads(pickle.dumps(to_ebm(fx)))
    assert pure.explain_global().visualize(0) is not None
    assert pure.explain_local(table[:3]).visualize(0) is not None
    assert len(pure.to_json(io.StringIO()) or "x") > 0
    np.testing.assert_allclose(
        decompose(pure, table).decision_function(table), source.decision_function(table), atol=1e-12
    )
    assert all(weights.sum() == pytest.approx(len(table)) for weights in pure.bin_weights_)
    importances = dict(zip(pure.term_names_, pure.term_importances(), strict=True))
    for name in ("a", "b", "d"):
        assert importances[name] == pytest.approx(np.abs(fx.term_values(table, name)).mean())
    np.testing.assert_array_equal(pure.predict(table), source.predict(table))


def test_an_ebm_in_a_pipeline_goes_back():
    pipeline = pytest.importorskip("sklearn.pipeline")
    source = MODELS["regression"]()
    fx = decompose(pipeline.Pipeline([("nothing", "passthrough"), ("ebm", source)]), rows(), density="empirical")
    np.testing.assert_allclose(raw(to_ebm(fx), rows(50, 3)), raw(source, rows(50, 3)), rtol=1e-10, atol=1e-10)


@pytest.mark.filterwarnings("ignore")
def test_editing_and_uncertainty_work_as_for_one_bag():
    pure = to_ebm(decompose(MODELS["regression"](), rows(), density="empirical"))
    before = raw(pure, rows(20))
    uncertainty = pure.predict_with_uncertainty(rows(20))
    np.testing.assert_allclose(uncertainty[:, 0], before, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(uncertainty[:, 1], 0, atol=1e-12)
    pure.scale(0, 1.0)
    np.testing.assert_allclose(raw(pure, rows(20)), before, rtol=1e-10, atol=1e-10)
