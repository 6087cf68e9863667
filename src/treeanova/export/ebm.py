"""Export to InterpretML: a decomposition whose terms all have tables as an EBM."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Ints, Key
from treeanova.data.features import Feature, IgnoredColumn, Schema
from treeanova.decomposition.answers import table_weights_of
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.predictions import function_of
from treeanova.export.artifact import form_of
from treeanova.export.verification import verify_ebm
from treeanova.model.axes import Axis
from treeanova.model.effects import Effects
from treeanova.model.grid import Binning, common_refinement
from treeanova.model.step_form import Cuts, LabelCodes, axis_of_bins
from treeanova.readers import final_step

Levels = dict[int, Binning]  # bins of a feature by order of its terms
_LINKS = {"identity": "identity", "log": "log", "logit": "logit", "softmax": "mlogit", "probability": "identity"}
_ERROR = 1e-10  # the largest difference of a result, relative to the largest score
_OBJECTIVES = {"gamma": "gamma_deviance", "poisson": "poisson_deviance", "tweedie": "tweedie_deviance"}


def ebm(fx: Decomposition) -> Any:
    """Return an EBM of InterpretML with the terms of a decomposition; it predicts what `fx` predicts.

    The new model has the decomposition's bins (one level for each order), terms and weights, so interpret's plots show
    the pure effects. It has one bag: what interpret keeps per bag (error bars, `predict_with_uncertainty`) is lost. If
    an EBM was decomposed in this session, the new model has its options, and the source is not changed.

    Interpret compares categories as text, and dates must be numbers. Where the decomposed model refuses a value, such
    as a missing one, the terms of that column are 0, as those of an EBM are for text where it expects numbers.

    Parameters
    ----------
    fx
        A decomposition whose terms all have tables: of a shallow model or an EBM, or selected or simplified.

    Returns
    -------
    ExplainableBoostingRegressor or ExplainableBoostingClassifier
        A classifier if the score is log-odds, or a score per class; else a regressor. That of probabilities, as of a
        random forest, predicts the probability.

    Raises
    ------
    ValueError
        If part of the score has no table, or an EBM cannot predict the same.
    ImportError
        If interpret is not installed.

    Examples
    --------
    The main effects of the new model have mean zero under the data:

    >>> import numpy as np, treeanova
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = X[:, 0] + X[:, 0] * X[:, 1]
    >>> source = GradientBoostingRegressor(max_depth=2, n_estimators=20).fit(X, y)
    >>> pure = treeanova.export.ebm(treeanova.decompose(source, X, density="empirical"))
    >>> bool(np.allclose(pure.predict(X), source.predict(X)))
    True
    >>> bool(np.allclose(pure.eval_terms(X)[:, :2].mean(axis=0), 0))
    True
    """
    if not form_of(fx).axes:
        raise ValueError("`fx` must have a term to be an EBM, got its intercept alone; write it as Python or SQL.")
    effects = function_of(fx).effects
    model, columns = _model_to_fill(fx), _columns(fx, effects)
    model.bins_ = [column.bins or old for column, old in zip(columns, model.bins_, strict=True)]
    binnings = {key: tuple(columns[j].levels[len(key)] for j in key) for key in effects.terms}
    model.term_features_ = list(binnings)
    model.term_names_ = [" & ".join(str(model.feature_names_in_[j]) for j in key) for key in binnings]
    total = _total_weight(fx, model)
    stored = [[columns[j].stored[len(key)] for j in key] for key in binnings]
    pairs = list(zip(binnings.items(), stored, strict=True))
    model.term_scores_ = [_scores_to_store(effects, item, places) for item, places in pairs]
    model.bin_weights_ = [total * _weights_to_store(fx, item, places) for item, places in pairs]
    _set_one_bag(model, effects.intercept)
    proof = verify_ebm(fx, model)
    if not proof.largest_difference <= _ERROR:
        raise ValueError(
            f"`fx` must have columns that interpret reads as the model does, got predictions that differ by "
            f"{proof.largest_difference:.1e}; write it as Python, SQL or ONNX."
        )
    return model


def _model_to_fill(fx: Decomposition) -> Any:
    """Return a copy of the EBM that was decomposed in this session, or a new EBM of the features of `fx`."""
    source = final_step(fx.model)
    if hasattr(source, "term_scores_") and len(source.bins_) == len(fx.schema.features):
        return copy.deepcopy(source)
    schema = fx.schema
    model = _new_estimator(schema)
    is_text = [
        feature.encoder.labels is not None and not hasattr(feature.encoder, "codes") for feature in schema.features
    ]
    invented = tuple(f"feature_{j:04}" for j in range(len(is_text)))  # interpret's names of columns without names
    model.feature_names_in_ = list(schema.names if schema.named or schema.given else invented)
    model.feature_types_in_ = ["nominal" if text else "continuous" for text in is_text]
    model.n_features_in_ = len(is_text)
    model.bins_ = [[{}] if text else [np.empty(0)] for text in is_text]
    model.feature_bounds_ = np.full((len(is_text), 2), np.nan)
    model.histogram_edges_ = model.histogram_weights_ = [None] * len(is_text)
    model.link_, model.link_param_ = _LINKS[schema.link], np.nan
    model.bin_weights_ = []
    model.has_fitted_ = True
    return model


def _new_estimator(schema: Schema) -> Any:
    """Return an EBM that is not fitted; ValueError if none has the response of this score."""
    has_one_output, classes = len(schema.outputs) == 1, schema.classes
    reason = ""
    if schema.link not in _LINKS or (has_one_output == (schema.link == "softmax")):
        reason = f"a score of {len(schema.outputs)} outputs with link {schema.link!r}"
    elif schema.link == "logit" and (schema.predicts_share or schema.threshold != 0.5):
        reason = "a share" if schema.predicts_share else f"the threshold {schema.threshold:g} of the second class"
    if reason:
        raise ValueError(f"`fx` must have a score that EBMs have, got {reason}; write it as Python, SQL or ONNX.")
    try:
        glassbox = importlib.import_module("interpret.glassbox")
    except ImportError as error:
        raise ImportError("EBMs need interpret-core, which is not installed; pip install interpret-core.") from error
    if schema.link in {"logit", "softmax"}:
        model = glassbox.ExplainableBoostingClassifier()
        model.classes_ = np.array(classes or range(max(len(schema.outputs), 2)))
        model.intercept_ = np.zeros(len(schema.outputs))
        return model
    name, _, power = schema.objective.partition(":")
    objective = _OBJECTIVES.get(name, "poisson_deviance" if schema.link == "log" else "rmse")
    model = glassbox.ExplainableBoostingRegressor(
        objective=f"{objective}:variance_power={power}" if power and name == "tweedie" else objective
    )
    model.intercept_ = 0.0
    return model


def _total_weight(fx: Decomposition, model: Any) -> float:
    """Return the weight of all rows, by which the density's masses are multiplied."""
    if model.bin_weights_:
        return float(np.sum(model.bin_weights_[0])) or 1.0
    return float(fx.statistics.n_rows if fx.statistics is not None else 0) or 1.0


