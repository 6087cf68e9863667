from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

# One thread per worker: tests run in parallel already, and the model libraries bring several OpenMP runtimes.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
# Workers, and processes that tests start, need not compile all sources again.
os.environ["PYTHONDONTWRITEBYTECODE"] = ""

from hypothesis import settings  # noqa: E402  after the variables are set

settings.register_profile("quick", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


import numpy as np  # noqa: E402  after the variables are set
import pytest  # noqa: E402

from tests.support.training import shifted_seed  # noqa: E402


def full_data_folder():
    """Folder of the full tables, where the studies look for them too; it may not be on this machine."""
    return Path(os.environ.get("TREEANOVA_DATA") or Path(__file__).parents[2] / "shared" / "data")


def _data_sources():
    """Simulated tables, and the full ones where these are on the machine."""
    from tests.support.datasets import SIMULATED

    has_all = all((full_data_folder() / name).is_file() for name in SIMULATED)
    return ["simulated", "full"] if has_all else ["simulated"]


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Modules and tests stay until the end: the garbage collector need not visit them while they are made."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(items):
    if os.environ.get("TREEANOVA_THOROUGH"):
        return
    for item in items:
        if item.get_closest_marker("thorough"):
            item.add_marker(pytest.mark.skip(reason="takes many seconds: set TREEANOVA_THOROUGH=1"))


def pytest_generate_tests(metafunc):
    if "data_folder" in metafunc.fixturenames:
        pytest.importorskip("pandas")
        metafunc.parametrize("data_folder", _data_sources(), indirect=True, scope="session")


@pytest.fixture(scope="session")
def data_folder(request, tmp_path_factory):
    """Folder of public tables, such as adult.csv.gz: of simulated ones, or of the full ones."""
    if request.param == "full":
        return full_data_folder()
    from tests.support.datasets import write_simulated

    folder = tmp_path_factory.mktemp("tables")
    write_simulated(folder)
    return folder


@pytest.fixture(scope="session")
def is_full(data_folder):
    """Whether the tables are the full ones, of which facts are known."""
    return data_folder == full_data_folder()


@pytest.fixture
def _budget_of_tables(monkeypatch):
    """Budgets are for tables alone, so that bins of small models are merged, too."""
    from treeanova.terms import costs

    for kind in ("PER_ENTRY", "PER_LEAF", "PER_KEY", "PER_COEFFICIENT", "PER_CORRECTED", "OF_DENSITY"):
        monkeypatch.setattr(costs, f"BYTES_{kind}", 0)


@pytest.fixture(autouse=True)
def _same_draws_in_each_run():
    """scikit-learn's models without a random state take numpy's global one."""
    np.random.seed(shifted_seed(0))  # noqa: NPY002  this one is meant


@pytest.fixture(autouse=True)
def _same_style_after_each_test():
    """Figures of the studies have a style of their own, which later tests and examples must not see."""
    yield
    matplotlib = sys.modules.get("matplotlib")
    if matplotlib and not dict.__eq__(matplotlib.rcParams, matplotlib.rcParamsDefault):
        matplotlib.rcdefaults()
