"""Element types of tensors: name, representation in host arrays, and rounding.

Half types are held in float32 arrays and rounded at the end of each kernel; `itemsize` is their size on the wafer and
in files. Sources: IEEE 754 for float16; bfloat16 is the upper half of float32; cbfloat16 has 1 sign, 6 exponent and 9
mantissa bits (Cerebras documentation of the number formats).
"""

import math
from typing import Any

import numpy as np

from lazytensor.errors import ShapeError


class DType:
    """An element type, such as `float32`. There is one object for each name, so equality is identity. Read-only.

    Fields:
    - `name`: such as "float32".
    - `host`: the NumPy type of host arrays.
    - `itemsize`: bytes per element on the device and in files.
    - `kind`: "b" for bool, "i" for integers, "f" for floating point.
    - `mantissa_bits`, `exponent_bits`: 0 for types that are not floating point.
    - `mlir`: the name of the type in MLIR.
    """

    __slots__ = ("exponent_bits", "host", "itemsize", "kind", "mantissa_bits", "mlir", "name")
    name: str
    host: np.dtype
    itemsize: int
    kind: str
    mantissa_bits: int
    exponent_bits: int
    mlir: str

    def __init__(self, name: str, host: np.dtype, **facts: Any):
        for key, value in {"mantissa_bits": 0, "exponent_bits": 0, "name": name, "host": host, **facts}.items():
            object.__setattr__(self, key, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name!r} of {self!r} is read-only")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name!r} of {self!r} is read-only")

    @property
    def is_floating_point(self) -> bool:
        """Whether it is a floating-point type."""
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        """False: complex tensors are not supported."""
        return False

    @property
    def is_signed(self) -> bool:
        """Whether it can represent negative numbers."""
        return self.kind == "f" or (self.kind == "i" and self.host.kind == "i")

    @property
    def is_half(self) -> bool:
        """Whether it is a 16-bit floating-point type. Host arrays hold its elements in float32, rounded to the type."""
        return self.kind == "f" and self.itemsize == 2

    @property
    def smallest_normal(self) -> float:
        """Return the smallest positive normal number of a floating-point dtype."""
        # With e exponent bits, the smallest exponent of a normal number is 2 - 2^(e - 1), since one value at each end
        # is reserved.
        return float(2.0 ** (2 - 2 ** (self.exponent_bits - 1)))

    @property
    def largest(self) -> float:
        """The largest finite number of a floating-point type."""
        return float((2 - 2.0**-self.mantissa_bits) * 2.0 ** (2 ** (self.exponent_bits - 1) - 1))

    def __repr__(self) -> str:
        # The import shim renames the class to `torch.dtype`, so that the repr is PyTorch's.
        return f"{DType.__module__.partition('.')[0]}.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (dtype_by_name, (self.name,))


def _float(name: str, host: str, itemsize: int, mantissa: int, exponent: int, mlir: str) -> DType:
    return DType(
        name,
        np.dtype(host),
        itemsize=itemsize,
        kind="f",
        mantissa_bits=mantissa,
        exponent_bits=exponent,
        mlir=mlir,
    )


def _integer(name: str, host: str, mlir: str, kind: str = "i") -> DType:
    array = np.dtype(host)
    return DType(name, array, itemsize=array.itemsize, kind=kind, mlir=mlir)


float64: DType = _float("float64", "f8", 8, 52, 11, "f64")
float32: DType = _float("float32", "f4", 4, 23, 8, "f32")
float16: DType = _float("float16", "f4", 2, 10, 5, "f16")
bfloat16: DType = _float("bfloat16", "f4", 2, 7, 8, "bf16")
cbfloat16: DType = _float("cbfloat16", "f4", 2, 9, 6, "f16")
int64: DType = _integer("int64", "i8", "i64")
int32: DType = _integer("int32", "i4", "i32")
int16: DType = _integer("int16", "i2", "i16")
int8: DType = _integer("int8", "i1", "i8")
uint8: DType = _integer("uint8", "u1", "ui8")
uint16: DType = _integer("uint16", "u2", "ui16")
bool_: DType = _integer("bool", "?", "i1", kind="b")

ALL = (float64, float32, float16, bfloat16, cbfloat16, int64, int32, int16, int8, uint8, uint16, bool_)
_BY_NAME = {d.name: d for d in ALL}
_BY_NUMPY = {np.dtype(d.host): d for d in (float64, float32, int64, int32, int16, int8, uint8, uint16, bool_)}
_INTEGER_RANK = {uint8: 1, int8: 1, uint16: 2, int16: 2, int32: 3, int64: 4}
_FLOAT_RANK = {float16: 1, bfloat16: 1, cbfloat16: 1, float32: 2, float64: 3}


def dtype_by_name(name: str) -> DType:
    """Return the dtype with this name ("float32", without the module). Raises ShapeError for an unknown name."""
    if name not in _BY_NAME:
        raise ShapeError(f"the element type {name!r} does not exist", hint=f"Use one of {', '.join(_BY_NAME)}.")
    return _BY_NAME[name]


