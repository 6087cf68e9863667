"""Saved decompositions: bit-equal when they come back, refused when damaged or foreign, never code.

`archives/schema-N.tav` is one small file per schema number, as the version that introduced the schema wrote it.
``python -m tests.test_storage`` writes the one of the present schema, from `reference` below; those of older schemas
are never written again.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import io
import json
import os
import pathlib
import pickle
import stat
import subprocess
import sys
import tracemalloc
import warnings
import zipfile
from collections.abc import Mapping

import numpy as np
import pytest

import treeanova
from treeanova import ArchiveError, Effects, Grid, load
from treeanova.data.features import Feature, Labels, Numeric, Schema
from treeanova.decomposition.decomposition import Decomposition, decomposed
from treeanova.density.kinds import KINDS, Empirical, Laplace, Shrinkage, Table, Uniform
from treeanova.density.rows_in_memory import statistics_of
from treeanova.model.axes import CategoryAxis, IntervalAxis
from treeanova.storage import archive
from treeanova.storage.archive import SCHEMA
from treeanova.storage.schema import describe
from treeanova.terms.additive import AdditiveModel
from treeanova.terms.source import Settings
from treeanova.terms.termset import Tensors

ARCHIVES = pathlib.Path(__file__).parent / "archives"
decompose = functools.partial(treeanova.decompose, density="empirical", n_jobs=1)


def purified(effects, density):
    """The decomposition of an additive model under a density."""
    return decomposed(AdditiveModel(Tensors(effects)), density, Settings())


def reference():
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


# Files of every schema


@pytest.mark.parametrize("schema", range(1, SCHEMA + 1))
def test_files_of_every_schema_are_read(schema):
    """Means 3/8; mains ±1/4 whatever the correlation; all by hand."""
    fx = load(ARCHIVES / f"schema-{schema}.tav")
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
    np.testing.assert_allclose(fx.moments.variance, np.array([[1, 4], [1, 4], [0.75, 3]]) / 16, atol=1e-14)
    np.testing.assert_allclose(fx.moments.covariance, np.array([[1, 4], [1, 4], [0, 0]]) / 32, atol=1e-14)
    assert fx.terms["age"].axes[0].labels == ("≤ 0.5", "> 0.5 or missing")
    assert fx.terms["kind"].axes[0].labels == ("a or unseen", "b")
    assert fx.schema.outputs == ("low", "high")
    assert (fx.density.name, fx.schema.link, fx.schema.named) == ("empirical", "identity", True)
    assert fx.certificate.terms["age", "kind"].max_correlation == pytest.approx(0.5, abs=1e-6)


def test_every_schema_has_its_file():
    assert {path.name for path in ARCHIVES.iterdir()} == {f"schema-{n}.tav" for n in range(1, SCHEMA + 1)}


# Round trips


def numbers(n_rows=200, seed=0):
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(n_rows, 3))
    data[:, 1] += data[:, 0]
    return data


def table(seed=0, n_rows=200):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {"a": rng.normal(size=n_rows), "k": rng.choice(["u", "v", "wä"], n_rows), "n": rng.integers(0, 4, n_rows)}
    )
    data.loc[::7, "a"] = np.nan
    response = data.a.fillna(0.5) * (data.k == "u") + (data.k == "v") * data.n
    return data, response


def as_category(data):
    return data.astype({"k": "category"})


def regression():
    ensemble = pytest.importorskip("sklearn.ensemble")
    data = numbers()
    model = ensemble.GradientBoostingRegressor(n_estimators=6, max_depth=2, random_state=0).fit(
        data, data[:, 0] * data[:, 1]
    )
    return decompose(model, data), numbers(seed=1)


def multiclass():
    ensemble = pytest.importorskip("sklearn.ensemble")
    data = numbers()
    classes = np.digitize(data[:, 0] + data[:, 2], [-0.5, 0.5])
    model = ensemble.GradientBoostingClassifier(n_estimators=2, max_depth=2, random_state=0).fit(data, classes)
    return decompose(model, data), numbers(seed=1)


def two_targets():
    ensemble = pytest.importorskip("sklearn.ensemble")
    data = numbers()
    model = ensemble.RandomForestRegressor(3, max_depth=2, random_state=0, n_jobs=1).fit(data, data[:, :2] ** 2)
    return decompose(model, data), numbers(seed=1)


def order_three():
    tree = pytest.importorskip("sklearn.tree")
    data = numbers()
    model = tree.DecisionTreeRegressor(max_depth=3, random_state=0).fit(data, data.prod(axis=1))
    return decompose(model, data), numbers(seed=1)


def catboost_categories():
    catboost = pytest.importorskip("catboost")
    data, response = table()
    model = catboost.CatBoostRegressor(
        iterations=6, depth=2, verbose=0, thread_count=1, allow_writing_files=False, one_hot_max_size=10
    ).fit(data, response, cat_features=["k"])
    return decompose(model, data), table(seed=1)[0]


def lightgbm_categories():
    lightgbm = pytest.importorskip("lightgbm")
    data, response = table()
    model = lightgbm.LGBMRegressor(n_estimators=6, num_leaves=4, max_depth=2, n_jobs=1, verbose=-1, min_child_samples=5)
    return decompose(model.fit(as_category(data), response), as_category(data)), as_category(table(seed=1)[0])


def xgboost_categories():
    xgboost = pytest.importorskip("xgboost")
    data, response = table()
    data = data.replace("wä", "w")
    model = xgboost.XGBRegressor(n_estimators=6, max_depth=2, n_jobs=1, enable_categorical=True)
    rows = as_category(table(seed=1)[0].replace("wä", "w"))
    return decompose(model.fit(as_category(data), response), as_category(data)), rows


def hist_categories():
    ensemble = pytest.importorskip("sklearn.ensemble")
    data, response = table()
    model = ensemble.HistGradientBoostingRegressor(
        max_iter=6, max_depth=2, categorical_features="from_dtype", min_samples_leaf=5, random_state=0
    )
    return decompose(model.fit(as_category(data), response), as_category(data)), as_category(table(seed=1)[0])


def ebm_categories():
    glassbox = pytest.importorskip("interpret.glassbox")
    data, response = table()
    model = glassbox.ExplainableBoostingRegressor(n_jobs=1, outer_bags=1, max_rounds=5, interactions=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Missing values detected")
        model.fit(data, response)
    return decompose(model, data), table(seed=1)[0]


CASES = [
    regression, multiclass, two_targets, order_three, catboost_categories, lightgbm_categories, xgboost_categories,
    hist_categories, ebm_categories,
]  # fmt: skip


def there_and_back(fx, tmp_path):
    fx.save(tmp_path / "fx.tav")
    return load(tmp_path / "fx.tav")


def same_bits(first, second):
    assert first.shape == second.shape
    assert first.dtype == second.dtype
    assert first.tobytes() == second.tobytes()


def assert_same(fx, again, rows):
    """All that is saved is the same to the last bit, and so is what follows from it."""
    assert again == fx
    assert fx == again
    assert json.dumps(describe(again.schema)) == json.dumps(describe(fx.schema))
    for own, other in ((fx.effects, again.effects), (fx.raw.effects, again.raw.effects)):
        assert list(own.terms) == list(other.terms)
        same_bits(own.intercept, other.intercept)
        for key, values in own.terms.items():
            same_bits(values, other.terms[key])
    assert fx.weights.keys() == again.weights.keys()
    for key, weights in fx.weights.items():
        same_bits(weights, again.weights[key])
        same_bits(weights, again.density.table(key))
    for own, other in zip(fx.grid.axes, again.grid.axes, strict=True):
        assert (type(own), own.name, own.labels, own.missing_bin) == (
            type(other), other.name, other.labels, other.missing_bin
        )  # fmt: skip
        assert getattr(own, "categories", None) == getattr(other, "categories", None)
        assert getattr(own, "unseen_bin", None) == getattr(other, "unseen_bin", None)
    assert dict(fx.certificate.terms) == dict(again.certificate.terms)
    assert str(fx.certificate) == str(again.certificate)
    assert dataclasses.replace(fx.settings, n_jobs=1) == again.settings
    assert fx.scope == again.scope
    assert repr(fx) == repr(again)
    same_bits(fx.decision_function(rows), again.decision_function(rows))
    same_bits(fx.raw.decision_function(rows), again.raw.decision_function(rows))
    same_bits(fx.explain(rows).values, again.explain(rows).values)
    assert fx.importance().equals(again.importance())
    assert fx.importance(by="feature").equals(again.importance(by="feature"))
    for names in fx.terms:
        assert fx.table(names).equals(again.table(names))


@pytest.mark.parametrize("case", CASES)
def test_what_is_saved_comes_back_to_the_last_bit(case, tmp_path):
    fx, rows = case()
    again = there_and_back(fx, tmp_path)
    assert_same(fx, again, rows)
    if hasattr(rows, "columns"):
        assert any(feature.is_category for feature in again.schema.features)
    assert_same(fx, there_and_back(again, tmp_path), rows)


def test_the_same_content_gives_the_same_bytes(tmp_path):
    for name in ("first", "second"):
        regression()[0].save(tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


DENSITIES = {
    **{name: name for name in sorted(KINDS)},
    "laplace 0.1": Laplace(mix=0.1),
    "shrinkage 0.3": Shrinkage(intensity=0.3),
    "length": Uniform(measure="length"),
    "callable": lambda names, axes: functools.reduce(np.multiply.outer, [np.arange(1.0, 1 + a.size) for a in axes]),
    "other rows": Empirical(X=numbers(seed=5)),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_every_density_comes_back(name, tmp_path):
    fx, rows = regression()
    under = fx.with_density(DENSITIES[name])
    again = there_and_back(under, tmp_path)
    assert_same(under, again, rows)
    assert again.density.name == under.density.name


def test_a_table_comes_back(tmp_path):
    fx, rows = regression()
    joint = np.random.default_rng(0).random(fx.grid.sizes)
    under = fx.with_density(Table({("x0", "x1", "x2"): joint}))
    again = there_and_back(under, tmp_path)
    assert_same(under, again, rows)
    assert again.density.name == "table"


def test_selections_and_sums_come_back(tmp_path):
    fx, rows = regression()
    for part in (fx.select(order=1), fx.drop("x0"), fx + fx, fx.raw):
        again = there_and_back(part, tmp_path)
        assert again == part
        same_bits(again.decision_function(rows), part.decision_function(rows))
        assert again.importance().equals(part.importance())


def test_a_constant_model_comes_back(tmp_path):
    tree = pytest.importorskip("sklearn.tree")
    fx = decompose(tree.DecisionTreeRegressor(random_state=0).fit(numbers(), np.full(200, 2.5)), numbers())
    assert there_and_back(fx, tmp_path).decision_function(numbers()).tolist() == [2.5] * 200


def test_rows_do_not_come_back_but_may_be_given(tmp_path):
    fx, rows = regression()
    again = there_and_back(fx, tmp_path)
    with pytest.raises(ValueError, match="`X` must be given for the density 'laplace', got None"):
        again.with_density("laplace")
    with pytest.raises(ValueError, match="weights of its own terms only; pass `X` for others"):
        again.density.table((0, 1, 2))
    with pytest.raises(ValueError, match="rows"):
        again.select(order=1).importance()
    assert again.with_density("uniform") == fx.with_density("uniform")
    assert again.with_density("laplace", rows) == fx.with_density("laplace", rows)


def test_a_saved_density_knows_the_marginals_of_its_terms(tmp_path):
    """The raw model lacks main effects; shares of the rows, counted here, are the oracle."""
    fx, _ = order_three()
    again = there_and_back(fx.raw, tmp_path)
    assert not any(len(names) == 1 for names in again.terms)
    for j, axis in enumerate(fx.grid.axes):
        counted = np.bincount(axis.index(numbers()[:, j]), minlength=axis.size) / 200
        np.testing.assert_allclose(again.density.table((j,)), counted, atol=1e-12)


@pytest.mark.parametrize("part", ["raw", "cut", "select"])
def test_a_report_is_written_of_every_kind_of_saved_decomposition(part, tmp_path):
    pytest.importorskip("vl_convert")
    fx, _ = regression()
    made = {"raw": lambda: fx.raw, "cut": lambda: fx.truncate(1), "select": lambda: fx.select(order=1)}[part]()
    treeanova.write_report(there_and_back(made, tmp_path), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(name in text for name in ("x0", "x1", "x2"))


def test_a_saved_density_is_estimated_anew_from_new_rows(tmp_path):
    fx, _ = regression()
    other = numbers(seed=7)
    for density in ("empirical", Laplace(mix=0.2), "auto"):
        again = there_and_back(fx.with_density(density), tmp_path)
        twice = there_and_back(again, tmp_path)
        expected = fx.with_density(density, other)
        assert expected != again
        assert again.with_density(again.density, other) == expected
        assert twice.with_density(twice.density, other) == expected
    table = there_and_back(fx.with_density(lambda _, axes: np.ones([axis.size for axis in axes])), tmp_path)
    with pytest.raises(ValueError, match="`density` must be given again, got the saved one of the kind 'table'"):
        table.with_density(table.density, other)


def test_uniform_weights_that_depend_on_rows_come_back(tmp_path):
    """No row is missing, so that the bin of missing values has no weight: with rows or without them."""
    data = np.array([[0.0], [1.0], [2.0], [3.0]])
    schema = Schema((Feature("a", Numeric()),))
    grid = Grid(schema, (IntervalAxis("a", 2, np.array([1.5])),))
    effects = Effects(grid, np.zeros(1), {(0,): np.array([[1.0], [2.0], [9.0]])})
    fx = purified(effects, Uniform().bind(grid, statistics_of(data, grid)))
    again = there_and_back(fx, tmp_path)
    assert fx.density.table((0,)).tolist() == [0.5, 0.5, 0.0]
    assert again.density.table((0,)).tolist() == [0.5, 0.5, 0.0]
    assert again.density.name == "uniform"
    assert again.density.is_product


def test_a_part_of_a_saved_decomposition_can_be_saved(tmp_path):
    """Its importance needs rows that are gone, its terms do not."""
    fx, rows = regression()
    again = there_and_back(there_and_back(fx, tmp_path).select(order=1), tmp_path)
    assert again == fx.select(order=1)
    same_bits(again.decision_function(rows), fx.select(order=1).decision_function(rows))
    with pytest.raises(ValueError, match="must have rows for this, got none; use with_density"):
        again.importance()


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
@pytest.mark.parametrize("density", ["empirical", "auto", Empirical(X=numbers(211, seed=3)), "uniform"])
def test_pickles_hold_no_rows(density, tensor_order):
    """Neither values of rows that are no bounds of bins, nor arrays as long as the rows, nor the model."""
    tree = pytest.importorskip("sklearn.tree")
    data = numbers(211)
    model = tree.DecisionTreeRegressor(max_depth=4, random_state=0).fit(data, data.prod(axis=1))
    fx = treeanova.decompose(model, data, density=density, tensor_order=tensor_order)
    fx.importance()
    fx.variance_share("x0")
    assert fx.raw is fx.raw
    content = pickle.dumps(fx)
    assert not any(value.tobytes() in content for rows in (data, numbers(211, seed=3)) for value in rows.ravel())
    assert b"DecisionTreeRegressor" not in content
    again = pickle.loads(content)
    assert not any(211 in array.shape for array in arrays_in(again))
    assert any(211 in array.shape for array in arrays_in(fx))  # so that the line above says something


def test_a_pickle_is_what_a_file_is(tmp_path):
    fx, rows = regression()
    again = pickle.loads(pickle.dumps(fx))
    assert_same(there_and_back(fx, tmp_path), again, rows)
    assert_same(fx, again, rows)
    with pytest.raises(ValueError, match="`X` must be given for the density 'laplace', got None"):
        again.with_density("laplace")
    with pytest.raises(ValueError, match="needs the rows of the density, got none; decompose with X"):
        again.standard_errors()
    assert again.with_density("laplace", rows) == fx.with_density("laplace", rows)
    assert pickle.loads(pickle.dumps(again.select(order=1))) == fx.select(order=1)


def test_copies_keep_their_rows():
    fx, _ = regression()
    for same in (copy.copy(fx), copy.deepcopy(fx)):
        assert same.with_density("laplace") == fx.with_density("laplace")


def test_rows_and_models_are_not_in_the_file(tmp_path):
    """The header and the arrays of bounds, terms, weights and moments: nothing as long as the rows."""
    fx, _ = regression()
    fx.save(tmp_path / "fx.tav")
    parts = arrays_of(tmp_path / "fx.tav")
    assert {name.partition("/")[0] for name in parts} == {
        "bounds", "pure", "raw", "weights", "moments", "pure_intercept.npy", "raw_intercept.npy"
    }  # fmt: skip
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


# Nothing pickled


def arrays_of(path):
    with zipfile.ZipFile(path) as file:
        names = [name for name in file.namelist() if name != "header.json"]
        return {name: np.load(io.BytesIO(file.read(name)), allow_pickle=False) for name in names}


@pytest.mark.parametrize("case", [multiclass, hist_categories, catboost_categories])
def test_a_file_holds_json_and_plain_arrays_only(case, tmp_path):
    fx, _ = case()
    fx.save(tmp_path / "fx.tav")
    for name, array in arrays_of(tmp_path / "fx.tav").items():
        assert name.endswith(".npy")
        assert array.dtype == np.float64
    with zipfile.ZipFile(tmp_path / "fx.tav") as file:
        assert json.loads(file.read("header.json"))["schema"] == SCHEMA
        for name in file.namelist():
            assert not file.read(name).startswith(b"\x80")  # as pickles do
            assert file.read(name).startswith(b"{" if name == "header.json" else b"\x93NUMPY")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "fx.tav"
    reference().save(path)
    return path


def rewritten(saved, path, parts):
    """A copy of a file with some parts replaced; None leaves a part out."""
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(path, "w") as new:
        for name in {**dict.fromkeys(old.namelist()), **parts}:
            content = parts.get(name, old.read(name) if name in old.namelist() else None)
            if content is not None:
                new.writestr(name, content)
    return path


def with_header(saved, path, change):
    with zipfile.ZipFile(saved) as file:
        header = json.loads(file.read("header.json"))
    change(header)
    return rewritten(saved, path, {"header.json": json.dumps(header)})


def npy(array, *, allow_pickle=False):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


def test_a_copy_of_all_parts_is_read(saved, tmp_path):
    assert load(rewritten(saved, tmp_path / "copy.tav", {})) == reference()
    assert load(with_header(saved, tmp_path / "copy.tav", lambda header: None)) == reference()


class Bomb:
    def __reduce__(self):
        return pathlib.Path.touch, (pathlib.Path("exploded"),)


def test_a_pickle_in_a_part_is_refused_and_not_run(saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bomb = npy(np.array([Bomb()], dtype=object), allow_pickle=True)
    with pytest.raises(ArchiveError, match="damaged or foreign"):
        load(rewritten(saved, tmp_path / "fx.tav", {"pure_intercept.npy": bomb}))
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    "name",
    ["os:system", "antigravity:fly", "builtins:exec", "treeanova.features:describe", "treeanova.readers.catboost:json",
     "treeanova.readers.absent:Thing", "treeanova.archive:zipfile", "treeanova.readers.xgboost:Absent", "", ":"],
)  # fmt: skip
@pytest.mark.parametrize("where", ["schema", "feature", "encoder"])
def test_only_treeanovas_own_classes_are_made(saved, tmp_path, name, where):
    def change(header):
        schema = header["features"]
        feature = schema["fields"]["features"]["tuple"][0]
        {"schema": schema, "feature": feature, "encoder": feature["fields"]["encoder"]}[where]["type"] = name

    with pytest.raises(ArchiveError, match="one that does not fit"):
        load(with_header(saved, tmp_path / "fx.tav", change))
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("case", [catboost_categories, hist_categories])
def test_loading_needs_no_model_library(case, tmp_path):
    fx, _ = case()
    fx.save(tmp_path / "fx.tav")
    code = (
        "import sys, treeanova; treeanova.load(sys.argv[1]); "
        "print([m for m in ('catboost', 'xgboost', 'lightgbm', 'sklearn', 'interpret', 'pickle5') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "fx.tav"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Damaged and foreign files


def outcome(path, expected, rows):
    """'refused' for ArchiveError, 'same' for a decomposition with the same scores, else what went wrong."""
    try:
        found = load(path)
        same = found == expected and np.array_equal(found.decision_function(rows), expected.decision_function(rows))
    except ArchiveError:
        return "refused"
    except Exception as error:  # noqa: BLE001  any other kind is what this looks for
        return type(error).__name__
    return "same" if same else "other"


ROWS = np.array([[0.5, "a"], [-999, "b"], [np.nan, "z"]], dtype=object)


def test_truncated_files_are_refused(saved, tmp_path):
    content, path = saved.read_bytes(), tmp_path / "cut.tav"
    for length in {*range(0, len(content), 23), *range(len(content) - 60, len(content)), 0, 1, 4, 22}:
        path.write_bytes(content[:length])
        with pytest.raises(ArchiveError, match=r"cut\.tav must be a whole file saved by treeanova"):
            load(path)


def test_files_cut_inside_are_refused(saved, tmp_path):
    content, path = saved.read_bytes(), tmp_path / "cut.tav"
    expected = reference()
    found = set()
    for start in range(0, len(content) - 40, 41):
        path.write_bytes(content[:start] + content[start + 40 :])
        found.add(outcome(path, expected, ROWS))
    assert found <= {"refused", "same"}


def test_a_part_that_claims_to_go_on_after_the_end_is_refused(saved, tmp_path):
    path = rewritten(saved, tmp_path / "fx.tav", {})
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"PK\x01\x02")
    content[entry + 20 : entry + 28] = (10**6).to_bytes(4, "little") * 2  # sizes, packed and not
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match="damaged or foreign"):
        load(path)


def test_changed_bytes_are_noticed(saved, tmp_path):
    """Three hundred files with one to four bytes changed: refused, or the same where the bytes mean nothing."""
    rng = np.random.default_rng(0)
    content, path, expected = saved.read_bytes(), tmp_path / "changed.tav", reference()
    found = []
    for _ in range(300):
        changed = bytearray(content)
        for position in rng.integers(0, len(content), rng.integers(1, 5)):
            changed[position] ^= int(rng.integers(1, 256))
        path.write_bytes(changed)
        found.append(outcome(path, expected, ROWS))
    assert set(found) <= {"refused", "same"}
    assert found.count("refused") > 100


@pytest.mark.parametrize("value", [None, 0, -1, 2.5, "x", [], {}, [[]], True])
def test_changed_headers_are_refused_or_harmless(saved, tmp_path, value):
    with zipfile.ZipFile(saved) as file:
        names = list(json.loads(file.read("header.json")))
    expected, path = reference(), tmp_path / "fx.tav"
    for name in names:
        with_header(saved, path, lambda header, name=name: header.update({name: value}))
        allowed = {"refused", "same"} if name in {"backend", "random_state", "schema"} else {"refused"}
        if name in {"options", "density", "certificate"}:
            allowed = {"refused", "same"}
        assert outcome(path, expected, ROWS) in allowed, name


def test_headers_without_an_entry_are_refused(saved, tmp_path):
    with zipfile.ZipFile(saved) as file:
        names = list(json.loads(file.read("header.json")))
    assert len(names) > 8
    for name in names:
        with pytest.raises(ArchiveError, match=r"fx\.tav (must be|has schema)"):
            load(with_header(saved, tmp_path / "fx.tav", lambda header, name=name: header.pop(name)))


def part_names(saved):
    with zipfile.ZipFile(saved) as file:
        return file.namelist()


def test_files_without_a_part_are_refused(saved, tmp_path):
    for name in part_names(saved):
        with pytest.raises(ArchiveError, match="damaged or foreign"):
            load(rewritten(saved, tmp_path / "fx.tav", {name: None}))


@pytest.mark.parametrize("name", ["pure/0-1.npy", "raw/0-1.npy", "pure/0.npy", "pure_intercept.npy"])
@pytest.mark.parametrize(
    "content", [npy(np.zeros((5, 5, 5))), npy(np.zeros(())), b"", b"\x93NUMPY", npy(np.zeros(3))[:-4]],
    ids=["shape", "scalar", "empty", "magic", "short"],
)  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(saved, tmp_path, name, content):
    with pytest.raises(ArchiveError, match=r"fx\.tav must be a whole file saved by treeanova"):
        load(rewritten(saved, tmp_path / "fx.tav", {name: content}))


@pytest.mark.parametrize(
    ("name", "array"),
    [("weights/0-1.npy", np.ones((5, 5))), ("moments/variance.npy", np.ones((9, 9))), ("bounds/0.npy", np.ones((1, 1))),
     ("pure/0.npy", np.array([["a", "b"], ["c", "d"]])), ("pure/0.npy", np.ones((2, 2), dtype=complex))],
)  # fmt: skip
def test_arrays_of_other_shapes_or_kinds_are_refused(saved, tmp_path, name, array):
    path = rewritten(saved, tmp_path / "fx.tav", {name: npy(array)})
    with pytest.raises(ArchiveError, match="must be a whole file saved by treeanova"):
        load(path)


def test_an_array_that_claims_to_be_huge_is_refused(saved, tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)})
    with pytest.raises(ArchiveError, match="damaged or foreign"):
        load(rewritten(saved, tmp_path / "fx.tav", {"pure_intercept.npy": header.getvalue()}))


def npy_of_zeros(n):
    """The start of an array of n zeros, and pieces of the rest."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (n,)})
    return [header.getvalue(), *(bytes(min(2**20, 8 * n - start)) for start in range(0, 8 * n, 2**20))]


