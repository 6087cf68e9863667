"""The errors and warnings that a caller may want to catch by name."""

from __future__ import annotations


class NotPureError(RuntimeError):
    """Raised with ``strict=True`` when purification did not reach its tolerance."""


class NotPureWarning(UserWarning):
    """Given when purification did not reach its tolerance; the message names cause and remedy."""


class UnsupportedModelError(ValueError):
    """Raised for a model that cannot be read exactly; the message gives the reason."""


class ModelFileError(ValueError):
    """Raised for a model file that is damaged, truncated, or not what its name says."""


class BudgetError(MemoryError):
    """Raised before any work when a plan needs more memory than the budget; the message names remedies."""


class ArchiveError(ValueError):
    """Raised for a saved decomposition that is damaged, foreign, or of a newer schema."""
