"""BLAS has one thread where it can be limited, and its former number of threads afterwards."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from treeanova.core import blas

threadpoolctl = pytest.importorskip("threadpoolctl")


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


def test_without_threadpoolctl_nothing_changes(fresh, monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    before = n_threads()
    with blas.single_threaded():
        assert n_threads() == before