BOMBS = {
    "array": ("pure_intercept.npy", lambda: npy_of_zeros(35_000_000)),
    "header": ("header.json", lambda: [b'{"a": [', *[b"[]," * 10**6] * 6, b"[]]}"]),
}


@pytest.mark.parametrize("case", BOMBS)
def test_a_small_file_that_unpacks_to_much_is_refused_before_it_does(case, saved, tmp_path):
    """280 MB of zeros in 300 kB, or a header of 18 MB, which would take twenty times as much once parsed."""
    name, pieces = BOMBS[case]
    path = rewritten(saved, tmp_path / "fx.tav", {name: None})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as file, file.open(name, "w") as part:
        for piece in pieces():
            part.write(piece)
    assert path.stat().st_size < 2_000_000
    tracemalloc.start()
    try:
        with pytest.raises(ArchiveError, match=r"fx\.tav must unpack to what a file of [\d,]+ bytes may hold, got"):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_an_array_that_claims_more_than_its_part_holds_is_refused_before_it_is_made(saved, tmp_path):
    claim = npy_of_zeros(10**8)[0] + bytes(800)
    path = rewritten(saved, tmp_path / "fx.tav", {"pure_intercept.npy": claim})
    tracemalloc.start()
    try:
        with pytest.raises(ArchiveError, match="damaged or foreign"):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_compressions_than_deflate_are_refused(method, saved, tmp_path):
    """They shrink zeros far more than a thousandfold."""
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(tmp_path / "fx.tav", "w", method) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    with pytest.raises(ArchiveError, match=r"fx\.tav must be compressed by deflate, got another method"):
        load(tmp_path / "fx.tav")


