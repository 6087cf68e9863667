"""What several readers share: checks of files and sizes, errors that name the file, tested versions.

A format can change its meaning and stay readable. So a model of an untested version is accepted only if its library
gives the same raw prediction for rows on and next to the thresholds, missing values and categories.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import json
import math
import os
import pathlib
import re
import struct
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.data.features import Feature, Schema
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.effects import Effects
from treeanova.model.forest import Forest
from treeanova.model.rows import Rows

# What Python and numpy raise for unexpected content.
DAMAGE = (
    ArithmeticError, AttributeError, EOFError, LookupError, NotImplementedError, RecursionError, TypeError, ValueError,
    struct.error,
)  # fmt: skip
_WHOLE = re.compile(r"[+-]?[0-9]+")
DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?inf(inity)?|[+-]?nan", re.IGNORECASE)
Read = TypeVar("Read", bound=Forest | Effects)
Predict = Callable[[Floats], npt.ArrayLike]
# The first and the last tested releases; "lightgbm text" is the number in its text, as in v4.
TESTED: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "xgboost": ((3, 2), (3, 4)),
    "lightgbm": ((4, 6), (4, 7)),
    "lightgbm text": ((3,), (4,)),
    "catboost": ((1, 2), (1, 2)),
    "sklearn": ((1, 6), (1, 9)),
    "interpret": ((0, 7, 8), (0, 7)),
    "quantile_forest": ((1, 4), (1, 4)),
}
_N_ROWS = 1000
_MAX_BOUNDS = 300
_TOLERANCE = 3e-5  # relative to the scores: some libraries sum in single precision
_REMEDY = "update treeanova, or train with a version that is tested."


@contextlib.contextmanager
def damage_reported(kind: str, path: pathlib.Path | None = None) -> Iterator[None]:
    """Turn what a damaged model makes Python raise into ModelFileError, and name the file in all errors."""
    # `kind` is what the file must be, for example "an XGBoost model"; `path` is None for a model in memory.
    try:
        with np.errstate(all="ignore"):
            yield
    except (ModelFileError, UnsupportedModelError) as error:
        if path is None:
            raise
        raise type(error)(one_line(f"{path}: {error}")) from error
    except MemoryError as error:
        raise UnsupportedModelError(
            one_line(f"{path or '`model`'} must be {kind} that fits into memory, got one that does not.")
        ) from error
    except DAMAGE as error:
        cause = f"{type(error).__name__}: {error}"[:200]
        raise ModelFileError(
            one_line(f"{path or '`model`'} must be {kind}, got one that cannot be parsed ({cause}); file damaged?")
        ) from error


def damaged(finding: str) -> ModelFileError:
    """Return the error for a file that breaks a rule of its format; `finding` says which and what it has."""
    return ModelFileError(f"{finding}; file damaged?")


def one_line(text: str) -> str:
    """Escape line ends and other characters that do not print."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def whole_number(value: object) -> int:
    """Return a whole number stored as such or as text; ValueError for other forms that Python would convert."""
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    raise ValueError(f"not a whole number: {value!r:.60}")


def decimal_number(value: object) -> float:
    """Return a number stored as such or as text; ValueError for other forms that Python would convert."""
    if isinstance(value, str) and DECIMAL.fullmatch(value.strip()):
        return float(value)
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        return float(value)
    raise ValueError(f"not a number: {value!r:.60}")


def parsed_json(data: str | bytes, *, allows_nan: bool = False) -> Any:
    """Return the content of a JSON text; ValueError also for repeated names, of which parsers take either."""
    # NaN, Infinity and numbers beyond the largest are not JSON; XGBoost writes and reads them, CatBoost stops there.
    parse_number = None if allows_nan else _finite_number
    return json.loads(
        data, object_pairs_hook=_dict_without_repeats, parse_constant=parse_number, parse_float=parse_number
    )


def _finite_number(text: str) -> float:  # of a JSON text; ValueError for NaN, Infinity and 1e999
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a number of JSON")
    return number


def _dict_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:  # a JSON object; ValueError for a name twice
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError(f"one of the names {', '.join(content)!r:.60} occurs twice")
    return content


def check_values(rule: str, values: npt.NDArray[Any], is_valid: Bools) -> None:
    """Raise ModelFileError with the rule and the first value that is not valid."""
    if not is_valid.all():
        raise damaged(f"{rule}, got {values[~is_valid][0]}")


def check_size(what: str, size: int, max_size: int) -> None:
    """Raise UnsupportedModelError if `what`, in words, would have more than `max_size` entries in memory."""
    if size > max_size:
        raise UnsupportedModelError(
            f"the model's {what} must have at most {max_size:,} entries, got {size:,}; train a smaller model."
        )


