"""Decompositions of deep ensembles that were saved and loaded."""

from __future__ import annotations

import io
import pickle
import zipfile

import numpy as np
import pytest

import treeanova
from tests.support.decompositions import sum_of
from tests.support.effects import pair_on_few_bins, random_effects, rows_of_effects
from tests.support.strategies import seeds
from treeanova.testing import example


@pytest.mark.usefixtures("_budget_of_tables")
@pytest.mark.parametrize(
    "options", [{}, {"max_order": 2}, {"max_order": 1}, {"density": "independent"}, {"budget": 1.5e6}]
)
def test_saved_and_loaded(deep, options, tmp_path):
    model, x = deep
    before = treeanova.decompose(model, x, **{"density": "empirical", **options})
    before.save(tmp_path / "deep.tav")
    after = treeanova.load(tmp_path / "deep.tav")
    one, two = before.explain(x[:200]), after.explain(x[:200])
    assert one.terms == two.terms
    np.testing.assert_allclose(one.values, two.values, rtol=0, atol=1e-13)  # tables may follow from trees
    np.testing.assert_array_equal(before.decision_function(x), after.decision_function(x))
    assert after.importance().equals(before.importance())
    assert after.certificate.higher == before.certificate.higher
    assert repr(after) == repr(before)


def test_raw_of_a_loaded_decomposition_is_raw(deep, deep_fx, tmp_path):
    deep_fx.save(tmp_path / "fx.tav")
    loaded = treeanova.load(tmp_path / "fx.tav").with_density("empirical", deep[1])
    assert loaded.raw.importance().equals(deep_fx.raw.importance())
    deep_fx.truncate(1).save(tmp_path / "cut.tav")
    cut = treeanova.load(tmp_path / "cut.tav")
    np.testing.assert_array_equal(sum_of(cut.raw.explain(deep[1][:50])), sum_of(deep_fx.raw.explain(deep[1][:50])))


@pytest.mark.parametrize("density", ["empirical", "auto", "uniform", "independent"])
@pytest.mark.parametrize("seed", seeds(3, quick=2))
def test_terms_on_axes_of_their_own_are_saved_and_loaded(density, seed, tmp_path):
    """In the random models axes of main effects and pairs cross."""
    rng = np.random.default_rng(seed)
    effects = random_effects(rng, sizes=(5, 4), n_outputs=1, share_of_terms=1.0) if seed else pair_on_few_bins()
    assert effects.binnings
    rows = rows_of_effects(effects)
    before = treeanova.decompose(effects, rows, density=density, n_jobs=1)
    for part in (before, before.truncate(1), before.select(order=2), before.raw, before.drop("x1")):
        part.save(tmp_path / "fx.tav")
        for after in (treeanova.load(tmp_path / "fx.tav"), pickle.loads(pickle.dumps(part))):
            assert after == part
            assert after._function.scope == part._function.scope
            for names, term in part.terms.items():
                assert after.terms[names].axes[0].labels == term.axes[0].labels
                assert after.terms[names].values.tobytes() == term.values.tobytes()
                assert after.terms[names].weights.tobytes() == term.weights.tobytes()
            np.testing.assert_array_equal(after.decision_function(rows), part.decision_function(rows))
            np.testing.assert_array_equal(after.raw.decision_function(rows), part.raw.decision_function(rows))
            assert after.importance().equals(part.importance())
            assert repr(after) == repr(part)
    again = treeanova.load(tmp_path / "fx.tav").with_density("empirical", rows)
    assert again == before.drop("x1").with_density("empirical", rows)


def test_axes_that_do_not_fit_are_refused(tmp_path):
    fx = treeanova.decompose(pair_on_few_bins(), density="uniform")
    fx.save(tmp_path / "fx.tav")
    with zipfile.ZipFile(tmp_path / "fx.tav") as file:
        parts = {name: file.read(name) for name in file.namelist()}
    assert "pure/bins/0-1/0.npy" in parts
    for bins in ([0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 5], [0, 0, 1, 1, 1, 1]):
        buffer = io.BytesIO()
        np.save(buffer, np.array(bins))
        with zipfile.ZipFile(tmp_path / "other.tav", "w") as file:
            for name, content in {**parts, "pure/bins/0-1/0.npy": buffer.getvalue()}.items():
                file.writestr(name, content)
        with pytest.raises(treeanova.errors.ArchiveError, match="must be a whole file saved by treeanova"):
            treeanova.load(tmp_path / "other.tav")


def test_other_formats_are_not_promised(tmp_path):
    fx, X = example()
    with pytest.raises(ValueError, match=r"`path` must end in .tav, .* got '.*fx.json'; name it 'fx.tav'"):
        fx.save(tmp_path / "fx.json")
    with pytest.raises(ValueError, match=r"`path` must end in .parquet or .pq, .* got '.*rows.csv'"):
        fx.explain_to(tmp_path / "rows.csv", X)
    assert not list(tmp_path.iterdir())
