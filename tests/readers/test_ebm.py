"""EBMs: scores and terms equal InterpretML's own, for every kind of model, value and container."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.edge_values import SPECIAL, numeric_candidates
from tests.support.training import fit
from treeanova.errors import UnsupportedModelError
from treeanova.model.axes import CategoryAxis
from treeanova.model.grid import unmerged
from treeanova.readers import ebm as reader
from treeanova.readers import read_model
from treeanova.storage.codec import describe, restore

pytest.importorskip("interpret")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

from interpret.glassbox import (  # noqa: E402
    ClassificationTree,
    ExplainableBoostingClassifier,
    ExplainableBoostingRegressor,
    merge_ebms,
)
from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor  # noqa: E402

N_ROWS = 300


def quietly(function, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


def table(seed: int = 0, n_rows: int = N_ROWS):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {
            "a": rng.normal(size=n_rows),
            "b": rng.integers(0, 5, n_rows).astype(float),
            "c": rng.choice(["u", "v", "w", ""], n_rows),
            "d": rng.random(n_rows) < 0.5,
            "e": np.full(n_rows, 2.0),
            "f": np.round(rng.normal(size=n_rows), 1),
        }
    )
    data.loc[rng.random(n_rows) < 0.2, ["a", "f"]] = np.nan
    data.loc[rng.random(n_rows) < 0.2, "c"] = None
    return data


def target(data):
    a, f = data["a"].fillna(1.0), data["f"].fillna(-1.0)
    signal = a * data["b"] + 2 * (data["c"] == "u") * f + data["d"] + np.sin(3 * f)
    return signal.to_numpy(dtype=float)


def train(kind=ExplainableBoostingRegressor, data=None, y=None, **options):
    data = table() if data is None else data
    if y is None:
        y = target(data)
    options = {"outer_bags": 1, "max_rounds": 40, "n_jobs": 1, "interactions": 2, "random_state": 1} | options
    return quietly(fit, kind(**options), data, y)


def classes(n: int):
    y = target(table())
    return np.array(["low", "mid", "high"])[:n][np.searchsorted(np.quantile(y, np.arange(1, n) / n), y)]


def merged():
    models = [train(data=table(seed), interactions=[("b", "a"), ("c", "f")]) for seed in range(3)]
    return quietly(merge_ebms, models)


def merged_with_other_categories():
    parts = [table(seed).query(f"c != {label!r}") for seed, label in enumerate(["u", "v"])]
    return quietly(merge_ebms, [train(data=part, interactions=[("c", "a")]) for part in parts])


def edited():
    model = train(interactions=[(0, 1), (2, 5)])
    model.scale("a", 0.5)
    model.scale("b", 0.0)
    model.remove_terms(["c", "f"])
    quietly(model.monotonize, "d")
    return model


def swept():
    model = train(interactions=[(0, 1)])
    return model.scale("f", 0.0).sweep()


def ovr():
    return train(ExplainableBoostingClassifier, y=classes(3), interactions=0)._ovrize()


def grouped():
    """Categories that share bins, in main effect and pair differently; one is unknown to the pair."""
    model = train(interactions=[("c", "a")])
    rng = np.random.default_rng(0)
    model.bins_[2] = [{"u": 1, "v": 2, "w": 1, "": 3}, {"w": 2, "v": 1, "u": 1}]
    model.term_scores_[2] = rng.normal(size=5)
    model.term_scores_[-1] = rng.normal(size=(4, model.term_scores_[-1].shape[1]))
    return model


def doubled_term():
    model = train(interactions=[(0, 1)])
    model.term_features_ = [*model.term_features_, (1, 0)]
    model.term_scores_ = [*model.term_scores_, model.term_scores_[-1].T * 0.3]
    return model


def no_categories():
    model = train(interactions=0)
    model.bins_[2] = [{}]
    model.term_scores_[2] = np.array([0.25, -0.5])
    return model


def private(kind, y=None, **options):
    data, bounds = table().fillna({"a": 0.0, "c": "v", "f": 0.0}), dict.fromkeys("abdef", (-3.0, 3.0))
    options = {"max_rounds": 10, "n_jobs": 1, "random_state": 1, "privacy_bounds": bounds} | options
    return quietly(fit, kind(**options), data, target(data) if y is None else y)


TRIPLE = [("b", "a"), ("c", "f"), ("f", "a", "c")]
NOMINAL = [None, "nominal", None, "nominal", None, None]
MODELS = {
    "regressor": lambda: train(interactions=3),
    "bags": lambda: train(outer_bags=3),
    "triple": lambda: train(interactions=TRIPLE, max_bins=32, feature_types=NOMINAL),
    "no interactions": lambda: train(interactions=0),
    "few bins": lambda: train(max_bins=4, max_interaction_bins=3, interactions=5),
    "fine pairs": lambda: train(max_bins=8, max_interaction_bins=60, interactions=[("a", "f")]),
    "nominal numbers": lambda: train(feature_types=NOMINAL, interactions=[("b", "d")]),
    "ordinal": lambda: train(feature_types=[None, ["4", "2", "0", "1", "3"], ["w", "u", "", "v"], None, None, None]),
    "excluded": lambda: train(exclude=["a", "e"], interactions=[("b", "a")]),
    "monotone": lambda: train(monotone_constraints=[1, 0, 0, 1, 0, -1]),
    "poisson": lambda: train(y=np.abs(target(table())), objective="poisson_deviance"),
    "binary": lambda: train(ExplainableBoostingClassifier, y=classes(2)),
    "multiclass": lambda: train(ExplainableBoostingClassifier, y=classes(3), interactions=TRIPLE, max_bins=32),
    "one against the rest": ovr,
    "merged": merged,
    "merged categories": merged_with_other_categories,
    "edited": edited,
    "swept": swept,
    "grouped categories": grouped,
    "term twice": doubled_term,
    "no categories": no_categories,
    "private regressor": lambda: private(
        DPExplainableBoostingRegressor, privacy_target_min=-9.0, privacy_target_max=9.0
    ),
    "private classifier": lambda: private(DPExplainableBoostingClassifier, y=classes(2)),
}
_TRAINED = {}


@pytest.fixture(params=MODELS)
def model(request):
    if request.param not in _TRAINED:
        _TRAINED[request.param] = MODELS[request.param]()
    return _TRAINED[request.param]


def pools(model):
    """For each feature, all cuts with their neighbours or all categories; infinite, missing and unseen values."""
    for levels in model.bins_:
        if levels and isinstance(levels[0], dict):
            known = [label for level in levels for label in level]
            yield np.array([*known, "unseen", "0.0", None, "nan"], dtype=object)
        else:
            cuts = np.concatenate([np.empty(0), *levels])
            near = [np.nextafter(cuts, np.inf), np.nextafter(cuts, -np.inf)]
            yield np.concatenate([cuts, *near, [np.inf, -np.inf, np.nan]])


def adversarial(model, n_rows: int = 1000, seed: int = 0):
    """Random rows of such values, zeros, tiny and huge numbers and roundings."""
    rng = np.random.default_rng(seed)
    columns = {}
    for name, pool in zip(model.feature_names_in_, pools(model), strict=True):
        values = rng.choice(pool, n_rows)
        if pool.dtype != object:
            wide = np.concatenate([numeric_candidates(pool, rng), SPECIAL, [np.nan, 5e-324, -5e-324]])
            values = np.where(rng.random(n_rows) < 0.5, values, rng.choice(wide, n_rows))
        columns[name] = pd.Series(values, dtype=pool.dtype)
    return pd.DataFrame(columns)


def raw_scores(model, rows):
    scores = np.asarray(quietly(model._predict_score, rows))
    return scores.reshape(len(rows), -1)


def assert_equal(model, rows, theirs=None):
    ours = read_model(model).score(rows)
    expected = raw_scores(model, rows if theirs is None else theirs)
    np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-13)


def sorted_terms(model):
    return [tuple(sorted(features)) for features in model.term_features_]


def test_scores(model):
    rows = adversarial(model)
    assert np.isfinite(raw_scores(model, rows)).all()
    assert_equal(model, rows)


def test_terms_are_bit_for_bit_the_same(model):
    effects, rows, keys = reader.read(model), adversarial(model, seed=1), sorted_terms(model)
    assert set(effects.terms) == set(keys)
    codes = effects.grid.index(rows)
    theirs = np.asarray(quietly(model.eval_terms, rows)).reshape(len(rows), len(keys), -1)
    for key in effects.terms:
        expected = sum(theirs[:, k] for k in range(len(keys)) if keys[k] == key)
        np.testing.assert_array_equal(effects.at(key, codes), expected)


def test_axes_have_no_bin_too_many(model):
    effects = reader.read(model)
    for j, axis in enumerate(effects.grid.axes):
        slices = [
            np.moveaxis(spread, key.index(j), 0).reshape(len(axis), -1)
            for key in effects.terms
            if j in key
            for spread in [effects.on_binnings(key, [unmerged(effects.grid.sizes[i]) for i in key])]
        ]
        bits = np.ascontiguousarray(np.concatenate([*slices, np.zeros((len(axis), 1))], axis=1)).view(np.int64)
        n_values = axis.n_regular
        if axis.is_ordered:
            assert (bits[1:n_values] != bits[: n_values - 1]).any(axis=1).all()
        for extra in range(n_values, len(axis)):
            assert (bits[:extra] != bits[extra]).any(axis=1).all()


def used_cuts(model, j, order):
    """Cuts of a feature at which a term of an order changes, from the model's tensors."""
    cuts = set()
    for features, scores in zip(model.term_features_, model.term_scores_, strict=True):
        if len(features) == order and j in features:
            levels = model.bins_[j]
            level = levels[min(order, len(levels)) - 1]
            rows = np.moveaxis(np.asarray(scores), tuple(features).index(j), 0)[1:-1]
            bits = np.ascontiguousarray(rows.reshape(len(rows), -1)).view(np.int64)
            cuts |= {cut for cut, a, b in zip(level, bits, bits[1:], strict=False) if (a != b).any()}
    return sorted(cuts)


