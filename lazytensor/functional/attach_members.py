"""Gives Tensor its members: methods, forms that write in place, operators and properties, as functions are marked.

Each operation is written once, as a function; `lazytensor.core.tensor_members` says how it is marked.
"""

from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from lazytensor.autograd import function as gradients
from lazytensor.autograd import hooks
from lazytensor.core import source
from lazytensor.core.autocast import convert_operand, half_type
from lazytensor.core.overlapping_views import refuse_operands
from lazytensor.core.tensor import Tensor, operand_node
from lazytensor.core.tensor_members import MemberMark, member_marks
from lazytensor.display import printing
from lazytensor.errors import TypeUnsupported
from lazytensor.functional import (
    activation,
    bitwise,
    comparison,
    conversion,
    copy_protocol,
    creation,
    cumulative,
    diagonals,
    distance,
    finite_differences,
    flip_and_roll,
    gather_scatter,
    in_place,
    indexing,
    joining_and_splitting,
    legacy_constructors,
    linalg,
    matmul,
    overlapping_writes,
    pointwise,
    pointwise_special,
    pointwise_ternary,
    quantile,
    random_sampling,
    reduction,
    sorting,
    spectral,
    statistics,
    strided_views,
    tensor_attributes,
    tensor_products,
    views,
)
from lazytensor.functional.autocast_rules import publish
from lazytensor.functional.csx_refusals import with_refusals
from lazytensor.functional.in_place import assign
from lazytensor.functional.numpy_argument_names import accept_alternative_names
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.type_promotion import python_number

FAMILIES: tuple[ModuleType, ...] = (
    activation,
    joining_and_splitting,
    tensor_products,
    conversion,
    copy_protocol,
    legacy_constructors,
    creation,
    gather_scatter,
    hooks,
    gradients,
    indexing,
    bitwise,
    linalg,
    matmul,
    pointwise,
    printing,
    tensor_attributes,
    quantile,
    random_sampling,
    reduction,
    cumulative,
    views,
    sorting,
    pointwise_special,
    spectral,
    statistics,
    pointwise_ternary,
    strided_views,
    in_place,
    comparison,
    diagonals,
    distance,
    finite_differences,
    flip_and_roll,
)
"""The modules that have functions which are members of Tensor."""

REFLECTED_OPERATORS: dict[str, Callable[..., Tensor]] = {"truediv": pointwise.over}
"""Operators whose reflected form is not the function with its operands exchanged."""

# What an operator takes; with anything else Python is to ask the other operand.
_OPERAND_TYPES = (Tensor, bool, int, float)


def _cast_operand_like(value: Any, written: Tensor) -> Any:
    """Return a floating operand in the type of the tensor that is written, as automatic casts give it."""
    is_other = isinstance(value, Tensor) and value.dtype.kind == "f" and value.dtype is not written.dtype
    return tensor_of(convert_operand(operand_node(value), written.dtype), value) if is_other else value


OVERLAPPING_WRITES: dict[str, Callable[..., Tensor]] = {
    "masked_fill": overlapping_writes.masked_fill,
    "index_fill": overlapping_writes.index_fill,
    "index_put": indexing.put_into_overlapping_view,
}
"""What writes in place to a view that shows elements several times, by function; others refuse it."""


def _in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    to_repeated = OVERLAPPING_WRITES.get(function.__name__)

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if half_type() is not None and self.dtype.kind == "f":
            args = tuple(_cast_operand_like(a, self) for a in args)
        result = function(self, *args, **kwargs)
        if result is NotImplemented:  # from an operator with an operand of another kind
            return result
        given = (*args, *kwargs.values())
        refuse_operands(function.__name__, self, given)
        if to_repeated is not None and overlapping_writes.has_repeated_elements(self):
            return to_repeated(self, *args, **kwargs)
        return assign(self, result, *(a for a in given if isinstance(a, Tensor)))

    method.__name__ = method.__qualname__ = f"{function.__name__}_"
    text, _, _ = (function.__doc__ or "").partition(">>> ")  # the example calls the form that does not write
    method.__doc__ = f"`{function.__name__}`, written back into this tensor: {text.rstrip()}"
    return method


def _defer_to_numpy(self: Tensor, other: Any) -> Any:
    # An array on the right serves the operator itself, by `__array__` and `__array_wrap__`; on the left nobody does.
    return NotImplemented


NUMPY_OPERATORS: dict[tuple[str, bool], Callable[[Tensor, Any], Any]] = {
    ("over", True): lambda x, array: pointwise.reciprocal(x) * array,
    ("eq", False): lambda x, array: pointwise.eq(x, creation.tensor(array)),
}
"""What PyTorch serves with an array as well, by function and whether it is the reflected form."""


def _operator(function: Callable[..., Tensor], reflected: bool) -> Callable[..., Any]:
    foreign = NUMPY_OPERATORS.get((function.__name__, reflected), _defer_to_numpy)

    def method(self: Tensor, other: Any) -> Any:
        if not isinstance(other, _OPERAND_TYPES):
            if isinstance(other, complex):
                raise TypeUnsupported(
                    f"a tensor and the complex number {other}: complex tensors are not provided",
                    where=source.where(),
                    hint="Compute with the real and the imaginary part.",
                )
            if not isinstance(other, np.number | np.bool_):
                return foreign(self, other) if isinstance(other, np.ndarray) else NotImplemented
            other = python_number(other)
        return function(other, self) if reflected else function(self, other)

    method.__doc__ = function.__doc__
    return method


def build_members(function: Callable[..., Any], mark: MemberMark) -> dict[str, Any]:
    """What Tensor has because of one mark, by name."""
    if mark.is_property:
        return dict.fromkeys(mark.names, property(function))
    # Published under each name, but by the function's own: aliases are refused and converted alike.
    members: dict[str, Any] = dict.fromkeys(mark.names, accept_alternative_names(publish(function, place=None)))
    if mark.in_place:
        # The front end gives an in-place form to the operation of the same name.
        writing = _in_place(accept_alternative_names(with_refusals(function.__name__, function)))
        members |= dict.fromkeys((f"{name}_" for name in mark.names), writing)
    if mark.is_comparison:
        # Python reflects a comparison by itself, and has no form of it that writes in place.
        members[f"__{function.__name__}__"] = _operator(function, False)
    if mark.operator:
        direct, reflected = f"__{mark.operator}__", f"__r{mark.operator}__"
        # Operators stand in the tables of casts and refusals under names of their own.
        members[direct] = publish(_operator(function, False), direct, None)
        members[reflected] = publish(_operator(REFLECTED_OPERATORS.get(mark.operator, function), True), reflected, None)
        members[f"__i{mark.operator}__"] = _in_place(_operator(function, False))
    return members


def marked_functions() -> list[tuple[Callable[..., Any], MemberMark]]:
    """Every function that is a member of Tensor, with each of its marks."""
    # A module also has the functions that it imports; they are counted where they are defined.
    own = [f for m in FAMILIES for f in vars(m).values() if isinstance(f, FunctionType) and f.__module__ == m.__name__]
    return [(f, mark) for f in dict.fromkeys(own) for mark in member_marks(f)]


def attach_members() -> None:
    """Give Tensor its members."""
    Tensor.constructed = staticmethod(legacy_constructors.construct_legacy)
    # At import, once. The stub beside the package tells editors and type checkers the same names.
    for function, mark in marked_functions():
        for name, member in build_members(function, mark).items():
            setattr(Tensor, name, member)


attach_members()
