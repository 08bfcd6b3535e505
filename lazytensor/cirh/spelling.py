"""How each operation of a lowered graph is spelled in CIRH: arithmetic, reductions, products, rearrangements."""

import math
from collections.abc import Callable, Mapping

import numpy as np

from lazytensor.cirh.listing import Listing, dense_text, ints_text, type_text
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type

Spelling = Callable[[Listing, Node], str]


def arguments(out: Listing, n: Node) -> str:
    """The names of the operands."""
    return ", ".join(out.names[i] for i in n.inputs)


def function_type(n: Node) -> str:
    """As in (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>; several results stand in brackets."""
    results = ", ".join(map(type_text, n.type)) if isinstance(n.type, tuple) else type_text(n.type)
    given = ", ".join(type_text(i.type) for i in n.inputs)
    return f"({given}) -> ({results})" if isinstance(n.type, tuple) else f"({given}) -> {results}"


def plain(name: str, arrow: bool = False) -> Spelling:
    """An operation whose operands and result have one type; some are printed with a function type."""

    def spell(out: Listing, n: Node) -> str:
        t = type_text(n.type)
        return f"cirh.{name} {arguments(out, n)} : {f'({t}) -> {t}' if arrow else t}"

    return spell


def typed(name: str, attrs: Callable[[Node], str], arrow: bool = True) -> Spelling:
    """An operation with attributes and a function type, or the one type if `arrow` is false."""

    def spell(out: Listing, n: Node) -> str:
        body = attrs(n)
        head = f"cirh.{name} {arguments(out, n)}" + (f" {{{body}}}" if body else "")
        return f"{head} : {function_type(n) if arrow else type_text(n.type)}"

    return spell


def converted(name: str, attrs: Callable[[Node], str]) -> Spelling:
    """As in cirh.Cast %0 {...} : from -> to."""

    def spell(out: Listing, n: Node) -> str:
        source = type_text(n.inputs[0].type)
        return f"cirh.{name} {arguments(out, n)} {{{attrs(n)}}} : {source} -> {type_text(n.type)}"

    return spell


def truth(v: bool) -> str:
    return "true" if v else "false"


def _reduce_attrs(n: Node) -> str:
    kinds = {"add": "ADD", "mul": "MUL", "maximum": "MAX", "minimum": "MIN", "and": "AND", "or": "OR"}
    dims = n.attrs["dims"] if "dims" in n.attrs else (n.attrs["dim"],)
    kind = kinds.get(n.attrs["kind"]) or f"ARG{n.attrs['kind'].upper()}"
    kept = dims if n.attrs["keepdim"] else ()
    return f'dimensions = {ints_text(dims)}, keep_dims = {ints_text(kept)}, reduce_kind = "{kind}"'


def _product(out: Listing, n: Node) -> str:
    a, b = n.inputs
    types = f"({type_text(a.type)}, {type_text(b.type)}) -> {type_text(n.type)}"
    args = f"{out.names[a]}, {out.names[b]}"
    flags = n.attrs["transpose_a"], n.attrs["transpose_b"]
    if len(a.type.shape) == 2:
        body = f"cs.internal = {{}}, transpose_a = {truth(flags[0])}, transpose_b = {truth(flags[1])}"
        return f"cirh.MatMul {args} {{{body}}} : {types}"
    rank = len(a.type.shape)
    lead = ints_text(range(rank - 2))
    left, right = rank - 1 - flags[0], rank - 2 + flags[1]
    sides = [(f"{s}_batching_dimensions = {lead}", f"{s}_contracting_dimensions") for s in ("lhs", "rhs")]
    pairs = [f"{batching}, {k} = {ints_text([d])}" for (batching, k), d in zip(sides, (left, right), strict=True)]
    body = f"cs.internal = {{cs.dotgeneral_id = {out.product_number()} : i32}}, {', '.join(pairs)}"
    return f"cirh.DotGeneral {args} {{{body}}} : {types}"


def _transpose(out: Listing, n: Node) -> str:
    (x,) = n.inputs
    order, t = out.integers(n.attrs["permutation"])
    return f"cirh.Transpose {out.names[x]}, {order} : ({type_text(x.type)}, {t}) -> {type_text(n.type)}"


def _slice(out: Listing, n: Node) -> str:
    (x,) = n.inputs
    starts, limits, strides = n.attrs["starts"], n.attrs["limits"], n.attrs["strides"]
    if all(s == 1 for s in strides):
        a, t = out.integers(starts)
        b, _ = out.integers(n.type.shape)
        return f"cirh.Slice {out.names[x]}, {a}, {b} : ({type_text(x.type)}, {t}, {t}) -> {type_text(n.type)}"
    (a, t), (b, _), (c, _) = (out.integers(v) for v in (starts, limits, strides))
    masks = ", ".join(f"{m}_mask = 0 : i64" for m in ("begin", "ellipsis", "end", "new_axis", "shrink_axis"))
    operands = f"{out.names[x]}, {a}, {b}, {c}"
    return f"cirh.StridedSlice {operands} {{{masks}}} : ({type_text(x.type)}, {t}, {t}, {t}) -> {type_text(n.type)}"


