"""Decomposition: a model's intercept, pure main effects and pure interactions."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, ClassVar

from treeanova.anova.certificate import Certificate
from treeanova.core.arrays import Key, checked_whole
from treeanova.core.files import ARCHIVE, check_folder, check_suffix
from treeanova.core.progress import Clock, Progress, one_step, quiet, reporting
from treeanova.decomposition.answers import caveats, html_summary, is_in_one_cell, one_cell_words
from treeanova.decomposition.certify import Score, certify, certify_raw, remainder_share
from treeanova.decomposition.editing import Editing
from treeanova.decomposition.function import Function, combined_source, response_effects
from treeanova.decomposition.importance import moments_take_long
from treeanova.decomposition.predictions import function_of
from treeanova.decomposition.simplify import HeldRows, Simplification
from treeanova.decomposition.simplify import Options as SimplifyOptions
from treeanova.density.base import Density
from treeanova.density.kinds import density_of
from treeanova.density.statistics import Statistics, check_weighted_rows, statistics_of
from treeanova.errors import ArchiveError, DensityWarning
from treeanova.storage import codec
from treeanova.storage.saved import Saved, pack, unpack
from treeanova.storage.statistics import after_saving, describe_density, restore_density
from treeanova.terms.moments import Moments
from treeanova.terms.source import AdditiveModel, Settings, Source
from treeanova.terms.terms import Edit, Scope, TermSet
from treeanova.views import first_texts, scale_of

_SAME = object()  # for arguments that are left out where None has a meaning
# What a file that does not fit may raise.
_DAMAGE = LookupError, ValueError, TypeError, AttributeError, ImportError, ArithmeticError, MemoryError, RecursionError


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Decomposition(Editing):
    """A model as intercept + pure main effects + pure interactions under a density.

    `treeanova.decompose` makes it. Operations such as `select` or `with_density` return new decompositions.

    Attributes
    ----------
    density
        The density, bound to the grid and to statistics of the rows.
    certificate
        Purity of all terms, and the largest difference of their sum, with the remainder, to the model's score.
    model
        The model that was passed to `decompose`; None for a decomposition from a file.

    Examples
    --------
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> print(fx)
    Decomposition of 3 terms: 2 of order 1, 1 of order 2
      density: auto; scale: prediction (identity link)
      orders 1 and 2 pure to 0.0e+00; sum of terms within 0.0e+00 of the model
    """

    @property
    def statistics(self) -> Statistics | None:
        """Counts of the rows that define the density; None without rows.

        Statistics of several sets of rows can be added: ``fx.with_density("auto", january + february)``.
        """
        return self.density.statistics

    @functools.cached_property
    def raw(self) -> Decomposition:
        """The same model with its terms before purification, to compare."""
        terms, scope = self._function.source.raw(), dataclasses.replace(self._function.scope, order=None)
        effects = terms.effects
        weights = {key: self._weights_on(key, effects.binnings.get(key)) for key in effects.terms}
        terms = dataclasses.replace(terms, weights=weights)
        function = dataclasses.replace(self._function, terms=terms, scope=scope)
        is_cut = self._function.scope.order is not None
        certificate = certify_raw(self.certificate, function, self.density, is_cut=is_cut)
        return self._with(terms=terms, scope=scope, certificate=certificate)

    def _with(self, *, certificate: Certificate, model: Any = _SAME, **changes: Any) -> Decomposition:
        """Return the same with another source, terms or scope, and without cached moments; it cannot be undone."""
        function = dataclasses.replace(self._function, **changes)
        function = dataclasses.replace(function, scope=dataclasses.replace(function.scope, edits=tuple(self.history)))
        model = self.model if model is _SAME else model
        return Decomposition(function, self.density, certificate, self._settings, model)

    def __repr__(self) -> str:
        function, scope = self._function, self._function.scope
        orders = [len(key) for key in function.effects.terms]
        at_rows = function.terms.keys_at_rows
        counts = [
            ", ".join(f"{orders.count(order)} of order {order}" for order in sorted(set(orders))),
            f"{len(at_rows):,} of higher orders at rows" if at_rows else "",
            "all others added up by order" if function.unlisted_orders else "",
            "a remainder" if self.has_remainder else "",
        ]
        partial = "" if scope.words or not scope.is_part else f" (of {scope.n_terms})"
        source = function.source
        if partial and isinstance(source, AdditiveModel) and not {*function.terms.keys} <= {*source.terms.keys}:
            partial = f", of a selection from the model's {scope.n_terms}"
        outputs = "" if self._has_one_output else f"; outputs: {', '.join(self.outputs)}"
        lines = [
            f"Decomposition of {len(self):,} terms{partial}: {'; '.join(filter(None, counts)) or 'none'}",
            f"  density: {self.density.name}; scale: {scale_of(self.schema)} ({self.schema.link} link){outputs}",
        ]
        if scope.words:
            lines.append(f"  edited ({', '.join(scope.words)}): no longer the model")
        return "\n".join([*lines, *(f"  {line}" for line in caveats(self))])

    def _repr_html_(self) -> str:
        return html_summary(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Decomposition):
            return NotImplemented
        is_alike = self.grid.has_bins_of(other.grid) and self.has_remainder == other.has_remainder
        return is_alike and self._function.terms.equals(other._function.terms)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def select(
        self,
        *,
        order: int | Collection[int] | None = None,
        features: Collection[str] | None = None,
        terms: Collection[str | Collection[str]] | None = None,
    ) -> Decomposition:
        """Select terms by order, features or name; their sum is a different function from the model.

        Parameters
        ----------
        order
            Order, or orders, of the terms to keep; all by default.
        features
            Features of the terms to keep: a term is kept if all of its features are listed; all by default.
        terms
            Terms to keep, each given by names or by its label, such as "a × b"; all by default.

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
        >>> list(fx.select(terms=["x0", "x0 × x1"]).terms)
        [('x0',), ('x0', 'x1')]
        """
        orders = None if order is None else self._checked_orders(order)
        names = None if features is None else self._checked_names(features)
        keys = None if terms is None else self._keys("terms", terms)
        return self._selected(
            "select",
            lambda key: (
                (orders is None or len(key) in orders)
                and (names is None or names.issuperset(self._names(key)))
                and (keys is None or key in keys)
            ),
        )

    def drop(self, *features: str | Collection[str]) -> Decomposition:
        """Leave out all terms of some features; the sum of the others is a different function from the model.

        This does not remove the influence of a feature: correlated features still carry part of it.

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
        lists = ([entry] if isinstance(entry, str) else entry for entry in features)
        names = self._checked_names([name for listed in lists for name in listed])
        words = f"{', '.join(name for name in self.schema.names if name in names)} dropped"
        return self._selected("drop", lambda key: names.isdisjoint(self._names(key)), words)

    def _checked_orders(self, order: int | Collection[int]) -> set[int]:
        """Return one or several orders as a set; raise ValueError if one is not from 1 to the number of features."""
        orders = {order} if isinstance(order, str) or not isinstance(order, Iterable) else set(order)
        n_features = len(self.schema.names)
        for number in orders:
            if checked_whole("order", number, 1, "leave it out for all orders") > n_features:
                raise ValueError(
                    f"`order` must be at most {n_features}, the number of features, got {number}; choose a lower one."
                )
        return orders

    def _checked_names(self, features: Collection[str]) -> set[str]:
        """Return one or several names of features as a set; raise ValueError if the model lacks one."""
        names = {features} if isinstance(features, str) else set(features)
        unknown = names - set(self.schema.names)
        if unknown:
            raise ValueError(
                f"`features` must be the model's, got {', '.join(map(repr, sorted(unknown)))}; see "
                "fx.feature_names_in_."
            )
        return names

    def _selected(self, action: str, is_selected: Callable[[Key], bool], words: str = "") -> Decomposition:
        """Return the decomposition with some of its terms, and an edit that says which, in `words` if given."""
        terms, n_terms = self._function.terms.keep(is_selected), len(self._function.terms.keys)
        remainder_text = ", without the remainder" if self.has_remainder else ""
        words = f"{words or f'{len(terms.keys):,} of {n_terms:,} terms selected'}{remainder_text}"
        edit = self._edit(action, words, (), {})
        return self._after(edit, terms, AdditiveModel(terms), self._certificate_of(terms))

    def truncate(self, max_order: int) -> Decomposition:
        """Put all terms above an order, of a selection those that it has, into one exact remainder.

        Parameters
        ----------
        max_order
            Highest order of the terms to keep.

        Returns
        -------
        Decomposition
            The same function, with a remainder if there are terms of higher order.

        Raises
        ------
        ValueError
            If terms of a deep ensemble were selected or edited, and some of them have no table.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> mains = fx.truncate(1)
        >>> list(mains.terms), mains.has_remainder
        ([('x0',), ('x1',)], True)
        """
        function = self._function
        max_order = checked_whole("max_order", max_order, 0, "1 keeps the main effects")
        terms = function.terms.up_to(max_order)
        if len(terms.keys) == len(function.terms.keys) and terms.unlisted_orders == function.terms.unlisted_orders:
            return self
        n_at_rows = len(function.terms.keys_at_rows)
        if function.scope.is_part and n_at_rows:
            raise ValueError(
                "truncate() must have all terms of a deep ensemble, or tables of those that are left, got "
                f"{function.scope}, {n_at_rows:,} of them without a table; call it first, or leave terms out with "
                "select(order=...)."
            )
        cut = dataclasses.replace(function, terms=terms, scope=dataclasses.replace(function.scope, order=max_order))
        certificate = self._certificate_of(terms)
        higher = None if certificate.higher is None else certificate.higher.above(max_order)
        share = remainder_share(cut, self.density)
        certificate = dataclasses.replace(certificate, higher=higher, remainder_share=share)
        return self._with(terms=terms, scope=cut.scope, certificate=certificate)

    def on_response_scale(self, *, progress: bool | Progress | None = None) -> Decomposition:
        """Decompose the response, such as the probability, instead of the score; exact.

        The inverse link is applied to the score in every cell of all features, and that table is purified under the
        same density. Terms then add up to the response. A function that is additive on one scale need not be so on the
        other: expect interactions of all orders.

        Parameters
        ----------
        progress
            As for `decompose`.

        Returns
        -------
        Decomposition
            Its `decision_function` is the response of this one.

        Raises
        ------
        ValueError
            If the score is the response already, or the response is not defined.
        BudgetError
            If all features together have more than 262,144 cells, or are more than 12.

        See Also
        --------
        table : With `scale="response"`, changes of the response by one term alone, which do not add up.

        Examples
        --------
        The log-odds of a and b add up; their probabilities do not:

        >>> import treeanova
        >>> tables = {"a": [0.0, 2.0], "b": [0.0, 2.0]}
        >>> effects = treeanova.model.Effects.from_tables(tables, intercept=-4.0, link="logit")
        >>> fx = treeanova.decompose(effects, density="uniform").on_response_scale()
        >>> fx.terms["a", "b"].values.round(3).tolist()
        [[0.07, -0.07], [-0.07, 0.07]]
        """
        source = AdditiveModel(TermSet(response_effects(self._function)))
        with reporting(progress) as report:
            statistics = self.density.statistics
            bound = self.density.bind(source.grid, None if statistics is None else statistics.on(source.grid))
            fx = decomposed(source, bound, self._settings, progress=report)
        return _with_scope_of(self, fx)

    def with_density(
        self, density: Any, X: Any = None, *, sample_weight: Any = None, progress: bool | Progress | None = None
    ) -> Decomposition:
        """Purify the same model under another density, or under the same kind with other rows.

        Parameters
        ----------
        density
            As for `decompose`.
        X
            Rows that define the density, or their statistics; those of this decomposition by default.
        sample_weight
            Weights of the rows of `X`, or the name of the column that holds them.
        progress
            As for `decompose`.

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
            statistics = self.statistics if X is None else statistics_for(self._function.source, kind, X, sample_weight)
            return purified_again(self, kind.bind(self.grid, statistics), report)

    def __add__(self, other: Decomposition) -> Decomposition:
        """Add two models; terms are pure under the density of the first."""
        if not isinstance(other, Decomposition):
            return NotImplemented
        return _combined([self, other], [1.0, 1.0])

    def __sub__(self, other: Decomposition) -> Decomposition:
        """Subtract one model from another; terms are pure under the density of the first.

        To see what a density changes in one model, use `treeanova.compare`.
        """
        if not isinstance(other, Decomposition):
            return NotImplemented
        return _combined([self, other], [1.0, -1.0])

    def save(self, path: str | os.PathLike[str], *, rows: bool = True, past: bool = True) -> None:
        """Write the decomposition, without the model, to one file; `treeanova.load` reads it.

        The file has statistics of X, so that `with_density`, `importance`, `standard_errors` and reports need no X
        after loading: numbers of rows and sums of values by bin, ranges and quantiles of values, and a sample of at
        most 65,536 rows, each given by its bins, weight and number, not by its values. If the sample is not all rows,
        the file also has numbers of rows in the cells of all terms. Ranges, quantiles and sums of bins with one row are
        values of single rows. Importances that take long to compute, such as those of forests, are in the file if they
        were computed before.

        Parameters
        ----------
        path
            Path of the file, which ends in .tav; an existing file is replaced once the new one is complete.
        rows
            False leaves out the sample, and the sums of bins with fewer than ten rows, for privacy. Standard errors,
            reports, and terms without a table under another density, then need X.
        past
            False leaves out the decompositions before each edit, with terms that were dropped: the file has the history
            in words, but `undo` and `impact` need those. Tables that did not change are in the file once.

        Examples
        --------
        >>> import pathlib, tempfile, treeanova.testing
        >>> fx, X = treeanova.testing.example()
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "fx.tav"
        >>> fx.save(path)
        >>> treeanova.load(path) == fx
        True
        """
        check_suffix(path, ARCHIVE)
        check_folder(path, "fx.tav")
        saved = self._saved(self.density, self._moments_to_save(with_rows=rows))
        codec.write(path, *pack(saved if past else saved._replace(past=()), rows=rows))

    def _saved(self, density: Density, moments: Moments | None) -> Saved:
        """Return what a file holds, with the decompositions before each edit."""
        history, n_first = tuple(self.history), len(self.history) - len(self._past)
        states: Sequence[Decomposition] = self._past
        past = (s._content(s.density, s._saved_moments, history[: n_first + i]) for i, s in enumerate(states))  # noqa: SLF001
        return self._content(density, moments, history)._replace(past=tuple(past))

    def _content(self, density: Density, moments: Moments | None, edits: tuple[Edit, ...]) -> Saved:
        """Return what a file or pickle holds, with a density that can be saved."""
        function = self._function
        scope = dataclasses.replace(function.scope, edits=edits)
        return Saved(function.source, function.terms, density, self.certificate, scope, self._settings, moments)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what `save` holds, for pickles: not the model, and of rows the bins of a sample."""
        saved = self._saved(self._density_to_pickle(), self._moments_to_save())
        pairs = zip(saved.past, self._past, strict=True)
        past = tuple(earlier._replace(density=state._density_to_pickle()) for earlier, state in pairs)  # noqa: SLF001
        return _decomposition_of, (saved._replace(past=past),)

    def _density_to_pickle(self) -> Density:
        """Return the density as a file restores it: of rows, the bins of a sample."""
        function = self._function
        statistics = after_saving(self.statistics, function.grid, function.source.needed_tables())
        return restore_density(describe_density(self.density), function.effects, function.terms.weights, statistics)

    def _moments_to_save(self, *, with_rows: bool = True) -> Moments | None:
        """Return moments of terms for a file; None if they take long and follow from its rows, or if rows are gone."""
        is_computed = "_moments" in self.__dict__ or self._saved_moments is not None
        if with_rows and not is_computed and self.statistics is not None and moments_take_long(self._function):
            return None
        try:
            return self._moments
        except ValueError:
            return None

    def __copy__(self) -> Decomposition:
        return self  # nothing in it changes, and a copy by way of pickle's state would lose the rows

    def __deepcopy__(self, memo: dict[int, Any]) -> Decomposition:
        return self


