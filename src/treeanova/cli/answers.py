"""What commands tell: text for people, JSON and CSV for machines."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from treeanova.anova.certificate import HigherCertificate
from treeanova.core.labels import label_of
from treeanova.data.tabular import records
from treeanova.decomposition.comparison import Comparison
from treeanova.decomposition.decomposition import Decomposition
from treeanova.views.look import negative_share_words, scale_of
from treeanova.views.standings import standings
from treeanova.views.summary import caveats, headline

Row = Mapping[str, Any]
_LONGEST = 60
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def summary(fx: Decomposition, name: str) -> dict[str, Any]:
    """All that explain tells, as plain data."""
    features = {label_of(names): list(names) for names in fx.terms}
    certificate, sample = fx.certificate, fx.density.sample
    return {
        "model": name,
        "density": fx.density.name,
        "n_rows": None if sample is None else sample.n_rows,
        "features": list(fx.schema.names),
        "outputs": list(fx.schema.outputs),
        "link": fx.schema.link,
        "scale": scale_of(fx.schema),
        "intercept": fx.intercept,
        "terms": [row | {"features": features.get(str(row["term"]))} for row in records(fx.importance())],
        "certificate": {
            "pure": certificate.met,
            "tables_pure": certificate.tables_met,
            "impurity": certificate.impurity,
            "error": certificate.error,
            "max_correlation": certificate.max_correlation,
            "reconstruction_error": None if fx.n_all_terms else certificate.reconstruction_error,
            "density_gap": certificate.density_gap,
            "at_rows": _at_rows(certificate.higher),
            "remainder_share": certificate.remainder_share,
        },
    }


def explained(fx: Decomposition, found: Row, top: int) -> str:
    """What explain tells, for people."""
    rows = "" if found["n_rows"] is None else f", {found['n_rows']:,} rows"
    parts = [f"{found['model']}: {len(found['features'])} features, density {found['density']}{rows}, {found['scale']}"]
    for output, ranking in standings(fx).items():
        of = f"{output}: " if len(found["outputs"]) > 1 else ""
        own = [row for row in found["terms"] if row.get("output", output) == output]
        parts.append(f"{of}{_printable(headline(ranking))}\n\n{_strongest(own, top)}")
    parts.append(_verdict(fx))
    parts += ["\n".join(f"wrote {path}" for path in found["files"].values())] if found["files"] else []
    return "\n\n".join(parts)


def _strongest(rows: Sequence[Row], top: int) -> str:
    """A line per term, one for those left out, and what a negative share means where one is shown."""
    lines = [
        {
            "term": row["term"],
            "variance": _percent(row["variance"]),
            "covariance": _percent(row["covariance"]),
            "share": _percent(row["share"]),
            "mean |effect|": f"{row['mean_abs']:.4g}",
        }
        for row in rows[:top]
    ]
    rest = rows[top:]
    more = f"\n{len(rest)} more terms: share {_percent(sum(row['share'] for row in rest))}" if rest else ""
    note = negative_share_words(row["share"] for row in rows[:top])
    return f"{aligned(lines)}{more}" + (f"\n{note}" if note else "")


def _at_rows(higher: HigherCertificate | None) -> dict[str, Any] | None:
    """What is known of the purity of terms that are evaluated at rows."""
    if higher is None:
        return None
    purity = None if math.isnan(higher.purity) else higher.purity
    return {"orders": list(higher.orders), "n_terms": higher.n_terms, "purity": purity, "refinement": higher.refinement}


def _verdict(fx: Decomposition) -> str:
    return "\n".join(caveats(fx))


def _percent(share: float) -> str:
    if math.isnan(share):
        return "–"
    return f"{round(100 * share, 1) + 0.0:.1f} %"  # never -0.0


def comparison(found: Comparison) -> dict[str, Any]:
    """The tables of a comparison as plain data."""
    tables = {name: records(getattr(found, name)) for name in ("distance", "signs", "ranks")}
    return {"names": list(found.names), **tables}


def compared(found: Comparison, top: int) -> str:
    """A comparison for people: one line per term, the largest change first; of several outputs the largest."""
    plain = comparison(found)
    first, *others = plain["names"]
    by_name = [{"term": row["term"], row["decomposition"]: row["relative"]} for row in plain["distance"]]
    distances, signs = _largest(by_name, others), _largest(plain["signs"], others)
    ranks = {row["term"]: row for row in plain["ranks"]}
    lines = [
        {"term": term}
        | {f"Δ {name}": _percent(distances[term][name]) for name in others}
        | {f"rank {name}": str(ranks[term][name] or "–") for name in plain["names"]}
        | {f"sign {name}": _percent(signs[term][name]) if term in signs else "" for name in others}
        for term in sorted(distances, key=lambda term: -max(map(_known, distances[term].values())))
    ]
    more = f"\n{len(lines) - top} more terms" if len(lines) > top else ""
    return (
        f"Compared with {first}. Δ: root mean square difference of a term, in standard deviations of the score;\n"
        "rank: by own variance, – where a term is not there; sign: weight of bins where a main effect has the "
        f"other sign.\n\n{aligned(lines[:top])}{more}"
    )


def _largest(rows: Iterable[Row], names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Per term and name the largest number over rows."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        own = found.setdefault(row["term"], dict.fromkeys(names, 0.0))
        own.update({name: max(row[name], own[name]) for name in names if name in row})  # in this order NaN stays
    return found


def _known(number: float) -> float:
    """A number, or -1, below all distances, for NaN."""
    return -1.0 if math.isnan(number) else number


def aligned(rows: Sequence[Row]) -> str:
    """Rows as columns of text, numbers to the right."""
    if not rows:
        return "(no rows)"
    columns = [[_cell(name), *(_cell(row[name]) for row in rows)] for name in rows[0]]
    padded = []
    for column in columns:
        width = max(map(len, column))
        to_right = all(map(_is_number, column[1:]))
        padded.append([cell.rjust(width) if to_right else cell.ljust(width) for cell in column])
    return "\n".join("  ".join(line).rstrip() for line in zip(*padded, strict=True))


def _cell(value: Any) -> str:
    """A value as text, long names cut in the middle."""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = _printable(str(value))
    return text if len(text) <= _LONGEST else f"{text[:34]}…{text[-25:]}"


def _printable(text: str) -> str:
    """Text that cannot move the cursor."""
    return "".join("�" if unicodedata.category(character)[0] == "C" else character for character in text)


def _is_number(text: str) -> bool:
    try:
        float(text.removesuffix(" %"))
    except ValueError:
        return text in {"", "–"}
    return True


def as_csv(rows: Sequence[Row]) -> str:
    """Rows as CSV; NaN and None are empty, and no text is a formula to a spreadsheet."""
    lines = [list(rows[0]), *(row.values() for row in rows)] if rows else [[]]
    return "".join(f"{','.join(map(_csv_cell, line))}\n" for line in lines)


def _csv_cell(value: Any) -> str:
    """A cell of CSV: text that a spreadsheet would run as a formula gets a single quote in front."""
    if value is None or value != value:  # noqa: PLR0124
        return ""
    text = str(value)
    if isinstance(value, str) and text.startswith(_FORMULA_STARTS) and not _is_number(text):
        text = f"'{text}"
    if not any(character in text for character in '",\r\n'):  # csv.writer leaves a carriage return without quotes
        return text
    return '"' + text.replace('"', '""') + '"'


def as_json(value: Any) -> str:
    """A value as JSON, None for NaN and infinities."""
    return json.dumps(_plain(value), indent=2, allow_nan=False, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
