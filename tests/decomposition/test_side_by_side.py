"""Main effects of two models on common bins: values and shares against the rows themselves."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support.training import fit
from treeanova.decomposition.change import effect_sides

ensemble = pytest.importorskip("sklearn.ensemble")
pd = pytest.importorskip("pandas")


def table_of(seed, kinds="uvw"):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"age": rng.normal(size=300), "kind": rng.choice(list(kinds), 300)})
    table.loc[::6, "age"] = np.nan
    return table


def fitted(table, categories):
    table = table.assign(kind=pd.Categorical(table["kind"], list(categories)))
    response = table["age"].fillna(-1) * (table["kind"] == "u") + 2 * (table["kind"] == "v")
    model = ensemble.HistGradientBoostingRegressor(
        max_iter=4, max_depth=2, categorical_features="from_dtype", min_samples_leaf=5, random_state=0
    )
    return treeanova.decompose(fit(model, table, response), table, density="empirical", n_jobs=1), table


@pytest.fixture(scope="module")
def change():
    (old, X_old), (new, X_new) = fitted(table_of(0), "uvw"), fitted(table_of(1), "wvux")
    return treeanova.change(old, new, X_old=X_old, X_new=X_new), (X_old, X_new)


def test_categories_are_those_of_both_models(change):
    found, tables = change
    for side, fx, X in zip(effect_sides(found, "kind"), (found.old, found.new), tables, strict=True):
        shares = dict(zip(side.axis.labels, side.shares, strict=True))
        values = dict(zip(side.axis.labels, side.values[:, 0], strict=True))
        assert side.rows_axis is side.axis
        for label in "uvw":
            row = X[X["kind"] == label].iloc[[0]]
            name = next(known for known in shares if known.split(" or ")[0] == label)
            assert shares[name] == pytest.approx((X["kind"] == label).mean())
            assert values[name] == pytest.approx(fx.term_values(row, "kind")[0])
        assert side.shares.sum() == pytest.approx(1.0)


def test_numbers_keep_their_bins_and_rows_are_counted_in_those_of_both(change):
    found, tables = change
    for side, fx, X in zip(effect_sides(found, "age"), (found.old, found.new), tables, strict=True):
        assert side.axis.thresholds.tolist() == fx.terms["age"].axes[0].thresholds.tolist()
        assert set(side.axis.thresholds) <= set(side.rows_axis.thresholds)
        edges = [-np.inf, *side.rows_axis.thresholds, np.inf]
        expected = pd.cut(X["age"], edges).value_counts(sort=False).to_numpy() / len(X)
        expected = np.append(expected, np.zeros(side.rows_axis.n_extra))
        expected[side.rows_axis.missing_bin] += X["age"].isna().mean()
        assert np.allclose(side.shares, expected)


def test_a_model_without_the_effect_is_zero(change):
    X_old = change[1][0]
    constant = fit(ensemble.HistGradientBoostingRegressor(max_iter=1, max_depth=1), X_old[["age"]], X_old.index * 0.0)
    new = treeanova.decompose(constant, X_old[["age"]], density="empirical", n_jobs=1)
    old = treeanova.decompose(
        fit(ensemble.HistGradientBoostingRegressor(max_iter=1, max_depth=1), X_old[["age"]], X_old["age"].fillna(0)),
        X_old[["age"]],
        density="empirical",
        n_jobs=1,
    )
    before, after = effect_sides(treeanova.change(old, new), "age")
    assert np.abs(before.values).max() > 0
    assert after.values.shape == (new.grid.sizes[0], 1)
    assert not after.values.any()
