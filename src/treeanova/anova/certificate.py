"""Certificates: how pure and how accurate terms are, and what the weights leave undetermined."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from treeanova.anova.support import largest, means_of_all_slices, safe_inverse
from treeanova.core.arrays import Floats, label_of

_MAX_LINES = 24  # of a printed certificate: a screen
_ERROR_FACTOR = 1e3  # a term whose error is larger than this times the tolerance is not pure


def _measured(number: float) -> float | None:  # for JSON, which has no NaN: None instead of it, "not measured"
    return None if math.isnan(number) else number


@dataclasses.dataclass(frozen=True)
class TermCertificate:
    """What was measured on one term.

    Attributes
    ----------
    impurity
        Largest weighted mean of a slice, relative to the largest absolute score. Slices without mass are weighted by
        the product of marginals.
    max_correlation
        Maximal correlation of the term's features under the weights: exact for pairs and small tensors, otherwise the
        solver's estimate (0 if no system was solved). If it is near 1, small slice means do not imply a small error.
    n_components
        Number of disconnected components of the support. With more than one, the weights do not determine the term, and
        a convention does (see `purify`).
    empty_share
        Share of the cells without mass.
    method, iterations
        The solver, and its number of iterations.
    error
        Bound on the largest error of the term, relative to the largest absolute score. Conjugate gradients and
        elimination measure it: they also purify a random function of fewer features, of which nothing should be left.
        Otherwise it is ``impurity / (1 - max_correlation**2)``, or known from the solver. It includes the errors of the
        terms with one feature more, because what is taken out of them goes to this term.
    trace
        With ``method="mass-moving"``: M^t of the paper's Algorithm 2 for this term, the unpurified mass before the
        first pass and after each pass over an axis, added up over outputs; else empty. Of a tree model, mass moving
        starts from terms that are pure for independent features.

    Examples
    --------
    >>> import treeanova
    >>> pure = treeanova.purify([[1, 0], [0, 0]], [[1, 0], [0, 1]])
    >>> pair = pure.certificate.terms[0, 1]
    >>> pair.n_components, pair.empty_share, pair.method
    (2, 0.5, 'direct')
    """

    impurity: float
    max_correlation: float
    n_components: int
    empty_share: float
    method: str
    iterations: int
    error: float | None = None
    trace: tuple[float, ...] = dataclasses.field(default=(), repr=False)

    def __post_init__(self) -> None:
        derived = self.impurity / max(1.0 - self.max_correlation**2, np.finfo(float).eps)
        object.__setattr__(self, "error", derived if self.error is None else _worst([self.error, self.impurity]))


@dataclasses.dataclass(frozen=True)
class HigherCertificate:
    """What was measured on the terms of a deep ensemble that have no table and are evaluated at rows.

    Attributes
    ----------
    orders
        Lowest and highest order of these terms.
    n_terms
        Number of terms reported individually.
    n_corrected
        Number of terms purified on coarse cells, reported individually or not; the others are pure only if features are
        independent.
    impurity
        Root mean square, over the rows, of the means of a term's slices on the coarse cells where it was purified,
        relative to that of the term before; the largest of all terms.
    bins
        Number of coarse bins per feature for each order.
    refinement
        Largest root mean square change of a table when the number of coarse bins is halved (or, with only two, when the
        order is not corrected), relative to the score's standard deviation: what finer bins could still change.
    is_exact
        Whether features are independent, so that the closed form is pure.
    measured
        Root mean square of slice means relative to that of the term, on four bins per feature, at rows that represent
        the density: the largest of `n_measured` terms, the largest of all and of each order. None if not measured.
    n_measured
        Number of terms that were measured.
    n_left_out
        Number of terms that are not listed but added up with all others of their order, as far as they were counted.
    largest_missed
        Estimate of the largest share of the score's variance of one of these; NaN if they were not searched.
    skipped
        What a time limit left out.
    table_error
        Estimate of the largest error that the correction of these terms leaves in a table of lower order, relative to
        the largest absolute score: what half as many bins would change, plus what these terms still hold, at rows, of
        the features of a table. It is not a bound. NaN if not measured.
    mean_error
        Standard error of the intercept as the mean of the score, relative to the score's standard deviation; 0 if the
        mean is exact.
    is_raw
        Whether these are terms before purification, whose slice means were not measured.
    max_order
        Highest order that is reported, if those above it are in the remainder; None if no order is.

    Examples
    --------
    >>> import treeanova
    >>> higher = treeanova.model.HigherCertificate((3, 5), 40, 0, 0.0, {}, 0.0, is_exact=True)
    >>> print(higher)
    orders 3 to 5: 40 terms at rows; pure in closed form, features being independent
    >>> higher.purity
    0.0
    """

    orders: tuple[int, int]
    n_terms: int
    n_corrected: int
    impurity: float
    bins: Mapping[int, int]
    refinement: float
    is_exact: bool
    measured: float | None = None
    n_measured: int = 0
    n_left_out: int = 0
    largest_missed: float = 0.0
    skipped: tuple[str, ...] = ()
    table_error: float = 0.0
    mean_error: float = 0.0
    is_raw: bool = False
    max_order: int | None = None

    @property
    def purity(self) -> float:
        """Largest measured slice mean relative to its term; 0 in closed form or without terms, NaN if not measured."""
        if self.is_exact or not self._has_terms:
            return 0.0
        return float("nan") if self.measured is None else self.measured

    def above(self, order: int) -> HigherCertificate:
        """Return the certificate if all terms above an order, including those with tables, are in the remainder."""
        first, last = self.orders
        max_order = order if order < last else None
        return dataclasses.replace(self, orders=(min(first, order + 1), last), max_order=max_order)

    def to_dict(self) -> dict[str, Any]:
        """Return what was measured as plain data; None stands for what was not measured.

        Returns
        -------
        dict

        Examples
        --------
        >>> import treeanova
        >>> certificate = treeanova.model.HigherCertificate((3, 5), 4, 0, 0.0, {}, float("nan"), is_exact=False)
        >>> certificate.to_dict()["orders"]
        [3, 5]
        """
        return {
            "orders": list(self.orders),
            "n_terms": self.n_terms,
            "n_corrected": self.n_corrected,
            "purity": _measured(self.purity),
            "refinement": _measured(self.refinement),
            "table_error": _measured(self.table_error),
            "mean_error": self.mean_error,
        }

    @property
    def in_short(self) -> str:  # how pure the terms at rows are, and which orders are in the remainder; may be empty
        pure = f"{text_of_orders(self._reported)} {self._purity_in_words()}" if self._has_terms else ""
        rest = "" if self._rest is None else f"{text_of_orders(self._rest)} in the remainder"
        return "; ".join(filter(None, (pure, rest)))

    @property
    def _has_terms(self) -> bool:
        return bool(self.n_terms or self.n_left_out)

    @property
    def _reported(self) -> tuple[int, int]:  # lowest and highest order of terms that are not in the remainder
        return self.orders[0], self.orders[1] if self.max_order is None else self.max_order

    @property
    def _rest(self) -> tuple[int, int] | None:  # lowest and highest order in the remainder; None if no order is
        return None if self.max_order is None else (self.max_order + 1, self.orders[1])

    def _purity_in_words(self) -> str:
        if self.is_exact:
            return "pure in closed form"
        if self.is_raw:
            return "not purified"
        if self.measured is None:
            return f"{self._phrase_of_correction()}, purity not measured"
        which = (
            f"the {self.n_measured} largest of {self.n_terms:,} terms"
            if self.n_measured < self.n_terms
            else f"the {self.n_terms} listed terms"
            if self.n_left_out
            else "all terms"
        )
        return f"pure within {self.measured:.1%} of their size ({which})"

    @property
    def accuracy(self) -> str:
        """How accurate the tables of lower orders are, in words; empty if nothing was estimated."""
        if self.is_exact or self.is_raw or self.orders[0] == 1:
            return ""
        tables = f"tables of {text_of_orders(range(1, self.orders[0]))}"
        correction = f"{text_of_orders(self.orders)} {self._phrase_of_correction()}"
        if math.isnan(self.table_error):
            return f"accuracy of {tables} not measured, for lack of time: {correction}"
        return f"{tables} accurate to about {100 * self.table_error:.2g}% of the largest score: {correction}"

    def _phrase_of_correction(self) -> str:  # which of these terms were purified on coarse cells, in words
        if not self.n_corrected:
            return "not corrected for dependence"
        orders = sorted(self.bins) or self.orders
        which = "" if (orders[0], orders[-1]) == self.orders else f" of {text_of_orders(orders)}"
        terms = "1 term" if self.n_corrected == 1 else f"{self.n_corrected:,} terms"
        return f"corrected for dependence on coarse bins ({terms}{which})"

    def __str__(self) -> str:
        terms = f"{self.n_terms:,} terms at rows" if self._has_terms else "left out"
        if self.n_left_out and not math.isnan(self.largest_missed):
            missed = f"none with more than about {self.largest_missed:.2%} of the variance"
            terms = f"{terms}, {self.n_left_out:,} others added up by order, {missed}"
        if math.isnan(self.largest_missed):
            terms = f"{terms}, others added up by order, which were not searched for large ones"
        rest = None if self._rest is None else f"{text_of_orders(self._rest)}: in the remainder"
        reported = None if rest and not self._has_terms else f"{text_of_orders(self._reported)}: {terms}"
        phrases = ["; ".join(filter(None, (reported, rest)))]
        if self.is_exact:
            return f"{phrases[0]}; pure in closed form, features being independent"
        if self.is_raw:
            return f"{phrases[0]}; not purified"
        if self.n_corrected:
            cells = ", ".join(f"{bins} at order {order}" for order, bins in self.bins.items())
            corrected = f"{self.n_corrected:,} corrected for dependence on coarse bins ({cells})"
            phrases.append(f"{corrected}, slice means there within {self.impurity:.1e}")
            if self.measured is not None:
                which = f"{self.measured:.1%} for the {self.n_measured} largest terms"
                phrases.append(f"at rows, on 4 bins per feature, within {which}")
            if not math.isnan(self.refinement):
                change = f"{self.refinement:.2%} of the score's standard deviation"
                phrases.append(f"half as many bins would change a table by {change}")
        else:
            phrases.append("none corrected for dependence, pure for independent features only")
        is_unknown = math.isnan(self.table_error)
        error = "not measured" if is_unknown else f"up to about {self.table_error:.1e} of the largest score"
        phrases.append(f"errors of tables {error}")
        if self.mean_error:
            phrases.append(f"standard error of the intercept {self.mean_error:.1e} of the score's standard deviation")
        if self.skipped:
            phrases.append(f"left out for lack of time: {', '.join(self.skipped)}")
        return "; ".join(phrases)


@dataclasses.dataclass(frozen=True)
class Certificate:
    """What was measured on all terms, with the worst of each; `print` it.

    Attributes
    ----------
    terms
        One `TermCertificate` per term that has a table, highest order first.
    reconstruction_error
        Largest difference between the scores and the sum of all terms, relative to the largest absolute score.
    tol
        The largest impurity allowed.
    higher
        What was measured on terms that are evaluated at rows; None without such terms.
    density_gap
        Largest share of the mass by which the table of a pair differs from the joint density used for orders above 2;
        0 for densities that are one joint model.
    remainder_share
        Variance of the remainder over that of the score at rows of the density, the largest of all outputs; None
        without a remainder.
    marginal_gap
        Largest share of the mass by which the marginals of a feature differ between tables of different terms; 0 for
        densities whose tables agree.
    edits
        Edits of the terms by hand, such as scaling: their sum is then no longer the model.
    sampled_rows
        Number of sampled rows that estimated the dependence of features, because the rows could be read only once; None
        if no such estimate was needed.
    aliases
        Groups of features that determine each other in the rows, such as copies of a column: only the sum of their
        terms is unique, and that of interactions only if their bins divide the rows alike.
    mean_gap
        Difference between the intercept and the mean of the score under the joint density used for orders above 2,
        relative to the score's standard deviation; 0 for densities that are one joint model.
    sum_of
        What adds up to the scores: "terms" or "terms and remainder"; empty for a selection of terms, and after edits.

    Examples
    --------
    >>> import treeanova
    >>> certificate = treeanova.purify([[0, 0], [0, 1]], [[1, 1], [1, 1]]).certificate
    >>> certificate.is_pure, certificate.n_components
    (True, 1)
    >>> certificate.purity
    'orders 1 and 2 pure to 0.0e+00'
    """

    terms: Mapping[tuple[Any, ...], TermCertificate]
    reconstruction_error: float
    tol: float
    higher: HigherCertificate | None = None
    density_gap: float = 0.0
    remainder_share: float | None = None
    marginal_gap: float = 0.0
    edits: tuple[str, ...] = ()
    sampled_rows: int | None = None
    aliases: tuple[tuple[str, ...], ...] = ()
    mean_gap: float = 0.0
    sum_of: str = "terms"

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", MappingProxyType(dict(self.terms)))

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy cannot be pickled.
        fields = [getattr(self, field.name) for field in dataclasses.fields(self)]
        return Certificate, (dict(self.terms), *fields[1:])

    def to_dict(self) -> dict[str, Any]:
        """Return what was measured as plain data that JSON can hold; None stands for what was not measured.

        Returns
        -------
        dict

        Examples
        --------
        >>> import treeanova
        >>> treeanova.purify([[0, 0], [0, 1]], [[1, 1], [1, 1]]).certificate.to_dict()["pure"]
        True
        """
        higher = self.higher
        return {
            "pure": self.is_pure,
            "tables_pure": self.tables_are_pure,
            "impurity": self.impurity,
            "error": _measured(self.error),
            "aliases": [list(group) for group in self.aliases],
            "max_correlation": self.max_correlation,
            "reconstruction_error": self.reconstruction_error,
            "density_gap": self.density_gap,
            "at_rows": None if higher is None else higher.to_dict(),
            "remainder_share": self.remainder_share,
        }

    @property
    def is_raw(self) -> bool:
        """Whether these are terms before purification."""
        if self.higher is not None and self.higher.is_raw:
            return True
        return len(self.terms) > 0 and all(term.method == "none" for term in self.terms.values())

    @property
    def impurity(self) -> float:
        return _worst(term.impurity for term in self.terms.values())

    @property
    def max_correlation(self) -> float:
        """Largest maximal correlation of a term; 1 if features determine each other in the rows."""
        return 1.0 if self.aliases else _worst(term.max_correlation for term in self.terms.values())

    @property
    def error(self) -> float:
        """Largest error of a term that has a table: a bound for its purification, plus an estimate for higher orders.

        The estimate is `HigherCertificate.table_error`; NaN means not measured.
        """
        return self.purification_error + (0.0 if self.higher is None else self.higher.table_error)

    @property
    def purification_error(self) -> float:
        """Largest error bound of a term that has a table, given the terms that have none."""
        return _worst(term.error for term in self.terms.values() if term.error is not None)

    @property
    def n_components(self) -> int:
        """Most components that the support of a term has."""
        return max((term.n_components for term in self.terms.values()), default=1)

    @property
    def empty_share(self) -> float:
        """Largest share of cells without mass in a term."""
        return max((term.empty_share for term in self.terms.values()), default=0.0)

    @property
    def iterations(self) -> int:
        """Most iterations that a term took."""
        return max((term.iterations for term in self.terms.values()), default=0)

    @property
    def tables_are_pure(self) -> bool:
        """Whether every table is pure to the tolerance, with a purification error of at most 1,000 times it.

        Pure tables may still have an error from the orders above, which `error` and `is_pure` include.
        """
        return bool(self.impurity <= self.tol and self.purification_error <= _ERROR_FACTOR * self.tol)

    @property
    def is_pure(self) -> bool:
        """Whether every term is pure to the tolerance, with or without a table, and `error` at most 1,000 times it."""
        is_accurate = bool(self.error <= _ERROR_FACTOR * self.tol)
        return self.tables_are_pure and is_accurate and (self.higher is None or self.higher.purity <= self.tol)

    @property
    def purity(self) -> str:
        """How pure the terms are, in words: those that have a table, then those evaluated at rows."""
        phrases = []
        if self.terms:
            verdict = "pure to" if self.tables_are_pure else "NOT pure: slice means up to"
            error = self.purification_error
            errors = f", errors up to {error:.1e}" if error > _ERROR_FACTOR * self.tol else ""
            phrases.append(f"{text_of_orders(sorted(map(len, self.terms)))} {verdict} {self.impurity:.1e}{errors}")
        if self.higher is not None:
            phrases.append(self.higher.in_short)
        return "; ".join(filter(None, phrases)) or "no terms"

    @property
    def least_pure(self) -> tuple[tuple[Any, ...], TermCertificate]:
        """The term farthest from the tolerance, and what was measured on it."""
        return max(self.terms.items(), key=lambda item: self._excess(item[1]))

    def _excess(self, term: TermCertificate) -> float:
        """Return the impurity or the error of a term over what is allowed, the larger; above 1, it is not pure."""
        excess = _worst([term.impurity / self.tol, (term.error or 0.0) / (_ERROR_FACTOR * self.tol)])
        return np.inf if np.isnan(excess) else excess  # what was not measured comes before all else

    def of_terms(
        self, names: Collection[tuple[Any, ...]], n_higher: int | None = None, *, has_unlisted: bool = False
    ) -> Certificate:
        """Return the certificate of a selection of terms: tables of `names`, `n_higher` terms at rows (None: all)."""
        # `has_unlisted`: the sums of terms that are not listed stay too.
        terms = {key: term for key, term in self.terms.items() if key in names}
        higher = self.higher
        if higher is not None and n_higher is not None:
            higher = dataclasses.replace(higher, n_terms=n_higher, max_order=None)
        if higher is not None and not has_unlisted:
            higher = dataclasses.replace(higher, n_left_out=0, largest_missed=0.0)
        features = {name for key in names for name in key}
        aliases = tuple(group for group in self.aliases if len(features & set(group)) > 1)
        return dataclasses.replace(self, terms=terms, higher=higher, remainder_share=None, aliases=aliases)

    @property
    def uniqueness(self) -> tuple[str, ...]:
        """What the weights leave undetermined, in sentences: features that determine each other, and split pairs.

        A function that is constant on each component of a pair's support is a function of either feature.
        """
        aliased = tuple(sentence_of_aliases(group) for group in self.aliases)
        disconnected = [key for key, term in self.terms.items() if len(key) == 2 and term.n_components > 1]
        split = [key for key in disconnected if not any(set(key) <= set(group) for group in self.aliases)]
        if not split:
            return aliased
        pairs = f"{len(split):,} pairs, such as {label_of(split[0])}," if len(split) > 1 else label_of(split[0])
        fact = f"the support of {pairs} has several parts that no cell with mass connects"
        consequence = "differences between these parts are unique in the sum of the two main effects only"
        return (*aliased, f"{fact}: {consequence}")

    def __str__(self) -> str:
        of_sum = f"; sum of {self.sum_of} within {self.reconstruction_error:.1e} of the scores"
        summary = f"{self.purity}{of_sum if self.sum_of and not self.edits else ''}"
        notes = [] if self.higher is None else [str(self.higher)]
        notes += self.uniqueness
        if self.edits:
            notes.append(f"edited ({', '.join(self.edits)}): the sum of terms is no longer the model")
        if self.marginal_gap:
            notes.append(
                f"tables of different terms have marginals of the same feature that differ by up to "
                f"{self.marginal_gap:.1%}: each term is pure under its own table"
            )
        if self.density_gap:
            gap = f"tables of pairs differ from the joint density of higher orders by up to {self.density_gap:.1%}"
            share = f"{self.mean_gap:.1%} of its standard deviation"
            of_mean = f"the mean of the score under it from the intercept by {share}"
            notes.append(f"{gap}, {of_mean}" if self.mean_gap else gap)
        if self.sampled_rows is not None:
            notes.append(
                f"dependence of features in high orders or in the density is that of a sample of {self.sampled_rows:,} "
                "rows, since rows could be read once only"
            )
        return "\n".join([summary, *notes, *self._lines_of_table()])

    def _lines_of_table(self) -> list[str]:  # one line per term, at most a screen of the least pure
        shown = self.terms
        if len(shown) > _MAX_LINES:
            least_pure = sorted(shown, key=lambda key: -self._excess(shown[key]))[:_MAX_LINES]
            shown = {key: term for key, term in shown.items() if key in set(least_pure)}
        width = max([14, *(2 + len(label_of(key)) for key in shown)])
        header = f"{'term':<{width}}{'impurity':>10}{'max corr':>12}{'error':>10}{'parts':>7}{'empty':>8}  method"
        rows = [
            f"{label_of(key):<{width}}{t.impurity:>10.1e}{t.max_correlation:>12.8f}{t.error:>10.1e}{t.n_components:>7}"
            f"{t.empty_share:>8.1%}  {t.method} ({t.iterations})"
            for key, t in shown.items()
        ]
        if len(shown) < (n_terms := len(self.terms)):
            rows.append(f"the {len(shown)} least pure of {n_terms:,} terms with tables; `terms` has all of them")
        if self.higher is not None and not (self.higher.is_exact or self.higher.is_raw):
            table_error = self.higher.table_error
            verdict = "was not measured" if math.isnan(table_error) else f"adds up to about {table_error:.1e}"
            rows.append(f"error: of purification alone; what the correction of higher orders leaves {verdict}")
        return [header, *rows]


def impurity(values: Floats, weights: Floats, scales: Floats) -> float:
    """Return a term's largest weighted slice mean over the largest score of its output, `scales`; outputs first."""
    worst = np.zeros(len(values))  # per output; in the end 0 for a scale of 0, NaN if a value is NaN
    for axis in range(weights.ndim):
        worst = np.maximum(worst, largest(means_of_all_slices(values, weights, axis)))
    return float((worst * safe_inverse(scales)).max(initial=0.0)) + 0.0  # never -0.0


def sentence_of_aliases(group: Sequence[str]) -> str:  # for names of features that determine each other in the rows
    names = f"{', '.join(group[:-1])} and {group[-1]}"
    return (
        f"{names} determine each other in these data: the sum of their terms is unique if their bins divide the rows "
        "alike, but its split between them follows the splits of the model and the convention for cells without rows"
    )


def _worst(numbers: Iterable[float]) -> float:
    """Return the largest number, 0 for none; NaN if one is NaN, so that it never passes for small."""
    return float(np.max(np.fromiter(numbers, dtype=float), initial=0.0))


def text_of_orders(orders: Sequence[int]) -> str:  # from the first to the last, such as "orders 1 and 2"
    first, last = orders[0], orders[-1]
    return f"order {first}" if first == last else f"orders {first} {'and' if last == first + 1 else 'to'} {last}"
