"""Features of a model: their names, and how a column of user data becomes numbers that splits can compare.

Encoded columns are float64, NaN if missing. Numeric: the value itself. Category: the position of its category, and
`n_categories` for an unseen one. All differences between libraries end here: forests know only these two.
"""

from __future__ import annotations

import abc
import dataclasses
import datetime as dt
import functools
import numbers
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats

# Columns that hold nothing else are turned into text unchanged, including Python's bool (an int).
_AS_TEXT = (str, bytes, int, np.integer, np.datetime64, np.timedelta64)
REFUSED_LABEL = -1.0  # the code of a category by its label in another model, if the model refuses such labels
_DATES = (dt.date, dt.time, dt.timedelta, np.datetime64, np.timedelta64)


class _Value:
    """Equality of dataclasses by their fields, where NaN equals NaN; for classes declared with ``eq=False``."""

    def _comparable(self, ignored: Sequence[str] = ()) -> tuple[object, ...]:
        """Return the values of the fields that count for equality and are not ignored, None for NaN."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        values = [getattr(self, field.name) for field in fields if field.compare and field.name not in ignored]
        return tuple(None if isinstance(value, float) and np.isnan(value) else value for value in values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._comparable() == other._comparable()

    def __hash__(self) -> int:
        return hash((type(self), self._comparable()))


class Encoder(_Value, abc.ABC):
    """Turns a raw column (a 1-d numpy array of numbers or objects) into float64; its fields say how, and are saved."""

    wants_labels: ClassVar[bool] = False  # whether names of categories are taken from data: the model stores none
    refuses_labels: ClassVar[bool] = False  # whether labels that are not listed are refused, even if codes are not
    lists: ClassVar[tuple[str, ...]] = ()  # fields that list the categories

    @property
    def labels(self) -> tuple[Hashable, ...] | None:
        """Labels of the categories, in the order of their codes; None for a numeric feature."""
        return None

    @property
    def identities(self) -> Sequence[Hashable] | None:
        """What tells categories apart in a column, in the order of their codes; None for a numeric feature."""
        return self.labels

    def takes_values_of(self, other: Encoder) -> bool:
        """Whether another encoder's values have the same meaning here, codes of categories after translation."""
        if self == other:
            return True
        ours, theirs = self.identities, other.identities
        if type(other) is not type(self) or ours is None or theirs is None:
            return False
        kinds = [{isinstance(key, str) for key in keys if not is_missing(key)} for keys in (ours, theirs)]
        is_alike = _Value._comparable(self, self.lists) == _Value._comparable(other, self.lists)  # noqa: SLF001
        return is_alike and (kinds[0] == kinds[1] or not all(kinds))

    @property
    def date_unit(self) -> str:
        """The unit of time that the numbers count if they are dates; else empty."""
        return ""

    @property
    def tells_none(self) -> bool:
        """Whether None is not the same as NaN."""
        return False

    def labelled(self, column: npt.NDArray[Any], name: str) -> Encoder:  # noqa: ARG002
        """Take names of categories from a raw column; return itself if it has them."""
        return self

    def of_table(self, column: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:  # noqa: ARG002
        """Prepare a table's column for `encode`: numbers may be labels, unlike a matrix's; TypeError if ambiguous."""
        return column

    def of_array(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Prepare a matrix's column for `encode`."""
        return column

    def with_nulls(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Give nulls of a file or an Arrow table, which are None in a raw column, the meaning they had in training."""
        return column

    @abc.abstractmethod
    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Return the column as float64; `name` is used in error messages."""


def _check_choice(field: str, value: str, choices: tuple[str, ...]) -> None:  # ValueError for a wrong option
    if value not in choices:
        raise ValueError(f"`{field}` of an encoder must be one of {', '.join(map(repr, choices))}, got {value!r}.")


def _as_float(column: npt.NDArray[Any], name: str, *, takes_underscores: bool = False) -> Floats:
    """Return numbers as float64, None as NaN; raise an error for text that does not spell a number."""
    if column.dtype.kind not in "biufOSU":
        raise TypeError(f"column {name!r} must hold numbers, got {column.dtype}; {_remedy_for(list(column[:1]))}.")
    if column.dtype.kind == "O":
        column = column.copy()
        column[[is_missing(value) for value in column]] = None
    has_text = column.dtype.kind in "OSU"
    wrong = next((value for value in column if not _is_number(value, takes_underscores)), None) if has_text else None
    if wrong is not None:
        raise TypeError(f"column {name!r} must hold numbers, got {wrong!r}; {_remedy_for([wrong])}.")
    return np.asarray(column, dtype=np.float64)


def _remedy_for(values: Sequence[Any]) -> str:
    """Return the remedy for an error about values that are not numbers; dates have one more."""
    is_date = any(isinstance(value, dt.date | np.datetime64) for value in values)
    return f"convert it as for training{', or name it in `dates` of decompose()' if is_date else ''}"


def could_be_labels(labels: Sequence[Hashable]) -> bool:
    """Whether numbers in a table may be labels rather than codes: some labels are numbers, or texts that spell them.

    >>> could_be_labels((1, 3, 7)), could_be_labels(("a", "7")), could_be_labels((0, 1, 2)), could_be_labels(("a", "b"))
    (True, True, False, False)
    """
    spelled = [_spelled_number(label) for label in labels]
    return any(number is not None for number in spelled) and spelled != list(range(len(spelled)))


def _spelled_number(value: Any) -> float | None:
    """Return the finite number that a value is or spells; None for others."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if np.isfinite(number) else None


def _meanings(label: Any) -> Iterator[float | str]:
    """Yield the number that a label is or spells, and "true" or "false" if it is or spells a boolean."""
    number, text = _spelled_number(label), str(label).lower()
    if number is not None:
        yield number
    if isinstance(label, (str, bool, np.bool_)) and text in {"true", "false"}:
        yield text


def _is_number(value: Any, takes_underscores: bool) -> bool:
    """Whether a value is None, a number or a text that spells one; most libraries, unlike Python, refuse 1_0, b"1"."""
    if not takes_underscores and (isinstance(value, bytes) or (isinstance(value, str) and "_" in value)):
        return False
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return value is None
    return True


def _is_number_or_missing(value: object) -> bool:
    return isinstance(value, (numbers.Real, np.bool_)) or is_missing(value)


def as_float32(values: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Cast to float32, infinite for numbers that are too large."""
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(np.float32)


def _column_as_float32(column: npt.NDArray[Any], name: str) -> npt.NDArray[np.float32]:
    """Cast a raw column to float32; TypeError for text and other objects unless all are missing."""
    if column.dtype.kind in "biuf":
        return as_float32(column)
    present = [value for value in column if not is_missing(value)]
    if present:
        # XGBoost would use the codes of a category column as numbers, whatever its labels; they are unknown here.
        shown = next((value for value in present if not _is_number(value, takes_underscores=False)), present[0])
        raise TypeError(
            f"column {name!r} must hold numbers, because the model has no labels for it, got {shown!r}; convert it "
            "(categories to the codes used in training)."
        )
    return np.full(len(column), np.nan, dtype=np.float32)


def _as_ebm_numbers(column: npt.NDArray[Any], name: str) -> Floats:
    """Return numbers as EBMs read them: text as by float(); next to text all values are text, so True is refused."""
    _check_numbers_or_text(column, name)
    if column.dtype.kind != "O":
        return _as_float(column, name, takes_underscores=True)
    is_present = np.array([not is_missing(value) for value in column], dtype=bool)
    values = column[is_present]
    if any(isinstance(value, (str, bytes)) for value in values):
        values = values.astype(str)
    encoded = np.full(len(column), np.nan)
    encoded[is_present] = _as_float(values, name, takes_underscores=True)
    return encoded


@dataclasses.dataclass(frozen=True, eq=False)
class Numeric(Encoder):
    """A number."""

    missing: float = np.nan  # another value that means missing (XGBoost's `missing=`)
    # "float64"; "float32", which splits compare: integers are rounded, `missing` is compared in it; "float64 only",
    # which refuses shorter floats; or "text", where values next to text are read as text.
    cast: str = "float64"

    def __post_init__(self) -> None:
        _check_choice("cast", self.cast, ("float64", "float32", "float64 only", "text"))

    def of_array(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return objects that are numbers as float64 for libraries of float32: an array has no category columns."""
        is_numbers = self.cast == "float32" and column.dtype == object and all(map(_is_number_or_missing, column))
        return _as_float(column, "") if is_numbers else column

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Return the numbers as float64, NaN if missing; TypeError for others than `cast` allows."""
        if self.cast == "float32":
            single = _column_as_float32(column, name)
            # Large integers would be rounded twice if they were cast to float64 first.
            values = (column if column.dtype.kind == "f" else single).astype(np.float64)
            return np.where(single == np.float32(self.missing), np.nan, values)
        if self.cast == "float64 only" and column.dtype.kind == "f" and column.dtype != np.float64:
            raise TypeError(
                f"column {name!r} must be float64, got {column.dtype}, in which the pipeline's transformers round "
                "otherwise; convert it with astype('float64')."
            )
        values = _as_ebm_numbers(column, name) if self.cast == "text" else _as_float(column, name)
        return values if np.isnan(self.missing) else np.where(values == self.missing, np.nan, values)


@dataclasses.dataclass(frozen=True, eq=False)
class IntegerCategory(Encoder):
    """A category given as an integer code; fractions are cut off, numbers that are not codes are unseen."""

    lists: ClassVar[tuple[str, ...]] = ("codes", "names")
    codes: int | tuple[int, ...]  # ascending, or their number: 3 stands for 0, 1, 2
    names: tuple[Hashable, ...] | None = None  # labels of the codes, if known
    missing: float = np.nan  # another value that means missing
    cast: str = "float64"  # to which numbers are rounded first; or "float32"
    cuts_negative: bool = True  # -0.5 is cut to 0; else all negative numbers are unseen
    largest: float = np.inf  # numbers above are unseen, even if cut to a code

    def __post_init__(self) -> None:
        _check_choice("cast", self.cast, ("float64", "float32"))

    @property
    def n_categories(self) -> int:
        return self.codes if isinstance(self.codes, int) else len(self.codes)

    @property
    def code_values(self) -> Sequence[int]:
        return range(self.codes) if isinstance(self.codes, int) else self.codes

    @property
    def labels(self) -> tuple[Hashable, ...]:
        return self.names if self.names is not None else tuple(self.code_values)

    @property
    def identities(self) -> tuple[Hashable, ...]:
        return tuple(self.code_values)

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Return positions among the codes, `n_categories` for numbers that are not codes, NaN if missing."""
        if self.cast == "float32":
            values, missing = _column_as_float32(column, name).astype(np.float64), float(np.float32(self.missing))
        else:
            values, missing = _as_float(column, name), self.missing
        is_absent = np.isnan(values) | (values == missing)
        truncated = np.trunc(np.where(is_absent, -1, values))  # -1 is not a code
        is_code = (values > -1 if self.cuts_negative else values >= 0) & (values <= self.largest)
        if isinstance(self.codes, int):
            position = np.abs(truncated)
            is_code &= truncated < self.codes
        else:
            sorted_codes = np.array(self.codes, dtype=np.float64)
            position = np.searchsorted(sorted_codes, truncated)
            is_code &= np.append(sorted_codes, np.nan)[position] == truncated  # NaN: above the largest code
        return np.where(is_absent, np.nan, np.where(is_code, position, float(self.n_categories)))


@dataclasses.dataclass(frozen=True, eq=False)
class Labels(Encoder):
    """A category given by its label."""

    lists: ClassVar[tuple[str, ...]] = ("names",)
    names: tuple[Hashable, ...]
    # What is compared with them: "value", the values themselves; "text", texts, where booleans are "true" and "false",
    # integers are their decimals and others are refused; "short text", where floats lose ".0" and dates are refused.
    spelling: str = "value"
    none: str = "missing"  # what None means: "missing", as NaN; "category", one of the labels; or "refused"
    refuses_na: bool = False  # pandas' NA and NaT are refused; else they are missing
    missing: tuple[Hashable, ...] = ()  # other values that mean missing
    numbers_are_codes: bool = False  # columns of plain numbers hold positions of labels
    is_ordered: bool = False  # splits compare the positions as numbers; unseen labels are then missing
    null_is_nan: bool = False  # nulls of files and of Arrow tables are NaN; else None

    def __post_init__(self) -> None:
        _check_choice("spelling", self.spelling, tuple(_SPELLINGS))
        _check_choice("none", self.none, ("missing", "category", "refused"))

    @property
    def labels(self) -> tuple[Hashable, ...] | None:
        return None if self.is_ordered else self.names

    @property
    def tells_none(self) -> bool:
        return self.none != "missing"

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Return positions of labels, NaN if missing; other labels are `len(names)`, or NaN if `is_ordered`."""
        if self.numbers_are_codes and column.dtype.kind in "biuf":
            is_ambiguous = any(isinstance(label, (int, float)) for label in self.names) and could_be_labels(self.names)
            if is_ambiguous and not _is_all_nan(column):
                raise _ambiguous_numbers_error(column, name)
            encoder: Encoder = Numeric() if self.is_ordered else IntegerCategory(len(self.names))
            return encoder.encode(column, name)
        if self._has_float_labels and column.dtype.kind in "iu":
            column = column.astype(np.float64)  # as scikit-learn compares them
        values, value_index = _SPELLINGS[self.spelling](column, name)  # distinct values, and each row's among them
        code_of = {label: float(code) for code, label in enumerate(self.names)}
        unseen = np.nan if self.is_ordered else float(len(self.names))
        pairs = [(value, is_missing(value) or value in self.missing) for value in values]
        codes = [np.nan if is_absent else code_of.get(value, unseen) for value, is_absent in pairs]
        if self.spelling == "value":
            self._check_large_integers(pairs, name)
            unseen_values = [value for value, is_absent in pairs if not is_absent and value not in code_of]
            self._check_types(unseen_values, name, is_numbers=column.dtype.kind in "biuf")
        encoded = np.array(codes, dtype=np.float64)[value_index]
        return self._with_none(encoded, column, name) if column.dtype == object else encoded

    def of_table(self, column: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
        """Return a table's column unchanged; TypeError for numbers that may be codes or labels."""
        is_numbers = self.numbers_are_codes and column.dtype.kind in "biuf" and not _is_all_nan(column)
        if is_numbers and could_be_labels(self.names):
            raise _ambiguous_numbers_error(column, name)
        return column

    def of_array(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a matrix's column of objects that are all numbers, which are codes, as float64; others unchanged."""
        is_objects = self.numbers_are_codes and column.dtype == object
        has_numbers = is_objects and all(
            value is None or isinstance(value, (numbers.Real, np.bool_)) for value in column
        )
        return column.astype(np.float64) if has_numbers else column

    def with_nulls(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Replace None, a null of a file or an Arrow table, by NaN if `null_is_nan`."""
        if not self.null_is_nan or column.dtype != object:
            return column
        is_null = np.array([value is None for value in column], dtype=bool)
        return np.where(is_null, np.nan, column)

    @property
    def _has_float_labels(self) -> bool:  # as values; scikit-learn then compares all numbers as floats
        is_float = (isinstance(label, float) for label in self.names)
        return self.spelling == "value" and not self.numbers_are_codes and any(is_float)

    def _check_large_integers(self, pairs: Sequence[tuple[Any, bool]], name: str) -> None:
        """Raise TypeError for integers that scikit-learn may turn into other floats."""
        # `pairs` are distinct values, and whether they mean missing.
        if self.numbers_are_codes or not any(isinstance(label, (int, float)) for label in self.names):
            return
        lost = next((value for value, is_absent in pairs if not is_absent and _is_changed_by_float(value)), None)
        if lost is not None and (self._has_float_labels or any(is_absent for _, is_absent in pairs)):
            raise TypeError(
                f"column {name!r} must hold integers up to 2**53 where the model's labels are floats or values are "
                f"missing, got {lost!r}, which scikit-learn may compare as {float(lost)!r}; convert the column to "
                "float64, or train with labels that are texts."
            )

    def _check_types(self, unseen: Sequence[Any], name: str, *, is_numbers: bool) -> None:
        """Raise TypeError for labels of another type ("3" and 3, "True" and True), and for numbers among texts."""
        labels = {meaning: label for label in self.names for meaning in _meanings(label)}
        texts = [label for label in self.names if isinstance(label, str)]
        knows_text = is_numbers and len(texts) == len(self.names) > 0  # which scikit-learn cannot compare with numbers
        for value in unseen:
            same = [labels[meaning] for meaning in _meanings(value) if meaning in labels] or texts[:knows_text]
            of_other_type = [label for label in same if isinstance(value, str) != isinstance(label, str)]
            if of_other_type:
                raise TypeError(
                    f"column {name!r} must hold labels of the type that the model knows, got {value!r} where it knows "
                    f"{of_other_type[0]!r}; convert the column{' to text' * isinstance(of_other_type[0], str)}, as for "
                    "training."
                )

    def _with_none(self, encoded: Floats, column: npt.NDArray[Any], name: str) -> Floats:
        """Give None, missing in `encoded`, the code that the field `none` says; refuse pandas' NA if `refuses_na`."""
        if self.refuses_na and any(type(value).__name__ in {"NAType", "NaTType"} for value in column):
            raise TypeError(
                f"column {name!r} must have NaN or None where it is missing, got pandas' NA or NaT, which encoders "
                "read in different ways; convert it with astype(object) and where(column.notna(), np.nan)."
            )
        if self.none == "missing":
            return encoded
        is_none = np.array([value is None for value in column], dtype=bool)
        if self.none == "refused" and is_none.any():
            raise ValueError(
                f"column {name!r} must not hold None, got it in {is_none.sum()} rows; the pipeline's encoder refuses "
                "it too, use NaN for missing values."
            )
        if self.none == "category":
            encoded[is_none] = self.names.index(None)
        return encoded


def _is_all_nan(column: npt.NDArray[Any]) -> bool:  # missing, whether numbers are codes or labels
    return column.dtype.kind == "f" and bool(np.isnan(column).all())


def _is_changed_by_float(value: Any) -> bool:
    """Whether a value is an integer, below the largest float, that no float equals."""
    is_large = isinstance(value, numbers.Integral) and 2**53 < abs(int(value)) < 2**1023
    return is_large and int(float(value)) != int(value)


def _ambiguous_numbers_error(column: npt.NDArray[Any], name: str) -> TypeError:  # for codes, or labels, in a table
    return TypeError(
        f"column {name!r} must hold categories, got plain numbers ({column.dtype}), which could be codes or labels; "
        "pass it as text or as a category column of a table, as in training."
    )


def _check_numbers_or_text(column: npt.NDArray[Any], name: str) -> None:  # TypeError for dates and others
    if column.dtype.kind not in "biufOSU":
        raise TypeError(f"column {name!r} must hold numbers or text, got {column.dtype}; convert it as in training.")


def _distinct_texts(column: npt.NDArray[Any], name: str) -> _TextsAndRows:
    """Return distinct texts of a column, None where missing, and the position of each row's text among them."""
    values, inverse = distinct(column)
    return [None if is_missing(value) else _text(value, name) for value in values], inverse


def _text(value: Any, name: str) -> str:
    """Return a label in the spelling "text"; TypeError for floats and other objects."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    raise TypeError(
        f"column {name!r} must hold texts, booleans or whole numbers, got {value!r}, whose text is not certain; "
        "convert it as for training."
    )


def _distinct_short_texts(column: npt.NDArray[Any], name: str) -> _TextsAndRows:
    """Return distinct texts as EBMs compare them, None where missing, and the position of each row's text."""
    _check_numbers_or_text(column, name)
    if column.dtype.kind != "O":
        values, inverse = distinct(column)
        return [_short_text(value, name) for value in values], inverse
    # The type is part of the key: True == 1, but their texts may differ.
    objects = column.tolist()
    keys, inverse = positions_of(list(zip(map(type, objects), objects, strict=True)))
    types = {kind for kind, value in keys if not is_missing(value)}
    only_bools = all(issubclass(kind, (bool, np.bool_)) for kind in types)
    words = not only_bools and all(issubclass(kind, _AS_TEXT) for kind in types)
    return [_short_text(value, name, words=words) for _, value in keys], inverse


def _short_text(value: Any, name: str, *, words: bool = False) -> str | None:
    """Return the text of a value; with `words`, booleans are "True" and "False", else "1" and "0"."""
    if is_missing(value):
        return None
    if isinstance(value, (float, np.floating)):
        return repr(float(value) + 0.0).removesuffix(".0")
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)) if words else str(int(value))
    if isinstance(value, _DATES):
        raise TypeError(f"column {name!r} must hold numbers or text, got {value!r}; convert it as in training.")
    text = value.decode("ascii") if isinstance(value, bytes) else str(value)
    return text.rstrip("\0")  # as numpy's fixed-width text does


_TextsAndRows = tuple[Sequence[Any], npt.NDArray[np.int64]]
# Distinct spellings of the values of a column, None where missing, and the position of each row's among them.
_SPELLINGS: dict[str, Callable[[npt.NDArray[Any], str], _TextsAndRows]] = {
    "value": lambda column, _: distinct(column),
    "text": _distinct_texts,
    "short text": _distinct_short_texts,
}


@dataclasses.dataclass(frozen=True, eq=False)
class IgnoredColumn(Encoder):
    """A column that the model does not read: whatever it holds becomes 0."""

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:  # noqa: ARG002
        return np.zeros(len(column))


def is_missing(value: object) -> bool:
    """Whether a raw value is None, NaN, pandas' NA or NaT."""
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    differs = value != value  # noqa: PLR0124  only NaN does; an array if the value is one
    return isinstance(differs, (bool, np.bool_)) and bool(differs)


def distinct(column: npt.NDArray[Any]) -> tuple[Sequence[Any], npt.NDArray[np.int64]]:
    """Return distinct values, including missing ones, and the position of each row's value among them."""
    if column.dtype.kind in "biufSU":
        values, inverse = np.unique(column, return_inverse=True)
        return values.tolist(), inverse
    return positions_of(column.tolist())


def positions_of(keys: Sequence[Hashable]) -> tuple[list[Any], npt.NDArray[np.int64]]:
    """Return distinct keys by first appearance (NaN may repeat), and the position of each key among them."""
    positions = {key: position for position, key in enumerate(dict.fromkeys(keys))}
    return list(positions), np.fromiter(map(positions.__getitem__, keys), dtype=np.int64, count=len(keys))


@dataclasses.dataclass(frozen=True)
class Feature:
    """A feature of the model: its name and how its column is read.

    Attributes
    ----------
    name
        Name of the column.
    encoder
        Turns a raw column into numbers or codes of categories.
    accepts_missing
        Whether the library predicts for missing values; if not, they raise an error here too, and the feature's axis
        has no bin for them.
    accepts_unseen
        The same for categories that were not in the training data.

    Examples
    --------
    >>> from treeanova.data.features import Labels
    >>> size = Feature("size", Labels(("S", "L")))
    >>> size.is_category, size.n_categories
    (True, 2)
    """

    name: str
    encoder: Encoder = Numeric()
    accepts_missing: bool = True
    accepts_unseen: bool = True

    @property
    def is_category(self) -> bool:
        return self.encoder.labels is not None

    @property
    def n_categories(self) -> int:
        """Number of known categories; 0 for a numeric feature."""
        return len(self.encoder.labels or ())

    def check_accepted(self, encoded: Floats, value_at: Callable[[int], object]) -> None:
        """Raise ValueError for encoded values that the model refuses; `value_at` is the raw value of a row."""
        is_missing = np.isnan(encoded)
        if not self.accepts_missing and is_missing.any():
            raise ValueError(
                f"column {self.name!r} must have no missing values, got {is_missing.sum()} in {len(encoded)} rows; the "
                "model's prediction for them is not defined."
            )
        is_refused = encoded == REFUSED_LABEL
        if not self.accepts_unseen:
            is_refused |= encoded == self.n_categories
        if self.is_category and is_refused.any():
            raise ValueError(
                f"column {self.name!r} must hold categories of the model, got {value_at(int(is_refused.argmax()))!r}; "
                "the model's prediction for others is not defined."
            )


def is_writable(text: str) -> bool:
    """Whether a text has no lone surrogates, which neither a file nor a terminal can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_texts(schema: Schema) -> None:
    """Raise ValueError for names of features, categories, outputs or classes that UTF-8 cannot encode."""
    labels = [label for feature in schema.features for label in feature.encoder.labels or ()]
    texts = [text for text in (*schema.names, *schema.outputs, *schema.classes, *labels) if isinstance(text, str)]
    if not is_writable("\n".join(texts)):
        wrong = next(text for text in texts if not is_writable(text))
        raise ValueError(
            f"names of features, categories and outputs must be text that UTF-8 can write, got {wrong!a} with a "
            "lone surrogate; rename it, or read the data with the right encoding."
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Schema(_Value):
    """What goes into a model and what comes out.

    Attributes
    ----------
    features
        In the order of the model's columns.
    outputs
        Names of the outputs: one for a regression or a binary classifier, else classes or targets.
    link
        How the sum of terms becomes the response: "identity", "logit" (log-odds of the second class; with several
        outputs, of each), "softmax", "log", "probability" (the sum is a probability already), "argmax" (the class is
        that of the largest score, or the second if a single score is positive; probabilities are not defined), or
        "other" (the response is not defined).
    named
        Whether the model stores the names of its features; if not, columns are matched by position.
    absent
        What an absent entry of a sparse matrix means: 0.0 or NaN; None if parts of the model differ.
    underscores
        Whether the model's names have underscores in place of spaces in the data's names.
    single_integers
        Whether the library reads matrices of integers as float32; None if parts of the model differ.
    given
        Whether the names are the user's: tables that have them are matched by name.
    trained_names
        The model's names, if the user has given others for display: tables that have them are matched by them.
    classes
        Labels of the classes of a classifier, in the order of its probabilities; empty if the model stores none.
    declared_classes
        Labels of all classes that were declared for training, if some had no rows: these have no output, and
        probability 0.
    threshold
        The probability of the second of two classes above which it is predicted.
    predicts_share
        Whether the target is a number between 0 and 1, so that the response is a mean although the link is "logit".
    objective
        What training minimised, in the words of `validate(loss=...)`: "squared", "pinball:0.9", "squared of log" (of
        the logarithm of the target); otherwise the library's name, empty if the model states none. Models with
        different objectives can be combined.

    Examples
    --------
    >>> Schema((Feature("age"), Feature("income"))).names
    ('age', 'income')
    """

    features: tuple[Feature, ...]
    outputs: tuple[str, ...] = ("score",)
    link: str = "identity"
    named: bool = False
    absent: float | None = 0.0
    underscores: bool = False
    single_integers: bool | None = False
    given: bool = False
    trained_names: tuple[str, ...] = ()
    classes: tuple[Hashable, ...] = ()
    declared_classes: tuple[Hashable, ...] = ()
    threshold: float = 0.5
    predicts_share: bool = False
    objective: str = dataclasses.field(default="", compare=False)

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self.features)

    @property
    def spellings(self) -> tuple[tuple[str, ...], ...]:
        """The sets of names by which a table's columns may be matched, those of the model first."""
        return (self.trained_names, self.names) if self.trained_names else (self.names,)
