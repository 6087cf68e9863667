"""Decomposition: a model's intercept, pure main effects and pure interactions, and all that one asks of them."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from treeanova import archive
from treeanova.certificate import Certificate, TermCertificate, impurity
from treeanova.columns import encode
from treeanova.density import Density, Key, Sample, check_weighted_rows, density_of, sample_of
from treeanova.effects import Effects
from treeanova.errors import ArchiveError
from treeanova.explanation import Explanation
from treeanova.features import Floats, Schema
from treeanova.frames import backend_of, frame
from treeanova.grid import Axis, Codes, Grid, IntervalAxis, union
from treeanova.importance import Moments, moments
from treeanova.links import class_probabilities, respond
from treeanova.purification import Options, cascade, report_impurity
from treeanova.slices import largest
from treeanova.storage import pack, unpack

Names = tuple[str, ...]
_DEFAULTS = Options()
_DRAWS = 20_000


@dataclasses.dataclass(frozen=True, eq=False)
class Term:
    """One term: features, axes, values over their bins, and weights of the cells.

    Attributes
    ----------
    features
        Names, in the order of the data.
    axes
        Their bins.
    values
        Shape of the bins, with a last axis of outputs where there are several.
    weights
        Shape of the bins; sum 1.
    """

    features: Names
    axes: tuple[Axis, ...]
    values: Floats
    weights: Floats
    schema: Schema = dataclasses.field(repr=False)

    @property
    def order(self) -> int:
        """Number of features."""
        return len(self.features)

    def __call__(self, data: Any) -> Floats:
        """The term at rows that hold its own features: a table, or an array with one column per feature."""
        encoded = encode(data, self.schema)
        values: Floats = self.values[tuple(axis.index(encoded[:, i]) for i, axis in enumerate(self.axes))]
        return values

    def __repr__(self) -> str:
        bins = " x ".join(str(axis.size) for axis in self.axes)
        return (
            f"Term({' x '.join(self.features)}: {bins} bins, values {self.values.min():.4g} to {self.values.max():.4g})"
        )


class Terms(Mapping[Names, Term]):
    """Terms by the names of their features: ``terms["a", "b"]`` in any order, ``terms["a"]`` for a main effect."""

    def __init__(self, names: Sequence[Names], make: Callable[[Names], Term]) -> None:
        self._names = tuple(names)
        self._make = make

    def __getitem__(self, key: str | Collection[str]) -> Term:
        if not isinstance(key, (str, tuple, list, set, frozenset)):
            raise KeyError(f"terms go by names of features, got {key!r}; see list(terms)")
        names = (key,) if isinstance(key, str) else tuple(key)
        found = next((own for own in self._names if sorted(own) == sorted(names)), None)
        if found is None:
            hint = 'an interaction is terms["a", "b"]; see list(terms)'
            raise KeyError(f"no term {' x '.join(map(str, names))!r} among {len(self._names)}; {hint}")
        return self._make(found)

    def __iter__(self) -> Iterator[Names]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        shown = ", ".join(" x ".join(names) for names in self._names[:6])
        return f"<{len(self)} terms: {shown}{', …' if len(self) > 6 else ''}>"


def purify_effects(
    effects: Effects, density: Density, options: Options, n_jobs: int
) -> tuple[Effects, dict[Key, Floats], dict[Key, TermCertificate]]:
    """Pure effects under a density, the weights of their terms, and what was measured on each."""
    if not effects.terms:
        return effects, {}, {}
    weights: dict[Key, Floats] = {}

    def table(key: Key) -> Floats:
        weights[key] = density.table(key)
        return weights[key]

    raw = {key: np.ascontiguousarray(np.moveaxis(values, -1, 0)) for key, values in effects.terms.items()}
    result = cascade(raw, table, options, n_jobs)
    terms = {key: np.ascontiguousarray(np.moveaxis(values, 0, -1)) for key, values in result.terms.items()}
    return Effects(effects.grid, effects.intercept + result.intercept, terms), weights, result.measured


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Decomposition:
    """A model as intercept + pure main effects + pure interactions under a density.

    Made by `treeanova.decompose`; operations give new decompositions.

    Attributes
    ----------
    effects
        Intercept and terms on the grid, outputs last.
    raw_effects
        The same model as its trees hold it.
    weights
        Weights of the cells of each term, by positions of features.
    density
        The density, bound to the grid and the rows.
    certificate
        Purity of every term, and the largest difference of the sum of terms to the score of the model's own trees at
        some of the rows (to its raw effects, where it was made from another decomposition or without rows).
    backend
        Name of the data frame library for tables.
    """

    effects: Effects
    raw_effects: Effects
    weights: Mapping[Key, Floats]
    density: Density
    certificate: Certificate
    options: Options = _DEFAULTS
    n_jobs: int = 1
    backend: str | None = None
    random_state: int = 0
    n_all_terms: int = 0
    source: Any = None
    saved_moments: Moments | None = None

    # What it is.

    @property
    def grid(self) -> Grid:
        """The axes of all features."""
        return self.effects.grid

    @property
    def schema(self) -> Schema:
        """Features, outputs and link of the model."""
        return self.effects.grid.schema

    @property
    def intercept(self) -> float | Floats:
        """A float; an array of shape (n_outputs,) where there are several."""
        return float(self.effects.intercept[0]) if self._single else self.effects.intercept

    @property
    def terms(self) -> Terms:
        """Mapping from names of features to terms."""
        return Terms([self._names(key) for key in self.effects.terms], self._term)

    @functools.cached_property
    def raw(self) -> Decomposition:
        """The model before purification, to compare."""
        known = self.certificate.terms
        weights = {key: self.weights.get(key, self._table(key)) for key in self.raw_effects.terms}
        measured = {}
        for key, values in self.raw_effects.terms.items():
            outputs_first = np.moveaxis(values, -1, 0)
            found = impurity(outputs_first, weights[key], largest(np.ascontiguousarray(outputs_first)))
            if self._names(key) in known:
                measured[self._names(key)] = dataclasses.replace(known[self._names(key)], impurity=found, method="none")
        certificate = dataclasses.replace(self.certificate, terms=measured)
        return dataclasses.replace(
            self, effects=self.raw_effects, weights=weights, certificate=certificate, saved_moments=None
        )

    @property
    def _single(self) -> bool:
        return self.effects.n_outputs == 1

    def _table(self, key: Key) -> Floats:
        return self.density.table(key)

    def _names(self, key: Key) -> Names:
        return tuple(self.schema.names[j] for j in key)

    def _key(self, names: str | Collection[str]) -> Key:
        return tuple(self.schema.names.index(name) for name in self.terms[names].features)

    def _term(self, names: Names) -> Term:
        key = tuple(self.schema.names.index(name) for name in names)
        values = self.effects.terms[key]
        schema = dataclasses.replace(self.schema, features=tuple(self.schema.features[j] for j in key))
        axes = tuple(self.grid.axes[j] for j in key)
        return Term(names, axes, values[..., 0] if self._single else values, self.weights[key], schema)

    def __repr__(self) -> str:
        orders = [len(key) for key in self.effects.terms]
        counts = ", ".join(f"{orders.count(order)} of order {order}" for order in sorted(set(orders)))
        partial = f" (of {self.n_all_terms})" if self.n_all_terms else ""
        lines = [
            f"Decomposition of {len(orders)} terms{partial}: {counts or 'none'}",
            f"  density {self.density.name}, link {self.schema.link}, outputs {', '.join(self.schema.outputs)}",
        ]
        purity = f"  impurity {self.certificate.impurity:.1e}"
        error = f"sum within {self.certificate.reconstruction_error:.1e} of the model"
        lines.append(purity if self.n_all_terms else f"{purity}, {error}")
        return "\n".join(lines)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Decomposition):
            return NotImplemented
        ours, theirs = self.effects, other.effects
        return (
            self.schema.names == other.schema.names
            and self.grid.sizes == other.grid.sizes
            and all(_same_axis(a, b) for a, b in zip(self.grid.axes, other.grid.axes, strict=True))
            and ours.terms.keys() == theirs.terms.keys()
            and np.array_equal(ours.intercept, theirs.intercept)
            and all(np.array_equal(ours.terms[key], theirs.terms[key]) for key in ours.terms)
        )

    __hash__ = None  # type: ignore[assignment]

    # What it says of rows.

    def decision_function(self, data: Any) -> Floats:
        """The score: equal to the library's raw prediction; shape (n_rows,), or (n_rows, n_outputs)."""
        score = self.effects.score(data)
        return score[:, 0] if self._single else score

    def predict(self, data: Any) -> Floats:
        """The response: means, or probabilities (of the second class where there are two)."""
        response = respond(self.schema, self.effects.score(data))
        return response[:, 0] if self._single else response

    def predict_proba(self, data: Any) -> Floats:
        """Probabilities of all classes, shape (n_rows, n_classes)."""
        return class_probabilities(self.schema, self.effects.score(data))

    def term_values(self, data: Any, key: str | Collection[str]) -> Floats:
        """One term at rows, shape (n_rows,), or (n_rows, n_outputs)."""
        positions = self._key(key)
        codes = self.grid.index(data)
        values: Floats = self.effects.terms[positions][tuple(codes[:, j] for j in positions)]
        return values[:, 0] if self._single else values

    def explain(self, data: Any) -> Explanation:
        """All terms at rows."""
        codes = self.grid.index(data)
        columns = [codes[:, j] for j in range(codes.shape[1])]
        values = np.empty((len(self.effects.terms), len(codes), self.effects.n_outputs))
        for i, (key, term) in enumerate(self.effects.terms.items()):
            values[i] = term[tuple(columns[j] for j in key)]
        by_row = np.moveaxis(values, 0, 1)
        return Explanation(
            values=by_row[:, :, 0] if self._single else by_row,
            terms=tuple(self.terms),
            intercept=self.intercept,
            features=self.schema.names,
            outputs=self.schema.outputs,
            backend=backend_of(data),
            data=data,
        )

    # What it says of the model.

    @functools.cached_property
    def moments(self) -> Moments:
        """Variance, covariance with the rest, and mean absolute value of each term and output."""
        if self.saved_moments is not None:
            return self.saved_moments
        if not self.effects.terms:
            nothing = np.zeros((0, self.effects.n_outputs))
            return Moments(nothing, nothing, nothing)
        uncorrelated = self.density.is_product and self.certificate.met
        return moments(self.effects.terms, self.weights, None if uncorrelated else self._rows())

    def _rows(self) -> tuple[Codes, Floats]:
        """Bins and weights of rows that stand for the density."""
        return self.density.rows(_DRAWS, np.random.default_rng(self.random_state))

    def importance(self, by: str = "term") -> Any:
        """Table of shares of the score's variance, largest first.

        ``share = variance + covariance``: the structural part and what is due to correlation with other terms; shares
        add up to 1 over terms. By feature, a term is shared equally by its features.
        """
        if by not in {"term", "feature"}:
            raise ValueError(f"`by` must be 'term' or 'feature', got {by!r}; leave it out for 'term'.")
        found = self.moments
        total = (found.variance + found.covariance).sum(axis=0)
        scale = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        measures = np.stack([found.variance * scale, found.covariance * scale, found.mean_abs])
        if by == "term":
            labels, orders = [" x ".join(names) for names in self.terms], [len(key) for key in self.effects.terms]
        else:
            labels, orders = list(self.schema.names), []
            measures = np.einsum("mtk,tf->mfk", measures, self._feature_shares())
        return self._importance_frame(by, labels, orders, measures)

    def _feature_shares(self) -> Floats:
        shares = np.zeros((len(self.effects.terms), len(self.schema.features)))
        for i, key in enumerate(self.effects.terms):
            shares[i, list(key)] = 1 / len(key)
        return shares

    def _importance_frame(self, by: str, labels: list[str], orders: list[int], measures: Floats) -> Any:
        rows = [(k, i) for k in range(measures.shape[2]) for i in range(len(labels))]
        rows.sort(key=lambda row: (row[0], -(measures[0, row[1], row[0]] + measures[1, row[1], row[0]])))
        columns: dict[str, Any] = {by: [labels[i] for _, i in rows]}
        if not self._single:
            columns["output"] = [self.schema.outputs[k] for k, _ in rows]
        if orders:
            columns["order"] = [orders[i] for _, i in rows]
        columns["share"] = np.array([measures[0, i, k] + measures[1, i, k] for k, i in rows])
        for m, name in enumerate(("variance", "covariance", "mean_abs")):
            columns[name] = np.array([measures[m, i, k] for k, i in rows])
        return frame(columns, self.backend)

    def table(self, key: str | Collection[str]) -> Any:
        """Tidy table of one term: a row per cell with labels and ends of its bins, value and weight."""
        term = self.terms[key]
        cells = np.indices(term.weights.shape).reshape(term.order, -1)
        reserved = {"weight", "value", *(f"value_{output}" for output in self.schema.outputs)}
        columns: dict[str, Any] = {}
        for name, axis, bins in zip(term.features, term.axes, cells, strict=True):
            columns[f"{name}_bin" if name in reserved else name] = [axis.labels[b] for b in bins]
            if isinstance(axis, IntervalAxis):
                ends = np.full((2, axis.size), np.nan)
                ends[:, : axis.n_intervals] = axis.edges[:-1], axis.edges[1:]
                columns[f"{name}_low"], columns[f"{name}_high"] = ends[0][bins], ends[1][bins]
        flat = term.values.reshape(len(cells[0]), -1)
        for k, output in enumerate(self.schema.outputs):
            columns["value" if self._single else f"value_{output}"] = flat[:, k]
        columns["weight"] = term.weights.ravel()
        return frame(columns, self.backend)

    # Others made from it.

    def select(
        self, *, order: int | Collection[int] | None = None, features: Collection[str] | None = None
    ) -> Decomposition:
        """The terms of some orders and of some features only."""
        orders = None if order is None else {order} if isinstance(order, int) else set(order)
        names = None if features is None else self._checked_names(features)
        return self._keep(
            lambda key: (orders is None or len(key) in orders) and (names is None or set(self._names(key)) <= names)
        )

    def drop(self, *features: str | Collection[str]) -> Decomposition:
        """The terms without some features: what the model says without them."""
        lists = ((entry,) if isinstance(entry, str) else entry for entry in features)
        names = self._checked_names([name for entry in lists for name in entry])
        return self._keep(lambda key: not set(self._names(key)) & names)

    def _checked_names(self, features: Collection[str]) -> set[str]:
        names = {features} if isinstance(features, str) else set(features)
        unknown = names - set(self.schema.names)
        if unknown:
            raise ValueError(
                f"features must be the model's, got {', '.join(map(repr, sorted(unknown)))}; see fx.schema.names."
            )
        return names

    def _keep(self, wanted: Callable[[Key], bool]) -> Decomposition:
        def some(effects: Effects) -> Effects:
            terms = {key: values for key, values in effects.terms.items() if wanted(key)}
            return Effects(effects.grid, effects.intercept, terms)

        measured = {self._names(k): self.certificate.terms[self._names(k)] for k in self.effects.terms if wanted(k)}
        return dataclasses.replace(
            self,
            effects=some(self.effects),
            raw_effects=some(self.effects),  # raw terms of the same names would add up to another function
            certificate=dataclasses.replace(self.certificate, terms=measured),
            n_all_terms=self.n_all_terms or len(self.effects.terms),
            saved_moments=None,
        )

    def with_density(self, density: Any, data: Any = None, *, sample_weight: Any = None) -> Decomposition:
        """The same model purified under another density, or under the same kind with other rows."""
        check_weighted_rows(data, sample_weight)
        sample = self.density.sample if data is None else sample_of(data, self.grid, sample_weight)
        bound = density_of(density).bind(self.grid, sample)
        return purified(self.raw_effects, bound, like=self, n_all_terms=self.n_all_terms)

    def standard_errors(self, n_resamples: int = 50, random_state: int | None = None) -> dict[Names, Floats]:
        """Standard error of every value of every term that comes from knowing the density from its rows only.

        The rows are resampled with replacement and the terms purified anew each time; the model stays as it is.
        """
        sample = self.density.sample
        if sample is None:
            raise ValueError("standard_errors() must have the rows of the density, got none; decompose with X.")
        if self.n_all_terms:
            raise ValueError("standard_errors() must have all terms, got a part; take them before select() or drop().")
        if n_resamples < 2:
            raise ValueError(f"`n_resamples` must be at least 2, got {n_resamples!r}; 50 is the default.")
        rng = np.random.default_rng(self.random_state if random_state is None else random_state)
        draws = (rng.multinomial(sample.n_rows, sample.row_weights) / sample.n_rows for _ in range(n_resamples))
        totals = {key: np.zeros((2, *values.shape)) for key, values in self.effects.terms.items()}
        for weights in draws:
            density = self.density.bind(self.grid, sample.reweighted(weights))
            pure, _, _ = purify_effects(self.raw_effects, density, self.options, self.n_jobs)
            for key, total in totals.items():
                gap = pure.terms[key] - self.effects.terms[key]
                total += gap, gap**2
        return {self._names(key): self._deviation(total, n_resamples) for key, total in totals.items()}

    def _deviation(self, sums: Floats, n: int) -> Floats:
        """Standard deviation from the sums of n numbers and of their squares."""
        deviation: Floats = np.sqrt(np.maximum(sums[1] - sums[0] ** 2 / n, 0) / (n - 1))
        return deviation[..., 0] if self._single else deviation

    def __add__(self, other: Decomposition) -> Decomposition:
        """The sum of two models, pure under the density of the first."""
        if not isinstance(other, Decomposition):
            return NotImplemented
        return combine([self, other], [1.0, 1.0])

    def __sub__(self, other: Decomposition) -> Decomposition:
        """The difference of two models, pure under the density of the first.

        To see what a density changes in one model, use `treeanova.compare`.
        """
        if not isinstance(other, Decomposition):
            return NotImplemented
        return combine([self, other], [1.0, -1.0])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all but the rows and the model to one file; `treeanova.load` reads it."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        archive.write(path, *pack({**fields, "saved_moments": self.moments}))


