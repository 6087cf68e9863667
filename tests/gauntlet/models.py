"""Models of the gauntlet: each library's own defaults, and small ensembles of a given depth."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import catboost
import lightgbm
import numpy as np
import xgboost
from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor
from sklearn import ensemble, tree

from tests.support.training import fit


def plain(model, X):
    """Raw prediction of scikit-learn's models and of EBMs."""
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    if hasattr(model, "predict_proba"):
        shares = model.predict_proba(X)
        return shares[:, 1] if shares.shape[1] == 2 else shares
    return model.predict(X)


def lightgbm_raw(model, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arrays without names
        return model.predict(X, raw_score=True)


@dataclasses.dataclass(frozen=True)
class Library:
    """How a library makes its models, and what its raw prediction is, to what relative precision."""

    regressor: Callable[..., Any]
    classifier: Callable[..., Any]
    raw: Callable[[Any, np.ndarray], np.ndarray] = plain
    precision: float = 1e-9
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    takes_missing: bool = True
    takes_targets: bool = False

    def model_of(self, data, **options):
        """A model of the data; of the first target where the library takes one only."""
        make = self.classifier if data.is_class else self.regressor
        y = data.y if data.y.ndim == 1 or self.takes_targets else data.y[:, 0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what libraries say of tiny or odd data is not at stake
            return fit(make(**self.options, **options), data.X, y)


SEED = {"random_state": 0}
SEED_ONE_JOB = {"random_state": 0, "n_jobs": 1}

LIBRARIES = {
    "tree": Library(tree.DecisionTreeRegressor, tree.DecisionTreeClassifier, options=SEED, takes_targets=True),
    "forest": Library(
        ensemble.RandomForestRegressor, ensemble.RandomForestClassifier, options=SEED_ONE_JOB, takes_targets=True
    ),
    "extra": Library(
        ensemble.ExtraTreesRegressor, ensemble.ExtraTreesClassifier, options=SEED_ONE_JOB, takes_targets=True
    ),
    "boosting": Library(
        ensemble.GradientBoostingRegressor, ensemble.GradientBoostingClassifier, options=SEED, takes_missing=False
    ),
    "hist": Library(ensemble.HistGradientBoostingRegressor, ensemble.HistGradientBoostingClassifier, options=SEED),
    "xgboost": Library(
        xgboost.XGBRegressor,
        xgboost.XGBClassifier,
        raw=lambda model, X: model.predict(X, output_margin=True),
        precision=1e-5,
        options=SEED_ONE_JOB,
        takes_targets=True,
    ),
    "lightgbm": Library(
        lightgbm.LGBMRegressor, lightgbm.LGBMClassifier, raw=lightgbm_raw, options=SEED_ONE_JOB | {"verbose": -1}
    ),
    "catboost": Library(
        catboost.CatBoostRegressor,
        catboost.CatBoostClassifier,
        raw=lambda model, X: model.predict(X, prediction_type="RawFormulaVal"),
        options={"random_seed": 0, "thread_count": 1, "verbose": False, "allow_writing_files": False},
    ),
    # By default 14 bags of up to 50,000 rounds: minutes of fitting for tables of the same form.
    "ebm": Library(
        ExplainableBoostingRegressor,
        ExplainableBoostingClassifier,
        options=SEED_ONE_JOB | {"outer_bags": 2, "max_rounds": 200},
    ),
}


LIGHTGBM_FEW_ROWS = {"min_child_samples": 1, "min_data_in_bin": 1}


def of_depth(library, depth):
    """Options of a small ensemble of some depth, which also splits very few rows."""
    n = 5 if depth > 4 else 20
    return {
        "tree": {"max_depth": depth},
        "forest": {"max_depth": depth, "n_estimators": n},
        "extra": {"max_depth": depth, "n_estimators": n},
        "boosting": {"max_depth": depth, "n_estimators": n},
        "hist": {"max_depth": depth, "max_iter": n, "max_leaf_nodes": None, "min_samples_leaf": 2},
        "xgboost": {"max_depth": depth, "n_estimators": n},
        "lightgbm": {"max_depth": depth, "n_estimators": n, "num_leaves": 2**depth} | LIGHTGBM_FEW_ROWS,
        "catboost": {"depth": depth, "iterations": n},
    }[library]
