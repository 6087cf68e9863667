"""Dates as numbers in a model.

Tree libraries take no dates; people train them on integers in a unit of time since 1970, or on proleptic days
(`datetime.date.toordinal`). Once the unit is known, users can pass columns of dates, and thresholds are shown as dates.
Times with a zone are converted to UTC.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats
from treeanova.data.features import Encoder, Feature, Schema, is_missing

_DAY = 86_400_000_000  # in microseconds
_MICROSECONDS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6, "D": float(_DAY), "ordinal": float(_DAY)}
UNITS = tuple(_MICROSECONDS)
_DAYS_BEFORE_1970 = 719_163  # in proleptic days
_FIRST, _LAST = (np.datetime64(day, "us").astype(np.int64) for day in ("0001-01-01", "9999-12-31"))
_RESOLUTIONS = ("D", "m", "s", "ms", "us")
_FEW_YEARS = 10 * 365 * _DAY  # how far a window of dates, such as the file of a month, may lie from thresholds


@dataclasses.dataclass(frozen=True, eq=False)
class DateNumber(Encoder):
    """A date as a number in `unit` ("ns", "us", "ms", "s" or "D" since 1970, or "ordinal"); also takes the numbers."""

    unit: str
    number: Encoder

    @property
    def date_unit(self) -> str:
        return self.unit

    @property
    def missing(self) -> float:
        """Another value than NaN that means missing."""
        return float(getattr(self.number, "missing", np.nan))

    def takes_values_of(self, other: Encoder) -> bool:
        """Whether the values are dates in the same unit, or numbers that count it."""
        return other in (self, self.number)

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        return self.number.encode(_dates_as_numbers(_as_dates(column), self.unit, name), name)


def _as_dates(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a raw column of date objects as numpy's dates in UTC; other columns unchanged."""
    if column.dtype.kind != "O":
        return column
    values = [None if is_missing(value) else value for value in column]
    if not any(values) or not all(value is None or isinstance(value, dt.date | np.datetime64) for value in values):
        return column
    return np.array([_utc_datetime(value) for value in values])


def _utc_datetime(value: Any) -> np.datetime64:  # of a date object of Python, pandas or numpy; not a time for None
    if value is None:
        return np.datetime64("NaT", "us")
    if getattr(value, "tzinfo", None) is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    return value.to_datetime64() if hasattr(value, "to_datetime64") else np.datetime64(value, "us")


def _dates_as_numbers(column: npt.NDArray[Any], unit: str, name: str) -> npt.NDArray[Any]:
    """Return dates as whole numbers of `unit`, as floats with NaN if some are missing; other columns unchanged."""
    if column.dtype.kind != "M":
        return column
    is_absent = np.isnat(column)
    whole = column.astype(f"datetime64[{'D' if unit == 'ordinal' else unit}]")
    fractions = (whole.astype(column.dtype) != column) & ~is_absent
    if fractions.any():
        raise ValueError(
            f"column {name!r} must hold dates that are whole numbers of the unit {unit!r}, got {column[fractions][0]}; "
            "convert it as for training, or give the unit in `dates`."
        )
    counts = whole.astype(np.int64) + (_DAYS_BEFORE_1970 if unit == "ordinal" else 0)
    return np.where(is_absent, np.nan, counts) if is_absent.any() else counts


