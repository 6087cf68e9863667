"""decompose(model, X), the whole path on one screen; plan(model): its memory; bag(fit, X, y): its uncertainty."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from treeanova.anova.solvers import check_method
from treeanova.anova.solvers.base import Options
from treeanova.core.arrays import SEPARATOR, Ints, Key, Names, checked_seed, checked_whole
from treeanova.core.progress import Clock, Progress, counted, one_step, reporting, within
from treeanova.data.columns import backend_of, n_rows_of, rows_at, with_found_dates, with_labels, without_column
from treeanova.data.dates import units_of_dates, with_dates
from treeanova.data.features import Schema, check_texts
from treeanova.data.recoding import with_labels_of
from treeanova.data.sources import Batches, batches_of
from treeanova.decomposition.bags import Bag
from treeanova.decomposition.comparison import Sensitivity, sensitivity
from treeanova.decomposition.decomposition import Decomposition, decomposed, mean, statistics_for
from treeanova.density.counting import Request
from treeanova.density.kinds import density_of
from treeanova.density.statistics import Statistics, check_weighted_rows, checked_weights, statistics_of
from treeanova.model.effects import Effects
from treeanova.model.forest import Forest
from treeanova.readers import read_for_rows, unpickled
from treeanova.terms.layout import (
    DEFAULT_BUDGET,
    Plan,
    TermLayout,
    check_leaves,
    choose_layout,
    leaves_of,
    plan_of_effects,
)
from treeanova.terms.leaves import LeafSets
from treeanova.terms.source import AdditiveModel, Settings, Source
from treeanova.terms.terms import TermSet
from treeanova.terms.tree_model import source_of_forest


def decompose(
    model: Any,
    X: Any = None,
    *,
    density: Any = "auto",
    sample_weight: npt.ArrayLike | str | None = None,
    feature_names: Sequence[str] | None = None,
    dates: Mapping[str, str] | None = None,
    max_order: int | None = None,
    tensor_order: int | None = None,
    terms: str | Collection[Collection[str]] = "auto",
    method: str = "auto",
    budget: float = DEFAULT_BUDGET,
    seconds: float | None = None,
    n_jobs: int | None = -1,
    progress: bool | Progress | None = None,
    random_state: int = 0,
    trusted: bool = False,
) -> Decomposition:
    """Decompose a trained tree ensemble into its intercept, pure main effects and pure interactions.

    Parameters
    ----------
    model
        A fitted model that `read_model` supports, or the path of a saved one. A scikit-learn Pipeline whose
        transformers act on one column at a time is decomposed in the columns that enter it.
    X
        The rows that define the density: numpy, pandas, polars, pyarrow or scipy.sparse; or rows read in batches: paths
        of Parquet files, a pyarrow Dataset, a DuckDB relation, a polars LazyFrame, an Arrow stream or an iterable of
        frames; or statistics of rows (`Decomposition.statistics`). None is allowed for "uniform". Columns of tables are
        matched by name, in any order and ignoring others, if the model was trained with names or `feature_names` are
        given; if not, by name if they are exactly x0, x1, ..., otherwise by position.
    density
        A name ("auto", "kernel", "empirical", "laplace", "independent", "shrinkage", "uniform"), an object of
        `treeanova.density`, an array over the bins of all features, a mapping from names to arrays, or a callable.
        "auto" takes the estimate with the highest leave-one-out likelihood for each pair of features.
    sample_weight
        Weights of the rows, or the name of the column of X that holds them, which may also be a feature.
    feature_names
        Names to show for the features, in the model's order. Columns of a table are matched by the names that the model
        was trained with if they are all there, otherwise by these names. If the table has neither, columns are matched
        by position for a model without names; for one with names, an error is raised.
    dates
        Features that are dates given as numbers, with their units: "ns", "us", "ms", "s" or "D" since 1970, or
        "ordinal" for `datetime.date.toordinal`, such as ``{"sold": "ns"}``. Axes and tables then show dates, and X may
        have columns of dates. Columns of dates in X need not be named here: the model's thresholds show the unit. Times
        with a zone are in UTC.
    max_order
        Highest order of terms to report individually, all of them; the rest of the model is one exact remainder. By
        default all orders are reported, according to `terms`.
    tensor_order
        Highest order of terms that have tables and are purified on all bins; higher orders are evaluated at rows. By
        default as many orders as fit, at least 2 (1 if `seconds` are too few for pairs): within `budget`, and above
        order 2 with at most 1,000 terms and a million cells (times outputs). All terms of an EBM have tables.
    terms
        Which terms above the tables are listed. "auto" lists all if there are at most 300 that are quick to evaluate,
        otherwise those with at least 0.05 % of the variance, and adds up the others of an order exactly, as "other
        terms of order k". "all" lists all. A list of sets of features, such as ``[("age", "income", "region")]``, lists
        these in addition.
    method
        The solver: "auto", "direct", "cg" or "mass-moving"; see `treeanova.purify`.
    budget
        Largest number of bytes for tables, leaves of the trees and sums over them, besides the model and the rows. If
        tables of pairs need more, bins are merged, and the difference to the model is in the remainder. If that is not
        enough, BudgetError is raised before any work. Tables above 200 MB have no more bins than the rows justify,
        about 16 times the root of their number, whatever the budget.
    seconds
        Approximate time limit; values below 2 count as 2, and reading the model is not interrupted. Tables then have
        merged bins, or pairs are evaluated at rows without tables; fewer terms of high order are corrected for
        dependence, fewer candidate terms are evaluated, and less is measured. The sum of terms stays exact;
        `certificate.higher.skipped` says what was left out. If the leaves of the trees alone take longer, BudgetError
        is raised before any work. The answer may differ from run to run.
    n_jobs
        Number of threads; -1 takes all cores, and None takes one, as in scikit-learn.
    progress
        True for a progress bar on standard error, or a function of stage, number of steps done and number of steps,
        called for each stage first with 0 and last with all steps done; a stage that cannot be counted has one step.
        The bar shows the elapsed and remaining time of a stage; in a log file it is one line for each stage of two
        seconds or more.
    random_state
        Seed of random draws, for densities that need them.
    trusted
        Whether a pickle may be loaded, which runs the code in it.

    Returns
    -------
    Decomposition
        Intercept and pure terms whose sum is the model's raw prediction.

    Examples
    --------
    >>> import numpy as np, treeanova
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> model = DecisionTreeRegressor().fit(X, [0, 0, 0, 1])
    >>> fx = treeanova.decompose(model, X)
    >>> fx.intercept, fx.terms["x0", "x1"].values.tolist()
    (0.25, [[0.25, -0.25], [-0.25, 0.25]])
    """
    check_method(method)
    clock = Clock(limit := _checked_seconds(seconds))
    with reporting(progress) as report:
        with one_step(report, "reading the model"):
            model = unpickled(model, trusted=trusted)
            X = _in_batches(X, sample_weight)
            check_weighted_rows(X, sample_weight)
            limits = _Limits(max_order, tensor_order, terms, budget)
            content = _with_names(read_for_rows(model, _head_of(X, sample_weight)), feature_names)
            head = _head_of(X, sample_weight, content.schema)
            content = _with_dates(content, X if isinstance(X, Statistics) else head, dates or {})
            check_texts(content.schema)
        settings = Settings(Options(method), _n_threads(n_jobs), backend_of(X), checked_seed(random_state), limit)
        kind = density_of(density)
        if isinstance(content, Effects):
            plan_of_effects(content).check(budget)
            source: Source = AdditiveModel(TermSet(content))
            bound = kind.bind(source.grid, statistics_for(source, kind, X, sample_weight))
            fx = decomposed(source, bound, settings, model=model, progress=report)
            return fx if max_order is None else fx.truncate(max_order)
        with one_step(report, "leaves of the trees"):
            forest = content.with_schema(_with_labels(content.schema, X, head))
            check_texts(forest.schema)
            check_leaves(forest, budget, limit, clock.left)
            sets = leaves_of(forest)
            layout = limits.layout(sets, n_rows=_n_known_rows(X), seconds=clock.left)
        marginals = None if layout.max_bins is None else _marginals(X, sets, sample_weight)
        source = source_of_forest(forest, sets, layout, marginals)
        bound = kind.bind(source.grid, statistics_for(source, kind, X, sample_weight))
        oracle = None if bound.statistics is None else forest.score
        fx = decomposed(source, bound, settings, model=model, oracle=oracle, progress=report, clock=clock)
        return fx.truncate(layout.row_order)


@dataclasses.dataclass(frozen=True)
class _Limits:
    """The user's limits of orders, terms and memory, checked."""

    max_order: int | None
    tensor_order: int | None
    terms: str | Collection[Collection[str]]
    budget: float

    def __post_init__(self) -> None:
        for name, least in (("max_order", 1), ("tensor_order", 2)):
            order = getattr(self, name)
            if order is not None:
                object.__setattr__(self, name, checked_whole(name, order, least, "leave it out for all that fits"))
        budget, terms = self.budget, self.terms
        if isinstance(budget, bool) or not isinstance(budget, Real) or not float(budget) > 0:
            raise ValueError(
                f"`budget` must be a number of bytes above 0, got {budget!r}; leave it out for the default."
            )
        is_list = isinstance(terms, Collection) and all(isinstance(term, Collection) for term in terms)
        if terms not in ("auto", "all") if isinstance(terms, str) else not is_list:
            raise ValueError(f"`terms` must be 'auto', 'all' or a list of sets of features, got {terms!r}.")

    def layout(self, sets: LeafSets, *, n_rows: float, seconds: float = math.inf) -> TermLayout:
        """Choose which terms of a forest, given by its leaves, get tables within the limits."""
        return choose_layout(
            sets,
            budget=self.budget,
            max_order=self.max_order,
            tensor_order=self.tensor_order,
            terms=_keys_of(self.terms, sets),
            seconds=seconds,
            n_rows=n_rows,
        )


