"""Scope: how much of a model the terms of a decomposition hold."""

from __future__ import annotations

import abc
import dataclasses


class Scope(abc.ABC):
    """How much of a model the terms hold: all, the orders up to a limit, or a selection."""

    @property
    def is_part(self) -> bool:
        """Whether the terms were selected, so that they add up to another function than the model."""
        return False

    @property
    def leaves_rest(self) -> bool:
        """Whether the rest of the model is an exact remainder."""
        return False

    @property
    def n_terms_of_model(self) -> int | None:
        """Number of terms before a selection; None where there was none."""
        return None

    @property
    def history(self) -> tuple[str, ...]:
        """What was done to the terms by hand, the first edit first."""
        return ()

    @abc.abstractmethod
    def __str__(self) -> str: ...


@dataclasses.dataclass(frozen=True)
class Complete(Scope):
    """All terms of the model."""

    def __str__(self) -> str:
        return "all terms"


@dataclasses.dataclass(frozen=True)
class Truncated(Scope):
    """All terms up to an order; the others form one exact remainder.

    Attributes
    ----------
    order
        Highest order of the terms.
    """

    order: int

    @property
    def leaves_rest(self) -> bool:
        """True."""
        return True

    def __str__(self) -> str:
        return f"terms up to order {self.order}, and a remainder"


@dataclasses.dataclass(frozen=True)
class Selected(Scope):
    """A selection of terms: their sum is another function than the model.

    Attributes
    ----------
    n_terms
        Number of terms of the model, a remainder included.
    """

    n_terms: int

    @property
    def is_part(self) -> bool:
        """True."""
        return True

    @property
    def n_terms_of_model(self) -> int | None:
        """Number of terms before the selection."""
        return self.n_terms

    def __str__(self) -> str:
        return f"a selection from {self.n_terms} terms"


@dataclasses.dataclass(frozen=True)
class Edited(Scope):
    """Terms that were edited, such as scaled: their sum is another function than the model.

    Attributes
    ----------
    n_terms
        Number of terms of the model, a remainder included.
    edits
        What was done, the first edit first.
    """

    n_terms: int
    edits: tuple[str, ...]

    @property
    def is_part(self) -> bool:
        """True: the terms do not add up to the model."""
        return True

    @property
    def n_terms_of_model(self) -> int | None:
        """Number of terms before the edits."""
        return self.n_terms

    @property
    def history(self) -> tuple[str, ...]:
        """What was done."""
        return self.edits

    def __str__(self) -> str:
        return f"edited terms ({', '.join(self.edits)})"
