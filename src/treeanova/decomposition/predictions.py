"""The decomposed model and its terms, by name and at rows: scores, predictions, explanations.

Terms add up on the score scale. On the response scale, the change by a term depends on the others. It is shown with all
other terms at zero, their average under the density: ``response(intercept + value) - response(intercept)``.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import os
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from treeanova.anova.certificate import Certificate
from treeanova.core.arrays import SEPARATOR, Floats, Key, Names, checked_whole, label_of, labels_of
from treeanova.core.progress import Progress, reporting
from treeanova.data.columns import backend_of, encode, encode_rows
from treeanova.data.features import Schema
from treeanova.data.sources import Batches, Distributed, Selection, batches_of
from treeanova.decomposition.explanation import Explanation, Job, columns_of, digest_of
from treeanova.decomposition.function import SAME_SCALE, Function, per_output, values_against, values_at_rows
from treeanova.density.base import Density
from treeanova.errors import ScoreWarning
from treeanova.model.axes import Axis
from treeanova.model.effects import class_labels, declared_probabilities, is_classifier, respond
from treeanova.model.grid import Grid
from treeanova.model.rows import Rows
from treeanova.storage.saved import fingerprint
from treeanova.terms.moments import Moments
from treeanova.terms.source import Settings
from treeanova.views import RESPONSES, scale_of


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Term:
    """One term: its features, its values at rows, and its table if it has one.

    Attributes
    ----------
    features
        Names, in the order of the data.
    schema
        The term's features, and the outputs of the model.
    at_rows
        The term as a function of encoded rows that hold its features; None if it has a table.
    table
        Axes, values over their bins, and weights of the cells; None if the term has values at rows only.

    Examples
    --------
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> term = fx.terms["x0", "x1"]
    >>> term
    Term(x0 × x1: 2 × 2 bins, values -0.25 to 0.25)
    >>> term.has_table, term.values.tolist()
    (True, [[0.25, -0.25], [-0.25, 0.25]])
    >>> term(X[3:]).tolist()
    [0.25]
    """

    features: Names
    schema: Schema
    at_rows: Callable[[Floats], Floats] | None = None
    table: tuple[tuple[Axis, ...], Floats, Floats] | None = None

    @property
    def order(self) -> int:
        """Number of features."""
        return len(self.features)

    @property
    def has_table(self) -> bool:
        """Whether `axes`, `values` and `weights` are available; all terms can be evaluated at rows."""
        return self.table is not None

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The bins of each feature, which may be coarser than in other terms."""
        return self._table[0]

    @property
    def values(self) -> Floats:
        """Values over the bins, with a last axis of outputs if there are several."""
        return self._table[1]

    @property
    def weights(self) -> Floats:
        """Weights of the cells under the density, of sum 1."""
        return self._table[2]

    @property
    def _table(self) -> tuple[tuple[Axis, ...], Floats, Floats]:
        """Axes, values and weights; raise ValueError if the term has no table."""
        if self.table is None:
            raise ValueError(
                f"term {label_of(self.features)!r} has no table, it is known at rows only; use "
                f"fx.term_values(X, {self.features!r})."
            )
        return self.table

    def __call__(self, X: Any) -> Floats:
        """Evaluate the term at rows of its features, a table or an array: shape (n_rows,), outputs last if several."""
        encoded = encode(X, self.schema)
        if self.at_rows is not None:
            return self.at_rows(encoded)
        return np.asarray(self.values[tuple(axis.index(encoded[:, i]) for i, axis in enumerate(self.axes))])

    def __repr__(self) -> str:
        label = label_of(self.features)
        if not self.has_table:
            return f"Term({label}: at rows)"
        bins = label_of(axis.size for axis in self.axes)
        return f"Term({label}: {bins} bins, values {self.values.min():.4g} to {self.values.max():.4g})"


class TermKeyError(KeyError):
    """A key that no term has; unlike KeyError, it prints its message without quotes."""

    def __str__(self) -> str:
        return str(self.args[0])


