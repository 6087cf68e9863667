"""The choice among estimates of a pair: the highest leave-one-out likelihood, and simple ones within an error."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.densities import bind_columns, normals
from tests.support.dependence import (
    QUANTILES,
    clayton,
    copula_cells,
    listed,
    normal_cells,
    of_one_pair,
    pair_of_cells,
    pair_of_codes,
    related_codes,
)
from treeanova.density.smooth import choice as estimates
from treeanova.density.smooth.choice import BANDWIDTHS, all_candidates, kernel_candidates
from treeanova.model.axes import IntervalAxis


@pytest.mark.parametrize(("cells", "start"), [
    (copula_cells(clayton, 2.0, QUANTILES, QUANTILES), "clayton"),
    (normal_cells(0.6, QUANTILES, QUANTILES), "gaussian"),
])  # fmt: skip
def test_kernels_correct_the_likelier_of_the_gaussian_copula_and_the_family(cells, start):
    names = [candidate.name for candidate in listed(all_candidates(pair_of_cells(cells).alone))]
    corrected = [name for name in names if " x kernel " in name]
    assert len(corrected) >= 3
    assert {name.partition(" x ")[0] for name in corrected} == {start}
    without = [candidate.name for candidate in listed(all_candidates(pair_of_cells(cells).alone, families=False))]
    assert {name.partition(" x ")[0] for name in without if " x kernel " in name} == {"gaussian"}
    assert start == "gaussian" or "clayton" not in without


def test_families_are_tried_where_the_gaussian_copula_or_a_kernel_beats_independence():
    n_tried = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        pair = pair_of_codes(rng.integers(0, 7, 400), rng.integers(0, 5, 400), (7, 5))
        found = listed(all_candidates(pair.alone))
        likelihoods = {c.name: c.likelihood for c in found}
        others = {name for name in likelihoods if name not in {"empirical", "independent", "gaussian"}}
        parametric = {name for name in others if not name.startswith("kernel ")}
        simpler = max(likelihoods[name] for name in ("gaussian", *(others - parametric)))
        assert bool(parametric) == (simpler > likelihoods["independent"])
        n_tried += bool(parametric)
    assert 0 < n_tried < 15


def test_the_search_finds_the_likeliest_of_all_bandwidths():
    for seed in range(5):
        pair = pair_of_codes(*related_codes(400, seed=seed), (7, 5))
        every = [of_one_pair(estimates.kernel, pair, h, 0.0).likelihood for h in BANDWIDTHS]
        candidates = [c for c in listed(kernel_candidates(pair.alone, scales=("ranks",))) if "twice" not in c.name]
        found = [c.likelihood for c in candidates]
        assert max(found) == pytest.approx(max(every), abs=1e-3)
        assert len(found) < len(every)


def simplest_within_a_standard_error(logs):
    """Independence, else the Gaussian copula, where the best beats it by at most one standard error; else the best."""
    best = max(logs, key=lambda name: np.mean(logs[name]))
    for simple in ("independent", "gaussian"):
        gaps = logs[best] - logs[simple]
        if np.mean(gaps) <= np.std(gaps) / np.sqrt(len(gaps)):
            return simple
    return best


@pytest.mark.parametrize("seed", range(5, 11))
@pytest.mark.parametrize("strength", [0.0, 0.1, 1.0])
def test_the_choice_is_the_likeliest_or_a_simple_candidate_within_a_standard_error(seed, strength):
    first, other = related_codes(400, seed=seed)
    shuffled = np.random.default_rng(seed).permutation(other)
    second = np.where(np.random.default_rng(1).random(400) < strength, other, shuffled)
    axes = [IntervalAxis("a", -1, np.arange(6) + 0.5), IntervalAxis("b", -1, np.arange(4) + 0.5)]
    density = bind_columns("auto", [first.astype(float), second.astype(float)], axes=axes)
    table = density.table((0, 1))
    pair = pair_of_codes(first, second, (7, 5), values=(np.arange(7.0), np.arange(5.0)))
    candidates = {c.name: c for c in listed(all_candidates(pair.alone))}
    logs = {name: np.log(c.left_out[first, second]) for name, c in candidates.items()}
    expected = simplest_within_a_standard_error(logs)
    choice = density.choices["a", "b"]
    assert choice.name == expected
    assert choice.likelihood == pytest.approx(np.mean(logs[expected]), abs=1e-12)
    assert choice.over_empirical == pytest.approx(np.mean(logs[expected] - logs["empirical"]))
    ratio = table / np.outer(table.sum(axis=1), table.sum(axis=0))
    np.testing.assert_allclose(ratio, candidates[expected].ratio, rtol=1e-8)


def test_independent_features_are_seldom_found_dependent():
    """A Gaussian copula is likelier by its own standard error when n r² / 2 > 3, nearly: two times of a hundred."""
    names = []
    for seed in range(60):
        columns = normals(0.0, 400, seed, order=2)
        density = bind_columns("auto", columns, (12, 9))
        density.table((0, 1))
        names.append(density.choices["a", "b"].name)
    assert names.count("independent") >= 54