def check_inside(folder: pathlib.Path) -> None:
    """Raise ModelFileError unless a folder holds files and folders only: links lead elsewhere, pipes never end."""
    for place, folders, files in os.walk(folder):
        for path in (pathlib.Path(place) / name for name in (*folders, *files)):
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise ModelFileError(
                    f"the folder must hold plain files, got a link or a special file ({path.relative_to(folder)}); "
                    "copy the files themselves into it."
                )


def block_starts(sizes: Ints) -> Ints:
    """Return where each block begins if blocks of these sizes follow each other."""
    return np.cumsum(sizes) - sizes


def stacked_trees(sizes: Ints, left: Ints, right: Ints) -> dict[str, Ints]:
    """Return arguments of `assemble` for consecutive trees of `sizes` nodes; `left` and `right` count in each tree."""
    roots = block_starts(sizes)
    first = np.repeat(roots, sizes)
    is_leaf = left < 0
    return {
        "roots": roots,
        "left": np.where(is_leaf, -1, left + first),
        "right": np.where(is_leaf, -1, right + first),
        "leaf_label": np.arange(len(first)) - first,
    }


def category_tables(what: str, n_entries: Ints, node: Ints, code: Ints, max_entries: int) -> tuple[Ints, Bools]:
    """Return `category_start` of `assemble`, and whether each entry of the nodes' tables is in its node's set."""
    # A table has `n_entries`, the last for unseen categories; 0 without a table. `code[i]` is in the set of `node[i]`.
    # `what` are the tables in words, for the error above `max_entries`.
    check_size(what, int(n_entries.sum()), max_entries)
    start = block_starts(n_entries)
    is_member = np.zeros(n_entries.sum(), dtype=bool)
    is_member[start[node] + code] = True
    return np.where(n_entries > 0, start, -1), is_member


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with; none for other text."""
    texts = itertools.takewhile(str.isdecimal, re.split(r"[.+\-]", version))
    return tuple(int(text) for text in texts)


def is_newer(library: str, version: Sequence[int]) -> bool:
    """Whether a version is later than the last tested one; patch releases count as tested."""
    last = TESTED[library][1]
    return tuple(version[: len(last)]) > last


def is_older(library: str, version: Sequence[int]) -> bool:
    """Whether a version is earlier than the first tested one; an unknown version is not."""
    return bool(version) and tuple(version) < TESTED[library][0]


def read_live(library: str, read: Callable[[], Read], predict: Callable[[Read], Predict]) -> Read:
    """Read a model in memory; if its library's version is not tested, compare scores with the library's own."""
    # `predict` gives a function from encoded rows to the library's raw prediction.
    version = version_numbers(str(getattr(importlib.import_module(library), "__version__", "")))
    if not (is_newer(library, version) or is_older(library, version)):
        return read()
    model = _read_untested(library, version, read)
    _check_predictions(library, version, model, predict(model))
    return model


def read_stored(
    library: str, version: Sequence[int], read: Callable[[], Read], load: Callable[[Any, Read], Predict | None]
) -> Read:
    """Read the model of a file; if its version is later than tested, compare scores with the installed library's."""
    # `load` takes the library's module and gives a function from encoded rows to its raw prediction for the file's
    # model, or None if the installed library is older than the file, because it may misread the file in the same way.
    if not is_newer(library, version):
        return read()
    try:
        module = importlib.import_module(library.partition(" ")[0])
    except ImportError as error:
        raise _uncheckable_error(library, version, "it is not installed") from error
    model = _read_untested(library, version, read)
    try:
        predict = load(module, model)
    except Exception as error:  # libraries have errors of their own
        raise _uncheckable_error(library, version, f"it cannot load the file ({type(error).__name__})") from error
    if predict is None:
        raise _uncheckable_error(library, version, "the installed one is older")
    _check_predictions(library, version, model, predict)
    return model


def _read_untested(library: str, version: Sequence[int], read: Callable[[], Read]) -> Read:
    """Read a model of a version that is not tested; whatever fails is an UnsupportedModelError."""
    try:
        return read()
    except (ModelFileError, *DAMAGE) as error:
        if isinstance(error, UnsupportedModelError):
            raise
        cause = error if isinstance(error, ModelFileError) else f"{type(error).__name__}: {error}"
        raise UnsupportedModelError(f"{_untested(library, version)} and cannot be read ({cause}); {_REMEDY}") from error


def _untested(library: str, version: Sequence[int]) -> str:
    """Return the beginning of messages about a version that is not tested."""
    first, last, got = (".".join(map(str, numbers)) for numbers in (*TESTED[library], version))
    return f"`model` must be of {library} {first} to {last}, got {got}, which is not tested"


