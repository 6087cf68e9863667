"""The errors and warnings that a caller may want to catch by name."""

from __future__ import annotations

__all__ = [
    "AliasWarning",
    "ArchiveError",
    "BudgetError",
    "DensityWarning",
    "ModelFileError",
    "NotPureError",
    "NotPureWarning",
    "ScoreWarning",
    "UnsupportedModelError",
]


class NotPureError(RuntimeError):
    """Raised with ``strict=True`` when purification did not reach its tolerance.

    Examples
    --------
    >>> import treeanova
    >>> weights = [[1, 0.001], [0.001, 1]]
    >>> try:
    ...     treeanova.purify([[0, 0], [0, 1]], weights, method="mass-moving", max_iterations=3, strict=True)
    ... except treeanova.errors.NotPureError:
    ...     print("three passes are not enough")
    three passes are not enough
    """


class NotPureWarning(UserWarning):
    """Given when purification did not reach its tolerance; the message names cause and remedy.

    Examples
    --------
    >>> import warnings, treeanova
    >>> weights = [[1, 0.001], [0.001, 1]]
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     pure = treeanova.purify([[0, 0], [0, 1]], weights, method="mass-moving", max_iterations=3)
    >>> caught[0].category is treeanova.errors.NotPureWarning, pure.certificate.is_pure
    (True, False)
    """


class DensityWarning(UserWarning):
    """Given when a density has all its weight in one cell, such as that of one row: every term is zero there.

    Examples
    --------
    >>> import warnings, treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     one = treeanova.decompose(fx.model, X[:1])
    >>> caught[0].category is treeanova.errors.DensityWarning, float(abs(one.explain(X[:1]).values).max())
    (True, 0.0)
    """


class ScoreWarning(UserWarning):
    """Given when a model's prediction does not follow from the decomposed score; the message says why.

    Examples
    --------
    >>> import warnings, treeanova
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", treeanova.errors.ScoreWarning)
    """


class AliasWarning(UserWarning):
    """Given when features determine each other in the rows, such as copies of a column; the message names them.

    Only the sum of their terms is then unique, if their bins divide the rows alike: data cannot tell which of them has
    the effect.

    Examples
    --------
    >>> import warnings, treeanova
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", treeanova.errors.AliasWarning)
    """


class UnsupportedModelError(ValueError):
    """Raised for a model that cannot be read exactly; the message gives the reason.

    Examples
    --------
    >>> import treeanova
    >>> try:
    ...     treeanova.read_model(["no", "model"])
    ... except treeanova.errors.UnsupportedModelError:
    ...     print("a list is no model")
    a list is no model
    """


class ModelFileError(ValueError):
    """Raised for a model file that is damaged, truncated, or not what its name says.

    Examples
    --------
    >>> import pathlib, tempfile, treeanova
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.json"
    >>> _ = path.write_text("{}")
    >>> try:
    ...     treeanova.read_model(path)
    ... except treeanova.errors.ModelFileError:
    ...     print("no model in this file")
    no model in this file
    """


class BudgetError(MemoryError):
    """Raised before any work when a plan needs more memory than the budget; the message names remedies.

    Examples
    --------
    >>> import treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> try:
    ...     treeanova.decompose(fx.model, X, budget=100)
    ... except treeanova.errors.BudgetError as error:
    ...     print(str(error).partition(";")[0])
    `budget` must be at least about 488 bytes for a model of 3 leaves on 2 features, got 100 bytes
    """


class ArchiveError(ValueError):
    """Raised for a file that is damaged, is not a saved decomposition, or was written by a newer version.

    Examples
    --------
    >>> import pathlib, tempfile, treeanova
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "fx.tav"
    >>> _ = path.write_bytes(b"something else")
    >>> try:
    ...     treeanova.load(path)
    ... except treeanova.errors.ArchiveError:
    ...     print("no decomposition in this file")
    no decomposition in this file
    """