def _in_batches(X: Any, sample_weight: Any) -> Any:
    """Wrap batch sources and remember the weight column; return anything else unchanged."""
    batches = None if isinstance(X, Statistics) else batches_of(X)
    if batches is None:
        return X
    return batches.for_model(None, sample_weight) if isinstance(sample_weight, str) else batches


def _head_of(X: Any, sample_weight: Any, schema: Schema | None = None) -> Any:
    """Return rows or the first batch, without weights unless in the schema; None if there are no rows in X."""
    if X is None or isinstance(X, Statistics):
        return None
    if isinstance(X, Batches):
        return X.head(schema)
    return without_column(X, sample_weight, schema)[0] if isinstance(sample_weight, str) else X


def _with_labels(schema: Schema, X: Any, head: Any) -> Schema:
    """Return the schema with names of categories from all rows that can be read again."""
    if isinstance(X, Statistics):
        return with_labels_of(X.grid.schema, schema)
    if isinstance(X, Batches) and X.is_rereadable and any(feature.encoder.wants_labels for feature in schema.features):
        batches = X.for_model(schema, X.selection.weight)
        return functools.reduce(with_labels, (batch.table for batch in batches), schema)
    return schema if head is None else with_labels(schema, head)


def _marginals(X: Any, sets: LeafSets, sample_weight: Any) -> Statistics | None:
    """Count the rows in each bin of each feature, by which bins are merged; None without rows."""
    if X is None:
        return None
    if isinstance(X, Batches) and not X.is_rereadable:
        raise ValueError(
            "`X` must be readable more than once where bins have to be merged, got a stream; pass a list of frames or "
            "the path of Parquet files, or raise `budget`."
        )
    return statistics_of(X, sets.grid, sample_weight, [Request((j,)) for j in range(len(sets.grid.axes))])


