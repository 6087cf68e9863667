"""Array types and keys that all rooms share, numbers of cells, labels of terms, remembered results."""

from __future__ import annotations

import bisect
import functools
import itertools
import math
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from numbers import Integral
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
BinIndices = npt.NDArray[np.int32]
"""Bins of rows, shape (n_rows, n_features) or (n_rows,)."""
Arrays = dict[str, npt.NDArray[Any]]
"""Arrays by name, as in a file."""
Projections = list[Floats]
"""What is taken out of a tensor: per axis a function of all other axes, one number per slice along the axis."""
Key = tuple[int, ...]
"""Sorted positions of the features of a term."""
Names = tuple[str, ...]
"""Names of the features of a term, in the order of the data."""
ROUNDING = 16 * float(np.finfo(np.float64).eps)
"""Rounding of a sum, relative to the sizes of what is added."""
SEPARATOR = " × "
_LONGEST_WORD = 12
# Results that an object remembers per instance and arguments; they are not part of its fields or pickles.
Owner = TypeVar("Owner")
P = ParamSpec("P")
T = TypeVar("T")
_ATTRIBUTE = "_memo"


def checked_whole(name: str, number: Any, least: int, remedy: str) -> int:  # raises an error that names the argument
    if isinstance(number, bool) or not isinstance(number, Integral) or number < least:
        raise ValueError(f"`{name}` must be a whole number from {least} on, got {number!r}; {remedy}.")
    return int(number)


def checked_seed(number: Any) -> int:
    return checked_whole("random_state", number, 0, "0 is the default")


def check_unmasked(name: str, values: Any) -> None:
    """Raise ValueError if the argument is an array with masked entries, whose mask numpy would forget."""
    n_masked = int(np.ma.getmaskarray(values).sum()) if isinstance(values, np.ma.MaskedArray) else 0
    if n_masked:
        raise ValueError(f"`{name}` must have no masked values, got {n_masked} of {values.size}; leave these rows out.")


def number_cells(columns: Iterable[npt.NDArray[np.integer]], sizes: Sequence[int], n_rows: int) -> Ints:
    """Return the cell number of each row from its bins, a column per axis of a table; the last axis runs fastest."""
    cells = np.zeros(n_rows, dtype=np.int64)
    for axis, (bins, size) in enumerate(zip(columns, sizes, strict=True)):  # in place, for many rows
        if axis:
            cells *= size
            cells += bins
        else:
            cells[:] = bins
    return cells


def count_cells(
    columns: Iterable[npt.NDArray[np.integer]], sizes: Sequence[int], weights: Floats | None, n_rows: int
) -> Floats:
    """Return a table with the sum of rows' weights in each cell, or their number; `columns` are bins, one per axis."""
    cells = number_cells(columns, sizes, n_rows)
    totals = np.bincount(cells, weights=weights, minlength=math.prod(sizes))
    return totals.astype(np.float64).reshape(sizes)


def label_of(names: Iterable[object]) -> str:
    """Return the label of a term, such as 'Latitude × Longitude'."""
    return SEPARATOR.join(map(str, names))


def labels_of(terms: Iterable[Sequence[str]], names: Iterable[str]) -> list[str]:
    """Return labels of terms, no two alike; names of features that read like an interaction of others are quoted.

    >>> labels_of([("a",), ("a × b",), ("a", "b")], ["a", "b", "a × b"])
    ['a', '"a × b"', 'a × b']
    """
    shown = {name: quoted(name) for name in _to_be_quoted(list(names))}
    return [label_of(shown.get(name, name) for name in term) for term in terms]


def quoted(name: str) -> str:
    """Return a name in quotes, with quotes in it doubled as in CSV."""
    return '"' + name.replace('"', '""') + '"'


def _to_be_quoted(names: Sequence[str]) -> list[str]:
    """Return those of all names that must be quoted in labels, because they could be read as an interaction."""
    # They start with another name and continue like a third starts: if two sequences of names give the same label, the
    # first names that differ are such a pair. If there are any, names that begin with a quote are quoted too.
    starts = {start for name in names for start in _starts(name)}
    all_names = set(names)

    def is_ambiguous(name: str) -> bool:  # another name, a separator, and what a third name starts with
        endings = (name.removeprefix(start + SEPARATOR) for start in _starts(name)[:-1] if start in all_names)
        return any(ending in starts or not all_names.isdisjoint(_starts(ending)) for ending in endings)

    ambiguous = [name for name in names if SEPARATOR in name and is_ambiguous(name)]
    return [*ambiguous, *(name for name in names if name.startswith('"') and ambiguous and name not in ambiguous)]


