"""Saved decompositions for tests: one to check by hand, and comparisons to the last bit."""

from __future__ import annotations

import dataclasses
import io
import json
import pathlib
import zipfile
from typing import Any

import numpy as np

from tests.support.decompositions import purified
from treeanova.core.arrays import Arrays
from treeanova.data.features import Feature, Labels, Numeric, Schema
from treeanova.decomposition.decomposition import Decomposition, load
from treeanova.density.kinds import Empirical
from treeanova.density.statistics import statistics_of
from treeanova.model.axes import Axis, CategoryAxis, IntervalAxis
from treeanova.model.effects import Effects
from treeanova.model.grid import Grid
from treeanova.storage.codec import describe


def reference() -> Decomposition:
    """T = [[1, 0], [0, 0]], and twice that for a second output, on rows that fall 3, 1, 1, 3 times into its cells."""
    schema = Schema(
        (Feature("age", Numeric(-999.0)), Feature("kind", Labels(("a", "b")), accepts_missing=False)),
        outputs=("low", "high"),
        named=True,
    )
    grid = Grid(schema, (IntervalAxis("age", 1, np.array([0.5])), CategoryAxis("kind", -1, ("a", "b"), 0)))
    effects = Effects(grid, np.array([10.0, 20.0]), {(0, 1): np.array([[[1.0, 2], [0, 0]], [[0, 0], [0, 0]]])})
    rows = np.array([[0, "a"]] * 3 + [[0, "b"]] + [[1, "a"]] + [[1, "b"]] * 3, dtype=object)
    return purified(effects, Empirical().bind(grid, statistics_of(rows, grid)))


def saved_and_loaded(fx: Decomposition, folder: pathlib.Path) -> Decomposition:
    """A decomposition after saving it to a folder, as fx.tav, and loading it."""
    fx.save(folder / "fx.tav")
    return load(folder / "fx.tav")


def arrays_in_file(path: pathlib.Path) -> Arrays:
    """All parts of a file except the header, as arrays by the names of the parts."""
    with zipfile.ZipFile(path) as file:
        names = [name for name in file.namelist() if name != "header.json"]
        return {name: np.load(io.BytesIO(file.read(name)), allow_pickle=False) for name in names}


def assert_same_bits(first: Any, second: Any) -> None:
    """Raise AssertionError unless two arrays have the same shape, type and bytes."""
    _assert_equal(first.shape, second.shape)
    _assert_equal(first.dtype, second.dtype)
    _assert_equal(first.tobytes(), second.tobytes())


def assert_same_decomposition(fx: Decomposition, again: Decomposition, rows: Any) -> None:
    """Raise AssertionError unless all that is saved, and all answers for rows, are the same to the last bit."""
    _assert_equal(again, fx)
    _assert_equal(fx, again)
    _assert_equal(json.dumps(describe(again.schema)), json.dumps(describe(fx.schema)))
    _assert_same_effects(fx._function.effects, again._function.effects)
    _assert_same_effects(fx.raw._function.effects, again.raw._function.effects)
    _assert_equal(fx._cell_weights.keys(), again._cell_weights.keys())
    for key, weights in fx._cell_weights.items():
        assert_same_bits(weights, again._cell_weights[key])
        assert_same_bits(weights, again.density.table(key, again._function.effects.binnings.get(key)))
    for axis, other in zip(fx.grid.axes, again.grid.axes, strict=True):
        _assert_same_axis(axis, other)
    _assert_equal(dict(fx.certificate.terms), dict(again.certificate.terms))
    _assert_equal(str(fx.certificate), str(again.certificate))
    _assert_equal(dataclasses.replace(fx._settings, n_jobs=1), again._settings)
    _assert_equal(fx._function.scope, again._function.scope)
    _assert_equal(repr(fx), repr(again))
    _assert_same_answers(fx, again, rows)


def _assert_same_effects(effects: Effects, others: Effects) -> None:
    _assert_equal(list(effects.terms), list(others.terms))
    assert_same_bits(effects.intercept, others.intercept)
    for key, values in effects.terms.items():
        assert_same_bits(values, others.terms[key])


def _assert_same_axis(axis: Axis, other: Axis) -> None:
    _assert_equal(type(axis), type(other))
    _assert_equal((axis.name, axis.labels, axis.missing_bin), (other.name, other.labels, other.missing_bin))
    _assert_equal(getattr(axis, "categories", None), getattr(other, "categories", None))
    _assert_equal(getattr(axis, "unseen_bin", None), getattr(other, "unseen_bin", None))


def _assert_same_answers(fx: Decomposition, again: Decomposition, rows: Any) -> None:
    assert_same_bits(fx.decision_function(rows), again.decision_function(rows))
    assert_same_bits(fx.raw.decision_function(rows), again.raw.decision_function(rows))
    assert_same_bits(fx.explain(rows).values, again.explain(rows).values)
    _assert_equal(fx.importance().equals(again.importance()), True)
    _assert_equal(fx.importance(by="feature").equals(again.importance(by="feature")), True)
    for names in fx.terms:
        _assert_equal(fx.table(names).equals(again.table(names)), True)


def _assert_equal(value: Any, expected: Any) -> None:
    are_equal = value == expected
    if not are_equal:
        raise AssertionError(f"values must be equal, got {value!r} and {expected!r}")
