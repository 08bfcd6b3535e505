"""CIRH text of operations: arithmetic, reductions, products and rearrangements."""

import math
from collections.abc import Callable

import numpy as np

from lazytensor.cirh.listing import Listing, dense_text, ints_text, type_text
from lazytensor.core.dtype import int32
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import Legality
from lazytensor.ir.reduction import REDUCTIONS
from lazytensor.ir.types import Type


def arguments(out: Listing, n: Node) -> str:
    """Return the names of the operands of `n`, separated by commas."""
    return ", ".join(out.names[i] for i in n.inputs)


def function_type(n: Node) -> str:
    """Return a function type, such as (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>.

    Several results are in parentheses.
    """
    results = ", ".join(map(type_text, n.type)) if isinstance(n.type, tuple) else type_text(n.type)
    operands = ", ".join(type_text(i.type) for i in n.inputs)
    return f"({operands}) -> ({results})" if isinstance(n.type, tuple) else f"({operands}) -> {results}"


def same_type_operation(name: str, arrow: bool = False) -> Legality:
    """Return a `Legality` that prints an operation whose operands and result have one type, without attributes.

    `name` is CIRH's name of the operation. If `arrow`, the type is printed as a function type, such as (T) -> T.
    """

    def spell(out: Listing, n: Node) -> str:
        t = type_text(n.type)
        return f"cirh.{name} {arguments(out, n)} : {f'({t}) -> {t}' if arrow else t}"

    return Legality(spell)


def typed_operation(
    name: str, attrs: Callable[[Node], str] = lambda n: "", arrow: bool = True, results: tuple[str, ...] = ()
) -> Legality:
    """Return a `Legality` that prints an operation with attributes and a function type.

    If not `arrow`, only the result type is printed. `attrs` gives the text of the attributes, and `results` are base
    names of several results.
    """

    def spell(out: Listing, n: Node) -> str:
        body = attrs(n)
        head = f"cirh.{name} {arguments(out, n)}" + (f" {{{body}}}" if body else "")
        return f"{head} : {function_type(n) if arrow else type_text(n.type)}"

    return Legality(spell, results=results)


def integer_attribute(keyword: str, attribute: str = "", type: str = "i64") -> Callable[[Node], str]:
    """Return a function that gives one integer attribute, such as axis = 1 : i64.

    `attribute` is its name on the node, if that differs from `keyword`.
    """
    return lambda n: f"{keyword} = {n.attrs[attribute or keyword]} : {type}"


def gelu_attribute(n: Node) -> str:
    """Return the attribute that says how GELU is approximated."""
    return f'approximation = "{n.attrs["approximate"].upper()}"'


def broadcast_dims(n: Node) -> str:
    """Return the attribute with the result dimensions of the operand's dimensions."""
    return f"broadcast_dimensions = {ints_text(n.attrs['dims'])}"


# Truncate is false in all texts of the front end, also for float32 to a half type.
def _cast(out: Listing, n: Node) -> str:
    source = type_text(n.inputs[0].type)
    return f"cirh.Cast {arguments(out, n)} {{Truncate = false}} : {source} -> {type_text(n.type)}"


def bool_text(v: bool) -> str:
    """Return "true" or "false"."""
    return "true" if v else "false"


def reduction_attributes(n: Node) -> str:
    """Return the attributes of a reduction over dimensions, or of an argmax or argmin along one.

    `keep_dims` lists the reduced dimensions with keepdim, and is empty without.
    """
    kind = n.attrs["kind"]
    # An argmax or argmin is printed as a reduction of the kind ARGMAX or ARGMIN.
    if "dims" in n.attrs:
        dims, kind = n.attrs["dims"], REDUCTIONS[kind].cirh
    else:
        dims, kind = (n.attrs["dim"],), f"ARG{kind.upper()}"
    kept = dims if n.attrs["keepdim"] else ()
    return f'dimensions = {ints_text(dims)}, keep_dims = {ints_text(kept)}, reduce_kind = "{kind}"'


