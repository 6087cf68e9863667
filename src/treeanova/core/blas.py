"""One thread for BLAS while our own threads work: on some hundred bins, its threads cost more than they give."""

from __future__ import annotations

import contextlib
import functools
import importlib
from typing import Any


@functools.cache
def _controller() -> Any:
    """What can set the threads of the BLAS libraries loaded, or None without threadpoolctl (scikit-learn brings it)."""
    try:
        return importlib.import_module("threadpoolctl").ThreadpoolController()
    except ImportError:
        return None


def single_threaded() -> contextlib.AbstractContextManager[Any]:
    """A context in which BLAS uses one thread, where this can be set."""
    controller = _controller()
    if controller is None:
        return contextlib.nullcontext()
    limited: contextlib.AbstractContextManager[Any] = controller.limit(limits=1, user_api="blas")
    return limited