def _n_known_rows(X: Any) -> float:
    """Return the number of rows in memory; infinite if it is unknown before they are read."""
    if isinstance(X, Statistics):
        return X.n_rows
    try:
        return math.inf if X is None or isinstance(X, Batches) else n_rows_of(X)
    except (TypeError, IndexError):  # what is no table is refused when it is read
        return math.inf


def _keys_of(terms: str | Collection[Collection[str]], sets: LeafSets) -> Sequence[Key] | Literal["auto", "all"]:
    """Return the keys of the terms that a user lists by names of features; "auto" or "all" as they are."""
    if isinstance(terms, str):
        return "all" if terms == "all" else "auto"
    return [_key_of(_names_in(term, sets.grid.schema.names), sets) for term in terms]


def _names_in(term: str | Collection[str], features: Names) -> Names:
    """Return the names of features in a key: one name, a label such as "a × b", or several names."""
    if isinstance(term, str):
        return (term,) if term in features else tuple(term.split(SEPARATOR))
    return tuple(term)


def _key_of(names: Names, sets: LeafSets) -> Key:
    """Return the key of features; raise ValueError if the model lacks one or never combines them."""
    features = sets.grid.schema.names
    unknown = [name for name in names if name not in features]
    if unknown or len(set(names)) < len(names) or not names:
        raise ValueError(
            f"`terms` must hold sets of the model's features, got {names!r}; the features are "
            f"{', '.join(map(repr, features[:10]))}{', ...' * (len(features) > 10)}."
        )
    key = tuple(sorted(features.index(name) for name in names))
    if not len(sets.leaves_with(key)):
        raise ValueError(
            f"`terms` must hold sets of features that the model combines, got {names!r}, which no path of its trees "
            "has together; leave it out, its term is zero."
        )
    return key


