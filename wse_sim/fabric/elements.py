"""Conversion and arithmetic of elements, as compiled functions.

16-bit floating-point numbers are computed in float32 and rounded to nearest, ties to even.
"""

import math

import numpy as np

from wse_sim.fabric.compiled import Int, Real, bits_to_float, compile_inlined, float_to_bits
from wse_sim.isa.record import (
    ADD,
    BIT_AND,
    BIT_XOR,
    CONVERT,
    EXP,
    FLOAT16,
    FLOAT32,
    GREATER,
    LOG,
    MAX,
    MUL,
    RECIPROCAL,
    SHIFT_LEFT,
    SHIFT_RIGHT,
    SQRT,
    SUB,
    UINT16,
)


@compile_inlined
def _float32_to_float16(value: Real) -> Int:
    """Return the bits of the float16 nearest to a float32, with the same result as NumPy's conversion."""
    bits = np.int64(float_to_bits(value))
    sign, rest = (bits >> 16) & 0x8000, bits & 0x7FFFFFFF
    # An infinity, or a NaN, whose payload keeps its highest bits. If those are zero, one bit is set so that it stays a
    # NaN.
    if rest >= 0x7F800000:
        payload = (rest >> 13) & 0x3FF
        if rest > 0x7F800000 and payload == 0:
            payload = np.int64(1)
        return sign | 0x7C00 | payload
    # 65,520, halfway between the largest float16 and the next power of two: from here on values round to infinity.
    if rest >= 0x477FF000:
        return sign | 0x7C00
    # 2 ** -14, the smallest normal float16: rebias the exponent (127 - 15 = 112, in place 0x38000000) and round off 13
    # bits.
    if rest >= 0x38800000:
        rest -= 0x38000000
        return sign | ((rest + 0xFFF + ((rest >> 13) & 1)) >> 13)
    # 2 ** -25, half of the smallest subnormal: smaller numbers become zero.
    if rest < 0x33000000:
        return sign
    # A subnormal: the implicit one becomes explicit, and more bits are dropped the smaller the number is.
    shift = 126 - (rest >> 23)
    rest = (rest & 0x7FFFFF) | 0x800000
    kept = rest >> shift
    left, middle = rest & ((1 << shift) - 1), 1 << (shift - 1)
    return sign | (kept + (1 if left > middle or (left == middle and kept & 1) else 0))


@compile_inlined
def _float16_to_float32(half: Int) -> Real:
    """Return the float32 with the same value as the 16 bits `half` of a float16."""
    sign, exponent, fraction = (half & 0x8000) << 16, (half >> 10) & 31, half & 0x3FF
    if exponent == 31:
        return bits_to_float(np.int32(sign | 0x7F800000 | fraction << 13))
    if exponent == 0:
        # A subnormal is exact in float32.
        value = np.float32(fraction) * np.float32(2.0**-24)
        return -value if sign else value
    return bits_to_float(np.int32(sign | (exponent + 112) << 23 | fraction << 13))


@compile_inlined
def _float32_to_bfloat16(value: Real) -> Int:
    """Return the 16 bits of the bfloat16 nearest to `value`, ties to even; NaN stays NaN."""
    bits = np.int64(float_to_bits(value)) & 0xFFFFFFFF
    # A NaN is made quiet: rounding could carry its payload into an infinity.
    if bits & 0x7FFFFFFF > 0x7F800000:
        return bits >> 16 | 0x40
    # Half of the last place, less one if the last bit is even: ties go to even, and a carry into the exponent is
    # correct.
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


@compile_inlined
def encode(value: Real, dtype: Int) -> Int:
    """Return the 16 bits of a float32 in the type `dtype`: FLOAT16, BFLOAT16 or UINT16.

    Values are rounded to nearest, ties to even; the fraction is dropped for UINT16.
    """
    if dtype == UINT16:
        return np.int64(value)
    return _float32_to_float16(value) if dtype == FLOAT16 else _float32_to_bfloat16(value)


@compile_inlined
def decode(half: Int, dtype: Int) -> Real:
    """Return the float32 of 16 bits in the type `dtype`: FLOAT16, BFLOAT16 or UINT16."""
    if dtype == UINT16:
        return np.float32(half)
    return _float16_to_float32(half) if dtype == FLOAT16 else bits_to_float(np.int32(half << 16))


@compile_inlined
def round_to_dtype(value: Real, dtype: Int) -> Real:
    """Return a float32 rounded to the type `dtype`."""
    return value if dtype == FLOAT32 else decode(encode(value, dtype), dtype)


@compile_inlined
def apply_unary(op: Int, a: Real) -> Real:
    """Return the float32 result of a conversion (CONVERT, which returns `a`) or of a library routine.

    A library routine is computed in float64 and rounded once.
    """
    # Rounded once from float64, a routine is correct to half a unit of float32 except for one value in many millions,
    # on every platform.
    x = np.float64(a)
    if op == CONVERT:
        return a
    if op == EXP:
        return np.float32(math.exp(x))
    if op == LOG:
        return np.float32(math.log(x))
    if op == RECIPROCAL:
        return np.float32(1.0 / x)
    return np.float32(math.sqrt(x)) if op == SQRT else np.float32(math.tanh(x))


@compile_inlined
def _apply_bitwise(op: Int, a: Int, b: Int) -> Real:
    """Return the result of a bitwise operation on 16-bit integers, as float32; of a shift left only the
    lowest 16 bits.
    """
    if op == BIT_AND:
        return np.float32(a & b)
    if op == BIT_XOR:
        return np.float32(a ^ b)
    return np.float32((a << b if op == SHIFT_LEFT else a >> b) & 0xFFFF)


@compile_inlined
def apply_binary(op: Int, a: Real, b: Real) -> Real:
    """Return the float32 result of an operation on two values, not yet rounded to a narrower type.

    MAX is NaN if one of them is NaN, and GREATER is 1 or 0. A fractional part is dropped for bitwise operations.
    """
    if op == ADD:
        return a + b
    if op == SUB:
        return a - b
    if op == MUL:
        return a * b
    if op == MAX:
        return np.float32(np.maximum(a, b))
    if BIT_AND <= op <= SHIFT_RIGHT:
        return _apply_bitwise(op, np.int64(a), np.int64(b))
    return np.float32(1.0) if op == GREATER and a > b else np.float32(0.0)
