"""What `change` and `gap` compare, and their answers: plain data for machines, text for people."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from treeanova.cli.formats import Row, aligned
from treeanova.cli.sources import ModelFile, Request, check_density, decomposed
from treeanova.core.arrays import Floats
from treeanova.core.progress import Progress, within
from treeanova.data.frames import printable
from treeanova.data.tabular import read_column, records
from treeanova.decomposition.change import Change, change
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.gap import WITHOUT_ERROR, Gap, error_text
from treeanova.density.row_sources import statistics_of
from treeanova.views.look import scale_of

# What change answers.


def change_between(
    models: Sequence[ModelFile], requests: Sequence[Request], density: str | None, progress: Progress
) -> Change:
    """The change from the first model and its rows to the second."""
    check_density(density)
    old = decomposed(models[0], requests[0], density, within(progress, "old"))
    is_same = models[0].path.samefile(models[1].path)
    new = old if is_same else decomposed(models[1], requests[1], density, within(progress, "new"))
    return change(old, new, **_rows_of_both(old, new, requests), progress=within(progress, "change"))


def _rows_of_both(old: Decomposition, new: Decomposition, requests: Sequence[Request]) -> dict[str, Any]:
    """The old and the new rows: as tables where the two models read columns in different ways, else as statistics."""
    if old.schema.names != new.schema.names:
        return {}  # change() says what differs
    encoders = [[feature.encoder for feature in fx.schema.features] for fx in (old, new)]
    if encoders[0] == encoders[1]:
        pairs = zip(("X_old", "X_new"), (old, new), requests, strict=True)
        return {
            name: statistics_of(request.table(fx.schema), fx.grid, request.weights(), fx.source.wanted_tables())
            for name, fx, request in pairs
        }
    if any(request.weight for request in requests):
        raise ValueError(
            "`--weight` must be left out where the two models read columns in different ways, got one; use models of "
            "one library."
        )
    return {"X_old": requests[0].table(old.schema), "X_new": requests[1].table(new.schema)}


def plain_change(found: Change, names: Sequence[str]) -> dict[str, Any]:
    """A change as plain data."""
    sums = {name: getattr(found, name) for name in ("old_mean", "new_mean", "population", "model", "total")}
    return {
        "old": names[0],
        "new": names[1],
        "scale": scale_of(found.old.schema),
        "outputs": list(found.old.outputs),
        **sums,
        "table": records(found.table),
    }


def changed(found: Change, plain: Row, top: int) -> str:
    """A change for people: its sums, and a line per term."""
    names = ("old_mean", "new_mean", "total", "population", "model")
    parts = []
    for k, output in enumerate(plain["outputs"]):
        before, after, total, population, model = (_at(getattr(found, name), k) for name in names)
        of = f"{output}: " if len(plain["outputs"]) > 1 else ""
        head = f"{of}mean {plain['scale']} {before:.4g} in {plain['old']}, {after:.4g} in {plain['new']}"
        sums = f"change {total:+.4g}: population {population:+.4g}, model {model:+.4g}"
        rows = [row for row in plain["table"] if row.get("output", output) == output]
        parts.append(f"{printable(head)}\n{sums}\n\n{_lines(rows, ('population', 'model', 'total'), top + 1)}")
    return "\n\n".join(parts)


# What gap answers.


@dataclasses.dataclass(frozen=True)
class Groups:
    """The column that makes groups, and the values of it that are compared."""

    column: str
    value: str | None = None
    against: str | None = None


def gap_in(fx: Decomposition, request: Request, groups: Groups, feature: str | None, progress: Progress) -> Gap:
    """The gap between two groups of the rows of a file."""
    if request.data is None:
        raise ValueError("`--data` must be given for the groups, got no rows; add the rows.")
    labels = np.array([str(label) for label in read_column(request.data, groups.column)], dtype=object)
    if feature is None and groups.column in fx.schema.names:
        feature = groups.column
    table = request.table(fx.schema)
    kept, is_second, names = _chosen(labels, groups)
    rows = table if kept.all() else nw.to_native(nw.from_native(table, eager_only=True).filter(kept.tolist()))
    weights = None if request.weight is None else np.asarray(request.column(request.weight))[kept]
    found = fx.gap(rows, is_second, sample_weight=weights, feature=feature, progress=progress)
    return dataclasses.replace(found, groups=names)


def _chosen(labels: Any, groups: Groups) -> tuple[Any, Any, tuple[str, str]]:
    """Which rows are compared, which of these are in the second group, and the names of both groups."""
    known = sorted(set(labels.tolist()))
    for option, value in (("--value", groups.value), ("--against", groups.against)):
        if value is not None and value not in known:
            raise ValueError(f"`{option}` must be a value of {groups.column}, got {value!r}; there are {_some(known)}.")
    if groups.value is None and (groups.against is not None or len(known) != 2):
        raise ValueError(
            f"`--group` must be a column of two values, or come with --value, got {len(known)} in {groups.column} "
            f"({_some(known)}); add --value {known[0]!r}, and --against to compare it with one other."
        )
    second = known[1] if groups.value is None else groups.value
    first = known[0] if groups.value is None else groups.against
    kept = np.ones(len(labels), dtype=bool) if first is None else (labels == first) | (labels == second)
    names = (f"{groups.column} other than {second}" if first is None else _name(first, groups), _name(second, groups))
    return kept, labels[kept] == second, names


def _name(value: str, groups: Groups) -> str:
    return value if any(map(str.isalpha, value)) else f"{groups.column} = {value}"


def _some(values: Sequence[str]) -> str:
    return ", ".join(values[:6]) + (", …" if len(values) > 6 else "")


def plain_gap(found: Gap, name: str) -> dict[str, Any]:
    """A gap as plain data."""
    return {
        "model": name,
        "scale": scale_of(found.fx.schema),
        "outputs": list(found.fx.outputs),
        "groups": list(found.groups),
        "sizes": list(found.sizes),
        "is_weighted": found.is_weighted,
        "means": list(found.means),
        "total": found.total,
        "error": found.error,
        "table": records(found.table),
        "routes": None if found.routes is None else records(found.routes),
    }


def parted(found: Gap, plain: Row, top: int) -> str:
    """A gap for people: its sum, the routes, and a line per term."""
    parts = []
    for k, output in enumerate(plain["outputs"]):
        of = f"{output}: " if len(plain["outputs"]) > 1 else ""
        sides = [
            f"{_at(mean, k):.4g} in {name} ({count})"
            for name, count, mean in zip(found.groups, found.counts, found.means, strict=True)
        ]
        gap = f"gap {_at(found.total, k):+.4g}, standard error {error_text(_at(found.error, k), 2)}"
        head = printable(f"{of}mean {plain['scale']} {', '.join(sides)}")
        parts.append(f"{head}\n{gap}")
        for name, rows in (("routes", plain["routes"] or []), ("table", plain["table"])):
            own = [row for row in rows if row.get("output", output) == output]
            parts += [_lines(own, ("gap", "error"), top if name == "table" else len(own))] if own else []
    if min(found.sizes) > 1 and any(row["error"] is None or math.isnan(row["error"]) for row in plain["table"]):
        parts.append(f"error –: {WITHOUT_ERROR}")
    note = (
        f"Dropping the terms of {found.feature} would not remove its influence: features correlated with it carry it."
    )
    return "\n\n".join([*parts, *([] if found.feature is None else [printable(note)])])


# Both.


def _at(value: float | Floats, position: int) -> float:
    return float(np.atleast_1d(value)[position])


def _lines(rows: Sequence[Row], columns: Sequence[str], top: int) -> str:
    """A line per row, and one for those left out."""
    first = next(iter(rows[0]))
    noise = 1e-12 * max(abs(row[name]) for row in rows for name in columns if row[name] == row[name])
    lines = [{first: row[first]} | {name: _text(row[name], name, noise) for name in columns} for row in rows[:top]]
    rest = rows[top:]
    more = f"\n{len(rest)} more terms: {sum(row[_sum(columns)] for row in rest):+.4g}" if rest else ""
    return f"{aligned(lines)}{more}"


def _text(value: float, column: str, noise: float) -> str:
    """A number with its sign, where it is not an error; zero for what rounding left of it."""
    if column == "error":
        return error_text(value)
    shown = 0.0 if abs(value) <= noise else value
    return f"{shown:+.4g}" if shown else "0"


def _sum(columns: Sequence[str]) -> str:
    return "total" if "total" in columns else columns[0]
