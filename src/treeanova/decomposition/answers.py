"""Questions about a decomposed model: importance, gaps, tables, standard errors, validation; and it in short."""

from __future__ import annotations

import dataclasses
import functools
import html
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats, Key, Names, checked_seed, checked_whole
from treeanova.core.progress import Progress, counted, one_step, quiet, reporting
from treeanova.core.threads import single_threaded
from treeanova.data.columns import columns_of, frame, printable
from treeanova.decomposition.function import label_of_unlisted, output_position, per_output
from treeanova.decomposition.gap import Gap, gap_between
from treeanova.decomposition.importance import (
    Ranking,
    Standing,
    Sums,
    families_of,
    moments_of_terms,
    rank_terms,
    rows_of_density,
)
from treeanova.decomposition.monotonicity import Monotonicity, monotonicity_of
from treeanova.decomposition.predictions import Predictions, backend_of_tables, function_of, on_scale, term_columns
from treeanova.decomposition.result import aligned_rows, plain
from treeanova.decomposition.simplify import HeldRows, Simplification, checked_share, checked_signs, held_rows, simplify
from treeanova.decomposition.simplify import Options as SimplifyOptions
from treeanova.decomposition.validation import Validation, validate
from treeanova.density.base import Density, Points
from treeanova.model.rows import Rows
from treeanova.terms.moments import Moments, moments_of_values
from treeanova.terms.source import purify_tensors
from treeanova.terms.terms import TermSet
from treeanova.views import MAIN, percent, rows_words, scale_of, share_words, sum_words


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Answers(Predictions):
    """Questions that a `Decomposition`, its only subclass, answers."""

    @functools.cached_property
    def _cell_weights(self) -> Mapping[Key, Floats]:
        """Weights of the cells of each table under the density; those that the terms lack are computed."""
        terms = self._function.terms
        missing = [key for key in terms.effects.terms if key not in terms.weights]
        return {**terms.weights, **{key: self._table_weights(key) for key in missing}}

    @functools.cached_property
    def _moments(self) -> Moments:
        """Variances and covariances of all components of the score, from the file or computed once."""
        if self._saved_moments is not None:
            return self._saved_moments
        with single_threaded():
            return moments_of_terms(
                self._function, self.density, self.certificate, self._cell_weights, self._settings.random_state
            )

    @functools.cached_property
    def _density_rows(self) -> Points:
        """Bins on the model's grid, and weights, of up to some thousand rows that represent the density."""
        return rows_of_density(self._function, self.density, self._settings.random_state)

    def _ranking(self, by: str = "term", groups: Mapping[str, Collection[str]] | None = None) -> Ranking:
        """Rank terms, or features (`by`); with `groups`, terms of the same families of features are added up."""
        families = families_of(groups, self.schema.names)
        with single_threaded():
            sums = Sums(self._function, self.density, self._cell_weights, lambda: self._density_rows)
            return rank_terms(self._function, self._moments, families, by, None if groups is None else sums)

    def variance_share(self, key: str | Collection[str]) -> float | Floats:
        """Return the variance of one term, even of an unlisted one without a table, divided by that of the score.

        Parameters
        ----------
        key
            As for `term_values`.

        Returns
        -------
        float or numpy.ndarray
            A float; an array of shape (n_outputs,) if there are several outputs. That of `importance` for a listed
            term; otherwise estimated at up to 4,000 rows.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> round(fx.with_density("empirical").variance_share(["x0", "x1"]), 3)
        0.333
        """
        function, term = self._function, self._any_key(key)
        if term in function.terms.keys:
            share = self._ranking().variance[function.terms.keys.index(term)]
        else:
            codes, weights = self._density_rows
            score = function.score(Rows.in_bins(function.grid, codes))
            term_and_score = np.stack([function.at(codes, [term])[:, 0], score], axis=1)
            term_variance, score_variance = moments_of_values(term_and_score, weights).variance
            share = np.divide(term_variance, score_variance, out=np.zeros_like(term_variance), where=score_variance > 0)
        return per_output(share)

    def importance(
        self,
        by: str = "term",
        *,
        groups: Mapping[str, Collection[str]] | None = None,
        progress: bool | Progress | None = None,
    ) -> Any:
        """Rank terms, or features, by their contribution to the variance of the score, largest first.

        Parameters
        ----------
        by
            "term", or "feature", which shares each term equally among its features.
        groups
            Families of features, ``{"job": ["job_a", "job_b"]}``: terms within a family are added up, and terms of
            several families are their interaction, such as ``job × age``. With "feature", each of these is shared
            equally among its families.
        progress
            As for `decompose`; the figures are computed once and kept.

        Returns
        -------
        data frame
            In the library of X (pandas, polars, pyarrow), or a dict of columns if that is not installed.

        Notes
        -----
        Rows are ordered by `variance`: the variance of the term divided by that of the score. The squared error of a
        well-fitted model would grow by this much without the term. Variances do not add up to 1 if terms are
        correlated; shares do: ``share = variance + covariance``, where `covariance` is the covariance with all other
        terms, on the same scale. `mean_abs` is the mean absolute value. After `select` and `drop`, the score is the sum
        of the remaining terms. Numbers by feature are sums over its terms, each divided by its number of features.

        A share is negative if a term partly cancels correlated terms: without it, the score would vary more. Such a
        term may still matter a lot: clear diamonds tend to be small, so clarity offsets part of the effect of size on
        the price. This is why rows are not ordered by share.

        Unlisted terms are added up by order, and each sum has its own row, also by feature; at rows, features share
        these terms exactly (`Explanation.shap_values`). A remainder has its own row, with an order one above those of
        the terms; it is of this order and higher ones, or of all orders where bins are merged. Under a smooth density
        ("auto" or "kernel"), or tables of independent groups of features with more than a million cells in all,
        covariances are those of 20,000 draws. If terms have no table, or with a remainder, the figures are estimated at
        up to 4,000 rows; for large models, terms without a table at as many of these as give their shares a standard
        error of 0.003, at least 200.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> table = fx.importance()
        >>> list(table["term"]), [round(float(share), 3) for share in table["share"]]
        (['x0', 'x1', 'x0 × x1'], [0.333, 0.333, 0.333])
        """
        if by not in {"term", "feature"}:
            raise ValueError(f"`by` must be 'term' or 'feature', got {by!r}; leave it out for 'term'.")
        with reporting(progress):
            return self._ranking(by, groups).table(self._settings.backend)

    def gap(
        self,
        X: Any,
        group: Any,
        *,
        sample_weight: npt.ArrayLike | None = None,
        feature: str | None = None,
        groups: Mapping[str, Collection[str]] | None = None,
        progress: bool | Progress | None = None,
    ) -> Gap:
        """Explain the difference of the mean scores of two groups of rows by term, with standard errors.

        Parameters
        ----------
        X
            As for `decision_function`.
        group
            The name of a column of X with two values, two labels, or a boolean for each row. The gap is that of the
            second label, in sorted order, minus that of the first: of True minus False.
        sample_weight
            Weights of the rows, such as those of a survey; means and errors are then weighted.
        feature
            A feature or family for `Gap.routes`: how much of the gap comes directly from it, from its interactions, and
            from all other features. By default the one that `group` names.
        groups, progress
            As for `importance`; with families, the table has a row per family and interaction of families.

        Returns
        -------
        Gap

        Notes
        -----
        The difference of the mean scores is the sum of the differences of the terms' means; the intercept cancels.
        Errors are those of differences of two means over independent rows, given model and density. They are NaN if a
        group has a single row. Rows of weight zero are left out.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()  # the logical "and" of x0 and x1
        >>> gap = fx.gap(X, "x0")
        >>> gap.total, [float(value) for value in gap.table["gap"]]
        (0.5, [0.5, 0.0, 0.0])
        >>> list(gap.routes["route"])
        ['x0 by itself', 'interactions of x0', 'other features']
        """
        return gap_between(
            self, X, group, sample_weight=sample_weight, feature=feature, groups=groups, progress=progress
        )

    def table(self, key: str | Collection[str], *, scale: str = "score") -> Any:
        """Return a tidy table of one term: a row per cell with labels and ends of its bins, value and weight.

        Parameters
        ----------
        key
            As for `term_values`.
        scale
            "score", on which terms add up. "response" is for display only, for models with the link "logit", "log" or
            "softmax": the change of the response by this term alone, with all other terms at zero, their average. Such
            changes do not add up. "probability" is the same for classifiers.

        Returns
        -------
        data frame, as for `importance`

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> [float(value) for value in fx.table("x0")["value"]]
        [-0.25, 0.25]
        """
        return frame(term_columns(on_scale(self.terms[key], self.intercept, scale)), self._settings.backend)

    def monotonicity(self, feature: str, *, output: str | int | None = None) -> Monotonicity:
        """Prove that the score only rises or only falls in a feature, or return counterexamples.

        The answer is about the whole function, including cells without data, and does not depend on the density. Each
        step from a bin to the next is bounded over all cells of the other features: directly if trees have at most two
        features, otherwise by branch and bound, which may stop undecided.

        Parameters
        ----------
        feature
            Name of a feature whose values have an order; categories have none, and raise ValueError.
        output
            Name or position of a class or target; may be left out if there is only one.

        Returns
        -------
        Monotonicity

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.monotonicity("x0").is_increasing
        True
        """
        if feature not in self.schema.names:
            raise ValueError(f"`feature` must be one of the model's, got {feature!r}; see fx.feature_names_in_.")
        j = self.schema.names.index(feature)
        if not self.grid.axes[j].is_ordered:
            raise ValueError(
                f"`feature` must have values with an order, got {feature!r} with the categories "
                f"{', '.join(self.grid.axes[j].labels[:5])}; compare them in fx.table({feature!r})."
            )
        position = output_position(self.outputs, output)
        return monotonicity_of(self._function, self.model, j, position, self._settings.backend)

    def standard_errors(
        self, n_resamples: int = 50, random_state: int | None = None, *, progress: bool | Progress | None = None
    ) -> dict[Names, Floats]:
        """Estimate standard errors of all tables that are due to the sample of rows.

        This is a bootstrap: the terms are purified again under resampled rows. The model is not refitted;
        `treeanova.bag` includes its uncertainty. For deep ensembles, the part of the tables from higher orders is not
        resampled, which makes the errors somewhat too small. A density of one row raises ValueError.

        Parameters
        ----------
        n_resamples
            Number of bootstrap resamples, at least 2.
        random_state
            Seed; that of `decompose` by default.
        progress
            As for `decompose`.

        Returns
        -------
        dict
            Names of the features of each term to an array of the shape of the term's values.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.with_density("empirical").standard_errors(10)["x0", "x1"].shape
        (2, 2)
        """
        rng = np.random.default_rng(self._settings.random_state if random_state is None else checked_seed(random_state))
        with reporting(progress) as report:
            errors = self._errors_of_tables(n_resamples, rng, report)
        return {self._names(key): table[..., 0] if self._has_one_output else table for key, table in errors.items()}

    def _errors_of_tables(self, n_resamples: int, rng: np.random.Generator, progress: Progress) -> dict[Key, Floats]:
        """Return bootstrap standard deviations of tables; with m of n rows in memory, those of m times √(m / n)."""
        function, density, statistics = self._function, self.density, self.density.statistics
        if statistics is None or not len(statistics.sample):
            raise ValueError("standard_errors() needs the rows of the density, got none; decompose with X.")
        if density.needs_data and len(statistics.points().weights) < 2:
            raise ValueError(
                "standard_errors() needs at least two rows of the density, got one; decompose with more rows."
            )
        if function.scope.is_part:
            raise ValueError(
                f"standard_errors() must have all terms of a model, got {function.scope}; call it on the decomposition "
                "of the model itself, before select(), drop() or scale()."
            )
        if self.certificate.is_raw:
            raise ValueError(
                "standard_errors() must have pure terms, got raw ones, which do not depend on rows; call it on the "
                "decomposition itself."
            )
        n_resamples = checked_whole("n_resamples", n_resamples, 2, "50 is the default")
        effects = function.effects
        if not statistics.is_complete:
            density = density.with_fixed_tuning
        totals = {key: np.zeros((2, *values.shape)) for key, values in effects.terms.items()}  # of changes and squares
        with one_step(progress, "tables before purification"):
            raw = function.source.tables_to_purify(function.terms)
        for _ in counted(progress, "bootstrap resamples", range(n_resamples), n_resamples):
            resampled = dataclasses.replace(density, statistics=statistics.resampled(rng))
            tables = purify_tensors(raw, resampled, self._settings).terms.effects
            for key, total in totals.items():
                change = tables.terms[key] - effects.terms[key]
                total += change, change**2
        factor, n = statistics.resampling_factor, n_resamples
        return {
            key: factor * np.sqrt(np.maximum(squares - total**2 / n, 0) / (n - 1))
            for key, (total, squares) in totals.items()
        }

    def validate(
        self,
        X: Any,
        y: Any,
        *,
        loss: str | Callable[[Any, Any], Any] | None = None,
        group: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
        progress: bool | Progress | None = None,
    ) -> Validation:
        """Validate each term on held-out rows: its change of the loss, and whether the outcome follows it.

        `Validation` describes the table, which has a row per term.

        Parameters
        ----------
        X
            Rows that the model was not trained on, at least 30.
        y
            Their outcome, as for training: numbers, or labels of classes. For "cox", times, negative if censored; for
            "aft", two columns, the lower and the upper end of each time.
        loss
            By default that of the model's objective, `fx.schema.objective`. Else one of "squared", "absolute", "mape",
            "log_cosh", "pinball:0.9" (the level), "expectile:0.9", "huber:1.5" (the width), "pseudo_huber:1.5",
            "fair:1.5", "log", "multiclass", "brier", "exponential", "poisson", "gamma", "tweedie:1.5" (the power),
            "cox", "aft:normal:1" (or "logistic", "extreme", and the scale), "pairwise"; with " of log", " of log1p" or
            " of sqrt" for models of a function of the outcome, such as "squared of log"; or a function of scores and
            outcomes that returns the loss of each row.
        group
            The group of each row, its query, for models that rank rows within groups; refused for others, whose rows
            are taken as independent.
        sample_weight
            Weights of the rows. Rows of weight zero, or below 1e-12 of the largest, are left out.
        progress
            As for `decompose`.

        Returns
        -------
        Validation

        Raises
        ------
        ValueError
            If the model does not state its objective, or states one that has no loss here; pass `loss` then.

        Notes
        -----
        The change of loss is about the term as fitted: a real term fitted with much noise may not lower the loss.
        Dropping a term of mere noise usually lowers the loss, so "worse by two standard errors" is a cautious rule.

        The p-value is about what is real: it belongs to the term's coefficient in a regression of the outcome on all
        terms and on a smooth curve of every feature (for a main effect, of every other feature), with robust standard
        errors. It has about its nominal level for terms that do not exist, even if features are correlated; see
        docs/inference.md. The regression has at most a column per five rows (events, groups): beyond that, the weakest
        terms have no coefficient, and curves have fewer knots. Degrees of freedom are the effective number of rows that
        distinguish the term. If more than half of that comes from one row, such as an outlier alone in its cell, the
        p-value is NaN, and `notes` says so. A function as `loss` gives no p-values.

        Rows that the model was trained on make noise look real. Dependent rows, such as those of one person or
        consecutive hours, make errors too small.

        Examples
        --------
        >>> import numpy as np
        >>> from treeanova.testing import example
        >>> fx, X = example()  # the logical "and" of x0 and x1
        >>> rng = np.random.default_rng(0)
        >>> rows = rng.integers(0, 2, size=(200, 2))
        >>> y = rows[:, 0] * rows[:, 1] + 0.1 * rng.normal(size=200)
        >>> table = fx.validate(rows, y).table
        >>> all(0.9 < slope < 1.1 for slope in table["slope"])  # all three terms are calibrated
        True
        """
        backend = self._settings.backend
        with reporting(progress) as report:
            return validate(
                self._function, X, y, sample_weight, loss=loss, group=group, backend=backend, progress=report
            )

    def simplify(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        max_terms: int | None = None,
        max_order: int = 2,
        keep: Collection[str | Collection[str]] = (),
        drop: Collection[str | Collection[str]] = (),
        max_steps: int | None = None,
        min_bin: float = 0.0,
        round_cuts: bool = False,
        monotone: Mapping[str, int] | None = None,
        loss: str | None = None,
        group: Any = None,
        cv: int = 5,
        random_state: int = 0,
        progress: bool | Progress | None = None,
    ) -> Simplification:
        """Find the fewest terms, in tables of few cells, whose loss on held-out rows is not worse.

        The answer is a path of models, from all terms down to none, with a decomposition of each. Terms have strengths:
        factors near 1 that are fitted to the outcome.

        Parameters
        ----------
        X
            Rows that the model was not trained on, at least 30: at the rows of training, noise looks real.
        y
            Their outcome, as for training.
        sample_weight
            Weights of the rows.
        max_terms
            The most terms to choose; no limit by default.
        max_order
            The highest order of the terms.
        keep, drop
            Terms that must stay, and terms that must go, each given by names or by its label.
        max_steps
            The most steps of a main effect, and of each axis of an interaction; as many as held-out rows need by
            default.
        min_bin
            The smallest share of the density that a step may have; missing values keep a step of their own.
        round_cuts
            Whether cuts move to round numbers nearby, at most past a tenth of the lighter step; `notes` says how many
            rows that concerns. This needs the rows of the density, which a file does not have.
        monotone
            Names of features to 1 or -1, for main effects that must not fall or not rise. Interactions may still do so.
        loss
            As for `validate`; it must be a name.
        group
            The name of a column of X, or a label for each row: rows of a group are in one fold.
        cv
            Number of folds of the rows.
        random_state
            Seed of the folds.
        progress
            As for `decompose`.

        Returns
        -------
        Simplification

        Raises
        ------
        ValueError
            If the model has several targets, or does not state its objective; pass `loss` then.

        Notes
        -----
        Strengths are fitted without one fold of the rows, and judged on it, for each number of terms. The smallest
        model whose loss is at most one standard error above the smallest loss is chosen, where the error is that of the
        difference. The tables are divided before, by the density alone.

        Examples
        --------
        >>> import numpy as np
        >>> from treeanova.testing import example
        >>> fx, X = example()  # the logical "and" of x0 and x1
        >>> rng = np.random.default_rng(0)
        >>> rows = rng.integers(0, 2, size=(200, 2))
        >>> y = rows[:, 0] + 0.1 * rng.normal(size=200)  # the outcome depends on x0 only
        >>> [edit.words for edit in fx.simplify(rows, y).chosen.history]
        ['simplified to 1 term']
        """
        options = SimplifyOptions(
            None if max_terms is None else checked_whole("max_terms", max_terms, 0, "leave it out for no limit"),
            checked_whole("max_order", max_order, 1, "1 has main effects only"),
            self._keys("keep", keep),
            self._keys("drop", drop),
            None if max_steps is None else checked_whole("max_steps", max_steps, 1, "leave it out for no limit"),
            checked_share("min_bin", min_bin),
            bool(round_cuts),
            {self._key_of((name,)): sign for name, sign in checked_signs(monotone, self.grid.axes).items()},
            checked_whole("cv", cv, 2, "5 is the default"),
            checked_seed(random_state),
        )
        held = held_rows(self.schema, X, y, loss=loss, group=group, sample_weight=sample_weight)
        with reporting(progress) as report:
            return self._simplify(held, options, report)

    def _simplify(self, held: HeldRows, options: SimplifyOptions, progress: Progress = quiet) -> Simplification:
        """Simplify the terms with tables by held-out rows."""
        function, density, settings, make = self._function, self.density, self._settings, self._edited
        with single_threaded():
            return simplify(
                function, density, self._cell_weights, held, options, make=make, settings=settings, progress=progress
            )

    def _edited(self, terms: TermSet, density: Density, edit: str) -> Any:
        raise NotImplementedError  # implemented by `Decomposition`, which this module cannot import

    def _keys(self, argument: str, terms: Collection[str | Collection[str]]) -> frozenset[Key]:
        """Return the keys of terms that an argument lists by name or names."""
        if isinstance(terms, str):
            raise TypeError(f"`{argument}` must be a list of terms, got {terms!r}; pass [{terms!r}].")
        return frozenset(self._key_of(self.terms.names_of(term)) for term in terms)