def date_column(series: nw.Series[Any]) -> npt.NDArray[Any] | None:
    """Return a column of dates or times, even as objects, as numpy's dates in UTC; None for another column."""
    if series.dtype == nw.Datetime and getattr(series.dtype, "time_zone", None) is not None:
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if series.dtype == nw.Unknown and getattr(getattr(series.to_native(), "dtype", None), "tz", None) is not None:
        # narwhals does not know pandas' zones with _, - or + in their names, such as America/New_York.
        return np.asarray(series.to_native().dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    if series.dtype not in (nw.Datetime, nw.Date, nw.Object):
        return None
    column = _as_dates(series.to_numpy())
    return column if column.dtype.kind == "M" else None


def with_dates(schema: Schema, dates: Mapping[str, str]) -> Schema:
    """Mark features as dates, so users can pass dates; `dates` maps names of features to units of time."""
    for name, unit in dates.items():
        if name not in schema.names or unit not in UNITS:
            wrong = f"the unit {unit!r}" if name in schema.names else f"no feature {name!r}"
            raise ValueError(
                f"`dates` must map features to one of {', '.join(map(repr, UNITS))}, got {wrong}; see "
                "fx.feature_names_in_ for the names."
            )
    features = list(schema.features)
    for j, feature in enumerate(features):
        if feature.name in dates:
            if not _is_plain_number(feature):
                raise ValueError(f"`dates` must name numeric features, got {feature.name!r}, a category; leave it out.")
            features[j] = dataclasses.replace(feature, encoder=DateNumber(dates[feature.name], feature.encoder))
    return dataclasses.replace(schema, features=tuple(features))


def _is_plain_number(feature: Feature) -> bool:
    """Whether a feature is numeric and has no labels, which ordered categories have."""
    return not feature.is_category and getattr(feature.encoder, "names", None) is None


def units_of_dates(
    schema: Schema, columns: Sequence[npt.NDArray[Any] | None], thresholds: Callable[[int], Floats]
) -> dict[str, str]:
    """Find the unit of time in which thresholds lie among the dates of X, for each date column; by feature name."""
    # `columns` has numpy's dates, or None, for each feature; `thresholds(j)` are those of feature j. A unit is taken if
    # no other fits: neighbouring units differ by a factor of 1,000 or more. Features without thresholds have any unit.
    # Dates may be those of a window, such as the first file of several: units that nearly fit count if none fits.
    units = {}
    for j, (feature, column) in enumerate(zip(schema.features, columns, strict=True)):
        if column is None or feature.encoder.date_unit or not _is_plain_number(feature):
            continue
        if np.isnat(column).all() and len(thresholds(j)):  # missing values may have any type
            continue
        fitting = _fitting_units(column, thresholds(j), _DAY) or _fitting_units(column, thresholds(j), _FEW_YEARS)
        if len(fitting) != 1 and len(thresholds(j)):
            fit = "no unit of time fits" if not fitting else "several units of time fit"
            raise TypeError(
                f"column {feature.name!r} must hold numbers, got dates, and {fit} the model's thresholds; convert it "
                f"as for training, or give its unit: dates={{{feature.name!r}: 'ns'}}."
            )
        units[feature.name] = fitting[0]
    return units


def _fitting_units(column: npt.NDArray[Any], thresholds: Floats, least_margin: int) -> list[str]:
    """Return the units in which all thresholds lie among the dates, or not far beyond."""
    return [unit for unit in UNITS if _contains_thresholds(column, unit, thresholds, least_margin)]


def _contains_thresholds(column: npt.NDArray[Any], unit: str, thresholds: Floats, least_margin: int) -> bool:
    """Whether all thresholds lie among the dates in this unit, or at most as far beyond as the dates are apart."""
    # Or at most `least_margin` microseconds beyond.
    dates = column[~np.isnat(column)]
    if not len(dates):
        return True
    ends = np.array([dates.min(), dates.max()], dtype="datetime64[us]").astype(np.int64) / _MICROSECONDS[unit]
    low, high = ends + (_DAYS_BEFORE_1970 if unit == "ordinal" else 0)
    margin = max(high - low, least_margin / _MICROSECONDS[unit])
    return bool(((thresholds >= low - margin) & (thresholds <= high + margin)).all())


def dates_of(numbers: npt.ArrayLike, unit: str) -> npt.NDArray[np.datetime64]:
    """Return the dates that numbers of `unit` are."""
    return (days_since_1970(numbers, unit) * _DAY).astype(np.int64).astype("datetime64[us]")


def days_since_1970(numbers: npt.ArrayLike, unit: str) -> Floats:
    """Convert dates that are numbers of `unit` in the model to days since 1970."""
    days = np.asarray(numbers, dtype=np.float64) * (_MICROSECONDS[unit] / _DAY)
    return days - _DAYS_BEFORE_1970 if unit == "ordinal" else days


def numbers_on_days(days: npt.ArrayLike, unit: str) -> Floats:
    """Convert days since 1970 to the model's numbers of `unit`."""
    days_of_unit = np.asarray(days, dtype=np.float64) + (_DAYS_BEFORE_1970 if unit == "ordinal" else 0)
    return days_of_unit * (_DAY / _MICROSECONDS[unit])


def date_text(number: float, unit: str) -> str | None:
    """Return a number as a date, with the time of day unless midnight; None beyond the calendar."""
    texts = _texts(_moments(np.array([number]), unit))
    return None if texts is None else texts[0]


def date_texts(numbers: npt.ArrayLike, unit: str) -> list[str] | None:
    """Return bounds of intervals as dates, with the time of day unless midnight; None if one is beyond the calendar."""
    # Intervals with bounds cut to a whole number of the unit contain the same dates.
    return _texts(_moments(np.floor(np.asarray(numbers, dtype=np.float64)), unit))


def _moments(values: Floats, unit: str) -> Floats:
    """Return dates as whole microseconds since 1970."""
    if unit == "ns":
        return np.floor(values / 1e3)  # exact for whole microseconds, unlike a product
    since_1970 = values - _DAYS_BEFORE_1970 if unit == "ordinal" else values
    return np.floor(since_1970 * _MICROSECONDS[unit])


def _texts(moments: Floats) -> list[str] | None:
    """Return microseconds since 1970 as dates, each as short as is exact; None if one is beyond the calendar."""
    if not ((moments >= _FIRST) & (moments <= _LAST)).all():
        return None
    return [_text(moment) for moment in moments.astype(np.int64).astype("datetime64[us]")]


def _text(moment: np.datetime64) -> str:
    cut = (moment.astype(f"datetime64[{unit}]") for unit in _RESOLUTIONS)
    return next(str(shorter) for shorter in cut if shorter == moment).replace("T", " ")
