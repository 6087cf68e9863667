"""What must hold of every decomposition, computed anew from its public numbers and from the library's own model."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np

import treeanova
from treeanova.terms.tree_model import TreeModel

PURE = 1e-9  # of the largest score
MOST_CELLS = 1_000_000
MASSLESS = 1e-290  # of the largest weight: what counts as no mass
LARGEST_TERMS = 6


def outputs_last(values, n_outputs):
    """Values with a last axis of outputs, also where there is one output only."""
    return values[..., None] if n_outputs == 1 else values


def tables_of(fx):
    """The terms that have a table, by names."""
    return {names: term for names, term in fx.terms.items() if term.has_table}


def terms_at_rows(fx):
    """Names of the terms that have no table."""
    return [names for names, term in fx.terms.items() if not term.has_table]


def tables_before(fx):
    """The tensors from which tables were purified."""
    return fx._function.source.tables_to_purify(fx._function.terms).terms


def bins_within(fine, coarse):
    """The bin of a coarser axis that holds each bin of an axis, by a value in each."""
    return coarse.index(fine.examples())


def positions(fx, names):
    return tuple(fx.schema.names.index(name) for name in names)


# Rows


def awkward_rows(fx, X, seed=0):
    """Rows of the data, rows of shuffled columns, rows on thresholds and next to them, and missing values."""
    rng = np.random.default_rng(seed)
    some = X[rng.permutation(len(X))[:60]]
    shuffled = np.stack([rng.permutation(np.resize(column, 60)) for column in X.T], axis=1)
    near = [_near_thresholds(axis, j, X, rng) for j, axis in enumerate(fx._function.grid.axes)]
    near = np.concatenate(near)
    return np.concatenate([some, shuffled, near[rng.permutation(len(near))[:200]]])


def _near_thresholds(axis, j, X, rng):
    """Rows of the data with one column on a threshold, on the floats next to it, or missing where that is allowed."""
    bounds = axis.bounds[np.isfinite(axis.bounds)]
    bounds = rng.permutation(bounds)[:10]
    single = bounds.astype(np.float32)
    with np.errstate(over="ignore"):
        neighbours = [np.nextafter(single, np.float32(end)).astype(float) for end in (-np.inf, np.inf)]
    values = np.concatenate([bounds, np.nextafter(bounds, -np.inf), np.nextafter(bounds, np.inf), single, *neighbours])
    values = np.concatenate([values[np.isfinite(values)], [np.nan] * (axis.missing_bin >= 0)])
    rows = X[rng.integers(len(X), size=len(values))]
    rows[:, j] = values
    return rows


# Checks


def check_finite(fx):
    """No number anywhere is infinite or missing."""
    assert np.isfinite(fx.intercept).all()
    for names, term in tables_of(fx).items():
        assert np.isfinite(term.values).all(), names
        assert np.isfinite(term.weights).all(), names
        assert (term.weights >= 0).all(), names
        np.testing.assert_allclose(term.weights.sum(), 1.0, rtol=1e-9, err_msg=str(names))
    for by in ("term", "feature"):
        numbers = fx.importance(by)[["variance", "covariance", "share", "mean_abs"]].to_numpy()
        assert np.isfinite(numbers).all(), by
    found = fx.certificate
    parts = [found, *found.terms.values(), *([found.higher] if found.higher is not None else [])]
    numbers = [getattr(part, field.name) for part in parts for field in dataclasses.fields(part)]
    assert np.isfinite([number for number in numbers if isinstance(number, (int, float))]).all()


def check_sums(fx, model, library, rows):
    """Scores are the library's own; intercept, terms, other terms of each order and remainder add up to them."""
    raw = np.asarray(library.raw(model, rows), dtype=float)
    score = fx.decision_function(rows)
    assert np.isfinite(score).all()
    np.testing.assert_allclose(score, raw.reshape(score.shape), rtol=0, atol=library.precision * np.abs(raw).max())
    few = rows[:: max(1, len(rows) // 100)]
    explanation = fx.explain(few)
    rest = 0.0 if explanation.remainder is None else explanation.remainder
    total = fx.intercept + explanation.values.sum(axis=1) + sum(explanation.others.values()) + rest
    expected = fx.decision_function(few)
    size = max(np.abs(expected).max(), np.abs(np.asarray(fx.intercept)).max())
    np.testing.assert_allclose(total, expected, rtol=0, atol=1e-9 * size)


def slice_means(values, weights, axis):
    """Weighted means of all slices along an axis, and whether they have mass; outputs last."""
    masses = weights.sum(axis=axis)
    sums = (values * weights[..., None]).sum(axis=axis)
    has_mass = masses > MASSLESS * weights.max()
    return sums[has_mass] / masses[has_mass][:, None], has_mass


def check_purity(fx, size):
    """Slices with mass have mean zero, to what the certificate says, in all terms that have a table.

    `size` is the largest score of each output.
    """
    n_outputs = len(fx.schema.outputs)
    before = [np.abs(raw).reshape(-1, n_outputs).max(axis=0) for raw in tables_before(fx).values()]
    scale = np.max(before, axis=0, initial=0.0)  # largest score before purification
    for names, term in tables_of(fx).items():
        values = outputs_last(term.values, n_outputs)
        means = [slice_means(values, term.weights, axis)[0] for axis in range(term.order)]
        worst = np.max([np.abs(own).max(axis=0, initial=0.0) for own in means], axis=0)
        certified = fx.certificate.terms[names]
        relative = np.divide(worst, scale, out=np.zeros_like(worst), where=scale > 0).max()
        assert relative <= certified.impurity + 1e-12, names
        if fx.certificate.tables_are_pure:
            assert (worst <= PURE * np.maximum(size, scale)).all(), names
            assert certified.impurity <= fx.certificate.tol, names


def check_higher(fx, seed=0):
    """Terms at rows: pure exactly where that is claimed, else about as pure at other rows as was measured."""
    higher = fx.certificate.higher
    at_rows = terms_at_rows(fx)
    assert (higher is None) == (not at_rows and not _has_orders_above_tables(fx))
    if higher is None or not higher.n_terms:
        return
    assert higher.n_terms == len(at_rows)
    assert {len(names) for names in at_rows} <= set(range(higher.orders[0], higher.orders[1] + 1))
    if higher.is_exact:
        check_closed_form(fx, seed)
    else:
        assert higher.measured is not None
        assert fx.certificate.is_pure == (fx.certificate.tables_are_pure and higher.measured <= fx.certificate.tol)
        assert impurity_at_rows(fx, seed) <= 2 * higher.measured + 0.1


def _has_orders_above_tables(fx):
    if not isinstance(fx._function.source, TreeModel):
        return False
    layout = fx._function.source.trees.layout
    return layout.top_order > layout.tensor_order


def impurity_at_rows(fx, seed=0):
    """Largest root mean square of slice means of the largest terms, relative to the term, on quarters of each feature.

    Squares of means are products of the means of two halves of the rows, so that noise averages out.
    """
    rng = np.random.default_rng(seed)
    codes, weights = fx._density_rows
    rows = fx._function.grid.encoded(codes)
    first = rng.random(len(rows)) < 0.5
    quarters = [_quarters(column, weights) for column in codes.T]
    worst = 0.0
    for names in _largest_terms(fx, rows[:100]):
        values = fx.term_values(rows, names).reshape(len(rows), -1)
        squares = weights @ values**2
        for j in names:
            kept = [quarters[i] for i in positions(fx, names) if fx.schema.names[i] != j]
            slices = np.ravel_multi_index(kept, (4,) * len(kept))
            halves = [_means(slices, weights * half, values, 4 ** len(kept)) for half in (first, ~first)]
            found = np.bincount(slices, weights, 4 ** len(kept)) @ (halves[0] * halves[1])
            worst = max(worst, (found / np.where(squares > 0, squares, np.inf)).max())
    return np.sqrt(worst)


def _largest_terms(fx, rows):
    explanation = fx.explain(rows)
    squares = (explanation.values.reshape(len(rows), len(explanation.terms), -1) ** 2).mean(axis=0).max(axis=-1)
    higher = set(terms_at_rows(fx))
    ranked = [explanation.terms[i] for i in np.argsort(-squares)]
    return [names for names in ranked if names in higher][:LARGEST_TERMS]


def _quarters(column, weights):
    """Four bins of about equal mass."""
    masses = np.bincount(column, weights)
    middles = np.cumsum(masses) - masses / 2
    return np.minimum(4 * middles / masses.sum(), 3).astype(int)[column]


def _means(slices, weights, values, n_slices):
    masses = np.bincount(slices, weights, n_slices)
    sums = np.stack([np.bincount(slices, weights * column, n_slices) for column in values.T], axis=1)
    return np.divide(sums, masses[:, None], out=np.zeros_like(sums), where=masses[:, None] > 0)


def check_closed_form(fx, seed=0):
    """Means of terms at rows over one feature, by its masses, are zero where features are independent."""
    rng = np.random.default_rng(seed)
    grid = fx._function.grid
    for names in rng.permutation(np.array(terms_at_rows(fx), dtype=object))[:LARGEST_TERMS]:
        key = positions(fx, names)
        codes = np.stack([rng.integers(size, size=3) for size in grid.sizes], axis=1).astype(np.int32)
        for j, row in itertools.product(key, codes):
            rows = np.repeat(row[None], grid.sizes[j], axis=0)
            rows[:, j] = np.arange(grid.sizes[j])
            values = fx.term_values(grid.encoded(rows), tuple(names)).reshape(grid.sizes[j], -1)
            mean = fx.density.table((j,)) @ values
            assert (np.abs(mean) <= PURE * max(np.abs(values).max(), 1e-300)).all(), names


def check_marginals(fx):
    """Tables of pairs have the 1-d tables as marginals; so have tables of orders 3 and 4, which agree."""
    density, terms = fx.density, fx.terms
    for names, term in tables_of(fx).items():
        for axis, name in enumerate(names if term.order > 1 else ()):
            others = tuple(i for i in range(term.order) if i != axis)
            (j,) = positions(fx, (name,))
            alone = np.bincount(
                bins_within(fx.grid.axes[j], term.axes[axis]), density.table((j,)), term.axes[axis].size
            )
            np.testing.assert_allclose(term.weights.sum(axis=others), alone, rtol=0, atol=1e-9, err_msg=str(names))
    key = _small_features(fx)
    if len(key) < 3:
        return
    whole = density.table(key)
    for inner in itertools.combinations(key, 3):
        np.testing.assert_allclose(_marginal(whole, key, inner), density.table(inner), rtol=0, atol=1e-9)
    for j in key:
        np.testing.assert_allclose(_marginal(whole, key, (j,)), density.table((j,)), rtol=0, atol=1e-9)
    for pair in itertools.combinations(key, 2):
        distance = np.abs(_marginal(whole, key, pair) - density.table(pair)).sum() / 2
        np.testing.assert_allclose(density.gap(pair), distance, rtol=0, atol=1e-9)
        is_term = tuple(fx.schema.names[j] for j in pair) in terms
        if is_term and max(map(len, terms)) > 2:  # else the joint density serves nothing
            assert fx.certificate.density_gap >= distance - 1e-9
        if density.name not in {"auto", "kernel"}:
            assert distance <= 1e-9


def _small_features(fx):
    """Three or four features, those that terms use and that have the fewest bins first, if their table is small."""
    used = {j for names in fx.terms for j in positions(fx, names)}
    by_size = sorted(range(len(fx.grid.sizes)), key=lambda j: (j not in used, fx.grid.sizes[j], j))
    for n in (4, 3):
        key = tuple(sorted(by_size[:n]))
        if len(key) == n and math.prod(fx.grid.sizes[j] for j in key) <= MOST_CELLS:
            return key
    return ()


def _marginal(table, key, kept):
    return table.sum(axis=tuple(i for i, j in enumerate(key) if j not in kept))


def rows_by_term(fx, by="term"):
    """Rows of the importance table by label and position of the output."""
    outputs = list(fx.schema.outputs)
    table = fx.importance(by).to_dict("records")
    return {(row[by], outputs.index(row["output"]) if len(outputs) > 1 else 0): row for row in table}


def check_own_moments(fx):
    """Variances and mean absolute values are those of the tables of terms under their weights; shares add to one."""
    n_outputs = len(fx.schema.outputs)
    found = rows_by_term(fx)
    total = (fx._moments.variance + fx._moments.covariance).sum(axis=0)
    for names, term in tables_of(fx).items():
        values, weights = outputs_last(term.values, n_outputs), term.weights[..., None]
        axes = tuple(range(term.order))
        squares, sizes = (weights * values**2).sum(axis=axes), (weights * np.abs(values)).sum(axis=axes)
        for k in range(n_outputs):
            row = found[" × ".join(names), k]
            close(row["mean_abs"], sizes[k], 1e-8, np.abs(values).max())
            if total[k] > 0:
                close(row["variance"] * total[k], squares[k], 1e-8, total[k])
    for k in range(n_outputs):
        shares = [row["share"] for (_, output), row in found.items() if output == k]
        assert sum(shares) == 0 or abs(sum(shares) - 1) < 1e-9


def close(found, expected, tolerance, size):
    assert abs(found - expected) <= tolerance * max(abs(expected), size), (found, expected)


def check_importance(fx):
    """Variance, covariance and mean absolute value of all terms, summed over every cell of the whole grid."""
    n_features, n_outputs = len(fx.grid.sizes), len(fx.schema.outputs)
    weights = fx.density.table(tuple(range(n_features))).ravel()
    cells = np.indices(fx.grid.sizes).reshape(n_features, -1)
    terms = {}
    for names, term in fx.terms.items():
        places = zip(positions(fx, names), term.axes, strict=True)
        bins = tuple(bins_within(fx.grid.axes[j], axis)[cells[j]] for j, axis in places)
        terms[names] = outputs_last(term.values, n_outputs)[bins]
    score = np.sum(list(terms.values()), axis=0)
    found = rows_by_term(fx)
    by_feature = {(name, k): np.zeros(3) for name in fx.schema.names for k in range(n_outputs)}
    for k in range(n_outputs):
        total = _covariance(score[:, k], score[:, k], weights)
        for names, values in terms.items():
            variance = _covariance(values[:, k], values[:, k], weights)
            covariance = _covariance(values[:, k], score[:, k], weights) - variance
            scale = 1 / total if total > 0 else 0.0
            expected = np.array([variance * scale, covariance * scale, weights @ np.abs(values[:, k])])
            row = found[" × ".join(names), k]
            compare_measures(row, expected, np.abs(values).max())
            for name in names:
                by_feature[name, k] += expected / len(names)
    for key, row in rows_by_term(fx, "feature").items():
        compare_measures(row, by_feature[key], np.abs(score).max())


def compare_measures(row, expected, size):
    for name, wanted, scale in zip(("variance", "covariance", "mean_abs"), expected, (1.0, 1.0, size), strict=True):
        close(row[name], wanted, 1e-8, scale)


def _covariance(first, second, weights):
    return weights @ ((first - weights @ first) * (second - weights @ second))


def check_saved(fx, rows, folder):
    """A file holds the same decomposition; large tables that follow from others come back up to rounding."""
    path = folder / "saved.tav"
    fx.save(path)
    loaded = treeanova.load(path)
    terms = loaded.terms
    assert list(terms) == list(fx.terms)
    assert terms_at_rows(loaded) == terms_at_rows(fx)
    np.testing.assert_array_equal(loaded.intercept, fx.intercept)
    for names, term in tables_of(fx).items():
        scale = np.abs(term.values).max(initial=0.0)
        np.testing.assert_allclose(terms[names].values, term.values, rtol=0, atol=1e-13 * scale)
        np.testing.assert_allclose(terms[names].weights, term.weights, rtol=1e-12, atol=1e-17)
    few = rows[:20]
    np.testing.assert_array_equal(loaded.decision_function(few), fx.decision_function(few))
    values = fx.explain(few).values
    np.testing.assert_allclose(loaded.explain(few).values, values, rtol=0, atol=1e-12 * np.abs(values).max(initial=0.0))
    assert loaded.importance().to_dict("list") == fx.importance().to_dict("list")
    assert str(loaded.certificate) == str(fx.certificate)


def check_report(fx, folder):
    """The report is one HTML page."""
    path = folder / "report.html"
    treeanova.write_report(fx, path)
    assert path.read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html")


def check_all(fx, model, library, X, folder, *, report=False):
    """Everything above that holds of any decomposition."""
    rows = awkward_rows(fx, X)
    check_finite(fx)
    check_sums(fx, model, library, rows)
    n_outputs = len(fx.schema.outputs)
    check_purity(fx, np.abs(outputs_last(fx.decision_function(rows), n_outputs)).max(axis=0))
    check_higher(fx)
    check_marginals(fx)
    check_own_moments(fx)
    check_saved(fx, rows, folder)
    if report:
        check_report(fx, folder)
