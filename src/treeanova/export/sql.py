"""Export to SQL: one query of CASE and sums that returns scores, responses or a column per term.

The query has three steps: columns as numbers, their codes, and sums of coefficients. Nested CASE searches cuts as a
binary search does, and long sums are nested, because databases limit the depth of expressions.
"""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

from treeanova.core.arrays import Floats
from treeanova.data.features import Schema
from treeanova.decomposition.decomposition import Decomposition
from treeanova.export.artifact import (
    Export,
    fingerprint_of,
    form_of,
    free_names,
    response_names,
    score_names,
    term_names,
)
from treeanova.model.step_form import Cuts, LabelCodes, StepAxis, StepForm, StepTerm

COLUMNS = ("score", "response", "terms")
_FLAT = 30  # summands and cuts that are written side by side; more are nested
_LARGEST_POWER = math.log(sys.float_info.max)  # beyond, the exponential is infinite, an error in some databases
_LARGEST_EXPONENT = 700.0  # beyond, some databases raise an error instead of returning 0


@dataclasses.dataclass(frozen=True)
class Dialect:
    """What differs between databases."""

    name: str
    double: str  # the type of float64 numbers
    is_nan: str  # a condition on {}
    quote: str = '"'
    backslash_escapes: bool = False  # backslashes in texts are escapes, and quotes in texts must be escaped by them
    greatest: str = "GREATEST"
    literal: str = "{}E0"  # a float64 number without exponent
    ignores_case: bool = True  # of quoted names
    plain_results: bool = False  # names of results have letters of ASCII, digits and underscores only
    integer: str = "INTEGER"
    temporary: str = ""  # the schema of temporary tables, with a point
    is_one_of: str = "{value} IN ({texts})"  # a condition on texts, which a column's collation must not change
    materialized: str = ""  # keeps the database from copying the search of a code to each of its uses

    def name_of(self, name: str) -> str:
        """Quote an identifier; ValueError if the database cannot have it."""
        is_restricted = self.backslash_escapes and any(sign in name for sign in "`\\\n\r")
        if not name or "\0" in name or is_restricted:
            raise ValueError(
                f"names must be ones that {self.name} can quote, got {name!r}; rename the column with `feature_names`."
            )
        return f"{self.quote}{name.replace(self.quote, 2 * self.quote)}{self.quote}"

    def source(self, table: Sequence[str]) -> str:
        """Write the table to read."""
        return ".".join(map(self.name_of, table))

    def column(self, name: str) -> str:
        """Write a column of the table to read, such that a name that it does not have is an error."""
        return self.name_of(name)  # qualified, PostgreSQL would read an unknown "count" as a function of the row

    def text(self, value: str) -> str:
        """Quote a text."""
        if "\0" in value:
            raise ValueError(f"labels must not hold the character NUL, which {self.name} cannot have, got {value!r}.")
        if not self.backslash_escapes:
            return "'" + value.replace("'", "''") + "'"
        for sign, escaped in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\r", "\\r")):
            value = value.replace(sign, escaped)
        return f"'{value}'"

    def number(self, value: float) -> str:
        """Write a float64 number so that the database reads the same one."""
        if math.isinf(value):
            return f"CAST('{'-' if value < 0 else ''}Infinity' AS {self.double})"
        text = repr(float(value))
        return text.upper() if "e" in text else self.literal.format(text)

    def cut(self, value: float) -> str:
        """Write a cut."""
        return self.number(value)

    def float64(self, column: str) -> str:
        """Write a column of numbers as float64."""
        return f"CAST({column} AS {self.double})"

    def refused(self, column: str) -> str | None:  # noqa: ARG002
        """Return a condition on a column of numbers whose values are refused; None if types rule that out."""
        return None


class _SQLite(Dialect):
    """SQLite: decimal numbers have an error of the last bit, columns hold any type, unknown quoted names are texts."""

    def source(self, table: Sequence[str]) -> str:
        return f"{super().source(table)} AS source_rows"

    def column(self, name: str) -> str:
        return f"source_rows.{self.name_of(name)}"  # SQLite reads an unknown name as a text unless it is qualified

    def number(self, value: float) -> str:
        return f"{'-' if value < 0 else ''}9e999" if math.isinf(value) else super().number(value)

    def cut(self, value: float) -> str:
        numerator, denominator = (0, 1) if math.isinf(value) else float(value).as_integer_ratio()
        if len(repr(value)) <= 12 or max(abs(numerator), denominator) > 2**62:
            return self.number(value)
        return f"({numerator}.0/{denominator}.0)"  # integers and a division by a power of two are exact

    def float64(self, column: str) -> str:
        return f"CASE typeof({column}) WHEN 'integer' THEN CAST({column} AS REAL) ELSE {column} END"  # texts stay

    def refused(self, column: str) -> str:
        return f"typeof({column}) NOT IN ('integer', 'real', 'null')"


