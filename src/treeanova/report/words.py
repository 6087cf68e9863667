"""The certificate and other caveats, in plain words."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from treeanova.core.arrays import Names, label_of
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.predictions import function_of
from treeanova.decomposition.term import Term
from treeanova.report.tables import binnings_of, positions_of, tables_of
from treeanova.views import percent

_MAX_TERMS = 12
Entry = dict[str, Any]


def checks(fx: Decomposition) -> list[Entry]:
    all_checks: list[Callable[[Decomposition], Entry | None]] = [
        _sum,
        _purity,
        _higher,
        _remainder,
        _gap,
        _aliases,
        _dependence,
        _choices,
    ]
    return [entry for check in all_checks if (entry := check(fx))]


def _entry(verdict: str, title: str, text: str) -> Entry:
    return {"verdict": verdict, "title": title, "text": text}


def _sum(fx: Decomposition) -> Entry:
    if function_of(fx).scope.is_part:
        n_terms = function_of(fx).scope.n_terms
        text = f"This page shows a selection from {n_terms} terms: they do not add up to the model."
        return _entry("mind", "Some terms only", text)
    error = fx.certificate.reconstruction_error
    summands, title = "Intercept and terms", "The terms add up to the model"
    if fx.has_remainder:
        summands, title = "Intercept, terms and remainder", "The terms and the remainder add up to the model"
    text = f"{summands} give the model's own score: the largest difference is {error:.1e} of the largest score."
    return _entry("good" if error < 1e-5 else "bad", title, text)


def _purity(fx: Decomposition) -> Entry:
    certificate = fx.certificate
    largest = f"{certificate.impurity:.1e} of the largest score"
    if certificate.tables_are_pure:
        text = (
            "In every term with a table the weighted mean over each feature is zero: the largest one left is "
            f"{largest} (tolerance: {certificate.tol:.0e}). No part of a main effect is left in an interaction."
        )
        return _entry("good", "The terms are pure" if certificate.is_pure else "The terms with a table are pure", text)
    error = f"its numerical error is up to {certificate.purification_error:.1e}"
    text = f"The largest weighted mean left in a term is {largest}, {error}; the tolerance is {certificate.tol:.0e}."
    return _entry("bad", "Some terms are not pure", text)


def _higher(fx: Decomposition) -> Entry | None:
    higher = fx.certificate.higher
    if higher is None:
        return None
    low, high = higher.orders
    orders = f"Terms of {low} to {high} features" if high > low else f"Terms of {low} features"
    title = f"{orders} are known at rows only"
    if higher.is_exact:
        return _entry("good", title, "They are pure in closed form, since features are independent under this density.")
    text = (
        f"{higher.n_corrected:,} of them were made pure on coarse bins"
        if higher.n_corrected
        else "None of them was corrected for dependence"
    )
    if higher.measured is not None:
        text += f"; measured at rows, slice means of the largest are up to {percent(higher.measured)} of their size"
    return _entry("mind", title, f"{text}. {_accuracy(higher.table_error)}")


def _accuracy(error: float) -> str:
    if math.isnan(error):
        return "How accurate the tables are was not measured, for lack of time."
    return f"The tables are therefore accurate to about {percent(error)} of the largest score, by estimate."


def _aliases(fx: Decomposition) -> Entry | None:
    """Say what the rows leave undetermined: features determine each other, or supports are not connected."""
    sentences = fx.certificate.uniqueness
    text = " ".join(f"{sentence}." for sentence in sentences)
    return _entry("mind", "Not everything is unique", text) if sentences else None


def _gap(fx: Decomposition) -> Entry | None:
    """Say how far tables of pairs differ from the joint density of higher orders."""
    gap = fx.certificate.density_gap
    if not gap:
        return None
    text = (
        f"Tables of pairs are estimated one by one. They differ by up to {percent(gap)} of the mass from the joint "
        "density under which higher orders are pure and covariances are computed."
    )
    return _entry("mind" if gap > 0.1 else "good", "Pairs and the joint density", text)


def _remainder(fx: Decomposition) -> Entry | None:
    share = fx.certificate.remainder_share
    if share is None:
        return None
    which = " of the output where it is largest" if len(fx.outputs) > 1 else ""
    text = f"The remainder, which the terms do not explain, has {percent(share)} of the variance of the score{which}."
    return _entry("mind" if share > 0.05 else "good", "There is a remainder", text)


def _dependence(fx: Decomposition) -> Entry | None:
    terms = {names: term for names, term in fx.certificate.terms.items() if term.n_components == 1}
    if not any(term.max_correlation > 0 for term in terms.values()):
        return None
    names, worst = max(terms.items(), key=lambda item: item[1].max_correlation)
    text = (
        f"The features of {label_of(names)} depend on each other most: maximal correlation "
        f"{worst.max_correlation:.3f}. Numerical error of its values: about {worst.error:.0e} of the largest score."
    )
    if worst.max_correlation > 0.999:
        return _entry("mind", "Two features are almost one", f"{text} The data can hardly separate their effects.")
    return _entry("good", "Dependence is accounted for", text)


def _choices(fx: Decomposition) -> Entry | None:
    choices = getattr(fx.density, "choices", None)
    if not choices:
        return None
    names = [re.sub(r" ?\d+(\.\d+)?", "", choice.name) for choice in choices.values()]  # without bandwidths
    counts = sorted({name: names.count(name) for name in names}.items(), key=lambda item: (-item[1], item[0]))
    listed = "; ".join(f"{name.replace(', ', ' with ')}: {count}" for name, count in counts)
    text = "For each pair of features, the smoothed estimate that best predicts held-out rows."
    entry = _entry("good", "How the joint density was estimated", text)
    return entry | {"details": f"Estimates and the number of pairs that use them: {listed}."}


def blind_spots(fx: Decomposition) -> dict[str, Any]:
    spots = [_blind_spot(fx, names, term) for names, term in tables_of(fx).items() if term.order > 1]
    rows = sorted((row for row in spots if row["empty"] > 0 or row["parts"] > 1), key=lambda row: -float(row["empty"]))
    shown = [row | {"empty": percent(row["empty"]), "unweighted": percent(row["unweighted"])} for row in rows]
    return {"rows": shown[:_MAX_TERMS], "n_more": max(0, len(rows) - _MAX_TERMS)}


def _blind_spot(fx: Decomposition, names: Names, term: Term) -> dict[str, Any]:
    measured = fx.certificate.terms.get(names)
    unweighted = measured.empty_share if measured else 0.0
    empty, statistics = unweighted, fx.density.statistics
    if statistics is not None:
        empty = float((statistics.counts(positions_of(fx, names), binnings_of(fx, term)) == 0).mean())
    n_components = measured.n_components if measured else 1
    return {"term": label_of(names), "empty": empty, "unweighted": unweighted, "parts": n_components}