def test_terms_keep_the_bins_of_their_order(model):
    effects = reader.read(model)
    for key in effects.terms:
        for j, own in zip(key, effects.axes_of(key), strict=True):
            whole = effects.grid.axes[j]
            if whole.is_ordered:
                np.testing.assert_array_equal(np.nextafter(own.thresholds, np.inf), used_cuts(model, j, len(key)))
                assert own.n_extra == whole.n_extra
            else:
                assert own.has_bins_of(whole)


def test_pairs_of_a_model_with_many_bins_stay_small():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, 2))
    model = train(data=rows, y=rows[:, 0] * rows[:, 1], interactions=[(0, 1)], max_rounds=20)
    model.term_scores_ = [rng.normal(size=scores.shape) for scores in model.term_scores_]
    effects = reader.read(model)
    assert min(effects.grid.sizes) > 1000
    assert effects.terms[0, 1].shape == (63, 63, 1)  # max_interaction_bins=64: 62 intervals, missing, unreadable
    assert_equal(model, adversarial(model).to_numpy())


def test_every_bin_is_reached(model):
    effects = reader.read(model)
    columns = list(pools(model))
    n_rows = max(map(len, columns))
    rows = pd.DataFrame({name: np.resize(c, n_rows) for name, c in zip(model.feature_names_in_, columns, strict=True)})
    assert [len(np.unique(codes)) for codes in effects.grid.index(rows).T] == list(effects.grid.sizes)