def _checked_seconds(seconds: float | None) -> float | None:
    """Return a time limit as a float; ValueError for one that is not positive."""
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, Real) or not seconds > 0):
        raise ValueError(f"`seconds` must be a number above 0, got {seconds!r}; leave it out for no limit.")
    return None if seconds is None else float(seconds)


def _n_threads(n_jobs: int | None) -> int:
    """Return the number of threads: 1 for None, all cores for -1."""
    if n_jobs is None:
        return 1
    if n_jobs == -1:
        return os.cpu_count() or 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs < 1:
        raise ValueError(f"`n_jobs` must be a whole number from 1 on, or -1 for all cores, got {n_jobs!r}.")
    return int(n_jobs)


def plan(
    model: Any,
    X: Any = None,
    *,
    max_order: int | None = None,
    tensor_order: int | None = None,
    budget: float = DEFAULT_BUDGET,
    trusted: bool = False,
) -> Plan:
    """Plan the tables, the memory and the time of `decompose`; `print` it.

    Parameters
    ----------
    model
        As for `decompose`.
    X
        The rows, of which only the number is used: it limits the bins of large tables, and counting takes time. By
        default any number.
    max_order, tensor_order, budget, trusted
        As for `decompose`, with the same errors.

    Returns
    -------
    Plan
        Terms, cells, bytes, seconds and solvers.

    Examples
    --------
    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()
    >>> print(treeanova.plan(fx.model))
    order 1: 2 terms, 4 cells, direct
    order 2: 1 terms, 4 cells, direct
    1 output, 192 bytes in all
    """
    limits = _Limits(max_order, tensor_order, "auto", budget)
    content = read_for_rows(unpickled(model, trusted=trusted))
    if isinstance(content, Effects):
        return plan_of_effects(content)
    check_leaves(content, budget)
    layout = limits.layout(leaves_of(content), n_rows=_n_known_rows(_in_batches(X, None)))
    if content.n_library_leaves == content.n_leaves:
        return layout.plan
    note = (
        f"{content.n_leaves:,} leaves for {content.n_library_leaves:,} of the model, whose splits on several features "
        "or thresholds at once became several splits"
    )
    return dataclasses.replace(layout.plan, notes=(*layout.plan.notes, note))


