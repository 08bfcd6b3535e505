"""Format floating-point numbers as MLIR prints them.

MLIR first tries six significant digits in scientific form, and keeps them if they read back as the same number;
otherwise it prints the digits that the format needs. Both use one conversion, whose truncation to about 20 bits decides
the outcome (0.1 is 1.000000e-01, 0.9 is 0.899999976). The steps were derived from printed constants.
"""

import numpy as np

from lazytensor.core import dtype as dt
from lazytensor.core.dtype import DType, round_to

# Bits of a significand, including the hidden one.
_PRECISION = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
# The NumPy type whose bits are printed, and the number of hexadecimal digits; bfloat16 is stored in float32.
_NAMED_BITS = {"f16": ("<f2", 4), "f32": ("<f4", 8), "f64": ("<f8", 16), "bf16": ("<f4", 4)}


def mlir_float(value: float, dtype: DType) -> str:
    """Return a number of a floating-point dtype as MLIR prints it in `dense<...>`.

    It is in scientific form with 6 significant digits if these give the number exactly in the dtype, and else has
    enough digits to do so. Infinities and NaN are printed as hexadecimal bits, and cbfloat16 as f16.
    """
    # MLIR has no cbfloat16: the front end prints f16, and an attribute of the function names the type.
    dtype = dt.float16 if dtype is dt.cbfloat16 else dtype
    # MLIR prints the bits of infinities and NaN.
    if not np.isfinite(value):
        return _hexadecimal(value, dtype)
    short = _format_digits(value, 6, 0, truncate_zero=False)
    if _round_to_dtype(float(short), dtype) == value:
        return short
    # 59 / 196 approximates lg 2 in this conversion; two more digits distinguish all numbers of the format.
    digits = 2 + _PRECISION[dtype.mlir] * 59 // 196
    return _format_digits(value, digits, 3, truncate_zero=True)


def _round_to_dtype(value: float, dtype: DType) -> float:
    if dtype is dt.float64:
        return value
    return float(round_to(np.asarray(value, np.float32), dtype))


def _hexadecimal(value: float, dtype: DType) -> str:
    kind, digits = _NAMED_BITS[dtype.mlir]
    bits = int.from_bytes(np.asarray(value, kind).tobytes(), "little")
    # bfloat16 is the upper half of a float32.
    return f"0x{bits >> (16 if dtype.mlir == 'bf16' else 0):0{digits}X}"


def _format_digits(value: float, precision: int, max_padding: int, truncate_zero: bool) -> str:
    """Return a finite number with at most `precision` significant digits, in plain or scientific form.

    The form is scientific if `max_padding` is 0 or more zeros than it would be needed. With `truncate_zero` it is
    as in "1.5E+10"; without, it is padded with zeros to `precision` digits after the point, as in "1.500000e+10".
    """
    sign = "-" if np.signbit(value) else ""
    # Zero has no leading digit, which the code below needs.
    if value == 0:
        return sign + ("0.0" if truncate_zero else "0.000000e+00")
    # Every finite number is an integer times a power of two, and 2^-k = 5^k 10^-k: exact in decimal from here on.
    numerator, denominator = abs(value).as_integer_ratio()
    exponent = -(denominator.bit_length() - 1)
    significand = numerator * 5 ** (-exponent)
    significand, exponent = _truncate_significand(significand, exponent, precision)
    digits, exponent = _round_digits(str(significand), exponent, precision)
    point = exponent + len(digits) - 1
    if max_padding and not (exponent > max_padding if exponent >= 0 else point < -max_padding):
        return sign + _format_positional(digits, exponent, point)
    tail = digits[1:] if truncate_zero else digits[1:].ljust(precision, "0")
    if not truncate_zero:
        return f"{sign}{digits[0]}.{tail}e{point:+03d}"
    return f"{sign}{digits[0]}.{tail or '0'}E{point:+d}"


def _truncate_significand(significand: int, exponent: int, precision: int) -> tuple[int, int]:
    """Return (significand, exponent of ten), cut to about the bits that `precision` digits need (lg 10 is taken as
    196/59).
    """
    # Rational approximations of logarithms, and truncation without rounding: both errors affect the printed digits, so
    # they have to be reproduced.
    surplus = significand.bit_length() - (precision * 196 + 58) // 59
    tens = surplus * 59 // 196 if surplus > 0 else 0
    return significand // 10**tens, exponent + tens


def _round_digits(digits: str, exponent: int, precision: int) -> tuple[str, int]:
    """Return at most `precision` digits, half rounded up, without trailing zeros, and the new exponent of ten."""
    if len(digits) > precision:
        cut = len(digits) - precision
        number = int(digits[:precision]) + (digits[precision] >= "5")
        digits, exponent = str(number), exponent + cut
    kept = digits.rstrip("0")
    return kept, exponent + len(digits) - len(kept)


def _format_positional(digits: str, exponent: int, point: int) -> str:
    if exponent >= 0:
        return digits + "0" * exponent + ".0"
    if point >= 0:
        return f"{digits[: point + 1]}.{digits[point + 1 :]}"
    return "0." + "0" * (-point - 1) + digits
