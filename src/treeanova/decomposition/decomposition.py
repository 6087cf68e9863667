"""Decomposition: a model's intercept, pure main effects and pure interactions, and all that one asks of them."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.anova.certificate import Certificate, TermCertificate, impurity
from treeanova.anova.purification import Options, cascade, report_impurity
from treeanova.anova.slices import largest
from treeanova.anova.support import is_product
from treeanova.core.arrays import BinIndices, Floats, Key, Names
from treeanova.core.blas import single_threaded
from treeanova.core.labels import label_of
from treeanova.core.progress import Progress, quiet
from treeanova.data.columns import encode
from treeanova.data.features import Schema
from treeanova.data.frames import backend_of, frame, free_name
from treeanova.decomposition.explanation import Explanation
from treeanova.decomposition.importance import feature_shares, ranked_columns
from treeanova.decomposition.rowwise import AtRows
from treeanova.decomposition.term import Term, Terms, columns_of
from treeanova.density.kinds import Density, Sample, check_weighted_rows, density_of, sample_of
from treeanova.errors import ArchiveError
from treeanova.model.effects import Effects
from treeanova.model.forest import Forest, weighted_sum
from treeanova.model.grid import Grid
from treeanova.model.links import class_probabilities, respond
from treeanova.model.union import union
from treeanova.readers import read_model
from treeanova.storage import archive
from treeanova.storage.fields import NoRowsError, pack, unpack, without_rows
from treeanova.terms.deep import Deep, Layout, deepen, forest_sets, layout_of, prepare, raw_tensors, selected
from treeanova.terms.expand import DEFAULT_BUDGET, expand
from treeanova.terms.leafsets import LeafSets
from treeanova.terms.moments import Moments, covariance_changes, moments, moments_of_values
from treeanova.views.summary import caveats, html_summary

_DEFAULTS = Options()
_DRAWS = 20_000
_DEEP_ROWS = 500, 4_000
_DEEP_STEPS = 2.0**33


def purify_effects(
    effects: Effects, density: Density, options: Options, n_jobs: int, progress: Progress = quiet
) -> tuple[Effects, dict[Key, Floats], dict[Key, TermCertificate]]:
    """Pure effects under a density, the weights of their terms, and what was measured on each."""
    if not effects.terms:
        return effects, {}, {}
    weights: dict[Key, Floats] = {}

    def table(key: Key) -> Floats:
        weights[key] = density.table(key)
        return weights[key]

    raw = {key: np.ascontiguousarray(np.moveaxis(values, -1, 0)) for key, values in effects.terms.items()}
    with single_threaded():
        result = cascade(raw, table, options, n_jobs, progress)
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
        What was purified: the same model as its trees hold it, or the low orders of a deep one for independent
        features.
    weights
        Weights of the cells of each term, by positions of features.
    density
        The density, bound to the grid and the rows.
    certificate
        Purity of every term, and the largest difference of the sum of terms, with the remainder, to the score of the
        model's own trees at some of the rows (to its raw effects, where made from another decomposition or without).
    backend
        Name of the data frame library for tables.
    deep
        The trees and their terms of high order, which are evaluated at rows; None where tensors hold all terms.
    is_cut
        Whether terms above an order asked for were put into the remainder.
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
    deep: Deep | None = None
    is_cut: bool = False

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
        """Mapping from names of features to terms that are tensors; `higher_terms` names the others."""
        return Terms([self._names(key) for key in self.effects.terms], self._term, self.higher_terms)

    @property
    def higher_terms(self) -> tuple[Names, ...]:
        """Names of the terms of a deep ensemble that have no tensor and are evaluated at rows."""
        return () if self.deep is None else tuple(self._names(key) for key in self.deep.keys)

    @property
    def has_remainder(self) -> bool:
        """Whether the model is more than the sum of the terms told apart; `remainder` gives the rest."""
        return self.at_rows.has_remainder

    @property
    def keys(self) -> list[Key]:
        """Positions of the features of all terms told apart: tensors, then those at rows."""
        return self.at_rows.keys

    @functools.cached_property
    def raw(self) -> Decomposition:
        """The model before purification, to compare."""
        if self.deep is not None and not self.n_all_terms:
            return self._raw_deep(self.deep)
        return self._holding(self.raw_effects)

    def _raw_deep(self, deep: Deep) -> Decomposition:
        """Leaves with few features as tensors, all others at rows."""
        trees = deep.as_held()
        effects = raw_tensors(trees)
        return dataclasses.replace(self._holding(effects), raw_effects=effects, deep=trees)

    def _holding(self, effects: Effects) -> Decomposition:
        """The same with other effects, which are not pure: what is left of slices is measured."""
        known = self.certificate.terms
        weights = {key: self._weights_of(key) for key in effects.terms}
        measured = {}
        for key, values in effects.terms.items():
            outputs_first = np.moveaxis(values, -1, 0)
            found = impurity(outputs_first, weights[key], largest(np.ascontiguousarray(outputs_first)))
            if self._names(key) in known:
                measured[self._names(key)] = dataclasses.replace(known[self._names(key)], impurity=found, method="none")
        certificate = dataclasses.replace(self.certificate, terms=measured, higher=None)
        return dataclasses.replace(
            self, effects=effects, weights=weights, certificate=certificate, saved_moments=None, is_cut=False
        )

    @property
    def _single(self) -> bool:
        return self.effects.n_outputs == 1

    def _weights_of(self, key: Key) -> Floats:
        return self.weights[key] if key in self.weights else self.density.table(key)

    def _names(self, key: Key) -> Names:
        names = self.schema.names
        return tuple(names[j] for j in key)

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
        if self.higher_terms:
            counts += f"; {len(self.higher_terms):,} of higher orders at rows"
        if self.has_remainder:
            counts += "; a remainder"
        partial = f" (of {self.n_all_terms})" if self.n_all_terms else ""
        lines = [
            f"Decomposition of {len(orders)} terms{partial}: {counts or 'none'}",
            f"  density {self.density.name}, link {self.schema.link}, outputs {', '.join(self.schema.outputs)}",
        ]
        return "\n".join([*lines, *(f"  {line}" for line in caveats(self))])

    def _repr_html_(self) -> str:
        return html_summary(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Decomposition):
            return NotImplemented
        ours, theirs = self.effects, other.effects
        return (
            self.grid.has_bins_of(other.grid)
            and self.keys == other.keys
            and self.has_remainder == other.has_remainder
            and ours.terms.keys() == theirs.terms.keys()
            and (self.deep is None or other.deep is None or self.deep.has_terms_of(other.deep))
            and np.array_equal(ours.intercept, theirs.intercept)
            and all(np.array_equal(ours.terms[key], theirs.terms[key]) for key in ours.terms)
        )

    __hash__ = None  # type: ignore[assignment]

    # What it says of rows.

    def decision_function(self, X: Any) -> Floats:
        """The score: equal to the library's raw prediction; shape (n_rows,), or (n_rows, n_outputs)."""
        score = self.at_rows.score(encode(X, self.schema))
        return score[:, 0] if self._single else score

    def predict(self, X: Any) -> Floats:
        """The response: means, or probabilities (of the second class where there are two)."""
        response = respond(self.schema, self.at_rows.score(encode(X, self.schema)))
        return response[:, 0] if self._single else response

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of all classes, shape (n_rows, n_classes)."""
        return class_probabilities(self.schema, self.at_rows.score(encode(X, self.schema)))

    @functools.cached_property
    def at_rows(self) -> AtRows:
        """The model and its terms at rows."""
        return AtRows(self.effects, self.raw_effects, self.deep, self.is_cut, self.n_all_terms, self.n_jobs)

    def term_values(self, X: Any, key: str | Collection[str]) -> Floats:
        """One term at rows, shape (n_rows,), or (n_rows, n_outputs); of a deep ensemble any term of any order."""
        values: Floats = self.at_rows.terms(self.at_rows.grid.index(X), [self._any_key(key)])[0]
        return values[:, 0] if self._single else values

    def _any_key(self, key: str | Collection[str]) -> Key:
        """Positions of the features of a term, be it a tensor or evaluated at rows."""
        names = [key] if isinstance(key, str) else list(key)
        known = self.schema.names
        if self.deep is not None and all(name in known for name in names):
            positions = tuple(sorted({known.index(name) for name in names}))
            is_there = positions in self.deep.keys if self.n_all_terms else self.deep.holds(positions)
            if positions not in self.effects.terms and len(positions) == len(names) and is_there:
                return positions
        return self._key(key)

    def remainder(self, X: Any) -> Floats:
        """The model minus intercept and terms told apart, at rows: shape (n_rows,), or (n_rows, n_outputs)."""
        explained = self.explain(X)
        return np.zeros(explained.scores.shape) if explained.remainder is None else explained.remainder

    def explain(self, X: Any, *, max_order: int | None = None) -> Explanation:
        """All terms at rows, or those up to an order; the rest of the score is then in `Explanation.remainder`."""
        encoded = encode(X, self.schema)
        keys = [key for key in self.keys if max_order is None or len(key) <= max_order]
        by_row = np.moveaxis(self.at_rows.terms(self.at_rows.grid.index_encoded(encoded), keys), 0, 1)
        rest = None
        if self.has_remainder or len(keys) < len(self.keys):
            rest = self.at_rows.score(encoded) - self.effects.intercept - by_row.sum(axis=1)
        return Explanation(
            values=by_row[:, :, 0] if self._single else by_row,
            terms=tuple(self._names(key) for key in keys),
            intercept=self.intercept,
            features=self.schema.names,
            outputs=self.schema.outputs,
            backend=backend_of(X),
            data=X,
            remainder=rest[:, 0] if rest is not None and self._single else rest,
        )

    # What it says of the model.

    @functools.cached_property
    def moments(self) -> Moments:
        """Variance, covariance with the rest, and mean absolute value of each term and output."""
        if self.saved_moments is not None:
            return self.saved_moments
        joint = None if self._is_uncorrelated else self.density.joint
        if self.deep is not None or self.is_cut:
            found = moments_of_values(self.at_rows.all_terms(self._some_rows[0]), self._some_rows[1])
            found = found.with_tables(self.effects.terms, self.weights, uncorrelated=joint is None)
        elif not self.effects.terms:
            return Moments(*np.zeros((3, 0, self.effects.n_outputs)))
        else:
            found = moments(self.effects.terms, self.weights, joint, np.random.default_rng(self.random_state))
        differences = {} if joint is None else self._differences
        if not differences:
            return found
        return found.with_covariances(covariance_changes(self.effects.terms, self.weights, differences))

    @property
    def _differences(self) -> dict[Key, Floats]:
        """Tables of pairs minus those of the joint density, where they differ."""
        pairs = ((key, self.density.difference(key)) for key in self.weights if len(key) == 2)
        return {key: gap for key, gap in pairs if gap is not None}

    @property
    def _is_uncorrelated(self) -> bool:
        """Whether terms are pure under independent features, so that they have no covariances."""
        was_made = all(term.method != "none" for term in self.certificate.terms.values())
        is_pure = was_made and self.certificate.met and (self.deep is None or self.deep.is_exact)
        return is_pure and self.density.is_product and all(map(is_product, self.weights.values()))

    @functools.cached_property
    def _some_rows(self) -> tuple[BinIndices, Floats]:
        """Bins on the model's grid and weights of rows that stand for the density, fewer where they would take long."""
        rng = np.random.default_rng(self.random_state)
        points = self.density.points(_DRAWS, rng) if self.deep is None else self.deep.points(self.density, _DRAWS, rng)
        codes, weights = points
        n = _DEEP_ROWS[1] if self.deep is None else int(np.clip(_DEEP_STEPS / self.deep.row_cost, *_DEEP_ROWS))
        if len(codes) <= n:
            return codes, weights
        some = rng.choice(len(codes), size=n, p=weights / weights.sum())
        return codes[some], np.full(n, 1 / n)

    @property
    def density_rows(self) -> tuple[BinIndices, Floats]:
        """Bins on the grid of `at_rows`, and weights, of up to some thousand rows that stand for the density."""
        return self._some_rows

    def variance_share(self, key: str | Collection[str]) -> float | Floats:
        """Variance of one term over that of the score, at some rows; of a deep ensemble also of a term not listed."""
        codes, weights = self._some_rows
        at_rows = self.at_rows
        both = np.stack([at_rows.terms(codes, [self._any_key(key)])[0], at_rows.score(at_rows.grid.encoded(codes))])
        term, score = moments_of_values(both, weights).variance
        share = np.divide(term, score, out=np.zeros_like(term), where=score > 0)
        return float(share[0]) if self._single else share

    def importance(self, by: str = "term") -> Any:
        """Table of what each term, or feature, does to the score: the strongest first.

        Parameters
        ----------
        by
            "term", or "feature": each term is then shared equally by its features.

        Notes
        -----
        Rows are in the order of `variance`: how much the score varies through the term alone, relative to the variance
        of the score. That is what the squared error of a well-fitted model would grow by without the term.
        `covariance` is what the term adds or takes away by its correlation with all other terms, and
        ``share = variance + covariance``; shares add up to 1 over terms. `mean_abs` is the mean absolute effect.

        A share is negative where a term works against others that it is correlated with. It then makes the score vary
        less, and may do a lot all the same: clear diamonds are small ones, so clarity evens out part of what size does
        to the price. Nothing is therefore ordered by share.

        What terms told apart leave of a model is the row "remainder", whose order is the lowest in it. Of deep
        ensembles, and with a remainder, up to 4,000 rows are looked at, 500 of the largest.
        """
        if by not in {"term", "feature"}:
            raise ValueError(f"`by` must be 'term' or 'feature', got {by!r}; leave it out for 'term'.")
        found = self.moments
        total = (found.variance + found.covariance).sum(axis=0)
        scale = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        measures = np.stack([found.variance * scale, found.covariance * scale, found.mean_abs])
        if by == "term":
            labels, orders = [label_of(self._names(key)) for key in self.keys], list(map(len, self.keys))
            orders += [max(orders, default=0) + 1] * self.has_remainder
        else:
            labels, orders = list(self.schema.names), []
            shares = feature_shares(self.keys, len(labels), has_remainder=self.has_remainder)
            measures = np.einsum("mtk,tf->mfk", measures, shares)
        labels += [free_name("remainder", labels)] * self.has_remainder
        return frame(ranked_columns(by, labels, orders, self.schema.outputs, measures), self.backend)

    def table(self, key: str | Collection[str]) -> Any:
        """Tidy table of one term: a row per cell with labels and ends of its bins, value and weight."""
        return frame(columns_of(self.terms[key]), self.backend)

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

        deep = None if self.deep is None else selected(self.deep, wanted)
        known = self.certificate.terms
        measured = {
            self._names(k): known[self._names(k)] for k in self.effects.terms if wanted(k) and self._names(k) in known
        }
        return dataclasses.replace(
            self,
            effects=some(self.effects),
            raw_effects=some(self.effects),  # raw terms of the same names would add up to another function
            certificate=self._part_of_certificate(measured, deep),
            n_all_terms=self.n_all_terms or len(self.keys) + self.has_remainder,
            saved_moments=None,
            deep=deep,
            is_cut=False,
        )

    def _part_of_certificate(self, terms: Mapping[Names, TermCertificate], deep: Deep | None) -> Certificate:
        higher = self.certificate.higher
        if higher is not None and deep is not None:
            higher = dataclasses.replace(higher, n_terms=len(deep.keys))
        return dataclasses.replace(self.certificate, terms=terms, higher=higher, remainder_share=None)

    def with_density(self, density: Any, X: Any = None, *, sample_weight: Any = None) -> Decomposition:
        """The same model purified under another density, or under the same kind with other rows."""
        check_weighted_rows(X, sample_weight)
        sample = self.density.sample if X is None else sample_of(X, self.grid, sample_weight)
        bound = density_of(density).bind(self.grid, sample)
        if self.deep is None:
            made = purified(self.raw_effects, bound, like=self, n_all_terms=self.n_all_terms)
            return made.cut(max(map(len, self.effects.terms), default=0)) if self.is_cut else made
        if self.n_all_terms:
            raise ValueError(
                "with_density() of a deep ensemble must have all terms, got a part; call it before select()."
            )
        made = purified_deep(self.deep.as_held(), bound, like=self)
        return made.cut(max(map(len, self.keys), default=0)) if self.is_cut else made

    def cut(self, max_order: int) -> Decomposition:
        """The same model with all terms above an order in the remainder."""
        kept = {key: values for key, values in self.effects.terms.items() if len(key) <= max_order}
        deep = None if self.deep is None else selected(self.deep, lambda key: len(key) <= max_order)
        if len(kept) == len(self.effects.terms) and (deep is None or self.deep is None or deep.keys == self.deep.keys):
            return self
        if self.n_all_terms:
            return self._keep(lambda key: len(key) <= max_order)
        named = {names: found for names, found in self.certificate.terms.items() if len(names) <= max_order}
        return dataclasses.replace(
            self,
            effects=Effects(self.grid, self.effects.intercept, kept),
            certificate=self._part_of_certificate(named, deep),
            saved_moments=None,
            deep=deep,
            is_cut=True,
        )

    def standard_errors(self, n_resamples: int = 50, random_state: int | None = None) -> dict[Names, Floats]:
        """Standard error of every value of every term that comes from knowing the density from its rows only.

        The rows are resampled with replacement and the terms purified anew each time; the model stays as it is. Of deep
        ensembles, what high orders give to tensors stays as it is too, so that errors are somewhat too small.
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
            density = self.density.resampled(sample.reweighted(weights))
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
        archive.write(path, *pack(self.__getstate__()))

    def __getstate__(self) -> dict[str, Any]:
        """What `save` holds, for pickles: neither rows nor model."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        density = without_rows(self.density, self.grid, self.weights)
        return fields | {"density": density, "source": None, "saved_moments": self._known_moments()}

    def _known_moments(self) -> Moments | None:
        """Moments; None where they need rows that are gone."""
        try:
            return self.moments
        except NoRowsError:
            return None

    def __copy__(self) -> Decomposition:
        return self  # nothing in it changes, and a copy by way of pickle's state would lose the rows

    def __deepcopy__(self, memo: dict[int, Any]) -> Decomposition:
        return self


