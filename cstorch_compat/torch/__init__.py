"""What `import torch` finds: the names of lazytensor under PyTorch's spelling. Every other name explains itself."""

import builtins as _builtins
import math as _math
import sys

import lazytensor
from cstorch_compat.names import manifest
from cstorch_compat.torch import autograd, cuda, linalg, nn, optim, random, utils
from lazytensor import dtype as _dtype
from lazytensor.dtype import DType as dtype
from lazytensor.functions import promotion as _promotion
from lazytensor.functions import windows as _windows
from lazytensor.nn.functional import silu as _silu
from lazytensor.random import default_generator
from lazytensor.serialization import load, save
from lazytensor.tensor import Device as device
from lazytensor.tensor import Size, Tensor

_OWN = ("nn", "optim", "autograd", "random")  # modules with a mirror of their own
globals().update({name: getattr(lazytensor, name) for name in lazytensor.PUBLIC if name not in _OWN})

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
trace = _windows.trace  # lazytensor.trace is a module
zero_ = Tensor.zero_
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


manifest.explain_class("torch.Tensor", Tensor)
manifest.explain("torch", sys.modules[__name__])
