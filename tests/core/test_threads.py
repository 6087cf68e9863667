"""BLAS has one thread and its former number afterwards; none is started for one job, nor where there are none."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.linalg
import threadpoolctl

from treeanova.core import threads


@pytest.fixture
def fresh():
    threads._controller.cache_clear()
    yield
    threads._controller.cache_clear()


def n_threads():
    return {library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"}


def test_one_thread_inside_and_the_former_number_afterwards(fresh):
    scipy.linalg.inv(np.ones((2, 2)) + np.eye(2))  # numpy and scipy each bring a BLAS
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = n_threads()
        with threads.single_threaded():
            assert n_threads() == {1}
        assert n_threads() == before


def test_libraries_that_scipy_loads_later_have_one_thread_too():
    script = """
from treeanova.core.threads import single_threaded
with single_threaded():
    pass
import scipy.linalg, threadpoolctl
with single_threaded():
    found = threadpoolctl.threadpool_info()
assert {one["num_threads"] for one in found if one["user_api"] == "blas"} == {1}, found
"""
    environment = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


# Trees of which all terms have tables, and deep ones of which only low orders have.
_ANSWERS = """
import _posixsubprocess, _thread, importlib, multiprocessing, os, sys, threading
import numpy as np
import treeanova, treeanova.plot
from tests.support.forests import random_forest
from treeanova.core import compiled
from treeanova.data.features import Feature
from treeanova.storage import saved

for name in ("matplotlib.pyplot", "matplotlib.font_manager", "vl_convert", "pandas"):  # whatever these do on import
    try:
        importlib.import_module(name)
    except ImportError:
        pass

compiled._SECONDS_WORTH_LOADING = 0.0  # every kernel is compiled if Numba may be used
saved._LEAST_CELLS = 0  # weights are packed

def refuse(*_, **__):
    raise AssertionError("something was started")

starters = {
    _thread: ["start_new_thread"], threading: ["_start_new_thread", "_start_joinable_thread"],
    threading.Thread: ["start"], os: ["fork", "posix_spawn"], _posixsubprocess: ["fork_exec"],
    multiprocessing: ["RLock"],  # starts a process where none is forked
}
for owner, names in starters.items():
    for name in names:
        if hasattr(owner, name):
            setattr(owner, name, refuse)

platform, options, folder = sys.argv[1], eval(sys.argv[2]), sys.argv[3]
sys.platform = platform or sys.platform

def terms_add_up(fx, X):
    explained = fx.explain(X)
    score = fx.decision_function(X)
    shares = explained.shap_values()
    assert np.allclose(shares.sum(axis=1) + fx.intercept, score), "shares"
    assert np.isfinite(np.asarray(fx.importance()["variance"])).all()
    path = os.path.join(folder, "saved.tav")
    fx.save(path)
    assert np.array_equal(treeanova.load(path).decision_function(X), score)

rng = np.random.default_rng(0)
features = [Feature(f"x{j}", accepts_missing=False) for j in range(5)]
bounds = tuple(np.linspace(-2, 2, 101))
X = rng.normal(size=(3000, 5)) + rng.normal(size=(3000, 1))
for depth in (2, 5):
    forest = random_forest(rng, max_depth=depth, max_trees=60, n_outputs=1, features=features, bounds=bounds)
    for density in ("auto", "empirical", "kernel", "independent"):
        fx = treeanova.decompose(forest, X, density=density, tensor_order=2, progress=True, **options)
        terms_add_up(fx, X[:300])
    if depth == 2:
        dense = fx
y = dense.decision_function(X) + rng.normal(size=len(X))
assert dense.simplify(X[:500], y[:500], loss="squared").path is not None
dense.validate(X[:500], y[:500], loss="squared")
code = treeanova.export.python(dense)
assert treeanova.export.verify(code, X[:50]).largest_difference < 1e-9
treeanova.export.sql(dense, dialect="duckdb"), treeanova.export.javascript(dense)
if "matplotlib.pyplot" in sys.modules:
    sys.modules["matplotlib.pyplot"].switch_backend("agg")
    for draw in (treeanova.plot.importance, treeanova.plot.grid):
        draw(dense)
    treeanova.plot.effect(dense, "x0")
    treeanova.plot.waterfall(dense, X[:1])
if "vl_convert" in sys.modules:
    treeanova.write_report(dense, os.path.join(folder, "report.html"))
print("answered")
"""


@pytest.mark.parametrize(
    ("platform", "options", "is_compiled"),
    [
        ("", {"n_jobs": 1}, False),
        ("emscripten", {}, False),
        pytest.param("", {"n_jobs": 1}, True, marks=pytest.mark.thorough),
    ],
)
def test_nothing_is_started_for_one_job_or_where_nothing_can_be(platform, options, is_compiled, tmp_path):
    if is_compiled:
        pytest.importorskip("numba")
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path), "TREEANOVA_NO_NUMBA": "" if is_compiled else "1"}
    command = [sys.executable, "-c", _ANSWERS, platform, repr(options), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert run.stdout.strip() == "answered", run.stderr[-3000:]
