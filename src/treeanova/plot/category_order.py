"""The order in which categories are drawn: by number, name, value or weight, or as given."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from treeanova.core.arrays import Floats, Ints

ORDERS = ("auto", "given", "name", "value", "weight")
_FIRST_NUMBER = re.compile(r"^\s*([<>≤≥]?)[\s=(\[$€£~]*(-?\d+(?:\.\d+)?)")
_DIRECTIONS = {"<": -np.inf, "≤": -np.inf, ">": np.inf, "≥": np.inf}


def category_order(labels: Sequence[str], order: str, weights: Floats, values: Floats | None) -> Ints:
    """Positions of categories in the order in which they are drawn.

    Parameters
    ----------
    labels, weights, values
        One per category; values only where categories may be sorted by them.
    order
        One of ORDERS; "auto" sorts by number where every label begins with one, else by value.
    """
    if order not in ORDERS:
        raise ValueError(
            f"`order` must be one of {', '.join(map(repr, ORDERS))}, got {order!r}; leave it out for 'auto'."
        )
    return np.argsort(_sort_keys(labels, order, weights, values), kind="stable")


def _sort_keys(labels: Sequence[str], order: str, weights: Floats, values: Floats | None) -> Floats:
    """A number per category: the lowest is drawn first."""
    as_given = np.arange(float(len(labels)))
    if order == "weight":
        return -weights
    if order == "given":
        return as_given
    if order == "name":
        return np.argsort(sorted(range(len(labels)), key=lambda i: (labels[i].casefold(), labels[i]))).astype(float)
    numbers = numbers_in(labels) if order == "auto" else None
    if numbers is not None:
        return numbers
    return as_given if values is None else -values


def numbers_in(labels: Sequence[str]) -> Floats | None:
    """The number that each label begins with ("10", "< 5", "20-29"); None unless all begin with one."""
    matches = [_FIRST_NUMBER.match(label) for label in labels]
    if not matches or not all(matches):
        return None
    numbers = ((match[1], float(match[2])) for match in matches if match)
    return np.array([np.nextafter(number, _DIRECTIONS.get(sign, number)) for sign, number in numbers])