def test_own_bins_of_missing_and_unseen():
    model = train(interactions=0)
    model.term_scores_[0][0], model.term_scores_[2][[0, -1]] = 99.0, [98.0, 99.0]
    axes = reader.read(model).grid.axes
    assert axes[0].missing_bin == axes[0].n_regular
    assert isinstance(axes[2], CategoryAxis)
    assert axes[2].categories == ("", "u", "v", "w")
    assert axes[2].labels == ("", "u", "v", "w", "unseen", "missing")
    assert axes[4].size == 1  # a constant without effect


def test_grid_merges_what_no_term_tells_apart():
    model = train(interactions=[("a", "f")])
    model.term_scores_[0] = np.repeat([0.0, 1.0, 2.0], [1, 40, len(model.term_scores_[0]) - 41])
    model.term_scores_[-1][:] = 0.0
    axis = reader.read(model).grid.axes[0]
    np.testing.assert_array_equal(axis.bounds, np.nextafter(model.bins_[0][0][39:40], -np.inf))
    assert axis.size == 3
    assert_equal(model, adversarial(model))


def test_missing_shares_a_bin_only_if_all_terms_agree():
    model = train(interactions=[("a", "f")])
    model.term_scores_[0][0] = model.term_scores_[0][-2]
    model.term_scores_[-1][:] = 0.0
    axis = reader.read(model).grid.axes[0]
    assert axis.missing_bin < axis.n_regular
    model.term_scores_[-1][0] = 1.0
    axis = reader.read(model).grid.axes[0]
    assert axis.missing_bin == axis.n_regular


