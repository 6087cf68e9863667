"""Decomposition: a model's intercept, pure main effects and pure interactions."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from treeanova.anova.certificate import Certificate
from treeanova.core.arrays import Floats, Key, Names, checked_whole, label_of
from treeanova.core.files import ARCHIVE, check_folder, check_suffix
from treeanova.core.progress import Clock, Progress, one_step, quiet, reporting
from treeanova.decomposition.algebra import Factors, Summand, check_editable, combined_source, factors_of, scaled
from treeanova.decomposition.answers import Answers
from treeanova.decomposition.certify import Score, certify, certify_raw, remainder_share
from treeanova.decomposition.importance import moments_take_long
from treeanova.decomposition.term import Evaluation, response_effects
from treeanova.density.kinds import Density, density_of
from treeanova.density.row_sources import check_weighted_rows, statistics_of
from treeanova.density.statistics import Statistics
from treeanova.errors import ArchiveError, DensityWarning
from treeanova.model.effects import Effects
from treeanova.model.grid import Binning
from treeanova.storage import archive
from treeanova.storage.saved import Saved, pack, unpack
from treeanova.storage.statistics import as_loaded, kept
from treeanova.terms.moments import Moments
from treeanova.terms.source import AdditiveModel, Settings, Source
from treeanova.terms.terms import Scope, Tensors, TermSet
from treeanova.views import caveats, html_summary, scale_of


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Decomposition(Answers):
    """A model as intercept + pure main effects + pure interactions under a density.

    `treeanova.decompose` makes it. Operations such as `select` or `with_density` return new decompositions.

    Attributes
    ----------
    source
        The model before purification; it scores rows exactly.
    termset
        The intercept and all terms; `terms` gives them by name.
    density
        The density, bound to the grid and to statistics of the rows.
    certificate
        Purity of all terms, and the largest difference of their sum, with the remainder, to the model's score.
    scope
        Whether these are all terms, those up to an order, or a selection.
    settings
        Method of purification, threads, data frame library of tables, seed.
    model
        The model that was passed to `decompose`; None for a decomposition from a file.
    saved_moments
        Variances and covariances of terms that were read from a file; None to compute them when they are needed.

    Examples
    --------
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> print(fx)
    Decomposition of 3 terms: 2 of order 1, 1 of order 2
      density auto, link identity: prediction
      orders 1 and 2 pure to 0.0e+00; sum of terms within 0.0e+00 of the model
    """

    source: Source
    termset: TermSet
    density: Density
    certificate: Certificate
    scope: Scope = dataclasses.field(default_factory=Scope)
    settings: Settings = dataclasses.field(default_factory=Settings)
    model: Any = None
    saved_moments: Moments | None = None

    # What it is.

    @property
    def effects(self) -> Effects:
        """Intercept and terms that have tables, on the grid; outputs last."""
        return self.termset.tables.effects

    @property
    def statistics(self) -> Statistics | None:
        """What was counted from the rows that define the density; None where there are no rows.

        Statistics of several lots of rows can be added up: ``fx.with_density("auto", january + february)``.
        """
        return self.density.statistics

    @functools.cached_property
    def weights(self) -> Mapping[Key, Floats]:
        """Weights of the cells of each term that has a table, by positions of features."""
        known = self.termset.tables.weights
        return {**known, **{key: self._table_weights(key) for key in self.effects.terms if key not in known}}

    @functools.cached_property
    def raw(self) -> Decomposition:
        """The same model with its terms as they were before purification, to compare."""
        terms = self.source.raw()
        scope = self.scope if self.scope.is_part else Scope()
        effects = terms.tables.effects
        weights = {key: self._weights_on(key, effects.binnings.get(key)) for key in effects.terms}
        certificate = certify_raw(self.certificate, self._names, effects.terms, weights)
        return self._with(termset=terms.with_weights(weights), certificate=certificate, scope=scope)

    def _weights_on(self, key: Key, binnings: Sequence[Binning] | None) -> Floats:
        """Weights of the cells of a term on given axes: those of its table where it has these axes."""
        own = self.effects.binnings.get(key)
        is_same = own is None if binnings is None else own is not None and all(map(Binning.equals, own, binnings))
        return self._table_weights(key) if is_same else self._shown_density.table(key, binnings)

    @functools.cached_property
    def evaluation(self) -> Evaluation:
        """The model and its terms at rows given by their bins, for code that works on bins."""
        return Evaluation(self.source, self.termset, self.scope, self.settings.n_jobs)

    def _with(self, **changes: Any) -> Decomposition:
        """The same with changes, without moments that were known."""
        return dataclasses.replace(self, **{"saved_moments": None, **changes})

    def _table_weights(self, key: Key) -> Floats:
        tensors = self.termset.tables
        known = tensors.weights.get(key)
        return self._shown_density.table(key, tensors.effects.binnings.get(key)) if known is None else known

    @property
    def _shown_density(self) -> Density:
        """The density whose weights terms are shown with."""
        return self.density.population if self.density.ranks_on_population else self.density

    def __repr__(self) -> str:
        tables = [len(key) for key in self.effects.terms]
        counts = ", ".join(f"{tables.count(order)} of order {order}" for order in sorted(set(tables)))
        at_rows = self.termset.keys_at_rows
        if at_rows:
            counts += f"; {len(at_rows):,} of higher orders at rows"
        if self.evaluation.rest_orders:
            counts += "; all others added up by order"
        if self.has_remainder:
            counts += "; a remainder"
        partial = f" (of {self.scope.n_terms})" if self.scope.is_part and not self.history else ""
        lines = [
            f"Decomposition of {len(self.termset.keys):,} terms{partial}: {counts or 'none'}",
            f"  density {self.density.name}, link {self.link}: {scale_of(self.schema)}{self._listed_outputs()}",
        ]
        if self.history:
            lines.append(f"  edited ({', '.join(self.history)}): no longer the model")
        return "\n".join([*lines, *(f"  {line}" for line in caveats(self))])

    def _listed_outputs(self) -> str:
        return "" if len(self.outputs) == 1 else f", outputs {', '.join(self.outputs)}"

    def _repr_html_(self) -> str:
        return html_summary(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Decomposition):
            return NotImplemented
        is_same_scope = self.has_remainder == other.has_remainder
        is_same_grid = self.grid.has_bins_of(other.grid)
        return is_same_grid and is_same_scope and self.termset.equals(other.termset)

    __hash__ = None  # type: ignore[assignment]

    # Others made from it.

    def select(
        self, *, order: int | Collection[int] | None = None, features: Collection[str] | None = None
    ) -> Decomposition:
        """The terms of some orders or some features only; their sum is a different function from the model.

        Parameters
        ----------
        order
            Order, or orders, of the terms to keep; all by default.
        features
            Terms whose features are all in this list are kept; all by default.

        Returns
        -------
        Decomposition
            The intercept and the terms that are kept.

        See Also
        --------
        truncate : Keeps the model, with higher orders in one remainder.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> list(fx.select(order=1).terms)
        [('x0',), ('x1',)]
        """
        orders = None if order is None else self._checked_orders(order)
        names = None if features is None else self._checked_names(features)
        return self._keep(
            lambda key: (orders is None or len(key) in orders) and (names is None or set(self._names(key)) <= names)
        )

    def drop(self, *features: str | Collection[str]) -> Decomposition:
        """The terms that do not contain some features; their sum is a different function from the model.

        This does not remove the influence of a feature: features that are correlated with it still carry part of it.

        Parameters
        ----------
        *features
            Names of features.

        Returns
        -------
        Decomposition
            The intercept and the terms that are kept.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> list(fx.drop("x1").terms)
        [('x0',)]
        """
        lists = ((entry,) if isinstance(entry, str) else entry for entry in features)
        names = self._checked_names([name for entry in lists for name in entry])
        return self._keep(lambda key: not set(self._names(key)) & names)

    def _checked_orders(self, order: int | Collection[int]) -> set[int]:
        orders = {order} if isinstance(order, str) or not isinstance(order, Iterable) else set(order)
        top = len(self.schema.names)
        for one in orders:
            if checked_whole("order", one, 1, "leave it out for all orders") > top:
                raise ValueError(
                    f"`order` must be at most {top}, the number of features, got {one}; choose a lower one."
                )
        return orders

    def _checked_names(self, features: Collection[str]) -> set[str]:
        names = {features} if isinstance(features, str) else set(features)
        unknown = names - set(self.schema.names)
        if unknown:
            raise ValueError(
                f"`features` must be the model's, got {', '.join(map(repr, sorted(unknown)))}; see "
                "fx.feature_names_in_."
            )
        return names

    def _keep(self, wanted: Callable[[Key], bool]) -> Decomposition:
        terms = self.termset.keep(wanted)
        n_terms = self.scope.n_terms or self.evaluation.n_parts
        certificate = self._certificate_of(terms)
        scope = Scope(n_terms=n_terms, edits=self.history)
        return self._with(source=AdditiveModel(terms), termset=terms, certificate=certificate, scope=scope)

    def _certificate_of(self, terms: TermSet) -> Certificate:
        names = {self._names(key) for key in terms.tables.keys}
        return self.certificate.of_terms(names, len(terms.keys_at_rows), has_rests=bool(terms.rest_orders))

    def truncate(self, max_order: int) -> Decomposition:
        """The same model with all terms above an order in one exact remainder.

        Parameters
        ----------
        max_order
            Highest order of the terms to keep.

        Returns
        -------
        Decomposition
            The same function, with a remainder where there are terms of higher order.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> mains = fx.truncate(1)
        >>> list(mains.terms), mains.has_remainder
        ([('x0',), ('x1',)], True)
        """
        terms = self.termset.up_to(checked_whole("max_order", max_order, 0, "1 keeps the main effects"))
        if len(terms.keys) == len(self.termset.keys) and terms.rest_orders == self.termset.rest_orders:
            return self
        if self.scope.is_part:
            return self._keep(lambda key: len(key) <= max_order)
        scope = Scope(order=max_order)
        evaluation = Evaluation(self.source, terms, scope, self.settings.n_jobs)
        share = remainder_share(evaluation, self.density.statistics)
        certificate = self._certificate_of(terms)
        higher = None if certificate.higher is None else certificate.higher.above(max_order)
        certificate = dataclasses.replace(certificate, higher=higher, remainder_share=share)
        return self._with(termset=terms, certificate=certificate, scope=scope)

    def scale(self, term: str | Collection[str] | Factors, factor: float | None = None) -> Decomposition:
        """The terms with one or several of them times a factor; their sum is a different function from the model.

        Scaled terms stay pure, and predictions change accordingly. `history` lists what was done, and the certificate
        says that the terms no longer add up to the model.

        Parameters
        ----------
        term
            Name of a feature for its main effect, names of several for an interaction, or a mapping from terms to
            factors.
        factor
            A finite number: 0.5 halves the term, 0 takes it out; left out where `term` is a mapping.

        Returns
        -------
        Decomposition
            The intercept and all terms.

        Raises
        ------
        ValueError
            Where the function is more than the sum of its terms, or where a term has no table.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> half = fx.scale({("x0", "x1"): 0.5})
        >>> half.decision_function(X).tolist()
        [-0.125, 0.125, 0.125, 0.875]
        >>> half.history
        ('x0 × x1 times 0.5',)
        """
        check_editable(self.evaluation)
        named = {self.terms.names_of(name): value for name, value in factors_of(term, factor).items()}
        terms = scaled(self.termset, {self._positions(name): value for name, value in named.items()}, self._names)
        return self._edited(terms, [f"{label_of(name)} times {value:g}" for name, value in named.items()])

    def _edited(self, terms: TermSet, edits: Sequence[str]) -> Decomposition:
        """Other terms as a new function, with what was done added to its history."""
        n_terms = self.scope.n_terms or self.evaluation.n_parts
        history = (*self.history, *edits)
        certificate = dataclasses.replace(self.certificate, edits=history)
        scope = Scope(n_terms=n_terms, edits=history)
        return self._with(source=AdditiveModel(terms), termset=terms, certificate=certificate, scope=scope, model=None)

    @property
    def history(self) -> tuple[str, ...]:
        """What was done to the terms by hand, the first edit first; empty for the terms of a model."""
        return self.scope.edits

    def on_response_scale(self, *, progress: bool | Progress | None = None) -> Decomposition:
        """The decomposition of the response, such as the probability, in place of the score: exact, from all cells.

        The inverse of the link is applied to the score in every cell of all features, and that table is purified under
        the same density. Terms then add up to the response. What is additive on one scale need not be on the other:
        expect interactions of all orders.

        Parameters
        ----------
        progress
            True for a progress bar, or a function, as for `decompose`.

        Returns
        -------
        Decomposition
            Its `decision_function` is the response of this one.

        Raises
        ------
        ValueError
            Where the score is the response already, or the response is not defined.
        BudgetError
            Where all features together have more than 262,144 cells, or are more than 12.

        See Also
        --------
        table : With `scale="response"`, what one term alone changes in the response; such changes do not add up.

        Examples
        --------
        The log-odds of a and b add up; their probabilities do not:

        >>> import treeanova
        >>> tables = {"a": [0.0, 2.0], "b": [0.0, 2.0]}
        >>> effects = treeanova.Effects.from_tables(tables, intercept=-4.0, link="logit")
        >>> fx = treeanova.decompose(effects, density="uniform").on_response_scale()
        >>> fx.terms["a", "b"].values.round(3).tolist()
        [[0.07, -0.07], [-0.07, 0.07]]
        >>> fx.decision_function([[0, 0], [1, 1]]).round(3).tolist()
        [0.018, 0.5]
        """
        source = AdditiveModel(Tensors(response_effects(self.evaluation)))
        with reporting(progress) as report:
            statistics = self.density.statistics
            bound = self.density.bind(source.grid, None if statistics is None else statistics.on(source.grid))
            fx = decomposed(source, bound, self.settings, progress=report)
        certificate = dataclasses.replace(fx.certificate, edits=self.history)
        return dataclasses.replace(fx, scope=self.scope, certificate=certificate) if self.scope.is_part else fx

    def cut(self, max_order: int) -> Decomposition:
        """Former name of `truncate`.

        Parameters
        ----------
        max_order
            Highest order of the terms to keep.

        Returns
        -------
        Decomposition
        """
        warnings.warn("cut() is now truncate()", DeprecationWarning, stacklevel=2)
        return self.truncate(max_order)

    @property
    def higher_terms(self) -> tuple[Names, ...]:
        """Former name of the terms without a table; see `terms` and `Term.has_table`."""
        warnings.warn("higher_terms: see Term.has_table in terms", DeprecationWarning, stacklevel=2)
        return tuple(self._names(key) for key in self.termset.keys_at_rows)

    def with_density(
        self, density: Any, X: Any = None, *, sample_weight: Any = None, progress: bool | Progress | None = None
    ) -> Decomposition:
        """The same model purified under another density, or under the same kind with other rows.

        Parameters
        ----------
        density
            As for `decompose`.
        X
            Rows that define the density, or their statistics; those of this decomposition by default.
        sample_weight
            Weights of the rows of `X`, or the name of the column that holds them.
        progress
            True for a progress bar, or a function, as for `decompose`.

        Returns
        -------
        Decomposition
            The same function, with other terms.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.with_density("uniform").density.name
        'uniform'
        """
        check_weighted_rows(X, sample_weight)
        with reporting(progress) as report:
            kind = density_of(density)
            counted = self.statistics if X is None else counted_for(self.source, kind, X, sample_weight)
            return purified_again(self, kind.bind(self.grid, counted), report)

    def __add__(self, other: Decomposition) -> Decomposition:
        """The sum of two models, pure under the density of the first."""
        if not isinstance(other, Decomposition):
            return NotImplemented
        return _combined([self, other], [1.0, 1.0])

    def __sub__(self, other: Decomposition) -> Decomposition:
        """The difference of two models, pure under the density of the first.

        To see what a density changes in one model, use `treeanova.compare`.
        """
        if not isinstance(other, Decomposition):
            return NotImplemented
        return _combined([self, other], [1.0, -1.0])

    # Files.

    def save(self, path: str | os.PathLike[str], *, rows: bool = True) -> None:
        """Write the decomposition, without the model, to one file; `treeanova.load` reads it.

        The file has what was counted from the rows of X, so that `with_density`, `importance`, `standard_errors` and
        reports need no X after loading: numbers of rows and sums of values by bin, ranges and quantiles of values, and
        a sample of at most 65,536 rows, each given by its bins, its weight and its number, not by its values. Where the
        sample is not all rows, tables of the numbers of rows in the cells of all terms are kept too. Ranges and
        quantiles are values of rows, one feature at a time, and so is the sum of a bin that has one row. Importances
        that take long, as those of forests and of thousands of terms, are in the file if they were asked for before.

        Parameters
        ----------
        path
            Path of the file, which ends in .tav; an existing file is replaced once the new one is complete.
        rows
            False leaves out the sample, and the sums of bins with fewer than ten rows, for files that may not hold
            rows. Standard errors, and terms without a table under another density, then need X.

        Examples
        --------
        >>> import pathlib, tempfile, treeanova
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "fx.tav"
        >>> fx.save(path)
        >>> treeanova.load(path) == fx
        True
        """
        check_suffix(path, ARCHIVE)
        check_folder(path, "fx.tav")
        parts = {name: getattr(self, name) for name in _SAVED} | {"saved_moments": self._known_moments(rows=rows)}
        archive.write(path, *pack(Saved(*parts.values()), rows=rows))

    def __getstate__(self) -> dict[str, Any]:
        """What `save` holds, for pickles: not the model, and of rows the bins of a sample."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        statistics = kept(self.statistics, self.termset.grid, self.source.wanted_tables())
        density = as_loaded(self.density, self.effects, self.termset.tables.weights, statistics)
        return fields | {"density": density, "model": None, "saved_moments": self._known_moments()}

    def _known_moments(self, *, rows: bool = True) -> Moments | None:
        """Moments for a file; None where they take long and follow from rows in it, or where rows are gone."""
        is_known = "moments" in self.__dict__ or self.saved_moments is not None
        if rows and not is_known and self.statistics is not None and moments_take_long(self.evaluation):
            return None
        try:
            return self.moments
        except ValueError:
            return None

    def __copy__(self) -> Decomposition:
        return self  # nothing in it changes, and a copy by way of pickle's state would lose the rows

    def __deepcopy__(self, memo: dict[int, Any]) -> Decomposition:
        return self


