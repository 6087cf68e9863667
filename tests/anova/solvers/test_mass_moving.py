"""The paper's algorithm: its trace, its stopping rule, and where its theorems hold."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from treeanova import purify
from treeanova.testing import correlated_weights


def test_theorem_1_uniform_weights_need_one_sweep():
    trace = purify(np.random.default_rng(0).normal(size=(30, 20)), np.ones((30, 20)), method="mass-moving").trace
    assert trace[0] > 0.1
    assert (trace[2:] < 1e-14).all()


def test_theorem_2_fails_where_features_are_correlated():
    weights = [[1, 0.01], [0.01, 1]]
    pure = purify([[1, 0], [0, 0]], weights, method="mass-moving", tol=1e-10)
    promised = np.log2(pure.trace[0] / 1e-10)
    assert len(pure.trace) - 1 > 10 * promised
    ratio = pure.trace[201] / pure.trace[199]  # one double pass
    assert ratio == pytest.approx(pure.certificate.max_correlation**2, rel=1e-6)


def test_trace_is_the_unpurified_mass():
    rng = np.random.default_rng(1)
    scores, weights = rng.normal(size=(4, 3)), rng.random((4, 3))
    trace = purify(scores, weights, method="mass-moving").trace
    share = weights / weights.sum()
    rows, columns = share.sum(axis=1), share.sum(axis=0)
    first = np.abs((share * scores).sum(axis=1)).sum() + np.abs((share * scores).sum(axis=0)).sum()
    assert trace[0] == pytest.approx(first)
    moved = scores - (share * scores).sum(axis=0) / columns
    assert trace[1] == pytest.approx(np.abs((share * moved).sum(axis=1)).sum())
    assert rows.sum() == pytest.approx(1)


def test_trace_has_a_column_per_output():
    scores = np.random.default_rng(0).normal(size=(4, 3, 2))
    assert purify(scores, np.ones((4, 3)), method="mass-moving").trace.shape[1] == 2
    assert purify(scores, np.ones((4, 3))).trace is None


def test_sweeps_stop_at_the_tolerance():
    weights, scores = correlated_weights((20, 20), 0.95), np.random.default_rng(0).normal(size=(20, 20))
    loose, tight = (purify(scores, weights, method="mass-moving", tol=tol) for tol in (1e-3, 1e-9))
    assert loose.certificate.iterations < tight.certificate.iterations
    assert tight.certificate.impurity <= 1e-9 < loose.certificate.impurity <= 1e-3


def test_the_correlation_of_higher_orders_is_the_decay_per_sweep():
    weights = correlated_weights((4, 4, 4), 0.4)
    scores = np.random.default_rng(0).normal(size=(4, 4, 4))
    pure = purify(scores, weights, method="mass-moving", tol=1e-8)
    ends = pure.trace[::3]
    expected = np.sqrt(ends[-1] / ends[-2])
    assert pure.certificate.terms[0, 1, 2].max_correlation == pytest.approx(expected, rel=1e-6)


def by_algorithm_2(tensors, weights, n_sweeps):
    """Traces of the paper's Algorithm 2, by loops over slices: moves means down, highest orders first."""
    tensors, traces = dict(tensors), {}
    for key in sorted((key for key in tensors if key), key=len, reverse=True):
        own = weights.sum(axis=tuple(j for j in range(weights.ndim) if j not in key))
        traces[key] = []
        for _ in range(n_sweeps):
            for axis in range(len(key)):
                traces[key].append(sum(np.abs((own * tensors[key]).sum(axis=k)).sum() for k in range(len(key))))
                mean = (own * tensors[key]).sum(axis=axis) / own.sum(axis=axis)
                tensors[key] = tensors[key] - np.expand_dims(mean, axis)
                below = key[:axis] + key[axis + 1 :]
                tensors[below] = tensors[below] + mean
    return traces


def test_every_table_of_a_set_has_the_trace_of_algorithm_2(tmp_path):
    rng = np.random.default_rng(3)
    shape, names = (3, 4, 2), ("a", "b", "c")
    keys = [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    tensors = {key: rng.normal(size=[shape[j] for j in key]) for key in keys}
    weights = rng.random(shape)
    tables = {tuple(names[j] for j in key): tensor for key, tensor in tensors.items() if key}
    effects = treeanova.model.Effects.from_tables(tables, intercept=float(tensors[()]))
    fx = treeanova.decompose(effects, density=weights, method="mass-moving")
    expected = by_algorithm_2(tensors, weights / weights.sum(), 200)
    fx.save(tmp_path / "fx.tav")
    for found in (fx, treeanova.load(tmp_path / "fx.tav")):
        for key, trace in expected.items():
            measured = found.certificate.terms[tuple(names[j] for j in key)].trace
            n = min(len(measured), 6)
            np.testing.assert_allclose(measured[:n], trace[:n], rtol=1e-9, atol=1e-12)
    assert all(term.trace == () for term in treeanova.decompose(effects, density=weights).certificate.terms.values())
