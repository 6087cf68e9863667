"""Standard errors of terms that come from estimating the density from a sample of rows."""

from __future__ import annotations

import numpy as np

from treeanova.core.arrays import Floats, Key
from treeanova.core.progress import Progress, counted, one_step, quiet
from treeanova.decomposition.evaluation import Evaluation
from treeanova.density.kinds import Density
from treeanova.terms.additive import purify_tensors
from treeanova.terms.source import Settings


def standard_errors_of_tables(
    evaluation: Evaluation,
    density: Density,
    settings: Settings,
    n_resamples: int,
    rng: np.random.Generator,
    *,
    progress: Progress = quiet,
) -> dict[Key, Floats]:
    """Standard deviation of every value of every table over bootstrap resamples of the density's rows.

    Where m of n rows are known, resamples have m rows, and the deviation is multiplied by √(m / n).
    """
    statistics = density.statistics
    if statistics is None or not len(statistics.sample):
        raise ValueError("standard_errors() needs the rows of the density, got none; decompose with X.")
    if density.needs_data and len(statistics.points().weights) < 2:
        raise ValueError("standard_errors() needs at least two rows of the density, got one; decompose with more rows.")
    if evaluation.scope.is_part:
        raise ValueError(
            f"standard_errors() needs all terms, got {evaluation.scope}; call it before select() or drop()."
        )
    if n_resamples < 2:
        raise ValueError(f"`n_resamples` must be at least 2, got {n_resamples!r}; 50 is the default.")
    effects = evaluation.terms.tables.effects
    if not statistics.is_complete:
        density = density.settled
    totals = {key: np.zeros((2, *values.shape)) for key, values in effects.terms.items()}
    with one_step(progress, "tables before purification"):
        raw = evaluation.source.tables_to_purify(evaluation.terms)
    for _ in counted(progress, "bootstrap resamples", range(n_resamples), n_resamples):
        resampled = density.with_statistics(statistics.resampled(rng))
        tables = purify_tensors(raw, resampled, settings).terms.tables.effects
        for key, total in totals.items():
            change = tables.terms[key] - effects.terms[key]
            total += change, change**2
    factor = statistics.resampling_factor
    return {key: factor * _deviation(total, n_resamples) for key, total in totals.items()}


def _deviation(sums: Floats, n: int) -> Floats:
    """Standard deviation from the sums of n numbers and of their squares."""
    deviation: Floats = np.sqrt(np.maximum(sums[1] - sums[0] ** 2 / n, 0) / (n - 1))
    return deviation
