"""AdditiveRegressor and AdditiveClassifier: scikit-learn estimators whose model is a sum of tables.

`fit` trains a bag of tree ensembles, adds its members up to one forest, decomposes it, and keeps terms up to
`max_order`. Each member is trained on all folds of the rows but one, which tells it when to stop. Purification is
linear: the terms of the sum are the means of the members' terms, and one decomposition gives them all. Rows that a
member was not trained on then tell how smooth main effects are, how strong terms are, and which of them matter.

By default a member is scikit-learn's histogram boosting. Its trees are deeper than `max_order`: the pairs of deep trees
are more accurate than trees of pairs, although terms of higher orders are then left out.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from typing import Any, Self

import narwhals.stable.v1 as nw
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from treeanova._decompose import decompose
from treeanova._members import (
    BOOSTING,
    Outcomes,
    boosted_members,
    folds_of,
    mean_of_outputs,
    side_by_side,
    trained_members,
    with_classes,
    with_terms,
)
from treeanova.core.arrays import Floats, Ints, Names, check_unmasked, checked_whole
from treeanova.data.columns import as_table, check_nameless, n_rows_of, rows_at
from treeanova.data.features import Schema
from treeanova.decomposition.answers import table_weights_of
from treeanova.decomposition.bags import Bag
from treeanova.decomposition.decomposition import Decomposition, mean, simplify_bag
from treeanova.decomposition.explanation import Explanation
from treeanova.decomposition.function import with_common_schema
from treeanova.decomposition.predictions import function_of
from treeanova.decomposition.recalibration import BagTables
from treeanova.decomposition.simplify import Members, Simplification, held_rows
from treeanova.density.statistics import checked_weights
from treeanova.errors import ScoreWarning
from treeanova.model.effects import declared_probabilities, is_classifier
from treeanova.model.forest import Forest, weighted_sum

_FEWEST_ROWS = 4  # so that each member is trained on two at least
_OF_PROBABILITIES = (
    "`estimator` should be a model of log-odds, such as boosted trees, got probabilities, such as those of a forest: "
    "without terms above `max_order` their sums may be below 0 or above 1, which predict_proba limits."
)
_LEAST_ROWS = 100  # to recalibrate and simplify: fewer cannot tell terms from noise
_NOT_SIMPLIFIED = (
    f"simplify=True must have {_LEAST_ROWS} rows or more, and members that are not EBMs, got {{}} rows: the model has "
    "more terms than max_terms={}; choose terms by decomposition_.select()."
)


class _Additive(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What both estimators share; their subclasses know the outcome."""

    def _fit(self, X: Any, y: npt.NDArray[Any], sample_weight: Any) -> Self:
        """Fit to numbers y, of a classifier the positions of classes."""
        n_bags = checked_whole("n_bags", self.n_bags, 2, "8 is the default")
        max_order = checked_whole("max_order", self.max_order, 1, "2 is the default")
        self._check_max_terms()
        rows = Outcomes(X, y, None if sample_weight is None else checked_weights(sample_weight, len(y)))
        if rows.weights is not None:  # of mean 1, since members are regularised by absolute numbers
            weights = rows.weights / rows.weights.max()
            rows = rows._replace(weights=weights / weights.mean())
        if len(rows.y) < _FEWEST_ROWS:
            raise ValueError(f"`X` must have at least {_FEWEST_ROWS} rows with weight, got {len(rows.y)}; add rows.")
        rng, classes = check_random_state(self.random_state), getattr(self, "classes_", None)
        folds = folds_of(None if classes is None else rows.y, len(rows.y), n_bags, rng)
        seeds = rng.randint(2**31 - 1, size=folds.max() + 1)
        if self.estimator is None:
            named = hasattr(self, "feature_names_in_")
            truncated = functools.partial(self._decompose, rows=rows)
            members = boosted_members(
                self._boosting(), rows, folds, seeds, max_order=max_order, named=named, truncated=truncated
            )
        else:
            members = trained_members(self.estimator, rows, folds, seeds)
        _check_kind(type(self).__name__, members[0].schema, needs_classes=classes is not None)
        self._members = [with_classes(member, classes) for member in members]
        if classes is not None and self._members[0].schema.link == "probability":
            warnings.warn(_OF_PROBABILITIES, ScoreWarning, stacklevel=3)
        varies = np.ptp(rows.y) > 0  # a constant outcome needs no terms
        if (self.recalibrate or self.simplify) and varies and len(rows.y) >= _LEAST_ROWS and self._forests:
            self._adopt(*self._recalibrated(rows, folds))
        else:
            self._adopt(self._mean(rows))
            if self.max_terms is not None and len(self.decomposition_.terms) > self.max_terms:
                warnings.warn(_NOT_SIMPLIFIED.format(len(rows.y), self.max_terms), ScoreWarning, stacklevel=3)
        return self

    def _check_max_terms(self) -> None:
        """Raise ValueError or TypeError unless `max_terms` is a count and comes with `simplify`."""
        if self.max_terms is not None:
            checked_whole("max_terms", self.max_terms, 0, "leave it out for no limit")
            if not self.simplify:
                raise ValueError(
                    f"`max_terms` must come with simplify=True, got {self.max_terms}; pass both, or none of them."
                )

    @property
    def _forests(self) -> list[Forest]:
        """The members, with one schema; empty if they are EBMs, which are tables already."""
        forests = [member for member in self._members if isinstance(member, Forest)]
        return with_common_schema(forests) if forests else []

    def _decompose(self, model: Any, rows: Outcomes) -> Decomposition:
        """Decompose, and keep terms up to `max_order` alone."""
        options = {"density": self.density, "sample_weight": rows.weights, "n_jobs": self.n_jobs}
        fx = decompose(model, rows.X, **options, **self._orders)
        orders = range(1, min(self.max_order, self.n_features_in_) + 1)
        return fx.select(order=orders) if fx.has_remainder else fx

    @property
    def _orders(self) -> dict[str, Any]:
        """Limits of `decompose`: tables of higher orders, which are left out, would take most of the time."""
        return {"max_order": self.max_order, "tensor_order": max(2, self.max_order) if self.estimator is None else None}

    def _mean(self, rows: Outcomes) -> Decomposition:
        """Decompose the mean of all members at once; EBMs one by one."""
        n, forests = len(self._members), self._forests
        if not forests:
            return mean([self._decompose(member, rows) for member in self._members])
        return self._decompose(weighted_sum(forests, [1 / n] * n), rows)

    def _recalibrated(self, rows: Outcomes, folds: Ints) -> tuple[Decomposition, Simplification | None]:
        """Decompose members side by side; recalibrate and simplify their mean by rows they were not trained on."""
        fx, tables = mean_of_outputs(self._decompose(side_by_side(self._forests), rows), self._members[0].schema)
        y = rows.y if not hasattr(self, "classes_") else self.classes_[rows.y]
        held = held_rows(fx.schema, rows.X, y, loss=None, group=None, sample_weight=rows.weights)
        held = held._replace(members=Members(tables, folds))
        if self.recalibrate:
            bag = BagTables.of(function_of(fx).terms, table_weights_of(fx), held).smooth()
            held = bag.rows
            fx = with_terms(fx, (bag if self.simplify else bag.strengthen()).terms())  # simplifying fits strengths too
        if not self.simplify:
            return fx, None
        return fx, simplify_bag(fx, held, max_terms=self.max_terms, max_order=self.max_order)

    def _adopt(self, fx: Decomposition, path: Simplification | None = None) -> None:
        """Take a decomposition as the model, or the one that was chosen on a path of smaller models."""
        self.__dict__.pop("bag_", None)
        self.simplification_ = path
        self.decomposition_ = fx if path is None else path.chosen

    @functools.cached_property
    def bag_(self) -> Bag:
        """The members of the bag, each decomposed under the density of `decomposition_`; made on first use."""
        check_is_fitted(self, "decomposition_")
        if not hasattr(self, "_members"):
            raise NotFittedError(
                "standard errors and `bag_` must have the members of a bag, got an estimator that was made from a "
                "decomposition; call fit()."
            )
        fx = self.decomposition_
        options: dict[str, Any] = {"density": self.density, "n_jobs": self.n_jobs, **self._orders}
        return Bag(fx, tuple(decompose(member, fx.statistics, **options) for member in self._members))

    def standard_errors(self) -> dict[Names, Floats]:
        """Return jackknife standard errors of all tables, from the folds that members were not trained on.

        Returns
        -------
        dict
            Names of the features of each term to an array of the shape of the term's values; plots and the report take
            it as `errors`.

        Examples
        --------
        >>> import numpy as np, treeanova
        >>> X = np.arange(150.0).reshape(-1, 1) % 3
        >>> y = X[:, 0] + np.random.default_rng(0).normal(size=150)
        >>> model = treeanova.AdditiveRegressor(n_bags=2).fit(X, y)
        >>> model.standard_errors()["x0",].shape == model.decomposition_.terms["x0"].values.shape
        True
        """
        n = len(self.bag_.members)
        # Members share most of their rows, unlike those of a bootstrap.
        return {names: errors * (n - 1) / np.sqrt(n) for names, errors in self.bag_.standard_errors().items()}

    def _rows(self, X: Any) -> Any:
        """Return new rows, checked; NotFittedError before `fit`."""
        check_is_fitted(self, "decomposition_")
        return _checked_rows(self, X, is_new=False)

    def explain(self, X: Any) -> Explanation:
        """Explain the score of each row: the intercept and the value of each term add up to it.

        Parameters
        ----------
        X
            Rows with the columns that the estimator was fitted to.

        Returns
        -------
        Explanation
            Values of all terms at the rows.

        Examples
        --------
        >>> import treeanova
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> model = treeanova.AdditiveRegressor.from_decomposition(fx)
        >>> model.explain(X[:1]).values.tolist(), model.predict(X[:1]).tolist()
        ([[-0.25, -0.25, 0.25]], [0.0])
        """
        rows = self._rows(X)
        return self.decomposition_.explain(rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class AdditiveRegressor(RegressorMixin, _Additive):  # type: ignore[misc]  # scikit-learn has no types
    """A regression by a sum of tables: main effects and interactions of a bag of boosted trees.

    Parameters
    ----------
    estimator
        An unfitted regressor that `treeanova.read_model` reads, such as LightGBM's, XGBoost's or CatBoost's. It is
        cloned for each member of the bag; boosting stops early where it can be asked to. By default scikit-learn's
        histogram boosting.
    n_bags
        Number of folds of the rows, and of members of the bag: each is trained on all folds but one.
    max_order
        Highest order of terms: 1 for main effects, 2 for pairs too.
    recalibrate
        Whether to smooth main effects and to fit the strength of each term. Each row is judged by the member of the bag
        that was not trained on it. Fewer than 100 rows, and EBMs, are not recalibrated.
    simplify
        Whether to keep only the terms that the rows need, in tables of few cells, as `Decomposition.simplify` does.
        Each row is judged by the member of the bag that was not trained on it. Fewer than 100 rows, and EBMs, are not
        simplified.
    max_terms
        The most terms that simplifying may keep; no limit by default. It must come with `simplify=True`.
    loss
        Loss of the default estimator: "squared_error", "absolute_error", "poisson", "gamma" or "quantile". Other
        estimators have their own.
    quantile
        The quantile to estimate, between 0 and 1, for the loss "quantile".
    density
        Density under which terms are pure, as for `treeanova.decompose`.
    n_jobs
        Number of threads of the decomposition; -1 takes all cores.
    random_state
        Seed of the folds and of the members.

    Attributes
    ----------
    decomposition_
        The model: a `Decomposition` with tables, importances, plots and files.
    simplification_
        The path of smaller models, or None.
    bag_
        The decomposition with those of all members.
    n_features_in_
        Number of features.
    feature_names_in_
        Names of the columns, if X was a table.

    Notes
    -----
    Columns of text or categories in tables are features with categories. Categories that were not in the training rows,
    and those beyond the 254 most frequent, are treated as missing. Missing values are allowed.

    Examples
    --------
    >>> import numpy as np, treeanova
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 3, (120, 2)).astype(float)
    >>> model = treeanova.AdditiveRegressor(n_bags=2).fit(X, X[:, 0] + rng.normal(size=120))
    >>> model.score(X, X[:, 0]) > 0.5
    True
    >>> "x0" in model.decomposition_.terms
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_bags: int = 8,
        max_order: int = 2,
        recalibrate: bool = True,
        simplify: bool = False,
        max_terms: int | None = None,
        loss: str = "squared_error",
        quantile: float | None = None,
        density: Any = "auto",
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.n_bags = n_bags
        self.max_order = max_order
        self.recalibrate = recalibrate
        self.simplify = simplify
        self.max_terms = max_terms
        self.loss = loss
        self.quantile = quantile
        self.density = density
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _boosting(self) -> Any:
        """Return the default estimator of members, not fitted."""
        kind = importlib.import_module("sklearn.ensemble").HistGradientBoostingRegressor
        return kind(loss=self.loss, quantile=self.quantile, **BOOSTING)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows and their outcomes.

        Parameters
        ----------
        X
            Rows: an array of numbers, or a pandas, polars or pyarrow table.
        y
            The outcome of each row.
        sample_weight
            Weight of each row; rows without weight are left out.

        Returns
        -------
        AdditiveRegressor
            Itself.

        Examples
        --------
        >>> import numpy as np, treeanova
        >>> X = np.arange(60.0).reshape(-1, 1) % 3
        >>> treeanova.AdditiveRegressor(n_bags=2).fit(X, np.random.default_rng(0).normal(size=60))
        AdditiveRegressor(n_bags=2)
        """
        self._check_loss()
        X, y, sample_weight = _with_weight(X, y, sample_weight)
        rows, outcome = _checked_rows(self, X, y)
        _check_real(outcome)
        return self._fit(rows, np.asarray(outcome, dtype=np.float64), sample_weight)

    def _check_loss(self) -> None:
        """Raise ValueError if `loss` and `quantile` do not fit each other or the estimator."""
        if self.estimator is not None and self.loss != "squared_error":
            raise ValueError(
                f"`loss` must be left out with an `estimator`, which has its own, got {self.loss!r}; choose it there."
            )
        needs_level = self.loss == "quantile"
        if needs_level and (self.quantile is None or not 0 <= self.quantile <= 1):
            raise ValueError(
                f"`quantile` must be from 0 to 1 for the loss 'quantile', got {self.quantile!r}; 0.5 is the median."
            )
        if not needs_level and self.quantile is not None:
            raise ValueError(
                f"`quantile` must be left out for the loss {self.loss!r}, got {self.quantile!r}; pass loss='quantile'."
            )

    def predict(self, X: Any) -> Floats:
        """Predict the outcome of each row.

        Parameters
        ----------
        X
            Rows with the columns that the estimator was fitted to.

        Returns
        -------
        numpy.ndarray
            Shape (n_rows,).

        Examples
        --------
        >>> import treeanova
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> treeanova.AdditiveRegressor.from_decomposition(fx).predict(X).tolist()
        [0.0, 0.0, 0.0, 1.0]
        """
        rows = self._rows(X)
        return np.asarray(self.decomposition_.predict(rows))

    @classmethod
    def from_decomposition(cls, fx: Decomposition) -> Self:
        """Return a fitted estimator of a decomposition.

        Parameters
        ----------
        fx
            The decomposition of a regression model, perhaps of selected or edited terms.

        Returns
        -------
        AdditiveRegressor
            An estimator with default parameters, whose `predict` is that of `fx`.

        Examples
        --------
        >>> import treeanova
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> treeanova.AdditiveRegressor.from_decomposition(fx.select(order=1)).predict(X).tolist()
        [-0.25, 0.25, 0.25, 0.75]
        """
        return _of_decomposition(cls(), fx, needs_classes=False)


class AdditiveClassifier(ClassifierMixin, _Additive):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier by a sum of tables: main effects and interactions of a bag of boosted trees.

    Terms add up to log-odds for two classes, and to one score per class for more.

    Parameters
    ----------
    estimator
        An unfitted classifier that `treeanova.read_model` reads, such as LightGBM's, XGBoost's or CatBoost's. It is
        cloned for each member of the bag; boosting stops early where it can be asked to. By default scikit-learn's
        histogram boosting.
    n_bags
        Number of folds of the rows, and of members of the bag: each is trained on all folds but one.
    max_order
        Highest order of terms: 1 for main effects, 2 for pairs too.
    recalibrate
        Whether to smooth main effects and to fit the strength of each term. Each row is judged by the member of the bag
        that was not trained on it. Fewer than 100 rows, and EBMs, are not recalibrated.
    simplify
        Whether to keep only the terms that the rows need, in tables of few cells, as `Decomposition.simplify` does.
        Each row is judged by the member of the bag that was not trained on it. Fewer than 100 rows, and EBMs, are not
        simplified.
    max_terms
        The most terms that simplifying may keep; no limit by default. It must come with `simplify=True`.
    density
        Density under which terms are pure, as for `treeanova.decompose`.
    n_jobs
        Number of threads of the decomposition; -1 takes all cores.
    random_state
        Seed of the folds and of the members.

    Attributes
    ----------
    decomposition_
        The model: a `Decomposition` with tables, importances, plots and files.
    simplification_
        The path of smaller models, or None.
    bag_
        The decomposition with those of all members.
    classes_
        Labels of the classes.
    n_features_in_
        Number of features.
    feature_names_in_
        Names of the columns, if X was a table.

    Notes
    -----
    Columns of text or categories in tables are features with categories. Categories that were not in the training rows,
    and those beyond the 254 most frequent, are treated as missing. Missing values are allowed.

    Examples
    --------
    >>> import numpy as np, treeanova
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 3, (120, 2)).astype(float)
    >>> y = np.where(X[:, 0] + rng.normal(size=120) > 1, "high", "low")
    >>> model = treeanova.AdditiveClassifier(n_bags=2).fit(X, y)
    >>> model.classes_.tolist(), model.score(X, y) > 0.6
    (['high', 'low'], True)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_bags: int = 8,
        max_order: int = 2,
        recalibrate: bool = True,
        simplify: bool = False,
        max_terms: int | None = None,
        density: Any = "auto",
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.n_bags = n_bags
        self.max_order = max_order
        self.recalibrate = recalibrate
        self.simplify = simplify
        self.max_terms = max_terms
        self.density = density
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _boosting(self) -> Any:
        """Return the default estimator of members, not fitted."""
        return importlib.import_module("sklearn.ensemble").HistGradientBoostingClassifier(**BOOSTING)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows and their classes.

        Parameters
        ----------
        X
            Rows: an array of numbers, or a pandas, polars or pyarrow table.
        y
            The class of each row.
        sample_weight
            Weight of each row; rows without weight are left out.

        Returns
        -------
        AdditiveClassifier
            Itself.

        Examples
        --------
        >>> import numpy as np, treeanova
        >>> X = np.arange(60.0).reshape(-1, 1) % 3
        >>> treeanova.AdditiveClassifier(n_bags=2).fit(X, np.random.default_rng(0).integers(0, 2, 60))
        AdditiveClassifier(n_bags=2)
        """
        X, y, sample_weight = _with_weight(X, y, sample_weight)
        _check_labels(y)
        rows, outcome = _checked_rows(self, X, y)
        check_classification_targets(outcome)
        self.classes_: npt.NDArray[Any] = np.unique(outcome)
        if len(self.classes_) < 2:
            label = self.classes_.tolist()[0]
            raise ValueError(f"`y` must have at least two classes, got one class, {label!r}; add rows.")
        return self._fit(rows, np.searchsorted(self.classes_, outcome), sample_weight)

    def decision_function(self, X: Any) -> Floats:
        """Return the score of each row: log-odds of the second of two classes, or one score per class.

        Parameters
        ----------
        X
            Rows with the columns that the estimator was fitted to.

        Returns
        -------
        numpy.ndarray
            Shape (n_rows,), or (n_rows, n_classes) for more than two classes.

        Examples
        --------
        >>> import pandas, treeanova
        >>> effects = treeanova.model.Effects.from_tables({"a": [0.0, 2.0]}, intercept=-1.0, link="logit")
        >>> fx = treeanova.decompose(effects, density="uniform")
        >>> model = treeanova.AdditiveClassifier.from_decomposition(fx)
        >>> model.decision_function(pandas.DataFrame({"a": [0, 1]})).tolist()
        [-1.0, 1.0]
        """
        rows = self._rows(X)
        return self.decomposition_.decision_function(rows)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class.

        If the terms add up to probabilities, as those of forests do, sums below 0 become 0, and those of a row are
        divided by their total; `decision_function` has the sums.

        Parameters
        ----------
        X
            Rows with the columns that the estimator was fitted to.

        Returns
        -------
        numpy.ndarray
            Shape (n_rows, n_classes).

        Examples
        --------
        >>> import pandas, treeanova
        >>> effects = treeanova.model.Effects.from_tables({"a": [0.0, 2.0]}, intercept=-1.0, link="logit")
        >>> fx = treeanova.decompose(effects, density="uniform")
        >>> model = treeanova.AdditiveClassifier.from_decomposition(fx)
        >>> model.predict_proba(pandas.DataFrame({"a": [0, 1]})).round(2).tolist()
        [[0.73, 0.27], [0.27, 0.73]]
        """
        rows = self._rows(X)
        schema = self.decomposition_.schema
        score = np.asarray(self.decomposition_.decision_function(rows)).reshape(-1, len(schema.outputs))
        sums = declared_probabilities(schema, score)
        if not (sums < 0).any():
            return sums
        positive = np.maximum(sums, 0.0)
        return np.where((sums < 0).any(axis=1, keepdims=True), positive / positive.sum(axis=1, keepdims=True), sums)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict the most probable class of each row.

        Parameters
        ----------
        X
            Rows with the columns that the estimator was fitted to.

        Returns
        -------
        numpy.ndarray
            Shape (n_rows,).

        Examples
        --------
        >>> import pandas, treeanova
        >>> effects = treeanova.model.Effects.from_tables({"a": [0.0, 2.0]}, intercept=-1.0, link="logit")
        >>> fx = treeanova.decompose(effects, density="uniform")
        >>> model = treeanova.AdditiveClassifier.from_decomposition(fx)
        >>> model.predict(pandas.DataFrame({"a": [0, 1]})).tolist()
        [0, 1]
        """
        places = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[places])

    @classmethod
    def from_decomposition(cls, fx: Decomposition) -> Self:
        """Return a fitted estimator of a decomposition.

        Parameters
        ----------
        fx
            The decomposition of a classifier, perhaps of selected or edited terms.

        Returns
        -------
        AdditiveClassifier
            An estimator with default parameters, whose `predict_proba` is that of `fx`, limited to 0 to 1.

        Examples
        --------
        >>> import pandas, treeanova
        >>> effects = treeanova.model.Effects.from_tables({"a": [0.0, 2.0]}, intercept=-1.0, link="logit")
        >>> fx = treeanova.decompose(effects, density="uniform")
        >>> model = treeanova.AdditiveClassifier.from_decomposition(fx)
        >>> model.predict(pandas.DataFrame({"a": [0, 1]})).tolist()
        [0, 1]
        """
        return _of_decomposition(cls(), fx, needs_classes=True)


# Decompositions as estimators


def _of_decomposition(estimator: Any, fx: Decomposition, *, needs_classes: bool) -> Any:
    """Fill a new estimator with a decomposition, as if it had been fitted; ValueError for a model of the other kind."""
    schema = fx.schema
    _check_kind(type(estimator).__name__, schema, needs_classes=needs_classes)
    estimator.n_features_in_ = len(schema.features)
    if schema.named or schema.given:
        estimator.feature_names_in_ = fx.feature_names_in_
    if needs_classes:
        estimator.classes_ = np.array(schema.declared_classes or schema.classes or range(max(len(schema.outputs), 2)))
    estimator._adopt(fx)  # noqa: SLF001
    return estimator


def _check_kind(name: str, schema: Schema, *, needs_classes: bool) -> None:
    """Raise ValueError for a model of classes where a regressor needs a model, or the other way round."""
    if is_classifier(schema) != needs_classes:
        other = "AdditiveRegressor" if needs_classes else "AdditiveClassifier"
        raise ValueError(f"{name} must have a model of its kind, got the link {schema.link!r}; take {other}.")


def _with_weight(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return rows, outcomes and weights without the rows of weight zero, whatever their outcome; refuse masked ones."""
    X = _without_mask(X)
    if sample_weight is not None and y is not None:
        rows = X if hasattr(X, "__len__") or hasattr(X, "shape") else np.asarray(X)
        outcome = np.asarray(y) if not isinstance(y, np.ma.MaskedArray) else y
        weights = checked_weights(sample_weight, n_rows_of(rows))
        if outcome.shape[:1] == weights.shape and not weights.all():
            places = np.flatnonzero(weights)
            X, y, sample_weight = rows_at(rows, places), outcome[places], weights[places]
    check_unmasked("y", y)
    return X, y, sample_weight


