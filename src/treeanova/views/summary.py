"""A decomposition in a few words: which terms carry the variance, in a sentence and in a small table for notebooks."""

from __future__ import annotations

import html
from collections.abc import Sequence

from treeanova.views.decomposed import DecompositionLike
from treeanova.views.look import MAIN, percent, scale_of, share_words, sum_words
from treeanova.views.standings import Standing, shares_by_order, standings

_MOST_ROWS = 10
_LEAST_VARIANCE = 0.01  # of a term that a headline counts


def headline(ranking: Sequence[Standing], raw: Sequence[Standing] | None = None, *, is_part: bool = False) -> str:
    """The answer in a sentence, in variances of terms: how many are not small, the strongest term and interaction.

    Parameters
    ----------
    ranking
        All terms of one output, the strongest first.
    raw
        The same before purification, to say what that changed: said of models of main effects and pairs only, as the
        raw form of deeper models depends on how their trees happened to grow.
    is_part
        Whether terms were left out: variances are then relative to that of the sum of the others.
    """
    if not any(term.variance for term in ranking):
        return "The model is constant: no term has any variance."
    parts = [_how_many(ranking, "that of their sum" if is_part else "the score's"), _strongest(ranking)]
    if raw is not None and has_readable_raw_form([*ranking, *raw]):
        parts.append(_moved(shares_by_order(raw)[1], shares_by_order(ranking)[1]))
    return "; ".join(part for part in parts if part) + "."


def has_readable_raw_form(ranking: Sequence[Standing]) -> bool:
    """Whether all terms are main effects and pairs, none of them left to a remainder."""
    return all(term.order <= 2 and not term.is_remainder for term in ranking)


def _how_many(ranking: Sequence[Standing], whole: str) -> str:
    """How many terms have a variance worth naming."""
    terms = [term for term in ranking if not term.is_remainder]
    if not terms:
        return "No term is listed"
    n_terms = sum(term.variance >= _LEAST_VARIANCE for term in terms)
    count = "One" if n_terms == 1 else str(n_terms or "None")
    some = (
        f"{count} of {len(terms)} terms {'have' if n_terms > 1 else 'has'}" if len(terms) > 1 else "The only term has"
    )
    if len(terms) == 1:
        return f"{some} a variance of {percent(terms[0].variance)} of {whole}"
    return f"{some} a variance of at least {percent(_LEAST_VARIANCE)} of {whole}"


def _strongest(ranking: Sequence[Standing]) -> str:
    """The strongest term and the strongest interaction, with their variances."""
    terms = [term for term in ranking if not term.is_remainder]
    first = next((term for term in terms if term.order > 1), None)
    strongest = f"the strongest is {_with_variance(terms[0])}" if len(terms) > 1 else ""
    if first is not None:
        return strongest if terms[0] is first else f"{strongest}, the strongest interaction {_with_variance(first)}"
    rests = " and ".join(f"the {_with_variance(term)}" for term in ranking if term.is_remainder)
    left = f"interactions are in {rests}" if rests else "there are no interactions"
    return "; ".join(part for part in (strongest, left) if part)


def _with_variance(term: Standing) -> str:
    label = term.label.strip("()") if term.is_remainder else term.label
    return f"{label} ({percent(term.variance)})"


def _moved(before: float, after: float) -> str:
    """How purification changed the share of pairs.

    Empty where raw terms cancel each other out: their shares are then not parts of a whole.
    """
    if abs(after - before) < 0.005 or not 0 <= before <= 1:
        return ""
    way = "lowered" if after < before else "raised"
    return f"purification {way} the share of pairs from {percent(before)} to {percent(after)}"


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
    if certificate.higher is not None and certificate.higher.accuracy:
        lines.append(certificate.higher.accuracy)
    lines += certificate.uniqueness
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
        sentence = headline(ranking, is_part=fx.scope.is_part)
        caption = sentence if len(rankings) == 1 else f"{output}: {sentence}"
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
    head = '<tr><th style="text-align:left">term</th><th>variance</th><th>share</th><th></th></tr>'
    notes = sum_words(term.variance for term in ranking), share_words((term.variance, term.share) for term in shown)
    note = " ".join(filter(None, notes))
    foot = f"<p><small>{html.escape(note)}</small></p>" if note else ""
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>{foot}"


def _table_row(name: str, terms: Sequence[Standing], width: float) -> str:
    """A row of one term or of several together, with a bar of a width in em."""
    measures = (sum(term.variance for term in terms), sum(term.share for term in terms))
    cells = "".join(f'<td style="text-align:right">{percent(measure)}</td>' for measure in measures)
    bar = f'<div style="background:{MAIN};height:.7em;width:{max(0.0, width):.2f}em"></div>'
    return f'<tr><td style="text-align:left">{name}</td>{cells}<td style="text-align:left">{bar}</td></tr>'