class Terms(Mapping[Names, Term]):
    """Terms by the names of their features, or by their labels.

    ``terms["a", "b"]`` in any order, ``terms["a × b"]`` as tables print it, ``terms["a"]`` for a main effect. The name
    of a feature that is also the label of another term is refused: ``terms[("a × b",)]`` is the feature.
    """

    def __init__(self, names: Sequence[Names], features: Sequence[str], make_term: Callable[[Names], Term]) -> None:
        self._names, self._features, self._make_term = tuple(names), set(features), make_term
        self._by_set = {frozenset(term): term for term in self._names}
        self._by_label = dict(zip(labels_of(self._names, features), self._names, strict=True))

    def __getitem__(self, key: str | Collection[str]) -> Term:
        return self._make_term(self.names_of(key))

    @property
    def labels(self) -> Mapping[str, Names]:
        """Features of each term by its label."""
        return self._by_label

    def features_in(self, key: str | Collection[str]) -> Names:
        """Return the names in a key; raise KeyError if it is malformed or has a name twice."""
        if isinstance(key, str):
            if key in self._features:
                self._check_unambiguous(key)
                return (key,)
            words = tuple(key.split(SEPARATOR))
            key = self._by_label.get(key) or (words if self._features.issuperset(words) else (key,))
        names = tuple(key) if isinstance(key, Collection) else ()
        if not names or not all(isinstance(name, str) for name in names):
            raise TermKeyError(
                f'a key must be a name, a label or names of features, got {key!r}; a main effect is "a", an '
                'interaction ("a", "b") or "a × b"; see list(fx.terms)'
            )
        doubled = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if doubled:
            raise TermKeyError(f"a term may name a feature only once, got {key!r}; leave out one {doubled[0]!r}")
        return names

    def _check_unambiguous(self, name: str) -> None:
        """Raise KeyError if the name of a feature is also the label of another term."""
        labelled = self._by_label.get(name, (name,))
        if labelled != (name,):
            raise TermKeyError(
                f"a key must name one term, got {name!r}, which is both a feature and the label of the term of "
                f"{' and '.join(map(repr, labelled))}; pass names, {(name,)!r} or {labelled!r}"
            )

    def names_of(self, key: str | Collection[str]) -> Names:
        """Return a term's features in the order of the data; raise KeyError with a hint if there is no such term."""
        names = self.features_in(key)
        return self._by_set.get(frozenset(names)) or self._raise_unknown_term(names)

    def _raise_unknown_term(self, names: Names) -> NoReturn:
        """Raise KeyError that suggests terms with similar names."""
        label = label_of(names)
        labels = {label_of(term).lower(): term for term in self._names}
        near = [labels[text] for text in difflib.get_close_matches(label.lower(), labels, n=2)]
        words = (f"terms[{', '.join(map(repr, term))}]" for term in near)
        hint = f"did you mean {' or '.join(words)}? " if near else ""
        raise TermKeyError(
            f'no term {label!r} among {len(self._names)}; an interaction is terms["a", "b"]; {hint}see list(terms)'
        )

    def __contains__(self, key: object) -> bool:
        try:
            return isinstance(key, str | Collection) and frozenset(self.features_in(key)) in self._by_set
        except KeyError:
            return False

    def __iter__(self) -> Iterator[Names]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        shown = ", ".join(label_of(names) for names in self._names[:6])
        return f"<{len(self)} terms: {shown}{', …' if len(self) > 6 else ''}>"


_ROUNDING = 1e-9  # of probabilities


def _warn_outside(schema: Schema, probabilities: Floats) -> None:
    """Warn of sums of terms that are no probabilities; of rounding not."""
    if schema.link != "probability" or not probabilities.size:
        return
    is_outside = np.asarray(((probabilities < -_ROUNDING) | (probabilities > 1 + _ROUNDING)).any(axis=1))
    if is_outside.any():
        warnings.warn(
            f"{is_outside.sum():,} of {len(is_outside):,} rows have sums of terms outside 0 to 1, from "
            f"{probabilities.min():.3g} to {probabilities.max():.3g}: terms of a model of probabilities were left out "
            "or edited, or models added or subtracted. Use a model of log-odds, such as boosted trees.",
            ScoreWarning,
            stacklevel=3,
        )


def tables_of(fx: Predictions) -> dict[Names, Term]:
    """Return the terms that have a table, by the names of their features."""
    return {names: term for names, term in fx.terms.items() if term.has_table}


