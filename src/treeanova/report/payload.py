"""All that the page shows, as plain data: checks in words, rows, terms under all densities."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import pathlib
import platform
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from treeanova import __version__, views
from treeanova.core.arrays import Floats, Names, label_of, labels_of
from treeanova.core.progress import Progress, counted, quiet, within
from treeanova.data.columns import columns_of, encode
from treeanova.data.files import records
from treeanova.decomposition.answers import (
    has_readable_raw_form,
    headline,
    is_in_one_cell,
    one_cell_words,
    ranking_of,
    shares_by_order,
)
from treeanova.decomposition.bags import Bag, check_own_errors, errors_by_term
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.explanation import Explanation
from treeanova.decomposition.function import label_of_unlisted
from treeanova.decomposition.impact import ALL_EDITS, Impact, tables_in_words
from treeanova.decomposition.importance import Standing, is_rest, key_of_rest
from treeanova.decomposition.predictions import Term, function_of, tables_of
from treeanova.decomposition.validation import Validation
from treeanova.density import density_of
from treeanova.density.kinds import Reference
from treeanova.errors import BudgetError
from treeanova.report.panel import plain_panel
from treeanova.report.tables import (
    RAW,
    Forms,
    TableMaker,
    binnings_of,
    plain_features,
    positions_of,
    six_digits,
    unit_of,
)
from treeanova.views import percent, value_text

_MAX_BLIND_SPOTS = 12
Check = dict[str, Any]  # an entry of the page: a verdict ("good", "mind", "bad"), a title and a text


def checks(fx: Decomposition) -> list[Check]:
    """Return what the certificate and the density say about a decomposition, in words."""
    of_terms = (_check_sum, _check_purity, _check_cells, _check_higher_orders, _check_remainder)
    of_density = (_check_pairs, _check_uniqueness, _check_dependence, _check_estimates)
    return [entry for check in (*of_terms, *of_density) if (entry := check(fx))]


def _check(verdict: str, title: str, text: str) -> Check:
    return {"verdict": verdict, "title": title, "text": text}


def _check_sum(fx: Decomposition) -> Check:
    """Say whether the terms add up to the model."""
    if function_of(fx).scope.is_part:
        n_terms = function_of(fx).scope.n_terms
        words = function_of(fx).scope.words
        if words:
            text = "The terms were changed by hand, as the page lists: they do not add up to the model."
            return _check("mind", "Edited terms", text)
        text = f"This page shows a selection from {n_terms} terms: they do not add up to the model."
        return _check("mind", "Some terms only", text)
    error = fx.certificate.reconstruction_error
    summands, title = "Intercept and terms", "The terms add up to the model"
    if fx.has_remainder:
        summands, title = "Intercept, terms and remainder", "The terms and the remainder add up to the model"
    text = f"{summands} give the model's own score: the largest difference is {error:.1e} of the largest score."
    return _check("good" if error < 1e-5 else "bad", title, text)


def _check_purity(fx: Decomposition) -> Check:
    """Say whether the terms with tables are pure, and how exactly."""
    certificate = fx.certificate
    largest = f"{certificate.impurity:.1e} of the largest score"
    if certificate.tables_are_pure:
        text = (
            "In every term with a table the weighted mean over each feature is zero: the largest one left is "
            f"{largest} (tolerance: {certificate.tol:.0e}). No part of a main effect is left in an interaction."
        )
        return _check("good", "The terms are pure" if certificate.is_pure else "The terms with a table are pure", text)
    error = f"its numerical error is up to {certificate.purification_error:.1e}"
    text = f"The largest weighted mean left in a term is {largest}, {error}; the tolerance is {certificate.tol:.0e}."
    return _check("bad", "Some terms are not pure", text)


def _check_cells(fx: Decomposition) -> Check | None:
    """Say it if all rows are in one cell, where every term is zero."""
    if not is_in_one_cell(fx.density):
        return None
    words = one_cell_words(fx.density.name)
    return _check("mind", "All rows are in one cell", f"{words[0].upper()}{words[1:]}.")


def _check_higher_orders(fx: Decomposition) -> Check | None:
    """Say how terms without tables were made pure, and how accurate the tables are for it."""
    higher = fx.certificate.higher
    if higher is None or higher.is_raw:
        return None
    low, high = higher.orders
    orders = f"Terms of {low} to {high} features" if high > low else f"Terms of {low} features"
    title = f"{orders} are known at rows only"
    if higher.is_exact:
        return _check("good", title, "They are pure in closed form, since features are independent under this density.")
    text = (
        f"{higher.n_corrected:,} of them were made pure on coarse bins"
        if higher.n_corrected
        else "None of them was corrected for dependence"
    )
    if higher.measured is not None:
        text += f"; measured at rows, slice means of the largest are up to {percent(higher.measured)} of their size"
    accuracy = (
        f"The tables are therefore accurate to about {percent(higher.table_error)} of the largest score, by estimate."
    )
    if math.isnan(higher.table_error):
        accuracy = "How accurate the tables are was not measured, for lack of time."
    return _check("mind", title, f"{text}. {accuracy}")


def _check_uniqueness(fx: Decomposition) -> Check | None:
    """Say what the rows leave undetermined: features determine each other, or supports are not connected."""
    sentences = fx.certificate.uniqueness
    text = " ".join(f"{sentence}." for sentence in sentences)
    return _check("mind", "Not everything is unique", text) if sentences else None


def _check_pairs(fx: Decomposition) -> Check | None:
    """Say how far tables of pairs differ from the joint density of higher orders."""
    gap = fx.certificate.density_gap
    if not gap:
        return None
    text = (
        f"Tables of pairs are estimated one by one. They differ by up to {percent(gap)} of the mass from the joint "
        "density under which higher orders are pure and covariances are computed."
    )
    return _check("mind" if gap > 0.1 else "good", "Pairs and the joint density", text)


def _check_remainder(fx: Decomposition) -> Check | None:
    """Say how much of the score's variance the terms do not explain."""
    share = fx.certificate.remainder_share
    if share is None:
        return None
    which = " of the output where it is largest" if len(fx.outputs) > 1 else ""
    text = f"The remainder, which the terms do not explain, has {percent(share)} of the variance of the score{which}."
    return _check("mind" if share > 0.05 else "good", "There is a remainder", text)


