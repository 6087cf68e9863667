"""Validation: which terms hold up on held-out rows: how much worse is the loss without a term, and its p-value."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Key, check_unmasked
from treeanova.core.progress import Progress, counted, one_step
from treeanova.data.columns import encode, frame_of_rows, printable
from treeanova.data.files import records
from treeanova.decomposition.evidence import Evidence, evidence_of, slope_of
from treeanova.decomposition.function import Function, per_output
from treeanova.decomposition.held_out import HeldOut, LossRows, held_out, notes_on_scale, outcome_of, questions_of
from treeanova.decomposition.result import Result, aligned_rows, first_names_text
from treeanova.density.counting import NEGLIGIBLE_WEIGHT
from treeanova.density.statistics import checked_weights
from treeanova.model.rows import Rows
from treeanova.views import percent

_FEWEST_UNITS = 30
_LEVEL = 0.05
_POWERABLE = 1e-70, 1e70  # sizes whose fourth powers are floats with all digits
_MEASURES = ("loss_change", "error", "p_value", "p_holm", "slope", "share", "model_share")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Validation(Result):
    """Tests of each term on held-out rows; made by `Decomposition.validate`.

    1. How much worse is the loss without the term? `loss_change` and `error`.
    2. Does the outcome follow the term, given all the others? `p_value` and `p_holm`.

    Attributes
    ----------
    table
        Table with a row per term, and per target if there are several, the largest change of loss first. `loss_change`
        is the mean loss without the term minus that of the model, and `error` its standard error. `p_value` is
        one-sided, for the term's coefficient in a regression of the outcome on all terms and on curves of all features;
        `p_holm` is corrected for the number of p-values of the table by Holm's method. `aliases` names other terms that
        these rows cannot distinguish from the term: they are tested as one sum. `slope` is the multiple of the term
        with the smallest loss: 1 for a calibrated term, 0 for noise, above 1 for one that is shrunk too much. `share`
        is the share of the outcome's variance that the term explains, and `model_share` its share of the score's
        variance at the same rows. NaN: not defined.
    loss
        Name of the loss.
    model_loss, constant_loss
        Mean loss of the model, and of the best constant; arrays if there are several targets.
    n_rows
        Number of held-out rows; those of weight zero do not count.
    dispensable
        Labels of interactions without which the loss grows by at most two standard errors; among them sums of
        interactions that are not listed one by one, such as the remainder.
    significant
        Labels of terms with `p_holm` below 0.05, alone or with their aliases.
    groups
        Labels of terms that are tested together.
    notes
        What could not be computed.

    Examples
    --------
    >>> import numpy as np
    >>> from treeanova.testing import example
    >>> fx, X = example()  # the logical "and" of x0 and x1
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.integers(0, 2, size=(200, 2))
    >>> y = rows[:, 0] + rng.normal(size=200)  # the outcome depends on x0 only
    >>> validation = fx.validate(rows, y)
    >>> validation.significant
    ('x0',)
    >>> validation.dispensable
    ('x0 × x1',)
    """

    table: Any
    loss: str
    model_loss: float | Floats
    constant_loss: float | Floats
    n_rows: int
    dispensable: tuple[str, ...]
    significant: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()

    def _content_of_dict(self) -> dict[str, Any]:
        names = [field.name for field in dataclasses.fields(self) if field.name != "table"]
        return {name: getattr(self, name) for name in names} | {"terms": records(self.table)}

    def _text_of_top(self, top: int) -> str:
        rows = records(self.table)
        n_tests = sum(not np.isnan(row["p_value"]) for row in rows)
        lines = [
            {"term": row["term"]}
            | ({"output": row["output"]} if "output" in row else {})
            | {"loss without": f"{row['loss_change']:+.4g}", "error": f"{row['error']:.2g}"}
            | {"p": p_text(row["p_value"]), "p (Holm)": p_text(row["p_holm"]), "slope": f"{row['slope']:.2f}"}
            | {"explains": percent(row["share"]), "of the score": percent(row["model_share"])}
            | ({"tested with": row["aliases"]} if self.groups else {})
            for row in rows
        ]
        tested = [
            printable(f"Tested together, since these rows cannot distinguish them: {' or '.join(group)}")
            for group in self.groups
        ]
        return (
            f"{self.n_rows:,} rows, {self.loss}: {_losses_text(self.model_loss)} for the model, "
            f"{_losses_text(self.constant_loss)} for the best constant\n"
            "1. How much worse is the loss without the term? (loss without, and its standard error)\n"
            f"   Interactions that can be left out (the loss grows by at most two errors): "
            f"{first_names_text(self.dispensable)}\n"
            "2. Does the outcome follow the term, given all the others? (p, one-sided)\n"
            f"   Significant, corrected for all {n_tests} p-values (Holm): {first_names_text(self.significant)}\n"
            f"{''.join(f'   {note}{chr(10)}' for note in (*tested, *self.notes))}\n"
            f"{aligned_rows(lines, top)}\n\n"
            "slope: 1 calibrated, 0 noise; explains: share of the outcome's variance, next to the term's share of the\n"
            "score's."
        )


def p_text(p_value: float) -> str:
    return "–" if np.isnan(p_value) else "<0.0001" if p_value < 1e-4 else f"{p_value:.4f}"


def _losses_text(losses: Any) -> str:
    """List one loss, or those of several outputs."""
    return ", ".join(f"{loss:.6g}" for loss in np.atleast_1d(losses))


def validate(
    function: Function,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    loss: Any,
    group: Any,
    backend: str | None,
    progress: Progress,
) -> Validation:
    """Test each term at held-out rows; `group` is for rankings, `loss` by default the model's objective."""
    schema = function.grid.schema
    questions = questions_of(schema, loss)
    if group is not None and all(question.loss.outcome != "grades" for question in questions):
        raise ValueError(
            f"`group` must be left out for {questions[0].name}, got groups: they are for rankings, and standard errors "
            "of other losses take rows as independent."
        )
    encoded = encode(X, schema)
    n_rows, weights, is_counted = len(encoded), np.ones(len(encoded)), np.ones(len(encoded), dtype=bool)
    if sample_weight is not None:
        weights, is_counted = counting_weights(sample_weight, n_rows)
        encoded = np.asfortranarray(encoded[is_counted])
    outcomes = [outcome_of(schema, question, y, n_rows, is_counted) for question in questions]
    ids = None if group is None else group_ids(group, is_counted)
    check_number("rows", "`X`", len(encoded))
    rows = Rows(encoded)
    with one_step(progress, "terms at rows"):
        values = function.all_at(rows.bins(function.grid))
    score = function.score(rows)
    keys: list[Key | None] = [*function.terms.keys, *[None] * (values.shape[1] - len(function.terms.keys))]
    labels, orders = function.components.labels(schema.names), function.components.orders
    table: list[dict[str, Any]] = []
    losses: list[tuple[float, float]] = []
    notes = notes_on_scale(schema, loss)
    pairs = list(zip(questions, outcomes, strict=True))
    for question, outcome in counted(progress, "losses", pairs, len(pairs)):
        held = held_out(question, score[:, question.outputs], outcome, weights, ids)
        check_number(_UNITS.get(held.loss.outcome, "rows"), "`y`", held.n_units)
        check_size(held)
        columns = np.swapaxes(values[..., question.outputs], 0, 1)  # (n_terms, n_rows, n_outputs)
        evidence, measures = evidence_of(held, columns, keys, encoded, schema), _measures_of_terms(held, columns)
        named = {"output": schema.outputs[question.outputs[0]]} if len(questions) > 1 else {}
        for position, aliases in enumerate(_alias_labels(evidence, labels, schema.names)):
            tested = {"p_value": float(evidence.p_values[position]), "aliases": ", ".join(aliases)}
            of_term = {"term": labels[position], "order": orders[position], "group": (labels[position], *aliases)}
            table.append(of_term | named | measures[position] | tested)
        losses.append((held.mean_loss(held.score), held.constant_loss()))
        notes += _notes_on_missing_p_values(evidence, labels)
    name, n_rows = questions[0].name, len(encoded)
    return _validation(table, np.array(losses).T, name, n_rows=n_rows, notes=notes, backend=backend)


