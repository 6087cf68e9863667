"""Words and colours that plots, report, command line and notebooks share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from treeanova.data.dates import date_text
from treeanova.data.features import Feature, Schema

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
# The response of a link, if it differs from the score.
RESPONSES = {"logit": "probability", "softmax": "probability", "log": "prediction"}


# Variance leads: lists, headlines and bars show it, in its order. The share comes second: it adds up over terms.
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
    """Explain shares that are negative or far below the variance, from pairs of both; otherwise empty."""
    shown = list(terms)
    is_offset = any(variance - share > _MUCH for variance, share in shown)
    return negative_share_words(share for _, share in shown) or (OFFSET if is_offset else "")


def negative_share_words(shares: Iterable[float]) -> str:
    """Explain negative shares if there are any; otherwise empty."""
    return NEGATIVE_SHARE if any(share <= _SHOWN_NEGATIVE for share in shares) else ""


def percent(share: float) -> str:
    """Write a share for people: "11 %", "0.4 %", "< 0.1 %", "–" for NaN; the space does not break."""
    if math.isnan(share):
        return "–"
    if 0 < abs(share) < 0.001:
        return "< 0.1\u00a0%"
    digits = 1 if 0 < abs(share) < 0.0095 else 0
    return f"{100 * share:.{digits}f}\u00a0%".replace("-", "−")


def first_texts(texts: Iterable[str], most: int = 6) -> str:
    """Join the first texts by commas, with "…" for the others."""
    listed = list(texts)
    return ", ".join(listed[:most] + ["…"] * (len(listed) > most))


def rows_words(n_rows: int, row: str = "row") -> str:
    """Return, for example, "1 row" or "1,000 old rows"."""
    return f"{n_rows:,} {row}{'' if n_rows == 1 else 's'}"


def sum_words(variances: Iterable[float]) -> str:
    """Say what the variances of all terms add up to, if not 100 %; otherwise empty."""
    total = sum(variances)
    if round(100 * total) in {0, 100}:
        return ""
    return f"Variances add up to {percent(total)}, because terms are correlated; shares add up to 100\u00a0%."


def variance_words(schema: Schema, *, is_part: bool, unit: str = "the term") -> str:
    """Name what variances are relative to: the score, or the sum of the terms if some were left out."""
    whole = "sum of the terms that are left" if is_part else scale_of(schema)
    return f"variance of {unit}, relative to that of the {whole}"


def scale_of(schema: Schema) -> str:
    """Return, for example, "log-odds of yes" for a classifier of "no" and "yes"."""
    return _of_class(_SCALES.get(schema.link, "score"), schema)


def response_of(schema: Schema) -> str | None:
    """Return, for example, "probability of yes"; None if the response is the score."""
    words = RESPONSES.get(schema.link)
    return None if words is None else "prediction" if schema.predicts_share else _of_class(words, schema)


def _of_class(words: str, schema: Schema) -> str:
    """Append the class if a single score is for the second of two classes."""
    is_of_second = len(schema.outputs) == 1 and len(schema.classes) == 2 and schema.link in {"logit", "probability"}
    if not is_of_second or schema.predicts_share:
        return words
    label = schema.classes[1]
    name = " ".join(str(label).split())
    is_word = isinstance(label, str) and any(map(str.isalpha, name))
    return f"{words} of {name if is_word else f'class {name}'}"


def effect_words(schema: Schema, output: str | None = None, baseline: str = "average") -> str:
    """Return, for example, "change in log-odds of yes against the average"."""
    return f"change in {scale_of(schema)}{output_suffix(schema, output)} against the {baseline}"


def response_words(schema: Schema, output: str | None, base: float | None, *, is_raw: bool) -> str:
    """Describe values on the response scale: changes from the response where terms are zero (`base`, if known)."""
    start = "" if base is None else f" from {base:.3g}"
    level = "zero" if is_raw else "their average"
    change = f"change in {response_of(schema)}{output_suffix(schema, output)}{start}"
    return f"{change}, all other terms at {level} (does not add up)"


def output_suffix(schema: Schema, output: str | None) -> str:
    """Return " (yes)" for the output "yes"; empty if there is only one."""
    return f" ({output})" if output is not None and len(schema.outputs) > 1 else ""


def value_text(feature: Feature, value: float, number_text: Callable[[float], str]) -> str:
    """Return a number, the name of a category, "missing" or "unseen"."""
    if math.isnan(value):
        return "missing"
    if feature.encoder.labels is None:
        date = date_text(value, feature.encoder.date_unit) if feature.encoder.date_unit else None
        return number_text(value) if date is None else date
    return str(feature.encoder.labels[int(value)]) if value < feature.n_categories else "unseen"
