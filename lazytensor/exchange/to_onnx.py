"""`to_onnx`: convert a module or a function of tensors to an ONNX model."""

from collections.abc import Callable
from typing import Any

from lazytensor.core.tensor import Tensor
from lazytensor.core.tracing import trace_graph
from lazytensor.exchange.onnx_model import onnx_model


def to_onnx(step: Callable[..., Any], *examples: Any) -> Any:
    """Return the `onnx.ModelProto` of `step(*examples)`, for Netron and ONNX runtimes, without computing anything.

    If `step` is a module, its parameters and buffers become initializers with the names of its `state_dict`. Other
    tensors that existed before are inputs. See `trace` for the examples, and `exchange.onnx_model` for operations that
    ONNX lacks. Raises LazyError if the package onnx (the extra `onnx`) is not installed.

    >>> import lazytensor as lt
    >>> model = lt.to_onnx(lt.nn.Sequential(lt.nn.Linear(8, 4), lt.nn.ReLU()), lt.ones(2, 8))  # doctest: +SKIP
    >>> [node.op_type for node in model.graph.node][:4]  # doctest: +SKIP
    ['Identity', 'Identity', 'Gemm', 'Relu']
    """
    graph = trace_graph(step, *examples)
    named: dict[str, Tensor] = {}
    # Duck typing, because the package of modules imports this one.
    for of in ("named_parameters", "named_buffers"):
        named |= dict(getattr(step, of, dict[str, Tensor]().items)())
    # The state ids are those of the graph that was just recorded.
    titles = {t.cell.state: name for name, t in named.items() if t.cell.state in graph.state}
    values = {t.cell.state: t.detach().numpy() for t in named.values() if t.cell.state in graph.state}
    return onnx_model(graph, values, titles)
