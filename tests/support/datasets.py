"""Simulated tables with the columns and types of well-known public ones, for tests that have no data; need pandas.

Values are random: only names, types, categories, missing values and a few strong effects are those of the originals.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from treeanova.core.arrays import Floats

N_ROWS = 1200
_OTHER_MEASURES = [
    "slos",
    "d.time",
    "edu",
    "charges",
    "totcst",
    "totmcst",
    "avtisst",
    "sps",
    "aps",
    "surv2m",
    "surv6m",
    "hday",
    "diabetes",
    "dementia",
    "prg2m",
    "prg6m",
    "dnrday",
    "wblc",
    "pafi",
    "bili",
    "sod",
    "ph",
    "glucose",
    "urine",
    "adlp",
    "adls",
    "adlsc",
]


def _chosen(rng: np.random.Generator, labels: str, missing: float = 0.0) -> Any:
    """A column of text, comma-separated labels drawn at random, with a share of missing values."""
    column = rng.choice(np.array(labels.split(","), dtype=object), N_ROWS)
    column[rng.random(N_ROWS) < missing] = None
    return column


def _with_gaps(rng: np.random.Generator, values: Floats, missing: float) -> Floats:
    return np.where(rng.random(N_ROWS) < missing, np.nan, values)


def adult() -> Any:
    """Like the census income table: eight columns of text, three of them with missing values."""
    rng = np.random.default_rng(1)
    age, years = rng.integers(17, 80, N_ROWS), rng.integers(1, 17, N_ROWS)
    married = rng.random(N_ROWS) < 0.5
    table = pd.DataFrame({"age": age})
    table["workclass"] = _chosen(rng, "Private,Local-gov,State-gov,Self-emp-inc", missing=0.06)
    table["fnlwgt"] = rng.integers(10_000, 500_000, N_ROWS)
    table["education"] = np.where(years > 12, "Bachelors", "HS-grad")
    table["education-num"] = years
    table["marital-status"] = np.where(married, "Married-civ-spouse", _chosen(rng, "Never-married,Divorced,Widowed"))
    table["occupation"] = _chosen(rng, "Sales,Craft-repair,Exec-managerial,Tech-support", missing=0.06)
    table["relationship"] = np.where(married, _chosen(rng, "Husband,Wife"), _chosen(rng, "Own-child,Unmarried"))
    table["race"] = _chosen(rng, "White,Black,Asian-Pac-Islander,Other")
    table["sex"] = _chosen(rng, "Male,Female")
    table["capital-gain"] = np.where(rng.random(N_ROWS) < 0.9, 0, rng.integers(100, 20_000, N_ROWS))
    table["capital-loss"] = np.where(rng.random(N_ROWS) < 0.95, 0, rng.integers(100, 3_000, N_ROWS))
    table["hours-per-week"] = rng.integers(10, 70, N_ROWS)
    table["native-country"] = _chosen(rng, "United-States,Mexico,India", missing=0.02)
    logit = 2 * married + 0.3 * (years - 10) + 0.04 * (age - 40) * married - 1
    table["income"] = np.where(rng.random(N_ROWS) < 1 / (1 + np.exp(-logit)), ">50K", "<=50K")
    table["split"] = np.where(np.arange(N_ROWS) < 800, "train", "test")
    return table


def bike_hour() -> Any:
    """Like the hourly bike rentals: counts that depend on the hour most of all."""
    rng = np.random.default_rng(2)
    day, hour = np.arange(N_ROWS) // 24, np.arange(N_ROWS) % 24
    month, temp = day // 30 + 1, rng.beta(3, 3, N_ROWS).round(2)
    dates = (np.datetime64("2011-01-01") + day).astype(str)
    table = pd.DataFrame({"instant": np.arange(1, N_ROWS + 1), "dteday": dates.astype(object)})
    table["season"], table["yr"], table["mnth"], table["hr"] = (month - 1) // 3 + 1, 0, month, hour
    table["holiday"], table["weekday"] = (rng.random(N_ROWS) < 0.03).astype(int), (day + 6) % 7
    table["workingday"] = np.isin(table["weekday"], [1, 2, 3, 4, 5]).astype(int)
    table["weathersit"] = rng.integers(1, 5, N_ROWS)
    table["temp"], table["atemp"] = temp, (0.9 * temp + 0.05 * rng.random(N_ROWS)).round(4)
    table["hum"], table["windspeed"] = rng.random(N_ROWS).round(2), rng.random(N_ROWS).round(4)
    busy = np.exp(3 + 1.5 * np.sin(np.pi * (hour - 6) / 12) + temp)
    table["casual"] = rng.poisson(0.3 * busy * (2 - table["workingday"]))
    table["registered"] = rng.poisson(busy * (1 + table["workingday"] * np.isin(hour, [8, 17, 18])))
    table["cnt"] = table["casual"] + table["registered"]
    return table


def california_housing() -> Any:
    """Like the districts of California: incomes, rooms, and a coast along which prices are higher."""
    rng = np.random.default_rng(3)
    latitude = rng.uniform(32.6, 41.9, N_ROWS).round(2)
    inland = rng.exponential(1.5, N_ROWS)
    table = pd.DataFrame({"MedInc": rng.gamma(4, 1, N_ROWS).round(4), "HouseAge": rng.integers(1, 53, N_ROWS) * 1.0})
    table["AveRooms"] = rng.gamma(20, 0.27, N_ROWS)
    table["AveBedrms"] = 0.2 * table["AveRooms"] + rng.normal(0, 0.05, N_ROWS)
    table["Population"] = rng.integers(50, 4_000, N_ROWS) * 1.0
    table["AveOccup"] = rng.gamma(12, 0.25, N_ROWS)
    table["Latitude"], table["Longitude"] = latitude, (-117 - 0.8 * (latitude - 32.6) + inland).round(2)
    value = 0.4 * table["MedInc"] - 0.3 * inland + 0.15 * inland * (latitude < 36) - 0.1 * table["AveOccup"] + 2
    table["MedHouseVal"] = np.clip(value + 0.3 * rng.normal(size=N_ROWS), 0.15, 5.0)
    return table


def compas_two_years() -> Any:
    """Like ProPublica's table of screened defendants, some of whom its filter leaves out."""
    rng = np.random.default_rng(4)
    race = _chosen(rng, "African-American,African-American,Caucasian,Hispanic,Other")
    table = pd.DataFrame({"age": rng.integers(18, 70, N_ROWS), "sex": _chosen(rng, "Male,Male,Female"), "race": race})
    for name in ("juv_fel_count", "juv_misd_count", "juv_other_count"):
        table[name] = rng.poisson(0.1, N_ROWS)
    table["priors_count"] = rng.geometric(0.25, N_ROWS) - 1
    table["c_charge_degree"] = _chosen(rng, "F,F,M")
    table["days_b_screening_arrest"] = _with_gaps(rng, rng.normal(0, 15, N_ROWS).round(), 0.04)
    table["length_of_stay_days"] = _with_gaps(rng, rng.exponential(10, N_ROWS).round(4), 0.04)
    table["is_recid"] = np.where(rng.random(N_ROWS) < 0.02, -1, rng.integers(0, 2, N_ROWS))
    young = 45 - table["age"]
    decile = 4 + 0.08 * young + 0.5 * table["priors_count"] + (race == "African-American") * (1 + 0.03 * young)
    table["decile_score"] = np.clip(decile.round(), 1, 10).astype(int)
    table["score_text"] = pd.cut(table["decile_score"], [0, 4, 7, 10], labels=["Low", "Medium", "High"]).astype(object)
    table["two_year_recid"] = (rng.random(N_ROWS) < decile / 12).astype(int)
    return table


