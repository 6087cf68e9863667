"""Cases in which tools for trees are known to answer wrongly, asked of all that are installed, each in its best mode.

``python -m benchmarks conformance`` trains models of depth 2, small enough to be read, and asks each mode of each tool
for numbers per row: one per feature, or a symmetric matrix of main effects and halves of pairs. It writes
docs/conformance.md. Tools that are not installed are named on the page.
"""

from __future__ import annotations

import copy
import functools
import importlib
import importlib.metadata
import importlib.util
import pathlib
import textwrap
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks import real_models
from benchmarks.timing import table_text
from treeanova.core.arrays import Floats

_PAGE = pathlib.Path(__file__).parents[1] / "docs" / "conformance.md"
_EXACT = 1e-5  # of what a number is relative to: XGBoost and shap compute in single precision
_N_ROWS, _N_ASKED = 600, 40
_BACKGROUND = 100
_FEATURES = ["f0", "f1", "f2"]  # treehfd reads numbers from names
_load = importlib.import_module


Table = tuple[list[str], list[list[str]]]
"""A head and lines of cells."""


class Situation(NamedTuple):
    """A model, the rows that it was trained on, the rows to ask about, and its own prediction of these."""

    model: Any
    rows: Any
    asked: Any
    score: Floats


class Mode(NamedTuple):
    """A tool, how it is asked, and its numbers: (n_rows, n_features) or (n_rows, n_features, n_features)."""

    tool: str
    words: str
    ask: Callable[[Situation], Floats]
    has_pairs: bool = False


# How tools are asked


def _is_xgboost(model: Any) -> bool:
    return type(model).__module__.startswith("xgboost")


def _matrix(asked: Any) -> Any:
    """The rows as XGBoost's own, with categories."""
    return _load("xgboost").DMatrix(asked, enable_categorical=True)


def _library_values(at: Situation) -> Floats:
    if not _is_xgboost(at.model):
        return np.asarray(at.model.predict(at.asked, pred_contrib=True))[:, :-1]
    return np.asarray(_xgboost(at, pred_contribs=True))[:, :-1]


def _library_pairs(at: Situation) -> Floats:
    if not _is_xgboost(at.model):
        raise NotImplementedError("LightGBM has no interactions of its own")
    return np.asarray(_xgboost(at, pred_interactions=True))[:, :-1, :-1]


def _xgboost(at: Situation, **options: bool) -> Any:
    """Numbers of XGBoost for the trees that its prediction takes."""
    trees = (0, at.model.best_iteration + 1) if at.model.early_stopping_rounds else (0, 0)
    return at.model.get_booster().predict(_matrix(at.asked), iteration_range=trees, **options)


def _shap(at: Situation, *, background: bool, pairs: bool) -> Floats:
    options = {"data": at.rows.iloc[:_BACKGROUND], "feature_perturbation": "interventional"} if background else {}
    explainer = _load("shap").TreeExplainer(at.model, **options)
    if not pairs:
        return np.asarray(explainer.shap_values(at.asked))
    by_xgboost = _is_xgboost(at.model) and not background
    return np.asarray(explainer.shap_interaction_values(_matrix(at.asked) if by_xgboost else at.asked))


def _woodelf(at: Situation, *, background: bool, pairs: bool) -> Floats:
    options = {"data": at.rows} if background else {"feature_perturbation": "tree_path_dependent"}
    explainer = _load("woodelf").WoodelfExplainer(at.model, **options)
    if not pairs:
        return np.asarray(explainer.shap_values(at.asked, verbose=False))
    return np.asarray(explainer.shap_interaction_values(at.asked, include_interaction_with_itself=True, verbose=False))


def _shapiq(at: Situation) -> Floats:
    explainer = _load("shapiq").TreeExplainer(at.model, max_order=2, index="k-SII")
    answers = [explainer.explain(row).dict_values for row in at.asked.to_numpy(dtype=float)]
    return np.stack([_symmetric(answer, at.asked.shape[1]) for answer in answers])


