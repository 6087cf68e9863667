"""Ways to damage the files of models, and models to damage: small ones of every format that is read."""

from __future__ import annotations

import json
import pathlib
import pickle
import re
import shutil
import zipfile

import numpy as np

from tests.support.training import fit, shifted, train

MODELS = pathlib.Path(__file__).parent / "models"
SUFFIXES = {
    "xgboost-json": ".json",
    "xgboost-ubj": ".ubj",
    "lightgbm": ".txt",
    "catboost-json": ".json",
    "catboost-cbm": ".cbm",
    "onnx": ".onnx",
    "treelite": ".tl",
    "pmml": ".pmml",
    "spark": "",
    "ydf": "",
    "pickle": ".pkl",
    "joblib": ".joblib",
    "skops": ".skops",
}
NUMBERS = ["-1", "0", "1", "2", "1e400", "-1e400", "NaN", "0.5", "true", "1_000", "null", '""', "[]", "2147483648"]
NUMBERS += ["1000000000", "9" * 25, "-0.0", "1e-320"]
_NUMBER = re.compile(rb"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORDS = [b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\1\0\0\0", b"\0\0\xc0\x7f", b"\xff" * 8]


# Models to damage


def seeds(kind: str, folder: pathlib.Path) -> list[pathlib.Path]:
    """Files, or folders, of sound models."""
    folder.mkdir(parents=True, exist_ok=True)
    made: list[pathlib.Path] = _MAKERS[kind](kind, folder)
    return made


def _rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = np.round(rng.normal(size=(300, 4)), 1)
    X[:, 3] = rng.integers(0, 5, 300)
    return X, X[:, 0] * X[:, 1] + (X[:, 3] == 2) + np.abs(X[:, 2])


def _xgboost(kind: str, folder: pathlib.Path) -> list[pathlib.Path]:
    import xgboost as xgb

    X, y = _rows()
    types = ["q", "q", "q", "c"]
    plain = {"max_depth": 3, "seed": 0}
    three = {**plain, "objective": "multi:softprob", "num_class": 3}
    boosters = [
        train(xgb, plain, xgb.DMatrix(shifted(X), shifted(y), feature_types=types, enable_categorical=True), 3),
        train(xgb, three, xgb.DMatrix(shifted(X), shifted(np.digitize(y, [0.3, 1.0]))), 2),
        train(xgb, {**plain, "booster": "dart", "rate_drop": 0.5}, xgb.DMatrix(shifted(X), shifted(y)), 3),
    ]
    return [_saved(booster.save_model, folder / f"{i}{SUFFIXES[kind]}") for i, booster in enumerate(boosters)]


def _lightgbm(kind: str, folder: pathlib.Path) -> list[pathlib.Path]:
    import lightgbm as lgb
    import pandas as pd

    X, y = _rows()
    plain = {"verbosity": -1, "num_leaves": 6, "min_data_in_leaf": 5, "num_threads": 1, "cat_smooth": 1}
    table = pd.DataFrame(X[:, :3], columns=list("abc")).assign(d=pd.Categorical(10 * X[:, 3].astype(int)))
    boosters = [
        train(lgb, {**plain, "min_data_per_group": 1}, lgb.Dataset(shifted(table), shifted(y)), 3),
        train(
            lgb, {**plain, "objective": "binary"}, lgb.Dataset(shifted(X), shifted(y > 1), categorical_feature=[3]), 3
        ),
        train(
            lgb,
            {**plain, "objective": "multiclass", "num_class": 3},
            lgb.Dataset(shifted(X), shifted(np.digitize(y, [0.3, 1]))),
            2,
        ),
    ]
    return [_saved(booster.save_model, folder / f"{i}{SUFFIXES[kind]}") for i, booster in enumerate(boosters)]


def _catboost(kind: str, folder: pathlib.Path) -> list[pathlib.Path]:
    import catboost
    import pandas as pd

    X, y = _rows()
    table = pd.DataFrame(X[:, :3], columns=list("abc")).assign(d=[f"k{int(k)}" for k in X[:, 3]])
    table.loc[::9, "a"] = np.nan
    plain = {"verbose": False, "iterations": 3, "depth": 3, "allow_writing_files": False, "thread_count": 1}
    pool = catboost.Pool(table, y, cat_features=["d"])
    models = [
        fit(catboost.CatBoostRegressor(**plain, one_hot_max_size=8), pool),
        fit(catboost.CatBoostRegressor(**plain, one_hot_max_size=1, max_ctr_complexity=1), pool),
        fit(catboost.CatBoostRegressor(**plain, grow_policy="Lossguide"), table[["a", "b", "c"]], y),
    ]
    paths = [folder / f"{i}{SUFFIXES[kind]}" for i in range(len(models))]
    for model, path in zip(models, paths, strict=True):
        model.save_model(str(path), format=path.suffix[1:], **({"pool": pool} if path.suffix == ".json" else {}))
    return paths