def ranking_of(fx: Answers, by: str = "term") -> Ranking:
    """Return the ranking of terms, or of features (`by`), for the rooms of this package."""
    return fx._ranking(by)  # noqa: SLF001  the one way in


def moments_of(fx: Answers) -> Moments:
    """Return variances and covariances of all components, for the rooms of this package."""
    return fx._moments  # noqa: SLF001


def table_weights_of(fx: Answers) -> Mapping[Key, Floats]:
    """Return weights of the cells of each table by key, for the rooms of this package."""
    return fx._cell_weights  # noqa: SLF001


def density_rows_of(fx: Answers) -> Points:
    """Return codes and weights of some thousand rows that represent the density, for the rooms of this package."""
    return fx._density_rows  # noqa: SLF001


_MOST_ROWS = 10  # of the table for notebooks
_LEAST_VARIANCE = 0.01  # of a term that a headline counts
_LEAST_MOVE = 0.005  # of the share of pairs, for a headline to mention it


def shares_by_order(ranking: Iterable[Standing]) -> tuple[float, float, float]:
    """Return the total shares of variance of main effects, of pairs, and of all higher orders and a remainder."""
    totals = [0.0, 0.0, 0.0]
    for term in ranking:
        is_of_one_order = not term.is_remainder or term.label.strip("()") == label_of_unlisted(term.order)
        totals[min(max(term.order, 1), 3) - 1 if is_of_one_order else 2] += term.share
    return totals[0], totals[1], totals[2]


