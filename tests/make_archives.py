"""Writes small saved decompositions of many kinds and what they say of rows: python -m tests.make_archives FOLDER.

`kept_archives/schema-1` was written with version 0.1.0, when schema 1 was the only one, and is never written again: its
files must stay readable and say the same, which `test_kept_archives` checks. Beside each archive is an .npz with rows,
one array per column (text is empty where missing), and the numbers of the decomposition before it was saved. A new
schema gets a folder of its own; `schema-2` has the kinds with trees or merged bins only.
"""

from __future__ import annotations

import pathlib
import sys
import warnings

import numpy as np

import treeanova

N_EXPLAINED = 40


def numbers(n_rows, seed, n_features=4):
    """Normal columns that depend on each other, rounded so that files are small."""
    data = np.random.default_rng(seed).normal(size=(n_rows, n_features))
    data[:, 1:] += 0.7 * data[:, :-1]
    return data.round(1)


def response(data):
    known = np.nan_to_num(data, nan=0.5)
    return known[:, 0] * known[:, 1] + np.sin(2 * known[:, 2]) + (known[:, 0] > 0) * known[:, 1] * known[:, 3]


def columns(data):
    """The numbers as a table, without categories."""
    return {f"x{j}": data[:, j] for j in range(data.shape[1])}


def mixed(data, seed, missing_text=True):
    """Columns of two numbers with gaps, a count and text, some of it missing."""
    rng = np.random.default_rng(seed)
    kind = np.array(["blue", "green", "red", "white"])[np.digitize(data[:, 2], [-1, 0, 1])]
    if missing_text:
        kind[rng.random(len(kind)) < 0.1] = ""
    return {
        "age": np.where(rng.random(len(data)) < 0.1, np.nan, data[:, 0]),
        "size": data[:, 1],
        "count": np.floor(data[:, 3]),
        "kind": kind,
    }


def table(found, *, as_category=False):
    """A pandas table of columns, empty text as missing."""
    import pandas as pd

    made = pd.DataFrame({name: c.astype(object) if c.dtype.kind == "U" else c for name, c in found.items()})
    made = made.mask(made == "")
    text = [name for name, column in found.items() if column.dtype.kind == "U"]
    return made.astype(dict.fromkeys(text, "category")) if as_category else made


# Decompositions: each with the columns of rows to explain


def xgboost_categories():
    from xgboost import XGBRegressor

    data = numbers(300, 0)
    rows = table(mixed(data, 1), as_category=True)
    model = XGBRegressor(n_estimators=10, max_depth=2, n_jobs=1, enable_categorical=True, random_state=0)
    return treeanova.decompose(model.fit(rows, response(data)), rows, n_jobs=1), mixed(numbers(N_EXPLAINED, 2), 3)


def ebm(data, **options):
    from interpret.glassbox import ExplainableBoostingClassifier

    rows = table(mixed(data, 1))
    model = ExplainableBoostingClassifier(
        n_jobs=1, outer_bags=1, max_rounds=30, interactions=2, random_state=0, **options
    )
    fx = treeanova.decompose(model.fit(rows, response(data) > 0), rows, density="empirical", n_jobs=1)
    return fx, mixed(numbers(N_EXPLAINED, 2), 3)


def ebm_equal_bins():
    return ebm(numbers(300, 0), max_bins=12, max_interaction_bins=12)


def ebm_default_bins():
    """Main effects have more bins than pairs, so their data are not rounded."""
    return ebm(numbers(300, 0) + np.random.default_rng(4).normal(scale=0.1, size=(300, 4)))


def deep_lightgbm():
    """Terms of orders 3 and 4 are evaluated at rows, corrected for dependence."""
    from lightgbm import LGBMRegressor

    data = numbers(400, 0)
    model = LGBMRegressor(
        n_estimators=4, max_depth=6, num_leaves=20, max_bin=8, n_jobs=1, verbose=-1, deterministic=True
    )
    fx = treeanova.decompose(model.fit(data, response(data)), data, n_jobs=1, tensor_order=2)
    return fx, columns(numbers(N_EXPLAINED, 2))