def _onnx(_kind: str, folder: pathlib.Path) -> list[pathlib.Path]:
    import onnx

    from tests.readers import test_onnx

    rng = np.random.default_rng(1)
    models = [
        test_onnx.regressor(rng, tracks=True),
        test_onnx.regressor(rng, modes=test_onnx.MODES),
        test_onnx.newer(rng),
    ]
    return [_saved(lambda path, m=model: onnx.save(m, path), folder / f"{i}.onnx") for i, model in enumerate(models)]


def _treelite(_kind: str, folder: pathlib.Path) -> list[pathlib.Path]:
    from tests.readers import test_treelite

    rng = np.random.default_rng(1)
    models = [test_treelite.built(rng), test_treelite.built(rng, categories=True)]
    return [_saved(model.serialize, folder / f"{i}.tl") for i, model in enumerate(models)]


def _pmml(_kind: str, folder: pathlib.Path) -> list[pathlib.Path]:
    names = ["none-0.pmml", "defaultChild-1.pmml", "sum.pmml", "classes.pmml", "votes.pmml"]
    with zipfile.ZipFile(MODELS / "pmml.zip") as archive:
        archive.extractall(folder, names)
    return [folder / name for name in names]


def _spark(_kind: str, folder: pathlib.Path) -> list[pathlib.Path]:
    with zipfile.ZipFile(MODELS / "spark-4.3.0.zip") as archive:
        archive.extractall(folder)
    return [folder / name for name in ("bare", "boosted", "classes", "positions", "two")]


def _ydf(_kind: str, folder: pathlib.Path) -> list[pathlib.Path]:
    import pandas as pd
    import ydf

    X, y = _rows()
    table = pd.DataFrame(X[:, :3], columns=list("abc")).assign(d=[f"k{int(k)}" for k in X[:, 3]], y=y)
    options = {"label": "y", "task": ydf.Task.REGRESSION, "num_trees": 3, "max_depth": 3, "num_threads": 1}
    ydf.verbose(0)
    learners = [ydf.GradientBoostedTreesLearner, ydf.RandomForestLearner]
    models = [fit(learner(**options), table) for learner in learners]
    return [_saved(model.save, folder / f"{i}") for i, model in enumerate(models)]


def _sklearn(kind: str, folder: pathlib.Path) -> list[pathlib.Path]:
    import joblib
    from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

    X, y = _rows()
    models = [
        fit(RandomForestRegressor(3, max_depth=3, random_state=0), X, y),
        fit(HistGradientBoostingRegressor(max_iter=3, max_leaf_nodes=6), X, y),
    ]
    paths = [folder / f"{i}{SUFFIXES[kind]}" for i in range(len(models))]
    for model, path in zip(models, paths, strict=True):
        if kind == "pickle":
            path.write_bytes(pickle.dumps(model))
        elif kind == "joblib":
            joblib.dump(model, path)
        else:
            import skops.io

            skops.io.dump(model, path)
    return paths


def _saved(save, path: pathlib.Path) -> pathlib.Path:
    save(str(path))
    return path


_MAKERS = {
    **dict.fromkeys(["xgboost-json", "xgboost-ubj"], _xgboost),
    "lightgbm": _lightgbm,
    **dict.fromkeys(["catboost-json", "catboost-cbm"], _catboost),
    "onnx": _onnx,
    "treelite": _treelite,
    "pmml": _pmml,
    "spark": _spark,
    "ydf": _ydf,
    **dict.fromkeys(["pickle", "joblib", "skops"], _sklearn),
}


# Damage


def damage(kind: str, seed: pathlib.Path, target: pathlib.Path, rng: np.random.Generator) -> str:
    """Write a damaged copy of a seed, and tell what was done."""
    if seed.is_dir():
        shutil.copytree(seed, target)
        files = sorted(path for path in target.rglob("*") if path.is_file() and path.stat().st_size)
        path = files[rng.integers(len(files))]
        if path.suffix == ".parquet" and rng.random() < 0.7:
            return f"{path.name}: {_change_table(path, rng)}"
        what, data = _changed(path.read_bytes(), "json" if path.suffix == ".txt" else "bytes", rng)
        path.write_bytes(data)
        return f"{path.name}: {what}"
    formats = {".json": "json", ".txt": "lines", ".pmml": "xml"}
    what, data = _changed(seed.read_bytes(), formats.get(target.suffix, "bytes"), rng)
    target.write_bytes(data)
    return what


