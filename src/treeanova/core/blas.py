"""BLAS limited to one thread: on a few hundred bins its threads cost more than they save, and change last digits."""

from __future__ import annotations

import contextlib
import functools
import importlib
from typing import Any

import threadpoolctl


@functools.cache
def _controller() -> threadpoolctl.ThreadpoolController:
    """The controller of BLAS threads, made when the libraries that numpy and scipy use are loaded."""
    importlib.import_module("scipy.linalg")
    return threadpoolctl.ThreadpoolController()


def single_threaded() -> contextlib.AbstractContextManager[Any]:
    """A context in which BLAS uses one thread."""
    limited: contextlib.AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limited