_SAVED = ("source", "termset", "density", "certificate", "scope", "settings", "saved_moments")


def one_cell_words(density: str) -> str:
    """What it means that a density has all its weight in one cell, and what to do."""
    return (
        f"all rows of the density {density!r} are in one cell of the model, so that every term is zero at these rows; "
        "pass the rows of a population as `X`, or density=Reference(row) to compare with one row."
    )


def counted_for(source: Source, kind: Density, X: Any, sample_weight: Any) -> Statistics | None:
    """Statistics of user data with all that a source needs under a kind of density; None without data."""
    if X is None:
        return None
    score = source.score if kind.is_empirical and source.is_sum_of_terms else None
    return statistics_of(X, source.grid, sample_weight, source.wanted_tables(), score)


def decomposed(
    source: Source,
    density: Density,
    settings: Settings,
    *,
    model: Any = None,
    oracle: Score | None = None,
    progress: Progress = quiet,
    clock: Clock | None = None,
) -> Decomposition:
    """The decomposition of a source under a density bound to its grid; `oracle` scores rows independently.

    `clock` has the time of the settings, and may have begun before.
    """
    if density.is_one_cell and not density.ranks_on_population:
        warnings.warn(one_cell_words(density.name), DensityWarning, stacklevel=3)
    clock = Clock(settings.seconds) if clock is None else clock
    pure = source.purify(density, settings, progress, clock)
    scope = Scope()
    if source.max_order is not None:
        limit = source.max_order
        higher = None if pure.higher is None else pure.higher.above(limit)
        pure = pure._replace(terms=pure.terms.up_to(limit), higher=higher)
        scope = Scope(order=limit)
    evaluation = Evaluation(source, pure.terms, scope, settings.n_jobs)
    certificate = certify(evaluation, pure, density, settings.options, oracle, clock=clock)
    terms = pure.terms
    if density.ranks_on_population:
        effects = terms.tables.effects
        tables = {key: density.population.table(key, effects.binnings.get(key)) for key in effects.terms}
        terms = terms.with_weights(tables)
    return Decomposition(source, terms, density, certificate, scope, settings, model)


