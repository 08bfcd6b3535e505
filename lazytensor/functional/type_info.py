"""Limits of the number types, as `finfo` and `iinfo` report them."""

import math

import numpy as np

from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.errors import ArgumentInvalid
from lazytensor.functional.type_promotion import default_dtype


class _Limits:
    """The base of `finfo` and `iinfo`. Two objects are equal if their class and dtype are."""

    dtype: str

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash((type(self), self.dtype))


class finfo(_Limits):
    """The limits of a floating-point dtype, by default the default dtype. Raises TypeError for another dtype.

    - `dtype`: its name.
    - `bits`: the size of an element in bits.
    - `eps`: the distance from 1 to the next number.
    - `max`, `min`: the largest and the smallest finite number.
    - `tiny`, `smallest_normal`: the smallest positive normal number.
    - `resolution`: 10 to the power of minus the number of exact decimal digits.

    >>> import lazytensor as lt
    >>> lt.finfo(lt.float16).max
    65504.0
    """

    def __init__(self, type: DType | None = None):
        type = default_dtype() if type is None else type
        if not isinstance(type, DType) or not (type.is_floating_point or type.kind == "f"):
            raise ArgumentInvalid(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'",
                where=source.where(),
                hint="Pass a floating-point dtype such as torch.float32.",
            )
        self.dtype = type.name
        self.bits = 8 * type.itemsize
        self.eps = 2.0**-type.mantissa_bits
        self.max = type.largest
        self.min = -type.largest
        self.smallest_normal = self.tiny = type.smallest_normal
        # The number of exact decimal digits is floor(mantissa bits * log10(2)).
        self.resolution = 10.0 ** -math.floor(type.mantissa_bits * math.log10(2))

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        limits = ", ".join(f"{n}={getattr(self, n):g}" for n in names)
        return f"finfo({limits}, dtype={self.dtype})"


class iinfo(_Limits):
    """The limits of an integer dtype: `dtype` (its name), `bits`, `max` and `min`. Raises TypeError for another dtype.

    >>> import lazytensor as lt
    >>> lt.iinfo(lt.int8).max
    127
    """

    def __init__(self, type: DType):
        if not isinstance(type, DType) or type.kind == "f":
            raise ArgumentInvalid(
                "torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'",
                where=source.where(),
                hint="Pass an integer dtype such as torch.int64.",
            )
        if type.kind == "b":
            raise ArgumentInvalid(
                "torch.bool is not supported by torch.iinfo",
                where=source.where(),
                hint="Pass an integer dtype such as torch.uint8.",
            )
        limits = np.iinfo(type.host)
        self.dtype = type.name
        self.bits = 8 * type.itemsize
        self.max, self.min = int(limits.max), int(limits.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
