"""A graph as a model of ONNX, which Netron shows and runtimes run: what ONNX lacks is under names of ours."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lazytensor.compiler.lower import lower_to_host
from lazytensor.exchange.onnx_operations import NODES, OPSET_VERSION
from lazytensor.exchange.onnx_sheet import CUSTOM_DOMAIN, OnnxGraphBuilder
from lazytensor.ir.graph import Graph, Node
from lazytensor.ir.types import Type

ONNX_IR_VERSION = 10
"""The release of the file's format: the first that knows all of these operations' release."""


def onnx_model(
    graph: Graph, values: Mapping[str, np.ndarray] | None = None, titles: Mapping[str, str] | None = None
) -> Any:
    """The `onnx.ModelProto` of a graph.

    Its inputs are the batch and the state, by name; state of which `values` has the array becomes an initializer, and
    state of which `titles` has another name is called so. Its results are the outputs, and the new state as "new NAME".
    Operations that ONNX lacks are replaced by their formula where they have one; else they are nodes of the domain
    "lazywafer", named as here.
    Raises LazyError without the package onnx, and CompileError for a tensor of cbfloat16.
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
        # A result has the name of the graph's, whichever node computes it.
        sheet.nodes.append(helper.make_node("Identity", names[n], [name], name=f"{name}.result"))
    sheet.prune(name for name, _ in ends)
    outputs = [_value_info(sheet, name, n.type) for name, n in ends]
    initializers += sheet.constants.values()
    body = helper.make_graph(sheet.nodes, "step", inputs, outputs, initializers, value_info=_result_value_infos(sheet))
    sets = [helper.make_opsetid("", OPSET_VERSION), helper.make_opsetid(CUSTOM_DOMAIN, 1)]
    return helper.make_model(body, opset_imports=sets, ir_version=ONNX_IR_VERSION, producer_name="lazywafer")


def _leaf_name(n: Node) -> str:
    return str(n.attrs["id" if n.op == "state" else "name"]) if n.op in ("batch", "state") else ""


def _value_info(sheet: OnnxGraphBuilder, name: str, t: Type) -> Any:
    return sheet.onnx.helper.make_tensor_value_info(name, sheet.element(t.dtype), t.shape)


def _result_value_infos(sheet: OnnxGraphBuilder) -> list[Any]:
    """The types of what nodes give: a reader knows none of operations of our own."""
    written = {name for record in sheet.nodes for name in record.output}
    known: dict[str, Any] = {}
    for n, results in sheet.names.items():
        types = n.type if isinstance(n.type, tuple) else (n.type,)
        known |= {r: _value_info(sheet, r, t) for r, t in zip(results, types, strict=True) if r in written}
    return list(known.values())


def _write_node(sheet: OnnxGraphBuilder, n: Node) -> list[str]:
    """Write a node; returns the names of its results."""
    inputs = [sheet.names[i][0] for i in n.inputs]
    if n.op == "result":
        return [sheet.names[n.inputs[0]][n.attrs["index"]]]
    if n.value is not None and not n.inputs:
        return [sheet.constant(n.value, n.type)]
    sheet.label = f"{n.where.scope}." if n.where and n.where.scope else ""
    results = NODES[n.op](sheet, n, inputs) if n.op in NODES else None
    if results is None:
        count = len(n.type) if isinstance(n.type, tuple) else 1
        # A number that tells two nodes apart says nothing outside.
        attrs = {name: _attribute(value) for name, value in n.attrs.items() if name != "uid"}
        results = sheet.add(n.op, *inputs, outputs=count, domain=CUSTOM_DOMAIN, **attrs)
    return [results] if isinstance(results, str) else results


def _attribute(value: Any) -> Any:
    """An attribute as ONNX has it: numbers, text, and lists of either kind of number; anything else as text."""
    if isinstance(value, bool):
        return int(value)
    is_list = isinstance(value, tuple | list) and value and all(type(v) is type(value[0]) for v in value)
    if isinstance(value, int | float | str) or (is_list and isinstance(value[0], int | float)):
        return value
    return str(value)