def purified(
    effects: Effects,
    density: Density,
    *,
    like: Decomposition | None = None,
    progress: Progress = quiet,
    **fields: Any,
) -> Decomposition:
    """A decomposition of raw effects under a bound density; other fields as given, or like another's."""
    base = _base(like) | fields
    options, n_jobs = base.get("options", Options()), base.get("n_jobs", 1)
    pure, weights, measured = purify_effects(effects, density, options, n_jobs, progress)
    names = effects.grid.schema.names
    named = {tuple(names[j] for j in key): measured[key] for key in pure.terms}
    error = _difference(pure, effects, density.sample)
    has_higher = base.get("deep") is not None or max(map(len, weights), default=0) > 2
    gaps = [density.gap(key) for key in weights if len(key) == 2] if has_higher else []
    certificate = Certificate(named, error, options.tol, density_gap=max(gaps, default=0.0))
    if not certificate.tables_met:
        report_impurity(certificate, strict=False)
    return Decomposition(
        effects=pure, raw_effects=effects, weights=weights, density=density, certificate=certificate, **base
    )


def _base(like: Decomposition | None) -> dict[str, Any]:
    if like is None:
        return {}
    return {name: getattr(like, name) for name in ("options", "n_jobs", "backend", "random_state", "source")}


def purified_deep(
    trees: Deep, density: Density, *, like: Decomposition | None = None, progress: Progress = quiet, **fields: Any
) -> Decomposition:
    """A decomposition of a deep ensemble under a bound density; other fields as given, or like another's."""
    base = _base(like) | fields
    with single_threaded():
        deep, low = deepen(trees, density, n_jobs=base.get("n_jobs", 1), progress=progress)
    fx = purified(low, density, deep=deep, progress=progress, **base)
    return dataclasses.replace(fx, certificate=dataclasses.replace(fx.certificate, higher=deep.summary())).cut(
        deep.layout.row_order
    )


