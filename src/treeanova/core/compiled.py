"""Kernels: loops over arrays that Numba compiles, used for large jobs only.

Numba is optional (`pip install numba`). Every kernel has a numpy counterpart that gives the same numbers up
to rounding; callers ask `is_worthwhile` first. Numba is imported by the first large job, and caches compiled code on
disk if it can. TREEANOVA_NO_NUMBA=1 switches it off.
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

_SECONDS_WORTH_LOADING = 1.0  # to import Numba and compiled code takes half of it; to compile, once, some seconds
_ROWS_OF_A_JOB = 5_000  # that a model is assumed to be evaluated at
_CONTRACTED = {"contract"}  # a product and a sum in one instruction; no other freedom with rounding
_COMPILING = threading.RLock()
_NUMPY_COST = 4.0  # of a step, relative to compiled code


@functools.cache
def has_numba() -> bool:
    """Whether Numba can be used: it may be absent, switched off, or refuse a newer numpy."""
    if os.environ.get("TREEANOVA_NO_NUMBA") == "1":
        return False
    try:
        return hasattr(importlib.import_module("numba"), "njit")
    except ImportError:
        return False


def is_worthwhile(seconds: float) -> bool:
    """Whether Numba, with its loading time, beats numpy for a job that takes numpy so many seconds."""
    return seconds >= _SECONDS_WORTH_LOADING and has_numba()  # even if it is loaded: digits must not depend on that


def is_worthwhile_at_rows(seconds_per_row: float) -> bool:
    """Whether to evaluate a model with Numba, whatever the number of rows: a row always has the same digits."""
    return is_worthwhile(_ROWS_OF_A_JOB * seconds_per_row)


def affordable(steps: float) -> float:
    """Return how many steps over leaves and rows a job may take: those given, or a quarter of them without Numba."""
    return steps if has_numba() else steps / _NUMPY_COST


class Kernel:
    """A function over arrays and numbers that is compiled on its first call.

    It may call only numpy and kernels of the same module, because the disk cache keeps these together. Called from
    Python, it changes no argument and returns new arrays. It releases the GIL.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled(*(_read_only(argument) for argument in arguments))

    @property
    def compiled(self) -> Callable[..., Any]:  # on first use, by one thread at a time
        with _COMPILING:
            return self._dispatcher

    @functools.cached_property
    def _dispatcher(self) -> Callable[..., Any]:
        """Numba's form of the function."""
        function = self._with_compiled_kernels()
        compile_with = functools.partial(importlib.import_module("numba").njit, nogil=True, fastmath=_CONTRACTED)
        try:
            return compile_with(cache=True)(function)
        except RuntimeError:  # no folder for the cache can be written to, as in many containers
            return compile_with()(function)

    @functools.cached_property
    def _inlined(self) -> Callable[..., Any]:
        """Numba's form of the function within kernels that call it: calls that pass arrays cost as much as 100 rows."""
        return importlib.import_module("numba").njit(inline="always")(self._with_compiled_kernels())

    def _with_compiled_kernels(self) -> Callable[..., Any]:
        """Return the function with Numba's forms of the kernels that it calls."""
        scope = dict(self.function.__globals__)
        called = [name for name in self.function.__code__.co_names if isinstance(scope.get(name), Kernel)]
        scope |= {name: scope[name]._inlined for name in called}  # noqa: SLF001
        return types.FunctionType(self.function.__code__, scope, self.function.__name__)


def _read_only(argument: Any) -> Any:
    """Return contiguous read-only arrays: Numba compiles once per kind of argument."""
    if hasattr(argument, "_fields"):
        return type(argument)(*map(_read_only, argument))
    if not isinstance(argument, np.ndarray):
        return argument
    array = np.ascontiguousarray(argument).view()
    array.setflags(write=False)
    return array
