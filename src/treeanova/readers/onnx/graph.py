"""The graph of an ONNX model: its tree operator with its attributes, after a check that nothing else changes scores."""

from __future__ import annotations

import dataclasses
import graphlib
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.data.features import Schema
from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import Forest, TreeBuilder, assemble, bound_below, bound_up_to
from treeanova.readers.checks import check_size, damaged

# Conditions, by the names of the older operators and in the order of the numbers of the newer one.
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)
_MAX_NODES = 2_000_000  # after shared nodes are copied
Range = tuple[float, float]
# A node of the file to be appended, the range of each feature there, and the list (of left or right children) and the
# position of the parent in which its position is to be written; None for a root.
_Waiting = tuple[int, dict[int, Range], list[int] | None, int]
Value = int | bytes
Message = dict[int, list[Value]]
TREES = ("TreeEnsembleRegressor", "TreeEnsembleClassifier", "TreeEnsemble")
_FLOAT, _DOUBLE = 1, 11  # types of tensors
_CODES = {_FLOAT: "<f4", 2: "<u1", 3: "<i1", 6: "<i4", 7: "<i8", _DOUBLE: "<f8"}


@dataclasses.dataclass(frozen=True)
class Conditions:
    """Inner nodes and leaves as an ONNX file has them, one entry per node."""

    feature: Ints
    threshold: Floats
    mode: Ints  # the comparison, a position in MODES; -1 at leaves
    true: Ints  # the child if the condition holds
    false: Ints
    tracks: Bools  # whether NaN counts as true
    is_double: bool  # whether numbers are compared in float64, else in float32


def with_chains(conditions: Conditions, sets: Sequence[Floats]) -> Conditions:
    """Replace each node that asks whether x is in a set (BRANCH_MEMBER) by a chain of equalities; one set per node."""
    asked = np.flatnonzero(conditions.mode == MEMBER)
    if len(asked) != len(sets) or any(not len(members) for members in sets):
        raise damaged(f"ONNX trees must have a set for each of {len(asked)} nodes, got others")
    if any(not np.isin(members, np.arange(1, 31)).all() for members in sets):
        raise UnsupportedModelError(
            "sets of ONNX trees (BRANCH_MEMBER) must hold whole numbers from 1 to 30, got others, for which "
            "onnxruntime cuts off fractions of its input; convert the model with equalities."
        )
    # All fields but the last, `is_double`, have an entry per node.
    columns = {field.name: list(getattr(conditions, field.name)) for field in dataclasses.fields(conditions)[:-1]}
    for node, members in zip(asked.tolist(), sets, strict=True):
        if_none = columns["false"][node]
        places = [
            node,
            *range(len(columns["mode"]), len(columns["mode"]) + len(members) - 1),
        ]  # the others are appended
        for place, if_other, member in zip(places, [*places[1:], if_none], members, strict=True):
            entry = (columns["feature"][node], member, EQ, columns["true"][node], if_other, columns["tracks"][node])
            for values, value in zip(columns.values(), entry, strict=True):
                values[place : place + 1] = [value]  # sets the entry, or appends it at the end
    arrays: dict[str, Any] = {name: np.array(columns[name], getattr(conditions, name).dtype) for name in columns}
    return dataclasses.replace(conditions, **arrays)


def forest_of_conditions(
    schema: Schema, intercept: Floats, conditions: Conditions, roots: Ints, values: Floats
) -> Forest:
    """Build the Forest; `values` has a row for each node of the file, which labels leaves."""
    mode, inner = conditions.mode, conditions.mode >= 0
    children = np.concatenate([conditions.true[inner], conditions.false[inner]])
    _check_links(conditions, roots, children)
    threshold = np.where(inner, conditions.threshold, 0.0)
    if conditions.is_double:
        up_to, below = threshold, np.nextafter(threshold, -np.inf)
    else:
        up_to, below = bound_up_to(threshold), bound_below(threshold)
    # A node has several parents if it is the outcome of a chain of equalities.
    if ((mode == EQ) | (mode == NEQ)).any() or len(np.unique(children)) < len(children):
        expansion = _Expansion(conditions, up_to, below, values)
        starts = [expansion.add_tree(int(root)) for root in roots]
        return expansion.trees.forest(schema, intercept, starts)
    swaps = (mode == GT) | (mode == GTE)  # a Forest goes left up to a bound: there, if the condition is false
    return assemble(
        schema,
        intercept,
        roots=roots,
        feature=np.where(inner, conditions.feature, -1),
        bound=np.where((mode == LEQ) | (mode == GT), up_to, below),
        left=np.where(inner, np.where(swaps, conditions.false, conditions.true), -1),
        right=np.where(inner, np.where(swaps, conditions.true, conditions.false), -1),
        missing_left=conditions.tracks != swaps,
        values=values,
        leaf_label=np.arange(len(mode)),
    )