def statistics_for(source: Source, kind: Density, X: Any, sample_weight: Any) -> Statistics | None:
    """Count the rows of X as a source needs it under a kind of density; None without X."""
    if X is None:
        return None
    score = source.score if kind.is_empirical and source.is_sum_of_terms else None  # whose moments are counted too
    return statistics_of(X, source.grid, sample_weight, source.needed_tables(), score)


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
    """Decompose a source under a density bound to its grid; `oracle` scores rows independently."""
    if is_in_one_cell(density):
        warnings.warn(f"{one_cell_words(density.name)}.", DensityWarning, stacklevel=3)
    clock = Clock(settings.seconds) if clock is None else clock
    pure = source.purify(density, settings, progress, clock)
    scope = Scope()
    if source.max_order is not None:
        limit = source.max_order
        higher = None if pure.higher is None else pure.higher.above(limit)
        pure, scope = pure._replace(terms=pure.terms.up_to(limit), higher=higher), Scope(order=limit)
    function = Function(source, pure.terms, scope, settings.n_jobs)
    certificate = certify(function, pure, density, settings.options, oracle, clock=clock)
    if density.ranks_on_population:  # terms are pure under one density, and ranked by weights of another
        effects = function.effects
        tables = {key: density.population.table(key, effects.binnings.get(key)) for key in effects.terms}
        function = dataclasses.replace(function, terms=dataclasses.replace(pure.terms, weights=tables))
    return Decomposition(function, density, certificate, settings, model)