def headline(ranking: Sequence[Standing], raw: Sequence[Standing] | None = None, *, is_part: bool = False) -> str:
    """Say how many terms are not small, and which are the strongest; `is_part`: relative to the sum of the terms."""
    # `raw` is the ranking before purification: used without deeper terms, whose raw form is a matter of chance.
    if not any(term.variance for term in ranking):
        if ranking or is_part:
            return "No term varies under this density." if ranking else "No term is listed."
        return "The model is constant: no term has any variance."
    clauses = [_strong_clause(ranking, "that of their sum" if is_part else "the score's"), _strongest_clause(ranking)]
    if raw is not None and has_readable_raw_form([*ranking, *raw]):
        clauses.append(_moved_share_clause(shares_by_order(raw)[1], shares_by_order(ranking)[1]))
    return "; ".join(filter(None, clauses)) + "."


def has_readable_raw_form(ranking: Sequence[Standing]) -> bool:
    """Whether all terms are main effects and pairs, without a remainder."""
    return all(term.order <= 2 and not term.is_remainder for term in ranking)


def _strong_clause(ranking: Sequence[Standing], reference: str) -> str:
    """Say how many terms have at least 1 % of the variance of `reference`, such as "the score's"."""
    terms = [term for term in ranking if not term.is_remainder]
    if not terms:
        return "No term is listed"
    if len(terms) == 1:
        return f"The only term has a variance of {percent(terms[0].variance)} of {reference}"
    n_strong = sum(term.variance >= _LEAST_VARIANCE for term in terms)
    count, verb = "One" if n_strong == 1 else n_strong or "None", "have" if n_strong > 1 else "has"
    return f"{count} of {len(terms)} terms {verb} a variance of at least {percent(_LEAST_VARIANCE)} of {reference}"


