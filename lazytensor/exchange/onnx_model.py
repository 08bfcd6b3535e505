"""Convert a graph to an ONNX model, for viewers such as Netron and for ONNX runtimes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lazytensor.compiler.lower import lower_to_host
from lazytensor.exchange.onnx_operations import NODES, OPSET_VERSION
from lazytensor.exchange.onnx_sheet import CUSTOM_DOMAIN, OnnxGraphBuilder
from lazytensor.ir.graph import Graph, Node
from lazytensor.ir.types import Type

ONNX_IR_VERSION = 10
"""The version of ONNX's file format: the first that supports `OPSET_VERSION`."""


def onnx_model(
    graph: Graph, values: Mapping[str, np.ndarray] | None = None, titles: Mapping[str, str] | None = None
) -> Any:
    """Return the `onnx.ModelProto` of a graph.

    Inputs are the batch and the state, by name. State with an array in `values` becomes an initializer, and state with
    an entry in `titles` gets that name. Outputs are those of the graph, and "new NAME" for each updated state. An
    operation that ONNX lacks is replaced by its decomposition. If it has none, it becomes a node of the domain
    "lazywafer" with the name of the operation. Raises LazyError if the package onnx is not installed, and CompileError
    for a tensor of type cbfloat16.
    """
    sheet, known, called = OnnxGraphBuilder(), dict(values or {}), dict(titles or {})
    helper, names = sheet.onnx.helper, sheet.names
    graph = lower_to_host(graph, frozenset(NODES))
    inputs, initializers = [], []
    for n in dict.fromkeys([*graph.inputs, *graph.state.values(), *filter(_leaf_name, graph.nodes())]):
        name = called.get(_leaf_name(n), _leaf_name(n))
        names[n] = [name]
        if _leaf_name(n) in known:
            initializers.append(sheet.tensor(known[_leaf_name(n)], n.type, name))
        else:
            inputs.append(_value_info(sheet, name, n.type))
    for n in graph.nodes():
        if n not in names:
            names[n] = _write_node(sheet, n)
    ends = [(f"new {called.get(name, name)}", n) for name, n in graph.updates.items()]
    ends += zip(graph.output_names, graph.outputs, strict=True)
    for name, n in ends:
        # An Identity node gives each result its name in the graph.
        sheet.nodes.append(helper.make_node("Identity", names[n], [name], name=f"{name}.result"))
    sheet.prune(name for name, _ in ends)
    outputs = [_value_info(sheet, name, n.type) for name, n in ends]
    initializers += sheet.constants.values()
    body = helper.make_graph(sheet.nodes, "step", inputs, outputs, initializers, value_info=_result_value_infos(sheet))
    sets = [helper.make_opsetid("", OPSET_VERSION), helper.make_opsetid(CUSTOM_DOMAIN, 1)]
    return helper.make_model(body, opset_imports=sets, ir_version=ONNX_IR_VERSION, producer_name="lazywafer")


def _leaf_name(n: Node) -> str:
    """Return the name of an input or state node; "" for any other node."""
    return str(n.attrs["id" if n.op == "state" else "name"]) if n.op in ("batch", "state") else ""


def _value_info(sheet: OnnxGraphBuilder, name: str, t: Type) -> Any:
    return sheet.onnx.helper.make_tensor_value_info(name, sheet.element(t.dtype), t.shape)


def _result_value_infos(sheet: OnnxGraphBuilder) -> list[Any]:
    """Return the name, type and shape of all results of nodes that were not pruned.

    ONNX tools cannot infer those of custom operations.
    """
    written = {name for record in sheet.nodes for name in record.output}
    known: dict[str, Any] = {}
    for n, results in sheet.names.items():
        types = n.type if isinstance(n.type, tuple) else (n.type,)
        known |= {r: _value_info(sheet, r, t) for r, t in zip(results, types, strict=True) if r in written}
    return list(known.values())


def _write_node(sheet: OnnxGraphBuilder, n: Node) -> list[str]:
    """Write a node of the graph, whose operands were written, and return the names of its results.

    A known value without operands becomes a constant. A member of several results has the name that it has there. An
    operation that `NODES` does not cover becomes a node of the custom domain.
    """
    inputs = [sheet.names[i][0] for i in n.inputs]
    if n.op == "result":
        return [sheet.names[n.inputs[0]][n.attrs["index"]]]
    if n.value is not None and not n.inputs:
        return [sheet.constant(n.value, n.type)]
    sheet.label = f"{n.where.scope}." if n.where and n.where.scope else ""
    results = NODES[n.op](sheet, n, inputs) if n.op in NODES else None
    if results is None:
        count = len(n.type) if isinstance(n.type, tuple) else 1
        # Leave out `uid`, an internal number of the node.
        attrs = {name: _attribute(value) for name, value in n.attrs.items() if name != "uid"}
        results = sheet.add(n.op, *inputs, outputs=count, domain=CUSTOM_DOMAIN, **attrs)
    return [results] if isinstance(results, str) else results


def _attribute(value: Any) -> Any:
    """Return an attribute in a form that ONNX supports.

    A bool becomes an integer. Numbers, strings and non-empty lists of numbers of one type are unchanged. Anything else
    becomes text, such as None, an empty list or a list of strings.
    """
    if isinstance(value, bool):
        return int(value)
    is_list = isinstance(value, tuple | list) and value and all(type(v) is type(value[0]) for v in value)
    if isinstance(value, int | float | str) or (is_list and isinstance(value[0], int | float)):
        return value
    return str(value)