def purified_again(fx: Decomposition, density: Density, progress: Progress = quiet) -> Decomposition:
    """Purify the same model under another density bound to its grid, with the same orders or selection."""
    function = function_of(fx)
    order = function.scope.order
    source = function.source if order is None else function.source.up_to(order)
    purified = decomposed(source, density, settings_of(fx), model=fx.model, progress=progress)
    purified = _with_scope_of(fx, purified)
    return purified if order is None else purified.truncate(order)


def _with_scope_of(original: Decomposition, fx: Decomposition) -> Decomposition:
    """Return `fx` with the scope and edits of `original` if that is a selection of terms, or edited."""
    scope = dataclasses.replace(function_of(original).scope, order=None, edits=tuple(original.history))
    if not scope.is_part:
        return fx
    certificate = dataclasses.replace(fx.certificate, edits=scope.words)
    function = dataclasses.replace(function_of(fx), scope=scope)
    return dataclasses.replace(fx, _function=function, certificate=certificate)


def simplify_bag(fx: Decomposition, held: HeldRows, *, max_terms: int | None, max_order: int) -> Simplification:
    """Simplify the mean of a bag by the rows of its training: each is judged by the member that did not see it."""
    # the defaults of keep, drop, max_steps, min_bin, round_cuts, monotone, cv and random_state of `simplify`
    options = SimplifyOptions(max_terms, max_order, frozenset(), frozenset(), None, 0.0, False, {}, 5, 0)
    return fx._simplify(held, options)  # noqa: SLF001