class _PostgreSQL(Dialect):
    """PostgreSQL: numbers without a cast are decimals, which are slow and of another type."""

    def number(self, value: float) -> str:
        return super().number(value) if math.isinf(value) else f"{float(value)!r}::FLOAT8"


DIALECTS: dict[str, Dialect] = {
    "duckdb": Dialect(
        "DuckDB",
        "DOUBLE",
        "isnan({})",
        is_one_of="{value} IN ({texts} COLLATE C)",  # a column of another collation is an error
        temporary="temp.",
        materialized="MATERIALIZED ",
    ),
    "postgresql": _PostgreSQL(
        "PostgreSQL",
        "DOUBLE PRECISION",
        "{} = 'NaN'",
        ignores_case=False,
        temporary="pg_temp.",
        materialized="MATERIALIZED ",
    ),
    "sqlite": _SQLite(  # since 3.35
        "SQLite",
        "REAL",
        "",
        greatest="MAX",
        is_one_of="{value} COLLATE BINARY IN ({texts})",
        temporary="temp.",
        materialized="MATERIALIZED ",
    ),
    "spark": Dialect("Spark", "DOUBLE", "isnan({})", quote="`", backslash_escapes=True),
    "bigquery": Dialect(
        "BigQuery", "FLOAT64", "IS_NAN({})", quote="`", backslash_escapes=True, plain_results=True, integer="INT64"
    ),
    "snowflake": Dialect("Snowflake", "DOUBLE", "{} = 'NaN'", literal="CAST('{}' AS DOUBLE)", ignores_case=False),
}


def sql(
    fx: Decomposition,
    *,
    table: str | Sequence[str] = "rows",
    dialect: str = "duckdb",
    columns: str = "score",
    keep: str | Sequence[str] = (),
    booleans: str | Sequence[str] = (),
) -> Export:
    """Write a decomposition as one SQL query over a table of its features.

    Rows with values that the model refuses have NULL.

    Parameters
    ----------
    fx
        A decomposition whose terms all have tables: of a shallow model or an EBM, or selected or simplified.
    table
        The table to read: its name, or a sequence of names such as a schema and a table.
    dialect
        "duckdb", "postgresql", "sqlite", "spark", "bigquery" or "snowflake".
    columns
        What the query returns: "score", "response" (probabilities or means), or "terms" (the intercept, a column per
        term, and the score).
    keep
        A column of the table, or several, to return before these, such as an identifier.
    booleans
        Features of numbers whose columns in the table are BOOLEAN, which some databases do not cast to float64.

    Returns
    -------
    Export
        Its text is the query; `save` writes it, `verify` runs it.

    Raises
    ------
    ValueError
        If part of the score has no table, a column cannot be read by plain comparisons, or a name cannot be quoted.

    Examples
    --------
    >>> import sqlite3, treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> query = treeanova.export.sql(fx, table="people", dialect="sqlite", keep=["id"])
    >>> database = sqlite3.connect(":memory:")
    >>> _ = database.execute("CREATE TABLE people (id INTEGER, x0 REAL, x1 REAL)")
    >>> _ = database.execute("INSERT INTO people VALUES (7, 1.0, 1.0)")
    >>> database.execute(str(query)).fetchall()
    [(7, 1.0)]
    """
    if dialect not in DIALECTS:
        raise ValueError(f"`dialect` must be one of {', '.join(map(repr, DIALECTS))}, got {dialect!r}.")
    if columns not in COLUMNS:
        raise ValueError(f"`columns` must be one of {', '.join(map(repr, COLUMNS))}, got {columns!r}.")
    form, fingerprint = form_of(fx), fingerprint_of(fx)
    copied_columns = (keep,) if isinstance(keep, str) else tuple(keep)
    from_booleans = (booleans,) if isinstance(booleans, str) else tuple(booleans)
    _check_booleans(form, from_booleans)
    if columns == "response":
        response_names(fx.schema)
    writer = _Writer(DIALECTS[dialect], form if columns == "terms" else form.merged(), from_booleans)
    results = _results(writer, columns, fx.schema)
    if writer.dialect.plain_results:
        names = free_names([_plain_name(name) for name in results], copied_columns, "_")
        results = dict(zip(names, results.values(), strict=True))
    _check_names(copied_columns, results)
    _check_columns(writer.dialect, [axis.name for axis in form.axes])
    table_path = (table,) if isinstance(table, str) else tuple(table)
    if not table_path:
        raise ValueError("`table` must name a table, got no names; 'rows', say.")
    shown = _responses(writer.dialect, form) if columns == "response" else [f"r{k}" for k in range(len(results))]
    text = writer.query(
        table_path, copied_columns, results, shown, f"-- written by TreeANOVA, fingerprint {fingerprint}"
    )
    options = {
        "dialect": dialect,
        "table": table_path,
        "columns": columns,
        "keep": copied_columns,
        "booleans": from_booleans,
    }
    return Export("sql", text, form, tuple(results), fingerprint, fx, options)


