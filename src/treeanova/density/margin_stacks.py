"""Stacks of margins: features with the same numbers of groups, whose kernels and scores have one more axis."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable

import numpy as np

from treeanova.core.arrays import Floats, Ints
from treeanova.density.copulas import Family
from treeanova.density.margins import KernelMatrix, Margin, Scale, kernels_of


def shape_of(margin: Margin) -> Hashable:
    """What margins must have in common to be stacked."""
    coarse = margin.coarse
    groups = len(margin.group_masses), margin.n_ordered_groups, margin.points.shape[1]
    return margin.binning.is_identity, *groups, len(coarse.group_masses), coarse.n_ordered_groups


@dataclasses.dataclass(frozen=True, eq=False)
class MarginStack:
    """Margins of the same shape."""

    margins: tuple[Margin, ...]

    @functools.cached_property
    def group_masses(self) -> Floats:
        """Mass of each group."""
        return np.stack([margin.group_masses for margin in self.margins])

    @functools.cached_property
    def coarse(self) -> MarginStack:
        """The groups as bins of margins with fewer groups and points."""
        return MarginStack(tuple(margin.coarse for margin in self.margins))

    @functools.cached_property
    def pooling(self) -> Floats:
        """Whether each bin (columns) is in each group (rows)."""
        return np.stack([np.equal.outer(np.arange(len(m.group_masses)), m.groups) for m in self.margins]).astype(float)

    @functools.cached_property
    def points(self) -> Floats:
        """Normal scores at equal steps within each ordered group: the first point of all groups, then the second."""
        return np.stack([margin.points.T.ravel() for margin in self.margins])

    @functools.cached_property
    def mean_points(self) -> Floats:
        """Mean of the points of each ordered group."""
        return np.stack([margin.points.mean(axis=1) for margin in self.margins])

    def copula_scores(self, law: Family, *, is_reversed: bool) -> Floats:
        """What a family needs of the ranks of the points, or of 1 minus these."""
        known = law.scores, is_reversed
        if known not in self._copula_scores:
            scores = [margin.copula_scores(law, is_reversed=is_reversed).T.ravel() for margin in self.margins]
            self._copula_scores[known] = np.stack(scores)
        return self._copula_scores[known]

    @functools.cached_property
    def _copula_scores(self) -> dict[Hashable, Floats]:
        return {}

    def kernels(self, bandwidth: float, scale: Scale) -> KernelMatrix:
        """The matrix A of a bandwidth for each margin."""
        if (bandwidth, scale) not in self._kernels:
            self._kernels[bandwidth, scale] = kernels_of(self.margins, bandwidth, scale)
        return self._kernels[bandwidth, scale]

    @functools.cached_property
    def _kernels(self) -> dict[tuple[float, Scale], KernelMatrix]:
        return {}


@dataclasses.dataclass(frozen=True, eq=False)
class StackedMargins:
    """Margins of a stack, one for each pair; the same margin may appear in many pairs."""

    stack: MarginStack
    places: Ints

    def take(self, places: Ints) -> StackedMargins:
        """The margins of some of the pairs."""
        return StackedMargins(self.stack, self.places[places])

    @property
    def n_rows(self) -> float:
        """Effective number of rows."""
        return self.stack.margins[0].n_rows

    @property
    def n_ordered_groups(self) -> int:
        """Number of groups of ordered bins."""
        return self.stack.margins[0].n_ordered_groups

    @property
    def has_unmerged_bins(self) -> bool:
        """Whether each group is one bin."""
        return self.stack.margins[0].binning.is_identity

    @property
    def coarse(self) -> StackedMargins:
        """The groups as bins of margins with fewer groups and points."""
        return StackedMargins(self.stack.coarse, self.places)

    @property
    def group_masses(self) -> Floats:
        """Mass of each group."""
        return self.stack.group_masses[self.places]

    @property
    def pooling(self) -> Floats:
        """Whether each bin (columns) is in each group (rows)."""
        return self.stack.pooling[self.places]

    @property
    def points(self) -> Floats:
        """Normal scores at equal steps within each ordered group: the first point of all groups, then the second."""
        return self.stack.points[self.places]

    @property
    def mean_points(self) -> Floats:
        """Mean of the points of each ordered group."""
        return self.stack.mean_points[self.places]

    def copula_scores(self, law: Family, *, is_reversed: bool) -> Floats:
        """What a family needs of the ranks of the points, or of 1 minus these."""
        return self.stack.copula_scores(law, is_reversed=is_reversed)[self.places]

    def kernels(self, bandwidth: float, scale: Scale) -> KernelMatrix:
        """The matrix A of a bandwidth for each pair."""
        return self.stack.kernels(bandwidth, scale)[self.places]
