"""What files and pickles of decompositions hold: all of the decomposition to the last bit, without rows and model."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping

import numpy as np
import pytest

import treeanova
from tests.support.archives import (
    arrays_in_file,
    assert_same_bits,
    assert_same_decomposition,
    reference,
    saved_and_loaded,
)
from tests.support.decompositions import purified
from tests.support.library_models import LIBRARY_MODELS, number_rows
from tests.support.training import fit
from treeanova import load
from treeanova.data.features import Feature, Labels, Schema
from treeanova.decomposition.decomposition import Decomposition
from treeanova.density.kinds import Empirical, Uniform
from treeanova.model import Effects, Grid
from treeanova.model.axes import CategoryAxis

# Round trips


@pytest.mark.parametrize("case", LIBRARY_MODELS)
def test_what_is_saved_comes_back_to_the_last_bit(make_case, case, tmp_path):
    fx, rows = make_case(case)
    again = saved_and_loaded(fx, tmp_path)
    assert_same_decomposition(fx, again, rows)
    if hasattr(rows, "columns"):
        assert any(feature.is_category for feature in again.schema.features)
    assert_same_decomposition(fx, saved_and_loaded(again, tmp_path), rows)


def test_the_same_content_gives_the_same_bytes(make_case, tmp_path):
    for name in ("first", "second"):
        make_case("regression")[0].save(tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_selections_and_sums_come_back(regression, tmp_path):
    fx, rows = regression
    for part in (fx.select(order=1), fx.drop("x0"), fx + fx, fx.raw):
        again = saved_and_loaded(part, tmp_path)
        assert again == part
        assert_same_bits(again.decision_function(rows), part.decision_function(rows))
        assert again.importance().equals(part.importance())


def test_a_constant_model_comes_back(tmp_path):
    tree = pytest.importorskip("sklearn.tree")
    fx = treeanova.decompose(
        fit(tree.DecisionTreeRegressor(random_state=0), number_rows(), np.full(200, 2.5)),
        number_rows(),
        density="empirical",
        n_jobs=1,
    )
    assert saved_and_loaded(fx, tmp_path).decision_function(number_rows()).tolist() == [2.5] * 200


# Pickles hold what files hold


def arrays_in(value, seen=None):
    """All arrays that an object refers to, however deep."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from arrays_in(item, seen)
    elif isinstance(value, Mapping):
        for key in value:
            yield from arrays_in(value[key], seen)
    elif hasattr(value, "__dict__"):
        yield from arrays_in(vars(value), seen)


@pytest.mark.parametrize("tensor_order", [None, 2])
@pytest.mark.parametrize("density", ["empirical", "auto", Empirical(X=number_rows(211, seed=3)), "uniform"])
def test_pickles_hold_bins_of_rows_only(density, tensor_order):
    """Neither the model nor values of rows, except ends and quantiles of features: one of ten values at most."""
    tree = pytest.importorskip("sklearn.tree")
    data = number_rows(211)
    model = fit(tree.DecisionTreeRegressor(max_depth=4, random_state=0), data, data.prod(axis=1))
    fx = treeanova.decompose(model, data, density=density, tensor_order=tensor_order)
    fx.importance()
    fx.variance_share("x0")
    assert fx.raw is fx.raw
    content = pickle.dumps(fx)
    for rows in (data, number_rows(211, seed=3)):
        for column in rows.T:
            assert sum(value.tobytes() in content for value in column) <= 23
    assert b"DecisionTreeRegressor" not in content
    again = pickle.loads(content)
    shared = [array for array in arrays_in(again) if array.shape == data.shape]
    assert shared
    for array in shared:  # bins, and one value for all rows of a bin
        assert all(len(np.unique(column)) <= size for column, size in zip(array.T, fx.grid.sizes, strict=True))


def test_a_pickle_is_what_a_file_is(regression, tmp_path):
    fx, rows = regression
    again = pickle.loads(pickle.dumps(fx))
    assert_same_decomposition(saved_and_loaded(fx, tmp_path), again, rows)
    assert_same_decomposition(fx, again, rows)
    assert again.with_density("laplace") == fx.with_density("laplace")
    np.testing.assert_allclose(again.standard_errors(3)["x0",], fx.standard_errors(3)["x0",], rtol=1e-13)
    assert again.with_density("laplace", rows) == fx.with_density("laplace", rows)
    assert pickle.loads(pickle.dumps(again.select(order=1))) == fx.select(order=1)


