"""Reads files that are named on standard input, under limits of memory, and answers with a line of JSON for each.

``python -m tests.readers.damage_worker read KIND`` reads with treeanova; ``library`` asks the format's own library.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import pathlib
import pickle
import resource
import signal
import sys
import warnings

import numpy as np

import treeanova
from treeanova.model.effects import class_probabilities
from treeanova.model.forest import Forest
from treeanova.model.grid import grid_of
from treeanova.model.rows import Rows
from treeanova.readers import checks as versions

MEMORY = 2 << 30
SECONDS = 30
LIBRARY_SECONDS = 5
# What must be there to make and to compare models.
MODULES = {
    **{name: name for name in ("xgboost", "lightgbm", "catboost", "treelite", "ydf", "skops")},
    "onnx": "onnxruntime",
    "spark": "pyarrow",
    "pickle": "sklearn",
    "joblib": "sklearn",
}


def read(_kind: str, path: pathlib.Path) -> dict[str, object]:
    """How treeanova reads a file: scores at rows on and next to thresholds, or the error."""
    try:
        forest = treeanova.read_model(path, trusted=True)
    except Exception as error:  # noqa: BLE001  which class it is, is the question
        return {"error": type(error).__name__, "message": str(error)}
    rows = versions.probe_rows(forest)[:200]
    grid_of(forest).index(Rows(rows))
    return {"scores": scores_at(forest, rows).tolist(), "content": content_of(forest)}


def scores_at(forest: Forest, rows: np.ndarray) -> np.ndarray:
    """Scores, or probabilities of classes where a library gives these only."""
    scores = forest.score(Rows(rows))
    return class_probabilities(forest.schema, scores) if forest.schema.classes else scores


def content_of(forest: Forest) -> str:
    """All that predictions depend on, as text."""
    arrays = [getattr(forest, name) for name in ("feature", "bound", "left", "right", "missing_left", "values")]
    arrays += [forest.intercept, forest.category_start, forest.category_left]
    features = [(feature.name, str(feature.encoder.labels)) for feature in forest.schema.features]
    parts = [array.tobytes() for array in arrays] + [repr(features).encode(), forest.schema.link.encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def library(kind: str, path: pathlib.Path) -> dict[str, object]:
    """What the library itself gives for a file that treeanova reads."""
    forest = treeanova.read_model(path, trusted=True)
    rows = versions.probe_rows(forest)[:200]
    try:
        scores = np.asarray(LIBRARIES[kind](path, forest, rows), dtype=np.float64)
    except Exception as error:  # noqa: BLE001  libraries have errors of their own
        return {"error": type(error).__name__, "message": str(error)[:300]}
    return {"scores": scores.reshape(len(rows), -1).tolist()}


def _xgboost(path, _forest, rows):
    booster = importlib.import_module("xgboost").Booster(model_file=path)
    return booster.inplace_predict(rows, predict_type="margin", validate_features=False)


def _lightgbm(path, forest, rows):
    booster = importlib.import_module("lightgbm").Booster(model_file=path)
    return _respond(forest, importlib.import_module("treeanova.readers.lightgbm")._score_of(booster, forest, rows))


def _catboost(path, forest, rows):
    reader, library = importlib.import_module("treeanova.readers.catboost"), importlib.import_module("catboost")
    model = library.CatBoost()
    model.load_model(str(path), format="json" if path.suffix == ".json" else "cbm")
    return reader._score_of(library, model, forest, rows)


def _onnx(path, _forest, rows):
    session = importlib.import_module("onnxruntime").InferenceSession(path.read_bytes())
    entry = session.get_inputs()[0]
    return session.run(None, {entry.name: rows.astype(np.float64 if "double" in entry.type else np.float32)})[-1]


def _treelite(path, forest, rows):
    treelite = importlib.import_module("treelite")
    raw = versions.raw_rows(forest.schema, rows).astype(np.float32)
    return treelite.gtil.predict(treelite.Model.deserialize(path), raw, pred_margin=True)


def _ydf(path, forest, rows):
    raw = versions.raw_rows(forest.schema, rows)
    model = importlib.import_module("ydf").load_model(str(path))
    table = {}
    for j, feature in enumerate(forest.schema.features):
        column = raw[:, j]
        is_text = feature.is_category
        table[feature.name] = np.array([_text(value) for value in column]) if is_text else column.astype(float)
    return model.predict(table)


def _text(value):
    return value if isinstance(value, str) else ""


def _pickled(path, forest, rows):
    if path.suffix == ".skops":
        skops = importlib.import_module("skops.io")
        model = skops.load(path, trusted=skops.get_untrusted_types(file=path))
    elif path.suffix == ".joblib":
        model = importlib.import_module("joblib").load(path)
    else:
        model = pickle.loads(path.read_bytes())
    return versions._estimator_score(model, forest, rows)


def _respond(forest, scores):
    return class_probabilities(forest.schema, scores) if forest.schema.classes else scores


LIBRARIES = {
    **dict.fromkeys(["xgboost-json", "xgboost-ubj"], _xgboost),
    "lightgbm": _lightgbm,
    **dict.fromkeys(["catboost-json", "catboost-cbm"], _catboost),
    "onnx": _onnx,
    "treelite": _treelite,
    "ydf": _ydf,
    **dict.fromkeys(["pickle", "joblib", "skops"], _pickled),
}


def apart(kind: str, path: pathlib.Path) -> dict[str, object]:
    """What the library gives in a process of its own: libraries may crash, or never end."""
    importlib.import_module(MODULES.get(kind.partition("-")[0], "numpy"))
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.setitimer(signal.ITIMER_PROF, LIBRARY_SECONDS)  # of CPU time, not of a busy machine
        with os.fdopen(writing, "w") as pipe:
            json.dump(library(kind, path), pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"error": "died", "message": "the library died or was too slow"}


def main(role: str, kind: str) -> None:
    """Answer all questions."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # libraries print
    warnings.simplefilter("ignore")
    if role == "read":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, SECONDS if role == "read" else 0)  # of CPU; ends the process
        answer = (read if role == "read" else apart)(kind, pathlib.Path(json.loads(line)))
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
