"""Scaled terms: predictions, purity, history, files, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support.decompositions import assert_pure
from tests.support.simulated import dependent_rows

HELD_OUT = dependent_rows(50, seed=1)


def test_predictions_change_by_the_scaled_terms(fx):
    scaled = fx.scale({"x0": 0.5, ("x1", "x0"): -2.0})
    change = -0.5 * fx.term_values(HELD_OUT, "x0") - 3.0 * fx.term_values(HELD_OUT, ["x0", "x1"])
    np.testing.assert_allclose(scaled.decision_function(HELD_OUT), fx.model.predict(HELD_OUT) + change, atol=1e-12)
    np.testing.assert_allclose(scaled.explain(HELD_OUT).scores, scaled.decision_function(HELD_OUT), atol=1e-12)
    assert scaled.intercept == fx.intercept
    np.testing.assert_allclose(scaled.terms["x0"].values, 0.5 * fx.terms["x0"].values)
    np.testing.assert_array_equal(scaled.terms["x2"].values, fx.terms["x2"].values)
    assert_pure(scaled)


def test_the_history_is_told_everywhere(fx):
    scaled = fx.scale("x0", 0.5).scale(("x0", "x1"), 0)
    assert fx.history == ()
    assert [edit.words for edit in scaled.history] == ["x0 times 0.5", "x0 × x1 times 0"]
    assert "edited (x0 times 0.5, x0 × x1 times 0): no longer the model" in repr(scaled)
    assert "edited (x0 times 0.5, x0 × x1 times 0): the sum of terms is no longer the model" in str(scaled.certificate)
    assert "sum of terms within" not in str(scaled.certificate)
    assert [edit.words for edit in scaled.drop("x2").history] == ["x0 times 0.5", "x0 × x1 times 0", "x2 dropped"]
    again = scaled.with_density("uniform")
    assert again.history == scaled.history
    assert again.certificate.edits == ("x0 times 0.5", "x0 × x1 times 0")
    np.testing.assert_allclose(again.decision_function(HELD_OUT), scaled.decision_function(HELD_OUT), atol=1e-12)


def test_files_keep_scaled_terms_and_history(fx, tmp_path):
    scaled = fx.scale("x0", 0.5)
    scaled.save(tmp_path / "fx.tav")
    loaded = treeanova.load(tmp_path / "fx.tav")
    assert loaded == scaled
    assert loaded.history == scaled.history
    assert str(loaded.certificate) == str(scaled.certificate)


def test_tables_of_a_deep_ensemble_can_be_scaled_where_all_terms_are_listed(deep_fx, deep, tmp_path):
    rows = deep[1][:20]
    scaled = deep_fx.scale("x0", 0.5)
    expected = deep_fx.decision_function(rows) - 0.5 * deep_fx.term_values(rows, "x0")
    np.testing.assert_allclose(scaled.decision_function(rows), expected, atol=1e-10)
    scaled.save(tmp_path / "fx.tav")
    np.testing.assert_allclose(treeanova.load(tmp_path / "fx.tav").decision_function(rows), expected, atol=1e-10)
    at_rows = next(names for names, term in deep_fx.terms.items() if not term.has_table)
    with pytest.raises(ValueError, match=r"scale\(\) must have terms with a table, got .* known at rows only"):
        deep_fx.scale(at_rows, 0.5)


def test_a_function_that_is_more_than_its_terms_is_refused(fx):
    with pytest.raises(ValueError, match=r"scale\(\) must have all of the function in its terms, got a remainder"):
        fx.truncate(1).scale("x0", 0.5)


@pytest.mark.parametrize(
    "made",
    [
        lambda fx: fx.scale("x0", 0.5),
        lambda fx: fx.drop("x2"),
        lambda fx: fx.raw.scale(("x0", "x1"), 0.5),
        lambda fx: fx.scale("x0", 0.5).with_density("uniform"),
        lambda fx: treeanova.mean([fx, fx.scale("x0", 0.5)]),
        lambda fx: fx - fx.drop("x2"),
    ],
    ids=["scale", "drop", "raw", "with_density", "mean", "difference"],
)
def test_truncation_of_edited_or_selected_terms_keeps_the_function(fx, made, tmp_path):
    whole = made(fx)
    scores = whole.decision_function(HELD_OUT)
    part = whole.truncate(1)
    assert part.has_remainder
    assert {len(names) for names in part.terms} == {1}
    assert part.history == whole.history
    assert np.abs(part.remainder(HELD_OUT)).max() > 1e-3
    part.save(tmp_path / "fx.tav")
    for same in (part, treeanova.load(tmp_path / "fx.tav"), part.with_density("independent")):
        np.testing.assert_allclose(same.decision_function(HELD_OUT), scores, atol=1e-10)
        np.testing.assert_allclose(same.explain(HELD_OUT).scores, scores, atol=1e-10)
        assert same.has_remainder
    assert part.select(order=1) == whole.select(order=1)
    shares = part.importance()
    assert "remainder" in list(shares["term"])
    assert sum(shares["share"]) == pytest.approx(1.0)


def test_selected_terms_without_a_table_are_not_truncated(deep_fx, deep):
    part = deep_fx.drop("x0")
    with pytest.raises(ValueError, match=r"truncate\(\) must have all terms of a deep ensemble, or tables .* select"):
        part.truncate(1)
    rows = deep[1][:20]
    explained = part.explain(rows, max_order=1)
    np.testing.assert_allclose(explained.scores, part.decision_function(rows), atol=1e-10)


@pytest.mark.parametrize("factor", [None, "a", float("nan"), float("inf"), True])
def test_bad_factors_are_refused(fx, factor):
    with pytest.raises(ValueError, match="`factor` must be a finite number, got"):
        fx.scale("x0", factor)


def test_a_factor_beside_a_mapping_and_unknown_terms_are_refused(fx):
    with pytest.raises(ValueError, match="`factor` must be left out where factors come with the terms, got 2"):
        fx.scale({"x0": 1.0}, 2)
    with pytest.raises(KeyError, match=r"no term .*height"):
        fx.scale("height", 2)


def test_terms_in_the_history_are_labelled_as_in_tables():
    tables = {"a": [0.0, 1.0], "b": [0.0, 1.0], "a × b": [0.0, 1.0], ("a", "b"): [[0.0, 0.0], [0.0, 1.0]]}
    fx = treeanova.decompose(treeanova.model.Effects.from_tables(tables), density="uniform")
    edited = fx.scale({'"a × b"': 2.0, ("a", "b"): 3.0})
    assert [edit.words for edit in edited.history] == ['"a × b" times 2, a × b times 3']


def test_a_term_that_is_named_twice_is_refused(fx):
    with pytest.raises(ValueError, match="`term` must name each term once, got 'x0' twice"):
        fx.scale({"x0": 2.0, ("x0",): 3.0})


def test_standard_errors_of_combined_edits_say_what_is_needed(fx):
    with pytest.raises(ValueError, match=r"must have all terms of a model.*on the decomposition of the model itself"):
        treeanova.mean([fx, fx.scale("x0", 0.5)]).standard_errors()


def test_what_is_no_decomposition_is_refused_by_name(fx, model):
    with pytest.raises(TypeError, match="`decompositions` must hold decompositions, got GradientBoostingRegressor"):
        treeanova.mean([model])
    with pytest.raises(TypeError, match="`decompositions` must hold decompositions, got GradientBoostingRegressor"):
        treeanova.compare({"a": fx, "b": model})
    assert treeanova.mean(one for one in (fx, fx)) == treeanova.mean([fx, fx])
    with pytest.raises(ValueError, match=r"`n_resamples` must be a whole number from 2 on, got 2\.5"):
        fx.standard_errors(2.5)
    with pytest.raises(ValueError, match="`mix` must be from 0 to 1, got 'a'"):
        fx.with_density(treeanova.density.Laplace(mix="a"))
    with pytest.raises(ValueError, match="must give weights that are real numbers, got complex ones"):
        fx.with_density({"x0": np.ones(fx.grid.sizes[0]) * 1j})


def test_distances_relative_to_a_constant_score_are_not_known(fx, model):
    row = dependent_rows()[:1]
    with pytest.warns(treeanova.errors.DensityWarning):
        constant = treeanova.decompose(model, row, density="empirical")
    distance = treeanova.compare({"a": constant, "b": fx}).distance
    assert np.isnan(distance["relative"]).all()
    assert np.isfinite(distance["distance"]).all()


def test_a_column_that_is_kept_twice_is_kept_once(fx, tmp_path):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(HELD_OUT, columns=["x0", "x1", "x2"]).assign(id=range(len(HELD_OUT)))
    fx.explain_to(tmp_path / "parts", table, keep=["id", "id"])
    written = pd.read_parquet(tmp_path / "parts")
    assert written["id"].tolist() == table["id"].tolist()