def _check_links(conditions: Conditions, roots: Ints, children: Ints) -> None:
    """Raise an error for thresholds that are not finite, nodes that do not exist, and loops."""
    inner = conditions.mode >= 0
    if not np.isfinite(conditions.threshold[inner]).all():
        raise UnsupportedModelError("thresholds of ONNX trees must be finite, got others; convert the model again.")
    linked = np.concatenate([roots, children])
    if len(linked) and (linked.min() < 0 or linked.max() >= len(inner)):
        raise damaged("ONNX trees must have roots and children that exist, got others")
    # Nodes are removed once all of their parents are; none that comes after itself can be.
    n_parents = np.bincount(children, minlength=len(inner))
    free, n_taken = np.flatnonzero(n_parents == 0), 0
    while len(free):
        n_taken += len(free)
        taken = free[inner[free]]
        below = np.concatenate([conditions.true[taken], conditions.false[taken]])
        np.subtract.at(n_parents, below, 1)
        free = np.unique(below[n_parents[below] == 0])
    if n_taken < len(inner):
        raise damaged("ONNX trees must end in leaves, got a loop")
    if not len(roots):
        raise damaged("an ONNX model must have trees, got none")


class _Expansion:
    """Trees with equalities or shared nodes: x == t is two nodes, after which the branch of x != t comes twice.

    If the values that reach a node leave one answer only, the node is left out, so chains of equalities stay small.
    """

    def __init__(self, conditions: Conditions, up_to: Floats, below: Floats, values: Floats) -> None:
        self.conditions, self.values = conditions, values
        self.up_to, self.below = up_to.tolist(), below.tolist()
        self.trees = TreeBuilder()

    def add_tree(self, root: int) -> int:
        """Append the tree below a node of the file, and return the position of its root."""
        start = len(self.trees)
        # Nodes of the file with the range of each feature there, and where the parent keeps its child's position: in a
        # list (of left or right children), at the parent's own position.
        waiting: list[_Waiting] = [(root, {}, None, 0)]
        while waiting:
            node, ranges, children, parent = waiting.pop()
            node = self._first_undecided(node, ranges)
            check_size("trees with equalities", len(self.trees), _MAX_NODES)
            if children is not None:
                children[parent] = len(self.trees)
            waiting += self._append_condition(node, ranges)
        return start

    def _first_undecided(self, node: int, ranges: dict[int, Range]) -> int:
        """Follow equalities whose answer is certain for the ranges of features, and return the first node after."""
        conditions = self.conditions
        for _ in range(len(conditions.mode)):
            mode = conditions.mode[node]
            if mode not in {EQ, NEQ} or conditions.tracks[node]:
                return node
            low, high = ranges.get(int(conditions.feature[node]), (-np.inf, np.inf))
            if low < self.up_to[node] and self.below[node] < high:  # numbers equal to the threshold may get here
                return node
            node = int(conditions.false[node] if mode == EQ else conditions.true[node])
        raise damaged("the model's trees must reach each node once, got a loop")

    def _append_condition(self, node: int, ranges: dict[int, Range]) -> list[_Waiting]:
        """Append a node, with a second one on its left if it is an equality; return its children, to be appended."""
        # `ranges` has the numbers of each feature that get here, above the first up to the second.
        conditions, mode = self.conditions, int(self.conditions.mode[node])
        if mode < 0:
            self.trees.append(values=self.values[node], label=node)
            return []
        # Children if the condition holds or not, and whether NaN counts as true.
        true, false, tracks = int(conditions.true[node]), int(conditions.false[node]), bool(conditions.tracks[node])
        feature, left, right = int(conditions.feature[node]), self.trees.left, self.trees.right
        up_to, below = self.up_to[node], self.below[node]
        if mode not in {EQ, NEQ}:
            swaps = mode in {GT, GTE}  # their true child is on the right
            bound = up_to if mode in {LEQ, GT} else below
            position = self.trees.append(feature, bound, missing_left=tracks != swaps)
            if swaps:
                true, false = false, true
            return [(true, ranges, left, position), (false, ranges, right, position)]
        equal, other = (true, false) if mode == EQ else (false, true)
        low, high = ranges.get(feature, (-np.inf, np.inf))
        # NaN equals nothing; if it counts as true at x == t, it goes with equal values.
        position = self.trees.append(feature, up_to, missing_left=tracks and mode == EQ)
        second = left[position] = self.trees.append(feature, below)  # for x <= t: x < t, or equal
        return [
            (other, ranges | {feature: (low, min(high, below))}, left, second),
            (equal, ranges | {feature: (max(low, below), min(high, up_to))}, right, second),
            (other, ranges | {feature: (max(low, up_to), high)}, right, position),
        ]