def density_sensitivity(
    model: Any,
    X: Any,
    densities: Sequence[str] | Mapping[str, Any] = ("uniform", "empirical", "laplace", "auto"),
    *,
    progress: bool | Progress | None = None,
    **options: Any,
) -> Sensitivity:
    """Purify a model under several densities, and report how much each effect depends on them.

    Parameters
    ----------
    model, X
        As for `decompose`.
    densities
        Names of densities, or a mapping from names to densities. Differences are weighted by the last one.
    progress
        As for `decompose`.
    **options
        Other arguments of `decompose`.

    Returns
    -------
    Sensitivity
        A table of differences, and the decomposition under each density.

    Examples
    --------
    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()  # the logical "and" of x0 and x1
    >>> sensitivity = treeanova.density_sensitivity(fx.model, X[[0, 1, 2, 3, 3, 3]], ["uniform", "empirical"])
    >>> {name: fx.intercept for name, fx in sensitivity.decompositions.items()}
    {'uniform': 0.25, 'empirical': 0.5}
    """
    if isinstance(model, Decomposition):
        raise TypeError("`model` must be the model itself, got its Decomposition; pass what decompose() was given.")
    names = [densities] if isinstance(densities, str) else densities
    kinds = dict(densities) if isinstance(densities, Mapping) else {name: name for name in names}
    if len(kinds) < 2:
        raise ValueError(f"`densities` must be at least two, got {list(kinds)}; add 'uniform' or 'empirical'.")
    *earlier, last = kinds
    with reporting(progress) as report:
        progress_of = {name: within(report, f"density {name}") for name in kinds}
        base = decompose(model, X, density=kinds[last], progress=progress_of[last], **options)
        by_name = {name: base.with_density(kinds[name], progress=progress_of[name]) for name in earlier} | {last: base}
        for name, fx in by_name.items():
            fx.importance(progress=progress_of[name])  # kept by `fx`, for what follows
        return sensitivity(by_name, base)


def _with_names(content: Forest | Effects, names: Sequence[str] | None) -> Forest | Effects:
    """Return the model with other names of features; its own, if any, still match columns of tables."""
    if names is None:
        return content
    schema, is_list = content.schema, isinstance(names, Iterable) and not isinstance(names, str)
    texts = [str(name) for name in names] if is_list else []
    if len(texts) != len(schema.features) or len(set(texts)) != len(texts):
        got = list(names) if is_list else names
        raise ValueError(
            f"`feature_names` must be a list of {len(schema.features)} different names, got {got!r}; name each feature "
            "once."
        )
    pairs = zip(schema.features, texts, strict=True)
    features = tuple(dataclasses.replace(feature, name=name) for feature, name in pairs)
    trained_names = schema.trained_names or (schema.names if schema.named else ())
    return content.with_schema(dataclasses.replace(schema, features=features, given=True, trained_names=trained_names))


def _with_dates(content: Forest | Effects, X: Any, dates: Mapping[str, str]) -> Forest | Effects:
    """Mark features as dates: those that are named, and those whose columns in X hold dates."""
    schema = with_dates(content.schema, dates)
    if isinstance(X, Statistics):
        schema = with_dates(schema, units_of_dates(schema, X.date_columns(schema), content.thresholds_of))
    else:
        schema = with_found_dates(schema, X, content.thresholds_of)
    return content if schema == content.schema else content.with_schema(schema)


