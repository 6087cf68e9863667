"""Edits by hand: set, scale, cap, round, smooth, merge and make monotone, each with a history that can be undone.

An edit changes the function of a term; the sum is then purified again under the same density. The tables as they were
edited, before that, are those of `fx.raw`. Each edit is right by itself: one that makes untrue what an earlier one
states, such as "age made increasing", says so in the history.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from numbers import Real
from typing import Any, Self

import numpy as np

from treeanova.anova.certificate import Certificate, TermCertificate
from treeanova.core.arrays import Floats, Key, Names, checked_whole, label_of, labels_of
from treeanova.core.threads import single_threaded
from treeanova.data.features import is_writable
from treeanova.decomposition.answers import Answers
from treeanova.decomposition.certify import measured_again, sizes_of
from treeanova.decomposition.edited_tables import (
    chosen_bins,
    ends_of_bins,
    made_monotone,
    merged,
    purified_edit,
    replaced,
    smoothed,
    with_outputs,
)
from treeanova.decomposition.function import Factors, check_editable, factors_of, output_position, scaled_terms
from treeanova.decomposition.impact import History, Impact, broken_statements, impact_of, measured
from treeanova.density.base import Density
from treeanova.model.effects import Effects
from treeanova.model.grid import Binning
from treeanova.terms.source import AdditiveModel
from treeanova.terms.terms import Edit, Scope, TermSet
from treeanova.views import first_texts

_DIRECTIONS = {"increasing": 1, "decreasing": -1, 1: 1, -1: -1}
_MOST_STRENGTH = 1e12  # to which smoothing has all digits
_MOST_NUMBERS = 64  # of an argument that the history lists


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Editing(Answers):
    """Edits of a `Decomposition`, its only subclass."""

    _past: tuple[Any, ...] = ()  # decompositions before each of the last edits, oldest first, each without its own past

    @functools.cached_property
    def history(self) -> History:
        """What was done to the terms by hand, oldest first: a tuple of `Edit`, printed as sentences; empty for a model.

        Each entry says how far scores moved under the density; `impact` says the same of given rows.
        """
        edits = self._function.scope.history
        states = [*self._past, self]
        start = len(edits) - len(self._past)
        pairs = zip(edits[start:], states, states[1:], strict=False)
        with single_threaded():
            return History((*edits[:start], *(measured(edit, before, after) for edit, before, after in pairs)))

    def undo(self, n: int = 1) -> Self:
        """Return the decomposition before its last edits, digit by digit; a file keeps what this needs.

        Parameters
        ----------
        n
            Number of edits to take back.

        Returns
        -------
        Decomposition

        Raises
        ------
        ValueError
            If there are fewer edits, or if they were followed by another operation, such as `with_density`.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> edited = fx.scale("x0", 0.5).cap("x1", high=0.1)
        >>> edited.undo().history
        1. x0 times 0.5: scores move by 0.125 (root mean square), at most 0.125, in 100 % of the mass
        >>> edited.undo(2) == fx
        True
        """
        n, n_past = checked_whole("n", n, 1, "1 is the default"), len(self._past)
        n_edits = len(self._function.scope.history)
        if n > n_past:
            lost = f"; {n_edits - n_past} of {n_edits} edits were made before with_density() or another operation, or "
            why = (
                f"{lost}saved with past=False: undo them before that" if n_edits > n_past else "; it has no more edits"
            )
            raise ValueError(f"`n` must be at most {n_past}, the number of edits that can be undone, got {n}{why}.")
        return dataclasses.replace(self._past[-n], _past=self._past[:-n])

    def impact(
        self,
        X: Any,
        y: Any = None,
        *,
        group: Any = None,
        loss: str | Callable[[Any, Any], Any] | None = None,
        query: Any = None,
        sample_weight: Any = None,
    ) -> Impact:
        """Compare scores, losses and gaps before and after each edit, at rows.

        Parameters
        ----------
        X
            Rows, as for `decision_function`.
        y
            Their outcome, for losses: the rows should be held out, at least 30.
        group
            The name of a column of X, or a label for each row: changes are also told by group, and for two groups the
            gap of their mean scores.
        loss
            As for `validate`; by default that of the model's objective.
        query
            The query of each row, for models that rank rows.
        sample_weight
            Weights of the rows.

        Returns
        -------
        Impact

        Raises
        ------
        ValueError
            If there are no edits, or if they were followed by another operation, such as `with_density`.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()  # the logical "and" of x0 and x1
        >>> impact = fx.scale("x0", 0.5).impact(X, group="x0")
        >>> float(impact.table["rms"][0]), float(impact.gaps["change"][0])
        (0.125, -0.25)
        """
        edits = self._function.scope.history
        if not edits or len(edits) > len(self._past):
            got = "edits that were followed by another operation" if edits else "no edits"
            raise ValueError(
                f"impact() must have edits, and the decompositions before them, got {got}; edit the terms, and call it "
                "before with_density(), truncate() or others."
            )
        words, states = [edit.words for edit in edits], [*self._past, self]
        return impact_of(states, words, X, y, loss=loss, group=group, query=query, sample_weight=sample_weight)

    def scale(
        self,
        term: str | Collection[str] | Factors,
        factor: float | None = None,
        *,
        output: str | int | None = None,
        note: str = "",
    ) -> Self:
        """Multiply one or several terms by a factor; the sum is then a different function from the model.

        Scaled terms stay pure. `history` lists the edits, and the certificate says that the terms no longer add up to
        the model.

        Parameters
        ----------
        term
            Name of a feature for its main effect, names of several or a label for an interaction, or a mapping from
            terms to factors.
        factor
            A finite number: 0.5 halves the term, 0 removes it; omitted if `term` is a mapping.
        output
            Name or position of the class or target to scale; all by default.
        note
            A note for the history, such as a reason.

        Returns
        -------
        Decomposition
            The intercept and all terms.

        Raises
        ------
        ValueError
            If the terms do not add up to the function, or if a term has no table.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> half = fx.scale({("x0", "x1"): 0.5})
        >>> half.decision_function(X).tolist()
        [-0.125, 0.125, 0.125, 0.875]
        >>> [edit.words for edit in half.history]
        ['x0 × x1 times 0.5']
        """
        check_editable(self._function, "scale")
        named: dict[Names, float] = {}
        for name, value in factors_of(term, factor).items():
            names = self.terms.names_of(name)
            if names in named:
                raise ValueError(f"`term` must name each term once, got {label_of(names)!r} twice; leave one out.")
            named[names] = value
        by_key = {self._key_of(name): value for name, value in named.items()}
        outputs = self._outputs(output)
        terms = scaled_terms(self._function.terms, by_key, self._names, outputs)
        labels = labels_of(named, self.schema.names)
        words = ", ".join(f"{label} times {value:g}" for label, value in zip(labels, named.values(), strict=True))
        arguments = {"factors": tuple(named.values())}
        edit = self._edit("scale", words, by_key, arguments, output=output, note=note)
        certificate = dataclasses.replace(self.certificate, edits=(*self._function.scope.words, edit.words))
        return self._after(edit, terms, AdditiveModel(terms), certificate)

    def set(
        self,
        term: str | Collection[str],
        values: Any,
        *,
        between: Sequence[float | None] | None = None,
        output: str | int | None = None,
        note: str = "",
    ) -> Self:
        """Set values of a term by hand.

        Scores change by the new minus the old value. The terms are then purified again, so the term's mean goes to the
        intercept, and for an interaction what main effects can express goes to these. `fx.raw` has the values as set.

        Parameters
        ----------
        term
            Name of a feature for its main effect, names of several or a label for an interaction.
        values
            An array in the shape of `fx.terms[term].values`, whose axes are in the order of the data; a mapping from
            labels of bins, for an interaction tuples of labels in the order in which `term` names the features, to
            numbers, where other cells stay; a number for all cells; or a function of the array of values.
        between
            Two cuts of a feature with numbers, whose intervals are set to the number `values`; None is an open end.
        output
            Name or position of a class or target; may be left out if there is only one, or if `values` has all.
        note
            A note for the history, such as a reason.

        Returns
        -------
        Decomposition

        Raises
        ------
        ValueError
            If the terms do not add up to the function, or if the term has no table.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()  # the logical "and" of x0 and x1
        >>> edited = fx.set("x0", {"≤ 0.5": 0.0})  # it was -0.25
        >>> (edited.decision_function(X) - fx.decision_function(X)).tolist()
        [0.25, 0.25, 0.0, 0.0]
        >>> edited.terms["x0"].values.tolist(), edited.history[0].moved
        ([-0.125, 0.125], ('intercept',))
        """
        key = self._key_to_edit("set", term)
        table = self._function.effects.terms[key]
        axes = self._function.effects.axes_of(key)
        sets_all_outputs = np.shape(values) == table.shape and len(self.outputs) > 1 and output is None
        outputs = self._outputs(output) if sets_all_outputs else [output_position(self.outputs, output)]
        old = table if sets_all_outputs else table[..., outputs[0]]
        new = np.array(old)
        if between is not None:
            new[self._bins_between(key, values, between)] = values
            words = f"set to {values:g} between {between[0]} and {between[1]}"
        elif isinstance(values, Mapping):
            values = self._cells_in_order(term, key, values)
            for cell, value in values.items():
                new[tuple(chosen_bins(axis, [bin_], None)[0] for axis, bin_ in zip(axes, cell, strict=True))] = value
            words = f"set in {first_texts(map(_cell_text, values))}"
        else:
            new = _array_of(values(np.array(old)) if callable(values) else values, old.shape)
            words = f"set to {values:g}" if isinstance(values, Real) else "set"
        if not np.isfinite(new).all():
            raise ValueError("`values` must be finite numbers, got others; leave cells out that should stay.")
        new_table = with_outputs(table, new if sets_all_outputs else new[..., None], outputs)
        arguments = {"values": _plain_argument(values), "between": None if between is None else tuple(between)}
        return self._with_tables("set", {key: new_table}, words, arguments, output=output, note=note)

    def _cells_in_order(self, term: str | Collection[str], key: Key, values: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return values of cells, whose bins follow the features as `term` names them, with bins as `key` has them."""
        has_order = isinstance(term, str | Sequence)
        named = self._key_of(self.terms.features_in(term) if has_order else self._names(key))
        cells: dict[tuple[Any, ...], Any] = {}
        for cell, value in values.items():
            bins = (cell,) if isinstance(cell, str | int) else tuple(cell)
            if len(bins) != len(key):
                raise ValueError(f"`values` must name a bin of each of {len(key)} features, got {cell!r}.")
            cells[tuple(bins[named.index(j)] for j in key)] = value
        return cells

    def _bins_between(self, key: Key, value: Any, between: Sequence[float | None]) -> Any:
        """Return the positions of the intervals of a main effect between two cuts, for `set` with a number."""
        if len(key) > 1 or isinstance(value, bool) or not isinstance(value, Real):
            raise ValueError(f"`between` must come with a main effect and one number, got {value!r}; or name cells.")
        return chosen_bins(self._function.effects.axes_of(key)[0], None, between)

    def cap(
        self,
        term: str | Collection[str],
        low: float | None = None,
        high: float | None = None,
        *,
        output: str | int | None = None,
        note: str = "",
    ) -> Self:
        """Limit the values of a term from below, from above, or both.

        Values beyond a limit are set to it; the terms are then purified again, as for `set`.

        Parameters
        ----------
        term
            As for `set`.
        low, high
            The limits; None for no limit.
        output
            Name or position of a class or target; all by default.
        note
            A note for the history, such as a reason.

        Returns
        -------
        Decomposition

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()  # the logical "and" of x0 and x1
        >>> capped = fx.cap("x0", high=0.0)  # its values are -0.25 and 0.25
        >>> (capped.decision_function(X) - fx.decision_function(X)).tolist()
        [0.0, 0.0, -0.25, -0.25]
        """
        limits = [_checked_number(name, value) for name, value in (("low", low), ("high", high)) if value is not None]
        if not limits or limits != sorted(limits):
            raise ValueError(f"`low` and `high` must be one limit or two that ascend, got {low!r} and {high!r}.")
        key = self._key_to_edit("cap", term)
        table, outputs = self._function.effects.terms[key], self._outputs(output)
        new = with_outputs(table, np.clip(table[..., outputs], low, high), outputs)
        below = f"capped at {high:g}" if low is None else f"capped from below at {low:g}"
        words = below if low is None or high is None else f"capped to between {low:g} and {high:g}"
        return self._with_tables("cap", {key: new}, words, {"low": low, "high": high}, output=output, note=note)

    def round(
        self,
        term: str | Collection[str] | None = None,
        *,
        digits: int | None = None,
        step: float | None = None,
        output: str | int | None = None,
        note: str = "",
    ) -> Self:
        """Round the values of a term, or of all terms and the intercept.

        The terms are then purified again, as for `set`: `fx.raw` has the round numbers, and scores are sums of these.

        Parameters
        ----------
        term
            As for `set`; all terms and the intercept by default.
        digits
            Number of decimals, as for `numpy.round`.
        step
            Instead of `digits`, the number whose multiples values are rounded to.
        output
            Name or position of a class or target; all by default.
        note
            A note for the history, such as a reason.

        Returns
        -------
        Decomposition

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()  # the logical "and" of x0 and x1
        >>> fx.round(step=0.2).decision_function(X).round(9).tolist()
        [0.0, 0.0, 0.0, 0.8]
        >>> fx.round("x0", digits=1).raw.terms["x0"].values.tolist()
        [-0.2, 0.2]
        """
        if (digits is None) == (step is None):
            raise ValueError(f"one of `digits` and `step` must be given, got {digits!r} and {step!r}; 2 and None, say.")
        if step is not None and not _checked_number("step", step) > 0:
            raise ValueError(f"`step` must be positive, got {step!r}; 0.1, say.")
        decimals = None if digits is None else checked_whole("digits", digits, -300, "2 rounds to hundredths")

        def rounded(values: Floats) -> Floats:
            return np.asarray(np.round(values, decimals or 0) if step is None else np.round(values / step) * step)

        effects, outputs = self._function.effects, self._outputs(output)
        keys = list(effects.terms) if term is None else [self._key_to_edit("round", term)]
        self._check_all_tables("round", keys if term is None else ())
        tables = {
            key: with_outputs(effects.terms[key], rounded(effects.terms[key][..., outputs]), outputs) for key in keys
        }
        intercept = with_outputs(effects.intercept, rounded(effects.intercept[outputs]), outputs)
        unit = "digit" if digits == 1 else "digits"
        words = f"rounded to {f'{digits} {unit}' if step is None else f'multiples of {step:g}'}"
        arguments = {"digits": decimals, "step": step}
        constant = intercept if term is None else None
        subject = "all terms and the intercept" if term is None else None
        return self._with_tables(
            "round", tables, words, arguments, subject=subject, intercept=constant, output=output, note=note
        )

    def smooth(
        self, term: str | Collection[str], strength: float = 1.0, *, output: str | int | None = None, note: str = ""
    ) -> Self:
        """Smooth a term over neighbouring intervals by penalized least squares (Whittaker).

        The new values z have the smallest Σ w (z - values)² + strength w̄ Σ (second differences of z)², where w are the
        weights of the cells and w̄ is their mean. Categories are not neighbours, and missing values stay. The terms are
        then purified again, as for `set`.

        Parameters
        ----------
        term
            As for `set`; one feature at least must have numbers, with three intervals or more.
        strength
            A positive number up to 1e12: 1 is weak; with more, a main effect becomes a straight line over its bins.
        output
            Name or position of a class or target; all by default.
        note
            A note for the history, such as a reason.

        Returns
        -------
        Decomposition

        Examples
        --------
        >>> import treeanova
        >>> tables = {"a": [0.0, 3.0, 0.0, 3.0]}
        >>> effects = treeanova.model.Effects.from_tables(tables, thresholds={"a": [1, 2, 3]})
        >>> fx = treeanova.decompose(effects, density="uniform")
        >>> fx.smooth("a", 1e9).terms["a"].values.round(3).tolist()
        [-0.9, -0.3, 0.3, 0.9]
        """
        key = self._key_to_edit("smooth", term)
        if not 0 < _checked_number("strength", strength) <= _MOST_STRENGTH:
            raise ValueError(
                f"`strength` must be positive and at most {_MOST_STRENGTH:g}, got {strength!r}; 1 is the default."
            )
        effects, outputs = self._function.effects, self._outputs(output)
        weights, table = self._table_weights(key), effects.terms[key]
        new = with_outputs(table, smoothed(table[..., outputs], weights, effects.axes_of(key), strength), outputs)
        words = f"smoothed with strength {strength:g}"
        return self._with_tables("smooth", {key: new}, words, {"strength": strength}, output=output, note=note)

    def merge(
        self,
        feature: str,
        bins: Sequence[str | int] | None = None,
        *,
        between: Sequence[float | None] | None = None,
        note: str = "",
    ) -> Self:
        """Merge bins or categories of a feature: the score no longer distinguishes them.

        In every term of the feature, merged bins get their weighted mean, the nearest function in the density's norm.
        Merged intervals become one bin of these terms, on which they stay pure. Categories keep their bins, and terms
        are purified again: under dependence, main effects of merged categories may differ, and interactions offset it.

        Parameters
        ----------
        feature
            Name of a feature.
        bins
            Labels or positions of the bins; intervals must be neighbours.
        between
            Instead of `bins`, two cuts of a feature with numbers: all intervals between them; None is an open end.
        note
            A note for the history, such as a reason.

        Returns
        -------
        Decomposition

        Raises
        ------
        ValueError
            If the terms do not add up to the function, or if a term of the feature has no table.

        Examples
        --------
        >>> import treeanova
        >>> tables = {"a": [0.0, 1.0, 5.0, 2.0]}
        >>> effects = treeanova.model.Effects.from_tables(tables, categories={"a": ["w", "x", "y", "z"]})
        >>> fx = treeanova.decompose(effects, density="uniform")
        >>> fx.merge("a", ["w", "x"]).terms["a"].values.tolist()
        [-1.5, -1.5, 3.0, 0.0]
        """
        j, keys = self._feature_to_edit("merge", feature)
        effects, main = self._function.effects, (j,)
        key = main if main in effects.terms else keys[0]
        place = key.index(j)
        axis, binning = effects.axes_of(key)[place], effects.binnings_of(key)[place]
        positions = chosen_bins(axis, bins, between)
        if axis.is_ordered and len(positions) and (positions[-1] >= axis.n_regular or (np.diff(positions) != 1).any()):
            raise ValueError(
                f"`bins` of {feature!r} must be neighbouring intervals, got "
                f"{first_texts(axis.labels[i] for i in positions)}; missing values have their own value: use set()."
            )
        if len(positions) < 2:
            raise ValueError(f"`bins` must be two or more bins of {feature!r}, got {len(positions)}; name others.")
        new = merged(effects, j, np.isin(binning.bins, positions), self._shown_density)
        labels = tuple(axis.labels[i] for i in positions)
        words = f"{feature}: {first_texts(labels)} merged"
        arguments = {"feature": feature, "bins": labels, "between": ends_of_bins(axis, positions)}
        edit = self._edit("merge", words, keys, arguments, note=note)
        return self._purified(edit, new)

    def monotone(self, feature: str, direction: str | int, *, output: str | int | None = None, note: str = "") -> Self:
        """Make the score increasing or decreasing in a feature, whatever the other features are.

        The terms of the feature are replaced by the nearest ones in the density's norm whose sum is monotone:
        `monotonicity` proves it, in all cells. Missing values stay. The terms are then purified again, as for `set`.

        Parameters
        ----------
        feature
            Name of a feature with numbers.
        direction
            "increasing" or 1: the score never falls; "decreasing" or -1: it never rises.
        output
            Name or position of a class or target; all by default.
        note
            A note for the history, such as a reason.

        Returns
        -------
        Decomposition

        Raises
        ------
        ValueError
            If the feature has categories, or terms without a table or of three features or more.

        Notes
        -----
        Without interactions this is isotonic regression of the main effect. With one interaction, the curves of the
        main effect plus the interaction are fitted for each bin of the other feature. With several, such curves are
        fitted in turn until they stay; the norm then takes the other features to be independent given this one.

        Examples
        --------
        >>> import treeanova
        >>> tables = {"a": [0.0, 3.0, 2.0], ("a", "b"): [[0, 0], [0, 1], [1, 0]]}
        >>> effects = treeanova.model.Effects.from_tables(tables, thresholds={"a": [1, 2], "b": [5]})
        >>> fx = treeanova.decompose(effects, density="uniform")
        >>> fx.monotonicity("a").direction
        'neither'
        >>> fx.monotone("a", "increasing").monotonicity("a").direction
        'increasing'
        """
        if isinstance(direction, bool) or not isinstance(direction, str | Real) or direction not in _DIRECTIONS:
            raise ValueError(f"`direction` must be 'increasing' or 'decreasing', or 1 or -1, got {direction!r}.")
        j, keys = self._feature_to_edit("monotone", feature)
        if not self.grid.axes[j].is_ordered:
            raise ValueError(
                f"`feature` must have values with an order, got {feature!r} with categories; set values with set()."
            )
        high = next((key for key in keys if len(key) > 2), None)
        if high is not None:
            raise ValueError(
                f"monotone() must have main effects and pairs of {feature!r}, got {label_of(self._names(high))!r}; "
                "leave higher orders out with select(order=[1, 2]) or simplify()."
            )
        sign, outputs = _DIRECTIONS[direction], self._outputs(output)
        new = made_monotone(self._function.effects, j, sign, self._shown_density, outputs)
        word = "increasing" if sign > 0 else "decreasing"
        arguments = {"feature": feature, "direction": word}
        edit = self._edit("monotone", f"{feature} made {word}", keys, arguments, output=output, note=note)
        return self._purified(edit, new)

    # From new tables to a decomposition.

    def _outputs(self, output: str | int | None) -> list[int]:
        """Return the position of an output as a list; those of all outputs for None."""
        return list(range(len(self.outputs))) if output is None else [output_position(self.outputs, output)]

    def _key_to_edit(self, action: str, term: str | Collection[str]) -> Key:
        """Return the key of a term; ValueError if it cannot be edited."""
        check_editable(self._function, action)
        key = self._key_of(self.terms.names_of(term))
        self._check_all_tables(action, [key])
        return key

    def _feature_to_edit(self, action: str, feature: str) -> tuple[int, list[Key]]:
        """Return the position of a feature and the keys of its terms, which must have tables."""
        check_editable(self._function, action)
        if feature not in self.schema.names:
            raise ValueError(f"`feature` must be one of the model's, got {feature!r}; see fx.feature_names_in_.")
        j = self.schema.names.index(feature)
        keys = [key for key in self._function.terms.keys if j in key]
        if not keys:
            raise ValueError(f"`feature` must have a term, got {feature!r}, which has none; choose another.")
        self._check_all_tables(action, keys)
        return j, keys

    def _check_all_tables(self, action: str, keys: Collection[Key]) -> None:
        """Raise ValueError if a term has no table; if `keys` are all tables, if any term of the model has none."""
        listed = self._function.terms.keys_at_rows if len(keys) == len(self._function.effects.terms) else keys
        without = next((key for key in listed if not self._function.terms.has_table(key)), None)
        if without is not None:
            raise ValueError(
                f"{action}() must have terms with a table, got {label_of(self._names(without))!r}, which is known at "
                "rows only; decompose with a higher `tensor_order`, or leave such terms out: select() or simplify()."
            )

    def _edit(
        self,
        action: str,
        words: str,
        keys: Collection[Key],
        arguments: Mapping[str, Any],
        *,
        output: str | int | None = None,
        note: str = "",
    ) -> Edit:
        """Return the record of an edit for the history; `words` say what was done."""
        if not isinstance(note, str) or not is_writable(note):
            raise TypeError(f"`note` must be text, got {note!r:.100}; leave it out for none.")
        labels = tuple(labels_of([self._names(key) for key in keys], self.schema.names))
        if output is not None and len(self.outputs) > 1:
            words = f"{words}, for {self.outputs[output_position(self.outputs, output)]}"
        named = {} if output is None else {"output": output}
        return Edit(words, action, labels, {**arguments, **named}, note)

    def _with_tables(
        self,
        action: str,
        tables: Mapping[Key, Floats],
        words: str,
        arguments: Mapping[str, Any],
        *,
        subject: str | None = None,
        intercept: Floats | None = None,
        output: str | int | None,
        note: str,
    ) -> Self:
        """Return the decomposition with other tables of some terms, purified again."""
        label = (
            ", ".join(labels_of([self._names(key) for key in tables], self.schema.names))
            if subject is None
            else subject
        )
        edit = self._edit(action, f"{label} {words}", tables, arguments, output=output, note=note)
        return self._purified(edit, replaced(self._function.effects, tables, intercept))

    def _purified(self, edit: Edit, edited: Effects) -> Self:
        """Return other effects with pure terms; raw terms stay raw."""
        function = self._function
        as_edited = dataclasses.replace(function.terms, effects=edited, weights={})
        if self.certificate.is_raw:
            weights = {key: self._weights_on(key, edited.binnings.get(key)) for key in edited.terms}
            terms = dataclasses.replace(as_edited, weights=weights)
            return self._after(edit, terms, AdditiveModel(terms), self._certificate_with(terms, {}, edit))
        pure = purified_edit(function.effects, edited, self.density, self._settings)
        labels = labels_of([self._names(key) for key in pure.moved if key], self.schema.names)
        edit = dataclasses.replace(edit, moved=(*labels, *(["intercept"] if () in pure.moved else [])))
        weights = {key: self._weights_on(key, pure.effects.binnings.get(key)) for key in pure.effects.terms}
        terms = dataclasses.replace(function.terms, effects=pure.effects, weights=weights)
        return self._after(edit, terms, AdditiveModel(as_edited), self._certificate_with(terms, pure.measured, edit))

    def _weights_on(self, key: Key, binnings: Sequence[Binning] | None) -> Floats:
        """Return weights of the cells of a term on given bins: those of its table if the bins are the same."""
        before, weights = self._function.effects.binnings.get(key), self._function.terms.weights.get(key)
        is_same = before is binnings or (
            before is not None and binnings is not None and all(map(Binning.equals, before, binnings))
        )
        return self._shown_density.table(key, binnings) if weights is None or not is_same else weights

    def _certificate_with(
        self,
        terms: TermSet,
        measured_changes: Mapping[Key, TermCertificate],
        edit: Edit,
        density: Density | None = None,
    ) -> Certificate:
        """Return the certificate of edited terms: slice means are measured, errors of the change are added."""
        density = self.density if density is None else density
        before = self._certificate_of(terms)
        of_terms = dict(before.terms)
        for key, change in measured_changes.items():
            names, old = self._names(key), before.terms.get(self._names(key))
            error = (change.error or 0.0) + (0.0 if old is None else old.error or 0.0)
            of_terms[names] = dataclasses.replace(change if old is None else old, error=error)
        effects = terms.effects
        weights = terms.weights
        if density.ranks_on_population:  # the weights of tables are not those under which terms are pure
            weights = {key: density.table(key, effects.binnings.get(key)) for key in effects.terms}
        certificate = dataclasses.replace(before, terms=of_terms)
        sizes = sizes_of(self._function.effects.terms)
        certificate = measured_again(certificate, self._names, effects.terms, weights, sizes)
        return dataclasses.replace(certificate, edits=(*self._function.scope.words, edit.words))

    def _certificate_of(self, terms: TermSet) -> Certificate:
        """Return the certificate, as it was measured before, of those terms that are still there."""
        names = {self._names(key) for key in terms.effects.terms}
        return self.certificate.of_terms(names, len(terms.keys_at_rows), has_unlisted=bool(terms.unlisted_orders))

    def _after(
        self,
        edit: Edit,
        terms: TermSet,
        source: AdditiveModel,
        certificate: Certificate,
        density: Density | None = None,
    ) -> Self:
        """Return the decomposition after an edit, which can be undone."""
        edits = self.history if "history" in self.__dict__ else self._function.scope.history
        edit = dataclasses.replace(edit, breaks=broken_statements(edits, source.raw().effects))
        scope = Scope(n_terms=self._n_terms_of_model, edits=(*edits, edit))
        certificate = dataclasses.replace(certificate, edits=scope.words)
        return dataclasses.replace(
            self,
            _function=dataclasses.replace(self._function, source=source, terms=terms, scope=scope),
            density=self.density if density is None else density,
            certificate=certificate,
            model=self.model if edit.action in ("select", "drop") else None,
            _saved_moments=None,
            _past=(*self._past, dataclasses.replace(self, _past=())),
        )

    @property
    def _n_terms_of_model(self) -> int:
        """Number of the model's terms, also after a selection."""
        return self._function.scope.n_terms or len(self._function.components)

    def _edited(self, terms: TermSet, density: Density, words: str) -> Self:
        """Return the decomposition with simplified terms, pure under a density; `words` are for the history."""
        record = Edit(words, "simplify")
        certificate = dataclasses.replace(self._certificate_with(terms, {}, record, density), higher=None)
        return self._after(record, terms, AdditiveModel(terms), certificate, density)


