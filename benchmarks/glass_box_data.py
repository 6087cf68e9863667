"""Ten data sets on which glass boxes are compared, and their splits into training and test rows."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.real_models import adult, california, cover_types
from studies.common import data_folder

# Known only after the patients' days in hospital.
_LEAKS = {
    "death", "slos", "d.time", "surv2m", "surv6m", "prg2m", "prg6m", "dnr", "dnrday", "sfdm2", "charges", "totcst",
    "totmcst", "avtisst",
}  # fmt: skip
_COMPAS = [
    "age", "sex", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count", "c_charge_degree",
]  # fmt: skip
_N_COVER_TYPES = 30_000
_TEST_SHARE = 0.3


class Split(NamedTuple):
    """Training and test rows of a data set; rows are pandas tables."""

    is_classifier: bool
    X: Any
    y: Any
    X_test: Any
    y_test: Any


def _table(name: str, **options: Any) -> Any:
    return importlib.import_module("pandas").read_csv(data_folder() / name, **options)


def _with_categories(table: Any) -> Any:
    texts = table.select_dtypes(exclude="number").columns
    return table.astype(dict.fromkeys(texts, "category"))


def _bike() -> tuple[Any, Any]:
    table = _table("bike_hour.csv.gz").drop(columns=["instant", "dteday", "casual", "registered"])
    return table, np.log(table.pop("cnt").to_numpy())


def _support2() -> tuple[Any, Any]:
    table = _table("support2.csv.gz", skipinitialspace=True).drop(columns=["sno", *_LEAKS], errors="ignore")
    target = table.pop("hospdead").to_numpy()
    return _with_categories(table), target


def _compas() -> tuple[Any, Any]:
    table = _table("compas_two_years.csv.gz")
    return _with_categories(table[_COMPAS]), table["two_year_recid"].to_numpy()


def _diamonds() -> tuple[Any, Any]:
    """Simulated: four sides that are almost one size, two grades that oppose it, one cut by name."""
    rng = np.random.default_rng(0)
    n_rows = 20_000
    size = rng.normal(size=n_rows)
    table = importlib.import_module("pandas").DataFrame(
        {name: size + 0.15 * rng.normal(size=n_rows) for name in ("carat", "x", "y", "z")}
    )
    for name in ("clarity", "color"):
        table[name] = np.clip(np.round(3.5 - 1.2 * size + 1.2 * rng.normal(size=n_rows)), 0, 7)
    table["table"] = rng.normal(size=n_rows)
    table["cut"] = rng.choice(np.array(["Fair", "Good", "Ideal", "Premium", "Very Good"], dtype=object), n_rows)
    price = 0.5 * table["carat"] + 0.3 * table["x"] + 0.2 * table["y"] + 0.1 * table["z"] + 0.12 * table["clarity"]
    price += 0.07 * table["color"] + 0.02 * table["clarity"] * table["color"] + 0.05 * (table["cut"] == "Ideal")
    price += 0.1 * np.sin(2 * table["carat"]) * table["color"] / 7 + 0.05 * rng.normal(size=n_rows)
    return _with_categories(table), price.to_numpy()


def _cover_type_2() -> tuple[Any, Any]:
    table, target = cover_types()
    places = np.random.default_rng(0).choice(len(target), min(_N_COVER_TYPES, len(target)), replace=False)
    return table.iloc[places].reset_index(drop=True), (target[places] == 1).astype(int)


def _of_scikit_learn(name: str) -> tuple[Any, Any]:
    data = importlib.import_module("sklearn.datasets").__dict__[f"load_{name}"](as_frame=True)
    return data.data, data.target.to_numpy()


def _eights() -> tuple[Any, Any]:
    table, target = _of_scikit_learn("digits")
    return table, (target == 8).astype(int)


# Whether the target is a class, and the rows.
DATA: dict[str, tuple[bool, Callable[[], tuple[Any, Any]]]] = {
    "california": (False, california),
    "bike": (False, _bike),
    "support2": (True, _support2),
    "adult": (True, adult),
    "compas": (True, _compas),
    "diamonds": (False, _diamonds),
    "covtype": (True, _cover_type_2),
    "breast cancer": (True, lambda: _of_scikit_learn("breast_cancer")),
    "diabetes": (False, lambda: _of_scikit_learn("diabetes")),
    "digits": (True, _eights),
}


def split(name: str, repeat: int, max_rows: int | None = None) -> Split:
    """Split a data set at random, 30 % of the rows for testing; of the others, at most `max_rows` for training."""
    is_classifier, load = DATA[name]
    table, target = load()
    rng = np.random.default_rng([repeat, 29])
    places = rng.permutation(len(target))
    n_test = round(_TEST_SHARE * len(places))
    test, train = places[:n_test], places[n_test:][:max_rows]
    rows = [table.iloc[some].reset_index(drop=True) for some in (train, test)]
    return Split(is_classifier, rows[0], target[train], rows[1], target[test])
