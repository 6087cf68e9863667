"""The function of a decomposition: scores, predictions, terms and explanations at rows."""

from __future__ import annotations

import abc
import dataclasses
import functools
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import BinIndices, Floats, Key, Names
from treeanova.core.progress import Progress, reporting
from treeanova.data.columns import backend_of, encode_rows
from treeanova.data.features import Schema
from treeanova.data.sources import Batches, Distributed, Selection, batches_of
from treeanova.decomposition.explanation import Deferred, Explanation, Job, columns_of, digest_of
from treeanova.decomposition.term import Evaluation, RowTerm, TableTerm, Term, Terms, names_in
from treeanova.model.effects import class_labels, class_probabilities, is_classifier, respond
from treeanova.model.grid import Grid
from treeanova.model.rows import Rows
from treeanova.storage.saved import fingerprint
from treeanova.terms.anchored import Anchored, distinct_points


class ValuesAtRows(NamedTuple):
    """Terms at rows, shape (n_rows, n_terms, n_outputs), and what else adds up to the score.

    Attributes
    ----------
    keys
        The listed terms.
    values
        Their values.
    others
        Sums of the terms of each order that are not listed.
    shares
        Shares of features in these; None where there are none.
    intercept
        What terms are added to, shape (n_outputs,).
    leaves_rest
        Whether these are not all terms.
    """

    keys: Sequence[Key]
    values: Floats
    others: Mapping[int, Floats]
    shares: Deferred | None
    intercept: Floats
    leaves_rest: bool


def values_at_rows(evaluation: Evaluation, rows: Rows, keys: Sequence[Key], max_order: int | None) -> ValuesAtRows:
    """Some terms of a decomposition at rows, with sums of the others of each order up to one."""
    codes = rows.bins(evaluation.grid)
    values = evaluation.at(codes, keys)
    others = _rests(evaluation, codes, {key: values[:, i] for i, key in enumerate(keys)}, max_order)
    shares = Deferred(functools.partial(_shares_of_rests, evaluation, codes)) if others else None
    n_parts = len(evaluation.terms.keys) + len(evaluation.rest_orders)
    leaves_rest = evaluation.has_remainder or len(keys) + len(others) < n_parts
    return ValuesAtRows(keys, values, others, shares, evaluation.terms.intercept, leaves_rest)


def values_against(evaluation: Evaluation, rows: Rows, references: Rows, max_order: int | None) -> ValuesAtRows:
    """Anchored terms at rows, the mean over references; they add up to the score minus that of the references."""
    grid, scope = evaluation.grid, evaluation.scope
    model = evaluation.source.anchored(distinct_points(references.bins(grid)))
    limit = scope.order
    known, rests = (evaluation.terms.keys, evaluation.rest_orders) if model.keys is None else (model.keys, ())
    keys = [key for key in known if _is_wanted(len(key), max_order) and _is_wanted(len(key), limit)]
    orders = tuple(order for order in rests if _is_wanted(order, max_order))
    found = _Against(model, rows.bins(grid), keys, orders, evaluation.n_jobs)
    shares = Deferred(found.shares_of_rests) if orders else None
    intercept = evaluation.score(references).mean(axis=0)
    leaves_rest = limit is not None or len(keys) + len(orders) < len(known) + len(rests)
    return ValuesAtRows(keys, found.values, found.rests(), shares, intercept, leaves_rest)


@dataclasses.dataclass(frozen=True, eq=False)
class _Against:
    """Terms of a model against references at rows: those of some keys, and all others of some orders."""

    model: Anchored
    codes: BinIndices
    keys: Sequence[Key]
    orders: tuple[int, ...]
    n_jobs: int

    @functools.cached_property
    def values(self) -> Floats:
        """Values of the listed terms."""
        return self.model.at(self.codes, self.keys, self.n_jobs)

    def _listed(self) -> Iterator[tuple[Key, Floats]]:
        """The listed terms of the orders, of which others are not listed."""
        return ((key, self.values[:, i]) for i, key in enumerate(self.keys) if len(key) in self.orders)

    def rests(self) -> dict[int, Floats]:
        """Totals of the orders minus the listed terms."""
        if not self.orders:
            return {}
        totals = self.model.totals_at(self.codes, self.orders, self.n_jobs)
        rests = {order: totals[:, i] for i, order in enumerate(self.orders)}
        for key, values in self._listed():
            rests[len(key)] -= values
        return rests

    def shares_of_rests(self) -> Floats:
        """Shares of features in these rests."""
        shares = self.model.shares_at(self.codes, self.orders, self.n_jobs)
        for key, values in self._listed():
            shares[:, list(key)] -= (values / len(key))[:, None]
        return _per_output(shares)


