"""All that the page shows, as plain data: forms, terms, rankings, tables, rows, checks and words."""

from __future__ import annotations

import importlib.metadata
import itertools
import json
import math
import os
import pathlib
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

from treeanova.core.arrays import Names
from treeanova.core.labels import label_of
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.term import Term
from treeanova.density.kinds import density_of
from treeanova.errors import BudgetError
from treeanova.report.local import plain_rows
from treeanova.report.tables import (
    RAW,
    Forms,
    TableMaker,
    bins_of_mains,
    bins_of_pairs,
    most_pair_bins,
    outputs_last,
    plain_features,
    plain_number,
    unit_of,
)
from treeanova.report.words import blind_spots, checks
from treeanova.views import look
from treeanova.views.standings import Standing, shares_by_order, standings
from treeanova.views.summary import headline


def under_densities(
    fx: Decomposition, densities: Mapping[str, Any], most_cells: float = math.inf
) -> tuple[dict[str, Decomposition], dict[str, str]]:
    """The model under its own density and others, by name, and why some could not be had."""
    found = {fx.density.name: fx}
    missing: dict[str, str] = {}
    n_cells = sum(values.size for values in fx.effects.terms.values())
    if n_cells > most_cells:
        reason = f"left out, since tables have {n_cells:,} cells and each density takes as long as the first; name it"
        return found, {name: f"{reason} in `densities` to have it." for name in densities if name not in found}
    for name, density in densities.items():
        if name in found:
            continue
        known = density_of(density)
        try:
            found[name] = fx.with_density(known)
        except (ValueError, BudgetError) as error:
            missing[name] = str(error)
    return found, missing


class Payload:
    """Gathers what the page shows of a decomposition and its forms."""

    def __init__(self, pure: Mapping[str, Decomposition]) -> None:
        self.pure = dict(pure)
        self.main = next(iter(pure.values()))
        self.forms = Forms({**self.pure, RAW: self.main.raw})
        self.rankings = {name: standings(fx) for name, fx in self.pure.items()}
        raw = {f"{name}/{RAW}": _raw_standings(fx) for name, fx in self.pure.items()}
        self.rankings |= {name: ranking for name, ranking in raw.items() if ranking is not None}
        self.keys = self._all_keys()

    def _all_keys(self) -> dict[tuple[str, int], Names | None]:
        """Every term by its label and order: names of its features where some form has its table, else None."""
        found: dict[tuple[str, int], Names | None] = {}
        for key in itertools.chain.from_iterable(self.forms.tables.values()):
            found.setdefault((label_of(key), len(key)), key)
        for ranking in self.rankings.values():
            listed = ((term.label, term.order) for terms in ranking.values() for term in terms)
            found |= {entry: None for entry in listed if entry not in found}
        return found

    def _standing(self) -> dict[tuple[str, int], dict[str, list[Any]]]:
        """Per term, ranking and output: rank, own variance, share, mean absolute value; null where it is not there."""
        n_outputs = len(self.main.schema.outputs)
        found: dict[tuple[str, int], dict[str, list[Any]]] = {entry: {} for entry in self.keys}
        for name, ranking in self.rankings.items():
            for k, terms in enumerate(ranking.values()):
                for rank, term in enumerate(terms, start=1):
                    row = found[term.label, term.order].setdefault(name, [None] * n_outputs)
                    row[k] = [rank, round(term.variance, 6), round(term.share, 6), plain_number(term.mean_abs)]
        return found

    def _ranked(self) -> list[tuple[str, int]]:
        """Terms, those with the largest own variance in any output first."""
        best: dict[tuple[str, int], float] = dict.fromkeys(self.keys, -np.inf)
        for terms in self.rankings[next(iter(self.pure))].values():
            for term in terms:
                entry = (term.label, term.order)
                best[entry] = max(best[entry], term.variance)
        return sorted(best, key=lambda entry: -best[entry])

    def terms(self, max_terms: int) -> tuple[list[dict[str, Any]], TableMaker]:
        """Terms for the page, strongest first; the first `max_terms` that have a table bring it."""
        ranked = self._ranked()
        standing = self._standing()
        positions = {name: j for j, name in enumerate(self.main.schema.names)}
        with_table = [entry for entry in ranked if self.keys[entry] is not None][:max_terms]
        maker = TableMaker(self.forms, unit_of(self._largest()))
        tables = self._tables(with_table, maker)
        plain = []
        for label, order in ranked:
            key = self.keys[label, order]
            term: dict[str, Any] = {"order": order, "standing": standing[label, order]}
            term |= {"label": label} if key is None else {"features": [positions[name] for name in key]}
            plain.append(term | tables.get((label, order), {}))
        return plain, maker

    def _tables(self, entries: list[tuple[str, int]], maker: TableMaker) -> dict[tuple[str, int], dict[str, Any]]:
        keys = {entry: key for entry in entries if (key := self.keys[entry]) is not None}
        n_outputs, n_forms = len(self.main.schema.outputs), len(self.forms.by_name)
        sizes = dict(zip(self.main.schema.names, self.main.grid.sizes, strict=True))
        mains = [entry for entry in keys if entry[1] == 1]
        pairs = [entry for entry in keys if entry[1] == 2]
        most = bins_of_mains((sizes[keys[entry][0]] for entry in mains), n_outputs * n_forms + 1)
        tables = {entry: maker.table(keys[entry], most) for entry in mains}
        n_whole = 1 if max((order for _, order in self.keys), default=1) <= 2 else n_forms
        sides = bins_of_pairs([(sizes[keys[e][0]], sizes[keys[e][1]]) for e in pairs], n_outputs * n_whole + 1)
        most = most_pair_bins(None if self.main.density.statistics is None else self.main.density.statistics.n_rows)
        tables |= {entry: maker.table(keys[entry], min(side, most)) for entry, side in zip(pairs, sides, strict=True)}
        tables |= {entry: maker.strongest_cells(keys[entry]) for entry in keys if entry[1] > 2}
        return {entry: table | self._extras(keys[entry]) for entry, table in tables.items()}

    def _extras(self, key: Names) -> dict[str, Any]:
        """What purification moved in a term under each density, and the estimate that was chosen for a pair."""
        forms = self.forms.terms(key)
        before = forms.pop(RAW, None)
        moved = {name: _distance(term, before) for name, term in forms.items()}
        choice = (getattr(self.main.density, "choices", None) or {}).get(key)
        return {"moved": moved} | ({"choice": choice.name} if choice else {})

    def _largest(self) -> float:
        """Largest absolute value of any term in any form."""
        terms = itertools.chain.from_iterable(table.values() for table in self.forms.tables.values())
        return max((float(np.abs(term.values).max(initial=0.0)) for term in terms), default=0.0)

    def headlines(self) -> dict[str, list[dict[str, Any]]]:
        """Per density and output the sentence of the first screen and the shares by order."""
        return {name: [self._headline(name, output) for output in self.main.schema.outputs] for name in self.pure}

    def _headline(self, name: str, output: str) -> dict[str, Any]:
        ranking = self.rankings[name][output]
        raw = None if self.main.n_all_terms else self.rankings.get(f"{name}/{RAW}", {}).get(output)
        orders = [round(share, 6) for share in shares_by_order(ranking)]
        return {"sentence": headline(ranking, raw), "orders": orders, "raw_known": f"{name}/{RAW}" in self.rankings}


