"""Families of features: which terms belong together, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support.training import fit
from treeanova.decomposition.importance import families_of, sum_slices

FEATURES = ["job_a", "age", "job_b", "city"]


def test_terms_become_terms_of_families():
    families = families_of({"job": ["job_b", "job_a"]}, FEATURES)
    assert families.names == ("job", "age", "city")
    keys, places = families.merged([(0,), (1,), (2,), (0, 2), (0, 1), (1, 2), (0, 1, 2), (1, 3)])
    assert families.labels(keys) == ["job", "age", "job × age", "age × city"]
    assert places.tolist() == [0, 1, 0, 0, 2, 2, 2, 3]


def test_without_families_features_stay_by_themselves():
    families = families_of(None, FEATURES)
    assert families.names == tuple(FEATURES)
    assert families.key_of_families((1, 3)) == (1, 3)


def test_a_family_may_have_the_name_of_one_of_its_features():
    assert families_of({"age": ["age", "city"]}, FEATURES).names == ("job_a", "age", "job_b")


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"job": ["job_a", "salary"]}, "features of the model, got 'salary' in 'job'"),
        ({"job": ["job_a"], "work": ["job_a"]}, "each feature into one family, got 'job_a' in 'job' and 'work'"),
        ({"job": []}, r"a list of features, got \[\] for 'job'"),
        ({"job": "job_a"}, "a list of features, got 'job_a' for 'job'"),
        ({"city": ["job_a", "job_b"]}, "a family like a feature outside it, got 'city'"),
    ],
)
def test_families_that_do_not_fit_are_refused(groups, message):
    with pytest.raises(ValueError, match=message):
        families_of(groups, FEATURES)


def test_families_must_be_a_mapping():
    with pytest.raises(TypeError, match="must map names of families to lists of features, got list"):
        families_of([["job_a", "job_b"]], FEATURES)


def test_sums_by_place():
    values = np.arange(12.0).reshape(3, 2, 2)
    found = sum_slices(values, np.array([1, 0, 1]), 3)
    assert found.tolist() == [values[1].tolist(), (values[0] + values[2]).tolist(), np.zeros((2, 2)).tolist()]


@pytest.fixture(scope="module", params=["auto", "kernel", "empirical", "laplace"])
def pairs(request):
    """A decomposition of a model of a, b, c, d with pairs; a and b are correlated."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    covariance = [[1, 0.7, 0, 0.4], [0.7, 1, 0, 0], [0, 0, 1, 0], [0.4, 0, 0, 1]]
    X = rng.multivariate_normal([0] * 4, covariance, size=300, method="cholesky")
    y = X[:, 0] * X[:, 1] + X[:, 2] + X[:, 3] * X[:, 0]
    model = fit(ensemble.GradientBoostingRegressor(max_depth=2, random_state=0), X, y)
    return treeanova.decompose(model, X, feature_names=["a", "b", "c", "d"], density=request.param)


def test_a_family_of_two_features_has_the_variance_in_the_table_of_their_pair(pairs):
    tables = {names: pairs.terms[names] for names in [("a",), ("b",), ("a", "b")]}
    weights = tables["a", "b"].weights
    total = tables["a",].values[:, None] + tables["b",].values + tables["a", "b"].values
    variance = (weights * total**2).sum() - (weights * total).sum() ** 2
    by_term = pairs.importance().set_index("term")
    variance_of_a = (tables["a",].weights * tables["a",].values ** 2).sum()
    score_variance = variance_of_a / by_term.variance["a"]
    found = pairs.importance(groups={"ab": ["a", "b"]}).set_index("term").loc["ab"]
    assert found.variance == pytest.approx(variance / score_variance, rel=1e-9)
    assert found.share == pytest.approx(by_term.share[["a", "b", "a × b"]].sum(), rel=1e-9)
    assert found.mean_abs == pytest.approx((weights * np.abs(total)).sum(), rel=1e-9)


def test_a_family_of_all_features_has_the_variance_of_the_score(pairs):
    """But for the error of 4,000 rows, and of the density's own rows for the pairs."""
    found = pairs.importance(groups={"all": ["a", "b", "c", "d"]})
    assert found.term.tolist() == ["all"]
    assert found.share[0] == pytest.approx(1.0, abs=1e-9)
    assert found.variance[0] == pytest.approx(1.0, abs=0.1)


def test_the_variance_share_of_a_listed_term_is_that_of_importance(pairs):
    by_term = pairs.importance().set_index("term")
    assert pairs.variance_share("a × b") == pytest.approx(by_term.variance["a × b"], rel=1e-12)


def test_a_term_in_the_remainder_is_said_to_be_there(pairs):
    with pytest.raises(KeyError, match="a × b is in the remainder, if it is a term at all; ask"):
        pairs.truncate(1).variance_share("a × b")
    with pytest.raises(KeyError, match="a × b is in the remainder"):
        pairs.truncate(1).term_values(np.zeros((2, 4)), ["a", "b"])
