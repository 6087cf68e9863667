"""A decomposition in a few words: which terms carry the variance, in a sentence and in a small table for notebooks."""

from __future__ import annotations

import html
import itertools
from collections.abc import Sequence

from treeanova.views.decomposed import DecompositionLike
from treeanova.views.look import MAIN, scale_of, share_words
from treeanova.views.standings import Standing, shares_by_order, standings

_MOST_ROWS = 10
_MOST_OF_VARIANCE = 0.8


def percent(share: float) -> str:
    """A share for people: "11 %", "0.4 %", "below 0.1 %"."""
    if 0 < abs(share) < 0.001:
        return "below 0.1\u00a0%"
    digits = 1 if 0 < abs(share) < 0.0095 else 0
    return f"{100 * share:.{digits}f}\u00a0%".replace("-", "−")


def headline(ranking: Sequence[Standing], raw: Sequence[Standing] | None = None) -> str:
    """The answer in a sentence: how few terms matter, the strongest interaction, what purification moved."""
    if not any(term.variance for term in ranking):
        return "The model is constant: no term carries any variance."
    parts = [_few_terms(ranking), _strongest_interaction(ranking)]
    if raw is not None:
        kind = "pairs" if max(term.order for term in [*ranking, *raw]) <= 2 else "interactions"
        parts.append(_moved(shares_by_order(raw)[0], shares_by_order(ranking)[0], kind))
    return "; ".join(part for part in parts if part) + "."


def _few_terms(ranking: Sequence[Standing]) -> str:
    """How many of the strongest terms carry most of the summed variances of all terms."""
    terms = [term for term in ranking if not term.is_remainder]
    if not terms:
        return "There are no terms"
    whole = sum(term.variance for term in ranking)
    sums = [part / whole for part in itertools.accumulate(term.variance for term in terms)]
    n_terms = 1 + sum(part < _MOST_OF_VARIANCE for part in sums[:-1])
    carried = sums[n_terms - 1]
    of_all = f"{n_terms} of {len(terms)} terms carry" if n_terms > 1 else f"One of {len(terms)} terms carries"
    return f"{of_all if len(terms) > 1 else 'The only term carries'} {percent(carried)} of the variance of all terms"


def _strongest_interaction(ranking: Sequence[Standing]) -> str:
    interactions = [term for term in ranking if term.order > 1 and not term.is_remainder]
    if not interactions:
        remainder = sum(term.share for term in ranking if term.is_remainder)
        return f"interactions are in the remainder ({percent(remainder)})" if remainder else "there are no interactions"
    return f"the strongest interaction is {interactions[0].label} ({percent(interactions[0].variance)})"


def _moved(before: float, after: float, kind: str) -> str:
    """What share of the variance purification moved from interactions to main effects, or back.

    Empty where raw terms cancel each other out: their shares are then not parts of a whole.
    """
    if abs(after - before) < 0.005 or not 0 <= before <= 1:
        return ""
    way = f"from {kind} to main effects" if after > before else f"from main effects to {kind}"
    return f"purification moved {percent(abs(after - before))} {way}"


def adding_up(fx: DecompositionLike) -> str:
    """How closely terms add up: "sum of terms within 1.9e-16 of the model"; empty where terms were selected."""
    if fx.scope.is_part:
        return ""
    whole = "terms and remainder" if fx.has_remainder else "terms"
    return f"sum of {whole} within {fx.certificate.reconstruction_error:.1e} of the model"


def caveats(fx: DecompositionLike) -> list[str]:
    """What the certificate means, one line each: purity and sum, accuracy of high orders, copies of rows, remainder."""
    certificate = fx.certificate
    lines = ["; ".join(part for part in (certificate.purity, adding_up(fx)) if part)]
    higher = certificate.higher
    if higher is not None and not higher.is_exact:
        change = f"{higher.refinement:.1%} of the score's standard deviation"
        lines.append(f"half as many bins for high orders would change a table by {change}")
    if fx.density.caveat:
        lines.append(fx.density.caveat)
    if certificate.remainder_share is not None:
        of_all = " (of the worst output)" if len(fx.schema.outputs) > 1 else ""
        lines.append(f"the remainder has {certificate.remainder_share:.0%} of the score's variance{of_all}")
    return lines


def html_summary(fx: DecompositionLike) -> str:
    """A small HTML table of the strongest terms, for notebooks: no script, all names escaped."""
    rankings = standings(fx)
    parts = [_intro(fx)]
    for output, ranking in rankings.items():
        caption = headline(ranking) if len(rankings) == 1 else f"{output}: {headline(ranking)}"
        parts.append(f"<p>{html.escape(caption)}</p>{_ranking_table(ranking)}")
    return f'<div style="font-family:system-ui,sans-serif;max-width:44em">{"".join(parts)}</div>'


def _intro(fx: DecompositionLike) -> str:
    words = f"{len(fx.terms)} terms · density {fx.density.name} · {scale_of(fx.schema)}"
    parts = [html.escape(part) for part in (words, *caveats(fx)) if part]
    return f"<p><strong>Decomposition</strong> · {' · '.join(parts)}</p>"


def _ranking_table(ranking: Sequence[Standing]) -> str:
    largest = max((term.variance for term in ranking), default=0.0) or 1.0
    shown, rest = ranking[:_MOST_ROWS], ranking[_MOST_ROWS:]
    rows = "".join(_table_row(html.escape(term.label), [term], 8 * term.variance / largest) for term in shown)
    if rest:
        rows += _table_row(f"<em>{len(rest)} more</em>", rest, 0.0)
    head = '<tr><th style="text-align:left">term</th><th>own variance</th><th>share</th><th></th></tr>'
    note = share_words((term.variance, term.share) for term in shown)
    foot = f"<p><small>{html.escape(note)}</small></p>" if note else ""
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>{foot}"


def _table_row(name: str, terms: Sequence[Standing], width: float) -> str:
    """A row of one term or of several together, with a bar of a width in em."""
    measures = (sum(term.variance for term in terms), sum(term.share for term in terms))
    cells = "".join(f"<td>{percent(measure)}</td>" for measure in measures)
    bar = f'<div style="background:{MAIN};height:.7em;width:{max(0.0, width):.2f}em"></div>'
    return f'<tr><td style="text-align:left">{name}</td>{cells}<td style="text-align:left">{bar}</td></tr>'