def _results(writer: _Writer, columns: str, schema: Schema) -> dict[str, str]:
    """Return the expressions of the results by name; those of responses are scores."""
    form = writer.form
    scores = [writer.score(k) for k in range(len(form.outputs))]
    if columns == "response":
        return dict(zip(response_names(schema), scores, strict=True))
    named_scores = dict(zip(score_names(form), scores, strict=True))
    if columns == "score":
        return named_scores
    intercepts = [name.replace("score", "intercept", 1) for name in named_scores]
    results = dict(zip(intercepts, map(writer.dialect.number, form.intercept.tolist()), strict=True))
    values = [writer.term(term, k) for term in form.terms for k in range(len(form.outputs))]
    names = free_names(term_names(form, schema), (*results, *named_scores), " (term)")
    return results | dict(zip(names, values, strict=True)) | named_scores


def _plain_name(name: str) -> str:
    """Return a name with letters of ASCII, digits and underscores alone, as some databases need it."""
    plain = re.sub("[^0-9A-Za-z_]", "_", name.replace(" × ", "_x_"))
    return f"_{plain}" if plain[:1].isdigit() else plain


def _check_names(keep: Sequence[str], results: Collection[str]) -> None:
    """Raise ValueError if two columns of the result would have one name, whatever the case of letters."""
    lowered = [name.lower() for name in (*keep, *results)]
    doubled = [name for name in lowered if lowered.count(name) > 1]
    if doubled:
        raise ValueError(f"`keep` must name columns once, none of them a result, got {doubled[0]!r} twice.")


def _check_booleans(form: StepForm, names: Sequence[str]) -> None:
    """Raise ValueError for names that are not columns of numbers."""
    numbers = [axis.name for axis in form.axes if isinstance(axis.reading, Cuts)]
    wrong = next((name for name in names if name not in numbers), None)
    if wrong is not None:
        raise ValueError(f"`booleans` must name features of numbers that some term has, got {wrong!r}; leave it out.")


def _check_columns(dialect: Dialect, names: Sequence[str]) -> None:
    """Raise ValueError for columns that a table of the database cannot have next to each other."""
    lowered = [name.lower() for name in names]
    doubled = [name for name in names if lowered.count(name.lower()) > 1]
    if dialect.ignores_case and doubled:
        raise ValueError(
            f"names of columns must differ in more than the case of letters for {dialect.name}, got {doubled[0]!r} and "
            f"{doubled[1]!r}; rename one with `feature_names`."
        )


def _responses(dialect: Dialect, form: StepForm) -> list[str]:
    """Return responses as expressions of the scores r0, r1, …, without overflow."""
    scores = [f"r{k}" for k in range(len(form.outputs))]
    if form.link == "logit":
        return [
            f"CASE WHEN {r} >= 0 THEN 1E0 / (1E0 + {_exp(f'-{r}')}) ELSE 1E0 - 1E0 / (1E0 + {_exp(r)}) END"
            for r in scores
        ]
    if form.link == "log":
        infinity = dialect.number(math.inf)
        return [f"CASE WHEN {r} > {_LARGEST_POWER!r} THEN {infinity} ELSE {_exp(r)} END" for r in scores]
    if form.link == "softmax":
        largest = f"{dialect.greatest}({', '.join(scores)})"
        powers = [_exp(f"({r} - {largest})") for r in scores]
        return [f"{power} / ({' + '.join(powers)})" for power in powers]
    return scores


def _exp(exponent: str) -> str:
    """Write an exponential function that is 0 where some databases raise an error."""
    return f"(CASE WHEN {exponent} < {-_LARGEST_EXPONENT} THEN 0E0 ELSE EXP({exponent}) END)"


