from __future__ import annotations

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("xgboost")
pytest.importorskip("lightgbm")
pytest.importorskip("catboost")
pytest.importorskip("interpret")
threadpoolctl = pytest.importorskip("threadpoolctl")


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Tests run in parallel already."""
    with threadpoolctl.threadpool_limits(1):
        yield
