"""Sensitivity of terms to the density, by hand and against pairs of decompositions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.support.decompositions import names_at_rows
from tests.support.densities import normals
from tests.support.effects import pair_on_few_bins, rows_of_effects
from tests.support.recorded import Recorded
from tests.support.training import fit
from treeanova import decompose, density_sensitivity
from treeanova.core.arrays import label_of

AND_ROWS = np.array([[0, 0]] * 4 + [[0, 1]] * 1 + [[1, 0]] * 1 + [[1, 1]] * 4, dtype=float)


@pytest.fixture(scope="module")
def sensitivity():
    tree = pytest.importorskip("sklearn.tree")
    model = fit(tree.DecisionTreeRegressor(), AND_ROWS, AND_ROWS.prod(axis=1))
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(AND_ROWS, columns=["p", "q"])
    return density_sensitivity(model, frame, ["uniform", "empirical"], feature_names=["p", "q"], n_jobs=1)


@pytest.fixture(scope="module")
def boosted():
    ensemble = pytest.importorskip("sklearn.ensemble")
    data = np.stack(normals(0.6, 150), axis=1)
    target = data[:, 0] * data[:, 1] + np.sin(data[:, 2])
    return fit(ensemble.GradientBoostingRegressor(n_estimators=15, max_depth=2, random_state=0), data, target), data


def test_sensitivity_of_and_by_hand(sensitivity):
    """Uniform: mains ∓1/4, interaction ±1/4. Rows .4, .1, .1, .4: the same mains by symmetry, centred alike."""
    # Empirical: f = c + a(p) + a(q) + i; pure i = (s, -4s, -4s, s) as its slices vanish: .4 i00 + .1 i01 = 0.
    # With a = ∓m: c - 2m + s = 0, c - 4s = 0, c + 2m + s = 1, so s = 0.1, c = 0.4, m = 0.25.
    table = sensitivity.table.set_index("term")
    pair_gap = np.sqrt(0.8 * (0.25 - 0.1) ** 2 + 0.2 * (-0.25 + 0.4) ** 2)
    spread = np.sqrt(0.4 * 0.6)
    assert table.loc["p", "distance"] == pytest.approx(0.0, abs=1e-9)
    assert table.loc["p × q", "distance"] == pytest.approx(pair_gap / spread)
    assert next(iter(sensitivity.table["term"])) == "p × q"
    assert table.loc["p", "share uniform"] == pytest.approx((1 / 16) / (3 / 16))
    assert table.loc["p × q", "share uniform"] == pytest.approx(1 / 3)
    main_covariance = 0.8 / 16 - 0.2 / 16  # of the two mains under the rows
    assert table.loc["p", "share empirical"] == pytest.approx((1 / 16 + main_covariance) / 0.24)
    assert table.loc["p × q", "share empirical"] == pytest.approx((0.8 * 0.01 + 0.2 * 0.16) / 0.24)
    assert table.loc["p × q", "sign differs"] == 0.0
    assert "p × q" in str(sensitivity)


def test_main_effects_of_a_sensitivity_by_hand(sensitivity):
    mains = sensitivity.mains
    assert list(mains.columns) == ["term", "bin", "label", "density", "output", "value", "weight"]
    assert len(mains) == 2 * 2 * 2
    np.testing.assert_allclose(mains["value"], np.where(mains["bin"] == 0, -0.25, 0.25))
    np.testing.assert_allclose(mains["weight"], 0.5)
    assert set(mains["density"]) == {"uniform", "empirical"}
    assert list(sensitivity.decompositions) == ["uniform", "empirical"]


def test_signs_that_differ_between_densities():
    tree = pytest.importorskip("sklearn.tree")
    rows = np.array([[0, 0]] * 45 + [[0, 1]] * 5 + [[1, 0]] * 5 + [[1, 1]] * 45, dtype=float)
    # T = (0, 1, 2, 1.5): under equal weights p rises by 1.25 and q by 0.25; under the diagonal they must share 1.5.
    model = fit(tree.DecisionTreeRegressor(), rows, np.array([0, 1, 2, 1.5])[(2 * rows[:, 0] + rows[:, 1]).astype(int)])
    found = density_sensitivity(model, rows, {"flat": "uniform", "seen": "empirical"}, n_jobs=1)
    terms = {name: fx.terms for name, fx in found.decompositions.items()}
    table = dict(zip(found.table["term"], found.table["sign differs"], strict=True))
    for names in terms["seen"]:
        flat, seen = terms["flat"][names].values, terms["seen"][names].values
        weights = rows.shape[0] * terms["seen"][names].weights
        opposite = sum(w for w, a, b in zip(weights.flat, flat.flat, seen.flat, strict=True) if a * b < 0)
        assert table[" × ".join(names)] == pytest.approx(opposite / len(rows))


def test_sensitivity_of_several_densities_takes_the_two_furthest_apart(boosted):
    model, data = boosted
    found = density_sensitivity(model, data, ["uniform", "independent", "auto", "empirical"], n_jobs=1)
    parts = {name: decompose(model, data, density=name, n_jobs=1) for name in found.decompositions}
    spread = np.std(model.predict(data))
    distances = dict(zip(found.table["term"], found.table["distance"], strict=True))
    for names in parts["empirical"].terms:
        weights = parts["empirical"].terms[names].weights
        values = [part.terms[names].values for part in parts.values()]
        gaps = [np.sqrt((weights * (a - b) ** 2).sum()) for a, b in itertools.combinations(values, 2)]
        assert distances[" × ".join(names)] == pytest.approx(max(gaps) / spread, rel=1e-6)


@pytest.mark.parametrize("densities", [["auto"], "auto"])
def test_sensitivity_needs_two_densities(boosted, densities):
    with pytest.raises(ValueError, match=r"`densities` must be at least two, got \['auto'\]"):
        density_sensitivity(*boosted, densities)


def test_sensitivity_tells_of_terms_without_a_table(deep, deep_fx):
    model, x = deep
    found = density_sensitivity(model, x, ["uniform", "empirical"])
    table = found.table.set_index("term")
    assert set(table.index) == set(map(label_of, deep_fx.terms))
    uniform = deep_fx.with_density("uniform")
    for names in [("x0",), *names_at_rows(deep_fx)[:3], names_at_rows(deep_fx)[-1]]:
        gap = np.sqrt(np.mean((uniform.term_values(x, names) - deep_fx.term_values(x, names)) ** 2))
        expected = gap / deep_fx.decision_function(x).std()
        assert table.loc[label_of(names), "distance"] == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_sensitivity_of_terms_on_axes_of_their_own():
    effects = pair_on_few_bins()
    rows = rows_of_effects(effects)
    found = density_sensitivity(effects, rows, ["uniform", "empirical"], n_jobs=1)
    uniform, empirical = found.decompositions.values()
    distances = dict(zip(found.table["term"], found.table["distance"], strict=True))
    spread = empirical.decision_function(rows).std()
    for names in empirical.terms:
        gap = uniform.term_values(rows, names) - empirical.term_values(rows, names)
        assert distances[" × ".join(names)] == pytest.approx(np.sqrt(np.mean(gap**2)) / spread)
    first = found.mains[(found.mains["term"] == "x0") & (found.mains["density"] == "empirical")]
    assert first["label"].tolist() == list(empirical.terms["x0"].axes[0].labels)
    np.testing.assert_array_equal(first["value"], empirical.terms["x0"].values)


def test_progress_names_the_densities(deep):
    told = Recorded()
    density_sensitivity(*deep, ["uniform", "empirical"], progress=told)
    named = [stage.partition(": ")[0] for stage in told.stages]
    assert list(dict.fromkeys(named)) == ["density empirical", "density uniform", "terms of high order at rows"]
