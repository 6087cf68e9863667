"""write_card(): a model of tables on one printable page: terms as curves and tables, points, accuracy, edits."""

from __future__ import annotations

import math
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treeanova import views
from treeanova.core.arrays import checked_whole
from treeanova.core.files import PAGE, check_folder, check_suffix, write_text
from treeanova.core.progress import Progress, one_step, reporting
from treeanova.decomposition.answers import caveats, headline, ranking_of
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.predictions import function_of
from treeanova.export.artifact import fingerprint_of, form_of
from treeanova.export.scorecard import FactorTable, relativities, scorecard
from treeanova.report.accuracy import Accuracy, Difference, Entry, accuracy_of
from treeanova.report.static import (
    Markup,
    asset,
    decimals_of,
    element,
    numbers,
    section,
    signed,
    static_page,
    table_element,
)

_MOST_EDITS = 6
_FINGERPRINT = 16  # characters
_NOISE = 1e-12  # of a difference that is rounding, relative to the loss
_READING = {
    "logit": "A log-odds of s is a probability of 1 / (1 + exp(−s)).",
    "log": "The prediction is the exponential of this sum.",
    "softmax": "Probabilities are the softmax of the scores.",
}
_NAMES = {"AUC": "AUC (area under the ROC curve)", "accuracy": "Accuracy", "outcomes below": "Outcomes below"}


def write_card(
    fx: Any,
    path: str | os.PathLike[str],
    X: Any = None,
    y: Any = None,
    *,
    beside: Mapping[str, Any] | None = None,
    baselines: Sequence[Any] | None = None,
    points: FactorTable | None = None,
    title: str | None = None,
    max_terms: int = 10,
    loss: Any = None,
    group: Any = None,
    sample_weight: Any = None,
    progress: bool | Progress | None = None,
) -> pathlib.Path:
    """Write a model of tables as one self-contained HTML page, which prints on one sheet of A4 for about ten terms.

    Main effects are curves with tables of their steps, pairs are heat maps, the strongest first. The page also has the
    accuracy at the given rows beside other models, the edits, and how far they moved the scores.

    Parameters
    ----------
    fx
        A decomposition whose terms all have tables, or a fitted `AdditiveRegressor` or `AdditiveClassifier`.
    path
        The file to write, which ends in .html or .htm. An existing file is replaced only when the new one is complete.
    X, y
        Rows that the model was not trained on, at least 30, and their outcome, as for `Decomposition.validate`. Without
        them the page says nothing about accuracy.
    beside
        Models to judge at the same rows, by name: fitted models with `predict_proba` or `predict`, decompositions, or
        arrays of responses, which are probabilities for classes. The decomposition before its edits is always judged.
    baselines
        Rows of training, (X, y) or (X, y, sample_weight), to fit two baselines to, by scikit-learn: boosted trees of
        depth 2, whose sum has main effects and pairs only, as an EBM has; and a linear, logistic, Poisson or gamma
        regression on standardised numbers and a column per category, of a feature the 254 most frequent ones.
    points
        What stands beside the values of steps: a `scorecard` or `relativities` of this model; by default those with
        default arguments, for log-odds of two classes and for log links.
    title
        Heading of the page.
    max_terms
        Number of terms that are drawn; the page counts the others.
    loss, group, sample_weight
        As for `Decomposition.validate`.
    progress
        As for `decompose`.

    Returns
    -------
    pathlib.Path
        The path of the file.

    Raises
    ------
    ValueError
        If part of the score is in no table, if the model does not state its objective and `loss` is not given, or if
        no baseline minimises the loss.
    ImportError
        If matplotlib is not installed, or for baselines scikit-learn.

    Notes
    -----
    Steps of equal value share a row. Of a main effect with more than twelve different values, the table has the twelve
    steps of weighted means that are nearest to it, without points, and the page says so. Of several outputs, heat maps
    show the one in which the pair has the largest variance.

    Examples
    --------
    >>> import pathlib, tempfile, numpy as np, treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()  # the logical "and" of x0 and x1
    >>> rows = np.random.default_rng(0).integers(0, 2, size=(200, 2))
    >>> y = rows[:, 0] * rows[:, 1]
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> path = treeanova.write_card(fx, folder / "card.html", rows, y, beside={"mean": np.full(200, y.mean())})
    >>> "squared error" in path.read_text(encoding="utf-8")
    True
    """
    fx, target = _decomposition_in(fx), pathlib.Path(path)
    check_suffix(target, PAGE)
    check_folder(target, "card.html")
    checked_whole("max_terms", max_terms, 1, "10 is the default")
    form_of(fx)  # which refuses scores that are not in tables
    table = _points_of(fx, points)
    options = {"baselines": baselines, "loss": loss, "group": group, "sample_weight": sample_weight}
    _check_rows(X, y, options | {"beside": beside})
    from treeanova.report.term_articles import TermArticles  # noqa: PLC0415  needs matplotlib

    with reporting(progress) as report:
        accuracy = None
        if X is not None:
            with one_step(report, "accuracy"):
                accuracy = accuracy_of(fx, X, y, **options, beside=beside or {})
        terms = TermArticles(fx, table, max_terms)
        facing = [*_accuracy(accuracy), *_edits(fx, accuracy)]
        sections = [
            _numbers(fx, accuracy),
            *([element("div", *facing, class_="facing")] if facing else []),
            section("Terms", *terms.markup(report)),
            section("How to read, and what was checked", element("div", *_reading(fx, table), class_="columns")),
        ]
        outcome = y.name if isinstance(getattr(y, "name", None), str) else ""
        heading = title or f"Model card: {outcome or views.scale_of(fx.schema)}"
        page = static_page(heading, _facts(fx, outcome), _sentence(fx), sections, more_style=asset("card.css"))
        with one_step(report, f"writing {target.name}"):
            write_text(target, page)
    return target


