"""SUPPORT2, which stands in for MIMIC-III: seriously ill adults, and whether they died in hospital."""

from __future__ import annotations

from typing import Any

from studies.common import read_data

# What MIMIC-III has too: the person, the disease, signs and laboratory values. Costs, prognoses, orders not to
# resuscitate and lengths of stay know the outcome; scores made of the other columns are left out as well.
CATEGORIES = ("sex", "dzgroup", "ca")
NUMBERS = (
    *("age", "num.co", "diabetes", "dementia", "scoma", "hday", "meanbp", "wblc", "hrt", "resp", "temp", "pafi"),
    *("alb", "bili", "crea", "sod", "ph", "glucose", "bun", "urine"),
)


def read_support2() -> tuple[Any, Any]:
    """Features and death in hospital of SUPPORT2."""
    data = read_data("support2.csv.gz", skipinitialspace=True)
    kinds = dict.fromkeys(NUMBERS, "float64") | dict.fromkeys(CATEGORIES, "category")
    return data[list(kinds)].astype(kinds), data["hospdead"]
