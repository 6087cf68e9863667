"""Answers of the commands: plain data for machines, text for people."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from treeanova.anova.certificate import Certificate, HigherCertificate
from treeanova.cli.sources import ModelFile, Request, check_density, check_has_rows, decomposed, is_in_batches
from treeanova.cli.terminal import Row, aligned, percent
from treeanova.core.arrays import Floats, Names, labels_of
from treeanova.core.progress import Progress, within
from treeanova.data.columns import printable
from treeanova.data.features import Schema
from treeanova.data.files import read_column, records
from treeanova.decomposition.change import Change, change
from treeanova.decomposition.comparison import Comparison
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.explanation import Explanation
from treeanova.decomposition.gap import WITHOUT_ERROR, Gap, error_text
from treeanova.decomposition.monotonicity import Monotonicity
from treeanova.decomposition.validation import Validation
from treeanova.density.kinds import KINDS
from treeanova.density.row_sources import statistics_of
from treeanova.errors import DensityWarning
from treeanova.views import caveats, effect_words, headline, scale_of, share_words, standings, sum_words

_MOST_NAMES = 10

# What explain answers.


def summary(fx: Decomposition, name: str) -> dict[str, Any]:
    """A decomposition in short, as plain data."""
    statistics = fx.density.statistics
    return {
        "model": name,
        "density": fx.density.name,
        "n_rows": None if statistics is None else statistics.n_rows,
        "features": list(fx.schema.names),
        "outputs": list(fx.outputs),
        "link": fx.link,
        "scale": scale_of(fx.schema),
        "intercept": fx.intercept,
        "terms": _plain_terms(fx),
        "certificate": _plain_certificate(fx.certificate, is_part=fx.scope.is_part),
    }


def _plain_terms(fx: Decomposition) -> list[dict[str, Any]]:
    """Rows of the table of importance with the features of each term; None for the remainder."""
    ranked = [term for ranking in standings(fx).values() for term in ranking]
    rows = zip(records(fx.importance()), ranked, strict=True)
    return [row | {"features": list(term.features) or None} for row, term in rows]


def _plain_certificate(certificate: Certificate, *, is_part: bool) -> dict[str, Any]:
    return {
        "pure": certificate.is_pure,
        "tables_pure": certificate.tables_are_pure,
        "impurity": certificate.impurity,
        "error": _measured(certificate.error),
        "aliases": [list(group) for group in certificate.aliases],
        "max_correlation": certificate.max_correlation,
        "reconstruction_error": None if is_part else certificate.reconstruction_error,
        "density_gap": certificate.density_gap,
        "at_rows": _plain_higher(certificate.higher),
        "remainder_share": certificate.remainder_share,
    }


def _plain_higher(higher: HigherCertificate | None) -> dict[str, Any] | None:
    """How pure the terms are that are evaluated at rows."""
    if higher is None:
        return None
    return {
        "orders": list(higher.orders),
        "n_terms": higher.n_terms,
        "n_corrected": higher.n_corrected,
        "purity": _measured(higher.purity),
        "refinement": _measured(higher.refinement),
        "table_error": _measured(higher.table_error),
        "mean_error": higher.mean_error,
    }


def _measured(measure: float) -> float | None:
    """A number, or None where it was not measured: JSON has no NaN."""
    return None if math.isnan(measure) else measure


def explained(fx: Decomposition, plain: Row, top: int) -> str:
    """A decomposition in short, for people; `plain` is its `summary` with the files that were written."""
    rows = "" if plain["n_rows"] is None else f", {plain['n_rows']:,} rows"
    features = f"{len(plain['features'])} features"
    scale = printable(plain["scale"])
    parts = [f"{plain['model']}: {features}, density {plain['density']}{rows}, {scale}"]
    for output, ranking in standings(fx).items():
        of = f"{output}: " if len(plain["outputs"]) > 1 else ""
        terms = [row for row in plain["terms"] if row.get("output", output) == output]
        parts.append(f"{of}{printable(headline(ranking, is_part=fx.scope.is_part))}\n\n{_strongest(terms, top)}")
    parts.append("\n".join(caveats(fx)))
    parts += ["\n".join(f"wrote {path}" for path in plain["files"].values())] if plain["files"] else []
    return "\n\n".join(parts)


def _strongest(rows: Sequence[Row], top: int) -> str:
    """A line per term, one for those left out, and what the numbers add up to and mean."""
    lines = [
        {
            "term": row["term"],
            "variance": percent(row["variance"]),
            "covariance": percent(row["covariance"]),
            "share": percent(row["share"]),
            "mean |effect|": f"{row['mean_abs']:.4g}",
        }
        for row in rows[:top]
    ]
    rest = rows[top:]
    sums = [percent(sum(row[name] for row in rest)) for name in ("variance", "share")]
    more = f"{len(rest)} more terms: variance {sums[0]}, share {sums[1]}" if rest else ""
    notes = (
        sum_words(row["variance"] for row in rows),
        share_words((row["variance"], row["share"]) for row in rows[:top]),
    )
    return "\n".join(filter(None, (aligned(lines), more, *notes)))


# What table answers.


def table_words(fx: Decomposition, term: Names, *, is_raw: bool) -> str:
    """The caption of a term's table: its features, and what its values mean."""
    pure, raw = effect_words(fx.schema), f"contribution to {scale_of(fx.schema)}, before purification"
    return printable(f"{labels_of([term], fx.schema.names)[0]}: value is the {raw if is_raw else pure}")


