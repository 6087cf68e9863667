"""Explanation: the value of every term at every row, in memory or in a Parquet file.

Each batch becomes a file whose name has a digest of all inputs (decomposition, terms, content of the rows) and one of
its bytes. A second call skips the batches with undamaged files. At the end the parts are copied to one file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import itertools
import json
import math
import os
import pathlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import scipy.sparse

from treeanova.core.arrays import Floats, labels_of
from treeanova.core.files import PARQUET, check_suffix, only_writer, replacing
from treeanova.core.progress import Progress, reporting
from treeanova.data.columns import frame, free_name, printable, table_text
from treeanova.data.sources import Batch, Batches, Selection, batches_of
from treeanova.data.streams import frames_in_list, some_rows
from treeanova.decomposition.function import Deferred, label_of_unlisted
from treeanova.decomposition.importance import families_of, sum_slices
from treeanova.decomposition.result import Result, aligned_rows, rows_of_output
from treeanova.views import rows_words


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Explanation(Result):
    """Values of terms at rows; with the intercept they add up to the score. Print it for the reasons of one row.

    Attributes
    ----------
    values
        Shape (n_rows, n_terms), with a last axis of outputs if there are several.
    terms
        Names of the features of each term.
    intercept
        The mean score under the density, or the score of the reference; see `baseline`. A float, or shape (n_outputs,).
    features, outputs
        Names of all features and outputs of the model.
    remainder
        The score minus intercept and terms, shape (n_rows,) or (n_rows, n_outputs); None if zero.
    others
        Sums of unlisted terms by order, shape (n_rows,) or (n_rows, n_outputs).
    backend
        Name of the data frame library for tables.
    data
        The rows as they were passed to `explain`.
    other_shares
        Shares of features in `others`, in the shape of `shap_values`; computed on first use.
    baseline
        What the intercept is, in words: "average", "score of the reference" or "mean score of 20 references".
    scale
        What scores are, in words, such as "log-odds of yes".

    Examples
    --------
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> explained = fx.explain(X)
    >>> explained
    Explanation of 4 rows by 3 terms; to_frame() shows it
    >>> explained.values[3].tolist(), explained.intercept
    ([0.25, 0.25, 0.25], 0.25)
    """

    values: Floats
    terms: tuple[tuple[str, ...], ...]
    intercept: float | Floats
    features: tuple[str, ...]
    outputs: tuple[str, ...]
    remainder: Floats | None = None
    others: Mapping[int, Floats] = dataclasses.field(default_factory=dict)
    backend: str | None = None
    data: Any = None
    other_shares: Deferred | None = None
    baseline: str = "average"
    scale: str = "score"

    def __repr__(self) -> str:
        unlisted = ", all other terms added up by order" if self.others else ""
        unlisted += ", and a remainder" if self.remainder is not None else ""
        outputs = f" and {len(self.outputs)} outputs" if len(self.outputs) > 1 else ""
        against = "" if self.baseline == "average" else f", against the {self.baseline}"
        size = f"{rows_words(len(self.values))} by {len(self.terms):,} terms"
        return f"Explanation of {size}{outputs}{unlisted}{against}; to_frame() shows it"

    def _content_of_dict(self) -> dict[str, Any]:
        components = {label: values.reshape(len(values), -1) for label, values in self.parts.items()}
        scores = self.scores.reshape(len(self.values), -1)
        rows = [{"score": scores[i], "terms": self._reasons_of_row(components, i)} for i in range(len(scores))]
        content = {"scale": self.scale, "outputs": list(self.outputs), "baseline": self.baseline}
        return content | {"intercept": np.atleast_1d(self.intercept), "rows": rows}

    def _reasons_of_row(self, components: Mapping[str, Floats], row: int) -> list[dict[str, Any]]:
        """Return records of term, output and value of all components at the row of a position, the largest first."""
        return [
            {"term": label, **({"output": output} if len(self.outputs) > 1 else {}), "value": float(values[row, k])}
            for k, output in enumerate(self.outputs)
            for label, values in sorted(components.items(), key=lambda item: -abs(float(item[1][row, k])))
        ]

    def _text_of_top(self, top: int) -> str:
        if len(self.values) != 1:
            return f"{self!r}\n{table_text(self.to_frame())}"
        content = self._content_of_dict()
        [row] = content["rows"]
        blocks = []
        for k, output in enumerate(self.outputs):
            prefix = f"{output}: " if len(self.outputs) > 1 else ""
            head = f"{prefix}{self.scale} {row['score'][k]:.4g}, {self.baseline} {content['intercept'][k]:.4g}"
            blocks.append(f"{printable(head)}\n\n{_reason_lines(rows_of_output(row['terms'], output), top)}")
        return "\n\n".join(blocks)

    @property
    def scores(self) -> Floats:
        """The score of each row: intercept plus all terms plus the remainder."""
        total: Floats = self.values.sum(axis=1) + self.intercept + sum(self.others.values())
        return total if self.remainder is None else total + self.remainder

    @property
    def parts(self) -> dict[str, Floats]:
        """Values of each term by its label, such as ``Latitude × Longitude``; a remainder comes last."""
        labels = labels_of(self.terms, self.features)
        columns: dict[str, Floats] = {label: self.values[:, i] for i, label in enumerate(labels)}
        for order, values in self.others.items():
            columns[free_name(label_of_unlisted(order), columns)] = values
        if self.remainder is not None:
            columns[free_name("remainder", columns)] = self.remainder
        return columns

    @property
    def values_beyond_terms(self) -> dict[str, Floats]:
        """Values by label of what is not a listed term: other terms of each order, then a remainder."""
        return dict(list(self.parts.items())[len(self.terms) :])

    def to_frame(self) -> Any:
        """Return a table with a row per row of X and a column per term, named like ``Latitude × Longitude``.

        Returns
        -------
        data frame
            In the library of X (pandas, polars, pyarrow), or a dict of columns if that is not installed.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> list(fx.explain(X).to_frame())
        ['x0', 'x1', 'x0 × x1']
        """
        columns = self.parts
        if self.values.ndim > 2:
            columns = {
                f"{name} [{output}]": values[:, k]
                for name, values in self.parts.items()
                for k, output in enumerate(self.outputs)
            }
        table = frame(columns, self.backend)
        if nw.dependencies.is_pandas_dataframe(self.data) and nw.dependencies.is_pandas_dataframe(table):
            table.index = self.data.index
        return table

    def shap_values(self, *, leave_remainder: bool = False) -> Floats:
        """Share each term equally among its features, and return values per feature.

        If features are independent under the density, these are Shapley values with the density as background; against
        references, interventional Shapley values with the references as background. With the intercept, they add up to
        the score. Terms in `others` are shared exactly: the first call takes about as long as `explain`.

        Parameters
        ----------
        leave_remainder
            Leave out a remainder: values and intercept then add up to the score minus `remainder`, which belongs to no
            feature. `to_shap` adds it to the base value of each row. By default a remainder, from `max_order`,
            `truncate` or merged bins, raises ValueError.

        Returns
        -------
        numpy.ndarray
            Shape (n_rows, n_features), with a last axis of outputs if there are several.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.explain(X).shap_values()[3].tolist()
        [0.375, 0.375]
        >>> mains = fx.truncate(1).explain(X)
        >>> mains.shap_values(leave_remainder=True)[3].tolist(), float(mains.remainder[3])
        ([0.25, 0.25], 0.25)
        """
        if self.remainder is not None and not leave_remainder:
            raise ValueError(
                "shap_values() must have all of the score in terms, got a remainder that belongs to no feature; pass "
                "`leave_remainder=True` to share the terms alone, explain with all orders (no `max_order`, no "
                "truncate()), or decompose with a larger `budget` if bins are merged."
            )
        if self.others and self.other_shares is None:
            raise ValueError(
                "shap_values() must know how `others` are shared among features, got no `other_shares`; use the "
                "Explanation that explain() returns."
            )
        values = self._shared_terms()
        return values if self.other_shares is None else values + self.other_shares.array

    def _shared_terms(self) -> Floats:
        """Share the listed terms equally among their features: shape (n_rows, n_features), outputs last if several."""
        position = {name: j for j, name in enumerate(self.features)}
        columns = [position[name] for term in self.terms for name in term]
        orders = np.array([len(term) for term in self.terms], dtype=np.int64)
        entries = np.repeat(1 / orders, orders), columns, np.concatenate([[0], np.cumsum(orders)])
        shares = scipy.sparse.csr_array(
            entries, shape=(len(orders), len(position))
        )  # of features in terms, mostly zero
        n_rows, n_terms, *outputs = self.values.shape
        by_term = np.moveaxis(self.values, 1, 0).reshape(n_terms, n_rows * math.prod(outputs))
        shared = (shares.T @ by_term).reshape(len(position), n_rows, *outputs)
        return np.ascontiguousarray(np.moveaxis(shared, 0, 1))

    def by_family(self, groups: Mapping[str, Collection[str]]) -> Explanation:
        """Add up terms within families of features; terms of several families are interactions.

        Parameters
        ----------
        groups
            Families of features, ``{"job": ["job_a", "job_b"]}``; a feature without a family stays by itself.

        Returns
        -------
        Explanation
            Its features are the families; values still add up to the score. `shap_values` shares each listed term
            equally among its families. Unlisted terms stay in `others`; a family gets the shares of its features.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> explained = fx.explain(X).by_family({"both": ["x0", "x1"]})
        >>> explained.terms, explained.values[3].tolist()
        ((('both',),), [0.75])
        """
        families = families_of(groups, self.features)
        position = {name: j for j, name in enumerate(self.features)}
        keys, sum_index = families.merged([tuple(position[name] for name in term) for term in self.terms])
        values = sum_slices(self.values, sum_index, len(keys), axis=1)
        shares, of_features = self.other_shares, (np.array(families.family_index), len(families.names))
        return dataclasses.replace(
            self,
            values=np.ascontiguousarray(values),
            terms=tuple(tuple(families.names[i] for i in key) for key in keys),
            features=families.names,
            other_shares=None if shares is None else Deferred(lambda: sum_slices(shares.array, *of_features, axis=1)),
        )

    def to_shap(self) -> Any:
        """Return a `shap.Explanation` of the values per feature, for shap's plots; needs the package shap.

        Returns
        -------
        shap.Explanation
            A remainder is part of the base value of each row.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.explain(X).to_shap().values.shape  # doctest: +SKIP
        (4, 2)
        """
        try:
            shap = importlib.import_module("shap")
        except ImportError as error:
            raise ImportError("to_shap() needs the package shap, which is not installed; pip install shap.") from error
        base = np.broadcast_to(self.intercept, (len(self.values), *np.shape(self.intercept)))
        base = np.array(base if self.remainder is None else base + self.remainder)
        values, names = self.shap_values(leave_remainder=True), list(self.features)
        return shap.Explanation(values=values, base_values=base, data=self.data, feature_names=names)


def _reason_lines(rows: Sequence[Mapping[str, Any]], top: int) -> str:
    """Format records of term and value: the first `top`, and the sum of the others; zero terms are only counted."""
    nonzero = [(row["term"], row["value"]) for row in rows if row["value"]]
    largest = max((abs(value) for _, value in nonzero), default=1.0)
    decimals = max(3 - math.floor(math.log10(largest)), 0)  # four digits of the largest
    omitted = [value for _, value in nonzero[top:]]
    shown = [*nonzero[:top], *([(f"{len(omitted):,} more terms", float(np.sum(omitted)))] if omitted else [])]
    n_zero = len(rows) - len(nonzero)
    idle = f"{n_zero:,} terms add nothing" if n_zero else ""
    if idle and not shown:
        return idle
    lines = [{"term": term, "value": f"{value:+.{decimals}f}"} for term, value in shown]
    return aligned_rows(lines, top + 1) + (f"\n{idle}" if idle else "")


_STAGE = "explaining rows"
_BLOCK_BYTES = 1 << 26
_FEWEST_ROWS = 4096
_LAYOUT = 1  # increase if the columns of parts change
_OWN_FILE = re.compile(r"\d{6,}-[0-9a-f]{64}(-[0-9a-f]{64})?\.parquet|\.treeanova-[0-9a-f]{16}")


def _as_matrix(rows: Any) -> Any:  # of rows without a type of their own, such as a list of lists
    matrix = np.asarray(rows)
    if matrix.dtype.kind in "SU":
        matrix = np.asarray(rows, dtype=object)  # numpy would turn numbers into text in rows that hold both
    if matrix.ndim != 2:
        kind = type(rows).__name__
        raise TypeError(
            f"`X` must be a table, a matrix, or rows in batches as decompose() takes them, got {kind}; make a data "
            "frame of it first, or pass its reader."
        )
    return matrix


def digest_of(*content: Any) -> str:
    """Return the SHA-256 of what determines the values in a file, such as keys and options."""
    return hashlib.sha256(json.dumps([_LAYOUT, *content]).encode()).hexdigest()


@dataclasses.dataclass(frozen=True)
class Job:
    """An explanation of any number of rows, written to a Parquet file batch by batch."""

    explain: Callable[[Any], Explanation]
    selection: Selection
    digest: str  # of the decomposition and all options
    n_columns: int  # of the file, approximate

    def write(self, path: str | os.PathLike[str], X: Any, progress: Progress) -> None:
        """Write terms at the rows of X to a file; an interrupted call resumes from the files of its batches."""
        target = pathlib.Path(path)
        check_suffix(target, PARQUET)
        _check_target(target)
        all_rows = batches_of(X)
        if all_rows is None:
            all_rows = frames_in_list([X if hasattr(X, "shape") else _as_matrix(X)])
        if all_rows.reads(target):
            raise ValueError(
                f"`path` must be a file that is not read as part of `X`, got {str(target)!r}; choose another name or "
                "folder."
            )
        batches = all_rows.reading(dataclasses.replace(self.selection, drop=all_rows.selection.drop))
        folder = target.with_name(f"{target.name}.parts")
        with only_writer(folder, path):
            try:
                files = list(self._files_of_batches(folder, batches, progress))
                if not files:
                    raise ValueError("`X` must have at least one row, got 0 rows; pass the rows to explain.")
                _join_files(files, target)
                for file in list(folder.iterdir()):  # including those of interrupted jobs, but no other files
                    if _OWN_FILE.fullmatch(file.name) and file.is_file():
                        file.unlink()
            finally:
                with contextlib.suppress(OSError):  # of a folder that is not empty
                    folder.rmdir()

    def _files_of_batches(self, folder: pathlib.Path, batches: Batches, progress: Progress) -> Iterator[pathlib.Path]:
        """Yield the file of each batch; existing ones are not written again."""
        total, n_done = batches.n_rows or 1, 0
        progress(_STAGE, 0, total)
        schema = None
        for number, batch in enumerate(batches):
            stem = f"{number:06d}-{self._digest_of_batch(batch)}"
            written = (file for file in folder.glob(f"{stem}-*.parquet") if file.stem == f"{stem}-{_file_digest(file)}")
            file = next(written, None)  # whose bytes have the digest in its name
            if file is None:
                file = self._write_batch(folder / f"{stem}.parquet", batch, schema)
            schema = importlib.import_module("pyarrow.parquet").read_schema(file)
            yield file
            n_done += batch.n_rows
            if batches.n_rows is not None:
                progress(_STAGE, min(n_done, total - 1), total)
        progress(_STAGE, total, total)

    def _digest_of_batch(self, batch: Batch) -> str:
        """Return a digest of the job, the encoded rows of a batch and its copied columns, by which a file is reused."""
        digest = hashlib.sha256(self.digest.encode())
        digest.update(np.ascontiguousarray(batch.encoded(self.selection.schema).T))  # type: ignore[arg-type]
        if batch.copied_columns is not None:
            pyarrow, table = importlib.import_module("pyarrow"), _as_arrow(batch.copied_columns)
            sink = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table.combine_chunks())
            digest.update(sink.getvalue())
        return digest.hexdigest()

    def _write_batch(self, path: pathlib.Path, batch: Batch, schema: Any) -> pathlib.Path:
        """Write terms at a batch as the batch before (`schema`); return the path, which has a digest of its bytes."""
        parquet = importlib.import_module("pyarrow.parquet")
        tables = (_cast_to_schema(table, schema, batch.source) for table in self._tables_of_blocks(batch))
        first = next(tables)
        with replacing(path) as file, parquet.ParquetWriter(file, first.schema) as writer:
            for table in itertools.chain([first], tables):
                writer.write_table(table)
        return path.replace(path.with_stem(f"{path.stem}-{_file_digest(path)}"))

    def _tables_of_blocks(self, batch: Batch) -> Iterator[Any]:
        """Yield Arrow tables of terms and copied columns at blocks of rows that fit into memory."""
        n_rows = max(_FEWEST_ROWS, _BLOCK_BYTES // (8 * self.n_columns))
        # Converted as a whole: in a block of rows, all values of a column may be missing.
        copied_columns = None if batch.copied_columns is None else _as_arrow(batch.copied_columns)
        for start in range(0, batch.n_rows, n_rows):
            stop = min(start + n_rows, batch.n_rows)
            copied_rows = None if copied_columns is None else some_rows(copied_columns, start, stop)
            with reporting(None):  # progress counts rows, not the steps of a batch
                explained = self.explain(some_rows(batch.table, start, stop))
            yield _arrow_table(explained, copied_rows)


def _file_digest(path: pathlib.Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_target(target: pathlib.Path) -> None:
    """Raise ImportError without pyarrow, and ValueError if the path cannot be a new file."""
    try:
        importlib.import_module("pyarrow")
    except ImportError as error:
        raise ImportError("writing Parquet files needs pyarrow; pip install pyarrow.") from error
    if target.is_dir() or not target.parent.is_dir():
        raise ValueError(f"`path` must be a file in a folder that exists, got {str(target)!r}; choose another name.")


def _arrow_table(explained: Explanation, copied_columns: Any) -> Any:
    """Return an Arrow table of all components, then columns of the user's table that are copied, or None."""
    pyarrow = importlib.import_module("pyarrow")
    columns = columns_of(explained).items()
    arrays = {name: pyarrow.array(np.ascontiguousarray(values)) for name, values in columns}
    if copied_columns is not None:
        for name in copied_columns.column_names:
            arrays[free_name(name, arrays)] = copied_columns[name]
    return pyarrow.table(arrays)


