"""Statistics of the rows that define a density: all that a decomposition asks of its rows.

Nothing else reads the rows. A `Statistics` answers with counts of cells, means, ranges, quantiles and histograms of
values, and with rows themselves where an answer needs some.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Key
from treeanova.density.pooling import Binnings
from treeanova.model.binning import Binning
from treeanova.model.grid import Grid


class Points(NamedTuple):
    """Rows that represent a density.

    Attributes
    ----------
    codes
        Bins, shape (n_rows, n_features).
    weights
        Weights of the rows, of sum 1.
    """

    codes: BinIndices
    weights: Floats


class EncodedRows(NamedTuple):
    """Rows with their values.

    Attributes
    ----------
    values
        Encoded values, shape (n_rows, n_features).
    weights
        Weights of the rows, of sum 1.
    """

    values: Floats
    weights: Floats


class Statistics(abc.ABC):
    """Statistics of weighted rows on a grid.

    Weights of rows have sum 1; without weights all rows weigh the same. Features are given by position, cells by the
    bins of the grid or by coarser bins.

    Attributes
    ----------
    grid
        The bins.

    Examples
    --------
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> statistics = fx.density.statistics
    >>> statistics.n_rows, statistics.has_weights
    (4, False)
    """

    grid: Grid

    @property
    @abc.abstractmethod
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    @abc.abstractmethod
    def effective_rows(self) -> float:
        """Kish's effective number of rows, 1 / Σ w²."""

    @property
    @abc.abstractmethod
    def has_weights(self) -> bool:
        """Whether rows came with weights."""

    @abc.abstractmethod
    def counts(self, key: Key, binnings: Binnings | None = None) -> Floats:
        """Share of the rows in each cell of some features.

        Parameters
        ----------
        key
            Positions of the features.
        binnings
            One binning per feature, to count in its coarse bins; None for the bins of the grid.

        Returns
        -------
        numpy.ndarray
            One axis per feature, in the order of the key; of sum 1.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.density.statistics.counts((0, 1)).tolist()
        [[0.25, 0.25], [0.25, 0.25]]
        """

    @abc.abstractmethod
    def bin_means(self, j: int, binning: Binning | None = None) -> Floats:
        """Mean of the finite values in each bin of a feature.

        Parameters
        ----------
        j
            Position of the feature.
        binning
            A binning of its bins, for means in coarse bins.

        Returns
        -------
        numpy.ndarray
            One mean per bin, NaN where there are no finite values.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.density.statistics.bin_means(0).tolist()
        [0.0, 1.0]
        """

    @abc.abstractmethod
    def value_range(self, j: int) -> tuple[float, float] | None:
        """Smallest and largest finite value of a feature.

        Parameters
        ----------
        j
            Position of the feature.

        Returns
        -------
        tuple or None
            None where there are no finite values.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.density.statistics.value_range(0)
        (0.0, 1.0)
        """

    @abc.abstractmethod
    def quantiles(self, j: int, probabilities: Sequence[float]) -> Floats | None:
        """Quantiles of the finite values of a feature, weights ignored.

        Parameters
        ----------
        j
            Position of the feature.
        probabilities
            Shares of the values that lie below the quantiles, from 0 to 1.

        Returns
        -------
        numpy.ndarray or None
            None where there are no finite values.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.density.statistics.quantiles(0, [0.0, 0.5, 1.0]).tolist()
        [0.0, 0.5, 1.0]
        """

    @abc.abstractmethod
    def histogram(self, j: int, low: float, high: float, n_bins: int) -> Floats:
        """Share of the rows in each of some intervals of equal length.

        Parameters
        ----------
        j
            Position of the feature.
        low
            Lower end of the first interval.
        high
            Upper end of the last interval, which includes it.
        n_bins
            Number of intervals.

        Returns
        -------
        numpy.ndarray
            One share per interval.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.density.statistics.histogram(0, 0.0, 1.5, 3).tolist()
        [0.5, 0.0, 0.5]
        """

    @abc.abstractmethod
    def rows(self, n_rows: int) -> EncodedRows:
        """Rows at equal distances.

        Parameters
        ----------
        n_rows
            Number of rows wanted.

        Returns
        -------
        EncodedRows
            `n_rows` or more, fewer than twice as many; all rows where there are no more.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.density.statistics.rows(2).values.tolist()
        [[0.0, 0.0], [1.0, 0.0]]
        """

    @abc.abstractmethod
    def points(self) -> Points:
        """Bins and weights of all rows.

        Returns
        -------
        Points
            Bins of shape (n_rows, n_features), and weights of sum 1.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.density.statistics.points().codes.tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1]]
        """

    @abc.abstractmethod
    def on(self, grid: Grid) -> Statistics:
        """Statistics of the same rows on another grid.

        Parameters
        ----------
        grid
            Bins of the same features.

        Returns
        -------
        Statistics
            Statistics on that grid.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.density.statistics.on(fx.grid).n_rows
        4
        """

    @abc.abstractmethod
    def resampled(self, rng: np.random.Generator) -> Statistics:
        """Statistics of as many rows, drawn with replacement (bootstrap).

        Parameters
        ----------
        rng
            Generator of the draws.

        Returns
        -------
        Statistics
            Statistics of the rows drawn.

        Examples
        --------
        >>> import numpy as np
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.density.statistics.resampled(np.random.default_rng(0)).has_weights
        True
        """