def settings_of(fx: Decomposition) -> Settings:
    """Return how terms were purified, for the rooms of this package."""
    return fx._settings  # noqa: SLF001


def mean(decompositions: Iterable[Decomposition], *, progress: bool | Progress | None = None) -> Decomposition:
    """Decompose the mean of several models, such as those of a bag: exact, on the union of their bins.

    Parameters
    ----------
    decompositions
        Decompositions of models with the same features, outputs and classes; the density of the first is used.
    progress
        True for a progress bar, or a function, as for `decompose`.

    Returns
    -------
    Decomposition
        Its score is the mean of the scores of `decompositions`.

    Examples
    --------
    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()
    >>> treeanova.mean([fx, fx]).intercept
    0.25
    """
    is_list = isinstance(decompositions, Iterable) and not isinstance(decompositions, Decomposition)
    members = list(decompositions) if is_list else []
    if not members:
        raise ValueError(
            f"`decompositions` must be a list of at least one decomposition, got {decompositions!r}; pass [fx1, fx2]."
        )
    check_decompositions("decompositions", members)
    with reporting(progress) as report:
        return _combined(members, [1 / len(members)] * len(members), report)


def check_decompositions(argument: str, members: Iterable[Any]) -> None:
    """Raise TypeError if an element of an argument is no decomposition."""
    for fx in members:
        if not isinstance(fx, Decomposition):
            kind = type(fx).__name__
            raise TypeError(f"`{argument}` must hold decompositions, got {kind}; make one with treeanova.decompose().")