def covtype() -> Any:
    """Like the forest cover types: ten numbers, 44 indicators and seven classes."""
    rng = np.random.default_rng(5)
    cover = np.arange(N_ROWS) % 7 + 1
    table = pd.DataFrame({"Elevation": (2200 + 150 * cover + rng.normal(0, 120, N_ROWS)).astype(int)})
    table["Aspect"], table["Slope"] = rng.integers(0, 360, N_ROWS), rng.integers(0, 50, N_ROWS)
    distances = [f"{way}_Distance_To_Hydrology" for way in ("Horizontal", "Vertical")]
    distances.append("Horizontal_Distance_To_Roadways")
    for scale, name in enumerate(distances, start=1):
        table[name] = (rng.exponential(300 * scale, N_ROWS) + 40 * cover).astype(int)
    for name in ("Hillshade_9am", "Hillshade_Noon", "Hillshade_3pm"):
        table[name] = rng.integers(0, 255, N_ROWS)
    table["Horizontal_Distance_To_Fire_Points"] = rng.integers(0, 7_000, N_ROWS)
    area, soil = (cover + rng.integers(0, 2, N_ROWS)) % 4, (5 * cover + rng.integers(0, 9, N_ROWS)) % 40
    areas = {f"Wilderness_Area{k + 1}": (area == k).astype(int) for k in range(4)}
    soils = {f"Soil_Type{k + 1}": (soil == k).astype(int) for k in range(40)}
    return table.assign(**areas, **soils, Cover_Type=cover)


