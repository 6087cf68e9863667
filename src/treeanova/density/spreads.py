"""Spread: the distribution of the values of a feature as quantiles, for what a file keeps without the values."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from treeanova.core.arrays import Floats

N_QUANTILES = 513


@dataclasses.dataclass(frozen=True, eq=False)
class Spread:
    """Quantiles of the finite values of a feature at equal distances from 0 to 1.

    Attributes
    ----------
    plain
        Quantiles with all rows weighing the same; empty where there are no finite values.
    by_weight
        Quantiles by weight.
    n_finite
        Number of finite values.
    finite_weight, weight
        Weight of the rows that have a finite value, and of all rows.
    """

    plain: Floats
    by_weight: Floats
    n_finite: float
    finite_weight: float
    weight: float

    @classmethod
    def of(cls, column: Floats, weights: Floats | None) -> Spread:
        """The spread of a column."""
        finite = np.isfinite(column)
        values, n_finite = column[finite], float(finite.sum())
        shares = np.linspace(0, 1, _n_quantiles(len(values)))
        plain = np.quantile(values, shares) if len(values) else np.empty(0)
        if weights is None:
            return cls(plain, plain, n_finite, n_finite, float(len(column)))
        by_weight = _quantiles(values, weights[finite], len(plain)) if len(values) else plain
        return cls(plain, by_weight, n_finite, float(weights[finite].sum()), float(weights.sum()))

    def quantiles(self, probabilities: Sequence[float]) -> Floats | None:
        """Quantiles, weights ignored; None where there are no finite values."""
        if not len(self.plain):
            return None
        found: Floats = np.interp(probabilities, np.linspace(0, 1, len(self.plain)), self.plain)
        return found

    def histogram(self, low: float, high: float, n_bins: int) -> Floats:
        """Share of the rows in each of some intervals of equal length; each quantile has the same mass."""
        n_quantiles = max(len(self.by_weight), 1)
        masses = np.full(len(self.by_weight), self.finite_weight / self.weight / n_quantiles)
        found, _ = np.histogram(self.by_weight, n_bins, (low, high), weights=masses)
        return found

    def scaled(self, factor: float) -> Spread:
        """The same with all weights multiplied by a factor."""
        return dataclasses.replace(self, finite_weight=self.finite_weight * factor, weight=self.weight * factor)

    def merged(self, other: Spread) -> Spread:
        """The spread of the values of both."""
        return Spread(
            _mixed((self.plain, other.plain), (self.n_finite, other.n_finite)),
            _mixed((self.by_weight, other.by_weight), (self.finite_weight, other.finite_weight)),
            self.n_finite + other.n_finite,
            self.finite_weight + other.finite_weight,
            self.weight + other.weight,
        )


def _mixed(quantiles: tuple[Floats, Floats], masses: tuple[float, float]) -> Floats:
    pairs = [(values, mass) for values, mass in zip(quantiles, masses, strict=True) if len(values)]
    if len(pairs) < 2:
        return pairs[0][0] if pairs else np.empty(0)
    weights = [np.full(len(values), mass / len(values)) for values, mass in pairs]
    return _quantiles(np.concatenate(quantiles), np.concatenate(weights), max(map(len, quantiles)))


def _n_quantiles(n_values: int) -> int:
    """One for ten values, so that they do not tell all of them."""
    return min(N_QUANTILES, 2 + n_values // 10)


def _quantiles(values: Floats, weights: Floats, n_quantiles: int) -> Floats:
    """Quantiles by weight: half of a value's weight lies below it; the smallest and largest value are the ends."""
    order = np.argsort(values, kind="stable")
    masses = weights[order]
    middles = (np.cumsum(masses) - masses / 2) / masses.sum()
    found: Floats = np.interp(np.linspace(0, 1, n_quantiles), middles, values[order])
    return found