def _strongest_clause(ranking: Sequence[Standing]) -> str:
    """Name the strongest term and the strongest interaction, or say where interactions are."""
    terms = [term for term in ranking if not term.is_remainder]
    interaction = next((term for term in terms if term.order > 1), None)
    strongest = f"the strongest is {_with_variance(terms[0])}" if len(terms) > 1 else ""
    if interaction is not None:
        is_first = terms[0] is interaction
        return strongest if is_first else f"{strongest}, the strongest interaction {_with_variance(interaction)}"
    sums = " and ".join(f"the {_with_variance(term)}" for term in ranking if term.is_remainder)
    interactions = f"interactions are in {sums}" if sums else "there are no interactions"
    return "; ".join(filter(None, (strongest, interactions)))


def _with_variance(term: Standing) -> str:
    """Return a label and a share of variance, such as "a × b (12%)"."""
    label = term.label.strip("()") if term.is_remainder else term.label
    return f"{label} ({percent(term.variance)})"


def _moved_share_clause(before: float, after: float) -> str:
    """Say how purification changed the share of pairs; empty if hardly, or if shares are no parts of a whole."""
    if abs(after - before) < _LEAST_MOVE or not 0 <= before <= 1:
        return ""
    way = "lowered" if after < before else "raised"
    return f"purification {way} the share of pairs from {percent(before)} to {percent(after)}"


