"""Kernels: when they are used, and what they may be given."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from treeanova.core import compiled
from treeanova.core.compiled import Kernel, has_numba, is_worthwhile, is_worthwhile_at_rows

needs_numba = pytest.mark.skipif(not has_numba(), reason="Numba is not installed")


@Kernel
def squared(value):
    return value * value


@Kernel
def sum_of_squares(values):
    total = 0.0
    for value in values:
        total += squared(value)
    return total


def test_small_jobs_do_not_use_numba(monkeypatch):
    monkeypatch.setattr(compiled, "has_numba", lambda: True)
    assert not is_worthwhile(0.1)
    assert is_worthwhile(10.0)


def test_without_numba_no_job_uses_it(monkeypatch):
    monkeypatch.setattr(compiled, "has_numba", lambda: False)
    assert not is_worthwhile(1e6)


@pytest.mark.parametrize("broken", ["raise ImportError('Numba needs NumPy 2.4 or less')", "pass"])
def test_a_numba_that_cannot_be_used_counts_as_absent(tmp_path, broken):
    (tmp_path / "numba.py").write_text(broken, encoding="utf-8")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from treeanova.core.compiled import is_worthwhile;"
        "print(is_worthwhile(9.0))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "False"


@needs_numba
@pytest.mark.parametrize(("value", "expected"), [("1", "False"), ("", "True")])
def test_the_environment_switches_numba_off(monkeypatch, value, expected):
    monkeypatch.setenv("TREEANOVA_NO_NUMBA", value)
    code = "from treeanova.core.compiled import is_worthwhile; print(is_worthwhile(9.0))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == expected


def test_a_kernel_keeps_its_function_and_name():
    assert sum_of_squares.__name__ == "sum_of_squares"
    assert squared.function(3) == 9


@needs_numba
def test_kernels_call_each_other_and_take_any_layout():
    values = np.arange(8.0)
    read_only = values.copy()
    read_only.setflags(write=False)
    assert sum_of_squares(values) == sum_of_squares(read_only) == 140
    assert sum_of_squares(values[::2]) == 0 + 4 + 16 + 36
    assert len(sum_of_squares.compiled.signatures) == 1


@needs_numba
def test_small_jobs_do_not_import_numba():
    code = (
        "import sys, numpy, treeanova; from treeanova.core.compiled import is_worthwhile;"
        "from tests.support.closed_forms import random_closed_form;"
        "form, codes, _ = random_closed_form(0); form.at_rows(codes, form.leaf_sets.subsets([1]));"
        "is_worthwhile(0.5); print('numba' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "False"


@pytest.mark.skipif(not has_numba(), reason="Numba is not installed")
def test_kernels_at_rows_are_for_large_models():
    assert not is_worthwhile_at_rows(1e-6)
    assert is_worthwhile_at_rows(1e-2)


@pytest.mark.skipif(not has_numba(), reason="Numba is not installed")
def test_kernels_run_where_no_cache_can_be_written(monkeypatch):
    caching = pytest.importorskip("numba.core.caching")
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    kernel = Kernel(_add_one)
    np.testing.assert_array_equal(kernel(np.arange(3.0)), [1, 2, 3])


def _add_one(values):
    return values + 1