# What compare answers.


def plain_comparison(comparison: Comparison) -> dict[str, Any]:
    """The tables of a comparison as plain data."""
    tables = {name: records(getattr(comparison, name)) for name in ("distance", "signs", "ranks")}
    return {"names": list(comparison.names), "notes": list(comparison.notes), **tables}


def compared(comparison: Comparison, top: int) -> str:
    """A comparison for people: one line per term, the largest change first; over several outputs the largest."""
    plain = plain_comparison(comparison)
    first, *others = plain["names"]
    by_name = [{"term": row["term"], row["decomposition"]: row["relative"]} for row in plain["distance"]]
    distances, signs = _largest(by_name, others), _largest(plain["signs"], others)
    ranks = {row["term"]: row for row in plain["ranks"]}
    lines = [
        {"term": term}
        | {f"Δ {name}": percent(distances[term][name]) for name in others}
        | {f"rank {name}": _rank_text(ranks[term][name]) for name in plain["names"]}
        | {f"sign {name}": percent(signs[term][name]) if term in signs else "" for name in others}
        for term in sorted(distances, key=lambda term: -max(map(_sortable, distances[term].values())))
    ]
    more = f"\n{len(lines) - top} more terms" if len(lines) > top else ""
    notes = "".join(f"\n{printable(note)}" for note in comparison.notes)
    return (
        f"Compared with {first}. Δ: root mean square difference of a term, in standard deviations of the score;\n"
        "rank: by variance, – where there is no such term; sign: share of rows where a main effect has the other "
        f"sign.{notes}\n\n{aligned(lines[:top])}{more}"
    )


def _rank_text(rank: float | None) -> str:
    """A rank, or a dash where there is none."""
    return "–" if rank is None or math.isnan(rank) else str(int(rank))


