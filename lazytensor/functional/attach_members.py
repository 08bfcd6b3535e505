"""Add the marked functions to Tensor as methods, in-place methods, operators and properties.

Importing the module adds them. `lazytensor.core.tensor_members` defines the marks.
"""

from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from lazytensor.autograd import function as gradients
from lazytensor.autograd import hooks
from lazytensor.core import source
from lazytensor.core.autocast import convert_operand, half_type
from lazytensor.core.immediate_writes import try_update
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
from lazytensor.functional.gradient_names import with_gradient_name
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
"""The modules whose functions may be marked as members of Tensor."""

REFLECTED_OPERATORS: dict[str, Callable[..., Tensor]] = {"truediv": pointwise.over}
"""Functions for reflected operators that are not the direct function with exchanged operands."""

# Operand types of an operator. For any other type it returns NotImplemented, so that Python tries the other operand.
_OPERAND_TYPES = (Tensor, bool, int, float)


def _cast_operand_like(value: Any, written: Tensor) -> Any:
    """Return `value`, converted to the dtype of `written` if it is a tensor of another floating-point dtype.

    In-place operations use it while automatic casts are on.
    """
    is_other = isinstance(value, Tensor) and value.dtype.kind == "f" and value.dtype is not written.dtype
    return tensor_of(convert_operand(operand_node(value), written.dtype), value) if is_other else value


OVERLAPPING_WRITES: dict[str, Callable[..., Tensor]] = {
    "masked_fill": overlapping_writes.masked_fill,
    "index_fill": overlapping_writes.index_fill,
    "index_put": indexing.put_into_overlapping_view,
}
"""In-place functions for views that contain a storage element several times, by name. Other functions refuse such
views.
"""


ELEMENT_UPDATES: dict[str, np.ufunc] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
"""NumPy's functions of the in-place operators that update a few elements at once, as in `x[i] += 1`."""