def _symmetric(terms: Mapping[tuple[int, ...], float], n_features: int) -> Floats:
    """Main effects on the diagonal, each pair half above and half below it."""
    matrix = np.zeros((n_features, n_features))
    for key, value in terms.items():
        if key:
            matrix[key[0], key[-1]] += value / 2
            matrix[key[-1], key[0]] += value / 2
    return matrix


def _treehfd(at: Situation) -> Floats:
    fitted = _load("treehfd").XGBTreeHFD(at.model)
    fitted.fit(at.rows.to_numpy(dtype=float), verbose=False)
    mains, pairs = fitted.predict(at.asked.to_numpy(dtype=float), verbose=False)[:2]
    keys = [(j,) for j in range(mains.shape[1])] + [tuple(map(int, key)) for key in fitted.interaction_list]
    terms = np.concatenate([mains, pairs], axis=1)
    return np.stack([_symmetric(dict(zip(keys, row, strict=True)), mains.shape[1]) for row in terms.tolist()])


def _treeanova(at: Situation, *, density: str, pairs: bool) -> Floats:
    explained = _load("treeanova").decompose(at.model, at.rows, density=density, n_jobs=1).explain(at.asked)
    if not pairs:
        return np.asarray(explained.shap_values())
    position = {name: j for j, name in enumerate(at.asked.columns)}
    keys = [tuple(position[name] for name in names) for names in explained.terms]
    rows = np.asarray(explained.values).tolist()
    return np.stack([_symmetric(dict(zip(keys, row, strict=True)), len(position)) for row in rows])


_part = functools.partial
MODES = (
    Mode("treeanova", "`fx.explain(X)`", _part(_treeanova, density="empirical", pairs=True), has_pairs=True),
    Mode("treeanova", "`.shap_values()`", _part(_treeanova, density="empirical", pairs=False)),
    Mode("library", "`pred_contribs`, `pred_contrib`", _library_values),
    Mode("library", "`pred_interactions`", _library_pairs, has_pairs=True),
    Mode("shap", "paths, values", _part(_shap, background=False, pairs=False)),
    Mode("shap", "paths, interactions", _part(_shap, background=False, pairs=True), has_pairs=True),
    Mode("shap", "background rows, values", _part(_shap, background=True, pairs=False)),
    Mode("shap", "background rows, interactions", _part(_shap, background=True, pairs=True), has_pairs=True),
    Mode("shapiq", "paths, k-SII of order 2", _shapiq, has_pairs=True),
    Mode("woodelf", "paths, values", _part(_woodelf, background=False, pairs=False)),
    Mode("woodelf", "paths, interactions", _part(_woodelf, background=False, pairs=True), has_pairs=True),
    Mode("woodelf", "background rows, values", _part(_woodelf, background=True, pairs=False)),
    Mode("woodelf", "background rows, interactions", _part(_woodelf, background=True, pairs=True), has_pairs=True),
    Mode("treehfd", "terms", _treehfd, has_pairs=True),
)
_DISTRIBUTIONS = (
    *("treeanova", "xgboost", "xgboost-cpu", "lightgbm", "shap", "shapiq", "woodelf_explainer", "treehfd"),
    "interpret-core",
)


# Do the numbers add up to the prediction?


def _rows(seed: int) -> tuple[Any, Floats]:
    """Three numbers, the last from 0 to 6, and an outcome that depends on its whole part."""
    rng = np.random.default_rng(seed)
    rows = _load("pandas").DataFrame(rng.normal(size=(_N_ROWS, 3)), columns=_FEATURES)
    rows["f2"] = rng.uniform(0, 6, _N_ROWS)
    by_category = np.array([1.0, -2.0, 0.5, 2.0, -1.0, 0.0])[rows["f2"].astype(int)]
    noise = 0.3 * rng.normal(size=_N_ROWS)
    return rows, np.asarray(rows["f0"] * rows["f1"] + by_category * (1 + rows["f0"]) + noise)


def _model(library: str, **options: Any) -> Any:
    if library == "XGBoost":
        return _load("xgboost").XGBRegressor(
            **{"n_estimators": 30, "max_depth": 2, "n_jobs": 1, "max_cat_to_onehot": 2, **options}
        )
    own = {"n_estimators": 30, "num_leaves": 4, "n_jobs": 1, "verbose": -1, "min_data_per_group": 2, "cat_smooth": 1}
    return _load("lightgbm").LGBMRegressor(**{**own, **options})