def test_copies_keep_their_rows(regression):
    fx, _ = regression
    for same in (copy.copy(fx), copy.deepcopy(fx)):
        assert same.with_density("laplace") == fx.with_density("laplace")


def test_rows_and_models_are_not_in_the_file(regression, tmp_path):
    """The header and the arrays of bounds, terms, weights, moments and counts; of rows the bins, or nothing."""
    fx, _ = regression
    for rows, n_rows in ((True, 200), (False, 0)):
        fx.save(tmp_path / "fx.tav", rows=rows)
        parts = arrays_in_file(tmp_path / "fx.tav")
        assert {name.partition("/")[0] for name in parts} == {"axes", "pure", "raw", "weights", "moments", "rows"}
        codes = parts.pop("rows/codes.npy")
        assert (codes.shape, codes.dtype) == ((3, n_rows), np.uint8)
        assert parts.pop("rows/numbers.npy").shape == (n_rows,)
        assert max(len(array) for array in parts.values()) < 200


def test_categories_that_cannot_be_saved_are_named_and_the_old_file_stays(tmp_path):
    pd = pytest.importorskip("pandas")
    label = pd.Timestamp("2020-01-01")
    schema = Schema((Feature("when", Labels((label,))),))
    grid = Grid(schema, (CategoryAxis("when", 0, (label,), 1),))
    effects = Effects(grid, np.zeros(1), {(0,): np.array([[1.0], [2.0]])})
    (tmp_path / "fx.tav").write_bytes(b"old")
    with pytest.raises(TypeError, match="categories must be text, numbers or booleans to be saved, got Timestamp"):
        purified(effects, Uniform().bind(grid, None)).save(tmp_path / "fx.tav")
    assert (tmp_path / "fx.tav").read_bytes() == b"old"


def test_a_loaded_decomposition_is_one(tmp_path):
    reference().save(tmp_path / "fx.tav")
    assert isinstance(load(tmp_path / "fx.tav"), Decomposition)


def test_a_loaded_file_says_what_was_computed_by_hand(tmp_path):
    """Means 3/8; mains ±1/4 whatever the correlation; all by hand."""
    fx = saved_and_loaded(reference(), tmp_path)
    np.testing.assert_allclose(fx.intercept, [10.375, 20.75], atol=1e-14)
    for name in ("age", "kind"):
        np.testing.assert_allclose(fx.terms[name].values, [[0.25, 0.5], [-0.25, -0.5]], atol=1e-14)
    pair = np.array([[0.125, -0.375], [-0.375, 0.125]])
    np.testing.assert_allclose(fx.terms["age", "kind"].values, np.stack([pair, 2 * pair], axis=-1), atol=1e-14)
    np.testing.assert_allclose(fx.terms["age", "kind"].weights, np.array([[3, 1], [1, 3]]) / 8, atol=1e-15)
    rows = np.array([[0.5, "a"], [-999, "a"], [np.nan, "unheard of"], [-7, "zz"]], dtype=object)
    np.testing.assert_allclose(fx.decision_function(rows), [[11, 22], [10, 20], [10, 20], [11, 22]], atol=1e-13)
    np.testing.assert_allclose(fx.raw.decision_function(rows), [[11, 22], [10, 20], [10, 20], [11, 22]], atol=1e-13)
    # Variances 1/16, 1/16 and 3/64, the mains' covariance 1/32, of 15/64 in all.
    np.testing.assert_allclose(fx._moments.variance, np.array([[1, 4], [1, 4], [0.75, 3]]) / 16, atol=1e-14)
    np.testing.assert_allclose(fx._moments.covariance, np.array([[1, 4], [1, 4], [0, 0]]) / 32, atol=1e-14)
    assert fx.terms["age"].axes[0].labels == ("≤ 0.5", "> 0.5 or missing")
    assert fx.terms["kind"].axes[0].labels == ("a or unseen", "b")
    assert fx.schema.outputs == ("low", "high")
    assert (fx.density.name, fx.schema.link, fx.schema.named) == ("empirical", "identity", True)
    assert fx.certificate.terms["age", "kind"].max_correlation == pytest.approx(0.5, abs=1e-6)
