"""What "Try it" needs: the model in step form, the values that its controls offer, and what it leaves out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Ints, Names
from treeanova.data.features import Feature, IntegerCategory, is_missing
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.importance import Standing
from treeanova.decomposition.predictions import function_of
from treeanova.export.programs import model_for_script
from treeanova.model.axes import Axis
from treeanova.model.effects import Effects
from treeanova.model.step_form import Cuts, StepAxis, StepForm, unseen_label
from treeanova.report.tables import millionths, plain_intervals
from treeanova.views import percent

MOST_BYTES = 2_000_000  # of a page with a panel
_MOST_FEATURES = 2  # of a term in the panel, if some terms of the model have no table


def plain_panel(fx: Decomposition, rankings: Mapping[str, Sequence[Standing]]) -> dict[str, Any] | None:
    """Return the panel as plain data, or the reason why there is none; None for a model without terms."""
    effects, is_whole = _effects_of(fx)
    if not fx.terms:
        return None
    if not effects.terms:
        return {"reason": "No term has a table, so the page cannot compute scores; fx.explain(X) gives them at rows."}
    try:
        form = StepForm.of(effects)
        model = model_for_script(form, fx.schema)
    except (TypeError, ValueError) as error:
        return {"reason": f"The page cannot compute scores: {error}"}
    features = {feature.name: j for j, feature in enumerate(fx.schema.features)}
    controls = [_control(fx, features[axis.name], axis) for axis in form.axes]
    shown = {tuple(form.axes[i].name for i in term.key) for term in form.terms}
    return {
        "model": model,
        "controls": controls,
        "order": _by_strongest_term(form, rankings),
        "rest": None if is_whole else _shares_of_rest(shown, rankings),
        "n_unused": len(fx.schema.features) - len(form.axes),
    }


def too_large(n_bytes: int, panel: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page says instead of a panel with which it would have `n_bytes`."""
    n_coefficients = sum(len(term["codes"]) for term in panel["model"]["terms"])
    return {
        "reason": (
            f"The model has {n_coefficients:,} coefficients. With them the page would have {n_bytes / 1e6:.1f} MB, "
            f"more than {MOST_BYTES / 1e6:.0f} MB. treeanova.export.javascript(fx) writes it as a script of its own."
        )
    }


def _effects_of(fx: Decomposition) -> tuple[Effects, bool]:
    """Return the tables that the panel adds up, and whether they are the whole score."""
    function = function_of(fx)
    effects = function.effects
    is_whole = not (fx.has_remainder or function.unlisted_orders or function.terms.keys_at_rows)
    if is_whole:
        return effects, True
    low = {key: table for key, table in effects.terms.items() if len(key) <= _MOST_FEATURES}
    return dataclasses.replace(effects, terms=low), False


def _shares_of_rest(shown: Collection[Names], rankings: Mapping[str, Sequence[Standing]]) -> list[str]:
    """Return, per output, the share of the score's variance of all terms that are not shown."""
    return [
        percent(sum(standing.share for standing in ranking if standing.key not in shown))
        for ranking in rankings.values()
    ]


def _by_strongest_term(form: StepForm, rankings: Mapping[str, Sequence[Standing]]) -> list[int]:
    """Return the positions of columns, those in the terms with the largest variances first."""
    strongest = dict.fromkeys((axis.name for axis in form.axes), 0.0)
    for ranking in rankings.values():
        for standing in ranking:
            for name in standing.features:
                if name in strongest:
                    strongest[name] = max(strongest[name], standing.variance)
    return sorted(range(len(form.axes)), key=lambda i: -strongest[form.axes[i].name])


def _control(fx: Decomposition, j: int, column: StepAxis) -> dict[str, Any]:
    """Return a control: intervals between the true cuts or a list of values, their shares, and that of missing."""
    axis, feature = fx.grid.axes[j], fx.schema.features[j]
    statistics = fx.density.statistics
    shares = fx.density.table((j,)) if statistics is None else statistics.counts((j,))
    missing = float(shares[axis.missing_bin]) if axis.missing_bin >= axis.n_regular else 0.0
    if isinstance(column.reading, Cuts) and axis.is_ordered:
        offered = _intervals(axis, column.reading.cuts, shares)
    else:
        offered = _values(feature, axis, column, shares)
    start = {"start": int(np.argmax(offered["shares"])), "missing_share": millionths([missing])[0]}
    return {"feature": j, **offered, **start}


def _intervals(axis: Axis, cuts: Sequence[float], shares: Floats) -> dict[str, Any]:
    """Return the intervals between cuts in words, and their shares."""
    regular = axis.examples()[: axis.n_regular]
    interval_of_bin: Ints = np.searchsorted(cuts, regular)
    pooled: Floats = np.bincount(interval_of_bin, shares[: axis.n_regular], len(cuts) + 1).astype(np.float64)
    extra = np.full(axis.n_extra, len(cuts) + 1)
    return {**plain_intervals(axis, np.concatenate([interval_of_bin, extra])), "shares": millionths(pooled)}


def _values(feature: Feature, axis: Axis, column: StepAxis, shares: Floats) -> dict[str, Any]:
    """Return the values of a list in words and as the model reads them, and their shares; unseen ones come last."""
    encoder = feature.encoder
    labels: Sequence[Hashable] = encoder.labels if encoder.labels is not None else getattr(encoder, "names", ())
    values = encoder.code_values if isinstance(encoder, IntegerCategory) else labels
    unseen = max(encoder.code_values, default=0) + 7 if isinstance(encoder, IntegerCategory) else unseen_label(labels)
    takes = _takes(column)
    places = [place for place, value in enumerate(values) if not is_missing(value) and takes(value)]
    texts, offered = [str(labels[place]) for place in places], [values[place] for place in places]
    of_values = [float(shares[axis.index(np.array([float(place)]))[0]]) for place in places]
    if takes(unseen):
        texts, offered = [*texts, "unseen"], [*offered, unseen]
        of_values.append(float(shares[axis.unseen]) if axis.unseen >= axis.n_regular else 0.0)
    plain = [value.item() if isinstance(value, np.generic) else value for value in offered]
    return {"kind": "category", "texts": texts, "values": plain, "shares": millionths(of_values)}


def _takes(column: StepAxis) -> Callable[[Any], bool]:
    """Return whether a column takes a value."""
    reading = column.reading
    if isinstance(reading, Cuts):
        return lambda value: reading.code(value) is not None
    codes = dict(reading.codes)
    return lambda value: codes.get(value, reading.unseen) is not None
