"""The record of an operation (`Op`) and the op table (`OPS`), which describe an operation completely.

The rows of the table are in `lazytensor.ops`, one file per family; importing that package fills the table.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from lazytensor.errors import LazyError
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type, Work

Formula = Callable[..., Any]
"""A function from nodes and attributes to a node, or to a tuple of nodes for several results."""
Unit = Literal["add", "special", "move", ""]
"""The unit of a core that computes one element: arithmetic, a library routine, a move, or none."""
CLIENT_HINT = "Compute it on the client before the step and pass the result in with the batch, or keep it as a buffer."
DEFAULT_HINT = "Write this part of the step with operations that CIRH has, or move it to the data loader."


class IncompleteOperation(LazyError, TypeError):
    """A row of the op table lacks a required field or contradicts itself."""


@dataclass(frozen=True)
class LoopBody:
    """The computation of one element of an operation inside a loop nest.

    - `text`: a Python expression in "{0}", "{1}", ... and attributes in braces, with functions of the code generator's
      library without their type suffix.
    - `unit`: the unit of a core that computes it.
    - `kinds`: the kinds of element types that it supports: "f" floating point, "i" integers, "b" bool.
    - `integer`: the expression for integers, if it differs.
    - `is_exact`: half operands give a result of the half type that needs no rounding.
    - `is_instruction`: the function in the text is a single LLVM instruction.
    - `is_single`: the function in the text exists for float32 only; NumPy computes float64.
    """

    text: str
    unit: Unit = "add"
    kinds: str = "f"
    integer: str = ""
    is_exact: bool = False
    is_instruction: bool = False
    is_single: bool = False


@dataclass(frozen=True)
class Legality:
    """How an operation is converted to CIRH.

    - `spelling(listing, node)`: returns the text of the operation in CIRH; if set, the operation is legal.
    - `decomposition(*inputs, **attrs)`: returns legal operations that replace it, or None to leave it unchanged.
    - `hint`: the hint of the error if the operation is neither legal nor decomposed.
    - `results`: the names of several results; if empty, they are numbered.
    """

    spelling: Callable[[Any, Node], str] | None = None
    decomposition: Formula | None = None
    hint: str = DEFAULT_HINT
    results: tuple[str, ...] = ()

    @property
    def is_legal(self) -> bool:
        """Whether CIRH has the operation."""
        return self.spelling is not None

    def with_decomposition(self, decomposition: Formula) -> "Legality":
        """Return a copy with another `decomposition`."""
        return replace(self, decomposition=decomposition)


def legal_by_decomposition(formula: Formula, hint: str = DEFAULT_HINT) -> Legality:
    """Return the legality of an operation that CIRH has only in decomposed form.

    If `formula` returns None for a node, the node is refused with `hint`.
    """
    return Legality(decomposition=formula, hint=hint)


def illegal_with_hint(hint: str) -> Legality:
    """Return the legality of an operation that CIRH lacks.

    `hint` is what the user can write instead, in PyTorch's terms.
    """
    return Legality(hint=hint)


def elementwise_work(flops: int) -> Callable[..., Work]:
    """Return a work function for operations that read all inputs and write the output once.

    `flops` is the number of operations per output element. The function takes the output type and the input types, and
    ignores attributes.
    """

    def work(out: Type, *types: Type, **attrs: Any) -> Work:
        return Work(flops * out.size, sum([t.nbytes for t in types]), out.nbytes)

    return work


def no_work(out: Type, *types: Type, **attrs: Any) -> Work:
    """Return zero work, for operations that only rename elements."""
    return Work()


@dataclass(frozen=True, kw_only=True)
class Op:
    """The complete description of one operation.

    - `infer(*types, **attrs)`: returns the output Type, a tuple of them for several results, or raises ShapeError.
    - `eval(*arrays, **attrs)`: computes the result in NumPy.
    - `vjp(g, y, *inputs, **attrs)`: returns the gradient, or None, of each input; `g` is the gradient of the result
      `y`. The field is None if no gradient flows.
    - `saves`: whether the gradient reads values of the forward pass, so that the graph can be freed; or a function of
      the attributes that returns this.
    - `keeps`: which of the values that the gradient reads PyTorch saves; the others may be modified in place.
    - `also_keeps`: values that PyTorch saves although the gradient does not read them. Of several operands, one is
      saved only if another one requires a gradient.
    - `body`: one element of the operation; with it the operation can be fused into a loop nest.
    - `composite(*inputs, **attrs)`: returns the simpler operations that define it and that the host runs. Without it,
      the host runs the operation with a loop, a library kernel or `eval`.
    - `cirh`: how it is converted to CIRH; the default is to use the composite.
    - `put(base, value, **attrs)`: for a view operation, returns `base` with the elements of the view replaced by
      `value`.
    - `work(out_type, *types, **attrs)`: counts flops and bytes.
    - `is_leaf`: it represents an existing value, not a computation.
    - `renames`: its result has the elements of its operand in another shape or type.
    - `autocast`: the cast of operands while automatic casts are active: "float32" casts half operands, "half" casts
      float32 operands, "widest" casts half operands next to a float32 scalar, "" casts none.
    - `gradient_name`: PyTorch's name of it in `grad_fn`, with or without "Backward" and a number; or a function of the
      node that returns this.
    - `elements`: the kinds of the first operand that PyTorch supports, as in `LoopBody.kinds`; "" means all.
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
    gradient_name: str | Callable[[Node], str] = ""
    elements: str = ""


OPS: dict[str, Op] = {}


def saves_values(n: Node) -> bool:
    """Return whether the gradient of a node reads values of the forward pass (see `Op.saves`)."""
    saves = OPS[n.op].saves
    return saves(**n.attrs) if callable(saves) else saves


_GRADIENT_NAME_KEY = "gradient name"
"""Key in `Node.memo`: the name that `set_gradient_name` set."""


def gradient_name(n: Node) -> str:
    """Return PyTorch's name for the function that computed a node, such as "MulBackward0".

    It is "AccumulateGrad" for a leaf. It is the name of `set_gradient_name` if there is one, else that of the operation
    (`Op.gradient_name`), else it is made of the words of the operation.
    """
    if n.op == "written_past":
        return gradient_name(n.inputs[1])
    if n.op == "variable":
        return "AccumulateGrad"
    if n.memo is not None and _GRADIENT_NAME_KEY in n.memo:
        return str(n.memo[_GRADIENT_NAME_KEY])
    name = OPS[n.op].gradient_name
    word = (name(n) if callable(name) else name) or "".join(w.capitalize() for w in n.op.split("_"))
    return word if "Backward" in word or "::" in word else f"{word}Backward0"


def own_gradient_name(n: Node) -> str | None:
    """Return the name that `set_gradient_name` gave to the node, or None."""
    return n.memo.get(_GRADIENT_NAME_KEY) if n.memo else None


def set_gradient_name(n: Node, name: str) -> None:
    """Set the name that `gradient_name` returns for the node, such as "StdBackward0"."""
    n.memo = n.memo or {}
    n.memo[_GRADIENT_NAME_KEY] = name
