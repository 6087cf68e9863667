"""Reader: one way to read models."""

from __future__ import annotations

import abc
from typing import Any

from treeanova.model.effects import Effects
from treeanova.model.forest import Forest


class Reader(abc.ABC):
    """Recognises some models, which may also be paths of existing files, and reads them."""

    @abc.abstractmethod
    def recognises(self, model: Any) -> bool:
        """Whether this reader is for a model."""

    @abc.abstractmethod
    def read(self, model: Any) -> Forest | Effects:
        """The model as a Forest or as Effects."""

    def read_for_rows(self, model: Any, X: Any = None) -> Forest | Effects:  # noqa: ARG002
        """The model as a function of the rows that its user has.

        The same as `read`, except for models that change these rows before their trees see them; those are checked at
        rows of X, if it is given.
        """
        return self.read(model)