def _in_place(function: Callable[..., Tensor], shown_name: str = "") -> Callable[..., Tensor]:
    """Return the in-place method of `function`: it writes the result of the function to its first argument.

    Its docstring names `shown_name`, by default the name of the function.

    Raises ShapeError if an operand overlaps the tensor in memory, or if the tensor contains storage elements several
    times, unless OVERLAPPING_WRITES has the function.
    """
    to_repeated = OVERLAPPING_WRITES.get(function.__name__)
    ufunc = ELEMENT_UPDATES.get(shown_name)

    # The parameter has PyTorch's name, because the method is also the function torch.abs_(input).
    def method(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        if ufunc is not None and try_update(input, ufunc, args[0]):
            return input
        if half_type() is not None and input.dtype.kind == "f":
            args = tuple(_cast_operand_like(a, input) for a in args)
        result = function(input, *args, **kwargs)
        if result is NotImplemented:  # from an operator with an operand of an unsupported type
            return result
        given = (*args, *kwargs.values())
        refuse_operands(function.__name__, input, given)
        if to_repeated is not None and overlapping_writes.has_repeated_elements(input):
            return to_repeated(input, *args, **kwargs)
        return assign(input, result, *(a for a in given if isinstance(a, Tensor)))

    method.__name__ = method.__qualname__ = f"{function.__name__}_"
    # Without the example, which calls the function, and without the indentation of a docstring in its source.
    text, _, _ = (function.__doc__ or "").replace("\n    ", "\n").partition(">>> ")
    repeats = "" if to_repeated is not None else "if elements of this tensor share memory, "
    shown = f"`{shown_name or function.__name__}`"
    method.__doc__ = (
        f"Call {shown} with this tensor as the first argument, write the result into this tensor, and return it.\n\n"
        "The result is converted to the dtype of this tensor. Raises ShapeError if the result has another shape, if\n"
        "only the result is floating-point, if only this tensor is bool,\n"
        f"{repeats}and if another argument shares a part of its memory with this tensor.\n\n{shown}: {text.rstrip()}"
    )
    return method


def _defer_to_numpy(self: Tensor, other: Any) -> Any:
    # An array on the right computes the operator itself, through `__array__` and `__array_wrap__`.
    return NotImplemented


NUMPY_OPERATORS: dict[tuple[str, bool], Callable[[Tensor, Any], Any]] = {
    ("over", True): lambda x, array: pointwise.reciprocal(x) * array,
    ("eq", False): lambda x, array: pointwise.eq(x, creation.tensor(array)),
}
"""Operators that PyTorch also computes with a NumPy array, by function name and whether the form is reflected."""


def _operator(function: Callable[..., Tensor], reflected: bool) -> Callable[..., Any]:
    """Return the method of a binary operator that calls `function`, with exchanged operands if `reflected` is true.

    NumPy scalars count as numbers. NumPy arrays are passed to the function in NUMPY_OPERATORS, else to
    `_defer_to_numpy`. The method returns NotImplemented for other operands that are neither tensors nor numbers, and
    raises TypeUnsupported for complex numbers.
    """
    foreign = NUMPY_OPERATORS.get((function.__name__, reflected), _defer_to_numpy)

    def method(self: Tensor, other: Any) -> Any:
        if not isinstance(other, _OPERAND_TYPES):
            if isinstance(other, complex):
                raise TypeUnsupported(
                    f"a tensor cannot be combined with the complex number {other}, because complex tensors are "
                    "not supported",
                    where=source.where(),
                    hint="Compute with the real and the imaginary part separately.",
                )
            if not isinstance(other, np.number | np.bool_):
                return foreign(self, other) if isinstance(other, np.ndarray) else NotImplemented
            other = python_number(other)
        return function(other, self) if reflected else function(self, other)

    method.__doc__ = function.__doc__
    return method


def build_members(function: Callable[..., Any], mark: MemberMark) -> dict[str, Any]:
    """Return the members of Tensor that `mark` requests for `function`, by name.

    A property mark gives a property under each of its names. Any other mark gives a method under each name. It can add
    the in-place method `name_`, a comparison operator, or the direct, reflected and in-place forms of an operator.
    """
    if mark.is_property:
        return {name: property(with_gradient_name(name, function)) for name in mark.names}
    # Each alias uses the function's name for refusals and automatic casts.
    members: dict[str, Any] = dict.fromkeys(mark.names, accept_alternative_names(publish(function, place=None)))
    if mark.in_place:
        # The vendor's front end applies the refusals of the function to its in-place form.
        named = with_gradient_name(function.__name__, function)
        writing = _in_place(accept_alternative_names(with_refusals(function.__name__, named)))
        members |= dict.fromkeys((f"{name}_" for name in mark.names), writing)
    if mark.is_comparison:
        # Python reflects comparisons without a method, and they have no in-place form.
        members[f"__{function.__name__}__"] = _operator(function, False)
    if mark.operator:
        direct, reflected = f"__{mark.operator}__", f"__r{mark.operator}__"
        # The tables of casts and refusals have separate rows for operators.
        members[direct] = publish(_operator(function, False), direct, None)
        members[reflected] = publish(_operator(REFLECTED_OPERATORS.get(mark.operator, function), True), reflected, None)
        members[f"__i{mark.operator}__"] = _in_place(_operator(function, False), function.__name__)
    return members


def marked_functions() -> list[tuple[Callable[..., Any], MemberMark]]:
    """Return every function of `FAMILIES` that is marked as a member of Tensor, once for each of its marks."""
    # Imported functions are skipped here, since they appear in the module that defines them.
    own = [f for m in FAMILIES for f in vars(m).values() if isinstance(f, FunctionType) and f.__module__ == m.__name__]
    return [(f, mark) for f in dict.fromkeys(own) for mark in member_marks(f)]


def attach_members() -> None:
    """Set all marked functions as members of Tensor, and set the constructor of legacy calls such as `Tensor(2, 3)`."""
    Tensor.constructed = staticmethod(legacy_constructors.construct_legacy)
    # The stub `tensor_methods.pyi` lists the same names for editors and type checkers.
    for function, mark in marked_functions():
        for name, member in build_members(function, mark).items():
            setattr(Tensor, name, member)


attach_members()