def counting_weights(sample_weight: npt.ArrayLike, n_rows: int) -> tuple[Floats, Bools]:
    """Return weights of mean 1, and which rows count: not those of weight zero, or nearly zero."""
    weights = checked_weights(sample_weight, n_rows)
    weights = weights / weights.max()  # sums of huge weights would overflow
    is_counted = weights > NEGLIGIBLE_WEIGHT
    return weights[is_counted] / weights[is_counted].mean(), is_counted


def group_ids(group: npt.ArrayLike, is_counted: Bools) -> npt.NDArray[Any]:
    """Return the groups of the rows that count, from those of all rows."""
    if isinstance(group, str):
        raise TypeError(f"`group` must have one entry per row of `X`, got {group!r}; pass the column, as X[{group!r}].")
    check_unmasked("group", group)
    ids = np.asarray(group).ravel()
    if len(ids) != len(is_counted):
        raise ValueError(
            f"`group` must have one entry per row of `X`, {len(is_counted)}, got {len(ids)}; pass the group of each "
            "row, not the sizes of groups."
        )
    return ids[is_counted]


_UNITS = {"times": "events", "grades": "groups with different grades"}


def check_number(units: str, where: str, n_units: int) -> None:
    """Raise ValueError if an argument (`where`) has too few units, such as "events", for standard errors."""
    if n_units < _FEWEST_UNITS:
        raise ValueError(
            f"{where} must have at least {_FEWEST_UNITS} {units} for standard errors, got {n_units}; add held-out rows."
        )


