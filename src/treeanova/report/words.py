"""The certificate and what else a reader should know, in plain words."""

from __future__ import annotations

import re
from typing import Any

from treeanova.core.labels import label_of
from treeanova.decomposition.decomposition import Decomposition
from treeanova.views.summary import percent

_MOST_TERMS = 12


def checks(fx: Decomposition) -> list[dict[str, Any]]:
    """What was checked: for each a verdict ("good", "mind", "bad"), a title and a sentence."""
    return [
        entry
        for entry in (_sum(fx), _purity(fx), _higher(fx), _remainder(fx), _gap(fx), _dependence(fx), _choices(fx))
        if entry
    ]


def _entry(verdict: str, title: str, text: str) -> dict[str, Any]:
    return {"verdict": verdict, "title": title, "text": text}


def _sum(fx: Decomposition) -> dict[str, Any]:
    if fx.n_all_terms:
        text = f"This page holds some of {fx.n_all_terms} terms, chosen on purpose: they do not add up to the model."
        return _entry("mind", "Some terms only", text)
    error = fx.certificate.reconstruction_error
    parts, title = "Intercept and terms", "The terms add up to the model"
    if fx.has_remainder:
        parts, title = "Intercept, terms and remainder", "The terms and the remainder add up to the model"
    text = f"{parts} give the model's own score: the largest difference is {error:.1e} of the largest score."
    return _entry("good" if error < 1e-5 else "bad", title, text)


def _purity(fx: Decomposition) -> dict[str, Any]:
    found = fx.certificate
    text = (
        "In every term with a table the weighted mean over each feature is zero: the largest one left is "
        f"{found.impurity:.1e} of the largest score (asked for: {found.tol:.0e}). Nothing of a main effect hides in an "
        "interaction."
    )
    if found.tables_met:
        title = "The terms are pure" if found.met else "The terms with a table are pure"
        return _entry("good", title, text)
    left = f"The largest weighted mean left in a term is {found.impurity:.1e} of the largest score"
    error = f"its numerical error up to {found.error:.1e}"
    return _entry("bad", "Some terms are not pure", f"{left}, {error}; asked for were {found.tol:.0e}.")


def _higher(fx: Decomposition) -> dict[str, Any] | None:
    """How terms without tables were made pure, where there are any."""
    found = fx.certificate.higher
    if found is None:
        return None
    low, high = found.orders
    title = f"Terms of {low} to {high} features are known at rows only" if high > low else f"Order {low} at rows only"
    if found.is_exact:
        return _entry("good", title, "They are pure in closed form, features being independent under this density.")
    text = f"{found.n_corrected:,} of them were made pure on coarse bins"
    if found.measured is not None:
        text += f"; measured at rows, slice means of the largest are up to {percent(found.measured)} of their size"
    change = f"{percent(found.refinement)} of the score's standard deviation"
    return _entry("mind", title, f"{text}. Half as many bins would change a table by {change}.")


def _gap(fx: Decomposition) -> dict[str, Any] | None:
    """By how much tables of pairs differ from the joint density of higher orders, where they do."""
    gap = fx.certificate.density_gap
    if not gap:
        return None
    text = (
        f"Tables of pairs are estimated one by one. They differ by up to {percent(gap)} of the mass from the joint "
        "density under which higher orders are pure and covariances are taken."
    )
    return _entry("mind" if gap > 0.1 else "good", "Pairs and the joint density", text)


def _remainder(fx: Decomposition) -> dict[str, Any] | None:
    """How much of the score no term explains, where there is such a rest."""
    share = fx.certificate.remainder_share
    if share is None:
        return None
    which = " of the output where it is largest" if len(fx.schema.outputs) > 1 else ""
    text = f"What the terms leave varies by {percent(share)} of the variance of the score{which}."
    return _entry("mind" if share > 0.05 else "good", "There is a remainder", text)


def _dependence(fx: Decomposition) -> dict[str, Any] | None:
    terms = fx.certificate.terms
    if not terms or fx.certificate.max_correlation <= 0:
        return None
    names, worst = max(terms.items(), key=lambda item: item[1].max_correlation)
    text = (
        f"The features of {label_of(names)} depend on each other most: maximal correlation "
        f"{worst.max_correlation:.3f}. Numerical error of its values: about {worst.error:.0e} of the largest score."
    )
    if worst.max_correlation > 0.999:
        return _entry("mind", "Two features are almost one", f"{text} The data hardly tell their effects apart.")
    return _entry("good", "Dependence is accounted for", text)


def _choices(fx: Decomposition) -> dict[str, Any] | None:
    """What the density chose for the pairs, where it chooses."""
    choices = getattr(fx.density, "choices", None)
    if not choices:
        return None
    names = [re.sub(r" ?\d+(\.\d+)?", "", choice.name) for choice in choices.values()]  # without bandwidths
    counts = sorted({name: names.count(name) for name in names}.items(), key=lambda item: (-item[1], item[0]))
    listed = "; ".join(f"{name.replace(', ', ' with ')}: {count}" for name, count in counts)
    text = f"For each pair, the estimate with the highest leave-one-out likelihood: {listed}."
    return _entry("good", "How the joint density was estimated", text)


def blind_spots(fx: Decomposition) -> dict[str, Any]:
    """Where the data cannot tell: interactions with cells that no row falls in, or whose support falls into parts."""
    found = [_blind_spot(fx, names) for names, term in fx.terms.items() if term.order > 1]
    rows = sorted((row for row in found if row["empty"] > 0 or row["parts"] > 1), key=lambda row: -float(row["empty"]))
    shown = [row | {"empty": percent(row["empty"]), "unweighted": percent(row["unweighted"])} for row in rows]
    return {"rows": shown[:_MOST_TERMS], "n_more": max(0, len(rows) - _MOST_TERMS)}


def _blind_spot(fx: Decomposition, names: tuple[str, ...]) -> dict[str, Any]:
    measured = fx.certificate.terms.get(names)
    unweighted = measured.empty_share if measured else 0.0
    statistics = fx.density.statistics
    key = tuple(fx.schema.names.index(name) for name in names)
    empty = unweighted if statistics is None else float((statistics.counts(key) == 0).mean())
    parts = measured.n_components if measured else 1
    return {"term": label_of(names), "empty": empty, "unweighted": unweighted, "parts": parts}
