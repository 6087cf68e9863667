"""Decompositions from files."""

from __future__ import annotations

import os
import pathlib

from treeanova.decomposition.decomposition import Decomposition
from treeanova.errors import ArchiveError
from treeanova.storage import archive
from treeanova.storage.fields import Saved, unpack

_DAMAGE = (
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ImportError,
    ArithmeticError,
    MemoryError,
    RecursionError,
)


def load(path: str | os.PathLike[str]) -> Decomposition:
    """A decomposition from a file, with the statistics of its rows.

    Parameters
    ----------
    path
        A file written by `Decomposition.save`.

    Returns
    -------
    Decomposition
        The same intercept, terms, tables and certificate. Large tables that follow from trees or marginals are not in
        the file; they are the same up to rounding.

    Examples
    --------
    >>> import pathlib, tempfile, treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "fx.tav"
    >>> fx.save(path)
    >>> treeanova.load(path).intercept
    0.25
    """
    header, arrays = archive.read(path)
    try:
        fx = _decomposition(unpack(header, arrays))
    except _DAMAGE as error:
        name = pathlib.Path(path).name
        raise ArchiveError(f"{name} must be a whole file saved by treeanova, got one that does not fit.") from error
    return fx


def _decomposition(saved: Saved) -> Decomposition:
    """The decomposition of what a file holds; ValueError where moments are those of other terms."""
    source, terms, density, certificate, scope, settings, moments = saved
    fx = Decomposition(source, terms, density, certificate, scope, settings, saved_moments=moments)
    if moments is not None and len(moments.variance) != fx.evaluation.n_parts:
        raise ValueError(f"moments must be of {fx.evaluation.n_parts} terms, got {len(moments.variance)}")
    return fx