def _without_mask(X: Any) -> Any:
    """Return a masked array with NaN in place of masked values, as missing; other rows as they are."""
    return np.ma.filled(X.astype(np.float64), np.nan) if isinstance(X, np.ma.MaskedArray) else X


def _check_real(y: npt.NDArray[Any]) -> None:
    """Raise TypeError for outcomes that are complex numbers or dates."""
    kind = y.dtype
    if kind.kind in "cmM":
        raise TypeError(f"`y` must hold real numbers, got {kind}; convert it.")


def _check_labels(y: Any) -> None:
    """Raise TypeError for labels of text mixed with others, which have no order."""
    labels = np.asarray(y)
    kinds = {type(label) for label in labels.ravel().tolist()} if labels.dtype == object else set()
    if len(kinds) > 1 and any(issubclass(kind, str) for kind in kinds):
        names = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(f"`y` must hold labels of one type, got {names}; convert them, as by y.astype(str).")


def _checked_rows(estimator: Any, X: Any, y: Any = "no_validation", *, is_new: bool = True) -> Any:
    """Check rows as scikit-learn does, with outcomes if given; tables stay tables, for their categories."""
    X, is_number = _without_mask(X), isinstance(estimator, RegressorMixin)
    if not nw.dependencies.is_into_dataframe(X):
        check_nameless(X)
        checks: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
        if isinstance(y, str):
            return validate_data(estimator, X, reset=is_new, **checks)
        return validate_data(estimator, X, y, y_numeric=is_number, ensure_min_samples=2, **checks)
    stand_in = np.zeros((len(as_table(X)), 1))  # since a table may hold text
    validate_data(estimator, X, reset=is_new, skip_check_array=True)
    if isinstance(y, str):
        return X
    if not estimator.n_features_in_:
        raise ValueError("`X` must have a column at least, got a table of none; add features.")
    return X, check_X_y(stand_in, y, y_numeric=is_number, ensure_min_samples=2)[1]