def fields(data: bytes) -> Message:
    """Decode a protobuf message: return values by field number, whole numbers or bytes.

    >>> fields(bytes([8, 150, 1, 18, 2, 72, 105]))
    {1: [150], 2: [b'Hi']}
    """
    message: Message = {}
    position, end = 0, len(data)
    while position < end:
        key, position = _varint(data, position)
        kind = key & 7
        if kind == 0:
            value, position = _varint(data, position)
            message.setdefault(key >> 3, []).append(value)
            continue
        if kind == 2:
            size, position = _varint(data, position)
        elif kind in {1, 5}:
            size = 8 if kind == 1 else 4
        else:
            raise damaged(f"an ONNX file must hold fields of known kinds, got kind {kind}")
        if position + size > end:
            raise damaged("an ONNX file must hold whole fields, got one that ends early")
        message.setdefault(key >> 3, []).append(data[position : position + size])
        position += size
    return message


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Decode a protobuf number, groups of 7 bits, lowest first; return it and the position after it."""
    result = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise damaged("an ONNX file must hold whole numbers, got one that ends early")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFFFFFFFFFFFFFF, position
    raise damaged("an ONNX file must hold numbers of 64 bits, got a longer one")


def only_value(message: Message, number: int) -> Value:
    """Return the value of the field `number`, which may not be repeated."""
    if len(message[number]) > 1:
        raise damaged(f"an ONNX file must hold field {number} once, got it more often")
    return message[number][0]


def signed_number(value: Value) -> int:
    """Return a field's 64 bits as a signed number."""
    if isinstance(value, bytes):
        raise damaged("an ONNX file must hold a whole number here, got bytes")
    return value - (1 << 64) if value >= 1 << 63 else value


def as_bytes(value: Value) -> bytes:
    """Return a field that must be bytes; ModelFileError for a number."""
    if isinstance(value, int):
        raise damaged("an ONNX file must hold bytes here, got a number")
    return value


def as_text(value: Value) -> str:
    """Return a field that must be text, decoded."""
    try:
        return as_bytes(value).decode()
    except UnicodeDecodeError as error:
        raise damaged("an ONNX file must hold UTF-8 texts, got other bytes") from error


def integers(values: list[Value]) -> list[int]:
    """Decode the values of a repeated protobuf field of whole numbers, one by one or packed."""
    result: list[int] = []
    for value in values:
        if isinstance(value, int):
            result.append(signed_number(value))
            continue
        position = 0
        while position < len(value):
            number, position = _varint(value, position)
            result.append(signed_number(number))
    return result


def floats(values: list[Value], code: str = "f") -> list[float]:
    """Decode the values of a repeated protobuf field of float32 (code "f") or float64 ("d")."""
    data = b"".join(as_bytes(value) for value in values)
    size = struct.calcsize(code)
    if len(data) % size:
        raise damaged("an ONNX file must hold whole numbers of floats, got a part of one")
    return list(struct.unpack(f"<{len(data) // size}{code}", data))


@dataclasses.dataclass(frozen=True)
class Operator:
    """An operator of the graph; inputs and outputs are names of tensors."""

    kind: str  # its name in ONNX
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


