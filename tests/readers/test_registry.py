"""register_reader(): models of a class that treeanova does not know."""

from __future__ import annotations

import dataclasses
import json
import pathlib

import numpy as np
import pytest

import treeanova
from tests.support.training import fit
from treeanova import read_model, readers
from treeanova.errors import UnsupportedModelError
from treeanova.model import Effects, Feature, Grid, IntervalAxis, Schema
from treeanova.model.forest import assemble

SCHEMA = Schema((Feature("a"), Feature("b")))


@dataclasses.dataclass
class And:
    """1 where both features are above 0, else 0."""

    def predict(self, X):
        return ((X[:, 0] > 0) & (X[:, 1] > 0)).astype(float)


def read_and(model):
    return assemble(
        SCHEMA,
        intercept=0.0,
        roots=[0],
        feature=[0, -1, 1, -1, -1],
        bound=[0.0] * 5,
        left=[1, -1, 3, -1, -1],
        right=[2, -1, 4, -1, -1],
        missing_left=[False] * 5,
        values=[[0], [0], [0], [0], [1]],
        leaf_label=range(5),
    )


def one_more(model):
    return dataclasses.replace(read_and(model), intercept=np.ones(1))


def is_and(model):
    return isinstance(model, And)


@pytest.fixture
def register():
    """Register readers for the time of a test."""
    removals = []

    def call(*arguments):
        removals.append(treeanova.register_reader(*arguments))
        return removals[-1]

    yield call
    for remove in removals:
        remove()
    assert not readers._registered


ROWS = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])


def test_a_registered_class_is_read_and_decomposed(register):
    with pytest.raises(UnsupportedModelError, match=r"got And; it reads .*register_reader\(\) adds a reader"):
        read_model(And())
    register(is_and, read_and)
    np.testing.assert_array_equal(read_model(And()).score(ROWS)[:, 0], And().predict(ROWS))
    fx = treeanova.decompose(And(), ROWS, density="empirical")
    assert fx.intercept == 0.25
    np.testing.assert_allclose(fx.terms["a", "b"].values, [[0.25, -0.25], [-0.25, 0.25]])
    np.testing.assert_allclose(fx.decision_function(ROWS), And().predict(ROWS))


def test_a_reader_can_be_removed_twice(register):
    remove = register(is_and, read_and)
    remove()
    remove()
    with pytest.raises(UnsupportedModelError, match="got And"):
        read_model(And())


def test_the_latest_reader_comes_first_and_before_those_of_the_package(register):
    tree = pytest.importorskip("sklearn.tree")
    model = fit(tree.DecisionTreeRegressor(max_depth=1), ROWS, [0, 0, 5, 5])
    register(
        lambda model: hasattr(model, "predict"),
        lambda model: dataclasses.replace(read_and(model), intercept=np.ones(1)),
    )
    assert read_model(model).score(ROWS)[0, 0] == 1
    register(lambda model: hasattr(model, "predict"), read_and)
    assert read_model(model).score(ROWS)[0, 0] == 0
    assert read_model(And()).score(ROWS)[3, 0] == 1


def test_a_subclass_of_a_supported_class_can_have_its_own_reader(register):
    tree = pytest.importorskip("sklearn.tree")

    class Doubled(tree.DecisionTreeRegressor):
        def predict(self, X):
            return 2 * super().predict(X)

    model = fit(Doubled(max_depth=1), ROWS, [0, 0, 5, 5])
    with pytest.raises(UnsupportedModelError, match="Doubled cannot be read: it overrides `predict`"):
        read_model(model)

    def read_doubled(model):
        plain = fit(tree.DecisionTreeRegressor(max_depth=1), ROWS, [0, 0, 5, 5])
        forest = read_model(plain)
        return dataclasses.replace(forest, values=2 * forest.values)

    register(lambda model: isinstance(model, Doubled), read_doubled)
    np.testing.assert_array_equal(read_model(model).score(ROWS)[:, 0], model.predict(ROWS))