# Arguments


def _decomposition_in(fx: Any) -> Decomposition:
    """Return a decomposition, or that of a fitted estimator."""
    inner = getattr(fx, "decomposition_", fx)
    if not isinstance(inner, Decomposition):
        raise TypeError(
            "`fx` must be a Decomposition, or a fitted AdditiveRegressor or AdditiveClassifier, got "
            f"{type(fx).__name__}; make one with treeanova.decompose(model, X), or call fit()."
        )
    return inner


def _points_of(fx: Decomposition, points: Any) -> FactorTable | None:
    """Return the points or factors of a model; None if its link has neither."""
    if points is None:
        is_single = len(fx.outputs) == 1
        if fx.schema.link == "logit" and is_single:
            return scorecard(fx)
        return relativities(fx) if fx.schema.link == "log" and is_single else None
    if not isinstance(points, FactorTable):
        raise TypeError(f"`points` must be a scorecard or relativities, got {type(points).__name__}; or leave it out.")
    if points.fingerprint != fingerprint_of(fx):
        raise ValueError(
            f"`points` must be of the same model as `fx`, got those of the fingerprint {points.fingerprint[:8]}; make "
            "them with treeanova.export.scorecard(fx)."
        )
    return points


def _check_rows(X: Any, y: Any, options: Mapping[str, Any]) -> None:
    """Raise an error unless rows come with their outcome, and what judges them with both."""
    beside = options["beside"]
    if beside is not None and not isinstance(beside, Mapping):
        raise TypeError(f"`beside` must be a mapping from names to models, got {type(beside).__name__}.")
    if (X is None) != (y is None):
        passed, lacking = ("y", "X") if X is None else ("X", "y")
        raise ValueError(f"`{lacking}` must come with `{passed}`, got None; pass held-out rows and their outcome.")
    idle = next((name for name, value in options.items() if value is not None), None)
    if X is None and idle is not None:
        raise ValueError(f"`{idle}` must come with `X` and `y`, got neither; pass held-out rows and their outcome.")


# What the model is


def _facts(fx: Decomposition, outcome: str) -> str:
    statistics = fx.statistics
    rows = "" if statistics is None else f" of {views.rows_words(statistics.n_rows)}"
    facts = [
        *([f"outcome {outcome}"] if outcome else []),
        f"link {fx.schema.link}",
        f"terms averaged under the density {fx.density.name}{rows}",
        f"fingerprint {fingerprint_of(fx)[:_FINGERPRINT]}",
    ]
    return " · ".join(facts)


def _sentence(fx: Decomposition) -> str:
    """Say how terms become predictions, and which are strong."""
    intercept = ", ".join(f"{number:.4g}".replace("-", "−") for number in np.atleast_1d(fx.intercept))
    outputs = f" of {', '.join(fx.outputs)}" if len(fx.outputs) > 1 else ""
    start = (
        f"The {views.scale_of(fx.schema)}{outputs} is {intercept} plus the value of each term in a row's step or cell."
    )
    strongest = headline(ranking_of(fx).standings_of(fx.outputs[0]), is_part=function_of(fx).scope.is_part)
    return " ".join(filter(None, [start, _READING.get(fx.schema.link), strongest]))


def _numbers(fx: Decomposition, accuracy: Accuracy | None) -> Markup:
    orders = [term.order for term in fx.terms.values()]
    sizes = [term.weights.size for term in fx.terms.values()]
    kinds = {"main effect": orders.count(1), "pair": orders.count(2), "larger term": sum(order > 2 for order in orders)}
    words = ", ".join(views.rows_words(count, kind) for kind, count in kinds.items() if count)
    n_steps = sum(size for size, order in zip(sizes, orders, strict=True) if order == 1)
    entries = [
        ("Terms", f"{len(orders):,}", words),
        ("Steps of main effects", f"{n_steps:,}", f"{sum(sizes):,} cells of all terms"),
    ]
    if accuracy is not None:
        first = accuracy.entries[0]
        where = f"{f'{first.output}, ' if first.output else ''}at {views.rows_words(accuracy.n_rows)}"
        entries.append((f"Mean {accuracy.loss}", f"{first.loss:.4g}".replace("-", "−"), where))
        if accuracy.measure:
            name = _NAMES.get(accuracy.measure, accuracy.measure)
            entries.append((name, f"{first.measure:.3f}".replace("-", "−"), where))
    return numbers(*entries)