def sum_error_words(fx: Answers) -> str:
    """Return, for example, "sum of terms within 1.9e-16 of the model"; empty for selected terms."""
    certificate = fx.certificate
    error = f"sum of {certificate.sum_of} within {certificate.reconstruction_error:.1e} of the model"
    return error if certificate.sum_of else ""


def caveats(fx: Answers) -> list[str]:
    """Explain the certificate, one line each: purity and sum, accuracy of high orders, copies of rows, remainder."""
    certificate = fx.certificate
    lines = ["; ".join(filter(None, (certificate.purity, sum_error_words(fx))))]
    if certificate.higher is not None and certificate.higher.accuracy:
        lines.append(certificate.higher.accuracy)
    lines += certificate.uniqueness
    if fx.density.caveat:
        lines.append(fx.density.caveat)
    if is_in_one_cell(fx.density) and not certificate.is_raw:
        lines.append(one_cell_words(fx.density.name))
    if certificate.remainder_share is not None:
        of_all = " (of the worst output)" if len(fx.outputs) > 1 else ""
        lines.append(f"the remainder has {percent(certificate.remainder_share)} of the score's variance{of_all}")
    return lines


def is_in_one_cell(density: Density) -> bool:
    """Whether all rows of a density are in one cell, where every term is zero, and terms are not ranked at others."""
    return not density.ranks_on_population and density.is_one_cell


