"""Register operations, and create nodes of them. All recording of a step goes through `call`."""

from collections.abc import Callable
from dataclasses import replace
from types import NoneType
from typing import Any

import numpy as np

from lazytensor.core import source
from lazytensor.core.dtype import DType, can_hold, round_to, wrap_integer
from lazytensor.errors import NumberTooLarge, ShapeError, TypeUnsupported
from lazytensor.ir.graph import Node, find, intern, is_recorded_separately, set_operators, unique_id
from lazytensor.ir.operation import OPS, IncompleteOperation, Legality, Op, legal_by_decomposition, no_work
from lazytensor.ir.types import Type

__all__ = ["OPS", "call", "combine", "const", "full", "full_like", "op", "same_types"]


def op(
    name: str, infer: Callable[..., Any], eval: Callable[..., Any], *, cirh: Legality | None = None, **facets: Any
) -> None:
    """Register an operation in the op table `OPS`.

    - `infer`: a function from the types of the operands and the attributes to the type of the result.
    - `eval`: a function from NumPy arrays and attributes to the result.
    - `cirh`: how CIRH has the operation. Without it, a composite is legal by its decomposition.
    - `facets`: further fields of `Op`, such as `vjp`, `work`, `body` and `composite`.

    Raise IncompleteOperation if a facet is missing or contradicts another, or if the name is taken.
    """
    record = Op(name=name, infer=infer, eval=eval, cirh=cirh or Legality(), **facets)
    if name in OPS:
        raise IncompleteOperation(f"the operation {name!r} is defined twice", hint="Rename one of the two operations.")
    if cirh is None and record.composite is not None:
        record = replace(record, cirh=legal_by_decomposition(record.composite))
    elif cirh is None and not record.is_leaf:
        raise IncompleteOperation(
            f"the operation {name!r} has no facet `cirh`",
            hint="Pass its spelling, legal_by_decomposition(formula), or illegal_with_hint(text).",
        )
    elif not (record.is_leaf or record.cirh.is_legal or record.cirh.decomposition or record.cirh.hint):
        raise IncompleteOperation(
            f"the operation {name!r} is refused in CIRH without a hint",
            hint="Pass a hint that replaces the operation by PyTorch code.",
        )
    if record.body is not None and record.composite is not None:
        raise IncompleteOperation(
            f"the operation {name!r} has a loop body and also a composite, which replaces it on the host",
            hint="Remove the composite, or write `cirh=legal_by_decomposition(...)`.",
        )
    OPS[name] = record


check_saved_operands: Callable[[Node], None] | None = None
"""A function that is called with each new node that gradients pass, and may refuse its operands; or None.

It is set while tensors of inference mode may exist.
"""


def call(name: str, *inputs: Node, **attrs: Any) -> Node:
    """Return the node `name(*inputs, **attrs)`.

    An equal node that exists is returned again, unless each call of it is recorded separately. A new node gets the
    user's line, and tracks gradients if one of its inputs does, if the operation has a gradient rule, and if its type
    is floating point. Raise ShapeError with the user's line if the inputs do not fit.
    """
    # Fast path: a step that is traced again finds its nodes, and nothing is inferred.
    key, existing = find(name, inputs, attrs)
    if existing is not None:
        if not is_recorded_separately(existing):
            return existing
        key = (*key, unique_id())
    record = OPS[name]
    types = [i.type for i in inputs]
    question = (name, *types, key[2]) if attrs else (name, *types)
    type = _type_cache.get(question)
    if type is None:
        type = _infer_type(record, question, types, attrs)
    new = intern(key, name, inputs, attrs, type)
    new.where = source.where()
    # Without a gradient rule the node does not track gradients; neither do integers and booleans.
    if record.vjp is not None:
        for i in inputs:
            if i.tracks:
                new.tracks = type.__class__ is tuple or type.dtype.kind == "f"
                if check_saved_operands is not None and new.tracks:
                    check_saved_operands(new)
                break
    return new


_type_cache: dict[tuple[Any, ...], Any] = {}
_CACHEABLE_TYPES = (int, float, bool, str, tuple, NoneType, DType, Type)
MAX_CACHED_TYPES = 4096
"""The maximum number of cached results of type rules. A loop infers the same types repeatedly."""


def _infer_type(record: Op, question: tuple[Any, ...], types: list[Any], attrs: dict[str, Any]) -> Any:
    """Return the type that the operation's rule infers from the operands' `types`.

    It is cached under `question` if there are operands and all attributes are plain values. A full cache is cleared
    first. A ShapeError gets the name and the user's line. Elements that the operation does not accept are refused.
    """
    if record.elements and types[0].dtype.kind not in record.elements:
        refuse_elements(record.name, types[0])
    try:
        answer = record.infer(*types, **attrs)
    # The rule does not have the operation's name and the user's line: add both here.
    except ShapeError as e:
        raise ShapeError(f"{record.name}: {e.what}", where=source.where(), hint=e.hint) from None
    # Arrays and functions among the attributes must not be kept alive by the cache.
    if types and all(isinstance(value, _CACHEABLE_TYPES) for value in attrs.values()):
        if len(_type_cache) >= MAX_CACHED_TYPES:
            _type_cache.clear()
        _type_cache[question] = answer
    return answer


