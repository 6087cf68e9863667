"""Models of versions that are not tested are read only where their library gives the same scores."""

from __future__ import annotations

import json
import pathlib
import re
import sys

import numpy as np
import pytest

from tests.support.training import fit
from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import assemble
from treeanova.model.rows import Rows
from treeanova.readers import checks as versions
from treeanova.readers import read_model
from treeanova.readers.catboost import files as cbm

catboost = pytest.importorskip("catboost")
glassbox = pytest.importorskip("interpret.glassbox")
lightgbm = pytest.importorskip("lightgbm")
pd = pytest.importorskip("pandas")
ensemble = pytest.importorskip("sklearn.ensemble")
xgboost = pytest.importorskip("xgboost")

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*`booster=dart` is deprecated"),
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),
]
MODELS = pathlib.Path(__file__).parent / "models"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4)).round(2)
X[:, 3] = RNG.integers(0, 6, 300)
Y = X[:, 0] * X[:, 1] + X[:, 2] + (X[:, 3] == 2)
CLASSES = np.digitize(Y, [-0.5, 0.5])
TABLE = pd.DataFrame(X, columns=list("abcd")).assign(d=np.array(list("uvwxyz"))[X[:, 3].astype(int)])
BOOST = {"n_estimators": 8, "max_depth": 3, "n_jobs": 1}
CAT = {"iterations": 8, "depth": 3, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
EBM = {"max_rounds": 20, "outer_bags": 1, "n_jobs": 1}


def as_category(table):
    return table.assign(d=table["d"].astype("category"))


def boosted_forest():
    return lightgbm.LGBMRegressor(
        n_estimators=8, boosting_type="rf", bagging_freq=1, bagging_fraction=0.6, n_jobs=1, verbosity=-1
    )


LIVE = {
    "xgboost": lambda: fit(xgboost.XGBRegressor(**BOOST), X, Y),
    "xgboost dart": lambda: fit(xgboost.XGBRegressor(**BOOST, booster="dart", rate_drop=0.5), X, Y),
    "xgboost classes": lambda: fit(xgboost.XGBClassifier(**BOOST), X, CLASSES),
    "xgboost table": lambda: fit(xgboost.XGBRegressor(**BOOST, enable_categorical=True), as_category(TABLE), Y),
    "xgboost missing": lambda: fit(xgboost.XGBRegressor(**BOOST, missing=2.0), X, Y),
    "lightgbm": lambda: fit(lightgbm.LGBMRegressor(n_estimators=8, n_jobs=1, verbosity=-1), X, Y),
    "lightgbm classes": lambda: fit(lightgbm.LGBMClassifier(n_estimators=8, n_jobs=1, verbosity=-1), X, CLASSES),
    "lightgbm forest": lambda: fit(boosted_forest(), X, Y),
    "lightgbm codes": lambda: fit(
        lightgbm.LGBMRegressor(n_estimators=8, n_jobs=1, verbosity=-1), X, Y, categorical_feature=[3]
    ),
    "lightgbm table": lambda: fit(
        lightgbm.LGBMRegressor(n_estimators=8, n_jobs=1, verbosity=-1), as_category(TABLE), Y
    ),
    "catboost": lambda: fit(catboost.CatBoostRegressor(**CAT), X, Y),
    "catboost lossguide": lambda: fit(catboost.CatBoostRegressor(**CAT, grow_policy="Lossguide"), X, Y),
    "catboost classes": lambda: fit(catboost.CatBoostClassifier(**CAT), X, CLASSES),
    "catboost table": lambda: fit(catboost.CatBoostRegressor(**CAT), TABLE, Y, cat_features=["d"]),
    "sklearn": lambda: fit(ensemble.RandomForestRegressor(8, max_depth=4), X, Y),
    "sklearn classes": lambda: fit(ensemble.ExtraTreesClassifier(8, max_depth=4), X, CLASSES),
    "sklearn boosting": lambda: fit(ensemble.GradientBoostingClassifier(n_estimators=5), X, CLASSES),
    "sklearn hist": lambda: fit(
        ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=8, categorical_features=[3]), X, np.exp(Y)
    ),
    "sklearn hist table": lambda: fit(
        ensemble.HistGradientBoostingClassifier(max_iter=8, categorical_features="from_dtype"),
        as_category(TABLE),
        Y > 0,
    ),
    "interpret": lambda: fit(glassbox.ExplainableBoostingRegressor(**EBM), TABLE, Y),
    "interpret classes": lambda: fit(glassbox.ExplainableBoostingClassifier(**EBM, interactions=0), TABLE, CLASSES),
}


@pytest.fixture
def unknown(monkeypatch):
    """All versions are later than those tested."""
    for library in versions.TESTED:
        monkeypatch.setitem(versions.TESTED, library, ((0, 0), (0, 0)))


@pytest.mark.parametrize(
    ("version", "found"), [("3.4.1", (3, 4, 1)), ("4.0.0rc1", (4, 0)), ("5", (5,)), ("2.1+cpu", (2, 1)), ("?", ())]
)
def test_numbers_of_versions(version, found):
    assert versions.version_numbers(version) == found


