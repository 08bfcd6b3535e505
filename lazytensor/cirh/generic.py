"""Write graphs in MLIR's generic form, for xDSL, and for mlir-opt since release 15 with unregistered dialects.

A module holds one function `graph`. Its arguments are the leaves, described in `arg_attrs`. Its results are the new
state and then the outputs, with their names in `res_attrs`. Operations are those of this package under the name of a
dialect: `torch.aten.add` as traced, `cirh.add` as lowered. `generic_parser` reads the text.
"""

import math
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from lazytensor.cirh.listing import dense_text, type_text
from lazytensor.core.dtype import DType, bfloat16
from lazytensor.errors import CompileError
from lazytensor.ir.graph import Graph, Node
from lazytensor.ir.types import Type

ATEN_DIALECT, CIRH_DIALECT = "torch.aten", "cirh"
"""The dialects: for traced and for lowered graphs."""
LEAF_OPS = ("batch", "state")
CONSTANT_OPS = ("const", "leaf")
"""Operations without operands whose attribute in the text is the array `value`."""
LEAF_ATTRIBUTE_PREFIX = "lt."
"""Prefix of the name of each attribute of a leaf."""


def generic_text(graph: Graph, dialect: str = ATEN_DIALECT) -> str:
    """Return the graph as a module with one function. `dialect` is the prefix of the operations' names.

    cbfloat16, which MLIR does not have, is written as f16. Raise CompileError for an attribute that has no text.
    """
    return generic_module(graph, lambda n: (f"{dialect}.{n.op}", node_attributes(n)))


def generic_module(graph: Graph, spell: Callable[[Node], tuple[str, str]]) -> str:
    """Return the graph as a module with one function.

    `spell(node)` returns the full name of the node's operation and the text of its attributes, "" if there are none.
    It is not called for leaves of the step and for nodes that pick one of several results.
    """
    leaves, operations, names = number_values(graph)
    lines = [f"    {_operation(n, names, *spell(n))}" for n in operations]
    roots = graph.roots()
    results = ", ".join(type_text(r.type) for r in roots)
    arguments = ", ".join(f"{names[n]}: {type_text(n.type)}" for n in leaves)
    signature = f"({', '.join(type_text(n.type) for n in leaves)}) -> ({results})"
    of_leaves = ", ".join(map(leaf_attributes, leaves))
    of_results = ", ".join(result_attributes(graph))
    return "\n".join(
        [
            '"builtin.module"() ({',
            '  "func.func"() ({',
            f"  ^bb0({arguments}):",
            *lines,
            f'    "func.return"({", ".join(names[r] for r in roots)}) : ({results}) -> ()',
            # Written after the region, not before it as properties, which releases before 17 cannot read.
            f"  }}) {{arg_attrs = [{of_leaves}], function_type = {signature}, res_attrs = [{of_results}], "
            'sym_name = "graph"} : () -> ()',
            "}) : () -> ()",
            "",
        ]
    )


def number_values(graph: Graph) -> tuple[list[Node], list[Node], dict[Node, str]]:
    """Return the arguments of the function, the operations of its body in order, and the name of each node's value."""
    nodes = graph.nodes()
    # A leaf that is not in the graph's inputs or state is an argument too, so that the text is complete.
    leaves = list(dict.fromkeys([*graph.inputs, *graph.state.values(), *(n for n in nodes if n.op in LEAF_OPS)]))
    names = {n: f"%arg{i}" for i, n in enumerate(leaves)}
    operations: list[Node] = []
    for n in nodes:
        if n.op == "result":
            names[n] = f"{names[n.inputs[0]]}#{n.attrs['index']}"
        elif n not in names:
            names[n] = f"%{len(operations)}"
            operations.append(n)
    return leaves, operations, names


def leaf_attributes(n: Node) -> str:
    """Return the attributes of the function's argument that is the leaf `n`, with the prefix that MLIR requires."""
    return attributes_text({"lt.leaf": n.op} | {f"{LEAF_ATTRIBUTE_PREFIX}{name}": v for name, v in n.attrs.items()})


def result_attributes(graph: Graph) -> list[str]:
    """Return the attributes of each result of the function: the name of the new state or of the output."""
    return [
        *(attributes_text({"lt.state": state}) for state in graph.updates),
        *(attributes_text({"cs.output_name": name}) for name in graph.output_names),
    ]


