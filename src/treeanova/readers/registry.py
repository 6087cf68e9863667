"""The list of readers: `register_reader` adds to it, `find_reader` looks for the one that recognises a model.

Readers that users register come before those of the package, the latest first.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.effects import Effects
from treeanova.model.forest import Forest
from treeanova.readers.catalogue import in_words
from treeanova.readers.checks import one_line
from treeanova.readers.libraries import LIBRARIES, json_keys
from treeanova.readers.pipelines import is_pipeline, read_in_raw_columns, read_pipeline
from treeanova.readers.reader import Reader
from treeanova.readers.wrappers import is_wrapper
from treeanova.readers.wrappers import read as read_wrapper


@dataclasses.dataclass(frozen=True)
class RegisteredReader(Reader):
    """A reader of a user: errors name it, and what it returns is checked."""

    recognise: Callable[[Any], bool]
    read_model: Callable[[Any], Forest | Effects]

    @property
    def name(self) -> str:
        """The name of the function that reads, with that of its module."""
        read = self.read_model
        return f"{read.__module__}.{read.__qualname__}" if hasattr(read, "__qualname__") else repr(read)

    def recognises(self, model: Any) -> bool:
        """The answer of the user's function."""
        try:
            return bool(self.recognise(model))
        except Exception as error:
            error.add_note(f"raised by `recognises` of the registered reader {self.name}")
            raise

    def read(self, model: Any) -> Forest | Effects:
        """What the user's function returns, after checks."""
        try:
            content = self.read_model(model)
        except Exception as error:
            error.add_note(f"raised by the registered reader {self.name}")
            raise
        self._check(content)
        return content

    def _check(self, content: object) -> None:
        if not isinstance(content, (Forest, Effects)):
            raise TypeError(f"reader {self.name} must return a Forest or Effects, got {type(content).__qualname__}.")
        n_outputs = len(content.schema.outputs)
        if content.n_outputs != n_outputs:
            raise ValueError(
                f"reader {self.name} must return an intercept for each of {n_outputs} outputs, got {content.n_outputs}."
            )
        arrays = [content.values] if isinstance(content, Forest) else list(content.terms.values())
        for array in (content.intercept, *arrays):
            if not np.isfinite(array).all():
                raise ValueError(f"reader {self.name} must return finite values, got {array[~np.isfinite(array)][0]}.")


class PipelineReader(Reader):
    """Reads the final step of a scikit-learn Pipeline."""

    def recognises(self, model: Any) -> bool:
        """Whether a model is a Pipeline."""
        return is_pipeline(model)

    def read(self, model: Any) -> Forest | Effects:
        """The final step, by its own reader."""
        return read_pipeline(model, _read)

    def read_for_rows(self, model: Any, X: Any = None) -> Forest | Effects:
        """The final step as a function of the columns that enter the Pipeline."""
        return read_in_raw_columns(model, _read, X)


class WrapperReader(Reader):
    """Reads the models in a wrapper of scikit-learn as one."""

    def recognises(self, model: Any) -> bool:
        """Whether a model is a wrapper."""
        return is_wrapper(model)

    def read(self, model: Any) -> Forest | Effects:
        """The members, each by its own reader, brought together."""
        return self.read_for_rows(model)

    def read_for_rows(self, model: Any, X: Any = None) -> Forest | Effects:
        """The members, each as a function of the columns that enter it, brought together."""
        return read_wrapper(model, lambda member: find_reader(member).read_for_rows(member, X))


def _read(model: Any) -> Forest | Effects:
    """A model by its own reader."""
    return find_reader(model).read(model)


_registered: list[RegisteredReader] = []


def register_reader(recognises: Callable[[Any], bool], read: Callable[[Any], Forest | Effects]) -> Callable[[], None]:
    """Add a reader for models of another class; `read_model` and `decompose` then accept them.

    Registered readers are asked before those of the package, the latest first.

    Parameters
    ----------
    recognises
        Tells whether an object is a model for this reader. It is also asked about paths of existing files, as
        `pathlib.Path`, so that a reader may read a file format.
    read
        Takes such an object and returns a Forest (see `treeanova.model.forest.assemble`) or, if the model is additive,
        Effects. The score must be the model's raw prediction; values must be finite.

    Returns
    -------
    callable
        Call it without arguments to remove the reader.

    Raises
    ------
    TypeError
        If an argument is not callable; later, when a model is read, if `read` returns something else.

    Examples
    --------
    A model that predicts 1 up to a threshold and 3 above it:

    >>> import dataclasses, treeanova
    >>> from treeanova.model.forest import assemble
    >>> @dataclasses.dataclass
    ... class Stump:
    ...     threshold: float
    >>> def read_stump(stump):
    ...     return assemble(
    ...         treeanova.Schema((treeanova.Feature("age"),)),
    ...         intercept=0.0,
    ...         roots=[0],
    ...         feature=[0, -1, -1],
    ...         bound=[stump.threshold, 0, 0],
    ...         left=[1, -1, -1],
    ...         right=[2, -1, -1],
    ...         missing_left=[False, False, False],
    ...         values=[[0], [1], [3]],
    ...         leaf_label=[0, 1, 2],
    ...     )
    >>> remove = treeanova.register_reader(lambda model: isinstance(model, Stump), read_stump)
    >>> treeanova.read_model(Stump(40)).score([[40], [41]]).ravel().tolist()
    [1.0, 3.0]
    >>> fx = treeanova.decompose(Stump(40), [[30], [50]], density="empirical")
    >>> fx.intercept, fx.terms["age"].values.tolist()
    (2.0, [-1.0, 1.0])
    >>> remove()
    """
    for name, argument in (("recognises", recognises), ("read", read)):
        if not callable(argument):
            raise TypeError(f"`{name}` must be a function of a model, got {argument!r}.")
    reader = RegisteredReader(recognises, read)
    _registered.insert(0, reader)
    return functools.partial(_remove, reader)


def _remove(reader: RegisteredReader) -> None:
    if reader in _registered:
        _registered.remove(reader)


def find_reader(model: Any) -> Reader:
    """The first reader that recognises a model or a file; an error that lists what can be read if there is none."""
    readers = (*_registered, PipelineReader(), WrapperReader(), *LIBRARIES)
    reader = next((reader for reader in readers if reader.recognises(model)), None)
    if reader is not None:
        return reader
    if not isinstance(model, pathlib.Path):
        raise UnsupportedModelError(
            f"`model` must be one that treeanova reads, got {type(model).__qualname__}; it reads {in_words()}. "
            "register_reader() adds a reader for another class."
        )
    if model.suffix.lower() == ".json" and model.is_file():
        names = ", ".join(sorted(json_keys(model))[:5]) or "none"
        raise ModelFileError(
            one_line(f"{model} must be a JSON file of XGBoost or CatBoost, got names {names} at the top; file damaged?")
        )
    got = one_line(f"the folder {model}" if model.is_dir() else str(model))
    raise UnsupportedModelError(f"`model` must be a file that treeanova reads, got {got}; it reads {in_words()}.")
