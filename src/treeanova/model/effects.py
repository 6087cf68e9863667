"""Effects: an additive model as one tensor per set of features, on a grid."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.special

from treeanova.anova.cascade import with_subsets
from treeanova.core.arrays import ROUNDING, BinIndices, Floats, Ints, Key
from treeanova.data.features import Feature, Labels, Schema
from treeanova.model.axes import Axis, CategoryAxis, IntervalAxis, of_feature
from treeanova.model.grid import Binning, Grid, binning_by, common_refinement, common_refinements, unmerged
from treeanova.model.rows import Rows

_LINKS = ("identity", "logit", "log")


@dataclasses.dataclass(frozen=True, eq=False)
class Effects:
    """An additive model: the score is the sum of intercept and terms.

    Attributes
    ----------
    grid
        The axes of all features.
    intercept
        Shape (n_outputs,).
    terms
        Sorted positions of the features -> tensor over the bins of their axes, with a last axis of outputs.
    binnings
        For terms on coarser axes: one `Binning` per feature of the term, from the feature's bins to the term's. Other
        terms have the bins of the grid; terms that were left out may be listed.

    Examples
    --------
    Two features with two bins each; the interaction is 1 where both are in their second bin:

    >>> import numpy as np, treeanova
    >>> axes = tuple(treeanova.model.IntervalAxis(name, -1, np.array([0.5])) for name in "ab")
    >>> schema = treeanova.model.Schema(tuple(treeanova.model.Feature(axis.name) for axis in axes))
    >>> pair = np.array([[0.0, 0.0], [0.0, 1.0]])[..., None]
    >>> effects = treeanova.model.Effects(treeanova.model.Grid(schema, axes), np.array([0.5]), {(0, 1): pair})
    >>> effects.score(np.array([[0, 1], [1, 1]])).ravel().tolist()
    [0.5, 1.5]
    """

    grid: Grid
    intercept: Floats
    terms: Mapping[Key, Floats]
    binnings: Mapping[Key, tuple[Binning, ...]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        merging = {key: axes for key, axes in self.binnings.items() if not all(axis.is_identity for axis in axes)}
        object.__setattr__(self, "binnings", MappingProxyType(merging))
        ordered = sorted(self.terms.items(), key=lambda item: (len(item[0]), item[0]))
        for key, values in ordered:
            expected = (*(binning.size for binning in self.binnings_of(key)), len(self.intercept))
            if values.shape != expected or list(key) != sorted(set(key)):
                raise ValueError(
                    f"term {key} must have shape {expected}, got {values.shape}; put it on the grid's axes."
                )
            values.setflags(write=False)
        object.__setattr__(self, "terms", MappingProxyType(dict(ordered)))

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy has no pickle of its own.
        return Effects, (self.grid, self.intercept, dict(self.terms), dict(self.binnings))

    @classmethod
    def from_tables(
        cls,
        tables: Mapping[str | tuple[str, ...], Any],
        *,
        intercept: float = 0.0,
        categories: Mapping[str, Sequence[Hashable]] | None = None,
        thresholds: Mapping[str, Sequence[float]] | None = None,
        link: str = "identity",
    ) -> Effects:
        """Return an additive model given by tables, to pass to `decompose`.

        A feature has the bins 0, 1, 2, … of whole numbers, unless its categories or thresholds are given. The model
        refuses values without a bin, also missing ones.

        Parameters
        ----------
        tables
            Name of a feature, or names of several, to an array with an axis per feature, in the order of the names.
            Each set of features may come once.
        intercept
            The constant of the model.
        categories
            Names of features to the labels of their bins, as they are in the data.
        thresholds
            Names of features to the upper ends of all intervals but the last, ascending; an interval contains its
            upper end.
        link
            How the sum of the tables becomes the response: "identity", "logit" or "log".

        Returns
        -------
        Effects
            Features are in the order in which the tables name them.

        Raises
        ------
        ValueError
            If tables do not agree on the number of bins of a feature, or hold numbers that are not finite.

        Examples
        --------
        >>> import treeanova
        >>> penetrance = {("snp1", "snp2"): [[0.0, 0.1], [0.1, 0.4]]}
        >>> categories = {"snp1": ["AA", "Aa"], "snp2": ["BB", "Bb"]}
        >>> effects = treeanova.model.Effects.from_tables(penetrance, categories=categories)
        >>> effects.score([["AA", "BB"], ["Aa", "Bb"]]).ravel().tolist()
        [0.0, 0.4]
        >>> treeanova.decompose(effects, density="uniform").terms["snp1", "snp2"].values.round(4).tolist()
        [[0.05, -0.05], [-0.05, 0.05]]
        """
        categories, thresholds = categories or {}, thresholds or {}
        if link not in _LINKS:
            raise ValueError(f"`link` must be one of {', '.join(map(repr, _LINKS))}, got {link!r}.")
        named = [((names,) if isinstance(names, str) else tuple(names), table) for names, table in tables.items()]
        features = tuple(dict.fromkeys(name for names, _ in named for name in names))
        unknown = [name for name in (*categories, *thresholds) if name not in features]
        if unknown:
            raise ValueError(f"`categories` and `thresholds` must be of features of the tables, got {unknown[0]!r}.")
        terms: dict[Key, Floats] = {}
        for names, table in named:
            key, values = _ordered_table(names, table, features)
            if key in terms:
                raise ValueError(f"`tables` must have each set of features once, got {names} twice; add them up.")
            terms[key] = values[..., None]
        sizes = {features[j]: values.shape[axis] for key, values in terms.items() for axis, j in enumerate(key)}
        for key, values in terms.items():
            names = tuple(features[j] for j in key)
            expected = tuple(sizes[name] for name in names)
            if values.shape[:-1] != expected:
                raise ValueError(
                    f"`tables` must give each feature as many bins as all others do, got {names} with shape "
                    f"{values.shape[:-1]} where {expected} was expected."
                )
        bins = [_bins_of_table(name, sizes[name], categories.get(name), thresholds.get(name)) for name in features]
        schema = Schema(tuple(feature for feature, _ in bins), link=link, named=True)
        return cls(Grid(schema, tuple(axis for _, axis in bins)), np.array([float(intercept)]), terms)

    @property
    def schema(self) -> Schema:
        return self.grid.schema

    @property
    def n_outputs(self) -> int:
        return len(self.intercept)

    def binnings_of(self, key: Key) -> tuple[Binning, ...]:  # from the bins of the grid to those of the term
        return self.binnings[key] if key in self.binnings else tuple(unmerged(self.grid.sizes[j]) for j in key)

    def axes_of(self, key: Key) -> tuple[Axis, ...]:  # the axes of the term, which may be coarser than the grid's
        axes = tuple(self.grid.axes[j] for j in key)
        if key not in self.binnings:
            return axes
        return tuple(binning.axis(axis) for binning, axis in zip(self.binnings[key], axes, strict=True))

    def score(self, X: Any) -> Floats:
        """Return the sum of intercept and terms at rows.

        Parameters
        ----------
        X
            Rows: numpy, pandas, polars, pyarrow or scipy.sparse; or `Rows`, encoded or in bins.

        Returns
        -------
        numpy.ndarray
            Shape (n_rows, n_outputs).

        Examples
        --------
        >>> import treeanova
        >>> effects = treeanova.model.Effects.from_tables({"a": [0.0, 1.0]}, intercept=0.5)
        >>> effects.score([[0], [1]]).ravel().tolist()
        [0.5, 1.5]
        """
        codes = Rows.of(X, self.schema).bins(self.grid)
        total = np.repeat(self.intercept[None], len(codes), axis=0)
        for key in self.terms:
            total += self.at(key, codes)
        return total

    def at(self, key: Key, codes: BinIndices) -> Floats:
        """Return a term at rows, shape (n_rows, n_outputs)."""
        bins: list[npt.NDArray[Any]] = [codes[:, j] for j in key]
        if key in self.binnings:
            bins = [binning.bins[fine] for fine, binning in zip(bins, self.binnings[key], strict=True)]
        return self.terms[key][tuple(bins)]

    def keep(self, is_kept: Callable[[Key], bool]) -> Effects:  # the intercept, and the terms whose key passes
        terms = {key: values for key, values in self.terms.items() if is_kept(key)}
        return Effects(self.grid, self.intercept, terms, self.binnings)

    def with_schema(self, schema: Schema) -> Effects:  # the same tables; names of axes and units of dates follow it
        axes = tuple(of_feature(axis, feature) for axis, feature in zip(self.grid.axes, schema.features, strict=True))
        return dataclasses.replace(self, grid=Grid(schema, axes))

    def thresholds_of(self, feature: int) -> Floats:
        return self.grid.axes[feature].thresholds

    def on_union(self, grid: Grid, old_bins: Sequence[Ints]) -> Effects:
        """Return the same model on a finer grid; `old_bins` has, per feature, the old bin of each new one."""
        binnings = {
            key: tuple(binning_by(binning.bins[old_bins[j]]) for j, binning in zip(key, coarse, strict=True))
            for key, coarse in self.binnings.items()
        }
        terms = {}
        for key, values in self.terms.items():
            bins = [old_bins[j] for j in key]
            if key in binnings:  # the term has bins of its own: those that some new bin lies in
                pairs = zip(self.binnings[key], bins, strict=True)
                bins = [np.unique(binning.bins[axis_bins]) for binning, axis_bins in pairs]
            terms[key] = take_bins(values, bins)
        return Effects(grid, self.intercept, terms, binnings)

    def on_binnings(self, key: Key, binnings: Sequence[Binning]) -> Floats:
        """Return the table of a term on the finer bins of `binnings`, one per feature."""
        pairs = zip(self.binnings_of(key), binnings, strict=True)
        return take_bins(self.terms[key], [coarse.within(fine) for coarse, fine in pairs])


def _ordered_table(names: tuple[str, ...], table: Any, features: Sequence[str]) -> tuple[Key, Floats]:
    """Return ascending positions of a table's features, and the table with its axes in that order, checked."""
    values = np.asarray(table, dtype=np.float64)
    if values.ndim != len(names) or len(set(names)) < len(names) or not names or not np.isfinite(values).all():
        raise ValueError(
            f"`tables` must give {names} an array of finite numbers with {len(names)} axes, one per feature, got shape "
            f"{values.shape}{'' if np.isfinite(values).all() else ' with other numbers'}."
        )
    order = sorted(range(len(names)), key=lambda i: features.index(names[i]))
    return tuple(features.index(names[i]) for i in order), values.transpose(order)


