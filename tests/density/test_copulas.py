"""Families of copulas against their distribution functions and scipy.stats."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from tests.support.dependence import LAWS, related_codes
from treeanova.density.smooth import margins as copulas


@pytest.mark.parametrize(("name", "tau", "theta"), [
    ("clayton", 0.5, 2.0), ("clayton", 0.2, 0.5), ("gumbel", 0.5, 2.0), ("gumbel", 0.2, 1.25), ("frank", 0.5, 5.7363),
    ("frank", 0.2, 1.8609),
])  # fmt: skip
def test_densities_of_families_are_derivatives_of_their_distribution_functions(name, tau, theta):
    u, v, h = np.linspace(0.05, 0.95, 7)[:, None], np.linspace(0.1, 0.9, 5), 1e-4
    corners = [s * t * LAWS[name](u + s * h, v + t * h, theta) for s in (-1, 1) for t in (-1, 1)]
    family = next(one for one in copulas.FAMILIES if one.name == name)
    logs = family.log_density_at(family.scores(u), family.scores(v), tau)
    np.testing.assert_allclose(np.exp(logs), sum(corners) / (4 * h * h), rtol=2e-3)


@pytest.mark.parametrize("freedom", [2, 4, 8, 16])
@pytest.mark.parametrize("tau", [0.1, 0.5, 0.8])
def test_the_density_of_students_copula_is_that_of_scipys_law_over_its_marginals(freedom, tau):
    u, v = np.linspace(0.01, 0.99, 7), np.linspace(0.1, 0.9, 5)
    law, r = scipy.stats.t(freedom), np.sin(np.pi * tau / 2)
    x, y = np.meshgrid(law.ppf(u), law.ppf(v), indexing="ij")
    joint = scipy.stats.multivariate_t(shape=[[1, r], [r, 1]], df=freedom).pdf(np.stack([x, y], axis=-1))
    family = next(one for one in copulas.FAMILIES if one.name == f"student {freedom}")
    logs = family.log_density_at(family.scores(u[:, None]), family.scores(v), tau)
    np.testing.assert_allclose(np.exp(logs), joint / law.pdf(x) / law.pdf(y), rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_kendalls_tau_of_a_table_is_scipys_of_its_rows(seed):
    first, second = related_codes(seed=seed)
    shares = np.zeros((7, 5))
    np.add.at(shares, (first, second), 1 / 60)
    assert copulas.kendall_tau(shares) == pytest.approx(scipy.stats.kendalltau(first, second).statistic)
    assert copulas.kendall_tau(np.array([[0.0, 1.0], [0.0, 0.0]])) == 0.0
