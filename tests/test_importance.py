"""Importance ranks terms by what they do, in one order everywhere."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from treeanova.decomposition.importance import strongest_first

pd = pytest.importorskip("pandas")
xgboost = pytest.importorskip("xgboost")

from treeanova.testing.diamonds import NAMES, diamonds  # noqa: E402

ROWS, PRICE = diamonds()


@pytest.fixture(scope="module")
def model():
    return xgboost.XGBRegressor(n_estimators=150, max_depth=2, learning_rate=0.2, n_jobs=1).fit(ROWS, PRICE)


@pytest.fixture(scope="module")
def fx(model):
    return treeanova.decompose(model, ROWS, density="empirical", n_jobs=1)


@pytest.fixture(scope="module")
def explained(fx):
    """Values of terms at the rows, by label."""
    found = fx.explain(ROWS)
    return {" × ".join(names): found.values[:, i] for i, names in enumerate(found.terms)}


@pytest.fixture(scope="module")
def expected(explained):
    """Labels by the variance of what the terms add to the rows, largest first."""
    return sorted(explained, key=lambda label: -np.var(explained[label]))


def test_the_copy_has_the_structure_of_the_original(fx, explained):
    """Two strong terms have negative shares, by which they would come last."""
    shares = fx.importance().set_index("term")["share"]
    score = sum(explained.values())
    for name in ("clarity", "color"):
        covariance = np.cov(explained[name], score, bias=True)[0, 1]
        assert shares[name] == pytest.approx(covariance / np.var(score), abs=1e-9)
    assert set(shares.sort_values().index[:2]) == {"clarity", "color"}
    assert shares["clarity"] < -0.02


def test_terms_that_oppose_others_are_not_buried(fx, model, expected):
    table = fx.importance()
    assert list(table["term"]) == expected
    ranks = {name: rank for rank, name in enumerate(table["term"], start=1)}
    assert max(ranks["clarity"], ranks["color"]) <= 6
    by_feature = list(fx.importance("feature")["feature"])
    contributions = model.get_booster().predict(xgboost.DMatrix(ROWS), pred_contribs=True)[:, :-1]
    by_shap = [NAMES[j] for j in np.argsort(-np.abs(contributions).mean(axis=0))]
    assert set(by_feature[:6]) == set(by_shap[:6])
    assert abs(by_feature.index("clarity") - by_shap.index("clarity")) <= 1


def test_without_a_term_the_squared_error_grows_by_its_own_variance(fx, explained):
    """What the order means, on the rows that the model was fitted to."""
    table = fx.importance().set_index("term")
    score = fx.decision_function(ROWS)
    error = np.mean((PRICE - score) ** 2)
    for name in expected_mains(table):
        grown = np.mean((PRICE - score + explained[name]) ** 2) - error
        assert grown == pytest.approx(table.loc[name, "variance"] * np.var(score), rel=0.05)


def expected_mains(table):
    """Main effects strong enough to be measured."""
    return [name for name in table.index if table.loc[name, "order"] == 1 and table.loc[name, "variance"] > 1e-3]


def test_features_rank_by_equal_parts_of_their_terms_variances(fx, explained):
    own = dict.fromkeys(NAMES, 0.0)
    for label, values in explained.items():
        names = label.split(" × ")
        for name in names:
            own[name] += np.var(values) / len(names)
    assert list(fx.importance("feature")["feature"]) == sorted(own, key=lambda name: -own[name])


def test_ranks_of_comparisons_are_the_same(fx, expected):
    ranks = treeanova.compare({"one": fx, "raw": fx.raw}).ranks.set_index("term")["one"]
    assert [ranks[label] for label in expected] == list(range(1, len(expected) + 1))


def test_equal_ones_stay_as_they_come():
    assert strongest_first(np.array([1.0, 3.0, 1.0, 3.0, -0.0, 0.0])) == [1, 3, 0, 2, 4, 5]
