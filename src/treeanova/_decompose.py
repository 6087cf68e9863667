"""decompose(model, X): the whole path on one screen; plan(model): what it will take."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.columns import with_labels
from treeanova.decomposition import Decomposition, purified
from treeanova.density import check_weighted_rows, density_of, sample_of
from treeanova.effects import Effects
from treeanova.errors import UnsupportedModelError
from treeanova.expand import DEFAULT_BUDGET, Plan, expand, leaf_keys, paths_of, plan_of
from treeanova.features import Schema
from treeanova.forest import Forest
from treeanova.frames import backend_of
from treeanova.grid import Grid, grid_of
from treeanova.purification import Method, Options, check_method
from treeanova.readers import read_model

_CHECKED_ROWS = 300


def decompose(
    model: Any,
    X: Any = None,
    *,
    density: Any = "auto",
    sample_weight: npt.ArrayLike | None = None,
    feature_names: list[str] | tuple[str, ...] | None = None,
    method: Method = "auto",
    budget: float = DEFAULT_BUDGET,
    n_jobs: int | None = None,
    random_state: int = 0,
    trusted: bool = False,
) -> Decomposition:
    """The functional ANOVA of a trained tree ensemble: intercept, pure main effects and pure interactions.

    Parameters
    ----------
    model
        A fitted model of any library that `read_model` knows, or the path of a saved one.
    X
        The rows that define the density: numpy, pandas, polars, pyarrow, scipy.sparse. None will do for "uniform".
    density
        A name ("auto", "kernel", "empirical", "laplace", "independent", "shrinkage", "uniform"), an object of
        `treeanova.density`, an array over the bins of all features, a mapping from names to arrays, or a callable.
        "auto" takes for each pair of features the estimate under which rows left out are most likely.
    sample_weight
        Weights of the rows.
    feature_names
        Names for the features, for a model that has none of its own; tables with these names are then matched by name.
    method
        How to purify; see `treeanova.purify`.
    budget
        Most bytes for all terms; a larger plan raises BudgetError before any work.
    n_jobs
        Threads; all cores by default.
    random_state
        Seed of draws, where a density needs any.
    trusted
        Whether a pickle may be loaded.

    Examples
    --------
    >>> import numpy as np, treeanova
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> model = DecisionTreeRegressor().fit(X, [0, 0, 0, 1])
    >>> fx = treeanova.decompose(model, X)
    >>> fx.intercept, fx.terms["x0", "x1"].values.tolist()
    (0.25, [[0.25, -0.25], [-0.25, 0.25]])
    """
    check_method(method)
    _check_pipeline(model)
    check_weighted_rows(X, sample_weight)
    found = read_model(model, trusted=trusted)
    if isinstance(found, Forest) and X is not None:
        found = dataclasses.replace(found, schema=with_labels(found.schema, X))
    effects = _raw_effects(found, feature_names, budget)
    sample = None if X is None else sample_of(X, effects.grid, sample_weight)
    bound = density_of(density).bind(effects.grid, sample)
    fx = purified(
        effects,
        bound,
        options=Options(method),
        n_jobs=n_jobs or os.cpu_count() or 1,
        backend=backend_of(X),
        random_state=random_state,
        source=model,
    )
    return _checked(fx, found) if isinstance(found, Forest) and sample is not None else fx


def _checked(fx: Decomposition, forest: Forest) -> Decomposition:
    """The decomposition with the largest difference to its trees, walked node by node, at some of the rows."""
    sample = fx.density.sample
    if sample is None or not sample.n_rows:
        return fx
    some = slice(None, None, max(1, sample.n_rows // _CHECKED_ROWS))
    expected = forest.intercept + forest.values[forest.leaves(sample.encoded[some])].sum(axis=1)
    gap = np.abs(fx.effects.score_codes(sample.codes[some]) - expected).max()
    error = float(gap / max(np.abs(expected).max(), np.finfo(float).tiny))
    return dataclasses.replace(fx, certificate=dataclasses.replace(fx.certificate, reconstruction_error=error))


def _check_pipeline(model: Any) -> None:
    """Refuse a pipeline that changes its columns: the terms are those of the columns that enter its last step."""
    steps = getattr(model, "steps", None) if hasattr(model, "named_steps") else None
    if steps and any(step is not None and step != "passthrough" for _, step in steps[:-1]):
        raise UnsupportedModelError(
            "`model` is a Pipeline that changes its columns before the trees see them; decompose its last step on what "
            "it sees: decompose(pipeline[-1], pipeline[:-1].transform(X), "
            "feature_names=pipeline[:-1].get_feature_names_out())."
        )


def plan(model: Any, *, trusted: bool = False) -> Plan:
    """What `decompose` will hold for a model: terms, cells, bytes and methods, before any work; `print` it.

    Examples
    --------
    >>> import numpy as np, treeanova
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> print(treeanova.plan(DecisionTreeRegressor().fit(X, [0, 0, 0, 1])))
    order 1: 2 terms, 4 cells, direct
    order 2: 1 terms, 4 cells, direct
    1 output, 192 bytes in all
    """
    found = read_model(model, trusted=trusted)
    if isinstance(found, Effects):
        return plan_of(set(found.terms), found.grid, found.n_outputs)
    keys, _ = leaf_keys(found, paths_of(found))
    return plan_of(set(keys), grid_of(found), found.n_outputs)


def _raw_effects(found: Forest | Effects, feature_names: list[str] | tuple[str, ...] | None, budget: float) -> Effects:
    """The model as effects on its own grid, within the budget, with other names where given."""
    if isinstance(found, Effects):
        plan_of(set(found.terms), found.grid, found.n_outputs).check(budget)
        if feature_names is None:
            return found
        grid = found.grid
        schema = _renamed(grid.schema, feature_names)
        axes = tuple(dataclasses.replace(axis, name=name) for axis, name in zip(grid.axes, schema.names, strict=True))
        return dataclasses.replace(found, grid=Grid(schema, axes))
    if feature_names is not None:
        found = dataclasses.replace(found, schema=_renamed(found.schema, feature_names))
    return expand(found, grid_of(found), budget)


def _renamed(schema: Schema, names: list[str] | tuple[str, ...]) -> Schema:
    """A schema with other names; columns are then matched by these where a table has them, else by position."""
    if isinstance(names, str) or len(names) != len(schema.features) or len(set(names)) != len(names):
        raise ValueError(f"`feature_names` must be {len(schema.features)} different names, got {list(names)!r}.")
    features = tuple(dataclasses.replace(f, name=str(name)) for f, name in zip(schema.features, names, strict=True))
    return dataclasses.replace(schema, features=features, named=False, given=True)
