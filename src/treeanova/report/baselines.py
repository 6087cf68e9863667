"""Baselines that a card fits on request: boosted trees of depth 2, and a generalized linear model (scikit-learn)."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from treeanova.core.arrays import Floats, Ints
from treeanova.data.columns import encode
from treeanova.data.features import Schema
from treeanova.decomposition.held_out import Question, outcome_of
from treeanova.density.statistics import checked_weights
from treeanova.model.effects import is_classifier

_MOST_CATEGORIES = 254  # of a feature, the most frequent; histogram boosting takes no more
_BOOSTING: dict[str, Any] = {
    "max_depth": 2,
    "max_iter": 3000,
    "early_stopping": True,
    "n_iter_no_change": 40,
    "random_state": 0,
}
_TREES = "boosted trees of depth 2"


class _Kind(NamedTuple):
    """How a loss is fitted: of boosting, and the class, name and options of a linear model."""

    boosting: str
    linear: str
    name: str
    options: dict[str, Any] = {}  # noqa: RUF012  never changed


_GLM = {"alpha": 1e-6, "solver": "newton-cholesky", "max_iter": 1000}
_KINDS = {
    "squared error": _Kind("squared_error", "LinearRegression", "linear regression"),
    "Poisson loss": _Kind("poisson", "PoissonRegressor", "Poisson regression", _GLM),
    "gamma loss": _Kind("gamma", "GammaRegressor", "gamma regression", _GLM),
}
_OF_CLASSES = _Kind("log_loss", "LogisticRegression", "logistic regression", {"max_iter": 1000})


def fitted_baselines(
    schema: Schema, questions: Sequence[Question], training: Any, encoded: Floats
) -> tuple[dict[str, Floats], list[str]]:
    """Fit both baselines to rows of training, and return their responses at encoded rows, with notes on the fit."""
    kind = _kind_of(schema, questions)
    X, y, *more = _checked_training(training)
    train = encode(X, schema)
    outcome = outcome_of(schema, questions[0], y, len(train))
    targets = outcome[:, 0] if outcome.shape[1] == 1 else outcome.argmax(axis=1)
    options = {"sample_weight": checked_weights(more[0], len(train))} if more else {}
    codes = _frequent_codes(schema, train)
    boosting, linear = _estimators(kind, schema)
    designs = {
        _TREES: (boosting, _codes(codes, train), _codes(codes, encoded)),
        kind.name: (linear, _standardised(codes, train, train), _standardised(codes, train, encoded)),
    }
    responses, words = {}, []
    for name, (model, columns, new_columns) in designs.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(columns, targets, **options)
        if any(type(warning.message).__name__ == "ConvergenceWarning" for warning in caught):
            words.append(f"The {name} did not converge.")
        responses[name] = _response(model, new_columns, len(schema.outputs) if is_classifier(schema) else 0)
    return responses, [_words(kind, boosting.n_iter_, len(train)), *words]


def _words(kind: _Kind, n_trees: int, n_rows: int) -> str:
    version = importlib.import_module("sklearn").__version__
    return (
        f"Fitted with scikit-learn {version} to {n_rows:,} rows for comparison: {n_trees:,} {_TREES}, which stop early "
        f"by a tenth of these rows, and a {kind.name} on standardised numbers and one column per category."
    )


def _kind_of(schema: Schema, questions: Sequence[Question]) -> _Kind:
    """Return how the loss is fitted; ValueError if no baseline minimises it."""
    question = questions[0]
    has_classes = is_classifier(schema) and question.loss.outcome == "labels"
    kind = _OF_CLASSES if has_classes else _KINDS.get(question.name)
    if kind is None or len(questions) > 1:
        what = question.name if kind is None else f"{len(questions)} outcomes"
        raise ValueError(
            "`baselines` must come with one outcome and a loss of classes, squared error, Poisson loss or gamma loss, "
            f"got {what}; fit models to compare with, and pass them in `beside`."
        )
    return kind


def _checked_training(training: Any) -> Sequence[Any]:
    """Return rows, outcomes and perhaps weights."""
    if not isinstance(training, tuple | list) or len(training) not in {2, 3}:
        got = f"{len(training)} entries" if isinstance(training, tuple | list) else type(training).__name__
        raise TypeError(f"`baselines` must be (X, y) or (X, y, sample_weight) of training, got {got}; pass a tuple.")
    return training


def _estimators(kind: _Kind, schema: Schema) -> tuple[Any, Any]:
    """Return boosting and a linear model, unfitted."""
    ensemble, linear = (importlib.import_module(f"sklearn.{name}") for name in ("ensemble", "linear_model"))
    boosting = getattr(ensemble, f"HistGradientBoosting{'Classifier' if is_classifier(schema) else 'Regressor'}")
    categories = [feature.is_category for feature in schema.features]
    trees = boosting(loss=kind.boosting, categorical_features=categories, **_BOOSTING)
    return trees, getattr(linear, kind.linear)(**kind.options)


def _response(model: Any, columns: Floats, n_classes: int) -> Floats:
    """Return predictions, or with classes probabilities, 0 for those that had no rows of training."""
    if not n_classes:
        return np.asarray(model.predict(columns))
    present = model.predict_proba(columns)
    probabilities = np.zeros((len(columns), max(n_classes, 2)))
    probabilities[:, model.classes_.astype(np.int64)] = present
    return probabilities


# Columns


def _frequent_codes(schema: Schema, train: Floats) -> list[Ints | None]:
    """Return the most frequent codes of each feature of categories; None for numbers."""
    codes: list[Ints | None] = []
    for feature, column in zip(schema.features, train.T, strict=True):
        values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
        frequent = np.argsort(-counts, kind="stable")[:_MOST_CATEGORIES]
        codes.append(np.sort(values[frequent]).astype(np.int64) if feature.is_category else None)
    return codes


def _codes(codes: Sequence[Ints | None], rows: Floats) -> Floats:
    """Return numbers as they are, and categories as places among the frequent ones, NaN for others."""
    columns = []
    for frequent, column in zip(codes, rows.T, strict=True):
        if frequent is None:
            columns.append(column)
            continue
        is_one = np.isin(column, frequent)
        columns.append(np.where(is_one, np.searchsorted(frequent, column), np.nan))
    return np.column_stack(columns)


def _standardised(codes: Sequence[Ints | None], train: Floats, rows: Floats) -> Floats:
    """Return numbers of mean 0 and variance 1 at training, one column per frequent category, and one for missing."""
    columns = []
    for frequent, old, new in zip(codes, train.T, rows.T, strict=True):
        if np.isnan(old).any():
            columns.append(np.isnan(new)[:, None])
        if frequent is not None:
            columns.append(new[:, None] == frequent)
            continue
        seen = old[~np.isnan(old)]
        mean, spread = (seen.mean(), seen.std()) if len(seen) else (0.0, 1.0)
        columns.append(np.where(np.isnan(new), 0.0, (new - mean) / (spread or 1.0))[:, None])
    return np.hstack(columns).astype(np.float64)