def _combined(members: Sequence[Decomposition], factors: Sequence[float], progress: Progress = quiet) -> Decomposition:
    """Purify the sum of models times factors, on the union of their bins, under the density of the first."""
    # With equal densities and bins, its terms are weighted sums of terms: purification is linear.
    functions = [function_of(fx) for fx in members]
    with one_step(progress, "sum of the models"):
        first, statistics = members[0], members[0].density.statistics
        source = combined_source(functions, factors, [fx.model for fx in members], statistics)
    bound = first.density.bind(source.grid, None if statistics is None else statistics.on(source.grid))
    fx = decomposed(source, bound, settings_of(first), progress=progress)
    n_terms = max((function.scope.n_terms or 0 for function in functions), default=0)
    orders = [function.scope.order for function in functions if function.scope.order is not None]
    if n_terms:
        scope = Scope(n_terms=n_terms, edits=_edits_of_members(members))
        certificate = dataclasses.replace(fx.certificate, edits=scope.words)
        function = dataclasses.replace(function_of(fx), scope=scope)
        fx = dataclasses.replace(fx, _function=function, certificate=certificate)
    return fx.truncate(min(orders)) if orders else fx


def _edits_of_members(members: Sequence[Decomposition]) -> tuple[Edit, ...]:
    """Return one edit that says which of several models were edited before they were added up; none if none were."""
    edits = [edit for fx in members for edit in function_of(fx).scope.history]
    if not edits:
        return ()
    words = first_texts(
        f"model {i} ({', '.join(edit.words for edit in function_of(fx).scope.history)})"
        for i, fx in enumerate(members, 1)
        if function_of(fx).scope.history
    )
    action = "select" if all(edit.is_selection for edit in edits) else "combine"
    return (Edit(f"sum of {len(members)} models, edited before: {words}", action),)