def _situation(model: Any, rows: Any, asked: Any) -> Situation:
    return Situation(model, rows, asked, np.asarray(model.predict(asked), dtype=np.float64))


def _stopped_early(library: str) -> Situation:
    rows, outcome = _rows(0)
    other, other_outcome = _rows(1)
    options: dict[str, Any] = {"n_estimators": 400, "learning_rate": 0.3}
    if library == "XGBoost":
        model = _model(library, early_stopping_rounds=10, **options)
        model.fit(rows, outcome, eval_set=[(other, other_outcome)], verbose=False)
    else:
        stopping = _load("lightgbm").early_stopping(10, verbose=False)
        model = _model(library, **options).fit(rows, outcome, eval_set=[(other, other_outcome)], callbacks=[stopping])
    return _situation(model, rows, other.iloc[:_N_ASKED])


def _with_whole_numbers(library: str) -> Situation:
    """Values of rows are equal to thresholds of XGBoost, which sends these to the right; LightGBM's lie between."""
    rows, outcome = _rows(0)
    rows["f2"] = rows["f2"].astype(int).astype(float)
    return _situation(_model(library).fit(rows, outcome), rows, rows.iloc[:_N_ASKED])


def _with_missing_values(library: str) -> Situation:
    rows, outcome = _rows(0)
    rows = rows.mask(np.random.default_rng(2).random(rows.shape) < 0.3)
    return _situation(_model(library).fit(rows, outcome), rows, rows.iloc[:_N_ASKED])


def _with_categories(library: str, *, unseen: bool) -> Situation:
    """A category column of six labels; half of the rows that are asked about may have a seventh."""
    rows, outcome = _rows(0)
    labels = _load("pandas").CategoricalDtype(range(7))
    rows["f2"] = rows["f2"].astype(int).astype(labels)
    model = _model(library, **({"enable_categorical": True} if library == "XGBoost" else {})).fit(rows, outcome)
    asked = rows.iloc[:_N_ASKED].copy()
    if unseen:
        asked.loc[asked.index[::2], "f2"] = 6
    return _situation(model, rows, asked)


_MAKERS: dict[str, Callable[[str], Situation]] = {
    "stopped early": _stopped_early,
    "whole numbers": _with_whole_numbers,
    "missing values": _with_missing_values,
    "categories": functools.partial(_with_categories, unseen=False),
    "unseen category": functools.partial(_with_categories, unseen=True),
}
SITUATIONS: dict[tuple[str, str], Callable[[], Situation]] = {
    (library, words): functools.partial(make, library)
    for words, make in _MAKERS.items()
    for library in ("XGBoost", "LightGBM")
}


def gap_of_sums(numbers: Floats, score: Floats) -> float:
    """Half the range over rows of the sums less the score, in standard deviations of the score: any base is allowed."""
    gaps = numbers.reshape(len(score), -1).sum(axis=1) - score
    return float(np.ptp(gaps) / 2 / score.std())


def _cell(measure: Callable[[], float], *, right: str = "exact", wrong: str = "off by") -> str:
    """A number in words: right within rounding, or off; a refusal is an answer too."""
    try:
        found = measure()
    except Exception:  # noqa: BLE001  whatever it is, the tool refuses
        return "refuses"
    return right if found < _EXACT else f"{wrong} {found:.2g}"


def sums_table(library: str) -> Table:
    """The sums of each mode of a tool in each situation."""
    made = {words: make() for (own, words), make in SITUATIONS.items() if own == library}
    lines = []
    for mode in installed_modes():
        cells = [_cell(lambda: gap_of_sums(mode.ask(at), at.score)) for at in made.values()]  # noqa: B023
        if set(cells) != {"refuses"}:
            lines.append([mode.tool, mode.words, *cells])
    return ["tool", "asked for", *made], lines


def installed_modes() -> list[Mode]:
    """Modes of the tools that are there."""
    names = {"library": "xgboost"}
    is_there = {mode.tool: importlib.util.find_spec(names.get(mode.tool, mode.tool)) is not None for mode in MODES}
    return [mode for mode in MODES if is_there[mode.tool]]