def _is_wanted(order: int, max_order: int | None) -> bool:
    return max_order is None or order <= max_order


def _rests(
    evaluation: Evaluation, codes: BinIndices, listed: Mapping[Key, Floats], max_order: int | None
) -> dict[int, Floats]:
    """Sums of the terms of each order that are not listed, up to an order."""
    orders = evaluation.rest_orders
    if not orders or not _is_wanted(orders[0], max_order):
        return {}
    rests = evaluation.rests_at(codes, listed)
    return {order: rests[:, i] for i, order in enumerate(orders) if _is_wanted(order, max_order)}


def _shares_of_rests(evaluation: Evaluation, codes: BinIndices) -> Floats:
    """Shares of features in the terms that are not listed, without the axis of outputs where there is one."""
    return _per_output(evaluation.rest_shares_at(codes))


def _per_output(shares: Floats) -> Floats:
    return shares[:, :, 0] if shares.shape[2] == 1 else shares


class Function(abc.ABC):
    """The model and its terms, by name and at rows."""

    @property
    @abc.abstractmethod
    def evaluation(self) -> Evaluation:
        """The model and its terms."""

    @abc.abstractmethod
    def _table_weights(self, key: Key) -> Floats:
        """Weights of the cells of a term that has a table."""

    # The model.

    @property
    def grid(self) -> Grid:
        """The axes of all features, over whose bins the tables of terms are defined."""
        return self.evaluation.terms.tables.grid

    @property
    def schema(self) -> Schema:
        """Features, outputs and link of the model."""
        return self.grid.schema

    @property
    def feature_names_in_(self) -> npt.NDArray[Any]:
        """Names of the features, in the order of the data."""
        return np.array(self.schema.names, dtype=object)

    @property
    def outputs(self) -> Names:
        """Names of the outputs: classes, targets, or "score" where there is one."""
        return self.schema.outputs

    @property
    def link(self) -> str:
        """How the score becomes the response: "identity", "logit", "softmax", "log", "probability" or "other"."""
        return self.schema.link

    @property
    def objective(self) -> str:
        """What training minimised, as `validate(loss=...)` names it; empty where the model does not state it."""
        return self.schema.objective

    # Terms by name.

    @property
    def intercept(self) -> float | Floats:
        """Mean of the score under the density: a float, or an array of shape (n_outputs,)."""
        intercept = self.evaluation.terms.intercept
        return float(intercept[0]) if self._has_one_output else intercept

    @functools.cached_property
    def terms(self) -> Terms:
        """Mapping from names of features to all terms; `Term.has_table` says which have a table."""
        return Terms([self._names(key) for key in self.evaluation.terms.keys], self._term)

    @property
    def has_remainder(self) -> bool:
        """Whether the terms leave part of the model out; `remainder` returns that part."""
        return self.evaluation.has_remainder

    @property
    def _has_one_output(self) -> bool:
        return self.evaluation.terms.n_outputs == 1

    def _per_row(self, values: Floats) -> Floats:
        """Values of shape (n_rows, n_outputs) without the last axis where there is one output."""
        return values[:, 0] if self._has_one_output else values

    def _names(self, key: Key) -> Names:
        names = self.schema.names
        return tuple(names[j] for j in key)

    def _positions(self, names: Names) -> Key:
        return tuple(self.schema.names.index(name) for name in names)

    def _term(self, names: Names) -> Term:
        key = self._positions(names)
        terms = self.evaluation.terms
        schema = dataclasses.replace(self.schema, features=tuple(self.schema.features[j] for j in key))
        if not terms.has_table(key):
            return RowTerm(names, schema, functools.partial(self._at_encoded, key))
        effects = terms.tables.effects
        values = effects.terms[key][..., 0] if self._has_one_output else effects.terms[key]
        return TableTerm(names, schema, effects.axes_of(key), values, self._table_weights(key))

    def _at_encoded(self, key: Key, encoded: Floats) -> Floats:
        """A term at encoded rows that hold its features only."""
        grid = self.evaluation.grid
        codes = np.zeros((len(encoded), len(grid.axes)), dtype=np.int32)
        for column, j in enumerate(key):
            codes[:, j] = grid.axes[j].index(encoded[:, column])
        return self._per_row(self.evaluation.at(codes, [key])[:, 0])

    def _any_key(self, key: str | Collection[str]) -> Key:
        """Positions of the features of a term that can be evaluated, listed or not."""
        names = names_in(key)
        if all(name in self.schema.names for name in names):
            positions = tuple(sorted(self._positions(names)))
            if not self.evaluation.scope.is_part and self.evaluation.terms.can_evaluate(positions):
                return positions
        return self._positions(self.terms.names_of(names))

    # Rows.

    def decision_function(self, X: Any) -> Floats:
        """The raw score of each row, equal to the library's raw prediction.

        Parameters
        ----------
        X
            Rows: numpy, pandas, polars, pyarrow or scipy.sparse.

        Returns
        -------
        numpy.ndarray
            Shape (n_rows,), or (n_rows, n_outputs) where there are several outputs.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.decision_function(X).tolist()
        [0.0, 0.0, 0.0, 1.0]
        """
        return self._per_row(self.evaluation.score(Rows.of(X, self.schema)))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The prediction for each row: labels for a classifier, the mean on the response scale for other models.

        Parameters
        ----------
        X
            Rows: numpy, pandas, polars, pyarrow or scipy.sparse.

        Returns
        -------
        numpy.ndarray
            Shape (n_rows,), or (n_rows, n_outputs) where there are several targets.

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
        if is_classifier(self.schema):
            return class_labels(self.schema, self.evaluation.score(Rows.of(X, self.schema)))
        return self.predict_response(X)

    def predict_response(self, X: Any) -> Floats:
        """The mean of each row on the response scale; for a binary classifier, the probability of its second class.

        Parameters
        ----------
        X
            Rows: numpy, pandas, polars, pyarrow or scipy.sparse.

        Returns
        -------
        numpy.ndarray
            Shape (n_rows,), or (n_rows, n_outputs) where there are several outputs.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.predict_response(X).tolist()
        [0.0, 0.0, 0.0, 1.0]
        """
        return self._per_row(respond(self.schema, self.evaluation.score(Rows.of(X, self.schema))))

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of all classes of a classifier.

        Parameters
        ----------
        X
            Rows: numpy, pandas, polars, pyarrow or scipy.sparse.

        Returns
        -------
        numpy.ndarray
            Shape (n_rows, n_classes).

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example("classifier")
        >>> fx.predict_proba(X[:1]).tolist()
        [[1.0, 0.0]]
        """
        return class_probabilities(self.schema, self.evaluation.score(Rows.of(X, self.schema)))

    def term_values(self, X: Any, key: str | Collection[str]) -> Floats:
        """One term at rows; for a deep ensemble, the term may be part of the remainder.

        Parameters
        ----------
        X
            Rows with all features of the model.
        key
            Name of a feature, or names of several.

        Returns
        -------
        numpy.ndarray
            Shape (n_rows,), or (n_rows, n_outputs) where there are several outputs.

        Raises
        ------
        KeyError
            If `key` is no name of a feature nor a collection of names, names a feature twice, or names a term that is
            not there.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.term_values(X, ["x0", "x1"]).tolist()
        [0.25, -0.25, -0.25, 0.25]
        """
        values: Floats = self.evaluation.at(self.evaluation.grid.index(X), [self._any_key(key)])[:, 0]
        return self._per_row(values)

    def remainder(self, X: Any) -> Floats:
        """The score minus intercept and terms at rows: what truncation or merged bins left out.

        Parameters
        ----------
        X
            Rows with all features of the model.

        Returns
        -------
        numpy.ndarray
            Shape (n_rows,), or (n_rows, n_outputs) where there are several outputs.

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
        """All terms at rows, or those up to an order, with the rest of the score in `Explanation.remainder`.

        With a reference, values are those of the anchored terms: they add up to the score of a row minus that of the
        reference, whatever the density of the decomposition is. A term is zero where one of its features is in the bin
        of the reference.

        A table of Dask or Spark gives a lazy table of the same engine, with the columns that `explain_to` writes: that
        of Dask has the index of X, that of Spark the columns of X that the model does not use, such as keys.

        Parameters
        ----------
        X
            Rows with all features of the model: in memory, or a table of Dask or Spark.
        reference
            A row to compare with: a sequence of values, a mapping from names to values, a pandas Series, or a table or
            matrix. Of several rows, each of the same weight, values are means over the references, and add up to the
            difference to their mean score.
        max_order
            Highest order of the terms to evaluate; all by default.
        progress
            True for a progress bar, or a function, as for `decompose`.

        Returns
        -------
        Explanation
            The value of every term at every row.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> explained = fx.explain(X[3:])
        >>> explained.terms
        (('x0',), ('x1',), ('x0', 'x1'))
        >>> explained.values.tolist()
        [[0.25, 0.25, 0.25]]

        Why (1, 1) has another score than (0, 0): only both features together make a difference.

        >>> against = fx.explain(X[3:], reference=[0, 0])
        >>> against.values.tolist(), against.intercept
        ([[0.0, 0.0, 1.0]], 0.0)
        """
        batches = batches_of(X)
        if batches is not None:
            return self._explained_lazily(batches, reference, max_order)  # type: ignore[no-any-return]
        with reporting(progress):
            return self._explained(X, self._wanted(max_order), max_order, reference)

    def _wanted(self, max_order: int | None) -> list[Key]:
        """The listed terms up to an order."""
        return [key for key in self.evaluation.terms.keys if max_order is None or len(key) <= max_order]

    def _explained_lazily(self, batches: Batches, reference: Any, max_order: int | None) -> Any:
        """A lazy table of the engine that has the rows."""
        if not isinstance(batches, Distributed):
            raise TypeError(
                "`X` must be rows in memory, or a table of Dask or Spark, got rows in batches; write their terms to a "
                "file with explain_to(path, X)."
            )
        keys = self._wanted(max_order)
        one_row = Rows(np.zeros((1, len(self.schema.features))))
        columns = columns_of(self._explained(one_row, keys, max_order, reference))
        return batches.reading(Selection(self.schema)).mapped(
            functools.partial(_columns_at, self, keys, max_order, reference), list(columns)
        )

    def _explained(self, X: Any, keys: Sequence[Key], max_order: int | None, reference: Any = None) -> Explanation:
        """Some terms at rows, with sums of the others of each order up to one; the rest is the remainder."""
        rows, table = Rows.of(X, self.schema), None if isinstance(X, Rows) else X
        evaluation, baseline = self.evaluation, self.baseline
        if reference is None:
            found = values_at_rows(evaluation, rows, keys, max_order)
        else:
            references = Rows(encode_rows(reference, self.schema, name="reference"))
            found = values_against(evaluation, rows, references, max_order)
            n_rows = len(references)
            baseline = "score of the reference" if n_rows == 1 else f"mean score of {n_rows:,} references"
        rest = None
        if found.leaves_rest:
            total = found.values.sum(axis=1) + sum(found.others.values())
            rest = self._per_row(evaluation.score(rows) - found.intercept - total)
        return Explanation(
            values=found.values[:, :, 0] if self._has_one_output else found.values,
            terms=tuple(self._names(key) for key in found.keys),
            intercept=float(found.intercept[0]) if self._has_one_output else found.intercept,
            features=self.schema.names,
            outputs=self.schema.outputs,
            backend=backend_of(table),
            data=table,
            remainder=rest,
            others={order: self._per_row(values) for order, values in found.others.items()},
            other_shares=found.shares,
            baseline=baseline,
        )

    def explain_to(
        self,
        path: str | os.PathLike[str],
        X: Any,
        *,
        terms: Collection[str | Collection[str]] | None = None,
        keep: Collection[str] = (),
        progress: bool | Progress | None = None,
    ) -> None:
        """Write all terms, or some, at any number of rows to a Parquet file, batch by batch.

        The file has a column per term, named as in `Explanation.to_frame`, then sums of terms that are not listed, a
        remainder where there is one, "intercept" and "score", which is the sum of the others. With several outputs,
        there is a column per output. It replaces an existing file when it is complete. What was written before an
        interruption stays in a folder next to it, named like it with ``.parts`` at the end: the same call then goes on
        from there. A part is used again only for the same rows, terms and options, compared by their digests.

        Parameters
        ----------
        path
            The Parquet file to write, which ends in .parquet or .pq. It must not be a file of X, nor in a folder or
            pattern that X names.
        X
            Rows in memory or in batches, as for `decompose`.
        terms
            Terms to write, each a name of a feature or names of several; the rest of the score is the column
            "remainder". All terms by default.
        keep
            Columns of X to copy, such as an identifier; in brackets where a term has the same name.
        progress
            True for a progress bar, or a function, as for `decompose`.

        Raises
        ------
        ValueError
            Where another process writes the same file at the same time, among others.

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
        keys = self.evaluation.terms.keys if terms is None else [self._any_key(term) for term in terms]
        if len(set(keys)) < len(keys):
            raise ValueError(f"`terms` must be different terms, got {list(terms or ())!r}; name each term once.")
        order = None if terms is None else 0
        evaluation = self.evaluation
        job = Job(
            functools.partial(self._explained, keys=keys, max_order=order),
            Selection(self.schema, keep=tuple(keep)),
            digest_of(fingerprint(evaluation.source, evaluation.terms, evaluation.scope), keys, list(keep)),
            (len(keys) + len(evaluation.rest_orders) + 3) * len(self.outputs) + len(keep),
        )
        with reporting(progress) as report:
            job.write(path, X, report)

    @property
    @abc.abstractmethod
    def baseline(self) -> str:
        """What the intercept is, in words: "average", or "score of the reference"."""


def _columns_at(
    function: Function, keys: Sequence[Key], max_order: int | None, reference: Any, X: Any
) -> dict[str, Floats]:
    """Columns of an explanation, for the workers of an engine."""
    return columns_of(function._explained(X, keys, max_order, reference))  # noqa: SLF001  of the class above
