"""Results that an object remembers per instance and arguments; they are not part of its fields or pickles."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, Concatenate, ParamSpec, TypeVar

Owner = TypeVar("Owner")
P = ParamSpec("P")
T = TypeVar("T")
_ATTRIBUTE = "_memo"


class _Memo(dict[str, dict[Any, Any]]):
    """Remembered results by method name; copies and pickles are empty."""

    def __init__(self, owner: int = 0) -> None:
        super().__init__()
        self.owner = owner

    def __reduce__(self) -> tuple[Any, ...]:
        return _Memo, ()


def memo_of(instance: object, name: str) -> dict[Any, Any]:
    """Return the remembered results of one kind; a class with slots needs a slot named `_memo`."""
    memo = getattr(instance, _ATTRIBUTE, None)
    if memo is None or memo.owner != id(instance):  # `copy.copy` hands the memo of another instance on
        memo = _Memo(id(instance))
        object.__setattr__(instance, _ATTRIBUTE, memo)
    return memo.setdefault(name, {})


def memo(method: Callable[Concatenate[Owner, P], T]) -> Callable[Concatenate[Owner, P], T]:
    """Compute the result of a method once per instance and hashable arguments.

    Threads may compute a result twice, but all get the one that was stored first.

    >>> class Powers:
    ...     @memo
    ...     def of(self, base: int) -> list[int]:
    ...         print("computed")
    ...         return [base, base**2]
    >>> powers = Powers()
    >>> powers.of(3) is powers.of(3)
    computed
    True
    """
    name = method.__qualname__

    @functools.wraps(method)
    def remembered(self: Owner, /, *arguments: P.args, **options: P.kwargs) -> T:
        results: dict[Hashable, T] = memo_of(self, name)
        key = (arguments, *sorted(options.items())) if options else arguments
        try:
            return results[key]
        except KeyError:
            return results.setdefault(key, method(self, *arguments, **options))

    return remembered
