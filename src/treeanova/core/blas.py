"""BLAS limited to one thread while our workers run: on a few hundred bins its threads cost more than they save."""

from __future__ import annotations

import contextlib
import functools
import importlib
from typing import Any


@functools.cache
def _controller() -> Any:
    """The controller of BLAS threads, or None without threadpoolctl, which scikit-learn installs."""
    try:
        return importlib.import_module("threadpoolctl").ThreadpoolController()
    except ImportError:
        return None


def single_threaded() -> contextlib.AbstractContextManager[Any]:
    """A context in which BLAS uses one thread; without threadpoolctl it changes nothing."""
    controller = _controller()
    if controller is None:
        return contextlib.nullcontext()
    limited: contextlib.AbstractContextManager[Any] = controller.limit(limits=1, user_api="blas")
    return limited