# One function, three models


def same_function() -> list[Situation]:
    """Three models of "f0 and f1": a tree that splits f0 first, one that splits f1 first, and a stump and a tree."""
    pandas, weights = _load("pandas"), np.array([6, 1, 1, 4])
    cells = pandas.DataFrame([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], columns=_FEATURES[:2])
    return [
        _of_cells(cells, weights, depths, swap=swap) for depths, swap in (((2,), False), ((2,), True), ((1, 2), False))
    ]


def _of_cells(cells: Any, weights: Any, depths: Sequence[int], *, swap: bool) -> Situation:
    """Trees of given depths that fit "f0 and f1" exactly; of two equal gains XGBoost takes the first column."""
    columns = list(cells.columns)
    numbers = np.repeat(np.arange(4), weights)
    asked = cells[columns[::-1]].set_axis(columns, axis=1) if swap else cells
    rows, outcome = asked.iloc[numbers].reset_index(drop=True), (numbers == 3).astype(float)
    exact = {
        "learning_rate": 1.0,
        "reg_lambda": 0.0,
        "min_child_weight": 0.0,
        "tree_method": "exact",
        "base_score": 0.0,
    }
    model = None
    for depth in depths:
        model = _model("XGBoost", n_estimators=1, max_depth=depth, **exact).fit(rows, outcome, xgb_model=model)
    return _situation(model, rows, asked)


def difference(answers: Sequence[Floats]) -> float:
    """Largest difference between the numbers of several models."""
    return float(max(np.abs(answer - answers[0]).max() for answer in answers))


def same_function_table() -> Table:
    """The numbers of each mode for three equal models."""
    models = same_function()
    lines = [[mode.tool, mode.words, *_of_equal_models(mode, models)] for mode in installed_modes()]
    return ["tool", "asked for", "at (1, 1), of the three models", "numbers of all rows"], lines


def _of_equal_models(mode: Mode, models: Sequence[Situation]) -> list[str]:
    """The numbers at row (1, 1) of three models, the second of which has its columns swapped, and their difference."""
    try:
        answers = [mode.ask(at) for at in models]
    except Exception:  # noqa: BLE001  as above
        return ["refuses", ""]
    answers[1] = answers[1][:, ::-1, ::-1] if mode.has_pairs else answers[1][:, ::-1]
    at_one = [2 * answer[3, 0, 1] if mode.has_pairs else answer[3, 0] for answer in answers]
    shown = ", ".join(f"{number:.3f}" for number in at_one)
    return [
        f"{'f0 × f1' if mode.has_pairs else 'f0'}: {shown}",
        _cell(lambda: difference(answers), right="the same", wrong="differ by"),
    ]


# Equal EBMs, tables and maps


def equal_ebms() -> tuple[list[Any], Any]:
    """Two EBMs with the same predictions, and their rows; in the second, a part of the pair is in a main effect."""
    rows, outcome = _rows(0)
    ebm = _load("interpret.glassbox").ExplainableBoostingRegressor(
        interactions=[(0, 1)], outer_bags=1, max_bins=16, max_interaction_bins=16, n_jobs=1, random_state=0
    )
    first = ebm.fit(rows[_FEATURES[:2]], outcome)
    second = copy.deepcopy(first)
    place = second.term_features_.index((0, 1))
    moved = np.linspace(-1.0, 1.0, len(second.term_scores_[0]))
    second.term_scores_[0] = second.term_scores_[0] + moved
    second.term_scores_[place] = second.term_scores_[place] - moved[:, None]
    return [first, second], rows[_FEATURES[:2]]


def ebms_table() -> Table:
    """Differences between the predictions of two equal EBMs, and between their terms."""
    ebms, rows = equal_ebms()
    some, decompose = rows.iloc[:_N_ASKED], _load("treeanova").decompose
    answers = {
        ("interpret", "`predict`"): [ebm.predict(some) for ebm in ebms],
        ("interpret", "terms, `eval_terms`"): [ebm.eval_terms(some) for ebm in ebms],
        ("treeanova", "`fx.explain(X)`"): [decompose(ebm, rows).explain(some).values for ebm in ebms],
    }
    lines = []
    for names, found in answers.items():
        lines.append([*names, _cell(lambda: difference(found), right="the same", wrong="differ by")])  # noqa: B023
    return ["tool", "asked for", "of the two models"], lines