def _check_dependence(fx: Decomposition) -> Check | None:
    """Say how strongly features of a term depend on each other, and the numerical error of its values."""
    terms = {names: term for names, term in fx.certificate.terms.items() if term.n_components == 1}
    if not any(term.max_correlation > 0 for term in terms.values()):
        return None
    names, worst = max(terms.items(), key=lambda item: item[1].max_correlation)
    text = (
        f"The features of {label_of(names)} depend on each other most: maximal correlation "
        f"{worst.max_correlation:.3f}. Numerical error of its values: about {worst.error:.0e} of the largest score."
    )
    if worst.max_correlation > 0.999:
        return _check("mind", "Two features are almost one", f"{text} The data can hardly separate their effects.")
    return _check("good", "Dependence is accounted for", text)


def _check_estimates(fx: Decomposition) -> Check | None:
    """Say which estimates of pairs a density chose, and how often; None if it has no choices."""
    choices = getattr(fx.density, "choices", None)
    if not choices:
        return None
    names = [re.sub(r" ?\d+(\.\d+)?", "", choice.name) for choice in choices.values()]  # without bandwidths
    counts = sorted({name: names.count(name) for name in names}.items(), key=lambda item: (-item[1], item[0]))
    listed = "; ".join(f"{name.replace(', ', ' with ')}: {count}" for name, count in counts)
    text = "For each pair of features, the smoothed estimate that best predicts held-out rows."
    entry = _check("good", "How the joint density was estimated", text)
    return entry | {"details": f"Estimates and the number of pairs that use them: {listed}."}