def _checked_number(name: str, value: Any) -> float:
    """Return a finite number as a float; ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"`{name}` must be a finite number, got {value!r}.")
    return float(value)


def _array_of(values: Any, shape: tuple[int, ...]) -> Floats:
    """Return values as an array of some shape, or a number in all cells; TypeError or ValueError otherwise."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"`values` must be numbers, got {type(values).__name__}; pass an array or a mapping.") from None
    if array.shape not in {(), shape}:
        raise ValueError(
            f"`values` must have the shape of the term, {shape}, got {array.shape}; see fx.terms[...].values."
        )
    return np.array(np.broadcast_to(array, shape))


def _cell_text(cell: Any) -> str:
    """Return a cell, a bin or a tuple of bins, as text."""
    return str(cell) if isinstance(cell, str | int) else label_of(list(map(str, cell)))


def _plain_argument(values: Any) -> Any:
    """Return values as plain numbers and text for the history: large arrays and functions by name only."""
    if isinstance(values, Mapping):
        return tuple((_cell_text(cell), float(value)) for cell, value in list(values.items())[:_MOST_NUMBERS])
    if callable(values):
        return getattr(values, "__name__", "a function")
    array = np.asarray(values, dtype=np.float64)
    return tuple(array.ravel().tolist()) if array.size <= _MOST_NUMBERS and array.ndim else _number_or_shape(array)


def _number_or_shape(array: Floats) -> Any:
    return float(array) if not array.ndim else f"an array of shape {array.shape}"
