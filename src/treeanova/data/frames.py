"""Tables out: columns become a data frame of the library that the user's data came in."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import narwhals.stable.v1 as nw

from treeanova.data.columns import as_table


def backend_of(data: Any) -> str | None:
    """Name of the data frame library of some data; for arrays pandas if it is installed, else None."""
    if nw.dependencies.is_into_dataframe(data):
        return str(nw.get_native_namespace(as_table(data)).__name__)
    return "pandas" if importlib.util.find_spec("pandas") else None


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, put in brackets until it differs from those taken."""
    while name in taken:
        name = f"({name})"
    return name


def frame(columns: Mapping[str, Sequence[Any] | Any], backend: str | None) -> Any:
    """A data frame of the named library; a dict of the columns if it is None."""
    if backend is None:
        return dict(columns)
    return nw.to_native(nw.from_dict(dict(columns), backend=backend))  # type: ignore[arg-type]
