"""Readers: a trained model of any supported library, or its file, as a Forest or as Effects.

Each library has one module or sub-package with a function ``read(model)``, and ``read_file(path)`` if it has files.
None imports its library: if a model is in memory, its library is loaded already.
"""

from __future__ import annotations

import pathlib
from typing import Any

from treeanova.errors import UnsupportedModelError
from treeanova.model.effects import Effects
from treeanova.model.forest import Forest
from treeanova.readers.checks import damage_reported
from treeanova.readers.pipelines import final_step
from treeanova.readers.registry import is_model_path, read, register_reader, unpickled

__all__ = ["final_step", "read_for_rows", "read_model", "register_reader", "unpickled"]


def read_model(model: Any, *, trusted: bool = False) -> Forest | Effects:
    """Return the model as a Forest or as Effects, whose score equals the library's raw prediction for every input.

    For a scikit-learn Pipeline only the final step is read, with the feature names that the earlier steps give: score
    it on ``pipeline[:-1].transform(X)``, not on X. (`decompose` reads a Pipeline on the columns that enter it.)

    Parameters
    ----------
    model
        A fitted model of a supported library or of a class with a registered reader, or the path of a saved model. A
        Forest or Effects is returned unchanged.
    trusted
        Whether a pickle may be loaded: loading one runs any code that it contains.

    Returns
    -------
    Forest or Effects
        A Forest for tree ensembles; Effects for EBMs, which are additive already.

    Raises
    ------
    UnsupportedModelError
        If the model cannot be read exactly; the message gives the reason.
    ModelFileError
        If a file is damaged.
    FileNotFoundError
        If `model` is a path without a file.

    Examples
    --------
    >>> import numpy as np, treeanova
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[1.0], [2.0], [3.0]])
    >>> forest = treeanova.read_model(DecisionTreeRegressor(max_depth=1).fit(X, [0.0, 6.0, 6.0]))
    >>> forest.n_trees, forest.n_leaves
    (1, 2)
    >>> forest.score(X).ravel().tolist()
    [0.0, 6.0, 6.0]
    """
    path = pathlib.Path(model) if isinstance(model, (str, pathlib.Path)) else None
    model = unpickled(model, trusted=trusted)
    if isinstance(model, (Forest, Effects)):
        return model
    if isinstance(model, (str, pathlib.Path)):
        return read(_existing(pathlib.Path(model)))
    if path is None:
        return read(model)
    with damage_reported("a pickled model", path):
        return read(model)


def read_for_rows(model: Any, X: Any = None) -> Forest | Effects:
    """Read a model like `read_model`, but a Pipeline on the columns that enter it.

    With X, compare such a Pipeline at rows of X with its final step on transformed rows; UnsupportedModelError if they
    differ.
    """
    if isinstance(model, (Forest, Effects, str, pathlib.Path)):
        return read_model(model)
    return read(model, for_rows=True, X=X)


def _existing(path: pathlib.Path) -> pathlib.Path:
    if is_model_path(path):
        return path
    text = str(path)
    if "\n" in text or text.startswith("{"):
        raise UnsupportedModelError(
            f"`model` must be a fitted model or the path of a saved one, got a text ({text[:20]!r}…); write it to "
            "a file (.txt for LightGBM, .json for XGBoost and CatBoost) and pass the path."
        )
    raise FileNotFoundError(
        f"`model` must be a fitted model or the path of a saved one, no such file: {text[:200]!r}; check the path."
    )
