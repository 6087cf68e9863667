"""What is saved of a decomposition: plain data and arrays, without its rows and without the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from treeanova.anova.certificate import Certificate, HigherCertificate, TermCertificate
from treeanova.anova.purification import Options
from treeanova.core.arrays import Arrays, Floats, Key
from treeanova.data.features import Schema
from treeanova.density.joint import Joint
from treeanova.density.kinds import KINDS, Density, Sample, Table
from treeanova.model.axes import Axis, CategoryAxis, IntervalAxis
from treeanova.model.effects import Effects
from treeanova.model.grid import Grid
from treeanova.storage.schema import describe, restore
from treeanova.storage.trees import pack_deep, unpack_deep
from treeanova.terms.moments import Moments

_MOMENTS = ("variance", "covariance", "mean_abs")
_PLAIN = ("backend", "n_all_terms", "random_state")
_DEEP = "deep/"
_PRODUCTS = ("uniform", "independent")  # of files that do not tell


def pack(fields: Mapping[str, Any]) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of the fields of a decomposition; `unpack` is the way back."""
    effects: Effects = fields["effects"]
    axes = effects.grid.axes
    header = {
        "features": describe(effects.grid.schema),
        "axes": [_describe_axis(axis) for axis in axes],
        "density": _describe_density(fields["density"]),
        "certificate": _describe_certificate(fields["certificate"]),
        "options": list(fields["options"]),
        **{name: fields[name] for name in _PLAIN},
    }
    arrays: Arrays = {f"bounds/{j}": axis.bounds for j, axis in enumerate(axes) if isinstance(axis, IntervalAxis)}
    arrays |= _effects_arrays("pure", effects) | _effects_arrays("raw", fields["raw_effects"])
    arrays |= {f"weights/{_text(key)}": table for key, table in fields["weights"].items()}
    if fields["saved_moments"] is not None:
        arrays |= {f"moments/{name}": getattr(fields["saved_moments"], name) for name in _MOMENTS}
    if fields["is_cut"]:
        header["is_cut"] = True
    if fields["deep"] is not None:
        header["deep"], own = pack_deep(fields["deep"])
        arrays |= {f"{_DEEP}{name}": array for name, array in own.items()}
    return header, arrays


def unpack(header: Mapping[str, Any], arrays: Arrays) -> dict[str, Any]:
    """Fields of a decomposition from header and arrays."""
    own = _below(arrays, _DEEP)
    arrays = {name: array for name, array in arrays.items() if not name.startswith(_DEEP)}
    schema = restore(header["features"])
    if not isinstance(schema, Schema):
        raise TypeError("a saved decomposition must have a schema")
    axes = tuple(
        _restore_axis(plain, feature.encoder.labels, arrays.get(f"bounds/{j}"))
        for j, (plain, feature) in enumerate(zip(header["axes"], schema.features, strict=True))
    )
    grid = Grid(schema, axes)
    weights = {_key(name): table for name, table in _below(arrays, "weights/").items()}
    _check(arrays, weights, grid, may_have_more="deep" in header or "is_cut" in header)
    return {
        "effects": _restore_effects(grid, arrays, "pure"),
        "raw_effects": _restore_effects(grid, arrays, "raw"),
        "weights": weights,
        "density": _restore_density(header["density"], grid, weights),
        "certificate": _restore_certificate(header["certificate"]),
        "options": Options(*header["options"]),
        "saved_moments": _restore_moments(arrays),
        "deep": unpack_deep(header["deep"], own, grid) if "deep" in header else None,
        "is_cut": header.get("is_cut") is True,
        **{name: header[name] for name in _PLAIN},
    }


def _check(arrays: Arrays, weights: Mapping[Key, Floats], grid: Grid, *, may_have_more: bool) -> None:
    """Raise when arrays do not fit each other; there may be more moments than tensors."""
    if (
        any(array.dtype != np.float64 for array in arrays.values())
        or any(array.ndim != 1 for array in _below(arrays, "bounds/").values())
        or any(table.shape != tuple(grid.sizes[j] for j in key) for key, table in weights.items())
        or not _moments_fit(arrays, may_have_more=may_have_more)
    ):
        raise ValueError("arrays must be float64 and have the shapes of the grid")


def _moments_fit(arrays: Arrays, *, may_have_more: bool) -> bool:
    """Whether there are all moments, of one shape that fits the terms and outputs, or none at all."""
    shapes = [array.shape for array in _below(arrays, "moments/").values()]
    if not shapes:
        return True
    n_terms, n_outputs = sum(name.startswith("pure/") for name in arrays), len(arrays["pure_intercept"])
    rows_fit = len(shapes[0]) == 2 and (shapes[0][0] == n_terms or (may_have_more and shapes[0][0] > n_terms))
    return len(shapes) == len(_MOMENTS) and len(set(shapes)) == 1 and rows_fit and shapes[0][1] == n_outputs


def _restore_moments(arrays: Arrays) -> Moments | None:
    """Moments that were saved; None where they had needed rows that were gone already."""
    saved = _below(arrays, "moments/")
    return Moments(**{name: saved[name] for name in _MOMENTS}) if saved else None


def _text(key: Key) -> str:
    return "-".join(map(str, key))


def _key(text: str) -> Key:
    return tuple(int(part) for part in text.split("-"))


