"""Rows beyond memory: `batches_of` tells whether data come in batches, and reads them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import scipy.sparse

from treeanova.data.batch import ROWS_PER_BATCH, Batch, Batches, Selection
from treeanova.data.dask_tables import DaskTable
from treeanova.data.parquet_files import dataset_files, parquet_files
from treeanova.data.spark_tables import SparkTable
from treeanova.data.streams import (
    OneShot,
    arrow_tables,
    duckdb_relation,
    frames_in_list,
    is_frame,
    lazy_frame,
    repeated_frames,
)

__all__ = ["ROWS_PER_BATCH", "Batch", "Batches", "Selection", "batches_of"]


def batches_of(X: Any) -> Batches | None:
    """The rows of user data in batches; None for None, and for a table or matrix in memory.

    Parameters
    ----------
    X
        A path, folder or pattern of Parquet files, or a list of them; a pyarrow Dataset, a DuckDB relation, a polars
        LazyFrame, a DataFrame or array of Dask, a DataFrame of Spark, anything with ``__arrow_c_stream__``, or an
        iterable of frames. A list of frames, and an object that makes a new iterator each time, can be read again; an
        iterator cannot.
    """
    if isinstance(X, Batches):
        return X
    if X is None or _is_in_memory(X):
        return None
    if isinstance(X, (str, os.PathLike)):
        return parquet_files(X)
    if isinstance(X, Sequence):
        return _of_list(X)
    return _of_library(X) or _of_iterable(X)


def _is_in_memory(X: Any) -> bool:
    return isinstance(X, (np.ndarray, Mapping)) or scipy.sparse.issparse(X) or nw.dependencies.is_into_dataframe(X)


def _of_list(X: Sequence[Any]) -> Batches | None:
    """Paths or frames in a list; None for a list of rows."""
    if X and all(isinstance(entry, (str, os.PathLike)) for entry in X):
        return parquet_files(X)
    return frames_in_list(X) if X and all(map(is_frame, X)) else None


_LIBRARIES: tuple[tuple[str, str, Callable[[Any], Batches]], ...] = (
    ("dask.dataframe", "DataFrame", DaskTable),
    ("dask.array", "Array", DaskTable),
    ("pyspark.sql", "DataFrame", SparkTable),
    ("polars", "LazyFrame", lazy_frame),
    ("duckdb", "DuckDBPyRelation", duckdb_relation),
    ("pyarrow.dataset", "Dataset", dataset_files),
)


def _of_library(X: Any) -> Batches | None:
    """The rows of an object of a data library that was imported, or of an Arrow stream."""
    for module, name, read in _LIBRARIES:
        owner = getattr(sys.modules.get(module), name, None)
        if owner is not None and isinstance(X, owner):
            return read(X)
    is_table = hasattr(X, "__arrow_c_stream__") and not hasattr(X, "__array__")  # a column has both
    return OneShot(arrow_tables(X)) if is_table else None


def _of_iterable(X: Any) -> Batches | None:
    if isinstance(X, Iterator):
        return OneShot(X)
    is_array = hasattr(X, "__array__") or hasattr(X, "__len__")
    return repeated_frames(X) if hasattr(X, "__iter__") and not is_array else None