def one_cell_words(density_name: str) -> str:
    """Return the warning for a density whose rows are all in one cell."""
    return (
        f"all rows of the density {density_name!r} are in one cell of the model, so that every term is zero at these "
        "rows; pass the rows of a population as `X`, or density=Reference(row) to compare with one row"
    )


def plain_summary(fx: Answers, model_name: str) -> dict[str, Any]:
    """Return density, features, ranked terms and certificate as plain data that JSON can hold."""
    statistics, ranking = fx.density.statistics, ranking_of(fx)
    columns = columns_of(ranking.table(backend_of_tables(fx)))
    features = [list(term.features) or None for terms in ranking.standings.values() for term in terms]
    rows = [
        dict(zip([*columns, "features"], row, strict=True)) for row in zip(*columns.values(), features, strict=True)
    ]
    certificate = fx.certificate.to_dict()
    if function_of(fx).scope.is_part:
        certificate["reconstruction_error"] = None
    content = {
        "model": model_name,
        "density": fx.density.name,
        "n_rows": None if statistics is None else statistics.n_rows,
        "features": list(fx.schema.names),
        "outputs": list(fx.outputs),
        "link": fx.schema.link,
        "scale": scale_of(fx.schema),
        "intercept": fx.intercept,
        "terms": rows,
        "certificate": certificate,
    }
    return plain(content)


