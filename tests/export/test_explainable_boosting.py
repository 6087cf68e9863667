"""interpret is the oracle: a decomposition of an EBM goes back to an EBM with the same predictions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tests.support.training import fit
from treeanova import decompose, read_model
from treeanova.export import ebm as to_ebm

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


def test_only_decompositions_of_ebms_go_back():
    from sklearn.tree import DecisionTreeRegressor

    x = np.arange(10.0)[:, None]
    fx = decompose(fit(DecisionTreeRegressor(max_depth=1), x, x[:, 0]), x)
    with pytest.raises(
        ValueError, match=r"must come from decompose\(\) of an EBM in this session, got one of Decision"
    ):
        to_ebm(fx)


def test_a_decomposition_with_a_remainder_does_not_go_back():
    fx = decompose(MODELS["regression"](), rows(), density="empirical", max_order=1)
    with pytest.raises(ValueError, match="`fx` must have no remainder to become an EBM, got 4 terms and a remainder"):
        to_ebm(fx)


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