def load(path: str | os.PathLike[str]) -> Decomposition:
    """Read a decomposition from a file, with the statistics of its rows.

    Parameters
    ----------
    path
        A file written by `Decomposition.save`.

    Returns
    -------
    Decomposition
        The same intercept, terms, tables and certificate. Large tables that follow from trees or marginals are computed
        again, equal up to rounding.

    Examples
    --------
    >>> import pathlib, tempfile, treeanova.testing
    >>> fx, X = treeanova.testing.example()
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "fx.tav"
    >>> fx.save(path)
    >>> treeanova.load(path).intercept
    0.25
    """
    header, arrays = codec.read(path)
    try:
        return _decomposition_of(unpack(header, arrays))
    except _DAMAGE as error:
        name = pathlib.Path(path).name
        raise ArchiveError(f"{name} must be a whole file saved by treeanova, got one that does not fit.") from error


def _decomposition_of(saved: Saved) -> Decomposition:
    """Return the decomposition of what a file holds; raise ValueError if its moments belong to other terms."""
    source, terms, density, certificate, scope, settings, moments, earlier = saved
    function = Function(source, terms, scope, settings.n_jobs)
    n_components = len(function.components)
    if moments is not None and len(moments.variance) != n_components:
        raise ValueError(f"moments must be of {n_components} terms, got {len(moments.variance)}")
    past = tuple(map(_decomposition_of, earlier))
    return Decomposition(function, density, certificate, settings, _saved_moments=moments, _past=past)
