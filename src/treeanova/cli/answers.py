"""Answers of the commands: plain data for machines, text for people."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from treeanova.anova.certificate import Certificate, HigherCertificate
from treeanova.cli.formats import Row, aligned, percent
from treeanova.core.arrays import Names
from treeanova.core.labels import labels_of
from treeanova.data.frames import printable
from treeanova.data.tabular import records
from treeanova.decomposition.comparison import Comparison
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.validation import Validation
from treeanova.views.look import effect_words, scale_of, share_words, sum_words
from treeanova.views.standings import standings
from treeanova.views.summary import caveats, headline

_MOST_NAMES = 10

# What explain answers.


def summary(fx: Decomposition, name: str) -> dict[str, Any]:
    """A decomposition in short, as plain data."""
    statistics = fx.density.statistics
    return {
        "model": name,
        "density": fx.density.name,
        "n_rows": None if statistics is None else statistics.n_rows,
        "features": list(fx.schema.names),
        "outputs": list(fx.outputs),
        "link": fx.link,
        "scale": scale_of(fx.schema),
        "intercept": fx.intercept,
        "terms": _plain_terms(fx),
        "certificate": _plain_certificate(fx.certificate, is_part=fx.scope.is_part),
    }


def _plain_terms(fx: Decomposition) -> list[dict[str, Any]]:
    """Rows of the table of importance with the features of each term; None for the remainder."""
    ranked = [term for ranking in standings(fx).values() for term in ranking]
    rows = zip(records(fx.importance()), ranked, strict=True)
    return [row | {"features": list(term.features) or None} for row, term in rows]


def _plain_certificate(certificate: Certificate, *, is_part: bool) -> dict[str, Any]:
    return {
        "pure": certificate.met,
        "tables_pure": certificate.tables_met,
        "impurity": certificate.impurity,
        "error": _measured(certificate.error),
        "aliases": [list(group) for group in certificate.aliases],
        "max_correlation": certificate.max_correlation,
        "reconstruction_error": None if is_part else certificate.reconstruction_error,
        "density_gap": certificate.density_gap,
        "at_rows": _plain_higher(certificate.higher),
        "remainder_share": certificate.remainder_share,
    }


def _plain_higher(higher: HigherCertificate | None) -> dict[str, Any] | None:
    """How pure the terms are that are evaluated at rows."""
    if higher is None:
        return None
    return {
        "orders": list(higher.orders),
        "n_terms": higher.n_terms,
        "n_corrected": higher.n_corrected,
        "purity": _measured(higher.purity),
        "refinement": _measured(higher.refinement),
        "table_error": _measured(higher.table_error),
        "mean_error": higher.mean_error,
    }


def _measured(measure: float) -> float | None:
    """A number, or None where it was not measured: JSON has no NaN."""
    return None if math.isnan(measure) else measure


def explained(fx: Decomposition, plain: Row, top: int) -> str:
    """A decomposition in short, for people; `plain` is its `summary` with the files that were written."""
    rows = "" if plain["n_rows"] is None else f", {plain['n_rows']:,} rows"
    features = f"{len(plain['features'])} features"
    scale = printable(plain["scale"])
    parts = [f"{plain['model']}: {features}, density {plain['density']}{rows}, {scale}"]
    for output, ranking in standings(fx).items():
        of = f"{output}: " if len(plain["outputs"]) > 1 else ""
        terms = [row for row in plain["terms"] if row.get("output", output) == output]
        parts.append(f"{of}{printable(headline(ranking, is_part=fx.scope.is_part))}\n\n{_strongest(terms, top)}")
    parts.append("\n".join(caveats(fx)))
    parts += ["\n".join(f"wrote {path}" for path in plain["files"].values())] if plain["files"] else []
    return "\n\n".join(parts)


def _strongest(rows: Sequence[Row], top: int) -> str:
    """A line per term, one for those left out, and what the numbers add up to and mean."""
    lines = [
        {
            "term": row["term"],
            "variance": percent(row["variance"]),
            "covariance": percent(row["covariance"]),
            "share": percent(row["share"]),
            "mean |effect|": f"{row['mean_abs']:.4g}",
        }
        for row in rows[:top]
    ]
    rest = rows[top:]
    sums = [percent(sum(row[name] for row in rest)) for name in ("variance", "share")]
    more = f"{len(rest)} more terms: variance {sums[0]}, share {sums[1]}" if rest else ""
    notes = (
        sum_words(row["variance"] for row in rows),
        share_words((row["variance"], row["share"]) for row in rows[:top]),
    )
    return "\n".join(filter(None, (aligned(lines), more, *notes)))


# What table answers.


def table_words(fx: Decomposition, term: Names, *, is_raw: bool) -> str:
    """The caption of a term's table: its features, and what its values mean."""
    pure, raw = effect_words(fx.schema), f"contribution to {scale_of(fx.schema)}, before purification"
    return printable(f"{labels_of([term], fx.schema.names)[0]}: value is the {raw if is_raw else pure}")


# What compare answers.