def _changed(data: bytes, form: str, rng: np.random.Generator) -> tuple[str, bytes]:
    ways = [_cut, _flip, _byte, _remove, _double, _word]
    ways += {
        "json": [_number, _number, _json, _json, _json],
        "lines": [_number, _number, _line, _line],
        "bytes": [],
    }.get(form, [_number, _number, _line, _attribute])
    way = ways[rng.integers(len(ways))]
    return way.__name__.strip("_"), way(data, rng)


def _cut(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: rng.integers(len(data))]


def _flip(data: bytes, rng: np.random.Generator) -> bytes:
    at = int(rng.integers(len(data)))
    return data[:at] + bytes([data[at] ^ (1 << int(rng.integers(8)))]) + data[at + 1 :]


def _byte(data: bytes, rng: np.random.Generator) -> bytes:
    at = int(rng.integers(len(data)))
    return data[:at] + bytes([int(rng.integers(256))]) + data[at + 1 :]


def _remove(data: bytes, rng: np.random.Generator) -> bytes:
    at, size = int(rng.integers(len(data))), int(rng.integers(1, 40))
    return data[:at] + data[at + size :]


def _double(data: bytes, rng: np.random.Generator) -> bytes:
    at, size = int(rng.integers(len(data))), int(rng.integers(1, 40))
    return data[: at + size] + data[at:]


def _word(data: bytes, rng: np.random.Generator) -> bytes:
    word = _WORDS[rng.integers(len(_WORDS))]
    at = int(rng.integers(max(1, len(data) - len(word))))
    return data[:at] + word + data[at + len(word) :]


def _number(data: bytes, rng: np.random.Generator) -> bytes:
    found = list(_NUMBER.finditer(data))
    if not found:
        return _byte(data, rng)
    match = found[rng.integers(len(found))]
    return data[: match.start()] + NUMBERS[rng.integers(len(NUMBERS))].encode() + data[match.end() :]


def _line(data: bytes, rng: np.random.Generator) -> bytes:
    lines = data.split(b"\n")
    i, j = (int(k) for k in rng.integers(0, len(lines), 2))
    way = rng.integers(3)
    if way == 0:
        del lines[i]
    elif way == 1:
        lines.insert(i, lines[i])
    else:
        lines[i], lines[j] = lines[j], lines[i]
    return b"\n".join(lines)


def _attribute(data: bytes, rng: np.random.Generator) -> bytes:
    found = list(re.finditer(rb' [A-Za-z]+="[^"]*"', data))
    match, other = (found[k] for k in rng.integers(0, len(found), 2))
    new = b"" if rng.random() < 0.5 else other[0]
    return data[: match.start()] + new + data[match.end() :]


def _json(data: bytes, rng: np.random.Generator) -> bytes:
    """A value replaced or removed, or a name doubled."""
    try:
        top = json.loads(data)
    except ValueError:
        return _byte(data, rng)
    places = list(_places(top))
    container, key = places[rng.integers(len(places))]
    way = rng.integers(3)
    if way == 0:
        del container[key]
    elif way == 1:
        other, other_key = places[rng.integers(len(places))]
        values = [
            None,
            True,
            -1,
            1.5,
            10**30,
            10**9,
            "x",
            [],
            {},
            float("nan"),
            "1_0",
            json.loads("0"),
            other[other_key],
        ]
        container[key] = values[rng.integers(len(values))]
    elif isinstance(container, dict):
        return json.dumps(top).replace(f'"{key}":', f'"{key}": 1, "{key}":', 1).encode()
    else:
        container.insert(key, container[key])
    return json.dumps(top).encode()


def _places(content):
    """Containers and keys of all values; of long lists only the first ones."""
    waiting = [content]
    while waiting:
        part = waiting.pop()
        keys = list(part) if isinstance(part, dict) else range(min(len(part), 8))
        for key in keys:
            yield part, key
            if isinstance(part[key], (dict, list)):
                waiting.append(part[key])


def _change_table(path: pathlib.Path, rng: np.random.Generator) -> str:
    """Change a value of a Parquet table, or repeat or remove a row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    rows = table.to_pylist()
    i, way = int(rng.integers(len(rows))), int(rng.integers(5))
    if way == 0:
        del rows[i]
    elif way == 1:
        rows.insert(i, rows[i])
    else:
        places = [(c, k) for c, k in _places([rows[i]]) if isinstance(c[k], (int, float))]
        container, key = places[rng.integers(len(places))] if places else (rows[i], next(iter(rows[i])))
        values = [-1, 0, 1, 2, 3, 10**9, -7, 1 << 30] if isinstance(container[key], int) else [np.nan, -1.0, 1e300, 0.5]
        if isinstance(container[key], (int, float)):
            container[key] = values[rng.integers(len(values))]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    return ["row removed", "row doubled"][way] if way < 2 else "value"