@pytest.mark.parametrize(
    ("version", "newer"), [((3, 4, 9), False), ((3, 4), False), ((3, 5), True), ((4, 0, 0), True), ((), False)]
)
def test_later_versions(version, newer, monkeypatch):
    monkeypatch.setitem(versions.TESTED, "xgboost", ((3, 2), (3, 4)))
    assert versions.is_newer("xgboost", version) == newer


@pytest.mark.parametrize(
    ("version", "older"), [((3, 1, 9), True), ((3, 2, 0), False), ((3, 2), False), ((2, 9), True), ((), False)]
)
def test_earlier_versions(version, older, monkeypatch):
    monkeypatch.setitem(versions.TESTED, "xgboost", ((3, 2), (3, 4)))
    assert versions.is_older("xgboost", version) == older


@pytest.mark.parametrize("name", LIVE)
def test_models_of_later_libraries_are_read_where_the_library_agrees(name, unknown):
    result = read_model(LIVE[name]())
    assert result.score(Rows(versions.probe_rows(result))).std() > 0


def moved(schema, intercept, *, bound, **fields):
    """A forest whose bounds are the next float64 above: only rows on a bound tell."""
    return assemble(schema, intercept, bound=np.nextafter(np.asarray(bound, dtype=np.float64), np.inf), **fields)


def larger(schema, intercept, *, values, **fields):
    return assemble(schema, intercept, values=1.001 * np.asarray(values), **fields)


def change_assembly(monkeypatch, library, change):
    """Make the reader of a library assemble another forest."""
    for module in [library]:
        monkeypatch.setattr(f"treeanova.readers.{module}.assemble", change)


@pytest.mark.parametrize("change", [moved, larger])
@pytest.mark.parametrize("name", [name for name in LIVE if not name.startswith("interpret")])
def test_models_of_later_libraries_that_mean_something_else_are_refused(name, change, unknown, monkeypatch):
    model = LIVE[name]()
    library = name.partition(" ")[0]
    change_assembly(monkeypatch, library, change)
    with pytest.raises(UnsupportedModelError, match=f"must be of {library} 0.0 to 0.0, got .* scores differ by"):
        read_model(model)


def test_models_of_earlier_libraries_are_checked_as_well(monkeypatch):
    monkeypatch.setitem(versions.TESTED, "sklearn", ((99, 0), (99, 9)))
    model = LIVE["sklearn"]()
    np.testing.assert_allclose(read_model(model).score(X)[:, 0], model.predict(X), rtol=1e-9, atol=1e-9)
    change_assembly(monkeypatch, "sklearn", larger)
    with pytest.raises(UnsupportedModelError, match=r"must be of sklearn 99\.0 to 99\.9, got .* scores differ by"):
        read_model(model)


def test_ebms_of_later_libraries_that_mean_something_else_are_refused(unknown):
    model = LIVE["interpret"]()
    model.predict = lambda rows: type(model).predict(model, rows) + 0.01
    with pytest.raises(UnsupportedModelError, match=r"must be of interpret 0\.0 to 0\.0, got .* scores differ by"):
        read_model(model)


def test_libraries_that_cannot_predict_the_rows_are_told(unknown):
    model = LIVE["interpret"]()
    model.predict = lambda rows: rows["no such"]
    with pytest.raises(UnsupportedModelError, match=r"its predictions cannot be compared \(IndexError"):
        read_model(model)


# Files


@pytest.mark.parametrize("suffix", ["json", "ubj"])
@pytest.mark.parametrize("version", ["3.2.0", "3.3.0", "3.4.1"])
def test_weights_of_trees_in_files_of_each_version(version, suffix):
    name = f"xgboost-{version}-dropout"
    expected = json.loads((MODELS / f"{name}.expected").read_text(encoding="utf-8"))
    rows = np.array(expected["rows"], dtype=float)
    score = read_model(MODELS / f"{name}.{suffix}").score(rows)[:, 0]
    np.testing.assert_allclose(score, expected["margin"], rtol=1e-5, atol=1e-6)


def xgboost_file(folder, change=None):
    """A file of XGBoost 97.0."""
    content = json.loads(LIVE["xgboost dart"]().get_booster().save_raw("json"))
    content["version"] = [97, 0, 0]
    if change is not None:
        change(content["learner"]["gradient_booster"])
    (folder / "model.json").write_text(json.dumps(content), encoding="utf-8")
    return folder / "model.json"


def lightgbm_file(folder):
    """A file of the text format v97."""
    text = LIVE["lightgbm"]().booster_.model_to_string()
    (folder / "model.txt").write_text(re.sub(r"version=v\d+", "version=v97", text, count=1), encoding="utf-8")
    return folder / "model.txt"


def catboost_file(folder, suffix="cbm"):
    """A file of CatBoost 97.x."""
    path = folder / f"model.{suffix}"
    LIVE["catboost"]().save_model(path, format=suffix)
    data = re.sub(rb"tags/v\d\.\d\.", rb"tags/v97.0", path.read_bytes())
    assert b"tags/v97." in data
    path.write_bytes(data)
    return path