def blind_spots(fx: Decomposition) -> dict[str, Any]:
    """Return records of terms whose tables have cells without rows or several components, most such cells first."""
    spots = [_blind_spot(fx, names, term) for names, term in tables_of(fx).items() if term.order > 1]
    rows = sorted((row for row in spots if row["empty"] > 0 or row["parts"] > 1), key=lambda row: -float(row["empty"]))
    shown = [row | {"empty": percent(row["empty"]), "unweighted": percent(row["unweighted"])} for row in rows]
    return {"rows": shown[:_MAX_BLIND_SPOTS], "n_more": max(0, len(rows) - _MAX_BLIND_SPOTS)}


def _blind_spot(fx: Decomposition, names: Names, term: Term) -> dict[str, Any]:
    """Return a term's shares of cells without rows and without weight, and the number of components of its support."""
    measured = fx.certificate.terms.get(names)
    unweighted = measured.empty_share if measured else 0.0
    empty, statistics = unweighted, fx.density.statistics
    if statistics is not None:
        empty = float((statistics.counts(positions_of(fx, names), binnings_of(fx, term)) == 0).mean())
    n_components = measured.n_components if measured else 1
    return {"term": label_of(names), "empty": empty, "unweighted": unweighted, "parts": n_components}


_MAX_ROWS = 100
_MAX_TERMS = 25


def plain_rows(
    pure: Mapping[str, Decomposition], rows: Any, unit: float, indices: Mapping[Names, int], progress: Progress = quiet
) -> dict[str, Any]:
    """Return the rows' feature values, and per density and output what the terms add, strongest first."""
    # `indices` are positions on the page of the terms and of what is not a listed term.
    schema = next(iter(pure.values())).schema
    encoded = encode(rows, schema)
    if not 0 < len(encoded) <= _MAX_ROWS:
        raise ValueError(
            f"`rows` must be 1 to {_MAX_ROWS} rows to explain one by one, got {len(encoded)}; pass a few of them."
        )
    pairs = (zip(schema.features, row, strict=True) for row in encoded)
    texts = [[value_text(feature, value, "{:.6g}".format) for feature, value in of_row] for of_row in pairs]
    explained = {}
    for name, fx in pure.items():
        values = fx.explain(rows, progress=within(progress, f"rows, density {name}"))
        explained[name] = _plain_explanation(values, unit, indices)
    return {"features": texts, "explained": explained}


def _plain_explanation(explained: Explanation, unit: float, indices: Mapping[Names, int]) -> list[list[dict[str, Any]]]:
    """Return per row and output the score, the strongest terms and the sum of all others, in whole units."""
    positions = [indices[names] for names in explained.terms]
    intercept = np.atleast_1d(explained.intercept)
    n_rows, n_outputs = len(explained.values), len(intercept)
    values = explained.values.reshape(n_rows, len(positions), n_outputs)
    for label, sums in explained.values_beyond_terms.items():
        positions.append(indices[key_of_rest(label)])
        values = np.concatenate([values, sums.reshape(n_rows, 1, n_outputs)], axis=1)
    return [
        [
            _waterfall(positions, of_output, float(start), unit)
            for of_output, start in zip(row.T, intercept, strict=True)
        ]
        for row in values
    ]


def _waterfall(positions: Sequence[int], values: Floats, intercept: float, unit: float) -> dict[str, Any]:
    """Return the strongest of a row's values, with their positions on the page, in whole units, and the others' sum."""
    strongest = np.argsort(-np.abs(values), kind="stable")[:_MAX_TERMS]
    units = [round(float(values[i]) / unit) for i in strongest]
    shown = [[positions[i], amount] for i, amount in zip(strongest, units, strict=True)]
    base, total = round(intercept / unit), round((intercept + float(values.sum())) / unit)
    remaining = total - base - sum(units)  # so that the numbers shown add up
    return {"intercept": base, "score": total, "terms": shown, "rest": remaining, "n_rest": len(values) - len(shown)}