def purified_again(fx: Decomposition, density: Density, progress: Progress = quiet) -> Decomposition:
    """The same model under another density that is bound to its grid, with the same orders or selection of terms."""
    source = fx.source if fx.scope.order is None else fx.source.up_to(fx.scope.order)
    again = decomposed(source, density, fx.settings, model=fx.model, progress=progress)
    if fx.scope.order is not None:
        return again.truncate(fx.scope.order)
    if not fx.scope.is_part:
        return again
    certificate = dataclasses.replace(again.certificate, edits=fx.history)
    return dataclasses.replace(again, scope=fx.scope, certificate=certificate)


def _combined(parts: Sequence[Decomposition], factors: Sequence[float], progress: Progress = quiet) -> Decomposition:
    """Weighted sum of the models of decompositions, on the union of their bins, pure under the density of the first.

    The sum of the models is purified again. Where densities and bins are the same, its terms are the weighted sums of
    terms, since purification is linear.
    """
    with one_step(progress, "sum of the models"):
        source = combined_source([Summand(p.source, p.scope, p.density, p.model) for p in parts], factors)
    first = parts[0]
    statistics = first.density.statistics
    bound = first.density.bind(source.grid, None if statistics is None else statistics.on(source.grid))
    fx = decomposed(source, bound, first.settings, progress=progress)
    n_terms = max((part.scope.n_terms or 0 for part in parts), default=0)
    orders = [part.scope.order for part in parts if part.scope.order is not None]
    if n_terms:
        return dataclasses.replace(fx, scope=Scope(n_terms=n_terms))
    return fx.truncate(min(orders)) if orders else fx


