"""Elements in their types, as compiled leaves: 16-bit numbers are computed in float32 and rounded to nearest even."""

import math

import numpy as np

from wse_sim.fabric.compiled import bits_of, float_of, leaf
from wse_sim.isa.record import (
    ADD,
    CONVERT,
    EXP,
    FLOAT16,
    FLOAT32,
    GREATER,
    LOG,
    MAX,
    MUL,
    RECIPROCAL,
    SQRT,
    SUB,
    UINT16,
)


@leaf
def _half_of(value):
    """The bits of the float16 nearest to a float32, as NumPy converts it."""
    bits = np.int64(bits_of(value))
    sign, rest = (bits >> 16) & 0x8000, bits & 0x7FFFFFFF
    if rest >= 0x7F800000:
        payload = (rest >> 13) & 0x3FF
        if rest > 0x7F800000 and payload == 0:
            payload = np.int64(1)
        return sign | 0x7C00 | payload
    if rest >= 0x477FF000:
        return sign | 0x7C00
    if rest >= 0x38800000:
        rest -= 0x38000000
        return sign | ((rest + 0xFFF + ((rest >> 13) & 1)) >> 13)
    if rest < 0x33000000:
        return sign
    shift = 126 - (rest >> 23)
    rest = (rest & 0x7FFFFF) | 0x800000
    kept = rest >> shift
    left, middle = rest & ((1 << shift) - 1), 1 << (shift - 1)
    return sign | (kept + (1 if left > middle or (left == middle and kept & 1) else 0))


@leaf
def _of_half(half):
    sign, exponent, fraction = (half & 0x8000) << 16, (half >> 10) & 31, half & 0x3FF
    if exponent == 31:
        return float_of(np.int32(sign | 0x7F800000 | fraction << 13))
    if exponent == 0:
        value = np.float32(fraction) * np.float32(2.0**-24)
        return -value if sign else value
    return float_of(np.int32(sign | (exponent + 112) << 23 | fraction << 13))


@leaf
def _bfloat_of(value):
    bits = np.int64(bits_of(value)) & 0xFFFFFFFF
    if bits & 0x7FFFFFFF > 0x7F800000:
        return bits >> 16 | 0x40
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


@leaf
def encode(value, dtype):
    """The 16 bits of a float32 in a 16-bit type."""
    if dtype == UINT16:
        return np.int64(value)
    return _half_of(value) if dtype == FLOAT16 else _bfloat_of(value)


@leaf
def decode(half, dtype):
    """The float32 of 16 bits."""
    return _of_half(half) if dtype == FLOAT16 else float_of(np.int32(half << 16))


@leaf
def rounded(value, dtype):
    """A float32 rounded to a type."""
    return value if dtype == FLOAT32 else decode(encode(value, dtype), dtype)


@leaf
def one_source(op, a):
    """The library routines: in float64, rounded once."""
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


@leaf
def two_sources(op, a, b):
    if op == ADD:
        return a + b
    if op == SUB:
        return a - b
    if op == MUL:
        return a * b
    if op == MAX:
        return np.float32(np.maximum(a, b))
    return np.float32(1.0) if op == GREATER and a > b else np.float32(0.0)
