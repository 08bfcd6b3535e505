"""Functions of `torch` that are composed of others, queries about tensors, and constants."""

import inspect
import math
import warnings
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, NoReturn

from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.torch.storage import UntypedStorage
from lazytensor import arange, ones, randint, stack, tensor, zeros
from lazytensor import asarray as share_memory
from lazytensor.core import source
from lazytensor.core.dtype import DType, float32
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionInvalid, OptionMissing, ShapeError
from lazytensor.functional.creation_options import accept_creation_options
from lazytensor.functional.csx_refusals import with_refusals
from lazytensor.functional.type_promotion import default_dtype
from lazytensor.nn import functional

newaxis = None
has_mkl = has_lapack = has_openmp = has_spectral = True


def get_device(input: Tensor) -> int:
    """Return -1, the device index of the CPU."""
    return -1


def get_device_module(device: Any = None) -> ModuleType:
    """Return the module of a device, such as `torch.cpu`. An index after a colon is ignored, and None means the CPU.

    Types are cpu, cuda, xpu, mps and mtia; others raise RuntimeError.
    """
    kind = str(device or "cpu").partition(":")[0]
    if kind == "cpu":
        return get_mirror("torch.cpu")
    if kind in ("cuda", "xpu", "mps", "mtia"):
        return get_mirror(f"torch.{kind}")
    raise ShapeError(
        f"Invalid device module retrieved for device type {kind!r}", where=source.where(), hint='Pass "cpu".'
    )


def typename(obj: Any) -> str:
    """Return the type of a tensor, such as "torch.FloatTensor", or the qualified class name of another object.

    For a class or function, return its own qualified name.
    """
    if isinstance(obj, Tensor):
        return str(obj.type())
    # Use the name of a class or function itself, and of other objects that of their class.
    kind = obj if hasattr(obj, "__qualname__") and hasattr(obj, "__module__") else type(obj)
    module = "" if kind.__module__ in ("builtins", None) else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"


def is_inference(input: Tensor) -> bool:
    """Return whether the storage of `input` was created in inference mode."""
    return input.cell.is_inference


def is_distributed(input: Tensor) -> bool:
    """Return False."""
    return False


def compiled_with_cxx11_abi() -> bool:
    """Return True, as the packages of PyTorch 2.13."""
    return True


def range(start: float, end: float | None = None, step: float = 1, **kwargs: Any) -> Tensor:
    """Return the numbers from `start` to `end` inclusive in steps of `step`, as float32 unless `dtype` is given.

    With one argument they begin at 0. It issues PyTorch's deprecation warning.
    """
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use torch.arange, which produces values in [start, end).",
        UserWarning,
        stacklevel=2,
    )
    first, last = (0, start) if end is None else (start, end)
    # The end is included, unlike in arange.
    count = math.floor((last - first) / step) + 1
    return arange(count, dtype=kwargs.get("dtype") or float32) * step + first


def randint_like(
    input: Tensor, low: int, high: int | None = None, *, dtype: DType | None = None, **kwargs: Any
) -> Tensor:
    """Return random integers in [low, high) with the shape, dtype and device of `input`.

    With one limit, it is the upper one and the lower one is 0. `memory_format` has no effect.
    """
    first, last = (0, low) if high is None else (low, high)
    device = kwargs.pop("device", None) or input.device
    kwargs.pop("memory_format", None)
    return randint(first, last, tuple(input.shape), dtype=dtype or input.dtype, device=device, **kwargs)


def frombuffer(buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """Return `count` elements of a buffer, from byte `offset` on, as a vector that shares the buffer's memory.

    A negative `count` takes all remaining bytes. Elements of dtypes that NumPy does not have are copied. Raises
    ValueError for an empty buffer or a `count` of 0.
    """
    raw = memoryview(buffer).cast("B")
    if len(raw) == 0 or count == 0:
        raise OptionInvalid(
            f"both buffer length ({len(raw)}) and count ({count}) must not be 0",
            where=source.where(),
            hint="Pass a buffer that is not empty, and a count of at least 1.",
        )
    end = len(raw) if count < 0 else offset + count * dtype.itemsize
    return share_memory(raw[offset:end], dtype=dtype, requires_grad=requires_grad)


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool | None = None
) -> Tensor:
    """Return `obj` as a tensor, as `torch.asarray`. The bytes of a storage are copied as elements of `dtype`."""
    if isinstance(obj, UntypedStorage):
        return obj.as_tensor(dtype or float32)
    return share_memory(obj, dtype=dtype, device=device, copy=copy, requires_grad=requires_grad)