def term_columns(term: Term) -> dict[str, Any]:
    """Return columns, by name, of a table with a row per cell of a term: labels and ends of bins, values, weight."""
    outputs = term.schema.outputs
    cells = np.indices(term.weights.shape).reshape(term.order, -1)
    reserved = {"weight", "value", *(f"value_{output}" for output in outputs)}
    columns: dict[str, Any] = {}
    for name, axis, bins in zip(term.features, term.axes, cells, strict=True):
        labels = np.array(axis.labels, dtype=object)
        columns[f"{name}_bin" if name in reserved else name] = labels[bins].tolist()
        ends = axis.interval_ends
        if ends is not None:
            columns[f"{name}_low"], columns[f"{name}_high"] = ends[0][bins], ends[1][bins]
    flat = term.values.reshape(len(cells[0]), -1)
    for k, output in enumerate(outputs):
        columns["value" if len(outputs) == 1 else f"value_{output}"] = flat[:, k]
    columns["weight"] = term.weights.ravel()
    return columns


SCALES = ("score", "response", "probability")


def is_response(schema: Schema, scale: str) -> bool:
    """Whether `scale`, "score", "response" or "probability", is not the score; raise ValueError if not defined."""
    if scale not in SCALES:
        choices = ", ".join(map(repr, SCALES))
        raise ValueError(f"`scale` must be one of {choices}, got {scale!r}; leave it out for 'score'.")
    if scale == "score":
        return False
    if schema.link not in RESPONSES:
        reason = "if the score is already the response" if schema.link in SAME_SCALE else f"for link {schema.link!r}"
        raise ValueError(f"`scale` must be 'score' {reason}, got {scale!r}; leave it out.")
    if scale == "probability" and not is_classifier(schema):
        raise ValueError(f"`scale` must be 'score' or 'response' for a model of a mean, got {scale!r}; use 'response'.")
    return True


def response_changes(schema: Schema, intercept: npt.ArrayLike, values: Floats) -> Floats:
    """Return changes of the response by values of one term, all others being zero, in the shape of `values`."""
    base = np.atleast_1d(np.asarray(intercept, dtype=np.float64))
    scores = base + values.reshape(-1, len(base))
    return np.reshape(respond(schema, scores) - respond(schema, base[None]), values.shape)


def on_scale(term: Term, intercept: npt.ArrayLike, scale: str) -> Term:
    """Return a term on a scale (see `is_response`): itself, or with changes of the response in its table."""
    if not is_response(term.schema, scale):
        return term
    changes = response_changes(term.schema, intercept, term.values)
    return dataclasses.replace(term, table=(term.axes, changes, term.weights))


