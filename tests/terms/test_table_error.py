"""Errors of tables from the correction of high orders, against exact decompositions of small forests."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support.forests import random_forest
from treeanova.terms import tree_model

BOUNDS = (-1.5, -0.5, 0.0, 0.4, 1.1, 1.9)


def case(seed):
    """A forest of up to five numbers and categories, and rows that depend on each other."""
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, max_depth=6, max_trees=10, n_outputs=1, max_features=5, bounds=BOUNDS)
    rows = rng.normal(size=(int(rng.choice([100, 300, 1000])), len(forest.schema.features)))
    rows += float(rng.choice([0.5, 1.0, 2.0])) * rng.normal(size=(len(rows), 1))
    for j, feature in enumerate(forest.schema.features):
        if feature.is_category:
            rows[:, j] = np.clip(np.floor(rows[:, j] + 1), 0, feature.n_categories - 1)
    return forest, rows


def true_error(fx, exact, rows):
    """Largest difference of a table to the exact one, relative to the largest score."""
    largest = np.abs(fx.decision_function(rows)).max()
    tables = {names: term.values for names, term in fx.terms.items() if term.has_table}
    return max(np.abs(values - exact.terms[names].values).max() for names, values in tables.items()) / largest


def errors_of(seeds, density):
    """True and stated errors of forests whose high orders are corrected."""
    found = []
    for seed in seeds:
        forest, rows = case(seed)
        fx = treeanova.decompose(forest, rows, density=density, tensor_order=2, max_order=2)
        higher = fx.certificate.higher
        if higher is not None and not higher.is_exact:
            exact = treeanova.decompose(forest, rows, density=density, tensor_order=9)
            found.append((true_error(fx, exact, rows), fx.certificate.error))
            assert fx.certificate.tables_are_pure
            assert fx.certificate.is_pure <= (found[-1][0] <= 1e3 * fx.certificate.tol)
    return np.array(found).T


@pytest.mark.filterwarnings("ignore::treeanova.errors.DensityWarning", "ignore::treeanova.errors.AliasWarning")
@pytest.mark.parametrize(
    ("density", "covered"),
    [("empirical", 0.95), *[pytest.param(name, 0.9, marks=pytest.mark.thorough) for name in ("laplace", "auto")]],
)
def test_stated_errors_cover_true_ones_in_nearly_all_cases_and_are_not_absurd(density, covered):
    true, stated = errors_of(range(24), density)
    assert len(true) > 9
    assert np.median(true) > 1e-3
    assert np.mean(stated >= true) >= covered
    assert np.median(stated / true) < 15


def test_a_correction_that_was_not_made_counts_as_error(monkeypatch):
    """No time for a single term: what high orders hold of the tables is measured at rows all the same."""
    monkeypatch.setattr(tree_model, "_corrected_in_time", lambda *_: [])
    forest, rows = case(3)
    fx = treeanova.decompose(forest, rows, density="empirical", tensor_order=2, max_order=2)
    exact = treeanova.decompose(forest, rows, density="empirical", tensor_order=9)
    higher = fx.certificate.higher
    assert higher.n_corrected == 0
    assert np.isnan(higher.refinement)
    assert not fx.certificate.is_pure
    assert fx.certificate.error >= 0.5 * true_error(fx, exact, rows)
    for text in (repr(fx), str(fx.certificate), fx.certificate.purity, higher.accuracy):
        assert "nan" not in text
    assert "orders 3 to 5 not corrected for dependence" in repr(fx)
    assert str(fx.certificate).endswith(
        f"what the correction of higher orders leaves adds up to about {higher.table_error:.1e}"
    )
    assert "of purification alone" not in str(exact.certificate)


def test_an_error_that_was_not_measured_is_no_number_and_nothing_is_met(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("treeanova.core.progress.time.monotonic", lambda: now[0])

    def over_before_the_trial(stage, done, total):
        """There is time to correct, but none to try half the bins."""
        now[0] = 1e9 if stage == "high orders, half the bins" else now[0]

    forest, rows = case(3)
    options = {"density": "empirical", "tensor_order": 2, "max_order": 2, "seconds": 1e6}
    fx = treeanova.decompose(forest, rows, **options, progress=over_before_the_trial)
    assert fx.certificate.higher.n_corrected
    assert "a trial with half the bins" in fx.certificate.higher.skipped
    assert np.isnan(fx.certificate.error)
    assert not fx.certificate.is_pure
    assert "nan" not in repr(fx) + str(fx.certificate)
    assert "accuracy of tables of orders 1 and 2 not measured, for lack of time" in repr(fx)


def test_independent_features_leave_no_error():
    forest, rows = case(3)
    fx = treeanova.decompose(forest, rows, density="independent", tensor_order=2, max_order=2)
    assert fx.certificate.is_pure
    assert fx.certificate.higher.table_error == 0
    assert fx.certificate.higher.accuracy == ""
