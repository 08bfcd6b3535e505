"""Dtypes that exist only as names, because scripts and libraries list them. No tensor has such a dtype.

They are complex, quantized, 8-bit floating-point and uncommon integer types. An attempt to create such a tensor raises
OptionMissing. Sizes and kinds are those of PyTorch 2.13.0.
"""

from typing import Any

from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.errors import OptionMissing

DTYPE_TABLE = """
c complex32=chalf:4 complex64=cfloat:8 complex128=cdouble:16
f float8_e5m2:1 float8_e4m3fn:1 float8_e5m2fnuz:1 float8_e4m3fnuz:1 float8_e8m0fnu:1 float4_e2m1fn_x2:1
u uint32:4 uint64:8 uint1=bit:1 uint2:1 uint3:1 uint4:1 uint5:1 uint6:1 uint7:1
s int1:1 int2:1 int3:1 int4:1 int5:1 int6:1 int7:1
q qint8:1 quint8:1 qint32:4 quint4x2:1 quint2x4:1 bits1x8:1 bits2x4:1 bits4x2:1 bits8:1 bits16:2
"""
"""One line for each kind: its letter, then "name=alias:bytes" for each dtype.

The letters are c (complex), f (floating point), u (unsigned integer), s (signed integer) and q (quantized).
"""
FLOAT_LIMITS = {
    "float8_e4m3fn": (3, 448.0, 2.0**-6),
    "float8_e5m2": (2, 57344.0, 2.0**-14),
    "float8_e4m3fnuz": (3, 240.0, 2.0**-7),
    "float8_e5m2fnuz": (2, 57344.0, 2.0**-15),
}
"""The mantissa bits, the largest and the smallest normal number of dtypes that `torch.finfo` describes."""
DTYPE_WORKAROUNDS = {
    "c": "Compute with the real and the imaginary part as two tensors.",
    "f": "Use float16 or bfloat16, the narrowest floating-point types that are supported.",
    "u": "Use int64, or uint8 or uint16 if the values fit.",
    "s": "Use int8, the narrowest integer type that is supported.",
    "q": "Train in float32 or bfloat16, because quantized types are not supported.",
}
"""The hint of the error for each kind of dtype."""


class AbsentDtype(DType):
    """A dtype that has a name, a size and comparisons, but no tensors."""

    def __init__(self, name: str, itemsize: int, kind: str):
        # DType is read-only, and there is no array type for the attribute `host`.
        facts = {"name": name, "itemsize": itemsize, "mantissa_bits": 0, "exponent_bits": 0, "mlir": ""}
        if name in FLOAT_LIMITS:
            facts["mantissa_bits"] = FLOAT_LIMITS[name][0]
        for key, value in (*facts.items(), ("_letter", kind)):
            object.__setattr__(self, key, value)

    _letter: str

    def __getattr__(self, name: str) -> Any:
        """Raise OptionMissing for the attributes `host` and `kind`, which every use of the dtype needs.

        Others raise AttributeError.
        """
        if name in ("host", "kind"):
            hint = DTYPE_WORKAROUNDS[self._letter]
            raise OptionMissing(
                f"tensors of {self!r} are not supported in this version", where=source.where(), hint=hint
            )
        raise AttributeError(f"'torch.dtype' object has no attribute {name!r}")

    def _get_limits(self) -> tuple[int, float, float]:
        return FLOAT_LIMITS[self.name] if self.name in FLOAT_LIMITS else self.__getattr__("kind")

    @property
    def largest(self) -> float:
        """Return the largest finite number. Raises OptionMissing for a dtype that is not in FLOAT_LIMITS."""
        return self._get_limits()[1]

    @property
    def smallest_normal(self) -> float:
        """Return the smallest positive normal number. Raises OptionMissing for a dtype that is not in FLOAT_LIMITS."""
        return self._get_limits()[2]

    @property
    def is_floating_point(self) -> bool:
        """Return whether it is a floating-point type."""
        return self._letter == "f"

    @property
    def is_complex(self) -> bool:
        """Return whether it is a complex type."""
        return self._letter == "c"

    @property
    def is_signed(self) -> bool:
        """Return whether it can represent negative numbers."""
        return self._letter in "cs" or (self._letter == "f" and self.name != "float8_e8m0fnu")

    @property
    def is_half(self) -> bool:
        """Return False. All half types are supported dtypes."""
        return False


def _make_dtypes() -> dict[str, DType]:
    """Return the dtypes of `DTYPE_TABLE` by name and alias. An alias refers to the same object."""
    types: dict[str, DType] = {}
    for line in DTYPE_TABLE.split("\n"):
        kind, *words = line.split() or [""]
        for word in words:
            names, _, size = word.partition(":")
            name, _, other = names.partition("=")
            types[name] = AbsentDtype(name, int(size), kind)
            if other:
                types[other] = types[name]
    return types


ABSENT_DTYPES = _make_dtypes()
ABSENT_DTYPE_NAMES = tuple(ABSENT_DTYPES)


def __getattr__(name: str) -> Any:
    if name in ABSENT_DTYPES:
        return ABSENT_DTYPES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