def bag(
    fit: Callable[[Any, Any], Any] | Sequence[Any],
    X: Any,
    y: Any = None,
    n: int = 25,
    *,
    random_state: int = 0,
    progress: bool | Progress | None = None,
    **options: Any,
) -> Bag:
    """Fit a model to resampled rows, and decompose it each time, to estimate the uncertainty of effects.

    Parameters
    ----------
    fit
        A function of rows and outcomes that returns a fitted model, such as ``XGBRegressor(max_depth=2).fit``; or a
        list of models that were already fitted to resampled rows.
    X
        The rows that the model is fitted to, and that define the density.
    y
        Their outcome; not needed for a list of models.
    n, random_state
        Number of bootstrap resamples, and their seed.
    progress
        True for a progress bar, or a function, as for `decompose`.
    **options
        Other arguments of `decompose`, such as `density`.

    Returns
    -------
    Bag
        The decomposition of the model fitted to all rows (of a list, of the mean of the models), those of all members,
        and standard errors of effects.

    Notes
    -----
    Rows are drawn with replacement, and each member is purified under the density of its own rows, so errors contain
    the uncertainty of both model and density. `fit` gets the rows with repetitions; the density gets each row once,
    weighted. A bootstrap shows how an effect varies around its own expectation. If the learner is biased, as all
    smoothing is at peaks, the true effect may lie outside the band; docs/inference.md measures both. Dependent rows
    make errors too small.

    A list of models shows only what differs between them: different seeds alone are a small part of the uncertainty.

    Examples
    --------
    >>> import numpy as np, treeanova
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.arange(200).reshape(-1, 1) % 2
    >>> y = X[:, 0] + np.random.default_rng(0).normal(size=200)
    >>> bag = treeanova.bag(DecisionTreeRegressor().fit, X, y, 20)
    >>> errors = bag.standard_errors()["x0",]  # of a mean of 100 numbers with deviation 1, nearly
    >>> bool((errors > 0.04).all() and (errors < 0.1).all())
    True
    """
    n_rows = n_rows_of(X)
    rng = np.random.default_rng(checked_seed(random_state))
    with reporting(progress) as report:
        if hasattr(fit, "fit"):
            kind = type(fit).__name__
            raise TypeError(
                f"`fit` must be a function of rows and outcomes, or a list of models, got {kind}; pass its fit."
            )
        if not callable(fit):
            return _bag_of_models(list(fit), X, rng, report, options)
        if y is None or len(y) != n_rows:
            got = None if y is None else len(y)
            raise ValueError(f"`y` must have one entry per row of `X`, {n_rows}, got {got}; pass the outcome.")
        n = checked_whole("n", n, 2, "25 is the default")
        outcomes = np.asarray(y)
        members = []
        for _ in counted(report, "resamples", range(n), n):
            drawn = rng.integers(0, n_rows, n_rows)
            model = fit(rows_at(X, drawn), outcomes[drawn])
            _check_drawn_classes(model, outcomes, drawn)
            members.append(_member(model, X, drawn, options))
        whole = decompose(fit(X, y), X, **options)  # last, since `fit` may return the same object each time
    return Bag(whole, tuple(members))


def _bag_of_models(
    models: list[Any], X: Any, rng: np.random.Generator, progress: Progress, options: dict[str, Any]
) -> Bag:
    """Decompose models under resampled rows; their mean takes the place of a model of all rows."""
    if len(models) < 2:
        raise ValueError(f"`fit` must be a function or a list of at least two models, got {len(models)}; add models.")
    n_rows, shown = n_rows_of(X), counted(progress, "models", models, len(models))
    members = [_member(model, X, rng.integers(0, n_rows, n_rows), options) for model in shown]
    return Bag(mean([decompose(model, X, **options) for model in models]), tuple(members))


def _check_drawn_classes(model: Any, outcomes: npt.NDArray[Any], drawn: Ints) -> None:
    """Raise ValueError if a classifier was fitted to a resample without a class: its scores are others."""
    if outcomes.ndim != 1 or not np.size(getattr(model, "classes_", ())):
        return
    labels = outcomes.tolist()
    lacking = set(labels).difference(outcomes[drawn].tolist())
    if lacking:
        label = min(lacking, key=labels.index)
        raise ValueError(
            f"`y` must have enough rows of each class for resamples of all classes, got a resample without {label!r}, "
            f"which {labels.count(label)} of {len(labels)} rows have; join the class with another, or leave it out."
        )


def _member(model: Any, X: Any, drawn: Ints, options: dict[str, Any]) -> Decomposition:
    """Decompose under rows of X drawn by number, with repeats as weights; forget the model, which `fit` may change."""
    sample_weight = options.get("sample_weight")
    rows = X
    if isinstance(sample_weight, str):
        content = read_for_rows(unpickled(model, trusted=options.get("trusted", False)))
        schema = _with_names(content, options.get("feature_names")).schema
        rows, sample_weight = without_column(X, sample_weight, schema)
    weights = np.bincount(drawn, minlength=n_rows_of(X)).astype(np.float64)
    if sample_weight is not None:
        weights *= checked_weights(sample_weight, len(weights))
    return dataclasses.replace(decompose(model, rows, **options | {"sample_weight": weights}), model=None)