def _bins_of_table(
    name: str, size: int, labels: Sequence[Hashable] | None, thresholds: Sequence[float] | None
) -> tuple[Feature, Axis]:
    """Return a feature and its axis: categories by labels, or by whole numbers, or intervals between thresholds."""
    if labels is not None and thresholds is not None:
        raise ValueError(f"{name!r} must have `categories` or `thresholds`, got both; it is a category or a number.")
    if thresholds is None:
        categories = tuple(range(size) if labels is None else labels)
        if len(categories) != size or len(set(categories)) < size:
            raise ValueError(f"`categories` must give {name!r} {size} different labels, got {list(categories)!r}.")
        labelled = Feature(name, Labels(categories), accepts_missing=False, accepts_unseen=False)
        return labelled, CategoryAxis(name, -1, categories, -1)
    bounds = np.asarray(thresholds, dtype=np.float64)
    if bounds.shape != (size - 1,) or not (np.diff(bounds) > 0).all() or np.isnan(bounds).any():
        raise ValueError(f"`thresholds` must give {name!r} {size - 1} ascending numbers, got {list(thresholds)!r}.")
    return Feature(name, accepts_missing=False), IntervalAxis(name, -1, bounds)


def take_bins(values: Floats, bins: Sequence[Ints]) -> Floats:
    """Return a table at the given bins of each of its first axes."""
    for axis, axis_bins in enumerate(bins):  # in turn, which is faster than np.ix_
        values = values.take(axis_bins, axis=axis)
    return np.ascontiguousarray(values)