def _product(out: Listing, n: Node) -> str:
    """Spell a matrix product: MatMul for matrices, DotGeneral for stacks."""
    a, b = n.inputs
    types = f"({type_text(a.type)}, {type_text(b.type)}) -> {type_text(n.type)}"
    args = f"{out.names[a]}, {out.names[b]}"
    flags = n.attrs["transpose_a"], n.attrs["transpose_b"]
    # Matrices use MatMul; stacks of matrices use DotGeneral.
    if len(a.type.shape) == 2:
        body = f"cs.internal = {{}}, transpose_a = {bool_text(flags[0])}, transpose_b = {bool_text(flags[1])}"
        return f"cirh.MatMul {args} {{{body}}} : {types}"
    rank = len(a.type.shape)
    lead = ints_text(range(rank - 2))
    # DotGeneral has no transposition flags: a transposed operand is contracted over its other matrix dimension.
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
    """Spell a slice: Slice if all strides are 1, else StridedSlice. Starts, sizes or limits, and strides are
    constant operands.
    """
    (x,) = n.inputs
    starts, limits, strides = n.attrs["starts"], n.attrs["limits"], n.attrs["strides"]
    # Slice takes starts and sizes, StridedSlice starts, limits and strides.
    if all(s == 1 for s in strides):
        a, t = out.integers(starts)
        b, _ = out.integers(n.type.shape)
        return f"cirh.Slice {out.names[x]}, {a}, {b} : ({type_text(x.type)}, {t}, {t}) -> {type_text(n.type)}"
    (a, t), (b, _), (c, _) = (out.integers(v) for v in (starts, limits, strides))
    masks = ", ".join(f"{m}_mask = 0 : i64" for m in ("begin", "ellipsis", "end", "new_axis", "shrink_axis"))
    operands = f"{out.names[x]}, {a}, {b}, {c}"
    return f"cirh.StridedSlice {operands} {{{masks}}} : ({type_text(x.type)}, {t}, {t}, {t}) -> {type_text(n.type)}"


def _uniform(out: Listing, n: Node) -> str:
    scalar = Type((), n.type.dtype)
    # The text has a global seed; the state of our generator is not printed (see `printer.HIDDEN_STATE_PREFIX`).
    bounds = n.attrs.get("low", 0.0), n.attrs.get("high", 1.0)
    low, high = (out.constant(dense_text(np.asarray(v), scalar)) for v in bounds)
    # torch.rand prints the shape -1, torch.rand_like prints the real shape.
    shape, t = out.integers((-1,) if n.attrs.get("is_open") else n.type.shape)
    s = type_text(scalar)
    operands = f"{low}, {high}, {shape} {{global_seed = 0 : i64}}"
    return f"cirh.RandomUniform {operands} : ({s}, {s}, {t}) -> {type_text(n.type)}"


def _integers(out: Listing, n: Node) -> str:
    low, high = (out.constant(dense_text(np.asarray(n.attrs[side]), n.type)) for side in ("low", "high"))
    shape, t = out.integers((-1,) if n.attrs["is_open"] else n.type.shape)
    s = type_text(n.type)
    return f"cirh.RandomUniform {low}, {high}, {shape} {{global_seed = 0 : i64}} : ({s}, {s}, {t}) -> {s}"


def _normal(out: Listing, n: Node) -> str:
    moments = n.attrs.get("mean", 0.0), n.attrs.get("deviation", 1.0)
    mean, deviation = (out.constant(dense_text(np.asarray(v), n.type)) for v in moments)
    return f"cirh.RandomNormal {mean}, {deviation} {{seed = 0 : i64}} : {type_text(n.type)}"


def _multinomial(out: Listing, n: Node) -> str:
    # The text has a global seed; the state of our generator is not printed.
    weights = n.inputs[0]
    attributes = (
        f"num_samples = {n.attrs['samples']} : i64, replacement = {bool_text(n.attrs['replacement'])}, seed = 0 : i64"
    )
    types = f"({type_text(weights.type)}) -> {type_text(n.type)}"
    return f"cirh.RandomMultinomial {out.names[weights]} {{{attributes}}} : {types}"


