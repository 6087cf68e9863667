"""The demonstration: its truth is true, its errors are errors, and it writes what it names."""

from __future__ import annotations

import importlib.util
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from examples import demo
from treeanova.core.progress import quiet

KINDS = ("raw", "uniform", "empirical", "auto")


@pytest.fixture(scope="module")
def rows():
    return demo.simulate(200_000, random_state=3)


def test_true_effects_add_up_to_the_score(rows):
    constant = rows.score - sum(rows.effects.values())
    assert np.ptp(constant) < 1e-12


def test_true_effects_are_pure_under_the_density_of_the_rows(rows):
    pytest.importorskip("pandas")
    table = rows.X
    interaction = rows.effects["x1", "x2"]
    for name in ("x1", "x2"):
        assert abs(rows.effects[name,].mean()) < 0.01
        bins = np.digitize(table[name], np.linspace(-1.5, 1.5, 13))
        for b in range(14):
            inside = interaction[bins == b]
            assert abs(inside.mean()) < 5 * inside.std() / np.sqrt(len(inside)) + 1e-3
    # The features do depend on each other: otherwise all of this would be easy.
    assert abs(np.corrcoef(table["x1"], table["x2"])[0, 1] - demo.CORRELATION) < 0.01
    assert np.corrcoef(table["x3"], rows.effects["group",])[0, 1] > 0.4


def explained_by(terms, values):
    found = SimpleNamespace(terms=terms, values=np.stack(values, axis=1))
    return SimpleNamespace(explain=lambda X: found)


def test_errors_of_the_truth_are_zero_and_of_nothing_are_one(rows):
    truth = explained_by(list(rows.effects), [values + 3.0 for values in rows.effects.values()])
    assert all(abs(error) < 1e-12 for error in demo.errors(truth, rows).values())
    other = explained_by([("x1", "x3")], [0.5 * rows.score])
    found = demo.errors(other, rows)
    assert found.pop("other interactions") == pytest.approx(0.25)
    assert list(found.values()) == pytest.approx([1.0] * 5)


def test_the_demonstration_tells_the_truth_and_writes_what_it_names(tmp_path):
    for name in ("xgboost", "matplotlib", "vl_convert"):
        pytest.importorskip(name)
    lines = []
    demo.demonstrate(tmp_path / "new" / "folder", lines.append)
    text = "\n".join(lines)
    table = {
        line[:20].strip(): [float(cell.rstrip("%")) for cell in line[20:].split()]
        for line in text.splitlines()
        if line[20:].count("%") == 4
    }
    assert list(table) == ["x1", "x2", "x3", "group", "x1 × x2", "other interactions"]
    for name in ("x1", "x2", "x1 × x2"):
        raw, uniform, empirical, auto = table[name]
        assert auto < empirical < min(uniform, raw)
    assert max(errors[-1] for errors in table.values()) < 15
    assert min(table[name][0] for name in ("x1", "x2", "x3", "group", "x1 × x2")) > 50
    named = [line.removeprefix("wrote ") for line in lines if line.startswith("wrote ")]
    written = sorted(str(path) for path in (tmp_path / "new" / "folder").iterdir())
    assert sorted(named) == written
    assert [name.rsplit("/", 1)[1] for name in written] == [
        "importance.png", "interaction.png", "main_effect.png", "report.html",
    ]  # fmt: skip


def test_scikit_learn_stands_in_for_xgboost_and_the_text_says_so():
    ensemble = pytest.importorskip("sklearn.ensemble")
    model, words = demo.train(demo.simulate(300), library="sklearn")
    assert isinstance(model, ensemble.HistGradientBoostingRegressor)
    assert model.is_categorical_.tolist() == [False, False, False, True]
    assert "xgboost is not installed" in words


def test_without_data_frames_groups_are_codes(monkeypatch):
    pytest.importorskip("xgboost")
    with_frames = demo.simulate(400)
    monkeypatch.setattr(demo, "installed_library", lambda: None)
    plain = demo.simulate(400)
    assert isinstance(plain.X, np.ndarray)
    assert np.array_equal(plain.y, with_frames.y)
    for library in ("xgboost", "sklearn"):
        model, _ = demo.train(plain, library=library)
        assert np.var(model.predict(plain.X) - plain.score) < 0.2 * np.var(plain.score)


def test_without_any_library_the_error_names_one(monkeypatch):
    rows = demo.simulate(10)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install xgboost-cpu"):
        demo.train(rows)


def test_a_missing_extra_is_named_and_the_rest_is_written(tmp_path, monkeypatch):
    from treeanova import decompose, report

    model, _ = demo.train(demo.simulate(300), library="sklearn")
    fx = decompose(model, demo.simulate(300).X)

    def missing(*_, **__):
        raise ImportError("No module named 'vl_convert'")

    monkeypatch.setattr(report, "write_report", missing)
    monkeypatch.setattr(demo, "draw", lambda fx, folder, progress: [folder / "a.png"])
    lines = []
    demo._write(fx, tmp_path, lines.append, quiet)
    assert "pip install '.[report]'" in lines[0]
    assert lines[1:] == [f"wrote {tmp_path / 'a.png'}"]


def test_as_a_module_it_takes_a_folder(monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(demo, "demonstrate", lambda folder, say: seen.append((str(folder), say)))
    demo.main(["--out", "elsewhere"])
    monkeypatch.setattr(sys, "argv", ["demo"])
    demo.main()
    assert seen == [("elsewhere", print), ("demo", print)]
