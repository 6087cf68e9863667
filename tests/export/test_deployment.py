"""Exports run where they are deployed: equal to the decomposition, which equals the library, at adversarial rows."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sqlite3
import subprocess

import numpy as np
import pytest

import treeanova
from tests.support.training import fit
from treeanova.export.artifact import adversarial_rows, form_of
from treeanova.export.programs import script_json
from treeanova.model import Effects, StepForm

pd = pytest.importorskip("pandas")
HAS_NODE = shutil.which("node") is not None
HAS_DUCKDB = importlib.util.find_spec("duckdb") is not None
HOSTILE = ["it's", 'say "no"', "back\\slash", "two\nlines", "naïve ×", "'); DROP TABLE rows; --", "", "select"]


def table_of(n_rows=400, *, labels=tuple("abcdefgh")):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"u": rng.normal(size=n_rows), "v": rng.normal(size=n_rows).round(1)})
    X["g"] = pd.Categorical(rng.choice(labels, n_rows), categories=list(labels))
    X.loc[rng.random(n_rows) < 0.2, "u"] = np.nan
    y = X["u"].fillna(1.0) * (X["g"].cat.codes > 3) + X["v"] * X["u"].fillna(0) + (X["g"].cat.codes % 3)
    return X, y.to_numpy()


def lightgbm_classes(n_classes):
    lightgbm = pytest.importorskip("lightgbm")
    X, y = table_of()
    model = lightgbm.LGBMClassifier(n_estimators=8, max_depth=2, min_child_samples=5, cat_smooth=1, verbose=-1)
    return fit(model, X, np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))), X


def xgboost_single_precision():
    xgboost = pytest.importorskip("xgboost")
    X, y = table_of()
    X["g"] = X["g"].cat.codes.astype(float)
    X = X.fillna(-999.0)
    return fit(xgboost.XGBRegressor(n_estimators=12, max_depth=2, missing=-999.0), X, y), X


def xgboost_categories():
    xgboost = pytest.importorskip("xgboost")
    X, y = table_of()
    return fit(xgboost.XGBRegressor(n_estimators=12, max_depth=2, enable_categorical=True), X, y), X


def catboost_categories():
    catboost = pytest.importorskip("catboost")
    X, y = table_of()
    X["g"] = X["g"].astype(str)
    options = {"one_hot_max_size": 20, "verbose": False, "allow_writing_files": False, "cat_features": ["g"]}
    return fit(catboost.CatBoostRegressor(iterations=12, depth=2, **options), X, y), X


def sklearn_counts():
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y = table_of()
    model = ensemble.HistGradientBoostingRegressor(
        loss="poisson", max_iter=12, max_depth=2, categorical_features="from_dtype", min_samples_leaf=5
    )
    return fit(model, X, np.round(y - y.min())), X


def sklearn_forest():
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y = table_of()
    X = X[["u", "v"]].fillna(0.0)
    return fit(ensemble.RandomForestClassifier(n_estimators=6, max_depth=2), X, y > np.median(y)), X


def explainable_boosting():
    glassbox = pytest.importorskip("interpret.glassbox")
    X, y = table_of()
    X = X.assign(g=X["g"].astype(str)).fillna({"u": 0.0})
    options = {"max_rounds": 20, "outer_bags": 1, "max_bins": 12, "interactions": 2, "n_jobs": 1}
    return fit(glassbox.ExplainableBoostingRegressor(**options), X, y), X


MODELS = {
    "two classes": lambda: lightgbm_classes(2),
    "three classes": lambda: lightgbm_classes(3),
    "float32": xgboost_single_precision,
    "xgboost": xgboost_categories,
    "catboost": catboost_categories,
    "counts": sklearn_counts,
    "probabilities": sklearn_forest,
    "ebm": explainable_boosting,
}


QUICK = ("two classes", "float32", "xgboost", "catboost")


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=() if name in QUICK else pytest.mark.thorough) for name in MODELS]
)
def problem(request):
    model, X = MODELS[request.param]()
    return treeanova.decompose(model, X, density="independent"), X


@pytest.fixture(scope="module")
def classes():
    model, X = lightgbm_classes(3)
    return treeanova.decompose(model, X, density="independent")


def exports_of(fx):
    yield treeanova.export.python(fx)
    if HAS_NODE:
        yield treeanova.export.javascript(fx)
    for dialect in ["sqlite", *(["duckdb"] if HAS_DUCKDB else [])]:
        for columns in ("score", "terms", "response"):
            yield treeanova.export.sql(fx, dialect=dialect, columns=columns)


def test_every_export_equals_the_decomposition(problem):
    fx, X = problem
    for export in exports_of(fx):
        proof = treeanova.export.verify(export, X[:50])
        assert proof.largest_difference < 1e-12, (export.kind, export.options)
        assert proof.n_rows == 50
        assert proof.n_adversarial_rows >= 1000
        assert proof.fingerprint in str(export)


def test_the_form_equals_the_tables_with_fewer_numbers(problem):
    fx, _ = problem
    form = form_of(fx)
    for candidate in (form, form.merged()):
        for row in adversarial_rows(form, 30, seed=3)[:30]:
            codes = [axis.code(row[axis.name]) for axis in form.axes]
            tables = [form.table(term)[tuple(codes[i] for i in term.key)] for term in form.terms]
            np.testing.assert_allclose(candidate.score(row), form.intercept + np.sum(tables, axis=0), atol=1e-12)
    assert form.merged().n_coefficients <= form.n_coefficients <= form.n_cells * len(fx.outputs)
    content = json.loads(json.dumps(form.to_dict()))
    assert [column["name"] for column in content["columns"]] == [axis.name for axis in form.axes]


def test_a_broken_export_is_noticed(problem):
    fx, _ = problem
    program = treeanova.export.python(fx)
    broken = str(program).replace("codes[bisect_left(", "codes[bisect_right(")
    broken = broken.replace("import bisect_left", "import bisect_left, bisect_right")
    proof = treeanova.export.verify(type(program)(**{**vars(program), "content": broken}))
    assert proof.largest_difference > 1e-6  # values on cuts have moved to the next interval


def test_hostile_names_and_labels_stay_data():
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y = table_of(labels=tuple(HOSTILE))
    X.columns = ['"; DROP TABLE rows; --', "a\nb `c` 'd'", "order"]
    model = ensemble.HistGradientBoostingRegressor(max_iter=15, max_depth=2, categorical_features="from_dtype")
    fx = treeanova.decompose(fit(model, X, y), X, density="independent")
    for export in exports_of(fx):
        assert treeanova.export.verify(export, X[:20]).largest_difference < 1e-12
    effects = Effects.from_tables({"a\nb `c`": [0.0, 1.0]}, thresholds={"a\nb `c`": [0.5]})
    for dialect in ("spark", "bigquery"):  # whatever columns a trained model uses
        with pytest.raises(ValueError, match=r"names must be ones that .* can quote"):
            treeanova.export.sql(treeanova.decompose(effects, density="uniform"), dialect=dialect)


def test_all_dialects_write_what_sqlglot_reads(classes):
    sqlglot = pytest.importorskip("sqlglot")
    names = {"postgresql": "postgres"}
    for dialect in ("duckdb", "postgresql", "sqlite", "spark", "bigquery", "snowflake"):
        query = treeanova.export.sql(classes, table=("main", "people"), dialect=dialect, columns="terms", keep=["id"])
        sqlglot.parse_one(str(query), read=names.get(dialect, dialect))


def test_numbers_that_scripts_would_change_are_written_so_that_they_stay():
    content = {"ends": [np.inf, -np.inf, 1.5], "labels": ["infinity", float("nan"), 2**53, True]}
    text = script_json(content)
    if HAS_NODE:
        code = f"const found = {text}; console.log(found.ends.join(), JSON.stringify(found.labels))"
        printed = subprocess.run(["node", "-e", code], capture_output=True, text=True, check=True).stdout
        assert printed == 'Infinity,-Infinity,1.5 ["infinity",null,9007199254740992,true]\n'
    with pytest.raises(ValueError, match=r"`fx` must have integer labels of at most 2\*\*53 .* got 9007199254740993"):
        script_json([2**53 + 1])


def test_refused_values_have_no_score():
    tables = {"a": [0.0, 1.0], "g": [0.0, 2.0]}
    effects = Effects.from_tables(tables, thresholds={"a": [0.5]}, categories={"g": ["x", "y"]})
    fx = treeanova.decompose(effects, density="uniform")
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE people (id INTEGER, a, g TEXT)")
    people = [(1, 1.0, "y"), (2, None, "y"), (3, 1.0, "z"), (4, "one", "y"), (5, 0, "x")]
    database.executemany("INSERT INTO people VALUES (?, ?, ?)", people)
    query = treeanova.export.sql(fx, table="people", dialect="sqlite", keep=["id"])
    assert database.execute(str(query)).fetchall() == [(1, 3.0), (2, None), (3, None), (4, None), (5, 0.0)]
    module = {}
    exec(str(treeanova.export.python(fx)), module)
    assert module["score"]({"a": 0.6, "g": "x"}) == 1.0
    for row in ({"a": None, "g": "x"}, {"a": 1.0, "g": "z"}):
        with pytest.raises(ValueError, match="must hold values that the model takes"):
            module["score"](row)


def test_what_has_no_table_is_refused():
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y = table_of()
    X = X[["u", "v"]].assign(w=X["v"] ** 2, z=X["u"] - X["v"]).fillna(0.0)
    fx = treeanova.decompose(fit(ensemble.GradientBoostingRegressor(n_estimators=3), X, y), X, tensor_order=2)
    with pytest.raises(ValueError, match="`fx` must have a table for every part of its score"):
        treeanova.export.python(fx)
    simple = fx.select(order=[1, 2])
    assert treeanova.export.verify(treeanova.export.python(simple), X[:20]).largest_difference < 1e-12


def test_wrong_options_are_refused(classes):
    with pytest.raises(ValueError, match="`dialect` must be one of 'duckdb'"):
        treeanova.export.sql(classes, dialect="oracle")
    with pytest.raises(ValueError, match="`columns` must be one of 'score'"):
        treeanova.export.sql(classes, columns="points")
    with pytest.raises(ValueError, match="`keep` must name columns once"):
        treeanova.export.sql(classes, keep=["id", "ID"])
    with pytest.raises(ValueError, match="`connection` must be an open connection"):
        treeanova.export.verify(treeanova.export.sql(classes, dialect="postgresql"))


def test_files_are_written_whole(classes, tmp_path):
    program = treeanova.export.python(classes)
    program.save(tmp_path / "model.py")
    assert (tmp_path / "model.py").read_text(encoding="utf-8") == str(program)
    assert "coefficient" in repr(program)


def test_equal_neighbours_share_a_code():
    effects = Effects.from_tables({"a": [0.0, 0.0, 1.0, 1.0], "g": [0.0, 5.0, 0.0]}, thresholds={"a": [1.0, 2.0, 3.0]})
    form = StepForm.of(effects)
    assert form.axes[0].reading.cuts == (2.0,)
    assert form.axes[1].n_codes == 2
    assert str(form) == "Step form of 2 terms: 2 columns with 1 cut, 2 coefficients for 7 cells"
