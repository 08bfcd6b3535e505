"""The record of an operation: all that the house knows about it, from which every set of names elsewhere follows.

The rows stand in `lazytensor.ops`, one file for each family; the table is filled when that package is imported.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from lazytensor.errors import LazyError
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type, Work

Formula = Callable[..., Any]
"""From nodes and attributes to a node, or to a tuple of nodes for several results."""
Unit = Literal["add", "special", "move", ""]
"""What does one element on a core: an arithmetic instruction, a library routine, a move, or nothing at all."""
CLIENT_HINT = "Compute it on the client before the step and pass the result in with the batch, or keep it as a buffer."
DEFAULT_HINT = "Write this part of the step with operations that CIRH has, or move it to the data loader."


class IncompleteOperation(LazyError, TypeError):
    """A row of the op table lacks a facet, or contradicts itself."""


@dataclass(frozen=True)
class LoopBody:
    """One element of an operation inside a loop nest.

    `text` is a Python expression over "{0}", "{1}", ... whose functions are those of the generated code's library,
    without the mark of a type; an attribute may stand in braces too. `integer` is the text for integers, if another.
    `kinds` are the kinds of element types that the text is right for: "f" floating point, "i" integers, "b" truth.
    `is_exact`: an operand of a half type gives a result of it, which needs no rounding.
    `is_instruction`: the function in the text is one LLVM instruction.
    """

    text: str
    unit: Unit = "add"
    kinds: str = "f"
    integer: str = ""
    is_exact: bool = False
    is_instruction: bool = False


@dataclass(frozen=True)
class Legality:
    """How an operation gets through to CIRH.

    `spelling(listing, node)` prints it: the operation is legal there. `decomposition(*inputs, **attrs)` puts others in
    its place, from inputs that are legal already; where it gives None the operation stays as it is. What is neither
    legal nor decomposed is refused with `hint`. `results` are the names of several results; others are numbered.
    """

    spelling: Callable[[Any, Node], str] | None = None
    decomposition: Formula | None = None
    hint: str = DEFAULT_HINT
    results: tuple[str, ...] = ()

    @property
    def is_legal(self) -> bool:
        """True if CIRH has the operation under a name of its own."""
        return self.spelling is not None

    def with_decomposition(self, decomposition: Formula) -> "Legality":
        """The same, where `decomposition` does not apply."""
        return replace(self, decomposition=decomposition)


def legal_by_decomposition(formula: Formula, hint: str = DEFAULT_HINT) -> Legality:
    """CIRH has simpler operations in its place; where `formula` gives None the operation is refused."""
    return Legality(decomposition=formula, hint=hint)


def illegal_with_hint(hint: str) -> Legality:
    """CIRH has nothing like it; `hint` says in PyTorch's words what to write instead."""
    return Legality(hint=hint)


def elementwise_work(flops: int) -> Callable[..., Work]:
    """Work of an op that reads its inputs, writes its output, and spends `flops` on each output element."""

    def work(out: Type, *types: Type, **attrs: Any) -> Work:
        return Work(flops * out.size, sum([t.nbytes for t in types]), out.nbytes)

    return work


def no_work(out: Type, *types: Type, **attrs: Any) -> Work:
    """Work of an op that only renames elements."""
    return Work()


@dataclass(frozen=True, kw_only=True)
class Op:
    """Everything the house knows about one operation.

    infer(*types, **attrs) gives the output Type (a tuple of them for several results) or raises ShapeError.
    eval(*arrays, **attrs) is its meaning in NumPy.
    vjp(g, y, *inputs, **attrs) gives one node, or None, for each input; None instead of a function means that no
    gradient flows. `saves`: the gradient reads a value of the forward pass, so that walking back twice is a mistake;
    a function says so by the attributes.
    `keeps`: PyTorch keeps no more than this of what the gradient here reads, so that the rest may be written over.
    `also_keeps`: PyTorch keeps this too, although the gradient here does not read it; one of several operands only if
    another one has a gradient.
    body is one element of it; such an operation can be fused into a loop nest.
    composite(*inputs, **attrs) is the graph of simpler operations that defines it and that the host runs; without one
    the host runs the operation itself, by a loop, a library kernel or `eval`.
    cirh says how it gets through to CIRH; by default as its composite.
    put(base, value, **attrs) is the base with the elements seen through this view replaced by `value`.
    work(out_type, *types, **attrs) counts flops and bytes.
    is_leaf: it stands for a value that is there already, and is no operation of a step.
    renames: it gives the values of its operand in another shape or type.
    autocast is what the function of that name is given where automatic casts are on: "float32" for half operands,
    "half" for those of float32, "widest" for half operands beside a float32 scalar, "" for operands as they are.
    gradient_name is what PyTorch calls it in a printed `grad_fn`.
    elements are the kinds of its first operand that PyTorch has it for, as in a body's `kinds`; "" for all.
    """

    name: str
    infer: Callable[..., Any]
    eval: Callable[..., Any]
    vjp: Callable[..., Any] | None = None
    saves: bool | Callable[..., bool] = True
    also_keeps: Literal["", "last operand", "operands", "result"] = ""
    keeps: Literal["both", "operands", "result", "neither"] = "both"
    body: LoopBody | None = None
    composite: Formula | None = None
    cirh: Legality = field(default_factory=Legality)
    put: Callable[..., Node] | None = None
    work: Callable[..., Work] = elementwise_work(1)
    is_leaf: bool = False
    renames: bool = False
    autocast: Literal["", "float32", "half", "widest"] = ""
    gradient_name: str = ""
    elements: str = ""


OPS: dict[str, Op] = {}


def saves_values(n: Node) -> bool:
    """Return whether the gradient of a node reads values of the forward pass."""
    saves = OPS[n.op].saves
    return saves(**n.attrs) if callable(saves) else saves