def dtype_of_array(array: np.ndarray) -> DType:
    """Return the dtype that a tensor has if PyTorch makes it from `array`. The byte order does not matter.

    Raises ShapeError if there is none, such as for complex numbers, strings and uint32.
    """
    # Half types have host type float32, so float16 is not in the table of host types.
    if array.dtype == np.float16:
        return float16
    dtype = _BY_NUMPY.get(array.dtype.newbyteorder("="))
    if dtype is None:
        raise ShapeError(
            f"a NumPy array of {array.dtype} cannot be converted to a tensor",
            hint="Convert it first, for example with array.astype(numpy.float32).",
        )
    return dtype


def promote(a: DType, b: DType) -> DType:
    """Return the type of the result of an operation on two tensors with dimensions, by PyTorch's promotion table.

    A floating-point type wins over integers and bool, whatever its width; two different half types give float32. A
    signed and an unsigned integer type give the signed one if it is wider, else the next wider signed type. The rules
    for numbers and for tensors without dimensions are not applied here.

    >>> import lazytensor as lt
    >>> lt.promote_types(lt.int32, lt.float16)
    lazytensor.float16
    """
    if a is b:
        return a
    if a.kind == "f" or b.kind == "f":
        # A floating-point type wins over any other, whatever its width.
        if a.kind != b.kind:
            return a if a.kind == "f" else b
        ranks = _FLOAT_RANK[a], _FLOAT_RANK[b]
        if ranks[0] == ranks[1]:
            return float32  # two different half types
        return a if ranks[0] > ranks[1] else b
    if a.kind == "b" or b.kind == "b":
        return b if a.kind == "b" else a
    return _promote_integers(a, b)


def _promote_integers(a: DType, b: DType) -> DType:
    """Return the common type of two different integer types: the wider one.

    If only one is signed and it is not wider than the other, return the next wider signed type.
    """
    if a.is_signed != b.is_signed:
        signed, unsigned = (a, b) if a.is_signed else (b, a)
        if _INTEGER_RANK[signed] > _INTEGER_RANK[unsigned]:
            return signed
        # Neither type can represent all values of the other, but the next wider signed type can.
        return {1: int16, 2: int32}[_INTEGER_RANK[unsigned]]
    return a if _INTEGER_RANK[a] > _INTEGER_RANK[b] else b


def wrap_integer(value: int, dtype: DType) -> int:
    """Return an integer converted to the integer type `dtype` as in C.

    The value is taken modulo 2 ** bits, and is negative for a signed type if the highest bit is set.
    """
    bits = 8 * dtype.itemsize
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if dtype.is_signed and low >> (bits - 1) else low


def can_hold(dtype: DType, least: float, largest: float) -> bool:
    """Return whether `dtype` can represent all numbers from `least` to `largest`, by PyTorch's overflow check.

    A floating-point type accepts every number that is not beyond its largest finite one; infinity and NaN are accepted,
    and rounding does not count. No integer type accepts NaN. An unsigned type accepts negative Python integers down to
    minus its maximum, which wrap around, but no negative float. `dtype` must not be bool.
    """
    if dtype.kind == "f":
        # Numbers in between are rounded; only finite numbers beyond the largest one do not fit.
        return not any(dtype.largest < abs(number) < math.inf for number in (least, largest))
    limits = np.iinfo(dtype.host)
    if not limits.min and isinstance(least, float | np.floating) and least < 0:
        return False
    # Negative integers wrap around in an unsigned type, so that `a + 255 * b` may be written as `a - b`.
    return bool((limits.min or -limits.max) <= least and largest <= limits.max)


def round_to(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Return a float32 array with every element rounded to the nearest value of the half type `dtype`, ties to even.

    Overflow gives infinity, NaN stays NaN, and subnormals are kept. If `dtype` is no half type, `array` itself is
    returned.
    """
    if not dtype.is_half:
        return array
    array = np.asarray(array, np.float32)
    if dtype is float16:
        with np.errstate(over="ignore"):
            return array.astype(np.float16).astype(np.float32)
    if dtype is bfloat16:
        return _round_bfloat16(array)
    return _round_generic(array, dtype)


def _round_bfloat16(array: np.ndarray) -> np.ndarray:
    """Return float32 numbers rounded to bfloat16, ties to even, as a new float32 array.

    It uses integer arithmetic on the bits. Overflow gives infinity, and NaN stays NaN.
    """
    bits = array.view(np.uint32)
    # Adding to the bits of a NaN may overflow, for which NumPy warns if the array is a scalar.
    with np.errstate(over="ignore"):
        rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(array), array, rounded.view(np.float32))


def _round_generic(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Round a float array to the nearest values of `dtype`, ties to even, and return them as float32.

    Values beyond the largest finite one become infinity; small values are rounded to subnormals. NaN and infinity
    stay as they are.
    """
    bias = 2 ** (dtype.exponent_bits - 1) - 1
    smallest, largest = 1 - bias, bias
    wide = array.astype(np.float64)
    _, exponent = np.frexp(np.where(np.isfinite(wide), wide, 1.0))
    spacing = np.exp2((np.maximum(exponent - 1, smallest) - dtype.mantissa_bits).astype(np.float64))
    rounded = np.rint(wide / spacing) * spacing
    limit = np.exp2(float(largest)) * (2 - np.exp2(float(-dtype.mantissa_bits)))
    with np.errstate(invalid="ignore"):
        rounded = np.where(np.abs(rounded) > limit, np.copysign(np.inf, wide), rounded)
    return np.where(np.isfinite(wide), rounded, wide).astype(np.float32)