def _starts(name: str) -> list[str]:  # a name up to each of its separators, and the whole
    return list(itertools.accumulate(name.split(SEPARATOR), lambda start, word: f"{start}{SEPARATOR}{word}"))


def split_label(text: str) -> tuple[str, ...]:
    """Return the names in a label such as "a × b", whose separator may be typed as the letter x."""
    return tuple(text.split(SEPARATOR if SEPARATOR in text else " x "))


def shortened(text: object, n_characters: int) -> str:
    """Leave out the middle of a text that is too long, as in 'abcdef…nop'."""
    words = " ".join(str(text).split())
    if len(words) <= n_characters:
        return words
    tail = (n_characters - 1) // 3
    return f"{words[: n_characters - 1 - tail].rstrip()}…{words[-tail:].lstrip()}"


def distinct(labels: Sequence[str], n_characters: int, shorten: Callable[[object, int], str] = shortened) -> list[str]:
    """Shorten labels; labels with the same start lose the part that they share.

    >>> distinct(["customer_value_net_in_eur", "customer_value_gross_in_eur"], 15)
    ['customer_v…net…', 'customer…gross…']
    """
    ordered = sorted(set(labels))
    return [_where_it_differs(label, ordered, n_characters) or shorten(label, n_characters) for label in labels]


def _where_it_differs(label: str, ordered: Sequence[str], n_characters: int) -> str:
    """Return a label without the start and end that it shares with similar ones; empty if its start is unique."""
    # `ordered` are all labels, sorted: the neighbours of a label share the longest start with it.
    place = bisect.bisect_left(ordered, label)
    neighbours = [*ordered[max(place - 1, 0) : place], *ordered[place + 1 : place + 2]]
    start = max((_n_shared([label, other]) for other in neighbours), default=0)
    if len(label) <= n_characters or start < len(shortened(label, n_characters).partition("…")[0]):
        return ""
    start -= _n_of_word(label[:start][::-1])  # reversed: the word in which the shared start ends is shown whole
    group = [other for other in ordered if other.startswith(label[:start])]
    end = min(_n_shared([other[::-1] for other in group]), min(map(len, group)) - start)  # reversed: the shared end
    distinctive = label[start : len(label) - end + _n_of_word(label[len(label) - end :])]
    n_shown = min(start, max(0, n_characters - 2 - len(distinctive)))
    return shortened(f"{label[:n_shown].rstrip()}…{distinctive}{'…' if end else ''}", n_characters)


def _n_of_word(text: str) -> int:
    """Return the length of the word that the text starts in, so that words are shown whole; 0 for a very long word."""
    length = len(next(iter(re.findall(r"^[^\W_]*", text))))
    return length if length <= _LONGEST_WORD else 0


def _n_shared(texts: Sequence[str]) -> int:  # characters at the start that all texts share
    return sum(1 for _ in itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False)))


class _Memo(dict[str, dict[Any, Any]]):
    """Remembered results by method name; copies and pickles are empty."""

    def __init__(self, owner: int = 0) -> None:
        super().__init__()
        self.owner = owner

    def __reduce__(self) -> tuple[Any, ...]:
        return _Memo, ()


def memo_of(instance: object, name: str) -> dict[Any, Any]:
    """Return the remembered results of one kind, a dict to fill; a class with slots needs a slot named `_memo`."""
    memo = getattr(instance, _ATTRIBUTE, None)
    if memo is None or memo.owner != id(instance):  # `copy.copy` hands the memo of another instance on
        memo = _Memo(id(instance))
        object.__setattr__(instance, _ATTRIBUTE, memo)
    return memo.setdefault(name, {})


def memo(method: Callable[Concatenate[Owner, P], T]) -> Callable[Concatenate[Owner, P], T]:
    """Compute the result of a method once per instance and hashable arguments."""
    # Threads may compute a result twice, but all get the one that was stored first.
    name = method.__qualname__

    @functools.wraps(method)
    def remembered(self: Owner, /, *arguments: P.args, **options: P.kwargs) -> T:
        """Return the method's result for these arguments, computed once per object."""
        results: dict[Hashable, T] = memo_of(self, name)
        key = (arguments, *sorted(options.items())) if options else arguments
        try:
            return results[key]
        except KeyError:
            return results.setdefault(key, method(self, *arguments, **options))

    return remembered
