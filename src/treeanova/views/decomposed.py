"""What views read of a decomposition, which is defined in a room above this one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from treeanova.anova.certificate import Certificate
from treeanova.core.arrays import Names
from treeanova.data.features import Schema


class NamedDensity(Protocol):
    """A density, of which views read the name and a caveat."""

    @property
    def name(self) -> str:
        """Name to show, like "auto"."""

    @property
    def caveat(self) -> str:
        """What to know of the rows that define it, in a sentence; mostly empty."""


class ScopeLike(Protocol):
    """How much of the model the terms hold."""

    @property
    def is_part(self) -> bool:
        """Whether terms were selected, so that they do not add up to the model."""

    @property
    def n_terms_of_model(self) -> int | None:
        """Number of terms before a selection; None where there was none."""


class DecompositionLike(Protocol):
    """The part of `treeanova.Decomposition` that views read."""

    @property
    def schema(self) -> Schema:
        """Features, outputs and link of the model."""

    @property
    def terms(self) -> Mapping[Names, Any]:
        """All terms by the names of their features."""

    @property
    def certificate(self) -> Certificate:
        """Purity of the terms, and how well they add up to the model."""

    @property
    def density(self) -> NamedDensity:
        """The density under which terms are pure."""

    @property
    def scope(self) -> ScopeLike:
        """How much of the model the terms hold."""

    @property
    def has_remainder(self) -> bool:
        """Whether the model is more than the sum of the terms that are reported individually."""

    def importance(self, by: str = "term") -> Any:
        """Table of what each term does to the score, the strongest first."""