def tree_operator(data: bytes) -> tuple[Operator, bool, int | None]:
    """Return the tree operator of a graph, whether its input is float64, and the number of columns, if it is stored."""
    model = fields(data)  # its field 7 is the graph, whose fields are 1 operators, 5 constants, 11 inputs, 12 outputs
    if 7 not in model:
        raise damaged("an ONNX file must hold a graph, got none")
    graph = fields(as_bytes(only_value(model, 7)))
    operators = [_decoded_operator(fields(as_bytes(value))) for value in graph.get(1, [])]
    trees = [operator for operator in operators if operator.kind in TREES]
    if len(trees) != 1:
        kinds = ", ".join(dict.fromkeys(operator.kind for operator in operators)) or "none"
        raise UnsupportedModelError(
            f"an ONNX model must have one tree operator ({', '.join(TREES)}), got {len(trees)} among {kinds}; "
            "decompose the model that was converted."
        )
    tree = trees[0]
    _check_connected(tree, operators, [as_text(only_value(fields(as_bytes(value)), 1)) for value in graph.get(12, [])])
    inputs = {name: kind for name, *kind in map(_decoded_input, graph.get(11, []))}
    source = _input_of_trees(tree.inputs[0], operators, inputs)
    _check_after(tree, operators, _constants_of_one(graph))
    number_type, n_columns = inputs[source]
    return tree, number_type == _DOUBLE, n_columns


def _decoded_operator(node: Message) -> Operator:
    """Decode a NodeProto: inputs in field 1, outputs in 2, the operator's name in 4, attributes in 5."""
    listed = [_decoded_attribute(fields(as_bytes(value))) for value in node.get(5, [])]
    attributes = dict(listed)
    if len(attributes) < len(listed):
        raise damaged("attributes of an ONNX file must have names of their own, got one twice")
    return Operator(
        as_text(only_value(node, 4)) if 4 in node else "",
        tuple(as_text(value) for value in node.get(1, [])),
        tuple(as_text(value) for value in node.get(2, [])),
        attributes,
    )


def _decoded_attribute(attribute: Message) -> tuple[str, Any]:
    """Decode an AttributeProto: name in field 1, a tensor in 5, else the field of its kind."""
    name = as_text(only_value(attribute, 1)) if 1 in attribute else ""
    if 5 in attribute:
        return name, _decoded_tensor(fields(as_bytes(only_value(attribute, 5))))
    for number, read in _KINDS.items():
        if number in attribute:
            return name, read(attribute[number])
    return name, None


# How values of an attribute are read, by the number of their field.
_KINDS: dict[int, Callable[[list[Value]], Any]] = {
    7: floats,
    8: integers,
    9: lambda values: [as_bytes(value) for value in values],
    4: lambda values: as_bytes(values[0]),
    3: lambda values: signed_number(values[0]),
    2: lambda values: floats(values)[0],
}


def _decoded_tensor(tensor: Message) -> npt.NDArray[Any]:
    """Decode a TensorProto: type in field 2, raw bytes in 9, else the field of its type (4, 5, 7, 10)."""
    kind = integers([only_value(tensor, 2)]) if 2 in tensor else []
    if not kind or kind[0] not in _CODES or 13 in tensor:
        raise UnsupportedModelError(
            "tensors of an ONNX model must hold plain numbers in the file itself, got another type or external data; "
            "save the model as one file."
        )
    code = np.dtype(_CODES[kind[0]])
    if 9 in tensor:
        data = as_bytes(only_value(tensor, 9))
        if len(data) % code.itemsize:
            raise damaged("tensors of an ONNX file must hold whole numbers, got a part of one")
        return np.frombuffer(data, dtype=code)
    if kind[0] == _FLOAT:
        return np.array(floats(tensor.get(4, [])), dtype=code)
    if kind[0] == _DOUBLE:
        return np.array(floats(tensor.get(10, []), "d"), dtype=code)
    return np.array(integers(tensor.get(7 if kind[0] == 7 else 5, [])), dtype=code)


