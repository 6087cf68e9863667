"""Forest: any tree ensemble as frozen flat arrays, with a simple, exact way to evaluate it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import ROUNDING, Bools, Floats, Ints
from treeanova.core.compiled import Kernel, is_worthwhile
from treeanova.data.features import Schema
from treeanova.errors import ModelFileError
from treeanova.model.axes import Axis
from treeanova.model.rows import Rows

# What the compiled walk needs of a Forest.
NODE_ARRAYS = (
    "roots", "feature", "bound", "left", "right", "missing_left", "zero_missing", "category_start", "category_left",
    "leaf",
)  # fmt: skip
# LightGBM treats |x| <= this as zero; it is float32(1e-35).
NEAR_ZERO = float(np.float32(1e-35))
# From here on, numbers round to infinity in float32.
_FLOAT32_OVERFLOW = 2.0**128 - 2.0**103
_CHUNK = 1 << 18  # rows times trees at once
_SECONDS_PER_WALK = 1e-6  # of a row through a tree, by numpy


@Kernel
def leaves_reached(encoded: Floats, nodes: tuple[npt.NDArray[Any], ...], near_zero: float) -> Ints:
    """Return the leaf that each row reaches in each tree, shape (n_rows, n_trees); `nodes` are NODE_ARRAYS."""
    roots, feature, bound, left, right, missing_left, zero_missing, category_start, category_left, leaf = nodes
    reached = np.empty((len(encoded), len(roots)), dtype=np.int64)
    for tree in range(len(roots)):
        for row in range(len(encoded)):
            node = roots[tree]
            while feature[node] >= 0:
                value = encoded[row, feature[node]]
                if np.isnan(value) or (zero_missing[node] and abs(value) <= near_zero):
                    goes_left = missing_left[node]
                elif category_start[node] >= 0:
                    goes_left = category_left[category_start[node] + np.int64(value)]
                else:
                    goes_left = value <= bound[node]
                node = left[node] if goes_left else right[node]
            reached[row, tree] = leaf[node]
    return reached


@dataclasses.dataclass(frozen=True, eq=False)
class Forest:
    """All trees of an ensemble, node by node; leaf values include the weights of trees.

    At a node with a closed bound u, a row goes left if x <= u in float64, whatever the library's rule; at a node with a
    category set, if the set contains its code. Missing values (and, at `zero_missing` nodes, values within ±NEAR_ZERO)
    go left if `missing_left`.

    Attributes
    ----------
    schema
        Features, outputs, link.
    intercept
        Shape (n_outputs,).
    roots
        Node of each tree's root, shape (n_trees,).
    feature, bound, left, right, missing_left, zero_missing
        One entry per node; at a leaf `feature` is -1 and `left` and `right` are the node itself.
    category_start, category_left
        `category_left[category_start[node] + code]` tells whether a code (the last one: unseen) goes left; the start is
        -1 at numeric nodes.
    leaf
        Position of each leaf node among the leaves, -1 at other nodes.
    values
        Leaf values, shape (n_leaves, n_outputs).
    leaf_label
        The library's number of each leaf.

    Examples
    --------
    >>> import treeanova
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> forest = treeanova.read_model(DecisionTreeRegressor().fit([[0.0], [1.0]], [3, 5]))
    >>> forest.n_trees, forest.n_leaves, forest.bound[forest.roots].round(6).tolist()
    (1, 2, [0.5])
    """

    schema: Schema
    intercept: Floats
    roots: Ints
    feature: Ints
    bound: Floats
    left: Ints
    right: Ints
    missing_left: Bools
    zero_missing: Bools
    category_start: Ints
    category_left: Bools
    leaf: Ints
    values: Floats
    leaf_label: Ints

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            array = getattr(self, field.name)
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    @property
    def n_trees(self) -> int:
        return len(self.roots)

    @property
    def n_leaves(self) -> int:
        return len(self.values)

    @property
    def rounding(self) -> Floats:
        """Rounding error of a sum of one leaf per tree, shape (n_outputs,): all that is left if trees cancel out."""
        return ROUNDING * (np.abs(self.values).sum(axis=0) * self.n_trees / max(self.n_leaves, 1))

    @property
    def tree_of_leaves(self) -> Ints:
        """Number of the tree of each leaf, found level by level from all roots at once."""
        tree_of_leaf = np.zeros(self.n_leaves, dtype=np.int64)
        nodes, tree_of_node = self.roots, np.arange(self.n_trees)  # of one level of all trees
        while len(nodes):
            is_leaf = self.feature[nodes] < 0
            tree_of_leaf[self.leaf[nodes[is_leaf]]] = tree_of_node[is_leaf]
            inner, tree_of_node = nodes[~is_leaf], np.tile(tree_of_node[~is_leaf], 2)
            nodes = np.concatenate([self.left[inner], self.right[inner]])
        return tree_of_leaf

    @property
    def n_library_leaves(self) -> int:
        """Number of leaves in the library's own trees: fewer than `n_leaves` if a reader split some."""
        labels = np.unique(self.leaf_label, return_inverse=True)[1].ravel()
        return len(np.unique(self.tree_of_leaves * len(labels) + labels))

    def with_schema(self, schema: Schema) -> Forest:
        return dataclasses.replace(self, schema=schema)

    def thresholds_of(self, feature: int) -> Floats:  # of all nodes that split on it, not sorted
        return self.bound[(self.feature == feature) & np.isfinite(self.bound)]

    @property
    def n_outputs(self) -> int:
        return len(self.intercept)

    def leaf_ids(self, X: Any) -> Ints:
        """Return the library's number of the leaf that each row reaches, shape (n_rows, n_trees)."""
        encoded = Rows.of(X, self.schema).values
        result = np.empty((len(encoded), self.n_trees), dtype=np.int64)
        for rows, leaves in self._leaves_in_chunks(encoded):
            result[rows] = self.leaf_label[leaves]
        return result

    def score(self, X: Any) -> Floats:
        """Return the raw prediction in float64.

        Parameters
        ----------
        X
            Rows: numpy, pandas, polars, pyarrow or scipy.sparse; or `Rows`, encoded or in bins.

        Returns
        -------
        numpy.ndarray
            Shape (n_rows, n_outputs).

        Examples
        --------
        >>> import treeanova
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> forest = treeanova.read_model(DecisionTreeRegressor().fit([[0.0], [1.0]], [3, 5]))
        >>> forest.score([[0.0], [1.0]]).tolist()
        [[3.0], [5.0]]
        """
        encoded = Rows.of(X, self.schema).values
        result = np.empty((len(encoded), self.n_outputs))
        for rows, leaves in self._leaves_in_chunks(encoded):
            result[rows] = self.intercept + self.values[leaves].sum(axis=1)
        return result

    def _leaves_in_chunks(self, encoded: Floats) -> Iterator[tuple[slice, Ints]]:
        """Yield slices of rows and the leaves that they reach, (n_rows, n_trees); compiled if there are many in all."""
        is_large = is_worthwhile(len(encoded) * self.n_trees * _SECONDS_PER_WALK)
        nodes = tuple(getattr(self, name) for name in NODE_ARRAYS) if is_large else None
        n_rows = max(1, _CHUNK // max(1, self.n_trees))
        for rows in (slice(start, start + n_rows) for start in range(0, len(encoded), n_rows)):
            yield rows, leaves_reached(encoded[rows], nodes, NEAR_ZERO) if nodes else self.leaves(encoded[rows])

    def leaves(self, encoded: Floats) -> Ints:
        """Return the leaf that each row reaches in each tree, shape (n_rows, n_trees), without compiled code."""
        node = np.repeat(self.roots[None], len(encoded), axis=0)
        rows = np.arange(len(encoded))[:, None]
        while True:
            feature = self.feature[node]
            if (feature < 0).all():
                return self.leaf[node]
            goes_left = self.goes_left(node, encoded[rows, feature])
            node = np.where(goes_left, self.left[node], self.right[node])

    def goes_left(self, node: Ints, values: Floats) -> Bools:
        """Return whether each value goes left at its node; both arrays have the same shape."""
        missing = np.isnan(values)
        goes = values <= self.bound[node]
        start = self.category_start[node]  # -1 at numeric nodes
        if len(self.category_left):
            code = np.where(missing | (start < 0), 0, values).astype(np.int64)  # 0 stands in where there is no code
            goes = np.where(start >= 0, self.category_left[np.maximum(start, 0) + code], goes)
        if self.zero_missing.any():
            missing |= self.zero_missing[node] & (np.abs(values) <= NEAR_ZERO)
        return np.where(missing, self.missing_left[node], goes)


def assemble(
    schema: Schema,
    intercept: npt.ArrayLike,
    *,
    roots: npt.ArrayLike,
    feature: npt.ArrayLike,
    bound: npt.ArrayLike,
    left: npt.ArrayLike,
    right: npt.ArrayLike,
    missing_left: npt.ArrayLike,
    values: npt.ArrayLike,
    leaf_label: npt.ArrayLike,
    zero_missing: npt.ArrayLike | None = None,
    category_start: npt.ArrayLike | None = None,
    category_left: npt.ArrayLike = (),
) -> Forest:
    """Return a checked Forest from the nodes of all trees, without nodes that no root reaches (left by pruning).

    Arguments have one entry per node and the meaning that they have in `Forest`, except:

    - `left` and `right` are negative at leaves, where `feature` is not used;
    - `values` (one row of outputs) and `leaf_label` are used at leaves only;
    - by default, `zero_missing` is False, and no node splits by categories.

    Raises ModelFileError for children or features out of range, nodes reached twice, NaN bounds and values that are not
    finite.
    """
    left, right = np.array(left, dtype=np.int64), np.array(right, dtype=np.int64)
    roots = np.asarray(roots, dtype=np.int64)
    is_leaf = (left < 0) | (right < 0)
    is_reached = _reachable(roots, left, right, is_leaf)
    is_leaf, itself, position = is_leaf[is_reached], np.arange(is_reached.sum()), np.cumsum(is_reached) - 1
    zero = np.zeros(len(left), bool) if zero_missing is None else np.asarray(zero_missing, bool)
    start = np.full(len(left), -1) if category_start is None else np.asarray(category_start, dtype=np.int64)
    nodes = {
        "feature": np.where(is_leaf, -1, np.asarray(feature, dtype=np.int64)[is_reached]),
        "bound": np.asarray(bound, dtype=np.float64)[is_reached],
        "left": np.where(is_leaf, itself, position[np.maximum(left[is_reached], 0)]),
        "right": np.where(is_leaf, itself, position[np.maximum(right[is_reached], 0)]),
        "missing_left": np.asarray(missing_left, dtype=bool)[is_reached],
        "zero_missing": zero[is_reached],
        "category_start": np.where(is_leaf, -1, start[is_reached]),
        "leaf": np.where(is_leaf, np.cumsum(is_leaf) - 1, -1),
    }
    forest = Forest(
        schema=schema,
        intercept=np.atleast_1d(np.array(intercept, dtype=np.float64)),
        roots=position[roots],
        category_left=np.asarray(category_left, dtype=bool),
        values=np.asarray(values, dtype=np.float64)[is_reached][is_leaf],
        leaf_label=np.asarray(leaf_label, dtype=np.int64)[is_reached][is_leaf],
        **nodes,
    )
    _check_forest(forest)
    return forest


class TreeBuilder:
    """Nodes of trees, appended one by one, for readers that walk the trees of a model.

    Examples
    --------
    One tree: 1 for ages up to 40, else 3.

    >>> import treeanova
    >>> trees = TreeBuilder()
    >>> root = trees.append(feature=0, bound=40)
    >>> trees.link(root, trees.append(values=[1]), trees.append(values=[3]))
    >>> schema = treeanova.model.Schema((treeanova.model.Feature("age"),))
    >>> trees.forest(schema, intercept=0.0, roots=[root]).score([[40], [41]]).ravel().tolist()
    [1.0, 3.0]
    """

    def __init__(self) -> None:
        self.left: list[int] = []
        self.right: list[int] = []
        names = ("feature", "bound", "missing_left", "zero_missing", "values", "leaf_label")
        self._columns: dict[str, list[Any]] = {name: [] for name in names}
        self._categories: list[Bools] = []

    def __len__(self) -> int:
        return len(self.left)

    def append(
        self,
        feature: int = -1,
        bound: float = 0.0,
        *,
        missing_left: bool = False,
        zero_missing: bool = False,
        categories: Sequence[bool] | Bools = (),
        values: npt.ArrayLike | None = None,
        label: int | None = None,
    ) -> int:
        """Append a node without children and return its position, by default the label of a leaf.

        `categories`: whether each category goes left, the last entry for unseen ones; empty for a split at a bound.
        `values`: those of a leaf, one per output.
        """
        position = len(self)
        row = (feature, bound, missing_left, zero_missing, values, position if label is None else label)
        for column, entry in zip(self._columns.values(), row, strict=True):
            column.append(entry)
        self._categories.append(np.asarray(categories, dtype=bool))
        self.left.append(-1)
        self.right.append(-1)
        return position

    def link(self, node: int, left: int, right: int) -> None:  # a node to its children
        self.left[node], self.right[node] = left, right

    def forest(self, schema: Schema, intercept: npt.ArrayLike, roots: npt.ArrayLike) -> Forest:  # of all nodes so far
        n_categories = np.array([len(categories) for categories in self._categories], dtype=np.int64)  # of each node
        zero = np.zeros(len(schema.outputs))
        values = [zero if leaf is None else leaf for leaf in self._columns["values"]] or np.zeros((0, len(zero)))
        return assemble(
            schema,
            intercept,
            roots=roots,
            left=self.left,
            right=self.right,
            category_start=np.where(n_categories > 0, np.cumsum(n_categories) - n_categories, -1),
            category_left=np.concatenate([np.zeros(0, dtype=bool), *self._categories]),
            **self._columns | {"values": values},
        )


def _reachable(roots: Ints, left: Ints, right: Ints, is_leaf: Bools) -> Bools:
    """Return whether roots reach each node; raise ModelFileError for nodes that do not exist or are reached twice."""
    reached = np.zeros(len(left), dtype=bool)
    frontier, n_reached = roots, 0
    while len(frontier):
        if frontier.min() < 0 or frontier.max() >= len(left):
            raise ModelFileError(
                f"the model's trees must link nodes that exist, got nodes {frontier.min()} to {frontier.max()} of "
                f"{len(left)}; file damaged?"
            )
        reached[frontier] = True
        n_reached += len(frontier)
        if np.count_nonzero(reached) < n_reached:
            raise ModelFileError("the model's trees must reach each node once, got a loop; file damaged?")
        inner = frontier[~is_leaf[frontier]]
        frontier = np.concatenate([left[inner], right[inner]])
    return reached


def _check_forest(forest: Forest) -> None:
    """Raise ModelFileError for features out of range, NaN bounds, and wrong or infinite leaf values."""
    is_inner, n_features = forest.leaf < 0, len(forest.schema.features)
    feature = forest.feature[is_inner]
    if feature.min(initial=0) < 0 or feature.max(initial=-1) >= n_features:
        wrong = feature[(feature < 0) | (feature >= n_features)][0]
        raise ModelFileError(f"the model's trees must split on {n_features} features, got {wrong}; file damaged?")
    shapes = (forest.n_outputs, *forest.values.shape[1:])
    if shapes != (len(forest.schema.outputs),) * 2:
        raise ModelFileError(
            f"the model must have values for each of {len(forest.schema.outputs)} outputs, got {shapes}; file damaged?"
        )
    if np.isnan(forest.bound[is_inner & (forest.category_start < 0)]).any():
        raise ModelFileError("the model's thresholds must be numbers, got NaN; file damaged?")
    for name, array in (("intercept", forest.intercept), ("leaf values", forest.values)):
        if not np.isfinite(array).all():
            raise ModelFileError(
                f"the model's {name} must be finite, got {array[~np.isfinite(array)][0]}; file damaged?"
            )


def bound_below(threshold: npt.ArrayLike) -> Floats:
    """Return closed float64 bounds u such that x <= u exactly if float32(x) < threshold, for float32 thresholds."""
    # u is the midpoint between the threshold and the float32 before it if that rounds down, else the float64 before it.
    single = np.asarray(threshold, dtype=np.float32)
    with np.errstate(over="ignore"):
        before = np.nextafter(single, np.float32(-np.inf))
        middle = (before.astype(np.float64) + single.astype(np.float64)) / 2
        middle = np.where(np.isinf(middle), np.copysign(_FLOAT32_OVERFLOW, middle), middle)
        return np.where(middle.astype(np.float32) < single, middle, np.nextafter(middle, -np.inf))


def bound_up_to(threshold: npt.ArrayLike) -> Floats:
    """Return closed float64 bounds u such that x <= u exactly if float32(x) <= threshold, a float32 or float64."""
    double = np.asarray(threshold, dtype=np.float64)
    with np.errstate(over="ignore"):
        single = double.astype(np.float32)  # rounded down: the last float32 up to the threshold
        single = np.where(single.astype(np.float64) > double, np.nextafter(single, np.float32(-np.inf)), single)
        above = np.nextafter(single, np.float32(np.inf))
    return np.where(np.isposinf(single), np.inf, bound_below(above))


def weighted_sum(forests: Sequence[Forest], factors: Sequence[float]) -> Forest:
    """Return a forest with the trees of all, whose score is Σ factor × score; raise ValueError if schemas differ."""
    first = forests[0]
    for forest in forests[1:]:
        # Labels of classes may differ, since files do not store them.
        schema, other_schema = (dataclasses.replace(summand.schema, classes=()) for summand in (first, forest))
        if schema != other_schema:
            # The first field that differs; by text, because NaN does not equal itself.
            names = [field.name for field in dataclasses.fields(schema)]
            different = next(name for name in names if repr(getattr(schema, name)) != repr(getattr(other_schema, name)))
            raise ValueError(
                "models must have the same features, categories, outputs and link to be combined, got different "
                f"{different}; train them on the same columns."
            )
    # Where the nodes, leaves and category sets of each forest start among those of all.
    nodes = np.cumsum([0, *(len(forest.feature) for forest in forests)])
    leaves = np.cumsum([0, *(forest.n_leaves for forest in forests)])
    sets = np.cumsum([0, *(len(forest.category_left) for forest in forests)])
    starts = {"roots": nodes, "left": nodes, "right": nodes, "leaf": leaves, "category_start": sets}
    shifted: dict[str, Any] = {
        name: _shifted([getattr(forest, name) for forest in forests], starts[name]) for name in starts
    }
    plain = ("feature", "bound", "missing_left", "zero_missing", "category_left", "leaf_label")
    return Forest(
        schema=first.schema,
        intercept=np.sum([factor * forest.intercept for factor, forest in zip(factors, forests, strict=True)], axis=0),
        **shifted,
        values=np.concatenate([factor * forest.values for factor, forest in zip(factors, forests, strict=True)]),
        **{name: np.concatenate([getattr(forest, name) for forest in forests]) for name in plain},
    )


def _shifted(positions: Sequence[Ints], starts: Ints) -> Ints:
    """Return positions in several lists as positions in their concatenation, where each list starts; -1 stays."""
    pairs = zip(positions, starts, strict=False)  # the last start is the end of all
    return np.concatenate([np.where(array >= 0, array + start, array) for array, start in pairs])


def goes_left(forest: Forest, axis: Axis, nodes: Ints) -> Bools:
    """Return whether each bin of a feature goes left at nodes that split on it, shape (n_nodes, n_bins)."""
    if axis.is_ordered:
        goes = np.arange(axis.size) <= np.searchsorted(axis.thresholds, forest.bound[nodes])[:, None]
        zero = forest.zero_missing[nodes]
        if zero.any():
            # Bounds of other nodes may lie between ±NEAR_ZERO and split it into several bins.
            first, last = np.searchsorted(axis.thresholds, [-NEAR_ZERO, NEAR_ZERO])
            goes[zero, first : last + 1] = forest.missing_left[nodes][zero][:, None]
    else:
        n_categories, start = axis.n_regular, forest.category_start[nodes]
        goes = np.zeros((len(nodes), axis.size), dtype=bool)
        goes[:, :n_categories] = forest.category_left[start[:, None] + np.arange(n_categories)]
        if axis.unseen >= 0:
            goes[:, axis.unseen] = forest.category_left[start + n_categories]
    if axis.missing_bin >= 0:
        goes[:, axis.missing_bin] = forest.missing_left[nodes]
    return goes
