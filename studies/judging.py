"""Claims of the paper and the rules that judge them: what the page prints as criterion is what decides the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

Verdict = Literal["holds", "in part", "does not hold", "undecided"]
VERDICTS: tuple[Verdict, ...] = ("holds", "in part", "does not hold", "undecided")
ROUNDING = 1e-4  # limits below this allow for rounding; larger ones are judgements, whose flips are stated


class Bound(NamedTuple):
    """A limit that a number of a claim must keep."""

    name: str
    sign: Literal["<", ">", "="]
    limit: float

    def is_met(self, numbers: Mapping[str, float]) -> bool:
        """Whether the number keeps the limit."""
        value = numbers[self.name]
        return {"<": value < self.limit, ">": value > self.limit, "=": value == self.limit}[self.sign]

    def toggled(self, numbers: Mapping[str, float]) -> Self:
        """The same bound with a limit at the number itself, so that it is met if it was not, and not met if it was."""
        value = numbers[self.name]
        step = 1e-9 * max(abs(value), 1e-9)
        return self._replace(limit=value + (step if self.is_met(numbers) == (self.sign == ">") else -step))

    @property
    def is_judgement(self) -> bool:
        """Whether the limit was chosen, and does not only allow for rounding."""
        return self.sign != "=" and abs(self.limit) >= ROUNDING and not 0 < abs(self.limit - 1) < ROUNDING

    def __str__(self) -> str:
        return f"{self.name} {self.sign} {limit_text(self.limit)}"


class Flip(NamedTuple):
    """Where a verdict becomes another one."""

    bound: Bound
    """The bound whose number decides."""
    limit: float
    """The limit at which the verdict changes."""
    verdict: Verdict
    n_shared: int
    """Bounds that have this limit, which move together."""


def below(name: str, limit: float) -> Bound:
    """The number must be smaller than the limit."""
    return Bound(name, "<", limit)


def above(name: str, limit: float) -> Bound:
    """The number must be larger than the limit."""
    return Bound(name, ">", limit)


def equal(name: str, limit: float) -> Bound:
    """The number must be this one; for counts and numbers in rational arithmetic."""
    return Bound(name, "=", limit)


def limit_text(limit: float) -> str:
    """A limit as the page prints it."""
    if 0 < abs(limit - 1) < ROUNDING:
        text = f"1 {'+' if limit > 1 else '-'} {abs(limit - 1):.1g}"
    else:
        text = f"{limit:,.0f}" if abs(limit) >= 1_000 else f"{limit:g}"
    return text.replace("-", "−")


@dataclass(frozen=True)
class Rule:
    """The verdict that follows from numbers: the first case whose bounds are all met, else "does not hold".

    With `fails`, a claim does not hold only if these bounds are met, and is undecided otherwise. With `open_because`
    no number can decide it.
    """

    holds: tuple[Bound, ...] = ()
    partly: tuple[Bound, ...] = ()
    fails: tuple[Bound, ...] = ()
    open_because: str = ""

    def verdict(self, numbers: Mapping[str, float]) -> Verdict:
        """Judge numbers."""
        if self.open_because:
            return "undecided"
        if all(bound.is_met(numbers) for bound in self.holds):
            return "holds"
        if self.partly and all(bound.is_met(numbers) for bound in self.partly):
            return "in part"
        if self.fails and not all(bound.is_met(numbers) for bound in self.fails):
            return "undecided"
        return "does not hold"

    def flips(self, numbers: Mapping[str, float]) -> Iterator[Flip]:
        """Limits that are judgements and decide, each with the nearest value that does; equal ones move together."""
        for part in ("holds", "partly", "fails"):
            bounds: tuple[Bound, ...] = getattr(self, part)
            for sign, limit in dict.fromkeys((bound.sign, bound.limit) for bound in bounds if bound.is_judgement):
                shared = [bound for bound in bounds if (bound.sign, bound.limit) == (sign, limit)]
                for bound in sorted(shared, key=lambda bound: abs(numbers[bound.name] - bound.limit)):
                    end = bound.toggled(numbers).limit
                    moved = tuple(one._replace(limit=end) if one in shared else one for one in bounds)
                    other = Rule(**{**vars(self), part: moved}).verdict(numbers)
                    if other != self.verdict(numbers):
                        yield Flip(bound, end, other, len(shared))
                        break

    def __str__(self) -> str:
        if self.open_because:
            return f"undecided: {self.open_because}"
        parts = [f"holds if {_all(self.holds)}"]
        if self.partly:
            parts.append(f"in part if {_all(self.partly)}")
        parts.append(
            f"does not hold if {_all(self.fails)}; undecided otherwise" if self.fails else "does not hold otherwise"
        )
        return "; ".join(parts)


def _all(bounds: tuple[Bound, ...]) -> str:
    return " and ".join(map(str, bounds))


def holds_if(*bounds: Bound, partly: tuple[Bound, ...] = (), fails: tuple[Bound, ...] = ()) -> Rule:
    """A rule by the bounds under which a claim holds."""
    return Rule(bounds, partly, fails)


def undecided(because: str) -> Rule:
    """The rule of a claim that nothing we have can decide."""
    return Rule(open_because=because)


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper, judged as printed and as meant."""

    key: str
    """A short name of the claim, unique on the page."""
    where: str
    """Section, figure, table or theorem of the paper."""
    quote: str
    """The paper's own words."""
    sentence: str
    """What was found, in one plain sentence."""
    measured: str
    """What was computed: the numbers, by the names that the rules use."""
    numbers: Mapping[str, float]
    printed: Rule
    """The rule for the sentence, formula or algorithm by the letter."""
    meant: Rule | None = None
    """The rule for the reading that the context shows, or that repairs a misprint; None if it is the same."""
    reading: str = ""
    """That reading, in words."""
    found: str = ""
    """More than the numbers by name, where that helps."""
    stand_in: str = ""
    """Data that stand in for the paper's; empty where they are the paper's own."""

    @property
    def rules(self) -> tuple[Rule, Rule]:
        """As printed, as meant."""
        return self.printed, self.meant or self.printed

    @property
    def verdicts(self) -> tuple[Verdict, Verdict]:
        """As printed, as meant."""
        first, second = (rule.verdict(self.numbers) for rule in self.rules)
        return first, second