FILES = {
    "xgboost": xgboost_file,
    "lightgbm": lightgbm_file,
    "catboost": catboost_file,
    "catboost json": lambda folder: catboost_file(folder, "json"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_later_than_the_installed_library_are_refused(name, tmp_path):
    path = FILES[name](tmp_path)
    message = r"got 97\S*, which is not tested and must be compared with .*, but the installed one is older; install"
    with pytest.raises(UnsupportedModelError, match=message):
        read_model(path)


@pytest.mark.parametrize("name", FILES)
def test_files_of_later_versions_are_refused_without_the_library(name, tmp_path, monkeypatch):
    path = FILES[name](tmp_path)
    monkeypatch.setitem(sys.modules, name.partition(" ")[0], None)
    with pytest.raises(UnsupportedModelError, match=r"got 97.* but it is not installed; install the"):
        read_model(path)


@pytest.mark.parametrize("name", ["xgboost", "catboost", "catboost json"])
def test_files_of_later_versions_are_read_where_the_library_agrees(name, tmp_path, monkeypatch):
    path, library = FILES[name](tmp_path), name.partition(" ")[0]
    monkeypatch.setattr(f"{library}.__version__", "98.0")
    model = LIVE["xgboost dart" if library == "xgboost" else "catboost"]()
    np.testing.assert_allclose(read_model(path).score(X)[:, 0], model.predict(X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["lightgbm", "lightgbm classes", "lightgbm forest", "lightgbm table"])
def test_text_of_later_versions_is_read_where_lightgbm_agrees(name, tmp_path, unknown):
    model = LIVE[name]()
    model.booster_.save_model(tmp_path / "model.txt")
    rows = as_category(TABLE) if name.endswith("table") else X
    expected = model.predict(rows, raw_score=not name.endswith("forest"))
    np.testing.assert_allclose(
        read_model(tmp_path / "model.txt").score(rows), expected.reshape(len(X), -1), rtol=1e-9, atol=1e-9
    )


def test_files_that_mean_something_else_are_refused(tmp_path, monkeypatch):
    """What only the library knows of: here, that it reads another model altogether."""
    path = xgboost_file(tmp_path)
    other = LIVE["xgboost"]().get_booster()
    monkeypatch.setattr("xgboost.__version__", "98.0")
    monkeypatch.setattr("xgboost.Booster", lambda model_file: other)
    with pytest.raises(
        UnsupportedModelError, match=r"got 97\.0\.0, which is not tested and has another meaning: scores"
    ):
        read_model(path)


def test_files_that_cannot_be_read_name_their_version(tmp_path, monkeypatch):
    path = xgboost_file(tmp_path, lambda booster: [booster.pop(key) for key in list(booster) if key != "name"])
    monkeypatch.setattr("xgboost.__version__", "98.0")
    with pytest.raises(UnsupportedModelError, match=r"got 97\.0\.0, which is not tested and cannot be read \(KeyError"):
        read_model(path)


def test_files_that_the_library_cannot_load_are_refused(tmp_path, monkeypatch):
    path = lightgbm_file(tmp_path)
    monkeypatch.setattr("lightgbm.Booster", lambda model_str: float(model_str[:4]))
    with pytest.raises(
        UnsupportedModelError, match=r"but it cannot load the file \(ValueError\); install the lightgbm"
    ):
        read_model(path)


def test_weights_of_trees_in_two_places_are_refused(tmp_path):
    def doubled(booster):
        place = (
            booster if booster["name"] == "gbtree" and "weight_drop" not in booster else booster.get("gbtree", booster)
        )
        booster["weight_drop"] = place["model"]["weight_drop"] = [1.0] * 8

    path = xgboost_file(tmp_path, doubled)
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, "version": [3, 4, 0]}), encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"weight_drop must be one list of 8 weights, one per tree, got lists of \[8, 8\]"
    ):
        read_model(path)


def test_other_formats_of_catboost_are_refused(tmp_path):
    path = tmp_path / "model.cbm"
    LIVE["catboost"]().save_model(path)
    path.write_bytes(path.read_bytes().replace(b"FlabuffersModel_v1", b"FlabuffersModel_v2"))
    with pytest.raises(UnsupportedModelError, match="must be of format FlabuffersModel_v1, got 'FlabuffersModel_v2'"):
        read_model(path)


def test_leaf_numbers_of_catboost_have_64_bits(monkeypatch):
    """The largest number of 64 bits is put among them, which numpy refuses from 2.5 on where they have 32."""
    model = LIVE["catboost lossguide"]()
    kinds = []

    def step_nodes(sizes, splits, steps, leaf_at, n_outputs):
        kinds.append(leaf_at.dtype)
        return original(sizes, splits, steps, leaf_at, n_outputs)

    original = cbm._step_nodes
    monkeypatch.setattr(cbm, "_step_nodes", step_nodes)
    np.testing.assert_allclose(read_model(model).score(X)[:, 0], model.predict(X), rtol=1e-9, atol=1e-9)
    assert kinds == [np.dtype(np.int64)]