def test_signs_of_zero_are_kept_apart():
    model = train(interactions=0, max_bins=4)
    model.term_scores_[0] = np.where(np.arange(len(model.term_scores_[0])) % 2, 0.0, -0.0)
    assert reader.read(model).grid.sizes[0] == len(model.term_scores_[0]) - 2


@pytest.mark.parametrize(
    ("name", "link", "outputs"),
    [
        ("regressor", "identity", ("score",)),
        ("poisson", "log", ("score",)),
        ("binary", "logit", ("score",)),
        ("multiclass", "softmax", ("high", "low", "mid")),
        ("one against the rest", "logit", ("high", "low", "mid")),
    ],
)
def test_links(name, link, outputs):
    schema = reader.read(MODELS[name]()).grid.schema
    assert (schema.link, schema.outputs) == (link, outputs)


def test_links_without_a_name():
    model = train(interactions=0)
    model.link_ = "cauchit"
    assert reader.read(model).grid.schema.link == "other"


def test_schemas_can_be_saved(model):
    schema = reader.read(model).grid.schema
    assert repr(restore(json.loads(json.dumps(describe(schema))))) == repr(schema)  # NaN is not equal to itself


def test_links_lead_to_the_response():
    rows = table(7)
    poisson, binary, multi = (MODELS[name]() for name in ("poisson", "binary", "multiclass"))
    np.testing.assert_allclose(
        np.exp(reader.read(poisson).score(rows)[:, 0]), poisson.predict(rows), rtol=1e-12, atol=1e-12
    )
    odds = np.exp(reader.read(binary).score(rows)[:, 0])
    np.testing.assert_allclose(odds / (1 + odds), binary.predict_proba(rows)[:, 1], rtol=1e-12, atol=1e-12)
    odds = np.exp(reader.read(ovr()).score(rows))
    np.testing.assert_allclose(odds / (1 + odds), ovr().predict_proba(rows), rtol=1e-12, atol=1e-12)
    weights = np.exp(reader.read(multi).score(rows))
    np.testing.assert_allclose(
        weights / weights.sum(axis=1)[:, None], multi.predict_proba(rows), rtol=1e-12, atol=1e-12
    )


def test_schema_of_named_and_nameless_models():
    data = table()
    schema = reader.read(train(interactions=0)).grid.schema
    assert schema.named
    assert schema.names == tuple("abcdef")
    model = train(data=data.to_numpy(dtype=object), y=target(data), interactions=0)
    schema = reader.read(model).grid.schema
    assert not schema.named
    assert schema.names == ("x0", "x1", "x2", "x3", "x4", "x5")
    assert_equal(model, data.to_numpy(dtype=object))
    assert_equal(model, data)


def test_features_in_no_term_may_hold_anything():
    model = train(interactions=0, exclude=["a", "c"])
    rows = adversarial(model).assign(c=dt.date(2020, 1, 1), a="text")
    assert reader.read(model).grid.sizes[0] == reader.read(model).grid.sizes[2] == 1
    assert_equal(model, rows)


