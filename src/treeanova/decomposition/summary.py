"""A decomposition in short: headline, caveats of the certificate, strongest terms."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

from treeanova.data.columns import columns_of, printable
from treeanova.decomposition.answers import Answers, ranking_of
from treeanova.decomposition.importance import Standing
from treeanova.decomposition.predictions import backend_of_tables, function_of
from treeanova.decomposition.result import aligned_rows, plain
from treeanova.views import MAIN, percent, scale_of, share_words, sum_words

_MOST_ROWS = 10  # of the table for notebooks
_LEAST_VARIANCE = 0.01  # of a term that a headline counts
_LEAST_MOVE = 0.005  # of the share of pairs, for a headline to mention it


def shares_by_order(ranking: Iterable[Standing]) -> tuple[float, float, float]:
    totals = [0.0, 0.0, 0.0]
    for term in ranking:
        totals[min(max(term.order, 1), 3) - 1] += term.share
    return totals[0], totals[1], totals[2]


def headline(ranking: Sequence[Standing], raw: Sequence[Standing] | None = None, *, is_part: bool = False) -> str:
    """Say how many terms are not small, and which term and interaction are the strongest.

    All numbers are variances of terms, relative to the sum of the terms if some were left out (`is_part`). `raw` is the
    ranking before purification, for models of main effects and pairs only: the raw form of deeper models depends on how
    their trees happened to grow.
    """
    if not any(term.variance for term in ranking):
        return "The model is constant: no term has any variance."
    clauses = [_n_strong(ranking, "that of their sum" if is_part else "the score's"), _strongest(ranking)]
    if raw is not None and has_readable_raw_form([*ranking, *raw]):
        clauses.append(_moved(shares_by_order(raw)[1], shares_by_order(ranking)[1]))
    return "; ".join(filter(None, clauses)) + "."


def has_readable_raw_form(ranking: Sequence[Standing]) -> bool:
    """Whether all terms are main effects and pairs, without a remainder."""
    return all(term.order <= 2 and not term.is_remainder for term in ranking)


def _n_strong(ranking: Sequence[Standing], whole: str) -> str:
    terms = [term for term in ranking if not term.is_remainder]
    if not terms:
        return "No term is listed"
    if len(terms) == 1:
        return f"The only term has a variance of {percent(terms[0].variance)} of {whole}"
    n_strong = sum(term.variance >= _LEAST_VARIANCE for term in terms)
    count, verb = "One" if n_strong == 1 else n_strong or "None", "have" if n_strong > 1 else "has"
    return f"{count} of {len(terms)} terms {verb} a variance of at least {percent(_LEAST_VARIANCE)} of {whole}"


def _strongest(ranking: Sequence[Standing]) -> str:
    terms = [term for term in ranking if not term.is_remainder]
    interaction = next((term for term in terms if term.order > 1), None)
    strongest = f"the strongest is {_with_variance(terms[0])}" if len(terms) > 1 else ""
    if interaction is not None:
        is_first = terms[0] is interaction
        return strongest if is_first else f"{strongest}, the strongest interaction {_with_variance(interaction)}"
    sums = " and ".join(f"the {_with_variance(term)}" for term in ranking if term.is_remainder)
    left = f"interactions are in {sums}" if sums else "there are no interactions"
    return "; ".join(filter(None, (strongest, left)))


def _with_variance(term: Standing) -> str:
    label = term.label.strip("()") if term.is_remainder else term.label
    return f"{label} ({percent(term.variance)})"


def _moved(before: float, after: float) -> str:
    """Say how purification changed the share of pairs; empty if raw terms cancel: shares are not parts of a whole."""
    if abs(after - before) < _LEAST_MOVE or not 0 <= before <= 1:
        return ""
    way = "lowered" if after < before else "raised"
    return f"purification {way} the share of pairs from {percent(before)} to {percent(after)}"


def adding_up(fx: Answers) -> str:
    """Return, for example, "sum of terms within 1.9e-16 of the model"; empty for selected terms."""
    if function_of(fx).scope.is_part:
        return ""
    whole = "terms and remainder" if fx.has_remainder else "terms"
    return f"sum of {whole} within {fx.certificate.reconstruction_error:.1e} of the model"


def caveats(fx: Answers) -> list[str]:
    """Explain the certificate, one line each: purity and sum, accuracy of high orders, copies of rows, remainder."""
    certificate = fx.certificate
    lines = ["; ".join(filter(None, (certificate.purity, adding_up(fx))))]
    if certificate.higher is not None and certificate.higher.accuracy:
        lines.append(certificate.higher.accuracy)
    lines += certificate.uniqueness
    if fx.density.caveat:
        lines.append(fx.density.caveat)
    if certificate.remainder_share is not None:
        of_all = " (of the worst output)" if len(fx.outputs) > 1 else ""
        lines.append(f"the remainder has {certificate.remainder_share:.0%} of the score's variance{of_all}")
    return lines


# For the command line.


def plain_summary(fx: Answers, name: str) -> dict[str, Any]:
    statistics, ranking = fx.density.statistics, ranking_of(fx)
    columns = columns_of(ranking.table(backend_of_tables(fx)))
    features = [list(term.features) or None for terms in ranking.standings.values() for term in terms]
    rows = [
        dict(zip([*columns, "features"], row, strict=True)) for row in zip(*columns.values(), features, strict=True)
    ]
    certificate = fx.certificate.to_dict()
    if function_of(fx).scope.is_part:
        certificate["reconstruction_error"] = None
    content = {
        "model": name,
        "density": fx.density.name,
        "n_rows": None if statistics is None else statistics.n_rows,
        "features": list(fx.schema.names),
        "outputs": list(fx.outputs),
        "link": fx.schema.link,
        "scale": scale_of(fx.schema),
        "intercept": fx.intercept,
        "terms": rows,
        "certificate": certificate,
    }
    return plain(content)  # type: ignore[no-any-return]


def summary_text(fx: Answers, name: str, top: int) -> str:
    statistics = fx.density.statistics
    rows = "" if statistics is None else f", {statistics.n_rows:,} rows"
    scale = printable(scale_of(fx.schema))
    blocks = [f"{name}: {len(fx.schema.names)} features, density {fx.density.name}{rows}, {scale}"]
    for output, terms in ranking_of(fx).standings.items():
        of = f"{output}: " if len(fx.outputs) > 1 else ""
        sentence = printable(headline(terms, is_part=function_of(fx).scope.is_part))
        blocks.append(f"{of}{sentence}\n\n{_first_terms(terms, top)}")
    return "\n\n".join([*blocks, "\n".join(caveats(fx))])


def _first_terms(terms: Sequence[Standing], top: int) -> str:
    rows = [
        {
            "term": term.label,
            "variance": percent(term.variance),
            "covariance": percent(term.share - term.variance),
            "share": percent(term.share),
            "mean |effect|": f"{term.mean_abs:.4g}",
        }
        for term in terms[:top]
    ]
    left = terms[top:]
    sums = percent(sum(term.variance for term in left)), percent(sum(term.share for term in left))
    more = f"{len(left)} more terms: variance {sums[0]}, share {sums[1]}" if left else ""
    return "\n".join(filter(None, (aligned_rows(rows, top), more, _notes(terms, top))))


def _notes(terms: Sequence[Standing], n_shown: int) -> str:
    shown = share_words((term.variance, term.share) for term in terms[:n_shown])
    return "\n".join(filter(None, (sum_words(term.variance for term in terms), shown)))


# For notebooks.


def html_summary(fx: Answers) -> str:
    words = f"{len(fx.terms)} terms · density {fx.density.name} · {scale_of(fx.schema)}"
    intro = " · ".join(html.escape(line) for line in (words, *caveats(fx)) if line)
    blocks = [f"<p><strong>Decomposition</strong> · {intro}</p>"]
    for output, terms in ranking_of(fx).standings.items():
        sentence = headline(terms, is_part=function_of(fx).scope.is_part)
        caption = sentence if len(fx.outputs) == 1 else f"{output}: {sentence}"
        blocks.append(f"<p>{html.escape(caption)}</p>{_html_table(terms)}")
    return f'<div style="font-family:system-ui,sans-serif;max-width:44em">{"".join(blocks)}</div>'


def _html_table(terms: Sequence[Standing]) -> str:
    largest = max((term.variance for term in terms), default=0.0) or 1.0
    shown, left = terms[:_MOST_ROWS], terms[_MOST_ROWS:]
    rows = "".join(_html_row(html.escape(term.label), [term], 8 * term.variance / largest) for term in shown)
    if left:
        rows += _html_row(f"<em>{len(left)} more</em>", left, 0.0)
    head = '<tr><th style="text-align:left">term</th><th>variance</th><th>share</th><th></th></tr>'
    note = _notes(terms, _MOST_ROWS).replace("\n", " ")
    foot = f"<p><small>{html.escape(note)}</small></p>" if note else ""
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>{foot}"


def _html_row(name: str, terms: Sequence[Standing], width: float) -> str:
    measures = (sum(term.variance for term in terms), sum(term.share for term in terms))
    cells = "".join(f'<td style="text-align:right">{percent(measure)}</td>' for measure in measures)
    bar = f'<div style="background:{MAIN};height:.7em;width:{max(0.0, width):.2f}em"></div>'
    return f'<tr><td style="text-align:left">{name}</td>{cells}<td style="text-align:left">{bar}</td></tr>'
