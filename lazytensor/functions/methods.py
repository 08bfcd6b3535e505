"""Which functions are methods of Tensor, which have an in-place form, and which operators they serve.

Each operation is written once; this table gives it its other spellings.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from lazytensor import dtype as dt
from lazytensor import printing, random, source
from lazytensor.dtype import DType
from lazytensor.errors import ShapeError
from lazytensor.functions import (
    activations,
    arrange,
    attention,
    contraction,
    convolution,
    creation,
    gathering,
    indexing,
    integers,
    interpolation,
    linalg,
    losses,
    margins,
    matrix,
    normalization,
    pooling,
    protocols,
    quantiles,
    randomness,
    reductions,
    resampling,
    scans,
    shapes,
    sorting,
    special,
    spectral,
    statistics,
    windows,
)
from lazytensor.functions import pointwise as pw
from lazytensor.functions.promotion import Operand, prepared
from lazytensor.functions.widening import published
from lazytensor.ops import const, full
from lazytensor.ops.elementwise import cast
from lazytensor.tensor import CPU, Device, Tensor

FAMILIES = (
    creation,
    pw,
    reductions,
    shapes,
    matrix,
    arrange,
    windows,
    integers,
    special,
    indexing,
    gathering,
    sorting,
    scans,
    contraction,
    statistics,
    linalg,
    activations,
    attention,
    convolution,
    interpolation,
    losses,
    margins,
    normalization,
    pooling,
    resampling,
    quantiles,
    spectral,
    protocols,
    randomness,
)
"""Each says by itself which of its functions are public names, methods of Tensor, and methods that write in place."""

OPERATORS = {
    "add": pw.add,
    "sub": pw.sub,
    "mul": pw.mul,
    "truediv": pw.div,
    "floordiv": pw.floor_divide,
    "mod": pw.remainder,
    "pow": pw.pow,
    "matmul": matrix.matmul,
    "and": integers.bitwise_and,
    "or": integers.bitwise_or,
    "xor": integers.bitwise_xor,
    "lshift": integers.bitwise_left_shift,
    "rshift": integers.bitwise_right_shift,
}
COMPARISONS = {"gt": pw.gt, "ge": pw.ge, "lt": pw.lt, "le": pw.le, "eq": pw.eq, "ne": pw.ne}
_OPERANDS = (Tensor, bool, int, float)


def _in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return assign(self, function(self, *args, **kwargs))

    method.__name__ = method.__qualname__ = f"{function.__name__}_"
    method.__doc__ = f"`{function.__name__}`, written back into this tensor."
    return method


def _operator(function: Callable[..., Tensor], reflected: bool) -> Callable[..., Any]:
    def method(self: Tensor, other: Any) -> Any:
        if not isinstance(other, _OPERANDS):
            if not isinstance(other, np.number | np.bool_):
                return NotImplemented
            other = other.item()
        return function(other, self) if reflected else function(self, other)

    return method


def assign(x: Tensor, value: Tensor) -> Tensor:
    """Write the result of an operation into x. Raises ShapeError if x would have to grow, or to lose its kind."""
    n = value.node
    if n.type != x.spec:
        if n.type.shape != x.spec.shape:
            raise ShapeError(
                f"output with shape {list(x.shape)} doesn't match the broadcast shape {list(value.shape)}",
                where=source.where(),
                hint="Write `x = x + y` for a result of another shape.",
            )
        if x.dtype.kind != "f" and value.dtype.kind not in (x.dtype.kind, "b"):
            raise ShapeError(
                f"result type {value.dtype.name} can't be cast to the desired output type {x.dtype.name}",
                where=source.where(),
                hint="Convert the tensor first, for example with .float().",
            )
        n = cast(n, x.dtype)
    x.write(n)
    return x


def copy_(x: Tensor, value: Operand, non_blocking: bool = False) -> Tensor:
    """Write the values of another tensor, converted and broadcast."""
    x.write(prepared(value, x.dtype, x.spec.shape))
    return x


def fill_(x: Tensor, value: Operand) -> Tensor:
    """Write one value everywhere."""
    return copy_(x, value)


def zero_(x: Tensor) -> Tensor:
    """Write zeros everywhere."""
    x.write(full(0, x.spec))
    return x


def uniform_(x: Tensor, a: float = 0.0, b: float = 1.0, generator: random.Generator | None = None) -> Tensor:
    """Write uniform random numbers from a to b."""
    x.write(const(random.chosen(generator).uniform(x.spec.shape, x.dtype, a, b), x.spec))
    return x


def normal_(x: Tensor, mean: float = 0.0, std: float = 1.0, generator: random.Generator | None = None) -> Tensor:
    """Write normal random numbers."""
    x.write(const(random.chosen(generator).normal(x.spec.shape, x.dtype, mean, std), x.spec))
    return x


def to(x: Tensor, *args: Any, dtype: DType | None = None, device: Any = None, copy: bool = False, **_: Any) -> Tensor:
    """x with another dtype, on another device, or both; x itself if nothing changes."""
    for a in args:
        if isinstance(a, DType):
            dtype = a
        elif isinstance(a, Tensor):
            dtype, device = a.dtype, a.device
        elif isinstance(a, Device | str):
            device = a
        elif not isinstance(a, bool):
            raise TypeError(
                f"to() received an invalid combination of arguments - got ({type(a).__name__}), but expected one of: "
                "a torch.device, a torch.dtype or another tensor"
            )
    out = pw.cast_to(x, dtype) if dtype is not None else x
    return _moved(pw.clone(out) if copy and out is x else out, device)


def _moved(x: Tensor, device: Any) -> Tensor:
    if device is None:
        return x
    target = device if isinstance(device, Device) else Device(device)
    target = CPU if target.type == "cpu" else target
    if target == x.device:
        return x
    if target is CPU:
        x.array(".to('cpu')")
    out = pw.clone(x)
    out.device = target
    return out


def cpu(x: Tensor) -> Tensor:
    """x on the CPU."""
    return _moved(x, CPU)


def size(x: Tensor, dim: int | None = None) -> Any:
    """The shape, or one extent."""
    return x.shape if dim is None else x.shape[dim]


def type_as(x: Tensor, other: Tensor) -> Tensor:
    """x with the dtype of another tensor."""
    return pw.cast_to(x, other.dtype)


def _converter(name: str, dtype: DType) -> Callable[[Tensor], Tensor]:
    def method(self: Tensor) -> Tensor:
        return pw.cast_to(self, dtype)

    method.__name__, method.__doc__ = name, f"x as {dtype.name}."
    return method


def _new(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def method(self: Tensor, *args: Any, dtype: DType | None = None, device: Any = None, **kwargs: Any) -> Tensor:
        return function(*args, dtype=dtype or self.dtype, device=device or self.device, **kwargs)

    return method


def attach() -> None:
    """Give Tensor its methods."""
    for family in FAMILIES:
        for name in family.METHODS.split():
            setattr(Tensor, name, published(name, getattr(family, name)))
        for name in family.IN_PLACE.split():
            setattr(Tensor, f"{name}_", _in_place(getattr(family, name)))
    for name, function in OPERATORS.items():
        setattr(Tensor, f"__{name}__", published(f"__{name}__", _operator(function, False)))
        setattr(Tensor, f"__r{name}__", published(f"__r{name}__", _operator(function, True)))
        setattr(Tensor, f"__i{name}__", _in_place(function))
    for name, function in COMPARISONS.items():
        setattr(Tensor, f"__{name}__", _operator(function, False))
    for name, dtype in _CONVERSIONS.items():
        setattr(Tensor, name, _converter(name, dtype))
    for name in ("zeros", "ones", "full", "empty", "tensor"):
        setattr(Tensor, f"new_{name}", _new(getattr(creation, name)))
    for name, function in _OTHERS.items():
        setattr(Tensor, name, function)


_CONVERSIONS = {
    "float": dt.float32,
    "double": dt.float64,
    "half": dt.float16,
    "bfloat16": dt.bfloat16,
    "long": dt.int64,
    "int": dt.int32,
    "short": dt.int16,
    "char": dt.int8,
    "byte": dt.uint8,
    "bool": dt.bool_,
}
_OTHERS: dict[str, Any] = {
    "__neg__": pw.neg,
    "__pos__": lambda x: x,
    "__abs__": pw.abs,
    "__invert__": integers.bitwise_not,
    "__getitem__": indexing.getitem,
    "__setitem__": indexing.setitem,
    "__repr__": printing.text,
    "copy_": copy_,
    "fill_": fill_,
    "zero_": zero_,
    "uniform_": uniform_,
    "normal_": normal_,
    "to": to,
    "cpu": cpu,
    "size": size,
    "type_as": type_as,
    "dim": lambda x: x.ndim,
    "ndimension": lambda x: x.ndim,
    "numel": lambda x: x.spec.size,
    "nelement": lambda x: x.spec.size,
    "element_size": lambda x: x.dtype.itemsize,
    "is_floating_point": lambda x: x.dtype.is_floating_point,
    "T": property(lambda x: shapes.permute(x, tuple(reversed(range(x.ndim))))),
    "mT": property(windows.transposed),
    "mH": property(windows.transposed),
    "H": property(windows.adjoint),
    "where": lambda x, condition, other: pw.where(condition, x, other),
    "subtract": pw.sub,
    "multiply": pw.mul,
    "divide": pw.div,
    "clip": pw.clamp,
    "absolute": pw.abs,
}
attach()