def check_size(held: HeldOut) -> None:
    """Raise ValueError for losses that overflow, and for outcomes whose squared losses, squared again, would."""
    if not np.isfinite(held.mean_loss(held.score)):
        largest_score = float(np.abs(held.score).max())
        raise ValueError(
            f"`loss` must be finite, got an infinite {held.loss.name} with scores up to {largest_score:.3g}; pass "
            "another loss."
        )
    if not isinstance(held, LossRows) or not held.loss.is_on_scale:
        return
    size = max(float(np.abs(numbers).max(initial=0.0)) for numbers in (held.outcome, held.score))
    if size > 0 and not _POWERABLE[0] < size < _POWERABLE[1]:
        raise ValueError(
            f"`y` and the scores must have sizes between {_POWERABLE[0]:g} and {_POWERABLE[1]:g} for errors of losses, "
            f"got {size:.3g}; express the target in another unit and train the model again."
        )


def _measures_of_terms(held: HeldOut, values: Floats) -> list[dict[str, float]]:
    """Return changes of the loss, slope and shares of each term by name, from values (n_terms, n_rows, n_outputs)."""
    measures = []
    for term, (share, model_share) in zip(values, _shares_of_variance(held, values), strict=True):
        change, error = held.loss_change(held.score - term)
        of_loss = {"loss_change": change, "error": error, "slope": slope_of(held, term)}
        measures.append(of_loss | {"share": share, "model_share": model_share})
    return measures