Mains = tuple[Floats, Floats]
_TABLE = np.array([[1.0, 0.0], [0.0, 0.0]])


def _purified(scores: Floats, weights: Floats) -> Mains:
    terms = _load("treeanova").purify(scores, weights).terms
    return np.asarray(terms[0,]), np.asarray(terms[1,])


def _by_interpret(scores: Floats, weights: Floats, **options: bool) -> Mains:
    impurities = dict(_load("interpret.utils").purify(scores, weights, **options)[1])
    return impurities[0,], impurities[1,]


PURIFIERS: dict[tuple[str, str], Callable[[Floats, Floats], Mains]] = {
    ("treeanova", "`purify`"): _purified,
    ("interpret", "`purify`"): _by_interpret,
    ("interpret", "`purify(is_randomized=False)`"): functools.partial(_by_interpret, is_randomized=False),
}


def tables_table() -> Table:
    """Errors of the main effects of a table, whose truth is 1/4 and -1/4 for every e, and what transposing changes."""
    truth, lines = np.array([0.25, -0.25]), []
    for names, purified in PURIFIERS.items():
        cells = []
        for e in (0.1, 0.001):
            mains = purified(_TABLE, np.array([[1.0, e], [e, 1.0]]))
            cells.append(_cell(lambda: difference([truth, *mains])))  # noqa: B023
        across, down = purified(_TABLE, np.eye(2)), purified(_TABLE.T, np.eye(2))[::-1]
        change = max(difference([one, other]) for one, other in zip(across, down, strict=True))
        lines.append([*names, *cells, _cell(lambda: change, right="the same", wrong="differ by")])  # noqa: B023
    return ["tool", "asked for", "e = 0.1", "e = 0.001", "e = 0, table and transposed table"], lines


_LATITUDE, _LONGITUDE = 6, 7


def map_of_california() -> Situation:
    """A boosted model of house prices, with 500 of its rows."""
    rows, target = real_models.california()
    rows = rows.set_axis([f"f{j}" for j in range(rows.shape[1])], axis=1)
    model = _model("XGBoost", n_estimators=100).fit(rows, target)
    some = rows.sample(500, random_state=0)
    return _situation(model, some, some)


def share_of_main_effects(pair: Floats, at: Situation, features: Sequence[int]) -> float:
    """Share of the variance of a pair at the rows that functions of its features, constant in bins, explain."""
    splits = at.model.get_booster().trees_to_dataframe()
    columns = [np.ones((len(pair), 1))]
    for j in features:
        cuts = np.unique(splits.loc[splits["Feature"] == f"f{j}", "Split"].to_numpy(dtype=np.float32))
        bins = np.searchsorted(cuts, at.rows[f"f{j}"].to_numpy(dtype=np.float32), side="right")
        columns.append(np.eye(len(cuts) + 1)[bins])
    design = np.concatenate(columns, axis=1)
    fitted = design @ np.linalg.lstsq(design, pair, rcond=None)[0]
    return float(np.var(fitted) / np.var(pair))


def california_table() -> Table:
    """The pair of latitude and longitude by each mode that gives pairs."""
    at = map_of_california()
    lines = [[mode.tool, mode.words, *_of_map(mode, at)] for mode in installed_modes() if mode.has_pairs]
    return ["tool", "asked for", "variance of the pair", "of which main effects explain"], lines


def _of_map(mode: Mode, at: Situation) -> list[str]:
    """The pair's variance relative to that of the score, and the share of it that main effects explain."""
    try:
        pair = 2 * mode.ask(at)[:, _LATITUDE, _LONGITUDE]
    except Exception:  # noqa: BLE001  as above
        return ["refuses", ""]
    if not np.ptp(pair):
        return ["0 %", "all zeros"]
    share = share_of_main_effects(pair, at, (_LATITUDE, _LONGITUDE))
    return [f"{np.var(pair) / np.var(at.score):.1%}".replace("%", " %"), f"{share:.1%}".replace("%", " %")]