def _same_axis(first: Axis, second: Axis) -> bool:
    if isinstance(first, IntervalAxis) and isinstance(second, IntervalAxis):
        return first.missing_bin == second.missing_bin and np.array_equal(first.bounds, second.bounds)
    return first.labels == second.labels


def purified(effects: Effects, density: Density, *, like: Decomposition | None = None, **fields: Any) -> Decomposition:
    """A decomposition of raw effects under a bound density; other fields as given, or like another's."""
    base: dict[str, Any] = (
        {}
        if like is None
        else {f: getattr(like, f) for f in ("options", "n_jobs", "backend", "random_state", "source")}
    )
    base |= fields
    options, n_jobs = base.get("options", Options()), base.get("n_jobs", 1)
    pure, weights, measured = purify_effects(effects, density, options, n_jobs)
    names = effects.grid.schema.names
    named = {tuple(names[j] for j in key): measured[key] for key in pure.terms}
    error = _difference(pure, effects, density.sample)
    certificate = Certificate(named, error, options.tol)
    if not certificate.met:
        report_impurity(certificate, strict=False)
    return Decomposition(
        effects=pure, raw_effects=effects, weights=weights, density=density, certificate=certificate, **base
    )


def _difference(pure: Effects, raw: Effects, sample: Sample | None) -> float:
    """Largest difference of pure and raw scores over at most a thousand rows, relative to the largest score."""
    if sample is None:
        codes = np.stack([np.arange(1000) % size for size in raw.grid.sizes], axis=1).astype(np.int32)
    else:
        codes = sample.codes[:: max(1, sample.n_rows // 1000)]
    expected = raw.score_codes(codes)
    return float(np.abs(pure.score_codes(codes) - expected).max() / max(np.abs(expected).max(), np.finfo(float).tiny))


def combine(parts: Sequence[Decomposition], factors: Sequence[float]) -> Decomposition:
    """Weighted sum of decompositions on the union of their bins, pure under the density of the first.

    Purification is linear: where all have the same density, the terms are the weighted sums of terms.
    """
    schemas = {(part.schema.outputs, part.schema.link) for part in parts}
    if len(schemas) > 1:
        raise ValueError("decompositions must have the same outputs and link to be combined, got others.")
    grid, maps = union([part.grid for part in parts])
    intercept = sum(f * part.raw_effects.intercept for f, part in zip(factors, parts, strict=True))
    terms: dict[Key, Floats] = {}
    for factor, part, old in zip(factors, parts, maps, strict=True):
        for key, values in part.raw_effects.terms.items():
            moved = factor * values[np.ix_(*(old[j] for j in key))]
            terms[key] = terms[key] + moved if key in terms else moved
    first = parts[0]
    sample = None if first.density.sample is None else first.density.sample.on(grid)
    effects = Effects(grid, np.asarray(intercept), terms)
    n_all_terms = max(part.n_all_terms for part in parts)
    return purified(effects, first.density.bind(grid, sample), like=first, n_all_terms=n_all_terms)


def mean(parts: Sequence[Decomposition]) -> Decomposition:
    """Mean of the models of some decompositions, as of a bag, pure under the density of the first.

    Exact, on the union of their bins.
    """
    if isinstance(parts, Decomposition) or not parts:
        raise ValueError("`parts` must be a list of at least one decomposition, got none; pass [fx1, fx2].")
    return combine(parts, [1 / len(parts)] * len(parts))


def load(path: str | os.PathLike[str]) -> Decomposition:
    """A decomposition saved before: all but the rows, so another density needs `X`."""
    header, arrays = archive.read(path)
    try:
        return Decomposition(**unpack(header, arrays))
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, ImportError) as error:
        name = os.fspath(path)
        raise ArchiveError(f"{name} must be a whole file saved by treeanova, got one that does not fit.") from error
