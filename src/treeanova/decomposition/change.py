"""Change of the mean score between two models, two sets of rows, or both: which terms moved it, exactly.

Terms of both models are taken under the density of the old decomposition. With f the old terms, g the new ones, and
means over the old and over the new rows,

    mean_new(new score) - mean_old(old score) = Σ (mean_new f - mean_old f) + Σ (mean_new g - mean_new f),

the intercept being a term too. The first sum is the change of the population under the old model, the second that of
the model at the new rows. Under two densities each term would have mean zero at its own rows, and the intercepts alone
would differ.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from treeanova.core.arrays import Floats, Ints
from treeanova.core.progress import Progress, one_step, reporting, within
from treeanova.data.columns import free_name, printable
from treeanova.data.files import records
from treeanova.data.recoding import unlike_columns
from treeanova.decomposition.decomposition import Decomposition, purified_again
from treeanova.decomposition.function import Components, check_same_outputs, components_of, mean_components, per_output
from treeanova.decomposition.importance import contributions_table, largest_first
from treeanova.decomposition.predictions import backend_of_tables, function_of
from treeanova.decomposition.result import Result, contribution_lines, rows_of_output
from treeanova.density.statistics import NoRowsError, Statistics, statistics_of, text_of_weights
from treeanova.model.axes import Axis
from treeanova.model.grid import Grid, binning_by, common_classes, union
from treeanova.views import scale_of

INTERCEPT = "intercept"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Change(Result):
    """What moved the mean score: the contributions of population and model, by term; `print` it.

    Attributes
    ----------
    table
        Data frame with the columns term, population, model and total, and output if there are several. The first row is
        the intercept, then the largest contributions; unlisted terms are in the row of their order, and the remainder
        has a row. Rows add up to the attributes of the same name.
    population
        Change of the mean of the old score between the old rows and the new rows; a float, or an array of shape
        (n_outputs,).
    model
        Difference of the two models' mean scores over the new rows.
    total
        Change of the mean score, ``population + model``.
    old_mean, new_mean
        Mean of the old score over the old rows, and of the new score over the new rows.
    old, new
        Both models under the density of the old one.
    old_rows, new_rows
        Statistics of the old rows on the bins of `old`, and of the new rows on those of `new`.

    Examples
    --------
    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()  # the logical "and" of x0 and x1, on four rows
    >>> change = treeanova.change(fx, fx, X_new=X[2:])  # x0 is always 1 in the new rows
    >>> print(change)
    mean prediction 0.25 before, 0.5 after
    change +0.25: population +0.25, model +0
    <BLANKLINE>
    term       population  model  total
    intercept           0      0      0
    x0              +0.25      0  +0.25
    x1                  0      0      0
    x0 × x1             0      0      0
    """

    table: Any
    population: float | Floats
    model: float | Floats
    total: float | Floats
    old_mean: float | Floats
    new_mean: float | Floats
    old: Decomposition
    new: Decomposition
    old_rows: Statistics
    new_rows: Statistics

    def _content_of_dict(self) -> dict[str, Any]:
        sums = {name: getattr(self, name) for name in ("old_mean", "new_mean", "population", "model", "total")}
        table = records(self.table)
        return {"scale": scale_of(self.old.schema), "outputs": list(self.old.outputs), **sums, "table": table}

    def _text_of_top(self, top: int) -> str:
        columns = (self.old_mean, self.new_mean, self.total, self.population, self.model)
        table, blocks = records(self.table), []
        for k, output in enumerate(self.old.outputs):
            before, after, total, population, model = (float(np.atleast_1d(column)[k]) for column in columns)
            prefix = f"{output}: " if len(self.old.outputs) > 1 else ""
            head = printable(f"{prefix}mean {scale_of(self.old.schema)} {before:.4g} before, {after:.4g} after")
            sums = f"change {total:+.4g}: population {population:+.4g}, model {model:+.4g}"
            names = ("population", "model", "total")
            lines = contribution_lines(rows_of_output(table, output), names, top + 1, "total")
            blocks.append(f"{head}\n{sums}\n\n{lines}")
        return "\n\n".join(blocks)


def change(
    old: Decomposition,
    new: Decomposition,
    *,
    X_old: Any = None,
    X_new: Any = None,
    sample_weight_old: Any = None,
    sample_weight_new: Any = None,
    progress: bool | Progress | None = None,
) -> Change:
    """Explain what moved the mean score: changes of population and model, by term.

    Parameters
    ----------
    old, new
        Decompositions with the same features, outputs, classes and link: of two models, of one model under the rows of
        two periods, or both. If the models differ, `new` is purified again under the density of `old`.
    X_old, X_new
        The old and the new rows; by default those of each decomposition, with their weights. A decomposition from a
        file has their bins only, which do for one model; ValueError where rows are needed: if the other model divides
        these bins, or reads columns in a different way, or a term has no table and the file no rows.
    sample_weight_old, sample_weight_new
        Weights of `X_old` and `X_new`, or the names of the columns that hold them: rows that are passed count once
        without them, whatever the weights in the decompositions.
    progress
        True for a progress bar, or a function, as for `decompose`.

    Returns
    -------
    Change
        A table with a row per term, and the sums of its columns.

    Notes
    -----
    With rows of one period and two models, the terms of both have mean zero, or nearly so: the change is that of the
    intercept. If models differ, ``plot.change(change, "a")`` shows how an effect changed.

    Examples
    --------
    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()  # the logical "and" of x0 and x1, on four rows
    >>> change = treeanova.change(fx, fx, X_new=X[2:])  # x0 is always 1 in the new rows
    >>> change.total, change.population, change.model
    (0.25, 0.25, 0.0)
    """
    _check_same_features_and_outputs(old, new)
    with reporting(progress) as report:
        with one_step(report, "bins of the rows"):
            old_rows, rows_for_new = (_rows_of(old, reader, X_old, sample_weight_old, "old") for reader in (old, new))
            rows_for_old, new_rows = (_rows_of(new, reader, X_new, sample_weight_new, "new") for reader in (old, new))
        new_under_old, before, after = old, function_of(old), function_of(new)
        if after.source is not before.source or after.scope != before.scope:  # not the same model
            bound = old.density.bind(new.grid, rows_for_new)
            new_under_old = purified_again(new, bound, within(report, "new model under the old density"))
        return _change(old, new_under_old, old_rows, rows_for_old, new_rows)


def _rows_of(owner: Decomposition, reader: Decomposition, X: Any, sample_weight: Any, side: str) -> Statistics:
    """Return statistics of the given rows, or those of `owner`, as `reader` encodes and bins them."""
    argument = f"X_{side}"
    if X is not None:
        return statistics_of(X, reader.grid, sample_weight)
    if sample_weight is not None:
        raise ValueError(
            f"`sample_weight_{side}` must come with the rows that it weighs, got {text_of_weights(sample_weight)} and "
            f"{argument}=None; pass `{argument}` too."
        )
    statistics = owner.density.statistics
    if statistics is None:
        raise ValueError(
            f"`{argument}` must be given where a decomposition has no rows, as one from a file may, got None; pass the "
            "rows, and their weights if they have any."
        )
    places = range(len(reader.schema.features))
    unlike = unlike_columns(statistics.grid.schema, reader.schema, places)
    if unlike:
        raise ValueError(
            f"`{argument}` must be given where two models read columns in different ways, as "
            f"{', '.join(map(repr, unlike[:5]))}, got None; pass the rows, and their "
            "weights if they have any."
        )
    try:
        return statistics.read_by(reader.grid)
    except NoRowsError as error:
        raise ValueError(
            f"`{argument}` must be given where a file keeps bins of rows that the other model splits further, got "
            "None; pass the rows, and their weights if they have any."
        ) from error


def _check_same_features_and_outputs(old: Any, new: Any) -> None:
    """Raise TypeError or ValueError unless both are pure decompositions of models with the same columns and outputs."""
    for name, fx in {"old": old, "new": new}.items():
        if not isinstance(fx, Decomposition):
            kind = type(fx).__name__
            raise TypeError(f"`{name}` must be a Decomposition, got {kind}; make one with treeanova.decompose().")
        if fx.certificate.is_raw:
            raise ValueError(f"`{name}` must be pure, got a decomposition before purification; pass fx, not fx.raw.")
    if old.schema.names != new.schema.names:
        is_order = sorted(old.schema.names) == sorted(new.schema.names)
        remedy = " in the same order" if is_order else ", or rename them with `feature_names`"
        raise ValueError(
            f"`old` and `new` must have the same features in the same order, got {_unlike_names(old, new)}; train the "
            f"models on the same columns{remedy}."
        )
    check_same_outputs("`old` and `new`", (old.schema, new.schema))
    common_classes([old.schema, new.schema])


def _unlike_names(old: Decomposition, new: Decomposition) -> str:
    """Say, in an error, which features only one model has, or that their orders differ."""
    before, after = old.schema.names, new.schema.names
    missing = {"old": [j for j in before if j not in after], "new": [j for j in after if j not in before]}
    only = [f"{', '.join(map(repr, names[:5]))} in `{side}` only" for side, names in missing.items() if names]
    return " and ".join(only) or f"the orders {', '.join(before)} and {', '.join(after)}"


def _change(
    old: Decomposition, new: Decomposition, old_rows: Statistics, rows_for_old: Statistics, new_rows: Statistics
) -> Change:
    """Return the change from old to new model and rows; `rows_for_old` are the new rows as the old model reads them."""
    components = components_of(function_of(old), function_of(new))
    before, old_at_new_rows = (_mean_contributions(old, rows, components) for rows in (old_rows, rows_for_old))
    after = old_at_new_rows if new is old else _mean_contributions(new, new_rows, components)
    population, model = old_at_new_rows - before, after - old_at_new_rows
    totals = [population.sum(axis=0), model.sum(axis=0), before.sum(axis=0), after.sum(axis=0)]
    of_population, of_model, old_mean, new_mean, total = map(per_output, (*totals, totals[0] + totals[1]))
    labels = components.labels(old.schema.names)
    sizes = np.abs(population[1:]) + np.abs(model[1:])
    table = contributions_table(
        {"term": [free_name(INTERCEPT, labels), *labels]},
        old.outputs,
        {"population": population, "model": model, "total": population + model},
        [[0, *(1 + i for i in largest_first(column))] for column in sizes.T],
        backend_of_tables(old),
    )
    return Change(table, of_population, of_model, total, old_mean, new_mean, old, new, old_rows, new_rows)


def _mean_contributions(fx: Decomposition, rows: Statistics, components: Components) -> Floats:
    """Return the intercept, then means of all components, shape (1 + n_components, n_outputs)."""
    function = function_of(fx)
    return np.concatenate([function.terms.intercept[None], mean_components(function, rows, components)])


class EffectSide(NamedTuple):
    """A main effect of one model, and the distribution of its rows."""

    axis: Axis  # of numbers the model's own, of categories that of both models
    values: Floats  # outputs last; zero if the model has no such term
    rows_axis: Axis  # of both models
    shares: Floats  # of the rows


def effect_sides(change: Change, name: str) -> tuple[EffectSide, EffectSide]:
    """Return a feature's main effect before and after; raise ValueError if the models have different categories."""
    j = change.old.schema.names.index(name)
    models, rows = (change.old, change.new), (change.old_rows, change.new_rows)
    grids, tables, binnings = zip(*(_main_effect(fx, j) for fx in models), strict=True)
    common, maps = union(grids)  # maps: per grid, the bin of its only axis for each bin of the common one
    [rows_axis], sides = common.axes, []
    for i, (effect_bins,) in enumerate(maps):
        [axis], values = grids[i].axes, tables[i]
        if not axis.is_ordered:
            axis, values = rows_axis, values[effect_bins]
        shares = _shares_of_rows(models[i], j, rows_axis, rows[i], (effect_bins, binnings[i]))
        sides.append(EffectSide(axis, values, rows_axis, shares))
    return sides[0], sides[1]


