from __future__ import annotations

import warnings

import numpy as np
import pytest

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
        return kind(**{**defaults, **options}).fit(rows(), target)


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
        if name != "c" and len(axis.bounds):
            near = np.concatenate([axis.bounds, np.nextafter(axis.bounds, np.inf), [-1e9, 1e9, np.nan]])
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
    assert set(again.terms) == set(fx.effects.terms)
    frame = adversarial(fx)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        per_term = pure.eval_terms(frame)
    by_key = {tuple(key): i for i, key in enumerate(pure.term_features_)}
    explained = fx.explain(frame).values
    for i, key in enumerate(fx.effects.terms):
        np.testing.assert_allclose(per_term[:, by_key[key]], explained[:, i], atol=1e-12)


@pytest.mark.filterwarnings("ignore")  # interpret's own, of plotly and of terms that it does not draw
def test_own_plots_work_and_show_the_density(both):
    _, fx, pure = both
    explanation = pure.explain_global()
    drawn = [key for key in fx.effects.terms if len(key) == 1 or (len(key) == 2 and fx.effects.n_outputs == 1)]
    assert len(explanation.data()["names"]) >= len(drawn)
    figures = [explanation.visualize(i) for i in range(len(drawn))]
    assert all(figure is not None for figure in figures)
    assert pure.explain_local(rows(3)).visualize(0) is not None
    for key, weights, scores in zip(pure.term_features_, pure.bin_weights_, pure.term_scores_, strict=True):
        assert weights.sum() == pytest.approx(400)
        assert weights.shape == scores.shape[: len(key)]


def test_the_source_stays_as_it_is(both):
    source, _, pure = both
    assert pure is not source
    assert source.bagged_scores_[0] is not None


def test_dropped_terms_are_gone():
    source = MODELS["regression"]()
    fx = decompose(source, rows(), density="empirical").drop("c")
    np.testing.assert_allclose(raw(to_ebm(fx), rows(50, 3)), fx.decision_function(rows(50, 3)), rtol=1e-10)


def test_only_decompositions_of_ebms_go_back():
    from sklearn.tree import DecisionTreeRegressor

    x = np.arange(10.0)[:, None]
    fx = decompose(DecisionTreeRegressor(max_depth=1).fit(x, x[:, 0]), x)
    with pytest.raises(ValueError, match=r"`fx` must come from decompose\(\) of an EBM"):
        to_ebm(fx)


@pytest.mark.filterwarnings("ignore")
def test_editing_and_uncertainty_work_as_for_one_bag():
    pure = to_ebm(decompose(MODELS["regression"](), rows(), density="empirical"))
    before = raw(pure, rows(20))
    uncertainty = pure.predict_with_uncertainty(rows(20))
    np.testing.assert_allclose(uncertainty[:, 0], before, rtol=1e-10)
    np.testing.assert_allclose(uncertainty[:, 1], 0, atol=1e-12)
    pure.scale(0, 1.0)
    np.testing.assert_allclose(raw(pure, rows(20)), before, rtol=1e-10)