def _uncheckable_error(library: str, version: Sequence[int], reason: str) -> UnsupportedModelError:
    """Return the error for a file of an untested version whose library cannot predict for comparison."""
    name = library.partition(" ")[0]
    return UnsupportedModelError(
        f"{_untested(library, version)} and must be compared with {name}'s own predictions, but {reason}; install the "
        f"{name} that wrote the file, update treeanova, or train with a version that is tested."
    )


def _check_predictions(library: str, version: Sequence[int], model: Forest | Effects, predict: Predict) -> None:
    """Raise UnsupportedModelError unless scores at probe rows are the library's own raw predictions."""
    rows = probe_rows(model)
    scores = model.score(Rows(rows))
    try:
        expected = np.asarray(predict(rows), dtype=np.float64).reshape(scores.shape)
    except Exception as error:  # libraries have errors of their own
        raise UnsupportedModelError(
            f"{_untested(library, version)} and its predictions cannot be compared ({type(error).__name__}: "
            f"{str(error)[:200]}); {_REMEDY}"
        ) from error
    gap = np.abs(scores - expected).max(initial=0)
    scale = np.abs(model.intercept).max(initial=0) + np.abs(scores).max(initial=0)
    if not gap <= _TOLERANCE * scale:  # also if the gap is NaN
        raise UnsupportedModelError(
            f"{_untested(library, version)} and has another meaning: scores differ by {gap:.3g}; {_REMEDY}"
        )


def probe_rows(model: Forest | Effects) -> Floats:
    """Return encoded rows at, above and below thresholds, of all categories and missing, shape (rows, features)."""
    rng = np.random.default_rng(0)
    bounds = [np.unique(model.thresholds_of(j)) for j in range(len(model.schema.features))]
    pairs = zip(model.schema.features, bounds, strict=True)
    columns = [_probe_column(feature, feature_bounds, rng) for feature, feature_bounds in pairs]
    return np.stack(columns, axis=1) if columns else np.empty((_N_ROWS, 0))


def _probe_column(feature: Feature, bounds: Floats, rng: np.random.Generator) -> Floats:
    """Return random values of one feature: at, above and below its bounds, or codes; a tenth is missing."""
    if feature.is_category:
        # Codes of all categories, and n_categories for an unseen one; without names, all would be unseen.
        first = feature.n_categories if feature.encoder.wants_labels else 0
        pool = np.arange(first, feature.n_categories + feature.accepts_unseen, dtype=np.float64)
    else:
        bounds = bounds[np.isfinite(bounds) & (np.abs(bounds) < np.finfo(np.float32).max)]
        bounds = rng.choice(bounds, _MAX_BOUNDS, replace=False) if len(bounds) > _MAX_BOUNDS else bounds
        pool = np.concatenate([[0.0, 1.0, -1.0], bounds, np.nextafter(bounds, np.inf), np.nextafter(bounds, -np.inf)])
    column = rng.choice(pool, _N_ROWS) if len(pool) else np.full(_N_ROWS, np.nan)
    if feature.accepts_missing:
        column[rng.random(_N_ROWS) < 0.1] = np.nan
    return column


def read_estimator(library: str, model: Any, read: Callable[[Any], Read]) -> Read:
    """Read an estimator like `read_live`; its own scores are those of its scikit-learn methods."""
    return read_live(library, lambda: read(model), lambda result: functools.partial(_estimator_score, model, result))


def _estimator_score(model: Any, result: Forest | Effects, rows: Floats) -> Any:
    """Return an estimator's own prediction at encoded rows, on the scale of the score of `result`."""
    raw = raw_rows(result.schema, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the columns have no names here
        if hasattr(model, "decision_function"):
            return model.decision_function(raw)
        if hasattr(model, "classes_"):
            return model.predict_proba(raw)[:, -result.n_outputs :]  # of two classes, that of the second
        scores = model.predict(raw)
    return np.log(scores) if result.schema.link == "log" else scores


def raw_rows(schema: Schema, rows: Floats) -> npt.NDArray[Any]:
    """Decode encoded rows to what a library takes: labels for codes, and for unseen ones a label of no category."""
    raw = rows.astype(object)
    for j, feature in enumerate(schema.features):
        if feature.encoder.labels is not None:
            numbers = [label for label in feature.encoder.labels if isinstance(label, (int, float))]
            are_numbers = numbers and len(numbers) == len(feature.encoder.labels)
            labels = (*feature.encoder.labels, max(numbers) + 1 if are_numbers else "no such category")  # last: unseen
            raw[:, j] = [np.nan if np.isnan(code) else labels[int(code)] for code in rows[:, j]]
    has_text = any(isinstance(value, str) or value is None for value in raw.ravel())
    return raw if has_text else raw.astype(np.float64)
