"""What `import torch` finds: the names of lazytensor under PyTorch's spelling. Every other name explains itself."""

import builtins as _builtins
import math as _math
import sys

from numpy import allclose as _allclose

import lazytensor
from cstorch_compat import manifest
from cstorch_compat.torch import cuda, nn, optim, utils
from lazytensor import dtype as _dtype
from lazytensor.dtype import DType as dtype
from lazytensor.functions import promotion as _promotion
from lazytensor.nn.functional import silu as _silu
from lazytensor.tensor import Device as device
from lazytensor.tensor import Size, Tensor

globals().update({name: getattr(lazytensor, name) for name in lazytensor.PUBLIC if name not in ("nn", "optim")})

bool = _dtype.bool_
float, double, half = _dtype.float32, _dtype.float64, _dtype.float16
long, int, short = _dtype.int64, _dtype.int32, _dtype.int16
concat = concatenate = lazytensor.cat
subtract, multiply, divide, absolute, clip = (
    lazytensor.sub,
    lazytensor.mul,
    lazytensor.div,
    lazytensor.abs,
    lazytensor.clamp,
)
silu = _silu
inf, nan, pi, e = _math.inf, _math.nan, _math.pi, _math.e
strided, contiguous_format, preserve_format, channels_last = (
    "torch.strided",
    "torch.contiguous_format",
    "torch.preserve_format",
    "torch.channels_last",
)
get_default_dtype = _promotion.default_dtype
__version__ = "2.4.0"


def is_tensor(obj: object) -> _builtins.bool:
    """Whether an object is a tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> _builtins.bool:
    """Whether a tensor holds floating-point numbers."""
    return input.dtype.is_floating_point


def numel(input: Tensor) -> _builtins.int:
    """The number of elements."""
    return input.spec.size


def equal(input: Tensor, other: Tensor) -> _builtins.bool:
    """Whether two tensors have the same shape and values."""
    return input.shape == other.shape and (input.array() == other.array()).all().item()


def allclose(
    input: Tensor,
    other: Tensor,
    rtol: _builtins.float = 1e-5,
    atol: _builtins.float = 1e-8,
    equal_nan: _builtins.bool = False,
) -> _builtins.bool:
    """Whether all elements differ by at most atol + rtol * |other|."""
    return _allclose(input.array(), other.array(), rtol=rtol, atol=atol, equal_nan=equal_nan)


manifest.explain_class("torch.Tensor", Tensor)
manifest.explain("torch", sys.modules[__name__])
