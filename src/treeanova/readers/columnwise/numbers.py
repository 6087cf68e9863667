"""Where splits on transformed columns change along a raw column of numbers, by bisection over the floats."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.readers.columnwise.evaluation import Answer, Transformation
from treeanova.readers.columnwise.origins import RawColumn, refused

_LARGEST = int(np.array(np.inf).view(np.int64))
# Floats around a change at which to look for more changes: the nearest ones, and then ever wider.
_NEAR = np.unique(np.concatenate([np.arange(13), 2 ** np.arange(4, 25, 4)]))
_N_QUERIES = 1000  # about the number of floats of a column to ask for at once
_OFFSETS = np.unique(np.concatenate([-_NEAR, _NEAR + 1]))


def ranks(numbers: Floats) -> Ints:
    """Positions of floats among all floats, 0 for zero; neighbours differ by 1."""
    bits = np.abs(numbers).view(np.int64)
    return np.where(numbers < 0, -bits, bits)


def floats(positions: Ints) -> Floats:
    """The floats at positions that `ranks` gives."""
    return np.copysign(np.abs(positions).view(np.float64), positions)


@dataclasses.dataclass(frozen=True)
class Question:
    """Where along a raw column the side of a threshold changes.

    Attributes
    ----------
    output
        A column of the model.
    thresholds
        Of its splits, in float64.
    """

    output: int
    thresholds: Floats


@dataclasses.dataclass
class Changes:
    """Ranks x such that the sides at x and at the next float may differ, while they are searched for.

    `low` and `high` enclose each; `output` and `threshold` tell the side of what. A threshold of NaN asks for changes
    between numbers, missing values and refusals.
    """

    low: Ints
    high: Ints
    output: Ints
    threshold: Floats
    side: Ints

    def inner(self) -> Ints:
        """Ranks in between that divide each range evenly, shape (n_changes, n_ranks): the more, the fewer changes."""
        n_ranks = min(max(_N_QUERIES // len(self.low), 1), 31)
        # Ranges lie between neighbouring probes, so that the products are far below the largest integer.
        steps = (self.high - self.low)[:, None] * np.arange(1, n_ranks + 1) // (n_ranks + 1)
        inner: Ints = self.low[:, None] + steps
        return inner

    def narrow(self, inner: Ints, answer: Answer) -> None:
        """Keep the first part in which the side changes."""
        n_ranks = inner.shape[1]
        sides = _sides(answer, np.repeat(self.output, n_ranks), np.repeat(self.threshold, n_ranks))
        differs = sides.reshape(inner.shape) != self.side[:, None]
        first = np.where(differs.any(axis=1), differs.argmax(axis=1), n_ranks)
        path = np.column_stack([self.low, inner, self.high])
        rows = np.arange(len(path))
        self.low, self.high = path[rows, first], path[rows, first + 1]


_NONE = np.empty(0, dtype=np.int64)
_NO_CHANGES = Changes(_NONE, _NONE, _NONE, np.empty(0), _NONE)
_KIND = np.array([np.nan])  # the threshold that asks for changes between numbers, missing values and refusals


def _sides(answer: Answer, output: Ints, threshold: Floats) -> Ints:
    """1 for values up to the threshold, else 0; for a threshold of NaN 0 for numbers, 1 for missing, 2 for refused."""
    values = answer.values[np.arange(len(output)), output]
    kind = np.where(answer.refused, 2, np.isnan(values))
    sides: Ints = np.where(np.isnan(threshold), kind, values <= threshold)
    return sides


def breakpoints(
    transformation: Transformation, raw: Mapping[int, RawColumn], questions: Mapping[int, Sequence[Question]]
) -> dict[int, Floats]:
    """For each raw column, closed upper ends of the intervals on which no split changes its side.

    The last end is the largest number that the transformers accept, infinity where they accept it.
    """
    ends = {j: _ends(transformation, j) for j in questions}
    probes = {j: _probes(raw[j], ends[j]) for j in questions}
    # First where numbers become missing or are refused, so that sides are compared between numbers only.
    kinds = _changes(transformation, probes, {j: [Question(q.output, _KIND) for q in questions[j]] for j in questions})
    _bisect(transformation, kinds)
    probes = {j: np.unique(np.concatenate([probes[j], kinds[j].low, kinds[j].high])) for j in questions}
    sides = _changes(transformation, probes, questions, raw)
    _bisect(transformation, sides)
    sides = _nearby(transformation, sides, ends)
    _bisect(transformation, sides)
    found = {j: np.concatenate([kinds[j].low, sides[j].low, ends[j][1:]]) for j in questions}
    return {j: floats(np.unique(positions)) for j, positions in found.items()}


def _ends(transformation: Transformation, j: int) -> Ints:
    """Ranks of the smallest and the largest number: infinite where the transformers accept them."""
    answer = transformation.answers({j: np.array([-np.inf, np.inf])})[j]
    return np.array([-_LARGEST + answer.refused[0], _LARGEST - answer.refused[1]], dtype=np.int64)


def _changes(
    transformation: Transformation,
    probes: Mapping[int, Ints],
    questions: Mapping[int, Sequence[Question]],
    raw: Mapping[int, RawColumn] | None = None,
) -> dict[int, Changes]:
    """Changes between neighbouring probes; maps of the raw columns given must be monotone at the probes."""
    answers = transformation.answers({j: floats(probes[j]) for j in questions})
    for j in raw or ():
        for question in questions[j]:
            _check_monotone(answers[j], question.output, raw[j])  # type: ignore[index]
    return {j: _between_probes(probes[j], answers[j], asked) for j, asked in questions.items()}


def _probes(raw: RawColumn, ends: Ints) -> Ints:
    """Ranks of floats of all sizes, and of jumps with their neighbours."""
    spread = (np.linspace(-1, 1, 515)[1:-1] * _LARGEST).astype(np.int64)
    small = ranks(np.concatenate([[0.0, 5e-324, 1e-35], np.logspace(-12, 12, 97)]))
    jumps = ranks(np.array([number for number in raw.probes if np.isfinite(number)], dtype=np.float64))
    inner = np.concatenate([spread, small, -small, jumps - 1, jumps, jumps + 1])
    return np.unique(np.concatenate([ends, np.clip(inner, *ends)]))


def _check_monotone(answer: Answer, output: int, raw: RawColumn) -> None:
    """Raise UnsupportedModelError for a map that changes direction at the probes where it must not."""
    values = answer.values[~answer.refused, output]
    values = values[~np.isnan(values)]
    if raw.may_turn or (values[1:] >= values[:-1]).all() or (values[1:] <= values[:-1]).all():
        return
    raise refused("a function that is neither increasing nor decreasing")


def _between_probes(probes: Ints, answer: Answer, questions: Sequence[Question]) -> Changes:
    """All pairs of neighbouring probes with different sides."""
    parts = []
    for question in questions:
        output = np.full(len(probes), question.output)
        is_number = _sides(answer, output, np.full(len(probes), np.nan)) == 0
        for threshold in question.thresholds:
            sides = _sides(answer, output, np.full(len(probes), threshold))
            comparable = np.isnan(threshold) | (is_number[1:] & is_number[:-1])
            at = np.flatnonzero((sides[1:] != sides[:-1]) & comparable)
            parts.append(Changes(probes[at], probes[at + 1], output[at], np.full(len(at), threshold), sides[at]))
    return _joined([_NO_CHANGES, *parts])


def _joined(parts: Sequence[Changes]) -> Changes:
    names = [field.name for field in dataclasses.fields(Changes)]
    return Changes(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def _bisect(transformation: Transformation, changes: Mapping[int, Changes]) -> None:
    """Narrow all changes down to neighbouring floats."""
    while any((found.high - found.low > 1).any() for found in changes.values()):
        inner = {j: found.inner() for j, found in changes.items() if len(found.low)}
        answers = transformation.answers({j: floats(ranks_.ravel()) for j, ranks_ in inner.items()})
        for j, ranks_ in inner.items():
            changes[j].narrow(ranks_, answers[j])


def _nearby(
    transformation: Transformation, changes: Mapping[int, Changes], ends: Mapping[int, Ints]
) -> dict[int, Changes]:
    """Changes, and those between floats around them that rounding may have caused."""
    around = {j: np.clip(found.low[:, None] + _OFFSETS, *ends[j]) for j, found in changes.items() if len(found.low)}
    answers = transformation.answers({j: floats(window.ravel()) for j, window in around.items()})
    result = dict(changes)
    for j, window in around.items():
        found = changes[j]
        output, threshold = np.repeat(found.output, len(_OFFSETS)), np.repeat(found.threshold, len(_OFFSETS))
        sides = _sides(answers[j], output, threshold).reshape(window.shape)
        is_number = (_sides(answers[j], output, np.full(len(output), np.nan)) == 0).reshape(window.shape)
        differs = (sides[:, 1:] != sides[:, :-1]) & is_number[:, 1:] & is_number[:, :-1]
        row, at = np.nonzero(differs & (window[:, 1:] > window[:, :-1]))
        result[j] = Changes(
            window[row, at], window[row, at + 1], found.output[row], found.threshold[row], sides[row, at]
        )
    return result


def without_refused(left: Bools, is_refused: Bools) -> Bools:
    """Sides in which intervals that are refused follow a neighbour."""
    if not is_refused.any() or is_refused.all():
        return left
    accepted = np.flatnonzero(~is_refused)
    nearest = accepted[np.minimum(np.searchsorted(accepted, np.arange(len(is_refused))), len(accepted) - 1)]
    return left[..., nearest]
