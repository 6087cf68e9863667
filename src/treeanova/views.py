"""Words, colours and rankings that plots, report, command line and notebooks share; never computes."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from treeanova.anova.certificate import Certificate
from treeanova.core.arrays import Names, labels_of
from treeanova.data.columns import columns_of
from treeanova.data.features import Feature, Schema, date_text


class NamedDensity(Protocol):
    """A density, of which views read the name and a caveat."""

    @property
    def name(self) -> str:
        """Name to show, like "auto"."""

    @property
    def caveat(self) -> str:
        """What to know of the rows that define it, in a sentence; mostly empty."""


class ScopeLike(Protocol):
    """How much of the model the terms hold."""

    @property
    def is_part(self) -> bool:
        """Whether terms were selected, so that they do not add up to the model."""

    @property
    def n_terms(self) -> int | None:
        """Number of terms before a selection; None where there was none."""


class DecompositionLike(Protocol):
    """The part of `treeanova.Decomposition` that views read."""

    @property
    def schema(self) -> Schema:
        """Features, outputs and link of the model."""

    @property
    def terms(self) -> Mapping[Names, Any]:
        """All terms by the names of their features."""

    @property
    def certificate(self) -> Certificate:
        """Purity of the terms, and how well they add up to the model."""

    @property
    def density(self) -> NamedDensity:
        """The density under which terms are pure."""

    @property
    def scope(self) -> ScopeLike:
        """How much of the model the terms hold."""

    @property
    def has_remainder(self) -> bool:
        """Whether the model is more than the sum of the terms that are reported individually."""

    def importance(self, by: str = "term") -> Any:
        """Table of what each term does to the score, the strongest first."""


# White at zero; blue below, orange above: distinct for any kind of colour vision, and in print.
DIVERGING = ("#08306b", "#2171b5", "#6baed6", "#c6dbef", "#ffffff", "#fdd0a2", "#fd8d3c", "#d94801", "#7f2704")
NEGATIVE, POSITIVE = "#2171b5", "#d94801"
MAIN, RAW = "#1f5a92", "#8c8c8c"
# From the palette of Okabe and Ito.
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555")
NO_DATA = "#d9d9d9"
DATA = "#9aa5b1"

_SCALES = {
    "identity": "prediction",
    "logit": "log-odds",
    "softmax": "class score",
    "log": "log of the prediction",
    "probability": "probability",
    "cloglog": "complementary log-log",
    "ova": "log-odds of the class",
}
# The response that a link turns scores into, where it differs from the score.
RESPONSES = {"logit": "probability", "softmax": "probability", "log": "prediction"}


# Measures of a term. Its variance leads: lists, headlines and bars are in it, and in its order. Its share comes second:
# it adds up over terms.
NEGATIVE_SHARE = (
    "A negative share means that the term partly cancels terms that it is correlated with: without it, the score would "
    "vary more. Its variance says how strong it is."
)
OFFSET = (
    "A share far below the variance means that correlated terms cancel much of the term: its variance says how strong "
    "it is, its share what is left of that in the score."
)
_SHOWN_NEGATIVE = -0.0005
_MUCH = 0.1


def share_words(terms: Iterable[tuple[float, float]]) -> str:
    """What shares mean where they are negative or far below the variance, from pairs of both; else empty."""
    shown = list(terms)
    is_offset = any(variance - share > _MUCH for variance, share in shown)
    return negative_share_words(share for _, share in shown) or (OFFSET if is_offset else "")


def negative_share_words(shares: Iterable[float]) -> str:
    """What a negative share means, where one is shown as negative; else empty."""
    return NEGATIVE_SHARE if any(share <= _SHOWN_NEGATIVE for share in shares) else ""


def percent(share: float) -> str:
    """A share for people: "11 %", "0.4 %", "below 0.1 %"."""
    if 0 < abs(share) < 0.001:
        return "below 0.1\u00a0%"
    digits = 1 if 0 < abs(share) < 0.0095 else 0
    return f"{100 * share:.{digits}f}\u00a0%".replace("-", "−")


def sum_words(variances: Iterable[float]) -> str:
    """What the variances of all terms add up to, where that is not 100 %; else empty."""
    total = sum(variances)
    if round(100 * total) in {0, 100}:
        return ""
    return f"Variances add up to {percent(total)}, because terms are correlated; shares add up to 100\u00a0%."


def variance_words(schema: Schema, *, is_part: bool) -> str:
    """What the variance of a term is relative to: the score, or the sum of the terms where some were left out."""
    whole = "sum of the terms that are left" if is_part else scale_of(schema)
    return f"variance of the term, relative to that of the {whole}"


def scale_of(schema: Schema) -> str:
    """The scale of scores in words: "log-odds of yes" for a classifier of "no" and "yes"."""
    return _of_class(_SCALES.get(schema.link, "score"), schema)


def response_of(schema: Schema) -> str | None:
    """The response in words, where it differs from the score: "probability of yes"; None where it does not."""
    words = RESPONSES.get(schema.link)
    return None if words is None else "prediction" if schema.predicts_share else _of_class(words, schema)


def _of_class(words: str, schema: Schema) -> str:
    """Words for a score, with the class that it is for where a single score is for the second of two classes."""
    is_of_second = len(schema.outputs) == 1 and len(schema.classes) == 2 and schema.link in {"logit", "probability"}
    if not is_of_second or schema.predicts_share:
        return words
    label = schema.classes[1]
    name = " ".join(str(label).split())
    is_word = isinstance(label, str) and any(map(str.isalpha, name))
    return f"{words} of {name if is_word else f'class {name}'}"


def effect_words(schema: Schema, output: str | None = None, baseline: str = "average") -> str:
    """What a value of a term means: "change in log-odds of yes against the average"."""
    return f"change in {scale_of(schema)}{of_output(schema, output)} against the {baseline}"


def response_words(schema: Schema, output: str | None, base: float | None, *, is_raw: bool) -> str:
    """What a value of a term means on the response scale, with the response at the base point where it is known."""
    start = "" if base is None else f" from {base:.3g}"
    others = "zero" if is_raw else "their average"
    change = f"change in {response_of(schema)}{of_output(schema, output)}{start}"
    return f"{change}, all other terms at {others} (does not add up)"


def of_output(schema: Schema, output: str | None) -> str:
    """The output in brackets, where there are several; else empty."""
    return f" ({output})" if output is not None and len(schema.outputs) > 1 else ""


def value_text(feature: Feature, value: float, number_text: Callable[[float], str]) -> str:
    """An encoded value of a feature for people: a number, the name of a category, "missing" or "unseen"."""
    if math.isnan(value):
        return "missing"
    if feature.encoder.labels is None:
        date = date_text(value, feature.encoder.date_unit) if feature.encoder.date_unit else None
        return number_text(value) if date is None else date
    return str(feature.encoder.labels[int(value)]) if value < feature.n_categories else "unseen"


class Standing(NamedTuple):
    """A term in the ranking of one output; what is not a listed term has no features."""

    features: Names
    label: str
    order: int
    variance: float
    share: float
    mean_abs: float

    @property
    def is_remainder(self) -> bool:
        """Whether this is not a listed term: other terms of an order added up, or the remainder."""
        return not self.features

    @property
    def key(self) -> Names:
        """The features, or a key that no term has."""
        return self.features or key_of_rest(self.label)


def key_of_rest(label: str) -> Names:
    """A key, which no term has, of what is not a listed term."""
    return "", label


def is_rest(key: Names) -> bool:
    """Whether a key is of what is not a listed term."""
    return key[0] == "" and len(key) == 2


def as_lists(table: Any) -> dict[str, list[Any]]:
    """Columns of a table of results as lists."""
    return columns_of(table)


def standings(fx: DecompositionLike) -> dict[str, list[Standing]]:
    """Per output the terms of a decomposition, strongest first, as `importance` has them."""
    columns = as_lists(fx.importance())
    outputs = fx.schema.outputs
    rankings: dict[str, list[Standing]] = {output: [] for output in outputs}
    names = features_by_label(fx.terms, fx.schema)
    output_of_row = columns.get("output", [outputs[0]] * len(columns["term"]))
    measures = zip(columns["variance"], columns["share"], columns["mean_abs"], strict=True)
    for output, label, order, row in zip(output_of_row, columns["term"], columns["order"], measures, strict=True):
        variance, share, mean_abs = map(float, row)
        rankings[output].append(Standing(names.get(str(label), ()), str(label), int(order), variance, share, mean_abs))
    return rankings


def features_by_label(terms: Collection[Names], schema: Schema) -> dict[str, Names]:
    """The features of each term by its label in tables: the one place that goes from labels to features."""
    return dict(zip(labels_of(terms, schema.names), terms, strict=True))


def shares_by_order(ranking: Iterable[Standing]) -> tuple[float, float, float]:
    """Shares of the variance of main effects, of pairs and of higher orders."""
    totals = [0.0, 0.0, 0.0]
    for term in ranking:
        totals[min(max(term.order, 1), 3) - 1] += term.share
    return totals[0], totals[1], totals[2]


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
