"""Schemas, features and encoders of all readers come back from plain text."""

from __future__ import annotations

import dataclasses
import json
import warnings

import numpy as np
import pytest

from tests.support.training import fit
from treeanova.data.columns import encode
from treeanova.data.dates import DateNumber
from treeanova.data.features import Encoder, Feature, IgnoredColumn, IntegerCategory, Labels, Numeric, Schema
from treeanova.readers import read_model
from treeanova.readers.catboost import HashedCategory
from treeanova.readers.pmml import DeclaredNumber
from treeanova.readers.xgboost.nodes import NamedCategory
from treeanova.storage.codec import describe, restore

pd = pytest.importorskip("pandas")

NAN = float("nan")


def objects(*values):
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


ENCODERS = {
    "numeric": (Numeric(-999.0), np.array([-999.0, 1.0, NAN])),
    "double numbers": (Numeric(cast="float64 only"), np.array([1.0, NAN])),
    "codes": (IntegerCategory(3, ("a", "b", "c"), -1.0), np.array([-1.0, 2.0, 7.0])),
    "labels": (Labels(("a", 1, 2.5, True)), objects("a", 2.5, None, "q")),
    "labels with none": (Labels(("a", None), none="category"), objects("a", None, NAN)),
    "encoded labels": (Labels(("a", None), none="category", refuses_na=True), objects("a", None, NAN)),
    "hashed": (HashedCategory((1867, 4_294_967_295), ("a", "b")), objects("a", "b", "c")),
    "dates": (DateNumber("D", Numeric(-1.0)), np.array([-1.0, 2.0, NAN])),
    "ebm numbers": (Numeric(cast="text"), objects("1.5", None, 2)),
    "ebm texts": (Labels(("a", "1"), "short text"), objects("a", "1", None, "q")),
    "ebm unread": (IgnoredColumn(), objects("a", None)),
    "lightgbm codes": (IntegerCategory((1, 5)), np.array([5.0, 1.0, 2.0, NAN])),
    "lightgbm labels": (Labels(("a", "b"), numbers_are_codes=True), objects("b", None, "q")),
    "lightgbm ordered": (Labels(("a", "b"), numbers_are_codes=True, is_ordered=True), objects("b", None, "q")),
    "treelite codes": (
        IntegerCategory((1, 5), cast="float32", cuts_negative=False, largest=2.0**32 - 1),
        np.array([5.5, 1.0, -1.0, NAN]),
    ),
    "ydf texts": (Labels(("a", "true", "3"), "text", missing=("",)), objects("a", True, 3, "", None, "q")),
    "pmml numbers": (
        DeclaredNumber(((0.0, 9.0), (20.0, 20.0)), (5.0,), (-1.0,), True, Numeric(cast="float32")),
        np.array([-1.0, 0.0, 5.0, 20.0, NAN]),
    ),
    "xgboost number": (Numeric(0.0, "float32"), np.array([0.0, 0.1, NAN])),
    "xgboost codes": (
        IntegerCategory(2, missing=-1.0, cast="float32", cuts_negative=False),
        np.array([0.0, -1.0, 5.0]),
    ),
    "xgboost labels": (NamedCategory(((("a", "b"), (1, 1)),)), objects("b", "a", None)),
}


def encoders_of_all_readers():
    found, pending = set(), [Encoder]
    while pending:
        for kind in pending.pop().__subclasses__():
            pending.append(kind)
            if kind.__module__.startswith("treeanova."):
                found.add(kind)
    return found


def there_and_back(value):
    return restore(json.loads(json.dumps(describe(value))))


def test_no_encoder_is_left_out_here():
    tested = {type(encoder) for encoder, _ in ENCODERS.values()}
    assert encoders_of_all_readers() == tested, "add it to ENCODERS"


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_comes_back_from_plain_text(name):
    encoder, column = ENCODERS[name]
    again = there_and_back(encoder)
    assert type(again) is type(encoder)
    assert again.labels == encoder.labels
    assert [type(label) for label in again.labels or ()] == [type(label) for label in encoder.labels or ()]
    np.testing.assert_array_equal(again.encode(column, "x"), encoder.encode(column, "x"))
    assert json.dumps(describe(again)) == json.dumps(describe(encoder))


