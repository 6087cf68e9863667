"""Loader of MIMIC-III: one row per admission, with age, first laboratory values and death in hospital.

MIMIC-III is open to credentialed users only (physionet.org/content/mimiciii). With the three files::

    rows = load_admissions("ADMISSIONS.csv.gz", "PATIENTS.csv.gz", "LABEVENTS.csv.gz")

Names of columns may be in upper case (the full release) or in lower case (the demo), files packed or plain.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Laboratory tests by their ITEMIDs in blood; the first recorded value of any of them is taken.
LABS: Mapping[str, tuple[int, ...]] = {
    "bun": (51006,),
    "creatinine": (50912,),
    "sodium": (50983, 50824),
    "potassium": (50971, 50822),
    "bicarbonate": (50882,),
    "chloride": (50902, 50806),
    "glucose": (50931, 50809),
    "hemoglobin": (51222, 50811),
    "hematocrit": (51221, 50810),
    "wbc": (51301, 51300),
    "platelets": (51265,),
    "lactate": (50813,),
    "albumin": (50862,),
    "bilirubin_total": (50885,),
    "inr": (51237,),
}

# Dates of birth of patients over 89 are moved so that they seem about 300 years old; their median age is 91.4.
OLDEST_KNOWN_AGE = 89
AGE_OF_THE_OLDEST = 91.4

_OF_ADMISSIONS = ["subject_id", "hadm_id", "admittime", "dischtime", "admission_type", "hospital_expire_flag"]
_YEAR = 365.2425  # days
_CHUNK = 1_000_000


def load_admissions(
    admissions: str | Path,
    patients: str | Path,
    labevents: str | Path,
    *,
    labs: Mapping[str, tuple[int, ...]] = LABS,
    min_age: float = 15,
    chunk_rows: int = _CHUNK,
) -> Any:
    """A table of admissions: identifiers, age, gender, kind of admission, first labs, days of stay, death in hospital.

    Parameters
    ----------
    admissions, patients, labevents
        Paths of the three files. LABEVENTS (28 million rows) is read in pieces.
    labs
        Names of columns and the ITEMIDs whose first value fills them; no value gives NaN.
    min_age
        Admissions of younger patients are left out: about 7,900 are newborns.
    chunk_rows
        Rows of LABEVENTS in memory at once.
    """
    import pandas as pd  # noqa: PLC0415

    stays = _read(admissions, _OF_ADMISSIONS)
    stays = stays.merge(_read(patients, ["subject_id", "gender", "dob"]), on="subject_id", validate="many_to_one")
    # 300 years do not fit into nanoseconds, which is what differences of pandas times used to be counted in.
    admitted, discharged, born = (
        pd.to_datetime(stays[name]).astype("datetime64[s]") for name in ("admittime", "dischtime", "dob")
    )
    stays["age"] = corrected_age((admitted - born).dt.days / _YEAR)
    stays["los_days"] = (discharged - admitted).dt.total_seconds() / 86_400
    stays = stays.merge(first_labs(labevents, labs, chunk_rows=chunk_rows), on="hadm_id", how="left")
    columns = ["subject_id", "hadm_id", "age", "gender", "admission_type", *labs, "los_days", "hospital_expire_flag"]
    return stays.loc[stays["age"] >= min_age, columns].reset_index(drop=True)


def corrected_age(age: Any) -> Any:
    """Ages in years, those over 89, which MIMIC-III hides, set to 91.4."""
    return age.astype(float).mask(age > OLDEST_KNOWN_AGE, AGE_OF_THE_OLDEST)


def first_labs(labevents: str | Path, labs: Mapping[str, tuple[int, ...]] = LABS, *, chunk_rows: int = _CHUNK) -> Any:
    """The first positive value of each laboratory test in each admission, one row per admission that has any."""
    import pandas as pd  # noqa: PLC0415

    names = {item: name for name, items in labs.items() for item in items}
    columns = ["hadm_id", "itemid", "charttime", "valuenum"]
    found = None
    for chunk in _read(labevents, columns, chunksize=chunk_rows):
        part = chunk.rename(columns=str.lower)
        part = part[part["itemid"].isin(names) & part["hadm_id"].notna() & (part["valuenum"] > 0)]
        part = part.assign(lab=part["itemid"].map(names), charttime=pd.to_datetime(part["charttime"]))
        both = part if found is None else pd.concat([found, part])
        found = both.sort_values("charttime", kind="stable").drop_duplicates(["hadm_id", "lab"])
    if found is None:
        raise ValueError(f"`labevents` must have rows, got none in {labevents}; take the whole file.")
    table = found.assign(hadm_id=found["hadm_id"].astype("int64")).pivot_table("valuenum", "hadm_id", "lab")
    return table.reindex(columns=list(labs)).reset_index()


def _read(path: str | Path, columns: list[str], **options: Any) -> Any:
    """Some columns of a file, whatever the case of their names; in pieces (not renamed) with ``chunksize``."""
    import pandas as pd  # noqa: PLC0415

    header = pd.read_csv(path, nrows=0).columns
    missing = set(columns) - set(header.str.lower())
    if missing:
        raise ValueError(f"{path} must have the columns {', '.join(columns)}, got none named {', '.join(missing)}.")
    table = pd.read_csv(path, usecols=lambda name: name.lower() in columns, **options)
    return table if "chunksize" in options else table.rename(columns=str.lower)