def base_response(schema: Schema, intercept: npt.ArrayLike) -> Floats:
    """Return the response where all terms are zero, shape (n_outputs,)."""
    return np.asarray(respond(schema, np.atleast_1d(np.asarray(intercept, dtype=np.float64))[None])[0])


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Predictions:
    """The content of a decomposition, and its values at rows. Other rooms reach the function by `function_of`."""

    _function: Function
    density: Density
    certificate: Certificate
    _settings: Settings = dataclasses.field(default_factory=Settings)
    model: Any = None
    _saved_moments: Moments | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "certificate", dataclasses.replace(self.certificate, sum_of=self._function.sum_of))

    @property
    def grid(self) -> Grid:
        """Axes of all features; tables are over their bins."""
        return self._function.effects.grid

    @property
    def schema(self) -> Schema:
        """Features, outputs, link ("identity", "logit", "log", ...) and objective of the model."""
        return self.grid.schema

    @property
    def feature_names_in_(self) -> npt.NDArray[Any]:
        """Names of the features, in the order of the data."""
        return np.array(self.schema.names, dtype=object)

    @property
    def outputs(self) -> Names:
        """Names of the outputs: classes, targets, or "score" if there is only one."""
        return self.schema.outputs

    @property
    def intercept(self) -> float | Floats:
        """Mean of the score under the density: a float, or an array of shape (n_outputs,)."""
        return per_output(self._function.terms.intercept)

    @functools.cached_property
    def terms(self) -> Terms:
        """Mapping from names of features, or labels, to all terms; `Term.has_table` says which have a table."""
        return Terms([self._names(key) for key in self._function.terms.keys], self.schema.names, self._term)

    def __getitem__(self, key: str | Collection[str]) -> Term:
        """Return a term: ``fx["a"]``, ``fx["a", "b"]`` or ``fx["a × b"]``."""
        return self.terms[key]

    def __iter__(self) -> Iterator[Names]:
        return iter(self.terms)

    def __len__(self) -> int:
        return len(self.terms)

    def __bool__(self) -> bool:
        return True  # though `len` may be 0

    @property
    def has_remainder(self) -> bool:
        """Whether the terms leave part of the model out; `remainder` returns that part."""
        return self._function.has_remainder

    @property
    def _has_one_output(self) -> bool:
        return self._function.terms.n_outputs == 1

    def _per_row(self, values: Floats) -> Floats:
        """Drop the last axis of values (n_rows, n_outputs) if there is one output."""
        return values[:, 0] if self._has_one_output else values

    def _names(self, key: Key) -> Names:
        """Return the names of the features in a key."""
        names = self.schema.names
        return tuple(names[j] for j in key)

    def _key_of(self, names: Names) -> Key:
        """Return the positions of features, in the order of their names."""
        return tuple(self.schema.names.index(name) for name in names)

    def _table_weights(self, key: Key) -> Floats:
        """Return weights of the cells of a term's table; of the density if the terms have none."""
        terms = self._function.terms
        weights = terms.weights.get(key)
        return self._shown_density.table(key, terms.effects.binnings.get(key)) if weights is None else weights

    @property
    def _shown_density(self) -> Density:
        """The density whose weights tables show: that of the rows at which terms are ranked."""
        return self.density.population if self.density.ranks_on_population else self.density

    def _term(self, names: Names) -> Term:
        """Return the term of some features for users: with its table, or evaluated at rows."""
        key, effects = self._key_of(names), self._function.effects
        schema = dataclasses.replace(self.schema, features=tuple(self.schema.features[j] for j in key))
        if key not in effects.terms:
            return Term(names, schema, at_rows=functools.partial(self._at_encoded, key))
        values = effects.terms[key][..., 0] if self._has_one_output else effects.terms[key]
        return Term(names, schema, table=(effects.axes_of(key), values, self._table_weights(key)))

    def _at_encoded(self, key: Key, encoded: Floats) -> Floats:
        """Evaluate a term without a table at encoded rows, (n_rows, n_features of the term)."""
        grid = self._function.grid
        codes = np.zeros((len(encoded), len(grid.axes)), dtype=np.int32)
        for column, j in enumerate(key):
            codes[:, j] = grid.axes[j].index(encoded[:, column])
        return self._per_row(self._function.at(codes, [key])[:, 0])

    def _any_key(self, key: str | Collection[str]) -> Key:
        """Return the key of a term, given by name, label or names, that can be evaluated, listed or not."""
        names = self.terms.features_in(key)
        if all(name in self.schema.names for name in names):
            positions = tuple(sorted(self._key_of(names)))
            if not self._function.scope.is_part and self._function.terms.can_evaluate(positions):
                return positions
            if self.has_remainder and frozenset(names) not in map(frozenset, self.terms):
                raise TermKeyError(
                    f"{label_of(names)} is in the remainder, if it is a term at all; ask the decomposition before "
                    "truncate(), or one without max_order"
                )
        return self._key_of(self.terms.names_of(names))

    def _scores(self, X: Any) -> Floats:
        """Return the score of each row, shape (n_rows, n_outputs)."""
        return self._function.score(Rows.of(X, self.schema))

    def decision_function(self, X: Any) -> Floats:
        """Return the raw score of each row, equal to the library's raw prediction.

        Parameters
        ----------
        X
            Rows with all features of the model: numpy, pandas, polars, pyarrow or scipy.sparse.

        Returns
        -------
        numpy.ndarray
            Shape (n_rows,), or (n_rows, n_outputs) if there are several outputs.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.decision_function(X).tolist()
        [0.0, 0.0, 0.0, 1.0]
        """
        return self._per_row(self._scores(X))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict each row: labels for a classifier, the response for other models.

        Parameters
        ----------
        X
            As for `decision_function`.

        Returns
        -------
        array in the shape of `decision_function`

        See Also
        --------
        predict_proba : Probabilities of all classes.
        predict_response : Means, or probabilities, on the response scale.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.predict(X).tolist()
        [0.0, 0.0, 0.0, 1.0]
        """
        if is_classifier(self.schema) or self.schema.link == "argmax":
            return class_labels(self.schema, self._scores(X))
        return self.predict_response(X)

    def predict_response(self, X: Any) -> Floats:
        """Predict the response of each row: a mean, or the probability of the second class of a binary classifier.

        Parameters
        ----------
        X
            As for `decision_function`.

        Returns
        -------
        array in the shape of `decision_function`

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.predict_response(X).tolist()
        [0.0, 0.0, 0.0, 1.0]
        """
        response = respond(self.schema, self._scores(X))
        _warn_outside(self.schema, response)
        return self._per_row(response)

    def predict_proba(self, X: Any) -> Floats:
        """Predict the probabilities of all classes of a classifier.

        The terms of forests add up to probabilities. Without some of them, or edited, sums may be below 0 or above 1:
        they are returned as they are, with a `ScoreWarning`.

        Parameters
        ----------
        X
            As for `decision_function`.

        Returns
        -------
        array of shape (n_rows, n_classes)

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example("classifier")
        >>> fx.predict_proba(X[:1]).tolist()
        [[1.0, 0.0]]
        """
        probabilities = declared_probabilities(self.schema, self._scores(X))
        _warn_outside(self.schema, probabilities)
        return probabilities

    def term_values(self, X: Any, key: str | Collection[str]) -> Floats:
        """Evaluate one term at rows; for a deep ensemble, even an unlisted one that has no table.

        Parameters
        ----------
        X
            As for `decision_function`.
        key
            As for `terms`: name of a feature, names of several, or a label such as "a × b"; KeyError if there is none.

        Returns
        -------
        array in the shape of `decision_function`

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.term_values(X, ["x0", "x1"]).tolist()
        [0.25, -0.25, -0.25, 0.25]
        """
        return self._per_row(self._function.at(self._function.grid.index(X), [self._any_key(key)])[:, 0])

    def remainder(self, X: Any) -> Floats:
        """Return the score minus intercept and terms at rows: what truncation or merged bins left out.

        Parameters
        ----------
        X
            As for `decision_function`.

        Returns
        -------
        array in the shape of `decision_function`

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.truncate(1).remainder(X).tolist()
        [0.25, -0.25, -0.25, 0.25]
        """
        explained = self.explain(X)
        return np.zeros(explained.scores.shape) if explained.remainder is None else explained.remainder

    def explain(
        self, X: Any, *, reference: Any = None, max_order: int | None = None, progress: bool | Progress | None = None
    ) -> Explanation:
        """Evaluate all terms at rows, or those up to an order; the rest of the score is `Explanation.remainder`.

        With a reference, values are those of the anchored terms: under any density they add up to the score of a row
        minus that of the reference. A term is zero if one of its features is in the bin of the reference.

        A table of Dask or Spark gives a lazy table of the same engine, with the columns that `explain_to` writes, and
        the index of X (Dask) or the columns of X that the model does not use, such as keys (Spark).

        Parameters
        ----------
        X
            Rows with all features of the model: in memory, or a table of Dask or Spark.
        reference
            A row to compare with: a sequence of values, a mapping from names to values, a pandas Series, or a table or
            matrix. With several rows, values are means over the references, and add up to the difference to their mean
            score.
        max_order
            Highest order of the terms to evaluate; all by default.
        progress
            As for `decompose`.

        Returns
        -------
        Explanation

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> explained = fx.explain(X[3:])
        >>> explained.terms
        (('x0',), ('x1',), ('x0', 'x1'))
        >>> explained.values.tolist()
        [[0.25, 0.25, 0.25]]

        Why (1, 1) and (0, 0) differ: only both features together make a difference.

        >>> against = fx.explain(X[3:], reference=[0, 0])
        >>> against.values.tolist(), against.intercept
        ([[0.0, 0.0, 1.0]], 0.0)
        """
        if max_order is not None:
            max_order = checked_whole("max_order", max_order, 0, "leave it out for all orders")
        batches = batches_of(X)
        if batches is not None:
            return self._explained_lazily(batches, reference, max_order)
        with reporting(progress):
            return self._explained(X, max_order, reference)

    def _explained_lazily(self, batches: Batches, reference: Any, max_order: int | None) -> Any:
        """Return a lazy table of Dask or Spark with all terms at its rows."""
        if not isinstance(batches, Distributed):
            raise TypeError(
                "`X` must be rows in memory, or a table of Dask or Spark, got rows in batches; write their terms to a "
                "file with explain_to(path, X)."
            )
        compute = functools.partial(self._columns_of_explanation, max_order, reference)
        columns = compute(Rows(np.zeros((1, len(self.schema.features)))))  # one row, for the names of the columns
        return batches.reading(Selection(self.schema)).mapped(compute, list(columns))

    def _columns_of_explanation(self, max_order: int | None, reference: Any, X: Any) -> dict[str, Floats]:
        return columns_of(self._explained(X, max_order, reference))

    def _explained(
        self, X: Any, max_order: int | None, reference: Any = None, keys: Sequence[Key] | None = None
    ) -> Explanation:
        """Evaluate the terms of `keys`, by default all up to the order, and sums of unlisted terms up to the order."""
        rows, table = Rows.of(X, self.schema), None if isinstance(X, Rows) else X
        if keys is None:
            keys = [key for key in self._function.terms.keys if max_order is None or len(key) <= max_order]
        function, baseline = self._function, self.density.baseline
        if reference is None:
            at_rows = values_at_rows(function, rows, keys, max_order)
        else:
            references = Rows(encode_rows(reference, self.schema, name="reference"))
            at_rows = values_against(function, rows, references, max_order)
            n_rows = len(references)
            baseline = "score of the reference" if n_rows == 1 else f"mean score of {n_rows:,} references"
        remainder = None
        if at_rows.leaves_rest:
            total = at_rows.values.sum(axis=1) + sum(at_rows.unlisted.values())
            remainder = self._per_row(function.score(rows) - at_rows.intercept - total)
        return Explanation(
            values=at_rows.values[:, :, 0] if self._has_one_output else at_rows.values,
            terms=tuple(self._names(key) for key in at_rows.keys),
            intercept=per_output(at_rows.intercept),
            features=self.schema.names,
            outputs=self.schema.outputs,
            backend=backend_of(table),
            data=table,
            remainder=remainder,
            others={order: self._per_row(values) for order, values in at_rows.unlisted.items()},
            other_shares=at_rows.shares,
            baseline=baseline,
            scale=scale_of(self.schema),
        )

    def explain_to(
        self,
        path: str | os.PathLike[str],
        X: Any,
        *,
        terms: Collection[str | Collection[str]] | None = None,
        keep: str | Collection[str] = (),
        progress: bool | Progress | None = None,
    ) -> None:
        """Write all terms, or some, at any number of rows to a Parquet file, batch by batch.

        The file has a column per term, named as in `Explanation.to_frame`, then sums of unlisted terms, any remainder,
        "intercept" and "score", the sum of the others; with several outputs, a column per output. It replaces an
        existing file when complete. After an interruption, finished parts stay in a folder next to it, whose name ends
        in ``.parts``, and the same call continues from there. Parts are used again only for the same rows, terms and
        options, and only if undamaged. Other files in that folder stay.

        Parameters
        ----------
        path
            The Parquet file to write, which ends in .parquet or .pq. It must not be a file of X, nor in a folder or
            pattern that X names. A stream cannot be traced back to its files: do not write to one of them. If another
            process is writing it, ValueError is raised.
        X
            Rows in memory or in batches, as for `decompose`.
        terms
            Terms to write, each a name of a feature or names of several; the rest of the score is the column
            "remainder". All by default.
        keep
            Columns of X to copy, or one, such as an identifier; in brackets if a term has the same name.
        progress
            As for `decompose`.

        Examples
        --------
        >>> import pathlib, tempfile, pyarrow.parquet
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.parquet"
        >>> fx.explain_to(path, X, terms=["x0"])
        >>> pyarrow.parquet.read_table(path).slice(3).to_pylist()
        [{'x0': 0.25, 'remainder': 0.5, 'intercept': 0.25, 'score': 1.0}]
        """
        if isinstance(terms, str):
            raise TypeError(f"`terms` must be a list of terms, got {terms!r}; pass [{terms!r}].")
        keys = self._function.terms.keys if terms is None else [self._any_key(term) for term in terms]
        copied_columns = (keep,) if isinstance(keep, str) else tuple(dict.fromkeys(keep))
        if len(set(keys)) < len(keys):
            raise ValueError(f"`terms` must be different terms, got {list(terms or ())!r}; name each term once.")
        function = self._function
        job = Job(
            functools.partial(self._explained, keys=keys, max_order=None if terms is None else 0),
            Selection(self.schema, keep=copied_columns),
            digest_of(fingerprint(function.source, function.terms, function.scope), keys, list(copied_columns)),
            # columns of terms, sums, a remainder, intercept and score, and copied ones
            (len(keys) + len(function.unlisted_orders) + 3) * len(self.outputs) + len(copied_columns),
        )
        with reporting(progress) as report:
            job.write(path, X, report)


def function_of(fx: Predictions) -> Function:
    """Return the source, terms and scope of a decomposition, for the rooms of this package."""
    return fx._function  # noqa: SLF001  the one way in


def backend_of_tables(fx: Predictions) -> str | None:
    """Return the name of the library of the data frames that answers are given in."""
    return fx._settings.backend  # noqa: SLF001
