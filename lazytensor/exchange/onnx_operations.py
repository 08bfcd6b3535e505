"""Writers of operations as ONNX nodes, for version 20 of ONNX's operator set.

A writer returns the names of the results, or None if ONNX has the operation only for other types or shapes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from lazytensor.core.dtype import bool_, int64
from lazytensor.exchange.onnx_sheet import OnnxGraphBuilder
from lazytensor.ir.graph import Node
from lazytensor.ir.reduction import REDUCTIONS
from lazytensor.ops import OPS

Writer = Callable[[OnnxGraphBuilder, Node, list[str]], str | list[str] | None]
OPSET_VERSION = 20
_REDUCTIONS: dict[Any, str] = {
    np.add: "ReduceSum",
    np.multiply: "ReduceProd",
    np.maximum: "ReduceMax",
    np.minimum: "ReduceMin",
}
_BEFORE_FIRST_INDEX = -(1 << 62)
"""The end of a slice that runs backwards to the first element."""


def single_node(kind: str, kinds: str = "f", **attrs: Any) -> Writer:
    """Return a writer of one ONNX node `kind`, for operands whose element kinds are all in `kinds` ("f", "i", "b")."""
    return lambda s, n, x: s.one(kind, *x, **attrs) if all(i.type.dtype.kind in kinds for i in n.inputs) else None


def node_chain(*kinds: str) -> Writer:
    """Return a writer of a chain of ONNX nodes, the first of which takes the operands.

    The writer returns the name of the last result. It returns None, and writes nothing, if the first operand is not
    floating point, unless the chain ends in "Not".
    """

    def write(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str | None:
        if kinds[-1] != "Not" and n.inputs[0].type.dtype.kind != "f":
            return None
        value = s.one(kinds[0], *x)
        for kind in kinds[1:]:
            value = s.one(kind, value)
        return value

    return write


def boolean_node(kind: str) -> Writer:
    """Return a writer of a logical ONNX node, with operands cast to bool."""
    return lambda s, n, x: s.one(kind, *(_cast(s, name, i, bool_) for name, i in zip(x, n.inputs, strict=True)))


def _cast(s: OnnxGraphBuilder, name: str, n: Node, dtype: Any) -> str:
    return name if n.type.dtype is dtype else s.one("Cast", name, to=s.element(dtype))


def _reshape(s: OnnxGraphBuilder, name: str, shape: tuple[int, ...]) -> str:
    # With allowzero=1, a dimension of 0 means 0 instead of "keep the operand's dimension".
    return s.one("Reshape", name, s.integers(shape), allowzero=1)


def _full(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str:
    one = np.full((1,), n.attrs["value"], n.type.dtype.host)
    return s.one("ConstantOfShape", s.integers(n.type.shape), value=s.tensor(one, type(n.type)((1,), n.type.dtype)))


def _arange(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str:
    return s.constant(OPS[n.op].eval(**n.attrs), n.type)


def _broadcast(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str:
    shape, extents = n.attrs["shape"], n.inputs[0].type.shape
    places = dict(zip(n.attrs["dims"], extents, strict=True))
    aligned = tuple(places.get(d, 1) for d in range(len(shape)))
    value = x[0] if aligned == extents else _reshape(s, x[0], aligned)
    return s.one("Expand", value, s.integers(shape))


def _slice(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str:
    axes = range(len(n.type.shape))
    limits = (n.attrs["starts"], n.attrs["limits"], axes, n.attrs["strides"])
    return s.one("Slice", x[0], *(s.integers(tuple(values)) for values in limits))


def _reverse(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str:
    dims = n.attrs["dims"]
    limits = ((-1,) * len(dims), (_BEFORE_FIRST_INDEX,) * len(dims), dims, (-1,) * len(dims))
    return s.one("Slice", x[0], *(s.integers(values) for values in limits))


def _pad(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str | None:
    if n.type.dtype.kind == "b" or any(n.attrs["interior"]):
        return None
    below, above = zip(*n.attrs["pairs"], strict=True) if n.attrs["pairs"] else ((), ())
    value = s.constant(np.asarray(n.attrs["value"], n.type.dtype.host), type(n.type)((), n.type.dtype))
    return s.one("Pad", x[0], s.integers((*below, *above)), value)


def _linear(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str:
    if len(n.inputs[0].type.shape) == 2:
        return s.one("Gemm", *x, transB=1)
    product = s.one("MatMul", x[0], s.one("Transpose", x[1], perm=(1, 0)))
    return s.one("Add", product, x[2]) if len(x) > 2 else product


def _matmul(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str:
    names = []
    for name, operand, side in zip(x, n.inputs, "ab", strict=True):
        *lead, row, column = range(len(operand.type.shape))
        is_turned = n.attrs[f"transpose_{side}"]
        names.append(s.one("Transpose", name, perm=(*lead, column, row)) if is_turned else name)
    return s.one("MatMul", *names)


def _bias_add(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str:
    shape = tuple(e if d == n.attrs["dim"] else 1 for d, e in enumerate(n.type.shape))
    return s.one("Add", x[0], _reshape(s, x[1], shape))


def _window(n: Node) -> dict[str, Any]:
    """Return the window attributes of a convolution or pooling in ONNX's form: strides, pads and dilations.

    Pads are first those before each dimension, then those after.
    """
    below, above = zip(*n.attrs["padding"], strict=True)
    return {"strides": n.attrs["stride"], "pads": (*below, *above), "dilations": n.attrs["dilation"]}


def _conv(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str:
    return s.one("Conv", *x, group=n.attrs["groups"], kernel_shape=n.inputs[1].type.shape[2:], **_window(n))


def _window_argmax(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str | None:
    if not _pools(n):
        return None
    _, places = s.add("MaxPool", x[0], outputs=2, kernel_shape=n.attrs["kernel"], **_window(n))
    # ONNX's indices count over all samples and channels, ours within one channel.
    return s.one("Mod", places, s.integers((int(np.prod(n.inputs[0].type.shape[2:])),)))


def _pools(n: Node) -> bool:
    """Return whether ONNX's MaxPool supports a window operation.

    It needs one batch dimension, one channel dimension, and a floating-point type.
    """
    (operand,) = n.inputs
    return len(operand.type.shape) == 2 + len(n.attrs["kernel"]) and operand.type.dtype.kind == "f"


def _at_places(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str | None:
    """Write max pooling as MaxPool if the indices are those of the maxima, else write a gather.

    Return the name of the result; None if the gather is not supported by ONNX.
    """
    (flat, places), (pool, *_) = n.inputs, (*n.inputs[1].inputs, n)
    if (
        pool.op != "window_argmax"
        or flat.inputs != pool.inputs
        or {flat.op, places.op} != {"reshape"}
        or not _pools(pool)
    ):
        return _gather(s, n, x)
    largest = s.one("MaxPool", s.names[pool.inputs[0]][0], kernel_shape=pool.attrs["kernel"], **_window(pool))
    return _reshape(s, largest, n.type.shape)


def _layer_norm(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str:
    operand, bias, weight = x
    axis = -len(n.inputs[1].type.shape)
    return s.one("LayerNormalization", operand, weight, bias, axis=axis, epsilon=n.attrs["eps"])


def _batch_norm(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str:
    return s.one("BatchNormalization", *x, epsilon=n.attrs["eps"])


def _reduce(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str | None:
    kind = _REDUCTIONS.get(REDUCTIONS[n.attrs["kind"]].ufunc) if n.op == "reduce" else "ReduceMean"
    if kind is None or n.type.dtype.kind == "b":
        return None
    dims, keeps = s.integers(n.attrs["dims"]), int(n.attrs["keepdim"])
    return s.one(kind, x[0], dims, keepdims=keeps, noop_with_empty_axes=1)


def _arg_reduce(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str:
    kind = "ArgMax" if n.attrs["kind"] == "max" else "ArgMin"
    return s.one(kind, x[0], axis=n.attrs["dim"], keepdims=int(n.attrs["keepdim"]))


def _top_k(s: OnnxGraphBuilder, n: Node, x: list[str]) -> list[str]:
    count = s.integers((n.attrs["k"],))
    return s.add("TopK", x[0], count, outputs=2, axis=n.attrs["dim"], largest=int(n.attrs["largest"]))


def _split(s: OnnxGraphBuilder, n: Node, x: list[str]) -> list[str]:
    sizes = n.attrs["sizes"]
    return s.add("Split", x[0], s.integers(sizes), outputs=len(sizes), axis=n.attrs["dim"])


def _gather_rows(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str:
    return s.one("Gather", x[0], _cast(s, x[1], n.inputs[1], int64), axis=n.attrs.get("dim", 0))


def _index_get(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str | None:
    dims = n.attrs["dims"]
    return s.one("Gather", *x, axis=dims[0]) if len(dims) == 1 and n.inputs[1].type.dtype is int64 else None


def _gather(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str | None:
    shapes = [i.type.shape for i in n.inputs]
    dim = n.attrs.get("dim", len(shapes[0]) - 1)
    others = [shape[:dim] + shape[dim + 1 :] for shape in shapes]
    return s.one("GatherElements", *x, axis=dim) if others[0] == others[1] else None


def _softplus(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str | None:
    return s.one("Softplus", *x) if n.attrs["beta"] == 1 else None


def _clamp(s: OnnxGraphBuilder, n: Node, x: list[str]) -> str:
    return s.one("Min", s.one("Max", x[0], x[1]), x[2])


NODES: dict[str, Writer] = {
    **{
        op: single_node(op.capitalize())
        for op in "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor".split()
    },
    **{op: single_node(op.capitalize()) for op in "log reciprocal round sigmoid sin sinh sqrt tan tanh".split()},
    **{op: single_node(op.capitalize(), "fi") for op in "add mul neg pow relu sign sub".split()},
    "div": single_node("Div"),
    "maximum": single_node("Max", "fi"),
    "minimum": single_node("Min", "fi"),
    "fmod": single_node("Mod", fmod=1),
    "isnan": single_node("IsNaN"),
    "square": lambda s, n, x: s.one("Mul", x[0], x[0]) if n.type.dtype.kind in "fi" else None,
    "rsqrt": node_chain("Sqrt", "Reciprocal"),
    "log_sigmoid": node_chain("Neg", "Softplus", "Neg"),
    "silu": lambda s, n, x: s.one("Mul", x[0], s.one("Sigmoid", x[0])),
    "gelu": lambda s, n, x: s.one("Gelu", *x, approximate=n.attrs["approximate"]),
    "elu": lambda s, n, x: s.one("Elu", *x, alpha=float(n.attrs["alpha"])),
    "leaky_relu": lambda s, n, x: s.one("LeakyRelu", *x, alpha=float(n.attrs["slope"])),
    "softplus": _softplus,
    "clamp": _clamp,
    "eq": single_node("Equal", "fib"),
    "ne": node_chain("Equal", "Not"),
    "lt": single_node("Less", "fi"),
    "le": single_node("LessOrEqual", "fi"),
    "gt": single_node("Greater", "fi"),
    "ge": single_node("GreaterOrEqual", "fi"),
    "logical_and": boolean_node("And"),
    "logical_or": boolean_node("Or"),
    "logical_xor": boolean_node("Xor"),
    "logical_not": boolean_node("Not"),
    "where": single_node("Where", "fib"),
    "cast": lambda s, n, x: s.one("Cast", *x, to=s.element(n.type.dtype)),
    "detach": single_node("Identity", "fib"),
    "variable": single_node("Identity", "fib"),
    "full": _full,
    "arange": _arange,
    "reshape": lambda s, n, x: _reshape(s, x[0], n.type.shape),
    "transpose": lambda s, n, x: s.one("Transpose", *x, perm=n.attrs["permutation"]),
    "broadcast_in_dim": _broadcast,
    "concat": lambda s, n, x: s.one("Concat", *x, axis=n.attrs["dim"]),
    "slice": _slice,
    "split": _split,
    "reverse": _reverse,
    "pad": _pad,
    "linear": _linear,
    "matmul": _matmul,
    "bias_add": _bias_add,
    "conv": _conv,
    "window_argmax": _window_argmax,
    "at_places": _at_places,
    "gather": _gather,
    "gather_rows": _gather_rows,
    "embedding": _gather_rows,
    "index_get": _index_get,
    "layer_norm": _layer_norm,
    "batch_norm": _batch_norm,
    "softmax": lambda s, n, x: s.one("Softmax", *x, axis=n.attrs["dim"]),
    "log_softmax": lambda s, n, x: s.one("LogSoftmax", *x, axis=n.attrs["dim"]),
    "reduce": _reduce,
    "mean": _reduce,
    "arg_reduce": _arg_reduce,
    "top": _top_k,
}