# Numbers on the page, at about seven bytes each.
_MAIN_NUMBERS, _PAIR_NUMBERS = 100_000, 80_000
_MAIN_BINS = (256, 192, 128, 96, 64, 48, 32, 16)
_PAIR_BINS = (64, 48, 40, 32, 24, 16, 12)
_FEWEST_PAIR_BINS = (8, 6, 4)
_ROWS_PER_CELL = 3


def max_main_bins(sizes: Iterable[int], numbers_per_bin: int) -> int:
    """Return how many bins each main effect, of given numbers of bins, may have for all to fit onto the page."""
    all_sizes = list(sizes)
    fitting = (
        bins for bins in _MAIN_BINS if sum(min(size, bins) for size in all_sizes) * numbers_per_bin <= _MAIN_NUMBERS
    )
    return next(fitting, _MAIN_BINS[-1])


def max_pair_bins(sizes: Sequence[Sequence[int]], numbers_per_cell: int) -> list[int]:
    """Return bins per side of each pair, of given numbers of bins, such that all fit; the first get most."""

    def cost(size: Sequence[int], bins: int) -> int:
        return min(size[0], bins) * min(size[1], bins) * numbers_per_cell

    fitting = (bins for bins in _FEWEST_PAIR_BINS if sum(cost(size, bins) for size in sizes) <= _PAIR_NUMBERS)
    fewest = next(fitting, _FEWEST_PAIR_BINS[-1])
    smallest = [cost(size, fewest) for size in sizes]
    left = _PAIR_NUMBERS - sum(smallest)
    bins_per_side = []
    for size, spent in zip(sizes, smallest, strict=True):
        bins = next((bins for bins in _PAIR_BINS if cost(size, bins) - spent <= left / 3), fewest)
        left -= cost(size, bins) - spent
        bins_per_side.append(bins)
    return bins_per_side


