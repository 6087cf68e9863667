"""Export to scorecards and factor tables: points that add up to a score, relativities that multiply to a mean."""

from __future__ import annotations

import csv
import dataclasses
import html
import importlib
import io
import itertools
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, checked_whole, label_of
from treeanova.core.files import CSV, PAGE, replacing
from treeanova.data.columns import frame
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.predictions import Term, backend_of_tables
from treeanova.export.artifact import check_decomposition, fingerprint_of, form_of

_MOST_DIGITS = 15  # after the point, or before it, to which points are rounded
_MOST_POINTS = 1e15  # float64 holds all whole numbers below
_SPREADSHEET = (".xlsx",)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class FactorTable:
    """A table with a row per cell of each term: points that are added, or factors that are multiplied.

    Attributes
    ----------
    columns
        `code` (of the term, such as T03), `term`, `cell` (its bins in words), `value` (the term on the scale of the
        score), `weight` (share of the density), and `points` or `relativity`.
    base
        Points of a row before its terms, or the mean to which relativities are multiplied.
    rounding
        The largest change of the total by rounding points; 0 if they are not rounded.
    kind
        "points" or "relativity".
    fingerprint
        Digest of the decomposition.
    scale
        What points mean, in words; empty for factors.

    Examples
    --------
    >>> import numpy as np, treeanova
    >>> tables = {"income": [-0.5, 0.5]}
    >>> effects = treeanova.model.Effects.from_tables(tables, thresholds={"income": [1000.0]}, link="logit")
    >>> fx = treeanova.decompose(effects, density="uniform")
    >>> treeanova.export.scorecard(fx, points=600, odds=1, pdo=20).columns["points"]
    [-14, 14]
    """

    columns: Mapping[str, Sequence[Any]]
    base: float
    rounding: float
    kind: str
    fingerprint: str
    scale: str = ""
    _backend: str | None = None

    @property
    def table(self) -> Any:
        """The rows as a data frame of the library of X, or of one that is installed."""
        return frame(dict(self.columns), self._backend)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table to a file: .csv, .html, or .xlsx (which needs openpyxl).

        Parameters
        ----------
        path
            Where to write; an existing file is replaced.

        Examples
        --------
        >>> import tempfile, treeanova
        >>> effects = treeanova.model.Effects.from_tables({"a": [-1.0, 1.0]}, thresholds={"a": [0.5]}, link="logit")
        >>> card = treeanova.export.scorecard(treeanova.decompose(effects, density="uniform"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     card.save(f"{folder}/card.csv")
        """
        suffix = os.path.splitext(os.fspath(path))[1].lower()  # noqa: PTH122  a name, not a file
        if suffix not in (*CSV, *PAGE, *_SPREADSHEET):
            raise ValueError(f"`path` must end in .csv, .html or .xlsx, got {os.fspath(path)!r}.")
        with replacing(path) as file:
            if suffix in _SPREADSHEET:
                self._write_spreadsheet(file)
            else:
                file.write((self._page() if suffix in PAGE else self._text()).encode())

    def _lines(self) -> list[tuple[Any, ...]]:
        """Return the header, a row of the base, and all rows."""
        names = tuple(self.columns)
        base = tuple({"term": "base", self.kind: self.base}.get(name, "") for name in names)
        return [names, base, *zip(*self.columns.values(), strict=True)]

    def _text(self) -> str:
        """Return the table as CSV."""
        text = io.StringIO()
        csv.writer(text).writerows([[_safe_cell(value) for value in line] for line in self._lines()])
        return text.getvalue()

    def _page(self) -> str:
        """Return the table as an HTML page."""
        header, *lines = self._lines()
        head = "".join(f"<th>{html.escape(str(name))}</th>" for name in header)
        body = "\n".join(
            f"<tr>{''.join(f'<td>{html.escape(_shown(value))}</td>' for value in line)}</tr>" for line in lines
        )
        style = "body{font:14px sans-serif}td,th{padding:2px 10px;text-align:left;border-bottom:1px solid #ddd}"
        return (
            f'<!doctype html><meta charset="utf-8"><title>{self.kind}</title><style>{style}</style>'
            f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
            f"<p>TreeANOVA, fingerprint {self.fingerprint}</p>"
        )

    def _write_spreadsheet(self, file: Any) -> None:
        """Write the table as an Excel workbook; ImportError without openpyxl."""
        book = importlib.import_module("openpyxl").Workbook()
        for line in self._lines():
            book.active.append([_safe_cell(value) for value in line])
        book.save(file)

    def __repr__(self) -> str:
        n_terms = len(set(self.columns["term"]))
        return f"<{self.kind} of {n_terms} terms in {len(self.columns['term'])} rows, base {self.base:g}>"


def _safe_cell(value: Any) -> Any:
    """Return a cell that spreadsheets take for text, not for a formula."""
    value = value.item() if isinstance(value, np.generic) else value
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def _shown(value: Any) -> str:
    """Return a value of the page as text."""
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)


def scorecard(
    fx: Decomposition, *, pdo: float = 20.0, points: float = 600.0, odds: float = 50.0, digits: int | None = 0
) -> FactorTable:
    """Return points for every cell of every term of a classifier; they add up to a score.

    The sum of points is ``points + pdo / log(2) * (log_odds - log(odds))``: `points` at odds of `odds` to 1 of the
    second class, and `pdo` more points where these odds double. With a negative `pdo`, points rise as the odds fall.

    Parameters
    ----------
    fx
        A decomposition of a classifier of two classes whose score is log-odds, and whose terms all have tables.
    pdo
        Points to double the odds.
    points
        The sum of points at odds of `odds` to 1.
    odds
        The odds at which the sum is `points`.
    digits
        Digits after the point of rounded points; None for points that are not rounded.

    Returns
    -------
    FactorTable
        Points by cell, and the largest change by rounding.

    Raises
    ------
    ValueError
        If the score is not log-odds of one output, or part of it has no table.

    Examples
    --------
    >>> import treeanova
    >>> effects = treeanova.model.Effects.from_tables({"a": [-1.0, 1.0]}, thresholds={"a": [0.5]}, link="logit")
    >>> card = treeanova.export.scorecard(treeanova.decompose(effects, density="uniform"), odds=1)
    >>> card.base, card.columns["points"], card.columns["cell"]
    (600.0, [-29, 29], ['≤ 0.5', '> 0.5'])
    """
    check_decomposition(fx)
    if fx.schema.link != "logit" or len(fx.outputs) > 1:
        raise ValueError(
            f"`fx` must have log-odds of two classes as its score, got link {fx.schema.link!r} and {len(fx.outputs)} "
            "outputs; for means with a log link use relativities()."
        )
    rules = {"pdo": (pdo != 0, "a number other than 0"), "odds": (odds > 0, "a positive number")}
    for name, number in {"pdo": pdo, "odds": odds, "points": points}.items():
        is_right, rule = rules.get(name, (True, "a number"))
        if not is_right or not math.isfinite(number):
            raise ValueError(f"`{name}` must be {rule}, got {number!r}.")
    if digits is not None and checked_whole("digits", digits, -_MOST_DIGITS, "0 is the default") > _MOST_DIGITS:
        raise ValueError(f"`digits` must be at most {_MOST_DIGITS}, got {digits}; None leaves points unrounded.")
    form_of(fx)
    factor = pdo / math.log(2)
    base = points + factor * (float(np.ravel(fx.intercept)[0]) - math.log(odds))
    sizes = [float(np.abs(term.values).max(initial=0.0)) for term in fx.terms.values()]
    largest = abs(base) + abs(factor) * sum(sizes)
    if not largest < _MOST_POINTS:
        raise ValueError(f"points must be below {_MOST_POINTS:g} in size, got {largest:g}; choose a smaller `pdo`.")
    exact = [factor * term.values.ravel() for term in fx.terms.values()]
    rounded, rounding = exact, 0.0
    if digits is not None:
        rounded = [np.round(values, digits) for values in exact]
        changes = [np.abs(new - old).max(initial=0.0) for new, old in zip(rounded, exact, strict=True)]
        rounding = float(np.sum(changes)) + abs(round(base, digits) - base)
        base = round(base, digits)
    points_by_term = [values.astype(int).tolist() if digits == 0 else values.tolist() for values in rounded]
    columns = _columns(fx, "points", list(itertools.chain.from_iterable(points_by_term)))
    scale = f"{points:g} points at odds of {odds:g} to 1, {pdo:g} more where the odds double"
    return FactorTable(columns, base, rounding, "points", fingerprint_of(fx), scale, backend_of_tables(fx))


def relativities(fx: Decomposition, *, base: Any = "mean") -> FactorTable:
    """Return a factor for every cell of every term of a model with a log link; with the base they multiply to the mean.

    Parameters
    ----------
    fx
        A decomposition of a model with a log link, such as one of claims, whose terms all have tables.
    base
        "mean": factors of 1 stand for the average of a term's logarithm under the density. Or a row, as a mapping from
        features to values, a series, or a data frame of one row: factors are then relative to its cells.

    Returns
    -------
    FactorTable
        Factors by cell.

    Raises
    ------
    ValueError
        If the model has another link, several outputs, or part of its score has no table.

    Examples
    --------
    >>> import treeanova
    >>> effects = treeanova.model.Effects.from_tables({"a": [0.0, 1.0]}, thresholds={"a": [0.5]}, link="log")
    >>> fx = treeanova.decompose(effects, density="uniform")
    >>> factors = treeanova.export.relativities(fx, base={"a": 0.0})
    >>> [round(float(factor), 4) for factor in factors.columns["relativity"]], round(factors.base, 4)
    ([1.0, 2.7183], 1.0)
    """
    check_decomposition(fx)
    if fx.schema.link != "log" or len(fx.outputs) > 1:
        raise ValueError(
            f"`fx` must have a log link and one output for factors, got link {fx.schema.link!r} and {len(fx.outputs)} "
            "outputs; for log-odds use scorecard()."
        )
    if isinstance(base, str) and base != "mean":
        raise ValueError(f"`base` must be 'mean' or a mapping from features to values, got {base!r}.")
    form = form_of(fx)
    row = None if isinstance(base, str) else _checked_row(fx, _plain_row(base))
    terms = list(fx.terms.values())
    shifts = np.zeros(len(terms)) if row is None else form.terms_at(row)[:, 0]
    factors = [np.exp(term.values.ravel() - shift) for term, shift in zip(terms, shifts, strict=True)]
    level = math.exp(float(np.ravel(fx.intercept)[0]) + float(np.sum(shifts)))
    columns = _columns(fx, "relativity", np.concatenate(factors).tolist() if factors else [])
    return FactorTable(columns, level, 0.0, "relativity", fingerprint_of(fx), _backend=backend_of_tables(fx))


def _plain_row(base: Any) -> Mapping[str, Any]:
    """Return a row, given as a mapping, a series or a data frame of one row, as a mapping."""
    if isinstance(base, Mapping):
        return base
    if hasattr(base, "columns") and len(base) == 1:
        return {str(name): next(iter(base[name])) for name in base.columns}
    if hasattr(base, "index") and hasattr(base, "items") and not hasattr(base, "columns"):
        return {str(name): value for name, value in base.items()}
    shown = f"{len(base)} rows" if hasattr(base, "columns") else type(base).__name__
    raise ValueError(f"`base` must be 'mean' or one row (a mapping, a series, a data frame of one row), got {shown}.")


def _checked_row(fx: Decomposition, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row; ValueError if it lacks a feature of some term."""
    used = {name for names in fx.terms for name in names}
    lacking = sorted(used - set(row))
    if lacking:
        raise ValueError(f"`base` must have a value for every feature of the terms, got none for {lacking[0]!r}.")
    return row


def _columns(fx: Decomposition, kind: str, results: list[Any]) -> dict[str, list[Any]]:
    """Return the columns of the table, a row per cell of each term; `results` are points or relativities."""
    terms = list(fx.terms.items())
    codes = [[f"T{i:02d}"] * term.weights.size for i, (_, term) in enumerate(terms, start=1)]
    labels = [[label_of(names)] * term.weights.size for names, term in terms]
    return {
        "code": _chained(codes),
        "term": _chained(labels),
        "cell": _chained([_cell_labels(term) for _, term in terms]),
        "value": _chained([_flat(term.values) for _, term in terms]),
        "weight": _chained([_flat(term.weights) for _, term in terms]),
        kind: results,
    }


def _chained(lists: Sequence[Sequence[Any]]) -> list[Any]:
    """Return lists one after the other."""
    return list(itertools.chain.from_iterable(lists))


def _flat(values: Floats) -> list[float]:
    return values.ravel().tolist()


def _cell_labels(term: Term) -> list[str]:
    """Return what each cell is in words: the bin of a main effect, or the bins of all features with their names."""
    if term.order == 1:
        return list(term.axes[0].labels)
    named = [[f"{axis.name} {label}" for label in axis.labels] for axis in term.axes]
    return [", ".join(cell) for cell in itertools.product(*named)]
