"""Links: responses against formulas, labels against the largest probability."""

from __future__ import annotations

import numpy as np
import pytest

from treeanova.model import Feature, Schema
from treeanova.model.effects import class_labels, class_probabilities, is_classifier, respond

ONE = np.array([[-2.0], [0.0], [3.0]])
THREE = np.array([[1.0, 2.0, 0.5], [-1.0, -2.0, -3.0]])


def schema(link, n_outputs=1, classes=()):
    return Schema((Feature("a"),), tuple(f"y{k}" for k in range(n_outputs)), link, classes=classes)


@pytest.mark.parametrize(
    ("link", "score", "expected"),
    [
        ("identity", ONE, ONE),
        ("probability", ONE, ONE),
        ("log", ONE, np.exp(ONE)),
        ("logit", ONE, 1 / (1 + np.exp(-ONE))),
        ("logit", THREE, 1 / (1 + np.exp(-THREE))),
        ("softmax", THREE, np.exp(THREE) / np.exp(THREE).sum(axis=1, keepdims=True)),
    ],
)
def test_responses(link, score, expected):
    np.testing.assert_allclose(respond(schema(link, score.shape[1]), score), expected, rtol=1e-14)


def test_a_response_without_a_link_is_refused():
    with pytest.raises(ValueError, match=r"by a known link, got the link 'other'; use decision_function\(\)"):
        respond(schema("other"), ONE)
    with pytest.raises(ValueError, match=r"by a known link, got the link 'other'; use decision_function\(\)"):
        class_probabilities(schema("other"), ONE)


def test_probabilities_of_two_classes():
    probabilities = class_probabilities(schema("logit"), ONE)
    np.testing.assert_allclose(probabilities[:, 1], 1 / (1 + np.exp(-ONE[:, 0])), rtol=1e-14)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(class_probabilities(schema("probability"), np.array([[0.25]])), [[0.75, 0.25]])


@pytest.mark.parametrize("link", ["identity", "log"])
def test_probabilities_of_a_regressor_are_refused(link):
    assert not is_classifier(schema(link))
    with pytest.raises(ValueError, match=f"must have a classifier, got a model with the link '{link}'"):
        class_probabilities(schema(link), ONE)


@pytest.mark.parametrize(
    ("link", "score", "classes", "expected"),
    [
        ("logit", ONE, (), [0, 0, 1]),
        ("logit", ONE, ("no", "yes"), ["no", "no", "yes"]),
        ("probability", np.array([[0.4], [0.6]]), (10, 20), [10, 20]),
        ("softmax", THREE, (), [1, 0]),
        ("softmax", THREE, ("a", "b", "c"), ["b", "a"]),
        ("logit", THREE, ("a", "b", "c"), ["b", "a"]),
        ("logit", THREE, (), [[1, 1, 1], [0, 0, 0]]),
    ],
)
def test_labels(link, score, classes, expected):
    assert is_classifier(schema(link))
    assert class_labels(schema(link, score.shape[1], classes), score).tolist() == expected