def test_arrays_of_one_number_are_saved_in_files_that_load(tmp_path, monkeypatch):
    """2,000 times smaller limits, so that a few megabytes will do: the file is as long as the limits ask for."""
    monkeypatch.setattr(archive, "_ALWAYS_UNPACKED", archive._ALWAYS_UNPACKED // 2000)
    schema = Schema((Feature("a", Numeric()), Feature("b", Numeric())))
    axes = tuple(IntervalAxis(name, -1, np.arange(399.0)) for name in "ab")
    grid = Grid(schema, axes)
    fx = purified(Effects(grid, np.zeros(1), {(0, 1): np.zeros((400, 400, 1))}), Uniform().bind(grid, None))
    assert there_and_back(fx, tmp_path) == fx
    with zipfile.ZipFile(tmp_path / "fx.tav") as file:
        total = sum(part.file_size for part in file.infolist() if part.filename != "padding")
        packed = sum(part.compress_size for part in file.infolist() if part.filename != "padding")
    assert total > 150 * packed
    assert total / 100 <= (tmp_path / "fx.tav").stat().st_size < total / 90
    with pytest.raises(ArchiveError, match="must unpack to what a file of"):
        load(rewritten_packed(tmp_path / "fx.tav", tmp_path / "without.tav"))


def rewritten_packed(saved, path):
    """A copy of a file without its padding."""
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            if name != "padding":
                new.writestr(name, old.read(name))
    return path


def test_a_header_nested_too_deep_is_refused(saved, tmp_path):
    with pytest.raises(ArchiveError, match="damaged or foreign"):
        load(rewritten(saved, tmp_path / "fx.tav", {"header.json": "[" * 200_000}))


@pytest.mark.parametrize("schema", [SCHEMA + 1, 99, 0, -1, "1", None])
def test_other_schemas_are_refused(saved, tmp_path, schema):
    path = with_header(saved, tmp_path / "fx.tav", lambda header: header.update(schema=schema))
    with pytest.raises(ArchiveError, match=f"has schema {schema}, this treeanova reads up to {SCHEMA}; update it"):
        load(path)


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "fx.tav"
    for content in (b"", b"PK", b"not an archive" * 99, b"\x89PNG\r\n\x1a\n" + bytes(500), pickle.dumps({"a": 1})):
        path.write_bytes(content)
        with pytest.raises(
            ArchiveError, match=r"fx\.tav must be a whole file saved by treeanova, got a damaged or foreign"
        ):
            load(path)
    np.savez(tmp_path / "arrays.npz", a=np.arange(3))
    with pytest.raises(ArchiveError, match=r"arrays\.npz must be a whole file"):
        load(tmp_path / "arrays.npz")


@pytest.mark.parametrize(
    "header", ["[]", "3", "null", "{}", '{"kind": "other"}', "{", '{"kind": "treeanova decomposition"}']
)
def test_foreign_archives_are_refused(tmp_path, header):
    with zipfile.ZipFile(tmp_path / "fx.tav", "w") as file:
        file.writestr("header.json", header)
    with pytest.raises(ArchiveError, match=r"fx\.tav must be a"):
        load(tmp_path / "fx.tav")


def test_paths_that_are_no_files_keep_their_own_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        load(tmp_path / "absent.tav")
    with pytest.raises(IsADirectoryError, match="directory"):
        load(tmp_path)


# Saving is all or nothing


def failing(error):
    def fail(*args, **options):
        raise error

    return fail


@pytest.mark.parametrize("where", ["fsync", "write_array", "later write_array", "dumps"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt("stop")])
def test_a_save_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, where, error):
    path = tmp_path / "fx.tav"
    reference().save(path)
    old = path.read_bytes()
    fx, _ = regression()
    if where == "later write_array":
        real, calls = np.lib.format.write_array, []

        def fifth(*args, **options):
            calls.append(args)
            return failing(error)() if len(calls) == 5 else real(*args, **options)

        monkeypatch.setattr(np.lib.format, "write_array", fifth)
    else:
        target = {"fsync": (os, "fsync"), "write_array": (np.lib.format, "write_array"), "dumps": (json, "dumps")}[
            where
        ]
        monkeypatch.setattr(*target, failing(error))
    with pytest.raises(type(error), match=str(error)):
        fx.save(path)
    assert [path.name for path in tmp_path.iterdir()] == ["fx.tav"]
    assert path.read_bytes() == old