def _set_one_bag(model: Any, intercept: Floats) -> None:
    """Set the attributes of an EBM about its bags as if it had one, with the intercept and no deviations."""
    model.intercept_ = float(intercept[0]) if isinstance(model.intercept_, float) else intercept.copy()
    model.bag_weights_ = np.ones(1)
    model.bagged_scores_ = [scores[None] for scores in model.term_scores_]
    model.bagged_intercept_ = np.array([intercept[0]]) if len(intercept) == 1 else intercept[None].copy()
    model.standard_deviations_ = [np.zeros_like(scores) for scores in model.term_scores_]


def _levels_of_feature(effects: Effects, j: int) -> Levels:
    """Return for each order from 1 on the bins of a feature that all terms of this order share."""
    # An order without terms gets the bins of the next higher one, which interpret does not use.
    by_order: dict[int, list[Binning]] = {}
    for key in effects.terms:
        if j in key:
            by_order.setdefault(len(key), []).append(effects.binnings_of(key)[key.index(j)])
    levels: Levels = {}
    for order in range(max(by_order, default=0), 0, -1):
        levels[order] = common_refinement(by_order[order]) if order in by_order else levels[order + 1]
    return dict(sorted(levels.items()))


@dataclasses.dataclass(frozen=True)
class _Column:
    """What an EBM stores of a feature: `bins_`, and by order the bin at each position of its tensors, -1 for none."""

    bins: list[Any]
    levels: Levels
    stored: dict[int, Ints]


def _columns(fx: Decomposition, effects: Effects) -> list[_Column]:
    """Return what the EBM stores of each feature."""
    levels = [_levels_of_feature(effects, j) for j in range(len(fx.schema.features))]
    triples = zip(fx.schema.features, effects.grid.axes, levels, strict=True)
    return [_column(feature, axis, binnings) for feature, axis, binnings in triples]