def _below(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _effects_arrays(name: str, effects: Effects) -> Arrays:
    terms = {f"{name}/{_text(key)}": values for key, values in effects.terms.items()}
    return {f"{name}_intercept": effects.intercept, **terms}


def _restore_effects(grid: Grid, arrays: Arrays, name: str) -> Effects:
    return Effects(
        grid, arrays[f"{name}_intercept"], {_key(k): values for k, values in _below(arrays, f"{name}/").items()}
    )


def _describe_axis(axis: Axis) -> dict[str, Any]:
    plain: dict[str, Any] = {"name": axis.name, "missing_bin": axis.missing_bin}
    return plain | {"unseen_bin": axis.unseen_bin} if isinstance(axis, CategoryAxis) else plain


def _restore_axis(plain: Mapping[str, Any], labels: tuple[Any, ...] | None, bounds: Floats | None) -> Axis:
    if bounds is not None:
        return IntervalAxis(plain["name"], plain["missing_bin"], bounds)
    return CategoryAxis(plain["name"], plain["missing_bin"], labels or (), plain["unseen_bin"])


def _describe_density(density: Density) -> dict[str, Any]:
    """Name and plain options of a density; what is not plain (tables, data) stays in the weights."""
    if isinstance(density, SavedDensity):
        return {"name": density.kind, "options": dict(density.options), "is_product": density.is_product}
    fields = {f.name: getattr(density, f.name) for f in dataclasses.fields(density)}
    plain = {name: value for name, value in fields.items() if isinstance(value, (int, float, str))}
    return {"name": density.name, "options": plain, "is_product": density.is_product}


def without_rows(density: Density, grid: Grid, weights: Mapping[Key, Floats]) -> Density:
    """The density as it comes back from a file: without its rows, with the weights of the terms."""
    return _restore_density(_describe_density(density), grid, weights)


def _restore_density(plain: Mapping[str, Any], grid: Grid, weights: Mapping[Key, Floats]) -> Density:
    """The density by its name; without its rows it answers for the saved terms only, from their tables."""
    kind = KINDS.get(plain["name"], Table)
    known = {field.name for field in dataclasses.fields(kind)}
    options = {name: value for name, value in plain["options"].items() if name in known}
    if not kind.needs_data and kind is not Table:
        restored = kind(**options, grid=grid)
        if all(np.array_equal(restored.table(key), table) for key, table in weights.items()):
            return restored
    is_product = plain.get("is_product", plain["name"] in _PRODUCTS)
    return SavedDensity(kind=plain["name"], options=options, saved=weights, was_product=is_product, grid=grid)


@dataclasses.dataclass(frozen=True, eq=False)
class SavedDensity(Density):
    """A density whose rows are gone: its tables of the saved terms remain."""

    kind: str = ""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    saved: Mapping[Key, Floats] = dataclasses.field(default_factory=dict, repr=False)
    was_product: bool = False

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the density that was saved."""
        return self.kind

    @property
    def is_product(self) -> bool:
        """Whether features were independent under the density that was saved."""
        return self.was_product

    def bind(self, grid: Grid, sample: Sample | None) -> Any:
        """The kind that was saved, estimated anew from rows."""
        if self.kind not in KINDS:
            raise ValueError(
                f"`density` must be given anew, got the saved one of the kind {self.kind!r}, whose weights are "
                "known for the saved terms only; pass a name or a table."
            )
        return KINDS[self.kind](**self.options).bind(grid, sample)

    @property
    def joint(self) -> Joint:
        """None: the rows were not saved."""
        raise NoRowsError(
            "a saved decomposition must have rows for this, got none; use with_density(density, X) first."
        )

    def table(self, key: Key) -> Floats:
        """The saved weights of a term, or the marginal of those of the smallest term with these features."""
        if key in self.saved:
            return self.saved[key]
        larger = min((other for other in self.saved if set(key) <= set(other)), key=len, default=None)
        if larger is None:
            raise ValueError("a saved decomposition has the weights of its own terms only; pass `X` for others.")
        marginal: Floats = self.saved[larger].sum(axis=tuple(i for i, j in enumerate(larger) if j not in key))
        return marginal


class NoRowsError(ValueError):
    """What is asked for needs the rows of the density, which are not saved."""


def _describe_certificate(certificate: Certificate) -> dict[str, Any]:
    terms = [[list(names), dataclasses.asdict(term)] for names, term in certificate.terms.items()]
    higher = None if certificate.higher is None else dataclasses.asdict(certificate.higher)
    if higher is not None:
        higher["bins"] = [list(item) for item in higher["bins"].items()]
    error, tol = certificate.reconstruction_error, certificate.tol
    plain = {"terms": terms, "reconstruction_error": error, "tol": tol, "higher": higher}
    return plain | {"density_gap": certificate.density_gap, "remainder_share": certificate.remainder_share}


def _restore_certificate(plain: Mapping[str, Any]) -> Certificate:
    terms = {tuple(names): TermCertificate(**term) for names, term in plain["terms"]}
    found = plain.get("higher")
    higher = None
    if found is not None:
        bins = {int(order): int(size) for order, size in found["bins"]}
        higher = HigherCertificate(**{**found, "orders": tuple(found["orders"]), "bins": bins})
    later = plain.get("density_gap", 0.0), plain.get("remainder_share")
    return Certificate(terms, plain["reconstruction_error"], plain["tol"], higher, *later)
