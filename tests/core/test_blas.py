"""BLAS has one thread, and its former number of threads afterwards."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import threadpoolctl

from treeanova.core import arrays as blas


@pytest.fixture
def fresh():
    blas._controller.cache_clear()
    yield
    blas._controller.cache_clear()


def n_threads():
    return {library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"}


def test_one_thread_inside_and_the_former_number_afterwards(fresh):
    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = n_threads()
        with blas.single_threaded():
            assert n_threads() == {1}
        assert n_threads() == before


def test_libraries_that_scipy_loads_later_have_one_thread_too():
    script = """
from treeanova.core.arrays import single_threaded
with single_threaded():
    pass
import scipy.linalg, threadpoolctl
with single_threaded():
    found = threadpoolctl.threadpool_info()
assert {one["num_threads"] for one in found if one["user_api"] == "blas"} == {1}, found
"""
    environment = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)