# The page

_HOW = """Each tool is asked in each of its modes. In modes called "paths", a tool uses the numbers of training rows
that the trees store for each of their paths; in modes called "background rows", it uses rows that it is given. "k-SII"
are the Shapley interactions of shapiq that add up to the prediction. "exact" and "the same" mean within 1e-5, as some
tools compute in single precision. "refuses" means that the tool raises an error. That is a correct answer: a wrong
number is worse. The models are small and their trees have depth 2, so there are only main effects and pairs. The cases
are here because tools are known to fail in them; times and other cases are in [other tools](peers.md),
[accuracy](accuracy.md) and [known truth](known-truth.md)."""
_SUMS = """The numbers of all features, or of all main effects and pairs, must add up to the model's own prediction, up
to a constant. The number after "off by" is half the range of the difference over {n} rows, in standard deviations of
the prediction. In "stopped early" the model keeps trees after its best iteration, which its prediction leaves out. In
"whole numbers" some values of the features are equal to thresholds of the trees. "unseen category" is a label that no
training row has. treehfd promises only an approximation; what it leaves over counts as an error here. Modes that refuse
every model of a library are left out. The first table is for XGBoost, the second for LightGBM."""
_SAME = """The function "1 if f0 and f1, else 0" is written as three XGBoost models: a tree that splits f0 first, a tree
that splits f1 first, and a stump followed by a tree. Their predictions are equal, and so are the training rows: 6, 1, 1
and 4 copies of the four combinations. Numbers that describe the function are the same for all three. "differ by" is the
largest difference from the numbers of the first model."""
_EBMS = """Two EBMs (the additive models of interpret) have equal predictions. In the second, a function of f0 is in the
main effect of f0 instead of in the pair. "differ by" is the largest difference between their numbers."""
_TABLES = """The table [[1, 0], [0, 0]] with weights [[1, e], [e, 1]]: the pure main effects are 1/4 and -1/4 for both
axes, whatever e is above 0. With e = 0 the weights are block-diagonal and the main effects are not unique. A
convention that treats both axes alike gives the same answer for the transposed table."""
_MAP = """The model is XGBoost with 100 trees of depth 2 for house prices in California, and each tool is asked at 500
rows. The variance of the pair is relative to that of the prediction at these rows. The last column is the share of the
pair's variance that a function of latitude plus a function of longitude, both constant within the bins of the model,
explains at the same rows. It is 0 for a pure interaction. SHAP interactions do not promise purity: the column says how
much of what they show is not interaction."""


def page(sections: Mapping[str, tuple[str, Sequence[Table]]]) -> str:
    """The text of the page: titles, words and tables."""
    absent = sorted({mode.tool for mode in MODES} - {mode.tool for mode in installed_modes()})
    head = f"Written by `python -m benchmarks conformance`: {', '.join(versions())}."
    texts = [
        "# Hard cases: what tools answer",
        _filled(head + (f" Not installed: {', '.join(absent)}." if absent else "")),
    ]
    texts.append(_filled(_HOW))
    for title, (words, tables) in sections.items():
        texts += [f"## {title}", _filled(words), *(table_text(*table).strip() for table in tables)]
    return "\n\n".join(texts) + "\n"


def _filled(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 120, break_on_hyphens=False)


def versions() -> list[str]:
    """Names and versions of the packages that are there."""
    found = []
    for name in _DISTRIBUTIONS:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def run(*, full: bool) -> None:
    """Ask all tools and write the page."""
    del full  # there is one size
    warnings.simplefilter("ignore")
    sums = [sums_table(library) for library in ("XGBoost", "LightGBM")]
    sections = {
        "Do the numbers add up to the prediction?": (_SUMS.format(n=_N_ASKED), sums),
        "One function, three models": (_SAME, [same_function_table()]),
        "One function, two EBMs": (_EBMS, [ebms_table()]),
        "One table, two axes": (_TABLES, [tables_table()]),
        "Latitude and longitude": (_MAP, [california_table()]),
    }
    text = page(sections)
    print(text)
    _PAGE.write_text(text, encoding="utf-8")