def mixed_table(n_rows=120):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"a": rng.normal(size=n_rows), "k": rng.choice(list("uvw"), n_rows), "n": rng.integers(0, 4, n_rows)}
    )
    table.loc[::9, "a"] = NAN
    return table, table.a.fillna(0) * (table.k == "u") + table.n


def catboost_model(table, target):
    catboost = pytest.importorskip("catboost")
    model = catboost.CatBoostRegressor(
        iterations=5, depth=2, verbose=0, thread_count=1, allow_writing_files=False, one_hot_max_size=10
    )
    return fit(model, table, target, cat_features=["k"]), table


def lightgbm_model(table, target):
    lightgbm = pytest.importorskip("lightgbm")
    table = table.astype({"k": "category"})
    return fit(lightgbm.LGBMRegressor(n_estimators=5, num_leaves=4, n_jobs=1, verbose=-1), table, target), table


def xgboost_model(table, target):
    xgboost = pytest.importorskip("xgboost")
    table = table.astype({"k": "category"})
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=2, n_jobs=1, enable_categorical=True)
    return fit(model, table, target), table


def hist_model(table, target):
    ensemble = pytest.importorskip("sklearn.ensemble")
    table = table.astype({"k": "category"})
    model = ensemble.HistGradientBoostingRegressor(
        max_iter=5, max_depth=2, categorical_features="from_dtype", random_state=0
    )
    return fit(model, table, target), table


def ebm_model(table, target):
    glassbox = pytest.importorskip("interpret.glassbox")
    model = glassbox.ExplainableBoostingRegressor(n_jobs=1, outer_bags=1, max_rounds=5, interactions=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Missing values detected")
        return fit(model, table, target), table


@pytest.mark.parametrize("train", [catboost_model, lightgbm_model, xgboost_model, hist_model, ebm_model])
def test_the_schema_of_a_model_comes_back_from_plain_text(train):
    model, table = train(*mixed_table())
    found = read_model(model)
    schema = getattr(found, "schema", None) or found.grid.schema
    again = there_and_back(schema)
    np.testing.assert_array_equal(encode(table, again), encode(table, schema))
    assert json.dumps(describe(again)) == json.dumps(describe(schema))
    plain = {
        f.name: getattr(schema, f.name) for f in dataclasses.fields(schema) if f.name not in {"features", "absent"}
    }
    assert {name: getattr(again, name) for name in plain} == plain


def test_numpy_labels_become_plain_ones_and_others_are_refused():
    again = there_and_back(Labels((np.int64(3), np.str_("a"), np.float64(0.5), np.bool_(True))))
    assert again.names == (3, "a", 0.5, True)
    assert [type(label) for label in again.names] == [int, str, float, bool]
    with pytest.raises(TypeError, match="categories must be text, numbers or booleans to be saved, got Timestamp"):
        describe(Labels((pd.Timestamp("2020-01-01"),)))


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "builtins:eval",
        "treeanova.features:describe",
        "treeanova.features:np",
        "treeanova.archive:io",
        "treeanova.readers.catboost:ModelFileError",
    ],
)
def test_no_foreign_class_is_made(name):
    with pytest.raises(ValueError, match=f"must hold treeanova's own types, got '{name}'"):
        restore({"type": name, "fields": {}})


@pytest.mark.parametrize(
    "value",
    [
        Numeric(NAN),
        IntegerCategory(3, None, NAN),
        Numeric(NAN, "float32"),
        NamedCategory(((("a",), (1,)),), NAN),
        Numeric(NAN, "text"),
        Feature("a", Numeric(NAN)),
        Schema((Feature("a", Numeric(NAN, "float32")),), absent=NAN),
    ],
)
def test_values_with_nan_come_back_equal(value):
    assert there_and_back(value) == value