@dataclasses.dataclass(frozen=True)
class _Writer:
    """Writes expressions of a step form; the code of column i is named c{i}, its value v{i}."""

    dialect: Dialect
    form: StepForm
    booleans: tuple[str, ...] = ()

    def query(
        self, table: Sequence[str], keep: Sequence[str], results: Mapping[str, str], shown: Sequence[str], comment: str
    ) -> str:
        """Write the query: values, codes, results r0, r1, …, and the expressions of these that are shown."""
        name_of = self.dialect.name_of
        kept_names = [f"k{i}" for i in range(len(keep))]
        values = [f"{self.dialect.column(name)} AS k{i}" for i, name in enumerate(keep)]
        values += [self._value(i, axis) for i, axis in enumerate(self.form.axes)]
        codes = [*kept_names, *(f"{self._code(i, axis)} AS c{i}" for i, axis in enumerate(self.form.axes))]
        sums = [*kept_names, *(f"{self._guarded(value)} AS r{k}" for k, value in enumerate(results.values()))]
        final = [f"{kept_name} AS {name_of(name)}" for kept_name, name in zip(kept_names, keep, strict=True)]
        final += [f"{value} AS {name_of(name)}" for value, name in zip(shown, results, strict=True)]
        steps = [f"SELECT {_lines(expressions or ['1 AS one'])}" for expressions in (values, codes, sums, final)]
        names = free_names(("read_values", "codes", "sums"), table, "_")  # a step would hide a table of its name
        sources = (self.dialect.source(table), *names)
        selects = [f"{step}\nFROM {source}" for step, source in zip(steps, sources, strict=True)]
        hint = self.dialect.materialized
        inner = ",\n".join(f"{name} AS {hint}(\n{select}\n)" for name, select in zip(names, selects, strict=False))
        return f"{comment}\nWITH {inner}\n{selects[-1]}\n"

    def score(self, output: int) -> str:
        """Write the score of an output: the intercept plus all terms."""
        values = [self.term(term, output) for term in self.form.terms]
        return _sum([self.dialect.number(float(self.form.intercept[output])), *values])

    def term(self, term: StepTerm, output: int) -> str:
        """Return a term: the value of a code, or a sum of nested conditions on the codes of two and more columns."""
        if len(term.key) == 1:
            return self._main_effect(term, output)
        return self._products(term.key, term.codes.tolist(), term.values[:, output])

    def _main_effect(self, term: StepTerm, output: int) -> str:
        """Write the value of a main effect in each code of its column."""
        [i] = term.key
        axis, number = self.form.axes[i], self.dialect.number
        values = [number(float(value)) for value in self.form.table(term)[:, output]]
        steps = _search([str(k) for k in range(axis.n_codes - 1)], values[: axis.n_codes], f"c{i} <= {{}}".format)
        return f"CASE WHEN c{i} < 0 THEN {values[-1]} ELSE {steps} END" if len(values) > axis.n_codes else steps

    def _products(self, key: Sequence[int], codes: Sequence[Sequence[int]], values: Floats) -> str:
        """Return Σ coefficient × product of indicators, nested by the codes of the first column."""
        if not key:
            return self.dialect.number(float(values.sum()))
        groups: dict[int, list[int]] = {}
        for place, (first, *_) in enumerate(codes):
            groups.setdefault(first, []).append(place)
        summands, zero = [], self.dialect.number(0.0)
        for k, places in groups.items():
            inner = self._products(key[1:], [codes[place][1:] for place in places], values[places])
            summands.append(f"CASE WHEN {self._indicator(key[0], k)} THEN {inner} ELSE {zero} END" if k else inner)
        return _sum(summands or [zero])

    def _indicator(self, i: int, k: int) -> str:
        """Write the condition that the indicator of code k of column i is 1."""
        return f"c{i} {'>=' if self.form.axes[i].is_ordered and k > 0 else '='} {k}"

    def _guarded(self, expression: str) -> str:
        """Return NULL where the code of a column is NULL, because the model refuses its value."""
        nulls = [f"c{i} IS NULL" for i, axis in enumerate(self.form.axes) if self._may_refuse(axis)]
        return f"CASE WHEN {' OR '.join(nulls)} THEN NULL ELSE {expression} END" if nulls else expression

    def _may_refuse(self, axis: StepAxis) -> bool:
        """Whether the code of a column may be NULL, because the model refuses a value."""
        return axis.may_refuse or self.dialect.refused("") is not None

    def _value(self, i: int, axis: StepAxis) -> str:
        """Write the value v{i} of column i: a number as float64, a label as it is."""
        name = self.dialect.column(axis.name)
        if isinstance(axis.reading, LabelCodes):
            return f"{name} AS v{i}"
        if axis.name in self.booleans and self.dialect.refused("") is None:  # some have no cast from them to float64
            name = f"CAST({name} AS {self.dialect.integer})"
        return f"{self.dialect.float64(name)} AS v{i}"

    def _code(self, i: int, axis: StepAxis) -> str:
        """Write the code c{i} of column i; NULL for a value that the model refuses."""
        if isinstance(axis.reading, LabelCodes):
            return self._label_code(f"v{i}", axis, axis.reading)
        reading, missing = axis.reading, _code_text(axis.missing)
        absent = [f"v{i} IS NULL", *([self.dialect.is_nan.format(f"v{i}")] if self.dialect.is_nan else [])]
        cut = self.dialect.cut
        absent += [f"(v{i} >= {cut(low)} AND v{i} <= {cut(high)})" for low, high in reading.missing]
        refused = self.dialect.refused(f"v{i}")
        first = f"WHEN {refused} THEN NULL " if refused else ""
        search = _search(
            [cut(value) for value in reading.cuts], [_code_text(c) for c in reading.codes], f"v{i} <= {{}}".format
        )
        return f"CASE {first}WHEN {' OR '.join(absent)} THEN {missing} ELSE {search} END"

    def _label_code(self, value: str, axis: StepAxis, reading: LabelCodes) -> str:
        """Write the code of a label, given by an expression."""
        by_code: dict[int | None, list[Hashable]] = {}
        for label, code in reading.codes:
            by_code.setdefault(axis.missing if code is None else code, []).append(label)
        missing = next((code for label, code in reading.codes if label is None), axis.missing)
        cases = [f"WHEN {value} IS NULL THEN {_code_text(missing)}"]
        for code, labels in by_code.items():
            texts = [self._label(label, axis) for label in labels if label is not None]
            has_texts = any(isinstance(label, str) for label in labels)
            is_one = self.dialect.is_one_of if has_texts else Dialect.is_one_of
            if texts and code != reading.unseen:
                cases.append(f"WHEN {is_one.format(value=value, texts=', '.join(texts))} THEN {_code_text(code)}")
        _check_one_type(axis, reading)
        return f"CASE {' '.join(cases)} ELSE {_code_text(reading.unseen)} END"

    def _label(self, label: Hashable, axis: StepAxis) -> str:
        """Write a label as a literal; ValueError for a type that SQL lacks."""
        if isinstance(label, str):
            return self.dialect.text(label)
        if isinstance(label, bool):
            return "TRUE" if label else "FALSE"
        if isinstance(label, int):
            return str(label)
        if isinstance(label, float) and math.isfinite(label):
            return self.dialect.number(label)
        raise ValueError(f"labels of {axis.name!r} must be texts, numbers or booleans for SQL, got {label!r}.")