def extremum_as_clamp(is_maximum: bool) -> Legality:
    """Return a `Legality` that prints a maximum or minimum of two tensors as a clamp.

    The other bound is the limit of the type: infinity for floats, and the largest or smallest integer.
    """

    def spell(out: Listing, n: Node) -> str:
        a, b = n.inputs
        other = out.constant(dense_text(np.asarray(_limit(n.type, is_maximum)), n.type))
        # Clamp takes (x, lower, upper): max(a, b) is a clamped from below by b.
        bounds = (out.names[b], other) if is_maximum else (other, out.names[b])
        t = type_text(n.type)
        return f"cirh.Clamp {out.names[a]}, {', '.join(bounds)} : ({t}, {t}, {t}) -> {t}"

    return Legality(spell)


def _limit(t: Type, upper: bool) -> float:
    if t.dtype.kind == "i":
        limits = np.iinfo(t.dtype.host)
        return int(limits.max if upper else limits.min)
    return math.inf if upper else -math.inf


def _arange(out: Listing, n: Node) -> str:
    start, step = n.attrs["start"], n.attrs["step"]
    scalar = Type((), n.type.dtype)
    # The node stores the count; CIRH takes an exclusive limit.
    bounds = (start, start + step * n.type.size, step)
    names = ", ".join(out.constant(dense_text(np.asarray(v), scalar)) for v in bounds)
    s = type_text(scalar)
    return f"cirh.Arange {names} {{dim = 0 : i64}} : ({s}, {s}, {s}) -> {type_text(n.type)}"


def _band(out: Listing, n: Node) -> str:
    (x,) = n.inputs
    scalar = "tensor<i64>"
    # -1 keeps the whole triangle.
    low, high = (-1 if v is None else v for v in (n.attrs["lower"], n.attrs["upper"]))
    names = ", ".join([out.names[x], *(out.constant(f"dense<{v}> : {scalar}") for v in (low, high))])
    t = type_text(x.type)
    return f"cirh.MatrixBandPart {names} : ({t}, {scalar}, {scalar}) -> {type_text(n.type)}"


def comparison(direction: str) -> Legality:
    """Return a `Legality` that prints a comparison, with the result type if it differs from that of the operands.

    `direction` is CIRH's name of it, such as "GT".
    """

    def spell(out: Listing, n: Node) -> str:
        a, b = n.inputs
        source, result = type_text(a.type), type_text(n.type)
        tail = source if source == result else f"{source} -> {result}"
        return f'cirh.Compare {out.names[a]}, {out.names[b]} {{comparison_direction = "{direction}"}} : {tail}'

    return Legality(spell)


def one_hot() -> Legality:
    """Return a `Legality` that prints one-hot vectors: the value `on` at the index of a label, and `off` elsewhere.

    The number of classes, both values and the axis, which is the last, are printed as constant operands.
    """

    def spell(out: Listing, n: Node) -> str:
        (labels,) = n.inputs
        scalar, whole = Type((), n.type.dtype), Type((), int32)
        # The classes are in the last dimension, which is printed as a non-negative axis.
        axis, classes = len(n.type.shape) - 1, n.type.shape[-1]
        values = [(classes, whole), (n.attrs["on"], scalar), (n.attrs["off"], scalar), (axis, whole)]
        names = [out.names[labels], *(out.constant(dense_text(np.asarray(v), t)) for v, t in values)]
        types = ", ".join(type_text(t) for t in (labels.type, *(t for _, t in values)))
        return f"cirh.OneHot {', '.join(names)} : ({types}) -> {type_text(n.type)}"

    return Legality(spell)


CAST = Legality(_cast)
PRODUCT = Legality(_product)
TRANSPOSE = Legality(_transpose)
SLICE = Legality(_slice)
ARANGE = Legality(_arange)
BAND = Legality(_band)
UNIFORM = Legality(_uniform)
INTEGERS = Legality(_integers)
NORMAL = Legality(_normal)
MULTINOMIAL = Legality(_multinomial)
