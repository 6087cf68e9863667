"""Writes the small files in models/ with the XGBoost that is installed: python -m tests.readers.make_models.

Where XGBoost keeps the weights of trees that dropout leaves has changed twice (3.3 and 3.4). Beside the files
of a model are rows and the raw prediction that the same XGBoost gives for them.
"""

from __future__ import annotations

import json
import pathlib
import warnings

import numpy as np

FOLDER = pathlib.Path(__file__).parent / "models"


def main() -> None:
    import xgboost

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)).round(2)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0] * X[:, 1]) + np.nan_to_num(X[:, 2])
    options = {"n_estimators": 5, "max_depth": 2, "booster": "dart", "rate_drop": 0.6, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # booster="dart" is deprecated
        model = xgboost.XGBRegressor(**options).fit(X, y)
    name, rows = f"xgboost-{xgboost.__version__}-dropout", X[:50]
    for suffix in ("json", "ubj"):
        model.save_model(FOLDER / f"{name}.{suffix}")
    margin = model.predict(rows, output_margin=True)
    content = {"rows": np.where(np.isnan(rows), None, rows).tolist(), "margin": margin.tolist()}
    (FOLDER / f"{name}.expected").write_text(json.dumps(content), encoding="utf-8")


if __name__ == "__main__":
    main()
