"""Threads: calls in a pool of them, or in turn; BLAS with one of them."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import threadpoolctl

_WITHOUT_THREADS = ("emscripten", "wasi")  # such as Pyodide, Python in a browser


@contextlib.contextmanager
def thread_map(n_jobs: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """Give a `map` that runs in threads; with one job, and on platforms without threads, it is the usual one."""
    if n_jobs == 1 or sys.platform in _WITHOUT_THREADS:
        yield map
        return
    with ThreadPoolExecutor(n_jobs) as pool:
        yield pool.map


@functools.cache
def _controller() -> threadpoolctl.ThreadpoolController:
    """Return the controller of BLAS threads; it finds loaded libraries only, so scipy's is imported first."""
    importlib.import_module("scipy.linalg")
    return threadpoolctl.ThreadpoolController()


def single_threaded() -> contextlib.AbstractContextManager[Any]:  # a context in which BLAS uses one thread
    if sys.platform in _WITHOUT_THREADS:
        return contextlib.nullcontext()
    return _controller().limit(limits=1, user_api="blas")
