"""Step form: a model of tables as a short sum of coefficients times indicators, exactly; the form behind every export.

A column's value has a code. Codes of numbers count the cuts below the value; codes of categories number groups of
categories that the model treats alike. An indicator says that a code is at least k (ordered columns) or is k (all
others, and missing values). In this basis the tables of boosted trees are sparse: a pair has about as many coefficients
as the trees have splits on it, not as many as it has cells. Code 0 has no indicator: it is the base of its column.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Ints, Key, label_of
from treeanova.data.dates import DateNumber
from treeanova.data.features import Feature, IntegerCategory, Numeric, is_missing
from treeanova.model.axes import Axis
from treeanova.model.effects import Effects
from treeanova.model.forest import bound_below, bound_up_to

MISSING = -1  # the code of missing values that the model treats like no other value of an ordered column
_ROUNDING = 1e-14  # coefficients below this share of the largest table are rounding
_ERROR = 1e-13  # by which tables from coefficients may differ, as a share of the largest table
_UNSEEN_TEXT = "\ufffftreeanova: a label that no model knows"


def unseen_label(labels: Sequence[Hashable]) -> Hashable:
    """Return a label that is none of these, of their kind: a text, or a number."""
    numbers = [label for label in labels if isinstance(label, (int, float)) and not is_missing(label)]
    return max(numbers) + 7 if numbers and not any(isinstance(label, str) for label in labels) else _UNSEEN_TEXT


@dataclasses.dataclass(frozen=True)
class Cuts:
    """The code of a number: that of the interval between cuts in which it lies; an interval contains its upper end.

    Attributes
    ----------
    cuts
        Ascending float64 numbers.
    codes
        The code of each interval, one more than there are cuts; None if the model refuses these numbers.
    missing
        Closed intervals of numbers that mean missing, such as -999 to -999.

    Examples
    --------
    >>> Cuts((0.5,), (0, 1)).code(0.5), Cuts((0.5,), (0, 1)).code(0.6)
    (0, 1)
    """

    cuts: tuple[float, ...]
    codes: tuple[int | None, ...]
    missing: tuple[tuple[float, float], ...] = ()

    def code(self, value: float) -> int | None:
        """Return the code of a number that is not missing; None if the model refuses it."""
        return self.codes[int(np.searchsorted(self.cuts, value))]

    @property
    def examples(self) -> tuple[float, ...]:
        """Numbers at all cuts and next to them on both sides, infinities, and numbers that mean missing."""
        cuts = np.array(self.cuts, dtype=np.float64)
        near = np.concatenate([cuts, np.nextafter(cuts, np.inf), np.nextafter(cuts, -np.inf), [-np.inf, np.inf, 0.0]])
        return (*near.tolist(), *itertools.chain.from_iterable(self.missing))


@dataclasses.dataclass(frozen=True)
class LabelCodes:
    """The code of a category, by its label.

    Attributes
    ----------
    codes
        Pairs of a label (text, number, boolean or None) and its code; None as code means missing.
    unseen
        The code of all other labels; None if the model refuses them.

    Examples
    --------
    >>> LabelCodes((("S", 0), ("L", 1)), unseen=None).code("L")
    1
    """

    codes: tuple[tuple[Hashable, int | None], ...]
    unseen: int | None

    def code(self, value: Hashable) -> int | None:
        """Return the code of a label that is not missing; None if the model refuses it."""
        return dict(self.codes).get(value, self.unseen)

    @property
    def examples(self) -> tuple[Hashable, ...]:
        """All labels, and an unseen one if the model takes it."""
        labels = tuple(label for label, _ in self.codes)
        is_text = all(isinstance(label, str) for label in labels)
        return (*labels, _UNSEEN_TEXT) if self.unseen is not None and is_text else labels


@dataclasses.dataclass(frozen=True)
class StepAxis:
    """A column: how its values become codes, and whether indicators compare codes or test them.

    Attributes
    ----------
    name
        Name of the column.
    reading
        `Cuts` of a number, or `LabelCodes` of a category.
    is_ordered
        Whether the indicator of a positive code k is "code ≥ k", else "code = k"; that of `MISSING` is "code = -1".
    n_codes
        Number of codes 0, 1, 2, ….
    missing
        The code of missing values; None if the model refuses them.
    date_unit
        The unit of time that the numbers count, if the column holds dates as numbers; else empty.
    """

    name: str
    reading: Cuts | LabelCodes
    is_ordered: bool
    n_codes: int
    missing: int | None
    date_unit: str = ""

    @property
    def codes(self) -> tuple[int, ...]:
        """All codes, in the order of the axes of `StepForm.table`: 0, 1, 2, …, then that of missing values."""
        return (*range(self.n_codes), MISSING) if self.missing == MISSING else tuple(range(self.n_codes))

    @property
    def may_refuse(self) -> bool:
        """Whether the model refuses some values: missing, unseen, or in an interval without a code."""
        codes = self.reading.codes if isinstance(self.reading, Cuts) else (self.reading.unseen,)
        return self.missing is None or None in codes

    def code(self, value: Any) -> int:
        """Return the code of a plain value; ValueError if the model refuses it."""
        code_of_label = dict(self.reading.codes) if isinstance(self.reading, LabelCodes) else {}
        is_absent = is_missing(value) and not (value is None and None in code_of_label)  # None may be a category
        code = self.missing if is_absent or self._means_missing(value) else self.reading.code(value)
        if code is None:
            kind = "missing values" if is_absent else repr(value)
            raise ValueError(f"column {self.name!r} must hold values that the model takes, got {kind}.")
        return code

    def _means_missing(self, value: Any) -> bool:  # a number such as -999, or a label such as "?"
        if isinstance(self.reading, Cuts):
            return any(low <= value <= high for low, high in self.reading.missing)
        return (value, None) in self.reading.codes  # None as code means missing

    def is_active(self, code: int, k: int) -> bool:
        """Whether the indicator of code k is 1 at a code; that of 0 always is."""
        return k == 0 or (code >= k if self.is_ordered and k > 0 else code == k)


@dataclasses.dataclass(frozen=True, eq=False)
class StepTerm:
    """A term: coefficients of products of indicators.

    Attributes
    ----------
    key
        Sorted positions of the term's columns.
    codes
        The code of each column's indicator, shape (n_coefficients, order); 0 for no indicator.
    values
        Coefficients, shape (n_coefficients, n_outputs).
    """

    key: Key
    codes: Ints
    values: Floats


@dataclasses.dataclass(frozen=True, eq=False)
class StepForm:
    """A model of tables as intercept plus coefficients times products of indicators.

    Attributes
    ----------
    axes
        The columns that the terms use, in the order of the model.
    outputs
        Names of the outputs.
    link
        How the score becomes the response: "identity", "logit", "log", "softmax", "probability", or none of these.
    intercept
        Shape (n_outputs,).
    terms
        The terms, by order and position of their columns.
    n_cells
        Number of cells of the tables that the form stands for.

    Examples
    --------
    >>> import treeanova
    >>> tables = {("a", "b"): [[0.0, 0.0], [0.0, 1.0]]}
    >>> effects = treeanova.model.Effects.from_tables(tables, thresholds={"a": [0.5], "b": [0.5]})
    >>> form = treeanova.model.StepForm.of(effects)
    >>> print(form)
    Step form of 1 term: 2 columns with 2 cuts, 1 coefficient for 4 cells
    >>> form.score({"a": 1.0, "b": 2.0})
    [1.0]
    """

    axes: tuple[StepAxis, ...]
    outputs: tuple[str, ...]
    link: str
    intercept: Floats
    terms: tuple[StepTerm, ...]
    n_cells: int

    @classmethod
    def of(cls, effects: Effects) -> StepForm:
        """Return the step form of an additive model.

        Parameters
        ----------
        effects
            An additive model. Terms may have coarser axes than its grid.

        Returns
        -------
        StepForm
            It equals the model to 1e-13 of its largest table, at all values.

        Raises
        ------
        ValueError
            If a column is read in a way that plain comparisons cannot express.
        TypeError
            If `effects` is no additive model, but a decomposition, say.

        Examples
        --------
        >>> import treeanova
        >>> effects = treeanova.model.Effects.from_tables({"a": [0.0, 1.0]}, thresholds={"a": [0.5]})
        >>> treeanova.model.StepForm.of(effects).axes[0].reading
        Cuts(cuts=(0.5,), codes=(0, 1), missing=())
        """
        if not isinstance(effects, Effects):
            raise TypeError(
                f"`effects` must be Effects, got {type(effects).__name__}; that of a decomposition fx is "
                "treeanova.export.python(fx).form."
            )
        columns = sorted({j for key in effects.terms for j in key})  # features that some term has
        position = {j: i for i, j in enumerate(columns)}
        groups = {j: _Groups.of(effects, j) for j in columns}
        features = effects.schema.features
        axes = tuple(_step_axis(features[j], effects.grid.axes[j], groups[j]) for j in columns)
        scale = max([np.abs(table).max(initial=0.0) for table in effects.terms.values()], default=0.0)
        terms = [
            StepTerm(tuple(position[j] for j in key), *_coefficients(_table(effects, key, groups), axes_of_key, scale))
            for key in effects.terms
            for axes_of_key in [[axes[position[j]] for j in key]]
        ]
        n_cells = sum(table[..., 0].size for table in effects.terms.values())
        schema = effects.schema
        return cls(axes, schema.outputs, schema.link, effects.intercept, tuple(terms), n_cells)

    @property
    def n_coefficients(self) -> int:
        """Number of coefficients of all terms."""
        return sum(len(term.codes) for term in self.terms)

    def label(self, term: StepTerm) -> str:
        """Return the label of a term, such as "a × b".

        Parameters
        ----------
        term
            One of `terms`.

        Returns
        -------
        str
            Names of the columns.

        Examples
        --------
        >>> import treeanova
        >>> effects = treeanova.model.Effects.from_tables({"a": [0.0, 1.0]}, thresholds={"a": [0.5]})
        >>> form = treeanova.model.StepForm.of(effects)
        >>> form.label(form.terms[0])
        'a'
        """
        return label_of([self.axes[i].name for i in term.key])

    def merged(self) -> StepForm:
        """Return the same score with coefficients of the same indicators added up over all terms.

        Returns
        -------
        StepForm
            Its terms are not pure, and there are fewer coefficients: a form for scores alone.

        Examples
        --------
        >>> import treeanova
        >>> effects = treeanova.model.Effects.from_tables({"a": [0.0, 1.0]}, thresholds={"a": [0.5]})
        >>> form = treeanova.model.StepForm.of(effects)
        >>> form.merged().score({"a": 2.0})
        [1.0]
        """
        sums: dict[tuple[tuple[int, int], ...], Floats] = {}  # by column and code of each indicator in a product
        for term in self.terms:
            for codes, value in zip(term.codes.tolist(), term.values, strict=True):
                indicators = tuple((i, k) for i, k in zip(term.key, codes, strict=True) if k)  # code 0 has none
                sums[indicators] = sums.get(indicators, 0.0) + value
        intercept = self.intercept + sums.pop((), 0.0)
        by_key: dict[Key, list[tuple[list[int], Floats]]] = {}
        for indicators, value in sums.items():
            by_key.setdefault(tuple(i for i, _ in indicators), []).append(([k for _, k in indicators], value))
        terms = [
            StepTerm(key, np.array([codes for codes, _ in pairs]), np.array([value for _, value in pairs]))
            for key, pairs in sorted(by_key.items(), key=lambda item: (len(item[0]), item[0]))
        ]
        return dataclasses.replace(self, intercept=intercept, terms=tuple(terms))

    def table(self, term: StepTerm) -> Floats:
        """Return the values of a term over the codes of its columns, in the order of `StepAxis.codes`; outputs last.

        Parameters
        ----------
        term
            One of `terms`.

        Returns
        -------
        numpy.ndarray
            An axis per column, and one of outputs.

        Examples
        --------
        >>> import treeanova
        >>> effects = treeanova.model.Effects.from_tables({"a": [0.0, 1.0]}, thresholds={"a": [0.5]})
        >>> form = treeanova.model.StepForm.of(effects)
        >>> form.table(form.terms[0]).ravel().tolist()
        [0.0, 1.0]
        """
        axes = [self.axes[i] for i in term.key]
        return _table_of(term.codes, term.values, axes)

    def terms_at(self, row: Mapping[str, Any]) -> Floats:
        """Return the terms at a row given by plain values; ValueError if the model refuses them.

        Parameters
        ----------
        row
            Plain values by the names of columns: numbers, labels, None if missing.

        Returns
        -------
        numpy.ndarray
            Shape (n_terms, n_outputs).

        Examples
        --------
        >>> import treeanova
        >>> effects = treeanova.model.Effects.from_tables({"a": [0.0, 1.0]}, thresholds={"a": [0.5]})
        >>> form = treeanova.model.StepForm.of(effects)
        >>> form.terms_at({"a": 2.0}).tolist()
        [[1.0]]
        """
        codes = [axis.code(row[axis.name]) for axis in self.axes]
        values = np.zeros((len(self.terms), len(self.outputs)))
        for place, term in enumerate(self.terms):
            for indicators, value in zip(term.codes.tolist(), term.values, strict=True):
                if all(self.axes[i].is_active(codes[i], k) for i, k in zip(term.key, indicators, strict=True)):
                    values[place] += value
        return values

    def score(self, row: Mapping[str, Any]) -> list[float]:
        """Return the score at a row given by plain values; ValueError if the model refuses them.

        Parameters
        ----------
        row
            Plain values by the names of columns: numbers, labels, None if missing.

        Returns
        -------
        list of float
            A score per output.

        Examples
        --------
        >>> import treeanova
        >>> effects = treeanova.model.Effects.from_tables({"a": [0.0, 1.0]}, thresholds={"a": [0.5]})
        >>> form = treeanova.model.StepForm.of(effects)
        >>> form.score({"a": 2.0})
        [1.0]
        """
        return (self.intercept + self.terms_at(row).sum(axis=0)).tolist()

    def to_dict(self) -> dict[str, Any]:
        """Return the form as plain data for JSON; docs/deploy.md describes it.

        Returns
        -------
        dict
            Texts, numbers, lists and dicts.

        Examples
        --------
        >>> import treeanova
        >>> effects = treeanova.model.Effects.from_tables({"a": [0.0, 1.0]}, thresholds={"a": [0.5]})
        >>> form = treeanova.model.StepForm.of(effects)
        >>> form.to_dict()["terms"]
        [{'columns': ['a'], 'codes': [[1]], 'coefficients': [[1.0]]}]
        """
        columns = [
            {
                "name": axis.name,
                "ordered": axis.is_ordered,
                "missing": axis.missing,
                "date_unit": axis.date_unit,
                **_reading_to_dict(axis.reading),
            }
            for axis in self.axes
        ]
        terms = [
            {
                "columns": [self.axes[i].name for i in term.key],
                "codes": term.codes.tolist(),
                "coefficients": term.values.tolist(),
            }
            for term in self.terms
        ]
        return {
            "format": "treeanova step form",
            "version": 1,
            "outputs": list(self.outputs),
            "link": self.link,
            "intercept": self.intercept.tolist(),
            "columns": columns,
            "terms": terms,
        }

    def __str__(self) -> str:
        n_cuts = sum(len(axis.reading.cuts) for axis in self.axes if isinstance(axis.reading, Cuts))
        return (
            f"Step form of {_counted(len(self.terms), 'term')}: {_counted(len(self.axes), 'column')} with "
            f"{_counted(n_cuts, 'cut')}, {_counted(self.n_coefficients, 'coefficient')} for "
            f"{_counted(self.n_cells, 'cell')}"
        )


def _counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _reading_to_dict(reading: Cuts | LabelCodes) -> dict[str, Any]:  # how a column's values become codes, for JSON
    if isinstance(reading, Cuts):
        return {"cuts": list(reading.cuts), "codes": list(reading.codes), "missing_numbers": list(reading.missing)}
    labels = [label.item() if isinstance(label, np.generic) else label for label, _ in reading.codes]
    return {"labels": labels, "codes": [code for _, code in reading.codes], "unseen": reading.unseen}


@dataclasses.dataclass(frozen=True, eq=False)
class _Groups:
    """The code of each bin of a feature: bins that all terms treat alike share one."""

    code_of_bin: Ints
    first_bins: Ints  # a bin of each code 0, 1, 2, …, and of MISSING if there is one

    @classmethod
    def of(cls, effects: Effects, j: int) -> _Groups:
        """Return the codes of the bins of feature j, which some term has."""
        axis = effects.grid.axes[j]
        # Bins have the same kind if their slices are equal in every term.
        kinds = np.unique(np.stack(list(_slice_numbers(effects, j)), axis=1), axis=0, return_inverse=True)[1].ravel()
        codes = _ordered_codes(kinds, axis) if axis.is_ordered else _category_codes(kinds)
        distinct_codes, first_bins = np.unique(codes, return_index=True)
        # np.unique puts MISSING, -1, first; it belongs last.
        return cls(codes, np.roll(first_bins, -1) if distinct_codes[0] == MISSING else first_bins)


def _slice_numbers(effects: Effects, j: int) -> Iterator[Ints]:
    """Yield, for each term of feature j, a number per bin of j; bins in which the term is equal share a number."""
    for key, table in effects.terms.items():
        if j in key:
            place = key.index(j)
            slices = np.moveaxis(table, place, 0).reshape(table.shape[place], -1)
            numbers = np.unique(slices, axis=0, return_inverse=True)[1].ravel()
            yield numbers[effects.binnings_of(key)[place].bins]


def _ordered_codes(kinds: Ints, axis: Axis) -> Ints:
    """Return codes that number runs of neighbouring bins of one kind; a missing bin shares one, or has `MISSING`."""
    regular = np.concatenate([[0], np.cumsum(np.diff(kinds[: axis.n_regular]) != 0)])
    if axis.n_extra == 0:
        return regular
    alike = np.flatnonzero(kinds[: axis.n_regular] == kinds[axis.missing_bin])
    return np.append(regular, regular[alike[0]] if len(alike) else MISSING)


def _category_codes(kinds: Ints) -> Ints:
    """Return codes that number the kinds of categories, the kind of most categories first."""
    order = np.argsort(-np.bincount(kinds), kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank[kinds]


def _table(effects: Effects, key: Key, groups: Mapping[int, _Groups]) -> Floats:
    """Return the table of a term over codes instead of bins; `groups` has the code of each bin, by feature."""
    table = effects.terms[key]
    for place, (j, binning) in enumerate(zip(key, effects.binnings_of(key), strict=True)):
        table = table.take(binning.bins[groups[j].first_bins], axis=place)
    return table


def _coefficients(table: Floats, axes: Sequence[StepAxis], scale: float) -> tuple[Ints, Floats]:
    """Return codes and coefficients of a table over codes, without those that are rounding; `_table_of` reverses it."""
    # Along each axis, a coefficient is the step from the code before (ordered columns), or from code 0 (all others).
    differences = table
    for place, axis in enumerate(axes):
        rows = np.moveaxis(differences, place, 0)
        n_steps = axis.n_codes if axis.is_ordered else 1
        steps = np.concatenate([rows[:1], np.diff(rows[:n_steps], axis=0), rows[n_steps:] - rows[:1]])
        differences = np.moveaxis(steps, 0, place)
    code_lists = [np.array(axis.codes) for axis in axes]
    smallest = _ROUNDING * scale  # `scale` is the largest value of all tables
    while True:  # with a lower limit if what is left out adds up to a visible error
        places = np.argwhere((np.abs(differences) > smallest).any(axis=-1))
        codes = np.stack([code_list[column] for code_list, column in zip(code_lists, places.T, strict=True)], axis=1)
        values = differences[tuple(places.T)]
        if smallest == 0 or np.abs(_table_of(codes, values, axes) - table).max(initial=0.0) <= _ERROR * scale:
            return codes, values
        smallest = smallest / 4 if smallest > 1e-18 * scale else 0.0


def _table_of(codes: Ints, values: Floats, axes: Sequence[StepAxis]) -> Floats:
    """Return the table that coefficients add up to, over the codes of axes; outputs last."""
    table = np.zeros((*(len(axis.codes) for axis in axes), values.shape[-1]))
    table[tuple(codes.T)] = values  # MISSING, -1, is the last place
    for place, axis in enumerate(axes):
        rows = np.moveaxis(table, place, 0)
        n_steps = axis.n_codes if axis.is_ordered else 1
        rows[n_steps:] += rows[:1]
        rows[:n_steps] = np.cumsum(rows[:n_steps], axis=0)
    return table


def _step_axis(feature: Feature, axis: Axis, groups: _Groups) -> StepAxis:
    """Return a feature as a column: its encoder and the codes of its bins say how plain values become codes."""
    encoder = feature.encoder
    number_encoder = encoder.number if isinstance(encoder, DateNumber) else encoder
    codes = groups.code_of_bin
    missing = int(codes[axis.missing_bin]) if axis.missing_bin >= 0 else None  # None: the model refuses them
    reading: Cuts | LabelCodes
    if isinstance(number_encoder, Numeric):
        reading = _number_reading(number_encoder, axis, codes)
    elif isinstance(number_encoder, IntegerCategory):
        reading = _integer_reading(number_encoder, axis, codes)
    else:
        reading, missing = _label_reading(feature, axis, codes)
    n_codes = int(codes.max()) + 1
    return StepAxis(feature.name, reading, axis.is_ordered, n_codes, missing, encoder.date_unit)


def axis_of_bins(feature: Feature, axis: Axis) -> StepAxis:
    """Return a column whose codes are the bins of an axis; ValueError if comparisons cannot express it."""
    return _step_axis(feature, axis, _Groups(np.arange(axis.size), np.arange(axis.size)))


def _number_reading(encoder: Numeric, axis: Axis, codes: Ints) -> Cuts:
    """Return cuts at the thresholds between intervals of different codes; `codes` has that of each bin."""
    regular = codes[: axis.n_regular]
    is_cut = np.diff(regular) != 0
    cuts = tuple(axis.thresholds[is_cut].tolist())
    return Cuts(cuts, tuple(range(len(cuts) + 1)), _numbers_that_mean_missing(encoder))


def _numbers_that_mean_missing(encoder: Numeric | IntegerCategory) -> tuple[tuple[float, float], ...]:
    """Return the closed interval of numbers that an encoder takes for missing: those that round to its `missing`."""
    if np.isnan(encoder.missing):
        return ()
    if encoder.cast != "float32":
        return ((float(encoder.missing), float(encoder.missing)),)
    single = np.float32(encoder.missing)
    return ((float(np.nextafter(bound_below(single), np.inf)), float(bound_up_to(single))),)


def _integer_reading(encoder: IntegerCategory, axis: Axis, codes: Ints) -> Cuts:
    """Return cuts between the numbers of categories, as the encoder reads them; all other numbers are unseen."""
    # The encoder cuts off fractions. `codes` has the code of each bin.
    unseen = int(codes[axis.unseen]) if axis.unseen >= 0 else None
    is_single = encoder.cast == "float32"
    values = np.array(encoder.code_values, dtype=np.float64)
    ends = np.unique(np.concatenate([values, values + 1, [encoder.largest], [-1.0, 0.0, 1.0]]))
    ends = ends[np.isfinite(ends)]
    # Just below each integer, and the integer itself: between two such cuts the encoder has one code.
    below = bound_below(ends.astype(np.float32)) if is_single else np.nextafter(ends, -np.inf)
    upto = bound_up_to(ends) if is_single else ends
    cuts = np.unique(np.concatenate([below, upto]))
    probes = np.append(cuts, np.inf if np.isinf(encoder.largest) else np.nextafter(cuts[-1], np.inf))
    positions = dataclasses.replace(encoder, missing=np.nan).encode(probes, axis.name).astype(np.int64)
    is_category = positions < axis.n_regular
    intervals = [int(codes[bin_]) if seen else unseen for bin_, seen in zip(positions, is_category, strict=True)]
    changes = [i for i in range(len(cuts)) if intervals[i] != intervals[i + 1]]  # cuts where the code changes
    codes_between = [*(intervals[i] for i in changes), intervals[-1]]
    return Cuts(tuple(cuts[changes].tolist()), tuple(codes_between), _numbers_that_mean_missing(encoder))


def _label_reading(feature: Feature, axis: Axis, codes: Ints) -> tuple[LabelCodes, int | None]:
    """Return the codes of labels, and that of missing values, by asking the encoder for each label."""
    encoder = feature.encoder
    labels = encoder.labels if encoder.labels is not None else getattr(encoder, "names", None)
    if labels is None:
        raise _not_expressible(feature, f"it is read by {type(encoder).__name__}")
    pairs: list[tuple[Hashable, int | None]] = []
    for place, label in enumerate(labels):
        encoded = _encoded_label(feature, label)
        if encoded != place and not is_missing(label):
            raise _not_expressible(feature, f"the name of its category {label!r} is not known exactly")
        if encoded == place:
            pairs.append((label, int(codes[axis.index(np.array([float(place)]))[0]])))
    missing = int(codes[axis.missing_bin]) if axis.missing_bin >= 0 else None
    as_missing = getattr(encoder, "missing", ())  # labels that mean missing, besides None and NaN
    pairs += [(label, None) for label in (as_missing if isinstance(as_missing, tuple) else ()) if not is_missing(label)]
    return LabelCodes(tuple(pairs), _unseen_code(feature, axis, codes, labels)), missing


def _encoded_label(feature: Feature, label: Hashable) -> float | None:
    """Return the number that an encoder gives to a label, NaN for missing; None if it refuses it."""
    column = np.empty(1, dtype=object)
    column[0] = label
    try:
        return float(feature.encoder.encode(column, feature.name)[0])
    except (TypeError, ValueError):
        return None


def _unseen_code(feature: Feature, axis: Axis, codes: Ints, labels: Sequence[Hashable]) -> int | None:
    """Return the code of labels that the model does not know; None if it refuses them."""
    encoded = _encoded_label(feature, _UNSEEN_TEXT)
    if encoded is None or not feature.accepts_unseen:
        return None
    if np.isnan(encoded):  # an ordered column takes them for missing
        return int(codes[axis.missing_bin]) if axis.missing_bin >= 0 else None
    return int(codes[axis.unseen]) if encoded == len(labels) and axis.unseen >= 0 else None


def _not_expressible(feature: Feature, reason: str) -> ValueError:  # the error for a column without a step form
    return ValueError(
        f"column {feature.name!r} cannot be exported because {reason}; decompose the model with a table whose columns "
        "have the labels of training. XGBoost stores names with other letters than those of ASCII incompletely: rename "
        "these and train again. Or leave out the terms of this column."
    )