def columns_of(explained: Explanation) -> dict[str, Floats]:
    """Return columns by name: all components by label, then intercept and score; per output if there are several."""
    columns = dict(explained.parts)
    scores = explained.scores
    columns[free_name("intercept", columns)] = np.broadcast_to(explained.intercept, scores.shape)
    columns[free_name("score", columns)] = scores
    if scores.ndim == 1:
        return columns
    outputs = list(enumerate(explained.outputs))
    return {f"{name} [{output}]": values[:, k] for name, values in columns.items() for k, output in outputs}


def _as_arrow(table: Any) -> Any:
    """Return an Arrow table; TypeError says which column Arrow cannot hold, such as one of numbers and texts."""
    pyarrow = importlib.import_module("pyarrow")
    try:
        return nw.from_native(table, eager_only=True).to_arrow()
    except (pyarrow.ArrowException, OverflowError) as error:
        reason = ": ".join(map(str, error.args))
        raise TypeError(f"columns to keep must have one type each, got {reason}; convert them, as to text.") from error


def _cast_to_schema(table: Any, schema: Any, source: str) -> Any:
    """Cast columns to the types of earlier rows; a column that was all missing until now takes its new type."""
    pyarrow = importlib.import_module("pyarrow")
    for j, field in enumerate(() if schema is None else schema):
        if pyarrow.types.is_null(field.type) or table.schema.field(j).type == field.type:
            continue
        try:
            table = table.set_column(j, field, table.column(j).cast(field.type))
        except (ValueError, pyarrow.ArrowException) as error:
            raise TypeError(
                f"{source}: column {field.name!r} to keep must have the same type in all of `X`, got "
                f"{table.schema.field(j).type} after {field.type}; convert it."
            ) from error
    return table


def _join_files(files: Sequence[pathlib.Path], target: pathlib.Path) -> None:
    """Copy Parquet files to one, which replaces an existing one when complete."""
    pyarrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    columns = zip(*map(parquet.read_schema, files), strict=True)  # a column that is all missing has the type null
    schema = pyarrow.schema([min(fields, key=lambda field: pyarrow.types.is_null(field.type)) for fields in columns])
    with replacing(target) as file, parquet.ParquetWriter(file, schema) as writer:
        for path in files:
            with parquet.ParquetFile(path) as content:
                for group in range(content.num_row_groups):
                    writer.write_table(content.read_row_group(group).cast(schema))
