"""The certificate of a purification: how pure, how sure, and what the weights could not tell."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from treeanova.labels import label_of
from treeanova.slices import Floats, largest, safe_inverse, settled_means


@dataclasses.dataclass(frozen=True)
class TermCertificate:
    """What was measured on one term.

    Attributes
    ----------
    impurity
        Largest weighted mean of a slice, relative to the largest absolute score. Slices without mass are weighted by
        the product of marginals.
    max_correlation
        Maximal correlation of the term's features under the weights: exact for pairs, above an estimate from the
        solver (0 where no solve was needed). The error of the term is about ``impurity / (1 - max_correlation**2)``.
    n_components
        Parts of the support that no cell with mass ties together; above 1 a convention ties them.
    empty_share
        Share of the cells without mass.
    method, iterations
        How it was solved.
    """

    impurity: float
    max_correlation: float
    n_components: int
    empty_share: float
    method: str
    iterations: int

    @property
    def error(self) -> float:
        """Estimate of the term's largest error, relative to the largest absolute score."""
        return self.impurity / max(1.0 - self.max_correlation**2, np.finfo(float).eps)


@dataclasses.dataclass(frozen=True)
class HigherCertificate:
    """What was measured on the terms of a deep ensemble that have no tensor.

    Attributes
    ----------
    orders
        Lowest and highest order of these terms.
    n_terms
        Number of terms told apart.
    n_corrected
        Terms that were made pure on coarse cells, told apart or not; the others are pure for independent features.
    impurity
        Root mean square, over the rows, of the means of a term's slices on coarse cells, relative to that of the term
        before it was made pure; the largest of all terms.
    bins
        Coarse bins per feature for each order.
    refinement
        Largest root mean square change of a tensor when the coarse bins are halved, relative to the standard deviation
        of the score: how much finer ones could still change.
    is_exact
        Whether features are independent, so that the closed form is pure as it is.
    """

    orders: tuple[int, int]
    n_terms: int
    n_corrected: int
    impurity: float
    bins: Mapping[int, int]
    refinement: float
    is_exact: bool

    def __str__(self) -> str:
        low, high = self.orders
        told = f"{self.n_terms:,} terms told apart at rows" if self.n_terms else "in the remainder"
        start = f"orders {low} to {high}: {told}; "
        if self.is_exact:
            return f"{start}pure in closed form, features being independent"
        if not self.n_corrected:
            return f"{start}none corrected for dependence, pure for independent features only"
        cells = ", ".join(f"{bins} at order {order}" for order, bins in self.bins.items())
        return (
            f"{start}{self.n_corrected:,} corrected for dependence on coarse bins ({cells}), slice means there within "
            f"{self.impurity:.1e}; half as many bins would change a tensor by {self.refinement:.2%} of the score's "
            "standard deviation"
        )


@dataclasses.dataclass(frozen=True)
class Certificate:
    """What was measured on all terms, with the worst of each; `print` it.

    Attributes
    ----------
    terms
        One `TermCertificate` per term, highest order first.
    reconstruction_error
        Largest difference between the scores and the sum of all terms, relative to the largest absolute score.
    tol
        The impurity that was asked for.
    higher
        What was measured on terms that are no tensors; None where there are none.
    """

    terms: Mapping[tuple[Any, ...], TermCertificate]
    reconstruction_error: float
    tol: float
    higher: HigherCertificate | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", MappingProxyType(dict(self.terms)))

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy has no pickle of its own.
        return Certificate, (
            dict(self.terms),
            self.reconstruction_error,
            self.tol,
            self.higher,
        )

    @property
    def impurity(self) -> float:
        """Largest impurity of a term."""
        return max((term.impurity for term in self.terms.values()), default=0.0)

    @property
    def max_correlation(self) -> float:
        """Largest maximal correlation of a term."""
        return max((term.max_correlation for term in self.terms.values()), default=0.0)

    @property
    def error(self) -> float:
        """Largest error estimate of a term."""
        return max((term.error for term in self.terms.values()), default=0.0)

    @property
    def n_components(self) -> int:
        """Most components that the support of a term falls into."""
        return max((term.n_components for term in self.terms.values()), default=1)

    @property
    def empty_share(self) -> float:
        """Largest share of cells without mass of a term."""
        return max((term.empty_share for term in self.terms.values()), default=0.0)

    @property
    def iterations(self) -> int:
        """Most iterations that a term took."""
        return max((term.iterations for term in self.terms.values()), default=0)

    @property
    def met(self) -> bool:
        """Whether every term is pure to the tolerance."""
        return self.impurity <= self.tol

    def __str__(self) -> str:
        verdict = f"pure to {self.tol:.0e}" if self.met else f"NOT pure to {self.tol:.0e}"
        width = max([14, *(2 + len(_label(axes)) for axes in self.terms)])
        header = f"{'term':<{width}}{'impurity':>10}{'max corr':>12}{'error':>10}{'parts':>7}{'empty':>8}  method"
        rows = [
            f"{_label(axes):<{width}}{t.impurity:>10.1e}{t.max_correlation:>12.8f}{t.error:>10.1e}{t.n_components:>7}"
            f"{t.empty_share:>8.1%}  {t.method} ({t.iterations})"
            for axes, t in self.terms.items()
        ]
        summary = f"{verdict}; sum of terms within {self.reconstruction_error:.1e} of the scores"
        return "\n".join([summary, *([] if self.higher is None else [str(self.higher)]), header, *rows])


def _label(axes: tuple[Any, ...]) -> str:
    return label_of(axes)


def impurity(values: Floats, weights: Floats, scales: Floats) -> float:
    """Largest slice mean relative to scales, one per output; 0 where the scale is 0."""
    worst = np.zeros(len(values))
    for axis in range(weights.ndim):
        worst = np.maximum(worst, largest(settled_means(values, weights, axis)))
    return float((worst * safe_inverse(scales)).max(initial=0.0)) + 0.0  # never -0.0