def forest_with_remainder():
    from sklearn.ensemble import RandomForestRegressor

    data = numbers(300, 0)
    targets = np.stack([response(data), data[:, 0] ** 2], axis=1)
    model = RandomForestRegressor(3, max_depth=6, min_samples_leaf=8, random_state=0, n_jobs=1).fit(data, targets)
    fx = treeanova.decompose(model, data, density="laplace", max_order=2, tensor_order=2, n_jobs=1)
    return fx, columns(numbers(N_EXPLAINED, 2))


def merged_bins():
    from sklearn.ensemble import ExtraTreesRegressor

    data = numbers(300, 0)
    model = ExtraTreesRegressor(6, max_depth=7, min_samples_leaf=5, random_state=0, n_jobs=1).fit(data, response(data))
    fx = treeanova.decompose(model, data, density="empirical", budget=6e4, n_jobs=1)
    return fx, columns(numbers(N_EXPLAINED, 2))


def table_density():
    from sklearn.ensemble import GradientBoostingRegressor

    data = numbers(300, 0, 3)
    target = data[:, 0] * data[:, 1] + data[:, 2]
    model = GradientBoostingRegressor(n_estimators=8, max_depth=2, random_state=0).fit(data, target)
    fx = treeanova.decompose(model, data, density="empirical", n_jobs=1, feature_names=["a", "b", "c"])
    sizes = [len(fx.terms[name].values) for name in ("a", "b", "c")]
    rng = np.random.default_rng(5)
    weights = {("a", "b"): rng.random(sizes[:2]), "c": rng.random(sizes[2])}
    rows = columns(numbers(N_EXPLAINED, 2, 3))
    return fx.with_density(treeanova.density.Table(weights)), dict(zip("abc", rows.values(), strict=True))


def catboost_classes():
    from catboost import CatBoostClassifier

    data = numbers(300, 0)
    rows = table(mixed(data, 1, missing_text=False))
    model = CatBoostClassifier(
        iterations=5, depth=3, thread_count=1, verbose=0, allow_writing_files=False, random_seed=0, one_hot_max_size=10
    ).fit(rows, np.digitize(response(data), [-0.5, 0.5]), cat_features=["kind"])
    fx = treeanova.decompose(model, rows, density="shrinkage", n_jobs=1)
    return fx, mixed(numbers(N_EXPLAINED, 2), 3, missing_text=False)


def hist_categories():
    from sklearn.ensemble import HistGradientBoostingClassifier

    data = numbers(300, 0)
    rows = table(mixed(data, 1), as_category=True)
    model = HistGradientBoostingClassifier(
        max_iter=8, max_depth=3, categorical_features="from_dtype", min_samples_leaf=5, random_state=0
    ).fit(rows, response(data) > 0)
    return treeanova.decompose(model, rows, density="kernel", n_jobs=1), mixed(numbers(N_EXPLAINED, 2), 3)


def part_of_xgboost():
    fx, rows = xgboost_categories()
    return fx.drop("size"), rows


CASES = [
    xgboost_categories, ebm_equal_bins, ebm_default_bins, deep_lightgbm, forest_with_remainder, merged_bins,
    table_density, catboost_classes, hist_categories, part_of_xgboost,
]  # fmt: skip


# What is kept


def said(fx, rows):
    """What a decomposition says of rows, by names that sort the same whatever the order of terms."""
    found = {"intercept": np.asarray(fx.intercept), "score": fx.decision_function(rows)}
    for kind, part in (("pure", fx), ("raw", fx.raw)):
        explained = part.explain(rows)
        names = np.array([" × ".join(term) for term in explained.terms])
        order = np.argsort(names)
        found |= {f"{kind} names": names[order], f"{kind} terms": explained.values[:, order]}
        if explained.remainder is not None:
            found[f"{kind} remainder"] = explained.remainder
    return found


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")  # what libraries say of names or missing values is not at stake
    for case in CASES:
        fx, rows = case()
        name = case.__name__.replace("_", "-")
        fx.save(folder / f"{name}.tav")
        given = {f"rows/{column}": values for column, values in rows.items()}
        np.savez_compressed(folder / f"{name}.npz", **given, **said(fx, table(rows)))


if __name__ == "__main__":
    main(sys.argv[1])