def test_model_without_terms():
    model = train(interactions=0)
    model.remove_terms(model.term_names_)
    assert_equal(model, table())
    assert reader.read(model).terms == {}


# Containers


def test_tables_match_by_name_in_any_order():
    model, rows = train(feature_types=NOMINAL), table(3)
    assert_equal(model, rows[list("fedcba")].assign(further=1), theirs=rows)
    polars = pl.from_pandas(rows)
    assert_equal(model, polars.select(list("fbdeac")), theirs=rows)
    assert_equal(model, polars)
    assert_equal(model, rows.to_numpy(dtype=object))


@pytest.mark.skipif(int(pd.__version__.partition(".")[0]) < 3, reason="interpret refuses their missing values")
def test_pandas_types():
    model, rows = train(feature_types=NOMINAL), table(3)
    types = {"a": "Float64", "b": "Int64", "c": "string", "d": "boolean", "e": "Int8", "f": "float32"}
    assert_equal(model, rows.astype(types))
    holes = rows.astype(types).mask(np.random.default_rng(0).random(rows.shape) < 0.3)
    assert_equal(model, holes)
    assert_equal(model, rows.astype({"b": "category", "c": "category", "d": "category"}))
    assert_equal(model, rows.astype({"b": "int64"}).astype({"b": "category"}))
    assert_equal(model, rows.astype(object))