def support2() -> Any:
    """Like the table of seriously ill patients: measurements with gaps, and death in hospital."""
    rng = np.random.default_rng(6)
    table = pd.DataFrame({"sno": np.arange(1, N_ROWS + 1), "age": rng.normal(62, 15, N_ROWS)})
    table["sex"] = _chosen(rng, "male,female")
    table["dzgroup"] = _chosen(rng, "Lung Cancer,Cirrhosis,ARF/MOSF w/Sepsis,Coma,CHF")
    table["num.co"] = rng.integers(0, 7, N_ROWS)
    table["income"] = _chosen(rng, "under $11k,$11-$25k,$25-$50k,>$50k", missing=0.3)
    table["scoma"] = rng.choice([0.0, 9.0, 26.0, 44.0, 100.0], N_ROWS)
    table["race"] = _chosen(rng, "white,black,hispanic,asian,other", missing=0.01)
    table["ca"] = _chosen(rng, "no,no,yes,metastatic")
    for name, mean, deviation in (
        ("meanbp", 85.0, 25.0),
        ("hrt", 97.0, 30.0),
        ("resp", 23.0, 9.0),
        ("temp", 37.0, 1.2),
    ):
        table[name] = rng.normal(mean, deviation, N_ROWS).round(1)
    for name, mean, missing in (("alb", 3.0, 0.37), ("crea", 1.8, 0.01), ("bun", 32.0, 0.48)):
        table[name] = _with_gaps(rng, rng.gamma(4, mean / 4, N_ROWS).round(2), missing)
    others = {name: _with_gaps(rng, rng.normal(size=N_ROWS), 0.2) for name in _OTHER_MEASURES}
    texts = {name: _chosen(rng, "a,b,c", missing=0.1) for name in ("dzclass", "dnr", "sfdm2")}
    logit = 0.04 * (table["age"] - 62) + 0.03 * table["scoma"] + 0.05 * (table["bun"].fillna(20) - 32) - 1.5
    dead = (rng.random(N_ROWS) < 1 / (1 + np.exp(-logit))).astype(int)
    return table.assign(hospdead=dead, death=dead, **others, **texts)


def mimic3_demo_admissions() -> Any:
    """Like the admissions of the MIMIC-III demo: first laboratory values with gaps, ages over 89 hidden as 300."""
    rng = np.random.default_rng(7)
    n = 129
    table = pd.DataFrame({"subject_id": np.arange(10_000, 10_000 + n), "hadm_id": np.arange(100_000, 100_000 + n)})
    table["age"] = np.where(rng.random(n) < 0.05, 300, rng.integers(20, 89, n))
    table["gender"] = rng.choice(["F", "M"], n)
    table["admission_type"] = rng.choice(["EMERGENCY", "ELECTIVE", "URGENT"], n)
    table["insurance"] = rng.choice(["Medicare", "Private"], n)
    table["ethnicity"] = rng.choice(["WHITE", "ASIAN"], n)
    labs = ["bun", "creatinine", "sodium", "potassium", "bicarbonate", "chloride", "glucose", "hemoglobin"]
    for name in (*labs, "hematocrit", "wbc", "platelets"):
        table[name] = rng.gamma(9, 4, n).round(1) + 0.1
    for name in ("lactate", "albumin", "bilirubin_total", "inr"):
        table[name] = np.where(rng.random(n) < 0.2, np.nan, rng.gamma(4, 0.8, n).round(1) + 0.1)
    table["los_days"] = rng.exponential(8, n)
    table["hospital_expire_flag"] = (rng.random(n) < 0.3).astype(int)
    return table


SIMULATED: dict[str, Callable[[], Any]] = {
    "adult.csv.gz": adult,
    "bike_hour.csv.gz": bike_hour,
    "california_housing.csv.gz": california_housing,
    "compas_two_years.csv.gz": compas_two_years,
    "covtype.csv.gz": covtype,
    "support2.csv.gz": support2,
    "mimic3_demo_admissions.csv": mimic3_demo_admissions,
}


def write_simulated(folder: pathlib.Path) -> None:
    """Write all tables to a folder, by the names of the files that studies and examples read."""
    for name, simulate in SIMULATED.items():
        simulate().to_csv(folder / name, index=False)
