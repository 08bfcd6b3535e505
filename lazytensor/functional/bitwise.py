"""Bitwise operations on integers and bools: logic, shifts, and common divisors."""

from collections.abc import Callable

from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.core.tensor_members import method
from lazytensor.docstrings import documented
from lazytensor.errors import TypeUnsupported
from lazytensor.functional import pointwise as pw
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.type_promotion import Operand, prepare_operands, result_type
from lazytensor.ops import call

Binary = Callable[[Operand, Operand], Tensor]


def _exclusive_or(a: Operand, b: Operand) -> Tensor:
    """Return the exclusive or of two bool operands as one operation.

    `logical_xor` records comparisons on CSX instead.
    """
    return tensor_of(call("logical_xor", *prepare_operands(a, b)), a, b)


def _binary(
    name: str, node_name: str, doc: str, example: str, logical: Binary | None = None, operator: str = ""
) -> Binary:
    """Return a Tensor method `name` for two integer operands that records the operation `node_name`.

    `doc` and `example` become its docstring. `logical` is called instead if the promoted dtype is bool. `operator` is
    the name of the Python operator, such as "and". The method also has an in-place form. It raises TypeUnsupported for
    floating-point operands, and for bool ones if `logical` is None.
    """

    def function(input: Operand, other: Operand) -> Tensor:
        kind = result_type(input, other).kind
        # Logic on bool masks is the common case. Shifts and divisors have no bool form.
        if kind == "b" and logical is not None:
            return logical(input, other)
        if kind != "i":
            raise _unsupported_type_error(name, "float" if kind == "f" else "bool")
        return tensor_of(call(node_name, *prepare_operands(input, other)), input, other)

    refused = "floating-point operands" if logical is not None else "floating-point and bool operands"
    note = f"Raises TypeUnsupported for {refused}, and ShapeError if the\nshapes do not broadcast."
    documented(function, name, f"{doc}\n\nShapes broadcast, and dtypes are promoted. {note}", example)
    return method(function, in_place=True, operator=operator)


def _unsupported_type_error(name: str, kind: str) -> TypeUnsupported:
    return TypeUnsupported(
        f'"{name}" not implemented for {kind}', where=source.where(), hint="Convert to an integer type first."
    )


bitwise_and = _binary(
    "bitwise_and",
    "bitwise_and",
    "Return the bitwise and of each pair of integers, or the logical and of bools.",
    ">>> lt.bitwise_and(lt.tensor([6]), lt.tensor([3]))\ntensor([2])",
    pw.logical_and,
    "and",
)
bitwise_or = _binary(
    "bitwise_or",
    "bitwise_or",
    "Return the bitwise or of each pair of integers, or the logical or of bools.",
    ">>> lt.bitwise_or(lt.tensor([6]), lt.tensor([3]))\ntensor([7])",
    pw.logical_or,
    "or",
)
bitwise_xor = _binary(
    "bitwise_xor",
    "bitwise_xor",
    "Return the bitwise exclusive or of each pair of integers, or the logical exclusive or of bools.",
    ">>> lt.bitwise_xor(lt.tensor([6]), lt.tensor([3]))\ntensor([5])",
    _exclusive_or,
    "xor",
)
bitwise_left_shift = _binary(
    "bitwise_left_shift",
    "left_shift",
    "Return each element of `input` shifted left by `other` bits. Zeros are shifted in.\n\n"
    "A shift count that is negative or at least the number of bits gives 0.",
    ">>> lt.bitwise_left_shift(lt.tensor([1, 2]), 3)\ntensor([ 8, 16])",
    operator="lshift",
)
bitwise_right_shift = _binary(
    "bitwise_right_shift",
    "right_shift",
    "Return each element of `input` shifted right by `other` bits: input / 2 ** other, rounded down.\n\n"
    "A shift count that is negative or at least the number of bits gives 0, and -1 for negative elements.",
    ">>> lt.bitwise_right_shift(lt.tensor([8, 16]), 3)\ntensor([1, 2])",
    operator="rshift",
)
gcd = _binary(
    "gcd",
    "gcd",
    "Return the greatest common divisor of each pair of integers. It is not negative, and 0 for two zeros.",
    ">>> lt.gcd(lt.tensor([12]), lt.tensor([18]))\ntensor([6])",
)
lcm = _binary(
    "lcm",
    "lcm",
    "Return the least common multiple of each pair of integers. It is not negative, and 0 if one of them is.",
    ">>> lt.lcm(lt.tensor([4]), lt.tensor([6]))\ntensor([12])",
)


@method(names="__invert__")
@method(in_place=True)
def bitwise_not(input: Tensor) -> Tensor:
    """Return the bitwise complement of each integer in `input`, or the logical negation of each bool.

    The result has the shape and dtype of `input`. Raises TypeUnsupported for floating-point tensors.

    >>> import lazytensor as lt
    >>> lt.bitwise_not(lt.tensor([0, 1]))
    tensor([-1, -2])
    """
    if input.dtype.kind == "f":
        raise _unsupported_type_error("bitwise_not", "float")
    # Two's complement: ~x is -x - 1.
    return pw.logical_not(input) if input.dtype.kind == "b" else -input - 1
