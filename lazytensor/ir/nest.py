"""Loop nests over rectangular domains with affine accesses, called LAIR by the vendor.

Operations without a library kernel are compiled to nests. The body is a list of scalars, each computed from earlier
ones:
    load    attr k        element of input operand k at this iteration
    const   attr value    a literal
    index   attr Access   an affine function of the loop variables, an int64
    cast                  a conversion to the scalar's dtype, with rounding for a half type
    other                 a pointwise operation of the op table by name; attr holds its attributes
Every scalar of a half type is rounded to it. Each store writes one output operand. With `reduce`, the store accumulates
over the reduction loops with that operation, starting from its identity.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import Any

from lazytensor.core.dtype import DType
from lazytensor.errors import CompileError
from lazytensor.ir.operation import Unit
from lazytensor.ir.reduction import REDUCTIONS
from lazytensor.ir.types import Type, Work

UNITLESS_SCALAR_OPS = ("load", "const", "index")
"""Scalar operations that need no arithmetic unit of a core."""


@dataclass(frozen=True)
class Loop:
    """One loop: name, number of iterations, and whether stores accumulate over it."""

    name: str
    extent: int
    is_reduction: bool = False


@dataclass(frozen=True)
class Access:
    """The element of a flat array that an iteration accesses: offset + sum of strides[i] * loop variable i."""

    strides: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True)
class Scalar:
    """One value of the body, computed at each iteration from the scalars with the indices `args`.

    `unit` is the unit of a core that computes it, as in `LoopBody`; it is "" for load, const and index.
    """

    op: str
    dtype: DType
    args: tuple[int, ...] = ()
    attr: Any = None
    unit: Unit = ""


@dataclass(frozen=True)
class NestStore:
    """One result: output operand `output` gets scalar number `value`.

    If `reduce` names a reduction, values are accumulated with it over the reduction loops.
    """

    output: int
    value: int
    reduce: str = ""


@dataclass(frozen=True)
class Nest:
    """A loop nest: loops, operands with their accesses, and the body.

    Fields:
    - `name`: a name for reports.
    - `loops`: the loops, outermost first.
    - `inputs`, `outputs`: the types of the operands, which are contiguous arrays.
    - `reads`, `writes`: the access of each input and each output.
    - `body`: the scalars, in order.
    - `stores`: the results that are written.
    - `work`: flops and bytes.

    All loads of an iteration precede its stores, so an output may be the same memory as an input with the same access.
    """

    name: str
    loops: tuple[Loop, ...]
    inputs: tuple[Type, ...]
    outputs: tuple[Type, ...]
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    body: tuple[Scalar, ...]
    stores: tuple[NestStore, ...]
    work: Work = Work()

    def __str__(self) -> str:
        return format_nest(self)

    def _repr_html_(self) -> str:
        """Return the nest as text and its total work, in HTML."""
        work = f"{self.work.flops:,} flops, {self.work.bytes_read:,} bytes in, {self.work.bytes_written:,} out"
        return f"<pre>{escape(format_nest(self))}</pre><p>{work}</p>"

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """A hashable key that is equal for equal nests.

        The nest itself may not be hashable: attributes of scalars may be dicts.
        """
        body = tuple((scalar.op, scalar.dtype, scalar.args, repr(scalar.attr)) for scalar in self.body)
        operands = self.inputs, self.outputs, self.reads, self.writes
        return self.name, self.loops, *operands, self.stores, body, self.work

    def check(self) -> "Nest":
        """Return the nest itself after checking it.

        Raises CompileError if an access is out of bounds, a scalar uses a later one or has no unit, or a reducing store
        moves along a reduction loop or names an unknown reduction. Bounds are not checked if a loop has no iterations.
        """
        # A loop without iterations has bounds below zero, but accesses nothing.
        runs = all(loop.extent for loop in self.loops)
        for operand, access in zip((*self.inputs, *self.outputs), (*self.reads, *self.writes), strict=True):
            low, high = _bounds(access, self.loops)
            if runs and (low < 0 or high >= operand.size):
                raise CompileError(
                    f"nest {self.name} accesses elements {low} to {high} of an operand with {operand.size} elements",
                    hint="Report it as a bug of the compiler pass that ran.",
                )
        for n, scalar in enumerate(self.body):
            if any(a >= n for a in scalar.args):
                raise CompileError(
                    f"nest {self.name}: scalar {n} ({scalar.op}) uses a later scalar",
                    hint="Report it as a bug of the compiler pass that ran.",
                )
            if not scalar.unit and scalar.op not in UNITLESS_SCALAR_OPS:
                raise CompileError(
                    f"nest {self.name}: scalar {n} ({scalar.op}) has no unit that computes it",
                    hint="Report it as a bug of the compiler pass that ran.",
                )
        for store, access in zip(self.stores, self.writes, strict=True):
            moving = [loop.name for loop, s in zip(self.loops, access.strides, strict=True) if loop.is_reduction and s]
            if store.reduce and (store.reduce not in REDUCTIONS or moving):
                raise CompileError(
                    f"nest {self.name}: {store.reduce} store moves along reduction loops {moving}",
                    hint="Report it as a bug of the compiler pass that ran.",
                )
        return self


def _bounds(access: Access, loops: tuple[Loop, ...]) -> tuple[int, int]:
    """Return the smallest and the largest element (both inclusive) that an access reaches."""
    # An affine function has its extremes at corners of the domain: a negative stride has its minimum at the last index.
    steps = [s * (loop.extent - 1) for s, loop in zip(access.strides, loops, strict=True)]
    return access.offset + sum(min(s, 0) for s in steps), access.offset + sum(max(s, 0) for s in steps)


def format_access(access: Access, loops: tuple[Loop, ...]) -> str:
    """Return an access as text, such as "256*i0 + i1 + 3"; "0" if it is always the first element."""
    terms = [f"{s}*{v.name}" if s != 1 else v.name for s, v in zip(access.strides, loops, strict=True) if s]
    if access.offset or not terms:
        terms.append(str(access.offset))
    return " + ".join(terms)


def _format_scalar(scalar: Scalar, nest: Nest) -> str:
    if scalar.op == "load":
        return f"in{scalar.attr}[{format_access(nest.reads[scalar.attr], nest.loops)}]"
    if scalar.op == "const":
        return f"{scalar.attr!r}"
    if scalar.op == "index":
        return format_access(scalar.attr, nest.loops)
    extra = [f"{k}={v!r}" for k, v in (scalar.attr or {}).items()] if isinstance(scalar.attr, Mapping) else []
    return f"{scalar.op}({', '.join([*(f't{a}' for a in scalar.args), *extra])})"


def format_nest(nest: Nest) -> str:
    """Return the nest as readable loops, with one line for each scalar and store."""
    arguments = [f"in{k}: {t}" for k, t in enumerate(nest.inputs)] + [
        f"out{k}: {t}" for k, t in enumerate(nest.outputs)
    ]
    lines = [f"nest {nest.name}({', '.join(arguments)})"]
    for depth, loop in enumerate(nest.loops):
        note = "  # reduction" if loop.is_reduction else ""
        lines.append(f"{'  ' * (depth + 1)}for {loop.name} in 0..{loop.extent}:{note}")
    margin = "  " * (len(nest.loops) + 1)
    lines += [f"{margin}t{n}: {s.dtype.name} = {_format_scalar(s, nest)}" for n, s in enumerate(nest.body)]
    for store in nest.stores:
        target = f"out{store.output}[{format_access(nest.writes[store.output], nest.loops)}]"
        lines.append(
            f"{margin}{target} {store.reduce}= t{store.value}" if store.reduce else f"{margin}{target} = t{store.value}"
        )
    return "\n".join(lines)


def collapse(nest: Nest) -> Nest:
    """Return an equivalent nest in which adjacent loops are merged if every access treats them as one loop.

    Both loops must be reduction loops or neither. A merged loop has the name of the inner one.
    """
    accesses = [*nest.reads, *nest.writes, *(s.attr for s in nest.body if s.op == "index")]
    loops = list(nest.loops)
    keep = list(range(len(loops)))  # original positions of the remaining loops
    # From the innermost loop outwards, so that three loops can collapse in two steps.
    for outer in range(len(loops) - 2, -1, -1):
        at = keep.index(outer)
        if at + 1 == len(keep):
            continue
        inner = keep[at + 1]
        # In every operand, a step of the outer loop must equal a complete run of the inner one.
        fits = all(a.strides[outer] == a.strides[inner] * loops[inner].extent for a in accesses)
        if fits and loops[outer].is_reduction == loops[inner].is_reduction:
            extent = loops[outer].extent * loops[inner].extent
            loops[inner] = Loop(loops[inner].name, extent, loops[inner].is_reduction)
            keep.remove(outer)
    return reorder(replace(nest, loops=tuple(loops)), tuple(keep))


def rebase_to_first_elements(nest: Nest, slots: tuple[int, ...]) -> tuple[Nest, tuple[int, ...]]:
    """Return the nest with all arrays starting at the first element that it accesses, and those first elements.

    `slots` is the number of the array of each input, then of each output; the first elements are in the order of these
    numbers, one for each array. Iterations of a loop over time access different parts of the same arrays, and become
    equal nests this way.
    """
    accesses = (*nest.reads, *nest.writes)
    first: dict[int, int] = {}
    for slot, access in zip(slots, accesses, strict=True):
        low, _ = _bounds(access, nest.loops)
        first[slot] = min(first.get(slot, low), low)
    moved = tuple(replace(a, offset=a.offset - first[s]) for s, a in zip(slots, accesses, strict=True))
    count = len(nest.reads)
    return replace(nest, reads=moved[:count], writes=moved[count:]), tuple(first[s] for s in sorted(first))


def reorder(nest: Nest, order: tuple[int, ...]) -> Nest:
    """Return the nest with only the loops numbered `order`, in that order; accesses lose the strides of other loops."""

    def moved(access: Access) -> Access:
        return Access(tuple(access.strides[i] for i in order), access.offset)

    return replace(
        nest,
        loops=tuple(nest.loops[i] for i in order),
        reads=tuple(map(moved, nest.reads)),
        writes=tuple(map(moved, nest.writes)),
        body=tuple(replace(s, attr=moved(s.attr)) if s.op == "index" else s for s in nest.body),
    )


def elementwise_nest(name: str, type: Type, body: tuple[Scalar, ...], work: Work = Work()) -> Nest:
    """Return a nest with one loop "i0" that maps an array to an array of the same type.

    The last scalar of `body` is the result.
    """
    in_order = (Access((1,)),)
    return Nest(
        name=name,
        loops=(Loop("i0", type.size),),
        inputs=(type,),
        outputs=(type,),
        reads=in_order,
        writes=in_order,
        body=body,
        stores=(NestStore(0, len(body) - 1),),
        work=work,
    )


ScalarFunctionLookup = Callable[[str, Mapping[str, Any]], Callable[..., Any]]
"""A function from the name and attributes of a pointwise operation to its NumPy function."""
