"""Explanations of any number of rows as a Parquet file: written batch by batch, completely or not at all, resumable.

Each batch becomes a file of its own, whose name has a digest of everything that it follows from: the decomposition, the
terms, and the content of the rows. A second call computes the digests again and leaves out the batches that are there.
In the end the parts are copied to one file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import itertools
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from treeanova.core.arrays import Floats
from treeanova.core.files import PARQUET, check_suffix, only_writer, replacing
from treeanova.core.progress import Progress, reporting
from treeanova.data.batches import Batch, Batches, Selection, batches_of
from treeanova.data.frames import free_name
from treeanova.data.streams import frames_in_list, some_rows
from treeanova.decomposition.explanation import Explanation

_STAGE = "explaining rows"
_BLOCK_BYTES = 1 << 26
_FEWEST_ROWS = 4096
_LAYOUT = 1  # a new number where the columns of parts change


def digest_of(*content: Any) -> str:
    """A digest of plain data."""
    return hashlib.sha256(json.dumps([_LAYOUT, *content]).encode()).hexdigest()


@dataclasses.dataclass(frozen=True)
class Job:
    """What to write.

    Attributes
    ----------
    explain
        The explanation of some rows.
    selection
        Columns of the rows.
    digest
        Of the decomposition and all options.
    n_columns
        Number of columns, about.
    """

    explain: Callable[[Any], Explanation]
    selection: Selection
    digest: str
    n_columns: int

    def write(self, path: str | os.PathLike[str], X: Any, progress: Progress) -> None:
        """Write the explanation of all rows; see `Function.explain_to`."""
        target = pathlib.Path(path)
        check_suffix(target, PARQUET)
        _check_target(target)
        whole = as_batches(X)
        if whole.reads(target):
            raise ValueError(
                f"`path` must be a file that is not read as part of `X`, got {str(target)!r}; choose another name or "
                "folder."
            )
        batches = whole.reading(dataclasses.replace(self.selection, drop=whole.selection.drop))
        folder = target.with_name(f"{target.name}.parts")
        with only_writer(folder, path):
            parts = list(self._parts(folder, batches, progress))
            if not parts:
                folder.rmdir()
                raise ValueError("`X` must have at least one row, got 0 rows; pass the rows to explain.")
            _join(parts, target)
            shutil.rmtree(folder)

    def _parts(self, folder: pathlib.Path, batches: Batches, progress: Progress) -> Iterator[pathlib.Path]:
        """The file of each batch; those that are there already are not written again."""
        total, n_done = batches.n_rows or 1, 0
        progress(_STAGE, 0, total)
        schema = None
        for number, batch in enumerate(batches):
            part = folder / f"{number:06d}-{self._digest(batch)}.parquet"
            schema = self._write_part(part, batch, schema)
            yield part
            n_done += batch.n_rows
            if batches.n_rows is not None:
                progress(_STAGE, min(n_done, total - 1), total)
        progress(_STAGE, total, total)

    def _digest(self, batch: Batch) -> str:
        """A digest of everything that the explanation of a batch follows from."""
        digest = hashlib.sha256(self.digest.encode())
        digest.update(np.ascontiguousarray(batch.encoded(self.selection.schema).T))  # type: ignore[arg-type]
        if batch.kept is not None:
            digest.update(_arrow_bytes(_as_arrow(batch.kept)))
        return digest.hexdigest()

    def _write_part(self, part: pathlib.Path, batch: Batch, schema: Any) -> Any:
        """Write the explanation of a batch, unless it is there; its types, which are those of the batches before."""
        parquet = importlib.import_module("pyarrow.parquet")
        if part.is_file():
            return parquet.read_schema(part)
        tables = (_cast(table, schema, batch.source) for table in self._tables(batch))
        first = next(tables)
        with replacing(part) as file, parquet.ParquetWriter(file, first.schema) as writer:
            for table in itertools.chain([first], tables):
                writer.write_table(table)
        return first.schema

    def _tables(self, batch: Batch) -> Iterator[Any]:
        """The explanation of a batch, in blocks that do not take much memory, however many terms there are."""
        n_rows = max(_FEWEST_ROWS, _BLOCK_BYTES // (8 * self.n_columns))
        for start in range(0, batch.n_rows, n_rows):
            stop = min(start + n_rows, batch.n_rows)
            kept = None if batch.kept is None else some_rows(batch.kept, start, stop)
            with reporting(None):  # progress counts rows, not the steps of a batch
                explained = self.explain(some_rows(batch.table, start, stop))
            yield _table(explained, kept)


def _check_target(target: pathlib.Path) -> None:
    try:
        importlib.import_module("pyarrow")
    except ImportError as error:
        raise ImportError("writing Parquet files needs pyarrow; pip install treeanova[parquet].") from error
    if target.is_dir() or not target.parent.is_dir():
        raise ValueError(f"`path` must be a file in a folder that exists, got {str(target)!r}; choose another name.")


def as_batches(X: Any) -> Batches:
    """Rows in batches, also those of a table or matrix in memory."""
    batches = batches_of(X)
    if batches is not None:
        return batches
    return frames_in_list([X if hasattr(X, "shape") else np.asarray(X)])


def _table(explained: Explanation, kept: Any) -> Any:
    """Columns of terms, intercept and score, and those that are kept."""
    pyarrow = importlib.import_module("pyarrow")
    columns: dict[str, Floats] = columns_of(explained)
    arrays = {name: pyarrow.array(np.ascontiguousarray(values)) for name, values in columns.items()}
    if kept is not None:
        table = _as_arrow(kept)
        for name in table.column_names:
            arrays[free_name(name, arrays)] = table[name]
    return pyarrow.table(arrays)


def columns_of(explained: Explanation) -> dict[str, Floats]:
    """Values of all parts of the score, by label, then intercept and score; of each output where there are several."""
    parts = dict(explained.parts)
    scores = explained.scores
    parts[free_name("intercept", parts)] = np.broadcast_to(explained.intercept, scores.shape)
    parts[free_name("score", parts)] = scores
    if scores.ndim == 1:
        return parts
    outputs = list(enumerate(explained.outputs))
    return {f"{name} [{output}]": values[:, k] for name, values in parts.items() for k, output in outputs}


def _as_arrow(table: Any) -> Any:
    return nw.from_native(table, eager_only=True).to_arrow()


def _arrow_bytes(table: Any) -> Any:
    """The content of an Arrow table."""
    pyarrow = importlib.import_module("pyarrow")
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue()


def _cast(table: Any, schema: Any, source: str) -> Any:
    pyarrow = importlib.import_module("pyarrow")
    if schema is None or table.schema == schema:
        return table
    try:
        return table.cast(schema)
    except (ValueError, pyarrow.ArrowException) as error:
        raise TypeError(
            f"{source}: columns to keep must have the same types in all of `X`, got {table.schema.types} after "
            f"{schema.types}; convert them."
        ) from error


def _join(parts: Sequence[pathlib.Path], target: pathlib.Path) -> None:
    """Copy parts to one file, which replaces an existing one when it is complete."""
    parquet = importlib.import_module("pyarrow.parquet")
    with replacing(target) as file, parquet.ParquetWriter(file, parquet.read_schema(parts[0])) as writer:
        for part in parts:
            with parquet.ParquetFile(part) as content:
                for group in range(content.num_row_groups):
                    writer.write_table(content.read_row_group(group))