def _column(feature: Feature, axis: Axis, levels: Levels) -> _Column:
    """Return the bins of a feature, missing values first, and last what interpret cannot read or has not seen."""
    if not levels or isinstance(feature.encoder, IgnoredColumn):
        return _Column([], levels, {})
    reading = axis_of_bins(feature, axis).reading
    if isinstance(reading, LabelCodes):
        bins = [axis.missing_bin, *_bins_of_labels(reading.codes, axis.missing_bin), _bin_or_minus_one(reading.unseen)]
        stored = {order: _merged(bins, binning) for order, binning in levels.items()}
        texts = _texts(feature, [label for label, _ in reading.codes])
        return _Column([{text: place for place, text in enumerate(texts, start=1)}], levels, stored)
    cuts, of_intervals = _with_missing_numbers(reading, axis.missing_bin)
    cut_levels, stored = [], {}
    for order, binning in levels.items():
        intervals = _merged(of_intervals, binning)
        is_cut = intervals[1:] != intervals[:-1]
        cut_levels.append(np.ascontiguousarray(np.nextafter(cuts[is_cut], np.inf)))
        missing = _merged([axis.missing_bin], binning)
        stored[order] = np.concatenate([missing, intervals[np.append(True, is_cut)], [-1]])
    return _Column(cut_levels, levels, stored)


def _bin_or_minus_one(code: int | None) -> int:
    """Return the bin of a code, -1 for none."""
    return -1 if code is None else code


def _bins_of_labels(pairs: Sequence[tuple[Hashable, int | None]], missing_bin: int) -> list[int]:
    """Return the bins of labels; those that mean missing have the bin of missing values."""
    return [missing_bin if code is None else code for _, code in pairs]


def _merged(bins: Sequence[int], binning: Binning) -> Ints:
    """Return merged bins; -1, for none, stays."""
    places = np.array(bins, dtype=np.int64)
    return np.where(places < 0, -1, binning.bins[places])


def _with_missing_numbers(reading: Cuts, missing_bin: int) -> tuple[Floats, list[int]]:
    """Return the upper ends of intervals and their bins, with intervals of the numbers that mean missing."""
    ends = [end for low, high in reading.missing for end in (math.nextafter(low, -math.inf), high)]
    cuts = np.unique(np.array([*reading.cuts, *ends]))
    uppers = np.append(cuts, np.inf)
    is_missing = [any(low <= upper <= high for low, high in reading.missing) for upper in uppers]
    bins = [
        missing_bin if absent else _bin_or_minus_one(reading.code(upper))
        for upper, absent in zip(uppers, is_missing, strict=True)
    ]
    return cuts, bins


def _texts(feature: Feature, labels: Sequence[Hashable]) -> list[str]:
    """Return labels as interpret spells them; ValueError if it would read another label or none."""
    texts = [repr(label + 0.0).removesuffix(".0") if isinstance(label, float) else str(label) for label in labels]
    for label, text in zip(labels, texts, strict=True):
        is_read = isinstance(label, (str, int, float)) and not isinstance(label, bool)
        if not is_read or texts.count(text) > 1 or text.endswith("\0") or label != label:  # noqa: PLR0124  NaN
            raise ValueError(
                f"categories of {feature.name!r} must be texts or numbers that differ as texts for an EBM, got "
                f"{label!r}; rename them."
            )
    return texts


def _counts_once(bins: Ints, axis: Axis) -> Ints:
    """Return the position at which the weight of each bin counts: one of values, else of missing or unseen ones."""
    regular = np.arange(1, len(bins) - 1)
    has_own = axis.missing_bin >= axis.n_regular
    order = np.concatenate([[0], regular, [len(bins) - 1]] if has_own else [regular, [0, len(bins) - 1]])
    with_bin = order[bins[order] >= 0]
    return with_bin[np.unique(bins[with_bin], return_index=True)[1]]


def _scores_to_store(effects: Effects, term: tuple[Key, tuple[Binning, ...]], places: Sequence[Ints]) -> Floats:
    """Return a term as an EBM stores it; zero where the model refuses values."""
    scores = effects.on_binnings(*term)[np.ix_(*places)]
    for axis, bins in enumerate(places):
        scores[(slice(None),) * axis + (bins < 0,)] = 0.0
    return scores[..., 0] if effects.n_outputs == 1 else scores


def _weights_to_store(fx: Decomposition, term: tuple[Key, tuple[Binning, ...]], places: Sequence[Ints]) -> Floats:
    """Return the density's weights of a term's cells as an EBM stores them."""
    key, binnings = term
    effects = function_of(fx).effects
    is_same = all(map(Binning.equals, effects.binnings_of(key), binnings))
    table = table_weights_of(fx)[key] if is_same else fx.density.table(key, binnings)
    axes = [binning.axis(effects.grid.axes[j]) for j, binning in zip(key, binnings, strict=True)]
    counted = [_counts_once(bins, axis) for bins, axis in zip(places, axes, strict=True)]
    weights = np.zeros([len(bins) for bins in places])
    weights[np.ix_(*counted)] = table[np.ix_(*(bins[at] for bins, at in zip(places, counted, strict=True)))]
    return weights