def test_a_rename_that_fails_leaves_no_temporary_file(tmp_path):
    (tmp_path / "fx.tav").mkdir()
    with pytest.raises(OSError, match="directory"):
        reference().save(tmp_path / "fx.tav")
    assert [path.name for path in tmp_path.iterdir()] == ["fx.tav"]


def test_a_rename_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    reference().save(tmp_path / "fx.tav")
    old = (tmp_path / "fx.tav").read_bytes()
    monkeypatch.setattr(pathlib.Path, "replace", failing(OSError("no rename")))
    with pytest.raises(OSError, match="no rename"):
        regression()[0].save(tmp_path / "fx.tav")
    assert (tmp_path / "fx.tav").read_bytes() == old


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        reference().save(tmp_path / "absent" / "fx.tav")


KILLED = """
import os, signal, sys
import numpy as np
from tests.test_storage import reference
calls = []
real = np.lib.format.write_array
def die(*args):
    os.kill(os.getpid(), signal.SIGKILL)
def third(*args, **options):
    calls.append(args)
    return die() if len(calls) == 3 else real(*args, **options)
if sys.argv[2] == "third array":
    np.lib.format.write_array = third
else:
    os.fsync = die
reference().save(sys.argv[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize("moment", ["third array", "all written"])
def test_a_kill_while_saving_leaves_the_old_file(saved, tmp_path, moment):
    path = tmp_path / "fx.tav"
    path.write_bytes(saved.read_bytes())
    root = pathlib.Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", KILLED, path, moment], cwd=root, capture_output=True, check=False)
    assert done.returncode == -9, done.stderr.decode()
    assert path.read_bytes() == saved.read_bytes()
    assert load(path) == reference()


def test_saving_replaces_the_old_file(tmp_path):
    fx, rows = regression()
    reference().save(tmp_path / "fx.tav")
    fx.save(str(tmp_path / "fx.tav"))
    assert [path.name for path in tmp_path.iterdir()] == ["fx.tav"]
    assert_same(fx, load(str(tmp_path / "fx.tav")), rows)


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_a_saved_file_may_be_read_by_those_who_may_read_other_files(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    reference().save(tmp_path / "fx.tav")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "fx.tav")]
    assert modes[0] == modes[1]


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_a_file_that_is_replaced_keeps_its_mode(mode, tmp_path, monkeypatch):
    path = tmp_path / "fx.tav"
    path.write_bytes(b"old")
    path.chmod(mode)
    seen, real = [], os.fsync

    def look(descriptor):
        seen.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    reference().save(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert load(path) == reference()
    assert [found & 0o077 & ~mode for found in seen] == [0]  # nor may others read it while it is written


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")
@pytest.mark.parametrize("is_there", [True, False])
def test_saving_through_a_link_writes_to_what_it_points_to(is_there, tmp_path):
    for name in ("files", "links"):
        (tmp_path / name).mkdir()
    target, link = tmp_path / "files" / "fx.tav", tmp_path / "links" / "latest.tav"
    (tmp_path / "links" / "second").symlink_to(os.path.join("..", "files", "fx.tav"))  # noqa: PTH118
    link.symlink_to("second")
    if is_there:
        target.write_bytes(b"old")
    reference().save(link)
    assert link.readlink() == pathlib.Path("second")
    assert not target.is_symlink()
    assert load(target) == reference()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["files", "fx.tav", "latest.tav", "links", "second"]


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")
def test_links_in_a_circle_are_refused(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="levels of symbolic links"):
        reference().save(tmp_path / "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are POSIX")
def test_a_pipe_is_written_to_and_stays(saved, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    code = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"
    with subprocess.Popen([sys.executable, "-c", code, tmp_path / "pipe"], stdout=subprocess.PIPE) as reader:
        reference().save(tmp_path / "pipe")
        (tmp_path / "copy.tav").write_bytes(reader.communicate(timeout=60)[0])
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert load(tmp_path / "copy.tav") == reference()


def test_names_may_be_as_long_as_the_file_system_allows(tmp_path):
    path = tmp_path / f"{'n' * 251}.tav"
    reference().save(path)
    assert load(path) == reference()


def test_a_loaded_decomposition_is_one(saved):
    assert isinstance(load(saved), Decomposition)


if __name__ == "__main__":
    reference().save(ARCHIVES / f"schema-{SCHEMA}.tav")
