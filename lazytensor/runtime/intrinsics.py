"""Single LLVM instructions that Numba does not offer by itself, as functions for generated loops.

A maximum that keeps NaN, roundings, and the reading of a number's bits are one instruction each. `sum_f4` may be
reordered: it is for a sum that only tells whether there is a NaN.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

Helper = Callable[..., Any]
Typing = tuple[Any, Callable[..., Any]]
"""What Numba asks of an intrinsic: the signature for the arguments' types, and the function that emits the code."""


def _reinterpret(result: types.Type) -> Helper:
    """An intrinsic that reads the bits of its argument as another type."""

    def typing(context: Any, x: Any) -> Typing:
        def generate(ctx: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], ctx.get_value_type(result))

        return result(x), generate

    return intrinsic(typing)


def _llvm(name: str, arity: int = 1, flags: tuple[str, ...] = ()) -> Helper:
    """An LLVM intrinsic on floating-point numbers as a function; `flags` are what LLVM may assume of them."""

    def emit(builder: Any, arguments: Any) -> Any:
        kind = arguments[0].type
        function = builder.module.declare_intrinsic(name, [kind], ir.FunctionType(kind, [kind] * arity))
        return builder.call(function, arguments, fastmath=flags)

    def generate(ctx: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return emit(builder, arguments)

    # Numba reads the number of arguments off the typing function, so there is one for each arity.
    def unary(context: Any, x: Any) -> Typing:
        return x(x), generate

    def binary(context: Any, x: Any, y: Any) -> Typing:
        return x(x, x), generate

    def ternary(context: Any, x: Any, y: Any, z: Any) -> Typing:
        return x(x, x, x), generate

    return intrinsic((unary, binary, ternary)[arity - 1])


def _relaxed(instruction: str) -> Helper:
    """An addition that LLVM may reorder with its like."""

    def typing(context: Any, x: Any, y: Any) -> Typing:
        def generate(ctx: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, instruction)(*arguments, flags=("reassoc", "nsz"))

        return x(x, x), generate

    return intrinsic(typing)


bits_f4, float_f4 = _reinterpret(types.int32), _reinterpret(types.float32)
bits_f8, float_f8 = _reinterpret(types.int64), _reinterpret(types.float64)
sum_f4 = _relaxed("fadd")
max_f4 = max_f8 = maximum_f4 = maximum_f8 = _llvm("llvm.maximum", 2)  # NaN if either is NaN
min_f4 = min_f8 = minimum_f4 = minimum_f8 = _llvm("llvm.minimum", 2)
largest_f4 = _llvm("llvm.maxnum", 2, ("nnan", "nsz"))  # anything if either is NaN: for who finds that elsewhere
sqrt_f4 = sqrt_f8 = _llvm("llvm.sqrt")
abs_f4 = abs_f8 = _llvm("llvm.fabs")
floor_f4 = floor_f8 = _llvm("llvm.floor")
ceil_f4 = ceil_f8 = _llvm("llvm.ceil")
trunc_f4 = trunc_f8 = _llvm("llvm.trunc")
round_f4 = round_f8 = _llvm("llvm.rint")
fma = _llvm("llvm.fmuladd", 3)  # x * y + z, with one rounding where the processor can
copysign_f4 = _llvm("llvm.copysign", 2)