def _raw_standings(fx: Decomposition) -> dict[str, list[Standing]] | None:
    """The ranking of the raw form; None where it cannot be had, as for a saved decomposition without its rows."""
    try:
        return standings(fx.raw)
    except ValueError:
        return None


def _distance(after: Term, before: Term | None) -> list[float]:
    """Weighted root mean square of what purification changed in a term, per output."""
    gap = outputs_last(after) - (0.0 if before is None else outputs_last(before))
    squares = np.tensordot(after.weights, gap**2, axes=after.order)
    return [plain_number(float(root)) for root in np.sqrt(squares)]


def payload(
    fx: Decomposition,
    *,
    title: str | None,
    densities: Mapping[str, Any],
    rows: Any,
    max_terms: int,
    most_cells: float = math.inf,
) -> dict[str, Any]:
    """Plain data of the whole page."""
    pure, missing = under_densities(fx, densities, most_cells)
    content = Payload(pure)
    terms, maker = content.terms(max_terms)
    intercepts = {name: [float(i) for i in form.effects.intercept] for name, form in content.forms.by_name.items()}
    return {
        "title": title or f"What {model_name(fx)} has learned",
        "model": model_name(fx),
        "rows": None if fx.density.statistics is None else fx.density.statistics.n_rows,
        "densities": list(pure),
        "missing_densities": missing,
        "outputs": list(fx.schema.outputs),
        "scale": scale_words(fx),
        "unit": maker.unit,
        "intercepts": intercepts,
        "headlines": content.headlines(),
        "negative_share": look.NEGATIVE_SHARE,
        "call": call_of(fx),
        "n_all_terms": fx.n_all_terms,
        "has_remainder": fx.has_remainder,
        "reconstruction_error": fx.certificate.reconstruction_error,
        "features": plain_features(fx),
        "axes": maker.pool.plain,
        "terms": terms,
        "local": None if rows is None else plain_rows(pure, rows, maker.unit),
        "checks": {name: {"entries": checks(part), "blind": blind_spots(part)} for name, part in pure.items()},
        "versions": versions(fx),
    }


def call_of(fx: Decomposition) -> str:
    """The call that gives a decomposition like this one."""
    cut = f", max_order={max(map(len, fx.keys), default=1)}" if fx.is_cut else ""
    return f"treeanova.decompose(model, X, density={json.dumps(fx.density.name)}{cut})"


def scale_words(fx: Decomposition) -> dict[str, Any]:
    """Words of the scale, and of the response where the link gives one that differs."""
    schema = fx.schema
    outputs = [look.effect_words(schema, output) for output in schema.outputs]
    return {
        "link": schema.link,
        "score": look.scale_of(schema),
        "effect": outputs,
        "response": look.RESPONSES.get(schema.link),
    }


def model_name(fx: Decomposition) -> str:
    """Name of the model's class or file."""
    if isinstance(fx.source, (str, os.PathLike)):
        return pathlib.Path(fx.source).name
    return "the model" if fx.source is None else type(fx.source).__name__


def versions(fx: Decomposition) -> dict[str, str]:
    """Versions of what made the page."""
    found = {"treeanova": _version("treeanova"), "numpy": np.__version__, "Python": platform.python_version()}
    library = type(fx.source).__module__.partition(".")[0]
    if fx.source is not None and library not in {"builtins", "pathlib", "treeanova"} and _version(library):
        found[library] = _version(library)
    return found


def _version(name: str) -> str:
    try:
        return importlib.metadata.version("scikit-learn" if name == "sklearn" else name)
    except importlib.metadata.PackageNotFoundError:
        return ""