def summary_text(fx: Answers, model_name: str, top: int) -> str:
    """Return headline, table of at most `top` terms and caveats, per output, as plain text."""
    statistics = fx.density.statistics
    rows = "" if statistics is None else f", {rows_words(statistics.n_rows)}"
    scale = printable(scale_of(fx.schema))
    blocks = [f"{model_name}: {len(fx.schema.names)} features, density {fx.density.name}{rows}, {scale}"]
    for output, terms in ranking_of(fx).standings.items():
        prefix = f"{output}: " if len(fx.outputs) > 1 else ""
        sentence = printable(headline(terms, is_part=function_of(fx).scope.is_part))
        blocks.append(f"{prefix}{sentence}\n\n{_table_of_strongest(terms, top)}")
    return "\n\n".join([*blocks, "\n".join(caveats(fx))])


def _table_of_strongest(terms: Sequence[Standing], top: int) -> str:
    """Format the first `top` of ranked terms as a text table, with sums of the others."""
    rows = [
        {
            "term": term.label,
            "variance": percent(term.variance),
            "covariance": percent(term.share - term.variance),
            "share": percent(term.share),
            "mean |effect|": f"{term.mean_abs:.4g}",
        }
        for term in terms[:top]
    ]
    omitted = terms[top:]
    sums = percent(sum(term.variance for term in omitted)), percent(sum(term.share for term in omitted))
    more = f"{len(omitted)} more terms: variance {sums[0]}, share {sums[1]}" if omitted else ""
    return "\n".join(filter(None, (aligned_rows(rows, top), more, _notes_on_sums(terms, top))))