def _decoded_input(value: Value) -> tuple[str, int, int | None]:
    """Decode a ValueInfoProto: return its name, type (0 if it is no tensor) and number of columns, if stored."""
    info = fields(as_bytes(value))
    name = as_text(only_value(info, 1))
    kind = fields(as_bytes(only_value(info, 2))) if 2 in info else {}
    if 1 not in kind:
        return name, 0, None
    tensor = fields(as_bytes(only_value(kind, 1)))
    shape = fields(as_bytes(only_value(tensor, 2))).get(1, []) if 2 in tensor else []
    columns = fields(as_bytes(shape[1])).get(1, []) if len(shape) == 2 else []
    n_columns = signed_number(columns[0]) if columns else 0
    return name, integers(tensor.get(1, [0]))[0], n_columns if n_columns > 0 else None


def _check_connected(tree: Operator, operators: Sequence[Operator], outputs: Sequence[str]) -> None:
    """Raise ModelFileError if outputs of the graph come from operators in a loop, or none comes from the trees."""
    makers = {name: number for number, operator in enumerate(operators) for name in operator.outputs if name}
    sources: dict[int, list[int]] = {}
    waiting = [makers[name] for name in (*tree.outputs, *outputs) if name in makers]
    while waiting:
        number = waiting.pop()
        if number not in sources:
            sources[number] = [makers[name] for name in operators[number].inputs if name in makers]
            waiting += sources[number]
    try:
        order = list(graphlib.TopologicalSorter(sources).static_order())
    except graphlib.CycleError as error:
        raise damaged("the operators of an ONNX model must follow each other, got a loop") from error
    from_trees = set(tree.outputs)
    for number in order:
        if not from_trees.isdisjoint(operators[number].inputs):
            from_trees |= set(operators[number].outputs)
    if outputs and from_trees.isdisjoint(outputs):
        raise damaged("an output of an ONNX model must come from its trees, got none that does")


def _input_of_trees(name: str, operators: Sequence[Operator], inputs: dict[str, list[Any]]) -> str:
    """Return the graph's input that becomes the tensor `name`, which the trees see; refuse changes in between."""
    makers = {output: operator for operator in operators for output in operator.outputs}
    while name not in inputs:
        maker = makers.get(name)
        if maker is None or maker.kind != "Identity":
            kind = "a constant" if maker is None else maker.kind
            raise UnsupportedModelError(
                f"the trees of an ONNX model must see its input itself, got {kind} before them; convert the trees "
                "without the steps before them, and decompose these on transformed data."
            )
        name = maker.inputs[0]
    if inputs[name][0] not in {_FLOAT, _DOUBLE}:
        raise UnsupportedModelError(
            "the input of an ONNX model must be a tensor of float or double, got another type; convert the model with "
            "such an input."
        )
    return name


def _constants_of_one(graph: Message) -> set[str]:
    """Return names of constants that are 1, by which LightGBM's converter multiplies probabilities."""
    # Field 5 of a graph has its constants, TensorProtos: name in field 8, type in 2; 13 says that data are elsewhere.
    tensors = [fields(as_bytes(value)) for value in graph.get(5, [])]
    named = [tensor for tensor in tensors if 8 in tensor and 13 not in tensor]
    numbers = [tensor for tensor in named if integers(tensor.get(2, [0]))[0] in _CODES]
    return {as_text(tensor[8][0]) for tensor in numbers if _decoded_tensor(tensor).tolist() == [1]}


def _check_after(tree: Operator, operators: Sequence[Operator], ones: set[str]) -> None:
    """Raise UnsupportedModelError if operators after the trees change scores; `ones` are constants equal to 1."""
    scores = {tree.outputs[-1]}  # tensors that have the trees' scores, to which operators add theirs
    has_users = True
    while has_users:
        users = [o for o in operators if scores & set(o.inputs) and not set(o.outputs) <= scores]
        for operator in users:
            keeps_scores = (
                operator.kind in {"Identity", "ZipMap"}
                or (operator.kind == "Cast" and operator.attributes.get("to") in {_FLOAT, _DOUBLE})
                or (operator.kind == "Mul" and len(set(operator.inputs) & ones) == 1)
            )
            if not keeps_scores:
                raise UnsupportedModelError(
                    f"scores of an ONNX model must be those of its trees, got {operator.kind} after them; decompose "
                    "the model that was converted."
                )
            scores |= set(operator.outputs)
        has_users = bool(users)
