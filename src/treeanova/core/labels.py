"""The label of a term: the names of its features with a multiplication sign between them."""

from __future__ import annotations

from collections.abc import Iterable

SEPARATOR = " × "


def label_of(names: Iterable[object]) -> str:
    """The label of a term, for people to read.

    >>> label_of(["Latitude", "Longitude"])
    'Latitude × Longitude'
    """
    return SEPARATOR.join(map(str, names))


def split_label(text: str) -> tuple[str, ...]:
    """Names of features from a label, which may also be typed with the letter x.

    >>> split_label("a × b") == split_label("a x b") == ("a", "b")
    True
    """
    return tuple(text.split(SEPARATOR if SEPARATOR in text else " x "))