def _notes_on_sums(terms: Sequence[Standing], n_shown: int) -> str:
    """Explain why variances do not add up to 100 %, and shares unlike variances; empty if they do."""
    shown = share_words((term.variance, term.share) for term in terms[:n_shown])
    return "\n".join(filter(None, (sum_words(term.variance for term in terms), shown)))


def html_summary(fx: Answers) -> str:
    """Return the summary that notebooks show: caveats, and per output a headline and a table of terms."""
    words = f"{len(fx.terms)} terms · density {fx.density.name} · {scale_of(fx.schema)}"
    intro = " · ".join(html.escape(line) for line in (words, *caveats(fx)) if line)
    blocks = [f"<p><strong>Decomposition</strong> · {intro}</p>"]
    for output, terms in ranking_of(fx).standings.items():
        sentence = headline(terms, is_part=function_of(fx).scope.is_part)
        caption = sentence if len(fx.outputs) == 1 else f"{output}: {sentence}"
        blocks.append(f"<p>{html.escape(caption)}</p>{_html_table(terms)}")
    return f'<div style="font-family:system-ui,sans-serif;max-width:44em">{"".join(blocks)}</div>'


def _html_table(terms: Sequence[Standing]) -> str:
    """Return ranked terms as an HTML table with bars of their variances, the longest 8 em."""
    largest = max((term.variance for term in terms), default=0.0) or 1.0
    shown, omitted = terms[:_MOST_ROWS], terms[_MOST_ROWS:]
    rows = "".join(_html_row(html.escape(term.label), [term], 8 * term.variance / largest) for term in shown)
    if omitted:
        rows += _html_row(f"<em>{len(omitted)} more</em>", omitted, 0.0)
    head = '<tr><th style="text-align:left">term</th><th>variance</th><th>share</th><th></th></tr>'
    note = _notes_on_sums(terms, _MOST_ROWS).replace("\n", " ")
    foot = f"<p><small>{html.escape(note)}</small></p>" if note else ""
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>{foot}"


def _html_row(label_html: str, terms: Sequence[Standing], bar_ems: float) -> str:
    """Return a row of the table: a label, variance and share added up over terms, and a bar of a length in em."""
    measures = (sum(term.variance for term in terms), sum(term.share for term in terms))
    cells = "".join(f'<td style="text-align:right">{percent(measure)}</td>' for measure in measures)
    bar = f'<div style="background:{MAIN};height:.7em;width:{max(0.0, bar_ems):.2f}em"></div>'
    return f'<tr><td style="text-align:left">{label_html}</td>{cells}<td style="text-align:left">{bar}</td></tr>'