def _difference(pure: Effects, raw: Effects, sample: Sample | None) -> float:
    """Largest difference of pure and raw scores over at most a thousand rows, relative to the largest score."""
    if sample is None:
        codes = np.stack([np.arange(1000) % size for size in raw.grid.sizes], axis=1).astype(np.int32)
    else:
        codes = sample.codes[:: max(1, sample.n_rows // 1000)]
    expected = raw.score_codes(codes)
    return float(np.abs(pure.score_codes(codes) - expected).max() / max(np.abs(expected).max(), np.finfo(float).tiny))


def purified_forest(
    forest: Forest, sets: LeafSets, layout: Layout, density: Density, sample: Sample | None, **fields: Any
) -> Decomposition:
    """A decomposition of a forest under a density that is yet to be bound, as its layout says."""
    if layout.is_dense:
        return purified(expand(sets), density.bind(sets.grid, sample), **fields).cut(layout.row_order)
    trees = prepare(forest, sets, layout, sample)
    bound = density.bind(trees.tensor_grid, None if sample is None else sample.on(trees.tensor_grid))
    return purified_deep(trees, bound, **fields)


def combine(parts: Sequence[Decomposition], factors: Sequence[float]) -> Decomposition:
    """Weighted sum of the models of decompositions, on the union of their bins, pure under the density of the first.

    The sum of the models is purified anew. Where densities and bins are the same, its terms are the weighted sums of
    terms, since purification is linear.
    """
    schemas = {(part.schema.outputs, part.schema.link) for part in parts}
    if len(schemas) > 1:
        raise ValueError(
            f"decompositions must have the same outputs and link to be combined, got {' and '.join(map(str, schemas))}."
        )
    orders = [max(map(len, part.keys), default=0) for part in parts if part.is_cut]
    if any(part.deep is not None for part in parts):
        combined = _combined_forests(parts, factors)
    else:
        combined = _combined_effects(parts, factors)
    return combined.cut(min(orders)) if orders else combined


def _combined_effects(parts: Sequence[Decomposition], factors: Sequence[float]) -> Decomposition:
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


def _combined_forests(parts: Sequence[Decomposition], factors: Sequence[float]) -> Decomposition:
    """The trees of all models together, decomposed as one."""
    forest = weighted_sum([_forest_of(part) for part in parts], factors)
    sets = forest_sets(forest)
    layout = layout_of(sets, budget=DEFAULT_BUDGET)
    first = parts[0]
    sample = None if first.density.sample is None else first.density.sample.on(sets.grid)
    return purified_forest(forest, sets, layout, first.density, sample, **(_base(first) | {"source": None}))


def _forest_of(part: Decomposition) -> Forest:
    if part.n_all_terms:
        raise ValueError(
            "decompositions of deep ensembles must have all terms to be combined, got a selection; combine them before "
            "select() or drop()."
        )
    if part.deep is not None:
        return part.deep.forest
    found = None if part.source is None else read_model(part.source)
    if found is None or isinstance(found, Effects):
        raise ValueError(
            "decompositions must all hold their trees to be combined with a deep ensemble, got one without, as of an "
            "EBM or from a file; decompose the models anew."
        )
    return dataclasses.replace(found, schema=part.schema)


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
