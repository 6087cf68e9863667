"""Progress as it was reported, and whether it kept the rules."""

from __future__ import annotations


class Recorded:
    """Records what a function reports to `progress`, and raises AssertionError where a stage breaks a rule."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int]] = []

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Record a call."""
        self.calls.append((stage, done, total))

    @property
    def stages(self) -> list[str]:
        """Names of the stages, in turn; each of them began with 0 and ended with all steps before the next began."""
        names: list[str] = []
        under_way: tuple[str, int, int] | None = None
        for stage, done, total in self.calls:
            begins = under_way is None
            last = (stage, 0, total) if under_way is None else under_way
            if (stage, total) != (last[0], last[2]) or not last[1] <= done <= total or (begins and done > 0):
                raise AssertionError(f"{stage!r} reported {done} of {total} after {under_way}")
            names += [stage] if begins else []
            under_way = None if done == total else (stage, done, total)
        if under_way is not None:
            raise AssertionError(f"the last stage must end, got {under_way}")
        return names
