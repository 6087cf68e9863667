"""Kernels: loops over arrays that Numba compiles, for large jobs where it is installed.

Numba is optional (`pip install treeanova[fast]`). Every kernel has a counterpart in numpy that gives the same numbers
up to rounding, so that callers ask `is_worthwhile` first. Numba is imported by the first large job only, and compiled
code is kept in its cache on disk, where one can be written. With the environment variable TREEANOVA_NO_NUMBA set to 1,
Numba is not used.
"""

from __future__ import annotations

import functools
import importlib
import os
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np

_SECONDS_WORTH_LOADING = 1.0  # to import Numba and compiled code takes more than half of it, to compile two seconds
_ROWS_OF_A_JOB = 5_000
_CONTRACTED = {"contract"}  # a product and a sum in one instruction; no other freedom with rounding
_COMPILING = threading.RLock()
_NUMPY_COST = 4.0


@functools.cache
def has_numba() -> bool:
    """Whether Numba can be imported and is not switched off by TREEANOVA_NO_NUMBA.

    It may be absent, or refuse a version of numpy that is newer than itself.
    """
    if os.environ.get("TREEANOVA_NO_NUMBA") == "1":
        return False
    try:
        return hasattr(importlib.import_module("numba"), "njit")
    except ImportError:
        return False


def is_worthwhile(seconds: float) -> bool:
    """Whether a job that takes numpy about this long is faster with Numba, the time to load it included.

    The answer does not depend on what was loaded before: the same call gives the same digits at any time.
    """
    return seconds >= _SECONDS_WORTH_LOADING and has_numba()


def is_worthwhile_at_rows(seconds_per_row: float) -> bool:
    """Whether Numba evaluates a model at rows, of which numpy takes about this long for one.

    The size of the model decides, not the number of rows: a row has the same digits alone and among many.
    """
    return is_worthwhile(_ROWS_OF_A_JOB * seconds_per_row)


def affordable(steps: float) -> float:
    """Steps over leaves and rows that a job may take: those given where kernels are compiled, else a quarter."""
    return steps if has_numba() else steps / _NUMPY_COST


class Kernel:
    """A function over arrays and numbers that is compiled when it is first called.

    It calls only numpy and kernels of the same module, whose code the cache on disk keeps together. Called from Python
    it writes to no argument and returns new arrays; it holds no lock, so that threads run it at the same time.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled(*(_read_only(argument) for argument in arguments))

    @property
    def compiled(self) -> Callable[..., Any]:
        """The function as Numba compiles it, with the kernels that it calls."""
        with _COMPILING:
            return self._dispatcher

    @functools.cached_property
    def _dispatcher(self) -> Callable[..., Any]:
        numba = importlib.import_module("numba")
        scope = dict(self.function.__globals__)
        called = [name for name in self.function.__code__.co_names if isinstance(scope.get(name), Kernel)]
        scope |= {name: scope[name].compiled for name in called}
        function = types.FunctionType(self.function.__code__, scope, self.function.__name__)
        compile_with = functools.partial(numba.njit, nogil=True, fastmath=_CONTRACTED)
        dispatcher: Callable[..., Any]
        try:
            dispatcher = compile_with(cache=True)(function)
        except RuntimeError:  # no folder for the cache can be written to, as in many containers
            dispatcher = compile_with()(function)
        return dispatcher


def _read_only(argument: Any) -> Any:
    """Contiguous arrays that are not written to: Numba compiles once for each kind of its arguments."""
    if hasattr(argument, "_fields"):
        return type(argument)(*map(_read_only, argument))
    if not isinstance(argument, np.ndarray):
        return argument
    array = np.ascontiguousarray(argument).view()
    array.setflags(write=False)
    return array
