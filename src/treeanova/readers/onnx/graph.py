"""The graph of an ONNX model: its tree operator with its attributes, after a check that nothing else changes scores."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.readers.onnx.protobuf import Message, Value, fields, floats, integers, raw, signed, single, text

TREES = ("TreeEnsembleRegressor", "TreeEnsembleClassifier", "TreeEnsemble")
_FLOAT, _DOUBLE = 1, 11  # types of tensors
_CODES = {_FLOAT: "<f4", 2: "<u1", 3: "<i1", 6: "<i4", 7: "<i8", _DOUBLE: "<f8"}


@dataclasses.dataclass(frozen=True)
class Operator:
    """One operator of a graph: its kind, its attributes, and names of what goes in and out."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class TreeOperator:
    """The tree operator of a graph, whether its input is float64, and the number of columns, if it is stored."""

    operator: Operator
    is_double: bool
    n_columns: int | None


def tree_operator(data: bytes) -> TreeOperator:
    """The tree operator of a serialised model; UnsupportedModelError if the graph does more."""
    model = fields(data)
    if 7 not in model:
        raise ModelFileError("an ONNX file must hold a graph, got none; file damaged?")
    graph = fields(raw(single(model, 7)))
    operators = [_operator(fields(raw(value))) for value in graph.get(1, [])]
    trees = [operator for operator in operators if operator.kind in TREES]
    if len(trees) != 1:
        kinds = ", ".join(dict.fromkeys(operator.kind for operator in operators)) or "none"
        raise UnsupportedModelError(
            f"an ONNX model must have one tree operator ({', '.join(TREES)}), got {len(trees)} among {kinds}; "
            "decompose the model that was converted."
        )
    tree = trees[0]
    inputs = {name: kind for name, *kind in map(_input, graph.get(11, []))}
    source = _source(tree.inputs[0], operators, inputs)
    _check_after(tree, operators, _ones(graph))
    elem_type, n_columns = inputs[source]
    return TreeOperator(tree, elem_type == _DOUBLE, n_columns)


def _operator(node: Message) -> Operator:
    listed = [_attribute(fields(raw(value))) for value in node.get(5, [])]
    attributes = dict(listed)
    if len(attributes) < len(listed):
        raise ModelFileError("attributes of an ONNX file must have names of their own, got one twice; file damaged?")
    return Operator(
        text(single(node, 4)) if 4 in node else "",
        tuple(text(value) for value in node.get(1, [])),
        tuple(text(value) for value in node.get(2, [])),
        attributes,
    )


def _attribute(attribute: Message) -> tuple[str, Any]:
    """Name and value of an attribute: a number, bytes, a list, or an array."""
    name = text(single(attribute, 1)) if 1 in attribute else ""
    if 5 in attribute:
        return name, _tensor(fields(raw(single(attribute, 5))))
    for number, read in _KINDS.items():
        if number in attribute:
            return name, read(attribute[number])
    return name, None


# How values of an attribute are read, by the number of their field.
_KINDS: dict[int, Callable[[list[Value]], Any]] = {
    7: floats,
    8: integers,
    9: lambda values: [raw(value) for value in values],
    4: lambda values: raw(values[0]),
    3: lambda values: signed(values[0]),
    2: lambda values: floats(values)[0],
}


def _tensor(tensor: Message) -> npt.NDArray[Any]:
    """A tensor of numbers as a flat array."""
    kind = integers([single(tensor, 2)]) if 2 in tensor else []
    if not kind or kind[0] not in _CODES or 13 in tensor:
        raise UnsupportedModelError(
            "tensors of an ONNX model must hold plain numbers in the file itself, got another type or external data; "
            "save the model as one file."
        )
    code = np.dtype(_CODES[kind[0]])
    if 9 in tensor:
        data = raw(single(tensor, 9))
        if len(data) % code.itemsize:
            raise ModelFileError("tensors of an ONNX file must hold whole numbers, got a part of one; file damaged?")
        return np.frombuffer(data, dtype=code)
    if kind[0] == _FLOAT:
        return np.array(floats(tensor.get(4, [])), dtype=code)
    if kind[0] == _DOUBLE:
        return np.array(floats(tensor.get(10, []), "d"), dtype=code)
    return np.array(integers(tensor.get(7 if kind[0] == 7 else 5, [])), dtype=code)


def _input(value: Value) -> tuple[str, int, int | None]:
    """Name of an input, the type of its entries (0 if it is no tensor) and the number of its columns."""
    info = fields(raw(value))
    name = text(single(info, 1))
    kind = fields(raw(single(info, 2))) if 2 in info else {}
    if 1 not in kind:
        return name, 0, None
    tensor = fields(raw(single(kind, 1)))
    shape = fields(raw(single(tensor, 2))).get(1, []) if 2 in tensor else []
    columns = fields(raw(shape[1])).get(1, []) if len(shape) == 2 else []
    return name, integers(tensor.get(1, [0]))[0], (signed(columns[0]) if columns and signed(columns[0]) > 0 else None)


def _source(name: str, operators: Sequence[Operator], inputs: dict[str, list[Any]]) -> str:
    """The graph's input that a tree operator sees, with nothing between that changes columns."""
    makers = {output: operator for operator in operators for output in operator.outputs}
    n_steps = 0
    while name not in inputs:
        n_steps += 1
        if n_steps > len(operators):
            raise ModelFileError("the operators of an ONNX model must follow each other, got a loop; file damaged?")
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


def _ones(graph: Message) -> set[str]:
    """Names of constants that are 1, by which LightGBM's converter multiplies probabilities."""
    tensors = [fields(raw(value)) for value in graph.get(5, [])]
    return {text(tensor[8][0]) for tensor in tensors if 8 in tensor and _is_one(tensor)}


def _is_one(tensor: Message) -> bool:
    is_number = 13 not in tensor and integers(tensor.get(2, [0]))[0] in _CODES
    return is_number and _tensor(tensor).tolist() == [1]


def _check_after(tree: Operator, operators: Sequence[Operator], ones: set[str]) -> None:
    """Raise UnsupportedModelError if scores are changed after the trees; labels of a classifier may be."""
    scores = {tree.outputs[-1]}
    is_found = True
    while is_found:
        users = [o for o in operators if scores & set(o.inputs) and not set(o.outputs) <= scores]
        for operator in users:
            keeps = (
                operator.kind in {"Identity", "ZipMap"}
                or (operator.kind == "Cast" and operator.attributes.get("to") in {_FLOAT, _DOUBLE})
                or (operator.kind == "Mul" and len(set(operator.inputs) & ones) == 1)
            )
            if not keeps:
                raise UnsupportedModelError(
                    f"scores of an ONNX model must be those of its trees, got {operator.kind} after them; decompose "
                    "the model that was converted."
                )
            scores |= set(operator.outputs)
        is_found = bool(users)