def _main_effect(fx: Decomposition, j: int) -> tuple[Grid, Floats, Ints]:
    """Return a grid of one feature with the bins of its main effect, its values, and its bin per bin of the model."""
    # Without a main effect, the bins are those of the model, and the values are zero.
    effects, axis = function_of(fx).effects, fx.grid.axes[j]
    values, bins = np.zeros((axis.size, effects.n_outputs)), np.arange(axis.size)
    if (j,) in effects.terms:
        [axis], [binning], values = effects.axes_of((j,)), effects.binnings_of((j,)), effects.terms[j,]
        bins = binning.bins
    return Grid(dataclasses.replace(fx.schema, features=(fx.schema.features[j],)), (axis,)), values, bins


def _shares_of_rows(fx: Decomposition, j: int, axis: Axis, statistics: Statistics, maps: tuple[Ints, Ints]) -> Floats:
    """Return the share of rows, those of one model, in each bin of an axis that has the bins of both models."""
    # `maps` are the main effect's bin per bin of the axis, and per bin of the model. If the models number categories
    # differently, bins that only the other model distinguishes stay with the first.
    labels = fx.schema.features[j].encoder.labels
    if axis.is_ordered or labels == getattr(axis, "categories", None):
        axes = (*fx.grid.axes[:j], axis, *fx.grid.axes[j + 1 :])
        return statistics.on(Grid(fx.schema, axes)).counts((j,))
    counts, (effect_bins, bins_of_model) = statistics.on(fx.grid).counts((j,)), maps
    is_first = np.zeros(len(effect_bins))
    is_first[np.unique(effect_bins, return_index=True)[1]] = 1.0
    return np.asarray(binning_by(bins_of_model).pool(counts)[effect_bins] * is_first)
