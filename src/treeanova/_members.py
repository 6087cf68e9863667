"""Members of a bag: tree ensembles that are trained on all folds of the rows but one, and read.

Boosting stops when the loss of the held-out fold no longer falls, and forgets the rounds after the best one. Tables are
encoded once for the default estimator, so that all members number categories alike.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import narwhals.stable.v1 as nw
import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints, Key
from treeanova.data.columns import as_table, encode, raw_column, rows_at
from treeanova.data.features import Encoder, Feature, Labels, Numeric, Schema, is_missing
from treeanova.decomposition.decomposition import Decomposition, settings_of
from treeanova.decomposition.function import Function
from treeanova.decomposition.predictions import function_of
from treeanova.model.effects import Effects
from treeanova.model.forest import Forest, weighted_sum
from treeanova.model.grid import Grid
from treeanova.readers import read_for_rows
from treeanova.terms.source import AdditiveModel
from treeanova.terms.terms import TermSet

_MAX_CATEGORIES = 254  # histogram boosting has 255 bins
_BINS = 128  # of a number, narrower in the tails; 64 lose accuracy where effects are smooth, 255 gain none
_FEW_CATEGORIES = 30
_ROUNDS = 40  # of boosting that do not lower the loss of the held-out fold, after which a member stops

# Settings of the default estimator.
BOOSTING: dict[str, Any] = {
    "max_iter": 2000,
    "max_features": 0.5,
    "l2_regularization": 1.0,
    "early_stopping": True,
    "n_iter_no_change": _ROUNDS,
    "scoring": "loss",
    "tol": 0.0,
}
_N_CUTS = "n_cuts"  # of a number, drawn for each member: the mean of many coarse members is smooth
# What the first folds choose from: trees for interactions and noise; trees for smooth effects with little noise; and
# trees for smooth effects of few rows.
CONTENDERS: tuple[dict[str, Any], ...] = (
    {"learning_rate": 0.1, "max_leaf_nodes": 12, "min_samples_leaf": 20},
    {"learning_rate": 0.2, "max_leaf_nodes": 5, "min_samples_leaf": 4},
    {"learning_rate": 0.1, "max_leaf_nodes": 3, "min_samples_leaf": 4, _N_CUTS: 12},
)
# Trees of pairs alone, which lose nothing where higher orders are left out.
_PAIR_SETTINGS: dict[str, Any] = {"learning_rate": 0.2, "max_leaf_nodes": 16, "min_samples_leaf": 5}
_MOST_FEATURES_OF_PAIRS = 32  # histogram boosting goes through all pairs at each node
_LEAST_ROWS_OF_PAIRS = 2000
_ROWS_OF_CHOICE = 1000  # held-out rows that choose


class Outcomes(NamedTuple):
    """Rows, their outcomes and weights, as an estimator is fitted to them."""

    X: Any
    y: npt.NDArray[Any]
    weights: Floats | None

    def at(self, places: Ints) -> Outcomes:
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[places]
        return Outcomes(rows_at(self.X, places), self.y[places], weights)

    @property
    def fit_options(self) -> dict[str, Any]:
        """Keyword arguments for `fit`: the weights, if there are any."""
        return {} if self.weights is None else {"sample_weight": self.weights}


def features_of(X: Any) -> tuple[Feature, ...]:
    """Return a feature for each column; those of a table that are not numbers have categories."""
    if not nw.dependencies.is_into_dataframe(X):
        return tuple(Feature(f"x{j}") for j in range(X.shape[1]))
    table = as_table(X)
    return tuple(Feature(str(name), _encoder(table[:, j])) for j, name in enumerate(table.columns))


def _encoder(series: nw.Series[Any]) -> Encoder:
    """Return how a column of a table becomes numbers: as it is, or by categories, the most frequent ones of many."""
    if series.dtype.is_numeric() or series.dtype == nw.Boolean:
        return Numeric()
    if series.dtype.is_temporal():
        raise TypeError(f"column {series.name!r} must hold numbers or categories, got {series.dtype}; convert it.")
    column = raw_column(series)
    if column.dtype != object:
        return Numeric()
    labels, counts = np.unique([str(value) for value in column if not is_missing(value)], return_counts=True)
    spelled = {str(value): value for value in column if not is_missing(value)}
    frequent = np.sort(np.argsort(-counts, kind="stable")[:_MAX_CATEGORIES])
    return Labels(tuple(spelled[str(label)] for label in labels[frequent]))


# Members of the bag


def folds_of(classes: npt.NDArray[Any] | None, n_rows: int, n_bags: int, rng: np.random.RandomState) -> Ints:
    """Return the fold of each row, classes spread evenly; -1, in no fold, for the only row of a class."""
    order = rng.permutation(n_rows)
    folds = np.empty(n_rows, dtype=np.int64)
    if classes is None:
        folds[order] = np.arange(n_rows) % n_bags
        return folds
    by_class = order[np.argsort(classes[order], kind="stable")]
    counts = np.bincount(classes)
    is_single = counts[classes[by_class]] < 2
    folds[by_class[is_single]] = -1
    if is_single.all():
        raise ValueError("`y` must have a class of at least two rows, got none; add rows.")
    folds[by_class[~is_single]] = np.arange((~is_single).sum()) % n_bags
    return folds


class Column(NamedTuple):
    """A column for histogram boosting: codes of a number, codes of categories, or the indicator of one category.

    Numbers are cut once, for all members, so that their trees share thresholds and their terms share bins.
    """

    feature: int
    cuts: Floats | None = None  # upper ends of all bins of a number but the last
    category: int | None = None  # the one that the column indicates; after the last one, missing values

    @property
    def is_categorical(self) -> bool:
        """Whether the column has codes of categories, which trees split into two sets."""
        return self.cuts is None and self.category is None

    def codes(self, values: Floats) -> Floats:
        """Return the column for encoded values of its feature."""
        if self.cuts is not None:
            return np.where(np.isnan(values), np.nan, np.searchsorted(self.cuts, values))
        return values if self.category is None else (values == self.category).astype(np.float64)

    def coarser(self, n_cuts: int | None, rng: np.random.RandomState) -> Column:
        """Return the column with some of its cuts, drawn at random; all if there are no more or no limit."""
        if n_cuts is None or self.cuts is None or len(self.cuts) <= n_cuts:
            return self
        return self._replace(cuts=np.sort(rng.choice(self.cuts, n_cuts, replace=False)))


class Trained(NamedTuple):
    """A member, and the columns it was trained on."""

    model: Any
    columns: Sequence[Column]

    @property
    def best_loss(self) -> float:
        """The smallest loss on the held-out fold."""
        return -float(np.max(self.model.validation_score_))


def columns_of(features: Sequence[Feature], matrix: Floats) -> list[Column]:
    """Return the columns for features with encoded values; few categories become one column each.

    A split of one category from all others overfits less than one of the categories sorted by their means.
    """
    columns: list[Column] = []
    for j, feature in enumerate(features):
        if not feature.is_category:
            columns.append(Column(j, _cuts(matrix[:, j])))
        elif feature.n_categories > _FEW_CATEGORIES:
            columns.append(Column(j))
        else:
            levels = feature.n_categories + int((matrix[:, j] == feature.n_categories).any())
            columns += [Column(j, category=k) for k in range(int(levels == 2), levels)]  # one is enough for two levels
    return columns


def _cuts(values: Floats) -> Floats:
    """Return cuts between all values if they are few, else at quantiles, more of them in the tails."""
    values = np.sort(values[~np.isnan(values)])
    distinct = np.unique(values)
    if len(distinct) > _BINS:
        shares = np.sin(np.pi / 2 * np.arange(1, _BINS) / _BINS) ** 2
        cuts = np.unique(np.quantile(values, shares, method="inverted_cdf"))
        return cuts[cuts < distinct[-1]]
    low, high = distinct[:-1], distinct[1:]
    middle = low / 2 + high / 2
    return np.where((low < middle) & (middle < high), middle, low)


def _matrix(features: Sequence[Feature], X: Any, *, named: bool) -> Floats:
    """Return encoded rows; categories beyond the limit are missing, and few categories have a code for missing ones."""
    matrix = encode(X, Schema(tuple(features), named=named))
    for j, feature in enumerate(features):
        if feature.is_category:
            is_missing_value = np.isnan(matrix[:, j]) | (matrix[:, j] == feature.n_categories)
            matrix[is_missing_value, j] = np.nan if feature.n_categories > _FEW_CATEGORIES else feature.n_categories
    return matrix


def boosted_members(
    estimator: Any,
    rows: Outcomes,
    folds: Ints,
    seeds: Ints,
    *,
    max_order: int,
    named: bool,
    truncated: Callable[[Forest], Decomposition],
) -> list[Forest]:
    """Train histogram boosting on columns of codes; `truncated` decomposes a member up to `max_order`.

    Paths may have more features than `max_order`, unless that is 1 or trees of pairs are better: what deep trees say of
    pairs is often more accurate than trees of pairs, although the terms of higher orders are then left out.
    """
    features = features_of(rows.X)
    matrix = _matrix(features, rows.X, named=named)
    columns = columns_of(features, matrix)
    columns_by_feature = [[i for i, column in enumerate(columns) if column.feature == j] for j in range(len(features))]
    n_bins = max(_BINS, *(feature.n_categories for feature in features))
    estimator.set_params(
        categorical_features=[column.is_categorical for column in columns],
        interaction_cst=columns_by_feature if max_order == 1 else None,
        max_bins=n_bins,
    )
    is_small = 2 < len(features) <= _MOST_FEATURES_OF_PAIRS
    may_be_pairs = max_order == 2 and is_small and len(rows.y) >= _LEAST_ROWS_OF_PAIRS
    pairs = [one + other for one, other in itertools.combinations(columns_by_feature, 2)]
    pair_settings = _PAIR_SETTINGS | {"interaction_cst": pairs} if may_be_pairs else None

    def read(member: Trained) -> Forest:
        forest: Any = read_for_rows(member.model)
        return _with_features(forest, features, member.columns, named=named)

    def truncated_loss(member: Trained) -> float:  # on the first fold, with terms up to `max_order` alone
        places = np.flatnonzero(folds == 0)
        score = truncated(read(member)).decision_function(rows_at(rows.X, places))
        return _loss_of(member.model, score, rows.at(places))

    race = _Race(estimator, rows._replace(X=matrix), columns, folds, seeds, pair_settings, truncated_loss)
    return [read(member) for member in race.members()]


def _loss_of(member: Any, score: Floats, rows: Outcomes) -> float:
    """Return the mean loss of scores, by the loss that histogram boosting minimises."""
    y = rows.y.astype(np.float64)
    raw = np.ascontiguousarray(np.asarray(score, dtype=np.float64).reshape(len(y), -1))
    return float(member._loss(y_true=y, raw_prediction=raw, sample_weight=rows.weights))  # noqa: SLF001


@dataclasses.dataclass(frozen=True)
class _Race:
    """Settings of histogram boosting that compete on the first folds; the winner trains the others."""

    estimator: Any
    rows: Outcomes  # encoded
    columns: Sequence[Column]
    folds: Ints
    seeds: Ints
    pair_settings: dict[str, Any] | None  # for trees of pairs alone; None if they do not compete
    truncated_loss: Callable[[Trained], float]  # of the first member on the fold that it was not trained on

    @property
    def n_first(self) -> int:
        """Number of folds on which settings compete: as many as have enough held-out rows together."""
        n_needed = math.ceil(_ROWS_OF_CHOICE * len(self.seeds) / len(self.folds))
        return min(max(1, n_needed), len(self.seeds))

    def members(self) -> list[Trained]:
        """Train the members: all settings on the first folds, and the winner on the others too."""
        contenders = [self._trained(settings, range(self.n_first)) for settings in CONTENDERS]
        losses = [sum(member.best_loss for member in members) for members in contenders]
        best = int(np.nanargmin(losses)) if np.isfinite(losses).any() else 0
        settings, members = CONTENDERS[best], contenders[best]
        if self.pair_settings is not None:
            pair_members = self._trained(self.pair_settings, range(self.n_first))
            if self._pairs_win(members, pair_members):
                settings, members = self.pair_settings, pair_members
        return [*members, *self._trained(settings, range(self.n_first, len(self.seeds)))]

    def _trained(self, settings: dict[str, Any], places: Iterable[int]) -> list[Trained]:
        """Train a member with some settings for each fold, given by its number."""
        return [self._one(settings, i) for i in places]

    def _one(self, settings: dict[str, Any], fold: int) -> Trained:
        """Train a member on all folds but one."""
        options = dict(settings)
        n_cuts, rng = options.pop(_N_CUTS, None), np.random.RandomState(self.seeds[fold])
        columns = [column.coarser(n_cuts, rng) for column in self.columns]
        codes = np.column_stack([column.codes(self.rows.X[:, column.feature]) for column in columns])
        # Constants in columns that are missing in all other folds: scikit-learn cannot bin these.
        codes[:, np.isnan(codes[self.folds != fold]).all(axis=0)] = 0.0
        member = importlib.import_module("sklearn.base").clone(self.estimator).set_params(**options)
        rows = self.rows._replace(X=codes)
        return Trained(_fitted(member, rows, self.folds, fold, self.seeds[fold]), columns)

    def _pairs_win(self, members: Sequence[Trained], pair_members: Sequence[Trained]) -> bool:
        """Whether trees of pairs are better than others, or than what is left of these up to order 2.

        What the others lose by leaving out higher orders is measured on the first fold alone.
        """
        excess_of_pairs = float(
            np.mean([pair.best_loss - deep.best_loss for deep, pair in zip(members, pair_members, strict=True)])
        )
        return excess_of_pairs < 0 or excess_of_pairs < self.truncated_loss(members[0]) - members[0].best_loss


def trained_members(estimator: Any, rows: Outcomes, folds: Ints, seeds: Ints) -> list[Any]:
    """Train a clone of the estimator for each fold, on all others, and read it."""
    return [read_for_rows(_fitted(_clone_of(estimator), rows, folds, i, seed)) for i, seed in enumerate(seeds)]


def _clone_of(estimator: Any) -> Any:
    try:
        return importlib.import_module("sklearn.base").clone(estimator)
    except RuntimeError as error:  # of CatBoost's estimators with `cat_features`, which change their parameters
        raise TypeError(
            f"`estimator` must be one that scikit-learn can clone, got {type(estimator).__name__}; with CatBoost, "
            "leave out `cat_features` and pass numbers, or take an estimator of another library."
        ) from error


def _fitted(member: Any, rows: Outcomes, folds: Ints, fold: int, seed: int) -> Any:
    """Train on all folds but one, which tells boosting when to stop."""
    if "random_state" in member.get_params(deep=False):
        member.set_params(random_state=int(seed))
    train, held_out = (rows.at(np.flatnonzero(places)) for places in (folds != fold, folds == fold))
    library = type(member).__module__.partition(".")[0]
    _FITTING.get(library, _fit_plainly)(member, train, held_out)
    return member


def _fit_plainly(estimator: Any, train: Outcomes, held_out: Outcomes) -> None:  # noqa: ARG001
    """Fit to the training rows; nothing stops early."""
    estimator.fit(train.X, train.y, **train.fit_options)


def _fit_sklearn(estimator: Any, train: Outcomes, held_out: Outcomes) -> None:
    """Fit; histogram boosting that stops early does so by the held-out rows, and forgets the rounds after the best."""
    if not getattr(estimator, "early_stopping", False) or not hasattr(estimator, "interaction_cst"):
        _fit_plainly(estimator, train, held_out)
        return
    estimator.set_params(early_stopping=True)
    validation = {}
    if "X_val" in inspect.signature(estimator.fit).parameters:  # since scikit-learn 1.7; before, a part of `train`
        validation = {"X_val": held_out.X, "y_val": held_out.y, "sample_weight_val": held_out.weights}
    estimator.fit(train.X, train.y, **train.fit_options, **validation)
    if estimator.scoring == "loss":
        best = int(np.argmax(estimator.validation_score_))
        del estimator._predictors[max(best, 1) :]  # noqa: SLF001  those after the best round


def _fit_lightgbm(estimator: Any, train: Outcomes, held_out: Outcomes) -> None:
    """Fit until the loss of the held-out rows no longer falls."""
    validation: dict[str, Any] = {"eval_set": [(held_out.X, held_out.y)]}
    if "eval_X" in inspect.signature(estimator.fit).parameters:  # since LightGBM 4.7
        validation = {"eval_X": held_out.X, "eval_y": held_out.y}
    if held_out.weights is not None:
        validation["eval_sample_weight"] = [held_out.weights]
    stop = importlib.import_module("lightgbm").early_stopping(_ROUNDS, verbose=False)
    estimator.fit(train.X, train.y, **train.fit_options, **validation, callbacks=[stop])


def _fit_xgboost(estimator: Any, train: Outcomes, held_out: Outcomes) -> None:
    """Fit until the loss of the held-out rows no longer falls."""
    if estimator.early_stopping_rounds is None:
        estimator.set_params(early_stopping_rounds=_ROUNDS)
    weights = None if held_out.weights is None else [held_out.weights]
    validation = {"eval_set": [(held_out.X, held_out.y)], "sample_weight_eval_set": weights}
    estimator.fit(train.X, train.y, **train.fit_options, **validation, verbose=False)


def _fit_catboost(estimator: Any, train: Outcomes, held_out: Outcomes) -> None:
    """Fit until the loss of the held-out rows no longer falls."""
    validation = {"eval_set": (held_out.X, held_out.y), "early_stopping_rounds": _ROUNDS}
    estimator.fit(train.X, train.y, **train.fit_options, **validation, verbose=False)


_FITTING: dict[str, Callable[[Any, Outcomes, Outcomes], None]] = {
    "sklearn": _fit_sklearn,
    "lightgbm": _fit_lightgbm,
    "xgboost": _fit_xgboost,
    "catboost": _fit_catboost,
}


def with_classes(member: Forest | Effects, classes: npt.NDArray[Any] | None) -> Forest | Effects:
    """Name the classes, which members know as numbers."""
    if classes is None:
        return member
    labels = tuple(classes.tolist())
    outputs = tuple(str(label) for label in (labels[1:] if len(labels) == 2 else labels))
    return member.with_schema(dataclasses.replace(member.schema, classes=labels, outputs=outputs))


def _with_features(forest: Forest, features: tuple[Feature, ...], columns: Sequence[Column], *, named: bool) -> Forest:
    """Return a forest of columns of codes as one of the features themselves, with the categories of all members."""
    bound, missing_left, starts = forest.bound.copy(), forest.missing_left.copy(), forest.category_start.copy()
    sets, n_bits = [np.zeros(0, dtype=bool)], 0
    for i, column in enumerate(columns):
        nodes = np.flatnonzero(forest.feature == i)
        if column.cuts is not None:
            ends = np.append(column.cuts, np.inf)
            bound[nodes] = ends[np.clip(bound[nodes], 0, len(column.cuts)).astype(np.int64)]
            continue
        codes = forest.schema.features[i].encoder.labels or ()
        goes_left = _categories_left(forest, nodes, column, codes, features[column.feature].n_categories)
        missing_left[nodes] = goes_left[:, -1]
        starts[nodes] = n_bits + np.arange(len(nodes)) * goes_left.shape[1]
        sets.append(goes_left.ravel())
        n_bits += goes_left.size
    feature = np.array([*(column.feature for column in columns), -1])[forest.feature]  # -1 at leaves
    schema = dataclasses.replace(forest.schema, features=features, named=named)
    arrays = {"feature": feature, "bound": bound, "missing_left": missing_left, "category_start": starts}
    return dataclasses.replace(forest, schema=schema, category_left=np.concatenate(sets), **arrays)


def _categories_left(forest: Forest, nodes: Ints, column: Column, codes: Sequence[Any], n_categories: int) -> Bools:
    """Return whether each category, and at last an unseen one, goes left at nodes: missing and unseen ones go alike."""
    if column.category is not None:  # its indicator is above the bound of all nodes
        return np.repeat(np.arange(n_categories + 1)[None] != column.category, len(nodes), axis=0)
    # Categories that a member did not see, and unseen ones, come last.
    places = np.full(n_categories + 1, len(codes))
    places[np.array(codes, dtype=np.int64)] = np.arange(len(codes))
    return np.asarray(forest.category_left[forest.category_start[nodes][:, None] + places])


# Members side by side


def side_by_side(forests: Sequence[Forest]) -> Forest:
    """Return a forest with the outputs of all forests, one after the other."""
    n_outputs = forests[0].n_outputs
    names = tuple(f"{i} {name}" for i, forest in enumerate(forests) for name in forest.schema.outputs)
    wide = []
    for i, forest in enumerate(forests):
        places = slice(i * n_outputs, (i + 1) * n_outputs)
        intercept, values = np.zeros(len(names)), np.zeros((forest.n_leaves, len(names)))
        intercept[places], values[:, places] = forest.intercept, forest.values
        schema = dataclasses.replace(forest.schema, outputs=names, link="identity", classes=(), objective="")
        wide.append(dataclasses.replace(forest, schema=schema, intercept=intercept, values=values))
    return weighted_sum(wide, [1.0] * len(wide))


def mean_of_outputs(fx: Decomposition, schema: Schema) -> tuple[Decomposition, dict[Key, Floats]]:
    """Return the mean of forests that were decomposed side by side, and the tables of each, forests first."""
    function, n_outputs = function_of(fx), len(schema.outputs)
    effects = function.effects
    tables = {
        key: np.moveaxis(table.reshape(*table.shape[:-1], -1, n_outputs), -2, 0) for key, table in effects.terms.items()
    }
    grid = Grid(dataclasses.replace(schema, features=fx.schema.features), effects.grid.axes)
    means = {key: table.mean(axis=0) for key, table in tables.items()}
    intercept = effects.intercept.reshape(-1, n_outputs).mean(axis=0)
    terms = TermSet(Effects(grid, intercept, means, effects.binnings), function.terms.weights)
    scope = dataclasses.replace(function.scope, order=None)
    mean = Function(AdditiveModel(terms), terms, scope, function.n_jobs)
    return Decomposition(mean, fx.density, fx.certificate, settings_of(fx)), tables


def with_terms(fx: Decomposition, terms: TermSet) -> Decomposition:
    """Return a model of other tables over the same bins, that are pure under the same density."""
    function = function_of(fx)
    model = Function(AdditiveModel(terms), terms, function.scope, function.n_jobs)
    return Decomposition(model, fx.density, fx.certificate, settings_of(fx))