def plain_comparison(comparison: Comparison) -> dict[str, Any]:
    """The tables of a comparison as plain data."""
    tables = {name: records(getattr(comparison, name)) for name in ("distance", "signs", "ranks")}
    return {"names": list(comparison.names), "notes": list(comparison.notes), **tables}


def compared(comparison: Comparison, top: int) -> str:
    """A comparison for people: one line per term, the largest change first; over several outputs the largest."""
    plain = plain_comparison(comparison)
    first, *others = plain["names"]
    by_name = [{"term": row["term"], row["decomposition"]: row["relative"]} for row in plain["distance"]]
    distances, signs = _largest(by_name, others), _largest(plain["signs"], others)
    ranks = {row["term"]: row for row in plain["ranks"]}
    lines = [
        {"term": term}
        | {f"Δ {name}": percent(distances[term][name]) for name in others}
        | {f"rank {name}": _rank_text(ranks[term][name]) for name in plain["names"]}
        | {f"sign {name}": percent(signs[term][name]) if term in signs else "" for name in others}
        for term in sorted(distances, key=lambda term: -max(map(_sortable, distances[term].values())))
    ]
    more = f"\n{len(lines) - top} more terms" if len(lines) > top else ""
    notes = "".join(f"\n{printable(note)}" for note in comparison.notes)
    return (
        f"Compared with {first}. Δ: root mean square difference of a term, in standard deviations of the score;\n"
        "rank: by variance, – where there is no such term; sign: share of rows where a main effect has the other "
        f"sign.{notes}\n\n{aligned(lines[:top])}{more}"
    )


def _rank_text(rank: float | None) -> str:
    """A rank, or a dash where there is none."""
    return "–" if rank is None or math.isnan(rank) else str(int(rank))


def _largest(rows: Iterable[Row], names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Per term and name the largest number over rows."""
    largest: dict[str, dict[str, float]] = {}
    for row in rows:
        numbers = largest.setdefault(row["term"], dict.fromkeys(names, 0.0))
        numbers.update(
            {name: max(row[name], numbers[name]) for name in names if name in row}
        )  # in this order NaN stays
    return largest


def _sortable(number: float) -> float:
    """A number, or -1, below all distances, for NaN."""
    return -1.0 if math.isnan(number) else number


# What validate answers.


def plain_validation(validation: Validation) -> dict[str, Any]:
    """A validation as plain data."""
    return {
        "loss": validation.loss,
        "n_rows": validation.n_rows,
        "model_loss": validation.model_loss,
        "constant_loss": validation.constant_loss,
        "dispensable": list(validation.dispensable),
        "significant": list(validation.significant),
        "groups": [list(group) for group in validation.groups],
        "notes": list(validation.notes),
        "terms": records(validation.table),
    }


def _first_of(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def validated(validation: Validation, top: int) -> str:
    """A validation for people: one line per term, the largest change of loss first."""
    plain = plain_validation(validation)
    lines = [
        {"term": row["term"]}
        | ({"output": row["output"]} if "output" in row else {})
        | {"loss without": f"{row['loss_change']:+.4g}", "error": f"{row['error']:.2g}", "p": p_text(row["p_value"])}
        | {"p (Holm)": p_text(row["p_holm"]), "slope": f"{row['slope']:.2f}", "explains": _share_text(row["share"])}
        | {"of the score": percent(row["model_share"])}
        | ({"tested with": row["aliases"]} if plain["groups"] else {})
        for row in plain["terms"]
    ]
    more = f"\n{len(lines) - top} more terms" if len(lines) > top else ""
    idle, found = (_first_of(plain[name]) or "none" for name in ("dispensable", "significant"))
    return (
        f"{plain['n_rows']:,} rows, {plain['loss']}: {_numbers(plain['model_loss'])} for the model, "
        f"{_numbers(plain['constant_loss'])} for the best constant\n"
        "1. How much worse is the loss without the term? (loss without, and its standard error)\n"
        f"   Interactions that can be left out (the loss grows by at most two errors): {printable(idle)}\n"
        "2. Does the outcome follow the term, given all the others? (p, one-sided)\n"
        f"   Significant, corrected for all {len(lines)} rows (Holm): {printable(found)}\n"
        f"{''.join(f'   {note}{chr(10)}' for note in plain['notes'])}\n"
        f"{aligned(lines[:top])}{more}\n\n"
        "slope: 1 calibrated, 0 noise; explains: share of the outcome's variance, next to the term's share of the\n"
        f"score's{_TESTED_WITH if plain['groups'] else ''}."
    )


_TESTED_WITH = "; tested with: terms that these rows cannot distinguish from it, tested together as one sum"


def _share_text(share: float) -> str:
    return "–" if math.isnan(share) else percent(share)


def p_text(p: float) -> str:
    """A p-value for people."""
    return "–" if math.isnan(p) else "<0.0001" if p < 1e-4 else f"{p:.4f}"


def _numbers(losses: Any) -> str:
    return ", ".join(f"{loss:.6g}" for loss in np.atleast_1d(losses))
