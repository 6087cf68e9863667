"""The density of a saved decomposition: the tables of the saved terms, without the rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Key
from treeanova.density.joint import Joint
from treeanova.density.kinds import KINDS, Density, Table
from treeanova.density.pooling import pool_table
from treeanova.density.reference import Reference
from treeanova.density.statistics import NoRowsError, Statistics
from treeanova.model.binning import Binning, binning_by, unmerged
from treeanova.model.effects import Effects
from treeanova.model.grid import Grid
from treeanova.storage.plain import check_fields

_PRODUCTS = ("uniform", "independent")  # in files that do not say it


@dataclasses.dataclass(frozen=True, eq=False)
class SavedDensity(Density):
    """A density without its rows, which knows the tables of the saved terms only."""

    kind: str = ""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    saved: Mapping[Key, Floats] = dataclasses.field(default_factory=dict, repr=False)
    binnings: Mapping[Key, tuple[Binning, ...]] = dataclasses.field(default_factory=dict, repr=False)
    was_product: bool = False

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the density that was saved."""
        return self.kind

    @property
    def baseline(self) -> str:  # type: ignore[override]
        """What the intercept is, in words."""
        return Reference.baseline if self.kind == Reference.name else Density.baseline

    @property
    def is_product(self) -> bool:
        """Whether features were independent under the density that was saved."""
        return self.was_product

    def bind(self, grid: Grid, statistics: Statistics | None) -> Any:
        """A density of the saved kind, estimated from other rows."""
        if self.kind not in KINDS:
            raise ValueError(
                f"`density` must be given again, got the saved one of the kind {self.kind!r}, whose weights are "
                "known for the saved terms only; pass a name or a table."
            )
        return KINDS[self.kind](**self.options).bind(grid, statistics)

    @property
    def joint(self) -> Joint:
        """Raises NoRowsError: the rows were not saved."""
        raise NoRowsError(
            "a saved decomposition must have rows for this, got none; use with_density(density, X) first."
        )

    def table(self, key: Key, binnings: Sequence[Binning] | None = None) -> Floats:
        """The saved weights of a term, or sums of those of the smallest term with these features and finer bins."""
        sizes = [self._bound_grid.sizes[j] for j in key]
        wanted = [unmerged(size) for size in sizes] if binnings is None else binnings
        for larger in sorted((other for other in self.saved if set(key) <= set(other)), key=len):
            axes = self._saved_axes(larger)
            pairs = [(axes[j], binning) for j, binning in zip(key, wanted, strict=True)]
            if all(fine.refines(coarse) for fine, coarse in pairs):
                table: Floats = self.saved[larger].sum(axis=tuple(i for i, j in enumerate(larger) if j not in key))
                return pool_table(table, [binning_by(coarse.within(fine)) for fine, coarse in pairs])
        raise ValueError("a saved decomposition has the weights of its own terms only; pass `X` for others.")

    def _saved_axes(self, key: Key) -> dict[int, Binning]:
        """Binnings of the features of a saved table."""
        known = self.binnings.get(key) or [unmerged(self._bound_grid.sizes[j]) for j in key]
        return dict(zip(key, known, strict=True))


def describe_density(density: Density) -> dict[str, Any]:
    """Name and plain options of a density; tables and rows are not saved here, but as weights of the terms."""
    if isinstance(density, SavedDensity):
        return {"name": density.kind, "options": dict(density.options), "is_product": density.is_product}
    fields = {f.name: getattr(density, f.name) for f in dataclasses.fields(density)}
    plain = {name: value for name, value in fields.items() if isinstance(value, (int, float, str))}
    return {"name": density.name, "options": plain, "is_product": density.is_product}


def restore_density(
    plain: Mapping[str, Any], effects: Effects, weights: Mapping[Key, Floats], statistics: Statistics | None = None
) -> Density:
    """The density of a saved decomposition: by its name and statistics, or by the tables of the saved terms."""
    grid = effects.grid
    kind = KINDS.get(plain["name"], Table)
    known = {field.name for field in dataclasses.fields(kind)}
    options = {name: value for name, value in plain["options"].items() if name in known}
    check_fields(kind, options)
    if type(plain.get("is_product", True)) is not bool or not isinstance(plain["name"], str):
        raise TypeError("a saved density must have a name, and say whether it is a product")
    if statistics is not None and plain["name"] in KINDS:
        return kind(**options).bind(grid, statistics)
    if not kind.needs_data and kind is not Table:
        restored = kind(**options, grid=grid)
        tables = ((restored.table(key, effects.binnings.get(key)), table) for key, table in weights.items())
        if all(np.array_equal(again, table) for again, table in tables):
            return restored
    is_product = plain.get("is_product", plain["name"] in _PRODUCTS)
    return SavedDensity(
        kind=plain["name"],
        options=options,
        saved=weights,
        binnings=dict(effects.binnings),  # a mapping proxy has no pickle
        was_product=is_product,
        grid=grid,
        statistics=statistics,
    )


def as_loaded(
    density: Density, effects: Effects, weights: Mapping[Key, Floats], statistics: Statistics | None
) -> Density:
    """The density as it would be after saving and loading, with statistics as they are then."""
    return restore_density(describe_density(density), effects, weights, statistics)
