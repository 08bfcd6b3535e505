"""Graphs as MLIR text, in the spelling of the vendor's front end; nothing else knows that spelling.

`cirh_text` prints a lowered graph, `torch_text` the graph as it was traced, with the lines of the user's code.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from lazytensor.dtype import float32
from lazytensor.errors import CompileError
from lazytensor.ir.floats import mlir_float
from lazytensor.ir.graph import Graph, Node, topological
from lazytensor.ir.types import Type

HIDDEN_STATE = "rng"
"""Prefix of state that the front end keeps out of the text: it draws random numbers from a global seed."""


def type_text(t: Type) -> str:
    """As in tensor<4x6xf32>."""
    return f"tensor<{''.join(f'{e}x' for e in t.shape)}{t.dtype.mlir}>"


def ints_text(values: Iterable[int]) -> str:
    """A one-dimensional i64 attribute: dense<[0, 1]> : tensor<2xi64>, or a splat where all are equal."""
    given = [int(v) for v in values]
    if given and all(v == given[0] for v in given):
        body = str(given[0])
    else:
        body = f"[{', '.join(map(str, given))}]" if given else ""
    return f"dense<{body}> : tensor<{len(given)}xi64>"


def _element(v: object, t: Type) -> str:
    if t.dtype.kind == "f":
        return mlir_float(float(v), t.dtype)  # type: ignore[arg-type]
    if t.dtype.kind == "b":
        return "true" if v else "false"
    return str(int(v))  # type: ignore[call-overload]


def dense_text(array: np.ndarray, t: Type) -> str:
    """The elements of a constant, one if all are equal."""
    flat = array.ravel()
    if flat.size and bool(np.all(flat == flat[0])):
        return f"dense<{_element(flat[0], t)}> : {type_text(t)}"

    def nested(a: np.ndarray) -> str:
        return _element(a.item(), t) if a.ndim == 0 else f"[{', '.join(nested(b) for b in a)}]"

    return f"dense<{nested(array) if flat.size else ''}> : {type_text(t)}"


@dataclass
class Listing:
    """The lines of a function while it is printed, and the names given to values."""

    names: dict[Node, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    constants: dict[str, str] = field(default_factory=dict)
    values: int = 0

    def fresh(self) -> str:
        """The next %0, %1, ..."""
        self.values += 1
        return f"%{self.values - 1}"

    def constant(self, dense: str) -> str:
        """The name of a constant, which is printed once."""
        if dense not in self.constants:
            n = len(self.constants)
            self.constants[dense] = "%cst" if n == 0 else f"%cst_{n - 1}"
        return self.constants[dense]

    def integers(self, values: Iterable[int]) -> tuple[str, str]:
        """An i64 vector as an operand: its name and its type."""
        dense = ints_text(values)
        return self.constant(dense), dense.rsplit(" : ", 1)[1]

    def line(self, text: str) -> None:
        """Add a line of the body."""
        self.lines.append("    " + text)


Spelling = Callable[[Listing, Node], str]


def _plain(name: str, arrow: bool = False) -> Spelling:
    """An operation whose operands and result have one type; some are printed with a function type."""

    def spell(out: Listing, n: Node) -> str:
        t = type_text(n.type)
        args = ", ".join(out.names[i] for i in n.inputs)
        return f"cirh.{name} {args} : {f'({t}) -> {t}' if arrow else t}"

    return spell


def _typed(name: str, attrs: Callable[[Node], str], arrow: bool = True) -> Spelling:
    """An operation with attributes and a function type, or the one type if `arrow` is false."""

    def spell(out: Listing, n: Node) -> str:
        args = ", ".join(out.names[i] for i in n.inputs)
        body = attrs(n)
        head = f"cirh.{name} {args} {{{body}}}" if body else f"cirh.{name} {args}"
        if not arrow:
            return f"{head} : {type_text(n.type)}"
        return f"{head} : ({', '.join(type_text(i.type) for i in n.inputs)}) -> {type_text(n.type)}"

    return spell


def _converted(name: str, attrs: Callable[[Node], str]) -> Spelling:
    """As in cirh.Cast %0 {...} : from -> to."""

    def spell(out: Listing, n: Node) -> str:
        args = ", ".join(out.names[i] for i in n.inputs)
        return f"cirh.{name} {args} {{{attrs(n)}}} : {type_text(n.inputs[0].type)} -> {type_text(n.type)}"

    return spell


def _bool(v: bool) -> str:
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
        body = f"cs.internal = {{}}, transpose_a = {_bool(flags[0])}, transpose_b = {_bool(flags[1])}"
        return f"cirh.MatMul {args} {{{body}}} : {types}"
    rank = len(a.type.shape)
    lead = ints_text(range(rank - 2))
    left, right = rank - 1 - flags[0], rank - 2 + flags[1]
    body = (
        f"cs.internal = {{}}, lhs_batching_dimensions = {lead}, lhs_contracting_dimensions = {ints_text([left])}, "
        f"rhs_batching_dimensions = {lead}, rhs_contracting_dimensions = {ints_text([right])}"
    )
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
        name: _plain(spelled)
        for name, spelled in {
            "add": "Add",
            "sub": "Sub",
            "mul": "Mul",
            "div": "Div",
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
            "erf": "Erf",
            "logical_and": "And",
            "logical_or": "Or",
        }.items()
    },
    "exp": _plain("Exp", arrow=True),
    "sigmoid": _plain("Sigmoid", arrow=True),
    **{name: _compare(name.upper()) for name in ("gt", "ge", "lt", "le", "eq", "ne")},
    "where": _typed("Select", lambda n: ""),
    "clamp": _typed("Clamp", lambda n: ""),
    "cast": _converted("Cast", lambda n: "Truncate = false"),
    "gelu": _typed("Gelu", lambda n: f'approximation = "{n.attrs["approximate"].upper()}"', arrow=False),
    "softmax": _typed("Softmax", lambda n: f"axis = {n.attrs['dim']} : i64", arrow=False),
    "reshape": _typed("Reshape", lambda n: ""),
    "broadcast_in_dim": _typed("BroadcastInDim", lambda n: f"broadcast_dimensions = {ints_text(n.attrs['dims'])}"),
    "concat": _typed("Concat", lambda n: f"axis = {n.attrs['dim']} : i64"),
    "reduce": _typed("Reduce", _reduce_attrs),
    "arg_reduce": _typed("Reduce", _reduce_attrs),
    "matmul": _product,
    "transpose": _transpose,
    "slice": _slice,
    "arange": _arange,
    "band_part": _band,
    "random_uniform": _random("RandomUniform"),
}

PAIRS = {"softmax_cross_entropy": ("SparseSoftmaxCrossEntropyWithLogits", ("%loss", "%backprop"), "axis = 1 : i64")}


def _print_node(out: Listing, n: Node, used: dict[Node, str]) -> None:
    if n.op in ("full", "const"):
        array = np.asarray(n.attrs["value"]) if n.op == "full" else n.value
        assert array is not None
        out.names[n] = out.constant(dense_text(array, n.type))
    elif n.op in PAIRS:
        name, results, body = PAIRS[n.op]
        k = sum(m.op == n.op for m in used)
        names = [f"{r}_{k - 1}" if k else r for r in results]
        used[n] = name
        args = ", ".join(out.names[i] for i in n.inputs)
        types = ", ".join(type_text(i.type) for i in n.inputs)
        out.line(
            f"{', '.join(names)} = cirh.{name} {args} {{{body}}} : ({types}) -> ({', '.join(map(type_text, n.type))})"
        )
        out.names[n] = "\n".join(names)
    elif n.op == "result":
        out.names[n] = out.names[n.inputs[0]].split("\n")[n.attrs["index"]]
    else:
        spell = SPELLINGS.get(n.op)
        if spell is None:
            raise CompileError(
                f"failed to legalize operation 'torch.aten.{n.op}'",
                where=n.where,
                todo="Write this part of the model with operations that the wafer knows.",
            )
        text = spell(out, n)
        out.names[n] = out.fresh()
        out.line(f"{out.names[n]} = {text}")


Notes = Mapping[str, Mapping[str, float]]
"""By state, what is known of it beforehand, such as its sparsity."""


def cirh_text(graph: Graph, half: str = "float16", level: int = 1, notes: Notes | None = None) -> str:
    """A lowered graph as CIRH. `half` is the name of the half type, `level` the precision optimization level.

    Raises CompileError for an operation that CIRH does not have, naming the user's line.
    """
    out = Listing()
    used: dict[Node, str] = {}
    results = [graph.updates.get(s, leaf) for s, leaf in _shown(graph)] + list(graph.outputs)
    # What a random number is computed from stays hidden with the state that carries it.
    order = topological(results, lambda n: n.op.startswith("random_"))
    _, arguments = _arguments(out, graph, order, notes or {})
    for n in order:
        if n.op not in ("state", "batch"):
            _print_node(out, n, used)
    states = len(results) - len(graph.outputs)
    types = [type_text(r.type) for r in results]
    heads = [
        t if i < states else f'{t} {{cs.output_name = "{graph.output_names[i - states]}"}}' for i, t in enumerate(types)
    ]
    constants = [f"    {name} = cirh.Const {dense}" for dense, name in out.constants.items()]
    tail = f'attributes {{cs.fp16_type = "{half}", cs.pol = {level} : i64}}'
    returned = (
        f"    return {', '.join(out.names[r] for r in results)} : {', '.join(types)}" if results else "    return"
    )
    signature = f"  func @graph({', '.join(arguments)}) -> ({', '.join(heads)}) {tail} {{"
    return "\n".join(["module  {", signature, *constants, *out.lines, returned, "  }", "}", ""])


def _shown(graph: Graph) -> list[tuple[str, Node]]:
    return [(s, leaf) for s, leaf in graph.state.items() if not s.startswith(HIDDEN_STATE)]


def _arguments(out: Listing, graph: Graph, order: list[Node], notes: Notes) -> tuple[list[Node], list[str]]:
    """The leaves in the order in which the body first uses them, as printed arguments."""
    shown = {leaf: s for s, leaf in _shown(graph)}
    place = {s: i for i, s in enumerate(shown.values())}
    leaves = [n for n in order if n in shown or n in graph.inputs]
    leaves += [n for n in shown if n not in set(leaves)]
    printed = []
    for i, n in enumerate(leaves):
        out.names[n] = f"%arg{i}"
        if n in shown:
            known = sorted(notes.get(shown[n], {}).items())
            said = "".join(f"cs.{name} = {mlir_float(value, float32)} : f32, " for name, value in known)
            said += f'tf.aliasing_output = {place[shown[n]]} : i64, tf.resource_name = "state.{shown[n]}"'
        else:
            said = f'cs.input_name = "{n.attrs["name"]}"'
        printed.append(f"%arg{i}: {type_text(n.type)} {{{said}}}")
    return leaves, printed


def torch_text(graph: Graph) -> str:
    """The traced graph, one ATen operation a line, with the user's file, line and module path."""
    names: dict[Node, str] = {}
    lines = []
    for i, n in enumerate(topological(graph.roots())):
        names[n] = f"%{i}"
        args = ", ".join([*(names[j] for j in n.inputs), *(f"{k} = {_short(v)}" for k, v in n.attrs.items())])
        types = n.type if isinstance(n.type, tuple) else (n.type,)
        place = f' loc("{n.where.scope}/aten::{n.op}"("{n.where.file}":{n.where.line}:0))' if n.where else ""
        lines.append(f"    %{i} = torch.aten.{n.op}({args}) : {', '.join(map(type_text, types))}{place}")
    returned = ", ".join(names[r] for r in graph.roots())
    return "\n".join(["module {", "  func.func @graph() {", *lines, f"    return {returned}", "  }", "}", ""])


def _short(v: object) -> str:
    return type_text(v) if isinstance(v, Type) else f"<{len(v)} bytes>" if isinstance(v, bytes) else repr(v)
