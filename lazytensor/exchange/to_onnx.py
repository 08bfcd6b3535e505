"""`to_onnx`: a module or a function of tensors as a model of ONNX."""

from collections.abc import Callable
from typing import Any

from lazytensor.core.tensor import Tensor
from lazytensor.core.tracing import trace_graph
from lazytensor.exchange.onnx_model import onnx_model


def to_onnx(step: Callable[..., Any], *examples: Any) -> Any:
    """The `onnx.ModelProto` of `step(*examples)`, for Netron and for runtimes of ONNX. Nothing is computed.

    Of a module, parameters and buffers are initializers under the names of its `state_dict`; what else was there
    before is an input. For the examples see `trace`, for what is no operation of ONNX `exchange.onnx_model`.
    Raises LazyError without the package onnx (the extra `onnx`).

    >>> import lazytensor as lt
    >>> model = lt.to_onnx(lt.nn.Sequential(lt.nn.Linear(8, 4), lt.nn.ReLU()), lt.ones(2, 8))  # doctest: +SKIP
    >>> [node.op_type for node in model.graph.node][:4]  # doctest: +SKIP
    ['Identity', 'Identity', 'Gemm', 'Relu']
    """
    graph = trace_graph(step, *examples)
    named: dict[str, Tensor] = {}
    # Duck typing: modules are made in a layer above this one.
    for of in ("named_parameters", "named_buffers"):
        named |= dict(getattr(step, of, dict[str, Tensor]().items)())
    # A state is called as its tensor was in the graph that was just recorded.
    titles = {t.cell.state: name for name, t in named.items() if t.cell.state in graph.state}
    values = {t.cell.state: t.detach().numpy() for t in named.values() if t.cell.state in graph.state}
    return onnx_model(graph, values, titles)
