"""All that the page shows, as plain data: forms, terms, rankings, tables, rows, checks and words."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from treeanova.core.arrays import Floats, Names
from treeanova.core.labels import label_of, labels_of
from treeanova.core.progress import Progress, counted, quiet, within
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.evaluation import rest_label
from treeanova.decomposition.validation import Validation
from treeanova.density import density_of
from treeanova.errors import BudgetError
from treeanova.report.budgets import max_main_bins, max_pair_bins, pair_bins_of_rows
from treeanova.report.features import plain_features
from treeanova.report.forms import RAW, Forms, tables_of
from treeanova.report.held_out import plain_validation
from treeanova.report.local import plain_rows
from treeanova.report.numbers import six_digits, unit_of
from treeanova.report.provenance import call_of, model_name, scale_words, versions
from treeanova.report.tables import TableMaker
from treeanova.report.words import blind_spots, checks
from treeanova.terms.scope import Truncated
from treeanova.views import look
from treeanova.views.standings import Standing, is_rest, key_of_rest, shares_by_order, standings
from treeanova.views.summary import has_readable_raw_form, headline

_MAX_CELLS = 10_000_000


class Asked(NamedTuple):
    """Further densities by name, and whether somebody named them: then none is left out for its cost."""

    kinds: Mapping[str, Any]
    are_named: bool = True


Rankings = dict[str, dict[str, list[Standing]]]
"""Per ranking (a density, or a density with ``/raw``) and output the terms, strongest first."""


def payload(
    fx: Decomposition,
    progress: Progress = quiet,
    *,
    title: str | None,
    densities: Asked,
    rows: Any,
    max_terms: int,
    errors: Mapping[Names, Floats] = MappingProxyType({}),
    validation: Validation | None = None,
) -> dict[str, Any]:
    """Plain data of the whole page."""
    pure, missing = under_densities(fx, densities, progress)
    raw = {name: fx.raw if part is fx else _raw_of(part) for name, part in pure.items()}
    _rank(pure, raw, progress)
    content = Payload(pure, raw, errors)
    terms, maker = content.terms(max_terms, progress)
    statistics = fx.density.statistics
    return {
        "title": title or f"What {model_name(fx)} has learned",
        "model": model_name(fx),
        "rows": None if statistics is None else statistics.n_rows,
        "densities": list(pure),
        "missing_densities": missing,
        "outputs": list(fx.outputs),
        "scale": scale_words(fx),
        "unit": maker.unit,
        "intercepts": content.intercepts(),
        "headlines": content.headlines(),
        "variance_words": look.variance_words(fx.schema, is_part=fx.scope.is_part),
        "negative_share": look.NEGATIVE_SHARE,
        "offset_share": look.OFFSET,
        "call": call_of(fx),
        "n_terms_of_model": fx.scope.n_terms_of_model,
        "has_remainder": fx.has_remainder,
        "reconstruction_errors": content.reconstruction_errors(),
        "features": plain_features(fx),
        "axes": maker.pool.plain,
        "terms": terms,
        "local": None if rows is None else plain_rows(pure, rows, maker.unit, content.places, progress),
        "validation": plain_validation(validation),
        "checks": {name: {"entries": checks(part), "blind": blind_spots(part)} for name, part in pure.items()},
        "versions": versions(fx),
    }


def under_densities(
    fx: Decomposition, densities: Asked, progress: Progress = quiet
) -> tuple[dict[str, Decomposition], dict[str, str]]:
    """The model under its own density and others, by name, and why some could not be computed.

    Where not all terms are listed, those without a table are one remainder under other densities; under densities that
    nobody named, also where they are listed.
    """
    forms = {fx.density.name: fx}
    missing: dict[str, str] = {}
    highest = max((term.order for term in tables_of(fx).values()), default=0)
    are_cut = fx.evaluation.rest_orders or (fx.termset.keys_at_rows and not densities.are_named)
    tables = fx.truncate(highest) if are_cut else fx
    for name, asked in densities.kinds.items():
        if name in forms:
            continue
        kind = density_of(asked)
        reason = None if densities.are_named else _too_slow(fx, kind)
        if reason is not None:
            missing[name] = f"left out, since {reason}; name it in `densities` to have it."
            continue
        try:
            forms[name] = tables.with_density(kind, progress=within(progress, f"density {name}"))
        except (ValueError, BudgetError) as error:
            missing[name] = str(error)
    return forms, missing


def _too_slow(fx: Decomposition, kind: Any) -> str | None:
    """Why the model is not purified under a density that nobody asked for; None where it is."""
    n_cells = sum(term.values.size for term in tables_of(fx).values())
    if n_cells > _MAX_CELLS:
        return f"tables have {n_cells:,} cells and each density takes as long as the first"
    if (fx.termset.keys_at_rows or fx.evaluation.rest_orders) and not _is_product(fx, kind):
        return "it would take as long as the first"
    return None


def _is_product(fx: Decomposition, kind: Any) -> bool:
    """Whether a density has independent features; True for one that cannot be used, which says so when it is tried."""
    try:
        return bool(kind.bind(fx.grid, fx.density.statistics).is_product)
    except ValueError:
        return True


def _raw_of(fx: Decomposition) -> Decomposition:
    """The form before purification, with the same highest order."""
    return fx.raw.truncate(fx.scope.order) if isinstance(fx.scope, Truncated) else fx.raw


def _rank(pure: Mapping[str, Decomposition], raw: Mapping[str, Decomposition], progress: Progress) -> None:
    """Compute the importances that the rankings need, one density after the other; each decomposition keeps them."""
    for name, fx in pure.items():
        fx.importance(progress=within(progress, f"importance, density {name}"))
        with contextlib.suppress(ValueError):  # a saved decomposition has no rows to rank raw terms at
            raw[name].importance(progress=within(progress, f"raw importance, density {name}"))


class Payload:
    """Gathers what the page shows of a decomposition and its forms; terms go by the names of their features."""

    def __init__(
        self,
        pure: Mapping[str, Decomposition],
        raw: Mapping[str, Decomposition],
        errors: Mapping[Names, Floats] = MappingProxyType({}),
    ) -> None:
        self.pure = dict(pure)
        self.main = next(iter(pure.values()))
        self.forms = Forms({**self.pure, RAW: next(iter(raw.values()))}, errors)
        self.rankings = _rankings(self.pure, raw)
        self.labels = self._labels()
        self.ranked = self._ranked()
        self.places = {names: place for place, names in enumerate(self.ranked)}

    def _labels(self) -> dict[Names, tuple[str, int]]:
        """Label and order of every term of any form, those with a table first, and of what is not a listed term."""
        ranked = (term for ranking in self.rankings.values() for terms in ranking.values() for term in terms)
        listed = {term.key: (term.label, term.order) for term in ranked}
        with_table = list(dict.fromkeys(itertools.chain.from_iterable(self.forms.tables.values())))
        labels = zip(with_table, labels_of(with_table, self.main.schema.names), strict=True)
        return {names: (label, len(names)) for names, label in labels} | listed

    def _ranked(self) -> list[Names]:
        """Terms, those with the largest variance in any output first."""
        best = dict.fromkeys(self.labels, -np.inf)
        for terms in self.rankings[next(iter(self.pure))].values():
            for term in terms:
                best[term.key] = max(best[term.key], term.variance)
        return sorted(best, key=lambda names: -best[names])

    def terms(self, max_terms: int, progress: Progress = quiet) -> tuple[list[dict[str, Any]], TableMaker]:
        """Terms for the page, strongest first; the first `max_terms` that have a table bring it."""
        places = {name: j for j, name in enumerate(self.main.schema.names)}
        maker = TableMaker(self.forms, unit_of(self._largest_value()))
        has_table = {names for names in self.ranked if self.forms.terms(names)}
        tables = self._tables([names for names in self.ranked if names in has_table][:max_terms], maker, progress)
        standing = self._standing()
        sums = {key_of_rest(rest_label(order)) for fx in self.pure.values() for order in fx.evaluation.rest_orders}
        plain = []
        for names in self.ranked:
            label, order = self.labels[names]
            term: dict[str, Any] = {"order": order, "standing": standing[names]}
            term |= {"label": label} if label != label_of(names) else {}
            term |= {} if is_rest(names) else {"features": [places[name] for name in names]}
            term |= {"is_sum": True} if names in sums else {}
            term |= {} if names in has_table else {"at_rows": True}
            plain.append(term | tables.get(names, {}))
        return plain, maker

    def _standing(self) -> dict[Names, dict[str, list[Any]]]:
        """Per term, ranking and output: rank, variance, share, mean absolute value; null where it is not there."""
        n_outputs = len(self.main.outputs)
        standing: dict[Names, dict[str, list[Any]]] = {names: {} for names in self.ranked}
        for name, ranking in self.rankings.items():
            for k, terms in enumerate(ranking.values()):
                for rank, term in enumerate(terms, start=1):
                    row = standing[term.key].setdefault(name, [None] * n_outputs)
                    row[k] = [rank, round(term.variance, 6), round(term.share, 6), six_digits(term.mean_abs)]
        return standing

    def _tables(self, wanted: list[Names], maker: TableMaker, progress: Progress) -> dict[Names, dict[str, Any]]:
        """Tables of terms, merged to as many bins as the page has room for."""
        mains, pairs = ([names for names in wanted if self.labels[names][1] == order] for order in (1, 2))
        bins = dict.fromkeys(mains, self._main_bins(mains)) | dict(zip(pairs, self._pair_bins(pairs), strict=True))
        in_order = [*bins, *(names for names in wanted if names not in bins)]
        tables = {
            names: maker.table(names, bins[names]) if names in bins else maker.strongest_cells(names)
            for names in counted(progress, "tables of the page", in_order, len(in_order))
        }
        choices = getattr(self.main.density, "choices", None) or {}
        return {names: table | _choice_words(choices.get(names)) for names, table in tables.items()}

    def _main_bins(self, mains: list[Names]) -> int:
        numbers_per_bin = len(self.main.outputs) * (len(self.forms.by_name) + bool(self.forms.errors)) + 1
        return max_main_bins((self.forms.sizes(names)[0] for names in mains), numbers_per_bin)

    def _pair_bins(self, pairs: list[Names]) -> list[int]:
        highest = max((order for _, order in self.labels.values()), default=1)
        # Without higher orders, forms of a pair differ by main effects only and are held as these.
        n_whole = (1 if highest <= 2 else len(self.forms.by_name)) + bool(self.forms.errors)
        sizes = [self.forms.sizes(names)[:2] for names in pairs]
        statistics = self.main.density.statistics
        limit = pair_bins_of_rows(None if statistics is None else statistics.n_rows)
        return [min(bins, limit) for bins in max_pair_bins(sizes, len(self.main.outputs) * n_whole + 1)]

    def _largest_value(self) -> float:
        """Largest absolute value of any table in any form."""
        terms = itertools.chain.from_iterable(table.values() for table in self.forms.tables.values())
        return max((float(np.abs(term.values).max(initial=0.0)) for term in terms), default=0.0)

    def intercepts(self) -> dict[str, list[float]]:
        """Intercepts of all outputs by form."""
        return {name: np.atleast_1d(form.intercept).tolist() for name, form in self.forms.by_name.items()}

    def reconstruction_errors(self) -> dict[str, float]:
        """How far the terms of each form are from adding up to the model."""
        return {name: form.certificate.reconstruction_error for name, form in self.forms.by_name.items()}

    def headlines(self) -> dict[str, list[dict[str, Any]]]:
        """Per ranking and output: sentence, shares by order, sum of variances, and whether people read the raw form."""
        return {name: [self._headline(name, output) for output in self.main.outputs] for name in self.rankings}

    def _headline(self, name: str, output: str) -> dict[str, Any]:
        ranking, is_part = self.rankings[name][output], self.main.scope.is_part
        raw = self.rankings.get(f"{name}/{RAW}", {}).get(output)
        sentence = headline(ranking, None if is_part else raw, is_part=is_part)
        return {
            "sentence": f"Before purification: {sentence}" if name.endswith(f"/{RAW}") else sentence,
            "orders": [round(share, 6) for share in shares_by_order(ranking)],
            "sum": look.sum_words(term.variance for term in ranking),
            "reads_raw": raw is not None and has_readable_raw_form([*ranking, *raw]),
        }


def _rankings(pure: Mapping[str, Decomposition], raw: Mapping[str, Decomposition]) -> Rankings:
    """Rankings under each density, and of the raw form where it can be ranked."""
    of_raw = {f"{name}/{RAW}": _raw_standings(fx) for name, fx in raw.items()}
    known = {name: ranking for name, ranking in of_raw.items() if ranking is not None}
    return {name: standings(fx) for name, fx in pure.items()} | known


def _raw_standings(raw: Decomposition) -> dict[str, list[Standing]] | None:
    """The ranking of a raw form; None where it needs rows that are gone, as for a saved decomposition."""
    try:
        return standings(raw)
    except ValueError:
        return None


def _choice_words(choice: Any) -> dict[str, str]:
    """The estimate of a pair's joint density, where the density chose one."""
    return {} if choice is None else {"choice": choice.name}