def _check_one_type(axis: StepAxis, reading: LabelCodes) -> None:
    """Raise ValueError if labels have several types, which a column of a database cannot have."""
    kinds = {type(label).__name__ for label, _ in reading.codes if label is not None}
    kinds -= {"float"} if "int" in kinds else set()
    if len(kinds) > 1:
        raise ValueError(f"labels of {axis.name!r} must be of one type for SQL, got {', '.join(sorted(kinds))}.")


def _code_text(code: int | None) -> str:
    """Write a code; NULL for values that the model refuses."""
    return "NULL" if code is None else str(code)


def _search(bounds: Sequence[str], results: Sequence[str], is_up_to: Callable[[str], str]) -> str:
    """Write a search for the first bound that a value does not exceed; `results` has one more for those beyond."""
    if not bounds:
        return results[0]
    if len(bounds) <= 4:
        pairs = zip(bounds, results, strict=False)
        return f"CASE {' '.join(f'WHEN {is_up_to(b)} THEN {r}' for b, r in pairs)} ELSE {results[-1]} END"
    middle = len(bounds) // 2
    low = _search(bounds[:middle], results[: middle + 1], is_up_to)
    high = _search(bounds[middle + 1 :], results[middle + 1 :], is_up_to)
    return f"CASE WHEN {is_up_to(bounds[middle])} THEN {low} ELSE {high} END"


def _sum(summands: Sequence[str]) -> str:
    """Write a sum, nested so that no expression is deep."""
    while len(summands) > _FLAT:
        summands = [f"({' + '.join(summands[i : i + _FLAT])})" for i in range(0, len(summands), _FLAT)]
    return " + ".join(summands)


def _lines(expressions: Sequence[str]) -> str:
    """Write expressions on a line each."""
    return ",\n  ".join(expressions)