def test_sparse_matrices():
    rng = np.random.default_rng(0)
    data = rng.integers(0, 4, (N_ROWS, 3)) * (rng.random((N_ROWS, 3)) < 0.5).astype(float)
    model = train(data=data, y=data @ [1.0, 2.0, 3.0], feature_types=["continuous", "nominal", "continuous"])
    sparse = scipy.sparse.csr_array(data)
    assert_equal(model, data)
    np.testing.assert_allclose(reader.read(model).score(sparse), raw_scores(model, data), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(raw_scores(model, data), quietly(model.predict, sparse)[:, None], rtol=1e-12, atol=1e-12)


def column(values):
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result


BIG = 2**53
TEXTS = {
    "floats": np.array([0.0, -0.0, 1.0, 3.0, 2.5, 100.0, 1e16, 1e-5, 0.1, np.inf, np.nan, 7.0]),
    "minus zero": np.array([-0.0]),
    "float32": np.array([0.0, 1.0, 3.0, 2.5, 0.1, np.nan], dtype=np.float32),
    "ints": np.array([0, 1, 3, 100, -1, BIG + 1]),
    "unsigned": np.array([0, 1, 3, 100], dtype=np.uint8),
    "bools": np.array([True, False]),
    "text": np.array(["0", "1", "1.0", "a", "", "nan", "True", " a"]),
    "bytes": np.array([b"a", b"1", b"zz"]),
    "bool objects": column([True, False, None, np.True_]),
    "bools and ints": column([True, 1, 0, False, None]),
    "bools and text": column([True, "a", False, "True", "1"]),
    "bools, floats and text": column([True, "a", False, "True", 1.0, 2.5, np.nan]),
    "numpy bools and text": column([np.True_, "a", np.False_, "True"]),
    "all sorts": column([np.float32(0.1), 0.1, 3, 3.0, "3", "3.0", b"a", "a\0", None, np.nan, pd.NA, pd.NaT, BIG + 1]),
    "with decimals": column([decimal.Decimal("2.5"), decimal.Decimal("3.0"), True, 3.0, "a"]),
    "all missing": column([None, np.nan]),
}
KNOWN = [
    "0",
    "1",
    "3",
    "2.5",
    "100",
    "1e+16",
    "1e-05",
    "0.1",
    "0.10000000149011612",
    "inf",
    "a",
    "",
    "nan",
    "True",
    "-1",
]
KNOWN += ["3.0", str(BIG + 1), "(0, 1]"]


@pytest.fixture(scope="module")
def text_model():
    """Every known text has a score of its own."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"text": rng.choice(KNOWN, N_ROWS), "x": rng.normal(size=N_ROWS)})
    model = train(data=data, y=data["x"].to_numpy(), feature_types=["nominal", "continuous"], interactions=0)
    model.term_scores_[0] = 10 * rng.normal(size=len(model.term_scores_[0]))
    return model


@pytest.mark.parametrize("values", TEXTS.values(), ids=TEXTS)
def test_text_forms(text_model, values):
    frame = pd.DataFrame({"text": pd.Series(values, dtype=values.dtype if values.dtype.kind in "biuf" else object)})
    assert_equal(text_model, frame.assign(x=0.0))
    objects = np.stack([values.astype(object), column([0.0] * len(values))], axis=1)
    assert_equal(text_model, objects)
    if values.dtype.kind != "O":
        assert_equal(text_model, np.stack([values, np.zeros(len(values), dtype=int).astype(values.dtype)], axis=1))


@pytest.mark.parametrize(
    "values",
    [
        pd.Categorical([1.0, 3.0, 2.5, None]),
        pd.Categorical([1, 3, 7, None]),
        pd.Categorical([True, False, None]),
        pd.Categorical(["a", "", "zz", None]),
        pd.cut([0.5, 1.5], [0, 1, 2]),
        pd.array([1, 3, None], dtype="Int64"),
        pd.array([1.0, 2.5, None], dtype="Float64"),
        pd.array([True, False, None], dtype="boolean"),
        pd.array(["a", "", None], dtype="string"),
    ],
    ids=lambda values: str(values.dtype)[:8],
)
def test_text_forms_of_pandas(text_model, values):
    assert_equal(text_model, pd.DataFrame({"text": values, "x": 0.0}))


NUMBERS = {
    "text": column(["0.5", " 1.5 ", "nan", "1e400", "-inf", "1_0"]),
    "text and numbers": column(["0.5", 0.25, 1, None, np.nan, np.float32(0.1)]),
    "bytes": column([b"0.5", b"-1"]),
    "bools": column([True, False, None]),
    "bools and floats": column([True, 0.5, None]),
    "decimals": column([decimal.Decimal("0.1"), 0.25, pd.NA]),
    "large ints": column([BIG + 1, -BIG - 1, 2**70]),
}


@pytest.mark.parametrize("values", NUMBERS.values(), ids=NUMBERS)
def test_number_forms(text_model, values):
    model = text_model.copy()
    model.bins_[1][0] = np.unique([*model.bins_[1][0], 0.1, np.float64(np.float32(0.1)), float(BIG), float(BIG + 2)])
    model.term_scores_[1] = np.random.default_rng(1).normal(size=len(model.bins_[1][0]) + 3)
    assert_equal(model, np.stack([column(["a"] * len(values)), values], axis=1))
    assert_equal(model, pd.DataFrame({"text": "a", "x": pd.Series(values, dtype=object)}))


@pytest.mark.parametrize("values", [["abc", 1.0], ["", 1.0], [True, "1"], [dt.date(2020, 1, 1), 1.0]], ids=str)
def test_what_is_no_number_is_refused(text_model, values):
    rows = np.stack([column(["a", "a"]), column(values)], axis=1)
    with pytest.raises(TypeError, match="column 'x' must hold numbers"):
        reader.read(text_model).score(rows)


@pytest.mark.parametrize("value", [dt.date(2020, 1, 1), np.datetime64("2020-01-01"), pd.Timestamp(0)], ids=repr)
def test_dates_are_refused(text_model, value):
    with pytest.raises(TypeError, match="column 'text' must hold numbers or text"):
        reader.read(text_model).score(np.stack([column([value]), column([0.0])], axis=1))


def test_other_arrays_are_refused(text_model):
    with pytest.raises(TypeError, match="column 'text' must hold numbers or text, got complex128"):
        reader.read(text_model).score(np.zeros((1, 2), dtype=complex))


# Refusals


def test_unfitted():
    with pytest.raises(UnsupportedModelError, match="fit it first"):
        read_model(ExplainableBoostingRegressor())


def test_other_models_of_interpret():
    with pytest.raises(UnsupportedModelError, match="got ClassificationTree"):
        read_model(ClassificationTree())


def test_models_of_other_versions():
    model = train(interactions=0)
    del model.bins_
    with pytest.raises(UnsupportedModelError, match="without bins_"):
        read_model(model)


def test_one_class():
    with pytest.raises(UnsupportedModelError, match="must be finite"):
        read_model(train(ExplainableBoostingClassifier, y=np.zeros(N_ROWS, dtype=int)))


def _edit(model, what):
    if what == "removed feature":
        model.remove_features(
            ["a"]
        )  # interpret 0.7.8 leaves the other features' numbers in term_features_ as they were
    elif what == "shape":
        model.term_scores_[0] = model.term_scores_[0][:-1]
    elif what == "feature twice":
        model.term_features_[-1] = (0, 0)
    elif what == "feature out of range":
        model.term_features_[-1] = (0, 99)
    elif what == "no bins":
        model.bins_[0] = []
    elif what == "order of cuts":
        model.bins_[0][0] = model.bins_[0][0][::-1].copy()
    elif what == "type":
        model.feature_types_in_[2] = "continuous"
    elif what == "category":
        model.bins_[2][0]["u"] = 0


@pytest.mark.parametrize(
    ("what", "match"),
    [
        ("removed feature", r"term_scores_\[0\] must have shape"),
        ("shape", r"term_scores_\[0\] must have shape"),
        ("feature twice", r"term_scores_\[6\] must have shape"),
        ("feature out of range", r"bins_\[99\] must hold bins for the feature's terms, got none"),
        ("no bins", r"bins_\[0\] must hold bins for the feature's terms, got none"),
        ("order of cuts", r"bins_\[0\] must .* got cuts that do not ascend"),
        ("type", r"bins_\[2\] must .* got those of another type"),
        ("category", r"bins_\[2\] must .* got categories in bins below 1"),
    ],
)
def test_broken_edits(what, match):
    model = train(interactions=[("a", "b")])
    _edit(model, what)
    with pytest.raises(UnsupportedModelError, match=match):
        read_model(model)


def test_too_many_cells(monkeypatch):
    model = train(interactions=[("a", "f")])
    n_cells = sum(values.size for values in read_model(model).terms.values())
    monkeypatch.setattr("treeanova.readers.ebm._MAX_CELLS", n_cells)
    read_model(model)
    monkeypatch.setattr("treeanova.readers.ebm._MAX_CELLS", n_cells - 1)
    with pytest.raises(UnsupportedModelError, match=f"at most {n_cells - 1:,} cells, got {n_cells:,}; train it with"):
        read_model(model)


# Drawn models


@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data())
def test_drawn_models(data):
    seed = data.draw(st.integers(0, 10_000))
    kinds = data.draw(st.lists(st.sampled_from(["continuous", "nominal"]), min_size=2, max_size=4))
    n_classes = data.draw(st.sampled_from([1, 2, 3]))
    pairs = data.draw(
        st.lists(st.permutations(range(len(kinds))).map(lambda p: tuple(p[:2])), max_size=2, unique_by=frozenset)
    )
    bins = data.draw(st.sampled_from([3, 8, 64]))
    rng = np.random.default_rng(seed)
    rows = np.round(rng.normal(size=(80, len(kinds))), data.draw(st.integers(0, 2)))
    rows[rng.random(rows.shape) < data.draw(st.sampled_from([0.0, 0.2]))] = np.nan
    y = np.nan_to_num(rows).sum(axis=1) + rng.normal(size=80)
    if n_classes > 1:
        y = np.searchsorted(np.quantile(y, np.arange(1, n_classes) / n_classes), y)
    kind = ExplainableBoostingRegressor if n_classes == 1 else ExplainableBoostingClassifier
    model = train(kind, rows, y, feature_types=kinds, interactions=pairs, max_bins=bins, max_rounds=10)
    assert_equal(model, adversarial(model, n_rows=200, seed=seed).set_axis(range(len(kinds)), axis=1))