def _reading(fx: Decomposition, points: FactorTable | None) -> list[Markup]:
    whole = "the sum of the terms" if function_of(fx).scope.is_part else "the score"
    effect = views.effect_words(fx.schema, baseline=fx.density.baseline)
    effect = f"contribution to {views.scale_of(fx.schema)}, before purification" if fx.certificate.is_raw else effect
    values = (
        f"A value is the {effect}, all other terms equal. Grey areas show how the rows of the density are spread; "
        f"hatched cells of heat maps have next to no rows. Variances are relative to that of {whole}."
    )
    words = [] if points is None else [_words_of_points(points, has_pairs=any(len(names) > 1 for names in fx.terms))]
    return [element("p", text) for text in (values, *words, f"Checked by computation: {'; '.join(caveats(fx))}.")]


def _words_of_points(points: FactorTable, *, has_pairs: bool) -> str:
    is_score = points.kind == "points"
    pairs = f" Those of pairs: treeanova.export.{'scorecard' if is_score else 'relativities'}." if has_pairs else ""
    if not is_score:
        return f"Factors multiply: the prediction is {points.base:.4g} times one factor of each term.{pairs}"
    rounding = f"; rounding moves the sum by at most {points.rounding:.2g}" if points.rounding else ""
    return f"Points add up to a score: {points.base:,g} and those of each term ({points.scale}{rounding}).{pairs}"


# Accuracy and edits


def _accuracy(accuracy: Accuracy | None) -> list[Markup]:
    """Return a section with the table of models; none without rows."""
    if accuracy is None:
        return []
    entries, measure = accuracy.entries, accuracy.measure
    has_outputs = any(entry.output for entry in entries)
    head = ["model", *(["outcome"] if has_outputs else []), accuracy.loss, "difference"]
    head += [measure, "difference"] if measure else []
    rows = [_row(entry, has_outputs=has_outputs, has_measure=bool(measure)) for entry in entries]
    words = (
        "A lower loss is better. Differences are to this model, with standard errors over rows, taken as independent. "
        "That the rows were held out is the word of who made the page: it was not checked."
    )
    notes = element("p", " ".join([words, *accuracy.notes]), class_="caption")
    table = element("div", table_element(head, rows, "accuracy"), class_="scroll")
    return [section(f"Accuracy at {views.rows_words(accuracy.n_rows)}", table, notes)]


def _row(entry: Entry, *, has_outputs: bool, has_measure: bool) -> list[str]:
    loss = f"{entry.loss:,.{decimals_of([entry.loss])}f}".replace("-", "−")
    row = [entry.model, *([entry.output] if has_outputs else []), loss]
    row.append(_difference_text(entry.loss_difference, entry.loss))
    if has_measure:
        row.append("–" if math.isnan(entry.measure) else f"{entry.measure:.3f}".replace("-", "−"))
        row.append(_difference_text(entry.measure_difference, 1.0))
    return row


def _difference_text(difference: Difference | None, size: float) -> str:
    """Write a difference and its standard error, of two digits; zero if both are rounding beside a size."""
    if difference is None:
        return "–"
    value, error = difference
    if max(abs(value), error) <= _NOISE * abs(size):
        return "0"
    decimals = min(max(1 - math.floor(math.log10(error)), 0), 9) if error > 0 else decimals_of([value])
    return f"{signed(value, decimals)} ± {error:,.{decimals}f}"


def _edits(fx: Decomposition, accuracy: Accuracy | None) -> list[Markup]:
    """Return a section with the history, and how far scores are from those before it; none without edits."""
    edits = fx.history
    if not edits:
        return []
    listed = [element("li", str(edit)) for edit in edits[:_MOST_EDITS]]
    if len(edits) > _MOST_EDITS:
        listed.append(element("li", f"{len(edits) - _MOST_EDITS:,} more edits, in the history of the model"))
    words: list[Markup] = []
    if accuracy is not None and accuracy.distance is not None:
        before, rms, largest, r_squared = accuracy.distance
        text = (
            f"At the {views.rows_words(accuracy.n_rows)}, the {views.scale_of(fx.schema)} differs from that {before} "
            f"by {rms:.3g} (root mean square), at most {largest:.3g}; R² to it: {r_squared:.3f}."
        )
        words.append(element("p", text, class_="caption"))
    return [section("What was changed", element("ol", *listed, class_="edits"), *words)]