def _largest(rows: Iterable[Row], names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Per term and name the largest number over rows."""
    largest: dict[str, dict[str, float]] = {}
    for row in rows:
        numbers = largest.setdefault(row["term"], dict.fromkeys(names, 0.0))
        numbers.update(
            {name: max(row[name], numbers[name]) for name in names if name in row}
        )  # in this order NaN stays
    return largest


def _sortable(number: float) -> float:
    """A number, or -1, below all distances, for NaN."""
    return -1.0 if math.isnan(number) else number


# What validate answers.


def plain_validation(validation: Validation) -> dict[str, Any]:
    """A validation as plain data."""
    return {
        "loss": validation.loss,
        "n_rows": validation.n_rows,
        "model_loss": validation.model_loss,
        "constant_loss": validation.constant_loss,
        "dispensable": list(validation.dispensable),
        "significant": list(validation.significant),
        "groups": [list(group) for group in validation.groups],
        "notes": list(validation.notes),
        "terms": records(validation.table),
    }


def _first_of(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def validated(validation: Validation, top: int) -> str:
    """A validation for people: one line per term, the largest change of loss first."""
    plain = plain_validation(validation)
    lines = [
        {"term": row["term"]}
        | ({"output": row["output"]} if "output" in row else {})
        | {"loss without": f"{row['loss_change']:+.4g}", "error": f"{row['error']:.2g}", "p": p_text(row["p_value"])}
        | {"p (Holm)": p_text(row["p_holm"]), "slope": f"{row['slope']:.2f}", "explains": _share_text(row["share"])}
        | {"of the score": percent(row["model_share"])}
        | ({"tested with": row["aliases"]} if plain["groups"] else {})
        for row in plain["terms"]
    ]
    more = f"\n{len(lines) - top} more terms" if len(lines) > top else ""
    idle, found = (_first_of(plain[name]) or "none" for name in ("dispensable", "significant"))
    return (
        f"{plain['n_rows']:,} rows, {plain['loss']}: {_numbers(plain['model_loss'])} for the model, "
        f"{_numbers(plain['constant_loss'])} for the best constant\n"
        "1. How much worse is the loss without the term? (loss without, and its standard error)\n"
        f"   Interactions that can be left out (the loss grows by at most two errors): {printable(idle)}\n"
        "2. Does the outcome follow the term, given all the others? (p, one-sided)\n"
        f"   Significant, corrected for all {len(lines)} rows (Holm): {printable(found)}\n"
        f"{''.join(f'   {note}{chr(10)}' for note in plain['notes'])}\n"
        f"{aligned(lines[:top])}{more}\n\n"
        "slope: 1 calibrated, 0 noise; explains: share of the outcome's variance, next to the term's share of the\n"
        f"score's{_TESTED_WITH if plain['groups'] else ''}."
    )


_TESTED_WITH = "; tested with: terms that these rows cannot distinguish from it, tested together as one sum"


def _share_text(share: float) -> str:
    return "–" if math.isnan(share) else percent(share)


def p_text(p: float) -> str:
    """A p-value for people."""
    return "–" if math.isnan(p) else "<0.0001" if p < 1e-4 else f"{p:.4f}"


def _numbers(losses: Any) -> str:
    return ", ".join(f"{loss:.6g}" for loss in np.atleast_1d(losses))


# What change answers.


def change_between(
    models: Sequence[ModelFile], requests: Sequence[Request], density: str | None, progress: Progress
) -> Change:
    """The change from the first model and its rows to the second."""
    check_density(density)
    old = decomposed(models[0], requests[0], density, within(progress, "old"))
    is_same = models[0].path.samefile(models[1].path)
    new = old if is_same else decomposed(models[1], requests[1], density, within(progress, "new"))
    return change(old, new, **_rows_of_both(old, new, requests), progress=within(progress, "change"))


def _rows_of_both(old: Decomposition, new: Decomposition, requests: Sequence[Request]) -> dict[str, Any]:
    """The old and the new rows: as tables where the two models read columns in different ways, else as statistics."""
    if old.schema.names != new.schema.names:
        return {}  # change() says what differs
    encoders = [[feature.encoder for feature in fx.schema.features] for fx in (old, new)]
    if encoders[0] == encoders[1]:
        pairs = zip(("X_old", "X_new"), (old, new), requests, strict=True)
        return {
            name: statistics_of(request.table(fx.schema), fx.grid, request.weights(), fx.source.wanted_tables())
            for name, fx, request in pairs
        }
    if any(request.weight for request in requests):
        raise ValueError(
            "`--weight` must be left out where the two models read columns in different ways, got one; use models of "
            "one library."
        )
    return {"X_old": requests[0].table(old.schema), "X_new": requests[1].table(new.schema)}


def plain_change(found: Change, names: Sequence[str]) -> dict[str, Any]:
    """A change as plain data."""
    sums = {name: getattr(found, name) for name in ("old_mean", "new_mean", "population", "model", "total")}
    return {
        "old": names[0],
        "new": names[1],
        "scale": scale_of(found.old.schema),
        "outputs": list(found.old.outputs),
        **sums,
        "table": records(found.table),
    }


def changed(found: Change, plain: Row, top: int) -> str:
    """A change for people: its sums, and a line per term."""
    names = ("old_mean", "new_mean", "total", "population", "model")
    parts = []
    for k, output in enumerate(plain["outputs"]):
        before, after, total, population, model = (_at(getattr(found, name), k) for name in names)
        of = f"{output}: " if len(plain["outputs"]) > 1 else ""
        head = f"{of}mean {plain['scale']} {before:.4g} in {plain['old']}, {after:.4g} in {plain['new']}"
        sums = f"change {total:+.4g}: population {population:+.4g}, model {model:+.4g}"
        rows = [row for row in plain["table"] if row.get("output", output) == output]
        parts.append(f"{printable(head)}\n{sums}\n\n{_lines(rows, ('population', 'model', 'total'), top + 1)}")
    return "\n\n".join(parts)


# What gap answers.


@dataclasses.dataclass(frozen=True)
class Groups:
    """The column that makes groups, and the values of it that are compared."""

    column: str
    value: str | None = None
    against: str | None = None


def gap_in(fx: Decomposition, request: Request, groups: Groups, feature: str | None, progress: Progress) -> Gap:
    """The gap between two groups of the rows of a file."""
    if request.data is None:
        raise ValueError("`--data` must be given for the groups, got no rows; add the rows.")
    labels = np.array([str(label) for label in read_column(request.data, groups.column)], dtype=object)
    if feature is None and groups.column in fx.schema.names:
        feature = groups.column
    table = request.table(fx.schema)
    kept, is_second, names = _chosen(labels, groups)
    rows = table if kept.all() else nw.to_native(nw.from_native(table, eager_only=True).filter(kept.tolist()))
    weights = None if request.weight is None else np.asarray(request.column(request.weight))[kept]
    found = fx.gap(rows, is_second, sample_weight=weights, feature=feature, progress=progress)
    return dataclasses.replace(found, groups=names)


def _chosen(labels: Any, groups: Groups) -> tuple[Any, Any, tuple[str, str]]:
    """Which rows are compared, which of these are in the second group, and the names of both groups."""
    known = sorted(set(labels.tolist()))
    for option, value in (("--value", groups.value), ("--against", groups.against)):
        if value is not None and value not in known:
            raise ValueError(f"`{option}` must be a value of {groups.column}, got {value!r}; there are {_some(known)}.")
    if groups.value is None and (groups.against is not None or len(known) != 2):
        raise ValueError(
            f"`--group` must be a column of two values, or come with --value, got {len(known)} in {groups.column} "
            f"({_some(known)}); add --value {known[0]!r}, and --against to compare it with one other."
        )
    second = known[1] if groups.value is None else groups.value
    first = known[0] if groups.value is None else groups.against
    kept = np.ones(len(labels), dtype=bool) if first is None else (labels == first) | (labels == second)
    names = (
        f"{groups.column} other than {second}" if first is None else _name_of_group(first, groups),
        _name_of_group(second, groups),
    )
    return kept, labels[kept] == second, names


def _name_of_group(value: str, groups: Groups) -> str:
    return value if any(map(str.isalpha, value)) else f"{groups.column} = {value}"


def _some(values: Sequence[str]) -> str:
    return ", ".join(values[:6]) + (", …" if len(values) > 6 else "")


def plain_gap(found: Gap, name: str) -> dict[str, Any]:
    """A gap as plain data."""
    return {
        "model": name,
        "scale": scale_of(found.fx.schema),
        "outputs": list(found.fx.outputs),
        "groups": list(found.groups),
        "sizes": list(found.sizes),
        "is_weighted": found.is_weighted,
        "means": list(found.means),
        "total": found.total,
        "error": found.error,
        "table": records(found.table),
        "routes": None if found.routes is None else records(found.routes),
    }


def parted(found: Gap, plain: Row, top: int) -> str:
    """A gap for people: its sum, the routes, and a line per term."""
    parts = []
    for k, output in enumerate(plain["outputs"]):
        of = f"{output}: " if len(plain["outputs"]) > 1 else ""
        sides = [
            f"{_at(mean, k):.4g} in {name} ({count})"
            for name, count, mean in zip(found.groups, found.counts, found.means, strict=True)
        ]
        gap = f"gap {_at(found.total, k):+.4g}, standard error {error_text(_at(found.error, k), 2)}"
        head = printable(f"{of}mean {plain['scale']} {', '.join(sides)}")
        parts.append(f"{head}\n{gap}")
        for name, rows in (("routes", plain["routes"] or []), ("table", plain["table"])):
            own = [row for row in rows if row.get("output", output) == output]
            parts += [_lines(own, ("gap", "error"), top if name == "table" else len(own))] if own else []
    if min(found.sizes) > 1 and any(row["error"] is None or math.isnan(row["error"]) for row in plain["table"]):
        parts.append(f"error –: {WITHOUT_ERROR}")
    note = (
        f"Dropping the terms of {found.feature} would not remove its influence: features correlated with it carry it."
    )
    return "\n\n".join([*parts, *([] if found.feature is None else [printable(note)])])


# Both.


def _at(value: float | Floats, position: int) -> float:
    return float(np.atleast_1d(value)[position])


def _lines(rows: Sequence[Row], columns: Sequence[str], top: int) -> str:
    """A line per row, and one for those left out."""
    first = next(iter(rows[0]))
    noise = 1e-12 * max(abs(row[name]) for row in rows for name in columns if row[name] == row[name])
    lines = [{first: row[first]} | {name: _text(row[name], name, noise) for name in columns} for row in rows[:top]]
    rest = rows[top:]
    more = f"\n{len(rest)} more terms: {sum(row[_sum(columns)] for row in rest):+.4g}" if rest else ""
    return f"{aligned(lines)}{more}"


def _text(value: float, column: str, noise: float) -> str:
    """A number with its sign, where it is not an error; zero for what rounding left of it."""
    if column == "error":
        return error_text(value)
    shown = 0.0 if abs(value) <= noise else value
    return f"{shown:+.4g}" if shown else "0"


def _sum(columns: Sequence[str]) -> str:
    return "total" if "total" in columns else columns[0]


# What reasons answers.


def decomposed_for_reasons(
    file: ModelFile, request: Request, density: str | None, reference: int | None, progress: Progress
) -> Decomposition:
    """The decomposition that reasons are taken from; ValueError where its density is one row, all terms being zero."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DensityWarning)
        fx = decomposed(file, request, density, progress)
    if reference is None and fx.density.is_one_cell:
        raise ValueError(
            "`--data` must have rows of a population to compare the row with, got rows of one kind only, at which "
            "every term is zero; add --density-from FILE with such rows."
        )
    return fx


def reasons_for(fx: Decomposition, request: Request, row: int, reference: int | None) -> Explanation:
    """One row of a file explained, against another row of it where one is named."""
    if request.data is None or is_in_batches(request.data):
        raise ValueError("`--data` must be one file for the rows to explain, got none; add the file.")
    table = nw.from_native(request.table(fx.schema), eager_only=True)
    wanted = {"--row": row} if reference is None else {"--row": row, "--reference": reference}
    for option, number in wanted.items():
        if number >= len(table):
            raise ValueError(
                f"`{option}` must be the number of a row, from 0 on, got {number}; the data have {len(table):,} rows."
            )
    one, *others = (nw.to_native(table[[number]]) for number in wanted.values())
    return fx.explain(one, reference=others[0] if others else None)


def plain_reasons(found: Explanation, fx: Decomposition, name: str) -> dict[str, Any]:
    """An explained row as plain data."""
    values = {label: np.atleast_1d(part[0]) for label, part in found.parts.items()}
    outputs = list(found.outputs)
    rows = [
        {"term": label, **({"output": output} if len(outputs) > 1 else {}), "value": float(value[k])}
        for k, output in enumerate(outputs)
        for label, value in sorted(values.items(), key=lambda item: -abs(float(item[1][k])))
    ]
    return {
        "model": name,
        "scale": scale_of(fx.schema),
        "outputs": outputs,
        "baseline": found.baseline,
        "intercept": np.atleast_1d(found.intercept).tolist(),
        "score": np.atleast_1d(found.scores[0]).tolist(),
        "terms": rows,
    }


def reasoned(plain: Row, top: int) -> str:
    """An explained row for people: from the baseline to the score, a line per term."""
    parts = []
    for k, output in enumerate(plain["outputs"]):
        of = f"{output}: " if len(plain["outputs"]) > 1 else ""
        head = f"{of}{plain['scale']} {plain['score'][k]:.4g}, {plain['baseline']} {plain['intercept'][k]:.4g}"
        rows = [row for row in plain["terms"] if row.get("output", output) == output]
        parts.append(f"{printable(head)}\n\n{_first_terms(rows, top)}")
    return "\n\n".join(parts)


def _first_terms(rows: Sequence[Row], top: int) -> str:
    """Return the first terms, and the sum of all others; those that add nothing are only counted."""
    added = [row for row in rows if row["value"]]
    largest = max((abs(row["value"]) for row in added), default=1.0)
    decimals = max(3 - math.floor(math.log10(largest)), 0)
    shown = {row["term"]: row["value"] for row in added[:top]}
    if len(added) > top:
        shown[f"{len(added) - top:,} more terms"] = float(np.sum([row["value"] for row in added[top:]]))
    n_zero = len(rows) - len(added)
    idle = f"\n{n_zero:,} terms add nothing" if n_zero else ""
    return aligned([{"term": term, "value": f"{value:+.{decimals}f}"} for term, value in shown.items()]) + idle


# What monotonicity answers.


def plain_monotonicity(found: Sequence[Monotonicity], name: str) -> dict[str, Any]:
    """Directions of features, overall and at each level of other features, as plain data."""
    features = [
        {
            "feature": one.feature,
            "output": one.output,
            "direction": one.direction,
            "levels": records(one.table),
            "steps": records(one.steps),
        }
        for one in found
    ]
    return {"model": name, "features": features}


RAW = "raw"


def check_different(models: Sequence[Path]) -> None:
    """Raise ValueError for a file that is named twice."""
    twice = next((path for path, n_times in Counter(models).items() if n_times > 1), None)
    if twice is not None:
        raise ValueError(
            f"`MODELS` must be different files, got {twice} more than once; name it once to compare its densities."
        )


def default_densities(models: Sequence[ModelFile], request: Request) -> list[str | None]:
    """Densities to compare where none are given; None for that of each file, which is "auto" for a model."""
    has_rows = request.rows_of_density.data is not None
    if len(models) > 1:
        return [None if has_rows or all(model.saved is not None for model in models) else "uniform"]
    saved = models[0].saved
    if saved is None:
        return ["auto", RAW, "uniform", "empirical"] if has_rows else ["uniform", RAW]
    name = saved.density.name
    return [name, RAW] if name == "uniform" else [name, "uniform"]


def parts_of(
    models: Sequence[ModelFile], request: Request, densities: Sequence[str | None], progress: Progress
) -> dict[str, Decomposition]:
    """Decompositions by name: that of the density for one model, else that of the file, or both."""
    saved_names = {model.saved.density.name for model in models if model.saved is not None}
    for density in densities:
        check_density(density, RAW, *sorted(saved_names - set(KINDS)))
    kinds = list(dict.fromkeys(densities))
    parts: dict[str, Decomposition] = {}
    for model in models:
        shown = within(progress, model.name) if len(models) > 1 else progress
        under = _under_densities(model, request, kinds, shown)
        parts |= {_name_of_part(model, density, models, kinds): fx for density, fx in under.items()}
    if len(parts) < 2:
        more = "uniform" if RAW in kinds else RAW
        listed = ", ".join(parts)
        raise ValueError(f"compare must have two models or two densities, got {listed}; add --density {more}, for one.")
    return parts


def _under_densities(
    model: ModelFile, request: Request, kinds: Sequence[str | None], progress: Progress
) -> dict[str | None, Decomposition]:
    """One model under several densities, and raw."""
    first = next((density for density in kinds if density != RAW), None)
    fx = decomposed(model, request, first, progress)
    under: dict[str | None, Decomposition] = {}
    for density in kinds:
        if density == RAW:
            under[density] = fx.raw
        elif density in {first, None}:
            under[density] = fx
        elif model.saved is not None:
            under[density] = decomposed(model, request, density, progress)
        else:
            check_has_rows(request, density)
            under[density] = fx.with_density(density, progress=within(progress, f"density {density}"))
    return under


def _name_of_part(
    model: ModelFile, density: str | None, models: Sequence[ModelFile], kinds: Sequence[str | None]
) -> str:
    """The density, the file, or both: whatever distinguishes this part from the others."""
    if len(models) == 1:
        return density or "auto"
    is_unique = all(model.name != other.name for other in models if other is not model)
    file = model.name if is_unique else str(model.path)
    return file if len(kinds) == 1 else f"{file} {density}"


def rows_to_compare(models: Sequence[ModelFile], request: Request, schema: Schema) -> dict[str, Any]:
    """Rows at which terms are compared, where they are given and are not those of all models already."""
    is_density = request.density_from is None and all(model.saved is None for model in models)
    if request.data is None or is_density:
        return {}
    return {"X": request.table(schema), "sample_weight": request.weights()}