def pair_bins_of_rows(n_rows: int | None) -> int:
    """Return the bins per side beyond which cells would hold fewer than three rows on average."""
    return _PAIR_BINS[0] if n_rows is None else max(_PAIR_BINS[-1], math.isqrt(n_rows // _ROWS_PER_CELL))


def model_name(fx: Decomposition) -> str:
    """Return the name of the model's file or class for titles."""
    if isinstance(fx.model, (str, os.PathLike)):
        return pathlib.Path(fx.model).name
    return "the model" if fx.model is None else type(fx.model).__name__


def python_call_of(fx: Decomposition) -> str:
    """Return the call of `decompose` that makes the decomposition, as readers of the page can write it."""
    max_order = f", max_order={max(map(len, fx.terms), default=1)}" if function_of(fx).scope.order is not None else ""
    is_reference = fx.density.name == Reference.name
    density = "treeanova.density.Reference(row)" if is_reference else json.dumps(fx.density.name)
    statistics = fx.density.statistics
    weights = ", sample_weight=weights" if statistics is not None and statistics.has_weights else ""
    return f"treeanova.decompose(model, X, density={density}{weights}{max_order})"


def scale_words(fx: Decomposition) -> dict[str, Any]:
    """Return the page's words for scores, effects (per output) and the response."""
    return {
        "link": fx.schema.link,
        "score": views.scale_of(fx.schema),
        "effect": [views.effect_words(fx.schema, output, fx.density.baseline) for output in fx.outputs],
        "response": views.response_of(fx.schema),
        "baseline": fx.density.baseline,
    }


def versions(fx: Decomposition) -> dict[str, str]:
    """Return versions by name: of treeanova, numpy, Python and the model's library."""
    libraries = {"treeanova": __version__, "numpy": np.__version__, "Python": platform.python_version()}
    library = type(fx.model).__module__.partition(".")[0]
    version = getattr(sys.modules.get(library), "__version__", None)
    return libraries if version is None or library == "treeanova" else libraries | {library: str(version)}


_MEASURES = ("loss_change", "error", "p_value", "p_holm", "slope", "share", "model_share")


def checked_errors(fx: Decomposition, errors: Any) -> Mapping[Names, Floats]:
    """Return standard errors of tables by features, outputs last, from a user's argument; empty for None."""
    if errors is None:
        return {}
    if not isinstance(errors, Mapping | Bag):
        kind = type(errors).__name__
        raise TypeError(f"`errors` must be a Bag or what standard_errors() returned, got {kind}; or leave it out.")
    checked = {}
    for names, deviations in (errors_by_term(errors) or {}).items():
        term, table = fx.terms.get(names), np.asarray(deviations, dtype=np.float64)
        if term is None or not term.has_table or table.shape != term.values.shape:
            right = "no such table" if term is None or not term.has_table else f"shape {term.values.shape}"
            raise ValueError(
                f"`errors` must be those of `fx`, which has {right} for {label_of(names)!r}, got shape {table.shape}; "
                "pass a Bag together with its own fx."
            )
        check_own_errors(errors, term)
        checked[term.features] = table.reshape(*term.weights.shape, -1)
    return checked


def checked_validation(validation: Any) -> Validation | None:
    """Return the argument; TypeError unless it is a validation or None."""
    if validation is None or isinstance(validation, Validation):
        return validation
    kind = type(validation).__name__
    raise TypeError(f"`validation` must be a Validation, got {kind}; make one with fx.validate(X, y).")


def checked_impact(fx: Decomposition, impact: Any) -> Impact | None:
    """Return the argument; TypeError unless it is an impact or None, ValueError if it is of other edits."""
    if impact is None:
        return None
    if not isinstance(impact, Impact):
        kind = type(impact).__name__
        raise TypeError(f"`impact` must be an Impact, got {kind}; make one with fx.impact(X, y).")
    edits, told = {edit.words for edit in fx.history}, {row["edit"] for row in records(impact.table)} - {ALL_EDITS}
    if told != edits:
        raise ValueError("`impact` must be of the same edits as the decomposition, got others; call fx.impact(X, y).")
    return impact


def plain_changes(fx: Decomposition, impact: Impact | None) -> dict[str, Any] | None:
    """Return what was changed by hand: edits with what they state, and tables of their impact in words."""
    if not fx.history:
        return None

    def numbers(value: Any) -> list[float]:
        return [] if value is None else [six_digits(number) for number in np.atleast_1d(value).tolist()]

    edits = [
        {
            "words": edit.words,
            "note": edit.note,
            "moved": list(edit.moved),
            "breaks": list(edit.breaks),
            "rms": numbers(edit.rms),
            "largest": numbers(edit.largest),
            "share": None if edit.share is None else percent(edit.share),
            "rows": edit.n_rows,
        }
        for edit in fx.history
    ]
    tables = [] if impact is None else [[title, rows] for title, rows in tables_in_words(impact).items()]
    return {"edits": edits, "tables": tables}


def plain_validation(validation: Validation | None) -> dict[str, Any] | None:
    """Return a validation as plain data: losses, and per term its label, output, measures and aliases."""
    if validation is None:
        return None
    table = columns_of(validation.table)
    outputs = table.get("output", [None] * len(table["term"]))
    measures = zip(*(map(_six_digits_or_none, table[name]) for name in _MEASURES), strict=True)
    return {
        "loss": validation.loss,
        "rows": validation.n_rows,
        "model": [six_digits(float(loss)) for loss in np.atleast_1d(validation.model_loss)],
        "constant": [_six_digits_or_none(float(loss)) for loss in np.atleast_1d(validation.constant_loss)],
        "dispensable": list(validation.dispensable),
        "significant": list(validation.significant),
        "notes": list(validation.notes),
        "terms": [
            [label, output, *numbers, aliases]
            for label, output, numbers, aliases in zip(table["term"], outputs, measures, table["aliases"], strict=True)
        ],
    }


def _six_digits_or_none(number: float) -> float | None:
    return six_digits(float(number)) if math.isfinite(number) else None


_MAX_CELLS = 10_000_000


def payload(
    fx: Decomposition,
    progress: Progress = quiet,
    *,
    title: str | None,
    densities: Mapping[str, Any],
    are_named: bool = True,
    rows: Any,
    max_terms: int,
    errors: Mapping[Names, Floats] = MappingProxyType({}),
    validation: Validation | None = None,
    impact: Impact | None = None,
) -> dict[str, Any]:
    """Return the content of the page as plain data; `are_named` says whether the caller asked for these densities."""
    pure, missing = under_densities(fx, densities, progress, are_named=are_named)
    raw = {}
    for name, form in pure.items():
        order = None if form is fx else function_of(form).scope.order
        raw[name] = form.raw if order is None else form.raw.truncate(order)
    _rank_all_terms(pure, raw, progress)
    content = Payload(pure, raw, errors)
    terms, maker = content.terms(max_terms, progress)
    statistics, forms = fx.density.statistics, content.forms.by_name
    return {
        "title": title or f"What {model_name(fx)} has learned",
        "model": model_name(fx),
        "rows": None if statistics is None else statistics.n_rows,
        "densities": list(pure),
        "missing_densities": missing,
        "outputs": list(fx.outputs),
        "scale": scale_words(fx),
        "unit": maker.unit,
        "intercepts": {name: np.atleast_1d(form.intercept).tolist() for name, form in forms.items()},
        "headlines": content.headlines(),
        "variance_words": views.variance_words(fx.schema, is_part=function_of(fx).scope.is_part),
        "negative_share": views.NEGATIVE_SHARE,
        "offset_share": views.OFFSET,
        "call": python_call_of(fx),
        "n_terms_of_model": function_of(fx).scope.n_terms,
        "has_remainder": fx.has_remainder,
        "reconstruction_errors": {name: form.certificate.reconstruction_error for name, form in forms.items()},
        "features": plain_features(fx),
        "axes": maker.axes,
        "terms": terms,
        "local": None if rows is None else plain_rows(pure, rows, maker.unit, content.indices, progress),
        "panel": plain_panel(fx, content.rankings[fx.density.name]),
        "validation": plain_validation(validation),
        "changes": plain_changes(fx, impact),
        "checks": {name: {"entries": checks(form), "blind": blind_spots(form)} for name, form in pure.items()},
        "versions": versions(fx),
    }


def under_densities(
    fx: Decomposition, densities: Mapping[str, Any], progress: Progress = quiet, *, are_named: bool = True
) -> tuple[dict[str, Decomposition], dict[str, str]]:
    """Return the model under its own and other densities by name, and why some are missing."""
    # If not all terms are listed, those without a table are one remainder under other densities; under densities that
    # the caller did not name, even if they are listed.
    forms = {fx.density.name: fx}
    missing: dict[str, str] = {}
    highest = max((term.order for term in tables_of(fx).values()), default=0)
    function = function_of(fx)
    at_rows = function.terms.keys_at_rows and not function.scope.is_part  # of a selection they cannot be purified again
    are_cut = function.unlisted_orders or (at_rows and not are_named)
    tables = fx.truncate(highest) if are_cut else fx
    for name, asked in densities.items():
        if name in forms:
            continue
        kind = density_of(asked)
        reason = None if are_named else _too_slow(fx, kind)
        if reason is not None:
            missing[name] = f"{reason}; name it in `densities` to include it."
            continue
        try:
            forms[name] = tables.with_density(kind, progress=within(progress, f"density {name}"))
        except (ValueError, BudgetError) as error:
            missing[name] = str(error)
    return forms, missing


def _too_slow(fx: Decomposition, kind: Any) -> str | None:
    """Return why the model is not purified under a density that nobody asked for, or None."""
    n_cells = sum(term.values.size for term in tables_of(fx).values())
    if n_cells > _MAX_CELLS:
        return f"tables have {n_cells:,} cells and each density takes as long as the first"
    if (function_of(fx).terms.keys_at_rows or function_of(fx).unlisted_orders) and not _is_product(fx, kind):
        return "it would take as long as the first"
    return None


def _is_product(fx: Decomposition, kind: Any) -> bool:
    """Whether features are independent; True for a density that cannot be used, which reports that itself."""
    try:
        return bool(kind.bind(fx.grid, fx.density.statistics).is_product)
    except ValueError:
        return True


def _rank_all_terms(pure: Mapping[str, Decomposition], raw: Mapping[str, Decomposition], progress: Progress) -> None:
    """Compute importances, which decompositions remember, with progress."""
    for name, fx in pure.items():
        fx.importance(progress=within(progress, f"importance, density {name}"))
        with contextlib.suppress(ValueError):  # a saved decomposition has no rows to rank raw terms at
            raw[name].importance(progress=within(progress, f"raw importance, density {name}"))


class Payload:
    """One model in several forms, pure under each density and raw, as plain data of the page."""

    def __init__(
        self,
        pure: Mapping[str, Decomposition],
        raw: Mapping[str, Decomposition],
        errors: Mapping[Names, Floats] = MappingProxyType({}),
    ) -> None:
        self.pure: dict[str, Decomposition] = dict(pure)
        self.main: Decomposition = next(iter(pure.values()))
        self.forms: Forms = Forms({**self.pure, RAW: next(iter(raw.values()))}, errors)
        self.rankings: dict[str, dict[str, list[Standing]]] = _rankings(self.pure, raw)
        self.labels: dict[Names, tuple[str, int]] = self._labels_and_orders()
        self.ranked: list[Names] = self._names_by_variance()
        self.indices: dict[Names, int] = {names: i for i, names in enumerate(self.ranked)}  # of terms on the page

    def _labels_and_orders(self) -> dict[Names, tuple[str, int]]:
        """Return label and order of every term of any form, those with a table first, of sums and a remainder."""
        ranked = (term for ranking in self.rankings.values() for terms in ranking.values() for term in terms)
        listed = {term.key: (term.label, term.order) for term in ranked}
        with_table = list(dict.fromkeys(itertools.chain.from_iterable(self.forms.tables.values())))
        labels = zip(with_table, labels_of(with_table, self.main.schema.names), strict=True)
        return {names: (label, len(names)) for names, label in labels} | listed

    def _names_by_variance(self) -> list[Names]:
        """Return names of all terms, the largest variance of any output under the first density first."""
        best = dict.fromkeys(self.labels, -np.inf)
        for terms in self.rankings[next(iter(self.pure))].values():
            for term in terms:
                best[term.key] = max(best[term.key], term.variance)
        return sorted(best, key=lambda names: -best[names])

    def terms(self, max_terms: int, progress: Progress = quiet) -> tuple[list[dict[str, Any]], TableMaker]:
        """Return all terms, the first `max_terms` with tables, and the maker that has the unit and all axes."""
        position = {name: j for j, name in enumerate(self.main.schema.names)}
        maker = TableMaker(self.forms, unit_of(self._largest_value()))
        has_table = {names for names in self.ranked if self.forms.terms_by_form(names)}
        tables = self._tables([names for names in self.ranked if names in has_table][:max_terms], maker, progress)
        standing = self._standing_by_ranking()
        sums = {
            key_of_rest(label_of_unlisted(order))
            for fx in self.pure.values()
            for order in function_of(fx).unlisted_orders
        }
        plain = []
        for names in self.ranked:
            label, order = self.labels[names]
            term: dict[str, Any] = {"order": order, "standing": standing[names]}
            term |= {"label": label} if label != label_of(names) else {}
            term |= {} if is_rest(names) else {"features": [position[name] for name in names]}
            term |= {"is_sum": True} if names in sums else {}
            term |= {} if names in has_table else {"at_rows": True}
            plain.append(term | tables.get(names, {}))
        return plain, maker

    def _standing_by_ranking(self) -> dict[Names, dict[str, list[Any]]]:
        """Return, per term, ranking and output, the rank, variance, share and mean absolute value, or None."""
        n_outputs = len(self.main.outputs)
        standing: dict[Names, dict[str, list[Any]]] = {names: {} for names in self.ranked}
        for name, ranking in self.rankings.items():
            for k, terms in enumerate(ranking.values()):
                for rank, term in enumerate(terms, start=1):
                    row = standing[term.key].setdefault(name, [None] * n_outputs)
                    row[k] = [rank, round(term.variance, 6), round(term.share, 6), six_digits(term.mean_abs)]
        return standing

    def _tables(self, terms: list[Names], maker: TableMaker, progress: Progress) -> dict[Names, dict[str, Any]]:
        """Return tables of main effects and pairs, and the strongest cells of higher orders, as plain data."""
        mains, pairs = ([names for names in terms if self.labels[names][1] == order] for order in (1, 2))
        numbers_per_bin = len(self.main.outputs) * (len(self.forms.by_name) + bool(self.forms.errors)) + 1
        main_bins = max_main_bins((self.forms.sizes(names)[0] for names in mains), numbers_per_bin)
        bins = dict.fromkeys(mains, main_bins) | dict(zip(pairs, self._pair_bins(pairs), strict=True))
        in_order = [*bins, *(names for names in terms if names not in bins)]
        tables = {
            names: maker.table(names, bins[names]) if names in bins else maker.strongest_cells(names)
            for names in counted(progress, "tables of the page", in_order, len(in_order))
        }
        choices = getattr(self.main.density, "choices", None) or {}
        words = {names: {"choice": choice.name} for names, choice in choices.items()}
        return {names: table | words.get(names, {}) for names, table in tables.items()}

    def _pair_bins(self, pairs: list[Names]) -> list[int]:
        """Return the number of bins per side that each pair may have."""
        highest = max((order for _, order in self.labels.values()), default=1)
        # Without higher orders, forms of a pair differ by main effects only, so these are stored instead.
        n_whole = (1 if highest <= 2 else len(self.forms.by_name)) + bool(self.forms.errors)  # tables per pair
        sizes = [self.forms.sizes(names)[:2] for names in pairs]
        statistics = self.main.density.statistics
        limit = pair_bins_of_rows(None if statistics is None else statistics.n_rows)
        return [min(bins, limit) for bins in max_pair_bins(sizes, len(self.main.outputs) * n_whole + 1)]

    def _largest_value(self) -> float:
        """Return the largest absolute value in the tables of all forms."""
        terms = itertools.chain.from_iterable(table.values() for table in self.forms.tables.values())
        return max((float(np.abs(term.values).max(initial=0.0)) for term in terms), default=0.0)

    def headlines(self) -> dict[str, list[dict[str, Any]]]:
        """Return `_headline` per ranking (a density, or a density with ``/raw``) and output."""
        return {name: [self._headline(name, output) for output in self.main.outputs] for name in self.rankings}

    def _headline(self, name: str, output: str) -> dict[str, Any]:
        """Return a sentence, shares by order, the sum of variances, and whether the raw form can be read."""
        ranking, is_part = self.rankings[name][output], function_of(self.main).scope.is_part
        raw = self.rankings.get(f"{name}/{RAW}", {}).get(output)
        sentence = headline(ranking, None if is_part else raw, is_part=is_part)
        return {
            "sentence": f"Before purification: {sentence}" if name.endswith(f"/{RAW}") else sentence,
            "orders": [round(share, 6) for share in shares_by_order(ranking)],
            "sum": views.sum_words(term.variance for term in ranking),
            "reads_raw": raw is not None and has_readable_raw_form([*ranking, *raw]),
        }


def _rankings(
    pure: Mapping[str, Decomposition], raw: Mapping[str, Decomposition]
) -> dict[str, dict[str, list[Standing]]]:
    """Return per ranking (a density, or a density with ``/raw``) and output the terms, strongest first."""
    rankings = {name: ranking_of(fx).standings for name, fx in pure.items()}
    for name, fx in raw.items():
        with contextlib.suppress(ValueError):  # it needs rows that are gone, as for a saved decomposition
            rankings[f"{name}/{RAW}"] = ranking_of(fx).standings
    return rankings
