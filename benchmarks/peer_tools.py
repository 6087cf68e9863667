"""Seconds of one package for one model: a script that prints a line of JSON before and after each call.

``python -m benchmarks.peer_tools MODEL.pkl LIMIT TOOL ...`` prepares each tool, then asks it for numbers of 150, 1,000
and 20,000 rows, each call within LIMIT seconds of CPU, preparing within five times as many; the operating system ends a
process that takes longer. A call that would take longer, by the two before, is not made: its seconds are on the line
through these and marked as scaled. Tools that are prepared in the same way are prepared once.
"""

from __future__ import annotations

import functools
import importlib
import json
import math
import pathlib
import pickle
import resource
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

SIZES = (150, 1_000, 20_000)
_BACKGROUND = 100
FACTOR_TO_PREPARE = 5.0  # of the limit of a call
_TIMED, _REPEATS = 0.3, 20  # short calls are repeated: so many seconds or times, and their mean counts


class Tool(NamedTuple):
    """How a tool is prepared with a model and the rows that it was trained on, and how it answers for other rows."""

    prepare: Callable[[Any, Any], Any]
    answer: Callable[[Any, Any], object]


def _load(name: str) -> Any:
    return importlib.import_module(name)


def _decomposed(model: Any, rows: Any) -> Any:
    return _load("treeanova").decompose(model, rows, n_jobs=1)


def _decomposed_to_pairs(model: Any, rows: Any) -> Any:
    return _load("treeanova").decompose(model, rows, max_order=2, n_jobs=1)


def _itself(model: Any, rows: Any) -> Any:
    del rows
    return model


def _library_values(model: Any, some: Any) -> object:
    if hasattr(model, "booster_"):
        return model.predict(some, pred_contrib=True)
    return model.get_booster().predict(_load("xgboost").DMatrix(some), pred_contribs=True)


def _library_pairs(model: Any, some: Any) -> object:
    return model.get_booster().predict(_load("xgboost").DMatrix(some), pred_interactions=True)


def _shap(model: Any, rows: Any) -> Any:
    del rows
    return _load("shap").TreeExplainer(model)


def _shap_with_background(model: Any, rows: Any) -> Any:
    return _load("shap").TreeExplainer(model, rows.sample(_BACKGROUND, random_state=0))


def _shapiq(model: Any, rows: Any) -> Any:
    del rows
    return _load("shapiq").TreeExplainer(model, max_order=2, index="k-SII")


def _woodelf(model: Any, rows: Any) -> Any:
    del rows
    return _load("woodelf").WoodelfExplainer(model, feature_perturbation="tree_path_dependent")


def _woodelf_pairs(explainer: Any, some: Any) -> object:
    return explainer.shap_interaction_values(some, include_interaction_with_itself=False, verbose=False)


def _treehfd(model: Any, rows: Any) -> Any:
    fitted = _load("treehfd").XGBTreeHFD(model)
    fitted.fit(rows.to_numpy(dtype=float), verbose=False)
    return fitted


TOOLS = {
    "treeanova terms": Tool(_decomposed, lambda fx, some: fx.explain(some)),
    "treeanova values": Tool(_decomposed, lambda fx, some: fx.explain(some).shap_values()),
    "treeanova pairs": Tool(_decomposed_to_pairs, lambda fx, some: fx.explain(some)),
    "library values": Tool(_itself, _library_values),
    "library pairs": Tool(_itself, _library_pairs),
    "shap values": Tool(_shap, lambda explainer, some: explainer.shap_values(some)),
    "shap pairs": Tool(_shap, lambda explainer, some: explainer.shap_interaction_values(some)),
    "shap background": Tool(_shap_with_background, lambda explainer, some: explainer.shap_values(some)),
    "woodelf values": Tool(_woodelf, lambda explainer, some: explainer.shap_values(some, verbose=False)),
    "woodelf pairs": Tool(_woodelf, _woodelf_pairs),
    "shapiq pairs": Tool(_shapiq, lambda one, some: [one.explain(row) for row in some.to_numpy(dtype=float)]),
    "treehfd pairs": Tool(_treehfd, lambda fitted, some: fitted.predict(some.to_numpy(dtype=float), verbose=False)),
}


# Calls


def _say(**words: Any) -> None:
    print(json.dumps(words), flush=True)


def _measured(tool: str, name: str, function: Callable[[], Any], limit: float) -> tuple[Any, float]:
    """What a function returns, and the CPU seconds of a call; a tool is prepared once."""
    _say(tool=tool, begin=name)
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used + limit), resource.RLIM_INFINITY))
    cpu, wall, n_calls = time.process_time(), time.perf_counter(), 0
    while not n_calls or (name != "prepare" and n_calls < _REPEATS and time.perf_counter() - wall < _TIMED):
        result = function()
        n_calls += 1
    seconds = (time.process_time() - cpu) / n_calls
    _say(tool=tool, call=name, cpu=seconds, wall=(time.perf_counter() - wall) / n_calls, scaled=False)
    return result, seconds


def _load_package(name: str) -> None:
    """Load a package, and what it loads when it is first used: that is not measured."""
    if name != "library":
        _load(name)
    if name == "treeanova":
        _load("treeanova._decompose")
        _load("treeanova.core.compiled").has_numba()


def extrapolated(calls: Mapping[int, float], n_rows: int) -> float:
    """Seconds for more rows along the line through the last two calls, by rows: many tools have a cost of their own."""
    (few, of_few), (many, of_many) = list(calls.items())[-2:]
    return of_many + max(of_many - of_few, 0.0) / (many - few) * (n_rows - many)


def _measure(name: str, prepared: Any, rows: Any, limit: float) -> None:
    """Print the numbers of one tool that is prepared."""
    calls: dict[int, float] = {}
    for n_rows in (n for n in SIZES if n <= len(rows)):
        if len(calls) > 1 and (seconds := extrapolated(calls, n_rows)) > limit:
            _say(tool=name, call=str(n_rows), cpu=seconds, wall=None, scaled=True)
            continue
        answer = functools.partial(TOOLS[name].answer, prepared, rows.iloc[:n_rows])
        calls[n_rows] = _measured(name, str(n_rows), answer, limit)[1]


def main(path: str, limit: str, *names: str) -> None:
    """Print the numbers of all calls; an error ends those of one tool."""
    warnings.simplefilter("ignore")
    model, rows = pickle.loads(pathlib.Path(path).read_bytes())  # noqa: S301  our own file
    prepare, prepared = None, None
    for name in names:
        try:
            _load_package(name.partition(" ")[0])
            if TOOLS[name].prepare is not prepare:
                prepare = TOOLS[name].prepare
                prepared, _ = _measured(
                    name, "prepare", functools.partial(prepare, model, rows), FACTOR_TO_PREPARE * float(limit)
                )
            _measure(name, prepared, rows, float(limit))
        except Exception as error:  # noqa: BLE001  whatever it is, it is a result
            _say(tool=name, error=f"{type(error).__name__}: {error}", absent=isinstance(error, ModuleNotFoundError))


if __name__ == "__main__":
    main(*sys.argv[1:])