def weighted_sum(summands: Sequence[Effects], factors: Sequence[float]) -> Effects:
    """Return Σ factor × effects of models on one grid; terms that cancel up to rounding become zero."""
    grid = summands[0].grid
    intercept = np.sum([factor * summand.intercept for factor, summand in zip(factors, summands, strict=True)], axis=0)
    keys = dict.fromkeys(key for summand in summands for key in summand.terms)
    terms, binnings = {}, {}
    for key in keys:
        having = [(factor, summand) for factor, summand in zip(factors, summands, strict=True) if key in summand.terms]
        binnings[key] = common_refinements([summand.binnings_of(key) for _, summand in having])
        tensors = [factor * summand.on_binnings(key, binnings[key]) for factor, summand in having]
        magnitudes = np.sum([_largest(tensor) for tensor in tensors], axis=0)  # of what is added, per output
        terms[key] = _zero_if_rounding(np.sum(tensors, axis=0), ROUNDING * magnitudes)
    return Effects(grid, intercept, terms, binnings)


def without_rounding(effects: Effects, rounding: Floats) -> Effects:
    """Set terms to zero that are nowhere larger than rounding, shape (n_outputs,)."""
    terms = {key: _zero_if_rounding(tensor, rounding) for key, tensor in effects.terms.items()}
    return dataclasses.replace(effects, terms=terms)