def _shares_of_variance(held: HeldOut, values: Floats) -> list[tuple[float, float]]:
    """Return each term's shares in the variances of outcome and score, from values (n_terms, n_rows, n_outputs)."""
    # A score on another scale is first mapped to the outcome by linear regression. Censored times, grades within groups
    # and outcomes of a function have no such variance.
    weights = held.row_weights[:, None] / held.row_weights.sum()
    centred, score = (_centred(held.loss.without_invariant_part(numbers), weights) for numbers in (values, held.score))
    of_score = float((weights * score**2).sum())
    model_shares = (centred * weights * score).sum(axis=(1, 2)) / of_score if of_score > 0 else np.zeros(len(values))
    if not isinstance(held, LossRows) or held.loss.outcome in {"intervals", "anything"}:
        return [(np.nan, share) for share in model_shares.tolist()]
    outcome = _centred(held.outcome, weights)
    of_outcome = (weights * outcome**2).sum()
    factor = 1.0 if held.loss.is_on_scale or not of_score > 0 else (weights * score * outcome).sum() / of_score
    shares = factor * (centred * weights * outcome).sum(axis=(1, 2)) / of_outcome
    return list(zip(shares.tolist(), model_shares.tolist(), strict=True))


def _centred(values: Floats, weights: Floats) -> Floats:
    """Subtract weighted means over rows, the last axis but one."""
    means: Floats = np.tensordot(values, weights[:, 0], axes=(-2, 0))
    return values - np.expand_dims(means, -2)


def holm(p: Sequence[float] | Floats) -> Floats:
    """Correct p-values for their number by Holm's method; NaN does not count.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")[: int(np.isfinite(values).sum())]
    steps = np.maximum.accumulate(values[order] * np.arange(len(order), 0, -1))
    corrected = np.full_like(values, np.nan)
    corrected[order] = np.minimum(steps, 1.0)
    return corrected


def _alias_labels(evidence: Evidence, labels: Sequence[str], features: Sequence[str]) -> list[list[str]]:
    """Return, per term, the labels of the terms and of the features' curves that it is tested with."""
    aliases = []
    for terms, curves in zip(evidence.terms, evidence.features, strict=True):
        names = [labels[term] for term in terms]
        aliases.append([*names, *(features[j] for j in curves if features[j] not in names)])
    return aliases


def _notes_on_missing_p_values(evidence: Evidence, labels: Sequence[str]) -> list[str]:
    """Say why terms, given by their labels, have no p-value."""
    if evidence.reason:
        return [f"no p-values: {evidence.reason}"]
    return [f"no p-value for {label}: {why}" for label, why in zip(labels, evidence.reasons, strict=True) if why]


def _distinct_groups(groups: Sequence[tuple[str, ...]], ranked: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return each group of several labels once; labels and groups are in the order of `ranked`, all labels."""
    rank = {label: position for position, label in reversed(list(enumerate(ranked)))}
    by_rank = [tuple(sorted(group, key=lambda label: rank.get(label, len(rank)))) for group in groups]
    by_rank.sort(key=lambda group: rank.get(group[0], len(rank)))
    return tuple(dict.fromkeys(group for group in by_rank if len(group) > 1))


def _validation(
    rows: list[dict[str, Any]], losses: Floats, loss: str, *, n_rows: int, notes: Sequence[str], backend: str | None
) -> Validation:
    """Rank records of terms by change of loss; `losses`, (2, n_outputs), are those of the model and of a constant."""
    groups = [row["group"] for row in rows]
    corrected = holm([row["p_value"] for row in rows])
    rows = [row | {"p_holm": float(p)} for row, p in zip(rows, corrected, strict=True)]
    rows.sort(key=lambda row: -row["loss_change"])
    names = ["term", *(["output"] if losses.shape[1] > 1 else []), "order", *_MEASURES, "aliases"]
    model_loss, constant_loss = map(per_output, losses)
    idle = [row["term"] for row in rows if row["order"] > 1 and row["loss_change"] <= 2 * row["error"]]
    useful = {row["term"] for row in rows if row["loss_change"] > 2 * row["error"]}
    return Validation(
        frame_of_rows(rows, names, backend),
        loss,
        model_loss,
        constant_loss,
        n_rows,
        tuple(dict.fromkeys(label for label in idle if label not in useful)),
        tuple(dict.fromkeys(row["term"] for row in rows if row["p_holm"] < _LEVEL)),
        _distinct_groups(groups, [row["term"] for row in rows]),
        tuple(dict.fromkeys(notes)),
    )