def _random(name: str) -> Spelling:
    def spell(out: Listing, n: Node) -> str:
        scalar = Type((), n.type.dtype)
        low, high = (out.constant(dense_text(np.asarray(v), scalar)) for v in (0.0, 1.0))
        shape, t = out.integers(n.type.shape)
        s = type_text(scalar)
        return f"cirh.{name} {low}, {high}, {shape} {{global_seed = 0 : i64}} : ({s}, {s}, {t}) -> {type_text(n.type)}"

    return spell


def _normal(out: Listing, n: Node) -> str:
    mean, deviation = (out.constant(dense_text(np.asarray(v), n.type)) for v in (0.0, 1.0))
    return f"cirh.RandomNormal {mean}, {deviation} {{seed = 0 : i64}} : {type_text(n.type)}"


def _clamped(is_maximum: bool) -> Spelling:
    """A maximum or a minimum as a clamp whose other side is the limit of the type."""

    def spell(out: Listing, n: Node) -> str:
        a, b = n.inputs
        limit = out.constant(dense_text(np.asarray(_limit(n.type, is_maximum)), n.type))
        given = (out.names[b], limit) if is_maximum else (limit, out.names[b])
        t = type_text(n.type)
        return f"cirh.Clamp {out.names[a]}, {', '.join(given)} : ({t}, {t}, {t}) -> {t}"

    return spell


def _limit(t: Type, upper: bool) -> float:
    if t.dtype.kind == "i":
        limits = np.iinfo(t.dtype.host)
        return int(limits.max if upper else limits.min)
    return math.inf if upper else -math.inf


def _arange(out: Listing, n: Node) -> str:
    start, step = n.attrs["start"], n.attrs["step"]
    scalar = Type((), n.type.dtype)
    given = (start, start + step * n.type.size, step)
    names = ", ".join(out.constant(dense_text(np.asarray(v), scalar)) for v in given)
    s = type_text(scalar)
    return f"cirh.Arange {names} {{dim = 0 : i64}} : ({s}, {s}, {s}) -> {type_text(n.type)}"


def _band(out: Listing, n: Node) -> str:
    (x,) = n.inputs
    scalar = "tensor<i64>"
    low, high = (-1 if v is None else v for v in (n.attrs["lower"], n.attrs["upper"]))
    names = ", ".join([out.names[x], *(out.constant(f"dense<{v}> : {scalar}") for v in (low, high))])
    t = type_text(x.type)
    return f"cirh.MatrixBandPart {names} : ({t}, {scalar}, {scalar}) -> {type_text(n.type)}"


def _compare(direction: str) -> Spelling:
    def spell(out: Listing, n: Node) -> str:
        a, b = n.inputs
        source, result = type_text(a.type), type_text(n.type)
        tail = source if source == result else f"{source} -> {result}"
        return f'cirh.Compare {out.names[a]}, {out.names[b]} {{comparison_direction = "{direction}"}} : {tail}'

    return spell


SPELLINGS: Mapping[str, Spelling] = {
    **{
        name: plain(spelled)
        for name, spelled in {
            "add": "Add",
            "sub": "Sub",
            "mul": "Mul",
            "div": "Div",
            "integer_div": "Div",
            "pow": "Pow",
            "atan2": "Atan2",
            "relu": "Relu",
            "tanh": "Tanh",
            "sqrt": "Sqrt",
            "rsqrt": "Rsqrt",
            "log": "Log",
            "sin": "Sin",
            "cos": "Cos",
            "abs": "Abs",
            "sign": "Sign",
            "floor": "Floor",
            "ceil": "Ceil",
            "reciprocal": "Reciprocal",
            "logical_and": "And",
            "logical_or": "Or",
            "logical_xor": "Xor",
            "round": "Round",
        }.items()
    },
    "exp": plain("Exp", arrow=True),
    "erf": plain("Erf", arrow=True),
    "sigmoid": plain("Sigmoid", arrow=True),
    **{name: _compare(name.upper()) for name in ("gt", "ge", "lt", "le", "eq", "ne")},
    "where": typed("Select", lambda n: ""),
    "clamp": typed("Clamp", lambda n: ""),
    "cast": converted("Cast", lambda n: "Truncate = false"),
    "gelu": typed("Gelu", lambda n: f'approximation = "{n.attrs["approximate"].upper()}"', arrow=False),
    "softmax": typed("Softmax", lambda n: f"axis = {n.attrs['dim']} : i64", arrow=False),
    "reshape": typed("Reshape", lambda n: ""),
    "broadcast_in_dim": typed("BroadcastInDim", lambda n: f"broadcast_dimensions = {ints_text(n.attrs['dims'])}"),
    "concat": typed("Concat", lambda n: f"axis = {n.attrs['dim']} : i64"),
    "reduce": typed("Reduce", _reduce_attrs),
    "arg_reduce": typed("Reduce", _reduce_attrs),
    "matmul": _product,
    "transpose": _transpose,
    "slice": _slice,
    "arange": _arange,
    "band_part": _band,
    "random_uniform": _random("RandomUniform"),
    "random_normal": _normal,
    "maximum": _clamped(True),
    "minimum": _clamped(False),
    "larger": _clamped(True),
}
