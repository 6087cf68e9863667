"""Explanations in Parquet files: those of explain() and of the model, whole or not at all, continued after a stop."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import treeanova
from treeanova.decomposition import parquet_rows
from treeanova.testing import example
from treeanova.testing.library_models import xgboost_model

RNG = np.random.default_rng(0)


def table(n_rows=60):
    columns = RNG.normal(size=(n_rows, 3)).round(2)
    return pd.DataFrame(columns, columns=["a", "b", "c"]).assign(id=[f"row {i}" for i in range(n_rows)])
