"""The descent over orders: terms are solved from the highest order down, and pass faces to the terms below."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from treeanova.core.arrays import Floats, Key

Result = TypeVar("Result")
Solve = Callable[[Key, Any], tuple[Result, Sequence[Floats]]]
"""Given a key and what it received (None for nothing): the result, and one face per feature of the key."""
Received = Callable[[Key], Any]
"""What a term received, None for nothing."""
SolveOrder = Callable[[Sequence[Key], Received], Iterable[tuple[Result, Sequence[Floats]]]]
"""Given the terms of one order and what each received: their results, and one face per feature, in the same order."""
Widen = Callable[[Key, Key, Floats], Floats]
"""Given the term above, the term below and a face of the term above: the face on the axes of the term below."""


def descend(
    keys: Iterable[Key], solve: SolveOrder[Result], received: dict[Key, Floats], *, widen: Widen | None = None
) -> Iterator[tuple[Key, Result]]:
    """Solve terms from the highest order down, adding the faces of each to what the terms below receive.

    Parameters
    ----------
    keys
        The terms to solve; those of one order are solved in the order given.
    solve
        Gives the results and faces of terms of one order: face i of a term goes to the term without its feature i.
        `in_turn` makes it from a function of one term.
    received
        What terms have at the start, changed in place. A term is removed when it is solved; what remains at the end was
        received by terms that are not among `keys`.
    widen
        Brings a face to the axes of the term that receives it; by default terms share their axes.

    Yields
    ------
    key, result
        Each term with its result, as soon as it is solved.
    """
    by_order: dict[int, list[Key]] = {}
    for key in keys:
        by_order.setdefault(len(key), []).append(key)
    for order in sorted(by_order, reverse=True):
        solved = solve(by_order[order], received.get)
        for key, (result, faces) in zip(by_order[order], solved, strict=True):
            received.pop(key, None)
            _pass_down(key, faces, received, widen)
            yield key, result


def in_turn(solve: Solve[Result], *, n_jobs: int = 1, is_large: Callable[[Key], bool]) -> SolveOrder[Result]:
    """Terms solved one after another, in `n_jobs` threads where one of them is large.

    Terms of one order are independent of each other. With small ones, threads wait for each other more than they gain.
    """

    def solve_order(keys: Sequence[Key], received: Received) -> Iterator[tuple[Result, Sequence[Floats]]]:
        """Results and faces of the terms of one order."""
        if n_jobs == 1 or not any(map(is_large, keys)):
            yield from (solve(key, received(key)) for key in keys)
            return
        with ThreadPoolExecutor(n_jobs) as pool:
            yield from pool.map(lambda key: solve(key, received(key)), keys)

    return solve_order


def keys_below(key: Key) -> list[Key]:
    """The terms that receive the faces of a term, one for each of its features.

    >>> keys_below((0, 2, 5))
    [(2, 5), (0, 5), (0, 2)]
    """
    return [key[:i] + key[i + 1 :] for i in range(len(key))]


def with_subsets(keys: Iterable[Key]) -> list[Key]:
    """Keys and all their non-empty subsets, highest order first, sorted within an order.

    >>> with_subsets([(0, 1), (2,)])
    [(0, 1), (0,), (1,), (2,)]
    """
    waiting, closed = set(keys), set[Key]()
    while waiting:
        closed |= waiting
        waiting = {below for key in waiting for below in keys_below(key) if below} - closed
    return sorted(closed - {()}, key=lambda key: (-len(key), key))


def _pass_down(key: Key, faces: Sequence[Floats], received: dict[Key, Floats], widen: Widen | None) -> None:
    for below, face in zip(keys_below(key), faces, strict=True):
        addend = face if widen is None or not below else widen(key, below, face)
        received[below] = received[below] + addend if below in received else addend
