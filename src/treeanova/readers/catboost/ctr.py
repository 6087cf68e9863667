"""CTRs: the number that CatBoost computes for a category from counts of the training data."""

from __future__ import annotations

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.readers.catboost.model import COUNTERS, CTR_KINDS, EMPTY_KEY, MEANS, Counts, Ctr, Singles

# A CTR table's key of category hash c is MULTIPLIER² · c modulo 2^64, with c sign-extended from 32 bits.
MULTIPLIER = 0x4906BA494954CB65
_INVERSE = pow(MULTIPLIER, -2, 1 << 64)


def counts_of(ctr: Ctr) -> Counts:
    """The counts of a CTR, whose table must be stored."""
    if ctr.counts is None:
        raise UnsupportedModelError(
            "`model` must have its CTR tables, got none, so that it cannot predict; train with "
            "final_ctr_computation_mode='Default'."
        )
    return ctr.counts


def category_hashes(counts: Counts) -> tuple[Ints, Bools]:
    """Hashes of the categories of a CTR table, and which of its rows a category can reach."""
    numbers = (counts.keys * np.uint64(_INVERSE)).astype(np.int64)
    return numbers & 0xFFFFFFFF, (counts.keys != EMPTY_KEY) & (numbers >= -(1 << 31)) & (numbers < 1 << 31)


def goes_right(ctr: Ctr, known: Ints) -> Bools:
    """Whether each known category, and last an unseen one, is above each border."""
    counts = counts_of(ctr)
    row_values, unseen_value = ctr_values(ctr, counts)
    hashes, is_reachable = category_hashes(counts)
    values = np.full(len(known) + 1, unseen_value)
    values[np.searchsorted(known, hashes[is_reachable])] = row_values[is_reachable]
    return values > ctr.borders[:, None]


def ctr_values(ctr: Ctr, counts: Counts) -> tuple[Singles, np.float32]:
    """The CTR's number for each row of counts, and for an unseen category, in float32 as CatBoost computes it."""
    good, total, unseen_total = _good_and_total(ctr, counts)
    goods, totals = np.append(good, 0.0).astype(np.float32), np.append(total, unseen_total).astype(np.float32)
    numerator, denominator, shift, scale = (np.float32(number) for number in (*ctr.prior, ctr.shift, ctr.scale))
    values: Singles = ((goods + numerator) / (totals + denominator) + shift) * scale
    return values[:-1], values[-1]


def _good_and_total(ctr: Ctr, counts: Counts) -> tuple[Floats, Floats, float]:
    """Numerator and denominator for each row of counts, and the denominator for an unseen category."""
    rows = counts.rows
    if ctr.kind in MEANS:
        return rows[:, 0], rows[:, 1], 0.0
    if ctr.kind in COUNTERS:
        return rows[:, 0], np.full(len(rows), counts.total), counts.total
    if ctr.kind in CTR_KINDS:
        return _classes_above(ctr, rows), rows.sum(axis=1), 0.0
    raise UnsupportedModelError(
        f"`model` must have CTRs of a known kind, got {ctr.kind!r}; train with simple_ctr=['Borders']."
    )


def _classes_above(ctr: Ctr, rows: Floats) -> Floats:
    """How many of a category's rows are in the classes that the CTR counts."""
    n_classes = rows.shape[1]
    if not 0 <= ctr.target_border < n_classes:
        raise ModelFileError(f"a CTR must count one of {n_classes} classes, got {ctr.target_border}; file damaged?")
    if ctr.kind == "Buckets":
        return rows[:, ctr.target_border]
    result: Floats = rows[:, 1 if n_classes <= 2 else ctr.target_border + 1 :].sum(axis=1)
    return result