def mean(parts: Sequence[Decomposition], *, progress: bool | Progress | None = None) -> Decomposition:
    """The decomposition of the mean of several models, such as those of a bag: exact, on the union of their bins.

    Parameters
    ----------
    parts
        Decompositions of models with the same features and outputs; the density of the first is used.
    progress
        True for a progress bar, or a function, as for `decompose`.

    Returns
    -------
    Decomposition
        Its score is the mean of the scores of `parts`.

    Examples
    --------
    >>> import treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> treeanova.mean([fx, fx]).intercept
    0.25
    """
    if isinstance(parts, Decomposition) or not parts:
        raise ValueError(f"`parts` must be a list of at least one decomposition, got {parts!r}; pass [fx1, fx2].")
    with reporting(progress) as report:
        return _combined(parts, [1 / len(parts)] * len(parts), report)


_DAMAGE = (
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ImportError,
    ArithmeticError,
    MemoryError,
    RecursionError,
)


def load(path: str | os.PathLike[str]) -> Decomposition:
    """A decomposition from a file, with the statistics of its rows.

    Parameters
    ----------
    path
        A file written by `Decomposition.save`.

    Returns
    -------
    Decomposition
        The same intercept, terms, tables and certificate. Large tables that follow from trees or marginals are not in
        the file; they are the same up to rounding.

    Examples
    --------
    >>> import pathlib, tempfile, treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "fx.tav"
    >>> fx.save(path)
    >>> treeanova.load(path).intercept
    0.25
    """
    header, arrays = archive.read(path)
    try:
        fx = _decomposition(unpack(header, arrays))
    except _DAMAGE as error:
        name = pathlib.Path(path).name
        raise ArchiveError(f"{name} must be a whole file saved by treeanova, got one that does not fit.") from error
    return fx


def _decomposition(saved: Saved) -> Decomposition:
    """The decomposition of what a file holds; ValueError where moments are those of other terms."""
    source, terms, density, certificate, scope, settings, moments = saved
    fx = Decomposition(source, terms, density, certificate, scope, settings, saved_moments=moments)
    if moments is not None and len(moments.variance) != fx.evaluation.n_parts:
        raise ValueError(f"moments must be of {fx.evaluation.n_parts} terms, got {len(moments.variance)}")
    return fx