def test_a_reader_of_a_file_format(register, tmp_path):
    path = tmp_path / "model.and"
    path.write_text("{}")
    with pytest.raises(UnsupportedModelError, match=r"a file that treeanova reads, got .*model\.and"):
        read_model(path)
    register(lambda model: isinstance(model, pathlib.Path) and model.suffix == ".and", read_and)
    for given in (path, str(path)):
        np.testing.assert_array_equal(read_model(given).score(ROWS)[:, 0], And().predict(ROWS))


def test_a_reader_of_json_files(register, tmp_path):
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"and": ["a", "b"]}))
    with pytest.raises(treeanova.errors.ModelFileError, match="JSON file of XGBoost or CatBoost, got names and"):
        read_model(path)
    register(lambda model: isinstance(model, pathlib.Path) and "and" in json.loads(model.read_bytes()), read_and)
    np.testing.assert_array_equal(read_model(path).score(ROWS)[:, 0], And().predict(ROWS))


def test_a_reader_may_return_effects(register):
    axes = tuple(IntervalAxis(name, -1, np.zeros(1)) for name in "ab")
    effects = Effects(Grid(SCHEMA, axes), np.zeros(1), {(0, 1): np.array([[0.0, 0.0], [0.0, 1.0]])[..., None]})
    register(is_and, lambda model: effects)
    assert read_model(And()) is effects


def test_a_pipeline_may_end_in_a_registered_class(register):
    pipeline = pytest.importorskip("sklearn.pipeline")
    register(is_and, read_and)
    model = pipeline.Pipeline([("nothing", "passthrough"), ("and", And())])
    np.testing.assert_array_equal(read_model(model).score(ROWS)[:, 0], And().predict(ROWS))


def wrong_type(model):
    return {"trees": []}


def wrong_intercept(model):
    return dataclasses.replace(read_and(model), intercept=np.zeros(2))


def infinite_leaf(model):
    return dataclasses.replace(read_and(model), values=np.array([[0.0], [np.inf], [1.0]]))


def nan_in_a_term(model):
    axes = (IntervalAxis("a", -1, np.zeros(1)), IntervalAxis("b", -1, np.zeros(0)))
    return Effects(Grid(SCHEMA, axes), np.zeros(1), {(0,): np.array([[0.0], [np.nan]])})


@pytest.mark.parametrize(
    ("read", "kind", "message"),
    [
        (wrong_type, TypeError, r"test_registry\.wrong_type must return a Forest or Effects, got dict"),
        (wrong_intercept, ValueError, r"wrong_intercept must return an intercept for each of 1 outputs, got 2"),
        (infinite_leaf, ValueError, r"infinite_leaf must return finite values, got inf"),
        (nan_in_a_term, ValueError, r"nan_in_a_term must return finite values, got nan"),
    ],
)
def test_what_a_reader_returns_is_checked(read, kind, message, register):
    register(is_and, read)
    with pytest.raises(kind, match=message):
        read_model(And())


def failing(model):
    return model.absent


def test_errors_of_a_reader_name_it(register):
    register(is_and, failing)
    with pytest.raises(AttributeError, match="no attribute 'absent'") as caught:
        read_model(And())
    assert any("registered reader tests.readers.test_registry.failing" in note for note in caught.value.__notes__)


def test_errors_of_recognises_name_the_reader(register):
    register(lambda model: model.absent, read_and)
    with pytest.raises(AttributeError, match="no attribute 'absent'") as caught:
        read_model(And())
    assert any(
        "`recognises` of the registered reader tests.readers.test_registry.read_and" in n
        for n in caught.value.__notes__
    )


@pytest.mark.parametrize(("recognises", "read", "name"), [(And, 3, "read"), ("And", read_and, "recognises")])
def test_arguments_must_be_functions(recognises, read, name):
    with pytest.raises(TypeError, match=f"`{name}` must be a function of a model, got "):
        treeanova.register_reader(recognises, read)