def refuse_elements(what: str, type: Type) -> None:
    """Raise TypeUnsupported, as PyTorch does if a kernel is not implemented for a dtype. The caller has checked the
    dtype.

    `what` is the operation, and `type` the type of its operand.
    """
    hint = "Convert the tensor, for example with .float()."
    raise TypeUnsupported(f"{what}: not implemented for {type}", where=source.where(), hint=hint)


_splat_cache: dict[tuple[Any, ...], Node] = {}
C_TYPE_NAMES = {"int32": "int", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float"}
"""Names of dtypes in PyTorch's messages about overflow. Other dtypes are named by their name followed by `_t`."""
MAX_CACHED_SPLATS = 4096
"""The maximum number of cached constants of one value, so that tracing `x * 0.5` again takes one lookup."""


def full(value: float, type: Type) -> Node:
    """Return a constant with one value everywhere, rounded to the dtype of `type`.

    Raise NumberTooLarge for an integer of more than 64 bits, and for a number that an integer dtype cannot hold. For
    unsigned dtypes, negative integers wrap around. Floating-point overflow gives infinity.
    """
    # Zeros are keyed by their text, because 0.0 == -0.0; other values by class too, because 1 == 1.0 == True.
    key = (value, value.__class__, type) if value else (repr(value), type)
    splat = _splat_cache.get(key)
    if splat is None:
        # Clearing all is enough: nodes that are in use stay alive, and interning finds them again.
        if len(_splat_cache) >= MAX_CACHED_SPLATS:
            _splat_cache.clear()
        splat = _splat_cache[key] = call("full", value=_round_value(value, type.dtype), type=type)
    return splat


def clear_splat_cache() -> None:
    """Clear the cache of constants, so that new constants get the lines of the next script."""
    _splat_cache.clear()


def _round_value(value: float, dtype: DType) -> float:
    """Return a number as PyTorch converts it to `dtype`: an int, a bool, or a float rounded to the dtype.

    Raise NumberTooLarge for an integer of more than 64 bits, and for one that an integer dtype cannot hold. A float
    that is too large becomes infinity.
    """
    # PyTorch converts a Python number to a double, or to a signed or unsigned 64-bit integer.
    if isinstance(value, int) and not -1 << 63 <= value < 1 << 64:
        raise NumberTooLarge("int too big to convert", where=source.where(), hint="Pass a number that fits in 64 bits.")
    if dtype.kind == "i":
        refuse_overflow(value, dtype)
        return wrap_integer(int(value), dtype)
    if dtype.kind == "b":
        return bool(value)
    with np.errstate(over="ignore"):  # beyond the largest number is infinity
        return float(round_to(np.asarray(value, dtype.host), dtype))


def refuse_overflow(value: float, dtype: DType) -> None:
    """Raise NumberTooLarge if `dtype` cannot hold a number, as PyTorch does when it stores one.

    In arithmetic, PyTorch raises only for integer dtypes: a floating-point result may be infinite.
    """
    if not can_hold(dtype, value, value):
        text = f"value cannot be converted to type {C_TYPE_NAMES.get(dtype.name, dtype.name + '_t')} without overflow"
        raise NumberTooLarge(text, where=source.where(), hint=f"Pass a number within the range of {dtype}.")


def full_like(value: float, like: Node) -> Node:
    """Return a constant with one value everywhere, of the type of `like`."""
    return full(value, like.type)


def combine(name: str, a: Node | float, b: Node | float | None = None) -> Node:
    """Return the node `name(a)` if `b` is None, else `name(a, b)`. A number becomes a constant of the other operand's
    type.

    Raise AssertionError if neither is a node.
    """
    if isinstance(b, Node):
        return call(name, a if isinstance(a, Node) else full(a, b.type), b)
    assert isinstance(a, Node), "at least one operand must be a node"
    return call(name, a) if b is None else call(name, a, full(b, a.type))


set_operators(combine)


def const(array: np.ndarray, type: Type) -> Node:
    """Return a constant with the elements of `array`, converted to `type`. Equal constants are the same node."""
    # The bytes are an attribute, so that interning compares contents: two equal masks are one constant.
    array = np.ascontiguousarray(array, type.dtype.host)
    constant = call("const", data=array.tobytes(), type=type)
    if constant.value is None:
        constant.value = array.reshape(type.shape)
    return constant


def same_types(*types: Type, **attrs: Any) -> Type:
    """Infer rule of pointwise operations: all operands have the same type, which is that of the result.

    Raise ShapeError if they differ.
    """
    for t in types[1:]:
        if t != types[0]:
            raise ShapeError(
                f"the operands {types[0]} and {t} have different types", hint="Reshape or convert one of them."
            )
    return types[0]


op("leaf", lambda **attrs: None, lambda **attrs: None, work=no_work, is_leaf=True)
op("state", lambda *, id, type: type, lambda **attrs: None, work=no_work, is_leaf=True)
op("batch", lambda *, index, name, type: type, lambda **attrs: None, work=no_work, is_leaf=True)
op(
    "full",
    lambda *, value, type: type,
    lambda *, value, type: np.full(type.shape, value, type.dtype.host),
    work=no_work,
    is_leaf=True,
)
op(
    "const",
    lambda *, data, type: type,
    lambda *, data, type: np.frombuffer(data, type.dtype.host).reshape(type.shape),
    work=no_work,
    is_leaf=True,
)