def empty_strided(size: Any, stride: Any, **kind: Any) -> Tensor:
    """Return a tensor of zeros with shape `size` and strides `stride`, in elements.

    Of `kind` only `dtype`, `device` and `requires_grad` are used.
    """
    requires_grad = kind.get("requires_grad", False)
    facts = {k: v for k, v in kind.items() if k in ("dtype", "device")}
    if 0 in size:
        return zeros(*size, **facts, requires_grad=requires_grad)
    last = sum((extent - 1) * step for extent, step in zip(size, stride, strict=True))
    return zeros(last + 1, **facts).as_strided(size, stride).detach().requires_grad_(requires_grad)


def empty_permuted(size: Any, physical_layout: Any, **kind: Any) -> Tensor:
    """Return a tensor of zeros with shape `size`, whose dimensions are stored in the order of `physical_layout`.

    The last dimension of `physical_layout` is contiguous.
    """
    stride, step = [0] * len(size), 1
    for dim in reversed(physical_layout):
        stride[dim], step = step, step * size[dim]
    return empty_strided(size, stride, **kind)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x1 A x2 + b for each output, as `torch.nn.functional.bilinear`."""
    return functional.bilinear(input1, input2, weight, bias)


pdist = functional.pdist


@partial(with_refusals, "vander")
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Return the Vandermonde matrix of the vector `x`: its powers as N columns, the highest power first.

    `N` is the length of `x` by default. `increasing` reverses the order of the columns.
    """
    count = x.shape[0] if N is None else N
    # 0 ** 0 must be 1, which a power by logarithms need not give.
    columns = [x**k if k else ones(x.shape, dtype=x.dtype) for k in arange(count).tolist()]
    return stack(columns if increasing else columns[::-1], -1)


def _with_creation_options(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return accept_creation_options(function, inspect.signature(function).parameters)


def _make_cosine_window(weights: tuple[float, ...]) -> Any:
    @_with_creation_options
    def window(window_length: int, periodic: bool = True, *, dtype: DType | None = None, device: Any = None) -> Tensor:
        if window_length < 2:
            return ones(window_length, dtype=dtype or default_dtype(), device=device)
        places = arange(window_length, dtype=dtype or default_dtype(), device=device)
        turns = places * (2 * math.pi / (window_length if periodic else window_length - 1))
        return sum(((-1) ** k * w * (turns * k).cos() for k, w in enumerate(weights[1:], 1)), zeros(()) + weights[0])

    return window


hann_window = _make_cosine_window((0.5, 0.5))
blackman_window = _make_cosine_window((0.42, 0.5, 0.08))


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **kind: Any
) -> Tensor:
    """Return the Hamming window alpha - beta * cos(2 pi n / N) of `window_length` elements.

    See `torch.hamming_window`.
    """
    window: Tensor = _make_cosine_window((alpha, beta))(window_length, periodic, **kind)
    return window


@_with_creation_options
def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: DType | None = None, device: Any = None
) -> Tensor:
    """Return a triangular window of `window_length` elements. See `torch.bartlett_window`.

    A window of one element is 1.
    """
    if window_length <= 1:
        return ones(window_length, dtype=dtype, device=device)
    size = window_length if periodic else window_length - 1
    return 1 - (arange(window_length, dtype=dtype or default_dtype(), device=device) * (2 / size) - 1).abs()


@_with_creation_options
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: DType | None = None,
    device: Any = None,
) -> Tensor:
    """Return the Kaiser window with parameter `beta`, given by the Bessel function I0. See `torch.kaiser_window`.

    A window of one element is 1.
    """
    if window_length <= 1:
        return ones(window_length, dtype=dtype, device=device)
    size = window_length if periodic else window_length - 1
    x = arange(window_length, dtype=dtype or default_dtype(), device=device) * (2 / size) - 1
    # Both values come from the same operation, so that the middle of the window is exactly 1.
    values: Tensor = ((1 - x * x).sqrt() * beta).i0() / tensor(beta).i0()
    return values


def refuse_complex(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise OptionMissing, because complex numbers are not supported."""
    raise OptionMissing(
        "complex numbers are not supported in this version",
        where=source.where(),
        hint="Compute with the real and the imaginary part as two tensors.",
    )
