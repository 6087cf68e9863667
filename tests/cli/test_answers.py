from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest

import treeanova
from tests.support.command_line import printed
from tests.support.diamonds import diamonds_decomposition, labels_by_variance
from tests.support.remainders import model_with_a_feature_called_remainder
from tests.support.training import fit
from treeanova.decomposition.answers import plain_summary, summary_text
from treeanova.views import NEGATIVE_SHARE, percent

pytest.importorskip("typer")
pytest.importorskip("rich")
xgboost = pytest.importorskip("xgboost")


def test_explain_prints_the_strongest_terms_of_the_decomposition(folder, fx, capsys, data):
    text = printed(["explain", folder / "model.json", *data, "--top", "3"], capsys)
    table = fx.importance().set_index("term")
    lines = re.findall(r"^(\S.*?)" + 3 * "  +([−<]? ?[\\d.]+\u00a0%)", text, flags=re.MULTILINE)
    assert [name for name, *_ in lines] == list(table.index[:3])
    for name, *numbers in lines:
        assert numbers == [percent(share) for share in table.loc[name, ["variance", "covariance", "share"]]]
    left = {name: percent(table[name][3:].sum()) for name in ("variance", "share")}
    assert f"{len(table) - 3} more terms: variance {left['variance']}, share {left['share']}\n" in text
    assert "model.json: 4 features, density auto, 800 rows, prediction" in text


def test_every_output_has_its_own_answer(tmp_path, capsys):
    datasets = pytest.importorskip("sklearn.datasets")
    X, y = datasets.load_iris(return_X_y=True, as_frame=True)
    model = fit(xgboost.XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1), X, y)
    model.save_model(tmp_path / "iris.json")
    X.to_csv(tmp_path / "iris.csv", index=False)
    text = printed(["explain", tmp_path / "iris.json", "--data", tmp_path / "iris.csv"], capsys)
    fx = treeanova.decompose(model, X)
    for output in fx.schema.outputs:
        assert f"\n{output}: " in text
    found = json.loads(printed(["explain", tmp_path / "iris.json", "--data", tmp_path / "iris.csv", "--json"], capsys))
    assert found["intercept"] == pytest.approx(fx.intercept.tolist(), abs=1e-6)


def test_densities_of_one_model_are_compared(folder, fx, capsys, data):
    arguments = ["compare", folder / "model.json", *data, "--density", "auto", "--density", "raw"]
    found = json.loads(printed([*arguments, "--density", "uniform", "--json"], capsys))
    expected = treeanova.compare({"auto": fx, "raw": fx.raw, "uniform": fx.with_density("uniform")})
    assert found["names"] == ["auto", "raw", "uniform"]
    assert [row["relative"] for row in found["distance"]] == pytest.approx(expected.distance["relative"].tolist())
    text = printed([*arguments, "--top", "2"], capsys)
    largest = expected.distance.query("decomposition == 'raw'").nlargest(2, "relative")
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("term"))
    for line, term, relative in zip(lines[start + 1 :], largest["term"], largest["relative"], strict=False):
        assert line.startswith(f"{term} ")
        assert f" {percent(relative)}" in line
    assert text.endswith(f"{len(fx.terms) - 2} more terms\n")


@pytest.mark.parametrize("rows", [True, False])
def test_distances_of_terms_at_rows_need_the_rows_that_files_keep(tmp_path, capsys, rows):
    """A deep decomposition and its copy: without a sample of rows, terms at rows are listed without a distance."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    model = fit(xgboost.XGBRegressor(n_estimators=3, max_depth=3, n_jobs=1), X, X.prod(axis=1))
    saved = treeanova.decompose(model, X, density="empirical", tensor_order=2)
    for name in ("a.tav", "b.tav"):
        saved.save(tmp_path / name, rows=rows)
    arguments = ["compare", tmp_path / "a.tav", tmp_path / "b.tav", "--density", "empirical"]
    found = json.loads(printed([*arguments, "--json"], capsys))
    distances = {row["term"]: row["distance"] for row in found["distance"]}
    unknown = {term for term, distance in distances.items() if distance is None}
    assert unknown == (set() if rows else {"x0 × x1 × x2"})
    assert len(distances) == 7
    assert max(distance for distance in distances.values() if distance is not None) < 1e-12
    if not rows:
        last = printed(arguments, capsys).rstrip().splitlines()[-1]
        assert re.match(r"x0 × x1 × x2 +– +\d+ +\d+$", last)


def test_the_command_line_has_the_same_order_and_a_foot_line():
    pytest.importorskip("xgboost")
    pytest.importorskip("pandas")
    fx, expected = diamonds_decomposition(), labels_by_variance()
    assert [row["term"] for row in plain_summary(fx, "model")["terms"]] == expected
    text = summary_text(fx, "model", 8)
    assert re.findall("^(\\S.*?)  +[< ]*[\\d.]+\u00a0%", text, flags=re.MULTILINE) == expected[:8]
    assert NEGATIVE_SHARE in text
    assert NEGATIVE_SHARE not in summary_text(fx, "model", 1)


def test_the_command_line_names_the_remainder(tmp_path, capsys):
    pytest.importorskip("xgboost")
    pytest.importorskip("pandas")
    model, rows = model_with_a_feature_called_remainder()
    pytest.importorskip("typer")
    from treeanova.cli import run

    model.save_model(tmp_path / "model.json")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    arguments = ["explain", str(tmp_path / "model.json"), "--data", str(tmp_path / "rows.csv"), "--max-order", "1"]
    assert run(arguments) == 0
    shown = capsys.readouterr().out
    assert "interactions are in the remainder" in shown
    assert "sum of terms and remainder within" in shown


def test_what_was_not_measured_is_null_in_json(fx):
    higher = treeanova.model.HigherCertificate(
        (3, 5), 4, 0, 0.0, {}, np.nan, is_exact=False, measured=None, table_error=np.nan
    )
    known = dataclasses.replace(fx, certificate=dataclasses.replace(fx.certificate, higher=higher))
    certificate = plain_summary(known, "model.json")["certificate"]
    at_rows = json.loads(json.dumps(certificate, allow_nan=False))["at_rows"]
    assert [at_rows[name] for name in ("purity", "refinement", "table_error")] == [None] * 3
    assert at_rows["n_corrected"] == 0
    assert certificate["error"] is None
    assert not certificate["pure"]
