"""Folders of saved Spark models: parameters in JSON, tables in Parquet."""

from __future__ import annotations

import dataclasses
import importlib
import pathlib
import re
from typing import Any

from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.readers.checks import check_inside, parsed_json

_BYTES_PER_ROW = 4
_VALUES_PER_BYTE = 64


@dataclasses.dataclass(frozen=True)
class Stage:
    """A saved model or a stage of a pipeline."""

    path: pathlib.Path
    content: dict[str, Any]

    @property
    def kind(self) -> str:
        """Name of the class, without that of its package."""
        return str(self.content.get("class", "")).rpartition(".")[2]

    def parameter(self, name: str, default: Any = None) -> Any:
        """The value that was set for a parameter, else its default."""
        given, defaults = self.content.get("paramMap", {}), self.content.get("defaultParamMap", {})
        return given.get(name, defaults.get(name, default))

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Rows of one of the stage's tables."""
        try:
            parquet = importlib.import_module("pyarrow.parquet")
        except ImportError as error:
            raise UnsupportedModelError(
                f"`model` is a folder of Spark ({self.path.name}), which pyarrow must read, got no pyarrow; install it."
            ) from error
        parts = sorted((self.path / name).glob("*.parquet"))
        if not parts:
            raise ModelFileError(f"{self.path.name} must have Parquet files in {name}/, got none; folder damaged?")
        try:
            for part in parts:
                _check_counts(parquet.read_metadata(part), part)
            return [row for part in parts for row in parquet.read_table(part).to_pylist()]
        except (OSError, ValueError) as error:  # pyarrow's errors are derived from these
            if isinstance(error, (ModelFileError, UnsupportedModelError)):
                raise
            raise ModelFileError(f"{self.path.name}/{name} must hold whole Parquet files, got {error}.") from error

    def stages(self) -> list[Stage]:
        """The stages of a pipeline in their order; nested pipelines are flattened."""
        if self.kind != "PipelineModel":
            return [self]
        names = self.parameter("stageUids") or []
        for name in names:
            if not isinstance(name, str) or not re.fullmatch(r"\w[\w.\-]*", name):
                raise ModelFileError(f"stageUids must be names of folders, got {name!r:.60}; folder damaged?")
        width = len(str(len(names)))
        paths = [self.path / "stages" / f"{k:0{width}d}_{name}" for k, name in enumerate(names)]
        return [stage for path in paths for stage in _open_stage(path).stages()]


def _check_counts(metadata: Any, part: pathlib.Path) -> None:
    """Raise ModelFileError for more rows or values than the bytes of a Parquet file can stand for.

    A node has a number and a gain of its own, so that real trees need some bytes for each even after compression; lists
    may hold repetitions.
    """
    size = part.stat().st_size
    groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
    n_values = max((group.column(j).num_values for group in groups for j in range(group.num_columns)), default=0)
    n_rows = max(metadata.num_rows, sum(group.num_rows for group in groups))
    if n_rows > size // _BYTES_PER_ROW or n_values > size * _VALUES_PER_BYTE:
        raise ModelFileError(
            f"{part.name} must hold a few bytes per node, got {size:,} bytes for {n_rows:,} rows and {n_values:,} "
            "values; folder damaged?"
        )


def open_folder(path: pathlib.Path) -> Stage:
    """A saved model or pipeline, whose folder holds all of its files."""
    check_inside(path)
    return _open_stage(path)


def _open_stage(path: pathlib.Path) -> Stage:
    parts = sorted((path / "metadata").glob("part-*"))
    try:
        text = "".join(part.read_text(encoding="utf-8") for part in parts)
        content = parsed_json(text.strip().partition("\n")[0])
    except (OSError, ValueError) as error:
        raise ModelFileError(
            f"{path.name} must be a folder of Spark with JSON in metadata/, got {type(error).__name__}; folder damaged?"
        ) from error
    if not isinstance(content, dict):
        raise ModelFileError(f"{path.name} must have an object in metadata/, got another value; folder damaged?")
    return Stage(path, content)
