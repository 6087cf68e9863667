"""The decomposed function: its components at rows, weighted sums of models, scaled terms, the response.

Components are listed terms, sums of unlisted terms (one per order), and a remainder. A term that one of two models
lists and the other only adds up is evaluated for both.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Key, Names, label_of, labels_of
from treeanova.core.progress import blocks
from treeanova.data.columns import free_name
from treeanova.data.features import Schema
from treeanova.density.counting import RowsInMemory
from treeanova.density.statistics import Points, Statistics
from treeanova.errors import BudgetError
from treeanova.model.effects import Effects, is_classifier, respond, weighted_sum
from treeanova.model.forest import Forest
from treeanova.model.forest import weighted_sum as weighted_sum_of_forests
from treeanova.model.grid import Grid, common_schema, union
from treeanova.model.rows import Rows
from treeanova.readers import read_model
from treeanova.terms.anchored import distinct_points
from treeanova.terms.layout import DEFAULT_BUDGET, choose_layout, leaves_of
from treeanova.terms.source import AdditiveModel, Source
from treeanova.terms.terms import Scope, TermSet, each_in_one_piece
from treeanova.terms.tree_model import source_of_forest

_NUMBERS_AT_ONCE = 1 << 22  # values of components that are held at a time


def output_position(outputs: Sequence[str], output: str | int | None, *, default: int | None = None) -> int:
    """Return the position of an output given by name or position: the policy for all `output` arguments."""
    # Without a default it may be left out only if there is one output: no number is about an output that nobody named.
    # Plots state the output they show, and pass a default.
    if output is None and (default is not None or len(outputs) == 1):
        return default or 0
    if isinstance(output, str) and output in outputs:
        return outputs.index(output)
    if isinstance(output, Integral) and not isinstance(output, bool) and -len(outputs) <= output < len(outputs):
        return int(output) % len(outputs)
    got = "none" if output is None else repr(output)
    raise ValueError(f"`output` must be one of {', '.join(map(repr, outputs))}, or its position, got {got}; name one.")


def per_output(values: Floats) -> float | Floats:
    """Return one number per output, shape (n_outputs,), as a float if there is one output: what users get."""
    return float(values[0]) if len(values) == 1 else values


def check_same_outputs(argument: str, schemas: Iterable[Schema]) -> None:
    """Raise ValueError, which names the argument that holds the models, if their outputs or links differ."""
    kinds = dict.fromkeys(f"{', '.join(schema.outputs)} ({schema.link})" for schema in schemas)
    if len(kinds) > 1:
        got = " and ".join(kinds)
        raise ValueError(f"{argument} must have the same outputs and link, got {got}; take models of one kind.")


def labels_by_key(keys: Sequence[Key], names: Sequence[str]) -> dict[Key, str]:
    """Return the label of each term, such as "a × b", by its key; `names` are those of all features."""
    return dict(zip(keys, labels_of([[names[j] for j in key] for key in keys], names), strict=True))


@dataclasses.dataclass(frozen=True, eq=False)
class Function:
    """A model's score as its terms; `scope` says which of the model's terms they are, `n_jobs` counts threads."""

    source: Source
    terms: TermSet
    scope: Scope
    n_jobs: int = 1

    @property
    def grid(self) -> Grid:
        """The grid of codes of rows; that of the tables, `effects.grid`, may have merged bins."""
        return self.terms.grid

    @property
    def effects(self) -> Effects:
        return self.terms.effects

    @property
    def has_remainder(self) -> bool:
        """Whether part of the score is in no term, after truncation or by merged bins: an exact remainder."""
        return self.scope.order is not None or (not self.scope.is_part and self.terms.leaves_rest)

    @property
    def sum_of(self) -> str:
        """What adds up to the score, in words; empty for a selection of terms, and after edits."""
        if self.scope.is_part:
            return ""
        return "terms and remainder" if self.has_remainder else "terms"

    @property
    def unlisted_orders(self) -> tuple[int, ...]:
        """Orders with unlisted terms, which are added up by order; a selection of terms (`is_part`) has none."""
        return () if self.scope.is_part else self.terms.unlisted_orders

    def score(self, rows: Rows) -> Floats:
        """Return the model's score at rows, shape (n_rows, n_outputs)."""
        return self.source.score(rows, self.n_jobs)

    def at(self, codes: BinIndices, keys: Sequence[Key]) -> Floats:
        """Return terms at rows given by their bins, shape (n_rows, n_keys, n_outputs)."""
        return self.terms.at(codes, keys, self.n_jobs)

    def has_term(self, key: Key) -> bool:
        """Whether a term is listed, or part of the sum of unlisted terms of its order."""
        return key in self._listed_keys or (len(key) in self.unlisted_orders and self.terms.can_evaluate(key))

    @functools.cached_property
    def _listed_keys(self) -> frozenset[Key]:
        return frozenset(self.terms.keys)

    def unlisted_sums_at(self, codes: BinIndices, listed: Mapping[Key, Floats]) -> Floats:
        """Return sums of unlisted terms, (n_rows, n_unlisted_orders, n_outputs), from `listed` terms at the rows."""
        return self.terms.unlisted_sums_at(codes, listed, self.n_jobs)

    def unlisted_shares_at(self, codes: BinIndices, listed: Mapping[Key, Floats]) -> Floats:
        """Share each unlisted term equally among its features: sums, shape (n_rows, n_features, n_outputs)."""
        return self.terms.unlisted_shares_at(codes, listed, self.n_jobs)

    @property
    def components(self) -> Components:
        return components_of(self)

    def all_at(self, codes: BinIndices) -> Floats:
        """Return all components at rows given by their bins, shape (n_rows, n_components, n_outputs)."""
        return components_at(self, codes, self.components)

    def table_weights_at(self, statistics: Statistics, key: Key) -> Floats:
        """Return the share of rows in each cell of a term's table, from statistics on the grid of the tables."""
        return statistics.counts(key, self.effects.binnings.get(key))


