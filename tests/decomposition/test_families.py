"""Families of features: which terms belong together, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from treeanova.decomposition.importance import families_of, summed

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
    assert families.key((1, 3)) == (1, 3)


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
    found = summed(values, np.array([1, 0, 1]), 3)
    assert found.tolist() == [values[1].tolist(), (values[0] + values[2]).tolist(), np.zeros((2, 2)).tolist()]