def _zero_if_rounding(tensor: Floats, rounding: Floats) -> Floats:
    """Return a tensor with zeros for outputs in which it is nowhere larger than rounding, shape (n_outputs,)."""
    is_real = _largest(tensor) > rounding
    return tensor if is_real.all() else np.where(is_real, tensor, 0.0)


def _largest(tensor: Floats) -> Floats:  # absolute value, per output
    return np.abs(tensor).max(axis=tuple(range(tensor.ndim - 1)), initial=0.0)


def refined_axes(effects: Effects) -> dict[Key, tuple[Binning, ...]]:
    """Return, by key, the binnings on which terms and the terms of their subsets are purified; {} for the grid's."""
    # A term receives parts of the terms that contain it, so its axes are the common refinement of its axes and theirs.
    # Terms on the bins of the grid are not listed.
    if not effects.binnings.keys() & effects.terms.keys():
        return {}
    binnings: dict[Key, dict[int, list[Binning]]] = {}  # that each term must refine, by feature
    for key in sorted(effects.terms, key=len, reverse=True):
        for subset in with_subsets([key]):
            for j, binning in zip(key, effects.binnings_of(key), strict=True):
                if j in subset:
                    binnings.setdefault(subset, {}).setdefault(j, []).append(binning)
    return {key: tuple(common_refinement(by_feature[j]) for j in key) for key, by_feature in binnings.items()}


def respond(schema: Schema, score: Floats) -> Floats:
    """Return the response of a model to its score, (n_rows, n_outputs), by the inverse of its link."""
    if schema.link in {"identity", "probability"}:
        return score
    if schema.link == "log":
        return np.exp(score)
    if schema.link == "logit":
        return np.asarray(scipy.special.expit(score))
    if schema.link == "softmax":
        return np.asarray(scipy.special.softmax(score, axis=1))
    raise ValueError(
        f"the response of a model must follow from its score by a known link, got the link {schema.link!r}; use "
        "decision_function(), which gives the score."
    )


def class_probabilities(schema: Schema, score: Floats) -> Floats:
    """Return probabilities of all classes, (n_rows, n_classes); ValueError if the model is not a classifier."""
    if not is_classifier(schema) and schema.link not in {"argmax", "other"}:
        raise ValueError(
            f"predict_proba() must have a classifier, got a model with the link {schema.link!r}; use predict()."
        )
    response = respond(schema, score)  # which refuses classifiers without probabilities
    return np.hstack([1 - response, response]) if response.shape[1] == 1 else response


def declared_probabilities(schema: Schema, score: Floats) -> Floats:
    """Return probabilities of all classes that were declared for training, 0 for those that had no rows."""
    present = class_probabilities(schema, score)
    if not schema.declared_classes:
        return present
    declared = np.zeros((len(score), len(schema.declared_classes)))
    declared[:, [schema.declared_classes.index(label) for label in schema.classes]] = present
    return declared


def is_classifier(schema: Schema) -> bool:  # whether its scores give probabilities of classes
    return not schema.predicts_share and schema.link in {"logit", "softmax", "probability"}


def class_labels(schema: Schema, score: Floats) -> npt.NDArray[Any]:
    """Return the most probable class, numbered from 0 without labels; 0 or 1 per output of multi-label models."""
    # Of several with the same probability, it is the first. One output is the score of the second of two classes.
    if schema.link == "logit" and score.shape[1] > 1 and not schema.classes:  # multi-label: 0 or 1 per output
        return (score > 0).astype(np.int64)
    if schema.threshold != 0.5 and score.shape[1] == 1 and schema.link in {"logit", "probability"}:
        with np.errstate(divide="ignore"):
            border = -np.log(1 / np.float64(schema.threshold) - 1) if schema.link == "logit" else schema.threshold
        positions = (score[:, 0] > border).astype(np.int64)
    elif schema.link == "argmax":
        positions = score.argmax(axis=1) if score.shape[1] > 1 else (score[:, 0] > 0).astype(np.int64)
    else:
        positions = class_probabilities(schema, score).argmax(axis=1)
    labels = np.array(schema.classes) if schema.classes else np.arange(max(score.shape[1], 2))
    return np.asarray(labels[positions])