def result_names(n: Node, names: dict[Node, str]) -> str:
    """Return the left side of an operation's equation: %4, or %4:2 for two results."""
    return f"{names[n]}:{len(n.type)}" if isinstance(n.type, tuple) else names[n]


def function_type(n: Node) -> str:
    """Return the types of an operation's operands and results: (tensor<2xf32>) -> tensor<2xf32>."""
    types = n.type if isinstance(n.type, tuple) else (n.type,)
    results = ", ".join(map(type_text, types))
    operands = ", ".join(type_text(i.type) for i in n.inputs)
    return f"({operands}) -> {results if len(types) == 1 else f'({results})'}"


def node_attributes(n: Node) -> str:
    """Return the attributes of a node as text, "" if it has none. Raise CompileError for one that has no text.

    Constants have their elements as the attribute `value`; their other attributes mean nothing in the text.
    """
    attrs = {"value": constant_elements(n)} if n.op in CONSTANT_OPS else n.attrs
    try:
        return attributes_text(attrs, n.type) if attrs else ""
    except CompileError as e:
        raise CompileError(f"{n.op}: {e.what}", where=n.where) from e


def _operation(n: Node, names: dict[Node, str], name: str, attributes: str) -> str:
    operands = ", ".join(names[i] for i in n.inputs)
    return f'{result_names(n, names)} = "{name}"({operands}){attributes and " " + attributes} : {function_type(n)}'


def constant_elements(n: Node) -> np.ndarray:
    """Return the elements of a node in `CONSTANT_OPS`."""
    if n.value is not None:
        return n.value
    return np.frombuffer(n.attrs["data"], n.type.dtype.host).reshape(n.type.shape)


def attributes_text(attrs: Mapping[str, Any], type: Any = None) -> str:
    """Return attributes as a dictionary of MLIR. `type` is the type of an array among them.

    Raise CompileError for a value that has no text.
    """
    return "{" + ", ".join(f"{name} = {attribute_text(value, type)}" for name, value in attrs.items()) + "}"


def attribute_text(value: Any, type: Any = None) -> str:
    """Return the text of one attribute; `type` is the type of an array.

    None is "unit", and lists and tuples are MLIR lists. Raise CompileError for other values.
    """
    if value is None:
        return "unit"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, float):
        return f"{_float(value)} : f64"
    if isinstance(value, str):
        return string_text(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(attribute_text(v) for v in value)}]"
    if isinstance(value, Type):
        return type_text(value)
    if isinstance(value, DType):
        return value.mlir
    if isinstance(value, np.ndarray) and isinstance(type, Type):
        return elements_text(value, type)
    raise CompileError(
        f"the attribute value {value!r} cannot be written as MLIR",
        hint="Use numbers, texts, types, and lists of them as attributes.",
    )


def _float(value: float) -> str:
    if not math.isfinite(value):
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    digits, _, exponent = repr(value).partition("e")
    # MLIR requires a decimal point.
    return (digits if "." in digits else f"{digits}.0") + (f"e{exponent}" if exponent else "")


def string_text(value: str) -> str:
    """Return a string literal of MLIR."""
    # Bytes that are not printable ASCII are written in hexadecimal.
    plain: Iterable[str] = (
        chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in value.encode("utf-8", "surrogateescape")
    )
    return f'"{"".join(plain)}"'


def elements_text(array: np.ndarray, type: Type) -> str:
    """Return a constant with the bytes of its elements: dense<"0x0000803F"> : tensor<1xf32>."""
    # Booleans are written as words, because MLIR's hexadecimal form packs them into bits.
    if type.dtype.kind == "b" or not array.size:
        return dense_text(array, type)
    return f'dense<"0x{elements_for_file(array, type).tobytes().hex().upper()}"> : {type_text(type)}'


def elements_for_file(array: np.ndarray, type: Type) -> np.ndarray:
    """Return elements in the layout of other tools' files: little endian, and half types in 16 bits.

    bfloat16 becomes its bits as uint16, and float16 and cbfloat16 become float16. Other dtypes are unchanged.
    """
    if type.dtype is bfloat16:
        array = (np.ascontiguousarray(array, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    elif type.dtype.is_half:
        array = array.astype(np.float16)
    return array.astype(array.dtype.newbyteorder("<"))
