"""Standard errors against whole decompositions of resampled rows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.decompositions import names_in_tables
from tests.support.densities import boosted as dependent_model
from tests.support.densities import normals
from tests.support.effects import pair_on_few_bins, rows_of_effects
from tests.support.training import fit
from treeanova import decompose
from treeanova.density import Empirical, Kernel


@pytest.fixture(scope="module")
def boosted():
    ensemble = pytest.importorskip("sklearn.ensemble")
    data = np.stack(normals(0.6, 150), axis=1)
    target = data[:, 0] * data[:, 1] + np.sin(data[:, 2])
    return fit(ensemble.GradientBoostingRegressor(n_estimators=15, max_depth=2, random_state=0), data, target), data


def times_drawn(fx, n_resamples, seed=0, weights=1.0):
    """How often each row is in each of the resamples, times its weight."""
    rng, n_rows = np.random.default_rng(seed), fx.statistics.n_rows
    shares = [fx.statistics.resampled(rng).sample.weights / weights for _ in range(n_resamples)]
    times = [n_rows * one / one.sum() for one in shares]
    assert all(np.allclose(one, np.round(one)) for one in times)
    return np.round(times) * weights


@pytest.mark.parametrize(
    ("density", "weighted"),
    [
        pytest.param(density, weighted, marks=[] if i % 2 == weighted else pytest.mark.thorough)
        for i, density in enumerate(["empirical", "independent", "laplace", "auto", Kernel(bandwidth=0.5)])
        for weighted in (False, True)
    ],
)
def test_standard_errors_are_those_of_whole_decompositions_of_resampled_rows(boosted, density, weighted):
    model, data = boosted
    weights = np.random.default_rng(2).exponential(size=len(data)) if weighted else None
    fx = decompose(model, data, density=density, sample_weight=weights, n_jobs=1)
    found = fx.standard_errors(n_resamples=6, random_state=3)
    drawn = times_drawn(fx, 6, seed=3, weights=1.0 if weights is None else weights)
    resampled = [decompose(model, data, density=density, sample_weight=times, n_jobs=1) for times in drawn]
    assert list(found) == list(fx.terms)
    for names, errors in found.items():
        expected = np.std([other.terms[names].values for other in resampled], axis=0, ddof=1)
        np.testing.assert_allclose(errors, expected, rtol=1e-6, atol=1e-9)
    assert max(errors.max() for errors in found.values()) > 1e-3


def test_standard_errors_shrink_with_the_root_of_the_rows(boosted):
    model, _ = boosted
    typical = []
    for n_rows in (500, 8000):
        fx = decompose(model, np.stack(normals(0.6, n_rows), axis=1), density="independent", n_jobs=1)
        typical.append(np.sqrt(np.mean(fx.standard_errors(40)["x0",] ** 2)))
    assert typical[0] / typical[1] == pytest.approx(4.0, rel=0.35)


def test_standard_errors_of_a_density_that_asks_no_rows_are_zero(boosted):
    model, data = boosted
    fx = decompose(model, data, density="uniform", n_jobs=1)
    for errors in fx.standard_errors(n_resamples=3).values():
        np.testing.assert_allclose(errors, 0.0, atol=1e-12)


@pytest.mark.filterwarnings("ignore::treeanova.errors.DensityWarning")
def test_one_row_has_no_standard_errors(boosted):
    model, data = boosted
    fx = decompose(model, data[:1], density="empirical", n_jobs=1)
    with pytest.raises(ValueError, match="needs at least two rows of the density, got one; decompose with"):
        fx.standard_errors()
    weights = np.where(np.arange(150) == 7, 1.0, 0.0)
    fx = decompose(model, data, density="empirical", sample_weight=weights, n_jobs=1)
    with pytest.raises(ValueError, match="needs at least two rows of the density, got one; decompose with"):
        fx.standard_errors()


def test_standard_errors_of_several_outputs():
    ensemble = pytest.importorskip("sklearn.ensemble")
    data = np.stack(normals(0.3, 120, order=2), axis=1)
    target = np.digitize(data[:, 0] + data[:, 1], [-0.7, 0.7])
    model = fit(ensemble.GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0), data, target)
    fx = decompose(model, data, density="empirical", n_jobs=1)
    found = fx.standard_errors(n_resamples=4, random_state=0)
    draws = times_drawn(fx, 4)
    parts = [decompose(model, data, density="empirical", sample_weight=draw, n_jobs=1) for draw in draws]
    for names, errors in found.items():
        assert errors.shape == fx.terms[names].values.shape
        assert errors.shape[-1] == 3
        expected = np.std([part.terms[names].values for part in parts], axis=0, ddof=1)
        np.testing.assert_allclose(errors, expected, rtol=1e-6, atol=1e-9)


def test_standard_errors_need_rows_and_resamples(boosted):
    model, data = boosted
    with pytest.raises(ValueError, match="needs the rows of the density, got none"):
        decompose(model, density="uniform").standard_errors()
    with pytest.raises(ValueError, match="`n_resamples` must be a whole number from 2 on, got 1"):
        decompose(model, data, density="empirical").standard_errors(n_resamples=1)


def test_standard_errors_of_a_density_with_its_own_rows():
    model, x = dependent_model()
    by_x = decompose(model, x, density="empirical").standard_errors(20)
    by_data = decompose(model, density=Empirical(X=x)).standard_errors(20)
    for names, errors in by_x.items():
        np.testing.assert_allclose(by_data[names], errors, atol=1e-12)
    assert max(errors.max() for errors in by_data.values()) > 0.01


@pytest.mark.thorough
def test_standard_errors_of_low_orders_are_the_spread_over_resampled_rows(deep, deep_fx):
    """High orders stay as they are in the first and move with the rows in the second: hence the factor."""
    x = deep[1]
    errors = deep_fx.standard_errors(20)
    assert set(errors) == set(names_in_tables(deep_fx))
    assert all(np.isfinite(values).all() for values in errors.values())
    rng = np.random.default_rng(1)
    draws = [deep_fx.with_density("empirical", x[rng.integers(len(x), size=len(x))]).terms for _ in range(12)]
    for j in range(6):
        weights = deep_fx.terms[f"x{j}"].weights
        spread = np.std([terms[f"x{j}"].values for terms in draws], axis=0, ddof=1)
        expected = np.sqrt(np.average(spread**2, weights=weights))
        assert expected > 1e-3  # so that the next line says something
        assert expected / 2 < np.sqrt(np.average(errors[f"x{j}",] ** 2, weights=weights)) < 2 * expected


def test_standard_errors_of_terms_on_axes_of_their_own():
    effects = pair_on_few_bins()
    rows = rows_of_effects(effects, n_rows=120)
    fx = decompose(effects, rows, density="empirical", n_jobs=1)
    found = fx.standard_errors(n_resamples=5, random_state=0)
    draws = times_drawn(fx, 5)
    parts = [decompose(effects, rows, density="empirical", sample_weight=draw, n_jobs=1) for draw in draws]
    assert found["x0", "x1"].shape == (3, 2)
    for names, errors in found.items():
        expected = np.std([part.terms[names].values for part in parts], axis=0, ddof=1)
        np.testing.assert_allclose(errors, expected, rtol=1e-6, atol=1e-9)


def test_raw_terms_have_no_errors(boosted):
    fx = decompose(*boosted, density="empirical")
    with pytest.raises(ValueError, match="must have pure terms, got raw ones"):
        fx.raw.standard_errors()