def label_of_unlisted(order: int) -> str:
    return f"other terms of order {order}"


@dataclasses.dataclass(frozen=True)
class Components:
    """What adds up to the score of one or several models, besides the intercept; a remainder comes last."""

    keys: tuple[Key, ...]
    unlisted_orders: tuple[int, ...] = ()  # with unlisted terms, which are summed
    has_remainder: bool = False

    def __len__(self) -> int:
        return len(self.keys) + len(self.unlisted_orders) + self.has_remainder

    @property
    def orders(self) -> list[int]:
        """Order of each component; for a remainder, one above all others, though merged bins leave parts of all."""
        orders = [*map(len, self.keys), *self.unlisted_orders]
        return orders + [max(orders, default=0) + 1] * self.has_remainder

    def labels(self, names: Sequence[str]) -> list[str]:
        """Return labels of all components, given the names of all features."""
        return self.with_labels_of_sums([*labels_by_key(self.keys, names).values()])

    def with_labels_of_sums(self, labels: Sequence[str]) -> list[str]:
        """Append labels of sums of unlisted terms and of a remainder to those of listed terms, or of groups of them."""
        extended = list(labels)
        for label in [*map(label_of_unlisted, self.unlisted_orders), *["remainder"] * self.has_remainder]:
            extended.append(free_name(label, extended))
        return extended

    def blocks(self, n_rows: int, n_outputs: int) -> Iterator[slice]:
        """Yield slices of rows whose components fit into memory at once."""
        size = max(1, _NUMBERS_AT_ONCE // max(1, len(self) * n_outputs))
        starts = range(0, n_rows, size)
        return blocks("rows", (slice(start, start + size) for start in starts), len(starts))


def components_of(*functions: Function) -> Components:
    """Return the components of all models: for one in its own order, for several by order and features."""
    keys = tuple(dict.fromkeys(key for function in functions for key in function.terms.keys))
    if len(functions) > 1:
        keys = tuple(sorted(keys, key=lambda key: (len(key), key)))
    orders = sorted({order for function in functions for order in function.unlisted_orders})
    return Components(keys, tuple(orders), any(function.has_remainder for function in functions))


def components_at(function: Function, codes: BinIndices, components: Components) -> Floats:
    """Return components at rows, shape (n_rows, n_components, n_outputs); zero if the model lacks one."""
    values = _terms_and_sums_at(function, codes, components)
    if not components.has_remainder:
        return values
    remainder = np.zeros((len(codes), function.terms.n_outputs))
    if function.has_remainder:
        score = function.score(Rows.in_bins(function.grid, codes))
        remainder = score - function.terms.intercept - values.sum(axis=1)
    return np.concatenate([values, remainder[:, None]], axis=1)


def _terms_and_sums_at(function: Function, codes: BinIndices, components: Components) -> Floats:
    """Return listed terms, then sums by order, (n_rows, n_terms + n_sums, n_outputs); zero if the model lacks one."""
    # Components may be those of several models: a term that another model lists is taken out of this model's sums.
    keys = components.keys
    indices = [i for i, key in enumerate(keys) if function.has_term(key)]
    values_of_terms = function.at(codes, [keys[i] for i in indices])
    n_sums = len(components.unlisted_orders)
    if len(indices) == len(keys) and not n_sums:
        return values_of_terms
    values = each_in_one_piece(len(codes), len(keys) + n_sums, function.terms.n_outputs)
    values[:, indices] = values_of_terms
    if not function.unlisted_orders:
        return values
    by_key, listed = {keys[i]: values[:, i] for i in indices}, set(function.terms.keys)
    listed_by_others = [key for key in by_key if key not in listed]
    sums = function.unlisted_sums_at(codes, by_key)
    for i, order in enumerate(function.unlisted_orders):
        sum_index = len(keys) + components.unlisted_orders.index(order)
        values[:, sum_index] = sums[:, i] - sum(by_key[key] for key in listed_by_others if len(key) == order)
    return values


def mean_components(function: Function, statistics: Statistics, components: Components) -> Floats:
    """Return means of components over all rows, (n_components, n_outputs): tables by counts, others at rows."""
    keys = components.keys
    means = np.zeros((len(components), function.terms.n_outputs))
    counts = statistics.on(function.effects.grid)
    for i, key in enumerate(keys):
        if function.terms.has_table(key):
            shares = function.table_weights_at(counts, key)
            means[i] = np.tensordot(shares, function.effects.terms[key], len(key))
    at_rows = [i for i, key in enumerate(keys) if function.has_term(key) and not function.terms.has_table(key)]
    if at_rows or function.unlisted_orders:
        without_tables = Components(tuple(keys[i] for i in at_rows), components.unlisted_orders)
        sums = range(len(keys), len(keys) + len(components.unlisted_orders))
        means[[*at_rows, *sums]] = _means_at_rows(function, statistics, without_tables)
    if function.has_remainder:
        codes, weights = all_rows_in_bins(statistics, function.grid)
        score = weights @ function.score(Rows.in_bins(function.grid, codes))
        means[-1] = score - function.terms.intercept - means.sum(axis=0)
    return means


def all_rows_in_bins(statistics: Statistics, grid: Grid) -> Points:
    """Return bins and normalized weights of all rows, not of a sample; raise ValueError if they are not in memory."""
    if statistics.is_complete:
        return statistics.on(grid).points()
    source = statistics.source
    if not isinstance(source, RowsInMemory):
        raise ValueError(  # noqa: TRY004  what is wrong is how many rows there are
            f"rows must all be held in memory where terms have no tables, got a sample of {statistics.n_rows:,} rows; "
            "pass rows in memory as `X_old` and `X_new`, or decompose with `max_order=2`."
        )
    weights = np.ones(len(source.values)) if source.weights is None else source.weights
    return Points(grid.index(Rows(source.values)), weights / weights.sum())


def _means_at_rows(function: Function, statistics: Statistics, components: Components) -> Floats:
    """Return weighted means of components over all rows, shape (n_components, n_outputs)."""
    codes, weights = all_rows_in_bins(statistics, function.grid)
    total = np.zeros((len(components), function.terms.n_outputs))
    for rows in components.blocks(len(codes), function.terms.n_outputs):
        total += np.einsum("nck,n->ck", _terms_and_sums_at(function, codes[rows], components), weights[rows])
    return total


class Deferred:
    """An array computed on first use; its pickle holds the array alone."""

    def __init__(self, compute: Callable[[], Floats]) -> None:
        self._compute = compute

    @functools.cached_property
    def array(self) -> Floats:
        return self._compute()

    def __reduce__(self) -> tuple[Any, ...]:
        return Deferred, (functools.partial(np.asarray, self.array),)


class ValuesAtRows(NamedTuple):
    """Terms at rows, shape (n_rows, n_terms, n_outputs), and what else adds up to the score."""

    keys: Sequence[Key]
    values: Floats
    unlisted: Mapping[int, Floats]  # sums of unlisted terms, by order
    shares: Deferred | None  # of features in `unlisted`
    intercept: Floats
    leaves_rest: bool  # whether these are not all terms, so that a remainder is left


def values_at_rows(function: Function, rows: Rows, keys: Sequence[Key], max_order: int | None) -> ValuesAtRows:
    """Evaluate listed terms, and sums of unlisted ones up to an order, at rows."""
    codes = rows.bins(function.grid)
    values = function.at(codes, keys)
    orders, highest = function.unlisted_orders, math.inf if max_order is None else max_order
    unlisted: dict[int, Floats] = {}
    listed = {key: values[:, i] for i, key in enumerate(keys)}
    if orders and orders[0] <= highest:
        sums = function.unlisted_sums_at(codes, listed)
        unlisted = {order: sums[:, i] for i, order in enumerate(orders) if order <= highest}
    shares = Deferred(lambda: _without_single_output(function.unlisted_shares_at(codes, listed))) if unlisted else None
    leaves_rest = function.has_remainder or len(keys) + len(unlisted) < len(function.terms.keys) + len(orders)
    return ValuesAtRows(keys, values, unlisted, shares, function.terms.intercept, leaves_rest)


def values_against(function: Function, rows: Rows, references: Rows, max_order: int | None) -> ValuesAtRows:
    """Evaluate changes that features make against reference rows, alone and together, averaged over references."""
    # `intercept` is the mean score of the references. A tree model lists the terms of the function and adds up others.
    grid, limit, n_jobs = function.grid, function.scope.order, function.n_jobs
    anchored = function.source.anchored(distinct_points(references.bins(grid)))
    all_keys, all_orders = anchored.components(function.terms.keys, function.unlisted_orders)
    highest = min(math.inf if order is None else order for order in (max_order, limit))
    keys = [key for key in all_keys if len(key) <= highest]
    orders = tuple(order for order in all_orders if order <= highest)
    codes = rows.bins(grid)
    values = anchored.at(codes, keys, n_jobs)
    listed = [(key, values[:, i]) for i, key in enumerate(keys) if len(key) in orders]
    unlisted: dict[int, Floats] = {}
    if orders:
        totals = anchored.totals_at(codes, orders, n_jobs)
        unlisted = {order: totals[:, i] for i, order in enumerate(orders)}
        for key, at_key in listed:
            unlisted[len(key)] -= at_key

    def shares_of_unlisted() -> Floats:
        """Return the shares of unlisted terms by feature."""
        shares = anchored.shares_at(codes, orders, n_jobs)
        for key, at_key in listed:
            shares[:, list(key)] -= (at_key / len(key))[:, None]
        return _without_single_output(shares)

    intercept = function.score(references).mean(axis=0)
    leaves_rest = limit is not None or len(keys) + len(orders) < len(all_keys) + len(all_orders)
    return ValuesAtRows(
        keys, values, unlisted, Deferred(shares_of_unlisted) if orders else None, intercept, leaves_rest
    )


def _without_single_output(shares: Floats) -> Floats:
    """Drop the last axis of shares (n_rows, n_features, n_outputs) if there is one output."""
    return shares[:, :, 0] if shares.shape[2] == 1 else shares


def combined_source(
    functions: Sequence[Function], factors: Sequence[float], models: Sequence[Any], statistics: Statistics | None
) -> Source:
    """Return the source of a sum of models times factors; `models` are read again if a deep ensemble needs trees."""
    schemas = [function.source.grid.schema for function in functions]
    check_same_outputs("decompositions", schemas)
    objectives = {schema.objective for schema in schemas}
    is_mean = len(objectives) == 1 and min(factors) >= 0 and math.isclose(sum(factors), 1)
    objective = objectives.pop() if is_mean else ""  # of a weighted mean, which is a prediction too
    sources = [function.source for function in functions]
    if any(source.forest is not None or source.raw().keys_at_rows for source in sources):
        forests = [_forest_of(function, model) for function, model in zip(functions, models, strict=True)]
        summands = [forest.with_schema(dataclasses.replace(forest.schema, objective=objective)) for forest in forests]
        forest = weighted_sum_of_forests(*_merge_equal_forests(with_common_schema(summands), factors))
        leaves = leaves_of(forest)
        layout = choose_layout(leaves, budget=DEFAULT_BUDGET)
        return source_of_forest(forest, leaves, layout, None if statistics is None else statistics.on(leaves.grid))
    raw = [source.raw().effects for source in sources]
    tables = [effects.with_schema(dataclasses.replace(effects.schema, objective=objective)) for effects in raw]
    grid, old_bins = union([effects.grid for effects in tables])
    on_union = [effects.on_union(grid, bins) for effects, bins in zip(tables, old_bins, strict=True)]
    return AdditiveModel(TermSet(weighted_sum(on_union, factors)))


def with_common_schema(forests: Sequence[Forest]) -> list[Forest]:
    """Return the forests with one schema; their trees must read categories by the same codes."""
    schema = common_schema([forest.schema for forest in forests])
    for forest in forests:
        for common, feature in zip(schema.features, forest.schema.features, strict=True):
            if common.encoder.labels != feature.encoder.labels:
                raise ValueError(
                    f"feature {common.name!r} must have the same categories in the same order for deep ensembles to be "
                    f"combined, got {list(common.encoder.labels or ())} and {list(feature.encoder.labels or ())}; "
                    "train the models on the same columns."
                )
    return [forest.with_schema(schema) for forest in forests]


def _merge_equal_forests(forests: Sequence[Forest], factors: Sequence[float]) -> tuple[list[Forest], list[float]]:
    """Merge equal forests and add up their factors: equal models cancel exactly, not just up to rounding."""
    names = [field.name for field in dataclasses.fields(Forest) if field.name != "schema"]

    def are_equal(first: Forest, second: Forest) -> bool:
        return all(np.array_equal(getattr(first, name), getattr(second, name), equal_nan=True) for name in names)

    distinct: list[Forest] = []
    totals: list[float] = []
    for forest, factor in zip(forests, factors, strict=True):
        index = next((i for i, other in enumerate(distinct) if are_equal(other, forest)), len(distinct))
        if index == len(distinct):
            distinct.append(forest)
            totals.append(0.0)
        totals[index] += factor
    return distinct, totals


def _forest_of(function: Function, model: Any) -> Forest:
    """Return the trees behind a function, from its source or by reading the model again; raise ValueError if gone."""
    if function.scope.is_part:
        raise ValueError(
            f"decompositions of deep ensembles must have all terms to be combined, got {function.scope}; combine them "
            "before select(), drop() or scale()."
        )
    if function.source.forest is not None:
        return function.source.forest
    content = None if model is None else read_model(model)
    if not isinstance(content, Forest):
        kind = "a decomposition from a file" if content is None else "an additive model"
        raise ValueError(  # noqa: TRY004  not a matter of type to the caller
            f"decompositions must all hold their trees to be combined with a deep ensemble, got {kind}; decompose the "
            "models again."
        )
    return content.with_schema(function.source.grid.schema)


Factors = Mapping[str | tuple[str, ...], float]


def factors_of(term: str | Collection[str] | Factors, factor: float | None) -> dict[Any, float]:
    """Return the factor of each term by name or names, from the arguments of `scale`."""
    if isinstance(term, Mapping):
        if factor is not None:
            raise ValueError(f"`factor` must be left out where factors come with the terms, got {factor!r}.")
        if not term:
            raise ValueError("`term` must name a term, got an empty mapping; {'a': 0.5}, say.")
        factors = dict(term)
    else:
        factors = {term if isinstance(term, str) else tuple(term): factor}
    for value in factors.values():
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise ValueError(f"`factor` must be a finite number, got {value!r}; 0.5 halves a term, 0 removes it.")
    return {name: float(value) for name, value in factors.items()}


def check_editable(function: Function, action: str) -> None:
    """Raise ValueError if the terms do not add up to the function: an edit would lose the rest."""
    if function.has_remainder or function.unlisted_orders:
        unlisted = "a remainder" if function.has_remainder else "terms that are added up by order"
        raise ValueError(
            f"{action}() must have all of the function in its terms, got {unlisted} too; decompose with terms='all' or "
            "a larger `budget`, or choose the terms to keep with select() first."
        )


def scaled_terms(
    terms: TermSet, factors: Mapping[Key, float], names_of: Callable[[Key], Names], outputs: Sequence[int]
) -> TermSet:
    """Return terms multiplied by their factors, for some outputs; raise ValueError for a term without a table."""
    for key in factors:
        if not terms.has_table(key):
            raise ValueError(
                f"scale() must have terms with a table, got {label_of(names_of(key))!r}, which is known at rows only; "
                "decompose with a higher `tensor_order`."
            )
    effects = terms.effects
    is_scaled = np.isin(np.arange(effects.n_outputs), outputs)
    scaled = {key: effects.terms[key] * np.where(is_scaled, factor, 1.0) for key, factor in factors.items()}
    return dataclasses.replace(terms, effects=dataclasses.replace(effects, terms={**effects.terms, **scaled}))


SAME_SCALE = ("identity", "probability")  # links with which the score is the response
_MAX_CELLS = 1 << 18  # of the joint table: its terms of all orders are purified
_MAX_FEATURES = 12  # of 2^12 terms


def response_effects(function: Function) -> Effects:
    """Return the response in every cell of all used features, one table; raise BudgetError if that is too large."""
    grid, schema = function.grid, function.grid.schema
    if schema.link in SAME_SCALE:
        raise ValueError(
            f"on_response_scale() must have a score that differs from the response, got the link {schema.link!r}; the "
            "terms are on the response scale already."
        )
    used = {j for key in function.terms.keys for j in key}
    if function.has_remainder or function.unlisted_orders:  # whose terms may have any feature with bins
        used = {j for j, size in enumerate(grid.sizes) if size > 1}
    key = tuple(sorted(used))
    n_cells = math.prod(grid.sizes[j] for j in key)
    if n_cells > _MAX_CELLS or len(key) > _MAX_FEATURES:
        raise BudgetError(
            f"the response of all {len(key)} features has {n_cells:,} cells and {2 ** len(key):,} terms, more than "
            f"{_MAX_CELLS:,} and {2**_MAX_FEATURES:,}; keep fewer features or terms with select() or drop(), train on "
            'fewer bins, or read single terms with fx.table(key, scale="response").'
        )
    sizes = [grid.sizes[j] for j in key]
    cells = np.indices(sizes, dtype=np.int32).reshape(len(sizes), -1).T
    codes = np.zeros((len(cells), len(grid.axes)), dtype=np.int32)
    codes[:, list(key)] = cells
    table = respond(schema, function.score(Rows.in_bins(grid, codes))).reshape(*sizes, -1)
    link, objective = ("probability", "brier") if is_classifier(schema) else ("identity", "")
    on_response = Grid(dataclasses.replace(schema, link=link, objective=objective), grid.axes)
    return Effects(on_response, np.zeros(table.shape[-1]), {key: table}) if key else Effects(on_response, table, {})
